"""Spans on their way out: a queue with a limit, and the thread that empties it.

The loop only appends. What the collector does, be it slow, away or broken, costs the thread time
and, when the queue is full, spans; they are counted.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from posthouse.engine.ledger.spans import SpanNote

_STOP_S: Final = 2.0


class EndedSpan(NamedTuple):
    """A span with its times, in nanoseconds since 1970."""

    note: SpanNote
    began_ns: int
    ended_ns: int


class Exporter(Protocol):
    """Sends spans, and takes the time that it takes."""

    def export(self, spans: Sequence[EndedSpan]) -> str:
        """Returns why they could not be sent; empty: they were."""

    def shutdown(self) -> None:
        """Gives up what it is at; called from another thread."""


class SpanQueue:
    """Between the loop and the collector."""

    def __init__(
        self,
        exporter: Exporter,
        now_ms: Callable[[], int],
        *,
        queue_max: int,
        batch_max: int,
        delay_ms: int,
        failed: Callable[[str], None] = lambda why: None,
    ) -> None:
        """`now_ms` is the clock of turns; `failed` is told, in the thread, of the first failure
        after spans were sent."""
        self.counts: Counter[str] = Counter()  # exported, dropped and failed
        self._exporter = exporter
        self._now_ms = now_ms
        self._queue_max = queue_max
        self._batch_max = batch_max
        self._delay_s = delay_ms / 1000
        self._failed = failed
        self._is_failing = False
        self._waiting: deque[EndedSpan] = deque()
        self._ending = threading.Event()
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def __len__(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        """Sends from now on."""
        self._thread.start()

    def put(self, notes: list[SpanNote]) -> None:
        """Spans of a turn that is durable; called on the loop, and never waits."""
        room = self._queue_max - len(self._waiting)
        if len(notes) > room:
            self.counts["dropped"] += len(notes) - room
            notes = notes[:room]
        ended_ns, now_ms = time.time_ns(), self._now_ms()
        self._waiting += [
            EndedSpan(
                note, min(ended_ns - (now_ms - note.began_ms) * 1_000_000, ended_ns), ended_ns
            )
            for note in notes
        ]
        if len(self._waiting) >= self._batch_max:
            self._enough.set()

    def stop(self, deadline_s: float) -> None:
        """Sends what is there, as far as there is time; not for the loop."""
        self._ending.set()
        self._enough.set()
        self._thread.join(min(deadline_s, _STOP_S))
        self._exporter.shutdown()
        self._thread.join(min(deadline_s, _STOP_S))

    def _run(self) -> None:
        while not self._ending.is_set():
            self._enough.wait(self._delay_s)
            self._enough.clear()
            while self._waiting and not self._send():
                if len(self._waiting) < self._batch_max:
                    break
        while self._waiting and not self._send():
            pass

    def _send(self) -> str:
        """One request; returns why it failed, after which it rests."""
        some = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._batch_max))]
        if not some:
            return ""
        try:
            why = self._exporter.export(some)
        except Exception as error:  # of a library: spans are lost, and nothing else
            why = f"{type(error).__name__}: {error}"
        self.counts["failed" if why else "exported"] += len(some)
        if why and not self._is_failing:
            self._failed(why)
        self._is_failing = bool(why)
        return why
