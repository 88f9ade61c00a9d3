"""The index of a sealed segment says what the segment says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.records import COPY, MESSAGE
from posthouse.sim import SimDisk
from posthouse.store import maintenance
from posthouse.store.checkpoint import TEMPORARY_SUFFIX
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import generation_of, index_name, segment_name
from posthouse.store.index import unpack_index
from posthouse.store.log import LogStore
from posthouse.store.recovery import load_index, rebuilt_index
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
        index = load_index(DISK, segment)
        if index is None:
            continue
        again = rebuilt_index(DISK, segment)
        assert list(index.entries()) == list(again.entries())
        assert index.length == DISK.size(segment_name(segment.number))
        checked += 1
    assert checked > 2


def test_a_long_index_is_written_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between them others have their turns; it has its name when it is whole."""
    monkeypatch.setattr(maintenance, "INDEX_STEP", 100)
    disk = SimDisk()
    rig = Rig(LogStore(disk, SETTINGS))
    while not rig.store.tidy():
        rig.send()
        rig.keep()
    steps = 1
    assert index_name(1) not in disk.contents()
    while index_name(1) not in disk.contents():
        assert len(disk.contents()[index_name(1) + TEMPORARY_SUFFIX]) == 100 * steps
        assert rig.store.tidy()
        steps += 1
    store = rig.store
    assert isinstance(store, LogStore)
    segment = store.ledger.segments[1]
    index = load_index(disk, segment)
    assert index is not None
    assert list(index.entries()) == list(rebuilt_index(disk, segment).entries())
    assert steps == -(-disk.size(index_name(1)) // 100)
    assert index_name(1) + TEMPORARY_SUFFIX not in disk.contents()


def test_the_changes_of_an_index_are_all_that_brings_no_message() -> None:
    index = unpack_index(PACKED, NUMBER, GENERATION)
    others = [entry for entry in index.entries() if entry.kind not in (MESSAGE, COPY)]
    assert list(index.entries_of_changes()) == others
    assert 0 < len(others) < len(list(index.entries()))


def test_an_index_holds_no_packets() -> None:
    assert b"packet" in DISK.contents()[segment_name(NUMBER)]
    assert b"packet" not in PACKED
    index = unpack_index(PACKED, NUMBER, GENERATION)
    assert {entry.number for entry in index.entries() if entry.kind == MESSAGE} > {0} - {0}


@given(st.integers(0, len(PACKED) - 1), st.integers(0, 7))
def test_a_flipped_bit_is_noticed(at: int, bit: int) -> None:
    damaged = bytearray(PACKED)
    damaged[at] ^= 1 << bit
    with pytest.raises(StoreDamaged):
        unpack_index(bytes(damaged), NUMBER, GENERATION)


@given(st.binary(max_size=100))
def test_any_bytes_are_an_index_or_damage(data: bytes) -> None:
    with pytest.raises(StoreDamaged):
        unpack_index(data, NUMBER, GENERATION)


def test_an_index_of_another_segment_is_refused() -> None:
    with pytest.raises(StoreDamaged, match="another segment"):
        unpack_index(PACKED, NUMBER + 1, GENERATION)


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
