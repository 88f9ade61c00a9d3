"""Drivers of the change test: readers that live, end, or are killed, in a time that may pass."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from posthouse.spark import leases
from posthouse.spark.leases import Leases, Worker
from tests.spark.change_servers import Clock, Server


class Drivers:
    """All readers that live. Who waits for a lease lets time pass, in which they renew theirs."""

    def __init__(self, clock: Clock, servers: Iterable[Server]) -> None:
        self._clock = clock
        self._servers = list(servers)
        self._living: list[Any] = []

    def patch(self, patch: pytest.MonkeyPatch) -> None:
        """Waiting for leases takes no time."""
        patch.setattr(leases, "time", self)
        patch.setattr(leases, "RETRY_S", 4.0)

    def monotonic(self) -> float:
        return time.monotonic() + self._clock.passed_ms / 1000

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        self._clock.passed_ms += int(seconds * 1000)
        for reader in self._living:
            for held in leases_of(reader):
                for renewer in held._renewers:
                    renewer._renew()

    def begun(self, reader: Any) -> None:
        self._living.append(reader)

    def ended(self, reader: Any) -> None:
        """As Spark lets go of a reader."""
        self._living.remove(reader)
        reader.stop()

    def killed(self, reader: Any) -> None:
        """As `kill -9` of the driver: nothing more is asked, and its leases lapse."""
        if reader in self._living:
            self._living.remove(reader)
        for held in leases_of(reader):
            for worker in workers_of(held):
                worker.stop()
            held.disconnect()
            for server in self._servers:
                if server.queues():
                    server.end_leases(held.owner)
        if reader._course is not None:
            for endpoint in reader._course._endpoints:
                endpoint.close()


def leases_of(reader: Any) -> Iterator[Leases]:
    """What a reader holds, if it has begun."""
    course = reader._course
    if course is not None and course._leases is not None:
        yield course._leases


def workers_of(held: Leases) -> list[Worker]:
    """The threads of a reader."""
    return [held._acknowledging, *(renewer.worker for renewer in held._renewers)]
