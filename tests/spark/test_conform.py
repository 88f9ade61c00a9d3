"""Schemas of bodies: what fits, what drifts, and the quarantine of real queues."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.cli import main
from posthouse.model.errors import InvalidParameter
from posthouse.spark.conform.drift import Drift, learned
from posthouse.spark.conform.schema import Schema, content_of, schema_of
from posthouse.spark.lakes.files import LakeFiles
from tests.process.spark_office import SparkOffice, path_of
from tests.spark.lake_samples import add_rows, rows

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
FIELDS = {"Id": "integer", "Paid": "flag?", "Lines[].Sku": "text", "Lines[].Price": "number?"}
ORDER = b'{"Id": 7, "Paid": true, "Lines": [{"Sku": "a", "Price": 1.5}, {"Sku": "b", "Price": 2}]}'
XML = (
    b"<?xml version='1.0'?><Order><Id>7</Id><Paid>true</Paid><Lines><Sku>a</Sku>"
    b"<Price>1.50</Price></Lines><Lines><Sku>b</Sku></Lines></Order>"
)


def row(body: bytes, number: int = 1, **more: Any) -> dict[str, Any]:
    given = {"lookup_id": number, "queue": "q", "body": body, "body_type": 0, "label": "order"}
    return {**given, "arrived_time": NOON + timedelta(minutes=number), **more}


def schema(fields: dict[str, str] | None = None, **more: Any) -> Schema:
    return schema_of({"body": [{"name": "order", "fields": fields or FIELDS, **more}]})


def reason(body: bytes, **more: Any) -> str:
    judged = Drift(schema(**more)).judge(row(body))
    assert judged is not None
    return judged.reason


@pytest.mark.parametrize(
    "body",
    [
        ORDER,
        XML,
        b'{"Id": 7, "Lines": []}',
        b'{"Id": 7}',  # the list itself is not demanded
        b'{"Id": 7, "Paid": null, "Lines": [{"Sku": "", "Price": "1.50"}]}',
        b"<Order><Id>-7</Id><Lines><Sku>1</Sku></Lines></Order>",  # one line, a text of digits
        "<Order><Id>7</Id></Order>".encode("utf-16"),
        b"<string>{&quot;Id&quot;: 7}</string>",
    ],
)
def test_bodies_that_fit(body: bytes) -> None:
    assert reason(body) == ""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{}", "schema order: Id is missing"),
        (b'{"Id": null}', "Id is missing"),
        (b'{"Id": "7"}', "Id is text, not integer"),
        (b'{"Id": true}', "Id is flag, not integer"),
        (b'{"Id": 7.5}', "Id is number, not integer"),
        (b"<Order><Id>x</Id></Order>", "Id is text, not integer"),
        (b"<Order><Id/></Order>", "Id is "),
        (b'{"Id": 7, "Lines": [{"Sku": "a"}, {}]}', "Lines[].Sku is missing"),
        (b'{"Id": 7, "Lines": {"Sku": "a"}}', "Lines[].Sku is object, not text"),
        (b'{"Id": 7, "Lines": [3]}', "Lines[].Sku is missing"),
        (b"<Order><Id>7</Id><Lines><Price>x</Price></Lines></Order>", "Lines[].Sku is missing"),
        (b"", "the body is empty"),
        (b"\x00\xff\x80", "the body is not readable"),
        (b"<Order><Id>7</Id>", "schema order: "),
        (b"[1]", "Id is missing"),
        (b'{"Id": ' + b"[" * 5000 + b"]" * 5000 + b"}", "schema order: "),
    ],
)
def test_bodies_that_do_not_fit(body: bytes, words: str) -> None:
    assert words in reason(body)


def test_new_fields_drift_or_are_refused() -> None:
    body = b'{"Id": 7, "Note": "x", "Lines": [{"Sku": "a", "Tax": 3}]}'
    drift = Drift(schema())
    for number in (3, 1, 2):
        judged = drift.judge(row(body, number))
        assert judged is not None
        assert judged.reason == ""
    assert [(one.kind, one.field, one.found, one.messages) for one in drift.rows] == [
        ("new", "Lines[].Tax", "integer", 3),
        ("new", "Note", "text", 3),
    ]
    first = drift.rows[0]
    assert (first.first_seen.minute, first.last_seen.minute, first.example) == (1, 3, 3)
    refused = reason(body, new_fields="refuse")
    assert refused == "schema order: Note is not in the schema; Lines[].Tax is not in the schema"
    free = reason(
        body, fields={"Id": "integer", "Note": "any", "Lines": "any"}, new_fields="refuse"
    )
    assert free == ""


def test_a_reason_has_no_values_of_messages() -> None:
    assert "secret" not in reason(b'{"Id": "secret", "Lines": "secret", "x": "secret"}')


def test_kinds_are_chosen_by_type_and_label() -> None:
    found = schema_of(
        {
            "body": [
                {"name": "a", "type": "Order*", "label": "x*", "fields": {"Id": "integer"}},
                {"name": "b", "type": "Order*", "fields": {"No": "integer"}},
            ]
        }
    )
    drift = Drift(found)
    body = b"<OrderPlaced><Id>7</Id></OrderPlaced>"
    reasons = [drift.judge(row(body, label=label)) for label in ("X1", "y")]
    assert [one and one.reason for one in reasons] == ["", "schema b: No is missing"]
    other = drift.judge(row(b"<Bill/>"))
    assert other is not None
    assert other.reason == "schema ?: no body of the schema matches (type Bill)"
    assert drift.judge(row(b"", encrypted=True)) is None
    assert (drift.messages, drift.misfits, drift.encrypted) == (3, 2, 1)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, "body"),
        ({"body": [{"name": "a", "fields": {}}]}, "fields"),
        ({"body": [{"name": "a", "fields": {"a": "int"}}]}, "not one of text, integer"),
        ({"body": [{"name": "a", "fields": {"a..b": "text"}}]}, "not a path"),
        ({"body": [{"name": "a", "fields": {"a[0]": "text"}}]}, "not a path"),
        ({"body": [{"name": "a", "fields": {"a": "text"}, "wrong": 1}]}, "wrong"),
        ({"body": [{"name": "a", "fields": {"a": "text"}}] * 2}, "the same name"),
    ],
    ids=str,
)
def test_a_wrong_schema_is_refused(table: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words) as caught:
        schema_of(table)
    assert "\n" not in str(caught.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), min_size=1, max_size=4))
def test_messages_fit_the_schema_that_was_learned_from_them(bodies: list[dict[str, Any]]) -> None:
    messages = [row(json.dumps(body).encode()) for body in bodies]
    readable = [one for one in messages if not content_of(one).error]
    text = learned(readable)
    if text.count("=") <= 2 * text.count("[[body]]"):
        return  # no body has a field that a path can name
    drift = Drift(schema_of(tomllib.loads(text)))
    found = [drift.judge(one) for one in readable]
    assert [one.reason for one in found if one is not None] == [""] * len(readable)


@given(st.binary(max_size=200))
def test_any_bytes_are_judged(body: bytes) -> None:
    assert Drift(schema()).judge(row(body)) is not None


# -- real queues


def run(
    office: SparkOffice, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str, str]:
    access = ["--url", office.url, "--token-file", str(office.token_file)]
    code = main.run([*words, *access])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "orders.toml"
    lines = "\n".join(f'"{path}" = "{type}"' for path, type in FIELDS.items())
    made.write_text(f'[[body]]\nname = "order"\n[body.fields]\n{lines}\n', encoding="utf-8")
    return made


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("apart", [False, True], ids=["subqueue", "queue"])
def test_misfits_are_quarantined_with_the_reason_and_come_back(
    office: SparkOffice,
    queue: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    file: Path,
    transactional: bool,
    apart: bool,
) -> None:
    name = queue(transactional=transactional)
    other = queue(transactional=transactional) if apart else ""
    where = path_of(other) if apart else f"{path_of(name)};quarantine"
    target = office.qm.queue(path_of(name))
    bodies = [ORDER, b'{"Id": "x"}', XML, b'{"Lines": []}', b'{"Id": "y"}', b"\x00\xff"]
    for body in bodies:
        target.send(body, transactional=transactional, recoverable=not transactional)
    sent = {str(one.id): one.body for one in target.browse()}
    code, out, _ = run(office, capsys, "pipeline", "conform", str(file), "--queue", name)
    assert (code, office.count(name)) == (1, 6)
    assert "4 do not fit, 0 were moved" in out
    option = other or ";quarantine"
    words = ("pipeline", "conform", str(file), "--queue", name, "--quarantine", option)
    code, out, _ = run(office, capsys, *words, "--json")
    assert code == 0
    *drift, summary = map(json.loads, out.splitlines())
    assert (summary["misfits"], summary["moved"], summary["refused"]) == (4, 4, 0)
    assert {(one["kind"], one["field"], one["messages"]) for one in drift} == {
        ("type", "Id", 2),
        ("missing", "Id", 1),
        ("unreadable", "", 1),
    }
    assert office.bodies(name) == [ORDER, XML]
    code, out, _ = run(office, capsys, *words, "--json")  # again: nothing is left to move
    assert (code, json.loads(out)["moved"]) == (0, 0)
    moved = list(office.qm.queue(where).browse())
    assert {str(one.id): one.body for one in moved}.items() <= sent.items(), "the same messages"
    code, out, _ = run(office, capsys, "failures", where, "--json")
    groups = {one["exception_message"]: one["count"] for one in map(json.loads, out.splitlines())}
    assert groups["schema order: Id is text, not integer"] == 2
    assert len(groups) == 3
    code, out, _ = run(office, capsys, "message", "show", where, str(moved[0].lookup_id))
    assert "moved because" in out
    assert "schema order: Id is text, not integer" in out
    code, out, _ = run(office, capsys, "message", "return", where)
    assert code == 0
    assert sorted(office.bodies(name)) == sorted(bodies)
    code, out, _ = run(office, capsys, "failures", path_of(name), "--json")
    assert "schema order" not in out, "the reason went with the move"


def test_a_schema_is_learned_and_a_lake_is_held_against_it(
    office: SparkOffice,
    queue: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    name = queue()
    office.send(name, [ORDER, b'{"Id": 8, "Lines": []}'])
    made = tmp_path / "learned.toml"
    words = ("pipeline", "conform", str(made))
    assert run(office, capsys, *words, "--queue", name, "--learn")[0] == 0
    assert '"Lines[].Price" = "number?"' in made.read_text(encoding="utf-8")
    assert run(office, capsys, *words, "--queue", name)[0] == 0
    code, _, err = run(office, capsys, *words, "--queue", name, "--learn")
    assert (code, "exists" in err) == (2, True)
    lake = LakeFiles(tmp_path / "lake")
    lake.create()
    batch = rows("ALPHA\\private$\\orders", [1, 2])
    add_rows(lake, 0, batch)
    code, out, _ = run(office, capsys, *words, "--lake", str(tmp_path / "lake"), "--json")
    *_, summary = map(json.loads, out.splitlines())
    assert (code, summary["messages"], summary["misfits"]) == (1, 2, 2)


def test_what_cannot_be_moved_stays_and_is_reported(
    office: SparkOffice, queue: Callable[..., str], capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    name, other = queue(), queue(transactional=True)
    office.send(name, [b"{}"])
    words = ("pipeline", "conform", str(file), "--queue", name, "--quarantine", other)
    code, _, err = run(office, capsys, *words)
    assert (code, office.count(name), office.count(other)) == (1, 1, 0)
    assert "Could not move 1 message" in err
    assert "transactional" in err
