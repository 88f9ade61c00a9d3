"""R_StartReceive to R_EndReceive, and the same in a transaction ([MS-MQRR] 3.1.4.7-9, .13, .15).

One object goes with a receive from its first call to its last, and has no other for company: it is
the entry of the pending request table, the tag and the token of the waiting read, and what the
answers of both calls come back to.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Final, cast

from posthouse.engine.ledger.effects import Read
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Cursor
from posthouse.engine.transactions.transaction import Transaction
from posthouse.engine.transfer.remote_reads import (
    end_read,
    particulars,
    return_message,
    transaction_of,
)
from posthouse.model.errors import (
    AccessDenied,
    InvalidHandle,
    InvalidParameter,
    MessageNotFound,
    OperationCancelled,
    QueueError,
    StatusAccessDenied,
    StatusInvalidHandle,
)
from posthouse.model.message import INFINITE
from posthouse.protocols.engine_calls import Answer
from posthouse.protocols.remote_read.actions import Action
from posthouse.protocols.remote_read.open_queues import (
    PendingRequestEntry,
    QueueContext,
    RemoteReaders,
    ignore,
)
from posthouse.protocols.remote_read.sections import sections
from posthouse.protocols.remote_read.stubs import (
    METHODS,
    NO_TRANSACTION,
    Opnum,
    Received,
    StartReceive,
    StartTransactionalReceive,
    not_received,
)
from posthouse.rpc.interface import BACKLOG_MAX, Call

_RECEIVED: Final = METHODS[Opnum.START_RECEIVE].response
_RESULT: Final = struct.Struct("<I")
OK: Final = _RESULT.pack(0)


def result_of(error: QueueError) -> int:
    """The HRESULT of a refusal on a handle that is open (decision 93)."""
    return StatusAccessDenied.code if type(error) is AccessDenied else error.code


def answer_result(call: Call, error: QueueError | None) -> None:
    """The answer of a method that has nothing but its result, in either syntax."""
    call.answer(OK if error is None else _RESULT.pack(result_of(error)))


class StartedReceive(PendingRequestEntry):
    """A read of a remote client: a peek until its answer, a receive until its end."""

    __slots__ = (
        "_action",
        "_begun_ms",
        "_call",
        "_end_call",
        "_gone",
        "_held",
        "_is_kept",
        "_positive",
        "_remote",
        "_request",
        "_size",
        "_was_kept",
    )

    def __init__(
        self,
        remote: RemoteReaders,
        call: Call,
        queue: QueueContext,
        action: Action,
        request: StartReceive | StartTransactionalReceive,
    ) -> None:
        self._begun_ms = now_ms = remote.now()
        super().__init__(queue, request.request_id, now_ms)
        self._remote = remote
        self._call: Call | None = call
        self._action = action
        self._request = request
        self._end_call: Call | None = None
        self._gone = False
        self._positive = False
        self._is_kept = self._was_kept = False
        self._held: tuple[Read, bytes] | None = None  # until its connection has room for it
        self._size = 0  # of its message, while the client is owed it

    # -- R_StartReceive, R_StartTransactionalReceive

    def begin(self) -> None:
        """Decides it; kept back while its client has too much to take already."""
        queue = self.queue
        if not queue.client.is_full:
            self._remote.desk.decide(self.decide, self.answered)
        else:
            try:
                self._require_new()
            except InvalidParameter as error:
                self._refuse(error)
            else:
                self._keep()

    def _require_new(self) -> None:
        queue, number = self.queue, self.request_id
        if number in queue.kept or number in queue.waits:
            raise InvalidParameter(f"the request {number} has not ended yet")

    def _keep(self) -> None:
        assert self._call is not None
        self._call.on_gone = self.gone
        kept = self.queue.client.kept
        add = kept.appendleft if self._was_kept else kept.append  # it keeps its turn
        self._is_kept = self._was_kept = True
        self.queue.kept[self.request_id] = self
        add(self)

    def resume(self) -> None:
        """There is room again; it may no longer be wanted."""
        if self._is_kept:
            self._leave()
            self._remote.desk.decide(self.decide, self.answered)

    def call_off(self) -> None:
        """It is kept back no longer, and never made."""
        self._leave()
        self._refuse(OperationCancelled("the read was called off"))

    def _leave(self) -> None:
        self._is_kept = False
        del self.queue.kept[self.request_id]

    def decide(self, manager: QueueManager) -> Read | None:
        """What is there; None: it waits."""
        request = self._request
        cursor = self._cursor(manager) if request.cursor else None
        transaction = None
        if len(request) > 8 and request[8] != NO_TRANSACTION:
            transaction = transaction_of(
                manager, self.queue.descriptor, request[8], peek=self._action.peek
            )
        call = self._call
        assert call is not None
        if not self.queue.client.may_read(lambda: self._size_ahead(manager, cursor)):
            self._require_new()
            self._keep()
            return None
        if self._action.peek:
            read = self._peek(manager, cursor)
        else:
            read = self._receive(manager, cursor, transaction)
        call.on_gone = self.gone
        if read is None:
            self.queue.waits[self.request_id] = self
            self._remote.waiting += 1
        else:
            self._owe(len(manager.messages.packets_read()[read.number]))
        return read

    def _owe(self, size: int) -> None:
        self._size = size
        self.queue.client.owe(size)

    def _size_ahead(self, manager: QueueManager, cursor: Cursor | None) -> int:
        """Bytes of the message that is there, if one is."""
        action, descriptor = self._action, self.queue.descriptor
        if action.seek is not None:
            return manager.messages.size_by_lookup_identifier(
                descriptor, self._request.lookup_id, action.seek, peek=action.peek
            )
        return manager.messages.size_ahead(
            descriptor, cursor, peek=action.peek, goes_on=action.next
        )

    def _cursor(self, manager: QueueManager) -> Cursor:
        """Decision 6: one of this handle, and so of this association and user."""
        descriptor = self.queue.descriptor
        try:
            cursor = manager.messages.cursor(self._request.cursor, descriptor.association)
        except InvalidHandle as error:
            raise StatusInvalidHandle(error.cause) from None
        if cursor.descriptor is not descriptor:
            raise StatusInvalidHandle("the cursor belongs to another open queue")
        return cursor

    def _timeout_ms(self) -> int | None:
        """The document's milliseconds; all ones wait for ever."""
        timeout: int = self._request.timeout
        if timeout == INFINITE:
            return None
        if self._was_kept:
            return max(self._begun_ms + timeout - self._remote.now(), 0)
        return timeout

    def _receive(
        self, manager: QueueManager, cursor: Cursor | None, transaction: Transaction | None
    ) -> Read | None:
        pending = self._remote.pending
        pending.add(self)
        try:
            read = self._dequeue(manager, cursor, transaction)
        except QueueError:  # state-machines 9 c
            pending.remove(self)
            raise
        if read is not None:
            pending.locked(self, read.lookup_id, self._remote.now())
        return read

    def _dequeue(
        self, manager: QueueManager, cursor: Cursor | None, transaction: Transaction | None
    ) -> Read | None:
        seek = self._action.seek
        if seek is not None:
            return manager.messages.read_message_by_lookup_identifier(
                self.queue.descriptor,
                self._request.lookup_id,
                seek,
                peek=False,
                transaction=transaction,
                two_phase=True,
            )
        return manager.messages.dequeue_message(
            self.queue.descriptor,
            timeout_ms=self._timeout_ms(),
            cursor=cursor,
            transaction=transaction,
            tag=self,
            two_phase=True,
            token=self.woken,
        )

    def _peek(self, manager: QueueManager, cursor: Cursor | None) -> Read | None:
        action, descriptor = self._action, self.queue.descriptor
        if action.seek is not None:
            return manager.messages.read_message_by_lookup_identifier(
                descriptor, self._request.lookup_id, action.seek, peek=True
            )
        timeout_ms = self._timeout_ms()
        if timeout_ms != 0 and self.request_id in self.queue.waits:
            raise InvalidParameter(f"the request {self.request_id} of this queue waits already")
        if action.next and cursor is not None:
            return manager.messages.peek_next_message(
                descriptor, cursor, timeout_ms=timeout_ms, tag=self, token=self.woken
            )
        return manager.messages.peek_message(
            descriptor, timeout_ms=timeout_ms, cursor=cursor, tag=self, token=self.woken
        )

    def answered(self, answer: Answer) -> None:
        """What the call came to, unless it waits."""
        if answer.error is not None:
            self._refuse(answer.error)
        elif answer.value is not None:
            self._deliver(cast(Read, answer.value), answer.packets[0])

    def woken(self, answer: Answer) -> None:
        """The wait is over: with a message, or with the reason why there is none."""
        remote = self._remote
        del self.queue.waits[self.request_id]
        remote.waiting -= 1
        if answer.error is not None:
            remote.pending.remove(self)
            self._refuse(remote.desk.manager.machine.refused(answer.error))
            return
        read = cast(Read, answer.value)
        receives = not self._action.peek
        if receives and self.queue.pending.get(self.request_id) is not self:
            self._give_back(read.lookup_id)  # it ended before it began
            self._refuse(OperationCancelled("the receive has ended already"))
            return
        client, size = self.queue.client, len(answer.packets[0])
        is_free = self._gone or self._request.cursor
        if not is_free and (client.is_full or not client.may_read(lambda: size)):
            self._postpone(read)
            return
        if receives:
            remote.pending.locked(self, read.lookup_id, remote.now())
        self._owe(size)
        self._deliver(read, answer.packets[0])

    def _postpone(self, read: Read) -> None:
        """Its client cannot take it now: others may, and it asks again when there is room.

        Not through a cursor: that has gone on already.
        """
        if self._remote.pending.remove(self):
            self._give_back(read.lookup_id)
            self.lookup_id = 0
        self._keep()

    def _refuse(self, error: QueueError) -> None:
        call, self._call = self._call, None
        assert call is not None
        call.answer(_RECEIVED.encode(not_received(result_of(error)), ndr64=call.ndr64))
        self.queue.client.delivered(self._size)

    def _deliver(self, read: Read, packet: bytes) -> None:
        """Answers with the packet in sections (3.1.4.7), or gives it back if the client has
        gone.
        """
        remote, call = self._remote, self._call
        assert call is not None
        if self._gone:
            if remote.pending.remove(self):
                self._give_back(read.lookup_id)
            self._refuse(OperationCancelled("the call was called off"))
            return
        if call.backlog() > BACKLOG_MAX:
            self._held = read, packet
            call.when_drained(self._drained)
            return
        self._call = None
        request = self._request
        found = sections(
            packet,
            read,
            particulars(remote.desk.manager, read, packet),
            request.max_body_size,
            request.max_compound_message_size,
        )
        received = Received(read.arrived, read.lookup_id, found, 0)
        call.answer(_RECEIVED.encode(received, ndr64=call.ndr64))
        self.queue.client.delivered(self._size)

    def _drained(self) -> None:
        """The connection has room, or is gone."""
        held, self._held = self._held, None
        if held is not None:
            self._deliver(*held)

    def _give_back(self, lookup_id: int) -> None:
        """The message was not seen."""
        self.lookup_id = lookup_id
        self._remote.desk.decide(self._return_unseen, ignore)

    def _return_unseen(self, manager: QueueManager) -> None:
        return_message(manager, self.queue.descriptor, self.lookup_id, in_doubt=False)

    # -- the end of a wait

    def cancel(self, manager: QueueManager) -> None:
        """R_CancelReceive (3.1.4.8): the call that waits is answered by what wakes it."""
        manager.messages.cancel_waiting_message_read_request(self.queue.descriptor, self)
        self._remote.pending.remove(self)

    def gone(self) -> None:
        """The call was cancelled or orphaned, or its connection is gone."""
        self._gone = True
        if self.queue.waits.get(self.request_id) is self:
            self._remote.desk.decide(self._stop_waiting, ignore)
        elif self._is_kept:
            self.call_off()
        else:
            self._drained()

    def _stop_waiting(self, manager: QueueManager) -> None:
        with suppress(QueueError):  # a message has come in this very moment
            self.cancel(manager)

    # -- R_EndReceive, R_EndTransactionalReceive

    def begin_end(self, call: Call, *, positive: bool) -> None:
        """3.1.4.9: out of the table and without its timer before its message is looked for."""
        remote = self._remote
        remote.pending.remove(self)
        self._end_call = call
        self._positive = positive
        remote.desk.decide(self._end, self._ended)

    def _end(self, manager: QueueManager) -> None:
        if not self.lookup_id:
            self._stop_waiting(manager)
            raise MessageNotFound("no message was received under that request yet")
        descriptor, lookup_id = self.queue.descriptor, self.lookup_id
        try:
            end_read(manager, descriptor, lookup_id, positive=self._positive)
        except QueueError:  # the right may be gone, and its timer has ended
            return_message(manager, descriptor, lookup_id, in_doubt=self._positive)
            raise

    def _ended(self, answer: Answer) -> None:
        call, self._end_call = self._end_call, None
        assert call is not None
        answer_result(call, answer.error)
