"""Somebody who sees every record on its way to the store, and knows what must be there after it.

The witness does not trust the store: it applies the engine's records to a State of its own, one
by one, and keeps the picture after each. Whatever a crash leaves must be one of these pictures,
not older than the last answer that was let out. That is the whole promise of a log: a prefix,
and nothing answered for is behind its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from posthouse.engine.ledger.records import (
    CHANGE,
    DROP,
    EXPRESS,
    FLAG_EXPRESS,
    MESSAGE,
    TABLE_QUEUE,
    Record,
    unpack_arrival,
    unpack_change,
)
from posthouse.engine.ledger.state import State
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import QueueRole, decode_definition

Picture = dict[str, Any]
View = dict[str, list[tuple[int, ...]]]


def picture(state: State) -> Picture:
    """Everything a State says of what has to outlive a crash, in a form that can be compared.

    Express messages do not have to, and the books of a deleted queue go with it.
    """
    rows = {n: row for n, row in state.table.items() if not row.flags & FLAG_EXPRESS}
    queues = {decode_definition(value).number for _, value in state.of_table(TABLE_QUEUE)}
    order = {
        number: [message for _, message in queue.order.forward() if message in rows]
        for number, queue in state.queues.items()
    }
    return {
        "rows": rows,
        "order": {number: messages for number, messages in order.items() if messages},
        "books": {
            number: queue.books[1:]
            for number, queue in state.queues.items()
            if number in queues and any(queue.books[1:])
        },
        "extras": {n: extra for n, extra in state.extras.items() if n in rows},
        "pending": {n for n in state.pending if n in rows},
        "doomed": {n for n in state.doomed if n in rows},
        "definitions": dict(state.definitions),
    }


def difference(found: Picture, wanted: Picture) -> dict[str, object]:
    """What two pictures disagree on, for an assertion's message."""
    told: dict[str, object] = {}
    for part, value in wanted.items():
        if found[part] == value:
            continue
        if isinstance(value, dict):
            keys = [k for k in {**value, **found[part]} if value.get(k) != found[part].get(k)]
            told[part] = {k: (found[part].get(k), value.get(k)) for k in keys[:5]}
        else:
            told[part] = (found[part], value)
    return told


def view(manager: QueueManager, *, express: bool = False) -> View:
    """What readers will see: every queue with its messages in order, held ones too.

    A message that somebody holds goes back to its queue when they are gone; one that was purged or
    ran out of time in their hands ends then.
    """
    table, utc = manager.ledger.state.table, manager.machine.utc
    seen: View = {}
    for queue in manager.queues.all():
        messages = []
        for _, number in queue.state.order.forward():
            row = table.get(number)
            assert row is not None
            if not row.doomed and row.expires > utc and bool(row.flags & FLAG_EXPRESS) == express:
                facts = row.lookup_id, row.priority, row.message_class, row.aborts, row.moves
                messages.append((number, *facts))
        # An empty subqueue lives only while somebody has it open.
        if messages or queue.definition.role is not QueueRole.SUBQUEUE:
            seen[queue.name] = messages
    return seen


class Oracle:
    """The durable records of a store since it was made, and the picture after each."""

    def __init__(self, records: Sequence[Record] = (), pictures: Sequence[Picture] = ()) -> None:
        self.records = list(records)
        self._pictures = list(pictures) or [picture(State())]
        self._state: State | None = None

    def picture(self, count: int) -> Picture:
        """The State after this many records."""
        while len(self._pictures) <= count:
            state = self._advanced()
            apply(state, self.records[len(self._pictures) - 1])
            self._pictures.append(picture(state))
        return self._pictures[count]

    def _advanced(self) -> State:
        if self._state is None:
            self._state = State()
            for record in self.records[: len(self._pictures) - 1]:
                apply(self._state, record)
        return self._state

    def first(self, count: int) -> Oracle:
        """The oracle of a store that was opened with this many records."""
        return Oracle(self.records[:count], self._pictures[: count + 1])


def apply(state: State, record: Record) -> None:
    """One record, as the engine's own methods read it; no code of the store."""
    kind, _, head, packet = record
    if kind == MESSAGE:
        state.apply_message(unpack_arrival(head + packet))
    else:
        assert kind == CHANGE
        state.apply_change(unpack_change(head))


@dataclass
class Turn:
    """The engine after a turn; `position` is -1 until the store has taken its records."""

    position: int
    records: int
    clock: tuple[int, int]
    seen: View
    express: frozenset[int]
    whole: bool  # one call, which happens all or not at all


@dataclass
class Witness:
    """What was written and answered, over any number of starts of one store."""

    oracle: Oracle = field(default_factory=Oracle)
    written: int = 0
    answered: int = 0  # this many records were there when the last answer was let out
    packets: dict[int, bytes] = field(default_factory=dict)
    senders: dict[int, bytes] = field(default_factory=dict)
    lookup_ids: dict[int, int] = field(default_factory=dict)  # and the records that say so
    turns: list[Turn] = field(default_factory=list)
    old_turns: int = 0  # this many of them were before this start
    starts: int = 0

    def now(self) -> Witness:
        """The witness as it is at this moment; cheap."""
        return replace(self, turns=list(self.turns))

    # -- what is told

    def wrote(self, records: Sequence[Record]) -> None:
        """The engine asks for these records."""
        given: set[int] = set()
        for record in records:
            kind, number, head, packet = record
            if kind in (MESSAGE, EXPRESS):
                arrival = unpack_arrival(head + packet)
                self.packets[number], self.senders[number] = packet, arrival.sender
                given.add(arrival.row.lookup_id)
            elif kind == CHANGE:
                change = unpack_change(head)
                given.update(settle.row.lookup_id for settle in change.settles)
                for run in change.published:
                    given.update(range(run.lookup_id, run.lookup_id + run.length))
            if kind not in (EXPRESS, DROP):
                self.oracle.records.append(record)
                self.written += 1
        self.lookup_ids = dict.fromkeys(given, self.written) | self.lookup_ids

    def let_out(self, synced: int) -> None:
        """Answers went out because the store called this position synced."""
        turns = self.turns[self.old_turns :]
        done = [turn.records for turn in turns if 0 <= turn.position <= synced]
        self.answered = max([self.answered, *done])

    # -- what must be there

    def locate(self, state: State) -> int:
        """How many records a recovered State holds; fails if it is not a prefix, or too short."""
        found = picture(state)
        candidates = range(self.written, self.answered - 1, -1)
        for count in candidates:
            if self.oracle.picture(count) == found:
                return count
        for count in range(self.answered):
            if self.oracle.picture(count) == found:
                raise AssertionError(f"{self.answered} records were answered for, {count} are left")
        told = [(count, difference(found, self.oracle.picture(count))) for count in candidates]
        raise AssertionError(f"no prefix of the log; records, (found, wanted): {told[:3]}")

    def check_express(self, state: State) -> None:
        """Express messages are there as at a turn that may have been the last, or all gone."""
        there = {n for n, row in state.table.items() if row.flags & FLAG_EXPRESS}
        last = [t.express for t in self.turns if t.records >= self.answered][-2:]
        assert not there or there in [set(express) for express in last], (there, last)

    def turn_before(self, count: int) -> Turn | None:
        """The last turn whose records are all among the first this many."""
        return next((t for t in reversed(self.turns) if t.records <= count), None)

    def check_view(self, count: int, seen: View) -> None:
        """One call is visible whole or not at all."""
        before = self.turn_before(count)
        after = next((t for t in self.turns if t.records > count), None)
        if before is not None and before.records == count:
            assert seen == before.seen, difference({"seen": seen}, {"seen": before.seen})
        elif before is not None and after is not None and after.whole:
            assert seen in (before.seen, after.seen), (seen, before.seen, after.seen)

    def resumed(self, count: int) -> Witness:
        """The witness of a store that was opened with this many records: they are answered for."""
        turns = [turn for turn in self.turns if turn.records <= count]
        return Witness(
            self.oracle.first(count),
            count,
            count,
            dict(self.packets),
            dict(self.senders),
            {given: records for given, records in self.lookup_ids.items() if records <= count},
            turns,
            len(turns),
            self.starts + 1,
        )
