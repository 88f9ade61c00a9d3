"""The types of the API for messages of other machines that were refused on arrival."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from posthouse.api.types import LOOKUP_ID_MAX, Json, Limit


class RefusedParams(Json):
    """Which part of the list; `after` is the `next` of the previous page."""

    limit: Limit = 100
    after: Annotated[int, Meta(ge=0, le=LOOKUP_ID_MAX)] = 0


class RefusedMessageJson(Json):
    """A message that was refused: `times` it was sent, between both times, from `address`.

    `queue` is the name that it was sent to. `reason` is the word of a message class, or the name of
    an error; `cause` has it in words. With `dead_letter` a copy is among the dead letters here.
    """

    id: str
    label: str
    queue: str
    reason: str
    cause: str
    address: str
    first_time: str
    last_time: str
    times: int
    dead_letter: bool = False


class RefusedListJson(Json):
    """Refused messages, the latest refusal first; null in `next` when these were the last."""

    messages: list[RefusedMessageJson]
    next: int | None = None
