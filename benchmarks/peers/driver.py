"""What every driver does, and the meter it is held to."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import Protocol, cast

from benchmarks.peers.work import Load, Mode

RECEIVE_TIMEOUT_S = 30  # without a message for this long, a consumer gives up


class Meter:
    """Times of one producer or consumer, on the clock that all processes of a machine share.

    A driver calls `start` when it is connected, `lap` whenever something it waited for has been
    acknowledged, `stop` when all is. `start` waits until it may begin.
    """

    def __init__(self, wait: Callable[[], None] = lambda: None) -> None:
        self._wait = wait
        self.began = self.ended = 0.0
        self.cpu_s = 0.0
        self.laps: list[float] = []

    def start(self) -> None:
        """Everything before this is not measured."""
        self._wait()
        self.cpu_s = -time.process_time()
        self.began = time.monotonic()

    def lap(self) -> None:
        """Something was acknowledged."""
        self.laps.append(time.monotonic())

    def stop(self) -> None:
        """Ends the measurement."""
        self.ended = time.monotonic()
        self.cpu_s += time.process_time()

    @property
    def waits(self) -> list[tuple[float, float]]:
        """Beginning and end of each wait for an acknowledgment; one for the whole if there are no
        laps.
        """
        ends = self.laps or [self.ended]
        return list(zip([self.began, *ends], ends, strict=False))


class Driver(Protocol):
    """A client of one peer, as its users write it. One process has one, for one of these calls."""

    def __init__(self, address: str) -> None: ...

    def prepare(self, queue: str, mode: Mode) -> None:
        """Makes an empty queue, in place of one that may be there."""

    def produce(self, queue: str, load: Load, body: bytes, meter: Meter) -> None:
        """Sends the load; returns when all of it is acknowledged."""

    def consume(self, queue: str, load: Load, meter: Meter) -> int:
        """Receives the load and acknowledges it; returns the bytes of all bodies."""


def make_driver(peer: str, address: str) -> Driver:
    """The driver of a peer; loads the client library that it needs."""
    module = import_module(f"benchmarks.peers.drive_{peer}")
    return cast(type[Driver], module.DRIVER)(address)


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of `host:port`."""
    host, _, port = address.rpartition(":")
    return host, int(port)
