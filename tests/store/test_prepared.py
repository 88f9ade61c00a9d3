"""Space written in advance: zeros behind the records, which are not records and no damage."""

from __future__ import annotations

import pytest

from posthouse.sim import Policy, SimDisk
from posthouse.store.doctor import check
from posthouse.store.errors import StoreFailed
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from posthouse.store.writer import PREPARED_GROUP_MAX, PREPARED_PARTS
from tests.store.faults.harness import records
from tests.store.rig import Rig, packet_of, picture

SETTINGS = StoreSettings(store_id=b"0123456789abcdef", segment_size=32_000)
AHEAD = SETTINGS.segment_size // PREPARED_PARTS
NAME = "00000001.log"


def prepared(disk: SimDisk, size: int = 40) -> Rig:
    rig = Rig(LogStore(disk, SETTINGS), size)
    rig.send()
    rig.keep()
    rig.store.tidy()
    return rig


def end_of(disk: SimDisk, name: str = NAME) -> int:
    return records(disk.contents()[name])[-1][2]


def test_upkeep_writes_zeros_behind_the_records() -> None:
    disk = SimDisk()
    prepared(disk)
    data, end = disk.contents()[NAME], end_of(disk)
    assert len(data) == end + AHEAD
    assert data[end:] == bytes(AHEAD)


def test_records_go_over_the_zeros_and_the_file_grows_only_when_they_are_used_up() -> None:
    disk = SimDisk()
    rig = prepared(disk)
    size = disk.size(NAME)
    while end_of(disk) + 500 < size - AHEAD // 2:
        rig.send()
        rig.keep()
        rig.store.tidy()
        assert disk.size(NAME) == size
    while disk.size(NAME) == size:
        rig.send()
        rig.keep()
        rig.store.tidy()
    assert disk.size(NAME) == end_of(disk) + AHEAD
    rig.check_packets()


@pytest.mark.parametrize("kept", ["nothing", "everything"])
def test_after_a_crash_the_zeros_are_neither_torn_nor_in_the_way(kept: Policy) -> None:
    disk = SimDisk()
    rig = prepared(disk)
    number = rig.send()
    rig.keep()
    after = disk.crash(kept)
    again = Rig(LogStore(after, SETTINGS))
    assert again.recovered.torn_bytes == 0
    assert picture(again.state) == picture(rig.state)
    assert again.store.read(number) == packet_of(number)
    again.send()
    again.keep()
    assert [name for name in after.names() if name.endswith(".log")] == [NAME]
    assert check(after).notes == []
    third = Rig(LogStore(after.crash("nothing"), SETTINGS))
    assert picture(third.state) == picture(again.state)


def test_a_torn_group_on_the_zeros_is_cut_off() -> None:
    disk = SimDisk()
    rig = prepared(disk)
    kept = picture(rig.state)
    rig.send()
    rig.flush()
    place = len(disk.pending()) - 1
    size = disk.pending()[place].size
    for length in range(1, size):
        left = disk.clone().crash(keep=range(place), torn={place: length})
        again = Rig(LogStore(left, SETTINGS))
        assert picture(again.state) == kept
        assert 0 <= again.recovered.torn_bytes <= length


def test_synced_records_that_became_zeros_are_damage() -> None:
    disk = SimDisk()
    rig = prepared(disk)
    for _ in range(3):
        rig.send()
        rig.keep()
    files = disk.contents()
    found = records(files[NAME])
    first = found[3][1]
    last = found[-2][1]  # the newest mark stays, and says what was synced
    data = files[NAME]
    files[NAME] = data[:first] + bytes(last - first) + data[last:]
    report = check(SimDisk(files=files, read_only=True))
    assert [problem.offset for problem in report.problems] == [first]


def test_what_was_not_used_goes_when_a_segment_is_sealed_and_with_a_clean_stop() -> None:
    disk = SimDisk()
    rig = prepared(disk)
    while not disk.exists("00000002.log"):
        rig.send()
        rig.keep()
        rig.store.tidy()
    rig.store.tidy()
    assert disk.size(NAME) == end_of(disk)
    assert disk.size("00000002.log") > end_of(disk, "00000002.log")
    rig.store.close()
    assert disk.size("00000002.log") == end_of(disk, "00000002.log")


def test_large_groups_are_not_written_twice() -> None:
    settings = StoreSettings(store_id=bytes(16), segment_size=64 << 20)
    disk = SimDisk()
    rig = Rig(LogStore(disk, settings), PREPARED_GROUP_MAX + 1)
    rig.store.tidy()
    size = disk.size(NAME)
    for _ in range(12):
        rig.send()
        rig.keep()
        rig.store.tidy()
    assert size < end_of(disk) == disk.size(NAME)


def test_a_full_disk_only_costs_the_preparation() -> None:
    disk = SimDisk(capacity=8 << 20)
    rig = Rig(LogStore(disk, SETTINGS))
    rig.send()
    rig.keep()
    disk.fill_up(AHEAD - 1)
    rig.store.tidy()
    rig.send()
    rig.keep()
    assert picture(Rig(LogStore(disk.crash("nothing"), SETTINGS)).state) == picture(rig.state)


def test_a_disk_that_fails_over_the_preparation_ends_the_store() -> None:
    disk = SimDisk()
    rig = Rig(LogStore(disk, SETTINGS))
    rig.send()
    rig.keep()
    disk.fail_at(1, "write")
    with pytest.raises(StoreFailed):
        rig.store.tidy()
    with pytest.raises(StoreFailed):
        rig.store.append([])
