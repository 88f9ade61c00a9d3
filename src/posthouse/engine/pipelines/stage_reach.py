"""The check that a token for some queues changes only those queries that write to these queues.

Stages and queries belong to an account, and an account may have tokens of which each reaches a few
queues. Without this check a token for one queue could forget what another program of the account
has published, and that program's next try would publish it twice. `Stages` asks here before it
forgets, drops, replaces or publishes.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import OpenedQueues
from posthouse.engine.pipelines.stage import StagePart
from posthouse.engine.queues.open_queues import QueueAccessType
from posthouse.model.errors import AccessDenied
from posthouse.security.access import Caller


class StageReach:
    """Decides whether a caller's token reaches the queues of stages and queries."""

    def __init__(self, ledger: Ledger, opening: OpenedQueues) -> None:
        self._ledger = ledger
        self._opening = opening

    def reaches(self, caller: Caller, parts: Iterable[StagePart]) -> bool:
        """Return whether the caller's token reaches every queue of these parts of stages."""
        return self._reaches(caller, {part.queue for part in parts})

    def check(
        self,
        query: str,
        caller: Caller,
        parts: Iterable[StagePart],
        queues: Iterable[int] | None = (),
    ) -> None:
        """Refuse a token for some queues unless it reaches the queues of a query.

        These are the queues of `parts`, which are staged, and `queues`, to which the last batch
        went. None, in the record of an older version, is for tokens without limits only.
        """
        if caller.scopes is None:
            return
        numbers = None if queues is None else {part.queue for part in parts} | set(queues)
        if numbers is None or not self._reaches(caller, numbers):
            raise AccessDenied(
                f"this token is limited to some queues, and the query {query} "
                + ("writes to others" if numbers is not None else "may write to others"),
                "Use a token of the same user that reaches all queues of the query, or one without "
                "limits.",
            )

    def _reaches(self, caller: Caller, numbers: Iterable[int]) -> bool:
        if caller.scopes is None:
            return True
        found = (self._ledger.queues.get(number) for number in numbers)
        with suppress(AccessDenied):
            for queue in found:
                if queue is not None:
                    self._opening.require(queue, caller, QueueAccessType.SEND)
            return True
        return False

    def living(self, numbers: Iterable[int]) -> list[int]:
        """Return those of these queues that are still there."""
        return sorted(number for number in set(numbers) if number in self._ledger.queues)
