"""Strangers who send more than they should: raw sessions of the binary protocol, from any address
of the loopback, and what the server shows of its loop meanwhile."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from posthouse.client.manager import QueueManagerClient
from posthouse.model.message import DeliveryGuarantee, Message, MessageId, TxSequenceId
from posthouse.wire.binary.internal import connection_parameters, establish_connection
from posthouse.wire.packet.message import serialize

SENT_AT_ONCE = 1 << 20


class Stranger:
    """A session that anybody can open, under any GUID, from an address of the loopback."""

    def __init__(self, endpoint: str, address: str = "127.0.0.9", guid: bytes = b"") -> None:
        host, _, port = endpoint.rpartition(":")
        self.guid = guid or os.urandom(16)
        self._socket = socket.socket()
        self._socket.bind((address, 0))
        self._socket.settimeout(60)
        self._socket.connect((host, int(port)))
        self._socket.sendall(establish_connection(self.guid, time_stamp=77))
        assert self._socket.recv(1 << 16)
        self._socket.sendall(connection_parameters(500, 20_000, 64))
        assert self._socket.recv(1 << 16)
        self.answers = 0  # bytes that came back
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while data := self._socket.recv(1 << 16):
                self.answers += len(data)
        except OSError:
            return

    def send(self, packets: Iterable[bytes]) -> None:
        """Sends without waiting for any acknowledgment."""
        waiting = bytearray()
        for packet in packets:
            waiting += packet
            if len(waiting) >= SENT_AT_ONCE:
                self._socket.sendall(waiting)
                waiting.clear()
        self._socket.sendall(waiting)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def packet(
    source: bytes, ordinal: int, to: str, *, number: int = 0, asks_for_end: bool = False
) -> bytes:
    """A tiny message of a source; with a number it is the first of a sequence of its own."""
    placed = {
        "transaction_identifier": 1,
        "transactional_message_sequence_identifier": TxSequenceId(int(time.time()), ordinal),
        "transaction_sequence_number": number,
        "transaction_previous_sequence_number": number - 1,
        "first_in_transaction": True,
        "last_in_transaction": True,
    }
    return serialize(
        Message(
            identifier=MessageId(source, ordinal),
            source_machine_identifier=source,
            sent_time=int(time.time()),
            destination_queue_format_name=to,
            delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
            negative_journaling_requested=asks_for_end,
            body=b"x",
            **(placed if number else {}),  # type: ignore[arg-type]
        )
    )


def made_up(count: int, to: str, *, asks_for_end: bool = False) -> Iterator[bytes]:
    """Transactional messages, each of a source that does not exist."""
    for ordinal in range(1, count + 1):
        yield packet(os.urandom(16), ordinal, to, number=1, asks_for_end=asks_for_end)


class LoopFigures:
    """What the metrics show of the turns of a server's loop."""

    def __init__(self, text: str) -> None:
        self.longest_s = _value(text, "posthouse_loop_turn_longest_seconds")
        self.slow = _value(text, "posthouse_loop_slow_turns_total")
        self.turns = _value(text, "posthouse_loop_turn_seconds_count")


def _value(text: str, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    assert found, name
    return float(found[1])


def resident_bytes(pid: int) -> int:
    """How much memory a process has."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return int(found[1]) << 10


class Prober:
    """Another client, which sends one recoverable message after the other: how long each took."""

    def __init__(self, qm: QueueManagerClient, queue: str) -> None:
        self._queue = qm.queue(queue)
        self.times: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            begun = time.perf_counter()
            self._queue.send(b"probe", recoverable=True)
            self.times.append(time.perf_counter() - begun)
            self._stop.wait(0.01)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(120)

    def shown(self) -> str:
        """Median and maximum, for a note."""
        times = sorted(self.times)
        if not times:
            return "none"
        median, longest = 1000 * times[len(times) // 2], 1000 * times[-1]
        return f"{len(times)} sends, p50 {median:.0f} ms, max {longest:.0f} ms"
