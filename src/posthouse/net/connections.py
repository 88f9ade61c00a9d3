"""Limits on connections of a listener, in all and from one address.

A connection counts from the moment it is accepted. It is *unproven* until its protocol has
understood what the peer wants: a login, a handshake, a whole request. Where there is no room, a
newcomer takes the place of the oldest unproven connection of the address that has most of them, so
that addresses which only hold connections open cannot keep others out.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from posthouse.model.address_prefixes import source_of

CONNECTIONS_MAX: Final = 10_000
CONNECTIONS_PER_ADDRESS_MAX: Final = 2_500
TOO_MANY: Final = "too many connections"
TOO_MANY_OF_ADDRESS: Final = "too many connections of one address"
MADE_ROOM: Final = "made room for another address"


def _at_once(work: Callable[[], None]) -> None:
    work()


class Refused(Exception):
    """A connection is not let in, and why."""


class Transport(Protocol):
    """The part of a connection that can be closed."""

    def close(self) -> None:
        """Ends it when what was written is sent."""
        ...

    def get_extra_info(self, name: str) -> object:
        """What is known of it."""
        ...


class Admission:
    """One connection that was let in. `drop` ends it where others need its place.

    `later` does something in its turn: thousands of peers may go at once.
    """

    __slots__ = ("_connections", "_source", "drop", "later", "unproven")

    def __init__(self, connections: Connections, source: str) -> None:
        self._connections: Connections | None = connections
        self._source = source
        self.unproven = True
        self.drop: Callable[[], object] = lambda: None
        self.later: Callable[[Callable[[], None]], None] = _at_once

    def ends(self, transport: Transport) -> bool:
        """The peer sends nothing more: returns the answer for asyncio, and closes in its turn.

        With TLS it is closed at once.
        """
        if transport.get_extra_info("sslcontext") is not None:
            return False
        self.later(transport.close)
        return True

    def prove(self) -> None:
        """The peer has shown what it wants: it keeps its place."""
        if self.unproven and self._connections is not None:
            self.unproven = False
            self._connections.proven(self, self._source)

    def leave(self) -> None:
        """The connection has ended. May be called again."""
        connections, self._connections = self._connections, None
        if connections is not None:
            connections.left(self, self._source)


class Room:
    """Descriptors for the connections of all listeners together, and for connections to others.

    One address has at most a quarter of them, over all listeners.
    """

    def __init__(self, limit: int = sys.maxsize) -> None:
        self.limit = limit
        self.per_address_max = max(1, limit // 4)
        self.taken = 0
        self.of_source: Counter[str] = Counter()
        self.listeners: list[Connections] = []

    @property
    def is_full(self) -> bool:
        """No descriptor is left for connections."""
        return self.taken >= self.limit

    def take(self) -> bool:
        """One for a connection to another machine; False: there is none."""
        if self.is_full:
            return False
        self.taken += 1
        return True

    def give(self) -> None:
        """A connection has ended."""
        assert self.taken > 0
        self.taken -= 1


class Connections:
    """The open connections of one listener. Refusals are counted by their reason."""

    def __init__(
        self,
        connections_max: int = CONNECTIONS_MAX,
        per_address_max: int = CONNECTIONS_PER_ADDRESS_MAX,
        room: Room | None = None,
    ) -> None:
        self.room = room or Room()
        self.room.listeners.append(self)
        self.connections_max = min(connections_max, self.room.limit)
        self.per_address_max = per_address_max
        self.count = 0
        self.refused: Counter[str] = Counter()
        self._of_source: Counter[str] = Counter()
        self._unproven = Unproven()

    def admit(self, address: str) -> Admission:
        """Lets a connection in, or raises Refused."""
        source = source_of(address)
        room = self.room
        if (
            self._of_source[source] >= self.per_address_max
            or room.of_source[source] >= room.per_address_max
        ):
            raise self._refusal(TOO_MANY_OF_ADDRESS)
        if self.count >= self.connections_max and not self._makes_room([self], source):
            raise self._refusal(TOO_MANY)
        if room.is_full and not self._makes_room(room.listeners, source):
            raise self._refusal(TOO_MANY)
        self.count += 1
        room.taken += 1
        room.of_source[source] += 1
        self._of_source[source] += 1
        admission = Admission(self, source)
        self._unproven.add(admission, source)
        return admission

    def _refusal(self, reason: str) -> Refused:
        self.refused[reason] += 1
        return Refused(reason)

    def _makes_room(self, listeners: list[Connections], source: str) -> bool:
        """Ends an unproven connection of the address that has most, if that is another one."""
        fullest = max(listeners, key=lambda one: one._unproven.most)
        victim = fullest._unproven.oldest_of_fullest()
        if victim is None or fullest._unproven.most <= self._of_source[source] + 1:
            return False
        fullest.refused[MADE_ROOM] += 1
        victim.leave()
        victim.drop()
        return True

    # -- for admissions

    def proven(self, admission: Admission, source: str) -> None:
        """A connection has shown what it wants."""
        self._unproven.remove(admission, source)

    def left(self, admission: Admission, source: str) -> None:
        """A connection has ended."""
        if admission.unproven:
            self._unproven.remove(admission, source)
        self.count -= 1
        self.room.give()
        for counts in (self._of_source, self.room.of_source):
            counts[source] -= 1
            if not counts[source]:
                del counts[source]


class Unproven:
    """Unproven connections by address, with the addresses sorted by how many they have."""

    def __init__(self) -> None:
        self.most = 0
        self._of: dict[str, dict[Admission, None]] = {}
        self._with: dict[int, dict[str, None]] = {}  # addresses that have as many

    def add(self, admission: Admission, source: str) -> None:
        """One more of an address."""
        of = self._of.setdefault(source, {})
        of[admission] = None
        self._move(source, len(of) - 1, len(of))
        self.most = max(self.most, len(of))

    def remove(self, admission: Admission, source: str) -> None:
        """One less of an address."""
        of = self._of[source]
        del of[admission]
        self._move(source, len(of) + 1, len(of))
        if not of:
            del self._of[source]
        if self.most and self.most not in self._with:
            self.most -= 1

    def _move(self, source: str, before: int, now: int) -> None:
        if before:
            del self._with[before][source]
            if not self._with[before]:
                del self._with[before]
        if now:
            self._with.setdefault(now, {})[source] = None

    def oldest_of_fullest(self) -> Admission | None:
        """The oldest unproven connection of an address that has most of them."""
        if not self.most:
            return None
        source = next(iter(self._with[self.most]))
        return next(iter(self._of[source]))
