"""Seeded trials of two and three queue managers on bad machines and a bad network.

A trial sends messages of every kind in all directions, cuts and crashes whatever there is, lets
everything come to rest, and then accounts for each message by `posthouse.sim.balance_check`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from posthouse.engine.messages.outcome import MessageOutcomes
from posthouse.engine.transfer.arrivals import SequencePlace
from posthouse.engine.transfer.message_history import MessageHistory
from posthouse.engine.transfer.outgoing_sequences import Sequences
from posthouse.sim.trial import Failed, Trial
from tests.conftest import Dose

CHUNKS = 10


@pytest.mark.spec("MS-MQQB 3.1.1.1.1.5/1", "MS-MQQB 3.1.1.6/1")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_message_arrives_once_and_in_order_and_is_accounted_for(
    chunk: int, dose: Dose
) -> None:
    count = dose(100, 6_000) // CHUNKS
    totals: Counter[str] = Counter()
    for seed in range(chunk * count, (chunk + 1) * count):
        totals.update(Trial(seed).run().figures())
    print(dict(totals))
    assert totals["arrived"] > totals["sent"] // 4  # full queues turn many away
    assert totals["crashes"] > 0
    assert totals["cuts"] > 0


@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_gives_the_same_trial(seed: int) -> None:
    one, two = Trial(seed), Trial(seed)
    assert one.run() == two.run()
    assert one.network.trace == two.network.trace
    assert one.told == two.told
    assert Trial(seed + 1).network.seed != one.network.seed


# -- a trial notices what it is for


def forget_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came in is remembered in memory only."""
    monkeypatch.setattr(MessageHistory, "_define", lambda *arguments: None)


def acknowledge_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message out of order moves its sequence on."""

    monkeypatch.setattr(SequencePlace, "reject", SequencePlace.accept)


def answer_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody hears what became of transactional messages."""
    monkeypatch.setattr(MessageOutcomes, "_answer_finally", lambda *arguments: None)


def believe_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """An order acknowledgment counts for everything that was sent."""
    honest = Sequences.order_acknowledged

    def order_acknowledged(self: Sequences, queue: object, sequence: int, number: int) -> bool:
        sent = self._sent.get(queue.number, (0, 0))[1]  # type: ignore[attr-defined]
        return honest(self, queue, sequence, max(number, sent))  # type: ignore[arg-type]

    monkeypatch.setattr(Sequences, "order_acknowledged", order_acknowledged)


BROKEN = [forget_history, acknowledge_rejected, answer_nothing, believe_more]


@pytest.mark.parametrize("break_it", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_rule_is_noticed(
    break_it: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    failure = next((words for seed in range(60) if (words := words_of(seed))), "")
    assert "faults" in failure
    assert "Error" not in failure  # it broke nothing else


def words_of(seed: int) -> str:
    """How a trial failed, if it did."""
    try:
        Trial(seed).run()
    except Failed as failure:
        return str(failure)
    return ""
