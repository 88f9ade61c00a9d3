"""Checksums of many records at once: what each of them says, said of all."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.store import bulk_checksums
from posthouse.store.bulk_checksums import FIELD, SPAN, Ints, wrong_record
from posthouse.store.checksum import crc32


def laid_out(seed: int, sizes: list[int], gaps: list[int]) -> tuple[bytes, Ints, Ints]:
    """Records of these sizes, with that many other bytes in front of each."""
    random, data, begins = Random(seed), bytearray(), []
    for size, gap in zip(sizes, gaps, strict=True):
        data += random.randbytes(gap)
        begins.append(len(data))
        covered = random.randbytes(size)
        data += crc32(covered).to_bytes(FIELD, "little") + covered
    data += random.randbytes(5)
    return bytes(data), np.array(begins, np.int64), np.array(sizes, np.int64) + FIELD


records = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 300), st.integers(SPAN - 50, 2 * SPAN + 50)),
        st.one_of(st.just(0), st.integers(0, 1024)),
    ),
    min_size=1,
    max_size=12,
)


@given(st.integers(0, 1 << 32), records)
def test_right_records_are_known_without_looking_at_each(
    seed: int, shape: list[tuple[int, int]]
) -> None:
    data, begins, sizes = laid_out(seed, [size for size, _ in shape], [gap for _, gap in shape])
    looked = list[int]()

    def counted(view: memoryview) -> int:
        looked.append(len(view))
        return crc32(view)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_checksums, "crc32", counted)
        assert wrong_record(data, begins, sizes) is None
    gaps = sum(gap > 0 for _, gap in shape[1:])
    stretches = len(bulk_checksums._stretches(begins + sizes).firsts)
    assert len(looked) <= stretches + gaps


@given(st.integers(0, 1 << 32), records, st.data())
def test_the_first_wrong_record_is_found_wherever_a_bit_is_wrong(
    seed: int, shape: list[tuple[int, int]], draw: st.DataObject
) -> None:
    data, begins, sizes = laid_out(seed, [size for size, _ in shape], [gap for _, gap in shape])
    broken = bytearray(data)
    chosen = draw.draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1))
    for record in chosen:
        at = int(begins[record]) + draw.draw(st.integers(0, int(sizes[record]) - 1))
        broken[at] ^= 1 << draw.draw(st.integers(0, 7))
    assert wrong_record(bytes(broken), begins, sizes) == min(chosen)


@given(st.integers(0, 1 << 32), st.integers(1, 600))
def test_what_lies_between_records_may_be_anything(seed: int, gap: int) -> None:
    data, begins, sizes = laid_out(seed, [20, 30], [3, gap])
    broken = bytearray(data)
    broken[int(begins[1]) - 1] ^= 0xFF
    assert wrong_record(bytes(broken), begins, sizes) is None


def test_no_records_are_right() -> None:
    assert wrong_record(b"", np.empty(0, np.int64), np.empty(0, np.int64)) is None
