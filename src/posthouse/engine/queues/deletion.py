"""Delete Queue ([MS-MQDMPR] 3.1.7.1.4): its names, its readers, its messages."""

from __future__ import annotations

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import DOOMED_DELETED, Change
from posthouse.engine.messages.moving import Moving
from posthouse.engine.messages.outcome import MessageOutcomes
from posthouse.engine.messages.packet_reads import Fetching
from posthouse.engine.messages.waiting import WaitingReads
from posthouse.engine.pipelines.groups import Groups
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.engine.queues.opening import Opening
from posthouse.engine.queues.queue import Queue, QueueRole, QueueType
from posthouse.model.errors import AccessDenied, QueueDeleted


class QueueDeletion:
    """Deletes queues with all that is in them and open on them."""

    def __init__(
        self,
        ledger: Ledger,
        queues: Queues,
        opening: Opening,
        reading: Fetching,
        waiting: WaitingReads,
        moving: Moving,
        outcomes: MessageOutcomes,
        groups: Groups,
    ) -> None:
        self.ledger = ledger
        self.queues = queues
        self.opening = opening
        self.reading = reading
        self.waiting = waiting
        self.moving = moving
        self.outcomes = outcomes
        self.groups = groups

    def delete(self, queue: Queue, *, skip_directory: bool = False) -> None:
        """Delete Queue (3.1.7.1.4): the directory first, then queue, journal and subqueues.

        Their messages are deleted too, many of them in further steps. From the first record on the
        queue does not exist, and the next start deletes what is left of it.
        """
        change = Change()
        if queue.definition.role is not QueueRole.PLAIN:
            raise AccessDenied(
                f"{queue.name} is not a queue that can be deleted",
                "Purge it instead: posthouse queue purge. A subqueue goes away by itself when it "
                "is empty and closed, a journal goes with its queue.",
            )
        family = [queue, *queue.subqueues.values()]
        if queue.journal is not None:
            family.append(queue.journal)
        for member in family:
            self.groups.check_idle(member)
        if queue.definition.queue_type is QueueType.PUBLIC and not skip_directory:
            self.queues.public.withdraw(queue.definition, change)
        # Its names go first: no acknowledgment or dead letter of its messages may come back here.
        self.queues.forget_names(queue)
        for member in family:
            self._detach(member, change)
        for member in family:
            self.queues.remove(member, change)
        for member in family:
            self.moving.purge(member, DOOMED_DELETED, change)
        self.ledger.commit(change)

    def _detach(self, queue: Queue, change: Change) -> None:
        """Descriptors lose their queue; waiting readers are told."""
        error = QueueDeleted(f"the queue {queue.name} was deleted")
        for order in list(queue.waiters):
            self.waiting.cancel(order, error)
        for descriptor in list(queue.descriptors.values()):
            for cursor in list(descriptor.cursors.values()):
                self.opening.close_cursor(cursor)
            self._orphan_locks(descriptor, change)
            descriptor.queue = None
        queue.descriptors.clear()
        queue.exclusive = 0

    def _orphan_locks(self, descriptor: OpenQueueDescriptor, change: Change) -> None:
        """The reader of these messages is gone with its queue: they end as the queue's do.

        Also those whose time ran out while they were held: the purge that follows finds them all.
        """
        ledger = self.ledger
        for number in sorted(ledger.held_by(descriptor), key=self.reading.queue_order):
            row = ledger.state.table.get(number)
            assert row is not None
            queue = ledger.queues[row.queue]
            lock = ledger.unlock(queue, number)
            if lock.purged:
                self.outcomes.delete(queue, number, row, lock.purged, change)
            else:
                queue.make_room(row.priority, row.lookup_id)
