"""What is done for many messages of outgoing queues at once is what is done for each."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.expiry_times import Calendar
from posthouse.engine.ledger.order import Lane
from posthouse.engine.ledger.records import NEVER
from posthouse.engine.ledger.row_columns import Rows
from posthouse.engine.ledger.rows import packed_rows
from posthouse.engine.ledger.state import State
from posthouse.model.message import DeliveryGuarantee
from tests.engine.batches import batch_of
from tests.engine.letters import FAR
from tests.engine.sends import packet_of, transactional_packet
from tests.engine.sessions import SessionRig, places
from tests.support.run_rig import ROW_OF_MANY, contents, told

OTHER = r"DIRECT=OS:CHARLIE\private$\q"
KINDS = st.fixed_dictionaries(
    {
        "priority": st.sampled_from([3, 3, 3, 5]),
        "delivery_guarantee": st.sampled_from(DeliveryGuarantee),
        "time_to_reach_queue": st.sampled_from([60, 60, 60, 90, 0xFFFFFFFF]),
        "positive_journaling_requested": st.sampled_from([False, False, False, True]),
        "body": st.binary(max_size=8),
    }
)
ORDERS = st.lists(st.integers(1, 400), unique=True).map(sorted)


def lane_of(ids: list[int]) -> Lane:
    lane = Lane()
    for lookup_id in ids:
        lane.insert(lookup_id, lookup_id + 1000)
    return lane


@given(ORDERS, st.lists(st.integers(1, 400)), st.integers(0, 401), st.integers(0, 30))
def test_the_next_messages_of_a_lane_are_those_of_a_list(
    ids: list[int], gone: list[int], after: int, count: int
) -> None:
    lane = lane_of(ids)
    for lookup_id in set(gone) & set(ids):
        lane.remove(lookup_id)
    left = [lookup_id for lookup_id in ids if lookup_id not in gone]
    wanted = [lookup_id for lookup_id in left if lookup_id > after][:count]
    assert lane.some_after(after, count) == (wanted, [each + 1000 for each in wanted])
    assert lane.count_up_to(after) == sum(1 for each in left if each <= after)


@given(st.integers(1, 50), st.integers(1, 5000), st.integers(1, 10**6), st.integers(0, 10**6))
def test_a_run_with_time_and_places_is_as_its_messages(
    count: int, seconds: int, number: int, place: int
) -> None:
    row = ROW_OF_MANY._replace(lookup_id=7, expires=seconds, last_move=place)
    runs, singles = State(), State()
    row = row._replace(size=5, ordinal=0)
    batch = batch_of([5] * count, list(range(count)), [row.priority] * count)
    runs.arrive(number, row, b"", packed_rows(row, batch, place), batch.size)
    for at in range(count):
        numbered = place + at if place else 0
        single = row._replace(lookup_id=7 + at, size=5, ordinal=at, last_move=numbered)
        singles.arrive(number + at, single)
    assert contents(runs) == contents(singles)
    assert runs.calendar.dump() == singles.calendar.dump()
    assert runs.calendar.count == count
    rows = runs.table.rows(range(number, number + count))
    runs.end_run(list(range(number, number + count)), Rows.of(rows), 1)
    for at in range(count):
        singles.end(number + at, 1)
    assert contents(runs) == contents(singles)


def test_a_calendar_forgets_runs_of_messages_that_are_gone() -> None:
    calendar = Calendar()
    calendar.add_run(50, range(10_000))
    calendar.add(60, 10_000)
    calendar.left(lambda second, numbers: [n for n in numbers if n >= 10_000], 10_000)
    assert calendar.count == 1
    assert calendar.earliest == 60
    assert calendar.take(NEVER) == [10_000]


@given(st.lists(KINDS, min_size=1, max_size=12), st.booleans())
def test_packets_for_elsewhere_arrive_as_if_sent_one_by_one(
    kinds: list[dict[str, Any]], alike: bool
) -> None:
    if alike:
        kinds = [kinds[0] | {"body": kind["body"]} for kind in kinds]
    packets = [packet_of(**kind) for kind in kinds]
    together, single = SessionRig(), SessionRig()
    out = together.open(FAR)
    together.active.clear()
    together.run(lambda m: m.messages.send_packets(out, packets))
    out = single.open(FAR)
    for packet in packets:
        single.run(lambda m, p=packet: m.messages.send_packets(out, [p]))  # type: ignore[misc]
    for _ in range(2):
        assert told(together) == told(single)
        for rig in (together, single):
            assert rig.active == {rig.outgoing()[0].number}
            rig.restart()
    for rig in (together, single):
        rig.advance(61)
        rig.check_books()
    assert told(together) == told(single)


SENDS = st.lists(
    st.tuples(
        st.sampled_from([FAR, FAR, FAR, OTHER]),
        st.fixed_dictionaries(
            {
                "body": st.binary(max_size=8),
                "time_to_reach_queue": st.sampled_from([60, 60, 90]),
                "negative_journaling_requested": st.sampled_from([False, False, True]),
            }
        ),
        st.integers(1, 6),
    ),
    max_size=6,
)


@given(SENDS, st.booleans())
def test_a_commit_numbers_as_if_its_messages_came_one_by_one(
    sends: list[tuple[str, dict[str, Any], int]], prepare: bool
) -> None:
    # Without a buffer its messages are in the log, pending, before the end: one by one.
    rigs = SessionRig(), SessionRig(transactions_buffer=0)
    found = []
    for rig in rigs:
        for tag in ("one", "two"):
            tx = rig.begin(tag)
            for name, kind, count in sends:
                out, packets = rig.open(name), [transactional_packet(**kind) for _ in range(count)]
                rig.run(lambda m, o=out, p=packets, t=tx: m.messages.send_packets(o, p, t))  # type: ignore[misc]
            if prepare:
                rig.run(
                    lambda m, t=tx: m.transactions.collection.prepare(
                        t.identifier, single_phase=False
                    )
                )  # type: ignore[misc]
            rig.commit(tx)
        rig.check_books()
        rig.restart()
        found.append([[out.packet for out in rig.take(rig.session(name))] for name in (FAR, OTHER)])
    together, single = rigs
    assert contents(together.manager.ledger.state) == contents(single.manager.ledger.state)
    assert found[0] == found[1]
    expected = [*range(1, len(found[0][0]) + 1)]
    assert [number for _, number, _ in places(together.take(together.session()))] == expected
