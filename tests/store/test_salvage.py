"""Reading around damage: every byte is part of a good record or of a named bad place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.records import CHANGE, MESSAGE
from posthouse.store.format import SEGMENT_HEADER_SIZE, pack_record
from posthouse.store.salvage import Piece, filler, pieces

GENERATION = 0x1234ABCD
COUNT = 12
RECORDS = [
    pack_record(MESSAGE if n % 2 else CHANGE, 10 + n, GENERATION, bytes([n]) * (17 * n))
    for n in range(COUNT)
]
DATA = bytes(SEGMENT_HEADER_SIZE) + b"".join(RECORDS)
LAST = 10 + COUNT - 1


def found_in(data: bytes, last: int | None = LAST) -> list[Piece]:
    """The pieces, which must lie one behind the other and count on without a gap."""
    found = list(pieces(data, GENERATION, 10, last))
    at, sequence = SEGMENT_HEADER_SIZE, 10
    for piece in found:
        assert (piece.offset, piece.sequence) == (at, sequence)
        at, sequence = piece.end, sequence + (piece.bad if piece.reason else 1)
    assert not data[at:].strip(b"\0")  # but for zeros that were written in advance
    assert last is None or sequence == last + 1
    return found


def test_a_whole_segment_is_all_good() -> None:
    assert not any(piece.reason for piece in found_in(DATA))


@given(st.integers(SEGMENT_HEADER_SIZE, len(DATA) - 1), st.integers(0, 7))
def test_a_flipped_bit_costs_one_record(at: int, bit: int) -> None:
    damaged = bytearray(DATA)
    damaged[at] ^= 1 << bit
    found = found_in(bytes(damaged))
    (bad,) = [piece for piece in found if piece.reason]
    assert bad.bad == 1
    assert bad.offset <= at < bad.end
    assert len(found) == COUNT


@given(
    st.integers(SEGMENT_HEADER_SIZE, len(DATA)),
    st.integers(0, 200),
    st.binary(max_size=200),
)
def test_overwritten_bytes_cost_the_records_they_hit(at: int, size: int, junk: bytes) -> None:
    end = min(at + size, len(DATA))
    rubbish = (junk + b"?" * size)[: end - at]
    damaged = DATA[:at] + rubbish + DATA[end:]
    found = found_in(damaged)
    healed = b"".join(
        filler(piece, GENERATION) if piece.reason else damaged[piece.offset : piece.end]
        for piece in found
    )
    assert len(healed) == len(DATA) - SEGMENT_HEADER_SIZE
    assert not any(piece.reason for piece in found_in(bytes(SEGMENT_HEADER_SIZE) + healed))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_around(data: bytes) -> None:
    found = found_in(bytes(SEGMENT_HEADER_SIZE) + data, None)
    assert all(piece.reason for piece in found)
    assert len(found) == (1 if data.strip(b"\0") else 0)
