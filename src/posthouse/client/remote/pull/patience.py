"""Wait for a machine that is away, from the first question on, and report the outage once.

An unknown host name, and a port of another service, are errors at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from posthouse.client.errors import ClientConnectionError, ServerUnreachable
from posthouse.client.remote.connect import NotReached, OtherService
from posthouse.client.rpc_link import LinkLost

T = TypeVar("T")
Told = Callable[[ClientConnectionError], None]
PAUSE_S: Final = 0.1
TELL_S: Final = 1.0
"""Shorter outages, such as a restart, are not reported."""


def passes(error: ClientConnectionError) -> bool:
    """Return if a machine may be back soon."""
    if isinstance(error, NotReached):
        return error.reason != "name"
    return not isinstance(error, OtherService)


class Patience:
    """One outage: how long it has lasted, and how long it may."""

    def __init__(self, limit_s: float, told: Told) -> None:
        self._limit_s = limit_s
        self._told: Told | None = told
        self._begun: float | None = None

    def wait(self, error: ClientConnectionError) -> bool:
        """Wait a moment, and return True; False: it has lasted too long."""
        now = time.monotonic()
        if self._begun is None:
            self._begun = now
        lasted_s = now - self._begun
        if lasted_s >= self._limit_s:
            return False
        if self._told is not None and lasted_s >= TELL_S:
            self._told(error)
            self._told = None
        time.sleep(PAUSE_S)
        return True


def patiently(call: Callable[[], T], limit_s: float, told: Told) -> T:
    """Ask until there is an answer, or none came for this long."""
    patience = Patience(limit_s, told)
    while True:
        try:
            return call()
        except (LinkLost, ServerUnreachable) as error:
            if not passes(error) or not patience.wait(error):
                raise
