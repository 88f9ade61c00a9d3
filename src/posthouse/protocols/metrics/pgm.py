"""The metrics of multicast, from figures of its server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class PgmSample(Protocol):
    """The figures of PGM; another door's type, so only its form is known here."""

    @property
    def sources(self) -> int:
        """Sessions that send."""

    @property
    def groups(self) -> int:
        """Groups that are joined."""

    @property
    def sessions(self) -> int:
        """Sessions of others."""

    @property
    def sent(self) -> Mapping[str, int]:
        """What sources sent and heard, by kind."""

    @property
    def received(self) -> Mapping[str, int]:
        """What receivers heard and sent, by kind."""


_GAUGES: Final = {
    "sources": "Multicast sessions that send, including those that only repair.",
    "groups": "Multicast groups joined.",
    "sessions": "Multicast sessions received from other sources.",
}


def pgm_metrics(figures: PgmSample) -> Iterator[Metric]:
    """Every family of the protocol."""
    for name, about in _GAUGES.items():
        yield GaugeMetricFamily(f"posthouse_pgm_{name}", about, getattr(figures, name))
    about = "Packets sent as a multicast source, and requests received as one, by kind."
    yield _counter("source", about, figures.sent)
    about = "Packets received, delivered, lost and requested as a multicast receiver, by kind."
    yield _counter("receiver", about, figures.received)


def _counter(name: str, about: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"posthouse_pgm_{name}", about, labels=["what"])
    for key, count in sorted(values.items()):
        family.add_metric([key], count)
    return family
