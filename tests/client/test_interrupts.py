"""Ctrl-C while the blocking client waits for an answer."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType

import posthouse
from tests.client.serving import Serving

PLACES = "/posthouse/", "threading.py", "socket.py", "selectors.py"
SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
LIMIT_S = 60.0  # for a session that hangs; it closes at once


class Interrupt:
    """Ctrl-C as a function is called that is the given one in number.

    Functions of ours count, and those of Python that they wait in. Others do not: Python 3.11 can
    crash where an exception comes out of a tracer in a generator, or in a callback from C.
    """

    def __init__(self, at: int) -> None:
        self._calls_left = at

    @property
    def came(self) -> bool:
        return self._calls_left <= 0

    def called(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_flags & SUSPENDED or not any(map(code.co_filename.__contains__, PLACES)):
            return
        self._calls_left -= 1
        if self.came:
            sys.settrace(None)
            raise KeyboardInterrupt


@contextmanager
def interrupted(at: int) -> Iterator[Interrupt]:
    interrupt = Interrupt(at)
    before = sys.gettrace()
    gc.disable()  # no finalizer runs, in which Python would ignore Ctrl-C
    sys.settrace(interrupt.called)
    try:
        yield interrupt
    finally:
        sys.settrace(before)
        gc.enable()


def ask_and_close(server: Serving, path: str, interrupted_at: list[int]) -> None:
    """Asks with Ctrl-C in every place there is; after each the session closes."""
    for at in count(1):
        interrupt = None
        try:
            with posthouse.connect(server.home) as manager:
                queue = manager.queue(path)
                with interrupted(at) as interrupt:
                    queue.count()
        except KeyboardInterrupt:
            interrupted_at.append(at)
        if interrupt is None or not interrupt.came:
            return


def test_a_session_that_ctrl_c_cut_off_anywhere_closes(server: Serving, path: str) -> None:
    with posthouse.connect(server.home) as manager:
        manager.create_queue(path)
    places: list[int] = []
    thread = threading.Thread(target=ask_and_close, args=(server, path, places), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert not thread.is_alive(), f"it hangs after Ctrl-C in call {len(places) + 1}"
    assert len(places) > 20
