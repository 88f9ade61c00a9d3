"""Whether a queue manager of the directory is where a session with it comes from (decision 24).

Anybody can claim a GUID. So the other end of a session counts as a machine of the directory only
where we have reached that machine, or where its entry or a link of ours leads. An entry may have a
name instead of an address; nobody says a final acknowledgment twice, so what comes on the session
waits for a moment until the name is resolved.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from posthouse.engine.settings import host_key
from posthouse.model.bounded import Bounded
from posthouse.protocols.binary.network import Network
from posthouse.protocols.binary.resolving import as_address, entered_places
from posthouse.protocols.desk import Desk

MACHINES_MAX = 10_000  # whose names were resolved; the one that came first is forgotten
LOOK_UP_MS = 5_000  # so long messages wait for a name


class Whereabouts:
    """Where the machines of the directory are, as far as can be told."""

    def __init__(self, desk: Desk, network: Network, is_hop: Callable[[bytes, str], bool]) -> None:
        self._desk = desk
        self._network = network
        self._is_hop = is_hop
        # Empty: nobody could tell.
        self._resolved: Bounded[bytes, frozenset[str]] = Bounded(MACHINES_MAX)

    def is_there(self, guid: bytes, address: str) -> bool:
        """Whether a machine of the directory has this address."""
        manager, at = self._desk.manager, host_key(address)
        if not manager.receiving.targets.knows_machine(guid):
            return False
        reached, port = manager.transfer.address_of(guid) or ("", None)
        if port is not None and host_key(reached) == at:
            return True
        places = {host_key(place.host) for place in entered_places(manager, guid)}
        return at in places or at in self._resolved.get(guid, ()) or self._is_hop(guid, at)

    def is_unsure(self, guid: bytes) -> bool:
        """Whether it might be anywhere: its name is not resolved yet, or could not be."""
        return bool(self._names(guid)) and not self._resolved.get(guid)

    def look_up(self, guid: bytes, address: str, done: Callable[[], None]) -> bool:
        """Resolves the names of a machine that may have come from there; False: it need not be."""
        manager = self._desk.manager
        if not manager.receiving.targets.knows_machine(guid) or self.is_there(guid, address):
            return False
        left = self._names(guid)
        if left:
            self._resolve(guid, left, frozenset(), done)
        return bool(left)

    def _names(self, guid: bytes) -> list[str]:
        names = [place.host for place in entered_places(self._desk.manager, guid)]
        return [name for name in dict.fromkeys(names) if as_address(name) is None]

    def _resolve(
        self, guid: bytes, left: list[str], found: frozenset[str], done: Callable[[], None]
    ) -> None:
        self._network.resolve(left[0], partial(self._go_on, guid, left[1:], found, done))

    def _go_on(
        self,
        guid: bytes,
        left: list[str],
        found: frozenset[str],
        done: Callable[[], None],
        addresses: list[str],
        fault: str,
    ) -> None:
        found |= frozenset(map(host_key, addresses))
        if left:
            self._resolve(guid, left, found, done)
            return
        self._resolved.pop(guid, None)
        self._resolved[guid] = found
        done()
