"""How fast queues fill and empty, measured from their books every few seconds."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from posthouse.engine.ledger.records import ACCEPTED, RECEIVED
from posthouse.engine.manager import QueueManager

SAMPLE_INTERVAL_MS: Final = 5_000
SAMPLES_MAX: Final = 13  # a minute


Counts = dict[int, tuple[int, int]]
"""Messages accepted and received so far, by the number of the queue."""


class Rate(NamedTuple):
    """Messages a second, over the last minute."""

    accepted: float = 0.0
    received: float = 0.0


class Rates:
    """The books of all queues over the last minute; `sample` is called every few seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, dict[int, tuple[int, int]]]] = deque(maxlen=SAMPLES_MAX)

    def sample(self, manager: QueueManager, now_ms: int) -> None:
        """Notes where the books stand."""
        self._samples.append((now_ms, counts(manager)))

    def of(self, number: int) -> Rate:
        """The rates of a queue; zero while there is too little to go by."""
        if len(self._samples) < 2:
            return Rate()
        (first_ms, first), (last_ms, last) = self._samples[0], self._samples[-1]
        before, after = first.get(number, (0, 0)), last.get(number)
        seconds = (last_ms - first_ms) / 1000
        if after is None or seconds <= 0:
            return Rate()
        # The express line of the books begins again after a crash, never while we look.
        accepted, received = after[0] - before[0], after[1] - before[1]
        return Rate(round(accepted / seconds, 3), round(received / seconds, 3))


def counts(manager: QueueManager) -> Counts:
    """What every queue has accepted, and what of it was received."""
    return {
        number: (
            state.books[ACCEPTED] + state.express_books[ACCEPTED],
            state.books[RECEIVED] + state.express_books[RECEIVED],
        )
        for number, state in manager.queues.states()
    }
