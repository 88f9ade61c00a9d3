"""Calls that need an external authority: the engine repeats them once the authority has answered.

The engine never waits. Where a call needs the authority of the directory it is broken off
before it has changed anything; its caller has the orders carried out and makes the same call
once more, now with what came of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from posthouse.directory.authority import AuthorityAway, Refused
from posthouse.directory.mirror import Action, Interrupted, Order, Stored
from posthouse.directory.objects import DirectoryObject, QueueManager
from posthouse.model.errors import NoDs

T = TypeVar("T")
Answered = Stored | Refused | AuthorityAway | Interrupted


class AuthorityAnswers(NamedTuple):
    """Orders, and what came of them."""

    orders: Sequence[Order]
    answer: Answered


class AuthorityNeeded(NoDs):
    """The call is to be made again, with an answer to its orders after those it had."""

    def __init__(self, orders: Sequence[Order], asked: Sequence[AuthorityAnswers]) -> None:
        super().__init__("the authority of the directory has to be asked first")
        self.orders = orders
        self.asked = asked


class Asking:
    """Requests of engine calls to the authority, in the order in which each call makes them."""

    def __init__(self) -> None:
        self._asked: list[AuthorityAnswers] = []
        self._next = 0

    def made(self, orders: Sequence[Order]) -> list[tuple[Order, DirectoryObject]]:
        """The orders as they were given, and what the authority stored.

        What a call wants may look a little different when it is made again: what was asked for is
        what counts. Raises Refused, AuthorityAway, Interrupted, or AuthorityNeeded.
        """
        if self._next == len(self._asked):
            raise AuthorityNeeded(orders, self._asked)
        given, answer = self._asked[self._next]
        self._next += 1
        if isinstance(answer, Exception):
            raise answer
        return list(zip(given, answer, strict=True))

    def ask(self, orders: Sequence[Order]) -> Stored:
        """What the authority stored for these orders, without the orders themselves."""
        return [value for _, value in self.made(orders)]

    def again(self, need: AuthorityNeeded, answer: Answered, call: Callable[[], T]) -> T:
        """Makes a call once more, with one more answer."""
        self._asked, self._next = [*need.asked, AuthorityAnswers(need.orders, answer)], 0
        try:
            return call()
        finally:
            self._asked, self._next = [], 0


def enters(order: Order) -> bool:
    """Whether an order enters something."""
    return order.action is Action.CREATE


def enters_us(order: Order) -> bool:
    """Whether an order enters the queue manager itself."""
    return enters(order) and isinstance(order.value, QueueManager)


def ends_entering(order: Order, answer: Answered) -> bool:
    """Whether nothing else of ours is to be entered: it would be entered for another of our name.

    And where the authority does not answer once, it need not be asked for all the rest.
    """
    return isinstance(answer, AuthorityAway) or (isinstance(answer, Refused) and enters_us(order))
