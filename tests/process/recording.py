"""A cable that records: a proxy for TCP whose conversations can be opened with tshark.

It writes a pcap file itself, so nobody needs the right to listen on an interface: each piece that
passes becomes a segment with the sequence numbers it would have had, behind a handshake.
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_MAGIC, _RAW_IP = 0xA1B2C3D4, 101  # link type: packets begin with their IP header
_FIRST_PORT = 40_000
_PIECE = 32 * 1024  # below what one IP packet takes
_FIN, _SYN, _ACK = 0x01, 0x02, 0x10
_CLIENT, _SERVER = bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2])


class Recording:
    """Between clients and one server, until the end of its `with`; clients are to be gone by then.

    `shown_port` is the server's port in the file: dissectors are chosen by it.
    """

    def __init__(self, file: Path, port: int, shown_port: int) -> None:
        self._server = ("127.0.0.1", port)
        self.shown_port = shown_port
        self._file = file.open("wb")
        self._file.write(struct.pack("<IHHiIII", _MAGIC, 2, 4, 0, 0, 1 << 18, _RAW_IP))
        self.lock = threading.Lock()
        self._times = itertools.count()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        for client_port in itertools.count(_FIRST_PORT):
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            cable = _Cable(self, client_port)
            for source, sink, up in ((client, server, True), (server, client, False)):
                self._threads.append(threading.Thread(target=cable.carry, args=(source, sink, up)))
                self._threads[-1].start()

    def write(self, hosts: bytes, tcp: bytes) -> None:
        """One packet, from one host to the other."""
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + hosts
        size = len(head) + len(tcp)
        self._file.write(struct.pack("<IIII", 1, next(self._times), size, size) + head + tcp)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        for thread in self._threads:
            thread.join()
        self._file.close()


class _Cable:
    """One connection: what each side has sent so far."""

    def __init__(self, recording: Recording, client_port: int) -> None:
        self._recording = recording
        self._client_port = client_port
        self._sent = {True: 1000, False: 5000}  # by direction, up to the server or down
        self._segment(True, _SYN)
        self._segment(False, _SYN | _ACK)
        self._segment(True, _ACK)

    def carry(self, source: socket.socket, sink: socket.socket, up: bool) -> None:
        """One direction, until its source has no more."""
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                self._segment(up, _ACK, piece)
                sink.sendall(piece)
        self._segment(up, _FIN | _ACK)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _segment(self, up: bool, flags: int, data: bytes = b"") -> None:
        recording = self._recording
        ends = ((self._client_port, _CLIENT), (recording.shown_port, _SERVER))
        (port, host), (other_port, other_host) = ends if up else ends[::-1]
        with recording.lock:
            sent, seen = self._sent[up], self._sent[not up]
            self._sent[up] += len(data) + bool(flags & (_SYN | _FIN))
            fields = (sent, seen if flags & _ACK else 0, 5 << 4, flags, 0xFFFF, 0, 0)
            tcp = struct.pack(">HHIIBBHHH", port, other_port, *fields) + data
            recording.write(host + other_host, tcp)
