"""The directory as the rest of the queue manager uses it ([MS-MQDMPR] 3.1.7.1.18 to .25).

It notices when the directory cannot be reached, answers from local objects then, and looks again
on a timer. Time comes in as an argument: `now_ms` from the monotonic clock, `utc_s` for stamps.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from posthouse.directory.base import (
    GET_PROPERTIES,
    Begun,
    Directory,
    DirectoryOperationResult,
    Filter,
    Found,
    Kind,
    SortOrder,
    allowed,
    check_attributes,
    check_filters,
    concealed,
    equals,
    matches,
    projected,
)
from posthouse.directory.objects import (
    DirectoryObject,
    Enterprise,
    Queue,
    QueueManager,
    RoutingLink,
    Site,
    User,
)
from posthouse.directory.routing import (
    Hops,
    NoRoute,
    Topology,
    connector_of,
    detours,
    next_hops,
)
from posthouse.model.errors import DsError
from posthouse.model.guids import NULL_GUID, format_guid
from posthouse.security.access import Caller

ReadMachine = Callable[[bytes], Found[QueueManager]]


def gate_identifiers(site_identifier: bytes, links: Iterable[RoutingLink]) -> list[bytes]:
    """The machines that links of the site name as gates, each once, in the order of the links."""
    named = (
        gate
        for link in links
        if link.touches(site_identifier)
        for gate in link.site_gate_identifier_list
    )
    return list(dict.fromkeys(named))


def refreshed_gates(
    site_identifier: bytes,
    named: Iterable[bytes],
    known: dict[bytes, QueueManager],
    read: ReadMachine,
) -> dict[bytes, QueueManager]:
    """SiteGateCollection: machines named as gates that belong to the site themselves.

    It is not an attribute of the directory but follows from the links. A gate that cannot be read
    keeps the attributes it had.
    """
    gates: dict[bytes, QueueManager] = {}
    for identifier in named:
        found = read(identifier)
        gate = known.get(identifier, found.value)
        if gate is not None and found.value is not None:
            gate = found.merged(gate)
        if gate is not None and site_identifier in gate.site_identifier_list:
            gates[identifier] = gate
    return gates


_SUCCESS = DirectoryOperationResult.SUCCESS
_NOT_CONNECTED = DirectoryOperationResult.DIRECTORY_NOT_CONNECTED
_NOT_FOUND = DirectoryOperationResult.OBJECT_NOT_FOUND


class DirectoryTimers(NamedTuple):
    """Periods of the three timers, [MS-MQDMPR] 3.1.2.1, 3.1.2.2 and 3.1.2.5; all are settings."""

    sites_update_ms: int = 12 * 3_600_000
    site_gates_update_ms: int = 3_600_000
    directory_online_ms: int = 60_000


class Outcome(NamedTuple):
    """Result of a change: the directory's own status, and what was changed."""

    status: DirectoryOperationResult
    identifier: bytes = NULL_GUID


class LocalObjects(Protocol):
    """What the service needs of the queue manager: its own object and its queues."""

    def own_queue_manager(self) -> QueueManager:
        """LocalQueueManager with its directory attributes."""
        ...

    def local_queues(self) -> Iterable[Queue]:
        """QueueCollection: every local queue, of whatever type."""
        ...

    def update_own_queue_manager(self, value: QueueManager) -> None:
        """Takes over directory attributes of the own object."""
        ...

    def update_local_queue(self, value: Queue) -> None:
        """Takes over directory attributes of an own public queue."""
        ...


class Recalls(Protocol):
    """What was known of the directory when it could be asked last."""

    def known(self, kind: type[Kind], filters: Sequence[Filter] = ()) -> Kind | None:
        """The first object that fits."""
        ...

    def all_known(self, kind: type[Kind]) -> list[Kind]:
        """All objects of a kind."""
        ...


class DirectoryService:
    """Directory events with offline mode and timers.

    Without directory integration it is never offline, has no timers and finds no connection.
    """

    def __init__(
        self,
        directory: Directory,
        local: LocalObjects,
        timers: DirectoryTimers | None = None,
        *,
        integrated: bool = True,
        recall: Recalls | None = None,
    ) -> None:
        self.integrated = integrated
        self._recall = recall
        self.offline = False
        self.enterprise = Enterprise()
        self.sites: dict[bytes, Site] = {}
        self.site_gates: dict[bytes, dict[bytes, QueueManager]] = {}
        self._topology: Topology | None = None
        self._topology_is_stale = True
        self.version = 0  # moves with every change of sites, links or machines
        self.queues_version = 0  # ... of public queues
        self.keys_changed: Callable[[], None] = lambda: None  # those of users and machines
        self._directory = directory
        self._local = local
        self._timers = timers or DirectoryTimers()
        self.online_at_ms: int | None = None
        self._sites_at_ms: int | None = None
        self._gates_at_ms: int | None = None

    def initialize(self, now_ms: int, *, provisioning: bool = False) -> None:
        """The directory steps of Initialization, [MS-MQDMPR] 3.1.3.

        A directory that cannot be reached is not an obstacle: the service starts offline and keeps
        trying. Any other failure is raised, a missing own object too unless it is yet to be made.
        """
        if not self.integrated:
            return
        status = self._read_own(now_ms).status
        tolerated = {_SUCCESS, _NOT_CONNECTED} | ({_NOT_FOUND} if provisioning else set())
        if status not in tolerated:
            raise DsError(f"reading the own queue manager object failed: {status.value}")
        self._read_surroundings(now_ms)
        self._sites_at_ms = now_ms + self._timers.sites_update_ms
        self._gates_at_ms = now_ms + self._timers.site_gates_update_ms

    def create_directory_object(
        self,
        value: DirectoryObject,
        now_ms: int,
        utc_s: int,
        attributes: Collection[str] | None = None,
        caller: Caller | None = None,
    ) -> Outcome:
        """Create Directory Object, [MS-MQDMPR] 3.1.7.1.18."""
        if not self.integrated:
            return Outcome(_NOT_CONNECTED)
        status, identifier = self._directory.create(
            value, utc_s, attributes, self._identity(caller)
        )
        self._changed(value)
        self._note(status, now_ms)
        return Outcome(status, identifier)

    def delete_directory_object(
        self, value: DirectoryObject, now_ms: int, caller: Caller | None = None
    ) -> Outcome:
        """Delete Directory Object, [MS-MQDMPR] 3.1.7.1.19."""
        if not self.integrated:
            return Outcome(_NOT_CONNECTED)
        status = self._directory.delete(value, self._identity(caller))
        self._changed(value)
        self._note(status, now_ms)
        return Outcome(status, value.identifier)

    def write_directory(
        self,
        value: DirectoryObject,
        now_ms: int,
        utc_s: int,
        attributes: Collection[str] | None = None,
        caller: Caller | None = None,
    ) -> Outcome:
        """Write Directory, [MS-MQDMPR] 3.1.7.1.24."""
        if not self.integrated:
            return Outcome(_NOT_CONNECTED)
        status = self._directory.write(value, utc_s, attributes, self._identity(caller))
        self._changed(value)
        self._note(status, now_ms)
        if status is _SUCCESS and value.identifier == self._local.own_queue_manager().identifier:
            self._read_own(now_ms)
            self._read_surroundings(now_ms)
        return Outcome(status, value.identifier)

    def read_directory(
        self,
        kind: type[Kind],
        filters: Sequence[Filter],
        now_ms: int,
        attributes: Collection[str] | None = None,
        caller: Caller | None = None,
        *,
        force: bool = False,
    ) -> Found[Kind]:
        """Read Directory, [MS-MQDMPR] 3.1.7.1.20; offline, own objects answer what they can."""
        if not self.integrated:
            return Found(_NOT_CONNECTED)
        if self.offline and not force:
            return self._read_offline(kind, filters, attributes, self._identity(caller))
        found = self._directory.read(kind, filters, attributes, self._identity(caller))
        if not force:
            self._note(found.status, now_ms)
        return found

    def known(self, kind: type[Kind], filters: Sequence[Filter], now_ms: int) -> Found[Kind]:
        """Read Directory for messages under way: offline they go on with what was known."""
        if self.offline and self._recall is not None:
            value = self._recall.known(kind, filters)
            if value is not None:
                return Found(_SUCCESS, value, kind.directory_attributes())
        return self.read_directory(kind, filters, now_ms)

    def _all_known(self, kind: type[Kind], now_ms: int) -> list[Kind] | None:
        if self._recall is not None:
            return self._recall.all_known(kind)
        return self.read_all(kind, now_ms)

    def read_directory_begin(
        self,
        kind: type[DirectoryObject],
        filters: Sequence[Filter],
        now_ms: int,
        attributes: Collection[str] | None = None,
        sort: Sequence[SortOrder] = (),
        caller: Caller | None = None,
    ) -> Begun:
        """Read Directory Begin, [MS-MQDMPR] 3.1.7.1.21."""
        if not self.integrated:
            return Begun(_NOT_CONNECTED)
        begun = self._directory.begin(kind, filters, attributes, sort, self._identity(caller))
        self._note(begun.status, now_ms)
        return begun

    def read_directory_next(self, handle: int, now_ms: int) -> Found[Any]:
        """Read Directory Next, [MS-MQDMPR] 3.1.7.1.22."""
        found = self._directory.next(handle)
        self._note(found.status, now_ms)
        return found

    def read_directory_end(self, handle: int) -> DirectoryOperationResult:
        """Read Directory End, [MS-MQDMPR] 3.1.7.1.23."""
        return self._directory.end(handle)

    def read_all(self, kind: type[Kind], now_ms: int) -> list[Kind] | None:
        """Every object of a kind by one query; None when it could not be made to its end."""
        begun = self.read_directory_begin(kind, (), now_ms)
        if begun.status is not _SUCCESS:
            return None
        values: list[Kind] = []
        found: Found[Kind] = self.read_directory_next(begun.handle, now_ms)
        while found.value is not None:
            values.append(found.value)
            found = self.read_directory_next(begun.handle, now_ms)
        self.read_directory_end(begun.handle)
        return values if found.status is DirectoryOperationResult.END_OF_DATA else None

    def refreshed(self, values: Iterable[DirectoryObject], now_ms: int) -> None:
        """Objects of the directory have changed, or are gone, by somebody else's hand."""
        self.offline, self.online_at_ms = False, None
        self.noted(values)
        self._read_own(now_ms)
        self._read_surroundings(now_ms)

    def noted(self, values: Iterable[DirectoryObject]) -> None:
        """Some objects of the directory have changed; more changes may follow."""
        for value in values:
            self._changed(value)

    def went_offline(self, now_ms: int) -> None:
        """The directory cannot be reached: the Directory Online Timer runs (3.1.2.5)."""
        self._note(_NOT_CONNECTED, now_ms)

    def check_directory_online(self, now_ms: int) -> None:
        """Check Directory Online, [MS-MQDMPR] 3.1.7.1.25."""
        if not self.integrated:
            return
        if self._read_own(now_ms, force=True).status is not _SUCCESS:
            self.online_at_ms = now_ms + self._timers.directory_online_ms
            return
        self.offline = False
        self.online_at_ms = None
        for queue in list(self._local.local_queues()):
            if queue.is_public:
                found = self.read_directory(Queue, equals("identifier", queue.identifier), now_ms)
                if found.status is _SUCCESS:
                    self._local.update_local_queue(found.merged(queue))
        self._read_surroundings(now_ms)

    def directory_sites_update(self, now_ms: int) -> None:
        """Directory Sites Update, [MS-MQDMPR] 3.1.6.1; a failed read changes nothing."""
        for identifier, site in list(self.sites.items()):
            found = self.read_directory(Site, equals("identifier", identifier), now_ms)
            if found.status is _SUCCESS:
                self.sites[identifier] = found.merged(site)

    def directory_site_gates_update(self, now_ms: int) -> None:
        """Directory Site Gates Update, [MS-MQDMPR] 3.1.6.2; gates named since are added.

        The routing table of [MS-MQBR] has a timer with the same period: it is made again as well.
        """
        self._topology_is_stale = True
        links = self.read_all(RoutingLink, now_ms)
        for identifier in self.sites:
            known = self.site_gates.get(identifier, {})
            named = list(known) if links is None else gate_identifiers(identifier, links)
            self.site_gates[identifier] = refreshed_gates(
                identifier,
                named,
                known,
                lambda gate: self.read_directory(QueueManager, equals("identifier", gate), now_ms),
            )

    def next_deadline(self, now_ms: int) -> int | None:
        """When `advance` is to be called next; None without a timer."""
        running = [at for at in self._deadlines() if at is not None]
        return max(now_ms, min(running)) if running else None

    def advance(self, now_ms: int) -> None:
        """Does what has become due; each timer fires once, however late it is."""
        online, sites, gates = self.online_at_ms, self._sites_at_ms, self._gates_at_ms
        if online is not None and online <= now_ms:
            self.check_directory_online(now_ms)
        if sites is not None and sites <= now_ms:
            self._sites_at_ms = now_ms + self._timers.sites_update_ms
            self.directory_sites_update(now_ms)
        if gates is not None and gates <= now_ms:
            self._gates_at_ms = now_ms + self._timers.site_gates_update_ms
            self.directory_site_gates_update(now_ms)

    @property
    def default_time_to_reach_queue_s(self) -> int:
        """DefaultTimeToLive: what messages get that state no time, [MS-MQDMPR] 3.1.1.6."""
        return self.enterprise.default_time_to_live

    # -- routing ([MS-MQBR])

    def next_hops(self, destination: bytes, now_ms: int) -> Hops:
        """Whom to hand messages for a queue manager to. Raises NoRoute, with the reason."""
        own = self._local.own_queue_manager()
        found = self.known(QueueManager, equals("identifier", destination), now_ms)
        if found.status is _NOT_CONNECTED:
            raise NoRoute("the directory cannot be reached")
        if found.value is None:
            raise NoRoute(f"the directory has no queue manager {format_guid(destination)}")
        return next_hops(self.topology(now_ms), own, found.value)

    def connector_site(self, machine: bytes, now_ms: int) -> bytes | None:
        """The foreign site whose connector queue here takes what is for a foreign system."""
        found = self.known(QueueManager, equals("identifier", machine), now_ms).value
        if found is None or not found.foreign_system:
            return None
        try:
            connector = connector_of(self.topology(now_ms), found)
        except NoRoute:
            return None
        own = self._local.own_queue_manager().identifier
        return connector.site if connector.server.identifier == own else None

    def foreign_sites(self, now_ms: int) -> dict[bytes, str] | None:
        """The foreign sites whose connector server we are, with names; None: unknown."""
        own = self._local.own_queue_manager()
        names: dict[bytes, str] = {}
        for site in own.site_identifier_list if own.routing_server else ():
            found = self.known(Site, equals("identifier", site), now_ms)
            if found.status is _NOT_CONNECTED:
                return None
            if found.value is not None and found.value.foreign_site:
                names[site] = found.value.name
        return names

    def detours(self, destination: bytes, now_ms: int) -> list[bytes]:
        """Who may get through to a machine of our site that we cannot reach, the best first."""
        found = self.known(QueueManager, equals("identifier", destination), now_ms).value
        own = self._local.own_queue_manager()
        return [] if found is None else detours(self.topology(now_ms), own, found)

    def routes_for_us(self, machine: bytes, now_ms: int) -> bool:
        """Whether messages of others may come to us from there, acknowledgments among them.

        Site gates pass messages from site to site, routes change on the way, and a final
        acknowledgment is sent only once: so any routing server of any site may deliver them.
        """
        found = self.known(QueueManager, equals("identifier", machine), now_ms).value
        return found is not None and found.routing_server

    def topology(self, now_ms: int) -> Topology:
        """Sites, links and routing servers; as they were, while they cannot be read."""
        if self._topology is None or self._topology_is_stale:
            sites, links = self._all_known(Site, now_ms), self._all_known(RoutingLink, now_ms)
            machines = self._all_known(QueueManager, now_ms)
            if sites is not None and links is not None and machines is not None:
                self._topology = Topology(sites, links, machines)
                self._topology_is_stale = False
        return self._topology or Topology((), (), ())

    def _changed(self, value: DirectoryObject) -> None:
        """What routing is made of has to be looked at again."""
        if isinstance(value, Site | RoutingLink | QueueManager):
            self._topology_is_stale = True
            self.version += 1
        if isinstance(value, Queue):
            self.queues_version += 1
        if isinstance(value, User | QueueManager):
            self.keys_changed()

    def _deadlines(self) -> tuple[int | None, int | None, int | None]:
        return self.online_at_ms, self._sites_at_ms, self._gates_at_ms

    def _identity(self, caller: Caller | None) -> Caller | None:
        """WeakenedSecurity: the queue manager acts for itself, not for the caller."""
        return None if self.enterprise.weakened_security else caller

    def _note(self, status: DirectoryOperationResult, now_ms: int) -> None:
        """No connection: offline from now on, and the timer runs if it did not already."""
        if status is _NOT_CONNECTED and self.integrated:
            self.offline = True
            if self.online_at_ms is None:
                self.online_at_ms = now_ms + self._timers.directory_online_ms

    def _read_offline(
        self,
        kind: type[Kind],
        filters: Sequence[Filter],
        attributes: Collection[str] | None,
        identity: Caller | None,
    ) -> Found[Kind]:
        check_filters(kind, filters)
        check_attributes(kind, attributes or ())
        candidates: Iterable[Any] = ()
        nothing = Found[Kind](_NOT_CONNECTED)
        if kind is Queue:
            candidates, nothing = self._local.local_queues(), Found(_NOT_FOUND)
        elif kind is QueueManager:
            candidates = (self._local.own_queue_manager(),)
        for value in candidates:
            if matches(value, filters) and allowed(value, identity, GET_PROPERTIES):
                return _shown(value, attributes, concealed(value, identity))
        return nothing

    def _read_own(self, now_ms: int, *, force: bool = False) -> Found[QueueManager]:
        own = self._local.own_queue_manager()
        found = self.read_directory(
            QueueManager, equals("identifier", own.identifier), now_ms, force=force
        )
        if found.status is _SUCCESS:
            self._local.update_own_queue_manager(found.merged(own))
        return found

    def _read_surroundings(self, now_ms: int) -> None:
        """The own sites, their gates and the enterprise; what cannot be read stays as it was."""
        wanted = self._local.own_queue_manager().site_identifier_list
        self.sites = {key: site for key, site in self.sites.items() if key in wanted}
        self.site_gates = {key: gates for key, gates in self.site_gates.items() if key in wanted}
        for identifier in wanted:
            site = self.known(Site, equals("identifier", identifier), now_ms)
            if site.value is not None:
                self.sites[identifier] = site.value
        self.directory_site_gates_update(now_ms)
        enterprise = self.known(Enterprise, (), now_ms)
        if enterprise.value is not None:
            self.enterprise = enterprise.value


def _shown(value: Kind, attributes: Collection[str] | None, hidden: frozenset[str]) -> Found[Kind]:
    """An own object as a read shows it."""
    if attributes is None and not hidden:
        return Found(_SUCCESS, value, value.directory_attributes())
    names = value.directory_attributes() - hidden if attributes is None else frozenset(attributes)
    if names & hidden:
        return Found(DirectoryOperationResult.ATTRIBUTE_NOT_FOUND)
    return Found(_SUCCESS, projected(value, names), names)
