"""A consumer for queues of another computer, with a window of reads under way.

Ahead of the reader this many R_StartReceive wait or have brought their message; the messages stay
locked over there until R_EndReceive. What the reader has not seen goes back when they stop
(decision 42). Questions are sent together and answers taken in together, as far as they are there.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from posthouse.client.abandoned import close_abandoned
from posthouse.client.consumer import closed_before_done
from posthouse.client.deferred_calls import Reminder
from posthouse.client.errors import MessageReturned, ServerUnreachable, SessionLost
from posthouse.client.message import Message
from posthouse.client.remote.reader import QueueReader
from posthouse.client.remote.state import (
    LOOKUP_RECEIVE,
    PEEK_CURRENT,
    PEEK_NEXT,
    LockedMessage,
    Outage,
    RemoteOpenQueue,
    Want,
)
from posthouse.client.rpc_link import CallTimeout, LinkLost, PendingCall
from posthouse.model.errors import IoTimeout, QueueError, RemoteProtocolError
from posthouse.protocols.remote_read.stubs import Ack, CancelReceive, Opnum

WINDOW_MAX: Final = 1024
CHUNK: Final = 64  # messages that are asked for together where this many are wanted
END_AFTER_S: Final = 0.05  # the longest that an end waits for others to be sent with
LOOK_S: Final = 1.0
HELD_MAX: Final = 64 << 20  # bytes that are taken in before they are asked for
# A message is taken back over there after five minutes. One that was locked for longer than this
# is given back before, so that its reader has the rest of that time.
HOLD_S: Final = 60.0
_RECEIVE: Final = Want()
_clock = time.monotonic  # of ages


class ReadSlot:
    """A read ahead of the reader."""

    __slots__ = ("pending", "request_id", "unanswered")

    def __init__(self, request_id: int, pending: PendingCall, now: float) -> None:
        self.request_id = request_id
        self.pending = pending
        # When the read was asked for; its message is locked since then at the earliest.
        self.unanswered = now


class WindowClosed(Exception):
    """Somebody closed the window; what it held has gone back, or does."""


class Window:
    """Messages read ahead from one queue; several threads may take from it."""

    def __init__(self, queue: QueueReader, size: int) -> None:
        self.queue = queue
        self.size = min(size, WINDOW_MAX)
        self._slots: deque[ReadSlot] = deque()
        self._opened: RemoteOpenQueue | None = None  # on which all of them are
        self._closed = False
        self._lock = threading.Lock()
        self._unsent = 0
        self._looked_at = _clock()

    def take(self, timeout: float | None) -> LockedMessage | None:
        """The next message; None: there was none in time.

        Raises `OperationCancelled`, and `WindowClosed`.
        """
        outage, begun = Outage(self.queue.reader.reconnect_s), time.monotonic()
        while True:
            try:
                return self._take(None if timeout is None else begun + timeout)
            except (LinkLost, ServerUnreachable) as error:
                outage.go_on(error)

    def _take(self, deadline: float | None) -> LockedMessage | None:
        while True:
            with self._lock:
                opened = self._filled()
                slot = self._slots.popleft()
            if not slot.pending.done:
                try:
                    self._wait(opened, slot, deadline)
                except CallTimeout:
                    self._put_back(opened, slot)
                    if not self._last_look(opened, slot.pending):
                        return None
                    continue
                except BaseException:
                    self._put_back(opened, slot)
                    raise
            request_id = slot.request_id
            opened.waiting.pop(request_id, None)
            try:
                received = self.queue.received(opened, request_id, slot.pending, _RECEIVE)
            except IoTimeout:
                continue  # of a last look
            message = self.queue.message_of(opened, request_id, _RECEIVE, received)
            return LockedMessage(message, opened, request_id)

    def _wait(self, opened: RemoteOpenQueue, slot: ReadSlot, deadline: float | None) -> None:
        """For the first one; what comes for the others meanwhile is as fresh."""
        waiting = [slot, *(one for one in list(self._slots) if not one.pending.done)]
        self.flush(opened)
        opened.link.wait(slot.pending, deadline)
        now = _clock()
        for one in waiting:
            one.unanswered = now

    def _put_back(self, opened: RemoteOpenQueue, slot: ReadSlot, *, last: bool = False) -> None:
        """Where it was; a window that was closed meanwhile is not looked into."""
        with self._lock:
            if not self._closed and opened is self._opened:
                if last:
                    self._slots.append(slot)
                else:
                    self._slots.appendleft(slot)
                return
        opened.waiting.pop(slot.request_id, None)
        self.queue.abandon(opened, slot.request_id, slot.pending, _RECEIVE)

    def _last_look(self, opened: RemoteOpenQueue, head: PendingCall) -> bool:
        """Time is over: asks without waiting whether there is really nothing.

        The queue manager there serves the reads that wait first, so with its answer theirs are
        here, too. What it brings itself comes after them.
        """
        slot = self._start(opened, 0.0)
        opened.link.flush()
        now = time.monotonic()
        self.queue.wait(opened.link, slot.pending, now + self.queue.reader.timeout_s)
        is_over = self.queue.is_timeout(opened, slot.pending)
        self._put_back(opened, slot, last=head.done)
        return head.done or not is_over

    def _start(self, opened: RemoteOpenQueue, timeout: float | None) -> ReadSlot:
        return ReadSlot(*self.queue.start(opened, _RECEIVE, timeout), _clock())

    def _filled(self) -> RemoteOpenQueue:
        """As many reads under way as the window has room for, on the present connection."""
        if self._closed:
            raise WindowClosed
        opened, now, slots = self.queue.opened(), _clock(), self._slots
        if opened is not self._opened:
            slots.clear()  # gone back with their connection
            self._opened, self._unsent, self._looked_at = opened, 0, now
        elif now - self._looked_at > LOOK_S:
            self._look(opened, now)
        if slots and slots[0].pending.done and now - slots[0].unanswered > HOLD_S:
            self._give_back(opened)  # all of them, so that they stay in order
        while len(slots) < self.size:
            slots.append(self._start(opened, None))
            self._unsent += 1
        if self._unsent > self.size // 2:
            self.flush(opened)
        return opened

    def _look(self, opened: RemoteOpenQueue, now: float) -> None:
        """Takes in all that has come; what is not answered then has no message over there."""
        self._looked_at = now
        slots, known = self._slots, -1
        while (held := sum(len(slot.pending.stub) for slot in slots)) > known:
            if held > HELD_MAX:
                return  # the rest is left where it is, and counts as old
            known = held
            opened.link.look()
        for slot in slots:
            if not slot.pending.done:
                slot.unanswered = now

    def flush(self, opened: RemoteOpenQueue) -> None:
        """Sends what was asked since."""
        self._unsent = 0
        opened.link.flush()

    def flush_late(self) -> None:
        """Sends what is not sent yet."""
        opened = self._opened
        if opened is not None and self._unsent:
            self.flush(opened)

    def end(self, taken: LockedMessage, ack: Ack) -> PendingCall:
        """Submits the end of a message, to be sent with the next questions; raises `LinkLost`."""
        pending = self.queue.end(taken.opened, taken.request_id, ack, False)
        self._unsent += 1  # only now: a thread that sends what is unsent must find it
        return pending

    def rest(self) -> None:
        """Give back what was not taken, and cancel waiting reads; `take` asks for others."""
        with self._lock:
            self._let_go()

    def close(self) -> None:
        """Do what `rest` does, for good."""
        with self._lock:
            self._closed = True
            self._let_go()

    def _let_go(self) -> None:
        opened, self._opened = self._opened, None
        if opened is None or opened.link.lost is not None:
            self._slots.clear()
            return
        try:
            self._give_back(opened)
        except (LinkLost, ServerUnreachable):
            self._slots.clear()

    def _give_back(self, opened: RemoteOpenQueue) -> None:
        slots, link = list(self._slots), opened.link
        self._slots.clear()
        deadline = time.monotonic() + self.queue.reader.timeout_s
        for slot in slots:
            if not slot.pending.done:
                request = CancelReceive(opened.handle, slot.request_id)
                opened.submit(Opnum.CANCEL_RECEIVE, request)
        link.flush()
        ends = []
        for slot in slots:
            self.queue.wait(link, slot.pending, deadline)
            opened.waiting.pop(slot.request_id, None)
            if self._has_message(opened, slot.request_id, slot.pending):
                ends.append(self.queue.end(opened, slot.request_id, Ack.NACK, False))
        link.flush()
        for end in ends:
            self.queue.wait(link, end, deadline)

    def _has_message(self, opened: RemoteOpenQueue, request_id: int, pending: PendingCall) -> bool:
        try:
            self.queue.received(opened, request_id, pending, _RECEIVE)
        except (QueueError, RemoteProtocolError):
            return False
        return True


class RemoteConsumer:
    """Iterate over the messages of a queue of another computer.

    A message is the reader's until they ask for the next one or call `done`; then it is ended over
    there. A `break` changes nothing: `done` and another loop go on from there. `close`, the end of
    a `with` block, or dropping the consumer returns the message in hand and those not yet seen. A
    message may come again after a broken connection; then it is marked `in_doubt`. With `lookup_id`
    only that message is taken, and `MessageNotFound` is raised if it is not there.
    """

    def __init__(
        self,
        queue: QueueReader,
        timeout: float | None,
        prefetch: int,
        lookup_id: int | None = None,
    ) -> None:
        self._queue = queue
        self._timeout = timeout
        if lookup_id is not None:
            self._timeout, prefetch = 0.0, 0
        self._wanted = _RECEIVE if lookup_id is None else _lookup(lookup_id)
        self._window = Window(queue, prefetch) if prefetch else None
        self._soon = Reminder(self._window.flush_late, END_AFTER_S) if self._window else None
        self._current: LockedMessage | None = None
        self._ends: deque[tuple[LockedMessage, PendingCall]] = deque()
        self._looked_up = False
        self._returned = False
        self._closed = False
        self._gave_back = False  # the message in hand, as the consumer was closed

    def next(self) -> Message | None:
        """The next message; None when none came in time. The one before is done."""
        self._put_down()
        taken = self._take_one() if self._window is None else self._window.take(self._timeout)
        self._settle(4 * WINDOW_MAX if self._window is None else 2 * self._window.size)
        self._current = taken
        return None if taken is None else self._queue.reader.recall(taken.message)

    def _take_one(self) -> LockedMessage | None:
        """Without a window a read is asked for when the reader wants it, with the last end."""
        if self._looked_up:
            return None
        try:
            taken = self._queue.take(self._wanted, self._timeout)
        except IoTimeout:
            return None
        self._looked_up = self._wanted is not _RECEIVE
        return taken

    def done(self) -> None:
        """What was handed out so far is ended over there, durably, when this returns.

        Raises `MessageReturned` if they went back instead: the connection broke, or the consumer
        was closed before.
        """
        self._put_down()
        self._settle(0)
        if self._gave_back:
            raise closed_before_done()
        if self._returned:
            self._returned = False
            raise MessageReturned("the connection broke before the messages were ended")

    def close(self) -> None:
        """Stops; what is not done goes back."""
        if self._closed:
            return
        self._closed = True
        current, self._current = self._current, None
        if current is not None:
            self._gave_back = True
            self._end(current, Ack.NACK)
        if self._soon is not None and self._window is not None:
            self._soon.stop()
            self._window.close()
        self._settle(0)

    def _put_down(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            self._end(current, Ack.ACK)

    def _end(self, taken: LockedMessage, ack: Ack) -> None:
        try:
            if self._window is not None and self._soon is not None:
                pending = self._window.end(taken, ack)
                self._soon.ask()
            else:
                pending = self._queue.end(taken.opened, taken.request_id, ack, False)
        except LinkLost:
            if ack is Ack.ACK:
                self._doubt(taken)
            return
        if ack is Ack.ACK:
            self._ends.append((taken, pending))
        else:
            taken.opened.link.flush()

    def _settle(self, count_max: int) -> None:
        """Looks at the answers to ends; waits for the oldest where too many are under way."""
        ends = self._ends
        while ends and (ends[0][1].done or len(ends) > count_max):
            taken, pending = ends.popleft()
            if not self._queue.has_ended(taken.opened, pending):
                self._doubt(taken)

    def _doubt(self, taken: LockedMessage) -> None:
        self._returned = True
        self._queue.reader.doubt(taken.message)

    def __del__(self) -> None:
        if not self._closed:
            close_abandoned(self.close)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        message = self.next()
        if message is None:  # nothing comes meanwhile that only this consumer could get
            if self._window is not None:
                self._window.rest()
            self._settle(0)
            raise StopIteration
        return message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _lookup(lookup_id: int) -> Want:
    return Want(LOOKUP_RECEIVE["current"], lookup_id)


def receive_ahead(window: Window, timeout: float | None) -> Message:
    """One message out of a window, ended over there before it is handed out."""
    while True:
        taken = window.take(timeout)
        if taken is None:
            raise IoTimeout(f"no message came to {window.queue.name} in time")
        taken.opened.link.look()  # it may have broken since the message came
        try:
            end = window.end(taken, Ack.ACK)
        except LinkLost:
            continue  # it was not ended, so it is back in its queue
        window.flush(taken.opened)
        window.queue.settle(taken.opened, taken.message, end, _RECEIVE)
        return taken.message


def receive_many(queue: QueueReader, count: int, timeout: float | None) -> list[Message]:
    """Up to `count` messages, asked for and ended together; waits for the first only."""
    found = _all_there(queue, count)
    if not found:
        if timeout == 0:
            raise IoTimeout(f"no message came to {queue.name} in time")
        found.append(queue.read(_RECEIVE, timeout))
        found += _all_there(queue, count - 1)
    return found


def _all_there(queue: QueueReader, count: int) -> list[Message]:
    found: list[Message] = []
    while len(found) < count:
        wanted = min(count - len(found), CHUNK)
        more = _chunk(queue, wanted)
        found += more
        if len(more) < wanted:
            break
    return found


def _chunk(queue: QueueReader, count: int) -> list[Message]:
    """What is there, up to this many; a connection that breaks gives back what was not ended."""
    outage = Outage(queue.reader.reconnect_s)
    while True:
        try:
            opened = queue.opened()
            taken = take_together(queue, opened, count)
        except (LinkLost, ServerUnreachable) as error:
            outage.go_on(error)
            continue
        if not taken:
            return []
        found = _ended(queue, opened, taken)
        if found:
            return found


def _ended(
    queue: QueueReader, opened: RemoteOpenQueue, taken: list[LockedMessage]
) -> list[Message]:
    """Those whose ends were sent, or may have been: another thread sends what is submitted."""
    ends: list[tuple[Message, PendingCall]] = []
    with suppress(LinkLost):
        for one in taken:
            end = queue.end(opened, one.request_id, Ack.ACK, False)
            ends.append((one.message, end))
        opened.link.flush()
    for message, end in ends:
        queue.settle(opened, message, end, _RECEIVE)
    return [message for message, _ in ends]


def take_together(queue: QueueReader, opened: RemoteOpenQueue, count: int) -> list[LockedMessage]:
    """Up to `count` messages that are there now, locked until they are ended or given back.

    One that cannot be rebuilt is refused, and told of where it is the only one.
    """
    started = deque(queue.start(opened, _RECEIVE, 0.0) for _ in range(count))
    opened.link.flush()
    deadline = time.monotonic() + queue.reader.timeout_s
    taken: list[LockedMessage] = []
    problem: Exception | None = None
    try:
        while started:
            request_id, pending = started[0]
            queue.wait(opened.link, pending, deadline)
            started.popleft()
            opened.waiting.pop(request_id, None)
            try:
                received = queue.received(opened, request_id, pending, _RECEIVE)
                message = queue.message_of(opened, request_id, _RECEIVE, received)
            except (QueueError, RemoteProtocolError) as error:
                if not isinstance(error, IoTimeout):
                    problem = problem or error
                continue
            taken.append(LockedMessage(message, opened, request_id))
    except (LinkLost, ServerUnreachable):
        raise
    except BaseException:
        for request_id, pending in started:
            queue.abandon(opened, request_id, pending, _RECEIVE)
        for one in taken:
            queue.give_back(opened, one.request_id, _RECEIVE)
        raise
    if problem is not None and not taken:
        raise problem
    return taken


def browse(queue: QueueReader, ahead: int, body_max: int) -> Iterator[Message]:
    """All messages in queue order, through a cursor; this many are asked for together."""
    opened, cursor = queue.create_cursor()
    want = Want(PEEK_CURRENT, cursor=cursor, body_max=body_max, on=opened)
    try:
        while True:
            started = []
            for _ in range(max(ahead, 1)):
                started.append(queue.start(opened, want, 0.0))
                want = want._replace(action=PEEK_NEXT)
            for message in _seen(queue, opened, want, started):
                if message is None:
                    return
                yield message
    finally:
        queue.close_cursor(opened, cursor)


def _seen(
    queue: QueueReader, opened: RemoteOpenQueue, want: Want, started: list[tuple[int, PendingCall]]
) -> Iterator[Message | None]:
    """What peeks brought; None: there is no more."""
    opened.link.flush()
    deadline = time.monotonic() + queue.reader.timeout_s
    for request_id, _ in started:
        del opened.waiting[request_id]  # they do not wait
    for request_id, pending in started:
        try:
            queue.wait(opened.link, pending, deadline)
            received = queue.received(opened, request_id, pending, want)
        except IoTimeout:
            yield None
            return
        except (LinkLost, ServerUnreachable) as error:
            raise SessionLost(error.cause) from None
        yield queue.message_of(opened, request_id, want, received)
