"""Something that happens soon."""

from __future__ import annotations

import threading

from posthouse.client.deferred_calls import Reminder


def test_it_happens_once_for_many_who_asked() -> None:
    happened = threading.Semaphore(0)
    soon = Reminder(happened.release, 0.02)
    for _ in range(1000):
        soon.ask()
    assert happened.acquire(timeout=20)
    soon.stop()
    assert not happened.acquire(blocking=False)


def test_it_happens_again_for_who_asks_again() -> None:
    happened = threading.Semaphore(0)
    soon = Reminder(happened.release, 0.001)
    for _ in range(5):
        soon.ask()
        assert happened.acquire(timeout=20)
    soon.stop()


def test_its_thread_ends_when_nobody_asks() -> None:
    happened = threading.Semaphore(0)
    soon = Reminder(happened.release, 0.0001)
    soon.ask()
    thread = soon._thread
    assert thread is not None
    thread.join(20)
    assert not thread.is_alive()
    soon.ask()
    assert happened.acquire(timeout=20)
    assert happened.acquire(timeout=20)
    soon.stop()


def test_nothing_happens_after_the_stop() -> None:
    happened: list[int] = []
    soon = Reminder(lambda: happened.append(1), 20)
    soon.ask()
    soon.stop()
    soon.ask()
    soon.stop()
    assert happened == []
