"""QUEUE_FORMAT: the name of a queue as a parameter of RPC methods ([MS-MQMQ] 2.2.7).

Two steps, because they fail differently: bytes that are not a QUEUE_FORMAT are `BadStub`; one that
an interface does not take, or that names nothing, is MQ_ERROR_INVALID_PARAMETER of the method.
"""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Annotated, Final, NamedTuple, TypeAlias

from posthouse.model.errors import IllegalFormatName, InvalidParameter
from posthouse.model.names import (
    READ_ONLY_SUFFIXES,
    ConnectorName,
    DirectName,
    DistributionListName,
    FormatName,
    FormatType,
    MachineName,
    MulticastName,
    MultipleName,
    PrivateName,
    Protocol,
    PublicName,
    SingleName,
    Suffix,
    direct_from_wire,
)
from posthouse.rpc.ndr import BadStub, Reader, Writer

SYSTEM_QUEUE = 0x80
"""The flag of journals and dead-letter queues in the high half of m_SuffixAndFlags."""

PROTOCOLS = frozenset({Protocol.TCP, Protocol.OS})
"""The address kinds of direct names that remote read takes ([MS-MQRR] 2.2.3)."""


class ObjectId(NamedTuple):
    """OBJECTID, [MS-MQMQ] 2.2.8."""

    lineage: bytes
    uniquifier: int


class DlId(NamedTuple):
    """DL_ID, [MS-MQMQ] 2.2.9."""

    guid: bytes
    domain: str | None


class MulticastId(NamedTuple):
    """MULTICAST_ID, [MS-MQMQ] 2.2.10."""

    address: int
    port: int


Arm: TypeAlias = bytes | str | ObjectId | DlId | MulticastId | None
"""By type: a GUID, the text after `DIRECT=`, one of the three above; None: no arm, NULL text."""

ReadableName: TypeAlias = PublicName | PrivateName | DirectName | MachineName


class QueueFormat(NamedTuple):
    """QUEUE_FORMAT as it was sent; `m_reserved` is written as zero and read over."""

    type: int  # m_qft, and the tag of the union
    suffix_and_flags: int = 0
    arm: Arm = None


_GUIDS = frozenset({FormatType.PUBLIC, FormatType.MACHINE, FormatType.CONNECTOR})
_TEXTS = frozenset({FormatType.DIRECT, FormatType.SUBQUEUE})
_BY_GUID: Final[dict[int, type[PublicName | MachineName | ConnectorName]]] = {
    FormatType.PUBLIC: PublicName,
    FormatType.MACHINE: MachineName,
    FormatType.CONNECTOR: ConnectorName,
}


class QueueFormatPart:
    """QUEUE_FORMAT by reference pointer: encoded as the structure alone ([MS-MQMQ] 2.2.7)."""

    def read(self, reader: Reader) -> QueueFormat:
        """The structure, then the text it points to."""
        reader.align(8 if reader.ndr64 else 4)
        kind, suffix_and_flags, _ = reader.u8(), reader.u8(), reader.u16()
        reader.align(8 if reader.ndr64 else 4)
        tag = reader.u8()
        if tag != kind or kind > FormatType.SUBQUEUE:
            raise BadStub(f"a queue format of type {kind} with a union of {tag}")
        return QueueFormat(kind, suffix_and_flags, _read_arm(reader, kind))

    def write(self, writer: Writer, value: QueueFormat) -> None:
        """The structure, then the text it points to."""
        writer.align(8 if writer.ndr64 else 4)
        writer.u8(value.type)
        writer.u8(value.suffix_and_flags)
        writer.u16(0)
        writer.align(8 if writer.ndr64 else 4)
        writer.u8(value.type)
        _write_arm(writer, value.type, value.arm)


queue_format = Annotated[QueueFormat, QueueFormatPart()]


def _read_arm(reader: Reader, kind: int) -> Arm:
    if kind == FormatType.UNKNOWN:
        _gap(reader)
        return None
    reader.align(8 if reader.ndr64 else 4)
    if kind in _TEXTS:
        return reader.text() if reader.pointer() else None
    if kind in _GUIDS:
        return reader.take(16)
    if kind == FormatType.PRIVATE:
        private = ObjectId(reader.take(16), reader.u32())
        _gap(reader)
        return private
    if kind == FormatType.MULTICAST:
        return MulticastId(reader.u32(), reader.u32())
    guid = reader.take(16)
    return DlId(guid, reader.text() if reader.pointer() else None)


def _write_arm(writer: Writer, kind: int, arm: Arm) -> None:
    if kind == FormatType.UNKNOWN:
        _gap(writer)
        return
    writer.align(8 if writer.ndr64 else 4)
    if kind in _TEXTS:
        assert arm is None or isinstance(arm, str)
        _write_text(writer, arm)
    elif isinstance(arm, bytes):
        writer.put(arm)
    elif isinstance(arm, ObjectId):
        writer.put(arm.lineage)
        writer.u32(arm.uniquifier)
        _gap(writer)
    elif isinstance(arm, MulticastId):
        writer.u32(arm.address)
        writer.u32(arm.port)
    else:
        assert isinstance(arm, DlId)
        writer.put(arm.guid)
        _write_text(writer, arm.domain)


def _gap(stub: Reader | Writer) -> None:
    """NDR64 fills a structure up to its alignment; NDR does not."""
    if stub.ndr64:
        stub.align(8)


def _write_text(writer: Writer, text: str | None) -> None:
    writer.pointer(text is not None)
    if text is not None:
        writer.text(text)


def name_of(value: QueueFormat) -> ReadableName:
    """The queue meant, where this interface takes such names ([MS-MQRR] 2.2.3, 3.1.4.2).

    Raises `InvalidParameter` for any other.
    """
    name = any_name_of(value)
    if not isinstance(name, ReadableName):
        raise InvalidParameter(f"queue formats of type {value.type} are not for reading")
    if isinstance(name, DirectName) and name.protocol not in PROTOCOLS:
        raise InvalidParameter(f"{name} cannot be read: only TCP and OS names can")
    return name


def any_name_of(value: QueueFormat) -> SingleName:
    """The queue meant, here or elsewhere; raises `InvalidParameter` where it names none.

    Choice: the flag of system queues need not fit the suffix, since the suffix is enough; but no
    other flag may be set.
    """
    try:
        suffix = Suffix(value.suffix_and_flags & 0x0F)
        if value.suffix_and_flags & 0xF0 & ~SYSTEM_QUEUE:
            raise InvalidParameter(f"0x{value.suffix_and_flags:02X} has flags that do not exist")
        return _name_of(value.type, suffix, value.arm)
    except (ValueError, IllegalFormatName) as error:
        raise InvalidParameter(f"the queue format names no queue: {error}") from None


def _name_of(kind: int, suffix: Suffix, arm: Arm) -> SingleName:
    if isinstance(arm, str):
        return _direct_name(kind, suffix, arm)
    if isinstance(arm, ObjectId):
        return PrivateName(arm.lineage, arm.uniquifier, suffix)
    if isinstance(arm, MulticastId):
        return MulticastName(str(IPv4Address(arm.address)), arm.port)
    if isinstance(arm, DlId):
        return DistributionListName(arm.guid, arm.domain or "")
    if isinstance(arm, bytes) and kind in _BY_GUID:
        return _BY_GUID[kind](arm, suffix)
    raise InvalidParameter(f"a queue format of type {kind} that names no queue")


def _direct_name(kind: int, suffix: Suffix, text: str) -> DirectName:
    """Choice: the text may end in the suffix, or leave it to m_SuffixAndFlags alone."""
    if not text.lower().endswith(suffix.text):
        text += suffix.text
    name = direct_from_wire(text)
    if name.type != kind or (suffix is Suffix.SUBQUEUE and not name.subqueue):
        raise InvalidParameter(f"{name} is not a queue of type {kind} with suffix {suffix}")
    return name


def queue_format_of(name: FormatName) -> QueueFormat:
    """How a name is passed to a method, also one that a server refuses; not a list of names."""
    if isinstance(name, MultipleName):
        raise InvalidParameter(f"{name} is not one queue")
    return QueueFormat(name.type, _suffix_and_flags(name.type, name.suffix), _arm_of(name))


def _suffix_and_flags(kind: FormatType, suffix: Suffix) -> int:
    if kind is FormatType.SUBQUEUE:
        return int(Suffix.SUBQUEUE)
    return SYSTEM_QUEUE | suffix if suffix in READ_ONLY_SUFFIXES else int(suffix)


def _arm_of(name: SingleName) -> Arm:
    if isinstance(name, DirectName):
        return name.wire
    if isinstance(name, PrivateName):
        return ObjectId(name.guid, name.number)
    if isinstance(name, DistributionListName):
        return DlId(name.guid, name.domain or None)
    if isinstance(name, MulticastName):
        return MulticastId(int(IPv4Address(name.address)), name.port)
    return name.guid
