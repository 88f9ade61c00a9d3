"""Computes the checksums of many records at once.

CRC-32 is linear: that of bytes in a row follows from those of their pieces and from where these
lie, by products of polynomials modulo the CRC's own. So a stretch of records is summed in one go
and compared with what the sums that are stored in it add up to. Where that does not agree, and only
there, each record is looked at by itself; a damaged one cannot pass, nor be confused with another.

Imports numpy: import this module only where numpy is installed.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posthouse.store.checksum import crc32

FIELD: Final = 4  # bytes of a stored checksum, in front of what it covers
SPAN: Final = 1 << 16  # bytes after the first record of a stretch
_POLYNOMIAL: Final = np.uint32(0xEDB88320)
_ONE: Final = 1 << 31  # the polynomial 1: the highest bit is the constant
_ALL: Final = 0xFFFFFFFF
_BITS: Final = 32

Ints = NDArray[np.int64]
Sums = NDArray[np.uint32]


def wrong_record(data: bytes, begins: Ints, sizes: Ints) -> int | None:
    """The first record whose checksum does not hold; records follow on each other, with gaps."""
    if not len(begins):
        return None
    # A number at every byte: those that are asked for lie anywhere.
    stored: Sums = np.ndarray(len(data) - FIELD + 1, "<u4", data, strides=(1,))[begins]
    ends = begins + sizes
    stretches = _stretches(ends)
    found, view = _expected(stored, begins, ends, stretches), memoryview(data)
    _add_gaps(found, view, begins, ends, stretches)
    for (first, last), expected in zip(stretches.bounds(), found.tolist(), strict=True):
        if crc32(view[int(begins[first]) + FIELD : int(ends[last])]) != expected:
            for record in range(first, last + 1):
                covered = view[int(begins[record]) + FIELD : int(ends[record])]
                if crc32(covered) != int(stored[record]):
                    return record
    return None


class _Stretches(NamedTuple):
    """Records that are summed together: which begin one, and which of them each belongs to."""

    firsts: Ints
    lasts: Ints
    of_record: Ints

    def bounds(self) -> list[tuple[int, int]]:
        """The first and the last record of each."""
        return list(zip(self.firsts.tolist(), self.lasts.tolist(), strict=True))


def _stretches(ends: Ints) -> _Stretches:
    """Cut so that no end of a record but the last lies `SPAN` bytes or more before the end."""
    firsts, count, at = [], len(ends), 0
    while at < count:
        firsts.append(at)
        at = int(ends.searchsorted(ends[at] + SPAN))
    heads, bounds = np.array(firsts, np.int64), np.array([*firsts, count], np.int64)
    return _Stretches(heads, bounds[1:] - 1, np.repeat(np.arange(len(heads)), np.diff(bounds)))


def _expected(stored: Sums, begins: Ints, ends: Ints, stretches: _Stretches) -> Sums:
    """What the sums of stretches are if all records are right, and nothing lies between them."""
    powers, ones = _tables()
    end = ends[stretches.lasts][stretches.of_record]
    factors, constants = powers[end - ends], np.zeros(len(ends), np.uint32)
    # A record after the first brings its stored sum along as bytes, too.
    inner = np.ones(len(ends), np.bool_)
    inner[stretches.firsts] = False
    before = (end - begins)[inner]
    factors[inner] ^= powers[before]
    constants[inner] = ones[before] ^ ones[before - FIELD]
    terms = _product(stored, factors) ^ constants
    return np.bitwise_xor.reduceat(terms, stretches.firsts)


def _add_gaps(
    found: Sums, view: memoryview, begins: Ints, ends: Ints, stretches: _Stretches
) -> None:
    """Whatever lies between two records of a stretch: of another queue, or no message."""
    powers, _ = _tables()
    alike = stretches.of_record[1:] == stretches.of_record[:-1]
    behind = np.flatnonzero(alike & (begins[1:] != ends[:-1]))  # the records in front of gaps
    if not len(behind):
        return
    stretch = stretches.of_record[behind]
    sums = [
        crc32(view[begin:end])
        for begin, end in zip(ends[behind].tolist(), begins[behind + 1].tolist(), strict=True)
    ]
    distances = ends[stretches.lasts][stretch] - begins[behind + 1]
    terms = _product(np.array(sums, np.uint32), powers[distances])
    np.bitwise_xor.at(found, stretch, terms)


@cache
def _tables() -> tuple[Sums, Sums]:
    """For this many bytes: x to the power of their bits; and that times the sum of all ones."""
    powers = np.empty(SPAN + 1, np.uint32)
    powers[0] = _ONE
    powers[1] = _ONE >> 8
    have = 2
    while have <= SPAN:
        more = min(have - 1, SPAN + 1 - have)
        last = np.full(more, powers[have - 1])
        powers[have : have + more] = _product(powers[1 : 1 + more], last)
        have += more
    return powers, _product(np.full(SPAN + 1, _ALL, np.uint32), powers)


def _product(left: Sums, right: Sums) -> Sums:
    """The products of polynomials, pair by pair, modulo that of the CRC."""
    left, right = left.copy(), right.copy()
    product, part = np.zeros(len(left), np.uint32), np.empty(len(left), np.uint32)
    signed, signed_part = left.view(np.int32), part.view(np.int32)
    for _ in range(_BITS):
        np.right_shift(signed, 31, out=signed_part)  # all ones where the highest bit is one
        np.bitwise_and(part, right, out=part)
        np.bitwise_xor(product, part, out=product)
        np.left_shift(left, 1, out=left)
        np.bitwise_and(right, 1, out=part)
        np.multiply(part, _POLYNOMIAL, out=part)
        np.right_shift(right, 1, out=right)
        np.bitwise_xor(right, part, out=right)
    return product
