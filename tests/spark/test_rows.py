"""Rows to messages: which columns, which types, which rows are bad; all of it without Spark."""

from __future__ import annotations

import json
import pickle
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.client.packets import Options, PacketMaker
from posthouse.model.errors import IllegalPropertyValue, InvalidParameter, QueueError
from posthouse.model.message import MESSAGE_SIZE_MAX
from posthouse.spark.rows.columns import STAGE_COLUMNS, Form
from posthouse.spark.rows.rows import IGNORED, Checked, RowMap


def checked(table: dict[str, Any], constants: dict[str, Any] | None = None, **how: Any) -> Checked:
    batch = pa.RecordBatch.from_pydict(table)
    rows: RowMap = pickle.loads(pickle.dumps(RowMap(batch.schema, constants or {}, **how)))
    return rows.check(batch)


def why(table: dict[str, Any], **how: Any) -> tuple[int, str, str]:
    (fault,) = checked(table, **how).faults
    return fault


def planned(table: dict[str, Any], constants: dict[str, Any] | None = None, **how: Any) -> None:
    RowMap(pa.RecordBatch.from_pydict(table).schema, constants or {}, **how)


ALL = {
    "destination": [".\\private$\\a", "DIRECT=OS:beta\\private$\\b"],
    "body": [b"one", b"two"],
    "label": ["first", None],
    "priority": pa.array([0, 7], pa.int8()),
    "correlation_id": ["0" * 40, "AB" * 20],
    "delivery": ["recoverable", "transactional"],
    "response_queue": ["", ".\\private$\\answers"],
    "admin_queue": [None, "DIRECT=TCP:10.0.0.1\\private$\\acks"],
    "acknowledge": [["pos-arrival", "neg-receive"], []],
    "journal": [["positive"], None],
    "app_specific": [0, 0xFFFFFFFF],
    "body_type": [0, 8],
    "extension": [b"", b"x"],
    "time_to_reach_queue": [None, 60],
    "time_to_be_received": [1, None],
}


def test_every_property_has_a_column() -> None:
    made, faults = checked(ALL)
    assert faults == []
    assert made.schema.names == [column.name for column in STAGE_COLUMNS]
    assert [field.type for field in made.schema] == [column.arrow for column in STAGE_COLUMNS]
    assert made.to_pydict() == {**ALL, "priority": [0, 7]}


def test_columns_that_nobody_can_set_are_left_out() -> None:
    table = {name: ["whatever"] for name in IGNORED}
    assert checked({"body": [b"x"], **table}).batch.schema.names == ["body"]
    assert {"id", "lookup_id", "queue", "sent_time", "body_text", "class"} <= IGNORED


def test_unknown_column_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InvalidParameter, match=r"no column 'prioritty'; the nearest is priority"):
        planned({"body": [b"x"], "prioritty": [3]})


def test_table_without_body_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="no column body"):
        planned({"label": ["x"]})


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="two columns body"):
        RowMap(pa.schema([("body", pa.binary()), ("body", pa.string())]), {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("body", 1),
        ("body", True),
        ("label", b"x"),
        ("priority", "3"),
        ("priority", 1.5),
        ("extension", "x"),
        ("acknowledge", 1),
        ("correlation_id", b"x" * 20),
    ],
)
def test_column_of_a_wrong_type_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidParameter, match=f"the column {name} has the type"):
        planned({"body": [b"x"], name: [value]})


def test_option_goes_before_the_column() -> None:
    made, faults = checked({"body": [b"x"], "priority": [99]}, {"priority": 5, "label": "all"})
    assert faults == []
    assert made.to_pydict() == {"body": [b"x"], "priority": [5], "label": ["all"]}


@pytest.mark.parametrize(
    ("name", "value", "cause"),
    [
        ("priority", 8, "8 is not between 0 and 7"),
        ("label", "x" * 250, "250 characters"),
        ("correlation_id", "12", "40 hexadecimal digits"),
        ("delivery", "express", "on disk before it is published"),
        ("response_queue", "no where", "space"),
        ("acknowledge", ["always"], "is not an acknowledgment"),
    ],
)
def test_option_that_no_message_can_have_is_refused(name: str, value: Any, cause: str) -> None:
    with pytest.raises(IllegalPropertyValue, match=f"the option {name}: .*{cause}"):
        planned({"body": [b"x"]}, {name: value})


@pytest.mark.parametrize(
    ("name", "values", "cause"),
    [
        ("body", [b"x", None], "null is not a body"),
        ("body", ["x", None], "null is not a body"),
        ("priority", [7, 8], "8 is not between 0 and 7"),
        ("priority", [None, -1], "-1 is not between 0 and 7"),
        ("priority", [0, 2**40], "is not between 0 and 7"),
        ("app_specific", [0, 2**32], "4294967296 is not between 0 and 4294967295"),
        ("time_to_be_received", [0, -5], "-5 is not between"),
        ("label", ["\U0001f40e" * 124, "\U0001f40e" * 125], "250 characters"),
        ("label", ["x", "a\0b"], "NUL"),
        ("label", ["x" * 249, "x" * 250], "250 characters"),
        ("correlation_id", ["", "0" * 39], "is not 40 hexadecimal digits"),
        ("correlation_id", [None, "g" * 40], "is not 40 hexadecimal digits"),
        ("correlation_id", ["0" * 40, "0" * 40 + "\n"], "is not 40 hexadecimal digits"),
        ("delivery", ["", "express"], "on disk before it is published"),
        ("delivery", [None, "fast"], "neither recoverable nor transactional"),
        ("destination", [".\\private$\\x", None], "no destination"),
        ("destination", [".\\private$\\x", ""], "no destination"),
        ("destination", [".\\private$\\x", "x y"], "space"),
        ("response_queue", [None, "DIRECT=X:y"], "."),
        ("acknowledge", [["pos-arrival"], ["neg-receive", "maybe"]], "'maybe' is not"),
        ("acknowledge", ["pos-arrival, neg-arrival", "maybe"], "'maybe' is not"),
        ("journal", [None, ["positive", None]], "a null word"),
    ],
)
def test_row_that_cannot_be_a_message_is_found(name: str, values: list[Any], cause: str) -> None:
    row, column, said = why({"body": [b"x", b"x"], name: values})
    assert (row, column) == (1, name)
    assert re.search(cause, said)


def test_of_a_row_with_several_faults_one_is_named() -> None:
    faults = checked({"body": [None, b"x", None], "priority": [9, 9, 0]}).faults
    assert [(fault.row, fault.column) for fault in faults] == [
        (0, "priority"),
        (1, "priority"),
        (2, "body"),
    ]


def test_words_may_be_joined_by_commas() -> None:
    made = checked({"body": [b""] * 3, "journal": ["positive,negative", "", None]}).batch
    assert made.to_pydict()["journal"] == [["positive", "negative"], [], None]


def test_express_is_a_delivery_where_nothing_is_staged() -> None:
    table = {"body": [b"x"] * 3, "delivery": ["express", "slow", "transactional"]}
    faults = checked(table, straight=True).faults
    assert [fault.row for fault in faults] == [1, 2]
    assert "needs a queue manager" in faults[1].cause


# -- sizes


def test_body_is_as_large_as_a_packet_allows_and_not_larger() -> None:
    """To the byte, for the longest name that is usual."""
    made = PacketMaker("DIRECT=OS:" + "x" * 15 + "\\private$\\" + "x" * 114, "x" * 15)
    fixed = len(made.packet(b"", Options(label="mark"), True))
    fits = (MESSAGE_SIZE_MAX - fixed) // 4 * 4
    table = {"body": [b"\0" * fits, b"\0" * (fits + 5)], "label": ["mark"] * 2}
    row, column, cause = why(table)
    assert (row, column) == (1, "body")
    assert "bytes" in cause


def test_body_beyond_any_packet_is_found() -> None:
    assert "are more than a message holds" in why({"body": [b"\0" * (MESSAGE_SIZE_MAX + 1)]})[2]


def test_extension_counts() -> None:
    half = b"\0" * (MESSAGE_SIZE_MAX // 2)
    assert why({"body": [half], "extension": [half]})[1] == "body"


# -- text


def test_text_is_sent_in_utf_8() -> None:
    assert checked({"body": ["Grüße"]}).batch.to_pydict() == {"body": ["Grüße".encode()]}


def test_text_for_windows_programs_is_sent_in_utf_16() -> None:
    made = checked({"body": ["Grüße"]}, {"body_type": 8}).batch.to_pydict()
    assert made == {"body": ["Grüße".encode("utf-16-le")], "body_type": [8]}


def test_body_type_of_each_row_counts() -> None:
    made = checked({"body": ["ä", "ä", "ä"], "body_type": [31, 30, None]}).batch.to_pydict()
    assert made["body"] == ["ä".encode("utf-16-le"), "ä".encode(), "ä".encode()]


def test_bytes_stay_bytes_whatever_their_type_is() -> None:
    assert checked({"body": [b"\xff"]}, {"body_type": 8}).batch.to_pydict()["body"] == [b"\xff"]


# -- structures

MOMENT = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)
ORDER = pa.array(
    [
        {
            "id": 1,
            "who": "Tom & Jerry <\u00e4>",
            "price": Decimal("1.50"),
            "when": MOMENT,
            "raw": b"\0\1",
            "tags": ["a", None, "b"],
            "inner": {"yes": True, "none": None},
        },
        None,
    ],
    pa.struct(
        [
            ("id", pa.int64()),
            ("who", pa.string()),
            ("price", pa.decimal128(10, 2)),
            ("when", pa.timestamp("us", "Europe/Berlin")),
            ("raw", pa.binary()),
            ("tags", pa.list_(pa.string())),
            ("inner", pa.struct([("yes", pa.bool_()), ("none", pa.int32())])),
        ]
    ),
)


def test_struct_is_sent_as_json() -> None:
    made, faults = checked({"body": ORDER})
    assert [(fault.row, fault.cause) for fault in faults] == [(1, "null is not a body")]
    assert json.loads(made.column("body")[0].as_py()) == {
        "id": 1,
        "who": "Tom & Jerry <ä>",
        "price": 1.5,
        "when": "2026-01-31T12:30:00Z",
        "raw": "AAE=",
        "tags": ["a", None, "b"],
        "inner": {"yes": True, "none": None},
    }


def test_struct_is_sent_as_xml_where_that_is_asked_for() -> None:
    made = checked({"body": ORDER}, body_format="xml", xml_root="order").batch
    assert made.column("body")[0].as_py().decode() == (
        "<order><id>1</id><who>Tom &amp; Jerry &lt;ä&gt;</who><price>1.50</price>"
        "<when>2026-01-31T12:30:00Z</when><raw>AAE=</raw><tags>a</tags><tags>b</tags>"
        "<inner><yes>true</yes></inner></order>"
    )


def test_maps_and_arrays_are_json_too() -> None:
    maps = pa.array([[("k", [("x", 1)])]], pa.map_(pa.string(), pa.map_(pa.string(), pa.int8())))
    assert checked({"body": maps}).batch.to_pydict()["body"] == [b'{"k":{"x":1}}']
    within = pa.array([{"m": [("k", 1)]}], pa.struct([("m", pa.map_(pa.string(), pa.int8()))]))
    assert checked({"body": within}).batch.to_pydict()["body"] == [b'{"m":{"k":1}}']
    assert checked({"body": [[1, None]]}).batch.to_pydict()["body"] == [b"[1,null]"]
    inner = pa.array([[{"m": [("k", 1)]}, None]], pa.list_(within.type))
    assert checked({"body": inner}).batch.to_pydict()["body"] == [b'[{"m":{"k":1}},null]']


def test_array_is_items_in_xml() -> None:
    made = checked({"body": [[1, 2]]}, body_format="xml").batch.to_pydict()
    assert made["body"] == [b"<message><item>1</item><item>2</item></message>"]


def test_what_xml_cannot_say_is_a_bad_row() -> None:
    bodies = [{"a": "fine"}, {"a": "bell\a"}]
    row, column, cause = why({"body": bodies}, body_format="xml")
    assert (row, column) == (1, "body")
    assert "U+0007" in cause


@pytest.mark.parametrize(
    "arrow",
    [
        pa.struct([("not a name", pa.string())]),
        pa.struct([("m", pa.map_(pa.string(), pa.string()))]),
        pa.struct([("l", pa.list_(pa.list_(pa.int8())))]),
        pa.struct([("d", pa.duration("us"))]),
    ],
)
def test_struct_that_xml_cannot_name_is_refused_when_planned(arrow: Any) -> None:
    with pytest.raises(InvalidParameter):
        RowMap(pa.schema([("body", arrow)]), {}, body_format="xml")


def test_root_of_xml_has_to_be_a_name() -> None:
    with pytest.raises(InvalidParameter, match="name of an XML element"):
        planned({"body": [{"a": 1}]}, body_format="xml", xml_root="<hostile>")


# -- anything

VALUES = {
    Form.BODY: st.none() | st.binary(max_size=9),
    Form.TEXT: st.none()
    | st.text(max_size=9)
    | st.sampled_from(["express", "0" * 40, ".\\private$\\a", "x" * 300]),
    Form.NUMBER: st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9),
    Form.BINARY: st.none() | st.binary(max_size=9),
    Form.WORDS: st.none()
    | st.lists(st.none() | st.sampled_from(["pos-arrival", "positive", "x", ""]), max_size=3),
}


@st.composite
def tables(draw: st.DrawFn) -> Any:
    count = draw(st.integers(1, 4))
    arrays = {}
    for column in draw(st.lists(st.sampled_from(STAGE_COLUMNS), unique=True)):
        values = draw(st.lists(VALUES[column.form], min_size=count, max_size=count))
        wide = pa.int64() if column.form is Form.NUMBER else column.arrow
        arrays[column.name] = pa.array(values, wide)
    arrays.setdefault("body", pa.array([b""] * count))
    return pa.RecordBatch.from_pydict(arrays)


@given(tables())
def test_each_row_of_any_table_is_whole_or_has_a_reason(batch: Any) -> None:
    made, faults = RowMap(batch.schema, {}).check(batch)
    assert made.num_rows == batch.num_rows
    bad = {fault.row for fault in faults}
    assert len(bad) == len(faults)
    for row in set(range(batch.num_rows)) - bad:
        message = made.slice(row, 1).to_pylist()[0]
        given_ = batch.slice(row, 1).to_pylist()[0]
        assert message == given_
        _send(message)


def _send(row: dict[str, Any]) -> None:
    """A row without a fault is a message that the client would make a packet of."""
    how = Options(
        label=row.get("label") or "",
        priority=row["priority"] if row.get("priority") is not None else 3,
        app_specific=row.get("app_specific") or 0,
        extension=row.get("extension") or b"",
        correlation=row.get("correlation_id") or "",
        response_queue=row.get("response_queue") or "",
        admin_queue=row.get("admin_queue") or "",
        ack=tuple(row.get("acknowledge") or ()),
        time_to_be_received=row.get("time_to_be_received"),
        time_to_reach_queue=row.get("time_to_reach_queue"),
        body_type=row.get("body_type"),
    )
    PacketMaker("DIRECT=OS:x\\private$\\y", "x").packet(row["body"], how, False)


@given(st.text(), st.booleans())
def test_any_text_in_a_struct_is_written_or_refused(text: str, xml: bool) -> None:
    try:
        batch = pa.RecordBatch.from_pydict({"body": [{"a": text}]})
    except UnicodeEncodeError:
        return
    made, faults = RowMap(batch.schema, {}, body_format="xml" if xml else "json").check(batch)
    body = made.column("body")[0].as_py()
    if faults:
        assert xml
        assert body is None
    elif xml:
        said = ElementTree.fromstring(body).findtext("a") or ""
        assert said == text.replace("\r\n", "\n").replace("\r", "\n")
    else:
        assert json.loads(body) == {"a": text}


def test_refusals_are_errors_of_the_queue_manager() -> None:
    with pytest.raises(QueueError):
        planned({"nothing": [1]})
