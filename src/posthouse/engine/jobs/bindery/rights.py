"""The security level of a caller in the bindery, and what it allows (qms-facts 4.2).

An object acts as itself, as the groups it is in and as the objects it is security equivalent to,
none of them by way of another. Administrators of the queue manager are equivalent to SUPERVISOR.
"""

from __future__ import annotations

from posthouse.engine.accounts.accounts import Accounts
from posthouse.engine.jobs.bindery.objects import BinderyObject, BinderyObjects, Property
from posthouse.engine.jobs.bindery.stations import Station, Stations
from posthouse.engine.ledger.ledger import Ledger
from posthouse.model.bindery import (
    ANYONE,
    GROUPS_IM_IN,
    LOGGED_IN,
    NETWARE,
    NO_OBJECT,
    NWOT_USER_GROUP,
    OBJECT,
    Q_DIRECTORY,
    SECURITY_EQUALS,
    SUPERVISOR_ID,
    SUPERVISOR_LEVEL,
    AccessLevel,
)
from posthouse.model.completion_codes import NO_SUCH_OBJECT
from posthouse.model.errors import QmsError
from posthouse.security.accounts import Door

NOBODY: frozenset[int] = frozenset()


class BinderyRights:
    """The ground of the bindery: objects, identities, levels."""

    def __init__(self, core: Ledger, accounts: Accounts, stations: Stations) -> None:
        self.core = core
        self.accounts = accounts
        self.stations = stations
        self.objects = BinderyObjects(core)
        self._identities: dict[int, frozenset[int]] = {}
        self._known = (-1, -1)

    # -- who

    def object_of(self, station: Station) -> BinderyObject | None:
        """As whom a station acts: its own object, or its client's while it has their rights."""
        job = station.client_of
        if job is not None:
            client = self.objects.by_id.get(job.entry.client_id)
            # the server stands for them, whatever their own doors
            return client if client is not None and self._is_enabled(client, None) else None
        return self.own_object(station)

    def own_object(self, station: Station) -> BinderyObject | None:
        """Who has logged in, as long as they still could."""
        one = self.objects.by_id.get(station.object_id)
        return one if one is not None and self._is_enabled(one, station.door) else None

    def _is_enabled(self, one: BinderyObject, door: Door | None) -> bool:
        if not one.stored.sid:
            return True
        account = self.accounts.of_sid(one.stored.sid)
        if account is None or account.disabled:
            return False
        return door is None or door in account.doors

    def identity(self, object_id: int) -> frozenset[int]:
        """All IDs that count as this object."""
        known = self.objects.version, self.core.rights_version
        if known != self._known:
            self._identities.clear()
            self._known = known
        found = self._identities.get(object_id)
        if found is None:
            found = self._identities[object_id] = self._identity(object_id)
        return found

    def _identity(self, object_id: int) -> frozenset[int]:
        objects = self.objects
        one = objects.by_id.get(object_id)
        if one is None:
            return NOBODY
        groups = {*objects.groups_of(object_id), *one.members(GROUPS_IM_IN)}
        ids = {object_id, *one.members(SECURITY_EQUALS)}
        ids.update(g for g in groups if objects.by_id[g].type == NWOT_USER_GROUP)
        account = self.accounts.of_sid(one.stored.sid) if one.stored.sid else None
        if account is not None and account.is_administrator:
            ids.add(SUPERVISOR_ID)
        return frozenset(ids)

    def identity_of(self, station: Station) -> frozenset[int]:
        """The identity that a station acts as; none if it is not logged in."""
        one = self.object_of(station)
        return NOBODY if one is None else self.identity(one.id)

    def is_supervisor(self, station: Station) -> bool:
        """Whether it is security equivalent to SUPERVISOR."""
        return SUPERVISOR_ID in self.identity_of(station)

    # -- what

    def level(self, station: Station, one: BinderyObject) -> int:
        """The highest level that a station reaches at an object."""
        me = self.object_of(station)
        if me is None:
            return ANYONE
        if SUPERVISOR_ID in self.identity(me.id):
            return SUPERVISOR_LEVEL
        return OBJECT if me is one else LOGGED_IN

    def may_read(self, station: Station, one: BinderyObject, security: int) -> bool:
        """Whether the low nibble lets the station read. Level 4, NetWare, never asks."""
        needed = security & 0x0F
        if Q_DIRECTORY in one.properties and self.is_stranger(station):
            return False
        return needed < NETWARE and self.level(station, one) >= needed

    def is_stranger(self, station: Station) -> bool:
        """Whether names are withheld from a station: it has not logged in."""
        open_to_all = self.core.settings.qms.names_before_login
        return not open_to_all and self.object_of(station) is None

    def named(self, station: Station, kind: int, name: str) -> BinderyObject:
        """An object by type and name. For a stranger only objects exist that anyone may read."""
        one = self.objects.get(kind, name)
        if self.is_stranger(station) and not self.may_read(station, one, one.stored.security):
            raise QmsError(NO_SUCH_OBJECT, f"there is no object {name} of type {kind}")
        return one

    def may_write(self, station: Station, one: BinderyObject, security: int) -> bool:
        """Whether the high nibble does."""
        needed = security >> 4
        return needed < NETWARE and self.level(station, one) >= needed

    def require(self, allowed: bool, completion: int, what: str, station: Station) -> None:
        """Refuses with the completion code of the call."""
        if not allowed:
            raise QmsError(completion, f"{self.name_of(station)} may not {what}")

    def name_of(self, station: Station) -> str:
        """Who asks, for people."""
        one = self.object_of(station)
        return "a connection that is not logged in" if one is None else one.name

    def get_bindery_access_level(self, station: Station) -> AccessLevel:
        """NWGetBinderyAccessLevel (0x46)."""
        me = self.object_of(station)
        if me is None:
            return AccessLevel(0x00, NO_OBJECT)
        return AccessLevel(0x11 * self.level(station, me), me.id)

    def is_listed(self, ids: frozenset[int], prop: Property | None) -> bool:
        """Whether any of these IDs is in a set."""
        return prop is not None and any(prop.has(one) for one in ids)
