"""What was promised beside the others, as ratios that are made inside each round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Final, NamedTuple

from benchmarks.figures import Beside, Goal
from benchmarks.peers.contest import OURS, PAIR, PEERS, Leg
from benchmarks.peers.work import (
    END_TO_END,
    LARGE_BODIES,
    ONE_AT_A_TIME,
    RECEIVE,
    RELAY,
    RELAY_TRANSACTIONS,
    SEND,
    TRANSACTION,
)

Results = dict[str, dict[str, list[Leg]]]  # by the words of the work, then by peer: round by round
Measure = Callable[[Leg], float]


class Target(NamedTuple):
    """Ours divided by theirs."""

    case: str
    peer: str
    measure: Measure
    required: float
    aim: float | None
    at_most: bool = False
    words: str = ""
    ours: str = OURS


def _rate(leg: Leg) -> float:
    return leg.rate


def _cpu(leg: Leg) -> float:
    return leg.cpu_us


def _p50(leg: Leg) -> float:
    assert leg.p50_ms is not None
    return leg.p50_ms


def _p99(leg: Leg) -> float:
    assert leg.p99_ms is not None
    return leg.p99_ms


TARGETS: Final = (
    Target(END_TO_END, "rabbitmq", _rate, 4, 6),
    Target(END_TO_END, "nats", _rate, 0.9, 1.2),
    Target(SEND, "rabbitmq", _rate, 9, 12),
    Target(SEND, "redis", _rate, 3.8, 5),
    Target(SEND, "postgresql", _rate, 13, None),
    Target(RECEIVE, "rabbitmq", _rate, 3.5, 5),
    Target(RECEIVE, "redis", _rate, 2, 3),
    Target(RECEIVE, "postgresql", _rate, 1.1, 1.5),
    Target(ONE_AT_A_TIME, "rabbitmq", _rate, 2, 2.6),
    Target(ONE_AT_A_TIME, "redis", _rate, 1, 1.3),
    Target(ONE_AT_A_TIME, "postgresql", _rate, 1, 1.3),
    Target(ONE_AT_A_TIME, "rabbitmq", _p50, 0.5, 0.38, at_most=True, words=": p50"),
    Target(ONE_AT_A_TIME, "rabbitmq", _p99, 0.6, 0.35, at_most=True, words=": p99"),
    Target(TRANSACTION, "rabbitmq", _rate, 8, 12),
    Target(TRANSACTION, "redis", _rate, 1.1, 1.6),
    Target(TRANSACTION, "postgresql", _rate, 1.1, 1.6),
    *(Target(f"{bodies}, sent", "rabbitmq", _rate, 1.5, 2.5) for bodies in LARGE_BODIES),
    *(Target(f"{bodies}, received", "rabbitmq", _rate, 1.3, 2) for bodies in LARGE_BODIES),
    *(Target(f"{bodies}, received", "redis", _rate, 1, 1.3) for bodies in LARGE_BODIES),
    *(
        Target(case, "rabbitmq", _cpu, 0.5, 0.25, at_most=True, words=": CPU a message")
        for case in (END_TO_END, SEND, RECEIVE, ONE_AT_A_TIME, TRANSACTION)
    ),
    *(
        Target(case, "rabbitmq", _rate, 2.5, 4, words=": two managers", ours=PAIR)
        for case in (RELAY, RELAY_TRANSACTIONS)
    ),
)


def median_of_ratios(ours: Sequence[Leg], theirs: Sequence[Leg], measure: Measure) -> float:
    """Ours divided by theirs, round by round."""
    return median(ratios(ours, theirs, measure))


def ratios(ours: Sequence[Leg], theirs: Sequence[Leg], measure: Measure) -> list[float]:
    """Those of each round."""
    return [measure(a) / measure(b) for a, b in zip(ours, theirs, strict=True)]


def goals(benchmark: str, results: Results) -> list[Goal]:
    """A verdict on each promise whose two sides were measured."""
    return [
        _goal(benchmark, target, *_sides(results, target))
        for target in TARGETS
        if all(_sides(results, target))
    ]


def _goal(benchmark: str, target: Target, ours: list[Leg], theirs: list[Leg]) -> Goal:
    found = sorted(ratios(ours, theirs, target.measure), reverse=target.at_most)
    return Goal(
        benchmark,
        f"{target.case}{target.words}, times {PEERS[target.peer].server.title}",
        median(found),
        target.required,
        target.aim,
        at_most=target.at_most,
        beside=Beside(found[0], found[-1], *(median(map(_cpu, legs)) for legs in (ours, theirs))),
    )


def _sides(results: Results, target: Target) -> tuple[list[Leg], list[Leg]]:
    legs = results.get(target.case, {})
    return legs.get(target.ours, []), legs.get(target.peer, [])
