"""Which queue managers of a stream answer: one that is away does not stop the others.

A stream of one queue manager waits for it, as the option `retryFor` allows. One of several waits
for none while another one answers: those that are away are reported, left out, and asked again
with growing pauses.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from posthouse.client.admin_http import AWAY, RequestRetries
from posthouse.client.errors import ClientConnectionError
from posthouse.spark.endpoint import Endpoint

PAUSE_FIRST_S: Final = 1.0  # before one that is away is asked again
PAUSE_LAST_S: Final = 30.0
T = TypeVar("T")
_log = logging.getLogger(__name__)


class Outage(NamedTuple):
    """A queue manager that is away."""

    error: Exception
    since: float
    pause_s: float
    again_at: float


class Reach:
    """The queue managers of a stream, and which of them are away."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self.endpoints = endpoints
        self._outages: dict[Endpoint, Outage] = {}

    @property
    def is_shared(self) -> bool:
        """Whether the stream has several queue managers."""
        return len(self.endpoints) > 1

    def away(self) -> list[Endpoint]:
        """Those that did not answer when they were asked last."""
        return list(self._outages)

    def is_away(self, endpoint: Endpoint) -> bool:
        """Whether one did not answer when it was asked last."""
        return endpoint in self._outages

    def answers(
        self, endpoints: Iterable[Endpoint], ask: Callable[[Endpoint], T]
    ) -> dict[Endpoint, T]:
        """What each of them answers. Those that are away are left out, if any of them answers."""
        asked = list(endpoints)
        if not self.is_shared:
            return {one: ask(one) for one in asked}
        found = self._answers([one for one in asked if self._is_due(one)], ask)
        if found or not asked:
            return found
        retries = RequestRetries(asked[0].manager.retry_s)
        while not found:
            outage = self._outages.get(asked[0])
            if outage is not None and not retries.pause(asked[0].manager.url, outage.error):
                raise outage.error
            found = self._answers(asked, ask)
        return found

    def attempt(self, endpoint: Endpoint, ask: Callable[[Endpoint], object]) -> None:
        """Asks one of several once; whether it is away shows later."""
        if self.is_shared:
            self._answers([endpoint], ask)
        else:
            ask(endpoint)

    def _answers(
        self, endpoints: Iterable[Endpoint], ask: Callable[[Endpoint], T]
    ) -> dict[Endpoint, T]:
        found = {}
        for one in endpoints:
            try:
                with one.impatient():
                    found[one] = ask(one)
            except AWAY as error:
                self.missed(one, error)
            else:
                self._back(one)
        return found

    def wait_for(self, endpoint: Endpoint, why: str) -> None:
        """Waits until one that is away answers, as long as `retryFor` allows.

        `why` it cannot be left out is added to the error.
        """
        if endpoint not in self._outages:
            return
        try:
            endpoint.ask_name()
        except ClientConnectionError as error:
            error.cause = f"{error.cause}; {why}"
            raise
        self._back(endpoint)

    def _is_due(self, endpoint: Endpoint) -> bool:
        outage = self._outages.get(endpoint)
        return outage is None or time.monotonic() >= outage.again_at

    def missed(self, endpoint: Endpoint, error: Exception) -> None:
        """One did not answer; that is reported once for each outage."""
        outage, now = self._outages.get(endpoint), time.monotonic()
        if outage is None:
            _log.warning("%s Its queues wait until it is back; the others go on.", error)
            outage = Outage(error, now, PAUSE_FIRST_S / 2, now)
        pause_s = min(2 * outage.pause_s, PAUSE_LAST_S)
        self._outages[endpoint] = Outage(error, outage.since, pause_s, now + pause_s)

    def _back(self, endpoint: Endpoint) -> None:
        outage = self._outages.pop(endpoint, None)
        if outage is not None:
            lasted_s = time.monotonic() - outage.since
            _log.warning("%s answers again, after %.1f s.", endpoint.manager.url, lasted_s)
