"""The trace context of a request: what a send takes over, and what a receive answers with."""

from __future__ import annotations

from collections.abc import Sequence

from posthouse.formats.trace_headers import with_given_trace, with_trace
from posthouse.model.message import Message
from posthouse.model.message_json import MessageJson
from posthouse.model.trace_context import (
    TRACEPARENT,
    TRACESTATE,
    TraceHeaders,
    is_tracestate,
    read_context,
)


class RequestTrace:
    """The headers `traceparent` and `tracestate` of one request and of its answer."""

    __slots__ = ("_sent", "received")

    def __init__(self, parents: Sequence[str] = (), states: Sequence[str] = ()) -> None:
        """With all headers of these names; what is not a context counts as none."""
        self._sent: TraceHeaders | None = None
        self.received: dict[str, str] = {}  # headers of the answer
        if len(parents) == 1 and read_context(TraceHeaders(parents[0])) is not None:
            state = ",".join(states)
            self._sent = TraceHeaders(parents[0], state if is_tracestate(state) else "")

    def put_into(self, message: Message, parent: str = "", state: str = "") -> None:
        """A message to send gets the context that it was given, or else that of the request.

        What was given on purpose is refused where it cannot be carried.
        """
        if parent or state:
            message.extension = with_given_trace(message.extension, TraceHeaders(parent, state))
        elif self._sent is not None:
            made = with_trace(message.extension, self._sent)
            message.extension = message.extension if made is None else made

    def answer_with(self, messages: Sequence[MessageJson]) -> None:
        """One message that was received: its context is that of the answer."""
        if len(messages) == 1 and isinstance(messages[0].traceparent, str):
            self.received[TRACEPARENT] = messages[0].traceparent
            if isinstance(messages[0].tracestate, str):
                self.received[TRACESTATE] = messages[0].tracestate
