"""Runs Python's cyclic garbage collector in short steps, and fully when idle."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

COLLECT_AFTER = (2_000, 3, 1)  # objects, then collections of the younger ones
LONG_COLLECTION = 8_000  # objects; what has stayed through one of this many is not looked at again
LOOK_S = 10.0  # without a turn the loop is at rest
REST_S = 3600.0  # between two collections of everything


def collect_in_small_steps() -> None:
    """Keeps the cyclic collector away from what stays for good, so that it never takes long.

    A collection looks at every object that it has not put aside, some 0.5 us for each. Of a few
    thousand new ones those that stay are looked at twice more, and then put aside by `gc.freeze`.
    Messages make no cycles, and connections let go of theirs; what is put aside and becomes a cycle
    later waits for `collect_all`.
    """
    gc.collect()
    put_aside()
    gc.set_threshold(*COLLECT_AFTER)
    gc.callbacks.append(_look_at_size)


def put_aside() -> None:
    """What there is now is not looked at again, nor does it count as what the last one left.

    Python puts off a collection of the oldest objects until there are a quarter more of them than
    the last one left: after one of everything that would be very many.
    """
    gc.freeze()
    gc.collect()  # of nothing


def _look_at_size(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2 and _stayed() > LONG_COLLECTION:
        gc.freeze()


def _stayed() -> int:
    """Objects that the oldest generation has: as many as the next collection looks at again."""
    return len(gc.get_objects(2))


@contextmanager
def without_collections(copies: Callable[[], int]) -> Iterator[None]:
    """For a step that may make very much at once, which is not a cycle: a copy of the state.

    Collections in the middle of it would take twice the time of the copy, and each one after it
    would go through its tables again. So what has been copied is put aside, as is a great number
    of other objects; it goes when nothing refers to it.
    """
    was_enabled, before = gc.isenabled(), copies()
    gc.disable()
    try:
        yield
    finally:
        if copies() != before or gc.get_count()[0] > LONG_COLLECTION:
            gc.freeze()
        if was_enabled:
            gc.enable()


def collect_all() -> None:
    """Looks at everything, also at what was put aside; for a moment when nothing else is done."""
    gc.unfreeze()
    gc.collect()
    put_aside()


class CollectAtRest:
    """Collects everything once in a while, when there has been no turn for some seconds."""

    def __init__(
        self,
        later: Callable[[float, Callable[[], None]], object],
        now: Callable[[], float],
        turns: Callable[[], int],
    ) -> None:
        self._later = later
        self._now = now
        self._turns = turns
        self._seen = turns()
        self._due_s = now() + REST_S
        self._kept = gc.get_freeze_count()
        self.collections = 0
        later(LOOK_S, self._look)

    def _look(self) -> None:
        seen, self._seen = self._seen, self._turns()
        if seen == self._seen and self._is_due():
            collect_all()
            self.collections += 1
            self._kept = gc.get_freeze_count()
            self._due_s = self._now() + REST_S
        self._later(LOOK_S, self._look)

    def _is_due(self) -> bool:
        """Time has passed, and much was put aside meanwhile."""
        return self._now() >= self._due_s and gc.get_freeze_count() - self._kept > LONG_COLLECTION
