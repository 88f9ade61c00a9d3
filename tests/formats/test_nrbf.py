"""NRBF streams without a vector, built by hand: grammar, unfolding, sharing, limits."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.formats import Decoded, Limits, decode
from tests.formats.hostile import i32, nrbf, text

NULL = b"\x0a"
INT = b"\x08\x08" + i32(7)


def boxed(kind: int, value: str) -> bytes:
    return bytes((8, kind)) + bytes.fromhex(value)


def ref(number: int) -> bytes:
    return b"\x09" + i32(number)


def string(number: int, value: str) -> bytes:
    return b"\x06" + i32(number) + text(value.encode())


def system_class(
    number: int, name: str, members: list[str], values: bytes, kinds: str = ""
) -> bytes:
    """A class whose members are objects, unless `kinds` gives the hex of binary types."""
    names = b"".join(text(member.encode()) for member in members)
    types = bytes.fromhex(kinds) if kinds else b"\x02" * len(members)
    return b"\x04" + i32(number) + text(name.encode()) + i32(len(members)) + names + types + values


def objects(number: int, *items: bytes) -> bytes:
    return b"\x10" + i32(number, len(items)) + b"".join(items)


def read(*records: bytes, **how: Any) -> Decoded:
    return decode(nrbf(*records), body_type=768, **how)


def value(*records: bytes) -> Any:
    result = read(*records)
    assert result.error is None
    return result.value


def rectangular(
    number: int, kind: int, lengths: list[int], bounds: list[int], rest: bytes
) -> bytes:
    return b"\x07" + i32(number) + bytes((kind,)) + i32(len(lengths), *lengths, *bounds) + rest


MIN_SPAN = "-10675199.02:48:05.4775808"
LOCAL = {"$type": "System.DateTime", "kind": "local", "value": "2000-01-01T00:00:00"}
DOUBLED_HOUR = (630_822_816_000_000_000 | 3 << 62).to_bytes(8, "little").hex()
RUN = b"\x10" + i32(1, 5) + NULL + INT + b"\x0d\x02" + string(2, "a")
BACKED = ["<P>k__BackingField", "B+x", "x", "B+<Q>k__BackingField"]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([RUN], [None, 7, None, None, "a"]),
        ([objects(1, boxed(6, "000000000000f87f"), boxed(11, "0000c03f"))], ["NaN", 1.5]),
        ([objects(1, boxed(3, "e282ac"), boxed(10, "ff"))], ["€", -1]),
        ([objects(1, boxed(16, "ff" * 8))], [2**64 - 1]),
        ([objects(1, boxed(12, "0000000000000080"), boxed(5, "042d312e35"))], [MIN_SPAN, "-1.5"]),
        ([objects(1, boxed(13, DOUBLED_HOUR))], [LOCAL]),
        ([objects(1, ref(2), ref(2)), string(2, "s")], ["s", "s"]),
        ([objects(1, ref(1))], {"$id": 1, "$values": [{"$ref": 1}]}),
        (
            [objects(1, ref(2), ref(2)), b"\x0f" + i32(2, 1) + b"\x02\xff"],
            [{"$id": 2, "$values": {"$base64": "/w=="}}, {"$ref": 2}],
        ),
        ([objects(1, objects(2, NULL), objects(3))], [[None], []]),
        ([string(5, "not the root"), string(1, "root")], "root"),
        (
            [rectangular(1, 2, [2, 2], [], b"\0\x08" + i32(1, 2, 3, 4))],
            [[1, 2], [3, 4]],
        ),
        ([rectangular(1, 2, [2, 0], [], b"\0\x08")], [[], []]),
        (
            [rectangular(1, 3, [2], [5], b"\0\x02\x01\x02")],
            {"$lower_bounds": [5], "$values": [1, 2]},
        ),
        ([rectangular(1, 5, [1, 1], [0, 0], b"\x01" + string(2, "a"))], [["a"]]),
        (
            [system_class(1, "A", BACKED, INT * 4)],
            {"$type": "A", "P": 7, "B+x": 7, "x": 7, "Q": 7},
        ),
        (
            [system_class(1, "A", ["$type", "a", "a", "a"], INT * 4)],
            {"$type": "A", "$$type": 7, "a": 7, "a#2": 7, "a#3": 7},
        ),
        ([system_class(1, "System.Int32", ["other"], INT)], {"$type": "System.Int32", "other": 7}),
        (
            [system_class(1, "System.Guid", ["_a"], INT)],
            {"$type": "System.Guid", "_a": 7},
        ),
    ],
)  # fmt: skip
def test_values(records: list[bytes], expected: Any) -> None:
    assert value(*records) == expected


HASHTABLE = "System.Collections.Hashtable"
LIST = "System.Collections.Generic.List`1[[System.Object]]"
PAIR = "System.Collections.Generic.KeyValuePair`2[[System.String],[System.Object]]"
DICTIONARY = "System.Collections.Generic.Dictionary`2[[System.String],[System.Object]]"
SET = "System.Collections.Generic.HashSet`1[[System.Object]]"


def listed(number: int, size: int) -> bytes:
    """A list whose items are the array 2."""
    return system_class(number, LIST, ["_items", "_size"], ref(2) + b"\x08\x08" + i32(size))


def dictionary(*keys: str) -> bytes:
    return system_class(1, DICTIONARY, ["KeyValuePairs"], pairs(2, *keys))


def pairs(number: int, *keys: str) -> bytes:
    made = [
        system_class(number + 10 + at, PAIR, ["key", "value"], string(number + 100 + at, key) + INT)
        for at, key in enumerate(keys)
    ]
    return objects(number, *made)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([listed(1, 1), objects(2, INT, NULL)], [7]),
        (
            [listed(1, 3), objects(2, INT)],
            {"$type": LIST, "_items": [7], "_size": 3},
        ),
        (
            [objects(1, listed(3, 1), ref(2)), objects(2, INT)],
            [{"$type": LIST, "_items": {"$id": 2, "$values": [7]}, "_size": 1}, {"$ref": 2}],
        ),
        ([system_class(1, SET, ["Version", "Comparer", "Capacity"], INT + NULL + INT)], []),
        ([system_class(1, SET, ["Elements"], objects(2, INT))], [7]),
        ([system_class(1, DICTIONARY, ["Version", "Comparer", "HashSize"], INT + NULL + INT)], {}),
        ([dictionary("a", "b")], {"a": 7, "b": 7}),
        ([dictionary("$a")], [{"key": "$a", "value": 7}]),
        (
            [dictionary("a", "a")],
            [{"key": "a", "value": 7}, {"key": "a", "value": 7}],
        ),
        (
            [system_class(1, HASHTABLE, ["Keys", "Values"], objects(2, INT) + objects(3, INT))],
            [{"key": 7, "value": 7}],
        ),
    ],
)  # fmt: skip
def test_collections_are_unfolded_where_they_have_the_right_shape(
    records: list[bytes], expected: Any
) -> None:
    assert value(*records) == expected


def test_a_shared_object_has_its_id_where_it_comes_first_by_depth() -> None:
    shared = system_class(3, "S", ["n"], INT)
    outer = system_class(2, "O", ["s"], ref(3))
    assert value(objects(1, ref(2), ref(3)), outer, shared) == [
        {"$type": "O", "s": {"$id": 3, "$type": "S", "n": 7}},
        {"$ref": 3},
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (nrbf(), "root"),
        (nrbf(objects(1, ref(9))), "9 is not defined"),
        (nrbf(string(0, "a")), "0 cannot be the id"),
        (nrbf(string(1, "a"), string(1, "b")), "1 cannot be the id"),
        (nrbf(b"\x05" + i32(1) + text(b"A") + i32(0, 77)), "library 77"),
        (nrbf(b"\x01" + i32(1, 55)), "class of 55"),
        (nrbf(b"\x02" + i32(1)), "no types of its members"),
        (nrbf(b"\x15"), "remoting"),
        (nrbf(b"\x63"), "99 is not a record"),
        (nrbf(b"\x0f" + i32(1, 1) + b"\x04\0"), "4 is not a primitive"),
        (nrbf(system_class(1, "A", ["a"], b"", "08")), "8 is not a binary type"),
        (nrbf(objects(1, b"\x0d\x05")), "more nulls"),
        (nrbf(objects(1, boxed(3, "80"))), "not UTF-8"),
        (nrbf(objects(1, boxed(3, "f09f9880"))), "not UTF-8"),
        (nrbf(objects(1, boxed(5, "0141"))), "decimal"),
        (nrbf(objects(1, boxed(13, "ffffffffffffff3f"))), "not a date"),
        (nrbf(b"\x10" + i32(1, -1)), "counts -1"),
        (nrbf(b"\x0a"), "bare value"),
        (nrbf(b"\x0d\x01"), "outside of an NRBF array"),
        (nrbf(system_class(1, "A", ["a"], b"\x0d\x01")), "outside of an NRBF array"),
        (nrbf(objects(1, INT))[:-1], "ends inside"),
        (nrbf(b"\x10" + i32(1, 2), INT), "ends inside an object"),
        (b"\0" + i32(1, -1, 2, 0) + b"\x0b", "version 2.0"),
        (nrbf(rectangular(1, 6, [1], [], b"\0\x08" + i32(1))), "kind 6"),
        (nrbf(rectangular(1, 0, [1, 1], [], b"\0\x08" + i32(1))), "one dimension"),
        (nrbf(b"\x06" + i32(1) + b"\x80\x80\x80\x80\x80"), "beyond 2 GB"),
    ],
)  # fmt: skip
def test_what_breaks_the_format(body: bytes, reason: str) -> None:
    result = decode(body, body_type=768)
    assert result.format == "nrbf"
    assert reason in (result.error or "")


def test_bytes_after_the_end_are_ignored() -> None:
    assert decode(nrbf(string(1, "a")) + b"more", body_type=768).value == "a"


def test_a_stream_without_a_body_type_is_found_by_its_header() -> None:
    assert decode(nrbf(string(1, "a"))).format == "nrbf"


@pytest.mark.parametrize(
    ("limits", "records"),
    [
        (Limits(depth=3), [objects(1, objects(2, objects(3, objects(4))))]),
        (Limits(text=10), [objects(1, ref(2), ref(2), ref(2)), string(2, "12345")]),
        (Limits(items=10), [b"\x0f" + i32(1, 11) + b"\x01" + bytes(11)]),
        (Limits(items=10), [b"\x10" + i32(1, 11) + b"\x0e" + i32(11)]),
        (Limits(elements=3), [objects(1, NULL, NULL, NULL)]),
        (Limits(members=1), [system_class(1, "A", ["a", "b"], INT * 2)]),
    ],
)
def test_limits(limits: Limits, records: list[bytes]) -> None:
    assert read(*records).error is None
    assert "limit" in (found := read(*records, limits=limits).error or "") or "more than" in found
