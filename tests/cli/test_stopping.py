"""Ctrl-C in a command that works on many messages: how far it came, and how to go on."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Posthouse, Result
from tests.cli.moving import Moving, far_machine
from tests.client.read_serving import ReadServing
from tests.client.serving import Serving

Advance = Callable[[int, int], None]
IN, OUT = "./private$/stop-in", "./private$/stop-out"
MODULES = {
    "message": "posthouse.cli.messages.command",
    "file": "posthouse.cli.messages.files",
    "return": "posthouse.cli.messages.failures",
    "migrate": "posthouse.cli.migrate.pull",
}


class Stop:
    """Sends SIGINT when a command shows its progress for the nth time; once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._left = 0

    def __call__(self, module: str, at: int = 1) -> None:
        self._left = at
        self._monkeypatch.setattr(f"{MODULES[module]}.bar", self._bar)

    @contextmanager
    def _bar(self, what: str, total: int, *, quiet: bool = False) -> Iterator[Advance]:
        def advance(done: int, in_all: int) -> None:
            self._left -= 1
            if not self._left:
                signal.raise_signal(signal.SIGINT)

        yield advance


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch, usual_interrupt: None) -> Stop:
    return Stop(monkeypatch)


@pytest.fixture
def filled(ph: Posthouse) -> Posthouse:
    for queue in (IN, OUT):
        ph("queue", "create", queue)
        ph("queue", "purge", queue, "--yes")
    assert ph("send", IN, "--body", "x", "--count", "2500").code == 0
    return ph


def counts(ph: Posthouse) -> list[int]:
    return [ph("queue", "show", queue, "--json").value["messages"] for queue in (IN, OUT)]


def last(done: Result) -> str:
    assert done.code == 130
    return done.err.splitlines()[-1]


def test_a_move_is_continued_by_the_same_command(filled: Posthouse, stop: Stop) -> None:
    stop("message")
    words = ("message", "move", IN, OUT)
    said = last(filled(*words))
    assert said.startswith("Moved 1,000 to 2,000 of 2,500 messages. Run it again to continue")
    assert "Moved 1,500 messages." in filled(*words).out
    assert counts(filled) == [0, 2500]


def test_a_copy_says_that_it_would_copy_all_of_them_again(filled: Posthouse, stop: Stop) -> None:
    stop("message")
    said = last(filled("message", "copy", IN, OUT))
    assert said.startswith("Copied 1,000 to 2,000 of 2,500 messages. Running it again copies all")
    assert OUT in said
    assert counts(filled) == [2500, 1000]
    stop("message")
    dry = last(filled("message", "copy", IN, OUT, "--dry-run"))
    assert dry == "Stopped. Nothing was changed."


def test_an_export_leaves_no_file(filled: Posthouse, stop: Stop, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    stop("file", 7)
    said = last(filled("message", "export", IN, file))
    assert said == f"Stopped after 7 of 2,500 messages, and {file} was not written. Run it again."
    assert list(tmp_path.iterdir()) == []


def test_an_import_says_what_it_has_sent(filled: Posthouse, stop: Stop, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    assert filled("message", "export", IN, file).code == 0
    stop("file", 2)
    said = last(filled("message", "import", file, OUT))
    assert said.startswith("Sent 1,000 to 1,500 of 2,500 messages, in the order of the file.")
    assert "import only the lines that are not in" in said
    assert counts(filled) == [2500, 1000]


@pytest.fixture(scope="module")
def far() -> Iterator[ReadServing]:
    with far_machine() as server:
        yield server


def test_a_pull_says_how_far_it_came(
    far: ReadServing, server: Serving, posthouse: Posthouse, tmp_path: Path, stop: Stop
) -> None:
    moving = Moving(far, server, posthouse, tmp_path)
    moving.create(*[b"%d" % at for at in range(200)])
    moving.ours.create_queue(moving.path)
    stop("migrate", 2)
    done = moving("pull", moving.source, *moving.login())
    assert re.fullmatch(
        rf"127.0.0.1: .*{moving.name}: 128 of 200 moved. Run it again to continue: no message is "
        "taken twice.",
        last(done),
    ), done.err
    assert "moved 72 messages" in moving("pull", moving.source, *moving.login()).out
    assert len(moving.bodies()) == 200
    moving.close()
