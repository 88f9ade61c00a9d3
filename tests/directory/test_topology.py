"""Links and gates."""

import pytest

from posthouse.directory.base import Found
from posthouse.directory.objects import QueueManager, RoutingLink, Site
from posthouse.directory.topology import gate_identifiers, refreshed_gates, resolve_link

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
def test_a_link_is_resolved_to_its_two_sites_and_the_gates_that_exist() -> None:
    named = link(1, 20, 21, 5, 77, 6)
    resolved = resolve_link(named, SITES.get, MACHINES.get)
    assert resolved is not None
    assert resolved.site1.identifier == named.site1_identifier
    assert resolved.site2.identifier == named.site2_identifier
    gates = [gate.identifier for gate in resolved.site_gates]
    assert gates == [guid(5), guid(6)]
    assert set(gates) <= set(named.site_gate_identifier_list)


def test_a_link_to_an_unknown_site_is_useless() -> None:
    assert resolve_link(link(1, 20, 99), SITES.get, MACHINES.get) is None
    assert resolve_link(link(1, 99, 20), SITES.get, MACHINES.get) is None


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
