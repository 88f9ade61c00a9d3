"""The core of a client session, without I/O: requests in, frames out and back.

The owner of the connection calls `begin` when it stands, hands in what comes by `receive`, writes
what `take_outgoing` gives, and states when it is `lost`. Requests outlive connections: what can be
asked again is asked again in the next one, first of all what has a request id, in the order of
these (docs/ways.md). What cannot ends with an error that names it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from posthouse.client.errors import (
    MessageReturned,
    SessionEnded,
    SessionLost,
    cursor_lost,
    rebuilt,
    request_too_large,
    transaction_lost,
)
from posthouse.client.process_ownership import of_the_parent
from posthouse.client.requests import (
    Ask,
    BeginRequest,
    CommitRequest,
    EndRequest,
    QueueHandle,
    ReadRequest,
    Request,
    TransactionHandle,
)
from posthouse.model.errors import (
    MalformedPacket,
    OperationCancelled,
    QueueError,
    QueueNotAvailable,
)
from posthouse.model.guids import format_guid
from posthouse.wire.frames import frames
from posthouse.wire.frames.frames import Frame, Splitter
from posthouse.wire.frames.payloads import (
    REVISION,
    Begun,
    Cancel,
    Close,
    Hello,
    Open,
    Opened,
    Ping,
    Refusal,
    Welcome,
    early_handle,
)

UNANSWERED_MAX: Final = 64  # requests with an id; the queue manager may allow fewer
_HELLO_NUMBER: Final = 1
_NUMBER_MAX: Final = 0xFFFFFFFF


class SessionCore:
    """One session over any number of connections, one at a time."""

    def __init__(self, session: bytes, client: str, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.generation = 0  # counts connections
        self.inherited = -1  # generations up to this one are those of a parent process
        self.answers = 0  # of this connection, but for queues that each connection opens again
        self.welcome: Welcome | None = None  # of this connection
        self.revision = 0  # of the protocol, of the last connection
        self.begins = False  # a transaction begins with what leaves next
        self.computer = ""  # whom the session is with, known from the first welcome on
        self.guid = b""
        self._id_front = ""  # of identifiers of messages
        self._hello = Hello(session=session, client=client)
        self._splitter = Splitter()
        self.outgoing: list[bytes] = []  # for `take_outgoing`
        self._sent: dict[int, Request] = {}  # by number, in this connection
        self._at_hand: list[Request] = []  # of these, those whose frames are not taken yet
        self._unsent: deque[Request] = deque()  # there is no connection yet
        self._without_id: deque[Request] = deque()  # too many are unanswered
        self.ends: dict[QueueHandle, EndRequest] = {}  # still open to more messages
        self._last_number = _HELLO_NUMBER
        self._last_id = 0
        self._unanswered: dict[int, Request] = {}  # by request id, oldest first

    def inherit(self, session: bytes) -> None:
        """Begin another session in a forked child; what the parent asked for is the parent's."""
        waiting = [*self._unsent, *self._without_id, *self.ends.values()]
        for request in [*self._sent.values(), *waiting]:
            if request.opening is not None:
                request.opening.waiting = []
            request.done, request.error = True, of_the_parent()  # no callbacks: nothing goes on
        self.inherited = self.generation
        self.generation += 1
        self._hello = Hello(session=session, client=self._hello.client)
        self.welcome, self.outgoing, self.begins = None, [], False
        self._sent, self._at_hand, self.ends, self._unanswered = {}, [], {}, {}
        self._unsent, self._without_id = deque(), deque()
        self._last_id = 0

    # -- the connection

    def begin(self) -> None:
        """There is a new connection; the first frame of it is on its way."""
        self.generation += 1
        self.answers = 0
        self.welcome = None
        self._splitter = Splitter()
        self.outgoing = [frames.encode(_HELLO_NUMBER, self._hello)]
        self._last_number = _HELLO_NUMBER

    @property
    def open(self) -> bool:
        """Whether requests can be sent now."""
        return self.welcome is not None

    @property
    def busy(self) -> bool:
        """Whether anybody waits for an answer."""
        return bool(self._sent or self._unsent or self.ends)

    def take_outgoing(self) -> list[bytes]:
        """What is to be written now."""
        if self.ends and self.welcome is not None:
            self._unsent += self.ends.values()
            self.ends = {}  # no call in between, after which Ctrl-C could come
            self._send_unsent()
        outgoing, self.outgoing = self.outgoing, []
        self._at_hand.clear()
        self.begins = False
        return outgoing

    def room(self) -> memoryview | None:
        """Where to read the rest of a large answer; None: bytes come as they are."""
        splitter = self._splitter
        return splitter.room() if splitter.pending else None

    def message_id(self, ordinal: int) -> str:
        """The identifier of a message that was sent."""
        if not self._id_front:
            self._id_front = f"{format_guid(self.guid)}\\"
        return f"{self._id_front}{ordinal}"

    def receive(self, data: bytes | memoryview) -> None:
        """Bytes of the queue manager, cut anywhere.

        Raises what ends the connection: `RemoteProtocolError` for bytes that are not answers, the
        queue manager's reason when it ends the session itself.
        """
        for frame in self._splitter.feed(data):
            self._take(frame)
        if self._splitter.broken is not None:
            raise self._splitter.broken

    def lost(self) -> None:
        """The connection is gone: what can be asked again waits for the next one."""
        self.welcome = None
        self.outgoing, self.begins = [], False
        for request in self._at_hand:
            if not isinstance(request, _OpenRequest) and not request.here_only:
                del self._sent[request.number]
                request.number = 0
                self._unsent.append(request)
                if isinstance(request, BeginRequest):
                    request.begins.number, request.begins.used = 0, False
        self._at_hand.clear()
        sent, self._sent = list(self._sent.values()), {}
        again = [request for request in sent if self._survives(request)]
        again += [*self._unsent, *self._without_id]
        self._without_id.clear()
        self._unsent = deque(sorted(dict.fromkeys(again), key=_order))  # twice: after Ctrl-C
        # One that an interrupt has lost would hold up all ids after its own.
        known = {request.request_id for request in self._unsent}
        self._unanswered = {id: one for id, one in self._unanswered.items() if id in known}

    def fail(self, error: Exception) -> None:
        """There will be no other connection: whatever is asked ends with this error."""
        self.lost()
        waiting = [*self._unsent, *self.ends.values()]
        self._unsent.clear()
        self.ends.clear()
        self._unanswered.clear()
        for request in waiting:
            if not request.done:
                request.finish(None, error)

    def give_up(self, now: float, error: Exception) -> float | None:
        """There is no connection: what has waited long enough by now ends with this error.

        Returns when the next request will have.
        """
        for request in self._unsent:
            if not request.done and request.deadline is not None and request.deadline <= now:
                request.finish(None, error)
        self._unsent = deque(request for request in self._unsent if not request.done)
        deadlines = [request.deadline for request in self._unsent]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _survives(self, request: Request) -> bool:
        """Whether a request that was sent can be asked again; if not, it ends here."""
        for handle in request.handles:
            handle.opening = False
        if request.done:
            if (begins := request.begins) is not None:  # Ctrl-C: what waited for it has not left
                begins.beginning = None
                self._unsent.extend(begins.waiting)
                begins.waiting = []
            return False
        if isinstance(request, _OpenRequest):
            self._unsent.extend(request.opening.waiting)
            request.opening.waiting = []
            return False
        error: Exception | None = None
        if request.abandoned:
            error = SessionLost("its caller no longer waits")
        elif (request.transaction is not None and not isinstance(request, CommitRequest)) or (
            isinstance(request, BeginRequest) and request.begins.used
        ):
            error = transaction_lost()
        elif isinstance(request, BeginRequest):
            request.begins.number = 0
        elif request.cursor is not None:
            error = cursor_lost()
        elif not request.repeatable:
            error = SessionLost("the connection broke before the answer came")
        elif isinstance(request, EndRequest) and not request.positive:
            request.finish(len(request.lookup_ids), None)  # the session's end has done it
            return False
        if error is None:
            request.repeated = True
            return True
        self._finish(request, None, error)
        return False

    # -- requests

    def submit(self, request: Request) -> None:
        """Asks something; its frame leaves with the next `take_outgoing`, or when it can."""
        self.take_in(request)

    def take_in(self, request: Request) -> None:
        """What `submit` does, for one who has the lock of a core with several threads."""
        if self.welcome is None:
            self._unsent.append(request)
        else:
            self._send(request)

    def begin_transaction(self) -> TransactionHandle:
        """Asks for a transaction; what is asked for in it leaves together with that, or waits."""
        handle = TransactionHandle()
        handle.made_in = self.generation
        handle.beginning = request = BeginRequest(handle)
        request.on_done = (lambda: self._begun(handle, request),)
        self.submit(request)
        return handle

    def _begun(self, handle: TransactionHandle, request: Request) -> None:
        handle.beginning = None
        handle.failure, answer = request.error, request.answer
        if isinstance(answer, Begun):
            handle.number, handle.identifier = answer.transaction, answer.identifier
            handle.generation = request.generation
        self._send_waiting(handle)

    def _begin_early(self, request: Request, handle: TransactionHandle) -> None:
        """The queue manager finds the transaction by the number of its BEGIN too."""
        if self.revision >= REVISION:
            self.begins = True
            handle.number, handle.generation = early_handle(request.number), self.generation
            self._send_waiting(handle)

    def _send_waiting(self, handle: TransactionHandle) -> None:
        """What a transaction was asked for before it had a number; its commit is the last."""
        waiting = list(handle.waiting)
        for one in sorted(dict.fromkeys(waiting), key=lambda one: isinstance(one, CommitRequest)):
            self._send(one)
        del handle.waiting[: len(waiting)]  # last: Ctrl-C may come before

    def end(self, handle: QueueHandle, lookup_ids: list[int], locked_in: int) -> EndRequest:
        """Ends received messages, together with others of the same moment."""
        request = self.ends.get(handle)
        if request is None or request.locked_in != locked_in:
            request = EndRequest(handle, [*lookup_ids], locked_in)
            if handle in self.ends:  # of another connection
                self.submit(self.ends.pop(handle))
            self.ends[handle] = request
        else:
            request.lookup_ids += lookup_ids
            request.shared = True
        return request

    def give_back(self, handle: QueueHandle, lookup_ids: list[int], locked_in: int) -> EndRequest:
        """Received messages go back to their queue, as if they had not been received."""
        request = EndRequest(handle, lookup_ids, locked_in, positive=False)
        self.submit(request)
        return request

    def abandon(self, request: Request) -> None:
        """The caller no longer waits: a waiting read is called off, what it brings goes back."""
        if request.abandoned:
            return
        request.abandoned = True
        if request.done:
            self._return_unseen(request)
            return
        if request.takes and request.transaction is not None:
            request.transaction.abandoned.append(request)
        if not isinstance(request, ReadRequest):
            return
        if request.number and request.generation == self.generation and self.open:
            number = request.number
            self.submit(Ask(lambda: Cancel(number), frames.DONE, here_only=True))
        else:
            request.finish(None, SessionLost("it was called off"))  # and is passed over later

    def close_handle(self, handle: QueueHandle) -> Request | None:
        """Closes a queue, if it is open."""
        if handle.generation != self.generation or not handle.number or not self.open:
            return None
        number, handle.number = handle.number, 0
        request = Ask(lambda: Close(number), frames.DONE, here_only=True)
        self.submit(request)
        return request

    def _send(self, request: Request) -> None:
        if request.done:
            return  # called off before it was sent
        if request.abandoned:
            self._finish(request, None, SessionLost("it was called off"))
            return
        transaction = request.transaction
        if transaction is not None and transaction.beginning is not None:
            if not transaction.number:
                transaction.waiting.append(request)
                return
            transaction.used = True
        if request.bound or transaction is not None or request.cursor is not None:
            refusal = self._refusal(request)
            if refusal is not None:
                self._finish(request, None, refusal)
                return
        for handle in request.handles:
            if handle.generation != self.generation:
                if handle.generation <= self.inherited:
                    handle.waiting = []
                handle.generation, handle.number, handle.opening = self.generation, 0, False
            if not handle.number and not _tells_itself(request):
                self._open_first(handle, request)
                return
        if request.waits_only:
            request.finish(None, None)
        elif not request.needs_id or request.request_id or self._take_id(request):
            self._put(request)
            if request.begins is not None:
                self._begin_early(request, request.begins)

    def _send_unsent(self) -> None:
        for request in list(self._unsent):
            self._send(request)
        self._unsent.clear()  # last: Ctrl-C may come before, and others wait for them

    def _put(self, request: Request) -> None:
        number = self._last_number % _NUMBER_MAX + 1
        while number in self._sent or number <= _HELLO_NUMBER:
            number += 1
        self._last_number = request.number = number
        try:
            parts = request.parts()
        except Exception as error:  # a number out of range: an error of its caller alone
            request.number = 0
            self._finish(request, None, error)
            return
        size = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        assert self.welcome is not None
        if size > self.welcome.frame_size_max:  # it would end the session, again and again
            request.number = 0
            self._finish(request, None, request_too_large(size, self.welcome.frame_size_max))
            return
        request.generation = self.generation
        self._sent[number] = request
        self._at_hand.append(request)
        self.outgoing += parts

    def _refusal(self, request: Request) -> Exception | None:
        """Why a request makes no sense in this connection."""
        transaction, cursor = request.transaction, request.cursor
        if isinstance(request, CommitRequest) and request.repeated:
            return None  # it may be committed already: ask the queue manager
        if transaction is not None and transaction.failure is not None:
            return transaction.failure
        if transaction is not None and transaction.generation != self.generation:
            return transaction_lost()
        if cursor is not None and cursor.generation <= self.inherited:
            return of_the_parent("cursor")
        if cursor is not None and cursor.generation != self.generation:
            return cursor_lost()
        if isinstance(request, EndRequest) and request.locked_in != self.generation:
            lost = MessageReturned("the connection broke while the message was read")
            return None if request.repeated else lost
        return None

    def _open_first(self, handle: QueueHandle, waiting: Request) -> None:
        handle.waiting.append(waiting)
        if not handle.opening:
            handle.opening = True
            request = _OpenRequest(handle)
            self._put(request)
            handle.opened_by = request.number

    # -- request ids

    def _take_id(self, request: Request) -> bool:
        """Gives the next id, unless there is none."""
        if self._unanswered and not self._has_id():
            self._without_id.append(request)
            return False
        self._last_id += 1
        request.request_id = self._last_id
        self._unanswered[self._last_id] = request
        return True

    def _has_id(self) -> bool:
        """Whether the answer that the next id would push out has come."""
        assert self.welcome is not None
        limit = min(UNANSWERED_MAX, self.welcome.unanswered_max)
        oldest = next(iter(self._unanswered), self._last_id + 1)
        return self._last_id + 1 - oldest < limit

    def _send_without_id(self) -> None:
        while self._without_id and self.welcome is not None and self._has_id():
            request = self._without_id[0]  # it stays there until it is sent: Ctrl-C may come before
            self._send(request)
            if self._without_id and self._without_id[0] is request:  # it may have failed at once
                self._without_id.popleft()

    # -- answers

    def _take(self, frame: Frame) -> None:
        kind, number, payload = frame
        if not number:
            raise self._ending(kind, payload)
        if number == _HELLO_NUMBER:
            self._welcomed(kind, payload)
            return
        request = self._sent.get(number)
        if request is None:
            raise MalformedPacket(f"an answer to request {number}, which was not asked")
        self.answers += request.opening is None
        if kind == frames.ERROR:
            refusal = frames.decode_payload(kind, payload)
            assert isinstance(refusal, Refusal)
            self._refused(request, rebuilt(refusal))
        elif kind == request.expects:
            unpack = frames.UNPACKED.get(kind)
            answer = frames.decode(kind, payload) if unpack is None else unpack(payload)
            self._finish(request, answer, None)
        else:
            raise MalformedPacket(f"request {number} was answered by kind 0x{kind:02X}")
        del self._sent[number]  # last: one that Ctrl-C cut off before it was done is asked again

    def _refused(self, request: Request, error: QueueError) -> None:
        """A read that a stopping queue manager called off goes on waiting in the next connection.

        One that answers a question after it does not stop: then the refusal stands.
        """
        transaction = request.transaction
        if transaction is not None and isinstance(transaction.failure, QueueError):
            error = transaction.failure  # it did not begin: that is the reason
        if isinstance(error, QueueNotAvailable):
            for handle in request.handles:  # the queue is gone with its subqueues
                if handle.opened_by < request.number:
                    self.close_handle(handle)  # one of its name may come: that is opened again
        if not isinstance(error, OperationCancelled) or not _outlives_stops(request):
            self._finish(request, None, error)
            return
        ping = Ask(Ping, frames.DONE, here_only=True)

        def told() -> None:
            if ping.error is None:
                self._finish(request, None, error)
            else:
                request.repeated = True
                self._unsent.append(request)

        ping.on_done = (told,)
        self.submit(ping)

    def _ending(self, kind: int, payload: bytes) -> Exception:
        if kind != frames.ERROR:
            return MalformedPacket("an answer without the number of its request")
        refusal = frames.decode_payload(kind, payload)
        assert isinstance(refusal, Refusal)
        return SessionEnded(f"the queue manager ended the session: {refusal.cause}", refusal.remedy)

    def _welcomed(self, kind: int, payload: bytes) -> None:
        if self.welcome is not None:
            raise MalformedPacket("the session was welcomed twice")
        answer = frames.decode(kind, payload) if kind in (frames.WELCOME, frames.ERROR) else None
        if isinstance(answer, Refusal):
            raise rebuilt(answer)
        if not isinstance(answer, Welcome):
            raise MalformedPacket(f"HELLO was answered by kind 0x{kind:02X}")
        self.welcome = answer
        self.computer, self.guid, self.revision = answer.name, answer.guid, answer.version
        self._id_front = ""
        self._send_unsent()

    def _finish(self, request: Request, answer: object, error: Exception | None) -> None:
        if request.opening is not None:
            self._opened(request.opening, answer, error)
        elif request.abandoned:
            self._finish_abandoned(request, answer, error)
        else:
            request.finish(answer, error)
        if request.request_id:
            self._unanswered.pop(request.request_id, None)
            if self._without_id:
                self._send_without_id()

    def _opened(self, handle: QueueHandle, answer: object, error: Exception | None) -> None:
        handle.opening = False
        waiting = list(handle.waiting)
        if isinstance(answer, Opened):
            handle.number = answer.queue
            handle.destination = answer.destination
            handle.format_name = answer.format_name
            handle.transactional = answer.transactional
            handle.is_list = answer.elements > 0
            handle.maker = None
        for request in dict.fromkeys(waiting):
            if error is None:
                self._send(request)
            elif not request.done:
                self._finish(request, None, error)
        del handle.waiting[: len(waiting)]  # last: Ctrl-C may come before

    def _finish_abandoned(self, request: Request, answer: object, error: Exception | None) -> None:
        request.finish(answer, error)
        self._return_unseen(request)

    def _return_unseen(self, request: Request) -> None:
        """What a read brought and was not looked at goes back, or spoils its transaction."""
        if request.error is not None or not request.takes:
            return
        if request.transaction is not None:
            request.transaction.spoiled = True
        else:
            lookup_ids = [delivered.lookup_id for delivered in request.answer]
            self.give_back(request.handles[0], lookup_ids, request.generation)


class _OpenRequest(Request):
    """OPEN, sent for all that waits for a queue to be open."""

    opening: QueueHandle

    def __init__(self, handle: QueueHandle) -> None:
        super().__init__(frames.OPENED)
        self.opening = handle

    def encode(self) -> bytes:
        handle = self.opening
        return frames.encode(self.number, Open(handle.name, handle.access, handle.share))


def _tells_itself(request: Request) -> bool:
    """An end that is asked again is known by its id, or is not done and never will be.

    So it needs no open queue, which might be gone: the message would be lost.
    """
    return isinstance(request, EndRequest) and request.repeated


def _outlives_stops(request: Request) -> bool:
    bound = request.abandoned or request.transaction or request.cursor
    return isinstance(request, ReadRequest) and not bound


def _order(request: Request) -> tuple[int, int]:
    """What has an id goes first, by it: its outcome may be known already.

    Not so a commit that has not left: what its transaction was asked for goes before it.

    An end must reach the queue manager before any receive: else that could lock the message again,
    and the end would take it from under its new reader.
    """
    if isinstance(request, CommitRequest) and not request.repeated:
        return 2, request.request_id
    return (0, request.request_id) if request.request_id else (1, 0)
