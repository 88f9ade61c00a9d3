"""Trace contexts in extensions: of NServiceBus, of buses that write JSON, and our own.

NServiceBus has `traceparent` among its headers. Rebus and MassTransit write a JSON object of
strings, and so do we where the extension is empty: any program reads it with a parser of JSON.
An extension that is something else is left alone, since its reader expects nothing more in it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from posthouse.formats.headers.nservicebus import is_nservicebus, read_headers
from posthouse.formats.limits import FormatError, Limits
from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.trace_context import (
    TRACEPARENT,
    TRACESTATE,
    TraceContext,
    TraceHeaders,
    fault_of,
    is_tracestate,
    read_context,
)

_SIZE_MAX: Final = 1 << 16  # longer extensions are not looked into
# Senders choose what is in an extension, and some of it is read where all wait: applications have
# some 30 headers, stack traces in them some 500 lines.
_LIMITS: Final = Limits(depth=16, elements=1_000, attributes=100, lines=4_000)
_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\n\0"
# Where a context may be, the first that is there counts: W3C, Rebus.Diagnostics, MassTransit.
_PARENTS: Final = (TRACEPARENT, "rbs-ot-tracestate", "MT-Activity-Id")
_OURS: Final = frozenset({TRACEPARENT, TRACESTATE})
_MARKS: Final = tuple(name.encode() for name in _PARENTS)
_END: Final = re.compile(rb"</ArrayOfHeaderInfo>[ \t\r\n\0]*\Z")
_REMEDY: Final = (
    "Put the context into the extension yourself, in the form of that application, or send "
    "without one."
)
_ESCAPES: Final = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}


def trace_headers(extension: bytes) -> TraceHeaders | None:
    """The headers in an extension, as they are; None: there are none."""
    if len(extension) > _SIZE_MAX or not any(mark in extension for mark in _MARKS):
        return None
    headers = _headers(extension)
    if headers is None:
        return None
    for name in _PARENTS:
        parent = headers.get(name)
        if isinstance(parent, str):
            state = headers.get(TRACESTATE)
            return TraceHeaders(parent, state if isinstance(state, str) else "")
    return None


def context_in(extension: bytes) -> TraceContext | None:
    """The context that an extension carries; None where there is none that holds."""
    return read_context(trace_headers(extension))


def with_trace(extension: bytes, trace: TraceHeaders) -> bytes | None:
    """The extension with a context; None where it has one, or has no place for one.

    What was in it stays as it was, byte for byte, and reads as before.
    """
    added = {TRACEPARENT: trace.parent}
    if trace.state:
        added[TRACESTATE] = trace.state
    if not extension:
        return _json(added)
    if len(extension) > _SIZE_MAX or trace_headers(extension) is not None:
        return None
    before = _headers(extension)
    if before is None or not before.keys().isdisjoint(_OURS):
        return None
    made = _with_json(extension, before, added) or _with_xml(extension, added)
    return made if made and _headers(made) == {**before, **added} else None


def with_given_trace(extension: bytes, trace: TraceHeaders) -> bytes:
    """The extension with a context that somebody gave on purpose; refuses where that cannot be."""
    if fault := fault_of(trace):
        raise IllegalPropertyValue(fault)
    made = with_trace(extension, trace)
    if made is None:
        raise IllegalPropertyValue(
            "the extension has a trace context already, or is in a form that has no place for one",
            _REMEDY,
        )
    return made


def shown_trace(extension: bytes) -> TraceHeaders | None:
    """The context that a message shows; what is not one stays in the extension alone."""
    headers = trace_headers(extension) if extension else None
    if headers is None or read_context(headers) is None:
        return None
    return headers if is_tracestate(headers.state) else TraceHeaders(headers.parent)


def _headers(extension: bytes) -> dict[str, Any] | None:
    """What the extension has by names, whichever of the two forms it has."""
    data = extension.removeprefix(_BOM).strip(_BLANK)
    if data.startswith(b"{"):
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None
    if data.startswith(b"<") and is_nservicebus(extension):
        try:
            headers, fault = read_headers(extension, _LIMITS)
        except FormatError:
            return None
        return headers if fault is None else None
    return None


def _json(values: dict[str, str]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()


def _with_json(extension: bytes, before: dict[str, Any], added: dict[str, str]) -> bytes:
    end = extension.rfind(b"}")
    if end < 0 or extension[end + 1 :].strip(_BLANK):
        return b""
    comma = b"," if before else b""
    return extension[:end] + comma + _json(added)[1:-1] + extension[end:]


def _with_xml(extension: bytes, added: dict[str, str]) -> bytes:
    end = _END.search(extension)
    if end is None:
        return b""
    entries = "".join(
        f"<HeaderInfo><Key>{key}</Key><Value>{value.translate(_ESCAPES)}</Value></HeaderInfo>"
        for key, value in added.items()
    )
    return extension[: end.start()] + entries.encode() + extension[end.start() :]
