"""Columns of what is in messages: batch reads, streams, schemas, code pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import VariantVal

from posthouse.formats import decode
from posthouse.formats.encode import nservicebus_headers, xml_body
from posthouse.model.message_columns import DECODED_NAMES, NAMES
from posthouse.model.text import has_lone_surrogate
from posthouse.spark.queries.decoding import decode_message, decode_text
from posthouse.spark.rows import decoded
from posthouse.spark.rows.variants import variant_of
from tests.process.spark_office import SparkOffice, path_of
from tests.support.format_vectors import FOLDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

Options = Callable[..., dict[str, str]]
MakeQueue = Callable[..., str]
HEADERS = {
    "NServiceBus.EnclosedMessageTypes": "Acme.OrderPlaced, Acme",
    "NServiceBus.ExceptionInfo.ExceptionType": "System.TimeoutException",
    "NServiceBus.ExceptionInfo.Message": "too slow",
    "Empty": "",
}


@pytest.fixture
def table(spark: SparkSession, options: Options) -> Callable[..., DataFrame]:
    """`table(name, **options)`: a queue as a table."""
    return lambda name, **more: (
        spark.read.format("posthouse").options(**options(name, **more)).load()
    )


Table = Callable[..., "DataFrame"]


def send_some(office: SparkOffice, name: str) -> None:
    queue = office.qm.queue(path_of(name))
    queue.send(xml_body({"@No": 7, "Tag": ["a", "b"], "Due": None}, root="Order"))
    queue.send(b'{"id":17}', extension=nservicebus_headers(HEADERS))
    queue.send(b"\x80\x81\0\1\2", label="bytes")
    queue.send(b"", label="empty")
    queue.send((FOLDER / "nrbf-exception.body").read_bytes(), body_type=768)
    queue.send(b"<broken", label="broken")


def rows_of(frame: DataFrame) -> list[Row]:
    return frame.orderBy("lookup_id").collect()


def test_what_is_in_messages_is_in_columns(
    office: SparkOffice, queue: MakeQueue, table: Table
) -> None:
    name = queue()
    send_some(office, name)
    frame = table(name, decode=True)
    assert frame.columns == [*NAMES, *DECODED_NAMES]
    types = dict(frame.dtypes)
    assert types["headers"] == "map<string,string>"
    assert types["body_json"] == "variant"
    order, placed, octets, empty, failed, broken = rows_of(frame)
    assert (order.format, order.headers, order.decode_error) == ("xml", None, None)
    assert order.body_json.toPython() == {"@No": "7", "Tag": ["a", "b"], "Due": None}
    assert placed.format == "nservicebus"
    assert placed.headers == HEADERS
    assert placed.message_type == "Acme.OrderPlaced"
    assert (placed.exception_type, placed.exception_message) == (
        "System.TimeoutException",
        "too slow",
    )
    assert placed.body_json.toPython() == {"id": 17}
    assert [(row.format, row.body_json) for row in (octets, empty)] == [
        ("bytes", None),
        ("empty", None),
    ]
    known = decode(bytes(failed.body), body_type=768)
    assert known.exception is not None
    assert (failed.format, failed.exception_type) == ("nrbf", known.exception.type)
    assert failed.exception_message == known.exception.message
    assert (broken.format, broken.body_json) == ("xml", None)
    assert "not well-formed" in broken.decode_error


def test_columns_are_made_where_they_are_asked_for(
    office: SparkOffice, queue: MakeQueue, table: Table, spark: SparkSession, options: Options
) -> None:
    name = queue()
    send_some(office, name)
    assert table(name).columns == list(NAMES)
    some = table(name, columns="lookup_id,message_type,format")
    assert some.columns == ["lookup_id", "message_type", "format"]
    assert [row.message_type for row in rows_of(some)][:2] == [None, "Acme.OrderPlaced"]
    bare = table(name, decode=True, includeBody=False, includeExtension=False)
    assert "body" not in bare.columns
    assert rows_of(bare)[1].headers == HEADERS
    asked = "body_json string, lookup_id bigint"
    reader = spark.read.format("posthouse").schema(asked).options(**options(name))
    assert json.loads(rows_of(reader.load())[1].body_json) == {"id": 17}
    text = table(name, decode=True, bodyJson="string")
    assert dict(text.dtypes)["body_json"] == "string"
    assert json.loads(rows_of(text)[0].body_json)["Tag"] == ["a", "b"]
    with pytest.raises(Exception, match="message_type is string, not int"):
        spark.read.format("posthouse").schema("message_type int").options(
            **options(name)
        ).load().collect()


def test_values_can_be_asked_for_in_sql(
    office: SparkOffice, queue: MakeQueue, table: Table, spark: SparkSession
) -> None:
    name = queue()
    send_some(office, name)
    table(name, decode=True).createOrReplaceTempView("decoded_messages")
    found = spark.sql(
        "SELECT variant_get(body_json, '$.Tag[1]', 'string') AS tag, headers['Empty'] AS empty "
        "FROM decoded_messages ORDER BY lookup_id LIMIT 2"
    ).collect()
    assert [(row.tag, row.empty) for row in found] == [("b", None), (None, "")]


def test_a_stream_has_them_too(
    office: SparkOffice, queue: MakeQueue, spark: SparkSession, options: Options, tmp_path: Path
) -> None:
    name = queue()
    send_some(office, name)
    seen: list[Row] = []
    stream = spark.readStream.format("posthouse").options(**options(name, decode=True)).load()
    query = (
        stream.writeStream.foreachBatch(lambda batch, _: seen.extend(batch.collect()))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    seen.sort(key=lambda row: row.lookup_id)
    assert [row.format for row in seen] == ["xml", "nservicebus", "bytes", "empty", "nrbf", "xml"]
    assert seen[1].message_type == "Acme.OrderPlaced"
    assert seen[0].body_json.toPython()["@No"] == "7"


def test_texts_are_read_by_the_code_page_of_their_queue(
    office: SparkOffice, queue: MakeQueue, table: Table
) -> None:
    names = [queue(code_page="1251"), queue()]
    for name in names:
        office.qm.queue(path_of(name)).send("Привет".encode("cp1251"), body_type=30)
    found = [rows_of(table(name, decode=True))[0].body_json.toPython() for name in names]
    assert found == ["Привет", "Ïðèâåò"]


def test_every_vector_has_a_row_with_its_value(
    office: SparkOffice, queue: MakeQueue, table: Table
) -> None:
    """Whatever .NET wrote: what Spark shows is what `decode` gives."""
    entries: list[dict[str, Any]] = json.loads((FOLDER / "manifest.json").read_text())
    name = queue()
    target = office.qm.queue(path_of(name))
    for entry in entries:
        extension = entry["extension"]
        target.send(
            (FOLDER / entry["body"]).read_bytes(),
            body_type=entry["body_type"],
            extension=(FOLDER / extension).read_bytes() if extension else b"",
            label=entry["label"] or "",
            app_specific=entry["app_specific"] or 0,
        )
    rows = rows_of(table(name, decode=True, bodyJson="string"))
    variants = rows_of(table(name, columns="lookup_id,body_json"))
    assert len(rows) == len(entries)
    for row, variant in zip(rows, variants, strict=True):
        known = decode(
            bytes(row.body),
            body_type=row.body_type,
            extension=bytes(row.extension),
            label=row.label,
            app_specific=row.app_specific,
        )
        assert row.format == known.format
        assert row.decode_error == known.error
        if row.body_json is None:
            assert variant.body_json is None
            assert known.error or (known.body or known).format in ("bytes", "empty")
        else:
            assert json.loads(row.body_json) == known.value
            assert normal(variant.body_json.toPython()) == normal(known.value)


def normal(value: Any) -> Any:
    """Without what VARIANT does not tell apart: large whole numbers are decimals there."""
    if isinstance(value, dict):
        return {key: normal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [normal(item) for item in value]
    return value if isinstance(value, str | bool | None) else float(value)


# -- functions


def test_statements_decode_what_is_at_rest(spark: SparkSession) -> None:
    rows = [
        (b'{"id":17}', 0, nservicebus_headers(HEADERS), "", 1, "00" * 20),
        (b"<int>42</int>", 0, b"", "", 0, "00" * 20),
        ("Привет".encode("cp1251"), 30, b"", "", 0, "00" * 20),
        (b"\x07", 3, b"", "", 0, "00" * 20),
        (None, 0, None, None, None, None),
    ]
    names = "body binary, body_type long, extension binary, label string, app_specific long"
    spark.createDataFrame(rows, f"{names}, correlation_id string").createOrReplaceTempView("rest")
    found = spark.sql(
        "SELECT m.*, decode_text(body, body_type) AS text FROM (SELECT *, decode_message(body,"
        " body_type, extension, label, app_specific, correlation_id, '1251') AS m FROM rest)"
    ).collect()
    assert [row.format for row in found] == ["nservicebus", "xml", "activex", "activex", None]
    assert found[0].headers == HEADERS
    assert (found[0].message_type, found[0].exception_message) == ("Acme.OrderPlaced", "too slow")
    values = [row.body_json and row.body_json.toPython() for row in found]
    assert values == [{"id": 17}, 42, "Привет", None, None]
    assert found[3].decode_error == "1 bytes, the type has 4"
    assert [row.text for row in found[1:3]] == ["<int>42</int>", "Ïðèâåò"]
    few = spark.sql("SELECT decode_message(body).format AS f, decode_text(body) AS t FROM rest")
    assert few.collect()[1].asDict() == {"f": "xml", "t": "<int>42</int>"}


ODD = ["x", None, -1, 1 << 40, 1.5, b"\xff", bytearray(b"\xff"), "0x10", float("nan"), [1], {}]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_any_argument_has_an_answer(odd: Any) -> None:
    assert decode_message(b"<a/>", odd, odd, odd, odd, odd) is not None
    assert decode_text(b"<a/>", odd, odd) is not None
    for made in (decode_message(odd), decode_text(odd)):
        assert (made is None) == (odd is None)


# -- VARIANT

NAMES_OF_MEMBERS = st.text(max_size=5).filter(lambda text: not has_lone_surrogate(text))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**45), 10**45)
    | st.floats(allow_nan=False)
    | st.text(max_size=80).filter(lambda text: not has_lone_surrogate(text)),
    lambda inner: (
        st.lists(inner, max_size=8) | st.dictionaries(NAMES_OF_MEMBERS, inner, max_size=8)
    ),
    max_leaves=40,
)


@given(VALUES)
def test_a_variant_is_the_value(value: Any) -> None:
    assert normal(VariantVal(*variant_of(value)).toPython()) == normal(value)


@pytest.mark.parametrize("count", [0, 1, 255, 256, 300, 70_000])
def test_large_variants_are_whole(count: int) -> None:
    """Counts, ids and offsets of one, two and three bytes."""
    for value in ({f"k{at}": at for at in range(count)}, list(range(count)), "x" * count):
        assert VariantVal(*variant_of(value)).toPython() == value


def test_names_of_many_small_objects_are_told_apart() -> None:
    value = [{f"k{at}": at} for at in range(300)]
    assert VariantVal(*variant_of(value)).toPython() == value


def test_numbers_are_decimals_up_to_38_digits() -> None:
    """More than Spark's decimals have is a double."""
    kinds = [VariantVal(*variant_of(number)).toPython() for number in (10**38 - 1, 10**38)]
    assert [type(kind).__name__ for kind in kinds] == ["Decimal", "float"]


def test_members_of_a_variant_are_in_the_order_of_java(spark: SparkSession) -> None:
    """Above 31 members Spark looks for one by halves, in the order of UTF-16."""
    value = {f"{start}{at}": at for at in range(20) for start in ("a", "\U0001f600", "\uffee")}
    frame = spark.createDataFrame([(VariantVal(*variant_of(value)),)], "v variant")
    frame.createOrReplaceTempView("variants")
    got = ", ".join(f"variant_get(v, '$[\"{name}\"]', 'int')" for name in value)
    assert list(spark.sql(f"SELECT {got} FROM variants").collect()[0]) == list(value.values())


# -- much in little


@pytest.mark.parametrize("texts", [False, True])
def test_small_messages_that_hold_much_come_in_pieces(
    texts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of nulls: 30 bytes that are a list of 60,000 items."""
    monkeypatch.setattr(decoded, "PIECE_BYTES", 500_000)
    size = (60_000).to_bytes(4, "little")
    start = bytes.fromhex("0001000000ffffffff0100000000000000")
    body = b"".join((start, b"\x10\x01\0\0\0", size, b"\x0e", size, b"\x0b"))
    count = 20
    batch = pa.RecordBatch.from_pydict(
        {
            "lookup_id": list(range(count)),
            "body": [body] * count,
            "body_type": [768] * count,
            "extension": [b""] * count,
            "label": [""] * count,
            "app_specific": [0] * count,
            "correlation_id": ["0" * 40] * count,
        }
    )
    made = decoded.Decoding(["lookup_id", *DECODED_NAMES], texts)
    pieces = list(made.applied(batch, str))
    assert [number for piece in pieces for number in piece["lookup_id"].to_pylist()] == [
        *range(count)
    ]
    assert len(pieces) > 1
    assert all(piece.num_rows and piece.nbytes < 2_000_000 for piece in pieces)
    nothing = list(made.applied(batch.slice(0, 0), str))
    assert [piece.num_rows for piece in nothing] == [0]
    assert nothing[0].schema == pieces[0].schema
