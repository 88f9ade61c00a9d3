"""Seeded trials of seven queue managers in three sites, with routers, gates and lines that fail.

As `test_simulation.py`, but nobody reaches everybody: messages go over routing servers and gates,
by a directory that changes under way and that no two machines need to agree on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from posthouse.engine.receiving import Receiving
from posthouse.protocols.binary.protocol import BinaryProtocol
from posthouse.sim.routed import RoutedTrial
from posthouse.sim.trial import Failed
from tests.conftest import Dose

CHUNKS = 20


@pytest.mark.spec("MS-MQQB 3.1.7.5/1")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_message_arrives_once_and_in_order_over_routers_that_fail(
    chunk: int, dose: Dose
) -> None:
    count = dose(100, 2_000) // CHUNKS
    totals: Counter[str] = Counter()
    for seed in range(chunk * count, (chunk + 1) * count):
        trial = RoutedTrial(seed)
        totals.update(trial.run().figures())
        totals["directory changes"] += trial.directory_changes
        totals["over routers"] += sum(hops > 0 for hops in trial.told.hops.values())
    print(dict(totals))
    assert totals["arrived"] > totals["sent"] // 4
    assert totals["over routers"] > totals["arrived"] // 10
    assert totals["crashes"] > 0
    assert totals["cuts"] > 0
    assert totals["directory changes"] > 0


@pytest.mark.parametrize("seed", range(2))
def test_the_same_seed_gives_the_same_trial(seed: int) -> None:
    one, two = RoutedTrial(seed), RoutedTrial(seed)
    assert one.run() == two.run()
    assert one.network.trace == two.network.trace
    assert one.told == two.told


# -- a trial notices what it is for


def trust_no_router(monkeypatch: pytest.MonkeyPatch) -> None:
    """What routers bring counts for nothing."""
    monkeypatch.setattr(BinaryProtocol, "_is_router", lambda *arguments: False)


def drop_what_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A router says that it has what it only had in its hands."""
    monkeypatch.setattr(Receiving, "_forward", lambda *arguments: None)


BROKEN = [trust_no_router, drop_what_passes]


@pytest.mark.parametrize("break_it", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_rule_is_noticed(
    break_it: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    assert "faults" in next((words for seed in range(40) if (words := words_of(seed))), "")


def words_of(seed: int) -> str:
    """How a trial failed, if it did."""
    try:
        RoutedTrial(seed).run()
    except Failed as failure:
        return str(failure)
    return ""
