"""Two real servers that send to each other over loopback, with timers that tests can wait for."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import posthouse
from posthouse.api.types import QueueJson
from tests.process.warm import WarmServer

PATIENCE_S = 90.0
POLL_S = 0.05
ADMIN = "admin"
FIXED_PORTS = range(20_000, 32_000)  # below those that Linux gives out by itself
JOURNAL = r".\system$;journal"
TIMERS = """
retry_connect_ms = 100
retry_connect_max_ms = 500
initialization_ms = 5000
cleanup_ms = 5000
ack_wait_min_ms = 1000
ack_wait_ms = 1000
ack_wait_max_ms = 10000
recoverable_ack_min_ms = 20
resend_short_ms = 1000
resend_medium_ms = 2000
resend_long_ms = 4000
resend_final_ms = 8000
order_ack_ms = 20
order_ack_max_ms = 200
final_ack_look_ms = 1000
"""
# Small segments, so that they are sealed, compacted and checkpointed meanwhile.
SETTINGS = """
[queue_manager]
name = "{name}"
{machine}
[store]
segment_size = "1MiB"
[ping]
answer = false
[binary]
port = {port}
"""


class Office:
    """A server that is found at the same address after each restart."""

    def __init__(
        self, folder: Path, name: str, running: ExitStack, more: str = "", *, machine: str = ""
    ) -> None:
        """`machine` is lines of the section [queue_manager], `more` of [binary] and others."""
        folder.mkdir()
        self.name = name
        self.port = free_port()
        self.server = WarmServer(folder)
        self.server.home.mkdir(mode=0o700)
        settings = SETTINGS.format(name=name, port=self.port, machine=machine) + TIMERS + more
        settings = settings.replace("@PORT@", str(self.port))
        (self.server.home / "posthouse.toml").write_text(settings, encoding="ascii")
        running.enter_context(self.server)
        self.server.start()
        self.qm = running.enter_context(posthouse.connect(self.server.home))

    def name_of(self, queue: str) -> str:
        """What others call a queue here."""
        return f"DIRECT=TCP:127.0.0.1:{self.port}\\private$\\{queue}"

    def create(self, *queues: str, **properties: Any) -> None:
        for queue in queues:
            self.qm.create_queue(f".\\private$\\{queue}", **properties)

    def restart(self) -> None:
        """`kill -9`, and up again."""
        self.server.kill()
        self.server.start()

    def unsent(self) -> int:
        """Messages that wait for other machines, or for their answers."""
        return sum(queue.messages for queue in outgoing(self.qm))

    def bodies(self, queue: str) -> list[bytes]:
        name = queue if "\\" in queue else f".\\private$\\{queue}"
        return [message.body for message in self.qm.queue(name).browse()]


def outgoing(qm: posthouse.QueueManagerClient) -> list[QueueJson]:
    """The queues that lead to other machines."""
    return [queue for queue in qm.queues(outgoing=True) if queue.outgoing is not None]


def free_port() -> int:
    """A port that there is no listener on now, and that no outgoing connection is given.

    A server that was killed needs its port again: one from the system's own range could be taken.
    """
    for port in random.Random().sample(FIXED_PORTS, len(FIXED_PORTS)):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("all ports are in use")


def wait_until(
    true: Callable[[], bool], what: Callable[[], object], patience_s: float = PATIENCE_S
) -> None:
    """Looks again and again."""
    until = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < until, what()
        time.sleep(POLL_S)


def wait_for_delivery(offices: Iterable[Office], *, unread: bool = False) -> None:
    """Until nothing is on its way any more, acknowledgments included.

    With `unread`, messages may wait to be received at the other end.
    """
    found = list(offices)

    def left() -> list[tuple[str, str, int]]:
        return [
            (office.name, queue.format_name, count)
            for office in found
            for queue in outgoing(office.qm)
            if queue.outgoing is not None
            and (count := queue.messages - (queue.outgoing.unread if unread else 0))
        ]

    wait_until(lambda: not left(), left)
