"""What a checkpoint shares with the running state stays as it was; the state changes copies."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import example, given
from hypothesis import strategies as st

from posthouse.engine.ledger.order import CHUNK, Lane
from posthouse.engine.ledger.records import RECEIVED, ROW, Row
from posthouse.engine.ledger.row_columns import Rows
from posthouse.engine.ledger.state import State
from posthouse.engine.ledger.table import PAGE_ROWS, MessageTable
from posthouse.store.checkpoint import CheckpointHead, take_picture
from posthouse.store.ledger import StoreLedger
from posthouse.store.positions import PAGE_ENTRIES, Positions

ROWS = 3 * PAGE_ROWS
SOME = Row(7, 16, 0, 0, 100, 1, 0, 0, 0, 0, 3, 0, 0)
NUMBERS = st.integers(1, ROWS)
LENGTHS = st.integers(1, PAGE_ROWS + 9) | st.integers(1, 3)


def unchanged(shares: list[tuple[object, object]]) -> None:
    for shared, copy in shares:
        assert shared == copy


# -- rows

TABLE_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["share", "put", "drop", "add", "put_run", "drop_run", "drop_range"]),
        NUMBERS,
        LENGTHS,
    ),
    max_size=40,
)


@given(TABLE_STEPS)
def test_rows_that_a_checkpoint_shares_stay_as_they_were(steps: list[tuple[str, int, int]]) -> None:
    table, there, shares = MessageTable(), set[int](), list[tuple[object, object]]()
    for at, (action, number, count) in enumerate([("add", 1, 400), ("share", 1, 1), *steps]):
        row = SOME._replace(lookup_id=at + 1)
        run = range(number, number + count)
        if action == "share":
            shared = table.share()
            shares.append((shared, deepcopy(shared)))
        elif action == "put":
            table.put(number, row)
            there.add(number)
        elif action == "drop" and number in there:
            table.drop(number)
            there.discard(number)
        elif action == "add" and not there & set(run):
            table.add(number, ROW.pack(*row) * count)
            there |= set(run)
        elif action == "put_run" and there >= set(run):
            table.put_run(number, ROW.pack(*row) * count)
        elif action == "drop_run":
            table.drop_run(gone := sorted(there & set(run)))
            there -= set(gone)
        elif action == "drop_range":
            table.drop_range(number, count)
            there -= set(run)
        assert table.count == len(there)
    unchanged(shares)
    assert [number for number, _ in table.items()] == sorted(there)


# -- places

PLACE_STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["share", "put", "put_run", "kill", "kill_run", "free", "free_segment", "retain"]
        ),
        st.integers(1, 3 * PAGE_ENTRIES),
        LENGTHS,
        st.integers(1, 4),
    ),
    max_size=40,
)


@given(PLACE_STEPS)
@example([("put", 5, 1, 2), ("share", 1, 1, 1), ("free_segment", 1, 99, 2)])
@example([("put", 5, 1, 2), ("share", 1, 1, 1), ("free", 5, 1, 2)])
@example([("put", 5, 1, 2), ("share", 1, 1, 1), ("retain", 1, 1, 2)])
def test_places_that_a_checkpoint_shares_stay_as_they_were(
    steps: list[tuple[str, int, int, int]],
) -> None:
    shared, alone = Positions(), Positions()  # the second one is never shared
    shares = list[tuple[object, object]]()
    for action, number, count, segment in [("put_run", 1, 700, 1), ("share", 1, 1, 1), *steps]:
        if action == "share":
            taken = shared.share()
            shares.append((taken, deepcopy(taken)))
        for positions in (shared, alone):
            if action == "put":
                positions.put(number, segment, 7 * number, 100)
            elif action == "put_run":
                offsets = list(range(50, 50 + 10 * count, 10))
                numbers = list(range(number, number + count))
                positions.put_run(numbers, segment, offsets, offsets[-1] + 10)
            elif action == "kill":
                positions.kill(number)
            elif action == "kill_run":
                positions.kill_run(number, min(count, PAGE_ENTRIES - number % PAGE_ENTRIES))
            elif action == "free":
                positions.free(number, segment)
            elif action == "free_segment":
                positions.free_segment(segment, count)
            elif action == "retain":
                positions.retain({1, 2, 3, 4} - {segment})
    unchanged(shares)
    assert shared.share() == alone.share()


# -- the order of a queue

LANE_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["share", "insert", "insert_run", "late", "remove", "remove_run"]),
        st.integers(0, 1 << 16),
        st.integers(1, CHUNK + 9) | st.integers(1, 3),
    ),
    max_size=40,
)


@given(LANE_STEPS)
def test_the_order_that_a_checkpoint_shares_stays_as_it_was(
    steps: list[tuple[str, int, int]],
) -> None:
    lane, model, top = Lane(), dict[int, int](), 0
    shares = list[tuple[object, object]]()
    for action, x, count in [("insert_run", 1, 700), ("share", 1, 1), *steps]:
        ids = sorted(model)
        if action == "share":
            shared = lane.share()
            shares.append((shared, deepcopy(shared)))
        elif action == "insert":
            top += 2  # room for late ones
            lane.insert(top, 10 * top)
            model[top] = 10 * top
        elif action == "insert_run":
            lane.insert_run(top + 2, 1 + 10 * top, count)
            model |= {top + 2 + at: 1 + 10 * top + at for at in range(count)}
            top += count + 1
        elif action == "late" and (late := 1 + x % (top or 1)) not in model and late <= top:
            lane.insert(late, x + 1)
            model[late] = x + 1
        elif action == "remove" and ids:
            lane.remove(gone := ids[x % len(ids)])
            del model[gone]
        elif action == "remove_run" and ids:
            begin = x % len(ids)
            lane.remove_run(ids[begin : begin + count])
            for gone in ids[begin : begin + count]:
                del model[gone]
    unchanged(shares)
    assert list(lane.after(0)) == sorted(model.items())


# -- all of it

MANY = 200_000
CHANGED = 5_000  # messages of one step of an acknowledgment


def test_a_checkpoint_of_many_messages_holds_what_has_changed_and_no_copy_of_the_rest() -> None:
    """An archive that receives a million messages took 148 MiB, since a checkpoint had copies."""
    state, ledger = State(), StoreLedger()
    row = SOME._replace(lookup_id=1)
    rows = b"".join([ROW.pack(*row._replace(lookup_id=1 + at)) for at in range(MANY)])
    state.arrive(1, row, b"", rows, 100 * MANY)
    offsets = list(range(64, 64 + 100 * MANY, 100))
    ledger.positions.put_run(list(range(1, 1 + MANY)), 1, offsets, offsets[-1] + 100)

    taken = take_picture(state, ledger, CheckpointHead(1, 2, 3, bytes(16)))
    before = list(taken.frames())
    assert sum(map(len, before)) > 72 * MANY
    assert max(map(len, before)) < 2 << 20  # nor is any of it put together in one piece

    gone = list(range(1, 1 + CHANGED))
    state.end_run(gone, Rows.of(state.table.rows(gone)), RECEIVED)
    for number in gone:
        ledger.positions.kill(number)
    again = take_picture(state, ledger, CheckpointHead(1, 2, 4, bytes(16)))
    most = CHANGED // PAGE_ROWS + 2
    assert _not_shared(taken.state.pages, again.state.pages) <= most
    assert _not_shared(taken.places, again.places) <= most
    chunks = [{id(ids) for ids, _ in one.state.lanes[16][3]} for one in (taken, again)]
    assert len(chunks[0] - chunks[1]) <= CHANGED // CHUNK + 2
    assert list(taken.frames()) == before


def _not_shared(one: dict[int, bytearray], other: dict[int, bytearray]) -> int:
    """Pages that one has, and that are not the other's."""
    return len([index for index, page in one.items() if other.get(index) is not page])
