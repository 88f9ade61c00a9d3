"""Limits how many searches through queues run at a time for one user.

A search reads and compares messages, which is work in proportion to the queue and not to what was
asked. It has the share of the time that bulk reads have, and a user has a few at a time, so that
one with a token for reading cannot take all of that share from the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from posthouse.protocols.handlers.refusals import TooManyScans
from posthouse.security.access import Caller

_REMEDY: Final = "Wait until one has ended; an operator can raise [limits] scans_per_user."
TAILS_MAX: Final = 4  # that one user has open


class ScanLimits:
    """The searches under way, by user; or requests of another kind."""

    def __init__(self, per_user: int, kind: str = "searches", remedy: str = _REMEDY) -> None:
        self._per_user = per_user
        self._kind = kind
        self._remedy = remedy
        self._running: Counter[bytes] = Counter()

    @contextmanager
    def running(self, caller: Caller) -> Iterator[None]:
        """One search, from its beginning to its end."""
        user = caller.sid
        if self._running[user] >= self._per_user:
            raise TooManyScans(
                f"{caller.name} has {self._per_user} {self._kind} in progress, which is the limit",
                self._remedy,
            )
        self._running[user] += 1
        try:
            yield
        finally:
            self._running[user] -= 1
            if not self._running[user]:
                del self._running[user]
