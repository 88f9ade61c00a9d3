"""The types of the API for the bindery: objects, properties, logins."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from posthouse.api.transfer import U32_MAX, Part
from posthouse.model.bindery import OBJECT_NAME_MAX, PROPERTY_NAME_MAX, SEGMENT_SIZE, SEGMENTS_MAX

_VALUE_MAX = SEGMENT_SIZE * SEGMENTS_MAX
_PAGE_MAX = 1000
_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"

ObjectName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=OBJECT_NAME_MAX,
        description="Name of the object; letter case does not matter.",
    ),
]
PropertyName = Annotated[str, Meta(min_length=1, max_length=PROPERTY_NAME_MAX)]
TypeWord = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=32,
        description="user, group, job_queue, print_server, ... or a number.",
    ),
]
Security = Annotated[
    int,
    Meta(ge=0, le=0x44, description="Low four bits: who may read. Next four bits: who may write."),
]
ObjectId = Annotated[int, Meta(ge=0, le=U32_MAX)]
Password = Annotated[str, Meta(max_length=1024)]
StationId = Annotated[str, Meta(min_length=1, max_length=64, pattern="^[0-9a-f]+$")]
Segment = Annotated[int, Meta(ge=0, le=SEGMENTS_MAX)]
Value = Annotated[bytes, Meta(max_length=_VALUE_MAX, extra_json_schema={"pattern": _BASE64})]


class BinderyParams(Part):
    """For which station the bindery is asked; none: for the caller."""

    station: StationId | None = None


class ObjectsParams(BinderyParams):
    """Objects of a type and of a pattern, after an object id."""

    type: TypeWord = "any"
    name: Annotated[str, Meta(min_length=1, max_length=OBJECT_NAME_MAX)] = "*"
    after: ObjectId = 0
    limit: Annotated[int, Meta(ge=1, le=_PAGE_MAX)] = 200


class ObjectParams(BinderyParams, kw_only=True):
    """An object by type and name."""

    type: TypeWord
    name: ObjectName


class ObjectIdParams(BinderyParams, kw_only=True):
    """An object by its id."""

    id: ObjectId


class PropertyParams(ObjectParams, kw_only=True):
    """A property of an object."""

    property: PropertyName


class ObjectCreateBody(Part):
    """A new object; a dynamic one is gone with the next start."""

    name: ObjectName
    type: TypeWord
    security: Security = 0x31
    dynamic: bool = False


class ObjectSetBody(Part):
    """What changes of an object."""

    name: ObjectName | UnsetType = UNSET
    security: Security | UnsetType = UNSET


class ObjectPasswordBody(Part):
    """A new password; callers other than supervisors give the old one too."""

    password: Password
    old: Password = ""


class PropertyCreateBody(Part):
    """A new property: a set has members, an item a value."""

    property: PropertyName
    set: bool = False
    security: Security = 0x31
    dynamic: bool = False


class PropertySetBody(Part):
    """What changes of a property: its value (of items) or what protects it.

    With a `segment` it is these 128 bytes of the value, and those after them go unless `more`.
    """

    value: Value | UnsetType = UNSET
    segment: Segment = 0
    more: bool = False
    security: Security | UnsetType = UNSET


class MemberBody(Part):
    """An object that is, or is to be, in a set."""

    name: ObjectName
    type: TypeWord = "user"


class ObjectJson(Part):
    """An object of the bindery."""

    id: int
    type: str
    type_number: int
    name: str
    dynamic: bool
    security: int
    properties: bool


class ObjectListJson(Part):
    """Objects, and the id to go on after; null when these were the last."""

    objects: list[ObjectJson]
    next: int | None


class MemberJson(Part):
    """A member of a set; of one that is gone only the id is known."""

    id: int
    type: str
    name: str


class PropertyJson(Part):
    """A property: of an item the value, of a set the members; null where they may not be read."""

    property: str
    set: bool
    dynamic: bool
    security: int
    value: bytes | None
    members: list[MemberJson] | None


class PropertyListJson(Part):
    """The properties of an object."""

    properties: list[PropertyJson]


class MembershipJson(Part):
    """Whether an object is in a set."""

    member: bool


class BinderyAccessJson(Part):
    """What the caller may do in the bindery: its levels, its own object."""

    read_level: int
    write_level: int
    object_id: int
    name: str
    type: str
