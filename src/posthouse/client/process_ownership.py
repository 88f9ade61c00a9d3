"""Refuses to use a session in a forked process: sessions stay with their own process.

A child that was forked has copies of the parent's sockets and locks, whatever state they were in.
It lets go of them, without a word to the other side, and every later request is refused.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from posthouse.client.errors import SessionEnded


class Forkable(Protocol):
    """Something that a child must not use."""

    def forked(self) -> None:
        """Called in the child, once."""


_watched: WeakSet[Forkable] = WeakSet()


def watch(forkable: Forkable) -> None:
    """From now on it is told of forks."""
    _watched.add(forkable)


def _tell() -> None:
    for forkable in list(_watched):
        forkable.forked()


def of_the_parent() -> SessionEnded:
    """The refusal that a child gets."""
    return SessionEnded(
        "this session belongs to the process that this one was forked from",
        "Connect in each process by itself, after the fork.",
    )


os.register_at_fork(after_in_child=_tell)
