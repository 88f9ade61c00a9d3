"""A thread that returns what its function returned, or raises what it raised."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Thread(threading.Thread):
    """Does something that waits; `result` is what came of it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.value: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.value = self._work()
        except Exception as error:
            self.value = error

    def result(self) -> Any:
        self.join(20)
        assert not self.is_alive()
        return self.value
