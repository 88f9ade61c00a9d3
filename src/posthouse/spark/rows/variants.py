"""JSON values as Spark's VARIANT: the binary form that Parquet's VariantEncoding describes.

Spark's own builder takes JSON text and needs several times as long; values are at hand here.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

_NULL, _TRUE, _FALSE = b"\x00", b"\x04", b"\x08"
_INT8, _INT16, _INT32, _INT64, _DOUBLE, _LONG_TEXT = 0x0C, 0x10, 0x14, 0x18, 0x1C, 0x40
_DECIMAL16: Final = 0x28
_DIGITS_MAX: Final = 38
_INTEGERS: Final = (
    (1 << 7, struct.Struct("<Bb"), _INT8),
    (1 << 15, struct.Struct("<Bh"), _INT16),
    (1 << 31, struct.Struct("<Bi"), _INT32),
    (1 << 63, struct.Struct("<Bq"), _INT64),
)
_NUMBER: Final = struct.Struct("<Bd")
_SHORT_TEXT_MAX: Final = 63
_SHORT: Final = [bytes((size << 2 | 1,)) for size in range(_SHORT_TEXT_MAX + 1)]
_LONG: Final = bytes((_LONG_TEXT,))
_BYTE_MAX: Final = 0xFF
_KEPT_MAX: Final = 256  # sets of names, which messages of one kind share
_NAMES_MAX: Final = 64
_NAMES_SIZE_MAX: Final = 4096
METADATA_EMPTY: Final = b"\x01\x00\x00"


class Variant(NamedTuple):
    """A value, and the names of the members in it."""

    value: bytes
    metadata: bytes


def variant_of(value: Any) -> Variant:
    """A JSON value as VARIANT: numbers beyond 64 bits are decimals, beyond those doubles."""
    keys: dict[str, int] = {}
    packed = _packed(value, keys)
    if not keys:
        return Variant(packed, METADATA_EMPTY)
    names = tuple(keys)
    return Variant(packed, (_kept_metadata if _are_few(names) else _metadata)(names))


def _are_few(names: tuple[str, ...]) -> bool:
    """Whether they are worth keeping: senders choose how many names there are, and how long."""
    return len(names) <= _NAMES_MAX and sum(map(len, names)) <= _NAMES_SIZE_MAX


def _packed(value: Any, keys: dict[str, int]) -> bytes:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return _object(value, keys)
    if isinstance(value, list):
        return _array([_packed(item, keys) for item in value])
    if value is None:
        return _NULL
    if value is True:
        return _TRUE
    if value is False:
        return _FALSE
    return _integer(value) if isinstance(value, int) else _NUMBER.pack(_DOUBLE, value)


def _text(value: str) -> bytes:
    data = value.encode("utf-8", "replace")
    size = len(data)
    if size <= _SHORT_TEXT_MAX:
        return _SHORT[size] + data
    return _LONG + size.to_bytes(4, "little") + data


def _integer(value: int) -> bytes:
    for limit, layout, header in _INTEGERS:
        if -limit <= value < limit:
            return layout.pack(header, value)
    if abs(value) < 10**_DIGITS_MAX:
        return bytes((_DECIMAL16, 0)) + value.to_bytes(16, "little", signed=True)
    return _NUMBER.pack(_DOUBLE, float(Decimal(value)))


def _object(value: dict[str, Any], keys: dict[str, int]) -> bytes:
    """Header, ids of the names, offsets, values; by the order of the names, as readers expect."""
    offsets, parts, ids, at = [0], [], [], 0
    names = tuple(value)
    for name in (_kept_order if _are_few(names) else _in_order)(names):
        ids.append(keys.setdefault(name, len(keys)))
        item = value[name]
        part = _text(item) if type(item) is str else _packed(item, keys)
        parts.append(part)
        at += len(part)
        offsets.append(at)
    count = len(parts)
    if count <= _BYTE_MAX and at <= _BYTE_MAX and len(keys) <= _BYTE_MAX:
        return bytes((2, count, *ids, *offsets)) + b"".join(parts)
    id_size, offset_size = _size(max(ids, default=0)), _size(at)
    is_large = count > _BYTE_MAX
    header = (is_large << 4 | (id_size - 1) << 2 | (offset_size - 1)) << 2 | 2
    return b"".join(
        (
            bytes((header,)),
            count.to_bytes(4 if is_large else 1, "little"),
            _numbers(ids, id_size),
            _numbers(offsets, offset_size),
            *parts,
        )
    )


def _in_order(names: tuple[str, ...]) -> list[str]:
    return sorted(names, key=None if all(map(str.isascii, names)) else _utf_16)


def _array(parts: list[bytes]) -> bytes:
    offsets, at = [0], 0
    for part in parts:
        at += len(part)
        offsets.append(at)
    count, offset_size = len(parts), _size(at)
    is_large = count > _BYTE_MAX
    header = (is_large << 2 | (offset_size - 1)) << 2 | 3
    size = count.to_bytes(4 if is_large else 1, "little")
    return b"".join((bytes((header,)), size, _numbers(offsets, offset_size), *parts))


def _utf_16(name: str) -> bytes:
    """The order of names in Java."""
    return name.encode("utf-16-be", "replace")


def _size(value: int) -> int:
    """Bytes of the smallest number that holds it."""
    return (value.bit_length() + 7) // 8 or 1


def _numbers(values: list[int], size: int) -> bytes:
    if size == 1:
        return bytes(values)
    return b"".join([value.to_bytes(size, "little") for value in values])


def _metadata(keys: tuple[str, ...]) -> bytes:
    """Version 1; number of names, where each begins, the names."""
    names = [key.encode("utf-8", "replace") for key in keys]
    offsets, at = [0], 0
    for name in names:
        at += len(name)
        offsets.append(at)
    size = _size(max(at, len(names)))
    count = len(names).to_bytes(size, "little")
    return b"".join((bytes((1 | (size - 1) << 6,)), count, _numbers(offsets, size), *names))


_kept_order: Final = lru_cache(_KEPT_MAX)(_in_order)
_kept_metadata: Final = lru_cache(_KEPT_MAX)(_metadata)
