"""Queues as protocols use them: find, create, open, change ([MS-MQDMPR] 3.1.7.1.3-7)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from posthouse.engine.ledger.books import Books, lines_of
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import ClaimedMessages
from posthouse.engine.ledger.state import QueueState
from posthouse.engine.machine.facade import MachineFacade
from posthouse.engine.messages.moving import Moving
from posthouse.engine.messages.poison import Poison
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.deletion import QueueDeletion
from posthouse.engine.queues.empty_reads import claimed, holders, no_message
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType, QueueShareMode
from posthouse.engine.queues.opening import Opening
from posthouse.engine.queues.queue import Queue
from posthouse.model.errors import AccessDenied, PropertyNotAllowed, QueueError
from posthouse.model.names import FormatName, MultipleName, PathName, parse_name, parse_path
from posthouse.model.properties import QueueProperties
from posthouse.security.access import Caller, Guard
from posthouse.security.rights import (
    CHANGE_QUEUE_PERMISSIONS,
    DELETE_QUEUE,
    GET_QUEUE_PROPERTIES,
    QUEUE_GENERIC_ALL,
    SET_QUEUE_PROPERTIES,
)

_PROPERTIES = frozenset(
    {
        "label",
        "type_guid",
        "journaling",
        "quota_kib",
        "journal_quota_kib",
        "authentication",
        "privacy_level",
        "multicast_address",
        "base_priority",
        "code_page",
        "max_aborts",
        "poison_queue",
        "retry_delays",
    }
)


def checked_properties(queue: Queue, values: dict[str, object]) -> dict[str, object]:
    """New values of properties as they are kept; refuses what cannot be changed or is wrong."""
    unknown = set(values) - _PROPERTIES
    if unknown:
        raise PropertyNotAllowed(f"{', '.join(sorted(unknown))} cannot be changed")
    current = queue.definition
    known: dict[str, Any] = {name: getattr(current, name) for name in _PROPERTIES}
    properties = QueueProperties(**known | values)
    properties.multicast_address = properties.multicast_address or None
    properties.transactional = current.transactional
    properties.validate()
    checked = {name: getattr(properties, name) for name in values}
    if "multicast_address" in checked:
        checked["multicast_address"] = properties.multicast_address or ""
    return checked


Name = str | PathName | FormatName


class QueuesFacade:
    """Every event of queues, and what doors ask of them."""

    numbered: Callable[[int], Queue]
    """The queue with a number, which is there."""
    get: Callable[[int], Queue | None]
    """The queue with a number; None: there is none."""
    guard: Callable[[Queue], Guard]
    """Who may do what with a queue."""

    def __init__(
        self,
        core: Ledger,
        machine: MachineFacade,
        collection: Queues,
        opening: Opening,
        deletion: QueueDeletion,
        groups: ClaimedMessages,
        moving: Moving,
        poison: Poison,
        expand: Callable[[FormatName], FormatName],
    ) -> None:
        self.core = core
        self.machine = machine
        self.collection = collection
        self.opening = opening
        self.deletion = deletion
        self._groups = groups
        self.moving = moving
        self.poison = poison
        self.expand = expand  # lists of queues
        self.numbered = core.queues.__getitem__
        self.get = core.queues.get
        self.guard = collection.guard

    # -- finding

    def all(self) -> list[Queue]:
        """Every queue here, in the order in which they were made."""
        return self.collection.all()

    def outgoing_queues(self) -> list[Queue]:
        """Every queue that leads elsewhere."""
        return self.collection.outgoing_queues()

    def states(self) -> Iterable[tuple[int, QueueState]]:
        """What every queue holds, by its number."""
        return self.core.state.queues.items()

    def find_local(self, name: PathName | FormatName) -> Queue | None:
        """The queue here that a name means."""
        return self.collection.find_local(name)

    def local_queue(self, name: PathName | FormatName) -> Queue:
        """The queue here that a name means; refused where there is none."""
        return self.collection.local_queue(name)

    def find_outgoing(self, name: PathName | FormatName) -> Queue | None:
        """The outgoing queue of a name."""
        return self.collection.find_outgoing(name)

    def nothing_to_read(self, name: PathName | FormatName) -> QueueError:
        """Why nothing can be read under a name."""
        return self.collection.nothing_to_read(name)

    def multicast_addresses(self) -> set[str]:
        """The addresses that queues here listen to."""
        return self.collection.multicast_addresses()

    def books_apart(self, queue: Queue) -> tuple[Books, Books]:
        """A queue's durable and express books apart; this looks at every message."""
        return lines_of(self.core.state, self.core.locks, queue)

    # -- what readers find

    def claimed_messages(self, queue: Queue) -> int:
        """How many messages of a queue a group has claimed, and only its readers get."""
        return claimed(self._groups, queue)

    def why_empty(self, queue: Queue) -> str:
        """Who has the messages of a queue that cannot be received; empty: there are none."""
        if not holders(self._groups, self.poison, queue):
            return ""
        error = no_message(
            self._groups, self.poison, queue, f"no message in {queue.name}", destructive=True
        )
        return f"{error.cause}. {error.remedy}"

    # -- rights

    def require(self, queue: Queue, caller: Caller, access: QueueAccessType) -> None:
        """Refuses a caller who may not open the queue so."""
        self.opening.check_role(queue, access)
        self.opening.require(queue, caller, access)

    def would_open(self, name: Name, access: QueueAccessType, caller: Caller) -> list[Queue]:
        """The queues that a name would open; not those that would be made by that."""
        parsed = self._expanded(name)
        names = parsed.names if isinstance(parsed, MultipleName) else [parsed]
        found = [self.opening.would_open(one, access, caller) for one in names]
        return [queue for queue in found if queue is not None]

    # -- events

    def create_queue(
        self,
        path: str | PathName,
        properties: QueueProperties,
        caller: Caller,
        *,
        security: bytes | None = None,
        skip_directory: bool = False,
    ) -> Queue:
        """Create Queue (3.1.7.1.3)."""
        self.machine.require_ready()
        name = parse_path(path) if isinstance(path, str) else path
        scope = caller.scope(str(name.with_computer(".")))
        if not caller.is_administrator or QUEUE_GENERIC_ALL & ~scope:
            raise AccessDenied(f"{caller.name} may not create {name}")
        full_name = name.with_computer(self.core.settings.computer_name)
        self.poison.check(str(full_name), properties.poison_queue, caller)
        return self.collection.create(
            name, properties, caller, security=security, skip_directory=skip_directory
        )

    def delete_queue(self, name: Name, caller: Caller, *, skip_directory: bool = False) -> None:
        """Delete Queue (3.1.7.1.4)."""
        queue = self._local(name)
        self.collection.guard(queue).require(caller, DELETE_QUEUE)
        self.deletion.delete(queue, skip_directory=skip_directory)

    def set_queue(self, name: Name, caller: Caller, **values: object) -> None:
        """Changes properties of a queue; a queue stays transactional or not for its life."""
        queue = self._local(name)
        self.collection.guard(queue).require(caller, SET_QUEUE_PROPERTIES)
        checked = checked_properties(queue, values)
        self.poison.check(queue.name, str(checked.get("poison_queue", "")), caller)
        self.collection.set_properties(queue, **checked)

    def set_queue_security(self, name: Name, caller: Caller, security: bytes) -> None:
        """Replaces a queue's security descriptor, kept losslessly."""
        queue = self._local(name)
        self.collection.guard(queue).require(caller, CHANGE_QUEUE_PERMISSIONS)
        self.collection.set_security(queue, caller, security)

    def queue_properties(self, name: Name | Queue, caller: Caller) -> Queue:
        """A queue, for somebody who may look at its properties."""
        queue = name if isinstance(name, Queue) else self._local(name)
        self.collection.guard(queue).require(caller, GET_QUEUE_PROPERTIES)
        return queue

    def _local(self, name: Name) -> Queue:
        self.machine.require_ready()
        return self.collection.local_queue(parse_name(name) if isinstance(name, str) else name)

    def open_queue(
        self,
        name: Name,
        access: QueueAccessType,
        caller: Caller,
        *,
        share: QueueShareMode = QueueShareMode.DENY_NONE,
        association: object = None,
    ) -> OpenQueueDescriptor:
        """Open Queue (3.1.7.1.5)."""
        self.machine.require_ready()
        return self.opening.open(self._expanded(name), access, share, caller, association)

    def _expanded(self, name: Name) -> PathName | FormatName:
        parsed = parse_name(name) if isinstance(name, str) else name
        return parsed if isinstance(parsed, PathName) else self.expand(parsed)

    def close_queue(self, descriptor: OpenQueueDescriptor, *, in_doubt: bool = False) -> None:
        """Close Queue (3.1.7.1.6); in doubt: its reader may have had what it read."""
        self.opening.close(descriptor, in_doubt=in_doubt)

    def check_rights_of_now(self, descriptor: OpenQueueDescriptor, caller: Caller) -> None:
        """The caller goes on with an open queue: their rights are those of this moment."""
        descriptor.caller, descriptor.checked = caller, -1
        self.opening.check(descriptor, descriptor.access)

    def purge_queue(self, descriptor: OpenQueueDescriptor) -> int:
        """Purge Queue (3.1.7.1.7). Returns how many messages it found."""
        return self.moving.purge(self.opening.check(descriptor, QueueAccessType.RECEIVE))

    def purgeable(self, descriptor: OpenQueueDescriptor) -> int:
        """How many messages a purge would find."""
        return self.moving.purgeable(descriptor.target())

    def add_own_port(self, port: int) -> None:
        """A door of this queue manager listens there (decision 41)."""
        self.collection.own.add_port(port)

    def add_own_address(self, address: str) -> None:
        """A connection came to this address of the machine."""
        self.collection.own.add_address(address)

    def set_interfaces(self, addresses: Collection[str]) -> bool:
        """The interfaces of the machine have these addresses now; True if they had others."""
        return self.collection.own.set_interfaces(addresses)

    def own_hosts(self) -> frozenset[str]:
        """Every name and address of this machine."""
        return self.collection.own.hosts()

    def addressed(self, name: FormatName) -> FormatName:
        """A name that another computer has used, as this machine calls the queue."""
        return self.collection.own.addressed(name)

    def refused_names(self) -> list[str]:
        """Names of messages that were refused because they are not names of this machine."""
        return list(self.collection.own.refused)
