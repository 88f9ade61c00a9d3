"""State machines as tables: a state, an event, the next state.

The owner of a state changes it by an event of its table and in no other way, so the table is the
program and not a picture of it. docs/state-machines.md is printed from the same tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

StateT = TypeVar("StateT", bound=Enum)
EventT = TypeVar("EventT", bound=Enum)


class Row(NamedTuple, Generic[StateT, EventT]):
    """The transitions by one event that lead to one state, from any of several."""

    states: tuple[StateT, ...]
    event: EventT
    next: StateT
    text: str  # when it happens and what is done, with the section of the document


class ImpossibleTransition(AssertionError):
    """A fault in the program: an event that its table does not have for the state."""


class StateMachine(Generic[StateT, EventT]):
    """All transitions of one kind of thing. What is not in the table does not happen."""

    def __init__(self, name: str, first: StateT, rows: Iterable[Row[StateT, EventT]]) -> None:
        self.name = name
        self.first = first
        self.rows = tuple(rows)
        self._next: dict[tuple[StateT, EventT], StateT] = {}
        for row in self.rows:
            for state in row.states:
                assert (state, row.event) not in self._next, (name, state, row.event)
                self._next[state, row.event] = row.next

    def allows(self, state: StateT, event: EventT) -> bool:
        """Whether the event can happen in the state."""
        return (state, event) in self._next

    def after(self, state: StateT, event: EventT) -> StateT:
        """The state that follows."""
        found = self._next.get((state, event))
        if found is None:
            raise ImpossibleTransition(f"{self.name}: {event.value} in {state.value}")
        return found

    def transitions(self) -> dict[tuple[StateT, EventT], StateT]:
        """The whole table, state by state."""
        return dict(self._next)
