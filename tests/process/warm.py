"""Real processes that start fast: the program is loaded once, servers and clients are forked.

Run as a program it is the loaded process, one for all tests of a worker: each line it reads is a
`Question`, each line that it writes the answer, a number.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from functools import cache
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

START_S = 60.0
_POLL_S = 0.005
_RUNS = -1
_PROGRAM = ("posthouse.cli.main", "posthouse.cli.serve", "posthouse.runtime.endpoints")


class Question(msgspec.Struct):
    """What the loaded process is to do."""

    load: list[str] = []  # modules; the answer is 0
    fork: list[str] = []  # the module to `run` in a child, and its arguments; its process id
    ended: int = 0  # a child; the status that it ended with, or _RUNS
    # Of the child: it is as if the test itself had started it.
    errors: str = ""
    folder: str = ""
    environment: dict[str, str] = {}
    files_max: tuple[int, int] = (0, 0)


class Nursery:
    """The loaded process, as tests see it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.process.warm"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def ask(self, question: Question) -> int:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with self._lock:
            process.stdin.write(msgspec.json.encode(question) + b"\n")
            answer = process.stdout.readline()
        assert answer, "the loaded process ended; it has said why"
        return int(answer)


@cache
def nursery() -> Nursery:
    """The one of this worker; it ends with it."""
    return Nursery()


class Loaded:
    """The processes of one test, forked from one that has loaded some modules."""

    def __init__(self, folder: Path, *modules: str) -> None:
        self.errors = folder / "stderr.txt"
        self.errors.touch()
        self._children: set[int] = set()
        nursery().ask(Question(load=list(modules)))

    def fork(self, module: str, *arguments: str) -> int:
        """The process id of a child that does what the module is for."""
        question = Question(
            fork=[module, *arguments],
            errors=str(self.errors),
            folder=str(Path.cwd()),
            environment=dict(os.environ),
            files_max=resource.getrlimit(resource.RLIMIT_NOFILE),
        )
        pid = nursery().ask(question)
        self._children.add(pid)
        return pid

    def wait(self, pid: int) -> int:
        """How a child ended, as `subprocess` tells it."""
        while (status := nursery().ask(Question(ended=pid))) == _RUNS:
            time.sleep(_POLL_S)
        self._children.discard(pid)
        return os.waitstatus_to_exitcode(status)

    def kill(self, pid: int) -> None:
        """As `kill -9` does."""
        os.kill(pid, signal.SIGKILL)
        assert self.wait(pid) == -signal.SIGKILL, self.errors.read_text()

    def close(self) -> None:
        """Its children are gone by now, or go now."""
        for pid in list(self._children):
            os.kill(pid, signal.SIGKILL)
            self.wait(pid)


class WarmServer:
    """One home and one server on it at a time, killed and started as often as one likes."""

    def __init__(self, folder: Path, *modules: str, program: str = "posthouse.cli.main") -> None:
        self.home = folder / "home"
        self.pid = 0
        self._ready_file = folder / "ready.json"
        self._program = program
        self.arguments = ["serve", "--home", str(self.home), "--ports", "ephemeral"]
        self.arguments += ["--ready-file", str(self._ready_file)]
        self.loaded = Loaded(folder, *_PROGRAM, program, *modules)

    def start(self) -> None:
        """Returns when it is ready."""
        assert not self.pid
        self._ready_file.unlink(missing_ok=True)
        self.pid = self.loaded.fork(self._program, *self.arguments)
        until = time.monotonic() + START_S
        while not self._ready_file.exists():
            assert time.monotonic() < until, "not ready: " + self.loaded.errors.read_text()
            time.sleep(_POLL_S)

    def kill(self) -> None:
        """As `kill -9` does."""
        pid, self.pid = self.pid, 0
        self.loaded.kill(pid)

    def stop(self) -> None:
        """A clean stop."""
        pid, self.pid = self.pid, 0
        os.kill(pid, signal.SIGTERM)
        assert self.loaded.wait(pid) == 0, self.loaded.errors.read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.pid:
            self.kill()
        self.loaded.close()


def main() -> None:
    """Forks until nobody asks for more."""
    children: set[int] = set()
    for line in sys.stdin.buffer:
        question = msgspec.json.decode(line, type=Question)
        answer = 0
        for module in question.load:
            import_module(module)
        if question.ended:
            pid, status = os.waitpid(question.ended, os.WNOHANG)
            answer = status if pid else _RUNS
            children.discard(pid)
        elif question.fork:
            answer = os.fork()
            if not answer:
                _be(question)
            children.add(answer)
        os.write(1, b"%d\n" % answer)
    for child in children:
        os.kill(child, signal.SIGKILL)


def _be(question: Question) -> None:
    """What a child does."""
    module, *arguments = question.fork
    os.environ.clear()
    os.environ.update(question.environment)
    os.chdir(question.folder)
    resource.setrlimit(resource.RLIMIT_NOFILE, question.files_max)
    errors = os.open(question.errors, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDWR)
    for target, source in enumerate((nothing, nothing, errors)):
        os.dup2(source, target)
    os.close(errors)
    os.close(nothing)
    code = 1
    try:
        code = import_module(module).run(arguments)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
