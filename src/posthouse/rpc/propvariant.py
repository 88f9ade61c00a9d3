"""PROPVARIANT, a value with its type, as a parameter of RPC methods ([MS-MQMQ] 2.2.12-17).

A value is written in two parts: what has a fixed size stands in its array, what it points to
follows after the whole array. The union is a DCE one: in NDR each arm has its own alignment; NDR64
aligns every arm to 8, the largest of them.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from posthouse.model.property_ids import Vt
from posthouse.rpc.ndr import BadStub, Reader, Writer

DEPTH_MAX: Final = 4
"""Vectors of variants inside each other. Two are needed: of a connection history, its addresses."""
SIZE_MIN: Final = 10
"""Bytes of the smallest value: type, reserved fields and the tag of the union."""


class Variant(NamedTuple):
    """PROPVARIANT. The value is an int, a bool, a str, bytes, a tuple of those, or None.

    None: VT_EMPTY, VT_NULL, or a NULL pointer to a string or GUID.
    """

    vt: int
    value: object = None


NULL: Final = Variant(Vt.NULL)

_SCALARS: Final[dict[int, struct.Struct]] = {
    Vt.I1: struct.Struct("<b"),
    Vt.UI1: struct.Struct("<B"),
    Vt.I2: struct.Struct("<h"),
    Vt.UI2: struct.Struct("<H"),
    Vt.BOOL: struct.Struct("<h"),
    Vt.I4: struct.Struct("<i"),
    Vt.UI4: struct.Struct("<I"),
    Vt.I8: struct.Struct("<q"),
    Vt.UI8: struct.Struct("<Q"),
}
_TRUE, _FALSE = -1, 0  # VARIANT_BOOL, 2.2.14
_NOTHING: Final = frozenset({Vt.EMPTY, Vt.NULL})
_POINTERS: Final = frozenset({Vt.LPWSTR, Vt.CLSID})
_BYTES: Final = frozenset({Vt.BLOB, Vt.VECTOR | Vt.UI1})
# Counted arrays of numbers, 2.2.16: the code of an element, and its size.
_NUMBERS: Final = {
    Vt.VECTOR | Vt.UI2: ("H", 2),
    Vt.VECTOR | Vt.I4: ("i", 4),
    Vt.VECTOR | Vt.UI4: ("I", 4),
    Vt.VECTOR | Vt.UI8: ("Q", 8),
}
_GUIDS: Final = Vt.VECTOR | Vt.CLSID
_TEXTS: Final = Vt.VECTOR | Vt.LPWSTR
_VARIANTS: Final = Vt.VECTOR | Vt.VARIANT
_COUNTED: Final = _BYTES | _NUMBERS.keys() | {_GUIDS, _TEXTS, _VARIANTS}


class _Head(NamedTuple):
    """The fixed part: a scalar, or whether something follows, and how many elements it has."""

    vt: int
    value: object = None
    pointer: bool = False
    elements: int = 0


# -- reading


def read_variants(reader: Reader, count: int, depth: int = 0) -> tuple[Variant, ...]:
    """As many values as the maximum count before them: fixed parts, then the rest."""
    if depth > DEPTH_MAX:
        raise BadStub(f"more than {DEPTH_MAX} vectors of variants inside each other")
    reader.room_for(count, SIZE_MIN)
    heads = [_read_head(reader) for _ in range(count)]
    return tuple([Variant(head.vt, _read_rest(reader, head, depth)) for head in heads])


def _read_head(reader: Reader) -> _Head:
    reader.align(8)
    vt = reader.u16()
    reader.take(2)
    reader.u32()
    if (tag := reader.u16()) != vt:
        raise BadStub(f"a variant of type {vt} with a union of {tag}")
    _align_arm(reader)
    head = _read_arm(reader, vt)
    _align_arm(reader)
    return head


def _align_arm(stub: Reader | Writer) -> None:
    """NDR64 begins every arm at a multiple of the largest alignment, and ends structures at one."""
    if stub.ndr64:
        stub.align(8)


def _read_arm(reader: Reader, vt: int) -> _Head:
    if vt in _NOTHING:
        return _Head(vt)
    if codec := _SCALARS.get(vt):
        value = reader.scalar(codec, codec.size)
        return _Head(vt, bool(value) if vt == Vt.BOOL else value)
    if vt in _POINTERS:
        return _Head(vt, pointer=reader.pointer())
    if vt not in _COUNTED:
        raise BadStub(f"a variant of type {vt}, which there is not")
    reader.align(8 if reader.ndr64 else 4)
    count, pointer = reader.u32(), reader.pointer()
    if count and not pointer:
        raise BadStub(f"{count} elements after a NULL pointer")
    return _Head(vt, pointer=pointer, elements=count)


def _read_rest(reader: Reader, head: _Head, depth: int) -> object:
    vt, value, pointer, count = head
    if vt in _COUNTED:
        if pointer:
            reader.count(count)
        return _read_elements(reader, vt, count, depth)
    if not pointer:
        return value
    if vt == Vt.LPWSTR:
        return reader.text()
    reader.align(4)
    return reader.take(16)


def _read_elements(reader: Reader, vt: int, count: int, depth: int) -> object:
    if vt in _BYTES:
        return reader.take(count)
    if vt == _VARIANTS:
        return read_variants(reader, count, depth + 1)
    if vt == _TEXTS:
        reader.room_for(count, 8 if reader.ndr64 else 4)
        pointers = [reader.pointer() for _ in range(count)]
        return tuple([reader.text() if pointer else None for pointer in pointers])
    if vt == _GUIDS:
        reader.align(4 if count else 1)
        raw = reader.take(16 * count)
        return tuple([raw[at : at + 16] for at in range(0, len(raw), 16)])
    code, size = _NUMBERS[vt]
    reader.align(size if count else 1)
    return struct.unpack(f"<{count}{code}", reader.take(size * count))


# -- writing


def write_variants(writer: Writer, variants: tuple[Variant, ...]) -> None:
    """Values in a row, without the count in front of them: fixed parts, then the rest."""
    for variant in variants:
        _write_head(writer, variant)
    for variant in variants:
        _write_rest(writer, variant)


def _write_head(writer: Writer, variant: Variant) -> None:
    vt, value = variant
    writer.align(8)
    writer.u16(vt)
    writer.put(bytes(2))
    writer.u32(0)
    writer.u16(vt)
    _align_arm(writer)
    if vt in _POINTERS:
        writer.pointer(value is not None)
    elif vt in _COUNTED:
        assert isinstance(value, bytes | tuple)
        writer.align(8 if writer.ndr64 else 4)
        writer.u32(len(value))
        writer.pointer(bool(value))
    elif vt not in _NOTHING:
        codec = _SCALARS[vt]
        number = (_TRUE if value else _FALSE) if vt == Vt.BOOL else value
        writer.scalar(codec, codec.size, number)
    _align_arm(writer)


def _write_rest(writer: Writer, variant: Variant) -> None:
    vt, value = variant
    if isinstance(value, str):
        writer.text(value)
    elif vt == Vt.CLSID and isinstance(value, bytes):
        writer.align(4)
        writer.put(value)
    elif isinstance(value, bytes | tuple) and value:
        writer.wide(len(value))
        _write_elements(writer, vt, value)


def _write_elements(writer: Writer, vt: int, value: bytes | tuple[object, ...]) -> None:
    if isinstance(value, bytes):
        writer.put(value)
    elif vt == _VARIANTS:
        write_variants(writer, tuple([one for one in value if isinstance(one, Variant)]))
    elif vt == _TEXTS:
        for one in value:
            writer.pointer(one is not None)
        for one in value:
            if isinstance(one, str):
                writer.text(one)
    elif vt == _GUIDS:
        writer.align(4)
        writer.put(b"".join([one for one in value if isinstance(one, bytes)]))
    else:
        code, size = _NUMBERS[vt]
        writer.align(size)
        writer.put(struct.pack(f"<{len(value)}{code}", *value))


# -- values of each type, for those who make them


def text(value: str) -> Variant:
    """VT_LPWSTR."""
    return Variant(Vt.LPWSTR, value)


def texts(values: list[str] | tuple[str, ...]) -> Variant:
    """VT_VECTOR | VT_LPWSTR."""
    return Variant(_TEXTS, tuple(values))


def vector(vt: Vt, values: list[int] | list[bytes] | list[Variant]) -> Variant:
    """VT_VECTOR of numbers, GUIDs or variants."""
    return Variant(Vt.VECTOR | vt, tuple(values))
