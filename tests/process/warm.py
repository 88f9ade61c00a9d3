"""Real processes that start fast: the program is loaded once, servers and clients are forked.

Run as a program it is the loaded process: each line it reads is a list of words, the module of
which `run` is to be called in a child and its arguments, or a child to be waited for. It answers
with the child's process id, or with the status that the child ended with.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

START_S = 60.0
_POLL_S = 0.005
_WAIT = "wait"


class Loaded:
    """A process that has loaded some modules, and forks."""

    def __init__(self, folder: Path, *modules: str) -> None:
        self.errors = folder / "stderr.txt"
        with self.errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.process.warm", *modules],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
            )

    def fork(self, module: str, *arguments: str) -> int:
        """The process id of a child that does what the module is for."""
        return self._ask(module, *arguments)

    def wait(self, pid: int) -> int:
        """How a child ended, as `subprocess` tells it."""
        return os.waitstatus_to_exitcode(self._ask(_WAIT, str(pid)))

    def kill(self, pid: int) -> None:
        """As `kill -9` does."""
        os.kill(pid, signal.SIGKILL)
        assert self.wait(pid) == -signal.SIGKILL, self.errors.read_text()

    def _ask(self, *words: str) -> int:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(words) + b"\n")
        answer = process.stdout.readline()
        assert answer, self.errors.read_text()
        return int(answer)

    def close(self) -> None:
        """Its children are gone by now, or go with it."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait()
        process.stdout.close()


class WarmServer:
    """One home and one server on it at a time, killed and started as often as one likes."""

    def __init__(self, folder: Path, *modules: str) -> None:
        self.home = folder / "home"
        self.pid = 0
        self._ready_file = folder / "ready.json"
        self._arguments = ["serve", "--home", str(self.home), "--ports", "ephemeral"]
        self._arguments += ["--ready-file", str(self._ready_file)]
        program = ("posthouse.cli.main", "posthouse.cli.serve", "posthouse.runtime.doors")
        self.loaded = Loaded(folder, *program, *modules)

    def start(self) -> None:
        """Returns when it is ready."""
        assert not self.pid
        self._ready_file.unlink(missing_ok=True)
        self.pid = self.loaded.fork("posthouse.cli.main", *self._arguments)
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
    for module in sys.argv[1:]:
        import_module(module)
    children: set[int] = set()
    for line in sys.stdin.buffer:
        first, *arguments = msgspec.json.decode(line, type=list[str])
        if first == _WAIT:
            answer = os.waitpid(int(arguments[0]), 0)[1]
            children.discard(int(arguments[0]))
        else:
            answer = os.fork()
            if not answer:
                _be(first, arguments)
            children.add(answer)
        os.write(1, b"%d\n" % answer)
    for child in children:
        os.kill(child, signal.SIGKILL)


def _be(module: str, arguments: list[str]) -> None:
    """What a child does."""
    os.close(0)
    os.close(1)
    os.open(os.devnull, os.O_RDWR)
    os.dup(0)
    code = 1
    try:
        code = import_module(module).run(arguments)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
