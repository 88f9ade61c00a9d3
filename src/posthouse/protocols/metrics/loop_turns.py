"""The turns of the loop, as the metrics show them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from posthouse.protocols.metrics.exposition import SyncTimes, histogram


class TurnTimes(SyncTimes, Protocol):
    """CPU time of turns, with the longest and how many were above the limit."""

    longest_s: float
    slow_count: int


def turn_metrics(times: TurnTimes) -> Iterator[Metric]:
    """What turns of the loop took."""
    yield histogram(
        "posthouse_loop_turn_seconds",
        "CPU seconds of turns of the event loop.",
        times,
    )
    yield GaugeMetricFamily(
        "posthouse_loop_turn_longest_seconds",
        "CPU seconds of the longest turn since the start.",
        value=times.longest_s,
    )
    yield CounterMetricFamily(
        "posthouse_loop_slow_turns", "Turns of more than 50 ms.", value=times.slow_count
    )
