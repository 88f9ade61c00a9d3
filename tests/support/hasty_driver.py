"""A driver that answers before it syncs: the planted fault."""

from __future__ import annotations

from typing import NamedTuple

from posthouse.runtime.driver import Answer
from posthouse.sim import SimDisk
from tests.store.faults.harness import check
from tests.store.faults.operations import Operation, Scene
from tests.store.faults.world import WatchedDriver, World


class HastyDriver(WatchedDriver):
    """Lets everything out as soon as it is decided, as a driver must not."""

    hasty = False

    def end_turn(self) -> int:
        """Releases without waiting for a sync."""
        position = super().end_turn()
        while self.hasty and self.outbox:
            _, release, value = self.outbox.popleft()
            release(value)
        return position


class Outcome(NamedTuple):
    """What a crash at the moment of the answer left."""

    before_sync: bool  # the answer came before its sync
    decided: int  # records there were when the engine decided
    kept: int
    holds: bool


def outcome(operation: Operation, driver: type[WatchedDriver]) -> Outcome:
    """Calls an operation and crashes the disk while its answer is on its way out."""
    world = World(SimDisk(), driver=driver).start()
    scene = Scene(world)
    call = operation.make(scene)
    outcomes: list[Outcome] = []
    synced = False

    def release(answer: Answer) -> None:
        assert answer.error is None, answer.error
        after = check(world.disk.clone().crash("nothing"), world.witness.now(), str(operation))
        holds = operation.holds is None or operation.holds(after)
        outcomes.append(Outcome(not synced, world.witness.written, after.kept, holds))

    scene.earlier()
    if isinstance(world.driver, HastyDriver):
        world.driver.hasty = True
    world.driver.begin_turn()
    world.driver.decide(call, release)
    world.driver.end_turn()
    world.driver.release()
    synced = True
    world.driver.sync()
    world.driver.release()
    (found,) = outcomes
    return found
