"""The stubs of qmmgmt: laid out as the IDL has it, any value comes back, any bytes are judged."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.property_ids import Vt
from posthouse.protocols.management.stubs import (
    METHODS,
    Asked,
    ManagedObject,
    ManagementOpnum,
)
from posthouse.rpc.ndr import BadStub, Stub
from posthouse.rpc.propvariant import DEPTH_MAX, Variant
from tests.protocols.management.vectors import REQUESTS, RESPONSES, Vector
from tests.support.ndr_strategies import FORMATS, GUIDS, I32, TEXT, U8, U16, U32, U64

GET_INFO, ACTION = ManagementOpnum.GET_INFO, ManagementOpnum.ACTION
BOTH = pytest.mark.parametrize("ndr64", [False, True], ids=["NDR", "NDR64"])


def stub_at(opnum: int, side: str) -> Stub[Any]:
    found: Stub[Any] = getattr(METHODS[ManagementOpnum(opnum)], side)
    return found


@pytest.mark.spec("MS-MQMR 2.2/1", "MS-MQMR 2.2.1.2/1", "MS-MQMR 2.2.1.2/3", "MS-MQMR 2.2.2.1/1")
@pytest.mark.spec("MS-MQMR PROPVARIANT/1", "MS-MQMR PROPVARIANT/2", "MS-MQMR PROPVARIANT/3")
@pytest.mark.spec("MS-MQMR PROPVARIANT/4")
@pytest.mark.parametrize("vector", REQUESTS, ids=lambda vector: f"{vector[0]}-{vector[1]}")
def test_a_request_is_laid_out_as_the_idl_implies(vector: Vector) -> None:
    opnum, ndr64, value, text = vector
    raw = bytes.fromhex(text)
    assert stub_at(opnum, "request").decode(raw, ndr64=ndr64) == value
    assert stub_at(opnum, "request").encode(value, ndr64=ndr64).hex() == raw.hex()


@pytest.mark.spec("MS-MQMR PROPVARIANT/1", "MS-MQMR PROPVARIANT/2", "MS-MQMR PROPVARIANT/3")
@pytest.mark.spec("MS-MQMR PROPVARIANT/4", "MS-MQMR 3/3")
@pytest.mark.parametrize("vector", RESPONSES, ids=lambda vector: f"{vector[0]}-{vector[1]}")
def test_a_response_is_laid_out_as_the_idl_implies(vector: Vector) -> None:
    opnum, ndr64, value, text = vector
    raw = bytes.fromhex(text)
    assert stub_at(opnum, "response").decode(raw, ndr64=ndr64) == value
    assert stub_at(opnum, "response").encode(value, ndr64=ndr64).hex() == raw.hex()


# -- any value

TEXTS = st.lists(TEXT, max_size=3).map(tuple)
LEAVES = st.one_of(
    st.sampled_from([Variant(Vt.EMPTY), Variant(Vt.NULL)]),
    st.builds(Variant, st.just(Vt.I1), st.integers(-128, 127)),
    st.builds(Variant, st.just(Vt.UI1), U8),
    st.builds(Variant, st.just(Vt.I2), st.integers(-(1 << 15), (1 << 15) - 1)),
    st.builds(Variant, st.just(Vt.UI2), U16),
    st.builds(Variant, st.just(Vt.BOOL), st.booleans()),
    st.builds(Variant, st.just(Vt.I4), I32),
    st.builds(Variant, st.just(Vt.UI4), U32),
    st.builds(Variant, st.just(Vt.I8), st.integers(-(1 << 63), (1 << 63) - 1)),
    st.builds(Variant, st.just(Vt.UI8), U64),
    st.builds(Variant, st.just(Vt.LPWSTR), TEXT),
    st.builds(Variant, st.just(Vt.CLSID), st.none() | GUIDS),
    st.builds(Variant, st.sampled_from([Vt.BLOB, Vt.VECTOR | Vt.UI1]), st.binary(max_size=9)),
    st.builds(Variant, st.just(Vt.VECTOR | Vt.UI2), st.lists(U16, max_size=3).map(tuple)),
    st.builds(Variant, st.just(Vt.VECTOR | Vt.I4), st.lists(I32, max_size=3).map(tuple)),
    st.builds(Variant, st.just(Vt.VECTOR | Vt.UI4), st.lists(U32, max_size=3).map(tuple)),
    st.builds(Variant, st.just(Vt.VECTOR | Vt.UI8), st.lists(U64, max_size=3).map(tuple)),
    st.builds(Variant, st.just(Vt.VECTOR | Vt.CLSID), st.lists(GUIDS, max_size=3).map(tuple)),
    st.builds(Variant, st.just(Vt.VECTOR | Vt.LPWSTR), TEXTS),
)


def vectors_of(inner: st.SearchStrategy[Variant]) -> st.SearchStrategy[Variant]:
    return st.builds(
        Variant, st.just(Vt.VECTOR | Vt.VARIANT), st.lists(inner, max_size=3).map(tuple)
    )


VARIANTS = st.one_of(LEAVES, vectors_of(st.one_of(LEAVES, vectors_of(LEAVES))))
OBJECTS = st.one_of(
    st.sampled_from([ManagedObject(1), ManagedObject(3), ManagedObject(2)]),
    FORMATS.map(lambda name: ManagedObject(2, name)),
)
ASKED = st.lists(st.builds(Asked, U32, VARIANTS), min_size=1, max_size=4).map(tuple)
VALUES = {
    (0, "request"): st.tuples(OBJECTS, ASKED),
    (0, "response"): st.tuples(st.lists(VARIANTS, max_size=4).map(tuple), U32),
    (1, "request"): st.tuples(OBJECTS, st.text(st.characters(), max_size=12)),
    (1, "response"): st.tuples(U32),
}
SIDES = sorted(VALUES)


@given(st.data(), st.sampled_from(SIDES), st.booleans())
def test_any_value_comes_back(data: st.DataObject, which: tuple[int, str], ndr64: bool) -> None:
    stub = stub_at(*which)
    value = stub.parameters._make(data.draw(VALUES[which]))
    raw = stub.encode(value, ndr64=ndr64)
    assert stub.decode(raw, ndr64=ndr64) == value
    assert stub.decode(raw + b"\xa5" * 7, ndr64=ndr64) == value
    with pytest.raises(BadStub):
        stub.decode(raw + bytes(8), ndr64=ndr64)


def decoded(stub: Stub[Any], raw: bytes, *, ndr64: bool) -> Any:
    try:
        return stub.decode(raw, ndr64=ndr64)
    except BadStub:
        return None


@given(st.binary(max_size=160), st.sampled_from(SIDES), st.booleans())
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
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from([0, 1, 2, 12, 16, 31, 65, 128, 255]))),
)
def test_changed_stubs_are_a_value_or_the_fault(
    golden: tuple[int, bool, str, str], changes: list[tuple[int, int]]
) -> None:
    opnum, ndr64, side, text = golden
    raw = bytearray.fromhex(text)
    for at, octet in changes:
        raw[at % len(raw)] = octet
    value = decoded(stub_at(opnum, side), bytes(raw), ndr64=ndr64)
    if value is not None:
        again = stub_at(opnum, side).encode(value, ndr64=ndr64)
        assert stub_at(opnum, side).decode(again, ndr64=ndr64) == value


@BOTH
@pytest.mark.parametrize("count", [0x10000000, 0x7FFFFFFF, 0xFFFFFFFF])
def test_counts_that_lie_allocate_nothing(count: int, ndr64: bool) -> None:
    lie = count.to_bytes(4, "little")
    tracemalloc.start()
    try:
        for opnum, wide, side, text in GOLDEN:
            raw = bytes.fromhex(text)
            for at in range(0, len(raw) - 3, 2) if wide is ndr64 else ():
                changed = raw[:at] + lie + raw[at + 4 :]
                decoded(stub_at(opnum, side), changed, ndr64=ndr64)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


# -- what contradicts itself


def refused(opnum: int, side: str, raw: bytes, *, ndr64: bool = False) -> str:
    with pytest.raises(BadStub) as caught:
        stub_at(opnum, side).decode(raw, ndr64=ndr64)
    return caught.value.cause


def machine(raw: str = REQUESTS[0][3]) -> bytearray:
    return bytearray.fromhex(raw)


@pytest.mark.spec("MS-MQMR 2.2.1.2/2", "MS-MQMR 3.1.4/1")
@pytest.mark.parametrize("kind", [0, 4, 0xFFFF])
def test_an_object_of_another_type_is_a_fault(kind: int) -> None:
    raw = machine()
    raw[0:2] = raw[2:4] = kind.to_bytes(2, "little")
    assert f"type {kind}" in refused(0, "request", bytes(raw))


@pytest.mark.spec("MS-MQMR 3.1.4/1")
def test_tags_are_what_they_select() -> None:
    raw = machine()
    raw[2] = 3
    assert "union of 3" in refused(0, "request", bytes(raw))
    raw = machine()
    raw[40] = 2  # the tag of the first variant
    assert "union of 2" in refused(0, "request", bytes(raw))


@pytest.mark.spec("MS-MQMR 2.2.1.2/4")
@pytest.mark.parametrize("kind", [1, 3])
def test_reserved_values_are_not_looked_at(kind: int) -> None:
    raw = machine()
    raw[0] = raw[2] = kind
    raw[4:8] = b"\xa5" * 4
    raw[34:40] = b"\x5a" * 6  # of the first variant
    value = stub_at(0, "request").decode(bytes(raw))
    assert value.object == ManagedObject(kind)


@pytest.mark.spec("MS-MQMR 3.1.4.1/1")
@pytest.mark.parametrize("count", [0, 129, 0xFFFFFFFF])
def test_a_call_asks_for_1_to_128_properties(count: int) -> None:
    raw = machine()
    raw[8:16] = count.to_bytes(4, "little") * 2
    assert f"{count} properties" in refused(0, "request", bytes(raw))


@pytest.mark.spec("MS-MQMR 3.1.4.1/2")
@pytest.mark.parametrize("at", [12, 24], ids=["aProp", "apVar"])
def test_both_arrays_have_the_announced_length(at: int) -> None:
    raw = machine()
    raw[at] = 3
    assert "an array of 2 is announced with 3" in refused(0, "request", bytes(raw))


@pytest.mark.spec("MS-MQMR 3.1.4/2", "MS-MQMR 3.2.4/3")
@BOTH
@pytest.mark.parametrize("vt", [Vt.BLOB, Vt.VECTOR | Vt.UI4, Vt.VECTOR | Vt.LPWSTR])
def test_a_null_pointer_with_a_count_is_refused(vt: int, ndr64: bool) -> None:
    values: dict[int, Any] = {Vt.BLOB: b"abc", Vt.VECTOR | Vt.UI4: (1, 2, 3)}
    value = values.get(vt, ("a", "b", "c"))
    response = stub_at(0, "response").parameters((Variant(vt, value),), 0)
    raw = bytearray(stub_at(0, "response").encode(response, ndr64=ndr64))
    at = 32 if ndr64 else 24
    assert raw[at : at + 4] == bytes.fromhex("00000200")
    raw[at : at + 4] = bytes(4)
    assert "3 elements after a NULL pointer" in refused(0, "response", bytes(raw), ndr64=ndr64)


@pytest.mark.spec("MS-MQMR PROPVARIANT/5")
@pytest.mark.parametrize("vt", [4, 5, 6, 7, 8, 9, 12, 13, 30, 64, 66, 0x1002, 0x1008, 0x2011])
def test_a_type_that_there_is_not_is_a_fault(vt: int) -> None:
    raw = machine()
    raw[32:34] = raw[40:42] = vt.to_bytes(2, "little")
    assert f"type {vt}" in refused(0, "request", bytes(raw))


def test_vectors_inside_each_other_have_an_end() -> None:
    value = Variant(Vt.UI4, 1)
    for _ in range(DEPTH_MAX + 1):
        value = Variant(Vt.VECTOR | Vt.VARIANT, (value,))
    response = stub_at(0, "response").parameters((value,), 0)
    raw = stub_at(0, "response").encode(response)
    assert "inside each other" in refused(0, "response", raw)
