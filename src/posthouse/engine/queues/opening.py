"""Open Queue, Close Queue, cursors' handles, and the one access check ([MS-MQDMPR] 3.1.7.1.5-6)."""

from __future__ import annotations

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.owner_index import Owned
from posthouse.engine.ledger.parts import ClaimedMessages, ForeignSystems, PacketReads, Waiters
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.naming import (
    REFUSED_PROTOCOLS,
    cannot_send_to_subqueue,
    is_service_queue,
)
from posthouse.engine.queues.open_queues import (
    ADMIN,
    PEEKING,
    RECEIVING,
    OpenQueueDescriptor,
    QueueAccessType,
    QueueShareMode,
)
from posthouse.engine.queues.queue import Cursor, Queue, QueueRole
from posthouse.model.bounded_tables import HeldPlaces
from posthouse.model.errors import (
    AccessDenied,
    InsufficientResources,
    InvalidHandle,
    OperationCancelled,
    QueueNotFound,
    SharingViolation,
    UnsupportedAccessMode,
    UnsupportedFormatNameOperation,
)
from posthouse.model.names import (
    ConnectorName,
    DirectName,
    FormatName,
    MachineName,
    MulticastName,
    MultipleName,
    PathName,
)
from posthouse.security.access import Caller
from posthouse.security.rights import (
    PEEK_MESSAGE,
    RECEIVE_MESSAGE,
    WRITE_MESSAGE,
)

_SEND = QueueAccessType.SEND

# The rights each access needs. Journals and system queues have descriptors of their own, so their
# readers need no other bits.
_RIGHTS = {
    QueueAccessType.SEND: WRITE_MESSAGE,
    QueueAccessType.PEEK: PEEK_MESSAGE,
    QueueAccessType.PEEK_ADMIN: PEEK_MESSAGE,
    QueueAccessType.RECEIVE: RECEIVE_MESSAGE,
    QueueAccessType.RECEIVE_ADMIN: RECEIVE_MESSAGE,
    QueueAccessType.MOVE: RECEIVE_MESSAGE,
}
# What an access type permits: [MS-MQDMPR] 3.1.1.17.
_PERMITS = {
    QueueAccessType.SEND: frozenset({_SEND}),
    QueueAccessType.PEEK: frozenset({QueueAccessType.PEEK}),
    QueueAccessType.PEEK_ADMIN: frozenset({QueueAccessType.PEEK}),
    QueueAccessType.RECEIVE: frozenset({QueueAccessType.PEEK, QueueAccessType.RECEIVE}),
    QueueAccessType.RECEIVE_ADMIN: frozenset({QueueAccessType.PEEK, QueueAccessType.RECEIVE}),
    QueueAccessType.MOVE: frozenset({QueueAccessType.MOVE}),
}


class Opening:
    """OpenQueueDescriptorCollection: who has what open, and may do what with it."""

    def __init__(
        self,
        core: Ledger,
        registry: Queues,
        reading: PacketReads,
        waiting: Waiters,
        groups: ClaimedMessages,
    ) -> None:
        self.core = core
        self._registry = registry
        self._reading = reading
        self._waiting = waiting
        self._groups = groups
        self._handles = 0
        self._open: dict[int, OpenQueueDescriptor] = {}
        self._owned: Owned[int, OpenQueueDescriptor] = Owned()  # by association
        self._cursors: dict[int, Cursor] = {}
        self._held, self._held_cursors = HeldPlaces(), HeldPlaces()
        self._contexts: dict[int, OpenQueueDescriptor] = {}

    def connect(self, connectors: ForeignSystems) -> None:
        """Parts that are made after this one, since they need it."""
        self._connectors = connectors

    # -- open

    def open(
        self,
        name: PathName | FormatName,
        access: QueueAccessType,
        share: QueueShareMode,
        caller: Caller,
        association: object = None,
    ) -> OpenQueueDescriptor:
        """Open Queue (3.1.7.1.5); distribution lists have been expanded before.

        Everything is checked before an outgoing queue or a subqueue is made for it.
        """
        if isinstance(name, MultipleName):
            return self._open_multiple(name, access, share, caller, association)
        self._check_handles(caller, 1)
        queue = self._find(name, access, share, caller) or self._make(name, access)
        return self._new(queue, access, share, str(name), caller, association)

    def would_open(
        self, name: PathName | FormatName, access: QueueAccessType, caller: Caller
    ) -> Queue | None:
        """What `open` would find, with all its refusals; None: it would make one."""
        return self._find(name, access, QueueShareMode.DENY_NONE, caller)

    def _open_multiple(
        self,
        name: MultipleName,
        access: QueueAccessType,
        share: QueueShareMode,
        caller: Caller,
        association: object,
    ) -> OpenQueueDescriptor:
        if access is not _SEND:
            raise UnsupportedFormatNameOperation("a list of queues can only be opened for sending")
        if share is not QueueShareMode.DENY_NONE:
            raise UnsupportedAccessMode("a list of queues cannot be opened exclusively")
        self._check_handles(caller, 1 + len(name.names))
        found = [self._find(element, access, share, caller) for element in name.names]
        descriptor = self._new(None, access, share, str(name), caller, association)

        def nested(queue: Queue, element: FormatName) -> OpenQueueDescriptor:
            return self._new(queue, access, share, str(element), caller, descriptor)

        # The elements belong to the list, not to the session: they cannot be named or closed by
        # themselves. Those that are there are open before others get room, and do not give way.
        there = [
            None if queue is None else nested(queue, element)
            for element, queue in zip(name.names, found, strict=True)
        ]
        descriptor.nested = tuple(filter(None, there))
        try:
            self._registry.outgoing_room.require(found.count(None))
        except InsufficientResources:
            self.close(descriptor)
            raise
        descriptor.nested = tuple(
            one or nested(self._make(element, access), element)
            for element, one in zip(name.names, there, strict=True)
        )
        return descriptor

    def _check_handles(self, caller: Caller, count: int) -> None:
        if not self._held.has_room(caller.sid, self.core.settings.limits.open_handles_max, count):
            raise InsufficientResources("too many queues are open, in all or of this user")

    def _find(
        self,
        name: PathName | FormatName,
        access: QueueAccessType,
        share: QueueShareMode,
        caller: Caller,
    ) -> Queue | None:
        """The queue, when it may be opened so; None: it does not exist yet, but may be made."""
        self._check_name(name, access)
        if access is _SEND:
            queue = self._find_for_sending(name, caller)
        elif access in ADMIN:
            queue = self._find_for_administration(name, caller)
        else:
            queue = self._find_for_reading(name, access, caller)
        if queue is not None:
            self.check_role(queue, access)
            self.require(queue, caller, access)
            self._check_sharing(queue, access, share)
        return queue

    def _check_name(self, name: PathName | FormatName, access: QueueAccessType) -> None:
        """Names that only one kind of access can use, and those that none can.

        Administrative access is for outgoing queues, whatever their names: an administrator looks
        into the backlog of a peer that is away, and gives it up.
        """
        sending, administering = access is _SEND, access in ADMIN
        reading = not sending and not administering
        if isinstance(name, MachineName) and sending:
            raise UnsupportedFormatNameOperation("messages cannot be sent to a MACHINE= name")
        if isinstance(name, MulticastName) and reading:
            raise UnsupportedFormatNameOperation("a multicast address is for sending only")
        if isinstance(name, ConnectorName) and sending:
            # [MS-MQMQ] 2.2.20.1 has no code for such a name: no packet could carry it.
            raise UnsupportedFormatNameOperation(
                "a connector queue is filled by routing and cannot be sent to",
                "Send to a queue of the foreign system, by its PUBLIC= or PRIVATE= name.",
            )
        if isinstance(name, DirectName):
            if name.is_web and reading:
                raise UnsupportedFormatNameOperation("an HTTP name is for sending only")
            if name.is_web and is_service_queue(name) and not administering:
                raise AccessDenied(f"{name.queue} belongs to the queue managers themselves")
            if name.protocol in REFUSED_PROTOCOLS:
                raise UnsupportedFormatNameOperation(
                    f"{name.protocol} is a transport this program does not have",
                    "Name the computer with OS: or TCP: instead.",
                )

    def _find_for_sending(self, name: PathName | FormatName, caller: Caller) -> Queue | None:
        queue = self._registry.find_target(name)
        if queue is None:
            self._check_remote_sender(caller)
        return queue

    def _check_remote_sender(self, caller: Caller) -> None:
        """Unknown users do not send to other computers, nor a token cut to queues of this one."""
        caller.check_limit(WRITE_MESSAGE)
        if not caller.authenticated:
            raise AccessDenied("only known users may send to other computers from here")
        if caller.scopes is not None:
            raise AccessDenied("this token is limited to queues of this computer")

    def _check_administrator(self, caller: Caller) -> None:
        if not caller.is_administrator or caller.scopes is not None:
            raise AccessDenied("only administrators may use outgoing queues")

    def _find_for_administration(self, name: PathName | FormatName, caller: Caller) -> Queue:
        self._check_administrator(caller)
        registry = self._registry
        queue = registry.find_local(name) or registry.find_outgoing(name)
        if queue is None:
            raise QueueNotFound(f"there is no outgoing queue for {name}")
        return queue

    def _find_for_reading(
        self, name: PathName | FormatName, access: QueueAccessType, caller: Caller
    ) -> Queue | None:
        registry = self._registry
        queue = registry.find_local(name)
        if queue is not None:
            return queue
        missing = registry.missing_subqueue(name)
        if missing is None:
            raise registry.nothing_to_read(name)
        parent, path = missing
        self.check_role(parent, access)
        caller.check_masks(str(path), _RIGHTS[access])
        self.require(parent, caller, access)
        return None

    def _make(self, name: PathName | FormatName, access: QueueAccessType) -> Queue:
        """Make the queue that was missing: an outgoing one for a sender, else a subqueue."""
        registry = self._registry
        if access is _SEND:
            return registry.sending_target(name)
        missing = registry.missing_subqueue(name)
        assert missing is not None
        return registry.create_subqueue(*missing)

    def check_role(self, queue: Queue, access: QueueAccessType) -> None:
        """Queues that only the queue manager itself writes to or opens at all."""
        role = queue.definition.role
        if role is QueueRole.INTERNAL:
            raise AccessDenied(f"{queue.name} belongs to the queue manager itself")
        if access is _SEND and role is QueueRole.SUBQUEUE:
            raise cannot_send_to_subqueue(queue.name)
        if access is _SEND and role not in (QueueRole.PLAIN, QueueRole.OUTGOING):
            raise UnsupportedFormatNameOperation(f"{queue.name} is a queue that cannot be sent to")
        if (access in ADMIN) != (role is QueueRole.OUTGOING) and access is not _SEND:
            raise UnsupportedAccessMode(
                "administrative access is for outgoing queues, and they have no other"
            )

    def _check_sharing(self, queue: Queue, access: QueueAccessType, share: QueueShareMode) -> None:
        exclusive = share is QueueShareMode.DENY_RECEIVE
        if not exclusive and (access is _SEND or not queue.exclusive):
            return  # however many have it open
        if exclusive:
            self._groups.check_receiver(queue)
        receiving = access in RECEIVING
        for other in queue.descriptors.values():
            denies = other.share is QueueShareMode.DENY_RECEIVE
            if other.access in RECEIVING:
                conflict = exclusive or (denies and receiving)
            else:
                conflict = other.access in PEEKING and denies and receiving
            if conflict:
                raise SharingViolation(
                    f"{queue.name} is open elsewhere in a way that excludes this"
                )

    def _new(
        self,
        queue: Queue | None,
        access: QueueAccessType,
        share: QueueShareMode,
        format_name: str,
        caller: Caller,
        association: object,
    ) -> OpenQueueDescriptor:
        if queue is not None and access is _SEND:
            self._registry.keep(queue)
        self._handles += 1
        context = int.from_bytes(self.core.random_bytes(8), "little")
        while context in self._contexts or not context:
            context = int.from_bytes(self.core.random_bytes(8), "little")
        descriptor = OpenQueueDescriptor(
            self._handles, context, queue, access, share, format_name, caller, association
        )
        self._open[descriptor.handle] = descriptor
        self._held.take(caller.sid)
        self._owned.add(association, descriptor.handle, descriptor)
        self._contexts[context] = descriptor
        if queue is not None:
            queue.descriptors[descriptor.handle] = descriptor
            queue.exclusive += share is QueueShareMode.DENY_RECEIVE
        return descriptor

    # -- close

    def close(self, descriptor: OpenQueueDescriptor, *, in_doubt: bool = False) -> None:
        """Close Queue (3.1.7.1.6); in doubt: its reader is gone without closing it."""
        if self._open.pop(descriptor.handle, None) is None:
            raise InvalidHandle("the queue handle is closed already")
        self._held.give(descriptor.caller.sid)
        self._contexts.pop(descriptor.context, None)
        self._owned.discard(descriptor.association, descriptor.handle)
        for nested in descriptor.nested:
            self.close(nested)
        self._waiting.cancel_of(descriptor, OperationCancelled("the queue was closed"))
        for cursor in list(descriptor.cursors.values()):
            self.close_cursor(cursor)
        self._reading.return_all(descriptor, in_doubt=in_doubt)
        queue = descriptor.queue
        if queue is not None:
            queue.descriptors.pop(descriptor.handle, None)
            queue.exclusive -= descriptor.share is QueueShareMode.DENY_RECEIVE
            descriptor.queue = None
            self._registry.drop_empty_subqueue(queue)
            if queue.definition.role is QueueRole.CONNECTOR:
                self._connectors.tidy(queue)

    def close_of(self, association: object) -> None:
        """A session that ends closes what it had open."""
        for descriptor in self._owned.of(association):
            self.close(descriptor)

    def opened_by(self, association: object) -> list[OpenQueueDescriptor]:
        """What a session has open, the oldest first."""
        return self._owned.of(association)

    # -- handles

    def descriptor(self, handle: int, association: object) -> OpenQueueDescriptor:
        """Decision 6: a handle is good only where it was given out."""
        return self._bound(self._open.get(handle), association)

    def move_context(self, context: int, association: object) -> OpenQueueDescriptor:
        """The descriptor a move context refers to, under the same rule."""
        return self._bound(self._contexts.get(context), association)

    def _bound(
        self, descriptor: OpenQueueDescriptor | None, association: object
    ) -> OpenQueueDescriptor:
        if descriptor is None or descriptor.association is not association:
            raise InvalidHandle("no queue is open under that handle")
        return descriptor

    def open_cursor(self, descriptor: OpenQueueDescriptor) -> Cursor:
        """Open Cursor (3.1.7.1.1)."""
        if descriptor.access is _SEND:
            raise AccessDenied("the queue is open for sending: it has no cursors")
        descriptor.target()
        user, most = descriptor.caller.sid, self.core.settings.limits.open_handles_max
        if not self._held_cursors.has_room(user, most):
            raise InsufficientResources("too many cursors are open, in all or of this user")
        self._held_cursors.take(user)
        self._handles += 1
        cursor = Cursor(self._handles, descriptor)
        descriptor.cursors[cursor.handle] = cursor
        self._cursors[cursor.handle] = cursor
        return cursor

    def close_cursor(self, cursor: Cursor) -> None:
        """Close Cursor (3.1.7.1.2)."""
        if self._cursors.pop(cursor.handle, None) is None:
            raise InvalidHandle("the cursor is closed already")
        self._held_cursors.give(cursor.descriptor.caller.sid)
        self._waiting.close_cursor(cursor)

    def cursor(self, handle: int, association: object) -> Cursor:
        """3.2: found by its handle whichever front end opened it, for its own association."""
        cursor = self._cursors.get(handle)
        if cursor is None or cursor.closed or cursor.descriptor.association is not association:
            raise InvalidHandle("no cursor is open under that handle")
        return cursor

    # -- access

    def require(self, queue: Queue, caller: Caller, access: QueueAccessType) -> None:
        """The one access check (decision 5) for reading and sending."""
        if caller.origin in self.core.stale_origins:
            raise AccessDenied(f"the account {caller.name} has changed; log in again")
        caller.check_masks(queue.name, _RIGHTS[access])
        role = queue.definition.role
        if role is QueueRole.OUTGOING:
            caller.check_limit(_RIGHTS[access])
            if access is not _SEND:
                self._check_administrator(caller)
            if access is _SEND:
                self._check_remote_sender(caller)
            return
        self._registry.guard(queue).require(caller, _RIGHTS[access])

    def check_answer_queue(self, name: PathName | FormatName, caller: Caller) -> None:
        """A queue that a message names for its acknowledgments or as its dead-letter queue.

        What we write there in its name its sender must be allowed to write themselves.
        """
        queue = self._registry.find_local(name)
        if queue is not None and queue.definition.role is QueueRole.PLAIN:
            self.require(queue, caller, _SEND)

    def check_open(self, descriptor: OpenQueueDescriptor, access: QueueAccessType) -> None:
        """The check for a descriptor that may have elements: they are checked one by one later."""
        if not descriptor.nested:
            self.check(descriptor, access)

    def check(self, descriptor: OpenQueueDescriptor, access: QueueAccessType) -> Queue:
        """Whether an operation may use a descriptor; rights are read again when they change."""
        if access not in _PERMITS[descriptor.access]:
            raise AccessDenied(
                f"the queue is open for {descriptor.access.name.lower()} only, "
                f"and this needs {access.name.lower()}"
            )
        queue = descriptor.queue or descriptor.target()
        if descriptor.checked != self.core.rights_version:
            self.require(queue, descriptor.caller, descriptor.access)
            descriptor.checked = self.core.rights_version
        return queue

    def check_source_of_move(self, descriptor: OpenQueueDescriptor) -> Queue:
        """Messages are moved out of queues that are open for receiving ([MS-MQRR] 3.1.4.10).

        Move access is for the target alone, or it would be a way around exclusive readers.
        """
        return self.check(descriptor, QueueAccessType.RECEIVE)
