"""Express messages: in memory, beyond that in files that nobody syncs."""

from __future__ import annotations

import errno
import gc
from random import Random
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from posthouse.engine.ledger.records import EXPRESS
from posthouse.sim import SimDisk
from posthouse.store.errors import StoreDamaged
from posthouse.store.express import CLEAN_NAME, ExpressMessages, read_marker
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from tests.store.rig import Rig, packet_of, picture

SETTINGS = StoreSettings(store_id=b"0123456789abcdef", segment_size=2000, express_memory=3000)


def opened(disk: SimDisk, settings: StoreSettings = SETTINGS) -> Rig:
    return Rig(LogStore(disk, settings))


def express_files(disk: SimDisk) -> list[str]:
    return [name for name in disk.names() if name.endswith(".express")]


def test_few_express_messages_touch_no_disk() -> None:
    disk = SimDisk()
    rig = opened(disk)
    calls = disk.calls["any"]
    number = rig.send_express()
    rig.flush()
    rig.store.tidy()
    assert rig.store.read(number) == packet_of(number)
    assert disk.calls["any"] == calls


def test_beyond_the_limit_the_oldest_go_to_files_that_are_never_synced() -> None:
    disk = SimDisk()
    rig = opened(disk)
    syncs = disk.calls["sync"] + disk.calls["sync_directory"]
    for _ in range(100):
        rig.send_express()
        rig.flush()
        rig.tidy()
    store = rig.store
    assert isinstance(store, LogStore)
    assert len(express_files(disk)) > 3
    assert store._express.memory_bytes <= SETTINGS.express_memory
    assert disk.calls["sync"] + disk.calls["sync_directory"] == syncs
    rig.check_packets()


@given(st.lists(st.integers(0, 60), min_size=1, max_size=30), st.data())
def test_memory_is_counted_for_as_long_as_messages_are_in_it(
    sizes: list[int], data: st.DataObject
) -> None:
    """Those that were spilled, or are gone already, give nothing back."""
    express = ExpressMessages(SimDisk(), SETTINGS, SETTINGS.store_id)
    express.put_all([(EXPRESS, n, b"h" * 7, b"p" * size) for n, size in enumerate(sizes)])
    full = express.memory_bytes
    assert full >= sum(sizes) + 7 * len(sizes)
    spilled = data.draw(st.integers(0, len(sizes)))
    while len(express.memory) > len(sizes) - spilled:
        express._spill(express.memory_bytes - 1)
    gone = data.draw(st.permutations(range(len(sizes))))
    express.drop(gone[: len(gone) // 2], 1)
    express.drop(gone[len(gone) // 2 :], 2)
    express.forget(1)
    kept = [n for n in gone[len(gone) // 2 :] if n in express.memory]
    each = (full - sum(sizes)) // len(sizes)
    assert express.memory_bytes == sum(sizes[n] + each for n in kept)
    express.forget(2)
    assert (express.memory_bytes, express.memory) == (0, {})
    assert [segment.live for segment in express.segments.values() if segment.live] == []


def test_a_stop_after_a_purge_takes_time_in_proportion_to_what_is_left() -> None:
    """Removed entries in front of a table are not gone over again for each message."""
    express = ExpressMessages(SimDisk(), SETTINGS, SETTINGS.store_id)
    for number in range(200_000):
        express.memory[number] = (b"head", b"packet")
    for number in range(150_000):
        del express.memory[number]
    begun_s = process_time()
    taken = []
    while express.memory:
        taken += [number for number, _ in express._first_in_memory()]
    assert taken == list(range(150_000, 200_000))
    assert process_time() - begun_s < 3, "some 10 s where each one is looked for"


def test_files_of_express_messages_that_are_gone_are_removed() -> None:
    disk = SimDisk()
    rig = opened(disk)
    numbers = []
    for _ in range(100):
        numbers.append(rig.send_express())
        rig.flush()
        rig.tidy()
    files = len(express_files(disk))
    Random(1).shuffle(numbers)
    for number in numbers[:90]:
        rig.drop(number)
        rig.flush()
        rig.tidy()
    assert len(express_files(disk)) < files / 2
    rig.check_packets()
    for number in numbers[90:]:
        rig.drop(number)
    rig.flush()
    rig.tidy()
    assert express_files(disk) == []


def test_nothing_is_remembered_of_express_messages_that_are_gone() -> None:
    settings = replace(SETTINGS, segment_size=100_000)
    rig = opened(SimDisk(), settings)
    store = rig.store
    assert isinstance(store, LogStore)
    numbers = [rig.send_express() for _ in range(1500)]
    rig.flush()
    rig.tidy()
    assert len(store._express.places) > 8
    for number in numbers:
        rig.drop(number)
    rig.flush()
    rig.tidy()
    assert store._express.segments == {}
    assert len(store._express.places) == 0


def test_a_full_disk_keeps_express_messages_in_memory() -> None:
    disk = SimDisk()
    rig = opened(disk)
    for _ in range(40):
        rig.send_express()
    rig.flush()
    disk.fail_at(1, "write", times=3, error=errno.ENOSPC)
    for _ in range(10):
        rig.tidy()
    rig.check_packets()


def test_a_full_disk_leaves_no_empty_files_of_express_messages() -> None:
    disk = SimDisk()
    rig = opened(disk)
    for _ in range(40):
        rig.send_express()
    rig.flush()
    disk.fail_at(1, "write", times=20, error=errno.ENOSPC)
    for _ in range(10):
        rig.tidy()
    assert express_files(disk) == []
    for _ in range(20):
        rig.tidy()
    assert express_files(disk)[0] == "00000001.express"
    rig.check_packets()


def sparse(disk: SimDisk) -> tuple[Rig, list[int]]:
    """A store that would gather express messages in its next step, and those."""
    rig = opened(disk)
    for _ in range(60):
        rig.send_express()
        rig.flush()
        rig.tidy()
    store = rig.store
    assert isinstance(store, LogStore)
    inside = store._express.places.numbers(1)
    for number in inside[1:]:
        rig.drop(number)
    rig.flush()
    assert len(store._express.segments) > 1
    return rig, inside[:1]


def test_a_disk_that_is_full_while_express_messages_are_gathered_keeps_them_whole() -> None:
    disk = SimDisk()
    rig, kept = sparse(disk)
    disk.fail_at(1, "write", error=errno.ENOSPC)
    store = rig.store
    assert isinstance(store, LogStore)
    store.tidy()
    assert store._express.parts(kept[0]) is not None, "back in memory"
    ((sender, packet),) = store.read_many(kept)
    assert packet == packet_of(kept[0])
    assert sender == store.read_sender(kept[0])
    rig.check_packets()


def test_a_damaged_express_message_stops_nothing_but_its_own_reader() -> None:
    disk = SimDisk()
    rig, kept = sparse(disk)
    store = rig.store
    assert isinstance(store, LogStore)
    place = store._express.places.get(kept[0])
    assert place is not None
    disk.flip_bit("00000001.express", place.offset + place.size - 1, 1)
    for _ in range(10):
        rig.tidy()
    with pytest.raises(StoreDamaged):
        store.read(kept[0])
    for number, row in rig.state.table.items():
        assert number in kept or store.read(number) == packet_of(number, row.size)
    rig.drop(kept[0])
    rig.flush()
    rig.tidy()
    assert "00000001.express" not in express_files(disk)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/13")
def test_spilled_express_messages_survive_a_clean_stop_with_their_rows() -> None:
    disk = SimDisk()
    rig = opened(disk)
    numbers = [rig.send_express(1) for _ in range(60)]
    rig.flush()
    rig.tidy()
    for number in numbers[::3]:
        row = rig.state.table.get(number)
        assert row is not None
        rig.state.settle(number, 5, row._replace(queue=2, lookup_id=number + 10_000), b"")
    rig.store.close()
    again = opened(disk.crash())
    assert again.recovered.clean
    assert picture(again.state) == picture(rig.state)
    again.check_packets()


def test_the_marker_is_gone_before_the_store_is_ready() -> None:
    disk = SimDisk()
    rig = opened(disk)
    rig.send_express(4)
    rig.flush()
    rig.store.close()
    assert CLEAN_NAME in disk.durable()
    opened(disk)
    assert CLEAN_NAME not in disk.durable()
    crashed = disk.crash()
    assert express_files(crashed) == ["00000001.express"]
    assert opened(crashed).recovered.lost_express == {4: 1}
    assert express_files(crashed) == []


def test_lost_express_messages_are_counted_once() -> None:
    disk = SimDisk()
    rig = opened(disk)
    rig.send_express(4)
    rig.flush()
    rig.store.close()
    opened(disk)
    disk = disk.crash()
    second = opened(disk)
    assert second.recovered.lost_express == {4: 1}
    second.tidy()
    assert opened(disk.crash()).recovered.lost_express == {}


@pytest.mark.parametrize("damage", ["marker", "checkpoint", "express", "missing"])
def test_a_clean_stop_that_cannot_be_trusted_counts_express_messages_as_lost(damage: str) -> None:
    disk = SimDisk()
    rig = opened(disk)
    for _ in range(30):
        rig.send_express(3)
    kept = rig.send()
    rig.flush()
    rig.store.close()
    (checkpoint,) = [name for name in disk.names() if name.startswith("checkpoint")]
    if damage == "missing":
        disk.unlink(express_files(disk)[0])
    elif damage == "express":
        disk.cut(express_files(disk)[0], 100)
    else:
        disk.flip_bit(CLEAN_NAME if damage == "marker" else checkpoint, 90, 1)
    again = opened(disk)
    assert not again.recovered.clean
    assert again.recovered.lost_express == {3: 30}
    assert [number for number, _ in again.state.table.items()] == [kept]
    assert express_files(disk) == []


@given(st.binary(max_size=100))
def test_any_bytes_are_a_marker_or_damage(data: bytes) -> None:
    with pytest.raises(StoreDamaged):
        read_marker(SimDisk(files={CLEAN_NAME: data}))


def test_a_marker_that_is_no_good_is_named() -> None:
    disk = SimDisk()
    rig = opened(disk)
    rig.store.close()
    for size in (0, 10, disk.size(CLEAN_NAME) - 1):
        files = {CLEAN_NAME: disk.contents()[CLEAN_NAME][:size]}
        with pytest.raises(StoreDamaged):
            read_marker(SimDisk(files=files))
    assert read_marker(SimDisk()) is None


def test_the_collector_does_not_take_the_messages_in_memory_for_new_ones() -> None:
    """It would go through all of them again after each one that comes."""
    messages = ExpressMessages(SimDisk(), StoreSettings(), bytes(16))
    messages.memory[1] = b"head", b"packet"
    gc.collect()
    assert gc.is_tracked(messages.memory)
