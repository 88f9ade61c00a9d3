"""Seeded trials of two and three queue managers that post to each other, on bad machines.

As `tests/protocols/binary/test_simulation.py` does for the binary protocol: requests are cut after
any byte, answers and receipts are lost, machines lose power, and then every message is accounted
for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from posthouse.engine.transfer.arrivals import ReceivedBatch
from posthouse.engine.transfer.srmp.streams import IncomingStreams, StreamPlace
from posthouse.protocols.srmp.links import SrmpLinks
from posthouse.sim.trial import Failed, Trial
from tests.conftest import Dose

CHUNKS = 5


@pytest.mark.spec("MC-MQSRM 2.2.5.3/3", "MC-MQSRM 3.1.1.1.1/1")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_message_arrives_once_and_in_order_and_is_accounted_for(
    chunk: int, dose: Dose
) -> None:
    count = dose(50, 4_000) // CHUNKS
    totals: Counter[str] = Counter()
    for seed in range(chunk * count, (chunk + 1) * count):
        totals.update(Trial(seed, "srmp").run().figures())
    print(dict(totals))
    # Bursts of express messages go down with their machine.
    assert totals["arrived"] > totals["sent"] // 4
    assert totals["crashes"] > 0
    assert totals["cuts"] > 0


def test_what_is_taken_while_an_idle_connection_closes_is_sent_all_the_same() -> None:
    """In this one a message waited for ever: taken, and no connection to send it on."""
    Trial(2112, "srmp").run()


def test_the_same_seed_gives_the_same_trial() -> None:
    one, two = Trial(3, "srmp"), Trial(3, "srmp")
    assert one.run() == two.run()
    assert one.network.trace == two.network.trace
    assert one.told == two.told


# -- a trial notices what it is for


def remember_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Identifiers of durable messages are not kept."""
    monkeypatch.setattr(ReceivedBatch, "note", lambda *arguments: None)


def take_any_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams take whatever comes."""
    monkeypatch.setattr(StreamPlace, "follows", property(lambda place: True))


def answer_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody hears what became of messages of streams."""
    monkeypatch.setattr(IncomingStreams, "ended", lambda *arguments: None)


def give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails once is not tried again."""
    monkeypatch.setattr(SrmpLinks, "_fail", lambda *arguments: None)


BROKEN = [remember_nothing, take_any_place, answer_nothing, give_up]


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
        Trial(seed, "srmp").run()
    except Failed as failure:
        return str(failure)
    return ""
