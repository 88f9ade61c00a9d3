"""The power goes at every operation of the script; what the machine finds keeps every promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, combinations

import pytest
from msgspec.structs import replace

from posthouse.sim import PowerLost, SimDisk
from posthouse.store.log import LogStore
from tests.conftest import Dose
from tests.store.faults.harness import (
    Moment,
    check,
    crashed,
    moments,
    play,
    usual_calls,
    without_conveniences,
)
from tests.store.faults.script import STEPS
from tests.store.faults.world import STORE, World

SUBSET_MAX = 5  # unsynced changes of which every subset is tried


@pytest.mark.spec(
    "MS-MQDMPR 3.1.1/1",
    "MS-MQDMPR 3.1.1.1/21",
    "MS-MQDMPR 3.1.1.11/6",
    "MS-MQDMPR 3.1.1.12/14",
    "MS-MQDMPR 3.1.3/21",
    "MS-MQDMPR 3.1.4.3/5",
    "MS-MQDMPR 3.1.4.4/7",
    "MS-MQDMPR 3.1.7.1.3/14",
    "MS-MQDMPR 3.1.7.1.4/3",
    "MS-MQDMPR 3.1.7.1.16/1",
    "MS-MQDMPR 3.1.7.2.1/2",
)
def test_power_loss_at_every_operation_loses_nothing_that_was_answered(dose: Dose) -> None:
    seen = Counter[str]()

    def look(moment: Moment) -> None:
        for label, found in crashed(moment.disk, dose(1, 8)):
            world = check(found, moment.witness, f"operation {moment.number}, {label}")
            seen["torn"] += world.recovered.torn_bytes > 0
            seen["crashes"] += 1

    moments(look, every=dose(3, 1))
    print(dict(seen))
    assert seen["crashes"] > 800
    assert seen["torn"] > 10


def test_checkpoints_and_indexes_may_be_lost_with_the_power(dose: Dose) -> None:
    seen = Counter[str]()

    def look(moment: Moment) -> None:
        for label, found in crashed(moment.disk, dose(1, 8)):
            bare = without_conveniences(found)
            check(bare, moment.witness, f"operation {moment.number}, {label}, log only")
            seen["full replays"] += 1

    moments(look, every=dose(5, 1))
    print(dict(seen))
    assert seen["full replays"] > 400


def test_any_subset_of_the_unsynced_changes_may_reach_the_disk(dose: Dose) -> None:
    """Every choice among the changes of the log; those of other files all go or all stay."""
    seen = Counter[str]()

    def look(moment: Moment) -> None:
        pending = moment.disk.pending()
        log = [place for place, change in enumerate(pending) if change.name.endswith(".log")]
        others = [place for place in range(len(pending)) if place not in log]
        if len(log) > SUBSET_MAX:
            seen["too many"] += 1
            return
        for keep in subsets(log):
            for more in ((), others):
                found = moment.disk.clone().crash(keep=[*keep, *more])
                check(found, moment.witness, f"operation {moment.number}, kept {keep}, {more}")
                seen["subsets"] += 1

    moments(look, every=dose(11, 1))
    print(dict(seen))
    assert seen["subsets"] > 300


def subsets(places: list[int]) -> Iterator[tuple[int, ...]]:
    """All choices of these."""
    sizes = range(len(places) + 1)
    return chain.from_iterable(combinations(places, size) for size in sizes)


@pytest.mark.spec("MS-MQDMPR 3.1.1/1")
def test_power_loss_while_opening_the_store_changes_nothing(dose: Dose) -> None:
    """Recovery writes too: cut off anywhere, the next one comes to the same result."""
    seen = Counter[str]()

    def look(moment: Moment) -> None:
        for label, found in crashed(moment.disk, dose(1, 3)):
            kept = check(found.clone(), moment.witness).kept
            for number in range(1, 40):
                left = interrupted(found, number)
                if left is None:
                    break
                for again, twice in crashed(left, 1):
                    why = f"operation {moment.number}, {label}, start cut off at {number}, {again}"
                    assert check(twice, moment.witness, why).kept == kept, why
                    seen["starts cut off"] += 1

    moments(look, every=dose(97, 3))
    print(dict(seen))
    assert seen["starts cut off"] > 200


def interrupted(disk: SimDisk, number: int) -> SimDisk | None:
    """The disk after a start that lost its power at an operation; None if it has fewer."""
    copy = disk.clone()
    copy.lose_power_at(number)
    try:
        LogStore(copy, STORE).recover()
    except PowerLost:
        return copy
    return None


def test_a_process_without_power_lets_nothing_out(dose: Dose) -> None:
    """The same with the process still running: it learns nothing more and answers nobody."""
    seen = Counter[str]()
    for number in range(1, usual_calls()["any"], dose(97, 2)):
        disk = SimDisk(number)
        disk.lose_power_at(number)
        world = World(disk)
        with pytest.raises(PowerLost):
            play(world.start())
        for label, found in crashed(disk, 2):
            check(found, world.witness, f"power lost at {number}, {label}").check_goes_on()
            seen["lives"] += 1
    print(dict(seen))
    assert seen["lives"] > 30


def test_checkpoints_of_a_thread_are_as_good(dose: Dose) -> None:
    """A big checkpoint is written beside the loop; when it is done is nobody's plan."""
    settings = replace(STORE, checkpoint_inline=0)
    seen = Counter[str]()
    for seed in range(dose(2, 40)):
        world = World(SimDisk(seed), store=settings).start()
        for step in STEPS:
            step(world)
            world.tidy(3)
            for label, found in crashed(world.disk, 1):
                check(found, world.witness.now(), f"{step.__name__}, {label}")
                seen["crashes"] += 1
        world.stop()
        seen["checkpoints"] += world.disk.calls["rename"]
    print(dict(seen))
    assert seen["checkpoints"] > 20
