"""Alike bodies and only those come together, whatever bytes they are."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model import message_classes as classes
from posthouse.model.message_classes import MESSAGE_CLASSES, is_negative
from posthouse.spark.body_shapes import LOOKED_AT_MAX, PARTS_MAX, likeness, shape_of
from posthouse.spark.remedies import reason_of
from posthouse.spark.reports.clusters import (
    ShapeCount,
    clusters_of,
    count_shapes,
    shown_shape,
    with_clusters,
    with_shapes,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"customer": 7, "total": 1.5}', b'{"total": 9, "customer": 12345}'),
        (b'{"lines": [{"sku": "a"}, {"sku": "b"}]}', b'{"lines": [{"sku": "c"}]}'),
        (b"<order id='1'><line/></order>", b"<order id='2'>\n<line/><line/></order>"),
        (b"order 17 for Miller", b"order 4711 for Miller"),
        (b"failed at 2026-01-02 10:20:30", b"failed at 2025-11-12 01:02:03"),
        (
            b"session 5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11 over",
            b"session 00000000-1111-2222-3333-444444444444 over",
        ),
        (b"\x00\x01\x02\x03abcdefgh" * 5, b"\x00\x01\x02\x03abcdzzzz" * 5),
    ],
)
def test_bodies_that_differ_in_values_have_one_shape(one: bytes, other: bytes) -> None:
    assert shape_of(one, 0) == shape_of(other, 0)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "empty"),
        (None, "empty"),
        (b'{"a": 1}', "json"),
        (b"[1, 2]", "json"),
        (b'{"a": 1, "b":', "json"),
        (b"<?xml version='1.0'?><a/>", "xml"),
        (b"<a>", "xml"),
        (b"hello", "text"),
        (b"\x00\xff\xfe\x01", "binary"),
        ("größe".encode(), "text"),
    ],
)
def test_the_kind_of_a_body_is_seen(body: bytes | None, kind: str) -> None:
    assert shape_of(body, 0).kind == kind


def test_a_body_that_was_not_read_is_not_called_empty() -> None:
    assert shape_of(None, 0, 17).kind == "unread"


def test_wide_text_is_read_by_its_type() -> None:
    body = '{"a": 1}'.encode("utf-16-le")
    assert shape_of(body, 8).kind == "json"


def test_a_character_that_the_limit_cuts_is_still_text() -> None:
    assert shape_of("ü".encode() * LOOKED_AT_MAX + b"x", 0).kind == "text"
    assert shape_of(b"x" + "ü".encode() * LOOKED_AT_MAX, 0).kind == "text"


def test_json_in_json_in_json_ends() -> None:
    deep = b'{"a":' * 5000 + b"1" + b"}" * 5000
    assert shape_of(deep, 0).kind == "json"
    assert shape_of(b"[" * 16_000, 0).kind == "json"


@given(st.binary(max_size=300), st.integers(0, 0xFFFFFFFF))
def test_any_bytes_have_a_shape(body: bytes, body_type: int) -> None:
    shape = shape_of(body, body_type, len(body))
    assert len(shape.parts) <= PARTS_MAX
    assert shape.text


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=9))
def test_any_json_has_a_shape(value: object) -> None:
    assert shape_of(json.dumps({"value": value}).encode(), 0).kind == "json"


def test_likeness_is_what_both_have_of_all() -> None:
    assert likeness(frozenset("abc"), frozenset("abc")) == 1
    assert likeness(frozenset("ab"), frozenset("cd")) == 0
    assert likeness(frozenset("abc"), frozenset("bcd")) == 0.5


def count(
    shape: str, minutes: int = 0, *, code: int = 0x8000, to: str = "Q", n: int = 1
) -> ShapeCount:
    seen = NOON + timedelta(minutes=minutes)
    parts = "\x1f".join(shape.split())
    return ShapeCount(code, to, "json", parts, n, 10 * n, seen, seen, "label", b"{}")


def test_alike_shapes_are_one_cluster() -> None:
    made = clusters_of([count("a b c d", 0, n=3), count("a b c d e", 5), count("x y z", 1, n=2)])
    assert [(one.messages, len(one.shapes)) for one in made] == [(4, 2), (2, 1)]
    assert made[0].last_seen == NOON + timedelta(minutes=5)
    assert made[0].body_bytes == 40
    assert shown_shape(made[0].shapes) == "json: a b c d"


def test_other_reasons_and_destinations_are_other_clusters() -> None:
    counts = [count("a"), count("a", code=0x8001), count("a", to="R")]
    assert len({one.name for one in clusters_of(counts)}) == 3


def test_what_comes_later_does_not_rename_a_cluster() -> None:
    first = [count("a b c d"), count("x y z", 1)]
    before = {one.name for one in clusters_of(first)}
    after = clusters_of(
        [*first, count("a b c d e", 9, n=50), count("x y z q", 9), count("n e w", 9)]
    )
    assert before <= {one.name for one in after}
    assert len(after) == 3


@given(
    st.permutations([count("a b c d", 3), count("a b c d e", 1), count("k l", 2), count("a", 4)])
)
def test_the_order_of_counts_does_not_matter(counts: list[ShapeCount]) -> None:
    assert clusters_of(counts) == clusters_of(sorted(counts))


def test_spark_counts_shapes_and_names_every_letter(spark: SparkSession) -> None:
    bodies = [b'{"customer": 1}', b'{"customer": 2}', b"\x00\x01", b"", None]
    rows = [
        (number, f"label {number}", body, 0, len(body or b""), 0x8000, "DIRECT=OS:x\\q", NOON, NOON)
        for number, body in enumerate(bodies)
    ]
    schema = (
        "lookup_id long, label string, body binary, body_type long, body_size long,"
        " class_code int, destination string, sent_time timestamp, arrived_time timestamp"
    )
    shaped = with_shapes(spark.createDataFrame(rows, schema))
    assert "body" not in shaped.columns
    clusters = clusters_of(count_shapes(shaped))
    assert [one.messages for one in clusters] == [2, 2, 1]
    by_kind = {one.leader.kind: one for one in clusters}
    assert by_kind["json"].leader.sample == bodies[0]
    assert by_kind["json"].leader.label == "label 0"
    assert by_kind["json"].leader.first_seen == NOON
    named = with_clusters(shaped, clusters).select("lookup_id", "cluster").collect()
    cluster_of = {row["lookup_id"]: row["cluster"] for row in named}
    assert cluster_of[0] == cluster_of[1] == by_kind["json"].name
    assert cluster_of[2] == by_kind["binary"].name


def test_every_reason_has_a_remedy_of_its_own() -> None:
    remedies = [
        reason_of(entry.code).remedy for entry in MESSAGE_CLASSES if is_negative(entry.code)
    ]
    assert all(remedies)
    assert len(set(remedies)) == len(remedies)


def test_a_reason_of_an_application_is_told_too() -> None:
    assert reason_of(0xABCD).word == "0xabcd"
    assert reason_of(0xABCD).remedy
    assert "No failure" in reason_of(classes.NORMAL).remedy
