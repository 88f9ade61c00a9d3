"""Notices peers that close a connection while reading is paused.

An event loop notices the end of a connection by reading. One that is not read from, since there is
no memory for what it brings, would keep what it holds until its time is over. So such sockets are
watched for their end alone; bytes that wait in them do not count.
"""

from __future__ import annotations

import asyncio
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from fcntl import ioctl
from termios import FIONREAD
from typing import Any, Final

_EVENTS_MAX: Final = 256  # for one turn of the loop


class Departures:
    """The sockets that are not read from, and whom to call when a peer has closed one."""

    def __init__(self) -> None:
        self._watched: dict[int, Callable[[], None]] = {}
        self._epoll: Any = None  # made with the first; systems without it watch none

    def watch(self, transport: asyncio.BaseTransport, left: Callable[[], None]) -> None:
        """Calls `left` once when the peer has closed its side. May be asked for again."""
        number = _number(transport)
        if number < 0 or number in self._watched or not hasattr(select, "epoll"):
            return
        if self._epoll is None:
            self._epoll = select.epoll()
            asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._look)
        with suppress(OSError):  # the socket may be closed already
            self._epoll.register(number, select.EPOLLRDHUP)
            self._watched[number] = left

    def forget(self, transport: asyncio.BaseTransport) -> None:
        """It is read again, or gone; before its socket is closed."""
        self._drop(_number(transport))

    def close(self) -> None:
        """Watches none."""
        self._watched.clear()
        if self._epoll is not None:
            asyncio.get_running_loop().remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _look(self) -> None:
        for number, _ in self._epoll.poll(0, _EVENTS_MAX):
            left = self._drop(number)
            if left is not None:
                left()

    def _drop(self, number: int) -> Callable[[], None] | None:
        left = self._watched.pop(number, None)
        if left is not None and self._epoll is not None:
            with suppress(OSError):
                self._epoll.unregister(number)
        return left


def is_cut_off(transport: asyncio.BaseTransport, missing: int) -> bool:
    """Whether a peer that has closed its side has left something unfinished.

    All that it sent is in the socket by then: where that is less than what is missing, the rest
    never comes. A whole request may be there of a peer that still reads.
    """
    number = _number(transport)
    if number < 0:
        return False
    try:
        unread = ioctl(number, FIONREAD, bytes(4))
    except OSError:
        return True  # the socket is closed already
    return int.from_bytes(unread, sys.byteorder) < missing


def _number(transport: asyncio.BaseTransport) -> int:
    """Of the descriptor; -1 where there is none."""
    found = transport.get_extra_info("socket")
    return -1 if found is None else int(found.fileno())
