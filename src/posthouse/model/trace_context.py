"""Trace contexts of W3C: `traceparent` and `tracestate`, read strictly and passed on as they are.

What is not a context in every character is none: it stays where it is, as data of the application,
and no span follows from it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
TRACEPARENT_SIZE: Final = 55  # of version 00; later versions may have more after it
TRACEPARENT_MAX: Final = 256
TRACESTATE_MAX: Final = 512
_MEMBERS_MAX: Final = 32
SAMPLED: Final = 1  # of the flags

_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_LATER: Final = re.compile(r"-[\x21-\x7e]*")
_KEY: Final = r"[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}"
_MEMBER: Final = re.compile(
    rf"({_KEY})=([\x20-\x2b\x2d-\x3c\x3e-\x7e]{{0,255}}[\x21-\x2b\x2d-\x3c\x3e-\x7e])"
)


class TraceHeaders(NamedTuple):
    """The two headers as they are carried."""

    parent: str
    state: str = ""


class TraceContext(NamedTuple):
    """Which span caused a message: what spans of the message have for a parent."""

    trace_id: int
    span_id: int
    flags: int
    state: str = ""

    @property
    def is_sampled(self) -> bool:
        """Whether the application that sent it records its own spans."""
        return bool(self.flags & SAMPLED)


def read_context(headers: TraceHeaders | None) -> TraceContext | None:
    """The context that the headers have; None where `traceparent` is not one.

    A `tracestate` that is not one is left out, as W3C has it: the rest counts without it.
    """
    if headers is None:
        return None
    text = headers.parent
    if not TRACEPARENT_SIZE <= len(text) <= TRACEPARENT_MAX:
        return None
    found = _PARENT.match(text)
    if found is None:
        return None
    version, trace, span, flags = found.groups()
    rest = text[TRACEPARENT_SIZE:]
    if version == "ff" or (rest and (version == "00" or _LATER.fullmatch(rest) is None)):
        return None
    trace_id, span_id = int(trace, 16), int(span, 16)
    if not trace_id or not span_id:
        return None
    state = headers.state if is_tracestate(headers.state) else ""
    return TraceContext(trace_id, span_id, int(flags, 16), state)


def is_tracestate(text: str) -> bool:
    """Whether it is a `tracestate` that may be passed on; nothing is one, too."""
    if len(text) > TRACESTATE_MAX:
        return False
    members = [member for part in text.split(",") if (member := part.strip(" \t"))]
    found = [_MEMBER.fullmatch(member) for member in members[: _MEMBERS_MAX + 1]]
    keys = {match[1] for match in found if match is not None}
    return len(members) <= _MEMBERS_MAX and len(keys) == len(members)


def traceparent_of(context: TraceContext) -> str:
    """The header of a context."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.flags:02x}"


def fault_of(headers: TraceHeaders) -> str:
    """What is wrong with headers that somebody gave on purpose; empty: nothing."""
    if read_context(headers) is None:
        return (
            "traceparent is not a trace context; a context looks like "
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        )
    if not is_tracestate(headers.state):
        return f"tracestate is not a list of key=value of at most {TRACESTATE_MAX} characters"
    return ""
