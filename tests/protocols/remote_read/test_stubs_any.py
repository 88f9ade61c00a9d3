"""Any value of any method comes back; any bytes are a value or the one fault."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.protocols.remote_read.stubs import (
    METHODS,
    Received,
    Section,
)
from posthouse.rpc.ndr import BadStub, Stub
from tests.protocols.remote_read.stub_vectors import REQUESTS, RESPONSES
from tests.support.ndr_strategies import FORMATS, GUIDS, HANDLES, I32, U8, U16, U32, U64

SECTIONS = st.lists(st.builds(Section, st.integers(0, 4), U32, st.binary(max_size=30)), max_size=2)
BY_CODE = {"B": U8, "H": U16, "I": U32, "i": I32, "Q": U64, "16s": GUIDS, "20s": HANDLES}
BY_NAME = {
    "queue_format": FORMATS,
    "propagation_token": st.binary(max_size=40),
    "sections": SECTIONS.map(tuple),
    "ack": st.integers(1, 2),
}
SIDES = [(opnum, side) for opnum in METHODS for side in ("request", "response")]


def stub_at(opnum: int, side: str) -> Stub[Any]:
    found: Stub[Any] = getattr(METHODS[opnum], side)
    return found


def values_of(stub: Stub[Any]) -> st.SearchStrategy[Any]:
    """Values from the declaration itself, so that no field is forgotten."""
    fields = [
        BY_NAME[name] if name in BY_NAME else BY_CODE[getattr(part, "code")]  # noqa: B009
        for name, part in zip(stub.parameters._fields, stub.parts, strict=True)
    ]
    return st.tuples(*fields).map(stub.parameters._make)


@given(st.data(), st.sampled_from(SIDES), st.booleans())
def test_any_value_comes_back(data: st.DataObject, which: tuple[int, str], ndr64: bool) -> None:
    stub = stub_at(*which)
    value = data.draw(values_of(stub))
    raw = stub.encode(value, ndr64=ndr64)
    assert stub.decode(raw, ndr64=ndr64) == value
    assert stub.decode(raw + b"\xa5" * 7, ndr64=ndr64) == value
    # A structure may end with a gap in NDR64, which nobody misses.
    for wrong in (raw[: -8 if ndr64 else -1], raw + bytes(8)) if raw else (bytes(8),):
        with pytest.raises(BadStub):
            stub.decode(wrong, ndr64=ndr64)


@given(SECTIONS.map(tuple), U32, U64, U32)
def test_the_quick_way_writes_what_the_long_way_does(
    sections: tuple[Section, ...], arrive_time: int, sequence_id: int, result: int
) -> None:
    stub, value = METHODS[7].response, Received(arrive_time, sequence_id, sections, result)
    slow: Stub[Any] = Stub(stub.parameters, stub.parts)
    assert stub.encode(value) == slow.encode(value)
    assert stub.decode(stub.encode(value)) == slow.decode(stub.encode(value))


def decoded(stub: Stub[Any], raw: bytes, *, ndr64: bool) -> Any:
    try:
        return stub.decode(raw, ndr64=ndr64)
    except BadStub:
        return None


@given(st.binary(max_size=120), st.sampled_from(SIDES), st.booleans())
def test_any_bytes_are_a_value_or_the_fault(
    raw: bytes, which: tuple[int, str], ndr64: bool
) -> None:
    stub = stub_at(*which)
    value = decoded(stub, raw, ndr64=ndr64)
    if value is not None:
        assert stub.decode(stub.encode(value, ndr64=ndr64), ndr64=ndr64) == value


GOLDEN = [(n, wide, "request", text) for n, wide, _, text in REQUESTS]
GOLDEN += [(n, wide, "response", text) for n, wide, _, text in RESPONSES]


@given(
    st.sampled_from(GOLDEN),
    st.lists(st.tuples(st.integers(0, 200), st.sampled_from([0, 1, 2, 8, 127, 128, 255]))),
)
def test_changed_stubs_are_a_value_or_the_fault(
    golden: tuple[int, bool, str, str], changes: list[tuple[int, int]]
) -> None:
    opnum, ndr64, side, text = golden
    raw = bytearray.fromhex(text)
    for at, octet in changes:
        raw[at % max(len(raw), 1) : at % max(len(raw), 1) + 1] = bytes([octet])
    stub = stub_at(opnum, side)
    value = decoded(stub, bytes(raw), ndr64=ndr64)
    quick = METHODS[7].response
    if value is not None and stub is quick and not ndr64:
        assert value == Stub(quick.parameters, quick.parts).decode(bytes(raw))


@pytest.mark.parametrize("ndr64", [False, True], ids=["NDR", "NDR64"])
@pytest.mark.parametrize("count", [0x10000000, 0x7FFFFFFF, 0xFFFFFFFF])
def test_counts_that_lie_allocate_nothing(count: int, ndr64: bool) -> None:
    """Every run of four bytes in every stub, taken for a count, and the same behind it."""
    lie = count.to_bytes(4, "little")
    tracemalloc.start()
    try:
        for opnum, wide, side, text in GOLDEN:
            raw = bytes.fromhex(text)
            for at in range(0, len(raw) - 3, 4) if wide is ndr64 else ():
                changed = raw[:at] + lie + raw[at + 4 :]
                decoded(stub_at(opnum, side), changed, ndr64=ndr64)
                twice = changed[: at + 4] + lie + changed[at + 8 :]
                decoded(stub_at(opnum, side), twice, ndr64=ndr64)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.spec("MS-MQRR 2.2.6/1")
@pytest.mark.parametrize("ndr64", [False, True], ids=["NDR", "NDR64"])
@pytest.mark.parametrize("count", [3, 60_000])
def test_no_message_has_more_than_two_sections(count: int, ndr64: bool) -> None:
    stub = METHODS[7].response
    two, more = (Received(0, 0, (Section(0, 0, b""),) * n, 0) for n in (2, count))
    assert stub.decode(stub.encode(two, ndr64=ndr64), ndr64=ndr64) == two
    with pytest.raises(BadStub):
        stub.decode(stub.encode(more, ndr64=ndr64), ndr64=ndr64)
