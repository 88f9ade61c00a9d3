"""The directory as one document that people read, keep and exchange: names instead of identifiers.

Several queue managers share a directory by importing the same document. It holds what routing and
public names need; keys, certificates and rights are exchanged by commands of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from posthouse.directory.objects import (
    ACTUAL_COST_MAX,
    ACTUAL_COST_MIN,
    DEFAULT_TIME_TO_LIVE_S,
    DirectoryObject,
    DistributionList,
    Enterprise,
    Queue,
    QueueManager,
    RoutingLink,
    Site,
)
from posthouse.model.errors import IllegalPropertyValue, QueueError
from posthouse.model.guids import NULL_GUID, format_guid, parse_guid
from posthouse.model.text import excerpt

ENTRIES_MAX: Final = 1_000_000
Text = Annotated[str, Meta(max_length=4096)]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
GuidText = Annotated[str, Meta(max_length=36)]
Names = Annotated[list[Name], Meta(max_length=4096)]
Cost = Annotated[int, Meta(ge=ACTUAL_COST_MIN, le=ACTUAL_COST_MAX)]


class _Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of the document; what it does not say is as usual."""


class EnterprisePart(_Part, frozen=True):
    """What holds for everybody."""

    name: Text = ""
    default_time_to_reach_queue_s: Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)] = (
        DEFAULT_TIME_TO_LIVE_S
    )


class SitePart(_Part, frozen=True):
    """A group of machines that reach each other well."""

    name: Name
    guid: GuidText = ""
    foreign: bool = False


class LinkPart(_Part, frozen=True):
    """A way between two sites, over the gates it names."""

    sites: Annotated[list[Name], Meta(min_length=2, max_length=2)]
    cost: Cost = 1
    gates: Names = []
    description: Text = ""


class MachinePart(_Part, frozen=True):
    """A queue manager: where it listens, where it is, who routes for it."""

    name: Name
    guid: GuidText
    dns_name: Text = ""
    addresses: Names = []
    sites: Names = []
    routing_server: bool = False
    in_routing_servers: Names = []
    out_routing_servers: Names = []
    foreign: bool = False


class QueuePart(_Part, frozen=True):
    """A public queue."""

    path: Name
    guid: GuidText
    label: Text = ""
    type: GuidText = ""
    transactional: bool = False
    authenticated: bool = False


class ListPart(_Part, frozen=True):
    """A distribution list; its members are format names."""

    name: Name
    guid: GuidText = ""
    members: Names = []


class Document(_Part, frozen=True):
    """All of it."""

    enterprise: EnterprisePart | None = None
    sites: Annotated[list[SitePart], Meta(max_length=ENTRIES_MAX)] = []
    links: Annotated[list[LinkPart], Meta(max_length=ENTRIES_MAX)] = []
    machines: Annotated[list[MachinePart], Meta(max_length=ENTRIES_MAX)] = []
    queues: Annotated[list[QueuePart], Meta(max_length=ENTRIES_MAX)] = []
    lists: Annotated[list[ListPart], Meta(max_length=ENTRIES_MAX)] = []


class Holdings(NamedTuple):
    """The objects of a directory that a document tells of."""

    enterprise: Enterprise
    sites: list[Site]
    links: list[RoutingLink]
    machines: list[QueueManager]
    queues: list[Queue]
    lists: list[DistributionList]


class Difference(NamedTuple):
    """What has to be done so that a directory says what a document says."""

    created: list[DirectoryObject]
    changed: list[DirectoryObject]
    deleted: list[DirectoryObject]


Kind = TypeVar("Kind", bound=DirectoryObject)


# -- from a directory


def described(holdings: Holdings) -> Document:
    """The document of a directory, in the order of names."""
    sites = {site.identifier: site.name for site in holdings.sites}
    machines = {machine.identifier: machine.computer_name for machine in holdings.machines}
    return Document(
        enterprise=EnterprisePart(
            name=holdings.enterprise.name,
            default_time_to_reach_queue_s=holdings.enterprise.default_time_to_live,
        ),
        sites=_sorted(
            SitePart(name=site.name, guid=format_guid(site.identifier), foreign=site.foreign_site)
            for site in holdings.sites
        ),
        links=sorted(
            (_link_part(link, sites, machines) for link in holdings.links),
            key=lambda part: part.sites,
        ),
        machines=_sorted(_machine_part(one, sites, machines) for one in holdings.machines),
        queues=sorted(map(_queue_part, holdings.queues), key=lambda part: part.path.casefold()),
        lists=_sorted(
            ListPart(name=one.name, guid=format_guid(one.identifier), members=list(one.members))
            for one in holdings.lists
        ),
    )


PartT = TypeVar("PartT", SitePart, MachinePart, ListPart)


def _sorted(parts: Iterable[PartT]) -> list[PartT]:
    return sorted(parts, key=lambda part: part.name.casefold())


def _named(names: Mapping[bytes, str], identifiers: Iterable[bytes]) -> list[str]:
    """Names; what the directory does not have goes by its identifier."""
    return [names.get(one, format_guid(one)) for one in identifiers]


def _link_part(
    link: RoutingLink, sites: Mapping[bytes, str], machines: Mapping[bytes, str]
) -> LinkPart:
    ends = sorted(_named(sites, (link.site1_identifier, link.site2_identifier)))
    gates = sorted(_named(machines, link.site_gate_identifier_list))
    return LinkPart(sites=ends, cost=link.actual_cost, gates=gates, description=link.description)


def _machine_part(
    machine: QueueManager, sites: Mapping[bytes, str], machines: Mapping[bytes, str]
) -> MachinePart:
    return MachinePart(
        name=machine.computer_name,
        guid=format_guid(machine.identifier),
        dns_name=machine.qualified_computer_name,
        addresses=list(machine.addresses),
        sites=_named(sites, machine.site_identifier_list),
        routing_server=machine.routing_server,
        in_routing_servers=_named(machines, machine.in_routing_server_identifier_list),
        out_routing_servers=_named(machines, machine.out_routing_server_identifier_list),
        foreign=machine.foreign_system,
    )


def _queue_part(queue: Queue) -> QueuePart:
    return QueuePart(
        path=queue.pathname,
        guid=format_guid(queue.identifier),
        label=queue.label,
        type="" if queue.type == NULL_GUID else format_guid(queue.type),
        transactional=queue.transactional,
        authenticated=queue.authentication,
    )


# -- to a directory


def difference(
    document: Document,
    holdings: Holdings,
    new_guid: Callable[[], bytes],
    own: bytes,
    *,
    prune: bool,
) -> Difference:
    """What to do. With `prune` what the document does not have goes, else it stays.

    The own machine and its queues stay in any case. Raises IllegalPropertyValue, with the part that
    is wrong.
    """
    return _Comparison(document, holdings, new_guid, own, prune).made()


class _Comparison:
    """A document beside a directory."""

    def __init__(
        self,
        document: Document,
        holdings: Holdings,
        new_guid: Callable[[], bytes],
        own: bytes,
        prune: bool,
    ) -> None:
        self._document = document
        self._holdings = holdings
        self._new_guid = new_guid
        self._own = own
        self._prune = prune
        self._made = Difference([], [], [])
        self._sites = self._identifiers("site", document.sites, holdings.sites)
        self._machines = self._identifiers("machine", document.machines, holdings.machines)

    def made(self) -> Difference:
        """What was found."""
        document, held = self._document, self._holdings
        self._compare("site", held.sites, map(self._site, document.sites))
        self._compare("machine", held.machines, map(self._machine, document.machines))
        self._compare("link", held.links, self._links())
        self._compare("queue", held.queues, map(self._queue, document.queues))
        lists = self._identifiers("list", document.lists, held.lists)
        self._compare("list", held.lists, (self._list(part, lists) for part in document.lists))
        if (wanted := document.enterprise) is not None:
            enterprise = msgspec.structs.replace(
                held.enterprise,
                name=wanted.name,
                default_time_to_live=wanted.default_time_to_reach_queue_s,
            )
            if enterprise != held.enterprise:
                self._made.changed.append(enterprise)
        return self._made

    def _identifiers(
        self,
        what: str,
        parts: Iterable[SitePart | MachinePart | ListPart],
        held: Iterable[Site | QueueManager | DistributionList],
    ) -> dict[str, bytes]:
        """Who is meant by a name: the identifier it has, or had, or a new one."""
        known = {one.unique_name: one.identifier for one in held}
        found: dict[str, bytes] = {}
        for part in parts:
            name = part.name.casefold()
            if name in found:
                raise _wrong(what, part.name, "it is there twice")
            found[name] = self._guid(what, part) or known.get(name) or self._new_guid()
        if len(set(found.values())) < len(found):
            raise IllegalPropertyValue(f"two {what}s of the document have the same guid")
        kept = {name: one for name, one in known.items() if one == self._own or not self._prune}
        return {**kept, **found}

    def _guid(self, what: str, part: SitePart | MachinePart | ListPart) -> bytes | None:
        try:
            return parse_guid(part.guid) if part.guid else None
        except QueueError as error:
            raise _wrong(what, part.name, error.cause) from None

    def _compare(self, what: str, held: Iterable[Kind], wanted: Iterable[Kind]) -> None:
        known = {one.identifier: one for one in held}
        for value in wanted:
            before = known.pop(value.identifier, None)
            if before is None:
                self._checked(what, value)
                self._made.created.append(value)
            elif (after := _merged(before, value)) != before:
                self._checked(what, after)
                self._made.changed.append(after)
        if self._prune:
            self._made.deleted.extend(one for one in known.values() if not self._is_ours(one))
        self._check_names(what, known)

    def _check_names(self, what: str, left: Mapping[bytes, DirectoryObject]) -> None:
        """Nothing may take a name that something else has, or gives up in the same step."""
        taken = {one.unique_name for one in left.values() if one not in self._made.deleted}
        for value in (*self._made.created, *self._made.changed):
            if type(value) in {type(one) for one in left.values()} and value.unique_name in taken:
                raise _wrong(what, title_of(value), "another one has this name")

    def _is_ours(self, value: DirectoryObject) -> bool:
        if isinstance(value, Queue):
            return value.queue_manager_identifier == self._own
        return value.identifier == self._own

    def _checked(self, what: str, value: DirectoryObject) -> None:
        try:
            value.validate()
        except QueueError as error:
            raise _wrong(what, title_of(value), error.cause) from None

    def _site(self, part: SitePart) -> Site:
        identifier = self._sites[part.name.casefold()]
        return Site(identifier=identifier, name=part.name, foreign_site=part.foreign)

    def _machine(self, part: MachinePart) -> QueueManager:
        servers = [
            tuple(self._machine_named(part.name, name) for name in names)
            for names in (part.in_routing_servers, part.out_routing_servers)
        ]
        return QueueManager(
            identifier=self._machines[part.name.casefold()],
            computer_name=part.name,
            qualified_computer_name=part.dns_name,
            addresses=tuple(part.addresses),
            site_identifier_list=tuple(self._site_named(part.name, name) for name in part.sites),
            routing_server=part.routing_server,
            in_routing_server_identifier_list=servers[0],
            out_routing_server_identifier_list=servers[1],
            foreign_system=part.foreign,
        )

    def _links(self) -> list[RoutingLink]:
        known = {link.unique_name: link.identifier for link in self._holdings.links}
        made: dict[str, RoutingLink] = {}
        for part in self._document.links:
            title = " - ".join(part.sites)
            one, other = (self._site_named(title, name) for name in part.sites)
            link = RoutingLink(
                site1_identifier=one,
                site2_identifier=other,
                actual_cost=part.cost,
                description=part.description,
                site_gate_identifier_list=tuple(
                    self._machine_named(title, name) for name in part.gates
                ),
            )
            if link.unique_name in made:
                raise _wrong("link", title, "it is there twice")
            identifier = known.get(link.unique_name) or self._new_guid()
            made[link.unique_name] = msgspec.structs.replace(link, identifier=identifier)
        return list(made.values())

    def _queue(self, part: QueuePart) -> Queue:
        computer = part.path.replace("/", "\\").partition("\\")[0]
        return Queue(
            identifier=_guid_of("queue", part.path, part.guid),
            pathname=part.path,
            label=part.label,
            type=_guid_of("queue", part.path, part.type) if part.type else NULL_GUID,
            transactional=part.transactional,
            authentication=part.authenticated,
            queue_manager_identifier=self._machine_named(part.path, computer),
        )

    def _list(self, part: ListPart, identifiers: Mapping[str, bytes]) -> DistributionList:
        identifier = identifiers[part.name.casefold()]
        return DistributionList(identifier=identifier, name=part.name, members=tuple(part.members))

    def _site_named(self, where: str, name: str) -> bytes:
        found = self._sites.get(name.casefold())
        if found is None:
            raise _wrong("site", name, f"{where} names it, and nobody knows it")
        return found

    def _machine_named(self, where: str, name: str) -> bytes:
        found = self._machines.get(name.casefold())
        if found is None:
            raise _wrong("machine", name, f"{where} names it, and nobody knows it")
        return found


_FROM_DOCUMENT: Final[dict[type[DirectoryObject], tuple[str, ...]]] = {
    Site: ("name", "foreign_site"),
    QueueManager: (
        "computer_name",
        "qualified_computer_name",
        "addresses",
        "site_identifier_list",
        "routing_server",
        "in_routing_server_identifier_list",
        "out_routing_server_identifier_list",
        "foreign_system",
    ),
    RoutingLink: ("actual_cost", "description"),
    Queue: ("label", "type", "authentication", "queue_manager_identifier"),
    DistributionList: ("name", "members"),
}


def _merged(before: Kind, wanted: Kind) -> Kind:
    """What was there with what the document says; it is silent about the rest."""
    names = _FROM_DOCUMENT[type(wanted)]
    after = msgspec.structs.replace(before, **{name: getattr(wanted, name) for name in names})
    if isinstance(before, RoutingLink) and isinstance(wanted, RoutingLink):
        gates = before.site_gate_identifier_list
        if set(gates) != set(wanted.site_gate_identifier_list):
            gates = wanted.site_gate_identifier_list
        return msgspec.structs.replace(after, site_gate_identifier_list=gates)
    return after


def title_of(value: DirectoryObject, sites: Mapping[bytes, str] | None = None) -> str:
    """What people call an object."""
    if isinstance(value, RoutingLink):
        ends = (value.site1_identifier, value.site2_identifier)
        return ",".join(sorted(_named(sites or {}, ends)))
    if isinstance(value, Queue):
        return value.pathname
    if isinstance(value, QueueManager):
        return value.computer_name
    return str(getattr(value, "name", "")) or format_guid(value.identifier)


def _wrong(what: str, name: str, why: str) -> IllegalPropertyValue:
    return IllegalPropertyValue(
        f"{what} {excerpt(name)}: {why}", "Correct the document; nothing was changed."
    )


def _guid_of(what: str, name: str, text: str) -> bytes:
    try:
        found = parse_guid(text)
    except QueueError as error:
        raise _wrong(what, name, error.cause) from None
    if found == NULL_GUID:
        raise _wrong(what, name, "its guid is zero")
    return found
