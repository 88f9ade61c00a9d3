"""Listening on real sockets: counted when accepted, and refused when there is no room."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from posthouse.net.connections import TOO_MANY_OF_ADDRESS, Admission, Connections
from posthouse.net.listening import AT_ONCE, NO_DESCRIPTOR, Ends, Listener
from posthouse.net.sockets import bound_sockets

DATA = Path(__file__).parent.parent / "client" / "data"


def server_context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(DATA / "certificate.pem", DATA / "key.pem")
    return context


class Echo(asyncio.Protocol):
    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._admission.drop = self._transport.abort

    def data_received(self, data: bytes) -> None:
        self._admission.prove()
        self._transport.write(data)

    def eof_received(self) -> bool:
        return self._admission.ends(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._admission.leave()


class House:
    """A listener for echoes."""

    def __init__(self, connections: Connections, tls: ssl.SSLContext | None = None) -> None:
        self.connections = connections
        self.refused: Counter[str] = Counter()
        self.listener = Listener(Echo, connections, self._refuse, tls=tls, handshake_s=60)
        self.address = self.listener.start("127.0.0.1", 0)

    def _refuse(self, reason: str) -> None:
        self.refused[reason] += 1

    def knock(self) -> socket.socket:
        return socket.create_connection(self.address[:2], timeout=10)


def on_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


async def until(condition: Callable[[], bool]) -> None:
    """Lets the event loop turn until something is so."""
    while not condition():
        turned = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.005, turned.set_result, None)
        await turned


async def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    try:
        return not await loop.sock_recv(connection, 1)
    except ConnectionError:
        return True


def test_silent_connections_count_before_their_handshake_is_over() -> None:
    async def run() -> None:
        house = House(Connections(100, 3), server_context())
        silent = [house.knock() for _ in range(3)]
        await until(lambda: house.connections.count == 3)
        assert await is_closed(house.knock())
        assert house.refused == {TOO_MANY_OF_ADDRESS: 1}
        for one in silent:
            one.close()
        await until(lambda: house.connections.count == 0)
        house.listener.close()

    on_loop(run)


def test_a_handshake_that_makes_room_ends() -> None:
    async def run() -> None:
        connections = Connections(2, 2)
        house = House(connections, server_context())
        first, _ = house.knock(), house.knock()
        await until(lambda: connections.count == 2)
        connections.admit("another address")
        assert await is_closed(first)
        house.listener.close()

    on_loop(run)


def test_what_a_listener_closes_leaves_nothing_behind() -> None:
    async def run() -> None:
        house = House(Connections(10, 10), server_context())
        silent = house.knock()
        await until(lambda: house.connections.count == 1)
        house.listener.close()
        house.listener.close()
        assert await is_closed(silent)
        assert house.connections.count == 0
        with pytest.raises(ConnectionRefusedError):
            house.knock()

    on_loop(run)


def test_connections_whose_peers_go_at_once_are_closed_some_at_a_time() -> None:
    async def run() -> None:
        loop, closed = asyncio.get_running_loop(), list[int]()
        ends, rounds = Ends(loop), list[int]()
        for number in range(3 * AT_ONCE + 1):
            ends.add(lambda number=number: closed.append(number))  # type: ignore[misc]
        while len(closed) < 3 * AT_ONCE + 1:
            turned = loop.create_future()
            loop.call_soon(turned.set_result, None)
            await turned
            rounds.append(len(closed))
        assert closed == list(range(3 * AT_ONCE + 1))
        assert set(rounds) & {AT_ONCE, 2 * AT_ONCE}  # others had their turn

    on_loop(run)


def test_a_listener_accepts_once_in_a_round_however_often_it_is_asked() -> None:
    async def run() -> None:
        house = House(Connections())
        knocking = [house.knock() for _ in range(AT_ONCE + 10)]
        for _ in range(5):
            house.listener._accept(house.listener._sockets[0])
        assert house.connections.count == AT_ONCE
        await until(lambda: house.connections.count == AT_ONCE + 10)
        house.listener.close()
        for one in knocking:
            one.close()

    on_loop(run)


def test_a_peer_that_goes_is_closed_in_its_turn_and_with_tls_at_once() -> None:
    async def run() -> None:
        house = House(Connections())
        waiting, peer = list[Callable[[], None]](), house.knock()
        house.listener._ends.add = waiting.append  # type: ignore[method-assign]
        await until(lambda: house.connections.count == 1)
        peer.close()
        await until(lambda: len(waiting) == 1)
        assert house.connections.count == 1
        waiting.pop()()
        await until(lambda: house.connections.count == 0)
        house.listener.close()
        assert not Connections().admit("10.0.0.1").ends(Transport({"sslcontext": object()}))

    on_loop(run)


class Transport:
    """A connection that is not closed."""

    def __init__(self, known: dict[str, object]) -> None:
        self._known = known

    def get_extra_info(self, name: str) -> object:
        return self._known.get(name)

    def close(self) -> None:
        raise AssertionError


def test_a_connection_that_had_no_turn_yet_leaves_nothing_behind() -> None:
    async def run() -> None:
        house = House(Connections(10, 10))
        knocking = house.knock()
        house.listener._accept(house.listener._sockets[0])
        assert house.connections.count == 1
        house.listener.close()
        assert await is_closed(knocking)
        assert house.connections.count == 0
        knocking.close()

    on_loop(run)


def test_a_listener_that_cannot_start_keeps_no_descriptor() -> None:
    async def run() -> None:
        house = House(Connections())
        before = len(list(Path("/proc/self/fd").iterdir()))
        with pytest.raises(OSError, match="in use"):
            Listener(Echo, Connections(), house.refused.update).start(*house.address[:2])
        assert len(list(Path("/proc/self/fd").iterdir())) == before
        house.listener.close()

    on_loop(run)


def test_a_name_is_listened_on_where_this_machine_has_its_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found(*addresses: str) -> None:
        entries = [
            (socket.AF_INET6 if ":" in one else socket.AF_INET, 0, 0, "", (one, 0))
            for one in addresses
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **more: entries)

    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        found("127.0.0.1", "2001:db8::1", "127.0.0.2")
        bound = bound_sockets("name", 0, kind)
        assert [one.getsockname()[0] for one in bound] == ["127.0.0.1", "127.0.0.2"]
        for one in bound:
            one.close()
        found("2001:db8::1")
        with pytest.raises(OSError, match=r"assign|not supported"):
            bound_sockets("name", 0, kind)


def test_without_a_descriptor_newcomers_are_reset_and_the_others_served() -> None:
    """In a child, because it takes every descriptor of its process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.net.test_listening"], capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["served before", "reset", "still served", "served again"]
    assert done.stderr == ""
    assert done.returncode == 0


async def _exhausted() -> None:
    house = House(Connections())
    loop = asyncio.get_running_loop()

    async def echo(connection: socket.socket) -> bytes:
        connection.setblocking(False)
        await loop.sock_sendall(connection, b"hello")
        return await loop.sock_recv(connection, 5)

    early = house.knock()
    assert await echo(early) == b"hello"
    print("served before")
    client = socket.socket()  # the descriptor of the one that will be turned away
    client.setblocking(False)
    taken = list[socket.socket]()
    try:
        while True:
            taken.append(socket.socket())
    except OSError:
        pass
    await loop.sock_connect(client, house.address[:2])
    assert await is_closed(client)
    await until(lambda: house.refused[NO_DESCRIPTOR] > 0)
    print("reset")
    assert await echo(early) == b"hello"
    print("still served")
    for one in taken:
        one.close()
    assert await echo(house.knock()) == b"hello"
    print("served again")
    house.listener.close()


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    asyncio.run(asyncio.wait_for(_exhausted(), 20))
