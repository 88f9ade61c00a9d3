"""The index of a sealed segment says what the segment says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from posthouse.engine.ledger.records import COPY, MESSAGE
from posthouse.sim import SimDisk
from posthouse.sim.disk import Inode
from posthouse.store import index as index_module
from posthouse.store import maintenance, recovery
from posthouse.store.checkpoint import TEMPORARY_SUFFIX
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import generation_of, index_name, segment_name
from posthouse.store.index import finished, unpack_index
from posthouse.store.log import LogStore
from posthouse.store.recovery import load_index, rebuild_index
from posthouse.store.settings import StoreSettings
from tests.store.rig import Rig, picture

SETTINGS = StoreSettings(store_id=b"0123456789abcdef", segment_size=2000)


def sealed() -> tuple[SimDisk, Rig]:
    disk = SimDisk()
    rig = Rig(LogStore(disk, SETTINGS))
    for turn in range(30):
        number = rig.send(extra=b"e" * (turn % 3))
        rig.define(b"key", b"%d" % turn)
        if turn % 4 == 0:
            rig.end(number)
        rig.keep()
        rig.store.tidy()
    return disk, rig


DISK, RIG = sealed()
NUMBER = 2
PACKED = DISK.contents()[index_name(NUMBER)]
GENERATION = generation_of(SETTINGS.store_id, NUMBER)


def test_an_index_is_what_reading_the_segment_gives() -> None:
    store = RIG.store
    assert isinstance(store, LogStore)
    checked = 0
    for segment in store.ledger.segments.values():
        index = finished(load_index(DISK, segment))
        if index is None:
            continue
        again = finished(rebuild_index(DISK, segment))
        assert list(index.entries()) == list(again.entries())
        assert index.length == DISK.size(segment_name(segment.number))
        checked += 1
    assert checked > 2


def test_a_long_index_is_written_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between them others have their turns; it has its name when it is whole."""
    monkeypatch.setattr(index_module, "PART", 100)
    monkeypatch.setattr(maintenance, "PART", 100)
    disk = SimDisk()
    rig = Rig(LogStore(disk, SETTINGS))
    temporary = index_name(1) + TEMPORARY_SUFFIX
    summed = 0
    while temporary not in disk.contents():
        if rig.store.tidy():
            summed += 1
        else:
            rig.send()
            rig.keep()
    steps = 1
    assert index_name(1) not in disk.contents()
    while index_name(1) not in disk.contents():
        assert len(disk.contents()[temporary]) == 100 * steps
        assert rig.store.tidy()
        steps += 1
    store = rig.store
    assert isinstance(store, LogStore)
    segment = store.ledger.segments[1]
    index = finished(load_index(disk, segment))
    assert index is not None
    assert list(index.entries()) == list(finished(rebuild_index(disk, segment)).entries())
    assert steps == -(-disk.size(index_name(1)) // 100)
    assert summed > steps // 2  # steps for its checksum, before the first part is written
    assert temporary not in disk.contents()


class MeasuredDisk(SimDisk):
    """Counts what is read of indexes and of one segment."""

    indexed = 0
    segment = 0

    def _read(self, name: str, inode: Inode, offset: int, size: int) -> bytes:
        data = super()._read(name, inode, offset, size)
        if name.endswith(".idx"):
            self.indexed += len(data)
        elif name == segment_name(1):
            self.segment += len(data)
        return data


@pytest.mark.parametrize("has_index", [True, False])
def test_a_long_index_is_read_in_steps(has_index: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a compaction, from its file or from the segment: others have their turns between."""
    for module in (index_module, recovery):
        monkeypatch.setattr(module, "PART", 100)
        monkeypatch.setattr(module, "PASSED_OVER", 3)
    disk = MeasuredDisk()
    eager = replace(SETTINGS, garbage_segments=0, checkpoint_ratio=1)
    rig = Rig(LogStore(disk, eager))
    numbers = [rig.send() for _ in range(3)]
    rig.keep()
    while index_name(2) not in disk.contents():
        numbers.append(rig.send())
        rig.keep()
        rig.tidy()
    if not has_index:
        disk.unlink(index_name(1))
    for number in numbers[1:]:
        rig.end(number)
    rig.keep()
    steps = before = 0
    while segment_name(1) in disk.contents():
        disk.indexed = disk.segment = 0
        rig.store.tidy()
        rig.store.sync()
        assert disk.indexed <= 100
        assert disk.segment <= 200  # a part of it, or the message that is copied
        steps += disk.indexed > 0 or disk.segment > 0
        before += 1
        assert before < 1000
    assert steps > 5
    again = Rig(LogStore(SimDisk(files=disk.contents()), eager))
    assert picture(again.state) == picture(rig.state)


def test_work_on_an_index_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each part of its bytes, and each stretch of its records."""
    monkeypatch.setattr(index_module, "PART", 100)
    monkeypatch.setattr(recovery, "PART", 100)
    monkeypatch.setattr(index_module, "PASSED_OVER", 2)
    monkeypatch.setattr(recovery, "PASSED_OVER", 2)
    store = RIG.store
    assert isinstance(store, LogStore)
    segment = next(
        s for s in store.ledger.segments.values() if index_name(s.number) in DISK.names()
    )
    size = DISK.size(index_name(segment.number))
    found = finished(load_index(DISK, segment))
    assert found is not None
    records = len(found.kinds)
    assert len(list(load_index(DISK, segment))) >= 2 * (size // 100) - 1
    assert len(list(found.parts(segment.generation))) >= size // 100 - 1
    assert len(list(rebuild_index(DISK, segment))) >= segment.end // 100 + records // 2
    messages = sum(entry.kind in (MESSAGE, COPY) for entry in found.entries())
    assert list(found.entries_of_changes()).count(None) == messages // 2 > 0


def test_the_changes_of_an_index_are_all_that_brings_no_message() -> None:
    index = finished(unpack_index(PACKED, NUMBER, GENERATION))
    others = [entry for entry in index.entries() if entry.kind not in (MESSAGE, COPY)]
    assert list(index.entries_of_changes()) == others
    assert 0 < len(others) < len(list(index.entries()))


def test_an_index_holds_no_packets() -> None:
    assert b"packet" in DISK.contents()[segment_name(NUMBER)]
    assert b"packet" not in PACKED
    index = finished(unpack_index(PACKED, NUMBER, GENERATION))
    assert {entry.number for entry in index.entries() if entry.kind == MESSAGE} > {0} - {0}


@given(st.integers(0, len(PACKED) - 1), st.integers(0, 7))
def test_a_flipped_bit_is_noticed(at: int, bit: int) -> None:
    damaged = bytearray(PACKED)
    damaged[at] ^= 1 << bit
    with pytest.raises(StoreDamaged):
        finished(unpack_index(bytes(damaged), NUMBER, GENERATION))


@given(st.binary(max_size=100))
def test_any_bytes_are_an_index_or_damage(data: bytes) -> None:
    with pytest.raises(StoreDamaged):
        finished(unpack_index(data, NUMBER, GENERATION))


def test_an_index_of_another_segment_is_refused() -> None:
    with pytest.raises(StoreDamaged, match="another segment"):
        finished(unpack_index(PACKED, NUMBER + 1, GENERATION))


def test_a_replay_by_indexes_gives_the_same_state() -> None:
    files = {n: data for n, data in DISK.contents().items() if not n.startswith("checkpoint")}
    with_indexes = Rig(LogStore(SimDisk(files=files), SETTINGS))
    without = {name: data for name, data in files.items() if not name.endswith(".idx")}
    plain = Rig(LogStore(SimDisk(files=without), SETTINGS))
    assert picture(with_indexes.state) == picture(plain.state) == picture(RIG.state)
    with_indexes.check_packets()


def test_an_index_that_outlived_its_unsynced_segment_is_not_believed() -> None:
    disk = SimDisk()
    rig = Rig(LogStore(disk, SETTINGS))
    rig.send()
    rig.keep()
    synced = picture(rig.state)
    while index_name(1) not in disk.names():
        rig.send()
        rig.flush()
        rig.store.tidy()
    files = disk.contents() | {segment_name(1): disk.durable()[segment_name(1)]}
    again = Rig(LogStore(SimDisk(files=files), SETTINGS))
    assert picture(again.state) == synced
    again.check_packets()
