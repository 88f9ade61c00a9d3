"""Compaction: space comes back, nothing else does, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from msgspec.structs import replace

from posthouse.sim import SimDisk
from posthouse.store.log import LogStore
from posthouse.store.read import verified
from posthouse.store.settings import StoreSettings
from posthouse.store.writer import PREPARED_PARTS
from tests.conftest import Dose
from tests.store.rig import Rig, packet_of, picture, random_step

STORE_ID = b"0123456789abcdef"
SETTINGS = StoreSettings(
    store_id=STORE_ID,
    segment_size=2000,
    checkpoint_ratio=1,
    garbage_segments=0,
    step_bytes=400,
    small_segments=4,
)


def opened(disk: SimDisk, settings: StoreSettings = SETTINGS) -> Rig:
    return Rig(LogStore(disk, settings))


def segments(disk: SimDisk) -> list[str]:
    return [name for name in disk.names() if name.endswith(".log")]


def settled(rig: Rig) -> None:
    """Everything appended, synced and tidied."""
    rig.keep()
    rig.tidy()
    rig.store.sync()


def replayed(disk: SimDisk) -> Rig:
    """The store as the segments alone have it."""
    logs = {name: data for name, data in disk.contents().items() if name.endswith(".log")}
    return opened(SimDisk(files=logs))


def check(disk: SimDisk, rig: Rig) -> None:
    """A start, with checkpoints or without, finds what the running store has."""
    for again in (opened(SimDisk(files=disk.contents())), replayed(disk)):
        assert picture(again.state) == picture(rig.state)
        again.check_packets()


def fill(rig: Rig, count: int) -> list[int]:
    """Messages, each in a group of its own."""
    numbers = []
    for _ in range(count):
        numbers.append(rig.send(extra=b"extra"))
        settled(rig)
    return numbers


def test_reading_what_was_tidied_away_is_the_callers_mistake() -> None:
    rig = opened(SimDisk())
    numbers = fill(rig, 60)
    rig.end(*numbers)
    rig.keep()
    refused = 0
    for _ in range(200):
        more = rig.store.tidy()
        for number in numbers[:30]:
            try:
                assert rig.store.read(number) == packet_of(number)
            except LookupError:
                refused += 1
        rig.store.sync()
        if not more:
            break
    assert refused > 30


def test_space_of_messages_that_are_gone_is_given_back() -> None:
    disk = SimDisk()
    rig = opened(disk)
    numbers = fill(rig, 100)
    most = sum(map(disk.size, segments(disk)))
    for number in numbers:
        rig.end(number)
        settled(rig)
    assert sum(map(disk.size, segments(disk))) < most / 4
    assert segments(disk)[0] != "00000001.log"
    check(disk, rig)


def test_the_places_of_messages_that_are_gone_are_freed() -> None:
    rig = opened(SimDisk())
    for number in fill(rig, 100):
        rig.end(number)
        settled(rig)
    store = rig.store
    assert isinstance(store, LogStore)
    assert len(store.ledger.positions.numbers()) < 40


def test_who_asks_gets_back_the_space_that_is_tolerated_otherwise() -> None:
    """TIDY of management: also while messages wait, and once only."""
    disk = SimDisk()
    rig = opened(disk, replace(SETTINGS, garbage_segments=100))
    store = rig.store
    assert isinstance(store, LogStore)
    numbers = fill(rig, 60)
    rig.end(*numbers[:-1])
    settled(rig)
    before = segments(disk)
    settled(rig)
    assert segments(disk) == before
    assert len(before) > 1
    store.tidy_thoroughly()
    settled(rig)
    assert len(segments(disk)) == 1
    assert rig.state.table.get(numbers[-1]) is not None
    check(disk, rig)
    rig.end(*fill(rig, 60))
    settled(rig)
    assert len(segments(disk)) > 1


def test_survivors_keep_sender_packet_row_and_extra() -> None:
    disk = SimDisk()
    rig = opened(disk)
    numbers = fill(rig, 60)
    survivors = numbers[::10]
    for number in survivors:
        rig.move(number, 7)
        rig.settle(number, aborts=3, extra=b"new extra")
    for number in numbers:
        if number not in survivors:
            rig.end(number)
    settled(rig)
    fill(rig, 20)
    assert "00000001.log" not in disk.names()
    for number in survivors:
        row = rig.state.table.get(number)
        assert row is not None
        assert (row.queue, row.aborts, rig.state.extras[number]) == (7, 3, b"new extra")
    rig.check_packets()
    check(disk, rig)


def test_an_ending_lives_as_long_as_a_record_of_its_message() -> None:
    """The message lies in a segment that stays; its ending in one that is compacted."""
    disk = SimDisk()
    rig = opened(disk)
    first = fill(rig, 12)
    doomed = first[3]
    while len(segments(disk)) < 3:
        fill(rig, 1)
    rig.end(doomed)
    for number in fill(rig, 60):
        rig.end(number)
        settled(rig)
    assert "00000001.log" in disk.names()
    store = rig.store
    assert isinstance(store, LogStore)
    place = store.ledger.positions.get(doomed)
    assert place is not None
    assert place.dead
    assert doomed not in replayed(disk).state.table
    check(disk, rig)


def test_a_deletion_lives_as_long_as_a_definition_of_its_key() -> None:
    disk = SimDisk()
    rig = opened(disk)
    rig.define(b"gone", b"value")
    fill(rig, 12)
    while len(segments(disk)) < 3:
        fill(rig, 1)
    rig.define(b"gone", None)
    rig.define(b"there", b"current")
    for number in fill(rig, 60):
        rig.end(number)
        settled(rig)
    assert "00000001.log" in disk.names()
    assert replayed(disk).state.definitions == {(3, b"there"): b"current"}
    check(disk, rig)


def test_a_definition_made_and_deleted_in_one_segment_leaves_nothing() -> None:
    rig = opened(SimDisk(), StoreSettings(store_id=STORE_ID))
    for turn in range(50):
        rig.define(b"transaction %d" % turn, b"prepared")
        rig.define(b"transaction %d" % turn, None)
    settled(rig)
    store = rig.store
    assert isinstance(store, LogStore)
    assert store.ledger.definitions == {}


def test_small_segments_are_merged() -> None:
    disk = SimDisk()
    settings = StoreSettings(store_id=STORE_ID, segment_size=1 << 20, small_segments=4)
    rig = opened(disk, settings)
    for _ in range(12):
        rig.send()
        rig.keep()
        disk.open(segments(disk)[-1]).write([b"torn"], disk.size(segments(disk)[-1]))
        disk = disk.crash("everything")
        rig = opened(disk, settings)
    assert len(segments(disk)) > 10
    store = rig.store
    assert isinstance(store, LogStore)
    assert store._upkeep is not None
    store._upkeep.checkpoint_wanted = True
    settled(rig)
    assert len(segments(disk)) <= 4
    check(disk, rig)


def test_a_pinned_segment_stays() -> None:
    disk = SimDisk()
    rig = opened(disk)
    store = rig.store
    assert isinstance(store, LogStore)
    numbers = fill(rig, 40)
    store.pin(1)
    for number in numbers:
        rig.end(number)
        settled(rig)
    assert "00000001.log" in disk.names()
    assert "00000002.log" not in disk.names()
    assert store.read(numbers[0]) == packet_of(numbers[0])
    store.unpin(1)
    fill(rig, 20)
    assert "00000001.log" not in disk.names()


def test_a_segment_pinned_while_it_is_compacted_keeps_its_file() -> None:
    disk = SimDisk()
    rig = opened(disk)
    store = rig.store
    assert isinstance(store, LogStore)
    assert store._upkeep is not None
    for number in fill(rig, 31)[1:]:
        rig.end(number)
    rig.keep()
    for _ in range(1000):
        victim = store._upkeep.compactor.victim
        if victim is not None and victim.segment.number == 1:
            break
        store.tidy()
        store.sync()
    store.pin(1)
    rig.tidy()
    assert store._upkeep.compactor.victim is None
    assert "00000001.log" in disk.names()
    check(disk, rig)
    store.unpin(1)
    rig.tidy()
    assert "00000001.log" not in disk.names()


def test_a_read_in_another_thread_keeps_its_segment() -> None:
    disk = SimDisk()
    rig = opened(disk)
    store = rig.store
    assert isinstance(store, LogStore)
    numbers = fill(rig, 40)
    place = store.ledger.positions.get(numbers[0])
    assert place is not None
    segment, file = store.pinned(place.segment)
    rig.end(*numbers)
    settled(rig)
    record = verified(file.read(place.offset, place.size), segment.name, place)
    assert record.endswith(packet_of(numbers[0]))
    assert "00000001.log" in disk.names()
    store.unpin(place.segment)
    fill(rig, 20)
    assert "00000001.log" not in disk.names()


@pytest.mark.parametrize("indexed", [True, False])
def test_a_damaged_message_stops_compaction_and_nothing_is_deleted(indexed: bool) -> None:
    disk = SimDisk()
    rig = opened(disk)
    numbers = fill(rig, 16)
    if not indexed:
        disk.unlink("00000001.idx")
    offset = disk.contents()["00000001.log"].index(packet_of(numbers[1])[:-1])
    disk.flip_bit("00000001.log", offset, 0)
    for number in numbers[2:] + fill(rig, 60):
        rig.end(number)
        settled(rig)
    store = rig.store
    assert isinstance(store, LogStore)
    assert store.damage is not None
    assert store.damage.file == "00000001.log"
    assert "00000001.log" in disk.names()
    rig.send()
    rig.keep()


def test_a_crash_between_any_two_steps_of_upkeep_is_harmless() -> None:
    """The power goes before each operation of a run that compacts; every crash is looked at."""
    disk = SimDisk()
    rig = opened(disk)
    seen = Counter[str]()
    chance = Random(5)
    for _ in range(40):
        for _ in range(3):
            random_step(rig, chance)
        rig.keep()
        for _ in range(200):
            found = disk.clone().crash("random", seed=seen["crashes"])
            seen["crashes"] += 1
            again = opened(found)
            assert picture(again.state) == picture(rig.state)
            again.check_packets()
            seen["unfinished"] += bool(again.store.ledger.copied_from)  # type: ignore[attr-defined]
            if not rig.store.tidy():
                break
            if chance.random() < 0.7:
                rig.store.sync()
    assert seen["crashes"] > 100
    assert seen["unfinished"] > 5
    assert "00000001.log" not in disk.names()


SHAPES = (
    {"dead_ratio": 0.5, "step_bytes": 1, "open_files": 1},
    {"dead_ratio": 0.4, "step_bytes": 300, "open_files": 2, "express_memory": 600},
    {"dead_ratio": 0.25, "step_bytes": 10_000, "express_memory": 0},
)


@pytest.mark.spec("MS-MQDMPR 3.1.1/1", "MS-MQDMPR 3.1.1.11/6", "MS-MQDMPR 3.1.1.12/14")
def test_any_run_with_crashes_and_compaction_keeps_what_was_synced(dose: Dose) -> None:
    seen = Counter[str]()
    for seed in range(dose(40, 800)):
        lives(seed, seen)
    assert seen["compacted"] > 20
    assert seen["torn"] > 5


def lives(seed: int, seen: Counter[str]) -> None:
    """Some lives of one store; after each a start with and without checkpoints agree."""
    chance, disk = Random(seed), SimDisk(seed)
    settings = StoreSettings(
        store_id=STORE_ID,
        segment_size=chance.choice((700, 1500, 4000)),
        checkpoint_ratio=1,
        garbage_segments=chance.choice((0, 1)),
        small_segments=chance.choice((3, 16)),
        **chance.choice(SHAPES),  # type: ignore[arg-type]
    )
    rig = opened(disk, settings)
    for _ in range(4):
        history, synced = live(rig, chance)
        disk = disk.crash("random")
        logs = {name: data for name, data in disk.contents().items() if name.endswith(".log")}
        rig, bare = opened(disk, settings), opened(SimDisk(files=logs), settings)
        found = picture(rig.state)
        assert found in history[synced:], f"seed {seed}"
        assert picture(bare.state) == found, f"seed {seed}"
        rig.check_packets()
        bare.check_packets()
        seen["torn"] += rig.recovered.torn_bytes > 0
        seen["compacted"] += "00000001.log" not in disk.names()


def live(rig: Rig, chance: Random) -> tuple[list[dict[str, object]], int]:
    """A day's work; every state it went through, and how many of them were synced."""
    history, synced = [picture(rig.state)], 0
    for _ in range(chance.randint(1, 80)):
        random_step(rig, chance)
        history.append(picture(rig.state))
        if chance.random() < 0.4:
            rig.flush()
        if chance.random() < 0.3:
            rig.keep()
            synced = len(history) - 1
        if not rig.records:
            for _ in range(chance.randint(0, 4)):
                rig.store.tidy()
    return history, synced


# -- nothing waits any more


ROOMY = StoreSettings(store_id=STORE_ID, segment_size=40_000, step_bytes=4000, spare_segments=0)


def bytes_on(disk: SimDisk) -> int:
    return sum(map(disk.size, disk.names()))


@pytest.mark.parametrize("batch", [1, 7, 40, 800])
@pytest.mark.parametrize("in_order", [True, False])
def test_an_emptied_store_gives_its_disk_back(batch: int, in_order: bool) -> None:
    """Tolerated garbage, the segment written to and big checkpoints: none of it stays for long."""
    settings = ROOMY
    disk = SimDisk()
    rig = Rig(LogStore(disk, settings), size=500)
    rig.define(b"key", b"value")
    numbers = [rig.send() for _ in range(800)]
    settled(rig)
    assert bytes_on(disk) > 10 * settings.segment_size
    if not in_order:
        Random(1).shuffle(numbers)
    for start in range(0, len(numbers), batch):
        rig.end(*numbers[start : start + batch])
        rig.keep()
        rig.store.tidy()
    settled(rig)
    assert bytes_on(disk) < settings.segment_size * (1 / 4 + 1 / PREPARED_PARTS)
    check(disk, rig)


def test_checkpoints_of_fuller_days_go_after_a_restart_too() -> None:
    settings = ROOMY
    disk = SimDisk()
    rig = Rig(LogStore(disk, settings), size=500)
    numbers = [rig.send() for _ in range(800)]
    settled(rig)
    rig.end(*numbers)
    rig.keep()
    again = Rig(LogStore(disk, settings))
    assert not len(again.state.table)
    assert bytes_on(disk) > 10 * settings.segment_size
    settled(again)
    assert bytes_on(disk) < settings.segment_size / 4
    check(disk, again)


def test_a_queue_that_is_emptied_again_and_again_costs_no_more_segments() -> None:
    """Space is given back when nobody writes, not between two messages."""
    settings = ROOMY
    disk = SimDisk()
    rig = Rig(LogStore(disk, settings), size=500)
    for _ in range(400):
        rig.end(rig.send())
        rig.keep()
        rig.store.tidy()
    written = 400 * 600
    store = rig.store
    assert isinstance(store, LogStore)
    assert max(store.ledger.segments) <= 2 + written // (settings.segment_size * 0.5)


def test_upkeep_of_an_empty_store_comes_to_rest_with_many_definitions() -> None:
    settings = StoreSettings(store_id=STORE_ID, segment_size=4000, step_bytes=4000)
    disk = SimDisk()
    rig = Rig(LogStore(disk, settings))
    for number in range(500):
        rig.define(b"key%d" % number, b"v" * 50)
        rig.keep()
    rig.tidy()
    before = len(disk.operations)
    for _ in range(20):
        assert not rig.store.tidy()
    assert len(disk.operations) == before
    check(disk, rig)


def test_an_emptied_store_rests_on_a_full_disk_and_goes_on_later() -> None:
    settings = ROOMY
    disk = SimDisk()
    rig = Rig(LogStore(disk, settings), size=500)
    numbers = [rig.send() for _ in range(800)]
    settled(rig)
    rig.end(*numbers)
    rig.keep()
    disk.fill_up(2000)  # enough for some records, not for a checkpoint
    for _ in range(5):
        rig.tidy()
    disk.fill_up(1 << 30)
    for _ in range(2):
        settled(rig)
    assert bytes_on(disk) < settings.segment_size / 4
    check(disk, rig)


def test_what_waits_for_a_checkpoint_holds_nobody_up() -> None:
    disk = SimDisk()
    rig = opened(disk, replace(SETTINGS, checkpoint_ratio=1_000_000, garbage_segments=100))
    early = fill(rig, 20)
    store = rig.store
    assert isinstance(store, LogStore)
    assert store._upkeep is not None
    store._upkeep.checkpoint_wanted = True
    settled(rig)
    rig.size = 200  # so that the later ones are worth more
    late = fill(rig, 30)
    for number in (*late[2:-2], *early):
        rig.end(number)
    settled(rig)
    assert "00000001.log" not in disk.names()
    check(disk, rig)
