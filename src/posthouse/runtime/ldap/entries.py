"""Finds entries in a directory server: its contexts, entries by identifier, computers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from posthouse.directory.authority import AuthorityAway, Refused
from posthouse.directory.base import DirectoryOperationResult
from posthouse.directory.ldap.fields import COMPUTER_FIELDS, FIELDS
from posthouse.directory.ldap.names import BadEntry, Dn, all_of, any_of, equal, equal_octets
from posthouse.directory.ldap.reading import COMPUTER, MARK, Atlas
from posthouse.directory.ldap.values import LdapEntry, of_text
from posthouse.directory.ldap.writing import (
    OBJECT_CLASSES,
    QUEUE_MANAGER_CN,
    Attributes,
    computer_place,
    required_of_accounts,
    services_place,
)
from posthouse.directory.objects import (
    DirectoryObject,
    Enterprise,
    QueueManager,
    RoutingLink,
    Site,
    User,
)
from posthouse.model.guids import NULL_GUID, format_guid
from posthouse.model.text import excerpt
from posthouse.runtime.ldap.connection import (
    ALREADY_EXISTS,
    NO_SUCH_ATTRIBUTE,
    NO_SUCH_OBJECT,
    VERSION,
    LdapConnection,
    LdapRefusal,
)

_ACTIVE_DIRECTORY: Final = b"1.2.840.113556.1.4.800"
_ROOT_ATTRIBUTES: Final = (
    "namingContexts",
    "defaultNamingContext",
    "rootDomainNamingContext",
    "configurationNamingContext",
    "supportedCapabilities",
    "highestCommittedUSN",
    "dnsHostName",
)
_STATUS: Final = {
    NO_SUCH_ATTRIBUTE: DirectoryOperationResult.ATTRIBUTE_NOT_FOUND,
    NO_SUCH_OBJECT: DirectoryOperationResult.OBJECT_NOT_FOUND,
    ALREADY_EXISTS: DirectoryOperationResult.OBJECT_ALREADY_EXISTS,
}
_IN_CONFIGURATION: Final = (Site, RoutingLink, Enterprise)
_STAMPS: Final = ("modifyTimestamp", "uSNChanged")
SECURITY: Final = "nTSecurityDescriptor"


class Contexts(NamedTuple):
    """The root entry of a server: where things stand, and whether it is a domain's."""

    root: Dn
    configuration: Dn
    is_domain: bool
    host: str
    highest_usn: int


@contextmanager
def refusals() -> Iterator[None]:
    """The server's answers as results of directory operations (routing-and-directory-facts 2)."""
    try:
        yield
    except LdapRefusal as refusal:
        status = _STATUS.get(refusal.code, DirectoryOperationResult.GENERIC_ERROR)
        raise Refused(status, str(refusal)) from None


class Places:
    """One server's directory: what is known of it, and how to find what is not."""

    def __init__(self, connection: LdapConnection) -> None:
        self.connection = connection
        self.contexts = Contexts(Dn(()), Dn(()), False, "", 0)
        self.atlas = Atlas(Dn(()))
        self._looked_at = 0

    def ready(self) -> None:
        """Looks where that has not happened since the connection was opened."""
        self.connection.opened()
        if self._looked_at != self.connection.openings:
            self.look()

    def look(self) -> Contexts:
        """Reads the root of the server, as at every first contact."""
        self.connection.opened()
        with refusals():
            entry = self.connection.get("", _ROOT_ATTRIBUTES)
        if entry is None:
            raise AuthorityAway(
                f"{self.connection.server} does not describe itself (its root entry is empty)"
            )
        try:
            contexts = self._contexts(entry)
        except BadEntry as bad:
            raise AuthorityAway(f"{self.connection.server}: {bad}") from None
        if contexts.root.key != self.contexts.root.key:
            self.atlas = Atlas(contexts.root)
        self.contexts = contexts
        self._looked_at = self.connection.openings
        return contexts

    def _contexts(self, entry: LdapEntry) -> Contexts:
        settings = self.connection.settings
        usual = entry.text("rootDomainNamingContext") or entry.text("defaultNamingContext")
        root = Dn.parse(settings.base or usual or entry.text("namingContexts"))
        if not root.parts:
            raise BadEntry("it has no naming context; set [directory.ldap] base")
        configuration = settings.configuration or entry.text("configurationNamingContext")
        return Contexts(
            root,
            Dn.parse(configuration) if configuration else root.child("Configuration"),
            _ACTIVE_DIRECTORY in entry.values("supportedCapabilities"),
            entry.text("dnsHostName") or str(self.connection.server),
            entry.number("highestCommittedUSN", 0),
        )

    @property
    def wanted(self) -> list[str]:
        """The attributes that are asked for. Rights of a domain mean other things: not those."""
        names = {
            field.attribute
            for fields in (*FIELDS.values(), COMPUTER_FIELDS)
            for field in fields.values()
        }
        names |= set(_MORE_ATTRIBUTES)
        if self.contexts.is_domain:
            return [*sorted(names - {SECURITY}), *_STAMPS]
        return [*sorted(names), *_STAMPS, VERSION]

    def base_of(self, kind: type[DirectoryObject]) -> Dn:
        """Below what objects of a kind stand."""
        return self.contexts.configuration if kind in _IN_CONFIGURATION else self.contexts.root

    # -- entries

    def get(self, dn: Dn) -> LdapEntry | None:
        """An entry with all that is wanted of it; it is noted."""
        entry = self.connection.get(dn, self.wanted)
        if entry is None:
            self.atlas.forget(dn)
        else:
            self.note(entry)
        return entry

    def note(self, entry: LdapEntry) -> None:
        """Remembers where an entry stands."""
        try:
            self.atlas.note(entry)
        except BadEntry as bad:
            raise Refused(DirectoryOperationResult.GENERIC_ERROR, f"{entry.dn}: {bad}") from None

    def find(self, kind: type[DirectoryObject], identifier: bytes) -> LdapEntry | None:
        """The entry of an object: where it was last, else wherever it is."""
        place = self.atlas.place(kind, identifier)
        if place is not None:
            entry = self.get(place)
            if entry is not None and entry.octets("objectGUID") == identifier:
                return entry
            self.atlas.forget(place)
        wanted = all_of(
            equal("objectClass", OBJECT_CLASSES[kind]), equal_octets("objectGUID", identifier)
        )
        return self._first(self.base_of(kind), wanted)

    def find_user(self, sid: bytes) -> LdapEntry | None:
        """The account of a user."""
        wanted = all_of(equal("objectClass", OBJECT_CLASSES[User]), equal_octets("objectSid", sid))
        return self._first(self.contexts.root, wanted)

    def sites(self, name: str) -> list[bytes]:
        """The identifiers of sites of that name, or with that identifier; of all without one."""
        wanted = equal("objectClass", OBJECT_CLASSES[Site])
        found = [
            (entry.dn.name.casefold(), entry.guid("objectGUID", NULL_GUID))
            for entry in self.connection.search(self.contexts.configuration, wanted, self.wanted)
        ]
        return [
            identifier
            for title, identifier in found
            if identifier != NULL_GUID
            and (not name or name.casefold() in (title, format_guid(identifier)))
        ]

    def find_computer(self, name: str) -> LdapEntry | None:
        """A computer by its name, wherever in the domain it stands."""
        name = name.partition(".")[0] if self.contexts.is_domain else name
        wanted = all_of(
            equal("objectClass", COMPUTER),
            any_of(equal("cn", name), equal("sAMAccountName", f"{name}$")),
        )
        return self._first(self.contexts.root, wanted)

    def _first(self, base: Dn, wanted: str) -> LdapEntry | None:
        for entry in self.connection.search(base, wanted, self.wanted):
            self.note(entry)
            return entry
        return None

    def below(self, dn: Dn) -> list[Dn]:
        """Everything below an entry, the leaves first."""
        found = [one.dn for one in self.connection.search(dn, "(objectClass=*)", ["objectClass"])]
        found.sort(key=lambda one: -len(one.parts))
        return [one for one in found if one.key != dn.key]

    # -- what entries need above them

    def computer_for(self, name: str) -> Dn:
        """The computer of that name; outside of a domain it is entered if need be."""
        found = self.find_computer(name)
        if found is not None:
            return found.dn
        if self.contexts.is_domain:
            raise Refused(
                DirectoryOperationResult.OBJECT_NOT_FOUND,
                f"the domain has no computer {excerpt(name)}: join it to the domain first",
            )
        place = computer_place(name, self.contexts.root)
        self.ensure(place)
        self.get(place)
        return place

    def machine_for(self, name: str) -> Dn:
        """The queue manager of a computer, as the place that its queues stand below."""
        place = self.computer_for(name).child(QUEUE_MANAGER_CN)
        if self.get(place) is None:
            if self.contexts.is_domain:
                raise Refused(
                    DirectoryOperationResult.OBJECT_NOT_FOUND,
                    f"the computer {excerpt(name)} has no queue manager in the directory",
                )
            self.ensure(place)
        return place

    def ensure(self, dn: Dn) -> None:
        """Enters what entries stand below, where it is missing and we may."""
        if self.connection.get(dn, ["objectClass"]) is not None:
            return
        if dn.key == self.contexts.root.key:
            raise Refused(
                DirectoryOperationResult.OBJECT_NOT_FOUND, f"the directory has no entry {dn}"
            )
        self.ensure(dn.parent)
        name, attributes = self._class_at(dn)
        try:
            self.connection.add(dn, [name], attributes)
        except LdapRefusal as refusal:
            if refusal.code != ALREADY_EXISTS:  # another one was quicker: just as well
                raise

    def _class_at(self, dn: Dn) -> tuple[str, Attributes]:
        root, configuration, *_ = self.contexts
        if dn.key == services_place(configuration).key:
            return OBJECT_CLASSES[Enterprise], {}
        if dn.parent.key == root.child("Computers").key:
            marks = {"adminDescription": of_text(MARK)}
            return COMPUTER, marks | required_of_accounts(COMPUTER, dn.name, root)
        if dn.name == QUEUE_MANAGER_CN and dn.parent.parent.key == root.child("Computers").key:
            return OBJECT_CLASSES[QueueManager], {}
        if self.contexts.is_domain and dn.parent.name == "Servers":
            return "server", {}
        in_sites = dn.parent.parent.key == configuration.child("Sites").key
        is_servers = self.contexts.is_domain and dn.name == "Servers" and in_sites
        return ("serversContainer" if is_servers else "container"), {}


_MORE_ATTRIBUTES: Final[Sequence[str]] = (
    "objectClass",
    "objectGUID",
    "whenCreated",
    "whenChanged",
    "adminDescription",
    "displayName",
    "mSMQQueueNameExt",
    "mSMQServiceType",
    "mSMQInRoutingServers",
    "mSMQOutRoutingServers",
    "mSMQSite1",
    "mSMQSite2",
    "mSMQSiteGates",
    "servicePrincipalName",
    "networkAddress",
    "member",
)
