"""The payload of an SRMP message: an envelope, or one with body and extension as MIME parts.

[MC-MQSRM] 2.2.2 and the examples of section 4. MSMQ puts no CRLF in front of a delimiter, which
standard parsers take for a part of the body; so each part ends where its Content-Length ends
(decision 68). Both forms are read, MSMQ's is written.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from posthouse.model.errors import MalformedPacket
from posthouse.model.text import excerpt
from posthouse.wire.srmp.message import SrmpMessage
from posthouse.wire.srmp.values import write_guid

XML: Final = "text/xml"
_WRITTEN_XML: Final = f"{XML}; charset=UTF-8"
MULTIPART: Final = "multipart/related"
OCTETS: Final = "application/octet-stream"
BODY: Final = "body@"  # of a Content-Id, 2.2.7.1.2
EXTENSION: Final = "extension@"
PARTS_MAX: Final = 8
PART_HEADERS_SIZE_MAX: Final = 4096
BOUNDARY_LENGTH_MAX: Final = 70  # [RFC2046] 5.1.1
CONTENT_TYPE_LENGTH_MAX: Final = 1024
# Entries that strangers can fill; the limits around this line bound their size.
_CACHED: Final = 1024
_CACHED_LENGTH_MAX: Final = 512
BOUNDARIES_TRIED: Final = 8
FRAME_SIZE_MAX: Final = 1024  # of what a connection remembers

_PARAMETER: Final = re.compile(
    r'\s*;\s*([!#$%&\'*+\-.^_`|~0-9A-Za-z]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;"]+)', re.ASCII
)
_BOUNDARY: Final = re.compile(r"[0-9A-Za-z'()+_,\-./:=? ]*[0-9A-Za-z'()+_,\-./:=?]", re.ASCII)
_FIELD: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([^\r\n\0]*)\r\n")
_LENGTH: Final = re.compile(rb"[0-9]{1,10}")


class Parts(NamedTuple):
    """A payload taken apart; a part that is not there is empty and has no identifier."""

    envelope: bytes
    body: bytes = b""
    extension: bytes = b""
    body_at: int = 0  # its offset in the payload; the end of the payload if there is none
    body_id: str = ""  # Content-Id: `body@` and a GUID
    extension_id: str = ""
    body_content_type: str = ""
    payload: bytes = b""


def check_receipt(message: SrmpMessage, parts: Parts) -> None:
    """2.2.2: a receipt has no attachment."""
    is_receipt = message.delivery_receipt or message.commitment_receipt or message.stream_receipt
    if is_receipt and (parts.body_id or parts.extension_id):
        raise MalformedPacket("a receipt with an attachment")


class _Head(NamedTuple):
    """The headers of a part."""

    size: int | None  # None: nothing
    content_type: str
    content_id: str


_Part = tuple[int, int, _Head]  # where it begins and ends
_NOTHING: Final = _Head(None, "", "")
_new = tuple.__new__  # one for each message: half the time of a call of its class


def read_parts(content_type: str, payload: bytes) -> Parts:
    """The parts of a payload of this Content-Type; `MalformedPacket` if it has another form."""
    boundary = _boundary_of(content_type)
    if boundary is None:
        return Parts(payload, body_at=len(payload), payload=payload)
    parts = _split(payload, boundary)
    start, stop, first = parts[0]
    if first.content_type != _WRITTEN_XML and _media_type(first.content_type) != XML:
        raise MalformedPacket(f"the first part is {excerpt(first.content_type)}, not {XML}")
    body_at = body_end = len(payload)
    body, extension, extra = _NOTHING, _NOTHING, b""
    for at, end, head in parts[1:]:
        if head.content_id.startswith(EXTENSION):
            if extension is not _NOTHING:
                raise MalformedPacket("two extension parts")
            extension, extra = head, payload[at:end]
        elif body is _NOTHING:
            body, body_at, body_end = head, at, end
        else:
            raise MalformedPacket("two body parts")
    return _new(
        Parts,
        (
            payload[start:stop],
            payload[body_at:body_end],
            extra,
            body_at,
            body.content_id,
            extension.content_id,
            body.content_type,
            payload,
        ),
    )


class _Frame(NamedTuple):
    """What stands around envelope and body of a payload, and where they lie."""

    content_type: str
    front: bytes
    envelope_end: int
    middle: bytes
    body_at: int
    body_end: int
    back: bytes
    body_id: str
    body_content_type: str


class PartsReader:
    """Reads the payloads of one sender, which often repeats all but envelope and body.

    Where both parts state their length, the bytes around them alone decide how a payload is cut.
    So a payload with exactly the bytes of the last one there is cut in the same places.
    """

    __slots__ = ("_frame",)

    def __init__(self) -> None:
        self._frame: _Frame | None = None

    @property
    def envelope_at(self) -> int | None:
        """Where the last envelope began; None: not the bytes around it alone decided on that."""
        return None if self._frame is None else len(self._frame.front)

    def read(self, content_type: str, payload: bytes) -> Parts:
        """See `read_parts`."""
        frame = self._frame
        if frame is not None and frame.content_type == content_type:
            _, front, envelope_end, middle, body_at, body_end, back, body_id, kind = frame
            if (
                payload[body_end:] == back
                and payload.startswith(front)
                and payload.startswith(middle, envelope_end)
            ):
                envelope, body = payload[len(front) : envelope_end], payload[body_at:body_end]
                return _new(Parts, (envelope, body, b"", body_at, body_id, "", kind, payload))
        parts = read_parts(content_type, payload)
        self._frame = _frame_of(content_type, payload)
        return parts


def _frame_of(content_type: str, payload: bytes) -> _Frame | None:
    """The frame of a payload that was read; None where nothing is remembered."""
    boundary = _boundary_of(content_type)
    if boundary is None:
        return None
    parts = _split(payload, boundary)
    if len(parts) != 2 or any(head.size is None for _, _, head in parts):
        return None
    (start, stop, _), (body_at, body_end, head) = parts
    around = start + body_at - stop + len(payload) - body_end
    if head.content_id.startswith(EXTENSION) or around > FRAME_SIZE_MAX:
        return None
    return _Frame(
        content_type,
        payload[:start],
        stop,
        payload[stop:body_at],
        body_at,
        body_end,
        payload[body_end:],
        head.content_id,
        head.content_type,
    )


def part_places(content_type: str, payload: bytes) -> list[tuple[int, int]]:
    """Where each part begins and ends, the envelope first; delimiters and heads are between."""
    boundary = _boundary_of(content_type)
    if boundary is None:
        return [(0, len(payload))]
    return [(start, end) for start, end, _ in _split(payload, boundary)]


def _boundary_of(content_type: str) -> bytes | None:
    """`--` and the boundary of a multipart payload, None for a bare envelope."""
    if len(content_type) > CONTENT_TYPE_LENGTH_MAX:
        raise MalformedPacket(f"content type {excerpt(content_type)}")
    return _known_boundary(content_type)


@lru_cache(_CACHED)
def _known_boundary(content_type: str) -> bytes | None:
    kind = _media_type(content_type)
    if kind == XML:
        return None
    if kind != MULTIPART:
        raise MalformedPacket(f"content type {excerpt(content_type)}")
    boundary = _parameters(content_type).get("boundary", "")
    if len(boundary) > BOUNDARY_LENGTH_MAX or not _BOUNDARY.fullmatch(boundary):
        raise MalformedPacket(f"boundary {excerpt(boundary)}")
    return b"--" + boundary.encode("ascii")


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _parameters(content_type: str) -> dict[str, str]:
    """The parameters after the media type, [RFC2045] 5.1; of two of a name the message is bad."""
    found: dict[str, str] = {}
    at = content_type.find(";")
    while at >= 0 and content_type[at:].strip():
        match = _PARAMETER.match(content_type, at)
        if match is None or match[1].lower() in found:
            raise MalformedPacket(f"content type {excerpt(content_type)}")
        value = match[2]
        if value.startswith('"'):
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        found[match[1].lower()] = value
        at = match.end()
    return found


def _split(payload: bytes, delimiter: bytes) -> list[_Part]:
    parts: list[_Part] = []
    at = _behind(payload, 2 if payload.startswith(b"\r\n") else 0, delimiter)
    while not payload.startswith(b"--", at):
        if len(parts) == PARTS_MAX:
            raise MalformedPacket(f"more than {PARTS_MAX} parts")
        if not payload.startswith(b"\r\n", at):
            raise MalformedPacket("something else than a line end after a delimiter")
        start = payload.find(b"\r\n\r\n", at, at + 2 + PART_HEADERS_SIZE_MAX) + 4
        if start < 4:
            raise MalformedPacket("a part without an end of its headers")
        raw = payload[at + 2 : start - 2]
        head = _known_head(raw) if len(raw) <= _CACHED_LENGTH_MAX else _read_head(raw)
        at = _end_of(payload, start, head.size, delimiter)
        parts.append((start, at, head))
        if payload.startswith(b"\r\n", at):  # the standard form
            at += 2
        at = _behind(payload, at, delimiter)
    if payload[at + 2 :] not in (b"\r\n", b""):
        raise MalformedPacket("something after the closing delimiter")
    if not parts:
        raise MalformedPacket("a multipart payload without parts")
    return parts


def _behind(payload: bytes, at: int, delimiter: bytes) -> int:
    if not payload.startswith(delimiter, at):
        raise MalformedPacket(f"no delimiter at offset {at} of the payload")
    return at + len(delimiter)


def _end_of(payload: bytes, start: int, size: int | None, delimiter: bytes) -> int:
    """Where a part ends that begins there: after as many octets as its headers announce."""
    if size is None:
        # Choice: a part without a length has the standard form, [RFC2046] 5.1.1.
        stop = payload.find(b"\r\n" + delimiter, start - 2)
        if stop < 0:
            raise MalformedPacket("a part without Content-Length and without end")
        return max(stop, start)
    if start + size > len(payload):
        raise MalformedPacket("a part that is longer than the payload")
    return start + size


def _read_head(raw: bytes) -> _Head:
    """The headers of a part."""
    fields = _read_fields(raw)
    size = fields.get(b"content-length")
    if size is not None and not _LENGTH.fullmatch(size):
        raise MalformedPacket(f"a part with Content-Length {size[:32]!r}")
    return _Head(
        None if size is None else int(size),
        fields.get(b"content-type", b"").decode("latin-1"),
        _identifier(fields.get(b"content-id", b"")),
    )


_known_head = lru_cache(_CACHED)(_read_head)  # most senders repeat them


def _read_fields(raw: bytes) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    at = 0
    while at < len(raw):
        match = _FIELD.match(raw, at)
        if match is None or match[1].lower() in fields:
            raise MalformedPacket("a header of a part is malformed or repeated")
        fields[match[1].lower()] = match[2].strip(b" \t")
        at = match.end()
    return fields


def _identifier(content_id: bytes) -> str:
    """A Content-Id; the standard form has angle brackets around it."""
    text = content_id.decode("latin-1")
    return text[1:-1] if text.startswith("<") and text.endswith(">") else text


# -- the writer's side


def write_parts(
    envelope: bytes,
    body: bytes = b"",
    extension: bytes = b"",
    *,
    guid: bytes,
    number: int,
    body_id: str = "",
    extension_id: str = "",
    body_content_type: str = "",
) -> tuple[str, bytes]:
    """Content-Type and payload in MSMQ's form; the number makes the boundary.

    Parts without octets are left out, as there is nothing to attach then; what they are called
    is given only for parts that were called so before.
    """
    boundary = _boundary(number, envelope, body, extension)
    delimiter = f"--{boundary}".encode()
    parts = [_pack(delimiter, _WRITTEN_XML, "", envelope), envelope]
    if body:
        name = body_id or BODY + write_guid(guid)
        parts += (_pack(delimiter, body_content_type or OCTETS, name, body), body)
    if extension:
        name = extension_id or EXTENSION + write_guid(guid)
        parts += (_pack(delimiter, OCTETS, name, extension), extension)
    parts.append(delimiter + b"--\r\n")
    return f'{MULTIPART}; boundary="{boundary}"; type={XML}', b"".join(parts)


def _boundary(number: int, *contents: bytes) -> str:
    """A boundary that none of the contents contains, for readers that search for it.

    Readers that go by Content-Length do not need that, so after a few attempts any boundary is
    used.
    """
    for tried in range(BOUNDARIES_TRIED):
        boundary = f"MSMQ - SOAP boundary, {number + tried}"
        raw = f"--{boundary}".encode()
        if not any(raw in content for content in contents):
            break
    return boundary


def _pack(delimiter: bytes, content_type: str, content_id: str, content: bytes) -> bytes:
    identifier = f"Content-Id: {content_id}\r\n" if content_id else ""
    head = f"\r\nContent-Type: {content_type}\r\nContent-Length: {len(content)}\r\n{identifier}\r\n"
    return delimiter + head.encode("latin-1")
