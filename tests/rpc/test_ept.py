"""The stubs of the endpoint mapper's interface, by hand and beside impacket's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from impacket.dcerpc.v5 import epm
from impacket.dcerpc.v5.dtypes import NULL
from impacket.dcerpc.v5.rpcrt import DCERPC

from posthouse.rpc import ept
from posthouse.rpc.ept import Element, Listed
from posthouse.rpc.ndr import NULL_HANDLE, BadStub
from posthouse.rpc.syntax import SyntaxId
from posthouse.rpc.towers import TcpTower, pack_floors
from tests.support.rpc_tower import OCTETS, REMOTE_READ, TOWER

HANDLE = bytes(4) + bytes(range(16))
UUID = bytes(range(16, 32))
STUBS = [
    ept.LOOKUP_REQUEST,
    ept.LOOKUP_RESPONSE,
    ept.MAP_REQUEST,
    ept.MAP_RESPONSE,
    ept.FREE_REQUEST,
    ept.FREE_RESPONSE,
]

uuids = st.binary(min_size=16, max_size=16)
handles = st.binary(min_size=20, max_size=20)
ulongs = st.integers(0, 0xFFFFFFFF)
ushorts = st.integers(0, 0xFFFF)
octets = st.binary(max_size=99)
interfaces = st.builds(SyntaxId, uuids, ushorts, ushorts)
elements = st.builds(Element, uuids, st.none() | octets, st.binary(max_size=64))


def listed(each: st.SearchStrategy[Any]) -> st.SearchStrategy[Listed]:
    return st.builds(Listed, st.integers(5, 500), st.lists(each, max_size=5))


def hexed(text: str) -> bytes:
    return bytes.fromhex(text)


def test_a_map_request_byte_for_byte() -> None:
    request = ept.MapRequest(UUID, OCTETS, HANDLE, 4)
    stub = hexed("00000200") + UUID + hexed("04000200") + 2 * hexed("4b000000") + OCTETS
    stub += b"\0" + HANDLE + hexed("04000000")
    assert ept.MAP_REQUEST.encode(request) == stub
    assert ept.MAP_REQUEST.decode(stub) == request


def test_a_map_request_byte_for_byte_in_ndr64() -> None:
    request = ept.MapRequest(None, OCTETS, HANDLE, 4)
    stub = bytes(8) + hexed("0400020000000000 4b00000000000000 4b000000") + OCTETS
    stub += b"\0" + HANDLE + hexed("04000000")
    assert ept.MAP_REQUEST.encode(request, ndr64=True) == stub
    assert ept.MAP_REQUEST.decode(stub, ndr64=True) == request


@pytest.mark.spec("RPC/31")
def test_a_map_response_byte_for_byte() -> None:
    response = ept.MapResponse(NULL_HANDLE, Listed(4, [OCTETS]), 0)
    stub = NULL_HANDLE + hexed("01000000 04000000 00000000 01000000 00000200")
    stub += 2 * hexed("4b000000") + OCTETS + b"\0" + bytes(4)
    assert ept.MAP_RESPONSE.encode(response) == stub
    assert ept.MAP_RESPONSE.decode(stub) == response


@pytest.mark.spec("RPC/31")
def test_a_map_response_byte_for_byte_in_ndr64() -> None:
    response = ept.MapResponse(NULL_HANDLE, Listed(4, [OCTETS]), 0)
    stub = NULL_HANDLE + hexed("01000000 0400000000000000 0000000000000000 0100000000000000")
    stub += hexed("0000020000000000 4b00000000000000 4b000000") + OCTETS + b"\0" + bytes(4)
    assert ept.MAP_RESPONSE.encode(response, ndr64=True) == stub
    assert ept.MAP_RESPONSE.decode(stub, ndr64=True) == response


def test_a_lookup_response_byte_for_byte() -> None:
    two = [Element(UUID, OCTETS, b"ab\0"), Element(ept.NIL_OBJECT, None, b"\0")]
    response = ept.LookupResponse(HANDLE, Listed(9, two), 7)
    stub = HANDLE + hexed("02000000 09000000 00000000 02000000")
    stub += UUID + hexed("00000200 00000000 03000000 616200 00")
    stub += bytes(16) + hexed("00000000 00000000 01000000 00 000000")
    stub += 2 * hexed("4b000000") + OCTETS + b"\0" + hexed("07000000")
    assert ept.LOOKUP_RESPONSE.encode(response) == stub
    assert ept.LOOKUP_RESPONSE.decode(stub) == response


@pytest.mark.parametrize("ndr64", [False, True])
@given(st.data())
def test_every_stub_is_read_as_it_was_written(ndr64: bool, data: st.DataObject) -> None:
    maximum = st.integers(0, 500)
    objects = st.none() | uuids
    parts: dict[Any, list[st.SearchStrategy[Any]]] = {
        ept.LOOKUP_REQUEST: [ulongs, objects, st.none() | interfaces, ulongs, handles, maximum],
        ept.LOOKUP_RESPONSE: [handles, listed(elements), ulongs],
        ept.MAP_REQUEST: [objects, st.none() | octets, handles, maximum],
        ept.MAP_RESPONSE: [handles, listed(octets), ulongs],
        ept.FREE_REQUEST: [handles],
        ept.FREE_RESPONSE: [handles, ulongs],
    }
    stub = data.draw(st.sampled_from(STUBS))
    value = stub.parameters(*data.draw(st.tuples(*parts[stub])))
    assert stub.decode(stub.encode(value, ndr64=ndr64), ndr64=ndr64) == value


@pytest.mark.parametrize("ndr64", [False, True])
@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.parameters.__name__)
@given(raw=st.binary(max_size=300), mask=st.integers(0, 255))
def test_any_bytes_are_a_stub_or_refused(stub: Any, ndr64: bool, raw: bytes, mask: int) -> None:
    try:
        stub.decode(bytes(octet & mask for octet in raw), ndr64=ndr64)
    except BadStub:
        return


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda stub: stub[:24] + hexed("4c000000") + stub[28:], "a conformance of its own"),
        (lambda stub: stub[:-4] + hexed("f5010000"), "more than 500 towers"),
        (lambda stub: stub[:60], "an end inside the tower"),
        (lambda stub: stub + bytes(8), "more behind the end"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_request_that_contradicts_itself_is_refused(change: Any, what: str) -> None:
    stub = ept.MAP_REQUEST.encode(ept.MapRequest(UUID, OCTETS, HANDLE, 4))
    with pytest.raises(BadStub):
        ept.MAP_REQUEST.decode(change(stub))


def test_a_tower_may_have_2000_octets_and_no_more() -> None:
    for size in (2000, 2001):
        stub = ept.MAP_REQUEST.encode(ept.MapRequest(None, bytes(size), HANDLE, 4))
        if size == 2000:
            assert ept.MAP_REQUEST.decode(stub).map_tower == bytes(size)
        else:
            with pytest.raises(BadStub):
                ept.MAP_REQUEST.decode(stub)


def test_a_client_finds_the_ports_of_its_interface_among_the_towers() -> None:
    other = TcpTower(SyntaxId(UUID, 1), port=99)
    towers = [
        TOWER.pack(),
        other.pack(),
        b"\x05\x00 no tower",
        pack_floors([(b"\x01", b"")]),
        TOWER._replace(port=0).pack(),
        TOWER._replace(port=2114).pack(),
    ]
    response = ept.MapResponse(NULL_HANDLE, Listed(8, towers), 0)
    assert ept.tcp_ports(response, REMOTE_READ) == [2103, 2114]


@pytest.mark.parametrize("ndr64", [False, True])
def test_what_a_client_asks_is_what_impacket_asks(ndr64: bool) -> None:
    request = epm.ept_map()
    if ndr64:
        request.changeTransferSyntax(DCERPC.NDR64Syntax)
    request["max_towers"] = 8
    request["map_tower"]["tower_length"] = 75
    tower = TcpTower(REMOTE_READ).pack()
    request["map_tower"]["tower_octet_string"] = tower
    request["obj"] = ept.NIL_OBJECT
    asked = ept.MAP_REQUEST.decode(request.getData(), ndr64=ndr64)
    ours = ept.map_request(REMOTE_READ, ndr64=ndr64)
    assert asked == ept.MAP_REQUEST.decode(ours, ndr64=ndr64)
    assert asked.map_tower == tower


def test_impacket_asks_without_an_object_too() -> None:
    request = epm.ept_lookup()
    request["inquiry_type"] = 0
    request["object"] = NULL
    request["Ifid"] = NULL
    request["vers_option"] = 1
    request["max_ents"] = 500
    asked = ept.LOOKUP_REQUEST.decode(request.getData())
    assert asked == (0, None, None, 1, NULL_HANDLE, 500)


@pytest.mark.parametrize("ndr64", [False, True])
def test_impacket_reads_our_answers(ndr64: bool) -> None:
    response = ept.MapResponse(HANDLE, Listed(4, [OCTETS, OCTETS]), 7)
    stub = ept.MAP_RESPONSE.encode(response, ndr64=ndr64)
    mapped = epm.ept_mapResponse(stub, isNDR64=ndr64)
    assert (mapped["num_towers"], mapped["status"]) == (2, 7)
    towers = [b"".join(each["Data"]["tower_octet_string"]) for each in mapped["ITowers"]]
    assert towers == [OCTETS, OCTETS]


@pytest.mark.parametrize("ndr64", [False, True])
def test_impacket_reads_our_list(ndr64: bool) -> None:
    element = Element(UUID, OCTETS, b"remote read\0")
    response = ept.LookupResponse(HANDLE, Listed(4, [element] * 2), 7)
    stub = ept.LOOKUP_RESPONSE.encode(response, ndr64=ndr64)
    looked = epm.ept_lookupResponse(stub, isNDR64=ndr64)
    annotations = [b"".join(each["annotation"]) for each in looked["entries"]]
    assert annotations == [b"remote read\0"] * 2
    assert b"".join(looked["entries"][1]["tower"]["tower_octet_string"]) == OCTETS
    assert looked["status"] == 7
