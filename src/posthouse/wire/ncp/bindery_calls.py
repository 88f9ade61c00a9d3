"""The bindery and login calls of function 23 (qms-facts 1.4, 4.2, 4.3)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from posthouse.model.bindery import (
    SEGMENT_SIZE,
    AccessLevel,
    ObjectInfo,
    PropertyInfo,
    PropertyValue,
)
from posthouse.wire.ncp.calls import EMPTY, QUEUES_AND_BINDERY, NcpCall
from posthouse.wire.ncp.forms import (
    BE16,
    BE32,
    CAPPED16,
    COUNTED,
    LE32,
    TEXT,
    U8,
    YES_OR_NO,
    Fixed,
    FixedText,
    Form,
)

NAME_FIELD: Final = 48
PROPERTY_FIELD: Final = 16
KEY_SIZE: Final = 8
FIRST: Final = 0xFFFF_FFFF  # where a scan begins


class ObjectName(NamedTuple):
    """A call about one object."""

    object_type: int
    name: str


class CreateObject(NamedTuple):
    """Create Bindery Object."""

    flags: int
    security: int
    object_type: int
    name: str


class RenameObject(NamedTuple):
    """Rename Bindery Object."""

    object_type: int
    name: str
    new_name: str


class ObjectId(NamedTuple):
    """Get Bindery Object Name."""

    object_id: int


class ObjectIdentity(NamedTuple):
    """The answer of Get Bindery Object ID and Name."""

    object_id: int
    object_type: int
    name: str


class ScanObject(NamedTuple):
    """Scan Bindery Object; the name may have wild cards."""

    last_id: int
    object_type: int
    name: str


class ObjectSecurity(NamedTuple):
    """Change Bindery Object Security."""

    security: int
    object_type: int
    name: str


class CreateProperty(NamedTuple):
    """Create Property."""

    object_type: int
    name: str
    flags: int
    security: int
    property_name: str


class PropertyName(NamedTuple):
    """Delete Property."""

    object_type: int
    name: str
    property_name: str


class PropertySecurity(NamedTuple):
    """Change Property Security."""

    object_type: int
    name: str
    security: int
    property_name: str


class ScanProperty(NamedTuple):
    """Scan Property; the property's name may have wild cards."""

    object_type: int
    name: str
    instance: int
    property_name: str


class ReadProperty(NamedTuple):
    """Read Property Value; segments count from 1."""

    object_type: int
    name: str
    segment: int
    property_name: str


class WriteProperty(NamedTuple):
    """Write Property Value; not `more`: it is the last segment."""

    object_type: int
    name: str
    segment: int
    more: bool
    property_name: str
    value: bytes


class ObjectPassword(NamedTuple):
    """Login Object and Verify Bindery Object Password, in clear text."""

    object_type: int
    name: str
    password: bytes


class ChangePassword(NamedTuple):
    """Change Bindery Object Password, in clear text."""

    object_type: int
    name: str
    old: bytes
    new: bytes


class SetMember(NamedTuple):
    """The calls on sets."""

    object_type: int
    name: str
    property_name: str
    member_type: int
    member_name: str


class LoginKey(NamedTuple):
    """The answer of Get Login Key."""

    key: bytes


class KeyedObject(NamedTuple):
    """Keyed Object Login, Keyed Verify Password."""

    answer: bytes
    object_type: int
    name: str


class ServerInformation(NamedTuple):
    """The answer of Get File Server Information: 128 bytes."""

    name: str
    major: int
    minor: int
    connections_max: int
    connections: int
    volumes: int
    revision: int
    sft_level: int
    tts_level: int
    peak: int
    accounting: int
    vap: int
    queue_version: int
    print_version: int
    console_version: int
    restriction_level: int
    bridge_version: int
    reserved: bytes


class Station(NamedTuple):
    """Get Station's Logged Info."""

    connection: int


class StationInformation(NamedTuple):
    """Its answer."""

    object_id: int
    object_type: int
    name: str
    login_time: bytes
    reserved: int


def _call(
    subfunction: int,
    name: str,
    request: Form[Any],
    reply: Form[Any],
    engine: str = "",
    *,
    section: str = "4.2",
) -> NcpCall[Any, Any]:
    engine = engine and f"bindery.{engine}"
    section = f"qms-facts {section}"
    return NcpCall(QUEUES_AND_BINDERY, subfunction, name, request, reply, section, engine)


_NAME: Final = FixedText(NAME_FIELD)
_OBJECT: Final = Form(ObjectName, BE16, TEXT)
_IDENTITY: Final = Form(ObjectIdentity, BE32, BE16, _NAME)
_MEMBER: Final = Form(SetMember, BE16, TEXT, TEXT, BE16, TEXT)
_PASSWORD: Final = Form(ObjectPassword, BE16, TEXT, COUNTED)
_KEYED: Final = Form(KeyedObject, Fixed(KEY_SIZE), BE16, TEXT)

SERVER_INFORMATION: Final = _call(
    0x11,
    "Get File Server Information",
    EMPTY,
    Form(
        ServerInformation,
        *(_NAME, U8, U8, CAPPED16, CAPPED16, BE16, U8, U8, U8, CAPPED16),
        *(U8, U8, U8, U8, U8, U8, U8, Fixed(60)),
    ),
    section="1.4",
)
LOGIN: Final = _call(0x14, "Login Object", _PASSWORD, EMPTY, section="4.3")
LOGIN_KEY: Final = _call(
    0x17, "Get Login Key", EMPTY, Form(LoginKey, Fixed(KEY_SIZE)), section="4.3"
)
KEYED_LOGIN: Final = _call(0x18, "Keyed Object Login", _KEYED, EMPTY, section="4.3")
STATION_INFORMATION: Final = _call(
    0x1C,
    "Get Station's Logged Info",
    Form(Station, LE32),
    Form(StationInformation, BE32, BE16, _NAME, Fixed(7), U8),
    section="1.4",
)

CREATE_OBJECT: Final = _call(
    0x32,
    "Create Bindery Object",
    Form(CreateObject, U8, U8, BE16, TEXT),
    EMPTY,
    "create_object(object_type, name, flags, security)",
)
DELETE_OBJECT: Final = _call(0x33, "Delete Bindery Object", _OBJECT, EMPTY, "delete_object")
RENAME_OBJECT: Final = _call(
    0x34, "Rename Bindery Object", Form(RenameObject, BE16, TEXT, TEXT), EMPTY, "rename_object"
)
GET_OBJECT_ID: Final = _call(0x35, "Get Bindery Object ID", _OBJECT, _IDENTITY, "get_object_id")
GET_OBJECT_NAME: Final = _call(
    0x36, "Get Bindery Object Name", Form(ObjectId, BE32), _IDENTITY, "get_object_name"
)
SCAN_OBJECT: Final = _call(
    0x37,
    "Scan Bindery Object",
    Form(ScanObject, BE32, BE16, TEXT),
    Form(ObjectInfo, BE32, BE16, _NAME, U8, U8, YES_OR_NO),
    "scan_object",
)
OBJECT_SECURITY: Final = _call(
    0x38,
    "Change Bindery Object Security",
    Form(ObjectSecurity, U8, BE16, TEXT),
    EMPTY,
    "change_object_security(object_type, name, security)",
)
CREATE_PROPERTY: Final = _call(
    0x39,
    "Create Property",
    Form(CreateProperty, BE16, TEXT, U8, U8, TEXT),
    EMPTY,
    "create_property(object_type, name, property_name, flags, security)",
)
DELETE_PROPERTY: Final = _call(
    0x3A, "Delete Property", Form(PropertyName, BE16, TEXT, TEXT), EMPTY, "delete_property"
)
PROPERTY_SECURITY: Final = _call(
    0x3B,
    "Change Property Security",
    Form(PropertySecurity, BE16, TEXT, U8, TEXT),
    EMPTY,
    "change_property_security(object_type, name, property_name, security)",
)
SCAN_PROPERTY: Final = _call(
    0x3C,
    "Scan Property",
    Form(ScanProperty, BE16, TEXT, BE32, TEXT),
    Form(PropertyInfo, FixedText(PROPERTY_FIELD), U8, U8, BE32, YES_OR_NO, YES_OR_NO),
    "scan_property",
)
READ_PROPERTY: Final = _call(
    0x3D,
    "Read Property Value",
    Form(ReadProperty, BE16, TEXT, U8, TEXT),
    Form(PropertyValue, Fixed(SEGMENT_SIZE), YES_OR_NO, U8),
    "read_property_value(object_type, name, property_name, segment)",
)
WRITE_PROPERTY: Final = _call(
    0x3E,
    "Write Property Value",
    Form(WriteProperty, BE16, TEXT, U8, YES_OR_NO, TEXT, Fixed(SEGMENT_SIZE)),
    EMPTY,
    "write_property_value(object_type, name, property_name, segment, value, more)",
)
VERIFY_PASSWORD: Final = _call(0x3F, "Verify Bindery Object Password", _PASSWORD, EMPTY)
CHANGE_PASSWORD: Final = _call(
    0x40,
    "Change Bindery Object Password",
    Form(ChangePassword, BE16, TEXT, COUNTED, COUNTED),
    EMPTY,
)
ADD_TO_SET: Final = _call(0x41, "Add Bindery Object To Set", _MEMBER, EMPTY, "add_object_to_set")
DELETE_FROM_SET: Final = _call(
    0x42, "Delete Bindery Object From Set", _MEMBER, EMPTY, "delete_object_from_set"
)
IS_IN_SET: Final = _call(0x43, "Is Bindery Object In Set", _MEMBER, EMPTY)
ACCESS_LEVEL: Final = _call(
    0x46, "Get Bindery Access Level", EMPTY, Form(AccessLevel, U8, BE32), "get_bindery_access_level"
)
KEYED_VERIFY: Final = _call(0x4A, "Keyed Verify Password", _KEYED, EMPTY)

BINDERY_CALLS: Final = {
    call.key: call for call in list(globals().values()) if isinstance(call, NcpCall)
}
