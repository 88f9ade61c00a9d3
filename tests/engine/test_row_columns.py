"""Packed rows: their columns are the fields of each row, and readers get what each row holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.effects import READ_IN_DOUBT, Reads, read_of_row
from posthouse.engine.ledger.records import FLAG_EXPRESS, NEVER, Row
from posthouse.engine.ledger.row_columns import (
    ARRIVED_WORD,
    EXPIRES_WORD,
    ORDINAL_WORD,
    QUEUE_WORD,
    SIZE_WORD,
    Rows,
)
from posthouse.engine.ledger.table import PAGE_ROWS, MessageTable
from posthouse.protocols.engine_calls import Answer
from posthouse.protocols.sessions.reads import encode_reads

U8, U16, U32 = st.integers(0, 255), st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF)
FEW = st.sampled_from([0, 0, 0, 1, 3])
ROWS = st.lists(
    st.builds(
        Row,
        lookup_id=st.integers(1, (1 << 64) - 1),
        queue=st.integers(1, 0xFFFFFFFF),
        expires=st.sampled_from([NEVER, NEVER, 5]),
        arrived=U32,
        size=U32,
        ordinal=U32,
        last_move=U32,
        message_class=U16,
        aborts=U16,
        moves=st.sampled_from([0, 0, 1, 256]),
        priority=FEW,
        flags=U8,
        wants=FEW,
        doomed=FEW,
    ),
    min_size=1,
    max_size=20,
)


@given(ROWS)
def test_a_column_has_the_field_of_each_row(rows: list[Row]) -> None:
    packed = Rows.of(rows)
    assert Rows.of(packed) is packed
    assert (list(packed), len(packed)) == (rows, len(rows))
    assert [packed[at] for at in range(-len(rows), len(rows))] == rows * 2
    assert list(packed[1:3]) == rows[1:3]
    assert packed.lookup_ids == [row.lookup_id for row in rows]
    assert list(packed.priorities) == [row.priority for row in rows]
    assert packed.are_of_one_priority is (len({row.priority for row in rows}) == 1)
    assert list(packed.express) == [row.flags & FLAG_EXPRESS for row in rows]
    assert list(packed.last_moves) == [row.last_move if row.moves else 0 for row in rows]
    asked = [row for row in rows if row.wants or row.expires != NEVER]
    assert packed.want_nothing is (not asked)
    for word, field in (
        (QUEUE_WORD, "queue"),
        (EXPIRES_WORD, "expires"),
        (ARRIVED_WORD, "arrived"),
        (SIZE_WORD, "size"),
        (ORDINAL_WORD, "ordinal"),
    ):
        assert list(packed.word(word)) == [getattr(row, field) for row in rows]


@given(ROWS, st.data())
def test_rows_are_gathered_in_the_order_asked_for(rows: list[Row], data: st.DataObject) -> None:
    table, first = MessageTable(), PAGE_ROWS - 3
    for number, row in enumerate(rows, first):
        table.put(number, row)
    numbers = [*range(first, first + len(rows))]
    for wanted in (numbers, data.draw(st.lists(st.sampled_from(numbers))), []):
        assert list(table.gather(wanted)) == table.rows(wanted)


@given(ROWS, st.data())
def test_readers_of_several_get_what_each_row_holds(rows: list[Row], data: st.DataObject) -> None:
    """By column or one by one: a session writes both as the same frame."""
    numbers = [*range(7, 7 + len(rows))]
    senders = [data.draw(st.sampled_from([b"", b"", b"S-1-5"])) for _ in rows]
    in_doubt = frozenset(data.draw(st.lists(st.sampled_from(numbers))))
    packets = tuple([bytes([at % 256]) * at for at, _ in enumerate(rows)])
    reads = Reads(numbers, Rows.of(rows), senders, in_doubt)
    alone = [
        read._replace(flags=read.flags | READ_IN_DOUBT) if read.number in in_doubt else read
        for read in map(read_of_row, numbers, rows, senders)
    ]
    assert reads == alone
    assert [reads[at] for at in range(len(rows))] == alone
    assert reads[:2] == alone[:2]
    whole = [b"".join(encode_reads(9, Answer(each, None, packets))) for each in (reads, alone)]
    assert whole[0] == whole[1]
