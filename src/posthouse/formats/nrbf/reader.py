"""Reads an NRBF stream into objects: one pass, no recursion, each byte once."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any, Final

from posthouse.formats.limits import FormatError, Limits
from posthouse.formats.nrbf.records import (
    PRIMITIVES,
    RECORD_NAMES,
    Array,
    ClassInfo,
    Instance,
    Ref,
    Stream,
    read_header,
)

_RANK_MAX: Final = 32
_END: Final = 11
_PRIMITIVE: Final = 0
_WITH_BOUNDS: Final = 3
# What an item costs in memory, in items: bytes stay bytes, some values become texts.
_ITEM_COSTS: Final = {2: 0, 3: 2, 5: 4, 12: 8, 13: 8}
_LIST_COST: Final = 8


class NrbfReader:
    """The objects of a stream by their ids, with the counts and types that `read` collects."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self.objects: dict[int, Any] = {}
        self.records = [0] * 256
        self.types: dict[tuple[str, str | None], None] = {}
        self.root_id = 0
        self.header_id = 0
        self.references: Counter[int] = Counter()
        self._stream = Stream(data)
        self._classes: dict[int, ClassInfo] = {}
        self._libraries: dict[int, str] = {}
        self._records_left = limits.elements
        self._members_max = limits.members
        self._items_left = limits.items
        # What is being filled: its values, the types of members or None for items, how many.
        self._open: list[tuple[list[Any], list[int | None] | None, int]] = []
        self._readers = {
            1: self._class_with_id,
            4: self._system_class,
            5: self._class,
            6: self._string,
            7: self._array,
            8: self._boxed,
            9: self._reference,
            10: self._null,
            12: self._library,
            13: self._nulls_256,
            14: self._nulls,
            15: self._primitive_array,
            16: self._record_array,
            17: self._record_array,
        }

    def read(self) -> None:
        """Read to the end of the stream; raises FormatError where it breaks the format."""
        stream = self._stream
        self.root_id, self.header_id = read_header(stream)
        self.records[0] = 1
        top: list[Any] = []
        while self._record(top):
            self._fill_open()
            if any(not isinstance(value, Instance | Array | str) for value in top):
                raise FormatError("an NRBF stream with a bare value between its objects")
            top.clear()
        self._check()

    def _fill_open(self) -> None:
        """Fill what is open, the innermost first, until nothing is."""
        stack, primitive = self._open, self._stream.primitive
        while stack:
            values, kinds, total = stack[-1]
            depth, at = len(stack), len(values)
            while at < total:
                kind = kinds[at] if kinds is not None else None
                if kind is not None:
                    values.append(primitive(kind))
                    at += 1
                    continue
                if not self._record(values):
                    raise FormatError("the NRBF stream ends inside an object")
                at = len(values)
                if len(stack) > depth:
                    break
            else:
                if at > total:
                    raise FormatError("an NRBF array with more nulls than it has items")
                stack.pop()

    def _record(self, values: list[Any]) -> bool:
        """Read a record; what it stands for goes to the values. False at the end of the stream."""
        kind = self._stream.u8()
        self.records[kind] += 1
        self._records_left -= 1
        if self._records_left < 0:
            raise FormatError("an NRBF stream with more records than the limit")
        if kind == _END:
            return False
        reader = self._readers.get(kind)
        if reader is None:
            raise FormatError(_refusal(kind))
        reader(values)
        return True

    def _define(self, identifier: int, value: Any) -> None:
        if identifier == 0 or identifier in self.objects:
            raise FormatError(f"{identifier} cannot be the id of one more NRBF object")
        self.objects[identifier] = value

    def _instance(self, identifier: int, info: ClassInfo, values: list[Any]) -> None:
        instance = Instance(identifier, info)
        self._define(identifier, instance)
        values.append(instance)
        if info.kinds:
            self._open.append((instance.values, info.kinds, len(info.kinds)))

    def _class_with_id(self, values: list[Any]) -> None:
        identifier, of = self._stream.i32(), self._stream.i32()
        if of not in self._classes:
            raise FormatError(f"an NRBF object of the class of {of}, which is not defined")
        self._classes[identifier] = info = self._classes[of]
        self._instance(identifier, info, values)

    def _system_class(self, values: list[Any]) -> None:
        self._new_class(values, False)

    def _class(self, values: list[Any]) -> None:
        self._new_class(values, True)

    def _new_class(self, values: list[Any], with_library: bool) -> None:
        stream = self._stream
        identifier, name = stream.i32(), stream.text()
        count = stream.count()
        if count > self._members_max:
            raise FormatError(f"an NRBF class with more than {self._members_max} members")
        names = [stream.text() for _ in range(count)]
        kinds = [self._type(kind) for kind in stream.take(count)]
        library = self._library_name(stream.i32()) if with_library else None
        info = ClassInfo(name, names, kinds, library)
        self.types[(name, library)] = None
        self._classes[identifier] = info
        self._instance(identifier, info, values)

    def _type(self, kind: int) -> int | None:
        """What follows a binary type: the primitive type of bare values, None for records."""
        stream = self._stream
        if kind in (_PRIMITIVE, 7):
            primitive = stream.u8()
            if primitive not in PRIMITIVES:
                raise FormatError(f"{primitive} is not a primitive type of NRBF")
            return primitive if kind == _PRIMITIVE else None
        if kind in (3, 4):
            stream.text()
            if kind == 4:
                self._library_name(stream.i32())
        elif kind > 7:
            raise FormatError(f"{kind} is not a binary type of NRBF")
        return None

    def _library_name(self, identifier: int) -> str:
        if identifier not in self._libraries:
            raise FormatError(f"the NRBF library {identifier} is not defined")
        return self._libraries[identifier]

    def _library(self, values: list[Any]) -> None:
        identifier = self._stream.i32()
        self._libraries[identifier] = self._stream.text()

    def _string(self, values: list[Any]) -> None:
        identifier, text = self._stream.i32(), self._stream.text()
        self._define(identifier, text)
        values.append(text)

    def _boxed(self, values: list[Any]) -> None:
        values.append(self._stream.primitive(self._stream.u8()))

    def _reference(self, values: list[Any]) -> None:
        reference = Ref(self._stream.i32())
        self.references[reference.id] += 1
        values.append(reference)

    def _null(self, values: list[Any]) -> None:
        values.append(None)

    def _nulls_256(self, values: list[Any]) -> None:
        self._null_run(values, self._stream.u8())

    def _nulls(self, values: list[Any]) -> None:
        self._null_run(values, self._stream.count())

    def _null_run(self, values: list[Any], count: int) -> None:
        """Some nulls of an array; its items have been counted when it was opened."""
        if not self._open or self._open[-1][1] is not None:
            raise FormatError("a run of nulls outside of an NRBF array")
        if count > self._open[-1][2] - len(values):
            raise FormatError("an NRBF array with more nulls than it has items")
        self._spend_items(count)
        values.extend([None] * count)

    def _spend_items(self, count: int) -> None:
        self._items_left -= count
        if self._items_left < 0:
            raise FormatError("the NRBF arrays have more items than the limit")

    def _primitive_array(self, values: list[Any]) -> None:
        identifier, count = self._stream.i32(), self._stream.count()
        self._bare_array(Array(identifier, (count,), self._stream.u8()), count, values)

    def _bare_array(self, array: Array, count: int, values: list[Any]) -> None:
        kind = array.primitive
        if kind not in PRIMITIVES:
            raise FormatError(f"{kind} is not a primitive type of NRBF")
        self._spend_items(count * _ITEM_COSTS.get(kind, 1))
        self._define(array.id, array)
        array.values = self._stream.primitives(kind, count)
        values.append(array)

    def _record_array(self, values: list[Any]) -> None:
        identifier, count = self._stream.i32(), self._stream.count()
        self._items_of(Array(identifier, (count,), None), count, values)

    def _items_of(self, array: Array, count: int, values: list[Any]) -> None:
        """Open an array of records. Each record of it is paid for when it is read."""
        self._define(array.id, array)
        values.append(array)
        if count:
            assert isinstance(array.values, list)
            self._open.append((array.values, None, count))

    def _array(self, values: list[Any]) -> None:
        stream = self._stream
        identifier, shape, rank = stream.i32(), stream.u8(), stream.count()
        if shape > 5 or not 1 <= rank <= _RANK_MAX:
            raise FormatError(f"an NRBF array of the kind {shape} with {rank} dimensions")
        if shape % 3 != 2 and rank != 1:
            raise FormatError("an NRBF array of one dimension with several lengths")
        lengths = tuple(stream.count() for _ in range(rank))
        bounds = tuple(stream.i32() for _ in range(rank)) if shape >= _WITH_BOUNDS else ()
        primitive = self._type(stream.u8())
        array = Array(identifier, lengths, primitive, bounds)
        self._spend_items(_LIST_COST * prod(length or 1 for length in lengths[:-1]))
        if primitive is None:
            self._items_of(array, prod(lengths), values)
        else:
            self._bare_array(array, prod(lengths), values)

    def _check(self) -> None:
        objects = self.objects
        if self.root_id not in objects:
            raise FormatError("the root of the NRBF stream is not defined")
        for identifier in self.references:
            if identifier not in objects:
                raise FormatError(f"the NRBF object {identifier} is not defined")

    def record_counts(self) -> dict[str, int]:
        """How often each record came, by its name."""
        return {
            name: self.records[kind] for kind, name in RECORD_NAMES.items() if self.records[kind]
        }

    def type_names(self) -> list[dict[str, str | None]]:
        """The classes in the order of their records."""
        return [{"name": name, "library": library} for name, library in self.types]


def _refusal(kind: int) -> str:
    if kind in (2, 3):
        return f"a {RECORD_NAMES[kind]} record has no types of its members, so it cannot be read"
    if kind in (21, 22):
        return f"a {RECORD_NAMES[kind]} record of .NET remoting is not read"
    return f"{kind} is not a record of NRBF that can stand here"
