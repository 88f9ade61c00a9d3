"""A queue of another computer, read over remote read with the interface of `Queue`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Final, Protocol, Self

from posthouse.client.message import Message
from posthouse.client.queue_handles import Seek
from posthouse.client.remote.consumer import (
    RemoteConsumer,
    Window,
    WindowClosed,
    browse,
    receive_ahead,
    receive_many,
)
from posthouse.client.remote.lookups import peek_each, receive_each
from posthouse.client.remote.management import RemoteManagement
from posthouse.client.remote.reader import QueueReader, RemoteReader
from posthouse.client.remote.state import (
    DENY_NONE,
    DENY_SHARE,
    INFINITE,
    LOOKUP_PEEK,
    LOOKUP_RECEIVE,
    MOVE_ACCESS,
    PEEK_ACCESS,
    PEEK_CURRENT,
    PEEK_NEXT,
    RECEIVE,
    RECEIVE_ACCESS,
    RemoteOpenQueue,
    Want,
)
from posthouse.client.remote.transaction_parts import wait_in_slices
from posthouse.client.transaction import Transaction
from posthouse.model.durations import Seconds, seconds
from posthouse.model.errors import InvalidParameter, UnsupportedOperation
from posthouse.model.names import DirectName, FormatName, parse_format_name

BROWSE_AHEAD: Final = 32


class QueueReading(Protocol):
    """What a queue needs to be read."""

    @property
    def reader(self) -> RemoteReader:
        """The connection to its computer."""

    @property
    def management(self) -> RemoteManagement:
        """The management interface of its computer."""

    @property
    def prefetch(self) -> int:
        """How many messages are read ahead; 0 for none."""

    def joined(self, tx: Transaction, queue: QueueReader) -> bytes:
        """Makes the other queue manager take part in a transaction; its identifier."""

    def keep(self, tx: Transaction) -> None:
        """Keeps a transaction from ending as idle while something waits there."""


class ReadableQueue:
    """The reading half of `RemoteQueue`. It is opened when it is first read."""

    def __init__(self, name: str, reading: QueueReading, exclusive: bool) -> None:
        self.name = name
        self._reading = reading
        self._exclusive = exclusive
        self._window: Window | None = None
        self._windows = threading.Lock()  # there is one at a time
        self._used: dict[int, QueueReader] = {}  # by access

    # -- reading

    def receive(
        self,
        timeout: Seconds | None = None,
        *,
        tx: Transaction | None = None,
        body_max: int | None = None,
    ) -> Message:
        """Takes the first message; waits up to `timeout` seconds for one, for ever with None.

        Raises `IoTimeout` when none came. When it returns, the message is gone from its queue, or
        with the transaction's commit; with `in_doubt` set, it may be there still, because the
        answer that it is gone did not come. A body above `body_max` stays: `BufferOverflow`.
        """
        if self._reading.prefetch and tx is None and body_max is None:
            return self._receive_ahead(seconds(timeout))
        queue = self._receiving
        want = Want(RECEIVE, 0, 0, _limit(body_max), self._uow(tx, queue))
        if tx is None:
            return queue.read(want, seconds(timeout))
        return wait_in_slices(
            lambda slice_s: queue.read(want, slice_s),
            seconds(timeout),
            lambda: self._reading.keep(tx),
        )

    def receive_many(
        self, count: int, timeout: Seconds | None = None, *, tx: Transaction | None = None
    ) -> list[Message]:
        """Takes up to `count` messages; waits only for the first of them.

        They are asked for together and ended together, which is quick.
        """
        if count < 1:
            raise InvalidParameter("the number of messages must be at least 1")
        if tx is not None:
            raise UnsupportedOperation(
                "many messages at a time are not received in a transaction from another computer",
                "Call receive(tx=) for each.",
            )
        self._stop_reading_ahead()
        return receive_many(self._receiving, count, seconds(timeout))

    def peek(self, timeout: Seconds | None = None, *, body_max: int | None = None) -> Message:
        """Looks at the first message, waiting as `receive` does.

        With `body_max` not more than so much of its body is transferred.
        """
        return self._peeking.read(Want(PEEK_CURRENT, body_max=_limit(body_max)), seconds(timeout))

    def browse(self, *, body_max: int | None = None) -> Iterator[Message]:
        """Looks at all messages in queue order; takes none."""
        ahead = BROWSE_AHEAD if self._reading.prefetch else 1
        return browse(self._peeking, ahead, _limit(body_max))

    def consume(
        self,
        *,
        timeout: Seconds | None = None,
        prefetch: int | None = None,
        lookup_id: int | None = None,
    ) -> RemoteConsumer:
        """Takes messages on and on, for a `for` statement; see `RemoteConsumer`.

        With `prefetch` this many are locked for this reader ahead of them.
        """
        self._stop_reading_ahead()
        ahead = self._reading.prefetch if prefetch is None else prefetch
        return RemoteConsumer(self._receiving, seconds(timeout), ahead, lookup_id)

    def lookup(
        self,
        lookup_id: int = 0,
        seek: Seek = "current",
        *,
        receive: bool = False,
        tx: Transaction | None = None,
        body_max: int | None = None,
    ) -> Message:
        """The message with a lookup id, or next to it, or the first of all."""
        taking = receive or tx is not None
        queue = self._receiving if taking else self._peeking
        limit = _limit(body_max)
        if seek == "first":
            want = Want(RECEIVE if receive else PEEK_CURRENT, 0, 0, limit, self._uow(tx, queue))
            return queue.read(want, 0)
        if seek == "last" or not 0 < lookup_id < 1 << 64:
            raise InvalidParameter(
                f"remote read finds no message by the lookup id {lookup_id}, {seek}",
                "Name a message by its lookup id, or ask for the first one.",
            )
        action = (LOOKUP_RECEIVE if receive else LOOKUP_PEEK)[seek]
        return queue.read(Want(action, lookup_id, 0, limit, self._uow(tx, queue)), 0)

    def lookup_many(
        self, lookup_ids: Sequence[int], *, body_max: int | None = None
    ) -> Iterator[Message]:
        """Looks at the messages with these lookup ids, as far as they are there.

        They are asked for together, which is quick.
        """
        return peek_each(self._peeking, lookup_ids, _limit(body_max))

    def receive_lookups(self, lookup_ids: Sequence[int]) -> list[Message]:
        """Takes the messages with these lookup ids, as far as they are there."""
        return receive_each(self._receiving, lookup_ids)

    def cursor(self, *, receiving: bool = False) -> RemoteCursor:
        """A cursor in front of the first message; `receiving` lets it take messages too."""
        return RemoteCursor(self._receiving if receiving else self._peeking, self._uow)

    def cancel(self) -> int:
        """Ends what other threads wait for here, with `OperationCancelled`; states how many."""
        return sum(queue.cancel() for queue in list(self._used.values()))

    def count(self) -> int:
        """How many messages are in the queue, by the management interface there ([MS-MQMR]).

        Windows answers administrators of the machine only; Posthouse also users who may receive.
        """
        return self._reading.management.count(parse_format_name(self.name))

    # -- moving and removing

    def move(
        self, message: Message | int, to: ReadableQueue, *, tx: Transaction | None = None
    ) -> None:
        """Moves a message, or the one with a lookup id, between queue and subqueues."""
        lookup_id = message.lookup_id if isinstance(message, Message) else message
        queue = self._receiving
        uow = self._uow(tx, queue)
        queue.move(lookup_id, to._for(MOVE_ACCESS), uow)

    def reject(self, message: Message | int, *, tx: Transaction) -> None:
        """Marks a message that was received in a transaction, which goes on, as rejected."""
        lookup_id = message.lookup_id if isinstance(message, Message) else message
        queue = self._receiving
        self._uow(tx, queue)
        queue.reject(lookup_id)

    def purge(self) -> None:
        """Removes all messages."""
        self._receiving.purge()

    def close(self) -> None:
        """Gives back what was read ahead, and closes; the next use opens it again."""
        self._stop_reading_ahead()
        for queue in list(self._used.values()):
            queue.close()

    # -- how it is open

    def _for(self, access: int) -> QueueReader:
        found = self._used.get(access)
        if found is None:
            exclusive = self._exclusive and access == RECEIVE_ACCESS
            share = DENY_SHARE if exclusive else DENY_NONE
            reader = self._reading.reader
            found = reader.queue(self.name, _readable(self.name), access, share)
            self._used[access] = found
        return found

    @property
    def _receiving(self) -> QueueReader:
        return self._for(RECEIVE_ACCESS)

    @property
    def _peeking(self) -> QueueReader:
        return self._for(RECEIVE_ACCESS if self._exclusive else PEEK_ACCESS)

    def _uow(self, tx: Transaction | None, queue: QueueReader) -> bytes | None:
        return None if tx is None else self._reading.joined(tx, queue)

    def _receive_ahead(self, timeout: float | None) -> Message:
        begun = time.monotonic()
        while True:
            left = None if timeout is None else max(begun + timeout - time.monotonic(), 0.0)
            with self._windows:
                if self._window is None:
                    self._window = Window(self._receiving, self._reading.prefetch)
                window = self._window
            with suppress(WindowClosed):  # by another thread, which reads otherwise
                return receive_ahead(window, left)

    def _stop_reading_ahead(self) -> None:
        with self._windows:
            window, self._window = self._window, None
        if window is not None:
            window.close()


class RemoteCursor:
    """A place in a queue of another computer; it is lost with its connection."""

    def __init__(
        self,
        queue: QueueReader,
        uow: Callable[[Transaction | None, QueueReader], bytes | None],
    ) -> None:
        self._queue = queue
        self._uow = uow
        self._place: tuple[RemoteOpenQueue, int] | None = None

    def peek(self, timeout: Seconds | None = 0) -> Message:
        """The message it stands on; at first, the first one."""
        return self._read(PEEK_CURRENT, timeout, None)

    def next(self, timeout: Seconds | None = 0) -> Message:
        """Steps on to the next message; `IoTimeout` at the end of the queue."""
        return self._read(PEEK_NEXT, timeout, None)

    def receive(self, timeout: Seconds | None = 0, *, tx: Transaction | None = None) -> Message:
        """Takes the message it stands on."""
        return self._read(RECEIVE, timeout, tx)

    def _read(self, action: int, timeout: Seconds | None, tx: Transaction | None) -> Message:
        uow = self._uow(tx, self._queue)
        if self._place is None:
            self._place = self._queue.create_cursor()
        opened, number = self._place
        return self._queue.read(Want(action, 0, number, INFINITE, uow, opened), seconds(timeout))

    def cancel(self) -> int:
        """Ends what another thread waits for with it, with `OperationCancelled`."""
        return 0 if self._place is None else self._queue.cancel(self._place[1])

    def close(self) -> None:
        """Gives it back; what waits with it is cancelled."""
        place, self._place = self._place, None
        if place is not None:
            self._queue.close_cursor(*place)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _limit(body_max: int | None) -> int:
    if body_max is None:
        return INFINITE
    if not 0 <= body_max <= INFINITE:
        raise InvalidParameter(f"a body cannot have {body_max} bytes")
    return body_max


def _readable(name: str) -> FormatName:
    """The name of the queue on its computer: the port is that of another protocol."""
    parsed = parse_format_name(name)
    return replace(parsed, port=None) if isinstance(parsed, DirectName) else parsed
