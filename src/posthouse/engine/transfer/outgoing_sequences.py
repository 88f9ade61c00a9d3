"""Outgoing sequences of transactional messages ([MS-MQQB] 3.1.1.5, 3.1.5.6-7, [MS-MQDMPR] 3.1.1.4).

A message gets its number at commit, in its row; its sequence follows from its lookup id, as
both grow together. What is kept beside that is one record for each queue and one for each sequence
of which messages may still be here.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import compress

import msgspec

from posthouse.engine.ledger.ledger import Ledger, ReservedCounter
from posthouse.engine.ledger.parts import Endings, PacketReads
from posthouse.engine.ledger.records import (
    FLAG_ARRIVED,
    FLAG_TRANSACTIONAL,
    KEPT,
    TABLE_OUTGOING,
    TABLE_SEQUENCE,
    Change,
    Row,
)
from posthouse.engine.ledger.row_columns import MOVE_WORD, Rows
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.sequence_values import (
    OURS,
    SEQUENCED,
    OutgoingTransferReport,
    SequenceInfo,
    is_numbered,
)

_U32 = struct.Struct("<I")
_U64 = struct.Struct(">Q")
_START = struct.Struct("<IQ")  # queue, first lookup id
SEQUENCE_NUMBER_MAX = 0xFFFFFFFF  # [MS-MQMQ] 2.2.20.5
_FOREVER = (1 << 64) - 1
_FEW, _MANY = 64, 512  # rows that are looked at together
_UNFINISHED = OURS | FLAG_ARRIVED
_ARRIVED = FLAG_TRANSACTIONAL | FLAG_ARRIVED


class OutgoingTransferInfo(msgspec.Struct, omit_defaults=True):
    """[MS-MQDMPR] 3.1.1.4: what has to be kept of it; `Sequences.report` shows all of it."""

    sequence_id: int = 0  # TimeStamp << 32 | Ordinal; 0 before the first message
    next_number: int = 1
    last_number: int = 0  # given to the message before
    last_ack_id: int = 0
    last_ack_number: int = 0
    last_ack_time: int = 0
    last_ack_count: int = 0
    resend_interval_s: int = 0
    resend_time: int = 0
    resend_count: int = 0
    peer: bytes = b""  # the queue manager that the messages were sent to


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OutgoingTransferInfo).decode


class Sequences:
    """The outgoing sequences of all queues."""

    def __init__(self, core: Ledger, reading: PacketReads, outcomes: Endings) -> None:
        self.core = core
        self._reading = reading
        self._outcomes = outcomes
        self._infos: dict[int, OutgoingTransferInfo] = {}
        # Of each queue: first lookup ids and identifiers of its sequences, in order.
        self._starts: dict[int, tuple[list[int], list[int]]] = {}
        self._queue_of: dict[int, int] = {}
        self._sent: dict[int, tuple[int, int]] = {}  # the furthest place that was ever sent
        # When the last new acknowledgment came, or the first message was sent after all had.
        self._progressed: dict[int, int] = {}
        self._passed: dict[int, int] = {}  # nothing numbered up to there is unacknowledged
        # Numbered messages that have arrived and those that have not, once anybody has asked.
        self._arrived: dict[int, int] = {}
        self._unfinished: dict[int, int] = {}
        self._peers: dict[int, bytes] = {}  # whom the queues lead to, as far as is known now
        self.ids = ReservedCounter(core, b"sequence", 64)
        self.time_stamp = 0

    def load(self, time_stamp: int) -> None:
        """Everything the store kept; `time_stamp` is that of new sequences.

        What was sent before is no longer known: it may have been everything.
        """
        self.time_stamp = time_stamp
        state = self.core.state
        for key, value in state.of_table(TABLE_OUTGOING):
            info = _decode(value)
            (queue,) = _U32.unpack(key)
            self._infos[queue] = info
            self._sent[queue] = info.sequence_id, info.last_number
        for key, value in sorted(state.of_table(TABLE_SEQUENCE)):
            self._add(_U64.unpack(key)[0], *_START.unpack(value))
        for number in list(self._infos):
            queue = self.core.queues.get(number)
            if queue is not None and not self._is_whole(queue):
                self._number_again(queue)

    def _is_whole(self, queue: Queue) -> bool:
        """Whether it is known of the first message that is to be sent where it stands."""
        found = self._first_unfinished(queue)
        firsts = self._starts.get(queue.number, ([], []))[0]
        return found is None or (bool(firsts) and found[1].lookup_id >= firsts[0])

    def _number_again(self, queue: Queue) -> None:
        """What was known is lost with records that were given up, or is of an older program."""
        change, info = Change(), self.info(queue)
        info.sequence_id = info.last_ack_id = info.last_ack_number = 0
        for _, number in list(queue.state.order.lane(SEQUENCED).after(0)):
            (row,) = self.core.state.table.rows((number,))
            if row.flags & _UNFINISHED == FLAG_TRANSACTIONAL:
                self._settle_numbered(queue, number, row, change)
        self.core.effects.commit(change)
        self.core.event("sequence_begun_anew", queue=queue.name)

    def _settle_numbered(self, queue: Queue, number: int, row: Row, change: Change) -> None:
        """A message gets the next place; its packet gets it when it is sent."""
        place = self.number(queue, row.lookup_id, 1, change)
        self.core.settle(number, row._replace(last_move=place.number), KEPT, change)

    def begin_behind(self, queue: Queue, gone: Row, change: Change) -> None:
        """What follows a message that its destination turned away gets a new sequence, for good.

        Decision 82: the destination took nothing after it, and would wait for it. Messages in
        front of it, and those that have arrived, keep their places.
        """
        table, info, numbers = self.core.state.table, self.info(queue), []
        for _, number in queue.state.order.lane(SEQUENCED).after(gone.lookup_id):
            (row,) = table.rows((number,))
            if row.flags & _UNFINISHED == FLAG_TRANSACTIONAL:
                numbers.append((number, row))
        self._drop_behind(queue, gone.lookup_id, change)
        if queue.number in self._unfinished:
            self._unfinished[queue.number] -= len(numbers)
        first = numbers[0][1].lookup_id if numbers else self.core.lookup_ids.value
        self._begin(queue, info, first, change)
        self._store(queue, change)
        for number, row in numbers:
            self._settle_numbered(queue, number, row, change)
        outgoing = queue.outgoing
        if outgoing is not None and outgoing.sender is not None:
            outgoing.sender.send_again_behind(gone.lookup_id)
        self.core.event("sequence_begun_anew", queue=queue.name)

    def begin_again(self, queue: Queue) -> int:
        """An operator's: what has not arrived gets a new sequence. Returns how many messages."""
        found, change = self._first_unfinished(queue), Change()
        if found is None:
            return 0
        count = self.unfinished(queue)
        self.begin_behind(queue, found[1]._replace(lookup_id=found[1].lookup_id - 1), change)
        self.core.commit(change)
        self.core.effects.active.add(queue.number)
        return count

    def _drop_behind(self, queue: Queue, lookup_id: int, change: Change) -> None:
        """Sequences that began after this: all their messages are numbered again."""
        firsts, ids = self._starts[queue.number]
        while firsts and firsts[-1] > lookup_id:
            self.core.define(TABLE_SEQUENCE, _U64.pack(ids[-1]), None, change)
            del self._queue_of[ids[-1]], firsts[-1], ids[-1]

    def _add(self, sequence_id: int, queue: int, lookup_id: int) -> None:
        firsts, ids = self._starts.setdefault(queue, ([], []))
        firsts.append(lookup_id)
        ids.append(sequence_id)
        self._queue_of[sequence_id] = queue

    def info(self, queue: Queue) -> OutgoingTransferInfo:
        """OutgoingTransferInfo of an outgoing queue: exactly one each."""
        info = self._infos.get(queue.number)
        if info is None:
            info = self._infos[queue.number] = OutgoingTransferInfo()
        return info

    def _store(self, queue: Queue, change: Change | None = None) -> None:
        key = _U32.pack(queue.number)
        defines = [] if change is None else change.defines
        if defines and defines[-1][:2] == (TABLE_OUTGOING, key):
            defines.pop()  # of the message before, in the same commit
        self.core.define(TABLE_OUTGOING, key, _encode(self.info(queue)), change)

    def led_to(self, queue: Queue, peer: bytes) -> None:
        """Notes whose acknowledgments count (decision 24), also after a restart."""
        info = self._infos.get(queue.number)
        if peer:
            self._peers[queue.number] = peer
        if peer and info is not None and info.peer != peer:
            info.peer = peer
            self._store(queue)

    # -- numbers (decisions 23, 43)

    def number(self, queue: Queue, lookup_id: int, count: int, change: Change) -> SequenceInfo:
        """Transactional messages get their places at commit, once.

        The place of the first of a number of messages; the others follow on from it.
        """
        info = self.info(queue)
        if self._is_over(queue, info) or info.next_number + count - 1 > SEQUENCE_NUMBER_MAX:
            self._begin(queue, info, lookup_id, change)
        first = info.next_number
        if first == 1 and _is_web(queue):
            info.last_ack_count = 0
        place = SequenceInfo(info.sequence_id, first, info.last_number)
        info.last_number = first + count - 1
        info.next_number = first + count
        self._store(queue, change)
        if queue.number in self._unfinished:
            self._unfinished[queue.number] += count
        return place

    def _is_over(self, queue: Queue, info: OutgoingTransferInfo) -> bool:
        """Whether the last message of a sequence has ended, however it ended: then the sequence
        ends too (state-machines 3).

        A destination queue that was deleted and created again does not have the sequence, and would
        wait for its beginning for ever.
        """
        if not info.sequence_id:
            return True
        return info.next_number > 1 and not self._is_unfinished(queue)

    def _begin(
        self, queue: Queue, info: OutgoingTransferInfo, lookup_id: int, change: Change | None
    ) -> None:
        """No two sequences of ours share an id: two names may lead to one queue far away."""
        self._forget_finished(queue, change)
        info.sequence_id = (self.time_stamp << 32) + self.ids.next()  # an ordinal may overflow
        info.next_number, info.last_number = 1, 0
        info.peer = self._peers.get(queue.number, info.peer)
        self._add(info.sequence_id, queue.number, lookup_id)
        key, value = _U64.pack(info.sequence_id), _START.pack(queue.number, lookup_id)
        self.core.define(TABLE_SEQUENCE, key, value, change)

    def _forget_finished(self, queue: Queue, change: Change | None) -> None:
        """Sequences that have no messages here now, the oldest first."""
        firsts, ids = self._starts.setdefault(queue.number, ([], []))
        lane = queue.state.order.lane(SEQUENCED)
        while ids:
            found, _ = lane.some_after(firsts[0] - 1, 1)  # messages without a number lie here too
            if found and (len(firsts) < 2 or found[0] < firsts[1]):
                return
            self.core.define(TABLE_SEQUENCE, _U64.pack(ids[0]), None, change)
            del self._queue_of[ids[0]], firsts[0], ids[0]

    def forget(self, queue: Queue, change: Change) -> None:
        """An outgoing queue that has no messages is gone; one of its name begins again."""
        self._forget_finished(queue, change)
        number = queue.number
        if self._infos.pop(number, None) is not None:
            self.core.define(TABLE_OUTGOING, _U32.pack(number), None, change)
        del self._starts[number]
        for known in (self._sent, self._progressed, self._passed, self._arrived, self._unfinished):
            known.pop(number, None)
        self._peers.pop(number, None)

    # -- places

    def sequence_at(self, queue: Queue, lookup_id: int) -> int:
        """The sequence of a numbered message."""
        firsts, ids = self._starts[queue.number]
        return ids[bisect_right(firsts, lookup_id) - 1]

    def previous(self, queue: Queue, row: Row, sequence_id: int) -> int:
        """The number in front of a message when it is sent (3.1.7.1.3, decision 76).

        It is that of the message before it that is still to arrive, else of the last that did; so
        gaps are bridged.
        """
        core = self.core
        for lookup_id, number in queue.state.order.lane(SEQUENCED).before(row.lookup_id):
            if number in self._reading.damaged:
                continue  # it is not sent
            (earlier,) = core.state.table.rows((number,))
            if earlier.flags & FLAG_ARRIVED:
                break
            if is_numbered(earlier.flags):
                same = self.sequence_at(queue, lookup_id) == sequence_id
                return earlier.last_move if same else 0
        info = self.info(queue)
        return info.last_ack_number if info.last_ack_id == sequence_id else 0

    def sent(self, queue: Queue, sequence_id: int, number: int) -> None:
        """This place and those in front of it have been given to a session."""
        reached, before = (sequence_id, number), self._sent.get(queue.number, (0, 0))
        if reached > before:
            info = self._infos[queue.number]
            if before <= (info.last_ack_id, info.last_ack_number):
                self._progressed[queue.number] = self.core.utc
            self._sent[queue.number] = reached

    def find(self, sequence_id: int, number: int) -> tuple[Queue, int, Row] | None:
        """The message at a place, with its queue."""
        queue = self.core.queues.get(self._queue_of.get(sequence_id, 0))
        if queue is None:
            return None
        lane, table = queue.state.order.lane(SEQUENCED), self.core.state.table
        low, high = self._range(queue, sequence_id)
        while low <= high:
            middle = (low + high) // 2
            for lookup_id, found in lane.after(middle - 1):
                (row,) = table.rows((found,))
                if is_numbered(row.flags) or lookup_id > high:
                    break
            else:
                high = middle - 1
                continue
            if lookup_id > high or row.last_move > number:
                high = middle - 1
            elif row.last_move < number:
                low = lookup_id + 1
            else:
                return queue, found, row
        return None

    def _range(self, queue: Queue, sequence_id: int) -> tuple[int, int]:
        """The first and the last lookup id that a message of a sequence can have."""
        firsts, ids = self._starts[queue.number]
        index = ids.index(sequence_id)
        end = firsts[index + 1] if index + 1 < len(firsts) else self.core.lookup_ids.value
        return firsts[index], end - 1

    def range_of(self, queue: Queue, lookup_id: int) -> tuple[int, int]:
        """The sequence of a numbered message, and the last lookup id it can have."""
        sequence_id = self.sequence_at(queue, lookup_id)
        return sequence_id, self._range(queue, sequence_id)[1]

    def queue_of(self, sequence_id: int) -> Queue | None:
        """The outgoing queue whose messages are, or were, in a sequence."""
        return self.core.queues.get(self._queue_of.get(sequence_id, 0))

    # -- acknowledgments (3.1.5.6)

    def order_acknowledged(self, queue: Queue, sequence_id: int, number: int) -> bool:
        """Receiving an OrderAck; False for one that fits nothing sent (decision 24)."""
        info = self.info(queue)
        acknowledged, last = (sequence_id, number), (info.last_ack_id, info.last_ack_number)
        is_new = acknowledged > last and self._was_sent(queue, acknowledged)
        is_late = sequence_id == info.last_ack_id and 0 < number <= info.last_ack_number
        if not is_new and not is_late:
            return False
        info.last_ack_count += 1
        info.last_ack_time = self.core.utc
        if is_new:
            info.last_ack_id, info.last_ack_number = acknowledged
            self._progressed[queue.number] = self.core.utc
            info.resend_count = info.resend_interval_s = info.resend_time = 0
            self._let_go(queue, sequence_id, number)
            if not self._is_unfinished(queue):
                self._begin(queue, info, self.core.lookup_ids.value, None)
        self._store(queue)
        return True

    def _was_sent(self, queue: Queue, place: tuple[int, int]) -> bool:
        """Whether messages up to this place are here that were sent."""
        found = self._first_unfinished(queue)
        if found is None or self._queue_of.get(place[0]) != queue.number:
            return False
        first = self.sequence_at(queue, found[1].lookup_id), found[1].last_move
        return first <= place <= self._sent.get(queue.number, (0, 0))

    def unconfirmed_since(self, queue: Queue) -> int | None:
        """Return when the first numbered message that was sent and not acknowledged came here.

        When it was sent counts, if that is known, and the last acknowledgment that was new, if it
        is later: the sequence goes on. None: all that was sent is acknowledged.
        """
        found = self._first_unfinished(queue) if queue.number in self._infos else None
        if found is None:
            return None
        place = self.sequence_at(queue, found[1].lookup_id), found[1].last_move
        if place > self._sent.get(queue.number, (0, 0)):
            return None
        return max(found[1].arrived, self._progressed.get(queue.number, 0))

    def _let_go(self, queue: Queue, sequence_id: int, number: int) -> None:
        """Every message up to this place has arrived, those of earlier sequences too."""
        lane, (first, last) = queue.state.order.lane(SEQUENCED), self._range(queue, sequence_id)
        mark, some = self._passed.get(queue.number, 0), min(number, _FEW)
        while some:
            _, numbers = lane.some_after(mark, some)
            rows = self.core.state.table.gather(numbers)
            leaving = [False] * len(numbers)
            some = min(some * 2, _MANY) if numbers else 0
            columns = zip(rows.lookup_ids, rows.flags, rows.word(MOVE_WORD), strict=True)
            for at, (lookup_id, flags, place) in enumerate(columns):
                if flags & _UNFINISHED == FLAG_TRANSACTIONAL:
                    if lookup_id > last or (lookup_id >= first and place > number):
                        some = 0
                        break
                    leaving[at] = True
                mark = lookup_id
            if all(leaving):
                self._outcomes.arrived_all(queue, numbers, rows)
            else:
                gone = list(compress(rows, leaving))
                self._outcomes.arrived_all(queue, list(compress(numbers, leaving)), Rows.of(gone))
        self._passed[queue.number] = mark

    def _first_unfinished(self, queue: Queue) -> tuple[int, Row] | None:
        lane = queue.state.order.lane(SEQUENCED)
        for lookup_id, number in lane.after(self._passed.get(queue.number, 0)):
            (row,) = self.core.state.table.rows((number,))
            if is_numbered(row.flags) and not row.flags & FLAG_ARRIVED:
                return number, row
            self._passed[queue.number] = lookup_id
        return None

    def _is_unfinished(self, queue: Queue) -> bool:
        return self._first_unfinished(queue) is not None

    def final_acknowledged(
        self, message_class: int, source: bytes, ordinal: int, sequence_id: int, number: int
    ) -> bool:
        """Receiving a FinalAck (3.1.5.7); False for one that fits nothing sent."""
        found = self.find(sequence_id, number)
        if found is None or source != self.core.guid:
            return False
        queue, message, row = found
        arrived = bool(row.flags & FLAG_ARRIVED)
        was_sent = arrived or (sequence_id, number) <= self._sent.get(queue.number, (0, 0))
        if row.ordinal != ordinal or not was_sent:
            return False
        core, change = self.core, Change()
        self._outcomes.take_back(queue, message)
        self._outcomes.answered_finally(queue, message, row, message_class, change)
        core.commit(change)
        outgoing = queue.outgoing
        if not arrived and outgoing is not None and outgoing.sender is not None:
            outgoing.sender.resend()  # what follows it waits for it in vain
        return True

    def last_arrived(self, queue: Queue) -> tuple[int, Row] | None:
        """The last message that has arrived and waits for its final answer."""
        if not self.arrived(queue):
            return None
        unfinished = self._first_unfinished(queue)
        end = _FOREVER if unfinished is None else unfinished[1].lookup_id
        for _, number in queue.state.order.lane(SEQUENCED).before(end):
            (row,) = self.core.state.table.rows((number,))
            if is_numbered(row.flags) and row.flags & FLAG_ARRIVED:
                return number, row
        return None

    def unfinished_after(self, queue: Queue) -> int:
        """A lookup id up to which nothing numbered waits for an order acknowledgment."""
        return self._passed.get(queue.number, 0)

    # -- counts and reports

    def arrived(self, queue: Queue) -> int:
        """How many messages have arrived and wait for their final answers."""
        count = self._arrived.get(queue.number)
        if count is None:  # once; from here on every change is counted
            count = self._arrived[queue.number] = self._count_arrived(queue)
        return count

    def _count_arrived(self, queue: Queue, after: int = 0) -> int:
        """They lie in front of all numbered messages that have not arrived."""
        count = 0
        if queue.number in self._infos:
            for flags in self._flags(queue, after):
                if flags & _UNFINISHED == FLAG_TRANSACTIONAL:
                    break
                count += bool(flags & FLAG_ARRIVED)
        return count

    def unfinished(self, queue: Queue) -> int:
        """How many numbered messages have not arrived; the first answer looks at all of them."""
        count = self._unfinished.get(queue.number)
        if count is None:
            found = [f for f in self._flags(queue) if f & _UNFINISHED == FLAG_TRANSACTIONAL]
            count = self._unfinished[queue.number] = len(found)
        return count

    def _flags(self, queue: Queue, mark: int = 0) -> Iterator[int]:
        """The flags of the messages among which the numbered ones are, after a place."""
        lane = queue.state.order.lane(SEQUENCED)
        while True:
            ids, numbers = lane.some_after(mark, _MANY)
            if not ids:
                return
            yield from [row.flags for row in self.core.state.table.rows(numbers)]
            mark = ids[-1]

    def left(self, queue: Queue, flags: Sequence[int]) -> None:
        """Messages with these flags left their outgoing queue, for any reason."""
        number = queue.number
        if number in self._arrived:
            self._arrived[number] -= len([one for one in flags if one & _UNFINISHED == _ARRIVED])
        if number in self._unfinished:
            ours = [one for one in flags if one & _UNFINISHED == FLAG_TRANSACTIONAL]
            self._unfinished[number] -= len(ours)

    def kept_for_final_answer(self, queue: Queue) -> None:
        """A message has arrived and stays."""
        if queue.number in self._unfinished:
            self._unfinished[queue.number] -= 1
        if queue.number in self._arrived:
            self._arrived[queue.number] += 1

    def report(self, queue: Queue) -> OutgoingTransferReport:
        """The whole OutgoingTransferInfo."""
        info, unfinished = self.info(queue), self.unfinished(queue)
        return OutgoingTransferReport(
            first_non_ack=self._first_non_ack(queue) if unfinished else None,
            last_non_ack=self._last_non_ack(queue) if unfinished else None,
            last_ack=_last_ack(queue, info),
            next_sequence=SequenceInfo(info.sequence_id, info.next_number, info.last_number),
            no_ack_count=unfinished,
            no_read_count=self._unread(queue, info),
            last_ack_time=info.last_ack_time,
            last_ack_count=info.last_ack_count,
            resend_count=info.resend_count,
            resend_interval_s=info.resend_interval_s,
            resend_time=info.resend_time,
        )

    def _unread(self, queue: Queue, info: OutgoingTransferInfo) -> int:
        """How many messages have arrived and wait for their final answers.

        The first message of a stream sets the count back.
        """
        if not _is_web(queue):
            return self.arrived(queue)
        firsts, _ = self._starts.get(queue.number, ([], []))
        latest = 1 if info.next_number > 1 else 2
        return self._count_arrived(queue, firsts[-latest] - 1 if len(firsts) >= latest else 0)

    def _first_non_ack(self, queue: Queue) -> SequenceInfo | None:
        found = self._first_unfinished(queue)
        return None if found is None else self._shown(queue, found[1])

    def _last_non_ack(self, queue: Queue) -> SequenceInfo | None:
        for _, number in queue.state.order.lane(SEQUENCED).before(_FOREVER):
            (row,) = self.core.state.table.rows((number,))
            if is_numbered(row.flags):
                return None if row.flags & FLAG_ARRIVED else self._shown(queue, row)
        return None

    def _shown(self, queue: Queue, row: Row) -> SequenceInfo:
        """3.1.1.5: sequence, number, and number minus one."""
        return SequenceInfo(
            self.sequence_at(queue, row.lookup_id), row.last_move, row.last_move - 1
        )


def _is_web(queue: Queue) -> bool:
    """Whether its sequences are streams: counts are of the latest one ([MC-MQSRM] 3.1.7.2.3)."""
    return queue.outgoing is not None and queue.outgoing.web


def _last_ack(queue: Queue, info: OutgoingTransferInfo) -> SequenceInfo | None:
    """LastAck; number 0 of a stream of which nothing is acknowledged ([MC-MQSRM] 3.1.7.2.3)."""
    if _is_web(queue) and info.next_number > 1 and not info.last_ack_count:
        return SequenceInfo(info.sequence_id, 0, 0)
    if not info.last_ack_number:
        return None
    return SequenceInfo(info.last_ack_id, info.last_ack_number, info.last_ack_number - 1)
