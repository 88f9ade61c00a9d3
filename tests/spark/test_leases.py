"""Leases of a stream's group: who has them, and the threads that keep them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from posthouse.model.errors import InvalidParameter, SharingViolation
from posthouse.spark import leases as module
from posthouse.spark.endpoint import Endpoint
from posthouse.spark.leases import CONSUME, Leases, Worker
from posthouse.spark.options import Manager
from posthouse.spark.places import Place
from tests.process.spark_office import SparkOffice

MakeQueue = Callable[..., str]
PATIENCE_S = 60.0


@pytest.fixture
def place(office: SparkOffice, queue: MakeQueue) -> Place:
    manager = Manager(office.url, str(office.token_file), None, 30.0)
    return Place(f"ALPHA\\private$\\{queue()}", Endpoint(manager))


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Leases]]:
    """`readers(owner)`: one that wants the leases, and renews them all the time."""
    monkeypatch.setattr(module, "RENEW_S", 0.01)
    monkeypatch.setattr(module, "TAKE_OVER_S", 0.0)
    with ExitStack() as running:

        def make(owner: str) -> Leases:
            leases = Leases("archive", CONSUME, owner)
            running.callback(leases.close)
            return leases

        yield make


def test_another_reader_is_told_who_has_it(
    place: Place, readers: Callable[[str], Leases], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the lease that was there should have lapsed; the first one renews it meanwhile."""
    readers("first").take(place, 0)
    waited: list[float] = []
    clock = SimpleNamespace(sleep=waited.append, monotonic=lambda: sum(waited))
    monkeypatch.setattr(module, "time", clock)
    with pytest.raises(SharingViolation, match="first"):
        readers("second").take(place, 0)
    assert waited


def test_nobody_waits_for_another_group(
    place: Place, readers: Callable[[str], Leases], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = readers("other")
    other.group = "other"
    other.take(place, 0)
    monkeypatch.setattr(module, "TAKE_OVER_S", float("inf"))
    with pytest.raises(SharingViolation, match="other"):
        readers("reader").take(place, 0)


def test_a_reader_that_died_is_waited_for(
    place: Place, readers: Callable[[str], Leases], monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = readers("dead")
    dead.take(place, 0)
    monkeypatch.setattr(module, "TAKE_OVER_S", PATIENCE_S)
    monkeypatch.setattr(module.time, "sleep", lambda _: dead.end())
    assert readers("heir").take(place, 0).owner == "heir"


def test_the_same_reader_takes_over_and_the_old_one_notices(
    place: Place, readers: Callable[[str], Leases]
) -> None:
    old, new = readers("reader"), readers("reader")
    assert old.take(place, 0).epoch + 1 == new.take(place, 0).epoch
    old._renewers[0].worker._thread.join(PATIENCE_S)
    with pytest.raises(SharingViolation, match="epoch"):
        old.check()
    new.check()


def test_a_lease_that_has_ended_is_free(
    office: SparkOffice, place: Place, readers: Callable[[str], Leases]
) -> None:
    first = readers("first")
    first.take(place, 0)
    first.end()
    first.end()
    assert readers("second").take(place, 0).owner == "second"
    office.qm.queue(place.queue.replace("ALPHA", ".")).purge()


def test_a_worker_does_one_thing_after_the_other() -> None:
    worker, done, gate = Worker("test", None, None), [], threading.Event()
    worker.do(lambda: gate.wait(PATIENCE_S) and done.append(1))
    threading.Timer(0, gate.set).start()
    worker.do(lambda: done.append(2))
    worker.stop()
    assert done == [1, 2]


def test_a_worker_does_what_it_is_for_again_and_again() -> None:
    turns = threading.Semaphore(0)
    worker = Worker("test", turns.release, 0.0)
    worker.start()
    for _ in range(3):
        assert turns.acquire(timeout=PATIENCE_S)
    worker.stop()


@pytest.mark.parametrize("kind", [InvalidParameter, KeyError])
def test_what_went_wrong_beside_the_stream_is_raised_in_it(kind: type[Exception]) -> None:
    def fail() -> None:
        raise kind("it went wrong")

    worker = Worker("test", None, None)
    worker.do(fail)
    with pytest.raises(kind):
        worker.do(lambda: None)
    with pytest.raises(kind):
        worker.check()
    worker.stop()
