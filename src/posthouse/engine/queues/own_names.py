"""Which computer names and addresses mean this machine (decision 41).

Names and addresses that the operator has set, the addresses of the interfaces as they are now, and
those at which a door of ours was reached. In a container or after a NAT none of these may be what
other computers write: `[queue_manager] accept_any_name` takes whatever they call this machine.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.settings import host_key
from posthouse.model.names import DirectName, Protocol
from posthouse.model.text import excerpt

ADDRESSES_MAX = 1_000  # of this machine, beside those that its interfaces have
REFUSED_MAX = 100  # names that the log has a line for; strangers can make up any number

AnyName = TypeVar("AnyName")


class OwnNames:
    """The names of this machine."""

    def __init__(self, core: Ledger) -> None:
        self._core = core
        self._ports = set(core.settings.ports)
        self._interfaces = frozenset(map(host_key, core.settings.interfaces))
        self._reached: set[str] = set()  # addresses that a door of ours was reached at
        self.refused: dict[str, str] = {}  # names that were not ours, with who used them first

    def add_port(self, port: int) -> None:
        """A door of ours listens there: names with this port may be ours."""
        self._ports.add(port)
        self._changed()

    def add_address(self, address: str) -> None:
        """Somebody has reached a door of ours there: DHCP or a VPN may give us other addresses."""
        key = host_key(address.partition("%")[0])
        if key and not self.is_own(key, None) and len(self._reached) < ADDRESSES_MAX:
            self._reached.add(key)
            self._changed()

    def set_interfaces(self, addresses: Collection[str]) -> bool:
        """The interfaces have these addresses now; True if they had others.

        One that has gone may belong to another computer by now.
        """
        now = frozenset(map(host_key, addresses))
        if now == self._interfaces:
            return False
        self._reached -= self._interfaces - now
        self._interfaces = now
        self._changed()
        return True

    def _changed(self) -> None:
        self._core.rights_version += 1  # what names mean may have changed

    def hosts(self) -> frozenset[str]:
        """Every name and address."""
        return self._core.settings.own_names | self._interfaces | self._reached

    def is_own(self, host: str, port: int | None) -> bool:
        """Whether a host is this machine; with a port only where a door of ours has it."""
        key = host_key(host)
        if (
            key not in self._core.settings.own_names
            and key not in self._interfaces
            and key not in self._reached
        ):
            return False
        return port is None or port in self._ports

    # -- names in what comes from other computers

    @property
    def takes_any(self) -> bool:
        """Whether what other computers send here is for this machine, whatever they call it."""
        return self._core.settings.queue_manager.accept_any_name

    def addressed(self, name: AnyName) -> AnyName | DirectName:
        """A name that another computer has used, as this machine calls the queue."""
        if (
            not isinstance(name, DirectName)
            or not self.takes_any
            or name.protocol in (Protocol.IPX, Protocol.SPX)
            or self.is_own(name.host, name.port)
        ):
            return name
        own = self._core.settings.computer_name
        return replace(name, protocol=Protocol.OS, host=own, port=None, spelling="")

    def not_ours(self, host: str, peer: str) -> None:
        """A message of a peer was refused because this machine has no such name: a line for each.

        The first of them are logged; the operator has to see the name, and no more than that.
        """
        key = host_key(host)
        if key in self.refused or len(self.refused) >= REFUSED_MAX:
            return
        self.refused[key] = peer
        self._core.event(
            "name_not_ours",
            host=excerpt(host),
            peer=peer,
            remedy="if this machine is meant: [queue_manager] aliases, addresses, accept_any_name",
        )
