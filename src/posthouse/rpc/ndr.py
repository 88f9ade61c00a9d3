"""NDR and NDR64, the two encodings of a stub (C706 chapter 14, [MS-RPCE] 2.2.4, 2.2.5).

The parameters of a method are a NamedTuple whose fields are annotated with what is below; `Stub`
makes its codec. Both ways align every value to its size; they differ where pointers, counts and
enumerations stand: 4, 4 and 2 bytes in NDR; 8, 8 and 4 bytes in NDR64.

Strict as a server of target level 6.0 has to be ([MS-RPCE] 3.1.1.5.3.3): what contradicts itself is
`BadStub`. Nothing here allocates by a number taken from the stub: each is checked against the bytes
that are really there first.
"""

from __future__ import annotations

import struct
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    NamedTuple,
    Protocol,
    TypeVar,
    get_args,
    get_type_hints,
)

from posthouse.rpc.statuses import BAD_STUB_DATA, Fault

TRAILING_MAX: Final = 7
"""Bytes after the last parameter that pass as padding; some clients fill up to 4 or 8."""

FIRST_REFERENT: Final = 0x00020000
REFERENT_STEP: Final = 4

_U8, _U16, _U32, _U64 = (struct.Struct("<" + code) for code in "BHIQ")


class BadStub(Fault):
    """A stub that contradicts its interface: fault RPC_X_BAD_STUB_DATA."""

    def __init__(self, cause: str) -> None:
        super().__init__(BAD_STUB_DATA)
        self.cause = cause

    def __str__(self) -> str:
        return f"{super().__str__()}: {self.cause}"


class Reader:
    """Takes one value after the other from a stub, each from where its alignment puts it."""

    __slots__ = ("at", "data", "ndr64")

    def __init__(self, data: bytes, *, ndr64: bool = False, at: int = 0) -> None:
        self.data = data
        self.at = at
        self.ndr64 = ndr64

    def align(self, size: int) -> None:
        """Passes over padding, whatever is in it."""
        self.at += -self.at % size

    def take(self, size: int) -> bytes:
        """That many bytes, unaligned."""
        end = self.at + size
        if end > len(self.data):
            raise BadStub(f"{size} bytes at {self.at} do not fit in {len(self.data)}")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def scalar(self, codec: struct.Struct, alignment: int) -> Any:
        """One value of a `struct`."""
        at = self.at + -self.at % alignment
        try:
            (value,) = codec.unpack_from(self.data, at)
        except struct.error:
            raise BadStub(f"the stub ends inside a value at {at}") from None
        self.at = at + codec.size
        return value

    def u8(self) -> int:
        """A byte, or a small."""
        return int(self.scalar(_U8, 1))

    def u16(self) -> int:
        """A short."""
        return int(self.scalar(_U16, 2))

    def u32(self) -> int:
        """A long."""
        return int(self.scalar(_U32, 4))

    def u64(self) -> int:
        """A hyper."""
        return int(self.scalar(_U64, 8))

    def enum(self) -> int:
        """An enumeration that is not marked v1_enum."""
        return self.u32() if self.ndr64 else self.u16()

    def wide(self) -> int:
        """A referent or a count: as wide as the syntax has pointers."""
        return self.u64() if self.ndr64 else self.u32()

    def pointer(self) -> bool:
        """Whether a unique or full pointer leads to something, which then stands further on."""
        return self.wide() != 0

    def count(self, expected: int) -> None:
        """The maximum count in front of a conformant array, as its `size_is` has it."""
        found = self.wide()
        if found != expected:
            raise BadStub(f"an array of {expected} is announced with {found}")

    def room_for(self, count: int, size: int) -> None:
        """Refuses a count of elements that cannot be there: each has at least `size` bytes."""
        if count * size > len(self.data) - self.at:
            raise BadStub(f"{count} elements do not fit after {self.at}")

    def varying(self) -> tuple[int, int]:
        """Maximum and actual count in front of a conformant varying array that begins at zero."""
        maximum, offset, actual = self.wide(), self.wide(), self.wide()
        if offset or actual > maximum:
            raise BadStub(f"a part of {actual} from {offset} of an array of {maximum}")
        return maximum, actual

    def text(self) -> str:
        """A `[string] wchar_t` array: terminated, and nothing after the terminator."""
        _, length = self.varying()
        raw = self.take(2 * length)
        if raw[-2:] != b"\0\0":
            raise BadStub("a string has no terminator")
        # Halves of surrogate pairs are wchar_t like others: no name has them, but NDR does.
        return raw[:-2].decode("utf-16-le", "surrogatepass")

    def end(self) -> None:
        """Nothing but padding may follow."""
        rest = len(self.data) - self.at
        if rest > TRAILING_MAX:
            raise BadStub(f"{rest} bytes follow the last parameter")


class Writer:
    """Lays one value after the other into a stub, each where its alignment puts it."""

    __slots__ = ("buffer", "ndr64", "referent")

    def __init__(self, *, ndr64: bool = False) -> None:
        self.buffer = bytearray()
        self.ndr64 = ndr64
        self.referent = FIRST_REFERENT

    def align(self, size: int) -> None:
        """Fills up with zeros."""
        self.buffer += bytes(-len(self.buffer) % size)

    def put(self, raw: bytes) -> None:
        """Bytes as they are, unaligned."""
        self.buffer += raw

    def scalar(self, codec: struct.Struct, alignment: int, value: Any) -> None:
        """One value of a `struct`."""
        self.align(alignment)
        self.buffer += codec.pack(value)

    def u8(self, value: int) -> None:
        """A byte, or a small."""
        self.scalar(_U8, 1, value)

    def u16(self, value: int) -> None:
        """A short."""
        self.scalar(_U16, 2, value)

    def u32(self, value: int) -> None:
        """A long."""
        self.scalar(_U32, 4, value)

    def u64(self, value: int) -> None:
        """A hyper."""
        self.scalar(_U64, 8, value)

    def enum(self, value: int) -> None:
        """An enumeration that is not marked v1_enum."""
        if self.ndr64:
            self.u32(value)
        else:
            self.u16(value)

    def wide(self, value: int) -> None:
        """A referent or a count: as wide as the syntax has pointers."""
        if self.ndr64:
            self.u64(value)
        else:
            self.u32(value)

    def pointer(self, present: bool) -> None:
        """A unique or full pointer; what it leads to is written further on."""
        self.wide(self.referent if present else 0)
        self.referent += REFERENT_STEP

    def varying(self, maximum: int, actual: int) -> None:
        """What stands in front of a conformant varying array that begins at zero."""
        for value in (maximum, 0, actual):
            self.wide(value)

    def text(self, text: str) -> None:
        """A `[string] wchar_t` array with its terminator."""
        raw = text.encode("utf-16-le", "surrogatepass") + b"\0\0"
        self.varying(len(raw) // 2, len(raw) // 2)
        self.buffer += raw


class Part(Protocol):
    """A parameter, or what belongs together in one, read and written."""

    def read(self, reader: Reader) -> Any:
        """The value from where the reader stands."""
        ...

    def write(self, writer: Writer, value: Any) -> None:
        """The value after what the writer has."""
        ...


class Scalar:
    """A part of fixed size that is the same in both syntaxes."""

    __slots__ = ("alignment", "code", "codec", "high", "low")

    def __init__(self, code: str, alignment: int, low: int = 0, high: int | None = None) -> None:
        self.code = code
        self.codec = struct.Struct("<" + code)
        self.alignment = alignment
        self.low = low
        self.high = high  # None: any value of the type

    def read(self, reader: Reader) -> Any:
        """The value, inside its range."""
        value = reader.scalar(self.codec, self.alignment)
        self.check(value)
        return value

    def write(self, writer: Writer, value: Any) -> None:
        """The value, whatever it is: ranges are the reader's to check."""
        writer.scalar(self.codec, self.alignment, value)

    def check(self, value: Any) -> None:
        """Refuses what the attribute `range` of the parameter does."""
        if self.high is not None and not self.low <= value <= self.high:
            raise BadStub(f"{value} is not between {self.low} and {self.high}")


u8 = Annotated[int, Scalar("B", 1)]
u16 = Annotated[int, Scalar("H", 2)]
u32 = Annotated[int, Scalar("I", 4)]
i32 = Annotated[int, Scalar("i", 4)]
u64 = Annotated[int, Scalar("Q", 8)]
guid = Annotated[bytes, Scalar("16s", 4)]
octets16 = Annotated[bytes, Scalar("16s", 1)]
context_handle = Annotated[bytes, Scalar("20s", 4)]  # attributes and a UUID, C706 appendix N

NULL_HANDLE: Final = bytes(20)

Parameters = TypeVar("Parameters", bound=NamedTuple)


class Stub(Generic[Parameters]):
    """The parameters of a request or of a response: compiled from an annotated NamedTuple."""

    __slots__ = ("parameters", "parts")

    def __init__(self, parameters: type[Parameters], parts: list[Part]) -> None:
        self.parameters = parameters
        self.parts = parts

    def encode(self, value: Parameters, *, ndr64: bool = False) -> bytes:
        """The stub."""
        writer = Writer(ndr64=ndr64)
        for part, field in zip(self.parts, value, strict=True):
            part.write(writer, field)
        return bytes(writer.buffer)

    def decode(self, stub: bytes, *, ndr64: bool = False) -> Parameters:
        """The value of a whole stub; raises `BadStub`."""
        reader = Reader(stub, ndr64=ndr64)
        value = self.parameters._make([part.read(reader) for part in self.parts])
        reader.end()
        return value


class FixedStub(Stub[Parameters]):
    """Parameters of fixed size: one `struct`, the same in both syntaxes."""

    __slots__ = ("codec", "ranged", "size")

    def __init__(self, parameters: type[Parameters], scalars: list[Scalar]) -> None:
        super().__init__(parameters, list(scalars))
        self.codec = aligned(scalars)
        self.size = self.codec.size
        self.ranged = [(i, s) for i, s in enumerate(scalars) if s.high is not None]

    def encode(self, value: Parameters, *, ndr64: bool = False) -> bytes:
        """The stub."""
        return self.codec.pack(*value)

    def decode(self, stub: bytes, *, ndr64: bool = False) -> Parameters:
        """The value of a whole stub; raises `BadStub`."""
        if not 0 <= len(stub) - self.size <= TRAILING_MAX:
            raise BadStub(f"{self.size} bytes are wanted, not {len(stub)}")
        value = self.parameters._make(self.codec.unpack_from(stub))
        for index, scalar in self.ranged:
            scalar.check(value[index])
        return value


def stub_of(parameters: type[Parameters]) -> Stub[Parameters]:
    """The codec of annotated parameters, in the order they are declared in."""
    hints = get_type_hints(parameters, include_extras=True)
    parts = [get_args(hints[name])[1] for name in parameters._fields]
    if all(isinstance(part, Scalar) for part in parts):
        return FixedStub(parameters, parts)
    return Stub(parameters, parts)


def aligned(scalars: list[Scalar]) -> struct.Struct:
    """One `struct` for scalars that follow each other from an offset that suits all of them."""
    code, at = "<", 0
    for scalar in scalars:
        padding = -at % scalar.alignment
        code += f"{padding}x" * bool(padding) + scalar.code
        at += padding + scalar.codec.size
    return struct.Struct(code)
