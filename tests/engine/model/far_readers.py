"""What remote readers do, in the model: they name everything by numbers, and they get lost."""

from __future__ import annotations

from tests.engine.model.parts import (
    NACK_RECEIVE_REJECTED,
    Descriptor,
    Letter,
    Queue,
    Refusal,
    Transaction,
)
from tests.engine.model.readers import Readers


class FarReaders(Readers):
    """Remote reads of one run of the queue manager."""

    def end_read(self, descriptor: Descriptor, place: int, *, positive: bool) -> None:
        """R_EndReceive, R_EndTransactionalReceive."""
        self._present(self.check(descriptor, "receive"), place)
        self.end_dequeue(descriptor, place, positive=positive)

    def _present(self, queue: Queue, place: int) -> Letter:
        letter = self._current(queue, place)
        if letter is None:
            raise Refusal("MessageNotFound")
        return letter

    def give_up(self, descriptor: Descriptor, place: int) -> None:
        """The cleanup timer: it never fails, and nobody is asked for a right."""
        queue = descriptor.queue
        letter = None if queue is None else self._current(queue, place)
        lock = None if letter is None else letter.lock
        if letter is None or lock is None or lock.holder is not descriptor:
            return
        transaction = lock.transaction
        if transaction is None:
            self.give_back(letter, in_doubt=True)
        elif transaction.state == "active":
            self.happened("read given up inside a transaction")
            self._end_in_transaction(letter, transaction, False, 0)

    def lose(self, descriptor: Descriptor) -> None:
        """Rundown: nobody closes what is open, and what was held is in doubt."""
        self.close(descriptor, in_doubt=True)

    def set_class(self, descriptor: Descriptor, place: int, message_class: int) -> None:
        """R_SetUserAcknowledgementClass."""
        queue = self.check(descriptor, "receive")
        if message_class not in (0, NACK_RECEIVE_REJECTED):
            raise Refusal("InvalidParameter")
        letter = self._present(queue, place)
        transaction = None if letter.lock is None else letter.lock.transaction
        operations = [] if transaction is None else transaction.operations
        mine = [o for o in operations if o.letter is letter and o.kind == "receive"]
        if transaction is None or not mine:
            raise Refusal("TransactionUsage")
        if message_class:
            self.use(transaction)
            mine[0].reason = message_class

    def far_move(
        self, source: Descriptor, place: int, target: Descriptor, transaction: Transaction | None
    ) -> None:
        """R_MoveMessage; a transaction that has ended is unknown."""
        from_queue = self.check(source, "receive")
        if target.access != "move" or source.caller != target.caller:
            raise Refusal("InvalidHandle")
        to_queue = self.check(target, "move")
        if from_queue is to_queue or self.root(from_queue) is not self.root(to_queue):
            raise Refusal("StatusInvalidParameter")
        if to_queue.facts.transactional is (transaction is None):
            raise Refusal("TransactionUsage")
        self._movable(from_queue, place)
        if transaction is not None and self.transactions.get(transaction.name) is not transaction:
            raise Refusal("TransactionSequence")
        self.move(source, place, target, transaction)
