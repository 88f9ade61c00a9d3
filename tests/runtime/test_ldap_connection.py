"""Servers that take their time, or talk nonsense, on a real socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory.authority import AuthorityAway
from posthouse.directory.ldap.settings import LdapSettings
from posthouse.runtime.ldap.connection import LdapConnection, LdapRefusal
from posthouse.runtime.ldap.socket import ANSWER_SIZE_MAX, TimedSocket

BIND = bytes.fromhex("61070a010004000400")  # success
DONE = bytes.fromhex("65070a010004000400")  # nothing found
GONE = bytes.fromhex("65070a012004000400")  # noSuchObject
MORE = (  # the control of RFC 2696: there are more pages
    bytes.fromhex("a02430220416")
    + b"1.2.840.113556.1.4.319"
    + bytes.fromhex("04083006020100040178")
)
LONG = bytes.fromhex("3084100000000201")  # a message of 256 MiB, it says


def answered(peer: socket.socket, answer: bytes) -> None:
    """Hears one request, and says something to that."""
    request = peer.recv(4096)
    start = 4 if request[1] == 0x84 else 0  # how the library writes lengths, or the short form
    number = request[2 + start : 4 + start + request[3 + start]]
    peer.sendall(bytes((0x30, len(number) + len(answer))) + number + answer)


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[LdapConnection]:
    """A connection to a server that hears nothing and says what it wants."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    with peer, suppress(OSError):
                        answer(peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        settings = LdapSettings(
            url=f"ldap://127.0.0.1:{listener.getsockname()[1]}",
            start_tls=False,
            connect_s=1,
            time_limit_s=1,
        )
        connection = LdapConnection(settings)
        try:
            yield connection
        finally:
            connection.close()
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_a_server_is_heard() -> None:
    def answer(peer: socket.socket) -> None:
        answered(peer, BIND)
        answered(peer, DONE)

    with answering(answer) as connection:
        assert connection.get("", ["objectClass"]) is None


def test_a_listing_that_breaks_off_between_its_pages_is_none() -> None:
    """At the first page it says that there is nothing; behind others it would be half of it."""

    def answer(peer: socket.socket) -> None:
        for one in (BIND, GONE, DONE + MORE, GONE):
            answered(peer, one)

    with answering(answer) as connection:
        assert list(connection.search("DC=x", "(objectClass=*)", ["cn"])) == []
        with pytest.raises(LdapRefusal, match="noSuchObject"):
            list(connection.search("DC=x", "(objectClass=*)", ["cn"]))


def test_every_exchange_has_a_time_of_its_own() -> None:
    def answer(peer: socket.socket) -> None:
        answered(peer, BIND)
        answered(peer, DONE)
        answered(peer, DONE)

    with answering(answer) as connection:
        assert connection.get("", ["objectClass"]) is None
        connection._open.socket.begin(0, 1)  # as if that had been long ago
        assert connection.get("", ["objectClass"]) is None


def test_an_answer_that_comes_byte_by_byte_ends_with_its_time() -> None:
    opened = []

    def answer(peer: socket.socket) -> None:
        opened.append(peer)
        answered(peer, BIND)
        peer.recv(4096)
        peer.sendall(LONG)
        peer.settimeout(0.05)
        while True:  # until the other end has had enough
            peer.sendall(b"\0")
            with suppress(TimeoutError):
                if not peer.recv(4096):
                    return

    with (
        answering(answer) as connection,
        pytest.raises(AuthorityAway, match="no whole answer within 2 seconds"),
    ):
        connection.get("", ["objectClass"])
    assert len(opened) == 1  # it is not asked again at once


@given(st.lists(st.binary(max_size=40) | st.sampled_from([BIND, DONE]), max_size=3), st.booleans())
def test_nonsense_is_a_server_that_is_away(parts: list[bytes], is_bound: bool) -> None:
    def answer(peer: socket.socket) -> None:
        if is_bound:
            answered(peer, BIND)
        peer.sendall(b"".join(parts))
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(4096):
            pass

    with answering(answer) as connection, pytest.raises(AuthorityAway):
        connection.get("", ["objectClass"])


class Plain:
    """A socket that never tires."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.timeouts: list[float] = []

    def settimeout(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("Timeout value out of range")
        self.timeouts.append(seconds)

    def recv(self, size: int) -> bytes:
        return bytes(self.size)


def test_every_read_has_the_time_that_is_left() -> None:
    times = iter([0.0, 0.0, 3.0, 10.1])
    plain = Plain(1)
    timed = TimedSocket(plain, clock=lambda: next(times))
    timed.begin(10)
    timed.recv(1)
    timed.recv(1)
    with pytest.raises(TimeoutError):
        timed.recv(1)
    assert plain.timeouts == [10.0, 7.0]
    assert timed.expired


def test_an_answer_has_an_end_in_memory_too() -> None:
    timed = TimedSocket(Plain(ANSWER_SIZE_MAX // 2), clock=lambda: 0.0)
    timed.begin(10)
    timed.recv(1)
    timed.recv(1)
    with pytest.raises(OSError, match="16 MiB"):
        timed.recv(1)
