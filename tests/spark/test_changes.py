"""Streams whose options, groups, queues, managers, homes and checkpoints change between runs.

`change_history.py` has the promises that every history keeps, and what is not counted as broken.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Dose
from tests.spark.change_faults import FAULTS
from tests.spark.change_history import Broken, Town
from tests.spark.change_town import Player, town

PARTS = 4  # of the histories, for workers to share
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


@pytest.mark.parametrize("name", FAULTS)
def test_a_remedy_that_is_taken_out_is_missed(
    name: str, played: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = FAULTS[name]
    fault.plant(monkeypatch)
    seeds = range(fault.first, fault.first + TRIED)
    with pytest.raises(Broken):
        deque(map(played, seeds), maxlen=0)
