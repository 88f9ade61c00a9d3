"""Next hops: every condition of the procedure, routing tables, whole routes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory.objects import QueueManager, RoutingLink
from posthouse.directory.routing import (
    HOPS_MAX,
    NoRoute,
    Row,
    Topology,
    detours,
    next_hops,
    route,
)
from tests.support.routing_sites import in_site, server, way

from .world import NOW, Local, World, guid, service_of, site

A, B, C, D = (guid(number) for number in (20, 21, 22, 23))
SITES = [site(20, "A"), site(21, "B"), site(22, "C"), site(23, "D")]


def hops(
    source: QueueManager,
    target: QueueManager,
    *others: QueueManager,
    links: list[RoutingLink] | None = None,
) -> set[bytes]:
    topology = Topology(SITES, links or [], [source, target, *others])
    return set(next_hops(topology, source, target).candidates)


class TestOrdinaryMachines:
    def test_own_servers_take_everything_that_goes_out(self) -> None:
        source = in_site(1, A, out_routing_server_identifier_list=(guid(8), guid(9)))
        assert hops(source, in_site(2, A)) == {guid(8), guid(9)}

    def test_a_machine_of_the_site_is_reached_through_its_entrances(self) -> None:
        target = in_site(2, A, in_routing_server_identifier_list=(guid(8),))
        assert hops(in_site(1, A), target) == {guid(8)}

    def test_a_machine_of_the_site_is_reached_itself(self) -> None:
        assert hops(in_site(1, A, B), in_site(2, B, C)) == {guid(2)}

    def test_another_site_is_reached_through_any_routing_server(self) -> None:
        others = (server(3, A), server(4, B, A), server(5, B), in_site(6, A))
        assert hops(in_site(1, A), in_site(2, B), *others) == {guid(3), guid(4)}

    def test_entrances_in_another_site_are_no_business_of_the_sender(self) -> None:
        target = in_site(2, B, in_routing_server_identifier_list=(guid(8),))
        assert hops(in_site(1, A), target, server(3, A)) == {guid(3)}

    def test_a_site_without_a_routing_server_leads_nowhere(self) -> None:
        with pytest.raises(NoRoute, match="has a routing server"):
            hops(in_site(1, A), in_site(2, B), server(3, B))


class TestRoutingServers:
    def test_an_entrance_hands_over_itself(self) -> None:
        target = in_site(2, B, in_routing_server_identifier_list=(guid(1), guid(8)))
        assert hops(server(1, A), target) == {guid(2)}

    def test_own_exits_do_not_count(self) -> None:
        source = server(1, A, out_routing_server_identifier_list=(guid(8),))
        assert hops(source, in_site(2, A)) == {guid(2)}

    def test_entrances_of_a_machine_in_the_site_are_used(self) -> None:
        target = in_site(2, A, in_routing_server_identifier_list=(guid(8),))
        assert hops(server(1, A), target) == {guid(8)}

    def test_another_site_is_reached_through_any_gate_of_the_own(self) -> None:
        links = [way(30, A, B, 1, 3, 4, 5), way(31, C, A, 1, 6)]
        others = (server(3, A), server(4, B), in_site(5, A), server(6, A))
        # 4 is in another site, 5 routes nothing: neither is a gate of this one
        assert hops(server(1, A), in_site(2, B), *others, links=links) == {guid(3), guid(6)}

    def test_a_site_without_a_gate_leads_nowhere(self) -> None:
        with pytest.raises(NoRoute, match="has a gate"):
            hops(server(1, A), in_site(2, B), links=[way(30, A, B, 1)])


class TestGates:
    def test_a_gate_hands_over_to_the_gates_of_the_next_site(self) -> None:
        links = [way(30, A, B, 3, 1, 3, 4), way(31, B, C, 1, 3, 5)]
        others = (server(3, B), server(4, B), server(5, C))
        assert hops(server(1, A), in_site(2, C), *others, links=links) == {guid(3), guid(4)}

    def test_inside_its_sites_a_gate_is_a_routing_server(self) -> None:
        links = [way(30, A, B, 3, 1, 3)]
        target = in_site(2, A, in_routing_server_identifier_list=(guid(8),))
        assert hops(server(1, A), target, server(3, B), links=links) == {guid(8)}
        assert hops(server(1, A), in_site(2, A), server(3, B), links=links) == {guid(2)}

    def test_the_cheapest_of_several_sites_of_the_destination_counts(self) -> None:
        links = [way(30, A, B, 5, 1, 3), way(31, A, C, 4, 1, 4)]
        others = (server(3, B), server(4, C))
        assert hops(server(1, A), in_site(2, B, C), *others, links=links) == {guid(4)}

    def test_no_link_leads_there(self) -> None:
        with pytest.raises(NoRoute, match="no links lead"):
            hops(server(1, A), in_site(2, D), server(3, B), links=[way(30, A, B, 1, 1, 3)])

    def test_the_next_site_has_no_gate(self) -> None:
        with pytest.raises(NoRoute, match="which has no gate"):
            hops(server(1, A), in_site(2, B), links=[way(30, A, B, 1, 1)])


@pytest.mark.parametrize(("source", "target"), [((), (A,)), ((A,), ())])
def test_a_machine_in_no_site_is_told_apart(
    source: tuple[bytes, ...], target: tuple[bytes, ...]
) -> None:
    with pytest.raises(NoRoute, match="is in no site"):
        hops(in_site(1, *source), in_site(2, *target), server(3, A))


def test_nobody_is_its_own_next_hop() -> None:
    source = in_site(1, A, out_routing_server_identifier_list=(guid(1),))
    with pytest.raises(NoRoute, match="itself"):
        hops(source, in_site(2, A))


def test_candidates_come_in_an_order_of_the_asker() -> None:
    servers = [server(number, A) for number in range(10, 20)]
    sources = [in_site(number, A) for number in range(30, 60)]
    topology = Topology(SITES, [], [*servers, *sources])
    firsts = {next_hops(topology, one, in_site(2, B)).candidates[0] for one in sources}
    assert len(firsts) > 5
    again = next_hops(topology, sources[0], in_site(2, B))
    assert again == next_hops(topology, sources[0], in_site(2, B))


class TestTables:
    def test_the_cheapest_way_counts_not_the_shortest(self) -> None:
        first = [way(30, A, B, 3), way(31, B, C, 1), way(32, B, D, 1), way(33, C, D, 1)]
        assert Topology(SITES, first, []).table([A])[C] == Row(4, B)
        second = [way(30, A, B, 3), way(31, B, C, 3), way(32, C, D, 1), way(33, B, D, 1)]
        topology = Topology(SITES, second, [])
        assert topology.table([A])[C] == Row(5, B)
        assert topology.table([B])[C] == Row(2, D)

    def test_of_equal_ways_all_choose_the_smallest_next_site(self) -> None:
        links = [way(30, A, C, 1), way(31, A, B, 1), way(32, B, D, 1), way(33, C, D, 1)]
        assert Topology(SITES, links, []).table([A])[D] == Row(2, min(B, C))

    def test_all_own_sites_cost_nothing(self) -> None:
        links = [way(30, A, B, 9), way(31, B, C, 1)]
        table = Topology(SITES, links, []).table([A, B])
        assert table == {C: Row(1, C)}

    def test_links_to_unknown_sites_are_skipped(self) -> None:
        links = [way(30, A, guid(99), 1), way(31, guid(99), B, 1)]
        assert Topology(SITES, links, []).table([A]) == {}


def test_a_route_is_told_hop_by_hop() -> None:
    machines = {
        one.identifier: one
        for one in (in_site(1, A), server(3, A), server(4, A), server(5, B), in_site(2, B))
    }
    topology = Topology(SITES, [way(30, A, B, 7, 4, 5)], machines.values())
    steps = route(topology, machines, guid(1), guid(2))
    assert [step.target for step in steps][-2:] == [guid(5), guid(2)]
    assert steps[0].source == guid(1)
    assert "cost of 7" in steps[-2].rule
    assert "same site" in steps[-1].rule


def test_a_route_that_is_too_long_is_none() -> None:
    """Sites in a row, each with a gate: behind the limit messages would end on their way."""
    sites = [site(100 + at, f"S{at}") for at in range(HOPS_MAX + 2)]
    gates = [server(at, guid(100 + at)) for at in range(1, HOPS_MAX + 2)]
    ends = in_site(50, guid(101)), in_site(51, sites[-1].identifier)
    links = [
        way(200 + at, guid(100 + at), guid(101 + at), 1, at, at + 1)
        for at in range(1, HOPS_MAX + 1)
    ]
    machines = {m.identifier: m for m in (*gates, *ends)}
    topology = Topology(sites, links, machines.values())
    near = route(topology, machines, guid(50), guid(HOPS_MAX))
    assert len(near) == HOPS_MAX
    with pytest.raises(NoRoute, match=f"after {HOPS_MAX} hops"):
        route(topology, machines, guid(50), guid(51))


def test_who_does_not_route_gets_nothing_for_others() -> None:
    """A poisoned entry would have messages refused for good; so they wait, or go elsewhere."""
    source = in_site(1, A, out_routing_server_identifier_list=(guid(8), guid(9)))
    assert hops(source, in_site(2, A), in_site(8, A), server(9, A)) == {guid(9)}
    with pytest.raises(NoRoute, match="none of them is a routing server"):
        hops(source, in_site(2, A), in_site(8, A), in_site(9, A))
    target = in_site(2, A, in_routing_server_identifier_list=(guid(1), guid(8)))
    with pytest.raises(NoRoute, match="none of them is a routing server"):
        hops(in_site(1, A), target, in_site(8, A))


def test_detours_lead_over_routing_servers_of_the_shared_site_only() -> None:
    here, there = in_site(1, A, B), in_site(2, A)
    machines = [here, there, server(7, B), server(8, A), server(9, A, B), in_site(6, A)]
    topology = Topology(SITES, [], machines)
    assert set(detours(topology, here, there)) == {guid(8), guid(9)}
    assert detours(topology, server(8, A), there) == []  # or they would ask each other for ever
    entered = in_site(2, A, in_routing_server_identifier_list=(guid(8),))
    assert detours(topology, here, entered) == []
    assert detours(topology, here, in_site(3, C)) == []


def test_a_route_needs_known_machines() -> None:
    outer = in_site(1, A, out_routing_server_identifier_list=(guid(8),))
    machines = {guid(1): outer, guid(2): in_site(2, A)}
    topology = Topology(SITES, [], machines.values())
    with pytest.raises(NoRoute, match="has none of them"):
        route(topology, machines, guid(1), guid(2))


COSTS = st.integers(1, 5)


@given(
    st.dictionaries(st.sampled_from(list(itertools.combinations((A, B, C, D), 2))), COSTS),
    st.sampled_from((A, B, C, D)),
)
def test_tables_hold_the_cheapest_ways(costs: dict[tuple[bytes, bytes], int], own: bytes) -> None:
    links = [way(30 + at, *pair, cost) for at, (pair, cost) in enumerate(costs.items())]
    table = Topology(SITES, links, []).table([own])
    both = costs | {(other, one): cost for (one, other), cost in costs.items()}
    for target in {A, B, C, D} - {own}:
        between = {A, B, C, D} - {own, target}
        ways = [
            (sum(both.get(leg, 10**6) for leg in itertools.pairwise(path)), path[1])
            for count in range(3)
            for middle in itertools.permutations(between, count)
            for path in [(own, *middle, target)]
        ]
        cost, next_site = min(ways)
        assert table.get(target) == (Row(cost, next_site) if cost < 10**6 else None)


@given(st.data())
def test_every_route_ends_where_it_should_or_is_none(data: st.DataObject) -> None:
    some_sites = st.lists(st.sampled_from((A, B, C, D)), max_size=2, unique=True)
    servers = st.lists(st.integers(1, 8).map(guid), max_size=2, unique=True)
    machines = {
        guid(number): in_site(
            number,
            *data.draw(some_sites),
            routing_server=data.draw(st.booleans()),
            in_routing_server_identifier_list=tuple(data.draw(servers)),
            out_routing_server_identifier_list=tuple(data.draw(servers)),
        )
        for number in range(1, 9)
    }
    pairs = list(itertools.combinations((A, B, C, D), 2))
    links = [
        way(30 + at, *pair, data.draw(COSTS), *data.draw(st.lists(st.integers(1, 9), max_size=3)))
        for at, pair in enumerate(data.draw(st.lists(st.sampled_from(pairs), unique=True)))
    ]
    topology = Topology(SITES, links, machines.values())
    for one, other in itertools.permutations(machines, 2):
        try:
            steps = route(topology, machines, one, other)
        except NoRoute:
            continue
        assert steps[0].source == one
        assert steps[-1].target == other
        assert all(a.target == b.source for a, b in itertools.pairwise(steps))
        assert len(steps) <= HOPS_MAX


@pytest.mark.usefixtures("any_directory")
class TestService:
    def world(self) -> tuple[World, Local]:
        own = in_site(1, A)
        world = World()
        world.add(own, in_site(2, B), server(3, A), *SITES)
        return world, Local(own)

    def test_the_directory_says_who_routes(self) -> None:
        service = service_of(*self.world())
        assert service.next_hops(guid(2), NOW).candidates == (guid(3),)

    def test_a_change_made_here_counts_at_once(self) -> None:
        service = service_of(*self.world())
        service.next_hops(guid(2), NOW)
        service.create_directory_object(server(4, A), NOW, NOW)
        assert set(service.next_hops(guid(2), NOW).candidates) == {guid(3), guid(4)}
        service.delete_directory_object(server(3, A), NOW)
        assert service.next_hops(guid(2), NOW).candidates == (guid(4),)
        service.write_directory(in_site(2, A), NOW, NOW)
        assert service.next_hops(guid(2), NOW).candidates == (guid(2),)

    def test_a_change_made_elsewhere_counts_after_the_hour(self) -> None:
        world, local = self.world()
        service = service_of(world, local)
        service.initialize(NOW)
        service.next_hops(guid(2), NOW)
        world.add(server(4, A))
        assert service.next_hops(guid(2), NOW).candidates == (guid(3),)
        service.advance(NOW + 3_600_000)
        assert set(service.next_hops(guid(2), NOW).candidates) == {guid(3), guid(4)}

    def test_an_unknown_machine_cannot_be_reached(self) -> None:
        with pytest.raises(NoRoute, match="no queue manager"):
            service_of(*self.world()).next_hops(guid(99), NOW)

    def test_without_a_directory_there_is_no_routing(self) -> None:
        with pytest.raises(NoRoute, match="cannot be reached"):
            service_of(*self.world(), integrated=False).next_hops(guid(2), NOW)
