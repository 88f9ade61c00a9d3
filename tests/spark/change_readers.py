"""Drivers of the change test: readers that live, end, or are killed, in a time that may pass."""

from __future__ import annotations

import time
from typing import Any

import pytest

from posthouse.spark import leases
from posthouse.spark.leases import Worker
from tests.spark.change_servers import Clock


class Drivers:
    """All readers that live. Who waits for a lease lets time pass, in which they renew theirs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._living: list[Any] = []

    def patch(self, patch: pytest.MonkeyPatch) -> None:
        """Waiting for leases takes no time."""
        patch.setattr(leases, "time", self)

    def monotonic(self) -> float:
        return time.monotonic() + self._clock.passed_ms / 1000

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        self._clock.passed_ms += int(seconds * 1000)
        for reader in self._living:
            if reader._course is not None and reader._course._leases is not None:
                reader._course._leases._renew_all()

    def begun(self, reader: Any) -> None:
        self._living.append(reader)

    def ended(self, reader: Any) -> None:
        """As Spark lets go of a reader."""
        self._living.remove(reader)
        reader.stop()

    def killed(self, reader: Any) -> None:
        """As `kill -9` of the driver: nothing more is said to the queue manager."""
        if reader in self._living:
            self._living.remove(reader)
        course = reader._course
        if course is None:
            return
        if course._leases is not None:
            for part in vars(course._leases).values():
                if isinstance(part, Worker):
                    part.stop()
        for endpoint in course._endpoints:
            endpoint.close()
