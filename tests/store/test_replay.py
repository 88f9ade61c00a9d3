"""What replaying a log makes of queues that are gone."""

from __future__ import annotations

from random import Random

import pytest

from posthouse.engine.ledger.records import RECEIVED, TABLE_QUEUE, Change, Define, End
from posthouse.sim import SimDisk
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from tests.store.rig import Rig, picture

SETTINGS = StoreSettings(
    store_id=b"0123456789abcdef",
    segment_size=2000,
    garbage_segments=0,
    step_bytes=400,
    small_segments=4,
)


def opened(disk: SimDisk) -> Rig:
    return Rig(LogStore(disk, SETTINGS))


def define_queue(rig: Rig, number: int, value: bytes | None) -> None:
    change = Change()
    change.defines.append(Define(TABLE_QUEUE, number.to_bytes(4, "little"), value))
    rig.change(change)


def check(disk: SimDisk, rig: Rig) -> None:
    """A start, with checkpoints or without, knows the same queues and their books."""
    logs = {name: data for name, data in disk.contents().items() if name.endswith(".log")}
    for files in (disk.contents(), logs):
        again = opened(SimDisk(files=files))
        assert set(again.state.queues) == set(rig.state.queues)
        assert picture(again.state) == picture(rig.state)


@pytest.mark.parametrize("messages", [1, 30])
def test_the_books_of_a_deleted_queue_are_forgotten(messages: int) -> None:
    disk = SimDisk()
    rig = opened(disk)
    define_queue(rig, 7, b"definition")
    for _ in range(messages):  # many: the books stand at the beginning of segments then
        rig.end(rig.send(7))
        rig.send(8)
        rig.keep()
    rig.state.forget_queue(7)
    define_queue(rig, 7, None)
    rig.keep()
    assert set(rig.state.queues) == {8}
    check(disk, rig)


def test_the_books_of_a_deleted_queue_stay_until_its_last_message_ends() -> None:
    disk = SimDisk()
    rig = opened(disk)
    define_queue(rig, 7, b"definition")
    held = [rig.send(7), rig.send(7)]
    define_queue(rig, 7, None)
    rig.end(held[0])
    rig.keep()
    check(disk, rig)
    rig.end(held[1])
    rig.state.forget_queue(7)
    rig.keep()
    assert set(rig.state.queues) == set()
    check(disk, rig)


def test_a_queue_can_be_deleted_in_the_step_that_ends_its_messages() -> None:
    disk = SimDisk()
    rig = opened(disk)
    define_queue(rig, 7, b"definition")
    number = rig.send(7)
    change = Change()
    change.ends.append(End(number, RECEIVED))
    change.defines.append(Define(TABLE_QUEUE, (7).to_bytes(4, "little"), None))
    rig.change(change)
    rig.state.forget_queue(7)
    rig.keep()
    check(disk, rig)


@pytest.mark.parametrize("seed", range(6))
def test_queues_that_come_and_go_leave_nothing_behind(seed: int) -> None:
    """Also where compaction has taken the deletion, and books of before it are still there."""
    disk, chance = SimDisk(), Random(seed)
    rig, alive = opened(disk), dict[int, list[int]]()
    for number in range(1, 60):
        define_queue(rig, number, b"d" * 20)
        alive[number] = [rig.send(number) for _ in range(chance.randint(1, 4))]
        rig.keep()
        if len(alive) > 3:
            gone = chance.choice(list(alive))
            rig.end(*alive.pop(gone))
            rig.state.forget_queue(gone)
            define_queue(rig, gone, None)
            rig.keep()
        rig.tidy()
        check(disk, rig)
    assert min(int(n[:8]) for n in disk.names() if n.endswith(".log")) > 1
