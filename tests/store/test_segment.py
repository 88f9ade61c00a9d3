"""Reading a segment record by record: the first byte that is not one is named exactly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.records import CHANGE, MARK, MESSAGE
from posthouse.store.format import MARK_PAYLOAD, pack_record
from posthouse.store.segment import Scanner, find_marks

GENERATION = 0x1234ABCD


def mark(sequence: int, synced: int) -> bytes:
    return pack_record(MARK, sequence, GENERATION, MARK_PAYLOAD.pack(synced))


RECORDS = [
    mark(10, 9),
    pack_record(MESSAGE, 11, GENERATION, b"m" * 70),
    pack_record(CHANGE, 12, GENERATION, b"c" * 20),
    mark(13, 12),
    pack_record(MESSAGE, 14, GENERATION, b"n" * 60),
]
DATA = b"".join(RECORDS)
STARTS = [sum(map(len, RECORDS[:i])) for i in range(len(RECORDS) + 1)]


def scan(data: bytes) -> tuple[list[int], Scanner]:
    scanner = Scanner(data, GENERATION, 10, 0)
    return [kind for kind, _, _ in scanner], scanner


def test_every_record_is_found() -> None:
    kinds, scanner = scan(DATA)
    assert kinds == [MARK, MESSAGE, CHANGE, MARK, MESSAGE]
    assert (scanner.offset, scanner.sequence, scanner.reason) == (len(DATA), 15, "")
    assert scanner.synced == 12


def test_a_cut_at_any_byte_leaves_the_whole_records_in_front_of_it() -> None:
    for size in range(len(DATA)):
        kinds, scanner = scan(DATA[:size])
        whole = sum(1 for start in STARTS[1:] if start <= size)
        assert len(kinds) == whole
        assert scanner.offset == STARTS[whole]
        assert scanner.sequence == 10 + whole
        left = DATA[STARTS[whole] : size]
        assert bool(scanner.reason) == bool(left.strip(b"\0"))
        assert scanner.blank == bool(left and not scanner.reason)


@given(st.integers(0, len(DATA) - 1), st.integers(0, 7))
def test_a_flipped_bit_stops_the_scan_at_its_record(at: int, bit: int) -> None:
    damaged = bytearray(DATA)
    damaged[at] ^= 1 << bit
    kinds, scanner = scan(bytes(damaged))
    hit = max(index for index, start in enumerate(STARTS[:-1]) if start <= at)
    assert len(kinds) == hit
    assert scanner.offset == STARTS[hit]
    assert scanner.reason


@given(st.binary(max_size=200))
def test_any_bytes_are_records_or_a_reason(data: bytes) -> None:
    kinds, scanner = scan(data)
    assert kinds == []
    assert bool(scanner.reason) == bool(data.strip(b"\0"))


@pytest.mark.parametrize(
    ("foreign", "reason"),
    [
        (pack_record(MESSAGE, 10, GENERATION + 1, b"x"), "another place"),
        (pack_record(MESSAGE, 11, GENERATION, b"x"), "another place"),
        (mark(10, 10), "names a position after itself"),
        (pack_record(MARK, 10, GENERATION, bytes(9)), "names a position after itself"),
        (bytes(100) + b"\1", "zeros"),
        (b"\1" * 100, "claims 16843009 bytes"),
    ],
    ids=["generation", "sequence", "mark", "long mark", "zeros", "length"],
)
def test_foreign_records_are_refused(foreign: bytes, reason: str) -> None:
    kinds, scanner = scan(foreign)
    assert kinds == []
    assert reason in scanner.reason


@given(st.integers(1, 200))
def test_zeros_up_to_the_end_were_written_in_advance(size: int) -> None:
    kinds, scanner = scan(DATA + bytes(size))
    assert len(kinds) == len(RECORDS)
    assert (scanner.offset, scanner.reason, scanner.blank) == (len(DATA), "", True)


def test_marks_are_found_in_rubble() -> None:
    assert find_marks(b"?" * 33 + DATA[50:], GENERATION, 0) == 12
    assert find_marks(DATA, GENERATION, STARTS[4]) == 0
    assert find_marks(DATA, GENERATION + 1, 0) == 0
    assert find_marks(DATA[: STARTS[4] - 1], GENERATION, 0) == 9


def test_a_mark_with_a_wrong_checksum_proves_nothing() -> None:
    damaged = bytearray(mark(50, 40))
    damaged[-1] ^= 1
    assert find_marks(bytes(damaged), GENERATION, 0) == 0
    assert find_marks(GENERATION.to_bytes(4, "little") + bytes([MARK, 0, 0, 0]), GENERATION, 0) == 0
