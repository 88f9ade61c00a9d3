"""Records of what was lost when a log went on without damaged records."""

from __future__ import annotations

from collections.abc import Iterator

from posthouse.engine.ledger.damaged_records import DamagedRecord, decode_damaged, encode_damaged
from posthouse.engine.ledger.records import (
    ACCEPTED,
    COLUMNS,
    COPY,
    FLAG_EXPRESS,
    LOST_EXPRESS,
    RECEIVED,
    TABLE_DAMAGE,
    Change,
    Define,
)
from posthouse.engine.ledger.state import State
from posthouse.store.format import segment_name
from posthouse.store.recovery import OpenedLog
from posthouse.store.set_aside import Aside


class Losses:
    """Compares what was set aside with what the state still has."""

    def __init__(self, found: OpenedLog) -> None:
        self.state, self.ledger = found.state, found.ledger
        self.asides = found.asides
        self.covered = found.covered
        self.known = damaged_records(found.state)
        self.notes: list[str] = []
        self._living = self._living_messages() if self.asides else {}

    def change(self) -> Change:
        """What the log has to be told; empty if nothing is new."""
        change = Change()
        change.ends += [(number, LOST_EXPRESS) for number in self._without_record()]
        for damaged in self._new():
            change.defines.append(Define(TABLE_DAMAGE, damaged.key, encode_damaged(damaged)))
        for damaged in self.known:
            if damaged.segment not in self.ledger.segments:
                change.defines.append(Define(TABLE_DAMAGE, damaged.key, None))
        if self.asides or self.known:
            self.state.apply_change(change)
            if balance_books(self.state):
                change.defines.append(self.state.books_define())
        return change

    def _new(self) -> Iterator[DamagedRecord]:
        known = {damaged.key for damaged in self.known}
        for aside in self.asides:
            number = self._living.get((aside.segment, aside.offset), 0)
            size, reason = aside.end - aside.offset, aside.reason
            if not aside.is_message or (self._is_covered(aside) and not number):
                where = f"{segment_name(aside.segment)}, offset {aside.offset}"
                self.notes.append(f"{where}: {reason}; no message is missing for it")
                continue
            damaged = DamagedRecord(aside.segment, aside.offset, size, reason, number, aside.number)
            if damaged.key not in known:
                yield damaged

    def _is_covered(self, aside: Aside) -> bool:
        """The checkpoint has what the record said: only its packet can be missing."""
        segment, offset = self.covered
        return aside.segment == segment and aside.offset < offset

    def _living_messages(self) -> dict[tuple[int, int], int]:
        """The messages whose records were set aside, by their places."""
        wanted = {(aside.segment, aside.offset) for aside in self.asides}
        places = self.ledger.positions
        found: dict[tuple[int, int], int] = {}
        numbers = [number for number, _ in self.state.table.items()]
        for number, place in zip(numbers, map(places.get, numbers), strict=True):
            if place is not None and place[:2] in wanted:
                found[place[:2]] = number
        return found

    def _without_record(self) -> list[int]:
        """Messages whose copy was set aside after the segment of the original was released."""
        if not any(aside.kind == COPY for aside in self.asides):
            return []
        places = self.ledger.positions
        return [
            number
            for number, row in self.state.table.items()
            if not row.flags & FLAG_EXPRESS and places.get(number) is None
        ]


def damaged_records(state: State) -> list[DamagedRecord]:
    """All that the log remembers, in the order of their places."""
    found = [decode_damaged(value) for _, value in state.of_table(TABLE_DAMAGE)]
    return sorted(found, key=lambda one: (one.segment, one.offset))


def balance_books(state: State) -> bool:
    """Counts what is missing as lost; what came back because its end was lost, as accepted.

    True if anything had to be changed.
    """
    waiting = dict.fromkeys(state.queues, 0)
    for row in dict(state.table.items()).values():
        if row.lookup_id and not row.flags & FLAG_EXPRESS:
            waiting[row.queue] += 1
    changed = False
    for number, queue in state.queues.items():
        ended = sum(queue.books[RECEIVED:ACCEPTED])
        missing = queue.books[ACCEPTED] - ended - waiting[number]
        if missing > 0:
            queue.books[LOST_EXPRESS] += missing
        else:
            queue.books[ACCEPTED] -= missing
        changed = changed or bool(missing)
    assert COLUMNS == ACCEPTED + 1
    return changed
