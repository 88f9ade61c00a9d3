"""Spans as OpenTelemetry has them, sent by its exporter for OTLP over HTTP.

The one module that needs the extra `otel`.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.span import TraceState

from posthouse.engine.ledger.spans import ARRIVE, DELIVER, RECEIVE, SEND
from posthouse.model.trace_context import TraceContext
from posthouse.runtime.telemetry.settings import TelemetrySettings
from posthouse.runtime.telemetry.span_queue import EndedSpan

_KINDS: Final = {
    SEND: SpanKind.PRODUCER,
    ARRIVE: SpanKind.INTERNAL,
    DELIVER: SpanKind.CLIENT,
    RECEIVE: SpanKind.CONSUMER,
}
# Kinds of operations that the conventions for messaging have; arriving is not one of them.
_TYPES: Final = {SEND: "send", DELIVER: "send", RECEIVE: "receive"}


class OtlpExporter:
    """Makes spans and posts them."""

    def __init__(
        self,
        settings: TelemetrySettings,
        home: Path,
        headers: Mapping[str, str] | None,
        name: str,
        version: str,
    ) -> None:
        """`headers` are those of the settings; None: those of the environment."""
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
        logging.getLogger("opentelemetry").propagate = False  # we state it in our own log
        self._ids = RandomIdGenerator()
        self._scope = InstrumentationScope("posthouse", version)
        self._resource = Resource(
            {
                "service.name": settings.service_name,
                "service.instance.id": name,
                "service.version": version,
                "host.name": socket.gethostname(),
            }
        )
        self._exporter = OTLPSpanExporter(
            endpoint=settings.endpoint,
            certificate_file=str(home / settings.authorities) if settings.authorities else None,
            headers=None if headers is None else dict(headers),
            timeout=settings.timeout_s,
            compression=Compression.Gzip,
        )

    def export(self, spans: Sequence[EndedSpan]) -> str:
        """Posts them; returns why that failed."""
        done = self._exporter.export([self._made(span) for span in spans])
        return "" if done is SpanExportResult.SUCCESS else "the collector did not take the spans"

    def shutdown(self) -> None:
        """Ends attempts to repeat a request."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _made(self, span: EndedSpan) -> ReadableSpan:
        note = span.note
        parent = note.context
        trace_id = self._ids.generate_trace_id() if parent is None else parent.trace_id
        own = note.is_root and parent is not None
        span_id = parent.span_id if own and parent else self._ids.generate_span_id()
        state = TraceState() if parent is None else _state(parent)
        return ReadableSpan(
            name=f"{note.operation} {_text(note.queue)}",
            context=SpanContext(trace_id, span_id, False, TraceFlags(TraceFlags.SAMPLED), state),
            parent=None if own or parent is None else _context(parent),
            resource=self._resource,
            attributes=_attributes(span),
            links=[Link(_context(one)) for one in note.links],
            kind=_KINDS[note.operation],
            instrumentation_scope=self._scope,
            status=Status(StatusCode.ERROR, note.fault) if note.fault else Status(),
            start_time=span.began_ns,
            end_time=span.ended_ns,
        )


def _attributes(span: EndedSpan) -> dict[str, str | int]:
    """The conventions of OpenTelemetry for messaging."""
    note = span.note
    attributes: dict[str, str | int] = {
        "messaging.system": "msmq",
        "messaging.operation.name": note.operation,
        "messaging.destination.name": _text(note.queue),
    }
    if note.operation in _TYPES:
        attributes["messaging.operation.type"] = _TYPES[note.operation]
    if note.message_id:
        attributes["messaging.message.id"] = note.message_id
        attributes["messaging.message.envelope.size"] = note.size
    else:
        attributes["messaging.batch.message_count"] = note.messages
    if note.label:
        attributes["messaging.msmq.label"] = _text(note.label)
    if note.fault:
        attributes["error.type"] = note.fault
    return attributes


def _text(text: str) -> str:
    """Without halves of surrogate pairs, for which the whole request would be refused."""
    return text.encode("utf-8", "replace").decode()


def _context(context: TraceContext) -> SpanContext:
    flags = TraceFlags(context.flags)
    return SpanContext(context.trace_id, context.span_id, True, flags, _state(context))


def _state(context: TraceContext) -> TraceState:
    return TraceState.from_header([context.state]) if context.state else TraceState()
