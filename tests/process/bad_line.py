"""A line between two servers that breaks: connections are cut after any byte, answers are lost."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections import Counter
from contextlib import suppress
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: what was not sent yet is thrown away
FATES = ("whole", "cut", "cut", "answer lost", "answer lost", "silent")
CUT_WITHIN = 40_000  # bytes
LOST_WITHIN = 12  # answers
LONGEST = 1 << 16


class BadLine:
    """Passes on what comes to its port. Each connection meets a fate, until the line is mended.

    cut: gone after this many bytes, of both directions together. answer lost: after this many
    pieces from the far end the next one is thrown away, and both ends are told that all is over.
    silent: the same, but nobody is told and nothing passes any more.
    """

    def __init__(self, port: int, seed: int, *, bad: bool = True) -> None:
        self.met: Counter[str] = Counter()
        self.bad = bad
        self._target = port
        self._drawn = random.Random(seed)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        self.drop()

    def mend(self) -> None:
        """New connections are good from now on, and those that are not are gone."""
        self.bad = False
        self.drop()

    def drop(self) -> None:
        """Breaks every connection."""
        with self._lock:
            found, self._open = self._open, set()
        for one in found:
            end(one)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    self._join(client, socket.create_connection((HOST, self._target)))
                except OSError:  # it is down, or dies just now: only the listener's end ends this
                    end(client)

    def _join(self, client: socket.socket, server: socket.socket) -> None:
        with self._lock:
            fate = self._drawn.choice(FATES) if self.bad else "whole"
            line = _Line(self, fate, self._drawn.randrange(CUT_WITHIN), client, server)
            line.answers_left = self._drawn.randrange(LOST_WITHIN)
            self._open |= {client, server}
        for source, target, back in ((client, server, False), (server, client, True)):
            target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=line.pump, args=(source, target, back), daemon=True).start()

    def over(self, fate: str, ends: tuple[socket.socket, socket.socket]) -> None:
        """One connection has ended."""
        with self._lock:
            self._open -= set(ends)
            self.met[fate] += 1


class _Line:
    """One connection."""

    def __init__(
        self, place: BadLine, fate: str, bytes_left: int, near: socket.socket, far: socket.socket
    ) -> None:
        self.answers_left = 0
        self._place, self._fate, self._bytes_left = place, fate, bytes_left
        self._ends = near, far
        self._lock = threading.Lock()
        self._told = False

    def pump(self, source: socket.socket, target: socket.socket, back: bool) -> None:
        with suppress(OSError):
            while data := source.recv(LONGEST):
                with self._lock:
                    passing = self._passing(data, back)
                    target.sendall(passing)
                if len(passing) < len(data) and self._fate != "silent":
                    break
        if self._fate != "silent" or not self._place.bad:
            self._end("ended" if self._fate == "whole" else self._fate)

    def _passing(self, data: bytes, back: bool) -> bytes:
        if self._fate == "whole":
            return data
        if self._fate == "cut":
            passing = data[: self._bytes_left]
            self._bytes_left -= len(passing)
            return passing
        if back:
            self.answers_left -= 1
        return b"" if self.answers_left < 0 else data

    def _end(self, word: str) -> None:
        with self._lock:
            told, self._told = self._told, True
        if not told:
            self._place.over(word, self._ends)
            for each in self._ends:
                end(each)


def end(one: socket.socket) -> None:
    """At once, and the other side hears of it."""
    with suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        one.shutdown(socket.SHUT_RDWR)
        one.close()
