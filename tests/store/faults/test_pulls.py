"""Messages that are pulled and the entries by which they are known, when the power goes.

Both are one step of the log: after any crash as many entries as messages are there, all of those
that were answered, and the source is asked for the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from posthouse.engine.pulls.pulls import Pulls
from posthouse.model.names import parse_name
from tests.conftest import Dose
from tests.engine.pulling import GUID, LEASE_MS, SOURCE, Source, offer, take
from tests.store.faults.harness import Moment, check, crashed, moments, without_conveniences
from tests.store.faults.operations import Call, Holds, Make, Operation, Scene
from tests.store.faults.script import Step
from tests.store.faults.world import WatchedDriver, World
from tests.support.hasty_driver import HastyDriver, outcome

# What looks, what the engine itself calls, and the end of a run, which nothing durable shows.
MACHINERY = {"all", "end", "forget_queue", "get", "is_running", "load", "release_of", "target_of"}
PULLS: list[Operation] = []
IDS = range(1, 25)


def operation(name: str, variant: str, holds: Holds) -> Callable[[Make], Make]:
    """Adds an operation to the list."""

    def add(make: Make) -> Make:
        PULLS.append(Operation(name, variant, make, holds))
        return make

    return add


def begun(world: World) -> bool:
    """The pull is there, in its first epoch."""
    found = [pull.definition for pull in world.manager.pulls.all()]
    return [one.epoch - one.begun for one in found] == [1]


def taken(world: World) -> bool:
    """Both messages and both entries."""
    known = [len(pull) for pull in world.manager.pulls.all()]
    return known == [2] and world.bodies("answers") == [b"1", b"2"]


@operation("begin", "", begun)
def _begin(scene: Scene) -> Call:
    name = parse_name(r".\private$\answers")
    return lambda m: m.pulls.begin(GUID, SOURCE, "far", name, scene.session, LEASE_MS)


@operation("take", "", taken)
def _take(scene: Scene) -> Call:
    source = Source(scene.world, "answers")
    return lambda m: take(m, source.pull, source.epoch, offer(1, 2), source.holder)


@operation("take", "again", taken)
def _take_again(scene: Scene) -> Call:
    source = Source(scene.world, "answers")
    source.take(offer(1))
    return lambda m: take(m, source.pull, source.epoch, offer(1, 2), source.holder)


@operation("forget", "", lambda world: world.manager.pulls.all() == [])
def _forget(scene: Scene) -> Call:
    source = Source(scene.world, "answers")
    source.take(offer(1, 2))
    scene.world.run(lambda m: m.end_session(source.holder))
    return lambda m: m.pulls.forget(source.pull.definition.number)


@pytest.mark.parametrize("operation", PULLS, ids=str)
def test_an_answer_comes_when_what_it_says_is_durable(operation: Operation) -> None:
    found = outcome(operation, WatchedDriver)
    assert not found.before_sync
    assert found.kept == found.decided
    assert found.holds


@pytest.mark.parametrize("operation", PULLS, ids=str)
def test_a_driver_that_does_not_wait_would_be_noticed(operation: Operation) -> None:
    found = outcome(operation, HastyDriver)
    assert found.before_sync
    assert found.kept < found.decided
    assert not found.holds


def test_everything_that_is_asked_of_pulls_is_among_them() -> None:
    methods = {n for n, _ in inspect.getmembers(Pulls, inspect.isfunction) if n[0] != "_"}
    assert methods - MACHINERY == {operation.name for operation in PULLS}


# -- the power goes at any operation of the disk


def make_queue(world: World) -> None:
    world.create("orders")


def pull_some(world: World) -> None:
    """Four more in each step, two of which were offered before; small segments fill and go."""
    source = Source(world)
    known = len(source.pull)
    source.take(offer(*IDS[max(known - 2, 0) : known + 4], extension=bytes(150)))
    world.run(lambda m: m.end_session(source.holder))


def receive_one(world: World) -> None:
    world.receive("orders")


def stop_and_start(world: World) -> None:
    world.restart()


def kill_and_start(world: World) -> None:
    world.kill()
    world.check()


PULLING: tuple[Step, ...] = (
    make_queue,
    *(pull_some, pull_some, receive_one, stop_and_start),
    *(pull_some, kill_and_start, receive_one, pull_some, receive_one, pull_some),
)
RECEIVED = 3


@pytest.mark.parametrize("bare", [False, True], ids=["whole", "log only"])
def test_after_any_power_loss_the_pull_goes_on_and_each_message_comes_once(
    bare: bool, dose: Dose
) -> None:
    seen = 0

    def look(moment: Moment) -> None:
        nonlocal seen
        for label, found in crashed(moment.disk, dose(1, 4)):
            if bare:
                found = without_conveniences(found)
            goes_on(check(found, moment.witness, f"operation {moment.number}, {label}"))
            seen += 1

    moments(look, every=dose(3, 1), steps=PULLING)
    assert seen > 50


def goes_on(world: World) -> None:
    """Everything is offered again, and each message is here, or was received here, once."""
    if not any("orders" in queue.name for queue in world.manager.queues.all()):
        return
    before = world.bodies("orders")
    known = [
        entry.lookup_id
        for pull in world.manager.pulls.all()
        for entry, _ in pull.entries_after(0, 100)
    ]
    missing = len(known) - len(before)
    assert 0 <= missing <= RECEIVED, "an entry is there for each message, and for no other"
    assert before == [b"%d" % one for one in known[missing:]]
    source = Source(world)
    source.take(offer(*IDS, extension=bytes(150)))
    assert world.bodies("orders") == [b"%d" % one for one in IDS[missing:]]
