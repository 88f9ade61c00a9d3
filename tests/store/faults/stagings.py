"""What writers of batches are promised: a stage that is there, a batch that is published once."""

from __future__ import annotations

from collections.abc import Callable

from tests.engine.staging import append, begin, key_of, publish, stage
from tests.store.faults.operations import Call, Holds, Make, Operation, Scene
from tests.store.faults.world import World

STAGINGS: list[Operation] = []
ROWS = [b"row 0", b"row 1"]


def operation(name: str, variant: str, holds: Holds) -> Callable[[Make], Make]:
    """Adds an operation to the list."""

    def add(make: Make) -> Make:
        STAGINGS.append(Operation(f"Stages.{name}", variant, make, holds))
        return make

    return add


def staged(world: World) -> bool:
    """The stage is there, and can be published."""
    if key_of(1) not in world.manager.stages.stages:
        return False
    return bool(publish(world, 1, (0, 0)).messages == len(ROWS))


def is_published(world: World) -> bool:
    """The batch is known to be published."""
    return "query" in world.manager.stages.queries and bool(publish(world, 1, (0, 0)).already)


def published(world: World) -> bool:
    """The same, and all its messages are there."""
    return world.bodies("answers") == ROWS and is_published(world)


def dropped(world: World) -> bool:
    """Nothing is left of the stage."""
    return not world.manager.stages.stages and not world.manager.ledger.state.pending


@operation("finish", "", staged)
def _finish(scene: Scene) -> Call:
    upload = begin(scene.world, key_of(1))
    append(scene.world, upload, [("answers", ROWS)])
    return lambda m: m.stages.finish(upload)


@operation("publish", "", published)
def _publish(scene: Scene) -> Call:
    stage(scene.world, key_of(1), ("answers", ROWS))
    admin = scene.world.admin
    return lambda m: m.stages.publish("query", 1, [(0, 0)], admin)


@operation("publish", "nothing", is_published)
def _publish_nothing(scene: Scene) -> Call:
    admin = scene.world.admin
    return lambda m: m.stages.publish("query", 1, [], admin)


@operation("discard", "", dropped)
def _discard(scene: Scene) -> Call:
    stage(scene.world, key_of(1), ("answers", ROWS))
    admin = scene.world.admin
    return lambda m: m.stages.discard("query", 1, admin)


@operation("forget_query", "", lambda world: not world.manager.stages.queries)
def _forget(scene: Scene) -> Call:
    publish(scene.world, 1)
    admin = scene.world.admin
    return lambda m: m.stages.forget_query("query", admin)
