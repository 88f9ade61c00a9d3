"""Finds the queue for a name: a local one, an outgoing one, or none ([MS-MQDMPR] 3.1.7.1.5)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol as Interface

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import Change
from posthouse.engine.queues.own_names import OwnNames
from posthouse.engine.queues.queue import (
    DEADLETTER,
    DEADXACT,
    JOURNAL,
    ORDER_QUEUE,
    Queue,
    QueueDefinition,
    QueueRole,
    QueueType,
)
from posthouse.model.errors import (
    IllegalFormatName,
    QueueError,
    QueueNotFound,
    UnsupportedFormatNameOperation,
)
from posthouse.model.names import (
    READ_ONLY_SUFFIXES,
    ConnectorName,
    DirectName,
    DistributionListName,
    FormatName,
    MachineName,
    MultipleName,
    PathKind,
    PathName,
    PrivateName,
    Protocol,
    PublicName,
    Suffix,
    direct_name_of,
)
from posthouse.wire.binary.change_notification import NOTIFY_QUEUE_NUMBER

_SYSTEM_NUMBERS = {
    Suffix.DEADLETTER: DEADLETTER,
    Suffix.DEADXACT: DEADXACT,
    Suffix.JOURNAL: JOURNAL,
}
_SERVICE = frozenset({"order_queue$", "notify_queue$", "admin_queue$"})
REFUSED_PROTOCOLS = frozenset({Protocol.IPX, Protocol.SPX})


@dataclass(frozen=True, slots=True)
class PublishedQueue:
    """What the directory has of a public queue."""

    identifier: bytes
    pathname: str
    base_priority: int
    full_path: str
    directory_path: str


class PublicQueues(Interface):
    """The directory, as far as the queue collection needs it."""

    def publish(self, definition: QueueDefinition, change: Change) -> PublishedQueue:
        """Creates the queue's object; raises the directory's refusal."""

    def update(self, definition: QueueDefinition, names: Collection[str], change: Change) -> None:
        """Writes those that changed into the queue's object; raises the directory's refusal."""

    def withdraw(self, definition: QueueDefinition, change: Change) -> None:
        """Deletes the queue's object; raises the directory's refusal."""

    def find(self, identifier: bytes) -> PublishedQueue | None:
        """The queue's object, None when the directory has none."""

    def find_path(self, path: PathName) -> PublishedQueue | None:
        """The object of a queue by its path name, None when none is known."""

    def unknown(self, name: PublicName) -> QueueError:
        """Why messages cannot be sent to a queue that `find` does not find."""


class QueueNames:
    """The names of the queue collection."""

    def __init__(self, core: Ledger, public: PublicQueues) -> None:
        self.core = core
        self.public = public
        self._by_key: dict[str, Queue] = {}
        self._by_guid: dict[bytes, Queue] = {}
        self._outgoing: dict[str, Queue] = {}
        self._connectors: dict[str, Queue] = {}
        self.own = OwnNames(core)

    def is_own(self, host: str, port: int | None) -> bool:
        """Decision 41: own names, and with a port only our own one."""
        return self.own.is_own(host, port)

    # -- queues of this machine

    def local_queue(self, name: PathName | FormatName) -> Queue:
        """The queue of this machine that a name means, or MQ_ERROR_QUEUE_NOT_FOUND."""
        queue = self.find_local(name)
        if queue is None:
            raise self.nothing_to_read(name)
        return queue

    def nothing_to_read(self, name: PathName | FormatName) -> QueueNotFound:
        """Why there are no messages of that queue here."""
        if isinstance(name, ConnectorName):
            return QueueNotFound(
                f"{name} is not a connector queue here: this is not a routing server of "
                "that foreign site",
                "Read it at a machine that is, or make it one: `directory machine create`.",
            )
        if self.missing_subqueue(name) is not None:
            return QueueNotFound(
                f"there is no subqueue {name}: no message is in it",
                "A subqueue comes into being as it is opened for receiving or a message is moved "
                "there, and goes when it is closed and empty.",
            )
        if self._would_be_here(name):
            return QueueNotFound(f"there is no queue {name} here")
        return QueueNotFound(
            f"{name} is a queue of another computer, and can only be sent to from here",
            "Read it at its own queue manager (--url), or over remote read: --user, "
            "--authentication, posthouse.msmq().",
        )

    def _would_be_here(self, name: PathName | FormatName) -> bool:
        """Whether a name that means no queue would mean one of this machine, or none."""
        if isinstance(name, PathName):
            return self._own_path(name) is not None
        if isinstance(name, DirectName):
            return self.is_own(name.host, name.port)
        if isinstance(name, PrivateName | MachineName):
            return name.guid == self.core.guid
        published = self.public.find(name.guid) if isinstance(name, PublicName) else None
        return published is None or self._is_ours(published)

    def find_local(self, name: PathName | FormatName) -> Queue | None:
        """The queue of this machine that a name means, None when there is none."""
        if isinstance(name, PathName):
            own = self._own_path(name)
            return None if own is None else self._by_path(own)
        if isinstance(name, DirectName):
            return self._by_direct(name)
        if isinstance(name, PublicName):
            return self._with_suffix(self._by_guid.get(name.guid), name.suffix)
        if isinstance(name, PrivateName):
            return self._by_number(name)
        if isinstance(name, ConnectorName):
            return self._connectors.get(name.key)
        if isinstance(name, MachineName) and name.guid == self.core.guid:
            return self.core.queues.get(_SYSTEM_NUMBERS[name.suffix])
        return None

    def _own_path(self, path: PathName) -> PathName | None:
        """The path with our computer name, None when it is another computer's."""
        own = self.is_own(path.computer, None)
        if not own and ":" in path.computer:  # with a port, as in a direct name
            try:
                direct = direct_name_of(path)
            except IllegalFormatName:
                return None
            own = self.is_own(direct.host, direct.port)
        return path.with_computer(self.core.settings.computer_name) if own else None

    def _by_direct(self, name: DirectName) -> Queue | None:
        if name.protocol in REFUSED_PROTOCOLS or not self.is_own(name.host, name.port):
            return None
        return self._by_path(_path_of(name))

    def _by_path(self, path: PathName) -> Queue | None:
        if path.kind is PathKind.SYSTEM:
            return self.core.queues.get(_SYSTEM_NUMBERS[path.suffix])
        queue = self._by_key.get(path.parent.local_key)
        if queue is not None and path.subqueue:
            return queue.subqueues.get(path.subqueue.casefold())
        return self._with_suffix(queue, path.suffix)

    def _by_number(self, name: PrivateName) -> Queue | None:
        queue = self.core.queues.get(name.number) if name.guid == self.core.guid else None
        if queue is None or queue.deleted:
            return None
        definition = queue.definition
        private = definition.role is QueueRole.PLAIN and definition.queue_type is QueueType.PRIVATE
        if not private and definition.role is not QueueRole.INTERNAL:
            return None
        return self._with_suffix(queue, name.suffix)

    def _with_suffix(self, queue: Queue | None, suffix: Suffix) -> Queue | None:
        if queue is None or suffix is Suffix.NONE:
            return queue
        return queue.journal if suffix is Suffix.JOURNAL else None

    def missing_subqueue(self, name: PathName | FormatName) -> tuple[Queue, PathName] | None:
        """The parent and path of a subqueue of this machine that does not exist yet."""
        path = name if isinstance(name, PathName) else None
        if isinstance(name, DirectName) and self.is_own(name.host, name.port):
            path = _path_of(name)
        own = None if path is None or not path.subqueue else self._own_path(path)
        parent = None if own is None else self._by_path(own.parent)
        return None if own is None or parent is None else (parent, own)

    # -- where messages go

    def find_outgoing(self, name: PathName | FormatName) -> Queue | None:
        """The outgoing queue for a name, None when there is none."""
        found = self._outgoing.get(self.format_name(name).key)
        if found is None and isinstance(name, PathName):  # from before the directory knew it
            found = self._outgoing.get(direct_name_of(name).key)
        return found

    def format_name(self, name: PathName | FormatName) -> FormatName:
        """What a path name means: a public queue of the directory, or a direct name."""
        if not isinstance(name, PathName):
            return name
        public = name.kind is PathKind.PUBLIC and not name.subqueue
        published = self.public.find_path(name) if public else None
        if published is None:
            return direct_name_of(name)
        return PublicName(published.identifier, name.suffix)

    def find_target(self, name: PathName | FormatName) -> Queue | None:
        """Where messages for a single-element name go: a queue here, or an outgoing one.

        None: to an outgoing queue that does not exist yet. Raises why nothing can be sent there.
        """
        queue = self.find_local(name)
        if queue is not None:
            return queue
        remote = self.format_name(name)
        self._check_remote(remote)
        return self._outgoing.get(remote.key)

    def _check_remote(self, name: FormatName) -> None:
        """Every reason why a name that is not here is not elsewhere either."""
        if isinstance(name, MachineName | MultipleName | DistributionListName):
            raise UnsupportedFormatNameOperation(f"messages cannot be sent to {name}")
        if isinstance(name, DirectName):
            if name.protocol in REFUSED_PROTOCOLS:
                raise UnsupportedFormatNameOperation(
                    f"{name.protocol} is a transport this program does not have"
                )
            if name.subqueue:
                raise cannot_send_to_subqueue(name)
            own = self.is_own(name.host, name.port)
        elif isinstance(name, PrivateName):
            own = name.guid == self.core.guid
        elif isinstance(name, PublicName):
            own = self._public_is_own(name)
        else:
            own = False
        if own:
            raise QueueNotFound(f"there is no queue {name} here")
        if name.suffix in READ_ONLY_SUFFIXES:
            raise UnsupportedFormatNameOperation(f"{name} is a queue that cannot be sent to")

    def _public_is_own(self, name: PublicName) -> bool:
        published = self.public.find(name.guid)
        if published is None:
            raise self.public.unknown(name)
        return self._is_ours(published)

    def is_unheard_of(self, name: PublicName) -> bool:
        """Whether a queue is neither here nor known to the directory."""
        return self.find_local(name) is None and self.public.find(name.guid) is None

    def _is_ours(self, published: PublishedQueue) -> bool:
        return self.is_own(PathName.parse(published.pathname).computer, None)


def cannot_send_to_subqueue(name: object) -> UnsupportedFormatNameOperation:
    """Return the refusal to send to a subqueue, whether it exists or not."""
    return UnsupportedFormatNameOperation(
        f"messages cannot be sent to a subqueue, as {name} is",
        "Send to the queue itself; `posthouse message move` brings messages into its subqueues.",
    )


def is_service_queue(name: FormatName) -> bool:
    """Whether a name means a queue by which queue managers talk: [MS-MQQB] note 2, note 62."""
    if isinstance(name, PrivateName):
        return name.number in (ORDER_QUEUE, NOTIFY_QUEUE_NUMBER)
    return isinstance(name, DirectName) and name.private and name.queue.casefold() in _SERVICE


def _path_of(name: DirectName) -> PathName:
    """The path of a direct name on its own computer."""
    return PathName(".", name.queue, name.kind, name.subqueue, name.suffix)
