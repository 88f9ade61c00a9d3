"""Objects of the directory made of LDAP entries ([MS-MQDSSM] 2.2, routing-and-directory-facts 2).

An `Atlas` remembers what stands where, because entries name each other by their places. An entry
that cannot be used is a `BadEntry` with its reason; it never spoils the others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from posthouse.directory.ldap.fields import (
    ADDRESS_PREFIX,
    CLUSTER_SERVICE,
    COMPUTER_FIELDS,
    FIELDS,
    REMOTE_ACCESS_BIT,
    directory_server_type,
)
from posthouse.directory.ldap.names import BadEntry, Dn, QueueCn
from posthouse.directory.ldap.values import LdapEntry
from posthouse.directory.objects import (
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
from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.guids import NULL_GUID, format_guid, parse_guid

CLASSES: Final[dict[str, type[DirectoryObject]]] = {
    "msmqqueue": Queue,
    "msmqconfiguration": QueueManager,
    "site": Site,
    "msmqsitelink": RoutingLink,
    "msmqenterprisesettings": Enterprise,
    "msmq-custom-recipient": QueueAlias,
    "group": DistributionList,
    "user": User,
}
COMPUTER: Final = "computer"
MARK: Final = "Posthouse"
"""In adminDescription of entries that are there for queues only: ours to delete."""
MEMBER_MARK: Final = "Posthouse list member"
"""In that of recipients that only carry a format name for a list."""
LOST: Final = "LostAndFound"
"""Below it stand the names of objects that are not entered yet: references by identifier."""

_LINK_NAME = re.compile(r"([0-9a-fA-F]{32})([0-9a-fA-F]{32})")


class Computer(NamedTuple):
    """The values in the entry of a computer for its queue manager."""

    name: str
    fields: dict[str, Any]


class Atlas:
    """What stands where: identifiers by places and places by identifiers."""

    def __init__(self, root: Dn) -> None:
        self.root = root
        self.computers: dict[str, Computer] = {}
        self.recipients: dict[str, str] = {}
        self.damaged: set[str] = set()
        """Where computers stand that cannot be used."""
        self._objects: dict[str, tuple[type[DirectoryObject], bytes]] = {}
        self._places: dict[tuple[type[DirectoryObject], bytes], Dn] = {}

    def note(self, entry: LdapEntry) -> None:
        """Remembers an entry. Raises BadEntry where its class is unknown."""
        kind = kind_of(entry)
        if COMPUTER in entry.classes:
            self.damaged.add(entry.dn.key)  # unless it turns out well
            self.computers[entry.dn.key] = computer_of(entry)
            self.damaged.discard(entry.dn.key)
        elif kind is QueueAlias and entry.text("adminDescription") == MEMBER_MARK:
            self.recipients[entry.dn.key] = entry.text("msMQ-Recipient-FormatName")
        if kind is not None and entry.has("objectGUID"):
            self.keep(entry.dn, kind, entry.guid("objectGUID", NULL_GUID))

    def keep(self, dn: Dn, kind: type[DirectoryObject], identifier: bytes) -> None:
        """Remembers which object stands there."""
        self._objects[dn.key] = kind, identifier
        self._places[kind, identifier] = dn

    def forget(self, dn: Dn) -> None:
        """Nothing is there now."""
        self.computers.pop(dn.key, None)
        self.damaged.discard(dn.key)
        self.recipients.pop(dn.key, None)
        known = self._objects.pop(dn.key, None)
        if known is not None and self._places.get(known, dn).key == dn.key:
            self._places.pop(known, None)

    def place(self, kind: type[DirectoryObject], identifier: bytes) -> Dn | None:
        """Where an object stands."""
        return self._places.get((kind, identifier))

    def known(self, dn: Dn) -> tuple[type[DirectoryObject], bytes] | None:
        """Which object stands there."""
        return self._objects.get(dn.key)

    def identifier(self, kind: type[DirectoryObject], dn: Dn) -> bytes | None:
        """The identifier of the object of a kind there, or that a reference carries itself."""
        known = self._objects.get(dn.key)
        if known is not None:
            return known[1] if known[0] is kind else None
        if dn.parent.key == self.root.child(LOST).key:
            try:
                return parse_guid(dn.name)
            except IllegalPropertyValue:
                return None
        return None

    def reference(self, kind: type[DirectoryObject], identifier: bytes) -> Dn:
        """How an entry names an object: by its place, or by its identifier where it has none."""
        return self.place(kind, identifier) or self.root.below(format_guid(identifier), LOST)

    def identifiers(self, kind: type[DirectoryObject], dns: Iterable[Dn]) -> tuple[bytes, ...]:
        """Those that can be resolved, each once; the others count as gone."""
        found = (self.identifier(kind, dn) for dn in dns)
        return tuple(dict.fromkeys(one for one in found if one is not None))


def kind_of(entry: LdapEntry) -> type[DirectoryObject] | None:
    """What kind of object an entry is; None for computers and all else."""
    classes = entry.classes
    if COMPUTER in classes:
        return None
    return next((kind for name, kind in CLASSES.items() if name in classes), None)


def computer_of(entry: LdapEntry) -> Computer:
    """The values of a computer for its queue manager."""
    fields = {name: field.read(entry) for name, field in COMPUTER_FIELDS.items()}
    services = entry.texts("servicePrincipalName")
    fields["clustered"] = any(CLUSTER_SERVICE.lower() in text.lower() for text in services)
    fields["addresses"] = tuple(
        text[len(ADDRESS_PREFIX) :]
        for text in entry.texts("networkAddress")
        if text.lower().startswith(ADDRESS_PREFIX)
    )
    return Computer(entry.dn.name, fields)


def object_of(entry: LdapEntry, atlas: Atlas) -> DirectoryObject | None:
    """The object that an entry is; None for what is not an object of ours."""
    kind = kind_of(entry)
    if kind is None or not entry.has("objectGUID"):
        return None  # an entry without identifier is there for those below it
    fields = {name: field.read(entry) for name, field in FIELDS[kind].items()}
    fields["identifier"] = entry.guid("objectGUID", NULL_GUID)
    if "full_path" in kind.__struct_fields__:
        fields["full_path"] = str(entry.dn)
    if "create_time" in kind.__struct_fields__:
        fields["create_time"] = entry.time_s("whenCreated")
        fields["modify_time"] = entry.time_s("whenChanged", fields["create_time"])
    more = _MORE[kind](entry, atlas)
    return None if more is None else kind(**fields, **more)


def _queue(entry: LdapEntry, atlas: Atlas) -> dict[str, Any]:
    if len(entry.dn.parts) < 3:
        raise BadEntry("a queue stands below the queue manager of a computer")
    machine = entry.dn.parent
    computer = atlas.computers.get(machine.parent.key)
    name = QueueCn(entry.dn.name, entry.text("mSMQQueueNameExt")).name
    host = computer.fields["qualified_computer_name"] if computer else ""
    return {
        "pathname": f"{machine.parent.name}\\{name}",
        "qualified_pathname": f"{host}\\{name}" if host else "",
        "directory_path": f"LDAP://{entry.dn}",
        "queue_manager_identifier": atlas.identifier(QueueManager, machine) or NULL_GUID,
    }


def _machine(entry: LdapEntry, atlas: Atlas) -> dict[str, Any]:
    if len(entry.dn.parts) < 2:
        raise BadEntry("a queue manager stands below its computer")
    if entry.dn.parent.key in atlas.damaged:
        raise BadEntry("its computer, which has its addresses and keys, cannot be used")
    computer = atlas.computers.get(entry.dn.parent.key)
    service_type = entry.number("mSMQServiceType", 0)
    return {
        "computer_name": entry.dn.parent.name,
        "directory_server_type": directory_server_type(service_type),
        "remote_access_server": bool(service_type & REMOTE_ACCESS_BIT),
        "in_routing_server_identifier_list": atlas.identifiers(
            QueueManager, entry.dns("mSMQInRoutingServers")
        ),
        "out_routing_server_identifier_list": atlas.identifiers(
            QueueManager, entry.dns("mSMQOutRoutingServers")
        ),
        **(computer.fields if computer else {}),
    }


def _site(entry: LdapEntry, atlas: Atlas) -> dict[str, Any]:
    return {"name": entry.dn.name}


def _link(entry: LdapEntry, atlas: Atlas) -> dict[str, Any]:
    """Sites by the references; the name of the link has them too, should one be gone."""
    match = _LINK_NAME.fullmatch(entry.dn.name)
    sites = []
    for number, attribute in enumerate(("mSMQSite1", "mSMQSite2"), 1):
        found = atlas.identifiers(Site, entry.dns(attribute))
        if not found and match is None:
            raise BadEntry(f"{attribute} of the link {entry.dn.name[:64]} leads nowhere")
        sites.append(found[0] if found else bytes.fromhex(match[number] if match else ""))
    gates = atlas.identifiers(QueueManager, entry.dns("mSMQSiteGates"))
    return {
        "site1_identifier": sites[0],
        "site2_identifier": sites[1],
        "site_gate_identifier_list": gates,
    }


def _nothing(entry: LdapEntry, atlas: Atlas) -> dict[str, Any]:
    return {}


def _user(entry: LdapEntry, atlas: Atlas) -> dict[str, Any] | None:
    """Accounts that have nothing to do with queues are ignored."""
    if not (is_marked(entry) or entry.has("mSMQDigests") or entry.has("mSMQSignCertificates")):
        return None
    unnamed = entry.dn.name.upper().startswith("S-1-")
    return {"name": entry.text("displayName", "" if unnamed else entry.dn.name)}


def _alias(entry: LdapEntry, atlas: Atlas) -> dict[str, Any] | None:
    if entry.text("adminDescription") == MEMBER_MARK:
        return None
    return {"name": entry.dn.name}


def _list(entry: LdapEntry, atlas: Atlas) -> dict[str, Any] | None:
    members = members_of(entry, atlas)
    if not members and not is_marked(entry):
        return None
    return {"name": entry.dn.name, "members": members}


def members_of(entry: LdapEntry, atlas: Atlas) -> tuple[str, ...]:
    """Members of a group that can be sent to, as format names; people and computers cannot."""
    names = []
    for dn in entry.dns("member"):
        known = atlas.known(dn)
        if dn.key in atlas.recipients:
            names.append(atlas.recipients[dn.key])
        elif known is not None and known[0] is Queue:
            names.append(f"PUBLIC={format_guid(known[1])}")
        elif known is not None and known[0] in (DistributionList, QueueAlias):
            names.append(f"DL={format_guid(known[1])}")
    return tuple(dict.fromkeys(name for name in names if name))


_MORE: Final[dict[type[DirectoryObject], Any]] = {
    Queue: _queue,
    QueueManager: _machine,
    Site: _site,
    RoutingLink: _link,
    Enterprise: _nothing,
    User: _user,
    DistributionList: _list,
    QueueAlias: _alias,
}


class Reading(NamedTuple):
    """What entries gave: objects, the reasons why others could not be used, and which these are."""

    objects: list[DirectoryObject]
    faults: list[str]
    unusable: frozenset[tuple[type[DirectoryObject], bytes]]


def read_all(entries: Sequence[LdapEntry], atlas: Atlas, earlier: Atlas | None = None) -> Reading:
    """Every object of a listing; entries that refer to each other may come in any order.

    An `earlier` atlas holds the objects of before, for entries that lack even their object class.
    """
    objects: list[DirectoryObject] = []
    faults: list[str] = []
    unusable = {}
    usable = []
    marked = set()
    for entry in entries:
        before = (earlier or atlas).known(entry.dn)
        try:
            atlas.note(entry)
        except BadEntry as bad:
            faults.append(f"{entry.dn}: {bad}")
            unusable[entry.dn.key] = before
            if before is not None:
                atlas.keep(entry.dn, *before)
        else:
            usable.append(entry)
    for entry in usable:
        try:
            value = object_of(entry, atlas)
            if isinstance(value, DistributionList) and is_marked(entry):
                marked.add(value.identifier)
        except BadEntry as bad:
            faults.append(f"{entry.dn}: {bad}")
            unusable[entry.dn.key] = atlas.known(entry.dn)
        else:
            objects.extend(() if value is None else (value,))
    known = frozenset(one for one in unusable.values() if one is not None)
    return Reading(without_idle_groups(objects, marked), faults, known)


def is_marked(entry: LdapEntry) -> bool:
    """Whether the entry is there for queues only."""
    return entry.text("adminDescription").startswith(MARK)


def without_idle_groups(
    objects: list[DirectoryObject], marked: Iterable[bytes]
) -> list[DirectoryObject]:
    """Groups of groups are lists only where some of them lead to a queue, or were made for it."""
    lists = {one.identifier: one for one in objects if isinstance(one, DistributionList)}
    needed = {one.identifier for one in objects if isinstance(one, QueueAlias)} | set(marked)
    count = -1
    while len(needed) != count:
        count = len(needed)
        inner = {f"DL={format_guid(identifier)}" for identifier in needed}
        needed |= {key for key, one in lists.items() if _leads_on(one, inner)}
    return [one for one in objects if one.identifier not in lists or one.identifier in needed]


def _leads_on(value: DistributionList, inner: Collection[str]) -> bool:
    return any(not member.startswith("DL=") or member in inner for member in value.members)
