"""Kinds of values that several sections of `posthouse.toml` have."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

SIZE = "size"
DAY_S = 86_400
YEAR_S = 366 * DAY_S
DAY_MS = DAY_S * 1000
COUNT_MAX = 1_000_000_000
SIZE_MAX = 1 << 50

Name = Annotated[str, Meta(max_length=256)]
Names = Annotated[list[Name], Meta(max_length=1000)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
