"""The server of the RemoteRead interface ([MS-MQRR] 3.1): one method for each opnum.

Pure: calls and the time come in, answers go out through the calls. A call that waits costs the
engine's waiting read and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from posthouse.engine.manager import QueueManager
from posthouse.engine.transfer.remote_reads import enlist, move_message, set_acknowledgement_class
from posthouse.model.errors import (
    InvalidHandle,
    InvalidParameter,
    QueueError,
    StatusInvalidHandle,
    StatusNotFound,
)
from posthouse.protocols.engine_calls import Answer, Desk
from posthouse.protocols.memory import MemoryAccount
from posthouse.protocols.remote_read.actions import action_of
from posthouse.protocols.remote_read.open_queues import (
    OpeningCall,
    PendingRequestEntry,
    QueueContext,
    RemoteReaders,
    ignore,
)
from posthouse.protocols.remote_read.receiving import StartedReceive, answer_result, result_of
from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.protocols.remote_read.stubs import (
    METHODS,
    NO_TRANSACTION,
    REMOTE_READ,
    Ack,
    ClosedQueue,
    CreatedCursor,
    EnlistRemoteTransaction,
    MoveMessage,
    Opnum,
    ServerPort,
    SetUserAcknowledgementClass,
    not_received,
)
from posthouse.protocols.rpc_callers import Acted, RemoteAct, caller_of, unaudited
from posthouse.rpc import statuses
from posthouse.rpc.association import NULL_HANDLE
from posthouse.rpc.interface import Call, Interface

_ACK: Final = int(Ack.ACK)
_START: Final = METHODS[Opnum.START_RECEIVE].request.decode
_START_IN_TRANSACTION: Final = METHODS[Opnum.START_TRANSACTIONAL_RECEIVE].request.decode
_END: Final = METHODS[Opnum.END_RECEIVE].request.decode


class RemoteReadFigures(NamedTuple):
    """The figures of the protocol."""

    calls: dict[str, int]  # by method
    opened: int
    waiting: int
    pending: int
    clients: int
    cleaned_up: int


class RemoteRead(RemoteReaders):
    """The queues of this queue manager for readers on other machines.

    `now` is the monotonic clock in milliseconds; `wake` is told when `tick` has something to do.
    """

    def __init__(
        self,
        desk: Desk,
        settings: RemoteReadSettings,
        now: Callable[[], int],
        wake: Callable[[int], None] = lambda when_ms: None,
        memory: MemoryAccount | None = None,
    ) -> None:
        super().__init__(desk, settings, now, wake, memory)
        self.port = 0  # where the interface listens, once it does
        self.cleaned_up = 0
        self.acted: Acted = unaudited  # writes an act down, then calls
        self._calls = [0] * (max(METHODS) + 1)

    @property
    def interface(self) -> Interface:
        """What a runtime serves."""
        methods = {
            0: self._get_server_port,
            2: self._open_queue,
            3: self._close_queue,
            4: self._create_cursor,
            5: self._close_cursor,
            6: self._purge_queue,
            7: self._start_receive,
            8: self._cancel_receive,
            9: self._end_receive,
            10: self._move_message,
            11: self._open_queue,
            12: self._enlist,
            13: self._start_receive,
            14: self._set_acknowledgement_class,
            15: self._end_receive,
        }
        return Interface(REMOTE_READ, "RemoteRead", methods, self.settings.minimum_level)

    @property
    def figures(self) -> RemoteReadFigures:
        """For the metrics."""
        calls = {method.name: self._calls[opnum] for opnum, method in METHODS.items()}
        return RemoteReadFigures(
            calls,
            self.opened,
            self.waiting,
            self.pending.count,
            len(self.clients),
            self.cleaned_up,
        )

    # -- time

    def tick(self) -> None:
        """Timers that are due: 3.1.5.1, and the call timeout of 3.1.2.1."""
        now_ms = self.now()
        due = self.pending.take_due(now_ms)
        if due:
            self.cleaned_up += len(due)
            self.desk.decide(_CleanUp(due), ignore)
        for call in self.calls_running.take_due(now_ms):
            call.timed_out()

    # -- finding

    def _queue(self, call: Call, handle: bytes) -> QueueContext | None:
        """The queue of a handle of this group and user; None for handles of others."""
        found = call.association.group.find(handle, call.identity)
        return found if type(found) is QueueContext and found.remote is self else None

    def _readable(self, call: Call, handle: bytes) -> QueueContext:
        """The queue of a handle from R_OpenQueue; one of R_OpenQueueForMove is for moves only."""
        queue = self._queue(call, handle)
        if queue is None or queue.for_move:
            raise StatusInvalidHandle("no queue is open under that handle")
        return queue

    def _refused(self, error: QueueError) -> QueueError:
        return self.desk.manager.machine.refused(error)

    # -- opnums 0 to 3 and 11

    def _get_server_port(self, call: Call) -> None:
        """R_GetServerPort (3.1.4.1)."""
        self._calls[0] += 1
        METHODS[0].request.decode(call.stub, ndr64=call.ndr64)
        call.answer(METHODS[0].response.encode(ServerPort(self.port), ndr64=call.ndr64))

    def _open_queue(self, call: Call) -> None:
        """R_OpenQueue (3.1.4.2), R_OpenQueueForMove (3.1.4.11)."""
        self._calls[call.opnum] += 1
        request = METHODS[2].request.decode(call.stub, ndr64=call.ndr64)
        client = self.know(call.association.group, call.address)
        try:
            opening = OpeningCall(client, call, request)
        except InvalidParameter as error:
            call.fault(self._refused(error).code)
            return
        self.calls_running.start(opening, self.now())
        self.desk.decide(opening.decide, opening.answered)

    def _close_queue(self, call: Call) -> None:
        """R_CloseQueue (3.1.4.3)."""
        self._calls[3] += 1
        (handle,) = METHODS[3].request.decode(call.stub, ndr64=call.ndr64)
        queue = self._queue(call, handle)
        if queue is None:
            error = self._refused(StatusInvalidHandle("no queue is open under that handle"))
            call.answer(_closed(handle, error.code, call))
            return
        call.association.group.close(handle)
        self.opened -= 1
        queue.call_off()

        def answered(answer: Answer) -> None:
            code = 0 if answer.error is None else result_of(answer.error)
            call.answer(_closed(NULL_HANDLE, code, call))

        self.desk.decide(queue.close, answered)

    # -- opnums 4 to 6

    def _create_cursor(self, call: Call) -> None:
        """R_CreateCursor (3.1.4.4)."""
        self._calls[4] += 1
        (handle,) = METHODS[4].request.decode(call.stub, ndr64=call.ndr64)

        def create(manager: QueueManager) -> int:
            return manager.messages.open_cursor(self._readable(call, handle).descriptor).handle

        def answered(answer: Answer) -> None:
            code = 0 if answer.error is None else result_of(answer.error)
            number = answer.value if isinstance(answer.value, int) else 0
            created = CreatedCursor(number, code)
            call.answer(METHODS[4].response.encode(created, ndr64=call.ndr64))

        self.desk.decide(create, answered)

    def _close_cursor(self, call: Call) -> None:
        """R_CloseCursor (3.1.4.5)."""
        self._calls[5] += 1
        handle, number = METHODS[5].request.decode(call.stub, ndr64=call.ndr64)

        def close(manager: QueueManager) -> None:
            cursor = self._readable(call, handle).descriptor.cursors.get(number)
            if cursor is None:
                raise StatusInvalidHandle("the queue has no such cursor")
            manager.messages.close_cursor(cursor)

        self._decide(call, close)

    def _purge_queue(self, call: Call) -> None:
        """R_PurgeQueue (3.1.4.6)."""
        self._calls[6] += 1
        (handle,) = METHODS[6].request.decode(call.stub, ndr64=call.ndr64)

        user = name = ""

        def purge(manager: QueueManager) -> None:
            nonlocal user, name
            descriptor = self._readable(call, handle).descriptor
            user, name = caller_of(self.logins, call).name, descriptor.target().name
            manager.queues.purge_queue(descriptor)

        def answered(answer: Answer) -> None:
            if not name:  # there is no such handle
                answer_result(call, answer.error)
                return
            act = RemoteAct(user, call.address, "purge", name, answer.error)
            self.acted(act, lambda: answer_result(call, answer.error))

        self.desk.decide(purge, answered)

    def _decide(self, call: Call, decide: Callable[[QueueManager], None]) -> None:
        """A method that answers with its result alone, and is called now and then."""
        self.desk.decide(decide, lambda answer: answer_result(call, answer.error))

    # -- opnums 7 to 9, 13 and 15

    def _start_receive(self, call: Call) -> None:
        """R_StartReceive (3.1.4.7), R_StartTransactionalReceive (3.1.4.13).

        Without a transaction the second does what the first does.
        """
        opnum = call.opnum
        self._calls[opnum] += 1
        decode = _START if opnum == 7 else _START_IN_TRANSACTION
        request = decode(call.stub, ndr64=call.ndr64)
        handle, lookup_id, cursor, action, timeout = request[:5]
        try:
            checked = action_of(action, lookup_id, cursor, timeout)
            queue = self._readable(call, handle)
        except QueueError as error:
            self._refuse_start(call, error)
            return
        StartedReceive(self, call, queue, checked, request).begin()

    def _refuse_start(self, call: Call, error: QueueError) -> None:
        nothing = not_received(result_of(self._refused(error)))
        call.answer(METHODS[7].response.encode(nothing, ndr64=call.ndr64))

    def _cancel_receive(self, call: Call) -> None:
        """R_CancelReceive (3.1.4.8)."""
        self._calls[8] += 1
        handle, request_id = METHODS[8].request.decode(call.stub, ndr64=call.ndr64)
        queue = self._queue(call, handle)
        if queue is not None and request_id in queue.kept and request_id not in queue.waits:
            queue.kept[request_id].call_off()
            answer_result(call, None)
            return

        def cancel(manager: QueueManager) -> None:
            waiting = self._readable(call, handle).waits.get(request_id)
            if waiting is None:
                raise StatusNotFound(f"no read waits under the request {request_id}")
            waiting.cancel(manager)

        self._decide(call, cancel)

    def _end_receive(self, call: Call) -> None:
        """R_EndReceive (3.1.4.9), R_EndTransactionalReceive (3.1.4.15)."""
        self._calls[call.opnum] += 1
        handle, ack, request_id = _END(call.stub, ndr64=call.ndr64)
        queue = self._queue(call, handle)
        entry = None if queue is None else queue.pending.get(request_id)
        if type(entry) is StartedReceive:
            entry.begin_end(call, positive=ack == _ACK)
        elif queue is None or not queue.pending:
            error = InvalidHandle("no receive of that handle has not ended yet")
            answer_result(call, self._refused(error))
        else:
            wrong = InvalidParameter(f"no receive under the request {request_id} waits for its end")
            answer_result(call, self._refused(wrong))

    # -- opnums 10, 12 and 14

    def _move_message(self, call: Call) -> None:
        """R_MoveMessage (3.1.4.10)."""
        self._calls[10] += 1
        request: MoveMessage = METHODS[10].request.decode(call.stub, ndr64=call.ndr64)

        def move(manager: QueueManager) -> None:
            move_message(
                manager,
                self._readable(call, request.handle_from).descriptor,
                request.context_to,
                request.lookup_id,
                request.transaction_id,
            )

        self._decide(call, move)

    def _enlist(self, call: Call) -> None:
        """R_QMEnlistRemoteTransaction (3.1.4.12)."""
        self._calls[12] += 1
        request: EnlistRemoteTransaction = METHODS[12].request.decode(call.stub, ndr64=call.ndr64)
        if request.transaction_id == NO_TRANSACTION or not request.propagation_token:
            error = InvalidParameter("no transaction, or no token that propagates it")
            answer_result(call, self._refused(error))
            return
        self.know(call.association.group, call.address)
        enlisting = _EnlistingCall(self, call, request)
        self.calls_running.start(enlisting, self.now())
        self.desk.decide(enlisting.decide, enlisting.answered)

    def _set_acknowledgement_class(self, call: Call) -> None:
        """R_SetUserAcknowledgementClass (3.1.4.14)."""
        self._calls[14] += 1
        request: SetUserAcknowledgementClass = METHODS[14].request.decode(
            call.stub, ndr64=call.ndr64
        )

        def mark(manager: QueueManager) -> None:
            set_acknowledgement_class(
                manager,
                self._readable(call, request.handle).descriptor,
                request.lookup_id,
                request.acknowledgement_class,
            )

        self._decide(call, mark)


def _closed(handle: bytes, code: int, call: Call) -> bytes:
    return METHODS[3].response.encode(ClosedQueue(handle, code), ndr64=call.ndr64)


class _CleanUp:
    """Gives back what was not ended in time."""

    __slots__ = ("_due",)

    def __init__(self, due: list[PendingRequestEntry]) -> None:
        self._due = due

    def __call__(self, manager: QueueManager) -> None:
        for entry in self._due:
            entry.clean_up(manager)


class _EnlistingCall:
    """R_QMEnlistRemoteTransaction from its parameters to its answer."""

    __slots__ = ("_call", "_remote", "_request", "due_ms")

    def __init__(self, remote: RemoteRead, call: Call, request: EnlistRemoteTransaction) -> None:
        self._remote = remote
        self._call = call
        self._request = request
        self.due_ms = 0  # of its call timeout

    def decide(self, manager: QueueManager) -> None:
        """Decision 51: a token of our own coordinators only."""
        call, request = self._call, self._request
        account = caller_of(self._remote.logins, call).sid
        identifier, token = request.transaction_id, request.propagation_token
        enlist(manager, identifier, token, call.association.group, account)

    def answered(self, answer: Answer) -> None:
        """Answers once the enlistment is durable."""
        self._remote.calls_running.stop(self)
        answer_result(self._call, answer.error)

    def timed_out(self) -> None:
        """Ends the call, for which the client no longer waits (3.1.2.1); the transaction has its
        own timer.
        """
        self._call.fault(statuses.CANCELLED)
