"""The socket of a connection to a directory server, with a limit for each answer as a whole.

A limit for every single read would never end with a server that sends one byte at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

ANSWER_SIZE_MAX: Final = 16 << 20
"""Unless the exchange is about many entries."""
_READ_SIZE: Final = 256 << 10
"""More than the library asks for: it puts large messages together piece by piece."""


class TimedSocket:
    """A socket, encrypted or not, on which an answer has to be there by a certain moment."""

    def __init__(self, plain: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self.plain = plain
        self.expired = False
        """Whether it was the limit of time that ended the exchange."""
        self._clock = clock
        self._limit_s = 0.0
        self._until: float | None = None
        self._size_max = self._left = ANSWER_SIZE_MAX

    def begin(self, limit_s: float, size_max: int = ANSWER_SIZE_MAX) -> None:
        """The next exchange has so much time, and its answer this many bytes."""
        self._limit_s, self._until = limit_s, self._clock() + limit_s
        self._size_max = self._left = size_max

    @property
    def taken(self) -> int:
        """The bytes of the answer so far."""
        return self._size_max - self._left

    def recv(self, size: int) -> bytes:
        """What has come; the library takes as much as there is, whatever it asks for."""
        data: bytes = self._timed(lambda: self.plain.recv(max(size, _READ_SIZE)))
        self._left -= len(data)
        if self._left < 0:
            raise OSError(f"an answer has more than {self._size_max >> 20} MiB")
        return data

    def sendall(self, data: bytes) -> None:
        """All of it within the limit."""
        self._timed(lambda: self.plain.sendall(data))

    def _timed(self, call: Callable[[], Any]) -> Any:
        try:
            if self._until is not None:
                self.plain.settimeout(self._until - self._clock())  # ValueError: that is over
            return call()
        except (TimeoutError, ValueError):
            raise self._too_late() from None

    def _too_late(self) -> TimeoutError:
        self.expired = True
        return TimeoutError(f"no whole answer within {self._limit_s:.0f} seconds")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)
