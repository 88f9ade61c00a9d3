"""Whether a session comes from the address that the directory has for its machine (decision 24).

Anybody can claim a GUID. So the other end of a session counts as a machine of the directory only
where we have reached that machine, or where its entry or a link of ours leads. An entry may have a
name instead of an address; a final acknowledgment is sent only once, so what comes on the session
waits for a moment until the name is resolved.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain

from posthouse.engine.queues.queue import Queue
from posthouse.engine.settings import host_key
from posthouse.model.bounded_tables import Bounded
from posthouse.model.names import PrivateName, parse_format_name
from posthouse.protocols.binary.network import BinaryNetwork
from posthouse.protocols.binary.next_hop_lookup import as_address, entered_places, is_elsewhere
from posthouse.protocols.engine_calls import Desk

MACHINES_MAX = 10_000  # whose names were resolved; the one that came first is forgotten
LOOK_UP_MS = 5_000  # this long messages wait for a name

_Key = tuple[bytes, tuple[str, ...]]
"""A machine and its names: what other names have led to before is nothing to it."""


class Whereabouts:
    """The addresses of the directory's machines, as far as they can be resolved."""

    def __init__(
        self, desk: Desk, network: BinaryNetwork, is_hop: Callable[[bytes, str], bool]
    ) -> None:
        self._desk = desk
        self._network = network
        self._is_hop = is_hop
        # Empty: the name could not be resolved.
        self._resolved: Bounded[_Key, frozenset[str]] = Bounded(MACHINES_MAX)
        self._waiting: dict[_Key, list[Callable[[], None]]] = {}  # for names that are looked up

    def is_there(self, guid: bytes, address: str) -> bool:
        """Whether a machine of the directory has this address."""
        manager, at = self._desk.manager, host_key(address)
        if not manager.transfer.knows_machine(guid) or is_elsewhere(manager, guid, at):
            return False
        reached, port = manager.transfer.address_of(guid) or ("", None)
        if port is not None and host_key(reached) == at:
            return True
        places = {host_key(place.host) for place in entered_places(manager, guid)}
        return (
            at in places or at in self._resolved.get(self._key(guid), ()) or self._is_hop(guid, at)
        )

    def bound_host(self, queue: Queue, resolved: Callable[[], None] | None = None) -> str:
        """The only host that may have the answers of a queue; none if the directory vouches for it.

        A router may have brought messages of a machine before our directory had both. Once it has,
        their answers go by the directory. `resolved` is called when more is known of the host.
        """
        host, manager = queue.definition.answers_at, self._desk.manager
        name = parse_format_name(queue.definition.format_name)
        if not host or not isinstance(name, PrivateName):
            return host
        if not manager.transfer.knows_machine(name.guid):
            return host
        topology = manager.directory.topology()
        machines = [name.guid, *chain.from_iterable(topology.routing_servers.values())]
        if any(self.is_there(guid, host) for guid in machines):
            return ""
        if resolved is not None:
            self._look_up_callers(machines, host, resolved)
        return host

    def _look_up_callers(
        self, machines: list[bytes], host: str, resolved: Callable[[], None]
    ) -> None:
        """Those that have called from a host, and may be there by their names."""
        for guid in machines:
            called, _ = self._desk.manager.transfer.address_of(guid) or ("", None)
            if host_key(called) == host_key(host) and self.is_unsure(guid):
                self.look_up(guid, host, partial(self._tell_if_there, guid, host, resolved))

    def _tell_if_there(self, guid: bytes, host: str, resolved: Callable[[], None]) -> None:
        if self.is_there(guid, host):
            resolved()

    def is_unsure(self, guid: bytes) -> bool:
        """Whether it might be anywhere: its name is not resolved yet, or could not be."""
        key = self._key(guid)
        return bool(key[1]) and not self._resolved.get(key)

    def look_up(self, guid: bytes, address: str, done: Callable[[], None]) -> bool:
        """Resolves the names of a machine that may have come from there; False: it need not be.

        Who claims the GUID of a machine again and again has its names looked up once at a time.
        """
        manager = self._desk.manager
        if not manager.transfer.knows_machine(guid) or self.is_there(guid, address):
            return False
        key = _, names = self._key(guid)
        if names and key in self._waiting:
            self._waiting[key].append(done)
        elif names:
            self._waiting[key] = [done]
            self._resolve(key, names, frozenset())
        return bool(names)

    def _key(self, guid: bytes) -> _Key:
        names = [place.host for place in entered_places(self._desk.manager, guid)]
        return guid, tuple(name for name in dict.fromkeys(names) if as_address(name) is None)

    def _resolve(self, key: _Key, left: tuple[str, ...], found: frozenset[str]) -> None:
        self._network.resolve(left[0], partial(self._go_on, key, left[1:], found))

    def _go_on(
        self,
        key: _Key,
        left: tuple[str, ...],
        found: frozenset[str],
        addresses: list[str],
        fault: str,
    ) -> None:
        found |= frozenset(map(host_key, addresses))
        if left:
            self._resolve(key, left, found)
            return
        self._resolved.pop(key, None)
        self._resolved[key] = found
        for done in self._waiting.pop(key, []):
            done()
