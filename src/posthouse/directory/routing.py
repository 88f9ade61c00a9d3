"""Next hops between queue managers: the decision procedure and the routing table ([MS-MQBR]).

Pure: a `Topology` is a picture of sites, links and routing servers, taken when the directory
changed or a timer fired; machines are looked up one by one. The caller gets all candidates, in
an order of the asker's own, so that one dead routing server does not block others.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from posthouse.directory.objects import QueueManager, RoutingLink, Site

HOPS_MAX: Final = 29  # UserHeader.Flags.RC: the only guard against loops on the wire


class NoRoute(Exception):
    """There is no way now, and why in words."""


class Hops(NamedTuple):
    """Whom to hand a message to, the first one first, and by which rule."""

    candidates: tuple[bytes, ...]
    rule: str


class Row(NamedTuple):
    """A row of a gate's routing table: the way to a site begins with another one."""

    cost: int
    next_site: bytes


class Step(NamedTuple):
    """One hop of a route."""

    source: bytes
    target: bytes
    rule: str


class Topology:
    """Sites, the links between them, and who routes in them."""

    def __init__(
        self,
        sites: Iterable[Site],
        links: Iterable[RoutingLink],
        machines: Iterable[QueueManager],
    ) -> None:
        self.sites: Mapping[bytes, Site] = {site.identifier: site for site in sites}
        # 1.4: a link whose sites are unknown leads nowhere.
        self.links = [
            link
            for link in links
            if link.site1_identifier in self.sites and link.site2_identifier in self.sites
        ]
        self.routing_servers: dict[bytes, list[bytes]] = {}
        self.ordinary: set[bytes] = set()  # machines that pass nothing on
        self.connectors: dict[bytes, dict[bytes, QueueManager]] = {}  # by foreign site
        self.gates: dict[bytes, list[bytes]] = {}
        named = self._named_gates()
        for machine in machines:
            if machine.routing_server:
                self._enter(machine, named)
            else:
                self.ordinary.add(machine.identifier)
        self._ways: dict[frozenset[bytes], dict[bytes, Row]] = {}

    def _named_gates(self) -> dict[bytes, set[bytes]]:
        """By site, the machines that its links name as gates."""
        named: dict[bytes, set[bytes]] = {}
        for link in self.links:
            for site in (link.site1_identifier, link.site2_identifier):
                named.setdefault(site, set()).update(link.site_gate_identifier_list)
        return named

    def _enter(self, server: QueueManager, named: Mapping[bytes, set[bytes]]) -> None:
        for site in server.site_identifier_list:
            self.routing_servers.setdefault(site, []).append(server.identifier)
            if self._is_foreign(site) and not server.foreign_system:
                self.connectors.setdefault(site, {})[server.identifier] = server
            if server.identifier in named.get(site, ()):
                self.gates.setdefault(site, []).append(server.identifier)

    def _is_foreign(self, site: bytes) -> bool:
        return site in self.sites and self.sites[site].foreign_site

    def is_gate(self, machine: QueueManager) -> bool:
        """IsSiteGate: a routing server that a link of one of its own sites names."""
        return any(
            machine.identifier in self.gates.get(site, ()) for site in machine.site_identifier_list
        )

    def table(self, own_sites: Iterable[bytes]) -> Mapping[bytes, Row]:
        """The routing table of a gate in these sites: Dijkstra from all of them at cost 0.

        Of equally cheap ways the one whose next site has the smallest GUID: all gates agree.
        """
        start = frozenset(own_sites)
        if start not in self._ways:
            self._ways[start] = self._cheapest(start)
        return self._ways[start]

    def _cheapest(self, start: frozenset[bytes]) -> dict[bytes, Row]:
        neighbours: dict[bytes, list[tuple[bytes, int]]] = {}
        for link in self.links:
            one, other, cost = link.site1_identifier, link.site2_identifier, link.actual_cost
            neighbours.setdefault(one, []).append((other, cost))
            neighbours.setdefault(other, []).append((one, cost))
        rows: dict[bytes, Row] = {}
        # Cost, next site, site: the smallest next site wins among equal costs.
        heap = [(0, b"", site) for site in sorted(start)]
        while heap:
            cost, first, site = heapq.heappop(heap)
            if site in rows or (site in start and cost):
                continue
            rows[site] = Row(cost, first)
            for neighbour, more in neighbours.get(site, ()):
                if neighbour not in rows:
                    heapq.heappush(heap, (cost + more, first or neighbour, neighbour))
        return {site: row for site, row in rows.items() if site not in start}


def next_hops(topology: Topology, source: QueueManager, destination: QueueManager) -> Hops:
    """Get Next Hops: whom `source` hands a message for `destination` to.

    Raises NoRoute. Source and destination are different machines. A foreign system is reached
    through the machine that has its connector queue.
    """
    if destination.foreign_system:
        destination = connector_of(topology, destination).server
        if destination.identifier == source.identifier:
            raise NoRoute("they wait here for room in the connector queue")
    hops = _decide(topology, source, destination)
    others = [guid for guid in dict.fromkeys(hops.candidates) if guid != source.identifier]
    if not others:
        raise NoRoute(f"{hops.rule}, and that is {source.computer_name} itself")
    # Who does not route would refuse what is for others, and that would be its end.
    end, ordinary = destination.identifier, topology.ordinary
    able = [guid for guid in others if guid == end or guid not in ordinary]
    if not able:
        raise NoRoute(f"{hops.rule}, but none of them is a routing server")
    return Hops(_by_lot(source, able), hops.rule)


def detours(topology: Topology, source: QueueManager, destination: QueueManager) -> list[bytes]:
    """Who may get through to a machine of the own site that cannot be reached from here.

    Routing servers of the site; but they ask none of each other, or messages for a machine that
    is down would go round among them until their hops are used up.
    """
    if source.routing_server or destination.in_routing_server_identifier_list:
        return []
    sites = set(source.site_identifier_list) & set(destination.site_identifier_list)
    found = [guid for site in sorted(sites) for guid in topology.routing_servers.get(site, ())]
    ends = source.identifier, destination.identifier
    return list(_by_lot(source, [guid for guid in dict.fromkeys(found) if guid not in ends]))


def _by_lot(source: QueueManager, candidates: list[bytes]) -> tuple[bytes, ...]:
    return tuple(sorted(candidates, key=lambda guid: _lot(source.identifier, guid)))


class Connector(NamedTuple):
    """Where messages for a foreign system leave the enterprise: a queue manager, and its site."""

    server: QueueManager
    site: bytes


def connector_of(topology: Topology, system: QueueManager) -> Connector:
    """The one connector server of a foreign system: a routing server of its foreign site.

    The same for everybody who asks, or sequences of messages would end in two places; one that
    the system names as in-routing server goes first. Raises NoRoute.
    """
    found = {
        guid: Connector(server, site)
        for site in system.site_identifier_list
        for guid, server in topology.connectors.get(site, {}).items()
    }
    if not found:
        raise NoRoute(f"no routing server belongs to a foreign site of {system.computer_name}")
    named = [guid for guid in system.in_routing_server_identifier_list if guid in found]
    return found[(named or sorted(found, key=lambda guid: _lot(system.identifier, guid)))[0]]


def _lot(source: bytes, candidate: bytes) -> bytes:
    """Each machine tries its candidates in an order of its own, and always in the same."""
    return blake2b(source + candidate, digest_size=8).digest()


def _decide(topology: Topology, source: QueueManager, destination: QueueManager) -> Hops:
    """The table of conditions; the first that holds decides."""
    name = destination.computer_name
    shared = share_a_site(topology, source, destination)
    entrances = destination.in_routing_server_identifier_list
    if not source.routing_server:
        if source.out_routing_server_identifier_list:
            out = source.out_routing_server_identifier_list
            return Hops(out, f"{source.computer_name} sends everything through its own servers")
    elif source.identifier in entrances:
        return Hops((destination.identifier,), f"messages for {name} come through this machine")
    if shared and entrances:
        return Hops(entrances, f"messages for {name} come through its own servers")
    if shared:
        return Hops((destination.identifier,), f"{name} is in the same site")
    if not source.site_identifier_list:
        raise NoRoute(f"{source.computer_name} is in no site")
    if not destination.site_identifier_list:
        raise NoRoute(f"{name} is in no site")
    if not source.routing_server:
        servers = _of_sites(topology.routing_servers, source)
        if not servers:
            raise NoRoute(f"no site of {source.computer_name} has a routing server")
        return Hops(servers, f"{name} is in another site, so messages go through a routing server")
    if not topology.is_gate(source):
        gates = _of_sites(topology.gates, source)
        if not gates:
            raise NoRoute(f"no site of {source.computer_name} has a gate to other sites")
        return Hops(gates, f"{name} is in another site, and gates lead there")
    return _over_a_link(topology, source, destination)


def share_a_site(topology: Topology, one: QueueManager, other: QueueManager) -> bool:
    """Whether two machines are well connected; without sites, all are."""
    sites = set(one.site_identifier_list) & set(other.site_identifier_list)
    return bool(sites) or not topology.sites


def _of_sites(by_site: Mapping[bytes, list[bytes]], machine: QueueManager) -> tuple[bytes, ...]:
    return tuple(guid for site in machine.site_identifier_list for guid in by_site.get(site, ()))


def _over_a_link(topology: Topology, source: QueueManager, destination: QueueManager) -> Hops:
    """From gate to gate, along the cheapest way to any site of the destination."""
    table = topology.table(source.site_identifier_list)
    rows = [table[site] for site in destination.site_identifier_list if site in table]
    if not rows:
        raise NoRoute(f"no links lead to a site of {destination.computer_name}")
    best = min(rows)
    site = topology.sites[best.next_site].name
    gates = tuple(topology.gates.get(best.next_site, ()))
    if not gates:
        raise NoRoute(f"the way leads through {site}, which has no gate")
    return Hops(gates, f"the cheapest way, at a cost of {best.cost}, leads through {site}")


def route(
    topology: Topology, machines: Mapping[bytes, QueueManager], source: bytes, destination: bytes
) -> list[Step]:
    """The whole way of a message while everybody can be reached, one step for each hop.

    Raises NoRoute, also where it would go round in circles. Both ends are among the machines.
    """
    target, at = machines[destination], machines[source]
    steps: list[Step] = []
    behind: list[Step] = []
    if target.foreign_system:
        connector = connector_of(topology, target)
        site, target = topology.sites[connector.site].name, connector.server
        rule = f"through the connector queue of {site}"
        behind.append(Step(target.identifier, destination, rule))
    while at.identifier != target.identifier:
        if len(steps) >= HOPS_MAX:
            raise NoRoute(f"after {HOPS_MAX} hops the message is still on its way")
        hops = next_hops(topology, at, target)
        known = [guid for guid in hops.candidates if guid in machines]
        if not known:
            raise NoRoute(f"{hops.rule}, but the directory has none of them")
        steps.append(Step(at.identifier, known[0], hops.rule))
        at = machines[known[0]]
    return steps + behind
