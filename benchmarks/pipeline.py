"""Turns whose syncs overlap: while one group is being synced, the next ones are decided.

This is how a server runs the driver. The main thread owns the engine; one other thread does
nothing but sync. A sync begins when the last one ended and takes along what has arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from queue import SimpleQueue
from threading import Event, Thread
from types import TracebackType
from typing import Self

from benchmarks.home import Home, Turn
from posthouse.runtime.driver import Call, Driver

TURNS_IN_FLIGHT = 8


class SyncThread:
    """Runs `Driver.sync`, one at a time."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._orders: SimpleQueue[bool] = SimpleQueue()
        self._idle = Event()
        self._idle.set()
        self._error: BaseException | None = None
        self._thread = Thread(target=self._work, name="sync", daemon=True)

    def _work(self) -> None:
        while self._orders.get():
            try:
                self._driver.sync()
            except BaseException as error:
                self._error = error
            self._idle.set()

    @property
    def idle(self) -> bool:
        """No sync is running."""
        return self._idle.is_set()

    def begin(self) -> None:
        """Starts a sync; none may be running."""
        assert self.idle
        self._idle.clear()
        self._orders.put(True)

    def wait(self) -> None:
        """Until the sync that runs has ended; its error is raised here."""
        self._idle.wait()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._orders.put(False)
        self._thread.join()


def run_pipelined(home: Home, calls: Iterable[Call]) -> int:
    """Each call is a turn; at most this many turns wait for their sync. Returns the turns run."""
    driver, turns = home.driver, 0
    unanswered: deque[Turn] = deque()
    with SyncThread(driver) as syncer:
        for call in calls:
            unanswered.append(home.decide([call], keep=False))
            turns += 1
            if syncer.idle:
                _let_out(driver, syncer)
            while driver.waiting_answers >= TURNS_IN_FLIGHT:
                _let_out(driver, syncer)
            driver.tidy()
            while unanswered and not unanswered[0].due:
                unanswered.popleft()
        while driver.waiting_answers:
            _let_out(driver, syncer)
        syncer.wait()
    assert not any(turn.due for turn in unanswered), "an answer is missing"
    return turns


def _let_out(driver: Driver, syncer: SyncThread) -> None:
    """Waits for the running sync, lets out what it covered, begins the next if one is due."""
    syncer.wait()
    driver.release()
    if driver.waiting_answers:
        syncer.begin()
