"""Sessions that stop in the middle of a packet: a real server holds little of it, and serves on."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from posthouse.model.message import Message, MessageId
from posthouse.wire.binary.internal import connection_parameters, establish_connection
from posthouse.wire.packet.message import serialize
from tests.conftest import Dose
from tests.process.offices import Office, wait_for_delivery, wait_until

MIB = 1 << 20
MEMORY = 64 * MIB  # of all buffers
# Packets of up to 64 KiB are always read; the rest is what a connection with its objects takes.
PER_SESSION = 96 << 10
# A heap of growing buffers has holes: measured 52 to 135 MiB for the same 64 MiB of buffers.
HOLES = MEMORY
SLACK = 48 * MIB
PACKET_SIZE = 4 * MIB
PATH = r".\private$\orders"
ADDRESSES = 8  # one of them alone would be held at a quarter of the memory
LIMITS = """
[limits]
memory = "64MiB"
connections_per_address_max = 10000
connections_max = 20000
"""


def rss(pid: int) -> int:
    """Bytes of a process that are in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError(pid)


def half_a_message(number: int, target: str) -> bytes:
    """A handshake, and the first half of a large message."""
    guid = number.to_bytes(16, "little")
    message = Message(
        identifier=MessageId(guid, 1),
        source_machine_identifier=guid,
        destination_queue_format_name=target,
        body=bytes(PACKET_SIZE - 4096),
    )
    hello = establish_connection(guid, time_stamp=number)
    return hello + connection_parameters(500, 20_000, 64) + serialize(message)[: PACKET_SIZE // 2]


class Stuck:
    """One such session."""

    def __init__(self, number: int, port: int, data: memoryview) -> None:
        self.sent = 0
        self._data = data
        self._socket = socket.socket()
        self._socket.bind((f"127.0.0.{2 + number % ADDRESSES}", 0))
        self._socket.connect(("127.0.0.1", port))
        self._socket.setblocking(False)

    def push(self) -> int:
        """Sends what the server takes; one that it has closed sends nothing."""
        before = self.sent
        with suppress(OSError):
            while self.sent < len(self._data):
                self.sent += self._socket.send(self._data[self.sent :])
        return self.sent - before

    def close(self) -> None:
        self._socket.close()


def allow_sockets(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count + 200, hard), hard))


@pytest.mark.timeout(600)
def test_sessions_that_stop_inside_a_packet_cost_little_and_stop_nobody(
    tmp_path: Path, dose: Dose
) -> None:
    count = dose(200, 2000)
    allow_sockets(count)
    with ExitStack() as running:
        alpha = Office(tmp_path / "ALPHA", "ALPHA", running, LIMITS)
        bravo = Office(tmp_path / "BRAVO", "BRAVO", running)
        alpha.create("orders")
        before = rss(alpha.server.pid)
        data = memoryview(half_a_message(1, alpha.name_of("orders")))
        stuck = [Stuck(number, alpha.port, data) for number in range(count)]
        for session in stuck:
            running.callback(session.close)
        pushed = push_all(stuck)
        assert pushed > 2 * MEMORY, "this is not an attack"

        bodies = [f"order {number}".encode() for number in range(100)]
        bravo.qm.queue(alpha.name_of("orders")).send_many(bodies, recoverable=True)
        wait_for_delivery([bravo])
        assert alpha.bodies("orders") == bodies
        pushed += push_all(stuck)
        grown = rss(alpha.server.pid) - before
        print(f"{count} sessions pushed {pushed >> 20} MiB; the server grew by {grown >> 20} MiB")
        assert grown < MEMORY + HOLES + SLACK + count * PER_SESSION
        for session in stuck:
            session.close()
        bravo.qm.queue(alpha.name_of("orders")).send(bytes(3 * MIB))
        wait_until(lambda: alpha.qm.queue(PATH).count() == len(bodies) + 1, alpha.qm.status)
        alpha.server.stop()
        bravo.server.stop()


def push_all(stuck: list[Stuck]) -> int:
    """As much as the server and the kernel take of all of them."""
    pushed = 0
    while more := sum(session.push() for session in stuck):
        pushed += more
    return pushed
