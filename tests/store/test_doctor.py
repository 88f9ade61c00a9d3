"""The doctor: healthy stores are called healthy, damage is named by file and offset."""

from __future__ import annotations

from zlib import crc32

import pytest

from posthouse.engine.ledger.records import MESSAGE
from posthouse.sim import SimDisk
from posthouse.store.doctor import check
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import CRC, FORMAT_VERSION
from posthouse.store.index import finished, unpack_index
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from tests.store.faults.harness import records
from tests.store.rig import Rig

SETTINGS = StoreSettings(store_id=b"0123456789abcdef", segment_size=3000, checkpoint_ratio=1)


def opened(disk: SimDisk) -> Rig:
    return Rig(LogStore(disk, SETTINGS))


def busy(*, close: bool = False) -> tuple[SimDisk, Rig]:
    disk = SimDisk()
    rig = opened(disk)
    for turn in range(60):
        numbers = [rig.send(), rig.send(2, pending=True), rig.send_express(3)]
        rig.define(b"key%d" % (turn % 7), b"value %d" % turn)
        rig.commit(numbers[1])
        if turn % 3:
            rig.end(numbers[0])
        rig.keep()
        rig.tidy()
    if close:
        rig.store.close()
    return disk, rig


def read_only(files: dict[str, bytes]) -> SimDisk:
    return SimDisk(files=files, read_only=True)


@pytest.mark.parametrize("close", [False, True])
def test_a_healthy_store_is_called_healthy(close: bool) -> None:
    disk, rig = busy(close=close)
    report = check(read_only(disk.contents()))
    assert report.healthy, report.problems
    assert report.messages == len(rig.durable_numbers())
    assert report.records_good > 200
    assert report.records_bad == 0
    assert report.notes == []
    assert report.segments == len([n for n in disk.names() if n.endswith(".log")])


def test_a_torn_tail_is_no_damage() -> None:
    disk, _ = busy()
    files = disk.contents()
    newest = max(name for name in files if name.endswith(".log"))
    files[newest] = files[newest][: records(files[newest])[-1][2]] + b"torn" + bytes(50)
    report = check(read_only(files))
    assert report.healthy, report.problems
    assert report.torn_bytes == 4
    assert "4 bytes at the end" in report.notes[0]


def test_a_flipped_bit_anywhere_in_the_log_is_found() -> None:
    disk, _ = busy()
    files = disk.contents()
    newest = max(name for name in files if name.endswith(".log"))
    for name in files:
        if not name.endswith(".log") or name == newest:
            continue
        for offset in range(0, len(files[name]), 41):
            damaged = SimDisk(files=files, read_only=True)
            damaged.flip_bit(name, offset, 5)
            report = check(damaged)
            assert not report.healthy, (name, offset)
            problem = report.problems[0]
            assert problem.file == name
            assert problem.offset <= offset
            assert f"--accept-loss {name}" in problem.remedy
            assert report.records_good > 100
            assert report.messages > 50


def test_several_damaged_places_are_all_named() -> None:
    disk, _ = busy()
    names = [name for name in disk.names() if name.endswith(".log")]
    damaged = SimDisk(files=disk.contents(), read_only=True)
    damaged.flip_bit(names[0], 2000, 0)
    damaged.flip_bit(names[1], 2000, 0)
    found = check(damaged)
    assert {problem.file for problem in found.problems} == set(names[:2])
    assert found.records_bad == 2


def test_a_missing_segment_is_named() -> None:
    disk, _ = busy()
    files = disk.contents()
    name = min(name for name in files if name.endswith(".log"))
    del files[name]
    report = check(read_only(files))
    assert [(p.file, p.reason) for p in report.problems] == [(name, "the segment is missing")]


def test_damaged_checkpoints_are_told_from_damaged_segments() -> None:
    disk, _ = busy()
    damaged = SimDisk(files=disk.contents(), read_only=True)
    name = max(name for name in disk.names() if name.startswith("checkpoint"))
    damaged.flip_bit(name, disk.size(name) - 10, 1)
    (problem,) = check(damaged).problems
    assert problem.file == name
    assert "a start replays the log" in problem.remedy


def test_a_checkpoint_that_contradicts_the_log_is_named() -> None:
    disk, rig = busy()
    store = rig.store
    assert isinstance(store, LogStore)
    assert store._upkeep is not None
    rig.state.definitions[3, b"never told"] = b"to the log"
    store._upkeep.checkpoint_wanted = True
    store.tidy()
    store.tidy()
    (problem,) = check(read_only(disk.contents())).problems
    assert problem.file.startswith("checkpoint-")
    assert "disagree about definitions" in problem.reason


def test_an_index_that_contradicts_its_segment_is_named() -> None:
    disk, rig = busy()
    files = disk.contents()
    name = min(name for name in files if name.endswith(".idx"))
    store = rig.store
    assert isinstance(store, LogStore)
    segment = store.ledger.segments[int(name[:8])]
    index = finished(unpack_index(files[name], segment.number, segment.generation))
    index.numbers[index.kinds.index(MESSAGE)] += 1
    files[name] = b"".join(finished(index.parts(segment.generation)))
    (problem,) = check(read_only(files)).problems
    assert (problem.file, problem.offset) == (name, 0)


def test_a_spoiled_index_is_only_worth_a_note() -> None:
    disk, _ = busy()
    name = min(name for name in disk.names() if name.endswith(".idx"))
    spoiled = SimDisk(files=disk.contents(), read_only=True)
    spoiled.cut(name, 30)
    report = check(spoiled)
    assert report.healthy
    assert report.notes == [f"{name} is not good; it is made again when needed"]


@pytest.mark.parametrize("damage", ["marker", "express", "missing"])
def test_express_messages_of_a_clean_stop_are_looked_at(damage: str) -> None:
    disk, _ = busy(close=True)
    looked_at = SimDisk(files=disk.contents())
    if damage == "marker":
        looked_at.flip_bit("clean", 20, 1)
    elif damage == "express":
        looked_at.flip_bit("00000001.express", 300, 1)
    else:
        looked_at.unlink("00000001.express")
    report = check(read_only(looked_at.contents()))
    assert report.healthy == (damage != "marker")
    assert report.problems or "express messages" in report.notes[0]


def test_another_format_is_told_from_damage() -> None:
    disk = SimDisk()
    opened(disk)
    data = disk.contents()["00000001.log"]
    head = data[:8] + (FORMAT_VERSION + 1).to_bytes(2, "little") + data[10:44]
    newer = head + CRC.pack(crc32(head)) + data[48:]
    (problem,) = check(read_only({"00000001.log": newer})).problems
    assert "store format" in problem.reason


def test_looking_changes_nothing() -> None:
    disk, _ = busy()
    damaged = SimDisk(files=disk.contents())
    damaged.flip_bit(min(n for n in disk.names() if n.endswith(".log")), 2000, 0)
    before = damaged.contents()
    with pytest.raises(StoreDamaged):
        SimStart(damaged)
    assert not check(damaged).healthy
    assert damaged.contents() == before
    assert damaged.calls["any"] == 0


def SimStart(disk: SimDisk) -> Rig:
    """A start that has to read the whole log."""
    files = {n: data for n, data in disk.contents().items() if n.endswith(".log")}
    return opened(SimDisk(files=files))
