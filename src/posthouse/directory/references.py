"""Finds the objects of the directory that refer to an object which is to be deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from posthouse.directory.objects import (
    ConnectedNetwork,
    DirectoryObject,
    DistributionList,
    Queue,
    QueueAlias,
    QueueManager,
    RoutingLink,
    Site,
)
from posthouse.model.guids import format_guid

_BY_IDENTIFIER: Final[dict[type[DirectoryObject], dict[type[DirectoryObject], tuple[str, ...]]]] = {
    Site: {
        QueueManager: ("site_identifier_list",),
        RoutingLink: ("site1_identifier", "site2_identifier"),
    },
    QueueManager: {
        QueueManager: ("in_routing_server_identifier_list", "out_routing_server_identifier_list"),
        RoutingLink: ("site_gate_identifier_list",),
        Queue: ("queue_manager_identifier",),
    },
    ConnectedNetwork: {QueueManager: ("connected_network_identifier_list",)},
}
"""By the kind that is named, the attributes of others that have its identifier."""

_BY_FORMAT_NAME: Final = {Queue: "PUBLIC=", DistributionList: "DL=", QueueAlias: "DL="}


def who_names(value: DirectoryObject, others: Iterable[DirectoryObject]) -> list[DirectoryObject]:
    """Those of the others that name the object."""
    return [one for one in others if one is not value and _names(one, value)]


def _names(one: DirectoryObject, value: DirectoryObject) -> bool:
    kind, key = type(value), value.identifier
    if isinstance(one, DistributionList | QueueAlias):
        named = one.members if isinstance(one, DistributionList) else (one.format_name,)
        return kind in _BY_FORMAT_NAME and f"{_BY_FORMAT_NAME[kind]}{format_guid(key)}" in named
    attributes = _BY_IDENTIFIER.get(kind, {}).get(type(one), ())
    found = (getattr(one, attribute) for attribute in attributes)
    return any(key in held if isinstance(held, tuple) else key == held for held in found)
