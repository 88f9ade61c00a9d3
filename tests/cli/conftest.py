"""Command lines against a queue manager that serves in a thread of the test."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from posthouse.cli import main
from tests.client.serving import Serving, serving


class Result(NamedTuple):
    """What a command line did."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """Its output, where it is lines of JSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def value(self) -> Any:
        """The one line of JSON that it printed."""
        (line,) = self.lines
        return line


Posthouse = Callable[..., Result]


class Typed(io.TextIOWrapper):
    """Standard input; at a terminal or not."""

    def __init__(self, data: bytes, terminal: bool) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("home") / "alpha") as running:
        yield running


@pytest.fixture
def posthouse(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Posthouse:
    """Runs a command line; `stdin` is what it reads, `terminal` whether a person types it."""

    def run(*words: str | Path, stdin: bytes = b"", terminal: bool = False) -> Result:
        monkeypatch.setattr(sys, "stdin", Typed(stdin, terminal))
        capsys.readouterr()
        code = main.run([str(word) for word in words])
        said = capsys.readouterr()
        return Result(code, said.out, said.err)

    return run


@pytest.fixture
def ph(server: Serving, posthouse: Posthouse, monkeypatch: pytest.MonkeyPatch) -> Posthouse:
    """The same, about the queue manager of the module."""
    monkeypatch.setenv("POSTHOUSE_HOME", str(server.home))
    return posthouse


@pytest.fixture
def usual_interrupt() -> Iterator[None]:
    """Have SIGINT raise KeyboardInterrupt, whatever the tests before have left as its handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    if before is not None:  # else it was not set by Python
        signal.signal(signal.SIGINT, before)


# -- outputs that fail

OUTPUT_MODES = ([], ["--json"], ["--raw"], ["--format", "{body_text}"], ["--out", "."])


def closed_pipe() -> io.TextIOWrapper:
    """An output whose reader is gone."""
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")


def full_device() -> io.TextIOWrapper:
    """An output without room."""
    return Path("/dev/full").open("w")


def run_into(stream: io.TextIOWrapper, *words: str) -> int:
    """The exit code of a command line with this output."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        code = main.run(words)
    with contextlib.suppress(OSError):
        stream.close()
    return code
