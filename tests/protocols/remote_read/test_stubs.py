"""Stubs that contradict the interface end in a fault, before any method sees them."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from posthouse.protocols.queue_format import DlId
from posthouse.protocols.remote_read.stubs import (
    METHODS,
    TOKEN_SIZE_MAX,
    EndReceive,
    EnlistRemoteTransaction,
    OpenQueueRequest,
    QueueFormat,
    Received,
    Section,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from posthouse.rpc.ndr import BadStub
from posthouse.rpc.statuses import BAD_STUB_DATA

HANDLE = bytes(4) + b"h" * 16
UOW = b"u" * 16
GUID = b"g" * 16
PUBLIC = QueueFormat(1, 0, GUID)
ONE = Received(1, 2, (Section(0, 8, b"12345678"),), 0)
TWO = Received(1, 2, (Section(1, 9, b"1234"), Section(2, 4, b"5678")), 0)
SYNTAXES = pytest.mark.parametrize("ndr64", [False, True], ids=["NDR", "NDR64"])


def refused(opnum: int, stub: bytes, ndr64: bool, *, response: bool = False) -> BadStub:
    decode = decode_response if response else decode_request
    with pytest.raises(BadStub) as caught:
        decode(opnum, stub, ndr64)
    assert caught.value.status == BAD_STUB_DATA == 0x6F7
    return caught.value


def changed(stub: bytes, at: int, code: str, value: int) -> bytes:
    """The stub with one number replaced."""
    buffer = bytearray(stub)
    struct.pack_into(code, buffer, at, value)
    return bytes(buffer)


@pytest.mark.spec("RPC/11", "MS-MQRR 3.1.4.9/2", "MS-MQRR 3.1.4.15/2", "MS-MQRR 3.1.4/1")
@SYNTAXES
@pytest.mark.parametrize("opnum", [9, 15])
@pytest.mark.parametrize("ack", [0, 3, 0x80000001, 0xFFFFFFFF])
def test_an_acknowledgement_outside_its_range_is_a_fault(opnum: int, ack: int, ndr64: bool) -> None:
    refused(opnum, encode_request(opnum, EndReceive(HANDLE, ack, 1), ndr64), ndr64)


@pytest.mark.spec("MS-MQRR 3.1.4.9/2", "MS-MQRR 3.1.4.15/2")
@pytest.mark.parametrize("opnum", [9, 15])
@pytest.mark.parametrize("ack", [1, 2])
def test_both_acknowledgements_pass(opnum: int, ack: int) -> None:
    stub = encode_request(opnum, EndReceive(HANDLE, ack, 1))
    assert decode_request(opnum, stub) == (HANDLE, ack, 1)


def enlistment(size: int, ndr64: bool) -> bytes:
    return encode_request(12, EnlistRemoteTransaction(UOW, bytes(size), PUBLIC), ndr64)


@pytest.mark.spec("RPC/11", "MS-MQRR 3.1.4.12/4")
@SYNTAXES
@pytest.mark.parametrize("size", [0, 1, TOKEN_SIZE_MAX])
def test_a_token_of_any_size_in_range_passes(size: int, ndr64: bool) -> None:
    found = decode_request(12, enlistment(size, ndr64), ndr64)
    assert found == (UOW, bytes(size), PUBLIC)


@pytest.mark.spec("RPC/11", "MS-MQRR 3.1.4.12/4", "MS-MQRR 3.1.4/1")
@SYNTAXES
def test_a_token_that_is_too_long_is_a_fault(ndr64: bool) -> None:
    assert TOKEN_SIZE_MAX == 131072
    refused(12, enlistment(TOKEN_SIZE_MAX + 1, ndr64), ndr64)


@pytest.mark.spec("MS-MQRR 3.1.4/1")
@SYNTAXES
@pytest.mark.parametrize("size", [0, 4, 6, 0xFFFFFFFF])
def test_a_token_of_another_size_than_its_count_is_a_fault(size: int, ndr64: bool) -> None:
    refused(12, changed(enlistment(5, ndr64), 16, "<I", size), ndr64)


@pytest.mark.spec("RPC/11", "MS-MQRR 3.1.4/1")
@SYNTAXES
@pytest.mark.parametrize("opnum", [2, 11])
@pytest.mark.parametrize("tag", [0, 2, 3, 8, 9, 255])
def test_a_union_of_another_type_than_the_name_is_a_fault(
    opnum: int, tag: int, ndr64: bool
) -> None:
    stub = encode_request(opnum, OpenQueueRequest(PUBLIC, 1, 0, GUID, 1, 6, 1, 0, 0), ndr64)
    refused(opnum, changed(stub, 8 if ndr64 else 4, "<B", tag), ndr64)
    refused(opnum, changed(stub, 0, "<B", tag), ndr64)


@SYNTAXES
@pytest.mark.parametrize("kind", [9, 10, 255])
def test_a_union_without_such_an_arm_is_a_fault(kind: int, ndr64: bool) -> None:
    for name in (QueueFormat(0), PUBLIC, QueueFormat(3), QueueFormat(6, 0, DlId(GUID, None))):
        stub = encode_request(2, OpenQueueRequest(name, 1, 0, GUID, 1, 6, 1, 0, 0), ndr64)
        stub = changed(stub, 8 if ndr64 else 4, "<B", kind)
        refused(2, changed(stub, 0, "<B", kind), ndr64)


@pytest.mark.spec("MS-MQRR 3.1.4/2", "MS-MQRR 3.1.4/1")
@SYNTAXES
def test_sections_behind_a_null_pointer_are_refused(ndr64: bool) -> None:
    at, code = (24, "<Q") if ndr64 else (20, "<I")
    refused(7, changed(encode_response(7, ONE, ndr64), at, code, 0), ndr64, response=True)
    nothing = encode_response(7, Received(1, 2, (), 3), ndr64)
    for count in (1, 2, 3):
        refused(7, changed(nothing, 16, "<I", count), ndr64, response=True)


@pytest.mark.spec("MS-MQRR 3.1.4/2")
@SYNTAXES
def test_bytes_of_a_section_behind_a_null_pointer_are_refused(ndr64: bool) -> None:
    at, code = (56, "<Q") if ndr64 else (40, "<I")
    refused(7, changed(encode_response(7, ONE, ndr64), at, code, 0), ndr64, response=True)


@SYNTAXES
def test_a_section_without_bytes_may_have_a_null_pointer(ndr64: bool) -> None:
    empty = Received(1, 2, (Section(0, 0, b""),), 3)
    stub = encode_response(7, empty, ndr64)
    assert decode_response(7, stub, ndr64) == empty
    if ndr64:
        without = stub[:56] + bytes(8) + stub[-4:]
    else:
        without = stub[:40] + bytes(4) + stub[-4:]
    assert decode_response(7, without, ndr64) == empty


# Where the counts of an answer with one section of eight bytes lie: number of sections, count of
# the array, size of the section, count of its bytes.
COUNTS = [
    *((False, at, "<I") for at in (16, 24, 36, 44)),
    (True, 16, "<I"),
    (True, 32, "<Q"),
    (True, 48, "<I"),
    (True, 64, "<Q"),
]


@pytest.mark.spec("MS-MQRR 3.1.4/1", "MS-MQRR 2.2.6/8")
@pytest.mark.parametrize(("ndr64", "at", "code"), COUNTS)
@pytest.mark.parametrize("count", [0, 2, 7, 9, 0x7FFFFFFF, 0xFFFFFFFF])
def test_counts_that_disagree_are_refused(ndr64: bool, at: int, code: str, count: int) -> None:
    stub = encode_response(7, ONE, ndr64)
    refused(7, changed(stub, at, code, count), ndr64, response=True)


@pytest.mark.spec("MS-MQRR 2.2.7/1")
@SYNTAXES
@pytest.mark.parametrize("answer", [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize("kind", [5, 0x7FFF, 0xFFFF])
def test_a_section_of_an_unknown_type_is_refused(answer: Received, kind: int, ndr64: bool) -> None:
    at = 40 if ndr64 else 28
    stub = changed(encode_response(7, answer, ndr64), at, "<H", kind)
    refused(7, stub, ndr64, response=True)


def some_of_each(ndr64: bool) -> list[tuple[str, int, bytes]]:
    name = QueueFormat(3, 0, "OS:h\\private$\\q")
    opening = OpenQueueRequest(name, 1, 0, GUID, 1, 6, 1, 0, 0)
    enlisting = EnlistRemoteTransaction(UOW, b"abc", name)
    return [
        ("request", 2, encode_request(2, opening, ndr64)),
        ("request", 12, encode_request(12, enlisting, ndr64)),
        ("response", 7, encode_response(7, ONE, ndr64)),
        ("response", 13, encode_response(13, TWO, ndr64)),
        ("request", 14, bytes(34)),
        *(
            (side, opnum, bytes(size))
            for opnum, side, size in (
                (3, "request", 20),
                (5, "request", 24),
                (7, "request", 56),
                (10, "request", 56),
                (13, "request", 72),
                (0, "response", 4),
                (3, "response", 24),
                (11, "response", 28),
            )
        ),
    ]


@pytest.mark.spec(
    "MS-MQRR 3.1.4/1", "MS-MQRR 3.1.4.2/2", "MS-MQRR 3.1.4.11/1", "MS-MQRR 3.1.4.12/3"
)
@SYNTAXES
def test_a_stub_that_ends_early_is_refused(ndr64: bool) -> None:
    """Among them all that lack a parameter behind a reference pointer altogether."""
    for side, opnum, stub in some_of_each(ndr64):
        for size in range(len(stub)):
            refused(opnum, stub[:size], ndr64, response=side == "response")


@SYNTAXES
@pytest.mark.parametrize("opnum", METHODS)
def test_more_than_padding_behind_the_last_parameter_is_refused(opnum: int, ndr64: bool) -> None:
    values: dict[int, Any] = {
        2: OpenQueueRequest(PUBLIC, 1, 0, GUID, 1, 6, 1, 0, 0),
        12: EnlistRemoteTransaction(UOW, b"token", PUBLIC),
        9: EndReceive(HANDLE, 1, 2),
    }
    values |= {11: values[2], 15: values[9]}
    sizes = {0: 0, 5: 24, 7: 56, 8: 24, 10: 56, 13: 72, 14: 34}
    request = values.get(opnum)
    stub = encode_request(opnum, request, ndr64) if request else bytes(sizes.get(opnum, 20))
    expected = decode_request(opnum, stub, ndr64)
    assert decode_request(opnum, stub + b"\xff" * 7, ndr64) == expected
    refused(opnum, stub + bytes(8), ndr64)


@SYNTAXES
@pytest.mark.parametrize("answer", [ONE, TWO], ids=["one", "two"])
def test_more_than_padding_behind_an_answer_is_refused(answer: Received, ndr64: bool) -> None:
    stub = encode_response(7, answer, ndr64)
    assert decode_response(7, stub + b"\xff" * 7, ndr64) == answer
    refused(7, stub + bytes(8), ndr64, response=True)


def test_what_is_in_the_padding_does_not_matter() -> None:
    stub = encode_request(14, (HANDLE, 5, 0xC004))
    assert decode_request(14, stub[:20] + b"\xff" * 4 + stub[24:]) == (HANDLE, 5, 0xC004)


def test_the_reserved_field_of_a_queue_format_does_not_matter() -> None:
    request = OpenQueueRequest(PUBLIC, 1, 0, GUID, 1, 6, 1, 0, 0)
    stub = changed(encode_request(2, request), 2, "<H", 0xFFFF)
    assert decode_request(2, stub) == request
