"""Streams whose options, groups, queues, managers, homes and checkpoints change between runs.

`change_history.py` has the promises that every history keeps, and what is not counted as broken.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from posthouse.spark import stream_planner
from tests.conftest import Dose
from tests.spark.change_faults import FAULTS
from tests.spark.change_history import Broken, RenamedAt, RenamedHistory, Town
from tests.spark.change_town import Player, town

PARTS = 4  # of the histories, for workers to share
CALLS_MAX = 200  # of a run
TRIED = 120  # histories that a fault has to be found in


@pytest.fixture(scope="module")
def made() -> Iterator[tuple[Town, Path]]:
    with town() as found:
        yield found


@pytest.fixture
def played(made: tuple[Town, Path], caplog: pytest.LogCaptureFixture) -> Player:
    """`played(seed)`: the history of a seed, played to its end."""
    caplog.set_level(logging.CRITICAL, "posthouse")  # refusals are what it is about
    return Player(made)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
def test_changes_lose_and_repeat_nothing(part: int, played: Player, dose: Dose) -> None:
    for seed in range(part, dose(120, 20_000), PARTS):
        played(seed)


@pytest.mark.timeout(7200)
def test_a_renamed_queue_manager_is_the_same_one(made: tuple[Town, Path], dose: Dose) -> None:
    """Among all other changes: what people do is drawn."""
    player = Player(made, RenamedHistory)
    for seed in range(dose(12, 2_000)):
        player(seed)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kills", [True, False])
def test_a_rename_before_any_call_loses_and_repeats_nothing(
    kills: bool, made: tuple[Town, Path], caplog: pytest.LogCaptureFixture, dose: Dose
) -> None:
    """At every point of a run, for streams that look and streams that consume."""
    caplog.set_level(logging.CRITICAL, "posthouse")
    player, seen = Player(made, RenamedAt), set[bool]()
    for seed in range(dose(2, 40)):
        for at in range(seed % 3, CALLS_MAX, dose(3, 1)):
            history = player(seed, at=at, kills=kills)
            seen.add(history.consumes)
            if not history.is_long_enough:  # type: ignore[attr-defined]
                break
    assert seen == {True, False}


@pytest.mark.parametrize("kills", [True, False])
def test_positions_that_stay_under_the_old_name_are_missed(
    kills: bool, made: tuple[Town, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_planner, "under_names", lambda offset, known: offset)
    player = Player(made, RenamedAt)
    played = (player(seed, at=seed % 20, kills=kills) for seed in range(100, 100 + TRIED))
    with pytest.raises(Broken):
        deque(played, maxlen=0)


@pytest.mark.parametrize("name", FAULTS)
def test_a_remedy_that_is_taken_out_is_missed(
    name: str, played: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = FAULTS[name]
    fault.plant(monkeypatch)
    seeds = range(fault.first, fault.first + TRIED)
    with pytest.raises(Broken):
        deque(map(played, seeds), maxlen=0)
