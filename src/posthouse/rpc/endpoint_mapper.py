"""The endpoint mapper: finds the port of an interface ([MS-RPCE] 2.2.1.2; C706 appendix O).

It only reads: what is listed is this process's business, so ept_insert and ept_delete do not exist
here. Anybody may ask, without a login: that is how a client finds out where to log in.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from posthouse.model.errors import RemoteProtocolError
from posthouse.rpc import ept, statuses
from posthouse.rpc.ept import Element, Listed, LookupRequest, MapRequest
from posthouse.rpc.interface import Call, Interface
from posthouse.rpc.ndr import NULL_HANDLE
from posthouse.rpc.security import Level
from posthouse.rpc.statuses import Fault
from posthouse.rpc.syntax import NDR, NDR64, SyntaxId
from posthouse.rpc.towers import ANY_ADDRESS, TcpTower, read_tcp_tower

OK: Final = 0
NOTHING_FOUND: Final = statuses.EPT_NOT_REGISTERED_WIRE
CANNOT_PERFORM: Final = 0x16C9A0CD  # a question that makes no sense

_MARK: Final = b"\0ept"
_entry_handle: Final = Struct("<I4sIII")  # attributes, mark, group, opnum, where to go on


class Entry(NamedTuple):
    """An interface and where it is, over TCP. All are registered without an object."""

    interface: SyntaxId
    port: int
    annotation: str = ""  # what dump tools print beside it, ASCII
    address: bytes = ANY_ADDRESS  # IPv4; any: the one the client has asked

    def element(self) -> Element:
        """Its line in the map."""
        tower = TcpTower(self.interface, NDR, self.port, self.address).pack()
        annotation = self.annotation.encode("ascii", "replace")[: ept.MAX_ANNOTATION_SIZE - 1]
        return Element(ept.NIL_OBJECT, tower, annotation + b"\0")


class Unanswerable(Exception):
    """A question that is well-formed NDR and makes no sense."""


class EndpointMapper:
    """Answers from a list that is asked for each time, so that it is always the true one."""

    def __init__(self, entries: Callable[[], list[Entry]]) -> None:
        self._entries = entries
        methods = {
            ept.EPT_LOOKUP: self._lookup,
            ept.EPT_MAP: self._map,
            ept.EPT_LOOKUP_HANDLE_FREE: self._free,
        }
        self.interface = Interface(ept.EPT, "endpoint mapper", methods, Level.NONE)

    def _lookup(self, call: Call) -> None:
        """[MS-RPCE] 2.2.1.2.4."""
        request = ept.LOOKUP_REQUEST.decode(call.stub, ndr64=call.ndr64)
        handle, found, status = _page(
            call, request.entry_handle, request.max_entries, lambda: self._matching(request)
        )
        entries = Listed(request.max_entries, found)
        response = ept.LookupResponse(handle, entries, status)
        call.answer(ept.LOOKUP_RESPONSE.encode(response, ndr64=call.ndr64))

    def _map(self, call: Call) -> None:
        """[MS-RPCE] 2.2.1.2.5."""
        request = ept.MAP_REQUEST.decode(call.stub, ndr64=call.ndr64)
        handle, found, status = _page(
            call, request.entry_handle, request.max_towers, lambda: self._towers(request)
        )
        towers = Listed(request.max_towers, found)
        response = ept.MapResponse(handle, towers, status)
        call.answer(ept.MAP_RESPONSE.encode(response, ndr64=call.ndr64))

    @staticmethod
    def _free(call: Call) -> None:
        """C706 appendix O: the client wants no more of an answer."""
        (handle,) = ept.FREE_REQUEST.decode(call.stub, ndr64=call.ndr64)
        _start_of(call, handle)
        response = ept.FreeResponse(NULL_HANDLE, OK)
        call.answer(ept.FREE_RESPONSE.encode(response, ndr64=call.ndr64))

    def _matching(self, request: LookupRequest) -> list[object]:
        if request.inquiry_type > ept.MATCH_BY_BOTH:
            raise Unanswerable
        entries = self._entries()
        if request.inquiry_type in (ept.MATCH_BY_INTERFACE, ept.MATCH_BY_BOTH):
            wanted, option = request.interface, request.version_option
            if wanted is None or not ept.ALL_VERSIONS <= option <= ept.UP_TO:
                raise Unanswerable
            entries = [each for each in entries if _matches(each.interface, wanted, option)]
        if request.inquiry_type in (ept.MATCH_BY_OBJECT, ept.MATCH_BY_BOTH):
            entries = entries if _is_nil(request.object) else []
        return [each.element() for each in entries]

    def _towers(self, request: MapRequest) -> list[object]:
        """Any object will do: an interface that is registered without one serves them all."""
        try:
            wanted = read_tcp_tower(request.map_tower or b"")
        except RemoteProtocolError:
            raise Unanswerable from None
        if wanted is None or wanted.transfer not in (NDR, NDR64):
            return []
        return [
            TcpTower(each.interface, wanted.transfer, each.port, each.address).pack()
            for each in self._entries()
            if _matches(each.interface, wanted.interface, ept.COMPATIBLE)
        ]


def _page(
    call: Call, handle: bytes, maximum: int, begin: Callable[[], list[object]]
) -> tuple[bytes, list[object], int]:
    """The next part of an answer, with the handle to ask for the one after it; NULL: none is.

    Dump tools go on until a part is not full or the handle is NULL, so that a full part of a lookup
    always has one. Who maps an interface asks once, and gets a handle only if something is left.
    """
    start = 0 if handle == NULL_HANDLE else _start_of(call, handle)
    try:
        matching = begin()
    except Unanswerable:
        return NULL_HANDLE, [], CANNOT_PERFORM
    found = matching[start : start + maximum]
    end = start + len(found)
    is_full = len(found) == maximum and call.opnum == ept.EPT_LOOKUP
    if not found or not (end < len(matching) or is_full):
        return NULL_HANDLE, found, OK if found else NOTHING_FOUND
    return _handle(call, end), found, OK


def _handle(call: Call, start: int) -> bytes:
    """An entry handle, which holds the whole state of a search.

    The server keeps nothing for it: a client without a login may search, and leave without freeing
    its handle.
    """
    return _entry_handle.pack(0, _MARK, call.association.group.group_id, call.opnum, start)


def _start_of(call: Call, handle: bytes) -> int:
    """Where a search goes on; the handles of others, and of other methods, are unknown here."""
    attributes, mark, group_id, opnum, start = _entry_handle.unpack(handle)
    if (attributes, mark, group_id) != (0, _MARK, call.association.group.group_id):
        raise Fault(statuses.CONTEXT_MISMATCH)
    if call.opnum not in (opnum, ept.EPT_LOOKUP_HANDLE_FREE):
        raise Fault(statuses.CONTEXT_MISMATCH)
    return int(start)


def _matches(here: SyntaxId, wanted: SyntaxId, option: int) -> bool:
    """Whether an interface is one that is asked for, [MS-RPCE] 2.2.1.2.4 vers_option."""
    ours, theirs = (here.major, here.minor), (wanted.major, wanted.minor)
    same_major = here.major == wanted.major
    return here.uuid == wanted.uuid and (
        option == ept.ALL_VERSIONS
        or (option == ept.COMPATIBLE and same_major and here.minor >= wanted.minor)
        or (option == ept.EXACT and ours == theirs)
        or (option == ept.MAJOR_ONLY and same_major)
        or (option == ept.UP_TO and ours <= theirs)
    )


def _is_nil(named: bytes | None) -> bool:
    return named is None or named == ept.NIL_OBJECT
