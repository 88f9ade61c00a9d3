"""The order of a queue against a sorted list."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.order import CHUNK, START, Lane, Order, QueuePosition, QueueRange

# Runs of several chunks, then holes and late comers in them.
STEPS = st.lists(
    st.tuples(st.sampled_from(["run", "late", "take", "front", "again"]), st.integers(0, 1 << 16)),
    max_size=25,
)


def play(steps: list[tuple[str, int]]) -> tuple[Lane, dict[int, int]]:
    """Identifiers that grow by two, so that there is room for late ones between them."""
    lane, model, gone, top = Lane(), dict[int, int](), list[int](), 0
    for action, x in steps:
        ids = sorted(model)
        if action == "run":
            for _ in range(x % (CHUNK + 99)):
                top += 2
                model[top] = top * 10
                lane.insert(top, top * 10)
        elif action == "late" and top and (late := x % top | 1) not in model:
            model[late] = late * 10
            lane.insert(late, late * 10)
        elif action == "take" and ids:
            for lookup_id in ids[x % len(ids) :][: x % 300]:
                gone.append(lookup_id)
                lane.remove(lookup_id)
                del model[lookup_id]
        elif action == "front" and ids:
            for lookup_id in ids[: x % 700]:
                lane.remove(lookup_id)
                del model[lookup_id]
        elif action == "again" and gone and (back := gone[x % len(gone)]) not in model:
            model[back] = back * 10
            lane.insert(back, back * 10)
    return lane, model


@given(STEPS, st.integers(0, 3000))
def test_a_lane_is_a_sorted_list(steps: list[tuple[str, int]], probe: int) -> None:
    lane, model = play(steps)
    entries = sorted(model.items())
    ids = [lookup_id for lookup_id, _ in entries]
    assert lane.count == len(entries)
    assert lane.first() == (entries[0] if entries else None)
    assert list(lane.after(0)) == entries
    assert list(lane.after(probe)) == entries[bisect_right(ids, probe) :]
    assert list(lane.before(probe)) == entries[: bisect_left(ids, probe)][::-1]
    assert lane.number(probe) == model.get(probe, 0)
    copy = Lane()
    copy.load([(i.tobytes(), n.tobytes()) for i, n in lane.share()])
    assert (copy.count, copy.first(), list(copy.after(0))) == (
        lane.count,
        lane.first(),
        entries,
    )
    top = max(ids, default=0) + 1 << 20
    for one in (lane, copy):
        one.insert(top, 1)
        assert list(one.after(0)) == [*entries, (top, 1)]


def test_an_identifier_in_use_is_not_given_again() -> None:
    lane = Lane()
    lane.insert(1, 10)
    lane.insert(2, 20)
    with pytest.raises(AssertionError, match="twice"):
        lane.insert(1, 30)


def test_a_message_taken_out_comes_back_to_its_place() -> None:
    lane = Lane()
    for lookup_id in (1, 2, 3):
        lane.insert(lookup_id, lookup_id)
    lane.remove(2)
    lane.insert(2, 7)
    assert list(lane.after(0)) == [(1, 1), (2, 7), (3, 3)]


def test_chunks_of_unequal_sides_are_refused() -> None:
    with pytest.raises(ValueError, match="unequal"):
        Lane().load([(bytes(16), bytes(8))])


ENTRIES = st.dictionaries(st.integers(1, 60), st.integers(0, 7), max_size=30)


def order_of(entries: dict[int, int]) -> tuple[Order, list[tuple[QueuePosition, int]]]:
    order = Order()
    for lookup_id, priority in entries.items():
        order.lane(priority).insert(lookup_id, lookup_id + 100)
    sorted_ids = sorted(entries, key=lambda i: (-entries[i], i))
    return order, [(QueuePosition(entries[i], i), i + 100) for i in sorted_ids]


@given(ENTRIES, st.integers(0, 7), st.integers(0, 61))
@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/6", "MS-MQDMPR 3.1.7.1.9/7", "MS-MQDMPR 3.1.1.11/8")
def test_queue_order_is_priority_then_identifier(
    entries: dict[int, int], priority: int, lookup_id: int
) -> None:
    order, expected = order_of(entries)
    assert list(order.forward(START)) == expected
    assert list(order.backward()) == expected[::-1]
    place = QueuePosition(priority, lookup_id)
    behind = [e for e in expected if (-e[0].priority, e[0].lookup_id) > (-priority, lookup_id)]
    before = [e for e in expected if (-e[0].priority, e[0].lookup_id) < (-priority, lookup_id)]
    assert list(order.forward(place)) == behind
    assert list(order.backward(place)) == before[::-1]


@given(ENTRIES)
def test_a_message_is_found_by_its_identifier_alone(entries: dict[int, int]) -> None:
    order, _ = order_of(entries)
    for lookup_id in range(62):
        number = lookup_id + 100 if lookup_id in entries else 0
        assert order.number(lookup_id) == (entries.get(lookup_id, 0), number)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40),
    st.lists(st.integers(1, 45), max_size=20)
    | st.builds(lambda a: [*range(a, 45)], st.integers(1, 44)),
)
def test_many_identifiers_are_found_as_each_of_them_is(
    entries: list[tuple[int, bool]], wanted: list[int]
) -> None:
    order = Order()
    for lookup_id, (priority, _) in enumerate(entries, 1):
        order.lane(priority).insert(lookup_id, 100 + lookup_id)
    for lookup_id, (priority, stays) in enumerate(entries, 1):
        if not stays:
            order.lane(priority).remove(lookup_id)
    assert order.numbers(wanted) == [order.number(one)[1] for one in wanted]


@given(
    entries=st.lists(st.integers(0, 7), max_size=60),
    gone=st.sets(st.integers(1, 60)),
    after=st.integers(0, 61),
    width=st.integers(0, 61),
    start=st.integers(0, 61),
)
def test_a_stretch_is_passed_over_both_ways(
    entries: list[int], gone: set[int], after: int, width: int, start: int
) -> None:
    order, stretch = Order(), QueueRange(after, after + width)
    for lookup_id, priority in enumerate(entries, 1):
        order.lane(priority).insert(lookup_id, 100 + lookup_id)
    left = {n: p for n, p in enumerate(entries, 1) if n not in gone}
    for lookup_id in gone & set(range(1, len(entries) + 1)):
        order.lane(entries[lookup_id - 1]).remove(lookup_id)
    here = sorted((-p, n) for n, p in left.items())
    outside = [QueuePosition(-p, n) for p, n in here if not after < n <= after + width]
    assert [place for place, _ in order.forward(without=stretch)] == outside
    assert [place for place, _ in order.backward(without=stretch)] == outside[::-1]
    assert order.available({}, 99, stretch) == [100 + place.lookup_id for place in outside]
    assert order.count_of(stretch) == len(left) - len(outside)
    assert order.first_id() == min(left, default=0)
    assert order.some_after(start, 9) == [(n, 100 + n) for n in sorted(left) if n > start][:9]
