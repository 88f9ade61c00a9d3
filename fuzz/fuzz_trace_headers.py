"""Fuzz target: any extension gives a trace context or none, and one that is added changes no more.

Alone, guided by coverage: `python -m fuzz.guided trace_headers -max_total_time=600`.
"""

from pathlib import Path

from posthouse.formats.trace_headers import context_in, shown_trace, trace_headers, with_trace
from posthouse.model.trace_context import TraceHeaders, read_context

VECTORS = Path(__file__).parent.parent / "tests" / "vectors" / "formats"
RUNS = 2000
ADDED = TraceHeaders("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=<&>")


def fuzz_one(data: bytes) -> bool:
    """Whether the extension carries a context, or got one."""
    headers = trace_headers(data)
    context = context_in(data)
    assert context == read_context(headers)
    shown = shown_trace(data)
    assert (shown is None) == (context is None)
    if shown is not None:
        assert f"{shown.parent}{shown.state}".isascii()
        assert f"{shown.parent}{shown.state}".isprintable()
    made = with_trace(data, ADDED)
    if made is None:
        return context is not None
    assert headers is None
    assert trace_headers(made) == ADDED
    assert len(made) > len(data)
    return True


SEEDS = [
    b"",
    b'{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}',
    b'{"MT-Activity-Id":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"}',
    b'{"rbs2-msg-id":"1"}',
    *(path.read_bytes() for path in sorted(VECTORS.glob("*.extension"))),
]
