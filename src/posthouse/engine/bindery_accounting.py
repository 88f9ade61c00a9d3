"""Accounting: what servers charge their clients (QMS, Creating Queue Servers; decision 99).

The file server object's ACCOUNT_SERVERS says that there is accounting, and who may charge. A
charge goes from the balance of the client to that of the server, so that the sum stays the same.
Holds are amounts that a server has reserved; they last as long as its connection.
"""

from __future__ import annotations

import struct

from posthouse.engine.accounts import Accounts
from posthouse.engine.bindery_login import BinderyLogins
from posthouse.engine.bindery_objects import BinderyObject, Property
from posthouse.engine.bindery_stations import Station, Stations
from posthouse.engine.core import Core
from posthouse.engine.records import Change
from posthouse.model.bindery import (
    ACCOUNT_BALANCE,
    ACCOUNT_SERVERS,
    SEGMENT_SIZE,
    AccountStatus,
    object_name,
)
from posthouse.model.completion_codes import (
    CREDIT_LIMIT_EXCEEDED,
    NO_ACCOUNT_BALANCE,
    NO_ACCOUNT_PRIVILEGES,
    NO_PROPERTY_READ,
    TOO_MANY_HOLDS,
)
from posthouse.model.errors import QmsError

FILE_SERVER_ID = 2
HOLDS_MAX = 16
CHARGE_MAX = 0x7FFFFFFF
_BALANCE = struct.Struct(">ii")  # balance, credit limit: how far it may sink
_LOWEST, _HIGHEST = -0x80000000, 0x7FFFFFFF


class Accounting(BinderyLogins):
    """Balances, charges and holds."""

    def __init__(self, core: Core, accounts: Accounts, stations: Stations) -> None:
        super().__init__(core, accounts, stations)
        self._holds: dict[int, dict[int, tuple[Station, int]]] = {}  # client: server: amount

    @property
    def is_accounting(self) -> bool:
        """Whether the file server has ACCOUNT_SERVERS."""
        return ACCOUNT_SERVERS in self.objects.by_id[FILE_SERVER_ID].properties

    def may_charge(self, server_id: int) -> bool:
        """Whether a server is listed there."""
        listed = self.objects.by_id[FILE_SERVER_ID].properties.get(ACCOUNT_SERVERS)
        return self.is_listed(self.identity(server_id), listed)

    def charge(self, server_id: int, client_id: int, amount: int, change: Change) -> bool:
        """The charge of Finish: booked where there is accounting and both may; else False."""
        if not amount or not self.may_charge(server_id):
            return False
        client = self.objects.by_id.get(client_id)
        paying = None if client is None else client.properties.get(ACCOUNT_BALANCE)
        if client is None or paying is None:
            return False
        amount = min(amount, CHARGE_MAX)
        server = self.objects.by_id[server_id]
        self._book(client, paying, -amount, change)
        earning = server.properties.get(ACCOUNT_BALANCE)
        if earning is not None:
            self._book(server, earning, amount, change)
        return True

    def _book(self, one: BinderyObject, prop: Property, amount: int, change: Change) -> None:
        balance, limit = _read(prop)
        balance = max(_LOWEST, min(balance + amount, _HIGHEST))
        rest = prop.stored.segments[0][_BALANCE.size :] if prop.stored.segments else b""
        value = _BALANCE.pack(balance, limit) + rest
        prop.stored.segments[:1] = [value.ljust(SEGMENT_SIZE, b"\0")]
        self.objects.store_property(one, prop, change)

    # -- calls of servers

    def account_status(self, station: Station, kind: int, name: str) -> AccountStatus:
        """Get Current Account Status: for the object itself, supervisors, servers that charge."""
        one = self.objects.get(kind, object_name(name))
        me = self.object_of(station)
        allowed = me is not None and (
            me is one or self.is_supervisor(station) or self.may_charge(me.id)
        )
        self.require(allowed, NO_PROPERTY_READ, f"see the account of {one.name}", station)
        return self._status(one)

    def submit_account_hold(self, station: Station, kind: int, name: str, amount: int) -> None:
        """Submit Account Hold: reserves an amount, if balance and limit cover it."""
        server, client = self._parties(station, kind, name)
        self._status(client)
        holds = self._holds.get(client.id, {})
        if server.id not in holds and len(holds) >= HOLDS_MAX:
            raise QmsError(TOO_MANY_HOLDS, f"{HOLDS_MAX} servers hold amounts of {client.name}")
        self._check_credit(client, amount)
        held = holds[server.id][1] if server.id in holds else 0
        self._holds.setdefault(client.id, holds)[server.id] = (station, held + amount)

    def submit_account_charge(
        self, station: Station, kind: int, name: str, amount: int, cancel_hold: int = 0
    ) -> None:
        """Submit Account Charge: books it, and takes back that much of the server's hold."""
        server, client = self._parties(station, kind, name)
        self._status(client)
        holds = self._holds.get(client.id, {})
        held = holds.get(server.id, (station, 0))[1]
        self._check_credit(client, amount - min(cancel_hold, held))
        if held:
            self._keep_hold(client.id, server.id, station, held - min(cancel_hold, held))
        change = Change()
        self.charge(server.id, client.id, amount, change)
        self.core.commit(change)

    def _keep_hold(self, client: int, server: int, station: Station, amount: int) -> None:
        holds = self._holds[client]
        if amount:
            holds[server] = (station, amount)
        else:
            del holds[server]
        if not holds:
            del self._holds[client]

    def cancel_holds(self, station: Station) -> None:
        """The connection of a server is over."""
        for client, holds in list(self._holds.items()):
            for server, (holder, _) in list(holds.items()):
                if holder is station:
                    self._keep_hold(client, server, station, 0)

    def _parties(
        self, station: Station, kind: int, name: str
    ) -> tuple[BinderyObject, BinderyObject]:
        me = self.own_object(station)
        if me is None or not self.may_charge(me.id):
            raise QmsError(NO_ACCOUNT_PRIVILEGES, f"{self.name_of(station)} may not charge anybody")
        return me, self.objects.get(kind, object_name(name))

    def _check_credit(self, client: BinderyObject, amount: int) -> None:
        status = self._status(client)
        if status.balance - sum(held for _, held in status.holds) - amount < status.limit:
            raise QmsError(CREDIT_LIMIT_EXCEEDED, f"the account of {client.name} does not cover it")

    def _status(self, one: BinderyObject) -> AccountStatus:
        prop = one.properties.get(ACCOUNT_BALANCE)
        if prop is None:
            raise QmsError(NO_ACCOUNT_BALANCE, f"{one.name} has no account balance")
        holds = self._holds.get(one.id, {})
        return AccountStatus(
            *_read(prop), tuple((server, held) for server, (_, held) in sorted(holds.items()))
        )


def _read(prop: Property) -> tuple[int, int]:
    value = prop.stored.segments[0] if prop.stored.segments else bytes(_BALANCE.size)
    balance, limit = _BALANCE.unpack_from(value.ljust(_BALANCE.size, b"\0"))
    return balance, limit


def packed_balance(balance: int, limit: int = 0) -> bytes:
    """The value of ACCOUNT_BALANCE."""
    return _BALANCE.pack(balance, limit).ljust(SEGMENT_SIZE, b"\0")
