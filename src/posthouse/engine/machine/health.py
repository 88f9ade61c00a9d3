"""Whether the queue manager accepts messages, and what else needs an operator's attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from posthouse.engine.machine.shortages import scarcities
from posthouse.engine.queues.empty_reads import claimed
from posthouse.engine.queues.queue import HELD, Queue, QueueRole
from posthouse.model.guids import format_guid
from posthouse.model.properties import UNLIMITED, OutgoingQueueState, QueueManagerState

if TYPE_CHECKING:
    from posthouse.engine.manager import QueueManager
    from posthouse.engine.queues.queue import Group


DISPUTED_S = 24 * 3600
HOUR_S = 3600
JOBS_LOOKED_AT = 1_000  # of each job queue
FULL_PERCENT = 95  # of a quota


def obstacles(manager: QueueManager) -> list[str]:
    """Why no messages are taken at the moment; nothing: they are."""
    if manager.machine.state is not QueueManagerState.READY:
        return [f"the queue manager is {manager.machine.state.value}"]
    return [one.cause for one in scarcities(manager.machine.throttled)]


class Unreachable(NamedTuple):
    """An outgoing queue with messages that cannot connect."""

    queue: Queue
    reason: str


class Claims(NamedTuple):
    """Messages of a queue that only the readers of a group get."""

    group: Group
    messages: int
    leased: bool  # a reader of the group is at work


class Disputed(NamedTuple):
    """A sequence that two addresses claim, or of which nothing is accepted."""

    queue: Queue
    source: str
    address: str
    other: str
    messages: int


def sequences(manager: QueueManager, queues: Collection[Queue]) -> list[Disputed]:
    """Sequences into queues that an operator should look at: what happened in the last day."""
    lineages, there = manager.transfer.outgoing.lineages, {queue.number: queue for queue in queues}
    since = manager.machine.utc - DISPUTED_S
    found = [
        Disputed(there[number], format_guid(source), host, other, 0)
        for (number, source, host, other), last in lineages.conflicts.items()
        if number in there and last >= since
    ]
    found += [
        Disputed(there[number], format_guid(source), host, "", one.messages)
        for (number, source, _, host), one in lineages.turned_away.items()
        if number in there and one.is_lasting and one.last >= since
    ]
    return found


def dead_letters(queues: Collection[Queue]) -> list[Queue]:
    """The dead-letter queues that are not empty."""
    return [
        queue
        for queue in queues
        if queue.definition.role is QueueRole.DEAD_LETTER and queue.state.count
    ]


def unreachable(queues: Collection[Queue]) -> list[Unreachable]:
    """Outgoing queues whose messages wait because the last attempt to connect failed."""
    return [
        Unreachable(queue, queue.outgoing.last_error)
        for queue in queues
        if queue.outgoing is not None
        and queue.state.count
        and queue.outgoing.last_error
        and queue.outgoing.state not in HELD
    ]


def paused(queues: Collection[Queue]) -> list[Queue]:
    """Outgoing queues with messages that an operator has paused."""
    return [
        queue
        for queue in queues
        if queue.outgoing is not None
        and queue.state.count
        and queue.outgoing.state is OutgoingQueueState.ON_HOLD
    ]


def nearly_full(queues: Collection[Queue]) -> list[Queue]:
    """Queues whose messages take up nearly all of their own quota; the fullest first."""
    found = [
        queue
        for queue in queues
        if queue.definition.role is QueueRole.PLAIN
        and queue.definition.quota_kib not in (0, UNLIMITED)
        and fill_percent(queue) >= FULL_PERCENT
    ]
    return sorted(found, key=lambda queue: -fill_percent(queue))


def fill_percent(queue: Queue) -> int:
    """Return how much of its own quota a queue and its subqueues take up."""
    used = queue.state.bytes + queue.state.subqueue_bytes
    return used * 100 // (queue.definition.quota_kib << 10)


class Waiting(NamedTuple):
    """A queue whose oldest message is older than the settings allow."""

    queue: Queue
    age_s: int


def waiting_too_long(manager: QueueManager, queues: Collection[Queue]) -> list[Waiting]:
    """Queues with messages that nothing reads, or not fast enough; the oldest first."""
    limit = manager.machine.settings.queue_manager.oldest_age_s
    if not limit:
        return []
    roles = (QueueRole.PLAIN, QueueRole.SUBQUEUE, QueueRole.OUTGOING)
    found = [
        Waiting(queue, age)
        for queue in queues
        if queue.definition.role in roles
        and queue.state.count
        and (age := manager.messages.oldest_age_s(queue) or 0) >= limit
    ]
    return sorted(found, key=lambda one: -one.age_s)


class Unconfirmed(NamedTuple):
    """An outgoing queue whose first transactional message was sent and not confirmed."""

    queue: Queue
    messages: int
    age_s: int


def unconfirmed(manager: QueueManager, queues: Collection[Queue]) -> list[Unconfirmed]:
    """Return outgoing queues whose peer takes messages and confirms none; the oldest first."""
    limit = manager.machine.settings.queue_manager.unconfirmed_age_s
    transfer = manager.transfer
    if not limit:
        return []
    found = [
        Unconfirmed(queue, transfer.unfinished(queue), age)
        for queue in queues
        if queue.outgoing is not None
        and queue.state.count
        and queue.outgoing.state not in HELD
        and (age := transfer.unconfirmed_s(queue)) >= limit
    ]
    return sorted(found, key=lambda one: -one.age_s)


class RefusedLately(NamedTuple):
    """Messages of other machines that were refused for one cause, for one queue, from one place."""

    queue: str
    cause: str
    address: str
    messages: int


def refused_lately(manager: QueueManager) -> list[RefusedLately]:
    """Return what was refused in the last hour; the most frequent first."""
    since = manager.machine.utc - HOUR_S
    found = Counter[tuple[str, str, str]]()
    for one in manager.transfer.refused_arrivals():
        if one.last_utc < since:
            break
        found[one.queue, one.cause, one.address] += 1
    return [RefusedLately(*key, count) for key, count in found.most_common()]


class FailedJobs(NamedTuple):
    """Jobs of a job queue whose last service came to nothing."""

    queue: str
    jobs: int
    reason: str  # of the first


def failed_jobs(manager: QueueManager) -> list[FailedJobs]:
    """Job queues with jobs that failed and are still there."""
    found = []
    for id in sorted(manager.jobs.queue_ids()):
        first = manager.jobs.queue(id).jobs(0, JOBS_LOOKED_AT)
        reasons = [job.entry.failure for job in first if job.entry.failure]
        if reasons:
            found.append(FailedJobs(manager.jobs.queue_name(id), len(reasons), reasons[0]))
    return found


def claims(manager: QueueManager, queues: Collection[Queue]) -> list[Claims]:
    """What groups have claimed."""
    found = [(queue.consumer, claimed(manager.groups, queue)) for queue in queues]
    return [
        Claims(group, count, manager.groups.is_leased(group))
        for group, count in found
        if group is not None and count
    ]
