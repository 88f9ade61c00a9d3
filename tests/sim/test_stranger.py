"""Seeded trials with a stranger on the network, and with machines that change their address.

The trials of `tests/protocols/binary/test_simulation.py`, `test_routed_simulation.py` and
`tests/protocols/srmp/test_simulation.py`, with the same account; `posthouse.sim.stranger` has what
the stranger knows and does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from posthouse.engine.transfer import arrivals as arriving
from posthouse.engine.transfer import receiving
from posthouse.engine.transfer.source_check import Speakers
from posthouse.engine.transfer.srmp import receiving as srmp_receiving
from posthouse.protocols.binary.handshake import Terms
from posthouse.protocols.binary.protocol import BinaryProtocol
from posthouse.protocols.binary.session import BinarySession
from posthouse.sim.stranger import Stranger
from posthouse.sim.stranger_trial import StrangerRoutedTrial, StrangerTrial
from posthouse.sim.trial import Failed, Summary
from posthouse.wire.binary.internal import EstablishConnection
from tests.conftest import Dose

WAYS: dict[str, Callable[[int], StrangerTrial]] = {
    "binary": StrangerTrial,
    "srmp": lambda seed: StrangerTrial(seed, "srmp"),
    "routed": StrangerRoutedTrial,
}
CHUNK = 5
SEEDS = {"binary": (15, 1_000), "srmp": (10, 800), "routed": (10, 400)}  # in `make test`, in soak
CHUNKS = [(way, chunk) for way, (usual, _) in SEEDS.items() for chunk in range(usual // CHUNK)]


@pytest.mark.parametrize(("way", "chunk"), CHUNKS)
def test_nothing_of_others_is_lost_doubled_reordered_or_stopped(
    way: str, chunk: int, dose: Dose
) -> None:
    usual, soak = SEEDS[way]
    count = CHUNK * dose(usual, soak) // usual
    totals: Counter[str] = Counter()
    for seed in range(chunk * count, (chunk + 1) * count):
        totals.update(WAYS[way](seed).run().figures())
    print(dict(totals))
    assert totals["arrived"] > totals["sent"] // 4
    assert totals["forged"] > 0


@pytest.mark.parametrize("way", WAYS)
def test_the_same_seed_gives_the_same_trial(way: str) -> None:
    one, two = WAYS[way](3), WAYS[way](3)
    assert one.run() == two.run()
    assert one.network.trace == two.network.trace
    assert one.told == two.told


def test_machines_change_their_address_in_a_third_of_the_trials() -> None:
    summaries = [StrangerTrial(seed).run() for seed in range(0, 12, 3)]
    assert sum(summary.moves for summary in summaries) > 0
    assert StrangerTrial(1).run().moves == StrangerTrial(2).run().moves == 0


def test_two_machines_send_through_one_nat() -> None:
    trial = StrangerTrial(1)
    trial.run()
    seen = {line.source.host for line in trial.network.trace if line.event == "accepted"}
    assert "10.77.0.1" in seen
    assert {"10.0.0.1", "10.0.0.3"}.isdisjoint(seen)


def test_what_anybody_may_send_is_delivered_and_shown_as_anonymous(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("posthouse.sim.stranger.WAYS", (Stranger.speak_for_itself,))
    trials = [StrangerTrial(seed) for seed in (2, 4, 5)]
    summaries: list[Summary] = [trial.run() for trial in trials]
    assert sum(summary.anonymous for summary in summaries) > 0
    assert not any(trial.told.vouched for trial in trials)


def test_answers_to_a_stranger_are_all_that_it_gets() -> None:
    """It was called because it had sent in MIKE's name, said that it was MIKE, and was believed."""
    trial = StrangerRoutedTrial(27)
    trial.run()


# -- a trial notices what it is for


def ignore_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message is known by its source and its number alone."""
    for module in (arriving, receiving):
        monkeypatch.setattr(module, "content_digest", lambda *arguments: bytes(16))
    monkeypatch.setattr(srmp_receiving, "web_digest", lambda *arguments: bytes(16))


def ignore_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sequence is the same, whoever sends in it."""
    monkeypatch.setattr(Speakers, "lineage", lambda *arguments: "")


def answer_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is owed to a queue manager goes to who has claimed its GUID last."""

    def carrier(self: BinaryProtocol, guid: bytes, number: int) -> BinarySession | None:
        found = self.sessions_with(guid)
        return found[-1] if found else None

    monkeypatch.setattr(BinaryProtocol, "_carrier", carrier)


def believe_acknowledgments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may say what became of a message."""
    monkeypatch.setattr(BinaryProtocol, "_may_acknowledge", lambda *arguments: True)


def take_itself_for_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever says to be this machine, or nobody, gets a session."""

    def refusal_of(self: Terms, request: EstablishConnection, *, admitted: bool) -> str:
        return "" if admitted else "too many sessions"

    monkeypatch.setattr(Terms, "refusal_of", refusal_of)


BROKEN = [
    ("binary", ignore_content),
    ("srmp", ignore_content),
    ("binary", ignore_hosts),
    ("binary", answer_anybody),
    ("binary", believe_acknowledgments),
    ("binary", take_itself_for_a_peer),
]


@pytest.mark.parametrize(("way", "break_it"), BROKEN, ids=lambda one: getattr(one, "__name__", one))
def test_a_broken_rule_is_noticed(
    way: str, break_it: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    failure = next((words for seed in range(40) if (words := words_of(way, seed))), "")
    assert "faults" in failure
    assert "Error" not in failure  # it broke nothing else


def words_of(way: str, seed: int) -> str:
    """How a trial failed, if it did."""
    try:
        WAYS[way](seed).run()
    except Failed as failure:
        return str(failure)
    return ""
