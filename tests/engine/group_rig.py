"""A queue manager with groups: what tests of leases, claims and acknowledgments stand on."""

from __future__ import annotations

from typing import Any

from posthouse.engine.pipelines.claims import ClaimRange
from posthouse.engine.queues.queue import Group
from posthouse.model.group_names import GroupMode
from posthouse.runtime.driver import Answer
from tests.engine.rig import RECEIVE, Rig

CONSUME, OBSERVE = GroupMode.CONSUME, GroupMode.OBSERVE
SHARING_VIOLATION = 0xC00E0009
INVALID_PARAMETER = 0xC00E0006
LEASE_S = 15


class GroupRig(Rig):
    """Queue `q`, and groups of it by name."""

    def __init__(self, *, queue: dict[str, Any] | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.create("q", **(queue or {}))

    def fill(self, count: int, to: str = "q", **attributes: Any) -> list[int]:
        """Messages numbered from 0; returns the lookup ids of all that are there."""
        for number in range(count):
            self.send(to, b"%d" % number, **attributes)
        return self.ids(to)

    def ids(self, name: str = "q") -> list[int]:
        order = self.queue(name).state.order
        return sorted(place.lookup_id for place, _ in order.forward())

    def group(self, name: str = "g", queue: str = "q") -> Group:
        return self.queue(queue).groups[name]

    def lease(
        self,
        name: str = "g",
        queue: str = "q",
        mode: GroupMode = CONSUME,
        owner: str = "me",
        **options: Any,
    ) -> int:
        """Returns the epoch."""
        held = self.queue(queue)
        group = self.run(lambda m: m.groups.lease(held, name, mode, owner, **options))
        return group.definition.epoch

    def claim(
        self, epoch: int, through: int, name: str = "g", queue: str = "q", **asked: Any
    ) -> None:
        group = self.group(name, queue)
        self.run(lambda m: m.groups.claim(group, epoch, ClaimRange(through, **asked)))

    def acknowledge(
        self, epoch: int | None, through: int, name: str = "g", queue: str = "q", stream: str = ""
    ) -> int:
        """Returns how many messages were received, when all of them are."""
        group = self.group(name, queue)
        return self.run(lambda m: m.groups.acknowledge(group, epoch, through, stream)).received

    def begin_acknowledging(self, epoch: int | None, through: int) -> list[Answer]:
        """The first turn of an acknowledgment; the list gets its answer."""
        group, answers = self.group(), list[Answer]()
        self.driver.begin_turn()
        self.driver.decide(lambda m: m.groups.acknowledge(group, epoch, through), answers.append)
        self.driver.end_turn()
        self.driver.sync()
        self.driver.release()
        return answers

    def release(self, name: str = "g", queue: str = "q") -> int:
        group = self.group(name, queue)
        return self.run(lambda m: m.groups.release(group))

    def claimed(self, count: int, through: int = 0, **attributes: Any) -> tuple[int, list[int]]:
        """This many messages, the first few of them claimed by the group: its epoch and all ids."""
        ids = self.fill(count, **attributes)
        epoch = self.lease()
        self.claim(epoch, ids[through - 1])
        return epoch, ids

    def lapse(self) -> None:
        """Nobody renews the lease."""
        self.advance(LEASE_S)

    def purge(self, name: str = "q") -> int:
        reader = self.open(name, RECEIVE)
        try:
            return self.run(lambda m: m.queues.purge_queue(reader))
        finally:
            self.close(reader)
