"""What counts as proof that a damaged record held a message, and what follows if there is none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from posthouse.engine.ledger.records import COPY, MARK, MESSAGE
from posthouse.engine.ledger.state import State
from posthouse.sim import SimDisk
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import HEADER_SIZE
from posthouse.store.log import LogStore
from posthouse.store.lost_records import damaged_records
from posthouse.store.settings import StoreSettings
from tests.store.faults.harness import records
from tests.store.rig import Rig, packet_of

SETTINGS = StoreSettings(store_id=b"0123456789abcdef", segment_size=1 << 20)
FIRST = "00000001.log"
SIZE = 1500  # of a packet: more than two sectors


def opened(disk: SimDisk) -> Rig:
    return Rig(LogStore(disk, SETTINGS), SIZE)


def filled(count: int = 5) -> tuple[SimDisk, list[int]]:
    """A store that was killed, with messages in groups of their own."""
    disk = SimDisk()
    rig = opened(disk)
    numbers = []
    for _ in range(count):
        numbers.append(rig.send())
        rig.keep()
    return SimDisk(files=disk.contents()), numbers


def place(disk: SimDisk, kind: int, which: int, name: str = FIRST) -> tuple[int, int]:
    """Begin and end of a record."""
    found = [(begin, end) for one, begin, end in records(disk.contents()[name]) if one == kind]
    return found[which]


def overwritten(disk: SimDisk, begin: int, data: bytes) -> SimDisk:
    files = disk.contents()
    old = files[FIRST]
    files[FIRST] = old[:begin] + data + old[begin + len(data) :]
    return SimDisk(files=files)


def served(disk: SimDisk, numbers: list[int], *lost: int) -> Rig:
    """A start serves all but these, and lists a record for each."""
    rig = opened(disk)
    assert sorted(n for n, _ in rig.state.table.items()) == sorted(set(numbers) - set(lost))
    rig.check_packets()
    assert len(damaged_records(rig.state)) == len(lost)
    assert_balanced(rig.state)
    return rig


def assert_balanced(state: State) -> None:
    for queue in state.queues.values():
        assert queue.books[7] == queue.count + sum(queue.books[1:7])


def test_every_bit_of_a_message_record() -> None:
    disk, numbers = filled()
    begin, end = place(disk, MESSAGE, 2)
    for offset in [*range(begin, begin + 160), *range(begin + 160, end, 31)]:
        for bit in range(8):
            hurt = SimDisk(files=disk.contents())
            hurt.flip_bit(FIRST, offset, bit)
            (listed,) = damaged_records(served(hurt, numbers, numbers[2]).state)
            assert (listed.offset, listed.size) == (begin, end - begin)


def test_every_bit_of_a_mark_is_harmless() -> None:
    disk, numbers = filled()
    begin, end = place(disk, MARK, 2)
    for offset in range(begin, end):
        for bit in range(8):
            hurt = SimDisk(files=disk.contents())
            hurt.flip_bit(FIRST, offset, bit)
            rig = served(hurt, numbers)
            assert any(f"offset {begin}" in note for note in rig.store.notes)  # type: ignore[attr-defined]


def test_a_sector_of_zeros_inside_a_packet_costs_that_message() -> None:
    disk, numbers = filled()
    begin, _ = place(disk, MESSAGE, 2)
    served(overwritten(disk, begin + 400, bytes(512)), numbers, numbers[2])


def test_messages_damaged_side_by_side() -> None:
    disk = SimDisk()
    rig = opened(disk)
    numbers = [rig.send() for _ in range(4)]
    rig.keep()
    rig.send()
    rig.keep()
    disk = SimDisk(files=disk.contents())
    spans = [place(disk, MESSAGE, which) for which in (1, 2)]
    for begin, _ in spans:
        disk.flip_bit(FIRST, begin + 300, 1)
    served(disk, [*numbers, rig.number], numbers[1], numbers[2])


@pytest.mark.parametrize("hit", [0, 4, 8, 16, 20])
def test_damage_to_header_and_payload_proves_nothing(hit: int) -> None:
    """But for the checksum field, which the payload makes wrong as well."""
    disk, numbers = filled()
    begin, _ = place(disk, MESSAGE, 2)
    disk.flip_bit(FIRST, begin + hit, 0)
    disk.flip_bit(FIRST, begin + 700, 0)
    if hit == 0:
        served(disk, numbers, numbers[2])
        return
    before = disk.contents()
    with pytest.raises(StoreDamaged, match="not shown to be the record of a message") as caught:
        opened(disk)
    assert (caught.value.file, caught.value.offset) == (FIRST, begin)
    assert disk.contents() == before


def test_a_header_of_zeros_is_refused() -> None:
    disk, _ = filled()
    begin, _ = place(disk, MESSAGE, 2)
    with pytest.raises(StoreDamaged):
        opened(overwritten(disk, begin, bytes(HEADER_SIZE)))


@pytest.mark.parametrize("kinds", [(0, 2), (1, 2), (0, 1), (3, 1)])
def test_no_kind_is_taken_for_another_by_two_flipped_bits(kinds: tuple[int, int]) -> None:
    """A CHANGE whose kind was turned into a message's is still found to be one."""
    disk = SimDisk()
    rig = opened(disk)
    rig.send()
    rig.define(b"key", b"v" * 200)
    rig.keep()
    for _ in range(2):
        rig.send()
        rig.keep()
    disk = SimDisk(files=disk.contents())
    begin, _ = place(disk, 2, 1)
    for bit in kinds:
        disk.flip_bit(FIRST, begin + 20, bit)
    with pytest.raises(StoreDamaged):
        opened(disk)


def test_a_commit_of_a_lost_message_and_its_end_replay_without_it() -> None:
    disk = SimDisk()
    rig = opened(disk)
    kept, lost, ended, moved = (rig.send(pending=True) for _ in range(4))
    for number in (kept, lost, ended, moved):
        rig.commit(number)
    rig.end(ended)
    rig.move(moved, 2)
    rig.keep()
    rig.send()
    rig.keep()
    for which, number in enumerate((kept, lost, ended, moved)):
        hurt = SimDisk(files=disk.contents())
        hurt.flip_bit(FIRST, place(hurt, MESSAGE, which)[0] + 90, 3)
        left = {kept, lost, moved, rig.number} - {number}
        again = opened(hurt)
        assert {n for n, _ in again.state.table.items()} == left
        again.check_packets()
        assert_balanced(again.state)


COMPACTING = replace(
    SETTINGS, segment_size=4000, checkpoint_ratio=1, garbage_segments=0, step_bytes=400
)


def test_a_damaged_copy_whose_original_is_gone_is_lost_and_counted() -> None:
    """Its row is in the checkpoint, its record nowhere: it must not stay in its queue."""
    disk = SimDisk()
    store = LogStore(disk, COMPACTING)
    rig = Rig(store, 300)
    kept = rig.send()
    for _ in range(60):
        number = rig.send()
        rig.keep()
        rig.end(number)
        rig.keep()
    where = released_copy(store, kept)
    rig.send()
    rig.keep()
    rig.send()
    rig.keep()
    assert store.read(kept) == packet_of(kept, 300)
    hurt = SimDisk(files=disk.contents())
    hurt.flip_bit(where[0], where[1] + 100, 0)
    again = Rig(LogStore(hurt, COMPACTING), 300)
    assert again.state.table.get(kept) is None
    again.check_packets()
    assert_balanced(again.state)
    (listed,) = damaged_records(again.state)
    assert (f"{listed.segment:08d}.log", listed.offset) == where


def released_copy(store: LogStore, number: int) -> tuple[str, int]:
    """Compacts until the segment of a message is released; where the newest copy lies.

    No checkpoint has been written since then.
    """
    segments, checkpoints = store.ledger.segments, store._upkeep.checkpoints  # type: ignore[union-attr]
    first = store.ledger.positions.get(number)
    assert first is not None
    while first.segment in segments:
        assert store.tidy()
        store.sync()
    copy = store.ledger.positions.get(number)
    assert copy is not None
    name = f"{copy.segment:08d}.log"
    found = records(store.disk.contents()[name])  # type: ignore[attr-defined]
    index = [begin for _, begin, _ in found].index(copy.offset)
    assert found[index][0] == COPY
    assert checkpoints.position < segments[copy.segment].first_sequence + index
    return name, copy.offset
