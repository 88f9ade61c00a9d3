"""The operations of a client, written once for the blocking and the asyncio session.

An operation is a generator: it hands requests to the core and yields the one it waits for, or None
where it wants what was handed over to be on its way. It goes on when that request is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, Final, TypeVar, overload

from posthouse.client.bodies import Body
from posthouse.client.core import SessionCore
from posthouse.client.errors import (
    ClientConnectionError,
    MessageReturned,
    SessionLost,
    TransactionAborted,
    TransactionInDoubt,
)
from posthouse.client.message import Message
from posthouse.client.packets import Draft, Options, PacketMaker
from posthouse.client.requests import (
    Ask,
    CommitRequest,
    CursorHandle,
    EndRequest,
    LookupRequest,
    OpenWait,
    QueueHandle,
    ReadRequest,
    Request,
    SendRequest,
    TransactionHandle,
)
from posthouse.model.durations import PLAIN_SECONDS, Seconds, seconds
from posthouse.model.enumerations import MessageSeekAction
from posthouse.model.errors import QueueError, TransactionSequence
from posthouse.model.guids import format_guid
from posthouse.wire.frames import frames
from posthouse.wire.frames.payloads import (
    REVISION,
    Abort,
    Begin,
    Begun,
    Call,
    Called,
    CloseCursor,
    Count,
    Counted,
    CursorOpened,
    Move,
    OpenCursor,
    Purge,
)
from posthouse.wire.frames.send_frames import Packets, size_of

T = TypeVar("T")
Operation = Generator[Request | None, None, T]

BATCH_MESSAGES: Final = 256  # of one SEND frame
FLIGHT_FRAMES: Final = 16  # SEND frames of one call that are not answered
FLIGHT_BYTES: Final = 8 << 20


def ask(core: SessionCore, request: Request) -> Operation[Any]:
    """One request and its answer."""
    core.submit(request)
    yield request
    return request.result()


# -- sending


class MessageIds(Sequence[str]):
    """The identifiers of messages that were sent, written out when they are looked at."""

    __slots__ = ("_guid", "_ordinals")

    def __init__(self, guid: bytes) -> None:
        self._guid = format_guid(guid)
        self._ordinals: list[int] = []

    def add(self, ordinals: Iterable[int]) -> None:
        """More of them."""
        self._ordinals.extend(ordinals)

    def __len__(self) -> int:
        return len(self._ordinals)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [f"{self._guid}\\{ordinal}" for ordinal in self._ordinals[index]]
        return f"{self._guid}\\{self._ordinals[index]}"

    def __repr__(self) -> str:
        return f"<{len(self)} message ids>"


def _maker(core: SessionCore, handle: QueueHandle) -> Operation[PacketMaker]:
    """What makes packets for a queue; the queue is opened for that."""
    if handle.maker is None:
        wait = OpenWait(handle)
        core.submit(wait)
        yield wait
        wait.result()
        handle.maker = PacketMaker(handle.destination, core.computer, protection=True)
    maker: PacketMaker = handle.maker
    return maker


def send(
    core: SessionCore,
    handle: QueueHandle,
    body: Body,
    how: Options,
    transaction: TransactionHandle | None,
) -> Operation[str]:
    """One message. Returns its identifier."""
    maker = handle.maker or (yield from _maker(core, handle))
    packets = maker.alone(body, how, transaction is not None)
    request = SendRequest(handle, packets, size_of(packets), transaction)
    ordinals = yield from ask(core, request)
    return core.message_id(ordinals[0])


def send_many(
    core: SessionCore,
    handle: QueueHandle,
    bodies: Iterable[Body | Draft | Message],
    how: Options,
    transaction: TransactionHandle | None,
) -> Operation[MessageIds]:
    """Many messages in frames of many, several frames under way at a time."""
    maker = handle.maker or (yield from _maker(core, handle))
    batches = maker.batches(bodies, how, transaction is not None, _count_max(handle))
    return (yield from _send_batches(core, handle, batches, transaction))


def send_as_transaction(
    core: SessionCore, handle: QueueHandle, bodies: Iterable[Body | Draft | Message], how: Options
) -> Operation[MessageIds]:
    """Messages that are a transaction of their own: in one request where one frame holds them."""
    maker = handle.maker or (yield from _maker(core, handle))
    batches = maker.batches(bodies, how, True, _count_max(handle))
    first = list(islice(batches, 2))
    if len(first) != 1 or handle.is_list or core.revision < REVISION:
        every = chain(first, batches)
        work = partial(_send_batches, core, handle, every)
        return (yield from in_transaction(core, work))
    ids = MessageIds(core.guid)
    request = SendRequest(handle, first[0], size_of(first[0]), None, alone=True)
    ids.add((yield from ask(core, request)))
    return ids


def _send_batches(
    core: SessionCore,
    handle: QueueHandle,
    batches: Iterable[Packets],
    transaction: TransactionHandle | None,
) -> Operation[MessageIds]:
    ids, flight, size = MessageIds(core.guid), deque[SendRequest](), 0
    for batch in batches:
        request = SendRequest(handle, batch, size_of(batch), transaction)
        core.submit(request)
        flight.append(request)
        size += request.size
        yield None
        while len(flight) >= FLIGHT_FRAMES or size > FLIGHT_BYTES:
            size -= flight[0].size
            yield from _landed(flight, ids)
    while flight:
        yield from _landed(flight, ids)
    return ids


def _landed(flight: deque[SendRequest], ids: MessageIds) -> Operation[None]:
    """The oldest frame is answered. A refusal is raised when nothing is under way."""
    first = flight.popleft()
    yield first
    try:
        ids.add(first.result())
    except QueueError as error:
        while flight:
            yield flight.popleft()
        error.add_note(f"{len(ids)} messages in front of the refused ones were sent")
        raise


def _count_max(handle: QueueHandle) -> int:
    """Messages of one frame; a list of queues takes one at a time."""
    return 1 if handle.is_list else BATCH_MESSAGES


# -- reading


def _messages(request: Request, handle: QueueHandle) -> list[Message]:
    name = handle.name
    return [Message(delivered, name) for delivered in request.result()]


def receive(
    core: SessionCore,
    handle: QueueHandle,
    count: int,
    timeout: Seconds | None,
    transaction: TransactionHandle | None,
    cursor: CursorHandle | None = None,
) -> Operation[list[Message]]:
    """Messages that are the caller's: ended durably, or part of their transaction."""
    wait_s: Any = timeout if timeout.__class__ in PLAIN_SECONDS else seconds(timeout)
    deadline = None if wait_s is None else core.clock() + wait_s
    while True:
        left = None if deadline is None else max(0.0, deadline - core.clock())
        request = ReadRequest(
            frames.RECEIVE,
            handle,
            left,
            count,
            core.clock,
            transaction=transaction,
            cursor=cursor,
        )
        core.submit(request)
        yield request
        found = _messages(request, handle)
        if transaction is not None or (yield from _ended(core, handle, found, request.generation)):
            return found


def _ended(
    core: SessionCore, handle: QueueHandle, messages: list[Message], locked_in: int
) -> Operation[bool]:
    """Ends received messages. False: they went back instead, unseen."""
    lookup_ids = [message.lookup_id for message in messages]
    request = core.end(handle, lookup_ids, locked_in)
    yield request
    if request.shared and isinstance(request.error, QueueError) and not request.repeated:
        request = EndRequest(handle, lookup_ids, locked_in)  # one of the others was refused
        core.submit(request)
        yield request
    try:
        request.result()
    except MessageReturned:
        return False
    except QueueError:
        if request.repeated:
            return False
        raise
    except ClientConnectionError:
        if not request.number:
            raise
        for message in messages:
            message.in_doubt = True  # decision 42: ended or not, which is not known
    return True


def peek(
    core: SessionCore,
    handle: QueueHandle,
    timeout: Seconds | None,
    *,
    cursor: CursorHandle | None = None,
    following: bool = False,
    count: int = 1,
) -> Operation[list[Message]]:
    """Messages that stay where they are; several only through a cursor."""
    flags = frames.READ_NEXT if following else 0
    request = ReadRequest(
        frames.PEEK, handle, seconds(timeout), count, core.clock, flags=flags, cursor=cursor
    )
    core.submit(request)
    yield request
    return _messages(request, handle)


def lookup(
    core: SessionCore,
    handle: QueueHandle,
    lookup_id: int,
    action: MessageSeekAction,
    *,
    take: bool,
    transaction: TransactionHandle | None,
) -> Operation[Message]:
    """A message by its lookup id, left there or taken."""
    while True:
        request = LookupRequest(handle, lookup_id, action, take=take, transaction=transaction)
        core.submit(request)
        yield request
        found = _messages(request, handle)
        if not take or transaction is not None:
            return found[0]
        if (yield from _ended(core, handle, found, request.generation)):
            return found[0]


def move(
    core: SessionCore,
    source: QueueHandle,
    lookup_id: int,
    target: QueueHandle,
    transaction: TransactionHandle | None,
) -> Operation[None]:
    """Moves a message within its queue's family."""
    yield from ask(
        core,
        Ask(
            lambda: Move(
                source.number, lookup_id, target.number, transaction.number if transaction else 0
            ),
            frames.DONE,
            source,
            target,
            transaction=transaction,
            repeatable=False,
        ),
    )


def count(core: SessionCore, handle: QueueHandle) -> Operation[Counted]:
    """How much is in a queue."""
    counted = yield from ask(core, Ask(lambda: Count(handle.number), frames.COUNTED, handle))
    assert isinstance(counted, Counted)
    return counted


def purge(core: SessionCore, handle: QueueHandle) -> Operation[int]:
    """Empties a queue."""
    request = Ask(lambda: Purge(handle.number), frames.COUNTED, handle, repeatable=False)
    counted = yield from ask(core, request)
    assert isinstance(counted, Counted)
    return counted.messages


def close_handles(core: SessionCore, handles: Iterable[QueueHandle]) -> Operation[None]:
    """Closes queues."""
    for request in [core.close_handle(handle) for handle in handles]:
        if request is not None:
            yield request


# -- cursors


def open_cursor(core: SessionCore, handle: QueueHandle) -> Operation[CursorHandle]:
    """A new cursor in front of the first message."""
    request = Ask(lambda: OpenCursor(handle.number), frames.CURSOR, handle)
    opened = yield from ask(core, request)
    assert isinstance(opened, CursorOpened)
    return CursorHandle(opened.cursor, request.generation)


def close_cursor(core: SessionCore, cursor: CursorHandle) -> Operation[None]:
    """A cursor that is gone with its connection is closed already."""
    request = Ask(lambda: CloseCursor(cursor.number), frames.DONE, cursor=cursor, repeatable=False)
    core.submit(request)
    yield request


# -- transactions


def begin(core: SessionCore) -> Operation[TransactionHandle]:
    """A new transaction."""
    request = Ask(Begin, frames.BEGUN)
    begun = yield from ask(core, request)
    assert isinstance(begun, Begun)
    return TransactionHandle(begun.transaction, begun.identifier, request.generation)


def begun(transaction: TransactionHandle) -> Operation[None]:
    """Waits until it has begun, or raises why it has not."""
    if transaction.beginning is not None:
        yield transaction.beginning
    if transaction.failure is not None:
        raise transaction.failure


def commit(
    core: SessionCore, transaction: TransactionHandle, branches: Sequence[tuple[str, str]] = ()
) -> Operation[None]:
    """All of it is done and durable, or the error states that nothing is, or that it is in doubt.

    The decision is kept until the branches, prepared databases, are confirmed.
    """
    yield from transaction.abandoned
    if transaction.spoiled:
        yield from abort(core, transaction)
        raise TransactionAborted(
            "a receive was cancelled while its message was on its way, so it was aborted"
        )
    request = CommitRequest(transaction, branches)
    core.submit(request)
    yield request
    try:
        request.result()
    except TransactionSequence:
        if not request.repeated:
            raise
        raise TransactionAborted("the connection broke before the commit was decided") from None
    except QueueError as error:
        if not request.repeated:
            raise
        raise TransactionInDoubt(
            f"the connection broke during the commit, and its outcome is not known: {error.cause}",
            "Check whether its messages are there before you repeat its work.",
        ) from None


def abort(core: SessionCore, transaction: TransactionHandle) -> Operation[None]:
    """Nothing of it is done. One whose connection broke is aborted already."""
    request = Ask(
        lambda: Abort(transaction.number), frames.DONE, transaction=transaction, repeatable=False
    )
    core.submit(request)
    yield request
    if not isinstance(request.error, SessionLost):
        request.result()


def in_transaction(
    core: SessionCore, work: Callable[[TransactionHandle], Operation[T]]
) -> Operation[T]:
    """Work that is a transaction of its own."""
    transaction = core.begin_transaction()
    try:
        result = yield from work(transaction)
    except Exception:
        if transaction.failure is None:
            yield from abort(core, transaction)
        raise
    yield from commit(core, transaction)
    return result


# -- management


def call(
    core: SessionCore, method: str, path: str, body: bytes, *, repeatable: bool = False
) -> Operation[Called]:
    """A call of the management interface. One that changes something is asked only once.

    `repeatable` is for one that the queue manager does once however often it is asked.
    """
    again = repeatable or method == "GET"
    called = yield from ask(
        core, Ask(lambda: Call(method, path, body), frames.CALLED, repeatable=again)
    )
    assert isinstance(called, Called)
    return called
