"""The last hour and the last day of the queue manager in figures, for charts.

Two rings of samples in memory: 360 of 10 s and 288 of 5 min, nine numbers each, less than 350 KiB
in all whatever the number of queues. A restart begins again.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import QueueRole
from posthouse.protocols.handlers.rates import Counts, counts

TICK_S: Final = 10
HOUR_SAMPLES: Final = 360
DAY_TICKS: Final = 30  # of 10 s: a sample of the day is made every 5 min
DAY_SAMPLES: Final = 288
LOOKED_MAX: Final = 2_000  # queues whose oldest message is looked for at a time


class Sample(NamedTuple):
    """The queue manager at one moment."""

    utc: int
    accepted: float
    received: float
    messages: int
    bytes: int
    oldest_age_s: int
    dead_letters: int
    outgoing: int
    disk_free: int | None


class _Ring:
    """Samples of one interval."""

    def __init__(self, interval_s: int, size: int) -> None:
        self.interval_s = interval_s
        self.samples: deque[Sample] = deque(maxlen=size)
        self._before: Counts | None = None
        self._before_ms = 0

    def add(self, now: Sample, books: Counts, now_ms: int) -> None:
        """One more; its rates are those since the one before it."""
        before, seconds = self._before, (now_ms - self._before_ms) / 1000
        if before is not None and seconds > 0:
            accepted, received = _grown(before, books)
            now = now._replace(
                accepted=round(accepted / seconds, 3), received=round(received / seconds, 3)
            )
        self._before, self._before_ms = books, now_ms
        self.samples.append(now)


class History:
    """The samples; `tick` is called every `TICK_S` seconds."""

    def __init__(self) -> None:
        self.hour = _Ring(TICK_S, HOUR_SAMPLES)
        self.day = _Ring(TICK_S * DAY_TICKS, DAY_SAMPLES)
        self._ticks = 0

    def tick(self, manager: QueueManager, now_ms: int, disk_free: int | None) -> None:
        """Looks at the queue manager; `now_ms` is of a clock that never jumps."""
        sample, books = _look(manager, disk_free), counts(manager)
        self.hour.add(sample, books, now_ms)
        if self._ticks % DAY_TICKS == 0:
            self.day.add(sample, books, now_ms)
        self._ticks += 1


def _grown(before: Counts, after: Counts) -> tuple[int, int]:
    """By how much the books have grown; a queue that was deleted meanwhile takes nothing away."""
    accepted = received = 0
    for number, (now_accepted, now_received) in after.items():
        was_accepted, was_received = before.get(number, (0, 0))
        accepted += max(now_accepted - was_accepted, 0)
        received += max(now_received - was_received, 0)
    return accepted, received


def _look(manager: QueueManager, disk_free: int | None) -> Sample:
    messages = size = oldest = dead = outgoing = looked = 0
    for queue in manager.queues.all():
        count = queue.state.count
        if not count:
            continue
        if queue.outgoing is not None:
            outgoing += count
            continue
        messages, size = messages + count, size + queue.state.bytes
        role = queue.definition.role
        if role is QueueRole.DEAD_LETTER:
            dead += count
        elif role in (QueueRole.PLAIN, QueueRole.SUBQUEUE) and looked < LOOKED_MAX:
            looked += 1
            oldest = max(oldest, manager.messages.oldest_age_s(queue) or 0)
    utc = manager.machine.utc
    return Sample(utc, 0.0, 0.0, messages, size, oldest, dead, outgoing, disk_free)
