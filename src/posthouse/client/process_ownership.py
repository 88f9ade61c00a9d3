"""Sessions in a forked process: what was opened before the fork stays with the parent.

A child that was forked has copies of the parent's sockets and locks, whatever state they were in.
It lets go of them, without a word to the other side. A session of the blocking client then connects
by itself when the child first uses it; its transactions, cursors and consumers are the parent's.
What cannot connect again, such as an embedded queue manager, refuses every later request.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from posthouse.client.errors import SessionEnded


class Forkable(Protocol):
    """Something that a child must not use as it is."""

    def forked(self) -> None:
        """Let go of what is the parent's; called in the child, once for each fork."""


_watched: WeakSet[Forkable] = WeakSet()


def watch(forkable: Forkable) -> None:
    """From now on it is told of forks."""
    _watched.add(forkable)


def _tell() -> None:
    for forkable in list(_watched):
        forkable.forked()


def of_the_parent(what: str = "session") -> SessionEnded:
    """Return the refusal that a child gets."""
    if what == "session":
        remedy = "Connect in each process by itself, after the fork."
    else:
        remedy = f"Make a {what} in each process by itself, after the fork."
    return SessionEnded(f"this {what} belongs to the process that this one was forked from", remedy)


os.register_at_fork(after_in_child=_tell)
