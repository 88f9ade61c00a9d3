"""The queue collection: create, delete, open, close, and names ([MS-MQDMPR] 3.1.7.1.3-6, .26)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

import msgspec

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import TABLE_QUEUE, Change
from posthouse.engine.machine.computer_name import follow_name
from posthouse.engine.queues.naming import PublicQueues, QueueNames, is_service_queue
from posthouse.engine.queues.outgoing_room import OutgoingRoom
from posthouse.engine.queues.queue import (
    DEADLETTER,
    DEADXACT,
    JOB_FILES,
    JOURNAL,
    NOTIFY_QUEUE,
    ORDER_QUEUE,
    Outgoing,
    OutgoingQueueState,
    Queue,
    QueueDefinition,
    QueueRole,
    QueueType,
    decode_definition,
    encode_definition,
    new_definition,
)
from posthouse.model.address_prefixes import source_of
from posthouse.model.errors import (
    IllegalQueuePathname,
    PropertyNotAllowed,
    QueueExists,
)
from posthouse.model.guids import NULL_GUID
from posthouse.model.names import (
    ConnectorName,
    DirectName,
    FormatName,
    MulticastName,
    PathKind,
    PathName,
    PublicName,
    Suffix,
    parse_format_name,
)
from posthouse.model.properties import QUEUE_LABEL_LENGTH_MAX, QueueProperties
from posthouse.security.access import (
    Caller,
    Guard,
    check_owner,
    complete_descriptor,
    default_queue_descriptor,
    system_queue_descriptor,
)
from posthouse.security.descriptors import unpack_descriptor
from posthouse.security.rights import ACCESS_SYSTEM_SECURITY, QUEUE, TAKE_QUEUE_OWNERSHIP
from posthouse.security.sids import ADMINISTRATORS

JOB_FILES_NAME = "(job files)"  # for people; no name leads there
_U32 = struct.Struct("<I")
# Which properties can be changed, where not all of them can.
_SETTABLE = {
    QueueRole.DEAD_LETTER: frozenset({"label", "quota_kib"}),
    QueueRole.SYSTEM_JOURNAL: frozenset({"label", "quota_kib"}),
    QueueRole.CONNECTOR: frozenset({"label", "quota_kib"}),
}
# A subqueue has the descriptor of its parent, and the internal queues cannot be opened.
_SECURED = frozenset(
    {
        QueueRole.PLAIN,
        QueueRole.JOURNAL,
        QueueRole.DEAD_LETTER,
        QueueRole.SYSTEM_JOURNAL,
        QueueRole.CONNECTOR,
    }
)

EXISTS = (
    "Use the existing queue or choose another name. A script that may run again: `posthouse queue "
    "create --exist-ok`; in Python exist_ok=True."
)


class Queues(QueueNames):
    """All queues of the queue manager (QueueCollection)."""

    def __init__(
        self,
        core: Ledger,
        public: PublicQueues,
    ) -> None:
        super().__init__(core, public)
        self._guards: dict[int, Guard] = {}
        self.outgoing_room = OutgoingRoom(core, self._outgoing, self._forget_outgoing)

    def connect(
        self,
        on_removal: Sequence[Callable[[Queue, Change], None]],
        on_idle: Callable[[Queue, Change], None],
        empty: Callable[[Queue, int, Change], int],
    ) -> None:
        """What parts that are made after this one do when a queue goes."""
        self.on_removal = on_removal  # of any queue
        self.on_idle = on_idle  # of an outgoing queue that is forgotten
        self.outgoing_room.connect(empty)

    # -- start

    def load(self) -> None:
        """All queues of the store, then those every queue manager has."""
        state = self.core.state
        stored = [decode_definition(value) for _, value in state.of_table(TABLE_QUEUE)]
        change = Change()
        for definition in sorted(stored, key=lambda d: d.number):
            if follow_name(definition, self.core.settings):
                self._store(definition, change)
            self._register(definition)
        for definition in self._provisioned():
            if definition.number not in self.core.queues:
                self._store(definition, change)
                self._register(definition)
        for number in [n for n in state.queues if n not in self.core.queues]:
            self._orphan(number)
        self.core.effects.commit(change)

    def load_aliases(self) -> None:
        """The identifiers that moved messages had before, after a start."""
        core = self.core
        for number in core.state.extras:
            (row,) = core.state.table.rows((number,))
            if (queue := core.queues.get(row.queue)) is not None:
                for alias in core.extra(number).aliases:
                    queue.root.aliases[alias] = number

    def _provisioned(self) -> Iterator[QueueDefinition]:
        """[MS-MQDMPR] 3.1.3: the system queues and the two that no application opens."""
        computer, now = self.core.settings.computer_name, self.core.utc
        quota = self.core.settings.journal_quota_kib
        for number, name, role, transactional in (
            (DEADLETTER, "system$;deadletter", QueueRole.DEAD_LETTER, False),
            (DEADXACT, "system$;deadxact", QueueRole.DEAD_LETTER, True),
            (JOURNAL, "system$;journal", QueueRole.SYSTEM_JOURNAL, False),
            (ORDER_QUEUE, "private$\\order_queue$", QueueRole.INTERNAL, False),
            (NOTIFY_QUEUE, "private$\\notify_queue$", QueueRole.INTERNAL, False),
        ):
            yield QueueDefinition(
                number=number,
                queue_type=QueueType.SYSTEM,
                role=role,
                pathname=f"{computer}\\{name}",
                transactional=transactional,
                quota_kib=quota,
                create_time=now,
                modify_time=now,
                security=system_queue_descriptor(),
            )
        yield QueueDefinition(
            number=JOB_FILES,
            queue_type=QueueType.SYSTEM,
            role=QueueRole.JOB_FILES,
            pathname="",
            format_name=JOB_FILES_NAME,
            create_time=now,
            modify_time=now,
        )

    def _orphan(self, number: int) -> None:
        """A queue deleted while a prepared transaction held messages of it."""
        state = self.core.state
        if not state.queues[number].count:
            state.forget_queue(number)
            return
        definition = QueueDefinition(
            number=number, queue_type=QueueType.PRIVATE, role=QueueRole.PLAIN, pathname="(deleted)"
        )
        queue = Queue(definition, None, state.queue(number))
        queue.deleted = True
        self.core.queues[number] = queue
        self.core.deleted_queues.add(number)

    def _register(self, definition: QueueDefinition) -> Queue:
        core = self.core
        path = PathName.parse(definition.pathname) if definition.pathname else None
        queue = Queue(definition, path, core.state.queue(definition.number))
        core.queues[definition.number] = queue
        role = definition.role
        if role is QueueRole.OUTGOING:
            name = parse_format_name(definition.format_name)
            queue.outgoing = Outgoing(
                self._start_state(definition),
                core.settings.limits.history_max,
                service=is_service_queue(name),
                web=isinstance(name, DirectName) and name.is_web,
            )
            self._outgoing[name.key] = queue
            if definition.made_for:
                self.outgoing_room.answering.add(queue)
            return queue
        if role is QueueRole.CONNECTOR:
            self._connectors[parse_format_name(definition.format_name).key] = queue
            return queue
        parent = core.queues.get(definition.parent)
        if role is QueueRole.JOURNAL and parent is not None:
            queue.parent, parent.journal = parent, queue
        elif role is QueueRole.SUBQUEUE and parent is not None and path is not None:
            queue.parent = parent
            parent.subqueues[path.subqueue.casefold()] = queue
            queue.state.join(parent.state)
        elif path is not None:
            self._by_key[path.local_key] = queue
        if definition.queue_type is QueueType.PUBLIC and definition.identifier != NULL_GUID:
            self._by_guid[definition.identifier] = queue
        return queue

    def _start_state(self, definition: QueueDefinition) -> OutgoingQueueState:
        """[MS-MQDMPR] 3.1.3, 3.1.1.3: Locked follows from the settings, OnHold is remembered."""
        name = parse_format_name(definition.format_name)
        web = isinstance(name, DirectName) and name.is_web
        if self.core.settings.queue_manager.hardened and not web:
            return OutgoingQueueState.LOCKED
        if definition.on_hold:
            return OutgoingQueueState.ON_HOLD
        waiting = self.core.state.queue(definition.number).count
        return OutgoingQueueState.WAITING if waiting else OutgoingQueueState.INACTIVE

    def _store(self, definition: QueueDefinition, change: Change | None) -> None:
        key = _U32.pack(definition.number)
        self.core.define(TABLE_QUEUE, key, encode_definition(definition), change)

    def _store_first(self, definition: QueueDefinition) -> None:
        """In a record of its own, in front of the messages that come in the same turn."""
        change = Change()
        self._store(definition, change)
        self.core.effects.commit(change)

    # -- create and delete

    def create(
        self,
        path: PathName,
        properties: QueueProperties,
        caller: Caller,
        *,
        security: bytes | None = None,
        skip_directory: bool = False,
    ) -> Queue:
        """Create Queue (3.1.7.1.3)."""
        core = self.core
        path = self._creatable(path)
        properties.validate()
        if path.local_key in self._by_key:
            raise QueueExists(f"the queue {path} already exists", EXISTS)
        change, now = Change(), core.utc
        kind = QueueType.PRIVATE if path.kind is PathKind.PRIVATE else QueueType.PUBLIC
        definition = new_definition(path, kind, properties)
        definition.create_time = definition.modify_time = now
        definition.security = self._descriptor(caller, security)
        if kind is QueueType.PUBLIC and not skip_directory:
            published = self.public.publish(definition, change)
            definition.identifier = published.identifier
            definition.full_path = published.full_path
            definition.directory_path = published.directory_path
        definition.number = core.queue_numbers.next()
        journal = self._journal_of(definition, path)
        definition.journal = journal.number
        self._store(definition, change)
        self._store(journal, change)
        queue = self._register(definition)
        self._register(journal)
        self._tell_multicast(queue)
        core.commit(change)
        return queue

    def multicast_addresses(self) -> set[str]:
        """The multicast addresses whose messages come into queues of this machine."""
        queues = [queue for queue in self.core.queues.values() if not queue.deleted]
        return {queue.definition.multicast_address for queue in queues} - {""}

    def _tell_multicast(self, queue: Queue) -> None:
        """The receiver of multicast messages looks which addresses there are now."""
        if queue.definition.multicast_address:
            self.core.effects.active.add(queue.number)

    def _creatable(self, path: PathName) -> PathName:
        if path.kind is PathKind.SYSTEM or path.subqueue or path.suffix is not Suffix.NONE:
            raise IllegalQueuePathname(f"{path} is not the name of a queue that can be created")
        if not self.is_own(path.computer, None):
            raise IllegalQueuePathname(
                f"a queue is created on its own computer, and {path.computer} is another computer"
            )
        return path.with_computer(self.core.settings.computer_name)

    def _descriptor(self, caller: Caller, supplied: bytes | None) -> bytes:
        security = complete_descriptor(supplied, caller.sid, self.core.settings.default_access)
        if supplied:
            check_owner(unpack_descriptor(security).owner, caller)
        return security

    def _journal_of(self, definition: QueueDefinition, path: PathName) -> QueueDefinition:
        return QueueDefinition(
            number=self.core.queue_numbers.next(),
            queue_type=QueueType.SYSTEM,
            role=QueueRole.JOURNAL,
            pathname=str(path.journal()),
            quota_kib=definition.journal_quota_kib,
            transactional=definition.transactional,
            create_time=definition.create_time,
            modify_time=definition.modify_time,
            security=system_queue_descriptor(),
            parent=definition.number,
        )

    def create_subqueue(self, root: Queue, path: PathName) -> Queue:
        """Make a subqueue, as it is opened for the first time; `drop_empty_subqueue` ends it."""
        definition = QueueDefinition(
            number=self.core.queue_numbers.next(),
            queue_type=root.definition.queue_type,
            role=QueueRole.SUBQUEUE,
            pathname=str(path),
            transactional=root.definition.transactional,
            create_time=self.core.utc,
            modify_time=self.core.utc,
            parent=root.number,
        )
        self._store_first(definition)
        return self._register(definition)

    def drop_empty_subqueue(self, queue: Queue) -> None:
        """A subqueue that is empty and not open goes away by itself."""
        parent = queue.parent
        if (
            queue.definition.role is not QueueRole.SUBQUEUE
            or queue.descriptors
            or queue.state.count
            or queue.deleted
            or parent is None
            or queue.path is None
            or queue.awaited
            or queue.groups
        ):
            return
        change = Change()
        del parent.subqueues[queue.path.subqueue.casefold()]
        self.remove(queue, change)
        self.core.effects.commit(change)

    def forget_names(self, queue: Queue) -> None:
        """No name leads to the queue from now on."""
        self._tell_multicast(queue)
        if queue.path is not None:
            del self._by_key[queue.path.local_key]
        self._by_guid.pop(queue.definition.identifier, None)

    def remove(self, queue: Queue, change: Change) -> None:
        """The queue is deleted; its messages go with it, or stay until transactions have ended."""
        core = self.core
        queue.deleted = True
        self.outgoing_room.answering.discard(queue)
        core.rights_version += 1
        self._guards.pop(queue.number, None)
        core.define(TABLE_QUEUE, _U32.pack(queue.number), None, change)
        for follow in self.on_removal:
            follow(queue, change)
        core.deleted_queues.add(queue.number)
        core.forget_deleted(queue.number)

    # -- properties

    def set_properties(self, queue: Queue, **values: object) -> None:
        """New values of properties, of a public queue in the directory too."""
        role = queue.definition.role
        settable = _SETTABLE.get(role)
        refused = sorted(values) if settable is None else sorted(set(values) - settable)
        if role is not QueueRole.PLAIN and refused:
            raise PropertyNotAllowed(f"{', '.join(refused)} of {queue.name} cannot be changed")
        self._publish_and_change(queue, values)

    def set_security(self, queue: Queue, caller: Caller, security: bytes) -> None:
        """A new security descriptor; what it does not speak of stays as it was."""
        if queue.definition.role not in _SECURED:
            raise PropertyNotAllowed(f"{queue.name} has no security descriptor of its own")
        old, new = self.guard(queue).descriptor, unpack_descriptor(security)
        new.check_masks(QUEUE)
        if not new.owner:
            new = new.with_owner(old.owner)
        if not new.has_dacl:
            new = new.with_dacl(old.dacl)
        if new.sacl is None and old.sacl is not None:
            new = new.with_sacl(old.sacl)
        if new.owner != old.owner:
            self.guard(queue).require(caller, TAKE_QUEUE_OWNERSHIP)
            check_owner(new.owner, caller)
        if new.sacl != old.sacl:
            self.guard(queue).require(caller, ACCESS_SYSTEM_SECURITY)
        self._publish_and_change(queue, {"security": new.pack()})

    def _publish_and_change(self, queue: Queue, values: dict[str, object]) -> None:
        change, definition = Change(), queue.definition
        if definition.queue_type is QueueType.PUBLIC and definition.identifier != NULL_GUID:
            self.public.update(msgspec.structs.replace(definition, **values), values.keys(), change)
        self.change_definition(queue, change, **values)
        self.core.commit(change)

    def change_definition(
        self, queue: Queue, change: Change | None = None, **values: object
    ) -> None:
        """New values of persistent attributes; ModifyTime moves.

        They are a part of the change, which its owner commits, or a step of their own.
        """
        if "multicast_address" in values:
            self.core.effects.active.add(queue.number)
        for name, value in values.items():
            setattr(queue.definition, name, value)
        queue.definition.modify_time = self.core.utc
        queue.set_limit()
        step = Change() if change is None else change
        if queue.journal is not None and "journal_quota_kib" in values:
            queue.journal.definition.quota_kib = queue.definition.journal_quota_kib
            queue.journal.set_limit()
            self._store(queue.journal.definition, step)
        self._guards.pop(queue.number, None)
        self.core.rights_version += 1
        self._store(queue.definition, step)
        if change is None:
            self.core.commit(step)

    def identify(
        self, queue: Queue, identifier: bytes, full_path: str, directory_path: str
    ) -> None:
        """A public queue is known under this identifier from now on."""
        self._by_guid.pop(queue.definition.identifier, None)
        self._by_guid[identifier] = queue
        self.change_definition(
            queue, identifier=identifier, full_path=full_path, directory_path=directory_path
        )

    def guard(self, queue: Queue) -> Guard:
        """The queue's access check; a subqueue has its parent's."""
        root = queue.root
        guard = self._guards.get(root.number)
        if guard is None:
            definition = root.definition
            local = (
                definition.format_name if root.path is None else str(root.path.with_computer("."))
            )
            guard = Guard(
                definition.security or system_queue_descriptor(),
                local,
                authentication=definition.authentication,
            )
            self._guards[root.number] = guard
        return guard

    # -- connector queues

    def provide_connector(self, name: ConnectorName, label: str) -> None:
        """Makes a connector queue unless it is there: anybody may send, no one may read.

        Its label is the name of the site, which may get another.
        """
        core, security = self.core, default_queue_descriptor(ADMINISTRATORS)
        label = label[:QUEUE_LABEL_LENGTH_MAX]
        if (there := self._connectors.get(name.key)) is not None:
            if there.definition.label != label:
                self.change_definition(there, label=label)
            return
        definition = QueueDefinition(
            number=core.queue_numbers.next(),
            queue_type=QueueType.CONNECTOR,
            role=QueueRole.CONNECTOR,
            pathname="",
            label=label,
            format_name=str(name),
            transactional=name.suffix is Suffix.XACTONLY,
            create_time=core.utc,
            modify_time=core.utc,
            security=security,
        )
        self._store_first(definition)
        self._register(definition)

    def connector_queues(self) -> list[Queue]:
        """The connector queues."""
        return list(self._connectors.values())

    def drop_empty_connector(self, queue: Queue) -> None:
        """Takes a connector queue away that has no messages and is not open."""
        if queue.state.count or queue.descriptors or queue.groups:
            return
        change = Change()
        del self._connectors[parse_format_name(queue.definition.format_name).key]
        self.remove(queue, change)
        self.core.effects.commit(change)

    # -- outgoing queues

    def sending_target(
        self,
        name: PathName | FormatName,
        change: Change | None = None,
        answers_at: str = "",
        made_for: str = "",
    ) -> Queue:
        """Where messages for a single-element name go; an outgoing queue is made if need be.

        `made_for` is the address of a machine that is answered; empty for anything else.
        """
        there = self.find_target(name)
        if there is None:
            name = self.format_name(name)
            return self._create_outgoing(name, change, answers_at, source_of(made_for))
        if not made_for:
            self.keep(there)
        return there

    def keep(self, queue: Queue) -> None:
        """The queue has more than answers from now on, and gives way to no other."""
        if queue.definition.made_for:
            self.outgoing_room.answering.discard(queue)
            self.change_definition(queue, made_for="")

    def passing_target(self, name: FormatName, change: Change | None = None) -> Queue:
        """Where messages of other machines go; the queue may be on a machine not known yet."""
        if isinstance(name, PublicName) and self.is_unheard_of(name):
            there = self._outgoing.get(name.key)
            if there is None:
                return self._create_outgoing(name, change)
            self.keep(there)
            return there
        return self.sending_target(name, change)

    def _forget_outgoing(self, queue: Queue, change: Change) -> None:
        del self._outgoing[parse_format_name(queue.definition.format_name).key]
        self.on_idle(queue, change)
        self.remove(queue, change)

    def _create_outgoing(
        self, name: FormatName, change: Change | None, answers_at: str = "", made_for: str = ""
    ) -> Queue:
        """A new outgoing queue (3.1.7.1.5): inactive, without next hops, kept from now on."""
        core = self.core
        self.outgoing_room.require(answering=bool(made_for), change=change)
        published = self.public.find(name.guid) if isinstance(name, PublicName) else None
        definition = QueueDefinition(
            number=core.queue_numbers.next(),
            queue_type=QueueType.PRIVATE,
            role=QueueRole.OUTGOING,
            pathname="",
            label=str(name)[:QUEUE_LABEL_LENGTH_MAX],
            format_name=str(name),
            multicast=isinstance(name, MulticastName),
            base_priority=published.base_priority if published else 0,
            answers_at=answers_at,
            made_for=made_for,
            create_time=core.utc,
            modify_time=core.utc,
        )
        if change is None:
            self._store_first(definition)
        else:
            self._store(definition, change)
        return self._register(definition)

    def all(self) -> list[Queue]:
        """Every queue of messages, outgoing ones too, in order of their numbers."""
        hidden = QueueRole.JOB_FILES
        queues = [queue for _, queue in sorted(self.core.queues.items()) if not queue.deleted]
        return [queue for queue in queues if queue.definition.role is not hidden]

    def outgoing_queues(self) -> list[Queue]:
        """The outgoing queues."""
        return [queue for queue in self.all() if queue.outgoing is not None]
