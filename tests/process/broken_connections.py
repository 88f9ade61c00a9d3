"""Peers that connect, send what is wrong or not whole, and go without reading an answer."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import NamedTuple

PATIENCE_MS = 50  # for another peer's bytes to be taken, or an answer to come
GARBAGE = Random(1).randbytes(64 << 10)


class Broken(NamedTuple):
    """The endpoint, and the bytes that are sent there."""

    endpoint: str
    sent: bytes


def head(line: str, *fields: str) -> bytes:
    return "\r\n".join([line, "Host: localhost", *fields, "", ""]).encode()


def kinds(token: str) -> dict[str, Broken]:
    """Something for each door; the token is one of the admin endpoint."""
    post = head("POST /msmq/private$/q HTTP/1.1", "Content-Type: text/xml", "Content-Length: 60000")
    chunks = head("POST /msmq/private$/q HTTP/1.1", "Transfer-Encoding: chunked")
    upgrade = head("GET /healthz HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket")
    long = "Content-Type: application/json", "Content-Length: 200000"
    path, shown = "POST /api/v1/queues HTTP/1.1", f"Authorization: Bearer {token}"
    return {
        "http garbage": Broken("http", GARBAGE),
        "http post and garbage": Broken("http", post + GARBAGE),
        "http half a chunk": Broken("http", chunks + b"fff0\r\n" + GARBAGE[:50_000]),
        "https garbage in TLS": Broken("https", GARBAGE),
        "https half a post": Broken("https", post + GARBAGE[:30_000]),
        "admin garbage": Broken("admin", GARBAGE),
        "admin get and garbage": Broken("admin", head("GET /healthz HTTP/1.1") + GARBAGE),
        "admin upgrade and garbage": Broken("admin", upgrade + GARBAGE[:30_000]),
        "admin no token": Broken("admin", head(path, *long) + GARBAGE),
        "admin half a body": Broken("admin", head(path, shown, *long) + b"{" + b" " * 60_000),
        "binary garbage": Broken("binary", GARBAGE),
        "rpc garbage": Broken("rpc", GARBAGE),
        "ncp garbage": Broken("ncp", GARBAGE),
    }


class Breaker:
    """Opens connections at an endpoint and breaks them, so many at a time."""

    def __init__(self, where: str, sent: bytes, at_once: int, *, tls: bool) -> None:
        host, _, port = where.rpartition(":")
        self._where = host, int(port)
        self._sent = sent
        self._at_once = at_once
        self._tls = _trusting() if tls else None

    def run(self, count: int) -> None:
        while count > 0:
            batch = [self._open() for _ in range(min(count, self._at_once))]
            for one in _as_ready(batch, select.POLLOUT):
                with suppress(OSError):
                    one.send(self._sent)
            for one in _as_ready(batch, select.POLLIN):
                one.close()
            for one in batch:
                one.close()
            count -= len(batch)

    def _open(self) -> socket.socket:
        one = socket.socket()
        one.settimeout(60)
        one.connect(self._where)
        if self._tls is not None:
            one = self._tls.wrap_socket(one)
        one.setblocking(False)
        return one


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _as_ready(sockets: list[socket.socket], events: int) -> Iterator[socket.socket]:
    """Each once, as it becomes ready, until no other does for a while."""
    poll, left = select.poll(), {one.fileno(): one for one in sockets}
    for number in left:
        poll.register(number, events)
    while left and (ready := poll.poll(PATIENCE_MS)):
        for number, _ in ready:
            poll.unregister(number)
            yield left.pop(number)
