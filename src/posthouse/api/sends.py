"""A message to send, and the answer."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from posthouse.api.transfer import U32
from posthouse.api.types import BODY_SIZE_MAX, Bytes, Guid, Json, OptionalName
from posthouse.model.trace_context import TRACEPARENT_MAX, TRACESTATE_MAX

Delivery = Literal["express", "recoverable", "transactional"]
Acknowledgment = Literal["pos-arrival", "neg-arrival", "pos-receive", "neg-receive"]
Journaling = Literal["positive", "negative"]


class SendOnce(Json):
    """Names a message, so that it is sent once. Draw a series, and count its messages."""

    series: Annotated[str, Meta(pattern="^[0-9a-f]{32}$", min_length=32, max_length=32)]
    number: Annotated[int, Meta(ge=1, lt=1 << 62)]


class BodyFormatter(Json):
    """How `body_text` becomes a body that .NET reads, as `posthouse send --formatter` does it."""

    formatter: Literal["activex", "json", "text", "xml"]
    type: Annotated[str, Meta(max_length=64)] = ""
    root: Annotated[str, Meta(max_length=256)] = ""
    namespace: Annotated[str, Meta(max_length=1024)] = ""


class SendBody(Json):
    """A message to send. The body is `body` in base64 or `body_text`; `once` sends it once.

    With `formatter`, `body_text` is what the formatter writes, and it sets the body type.

    `traceparent` and `tracestate` go into the extension; without them, those of the request do.

    With `sign` the queue manager signs for the caller, with `encrypt` the body is encrypted on its
    way; both are for one queue, and without a `dead_letter_queue`.
    """

    label: Annotated[str, Meta(max_length=249)] = ""
    body: Bytes = b""
    body_text: Annotated[str, Meta(max_length=BODY_SIZE_MAX)] | None = None
    body_type: U32 = 0
    formatter: BodyFormatter | None = None
    priority: Annotated[int, Meta(ge=0, le=7)] = 3
    delivery: Delivery = "express"
    correlation_id: Annotated[str, Meta(pattern="^([0-9a-fA-F]{40})?$", max_length=40)] = ""
    admin_queue: OptionalName = ""
    response_queue: OptionalName = ""
    dead_letter_queue: OptionalName = ""
    acknowledge: Annotated[list[Acknowledgment], Meta(max_length=4)] = field(default_factory=list)
    journal: Annotated[list[Journaling], Meta(max_length=2)] = field(default_factory=list)
    app_specific: U32 = 0
    connector_type: Guid | None = None
    trace: OptionalName = ""
    time_to_reach_queue: U32 | None = None
    time_to_be_received: U32 | None = None
    extension: Bytes = b""
    sign: bool | UnsetType = UNSET  # not in the digest of what `once` names, where it is not given
    encrypt: bool | UnsetType = UNSET
    traceparent: Annotated[str, Meta(max_length=TRACEPARENT_MAX)] = ""
    tracestate: Annotated[str, Meta(max_length=TRACESTATE_MAX)] = ""
    once: SendOnce | None = None


class SentJson(Json):
    """The identifier that the message got."""

    id: str
