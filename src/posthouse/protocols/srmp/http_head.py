"""Parses the head of an HTTP message strictly (RFC 9112; decision 68).

What two readers could understand in two ways is refused: line feeds alone, folded fields, white
space in front of a colon, two lengths, a length beside a transfer coding.
"""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

from posthouse.model.errors import RemoteProtocolError

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_FIELDS = re.compile(rb"(?:" + _TOKEN + rb":[\t\x20-\x7e\x80-\xff]*\r\n)*")
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e]+) HTTP/(\d)\.(\d)")
_STATUS_LINE = re.compile(rb"HTTP/(\d)\.(\d) ([1-5]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?")
_LENGTH = re.compile(rb"\d{1,18}")
_ESCAPES = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*")
_ONCE = frozenset(
    {
        b"content-length",
        b"transfer-encoding",
        b"host",
        b"content-type",
        b"expect",
        b"content-encoding",
    }
)
_CHUNKED = -1
REMEMBERED_SIZE_MAX = 1024

Fields = dict[bytes, bytes]


class HttpFault(RemoteProtocolError):
    """What is wrong with a request or a response, and the status that a request gets for it."""

    def __init__(self, words: str, status: int = 400) -> None:
        super().__init__(words)
        self.words = words
        self.status = status


class RequestHead(NamedTuple):
    """The head of a request."""

    raw: bytes  # as it came, with the empty line
    method: bytes
    path: str  # without escapes
    content_type: str
    length: int  # of the body; CHUNKED: given by its chunks
    keep: bool  # whether the connection is to stay
    expects: bool  # `100 Continue` before it sends its body
    is_old: bool  # HTTP/1.0
    forwarded_for: str
    traceparent: str = ""  # of W3C, as it came
    tracestate: str = ""

    @property
    def is_chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return self.length == _CHUNKED

    @property
    def has_body(self) -> bool:
        """Whether anything follows."""
        return self.length != 0


class ResponseHead(NamedTuple):
    """The head of a response."""

    status: int
    reason: str
    length: int | None  # of the body; CHUNKED, or None: it ends with the connection
    keep: bool
    date: int = 0  # the second of the peer's clock; 0: not sent

    @property
    def is_chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return self.length == _CHUNKED


def read_request_head(raw: bytes, fields_max: int) -> RequestHead:
    """The head of a request, with the empty line after it; raises HttpFault.

    A sender of many messages repeats the same head, so the results for short heads are cached.
    """
    if len(raw) <= REMEMBERED_SIZE_MAX:
        return _read_short_head(raw, fields_max)
    return _read_head(raw, fields_max)


def _read_head(raw: bytes, fields_max: int) -> RequestHead:
    line, _, block = raw[:-2].partition(b"\r\n")
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        raise HttpFault("the request line is malformed")
    method, target, major, minor = found.groups()
    if major != b"1":
        raise HttpFault("only HTTP/1.0 and HTTP/1.1 are spoken here", 505)
    is_old = minor == b"0"
    fields = read_fields(block, fields_max)
    if b"host" not in fields and not is_old:
        raise HttpFault("there is no Host")
    length = _body_length(fields, is_old)
    if length is None:
        if method == b"POST":
            raise HttpFault("there is no Content-Length", 411)
        length = 0
    expect = fields.get(b"expect", b"").lower()
    if expect not in (b"", b"100-continue"):
        raise HttpFault("this expectation cannot be met", 417)
    return RequestHead(
        raw,
        method,
        _path_of(target, method),
        fields.get(b"content-type", b"").decode("latin-1"),
        length,
        _keeps(fields, is_old),
        bool(expect) and not is_old,
        is_old,
        fields.get(b"x-forwarded-for", b"").decode("latin-1"),
        fields.get(b"traceparent", b"").decode("latin-1"),
        fields.get(b"tracestate", b"").decode("latin-1"),
    )


_read_short_head = lru_cache(256)(_read_head)


def read_response_head(raw: bytes, fields_max: int) -> ResponseHead:
    """The head of a response, with the empty line after it; raises HttpFault."""
    line, _, block = raw[:-2].partition(b"\r\n")
    found = _STATUS_LINE.fullmatch(line)
    if found is None or found[1] != b"1":
        raise HttpFault("the status line is malformed")
    is_old, status = found[2] == b"0", int(found[3])
    fields = read_fields(block, fields_max)
    length = 0 if status < 200 or status in (204, 304) else _body_length(fields, is_old)
    keep = _keeps(fields, is_old) and length is not None
    reason, date = (found[4] or b"").decode("latin-1").strip(), _date_of(fields.get(b"date", b""))
    return ResponseHead(status, reason, length, keep, date)


@lru_cache(64)
def _date_of(text: bytes) -> int:
    """UTC seconds of a Date (RFC 9110 5.6.7); 0 for what is none."""
    try:
        return max(0, int(parsedate_to_datetime(text.decode("ascii")).timestamp()))
    except (ValueError, TypeError, OverflowError, IndexError):
        return 0


def read_fields(block: bytes, fields_max: int) -> Fields:
    """Header fields by their names in small letters; those that count once, once."""
    if _FIELDS.fullmatch(block) is None:
        raise HttpFault("a header field is malformed")
    lines = block.split(b"\r\n")
    if len(lines) > fields_max + 1:
        raise HttpFault(f"there are more than {fields_max} header fields", 431)
    fields: Fields = {}
    for line in lines[:-1]:
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        if name not in fields:
            fields[name] = value
        elif name in _ONCE:
            raise HttpFault(f"{name.decode('ascii')} stands there twice")
        else:
            fields[name] += b", " + value
    return fields


def _body_length(fields: Fields, is_old: bool) -> int | None:
    """Of the body; CHUNKED, or None where nothing is said."""
    length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
    if fields.get(b"content-encoding", b"identity").lower() not in (b"", b"identity"):
        raise HttpFault("no content coding is understood here", 415)
    if coding is not None:
        if length is not None:
            raise HttpFault("there are a Content-Length and a Transfer-Encoding")
        if is_old or coding.lower() != b"chunked":
            raise HttpFault("this transfer coding is not understood")
        return _CHUNKED
    if length is None:
        return None
    if _LENGTH.fullmatch(length) is None:
        raise HttpFault("the Content-Length is not a number")
    return int(length)


def _keeps(fields: Fields, is_old: bool) -> bool:
    if b"connection" not in fields:
        return not is_old
    options = fields[b"connection"].lower().replace(b" ", b"").split(b",")
    return b"keep-alive" in options if is_old else b"close" not in options


def _path_of(target: bytes, method: bytes) -> str:
    """The path, without escapes and query; its queue counts nowhere (decision 61)."""
    text = target.decode("ascii")
    if not text.startswith("/"):
        if method in (b"OPTIONS", b"CONNECT"):
            return ""
        text = _path_of_url(text)
    text = text.partition("?")[0]
    if _ESCAPES.fullmatch(text) is None:
        raise HttpFault("the path has a percent sign that escapes nothing")
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        raise HttpFault("the path is not UTF-8") from None


def _path_of_url(text: str) -> str:
    """The absolute form, as proxies get it."""
    try:
        url = urlsplit(text)
    except ValueError:
        raise HttpFault("the request target is malformed") from None
    if url.scheme not in ("http", "https") or not url.netloc:
        raise HttpFault("the request target is malformed")
    return url.path or "/"


def read_chunk_size(line: bytes) -> int:
    """The size of a chunk; extensions after it are passed over."""
    digits = line.partition(b";")[0].rstrip(b" \t")
    if _CHUNK_SIZE.fullmatch(digits) is None or b"\r" in line or b"\n" in line:
        raise HttpFault("the size of a chunk is malformed")
    return int(digits, 16)


_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")
