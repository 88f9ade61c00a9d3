"""Fuzz target: any bytes are the stub of a method of management, or a fault."""

from typing import Any

from posthouse.model.errors import InvalidParameter
from posthouse.protocols.management.stubs import (
    MACHINE,
    METHODS,
    ActionResult,
    Asked,
    GetProperties,
    ManagedObject,
    ManagementAction,
    ManagementOpnum,
    PropertyValues,
)
from posthouse.protocols.queue_format import QueueFormat, any_name_of, queue_format_of
from posthouse.rpc.ndr import BadStub, Stub
from posthouse.rpc.propvariant import Variant

GUID = bytes(range(16))
QUEUE = ManagedObject(2, QueueFormat(3, 0, "OS:host\\private$\\q"))
TEXTS = Variant(0x101F, ("a", None, "bc"))
VALUES = (
    TEXTS,
    Variant(0x1F, "text"),
    Variant(0x13, 7),
    Variant(0x14, -2),
    Variant(11, True),
    Variant(0x48, GUID),
    Variant(0x41, b"blob"),
    Variant(0x100C, (Variant(0x1013, (1, 2)), Variant(0x1048, (GUID,)), Variant(0x100C, (TEXTS,)))),
)
REQUESTS: list[tuple[int, Any]] = [
    (0, GetProperties(MACHINE, (Asked(1), Asked(6)))),
    (0, GetProperties(QUEUE, tuple([Asked(n, value) for n, value in enumerate(VALUES)]))),
    (0, GetProperties(ManagedObject(2), (Asked(7),))),
    (0, GetProperties(ManagedObject(3), (Asked(7),))),
    (1, ManagementAction(QUEUE, "PAUSE")),
    (1, ManagementAction(MACHINE, "TIDY")),
]
RESPONSES: list[tuple[int, Any]] = [
    (0, PropertyValues(VALUES, 0)),
    (0, PropertyValues((Variant(1),), 0xC00E0025)),
    (1, ActionResult(0)),
]
# The first byte of an input selects the stub: the opnum, and in the high bits syntax and side.
NDR64, RESPONSE = 0x40, 0x80


def stub_of(which: int) -> Stub[Any]:
    """The stub that the first byte of an input stands for."""
    method = METHODS[ManagementOpnum(which & 1)]
    return method.response if which & RESPONSE else method.request


SEEDS = [
    bytes([opnum | wide | side]) + stub_of(opnum | side).encode(value, ndr64=bool(wide))
    for side, values in ((0, REQUESTS), (RESPONSE, RESPONSES))
    for opnum, value in values
    for wide in (0, NDR64)
]


def fuzz_one(data: bytes) -> bool:
    """What was read is written and read again as the same; its name can be passed on."""
    if not data or data[0] & 0x3E:
        return False
    stub, ndr64 = stub_of(data[0]), bool(data[0] & NDR64)
    try:
        value = stub.decode(data[1:], ndr64=ndr64)
    except BadStub:
        return False
    assert stub.decode(stub.encode(value, ndr64=ndr64), ndr64=ndr64) == value
    check_name(getattr(value, "object", MACHINE))
    return True


def check_name(value: ManagedObject) -> None:
    """A name that is taken can be passed on."""
    if value.queue is not None:
        try:
            name = any_name_of(value.queue)
        except InvalidParameter:
            return
        assert any_name_of(queue_format_of(name)) == name
