"""Accounting: what servers charge their clients (QMS, Creating Queue Servers; decision 99).

The file server object's ACCOUNT_SERVERS states that there is accounting, and who may charge. A
charge goes from the balance of the client to that of the server, so that the sum stays the same.
"""

from __future__ import annotations

import struct

from posthouse.engine.jobs.bindery.login import BinderyLogins
from posthouse.engine.jobs.bindery.objects import BinderyObject, Property
from posthouse.engine.ledger.records import Change
from posthouse.model.bindery import (
    ACCOUNT_BALANCE,
    ACCOUNT_SERVERS,
    SEGMENT_SIZE,
)

FILE_SERVER_ID = 2
CHARGE_MAX = 0x7FFFFFFF
_BALANCE = struct.Struct(">ii")  # balance, credit limit: how far it may sink
_LOWEST, _HIGHEST = -0x80000000, 0x7FFFFFFF


class Accounting(BinderyLogins):
    """Balances and charges."""

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


def _read(prop: Property) -> tuple[int, int]:
    value = prop.stored.segments[0] if prop.stored.segments else bytes(_BALANCE.size)
    balance, limit = _BALANCE.unpack_from(value.ljust(_BALANCE.size, b"\0"))
    return balance, limit
