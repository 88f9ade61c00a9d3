"""Opening a log: torn tails are cut, damage is refused and left as it is."""

from __future__ import annotations

from zlib import crc32

import pytest
from msgspec.structs import replace

from posthouse.engine.ledger.records import MARK
from posthouse.sim import SimDisk
from posthouse.store.errors import FormatUnknown, StoreDamaged
from posthouse.store.format import (
    CRC,
    FORMAT_VERSION,
    MARK_PAYLOAD,
    generation_of,
    pack_record,
)
from posthouse.store.log import LogStore
from posthouse.store.settings import REFUSE, StoreSettings
from tests.store.rig import Picture, Rig, picture

SETTINGS = StoreSettings(store_id=b"0123456789abcdef", segment_size=1500)
FIRST = "00000001.log"


def opened(disk: SimDisk) -> Rig:
    return Rig(LogStore(disk, replace(SETTINGS, damage=REFUSE)))


def filled(groups: int = 3) -> tuple[SimDisk, Rig, list[Picture]]:
    """A store with some synced groups of one message each, and the state behind each of them."""
    disk = SimDisk()
    rig = opened(disk)
    pictures = [picture(rig.state)]
    for _ in range(groups):
        rig.send()
        rig.keep()
        pictures.append(picture(rig.state))
    return disk, rig, pictures


def files_of(disk: SimDisk) -> dict[str, bytes]:
    return disk.contents()


def test_bytes_behind_the_last_mark_that_are_no_record_are_cut() -> None:
    disk, _, pictures = filled()
    size = disk.size(FIRST)
    torn = SimDisk(files=files_of(disk))
    torn.open(FIRST).write([b"rubble"], size)
    again = opened(torn)
    assert picture(again.state) == pictures[-1]
    assert again.recovered.torn_bytes == 6
    assert torn.size(FIRST) == size


def test_the_last_group_may_be_torn_at_any_byte() -> None:
    whole = filled(2)[0].size(FIRST)
    disk, _, pictures = filled(3)
    for size in range(whole, disk.size(FIRST)):
        files = files_of(disk)
        files[FIRST] = files[FIRST][:size]
        again = opened(SimDisk(files=files))
        assert picture(again.state) == pictures[-2]
        again.check_packets()
        again.send()
        again.keep()


def test_damage_before_a_mark_is_refused_and_nothing_is_changed() -> None:
    disk, _, _ = filled(2)
    size = disk.size(FIRST)
    disk, _, _ = filled(3)
    for offset in range(size):
        damaged = SimDisk(files=files_of(disk))
        damaged.flip_bit(FIRST, offset, offset % 8)
        before = damaged.contents()
        with pytest.raises(StoreDamaged) as caught:
            opened(damaged)
        assert caught.value.file == FIRST
        assert caught.value.offset <= offset
        assert damaged.contents() == before
        assert damaged.calls["any"] == 0


def test_a_missing_segment_is_damage() -> None:
    disk, _, _ = filled(60)
    files = files_of(disk)
    logs = [name for name in files if name.endswith(".log")]
    assert len(logs) > 3
    for missing in logs[:-1]:
        left = SimDisk(files={name: data for name, data in files.items() if name != missing})
        with pytest.raises(StoreDamaged, match="missing") as caught:
            opened(left)
        assert caught.value.file == missing
        assert left.calls["any"] == 0


def test_a_segment_cut_at_a_record_is_damage() -> None:
    disk, _, _ = filled(60)
    shorter = SimDisk(files=files_of(disk))
    shorter.cut("00000002.log", 48)
    with pytest.raises(StoreDamaged, match="ends too early") as caught:
        opened(shorter)
    assert (caught.value.file, caught.value.offset) == ("00000002.log", 48)


def test_an_unfinished_first_segment_begins_the_store_again() -> None:
    for size in range(48):
        whole = SimDisk()
        opened(whole)
        disk = SimDisk(files={FIRST: whole.contents()[FIRST][:size]})
        rig = opened(disk)
        assert len(rig.state.table) == 0
        rig.send()
        rig.keep()
        assert picture(opened(disk.crash()).state) == picture(rig.state)


def test_a_newer_format_is_refused_by_name() -> None:
    disk, _, _ = filled()
    files = files_of(disk)
    head = bytearray(files[FIRST][:44])
    head[8:10] = (FORMAT_VERSION + 1).to_bytes(2, "little")
    files[FIRST] = bytes(head) + CRC.pack(crc32(bytes(head))) + files[FIRST][48:]
    with pytest.raises(FormatUnknown, match=f"store format {FORMAT_VERSION + 1}"):
        opened(SimDisk(files=files))


def test_a_torn_segment_border_cuts_both_sides() -> None:
    disk, rig, pictures = filled(5)
    while rig.store.appended and "00000002.log" not in disk.names():
        rig.send()
        rig.flush()
    rig.send()
    rig.flush()
    files = disk.contents()
    synced = disk.durable()[FIRST]
    files[FIRST] = synced + b"\0" * 50 + files[FIRST][len(synced) + 50 :]
    torn = SimDisk(files=files)
    again = opened(torn)
    assert picture(again.state) == pictures[-1]
    assert "00000002.log" not in torn.names()
    again.send()
    again.keep()
    assert picture(opened(torn.crash()).state) == picture(again.state)


def test_a_segment_number_is_never_used_again() -> None:
    disk, rig, _ = filled(1)
    while "00000002.log" not in disk.names():
        rig.send()
        rig.flush()
    crashed = disk.crash("everything")
    crashed.cut(FIRST, len(disk.durable()[FIRST]) + 1)
    opened(crashed)
    assert "00000002.log" not in crashed.names()
    assert "00000003.log" in crashed.names()


def forged_mark(store_id: bytes) -> bytes:
    generation = generation_of(store_id, 1)
    return pack_record(MARK, 1_000_000, generation, MARK_PAYLOAD.pack(999_999))


def test_a_body_cannot_pretend_to_be_a_mark() -> None:
    """The generation of a segment follows from the store's secret identifier."""
    disk, _, pictures = filled()
    size = disk.size(FIRST)
    torn = SimDisk(files=files_of(disk))
    torn.open(FIRST).write([b"torn " + forged_mark(bytes(16))], size)
    assert picture(opened(torn).state) == pictures[-1]
    real = SimDisk(files=files_of(disk))
    real.open(FIRST).write([b"torn " + forged_mark(SETTINGS.store_id)], size)
    with pytest.raises(StoreDamaged):
        opened(real)
