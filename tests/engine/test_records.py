"""The vocabulary of the log: what is packed reads back, and damage raises one thing."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger import records
from posthouse.engine.ledger.records import (
    ARRIVAL_SIZE,
    COLUMN_NAMES,
    COLUMNS,
    ROW,
    ROW_SIZE,
    Change,
    Define,
    End,
    Row,
    Settle,
    Span,
    pack_arrival,
    skim_change,
    unpack_arrival,
    unpack_change,
)
from posthouse.model.errors import RemoteProtocolError
from tests.support.row_strategies import ROWS, U8, U16, U32, U64

SPANS = st.builds(Span, U32, U16, U32, U32, U32, U32)
BLOBS = st.binary(max_size=40)
SETTLES = st.builds(Settle, U64, U8, ROWS, BLOBS)
ENDS = st.builds(End, U64, U8)
DEFINES = st.builds(Define, U8, BLOBS, st.none() | BLOBS)


def change_of(settles: list[Settle], ends: list[End], defines: list[Define]) -> Change:
    change = Change()
    change.settles, change.ends, change.defines = settles, ends, defines
    return change


CHANGES = st.builds(
    change_of,
    st.lists(SETTLES, max_size=4),
    st.lists(ENDS, max_size=4),
    st.lists(DEFINES, max_size=4),
)


def test_a_row_takes_44_bytes_and_every_column_has_a_name() -> None:
    assert (ROW_SIZE, ROW.size) == (44, 44)
    assert len(COLUMN_NAMES) == COLUMNS
    assert len(Row._fields) == len(ROW.unpack(bytes(ROW_SIZE)))


@given(U64, ROWS, SPANS, BLOBS, BLOBS, BLOBS)
def test_an_arrival_reads_back(
    number: int, row: Row, span: Span, sender: bytes, extra: bytes, packet: bytes
) -> None:
    payload = pack_arrival(number, row, span, sender, extra) + packet
    for data in (payload, memoryview(payload)):
        arrival = unpack_arrival(data)
        assert arrival[:5] == (number, row, span, sender, extra)
        assert payload[arrival.packet_at :] == packet


@given(ROWS, BLOBS, BLOBS)
def test_an_arrival_cut_anywhere_in_front_of_its_packet_is_damage(
    row: Row, sender: bytes, extra: bytes
) -> None:
    head = pack_arrival(1, row, Span(), sender, extra)
    for size in range(len(head)):
        with pytest.raises(RemoteProtocolError):
            unpack_arrival(head[:size])
    assert unpack_arrival(head).packet_at == len(head) == ARRIVAL_SIZE + len(sender) + len(extra)


@given(CHANGES)
def test_a_change_reads_back(change: Change) -> None:
    for data in (change.pack(), memoryview(change.pack())):
        again = unpack_change(data)
        assert again.settles == change.settles
        assert again.ends == change.ends
        assert again.defines == change.defines
    assert bool(change) == bool(change.settles or change.ends or change.defines)


@given(CHANGES)
def test_a_skimmed_change_says_what_the_whole_one_does(change: Change) -> None:
    skimmed = skim_change(change.pack())
    assert skimmed.settles == [(settle.number, len(settle.extra)) for settle in change.settles]
    assert skimmed.ends == change.ends
    assert skimmed.defines == change.defines


def test_an_empty_value_is_not_a_deleted_one() -> None:
    change = change_of([], [], [Define(1, b"k", b""), Define(1, b"k", None)])
    assert [define.value for define in unpack_change(change.pack()).defines] == [b"", None]


@given(CHANGES)
def test_a_change_cut_or_followed_by_more_is_damage(change: Change) -> None:
    payload = change.pack()
    for size in range(len(payload)):
        with pytest.raises(RemoteProtocolError):
            unpack_change(payload[:size])
    with pytest.raises(RemoteProtocolError):
        unpack_change(payload + b"\0")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_damage(payload: bytes) -> None:
    for unpack in (unpack_arrival, unpack_change):
        with suppress(RemoteProtocolError):
            unpack(payload)


@given(CHANGES, st.data())
def test_a_change_with_any_byte_altered_is_a_change_or_damage(
    change: Change, data: st.DataObject
) -> None:
    payload = bytearray(change.pack())
    payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        again = unpack_change(bytes(payload))
    except RemoteProtocolError:
        return
    assert unpack_change(again.pack()).ends == again.ends


@pytest.mark.parametrize("place", range(3))
def test_counts_that_promise_what_is_not_there_cost_nothing(place: int) -> None:
    counts = [0, 0, 0]
    counts[place] = 0xFFFFFFFF
    with pytest.raises(RemoteProtocolError, match="cut short"):
        unpack_change(struct.pack("<III", *counts) + bytes(60))


def test_each_table_of_definitions_has_a_number_of_its_own() -> None:
    """Numbers are part of the store's format."""
    tables = {name: value for name, value in vars(records).items() if name.startswith("TABLE_")}
    assert len(set(tables.values())) == len(tables)
