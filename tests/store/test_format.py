"""Bytes on the disk: what is written can be read, and nothing else passes for it."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.store.errors import FormatUnknown, StoreDamaged
from posthouse.store.format import (
    CRC,
    FORMAT_VERSION,
    HEADER,
    HEADER_SIZE,
    SEGMENT_HEADER_SIZE,
    SegmentEntry,
    SegmentHeader,
    generation_of,
    index_name,
    numbered,
    pack_record,
    pack_segment_header,
    pack_segments,
    segment_name,
    unpack_segment_header,
    unpack_segments,
)

STORE_ID = b"0123456789abcdef"
HEAD = SegmentHeader(7, generation_of(STORE_ID, 7), 1234, STORE_ID)

entries = st.builds(
    SegmentEntry,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
)


def test_record_header_is_checksum_length_sequence_generation_kind() -> None:
    record = pack_record(2, 1234, 99, b"payload")
    crc, length, sequence, generation, kind = HEADER.unpack_from(record)
    assert (length, sequence, generation, kind) == (7, 1234, 99, 2)
    assert crc == crc32(record[4:])
    assert record[HEADER_SIZE:] == b"payload"


def test_segment_header_is_read_back() -> None:
    packed = pack_segment_header(HEAD)
    assert len(packed) == SEGMENT_HEADER_SIZE
    assert unpack_segment_header(packed + b"more", "x", 7) == HEAD


@given(st.integers(0, SEGMENT_HEADER_SIZE - 1), st.integers(0, 7))
def test_no_flipped_bit_in_a_segment_header_goes_unnoticed(at: int, bit: int) -> None:
    packed = bytearray(pack_segment_header(HEAD))
    packed[at] ^= 1 << bit
    with pytest.raises(StoreDamaged) as caught:
        unpack_segment_header(bytes(packed), "00000007.log", 7)
    assert caught.value.file == "00000007.log"


@given(st.binary(max_size=80))
def test_any_bytes_are_a_segment_header_or_damage(data: bytes) -> None:
    with pytest.raises(StoreDamaged):
        unpack_segment_header(data, "x", 7)


def test_segment_under_the_name_of_another_is_damage() -> None:
    with pytest.raises(StoreDamaged, match="holds segment 7"):
        unpack_segment_header(pack_segment_header(HEAD), "00000008.log", 8)


def test_newer_format_is_told_from_damage() -> None:
    head = bytearray(pack_segment_header(HEAD)[:-4])
    head[8:10] = (FORMAT_VERSION + 1).to_bytes(2, "little")
    newer = bytes(head) + CRC.pack(crc32(bytes(head)))
    with pytest.raises(FormatUnknown, match=f"store format {FORMAT_VERSION + 1}"):
        unpack_segment_header(newer, "00000007.log", 7)


@given(st.lists(entries, max_size=5))
def test_segment_list_is_read_back(listed: list[SegmentEntry]) -> None:
    assert unpack_segments(pack_segments(listed)) == listed


@given(st.binary(max_size=80))
def test_any_bytes_are_a_segment_list_or_none(data: bytes) -> None:
    found = unpack_segments(data)
    assert found is None or pack_segments(found) == data


def test_generations_differ_by_segment_and_store() -> None:
    generations = {generation_of(STORE_ID, number) for number in range(1000)}
    assert len(generations) == 1000
    assert generation_of(bytes(16), 7) != generation_of(STORE_ID, 7)


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/20")
def test_files_are_named_by_number() -> None:
    assert segment_name(12) == "00000012.log"
    assert index_name(123456789) == "123456789.idx"
    names = [
        "00000012.log",
        "123456789.log",
        "1.log",
        "0000001x.log",
        "00000003.idx",
        "²²²²²²²².log",
    ]
    assert numbered(names, ".log") == [12, 123456789]
