"""Machines, routing servers and routing links of four sites."""

from __future__ import annotations

from posthouse.directory.objects import QueueManager, RoutingLink
from tests.directory.world import guid, machine


def in_site(number: int, *sites: bytes, **more: object) -> QueueManager:
    return machine(number, f"M{number}", site_identifier_list=sites, **more)


def server(number: int, *sites: bytes, **more: object) -> QueueManager:
    return in_site(number, *sites, routing_server=True, **more)


def way(number: int, one: bytes, other: bytes, cost: int, *gates: int) -> RoutingLink:
    return RoutingLink(
        identifier=guid(number),
        site1_identifier=one,
        site2_identifier=other,
        actual_cost=cost,
        site_gate_identifier_list=tuple(map(guid, gates)),
    )
