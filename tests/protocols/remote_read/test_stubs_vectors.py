"""Every method's stubs are what the IDL implies ([MS-MQRR] appendix A), in both syntaxes."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.protocols.remote_read.stubs import (
    METHODS,
    REMOTE_READ,
    CloseQueue,
    PurgeQueue,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tests.protocols.remote_read.stub_vectors import HANDLE, REQUESTS, RESPONSES


@pytest.mark.spec(
    "RPC/1",
    "RPC/2",
    "RPC/5",
    "RPC/6",
    "RPC/7",
    "RPC/8",
    "MS-MQRR 2.2.2/1",
    "MS-MQRR 2.2.3/1",
    "MS-MQRR 2.2.8/1",
)
@pytest.mark.parametrize(("opnum", "ndr64", "value", "text"), REQUESTS)
def test_a_request_is_laid_out_as_the_idl_implies(
    opnum: int, ndr64: bool, value: Any, text: str
) -> None:
    stub = bytes.fromhex(text)
    assert encode_request(opnum, value, ndr64) == stub
    assert decode_request(opnum, stub, ndr64) == value


@pytest.mark.spec(
    "RPC/3",
    "RPC/4",
    "RPC/7",
    "RPC/9",
    "MS-MQRR 2.2.1/1",
    "MS-MQRR 2.2.6/8",
    "MS-MQRR 2.2.7/1",
)
@pytest.mark.parametrize(("opnum", "ndr64", "value", "text"), RESPONSES)
def test_a_response_is_laid_out_as_the_idl_implies(
    opnum: int, ndr64: bool, value: Any, text: str
) -> None:
    stub = bytes.fromhex(text)
    assert encode_response(opnum, value, ndr64) == stub
    assert decode_response(opnum, stub, ndr64) == value


@pytest.mark.spec("MS-MQRR 3.1.4/3", "MS-MQRR 3.1.4/4")
def test_every_opnum_has_its_method() -> None:
    assert {opnum: method.name for opnum, method in METHODS.items()} == {
        0: "R_GetServerPort",
        2: "R_OpenQueue",
        3: "R_CloseQueue",
        4: "R_CreateCursor",
        5: "R_CloseCursor",
        6: "R_PurgeQueue",
        7: "R_StartReceive",
        8: "R_CancelReceive",
        9: "R_EndReceive",
        10: "R_MoveMessage",
        11: "R_OpenQueueForMove",
        12: "R_QMEnlistRemoteTransaction",
        13: "R_StartTransactionalReceive",
        14: "R_SetUserAcknowledgementClass",
        15: "R_EndTransactionalReceive",
    }
    assert {opnum for opnum, *_ in REQUESTS} == {opnum for opnum, *_ in RESPONSES} == set(METHODS)


def test_the_interface_has_the_name_of_the_document() -> None:
    assert REMOTE_READ.uuid.hex() == "dd34911a397bba45ad8844d01ca47f28"
    assert (REMOTE_READ.major, REMOTE_READ.minor) == (1, 0)


@pytest.mark.spec("MS-MQRR 2.2.4/3")
def test_a_handle_of_either_type_has_the_same_bytes() -> None:
    """R_OpenQueue gives out the serialized type, R_PurgeQueue takes the other."""
    opened = decode_response(2, HANDLE).handle
    assert encode_request(6, PurgeQueue(opened)) == encode_request(3, CloseQueue(opened)) == HANDLE
