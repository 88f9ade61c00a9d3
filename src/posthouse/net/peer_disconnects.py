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
from typing import Any, Final, NamedTuple

_EVENTS_MAX: Final = 256  # for one turn of the loop


class _Watched(NamedTuple):
    """A socket, and whom to call."""

    number: int
    left: Callable[[], None]


class Departures:
    """The sockets that are not read from, and whom to call when a peer has closed one."""

    def __init__(self) -> None:
        self._watched: dict[asyncio.BaseTransport, _Watched] = {}
        self._by_number: dict[int, asyncio.BaseTransport] = {}
        self._epoll: Any = None  # made with the first; systems without it watch none

    def watch(self, transport: asyncio.BaseTransport, left: Callable[[], None]) -> None:
        """Calls `left` once when the peer has closed its side. May be asked for again."""
        number = _number(transport)
        if number < 0 or transport in self._watched or not hasattr(select, "epoll"):
            return
        if self._epoll is None:
            self._epoll = select.epoll()
            asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._look)
        with suppress(OSError):  # the socket may be closed already
            self._epoll.register(number, select.EPOLLRDHUP)
            self._watched[transport] = _Watched(number, left)
            self._by_number[number] = transport

    def forget(self, transport: asyncio.BaseTransport) -> None:
        """It is read again, or gone.

        A transport of TLS has no socket by then, and that of another one may have its number.
        """
        watched = self._watched.pop(transport, None)
        if watched is not None and self._by_number.get(watched.number) is transport:
            del self._by_number[watched.number]
            with suppress(OSError):
                self._epoll.unregister(watched.number)

    def close(self) -> None:
        """Watches none."""
        self._watched.clear()
        self._by_number.clear()
        if self._epoll is not None:
            asyncio.get_running_loop().remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _look(self) -> None:
        for number, _ in self._epoll.poll(0, _EVENTS_MAX):
            transport = self._by_number.get(number)
            if transport is not None:
                left = self._watched[transport].left
                self.forget(transport)
                left()


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
