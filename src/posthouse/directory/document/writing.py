"""From a directory to its document: names instead of identifiers, in the order of names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from posthouse.directory.document.fields import certificates_written, plain_fields
from posthouse.directory.document.parts import (
    AliasPart,
    AnyPart,
    Document,
    EnterprisePart,
    LinkPart,
    ListPart,
    MachinePart,
    NetworkPart,
    QueuePart,
    SitePart,
    UserPart,
)
from posthouse.directory.objects import (
    ConnectedNetwork,
    DirectoryObject,
    DistributionList,
    Enterprise,
    Queue,
    QueueAlias,
    QueueManager,
    RoutingLink,
    Site,
    User,
)
from posthouse.model.errors import QueueError
from posthouse.model.guids import NULL_GUID, format_guid, parse_guid
from posthouse.security.sids import format_sid


class Holdings(NamedTuple):
    """The objects of a directory that a document shows of: all."""

    enterprise: Enterprise
    sites: list[Site]
    links: list[RoutingLink]
    machines: list[QueueManager]
    queues: list[Queue]
    lists: list[DistributionList]
    aliases: list[QueueAlias]
    users: list[User]
    networks: list[ConnectedNetwork]

    @classmethod
    def of(cls, values: Iterable[DirectoryObject] = ()) -> Holdings:
        """Those of a directory with these objects."""
        kinds: dict[type[DirectoryObject], list[Any]] = {kind: [] for kind in _KINDS}
        for value in values:
            kinds[type(value)].append(value)
        enterprises = kinds.pop(Enterprise)
        return cls(enterprises[0] if enterprises else Enterprise(), *kinds.values())

    def objects(self) -> Iterator[DirectoryObject]:
        """All of them; the enterprise only where there is one."""
        if self.enterprise.identifier != NULL_GUID:
            yield self.enterprise
        for values in self[1:]:
            yield from values


_KINDS = (
    Enterprise,
    Site,
    RoutingLink,
    QueueManager,
    Queue,
    DistributionList,
    QueueAlias,
    User,
    ConnectedNetwork,
)


def is_plain_name(name: str) -> bool:
    """Whether a name cannot be taken for a format name or a path where either may stand."""
    return not set(name) & set("=\\/")


def is_guid(name: str) -> bool:
    """Whether a name would be taken for an identifier: such ones are not spoken of by it."""
    try:
        parse_guid(name)
    except QueueError:
        return False
    return True


def _spoken_of(values: Iterable[DirectoryObject], attribute: str) -> dict[bytes, str]:
    found = {one.identifier: str(getattr(one, attribute)) for one in values}
    return {identifier: name for identifier, name in found.items() if not is_guid(name)}


class Names:
    """What the objects of a directory are called where others speak of them."""

    def __init__(self, holdings: Holdings) -> None:
        self.sites = _spoken_of(holdings.sites, "name")
        self.machines = _spoken_of(holdings.machines, "computer_name")
        self.networks = _spoken_of(holdings.networks, "name")
        self._full = {one.unique_name: one.qualified_computer_name for one in holdings.machines}
        self._by_name = {one.unique_name: one.identifier for one in holdings.machines}
        self._destinations = {
            f"PUBLIC={format_guid(one.identifier)}": one.pathname for one in holdings.queues
        }
        recipients: list[DistributionList | QueueAlias] = [*holdings.lists, *holdings.aliases]
        for recipient in filter(lambda one: is_plain_name(one.name), recipients):
            name = f"DL={format_guid(recipient.identifier)}"
            self._destinations[name] = recipient.name

    def destination(self, format_name: str) -> str:
        """A queue, list or alias by its name, where it has one."""
        return self._destinations.get(format_name, format_name)

    def machine_of(self, computer: str) -> bytes | None:
        """The machine of this computer name."""
        return self._by_name.get(computer.casefold())

    def full_name_of(self, computer: str) -> str:
        """Its name in DNS, as far as the directory has it."""
        return self._full.get(computer.casefold(), "")


def described(holdings: Holdings) -> Document:
    """The document of a directory, in the order of names."""
    names = Names(holdings)
    kinds = [[part_of(value, names) for value in values] for values in holdings[1:]]
    return Document(enterprise=_enterprise(holdings.enterprise), **_sorted(*kinds))


def _sorted(*kinds: list[Any]) -> dict[str, Any]:
    fields = ("sites", "links", "machines", "queues", "lists", "aliases", "users", "networks")
    return {field: sorted(parts, key=_order) for field, parts in zip(fields, kinds, strict=True)}


def _order(part: AnyPart) -> list[str]:
    if isinstance(part, LinkPart):
        return sorted(name.casefold() for name in part.sites)
    if isinstance(part, UserPart):
        return [part.name.casefold(), part.sid]
    return [(part.path if isinstance(part, QueuePart) else part.name).casefold()]


def _enterprise(value: Enterprise) -> EnterprisePart:
    guid = "" if value.identifier == NULL_GUID else format_guid(value.identifier)
    return EnterprisePart(guid=guid, **plain_fields(value))


def part_of(value: DirectoryObject, names: Names) -> AnyPart | EnterprisePart:
    """The part that shows of one object."""
    fields = plain_fields(value)
    guid = format_guid(value.identifier)
    match value:
        case Site():
            return SitePart(guid=guid, **fields)
        case RoutingLink():
            ends = named(names.sites, (value.site1_identifier, value.site2_identifier))
            gates = sorted(named(names.machines, value.site_gate_identifier_list))
            return LinkPart(guid=guid, sites=ends, gates=gates, **fields)
        case QueueManager():
            return MachinePart(guid=guid, **fields, **_machine_names(value, names))
        case Queue():
            return QueuePart(guid=guid, **fields, **_queue_names(value, names))
        case DistributionList():
            return ListPart(guid=guid, members=[*map(names.destination, value.members)], **fields)
        case QueueAlias():
            return AliasPart(guid=guid, queue=names.destination(value.format_name), **fields)
        case User():
            certificates = certificates_written(value.certificates)
            return UserPart(guid=guid, certificates=certificates, **fields)
        case ConnectedNetwork():
            return NetworkPart(guid=guid, **fields)
        case _:
            assert isinstance(value, Enterprise)
            return _enterprise(value)


def named(names: Mapping[bytes, str], identifiers: Iterable[bytes]) -> list[str]:
    """Names; what the directory does not have goes by its identifier."""
    return [names.get(one, format_guid(one)) for one in identifiers]


def _machine_names(value: QueueManager, names: Names) -> dict[str, Any]:
    networks = value.connected_network_identifier_list
    return {
        "sites": named(names.sites, value.site_identifier_list),
        "in_routing_servers": named(names.machines, value.in_routing_server_identifier_list),
        "out_routing_servers": named(names.machines, value.out_routing_server_identifier_list),
        "networks": named(names.networks, networks) if networks else None,
    }


def _queue_names(value: Queue, names: Names) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if value.queue_manager_identifier != names.machine_of(value.computer_name):
        fields["machine"] = named(names.machines, (value.queue_manager_identifier,))[0]
    full = qualified(value.pathname, names.full_name_of(value.computer_name))
    if value.qualified_pathname != full:
        fields["qualified_path"] = value.qualified_pathname
    return fields


def qualified(pathname: str, full_name: str) -> str:
    """A path with the full name of its computer; empty where that is not known."""
    rest = pathname.replace("/", "\\").partition("\\")[2]
    return f"{full_name}\\{rest}" if full_name else ""


def title_of(value: DirectoryObject, sites: Mapping[bytes, str] | None = None) -> str:
    """What people call an object."""
    if isinstance(value, RoutingLink):
        ends = (value.site1_identifier, value.site2_identifier)
        return ",".join(sorted(named(sites or {}, ends)))
    if isinstance(value, Queue):
        return value.pathname
    if isinstance(value, QueueManager):
        return value.computer_name
    if isinstance(value, User):
        return value.name or format_sid(value.security_identifier)
    return str(getattr(value, "name", "")) or format_guid(value.identifier)
