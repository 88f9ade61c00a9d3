"""Messages as they arrive in a queue, and lines of the event log as they are written."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from posthouse.api.types import Json, Name
from posthouse.model.message_json import MessageJson

WAIT_MAX_MS = 30_000
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


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


class LogTailParams(Json):
    """From which line on, how long to wait for the first one, and the least important level."""

    after: Annotated[int, Meta(ge=0, lt=1 << 62)] | UnsetType = UNSET
    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MAX_MS)] = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    level: Literal["debug", "info", "warning", "error"] = "debug"


class LogLineJson(Json):
    """An event: `text` has its details as `key=value`, escaped as in the log."""

    number: int
    time: str
    level: str
    event: str
    text: str


class LogTailJson(Json):
    """Lines, the oldest first, and the `after` of the next request.

    `left_out` is the number of lines since the last request that are no longer kept.
    """

    lines: list[LogLineJson]
    after: int
    left_out: int = 0
