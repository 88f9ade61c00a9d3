"""What a query is, and how many run at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from posthouse.model.roles import Role
from posthouse.protocols.handlers.refusals import TooManyQueries
from posthouse.security.access import Caller

QUERIES_MAX: Final = 2  # at a time, unless set


class QueryCall(NamedTuple):
    """A statement, and on whose behalf it reads."""

    statement: str
    rows: int
    caller: Caller
    role: Role
    token_id: str
    reads_lake: bool


class QueryLimits:
    """The statements in progress: a number of all users together, and one of each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: Counter[bytes] = Counter()

    @contextmanager
    def running(self, caller: Caller) -> Iterator[None]:
        """One statement, from its beginning to its end."""
        user = caller.sid
        if self._running[user]:
            raise TooManyQueries(
                f"{caller.name} has a query in progress", "Wait until it has ended, or stop it."
            )
        if self._running.total() >= self._most:
            raise TooManyQueries(
                f"{self._most} queries are in progress, which is the limit",
                "Wait until one has ended; an operator can raise [admin] queries_max.",
            )
        self._running[user] += 1
        try:
            yield
        finally:
            del self._running[user]
