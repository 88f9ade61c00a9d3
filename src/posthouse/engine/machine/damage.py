"""Damaged records of messages: found, listed, and given up when an operator decides so.

There is one list, whether a start went on without a record or a reader met it. An entry is in the
log (TABLE_DAMAGE) as long as its segment is, so that the next start reports it as well.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from posthouse.engine.ledger.damaged_records import (
    DamagedRecord,
    damage_key,
    decode_damaged,
    encode_damaged,
)
from posthouse.engine.ledger.effects import Unreadable
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import Endings, FailedReads, PacketReads
from posthouse.engine.ledger.records import TABLE_DAMAGE, Change, Row
from posthouse.engine.queues.queue import Queue
from posthouse.model.message_classes import NACK_QUEUE_PURGED


class Damage:
    """The damaged records that the log remembers."""

    def __init__(self, core: Ledger, reading: PacketReads) -> None:
        self.core = core
        self._reading = reading
        self.records: dict[bytes, DamagedRecord] = {}  # accepted ones too
        self.stops_compaction = ""  # damage that it cannot pass

    def connect(self, outcomes: Endings, poison: FailedReads) -> None:
        """Parts that are made after this one, since they need it."""
        self._outcomes = outcomes
        self._poison = poison

    def load(self) -> None:
        """Everything the log kept; what is not decided is told with each start."""
        for key, value in sorted(self.core.state.of_table(TABLE_DAMAGE)):
            self._add(key, decode_damaged(value))
        for damaged in self.undecided():
            self._tell("damage_undecided", damaged)

    def undecided(self) -> list[DamagedRecord]:
        """What an operator has to decide, in the order of the log."""
        found = [one for one in self.records.values() if not one.accepted]
        return sorted(found, key=lambda one: (one.segment, one.offset))

    def _add(self, key: bytes, damaged: DamagedRecord) -> None:
        self.records[key] = damaged
        if damaged.number in self.core.state.table:
            self.core.unreadable.add(damaged.number)

    def message(self, damaged: DamagedRecord) -> tuple[Queue | None, Row] | None:
        """The message that a record holds, with its queue, as far as the log still has it."""
        row = self.core.state.table.get(damaged.number) if damaged.number else None
        return None if row is None else (self.core.queues.get(row.queue), row)

    # -- finding

    def found(self, number: int, damage: Unreadable) -> None:
        """A reader met a damaged record. Express messages have no record of their own."""
        if damage.place is None:
            return
        known = self.records.get(damage_key(*damage.place[:2]))
        if known is None or known.accepted or known.number != number:
            reason, utc = damage.reason, self.core.utc
            self._keep(DamagedRecord(*damage.place, reason, number, number, utc))

    def read(self, number: int) -> None:
        """A message can be read: if it was damaged before, it is no longer."""
        for damaged in self._taken(number):
            change = Change()
            self.core.define(TABLE_DAMAGE, damaged.key, None, change)
            self.core.effects.put(change)
            del self.records[damaged.key]
            self._tell("damage_gone", damaged)

    def ended(self, number: int, change: Change) -> None:
        """A damaged message ends without having been read: there is nothing to decide.

        That is said in one record with its end, or a loss of power could leave one of the two.
        """
        for damaged in self._taken(number):
            if not damaged.accepted:
                ended = msgspec.structs.replace(damaged, number=0, accepted=self.core.utc)
                self._define(ended, change)

    def _taken(self, number: int) -> list[DamagedRecord]:
        self.core.unreadable.discard(number)
        return [one for one in self.records.values() if one.number == number]

    def _keep(self, damaged: DamagedRecord) -> None:
        """A record of its own: the call that met the damage may be refused."""
        change = Change()
        self._define(damaged, change)
        self.core.effects.put(change)

    def _define(self, damaged: DamagedRecord, change: Change) -> None:
        self._add(damaged.key, damaged)
        self.core.define(TABLE_DAMAGE, damaged.key, encode_damaged(damaged), change)

    # -- deciding

    def accept(self, chosen: Collection[DamagedRecord], operator: str) -> None:
        """Gives up what these records held: messages that are still in queues are purged."""
        for damaged in chosen:
            change = Change()
            self._purge(damaged, change)
            accepted = msgspec.structs.replace(
                damaged, accepted=self.core.utc, accepted_by=operator
            )
            self._define(accepted, change)
            self.core.commit(change)
            self._tell("damage_accepted", damaged, by=operator)

    def _purge(self, damaged: DamagedRecord, change: Change) -> None:
        core, found = self.core, self.message(damaged)
        if found is None:
            return
        self._reading.release(damaged.number)
        self._poison.release(damaged.number)
        queue, row = found
        if queue is not None and row.lookup_id and damaged.number not in core.locks:
            self._outcomes.delete(queue, damaged.number, row, NACK_QUEUE_PURGED, change)

    def _tell(self, event: str, damaged: DamagedRecord, **details: object) -> None:
        place = {"segment": damaged.segment, "offset": damaged.offset, "bytes": damaged.size}
        self.core.event(event, **place, reason=damaged.reason, **details)
