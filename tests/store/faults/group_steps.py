"""Steps of the script, and works of a busy day, that named groups take part in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posthouse.engine.pipelines.claims import ClaimRange
from posthouse.engine.queues.queue import Group
from posthouse.model.group_names import GroupMode
from tests.engine.rig import RECEIVE
from tests.store.faults.world import World

if TYPE_CHECKING:
    from tests.store.faults.days import Day

CONSUME, OBSERVE = GroupMode.CONSUME, GroupMode.OBSERVE
READ = "read_in_bulk"
STREAM = "a checkpoint"


def group_of(world: World, queue: str, name: str = "reader") -> Group:
    return world.queue(queue).groups[name]


def ids_of(world: World, queue: str) -> list[int]:
    return sorted(place.lookup_id for place, _ in world.queue(queue).state.order.forward())


def lease(world: World, queue: str, mode: GroupMode = CONSUME, name: str = "reader") -> int:
    """Returns the epoch."""
    held = world.queue(queue)
    return world.run(lambda m: m.groups.lease(held, name, mode, "owner")).definition.epoch


def claim(world: World, queue: str, through: int) -> None:
    group = group_of(world, queue)
    asked = ClaimRange(through, group.definition.position, STREAM)
    world.run(lambda m: m.groups.claim(group, group.definition.epoch, asked))


def acknowledge(world: World, queue: str, through: int, name: str = "reader") -> None:
    group = group_of(world, queue, name)
    world.run(lambda m: m.groups.acknowledge(group, group.definition.epoch, through, STREAM))


def claim_some(world: World) -> None:
    """Some of all kinds are claimed, to be acknowledged over the stops and kills that follow."""
    world.create(READ, journaling=True)
    for number in range(7):
        world.send(
            READ,
            f"claimed {number} ".encode() * 20,
            recoverable=number != 2,
            priority=number % 3,
            time_to_be_received=5 if number in (1, 5) else 0xFFFFFFFF,
        )
    lease(world, READ)
    claim(world, READ, ids_of(world, READ)[5])
    lease(world, READ, OBSERVE, "watcher")
    acknowledge(world, READ, ids_of(world, READ)[3], "watcher")


def acknowledge_some(world: World) -> None:
    acknowledge(world, READ, ids_of(world, READ)[1])


def purge_beside_claims(world: World) -> None:
    source = world.open(READ, RECEIVE)
    world.run(lambda m: m.queues.purge_queue(source))
    world.close(source)
    assert world.queue(READ).state.count == world.manager.groups.claimed_messages(
        group_of(world, READ)
    )


def release_the_rest(world: World) -> None:
    group = group_of(world, READ)
    world.run(lambda m: m.groups.release(group))
    watcher = group_of(world, READ, "watcher")
    world.advance(20)
    world.run(lambda m: m.groups.set_position(watcher, 0))
    world.run(lambda m: m.groups.delete(group))


# -- of a busy day


def lease_at_random(day: Day) -> None:
    lease(day.world, day.name())


def claim_at_random(day: Day) -> None:
    name = day.name()
    lease(day.world, name)
    ids = ids_of(day.world, name)
    if ids:
        claim(day.world, name, day.chance.choice(ids))


def acknowledge_at_random(day: Day) -> None:
    group = day.chance.choice(day.world.manager.groups.all() or [None])
    if group is not None and group.has_claims:
        through = day.chance.randint(group.definition.position, group.definition.claimed)
        epoch = group.definition.epoch
        day.world.run(lambda m: m.groups.acknowledge(group, epoch, through, STREAM))


def release_at_random(day: Day) -> None:
    group = day.chance.choice(day.world.manager.groups.all() or [None])
    if group is not None:
        day.world.run(lambda m: m.groups.release(group))


GROUP_WORKS = (
    lease_at_random,
    claim_at_random,
    acknowledge_at_random,
    acknowledge_at_random,
    *[release_at_random] * 3,
)
