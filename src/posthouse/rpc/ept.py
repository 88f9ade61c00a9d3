"""The interface of endpoint mappers, for both ends ([MS-RPCE] 2.2.1.2; C706 appendix O).

```
[uuid(e1af8308-5d1f-11c9-91a4-08002b14a0fa), version(3.0), pointer_default(ref)]
2: ept_lookup([in] inquiry_type, [in, ptr] UUID* object, [in, ptr] RPC_IF_ID* Ifid,
     [in] vers_option, [in, out] entry_handle, [in, range(0,500)] max_ents, [out] *num_ents,
     [out, size_is(max_ents), length_is(*num_ents)] ept_entry_t entries[], [out] *status)
3: ept_map([in, ptr] UUID* obj, [in, ptr] twr_p_t map_tower, [in, out] entry_handle,
     [in, range(0,500)] max_towers, [out] *num_towers,
     [out, size_is(max_towers), length_is(*num_towers)] twr_p_t* ITowers, [out] *status)
4: ept_lookup_handle_free([in, out] entry_handle, [out] *status)
```
"""

from __future__ import annotations

from typing import Annotated, Any, Final, NamedTuple

from posthouse.model.errors import RemoteProtocolError
from posthouse.rpc.ndr import (
    NULL_HANDLE,
    BadStub,
    Part,
    Reader,
    Scalar,
    Writer,
    context_handle,
    stub_of,
    u32,
)
from posthouse.rpc.syntax import SyntaxId, syntax
from posthouse.rpc.towers import MAX_TOWER_SIZE, TcpTower, read_tcp_tower

EPT: Final = syntax("e1af8308-5d1f-11c9-91a4-08002b14a0fa", 3)
EPT_LOOKUP: Final = 2
EPT_MAP: Final = 3
EPT_LOOKUP_HANDLE_FREE: Final = 4

NIL_OBJECT: Final = bytes(16)
MAX_ANNOTATION_SIZE: Final = 64  # with its terminator
_MAPPED_BY_US_MAX: Final = 8  # towers a client of ours asks for

# Inquiry types and version options, [MS-RPCE] 2.2.1.2.4
ALL_ELEMENTS, MATCH_BY_INTERFACE, MATCH_BY_OBJECT, MATCH_BY_BOTH = range(4)
ALL_VERSIONS, COMPATIBLE, EXACT, MAJOR_ONLY, UP_TO = range(1, 6)


class Element(NamedTuple):
    """One line of the endpoint map (ept_entry_t)."""

    object: bytes
    tower: bytes | None
    annotation: bytes  # its terminator included


class Listed(NamedTuple):
    """A part of the map, with the maximum that was asked for: it is the array's max_count."""

    maximum: int
    found: list[Any]


class Pointer:
    """A full pointer as a parameter: what it leads to follows at once."""

    def __init__(self, target: Part) -> None:
        self.target = target

    def read(self, reader: Reader) -> Any:
        """What it leads to; None where it leads nowhere."""
        return self.target.read(reader) if reader.pointer() else None

    def write(self, writer: Writer, value: Any) -> None:
        """Pointer and target."""
        writer.pointer(value is not None)
        if value is not None:
            self.target.write(writer, value)


class Tower:
    """A protocol tower as counted octets (twr_t)."""

    def read(self, reader: Reader) -> bytes:
        """The octets of a tower."""
        announced, length = reader.wide(), reader.u32()
        if announced != length or length > MAX_TOWER_SIZE:
            raise BadStub(f"a tower of {length} octets is announced with {announced}")
        return reader.take(length)

    def write(self, writer: Writer, value: bytes) -> None:
        """Both counts and the octets."""
        writer.wide(len(value))
        writer.u32(len(value))
        writer.put(value)


class InterfaceId:
    """RPC_IF_ID, C706 appendix N."""

    def read(self, reader: Reader) -> SyntaxId:
        """UUID and version."""
        return SyntaxId(UUID.read(reader), reader.u16(), reader.u16())

    def write(self, writer: Writer, value: SyntaxId) -> None:
        """UUID and version."""
        UUID.write(writer, value.uuid)
        writer.u16(value.major)
        writer.u16(value.minor)


class Towers:
    """The towers of an answer: num_towers and ITowers."""

    def read(self, reader: Reader) -> Listed:
        """The towers that are there."""
        maximum, count = _read_counts(reader, 4)
        present = [reader.pointer() for _ in range(count)]
        return Listed(maximum, [TOWER.read(reader) for there in present if there])

    def write(self, writer: Writer, value: Listed) -> None:
        """Pointers first, then what they lead to."""
        _write_counts(writer, value)
        for _ in value.found:
            writer.pointer(present=True)
        for tower in value.found:
            TOWER.write(writer, tower)


class Elements:
    """The entries of an answer: num_ents and entries."""

    def read(self, reader: Reader) -> Listed:
        """The lines, whose towers stand after all of them."""
        maximum, count = _read_counts(reader, 28)
        lines = [self._read_line(reader) for _ in range(count)]
        return Listed(
            maximum,
            [
                Element(named, TOWER.read(reader) if there else None, annotation)
                for named, there, annotation in lines
            ],
        )

    def write(self, writer: Writer, value: Listed) -> None:
        """Lines first, then their towers."""
        _write_counts(writer, value)
        for element in value.found:
            self._write_line(writer, element)
        for element in value.found:
            if element.tower is not None:
                TOWER.write(writer, element.tower)

    @staticmethod
    def _read_line(reader: Reader) -> tuple[bytes, bool, bytes]:
        reader.align(8 if reader.ndr64 else 4)
        named, there = UUID.read(reader), reader.pointer()
        offset, length = reader.wide(), reader.wide()
        if offset or length > MAX_ANNOTATION_SIZE:
            raise BadStub(f"an annotation of {length} characters from {offset}")
        return named, there, reader.take(length)

    @staticmethod
    def _write_line(writer: Writer, element: Element) -> None:
        writer.align(8 if writer.ndr64 else 4)
        UUID.write(writer, element.object)
        writer.pointer(element.tower is not None)
        writer.wide(0)
        writer.wide(len(element.annotation))
        writer.put(element.annotation)


def _read_counts(reader: Reader, size: int) -> tuple[int, int]:
    count = reader.u32()
    maximum, actual = reader.varying()
    if count != actual:
        raise BadStub(f"{actual} of {count} elements are there")
    reader.room_for(count, size)
    return maximum, count


def _write_counts(writer: Writer, value: Listed) -> None:
    writer.u32(len(value.found))
    writer.varying(value.maximum, len(value.found))


UUID: Final = Scalar("16s", 4)
TOWER: Final = Tower()

up_to_500 = Annotated[int, Scalar("I", 4, 0, 500)]
object_pointer = Annotated[bytes | None, Pointer(UUID)]


class LookupRequest(NamedTuple):
    """[MS-RPCE] 2.2.1.2.4."""

    inquiry_type: u32
    object: object_pointer
    interface: Annotated[SyntaxId | None, Pointer(InterfaceId())]
    version_option: u32
    entry_handle: context_handle
    max_entries: up_to_500


class LookupResponse(NamedTuple):
    """[MS-RPCE] 2.2.1.2.4."""

    entry_handle: context_handle
    entries: Annotated[Listed, Elements()]
    status: u32


class MapRequest(NamedTuple):
    """[MS-RPCE] 2.2.1.2.5."""

    object: object_pointer
    map_tower: Annotated[bytes | None, Pointer(TOWER)]
    entry_handle: context_handle
    max_towers: up_to_500


class MapResponse(NamedTuple):
    """[MS-RPCE] 2.2.1.2.5."""

    entry_handle: context_handle
    towers: Annotated[Listed, Towers()]
    status: u32


class FreeRequest(NamedTuple):
    """C706 appendix O, ept_lookup_handle_free."""

    entry_handle: context_handle


class FreeResponse(NamedTuple):
    """C706 appendix O, ept_lookup_handle_free."""

    entry_handle: context_handle
    status: u32


LOOKUP_REQUEST: Final = stub_of(LookupRequest)
LOOKUP_RESPONSE: Final = stub_of(LookupResponse)
MAP_REQUEST: Final = stub_of(MapRequest)
MAP_RESPONSE: Final = stub_of(MapResponse)
FREE_REQUEST: Final = stub_of(FreeRequest)
FREE_RESPONSE: Final = stub_of(FreeResponse)


def map_request(interface: SyntaxId, *, ndr64: bool = False) -> bytes:
    """What a client asks ept_map to learn where an interface is, over TCP and in NDR."""
    tower = TcpTower(interface).pack()
    request = MapRequest(NIL_OBJECT, tower, NULL_HANDLE, _MAPPED_BY_US_MAX)
    return MAP_REQUEST.encode(request, ndr64=ndr64)


def tcp_ports(response: MapResponse, interface: SyntaxId) -> list[int]:
    """The ports that an answer of ept_map leads to. Towers that make no sense lead nowhere."""
    ports = []
    for octets in response.towers.found:
        try:
            tower = read_tcp_tower(octets)
        except RemoteProtocolError:
            continue
        if tower and tower.port and tower.interface[:2] == interface[:2]:
            ports.append(tower.port)
    return ports
