"""Reading records: one by one, or those that lie close together at once."""

from __future__ import annotations

import tracemalloc
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.effects import Unreadable
from posthouse.sim import SimDisk
from posthouse.store.disk import Disk, RealDisk
from posthouse.store.errors import StoreDamaged
from posthouse.store.log import LogStore
from posthouse.store.positions import PlaceColumns
from posthouse.store.read import GAP_MAX, RUN_MAX, runs_of
from posthouse.store.settings import StoreSettings
from tests.store.rig import Rig, packet_of, sender_of

SETTINGS = StoreSettings(store_id=b"0123456789abcdef", segment_size=4000)


def filled(disk: SimDisk, count: int = 60) -> tuple[Rig, list[int]]:
    """A store of several segments, with some express messages among the others."""
    rig = Rig(LogStore(disk, SETTINGS), size=200)
    numbers = []
    for at in range(count):
        numbers.append(rig.send_express() if at % 7 == 3 else rig.send())
        rig.flush()
    return rig, numbers


def test_many_packets_come_in_the_order_asked_for() -> None:
    rig, numbers = filled(SimDisk())
    for order in (numbers, numbers[::-1], numbers[::3], [numbers[0]] * 3, []):
        found = [(sender_of(number), packet_of(number, 200)) for number in order]
        assert rig.store.read_many(order) == found


def test_neighbours_are_read_at_once() -> None:
    disk = SimDisk()
    rig = Rig(LogStore(disk, SETTINGS))
    numbers = [rig.send() for _ in range(10)]
    rig.flush()
    before = disk.calls["read"]
    rig.store.read_many(numbers)
    assert disk.calls["read"] == before + 1


@pytest.mark.parametrize("at", [0, 2, 4])
def test_damage_of_one_is_told_with_its_place_and_the_others_can_be_read(at: int) -> None:
    disk = SimDisk()
    rig = Rig(LogStore(disk, SETTINGS))
    numbers = [rig.send() for _ in range(5)]
    rig.flush()
    ((name, data),) = [(n, d) for n, d in disk.contents().items() if n.endswith(".log")]
    disk.flip_bit(name, data.index(packet_of(numbers[at])), 0)
    with pytest.raises(Unreadable) as caught:
        rig.store.read_many(numbers)
    assert isinstance(caught.value, StoreDamaged)
    assert caught.value.offset < data.index(packet_of(numbers[at]))
    for number in numbers:
        if number != numbers[at]:
            assert rig.store.read(number) == packet_of(number)


def test_a_file_that_lost_its_end_is_damage_of_what_lay_there() -> None:
    disk = SimDisk()
    rig = Rig(LogStore(disk, SETTINGS))
    numbers = [rig.send() for _ in range(5)]
    rig.flush()
    ((name, data),) = [(n, d) for n, d in disk.contents().items() if n.endswith(".log")]
    disk.cut(name, data.index(packet_of(numbers[3])))
    with pytest.raises(Unreadable):
        rig.store.read_many(numbers)
    packets = [packet for _, packet in rig.store.read_many(numbers[:3])]
    assert packets == [packet_of(number) for number in numbers[:3]]


@pytest.mark.parametrize("many", [False, True])
def test_a_read_that_the_disk_refuses_concerns_that_packet_only(many: bool) -> None:
    disk = SimDisk()
    rig = Rig(LogStore(disk, SETTINGS))
    number = rig.send()
    rig.flush()
    disk.fail_at(1, "read")
    with pytest.raises(Unreadable, match="reading failed"):
        rig.store.read_many([number]) if many else rig.store.read(number)
    assert rig.store.read(number) == packet_of(number)
    rig.send()
    rig.flush()


@pytest.mark.parametrize(
    ("place", "near"),
    [
        ((1, 300, 100), True),
        ((1, 300 + GAP_MAX, 100), True),
        ((1, 301 + GAP_MAX, 100), False),
        ((1, 299, 100), False),
        ((2, 300, 100), False),
        ((0, 0, 0), False),
        ((1, 300, RUN_MAX - 200), True),
        ((1, 300, RUN_MAX - 199), False),
    ],
)
def test_what_may_be_read_together(place: tuple[int, int, int], near: bool) -> None:
    places = [(1, 100, 100), (1, 200, 100), place]
    runs = list(runs_of(columns(places)))
    assert runs == ([columns(places)] if near else [columns(places[:2]), columns([place])])


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 2]),
            st.sampled_from([0, 100, 200, 300, 9000]),
            st.sampled_from([100, 200, RUN_MAX // 2]),
        ),
        min_size=1,
    )
)
def test_runs_are_all_records_in_order_and_each_can_be_read_at_once(
    places: list[tuple[int, int, int]],
) -> None:
    runs = list(runs_of(columns(places)))
    assert [place for run in runs for place in zip(*run, strict=True)] == places
    for run in runs:
        ends = [offset + size for _, offset, size in zip(*run, strict=True)]
        assert len(set(run.segments)) == 1
        assert len(ends) == 1 or ends[-1] - run.offsets[0] <= RUN_MAX
        for end, begin in zip(ends, run.offsets[1:], strict=False):
            assert end <= begin <= end + GAP_MAX


def columns(places: list[tuple[int, int, int]]) -> PlaceColumns:
    """These places, of segment, offset and size."""
    return PlaceColumns(*[array("I", column) for column in zip(*places, strict=True)])


# -- large packets

BIG = 300_000
ROOMY = StoreSettings(store_id=b"0123456789abcdef", segment_size=1 << 20)


def with_large(disk: Disk) -> tuple[Rig, list[int]]:
    """Five large messages in one segment, the first with a sender."""
    rig = Rig(LogStore(disk, ROOMY), size=BIG)
    numbers = [rig.send() for _ in range(3)]
    rig.flush()
    return rig, numbers


@pytest.mark.parametrize("many", [False, True])
def test_a_large_packet_is_read_without_a_copy(tmp_path: Path, many: bool) -> None:
    """A record of which its packet is cut out would be there twice."""
    rig, numbers = with_large(RealDisk(tmp_path))
    store, wanted = rig.store, numbers if many else numbers[:1]
    tracemalloc.start()
    try:
        found = store.read_many(wanted) if many else [(b"", store.read(wanted[0]))]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [packet for _, packet in found] == [packet_of(number, BIG) for number in wanted]
    assert peak < len(wanted) * BIG + BIG // 2
    assert store.read_many(numbers) == [(sender_of(n), packet_of(n, BIG)) for n in numbers]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("place", [-1_000, -20, 0, BIG // 2, BIG - 1])
def test_damage_of_a_large_record_is_found_wherever_it_is(place: int, many: bool) -> None:
    disk = SimDisk()
    rig, numbers = with_large(disk)
    ((name, data),) = [(n, d) for n, d in disk.contents().items() if n.endswith(".log")]
    if place == -1_000:
        disk.cut(name, data.index(packet_of(numbers[1], BIG)) - 30)
    else:
        disk.flip_bit(name, data.index(packet_of(numbers[1], BIG)) + place, 0)
    for read in (lambda: rig.store.read(numbers[1]), lambda: rig.store.read_many(numbers[1:])):
        with pytest.raises(StoreDamaged) as caught:
            read()
        assert caught.value.place is not None
    assert rig.store.read(numbers[0]) == packet_of(numbers[0], BIG)
