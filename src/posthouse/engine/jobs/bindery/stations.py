"""Stations: connections of clients and queue servers, over any protocol.

Everything that a connection has ends with it: its login, what it attached to, the jobs it was
writing or servicing, its file handles (qms-facts 7.3).
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from posthouse.engine.jobs.job import Station as Station
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.owner_index import Owned
from posthouse.engine.ledger.records import Change
from posthouse.model.completion_codes import TOO_MANY_CONNECTIONS
from posthouse.model.errors import QmsError

KEPT_SHARE = 8  # one of this many connections is for those who were proved before


class Stations:
    """All connections, numbered from 1 on; the lowest free number is given first."""

    clean_up: Callable[[Station, Change], None]  # of the job queues

    def __init__(self, core: Ledger) -> None:
        self.core = core
        self._stations: dict[int, Station] = {}
        self._free: list[int] = []
        self._next = 1
        self._owned: Owned[int, Station] = Owned()
        self._leased: dict[int, Station] = {}
        self._lapse_ms = 0  # no lease is over before

    def begin(
        self,
        label: str,
        address: str = "",
        *,
        owner: object = None,
        lease_ms: int = 0,
        unproved: bool = False,
    ) -> Station:
        """A connection was made, without a login.

        It ends with its owner's session; with a lease also when it was not used for this long.
        `unproved` callers cannot have the last ones: administrators come by other doors.
        """
        most = self.core.settings.qms.stations_max
        if len(self._stations) >= (most - most // KEPT_SHARE if unproved else most):
            raise QmsError(TOO_MANY_CONNECTIONS, "the limit of connections is reached")
        station = Station(self._number(), label, address)
        self._stations[station.number] = station
        station.owner, station.lease_ms = owner, lease_ms
        if owner is not None:
            self._owned.add(owner, station.number, station)
        if lease_ms:
            self.touch(station)
        return station

    def touch(self, station: Station) -> None:
        """It was used: its lease begins again."""
        if station.lease_ms and not station.ended:
            station.lapses_ms = self.core.now_ms + station.lease_ms
            first = not self._leased or station.lapses_ms < self._lapse_ms
            self._leased[station.number] = station
            if first:
                self._lapse_ms = station.lapses_ms
                self.core.deadlines.note(station.lapses_ms)

    def run(self) -> None:
        """Leases that were not renewed are over. All of them are looked at when one may be."""
        now_ms = self.core.now_ms
        if not self._leased or now_ms < self._lapse_ms:
            return
        for station in list(self._leased.values()):
            if station.lapses_ms <= now_ms:
                self.end(station)
        self._lapse_ms = min((s.lapses_ms for s in self._leased.values()), default=0)

    def next_deadline_ms(self) -> int | None:
        """When the next lease may be over."""
        return self._lapse_ms if self._leased else None

    def end_of(self, owner: object) -> None:
        """A session is gone, and its connections with it."""
        for station in self._owned.of(owner):
            self.end(station)

    def _number(self) -> int:
        if self._free:
            return heappop(self._free)
        self._next += 1
        return self._next - 1

    def find(self, number: int) -> Station | None:
        """The connection of this number."""
        return self._stations.get(number)

    def all(self) -> list[Station]:
        """Every connection, by number."""
        return [station for _, station in sorted(self._stations.items())]

    def logout(self, station: Station) -> None:
        """The login ends, with all it had there; the connection stays."""
        change = Change()
        self.leave(station, change)
        self.core.commit(change)

    def leave(self, station: Station, change: Change) -> None:
        """Log a station out, as part of the caller's change."""
        self.clean_up(station, change)
        station.object_id = station.logged_in_utc = 0
        station.door = None
        station.login_key = b""

    def end(self, station: Station) -> None:
        """The connection is gone."""
        if station.ended:
            return
        self.logout(station)
        station.ended = True
        self._owned.discard(station.owner, station.number)
        self._leased.pop(station.number, None)
        del self._stations[station.number]
        heappush(self._free, station.number)
