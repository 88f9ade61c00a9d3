"""Ends messages whose time is over ([MS-MQDMPR] 3.1.2.4, 3.1.7.2.7)."""

from __future__ import annotations

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import ClaimedMessages, Endings, FailedReads, PacketReads
from posthouse.engine.ledger.records import Row
from posthouse.engine.ledger.steps import Allowance
from posthouse.engine.ledger.transfer_parts import MachineTransfer
from posthouse.engine.queues.collection import Queues

HELD_AGAIN_S = 60  # how often an expired message that somebody holds is looked at again


class Expiry:
    """Time To Be Received timers, and reach-queue timers of outgoing queues.

    Only available messages expire; one that a reader or a transaction holds does when it returns.
    The clock may step back meanwhile: what was due stays due.
    """

    def __init__(
        self,
        core: Ledger,
        registry: Queues,
        reading: PacketReads,
        outcomes: Endings,
        groups: ClaimedMessages,
        poison: FailedReads,
        transfer: MachineTransfer,
    ) -> None:
        self.core = core
        self._registry = registry
        self._reading = reading
        self._outcomes = outcomes
        self._groups = groups
        self._poison = poison
        self._transfer = transfer

    def run(self) -> None:
        """Ends what is due by now; of a great many messages some, and the rest in the next turn."""
        core = self.core
        if core.state.calendar.earliest > core.utc:
            return
        allowance = Allowance(core.settings)
        for number in core.state.calendar.take(core.utc, allowance.messages):
            row = core.state.table.get(number)
            if row is None or row.expires > core.utc:
                continue  # gone, or moved to where it does not expire
            if allowance.spent:
                core.state.calendar.add(row.expires, number)
                continue
            allowance.spend(row)
            self._expire(number, row)

    def _expire(self, number: int, row: Row) -> None:
        core, queue = self.core, self.core.queues[row.queue]
        self._reading.release(number)
        self._poison.release(number)
        if core.claims and self._groups.is_claimed(row):
            core.state.calendar.held[number] = row.expires  # until it is released
            return
        lock = core.locks.get(number)
        if lock is not None:
            core.locks[number] = lock.of_expired()
            # After a restart the lock is gone, and a checkpoint remembers only these entries.
            core.state.calendar.held[number] = row.expires
        if lock is not None or self._transfer.is_in_flight(queue, number, row):
            core.state.calendar.add(core.utc + HELD_AGAIN_S, number)
            return
        self._outcomes.expire(queue, number, row)
        self._registry.drop_empty_subqueue(queue)

    def next_deadline_utc(self) -> float:
        """The second in which the next message is due."""
        return self.core.state.calendar.earliest
