"""Where messages for a name go: Get Destination Info and Get Next Hops ([MS-MQQB] 3.1.7.4-5)."""

from __future__ import annotations

from functools import partial
from ipaddress import ip_address
from typing import NamedTuple

from posthouse.directory import objects
from posthouse.directory.addresses import Address
from posthouse.directory.base import DirectoryOperationResult
from posthouse.directory.routing import NoRoute
from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import host_key
from posthouse.model.enumerations import ConnectionStatus
from posthouse.model.guids import NULL_GUID, format_guid
from posthouse.model.names import (
    DirectName,
    FormatName,
    PrivateName,
    Protocol,
    PublicName,
    parse_format_name,
)
from posthouse.model.next_hops import NextHop as HopText

STANDARD_PORT = 1801  # 2.1.1
_TRANSPORTS = frozenset({Protocol.TCP, Protocol.OS})  # IPX and SPX never (decision 50)


class Unresolved(Exception):
    """A destination cannot be found now; it is looked for again later."""

    def __init__(self, status: ConnectionStatus, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


class Destination(NamedTuple):
    """What a format name leads to (3.1.7.4); the GUID of a direct name is zero.

    With both, it is a queue manager as it calls from that host, and nothing else.
    """

    host: str
    port: int | None
    guid: bytes

    @property
    def is_direct(self) -> bool:
        """Whether the name has the host itself."""
        return self.guid == NULL_GUID

    @property
    def is_bound(self) -> bool:
        """Whether it is where somebody has called from in the name of a queue manager."""
        return bool(self.host) and self.guid != NULL_GUID

    @property
    def key(self) -> tuple[str, int, bytes]:
        """Names with the same key share a session; decision 41: a port is part of it."""
        if not self.is_direct:
            return host_key(self.host), 0, self.guid
        return host_key(self.host), self.port or STANDARD_PORT, NULL_GUID

    def __str__(self) -> str:
        if not self.is_direct:
            at = f" at {self.host}" if self.host else ""
            return f"queue manager {format_guid(self.guid)}{at}"
        return self.host if self.port is None else f"{self.host} port {self.port}"


class Candidate(NamedTuple):
    """A queue manager to try, before its host is resolved."""

    host: str
    port: int
    guid: bytes = NULL_GUID


class NextHop(NamedTuple):
    """NextHop (3.1.1.3.1.3): queue manager, host name and one address; and the port to use."""

    guid: bytes
    host_name: str
    address: str
    port: int

    def __str__(self) -> str:
        return str(HopText.of_ip(self.address))


def is_handled(name: FormatName) -> bool:
    """3.1.7.12: messages for multicast and web names are other protocols'."""
    if isinstance(name, DirectName):
        return name.protocol in _TRANSPORTS
    return isinstance(name, PublicName | PrivateName)


def destination_of(manager: QueueManager, format_name: str, host: str = "") -> Destination:
    """Get Destination Info (3.1.7.4); raises Unresolved where the directory has no answer.

    `host` is the only one that may have what is for this name, empty for most.
    """
    name = parse_format_name(format_name)
    if isinstance(name, DirectName):
        return Destination(name.host, name.port, NULL_GUID)
    if isinstance(name, PrivateName):
        return Destination(host, None, name.guid)
    assert isinstance(name, PublicName)  # no packet can carry a connector name
    return _owner(manager, name)


def _owner(manager: QueueManager, name: PublicName) -> Destination:
    """The queue manager that a queue of the directory belongs to."""
    owner = manager.transfer.owner_of(str(name))
    if owner:
        return Destination("", None, owner)
    found = manager.directory.known_queue(name.guid)
    lacks = f"queue {name}"
    if found.value is not None:
        lacks = f"queue manager {found.value.computer_name}"
    raise _not_found(found.status, f"the directory has no {lacks}")


def _not_found(status: DirectoryOperationResult, words: str) -> Unresolved:
    if status is DirectoryOperationResult.DIRECTORY_NOT_CONNECTED:
        words = "the directory cannot be reached"
    return Unresolved(ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE, words)


def candidates(
    manager: QueueManager, destination: Destination, caller: str = "", *, detour: bool = False
) -> list[Candidate]:
    """Whom to try, in order; `caller` is where the queue manager has last called from.

    `detour`: it could not be reached, so routing servers of its site are tried too.

    3.1.5.2.1: a direct name is its host, anything else a next hop. Anybody can call under a GUID,
    so that counts only where nothing else is known; and where the directory has the machine but
    no way, there is none. Raises Unresolved where there is none.
    """
    if destination.is_direct:
        return [Candidate(destination.host, destination.port or STANDARD_PORT)]
    guid = destination.guid
    if destination.host:
        address, port = manager.transfer.address_of(guid) or ("", None)
        there = port if host_key(address) == host_key(destination.host) else None
        return [Candidate(destination.host, there or STANDARD_PORT, guid)]
    try:
        return get_next_hops(manager, guid, detour=detour)
    except Unresolved:
        known = _reached(manager, guid)
        if _machine(manager, guid) is not None or (not known and not caller):
            raise
    return known or [Candidate(caller, STANDARD_PORT, guid)]


def _reached(manager: QueueManager, guid: bytes, *, called: bool = True) -> list[Candidate]:
    """Where it was reached last; also where it has `called` from, if that is enough."""
    address, port = reached_at(manager, guid)
    if not address or (port is None and not called):
        return []
    return [Candidate(address, port or STANDARD_PORT, guid)]


class Way(NamedTuple):
    """What is known of the way to a queue manager: by others than itself, or where it came from."""

    address: str
    known: bool


def way_to(manager: QueueManager, guid: bytes) -> Way:
    """Whether the directory, or a session that we opened, has led to a queue manager."""
    address, port = manager.transfer.address_of(guid) or ("", None)
    return Way(address, port is not None or _machine(manager, guid) is not None)


def reached_at(manager: QueueManager, guid: bytes) -> tuple[str, int | None]:
    """Where a queue manager was reached last; nowhere where the directory has moved it since."""
    address, port = manager.transfer.address_of(guid) or ("", None)
    return ("", None) if is_elsewhere(manager, guid, address, port) else (address, port)


def is_elsewhere(manager: QueueManager, guid: bytes, address: str, port: int | None = None) -> bool:
    """Whether the entry of a machine leads to other addresses only; names may lead anywhere."""
    places = entered_places(manager, guid)
    at = host_key(address)
    return bool(places) and all(
        as_address(place.host) is not None
        and (host_key(place.host) != at or port not in (None, place.port))
        for place in places
    )


def get_next_hops(manager: QueueManager, guid: bytes, *, detour: bool = False) -> list[Candidate]:
    """Get Next Hops (3.1.7.5): those of the routing that the directory has an entry of.

    Decision 40: each is tried first where it was last reached, unless the directory has by now that
    it is elsewhere. An address from which a machine called under its GUID does not count: the
    directory is more reliable.
    """
    found: list[Candidate] = []
    hops = [*routed(manager, guid)]
    if detour and hops == [guid]:
        hops += manager.directory.detours(guid)
    for machine in map(partial(_machine, manager), hops):
        if machine is not None:
            found += _reached(manager, machine.identifier, called=False) + _places(machine)
    if not found:
        words = f"the directory has no next hop towards queue manager {format_guid(guid)}"
        raise Unresolved(ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE, words)
    return list(dict.fromkeys(found))


def candidates_or_none(manager: QueueManager, guid: bytes) -> list[Candidate]:
    """Those next hops; none while there is no way."""
    try:
        return get_next_hops(manager, guid)
    except Unresolved:
        return []


def routed(manager: QueueManager, guid: bytes) -> tuple[bytes, ...]:
    """The queue managers that messages for another one are handed to, the first choice first."""
    try:
        return manager.directory.next_hops(guid).candidates
    except NoRoute as fault:
        raise Unresolved(ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE, str(fault)) from None


def routed_or_none(manager: QueueManager, guid: bytes) -> tuple[bytes, ...]:
    """The next hops for another queue manager; empty while there is no route."""
    try:
        return routed(manager, guid)
    except Unresolved:
        return ()


def _machine(manager: QueueManager, guid: bytes) -> objects.QueueManager | None:
    return manager.directory.known_machine(guid)


def entered_places(manager: QueueManager, guid: bytes) -> list[Candidate]:
    """Where the directory states that a queue manager listens."""
    machine = _machine(manager, guid)
    return [] if machine is None else _places(machine)


def may_be_at(manager: QueueManager, guid: bytes, hop: NextHop) -> bool:
    """Whether who answers there under a GUID may have it: no other machine of the directory."""
    machine = _machine(manager, guid)
    here = host_key(hop.host_name), host_key(hop.address)
    return machine is None or any(host_key(place.host) in here for place in _places(machine))


def _places(machine: objects.QueueManager) -> list[Candidate]:
    """Where a machine listens, by its entry."""
    named = machine.qualified_computer_name or machine.computer_name
    places = [Address.parse(text) for text in machine.addresses] or [Address(named)]
    return [Candidate(host, port or STANDARD_PORT, machine.identifier) for host, port in places]


def as_address(host: str) -> str | None:
    """The address that a host is written as; None for a name, which has to be resolved."""
    try:
        return str(ip_address(host))
    except ValueError:
        return None


def next_hops(candidate: Candidate, addresses: list[str]) -> list[NextHop]:
    """Each address of a candidate once, in order; what is neither IPv4 nor IPv6 is left out."""
    usable = [address for address in map(as_address, addresses) if address is not None]
    return [
        NextHop(candidate.guid, candidate.host, address, candidate.port)
        for address in dict.fromkeys(usable)
    ]


def resolvable(manager: QueueManager, format_name: str, host: str = "") -> Destination | Unresolved:
    """The destination of an outgoing queue, or why there is none now."""
    try:
        return destination_of(manager, format_name, host)
    except Unresolved as fault:
        return fault
