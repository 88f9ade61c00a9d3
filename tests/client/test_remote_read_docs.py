"""Every example of docs/remote-read.md runs: those for Python, and those for the command line."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

import posthouse
from posthouse.cli import main
from tests.cli.conftest import Typed
from tests.client.read_serving import PASSWORD, USER, ReadServing, read_serving

PAGE = Path(__file__).parents[2] / "docs" / "remote-read.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)
LINES = [
    line for block in re.findall(r"^```sh\n(.*?)^```$", TEXT, re.M | re.S)
    for line in block.splitlines()
]  # fmt: skip


def orders_of(server: ReadServing, *bodies: str) -> None:
    """The queue of the examples, with messages."""
    with posthouse.connect(server.home) as qm:
        orders = qm.create_queue(r".\private$\orders", exist_ok=True)
        grant = {"who": USER, "rights": ["full"]}
        qm.call("POST", "/queues/.%5Cprivate$%5Corders/access/grant", grant)
        orders.send_many([posthouse.Draft(body, label=f"order {body}") for body in bodies])


def test_every_example_in_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with read_serving() as server:
        orders_of(server, *map(str, range(1, 9)))
        names = {"password": PASSWORD, "rpc_port": server.rpc_port}
        for block in BLOCKS:
            exec(compile(block, str(PAGE), "exec"), names)
        names["far"].close()  # type: ignore[attr-defined]
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == ["order 1", "1", "['2', '3', '4', '5', '6', '7', '8']"]
    assert [line.split()[1] for line in said[3:5]] == ["2", "3"]
    assert said[5:] == ["1", "5", "6", "7", "8"]


def test_every_example_of_the_command_line_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert len(LINES) == 8
    monkeypatch.chdir(tmp_path)
    with read_serving() as server:
        orders_of(server, *map(str, range(1, 9)))
        with posthouse.connect(server.home) as qm:
            qm.queue(r".\private$\orders").send("late", priority=0)
        monkeypatch.setenv("POSTHOUSE_HOME", str(server.home))
        for line in LINES:
            words = shlex.split(line.replace("winhost", "localhost").replace("CORP\\me", USER))
            if "<" in words:
                words = words[: words.index("<")]
            if "--user" in words:
                words += ["--rpc-port", str(server.rpc_port)]
            monkeypatch.setattr(sys, "stdin", Typed(f"{PASSWORD}\n".encode(), False))
            assert main.run(words[1:]) == 0, capsys.readouterr().err
        said = capsys.readouterr()
        assert '"body_text":"1"' in said.out
        assert "Moved 1 message." in said.out
        assert ";poison with 1 message." in said.out
        with posthouse.connect(server.home) as qm:
            assert qm.queue(r".\private$\orders").count() == 0
    written = [file.read_text("utf-16-le") for file in sorted(tmp_path.glob("orders/*.body"))]
    assert written == ["5", "6", "7", "8"]


def test_every_name_is_on_the_page() -> None:
    public = {
        name
        for kind in (posthouse.RemoteQueue, posthouse.RemoteCursor, posthouse.RemoteConsumer)
        for part in kind.__mro__
        for name in vars(part)
        if not name.startswith("_")
    }
    sending = {"send", "send_many"}
    assert {name for name in public - sending if not re.search(rf"\b{name}\b", TEXT)} == set()
