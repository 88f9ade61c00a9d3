"""The cyclic collector: small steps under load, everything at rest."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from itertools import pairwise

import pytest

from posthouse.runtime import garbage_collection
from posthouse.runtime.garbage_collection import (
    LONG_COLLECTION,
    LOOK_S,
    QUIET_TURNS,
    REST_S,
    SHARE,
    TRAFFIC_S,
    CollectInTime,
)
from tests.support.circles import without_collector


def test_the_collector_leaves_alone_what_was_there_before_and_still_finds_cycles() -> None:
    code = (
        "import gc, weakref\n"
        "from posthouse.runtime.garbage_collection import COLLECT_AFTER, collect_in_small_steps\n"
        "collect_in_small_steps()\n"
        "print(gc.get_freeze_count() > 0, gc.get_threshold() == COLLECT_AFTER)\n"
        "class Ring: pass\n"
        "ring = Ring(); ring.itself = ring; seen = weakref.ref(ring); del ring\n"
        "kept = [[] for _ in range(COLLECT_AFTER[0])]\n"
        "print(seen() is None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]


def test_what_stays_is_put_aside_so_that_no_collection_takes_long() -> None:
    """Half a million objects that stay: no collection looks at more than a part of them."""
    code = (
        "import gc\n"
        "from posthouse.runtime.garbage_collection import *\n"
        "collect_in_small_steps()\n"
        "looked = []\n"
        "gc.callbacks.append(lambda phase, info: looked.append(\n"
        "    len(gc.get_objects(info['generation']))) if phase == 'stop' else None)\n"
        "kept = [[] for _ in range(500_000)]\n"
        "print(max(looked) < 4 * LONG_COLLECTION, gc.get_freeze_count() > 400_000)\n"
        "class Ring: pass\n"
        "rings = [Ring() for _ in range(100_000)]\n"
        "for ring in rings: ring.itself = ring\n"
        "del rings, ring\n"
        "collect_all()\n"
        "gc.unfreeze()\n"
        "print(not any(isinstance(one, Ring) for one in gc.get_objects()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]


class Clock:
    """Timers by hand, turns in each step, and objects that are put aside in it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.turns = self.turns_each = 0
        self.frozen, self.frozen_each = 100_000, 0
        self.took_s = 0.0
        self.collected: list[float] = []
        self.looks = 0
        self._timers: list[tuple[float, Callable[[], None]]] = []
        patch.setattr(garbage_collection, "collect_all", self._collect_all)
        patch.setattr(gc, "get_freeze_count", lambda: self.frozen)
        CollectInTime(self._later, lambda: self.now_s, lambda: self.turns, self._looked)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers.append((self.now_s + seconds, call))

    def _collect_all(self) -> None:
        self.collected.append(self.now_s)
        self.now_s += self.took_s

    def _looked(self) -> None:
        self.looks += 1

    def run(self, until_s: float) -> list[float]:
        """When everything was collected."""
        while self._timers[0][0] < until_s:
            self.turns += self.turns_each
            self.frozen += self.frozen_each
            self.now_s, call = self._timers.pop(0)
            call()
        return self.collected


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


MUCH = LONG_COLLECTION + 1


def test_everything_is_collected_soon_at_rest_also_where_there_are_some_turns(clock: Clock) -> None:
    """The samples of the history are a turn each."""
    clock.turns_each, clock.frozen_each = QUIET_TURNS, MUCH
    assert clock.run(2 * REST_S + LOOK_S) == [REST_S, 2 * REST_S]
    assert clock.looks == 2 * REST_S / LOOK_S


def test_everything_is_collected_during_traffic_but_seldom(clock: Clock) -> None:
    clock.turns_each, clock.frozen_each = QUIET_TURNS + 1, LONG_COLLECTION // 20
    assert clock.run(2 * TRAFFIC_S + LOOK_S) == [TRAFFIC_S, 2 * TRAFFIC_S]


def test_nothing_is_collected_while_little_was_put_aside(clock: Clock) -> None:
    clock.frozen += LONG_COLLECTION
    assert clock.run(2 * TRAFFIC_S) == []
    clock.frozen += 1
    assert clock.run(2 * TRAFFIC_S + LOOK_S + 1) == [2 * TRAFFIC_S]


def test_very_much_is_collected_at_the_next_look(clock: Clock) -> None:
    """Half as much again as there was: so many connections cannot break before."""
    clock.turns_each = QUIET_TURNS + 1
    assert clock.run(5 * LOOK_S) == []
    clock.frozen += 50_001
    assert clock.run(7 * LOOK_S) == [5 * LOOK_S]


def test_a_long_collection_is_not_soon_repeated(clock: Clock) -> None:
    clock.turns_each, clock.frozen_each, clock.took_s = QUIET_TURNS + 1, 200_000, 0.5
    begun = clock.run(500)
    assert len(begun) > 5
    for one, next_one in pairwise(begun):
        assert next_one - one >= 0.5 / SHARE


class Ring:
    def __init__(self) -> None:
        self.itself = self


def test_what_was_not_put_aside_is_collected_when_rest_begins(clock: Clock) -> None:
    with without_collector():
        seen = weakref.ref(Ring())
        clock.turns_each = QUIET_TURNS + 1
        clock.run(3 * LOOK_S)
        assert seen() is not None
        clock.turns_each = 0
        clock.run(4 * LOOK_S)
        assert seen() is None
        seen = weakref.ref(Ring())
        clock.run(9 * LOOK_S)
        assert seen() is not None  # nothing has happened since


def test_a_step_that_copies_much_is_not_interrupted_by_collections() -> None:
    """And what it made is not looked at afterwards, but goes when it is not used."""
    begun, threshold = list[int](), gc.get_threshold()

    def note(phase: str, info: dict[str, int]) -> None:
        begun.append(info["generation"])

    gc.collect()
    gc.set_threshold(100, 5, 2)
    gc.callbacks.append(note)
    try:
        with garbage_collection.without_collections(lambda: 0):
            made = [[number] for number in range(garbage_collection.LONG_COLLECTION + 1_000)]
        assert begun == []
        assert gc.isenabled()
        assert gc.get_freeze_count() >= len(made)
        kept = gc.get_freeze_count()
        made.clear()
        assert gc.get_freeze_count() <= kept - garbage_collection.LONG_COLLECTION
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*threshold)
        gc.unfreeze()


def test_a_small_step_puts_nothing_aside() -> None:
    gc.collect()
    before = gc.get_freeze_count()
    with garbage_collection.without_collections(lambda: 0):
        made = [[number] for number in range(100)]
    assert made
    assert gc.get_freeze_count() <= before  # what was put aside earlier may end meanwhile


def test_a_copy_of_the_state_is_put_aside() -> None:
    """It has few objects and very large tables, through which each collection would go again."""
    gc.collect()
    copies = iter((7, 8))
    before = gc.get_freeze_count()
    try:
        with garbage_collection.without_collections(lambda: next(copies)):
            made = {(number, b"key"): b"value" for number in range(100)}
        assert made
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()


def test_a_collection_of_everything_does_not_put_off_the_next_ones() -> None:
    """Python waits until there are a quarter more objects than the last one left."""
    code = (
        "import gc\n"
        "from posthouse.runtime.garbage_collection import *\n"
        "before = [[] for _ in range(400_000)]\n"
        "collect_in_small_steps()\n"
        "looked = []\n"
        "gc.callbacks.append(lambda phase, info: looked.append(\n"
        "    len(gc.get_objects())) if phase == 'start' and info['generation'] == 2 else None)\n"
        "kept = [[] for _ in range(90_000)]\n"
        "print(len(looked) > 1, max(looked) < 4 * LONG_COLLECTION)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]
