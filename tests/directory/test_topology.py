"""Links and gates."""

import pytest

from posthouse.directory.base import Found
from posthouse.directory.objects import QueueManager, RoutingLink, Site
from posthouse.directory.routing import Row, Topology
from posthouse.directory.service import gate_identifiers, refreshed_gates

from .world import NOT_FOUND, SUCCESS, guid, link, machine, site

SITES = {guid(20): site(20, "A"), guid(21): site(21, "B")}
MACHINES = {
    guid(5): machine(5, "GATE5", site_identifier_list=(guid(20),)),
    guid(6): machine(6, "GATE6", site_identifier_list=(guid(21),)),
}


def read(identifier: bytes) -> Found[QueueManager]:
    value = MACHINES.get(identifier)
    if value is None:
        return Found(NOT_FOUND)
    return Found(SUCCESS, value, QueueManager.directory_attributes())


@pytest.mark.spec("MS-MQDMPR 3.1.1.8/2", "MS-MQDMPR 3.1.1.8/3")
def test_a_link_joins_its_two_sites_by_those_of_its_gates_that_exist() -> None:
    servers = [
        machine(number, f"GATE{number}", site_identifier_list=(guid(at),), routing_server=True)
        for number, at in ((5, 20), (6, 21), (7, 20))
    ]
    named = link(1, 20, 21, 5, 77, 6)
    topology = Topology(SITES.values(), [named], servers)
    assert topology.gates == {guid(20): [guid(5)], guid(21): [guid(6)]}
    assert topology.table([named.site1_identifier]) == {guid(21): Row(1, guid(21))}
    assert topology.table([named.site2_identifier]) == {guid(20): Row(1, guid(20))}


@pytest.mark.spec("MS-MQDMPR 3.1.1.8/2")
def test_a_link_to_an_unknown_site_is_useless() -> None:
    topology = Topology(SITES.values(), [link(1, 20, 99, 5), link(2, 99, 21, 6)], MACHINES.values())
    assert (topology.links, topology.gates) == ([], {})
    assert topology.table([guid(20)]) == {}


@pytest.mark.spec("MS-MQDMPR 3.1.1.7/2")
def test_gates_of_a_site_follow_from_the_links_that_touch_it() -> None:
    assert "site_gate_collection" not in Site.directory_attributes()
    links: list[RoutingLink] = [link(1, 20, 21, 5, 6), link(2, 22, 20, 5, 7), link(3, 21, 22, 8)]
    named = gate_identifiers(guid(20), links)
    assert named == [guid(5), guid(6), guid(7)]
    gates = refreshed_gates(guid(20), named, {}, read)
    assert list(gates) == [guid(5)]  # 6 belongs to another site, 7 is unknown


def test_a_gate_that_left_the_site_is_dropped() -> None:
    before = machine(6, "GATE6", site_identifier_list=(guid(20),))
    assert refreshed_gates(guid(20), [guid(6)], {guid(6): before}, read) == {}


def test_a_gate_that_cannot_be_read_stays_as_it_was() -> None:
    before = machine(7, "GATE7", site_identifier_list=(guid(20),))
    gates = refreshed_gates(guid(20), [guid(7)], {guid(7): before}, read)
    assert gates == {guid(7): before}
