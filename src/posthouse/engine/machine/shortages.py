"""Shortages of disk or memory, during which no messages are accepted."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple


class Scarcity(NamedTuple):
    """What runs short while no messages are taken, and what an operator can do."""

    cause: str
    remedy: str


SCARCE: Final = {
    "disk": Scarcity(
        "the disk is nearly full",
        "Free space on the disk of the home; messages that are received or purged free some, too "
        "([store] disk_reserve is what stays free).",
    ),
    "memory": Scarcity(
        "the memory for messages on their way to the disk is nearly used up",
        "Wait until the disk has caught up, or raise [limits] unsynced and memory.",
    ),
}


def scarcities(reasons: Collection[str]) -> list[Scarcity]:
    """What runs short, by the reasons of flow control."""
    other = Scarcity("{} is nearly full", "Wait, or free some.")
    return [
        SCARCE.get(reason) or other._replace(cause=other.cause.format(reason))
        for reason in sorted(reasons)
    ]
