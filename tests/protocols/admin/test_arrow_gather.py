"""Every column of a gathered batch is what the JSON of the same message says, however odd it is."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.client.constant_columns import completed, is_last
from posthouse.engine.ledger.records import Row
from posthouse.model.errors import QueueError, RemoteProtocolError
from posthouse.model.message import Message, MessageId, TxSequenceId
from posthouse.model.message_columns import BY_NAME
from posthouse.protocols.arrow import record_batches as arrow_gather
from posthouse.protocols.arrow import uniform_packets as arrow_alike
from posthouse.protocols.arrow.columns import chosen, schema_of
from posthouse.protocols.arrow.headers import read_headers
from posthouse.protocols.arrow.packet_columns import OF_ROWS
from posthouse.protocols.arrow.record_batches import Gatherer
from posthouse.protocols.handlers.message_json import message_json
from posthouse.security.sids import ADMINISTRATORS, make_sid
from posthouse.store.bulk import Pinned, Records
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet_fields import summarize
from tests.protocols.admin.arrow_rows import (
    ALL,
    QUEUE,
    Stored,
    gathered,
    one_by_one,
    records_of,
)
from tests.wire.strategies import IDS, SMALL, U8, U16, U32, messages
from tests.wire.vectors import USER_MESSAGES

ID = MessageId(b"i" * 16, 7)
SENDERS = st.sampled_from([b"", ADMINISTRATORS, make_sid(5, 21, 1, 2, 3), b"no sid", b"\x01"])
ROWS = st.builds(
    Row,
    lookup_id=st.integers(1, (1 << 62)),
    queue=st.just(20),
    expires=U32,
    arrived=U32,
    size=U32,
    ordinal=U32,
    last_move=U32,
    message_class=st.sampled_from([0, 0, 0, 0x8003, 0x4000]) | U16,
    aborts=U16,
    moves=U16,
    priority=st.integers(0, 7),
    flags=U8,
    wants=U8,
    doomed=st.just(0),
)
FREE = {
    "ordinal": U32,
    "time_to_be_received": U32 | st.just(0xFFFFFFFF),
    "sent_time": U32,
    "label": st.sampled_from(["", "order 1", "Größe", "\0", "a\0", "\ud800", "名" * 9, "x" * 249]),
    "body": st.binary(max_size=40)
    | st.sampled_from([b"", b"<order/>\r\n", "Größe".encode(), b"a\0"]),
    "extension": SMALL,
    "correlation_identifier": IDS,
    "application_tag": U32,
}


def packet_of(message: Message) -> bytes:
    try:
        return serialize(message)
    except QueueError:
        return serialize(Message())


@st.composite
def families(draw: st.DrawFn) -> list[bytes]:
    """Packets that are alike, or nearly."""
    message = draw(messages() | st.builds(Message))
    packets = [packet_of(message)]
    for _ in range(draw(st.integers(0, 5))):
        changed: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=FREE))
        if "ordinal" in changed:
            changed["identifier"] = MessageId(message.identifier.guid, changed.pop("ordinal"))
        for name, value in changed.items():
            setattr(message, name, value)
        packets.append(packet_of(message))
    return packets


@st.composite
def broken(draw: st.DrawFn) -> list[bytes]:
    """Packets of a family, some with other bytes; those that no door would let in are left out."""
    packets = draw(families() | st.sampled_from([[one] for one in USER_MESSAGES.values()]))
    found = []
    for packet in packets:
        found.append(packet)
        for _ in range(draw(st.integers(0, 4))):
            raw = bytearray(packet)
            for _ in range(draw(st.integers(1, 2))):
                raw[draw(st.integers(0, min(len(raw), 400) - 1))] = draw(U8)
            found.append(bytes(raw))
    return [packet for packet in found if is_let_in(packet)]


def is_let_in(packet: bytes) -> bool:
    try:
        summarize(packet)
    except RemoteProtocolError:
        return False
    return True


def stored(packets: st.SearchStrategy[list[bytes]]) -> st.SearchStrategy[list[Stored]]:
    def each(found: list[bytes]) -> Any:
        return st.tuples(*(st.tuples(st.just(one), ROWS, SENDERS, SMALL) for one in found)).map(
            list
        )

    return packets.flatmap(each)


BATCHES = st.lists(stored(families()) | stored(broken()), min_size=1, max_size=3).map(
    lambda parts: [one for part in parts for one in part]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(BATCHES, min_size=1, max_size=2), st.randoms(use_true_random=False))
def test_every_column_is_what_the_json_says(batches: list[list[Stored]], chance: Any) -> None:
    gatherer = Gatherer(ALL, QUEUE, "ALPHA")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_alike, "_ROWS_MIN", chance.choice([1, 64]))
        patch.setattr(arrow_alike, "_REST", chance.choice([0, 1]))
        for batch in batches:
            order = list(range(len(batch)))
            if chance.random() < 0.5:
                chance.shuffle(order)
            assert gathered(gatherer, batch, order) == one_by_one(batch)


@settings(max_examples=20, deadline=None)
@given(st.lists(BATCHES, min_size=1, max_size=3))
def test_columns_that_are_told_once_are_whole_at_the_other_end(batches: list[list[Stored]]) -> None:
    gatherer = Gatherer(ALL, QUEUE, "ALPHA", constants=True)
    assert told(gatherer, batches) == [row for batch in batches for row in one_by_one(batch)]


def told(gatherer: Gatherer, batches: list[list[Stored]]) -> list[dict[str, Any]]:
    """The rows of an answer, as a client reads it."""
    pieces: list[bytes | memoryview] = [gatherer.schema()]
    for batch in batches:
        pieces += gatherer.gathered(cast(Pinned, Kept(records_of(batch))))
    return answered([*pieces, *gatherer.end()])


def answered(pieces: list[bytes | memoryview]) -> list[dict[str, Any]]:
    answer = pa.BufferReader(b"".join(pieces))
    rows, ended = list[dict[str, Any]](), False
    while not ended:
        with pa.ipc.open_stream(answer) as stream:
            for found in completed(stream):
                found.validate(full=True)
                rows += found.to_pylist()
            ended = is_last(stream.schema)
    assert not answer.read()
    return rows


class Kept(NamedTuple):
    """Records that were read before."""

    records: Records

    def read(self) -> Records:
        return self.records


def test_what_is_the_same_in_every_row_is_sent_once() -> None:
    batch = plain(300)
    once = Gatherer(ALL, QUEUE, "ALPHA", constants=True)
    pieces = [once.gathered(cast(Pinned, Kept(records_of(batch)))) for _ in range(2)]
    first, second = (sum(map(len, some)) for some in pieces)
    every = Gatherer(ALL, QUEUE, "ALPHA").gathered(cast(Pinned, Kept(records_of(batch))))
    assert second < first  # nothing has changed, so nothing is said again
    assert sum(map(len, every)) - second > 300 * len(QUEUE)


@settings(max_examples=40, deadline=None)
@given(st.lists(BATCHES, min_size=1, max_size=2))
def test_columns_of_rows_are_the_same_without_a_packet(batches: list[list[Stored]]) -> None:
    columns = tuple(column for column in ALL if column.name in OF_ROWS)
    gatherer = Gatherer(columns, QUEUE, "ALPHA", constants=True)
    assert not gatherer.needs_packets
    pieces: list[bytes | memoryview] = [gatherer.schema()]
    for batch in batches:
        pieces += gatherer.gathered_of_rows(records_of(batch).rows)
    expected = [
        {column.name: row[column.name] for column in columns}
        for batch in batches
        for row in one_by_one(batch)
    ]
    assert answered([*pieces, *gatherer.end()]) == expected


def test_any_other_column_needs_the_packet() -> None:
    assert len(OF_ROWS) == 11
    for column in ALL:
        needs = Gatherer((BY_NAME["lookup_id"], column), QUEUE, "ALPHA").needs_packets
        assert needs == (column.name not in OF_ROWS)


@pytest.mark.parametrize("names", ["queue", "priority,queue", "lookup_id"])
def test_rows_are_counted_where_all_columns_are_the_same(names: str) -> None:
    gatherer = Gatherer(chosen(names), QUEUE, "ALPHA", constants=True)
    batches = [plain(7), [], plain(5)]
    expected = [
        {name: row[name] for name in names.split(",")}
        for batch in batches
        for row in one_by_one(batch)
    ]
    assert told(gatherer, batches) == expected


def test_headers_that_are_alike_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not looked at one by one, for as long as they stay the same."""
    read = []

    def counted(records: Records, cutter: Any) -> Any:
        read.append(len(records.begins))
        return read_headers(records, cutter)

    monkeypatch.setattr(arrow_alike, "read_headers", counted)
    monkeypatch.setattr(arrow_gather, "read_headers", counted)
    monkeypatch.setattr(arrow_alike, "_REST", 2)
    gatherer = Gatherer(ALL, QUEUE, "ALPHA")
    alike, others = plain(100), plain(100, lambda at: {"body_type": 8})
    mixed = plain(100, lambda at: {"body_type": at % 2})
    numbered = plain(100, in_transactions)
    for batch in (alike, alike, others, others, numbered, mixed, alike, alike, alike):
        assert gathered(gatherer, batch) == one_by_one(batch)
    # One row for each new shape; all rows where they are not alike, and in two batches behind it.
    assert read == [1, 1, 1, 1, 100, 100, 100, 1]


@settings(max_examples=20, deadline=None)
@given(BATCHES, st.lists(st.sampled_from(list(BY_NAME)), min_size=1, max_size=5, unique=True))
def test_some_columns_are_the_same_as_of_all(batch: list[Stored], names: list[str]) -> None:
    columns = chosen(",".join(names))
    rows = gathered(Gatherer(columns, QUEUE, "ALPHA"), batch)
    assert rows == [{name: row[name] for name in names} for row in one_by_one(batch)]


Fields = Callable[[int], dict[str, Any]]


def plain(count: int, fields: Fields = lambda at: {}) -> list[Stored]:
    """Messages as they usually are."""
    stored = list[Stored]()
    for at in range(count):
        row = Row(at + 1, 20, 0, 1_700_000_000 + at, 1, at, 0, 0, 0, 0, 3, 0, 0)
        values = {"label": f"order {at}", "body": b"x" * at, **fields(at)}
        message = Message(identifier=MessageId(b"g" * 16, at), **values)
        stored.append((serialize(message), row, ADMINISTRATORS, b""))
    return stored


def in_transactions(at: int) -> dict[str, Any]:
    """What differs from message to message of sequences."""
    return {
        "delivery_guarantee": 1,
        "priority": 0,
        "transaction_identifier": at,
        "transaction_sequence_number": at,
        "first_in_transaction": at % 2 == 0,
        "transactional_message_sequence_identifier": TxSequenceId(1, at),
    }


@pytest.mark.parametrize(
    "fields",
    [
        lambda at: {},
        lambda at: {"label": "Größe" * (at % 5)},
        lambda at: {
            "destination_queue_type": 7,
            "destination_queue_format_name": r"DIRECT=OS:alpha\private$\orders",
        },
        in_transactions,
        lambda at: {
            "sender_identifier": ADMINISTRATORS,
            "sender_identifier_type": 1,
            "signature": at.to_bytes(64, "big"),
            "sender_certificate": at.to_bytes(500, "big"),
        },
        lambda at: {"symmetric_key": at.to_bytes(128, "big"), "privacy_level": 3},
        lambda at: {"connector_type_identifier": b"c" * 16, "correlation_identifier": ID},
    ],
    ids=["plain", "wide labels", "direct", "transactional", "signed", "encrypted", "connector"],
)
def test_usual_messages_are_not_read_one_by_one(
    fields: Fields, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = plain(300, fields)
    expected = one_by_one(batch)
    read = []

    def counted(*arguments: Any) -> Any:
        read.append(arguments)
        return message_json(*arguments)

    monkeypatch.setattr(arrow_gather, "message_json", counted)
    gatherer = Gatherer(ALL, QUEUE, "ALPHA")
    assert gathered(gatherer, batch) == expected
    assert gathered(gatherer, batch) == expected
    assert len(read) == 1


def test_templates_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_gather, "TEMPLATES_MAX", 5)
    batch = plain(20, lambda at: {"body_type": at})
    gatherer = Gatherer(ALL, QUEUE, "ALPHA")
    for _ in range(3):
        assert gathered(gatherer, batch) == one_by_one(batch)


def test_no_message_at_all_is_an_empty_batch() -> None:
    assert gathered(Gatherer(ALL, QUEUE, "ALPHA"), []) == []


def test_the_schema_is_that_of_the_columns() -> None:
    batch = Gatherer(ALL, QUEUE, "ALPHA").batch(records_of(plain(3)))
    assert batch.schema == schema_of(ALL)


def test_what_a_few_rows_have_in_common_takes_no_more_room_than_they_do() -> None:
    """Senders choose their names; neither end makes thousands of copies of each."""
    names = [rf"DIRECT=OS:{'a' * 200}\private$\{number:0100}" for number in range(20)]
    batches = [
        plain(3, lambda at, to=to: {"response_queue_type": 7, "response_queue_format_name": to})
        for to in names
    ]
    expected = [row for batch in batches for row in one_by_one(batch)]
    before = pa.total_allocated_bytes()
    gatherer = Gatherer(ALL, QUEUE, "ALPHA")
    rows = [row for batch in batches for row in gathered(gatherer, batch)]
    once = Gatherer(ALL, QUEUE, "ALPHA", constants=True)
    assert rows == told(once, batches) == expected
    assert pa.total_allocated_bytes() - before < 8 << 20


def stretched(packet: bytes) -> bytes:
    """A packet whose response queue has the longest name that its header can hold."""
    at = packet.index("OS:alpha".encode("utf-16-le"))
    old, new = int.from_bytes(packet[at - 2 : at], "little"), 0xFFF8  # both of whole words
    name = packet[at : at + old - 2] + (new - old) // 2 * b"x\0" + bytes(2)
    raw = packet[: at - 2] + new.to_bytes(2, "little") + name + packet[at + old :]
    return raw[:8] + len(raw).to_bytes(4, "little") + raw[12:]


def test_templates_keep_no_bodies_and_no_long_names() -> None:
    gatherer = Gatherer(ALL, QUEUE, "ALPHA")
    named = {"response_queue_type": 7, "response_queue_format_name": r"DIRECT=OS:alpha\private$\q"}
    tracemalloc.start()
    try:
        for number in range(16):
            large = {"body": bytes(1 << 20), "extension": bytes(1 << 20), "body_type": number}
            gatherer.batch(records_of(plain(1, lambda at, large=large: large)))
            long = {**named, "body_type": number}
            ((packet, *rest),) = plain(1, lambda at, long=long: long)
            gathered(gatherer, [(stretched(packet), *rest)])
            large.clear()
        assert tracemalloc.get_traced_memory()[0] < 1 << 19
    finally:
        tracemalloc.stop()
