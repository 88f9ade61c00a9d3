"""Objects that refer to each other, which only Python's collector finds.

A server puts aside what stays for long, so that collections are short: circles that are let go of
later stay until it is at rest. So connections and requests may leave none.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Circles that are made meanwhile stay."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def circles() -> set[str]:
    """Names of the classes of what nobody refers to, and is there all the same."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return {type(one).__name__ for one in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
