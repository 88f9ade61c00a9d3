"""Connections that do not come about, or break at once, with both clients."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import posthouse
from posthouse.client import requests
from posthouse.client.blocking import FRUITLESS_MAX, spread
from posthouse.client.errors import ClientConnectionError, ServerUnreachable
from posthouse.model.errors import AccessDenied
from posthouse.wire.frames import frames
from posthouse.wire.frames.payloads import Lookup
from tests.client.peer import Peer
from tests.client.serving import Serving

SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
Script = Callable[[socket.socket], None]


class Listener:
    """Somebody at the place of the control socket who does as a script says."""

    def __init__(self, home: Path, script: Script) -> None:
        self.connections = 0
        self._script = script
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(home / "control.sock"))
        self._socket.listen()
        self._held: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            self._script(connection)
            self._held.append(connection)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        for connection in self._held:
            connection.close()


@contextmanager
def listening(home: Path, script: Script) -> Iterator[Listener]:
    listener = Listener(home, script)
    try:
        yield listener
    finally:
        listener.close()


def connect_blocking(home: Path) -> None:
    posthouse.connect(home, timeout=0.2).close()


def connect_awaited(home: Path) -> None:
    async def main() -> None:
        await (await posthouse.aio.connect(home, timeout=0.2)).close()

    asyncio.run(main())


both = pytest.mark.parametrize("connect", [connect_blocking, connect_awaited])


def read_head(connection: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(4096)


def silent(connection: socket.socket) -> None:
    """Takes the connection and says nothing."""


def hanging_up(connection: socket.socket) -> None:
    read_head(connection)
    connection.shutdown(socket.SHUT_RDWR)


def switching_only(connection: socket.socket) -> None:
    read_head(connection)
    connection.sendall(SWITCHING)


def babbling(connection: socket.socket) -> None:
    switching_only(connection)
    connection.sendall(b"\xff" * 64)


def stranger(connection: socket.socket) -> None:
    read_head(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


def refusing(connection: socket.socket) -> None:
    switching_only(connection)
    error = AccessDenied("the session name belongs to another account")
    connection.sendall(frames.encode(1, frames.refusal(error)))


@both
@pytest.mark.parametrize(
    ("script", "error"),
    [
        (silent, ServerUnreachable),
        (hanging_up, ServerUnreachable),
        (switching_only, ServerUnreachable),
        (babbling, ClientConnectionError),
        (stranger, ClientConnectionError),
        (refusing, AccessDenied),
    ],
)
def test_no_session_comes_about(
    home: Path, connect: Callable[[Path], None], script: Script, error: type[Exception]
) -> None:
    with listening(home, script), pytest.raises(error):
        connect(home)


def breaking(connection: socket.socket) -> None:
    """Welcomes everybody and breaks at their first question."""
    switching_only(connection)
    connection.recv(4096)
    connection.sendall(frames.encode(1, Peer(greet=False).welcome()))
    connection.recv(4096)
    connection.shutdown(socket.SHUT_RDWR)


def ask_blocking(home: Path) -> None:
    with posthouse.connect(home) as manager:
        manager.status()


def ask_awaited(home: Path) -> None:
    async def main() -> None:
        async with posthouse.aio.connect(home) as manager:
            await manager.status()

    asyncio.run(main())


@pytest.mark.parametrize("ask", [ask_blocking, ask_awaited])
def test_a_question_that_breaks_every_connection_is_given_up(
    home: Path, ask: Callable[[Path], None]
) -> None:
    with listening(home, breaking) as listener:
        with pytest.raises(ConnectionError):
            ask(home)
        assert listener.connections == FRUITLESS_MAX


def look_blocking(home: Path, path: str) -> None:
    with posthouse.connect(home) as manager:
        manager.queue(path).lookup(1)


def look_awaited(home: Path, path: str) -> None:
    async def main() -> None:
        async with posthouse.aio.connect(home) as manager:
            await manager.queue(path).lookup(1)

    asyncio.run(main())


@pytest.mark.parametrize("look", [look_blocking, look_awaited])
def test_a_queue_that_opens_again_does_not_keep_such_a_question_alive(
    server: Serving, path: str, look: Callable[[Path, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with posthouse.connect(server.home) as manager:
        manager.create_queue(path)
    asked: list[int] = []

    def wrong(queue: int, lookup_id: int, *rest: Any) -> Lookup:
        asked.append(lookup_id)
        return Lookup(queue, -5, *rest)  # for which the queue manager ends the session

    monkeypatch.setattr(requests, "Lookup", wrong)
    with pytest.raises(ConnectionError):
        look(server.home, path)
    assert len(asked) == FRUITLESS_MAX


class Interrupted(Exception):
    """What a signal raises in the midst of a wait."""


def test_an_interrupted_receive_takes_nothing(server: Serving, path: str) -> None:
    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with posthouse.connect(server.home) as manager:
            queue = manager.create_queue(path)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Interrupted):
                queue.receive()
            while queue.properties().waiting_readers:
                pass
            queue.send(b"still here")
            assert queue.receive(timeout=5).body == b"still here"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_answer_in_pieces_is_an_answer(home: Path) -> None:
    def piecemeal(connection: socket.socket) -> None:
        read_head(connection)
        for byte in SWITCHING + frames.encode(1, Peer(greet=False).welcome()):
            connection.sendall(bytes((byte,)))

    with listening(home, piecemeal), posthouse.connect(home) as manager:
        assert manager.name == "ALPHA"


def test_nothing_is_asked_after_a_session_that_was_refused_later(home: Path) -> None:
    """A name that another account took meanwhile: trying again would not help."""
    answers = iter([frames.encode(1, Peer(greet=False).welcome())])

    def once(connection: socket.socket) -> None:
        switching_only(connection)
        connection.recv(4096)
        welcome = next(answers, None)
        if welcome is None:
            error = AccessDenied("the session name belongs to another account")
            connection.sendall(frames.encode(1, frames.refusal(error)))
        else:
            connection.sendall(welcome)
            connection.shutdown(socket.SHUT_RDWR)

    with listening(home, once) as listener, posthouse.connect(home) as manager:
        with pytest.raises(AccessDenied):
            manager.status()
        assert listener.connections == 2


def test_clients_come_back_one_by_one() -> None:
    pauses = {spread(1.0) for _ in range(100)}
    assert len(pauses) > 90
    assert all(0.5 <= pause <= 1.0 for pause in pauses)
