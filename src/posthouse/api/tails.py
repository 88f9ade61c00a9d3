"""Messages as they arrive in a queue."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from posthouse.api.types import Json, Name
from posthouse.model.message_json import MessageJson

WAIT_MAX_MS = 30_000


class TailParams(Json):
    """From where on, and how long to wait for the first message; `after` is that of the answer."""

    queue: Name
    after: Annotated[int, Meta(ge=0, lt=1 << 62)] | UnsetType = UNSET
    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MAX_MS)] = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    bodies: bool | UnsetType = UNSET


class TailJson(Json):
    """Messages in the order in which they arrived, and the `after` of the next request."""

    messages: list[MessageJson]
    after: int
