"""Plans the batches of a stream, in its one reader in the driver."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from posthouse.client.admin_http import AWAY
from posthouse.client.arrow_read import Cut, PlannedQueue, QueuePlan
from posthouse.client.groups import Claim
from posthouse.model.errors import InvalidParameter, QueueNotFound, StatusNotFound
from posthouse.spark.batch import starting
from posthouse.spark.checkpoints import check_own, sync_checkpoint
from posthouse.spark.data_loss import (
    GO_ON_WITHOUT,
    Losses,
    check_position,
    deleted,
    missing,
    not_read_now,
    not_the_same,
    purged,
)
from posthouse.spark.endpoint import Endpoint
from posthouse.spark.leases import CONSUME, OBSERVE, Leases, claimed_through
from posthouse.spark.limits import Limits, shares
from posthouse.spark.manager_availability import Reach
from posthouse.spark.moved_positions import under_names
from posthouse.spark.offsets import StreamOffset
from posthouse.spark.options import SourceOptions
from posthouse.spark.queue_selection import (
    Place,
    Places,
    beside_each_other,
    check_asked,
    check_names,
    check_positions,
    key_of,
    matches,
    queues_of,
    urls_of,
    wanted_of,
)
from posthouse.spark.read_tasks import Extent, Portion, counted, portions
from posthouse.spark.reader_names import reader_name

WAIT_MS: Final = 100  # for something new; Spark asks again at once
WAIT_SHARED_MS: Final = 20  # where another queue manager is to be asked too
LOOK_S: Final = 10.0  # between looks for new queues that match a pattern
STREAM_BYTES: Final = 8
_DONE_AGAIN: Final = "the batch that is to be done again has messages of its queues"
_ADD_AGAIN: Final = (
    "Nothing of it was committed: read that queue again (options queue, queuePattern, url) until "
    "the batch is done. With failOnDataLoss=false the batch is done without it, and its messages "
    "stay in the queue."
)


class Course:
    """The plan of a stream: its queues, the batches planned so far, and its leases."""

    def __init__(self, options: SourceOptions, kept: Mapping[str, int] | None = None) -> None:
        self.options = options
        self._kept = kept or {}  # the last message of each queue that the sink surely has
        self.places: dict[str, Place] = {}
        self._endpoints = [Endpoint(manager) for manager in options.managers]
        self._losses = Losses(options.fail_on_data_loss)
        self._stream = secrets.token_hex(STREAM_BYTES)  # unless an offset has one
        self._plans: dict[str, QueuePlan] = {}
        self._latest: dict[str, int] = {}
        self._positions: dict[str, int] = {}
        self._claimed: dict[str, int] = {}  # when the leases were taken
        self._first = StreamOffset(stream=self._stream, starts={})
        self._goal: dict[str, int] | None = None
        self._looked_at = 0.0
        self._turn = 0
        self._ran: StreamOffset | None = None  # the end of the last batch that was read
        self._committed: StreamOffset | None = None
        self._submitted: dict[str, int] = {}  # what is acknowledged, or about to be
        mode = CONSUME if options.consume else OBSERVE
        self._reach = Reach(self._endpoints)
        self._deleted: set[str] = set()  # queues that are gone, and that the stream goes on without
        self._postponed: set[str] = set()  # acknowledgments that did not reach their queue manager
        self._leases: Leases | None = None
        if options.group:
            patient = not self._reach.is_shared
            self._leases = Leases(options.group, mode, reader_name(), patient=patient)

    @property
    def _plan_group(self) -> str:
        """Who consumes is planned as a group: what others have locked bars its way."""
        return self.options.group if self.options.consume else ""

    def begin(self, *, is_new: bool = False) -> None:
        """Looks where everything is, and takes the leases.

        A checkpoint shows that its addresses have answered. Without one a mistyped address fails in
        seconds.
        """
        if is_new:
            beside_each_other(Endpoint.meet, self._endpoints)
        self._join_found()

    def _join_found(self) -> None:
        """Takes in the queues that are not known yet, of all queue managers that answer."""
        self._looked_at = time.monotonic()
        answers = self._reach.answers(self._endpoints, self._found)
        check_names(list(answers))
        if not self._reach.away():
            check_asked(self.options, {one: queues for one, (queues, _) in answers.items()})
            check_positions(self.options, [found for _, found in answers.values()])
        for endpoint, (_, found) in answers.items():
            self._reach.attempt(endpoint, partial(self._join_all, found))

    def _found(self, endpoint: Endpoint) -> tuple[list[str], Places]:
        """The queues of one queue manager: as they are asked for, and as they are."""
        queues = queues_of(self.options, endpoint)
        if not queues:
            return [], {}
        wanted = wanted_of(self.options, queues)
        if self._losses.strict:
            plans = list(endpoint.plan(wanted))
        else:
            plans, gone = endpoint.plan_there(wanted)
            for one in gone:
                self._losses.found(("missing", one.queue), missing(one.queue))
        return queues, {plan.queue: (Place(plan.queue, endpoint), plan) for plan in plans}

    def _join_all(self, found: Places, _: Endpoint) -> None:
        for queue, (place, plan) in found.items():
            if queue not in self.places:
                self._join(place, plan)

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
        first = self._first._replace(
            queues={**self._first.queues, queue: after},
            purged={**self._first.purged, queue: known},
        )
        # What no message of this queue has had may be of a later start than the last message.
        identity = plan.identity if after <= plan.end else plan.identity._replace(incarnation="")
        self._first = first.identified({queue: identity})

    def close(self) -> None:
        """Gives everything back."""
        if self._leases is not None:
            self._leases.close()
        for endpoint in self._endpoints:
            endpoint.close()

    # -- offsets

    def first(self) -> StreamOffset:
        """Where the stream begins without a checkpoint."""
        self._need(self._reach.away(), "a stream begins with all of its queue managers")
        return self._offset(self._first)

    def away(self) -> list[str]:
        """The addresses of queue managers that do not answer."""
        return [endpoint.manager.url for endpoint in self._reach.away()]

    def _need(self, endpoints: Iterable[Endpoint], why: str) -> None:
        """Waits for queue managers without which nothing can be done."""
        needed = [one for one in endpoints if self._reach.is_away(one)]
        for endpoint in needed:
            self._reach.wait_for(endpoint, why)
        if needed:
            self._join_found()

    def last(self) -> StreamOffset:
        """The last message of every queue."""
        return StreamOffset(self.options.group, self._latest, urls_of(self.places), starts={})

    def _offset(self, offset: StreamOffset) -> StreamOffset:
        """The offset with the group, addresses and leases of this reader."""
        epochs = self._leases.epochs if self._leases is not None else {}
        urls = {**offset.urls, **urls_of(self.places)}
        return offset._replace(group=self.options.group, urls=urls, epochs=dict(epochs))

    def set_goal(self) -> None:
        """The stream ends where the queues end now."""
        plans = self._planned(PlannedQueue(queue, group=self._plan_group) for queue in self.places)
        self._goal = {plan.queue: plan.end for plan in plans}

    def next(self, start: StreamOffset, limits: Limits) -> StreamOffset | None:
        """The end of the next micro-batch; None while nothing is new.

        What ends at `start` is in Spark's commit log by now, so it is acknowledged: beside the
        stream, or here where the goal is reached and Spark does not ask again.
        """
        start = self._checked(start)
        claimed = self._claimed_after(start)
        plans = self._plans_of(start, claimed) if claimed else self._plans_after(start, limits)
        by_queue = {plan.queue: plan for plan in self._held(start, plans, limits)}
        self._latest |= {queue: plan.latest for queue, plan in by_queue.items()}
        self._check_purges(start, by_queue.values())
        lost = {plan.queue for plan in plans if plan.loss}
        self._acknowledge(start, start.queues.keys() - lost)
        self._plans = {
            queue: plan
            for queue, plan in by_queue.items()
            if plan.end > plan.after and (plan.messages or claimed)
        }
        if not self._plans:
            if self._goal is not None and self._leases is not None:
                self._leases.wait()
                self._leases.end()
            return None
        return self._end(start, by_queue)

    def _claimed_after(self, start: StreamOffset) -> dict[str, int]:
        """Where a claimed batch ended that the checkpoint has lost.

        It is planned again with the same end: its sink may have it, under the same number.
        """
        if not self.options.consume:
            return {}
        claimed = self._claimed.items()
        return {queue: end for queue, end in claimed if end > self._after(start, queue)}

    def _plans_of(self, start: StreamOffset, ends: Mapping[str, int]) -> list[QueuePlan]:
        """Plans with ends that were chosen before, whether messages with these ids are there."""
        wanted = [self._wanted(start, queue, through=ends[queue]) for queue in ends]
        plans = self._planned(wanted, needed=True)
        return [plan if plan.loss else _ended(plan, ends[plan.queue]) for plan in plans]

    def _end(self, start: StreamOffset, plans: Mapping[str, QueuePlan]) -> StreamOffset:
        """The end of a micro-batch that reads what is planned."""
        known = {queue: plan.purged_through for queue, plan in plans.items()}
        end = start._replace(
            queues={**start.queues, **{queue: plan.end for queue, plan in self._plans.items()}},
            purged={**start.purged, **known},
            stream=start.stream or self._stream,
            starts={queue: plan.after for queue, plan in self._plans.items()},
            began={},
        )
        certain = [plan for plan in plans.values() if plan.end == end.queues.get(plan.queue)]
        whole = end.identified({plan.queue: plan.identity for plan in certain})
        return self._offset(whole.without(self._deleted))

    def _checked(self, start: StreamOffset) -> StreamOffset:
        """The start under the names of today; raises what happened beside the stream: failures,
        new queues, queues that are gone."""
        if self._leases is not None:
            self._leases.check()
        if (not self._first.queues and not self.places) or self._is_look_due():
            self._join_found()
        unknown = [one for one in self._reach.away() if one.manager.url not in start.urls.values()]
        self._need(unknown, "the checkpoint has none of its queues")
        start = self._today(start)
        for queue in start.queues.keys() - self.places.keys() - self._deleted:
            if self._is_deleted(queue):
                self._leave(queue, start.queues[queue])
        if self.options.group and not self.options.consume:
            self._losses.repeats(start.queues, self._positions, self.options.group)
        return start

    def _today(self, offset: StreamOffset) -> StreamOffset:
        """An offset under the names that the queue managers which have answered have now."""
        return under_names(offset, [(one.guid, one.name) for one in self._endpoints if one.guid])

    def _is_look_due(self) -> bool:
        """Whether there may be queues to join: new ones, or those of one that was away."""
        if self._goal is not None:
            return False
        joined = {place.endpoint for place in self.places.values()}
        may_join = self.options.queue_pattern or not joined.issuperset(self._endpoints)
        return bool(may_join) and time.monotonic() - self._looked_at >= LOOK_S

    def _is_deleted(self, queue: str) -> bool:
        """Whether a queue is missing that the options mean, of a queue manager that answers."""
        owner = self._owner(queue)
        if owner is None or self._reach.is_away(owner):
            return False
        if self.options.queue_pattern:
            return matches(queue, self.options.queue_pattern, owner.name)
        named = {key_of(name, owner.name) for name in self.options.queues}
        return key_of(queue, owner.name) in named

    def _owner(self, queue: str) -> Endpoint | None:
        """The queue manager of a queue, by its computer name; None: none that has answered."""
        machine = queue.partition("\\")[0].casefold()
        known = [one for one in self._endpoints if not self._reach.is_away(one)]
        return next((one for one in known if one.name.casefold() == machine), None)

    def _check_name(self, endpoint: Endpoint, queue: str) -> None:
        """Refuses to take a queue for deleted whose queue manager was renamed under the stream."""
        old, name = queue.partition("\\")[0], endpoint.ask_name()
        if name.casefold() != old.casefold():
            raise InvalidParameter(
                f"the queue manager at {endpoint.manager.url} was called {old}, and is called "
                f"{name} now",
                "Start the stream again: it goes on where it was.",
            )

    def _leave(self, queue: str, after: int) -> None:
        """A queue is gone: that is a loss, and later offsets do not carry it along."""
        self._losses.found(("deleted", queue), deleted(queue, after), GO_ON_WITHOUT)
        self._deleted.add(queue)
        self.places.pop(queue, None)
        if self._leases is not None:
            self._leases.forget(queue)

    def _out_of_reach(self) -> set[str]:
        """The queues of queue managers that are away."""
        places = self.places.items()
        return {queue for queue, place in places if self._reach.is_away(place.endpoint)}

    def _after(self, start: StreamOffset, queue: str) -> int:
        """Where a queue goes on; one that came later begins with its first message."""
        position = self._positions.get(queue, 0)
        return self._passed(queue, start.queues.get(queue, position))

    def _passed(self, queue: str, after: int) -> int:
        """Where a queue goes on after what another stream has brought to the sink.

        Who consumes goes on at the position of the group, whose messages are gone.
        """
        kept = self._kept.get(queue, -1)
        if not self.options.consume:
            return max(after, kept)
        position = self._positions.get(queue, 0)
        return position if after < position <= kept else after

    # -- plans

    def _wanted(self, start: StreamOffset, queue: str, **limits: int | None) -> PlannedQueue:
        """What comes after the start, no further than the goal."""
        goal = None if self._goal is None else self._goal.get(queue, 0)
        through = limits.pop("through", goal)
        after, identity = self._after(start, queue), start.identity(queue)
        if after != start.queues.get(queue, after):
            identity = identity._replace(incarnation="")  # that gave another id
        return PlannedQueue(
            queue, after, self._plan_group, through=through, identity=identity, **limits
        )

    def _plans_after(self, start: StreamOffset, limits: Limits) -> list[QueuePlan]:
        """What there is after the start, within the limits that all queues share."""
        most = _most(limits)
        plans = self._waited([self._wanted(start, queue, **most) for queue in self.places])
        if len(plans) == 1 or limits == Limits() or any(plan.loss for plan in plans):
            return plans
        return self._shared(start, plans, limits)

    def _shared(
        self, start: StreamOffset, plans: list[QueuePlan], limits: Limits
    ) -> list[QueuePlan]:
        """Several queues together take too much: each gets its share."""
        self._turn += 1
        kept = {plan.queue: plan for plan in plans}
        for unit, limit in (("messages", limits.messages), ("bytes", limits.bytes)):
            sizes = {plan.queue: int(getattr(plan, unit)) for plan in kept.values()}
            if limit is None or sum(sizes.values()) <= limit:
                continue
            parts = shares(limit, sizes, self._turn)
            again = [
                self._wanted(start, queue, **{f"max_{unit}": part})
                for queue, part in parts.items()
                if part < sizes[queue]
            ]
            left_out = {queue: plan for queue, plan in kept.items() if queue not in parts}
            kept |= {plan.queue: plan for plan in self._planned(again)}
            kept |= {queue: plan._replace(end=plan.after) for queue, plan in left_out.items()}
        return list(kept.values())

    def _held(self, start: StreamOffset, plans: list[QueuePlan], limits: Limits) -> list[QueuePlan]:
        """Plans of which the start holds; a loss is told, and the queue read where that is safe.

        Safe is everything that is there and that the group has not acknowledged.
        """
        kept = [plan for plan in plans if not plan.loss]
        again = []
        for plan in plans:
            if plan.loss:
                after, now = self._after(start, plan.queue), self._positions.get(plan.queue, 0)
                cause = not_the_same(plan.queue, after, plan.loss)
                self._losses.found((plan.queue, plan.identity.incarnation, plan.loss), cause)
                begun = StreamOffset(queues={plan.queue: max(plan.after, now)})
                again.append(self._wanted(begun, plan.queue, **_most(limits)))
        return kept + self._planned(again)

    def _waited(self, wanted: list[PlannedQueue]) -> list[QueuePlan]:
        """Asks, and waits a little for something new."""
        if self._goal is not None:
            return self._planned(wanted)
        if len(self._endpoints) == 1:
            return self._planned(wanted, WAIT_MS)
        plans = self._planned(wanted)
        if any(plan.messages or plan.loss for plan in plans):
            return plans
        return self._planned(wanted, WAIT_SHARED_MS)

    def _planned(
        self, wanted: Iterable[PlannedQueue], wait_ms: int = 0, *, needed: bool = False
    ) -> list[QueuePlan]:
        """One question for each queue manager; those that are away are left out unless `needed`."""
        asks: dict[Endpoint, list[PlannedQueue]] = {}
        for one in wanted:
            asks.setdefault(self.places[one.queue].endpoint, []).append(one)
        if needed:
            answers = {one: one.plan_there(some, wait_ms) for one, some in asks.items()}
        else:
            answers = self._reach.answers(asks, lambda one: one.plan_there(asks[one], wait_ms))
        for endpoint, (_, gone) in answers.items():
            for one in gone:
                self._check_name(endpoint, one.queue)
                self._leave(one.queue, one.after)
        return [plan for plans, _ in answers.values() for plan in plans]

    def _check_purges(self, start: StreamOffset, plans: Iterable[QueuePlan]) -> None:
        for plan in plans:
            if plan.queue in start.queues and plan.after == self._after(start, plan.queue):
                self._check_purge(plan, plan.after, start.purged.get(plan.queue, 0))

    def _check_purge(self, plan: QueuePlan, after: int, known: int) -> None:
        through = plan.purged_through
        if through > max(after, known):
            self._losses.found((plan.queue, through), purged(plan.queue, after, through))

    # -- micro-batches

    def portions(self, start: StreamOffset, end: StreamOffset) -> list[Portion]:
        """What the tasks of a micro-batch read; claimed first, where it is consumed."""
        if self._leases is not None:
            self._leases.check()
        self._check_order(self._today(start))
        sync_checkpoint(self.options.checkpoint, "offsets")
        check_own(self.options.checkpoint, end)
        self._need(self._missing(start, end), _DONE_AGAIN)
        start, end = self._today(start), self._today(end)
        reads = self._reads(start, end)
        for queue in sorted(reads.keys() - self.places.keys()):
            self._leave_out(end, queue, reads.pop(queue))
        reads = self._known(end, reads)
        extents = [self._extent(end, queue, after) for queue, after in reads.items()]
        self._ran = end
        return portions(extents, self.options)

    def _missing(self, start: StreamOffset, end: StreamOffset) -> list[Endpoint]:
        """Those that are away and that a batch reads."""
        reads = self._reads(start, end).keys() - self.places.keys()
        urls = {end.urls.get(queue.partition("\\")[0]) for queue in reads}
        return [one for one in self._reach.away() if one.manager.url in urls]

    def _check_order(self, start: StreamOffset) -> None:
        """Spark commits a batch before it reads the next one, unless it tracks progress aside.

        Then its log comes later than what is acknowledged here.
        """
        if self.options.consume and self._goal is None and self._ran == start != self._committed:
            raise InvalidParameter(
                "this query tracks its progress asynchronously (asyncProgressTrackingEnabled): its "
                "commit log comes after the messages would be received",
                "Leave that option out, or read with consume=none.",
            )

    def _reads(self, start: StreamOffset, end: StreamOffset) -> dict[str, int]:
        """The queues that a micro-batch reads, and after which ids.

        Offsets of version 1 lack it: their first batch began where the stream began, which Spark
        does not keep. Offsets that differ in their texts alone have nothing between them.
        """
        if start == end:
            return {}
        if end.starts is not None:
            begins = {queue: self._passed(queue, after) for queue, after in end.starts.items()}
        else:
            begins = {}
            for queue in end.queues:
                began = end.began.get(queue)
                if began is None or start.began.get(queue) == began:
                    began = self._after(start, queue)
                begins[queue] = began
        return {queue: after for queue, after in begins.items() if end.queues[queue] > after}

    def _leave_out(self, end: StreamOffset, queue: str, after: int) -> None:
        """A part of the batch is not read now: nothing of it may count as done.

        It was claimed, perhaps. Unless that is given back, its messages would be received with
        the rest of the batch.
        """
        if self._is_deleted(queue):
            self._leave(queue, after)
            return
        cause = not_read_now(queue, after, end.queues[queue])
        self._losses.found((queue, end.queues[queue]), cause, _ADD_AGAIN)
        if not self.options.consume:
            return
        machine = queue.partition("\\")[0].casefold()
        owners = [one for one in self._endpoints if one.name.casefold() == machine]
        if not owners:
            raise InvalidParameter(
                f"{cause}; what was claimed there cannot be given back, since no url leads there",
                "Add the url of its queue manager until this batch is done.",
            )
        try:
            owners[0].group(queue, self.options.group).release(end.stream)
        except (QueueNotFound, StatusNotFound):
            return  # it is gone, and its claims with it

    def _known(self, end: StreamOffset, reads: Mapping[str, int]) -> dict[str, int]:
        """The queues of a batch whose ids mean what they meant when it was planned.

        What this reader has planned itself, last of all, needs no question.
        """
        asked = [
            PlannedQueue(queue, end.queues[queue], identity=end.identity(queue))
            for queue in reads
            if (plan := self._plans.get(queue)) is None or plan.end != end.queues[queue]
        ]
        lost = set()
        for plan in self._planned(asked, needed=True):
            if plan.loss:
                lost.add(plan.queue)
                cause = not_the_same(plan.queue, end.queues[plan.queue], plan.loss)
                self._losses.found((plan.queue, plan.identity.incarnation, plan.loss), cause)
            elif not self.options.consume:
                after, known = reads[plan.queue], end.purged.get(plan.queue, 0)
                self._check_purge(plan, after, known)
        lost |= self._deleted
        return {queue: after for queue, after in reads.items() if queue not in lost}

    def _extent(self, end: StreamOffset, queue: str, after: int) -> Extent:
        through, strict = end.queues[queue], self.options.fail_on_data_loss
        if self._leases is not None and self.options.consume:
            incarnation = end.incarnations.get(queue, "")
            claim = Claim(after, through, end.stream, not strict, incarnation)
            group = self._leases.claim(queue, claim)
            if strict:
                check_position(queue, after, group.position, group.name)
        place = self.places[queue]
        plan = self._plans.get(queue)
        if plan is not None and (plan.after, plan.end) == (after, through):
            cut = Cut(after, through, plan.messages, plan.bytes)
            return Extent(place, cut, plan.purged_through)
        cut = counted(place.endpoint, queue, after, through)
        return Extent(place, cut, end.purged.get(queue, 0))

    # -- acknowledgments

    def commit(self, end: StreamOffset) -> None:
        """Spark has this batch in its commit log."""
        end = self._today(end)
        self._committed = end
        self._acknowledge(end, end.queues.keys())

    def _acknowledge(self, end: StreamOffset, queues: Iterable[str]) -> None:
        """Acknowledges a committed batch beside the stream, once its checkpoint is safe.

        Only what its stream has claimed. The claims of a stream without a name, of version 1, are
        acknowledged before a stream with a name goes on.
        """
        if (leases := self._leases) is None:
            return
        goals = {}
        while self._postponed:
            self._submitted.pop(self._postponed.pop(), None)
        for queue in set(queues) - self._out_of_reach():
            state, through = leases.states.get(queue), end.queues[queue]
            goal = None if state is None else claimed_through(state, end.stream, through)
            if goal is not None and goal > self._submitted.get(queue, 0):
                goals[queue] = goal
        if goals:
            self._submitted |= goals
            leases.beside(lambda: self._receive(leases, goals, end.stream))
            if not end.stream:
                leases.wait()

    def _receive(self, leases: Leases, goals: Mapping[str, int], stream: str) -> None:
        sync_checkpoint(self.options.checkpoint, "commits")
        for queue, through in goals.items():
            try:
                leases.acknowledge({queue: through}, stream)
            except AWAY:
                if leases.patient:
                    raise
                self._postponed.add(queue)  # it is acknowledged when the next batch is planned


def _most(limits: Limits) -> dict[str, int | None]:
    return {"max_messages": limits.messages, "max_bytes": limits.bytes}


def _ended(plan: QueuePlan, end: int) -> QueuePlan:
    """The plan with another end; which start gave that id is not known then."""
    if plan.end == end:
        return plan
    return plan._replace(end=end, identity=plan.identity._replace(incarnation=""))
