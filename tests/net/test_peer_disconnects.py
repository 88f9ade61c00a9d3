"""Sockets that are watched for the end of their peer."""

from __future__ import annotations

import asyncio
import socket

from posthouse.net.peer_disconnects import Departures
from tests.support.loop_server import on_loop, turn, until


class Plug(asyncio.BaseTransport):
    """A transport that has a socket until that is closed, as those of TLS."""

    def __init__(self) -> None:
        super().__init__()
        self.end: socket.socket | None
        self.end, self.peer = socket.socketpair()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self.end

    def close(self) -> None:
        assert self.end is not None
        self.end.close()
        self.end = None


@on_loop
async def test_a_peer_that_leaves_is_told_of_once() -> None:
    departures, plug, left = Departures(), Plug(), list[str]()
    departures.watch(plug, lambda: left.append("left"))
    departures.watch(plug, lambda: left.append("again"))
    plug.peer.send(b"bytes do not count")
    await turn()
    assert left == []
    plug.peer.close()
    await until(lambda: bool(left))
    await turn()
    assert left == ["left"]
    departures.close()
    plug.close()


@on_loop
async def test_a_transport_without_a_socket_is_forgotten_and_its_number_free() -> None:
    """The next connection may have the number, and its end is noticed."""
    departures, gone, left = Departures(), Plug(), list[str]()
    departures.watch(gone, lambda: left.append("gone"))
    assert gone.end is not None
    number = gone.end.fileno()
    gone.close()
    other = Plug()
    assert other.end is not None
    assert other.end.fileno() == number
    departures.watch(other, lambda: left.append("other"))
    departures.forget(gone)
    other.peer.close()
    await until(lambda: bool(left))
    assert left == ["other"]
    departures.forget(other)
    departures.close()
    assert not departures._watched
    other.close()
    gone.peer.close()
