"""Fuzz target: any bytes are the stub of a method of remote read, or a fault."""

from typing import Any

from posthouse.model.errors import InvalidParameter
from posthouse.protocols.queue_format import (
    DlId,
    MulticastId,
    ObjectId,
    name_of,
    queue_format_of,
)
from posthouse.protocols.remote_read.stubs import (
    METHODS,
    EndReceive,
    EnlistRemoteTransaction,
    MoveMessage,
    OpenQueueRequest,
    QueueFormat,
    Received,
    Section,
    StartReceive,
    not_received,
)
from posthouse.rpc.ndr import BadStub, Stub

GUID, HANDLE = bytes(range(16)), bytes(range(20))
NAMES = [
    QueueFormat(0),
    QueueFormat(1, 0x81, GUID),
    QueueFormat(2, 0, ObjectId(GUID, 13)),
    QueueFormat(3, 0, "OS:host\\private$\\q"),
    QueueFormat(3, 0x82, "TCP:10.0.0.1\\system$;deadletter"),
    QueueFormat(4, 0x83, GUID),
    QueueFormat(6, 0, DlId(GUID, "example.com")),
    QueueFormat(7, 0, MulticastId(0xE0000001, 1801)),
    QueueFormat(8, 5, "OS:host\\private$\\q;sub"),
]
REQUESTS = [
    *((2, OpenQueueRequest(name, 1, 0, GUID, 1, 6, 1, 0, 0)) for name in NAMES),
    (7, StartReceive(HANDLE, 1, 2, 3, 4, 5, 6, 7)),
    (9, EndReceive(HANDLE, 2, 1)),
    (10, MoveMessage(HANDLE, 1, 2, GUID)),
    *((12, EnlistRemoteTransaction(GUID, b"token", name)) for name in NAMES[:4]),
]
RESPONSES = [
    (7, Received(1, 2, (Section(0, 8, b"a packet"),), 0)),
    (7, Received(1, 2, (Section(1, 99, b"begins"), Section(2, 4, b"ends")), 0)),
    (7, not_received(0xC00E001B)),
]
# The first byte of an input selects the stub: the opnum, and in the high bits syntax and side.
NDR64, RESPONSE = 0x40, 0x80
SEEDS = [
    bytes([opnum | wide]) + METHODS[opnum].request.encode(value, ndr64=bool(wide))
    for opnum, value in REQUESTS
    for wide in (0, NDR64)
]
SEEDS += [
    bytes([opnum | wide | RESPONSE]) + METHODS[opnum].response.encode(value, ndr64=bool(wide))
    for opnum, value in RESPONSES
    for wide in (0, NDR64)
]


def fuzz_one(data: bytes) -> bool:
    """What was read is written and read again as the same; the quick way agrees with the long."""
    if not data or data[0] & 0x3F not in METHODS:
        return False
    which, method = data[0], METHODS[data[0] & 0x3F]
    stub = method.response if which & RESPONSE else method.request
    ndr64 = bool(which & NDR64)
    value = read(stub, data[1:], ndr64=ndr64)
    assert value == read(Stub(stub.parameters, stub.parts), data[1:], ndr64=ndr64)
    if value is None:
        return False
    assert stub.decode(stub.encode(value, ndr64=ndr64), ndr64=ndr64) == value
    check_name(getattr(value, "queue_format", None))
    return True


def read(stub: Stub[Any], data: bytes, *, ndr64: bool) -> Any:
    """The value, or None for a fault."""
    try:
        return stub.decode(data, ndr64=ndr64)
    except BadStub:
        return None


def check_name(value: QueueFormat | None) -> None:
    """A name that is taken can be passed on."""
    if value is not None:
        try:
            name = name_of(value)
        except InvalidParameter:
            return
        assert name_of(queue_format_of(name)) == name
