"""Objects of an NRBF stream as JSON: depth first, without recursion, a shared object once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from posthouse.formats.limits import Budget, FormatError, Limits
from posthouse.formats.nrbf.known_classes import NOT_SCALAR, Unfolding, scalar
from posthouse.formats.nrbf.reader import NrbfReader
from posthouse.formats.nrbf.records import Array, Instance, Ref
from posthouse.formats.values import bytes_value

# Where a value goes: a dict or a list, the key or index in it, and the value as it was read.
Place = tuple[Any, Any, Any]


class GraphWriter:
    """Writes one value of a stream. Objects that come again become `$ref`, the first gets `$id`."""

    def __init__(self, reader: NrbfReader, limits: Limits, budget: Budget) -> None:
        self._objects = reader.objects
        self._unfolding = Unfolding(reader.objects, reader.references)
        self._depth_max = limits.depth
        self._budget = budget
        self._placed: dict[int, tuple[Any, Any, Any]] = {}
        self._shared: dict[int, None] = {}

    def value(self, raw: Any) -> Any:
        """The JSON of an object."""
        top: list[Any] = [None]
        stack: list[Iterator[Place]] = [iter(((top, 0, raw),))]
        while stack:
            for into, key, item in stack[-1]:
                inner = self._put(into, key, item)
                if inner is not None:
                    stack.append(inner)
                    break
            else:
                stack.pop()
            if len(stack) > self._depth_max:
                raise FormatError(f"NRBF objects with more than {self._depth_max} levels")
        for identifier in self._shared:
            self._give_id(identifier)
        return top[0]

    def _put(self, into: Any, key: Any, raw: Any) -> Iterator[Place] | None:
        """Put a value into its place; what is in it follows, if anything is."""
        if isinstance(raw, Ref):
            raw = self._objects[raw.id]
        if isinstance(raw, Instance):
            value = scalar(raw)
            if value is NOT_SCALAR:
                return self._node(into, key, raw)
            raw = value
        elif isinstance(raw, Array):
            return self._node(into, key, raw)
        if isinstance(raw, str):
            self._budget.spend(len(raw))
        into[key] = raw
        return None

    def _node(self, into: Any, key: Any, node: Instance | Array) -> Iterator[Place] | None:
        if node.id in self._placed:
            self._shared[node.id] = None
            into[key] = {"$ref": node.id}
            return None
        value, inner = self._array(node) if isinstance(node, Array) else self._instance(node)
        self._placed[node.id] = (into, key, value)
        into[key] = value
        return inner

    def _give_id(self, identifier: int) -> None:
        into, key, value = self._placed[identifier]
        if not isinstance(value, dict) or "$base64" in value:
            into[key] = {"$id": identifier, "$values": value}
            return
        members = dict(value)
        value.clear()
        value["$id"] = identifier
        value.update(members)

    def _instance(self, instance: Instance) -> tuple[Any, Iterator[Place] | None]:
        info = instance.info
        items = self._unfolding.items(instance)
        if items is not None:
            return self._list(items)
        pairs = self._unfolding.pairs(instance)
        if pairs is not None:
            return self._dictionary(pairs)
        self._budget.spend(info.cost)
        value: dict[str, Any] = {"$type": info.name}
        if info.names == ["value__"] and type(instance.values[0]) is int:
            value["value"] = instance.values[0]
            return value, None
        value.update(dict.fromkeys(info.members))
        return value, (
            (value, n, raw) for n, raw in zip(info.members, instance.values, strict=True)
        )

    def _list(self, items: list[Any]) -> tuple[Any, Iterator[Place] | None]:
        value = [None] * len(items)
        return value, ((value, at, raw) for at, raw in enumerate(items))

    def _dictionary(self, pairs: list[tuple[Any, Any]]) -> tuple[Any, Iterator[Place] | None]:
        """An object where all keys are strings that can be its names, else a list of pairs."""
        names = [self._unfolding.resolved(key) for key, _ in pairs]
        if len({name for name in names if _is_name(name)}) == len(names):
            self._budget.spend(sum(map(len, names)))
            value = dict.fromkeys(names)
            entries = zip(names, pairs, strict=True)
            return value, ((value, name, pair[1]) for name, pair in entries)
        rows: list[dict[str, Any]] = [{"key": None, "value": None} for _ in pairs]
        return rows, self._rows(rows, pairs)

    @staticmethod
    def _rows(rows: list[dict[str, Any]], pairs: list[tuple[Any, Any]]) -> Iterator[Place]:
        for row, (key, value) in zip(rows, pairs, strict=True):
            yield row, "key", key
            yield row, "value", value

    def _array(self, array: Array) -> tuple[Any, Iterator[Place] | None]:
        values = array.values
        if isinstance(values, bytes):
            self._budget.spend(len(values) * 4 // 3)
            if len(array.lengths) == 1 and not any(array.bounds):
                return bytes_value(values), None
            values = list(values)
        if array.primitive is not None:
            self._budget.spend(sum(len(text) for text in values if isinstance(text, str)))
            if len(array.lengths) == 1 and not any(array.bounds):
                return values, None
        shaped, rows = _shape(array.lengths)
        if any(array.bounds):
            outer: Any = {"$lower_bounds": list(array.bounds), "$values": shaped}
        else:
            outer = shaped
        return outer, _filled(rows, values, array.lengths[-1])


def _filled(rows: list[list[Any]], values: list[Any], width: int) -> Iterator[Place]:
    for number, row in enumerate(rows):
        for at in range(width):
            yield row, at, values[number * width + at]


def _shape(lengths: tuple[int, ...]) -> tuple[list[Any], list[list[Any]]]:
    """Empty nested lists of these lengths, and the innermost of them in order."""
    outer: list[Any] = [None]
    level: list[tuple[list[Any], int]] = [(outer, 0)]
    for length in lengths:
        made: list[tuple[list[Any], int]] = []
        for parent, at in level:
            row: list[Any] = [None] * length
            parent[at] = row
            made.extend((row, index) for index in range(length))
        innermost = [parent[at] for parent, at in level]
        level = made
    return outer[0], innermost


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and not name.startswith("$")
