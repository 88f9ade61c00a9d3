"""Two-phase commit over a bad network with machines that die: everybody agrees in the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.security.peer_calls import Verb
from tests.conftest import SOAK
from tests.engine.machines import World

NAMES = ("ALPHA", "BETA", "GAMMA")


def run(world: World) -> bool:
    world.commit(world.work())
    world.settle()
    return world.check()


def test_without_trouble_everybody_commits_and_forgets() -> None:
    world = World(names=NAMES)
    assert run(world)
    assert world.heard == [None]


@pytest.mark.spec(
    "MS-MQDMPR 3.1.4.7/1", "MS-MQDMPR 3.1.4.8/1", "MS-MQDMPR 3.1.4.9/1", "MS-MQDMPR 3.1.4.10/1"
)
def test_whoever_dies_before_or_after_any_step_all_agree() -> None:
    quiet = World()
    assert run(quiet)
    outcomes = []
    for point in range(1, quiet.points + 1):
        world = World()
        world.deaths = {point}
        outcomes.append(run(world))
    assert len(outcomes) > 20
    assert True in outcomes
    assert False in outcomes


def test_two_deaths_at_any_two_steps_and_all_agree() -> None:
    points = 28
    step = 1 if SOAK else 3
    for first in range(1, points, step):
        for second in range(first + 1, points, step + 1):
            world = World()
            world.deaths = {first, second}
            run(world)


@given(st.integers(0, 10**6), st.sampled_from((0.0, 2.0, 8.0)), st.booleans())
def test_loss_doubling_and_death_by_chance_and_all_agree(
    seed: int, chance: float, lossy: bool
) -> None:
    world = World(seed, NAMES, lossy=lossy)
    transaction = world.work()
    world.chance = chance
    world.commit(transaction)
    world.settle()
    world.check()


@pytest.mark.parametrize("one_way", [False, True])
@pytest.mark.parametrize("after_ms", [0, 5, 15, 25, 35, 45, 60])
def test_a_cut_between_two_machines_heals_and_all_agree(after_ms: int, one_way: bool) -> None:
    world = World(names=NAMES)
    world.commit(world.work())
    world.clock.advance(after_ms)
    world.network.partition("BETA", "ALPHA", one_way=one_way)
    world.clock.advance(45_000)
    world.network.heal("ALPHA", "BETA")
    world.settle()
    world.check()


def test_who_asks_before_the_last_vote_has_come_waits_on() -> None:
    world = World(names=NAMES)
    world.network.partition("GAMMA", "ALPHA")
    world.commit(world.work())
    world.clock.advance(14_000)
    assert [ask.verb for ask in world.asks.values()].count(Verb.OUTCOME) > 0
    world.network.heal("GAMMA", "ALPHA")
    world.settle()
    assert world.check()


def test_a_client_that_leaves_aborts_everywhere() -> None:
    world = World(names=NAMES)
    world.work()
    world.machines[0].run(lambda m: m.end_session(world))
    world.settle()
    assert not world.check()
    assert world.heard == []
