"""The room for outgoing queues, and which of them are removed when it is full.

Names of other machines are cheap to make up, outgoing queues are not. `Queues` asks here before it
makes one: idle ones go first, then those that hold answers for machines that do not take them. What
was sent from here is never removed; where only that is left, the new queue is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import DOOMED_DELETED, Change
from posthouse.engine.queues.answering_queues import AnsweringQueues
from posthouse.engine.queues.queue import HELD, Queue
from posthouse.model.errors import InsufficientResources

IDLE_LOOKED_PER_MS: Final = 20  # outgoing queues: to look at one takes some microseconds


class OutgoingRoom:
    """Makes room among the outgoing queues, up to `outgoing_queues_max`."""

    def __init__(
        self,
        ledger: Ledger,
        outgoing: Mapping[str, Queue],
        forget: Callable[[Queue, Change], None],
    ) -> None:
        self._ledger = ledger
        self._outgoing = outgoing
        self._forget = forget
        self._look_idle_ms = 0  # when all outgoing queues may be looked at again
        self.answering = AnsweringQueues()

    def connect(self, empty: Callable[[Queue, int, Change], int]) -> None:
        """Set what deletes the messages of a queue that is gone."""
        self._empty = empty

    def require(
        self, count: int = 1, *, answering: bool = False, change: Change | None = None
    ) -> None:
        """Make room for new outgoing queues, or refuse them; those for answers have half of it."""
        now_ms = self._ledger.now_ms
        if self._lacks(count, answering) and now_ms >= self._look_idle_ms:
            self.forget_idle()
            # Where none is idle, names that are made up would have all of them looked at each time.
            self._look_idle_ms = now_ms + len(self._outgoing) // IDLE_LOOKED_PER_MS
        while self._lacks(count, answering):
            queue = self.answering.first_to_go()
            if queue is None:
                limit = self._ledger.settings.limits.outgoing_queues_max
                raise InsufficientResources(
                    f"there are {limit} outgoing queues, which is the limit",
                    "Purge those of machines that are gone (posthouse queue list --outgoing), or "
                    "raise [limits] outgoing_queues_max.",
                )
            self._give_up(queue, change)

    def _lacks(self, count: int, answering: bool) -> bool:
        limit = self._ledger.settings.limits.outgoing_queues_max
        if len(self._outgoing) + count > limit:
            return True
        return answering and len(self.answering) + count > (limit + 1) // 2

    def _give_up(self, queue: Queue, change: Change | None) -> None:
        """Remove a queue whose machine does not take its answers, with what is in it.

        It is part of the caller's step: that may have put an answer into it.
        """
        ledger, step = self._ledger, Change() if change is None else change
        count, address = queue.state.count, queue.definition.made_for
        ledger.refusals["answers_given_up"] += count
        ledger.event("answers_given_up", queue=queue.name, address=address, answers=count)
        self._forget(queue, step)
        self._empty(queue, DOOMED_DELETED, step)
        ledger.effects.active.add(queue.number)
        if change is None:
            ledger.commit(step)

    def forget_idle(self) -> None:
        """Remove outgoing queues that are not needed now.

        Names of answers and of response queues come with messages, so anybody can cause one. The
        next message for such a name makes its queue again, and begins a new sequence.
        """
        change = Change()
        for queue in list(self._outgoing.values()):
            if _is_idle(queue):
                self._forget(queue, change)
        self._ledger.commit(change)


def _is_idle(queue: Queue) -> bool:
    outgoing = queue.outgoing
    assert outgoing is not None
    if queue.state.count or queue.reserved or queue.descriptors or outgoing.sender:
        return False
    return not outgoing.engaged and outgoing.state not in HELD
