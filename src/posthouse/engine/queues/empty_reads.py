"""Why a reader gets no message from a queue that is not empty: claims of groups, and locks."""

from __future__ import annotations

from posthouse.engine.ledger.parts import ClaimedMessages, FailedReads
from posthouse.engine.queues.queue import Queue, QueueRole
from posthouse.model.errors import IoTimeout


def no_message(
    groups: ClaimedMessages, poison: FailedReads, queue: Queue, cause: str, *, destructive: bool
) -> IoTimeout:
    """Return why a read ends without a message: the queue's journal is off, or who holds them."""
    held = holders(groups, poison, queue) if destructive else ""
    if not held:
        return IoTimeout(cause, _journal_remedy(queue))
    return IoTimeout(f"{cause}: of {queue.state.count:,} messages {held}", remedy(queue))


def _journal_remedy(queue: Queue) -> str:
    """Return how to switch on a journal that stays empty because it is off; else nothing."""
    read = queue.parent
    if queue.definition.role is not QueueRole.JOURNAL or read is None or read.definition.journaling:
        return ""
    return (
        f"{read.name} keeps no journal. To keep what is received from now on: "
        f"posthouse queue set '{read.name}' --journal"
    )


def claimed(groups: ClaimedMessages, queue: Queue) -> int:
    """How many messages of a queue a group has claimed, and only its readers get."""
    return 0 if queue.consumer is None else groups.claimed_messages(queue.consumer)


def holders(groups: ClaimedMessages, poison: FailedReads, queue: Queue) -> str:
    """Who holds messages of a queue, in words; empty: they are free, or there are none."""
    parts = []
    if count := claimed(groups, queue):
        assert queue.consumer is not None
        parts.append(f"{count:,} are claimed by the group {queue.consumer.name}")
    waiting = poison.waiting_in(queue)
    if locked := queue.locked - waiting:
        parts.append(f"{locked:,} are locked by transactions or readers that have not ended")
    if waiting:
        parts.append(f"{waiting:,} wait for their next try")
    return " and ".join(parts)


def remedy(queue: Queue) -> str:
    """What frees them."""
    path = f"'{queue.name}'"
    if queue.consumer is None or not queue.consumer.has_claims:
        return (
            "Wait longer; posthouse transaction list shows transactions that are open, "
            f"posthouse queue show {path} the readers."
        )
    return (
        "Let the group's reader go on. If it has ended, posthouse pipeline settle CHECKPOINT ends "
        "what it has finished; to give all of them back to the queue: "
        f"{queue.consumer.freeing}."
    )
