"""The engine's side of the directory: public queues, the own object, Expand Format Name.

[MS-MQDMPR] 3.1.3, 3.1.7.1.18-26, 3.1.7.3.8. Objects of the embedded directory are records of the
same log; those that belong to a queue's creation or deletion are in the same atomic step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

import msgspec

from posthouse.directory import objects
from posthouse.directory.base import DirectoryOperationResult, equals
from posthouse.directory.embedded import EmbeddedDirectory
from posthouse.directory.expand import directory_reader, expand_format_name
from posthouse.directory.mirror import Action, MirroredDirectory, Order
from posthouse.directory.queue_path import QueuePath, get_queue_path
from posthouse.directory.service import DirectoryService, DirectoryTimers
from posthouse.engine.directory.authority_calls import Asking
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import TABLE_DIRECTORY, Change
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.naming import PublishedQueue
from posthouse.engine.queues.queue import JOURNAL, Queue, QueueDefinition, QueueRole
from posthouse.model.errors import (
    DsError,
    IllegalPropertyValue,
    NoDs,
    QueueError,
    QueueExists,
    UnsupportedFormatNameOperation,
)
from posthouse.model.guids import NULL_GUID, parse_guid
from posthouse.model.names import FormatName, PathName, PublicName
from posthouse.model.properties import QueuePrivacyLevel
from posthouse.model.properties import QueueType as DirectoryQueueType

_RESULT = DirectoryOperationResult
# Attributes of its object that only the queue manager itself can provide.
_SAID_BY_US = (
    "computer_name",
    "qualified_computer_name",
    "queue_manager_version",
    "operating_system_version",
    "routing_server",
    "addresses",
    "public_encryption_key_list",
    "public_signing_key_list",
)
# What the directory may change of a queue, by the names of its definition.
_FOLLOWED = {
    "label": "label",
    "type_guid": "type",
    "journaling": "journaling",
    "quota_kib": "quota",
    "journal_quota_kib": "journal_quota",
    "authentication": "authentication",
    "multicast_address": "multicast_address",
    "base_priority": "base_priority",
}


def refusal(status: DirectoryOperationResult, what: str, why: str = "") -> QueueError:
    """The error a caller gets for a directory's refusal."""
    if status is _RESULT.DIRECTORY_NOT_CONNECTED:
        because = f": {why}" if why else ""
        return NoDs(f"the directory cannot be reached to {what}{because}")
    if status is _RESULT.OBJECT_ALREADY_EXISTS:
        return QueueExists(f"the directory refused to {what}: {why or 'it has such an object'}")
    return DsError(f"the directory refused to {what}: {why or status.value}")


def _published(queue: objects.Queue) -> PublishedQueue:
    return PublishedQueue(
        queue.identifier,
        queue.pathname,
        queue.base_priority,
        queue.full_path,
        queue.directory_path,
    )


def _comparable(value: objects.QueueManager, name: str) -> object:
    found = getattr(value, name)
    return found.casefold() if isinstance(found, str) else found


class DirectoryOfQueues:
    """PublicQueues and LocalObjects in one: both sides between engine and directory."""

    def __init__(self, core: Ledger) -> None:
        self.core = core
        self.asking = Asking()
        self._addresses: tuple[str, ...] = ()  # where our doors were opened
        self._quota_kib = core.settings.machine_quota_kib  # as the operator has set it
        self.own_keys: Callable[[], bytes] = bytes  # what others encrypt for us with
        self.own_signing_keys: Callable[[], bytes] = bytes
        self._change: Change | None = None
        self._own: objects.QueueManager | None = None
        settings = core.settings
        items = core.state.of_table(TABLE_DIRECTORY)
        self.mirror: MirroredDirectory | None = None
        self.directory: EmbeddedDirectory
        if settings.directory.source:
            self.mirror = MirroredDirectory.load(items, self._define, core.new_guid)
            self.mirror.ask, self.mirror.connected = self.asking.ask, False
            self.mirror.reason = "it has not been asked yet"
            self.directory = self.mirror
        else:
            self.directory = EmbeddedDirectory.load(items, self._define, core.new_guid)
        self.service = DirectoryService(
            self.directory,
            self,
            DirectoryTimers(
                settings.directory.sites_update_s * 1000,
                settings.directory.site_gates_update_s * 1000,
                settings.directory.online_s * 1000,
            ),
            integrated=settings.directory.integrated,
            recall=self.mirror,
        )

    def connect(self, registry: Queues) -> None:
        """Parts that are made after this one, since they need it."""
        self._registry = registry

    # -- start and the clock

    def start(self) -> None:
        """The directory steps of Initialization (3.1.3); the own object states who we are now."""
        core = self.core
        if not self.service.integrated:
            return
        if self.mirror is None:
            self.enter_own_object()
            self._follow_computer_name()
        else:
            own = self.mirror.known(objects.QueueManager, equals("identifier", core.guid))
            if own is not None:
                self.update_own_queue_manager(own)
        self.service.initialize(core.now_ms)

    def _follow_computer_name(self) -> None:
        """After a rename: the objects of our public queues have path names of their computer."""
        core = self.core
        for queue in self._registry.all():
            known = self._public_queue(queue.definition.identifier) and self.directory.known(
                objects.Queue, equals("identifier", queue.definition.identifier)
            )
            if known and known.pathname != queue.definition.pathname:
                named = self.directory.rename_queue(self.object_of(queue.definition), core.utc)
                self._registry.identify(
                    queue, named.identifier, named.full_path, named.directory_path
                )

    def enter_own_object(self) -> None:
        """Makes the own object where it is missing, and sets what only we can set of it."""
        core = self.core
        for order in self.own_object_orders():
            value, utc_s = order.value, order.utc_s
            if order.action is Action.CREATE:
                self.service.create_directory_object(value, core.now_ms, utc_s)
            else:
                self.service.write_directory(value, core.now_ms, utc_s, order.attributes)

    def listens_at(self, addresses: tuple[str, ...]) -> None:
        """Where others reach us, as far as the settings do not name it."""
        self._addresses = addresses
        self.say_who_we_are()

    def say_who_we_are(self) -> None:
        """The own object is looked at again; a mirror's with the next changes (`Mirroring`)."""
        if self.service.integrated and self.mirror is None:
            change = Change()
            with self.changing(change):
                self.enter_own_object()
            self.core.commit(change)

    def own_object_orders(self) -> list[Order]:
        """What the directory lacks of this queue manager."""
        core = self.core
        known = self.directory.known(objects.QueueManager, equals("identifier", core.guid))
        wanted = self._described()
        if known is None:
            sited = msgspec.structs.replace(wanted, site_identifier_list=self._first_sites())
            return [Order(Action.CREATE, sited, core.utc)]
        changed = frozenset(self.own_words(known))
        return [Order(Action.WRITE, wanted, core.utc, changed)] if changed else []

    def own_words(self, known: objects.QueueManager) -> dict[str, object]:
        """The values in an object of this queue manager that only we can set."""
        wanted = self._described()
        return {
            name: getattr(wanted, name)
            for name in _SAID_BY_US
            if _comparable(wanted, name) not in (_comparable(known, name), (), b"", "")
        }

    def _first_sites(self) -> tuple[bytes, ...]:
        """The configured site of a queue manager that the directory does not have yet (3.1.3)."""
        site = self.core.settings.directory.site
        if not site:
            return ()
        try:
            return (parse_guid(site),)
        except IllegalPropertyValue:
            found = self.directory.known(objects.Site, equals("name", site))
        if found is None:
            self.core.event("directory_site_unknown", site=site)
            return ()
        return (found.identifier,)

    def _define(self, key: bytes, value: bytes | None) -> None:
        self.core.define(TABLE_DIRECTORY, key, value, self._change)

    @contextmanager
    def changing(self, change: Change) -> Iterator[None]:
        """What happens to directory objects meanwhile is part of this step of the log."""
        self._change = change
        try:
            yield
        finally:
            self._change = None

    def refusal(self, status: DirectoryOperationResult, what: str) -> QueueError:
        """The error a caller gets, in the authority's words where it has some."""
        if self.mirror is None:
            return refusal(status, what)
        away = status is _RESULT.DIRECTORY_NOT_CONNECTED
        return refusal(status, what, self.mirror.reason if away else self.mirror.refusal)

    # -- PublicQueues

    def publish(self, definition: QueueDefinition, change: Change) -> PublishedQueue:
        """Create Directory Object (3.1.7.1.18) for a new public queue."""
        core = self.core
        with self.changing(change):
            outcome = self.service.create_directory_object(
                self.object_of(definition), core.now_ms, core.utc
            )
        if outcome.status is not _RESULT.SUCCESS:
            raise self.refusal(outcome.status, f"publish {definition.pathname}")
        published = self.find(outcome.identifier)
        assert published is not None
        return published

    def update(self, definition: QueueDefinition, names: Collection[str], change: Change) -> None:
        """Write Directory (3.1.7.1.24) for a public queue of which these attributes change.

        No others are written: while the authority is asked, somebody else may change them.
        """
        core = self.core
        attributes = {_FOLLOWED.get(name, name) for name in names}
        attributes &= objects.Queue.directory_attributes()
        with self.changing(change):
            outcome = self.service.write_directory(
                self.object_of(definition), core.now_ms, core.utc, attributes
            )
        if outcome.status is not _RESULT.SUCCESS:
            raise self.refusal(outcome.status, f"change {definition.pathname}")

    def withdraw(self, definition: QueueDefinition, change: Change) -> None:
        """Delete Directory Object (3.1.7.1.19) of a public queue."""
        with self.changing(change):
            outcome = self.service.delete_directory_object(
                self.object_of(definition), self.core.now_ms
            )
        if outcome.status not in (_RESULT.SUCCESS, _RESULT.OBJECT_NOT_FOUND):
            raise self.refusal(outcome.status, f"withdraw {definition.pathname}")

    def find(self, identifier: bytes) -> PublishedQueue | None:
        """The object of a public queue, None only when the directory surely has none."""
        wanted = equals("identifier", identifier)
        found = self.service.known(objects.Queue, wanted, self.core.now_ms)
        if found.status is _RESULT.DIRECTORY_NOT_CONNECTED:
            raise self.refusal(found.status, "look up a public queue")
        return None if found.value is None else _published(found.value)

    def unknown(self, name: PublicName) -> QueueError:
        """What a sender is told: while the directory is away, its content is unknown."""
        if self.service.offline:
            return self.refusal(_RESULT.DIRECTORY_NOT_CONNECTED, f"look up {name}")
        return UnsupportedFormatNameOperation(
            f"the directory has no queue {name}",
            "`posthouse directory queue list` shows which there are.",
        )

    def find_path(self, path: PathName) -> PublishedQueue | None:
        """A public queue by its path name, the computer by either of its names; as last known."""
        computer = self._computer_name(path.computer)
        wanted = equals("pathname", str(path.with_computer(computer).parent))
        found = self.service.known(objects.Queue, wanted, self.core.now_ms).value
        return None if found is None else _published(found)

    def _computer_name(self, name: str) -> str:
        """The computer name of a name with dots, which may be its name in DNS."""
        if "." not in name.strip("."):
            return name
        wanted = equals("qualified_computer_name", name)
        found = self.service.known(objects.QueueManager, wanted, self.core.now_ms).value
        return name if found is None else found.computer_name

    # -- names

    def expand(self, name: FormatName) -> FormatName:
        """Expand Format Name (3.1.7.3.8)."""
        return expand_format_name(name, directory_reader(self.service, self.core.now_ms))

    def queue_path(self, name: FormatName) -> QueuePath:
        """Get Queue Path (3.1.7.1.26)."""
        return get_queue_path(name, self.service, self, self.core.now_ms)

    # -- LocalObjects

    def own_queue_manager(self) -> objects.QueueManager:
        """LocalQueueManager with its directory attributes."""
        if self._own is None or self._own.identifier != self.core.guid:
            self._own = self._described()
        return self._own

    def _described(self) -> objects.QueueManager:
        settings = self.core.settings
        return objects.QueueManager(
            identifier=self.core.guid,
            computer_name=settings.computer_name,
            qualified_computer_name=settings.qualified_computer_name,
            create_time=self.core.utc,
            modify_time=self.core.utc,
            queue_manager_quota=self._quota_kib,
            journal_quota=settings.journal_quota_kib,
            routing_server=settings.queue_manager.routing_server,
            queue_manager_version=settings.software_version,
            operating_system_version=settings.operating_system_version,
            addresses=settings.directory.addresses or self._addresses,
            public_encryption_key_list=self.own_keys(),
            public_signing_key_list=self.own_signing_keys(),
        )

    def local_queues(self) -> Iterable[objects.Queue]:
        """QueueCollection, as the directory would show it."""
        return [
            self.object_of(queue.definition)
            for queue in self._registry.all()
            if queue.definition.role in (QueueRole.PLAIN, QueueRole.DEAD_LETTER)
        ]

    def update_own_queue_manager(self, value: objects.QueueManager) -> None:
        """Takes over directory attributes of the own object ([MS-MQCN], machine changed).

        A quota set in the directory holds beside the one that the operator of this machine set. The
        descriptor is kept and shown, but the accounts decide who may do what (docs/deviations.md).
        """
        self._own = value
        core = self.core
        if self.mirror is not None:
            quota_kib = min(self._quota_kib, value.queue_manager_quota)
            if quota_kib != core.settings.machine_quota_kib:
                core.settings = core.settings.with_machine_quota(quota_kib)
            journal = core.queues[JOURNAL]
            journal.ceiling_kib = value.journal_quota
            journal.set_limit()

    def update_local_queue(self, value: objects.Queue) -> None:
        """Takes over the values of an own public queue from the directory."""
        queue = self._public_queue(value.identifier)
        if queue is None:
            return
        said = {name: getattr(value, attribute) for name, attribute in _FOLLOWED.items()}
        said["privacy_level"] = int(value.privacy_level)
        said["security"] = value.security or queue.definition.security
        if queue.definition.transactional:  # it stays transactional, whatever the directory has now
            said["multicast_address"] = ""
        changed = {
            name: now for name, now in said.items() if now != getattr(queue.definition, name)
        }
        if changed:
            self._registry.change_definition(queue, **changed)

    def _public_queue(self, identifier: bytes) -> Queue | None:
        queue = self._registry.find_local(PublicName(identifier))
        ours = queue is not None and queue.definition.role is QueueRole.PLAIN
        return queue if ours and identifier != NULL_GUID else None

    def object_of(self, definition: QueueDefinition) -> objects.Queue:
        """A queue's directory attributes."""
        settings = self.core.settings
        path = PathName.parse(definition.pathname)
        return objects.Queue(
            identifier=definition.identifier,
            pathname=definition.pathname,
            qualified_pathname=str(path.with_computer(settings.qualified_computer_name)),
            label=definition.label,
            create_time=definition.create_time,
            modify_time=definition.modify_time,
            type=definition.type_guid,
            journaling=definition.journaling,
            quota=definition.quota_kib,
            journal_quota=definition.journal_quota_kib,
            authentication=definition.authentication,
            privacy_level=QueuePrivacyLevel(definition.privacy_level),
            transactional=definition.transactional,
            multicast_address=definition.multicast_address,
            security=definition.security,
            base_priority=definition.base_priority,
            full_path=definition.full_path,
            directory_path=definition.directory_path,
            queue_manager_identifier=self.core.guid,
            queue_type=DirectoryQueueType(definition.queue_type.value),
            private_queue_number=definition.number,
        )
