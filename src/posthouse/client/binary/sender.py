"""Sends over the binary protocol straight from this process, with a blocking socket.

A send returns when the session acknowledgment of the other queue manager covers it. A broken
connection is made again, and what was not acknowledged is sent again under the same identifiers,
which the other side recognises if it has them.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from posthouse.client.binary.session import SenderSession
from posthouse.client.connection_log import log_lost
from posthouse.client.errors import ServerUnreachable
from posthouse.engine.transfer.protocol_interface import Outbound
from posthouse.model.errors import RemoteProtocolError
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.wire.packet.packet_fields import RECOVERABLE, summarize_all
from posthouse.wire.packet.patch import stamp

RECEIVE_SIZE: Final = 64 << 10
PORTION_BYTES: Final = 256 << 10
PAUSE_S: Final = 0.2  # before the next attempt to connect


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class BinarySender:
    """A queue manager that has no queues: it only sends. Threads take turns."""

    def __init__(self, host: str, port: int, timeout_s: float, settings: BinarySettings) -> None:
        self.guid = os.urandom(16)
        self._place = (host, port)
        self._timeout_s = timeout_s
        self._settings = settings
        self._ordinal = 0
        self._waiting: deque[Outbound] = deque()
        self._unacknowledged: dict[int, Outbound] = {}  # by ordinal, in order
        self._socket: socket.socket | None = None
        self._session = SenderSession(settings, self.guid, self._waiting)
        self._turn = threading.Lock()

    def connect(self) -> None:
        """Opens the session now, instead of with the first packets."""
        with self._turn:
            deadline = time.monotonic() + self._timeout_s
            while not self._session.is_open:
                self._step(deadline - time.monotonic())

    @property
    def peer_guid(self) -> bytes:
        """The GUID that the other queue manager gave when the session was opened."""
        return self._session.terms.remote_guid

    def send(self, packets: Iterable[bytes]) -> list[int]:
        """Sends packets; returns their ordinals when all are acknowledged."""
        with self._turn:
            outbound = self._stamped(packets)
            try:
                self._unacknowledged.update((message.number, message) for message in outbound)
                self._waiting.extend(outbound)
                self._finish()
            except BaseException:  # Ctrl-C: half a packet may be written, the next would end it
                self._disconnect()
                raise
            finally:
                self._waiting.clear()
                self._unacknowledged.clear()
            return [message.number for message in outbound]

    def _stamped(self, packets: Iterable[bytes]) -> list[Outbound]:
        stamped: list[Outbound] = []
        for some in portions(packets):
            sent_time = int(time.time())
            for packet, seen in zip(some, summarize_all(some), strict=True):
                self._ordinal += 1
                whole = stamp(
                    packet,
                    source_guid=self.guid,
                    ordinal=self._ordinal,
                    sent_time=sent_time,
                    seen=seen,
                )
                recoverable = bool(seen.user_flags & RECOVERABLE)
                stamped.append(Outbound(self._ordinal, whole, recoverable, False))
        return stamped

    def _finish(self) -> None:
        """Until everything is acknowledged, or nothing has come of it for too long."""
        deadline = time.monotonic() + self._timeout_s
        cause = "no answer"
        while self._unacknowledged:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                self._disconnect()
                host, port = self._place
                count = len(self._unacknowledged)
                raise ServerUnreachable(
                    f"{host}:{port} acknowledged all but {count} messages: {cause}",
                    "What was not acknowledged may have arrived. Try again, or send through a "
                    "local queue manager (via=), which keeps trying.",
                )
            try:
                if self._step(left_s):
                    deadline = time.monotonic() + self._timeout_s
            except (OSError, RemoteProtocolError) as error:
                cause = str(error) or type(error).__name__
                self._disconnect()
                log_lost("{}:{}".format(*self._place), error, left_s)
                time.sleep(min(PAUSE_S, max(deadline - time.monotonic(), 0)))

    def _step(self, left_s: float) -> bool:
        """Sends what may go and takes in what comes; whether anything was acknowledged."""
        connection = self._connected(left_s)
        self._write(connection, self._session.take())
        connection.settimeout(left_s)
        data = connection.recv(RECEIVE_SIZE)
        if not data:
            raise ConnectionResetError("the other queue manager closed the session")
        self._write(connection, self._session.receive(data, _now_ms()))
        done, self._session.acknowledged = self._session.acknowledged, []
        for ordinal in done:
            self._unacknowledged.pop(ordinal, None)
        return bool(done)

    def _write(self, connection: socket.socket, parts: list[bytes]) -> None:
        if parts:
            connection.settimeout(self._timeout_s)
        for some in portions(parts):
            connection.sendall(some[0] if len(some) == 1 else b"".join(some))

    def _connected(self, left_s: float) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(self._place, timeout=left_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._waiting.clear()
            self._waiting.extend(self._unacknowledged.values())
            self._session = SenderSession(self._settings, self.guid, self._waiting)
            self._socket.sendall(self._session.begin(_now_ms()))
        return self._socket

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        """Ends the session; there is no farewell in this protocol."""
        with self._turn:
            self._disconnect()


def portions(
    packets: Iterable[bytes], bytes_max: int = PORTION_BYTES, count_max: int = sys.maxsize
) -> Iterator[list[bytes]]:
    """Packets that are handled together; one that is larger than `bytes_max` comes alone.

    Where no other code keeps such a packet, it is not copied, and its memory serves the next one.
    """
    some, size = list[bytes](), 0
    for packet in packets:
        if some and (size + len(packet) > bytes_max or len(some) == count_max):
            yield some
            some, size = [], 0
        some.append(packet)
        size += len(packet)
    if some:
        yield some
