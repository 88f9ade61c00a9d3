"""docs/moving-from-msmq.md: its commands and its Python, with another queue manager as Windows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import posthouse as client
from posthouse.cli import main
from posthouse.cli.verbs import commands
from tests.cli.conftest import Posthouse
from tests.cli.page_lines import DOCS, blocks_of, lines_of, run_line
from tests.client.read_serving import PASSWORD, USER, read_serving

PAGE = "moving-from-msmq.md"
FAR = {"winhost": "localhost", "CORP\\me": USER}


def test_the_steps_work_as_printed(
    ph: Posthouse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "password.txt").write_text(f"{PASSWORD}\n")
    with read_serving() as windows:
        with client.connect(windows.home) as qm:
            orders = qm.create_queue(r".\private$\orders", transactional=True)
            grant = {"who": USER, "rights": ["full"]}
            qm.call("POST", "/queues/.%5Cprivate$%5Corders/access/grant", grant)
            body = b"<?xml version='1.0'?><string>order 17</string>"
            orders.send_many([body] * 3, label="order", transactional=True)
        for step, lines in lines_of(PAGE).items():
            for line in lines:
                if "--user" in line:
                    ports = ["--rpc-port", str(windows.rpc_port)]
                    if "migrate" in line:
                        ports += ["--binary-port", str(windows.binary_port)]
                    done = run_line(ph, line, FAR, *ports)
                else:
                    done = run_line(ph, line, {})
                assert done.code == 0, (step, line, done)
            if step.startswith("Step 3"):
                assert windows_is_empty(windows.home)
            for code in python_of(step):
                exec(compile(code, PAGE, "exec"), {})
                assert capsys.readouterr().out == "order: order 17\n"
    with client.connect() as qm:
        assert qm.queue(r".\private$\orders").count() == 2


def windows_is_empty(home: Path) -> bool:
    with client.connect(home) as qm:
        return qm.queue(r".\private$\orders").count() == 0


def python_of(step: str) -> list[str]:
    text = (
        (DOCS / PAGE).read_text(encoding="utf-8").partition(f"## {step}")[2].partition("\n## ")[0]
    )
    return re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)


def test_every_command_in_the_tables_exists() -> None:
    known = {name for name, _ in commands(main.program(), "posthouse")}
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    named = re.findall(r"`(posthouse [a-z]+(?: [a-z]+)?)", text)
    missing = {one for one in named if one not in known and one.rsplit(" ", 1)[0] not in known}
    assert missing == {"posthouse queue", "posthouse message"}  # nouns, in the table of terms


def test_every_name_of_the_client_in_the_table_exists() -> None:
    text = (DOCS / PAGE).read_text(encoding="utf-8").partition("| `System.Messaging` |")[2]
    methods = set(re.findall(r"`(?:await )?queue\.(\w+)\(", text.partition("\n\n")[0]))
    shown = {name for name in methods if name[0].islower()}
    assert {"send", "receive", "peek", "lookup", "browse", "cursor"} <= shown
    assert {name for name in shown if not hasattr(client.Queue, name)} == set()
    for name in re.findall(r"`posthouse\.([A-Z]\w+)`", text):
        assert hasattr(client, name), name


@pytest.mark.peer("mono")
def test_the_code_of_dotnet_compiles(tmp_path: Path) -> None:
    """Real MSMQ runs it; here the compiler and the reference of System.Messaging accept it."""
    blocks = blocks_of(PAGE, "csharp")
    assert len(blocks) == 2
    methods = "".join(f"static void M{n}() {{\n{code}}}\n" for n, code in enumerate(blocks))
    source = tmp_path / "Page.cs"
    source.write_text(f"using System; using System.Messaging;\nclass Page {{\n{methods}}}\n")
    done = subprocess.run(
        ["mcs", "-target:library", "-r:System.Messaging", f"-out:{tmp_path}/page.dll", str(source)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
