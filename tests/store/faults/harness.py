"""Playing the script on a disk, and looking at what crashes leave of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from posthouse.sim import SimDisk
from posthouse.sim.disk import Policy
from posthouse.store.segment import Scanner
from tests.store.faults.script import STEPS, Step
from tests.store.faults.witness import Witness
from tests.store.faults.world import World

TIDY_STEPS = 2  # of upkeep behind each step of the script


def play(world: World, steps: Sequence[Step] = STEPS, tidy: int = TIDY_STEPS) -> World:
    """The script, with some upkeep behind each step."""
    for step in steps:
        step(world)
        world.tidy(tidy)
    return world


@cache
def usual_calls() -> dict[str, int]:
    """How many calls of each kind the script makes on its disk."""
    disk = SimDisk()
    play(World(disk).start())
    return dict(disk.calls)


class Moment(NamedTuple):
    """The machine right after an operation of the disk: copies, free to be crashed."""

    number: int
    disk: SimDisk
    witness: Witness


def moments(
    look: Callable[[Moment], None],
    every: int = 1,
    *,
    eager: bool = False,
    steps: Sequence[Step] = STEPS,
) -> World:
    """Plays the script and looks at the moment after each operation, or every this many."""
    disk = SimDisk()
    world = World(disk)
    world.eager = eager
    numbers = iter(range(1, 1_000_000))

    def operated(operation: object) -> None:
        number = next(numbers)
        if number % every == 0:
            look(Moment(number, disk.clone(), world.witness.now()))

    disk.on_operation = operated
    return play(world.start(), steps)


def crashed(disk: SimDisk, seeds: int = 1) -> Iterator[tuple[str, SimDisk]]:
    """What the machine may find: nothing unsynced, everything, and some of it."""
    policies: list[tuple[Policy, int]] = [("nothing", 0), ("everything", 0)]
    policies += [("random", seed) for seed in range(seeds)]
    for policy, seed in policies:
        yield f"{policy} {seed}", disk.clone().crash(policy, seed=seed)


def check(disk: SimDisk, witness: Witness, why: str = "") -> World:
    """Opens what a crash left: a prefix with everything that was answered, books and packets."""
    world = World(disk, witness)
    try:
        world.start().check()
    except Exception as error:
        error.add_note(f"after {why}")
        raise
    return world


def without_conveniences(disk: SimDisk) -> SimDisk:
    """The same disk without checkpoints and indexes: only the log itself speaks."""
    files = {name: data for name, data in disk.contents().items() if not is_convenience(name)}
    return SimDisk(disk.seed, files=files)


def is_convenience(name: str) -> bool:
    """A file that the store can make again."""
    return name.startswith("checkpoint-") or name.endswith((".idx", ".tmp"))


def records(data: bytes) -> list[tuple[int, int, int]]:
    """Kind, offset and end of the records of a segment."""
    generation = int.from_bytes(data[16:20], "little")
    return list(Scanner(data, generation, int.from_bytes(data[20:28], "little")))
