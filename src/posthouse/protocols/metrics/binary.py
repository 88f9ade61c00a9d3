"""The metrics of the binary protocol ([MS-MQQB]), from figures of its server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

# Names in the figures' traffic, without their direction.
_TRAFFIC: Final = {
    "packets": "Packets in sessions with other queue managers.",
    "bytes": "Bytes in sessions with other queue managers.",
    "messages": "Messages in sessions with other queue managers, order acknowledgments included.",
}


class BinarySample(Protocol):
    """The figures of the protocol; another door's type, so only its form is known here."""

    @property
    def sessions(self) -> Mapping[tuple[str, str], int]:
        """Sessions by role and state."""

    @property
    def links(self) -> Mapping[str, int]:
        """Connections to destinations, by state."""

    @property
    def opened(self) -> Mapping[str, int]:
        """Sessions that were open so far, by role."""

    @property
    def refused(self) -> Mapping[str, int]:
        """What closed sessions or kept them from opening, by reason."""

    @property
    def traffic(self) -> Mapping[str, int]:
        """`packets_in` and so on."""

    @property
    def pings_asked(self) -> int:
        """Pings sent."""

    @property
    def pings_answered(self) -> int:
        """Pings of others that got an answer."""


AskFigures = Callable[[], BinarySample]


def binary_metrics(figures: BinarySample) -> Iterator[Metric]:
    """Every family of the protocol."""
    yield _sessions(figures)
    links = GaugeMetricFamily(
        "posthouse_binary_links",
        "Destinations, by the state of their connection.",
        labels=["state"],
    )
    for state, count in sorted(figures.links.items()):
        links.add_metric([state], count)
    yield links
    yield _counter("sessions_opened", "Sessions opened since the start.", "role", figures.opened)
    yield _counter(
        "refusals", "Sessions refused or broken off, by reason.", "reason", figures.refused
    )
    for what, about in _TRAFFIC.items():
        sums = {way: figures.traffic[f"{what}_{way}"] for way in ("in", "out")}
        yield _counter(what, about, "direction", sums)
    pings = {"asked": figures.pings_asked, "answered": figures.pings_answered}
    yield _counter("pings", "Pings sent, and pings of other machines answered.", "kind", pings)


def _sessions(figures: BinarySample) -> Metric:
    family = GaugeMetricFamily(
        "posthouse_binary_sessions",
        "Open sessions with other queue managers.",
        labels=["role", "state"],
    )
    for (role, state), count in sorted(figures.sessions.items()):
        family.add_metric([role, state.lower()], count)
    return family


def _counter(name: str, about: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"posthouse_binary_{name}", about, labels=[label])
    for value, count in sorted(counts.items()):
        family.add_metric([value], count)
    return family
