"""Two queue managers of ours: the producer sends to a queue of the other one."""

from __future__ import annotations

from benchmarks.peers.drive_posthouse import PosthouseDriver
from benchmarks.peers.driver import Meter
from benchmarks.peers.work import Load, Mode


class PairDriver:
    """Producers talk to the first, consumers to the second."""

    def __init__(self, address: str) -> None:
        first_url, first_token, second_url, second_token, binary = address.split(" ")
        self._first = PosthouseDriver(
            f"{first_url} {first_token}", rf"DIRECT=TCP:{binary}\private$\{{}}"
        )
        self._second = PosthouseDriver(f"{second_url} {second_token}")

    def prepare(self, queue: str, mode: Mode) -> None:
        """The queue is the second's."""
        self._second.prepare(queue, mode)

    def produce(self, queue: str, load: Load, body: bytes, meter: Meter) -> None:
        """Done when the first has all of it."""
        self._first.produce(queue, load, body, meter)

    def consume(self, queue: str, load: Load, meter: Meter) -> int:
        """At the second."""
        return self._second.consume(queue, load, meter)


DRIVER = PairDriver
