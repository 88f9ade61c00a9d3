"""The log store: what was synced comes back, whatever a crash does to the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest

from posthouse.sim import SimDisk
from posthouse.sim.disk import SimFile
from posthouse.sim.faults import Kind
from posthouse.store.disk import RealDisk
from posthouse.store.errors import StoreDamaged, StoreFailed
from posthouse.store.format import MARK_SIZE
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from posthouse.store.writer import BEGUN_BYTES
from tests.store.rig import Rig, packet_of, picture, random_step

STORE_ID = b"0123456789abcdef"
SMALL = StoreSettings(store_id=STORE_ID, segment_size=1500)


def rig_on(disk: SimDisk, settings: StoreSettings = SMALL) -> Rig:
    return Rig(LogStore(disk, settings))


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/14")
def test_what_was_synced_survives_a_crash() -> None:
    disk = SimDisk()
    rig = rig_on(disk)
    number = rig.send(extra=b"extra")
    rig.define(b"key", b"value")
    assert rig.keep() == rig.store.synced == rig.store.appended
    again = rig_on(disk.crash("nothing"))
    assert picture(again.state) == picture(rig.state)
    assert again.store.read(number) == packet_of(number)


def test_what_was_not_synced_may_be_lost_but_is_never_half_there() -> None:
    disk = SimDisk()
    rig = rig_on(disk)
    rig.send()
    rig.keep()
    synced = picture(rig.state)
    rig.send()
    rig.flush()
    assert rig.store.synced < rig.store.appended
    assert picture(rig_on(disk.crash("nothing")).state) == synced
    assert picture(rig_on(disk.crash("everything")).state) == picture(rig.state)


@pytest.mark.spec("MS-MQDMPR 3.1.1/1")
@pytest.mark.parametrize("seed", range(60))
def test_a_crash_leaves_a_prefix_that_holds_all_that_was_synced(seed: int) -> None:
    chance, disk = Random(seed), SimDisk(seed)
    rig = rig_on(disk)
    for _ in range(3):
        history, synced = [picture(rig.state)], 0
        for _ in range(chance.randint(1, 50)):
            random_step(rig, chance)
            history.append(picture(rig.state))
            if chance.random() < 0.4:
                rig.flush()
            if chance.random() < 0.2:
                rig.keep()
                synced = len(history) - 1
            if not rig.records:
                rig.store.tidy()
        disk = disk.crash("random")
        rig = rig_on(disk)
        assert picture(rig.state) in history[synced:]
        rig.check_packets()


def test_a_sync_in_another_thread_covers_what_was_appended_before_it(tmp_path: Path) -> None:
    store = LogStore(RealDisk(tmp_path), StoreSettings(store_id=STORE_ID, segment_size=20_000))
    rig = Rig(store)
    done, synced = Event(), [store.synced]

    def syncing() -> None:
        while not done.is_set():
            before = store.appended
            synced.append(store.sync())
            assert before <= synced[-1] <= store.appended

    thread = Thread(target=syncing)
    thread.start()
    for turn in range(300):
        number = rig.send()
        if turn % 3:
            rig.end(number)
        rig.flush()
        store.tidy()
        assert store.synced <= store.appended
    done.set()
    thread.join()
    assert synced == sorted(synced)
    assert len(synced) > 1
    again = Rig(LogStore(RealDisk(tmp_path), SMALL))
    assert picture(again.state) == picture(rig.state)
    again.check_packets()


def test_positions_grow_with_every_record() -> None:
    rig = rig_on(SimDisk())
    positions = []
    for _ in range(50):
        rig.send()
        positions.append(rig.flush())
    assert positions == sorted(set(positions))
    assert rig.store.synced < rig.store.appended
    rig.store.sync()
    assert rig.store.synced == rig.store.appended == positions[-1]


def test_what_a_sync_has_to_write_is_known() -> None:
    rig = rig_on(SimDisk())
    rig.keep()
    assert rig.store.unsynced_bytes == 0
    rig.send()
    rig.flush()
    assert 50 < rig.store.unsynced_bytes < 1000
    rig.store.sync()
    assert rig.store.unsynced_bytes == 0


def test_segments_are_sealed_at_their_size() -> None:
    disk = SimDisk()
    rig = rig_on(disk)
    for _ in range(60):
        rig.send()
        rig.keep()
    logs = [name for name in disk.names() if name.endswith(".log")]
    assert len(logs) > 5
    assert all(1500 <= disk.size(name) < 3000 for name in logs[:-1])
    again = rig_on(disk.crash())
    assert picture(again.state) == picture(rig.state)
    again.check_packets()


def test_a_group_is_one_write_and_a_sync_is_one_sync() -> None:
    disk = SimDisk()
    rig = rig_on(disk, StoreSettings(store_id=STORE_ID))
    for _ in range(100):
        rig.send()
    before = disk.calls.copy()
    rig.keep()
    assert disk.calls["write"] - before["write"] == 1
    assert disk.calls["sync"] - before["sync"] == 1
    assert disk.calls["any"] - before["any"] == 2
    before = disk.calls.copy()
    assert rig.store.sync() == rig.store.synced == rig.store.appended
    assert disk.calls == before, "everything is durable already"


def test_the_disk_begins_a_small_group_before_its_sync() -> None:
    disk = SimDisk()
    rig = rig_on(disk, StoreSettings(store_id=STORE_ID))
    rig.send()
    rig.keep()
    assert disk.calls["begin"] == 1
    while sum(len(record[3]) for record in rig.records) < BEGUN_BYTES:
        rig.send()
    rig.keep()  # a sync of as much is left to the thread
    assert disk.calls["begin"] == 1


@pytest.mark.parametrize("kind", ["write", "begin", "sync"])
def test_an_error_of_the_disk_is_final(kind: Kind) -> None:
    disk = SimDisk()
    rig = rig_on(disk)
    rig.send()
    rig.keep()
    before, synced = picture(rig.state), rig.store.synced
    disk.fail_at(1, kind)
    rig.send()
    with pytest.raises(StoreFailed):
        rig.keep()
    assert rig.store.synced == synced
    with pytest.raises(StoreFailed):
        rig.store.append([])
    with pytest.raises(StoreFailed):
        rig.store.sync()
    found = picture(rig_on(disk.crash("nothing")).state)
    assert found == before or (kind != "write" and found == picture(rig.state))


def test_a_full_disk_leaves_a_clean_end() -> None:
    disk = SimDisk(capacity=1 << 20)
    rig = rig_on(disk, StoreSettings(store_id=STORE_ID))
    rig.send()
    rig.keep()
    before, size = picture(rig.state), disk.size("00000001.log")
    disk.fill_up(100)
    rig.size = 500
    rig.send()
    with pytest.raises(StoreFailed, match="No space left"):
        rig.flush()
    assert disk.size("00000001.log") == size
    disk.fill_up(1 << 18)
    again = rig_on(disk.crash("everything"))
    assert picture(again.state) == before
    assert again.recovered.torn_bytes == 0


def test_a_full_disk_where_nothing_can_be_removed_is_a_failure_of_the_store() -> None:
    disk = SimDisk(capacity=1 << 20)
    rig = rig_on(disk, StoreSettings(store_id=STORE_ID))
    rig.keep()
    disk.open("00000009.spare", create=True)
    disk.fill_up(10)
    disk.fail_at(1, "unlink")
    rig.send()
    with pytest.raises(StoreFailed, match="writing to"):
        rig.flush()
    with pytest.raises(StoreFailed):
        rig.store.append([])


def test_marks_of_groups_are_not_counted_as_messages() -> None:
    rig = rig_on(SimDisk(), StoreSettings(store_id=STORE_ID))
    rig.keep()
    (segment,) = rig.store.ledger.segments.values()
    before = segment.fixed_bytes
    for number in range(1, 4):
        rig.send()
        rig.keep()
        assert segment.fixed_bytes - before == number * MARK_SIZE


def test_a_damaged_packet_is_not_handed_out() -> None:
    disk = SimDisk()
    rig = rig_on(disk)
    number = rig.send()
    rig.keep()
    disk.flip_bit("00000001.log", disk.size("00000001.log") - 3, 0)
    with pytest.raises(StoreDamaged) as caught:
        rig.store.read(number)
    assert caught.value.file == "00000001.log"


def test_a_message_that_is_not_there_is_the_callers_mistake() -> None:
    rig = rig_on(SimDisk())
    with pytest.raises(LookupError):
        rig.store.read(5)


def test_a_full_disk_is_announced_before_it_is_full() -> None:
    disk = SimDisk(capacity=1000 << 20)
    rig = rig_on(disk)
    assert rig.store.has_room()
    disk.fill_up(51 << 20)
    rig.store.tidy()
    assert rig.store.has_room()
    disk.fill_up(49 << 20)
    rig.store.tidy()
    assert not rig.store.has_room()
    disk.fill_up(51 << 20)
    assert rig.store.has_room()


def test_the_disk_is_asked_for_room_by_bytes_written() -> None:
    disk = AskedDisk(capacity=1000 << 20)
    rig = rig_on(disk, StoreSettings())
    assert rig.store.has_room()
    asked = disk.asked
    for _ in range(10):
        rig.send()
        rig.keep()
        assert rig.store.has_room()
    assert disk.asked == asked
    disk.fill_up(49 << 20)  # by somebody else
    rig.size = 64 << 10
    for _ in range(17):
        rig.send()
        rig.keep()
    assert not rig.store.has_room()
    asked = disk.asked
    assert not rig.store.has_room()
    assert disk.asked > asked  # in each turn, until there is room again


class AskedDisk(SimDisk):
    """Counts how often it is asked for its room."""

    asked = 0

    def free_space(self) -> tuple[int, int]:
        self.asked += 1
        return super().free_space()


class Interrupting(SimDisk):
    """Lets another thread in just before a file is created."""

    meanwhile: Callable[[], object] | None = None

    def open(self, name: str, *, create: bool = False) -> SimFile:
        if create and name.endswith(".log") and self.meanwhile is not None:
            self.meanwhile()
        return super().open(name, create=create)


def test_a_sync_may_come_between_two_segments() -> None:
    disk = Interrupting()
    rig = rig_on(disk)
    disk.meanwhile = rig.store.sync
    segments = len(disk.names())
    while len(disk.names()) == segments:
        number = rig.send()
        rig.flush()
    disk.meanwhile = None
    rig.send()
    rig.keep()
    again = rig_on(disk.crash("nothing"))
    assert picture(again.state) == picture(rig.state)
    assert again.store.read(number) == packet_of(number)
