"""Peers that begin something large on many connections, never end it, and come again."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

PIECE = bytes(1 << 16)
SHAKE_S = 10.0

Shake = Callable[[socket.socket], bytes]
"""Gets a new connection that blocks, speaks with the server, returns what begins the large one."""


class Kind(NamedTuple):
    """What is begun: on which endpoint, after which words, and how much of it is sent."""

    endpoint: str
    shake: Shake
    size: int
    pieces: Callable[[int], bytes] = lambda sent: PIECE


class _One:
    __slots__ = ("address", "left", "sent")

    def __init__(self, address: str, left: bytes) -> None:
        self.address = address
        self.left = left  # of a piece that the system did not take
        self.sent = 0


class Flood:
    """Some addresses with some connections each."""

    def __init__(self, kind: Kind, where: str, addresses: int, connections: int) -> None:
        host, _, port = where.rpartition(":")
        self._kind = kind
        self._where = host, int(port)
        self._selector = selectors.DefaultSelector()
        self._addresses = [f"127.0.1.{1 + n}" for n in range(addresses)] * connections
        self.opened = self.ended = 0

    def open(self) -> None:
        """All of them; those that the server does not let in are left out."""
        for address in self._addresses:
            one = socket.socket()
            try:
                one.settimeout(SHAKE_S)
                one.bind((address, 0))
                one.connect(self._where)
                first = self._kind.shake(one)
            except OSError:
                one.close()
                self.ended += 1
                continue
            one.setblocking(False)
            self.opened += 1
            self._selector.register(one, selectors.EVENT_WRITE, _One(address, first))

    def run(self, seconds: float) -> None:
        """Sends what the server takes, up to the size."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._selector.get_map():
            for key, _ in self._selector.select(0.05):
                self._send(key)

    def _send(self, key: selectors.SelectorKey) -> None:
        one, state = key.fileobj, key.data
        assert isinstance(one, socket.socket)
        try:
            piece = state.left or self._kind.pieces(state.sent)
            taken = one.send(piece)
            state.left = piece[taken:]
            state.sent += taken
        except BlockingIOError:
            return
        except OSError:
            self._drop(one)
            return
        if state.sent >= self._kind.size:
            self._selector.modify(one, 0 or selectors.EVENT_READ, state)

    def _drop(self, one: socket.socket) -> None:
        self.ended += 1
        self._selector.unregister(one)
        one.close()

    def close(self) -> None:
        """All at once."""
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            self._drop(key.fileobj)


def peak_mib(process: int) -> int:
    """The most that was ever resident of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (found,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(found.split()[1]) >> 10
