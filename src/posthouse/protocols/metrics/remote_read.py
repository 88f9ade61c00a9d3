"""The metrics of remote read ([MS-MQRR]), from figures of its server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class RemoteReadSample(Protocol):
    """The figures of the endpoints; another door's type, so only its form is known here."""

    @property
    def connections(self) -> int:
        """Connections of RPC clients."""

    @property
    def clients(self) -> int:
        """Association groups that have something open."""

    @property
    def opened(self) -> int:
        """Queues that remote readers have open."""

    @property
    def waiting(self) -> int:
        """Reads that wait for a message."""

    @property
    def pending(self) -> int:
        """Receives that were begun and not ended."""

    @property
    def cleaned_up(self) -> int:
        """Receives that were not ended in time."""

    @property
    def logins_refused(self) -> int:
        """Logins that proved nothing."""

    @property
    def calls(self) -> Mapping[str, int]:
        """Calls by method."""

    @property
    def faults(self) -> Mapping[str, int]:
        """Faults by status."""

    @property
    def refused(self) -> Mapping[str, int]:
        """Connections turned away or broken off, by reason."""


AskFigures = Callable[[], RemoteReadSample]
_GAUGES: Final = {
    "connections": "Connections of RPC clients.",
    "clients": "Remote readers with an open queue or transaction.",
    "opened": "Queues that remote readers have open.",
    "waiting": "Reads of remote readers that wait for a message.",
    "pending": "Receives of remote readers in progress.",
}


def remote_read_metrics(figures: RemoteReadSample) -> Iterator[Metric]:
    """Every family of the protocol."""
    for name, about in _GAUGES.items():
        yield GaugeMetricFamily(f"posthouse_rpc_{name}", about, getattr(figures, name))
    for name, about in (
        ("cleaned_up", "Receives undone because their reader did not finish them."),
        ("logins_refused", "Logins over RPC refused."),
    ):
        yield CounterMetricFamily(f"posthouse_rpc_{name}", about, getattr(figures, name))
    yield _counter("calls", "Calls of remote readers.", "method", figures.calls)
    yield _counter(
        "faults", "Calls of remote readers that failed, by status.", "status", figures.faults
    )
    yield _counter("refusals", "Connections of RPC clients refused.", "reason", figures.refused)


def _counter(name: str, about: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"posthouse_rpc_{name}", about, labels=[label])
    for key, count in sorted(values.items()):
        family.add_metric([key], count)
    return family
