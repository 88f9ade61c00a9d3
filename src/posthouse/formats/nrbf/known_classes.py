"""Shows objects of well-known .NET classes as plain values: numbers, dates, lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from posthouse.formats.limits import FormatError
from posthouse.formats.nrbf.records import Array, Instance, Ref
from posthouse.formats.values import (
    date_data_value,
    decimal_text,
    guid_text,
    ticks_text,
    time_span_text,
)

_NUMBERS: Final = frozenset(
    f"System.{name}"
    for name in (
        *("Boolean", "Byte", "Char", "Double", "Int16", "Int32", "Int64", "SByte", "Single"),
        *("UInt16", "UInt32", "UInt64"),
    )
)
_GUID_FIELDS: Final = ["_a", "_b", "_c", "_d", "_e", "_f", "_g", "_h", "_i", "_j", "_k"]
_GENERIC: Final = "System.Collections.Generic."
NOT_SCALAR: Final = object()


def scalar(instance: Instance) -> Any:
    """The value of a boxed value type, NOT_SCALAR for any other object."""
    name = instance.info.name
    if not name.startswith("System."):
        return NOT_SCALAR
    if name in _NUMBERS:
        return _only(instance, "m_value")
    reader = _SCALARS.get(name)
    if reader is None:
        return NOT_SCALAR
    try:
        return reader(dict(zip(instance.info.names, instance.values, strict=True)))
    except (KeyError, TypeError, ValueError, OverflowError, FormatError):
        return NOT_SCALAR  # not the members that .NET writes: shown as they are


def _only(instance: Instance, member: str) -> Any:
    if instance.info.names != [member] or instance.info.kinds == [None]:
        return NOT_SCALAR
    return instance.values[0]


def _date_time(members: Mapping[str, Any]) -> Any:
    if "dateData" in members:
        return date_data_value(_integer(members["dateData"]))
    return ticks_text(_integer(members["ticks"]))


def _decimal(members: Mapping[str, Any]) -> str:
    flags, high, low, middle = (
        _integer(members[name]) & 0xFFFFFFFF for name in ("flags", "hi", "lo", "mid")
    )
    return decimal_text(high, middle << 32 | low, flags >> 16 & 0xFF, bool(flags >> 31))


def _guid(members: Mapping[str, Any]) -> str:
    first, second, third, *rest = (_integer(members[name]) for name in _GUID_FIELDS)
    data = (
        (first & 0xFFFFFFFF).to_bytes(4, "little")
        + (second & 0xFFFF).to_bytes(2, "little")
        + (third & 0xFFFF).to_bytes(2, "little")
        + bytes(rest)
    )
    return guid_text(data)


def _time_span(members: Mapping[str, Any]) -> str:
    return time_span_text(_integer(members["_ticks"]))


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise FormatError("not a number")
    return value


_SCALARS: Final[dict[str, Callable[[Mapping[str, Any]], Any]]] = {
    "System.DateTime": _date_time,
    "System.Decimal": _decimal,
    "System.Guid": _guid,
    "System.TimeSpan": _time_span,
}


class Unfolding:
    """Finds the items of collections. Nothing is unfolded that others refer to as well."""

    __slots__ = ("_objects", "_references")

    def __init__(self, objects: Mapping[int, Any], references: Mapping[int, int]) -> None:
        self._objects = objects
        self._references = references

    def items(self, instance: Instance) -> list[Any] | None:
        """The items of a list or set, None for another object."""
        name = instance.info.name
        if name.startswith(_GENERIC + "List`1[") or name == "System.Collections.ArrayList":
            return self._list(instance)
        if name.startswith(_GENERIC + "HashSet`1["):
            return self._set(instance)
        return None

    def pairs(self, instance: Instance) -> list[tuple[Any, Any]] | None:
        """Keys and values of a dictionary, None for another object."""
        name = instance.info.name
        if name.startswith(_GENERIC + "Dictionary`2["):
            return self._dictionary(instance)
        if name == "System.Collections.Hashtable":
            return self._hashtable(instance)
        return None

    def resolved(self, raw: Any) -> Any:
        """The object that a reference stands for."""
        return self._objects[raw.id] if isinstance(raw, Ref) else raw

    def _array(self, raw: Any) -> list[Any] | None:
        """The items of an array that belongs to the collection alone."""
        array = self.resolved(raw)
        if not isinstance(array, Array) or len(array.lengths) != 1 or any(array.bounds):
            return None
        if self._references.get(array.id, 0) > isinstance(raw, Ref):
            return None
        return list(array.values)

    def _list(self, instance: Instance) -> list[Any] | None:
        members = _members(instance)
        size, items = members.get("_size"), self._array(members.get("_items"))
        if type(size) is not int or items is None or not 0 <= size <= len(items):
            return None
        return items[:size]

    def _set(self, instance: Instance) -> list[Any] | None:
        members = _members(instance)
        if "Elements" in members:
            return self._array(members["Elements"])
        return [] if members.keys() >= {"Version", "Capacity"} else None

    def _dictionary(self, instance: Instance) -> list[tuple[Any, Any]] | None:
        members = _members(instance)
        if "KeyValuePairs" not in members:
            return [] if members.keys() >= {"Version", "HashSize"} else None
        items = self._array(members["KeyValuePairs"])
        if items is None:
            return None
        pairs = [self.resolved(item) for item in items]
        if not all(isinstance(pair, Instance) and _is_pair(pair) for pair in pairs):
            return None
        return [(_members(pair)["key"], _members(pair)["value"]) for pair in pairs]

    def _hashtable(self, instance: Instance) -> list[tuple[Any, Any]] | None:
        members = _members(instance)
        keys, values = self._array(members.get("Keys")), self._array(members.get("Values"))
        if keys is None or values is None or len(keys) != len(values):
            return None
        return list(zip(keys, values, strict=True))


def _is_pair(pair: Instance) -> bool:
    return sorted(pair.info.names) == ["key", "value"]


def _members(instance: Instance) -> dict[str, Any]:
    return dict(zip(instance.info.names, instance.values, strict=True))
