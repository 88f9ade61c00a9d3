"""The bindery: one method for each call on objects and their properties (qms-facts 4.2).

Calls are checked against the security of the object or property; only NWGetObjectID is for
anybody. Supervisors alone make, rename and delete objects, and change what makes somebody somebody
else (equivalences and groups), whatever its security is. The sets of a queue are as well guarded
by their security: supervisors alone write them until one of them gives that away.
"""

from __future__ import annotations

from posthouse.engine.jobs.bindery.accounting import FILE_SERVER_ID, Accounting
from posthouse.engine.jobs.bindery.objects import (
    IDENTITY_PROPERTIES,
    BinderyObject,
    Property,
    StoredObject,
)
from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.ledger.records import Change
from posthouse.model.bindery import (
    DYNAMIC,
    EVERYONE,
    GROUP_MEMBERS,
    GROUPS_IM_IN,
    MEMBERS_OF_SEGMENT,
    NO_OBJECT,
    NWBS_LOGGED_READ,
    NWBS_OBJECT_READ,
    NWBS_SUPER_WRITE,
    NWOT_FILE_SERVER,
    NWOT_USER,
    NWOT_USER_GROUP,
    NWOT_WILD,
    OBJECT_TYPE_MAX,
    PASSWORD,
    Q_OPERATORS,
    SECURITY_EQUALS,
    SEGMENT_SIZE,
    SEGMENTS_MAX,
    SET,
    SUPERVISOR,
    SUPERVISOR_ID,
    ObjectInfo,
    PropertyInfo,
    PropertyValue,
    check_security,
    fits_bindery,
    matches,
    object_name,
    property_name,
    scan_pattern,
)
from posthouse.model.completion_codes import (
    ILLEGAL_NAME,
    INVALID_BINDERY_SECURITY,
    MEMBER_EXISTS,
    NO_OBJECT_CREATE,
    NO_OBJECT_DELETE,
    NO_OBJECT_READ,
    NO_OBJECT_RENAME,
    NO_PROPERTY_CREATE,
    NO_PROPERTY_DELETE,
    NO_PROPERTY_READ,
    NO_PROPERTY_WRITE,
    NO_SUCH_MEMBER,
    NO_SUCH_OBJECT,
    NO_SUCH_PROPERTY,
    NO_SUCH_SEGMENT,
    NOT_A_SET,
    OBJECT_EXISTS,
    PROPERTY_EXISTS,
    WILD_CARD_NOT_ALLOWED,
    WRITE_TO_SET,
)
from posthouse.model.errors import IllegalUser, QmsError
from posthouse.security.accounts import Account

EVERYONE_ID = 3
FIXED_IDS = frozenset({SUPERVISOR_ID, FILE_SERVER_ID, EVERYONE_ID})
FILE_SERVER_NAME = "POSTHOUSE"  # where the computer's own name is none for the bindery
SECURITY_OF_OBJECTS = NWBS_LOGGED_READ | NWBS_SUPER_WRITE
_FIRST = NO_OBJECT  # the instance that begins a scan of properties


class Bindery(Accounting):
    """The bindery of this queue manager."""

    # -- finding

    def find_object(self, object_id: int) -> BinderyObject | None:
        """The object with an ID; None: there is none."""
        return self.objects.by_id.get(object_id)

    def object_with_id(self, object_id: int) -> BinderyObject:
        """The object with an ID, which is there."""
        return self.objects.by_id[object_id]

    def object_named(self, kind: int, name: str) -> BinderyObject | None:
        """The object of a type and name; None: there is none."""
        return self.objects.find(kind, name)

    # -- start

    def load(self) -> None:
        """Everything the store kept, what every bindery has, and a user for each account."""
        self.objects.load()
        change = Change()
        name = self.core.settings.computer_name
        server = object_name(name) if fits_bindery(name) else FILE_SERVER_NAME
        self._provide(SUPERVISOR_ID, NWOT_USER, SUPERVISOR, SECURITY_OF_OBJECTS, change)
        self._provide(FILE_SERVER_ID, NWOT_FILE_SERVER, server, NWBS_SUPER_WRITE, change)
        self._provide(EVERYONE_ID, NWOT_USER_GROUP, EVERYONE, SECURITY_OF_OBJECTS, change)
        self._make_user(self.objects.by_id[SUPERVISOR_ID], change)
        for account in self.accounts.all():
            if self.objects.of_sid(account.sid) is None:
                self.user_added(account, change)
        self.core.effects.commit(change)

    def _provide(self, fixed: int, kind: int, name: str, security: int, change: Change) -> None:
        objects = self.objects
        found = objects.by_id.get(fixed)
        if found is None:
            stored = StoredObject(kind, name, 0, security, self.core.utc)
            found = objects.create(fixed, stored, change)
        elif found.name != name and objects.find(kind, name) is None:
            objects.rename(found, name, change)  # the computer has another name
        if kind == NWOT_USER_GROUP and GROUP_MEMBERS not in found.properties:
            objects.create_property(found, GROUP_MEMBERS, SET, SECURITY_OF_OBJECTS, change)

    def _make_user(self, one: BinderyObject, change: Change) -> None:
        """What every user has: the sets of its identity, and a place in EVERYONE."""
        objects = self.objects
        if SECURITY_EQUALS not in one.properties:
            security = NWBS_OBJECT_READ | NWBS_SUPER_WRITE
            objects.create_property(one, SECURITY_EQUALS, SET, security, change)
        if GROUPS_IM_IN not in one.properties:
            objects.create_property(one, GROUPS_IM_IN, SET, SECURITY_OF_OBJECTS, change)
            objects.add_member(one, one.properties[GROUPS_IM_IN], EVERYONE_ID, change)
            everyone = objects.by_id[EVERYONE_ID]
            members = everyone.properties.get(GROUP_MEMBERS)
            if members is None:  # a supervisor has deleted it
                members = objects.create_property(
                    everyone, GROUP_MEMBERS, SET, SECURITY_OF_OBJECTS, change
                )
            if not members.has(one.id):
                objects.add_member(everyone, members, one.id, change)

    # -- accounts

    def check_room(self) -> None:
        """Refuses where one more object is too many."""
        self.objects.check_room()

    def user_added(self, account: Account, change: Change) -> None:
        """An account is a user of the bindery, if that can have its name."""
        if not fits_bindery(account.name):
            return
        name = object_name(account.name)
        one = self.objects.find(NWOT_USER, name)
        if one is None:
            stored = StoredObject(NWOT_USER, name, 0, SECURITY_OF_OBJECTS, self.core.utc)
            one = self.objects.create(self.objects.new_id(), stored, change)
        elif one.stored.sid:  # two accounts whose names are one in capitals
            return
        elif one.id == SUPERVISOR_ID and not account.is_administrator:
            return  # the name alone does not make a user the supervisor
        self._make_user(one, change)
        self.objects.link(one, account.sid, change)

    def user_changed(self, account: Account, change: Change) -> None:
        """Who may log in no more is logged out; no SUPERVISOR but an administrator."""
        one = self.objects.of_sid(account.sid)
        if one is None:
            self.user_added(account, change)
            return
        for station in self.stations.all():
            if station.object_id == one.id and self.own_object(station) is None:
                self.stations.leave(station, change)
        if one.id == SUPERVISOR_ID and not account.is_administrator:
            self._unlink_supervisor(one, change)

    def _unlink_supervisor(self, one: BinderyObject, change: Change) -> None:
        for station in self.stations.all():
            if station.object_id == one.id:
                self.stations.leave(station, change)
        self.objects.link(one, b"", change)

    def user_removed(self, account: Account, change: Change) -> None:
        """The user goes with its account; SUPERVISOR stays, and can no longer log in."""
        one = self.objects.of_sid(account.sid)
        if one is None:
            return
        if one.id in FIXED_IDS:
            self._unlink_supervisor(one, change)
        else:
            self._delete(one, change)

    # -- objects

    def create_object(
        self,
        station: Station,
        kind: int,
        name: str,
        flags: int = 0,
        security: int = SECURITY_OF_OBJECTS,
    ) -> ObjectInfo:
        """NWCreateObject (0x32): supervisors only. A user is an account from the beginning."""
        name = object_name(name)
        check_security(security)
        self.require(self.is_supervisor(station), NO_OBJECT_CREATE, f"create {name}", station)
        if not 0 <= kind <= OBJECT_TYPE_MAX:
            raise QmsError(WILD_CARD_NOT_ALLOWED, "the type FFFF stands for any type")
        if self.objects.find(kind, name) is not None:
            raise QmsError(OBJECT_EXISTS, f"there is an object {name} of type {kind}")
        self.check_room()
        if kind == NWOT_USER:
            return self._create_user(name, security)
        change = Change()
        stored = StoredObject(kind, name, flags & DYNAMIC, security, self.core.utc)
        one = self.objects.create(self.objects.new_id(), stored, change)
        if kind == NWOT_USER_GROUP:
            self.objects.create_property(one, GROUP_MEMBERS, SET, SECURITY_OF_OBJECTS, change)
        self.core.commit(change)
        return one.info

    def _create_user(self, name: str, security: int) -> ObjectInfo:
        with self.core.one_step():
            try:
                account = self.accounts.add(name, doors=())
            except IllegalUser as error:
                raise QmsError(ILLEGAL_NAME, error.cause, error.remedy) from None
            one = self.objects.of_sid(account.sid)
            assert one is not None
            one.stored.security = security
            self.objects.store(one, self.core.effects.change)
        return one.info

    def delete_object(self, station: Station, kind: int, name: str) -> None:
        """NWDeleteObject (0x33): supervisors only. A queue goes as by NWDestroyQueue."""
        one = self.named(station, kind, object_name(name))
        allowed = self.is_supervisor(station) and one.id not in FIXED_IDS
        self.require(allowed, NO_OBJECT_DELETE, f"delete {one.name}", station)
        if one.stored.sid:
            account = self.accounts.of_sid(one.stored.sid)
            assert account is not None
            self.accounts.remove(account.name)
            return
        change = Change()
        self._delete(one, change)
        self.core.commit(change)

    def _delete(self, one: BinderyObject, change: Change) -> None:
        for station in self.stations.all():
            if station.object_id == one.id:
                self.stations.leave(station, change)
        self.destroyed(one, change)
        self.objects.delete(one, change)

    def destroyed(self, one: BinderyObject, change: Change) -> None:
        """What is beside the object goes with it; of the job queues."""

    def rename_object(self, station: Station, kind: int, name: str, new_name: str) -> None:
        """Rename (0x34): supervisors only. Users keep the names of their accounts."""
        one, new_name = self.named(station, kind, object_name(name)), object_name(new_name)
        fixed = one.id in FIXED_IDS or kind == NWOT_USER
        allowed = self.is_supervisor(station) and not fixed
        self.require(allowed, NO_OBJECT_RENAME, f"rename {one.name}", station)
        if self.objects.find(kind, new_name) is not None:
            raise QmsError(OBJECT_EXISTS, f"there is an object {new_name} of type {kind}")
        change = Change()
        self.objects.rename(one, new_name, change)
        self.core.commit(change)

    def get_object_id(self, station: Station, kind: int, name: str) -> ObjectInfo:
        """NWGetObjectID (0x35); for anybody: the answer of a keyed login needs the ID (4.3).

        A stranger gets an ID for any name, so that it does not show who exists.
        """
        return self._told(station, kind, object_name(name))

    def _told(self, station: Station, kind: int, name: str) -> ObjectInfo:
        if self.is_stranger(station) and self.objects.find(kind, name) is None:
            return ObjectInfo(self.objects.decoy_id(kind, name), kind, name, 0, 0, False)
        return self.objects.get(kind, name).info

    def get_object_name(self, station: Station, object_id: int) -> ObjectInfo:
        """NWGetObjectName (0x36)."""
        one = self.objects.by_id.get(object_id)
        if one is None or (self.is_stranger(station) and not self._is_visible(station, one)):
            raise QmsError(NO_SUCH_OBJECT, f"there is no object {object_id:08X}")
        self._check_visible(station, one)
        return one.info

    def scan_object(self, station: Station, last_id: int, kind: int, pattern: str) -> ObjectInfo:
        """NWScanObject (0x37): the next one that fits and may be seen, after an ID."""
        pattern = scan_pattern(pattern)
        for one in self.objects.after(last_id):
            if kind not in (NWOT_WILD, one.type) or not matches(pattern, one.name):
                continue
            if self._is_visible(station, one):
                return one.info
        raise QmsError(NO_SUCH_OBJECT, "no further object fits")

    def _is_visible(self, station: Station, one: BinderyObject) -> bool:
        return self.may_read(station, one, one.stored.security)

    def _check_visible(self, station: Station, one: BinderyObject) -> None:
        allowed = self._is_visible(station, one)
        self.require(allowed, NO_OBJECT_READ, f"see {one.name}", station)

    def change_object_security(self, station: Station, kind: int, name: str, security: int) -> None:
        """Change Object Security (0x38): supervisors only."""
        one = self.named(station, kind, object_name(name))
        check_security(security)
        self.require(self.is_supervisor(station), NO_OBJECT_CREATE, f"change {one.name}", station)
        change = Change()
        one.stored.security = security
        self.objects.store(one, change)
        self.core.commit(change)

    # -- properties

    def create_property(
        self, station: Station, kind: int, name: str, prop: str, flags: int, security: int
    ) -> None:
        """NWCreateProperty (0x39): for callers who may write the object."""
        one, prop = self.named(station, kind, object_name(name)), property_name(prop)
        check_security(security)
        allowed = self._may_change(station, one, prop, one.stored.security) and prop != PASSWORD
        self.require(allowed, NO_PROPERTY_CREATE, f"create {prop} of {one.name}", station)
        self._check_levels(station, one, security)
        if prop in one.properties:
            raise QmsError(PROPERTY_EXISTS, f"{one.name} has a property {prop}")
        self.objects.check_properties(one)
        change = Change()
        self.objects.create_property(one, prop, flags & (DYNAMIC | SET), security, change)
        self.core.commit(change)

    def delete_property(self, station: Station, kind: int, name: str, prop: str) -> None:
        """Delete Property (0x3A)."""
        one, found = self._property(station, kind, name, prop)
        allowed = self._may_change(station, one, found.name, found.stored.security)
        self.require(allowed, NO_PROPERTY_DELETE, f"delete {found.name} of {one.name}", station)
        change = Change()
        self.objects.delete_property(one, found, change)
        self.core.commit(change)

    def change_property_security(
        self, station: Station, kind: int, name: str, prop: str, security: int
    ) -> None:
        """Change Property Security (0x3B): for callers who may write object and property."""
        one, found = self._property(station, kind, name, prop)
        check_security(security)
        allowed = self._may_change(station, one, found.name, found.stored.security)
        allowed = allowed and self.may_write(station, one, one.stored.security)
        self.require(allowed, NO_PROPERTY_DELETE, f"protect {found.name} of {one.name}", station)
        self._check_levels(station, one, security)
        change = Change()
        found.stored.security = security
        self.objects.store_property(one, found, change)
        self.core.commit(change)

    def scan_property(
        self, station: Station, kind: int, name: str, instance: int, pattern: str
    ) -> PropertyInfo:
        """NWScanProperty (0x3C): the next one that fits and may be read."""
        one, pattern = self.named(station, kind, object_name(name)), scan_pattern(pattern)
        self._check_visible(station, one)
        first = 0 if instance == _FIRST else instance + 1
        visible = [
            (at, prop)
            for at, (_, prop) in enumerate(sorted(one.properties.items()))
            if at >= first
            and matches(pattern, prop.name)
            and self.may_read(station, one, prop.stored.security)
        ]
        if not visible:
            raise QmsError(NO_SUCH_PROPERTY, f"no further property of {one.name} fits")
        at, prop = visible[0]
        stored = prop.stored
        return PropertyInfo(
            prop.name, stored.flags, stored.security, at, prop.has_value, len(visible) > 1
        )

    def read_property_value(
        self, station: Station, kind: int, name: str, prop: str, segment: int
    ) -> PropertyValue:
        """NWReadPropertyValue (0x3D): one segment, counted from 1."""
        one, found = self._property(station, kind, name, prop)
        allowed = self.may_read(station, one, found.stored.security)
        self.require(allowed, NO_PROPERTY_READ, f"read {found.name} of {one.name}", station)
        count = _segments(found)
        if not 1 <= segment <= count:
            raise QmsError(NO_SUCH_SEGMENT, f"{found.name} of {one.name} has {count} segments")
        return PropertyValue(_segment(found, segment), segment < count, found.stored.flags)

    def write_property_value(
        self,
        station: Station,
        kind: int,
        name: str,
        prop: str,
        segment: int,
        value: bytes,
        more: bool = False,
    ) -> None:
        """NWWritePropertyValue (0x3E); without `more` later segments are dropped."""
        one, found = self._property(station, kind, name, prop)
        self._check_writable(station, one, found)
        if found.is_set:
            raise QmsError(WRITE_TO_SET, f"{found.name} of {one.name} is a set")
        segments = found.stored.segments
        if not 1 <= segment <= min(len(segments) + 1, SEGMENTS_MAX) or len(value) > SEGMENT_SIZE:
            raise QmsError(NO_SUCH_SEGMENT, f"segment {segment} of {found.name} cannot be written")
        change = Change()
        segments[segment - 1 : segment] = [value.ljust(SEGMENT_SIZE, b"\0")]
        if not more:
            del segments[segment:]
        self.objects.store_property(one, found, change)
        self.core.commit(change)

    # -- sets

    def add_object_to_set(
        self, station: Station, kind: int, name: str, prop: str, member_kind: int, member: str
    ) -> None:
        """NWAddObjectToSet (0x41)."""
        one, found = self._set(station, kind, name, prop)
        other = self.named(station, member_kind, object_name(member))
        if found.name == Q_OPERATORS and other.type not in (NWOT_USER, NWOT_USER_GROUP):
            raise QmsError(NO_SUCH_OBJECT, f"{other.name} is neither a user nor a group")
        if found.has(other.id):
            raise QmsError(MEMBER_EXISTS, f"{other.name} is in {found.name} of {one.name}")
        self.objects.check_members(one, found)
        change = Change()
        self.objects.add_member(one, found, other.id, change)
        self.core.commit(change)

    def delete_object_from_set(
        self, station: Station, kind: int, name: str, prop: str, member_kind: int, member: str
    ) -> None:
        """NWDeleteObjectFromSet (0x42)."""
        one, found = self._set(station, kind, name, prop)
        other = self.named(station, member_kind, object_name(member))
        if not found.has(other.id):
            raise QmsError(NO_SUCH_MEMBER, f"{other.name} is not in {found.name} of {one.name}")
        change = Change()
        self.objects.remove_member(one, found, other.id, change)
        self.core.commit(change)

    def is_object_in_set(
        self, station: Station, kind: int, name: str, prop: str, member_kind: int, member: str
    ) -> bool:
        """Is Object In Set (0x43)."""
        one, found = self._property(station, kind, name, prop)
        allowed = self.may_read(station, one, found.stored.security)
        self.require(allowed, NO_PROPERTY_READ, f"read {found.name} of {one.name}", station)
        if not found.is_set:
            raise QmsError(NOT_A_SET, f"{found.name} of {one.name} is not a set")
        return found.has(self.named(station, member_kind, object_name(member)).id)

    def _set(
        self, station: Station, kind: int, name: str, prop: str
    ) -> tuple[BinderyObject, Property]:
        one, found = self._property(station, kind, name, prop)
        self._check_writable(station, one, found)
        if not found.is_set:
            raise QmsError(NOT_A_SET, f"{found.name} of {one.name} is not a set")
        return one, found

    # -- rights

    def _property(
        self, station: Station, kind: int, name: str, prop: str
    ) -> tuple[BinderyObject, Property]:
        one = self.named(station, kind, object_name(name))
        return one, self.objects.property_of(one, property_name(prop))

    def _check_writable(self, station: Station, one: BinderyObject, prop: Property) -> None:
        allowed = self._may_change(station, one, prop.name, prop.stored.security)
        self.require(allowed, NO_PROPERTY_WRITE, f"change {prop.name} of {one.name}", station)

    def _may_change(self, station: Station, one: BinderyObject, prop: str, security: int) -> bool:
        """Choice: only a supervisor makes anybody a member or an equivalent of anything."""
        if prop in IDENTITY_PROPERTIES and not self.is_supervisor(station):
            return False
        return self.may_write(station, one, security)

    def _check_levels(self, station: Station, one: BinderyObject, security: int) -> None:
        """Refuses security levels above the caller's own, which would lock the caller out."""
        level = self.level(station, one)
        if max(security & 0x0F, security >> 4) > level:
            raise QmsError(
                INVALID_BINDERY_SECURITY, f"0x{security:02X} is above what {one.name} may be given"
            )


def _segments(prop: Property) -> int:
    if prop.is_set:
        return -(-len(prop.members) // MEMBERS_OF_SEGMENT)
    return len(prop.stored.segments)


def _segment(prop: Property, segment: int) -> bytes:
    if not prop.is_set:
        return prop.stored.segments[segment - 1]
    at = (segment - 1) * MEMBERS_OF_SEGMENT
    members = prop.members[at : at + MEMBERS_OF_SEGMENT]
    return b"".join(m.to_bytes(4, "big") for m in members).ljust(SEGMENT_SIZE, b"\0")
