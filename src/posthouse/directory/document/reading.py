"""From a document to a directory: what to change so that the directory matches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

import msgspec

from posthouse.directory.base import overlaid
from posthouse.directory.document.fields import (
    SET_BY_DIRECTORY,
    attributes_of,
    plain_attributes,
    user_certificates,
)
from posthouse.directory.document.parts import (
    AliasPart,
    Document,
    LinkPart,
    ListPart,
    MachinePart,
    NamedPart,
    NetworkPart,
    QueuePart,
    SitePart,
    UserPart,
)
from posthouse.directory.document.writing import (
    Holdings,
    is_guid,
    is_plain_name,
    qualified,
    title_of,
)
from posthouse.directory.objects import (
    ConnectedNetwork,
    DirectoryObject,
    DistributionList,
    Queue,
    QueueAlias,
    QueueManager,
    RoutingLink,
    Site,
    User,
)
from posthouse.model.errors import IllegalPropertyValue, QueueError
from posthouse.model.guids import NULL_GUID, format_guid, parse_guid
from posthouse.model.names import PathName, parse_name
from posthouse.model.text import excerpt
from posthouse.security.sids import parse_sid

Kind = TypeVar("Kind", bound=DirectoryObject)
Said = tuple[Kind, Collection[str]]
"""An object as the document has it, and the attributes that it speaks of."""


class Difference(NamedTuple):
    """What has to be done so that a directory matches a document."""

    created: list[DirectoryObject]
    changed: list[DirectoryObject]
    deleted: list[DirectoryObject]
    before: tuple[DirectoryObject, ...] = ()
    """What is changed, as it was."""


def difference(
    document: Document,
    holdings: Holdings,
    new_guid: Callable[[], bytes],
    own: bytes,
    *,
    prune: bool,
    only: Collection[str] | None = None,
) -> Difference:
    """What to do. With `prune` what the document does not have goes, else it stays.

    Of objects that are there, `only` these fields of their parts are changed. The own machine and
    its queues stay in any case. Raises IllegalPropertyValue, with the part that is wrong.
    """
    return _Comparison(document, holdings, lambda what, name: new_guid(), own, prune, only).made()


def objects_of(document: Document) -> list[DirectoryObject]:
    """Every object of a document, the same ones for everybody who reads it.

    An identifier that it leaves out is made of the name.
    """
    comparison = _Comparison(document, Holdings.of(), _derived_guid, NULL_GUID, prune=False)
    found = comparison.made()
    return [*found.created, *map(_identified, found.changed)]


def _identified(enterprise: DirectoryObject) -> DirectoryObject:
    if enterprise.identifier != NULL_GUID:
        return enterprise
    return msgspec.structs.replace(enterprise, identifier=_derived_guid("enterprise", ""))


def _derived_guid(what: str, name: str) -> bytes:
    digest = bytearray(sha256(f"posthouse directory {what} {name.casefold()}".encode()).digest())
    digest[7] = digest[7] & 0x0F | 0x80  # version 8 and the variant of RFC 9562
    digest[8] = digest[8] & 0x3F | 0x80
    return bytes(digest[:16])


class _Comparison:
    """A document beside a directory."""

    def __init__(
        self,
        document: Document,
        holdings: Holdings,
        new_guid: Callable[[str, str], bytes],
        own: bytes,
        prune: bool,
        only: Collection[str] | None = None,
    ) -> None:
        self._document = document
        self._only = only
        self._holdings = holdings
        self._new_guid = new_guid
        self._own = own
        self._prune = prune
        self._made = Difference([], [], [])
        self._before: list[DirectoryObject] = []
        self._sites = self._identifiers("site", document.sites, holdings.sites)
        self._machines = self._identifiers("machine", document.machines, holdings.machines)
        self._networks = self._identifiers("network", document.networks, holdings.networks)
        lists = self._identifiers("list", document.lists, holdings.lists)
        aliases = self._identifiers("alias", document.aliases, holdings.aliases)
        for name in sorted(lists.keys() & aliases.keys()):
            raise _wrong("alias", name, "a list has this name")
        self._recipients = lists | aliases
        self._users = {one.security_identifier: one.identifier for one in holdings.users}
        self._paths = self._public_queues()
        self._full_names = self._known_full_names()

    def made(self) -> Difference:
        """What was found."""
        document, held = self._document, self._holdings
        self._compare("site", held.sites, map(self._site, document.sites))
        self._compare("network", held.networks, map(self._network, document.networks))
        self._compare("machine", held.machines, map(self._machine, document.machines))
        self._compare("link", held.links, self._links())
        self._compare("queue", held.queues, self._once("queue", map(self._queue, document.queues)))
        self._compare("alias", held.aliases, map(self._alias, document.aliases))
        self._compare("list", held.lists, map(self._list, document.lists))
        self._compare("user", held.users, self._once("user", map(self._user, document.users)))
        self._enterprise()
        return self._made._replace(before=tuple(self._before))

    # -- who is meant

    def _identifiers(
        self, what: str, parts: Sequence[NamedPart], held: Sequence[DirectoryObject]
    ) -> dict[str, bytes]:
        """Who is meant by a name: the identifier it has, or had, or a new one."""
        known = {one.unique_name: one.identifier for one in held}
        found: dict[str, bytes] = {}
        for part in parts:
            name = part.name.casefold()
            if name in found:
                raise _wrong(what, part.name, "it is there twice")
            given = _guid_of(what, part.name, part.guid) if part.guid else None
            found[name] = given or known.get(name) or self._new_guid(what, part.name)
        if len(set(found.values())) < len(found):
            raise IllegalPropertyValue(f"two {what}s of the document have the same guid")
        kept = {name: one for name, one in known.items() if one == self._own or not self._prune}
        return {**kept, **found}

    def _public_queues(self) -> dict[str, bytes]:
        """Public queues by their paths, those of the document and those that stay."""
        held = [one for one in self._holdings.queues if not self._prune or self._is_ours(one)]
        found = {one.unique_name: one.identifier for one in held}
        for part in self._document.queues:
            found[Queue.unique_name_of(part.path)] = _guid_of("queue", part.path, part.guid)
        return found

    def _known_full_names(self) -> dict[str, str]:
        found = {one.unique_name: one.qualified_computer_name for one in self._holdings.machines}
        return {
            **found,
            **{part.name.casefold(): part.dns_name for part in self._document.machines},
        }

    def _meant(self, what: str, known: Mapping[str, bytes], where: str, name: str) -> bytes:
        """A name has to be known; an identifier is taken as it is: its object may come later."""
        if is_guid(name):
            return parse_guid(name)
        return self._named(what, known, where, name)

    def _named(self, what: str, known: Mapping[str, bytes], where: str, name: str) -> bytes:
        found = known.get(name.casefold())
        if found is None:
            raise IllegalPropertyValue(
                f"{what} {excerpt(name)}: {where} names it, but it does not exist",
                f"Nothing was changed; {_KNOWN[what]}.",
            )
        return found

    def _destination(self, where: str, text: str) -> str:
        """A format name, or that of a public queue, a list or an alias which is meant."""
        if is_plain_name(text):
            found = self._named("list or alias", self._recipients, where, text)
            return f"DL={format_guid(found)}"
        name = parse_name(text)
        if not isinstance(name, PathName):
            return text
        path = text.replace("/", "\\")
        return f"PUBLIC={format_guid(self._named('public queue', self._paths, where, path))}"

    # -- what is different

    def _compare(self, what: str, held: Iterable[Kind], wanted: Iterable[Said[Kind]]) -> None:
        known = {one.identifier: one for one in held}
        for value, names in wanted:
            before = known.pop(value.identifier, None)
            if before is None:
                self._checked(what, value)
                self._made.created.append(value)
            elif (after := self._merged(what, before, value, names)) != before:
                self._checked(what, after)
                self._made.changed.append(after)
                self._before.append(before)
        if self._prune:
            self._made.deleted.extend(one for one in known.values() if not self._is_ours(one))
        self._check_names(what, known)

    def _merged(self, what: str, before: Kind, wanted: Kind, names: Collection[str]) -> Kind:
        """The object as it was, with the values of the document."""
        fixed = wanted.fixed_attributes
        if fixed and before.unique_name != wanted.unique_name:
            raise _wrong(what, title_of(wanted), f"its guid is that of {title_of(before)}")
        if "transactional" in names and getattr(before, "transactional", None) is not (
            getattr(wanted, "transactional", None)
        ):
            raise _wrong(what, title_of(wanted), "whether it is transactional is fixed")
        said = {name for name in names if name not in fixed and name not in SET_BY_DIRECTORY}
        if isinstance(before, RoutingLink) and isinstance(wanted, RoutingLink):
            gates = before.site_gate_identifier_list
            if set(gates) == set(wanted.site_gate_identifier_list):
                said.discard("site_gate_identifier_list")  # in another order
        return overlaid(before, wanted, said)

    def _check_names(self, what: str, left: Mapping[bytes, DirectoryObject]) -> None:
        """Nothing may take a name that something else has, or gives up in the same step."""
        gone = {id(one) for one in self._made.deleted}
        taken = {(type(one), one.unique_name) for one in left.values() if id(one) not in gone}
        for value in (*self._made.created, *self._made.changed):
            if (type(value), value.unique_name) in taken:
                raise _wrong(what, title_of(value), "another one has this name")

    def _once(self, what: str, wanted: Iterable[Said[Kind]]) -> Iterator[Said[Kind]]:
        """Names and identifiers are there once; for kinds that `_identifiers` does not look at."""
        names: set[str] = set()
        identifiers: set[bytes] = set()
        for value, said in wanted:
            if value.unique_name in names:
                raise _wrong(what, title_of(value), "it is there twice")
            if value.identifier in identifiers:
                raise _wrong(what, title_of(value), "another one of the document has its guid")
            names.add(value.unique_name)
            identifiers.add(value.identifier)
            yield value, said

    def _is_ours(self, value: DirectoryObject) -> bool:
        if isinstance(value, Queue):
            return value.queue_manager_identifier == self._own
        return value.identifier == self._own

    def _checked(self, what: str, value: DirectoryObject) -> None:
        try:
            value.validate()
        except QueueError as error:
            sites = {one.identifier: one.name for one in self._holdings.sites}
            sites |= {self._sites[one.name.casefold()]: one.name for one in self._document.sites}
            raise _wrong(what, title_of(value, sites), error.cause) from None

    # -- one part each

    def _said(
        self, kind: type[Kind], title: str, identifier: bytes, part: msgspec.Struct, **more: Any
    ) -> Said[Kind]:
        """The object that a part shows of."""
        try:
            attributes = {**plain_attributes(kind, part), **more}
        except QueueError as error:
            raise _wrong(_WHAT[kind], title, error.cause) from None
        said: Set[str] = attributes.keys()
        if self._only is not None:
            said &= attributes_of(kind, self._only)
        return kind(identifier=identifier, **attributes), said

    def _site(self, part: SitePart) -> Said[Site]:
        return self._said(Site, part.name, self._sites[part.name.casefold()], part)

    def _network(self, part: NetworkPart) -> Said[ConnectedNetwork]:
        identifier = self._networks[part.name.casefold()]
        return self._said(ConnectedNetwork, part.name, identifier, part)

    def _machine(self, part: MachinePart) -> Said[QueueManager]:
        def those(what: str, known: Mapping[str, bytes], names: list[str]) -> tuple[bytes, ...]:
            return tuple(self._meant(what, known, part.name, name) for name in names)

        references = {
            "site_identifier_list": those("site", self._sites, part.sites),
            "in_routing_server_identifier_list": those(
                "machine", self._machines, part.in_routing_servers
            ),
            "out_routing_server_identifier_list": those(
                "machine", self._machines, part.out_routing_servers
            ),
        }
        if part.networks is not None:
            networks = those("network", self._networks, part.networks)
            references["connected_network_identifier_list"] = networks
        identifier = self._machines[part.name.casefold()]
        return self._said(QueueManager, part.name, identifier, part, **references)

    def _links(self) -> Iterator[Said[RoutingLink]]:
        known = {link.unique_name: link.identifier for link in self._holdings.links}
        seen: set[str] = set()
        for part in self._document.links:
            title = " - ".join(part.sites)
            ends = [self._meant("site", self._sites, title, name) for name in part.sites]
            name = RoutingLink(site1_identifier=ends[0], site2_identifier=ends[1]).unique_name
            if name in seen:
                raise _wrong("link", title, "it is there twice")
            seen.add(name)
            yield self._link(part, title, ends, known.get(name), name)

    def _link(
        self, part: LinkPart, title: str, ends: list[bytes], known: bytes | None, name: str
    ) -> Said[RoutingLink]:
        given = _guid_of("link", title, part.guid) if part.guid and known is None else None
        return self._said(
            RoutingLink,
            title,
            known or given or self._new_guid("link", name),
            part,
            site1_identifier=ends[0],
            site2_identifier=ends[1],
            site_gate_identifier_list=tuple(
                self._meant("machine", self._machines, title, gate) for gate in part.gates
            ),
        )

    def _queue(self, part: QueuePart) -> Said[Queue]:
        path = part.path.replace("/", "\\")
        computer = path.partition("\\")[0]
        if part.machine is None:
            machine = self._named("machine", self._machines, path, computer)
        else:
            machine = self._meant("machine", self._machines, path, part.machine)
        more: dict[str, Any] = {"pathname": path, "queue_manager_identifier": machine}
        full_path = part.qualified_path
        if full_path is None:
            full_path = qualified(path, self._full_names.get(computer.casefold(), ""))
        if full_path or part.qualified_path is not None:
            more["qualified_pathname"] = full_path
        identifier = _guid_of("queue", part.path, part.guid)
        return self._said(Queue, part.path, identifier, part, **more)

    def _list(self, part: ListPart) -> Said[DistributionList]:
        identifier = self._recipients[part.name.casefold()]
        members = tuple(self._readable("list", part.name, text) for text in part.members)
        return self._said(DistributionList, part.name, identifier, part, members=members)

    def _alias(self, part: AliasPart) -> Said[QueueAlias]:
        identifier = self._recipients[part.name.casefold()]
        name = self._readable("alias", part.name, part.queue)
        return self._said(QueueAlias, part.name, identifier, part, format_name=name)

    def _readable(self, what: str, title: str, text: str) -> str:
        try:
            return self._destination(title, text)
        except IllegalPropertyValue:
            raise
        except QueueError as error:
            raise _wrong(what, title, error.cause) from None

    def _user(self, part: UserPart) -> Said[User]:
        try:
            sid = parse_sid(part.sid)
            more = user_certificates(part.certificates)
        except QueueError as error:
            raise _wrong("user", part.name or part.sid, error.cause) from None
        given = _guid_of("user", part.sid, part.guid) if part.guid else None
        identifier = self._users.get(sid) or given or self._new_guid("user", sid.hex())
        return self._said(User, part.name or part.sid, identifier, part, **more)

    def _enterprise(self) -> None:
        held, part = self._holdings.enterprise, self._document.enterprise
        if part is None:
            return
        identifier = held.identifier
        if identifier == NULL_GUID and part.guid:
            identifier = _guid_of("enterprise", part.name, part.guid)
        try:
            attributes = plain_attributes(type(held), part)
        except QueueError as error:
            raise _wrong("enterprise", part.name, error.cause) from None
        after = msgspec.structs.replace(held, identifier=identifier, **attributes)
        if after != held:
            self._checked("enterprise", after)
            self._made.changed.append(after)
            self._before.append(held)


_WHAT: dict[type[DirectoryObject], str] = {
    Site: "site",
    ConnectedNetwork: "network",
    QueueManager: "machine",
    RoutingLink: "link",
    Queue: "queue",
    DistributionList: "list",
    QueueAlias: "alias",
    User: "user",
}


# For each kind of object, the command that lists the names that exist.
_KNOWN = {
    **{
        what: f"`posthouse directory {what} list` shows which there are"
        for what in ("site", "machine")
    },
    "network": "`posthouse directory export` shows which there are",
    "list or alias": "`posthouse directory list list` and `alias list` show which there are",
    "public queue": "`posthouse directory queue list` shows which there are; private queues go by "
    "a format name, such as DIRECT=OS:host\\private$\\name",
}


def _wrong(what: str, name: str, why: str) -> IllegalPropertyValue:
    return IllegalPropertyValue(
        f"{what} {excerpt(name)}: {why}", "Correct it; nothing was changed."
    )


def _guid_of(what: str, name: str, text: str) -> bytes:
    try:
        found = parse_guid(text)
    except QueueError as error:
        raise _wrong(what, name, error.cause) from None
    if found == NULL_GUID:
        raise _wrong(what, name, "its guid is zero")
    return found
