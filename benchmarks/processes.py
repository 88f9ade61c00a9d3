"""Other processes of a run: started, listened to, killed. None outlives the run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Process = subprocess.Popen[str]


@contextmanager
def started(
    command: Sequence[str],
    *,
    log: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Process]:
    """A process in a session of its own, so that Ctrl-C is for us alone; killed at the end.

    With `log` all its output goes there, else there are pipes. Signals wait while it is being made:
    one in between would leave a process running without an owner.
    """
    process: Process | None = None
    try:
        with _signals_put_off():
            process = _make(command, log, environment)
        yield process
    finally:
        if process is not None:
            kill(process)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with suppress(BrokenPipeError):  # words that it did not read
                        pipe.close()


@contextmanager
def _signals_put_off() -> Iterator[None]:
    """Not by blocking them, which the new process would inherit."""
    came: list[int] = []
    before = {each: signal.signal(each, lambda number, _: came.append(number)) for each in ENDINGS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)


def _make(
    command: Sequence[str], log: Path | None, environment: Mapping[str, str] | None
) -> Process:
    make = partial(
        subprocess.Popen[str],
        command,
        cwd=ROOT,
        env=None if environment is None else {**os.environ, **environment},
        text=True,
        start_new_session=True,
    )
    if log is None:
        return make(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with log.open("ab") as file:
        return make(stdin=subprocess.DEVNULL, stdout=file, stderr=file)


def kill(process: Process) -> None:
    """kill -9 for it and what it started; gone when this returns."""
    if process.poll() is None:
        with suppress(ProcessLookupError):  # it ended between the two lines
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Child:
    """A process that reports in lines of JSON; see `benchmarks.child`."""

    def __init__(self, role: str, process: Process, began: float) -> None:
        self.role = role
        self.began = began
        self._process = process

    def report(self, key: str, on_done: Callable[[int], None] | None = None) -> dict[str, Any]:
        """The next report that has this field; reports of progress go to `on_done`."""
        process = self._process
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            fields: dict[str, Any] = json.loads(line)
            if key in fields:
                return fields
            if on_done is not None and "done" in fields:
                on_done(fields["done"])
        raise self._ended_early()

    def tell(self, words: str) -> None:
        """One line for its standard input."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(words + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended_early() from None

    def _ended_early(self) -> RuntimeError:
        """How, and the last that it printed."""
        assert self._process.stderr is not None
        said = self._process.stderr.read().strip() or "it printed no reason"
        code = self._process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return RuntimeError(f"the process for '{self.role}' ended early ({how}): {said}")

    def kill(self) -> None:
        """kill -9."""
        kill(self._process)


@contextmanager
def child(role: str, *arguments: str) -> Iterator[Child]:
    """A child with this role; `began` is on the clock that all processes of a machine share."""
    began = time.monotonic()
    with started([sys.executable, "-m", "benchmarks.child", role, *arguments]) as process:
        yield Child(role, process, began)
