"""A consumer: receives messages in batches, and ends them in batches.

Each message is the caller's until they ask for the next one or end it; what they have
not seen goes back when they stop. Operations only; the shells make iterators of them.
"""

from __future__ import annotations

from collections import deque
from itertools import repeat
from typing import Final

from posthouse.client.core import SessionCore
from posthouse.client.errors import MessageReturned, ServerUnreachable
from posthouse.client.message import Message
from posthouse.client.operations import Operation, open_cursor, peek
from posthouse.client.process_ownership import of_the_parent
from posthouse.client.requests import (
    CursorHandle,
    EndRequest,
    LookupRequest,
    QueueHandle,
    ReadRequest,
)
from posthouse.model.durations import Seconds, seconds
from posthouse.model.enumerations import MessageSeekAction
from posthouse.model.errors import InvalidParameter, IoTimeout, QueueError
from posthouse.wire.frames import frames
from posthouse.wire.frames.payloads import RECEIVED_AT_ONCE

END_AFTER_S: Final = 0.05  # the longest that the end of a message waits for others
ENDS_MAX: Final = 16  # under way
PREFETCHED: Final = 2  # this many batches at hand or under way before no other is asked for
SMALL_BATCH: Final = 256 << 10  # bytes: two larger ones on their way only fill caches


class Consuming:
    """The state of a consumer."""

    def __init__(
        self,
        core: SessionCore,
        handle: QueueHandle,
        batch: int,
        timeout: Seconds | None,
        prefetch: bool,
        at_once: bool = False,
        lookup_id: int | None = None,
    ) -> None:
        if batch < 1:
            raise InvalidParameter("the number of messages must be at least 1")
        self._core = core
        self._made_in = core.generation
        self._handle = handle
        self._batch = batch
        self._timeout = seconds(timeout)
        self._enough = PREFETCHED * batch if prefetch else 0  # with more none is asked for
        # Messages are gone from the queue when they come: nothing to end. A lookup locks them.
        self._at_once = at_once and lookup_id is None
        self._lookup_id = lookup_id  # the only message that is wanted
        self._looked_up = False
        self._ready: deque[Message] = deque()
        self._current: Message | None = None
        self._finished: list[int] = []  # lookup ids of messages that the caller is done with
        self._locked_in = 0  # the connection that holds all of these
        self._ends: deque[EndRequest] = deque()
        self._doubtful: set[int] = set()  # handed out before, and their end is not confirmed
        self._returned: set[int] = set()  # those of them that `done` has not reported
        self._asked: deque[ReadRequest | LookupRequest] = deque()  # under way, in their order
        self._goes_on = False  # the last batch was full and small: another one is likely there
        self._least = self._enough  # with as many at hand, or fewer, something has to be asked for
        self._clock = core.clock
        self._ended_at = core.clock()
        self.timed_out: IoTimeout | None = None  # why the last `next` had no message
        self.closed = False
        self._gave_back = False  # the message in hand, as the consumer was closed

    def at_hand(self) -> Message | None:
        """The next message where nothing has to be asked for it; None: `next` sees to it."""
        ready = self._ready
        if len(ready) <= self._least or self._locked_in != self._core.generation or self._doubtful:
            return None
        if not self._at_once and self._clock() - self._ended_at > END_AFTER_S:
            return None
        # No calls from here on: as one returns Ctrl-C comes, and would leave this half done, or
        # another thread has its turn, and may close.
        if self.closed:
            return None
        message, before = ready[0], self._current
        if before is not None and not self._at_once:  # else nothing has to be ended
            self._finished += (before.lookup_id,)
        del ready[0]
        self._current = message
        return message

    @property
    def _have_gone_back(self) -> bool:
        """What was received is back in the queue, with the connection that had locked it."""
        return self._locked_in != self._core.generation and not self._at_once

    def next(self) -> Operation[Message | None]:
        """The next message; None: there was none in time, or the consumer is closed."""
        self._refuse_in_a_child()
        self._put_down()
        if self._have_gone_back:
            self._ready.clear()
        if not self._ready:
            self._end_finished()
            if not (yield from self._fetch()):
                if self.closed:
                    yield from self._let_go()
                return None
        elif self._core.clock() - self._ended_at > END_AFTER_S:
            self._end_finished()
        if len(self._ready) <= self._least:
            self._ask_ahead(len(self._ready))
        yield from self._settle(ENDS_MAX)
        if self.closed:  # by another thread, perhaps before it could see what has just come
            yield from self._let_go()
            return None
        self._current = message = self._ready[0]  # and no call in between, as in `at_hand`
        del self._ready[0]
        if self._doubtful and message.lookup_id in self._doubtful:
            self._doubtful.remove(message.lookup_id)
            self._returned.discard(message.lookup_id)
            message.in_doubt = True
        return message

    def done(self) -> Operation[None]:
        """End everything handed out so far, durably; raise `MessageReturned` for what went back."""
        self._refuse_in_a_child()
        self._put_down()
        self._end_finished()
        yield from self._settle(0)
        if self._gave_back:
            raise closed_before_done()
        if self._returned:
            self._returned.clear()
            raise MessageReturned("the connection broke before the messages were ended")

    def close(self) -> Operation[None]:
        """Ends what is done with; the message in hand and those not seen go back."""
        if not self.closed:
            self.closed = True
            if self._made_in > self._core.inherited:
                yield from self._let_go()

    def _refuse_in_a_child(self) -> None:
        if self._made_in <= self._core.inherited:
            raise of_the_parent("consumer")

    def _let_go(self) -> Operation[None]:
        core, current, self._current = self._core, self._current, None
        if current is not None and not self._at_once:
            self._gave_back = True
        # No call between a copy and its `clear`: the reader and who closes may both be here.
        unseen = [*self._ready] if current is None else [current, *self._ready]
        self._ready.clear()
        asked = [*self._asked]
        self._asked.clear()
        for request in asked:
            core.abandon(request)
        self._end_finished()
        returned = [message.lookup_id for message in unseen]
        if returned and not self._have_gone_back and not self._at_once and core.open:
            yield core.give_back(self._handle, returned, self._locked_in)
        yield from self._settle(0)

    def _put_down(self) -> None:
        current = self._current
        if current is not None:
            if not self._at_once:
                self._finished += (current.lookup_id,)  # no call before the next line
            self._current = None

    def _ask(self, waited: float = 0) -> None:
        request = self._lookup() or self._read(waited)
        try:
            self._core.submit(request)
            self._asked.append(request)
        except BaseException:  # Ctrl-C: one that is not under way is never answered
            self._core.abandon(request)
            raise

    def _ask_ahead(self, at_hand: int) -> None:
        """Asks for what is wanted before the caller has come to the end of what is at hand.

        A second batch is under way only while small ones come full: the queue manager reads it
        while the first one travels. On a queue that is nearly empty it would only wait beside it.
        It would come between the parts of one that takes several turns.
        """
        while self._enough and at_hand <= self._wanted_below():
            self._ask()
        self._least = max(self._wanted_below(), 0)

    def _wanted_below(self) -> int:
        """With as many at hand, or fewer, another batch is asked for; negative: with none."""
        under_way = len(self._asked)
        if under_way and not self._goes_on:
            return -1
        return self._enough - under_way * self._batch if under_way < PREFETCHED else -1

    def _lookup(self) -> LookupRequest | None:
        if self._lookup_id is None:
            return None
        action = MessageSeekAction.CURRENT
        return LookupRequest(self._handle, self._lookup_id, action, take=True, transaction=None)

    def _read(self, waited: float) -> ReadRequest:
        timeout = self._timeout
        left = None if timeout is None else max(0.0, timeout - waited)
        flags = frames.READ_AT_ONCE if self._at_once else 0
        clock = self._core.clock
        return ReadRequest(frames.RECEIVE, self._handle, left, self._batch, clock, flags=flags)

    def _fetch(self) -> Operation[bool]:
        begun = self._core.clock()
        while not self.closed:
            if self._looked_up and (yield from self._all_ended()):
                return False
            ahead = bool(self._asked)
            if not ahead:
                self._ask(self._core.clock() - begun)
            if self.closed:  # by another thread, perhaps before it could see what is asked for now
                break
            request = self._asked[0]
            if request.abandoned:  # a call that waited for it was cancelled: its messages go back
                for later in list(self._asked):
                    self._core.abandon(later)  # and with them those that come after them
            yield request
            if self.closed:  # by another thread or task
                break
            self._asked.popleft()
            self._goes_on = False
            if request.abandoned and (request.error is not None or not self._at_once):
                continue
            try:
                delivered = request.result()
            except (IoTimeout, ServerUnreachable) as error:
                if ahead:
                    continue  # its time ran while the reader worked, and is not theirs
                if isinstance(error, ServerUnreachable):
                    raise
                self.timed_out = error
                if (yield from self._all_ended()):
                    return False
                continue  # what a broken connection gave back may be there by now
            if request.generation == self._core.generation or self._at_once:
                if len(delivered) == self._batch <= RECEIVED_AT_ONCE and not self._at_once:
                    self._goes_on = len(delivered[-1].packet) * self._batch <= SMALL_BATCH
                self._locked_in = request.generation
                self._looked_up = self._lookup_id is not None
                self._ask_ahead(len(delivered))  # it is on its way while these are made ready
                self._ready.extend(map(Message, delivered, repeat(self._handle.name)))
                return True
        return False

    def _end_finished(self) -> None:
        self._ended_at = self._core.clock()
        finished, self._finished = self._finished, []
        if not finished:
            return
        try:
            request = EndRequest(self._handle, finished, self._locked_in)
            self._core.submit(request)
            self._ends.append(request)
        except BaseException:  # Ctrl-C: they may come again
            self._note_doubtful(finished)
            raise

    def _note_doubtful(self, lookup_ids: list[int]) -> None:
        self._doubtful.update(lookup_ids)
        self._returned.update(lookup_ids)

    def _all_ended(self) -> Operation[bool]:
        """Waits for all ends. False: some messages went back instead."""
        before = len(self._doubtful)
        yield from self._settle(0)
        return len(self._doubtful) == before

    def _settle(self, count_max: int) -> Operation[None]:
        """Looks at the answers to ends; waits for the oldest where too many are under way.

        An end that a broken connection took along is not an error here: the message comes again,
        and states that it is in doubt (decision 42).
        """
        ends = self._ends
        while True:  # after the condition of a `while` another thread has its turn
            if not ends:
                break
            request = ends[0]  # it stays there until it was looked at: Ctrl-C may come before
            if not request.done and len(ends) <= count_max:
                break
            yield request
            error = request.error
            refusal = error if isinstance(error, QueueError) and not request.repeated else None
            if error is not refusal:
                self._note_doubtful(request.lookup_ids)
            if ends and ends[0] is request:  # else another thread or task closes
                ends.popleft()
            if refusal is not None:
                raise refusal


def closed_before_done() -> MessageReturned:
    """Return the error of a `done` that comes after `close`."""
    return MessageReturned(
        "the consumer was closed, and the message in hand went back to its queue",
        "Call `done` before `close`, that is inside the `with` block.",
    )


class Browsing:
    """The state of a browser: a cursor that goes through the queue page by page."""

    def __init__(self, core: SessionCore, handle: QueueHandle, page: int) -> None:
        self._core = core
        self._handle = handle
        self._page = page
        self.cursor: CursorHandle | None = None

    def next_page(self) -> Operation[list[Message]]:
        """More messages; none at the end."""
        following = self.cursor is not None
        if self.cursor is None:
            self.cursor = yield from open_cursor(self._core, self._handle)
        try:
            return (
                yield from peek(
                    self._core,
                    self._handle,
                    0,
                    cursor=self.cursor,
                    following=following,
                    count=self._page,
                )
            )
        except IoTimeout:
            return []
