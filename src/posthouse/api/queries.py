"""Statements of SQL over queues and the lake, and their results."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from posthouse.api.types import Json

STATEMENT_MAX = 100_000
ROWS_MAX = 10_000


class QueryBody(Json):
    """One SELECT, or SHOW TABLES; `rows` is the largest number of rows of the answer."""

    statement: Annotated[str, Meta(min_length=1, max_length=STATEMENT_MAX)]
    rows: Annotated[int, Meta(ge=1, le=ROWS_MAX)] = 1000


class QueryColumnJson(Json):
    """A column of a result. `kind` is number, time, flag, text or other."""

    name: str
    kind: str


class QueryResultJson(Json):
    """The rows of a statement, each a list of values; bytes are base64, times ISO 8601 in UTC.

    `more` states that there are more rows than were asked for, or than an answer may hold.
    """

    columns: list[QueryColumnJson]
    rows: list[list[Any]]
    more: bool
    ms: int
    count: int = msgspec.field(default=0)
