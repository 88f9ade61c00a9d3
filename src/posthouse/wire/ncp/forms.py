"""Forms of NCP calls: a NamedTuple and, for each of its fields, how that field is written.

Old and new calls carry the same values in different widths and orders (qms-facts 3.1), so the
kinds of the fields are given beside the record and not with it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from posthouse.model.errors import Truncated
from posthouse.wire.layout import Reader

T = TypeVar("T")
Record = TypeVar("Record", bound=NamedTuple)

NAME_ENCODING: Final = "cp437"  # what NetWare clients have; each byte is a character of its own
PSTR_MAX: Final = 255


class Kind(Protocol[T]):
    """How one field is read and written."""

    def read(self, reader: Reader) -> T:
        """The value that begins here; `Truncated` where the bytes end before it does."""
        ...

    def write(self, value: T) -> bytes:
        """Its bytes."""
        ...


class Number:
    """A number of fixed width."""

    def __init__(self, code: str) -> None:
        self._codec = struct.Struct(code)

    def read(self, reader: Reader) -> int:
        """The number."""
        value: int
        (value,) = self._codec.unpack_from(reader.data, reader.skip(self._codec.size))
        return value

    def write(self, value: int) -> bytes:
        """Its bytes; one too large for an old call is cut to what fits (qms-facts 2.2)."""
        return self._codec.pack(value & ((1 << 8 * self._codec.size) - 1))


class Capped(Number):
    """A number of which old calls see at most the largest that fits (decision 98)."""

    def write(self, value: int) -> bytes:
        """Its bytes."""
        return super().write(min(value, (1 << 8 * self._codec.size) - 1))


class YesOrNo:
    """0xFF or 0."""

    def read(self, reader: Reader) -> bool:
        """Yes for anything but 0."""
        return reader.take(1) != b"\0"

    def write(self, value: bool) -> bytes:
        """One byte."""
        return b"\xff" if value else b"\0"


class Fixed:
    """Bytes of fixed length, filled up with zeros."""

    def __init__(self, size: int) -> None:
        self.size = size

    def read(self, reader: Reader) -> bytes:
        """All of them."""
        return reader.take(self.size)

    def write(self, value: bytes) -> bytes:
        """The bytes, filled up."""
        assert len(value) <= self.size, f"{len(value)} bytes for a field of {self.size}"
        return value.ljust(self.size, b"\0")


class Counted:
    """A length byte and this many bytes ("pstr")."""

    def read(self, reader: Reader) -> bytes:
        """The bytes without their length."""
        (size,) = reader.take(1)
        return reader.take(size)

    def write(self, value: bytes) -> bytes:
        """Length and bytes."""
        assert len(value) <= PSTR_MAX
        return bytes((len(value),)) + value


class CountedText:
    """Counted bytes as text."""

    def read(self, reader: Reader) -> str:
        """The text."""
        return COUNTED.read(reader).decode(NAME_ENCODING)

    def write(self, value: str) -> bytes:
        """Length and text."""
        return COUNTED.write(to_bytes(value))


class FixedText:
    """Text in a field of fixed length, which ends at its first NUL."""

    def __init__(self, size: int) -> None:
        self._field = Fixed(size)

    def read(self, reader: Reader) -> str:
        """The text in front of the NUL."""
        return self._field.read(reader).partition(b"\0")[0].decode(NAME_ENCODING)

    def write(self, value: str) -> bytes:
        """The text and at least one NUL, as far as it fits."""
        return self._field.write(to_bytes(value)[: self._field.size - 1])


class FileName:
    """The name of a job file: a length byte and up to 13 characters in 14 bytes (qms-facts 2.1)."""

    def read(self, reader: Reader) -> str:
        """The name; a length that does not fit counts as 13."""
        field = reader.take(_FILE_NAME)
        return field[1 : 1 + min(field[0], _FILE_NAME - 1)].decode(NAME_ENCODING)

    def write(self, value: str) -> bytes:
        """Length and name."""
        name = to_bytes(value)[: _FILE_NAME - 1]
        return (bytes((len(name),)) + name).ljust(_FILE_NAME, b"\0")


class Many(Generic[T]):
    """A count and this many values."""

    def __init__(self, count: Number, one: Kind[T], size: int) -> None:
        self._count = count
        self._one = one
        self._size = size

    def read(self, reader: Reader) -> tuple[T, ...]:
        """The values; the count is held against the bytes that are there before it is used."""
        count = self._count.read(reader)
        if count * self._size > reader.remaining:
            raise Truncated(f"{count} values of {self._size} bytes, {reader.remaining} are left")
        return tuple([self._one.read(reader) for _ in range(count)])

    def write(self, value: Sequence[T]) -> bytes:
        """Count and values."""
        return self._count.write(len(value)) + b"".join(map(self._one.write, value))


_FILE_NAME: Final = 14
U8, BE16, BE32 = Number(">B"), Number(">H"), Number(">I")
LE16, LE32 = Number("<H"), Number("<I")
CAPPED8, CAPPED16 = Capped(">B"), Capped(">H")
COUNTED, TEXT, FILE_NAME, YES_OR_NO = Counted(), CountedText(), FileName(), YesOrNo()


class Form(Generic[Record]):
    """A record and the kinds of its fields, in their order."""

    def __init__(self, record: type[Record], *kinds: Kind[Any]) -> None:
        assert len(kinds) == len(record._fields), record.__name__
        self.record = record
        self._kinds = kinds

    def take(self, reader: Reader) -> Record:
        """The record that begins here; `Truncated` where data is too short for it."""
        return self.record._make([kind.read(reader) for kind in self._kinds])

    def read(self, data: bytes) -> Record:
        """The record that the bytes begin with. Choice: what follows it is not looked at."""
        return self.take(Reader(data))

    def write(self, record: Record) -> bytes:
        """Its bytes."""
        return b"".join(
            [kind.write(value) for kind, value in zip(self._kinds, record, strict=True)]
        )


def to_bytes(text: str) -> bytes:
    """Text for a NetWare client, which sees a low line for what its characters lack."""
    try:
        return text.encode(NAME_ENCODING)
    except UnicodeEncodeError:
        return b"".join(one.encode(NAME_ENCODING, "ignore") or b"_" for one in text)
