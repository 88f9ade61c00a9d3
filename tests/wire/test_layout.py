"""Layout, Flags and Reader: the tools every structure is declared with."""

from typing import Annotated, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket, RemoteProtocolError, Truncated
from posthouse.wire.layout import (
    Flags,
    Layout,
    Reader,
    align4,
    bits,
    decode_text,
    encode_text,
    guid,
    u8,
    u16,
    u32,
    u64,
)


class SampleFlags(Flags):
    low = bits(0, 3)
    single = bits(4)
    high = bits(8, 8)


class Sample(NamedTuple):
    kind: u8
    reserved: u8
    flags: Annotated[SampleFlags, "H"]
    size: u32
    serial: u64
    owner: guid
    tail: u16


SAMPLE = Layout(Sample)
SAMPLE_BYTES = bytes.fromhex(
    "01 00 13ff 78563412 0807060504030201 000102030405060708090a0b0c0d0e0f 3412"
)


def test_layout_reads_little_endian_fields_in_order() -> None:
    assert SAMPLE.size == 34
    sample = SAMPLE.unpack(SAMPLE_BYTES)
    assert sample == (1, 0, 0xFF13, 0x12345678, 0x0102030405060708, bytes(range(16)), 0x1234)


def test_layout_packs_what_it_unpacked() -> None:
    assert SAMPLE.pack(SAMPLE.unpack(SAMPLE_BYTES)) == SAMPLE_BYTES


def test_layout_reads_at_an_offset_and_ignores_what_follows() -> None:
    assert SAMPLE.unpack(b"abc" + SAMPLE_BYTES + b"xyz", 3) == SAMPLE.unpack(SAMPLE_BYTES)


@pytest.mark.parametrize("size", range(len(SAMPLE_BYTES)))
def test_layout_refuses_short_input(size: int) -> None:
    with pytest.raises(Truncated):
        SAMPLE.unpack(SAMPLE_BYTES[:size])


def test_flags_are_typed_and_read_by_name() -> None:
    flags = SAMPLE.unpack(SAMPLE_BYTES).flags
    assert isinstance(flags, SampleFlags)
    assert (flags.low, flags.single, flags.high) == (3, 1, 255)


def test_flags_are_built_from_names() -> None:
    assert SampleFlags.of(low=5, high=0x81) == 0x8105


def test_flags_replace_leaves_other_bits_alone() -> None:
    assert SampleFlags(0xFFFF).replace(low=0, single=0) == 0xFFE8


def test_flags_refuse_a_value_that_does_not_fit() -> None:
    with pytest.raises(AssertionError):
        SampleFlags.of(low=8)


@pytest.mark.parametrize(("size", "aligned"), [(0, 0), (1, 4), (3, 4), (4, 4), (5, 8)])
def test_align4_rounds_up(size: int, aligned: int) -> None:
    assert align4(size) == aligned


def test_reader_takes_one_part_after_the_other() -> None:
    reader = Reader(b"\xaa" + SAMPLE_BYTES + b"rest")
    assert reader.take(1) == b"\xaa"
    assert reader.read(SAMPLE).size == 0x12345678
    assert reader.remaining == 4
    assert reader.take(4) == b"rest"


def test_reader_stops_at_its_end() -> None:
    reader = Reader(b"abcdef", 1, 4)
    assert reader.take(3) == b"bcd"
    with pytest.raises(Truncated):
        reader.take(1)


def test_reader_does_not_read_a_structure_across_its_end() -> None:
    with pytest.raises(Truncated):
        Reader(SAMPLE_BYTES, 0, SAMPLE.size - 1).read(SAMPLE)


def test_reader_refuses_to_begin_behind_its_end() -> None:
    with pytest.raises(Truncated):
        Reader(b"abc", 4)


@pytest.mark.parametrize("size", [-1, 4, 0xFFFFFFFF, 1 << 70])
def test_reader_refuses_sizes_that_are_not_there(size: int) -> None:
    reader = Reader(b"abc")
    with pytest.raises(Truncated):
        reader.skip(size)
    assert reader.at == 0


def test_reader_aligns_from_the_start_of_the_bytes() -> None:
    reader = Reader(bytes(12), 5)
    reader.align()
    assert reader.at == 8
    reader.align()
    assert reader.at == 8


def test_reader_forgives_padding_missing_at_the_end() -> None:
    reader = Reader(bytes(7), 5)
    reader.align()
    assert (reader.at, reader.remaining) == (7, 0)


def test_reader_reads_counted_text_without_its_nul() -> None:
    assert Reader("ab\0".encode("utf-16-le")).text(3) == "ab"
    assert Reader("abc".encode("utf-16-le")).text(3) == "abc"
    assert Reader(b"").text(0) == ""


def test_reader_reads_terminated_text_on_its_own_units() -> None:
    # The units U+0100 and U+0001 put two zero bytes side by side across their border.
    reader = Reader("\u0100\u0001x\0rest".encode("utf-16-le"))
    assert reader.terminated_text() == "\u0100\u0001x"
    assert reader.remaining == 8


def test_reader_refuses_text_without_end() -> None:
    with pytest.raises(Truncated):
        Reader("abc".encode("utf-16-le")).terminated_text()


def test_text_of_odd_size_is_refused() -> None:
    with pytest.raises(MalformedPacket):
        decode_text(b"abc")


@given(st.binary(max_size=64).map(lambda raw: raw[: len(raw) // 2 * 2]))
def test_any_units_survive_decoding_and_encoding(raw: bytes) -> None:
    assert encode_text(decode_text(raw + b"\0\0")) == raw + b"\0\0"


@given(st.binary(max_size=40), st.lists(st.integers(0, 50), max_size=5))
def test_reader_gives_a_value_or_a_protocol_error(data: bytes, steps: list[int]) -> None:
    reader = Reader(data)
    try:
        for step in steps:
            reader.take(step)
            reader.align()
            reader.terminated_text()
    except RemoteProtocolError:
        pass
    assert 0 <= reader.at <= len(data)
