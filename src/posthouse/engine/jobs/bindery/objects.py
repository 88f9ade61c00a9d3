"""Objects of the bindery and their properties as records of the log (qms-facts 4).

An object, a property and each member of a set are records of their own, so that a set of many
members changes at the cost of one. IDs are never given twice.
"""

from __future__ import annotations

import hmac
import struct
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

import msgspec

from posthouse.engine.ledger.ledger import Ledger, ReservedCounter
from posthouse.engine.ledger.records import TABLE_BINDERY, Change
from posthouse.model.bindery import (
    DYNAMIC,
    GROUP_MEMBERS,
    GROUPS_IM_IN,
    NO_OBJECT,
    SECURITY_EQUALS,
    ObjectInfo,
    is_set,
)
from posthouse.model.completion_codes import NO_SUCH_OBJECT, NO_SUCH_PROPERTY, SERVER_OUT_OF_MEMORY
from posthouse.model.errors import QmsError

FIRST_ID = 0x00010001
ID_MAX = 0xFFFFFFF0
IDENTITY_PROPERTIES = frozenset({SECURITY_EQUALS, GROUPS_IM_IN, GROUP_MEMBERS})
_OBJECT, _PROPERTY, _MEMBER, _DECOYS = b"o", b"p", b"m", b"d"
_DECOY_KEY_SIZE = 32
_ID = struct.Struct(">I")
_IDS = struct.Struct(">II")


class StoredObject(msgspec.Struct, array_like=True):
    """An object as it is kept."""

    type: int
    name: str
    flags: int
    security: int
    created: int  # UTC seconds
    password: bytes = b""  # sealed; of a user its account has it
    sid: bytes = b""  # of the account that a user is


class StoredProperty(msgspec.Struct, array_like=True):
    """A property as it is kept; members of sets are apart."""

    flags: int
    security: int
    segments: list[bytes] = []


_encode = msgspec.msgpack.Encoder().encode
_decode_object = msgspec.msgpack.Decoder(StoredObject).decode
_decode_property = msgspec.msgpack.Decoder(StoredProperty).decode


class Property:
    """A property of an object: an item with segments, or a set with members in order of IDs."""

    __slots__ = ("members", "name", "stored")

    def __init__(self, name: str, stored: StoredProperty) -> None:
        self.name = name
        self.stored = stored
        self.members: list[int] = []

    @property
    def is_set(self) -> bool:
        """Whether it has members."""
        return is_set(self.stored.flags)

    @property
    def has_value(self) -> bool:
        """Whether anything is in it."""
        return bool(self.members or self.stored.segments)

    def has(self, member: int) -> bool:
        """Whether this object is listed."""
        at = bisect_left(self.members, member)
        return at < len(self.members) and self.members[at] == member


class BinderyObject:
    """An object with its properties."""

    __slots__ = ("id", "properties", "stored")

    def __init__(self, object_id: int, stored: StoredObject) -> None:
        self.id = object_id
        self.stored = stored
        self.properties: dict[str, Property] = {}

    @property
    def name(self) -> str:
        """In capitals."""
        return self.stored.name

    @property
    def type(self) -> int:
        """The kind of object."""
        return self.stored.type

    @property
    def info(self) -> ObjectInfo:
        """What is told of it."""
        stored = self.stored
        return ObjectInfo(
            self.id,
            stored.type,
            stored.name,
            stored.flags,
            stored.security,
            bool(self.properties),
        )

    def members(self, name: str) -> list[int]:
        """Those of a set; none where there is no such set."""
        found = self.properties.get(name)
        return [] if found is None else found.members


class BinderyObjects:
    """All objects, by ID and by type and name. Changes here are complete in the caller's step."""

    def __init__(self, core: Ledger) -> None:
        self.core = core
        self.by_id: dict[int, BinderyObject] = {}
        self.version = 0  # moves when anybody's identity may have changed
        self._by_name: dict[tuple[int, str], BinderyObject] = {}
        self._by_sid: dict[bytes, BinderyObject] = {}
        self._ids: list[int] = []
        self._listed: dict[int, set[tuple[int, str]]] = {}  # member: the sets it is in
        self._counter = ReservedCounter(core, b"object", 16, start=FIRST_ID)

    # -- start

    def load(self) -> None:
        """Everything the store kept, without what was to last until the next start."""
        entries = sorted(self.core.state.of_table(TABLE_BINDERY))
        for key, value in entries:
            if key[:1] == _OBJECT:
                self._enter(BinderyObject(_ID.unpack(key[1:])[0], _decode_object(value)))
        for key, value in entries:
            if key[:1] == _PROPERTY:
                self._load_property(_ID.unpack_from(key, 1)[0], key[5:].decode(), value)
        for key, _ in entries:
            if key[:1] == _MEMBER:
                owner_id, member = _IDS.unpack_from(key, 1)
                self._load_member(owner_id, member, key[9:].decode())
        change = Change()
        self._drop_dynamic(change)
        self._decoy_key = dict(entries).get(_DECOYS, b"") or self._new_decoy_key(change)
        self.core.effects.commit(change)

    def _new_decoy_key(self, change: Change) -> bytes:
        key = self.core.random_bytes(_DECOY_KEY_SIZE)
        self.core.define(TABLE_BINDERY, _DECOYS, key, change)
        return key

    def decoy_id(self, kind: int, name: str) -> int:
        """An ID for a name that no object has, always the same one, among those in use.

        The range doubles with the number of objects: an ID that moved with each new object would
        show that it belongs to none.
        """
        used = self._ids[-1] - FIRST_ID if self._ids else 0
        mark = hmac.digest(self._decoy_key, b"%d:%b" % (kind, name.encode()), "sha256")
        return FIRST_ID + (int.from_bytes(mark[:4]) & ((1 << max(used, 1).bit_length()) - 1))

    def _load_property(self, owner_id: int, name: str, value: bytes) -> None:
        """Its object may be missing where the loss of damaged records was accepted."""
        owner = self.by_id.get(owner_id)
        if owner is not None:
            owner.properties[name] = Property(name, _decode_property(value))

    def _load_member(self, owner_id: int, member: int, name: str) -> None:
        owner = self.by_id.get(owner_id)
        if owner is not None and name in owner.properties and member in self.by_id:
            self._list(owner.properties[name], owner_id, member)

    def _drop_dynamic(self, change: Change) -> None:
        for one in list(self.by_id.values()):
            if one.stored.flags & DYNAMIC:
                self.delete(one, change)
                continue
            for prop in list(one.properties.values()):
                if prop.stored.flags & DYNAMIC:
                    self.delete_property(one, prop, change)

    def _enter(self, one: BinderyObject) -> None:
        self.by_id[one.id] = one
        self._by_name[one.type, one.name] = one
        insort(self._ids, one.id)
        if one.stored.sid:
            self._by_sid[one.stored.sid] = one

    # -- finding

    def find(self, kind: int, name: str) -> BinderyObject | None:
        """The object of this type and name."""
        return self._by_name.get((kind, name))

    def get(self, kind: int, name: str) -> BinderyObject:
        """The object of this type and name; refused if it does not exist."""
        found = self._by_name.get((kind, name))
        if found is None:
            raise QmsError(NO_SUCH_OBJECT, f"there is no object {name} of type {kind}")
        return found

    def of_sid(self, sid: bytes) -> BinderyObject | None:
        """The user object of an account."""
        return self._by_sid.get(sid)

    def after(self, last: int) -> Iterator[BinderyObject]:
        """Objects after an ID, ascending; NO_OBJECT begins with the first."""
        at = 0 if last == NO_OBJECT else bisect_right(self._ids, last)
        for object_id in self._ids[at:]:
            yield self.by_id[object_id]

    def groups_of(self, member: int) -> Iterator[int]:
        """Objects that list this one as a member of their group."""
        for owner, name in self._listed.get(member, ()):
            if name == GROUP_MEMBERS:
                yield owner

    def property_of(self, one: BinderyObject, name: str) -> Property:
        """A property that must exist."""
        found = one.properties.get(name)
        if found is None:
            raise QmsError(NO_SUCH_PROPERTY, f"{one.name} has no property {name}")
        return found

    # -- changing

    def check_room(self) -> None:
        """Refuses where one more object is too many."""
        full = len(self.by_id) >= self.core.settings.qms.objects_max
        if full or self._counter.value > ID_MAX:
            raise QmsError(SERVER_OUT_OF_MEMORY, "the limit of objects in the bindery is reached")

    def check_members(self, one: BinderyObject, prop: Property) -> None:
        """Refuses where one more member is too many."""
        if len(prop.members) >= self.core.settings.qms.members_max:
            raise QmsError(SERVER_OUT_OF_MEMORY, f"{prop.name} of {one.name} is full")

    def check_properties(self, one: BinderyObject) -> None:
        """Refuses where one more property is too many."""
        if len(one.properties) >= self.core.settings.qms.properties_max:
            raise QmsError(
                SERVER_OUT_OF_MEMORY, f"the limit of properties of {one.name} is reached"
            )

    def new_id(self) -> int:
        """An ID that no object ever had; `check_room` was asked before."""
        return self._counter.next()

    def create(self, object_id: int, stored: StoredObject, change: Change) -> BinderyObject:
        """A new object."""
        one = BinderyObject(object_id, stored)
        self._enter(one)
        self.store(one, change)
        return one

    def store(self, one: BinderyObject, change: Change) -> None:
        """Its fields have changed."""
        self.version += 1
        self.core.define(TABLE_BINDERY, _OBJECT + _ID.pack(one.id), _encode(one.stored), change)

    def rename(self, one: BinderyObject, name: str, change: Change) -> None:
        """Give an object another name."""
        del self._by_name[one.type, one.name]
        one.stored.name = name
        self._by_name[one.type, name] = one
        self.store(one, change)

    def link(self, one: BinderyObject, sid: bytes, change: Change) -> None:
        """A user object and an account are one from now on, or no more."""
        self._by_sid.pop(one.stored.sid, None)
        one.stored.sid = sid
        if sid:
            self._by_sid[sid] = one
        self.store(one, change)

    def delete(self, one: BinderyObject, change: Change) -> None:
        """The object is gone, with its properties, out of every set."""
        for prop in list(one.properties.values()):
            self.delete_property(one, prop, change)
        for owner_id, name in sorted(self._listed.get(one.id, ())):
            owner = self.by_id[owner_id]
            self.remove_member(owner, owner.properties[name], one.id, change)
        del self.by_id[one.id], self._by_name[one.type, one.name]
        del self._ids[bisect_left(self._ids, one.id)]
        self._by_sid.pop(one.stored.sid, None)
        self.version += 1
        self.core.define(TABLE_BINDERY, _OBJECT + _ID.pack(one.id), None, change)

    def create_property(
        self, one: BinderyObject, name: str, flags: int, security: int, change: Change
    ) -> Property:
        """A new property, empty."""
        prop = one.properties[name] = Property(name, StoredProperty(flags, security))
        self.store_property(one, prop, change)
        return prop

    def store_property(self, one: BinderyObject, prop: Property, change: Change) -> None:
        """Its security or its value has changed."""
        key = _PROPERTY + _ID.pack(one.id) + prop.name.encode()
        self.core.define(TABLE_BINDERY, key, _encode(prop.stored), change)

    def delete_property(self, one: BinderyObject, prop: Property, change: Change) -> None:
        """The property is gone with its value or members."""
        for member in list(prop.members):
            self.remove_member(one, prop, member, change)
        del one.properties[prop.name]
        key = _PROPERTY + _ID.pack(one.id) + prop.name.encode()
        self.core.define(TABLE_BINDERY, key, None, change)

    def add_member(self, one: BinderyObject, prop: Property, member: int, change: Change) -> None:
        """An object is in a set."""
        self._list(prop, one.id, member)
        self._touched(prop)
        self.core.define(TABLE_BINDERY, _member_key(one.id, member, prop.name), b"\1", change)

    def remove_member(
        self, one: BinderyObject, prop: Property, member: int, change: Change
    ) -> None:
        """An object is in a set no more."""
        del prop.members[bisect_left(prop.members, member)]
        listed = self._listed[member]
        listed.discard((one.id, prop.name))
        if not listed:
            del self._listed[member]
        self._touched(prop)
        self.core.define(TABLE_BINDERY, _member_key(one.id, member, prop.name), None, change)

    def _list(self, prop: Property, owner_id: int, member: int) -> None:
        insort(prop.members, member)
        self._listed.setdefault(member, set()).add((owner_id, prop.name))

    def _touched(self, prop: Property) -> None:
        if prop.name in IDENTITY_PROPERTIES:
            self.version += 1


def _member_key(owner: int, member: int, name: str) -> bytes:
    return _MEMBER + _IDS.pack(owner, member) + name.encode()
