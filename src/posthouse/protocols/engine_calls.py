"""The interface between a protocol and the runtime: hand in engine calls, get answers later.

An answer is let out only when the log is synced up to where the engine was when it decided, so a
door may put it on the wire as it comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from posthouse.engine.manager import QueueManager
from posthouse.model.errors import QueueError


class Answer(NamedTuple):
    """The result of a call: a value or a refusal, and the packets of the messages it read."""

    value: object
    error: QueueError | None
    packets: tuple[bytes, ...]


Call = Callable[[QueueManager], object]
Release = Callable[[Answer], None]


class Turns(Protocol):
    """How doors share the turns of the loop: bytes of a peer may have to wait for the next one."""

    def is_crowded(self, *, known: bool = False) -> bool:
        """Whether the turn has lasted long enough, or others wait for the next one already.

        Who is `known` by a login does not wait for those who are not.
        """
        ...

    def later(self, work: Callable[[], None], *, known: bool = False) -> None:
        """Runs work in one of the next turns, in the order in which it came."""
        ...

    def soon(self, call: Callable[[], None]) -> None:
        """Calls once after all that happens now, so that the answers of one sync are one write."""
        ...

    def join(self, work: Callable[[], None]) -> bool:
        """Runs work before the turn ends that is open, so that one sync covers both.

        False: none is open, and the work is not run.
        """
        ...

    def measured(self, step: Callable[[], None]) -> None:
        """Runs work outside the calls on the engine, and measures how long others wait for it."""
        ...


class OneTurn:
    """Turns without an end, for doors that are tried without a loop."""

    def is_crowded(self, *, known: bool = False) -> bool:
        """Never."""
        return False

    def later(self, work: Callable[[], None], *, known: bool = False) -> None:
        """At once."""
        work()

    def soon(self, call: Callable[[], None]) -> None:
        """At once."""
        call()

    def join(self, work: Callable[[], None]) -> bool:
        """There is no turn that ends."""
        return False

    def measured(self, step: Callable[[], None]) -> None:
        """Without a measure."""
        step()


class Desk(Protocol):
    """The interface to which protocols hand in their engine calls."""

    @property
    def manager(self) -> QueueManager:
        """The engine, for looking at figures between turns; decisions go through `decide`."""
        ...

    def decide(self, call: Call, release: Release) -> None:
        """Runs a call in the current turn; `release` gets its answer once that is durable.

        A waiting read's answer goes to its token, which is such a `release` as well.
        """
        ...
