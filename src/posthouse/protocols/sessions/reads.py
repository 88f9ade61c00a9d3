"""Reads of a client session: messages that are there, or a wait for the first that comes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from posthouse.engine.ledger.effects import Read, Reads
from posthouse.engine.ledger.row_columns import ARRIVED_WORD, CLASS_WORD
from posthouse.engine.manager import QueueManager
from posthouse.engine.messages.cursor import CursorState
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.engine.queues.queue import Cursor
from posthouse.engine.sessions.calls import receive_several
from posthouse.model.errors import (
    InsufficientResources,
    InvalidParameter,
    IoTimeout,
    MessageStorageFailed,
    ServiceNotAvailable,
)
from posthouse.protocols.engine_calls import Answer
from posthouse.protocols.sessions.session import OpenSession
from posthouse.wire.frames import frames, payloads
from posthouse.wire.frames.frames import (
    MARK_IN_DOUBT,
    READ_AT_ONCE,
    READ_COUNT_MAX,
    READ_NEXT,
)
from posthouse.wire.frames.message_columns import (
    MessageColumns,
    encode_message_columns,
    encode_message_lists,
)
from posthouse.wire.frames.payloads import RECEIVED_AT_ONCE


def encode_reads(request: int, answer: Answer) -> list[bytes]:
    """The MESSAGES frame of one read or several, in parts."""
    value = answer.value
    if type(value) is Reads:
        return encode_message_columns(request, _columns(value), value.senders, answer.packets)
    reads: list[Read] = [value] if isinstance(value, Read) else value  # type: ignore[assignment]
    return encode_message_lists(request, reads, answer.packets)


def _columns(reads: Reads) -> MessageColumns:
    rows, marks = reads.rows, bytes(len(reads))
    if reads.in_doubt:
        marks = bytes([MARK_IN_DOUBT if n in reads.in_doubt else 0 for n in reads.numbers])
    return MessageColumns(
        lookup_id=(rows.word(0), rows.word(1)),
        arrived=rows.word(ARRIVED_WORD),
        last_move=rows.last_moves,
        states=(rows.word(CLASS_WORD), rows.word(CLASS_WORD + 1)),
        marks=marks,
    )


def bytes_of(manager: QueueManager, found: Read | Sequence[Read]) -> int:
    """How much the packets are that a read of this turn has brought."""
    packets = manager.messages.packets_read()
    if isinstance(found, Read):
        return len(packets[found.number])
    numbers = found.numbers if isinstance(found, Reads) else [read.number for read in found]
    return sum(map(len, map(packets.__getitem__, numbers)))


class FetchRequest(ABC):
    """A request that brings messages, from its frame to its answer."""

    def __init__(self, session: OpenSession, request: int) -> None:
        self.session = session
        self.request = request
        self.size = 0  # of what it found at once

    def begin(self) -> None:
        """Decides it: served now, or it waits."""
        self.session.requests += 1
        self.decide()

    def decide(self) -> None:
        """Decides it, or leaves it until there is memory for what it may bring."""
        self.session.desk.decide(self._decide, self._answered)

    @abstractmethod
    def _decide(self, manager: QueueManager) -> Read | Sequence[Read] | None:
        """What is there; None: it waits for a message, or for memory."""

    def _count(self, manager: QueueManager, found: Read | Sequence[Read]) -> None:
        size = bytes_of(manager, found)
        self.size += size
        self.session.add_answer(size)

    def _answered(self, answer: Answer) -> None:
        if answer.value is not None or answer.error is not None:
            self.session.answered(self.request, encode_reads, 0, answer)
            self.session.add_answer(-self.size)


class SessionLookup(FetchRequest):
    """LOOKUP: Read Message By Lookup Identifier (3.1.7.1.13)."""

    def __init__(self, session: OpenSession, request: int, asked: payloads.Lookup) -> None:
        super().__init__(session, request)
        self.asked = asked

    def _decide(self, manager: QueueManager) -> Read | None:
        session, asked = self.session, self.asked
        transaction = session.transaction(manager, asked.transaction)
        descriptor = session.queues.get(asked.queue).descriptor

        def size() -> int:
            return manager.messages.size_by_lookup_identifier(
                descriptor, asked.lookup_id, asked.action, peek=asked.peek
            )

        if session.is_deferred(self, size):
            return None
        read = manager.messages.read_message_by_lookup_identifier(
            descriptor,
            asked.lookup_id,
            asked.action,
            peek=asked.peek,
            transaction=transaction,
            two_phase=not asked.peek and transaction is None,
        )
        self._count(manager, read)
        return read


class SessionRead(FetchRequest):
    """A RECEIVE or PEEK, which may wait for a message."""

    is_peek = False

    def __init__(self, session: OpenSession, request: int, asked: frames.Read) -> None:
        super().__init__(session, request)
        self.asked = asked
        self.descriptor: OpenQueueDescriptor | None = None  # once it waits
        self._until_ms = 0  # when its time is over, once it has waited for anything

    def _decide(self, manager: QueueManager) -> Read | Sequence[Read] | None:
        session, asked = self.session, self.asked
        descriptor = session.queues.get(asked.queue).descriptor
        cursor = session.cursors.get(asked.cursor) if asked.cursor else None
        if asked.timeout_ms and len(session.waits) >= session.limits.waits_max:
            raise InsufficientResources("the session has too many waiting reads")
        if session.is_deferred(self, lambda: self._size_ahead(manager, descriptor, cursor)):
            self._note_time(manager)
            return None
        found = self.take(manager, descriptor, cursor)
        if found is None:
            self._note_time(manager)
            self.descriptor = descriptor
            session.waits[self.request] = self
            session.settle()
        else:
            self._count(manager, found)
        return found

    def _note_time(self, manager: QueueManager) -> None:
        self._until_ms = self._until_ms or manager.machine.now_ms + self.asked.timeout_ms

    def _size_ahead(
        self, manager: QueueManager, descriptor: OpenQueueDescriptor, cursor: Cursor | None
    ) -> int:
        goes_on = bool(self.asked.flags & READ_NEXT)
        return manager.messages.size_ahead(descriptor, cursor, peek=self.is_peek, goes_on=goes_on)

    @abstractmethod
    def take(
        self, manager: QueueManager, descriptor: OpenQueueDescriptor, cursor: Cursor | None
    ) -> Read | Sequence[Read] | None:
        """What is there; None: it waits, and `woken` is its token."""

    @property
    def timeout_ms(self) -> int | None:
        """How long to wait; None for ever."""
        asked_ms = self.asked.timeout_ms
        if asked_ms > 0 and self._until_ms:
            return max(self._until_ms - self.session.desk.manager.machine.now_ms, 0)
        return None if asked_ms < 0 else asked_ms

    @property
    def count_max(self) -> int:
        """How many messages at most, in one turn."""
        return min(self.asked.count_max, self.session.limits.batch_max, READ_COUNT_MAX)

    def cancel(self, manager: QueueManager) -> None:
        """The client no longer wants to wait."""
        assert self.descriptor is not None
        manager.messages.cancel_waiting_message_read_request(self.descriptor, self)

    def woken(self, answer: Answer) -> None:
        """The wait is over: with a message, or with the reason why there is none."""
        session = self.session
        session.waits.pop(self.request, None)
        if session.closed:
            return
        session.requests += 1
        if self.is_peek and not self.asked.cursor and answer.error is None:
            size = sum(map(len, answer.packets))
            if session.is_deferred(self, lambda: size):
                return  # it looks again when there is memory; nothing was taken
        if answer.error is not None:
            session.desk.manager.machine.refused(answer.error)
        session.answered(self.request, encode_reads, 0, answer)


class ReceiveRequest(SessionRead):
    """RECEIVE: locked by its transaction or until its END, or removed before it is delivered.

    One that is for more messages than a turn reads goes on in the next turns.
    """

    def __init__(self, session: OpenSession, request: int, asked: frames.Read) -> None:
        super().__init__(session, request, asked)
        self._parts: list[Answer] = []  # what earlier turns have brought
        self._got = 0  # messages in them

    @property
    def count_max(self) -> int:
        """How many messages at most, in this turn."""
        most = min(self.asked.count_max, self.session.limits.batch_max) - self._got
        return min(most, RECEIVED_AT_ONCE)

    def _decide(self, manager: QueueManager) -> Read | Sequence[Read] | None:
        return self._more(manager) if self._parts else super()._decide(manager)

    def _more(self, manager: QueueManager) -> Sequence[Read]:
        """Further messages, as far as they are there and the answer has room."""
        session, asked = self.session, self.asked
        descriptor = session.queues.get(asked.queue).descriptor
        transaction = session.transaction(manager, asked.transaction)
        if len(descriptor.held) >= session.limits.held_max:
            return []
        room = min(session.answer_room, manager.machine.settings.step_bytes - self.size)
        found = manager.messages.dequeue_messages(
            descriptor, self.count_max, transaction, two_phase=self._two_phase, room=room
        )
        self._count(manager, found)
        return found

    def _answered(self, answer: Answer) -> None:
        value = answer.value
        found: Sequence[Read] = value if type(value) in (Reads, list) else []  # type: ignore[assignment]
        self._got += len(found)
        if found and (self._parts or self._goes_on(found)):
            self._parts.append(answer)
        if self._goes_on(found):
            try:
                self.decide()
                return
            except ServiceNotAvailable:  # it stops: what was taken so far is the answer
                pass
        super()._answered(_joined(self._parts) if self._parts else answer)

    def _goes_on(self, found: Sequence[Read]) -> bool:
        """Whether there may be more, and room for it."""
        step_bytes = self.session.desk.manager.machine.settings.step_bytes
        return (
            len(found) == RECEIVED_AT_ONCE
            and self.count_max > 0
            and self.size < step_bytes <= self.session.answer_room
            and not self.session.closed
        )

    def take(
        self, manager: QueueManager, descriptor: OpenQueueDescriptor, cursor: Cursor | None
    ) -> Read | Sequence[Read] | None:
        """Several at once where several are there."""
        asked, limits = self.asked, self.session.limits
        if asked.flags & READ_NEXT:
            raise InvalidParameter("a receive through a cursor takes the message it stands on")
        if len(descriptor.held) >= limits.held_max:
            raise InsufficientResources(
                "too many messages were received and not ended", "End some of them first."
            )
        transaction = self.session.transaction(manager, asked.transaction)
        if cursor is None and self.count_max > 1:
            return receive_several(
                manager,
                descriptor,
                self.count_max,
                transaction,
                two_phase=self._two_phase,
                timeout_ms=self.timeout_ms,
                token=self.woken,
                tag=self,
                room=self.session.answer_room,
            )
        return manager.messages.dequeue_message(
            descriptor,
            timeout_ms=self.timeout_ms,
            cursor=cursor,
            transaction=transaction,
            tag=self,
            two_phase=self._two_phase,
            token=self.woken,
        )

    @property
    def _two_phase(self) -> bool:
        return not self.asked.flags & READ_AT_ONCE


def _joined(parts: list[Answer]) -> Answer:
    """One answer of those of several turns."""
    reads = [read for part in parts for read in part.value]  # type: ignore[attr-defined]
    packets = [packet for part in parts for packet in part.packets]
    return Answer(reads, None, tuple(packets))


class PeekRequest(SessionRead):
    """PEEK: nothing is taken; through a cursor, several in a row."""

    is_peek = True

    def take(
        self, manager: QueueManager, descriptor: OpenQueueDescriptor, cursor: Cursor | None
    ) -> Read | Sequence[Read] | None:
        """The first waits, the others only if they are there."""
        asked = self.asked
        if asked.flags & READ_AT_ONCE or asked.transaction:
            raise InvalidParameter("a peek removes nothing and is in no transaction")
        if asked.flags & READ_NEXT and cursor is None:
            raise InvalidParameter("a next message needs a cursor")
        first = self._first(manager, descriptor, cursor)
        if first is None or cursor is None or asked.count_max == 1:
            return first
        return self._row(manager, descriptor, cursor, first)

    def _first(
        self, manager: QueueManager, descriptor: OpenQueueDescriptor, cursor: Cursor | None
    ) -> Read | None:
        """Choice: to go on from nowhere is to begin, as a cursor that met the end has to."""
        timeout_ms = self.timeout_ms
        goes_on = self.asked.flags & READ_NEXT
        if goes_on and cursor is not None and cursor.state is CursorState.READ:
            return manager.messages.peek_next_message(
                descriptor, cursor, timeout_ms=timeout_ms, tag=self, token=self.woken
            )
        return manager.messages.peek_message(
            descriptor, timeout_ms=timeout_ms, cursor=cursor, tag=self, token=self.woken
        )

    def _row(
        self,
        manager: QueueManager,
        descriptor: OpenQueueDescriptor,
        cursor: Cursor,
        first: Read,
    ) -> list[Read]:
        room = min(manager.machine.settings.step_bytes, self.session.answer_room)
        reads, room = [first], room - self._size(manager, first)
        while len(reads) < self.count_max and room > 0:
            try:
                read = manager.messages.peek_next_message(descriptor, cursor, timeout_ms=0)
            except IoTimeout:
                break
            except MessageStorageFailed:
                continue  # it is set aside; those in front of it are this reader's
            assert read is not None
            reads.append(read)
            room -= self._size(manager, read)
        return reads

    def _size(self, manager: QueueManager, read: Read) -> int:
        return len(manager.messages.packet_read(read.number))
