"""Fault plans of a simulated disk: counts calls, and decides which of them fail."""

import errno
from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

Kind = Literal[
    "create",
    "write",
    "truncate",
    "begin",
    "sync",
    "rename",
    "unlink",
    "sync_directory",
    "read",
    "note",
    "any",
]
"""Kinds of calls. `any` stands for every call that changes or syncs.

A `read` is not among them, and neither is the `begin` of a write that a sync soon waits for.
"""

_APART = ("read", "begin")


class PowerLost(RuntimeError):
    """The simulated machine is off; not an OSError, so that it is not taken for a disk error."""


class Operation(NamedTuple):
    """One call in `SimDisk.operations`; fields that its kind does not use stay empty.

    `error` is the errno the call raised, 0 when it went well.
    """

    kind: Kind
    name: str = ""
    offset: int = 0
    size: int = 0
    to: str = ""
    error: int = 0


@dataclass
class Fault:
    """Calls number `first` up to and without `last` of a kind go wrong."""

    kind: Kind
    first: int
    last: int
    error: int = errno.EIO
    power: bool = False


class Faults:
    """Counts calls by kind and states which one has to fail."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.plan: list[Fault] = []

    def copy(self) -> "Faults":
        """A copy with the present counts and plan."""
        other = Faults()
        other.calls = self.calls.copy()
        other.plan = [replace(fault) for fault in self.plan]
        return other

    def add(self, fault: Fault) -> None:
        """Plan a fault; its numbers count from the next call of its kind."""
        before = self.calls[fault.kind]
        fault.first += before
        fault.last += before
        self.plan.append(fault)

    def count(self, kind: Kind) -> Fault | None:
        """Count one call; the fault it has to meet, if any."""
        self.calls[kind] += 1
        if kind not in _APART:
            self.calls["any"] += 1
        for fault in self.plan:
            if fault.kind in self._kinds(kind) and self._due(fault):
                return fault
        return None

    def _kinds(self, kind: Kind) -> tuple[str, ...]:
        return (kind,) if kind in _APART else (kind, "any")

    def _due(self, fault: Fault) -> bool:
        return fault.first <= self.calls[fault.kind] < fault.last
