"""The directory as protocols use it: public queues, routes, changes, the mirror of a shared one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from posthouse.directory import objects
from posthouse.directory.authority import Changes
from posthouse.directory.base import Filter, Found, equals
from posthouse.directory.document.document import Difference, Document, Holdings
from posthouse.directory.mirror import Order
from posthouse.directory.objects import DirectoryObject
from posthouse.directory.queue_path import QueuePath
from posthouse.directory.routing import Hops, Topology
from posthouse.engine.directory.authority_calls import Answered, AuthorityNeeded
from posthouse.engine.directory.change_notices import Notices
from posthouse.engine.directory.changes import DirectoryChanges, NamedStep
from posthouse.engine.directory.connectors import Connectors
from posthouse.engine.directory.entries import DirectoryEntries, FoundQueues, QueuePlace
from posthouse.engine.directory.mirroring import DirectoryState, Mirroring
from posthouse.engine.directory.public_queues import DirectoryOfQueues
from posthouse.engine.machine.facade import MachineFacade
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import Queue
from posthouse.model.names import parse_format_name
from posthouse.security.access import Caller

T = TypeVar("T")


class DirectoryFacade:
    """The directory's methods for protocols and operators."""

    def __init__(
        self,
        machine: MachineFacade,
        queues: DirectoryOfQueues,
        changes: DirectoryChanges,
        mirroring: Mirroring,
        notices: Notices,
        connectors: Connectors,
        registry: Queues,
    ) -> None:
        self.machine = machine
        self.queues = queues
        self.service = queues.service
        self.changes = changes
        self.entries = DirectoryEntries(queues, changes, registry)
        self.mirroring = mirroring
        self.notices = notices
        self.connectors = connectors

    # -- names

    def get_queue_path(self, name: str) -> QueuePath:
        """Get Queue Path (3.1.7.1.26)."""
        return self.queues.queue_path(parse_format_name(name))

    def find_queues(self, filters: Sequence[Filter], caller: Caller, limit: int) -> FoundQueues:
        """Public queues that fit."""
        return self.entries.find_queues(filters, caller, limit)

    def place(self, text: str) -> QueuePlace:
        """Where a queue is read."""
        return self.entries.place(text)

    def known_queue(self, guid: bytes) -> Found[objects.Queue]:
        """A public queue by its identifier, as it was known last while the directory is away."""
        return self.service.known(objects.Queue, equals("identifier", guid), self.machine.now_ms)

    def known_machine(self, guid: bytes) -> objects.QueueManager | None:
        """A queue manager by its identifier."""
        filters = equals("identifier", guid)
        return self.service.known(objects.QueueManager, filters, self.machine.now_ms).value

    def machine_named(self, name: str) -> objects.QueueManager | None:
        """A queue manager of our copy of the directory, by its computer's name."""
        return self.queues.directory.known(objects.QueueManager, equals("computer_name", name))

    def own_queue_manager(self) -> objects.QueueManager:
        """Our own object."""
        return self.queues.own_queue_manager()

    def listens_at(self, addresses: tuple[str, ...]) -> None:
        """Enters the addresses of the listeners into the own object."""
        self.queues.listens_at(addresses)

    # -- routes

    @property
    def versions(self) -> tuple[int, int]:
        """They move when routes, or queues, may have changed."""
        return self.service.version, self.service.queues_version

    def topology(self) -> Topology:
        """Sites, links and routing servers; as they were, while they cannot be read."""
        return self.service.topology(self.machine.now_ms)

    def next_hops(self, guid: bytes) -> Hops:
        """The machines that get messages for a queue manager; raises NoRoute, with the reason."""
        return self.service.next_hops(guid, self.machine.now_ms)

    def detours(self, guid: bytes) -> list[bytes]:
        """Who may get through to a machine of our site that we cannot reach, the best first."""
        return self.service.detours(guid, self.machine.now_ms)

    def routes_for_us(self, guid: bytes) -> bool:
        """Whether messages of others may come to us from there, acknowledgments among them."""
        return self.service.routes_for_us(guid, self.machine.now_ms)

    def route(self, source: str, target: str) -> list[NamedStep]:
        """The way of a message between two machines, step by step."""
        return self.changes.route(source, target)

    def reason_of(self, queue: Queue) -> str:
        """Why a queue does not get or give messages: its connector, or a shared directory."""
        return self.connectors.state_of(queue) or self.mirroring.reason_of(queue)

    # -- changes

    def sites(self) -> list[objects.Site]:
        """Every site."""
        return self.changes.sites()

    def holdings(self) -> Holdings:
        """Everything in the directory."""
        return self.changes.holdings()

    def document(self) -> Document:
        """Everything in the directory, as a document."""
        return self.changes.document()

    def take_in(
        self,
        document: Document,
        *,
        prune: bool,
        dry_run: bool,
        only: Collection[str] | None = None,
    ) -> Difference:
        """Changes the directory to match the document, in one step of the log."""
        return self.changes.take_in(document, prune=prune, dry_run=dry_run, only=only)

    def remove(self, kind: str, name: str, *, dry_run: bool) -> DirectoryObject:
        """Removes an object by its name."""
        return self.changes.remove(kind, name, dry_run=dry_run)

    def user(self, name: str) -> objects.User:
        """A user of the directory, by name."""
        return self.changes.user(name)

    def register(
        self,
        sid: bytes,
        name: str,
        certificates: Iterable[bytes],
        withdrawn: Iterable[bytes],
        *,
        dry_run: bool,
    ) -> Difference:
        """Enters a user with certificates, and takes out others by their digests."""
        return self.entries.register(sid, name, certificates, withdrawn, dry_run=dry_run)

    # -- the authority of a shared directory

    @property
    def is_shared(self) -> bool:
        """Whether this is a mirror of a directory that others share."""
        return self.queues.mirror is not None

    @property
    def source(self) -> str:
        """Where the directory comes from; empty: it is our own."""
        return self.mirroring.source

    def state(self) -> DirectoryState:
        """How a shared directory stands."""
        return self.mirroring.state()

    def again(self, need: AuthorityNeeded, answer: Answered, call: Callable[[], T]) -> T:
        """Makes a call once more, with one more answer of the authority."""
        return self.queues.asking.again(need, answer, call)

    def away(self, reason: str) -> None:
        """The authority does not answer."""
        self.mirroring.away(reason)

    def begin_again(self) -> None:
        """Has everything asked for again."""
        self.mirroring.begin_again()

    def may_take(self, changes: Changes) -> bool:
        """Whether changes are taken in at all."""
        return self.mirroring.may_take(changes)

    def take(self, changes: Changes) -> list[Order] | None:
        """Takes changes in; returns what is to be entered there. None: they were not taken in."""
        return self.mirroring.take(changes)

    def take_ahead(self, values: Sequence[DirectoryObject]) -> None:
        """Takes a portion of many objects in."""
        self.mirroring.take_ahead(values)

    def entered(self, answers: Sequence[tuple[Order, Answered]]) -> None:
        """What the authority answered to what we had entered."""
        self.mirroring.entered(answers)

    def refresh_with(self, refresh: Callable[[bool], None]) -> None:
        """Has the authority asked by this; with True for everything."""
        self.notices.refresh = refresh
