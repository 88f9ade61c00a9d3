"""Reading records: one by one, or those that lie close together at once."""

from __future__ import annotations

import pytest

from posthouse.engine.ledger.effects import Unreadable
from posthouse.sim import SimDisk
from posthouse.store.errors import StoreDamaged
from posthouse.store.log import LogStore
from posthouse.store.positions import LogPosition
from posthouse.store.read import GAP_MAX, RUN_MAX, follows
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


@pytest.mark.parametrize("cold", [0.0, 1.0])
def test_many_packets_come_in_the_order_asked_for(cold: float) -> None:
    rig, numbers = filled(SimDisk(cold_reads=cold))
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
        (LogPosition(1, 300, 100, False), True),
        (LogPosition(1, 300 + GAP_MAX, 100, False), True),
        (LogPosition(1, 301 + GAP_MAX, 100, False), False),
        (LogPosition(1, 299, 100, False), False),
        (LogPosition(2, 300, 100, False), False),
        (LogPosition(1, 300, RUN_MAX - 200, False), True),
        (LogPosition(1, 300, RUN_MAX - 199, False), False),
    ],
)
def test_what_may_be_read_together(place: LogPosition, near: bool) -> None:
    assert (
        follows([LogPosition(1, 100, 100, False), LogPosition(1, 200, 100, False)], place) is near
    )
