"""Reads an outgoing queue for the session that sends it ([MS-MQQB] 3.1.1.3.1.2, 3.1.5.5, 3.1.7.1).

The document has a table with an entry and five marks for each message. Here the queue itself is the
table, and a session remembers of it how far it has come in each priority: what lies in front of
that place and is still here was sent on this session and is not acknowledged. So a million waiting
messages cost a session as much as ten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Protocol

from posthouse.engine.ledger.effects import Unreadable
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.order import PRIORITIES
from posthouse.engine.ledger.parts import Endings, MachineTargets, PacketReads, TraceReports
from posthouse.engine.ledger.records import (
    FLAG_ARRIVED,
    FLAG_EXPRESS,
    FLAG_REMOTE,
    FLAG_TRANSACTIONAL,
    Row,
)
from posthouse.engine.ledger.row_columns import EXPIRES_WORD, QUEUE_WORD, SIZE_WORD, Rows
from posthouse.engine.ledger.spans import DELIVER
from posthouse.engine.queues.queue import ConnectionAttempt, Outgoing, OutgoingQueueState, Queue
from posthouse.engine.transfer.outgoing_sequences import OutgoingTransferInfo, Sequences
from posthouse.engine.transfer.protocol_interface import Outbound
from posthouse.engine.transfer.sequence_values import OURS, SEQUENCED, is_numbered
from posthouse.model.errors import QueueError
from posthouse.model.message_classes import NACK_COULD_NOT_ENCRYPT
from posthouse.model.properties import ConnectionStatus
from posthouse.wire.packet.packet_fields import PacketSummary, summarize
from posthouse.wire.packet.patch import addressed_to, patch
from posthouse.wire.packet.sequence_places import Finder, placed

Seal = Callable[[bytes, PacketSummary, int], bytes]  # of a packet that leaves, now
# Of each value of a row's flags, 1 or 0:
_IS_ARRIVED = bytes(bool(flags & FLAG_ARRIVED) for flags in range(256))
_IS_NUMBERED = bytes(map(is_numbered, range(256)))
_IS_RECOVERABLE = bytes(not flags & FLAG_EXPRESS for flags in range(256))
_BATCH = 256  # rows that are looked at together


class PositionRange:
    """Where messages of a queue stand that are sent one right after the other."""

    __slots__ = ("_last", "_queue", "_sequences", "number", "sequence_id")

    def __init__(self, sequences: Sequences, queue: Queue) -> None:
        self._sequences = sequences
        self._queue = queue
        self._last = 0  # the last lookup id of the sequence
        self.sequence_id = 0
        self.number = 0  # of the message before

    def next(self, row: Row) -> tuple[int, int, int]:
        """Sequence, number and previous number of the next message."""
        previous, self.number = self.number, row.last_move
        if row.lookup_id > self._last:
            before = self.sequence_id
            self.sequence_id, self._last = self._sequences.range_of(self._queue, row.lookup_id)
            previous = 0
            if not before:
                previous = self._sequences.previous(self._queue, row, self.sequence_id)
        return self.sequence_id, self.number, previous


class CursorOwner(Protocol):
    """The outgoing queues, as their cursors need them."""

    connection_active: bool
    sequences: Sequences

    @property
    def seal(self) -> Seal:
        """Protects a packet that leaves."""

    def connection_attempted(self, queue: Queue, attempt: ConnectionAttempt) -> None:
        """Adds an entry to ConnectionHistory."""

    def resend_planned(self, queue: Queue, count: int, interval_s: int, time: int) -> None:
        """A protocol's report: how often, how far apart and when next it sends again."""

    def info(self, queue: Queue) -> OutgoingTransferInfo:
        """OutgoingTransferInfo of an outgoing queue: exactly one each."""

    def sender_ended(self, sender: OutgoingCursor) -> None:
        """What a session had sent of a queue waits again."""


class OutgoingCursor:
    """The messages of one outgoing queue on their way through one session.

    Each is taken once, the highest priority first, then in order of arrival; transactional ones
    again after `resend`. A new session begins with a new sender.
    """

    __slots__ = (
        "_again",
        "_again_end",
        "_core",
        "_marks",
        "_outcomes",
        "_passed_over",
        "_reading",
        "_targets",
        "_tracing",
        "_transfer",
        "live",
        "queue",
    )

    def __init__(
        self,
        core: Ledger,
        targets: MachineTargets,
        reading: PacketReads,
        outcomes: Endings,
        tracing: TraceReports,
        transfer: CursorOwner,
        queue: Queue,
    ) -> None:
        self._core = core
        self._targets = targets
        self._reading = reading
        self._outcomes = outcomes
        self._tracing = tracing
        self._transfer = transfer
        self.queue = queue
        self.live = True
        self._marks = [0] * PRIORITIES  # lookup ids: up to there it has been
        self._marks[SEQUENCED] = self._outgoing.settled
        self._passed_over: dict[int, int] = {}  # locked when their turn came: number, priority
        self._again = self._again_end = 0  # sequenced messages between these are sent again

    @property
    def _outgoing(self) -> Outgoing:
        outgoing = self.queue.outgoing
        assert outgoing is not None
        return outgoing

    # -- what goes out

    def take(self, count: int, bytes_max: int, lowest: int = 0) -> list[Outbound]:
        """Send User Message (3.1.7.1) for the next messages, as far as they are not too much.

        One of any size is not too much. What has expired meanwhile ends here (3.1.7.1.2). Messages
        of a priority below `lowest` are left alone.
        """
        if not self._may_send() or count <= 0:
            return []
        choice = _Choice(count, bytes_max)
        for priority in reversed(self.queue.state.order.used):
            if priority < lowest:
                break
            if self._passed_over:
                self._choose_returned(priority, choice)
            if priority == SEQUENCED:
                self._choose_again(choice)
                if self._again < self._again_end:
                    break  # what is new there does not overtake what is sent again
            self._choose(priority, choice)
            if choice.full:
                break
        return self._prepare(choice)

    def _may_send(self) -> bool:
        """3.1.7.1: only while the queue is connected; a paused or locked one is not."""
        return (
            self.live
            and self._transfer.connection_active
            and self._outgoing.state is OutgoingQueueState.CONNECTED
        )

    def _choose_returned(self, wanted: int, choice: _Choice) -> None:
        """Messages of a priority that were locked when their turn came, as far as they are free."""
        for number, priority in list(self._passed_over.items()):
            row = self._core.state.table.get(number)
            if row is None or row.queue != self.queue.number:
                del self._passed_over[number]
            elif (
                priority == wanted == row.priority
                and number not in self._core.locks
                and not choice.full
            ):
                del self._passed_over[number]
                if not self._expired(number, row):
                    choice.add(number, row)

    def _choose(self, priority: int, choice: _Choice) -> None:
        """Messages of one priority that this session has not seen."""
        marks, lane = self._marks, self.queue.state.order.lane(priority)
        while not choice.full:
            ids, numbers = lane.some_after(marks[priority], min(choice.room, _BATCH))
            rows = self._core.state.table.gather(numbers)
            if ids and self._are_all_free(numbers, rows) and choice.has_room_for(rows):
                marks[priority] = ids[-1]
                choice.add_all(numbers, rows)
                continue
            for row, number in zip(rows, numbers, strict=True):
                if self._is_blocked(number, row) or not choice.has_room(row):
                    return
                self._settle(marks[priority], row)
                marks[priority] = row.lookup_id
                self._offer(number, row, choice)
            if not ids:
                return

    def _are_all_free(self, numbers: list[int], rows: Rows) -> bool:
        """The common case: none of them is held, and all have time left."""
        if not self._core.locks.keys().isdisjoint(numbers):
            return False
        in_time = min(rows.word(EXPIRES_WORD)) > self._core.utc
        return in_time and 1 not in rows.flags.translate(_IS_ARRIVED)

    def _choose_again(self, choice: _Choice) -> None:
        """Sequenced messages that are sent once more; the others of their lane are not."""
        lane = self.queue.state.order.lane(SEQUENCED)
        while self._again < self._again_end and not choice.full:
            ids, numbers = lane.some_after(self._again, min(choice.room, _BATCH))
            if not ids or ids[0] > self._again_end:
                self._again = self._again_end
                return
            for row, number in zip(self._core.state.table.rows(numbers), numbers, strict=True):
                if row.lookup_id > self._again_end:
                    self._again = self._again_end
                    return
                if is_numbered(row.flags):
                    if self._is_blocked(number, row) or not choice.has_room(row):
                        return
                    self._offer(number, row, choice)
                self._again = row.lookup_id

    def _is_blocked(self, number: int, row: Row) -> bool:
        """Nothing overtakes a message of a sequence that somebody holds: it could not follow."""
        return (
            number in self._core.locks
            and is_numbered(row.flags)
            and not row.flags & FLAG_ARRIVED
            and number not in self._reading.damaged
        )

    def _settle(self, mark: int, row: Row) -> None:
        """Notes for later sessions where the messages end that only wait for final answers."""
        if row.flags & FLAG_ARRIVED and mark == self._outgoing.settled:
            self._outgoing.settled = row.lookup_id

    def _offer(self, number: int, row: Row, choice: _Choice) -> None:
        if row.flags & FLAG_ARRIVED or number in self._reading.damaged:
            return
        if number in self._core.locks:
            self._passed_over[number] = row.priority
        elif not self._expired(number, row):
            choice.add(number, row)

    def _expired(self, number: int, row: Row) -> bool:
        """Checking for Message Expiration (3.1.7.1.2)."""
        if row.expires > self._core.utc:
            return False
        self._outcomes.expire(self.queue, number, row)
        return True

    # -- as it goes on the wire

    def _prepare(self, choice: _Choice) -> list[Outbound]:
        """The packets; a damaged one stays, locked until the next start."""
        core, sequences = self._core, self._transfer.sequences
        try:
            self._reading.fetch_many(choice.numbers)
        except Unreadable:
            choice.keep(set(self._reading.fetch_sound(choice.numbers)[0]))
        numbers, rows = choice.numbers, Rows(choice.packed)
        if core.spans is not None:
            core.spans.begins(DELIVER, self.queue, numbers, rows)
        if not numbers:
            return []
        packets, owner, finder = core.effects.packets, self._owner(), Finder()
        going = [packets[number] for number in numbers]
        if owner:
            going = [addressed_to(packet, owner) for packet in going]
        for at in finder.careful(going):
            going[at] = self._cared_for(numbers[at], rows[at], going[at])
        numbered = rows.flags.translate(_IS_NUMBERED)
        if 1 in numbered:
            places = PositionRange(sequences, self.queue)
            for at, row in enumerate(rows):
                if numbered[at] and going[at]:
                    place = places.next(row)
                    going[at] = placed(going[at], row.flags, *place, finder.transaction_at)
            if places.sequence_id:
                sequences.sent(self.queue, places.sequence_id, places.number)
        new, recoverable = tuple.__new__, rows.flags.translate(_IS_RECOVERABLE)
        columns = zip(numbers, going, map(bool, recoverable), map(bool, numbered), strict=True)
        return [new(Outbound, values) for values in columns if values[1]]

    def _owner(self) -> bytes:
        """The machine that owns a public queue: routing servers forward by QueueManagerAddress.

        Other names contain their machine. The sender need not have known it, and the queue may have
        moved since.
        """
        name = self.queue.definition.format_name
        return self._targets.owner_of(name) if name.startswith("PUBLIC=") else b""

    def _cared_for(self, number: int, row: Row, packet: bytes) -> bytes:
        """A packet that is secret or traced; empty if it must not go out."""
        core, seen, clear = self._core, summarize(packet), packet
        if not row.flags & FLAG_REMOTE:
            try:
                packet = self._transfer.seal(packet, seen, core.now_ms)
            except QueueError as error:
                self._not_encrypted(number, row, error)
                return b""
        hop = self._outgoing.next_hops[0] if self._outgoing.next_hops else ""
        self._tracing.sent(clear, seen, hop.rpartition("=")[2], None)  # it may be `IP=` an address
        return packet

    def _not_encrypted(self, number: int, row: Row, error: QueueError) -> None:
        """Handling Encryption Errors (3.1.7.1.5.1), in the way of expiry (decision 78)."""
        core, outgoing = self._core, self._outgoing
        self._outcomes.delete(self.queue, number, row, NACK_COULD_NOT_ENCRYPT)
        status = ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE
        attempt = ConnectionAttempt(status, core.utc, error.code, outgoing.next_hops)
        self._transfer.connection_attempted(self.queue, attempt)
        core.event("message_not_encrypted", queue=self.queue.name, why=str(error))

    # -- what comes back

    def acknowledged(self, numbers: list[int]) -> None:
        """Session acknowledgments (3.1.5.5.1-4) for messages that this sender gave.

        Those outside sequences of ours are delivered, in one step. A transactional one stays
        until its order acknowledgment.
        """
        mine = self.queue.number
        if len(set(numbers)) != len(numbers):  # one was sent twice, on both sides of a pause
            numbers = list(dict.fromkeys(numbers))
        rows: Sequence[Row] = (found := self._core.state.table.gather(numbers))
        columns = zip(found.word(QUEUE_WORD), found.flags, strict=True)
        delivered = [q == mine and f & OURS != FLAG_TRANSACTIONAL for q, f in columns]
        if not all(delivered):
            numbers, rows = list(compress(numbers, delivered)), list(compress(rows, delivered))
        self._outcomes.transferred_all(self.queue, numbers, rows)

    def resend(self) -> None:
        """Sequenced messages without order acknowledgment are taken once more (3.1.6.5)."""
        self._again = self._transfer.sequences.unfinished_after(self.queue)
        self._again_end = self._marks[SEQUENCED]
        self._core.effects.active.add(self.queue.number)

    def reminder(self) -> list[Outbound]:
        """The last message that waits for its final answer, once more.

        Its receiver learns where we are now. Its time is over, so that it is not delivered twice
        by one who has forgotten it.
        """
        sequences, core = self._transfer.sequences, self._core
        found = sequences.last_arrived(self.queue) if self._may_send() else None
        if found is None or found[0] in self._reading.damaged:
            return []
        number, row = found
        place = sequences.sequence_at(self.queue, row.lookup_id), row.last_move
        packet = placed(core.packet(number), row.flags, *place, row.last_move - 1)
        return [Outbound(number, patch(packet, time_to_reach_queue=0), True, True)]

    def send_again_behind(self, lookup_id: int) -> None:
        """Sequenced messages after this one have new places: what was taken is taken again."""
        if self._marks[SEQUENCED] <= lookup_id:
            return
        begun = self._again < self._again_end
        self._again = min(self._again, lookup_id) if begun else lookup_id
        self._again_end = self._marks[SEQUENCED]
        self._core.effects.active.add(self.queue.number)

    def end(self) -> None:
        """The session is over, or has no more to do with this queue: what it sent waits again."""
        if not self.live:
            return
        self.live = False
        self._transfer.sender_ended(self)

    def resend_planned(self, count: int, interval_s: int, time: int) -> None:
        """A protocol's report: how often, how far apart and when next it sends again."""
        self._transfer.resend_planned(self.queue, count, interval_s, time)

    # -- looking

    @property
    def last_ack(self) -> tuple[int, int]:
        """Sequence and number of the last acknowledgment of order."""
        info = self._transfer.info(self.queue)
        return info.last_ack_id, info.last_ack_number

    def holds(self, number: int, row: Row) -> bool:
        """Whether a message is in flight: the peer may have it, so it does not expire."""
        if row.lookup_id > self._marks[row.priority] or number in self._passed_over:
            return False
        again = self._again < row.lookup_id <= self._again_end
        return not (again and is_numbered(row.flags))

    @property
    def waiting(self) -> bool:
        """Whether there is something to take now."""
        return self.next_priority is not None

    @property
    def next_priority(self) -> int | None:
        """The highest priority of what there is to take now; None: nothing."""
        if not self._may_send():
            return None
        locks, passed_over = self._core.locks, self._passed_over.items()
        free = max(
            [priority for number, priority in passed_over if number not in locks], default=-1
        )
        for priority in reversed(self.queue.state.order.used):
            if priority <= free:
                break
            if self._can_go_on(priority, self._reached(priority)):
                return priority
        return free if free >= 0 else None

    def _reached(self, priority: int) -> int:
        """How far it has come in a priority; not far again when it sends again."""
        again = priority == SEQUENCED and self._again < self._again_end
        return self._again if again else self._marks[priority]

    def _can_go_on(self, priority: int, mark: int) -> bool:
        _, numbers = self.queue.state.order.lane(priority).some_after(mark, 1)
        rows = self._core.state.table.rows(numbers)
        return bool(rows) and not self._is_blocked(numbers[0], rows[0])

    @property
    def unacknowledged(self) -> int:
        """How many messages it has sent that wait for a session or order acknowledgment."""
        order = self.queue.state.order
        sent = sum(order.lane(p).count_up_to(self._marks[p]) for p in order.used)
        others = len(self._passed_over) + self._transfer.sequences.arrived(self.queue)
        return max(sent - others, 0)


class _Choice:
    """Messages chosen for one batch."""

    __slots__ = ("bytes_left", "numbers", "packed", "room")

    def __init__(self, count: int, bytes_max: int) -> None:
        self.numbers: list[int] = []
        self.packed = bytearray()  # their rows
        self.room = count
        self.bytes_left = bytes_max

    @property
    def full(self) -> bool:
        return self.room <= 0 or self.bytes_left <= 0

    def has_room(self, row: Row) -> bool:
        return self.room > 0 and (row.size <= self.bytes_left or not self.numbers)

    def has_room_for(self, rows: Rows) -> bool:
        return sum(rows.word(SIZE_WORD)) <= self.bytes_left

    def add_all(self, numbers: list[int], rows: Rows) -> None:
        self.numbers += numbers
        self.packed += rows.packed
        self.room -= len(rows)
        self.bytes_left -= sum(rows.word(SIZE_WORD))

    def add(self, number: int, row: Row) -> None:
        self.add_all([number], Rows.of([row]))

    def keep(self, numbers: set[int]) -> None:
        """Only these, the others cannot be had."""
        pairs = [p for p in zip(self.numbers, Rows(self.packed), strict=True) if p[0] in numbers]
        self.numbers = [number for number, _ in pairs]
        self.packed = bytearray(Rows.of([row for _, row in pairs]).packed)
