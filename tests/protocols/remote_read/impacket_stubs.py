"""The methods of RemoteRead declared once more, as impacket wants it: another reader of the IDL.

impacket takes an NDRCALL `R_Name` to be answered by `R_NameResponse` of the same module, so a
client of impacket can call a server with these. Padding is written as bytes that are not zero.
"""

from __future__ import annotations

from typing import ClassVar

from impacket.dcerpc.v5.dtypes import GUID, LPWSTR, ULONGLONG
from impacket.dcerpc.v5.enum import Enum
from impacket.dcerpc.v5.ndr import (
    NDRCALL,
    NDRENUM,
    NDRLONG,
    NDRPOINTER,
    NDRSTRUCT,
    NDRULONG,
    NDRUNION,
    NDRUSHORT,
    NDRUSMALL,
    NDRUniConformantArray,
)
from impacket.uuid import uuidtup_to_bin

MSRPC_UUID_REMOTE_READ = uuidtup_to_bin(("1A9134DD-7B39-45BA-AD88-44D01CA47F28", "1.0"))


class QUEUE_CONTEXT_HANDLE(NDRSTRUCT):
    structure = (("Data", '20s=b""'),)

    def getAlignment(self) -> int:
        return 4


class XACTUOW(NDRSTRUCT):
    structure = (("Data", '16s=b""'),)

    def getAlignment(self) -> int:
        return 1


class OBJECTID(NDRSTRUCT):
    structure = (("Lineage", GUID), ("Uniquifier", NDRULONG))


class DL_ID(NDRSTRUCT):
    structure = (("m_DlGuid", GUID), ("m_pwzDomain", LPWSTR))


class MULTICAST_ID(NDRSTRUCT):
    structure = (("m_address", NDRULONG), ("m_port", NDRULONG))


class QUEUE_FORMAT_UNION(NDRUNION):
    commonHdr = (("tag", NDRUSMALL),)
    commonHdr64 = (("tag", NDRUSMALL),)
    union: ClassVar = {
        1: ("m_gPublicID", GUID),
        2: ("m_oPrivateID", OBJECTID),
        3: ("m_pDirectID", LPWSTR),
        4: ("m_gMachineID", GUID),
        5: ("m_GConnectorID", GUID),
        6: ("m_DlID", DL_ID),
        7: ("m_MulticastID", MULTICAST_ID),
        8: ("m_pDirectSubqueueID", LPWSTR),
    }


class QUEUE_FORMAT(NDRSTRUCT):
    structure = (
        ("m_qft", NDRUSMALL),
        ("m_SuffixAndFlags", NDRUSMALL),
        ("m_reserved", NDRUSHORT),
        ("union", QUEUE_FORMAT_UNION),
    )

    def getAlignment(self) -> int:
        # impacket counts neither arms nor pointers that are not set yet.
        return 8 if self._isNDR64 else 4


class SectionType(NDRENUM):
    class enumItems(Enum):
        stFullPacket = 0
        stBinaryFirstSection = 1
        stBinarySecondSection = 2
        stSrmpFirstSection = 3
        stSrmpSecondSection = 4


class BYTES(NDRUniConformantArray):
    item = "c"


class PBYTES(NDRPOINTER):
    referent = (("Data", BYTES),)


class SectionBuffer(NDRSTRUCT):
    structure = (
        ("SectionBufferType", SectionType),
        ("SectionSizeAlloc", NDRULONG),
        ("SectionSize", NDRULONG),
        ("pSectionBuffer", PBYTES),
    )


class SectionBuffers(NDRUniConformantArray):
    item = SectionBuffer


class PSectionBuffers(NDRPOINTER):
    referent = (("Data", SectionBuffers),)


HANDLE = ("phContext", QUEUE_CONTEXT_HANDLE)
RESULT = ("ErrorCode", NDRULONG)
OPENING = (
    ("pQueueFormat", QUEUE_FORMAT),
    ("dwAccess", NDRULONG),
    ("dwShareMode", NDRULONG),
    ("pClientId", GUID),
    ("fNonRoutingServer", NDRLONG),
    ("Major", NDRUSMALL),
    ("Minor", NDRUSMALL),
    ("BuildNumber", NDRUSHORT),
    ("fWorkgroup", NDRLONG),
)
STARTING = (
    HANDLE,
    ("LookupId", ULONGLONG),
    ("hCursor", NDRULONG),
    ("ulAction", NDRULONG),
    ("ulTimeout", NDRULONG),
    ("dwRequestId", NDRULONG),
    ("dwMaxBodySize", NDRULONG),
    ("dwMaxCompoundMessageSize", NDRULONG),
)
STARTED = (
    ("pdwArriveTime", NDRULONG),
    ("pSequenceId", ULONGLONG),
    ("pdwNumberOfSections", NDRULONG),
    ("ppPacketSections", PSectionBuffers),
    RESULT,
)


class R_GetServerPort(NDRCALL):
    opnum = 0
    structure = ()


class R_GetServerPortResponse(NDRCALL):
    structure = (("ReturnValue", NDRULONG),)


class R_OpenQueue(NDRCALL):
    opnum = 2
    structure = OPENING


class R_OpenQueueResponse(NDRCALL):
    structure = (("pphContext", QUEUE_CONTEXT_HANDLE),)


class R_CloseQueue(NDRCALL):
    opnum = 3
    structure = (("pphContext", QUEUE_CONTEXT_HANDLE),)


class R_CloseQueueResponse(NDRCALL):
    structure = (("pphContext", QUEUE_CONTEXT_HANDLE), RESULT)


class R_CreateCursor(NDRCALL):
    opnum = 4
    structure = (HANDLE,)


class R_CreateCursorResponse(NDRCALL):
    structure = (("phCursor", NDRULONG), RESULT)


class R_CloseCursor(NDRCALL):
    opnum = 5
    structure = (HANDLE, ("hCursor", NDRULONG))


class R_CloseCursorResponse(NDRCALL):
    structure = (RESULT,)


class R_PurgeQueue(NDRCALL):
    opnum = 6
    structure = (HANDLE,)


class R_PurgeQueueResponse(NDRCALL):
    structure = (RESULT,)


class R_StartReceive(NDRCALL):
    opnum = 7
    structure = STARTING


class R_StartReceiveResponse(NDRCALL):
    structure = STARTED


class R_CancelReceive(NDRCALL):
    opnum = 8
    structure = (HANDLE, ("dwRequestId", NDRULONG))


class R_CancelReceiveResponse(NDRCALL):
    structure = (RESULT,)


class R_EndReceive(NDRCALL):
    opnum = 9
    structure = (HANDLE, ("dwAck", NDRULONG), ("dwRequestId", NDRULONG))


class R_EndReceiveResponse(NDRCALL):
    structure = (RESULT,)


class R_MoveMessage(NDRCALL):
    opnum = 10
    structure = (
        ("phContextFrom", QUEUE_CONTEXT_HANDLE),
        ("ullContextTo", ULONGLONG),
        ("LookupId", ULONGLONG),
        ("pTransactionId", XACTUOW),
    )


class R_MoveMessageResponse(NDRCALL):
    structure = (RESULT,)


class R_OpenQueueForMove(NDRCALL):
    opnum = 11
    structure = OPENING


class R_OpenQueueForMoveResponse(NDRCALL):
    structure = (("pMoveContext", ULONGLONG), ("pphContext", QUEUE_CONTEXT_HANDLE))


class R_QMEnlistRemoteTransaction(NDRCALL):
    opnum = 12
    structure = (
        ("pTransactionId", XACTUOW),
        ("cbPropagationToken", NDRULONG),
        ("pbPropagationToken", BYTES),
        ("pQueueFormat", QUEUE_FORMAT),
    )


class R_QMEnlistRemoteTransactionResponse(NDRCALL):
    structure = (RESULT,)


class R_StartTransactionalReceive(NDRCALL):
    opnum = 13
    structure = (*STARTING, ("pTransactionId", XACTUOW))


class R_StartTransactionalReceiveResponse(NDRCALL):
    structure = STARTED


class R_SetUserAcknowledgementClass(NDRCALL):
    opnum = 14
    structure = (HANDLE, ("LookupId", ULONGLONG), ("usClass", NDRUSHORT))


class R_SetUserAcknowledgementClassResponse(NDRCALL):
    structure = (RESULT,)


class R_EndTransactionalReceive(NDRCALL):
    opnum = 15
    structure = (HANDLE, ("dwAck", NDRULONG), ("dwRequestId", NDRULONG))


class R_EndTransactionalReceiveResponse(NDRCALL):
    structure = (RESULT,)
