"""Bulk reads planned and split: which ranges of lookup ids hold what, without reading a packet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from posthouse.api.ranges import (
    PARTS_MAX,
    CutJson,
    IdentityJson,
    PlanBody,
    PlanJson,
    PlanQueueBody,
    PlanQueueJson,
    SplitBody,
    SplitJson,
)
from posthouse.api.types import Nothing
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue, QueueRole
from posthouse.model.errors import InvalidParameter, MessageAlreadyReceived
from posthouse.model.extras import install_there
from posthouse.model.guids import format_guid
from posthouse.model.message_json import time_text
from posthouse.model.properties import QueueAccessType
from posthouse.model.text import excerpt
from posthouse.protocols.handlers.context import Context, opened
from posthouse.protocols.handlers.refusals import Unavailable
from posthouse.protocols.handlers.request_steps import Steps, looked_at

STEP_ROWS: Final = 65_536  # that one step looks at
LOOK_MS: Final = 4  # between looks while nothing is new
AGAIN_MS: Final = 200  # what was locked may be free without anything new
T = TypeVar("T")
Planned = tuple[PlanQueueJson, IdentityJson]


def rows_module() -> Any:
    """What needs numpy; refused where it is not installed."""
    try:
        from posthouse.store import bulk_rows
    except ImportError as error:
        raise not_loaded(error) from None
    return bulk_rows


def not_loaded(error: ImportError) -> Unavailable:
    """Why what needs numpy and pyarrow cannot be used: one is missing, or does not load here."""
    package = (error.name or "").partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and package in ("numpy", "pyarrow"):
        return Unavailable(f"this queue manager has no {package}", install_there())
    return Unavailable(
        f"numpy and pyarrow cannot be loaded here: {excerpt(str(error))}",
        "See what is wrong with them where the queue manager runs: python -c 'import pyarrow'.",
    )


class Range:
    """Messages of a queue with lookup ids in (after, through], looked at in steps."""

    def __init__(self, context: Context, made: Any, queue: str, after: int, through: int) -> None:
        self.made = made
        self.after = after
        self.through = through
        self._context = context
        self._queue = queue

    @property
    def done(self) -> bool:
        """Whether all of it was looked at."""
        return self.after >= self.through

    def looked(self, call: Callable[[QueueManager, Queue], T]) -> Steps[T]:
        """A look at the queue by somebody who may."""

        def look(manager: QueueManager) -> T:
            with opened(manager, self._queue, QueueAccessType.PEEK, self._context) as descriptor:
                return call(manager, local(descriptor.target()))

        return looked_at(look)

    def step(self, count: int = STEP_ROWS) -> Steps[Any]:
        """The next messages, as a `posthouse.store.bulk_rows.Look`."""

        def look(manager: QueueManager, queue: Queue) -> Any:
            return self.made.look(
                manager.messages.state(), queue.number, self.after, self.through, count
            )

        found = yield from self.looked(look)
        self.after = found.last
        return found


def local(queue: Queue) -> Queue:
    """A queue whose messages stay until they are read: not one that leads elsewhere."""
    if queue.outgoing is not None or queue.definition.role is QueueRole.INTERNAL:
        raise InvalidParameter(f"{queue.name} is not a queue to read tables from")
    return queue


# -- plans


def plan_reads(context: Context, params: Nothing, body: PlanBody) -> Steps[PlanJson]:
    """Plans reads of queues by ranges of lookup ids: where they begin and end, how much it is.

    While nothing new is in any of them the answer waits, as long as was asked for.
    """
    made, machine, seen = rows_module(), context.services.machine, -1
    for left_ms in range(body.wait_ms, -1, -LOOK_MS):
        newest = machine.next_lookup_id  # a figure, for which no turn is needed
        if newest != seen or left_ms < LOOK_MS or left_ms % AGAIN_MS < LOOK_MS:
            seen = newest
            plans = yield from _planned(context, made, body.queues)
            if any(plan.latest > plan.after or identity.loss for plan, identity in plans):
                break
        if left_ms >= LOOK_MS:
            yield context.services.pause(LOOK_MS / 1000)
    return PlanJson(
        queue_manager=machine.name,
        guid=format_guid(machine.identifier),
        queues=[plan for plan, _ in plans],
        identities=[identity for _, identity in plans],
    )


def _planned(context: Context, made: Any, queues: list[PlanQueueBody]) -> Steps[list[Planned]]:
    plans = list[Planned]()
    for asked in queues:
        plans.append((yield from _Plan(context, made, asked).steps()))
    return plans


class _Plan:
    """One queue, looked at in steps."""

    def __init__(self, context: Context, made: Any, asked: PlanQueueBody) -> None:
        self._range = Range(context, made, asked.queue, asked.after, 0)
        self._asked = asked
        self._all = (0, 0)
        self._highest = 0
        self._name_of: Callable[[int], str] = str

    def steps(self) -> Steps[Planned]:
        asked, reading = self._asked, self._range
        plan, known = yield from reading.looked(self._bounds)
        reading.through = plan.latest
        if asked.since is not None:
            yield from self._begin(plan, asked.since)
        reading.after = plan.after
        limited = asked.max_messages is not None or asked.max_bytes is not None
        if limited or plan.after >= plan.earliest or plan.latest != self._highest:
            yield from self._count(plan)
        else:
            plan.messages, plan.bytes = self._all
        known.incarnation = self._name_of(plan.end)
        return plan, known

    def _bounds(self, manager: QueueManager, queue: Queue) -> Planned:
        after, known = goes_on(manager, queue, self._asked)
        self._name_of = manager.machine.incarnation_of
        earliest, self._highest = manager.messages.first_and_last(queue)
        self._all = queue.state.count, queue.state.bytes
        latest = max(_latest(manager, queue, self._asked, after, self._highest), after)
        plan = PlanQueueJson(
            queue=queue.name,
            earliest=earliest,
            latest=latest,
            after=after,
            end=latest,
            messages=0,
            bytes=0,
            purged_through=manager.groups.purged_through(queue),
            created_time=time_text((queue.parent or queue).definition.create_time),
        )
        return plan, known

    def _begin(self, plan: PlanQueueJson, since: int) -> Steps[None]:
        """Goes past what arrived before."""
        while not self._range.done:
            found = yield from self._range.step()
            late = (found.rows["arrived"] >= since).nonzero()[0]
            if len(late):
                plan.after = int(found.ids[late[0]]) - 1
                return
        plan.after = plan.latest

    def _count(self, plan: PlanQueueJson) -> Steps[None]:
        reading, asked = self._range, self._asked
        while not reading.done:
            found = yield from reading.step()
            count, size = asked.max_messages, asked.max_bytes
            some = reading.made.within(
                found,
                None if count is None else count - plan.messages,
                None if size is None else size - plan.bytes,
                0 if plan.messages else 1,
            )
            plan.messages += len(some.numbers)
            plan.bytes += int(some.rows["size"].sum())
            if some is not found:
                plan.end = some.last
                return


def _latest(
    manager: QueueManager, queue: Queue, asked: PlanQueueBody, after: int, highest: int
) -> int:
    """The last message that a reader may have; who consumes waits for what others have locked."""
    highest = highest if asked.through is None else min(highest, asked.through)
    group = queue.groups.get(asked.group)
    if not asked.group or (group is not None and not group.consumes):
        return highest
    locked = manager.groups.first_locked(queue, after)
    return highest if locked is None else min(highest, locked - 1)


# -- identity


def goes_on(manager: QueueManager, queue: Queue, asked: PlanQueueBody) -> tuple[int, IdentityJson]:
    """After which id a reader goes on, and whether what it has of earlier ids still holds."""
    given, machine, after = asked.identity, manager.machine, asked.after
    known = IdentityJson(incarnation="", created=created_of(queue), loss="")
    if given is None:
        if after > machine.last_lookup_id():
            raise MessageAlreadyReceived(
                f"no message of {queue.name} has had the lookup id {after}: the queue manager, or "
                "the home that it was started with, is another one",
                "Read from the beginning: what is there now has lower lookup ids.",
            )
        return after, known
    end = (
        machine.end_of_incarnation(given.incarnation)
        if given.incarnation
        else machine.last_lookup_id()
    )
    if given.manager and given.manager.lower() != format_guid(manager.machine.identifier).lower():
        known.loss, after = "manager", 0
    elif after and end is None:
        known.loss, after = "incarnation", 0
    elif end is not None and after > end:
        known.loss, after = "beyond", end if given.incarnation else 0
    elif given.created and given.created != known.created:
        known.loss = "queue"
    return after, known


def created_of(queue: Queue) -> str:
    """A key that no earlier queue with the same name has; numbers are given once."""
    whole = queue.parent or queue  # journals and subqueues go with their queue
    return f"{whole.definition.create_time}.{whole.number}"


# -- parts


def split_range(context: Context, params: Nothing, body: SplitBody) -> Steps[SplitJson]:
    """Cuts a range of a queue into parts of about equal bytes, for readers beside each other."""
    made = rows_module()
    reading = Range(context, made, body.queue, body.after, body.through)
    found, count = list[Any](), 0
    while not reading.done:
        step = made.sizes((yield from reading.step()))
        found.append(step)
        count += len(step.ids)
        context.memory.change(step.nbytes)
    if body.max_records is not None and count > PARTS_MAX * body.max_records:
        raise InvalidParameter(
            f"{count} messages make more than {PARTS_MAX} parts of {body.max_records}",
            "Ask for larger parts, or for less of the queue.",
        )
    work = partial(made.cuts_of, found, body.parts, body.max_records)
    cuts: list[Any] = (yield context.services.offload(work)).value  # type: ignore[assignment]
    begins = [body.after, *(cut.through for cut in cuts[:-1])]
    ends = [*(cut.through for cut in cuts[:-1]), body.through]
    parts = zip(begins, ends, cuts, strict=False)
    return SplitJson(
        cuts=[
            CutJson(after=after, through=through, messages=cut.messages, bytes=cut.bytes)
            for after, through, cut in parts
        ]
    )
