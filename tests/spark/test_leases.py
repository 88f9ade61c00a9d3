"""Leases of a stream's group: who has them, and the threads that keep them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from queue import SimpleQueue
from types import SimpleNamespace

import pytest

from posthouse.client.groups import GroupReader, GroupState
from posthouse.model.errors import InvalidParameter, SharingViolation
from posthouse.spark import leases as module
from posthouse.spark.endpoint import Endpoint
from posthouse.spark.leases import CONSUME, Leases, Worker
from posthouse.spark.options import Manager
from posthouse.spark.queue_selection import Place
from posthouse.spark.reader_names import _began as began
from posthouse.spark.reader_names import is_dead, reader_name
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


def test_no_two_readers_have_one_name() -> None:
    assert reader_name() != reader_name()
    assert not is_dead(reader_name())


def test_a_process_that_is_gone_is_known_on_its_own_machine_only() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        name = re.sub(r"process \d+\.\d+", f"process {child.pid}.{began(child.pid)}", reader_name())
        assert not is_dead(name)
        child.kill()
    assert is_dead(name)
    assert is_dead(re.sub(r"process \d+\.\d+", f"process {os.getpid()}.1", reader_name()))
    assert not is_dead(name.replace(")", "f)"))
    assert not is_dead(re.sub(r"\([0-9a-f]+\)", "(0123456789ab)", name))
    assert not is_dead("driver somewhere")


def test_the_lease_of_a_dead_reader_is_taken_at_once(
    place: Place, readers: Callable[[str], Leases], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = re.sub(r"process \d+\.\d+", "process 4194303.1", reader_name())
    dead = readers(gone)
    place.endpoint.group(place.queue, dead.group).lease(CONSUME, gone, 0)
    monkeypatch.setattr(module.time, "sleep", lambda _: pytest.fail("it waits"))
    assert readers("heir").take(place, 0).owner == "heir"


def test_leases_are_renewed_beside_a_queue_manager_that_does_not_answer(
    office: SparkOffice,
    place: Place,
    queue: MakeQueue,
    readers: Callable[[str], Leases],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that hangs, and more queues than one thread renews."""
    monkeypatch.setattr(module, "RENEWED_BY_ONE", 2)
    leases, hung, renewed = readers("reader"), threading.Event(), SimpleQueue[str]()
    real = module.GroupReader.renew

    def renew(group: GroupReader, mode: str, owner: str, epoch: int) -> GroupState:
        if group.queue == place.queue:
            hung.wait(PATIENCE_S)
        state = real(group, mode, owner, epoch)
        renewed.put(group.queue)
        return state

    monkeypatch.setattr(module.GroupReader, "renew", renew)
    away = Place(place.queue, Endpoint(place.endpoint.manager))
    leases.take(away, 0)
    others = {f"ALPHA\\private$\\{queue()}" for _ in range(5)}
    for other in others:
        leases.take(Place(other, place.endpoint), 0)
    seen = set[str]()
    while not others <= seen:
        seen.add(renewed.get(timeout=PATIENCE_S))
    assert place.queue not in seen
    hung.set()


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
