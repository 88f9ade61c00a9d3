"""How many connections a listener takes, in all and from one address."""

from __future__ import annotations

from collections import Counter

CONNECTIONS_MAX = 10_000
CONNECTIONS_PER_ADDRESS_MAX = 2_500


class Connections:
    """The open connections of one listener. Refusals are counted by their reason."""

    def __init__(
        self,
        connections_max: int = CONNECTIONS_MAX,
        per_address_max: int = CONNECTIONS_PER_ADDRESS_MAX,
    ) -> None:
        self.connections_max = connections_max
        self.per_address_max = per_address_max
        self.count = 0
        self.refused: Counter[str] = Counter()
        self._of_address: Counter[str] = Counter()

    def admit(self, address: str) -> str:
        """Takes a connection in and returns nothing, or returns why it is refused."""
        if self.count >= self.connections_max:
            return self._refuse("too many connections")
        if self._of_address[address] >= self.per_address_max:
            return self._refuse("too many connections of one address")
        self.count += 1
        self._of_address[address] += 1
        return ""

    def _refuse(self, reason: str) -> str:
        self.refused[reason] += 1
        return reason

    def leave(self, address: str) -> None:
        """A connection that was taken in has ended."""
        assert self._of_address[address] > 0
        self.count -= 1
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]
