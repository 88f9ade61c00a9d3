"""Pieces of something large are put together again, and cost no more than their bytes."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from posthouse.wire.block_buffer import BLOCK, Gathered

SIZES = st.one_of(st.integers(0, 20), st.integers(BLOCK - 2, BLOCK + 2), st.integers(0, 3 * BLOCK))


@given(st.lists(SIZES, max_size=12))
def test_all_pieces_come_out_in_their_order(sizes: list[int]) -> None:
    gathered, pieces = Gathered(), [bytes([n + 1]) * size for n, size in enumerate(sizes)]
    for number, piece in enumerate(pieces):
        gathered.add(memoryview(piece) if number % 2 else piece)
        assert len(gathered) == gathered.size == sum(map(len, pieces[: number + 1]))
    assert gathered.take() == b"".join(pieces)
    assert (gathered.size, gathered.take()) == (0, b"")


def test_tiny_pieces_lie_together_in_blocks_of_one_size() -> None:
    gathered = Gathered()
    for _ in range(3 * BLOCK):
        gathered.add(b"x")
    assert [len(block) for block in gathered._blocks] == [BLOCK] * 3
    assert sum(map(sys.getsizeof, gathered._blocks)) < 4 * BLOCK
