"""Remote readers, the queues that they have open, and the receives that they have begun.

Open, close and rundown are [MS-MQRR] 3.1.4.2-3, .11 and 3.1.6, pending requests 3.1.1.2-3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from posthouse.engine.accounts.logins import Logins
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType, QueueShareMode
from posthouse.engine.transfer.remote_reads import end_association, return_message, run_down
from posthouse.model.errors import (
    InsufficientResources,
    InvalidParameter,
    OperationCancelled,
)
from posthouse.protocols.engine_calls import Answer, Desk
from posthouse.protocols.memory import ANSWERS, MemoryAccount
from posthouse.protocols.queue_format import name_of
from posthouse.protocols.remote_read.call_timers import CallTimer, CallTimers
from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.protocols.remote_read.stubs import (
    METHODS,
    OpenedQueueForMove,
    OpenQueueRequest,
    Opnum,
)
from posthouse.protocols.remote_read.stubs import OpenQueueResponse as Opened
from posthouse.protocols.rpc_callers import caller_of
from posthouse.rpc import statuses
from posthouse.rpc.association import Group
from posthouse.rpc.interface import Call
from posthouse.rpc.statuses import Fault

RECEIVE_ACCESS: Final = 0x00000001
MOVE_ACCESS: Final = 0x00000004
PEEK_ACCESS: Final = 0x00000020
PLENTY: Final = 16 << 20  # bytes of memory; with less a read asks for the size of its message
_ALL_ACCESS: Final = RECEIVE_ACCESS | MOVE_ACCESS | PEEK_ACCESS
_ACCESS: Final = {
    RECEIVE_ACCESS: QueueAccessType.RECEIVE,
    PEEK_ACCESS: QueueAccessType.PEEK,
}
_SHARE: Final = {0: QueueShareMode.DENY_NONE, 1: QueueShareMode.DENY_RECEIVE}
_OPENED: Final = METHODS[Opnum.OPEN_QUEUE].response
_OPENED_FOR_MOVE: Final = METHODS[Opnum.OPEN_QUEUE_FOR_MOVE].response


def ignore(answer: Answer) -> None:
    """This answer is not waited for."""


class QueueContext:
    """What a queue's context handle stands for."""

    __slots__ = ("client", "descriptor", "handle", "kept", "pending", "remote", "waits")

    def __init__(self, client: Client, descriptor: OpenQueueDescriptor) -> None:
        self.remote = client.remote
        self.client = client
        self.descriptor = descriptor
        self.handle = b""
        self.pending: dict[int, PendingRequestEntry] = {}
        self.waits: dict[int, PendingRequestEntry] = {}  # reads that wait, peeks too (decision 92)
        self.kept: dict[int, PendingRequestEntry] = {}  # reads that are not made yet: see Client

    @property
    def for_move(self) -> bool:
        """Whether it is the target of moves, and nothing else."""
        return self.descriptor.access is QueueAccessType.MOVE

    def call_off(self) -> None:
        """Reads that were not made yet never are."""
        for read in list(self.kept.values()):
            read.call_off()

    def close(self, manager: QueueManager) -> None:
        """R_CloseQueue: what was received and not ended goes back (decision 92)."""
        self._return(manager, in_doubt=False)
        manager.queues.close_queue(self.descriptor)

    def rundown(self) -> None:
        """The client is gone (3.1.6.1-2); it may have used what it had."""
        self.remote.opened -= 1
        self.remote.desk.decide(self._run_down, ignore)

    def _run_down(self, manager: QueueManager) -> None:
        self._return(manager, in_doubt=True)
        run_down(manager, self.descriptor)

    def _return(self, manager: QueueManager, *, in_doubt: bool) -> None:
        """Returns the locked messages, after cancelling the reads that wait on this handle."""
        error = OperationCancelled("the queue was closed")
        manager.messages.cancel_reads_of(self.descriptor, error)
        for entry in self.remote.pending.remove_all(self):
            return_message(manager, self.descriptor, entry.lookup_id, in_doubt=in_doubt)


class PendingRequestEntry(ABC):
    """A receive of one client: [MS-MQRR] 3.1.1.2."""

    __slots__ = ("due_ms", "lookup_id", "queue", "request_id", "time_stamp")

    def __init__(self, queue: QueueContext, request_id: int, now_ms: int) -> None:
        self.queue = queue
        self.request_id = request_id
        self.lookup_id = 0  # until a message was read for it
        self.time_stamp = now_ms & 0xFFFFFFFF
        self.due_ms = 0  # of its cleanup timer

    @abstractmethod
    def resume(self) -> None:
        """It was kept back, and its client has room again."""

    @abstractmethod
    def call_off(self) -> None:
        """It was kept back, and is never made."""

    @abstractmethod
    def cancel(self, manager: QueueManager) -> None:
        """It waits for a message, and is to wait no longer."""

    def clean_up(self, manager: QueueManager) -> None:
        """3.1.5.1: it was not ended in time; its reader may have used it."""
        return_message(manager, self.queue.descriptor, self.lookup_id, in_doubt=True)


class PendingRequestTable:
    """All entries, by handle and request identifier ([MS-MQRR] 3.1.1.3), with cleanup timers.

    Decision 91: the timer starts when the message is locked, so that a client that waits long does
    not lose what it has just got.
    """

    __slots__ = ("count", "per_handle_max", "timers")

    def __init__(self, cleanup_ms: int, per_handle_max: int, wake: Callable[[int], None]) -> None:
        self.count = 0
        self.per_handle_max = per_handle_max
        self.timers: CallTimers[PendingRequestEntry] = CallTimers(cleanup_ms, wake)

    def add(self, entry: PendingRequestEntry) -> None:
        """Takes an entry in; its request identifier is not free again before it is removed."""
        queue = entry.queue
        pending, request_id = queue.pending, entry.request_id
        if request_id in pending or request_id in queue.waits:
            raise InvalidParameter(f"the request {request_id} of this queue has not ended yet")
        if len(pending) >= self.per_handle_max:
            raise InsufficientResources(
                "too many messages were received and not ended", "End some of them first."
            )
        pending[request_id] = entry
        self.count += 1

    def locked(self, entry: PendingRequestEntry, lookup_id: int, now_ms: int) -> None:
        """A message was read for it."""
        entry.lookup_id = lookup_id
        self.timers.start(entry, now_ms)

    def remove(self, entry: PendingRequestEntry) -> bool:
        """The entry is done with, its timer stopped; False: it was already."""
        pending = entry.queue.pending
        if pending.get(entry.request_id) is not entry:
            return False
        del pending[entry.request_id]
        self.count -= 1
        self.timers.stop(entry)
        return True

    def remove_all(self, queue: QueueContext) -> list[PendingRequestEntry]:
        """The entries of a handle that is closed or run down."""
        entries = list(queue.pending.values())
        for entry in entries:
            self.remove(entry)
        return entries

    def take_due(self, now_ms: int) -> list[PendingRequestEntry]:
        """Entries whose cleanup timer has run out; they are in the table no more."""
        due = self.timers.take_due(now_ms)
        for entry in due:
            self.remove(entry)
        return due


class Client:
    """An association group that has opened or enlisted anything: all of one remote client.

    No more is read for it than it takes: what was read and not delivered is counted, and while that
    is too much further reads are kept back, unlike waits at no cost for the engine.
    """

    __slots__ = ("_group", "_holder", "kept", "owed", "remote")

    def __init__(self, remote: RemoteReaders, group: Group, address: str) -> None:
        self.remote = remote
        self._group = group
        self._holder = remote.memory.open(address, lambda reason: None, self._go_on)
        self.owed = 0  # bytes of messages read and not delivered
        self.kept: deque[PendingRequestEntry] = deque()

    @property
    def is_full(self) -> bool:
        """Whether it should first take what there is."""
        return self.owed >= self.remote.settings.read_ahead

    def may_read(self, size: Callable[[], int]) -> bool:
        """Whether there is memory for a message of this size; False: what is kept has to wait.

        The size is asked for only where there is not plenty.
        """
        holder = self._holder
        if holder.gone or self.remote.memory.room_for(holder) >= PLENTY:
            return True
        return holder.may_answer(size())

    def owe(self, size: int) -> None:
        """A message was read for it."""
        self.owed += size
        self._count()

    def delivered(self, size: int) -> None:
        """A message has gone out, or will not: others may be read."""
        self.owed -= size
        self._count()
        self._go_on()

    def _count(self) -> None:
        if not self._holder.gone:
            self._holder.hold(ANSWERS, self.owed)

    def _go_on(self) -> None:
        while self.kept and not (self.is_full or self._holder.waiting):
            self.kept.popleft().resume()

    def rundown(self) -> None:
        """Its last connection is gone: so are its transactions (decision 43)."""
        self.remote.clients.pop(self._group, None)
        self.leave()
        self.remote.desk.decide(self._end, ignore)

    def leave(self) -> None:
        """It is owed nothing from now on."""
        self._holder.leave()

    def _end(self, manager: QueueManager) -> None:
        end_association(manager, self._group)


class RunningCall(CallTimer, Protocol):
    """A call that may take too long."""

    def timed_out(self) -> None:
        """It has."""
        ...


class RemoteReaders:
    """All remote clients, and what they have open and begun."""

    def __init__(
        self,
        desk: Desk,
        settings: RemoteReadSettings,
        now: Callable[[], int],
        wake: Callable[[int], None],
        memory: MemoryAccount | None,
    ) -> None:
        self.desk = desk
        self.memory = memory or MemoryAccount()
        self.settings = settings
        self.now = now
        self.logins = Logins(desk.manager.accounts, now)
        self.pending = PendingRequestTable(settings.cleanup_ms, settings.pending_max, wake)
        self.calls_running: CallTimers[RunningCall] = CallTimers(settings.call_timeout_ms, wake)
        self.clients: dict[Group, Client] = {}
        self.opened = 0
        self.waiting = 0

    def know(self, group: Group, address: str) -> Client:
        """The client of an association group, registered so that its end is noticed."""
        client = self.clients.get(group)
        if client is None:
            client = Client(self, group, address)
            try:
                group.open(client, client.rundown)
            except BaseException:  # it is full
                client.leave()
                raise
            self.clients[group] = client
        return client


class OpeningCall:
    """R_OpenQueue or R_OpenQueueForMove, from its parameters to its answer."""

    __slots__ = ("_access", "_call", "_client", "_name", "_share", "due_ms", "queue")

    def __init__(self, client: Client, call: Call, request: OpenQueueRequest) -> None:
        """Raises InvalidParameter for anything that is none, before a queue is looked for."""
        move = call.opnum == Opnum.OPEN_QUEUE_FOR_MOVE
        access = _move_access(request.access) if move else _ACCESS.get(request.access)
        share = _SHARE.get(request.share_mode)
        if access is None or share is None:
            raise InvalidParameter(
                f"access 0x{request.access:X}, share mode 0x{request.share_mode:X}"
            )
        self._client = client
        self._call = call
        self._name = name_of(request.queue_format)
        self._access = access
        self._share = share
        self.queue: QueueContext | None = None
        self.due_ms = 0  # of its call timeout

    def decide(self, manager: QueueManager) -> None:
        """Opens the queue and gives it a handle, while the client is surely there."""
        call, remote, group = self._call, self._client.remote, self._call.association.group
        descriptor = manager.queues.open_queue(
            manager.queues.addressed(self._name),
            self._access,
            caller_of(remote.logins, call),
            share=self._share,
            association=group,
        )
        queue = QueueContext(self._client, descriptor)
        try:
            queue.handle = group.open(queue, queue.rundown, call.identity)
        except Fault:
            manager.queues.close_queue(descriptor)
            raise InsufficientResources("the client has too many handles") from None
        remote.opened += 1
        self.queue = queue

    def answered(self, answer: Answer) -> None:
        """A failure leaves as a fault, for the method has no return value."""
        self._client.remote.calls_running.stop(self)
        call, queue = self._call, self.queue
        if answer.error is not None:
            call.fault(answer.error.code)
        elif queue is not None:
            if self._access is QueueAccessType.MOVE:
                opened = OpenedQueueForMove(queue.descriptor.context, queue.handle)
                call.answer(_OPENED_FOR_MOVE.encode(opened, ndr64=call.ndr64))
            else:
                call.answer(_OPENED.encode(Opened(queue.handle), ndr64=call.ndr64))

    def timed_out(self) -> None:
        """3.1.2.1: the caller no longer waits, so it would never be closed."""
        self._call.fault(statuses.CANCELLED)
        queue, self.queue = self.queue, None
        group = self._call.association.group
        if queue is not None and queue.handle in group.handles:  # or it was run down already
            group.close(queue.handle)
            queue.rundown()


def _move_access(access: int) -> QueueAccessType | None:
    """Decision 94: move access, alone or with what a source needs."""
    return QueueAccessType.MOVE if access & MOVE_ACCESS and not access & ~_ALL_ACCESS else None
