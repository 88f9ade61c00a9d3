"""The requests of client sessions, one function for each kind of frame.

What has to be decoded is decoded first: a payload that is none ends the session. Everything else
happens inside one call on the engine, so that what is refused is counted and answered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from posthouse.engine.manager import QueueManager
from posthouse.engine.sessions.calls import about, count, send_as_transaction, send_to_list
from posthouse.engine.sessions.resumable import ENDED
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import (
    InvalidParameter,
    QueueError,
    RemoteProtocolError,
    StatusNotFound,
    UnsupportedOperation,
)
from posthouse.model.message import ACK_RECEIVE
from posthouse.protocols.engine_calls import Answer
from posthouse.protocols.sessions import transactions as session_transactions
from posthouse.protocols.sessions.answers import decoded, done, structure
from posthouse.protocols.sessions.handles import SessionQueue, bad_packet, first_bad
from posthouse.protocols.sessions.reads import (
    PeekRequest,
    ReceiveRequest,
    SessionLookup,
    SessionRead,
)
from posthouse.protocols.sessions.session import OpenSession
from posthouse.wire.frames import frames, payloads


def on_ping(session: OpenSession, request: int, payload: bytes) -> None:
    """PING: an answer, and nothing else."""
    decoded(payloads.Ping, frames.PING, payload)
    session.write(frames.encode(request, payloads.Done()))


def on_call(session: OpenSession, request: int, payload: bytes) -> None:
    """CALL: the management interface, with the same handlers as over HTTP."""
    asked = decoded(payloads.Call, frames.CALL, payload)
    if session.api is None:
        error = UnsupportedOperation("this session has no management interface")
        session.refuse(request, session.desk.manager.machine.refused(error))
        return
    size = len(payload)
    session.requests += 1
    session.request_bytes += size

    def finish(status: int, body: bytes) -> None:
        session.answered(
            request, lambda n, _: frames.encode(n, payloads.Called(status, body)), size, _EMPTY
        )

    session.api(session.caller, session.role, asked.method, asked.path, asked.body, finish)


# -- queues and cursors


def on_open(session: OpenSession, request: int, payload: bytes) -> None:
    """OPEN: Open Queue ([MS-MQDMPR] 3.1.7.1.5)."""
    asked = decoded(payloads.Open, frames.OPEN, payload)

    def call(manager: QueueManager) -> payloads.Opened:
        session.queues.check_room()
        descriptor = manager.queues.open_queue(
            asked.name, asked.access, session.caller, share=asked.share, association=session
        )
        opened = about(manager, descriptor)
        handle = session.queues.add(SessionQueue(descriptor, opened.destination))
        return payloads.Opened(
            handle,
            opened.destination,
            descriptor.format_name,
            opened.transactional,
            opened.outgoing,
            len(descriptor.nested),
        )

    session.decide(request, call, structure)


def on_close(session: OpenSession, request: int, payload: bytes) -> None:
    """CLOSE: Close Queue (3.1.7.1.6)."""
    asked = decoded(payloads.Close, frames.CLOSE, payload)

    def call(manager: QueueManager) -> None:
        descriptor = session.queues.get(asked.queue).descriptor
        session.cursors.drop_all(set(descriptor.cursors.values()))
        session.queues.drop(asked.queue)
        manager.queues.close_queue(descriptor)

    session.decide(request, call, done)


def on_open_cursor(session: OpenSession, request: int, payload: bytes) -> None:
    """OPEN_CURSOR: Open Cursor (3.1.7.1.1)."""
    asked = decoded(payloads.OpenCursor, frames.OPEN_CURSOR, payload)

    def call(manager: QueueManager) -> payloads.CursorOpened:
        session.cursors.check_room()
        cursor = manager.messages.open_cursor(session.queues.get(asked.queue).descriptor)
        return payloads.CursorOpened(session.cursors.add(cursor))

    session.decide(request, call, structure)


def on_close_cursor(session: OpenSession, request: int, payload: bytes) -> None:
    """CLOSE_CURSOR: Close Cursor (3.1.7.1.2)."""
    asked = decoded(payloads.CloseCursor, frames.CLOSE_CURSOR, payload)

    def call(manager: QueueManager) -> None:
        cursor = session.cursors.get(asked.cursor)
        session.cursors.drop(asked.cursor)
        manager.messages.close_cursor(cursor)

    session.decide(request, call, done)


def on_purge(session: OpenSession, request: int, payload: bytes) -> None:
    """PURGE: Purge Queue (3.1.7.1.7)."""
    asked = decoded(payloads.Purge, frames.PURGE, payload)

    def call(manager: QueueManager) -> payloads.Counted:
        return payloads.Counted(
            manager.queues.purge_queue(session.queues.get(asked.queue).descriptor)
        )

    try:
        queue = session.queues.get(asked.queue).descriptor.target().name
    except QueueError:  # which the call refuses
        session.decide(request, call, structure)
    else:
        session.act(request, "purge_queue", {"queue": queue}, call, structure)


def on_count(session: OpenSession, request: int, payload: bytes) -> None:
    """COUNT: how much a queue holds."""
    asked = decoded(payloads.Count, frames.COUNT, payload)
    session.decide(
        request,
        lambda manager: payloads.Counted(
            *count(manager, session.queues.get(asked.queue).descriptor)
        ),
        structure,
    )


def on_move(session: OpenSession, request: int, payload: bytes) -> None:
    """MOVE: Move Message (3.1.7.1.16)."""
    asked = decoded(payloads.Move, frames.MOVE, payload)
    session.decide(
        request,
        lambda manager: manager.messages.move_message(
            session.queues.get(asked.source).descriptor,
            asked.lookup_id,
            session.queues.get(asked.target).descriptor,
            session.transaction(manager, asked.transaction),
        ),
        done,
    )


# -- messages


def on_send(session: OpenSession, request: int, payload: bytes) -> None:
    """SEND: Enqueue Message To An Open Queue (3.1.7.1.27), all or none, once per request id."""
    handle, transaction, request_id, packets, size = frames.decode_send(payload)
    alone = transaction == payloads.OWN_TRANSACTION

    def send(manager: QueueManager, batch: list[bytes], within: Transaction | None) -> list[int]:
        queue = session.queues.get(handle)
        try:
            if queue.descriptor.nested and alone:
                raise InvalidParameter("a list of queues takes no transaction in one request")
            if queue.descriptor.nested:
                return send_to_list(manager, queue.descriptor, batch, within)
            return manager.messages.send_packets(queue.descriptor, batch, within, queue.check)
        except RemoteProtocolError as error:
            raise bad_packet(error, first_bad(batch)) from None

    def call(manager: QueueManager) -> list[int]:
        if len(packets) > session.limits.batch_max:
            raise InvalidParameter(f"a batch has at most {session.limits.batch_max} messages")
        if alone:
            named = session.named if request_id else None
            act = partial(send, manager, packets)
            return send_as_transaction(manager, named, request_id, len(packets), session, act)
        within = session.own_transaction(manager, transaction) if transaction else None
        if session.named is None or not request_id or within is not None:
            return send(manager, packets, within)
        act_once = partial(send, manager, within=None)
        return manager.sessions.send_once(session.named, request_id, packets, act_once)

    session.decide(request, call, _sent, size)


def on_receive(session: OpenSession, request: int, payload: bytes) -> None:
    """RECEIVE: Dequeue Message (3.1.7.1.10), or its first step (3.1.7.1.11)."""
    _begin(ReceiveRequest(session, request, frames.decode_read(payload)))


def on_peek(session: OpenSession, request: int, payload: bytes) -> None:
    """PEEK: Peek Message and Peek Next Message (3.1.7.1.14-15)."""
    _begin(PeekRequest(session, request, frames.decode_read(payload)))


def _begin(read: SessionRead) -> None:
    if read.request in read.session.waits:
        raise RemoteProtocolError(f"request {read.request} waits already")
    read.begin()


def on_lookup(session: OpenSession, request: int, payload: bytes) -> None:
    """LOOKUP: Read Message By Lookup Identifier (3.1.7.1.13)."""
    asked = decoded(payloads.Lookup, frames.LOOKUP, payload)
    SessionLookup(session, request, asked).begin()


def on_end(session: OpenSession, request: int, payload: bytes) -> None:
    """END: Dequeue Message End (3.1.7.1.12) for many, once for each request id."""
    ending = frames.decode_end(payload)
    lookup_ids = list(ending.lookup_ids)

    def call(manager: QueueManager) -> int:
        def end() -> None:
            received = ending.positive and ending.message_class == ACK_RECEIVE
            manager.messages.dequeue_messages_end(
                session.queues.get(ending.queue).descriptor,
                lookup_ids,
                positive=ending.positive,
                message_class=ending.message_class if ending.positive else ACK_RECEIVE,
                in_transactions=not received,
            )

        sessions, count = manager.sessions, len(lookup_ids)
        if session.named is not None and ending.request_id:
            return sessions.once(session.named, ending.request_id, ENDED, count, end)
        end()
        return count

    session.decide(request, call, _ended, len(payload))


def on_cancel(session: OpenSession, request: int, payload: bytes) -> None:
    """CANCEL: Cancel Waiting Message Read Request (3.1.7.1.17)."""
    asked = decoded(payloads.Cancel, frames.CANCEL, payload)

    def call(manager: QueueManager) -> None:
        waiting = session.waits.get(asked.request)
        if waiting is None:
            raise StatusNotFound(f"request {asked.request} does not wait")
        waiting.cancel(manager)

    session.decide(request, call, done)


_EMPTY = Answer(None, None, ())


def _sent(request: int, answer: Answer) -> bytes:
    assert type(answer.value) is list
    return frames.encode_sent(request, answer.value)


def _ended(request: int, answer: Answer) -> bytes:
    assert type(answer.value) is int
    return frames.encode_ended(request, answer.value)


HANDLERS: dict[int, Callable[[OpenSession, int, bytes], None]] = {
    frames.OPEN: on_open,
    frames.CLOSE: on_close,
    frames.OPEN_CURSOR: on_open_cursor,
    frames.CLOSE_CURSOR: on_close_cursor,
    frames.LOOKUP: on_lookup,
    frames.MOVE: on_move,
    frames.PURGE: on_purge,
    frames.COUNT: on_count,
    frames.CANCEL: on_cancel,
    frames.CALL: on_call,
    frames.PING: on_ping,
    frames.SEND: on_send,
    frames.RECEIVE: on_receive,
    frames.PEEK: on_peek,
    frames.END: on_end,
    **session_transactions.HANDLERS,
}
