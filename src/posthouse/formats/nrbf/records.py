"""Records and primitives of [MS-NRBF]: numbers, names, and the stream that they are read from."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from posthouse.formats.limits import FormatError
from posthouse.formats.values import date_data_value, float_value, time_span_text

HEADER_SIZE: Final = 17
VERSION: Final = b"\x01\0\0\0\0\0\0\0"
_HEADER: Final = struct.Struct("<iiii")
_I32: Final = struct.Struct("<i")
_DECIMAL: Final = re.compile(rb"-?[0-9]{1,40}(?:\.[0-9]{1,40})?")
RECORD_NAMES: Final = {
    0: "SerializedStreamHeader",
    1: "ClassWithId",
    2: "SystemClassWithMembers",
    3: "ClassWithMembers",
    4: "SystemClassWithMembersAndTypes",
    5: "ClassWithMembersAndTypes",
    6: "BinaryObjectString",
    7: "BinaryArray",
    8: "MemberPrimitiveTyped",
    9: "MemberReference",
    10: "ObjectNull",
    11: "MessageEnd",
    12: "BinaryLibrary",
    13: "ObjectNullMultiple256",
    14: "ObjectNullMultiple",
    15: "ArraySinglePrimitive",
    16: "ArraySingleObject",
    17: "ArraySingleString",
    21: "MethodCall",
    22: "MethodReturn",
}
BYTE: Final = 2
# Layout and size of the primitives that have one.
_FIXED: Final = {
    2: "B",
    6: "d",
    7: "h",
    8: "i",
    9: "q",
    10: "b",
    11: "f",
    14: "H",
    15: "I",
    16: "Q",
}
_FLOATS: Final = frozenset({6, 11})
PRIMITIVES: Final = frozenset({*_FIXED, 1, 3, 5, 12, 13})


class Ref(NamedTuple):
    """A reference to an object, defined before or after."""

    id: int


class ClassInfo:
    """A class as a record describes it: names of members as they are shown, and their types.

    `kinds` has the number of the primitive type for a bare value, None for a record.
    """

    __slots__ = ("cost", "kinds", "library", "members", "name", "names")

    def __init__(
        self, name: str, names: list[str], kinds: list[int | None], library: str | None
    ) -> None:
        self.name = name
        self.names = names
        self.kinds = kinds
        self.library = library
        self.members = shown_names(names)
        self.cost = len(name) + sum(map(len, self.members))


class Instance:
    """An object: its class and the values of the members."""

    __slots__ = ("id", "info", "values")

    def __init__(self, id: int, info: ClassInfo) -> None:
        self.id = id
        self.info = info
        self.values: list[Any] = []


class Array:
    """An array: all items in one list, the last dimension counts fastest."""

    __slots__ = ("bounds", "id", "lengths", "primitive", "values")

    def __init__(
        self, id: int, lengths: tuple[int, ...], primitive: int | None, bounds: tuple[int, ...] = ()
    ) -> None:
        self.id = id
        self.lengths = lengths
        self.primitive = primitive
        self.bounds = bounds
        self.values: list[Any] | bytes = []


class Stream:
    """Bytes and a position. Whatever is announced is checked against what is left."""

    __slots__ = ("at", "data", "size")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.at = 0

    def u8(self) -> int:
        """A byte."""
        at = self.at
        if at >= self.size:
            raise FormatError(f"the NRBF stream ends inside an object, at byte {at}")
        self.at = at + 1
        return self.data[at]

    def i32(self) -> int:
        """A number of four bytes."""
        at = self.at
        if at + 4 > self.size:
            raise FormatError(f"the NRBF stream ends inside an object, at byte {at}")
        self.at = at + 4
        number: int = _I32.unpack_from(self.data, at)[0]
        return number

    def count(self) -> int:
        """A number of items or members."""
        number = self.i32()
        if number < 0:
            raise FormatError(f"an NRBF record counts {number} items")
        return number

    def take(self, size: int) -> bytes:
        """The next bytes."""
        start = self.at
        if size > self.size - start:
            raise FormatError(f"the NRBF stream ends inside an object, at byte {start}")
        self.at = start + size
        return self.data[start : self.at]

    def text(self) -> str:
        """A string with its length; what is not UTF-8 becomes U+FFFD, as .NET reads it."""
        length = self.u8()
        if length > 0x7F:
            length = self._long_length(length & 0x7F)
        start = self.at
        end = self.at = start + length
        if end > self.size:
            raise FormatError(f"the NRBF stream ends inside a string, at byte {start}")
        return self.data[start:end].decode("utf-8", "replace")

    def _long_length(self, length: int) -> int:
        for shift in (7, 14, 21, 28):
            byte = self.u8()
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                if length > 0x7FFFFFFF:
                    break
                return length
        raise FormatError("an NRBF string with a length beyond 2 GB")

    def primitive(self, kind: int) -> Any:
        """A bare value of a primitive type."""
        reader = _READERS.get(kind)
        if reader is None:
            raise FormatError(f"{kind} is not a primitive type of NRBF")
        return reader(self)

    def primitives(self, kind: int, count: int) -> list[Any] | bytes:
        """Many values of one primitive type; bytes stay bytes."""
        if kind == BYTE:
            return self.take(count)
        layout = _FIXED.get(kind)
        if layout is None:
            return self._each(kind, count)
        data = self.take(count * struct.calcsize(f"<{layout}"))
        values = list(struct.unpack(f"<{count}{layout}", data))
        return [float_value(number) for number in values] if kind in _FLOATS else values

    def _each(self, kind: int, count: int) -> list[Any]:
        if count > self.size - self.at:  # each has a byte at least
            raise FormatError(f"the NRBF stream ends inside an array, at byte {self.at}")
        return [self.primitive(kind) for _ in range(count)]


def is_nrbf(body: bytes) -> bool:
    """Whether a stream header begins the body."""
    return len(body) >= HEADER_SIZE and body[0] == 0 and body[9:17] == VERSION


def read_header(stream: Stream) -> tuple[int, int]:
    """Root id and header id."""
    if stream.u8() != 0:
        raise FormatError("NRBF begins with a stream header")
    root, header, major, minor = _HEADER.unpack(stream.take(_HEADER.size))
    if (major, minor) != (1, 0):
        raise FormatError(f"NRBF of version {major}.{minor}; 1.0 is the only one")
    return root, header


def _boolean(stream: Stream) -> bool:
    return stream.u8() != 0


def _character(stream: Stream) -> str:
    first = stream.u8()
    more = 0 if first < 0x80 else 1 if 0xC0 <= first < 0xE0 else 2 if 0xE0 <= first < 0xF0 else -1
    if more < 0:
        raise FormatError("an NRBF character that is not UTF-8")
    try:
        return (bytes((first,)) + stream.take(more)).decode()
    except UnicodeDecodeError:
        raise FormatError("an NRBF character that is not UTF-8") from None


def _decimal(stream: Stream) -> str:
    text = stream.take(stream.u8())
    if not _DECIMAL.fullmatch(text):
        raise FormatError("an NRBF decimal that is not a number")
    return text.decode("ascii")


def _time_span(stream: Stream) -> str:
    return time_span_text(int.from_bytes(stream.take(8), "little", signed=True))


def _date_time(stream: Stream) -> Any:
    return date_data_value(int.from_bytes(stream.take(8), "little"))


def _fixed_reader(layout: str, is_float: bool) -> Callable[[Stream], Any]:
    unpack, size = struct.Struct(f"<{layout}").unpack, struct.calcsize(f"<{layout}")
    if is_float:
        return lambda stream: float_value(unpack(stream.take(size))[0])
    return lambda stream: unpack(stream.take(size))[0]


_READERS: Final[dict[int, Callable[[Stream], Any]]] = {
    **{kind: _fixed_reader(layout, kind in _FLOATS) for kind, layout in _FIXED.items()},
    1: _boolean,
    3: _character,
    5: _decimal,
    12: _time_span,
    13: _date_time,
}

_BACKING: Final = re.compile(r"<(.+)>k__BackingField", re.DOTALL)


def _plain(name: str) -> str:
    found = _BACKING.fullmatch(name) if name.startswith("<") else None
    return found[1] if found else name


def shown_names(names: list[str]) -> list[str]:
    """Members as people name them: properties for backing fields, fields of a base without it.

    The whole name stays where two members would have the same one; `$` is doubled at the start.
    """
    own = set(map(_plain, names))
    shown: dict[str, None] = {}
    for name in names:
        base, plus, field = name.partition("+")
        short = _plain(field) if plus else _plain(name)
        if plus and (short in own or short in shown):
            short = f"{base}+{short}"
        if short in shown:
            short = name if name not in shown else f"{name}#{len(shown)}"
        shown[short] = None
    return [f"${name}" if name.startswith("$") else name for name in shown]
