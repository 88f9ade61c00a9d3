"""Declare a wire structure once: `Layout` for its fixed part, `Reader` for what follows it.

A structure is a NamedTuple whose fields are annotated with the types below; `Layout` compiles it
into one `struct.Struct`. Nothing here allocates by a number taken from the wire: every size is
checked against the bytes that are really there first.
"""

import struct
from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    NamedTuple,
    Self,
    TypeVar,
    get_args,
    get_type_hints,
    overload,
)

from posthouse.model.errors import MalformedPacket, Truncated

u8 = Annotated[int, "B"]
u16 = Annotated[int, "H"]
u32 = Annotated[int, "I"]
u64 = Annotated[int, "Q"]
guid = Annotated[bytes, "16s"]
object_id = Annotated[bytes, "20s"]

Record = TypeVar("Record", bound=NamedTuple)
Owner = TypeVar("Owner")
Value = TypeVar("Value")


def align4(size: int) -> int:
    """The next multiple of four: where a header may start, [MS-MQMQ] 2.2.20."""
    return (size + 3) & ~3


class bits(property):
    """Some neighbouring bits of a `Flags` word, read as one number; bit 0 is the lowest."""

    def __init__(self, shift: int, width: int = 1) -> None:
        mask = (1 << width) - 1
        super().__init__(lambda word: word >> shift & mask)
        self.shift = shift
        self.mask = mask

    if TYPE_CHECKING:

        @overload
        def __get__(self, word: None, owner: type, /) -> Self: ...
        @overload
        def __get__(self, word: Any, owner: type | None = None, /) -> int: ...
        def __get__(self, word: Any, owner: type | None = None, /) -> Self | int: ...


class lazy(Generic[Owner, Value]):
    """A property computed once per object; `functools.cached_property` takes a lock to do it."""

    def __init__(self, compute: Callable[[Owner], Value]) -> None:
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type, /) -> Self: ...
    @overload
    def __get__(self, owner: Owner, kind: type | None = None, /) -> Value: ...
    def __get__(self, owner: Owner | None, kind: type | None = None, /) -> Self | Value:
        if owner is None:
            return self
        value = vars(owner)[self.name] = self.compute(owner)
        return value


class Flags(int):
    """A flags word of a structure; subclasses name its bits."""

    @classmethod
    def of(cls, **fields: int) -> Self:
        """The word with these fields set and all others zero."""
        return cls(0).replace(**fields)

    def replace(self, **fields: int) -> Self:
        """This word with some fields changed and every other bit left alone."""
        word = int(self)
        for name, value in fields.items():
            field = vars(type(self))[name]
            assert 0 <= value <= field.mask, f"{name} does not hold {value}"
            word = word & ~(field.mask << field.shift) | value << field.shift
        return type(self)(word)


class Layout(Generic[Record]):
    """The fixed part of a structure, compiled from an annotated NamedTuple."""

    __slots__ = ("codec", "record", "size", "typed")

    def __init__(self, record: type[Record], order: str = "<") -> None:
        hints = get_type_hints(record, include_extras=True)
        kinds = [get_args(hints[name])[:2] for name in record._fields]
        self.record = record
        self.codec = struct.Struct(order + "".join(code for _, code in kinds))
        self.size = self.codec.size
        self.typed = [(i, kind) for i, (kind, _) in enumerate(kinds) if kind not in (int, bytes)]

    def unpack(self, data: bytes | bytearray | memoryview, at: int = 0) -> Record:
        """The structure at this offset; `Truncated` if the bytes end before it does."""
        try:
            values: Any = self.codec.unpack_from(data, at)
        except struct.error:
            raise Truncated(f"{self.record.__name__} needs {self.size} bytes at {at}") from None
        if self.typed:
            values = list(values)
            for index, kind in self.typed:
                values[index] = kind(values[index])
        return self.record._make(values)

    def pack(self, record: Record) -> bytes:
        """The bytes of the structure."""
        return self.codec.pack(*record)


class Reader:
    """Takes one part after the other from bytes, never past `end`."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end
        assert self.end <= len(data)
        if at > self.end:
            raise Truncated(f"nothing is left at {at}, the bytes end at {self.end}")

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return self.end - self.at

    def skip(self, size: int) -> int:
        """Moves on by `size` bytes and returns where they began."""
        start = self.at
        if size < 0 or size > self.end - start:
            raise Truncated(f"{size} bytes wanted at {start}, {self.end - start} left")
        self.at = start + size
        return start

    def read(self, layout: Layout[Record]) -> Record:
        """The fixed structure that begins here."""
        return layout.unpack(self.data, self.skip(layout.size))

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        start = self.skip(size)
        return self.data[start : self.at]

    def align(self, boundary: int = 4) -> None:
        """Skips padding, of any value, up to the boundary counted from the start of the bytes.

        Choice: padding missing at the very end is not an error: nothing follows.
        """
        self.at = min(-(-self.at // boundary) * boundary, self.end)

    def text(self, units: int) -> str:
        """UTF-16LE text of that many units, its terminating NUL counted but not returned.

        Unpaired surrogates are kept, so that text which is only carried keeps its bytes.
        """
        return decode_text(self.take(2 * units))

    def terminated_text(self) -> str:
        """UTF-16LE text up to its NUL, which is consumed."""
        start = self.at
        stop = self.data.find(b"\0\0", start, self.end)
        while stop >= 0 and (stop - start) % 2:
            stop = self.data.find(b"\0\0", stop + 1, self.end)
        if stop < 0:
            raise Truncated(f"text at {start} has no end")
        self.at = stop + 2
        return self.data[start:stop].decode("utf-16-le", "surrogatepass")


def decode_text(raw: bytes | memoryview) -> str:
    """UTF-16LE text without its terminating NUL, [MS-MQMQ] 2.2: strings count their NUL."""
    if len(raw) % 2:
        raise MalformedPacket("UTF-16 text of an odd number of bytes")
    return str(raw, "utf-16-le", "surrogatepass").removesuffix("\0")


def encode_text(text: str) -> bytes:
    """UTF-16LE with the terminating NUL."""
    return text.encode("utf-16-le", "surrogatepass") + b"\0\0"
