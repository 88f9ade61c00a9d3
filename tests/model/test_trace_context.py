"""Trace contexts of W3C: what is one, and that nothing else passes for one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.trace_context import (
    TraceContext,
    TraceHeaders,
    fault_of,
    is_tracestate,
    read_context,
    traceparent_of,
)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"


def test_a_context_is_read_and_written() -> None:
    """The example of W3C."""
    context = read_context(TraceHeaders(GOOD, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"))
    assert context == TraceContext(
        int(TRACE, 16), int(SPAN, 16), 1, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
    )
    assert context.is_sampled
    assert traceparent_of(context) == GOOD


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        GOOD[:-1],
        GOOD + "0",
        GOOD + "-extra",  # version 00 has nothing more
        GOOD.upper(),
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN.upper()}-01",
        f"0A-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0A",
        GOOD.replace("-", "_"),
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f" {GOOD}",
        GOOD + "\n",
        GOOD[:-1] + "\0",
        GOOD[:-1] + "١",  # a digit, but not one of these
        f"01-{TRACE}-{SPAN}-01.what",
        f"01-{TRACE}-{SPAN}-01-\r\nSet-Cookie: a",
        f"01-{TRACE}-{SPAN}-01-" + "x" * 300,
    ],
)
def test_what_is_not_a_context_is_none(text: str) -> None:
    """Wrong lengths, capitals, zeros, controls."""
    assert read_context(TraceHeaders(text)) is None
    assert "traceparent" in fault_of(TraceHeaders(text))


def test_a_later_version_may_have_more() -> None:
    """It is read as far as version 00 goes."""
    context = read_context(TraceHeaders(f"cc-{TRACE}-{SPAN}-00-what-the-future-has"))
    assert context is not None
    assert not context.is_sampled


@pytest.mark.parametrize(
    "text",
    [
        "a=" + "x" * 600,
        ",".join(f"k{n}=v" for n in range(33)),
        "a=1,a=2",
        "A=1",
        "a",
        "a=b=c",
        "a=\x07",
        "a=1\r\nX: y",
        "a=é",
    ],
)
def test_a_tracestate_that_is_not_one_is_left_out(text: str) -> None:
    """The rest counts without it."""
    assert not is_tracestate(text)
    context = read_context(TraceHeaders(GOOD, text))
    assert context is not None
    assert context.state == ""
    assert "tracestate" in fault_of(TraceHeaders(GOOD, text))


STRICT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
NEAR = st.one_of(
    st.text(max_size=80),
    st.text("0123456789abcdefABCDEF-\n ", min_size=50, max_size=60),
    st.builds(
        lambda text, at, new: text[:at] + new + text[at + 1 :],
        st.from_regex(STRICT, fullmatch=True),
        st.integers(0, 55),
        st.characters(),
    ),
    st.from_regex(STRICT, fullmatch=True),
)


@given(NEAR, st.text(max_size=600))
def test_any_text_gives_a_context_or_none(parent: str, state: str) -> None:
    """What is taken for one is one, by the grammar of W3C, and comes out as it went in."""
    context = read_context(TraceHeaders(parent, state))
    strict = STRICT.fullmatch(parent) is not None
    if len(parent) == 55:
        assert (context is not None) is strict
    if context is not None:
        assert traceparent_of(context)[2:] == parent[2:55]
        assert context.state in ("", state)
        assert context.state.isprintable()
