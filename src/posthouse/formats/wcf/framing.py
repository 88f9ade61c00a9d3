"""Framing of [MC-NMF] in a message: version, mode, via, encoding, and the envelopes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from posthouse.formats.limits import FormatError, Limits

_DATAGRAM: Final = 4
MODES: Final = {3: "session", _DATAGRAM: "datagram"}
_VIA: Final = 2
_KNOWN_ENCODING: Final = 3
_NAMED_ENCODING: Final = 4
_SIZED_ENVELOPE: Final = 6
_END: Final = 7
_PREAMBLE_END: Final = 12
_VIA_SIZE_MAX: Final = 2048
_CONTENT_TYPE_SIZE_MAX: Final = 256
_PREFIXES: Final = (b"\0\x01\0\x01\x03\x02", b"\0\x01\0\x01\x04\x02")


@dataclass(slots=True)
class Gram:
    """What the frames of a message hold; it is filled while they are read."""

    mode: str | None = None
    via: str | None = None
    encoding: int | str | None = None
    envelopes: list[bytes] = field(default_factory=list)


class Cursor:
    """Bytes and a position, with the variable integers of [MC-NMF] and [MC-NBFX]."""

    __slots__ = ("at", "data", "size")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.size = len(data)
        self.at = at

    def u8(self) -> int:
        """A byte."""
        at = self.at
        if at >= self.size:
            raise FormatError(f"the bytes end in the middle, at {at}")
        self.at = at + 1
        return self.data[at]

    def take(self, size: int) -> bytes:
        """The next bytes."""
        start = self.at
        if not 0 <= size <= self.size - start:
            raise FormatError(f"{size} bytes are announced at {start}, but not there")
        self.at = start + size
        return self.data[start : self.at]

    def variable(self) -> int:
        """A number of 7 bits for each byte, the lowest first."""
        number = 0
        for shift in (0, 7, 14, 21, 28):
            byte = self.u8()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if number > 0x7FFFFFFF:
                    break
                return number
        raise FormatError("a variable integer is larger than 31 bits")

    def text(self) -> str:
        """UTF-8 with its length before it."""
        return utf_8(self.take(self.variable()))


def utf_8(data: bytes) -> str:
    """Text in UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise FormatError("a text is not UTF-8") from None


def is_framed(body: bytes) -> bool:
    """Whether the frames of netMsmqBinding begin the body."""
    return body.startswith(_PREFIXES)


def read_frames(body: bytes, gram: Gram, limits: Limits) -> None:
    """Read the frames; what was read before an error stays in the gram."""
    cursor = Cursor(body, 5)
    mode = body[4]
    gram.mode = MODES[mode]
    _expect(cursor, _VIA, "via")
    gram.via = utf_8(cursor.take(_bounded(cursor, _VIA_SIZE_MAX, "via")))
    gram.encoding = _encoding(cursor)
    if mode == _DATAGRAM:
        gram.envelopes.append(body[cursor.at :])
        return
    _expect(cursor, _PREAMBLE_END, "end of the preamble")
    while (record := cursor.u8()) != _END:
        if record != _SIZED_ENVELOPE:
            raise FormatError(f"{record} is not a record of a session gram")
        if len(gram.envelopes) >= limits.members:
            raise FormatError("a session gram with more envelopes than the limit")
        gram.envelopes.append(cursor.take(cursor.variable()))


def _expect(cursor: Cursor, record: int, name: str) -> None:
    if (found := cursor.u8()) != record:
        raise FormatError(f"the record {found} stands where the {name} has to be")


def _bounded(cursor: Cursor, most: int, name: str) -> int:
    size = cursor.variable()
    if size > most:
        raise FormatError(f"a {name} of {size} bytes, {most} is the limit")
    return size


def _encoding(cursor: Cursor) -> int | str:
    record = cursor.u8()
    if record == _KNOWN_ENCODING:
        return cursor.u8()
    if record == _NAMED_ENCODING:
        return utf_8(cursor.take(_bounded(cursor, _CONTENT_TYPE_SIZE_MAX, "content type")))
    raise FormatError(f"the record {record} stands where the encoding has to be")
