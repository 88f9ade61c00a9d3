"""The methods of the qmmgmt interface and their parameters ([MS-MQMR] 2.2, 3.1.4, 6)."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, Final, NamedTuple

from posthouse.protocols.queue_format import QueueFormat, QueueFormatPart
from posthouse.rpc.ndr import BadStub, Reader, Stub, Writer, stub_of, u32
from posthouse.rpc.propvariant import SIZE_MIN, Variant, read_variants, write_variants
from posthouse.rpc.syntax import syntax

MANAGEMENT: Final = syntax("41208ee0-e970-11d1-9b9e-00e02c064c39", 1)
"""1.9: the interface, version 1.0."""
PROPERTIES_MAX: Final = 128
"""The range of `cp`."""


class ManagementOpnum(IntEnum):
    """The numbers of the methods (3.1.4)."""

    GET_INFO = 0
    ACTION = 1


class ObjectType(IntEnum):
    """MgmtObjectType, 2.2.2.1."""

    MACHINE = 1
    QUEUE = 2
    SESSION = 3


class ManagedObject(NamedTuple):
    """MGMT_OBJECT, 2.2.1.2; a NULL pointer to the queue is None, reserved values are zero."""

    type: int
    queue: QueueFormat | None = None


MACHINE: Final = ManagedObject(ObjectType.MACHINE)


class ManagedObjectPart:
    """MGMT_OBJECT by reference pointer: the structure, then the queue it points to."""

    def read(self, reader: Reader) -> ManagedObject:
        """The object; its tag and its type are the same."""
        reader.align(8 if reader.ndr64 else 4)
        kind = reader.enum()
        _align_union(reader)
        tag = reader.enum()
        if tag != kind or not ObjectType.MACHINE <= kind <= ObjectType.SESSION:
            raise BadStub(f"a management object of type {kind} with a union of {tag}")
        _align_union(reader)
        if kind == ObjectType.QUEUE:
            pointed = reader.pointer()
            return ManagedObject(kind, QueueFormatPart().read(reader) if pointed else None)
        reader.u32()
        _align_union(reader)
        return ManagedObject(kind)

    def write(self, writer: Writer, value: ManagedObject) -> None:
        """The structure, then the queue it points to."""
        writer.align(8 if writer.ndr64 else 4)
        writer.enum(value.type)
        _align_union(writer)
        writer.enum(value.type)
        _align_union(writer)
        if value.type != ObjectType.QUEUE:
            writer.u32(0)
            _align_union(writer)
            return
        writer.pointer(value.queue is not None)
        if value.queue is not None:
            QueueFormatPart().write(writer, value.queue)


def _align_union(stub: Reader | Writer) -> None:
    """NDR64 aligns unions, their arms and the end of a structure to 8: there is a pointer in it."""
    if stub.ndr64:
        stub.align(8)


class Asked(NamedTuple):
    """A property that is asked for, and what its place holds before the call: VT_NULL."""

    propid: int
    variant: Variant = Variant(1)


class AskedPart:
    """The properties of a request: cp, aProp and apVar, two arrays of one length."""

    def read(self, reader: Reader) -> tuple[Asked, ...]:
        """As many as `cp` announces, in both arrays."""
        count = reader.u32()
        if not 1 <= count <= PROPERTIES_MAX:
            raise BadStub(f"{count} properties; 1 to {PROPERTIES_MAX} are allowed")
        reader.count(count)
        propids = [reader.u32() for _ in range(count)]
        reader.count(count)
        variants = read_variants(reader, count)
        return tuple([Asked(*pair) for pair in zip(propids, variants, strict=True)])

    def write(self, writer: Writer, value: tuple[Asked, ...]) -> None:
        """The count, three times, with the two arrays."""
        writer.u32(len(value))
        writer.wide(len(value))
        for asked in value:
            writer.u32(asked.propid)
        VariantsPart().write(writer, tuple([asked.variant for asked in value]))


class VariantsPart:
    """The values of an answer: apVar as it comes back."""

    def read(self, reader: Reader) -> tuple[Variant, ...]:
        """As many as are announced; the caller has asked for that number."""
        count = reader.wide()
        if count > PROPERTIES_MAX:
            raise BadStub(f"{count} properties; {PROPERTIES_MAX} are allowed")
        reader.room_for(count, SIZE_MIN)
        return read_variants(reader, count)

    def write(self, writer: Writer, value: tuple[Variant, ...]) -> None:
        """The count, then the values."""
        writer.wide(len(value))
        write_variants(writer, value)


class TextPart:
    """A string by reference pointer."""

    def read(self, reader: Reader) -> str:
        """The text without its terminator."""
        return reader.text()

    def write(self, writer: Writer, value: str) -> None:
        """The text and its terminator."""
        writer.text(value)


managed_object = Annotated[ManagedObject, ManagedObjectPart()]
asked_properties = Annotated[tuple[Asked, ...], AskedPart()]
variants = Annotated[tuple[Variant, ...], VariantsPart()]
text = Annotated[str, TextPart()]


class GetProperties(NamedTuple):
    """R_QMMgmtGetInfo, 3.1.4.1."""

    object: managed_object
    properties: asked_properties


class PropertyValues(NamedTuple):
    """Answer of R_QMMgmtGetInfo; after a failure the values are those that came."""

    variants: variants
    result: u32


class ManagementAction(NamedTuple):
    """R_QMMgmtAction, 3.1.4.2."""

    object: managed_object
    action: text


class ActionResult(NamedTuple):
    """Answer of R_QMMgmtAction."""

    result: u32


class ManagementMethod(NamedTuple):
    """Both sides of a method."""

    name: str
    request: Stub[Any]
    response: Stub[Any]


METHODS: Final = {
    ManagementOpnum.GET_INFO: ManagementMethod(
        "R_QMMgmtGetInfo", stub_of(GetProperties), stub_of(PropertyValues)
    ),
    ManagementOpnum.ACTION: ManagementMethod(
        "R_QMMgmtAction", stub_of(ManagementAction), stub_of(ActionResult)
    ),
}
"""The interface: which stubs belong to which opnum."""
