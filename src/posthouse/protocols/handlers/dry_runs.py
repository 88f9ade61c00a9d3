"""Dry runs of work on many messages: checks whether the target would accept each of them.

Every check of the real work that can be made without doing it; nothing is made, sent or moved.
"""

from __future__ import annotations

from posthouse.engine.manager import QueueManager
from posthouse.engine.messages.returning import check_is_elsewhere
from posthouse.engine.messages.room import Room
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.engine.queues.queue import Queue
from posthouse.model.message import Message, complete_transaction
from posthouse.model.properties import QueueAccessType
from posthouse.security.access import Caller
from posthouse.wire.packet.message import serialize


def targets(
    manager: QueueManager, name: str, access: QueueAccessType, caller: Caller
) -> list[Queue]:
    """The queues that a name would open; not those that would be made by that."""
    return manager.queues.would_open(name, access, caller)


class Trial:
    """One dry run. What it has admitted counts against quotas, as if it were there."""

    def __init__(self) -> None:
        self._room = Room()

    def send(self, manager: QueueManager, name: str, caller: Caller, message: Message) -> None:
        """Whether it could be sent there; for other computers that is unknown."""
        for queue in targets(manager, name, QueueAccessType.SEND, caller):
            if queue.outgoing is None:
                transactional = queue.definition.transactional
                complete_transaction(message, 0 if transactional else None)
                packet = serialize(message)
                manager.messages.check_admission(
                    queue, packet, transactional=transactional, room=self._room
                )

    def send_again(
        self,
        manager: QueueManager,
        source: OpenQueueDescriptor,
        lookup_id: int,
        name: str,
        caller: Caller,
        message: Message,
    ) -> None:
        """Whether it could be sent there in its place; a queue does not get it from itself."""
        queue, _, _ = manager.returning.available(source, lookup_id)
        found = targets(manager, name, QueueAccessType.SEND, caller)
        if len(found) == 1:
            check_is_elsewhere(queue, found[0])
        self.send(manager, name, caller, message)

    def send_back(
        self,
        manager: QueueManager,
        source: OpenQueueDescriptor,
        lookup_id: int,
        name: str,
        caller: Caller,
        message: Message,
    ) -> None:
        """Whether it could go back there, as the message it is or as a copy."""
        queue, number, row = manager.returning.available(source, lookup_id)
        found = targets(manager, name, QueueAccessType.SEND, caller)
        if len(found) == 1 and manager.returning.stays_the_same(row, found[0]):
            check_is_elsewhere(queue, found[0])
            manager.returning.admit(number, row, found[0], self._room)
        else:
            self.send_again(manager, source, lookup_id, name, caller, message)

    def move(
        self, manager: QueueManager, source: OpenQueueDescriptor, lookup_id: int, name: str
    ) -> None:
        """Whether it could be moved there; a subqueue may have to be made."""
        for target in targets(manager, name, QueueAccessType.MOVE, source.caller):
            before = self._room.of(target.root)
            row = manager.messages.check_move(source, lookup_id, target, before)
            self._room.take(target.root, row.size)
