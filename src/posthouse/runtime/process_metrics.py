"""Metrics of the process, its interpreter, its disk and its log."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric

from posthouse.model import interpreter
from posthouse.runtime.certificates import CertificateWatch
from posthouse.store.log import LogStore


def process_metrics(home: Path, store: LogStore) -> Iterator[Metric]:
    """What a scrape shows beside the engine and its doors."""
    yield from ProcessCollector(registry=None).collect()
    yield _interpreter()
    disk = os.statvfs(home)
    yield _gauge(
        "posthouse_disk_free_bytes",
        "Bytes on the disk of the home that this process may still use.",
        disk.f_bavail * disk.f_frsize,
    )
    yield _gauge(
        "posthouse_disk_size_bytes",
        "Bytes of the disk of the home.",
        disk.f_blocks * disk.f_frsize,
    )
    segments = list(store.ledger.segments.values())
    yield _gauge("posthouse_store_segments", "Segments of the log.", len(segments))
    live = sum(one.live_bytes for one in segments)
    log = GaugeMetricFamily(
        "posthouse_store_bytes",
        "Bytes of the log: messages that wait, and the rest, a part of which compaction frees.",
        labels=["state"],
    )
    log.add_metric(["messages"], live)
    log.add_metric(["other"], max(sum(one.end for one in segments) - live, 0))
    yield log


def certificate_metrics(watch: CertificateWatch) -> Iterator[Metric]:
    """Yield how long each certificate of the settings is still valid."""
    ends = GaugeMetricFamily(
        "posthouse_certificate_expires_seconds",
        "Seconds until a certificate of the settings expires; negative afterwards.",
        labels=["use"],
    )
    for use, left_s in watch.left_s():
        ends.add_metric([use], left_s)
    yield ends


def free_bytes(home: Path) -> int | None:
    """Bytes on the disk of the home that this process may still use; None: it cannot be asked."""
    try:
        disk = os.statvfs(home)
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)


def _interpreter() -> Metric:
    """Which Python this is: one that was built without optimisation is slower by a quarter."""
    about = GaugeMetricFamily(
        "posthouse_python_info",
        "The interpreter, and whether it was built with optimisation.",
        labels=["implementation", "version", "build", "about"],
    )
    name, version = platform.python_implementation(), platform.python_version()
    about.add_metric([name, version, interpreter.this_build(), interpreter.describe()], 1)
    return about
