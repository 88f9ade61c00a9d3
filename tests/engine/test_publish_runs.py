"""Messages that are published or dropped as a run fare as they would one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from posthouse.engine.ledger.order import CHUNK
from posthouse.engine.ledger.records import (
    FLAG_FIRST,
    FLAG_LAST,
    FLAG_TRANSACTIONAL,
    KEPT,
    NEVER,
    ROW,
    Change,
    Define,
    Dropped,
    End,
    Publish,
    Row,
    Settle,
    skim_change,
    unpack_change,
)
from posthouse.engine.ledger.state import State
from posthouse.engine.ledger.table import PAGE_ROWS
from posthouse.model.errors import RemoteProtocolError

QUEUE, OTHER, UTC = 16, 17, 2_000
PENDING = Row(0, QUEUE, NEVER, 1_000, 100, 5, 0, 0, 0, 0, 3, FLAG_TRANSACTIONAL, 0)


def contents(state: State) -> tuple[Any, ...]:
    """Everything a state says, however it is laid out."""
    return (
        list(state.table.items()),
        {n: list(q.order.forward()) for n, q in state.queues.items()},
        {n: (q.count, q.bytes, q.books) for n, q in state.queues.items()},
        (state.bytes, state.extras, set(state.pending), state.last_number),
        {s: sorted(memoryview(d).cast("Q")) for s, d in state.calendar.dump().items()},
    )


def staged(number: int, rows: list[Row]) -> State:
    state = State()
    if rows:
        state.arrive_pending(number, b"".join(ROW.pack(*row) for row in rows))
    return state


def one_by_one(state: State, run: Publish) -> None:
    for at in range(run.length):
        old = state.table.get(run.number + at)
        if old is not None and not old.lookup_id:
            row = old._replace(
                lookup_id=run.lookup_id + at,
                arrived=run.arrived,
                last_move=run.place + at if run.place else old.last_move,
                flags=old.flags | run.flags,
            )
            state.settle(run.number + at, KEPT, row, state.extras.get(run.number + at, b""))


ROWS = st.lists(
    st.builds(
        lambda queue, expires, size, ordinal, priority: PENDING._replace(
            queue=queue, expires=expires, size=size, ordinal=ordinal, priority=priority
        ),
        st.sampled_from([QUEUE, QUEUE, QUEUE, OTHER]),
        st.sampled_from([NEVER, NEVER, 3_000, 4_000]),
        st.integers(1, 1 << 22),
        st.integers(1, 0xFFFFFFFF),
        st.sampled_from([3, 3, 3, 7]),
    ),
    min_size=1,
    max_size=30,
)
ALIKE = st.builds(
    lambda count, expires: [PENDING._replace(expires=expires, ordinal=n) for n in range(count)],
    st.sampled_from([1, 2, CHUNK, PAGE_ROWS + 1, 2 * PAGE_ROWS]),
    st.sampled_from([NEVER, 3_000]),
)


@given(
    ROWS | ALIKE,
    st.integers(1, 600),
    st.integers(1, 1 << 40),
    st.sampled_from([0, 1, 77]),
    st.sampled_from([0, FLAG_FIRST, FLAG_FIRST | FLAG_LAST]),
)
def test_a_published_run_is_what_its_messages_are_one_by_one(
    rows: list[Row], number: int, lookup_id: int, place: int, flags: int
) -> None:
    run = Publish(number, len(rows), lookup_id, UTC, place, flags)
    together, singly = staged(number, rows), staged(number, rows)
    together.publish(run)
    one_by_one(singly, run)
    assert contents(together) == contents(singly)
    assert contents(State.load(together.dump())) == contents(together)


@given(ROWS | ALIKE, st.sets(st.integers(0, 40)), st.integers(0, 5))
def test_a_run_says_nothing_of_messages_that_are_gone_or_published(
    rows: list[Row], gone: set[int], later: int
) -> None:
    """As a full replay meets it, whose records of these messages are partly elsewhere."""
    run = Publish(300, len(rows), 50, UTC)
    together, singly = staged(300, rows), staged(300, rows)
    for state in (together, singly):
        for at in gone & set(range(len(rows))):
            state.end(300 + at, KEPT)
        if later < len(rows) and later not in gone:
            moved = rows[later]._replace(lookup_id=9_000, aborts=3)
            state.settle(300 + later, KEPT, moved, b"extra")
    before = together.table.get(300 + later)
    together.publish(run)
    one_by_one(singly, run)
    assert contents(together) == contents(singly)
    if later not in gone and later < len(rows):
        assert together.table.get(300 + later) == before


def test_a_run_that_comes_late_finds_its_place() -> None:
    """Compaction repeats old runs far behind newer messages."""
    state = staged(1, [PENDING] * 3)
    state.arrive(10, PENDING._replace(lookup_id=100))
    state.publish(Publish(1, 3, 50, UTC), counted=False)
    order = [number for _, number in state.queue(QUEUE).order.forward()]
    assert order == [1, 2, 3, 10]
    assert sum(state.queue(QUEUE).books) == 1


@given(ROWS | ALIKE, st.integers(0, 40), st.integers(0, 40))
def test_a_dropped_run_leaves_nothing(rows: list[Row], skipped: int, count: int) -> None:
    together, singly = staged(200, rows), staged(200, rows)
    for state in (together, singly):
        state.extras[200] = b"extra"
    for number in range(200 + skipped, 200 + skipped + count):
        singly.end(number, KEPT)
    together.drop(200 + skipped, count)
    assert contents(together) == contents(singly)
    assert len(together.table) == len(list(together.table.items()))
    together.drop(1, 1000)
    assert not list(together.table.items())
    assert not together.pending
    assert not together.extras


# -- the record

RUNS = st.lists(
    st.builds(
        Publish,
        st.integers(1, 1 << 60),
        st.integers(1, 1 << 30),
        st.integers(1, 1 << 60),
        st.integers(0, 0xFFFFFFFF),
        st.integers(0, 0xFFFFFFFF),
        st.integers(0, 255),
    ),
    max_size=4,
)
DROPS = st.lists(st.builds(Dropped, st.integers(1, 1 << 60), st.integers(1, 1 << 30)), max_size=4)
SETTLES = st.lists(
    st.builds(lambda n, extra: Settle(n, KEPT, PENDING, extra), st.integers(1, 99), st.binary()),
    max_size=3,
)


def change_of(published: list[Publish], dropped: list[Dropped], settles: list[Settle]) -> Change:
    change = Change()
    change.published, change.dropped, change.settles = published, dropped, settles
    change.ends.append(End(4, 1))
    change.defines.append(Define(5, b"key", b"value"))
    return change


@given(RUNS, DROPS, SETTLES)
@example([], [], [])
def test_a_record_with_runs_is_read_back(
    published: list[Publish], dropped: list[Dropped], settles: list[Settle]
) -> None:
    payload = change_of(published, dropped, settles).pack()
    found, skimmed = unpack_change(payload), skim_change(payload)
    assert (found.published, found.dropped) == (published, dropped)
    assert (found.settles, found.ends, len(found.defines)) == (settles, [(4, 1)], 1)
    assert (skimmed.published, skimmed.dropped) == (published, dropped)
    assert skimmed.settles == [(s.number, len(s.extra)) for s in settles]
    assert (skimmed.ends, skimmed.defines) == (found.ends, found.defines)


@given(RUNS, DROPS, st.data())
def test_a_record_cut_short_is_damage(
    published: list[Publish], dropped: list[Dropped], data: st.DataObject
) -> None:
    payload = change_of(published, dropped, []).pack()
    cut = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(RemoteProtocolError):
        unpack_change(payload[:cut])


def test_a_change_without_runs_is_written_as_before() -> None:
    """Stores of older programs are read, and theirs are the same bytes."""
    change = change_of([], [], [Settle(1, KEPT, PENDING, b"")])
    assert change.pack()[:4] == b"\1\0\0\0"


def test_changes_that_join_keep_their_runs() -> None:
    one, other = Change(), Change()
    assert not one
    other.published.append(Publish(1, 2, 3, 4))
    other.dropped.append(Dropped(5, 6))
    one.take(other)
    assert one
    assert unpack_change(one.pack()).published == [Publish(1, 2, 3, 4)]
    assert unpack_change(one.pack()).dropped == [Dropped(5, 6)]


def test_a_checkpoint_of_an_older_program_names_pending_messages_one_by_one() -> None:
    state = staged(5, [PENDING] * 3)
    snapshot = state.snapshot()
    snapshot.pending, snapshot.pending_runs = [5, 6, 7], []
    assert contents(State.from_snapshot(snapshot)) == contents(state)
