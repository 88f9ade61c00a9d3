"""The types for charts of the last hour and the last day."""

from __future__ import annotations

from typing import Literal

from posthouse.api.types import Json


class HistoryParams(Json):
    """Which figures to show: the last hour, every 10 s, or the last day, every 5 min."""

    span: Literal["hour", "day"] = "hour"


class HistoryJson(Json):
    """Figures of the whole queue manager: for each, a value for each of `times`, oldest first.

    `accepted` and `received` are messages a second since the sample before; all others are what was
    there at that moment. `disk_free` is null where it is not known.
    """

    span: str
    interval_s: int
    times: list[str]
    accepted: list[float]
    received: list[float]
    messages: list[int]
    bytes: list[int]
    oldest_age_s: list[int]
    dead_letters: list[int]
    outgoing: list[int]
    disk_free: list[int | None]
