"""Requests of a client session, and their results.

A request names queues and transactions by objects of this side. Its frame is made when it is sent,
so that it can be sent again in another connection, where the handles are others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from posthouse.model.enumerations import MessageSeekAction, QueueAccessType, QueueShareMode
from posthouse.model.errors import InvalidParameter
from posthouse.model.message import ACK_RECEIVE
from posthouse.wire.frames import frames
from posthouse.wire.frames.payloads import OWN_TRANSACTION, Begin, Commit, Lookup, Payload
from posthouse.wire.frames.send_frames import (
    PacketRun,
    Packets,
    encode_send_run,
    one_send_front,
    send_run_parts,
)


class QueueHandle:
    """A queue that is to be open; it is opened when something is first asked of it."""

    __slots__ = (
        "access",
        "destination",
        "format_name",
        "generation",
        "is_list",
        "maker",
        "name",
        "number",
        "opened_by",
        "opening",
        "share",
        "transactional",
        "waiting",
    )

    def __init__(
        self,
        name: str,
        access: QueueAccessType,
        share: QueueShareMode = QueueShareMode.DENY_NONE,
    ) -> None:
        self.name = name
        self.access = access
        self.share = share
        self.number = 0  # in the connection of its generation
        self.generation = 0
        self.opening = False
        self.opened_by = 0  # the number of the request that did it
        self.waiting: list[Request] = []  # until it is open
        self.destination = ""
        self.format_name = ""
        self.transactional = False
        self.is_list = False
        self.maker: Any = None  # of packets; belongs to `operations`


class TransactionHandle:
    """A transaction that has begun, or is to; it lives as long as its connection."""

    __slots__ = (
        "abandoned",
        "beginning",
        "failure",
        "generation",
        "identifier",
        "made_in",
        "number",
        "spoiled",
        "used",
        "waiting",
    )

    def __init__(self, number: int = 0, identifier: bytes = b"", generation: int = 0) -> None:
        self.number = number
        self.identifier = identifier
        self.generation = generation
        self.made_in = generation  # the connection that there was when it was made
        self.beginning: Request | None = None  # not answered yet
        self.waiting: list[Request] = []  # until it has a number
        self.used = False  # something was asked in it before it was known to have begun
        self.failure: Exception | None = None  # why it did not begin
        self.abandoned: list[Request] = []  # receives that no caller waits for now
        self.spoiled = False  # one of those took a message that no caller got


class CursorHandle:
    """A cursor that is open; it lives as long as its connection."""

    __slots__ = ("generation", "number")

    def __init__(self, number: int, generation: int) -> None:
        self.number = number
        self.generation = generation


class Request:
    """Something asked, and its answer or error once `done`.

    What most requests leave as it is stands in the class: a request is made for every message.
    """

    waits_only: ClassVar[bool] = False  # for a queue to be open; nothing is sent
    bound: ClassVar[bool] = False  # to its connection, by what it holds there
    holds: ClassVar[bool] = False  # once sent, its outcome matters even to one who was cancelled
    expects: int = 0  # the kind of frame that answers it
    opening: QueueHandle | None = None  # what it opens
    begins: TransactionHandle | None = None
    transaction: TransactionHandle | None = None
    cursor: CursorHandle | None = None
    needs_id: bool = False  # its result is kept, so that it can be asked again
    repeatable: bool = True
    here_only: bool = False  # it makes no sense in another connection, sent or not
    number: int = 0  # of the frame; 0: not sent yet
    generation: int = 0  # of the connection it was sent in
    request_id: int = 0
    repeated: bool = False
    abandoned: bool = False
    done: bool = False
    answer: Any = None
    error: Exception | None = None
    on_done: tuple[Callable[[], None], ...] = ()

    def __init__(
        self,
        expects: int,
        *handles: QueueHandle,
        transaction: TransactionHandle | None = None,
        cursor: CursorHandle | None = None,
        needs_id: bool = False,
    ) -> None:
        self.expects = expects
        self.handles = handles
        self.transaction = transaction
        self.cursor = cursor
        self.needs_id = needs_id

    @property
    def takes(self) -> bool:
        """Whether it locks the messages that it brings."""
        return False

    @property
    def deadline(self) -> float | None:
        """When it has waited long enough, by the clock of its core; None: never."""
        return None

    @abstractmethod  # without a metaclass, which would make every `isinstance` dear
    def encode(self) -> bytes:
        """The frame."""

    def parts(self) -> list[bytes]:
        """The frame, perhaps in parts that are written one after the other."""
        return [self.encode()]

    def finish(self, answer: Any, error: Exception | None) -> None:
        """It has come to this."""
        assert not self.done
        self.done, self.answer, self.error = True, answer, error
        if self.on_done:
            callbacks, self.on_done = self.on_done, ()
            for callback in callbacks:
                callback()

    def result(self) -> Any:
        """The answer; raises the error."""
        assert self.done
        if self.error is not None:
            raise self.error
        return self.answer


class Ask(Request):
    """A request whose payload is a structure."""

    def __init__(
        self,
        make: Callable[[], Payload],
        expects: int,
        *handles: QueueHandle,
        repeatable: bool = True,
        here_only: bool = False,
        transaction: TransactionHandle | None = None,
        cursor: CursorHandle | None = None,
    ) -> None:
        super().__init__(expects, *handles, transaction=transaction, cursor=cursor)
        self._make = make
        self.repeatable = repeatable and not here_only
        self.here_only = here_only

    def encode(self) -> bytes:
        """The frame."""
        return frames.encode(self.number, self._make())


class BeginRequest(Request):
    """BEGIN, of a transaction whose first requests may leave before this is answered."""

    begins: TransactionHandle

    def __init__(self, begins: TransactionHandle) -> None:
        super().__init__(frames.BEGUN)
        self.begins = begins

    def encode(self) -> bytes:
        """The frame."""
        return frames.encode(self.number, Begin())


class OpenWait(Request):
    """Waits for a queue to be open; nothing is sent but what opens it."""

    waits_only = True

    def __init__(self, handle: QueueHandle) -> None:
        super().__init__(0, handle)

    def encode(self) -> bytes:
        """No frame of its own."""
        return b""


class CommitRequest(Request):
    """COMMIT: asked again, it shows what became of the transaction.

    `branches` are databases that are prepared, and wait for the decision.
    """

    holds = True

    def __init__(
        self, transaction: TransactionHandle, branches: Sequence[tuple[str, str]] = ()
    ) -> None:
        super().__init__(frames.DONE, transaction=transaction, needs_id=True)
        self._branches = list(branches)

    def encode(self) -> bytes:
        """The frame."""
        assert self.transaction is not None
        # In another connection its handle could be that of another transaction.
        number = 0 if self.repeated else self.transaction.number
        payload = Commit(number, self.request_id, self._branches)
        return frames.encode(self.number, payload)


class SendRequest(Request):
    """SEND: packets for one queue; `alone`: they are a transaction of their own."""

    expects = frames.SENT

    def __init__(
        self,
        handle: QueueHandle,
        packets: Packets,
        size: int,
        transaction: TransactionHandle | None,
        *,
        alone: bool = False,
    ) -> None:
        self.handles = (handle,)
        self.transaction = transaction
        self.needs_id = transaction is None  # else the commit is asked about again, not its parts
        self._alone = alone
        self.packets = packets
        self.size = size

    def encode(self) -> bytes:
        """The frame."""
        return b"".join(self.parts())

    def parts(self) -> list[bytes]:
        """The frame in parts, so that large packets are not copied."""
        transaction = OWN_TRANSACTION if self._alone else 0
        if self.transaction is not None:
            transaction = self.transaction.number
        number, queue, request_id = self.number, self.handles[0].number, self.request_id
        packets, size = self.packets, self.size
        if isinstance(packets, PacketRun):
            if packets.is_large:
                return send_run_parts(number, queue, transaction, request_id, packets)
            return [encode_send_run(number, queue, transaction, request_id, packets)]
        if len(packets) == 1:
            front = one_send_front(number, queue, transaction, request_id, size)
            return [front + packets[0]] if size < frames.LARGE else [front, packets[0]]
        parts = frames.encode_send_parts(number, queue, transaction, request_id, packets)
        return parts if size >= frames.LARGE else [b"".join(parts)]


class ReadRequest(Request):
    """RECEIVE or PEEK; sent again, it waits for what is left of its time."""

    def __init__(
        self,
        kind: int,
        handle: QueueHandle,
        timeout: float | None,
        count: int,
        clock: Callable[[], float],
        *,
        flags: int = 0,
        transaction: TransactionHandle | None = None,
        cursor: CursorHandle | None = None,
    ) -> None:
        super().__init__(frames.MESSAGES, handle, transaction=transaction, cursor=cursor)
        self._kind = kind
        self._count = count
        self._flags = flags
        self._clock = clock
        self._deadline = None if timeout is None else clock() + timeout

    @property
    def takes(self) -> bool:
        """A receive does, unless messages are gone when they come."""
        return self._kind == frames.RECEIVE and not self._flags & frames.READ_AT_ONCE

    @property
    def deadline(self) -> float | None:
        """The end of its timeout."""
        return self._deadline

    def encode(self) -> bytes:
        """The frame."""
        read = frames.Read(
            self.handles[0].number,
            self.transaction.number if self.transaction is not None else 0,
            self.cursor.number if self.cursor is not None else 0,
            self._timeout_ms(),
            self._count,
            self._flags,
        )
        return frames.encode_read(self._kind, self.number, read)

    def _timeout_ms(self) -> int:
        if self._deadline is None:
            return -1
        left_ms = (self._deadline - self._clock()) * 1000
        return min(max(0, round(left_ms)), 0x7FFFFFFF)


class LookupRequest(Request):
    """LOOKUP: one message by its lookup id."""

    def __init__(
        self,
        handle: QueueHandle,
        lookup_id: int,
        action: MessageSeekAction,
        *,
        take: bool,
        transaction: TransactionHandle | None,
    ) -> None:
        super().__init__(frames.MESSAGES, handle, transaction=transaction)
        if not 0 <= lookup_id < 1 << 63:  # it would end the session, again and again
            raise InvalidParameter(f"there are no messages with the lookup id {lookup_id}")
        self._lookup_id = lookup_id
        self._action = action
        self._take = take

    @property
    def takes(self) -> bool:
        """One that is to be received is locked."""
        return self._take

    def encode(self) -> bytes:
        """The frame."""
        transaction = self.transaction.number if self.transaction is not None else 0
        payload = Lookup(
            self.handles[0].number, self._lookup_id, self._action, not self._take, transaction
        )
        return frames.encode(self.number, payload)


class EndRequest(Request):
    """END: messages are done with, or go back.

    `locked_in` is the generation of the connection that received them. Another connection has no
    such locks: only an end that was sent before is asked again there, for it may be done.
    """

    bound = True
    holds = True

    def __init__(
        self,
        handle: QueueHandle,
        lookup_ids: list[int],
        locked_in: int,
        *,
        positive: bool = True,
        message_class: int = ACK_RECEIVE,
    ) -> None:
        # What goes back may as well go back with the session.
        super().__init__(frames.ENDED, handle, needs_id=positive)
        self.lookup_ids = lookup_ids
        self.locked_in = locked_in
        self.positive = positive
        self.message_class = message_class
        self.shared = False  # ends of several receives, all or none

    def encode(self) -> bytes:
        """The frame."""
        return frames.encode_end(
            self.number,
            self.handles[0].number,
            self.request_id,
            self.lookup_ids,
            positive=self.positive,
            message_class=self.message_class if self.positive else 0,
        )
