"""`[telemetry]`: traces of messages, sent to a collector of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlsplit

from posthouse.model.settings_kinds import (
    ExistingFile,
    Fault,
    Name,
    Section,
    meaning,
    text,
    within,
)


class TelemetrySettings(Section, frozen=True):
    """Traces of messages: spans for send, arrive, deliver and receive, by OTLP over HTTP."""

    endpoint: Annotated[
        str,
        text(
            1024,
            "URL that spans are posted to, such as `http://collector:4318/v1/traces`. Empty: no "
            "tracing. Needs the extra `otel`.",
        ),
    ] = ""
    headers_file: Annotated[
        ExistingFile,
        meaning(
            "File with headers of these requests, one `Name: value` a line, relative to the home. "
            "Without it, the variable `OTEL_EXPORTER_OTLP_HEADERS` counts."
        ),
    ] = ""
    authorities: Annotated[
        ExistingFile,
        meaning(
            "PEM file of the authorities whose certificates are trusted, relative to the home. "
            "Default: those of the system."
        ),
    ] = ""
    service_name: Annotated[Name, meaning("`service.name` of the spans.")] = "posthouse"
    ratio: Annotated[
        float,
        within(
            0.0,
            1.0,
            "Share of the messages without a trace context of which a trace is made. Messages "
            "with one are traced as their sender decided.",
        ),
    ] = 0.0
    labels: Annotated[
        bool,
        meaning("Shows the labels of messages in spans. Bodies and extensions are never shown."),
    ] = False
    queue_max: Annotated[
        int,
        within(
            100, 1_000_000, "Spans that wait to be sent. Those beyond are dropped, and counted."
        ),
    ] = 10_000
    batch_max: Annotated[int, within(1, 10_000, "Spans of one request.")] = 512
    delay_ms: Annotated[
        int, within(10, 600_000, "Time for which spans are collected before they are sent.")
    ] = 1000
    timeout_s: Annotated[
        int, within(1, 600, "Time allowed for a request, attempts to repeat it included.")
    ] = 10

    def faults(self) -> Iterator[Fault]:
        """An endpoint that is not one."""
        if self.endpoint and (fault := endpoint_fault(self.endpoint)):
            yield "endpoint", fault
        if not self.service_name:
            yield "service_name", "this is empty; spans need a service"


def endpoint_fault(endpoint: str) -> str:
    """What is wrong with a URL for spans; empty: nothing."""
    try:
        parts = urlsplit(endpoint)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or not endpoint.isprintable() or " " in endpoint:
        return "this is not a URL; allowed: one such as http://collector:4318/v1/traces"
    if parts.username or parts.password:
        return "a URL with a password is shown to too many; put it into headers_file"
    if parts.path in ("", "/"):
        return "the path is missing; collectors take traces at /v1/traces"
    return ""
