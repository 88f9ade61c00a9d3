"""The methods of RemoteRead as impacket has them, written from appendix A and nothing of ours.

`call(dce, opnum, **parameters)` makes one call and gives impacket's view of the answer.
"""

from __future__ import annotations

from typing import Any

from impacket.dcerpc.v5.dtypes import DWORD, GUID, LONG, LPBYTE, LPWSTR, UCHAR, ULONGLONG, USHORT
from impacket.dcerpc.v5.enum import Enum
from impacket.dcerpc.v5.ndr import (
    NDRCALL,
    NDRENUM,
    NDRPOINTER,
    NDRSTRUCT,
    NDRUNION,
    NDRUniConformantArray,
)
from impacket.uuid import uuidtup_to_bin

MSRPC_UUID_REMOTE_READ = uuidtup_to_bin(("1a9134dd-7b39-45ba-ad88-44d01ca47f28", "1.0"))
NULL_HANDLE = bytes(20)


class ContextHandle(NDRSTRUCT):  # type: ignore[misc]
    structure = (("Data", '20s=b""'),)

    def getAlignment(self) -> int:
        return 4


class XactUow(NDRSTRUCT):  # type: ignore[misc]
    structure = (("Data", '16s=b""'),)

    def getAlignment(self) -> int:
        return 1


class ObjectId(NDRSTRUCT):  # type: ignore[misc]
    structure = (("Lineage", GUID), ("Uniquifier", DWORD))


class QueueName(NDRUNION):  # type: ignore[misc]
    commonHdr = (("tag", UCHAR),)
    union = {  # noqa: RUF012
        1: ("gPublicID", GUID),
        2: ("oPrivateID", ObjectId),
        3: ("pDirectID", LPWSTR),
        4: ("gMachineID", GUID),
        8: ("pDirectSubqueueID", LPWSTR),
    }


class QueueFormat(NDRSTRUCT):  # type: ignore[misc]
    structure = (
        ("m_qft", UCHAR),
        ("m_SuffixAndFlags", UCHAR),
        ("m_reserved", USHORT),
        ("name", QueueName),
    )


class SectionType(NDRENUM):  # type: ignore[misc]
    class enumItems(Enum):  # type: ignore[misc]
        stFullPacket = 0
        stBinaryFirstSection = 1
        stBinarySecondSection = 2
        stSrmpFirstSection = 3
        stSrmpSecondSection = 4


class SectionBuffer(NDRSTRUCT):  # type: ignore[misc]
    structure = (
        ("SectionBufferType", SectionType),
        ("SectionSizeAlloc", DWORD),
        ("SectionSize", DWORD),
        ("pSectionBuffer", LPBYTE),
    )


class Sections(NDRUniConformantArray):  # type: ignore[misc]
    item = SectionBuffer


class PacketSections(NDRPOINTER):  # type: ignore[misc]
    referent = (("Data", Sections),)


class Token(NDRUniConformantArray):  # type: ignore[misc]
    item = "c"


HANDLE = ("phContext", ContextHandle)
RESULT = ("ErrorCode", DWORD)
OPENING = (
    ("pQueueFormat", QueueFormat),
    ("dwAccess", DWORD),
    ("dwShareMode", DWORD),
    ("pClientId", GUID),
    ("fNonRoutingServer", LONG),
    ("Major", UCHAR),
    ("Minor", UCHAR),
    ("BuildNumber", USHORT),
    ("fWorkgroup", LONG),
)
READING = (
    HANDLE,
    ("LookupId", ULONGLONG),
    ("hCursor", DWORD),
    ("ulAction", DWORD),
    ("ulTimeout", DWORD),
    ("dwRequestId", DWORD),
    ("dwMaxBodySize", DWORD),
    ("dwMaxCompoundMessageSize", DWORD),
)
MESSAGE = (
    ("pdwArriveTime", DWORD),
    ("pSequenceId", ULONGLONG),
    ("pdwNumberOfSections", DWORD),
    ("ppPacketSections", PacketSections),
    RESULT,
)
ENDING = (HANDLE, ("dwAck", DWORD), ("dwRequestId", DWORD))

# By opnum: the request's parameters, and the answer's with the return value behind them.
METHODS: dict[int, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    0: ((), (("Port", DWORD),)),
    2: (OPENING, (("pphContext", ContextHandle),)),
    3: ((HANDLE,), (("pphContext", ContextHandle), RESULT)),
    4: ((HANDLE,), (("phCursor", DWORD), RESULT)),
    5: ((HANDLE, ("hCursor", DWORD)), (RESULT,)),
    6: ((HANDLE,), (RESULT,)),
    7: (READING, MESSAGE),
    8: ((HANDLE, ("dwRequestId", DWORD)), (RESULT,)),
    9: (ENDING, (RESULT,)),
    10: (
        (HANDLE, ("ullContextTo", ULONGLONG), ("LookupId", ULONGLONG), ("TransactionId", XactUow)),
        (RESULT,),
    ),
    11: (OPENING, (("pMoveContext", ULONGLONG), ("pphContext", ContextHandle))),
    12: (
        (
            ("TransactionId", XactUow),
            ("cbPropagationToken", DWORD),
            ("pbPropagationToken", Token),
            ("pQueueFormat", QueueFormat),
        ),
        (RESULT,),
    ),
    13: ((*READING, ("TransactionId", XactUow)), MESSAGE),
    14: ((HANDLE, ("LookupId", ULONGLONG), ("usClass", USHORT)), (RESULT,)),
    15: (ENDING, (RESULT,)),
}


def _classes(number: int, parameters: tuple[Any, ...], answer: tuple[Any, ...]) -> tuple[Any, Any]:
    request = type(f"Opnum{number}", (NDRCALL,), {"opnum": number, "structure": parameters})
    response = type(f"Opnum{number}Response", (NDRCALL,), {"structure": answer})
    return request, response


CLASSES = {number: _classes(number, *method) for number, method in METHODS.items()}


def request_of(opnum: int, **parameters: Any) -> Any:
    """The NDRCALL; a `name` of QUEUE_FORMAT type and value becomes the queue format."""
    request = CLASSES[opnum][0]()
    if "name" in parameters:
        _set_name(request["pQueueFormat"], *parameters.pop("name"))
    for name, value in parameters.items():
        request[name] = value
    return request


def _set_name(queue_format: Any, kind: int, value: Any) -> None:
    queue_format["m_qft"] = kind
    queue_format["m_SuffixAndFlags"] = 3 if kind == 8 else 0
    union = queue_format["name"]
    union["tag"] = kind
    if kind == 2:
        union["oPrivateID"]["Lineage"], union["oPrivateID"]["Uniquifier"] = value
    elif kind in (3, 8):
        union[QueueName.union[kind][0]] = value + "\0"
    else:
        union[QueueName.union[kind][0]] = value


def response_of(opnum: int, stub: bytes) -> Any:
    """impacket's view of a response."""
    return CLASSES[opnum][1](stub)


def call(dce: Any, opnum: int, **parameters: Any) -> Any:
    """One call on a connection that is bound."""
    dce.call(opnum, request_of(opnum, **parameters))
    return response_of(opnum, dce.recv())


def sections(response: Any) -> list[tuple[int, int, bytes]]:
    """Type, SectionSizeAlloc and bytes of each section."""
    found = response["ppPacketSections"] if response["pdwNumberOfSections"] else []
    return [
        (each["SectionBufferType"], each["SectionSizeAlloc"], b"".join(each["pSectionBuffer"]))
        for each in found
    ]
