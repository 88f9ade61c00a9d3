"""Splits a byte stream into HTTP messages, without I/O: requests and responses (RFC 9112).

A reader takes bytes in any pieces. What it cannot understand it names in `error`, and takes nothing
more: where the next message would begin is unknown.
"""

from __future__ import annotations

from typing import NamedTuple

from posthouse.model.errors import without_frames
from posthouse.protocols.srmp.http_head import (
    REMEMBERED_SIZE_MAX,
    HttpFault,
    RequestHead,
    ResponseHead,
    read_chunk_size,
    read_fields,
    read_request_head,
    read_response_head,
)
from posthouse.protocols.srmp.settings import SrmpSettings
from posthouse.wire.block_buffer import BLOCK, Gathered

_END = b"\r\n\r\n"
_new = tuple.__new__  # one for each request: half the time of a call of its class
_LINE_MAX = 256  # of the size of a chunk with its extensions
SMALL = BLOCK  # bytes of a body in chunks that are read whatever it may become
_CONTINUES_MAX = 8  # interim responses to one request
# A chunk costs as much as some thousand bytes. An honest sender does not send many tiny ones.
CHUNKS_FREE = 1024
CHUNK_SIZE_MIN = 256  # of all of them on average, if there are more than that


class HttpRequest(NamedTuple):
    """A whole request."""

    head: RequestHead
    body: bytes


class _Chunks:
    """A body in chunks: how far it has come."""

    __slots__ = (
        "_count",
        "_fields_max",
        "_left",
        "_line",
        "_size_max",
        "_trailer",
        "body",
        "ended",
    )

    def __init__(self, size_max: int, fields_max: int) -> None:
        self.body = Gathered()
        self.ended = False
        self._size_max = size_max
        self._fields_max = fields_max
        self._line = b""  # an unfinished line
        self._left = 0  # of a chunk, with the line end after it
        self._count = 0  # of chunks so far
        self._trailer: bytes | None = None  # after the last chunk

    @property
    def held(self) -> int:
        return len(self.body) + len(self._line)

    def feed(self, data: bytes, at: int) -> int:
        """Takes its own bytes from there on; returns where they end."""
        while at < len(data) and not self.ended:
            at = self._take(data, at) if self._left else self._take_line(data, at)
        return at

    def _take(self, data: bytes, at: int) -> int:
        taken = data[at : at + self._left]
        body = taken[: max(self._left - 2, 0)]
        self.body.add(body)
        end = taken[len(body) :]
        if not b"\r\n"[2 - min(self._left, 2) :].startswith(end):
            raise HttpFault("a chunk does not end where it should")
        self._left -= len(taken)
        return at + len(taken)

    def _take_line(self, data: bytes, at: int) -> int:
        end = data.find(b"\n", at)
        self._line += data[at:] if end < 0 else data[at : end + 1]
        if len(self._line) > _LINE_MAX:
            raise HttpFault("a line between chunks is too long")
        if end < 0:
            return len(data)
        line, self._line = self._line, b""
        if not line.endswith(b"\r\n"):
            raise HttpFault("a line does not end with carriage return and line feed")
        self._end_line(line)
        return end + 1

    def _end_line(self, line: bytes) -> None:
        if self._trailer is not None:
            self._trailer += line
            self.ended = line == b"\r\n"
            if self.ended:
                read_fields(self._trailer[:-2], self._fields_max)
            elif self._trailer.count(b"\n") > self._fields_max:
                raise HttpFault("there are too many fields after the body")
            return
        size = read_chunk_size(line[:-2])
        if len(self.body) + size > self._size_max:
            raise HttpFault(f"the body is larger than {self._size_max} bytes")
        if size:
            self._left = size + 2
            self._count += 1
            if len(self.body) < (self._count - CHUNKS_FREE) * CHUNK_SIZE_MIN:
                raise HttpFault("the chunks are too small")
        else:
            self._trailer = b""


def _find_end(data: bytes, at: int, looked: int, size_max: int) -> int:
    """Where a head that begins there ends, its empty line included; 0 if it does not yet.

    In this many bytes of it there was no end before.
    """
    end = data.find(_END, at + max(looked - 3, 0))
    size = (len(data) if end < 0 else end + 4) - at
    if size > size_max:
        raise HttpFault(f"the head is larger than {size_max} bytes", 431)
    if end < 0 and data.count(b"\n", at) != data.count(b"\r\n", at):
        raise HttpFault("a line does not end with carriage return and line feed")
    return 0 if end < 0 else end + 4


class RequestReader:
    """The requests of a connection."""

    __slots__ = (
        "_body",
        "_chunks",
        "_head",
        "_held",
        "_last",
        "_missing",
        "_settings",
        "_skipped",
        "error",
        "expects",
    )

    def __init__(self, settings: SrmpSettings) -> None:
        self._settings = settings
        self._held = b""  # of a head
        self._last: RequestHead | None = None  # a short head, which most senders repeat
        self._head: RequestHead | None = None  # whose body is on its way
        self._body = Gathered()
        self._missing = 0
        self._chunks: _Chunks | None = None
        self._skipped = False  # an empty line: RFC 9112 2.2, some send one after a body
        self.error: HttpFault | None = None
        self.expects = False  # the peer waits for `100 Continue` before it goes on

    @property
    def held(self) -> int:
        """Bytes of a request that is not whole yet."""
        chunks = 0 if self._chunks is None else self._chunks.held
        return len(self._held) + self._body.size + chunks

    @property
    def announced(self) -> int:
        """Bytes of that request when it is whole; in chunks it may become as large as any."""
        if self._chunks is None:
            return self.held + self._missing
        return self._settings.body_size_max if self._chunks.held > SMALL else self._chunks.held

    @property
    def is_begun(self) -> bool:
        """Whether a request is on its way."""
        return self._head is not None or bool(self._held)

    def feed(self, data: bytes) -> list[HttpRequest]:
        """The requests that are whole with these bytes."""
        requests: list[HttpRequest] = []
        if self.error is None:
            try:
                self._feed(data, requests)
            except HttpFault as fault:
                self.error = without_frames(fault)  # else a circle: frames, reader, error
                self._forget()
        return requests

    def _forget(self) -> None:
        self._held, self._head, self._chunks = b"", None, None
        self._body, self._missing, self.expects = Gathered(), 0, False

    def _feed(self, data: bytes, requests: list[HttpRequest]) -> None:
        at = 0
        while at < len(data):
            if self._head is None:
                data, at = self._read_head(data, at, requests)
            elif self._chunks is not None:
                self.expects = False
                at = self._chunks.feed(data, at)
                if self._chunks.ended:
                    self._finish(requests, self._chunks.body.take())
            else:
                self.expects = False
                piece = data[at : at + self._missing]
                self._body.add(piece)
                self._missing -= len(piece)
                at += len(piece)
                if not self._missing:
                    self._finish(requests, self._body.take())

    def _read_head(self, data: bytes, at: int, requests: list[HttpRequest]) -> tuple[bytes, int]:
        """The next head, and a body that is there already; where to go on."""
        looked = len(self._held)
        if looked:
            data, at, self._held = self._held + data[at:], 0, b""
        if data.startswith(b"\r\n", at) and not self._skipped:
            at, looked, self._skipped = at + 2, 0, True
        head = self._last
        if head is not None and data.startswith(head.raw, at):
            end = at + len(head.raw)
        else:
            end = _find_end(data, at, looked, self._settings.head_size_max)
            if not end:
                self._held = data[at:]
                return b"", 0
            head = read_request_head(data[at:end], self._settings.fields_max)
            self._check(head)
            self._last = head if len(head.raw) <= REMEMBERED_SIZE_MAX else None
        self._skipped = False
        length = head.length
        whole = end + length
        if head.is_chunked:
            self._chunks = _Chunks(self._settings.body_size_max, self._settings.fields_max)
        elif whole <= len(data):
            requests.append(_new(HttpRequest, (head, data[end:whole])))
            return data, whole
        else:
            self._missing = length
        self._head, self.expects = head, head.expects
        return data, end

    def _check(self, head: RequestHead) -> None:
        """What is not wanted is not read either."""
        if head.length > self._settings.body_size_max:
            raise HttpFault(f"the body is larger than {self._settings.body_size_max} bytes")
        if head.method != b"POST" and head.has_body:
            raise HttpFault("messages come by POST", 405)

    def _finish(self, requests: list[HttpRequest], body: bytes) -> None:
        assert self._head is not None
        requests.append(HttpRequest(self._head, body))
        self._forget()


class ResponseReader:
    """The responses to requests of ours. Their bodies are passed over, up to a limit."""

    __slots__ = ("_chunks", "_continues", "_held", "_left", "_settings", "_without_bodies", "error")

    def __init__(self, settings: SrmpSettings, *, without_bodies: bool = False) -> None:
        self._settings = settings
        self._without_bodies = without_bodies  # to CONNECT
        self._held = b""
        self._left = 0  # of a body
        self._chunks: _Chunks | None = None
        self._continues = 0
        self.error: HttpFault | None = None

    @property
    def held(self) -> int:
        """Bytes of a response that is not whole yet."""
        return len(self._held) + (0 if self._chunks is None else self._chunks.held)

    @property
    def is_begun(self) -> bool:
        """Whether a response, or its body, is on its way."""
        return bool(self._held) or self._left > 0 or self._chunks is not None

    def feed(self, data: bytes) -> list[ResponseHead]:
        """The responses whose heads are whole with these bytes.

        One that does not keep its connection is the last; what is after it is not read.
        """
        heads: list[ResponseHead] = []
        if self.error is None:
            try:
                self._feed(data, heads)
            except HttpFault as fault:
                self.error = without_frames(fault)  # else a circle: frames, reader, error
                self._held, self._chunks = b"", None
        return heads

    def _feed(self, data: bytes, heads: list[ResponseHead]) -> None:
        at = 0
        while at < len(data):
            if self._left:
                passed = min(self._left, len(data) - at)
                self._left -= passed
                at += passed
            elif self._chunks is not None:
                at = self._chunks.feed(data, at)
                if self._chunks.ended:
                    self._chunks = None
            else:
                data, at = self._read_head(data, at, heads)

    def _read_head(self, data: bytes, at: int, heads: list[ResponseHead]) -> tuple[bytes, int]:
        looked = len(self._held)
        if looked:
            data, at, self._held = self._held + data[at:], 0, b""
        end = _find_end(data, at, looked, self._settings.head_size_max)
        if not end:
            self._held = data[at:]
            return b"", 0
        head = read_response_head(data[at:end], self._settings.fields_max)
        if head.status < 200:
            self._continues += 1
            if head.status == 101 or self._continues > _CONTINUES_MAX:
                raise HttpFault("an interim response that was not asked for")
            return data, end
        self._continues = 0
        head = self._pass_over(head)
        heads.append(head)
        return (data, end) if head.keep else (b"", 0)

    def _pass_over(self, head: ResponseHead) -> ResponseHead:
        if self._without_bodies:
            return head._replace(keep=True)
        size_max = self._settings.answer_size_max
        if head.length is None or head.length > size_max:
            return head._replace(keep=False)
        if not head.keep:
            return head
        if head.is_chunked:
            self._chunks = _Chunks(size_max, self._settings.fields_max)
        else:
            self._left = head.length
        return head
