"""Checkpoints: a start from one is a start from the log, only faster."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from posthouse.sim import SimDisk
from posthouse.store.checkpoint import (
    Checkpointer,
    CheckpointHead,
    Picture,
    checkpoint_names,
    read_checkpoint,
    read_head,
    take_picture,
)
from posthouse.store.errors import StoreDamaged, StoreFailed
from posthouse.store.log import LogStore
from posthouse.store.maintenance import ROW_ESTIMATE
from posthouse.store.settings import StoreSettings
from tests.store.rig import Rig, picture

SETTINGS = StoreSettings(store_id=b"0123456789abcdef", segment_size=3000, checkpoint_ratio=1)


def opened(disk: SimDisk, settings: StoreSettings = SETTINGS) -> Rig:
    return Rig(LogStore(disk, settings))


def busy(groups: int = 60) -> tuple[SimDisk, Rig]:
    """A store that took several checkpoints by itself."""
    disk = SimDisk()
    rig = opened(disk)
    for turn in range(groups):
        numbers = [rig.send(), rig.send(2, pending=True)]
        rig.define(b"key%d" % (turn % 7), b"value %d" % turn)
        rig.commit(numbers[1])
        if turn % 3 == 0:
            rig.end(numbers[0])
        rig.keep()
        rig.tidy()
    return disk, rig


def checkpoints(disk: SimDisk) -> list[str]:
    return checkpoint_names(disk.names())


def test_two_checkpoints_are_kept() -> None:
    disk, _ = busy()
    assert len(checkpoints(disk)) == 2


def test_a_start_from_a_checkpoint_reads_only_what_is_behind_it() -> None:
    disk, rig = busy()
    crashed = disk.crash()
    again = opened(crashed)
    assert picture(again.state) == picture(rig.state)
    again.check_packets()
    newest = read_head(crashed, checkpoints(crashed)[0])
    assert newest.position > rig.store.synced // 2


def test_a_picture_stays_as_it_was_taken_while_it_is_written() -> None:
    """Only its tables are copied: what they hold may be replaced, and not changed."""
    _, rig = busy()
    taken = rig.store.pictures
    assert taken
    picture = take_picture(rig.state, rig.store.ledger, CheckpointHead(1, 2, 3, bytes(16)))
    before = list(picture.frames())
    for turn in range(60):
        rig.define(b"key%d" % (turn % 7), b"another value %d" % turn)
        rig.end(rig.send())
        rig.keep()
        rig.tidy()
    assert rig.store.pictures > taken
    assert list(picture.frames()) == before


def test_every_file_that_is_no_log_can_be_missing() -> None:
    disk, rig = busy()
    logs = {name: data for name, data in disk.contents().items() if name.endswith(".log")}
    again = opened(SimDisk(files=logs))
    assert picture(again.state) == picture(rig.state)
    again.check_packets()


def test_a_damaged_checkpoint_is_passed_over() -> None:
    disk, rig = busy()
    for name in checkpoints(disk):
        for offset in (0, 9, 40, 80, disk.size(name) // 2, disk.size(name) - 1):
            damaged = SimDisk(files=disk.contents())
            damaged.flip_bit(name, offset, 3)
            again = opened(damaged)
            assert picture(again.state) == picture(rig.state)
            again.check_packets()


def test_all_checkpoints_damaged_means_a_replay_of_the_log() -> None:
    disk, rig = busy()
    damaged = SimDisk(files=disk.contents())
    for name in checkpoints(disk):
        damaged.cut(name, damaged.size(name) - 1)
    again = opened(damaged)
    assert picture(again.state) == picture(rig.state)
    assert len(again.store.notes) == 2  # type: ignore[attr-defined]


def test_a_checkpoint_of_another_store_is_not_used() -> None:
    disk, rig = busy()
    other = SimDisk()
    stranger = opened(other, replace(SETTINGS, store_id=b"fedcba9876543210"))
    for _ in range(40):
        stranger.send(9)
        stranger.keep()
        stranger.tidy()
    (name, *_) = checkpoints(other)
    files = disk.contents() | {f"checkpoint-{1 << 40:016x}": other.contents()[name]}
    assert picture(opened(SimDisk(files=files)).state) == picture(rig.state)


def test_a_checkpoint_proves_how_far_the_log_was_synced() -> None:
    disk, _ = busy()
    newest = read_head(disk, checkpoints(disk)[0])
    shorter = SimDisk(files=disk.contents())
    shorter.cut(f"{newest.segment:08d}.log", newest.offset - 1)
    for name in shorter.names():
        if name.endswith(".log") and int(name[:8]) > newest.segment:
            shorter.unlink(name)
    with pytest.raises(StoreDamaged):
        opened(shorter)


def test_checkpoints_without_any_segment_are_damage() -> None:
    disk, _ = busy()
    left = {name: data for name, data in disk.contents().items() if not name.endswith(".log")}
    with pytest.raises(StoreDamaged, match="missing"):
        opened(SimDisk(files=left))


def test_a_checkpoint_gets_its_name_only_when_the_log_is_synced() -> None:
    disk = SimDisk()
    rig = opened(disk, replace(SETTINGS, segment_size=500))
    for _ in range(5):
        rig.send()
    rig.flush()
    for _ in range(5):
        rig.store.tidy()
    assert checkpoints(disk) == []
    rig.tidy()
    rig.store.sync()
    rig.tidy()
    assert checkpoints(disk)
    for name in checkpoints(disk):
        assert read_checkpoint(disk, name, read_head(disk, name)).head.position <= rig.store.synced


def test_big_checkpoints_are_written_by_a_thread() -> None:
    disk = SimDisk()
    settings = StoreSettings(store_id=bytes(16), segment_size=500, checkpoint_inline=0)
    rig = opened(disk, settings)
    for _ in range(30):
        rig.send()
        rig.keep()
        rig.store.tidy()
    rig.store.close()
    again = opened(disk.crash(), settings)
    assert again.recovered.clean
    assert picture(again.state) == picture(rig.state)


def test_checkpoints_of_many_definitions_are_written_by_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Strangers can make very many, while hardly a message waits."""
    begun: list[bool] = []
    begin = Checkpointer.begin

    def noted(self: Checkpointer, picture: Picture, *, inline: bool) -> None:
        begun.append(inline)
        begin(self, picture, inline=inline)

    monkeypatch.setattr(Checkpointer, "begin", noted)
    settings = StoreSettings(store_id=bytes(16), checkpoint_inline=100 * ROW_ESTIMATE)
    rig = opened(SimDisk(), settings)
    assert isinstance(rig.store, LogStore)
    for count in (1, 200):
        for number in range(count):
            rig.define(f"{number}".encode(), b"known")
        rig.keep()
        assert rig.store._upkeep is not None
        rig.store._upkeep.checkpoint_wanted = True
        rig.tidy()
    assert begun == [True, False]


@pytest.mark.parametrize("inline", [0, 1 << 20])
def test_a_disk_without_room_for_a_checkpoint_goes_on_without(inline: int) -> None:
    disk = SimDisk()
    settings = StoreSettings(store_id=bytes(16), segment_size=3000, checkpoint_inline=inline)
    rig = opened(disk, settings)
    for _ in range(10):
        rig.send()
    rig.keep()
    store = rig.store
    assert isinstance(store, LogStore)
    assert store._upkeep is not None
    store._upkeep.checkpoint_wanted = True
    disk.fail_at(1, "write", error=errno.ENOSPC)
    store.tidy()
    store.close()
    assert not [name for name in disk.names() if name.endswith(".tmp")]
    assert picture(opened(disk.crash(), settings).state) == picture(rig.state)


def test_a_disk_that_fails_while_a_checkpoint_is_written_ends_the_store() -> None:
    disk = SimDisk()
    rig = opened(disk, StoreSettings(store_id=bytes(16), segment_size=500))
    for _ in range(10):
        rig.send()
    rig.keep()
    disk.fail_at(1, "rename")
    with pytest.raises(StoreFailed):
        rig.tidy()
    with pytest.raises(StoreFailed):
        rig.flush()


@given(st.binary(max_size=200))
def test_any_bytes_are_a_checkpoint_or_damage(data: bytes) -> None:
    with pytest.raises(StoreDamaged):
        read_head(
            SimDisk(files={"checkpoint-0000000000000001": data}), "checkpoint-0000000000000001"
        )


WHOLE = busy(20)[0]
NEWEST = checkpoints(WHOLE)[0]


@given(st.integers(0, WHOLE.size(NEWEST) - 1), st.integers(0, 7))
def test_a_flipped_bit_in_a_checkpoint_is_noticed(at: int, bit: int) -> None:
    damaged = SimDisk(files={NEWEST: WHOLE.contents()[NEWEST]})
    damaged.flip_bit(NEWEST, at, bit)
    with pytest.raises(StoreDamaged):
        read_checkpoint(damaged, NEWEST, read_head(damaged, NEWEST))


def test_a_checkpoint_that_does_not_fit_is_not_begun() -> None:
    """It would use up what the log needs while it is written, and fail all the same."""
    disk = SimDisk(capacity=64 << 20)
    rig = opened(disk)
    for _ in range(3000):
        rig.send()
    rig.keep()
    before = checkpoint_names(disk.names())
    disk.fill_up(200 << 10)  # less than 3000 rows take
    rig.tidy()
    assert rig.store._upkeep.checkpoints.failures == 0  # type: ignore[attr-defined]
    assert checkpoint_names(disk.names()) == before
    disk.fill_up(8 << 20)
    rig.send()
    rig.keep()
    rig.tidy()
    assert len(checkpoint_names(disk.names())) == len(before) + 1
