"""Trace contexts in extensions: carried along, and everything else left as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.formats.encode.headers import nservicebus_headers, rebus_headers
from posthouse.formats.headers.nservicebus import read_headers
from posthouse.formats.limits import Limits
from posthouse.formats.trace_headers import (
    context_in,
    shown_trace,
    trace_headers,
    with_given_trace,
    with_trace,
)
from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.trace_context import TraceHeaders

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
STATE = "rojo=a&b<c>,congo=t61rcWkgMzE"
TRACE = TraceHeaders(PARENT, STATE)
VECTORS = Path(__file__).parent.parent / "vectors" / "formats"
HEADERS = {"NServiceBus.MessageId": "1", "a&b": "<é>", "empty": ""}


def test_an_empty_extension_becomes_an_object_of_json() -> None:
    """Any program reads it."""
    made = with_trace(b"", TRACE)
    assert made is not None
    assert json.loads(made) == {"traceparent": PARENT, "tracestate": STATE}
    assert trace_headers(made) == TRACE
    assert with_trace(b"", TraceHeaders(PARENT)) == b'{"traceparent":"%b"}' % PARENT.encode()


def test_headers_of_nservicebus_get_two_more() -> None:
    """NServiceBus finds the context where it writes its own; other headers stay."""
    before = nservicebus_headers(HEADERS)
    made = with_trace(before, TRACE)
    assert made is not None
    assert made.startswith(before.removesuffix(b"</ArrayOfHeaderInfo>"))
    read, fault = read_headers(made, Limits())
    assert (read, fault) == ({**HEADERS, "traceparent": PARENT, "tracestate": STATE}, None)
    assert trace_headers(made) == TRACE


def test_the_header_that_nservicebus_wrote_is_read() -> None:
    """A vector of its own."""
    extension = (VECTORS / "nsb-audit.extension").read_bytes()
    assert trace_headers(extension) == TraceHeaders(PARENT)
    assert context_in(extension) is not None
    assert with_trace(extension, TRACE) is None  # it has one


@pytest.mark.parametrize("name", ["traceparent", "rbs-ot-tracestate", "MT-Activity-Id"])
def test_headers_of_buses_that_write_json(name: str) -> None:
    """Rebus and MassTransit have names of their own for it."""
    headers = {"rbs2-msg-id": "7", name: PARENT}
    assert trace_headers(rebus_headers(headers)) == TraceHeaders(PARENT)
    bare = rebus_headers({"rbs2-msg-id": "7"})
    made = with_trace(bare, TRACE)
    assert made is not None
    assert made.startswith(bare[:-1])
    assert json.loads(made) == {"rbs2-msg-id": "7", "traceparent": PARENT, "tracestate": STATE}


@pytest.mark.parametrize(
    "extension",
    [
        b"\x00\x01\x02 traceparent",
        b"<order traceparent='no'/>",
        b"<ArrayOfHeaderInfo />",
        b"[1]",
        b"{broken",
        b"{" * 5000,
        b'{"a":1} tail',
        b'{"traceparent":7}',
        b'{"tracestate":"a=1"}',
        b"x" * 70_000,
        nservicebus_headers(HEADERS).decode().encode("utf-16"),
        nservicebus_headers(HEADERS) + b"\x01 rest of a buffer</ArrayOfHeaderInfo>",
    ],
)
def test_what_others_wrote_is_left_alone(extension: bytes) -> None:
    """No context is read from it and none is put there; on purpose that is refused."""
    assert trace_headers(extension) is None
    assert with_trace(extension, TRACE) is None
    with pytest.raises(IllegalPropertyValue, match="no place"):
        with_given_trace(extension, TRACE)


def test_a_context_that_is_none_stays_data() -> None:
    """It is not shown, and not replaced."""
    extension = b'{"traceparent":"00-XYZ"}'
    assert shown_trace(extension) is None
    assert context_in(extension) is None
    assert with_trace(extension, TRACE) is None
    with pytest.raises(IllegalPropertyValue, match="looks like"):
        with_given_trace(b"", TraceHeaders("00-XYZ"))


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
ENTRIES = st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), TEXTS)


@given(ENTRIES)
def test_other_headers_read_as_before(headers: dict[str, str]) -> None:
    """Whatever they are, in both forms."""
    for before in (nservicebus_headers(headers), rebus_headers(headers)):
        made = with_trace(before, TRACE)
        if made is None:
            continue
        at = made.index(b"traceparent")
        common = next(
            (n for n, pair in enumerate(zip(before, made, strict=False)) if pair[0] != pair[1]),
            len(before),
        )
        assert common <= at
        assert made.endswith(before[common:])
        assert trace_headers(made) == TRACE


@given(st.binary(max_size=300), st.sampled_from([b"", b"{", b"<ArrayOfHeaderInfo>"]))
def test_any_bytes_are_taken(data: bytes, front: bytes) -> None:
    """They give headers or none, and never an error."""
    extension = front + data + b'"traceparent"'
    trace_headers(extension)
    made = with_trace(extension, TRACE)
    assert made is None or trace_headers(made) == TRACE


_ENTRY = b"<HeaderInfo><Key>%b</Key><Value>%b</Value></HeaderInfo>"
_CONTEXT = _ENTRY % (b"traceparent", PARENT.encode())


@pytest.mark.parametrize(
    "more",
    [
        b"<a/>" * 1_000,
        b"<!-- --><HeaderInfo/>" * 1_000,
        _ENTRY % (b"text", b"&#65;" * 5_000),
        _ENTRY % (b"text", b"&#1;" * 5_000),
        _ENTRY % (b"text", b"\n" * 5_000),
        b"<a>" * 20 + b"</a>" * 20 + b"<a/>" * 1_000,
    ],
)
def test_what_takes_long_to_read_has_no_context(more: bytes) -> None:
    """Senders choose it, and it is read on the loop for a span."""
    whole = b"<ArrayOfHeaderInfo>%b</ArrayOfHeaderInfo>"
    assert context_in(whole % _CONTEXT) is not None
    assert context_in(whole % (_CONTEXT + more)) is None


def test_the_headers_of_a_failed_message_are_read_however_long_its_stack_trace() -> None:
    lines = b"   at Shop.Orders.Handle[T](T&amp; order) in C:\\Shop\\Orders.cs:line 7&#xD;\n" * 700
    headers = [_ENTRY % (b"NServiceBus.Header%d" % number, b"x") for number in range(60)]
    trace = _ENTRY % (b"NServiceBus.ExceptionInfo.StackTrace", lines)
    extension = b"<ArrayOfHeaderInfo>%b</ArrayOfHeaderInfo>" % b"".join([*headers, trace, _CONTEXT])
    assert len(extension) > 50_000
    assert context_in(extension) is not None
