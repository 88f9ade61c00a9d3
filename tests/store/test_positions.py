"""Where messages lie: small, exact, and freed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.store.positions import PAGE_ENTRIES, LogPosition, Positions

numbers = st.integers(1, 3 * PAGE_ENTRIES)
segments = st.integers(1, 4)
steps = st.one_of(
    st.tuples(st.just("put"), numbers, segments),
    st.tuples(st.just("kill"), numbers, segments),
    st.tuples(st.just("free"), numbers, segments),
)


@given(st.lists(steps, max_size=80))
def test_positions_do_what_a_dictionary_does(script: list[tuple[str, int, int]]) -> None:
    positions, model = Positions(), dict[int, LogPosition]()
    for what, number, segment in script:
        place = model.get(number)
        if what == "put":
            positions.put(number, segment, 7 * number, 100 + number)
            model[number] = LogPosition(segment, 7 * number, 100 + number, False)
        elif what == "kill":
            alive = place is not None and not place.dead
            killed = positions.kill(number)
            assert killed == ((place.segment, place.size) if place and alive else None)
            if place:
                model[number] = place._replace(dead=True)
        else:
            positions.free(number, segment)
            if place and place.segment == segment:
                del model[number]
    for number in range(3 * PAGE_ENTRIES + 1):
        assert positions.get(number) == model.get(number)
    again = Positions.load(positions.share())
    assert all(again.get(n) == model.get(n) for n in range(3 * PAGE_ENTRIES + 1))


@given(
    st.lists(numbers, min_size=1, max_size=9)
    | st.builds(lambda a, n: [*range(a, a + n)], numbers, numbers),
    segments,
)
def test_records_in_a_row_are_put_as_each_of_them_is(many: list[int], segment: int) -> None:
    runs, singles = Positions(), Positions()
    offsets = [40 + 100 * at + many[0] for at in range(len(many))]
    end = offsets[-1] + 77
    runs.put_run(many, segment, offsets, end)
    for number, at, behind in zip(many, offsets, [*offsets[1:], end], strict=True):
        singles.put(number, segment, at, behind - at)
    assert runs.share() == singles.share()


@given(
    st.lists(st.tuples(numbers, segments), max_size=9),
    st.lists(numbers, max_size=5),
    st.lists(numbers, max_size=9)
    | st.builds(lambda a, n: [*range(a, a + n)], numbers, st.integers(1, PAGE_ENTRIES)),
)
def test_several_are_found_as_each_of_them_is(
    elsewhere: list[tuple[int, int]], dead: list[int], wanted: list[int]
) -> None:
    positions = Positions()
    positions.put_run([*range(200, 500)], 1, [*range(100, 400)], 400)
    for number, segment in elsewhere:
        positions.put(number, segment, 7, 8)
    for number in dead:
        positions.kill(number)
    alone = [positions.get(number) for number in wanted]
    found = list(zip(*positions.columns(wanted), strict=True))
    assert found == [(0, 0, 0) if place is None else place[:3] for place in alone]


@given(st.lists(st.tuples(numbers, segments), max_size=3), numbers, numbers, numbers, numbers)
def test_messages_in_a_row_are_in_a_segment_if_each_of_them_is(
    elsewhere: list[tuple[int, int]], start: int, count: int, first: int, last: int
) -> None:
    positions = Positions()
    positions.put_run([*range(start, start + count)], 1, [*range(100, 100 + count)], 100 + count)
    for number, segment in elsewhere:
        positions.put(number, segment, 7, 8)
    places = [positions.get(number) for number in range(first, last + 1)]
    inside = bool(places) and all(place and place.segment == 1 for place in places)
    assert positions.are_in(1, first, last) == inside


@given(
    st.lists(st.tuples(numbers, segments), max_size=6),
    st.lists(numbers, max_size=4),
    st.integers(0, PAGE_ENTRIES - 1),
    st.integers(1, PAGE_ENTRIES),
)
def test_messages_in_a_row_die_as_each_of_them_does(
    elsewhere: list[tuple[int, int]], dead: list[int], first: int, count: int
) -> None:
    runs, singles = Positions(), Positions()
    count = min(count, PAGE_ENTRIES - first)
    for positions in (runs, singles):
        for number in range(20, PAGE_ENTRIES):
            positions.put(number, 1, 7 * number, 100 + number)
        for number, segment in elsewhere:
            positions.put(number, segment, 3, 50)
        for number in dead:
            positions.kill(number)
    before = runs.share()
    killed = runs.kill_run(first, count)
    if killed is None:
        assert runs.share() == before
        places = [singles.get(number) for number in range(first, first + count)]
        assert None in places or len({(p.segment, p.dead) for p in places if p}) > 1 or dead
        return
    ones = [singles.kill(number) for number in range(first, first + count)]
    assert {one[0] for one in ones if one} == {killed[0]}
    assert sum(one[1] for one in ones if one) == killed[1]
    assert None not in ones
    assert runs.share() == singles.share()


@given(st.lists(st.tuples(numbers, segments), max_size=60), st.integers(0, 3), st.booleans())
def test_a_segment_is_freed_as_each_of_its_places_is(
    places: list[tuple[int, int]], full: int, reloaded: bool
) -> None:
    together, singles = Positions(), Positions()
    for positions in (together, singles):
        if full:
            many = list(range(full * PAGE_ENTRIES))
            offsets = [3 + 50 * number for number in many]
            positions.put_run(many, 2, offsets, offsets[-1] + 50)
        for number, segment in places:
            positions.put(number, segment, 3, 50)
    if reloaded:
        together = Positions.load(together.share())
    while not together.free_segment(2, 1):
        pass
    for number in range(3 * PAGE_ENTRIES + 1):
        singles.free(number, 2)
    assert together.share() == singles.share()
    assert together.free_segment(2, 1)


def test_a_place_takes_twelve_bytes_and_an_empty_page_none() -> None:
    positions = Positions()
    for number in range(PAGE_ENTRIES):
        positions.put(number, 1, 0, 50)
    assert [len(page) for page in positions.share().values()] == [12 * PAGE_ENTRIES]
    assert positions.free_segment(1, 9)
    assert positions.share() == {}


def test_a_dead_message_keeps_its_place_until_its_segment_is_gone() -> None:
    positions = Positions()
    positions.put(5, 2, 48, 100)
    positions.kill(5)
    assert positions.get(5) == LogPosition(2, 48, 100, True)
    positions.free(5, 3)
    assert positions.get(5) == LogPosition(2, 48, 100, True)
    positions.free(5, 2)
    assert positions.get(5) is None


def test_pages_of_a_wrong_size_are_refused() -> None:
    with pytest.raises(ValueError, match="wrong size"):
        Positions.load({0: b"short"})
