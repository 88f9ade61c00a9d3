"""Tracing of a queue manager: what the settings ask for, begun and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from posthouse.formats.trace_headers import context_in
from posthouse.model.extras import install
from posthouse.runtime.driver import Driver
from posthouse.runtime.telemetry.settings import TelemetrySettings
from posthouse.runtime.telemetry.span_queue import Exporter, SpanQueue

_HEADERS_MAX: Final = 64 << 10
_FORBIDDEN: Final = frozenset({"content-length", "content-type", "host", "transfer-encoding"})


class TracingRefused(Exception):
    """What the settings ask for cannot be had, and why."""


class MessageTracing:
    """Spans of messages, from the engine to the collector."""

    def __init__(
        self,
        driver: Driver,
        settings: TelemetrySettings,
        exporter: Exporter,
        failed: Callable[[str], None],
    ) -> None:
        self._notes = driver.manager.machine.begin_tracing(
            context_in, settings.ratio, labels=settings.labels
        )
        self.queue = SpanQueue(
            exporter,
            lambda: driver.clock()[0],
            queue_max=settings.queue_max,
            batch_max=settings.batch_max,
            delay_ms=settings.delay_ms,
            failed=failed,
        )
        driver.spans, driver.on_spans = self._notes, self.queue.put

    def metrics(self) -> Iterator[Metric]:
        """What became of spans."""
        counts = self.queue.counts
        dropped = counts["dropped"] + self._notes.dropped
        return span_metrics(counts["exported"], dropped, counts["failed"], len(self.queue))


def span_metrics(
    exported: int = 0, dropped: int = 0, failed: int = 0, waiting: int = 0
) -> Iterator[Metric]:
    """The metrics of spans, all zero where tracing is off."""
    family = CounterMetricFamily(
        "posthouse_spans",
        "Spans of messages: taken by the collector, dropped as too many waited, and lost as it "
        "did not take them.",
        labels=["result"],
    )
    family.add_metric(["exported"], exported)
    family.add_metric(["dropped"], dropped)
    family.add_metric(["failed"], failed)
    yield family
    yield GaugeMetricFamily("posthouse_spans_waiting", "Spans that wait to be sent.", value=waiting)


class TracingDoor:
    """Tracing in the order of starts and stops of the doors. It has no listener."""

    name = "telemetry"

    def __init__(self, tracing: MessageTracing) -> None:
        self._tracing = tracing

    async def start(self, host: str, port: int) -> str:
        """Sends spans from now on."""
        self._tracing.queue.start()
        return ""

    async def stop(self, deadline_s: float) -> None:
        """Sends what is there, as far as there is time."""
        await asyncio.to_thread(self._tracing.queue.stop, deadline_s)


def open_exporter(settings: TelemetrySettings, home: Path, name: str, version: str) -> Exporter:
    """The exporter that the settings ask for; `TracingRefused` where there is none."""
    try:
        from posthouse.runtime.telemetry.otlp import OtlpExporter
    except ImportError:
        raise TracingRefused(
            "[telemetry] endpoint needs OpenTelemetry, which is not installed. Install it with "
            f"{install('otel')}, or leave endpoint out."
        ) from None
    headers = read_headers(home / settings.headers_file) if settings.headers_file else None
    return OtlpExporter(settings, home, headers, name, version)


def read_headers(path: Path) -> dict[str, str]:
    """The headers in a file, one `Name: value` a line; its values are never shown."""
    try:
        with path.open(encoding="ascii") as file:
            text = file.read(_HEADERS_MAX)
    except (OSError, UnicodeDecodeError) as error:
        raise TracingRefused(f"[telemetry] headers_file {path} cannot be read: {error}") from None
    headers: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, value = (part.strip() for part in line.partition(":"))
        token = name.replace("-", "").replace("_", "").isalnum()
        if not colon or not token or not value.isprintable() or name.lower() in _FORBIDDEN:
            raise TracingRefused(
                f"[telemetry] headers_file {path}: line {number} is not a header. Write lines "
                "such as Authorization: Bearer TOKEN."
            )
        headers[name.lower()] = value
    return headers
