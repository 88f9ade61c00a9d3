"""NDR and NDR64: where values stand, and what a reader does not believe."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.rpc.ndr import (
    BadStub,
    FixedStub,
    Reader,
    Scalar,
    Writer,
    context_handle,
    guid,
    i32,
    octets16,
    stub_of,
    u8,
    u16,
    u64,
)
from posthouse.rpc.statuses import BAD_STUB_DATA, Fault

SYNTAXES = pytest.mark.parametrize("ndr64", [False, True], ids=["NDR", "NDR64"])


def written(ndr64: bool, *steps: Callable[[Writer], None]) -> str:
    writer = Writer(ndr64=ndr64)
    for step in steps:
        step(writer)
    return writer.buffer.hex()


def read(text: str, *, ndr64: bool = False) -> Reader:
    return Reader(bytes.fromhex(text), ndr64=ndr64)


@SYNTAXES
def test_each_value_stands_at_a_multiple_of_its_size(ndr64: bool) -> None:
    stub = written(
        ndr64,
        lambda w: w.u8(1),
        lambda w: w.u16(2),
        lambda w: w.u8(3),
        lambda w: w.u32(4),
        lambda w: w.u64(5),
        lambda w: w.u8(6),
    )
    assert stub == "0100 0200 03000000 04000000 00000000 0500000000000000 06".replace(" ", "")
    reader = read(stub, ndr64=ndr64)
    assert [reader.u8(), reader.u16(), reader.u8(), reader.u32(), reader.u64()] == [1, 2, 3, 4, 5]
    assert reader.u8() == 6
    reader.end()


@pytest.mark.spec("RPC/4")
@pytest.mark.parametrize(("ndr64", "text"), [(False, "0300"), (True, "03000000")])
def test_an_enumeration_is_wider_in_ndr64(ndr64: bool, text: str) -> None:
    assert written(ndr64, lambda w: w.enum(3)) == text
    assert read(text, ndr64=ndr64).enum() == 3


def test_an_enumeration_of_ndr64_is_read_whole() -> None:
    assert read("00000100", ndr64=True).enum() == 0x10000


POINTERS = [
    (False, "00000200 00000000 08000200"),
    (True, "0000020000000000 0000000000000000 0800020000000000"),
]


@pytest.mark.parametrize(("ndr64", "text"), POINTERS)
def test_pointers_are_told_apart_by_their_referents(ndr64: bool, text: str) -> None:
    steps: list[Callable[[Writer], None]] = [
        lambda w: w.pointer(True),
        lambda w: w.pointer(False),
        lambda w: w.pointer(True),
    ]
    assert written(ndr64, *steps) == text.replace(" ", "")
    reader = read(text, ndr64=ndr64)
    assert [reader.pointer(), reader.pointer(), reader.pointer()] == [True, False, True]


def test_a_pointer_of_ndr64_is_not_null_for_its_low_half_alone() -> None:
    assert read("0000000001000000", ndr64=True).pointer()


@pytest.mark.parametrize(
    ("ndr64", "text"),
    [
        (False, "04000000 00000000 04000000 6100 3dd84cdc 0000"),
        (True, "0400000000000000 0000000000000000 0400000000000000 6100 3dd84cdc 0000"),
    ],
)
def test_text_is_counted_in_utf16_with_its_terminator(ndr64: bool, text: str) -> None:
    assert written(ndr64, lambda w: w.text("a\U0001f44c")) == text.replace(" ", "")
    assert read(text, ndr64=ndr64).text() == "a\U0001f44c"


@pytest.mark.parametrize(
    "text",
    [
        "00000000 00000000 00000000",  # not even a terminator
        "01000000 00000000 01000000 6100",
        "02000000 00000000 02000000 61006200",
        "02000000 01000000 01000000 0000",  # begins behind its beginning
        "01000000 00000000 02000000 61000000",  # longer than it may be
        "02000000 00000000 02000000 6100",
        "ffffffff 00000000 ffffffff 6100",
        "02000000 00000000",
    ],
)
def test_text_that_contradicts_itself_is_refused(text: str) -> None:
    with pytest.raises(BadStub):
        read(text).text()


def test_text_may_be_shorter_than_announced() -> None:
    assert read("ffffffff 00000000 02000000 6100 0000").text() == "a"


@SYNTAXES
@pytest.mark.parametrize("verb", ["u8", "u16", "u32", "u64", "enum", "wide", "pointer", "varying"])
def test_nothing_is_read_past_the_end(verb: str, ndr64: bool) -> None:
    with pytest.raises(BadStub):
        getattr(Reader(b"", ndr64=ndr64), verb)()


def test_bytes_past_the_end_are_not_taken() -> None:
    reader = Reader(b"abc")
    assert reader.take(3) == b"abc"
    with pytest.raises(BadStub):
        reader.take(1)


def test_a_fault_tells_its_status_and_its_cause() -> None:
    with pytest.raises(Fault) as caught:
        Reader(b"abc").take(1 << 62)
    assert caught.value.status == BAD_STUB_DATA
    assert str(caught.value) == "fault 0x000006F7: 4611686018427387904 bytes at 0 do not fit in 3"


@SYNTAXES
def test_a_count_is_what_the_other_parameter_says(ndr64: bool) -> None:
    read("05000000 00000000", ndr64=ndr64).count(5)
    with pytest.raises(BadStub):
        read("05000000 00000000", ndr64=ndr64).count(4)


def test_elements_that_cannot_be_there_are_refused_before_they_are_read() -> None:
    read("0000 0000").room_for(2, 2)
    later = Reader(bytes(8), at=5)
    later.room_for(3, 1)
    with pytest.raises(BadStub):
        later.room_for(4, 1)
    with pytest.raises(BadStub):
        read("0000 0000").room_for(3, 2)
    with pytest.raises(BadStub):
        read("0000 0000").room_for(0xFFFFFFFFFFFFFFFF, 1)


def test_a_part_of_an_array_stays_inside_of_it() -> None:
    assert read("05000000 00000000 03000000").varying() == (5, 3)
    with pytest.raises(BadStub):
        read("05000000 00000000 06000000").varying()
    with pytest.raises(BadStub):
        read("05000000 03000000 02000000").varying()
    assert written(False, lambda w: w.varying(5, 3)) == "050000000000000003000000"


small = Annotated[int, Scalar("B", 1, 2, 4)]


class Fixed(NamedTuple):
    """Every scalar."""

    one: u8
    handle: context_handle
    long: u64
    short: u16
    name: guid
    unit: octets16
    signed: i32
    ranged: small


class TextPart:
    def read(self, reader: Reader) -> str:
        return reader.text()

    def write(self, writer: Writer, value: str) -> None:
        writer.text(value)


class Mixed(NamedTuple):
    """Scalars around a text, whose length decides where the others stand."""

    one: u8
    text: Annotated[str, TextPart()]
    long: u64
    ranged: small


FIXED = Fixed(1, b"h" * 20, 2, 3, b"g" * 16, b"u" * 16, -4, 4)
FIXED_HEX = (
    "01 000000" + "68" * 20 + "0200000000000000 0300 0000" + "67" * 16 + "75" * 16 + "fcffffff 04"
)


@SYNTAXES
def test_scalars_become_one_struct(ndr64: bool) -> None:
    stub = stub_of(Fixed)
    assert isinstance(stub, FixedStub)
    assert stub.encode(FIXED, ndr64=ndr64) == bytes.fromhex(FIXED_HEX)
    assert stub.decode(bytes.fromhex(FIXED_HEX), ndr64=ndr64) == FIXED


@SYNTAXES
def test_one_struct_is_what_one_after_the_other_is(ndr64: bool) -> None:
    """`FixedStub` is an optimization of `Stub`, byte for byte."""
    slow = super(FixedStub, stub_of(Fixed))
    raw = slow.encode(FIXED, ndr64=ndr64)
    assert raw == bytes.fromhex(FIXED_HEX)
    assert slow.decode(raw, ndr64=ndr64) == FIXED


@SYNTAXES
@pytest.mark.parametrize("value", [0, 1, 5, 255])
def test_a_value_outside_its_range_is_refused(value: int, ndr64: bool) -> None:
    fixed, mixed = stub_of(Fixed), stub_of(Mixed)
    with pytest.raises(BadStub):
        fixed.decode(fixed.encode(FIXED._replace(ranged=value)), ndr64=ndr64)
    raw = mixed.encode(Mixed(1, "t", 2, value), ndr64=ndr64)
    with pytest.raises(BadStub):
        mixed.decode(raw, ndr64=ndr64)


@given(st.integers(0, 255), st.text(max_size=9), st.integers(0, 2**64 - 1), st.booleans())
def test_what_is_written_is_read(one: int, text: str, long: int, ndr64: bool) -> None:
    stub, value = stub_of(Mixed), Mixed(one, text, long, 3)
    raw = stub.encode(value, ndr64=ndr64)
    assert stub.decode(raw, ndr64=ndr64) == value
    assert stub.decode(raw + bytes(7), ndr64=ndr64) == value
    for wrong in (raw[:-1], raw + bytes(8)):
        with pytest.raises(BadStub):
            stub.decode(wrong, ndr64=ndr64)


VERBS: list[Callable[[Reader], Any]] = [
    Reader.u8,
    Reader.u16,
    Reader.u32,
    Reader.u64,
    Reader.enum,
    Reader.pointer,
    Reader.varying,
    Reader.text,
    lambda reader: reader.take(reader.wide()),
    lambda reader: reader.room_for(reader.wide(), 1),
    lambda reader: reader.align(8),
]


@given(st.binary(max_size=64), st.booleans(), st.lists(st.sampled_from(VERBS), max_size=12))
def test_any_bytes_give_values_or_the_one_error(
    data: bytes, ndr64: bool, verbs: list[Callable[[Reader], Any]]
) -> None:
    reader = Reader(data, ndr64=ndr64)
    with contextlib.suppress(BadStub):
        for verb in verbs:
            verb(reader)
        reader.end()
