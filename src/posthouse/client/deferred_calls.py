"""Calls that run a moment later, so that one run serves many of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

IDLE_ROUNDS: Final = 20  # after this many without anything to do the thread ends


class Reminder:
    """Calls back a moment after it was asked to. Its thread lives as long as it is asked."""

    def __init__(self, call: Callable[[], None], after_s: float) -> None:
        self._call = call
        self._after_s = after_s
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._asked = False
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Within that time from now, or a little later, it will have been called."""
        with self._lock:
            self._asked = True
            if self._thread is None and not self._stopped.is_set():
                thread = threading.Thread(target=self._run, name="posthouse-reader", daemon=True)
                self._thread = thread
                thread.start()

    def _run(self) -> None:
        idle = 0
        while not self._stopped.wait(self._after_s):
            with self._lock:
                idle = 0 if self._asked else idle + 1
                self._asked = False
                if idle > IDLE_ROUNDS:
                    self._thread = None
                    return
            if not idle:
                self._call()

    def stop(self) -> None:
        """Nothing is called after this has returned."""
        self._stopped.set()
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()
