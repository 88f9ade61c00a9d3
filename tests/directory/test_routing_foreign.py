"""Foreign systems: whoever has their connector queue gets what is for them."""

from __future__ import annotations

import pytest

from posthouse.directory.objects import QueueManager
from posthouse.directory.routing import NoRoute, Topology, connector_of, next_hops, route
from tests.support.routing_sites import in_site, server, way

from .world import guid, site

NORTH, SOUTH, BEYOND, PLAIN = (guid(number) for number in (20, 21, 22, 23))
SITES = [
    site(20, "North"),
    site(21, "South"),
    site(22, "Beyond", foreign_site=True),
    site(23, "Plain"),
]
STREAMS = in_site(2, BEYOND, foreign_system=True)


def foreign(number: int, *sites: bytes, **more: object) -> QueueManager:
    return in_site(number, *sites, foreign_system=True, **more)


def hops(topology: Topology, source: QueueManager, target: QueueManager) -> set[bytes]:
    return set(next_hops(topology, source, target).candidates)


def test_a_machine_hands_it_to_the_connector_server_of_its_site() -> None:
    source, gate = in_site(1, NORTH), server(3, NORTH, BEYOND)
    assert hops(Topology(SITES, [], [source, gate, STREAMS]), source, STREAMS) == {guid(3)}


def test_a_machine_of_the_foreign_site_does_so_as_well() -> None:
    source, gate = in_site(1, BEYOND), server(3, NORTH, BEYOND)
    assert hops(Topology(SITES, [], [source, gate, STREAMS]), source, STREAMS) == {guid(3)}


def test_other_sites_send_it_towards_the_connector_server() -> None:
    source, router = in_site(1, SOUTH), server(4, SOUTH)
    gate, connector = server(5, NORTH), server(3, NORTH, BEYOND)
    links = [way(30, NORTH, SOUTH, 3, 4, 5)]
    topology = Topology(SITES, links, [source, router, gate, connector, STREAMS])
    assert hops(topology, source, STREAMS) == {guid(4)}
    assert hops(topology, router, STREAMS) == {guid(5)}
    assert hops(topology, gate, STREAMS) == {guid(3)}


def test_the_whole_way_ends_behind_the_connector_queue() -> None:
    source, gate = in_site(1, NORTH), server(3, NORTH, BEYOND)
    machines = {one.identifier: one for one in (source, gate, STREAMS)}
    steps = route(Topology(SITES, [], machines.values()), machines, guid(1), guid(2))
    assert [(step.source, step.target) for step in steps] == [
        (guid(1), guid(3)),
        (guid(3), guid(2)),
    ]
    assert steps[-1].rule == "through the connector queue of Beyond"


def test_everybody_knows_the_same_connector_server_of_a_system() -> None:
    servers = [server(number, NORTH, BEYOND) for number in range(10, 16)]
    systems = [foreign(number, BEYOND) for number in range(40, 80)]
    there = Topology(SITES, [], [*servers, *systems])
    here = Topology(SITES, [], [*systems, *reversed(servers)])
    chosen = [connector_of(there, system).server.identifier for system in systems]
    assert chosen == [connector_of(here, system).server.identifier for system in systems]
    assert len(set(chosen)) > 1  # and they share the work


def test_a_system_may_name_its_connector_server() -> None:
    servers = [server(number, NORTH, BEYOND) for number in range(10, 16)]
    for wanted in range(10, 16):
        # 8 is not known, 9 is not a connector server: neither counts
        names = (guid(8), guid(9), guid(wanted))
        system = foreign(2, BEYOND, in_routing_server_identifier_list=names)
        topology = Topology(SITES, [], [*servers, server(9, NORTH), system])
        assert connector_of(topology, system).server.identifier == guid(wanted)


@pytest.mark.parametrize(
    "others",
    [
        (),
        (in_site(3, NORTH, BEYOND),),  # routes nothing
        (server(3, NORTH),),  # does not belong to the site
        (server(3, PLAIN),),
        (server(3, NORTH, BEYOND, foreign_system=True),),  # is one itself
    ],
)
def test_without_a_connector_server_there_is_no_way(others: tuple[QueueManager, ...]) -> None:
    source = in_site(1, NORTH)
    topology = Topology(SITES, [], [source, STREAMS, *others])
    with pytest.raises(NoRoute, match="no routing server belongs to a foreign site of M2"):
        next_hops(topology, source, STREAMS)


@pytest.mark.parametrize("sites", [(), (PLAIN,), (guid(99),)])
def test_a_foreign_system_in_no_foreign_site_is_not_reached(sites: tuple[bytes, ...]) -> None:
    source, system = in_site(1, PLAIN), foreign(2, *sites)
    topology = Topology(SITES, [], [source, server(3, PLAIN, BEYOND), system])
    with pytest.raises(NoRoute, match="no routing server belongs to a foreign site"):
        next_hops(topology, source, system)


def test_the_connector_server_itself_has_no_next_hop() -> None:
    gate = server(3, NORTH, BEYOND)
    with pytest.raises(NoRoute, match="connector queue"):
        next_hops(Topology(SITES, [], [gate, STREAMS]), gate, STREAMS)
