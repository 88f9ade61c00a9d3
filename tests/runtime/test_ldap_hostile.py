"""A directory server that means harm: listings without end, other servers, TLS taken away."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from posthouse.directory.authority import AuthorityAway
from posthouse.directory.ldap.settings import LdapSettings
from posthouse.runtime.ldap.connection import LdapConnection, LdapRefusal
from posthouse.security.tls_certificates import make_tls_files
from tests.process.hostile_ldap import (
    BIND,
    ROOT,
    SEARCH,
    Answer,
    HostileLdap,
    Request,
    civil,
    cookie,
    done,
    entry,
    hostile_ldap,
    message,
    part,
    text,
)

EXTENDED, EXTENDED_ANSWER = 0x77, 0x78
SECRET = "a secret of the queue manager"


def connected(server: HostileLdap, **options: Any) -> LdapConnection:
    options.setdefault("start_tls", False)
    options = {"connect_s": 1, "time_limit_s": 1, "page_size": 10} | options
    return LdapConnection(LdapSettings(url=server.url, **options))


def listed(connection: LdapConnection) -> list[Any]:
    return list(connection.search(ROOT.decode(), "(objectClass=*)", ["cn", "member"]))


def for_searches(answer: Answer) -> Answer:
    def chosen(request: Request) -> bytes:
        return answer(request) if request.operation == SEARCH and request.base else civil(request)

    return chosen


# -- listings


@pytest.mark.parametrize("size", [5_000, 100_000])
def test_a_listing_without_end_has_a_limit_in_bytes(size: int) -> None:
    """Pages of new entries, each with the promise of more, as fast as they are asked for."""
    numbers = count()

    def page(request: Request) -> bytes:
        found = (
            entry(request, b"CN=%d,%b" % (next(numbers), ROOT), {b"cn": [bytes(size)]})
            for _ in range(10)
        )
        return b"".join(found) + done(request, 0, b"", cookie(b"more"))

    with hostile_ldap(for_searches(page)) as server:
        connection = connected(server, listing_max=1 << 20)
        with pytest.raises(AuthorityAway, match="a listing has more than 1 MiB"):
            listed(connection)
        connection.close()
    assert next(numbers) * size < 4 << 20


def test_values_in_portions_without_end_have_an_end() -> None:
    """A domain that gives one value at a time, and always another."""
    now = [0.0]

    def portion(request: Request) -> bytes:
        now[0] += 1.9
        name = b"member;range=0-0"
        if b"range=" in request.content:
            name = b"member;range=1-1"
        return entry(request, b"CN=x," + ROOT, {name: [b"CN=y"]}) + done(request)

    with hostile_ldap(for_searches(portion)) as server:
        settings = LdapSettings(
            url=server.url, start_tls=False, connect_s=1, time_limit_s=1, whole_s=60
        )
        connection = LdapConnection(settings, clock=lambda: now[0])
        with pytest.raises(AuthorityAway, match="did not end within"):
            listed(connection)
        assert len(server.heard) < 60
        connection.close()


# -- other servers


@contextmanager
def another_server() -> Iterator[tuple[str, list[Any]]]:
    """Where nobody is to connect to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        came: list[Any] = []
        listener.settimeout(0.05)
        over = threading.Event()

        def wait() -> None:
            while not over.is_set():
                with suppress(TimeoutError):
                    came.append(listener.accept())

        thread = threading.Thread(target=wait)
        thread.start()
        try:
            yield f"ldap://127.0.0.1:{listener.getsockname()[1]}/{ROOT.decode()}", came
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize("operation", [BIND, SEARCH])
def test_referrals_are_not_followed(operation: int) -> None:
    with another_server() as (url, came):

        def refer(request: Request) -> bytes:
            if request.operation != operation or (operation == SEARCH and not request.base):
                return civil(request)
            result = (
                part(0x0A, bytes((10,))),
                text(b""),
                text(b""),
                part(0xA3, text(url.encode())),
            )
            tag = {BIND: 0x61, SEARCH: 0x65}[operation]
            more = b""
            if operation == SEARCH:
                more = message(request, part(0x73, text(url.encode())))
            return more + message(request, part(tag, *result))

        with hostile_ldap(refer) as server:
            connection = connected(server)
            with pytest.raises((AuthorityAway, LdapRefusal), match=r"referral|not LDAP"):
                listed(connection)
            connection.close()
    assert came == []


# -- TLS


class Downgrade:
    """A server, or somebody in front of it, that does not want TLS; what it hears is kept."""

    def __init__(self, after_start_tls: Callable[[socket.socket, bytes], None]) -> None:
        self.heard = bytearray()
        self._after = after_start_tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"ldap://localhost:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                peer.settimeout(2)
                with peer, suppress(OSError, ssl.SSLError):
                    request = peer.recv(4096)
                    self.heard += request
                    start = 4 if request[1] == 0x84 else 0
                    number = request[2 + start : 4 + start + request[3 + start]]
                    self._after(peer, number)
                    while more := peer.recv(4096):
                        self.heard += more

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def extended(number: bytes, code: int) -> bytes:
    result = part(EXTENDED_ANSWER, part(0x0A, bytes((code,))), text(b""), text(b""))
    return part(0x30, number, result)


def numbered(number: int) -> bytes:
    return part(2, bytes((number,)))


def injected() -> bytes:
    """Answers to what will be asked over TLS, in front of it and in the clear."""
    answers = b""
    for at in range(1, 8):
        request = Request(numbered(at), SEARCH, "", b"")
        answers += part(0x30, numbered(at), part(0x61, part(0x0A, b"\0"), text(b""), text(b"")))
        answers += entry(request, b"CN=injected," + ROOT, {b"cn": [b"injected"]}) + done(request)
    return answers


REFUSALS: dict[str, Callable[[socket.socket, bytes], None]] = {
    "protocolError": lambda peer, number: peer.sendall(extended(number, 2)),
    "unavailable": lambda peer, number: peer.sendall(extended(number, 52)),
    "a bind's answer": lambda peer, number: peer.sendall(
        part(0x30, number, part(0x61, part(0x0A, b"\0"), text(b""), text(b"")))
    ),
    "nothing": lambda peer, number: None,
    "success and no TLS": lambda peer, number: peer.sendall(extended(number, 0) + injected()),
    "a notice of disconnection": lambda peer, number: peer.sendall(
        part(0x30, numbered(0), part(EXTENDED_ANSWER, part(0x0A, b"\x34"), text(b""), text(b"")))
    ),
}


def secret_file(folder: Path) -> str:
    file = folder / "password"
    file.write_text(SECRET)
    file.chmod(0o600)
    return str(file)


@pytest.mark.parametrize("refuse", REFUSALS.values(), ids=REFUSALS)
def test_without_tls_no_password_is_sent(
    refuse: Callable[[socket.socket, bytes], None], tmp_path: Path
) -> None:
    server = Downgrade(refuse)
    settings = LdapSettings(
        url=server.url,
        authentication="simple",
        user="CN=qm",
        password_file=secret_file(tmp_path),
        connect_s=1,
        time_limit_s=1,
    )
    connection = LdapConnection(settings)
    try:
        with pytest.raises(AuthorityAway):
            listed(connection)
    finally:
        connection.close()
        server.close()
    assert SECRET.encode() not in server.heard
    assert b"CN=qm" not in server.heard


def test_what_was_said_in_front_of_tls_does_not_count(tmp_path: Path) -> None:
    """Somebody in between adds answers to the last words in clear text; the server is silent."""
    files = make_tls_files(["localhost"], int(time.time()), 1)
    (tmp_path / "cert.pem").write_bytes(files.certificate)
    (tmp_path / "key.pem").write_bytes(files.private_key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    encrypted: list[bytes] = []

    def inject(peer: socket.socket, number: bytes) -> None:
        peer.sendall(extended(number, 0) + injected())
        with context.wrap_socket(peer, server_side=True) as secure, suppress(OSError):
            while data := secure.recv(4096):
                encrypted.append(data)

    server = Downgrade(inject)
    settings = LdapSettings(
        url=server.url, ca_file=str(tmp_path / "cert.pem"), connect_s=1, time_limit_s=1
    )
    connection = LdapConnection(settings)
    try:
        with pytest.raises(AuthorityAway):
            assert not listed(connection)
    finally:
        connection.close()
        server.close()


@pytest.mark.parametrize("names", [["other.example"], ["localhost"]], ids=["name", "authority"])
def test_a_certificate_of_somebody_else_is_not_taken(names: list[str], tmp_path: Path) -> None:
    files = make_tls_files(names, int(time.time()), 1)
    trusted = make_tls_files(["localhost"], int(time.time()), 1)
    (tmp_path / "cert.pem").write_bytes(files.certificate)
    (tmp_path / "key.pem").write_bytes(files.private_key)
    ca = files.certificate if names != ["localhost"] else trusted.certificate
    (tmp_path / "ca.pem").write_bytes(ca)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    heard: list[bytes] = []

    def serve(peer: socket.socket, number: bytes) -> None:
        peer.sendall(extended(number, 0))
        with context.wrap_socket(peer, server_side=True) as secure:
            heard.append(secure.recv(4096))

    server = Downgrade(serve)
    settings = LdapSettings(
        url=server.url,
        ca_file=str(tmp_path / "ca.pem"),
        authentication="simple",
        user="CN=qm",
        password_file=secret_file(tmp_path),
        connect_s=1,
        time_limit_s=1,
    )
    connection = LdapConnection(settings)
    try:
        with pytest.raises(AuthorityAway, match="certificate"):
            listed(connection)
    finally:
        connection.close()
        server.close()
    assert not any(heard)
