"""Bookkeeping of the log: where messages and definitions lie, and what keeps each segment alive.

It decides the rule of the log (design: a removal or state record lives until every segment that
holds a copy of what it names is gone). `append` and replay make the same calls in the same order,
so the ledger can always be rebuilt from the log.
"""

from __future__ import annotations

from typing import NamedTuple

from posthouse.engine.ledger.damaged_records import DamagedRecord, decode_damaged
from posthouse.engine.ledger.records import (
    ROW_SIZE,
    TABLE_BOOKS,
    TABLE_DAMAGE,
    Change,
    Skimmed,
    skimmed,
)
from posthouse.store.format import HEADER_SIZE
from posthouse.store.positions import PAGE_ENTRIES, Positions
from posthouse.store.segment import Segment

END_WEIGHT = 9  # bytes an ending takes in a CARRY record
ROW_WEIGHT = ROW_SIZE + 11
RUN_WEIGHT = 36  # of messages that are published or dropped together
DEFINE_WEIGHT = 7
CHANGE_WEIGHT = HEADER_SIZE + 12
FORGOTTEN = 2_000  # definitions of a segment that is gone, in one step

Key = tuple[int, bytes]


class Definition(NamedTuple):
    """Which segments hold a definition of one key, the newest last.

    It is replaced and never changed: checkpoints that are being written share it.
    """

    segments: tuple[int, ...]
    weight: int
    deleted: bool


class Account(NamedTuple):
    """The part of a segment's accounts that a checkpoint keeps."""

    number: int
    live_bytes: int
    fixed_bytes: int
    definition_bytes: int
    needs: dict[int, int]
    keeps: dict[int, int]


class StoreLedger:
    """Positions of messages, accounts of segments, places of definitions."""

    def __init__(self) -> None:
        self.positions = Positions()
        self.segments: dict[int, Segment] = {}
        self.definitions: dict[Key, Definition] = {}
        self.dead_bytes = 0  # died since the start
        self.copied_from: set[int] = set()  # segments with records that later copies supersede
        self.undecided: dict[bytes, int] = {}  # damaged records that keep their segments
        # Segments that are gone, and definitions that may still be said to lie in them.
        self._leaving: list[tuple[int, list[Key]]] = []

    # -- records that were written or replayed

    def message(self, number: int, segment: Segment, offset: int, size: int) -> None:
        """A MESSAGE record."""
        self.positions.put(number, segment.number, offset, size)
        segment.live_bytes += size

    def messages(self, numbers: list[int], segment: Segment, offsets: list[int], end: int) -> None:
        """MESSAGE records one after the other, up to `end`."""
        self.positions.put_run(numbers, segment.number, offsets, end)
        segment.live_bytes += end - offsets[0]

    def copy(self, number: int, segment: Segment, offset: int, size: int) -> None:
        """A COPY record: the older one is superseded from now on."""
        place = self.positions.get(number)
        if place is not None and place.segment in self.segments:
            self.copied_from.add(place.segment)
            if not place.dead:
                self.segments[place.segment].live_bytes -= place.size
        self.message(number, segment, offset, size)

    def change(self, change: Change, segment: Segment, *, carried: bool) -> None:
        """A CHANGE record, or (carried) a CARRY record."""
        self.said(skimmed(change), segment, carried=carried)

    def said(self, change: Skimmed, segment: Segment, *, carried: bool) -> None:
        """A CHANGE or CARRY record that was skimmed, without its rows."""
        if carried:
            segment.fixed_bytes += CHANGE_WEIGHT  # so that what compaction wrote is never due
        for run in change.published:
            self._keep_run(run.number, run.length, segment)
        self._settle_all(change.settles, segment)
        self._end_all([number for number, _ in change.ends], segment)
        for number, count in change.dropped:
            self._keep_run(number, count, segment)
            self._drop(number, count)
        for table, key, value in change.defines:
            if table == TABLE_BOOKS:  # every segment has its own
                segment.fixed_bytes += DEFINE_WEIGHT + len(key) + len(value or b"")
            else:
                self._define((table, key), value, segment)
                if table == TABLE_DAMAGE and value is not None:
                    self.damaged(decode_damaged(value))

    def damaged(self, damaged: DamagedRecord) -> None:
        """A damaged record: its segment is kept until the loss is accepted."""
        segment = self.segments.get(damaged.segment)
        if segment is not None:
            segment.aside[damaged.offset] = damaged.offset + damaged.size
        if damaged.accepted or segment is None:
            self.undecided.pop(damaged.key, None)
        else:
            self.undecided[damaged.key] = damaged.segment

    def held_segments(self) -> set[int]:
        """Segments with damaged records of which an operator has to decide first."""
        return set(self.undecided.values())

    def _keep_run(self, number: int, count: int, segment: Segment) -> None:
        """What is said here of messages in other segments has to be said as long as these exist."""
        for holder in self.positions.holders(number, count) - {segment.number}:
            segment.keeps[holder] = segment.keeps.get(holder, 0) + RUN_WEIGHT

    def _drop(self, number: int, count: int) -> None:
        end = number + count
        while number < end:
            some = min(end - number, PAGE_ENTRIES - number % PAGE_ENTRIES)
            killed = self.positions.kill_run(number, some)
            if killed is not None:
                self._dead(*killed)
            else:
                for one in range(number, number + some):
                    if killed := self.positions.kill(one):
                        self._dead(*killed)
            number += some

    def _dead(self, holder: int, size: int) -> None:
        account = self.segments.get(holder)
        if account is not None:
            account.live_bytes -= size
            self.dead_bytes += size

    def _settle_all(self, settles: list[tuple[int, int]], segment: Segment) -> None:
        """New rows; those of a commit mostly follow right after their messages."""
        here, positions = segment.number, self.positions
        if settles:
            first, last = settles[0][0], settles[-1][0]
            if last - first < 2 * len(settles) and positions.are_in(here, first, last):
                settles = [settle for settle in settles if not first <= settle[0] <= last]
        for number, extra_size in settles:
            place = positions.get(number)
            if place is not None and place.segment != here:
                weight = ROW_WEIGHT + extra_size
                segment.keeps[place.segment] = segment.keeps.get(place.segment, 0) + weight

    def _end_all(self, numbers: list[int], segment: Segment) -> None:
        """Endings; messages that were numbered in a row mostly lie in a row as well."""
        at, count = 0, len(numbers)
        while at < count:
            first = numbers[at]
            some = min(count - at, PAGE_ENTRIES - first % PAGE_ENTRIES)
            killed = None
            last = first + some - 1
            if (
                some > 1
                and numbers[at + some - 1] == last  # or they are not in a row, at no cost
                and numbers[at : at + some] == list(range(first, last + 1))
            ):
                killed = self.positions.kill_run(first, some)
            if killed is None:
                self._end(first, segment)
                at += 1
            else:
                self._die(*killed, segment, some)
                at += some

    def _die(self, holder: int, size: int, segment: Segment, count: int) -> None:
        """Messages in one segment ended, by a record that lies in another or the same."""
        account = self.segments.get(holder)
        if account is None:
            return
        account.live_bytes -= size
        self.dead_bytes += size
        if holder != segment.number:
            segment.needs[holder] = segment.needs.get(holder, 0) + count

    def _end(self, number: int, segment: Segment) -> None:
        killed = self.positions.kill(number)
        if killed is not None:
            self._die(*killed, segment, 1)
            return
        place = self.positions.get(number)
        if place is not None:
            self._die(place.segment, 0, segment, 1)

    def _define(self, key: Key, value: bytes | None, segment: Segment) -> None:
        known, here = self.definitions.get(key), (segment.number,)
        if known is not None:
            self._weigh(known, -known.weight)
        elif value is None:
            return
        if value is None and known is not None and known.segments == here:
            del self.definitions[key]  # both lie here and go together
            return
        segments = here if known is None else known.segments
        if segments[-1] != segment.number:
            segments += here
        weight = DEFINE_WEIGHT + len(key[1]) + len(value or b"")
        known = self.definitions[key] = Definition(segments, weight, value is None)
        self._weigh(known, weight)

    def _weigh(self, known: Definition, weight: int) -> None:
        holder = self.segments.get(known.segments[-1])
        if holder is not None:
            holder.definition_bytes += weight

    # -- segments

    def release(self, number: int) -> None:
        """A segment no longer belongs to the log; places in it are freed by the caller."""
        self.leave(number)
        while self.forget_some():
            pass

    def leave(self, number: int) -> None:
        """Begins to release a segment; `forget_some` ends it, step by step."""
        self.segments.pop(number, None)
        self.copied_from.discard(number)
        for segment in self.segments.values():
            segment.needs.pop(number, None)
            segment.keeps.pop(number, None)
        self._leaving.append((number, list(self.definitions)))

    def forget_some(self) -> bool:
        """Some definitions are not said to lie in a segment that is gone; False: no more are."""
        if not self._leaving:
            return False
        number, keys = self._leaving[0]
        for key in keys[-FORGOTTEN:]:
            self._forget(key, number)
        del keys[-FORGOTTEN:]
        if not keys:
            del self._leaving[0]
        return True

    def forget_absent(self) -> None:
        """Forgets all segments that are not there: a checkpoint was taken between two steps."""
        for key, known in list(self.definitions.items()):
            for number in known.segments:
                if number not in self.segments:
                    self._forget(key, number)

    def _forget(self, key: Key, number: int) -> None:
        known = self.definitions.get(key)
        if known is None or number not in known.segments:
            return
        left = tuple([segment for segment in known.segments if segment != number])
        if not left:
            del self.definitions[key]
        elif known.deleted and left == known.segments[-1:]:
            self._weigh(known, -known.weight)  # nothing is left for the tombstone to keep down
            del self.definitions[key]
        else:
            self.definitions[key] = Definition(left, known.weight, known.deleted)

    def weight(self, segment: Segment) -> int:
        """Bytes that compacting a segment would have to write again, at most."""
        return (
            segment.fixed_bytes
            + segment.live_bytes
            + segment.definition_bytes
            + END_WEIGHT * sum(segment.needs.values())
            + sum(segment.keeps.values())
        )

    # -- checkpoints

    def accounts(self) -> list[Account]:
        """The accounts of all segments."""
        return [
            Account(
                s.number,
                s.live_bytes,
                s.fixed_bytes,
                s.definition_bytes,
                dict(s.needs),
                dict(s.keeps),
            )
            for s in self.segments.values()
        ]
