"""Segments written over those that are gone: nothing of the old ones is ever taken for new."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from msgspec.structs import replace

from posthouse.sim import SimDisk
from posthouse.sim.faults import PowerLost
from posthouse.store.doctor import check
from posthouse.store.format import is_recycled
from posthouse.store.log import LogStore
from posthouse.store.repair import NotPossible, accept_loss
from posthouse.store.settings import StoreSettings
from tests.store.faults.harness import records
from tests.store.rig import Rig, picture, random_step

SETTINGS = StoreSettings(store_id=b"0123456789abcdef", segment_size=1500, checkpoint_ratio=1)
BACKLOG = 20  # messages that wait, so that the store is never idle


def opened(disk: SimDisk) -> Rig:
    return Rig(LogStore(disk, SETTINGS))


def worked(rig: Rig, turns: int) -> None:
    """Messages come and go, so that segments die."""
    for _ in range(turns):
        rig.send()
        waiting = [number for number, _ in rig.state.table.items()]
        rig.end(*waiting[:-BACKLOG])
        rig.keep()
        for _ in range(20):
            if not rig.store.tidy():
                break
            rig.keep()


def segments(disk: SimDisk) -> dict[str, bytes]:
    return {name: data for name, data in disk.contents().items() if name.endswith(".log")}


def spares(disk: SimDisk) -> list[str]:
    return [name for name in disk.names() if name.endswith(".spare")]


def recycled(turns: int = 40) -> tuple[SimDisk, Rig, str]:
    """A store whose newest segment lies over an old one, which is longer than it."""
    disk = SimDisk()
    rig = opened(disk)
    worked(rig, turns)
    for _ in range(200):
        worked(rig, 1)
        name = max(segments(disk))
        data = disk.contents()[name]
        if is_recycled(data) and data[records(data)[-1][2] :].strip(b"\0"):
            return disk, rig, name
    raise AssertionError("no segment was written over another")


def with_spare(rig: Rig, disk: SimDisk) -> str:
    """Works on until there is a spare; its name."""
    for _ in range(200):
        worked(rig, 1)
        if spares(disk):
            return spares(disk)[0]
    raise AssertionError("nothing was kept to be written over")


def test_files_of_dead_segments_are_written_over() -> None:
    disk = SimDisk()
    rig = opened(disk)
    worked(rig, 60)
    assert any(map(is_recycled, segments(disk).values()))
    created = [o.name for o in disk.operations if o.kind == "create" and o.name.endswith(".log")]
    assert len(created) < max(rig.store.ledger.segments) / 2
    assert len(spares(disk)) <= SETTINGS.spare_segments
    rig.check_packets()


@pytest.mark.parametrize("policy", ["nothing", "everything"])
def test_old_bytes_behind_the_end_are_neither_torn_nor_in_the_way(policy: str) -> None:
    disk, rig, name = recycled()
    after = disk.crash("nothing" if policy == "nothing" else "everything")
    again = opened(after)
    assert again.recovered.torn_bytes == 0
    assert picture(again.state) == picture(rig.state)
    assert max(segments(after)) == name  # it goes on where it was
    again.send()
    again.keep()
    assert check(after).healthy
    third = opened(after.crash("nothing"))
    assert picture(third.state) == picture(again.state)


def test_a_group_torn_at_any_byte_over_old_ones_is_there_in_part_or_not_at_all() -> None:
    disk, rig, _ = recycled()
    pictures = [picture(rig.state)]
    rig.send()
    pictures.append(picture(rig.state))
    rig.send()
    pictures.append(picture(rig.state))
    rig.flush()
    place = len(disk.pending()) - 1
    seen = Counter[int]()
    for length in range(disk.pending()[place].size):
        left = disk.clone().crash(keep=range(place), torn={place: length})
        again = opened(left)
        seen[pictures.index(picture(again.state))] += 1
        again.send()
        again.keep()
        third = opened(left.crash("nothing"))
        assert picture(third.state) == picture(again.state), length
    assert seen[0] > 50
    assert seen[1] > 50


def test_a_lost_page_in_the_middle_of_a_group_cuts_it_there_for_good() -> None:
    """What stands behind has this generation and goes on counting: it must never come back."""
    disk, rig, name = recycled()
    before = picture(rig.state)
    start = records(disk.contents()[name])[-1][2]
    old = disk.contents()[name]
    for _ in range(3):
        rig.send()
    rig.flush()
    new = disk.contents()[name]
    group = [r for r in records(new) if r[1] >= start]
    hole = group[1][1], group[1][2]
    files = disk.contents() | {name: new[: hole[0]] + old[hole[0] : hole[1]] + new[hole[1] :]}
    left = SimDisk(files=files)
    again = opened(left)
    assert again.recovered.torn_bytes > 0
    assert picture(again.state) == before
    again.send()
    again.keep()
    third = opened(left.crash("nothing"))
    assert picture(third.state) == picture(again.state)


def test_a_crash_at_any_operation_leaves_a_prefix_that_holds_all_that_was_synced() -> None:
    for at in range(1, 400, 7):
        chance, disk = Random(at), SimDisk(at)
        rig = opened(disk)
        worked(rig, 25)
        disk.lose_power_at(at)
        history, synced = [picture(rig.state)], 0
        try:
            for _ in range(200):
                random_step(rig, chance)
                history.append(picture(rig.state))
                rig.keep()
                synced = len(history) - 1
                rig.store.tidy()
        except PowerLost:
            pass
        again = opened(disk.crash("random"))
        assert picture(again.state) in history[synced:], at
        again.check_packets()


def test_a_file_that_was_only_renamed_is_no_torn_segment() -> None:
    disk, rig, _ = recycled()
    spare = with_spare(rig, disk)
    files = disk.contents()
    following = f"{max(rig.store.ledger.segments) + 1:08d}.log"
    files[following] = files.pop(spare)
    left = SimDisk(files=files)
    again = opened(left)
    assert again.recovered.torn_bytes == 0
    assert picture(again.state) == picture(rig.state)
    assert check(left).healthy


def test_a_sound_recycled_segment_has_nothing_to_accept() -> None:
    disk, _, name = recycled()
    with pytest.raises(NotPossible, match="not damaged"):
        accept_loss(SimDisk(files=disk.contents()), int(name[:8]), "now", SETTINGS)


def test_a_start_and_a_full_disk_let_spares_go() -> None:
    disk = SimDisk(capacity=8 << 20)
    settings = replace(SETTINGS, disk_reserve=1 << 20, disk_reserve_percent=100)
    rig = Rig(LogStore(disk, settings))
    with_spare(rig, disk)
    left = disk.clone().crash("everything")
    Rig(LogStore(left, settings))
    assert spares(left) == []
    disk.fill_up((1 << 20) - 1)
    assert not rig.store.has_room() or not spares(disk)
    assert spares(disk) == []
