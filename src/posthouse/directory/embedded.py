"""The directory that comes with the queue manager: objects in memory, records in the log."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, Self

import msgspec

from posthouse.directory.base import (
    GET_PROPERTIES,
    SET_PROPERTIES,
    Begun,
    Created,
    DirectoryOperationResult,
    Filter,
    Found,
    Kind,
    Operator,
    SortOrder,
    allowed,
    check_attributes,
    check_filters,
    concealed,
    matches,
    overlaid,
    projected,
    required_attributes,
    sorted_objects,
)
from posthouse.directory.distinguished_names import distinguished_name
from posthouse.directory.objects import (
    KINDS,
    ConnectedNetwork,
    DirectoryObject,
    DistributionList,
    Enterprise,
    Entry,
    Queue,
    QueueAlias,
    QueueManager,
    RoutingLink,
    Site,
    User,
    decode_entry,
    encode_entry,
)
from posthouse.model.errors import MalformedPacket, PropertyNotAllowed
from posthouse.model.guids import NULL_GUID
from posthouse.security import rights
from posthouse.security.access import Caller
from posthouse.security.descriptors import SecurityDescriptor, unpack_descriptor

Define = Callable[[bytes, bytes | None], None]
"""Keeps a record under a key, or drops it; the engine makes it durable with everything else."""

QUERIES_MAX: Final = 1024

_SET_BY_DIRECTORY = ("create_time", "modify_time", "full_path", "directory_path")
_CREATE_RIGHT: Final[dict[type[DirectoryObject], int]] = {
    Queue: rights.CREATE_QUEUE,
    Site: rights.CREATE_SITE,
    ConnectedNetwork: rights.CREATE_CN,
    User: rights.CREATE_USER,
    DistributionList: rights.CREATE_USER,
    QueueAlias: rights.CREATE_USER,
    QueueManager: rights.SET_ENTERPRISE_PROPERTIES,
    RoutingLink: rights.SET_ENTERPRISE_PROPERTIES,
}
# Stored in the key of every record: a number, once given, stays.
_CODE: Final[dict[type[DirectoryObject], int]] = {
    QueueManager: 1,
    Queue: 2,
    Site: 3,
    RoutingLink: 4,
    Enterprise: 5,
    ConnectedNetwork: 6,
    User: 7,
    DistributionList: 8,
    QueueAlias: 9,
}
assert list(_CODE) == list(KINDS.values())

_SUCCESS = DirectoryOperationResult.SUCCESS
_ERROR = DirectoryOperationResult.GENERIC_ERROR
_NOT_CONNECTED = DirectoryOperationResult.DIRECTORY_NOT_CONNECTED
_NOT_FOUND = DirectoryOperationResult.OBJECT_NOT_FOUND
_EXISTS = DirectoryOperationResult.OBJECT_ALREADY_EXISTS


def record_key(value: DirectoryObject) -> bytes:
    """The key of an object's record: a number for its kind, then its identifier."""
    return bytes((_CODE[type(value)],)) + value.identifier


class EmbeddedDirectory:
    """A `Directory` of our own, which is always there.

    A subclass or owner that keeps the objects elsewhere sets `connected` while they can be reached,
    and writes changes there; this class decides which requests are allowed.
    """

    def __init__(
        self, define: Define, new_guid: Callable[[], bytes], root: str = "DC=posthouse"
    ) -> None:
        self.connected = True
        self._define = define
        self._new_guid = new_guid
        self._root = root
        self._objects: dict[type[DirectoryObject], dict[bytes, Entry]] = {k: {} for k in _CODE}
        self._names: dict[tuple[type[DirectoryObject], str], bytes] = {}
        self._queries: dict[int, Iterator[Found[Any]]] = {}
        self._last_handle = 0

    @classmethod
    def load(
        cls,
        items: Iterable[tuple[bytes, bytes]],
        define: Define,
        new_guid: Callable[[], bytes],
        root: str = "DC=posthouse",
    ) -> Self:
        """The directory that these records were kept from."""
        directory = cls(define, new_guid, root)
        for key, data in items:
            entry = decode_entry(data)
            if len(entry.value.identifier) != 16 or record_key(entry.value) != key:
                raise MalformedPacket("a directory record stands under a key of another object")
            directory._keep(entry)
        return directory

    def create(
        self,
        value: DirectoryObject,
        utc_s: int,
        attributes: Collection[str] | None = None,
        identity: Caller | None = None,
    ) -> Created:
        """[MS-MQDSSM] 3.1.6.1; identifier, times and paths are set here."""
        check_attributes(type(value), attributes or ())
        value.validate()
        if not self.connected:
            return Created(_NOT_CONNECTED)
        if isinstance(value, Queue) and not value.is_public:
            return Created(_ERROR)  # only public queues are published, [MS-MQDMPR] 3.1.1.2
        if not self._may_create(value, identity):
            return Created(_ERROR)
        return self._create(value, utc_s, attributes)

    def _create(
        self, value: DirectoryObject, utc_s: int, attributes: Collection[str] | None
    ) -> Created:
        if value.identifier in self._objects[type(value)] or self._names.get(name_of(value)):
            return Created(_EXISTS)
        entry = self._new_entry(value, utc_s, attributes)
        self._store(entry)
        return Created(_SUCCESS, entry.value.identifier)

    def delete(
        self, value: DirectoryObject, identity: Caller | None = None
    ) -> DirectoryOperationResult:
        """[MS-MQDSSM] 3.1.6.2."""
        if not self.connected:
            return _NOT_CONNECTED
        entry = self._objects[type(value)].get(value.identifier)
        if entry is None:
            return _NOT_FOUND
        if not allowed(entry.value, identity, rights.DELETE):
            return _ERROR
        return self._delete(entry.value)

    def _delete(self, value: DirectoryObject) -> DirectoryOperationResult:
        self._drop(value)
        return _SUCCESS

    def read(
        self,
        kind: type[Kind],
        filters: Sequence[Filter] = (),
        attributes: Collection[str] | None = None,
        identity: Caller | None = None,
    ) -> Found[Kind]:
        """[MS-MQDSSM] 3.1.6.3; objects that the identity may not read are not there for it."""
        check_filters(kind, filters)
        check_attributes(kind, attributes or ())
        if not self.connected:
            return Found(_NOT_CONNECTED)
        for entry in self._matching(kind, filters, identity):
            return _found(entry, attributes, identity)
        return Found(_NOT_FOUND)

    def begin(
        self,
        kind: type[DirectoryObject],
        filters: Sequence[Filter] = (),
        attributes: Collection[str] | None = None,
        sort: Sequence[SortOrder] = (),
        identity: Caller | None = None,
    ) -> Begun:
        """[MS-MQDSSM] 3.1.6.4: the whole search runs now; later changes do not disturb it."""
        check_filters(kind, filters)
        check_attributes(kind, attributes or ())
        check_attributes(kind, (order.attribute for order in sort))
        if not self.connected:
            return Begun(_NOT_CONNECTED)
        if len(self._queries) >= QUERIES_MAX:
            return Begun(_ERROR)
        entries = {e.value.identifier: e for e in self._matching(kind, filters, identity)}
        ordered = sorted_objects([entry.value for entry in entries.values()], sort)
        results = [_found(entries[value.identifier], attributes, identity) for value in ordered]
        self._last_handle += 1
        self._queries[self._last_handle] = iter(results)
        return Begun(_SUCCESS, self._last_handle)

    def next(self, handle: int) -> Found[Any]:
        """[MS-MQDSSM] 3.1.6.5."""
        query = self._queries.get(handle)
        if query is None:
            return Found(_ERROR)
        return next(query, Found(DirectoryOperationResult.END_OF_DATA))

    def end(self, handle: int) -> DirectoryOperationResult:
        """[MS-MQDSSM] 3.1.6.6."""
        return _ERROR if self._queries.pop(handle, None) is None else _SUCCESS

    def write(
        self,
        value: DirectoryObject,
        utc_s: int,
        attributes: Collection[str] | None = None,
        identity: Caller | None = None,
    ) -> DirectoryOperationResult:
        """[MS-MQDSSM] 3.1.6.7; what is fixed at creation or set by the directory stays."""
        check_attributes(type(value), attributes or ())
        if not self.connected:
            return _NOT_CONNECTED
        before = self._objects[type(value)].get(value.identifier)
        if before is None:
            return _NOT_FOUND
        if not allowed(before.value, identity, rights_to_write(before.value, value, attributes)):
            return _ERROR
        after = self._changed(before, value, utc_s, attributes)
        after.value.validate()
        return self._write(after, value, utc_s, attributes)

    def _write(
        self,
        after: Entry,
        value: DirectoryObject,
        utc_s: int,
        attributes: Collection[str] | None,
    ) -> DirectoryOperationResult:
        if self._names.get(name_of(after.value), value.identifier) != value.identifier:
            return _EXISTS
        self._free_name(self._objects[type(value)][value.identifier].value)
        self._store(after)
        return _SUCCESS

    def rename_queue(self, value: Queue, utc_s: int) -> Queue:
        """A queue of a computer that has another name now; by `write`, path names are fixed."""
        before = self._objects[Queue][value.identifier]
        after: Any = msgspec.structs.replace(
            before.value,
            pathname=value.pathname,
            qualified_pathname=value.qualified_pathname,
            modify_time=utc_s,
            **self._paths(value),
        )
        self._free_name(before.value)
        self._store(Entry(after, before.published))
        return after  # type: ignore[no-any-return]

    def known(self, kind: type[Kind], filters: Sequence[Filter] = ()) -> Kind | None:
        """The first object that fits, also while there is no connection: what was known last."""
        check_filters(kind, filters)
        found: Any = next(self._matching(kind, filters, None), None)
        return None if found is None else found.value

    def all_known(self, kind: type[Kind]) -> list[Kind]:
        """All objects of a kind, also while there is no connection."""
        entries: Any = self._objects[kind].values()
        return [entry.value for entry in entries]

    def _new_entry(
        self, value: DirectoryObject, utc_s: int, attributes: Collection[str] | None
    ) -> Entry:
        kind: Any = type(value)
        known = kind.directory_attributes()
        published = known if attributes is None else required_attributes(kind) | set(attributes)
        stamps = {
            "identifier": self._new_guid() if value.identifier == NULL_GUID else value.identifier,
            "create_time": utc_s,
            "modify_time": max(utc_s, getattr(value, "modify_time", 0)),
            **self._paths(value),
        }
        stamps = {name: stamp for name, stamp in stamps.items() if name in known}
        fields = {name: getattr(value, name) for name in published}
        return Entry(kind(**{**fields, **stamps}), frozenset(published | stamps.keys()))

    def _changed(
        self,
        before: Entry,
        value: DirectoryObject,
        utc_s: int,
        attributes: Collection[str] | None,
    ) -> Entry:
        known = value.directory_attributes()
        names = known if attributes is None else frozenset(attributes)
        _check_fixed(before.value, value, names)
        old: Any = before.value
        after = overlaid(old, value, names.difference(_SET_BY_DIRECTORY, {"identifier"}))
        stamps = {**self._paths(after)}
        if "modify_time" in known:  # a clock that was set back does not take a change back
            stamps["modify_time"] = max(utc_s, old.modify_time)
        stamps = {name: stamp for name, stamp in stamps.items() if name in known}
        return Entry(msgspec.structs.replace(after, **stamps), before.published | names)

    def _paths(self, value: DirectoryObject) -> dict[str, Any]:
        full_path = distinguished_name(value, self._root)
        return {"full_path": full_path, "directory_path": f"LDAP://{full_path}"}

    def _store(self, entry: Entry) -> None:
        self._keep(entry)
        self._define(record_key(entry.value), encode_entry(entry))

    def _drop(self, value: DirectoryObject) -> None:
        del self._objects[type(value)][value.identifier]
        self._free_name(value)
        self._define(record_key(value), None)

    def _free_name(self, value: DirectoryObject) -> None:
        """Two objects of another directory may bear one name: the one that has it here keeps it."""
        if self._names.get(name_of(value)) == value.identifier:
            del self._names[name_of(value)]

    def _keep(self, entry: Entry) -> None:
        self._objects[type(entry.value)][entry.value.identifier] = entry
        self._names[name_of(entry.value)] = entry.value.identifier

    def _matching(
        self, kind: type[DirectoryObject], filters: Sequence[Filter], identity: Caller | None
    ) -> Iterator[Entry]:
        for entry in self._candidates(kind, filters):
            if matches(entry.value, filters) and allowed(entry.value, identity, GET_PROPERTIES):
                yield entry

    def _candidates(
        self, kind: type[DirectoryObject], filters: Sequence[Filter]
    ) -> Iterable[Entry]:
        """One object where identifier or name are asked for, else all of the kind."""
        entries = self._objects[kind]
        for attribute, operator, value in filters:
            if operator is not Operator.EQUALS:
                continue
            if attribute == "identifier":
                entry = entries.get(value) if isinstance(value, bytes) else None
                return () if entry is None else (entry,)
            if attribute == kind.name_attribute and isinstance(value, _name_type(kind)):
                named = self._names.get((_namespace(kind), kind.unique_name_of(value)), b"")
                return (entries[named],) if named in entries else ()
        return list(entries.values())

    def _may_create(self, value: DirectoryObject, identity: Caller | None) -> bool:
        if identity is None or identity.is_administrator:
            return True
        parent = self._parent(value)
        return parent is not None and allowed(parent, identity, _CREATE_RIGHT[type(value)])

    def _parent(self, value: DirectoryObject) -> DirectoryObject | None:
        """The object whose descriptor decides who may create: a machine, or the enterprise."""
        if isinstance(value, Queue):
            name = (QueueManager, value.computer_name.casefold())
            entry = self._objects[QueueManager].get(self._names.get(name, b""))
        elif isinstance(value, Enterprise):
            entry = None
        else:
            entry = next(iter(self._objects[Enterprise].values()), None)
        return entry.value if entry else None


def name_of(value: DirectoryObject) -> tuple[type[DirectoryObject], str]:
    """What no other object of its kind may be called."""
    return _namespace(type(value)), value.unique_name


def _namespace(kind: type[DirectoryObject]) -> type[DirectoryObject]:
    """Kinds whose names are unique together: lists and aliases stand in one container."""
    return DistributionList if kind is QueueAlias else kind


def _name_type(kind: type[DirectoryObject]) -> type[str] | type[bytes]:
    return bytes if kind is User else str


def rights_to_write(
    before: DirectoryObject, after: DirectoryObject, attributes: Collection[str] | None
) -> int:
    """The rights that a change needs: setting properties does not include changing the descriptor,
    [MS-DTYP] 2.4.3.
    """
    names = after.directory_attributes() if attributes is None else frozenset(attributes)
    needed = SET_PROPERTIES if names - {"security"} else 0
    old, new = (getattr(value, "security", b"") for value in (before, after))
    if "security" in names and old != new:
        needed |= _rights_to_secure(old, new)
    return needed


def _rights_to_secure(old: bytes, new: bytes) -> int:
    before, after = (unpack_descriptor(raw) if raw else SecurityDescriptor() for raw in (old, new))
    needed = rights.WRITE_DACL
    if before.owner != after.owner:
        needed |= rights.WRITE_OWNER
    if before.sacl != after.sacl:
        needed |= rights.ACCESS_SYSTEM_SECURITY
    return needed


def _found(entry: Entry, attributes: Collection[str] | None, identity: Caller | None) -> Found[Any]:
    shown = entry.published - concealed(entry.value, identity)
    if attributes is None and shown == entry.published:
        return Found(_SUCCESS, entry.value, entry.published)
    if attributes is None:
        return Found(_SUCCESS, projected(entry.value, shown), shown)
    if not shown.issuperset(attributes):
        return Found(DirectoryOperationResult.ATTRIBUTE_NOT_FOUND)
    value = projected(entry.value, attributes)
    return Found(_SUCCESS, value, required_attributes(type(value)) | frozenset(attributes))


def _check_fixed(before: DirectoryObject, after: DirectoryObject, names: Collection[str]) -> None:
    for name in sorted(after.fixed_attributes.intersection(names)):
        if getattr(before, name) != getattr(after, name):
            raise PropertyNotAllowed(f"{name} of a {type(after).__name__} is fixed at its creation")
