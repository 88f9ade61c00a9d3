"""Reads queues of another computer: the client's side of remote read ([MS-MQRR] 3.2).

Nothing is lost: a message leaves its queue by R_EndReceive, which is sent when all of the message
is here. Where the answer to that does not come the message is handed out as `in_doubt`, since it
may come again (decision 42). What may be asked twice is asked again over another connection when
one breaks: opening, peeking, and a receive that was not ended; the rest raises `SessionLost`.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NoReturn

from posthouse.client.errors import ServerUnreachable, SessionEnded, SessionLost
from posthouse.client.message import Message
from posthouse.client.remote.connect import connect, refused
from posthouse.client.remote.login import RemoteLogin, RemotePlace
from posthouse.client.remote.messages import CutMessage, rebuilt
from posthouse.client.remote.state import (
    DOUBTS_MAX,
    GRACE_S,
    INFINITE,
    MOVE_ACCESS,
    RECEIVE_REJECTED,
    VERSION,
    ClientIdentity,
    LockedMessage,
    Outage,
    RemoteOpenQueue,
    StartedCall,
    Want,
    identity_of_a_program,
)
from posthouse.client.rpc_link import CallTimeout, LinkLost, PendingCall, RpcLink
from posthouse.model.errors import (
    BufferOverflow,
    IoTimeout,
    MessageNotFound,
    QueueError,
    RemoteProtocolError,
)
from posthouse.model.names import FormatName
from posthouse.protocols.queue_format import QueueFormat, queue_format_of
from posthouse.protocols.remote_read.stubs import (
    METHODS,
    NO_TRANSACTION,
    Ack,
    CancelReceive,
    CloseCursor,
    CloseQueue,
    CreateCursor,
    EndReceive,
    EnlistRemoteTransaction,
    MoveMessage,
    OpenQueueRequest,
    Opnum,
    PurgeQueue,
    Received,
    SetUserAcknowledgementClass,
    StartReceive,
    StartTransactionalReceive,
)
from posthouse.rpc.ndr import BadStub
from posthouse.rpc.statuses import Fault


class RemoteReader:
    """The reader of one computer's queues; any number of threads may use it.

    `identify` gives the identity of the queue manager that it reads for. It is asked once, when
    the first queue is opened.
    """

    def __init__(
        self,
        place: RemotePlace,
        login: RemoteLogin,
        *,
        timeout_s: float,
        reconnect_s: float,
        identify: Callable[[], ClientIdentity] = identity_of_a_program,
    ) -> None:
        self.place = place
        self.timeout_s = timeout_s
        self.reconnect_s = reconnect_s
        self.in_doubt = 0  # messages handed out whose end is not known (decision 42)
        self._connected = 0  # times
        self._login = login
        self._identify = identify
        self._identity: ClientIdentity | None = None
        self._request_ids = itertools.count(1)
        self._lock = threading.Lock()
        self._link: RpcLink | None = None
        self._doubts: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._queues: dict[tuple[str, int, int], QueueReader] = {}
        self._closed = False

    def queue(self, name: str, format_name: FormatName, access: int, share: int) -> QueueReader:
        """A queue for one kind of access; it is opened when it is first used."""
        key = (name, access, share)
        with self._lock:
            found = self._queues.get(key)
            if found is None:
                found = self._queues[key] = QueueReader(self, name, format_name, access, share)
            return found

    def link(self) -> RpcLink:
        """The connection; a new one where the last one broke."""
        with self._lock:
            if self._closed:
                raise SessionEnded("this reader has been closed")
            link = self._link
            if link is None or link.lost is not None:
                if link is not None:
                    link.close()
                self._link = link = connect(self.place, self._login, self.timeout_s)
                self._connected += 1
            return link

    @property
    def generation(self) -> int:
        """Rises with every connection that is lost, or made after another one."""
        link = self._link
        return self._connected + (link is not None and link.lost is not None)

    def next_request_id(self) -> int:
        """One that no pending call has (3.2.4.3)."""
        return next(self._request_ids) & 0xFFFFFFFF

    def open_request(self, queue_format: QueueFormat, access: int, share: int) -> OpenQueueRequest:
        """The parameters of R_OpenQueue and R_OpenQueueForMove."""
        identity = self._identity
        if identity is None:
            identity = self._identity = self._identify()
        return OpenQueueRequest(
            queue_format,
            access,
            share,
            identity.guid,
            int(not identity.routing_server),
            *VERSION,
            int(identity.workgroup),
        )

    # -- doubts (decision 42)

    def doubt(self, message: Message) -> None:
        """Handed out, and whether it has left its queue is unknown."""
        message.in_doubt = True
        with self._lock:
            self.in_doubt += 1
            self._doubts[message.queue, message.lookup_id] = None
            if len(self._doubts) > DOUBTS_MAX:
                self._doubts.popitem(last=False)

    def recall(self, message: Message, *, taken: bool = True) -> Message:
        """One that was handed out in doubt before is marked when it comes again.

        Once it is taken again, that is over.
        """
        if self._doubts:
            with self._lock:
                key = (message.queue, message.lookup_id)
                if key in self._doubts:
                    message.in_doubt = True
                    if taken:
                        del self._doubts[key]
        return message

    def close(self) -> None:
        """Closes all queues, then the connection."""
        with self._lock:
            queues = list(self._queues.values())
        for queue in queues:
            queue.close()
        with self._lock:
            self._closed = True
            link, self._link = self._link, None
        if link is not None:
            link.close()


class QueueReader:
    """One queue for one kind of access; opened again on another link where one breaks."""

    def __init__(
        self, reader: RemoteReader, name: str, format_name: FormatName, access: int, share: int
    ) -> None:
        self.reader = reader
        self.name = name
        self.queue_format = queue_format_of(format_name)
        self._access = access
        self._share = share
        self._opening = threading.Lock()
        self._opened: RemoteOpenQueue | None = None

    # -- opening and closing

    def opened(self) -> RemoteOpenQueue:
        """3.2.4.1: the queue, open on the present link."""
        with self._opening:
            link = self.reader.link()
            if self._opened is None or self._opened.link is not link:
                self._opened = self._open(link)
            return self._opened

    def _open(self, link: RpcLink) -> RemoteOpenQueue:
        moving = self._access == MOVE_ACCESS
        opnum = Opnum.OPEN_QUEUE_FOR_MOVE if moving else Opnum.OPEN_QUEUE
        request = self.reader.open_request(self.queue_format, self._access, self._share)
        stub = METHODS[opnum].request.encode(request, ndr64=link.connection.ndr64)
        pending = link.submit(opnum, stub)
        answer = self._answered(link, opnum, pending)
        return RemoteOpenQueue(link, answer.handle, answer.move_context if moving else 0)

    def close(self) -> None:
        """3.2.4.13: cancels what waits, closes cursors, then the queue."""
        with self._opening:
            opened, self._opened = self._opened, None
        if opened is None or opened.link.lost is not None:
            return
        try:
            self._cancel(opened, lambda waiting: True)
            for cursor in list(opened.cursors):
                self._finish(opened, Opnum.CLOSE_CURSOR, CloseCursor(opened.handle, cursor))
            self._finish(opened, Opnum.CLOSE_QUEUE, CloseQueue(opened.handle))
        except (LinkLost, ServerUnreachable):
            return  # closed by that

    def _finish(self, opened: RemoteOpenQueue, opnum: Opnum, request: Any) -> None:
        """A farewell: whatever it is answered, the handle is forgotten."""
        try:
            self._answered(opened.link, opnum, opened.submit(opnum, request))
        except QueueError:
            return

    # -- single questions

    def ask(self, opnum: Opnum, request: Callable[[RemoteOpenQueue], Any]) -> Any:
        """Asks once what must not be asked twice."""
        outage = Outage(self.reader.reconnect_s)
        while True:
            try:
                opened = self.opened()
                opened.link.look()  # it may have broken unnoticed
                pending = opened.submit(opnum, request(opened))
            except (LinkLost, ServerUnreachable) as error:
                outage.go_on(error)
                continue
            return self._answered_once(opened, opnum, pending)

    def _answered_once(self, opened: RemoteOpenQueue, opnum: Opnum, pending: PendingCall) -> Any:
        try:
            return self._answered(opened.link, opnum, pending)
        except (LinkLost, ServerUnreachable) as error:
            raise SessionLost(error.cause) from None

    def _answered(self, link: RpcLink, opnum: Opnum, pending: PendingCall) -> Any:
        """The answer of a method, once it is there and a good one."""
        link.flush()
        self.wait(link, pending, time.monotonic() + self.reader.timeout_s)
        answer = self._decoded(link, opnum, pending)
        result = getattr(answer, "result", 0)
        if result:
            raise self.refusal(result, opnum)
        return answer

    def wait(self, link: RpcLink, pending: PendingCall, deadline: float | None) -> None:
        """Until a call has ended; a connection that does not answer is given up."""
        try:
            link.wait(pending, deadline)
        except CallTimeout:
            self._give_up(link)

    def _give_up(self, link: RpcLink) -> NoReturn:
        link.close()  # which gives back what it holds there
        host, port = link.place
        raise ServerUnreachable(
            f"{host}:{port} did not answer in time",
            "Check the queue manager there, then try again. No message was lost.",
        ) from None

    def _decoded(self, link: RpcLink, opnum: int, pending: PendingCall) -> Any:
        try:
            stub = pending.result()
        except Fault as fault:
            raise self.refusal(fault.status, opnum) from None
        try:
            return METHODS[opnum].response.decode(stub, ndr64=link.connection.ndr64)
        except BadStub as error:
            raise RemoteProtocolError(f"{self.reader.place.host} answers {error.cause}") from None

    def refusal(self, status: int, opnum: int) -> QueueError:
        """The error that a result code or a fault's status stands for."""
        return refused(status, self.reader.place.host, METHODS[opnum].name, self.name)

    # -- reading

    def read(self, want: Want, timeout: float | None) -> Message:
        """3.2.4.3, 3.2.4.4, 3.2.4.9, 3.2.4.10: one message, looked at or taken."""
        begun = time.monotonic()
        while True:
            left = None if timeout is None else max(begun + timeout - time.monotonic(), 0.0)
            message, opened, request_id = self.take(want, left)
            if not want.takes:
                return message
            try:
                end = self.end(opened, request_id, Ack.ACK, want.transaction is not None)
            except LinkLost as error:
                if not want.repeatable:
                    raise SessionLost(error.cause) from None
                continue  # it was not ended, so it is back in its queue
            opened.link.flush()
            self.settle(opened, message, end, want)
            return message

    def take(self, want: Want, timeout: float | None) -> LockedMessage:
        """A message that stays locked over there until its end, if it is taken at all."""
        outage, begun = Outage(self.reader.reconnect_s), time.monotonic()
        lost: LinkLost | ServerUnreachable | None = None
        while True:
            left = None if timeout is None else max(begun + timeout - time.monotonic(), 0.0)
            try:
                opened = self._opened_for(want)
                request_id, pending = self.start(opened, want, left)
                received = self._received(opened, request_id, pending, want, left)
                message = self.message_of(opened, request_id, want, received)
            except (LinkLost, ServerUnreachable) as error:
                if not want.repeatable:
                    raise SessionLost(error.cause) from None
                outage.go_on(error)
                lost = error
                continue
            except MessageNotFound:
                if lost is None or not want.takes:
                    raise
                # The queue manager there has not noticed yet, and holds it for the one that broke.
                raise SessionLost(lost.cause) from None
            return LockedMessage(message, opened, request_id)

    def _opened_for(self, want: Want) -> RemoteOpenQueue:
        opened = self.opened()
        if want.on is not None and want.on is not opened:
            raise SessionLost("the connection broke, and the cursor was lost with it")
        return opened

    def start(
        self, opened: RemoteOpenQueue, want: Want, timeout: float | None
    ) -> tuple[int, PendingCall]:
        """Submits a Start method; returns its dwRequestId."""
        action, lookup_id, cursor, body_max, transaction, _ = want
        request_id = self.reader.next_request_id()
        timeout_ms = INFINITE if timeout is None else min(int(timeout * 1000 + 0.5), INFINITE - 1)
        parameters = (
            opened.handle, lookup_id, cursor, action, timeout_ms, request_id, body_max, body_max
        )  # fmt: skip
        if transaction is None:
            pending = opened.submit(Opnum.START_RECEIVE, StartReceive(*parameters))
        else:
            request = StartTransactionalReceive(*parameters, transaction)
            pending = opened.submit(Opnum.START_TRANSACTIONAL_RECEIVE, request)
        opened.waiting[request_id] = StartedCall(pending, cursor)
        return request_id, pending

    def _received(
        self,
        opened: RemoteOpenQueue,
        request_id: int,
        pending: PendingCall,
        want: Want,
        left: float | None,
    ) -> Received:
        """Waits for the message a little longer than the queue manager there does."""
        opened.link.flush()
        deadline = None
        if left is not None:
            deadline = time.monotonic() + left + max(GRACE_S, self.reader.timeout_s)
        try:
            self.wait(opened.link, pending, deadline)
        except (LinkLost, ServerUnreachable):
            raise
        except BaseException:
            self.abandon(opened, request_id, pending, want)
            raise
        finally:
            opened.waiting.pop(request_id, None)
        return self.received(opened, request_id, pending, want)

    def received(
        self, opened: RemoteOpenQueue, request_id: int, pending: PendingCall, want: Want
    ) -> Received:
        """What a Start method that has ended gave; raises its refusal."""
        opnum = _start_opnum(want)
        try:
            received: Received = self._decoded(opened.link, opnum, pending)
        except RemoteProtocolError:
            self._nack(opened, request_id, want)
            raise
        if received.result:
            raise self.refusal(received.result, opnum)
        return received

    def is_timeout(self, opened: RemoteOpenQueue, pending: PendingCall) -> bool:
        """Whether a Start method that has ended found nothing in time."""
        try:
            received: Received = self._decoded(opened.link, Opnum.START_RECEIVE, pending)
        except (QueueError, RemoteProtocolError):
            return False
        return received.result == IoTimeout.code

    def message_of(
        self, opened: RemoteOpenQueue, request_id: int, want: Want, received: Received
    ) -> Message:
        """The message; one that cannot be rebuilt is refused by RR_NACK (3.2.4.4.1)."""
        try:
            message = rebuilt(received, self.name)
        except RemoteProtocolError:
            self._nack(opened, request_id, want)
            raise
        if want.takes and isinstance(message, CutMessage):
            self._nack(opened, request_id, want)
            raise BufferOverflow(
                f"the body has {message.body_size} bytes, and {want.body_max} were allowed",
                "It is still in the queue: receive it with a larger body_max, or without.",
            )
        return self.reader.recall(message, taken=want.takes)

    def _nack(self, opened: RemoteOpenQueue, request_id: int, want: Want) -> None:
        if want.takes:
            end = self.end(opened, request_id, Ack.NACK, want.transaction is not None)
            opened.link.flush()
            self.wait(opened.link, end, time.monotonic() + self.reader.timeout_s)

    def end(
        self, opened: RemoteOpenQueue, request_id: int, ack: Ack, transactional: bool
    ) -> PendingCall:
        """Submits the End method that belongs to a Start method."""
        opnum = Opnum.END_TRANSACTIONAL_RECEIVE if transactional else Opnum.END_RECEIVE
        return opened.submit(opnum, EndReceive(opened.handle, ack, request_id))

    def settle(
        self, opened: RemoteOpenQueue, message: Message, end: PendingCall, want: Want
    ) -> None:
        """Waits for the end of a message; in doubt where it cannot be told (decision 42).

        In a transaction the failure is the caller's (3.2.4.4.2).
        """
        if want.transaction is not None:
            self._answered_once(opened, Opnum.END_TRANSACTIONAL_RECEIVE, end)
        elif not self.has_ended(opened, end):
            self.reader.doubt(message)

    def has_ended(self, opened: RemoteOpenQueue, end: PendingCall) -> bool:
        """Waits for the answer to R_EndReceive; False: a message may be in its queue still."""
        try:
            self._answered(opened.link, Opnum.END_RECEIVE, end)
        except (QueueError, RemoteProtocolError, LinkLost, ServerUnreachable):
            return False
        return True

    # -- cancelling

    def cancel(self, cursor: int = 0) -> int:
        """3.2.4.11: ends what waits, of one cursor or all; returns how much that was."""
        with self._opening:
            opened = self._opened
        if opened is None or opened.link.lost is not None:
            return 0
        try:
            return self._cancel(opened, lambda one: not cursor or one.cursor == cursor)
        except (LinkLost, ServerUnreachable):
            return 0

    def _cancel(self, opened: RemoteOpenQueue, which: Callable[[StartedCall], bool]) -> int:
        asked = [
            opened.submit(Opnum.CANCEL_RECEIVE, CancelReceive(opened.handle, request_id))
            for request_id, waiting in list(opened.waiting.items())
            if which(waiting)
        ]
        opened.link.flush()
        deadline = time.monotonic() + self.reader.timeout_s
        for pending in asked:
            self.wait(opened.link, pending, deadline)
        return len(asked)

    def abandon(
        self, opened: RemoteOpenQueue, request_id: int, pending: PendingCall, want: Want
    ) -> None:
        """The caller of this read no longer waits: what it still brings goes back."""

        def return_late(ended: PendingCall) -> None:
            if want.takes and ended.error is None and not ended.status:
                self.give_back(opened, request_id, want)

        try:
            opened.submit(Opnum.CANCEL_RECEIVE, CancelReceive(opened.handle, request_id))
            opened.link.flush()
            opened.link.abandon(pending, return_late)
        except (LinkLost, SessionEnded):
            return

    def give_back(self, opened: RemoteOpenQueue, request_id: int, want: Want) -> None:
        """Without waiting; an end of what is not there is refused, and that is all."""
        try:
            self.end(opened, request_id, Ack.NACK, want.transaction is not None)
            opened.link.flush()
        except (LinkLost, SessionEnded):
            return

    # -- cursors

    def create_cursor(self) -> tuple[RemoteOpenQueue, int]:
        """3.2.4.8: a cursor, and where it is."""
        outage = Outage(self.reader.reconnect_s)
        while True:
            try:
                opened = self.opened()
                request = CreateCursor(opened.handle)
                pending = opened.submit(Opnum.CREATE_CURSOR, request)
                cursor: int = self._answered(opened.link, Opnum.CREATE_CURSOR, pending).cursor
            except (LinkLost, ServerUnreachable) as error:
                outage.go_on(error)
                continue
            opened.cursors.add(cursor)
            return opened, cursor

    def close_cursor(self, opened: RemoteOpenQueue, cursor: int) -> None:
        """3.2.4.12: cancels what waits on it, closes and forgets it."""
        if cursor not in opened.cursors:
            return
        opened.cursors.discard(cursor)
        if opened.link.lost is not None:
            return
        try:
            self._cancel(opened, lambda waiting: waiting.cursor == cursor)
            self._finish(opened, Opnum.CLOSE_CURSOR, CloseCursor(opened.handle, cursor))
        except (LinkLost, ServerUnreachable):
            return  # closed by that

    # -- the rest

    def enlist(self, transaction: bytes, token: bytes) -> None:
        """3.2.4.2: makes the queue manager there take part in a transaction."""
        request = EnlistRemoteTransaction(transaction, token, self.queue_format)
        self.ask(Opnum.ENLIST_REMOTE_TRANSACTION, lambda opened: request)

    def purge(self) -> None:
        """3.2.4.7."""
        self.ask(Opnum.PURGE_QUEUE, lambda opened: PurgeQueue(opened.handle))

    def reject(self, lookup_id: int) -> None:
        """3.2.4.5: one that was received in a transaction which has not ended."""

        def request(opened: RemoteOpenQueue) -> SetUserAcknowledgementClass:
            return SetUserAcknowledgementClass(opened.handle, lookup_id, RECEIVE_REJECTED)

        self.ask(Opnum.SET_USER_ACKNOWLEDGEMENT_CLASS, request)

    def move(self, lookup_id: int, to: QueueReader, transaction: bytes | None) -> None:
        """3.2.4.6: to another queue of the family, which is open for moving."""

        def request(opened: RemoteOpenQueue) -> MoveMessage:
            target = to.opened()
            if target.link is not opened.link:
                raise LinkLost("the connection was made again while the target was opened")
            uow = NO_TRANSACTION if transaction is None else transaction
            return MoveMessage(opened.handle, target.move_context, lookup_id, uow)

        self.ask(Opnum.MOVE_MESSAGE, request)


def _start_opnum(want: Want) -> Opnum:
    if want.transaction is None:
        return Opnum.START_RECEIVE
    return Opnum.START_TRANSACTIONAL_RECEIVE
