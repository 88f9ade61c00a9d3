"""The outgoing queues that were made to answer other machines, and which of them goes first.

A message of a stranger may name a queue of its sender for acknowledgments, and each name is an
outgoing queue here that is kept while its machine does not take them. So these queues have half of
the room for outgoing queues, and give way to what is sent from here. Where one has to go, it is the
oldest of the address that has most of them: a machine that asks for its acknowledgments at few
queues keeps them while strangers fill the room. `Queues` asks here before it makes a queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from typing import Final

from posthouse.engine.queues.queue import HELD, Queue

LOOKED_AT: Final = 64  # queues, of the addresses that have most
OF_ADDRESS: Final = 8  # of them at most
UNKNOWN: Final = "unknown"  # where the machine is


class AnsweringQueues:
    """The queues by the address that they answer, the oldest of each first."""

    def __init__(self) -> None:
        self._of: dict[str, dict[int, Queue]] = {}
        self._with: dict[int, dict[str, None]] = {}  # addresses by the number of their queues
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def all(self) -> Iterable[Queue]:
        """Return every one of them."""
        return [queue for queues in self._of.values() for queue in queues.values()]

    def add(self, queue: Queue) -> None:
        """Count a queue that was made, or was found at start."""
        queues = self._of.setdefault(queue.definition.made_for, {})
        queues[queue.number] = queue
        self._count += 1
        self._moved(queue.definition.made_for, len(queues) - 1, len(queues))

    def discard(self, queue: Queue) -> None:
        """Count a queue no longer: it is gone, or is used from here by now."""
        address = queue.definition.made_for
        queues = self._of.get(address, {})
        if queues.pop(queue.number, None) is None:
            return
        self._count -= 1
        self._moved(address, len(queues) + 1, len(queues))
        if not queues:
            del self._of[address]

    def _moved(self, address: str, before: int, now: int) -> None:
        if before:
            del self._with[before][address]
            if not self._with[before]:
                del self._with[before]
        if now:
            self._with.setdefault(now, {})[address] = None

    def first_to_go(self) -> Queue | None:
        """Return the oldest queue of the address with most that no session and no operator has.

        An address whose oldest are all in use does not keep those of others from going.
        """
        most_first = sorted(self._with, reverse=True)
        addresses = (address for count in most_first for address in self._with[count])
        oldest = (islice(self._of[address].values(), OF_ADDRESS) for address in addresses)
        return next(filter(_may_go, islice(chain.from_iterable(oldest), LOOKED_AT)), None)


def _may_go(queue: Queue) -> bool:
    outgoing = queue.outgoing
    assert outgoing is not None
    return not queue.descriptors and outgoing.sender is None and outgoing.state not in HELD
