"""impacket reads what we write and writes what we read, for both methods of qmmgmt."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.protocols.management.stubs import (
    MACHINE,
    METHODS,
    Asked,
    GetProperties,
    ManagementAction,
    ManagementOpnum,
    PropertyValues,
)
from posthouse.rpc.propvariant import Variant
from tests.protocols.management import impacket_stubs as stubs
from tests.protocols.management.vectors import QUEUE, VALUES

GET_INFO, ACTION = METHODS[ManagementOpnum.GET_INFO], METHODS[ManagementOpnum.ACTION]
BOTH = pytest.mark.parametrize("ndr64", [False, True], ids=["NDR", "NDR64"])
PLAIN: list[Any] = [
    ["a", "bc"],
    "x",
    7,
    -2,
    None,
    b"\x01\x02\x03",
    [[1, 2], [bytes(range(16))]],
]


@pytest.mark.spec("MS-MQMR PROPVARIANT/1", "MS-MQMR PROPVARIANT/2", "MS-MQMR PROPVARIANT/3")
@pytest.mark.spec("MS-MQMR PROPVARIANT/4")
@BOTH
@pytest.mark.parametrize("first", range(len(VALUES)))
def test_impacket_understands_every_value(first: int, ndr64: bool) -> None:
    """Each value in turn stands first, so that it is aligned by itself."""
    order = [*range(first, len(VALUES)), *range(first)]
    stub = GET_INFO.response.encode(
        PropertyValues(tuple([VALUES[at] for at in order]), 0xC00E0025), ndr64=ndr64
    )
    found = stubs.R_QMMgmtGetInfoResponse(stub, isNDR64=ndr64)
    assert [stubs.value_of(one) for one in found["apVar"]] == [PLAIN[at] for at in order]
    assert found["ErrorCode"] == 0xC00E0025


@pytest.mark.spec("MS-MQMR 2.2.1.2/1", "MS-MQMR 2.2.1.2/3", "MS-MQMR 2.2.1.2/4")
@pytest.mark.parametrize("count", [1, 2, 3, 128])
def test_what_impacket_asks_of_a_machine_is_understood(count: int) -> None:
    """In NDR: impacket's NDR64 has no gap at the end of a structure."""
    stub = stubs.set_machine(stubs.asked([*range(1, count + 1)])).getData()
    expected = GetProperties(MACHINE, tuple([Asked(one) for one in range(1, count + 1)]))
    assert GET_INFO.request.decode(stub) == expected
    assert len(stub) == len(GET_INFO.request.encode(expected))


@pytest.mark.spec("MS-MQMR 2.2.1.2/3")
@BOTH
def test_what_impacket_asks_of_a_queue_is_understood(ndr64: bool) -> None:
    request = stubs.set_queue(stubs.asked([7, 26], ndr64=ndr64), "OS:h\\q", ndr64=ndr64)
    expected = GetProperties(QUEUE, (Asked(7), Asked(26, Variant(1))))
    assert GET_INFO.request.decode(request.getData(), ndr64=ndr64) == expected


@BOTH
def test_actions_of_impacket_are_understood(ndr64: bool) -> None:
    request = stubs.set_queue(stubs.R_QMMgmtAction(isNDR64=ndr64), "OS:h\\q", ndr64=ndr64)
    request["lpwszAction"] = "EOD_RESEND\0"
    expected = ManagementAction(QUEUE, "EOD_RESEND")
    assert ACTION.request.decode(request.getData(), ndr64=ndr64) == expected
