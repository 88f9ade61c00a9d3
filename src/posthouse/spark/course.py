"""The course of a stream: what its one reader in the driver knows and decides."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final

from posthouse.client.bulk_read import Cut, QueuePlan, Wanted
from posthouse.client.groups import GroupState
from posthouse.model.errors import MessageAlreadyReceived
from posthouse.spark.batch import starting
from posthouse.spark.checkpoints import committed_offsets, sync_checkpoint
from posthouse.spark.endpoint import Endpoint
from posthouse.spark.leases import CONSUME, OBSERVE, Leases, committed_through, owner_of
from posthouse.spark.limits import Limits, shares
from posthouse.spark.offsets import StreamOffset
from posthouse.spark.options import SourceOptions
from posthouse.spark.places import Place, found_places, urls_of
from posthouse.spark.portions import Extent, Portion, check_loss, counted, portions

WAIT_MS: Final = 100  # for something new; Spark asks again at once
WAIT_SHARED_MS: Final = 20  # where another queue manager is to be asked too
LOOK_S: Final = 10.0  # between looks for new queues that match a pattern


class Course:
    """Where the queues of a stream are, what was planned of them, what is held there."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.places: dict[str, Place] = {}
        self._endpoints = [Endpoint(manager) for manager in options.managers]
        self._plans: dict[str, QueuePlan] = {}
        self._latest: dict[str, int] = {}
        self._positions: dict[str, int] = {}
        self._claimed: dict[str, int] = {}  # when the leases were taken
        self._first = StreamOffset()
        self._goal: dict[str, int] | None = None
        self._looked_at = 0.0
        self._turn = 0
        mode = CONSUME if options.consume else OBSERVE
        owner = owner_of(options.checkpoint)
        self._leases = Leases(options.group, mode, owner) if options.group else None

    @property
    def _plan_group(self) -> str:
        """Who consumes is planned as a group: what others have locked bars its way."""
        return self.options.group if self.options.consume else ""

    def begin(self) -> None:
        """Looks where everything is, and takes the leases."""
        for place, plan in self._found():
            self._join(place, plan)
        if self._leases is not None and self.options.checkpoint:
            self._settle(self._leases)

    def _found(self) -> list[tuple[Place, QueuePlan]]:
        """Queues that are not known yet."""
        self._looked_at = time.monotonic()
        found = found_places(self.options, self._endpoints)
        return [pair for queue, pair in found.items() if queue not in self.places]

    def _join(self, place: Place, plan: QueuePlan) -> None:
        queue = place.queue
        after, known = starting(self.options, place, plan)
        if self._leases is not None:
            is_new = place.endpoint.find_group(queue, self.options.group) is None
            group = self._leases.take(place, after if is_new else None)
            self._positions[queue], self._claimed[queue] = group.position, group.claimed
            after, known = self._positions[queue], known if is_new else 0
        self.places[queue] = place
        self._latest[queue] = plan.latest
        first = self._first
        self._first = first._replace(
            queues={**first.queues, queue: after},
            purged={**first.purged, queue: known},
            began={**first.began, queue: after},
        )

    def _settle(self, leases: Leases) -> None:
        """What an earlier run committed and could not acknowledge."""
        sync_checkpoint(self.options.checkpoint, "commits")
        for offset in committed_offsets(self.options.checkpoint):
            if offset.group != leases.group:
                continue
            for queue in offset.queues.keys() & self.places.keys():
                group = self.places[queue].endpoint.group(queue, leases.group).show()
                through = committed_through(group, offset.queues[queue])
                if through is not None:
                    leases.acknowledge({queue: through})

    def close(self) -> None:
        """Gives everything back."""
        if self._leases is not None:
            self._leases.close()
        for endpoint in self._endpoints:
            endpoint.close()

    # -- offsets

    def first(self) -> StreamOffset:
        """Where the stream begins without a checkpoint."""
        return self._offset(self._first)

    def last(self) -> StreamOffset:
        """The last message of every queue."""
        return StreamOffset(self.options.group, self._latest, urls_of(self.places))

    def _offset(self, offset: StreamOffset) -> StreamOffset:
        """With what this reader knows of itself."""
        epochs = self._leases.epochs if self._leases is not None else {}
        urls = {**offset.urls, **urls_of(self.places)}
        return offset._replace(group=self.options.group, urls=urls, epochs=epochs)

    def set_goal(self) -> None:
        """The stream ends where the queues end now."""
        plans = self._planned(Wanted(queue, group=self._plan_group) for queue in self.places)
        self._goal = {plan.queue: plan.end for plan in plans}

    def next(self, start: StreamOffset, limits: Limits) -> StreamOffset | None:
        """The end of the next micro-batch; None while nothing is new."""
        self._check()
        if lost := self._lost(start):
            self._plans = {}
            return self._behind_which(start, lost)
        plans = {plan.queue: plan for plan in self._plans_behind(start, limits)}
        self._latest |= {queue: plan.latest for queue, plan in plans.items()}
        if self.options.fail_on_data_loss:
            self._check_loss(start, plans.values())
        self._plans = {
            queue: plan for queue, plan in plans.items() if plan.messages and plan.end > plan.after
        }
        if not self._plans:
            if self._goal is not None and self._leases is not None:
                self._leases.end()
            return None
        ends = {queue: plan.end for queue, plan in self._plans.items()}
        purged = {queue: plan.purged_through for queue, plan in plans.items()}
        return self._behind_which(start._replace(purged={**start.purged, **purged}), ends)

    def _lost(self, start: StreamOffset) -> dict[str, int]:
        """Where a batch ended that was claimed, and of which the checkpoint knows nothing any more.

        It is planned again with the same end: its sink may have it, under the same number.
        """
        if not self.options.consume:
            return {}
        claimed = self._claimed.items()
        return {queue: end for queue, end in claimed if end > self._behind(start, queue)}

    def _behind_which(self, start: StreamOffset, ends: Mapping[str, int]) -> StreamOffset:
        """The end of a micro-batch in which these queues go so far."""
        queues = {**start.queues, **ends}
        began = {**{queue: self._behind(start, queue) for queue in queues}, **start.began}
        return self._offset(start._replace(queues=queues, began=began))

    def _check(self) -> None:
        """What happened beside the stream; new queues, where a pattern tells which are read."""
        if self._leases is not None:
            self._leases.check()
        if not self.options.queue_pattern or self._goal is not None:
            return
        if time.monotonic() - self._looked_at >= LOOK_S:
            for place, plan in self._found():
                self._join(place, plan)

    def _behind(self, start: StreamOffset, queue: str) -> int:
        """Where a queue goes on; one that came later begins with its first message."""
        return start.queues.get(queue, self._positions.get(queue, 0))

    def _plans_behind(self, start: StreamOffset, limits: Limits) -> list[QueuePlan]:
        """What there is behind the start, within the limits that all queues share."""
        group = self._plan_group
        wanted = [
            Wanted(queue, self._behind(start, queue), group, None, limits.messages, limits.bytes)
            for queue in self.places
        ]
        plans = self._reached(self._waited(wanted))
        if len(plans) == 1 or limits == Limits():
            return plans
        return self._shared(plans, limits)

    def _shared(self, plans: list[QueuePlan], limits: Limits) -> list[QueuePlan]:
        """Several queues together take too much: each gets its share."""
        self._turn += 1
        kept = {plan.queue: plan for plan in plans}
        for unit, limit in (("messages", limits.messages), ("bytes", limits.bytes)):
            sizes = {plan.queue: int(getattr(plan, unit)) for plan in kept.values()}
            if limit is None or sum(sizes.values()) <= limit:
                continue
            parts = shares(limit, sizes, self._turn)
            again = [
                Wanted(queue, kept[queue].after, self._plan_group, **{f"max_{unit}": part})
                for queue, part in parts.items()
                if part < sizes[queue]
            ]
            left_out = {queue: plan for queue, plan in kept.items() if queue not in parts}
            kept |= {plan.queue: plan for plan in self._reached(self._planned(again))}
            kept |= {queue: plan._replace(end=plan.after) for queue, plan in left_out.items()}
        return list(kept.values())

    def _reached(self, plans: Iterable[QueuePlan]) -> list[QueuePlan]:
        """No further than the goal."""
        if self._goal is None:
            return list(plans)
        ends = [min(plan.end, self._goal.get(plan.queue, plan.after)) for plan in plans]
        return [
            plan._replace(end=max(end, plan.after)) for plan, end in zip(plans, ends, strict=True)
        ]

    def _waited(self, wanted: list[Wanted]) -> list[QueuePlan]:
        """Asks, and waits a little for something new."""
        if self._goal is not None:
            return self._planned(wanted)
        if len(self._endpoints) == 1:
            return self._planned(wanted, WAIT_MS)
        plans = self._planned(wanted)
        if any(plan.messages for plan in plans):
            return plans
        return self._planned(wanted, WAIT_SHARED_MS)

    def _planned(self, wanted: Iterable[Wanted], wait_ms: int = 0) -> list[QueuePlan]:
        """One question for each queue manager."""
        asks: dict[Endpoint, list[Wanted]] = {}
        for one in wanted:
            asks.setdefault(self.places[one.queue].endpoint, []).append(one)
        return [plan for endpoint, some in asks.items() for plan in endpoint.plan(some, wait_ms)]

    def _check_loss(self, start: StreamOffset, plans: Iterable[QueuePlan]) -> None:
        for plan in plans:
            if (after := start.queues.get(plan.queue)) is not None:
                known = start.purged.get(plan.queue, 0)
                check_loss(plan.queue, after, known, plan.purged_through)

    # -- micro-batches

    def portions(self, start: StreamOffset, end: StreamOffset) -> list[Portion]:
        """What the tasks of a micro-batch read; claimed first, where it is consumed."""
        if self._leases is not None:
            self._leases.check()
        sync_checkpoint(self.options.checkpoint, "offsets")
        extents = [
            self._extent(start, end, queue)
            for queue, through in end.queues.items()
            if queue in self.places and through > self._after(start, end, queue)
        ]
        return portions(extents, self.options)

    def _after(self, start: StreamOffset, end: StreamOffset, queue: str) -> int:
        """Behind which id a micro-batch begins; the first one where it began when it was planned.

        A group may have moved since then, and `latest` is another message.
        """
        began = end.began.get(queue)
        if began is None or start.began.get(queue) == began:
            return self._behind(start, queue)
        return began

    def _extent(self, start: StreamOffset, end: StreamOffset, queue: str) -> Extent:
        after, through = self._after(start, end, queue), end.queues[queue]
        if self._leases is not None and self.options.consume:
            group = self._leases.claim(queue, through)
            known_start = queue in start.queues or queue in end.began
            if known_start and self.options.fail_on_data_loss:
                _check_position(queue, after, group)
        place = self.places[queue]
        if (plan := self._whole_plan(queue)) and (plan.after, plan.end) == (after, through):
            cut = Cut(after, through, plan.messages, plan.bytes)
            return Extent(place, cut, plan.purged_through)
        known = end.purged.get(queue, 0)
        if self.options.fail_on_data_loss and not self.options.consume:
            (now,) = place.endpoint.plan([Wanted(queue, through)])
            check_loss(queue, after, known, now.purged_through)
        return Extent(place, counted(place.endpoint, queue, after, through), known)

    def _whole_plan(self, queue: str) -> QueuePlan | None:
        """The plan of the latest micro-batch, unless the goal may have cut it."""
        plan = self._plans.get(queue)
        whole = plan and (self._goal is None or plan.end < self._goal.get(queue, 0))
        return plan if whole else None

    def commit(self, end: StreamOffset) -> None:
        """Acknowledges, beside the stream, once its checkpoint is safe."""
        if (leases := self._leases) is not None:
            leases.beside(lambda: self._acknowledge(leases, end))

    def _acknowledge(self, leases: Leases, end: StreamOffset) -> None:
        sync_checkpoint(self.options.checkpoint, "commits")
        leases.acknowledge(end.queues)


def _check_position(queue: str, after: int, group: GroupState) -> None:
    """A batch that is read again finds nothing of what was acknowledged."""
    if group.position > after:
        raise MessageAlreadyReceived(
            f"group {group.name} of {queue} has acknowledged everything up to lookup id "
            f"{group.position}, and this checkpoint wants what lies behind {after}",
            "The checkpoint is older than the group: go on from the group's position with a new "
            "checkpoint, or set failOnDataLoss to false.",
        )
