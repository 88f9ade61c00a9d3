"""A directory server that answers what a test wants, on a real socket: late, wrong, or nothing."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

BIND, UNBIND, SEARCH, MODIFY, ADD, DELETE = 0x60, 0x42, 0x63, 0x66, 0x68, 0x4A
ANSWERS: Final = {BIND: 0x61, SEARCH: 0x65, MODIFY: 0x67, ADD: 0x69, DELETE: 0x6B}
SUCCESS, NO_SUCH_OBJECT = 0, 32
PAGES: Final = b"1.2.840.113556.1.4.319"
ROOT: Final = b"DC=hostile"


class Request(NamedTuple):
    """What was asked: its number as it came, what for, about what, and all of it."""

    number: bytes
    operation: int
    base: str
    content: bytes

    @property
    def is_by_octets(self) -> bool:
        """Whether it is a search for an identifier (RFC 4517, octetStringMatch)."""
        return b"2.5.13.17" in self.content


Answer = Callable[[Request], bytes]
"""The bytes that answer a request; none are a silence. ConnectionError ends the connection."""


def part(tag: int, *content: bytes) -> bytes:
    """A value of BER (X.690)."""
    body = b"".join(content)
    size = len(body)
    length = bytes((size,)) if size < 0x80 else b"\x84" + size.to_bytes(4, "big")
    return bytes((tag,)) + length + body


def text(value: bytes) -> bytes:
    return part(4, value)


def message(request: Request, operation: bytes, *controls: bytes) -> bytes:
    return part(0x30, request.number, operation, *(part(0xA0, one) for one in controls))


def done(request: Request, code: int = SUCCESS, words: bytes = b"", *controls: bytes) -> bytes:
    """The end of an answer."""
    result = (part(0x0A, bytes((code,))), text(b""), text(words))
    return message(request, part(ANSWERS[request.operation], *result), *controls)


def entry(request: Request, dn: bytes, attributes: Mapping[bytes, Sequence[bytes]]) -> bytes:
    """An entry that was found."""
    listed = (
        part(0x30, text(name), part(0x31, *map(text, values)))
        for name, values in attributes.items()
    )
    return message(request, part(0x64, text(dn), part(0x30, *listed)))


def reference(request: Request) -> bytes:
    """The word that another server may know more."""
    return message(request, part(0x73, text(b"ldap://elsewhere.example/" + ROOT)))


def cookie(value: bytes) -> bytes:
    """A control that promises another page."""
    return part(0x30, text(PAGES), text(part(0x30, part(2, b"\0"), text(value))))


def civil(request: Request) -> bytes:
    """As an empty directory answers that lets everybody in."""
    if request.operation == SEARCH and not request.base:
        return entry(request, b"", {b"namingContexts": [ROOT]}) + done(request)
    return done(request)


class HostileLdap(socketserver.ThreadingTCPServer):
    """Listens until the end of a test; whoever asks gets `answer`."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Talk)
        self.answer = answer
        self.heard: list[Request] = []

    @property
    def url(self) -> str:
        return f"ldap://localhost:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that have had enough hang up."""


class _Talk(socketserver.StreamRequestHandler):
    server: HostileLdap

    def handle(self) -> None:
        while heard := self._hear():
            self.server.heard.append(heard)
            if heard.operation == UNBIND:
                return
            self.wfile.write(self.server.answer(heard))

    def _hear(self) -> Request | None:
        if not self.rfile.read(1):
            return None
        body = self.rfile.read(self._length())
        number, rest = _split(body)
        content = _content(rest)
        base = _content(content).decode() if rest[0] == SEARCH else ""
        return Request(number, rest[0], base, content)

    def _length(self) -> int:
        first = self.rfile.read(1)[0]
        return first if first < 0x80 else int.from_bytes(self.rfile.read(first & 0x7F), "big")


def _split(data: bytes) -> tuple[bytes, bytes]:
    """The first value and what follows it."""
    start, size = _extent(data)
    return data[: start + size], data[start + size :]


def _content(data: bytes) -> bytes:
    start, size = _extent(data)
    return data[start : start + size]


def _extent(data: bytes) -> tuple[int, int]:
    if data[1] < 0x80:
        return 2, data[1]
    count = data[1] & 0x7F
    return 2 + count, int.from_bytes(data[2 : 2 + count], "big")


@contextmanager
def hostile_ldap(answer: Answer = civil) -> Iterator[HostileLdap]:
    """Such a server for a while."""
    with HostileLdap(answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
