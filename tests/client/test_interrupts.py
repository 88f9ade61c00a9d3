"""Ctrl-C while the blocking client waits for an answer."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType

import posthouse
from tests.client.serving import Serving

LIMIT_S = 60.0  # for a session that hangs; it closes at once


@contextmanager
def interrupted(at: int) -> Iterator[None]:
    """Ctrl-C comes as a function is called that is the given one in number."""
    calls = 0

    def called(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            sys.settrace(None)
            raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)


def ask_and_close(server: Serving, path: str, interrupted_at: list[int]) -> None:
    """Asks with Ctrl-C in every place there is; after each the session closes."""
    for at in count(1):
        try:
            with posthouse.connect(server.home) as manager:
                queue = manager.queue(path)
                with interrupted(at):
                    queue.count()
                return
        except KeyboardInterrupt:
            interrupted_at.append(at)


def test_a_session_that_ctrl_c_cut_off_anywhere_closes(server: Serving, path: str) -> None:
    with posthouse.connect(server.home) as manager:
        manager.create_queue(path)
    places: list[int] = []
    thread = threading.Thread(target=ask_and_close, args=(server, path, places), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert not thread.is_alive(), f"it hangs after Ctrl-C in call {len(places) + 1}"
    assert len(places) > 5  # fewer calls where the answer is there already
