"""Runs Python's cyclic garbage collector in short steps, and fully now and then."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

COLLECT_AFTER = (2_000, 3, 1)  # objects, then collections of the younger ones
LONG_COLLECTION = 8_000  # objects; what has stayed through one of this many is not looked at again
LOOK_S = 10.0  # between two looks at what was put aside
QUIET_TURNS = 10  # in that time, at most, of a server at rest: its own samples are turns, too
REST_S, TRAFFIC_S = 60.0, 600.0  # between two collections of everything, at rest and during traffic
SHARE = 0.01  # of the time is what they may take


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
    """Look at everything, also at what was put aside: some 80 ms of every server."""
    gc.unfreeze()
    gc.collect()
    put_aside()


class CollectInTime:
    """Collects everything once in a while: soon after there was traffic, and during it.

    That takes some 0.5 us for each object, and nothing else is done meanwhile: so it waits until
    much was put aside, and for a moment of rest. Under steady traffic there is none: it is done
    seldom then, or when half as much again has been put aside as the last one left.
    """

    def __init__(
        self,
        later: Callable[[float, Callable[[], None]], object],
        now: Callable[[], float],
        turns: Callable[[], int],
        looked: Callable[[], None] = lambda: None,
    ) -> None:
        self._later = later
        self._now = now
        self._turns = turns
        self._looked = looked  # called after each look
        self._seen = turns()
        self._was_at_rest = False
        self._collected_s = now()
        self._took_s = 0.0
        self._kept = gc.get_freeze_count()
        self.collections = 0
        later(LOOK_S, self._look)

    def _look(self) -> None:
        seen = self._turns()
        at_rest = seen - self._seen <= QUIET_TURNS
        if self._is_due(at_rest=at_rest):
            begun_s = self._now()
            collect_all()
            self._collected_s = self._now()
            self._took_s = self._collected_s - begun_s
            self.collections += 1
            self._kept = gc.get_freeze_count()
        elif at_rest and not self._was_at_rest:
            gc.collect()  # of what was not put aside: little
        self._seen, self._was_at_rest = seen, at_rest
        self._looked()
        self._later(LOOK_S, self._look)

    def _is_due(self, *, at_rest: bool) -> bool:
        """Much was put aside, and time has passed since the last one: more, the longer it took."""
        put_aside = gc.get_freeze_count() - self._kept
        if put_aside <= LONG_COLLECTION:
            return False
        patience_s = REST_S if at_rest else TRAFFIC_S
        if put_aside > self._kept // 2:
            patience_s = LOOK_S
        return self._now() - self._collected_s >= max(patience_s, self._took_s / SHARE)
