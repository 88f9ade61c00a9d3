"""The cyclic collector: small steps under load, everything at rest."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable

import pytest

from posthouse.runtime import garbage_collection
from posthouse.runtime.garbage_collection import LOOK_S, REST_S, CollectAtRest


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
    """Timers by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.turns = 0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.timers.append((self.now_s + seconds, call))

    def advance(self) -> None:
        """To the next timer."""
        self.now_s, call = self.timers.pop(0)
        call()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(garbage_collection, "collect_all", lambda: None)
    monkeypatch.setattr(garbage_collection, "LONG_COLLECTION", 1)
    kept = iter(range(0, 10_000_000, 10))
    monkeypatch.setattr(gc, "get_freeze_count", lambda: next(kept))
    return Clock()


def test_everything_is_collected_at_rest_and_seldom(clock: Clock) -> None:
    made = CollectAtRest(clock.later, lambda: clock.now_s, lambda: clock.turns)
    while clock.now_s < 3 * REST_S + LOOK_S:
        clock.advance()
    assert made.collections == 3


def test_nothing_is_collected_while_there_are_turns(clock: Clock) -> None:
    made = CollectAtRest(clock.later, lambda: clock.now_s, lambda: clock.turns)
    while clock.now_s < 3 * REST_S:
        clock.turns += 1
        clock.advance()
    assert made.collections == 0
    clock.advance()
    clock.advance()
    assert made.collections == 1


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
    assert gc.get_freeze_count() == before


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
