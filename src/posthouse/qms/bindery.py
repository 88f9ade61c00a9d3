"""The bindery as an object: lists objects, and reads and sets their properties."""

from __future__ import annotations

from collections.abc import Iterator

from posthouse.client.netware_door import FIRST, BinderyDoor
from posthouse.model.bindery import (
    NWBS_LOGGED_READ,
    NWBS_SUPER_WRITE,
    NWOT_WILD,
    SEGMENT_SIZE,
    SET,
    ObjectInfo,
    PropertyInfo,
    is_set,
    parse_type,
)
from posthouse.model.completion_codes import NO_SUCH_OBJECT, NO_SUCH_PROPERTY, NO_SUCH_SEGMENT
from posthouse.model.errors import QmsError

SECURITY = NWBS_LOGGED_READ | NWBS_SUPER_WRITE
Type = int | str


def number_of(type: Type) -> int:
    """A type by number or word."""
    return type if isinstance(type, int) else parse_type(type)


class Bindery:
    """Objects, properties and sets."""

    def __init__(self, door: BinderyDoor) -> None:
        self._door = door

    def objects(self, type: Type = NWOT_WILD, pattern: str = "*") -> Iterator[ObjectInfo]:
        """Objects of a type whose names fit."""
        last, kind = FIRST, number_of(type)
        while True:
            try:
                found = self._door.scan_object(last, kind, pattern)
            except QmsError as error:
                if error.completion == NO_SUCH_OBJECT:
                    return
                raise
            yield found
            last = found.id

    def create(self, name: str, type: Type, security: int = SECURITY) -> int:
        """A new object; returns its id."""
        kind = number_of(type)
        self._door.create_object(name, kind, 0, security)
        return self._door.get_object_id(name, kind)

    def delete(self, name: str, type: Type) -> None:
        """Deletes an object."""
        self._door.delete_object(name, number_of(type))

    def id(self, name: str, type: Type) -> int:
        """The id of an object."""
        return self._door.get_object_id(name, number_of(type))

    def name(self, id: int) -> tuple[str, int]:
        """Name and type of an id."""
        return self._door.get_object_name(id)

    def set_password(self, name: str, type: Type, new: str, old: str = "") -> None:
        """Gives an object a password."""
        self._door.change_object_password(name, number_of(type), old, new)

    def properties(self, name: str, type: Type, pattern: str = "*") -> Iterator[PropertyInfo]:
        """Properties of an object whose names fit."""
        instance, kind, more = FIRST, number_of(type), True
        while more:
            try:
                found = self._door.scan_property(name, kind, pattern, instance)
            except QmsError as error:
                if error.completion == NO_SUCH_PROPERTY:
                    return
                raise
            yield found
            instance, more = found.instance, found.more

    def create_item(
        self, name: str, type: Type, property: str, value: bytes, security: int = SECURITY
    ) -> None:
        """A new property with a value."""
        self._door.create_property(name, number_of(type), property, 0, security)
        self.write(name, type, property, value)

    def create_set(self, name: str, type: Type, property: str, security: int = SECURITY) -> None:
        """A new property with members, of which there are none at first."""
        self._door.create_property(name, number_of(type), property, SET, security)

    def read(self, name: str, type: Type, property: str) -> bytes:
        """The whole value of an item; of a set the ids of its members."""
        parts, kind, more = list[bytes](), number_of(type), True
        while more:
            try:
                found = self._door.read_property_value(name, kind, property, len(parts) + 1)
            except QmsError as error:
                if error.completion == NO_SUCH_SEGMENT and not parts:
                    return b""
                raise
            parts.append(found.value)
            more = found.more
        return b"".join(parts)

    def write(self, name: str, type: Type, property: str, value: bytes) -> None:
        """The whole value of an item."""
        kind, last = number_of(type), max(len(value) - 1, 0) // SEGMENT_SIZE
        for number in range(last + 1):
            piece = value[number * SEGMENT_SIZE : (number + 1) * SEGMENT_SIZE]
            piece = piece.ljust(SEGMENT_SIZE, b"\0")
            self._door.write_property_value(name, kind, property, number + 1, piece, number < last)

    def members(self, name: str, type: Type, property: str) -> list[int]:
        """The ids of the members of a set."""
        flags = next((one.flags for one in self.properties(name, type, property)), 0)
        if not is_set(flags):
            raise QmsError(NO_SUCH_PROPERTY, f"{name} has no set {property}")
        value = self.read(name, type, property)
        ids = [int.from_bytes(value[at : at + 4], "big") for at in range(0, len(value), 4)]
        return [one for one in ids if one]

    def add(self, name: str, type: Type, property: str, member: str, member_type: Type) -> None:
        """Puts an object into a set."""
        kind, member_kind = number_of(type), number_of(member_type)
        self._door.add_object_to_set(name, kind, property, member, member_kind)

    def remove(self, name: str, type: Type, property: str, member: str, member_type: Type) -> None:
        """Takes an object out of a set."""
        kind, member_kind = number_of(type), number_of(member_type)
        self._door.delete_object_from_set(name, kind, property, member, member_kind)

    def contains(
        self, name: str, type: Type, property: str, member: str, member_type: Type
    ) -> bool:
        """Whether an object is in a set itself."""
        kind, member_kind = number_of(type), number_of(member_type)
        return self._door.is_object_in_set(name, kind, property, member, member_kind)
