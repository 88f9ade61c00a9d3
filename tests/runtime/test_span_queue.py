"""Spans on their way to a collector: bounded, in batches, whatever the collector does."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from posthouse.engine.ledger.spans import SpanNote
from posthouse.runtime.settings.file import SettingsError, parse_settings
from posthouse.runtime.telemetry.settings import TelemetrySettings, endpoint_fault
from posthouse.runtime.telemetry.span_queue import EndedSpan, SpanQueue
from posthouse.runtime.telemetry.tracing import TracingRefused, open_exporter, read_headers


def note(number: int, began_ms: int = 0) -> SpanNote:
    return SpanNote("send", "q", began_ms, None, (), number, "", 0, "", "", False)


class Gate:
    """An exporter that waits for the test."""

    def __init__(self, why: str = "") -> None:
        self.batches: list[list[EndedSpan]] = []
        self.opened = threading.Event()
        self.asked = threading.Event()
        self.why = why

    def export(self, spans: Sequence[EndedSpan]) -> str:
        self.batches.append(list(spans))
        self.asked.set()
        self.opened.wait(60)
        if self.why == "raise":
            raise OSError("no route to host")
        return self.why

    def shutdown(self) -> None:
        self.opened.set()


def queue_of(gate: Gate, **more: int) -> SpanQueue:
    limits = {"queue_max": 10, "batch_max": 4, "delay_ms": 10} | more
    return SpanQueue(gate, lambda: 1000, **limits)


def test_what_is_too_much_is_dropped_and_counted() -> None:
    """A slow collector holds up the thread, and nothing else."""
    gate = Gate()
    queue = queue_of(gate)
    queue.start()
    queue.put([note(1)])
    assert gate.asked.wait(60)  # one is under way from here on
    for _ in range(100):
        queue.put([note(2), note(3), note(4)])
    assert len(queue) == 10
    assert queue.counts["dropped"] == 290
    gate.opened.set()
    queue.stop(30)
    assert queue.counts == {"dropped": 290, "exported": 11}
    assert max(map(len, gate.batches)) == 4


@pytest.mark.parametrize("why", ["refused", "raise"])
def test_a_failure_is_told_once_and_the_next_spans_are_tried(why: str) -> None:
    """Spans of a request that failed are lost, and counted."""
    gate, told, again = Gate(why), list[str](), threading.Event()
    gate.opened.set()

    def failed(text: str) -> None:
        told.append(text)
        again.set()

    queue = SpanQueue(gate, lambda: 0, queue_max=10, batch_max=1, delay_ms=10, failed=failed)
    queue.start()
    queue.put([note(1), note(2), note(3)])
    assert again.wait(60)
    queue.stop(30)
    assert len(told) == 1
    assert queue.counts["failed"] >= 1
    assert queue.counts["failed"] + len(queue) == 3


def test_the_times_of_a_span() -> None:
    """It began so long before it was let out as the clock of turns states."""
    gate = Gate()
    gate.opened.set()
    queue = queue_of(gate)
    queue.put([note(1, began_ms=400), note(1, began_ms=5000)])
    queue.start()
    queue.stop(30)
    (first, second) = gate.batches[0]
    assert first.ended_ns - first.began_ns == 600_000_000
    assert second.ended_ns == second.began_ns  # never before its beginning


@pytest.mark.parametrize(
    ("endpoint", "fault"),
    [
        ("http://collector:4318/v1/traces", ""),
        ("https://[::1]:4318/v1/traces", ""),
        ("collector:4318", "not a URL"),
        ("ftp://collector/v1/traces", "not a URL"),
        ("http://:4318/v1/traces", "not a URL"),
        ("http://collector:99999/v1/traces", "not a URL"),
        ("http://[::1/v1/traces", "not a URL"),
        ("http://collector/v1/traces\n", "not a URL"),
        ("http://user:secret@collector/v1/traces", "headers_file"),
        ("http://collector:4318", "path is missing"),
    ],
)
def test_endpoints(endpoint: str, fault: str) -> None:
    """What is wrong is found before the start, and named."""
    found = endpoint_fault(endpoint)
    assert (fault in found) if fault else not found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('endpoint = "collector"', "not a URL"),
        ("ratio = 1.5", "ratio"),
        ('service_name = ""', "service"),
        ("queue_max = 1", "queue_max"),
        ('headers = "a"', "headers"),
    ],
)
def test_settings_that_cannot_be(text: str, words: str) -> None:
    """One clear answer each."""
    with pytest.raises(SettingsError, match=words):
        parse_settings(f"[telemetry]\n{text}\n".encode())


def test_a_collector_without_the_extra_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer has the command that installs it."""
    monkeypatch.delitem(sys.modules, "posthouse.runtime.telemetry.otlp", raising=False)
    for name in [one for one in sys.modules if one.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    settings = TelemetrySettings(endpoint="http://collector:4318/v1/traces")
    with pytest.raises(TracingRefused, match=r"pip install .*\[otel\]'"):
        open_exporter(settings, tmp_path, "ALPHA", "1")


def test_headers_are_read_and_their_values_never_shown(tmp_path: Path) -> None:
    """A secret is not part of an error."""
    file = tmp_path / "headers"
    file.write_text("# of the collector\n\nAuthorization: Bearer abc:def\nX-Tenant: 7\n")
    assert read_headers(file) == {"authorization": "Bearer abc:def", "x-tenant": "7"}
    for bad in ("just a secret", "Host: secret", "Bad Name: secret", "A: secret\x07"):
        file.write_text(f"A: b\n{bad}\n")
        with pytest.raises(TracingRefused, match="line 2") as refused:
            read_headers(file)
        assert "secret" not in str(refused.value)
    file.write_bytes(b"A: \xff")
    with pytest.raises(TracingRefused, match="cannot be read"):
        read_headers(file)
    with pytest.raises(TracingRefused, match="cannot be read"):
        read_headers(tmp_path / "none")
