"""Who names an object of the directory."""

from __future__ import annotations

import pytest

from posthouse.directory.objects import (
    ConnectedNetwork,
    DirectoryObject,
    DistributionList,
    QueueAlias,
    User,
)
from posthouse.directory.references import who_names
from posthouse.model.guids import format_guid

from .world import ALICE, guid, link, machine, queue, site

NORTH, SOUTH = site(1, "North"), site(2, "South")
GATE = machine(3, "GATE", site_identifier_list=(guid(1), guid(2)))
BETA = machine(
    4,
    "BETA",
    site_identifier_list=(guid(2),),
    in_routing_server_identifier_list=(guid(3),),
    connected_network_identifier_list=(guid(10),),
)
WAY = link(5, 1, 2, 3)
ORDERS = queue(6, r"BETA\orders", queue_manager_identifier=guid(4))
ALIAS = QueueAlias(identifier=guid(7), name="Till", format_name=f"PUBLIC={format_guid(guid(6))}")
MEMBERS = (f"DL={format_guid(guid(7))}", f"PUBLIC={format_guid(guid(6))}")
LIST = DistributionList(identifier=guid(8), name="All", members=MEMBERS)
OUTER = DistributionList(identifier=guid(9), name="More", members=(f"DL={format_guid(guid(8))}",))
NET = ConnectedNetwork(identifier=guid(10), name="net")
ADA = User(identifier=guid(11), security_identifier=ALICE)
WORLD = [NORTH, SOUTH, GATE, BETA, WAY, ORDERS, ALIAS, LIST, OUTER, NET, ADA]


@pytest.mark.parametrize(
    ("value", "named_by"),
    [
        (NORTH, [GATE, WAY]),
        (SOUTH, [GATE, BETA, WAY]),
        (GATE, [BETA, WAY]),
        (BETA, [ORDERS]),
        (WAY, []),
        (ORDERS, [ALIAS, LIST]),
        (ALIAS, [LIST]),
        (LIST, [OUTER]),
        (OUTER, []),
        (NET, [BETA]),
        (ADA, []),
    ],
)
def test_whoever_names_an_object_is_found(
    value: DirectoryObject, named_by: list[DirectoryObject]
) -> None:
    assert who_names(value, WORLD) == named_by
