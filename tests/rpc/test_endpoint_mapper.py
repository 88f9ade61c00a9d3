"""The endpoint mapper, call by call."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from uuid import UUID

import pytest

from posthouse.rpc import ept, statuses
from posthouse.rpc.association import Association, AssociationGroups
from posthouse.rpc.endpoint_mapper import CANNOT_PERFORM, EndpointMapper, Entry
from posthouse.rpc.ept import EPT_LOOKUP, EPT_LOOKUP_HANDLE_FREE, EPT_MAP, LookupRequest
from posthouse.rpc.interface import Call
from posthouse.rpc.ndr import NULL_HANDLE, Stub
from posthouse.rpc.security import Level
from posthouse.rpc.statuses import Fault
from posthouse.rpc.syntax import NDR, NDR64, SyntaxId, syntax
from posthouse.rpc.towers import TcpTower, pack_floors, read_floors, read_tcp_tower
from tests.support.rpc_tower import REMOTE_READ

OTHER = syntax("12345678-1234-abcd-ef00-0123456789ab", 2)._replace(minor=3)
ADDRESS = bytes([192, 0, 2, 9])
ENTRIES = [
    Entry(REMOTE_READ, 2103, "Posthouse remote read"),
    Entry(OTHER, 40_000, address=ADDRESS),
    Entry(REMOTE_READ, 2114),
]
STUBS: dict[int, tuple[Stub, Stub]] = {  # type: ignore[type-arg]
    EPT_LOOKUP: (ept.LOOKUP_REQUEST, ept.LOOKUP_RESPONSE),
    EPT_MAP: (ept.MAP_REQUEST, ept.MAP_RESPONSE),
    EPT_LOOKUP_HANDLE_FREE: (ept.FREE_REQUEST, ept.FREE_RESPONSE),
}
SOME_UUID = UUID("00000000-1111-2222-3333-444444444444")


def counting() -> Callable[[int], bytes]:
    numbers = itertools.count(1)
    return lambda size: next(numbers).to_bytes(size, "little")


class Heard(Call):
    """A call that keeps its answer."""

    response: bytes | None = None

    def answer(self, stub: bytes) -> None:
        assert self.response is None
        self.response = stub

    def fault(self, status: int) -> None:
        raise Fault(status)


class Client:
    """Calls a mapper as from a connection of its own."""

    def __init__(self, groups: AssociationGroups, entries: list[Entry], ndr64: bool) -> None:
        self.association = self.join(groups)
        self.mapper = EndpointMapper(lambda: entries)
        self.ndr64 = ndr64

    @staticmethod
    def join(groups: AssociationGroups, group_id: int = 0) -> Association:
        association = groups.join(group_id, "192.0.2.1")
        assert association is not None
        return association

    def call(self, opnum: int, *values: object) -> tuple:  # type: ignore[type-arg]
        request, response = STUBS[opnum]
        stub = request.encode(request.parameters(*values), ndr64=self.ndr64)
        call = Heard(
            self.association,
            "192.0.2.1",
            None,
            Level.NONE,
            opnum,
            stub,
            ndr64=self.ndr64,
        )
        self.mapper.interface.methods[opnum](call)
        assert call.response is not None
        return response.decode(call.response, ndr64=self.ndr64)

    def map(
        self,
        wanted: SyntaxId = REMOTE_READ,
        maximum: int = 4,
        handle: bytes = NULL_HANDLE,
        transfer: SyntaxId = NDR,
    ) -> ept.MapResponse:
        tower = TcpTower(wanted, transfer).pack()
        return self.call(EPT_MAP, ept.NIL_OBJECT, tower, handle, maximum)

    def look(
        self,
        inquiry: int = ept.ALL_ELEMENTS,
        *,
        named: bytes | None = None,
        wanted: SyntaxId | None = None,
        option: int = ept.ALL_VERSIONS,
        handle: bytes = NULL_HANDLE,
        maximum: int = 500,
    ) -> ept.LookupResponse:
        return self.call(
            EPT_LOOKUP, *LookupRequest(inquiry, named, wanted, option, handle, maximum)
        )

    def free(self, handle: bytes) -> ept.FreeResponse:
        return self.call(EPT_LOOKUP_HANDLE_FREE, handle)


@pytest.fixture
def groups() -> AssociationGroups:
    return AssociationGroups(counting())


@pytest.fixture(params=[False, True], ids=["ndr", "ndr64"])
def client(groups: AssociationGroups, request: pytest.FixtureRequest) -> Client:
    return Client(groups, list(ENTRIES), request.param)


def towers(response: ept.MapResponse) -> list[TcpTower | None]:
    return [read_tcp_tower(octets) for octets in response.towers.found]


def ports(response: ept.LookupResponse) -> list[int]:
    found = [read_tcp_tower(element.tower) for element in response.entries.found]
    return [tower.port for tower in found if tower is not None]


class TestMap:
    @pytest.mark.spec("RPC/30", "MS-MQRR 2.1/2")
    def test_an_interface_is_mapped_to_its_real_ports(self, client: Client) -> None:
        mapped = client.map()
        assert towers(mapped) == [
            TcpTower(REMOTE_READ, NDR, 2103),
            TcpTower(REMOTE_READ, NDR, 2114),
        ]
        assert (mapped.entry_handle, mapped.status) == (NULL_HANDLE, 0)

    def test_an_address_that_is_known_is_told(self, client: Client) -> None:
        assert towers(client.map(OTHER)) == [TcpTower(OTHER, NDR, 40_000, ADDRESS)]

    @pytest.mark.spec("RPC/31")
    @pytest.mark.parametrize("maximum", [2, 4, 500])
    def test_the_array_has_room_for_all_that_were_asked_for(
        self, client: Client, maximum: int
    ) -> None:
        assert client.map(maximum=maximum).towers.maximum == maximum
        assert client.map(SyntaxId(SOME_UUID.bytes_le, 1), maximum).towers.maximum == maximum

    @pytest.mark.spec("RPC/32")
    @pytest.mark.parametrize(
        "wanted",
        [
            SyntaxId(bytes(16), 1),
            REMOTE_READ._replace(major=2),
            REMOTE_READ._replace(minor=1),
            OTHER._replace(major=1),
            OTHER._replace(minor=4),
        ],
    )
    def test_what_is_not_registered_is_not_found(self, client: Client, wanted: SyntaxId) -> None:
        mapped = client.map(wanted)
        assert mapped.status == 0x16C9A0D6
        assert (mapped.entry_handle, mapped.towers.found) == (NULL_HANDLE, [])

    def test_an_older_minor_version_is_served_by_a_newer_one(self, client: Client) -> None:
        assert towers(client.map(OTHER._replace(minor=1)))[0] == TcpTower(
            OTHER, NDR, 40_000, ADDRESS
        )

    def test_the_transfer_syntax_that_was_asked_for_comes_back(self, client: Client) -> None:
        assert {tower.transfer for tower in towers(client.map(transfer=NDR64)) if tower} == {NDR64}

    def test_a_strange_transfer_syntax_is_not_registered(self, client: Client) -> None:
        assert client.map(transfer=OTHER).status == 0x16C9A0D6

    @pytest.mark.spec("MS-MQRR 2.1/1")
    @pytest.mark.parametrize("protocol", [0x08, 0x0F, 0x1F], ids=["UDP", "named pipe", "HTTP"])
    def test_other_transports_are_not_registered(self, client: Client, protocol: int) -> None:
        floors = read_floors(TcpTower(REMOTE_READ).pack())
        floors[3] = (bytes([protocol]), floors[3][1])
        mapped = client.call(EPT_MAP, None, pack_floors(floors), NULL_HANDLE, 4)
        assert mapped.status == 0x16C9A0D6

    @pytest.mark.parametrize("tower", [None, b"", b"\x05\x00\x13\x00"])
    def test_no_tower_is_no_question(self, client: Client, tower: bytes | None) -> None:
        mapped = client.call(EPT_MAP, None, tower, NULL_HANDLE, 4)
        assert (mapped.entry_handle, mapped.towers.found) == (NULL_HANDLE, [])
        assert mapped.status == CANNOT_PERFORM

    def test_any_object_is_served_by_what_is_registered_without_one(self, client: Client) -> None:
        tower = TcpTower(REMOTE_READ).pack()
        assert client.call(EPT_MAP, SOME_UUID.bytes_le, tower, NULL_HANDLE, 4).status == 0

    def test_what_does_not_fit_is_fetched_with_the_handle(self, client: Client) -> None:
        first = client.map(maximum=1)
        assert first.entry_handle != NULL_HANDLE
        second = client.map(maximum=1, handle=first.entry_handle)
        assert [tower.port for tower in towers(first) + towers(second) if tower] == [2103, 2114]
        assert (second.entry_handle, second.status) == (NULL_HANDLE, 0)

    def test_the_map_is_always_the_true_one(self, groups: AssociationGroups) -> None:
        entries: list[Entry] = []
        client = Client(groups, entries, ndr64=False)
        assert client.map().status == 0x16C9A0D6
        entries.append(ENTRIES[0])
        assert client.map().status == 0


@pytest.mark.spec("RPC/33")
class TestLookup:
    def test_everything_is_listed_with_its_annotation(self, client: Client) -> None:
        looked = client.look()
        assert (looked.entry_handle, looked.status) == (NULL_HANDLE, 0)
        assert looked.entries.maximum == 500
        assert ports(looked) == [2103, 40_000, 2114]
        assert [element.annotation for element in looked.entries.found] == [
            b"Posthouse remote read\0",
            b"\0",
            b"\0",
        ]
        assert {element.object for element in looked.entries.found} == {bytes(16)}

    def test_a_long_annotation_is_cut_to_what_fits(self, groups: AssociationGroups) -> None:
        client = Client(groups, [Entry(OTHER, 1, "é" + 99 * "x")], ndr64=False)
        (element,) = client.look().entries.found
        assert element.annotation == b"?" + 62 * b"x" + b"\0"

    def test_an_empty_map_says_so(self, groups: AssociationGroups) -> None:
        looked = Client(groups, [], ndr64=False).look()
        assert (looked.status, looked.entries.found) == (0x16C9A0D6, [])

    @pytest.mark.parametrize(
        ("option", "minor", "found"),
        [
            (ept.ALL_VERSIONS, 9, True),
            (ept.COMPATIBLE, 2, True),
            (ept.COMPATIBLE, 4, False),
            (ept.EXACT, 3, True),
            (ept.EXACT, 2, False),
            (ept.MAJOR_ONLY, 9, True),
            (ept.UP_TO, 3, True),
            (ept.UP_TO, 2, False),
        ],
    )
    def test_an_interface_is_looked_up_by_version(
        self, client: Client, option: int, minor: int, found: bool
    ) -> None:
        wanted = OTHER._replace(minor=minor)
        looked = client.look(ept.MATCH_BY_INTERFACE, wanted=wanted, option=option)
        assert ports(looked) == ([40_000] if found else [])
        assert looked.status == (0 if found else 0x16C9A0D6)

    @pytest.mark.parametrize(
        ("option", "found"),
        [
            (ept.ALL_VERSIONS, True),
            (ept.COMPATIBLE, False),
            (ept.EXACT, False),
            (ept.MAJOR_ONLY, False),
            (ept.UP_TO, True),
        ],
    )
    def test_a_later_major_version_is_another_interface(
        self, client: Client, option: int, found: bool
    ) -> None:
        wanted = OTHER._replace(major=3, minor=0)
        looked = client.look(ept.MATCH_BY_INTERFACE, wanted=wanted, option=option)
        assert bool(ports(looked)) == found

    @pytest.mark.parametrize("named", [None, bytes(16)])
    def test_everything_is_registered_without_an_object(
        self, client: Client, named: bytes | None
    ) -> None:
        assert len(ports(client.look(ept.MATCH_BY_OBJECT, named=named))) == 3
        both = client.look(ept.MATCH_BY_BOTH, named=named, wanted=REMOTE_READ)
        assert ports(both) == [2103, 2114]

    def test_nothing_is_registered_with_an_object(self, client: Client) -> None:
        named = SOME_UUID.bytes_le
        assert client.look(ept.MATCH_BY_OBJECT, named=named).status == 0x16C9A0D6
        both = client.look(ept.MATCH_BY_BOTH, named=named, wanted=REMOTE_READ)
        assert both.status == 0x16C9A0D6

    @pytest.mark.parametrize(
        ("inquiry", "wanted", "option"),
        [
            (4, REMOTE_READ, ept.ALL_VERSIONS),
            (ept.MATCH_BY_INTERFACE, None, ept.ALL_VERSIONS),
            (ept.MATCH_BY_BOTH, REMOTE_READ, 0),
            (ept.MATCH_BY_INTERFACE, REMOTE_READ, 6),
        ],
    )
    def test_a_question_without_sense_cannot_be_performed(
        self, client: Client, inquiry: int, wanted: SyntaxId | None, option: int
    ) -> None:
        looked = client.look(inquiry, wanted=wanted, option=option)
        assert (looked.status, looked.entries.found) == (CANNOT_PERFORM, [])

    def test_a_page_that_is_not_full_is_the_last(self, client: Client) -> None:
        first = client.look(maximum=2)
        assert ports(first) == [2103, 40_000]
        last = client.look(maximum=2, handle=first.entry_handle)
        assert (last.entry_handle, last.status) == (NULL_HANDLE, 0)
        assert ports(last) == [2114]

    def test_a_map_of_full_pages_ends_with_an_empty_one(self, client: Client) -> None:
        pages = [client.look(maximum=1)]
        while pages[-1].entry_handle != NULL_HANDLE:
            pages.append(client.look(maximum=1, handle=pages[-1].entry_handle))
        assert [ports(page) for page in pages] == [[2103], [40_000], [2114], []]
        assert [page.status for page in pages] == [0, 0, 0, 0x16C9A0D6]

    def test_who_asks_for_nothing_gets_nothing(self, client: Client) -> None:
        looked = client.look(maximum=0)
        assert (looked.entry_handle, looked.status) == (NULL_HANDLE, 0x16C9A0D6)


class TestHandle:
    def test_a_search_is_given_up(self, client: Client) -> None:
        assert client.free(client.look(maximum=1).entry_handle) == (NULL_HANDLE, 0)
        assert client.free(client.map(maximum=1).entry_handle) == (NULL_HANDLE, 0)

    def test_a_handle_is_good_on_every_connection_of_its_group(
        self, client: Client, groups: AssociationGroups
    ) -> None:
        handle = client.look(maximum=1).entry_handle
        client.association = client.join(groups, client.association.group.group_id)
        assert ports(client.look(handle=handle)) == [40_000, 2114]

    def test_a_handle_of_another_client_is_refused(
        self, client: Client, groups: AssociationGroups
    ) -> None:
        handle = client.look(maximum=1).entry_handle
        client.association = client.join(groups)
        self.refused(client, handle)

    def test_a_handle_of_another_interface_is_refused(self, client: Client) -> None:
        self.refused(client, client.association.group.open(object(), lambda: None))

    def test_a_handle_with_attributes_is_refused(self, client: Client) -> None:
        self.refused(client, b"\1" + client.look(maximum=1).entry_handle[1:])

    def test_a_lookup_is_not_continued_by_a_map(self, client: Client) -> None:
        handle = client.look(maximum=1).entry_handle
        with pytest.raises(Fault) as fault:
            client.map(handle=handle)
        assert fault.value.status == statuses.CONTEXT_MISMATCH

    def test_a_search_behind_the_end_finds_nothing(self, client: Client) -> None:
        handle = client.look(maximum=1).entry_handle[:-4] + b"\xff" * 4
        assert client.look(handle=handle).status == 0x16C9A0D6

    def test_nothing_cannot_be_freed(self, client: Client) -> None:
        with pytest.raises(Fault):
            client.free(NULL_HANDLE)

    def test_a_search_leaves_nothing_behind(
        self, client: Client, groups: AssociationGroups
    ) -> None:
        for _ in range(100):
            client.look(maximum=1)
            client.map(maximum=1)
        assert groups.handles == 0

    @staticmethod
    def refused(client: Client, handle: bytes) -> None:
        for use in (lambda: client.look(handle=handle), lambda: client.free(handle)):
            with pytest.raises(Fault) as fault:
                use()
            assert fault.value.status == statuses.CONTEXT_MISMATCH


def test_anybody_may_ask_and_nobody_may_insert() -> None:
    interface = EndpointMapper(list).interface
    assert interface.minimum_level == Level.NONE
    assert set(interface.methods) == {2, 3, 4}
    assert interface.syntax == syntax("e1af8308-5d1f-11c9-91a4-08002b14a0fa", 3)
