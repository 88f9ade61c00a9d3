"""The metrics for Prometheus: computed on request from the engine and the protocols."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from posthouse.engine.machine import health
from posthouse.engine.manager import QueueManager
from posthouse.engine.transactions.transaction import TransactionState
from posthouse.protocols.metrics.binary import AskFigures, binary_metrics
from posthouse.protocols.metrics.queues import QueueMetrics
from posthouse.protocols.metrics.remote_read import AskFigures as AskRemoteRead
from posthouse.protocols.metrics.remote_read import remote_read_metrics

AskMetrics = Callable[[], Iterable[Metric]]

QUEUES_MAX: Final = 10_000
"""More queues than these are left out, and counted: a scrape has to end."""
STEP_QUEUES: Final = 100
"""Queues that one step of a scrape looks at."""
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class SyncTimes(Protocol):
    """How long something took: bounds of buckets, how many in each and above the last, the sum."""

    BOUNDS_S: tuple[float, ...]
    counts: list[int]
    total_s: float


@dataclass
class Traffic:
    """What the doors count: sessions, requests, connections turned away."""

    sessions: int = 0
    connections: int = 0
    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


class Metrics(Collector):
    """Everything that a scrape shows."""

    def __init__(
        self,
        manager: QueueManager,
        traffic: Traffic,
        version: str,
        sync_times: SyncTimes | None = None,
        binary: AskFigures | None = None,
        remote_read: AskRemoteRead | None = None,
        more: Sequence[AskMetrics] = (),
    ) -> None:
        self.manager = manager
        self.traffic = traffic
        self.version = version
        self.sync_times = sync_times
        self.binary = binary
        self.remote_read = remote_read
        self.more = more  # of doors that make their families themselves
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def pieces(self) -> Iterator[bytes]:
        """The answer to a scrape, made in steps; some of them add nothing yet."""
        queues = self.manager.queues.all()[:QUEUES_MAX]
        yield generate_latest(self._registry)
        shown = QueueMetrics(self.manager)
        for at in range(0, len(queues), STEP_QUEUES):
            shown.add(queue for queue in queues[at : at + STEP_QUEUES] if not queue.deleted)
            yield b""
        yield shown.text()

    def describe(self) -> Iterable[Metric]:
        """Nothing is computed when the registry takes it in."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families but those of the queues."""
        queues = self.manager.queues.all()
        yield self._about()
        yield _gauge("posthouse_queues", "Queues of every kind.", len(queues))
        yield _gauge(
            "posthouse_queues_left_out",
            "Queues that the metrics leave out.",
            max(len(queues) - QUEUES_MAX, 0),
        )
        yield from self._machine_metrics()
        yield from self._traffic_metrics()
        if self.binary is not None:
            yield from binary_metrics(self.binary())
        if self.remote_read is not None:
            yield from remote_read_metrics(self.remote_read())
        for ask in self.more:
            yield from ask()
        if self.sync_times is not None:
            yield histogram(
                "posthouse_sync_seconds", "Seconds that syncs of the log took.", self.sync_times
            )

    def _about(self) -> Metric:
        about = GaugeMetricFamily(
            "posthouse_info",
            "Name and version of the queue manager.",
            labels=["name", "version"],
        )
        about.add_metric([self.manager.machine.settings.computer_name, self.version], 1)
        return about

    def _machine_metrics(self) -> Iterator[Metric]:
        machine, transactions = self.manager.machine, self.manager.transactions
        states = Counter(one.state for one in transactions.all_open())
        family = GaugeMetricFamily("posthouse_transactions", "Open transactions.", labels=["state"])
        for state in TransactionState:
            if state is not TransactionState.ENDED:
                family.add_metric([state.value], states[state])
        decided = self.manager.transactions.decided()
        family.add_metric(["committed"], len(decided))
        yield family
        yield _counter(
            "posthouse_refusals", "Requests refused, by reason.", "reason", machine.refusals
        )
        yield _gauge(
            "posthouse_refused_messages",
            "Messages of other machines that were refused in the last hour (posthouse message "
            "refused).",
            sum(one.messages for one in health.refused_lately(self.manager)),
        )
        yield _counter(
            "posthouse_conflicts",
            "Messages whose identifier or sequence number was used for other content before.",
            "kind",
            machine.conflicts,
        )
        online = self.manager.transfer.connection_active
        yield _gauge(
            "posthouse_online",
            "1 while the queue manager is online: it connects to other machines.",
            int(online),
        )
        directory = self.manager.directory
        yield _gauge(
            "posthouse_directory_online",
            "1 while the directory answers; always 1 for a directory of this machine.",
            int(directory.state().online or not directory.source),
        )
        throttled = GaugeMetricFamily(
            "posthouse_flow_control",
            "1 while new messages are refused, by reason.",
            labels=["reason"],
        )
        for reason in sorted(machine.throttled):
            throttled.add_metric([reason], 1)
        yield throttled
        yield _gauge(
            "posthouse_damaged_records",
            "Damaged records of messages that wait for a decision (posthouse damage list).",
            len(self.manager.machine.damaged_records()),
        )
        yield from self._job_metrics()
        stages = self.manager.stages
        yield _gauge("posthouse_stages", "Stages of unpublished batches.", len(stages))
        yield _gauge("posthouse_staged_messages", "Messages in stages.", stages.messages)
        yield _gauge("posthouse_staged_bytes", "Bytes of messages in stages.", stages.size)
        yield CounterMetricFamily(
            "posthouse_published_batches", "Batches published.", stages.published_batches
        )
        yield CounterMetricFamily(
            "posthouse_published_messages",
            "Messages in published batches.",
            stages.published_messages,
        )
        pulls = self.manager.pulls
        yield CounterMetricFamily(
            "posthouse_pulled_messages",
            "Messages pulled from other machines.",
            pulls.taken_messages,
        )
        yield CounterMetricFamily(
            "posthouse_pulled_again",
            "Messages offered again after they had been pulled.",
            pulls.known_messages,
        )
        running = sum(map(pulls.is_running, pulls.all()))
        yield _gauge("posthouse_pulls_running", "Pulls in progress.", running)
        yield _gauge("posthouse_bytes", "Bytes of all messages.", self.manager.messages.bytes)

    def _job_metrics(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily("posthouse_jobs", "Jobs in a job queue.", labels=["queue"])
        servers = GaugeMetricFamily(
            "posthouse_job_servers", "Servers attached to a job queue.", labels=["queue"]
        )
        for name, entries, attached in islice(self.manager.jobs.sizes(), QUEUES_MAX):
            jobs.add_metric([name], entries)
            servers.add_metric([name], attached)
        yield jobs
        yield servers

    def _traffic_metrics(self) -> Iterator[Metric]:
        traffic = self.traffic
        yield _gauge("posthouse_sessions", "Open client sessions.", traffic.sessions)
        yield _gauge("posthouse_connections", "Open admin connections.", traffic.connections)
        yield _counter(
            "posthouse_connections_refused",
            "Connections refused, by reason.",
            "reason",
            traffic.refused,
        )
        requests = CounterMetricFamily(
            "posthouse_http_requests", "HTTP requests answered.", labels=["method", "status"]
        )
        for (method, status), count in sorted(traffic.requests.items()):
            requests.add_metric([method, str(status)], count)
        yield requests


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)


def _counter(name: str, about: str, label: str, counts: Counter[str]) -> Metric:
    family = CounterMetricFamily(name, about, labels=[label])
    for value, count in sorted(counts.items()):
        family.add_metric([value], count)
    return family


def histogram(name: str, about: str, times: SyncTimes) -> Metric:
    """A histogram of times."""
    buckets, total = list[tuple[str, float]](), 0
    for bound, count in zip((*map(str, times.BOUNDS_S), "+Inf"), times.counts, strict=True):
        total += count
        buckets.append((bound, total))
    return HistogramMetricFamily(name, about, buckets=buckets, sum_value=times.total_s)
