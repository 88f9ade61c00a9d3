"""The bindery: objects, properties, sets, passwords. The bindery's own security applies."""

from __future__ import annotations

from msgspec import UnsetType

from posthouse.api.bindery import (
    BinderyAccessJson,
    BinderyParams,
    MemberBody,
    MemberJson,
    MembershipJson,
    ObjectCreateBody,
    ObjectIdParams,
    ObjectJson,
    ObjectListJson,
    ObjectParams,
    ObjectPasswordBody,
    ObjectSetBody,
    ObjectsParams,
    PropertyCreateBody,
    PropertyJson,
    PropertyListJson,
    PropertyParams,
    PropertySetBody,
)
from posthouse.api.types import Done, Nothing
from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.manager import QueueManager
from posthouse.model.bindery import (
    DYNAMIC,
    NO_OBJECT,
    NWOT_WILD,
    SEGMENT_SIZE,
    SET,
    ObjectInfo,
    PropertyInfo,
    is_set,
    parse_type,
    type_name,
)
from posthouse.model.completion_codes import (
    NO_PROPERTY_READ,
    NO_SUCH_OBJECT,
    NO_SUCH_PROPERTY,
    NO_SUCH_SEGMENT,
)
from posthouse.model.errors import InvalidParameter, QmsError
from posthouse.protocols.handlers.caller_stations import working
from posthouse.protocols.handlers.context import Context

# -- objects


def list_objects(
    manager: QueueManager, context: Context, params: ObjectsParams, body: Nothing
) -> ObjectListJson:
    """Lists objects of a type and a pattern, as far as the caller may see them."""
    kind = NWOT_WILD if params.type in ("any", str(NWOT_WILD)) else parse_type(params.type)
    found, last = list[ObjectJson](), params.after or NO_OBJECT
    with working(manager, context, params.station) as station:
        while len(found) <= params.limit:
            try:
                one = manager.bindery.scan_object(station, last, kind, params.name)
            except QmsError as error:
                if error.completion == NO_SUCH_OBJECT:
                    break
                raise
            last = one.id
            found.append(object_json(one))
    more = len(found) > params.limit
    found = found[: params.limit]
    return ObjectListJson(objects=found, next=found[-1].id if more else None)


def object_json(one: ObjectInfo) -> ObjectJson:
    """An object as the API shows it."""
    return ObjectJson(
        id=one.id,
        type=type_name(one.type),
        type_number=one.type,
        name=one.name,
        dynamic=bool(one.flags & DYNAMIC),
        security=one.security,
        properties=one.has_properties,
    )


def show_object(
    manager: QueueManager, context: Context, params: ObjectParams, body: Nothing
) -> ObjectJson:
    """Shows an object by type and name (NWGetObjectID)."""
    with working(manager, context, params.station) as station:
        kind = parse_type(params.type)
        return object_json(manager.bindery.get_object_id(station, kind, params.name))


def show_object_of_id(
    manager: QueueManager, context: Context, params: ObjectIdParams, body: Nothing
) -> ObjectJson:
    """Shows an object by its id (NWGetObjectName)."""
    with working(manager, context, params.station) as station:
        return object_json(manager.bindery.get_object_name(station, params.id))


def create_object(
    manager: QueueManager, context: Context, params: BinderyParams, body: ObjectCreateBody
) -> ObjectJson:
    """Creates an object (NWCreateObject)."""
    with working(manager, context, params.station) as station:
        flags = DYNAMIC if body.dynamic else 0
        kind = parse_type(body.type)
        made = manager.bindery.create_object(station, kind, body.name, flags, body.security)
        context.tell(manager, "bindery_object_created", object=made.name, type=made.type)
        return object_json(made)


def set_object(
    manager: QueueManager, context: Context, params: ObjectParams, body: ObjectSetBody
) -> ObjectJson:
    """Renames an object, or changes what protects it."""
    kind, name = parse_type(params.type), params.name
    with working(manager, context, params.station) as station:
        if not isinstance(body.security, UnsetType):
            manager.bindery.change_object_security(station, kind, name, body.security)
        if not isinstance(body.name, UnsetType):
            manager.bindery.rename_object(station, kind, name, body.name)
            name = body.name
        context.tell(manager, "bindery_object_changed", object=params.name, type=kind)
        return object_json(manager.bindery.get_object_id(station, kind, name))


def delete_object(
    manager: QueueManager, context: Context, params: ObjectParams, body: Nothing
) -> Done:
    """Deletes an object with its properties (NWDeleteObject)."""
    kind = parse_type(params.type)
    with working(manager, context, params.station) as station:
        manager.bindery.delete_object(station, kind, params.name)
    context.tell(manager, "bindery_object_deleted", object=params.name, type=kind)
    return Done()


def set_object_password(
    manager: QueueManager, context: Context, params: ObjectParams, body: ObjectPasswordBody
) -> Done:
    """Gives an object a password for the door ncp (NWChangeObjectPassword)."""
    kind = parse_type(params.type)
    with working(manager, context, params.station) as station:
        bindery = manager.bindery
        bindery.change_object_password(station, kind, params.name, body.old, body.password)
    context.tell(manager, "bindery_password_changed", object=params.name, type=kind)
    return Done()


def verify_object_password(
    manager: QueueManager, context: Context, params: ObjectParams, body: ObjectPasswordBody
) -> Done:
    """Refused unless it is the password of the object (NWVerifyObjectPassword)."""
    kind = parse_type(params.type)
    with working(manager, context, params.station) as station:
        manager.bindery.verify_password(station, kind, params.name, body.password)
    return Done()


def show_bindery_access(
    manager: QueueManager, context: Context, params: BinderyParams, body: Nothing
) -> BinderyAccessJson:
    """Shows what the caller may do in the bindery, and as whom (NWGetBinderyAccessLevel)."""
    with working(manager, context, params.station) as station:
        level = manager.bindery.get_bindery_access_level(station)
    own = manager.bindery.find_object(level.id)
    return BinderyAccessJson(
        read_level=level.level & 0x0F,
        write_level=level.level >> 4,
        object_id=level.id,
        name="" if own is None else own.name,
        type="" if own is None else type_name(own.type),
    )


# -- properties


def list_properties(
    manager: QueueManager, context: Context, params: ObjectParams, body: Nothing
) -> PropertyListJson:
    """Lists the properties of an object, with their values where the caller may read them."""
    kind = parse_type(params.type)
    with working(manager, context, params.station) as station:
        found = _scanned(manager, station, kind, params.name, "*")
        return PropertyListJson(
            properties=[_property_json(manager, station, kind, params.name, one) for one in found]
        )


def _scanned(
    manager: QueueManager, station: Station, kind: int, name: str, pattern: str
) -> list[PropertyInfo]:
    found, instance, more = list[PropertyInfo](), NO_OBJECT, True
    while more:
        try:
            one = manager.bindery.scan_property(station, kind, name, instance, pattern)
        except QmsError as error:
            if error.completion == NO_SUCH_PROPERTY:
                break
            raise
        found.append(one)
        instance, more = one.instance, one.more
    return found


def show_property(
    manager: QueueManager, context: Context, params: PropertyParams, body: Nothing
) -> PropertyJson:
    """Shows a property: of an item the value, of a set the members."""
    with working(manager, context, params.station) as station:
        return _shown(manager, station, params)


def _shown(manager: QueueManager, station: Station, params: PropertyParams) -> PropertyJson:
    kind = parse_type(params.type)
    if not _may_read(manager, station, kind, params):
        raise QmsError(NO_PROPERTY_READ, f"{params.property} is not readable for you")
    found = _scanned(manager, station, kind, params.name, params.property)
    if len(found) != 1 or found[0].name != params.property.upper():
        raise QmsError(NO_SUCH_PROPERTY, f"{params.name} has no property {params.property}")
    return _property_json(manager, station, kind, params.name, found[0])


def _may_read(manager: QueueManager, station: Station, kind: int, params: PropertyParams) -> bool:
    """A scan leaves out what may not be read; who names it is told so."""
    return _value(manager, station, kind, params.name, params.property) is not None


def _property_json(
    manager: QueueManager, station: Station, kind: int, name: str, one: PropertyInfo
) -> PropertyJson:
    whole = _value(manager, station, kind, name, one.name)
    members = is_set(one.flags)
    return PropertyJson(
        property=one.name,
        set=members,
        dynamic=bool(one.flags & DYNAMIC),
        security=one.security,
        value=None if members else whole,
        members=_members(manager, whole) if members and whole is not None else None,
    )


def _value(
    manager: QueueManager, station: Station, kind: int, name: str, property: str
) -> bytes | None:
    """All segments; None where they may not be read."""
    parts, more = list[bytes](), True
    while more:
        try:
            found = manager.bindery.read_property_value(
                station, kind, name, property, len(parts) + 1
            )
        except QmsError as error:
            if error.completion == NO_SUCH_SEGMENT:
                break
            if error.completion == NO_PROPERTY_READ:
                return None
            raise
        parts.append(found.value)
        more = found.more
    return b"".join(parts)


def _members(manager: QueueManager, value: bytes) -> list[MemberJson]:
    ids = (int.from_bytes(value[at : at + 4], "big") for at in range(0, len(value), 4))
    return [_member(manager, one) for one in ids if one]


def _member(manager: QueueManager, id: int) -> MemberJson:
    found = manager.bindery.find_object(id)
    if found is None:
        return MemberJson(id=id, type="", name="")
    return MemberJson(id=id, type=type_name(found.type), name=found.name)


def create_property(
    manager: QueueManager, context: Context, params: ObjectParams, body: PropertyCreateBody
) -> PropertyJson:
    """Gives an object a property (NWCreateProperty)."""
    kind = parse_type(params.type)
    flags = (SET if body.set else 0) | (DYNAMIC if body.dynamic else 0)
    with working(manager, context, params.station) as station:
        bindery = manager.bindery
        bindery.create_property(station, kind, params.name, body.property, flags, body.security)
        asked = PropertyParams(type=params.type, name=params.name, property=body.property)
        return _shown(manager, station, asked)


def set_property(
    manager: QueueManager, context: Context, params: PropertyParams, body: PropertySetBody
) -> PropertyJson:
    """Writes the value of an item, or changes what protects a property."""
    kind = parse_type(params.type)
    with working(manager, context, params.station) as station:
        if not isinstance(body.value, UnsetType):
            _write(manager, station, kind, params, body.value, body.segment, body.more)
        if not isinstance(body.security, UnsetType):
            manager.bindery.change_property_security(
                station, kind, params.name, params.property, body.security
            )
        return _shown(manager, station, params)


def _write(
    manager: QueueManager,
    station: Station,
    kind: int,
    params: PropertyParams,
    value: bytes,
    segment: int,
    more: bool,
) -> None:
    write = manager.bindery.write_property_value
    if segment:
        if len(value) > SEGMENT_SIZE:
            raise InvalidParameter(f"a segment has {SEGMENT_SIZE} bytes")
        padded = value.ljust(SEGMENT_SIZE, b"\0")
        write(station, kind, params.name, params.property, segment, padded, more)
        return
    last = max(len(value) - 1, 0) // SEGMENT_SIZE
    for at in range(last + 1):
        piece = value[at * SEGMENT_SIZE : (at + 1) * SEGMENT_SIZE].ljust(SEGMENT_SIZE, b"\0")
        write(station, kind, params.name, params.property, at + 1, piece, at < last)


# -- sets


def add_member(
    manager: QueueManager, context: Context, params: PropertyParams, body: MemberBody
) -> Done:
    """Puts an object into a set (NWAddObjectToSet)."""
    with working(manager, context, params.station) as station:
        manager.bindery.add_object_to_set(station, *_membership(params, body))
    context.tell(
        manager, "bindery_member_added", object=params.name, set=params.property, member=body.name
    )
    return Done()


def remove_member(
    manager: QueueManager, context: Context, params: PropertyParams, body: MemberBody
) -> Done:
    """Takes an object out of a set (NWDeleteObjectFromSet)."""
    with working(manager, context, params.station) as station:
        manager.bindery.delete_object_from_set(station, *_membership(params, body))
    context.tell(
        manager, "bindery_member_removed", object=params.name, set=params.property, member=body.name
    )
    return Done()


def contains_member(
    manager: QueueManager, context: Context, params: PropertyParams, body: MemberBody
) -> MembershipJson:
    """Reports whether an object is in a set (NWIsObjectInSet)."""
    with working(manager, context, params.station) as station:
        bindery = manager.bindery
        return MembershipJson(member=bindery.is_object_in_set(station, *_membership(params, body)))


def _membership(params: PropertyParams, body: MemberBody) -> tuple[int, str, str, int, str]:
    kind, member = parse_type(params.type), parse_type(body.type)
    return kind, params.name, params.property, member, body.name
