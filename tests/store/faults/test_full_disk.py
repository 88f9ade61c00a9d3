"""The disk fills up at every step of the script: new messages are refused, nothing is lost."""

from __future__ import annotations

from collections import Counter

import pytest

from posthouse.model.errors import MachineQuotaExceeded, QueueError
from posthouse.sim import SimDisk
from posthouse.store.errors import StoreFailed
from tests.conftest import Dose
from tests.engine.rig import RECEIVE
from tests.store.faults.harness import check, crashed, play
from tests.store.faults.script import STEPS, body
from tests.store.faults.world import STORE, World

CAPACITY = 10 << 20
RESERVE = STORE.disk_reserve


def played(steps: int) -> World:
    """A world on a disk of a bounded size, this many steps into the script."""
    world = World(SimDisk(steps, capacity=CAPACITY)).start()
    return play(world, STEPS[:steps])


def places(dose: Dose) -> range:
    """The steps in front of which the disk fills up."""
    return range(1, len(STEPS) + 1, dose(9, 1))


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/1")
def test_below_the_reserve_new_messages_are_refused_and_the_rest_works(dose: Dose) -> None:
    seen = Counter[str]()
    for steps in places(dose):
        world = played(steps)
        fill_up(world)
        refuses_messages(world)
        seen["received"] += empty_a_queue(world)
        world.tidy()
        world.restart()
        fill_up(world)
        refuses_messages(world)
        world.disk.fill_up(CAPACITY)
        world.send("bulk", body("room again"))
        for label, found in crashed(world.disk, 2):
            check(found, world.witness, f"full before step {steps}, {label}")
        seen["places"] += 1
    print(dict(seen))
    assert seen["received"] > 2


def fill_up(world: World) -> None:
    """Below the reserve, also when nothing is left that is kept to be written over."""
    for _ in range(2):
        world.disk.fill_up(RESERVE - 1)
        world.store.has_room()


def refuses_messages(world: World) -> None:
    """Express or not, with or without a transaction, nothing new comes in."""
    waiting = len(world.manager.ledger.state.table)
    transaction = world.begin("refused")
    for to, options in (
        ("bulk", {}),
        ("bulk", {"recoverable": False}),
        ("ledger", {"tx": transaction}),
    ):
        target = world.open(to)
        with pytest.raises(MachineQuotaExceeded) as caught:
            world.send(target, body("refused"), **options)
        world.close(target)
        assert caught.value.cause
        assert caught.value.remedy
    world.abort(transaction)
    assert len(world.manager.ledger.state.table) == waiting
    assert any(event.name == "flow_control_begins" for event in world.events)


def empty_a_queue(world: World) -> int:
    """Removing messages is what makes room: it must go on."""
    source = world.open("bulk", RECEIVE)
    reads = world.run(lambda m: m.messages.dequeue_messages(source, 1000))
    world.close(source)
    world.tidy()
    return len(reads)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/14")
@pytest.mark.parametrize("room", [0, 100, 2500])
def test_a_disk_without_any_room_ends_the_process_and_loses_nothing(room: int, dose: Dose) -> None:
    """Somebody else took even the reserve. The log stops cleanly, and goes on when there is room.

    While the disk is full a start may be refused; it must not change what is there.
    """
    seen = Counter[str]()
    for steps in places(dose):
        world = played(steps)
        world.disk.fill_up(room)
        seen[go_on(world, steps)] += 1
        for label, found in crashed(world.disk, 1):
            why = f"{room} bytes free before step {steps}, {label}"
            start_on_a_full_disk(found, world, seen)
            found.fill_up(CAPACITY)
            check(found, world.witness, why).check_goes_on()
    print(room, dict(seen))
    assert seen["ended"] + seen["went on"] == len(places(dose))
    assert seen["ended"] > 0 or room > 2000, "so much is enough, with what can be made again gone"


def go_on(world: World, steps: int) -> str:
    """The rest of the script, as far as the engine and the disk let it."""
    for step in STEPS[steps:] + STEPS[3:4]:
        try:
            step(world)
            world.tidy(2)
        except (QueueError, ValueError, LookupError, StopIteration):
            continue  # what it needs was refused before
        except StoreFailed as failure:
            cause = failure.__cause__
            return "ended" if isinstance(cause, OSError) else repr(cause)
    return "went on"


def start_on_a_full_disk(disk: SimDisk, world: World, seen: Counter[str]) -> None:
    """It works, or it is refused, and what it left is as good as before."""
    again = World(disk.clone(), world.witness)
    try:
        again.start().check()
        seen["started"] += 1
    except StoreFailed:
        seen["not started"] += 1
    again.disk.fill_up(CAPACITY)
    for label, found in crashed(again.disk, 1):
        check(found, again.witness, f"a start on a full disk, {label}")


def test_the_express_messages_of_a_full_disk_stay_in_memory() -> None:
    """Spilling them is a favour to memory; without room they wait where they are."""
    world = World(SimDisk(capacity=CAPACITY)).start()
    world.create("bulk")
    for number in range(12):
        world.send("bulk", body(f"express {number}", 400), recoverable=False)
    world.disk.fill_up(0)
    world.tidy(20)
    there = world.bodies("bulk")
    assert there == [body(f"express {number}", 400) for number in range(12)]
    world.disk.fill_up(CAPACITY)
    world.tidy()
    assert world.bodies("bulk") == there
    world.restart()
    assert world.bodies("bulk") == there
