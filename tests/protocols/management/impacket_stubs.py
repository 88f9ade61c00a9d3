"""The methods of qmmgmt declared once more, as impacket wants it: another reader of the IDL."""

from __future__ import annotations

from typing import Any, ClassVar

from impacket.dcerpc.v5.dtypes import GUID, LPWSTR, WSTR
from impacket.dcerpc.v5.enum import Enum
from impacket.dcerpc.v5.ndr import (
    NDRCALL,
    NDRENUM,
    NDRHYPER,
    NDRLONG,
    NDRPOINTER,
    NDRSTRUCT,
    NDRUHYPER,
    NDRULONG,
    NDRUNION,
    NDRUSHORT,
    NDRUSMALL,
    NDRUniConformantArray,
)
from impacket.uuid import uuidtup_to_bin

from tests.protocols.remote_read.impacket_stubs import QUEUE_FORMAT

MSRPC_UUID_QMMGMT = uuidtup_to_bin(("41208EE0-E970-11D1-9B9E-00E02C064C39", "1.0"))
NULL, I4, UI4, I8, LPWSTR_TYPE, BLOB, VARIANT = 1, 3, 19, 20, 31, 65, 12
VECTOR, UI8, CLSID = 0x1000, 21, 72


class MgmtObjectType(NDRENUM):
    class enumItems(Enum):
        MGMT_MACHINE = 1
        MGMT_QUEUE = 2
        MGMT_SESSION = 3


class PQUEUE_FORMAT(NDRPOINTER):
    referent = (("Data", QUEUE_FORMAT),)


class MGMT_UNION(NDRUNION):
    union: ClassVar = {
        1: ("Reserved1", NDRULONG),
        2: ("pQueueFormat", PQUEUE_FORMAT),
        3: ("Reserved2", NDRULONG),
    }

    def getAlignment(self) -> int:
        return 8 if self._isNDR64 else 2


class MGMT_OBJECT(NDRSTRUCT):
    structure = (("type", MgmtObjectType), ("union", MGMT_UNION))

    def getAlignment(self) -> int:
        return 8 if self._isNDR64 else 4


def counted(name: str, element: Any) -> type[NDRSTRUCT]:
    """A counted array of [MS-MQMQ] 2.2.16."""
    array = type(f"{name}_ARRAY", (NDRUniConformantArray,), {"item": element})
    pointer = type(f"P{name}", (NDRPOINTER,), {"referent": (("Data", array),)})
    fields = {"structure": (("cElems", NDRULONG), ("pElems", pointer))}
    return type(name, (NDRSTRUCT,), fields)


class PGUID(NDRPOINTER):
    referent = (("Data", GUID),)


class PROPVARIANT_UNION(NDRUNION):
    commonHdr = (("tag", NDRUSHORT),)
    commonHdr64 = (("tag", NDRUSHORT),)
    union: ClassVar[dict[Any, Any]] = {
        I4: ("lVal", NDRLONG),
        UI4: ("ulVal", NDRULONG),
        I8: ("hVal", NDRHYPER),
        LPWSTR_TYPE: ("pwszVal", LPWSTR),
        CLSID: ("puuid", PGUID),
        BLOB: ("blob", counted("BLOB", "c")),
        VECTOR | I4: ("cal", counted("CAL", NDRLONG)),
        VECTOR | UI4: ("caul", counted("CAUL", NDRULONG)),
        VECTOR | UI8: ("cauh", counted("CAUH", NDRUHYPER)),
        VECTOR | CLSID: ("cauuid", counted("CACLSID", GUID)),
        VECTOR | LPWSTR_TYPE: ("calpwstr", counted("CALPWSTR", LPWSTR)),
        "default": None,
    }
    notAlign = True

    def getAlignment(self) -> int:
        return 2


class PROPVARIANT(NDRSTRUCT):
    structure = (
        ("vt", NDRUSHORT),
        ("wReserved1", NDRUSMALL),
        ("wReserved2", NDRUSMALL),
        ("wReserved3", NDRULONG),
        ("_varUnion", PROPVARIANT_UNION),
    )

    def getAlignment(self) -> int:
        return 8


PROPVARIANT_UNION.union[VECTOR | VARIANT] = ("capropvar", counted("CAPROPVARIANT", PROPVARIANT))


class PROPIDS(NDRUniConformantArray):
    item = "<L"


class PROPVARIANTS(NDRUniConformantArray):
    item = PROPVARIANT

    def getData(self, soFar: int = 0) -> Any:
        # impacket forgets the count in front of an array that is a parameter.
        return super().getData(soFar + (8 if self._isNDR64 else 4))


class R_QMMgmtGetInfo(NDRCALL):
    opnum = 0
    structure = (
        ("pObjectFormat", MGMT_OBJECT),
        ("cp", NDRULONG),
        ("aProp", PROPIDS),
        ("apVar", PROPVARIANTS),
    )


class R_QMMgmtGetInfoResponse(NDRCALL):
    structure = (("apVar", PROPVARIANTS), ("ErrorCode", NDRULONG))


class R_QMMgmtAction(NDRCALL):
    opnum = 1
    structure = (("pObjectFormat", MGMT_OBJECT), ("lpwszAction", WSTR))


class R_QMMgmtActionResponse(NDRCALL):
    structure = (("ErrorCode", NDRULONG),)


def value_of(variant: Any) -> Any:
    """What a PROPVARIANT holds: a number, a text, bytes, a list, or None."""
    vt, union = variant["vt"], variant["_varUnion"]
    if vt not in PROPVARIANT_UNION.union:
        return None
    value = union[PROPVARIANT_UNION.union[vt][0]]
    if vt == LPWSTR_TYPE:
        return value[:-1]
    if vt & VECTOR == 0 and vt != BLOB:
        return value
    elements = value["pElems"] or []
    if vt == BLOB:
        return b"".join(elements)
    if vt == VECTOR | VARIANT:
        return [value_of(one) for one in elements]
    if vt == VECTOR | LPWSTR_TYPE:
        return [str(one["Data"])[:-1] for one in elements]
    return [one["Data"] if hasattr(one, "fields") else one for one in elements]


def asked(propids: list[int], *, ndr64: bool = False) -> R_QMMgmtGetInfo:
    """The request for some properties; whose they are is still to be said."""
    request = R_QMMgmtGetInfo(isNDR64=ndr64)
    request["cp"] = len(propids)
    for propid in propids:
        place = PROPVARIANT(isNDR64=ndr64)
        place["vt"] = NULL
        place["_varUnion"].fields["tag"]["Data"] = NULL
        request["aProp"].append(propid)
        request["apVar"].append(place)
    return request


def set_machine(request: Any) -> Any:
    """The request is for the machine."""
    target = request["pObjectFormat"]
    target["type"] = target["union"]["tag"] = 1
    target["union"]["Reserved1"] = 0xA5A5
    return request


def set_queue(request: Any, direct_name: str, *, ndr64: bool = False) -> Any:
    """The request is for the queue with a direct name."""
    name = QUEUE_FORMAT(isNDR64=ndr64)
    name["m_qft"] = name["union"]["tag"] = 3
    name["union"]["m_pDirectID"] = f"{direct_name}\0"
    target = request["pObjectFormat"]
    target["type"] = target["union"]["tag"] = 2
    target["union"]["pQueueFormat"] = name
    return request
