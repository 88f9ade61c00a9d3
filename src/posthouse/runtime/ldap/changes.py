"""Creating, changing and deleting objects in a directory server ([MS-MQDSSM] 3.1.6)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Final

from posthouse.directory.authority import Refused
from posthouse.directory.base import DirectoryOperationResult, overlaid, required_attributes
from posthouse.directory.change_merging import rebased
from posthouse.directory.ldap.names import BadEntry, Dn, all_of, equal, equal_octets
from posthouse.directory.ldap.reading import MARK, MEMBER_MARK, is_marked, object_of
from posthouse.directory.ldap.values import LdapEntry, Values, of_octets, of_text, of_time
from posthouse.directory.ldap.writing import (
    OBJECT_CLASSES,
    QUEUE_MANAGER_CN,
    Attributes,
    computer_attributes,
    entry_attributes,
    fixed_attributes,
    is_server,
    link_name,
    member_place,
    place_of,
    recipient_place,
    required_of_accounts,
    settings_attributes,
    settings_place,
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
from posthouse.model.guids import NULL_GUID
from posthouse.runtime.ldap.connection import (
    ALREADY_EXISTS,
    CONFLICTS,
    LdapRefusal,
)
from posthouse.runtime.ldap.entries import SECURITY, Places

_SET_BY_DIRECTORY: Final = frozenset(
    {"identifier", "create_time", "modify_time", "full_path", "directory_path"}
)
_SERVER_ATTRIBUTES: Final = frozenset(
    {
        "routing_server",
        "directory_server",
        "supporting_server",
        "site_identifier_list",
        "directory_server_type",
        "remote_access_server",
    }
)
_STRIPPED: Final = frozenset({"objectclass", "cn", "modifytimestamp", "usnchanged", "entrycsn"})
_TRIES: Final = 10
_ERROR: Final = DirectoryOperationResult.GENERIC_ERROR
_EXISTS: Final = DirectoryOperationResult.OBJECT_ALREADY_EXISTS
_NOT_FOUND: Final = DirectoryOperationResult.OBJECT_NOT_FOUND


class Changer:
    """Changes objects where `places` finds them; gives them back as they are stored."""

    def __init__(self, places: Places, new_guid: Callable[[], bytes]) -> None:
        self._places = places
        self._connection = places.connection
        self._new_guid = new_guid

    @property
    def _is_domain(self) -> bool:
        return self._places.contexts.is_domain

    # -- creation

    def create(
        self, value: DirectoryObject, utc_s: int, attributes: Collection[str] | None
    ) -> DirectoryObject:
        """[MS-MQDSSM] 3.1.6.1. A domain gives identifiers and times itself."""
        kind = type(value)
        if isinstance(value, ConnectedNetwork):
            raise Refused(_ERROR, "directory servers hold no connected networks")
        known = kind.directory_attributes()
        names = known if attributes is None else required_attributes(kind) | set(attributes)
        identifier = value.identifier
        if identifier != NULL_GUID and self._places.find(kind, identifier) is not None:
            raise Refused(_EXISTS, f"there is a {kind.__name__} with this identifier")
        made = entry_attributes(value, self._places.atlas, names)
        made |= fixed_attributes(value, self._places.atlas)
        if self._is_domain:
            made.pop(SECURITY, None)
        else:
            made["objectGUID"] = of_octets(
                self._new_guid() if identifier == NULL_GUID else identifier
            )
            made["whenCreated"] = of_time(utc_s)
            made["whenChanged"] = of_time(max(utc_s, getattr(value, "modify_time", 0)))
        if isinstance(value, User):
            return self._create_user(value, made)
        if isinstance(value, DistributionList):
            made |= {"member": self._members(value), "adminDescription": of_text(MARK)}
            if not self._is_domain:
                made |= required_of_accounts("group", value.name, self._places.contexts.root)
        place = self._place_for(value)
        self._add(place, made, OBJECT_CLASSES[kind])
        stored = self._read(place)
        if isinstance(stored, QueueManager) and isinstance(value, QueueManager):
            self._write_computer(place.parent, value, names)
            self._write_settings(overlaid(value, stored, ["identifier"]))
            stored = self._read(place)
        return stored

    def _create_user(self, value: User, made: Attributes) -> DirectoryObject:
        """An account that is there gets the certificates; else outside of a domain, a new one."""
        entry = self._places.find_user(value.security_identifier)
        if entry is None:
            if self._is_domain:
                raise Refused(_NOT_FOUND, "the domain has no account with this SID")
            place = self._place_for(value)
            made["adminDescription"] = of_text(MARK)
            root = self._places.contexts.root
            made |= required_of_accounts("user", place.name, root)
            self._add(place, made, "user", "securityPrincipal")
            return self._read(place)
        if _object(entry, self._places) is not None:
            raise Refused(_EXISTS, "the account has certificates already")
        if not value.certificates:
            raise Refused(_ERROR, f"{entry.dn} is an account of others; enter it with certificates")
        kept = {"mSMQDigests", "mSMQSignCertificates"}
        if not entry.has("objectGUID"):
            kept.add("objectGUID")
        try:
            changes = {name: made[name] for name in made if name in kept}
            self._connection.modify(entry.dn, changes, entry)
        except LdapRefusal as refusal:
            if refusal.code not in CONFLICTS:
                raise
            raise Refused(_EXISTS, "another process is changing the account") from None
        return self._read(entry.dn)

    def _place_for(self, value: DirectoryObject) -> Dn:
        """Where a new object goes; what it stands below is there then."""
        root, configuration, *_ = self._places.contexts
        place = place_of(value, root, configuration)
        if isinstance(value, Queue):
            return self._places.machine_for(value.computer_name).child(place.name)
        if isinstance(value, QueueManager):
            return self._places.computer_for(value.computer_name).child(QUEUE_MANAGER_CN)
        if isinstance(value, RoutingLink):
            turned = place.parent.child(link_name(value, turned=True))
            if self._connection.get(turned, ["objectClass"]) is not None:
                raise Refused(_EXISTS, "there is a link between these sites")
        self._places.ensure(place.parent)
        return place

    def _add(self, place: Dn, made: Attributes, *classes: str) -> None:
        """A new entry; one that only stood there for those below it becomes the object."""
        try:
            self._connection.add(place, classes, made)
        except LdapRefusal as refusal:
            there = self._connection.get(place, ["objectGUID", "objectClass"])
            if refusal.code != ALREADY_EXISTS or there is None or self._is_domain:
                raise
            if list(there.values("objectGUID")) == list(made["objectGUID"]):
                return  # we made it: the connection broke before we heard so
            if there.has("objectGUID"):
                raise
            self._connection.modify(place, made)

    # -- changes

    def write(
        self,
        value: DirectoryObject,
        utc_s: int,
        attributes: Collection[str] | None,
        base: DirectoryObject | None = None,
    ) -> DirectoryObject:
        """[MS-MQDSSM] 3.1.6.7: only what differs is written.

        Where somebody else has changed the entry since we read it, we read it again.
        """
        for _ in range(_TRIES):
            try:
                return self._write(value, utc_s, attributes, base)
            except LdapRefusal as refusal:
                if refusal.code not in CONFLICTS:
                    raise
        raise Refused(_ERROR, "other programs keep changing it; try again")

    def _write(
        self,
        value: DirectoryObject,
        utc_s: int,
        attributes: Collection[str] | None,
        base: DirectoryObject | None,
    ) -> DirectoryObject:
        entry = self._entry_of(value)
        if isinstance(value, DistributionList):
            self._learn_members(entry)
        before: Any = self._object_of(entry)
        known = value.directory_attributes()
        fixed = _SET_BY_DIRECTORY | value.fixed_attributes
        names = (known if attributes is None else frozenset(attributes)) - fixed
        after = overlaid(before, rebased(value, base, before), names)
        place = self._renamed(entry, before, after)
        changes = self._differences(before, after, names)
        if not self._is_domain:
            changes["whenChanged"] = of_time(max(utc_s, getattr(before, "modify_time", 0)))
        if isinstance(after, DistributionList) and before.members != after.members:
            changes["member"] = _as_there(entry, self._members(after) + self._others(entry))
        self._connection.modify(place, changes, entry)
        if isinstance(after, QueueManager):
            self._write_computer(place.parent, after, names)
            if not _SERVER_ATTRIBUTES.isdisjoint(names):
                self._write_settings(after)
        return self._read(place)

    def _differences(
        self, before: DirectoryObject, after: DirectoryObject, names: Collection[str]
    ) -> Attributes:
        atlas = self._places.atlas
        old, new = (entry_attributes(value, atlas, names) for value in (before, after))
        if self._is_domain:
            new.pop(SECURITY, None)
        return {name: values for name, values in new.items() if old.get(name) != values}

    def _renamed(self, entry: LdapEntry, before: DirectoryObject, after: DirectoryObject) -> Dn:
        """Where the object stands under its new name."""
        old, new = (_name_of(value) for value in (before, after))
        if old == new:
            return entry.dn
        if isinstance(after, QueueManager):
            return self._renamed_computer(entry.dn, new)
        self._places.atlas.forget(entry.dn)
        return self._connection.rename(entry.dn, new)

    def _renamed_computer(self, place: Dn, name: str) -> Dn:
        computer = self._places.get(place.parent)
        if computer is None or not is_marked(computer):
            raise Refused(_ERROR, "only the creator of a computer may rename it")
        self._places.atlas.forget(place)
        self._places.atlas.forget(place.parent)
        return self._connection.rename(place.parent, name).child(place.name)

    def _write_computer(self, place: Dn, value: QueueManager, names: Collection[str]) -> None:
        entry = self._entry_at(place)
        made = computer_attributes(
            value, names, entry.texts("servicePrincipalName"), entry.texts("networkAddress")
        )
        self._connection.modify(
            place,
            {name: values for name, values in made.items() if list(entry.values(name)) != values},
            entry,
        )
        self._places.get(place)

    def _write_settings(self, value: QueueManager) -> None:
        """Writes the entries of a server in its sites, after deleting the earlier ones, facts
        2.4.
        """
        self._delete_settings(value.identifier)
        if not is_server(value):
            return
        for identifier in value.site_identifier_list:
            site = self._places.find(Site, identifier)
            if site is None:
                continue
            place = settings_place(value.computer_name, site.dn)
            self._places.ensure(place.parent)
            self._connection.delete(place)  # of a queue manager that the computer had before
            self._connection.add(place, ["mSMQSettings"], settings_attributes(value))

    def _delete_settings(self, identifier: bytes) -> None:
        wanted = all_of(equal("objectClass", "mSMQSettings"), equal_octets("mSMQQMID", identifier))
        base = self._places.contexts.configuration
        for entry in list(self._connection.search(base, wanted, ["objectClass"])):
            self._connection.delete(entry.dn)

    # -- members of lists

    def _members(self, value: DistributionList) -> Values:
        """The entries of the members; names of other systems get a recipient each."""
        places = [self._member(member) for member in value.members]
        return [str(place).encode() for place in dict.fromkeys(places)]

    def _member(self, member: str) -> Dn:
        atlas, root = self._places.atlas, self._places.contexts.root
        place = member_place(member, atlas)
        if place is not None:
            return place
        place = recipient_place(member, root)
        made: Attributes = {
            "msMQ-Recipient-FormatName": of_text(member),
            "adminDescription": of_text(MEMBER_MARK),
        }
        self._places.ensure(place.parent)
        try:
            self._connection.add(place, [OBJECT_CLASSES[QueueAlias]], made)
        except LdapRefusal as refusal:
            if refusal.code != ALREADY_EXISTS:  # another list has it as well
                raise
        self._places.get(place)
        return place

    def _learn_members(self, entry: LdapEntry) -> None:
        """Others may have put in what we have not seen yet."""
        for dn in entry.dns("member"):
            if self._places.atlas.known(dn) is None:
                self._places.get(dn)

    def _others(self, entry: LdapEntry) -> Values:
        """Members that are not business of ours: people, whether known to us or not, and others."""
        atlas = self._places.atlas
        return [
            str(dn).encode()
            for dn in entry.dns("member")
            if dn.key not in atlas.recipients and not _can_be_sent_to(atlas.known(dn))
        ]

    # -- deletion

    def delete(self, value: DirectoryObject) -> None:
        """[MS-MQDSSM] 3.1.6.2; what others have entered only loses what is ours in it."""
        entry = self._entry_of(value)
        if isinstance(value, User) and not is_marked(entry):
            self._connection.modify(entry.dn, {"mSMQDigests": [], "mSMQSignCertificates": []})
            return
        if isinstance(value, DistributionList) and not is_marked(entry):
            raise Refused(_ERROR, f"{entry.dn} is a group that others have made")
        if isinstance(value, QueueManager):
            self._delete_settings(value.identifier)
        self._remove(entry)
        self._places.atlas.forget(entry.dn)
        if isinstance(value, QueueManager):
            self._remove_computer(entry.dn.parent)

    def _remove(self, entry: LdapEntry) -> None:
        """The entry goes; where others stand below it, it only stops being an object."""
        below = self._places.below(entry.dn)
        if not below:
            self._connection.delete(entry.dn)
        elif self._is_domain:
            raise Refused(_ERROR, f"others stand below {entry.dn}; delete them first")
        elif "site" in entry.classes:
            for dn in [*below, entry.dn]:
                self._connection.delete(dn)
        else:
            present = [name for name in entry.attributes if name not in _STRIPPED]
            self._connection.modify(entry.dn, {name: [] for name in present})

    def _remove_computer(self, place: Dn) -> None:
        computer = self._places.get(place)
        if computer is not None and is_marked(computer) and not self._places.below(place):
            self._connection.delete(place)
            self._places.atlas.forget(place)

    # -- helpers

    def _entry_of(self, value: DirectoryObject) -> LdapEntry:
        entry = None
        if not isinstance(value, ConnectedNetwork):
            entry = self._places.find(type(value), value.identifier)
        if entry is None:
            raise Refused(_NOT_FOUND, f"the directory has no such {type(value).__name__}")
        return entry

    def _entry_at(self, place: Dn) -> LdapEntry:
        entry = self._places.get(place)
        if entry is None:
            raise Refused(_NOT_FOUND, f"{place} is gone, or cannot be read by us")
        return entry

    def _read(self, place: Dn) -> DirectoryObject:
        return self._object_of(self._entry_at(place))

    def _object_of(self, entry: LdapEntry) -> DirectoryObject:
        found = _object(entry, self._places)
        if found is None:
            raise Refused(_NOT_FOUND, f"{entry.dn} is not an object of the directory")
        return found


def _object(entry: LdapEntry, places: Places) -> DirectoryObject | None:
    try:
        return object_of(entry, places.atlas)
    except BadEntry as bad:
        raise Refused(_ERROR, f"{entry.dn}: {bad}") from None


def _can_be_sent_to(known: tuple[type[DirectoryObject], bytes] | None) -> bool:
    return known is not None and known[0] in (Queue, DistributionList, QueueAlias)


def _as_there(entry: LdapEntry, members: Values) -> Values:
    """Members in the words in which the entry has them: those that stay are not touched."""
    there = {}
    for raw in entry.values("member"):
        with suppress(BadEntry, UnicodeDecodeError):
            there[Dn.parse(bytes(raw).decode()).key] = bytes(raw)
    return [there.get(Dn.parse(one.decode()).key, one) for one in members]


def _name_of(value: DirectoryObject) -> str:
    if isinstance(value, Site | DistributionList | QueueAlias):
        return value.name
    return value.computer_name if isinstance(value, QueueManager) else ""
