"""Association groups and the context handles that live in them ([MS-RPCE] 3.3.1.4-5, C706 9.3.3).

All connections of one client process form a group: a handle given on one of them is good on all of
them, and nowhere else. When the last one has gone, the objects of its handles are run down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from posthouse.rpc import statuses
from posthouse.rpc.security import Identity
from posthouse.rpc.statuses import Fault

HANDLE_SIZE: Final = 20  # attributes and a UUID
HANDLES_MAX: Final = 10_000  # of one group
NULL_HANDLE: Final = bytes(HANDLE_SIZE)
_ATTRIBUTES: Final = bytes(4)

Random = Callable[[int], bytes]
"""This many bytes that cannot be guessed."""


class ContextHandle:
    """What one context handle stands for, and whose it is."""

    __slots__ = ("identity", "rundown", "value")

    def __init__(
        self, value: object, rundown: Callable[[], None], identity: Identity | None
    ) -> None:
        self.value = value
        self.rundown = rundown
        self.identity = identity


class Group:
    """An association group: the connections of one client that share their handles."""

    def __init__(self, group_id: int, address: str, groups: AssociationGroups) -> None:
        self.group_id = group_id
        self.address = address
        self.connections = 0
        self.handles: dict[bytes, ContextHandle] = {}
        self._groups = groups

    def open(
        self, value: object, rundown: Callable[[], None], identity: Identity | None = None
    ) -> bytes:
        """A new handle for that value, good for that identity alone.

        `rundown` is called once if the group ends before `close`.
        """
        if len(self.handles) >= self._groups.handles_max:
            raise Fault(statuses.OUT_OF_MEMORY)
        handle = _ATTRIBUTES + self._groups.random(16)
        assert handle not in self.handles
        self.handles[handle] = ContextHandle(value, rundown, identity)
        return handle

    def find(self, handle: bytes, identity: Identity | None = None) -> object | None:
        """The object of a handle; None if it is not one of this group and this identity."""
        found = self.handles.get(handle)
        return found.value if found is not None and found.identity == identity else None

    def close(self, handle: bytes) -> None:
        """Forgets a handle whose value is done with; one that is unknown is not a mistake here."""
        self.handles.pop(handle, None)

    def leave(self) -> None:
        """A connection is gone; with the last one all that is left is run down."""
        assert self.connections > 0
        self.connections -= 1
        if not self.connections:
            self._groups.forget(self)
            self._run_down()

    def _run_down(self) -> None:
        errors: list[Exception] = []
        while self.handles:  # the end of one may close others
            _, handle = self.handles.popitem()
            try:
                handle.rundown()
            except Exception as error:  # the others are run down all the same
                errors.append(error)
        if errors:
            raise ExceptionGroup("context handles could not be run down", errors)


class Association:
    """One connection's place in its group."""

    __slots__ = ("group",)

    def __init__(self, group: Group) -> None:
        self.group = group
        group.connections += 1

    def end(self) -> None:
        """The connection is gone."""
        self.group.leave()


class AssociationGroups:
    """The association groups of a server, by the number that their clients send."""

    def __init__(self, random: Random, handles_max: int = HANDLES_MAX) -> None:
        self.random = random
        self.handles_max = handles_max
        self._groups: dict[int, Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def handles(self) -> int:
        """How many context handles are open in all."""
        return sum(len(group.handles) for group in self._groups.values())

    def join(self, group_id: int, address: str) -> Association | None:
        """A new connection's place: 0 begins a group, others have to exist already.

        A group is of one address: a number that somebody saw or guessed opens nothing elsewhere.
        """
        if not group_id:
            return Association(self._begin(address))
        group = self._groups.get(group_id)
        return Association(group) if group is not None and group.address == address else None

    def _begin(self, address: str) -> Group:
        group_id = 0
        while not group_id or group_id in self._groups:
            group_id = int.from_bytes(self.random(4), "little")
        group = self._groups[group_id] = Group(group_id, address, self)
        return group

    def forget(self, group: Group) -> None:
        """It is empty."""
        del self._groups[group.group_id]
