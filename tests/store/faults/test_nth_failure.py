"""The n-th call on the disk fails, for every n: the process ends, and nothing answered is lost."""

from __future__ import annotations

import errno
from collections import Counter

import pytest

from posthouse.model.errors import MessageStorageFailed, ServiceNotAvailable
from posthouse.model.properties import QueueProperties
from posthouse.runtime.driver import Call
from posthouse.sim import SimDisk
from posthouse.sim.faults import Kind
from posthouse.store.errors import StoreDamaged, StoreFailed
from tests.conftest import Dose
from tests.store.faults.harness import Moment, check, crashed, moments, play, usual_calls
from tests.store.faults.world import World

KINDS: tuple[Kind, ...] = (
    "create",
    "write",
    "begin",
    "sync",
    "rename",
    "unlink",
    "sync_directory",
)


def numbers(kind: str, usual: int, soak: int, dose: Dose) -> range:
    """Which calls of a kind fail: all of them in a soak, this many evenly spread ones else."""
    count = usual_calls().get(kind, 0)
    return range(1, count + 1, max(1, count // dose(usual, soak)))


def play_until_it_fails(disk: SimDisk) -> tuple[World, bool]:
    """The script up to the end of the process, if it comes to that."""
    world = World(disk)
    try:
        play(world.start())
    except StoreFailed:
        return world, True
    return world, False


def refuses_everything(world: World) -> None:
    """Whoever goes on with a failed store gets nothing out of it, whether it writes or not."""
    calls: tuple[Call, ...] = (
        lambda m: m.transactions.create_transaction(bytes(range(1, 17))),
        lambda m: m.queues.queue_properties(".\\private$\\orders", world.admin),
        lambda m: m.queues.create_queue(".\\private$\\new", QueueProperties(), world.admin),
    )
    for call in calls:
        with pytest.raises((StoreFailed, ServiceNotAvailable)):
            world.run(call)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/14", "MS-MQDMPR 3.1.4.4/7", "MS-MQDMPR 3.1.7.1.9/11")
@pytest.mark.parametrize("kind", KINDS)
def test_the_nth_failure_ends_the_process_and_loses_nothing_answered(
    kind: Kind, dose: Dose
) -> None:
    seen = Counter[str]()
    for number in numbers(kind, 8, 10_000, dose):
        disk = SimDisk(seed=number)
        disk.fail_at(number, kind)
        world, ended = play_until_it_fails(disk)
        (failed,) = [operation for operation in disk.operations if operation.error]
        # A file that nobody counts on yet is looked at in the next step of upkeep.
        assert ended or failed.name.endswith(".tmp"), failed
        for label, found in crashed(disk, dose(1, 3)):
            check(found, world.witness, f"{kind} {number} failed, {label}")
        seen["failures"] += 1
    print(kind, dict(seen))
    assert seen["failures"] > 6


@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_is_full_for_a_moment_loses_nothing(kind: Kind, dose: Dose) -> None:
    """ENOSPC costs a checkpoint or an express file at most; the log cannot go on without room."""
    seen = Counter[str]()
    for number in numbers(kind, 4, 10_000, dose):
        disk = SimDisk(seed=number)
        disk.fail_at(number, kind, error=errno.ENOSPC)
        world, ended = play_until_it_fails(disk)
        seen["ended" if ended else "went on"] += 1
        for label, found in crashed(disk, dose(1, 3)):
            check(found, world.witness, f"{kind} {number} without room, {label}")
    print(kind, dict(seen))


def test_a_failed_store_answers_nobody_any_more(dose: Dose) -> None:
    seen = Counter[str]()
    for number in numbers("any", 12, 400, dose):
        disk = SimDisk(seed=number)
        disk.fail_at(number)
        world, ended = play_until_it_fails(disk)
        if ended and hasattr(world, "driver") and world.driver.store is world.store:
            refuses_everything(world)
            answered = world.witness.answered
            assert world.driver.release() == 0
            assert world.witness.answered == answered
            seen["refusing"] += 1
    print(dict(seen))
    assert seen["refusing"] > 6


def test_a_process_that_starts_again_on_the_same_machine_goes_on(dose: Dose) -> None:
    """The machine stays on: what the failed call left is seen by the next process."""
    seen = Counter[str]()
    for number in numbers("any", 13, 10_000, dose):
        disk = SimDisk(seed=number)
        disk.fail_at(number)
        world, _ = play_until_it_fails(disk)
        check(disk.clone(), world.witness, f"call {number} failed").check_goes_on()
        seen["starts"] += 1
    print(dict(seen))
    assert seen["starts"] > 12


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/14")
def test_a_failure_while_a_torn_store_is_opened_changes_nothing(dose: Dose) -> None:
    """Cutting off a torn tail writes too, and each of these calls can fail."""
    seen = Counter[str]()

    def look(moment: Moment) -> None:
        found = moment.disk.clone().crash("random", seed=moment.number)
        whole = check(found.clone(), moment.witness)
        if not whole.recovered.torn_bytes:
            return
        for number in range(1, 30):
            copy = found.clone()
            copy.fail_at(number)
            world = World(copy, moment.witness)
            try:
                world.open_store()
                break
            except StoreFailed:
                seen[next(o.kind for o in copy.operations if o.error)] += 1
            for label, left in crashed(copy, 1):
                why = f"operation {moment.number}, call {number} of the start failed, {label}"
                assert check(left, moment.witness, why).kept == whole.kept

    moments(look, every=dose(11, 1))
    print(dict(seen))
    assert {"truncate", "sync", "write", "sync_directory"} <= seen.keys()


def test_the_nth_read_that_fails_loses_nothing(dose: Dose) -> None:
    """It costs a start, upkeep the process, a reader its answer: never what is stored."""
    seen = Counter[str]()
    for number in numbers("read", 40, 10_000, dose):
        disk = SimDisk(seed=number)
        disk.fail_at(number, "read")
        world = World(disk)
        try:
            play(world.start())
        except (OSError, StoreFailed, StoreDamaged, MessageStorageFailed) as error:
            seen[type(error).__name__] += 1
            if isinstance(error, MessageStorageFailed):
                assert not world.driver.failed
                world.check_books()
        else:
            seen["went on"] += 1
        for label, found in crashed(disk, 1):
            check(found, world.witness, f"read {number} failed, {label}")
    print(dict(seen))
    assert seen.total() > 12
    assert seen["MessageStorageFailed"]
