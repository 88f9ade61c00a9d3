"""Metrics of MSMQ machines without an agent on them: scans, kept for a while, for Prometheus.

Each machine is asked by a thread of its own turn, every so often; a scrape shows what was found
last and waits for nothing. A machine that does not answer keeps no other one from being asked.
A machine that refuses the login is asked again when there is another password.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from itertools import repeat
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from posthouse.client.remote.inventory import (
    TOGETHER_MAX,
    MachineInventory,
    QueueInventory,
    scan_machine,
)
from posthouse.client.remote.login import RemoteLogin, RemotePlace

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
CONNECTIONS_MAX: Final = 16
REQUEST_S: Final = 10.0
_QUEUE_GAUGES: Final = (
    ("messages", "Messages in a queue.", "messages"),
    ("bytes", "Bytes of the messages in a queue.", "bytes"),
    ("journal_messages", "Messages in the journal of a queue.", "journal_messages"),
    ("journal_bytes", "Bytes of the messages in the journal of a queue.", "journal_bytes"),
)


class Exporter(Collector):
    """The machines, and what they told last."""

    def __init__(
        self,
        places: list[RemotePlace],
        login: Callable[[], RemoteLogin],
        *,
        every_s: float,
        timeout_s: float,
    ) -> None:
        self.places = places
        self.every_s = every_s
        self.timeout_s = timeout_s
        self._login = login
        self._refused: dict[RemotePlace, RemoteLogin] = {}  # not tried again
        self._found: dict[RemotePlace, tuple[MachineInventory, float]] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._thread = threading.Thread(target=self._run, name="scans", daemon=True)

    def start(self) -> None:
        """Begins to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Asks no more; what is under way ends within its time."""
        self._over.set()
        self._thread.join(self.timeout_s + 1)

    def _run(self) -> None:
        with ThreadPoolExecutor(min(len(self.places), TOGETHER_MAX) or 1) as pool:
            while not self._over.is_set():
                begun = time.monotonic()
                login = self._login()
                list(pool.map(self._ask, self.places, repeat(login)))
                self._over.wait(max(begun + self.every_s - time.monotonic(), 0.0))

    def _ask(self, place: RemotePlace, login: RemoteLogin) -> None:
        """A login that the machine has refused is not tried again: that may lock the account."""
        if self._over.is_set() or self._refused.get(place) == login:
            return
        found = scan_machine(place, login, self.timeout_s)
        if found.refuses_login:
            self._refused[place] = login
        with self._lock:
            self._found[place] = found, time.time()

    def metrics(self) -> bytes:
        """The answer to a scrape."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Every family, from what was found last."""
        with self._lock:
            found = dict(self._found)
        machines = [(machine_name(place), *found[place]) for place in self.places if place in found]
        yield from _machine_metrics(machines)
        yield from _queue_metrics(machines)
        yield from _outgoing_metrics(machines)

    @property
    def is_ready(self) -> bool:
        """Whether every machine was asked once."""
        with self._lock:
            return len(self._found) == len(self.places)


Found = list[tuple[str, MachineInventory, float]]


def machine_name(place: RemotePlace) -> str:
    """The label of a machine: as it was named on the command line."""
    if place.rpc_port is None:
        return place.host
    host = f"[{place.host}]" if ":" in place.host else place.host
    return f"{host}:{place.rpc_port}"


def _machine_metrics(machines: Found) -> Iterator[Metric]:
    def gauge(name: str, about: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"msmq_{name}", about, labels=["machine"])

    up = gauge("up", "1: the machine answered the last scan.")
    online = gauge("connected", "1: the queue manager is online.")
    size = gauge("bytes_in_all_queues", "Bytes of the messages in all queues.")
    when = gauge("scan_time_seconds", "When the machine was asked last, seconds since 1970.")
    took = gauge("scan_seconds", "How long the last scan took.")
    hidden = gauge("scan_left_out", "Queues that were not asked because there are too many.")
    problems = GaugeMetricFamily(
        "msmq_scan_problems",
        "What could not be asked, by reason.",
        labels=["machine", "kind"],
    )
    for name, machine, seconds in machines:
        up.add_metric([name], int(machine.reached))
        when.add_metric([name], seconds)
        took.add_metric([name], machine.seconds)
        hidden.add_metric([name], machine.left_out)
        if machine.connected is not None:
            online.add_metric([name], int(machine.connected))
        if machine.bytes is not None:
            size.add_metric([name], machine.bytes)
        kinds = [problem.kind for problem in machine.problems]
        for kind in sorted(set(kinds)):
            problems.add_metric([name, kind], kinds.count(kind))
    yield from (up, online, size, when, took, hidden, problems)


def _queue_metrics(machines: Found) -> Iterator[Metric]:
    """Queues that are empty or not active are shown with 0; they do not vanish."""
    for name, about, attribute in _QUEUE_GAUGES:
        family = GaugeMetricFamily(f"msmq_queue_{name}", about, labels=["machine", "queue", "kind"])
        for machine_label, machine, _ in machines:
            for queue in _queues(machine):
                labels = [machine_label, queue.path, queue.kind]
                family.add_metric(labels, getattr(queue, attribute))
        yield family


def _queues(machine: MachineInventory) -> list[QueueInventory]:
    """Each path once: a label pair that comes twice would make the whole scrape invalid."""
    return list({queue.path: queue for queue in (*machine.queues, *machine.dead_letters)}.values())


def _outgoing_metrics(machines: Found) -> Iterator[Metric]:
    labels = ["machine", "destination", "state"]
    count = GaugeMetricFamily(
        "msmq_outgoing_messages", "Messages in an outgoing queue.", labels=labels
    )
    size = GaugeMetricFamily(
        "msmq_outgoing_bytes", "Bytes of the messages in an outgoing queue.", labels=labels
    )
    for name, machine, _ in machines:
        for one in {one.format_name: one for one in machine.outgoing}.values():
            count.add_metric([name, one.format_name, one.state], one.messages)
            size.add_metric([name, one.format_name, one.state], one.bytes)
    yield from (count, size)


class ExporterServer(ThreadingMixIn, TCPServer):
    """`/metrics` over HTTP; a few connections at a time, each for a short time."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 4 * CONNECTIONS_MAX

    def __init__(self, address: tuple[str, int], exporter: Exporter) -> None:
        self.exporter = exporter
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._room = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """One more connection, if there is room for it."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serves a connection, in a thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that leaves in the middle is not worth a line."""


class _Handler(BaseHTTPRequestHandler):
    """One request for each connection."""

    server: ExporterServer
    timeout = REQUEST_S
    server_version = "posthouse"
    sys_version = ""

    def do_GET(self) -> None:
        """`/metrics`, and `/health`, which is 200 once every machine was asked."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(200, CONTENT_TYPE, self.server.exporter.metrics())
        elif path == "/health":
            ready = self.server.exporter.is_ready
            self._answer(200 if ready else 503, "text/plain", b"ready\n" if ready else b"asking\n")
        else:
            self._answer(404, "text/plain", b"Ask for /metrics.\n")

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Scrapes are not logged."""
