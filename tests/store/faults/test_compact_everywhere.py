"""Compaction at every step, cut off anywhere: what is gone stays gone, what waits stays."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from posthouse.engine.ledger.records import COPY, MESSAGE
from posthouse.sim import PowerLost, SimDisk
from posthouse.store.format import HEADER_SIZE
from tests.conftest import Dose
from tests.engine.rig import RECEIVE
from tests.store.faults.days import Day
from tests.store.faults.harness import (
    Moment,
    check,
    crashed,
    is_convenience,
    moments,
    play,
    records,
    without_conveniences,
)
from tests.store.faults.script import STEPS, body
from tests.store.faults.witness import view
from tests.store.faults.world import World


def unlinked(disk: SimDisk) -> int:
    """Segments that compaction gave back."""
    gone = [o for o in disk.operations if o.kind == "unlink" or o.to.endswith(".spare")]
    return sum(operation.name.endswith(".log") for operation in gone)


@pytest.mark.spec("MS-MQDMPR 3.1.7.2.1/2")
def test_compaction_behind_every_turn_changes_nothing_anybody_can_see() -> None:
    """The script gives the same queues with and without it, and from the log alone."""
    lazy, eager = SimDisk(), World(SimDisk())
    eager.eager = True
    plain = play(World(lazy).start(), tidy=0)
    busy = play(eager.start())
    assert unlinked(lazy) < 3  # a step of the script has some upkeep of its own
    assert unlinked(busy.disk) > 10
    print(f"{unlinked(busy.disk)} segments compacted")
    assert {name: len(there) for name, there in view(busy.manager).items()} == {
        name: len(there) for name, there in view(plain.manager).items()
    }
    for world in (plain, busy):
        check(world.disk.crash(), world.witness)
        check(without_conveniences(world.disk.crash()), world.witness)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/14", "MS-MQDMPR 3.1.7.2.1/2")
def test_power_loss_in_the_middle_of_any_step_of_compaction(dose: Dose) -> None:
    """Upkeep behind every turn, a crash at every operation of it, with and without checkpoints."""
    seen = Counter[str]()

    def look(moment: Moment) -> None:
        for label, found in crashed(moment.disk, dose(1, 4)):
            if moment.number % 2:
                found = without_conveniences(found)
            check(found, moment.witness, f"operation {moment.number}, {label}")
            seen["crashes"] += 1

    moments(look, every=dose(7, 1), eager=True)
    print(dict(seen))
    assert seen["crashes"] > 300


def test_crashes_compactions_and_lost_checkpoints_in_any_order(dose: Dose) -> None:
    """Random days: each ends with a crash somewhere, the next begins with what it left."""
    seen = Counter[str]()
    for seed in range(dose(12, 800)):
        chance = Random(f"days {seed}")
        world = World(SimDisk(seed)).start()
        for _ in range(dose(6, 10)):
            world.disk.lose_power_at(chance.randint(1, 300))
            day = Day(world, chance)
            try:
                day.work(40)
                seen["quiet days"] += 1
            except PowerLost:
                seen["crashes"] += 1
            seen["compactions"] += unlinked(world.disk)
            seen["refusals"] += day.refusals
            world = morning_after(world, chance, f"seed {seed}")
    print(dict(seen))
    assert seen["crashes"] > 10
    assert seen["compactions"] > 50


def morning_after(world: World, chance: Random, why: str) -> World:
    """What the crash left, perhaps without some conveniences, is checked and goes on."""
    policy = chance.choice(("nothing", "everything", "random", "random"))
    found = world.disk.crash(policy, seed=chance.randrange(1000))
    check(without_conveniences(found), world.witness, f"{why}, {policy}, log only")
    files = {n: d for n, d in found.contents().items() if keeps(n, chance)}
    disk = SimDisk(chance.randrange(1000), files=files)
    return check(disk, world.witness, f"{why}, {policy}")


def keeps(name: str, chance: Random) -> bool:
    """Now and then somebody deletes a checkpoint or an index."""
    return not is_convenience(name) or chance.random() < 0.8


def test_a_pinned_segment_stays_until_it_is_let_go() -> None:
    world = World(SimDisk()).start()
    play(world, STEPS[:3])
    pinned = min(world.store.ledger.segments)
    name = f"{pinned:08d}.log"
    world.store.pin(pinned)
    before = world.disk.contents()[name]
    for _ in range(12):
        STEPS[3](world)
        world.tidy()
    assert unlinked(world.disk) > 3
    assert world.disk.contents()[name] == before
    world.store.unpin(pinned)
    for _ in range(12):
        STEPS[3](world)
        world.tidy()
    check(world.disk.crash(), world.witness)


def test_a_message_removed_long_ago_never_comes_back() -> None:
    """Its record lies in a segment that a reader keeps; its ending is carried on for it.

    Compaction after compaction moves the ending, and only the log itself is left to tell.
    """
    world = World(SimDisk()).start()
    world.create("stay")
    world.create("go")
    world.send("stay", b"s" * 1500)
    world.send("go", b"g" * 300)
    ended = world.receive("go").read.number
    place = world.store.ledger.positions.get(ended)
    world.store.pin(place.segment)
    for _ in range(60):
        world.send("go", b"g" * 600)
        world.receive("go")
        world.tidy()
        found = world.disk.clone().crash()
        state = check(without_conveniences(found), world.witness).recovered.state
        assert ended not in state.table
    holder = world.store.ledger.positions.get(ended)
    print(f"{unlinked(world.disk)} segments compacted, place of the message {holder}")
    assert unlinked(world.disk) > 15
    assert holder is not None, "its record should still be there to come back from"


def test_an_interrupted_compaction_is_finished_before_another_begins() -> None:
    """Its segment holds messages a second time; one that is removed meanwhile must not come back.

    A reader that pins it holds up neither this nor, later, the others; only its file has to stay.
    """
    world = interrupted_compaction()
    segments = world.store.ledger.segments
    (half_done,) = world.store.ledger.copied_from
    twice = [n for n in copied(world, half_done) if n in world.manager.ledger.state.table]
    assert twice
    world.store.pin(half_done)
    empty(world, "stay")  # now others are as dead, and would give more
    before, others = unlinked(world.disk), set(segments) - {half_done}
    for _ in range(200):
        if half_done in segments:
            assert others <= set(segments)
            world.store.tidy()
            world.store.sync()
    assert half_done not in segments
    for number in range(40):
        world.send("go", body(f"round {number}", 600))
        world.receive("go")
        world.tidy()
        after = check(without_conveniences(world.disk.clone().crash()), world.witness)
        assert not [n for n in twice if n in after.recovered.state.table]
    assert unlinked(world.disk) > before + 10
    name = f"{half_done:08d}.log"
    assert name in world.disk.contents()
    world.store.unpin(half_done)
    world.tidy()
    assert name not in world.disk.contents()


def interrupted_compaction() -> World:
    """A store that was killed when some messages of a segment had been copied, and not all."""
    world = World(SimDisk()).start()
    world.create("stay")
    world.create("go")
    for number in range(40):
        world.send("stay", body(f"stays {number}", 250))
        for _ in range(2):
            world.send("go", body("goes", 450))
            world.receive("go")
        for _ in range(12):
            world.driver.tidy()
            world.driver.sync()
            if world.store.ledger.copied_from:
                world.kill()
                assert world.store.ledger.copied_from
                return world
    raise AssertionError("nothing was compacted")


def copied(world: World, segment: int) -> list[int]:
    """Messages with a record in a segment that are read from a newer one."""
    data = world.disk.contents()[f"{segment:08d}.log"]
    there = [
        int.from_bytes(data[offset + HEADER_SIZE : offset + HEADER_SIZE + 8], "little")
        for kind, offset, _ in records(data)
        if kind in (MESSAGE, COPY)
    ]
    places = {number: world.store.ledger.positions.get(number) for number in there}
    return [n for n, place in places.items() if place is not None and place.segment > segment]


def empty(world: World, name: str) -> None:
    """Everything in a queue is received."""
    source = world.open(name, RECEIVE)
    world.run(lambda m: m.messages.dequeue_messages(source, 1000))
    world.close(source)
