"""The bindery calls 0x32 to 0x46 of function 23 (qms-facts 4.2)."""

from __future__ import annotations

from typing import Final

from posthouse.engine.manager import QueueManager
from posthouse.model.bindery import AccessLevel, ObjectInfo, PropertyInfo, PropertyValue
from posthouse.model.completion_codes import NO_SUCH_MEMBER
from posthouse.model.errors import QmsError
from posthouse.protocols.ncp.handler import table
from posthouse.protocols.ncp.session import ServiceConnection
from posthouse.wire.ncp import bindery_calls as calls
from posthouse.wire.ncp.calls import NOTHING, Empty


def create_object(
    connection: ServiceConnection, manager: QueueManager, asked: calls.CreateObject
) -> Empty:
    """Create Bindery Object (0x32)."""
    station = connection.of_station
    manager.bindery.create_object(
        station, asked.object_type, asked.name, asked.flags, asked.security
    )
    return NOTHING


def delete_object(
    connection: ServiceConnection, manager: QueueManager, asked: calls.ObjectName
) -> Empty:
    """Delete Bindery Object (0x33)."""
    manager.bindery.delete_object(connection.of_station, *asked)
    return NOTHING


def rename_object(
    connection: ServiceConnection, manager: QueueManager, asked: calls.RenameObject
) -> Empty:
    """Rename Bindery Object (0x34)."""
    manager.bindery.rename_object(connection.of_station, *asked)
    return NOTHING


def get_object_id(
    connection: ServiceConnection, manager: QueueManager, asked: calls.ObjectName
) -> calls.ObjectIdentity:
    """Get Bindery Object ID (0x35)."""
    return _identity(manager.bindery.get_object_id(connection.of_station, *asked))


def get_object_name(
    connection: ServiceConnection, manager: QueueManager, asked: calls.ObjectId
) -> calls.ObjectIdentity:
    """Get Bindery Object Name (0x36)."""
    return _identity(manager.bindery.get_object_name(connection.of_station, asked.object_id))


def _identity(found: ObjectInfo) -> calls.ObjectIdentity:
    return calls.ObjectIdentity(found.id, found.type, found.name)


def scan_object(
    connection: ServiceConnection, manager: QueueManager, asked: calls.ScanObject
) -> ObjectInfo:
    """Scan Bindery Object (0x37)."""
    return manager.bindery.scan_object(connection.of_station, *asked)


def change_object_security(
    connection: ServiceConnection, manager: QueueManager, asked: calls.ObjectSecurity
) -> Empty:
    """Change Bindery Object Security (0x38)."""
    manager.bindery.change_object_security(
        connection.of_station, asked.object_type, asked.name, asked.security
    )
    return NOTHING


def create_property(
    connection: ServiceConnection, manager: QueueManager, asked: calls.CreateProperty
) -> Empty:
    """Create Property (0x39)."""
    kind, name, flags, security, property_name = asked
    station = connection.of_station
    manager.bindery.create_property(station, kind, name, property_name, flags, security)
    return NOTHING


def delete_property(
    connection: ServiceConnection, manager: QueueManager, asked: calls.PropertyName
) -> Empty:
    """Delete Property (0x3A)."""
    manager.bindery.delete_property(connection.of_station, *asked)
    return NOTHING


def change_property_security(
    connection: ServiceConnection, manager: QueueManager, asked: calls.PropertySecurity
) -> Empty:
    """Change Property Security (0x3B)."""
    kind, name, security, property_name = asked
    station = connection.of_station
    manager.bindery.change_property_security(station, kind, name, property_name, security)
    return NOTHING


def scan_property(
    connection: ServiceConnection, manager: QueueManager, asked: calls.ScanProperty
) -> PropertyInfo:
    """Scan Property (0x3C)."""
    return manager.bindery.scan_property(connection.of_station, *asked)


def read_property(
    connection: ServiceConnection, manager: QueueManager, asked: calls.ReadProperty
) -> PropertyValue:
    """Read Property Value (0x3D)."""
    kind, name, segment, property_name = asked
    station = connection.of_station
    return manager.bindery.read_property_value(station, kind, name, property_name, segment)


def write_property(
    connection: ServiceConnection, manager: QueueManager, asked: calls.WriteProperty
) -> Empty:
    """Write Property Value (0x3E)."""
    kind, name, segment, more, property_name, value = asked
    station = connection.of_station
    manager.bindery.write_property_value(
        station, kind, name, property_name, segment, value, more=more
    )
    return NOTHING


def add_to_set(
    connection: ServiceConnection, manager: QueueManager, asked: calls.SetMember
) -> Empty:
    """Add Bindery Object To Set (0x41)."""
    manager.bindery.add_object_to_set(connection.of_station, *asked)
    return NOTHING


def delete_from_set(
    connection: ServiceConnection, manager: QueueManager, asked: calls.SetMember
) -> Empty:
    """Delete Bindery Object From Set (0x42)."""
    manager.bindery.delete_object_from_set(connection.of_station, *asked)
    return NOTHING


def is_in_set(
    connection: ServiceConnection, manager: QueueManager, asked: calls.SetMember
) -> Empty:
    """Is Bindery Object In Set (0x43): the completion code says it."""
    if not manager.bindery.is_object_in_set(connection.of_station, *asked):
        raise QmsError(NO_SUCH_MEMBER, f"{asked.member_name} is not in {asked.property_name}")
    return NOTHING


def access_level(connection: ServiceConnection, manager: QueueManager, asked: Empty) -> AccessLevel:
    """Get Bindery Access Level (0x46)."""
    return manager.bindery.get_bindery_access_level(connection.of_station)


BINDERY_HANDLERS: Final = table(
    (calls.CREATE_OBJECT, create_object),
    (calls.DELETE_OBJECT, delete_object),
    (calls.RENAME_OBJECT, rename_object),
    (calls.GET_OBJECT_ID, get_object_id),
    (calls.GET_OBJECT_NAME, get_object_name),
    (calls.SCAN_OBJECT, scan_object),
    (calls.OBJECT_SECURITY, change_object_security),
    (calls.CREATE_PROPERTY, create_property),
    (calls.DELETE_PROPERTY, delete_property),
    (calls.PROPERTY_SECURITY, change_property_security),
    (calls.SCAN_PROPERTY, scan_property),
    (calls.READ_PROPERTY, read_property),
    (calls.WRITE_PROPERTY, write_property),
    (calls.ADD_TO_SET, add_to_set),
    (calls.DELETE_FROM_SET, delete_from_set),
    (calls.IS_IN_SET, is_in_set),
    (calls.ACCESS_LEVEL, access_level),
)
