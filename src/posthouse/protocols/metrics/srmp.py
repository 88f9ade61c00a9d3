"""The metrics of messages over HTTP ([MC-MQSRM]), from figures of their server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_TRAFFIC: Final = {
    "bytes": "Bytes of messages over HTTP.",
    "messages": "Messages over HTTP, receipts included; out counts repeats too.",
}


class SrmpSample(Protocol):
    """The figures of the protocol; another door's type, so only its form is known here."""

    @property
    def connections(self) -> int:
        """Connections that others have open."""

    @property
    def links(self) -> Mapping[str, int]:
        """Outgoing queues, by how far their connection is."""

    @property
    def requests(self) -> Mapping[str, int]:
        """Requests of others, by the status of the response."""

    @property
    def posts(self) -> Mapping[str, int]:
        """Requests of ours, by the status of the response."""

    @property
    def refused(self) -> Mapping[str, int]:
        """Connections not taken or broken off, by reason."""

    @property
    def traffic(self) -> Mapping[str, int]:
        """`bytes_in` and so on."""


def srmp_metrics(figures: SrmpSample) -> Iterator[Metric]:
    """Every family of the protocol."""
    open_now = GaugeMetricFamily(
        "posthouse_srmp_connections", "Open HTTP connections from other machines."
    )
    open_now.add_metric([], figures.connections)
    yield open_now
    links = GaugeMetricFamily(
        "posthouse_srmp_links",
        "Outgoing queues over HTTP, by the state of their connection.",
        labels=["state"],
    )
    for state, count in sorted(figures.links.items()):
        links.add_metric([state], count)
    yield links
    yield _counter(
        "requests", "Requests from other machines, by response.", "status", figures.requests
    )
    yield _counter("posts", "Requests to other machines, by response.", "status", figures.posts)
    about = "Connections refused or broken off, by reason."
    yield _counter("refusals", about, "reason", figures.refused)
    for what, about in _TRAFFIC.items():
        sums = {way: figures.traffic[f"{what}_{way}"] for way in ("in", "out")}
        yield _counter(what, about, "direction", sums)


def _counter(name: str, about: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"posthouse_srmp_{name}", about, labels=[label])
    for value, count in sorted(counts.items()):
        family.add_metric([value], count)
    return family
