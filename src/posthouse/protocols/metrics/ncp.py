"""The metrics of NCP, from figures of its server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class NcpSample(Protocol):
    """The figures of the endpoint; another door's type, so only its form is known here."""

    @property
    def connections(self) -> int:
        """Service connections."""

    @property
    def logged_in(self) -> int:
        """Those on which somebody has logged in."""

    @property
    def calls(self) -> Mapping[str, int]:
        """Calls by name."""

    @property
    def completions(self) -> Mapping[str, int]:
        """Answers by completion code."""

    @property
    def repeated(self) -> int:
        """Kept replies that were sent again."""

    @property
    def working(self) -> int:
        """Requests that were asked again while they ran."""

    @property
    def polled(self) -> int:
        """Questions of the watchdog."""

    @property
    def refused(self) -> Mapping[str, int]:
        """Connections and datagrams turned away, by reason."""


AskFigures = Callable[[], NcpSample]
_GAUGES: Final = {
    "connections": "Service connections of NetWare clients.",
    "logged_in": "Service connections with a login.",
}
_COUNTERS: Final = {
    "repeated": "Replies sent again to a repeated request on UDP.",
    "working": "Requests on UDP repeated while they were in progress.",
    "polled": "Watchdog requests to silent clients.",
}


def ncp_metrics(figures: NcpSample) -> Iterator[Metric]:
    """Every family of the protocol."""
    for name, about in _GAUGES.items():
        yield GaugeMetricFamily(f"posthouse_ncp_{name}", about, getattr(figures, name))
    for name, about in _COUNTERS.items():
        yield CounterMetricFamily(f"posthouse_ncp_{name}", about, getattr(figures, name))
    yield _counter("calls", "Calls of NetWare clients.", "call", figures.calls)
    yield _counter("completions", "Answers by their completion code.", "code", figures.completions)
    yield _counter("refusals", "Connections and datagrams refused.", "reason", figures.refused)


def _counter(name: str, about: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"posthouse_ncp_{name}", about, labels=[label])
    for key, count in sorted(values.items()):
        family.add_metric([key], count)
    return family
