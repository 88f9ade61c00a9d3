"""No positive answer of a group before its sync: what it said holds after the power was lost.

The same checks are run on a driver that does not wait: there they must fail.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from posthouse.engine.pipelines.claims import ClaimRange
from posthouse.engine.pipelines.groups import Groups
from tests.store.faults.group_steps import (
    OBSERVE,
    STREAM,
    acknowledge,
    claim,
    group_of,
    ids_of,
    lease,
)
from tests.store.faults.operations import STOCK, Call, Holds, Make, Operation, Scene, bodies
from tests.store.faults.world import WatchedDriver, World
from tests.support.hasty_driver import HastyDriver, outcome

# What looks, and what the engine itself calls.
MACHINERY = {
    "all",
    "break_off",
    "check_idle",
    "check_receiver",
    "check_taking",
    "claimed_messages",
    "earliest",
    "elsewhere",
    "first_locked",
    "forget_queue",
    "go_on",
    "is_claimed",
    "is_leased",
    "lag",
    "last_id",
    "lease_left_ms",
    "load",
    "next_deadline_ms",
    "note_purged",
    "purged_through",
    "take_begun",
}
GROUPS: list[Operation] = []


def operation(name: str, variant: str = "", holds: Holds | None = None) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        GROUPS.append(Operation(name, variant, make, holds))
        return make

    return add


def told(epoch: int, position: int, claimed: int = 0) -> Holds:
    """The group of `stock`: its epoch, and how many messages are behind it and claimed."""

    def holds(world: World) -> bool:
        group = world.queue("stock").groups.get("reader")
        if group is None:
            return epoch == 0
        groups = world.manager.groups
        lag = groups.lag(group).messages
        found = group.definition.epoch, lag, groups.claimed_messages(group)
        return found == (epoch, position, claimed)

    return holds


@operation("lease", holds=told(1, 3))
def _lease(scene: Scene) -> Call:
    stock = scene.world.queue("stock")
    return lambda m: m.groups.lease(stock, "reader", OBSERVE, "owner")


@operation("lease", "taken over", told(2, 3))
def _take_over(scene: Scene) -> Call:
    lease(scene.world, "stock", OBSERVE)
    return _lease(scene)


@operation("lease", "renewed")
def _renew(scene: Scene) -> Call:
    lease(scene.world, "stock", OBSERVE)
    stock = scene.world.queue("stock")
    return lambda m: m.groups.lease(stock, "reader", OBSERVE, "owner", epoch=1)


@operation("end_lease")
def _end_lease(scene: Scene) -> Call:
    lease(scene.world, "stock")
    group = group_of(scene.world, "stock")
    return lambda m: m.groups.end_lease(group, 1)


def claimed_by(stream: str, skipped: int) -> Holds:
    """Whose claim it is, and how many messages lie between it and the group's position."""

    def holds(world: World) -> bool:
        group = world.queue("stock").groups["reader"]
        passed = [n for n in ids_of(world, "stock") if group.definition.position < n <= group.begin]
        return (group.definition.stream, len(passed)) == (stream, skipped)

    return holds


@operation("claim", holds=lambda world: told(1, 3, 2)(world) and claimed_by(STREAM, 0)(world))
def _claim(scene: Scene) -> Call:
    lease(scene.world, "stock")
    group, through = group_of(scene.world, "stock"), ids_of(scene.world, "stock")[1]
    return lambda m: m.groups.claim(group, 1, ClaimRange(through, 0, STREAM))


@operation("claim", "in the middle", lambda w: told(1, 3, 2)(w) and claimed_by(STREAM, 1)(w))
def _claim_in_the_middle(scene: Scene) -> Call:
    lease(scene.world, "stock")
    group, ids = group_of(scene.world, "stock"), ids_of(scene.world, "stock")
    return lambda m: m.groups.claim(group, 1, ClaimRange(ids[2], ids[0], STREAM, skip=True))


def _claimed(scene: Scene, count: int) -> Call:
    lease(scene.world, "stock")
    ids = ids_of(scene.world, "stock")
    claim(scene.world, "stock", ids[2])
    group = group_of(scene.world, "stock")
    return lambda m: m.groups.acknowledge(group, 1, ids[count - 1], STREAM)


@operation("acknowledge", "all", bodies("stock"))
def _acknowledge(scene: Scene) -> Call:
    return _claimed(scene, 3)


@operation(
    "acknowledge", "some", lambda world: told(1, 1, 1)(world) and bodies("stock", STOCK[2])(world)
)
def _acknowledge_some(scene: Scene) -> Call:
    return _claimed(scene, 2)


@operation("acknowledge", "again")
def _acknowledge_again(scene: Scene) -> Call:
    call, ids = _claimed(scene, 3), ids_of(scene.world, "stock")
    acknowledge(scene.world, "stock", ids[2])
    return call


@operation("acknowledge", "observed", told(1, 1))
def _observe(scene: Scene) -> Call:
    lease(scene.world, "stock", OBSERVE)
    group, ids = group_of(scene.world, "stock"), ids_of(scene.world, "stock")
    return lambda m: m.groups.acknowledge(group, 1, ids[1])


@operation("release", holds=told(2, 3, 0))
def _release(scene: Scene) -> Call:
    _claimed(scene, 3)
    group = group_of(scene.world, "stock")
    return lambda m: m.groups.release(group)


@operation("set_position", holds=told(1, 2))
def _set_position(scene: Scene) -> Call:
    lease(scene.world, "stock", OBSERVE)
    scene.world.advance(20)
    group, ids = group_of(scene.world, "stock"), ids_of(scene.world, "stock")
    return lambda m: m.groups.set_position(group, ids[0])


@operation("delete", holds=told(0, 0))
def _delete(scene: Scene) -> Call:
    lease(scene.world, "stock", OBSERVE)
    scene.world.advance(20)
    group = group_of(scene.world, "stock")
    return lambda m: m.groups.delete(group)


@pytest.mark.parametrize("operation", GROUPS, ids=str)
def test_an_answer_comes_when_what_it_says_is_durable(operation: Operation) -> None:
    found = outcome(operation, WatchedDriver)
    assert not found.before_sync
    assert found.kept == found.decided
    assert found.holds


@pytest.mark.parametrize("operation", GROUPS, ids=str)
def test_a_driver_that_does_not_wait_would_be_noticed(operation: Operation) -> None:
    found = outcome(operation, HastyDriver)
    assert found.before_sync
    assert found.kept < found.decided
    assert not found.holds or operation.holds is None


def test_everything_that_is_asked_of_groups_is_among_them() -> None:
    methods = {n for n, _ in inspect.getmembers(Groups, inspect.isfunction) if n[0] != "_"}
    assert methods - MACHINERY == {operation.name for operation in GROUPS}
