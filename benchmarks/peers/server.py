"""Servers of the peers: started in a folder of their own, on loopback, stopped by their own pid."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from subprocess import TimeoutExpired
from typing import ClassVar, NamedTuple

from benchmarks.processes import Process, started

LOOPBACK = "127.0.0.1"
START_S, STOP_S = 60.0, 20.0
_LOOK_S = 0.02
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Command(NamedTuple):
    """What to run, and what its environment has besides ours."""

    words: Sequence[str]
    environment: dict[str, str]


class NotStarted(RuntimeError):
    """A server did not come up, and the end of what it said."""


class Server:
    """One server. Subclasses define how it is configured and called."""

    title: ClassVar[str]
    durable: ClassVar[str] = ""  # what an acknowledgement means
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / "log"
        self.port = free_port()
        self.pid = 0

    @classmethod
    def missing(cls) -> str | None:
        """The program that is not installed here, and its Debian package; None: all there."""
        return None

    def configure(self) -> None:
        """Writes what it needs to start."""

    def helpers(self) -> list[tuple[Command, int]]:
        """Programs that run beside it, each with its port."""
        return []

    def command(self) -> Command:
        """The server itself."""
        raise NotImplementedError

    @property
    def address(self) -> str:
        """What its driver is made with."""
        return f"{LOOPBACK}:{self.port}"

    def accepts(self) -> bool:
        """Whether it takes connections."""
        return is_open(self.port)

    def settle(self) -> None:
        """What has to be done once it runs."""

    def stopped(self) -> None:
        """What has to be done once it does not."""

    def syncs(self) -> int | None:
        """The number of syncs that the server itself reports; None if it reports none."""
        return None

    def processes(self) -> list[int]:
        """Its processes, as they are now."""
        return process_tree(self.pid)

    def cpu_s(self) -> float:
        """Processor time of all its processes, those that have ended included."""
        return sum(map(_cpu_of, self.processes()))


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Runs a server while inside."""
    server.configure()
    with ExitStack() as stack:
        stack.callback(server.stopped)
        for command, port in server.helpers():
            helper = stack.enter_context(_started(server, command))
            _await(server, helper, partial(is_open, port))
        process = stack.enter_context(_started(server, server.command()))
        server.pid = process.pid
        stack.callback(_stop, process, server.stop_signal)
        _await(server, process, server.accepts)
        server.settle()
        yield server


def _started(server: Server, command: Command) -> AbstractContextManager[Process]:
    return started(command.words, log=server.log, environment=command.environment)


def _await(server: Server, process: Process, ready: Callable[[], bool]) -> None:
    until = time.monotonic() + START_S
    while not ready():
        if process.poll() is not None or time.monotonic() > until:
            said = server.log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise NotStarted(f"{server.title} did not start. It said: {said}")
        time.sleep(_LOOK_S)


def _stop(process: Process, number: signal.Signals) -> None:
    """Asks the process to end and waits; the caller kills it if it does not."""
    process.send_signal(number)  # nothing happens to one that has ended
    with suppress(TimeoutExpired):
        process.wait(STOP_S)


# -- ports and processes


def free_port() -> int:
    """A free port on loopback."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def is_open(port: int) -> bool:
    """Whether somebody accepts connections there."""
    try:
        socket.create_connection((LOOPBACK, port), 0.3).close()
    except OSError:
        return False
    return True


def process_tree(root: int) -> list[int]:
    """A process and all that come from it."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                children[int(_stat(int(entry.name))[1])].append(int(entry.name))
    found = [root]
    for pid in found:
        found += children[pid]
    return found


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold anything: state, parent, ..."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()


def _cpu_of(pid: int) -> float:
    """All threads of a process, to the nanosecond, and the children it has waited for."""
    with suppress(OSError):
        clock = (~pid << 3) | 2  # clock_getcpuclockid(3)
        waited_for = sum(map(int, _stat(pid)[13:15])) / _TICKS_PER_S
        return time.clock_gettime(clock) + waited_for
    return 0.0  # it has ended meanwhile
