"""Rows become the packets and rows that the messages would have that were sent one by one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from posthouse.engine.ledger.records import (
    FLAG_TRANSACTIONAL,
    NEVER,
    WANT_ARRIVAL,
    WANT_JOURNAL,
    Span,
    unpack_arrival,
)
from posthouse.engine.ledger.rows import flags_of, wants_of
from posthouse.engine.ledger.rows import row_of as row_seen
from posthouse.engine.pipelines.stage import ASKING, TRANSACTIONAL, StagedRun, StageTarget
from posthouse.model.errors import InvalidParameter
from posthouse.model.message import (
    INFINITE,
    DeliveryGuarantee,
    Message,
    MessageId,
    TxSequenceId,
    ack_bits,
    journal_bits,
    limited_time_to_reach_queue,
)
from posthouse.protocols.arrow.stages import rows as stage_rows
from posthouse.protocols.arrow.stages.columns import check_schema
from posthouse.protocols.handlers.message_json import format_name
from posthouse.protocols.handlers.refusals import BadRequest, BadRow
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet_fields import summarize
from tests.protocols.admin.stage_tables import (
    AWAY,
    BOOKS,
    MAKER,
    ORDERS,
    TARGETS,
    TYPES,
    table,
)

NUMBER = 1000
NAMES = (
    None,
    "",
    ".\\private$\\answers",
    "DIRECT=OS:GAMMA\\private$\\x",
    "PUBLIC=11111111-1111-1111-1111-111111111111",
)
U32 = st.integers(0, 0xFFFFFFFF)
ROWS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"body": st.binary(max_size=30), "destination": st.sampled_from([*TARGETS, None])},
    optional={
        "label": st.none()
        | st.sampled_from(["", "order", "Größe", "名" * 9, "x" * 249, "😀" * 124]),
        "priority": st.none() | st.integers(0, 7),
        "correlation_id": st.none()
        | st.just("")
        | st.binary(min_size=20, max_size=20).map(bytes.hex),
        "delivery": st.sampled_from([None, "", "recoverable", "transactional"]),
        "response_queue": st.sampled_from(NAMES),
        "admin_queue": st.sampled_from(NAMES),
        "acknowledge": st.none()
        | st.lists(st.sampled_from(["pos-arrival", "neg-receive", "pos-receive"]), unique=True),
        "journal": st.none() | st.lists(st.sampled_from(["positive", "negative"]), unique=True),
        "app_specific": st.none() | U32,
        "body_type": st.none() | U32,
        "extension": st.none() | st.binary(max_size=9),
        "time_to_reach_queue": st.none() | U32,
        "time_to_be_received": st.none() | U32,
    },
)


def expected(row: dict[str, Any], ordinal: int) -> tuple[Message, StageTarget]:
    """The message that a row is."""
    target = TARGETS[row.get("destination") or ORDERS]
    journal = journal_bits(row.get("journal") or ())
    message = Message(
        body=row["body"],
        label=row.get("label") or "",
        priority=3 if row.get("priority") is None else row["priority"],
        delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
        acknowledgements_requested=ack_bits(row.get("acknowledge") or ()),
        positive_journaling_requested=bool(journal & journal_bits(["positive"])),
        negative_journaling_requested=bool(journal & journal_bits(["negative"])),
        administration_queue_format_name=format_name(row.get("admin_queue") or "", "ALPHA"),
        response_queue_format_name=format_name(row.get("response_queue") or "", "ALPHA"),
        application_tag=row.get("app_specific") or 0,
        body_type=row.get("body_type") or 0,
        extension=row.get("extension") or b"",
    )
    if row.get("correlation_id"):
        correlation = bytes.fromhex(row["correlation_id"])
        message.correlation_identifier = MessageId.unpack(correlation)
    if row.get("time_to_reach_queue") is not None:
        message.time_to_reach_queue = row["time_to_reach_queue"]
    limit = MAKER.time_to_reach_queue_max
    message.time_to_reach_queue = limited_time_to_reach_queue(message.time_to_reach_queue, limit)
    if row.get("time_to_be_received") is not None:
        message.time_to_be_received = row["time_to_be_received"]
    message.identifier = MessageId(MAKER.guid, ordinal)
    message.source_machine_identifier = MAKER.guid
    message.sent_time = MAKER.utc
    message.destination_queue_format_name = target.format_name
    wished = row.get("delivery") == "transactional"
    if wished if target.outgoing else target.transactional:
        message.transaction_identifier = MAKER.transaction_number
        message.transactional_message_sequence_identifier = TxSequenceId(0, 0)
    return message, target


def made(batch: pa.RecordBatch, base: int = 0) -> list[StagedRun]:
    runs, number = list[StagedRun](), NUMBER
    for portion in stage_rows.portions(batch, ORDERS, base):
        ordinals = [7 * n for n in range(number, number + portion.count)]
        runs += portion.runs(MAKER, TARGETS, number, ordinals)
        number += portion.count
    return runs


@given(st.lists(ROWS, min_size=1, max_size=12))
@example([{"body": b""}])
@example([{"body": b"x" * n, "destination": None} for n in range(9)])
def test_every_row_is_the_message_that_would_have_been_sent(rows: list[dict[str, Any]]) -> None:
    runs = made(table(rows))
    assert [run.number for run in runs] == sorted(run.number for run in runs)
    numbers = [record[1] for run in runs for record in run.records]
    assert numbers == list(range(NUMBER, NUMBER + len(rows)))
    assert len({lane_of(run) for run in runs}) == len(runs)
    for run in runs:
        sent = [row for row in rows if lane_of_row(row) == lane_of(run)]
        check_run(run, sent)


def lane_of(run: StagedRun) -> tuple[int, bool, int]:
    """What a run is of: a queue, transactional or not, and a priority there."""
    row = unpack_arrival(run.records[0][2]).row
    return row.queue, bool(row.flags & FLAG_TRANSACTIONAL), row.priority


def lane_of_row(row: dict[str, Any]) -> tuple[int, bool, int]:
    message, target = expected(row, 1)
    transactional = message.transactional_message_sequence_identifier is not None
    return target.queue, transactional, 0 if transactional else message.priority


def check_run(run: StagedRun, sent: list[dict[str, Any]]) -> None:
    """The messages of a run are those of these rows, in their order."""
    kind = 0
    for row, record in zip(sent, run.records, strict=True):
        kind |= check_record(run, record, row)
    assert run.kind == kind
    assert run.size == sum(len(one[3]) for one in run.records)


def check_record(run: StagedRun, record: Any, sent: dict[str, Any]) -> int:
    """A record is that of a row; what there is to look at when it is published."""
    kind, number, head, packet = record
    assert kind == 1
    message, target = expected(sent, 7 * number)
    assert (target.queue, packet) == (run.queue, serialize(message))
    seen, arrival = summarize(packet), unpack_arrival(head + packet)
    expires = NEVER
    if seen.time_to_be_received != INFINITE:
        expires = min(MAKER.utc + seen.time_to_be_received, NEVER)
    if target.outgoing and seen.time_to_reach_queue != INFINITE:
        expires = min(expires, MAKER.utc + seen.time_to_reach_queue + 1)
    row = row_seen(seen, target.queue, MAKER.utc, expires, flags_of(seen, 0), wants_of(seen))
    assert (arrival.number, arrival.row, arrival.span) == (number, row, Span(*seen.span))
    assert (arrival.sender, arrival.extra) == (MAKER.sender, b"")
    at = 44 * (number - run.number)
    assert run.rows[at : at + 44] == head[8:52]
    asks = row.wants & (WANT_ARRIVAL | WANT_JOURNAL) and not target.outgoing
    return (TRANSACTIONAL if row.flags & FLAG_TRANSACTIONAL else 0) | (ASKING if asks else 0)


def bodies_of(run: StagedRun) -> list[bytes]:
    packets = [record[3] for record in run.records]
    return [p[(s := summarize(p)).body_at : s.body_at + s.body_size] for p in packets]


def test_rows_of_one_queue_and_priority_keep_their_order() -> None:
    names = [ORDERS, BOOKS, AWAY, None]
    rows = [
        {"body": b"%03d" % n, "destination": names[n % 4], "priority": n % 2} for n in range(80)
    ]
    for run in made(table(rows)):
        assert bodies_of(run) == sorted(bodies_of(run))


@pytest.mark.parametrize("queue", [ORDERS, BOOKS, AWAY])
@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("response_queue", [".\\private$\\a", None, ".\\private$\\b"]),
        ("admin_queue", [".\\private$\\a", ".\\private$\\b"]),
        ("acknowledge", [["pos-arrival"], None, ["neg-receive"]]),
        ("journal", [["positive"], [], ["negative"]]),
        ("time_to_reach_queue", [None, 5, 7]),
        ("time_to_be_received", [9, None, 7]),
        ("body_type", [1, 2, None]),
    ],
)
def test_rows_that_are_sent_in_different_ways_keep_their_order(
    queue: str, column: str, values: list[Any]
) -> None:
    common = {"destination": queue, "admin_queue": ".\\private$\\a"}
    rows = [{**common, "body": b"%03d" % n, column: values[n % len(values)]} for n in range(60)]
    (run,) = made(table(rows))
    assert bodies_of(run) == [row["body"] for row in rows]
    check_run(run, rows)


def test_priorities_do_not_matter_to_the_order_of_a_transactional_queue() -> None:
    rows = [{"body": b"%03d" % n, "destination": BOOKS, "priority": n * 5 % 8} for n in range(60)]
    (run,) = made(table(rows))
    assert bodies_of(run) == [row["body"] for row in rows]


def test_names_of_the_same_queue_make_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    alias = "DIRECT=TCP:127.0.0.1\\private$\\orders"
    monkeypatch.setitem(TARGETS, alias, TARGETS[ORDERS])
    rows = [{"body": b"%03d" % n, "destination": (ORDERS, alias)[n % 2]} for n in range(9)]
    (run,) = made(table(rows))
    assert bodies_of(run) == [row["body"] for row in rows]


def test_portions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_rows, "PORTION_ROWS", 10)
    rows = [{"body": b"x" * 10} for _ in range(95)]
    assert [p.count for p in stage_rows.portions(table(rows), ORDERS, 0)] == [10] * 9 + [5]
    monkeypatch.setattr(stage_rows, "PORTION_BYTES", 100)
    assert max(p.count for p in stage_rows.portions(table(rows), ORDERS, 0)) <= 7
    assert list(stage_rows.portions(table([], "body"), ORDERS, 0)) == []


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.string(), pa.large_string()])
def test_bodies_may_be_texts_and_large(kind: pa.DataType) -> None:
    values = ["a", "", "Größe"] if kind in (pa.string(), pa.large_string()) else [b"a", b"", b"\0"]
    batch = pa.record_batch([pa.array(values, kind)], names=["body"])
    wanted = [v.encode() if isinstance(v, str) else v for v in values]
    (run,) = made(batch)
    packets = [record[3] for record in run.records]
    assert [p[(s := summarize(p)).body_at : s.body_at + s.body_size] for p in packets] == wanted


def test_identifiers_that_rows_bring_are_kept() -> None:
    guid = "00112233-4455-6677-8899-aabbccddeeff"
    rows = [
        {"body": b"a", "id": f"{guid}\\5"},
        {"body": b"b", "id": None},
        {"body": b"c", "id": ""},
    ]
    (run,) = made(table(rows))
    seen = [summarize(record[3]) for record in run.records]
    assert seen[0].ordinal == 5
    assert str(MessageId(seen[0].source_guid, 5)) == f"{guid}\\5"
    assert [one.ordinal for one in seen[1:]] == [7 * 1001, 7 * 1002]
    assert {one.source_guid for one in seen[1:]} == {MAKER.guid}
    assert [unpack_arrival(r[2]).row.ordinal for r in run.records] == [5, 7007, 7014]


# -- refusals


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("destination", "no such form=", "does not begin"),
        ("priority", 8, "0 to 7"),
        ("priority", -1, "0 to 7"),
        ("delivery", "express", "crash"),
        ("delivery", "pigeon", "not a kind of delivery"),
        ("response_queue", "x=", ""),
        ("admin_queue", "x=", ""),
        ("acknowledge", ["often"], "acknowledgment"),
        ("acknowledge", [None], "null"),
        ("journal", ["sometimes"], "journaling"),
        ("time_to_reach_queue", -1, "seconds"),
        ("time_to_be_received", 1 << 32, "seconds"),
        ("app_specific", -1, "app_specific is -1"),
        ("app_specific", 1 << 32, "allowed is 0 to"),
        ("body_type", 1 << 40, "body_type"),
        ("correlation_id", "abc", "40 hexadecimal"),
        ("correlation_id", "zz" * 20, "40 hexadecimal"),
        ("correlation_id", "a " * 20, "40 hexadecimal"),
        ("label", "x" * 250, "249"),
        ("label", "a\0b", "NUL"),
        ("body", None, "null"),
        ("body", bytes((4 << 20) + 1), "a packet holds at most"),
        ("id", "nobody", ""),
    ],
)
def test_a_row_that_cannot_be_a_message_is_named_with_its_column(
    column: str, value: Any, words: str
) -> None:
    rows = [{"body": b"good", "destination": ORDERS} for _ in range(9)]
    rows[6] = {**rows[6], column: value}
    with pytest.raises(BadRow) as refused:
        made(table(rows, "destination", "body", *{column} - {"body", "destination"}), base=100)
    assert (refused.value.row, refused.value.column) == (106, column)
    assert words in refused.value.cause
    assert refused.value.http_status == 400


def test_a_row_without_a_destination_is_refused_where_there_is_none_for_all() -> None:
    rows = [{"body": b"a", "destination": ORDERS}, {"body": b"b", "destination": None}]
    with pytest.raises(BadRow) as refused:
        list(stage_rows.portions(table(rows), "", 0))
    assert (refused.value.row, refused.value.column) == (1, "destination")


def test_identifiers_do_not_travel() -> None:
    rows = [{"body": b"a", "destination": AWAY, "id": "00112233-4455-6677-8899-aabbccddeeff\\5"}]
    with pytest.raises(BadRow, match="new identifiers"):
        made(table(rows))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ([("bodi", pa.binary())], "Did you mean body"),
        ([("body", pa.binary()), ("zzzzzzzz", pa.string())], "There are destination"),
        ([("body", pa.int64())], "not binary"),
        ([("body", pa.binary()), ("priority", pa.string())], "not whole numbers"),
        ([("body", pa.binary()), ("label", pa.binary())], "not text"),
        ([("body", pa.binary()), ("journal", pa.list_(pa.int64()))], "not a list of texts"),
        ([("label", pa.string())], "body is missing"),
        ([("body", pa.binary()), ("body", pa.binary())], "twice"),
    ],
)
def test_columns_that_no_message_has_are_refused(
    fields: list[tuple[str, pa.DataType]], words: str
) -> None:
    with pytest.raises(InvalidParameter) as refused:
        check_schema(pa.schema(fields))
    assert words in str(refused.value)


def test_columns_of_nulls_say_nothing() -> None:
    batch = table([{"body": b"a"}], *TYPES)
    check_schema(pa.schema([*batch.schema, pa.field("x", pa.null())][:-1]))
    (run,) = made(batch)
    assert run.records[0][3] == serialize(expected({"body": b"a"}, 7000)[0])


@given(st.binary(max_size=200), st.integers(0, 120))
def test_bytes_that_are_no_batch_are_refused(data: bytes, kept: int) -> None:
    batch = table([{"body": b"a" * 20, "label": "x"}] * 3)
    whole = batch.serialize().to_pybytes()
    with suppress(BadRequest):
        stage_rows.read_batch(whole[:kept] + data, batch.schema)
    with suppress(BadRequest, InvalidParameter):
        stage_rows.read_schema(data)


def test_offsets_out_of_their_buffer_are_refused() -> None:
    """The buffers of a batch come from outside: none is believed."""
    batch = table([{"body": b"abcd"}, {"body": b"efgh"}])
    data = bytearray(batch.serialize().to_pybytes())
    at = data.rindex((4).to_bytes(4, "little") + (8).to_bytes(4, "little"))
    data[at + 4 : at + 8] = (1 << 30).to_bytes(4, "little")
    with pytest.raises(BadRequest, match="not sound"):
        stage_rows.read_batch(bytes(data), batch.schema)


def test_refused_queues_are_named_with_the_first_row_that_names_them() -> None:
    rows = [{"body": b"a", "destination": name} for name in (ORDERS, BOOKS, BOOKS)]
    (portion,) = stage_rows.portions(table(rows), "", 40)
    assert set(portion.destinations) == {ORDERS, BOOKS}
    found = portion.refused(InvalidParameter("no"), destination=BOOKS)
    assert (found.row, found.column, found.code) == (41, "destination", InvalidParameter.code)
    rows = [{"body": b"a", "acknowledge": ["pos-arrival"], "admin_queue": ".\\private$\\a"}]
    (portion,) = stage_rows.portions(table(rows), ORDERS, 0)
    assert portion.answer_queues == [".\\private$\\a"]
    assert portion.refused(InvalidParameter("no"), answers=".\\private$\\a").column == "admin_queue"
