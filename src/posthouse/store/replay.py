"""Applies records of the log to a State and a Ledger.

A full replay meets a log with gaps: compacted segments are gone, and what they still held comes
later, in COPY and CARRY records. Until those are reached a row may be older than the change that
names it, so the steps here take a row as it comes instead of relying on the one before. From the
RELEASE of the last compacted segment on, with the books in front of it, the state is exactly the
one the engine had.
"""

from __future__ import annotations

import struct

from posthouse.engine.ledger.records import (
    ARRIVAL_SIZE,
    CHANGE,
    COPY,
    KEPT,
    MARK,
    MESSAGE,
    ROW,
    TABLE_BOOKS,
    TABLE_QUEUE,
    Change,
    Row,
    unpack_change,
)
from posthouse.engine.ledger.state import State
from posthouse.model.errors import RemoteProtocolError
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import CARRY, HEADER_SIZE, LOST, RELEASE, RELEASE_PAYLOAD, SEGMENTS
from posthouse.store.index import BLOCK_SIZES, BLOCK_SIZES_AT, SegmentIndex, block_size
from posthouse.store.ledger import StoreLedger
from posthouse.store.segment import Segment

_NUMBER = struct.Struct("<Q")
_unpack_row = ROW.unpack_from
_block_sizes = BLOCK_SIZES.unpack_from
_row = tuple.__new__


class Replay:
    """Rebuilds State and Ledger, record by record."""

    def __init__(self, state: State, ledger: StoreLedger) -> None:
        self.state = state
        self.ledger = ledger
        self.deleted: set[int] = set()  # queues that may still have had messages

    def index(self, index: SegmentIndex, segment: Segment, start: int) -> None:
        """All records from an offset on, by the index of their segment."""
        heads, at, live = index.heads, 0, 0
        view, here = memoryview(heads), segment.number
        arrive, put = self.state.arrive, self.ledger.positions.put
        for kind, number, offset, end in index.places():
            if kind == MESSAGE:  # the same as below, without a call for each part of it
                sender_size, extra_size = _block_sizes(heads, at + BLOCK_SIZES_AT)
                head_size = ARRIVAL_SIZE + sender_size + extra_size
                if offset >= start:
                    row: Row = _row(Row, _unpack_row(heads, at + _NUMBER.size))
                    after = at + head_size
                    arrive(
                        number, row, bytes(heads[after - extra_size : after]) if extra_size else b""
                    )
                    put(number, here, offset, end - offset)
                    live += end - offset
            else:
                head_size = block_size(heads, at) if kind == COPY else end - offset - HEADER_SIZE
                if offset >= start:
                    payload = view[at : at + head_size]
                    segment.live_bytes, live = segment.live_bytes + live, 0
                    self.record(kind, segment, offset, end - offset, payload)
            at += head_size
        segment.live_bytes += live

    def record(
        self, kind: int, segment: Segment, offset: int, size: int, payload: memoryview
    ) -> None:
        """One record that lies at an offset of a segment."""
        try:
            self._record(kind, segment, offset, size, payload)
        except (RemoteProtocolError, struct.error, ValueError) as error:
            reason = f"the record contradicts itself: {error}"
            raise StoreDamaged(segment.name, offset, reason) from None

    def _record(
        self, kind: int, segment: Segment, offset: int, size: int, payload: memoryview
    ) -> None:
        if kind == MESSAGE:
            number, row, extra = read_block(payload)
            self.state.arrive(number, row, extra)
            self.ledger.message(number, segment, offset, size)
        elif kind == COPY:
            number, row, extra = read_block(payload)
            restore(self.state, number, row, extra)
            self.ledger.copy(number, segment, offset, size)
        elif kind in (CHANGE, CARRY):
            change = unpack_change(payload)
            self._change(change, carried=kind == CARRY)
            self.ledger.change(change, segment, carried=kind == CARRY)
        elif kind == RELEASE:
            self.ledger.release(RELEASE_PAYLOAD.unpack(payload)[0])
        elif kind in (MARK, SEGMENTS):
            segment.fixed_bytes += size
        elif kind != LOST:
            raise StoreDamaged(segment.name, offset, f"a record of the unknown kind {kind}")

    def _change(self, change: Change, *, carried: bool) -> None:
        apply(self.state, change, carried=carried)
        for table, key, value in change.defines:
            if table == TABLE_QUEUE and value is None:
                self.deleted.add(int.from_bytes(key, "little"))
        if self.deleted:
            self._forget_deleted()

    def _forget_deleted(self) -> None:
        """The books of a deleted queue go with its last message, as in the engine."""
        queues = self.state.queues
        for number in [n for n in self.deleted if n not in queues or not queues[n].count]:
            self.state.forget_queue(number)
            self.deleted.discard(number)


def read_block(payload: memoryview) -> tuple[int, Row, bytes]:
    """Number, row and extra of a message's arrival block."""
    (number,) = _NUMBER.unpack_from(payload)
    row: Row = _row(Row, _unpack_row(payload, _NUMBER.size))
    sender_size, extra_size = _block_sizes(payload, BLOCK_SIZES_AT)
    end = ARRIVAL_SIZE + sender_size + extra_size
    if end > len(payload):
        raise RemoteProtocolError("message record shorter than its sender and extra")
    return number, row, bytes(payload[end - extra_size : end]) if extra_size else b""


def apply(state: State, change: Change, *, carried: bool) -> None:
    """A CHANGE record, or (carried) what is left of those of a compacted segment.

    The states in a carried run may be outdated: they count only for messages that have nothing
    newer, and these are still pending.
    """
    for run in change.published:
        state.publish(run, counted=not carried)
    for number, reason, row, extra in change.settles:
        if carried or reason == KEPT:
            if number in state.table:
                restore(state, number, row, extra, counted=not carried)
        else:
            state.settle(number, reason, row, extra)
    for number, reason in change.ends:
        state.end(number, KEPT if carried else reason)  # KEPT: a column that counts nothing
    for number, count in change.dropped:
        state.drop(number, count)
    for table, key, value in change.defines:
        if table == TABLE_BOOKS:
            forget_books(state)
        state.define(table, key, value)


def forget_books(state: State) -> None:
    """New books name every queue: one they do not name was deleted in a segment that is gone."""
    for number in [n for n, queue in state.queues.items() if not queue.count]:
        state.forget_queue(number)


def restore(state: State, number: int, row: Row, extra: bytes, *, counted: bool = False) -> None:
    """Gives a message its row, wherever it stood before."""
    old = state.table.get(number)
    if old is None or (old.lookup_id and _place(old) != _place(row)):
        state.restore(number, row, extra)
    elif old.lookup_id or counted:
        state.settle(number, KEPT, row, extra)
    else:
        state.restore(number, row, extra)


def _place(row: Row) -> tuple[int, int, int]:
    return row.queue, row.priority, row.lookup_id
