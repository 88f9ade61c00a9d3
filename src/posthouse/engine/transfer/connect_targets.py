"""Which names in messages of other machines may make us open connections (decision 9).

Administration and trace queues are names that a stranger writes into a message and that we send to.
Such a name counts if it is a queue here, or on the peer itself, on a machine of the directory, or
on one that the operator allows; a loopback address or a port only for a peer on this machine. A
peer may name this many different machines in an hour, and ten times as many queues; all addresses
of an IPv6 network of 64 bits are one peer there. A computer name that is none of these may be the
peer's own: what is sent to it goes to the peer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from posthouse.directory import objects
from posthouse.directory.base import Kind, equals
from posthouse.engine.directory.public_queues import DirectoryOfQueues
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.queues.collection import Queues
from posthouse.engine.settings import host_key
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.address_prefixes import source_of
from posthouse.model.bounded_tables import Bounded
from posthouse.model.errors import InvalidParameter, RemoteProtocolError
from posthouse.model.guids import NULL_GUID, format_guid
from posthouse.model.names import (
    DirectName,
    FormatName,
    PrivateName,
    Protocol,
    PublicName,
    parse_format_name,
)
from posthouse.model.text import excerpt

ANY = "*"
PERIOD_MS = 3600 * 1000
OWN_NAMES = 10  # this many times as many queues: each is an outgoing queue here
PEERS_MAX = 10_000  # whose targets are counted; the one that began first is forgotten


class Targets:
    """The machines that messages from elsewhere may name."""

    is_forbidden: Callable[[str, int | None], bool]  # hosts and ports that nothing is sent to

    def __init__(self, core: Ledger, registry: Queues, directory: DirectoryOfQueues) -> None:
        self.core = core
        self._registry = registry
        self.directory = directory
        self._networks: list[IPv4Network | IPv6Network] = []
        self._hosts: set[str] = set()
        for text in core.settings.queue_manager.allowed_targets:
            self._allow(text)
        # Where stream receipts for a sender go, by the address that it posts from.
        self._elsewhere = {
            (_sender(sender), _with_port(to))
            for sender, to in core.settings.srmp.receipts_elsewhere.items()
        }
        # By peer, for others and for its own: since when, which machines or queues.
        self._named: Bounded[tuple[str, int], tuple[int, set[str]]] = Bounded(PEERS_MAX)
        # Ports of receipt addresses, by the address and the GUID of who named them.
        self._ports: Bounded[tuple[str, bytes], tuple[int, int]] = Bounded(PEERS_MAX)

    def _allow(self, text: str) -> None:
        """A host, a host with a port, a network or `*`."""
        if "/" not in text:
            self._hosts.add(_with_port(text))
            return
        try:
            self._networks.append(ip_network(text, strict=False))
        except ValueError:
            raise InvalidParameter(f"allowed_targets names {excerpt(text)}, no network") from None

    def allows(self, peer: Peer, name: FormatName | None, source: bytes = b"") -> bool:
        """Whether this name in a message that the peer brings may be sent to.

        `source` is the machine that has written it. What a router brings counts for who wrote it:
        else all machines after the router would share what one may name.
        """
        if name is None:
            return False
        counted = peer.address
        if source != peer.guid and self._is_relayed(peer, source):
            counted = format_guid(source)
        if isinstance(name, DirectName):
            return self._allows_direct(peer, name, counted)
        if isinstance(name, PrivateName):
            return self._allows_private(peer, name, counted)
        return isinstance(name, PublicName) and self._allows_public(peer, name, counted)

    def _is_relayed(self, peer: Peer, source: bytes) -> bool:
        """Whether the peer is a router, in its own place, and the source a known machine."""
        try:
            return self.knows_machine(source) and peer.may_pass_on(source)
        except RemoteProtocolError:  # the peer's place cannot be looked up now
            return False

    def may_be_peer(self, name: FormatName | None) -> bool:
        """Whether a computer name is unknown here, and may therefore be the sender's own.

        Answers to it go only to the sender, on a session with it (decision 40).
        """
        return (
            isinstance(name, DirectName)
            and name.protocol is Protocol.OS
            and name.port is None
            and not _is_address(name.host)
            and not self._is_here(host_key(name.host))
            and not self._is_allowed(host_key(name.host), None)
            and not self._knows_computer(name.host)
        )

    def _allows_direct(self, peer: Peer, name: DirectName, counted: str) -> bool:
        if self._registry.is_own(name.host, name.port):
            return True
        host = host_key(name.host)
        if host == peer.host and name.port is None:
            return self._count(counted, name.key, OWN_NAMES)
        if self._is_allowed(host, name.port):
            return self._count_queue(counted, name.address.casefold(), name.key)
        if name.port is not None or self._is_here(host):
            return peer.is_loopback and self._is_here(host)
        return self._knows_computer(name.host) and self._count_queue(counted, host, name.key)

    def receipt_name(self, peer: Peer, source: bytes, name: DirectName) -> DirectName | None:
        """Where receipts to a URL in a message of the peer's may go; None: nowhere.

        As for other answers (decision 9), but a URL may have a port: the peer's own one, the same
        in all its messages (decision 83). An unknown computer name is taken for the peer's own, and
        leads to the address that the peer came from. The number of queues that a peer may name is
        limited: each is an outgoing queue here.
        """
        if self._registry.is_own(name.host, name.port):
            return name
        allowed = self._receipt_name(peer, source, name)
        if allowed is None or not self._count(peer.address, allowed.key, OWN_NAMES):
            return None
        return allowed

    def stream_receipt_name(self, peer: Peer, source: bytes, name: DirectName) -> DirectName | None:
        """Where stream receipts for a sender may go; None: nowhere.

        A receipt makes its receiver let go of what it has sent. So it goes to the host that sent
        the stream, however that calls itself: anybody can send in the stream of a machine, and
        would name the address of the machine. Another host counts only where the operator has
        entered it for this sender, or where the directory has it as the machine whose stream it is,
        at this address or at none.
        """
        if self._registry.is_own(name.host, name.port):
            return name
        allowed = self._led_to_sender(peer, source, name)
        if allowed is None or not self._count(peer.address, allowed.key, OWN_NAMES):
            return None
        return allowed

    def _led_to_sender(self, peer: Peer, source: bytes, name: DirectName) -> DirectName | None:
        host = host_key(name.host)
        if self.is_forbidden(name.host, name.port):
            return None
        if (peer.host, _host_and_port(host, name.port)) in self._elsewhere:
            return name
        return self._own_receipt_name(
            peer, source, name, lambda: self._is_computer_of(peer, source, name.host)
        )

    def _receipt_name(self, peer: Peer, source: bytes, name: DirectName) -> DirectName | None:
        host = host_key(name.host)
        if self.is_forbidden(name.host, name.port):
            return None
        if self._is_allowed(host, name.port):
            return name if self._count(peer.address, name.address.casefold()) else None
        return self._own_receipt_name(peer, source, name, lambda: self._knows_computer(name.host))

    def _own_receipt_name(
        self, peer: Peer, source: bytes, name: DirectName, is_known: Callable[[], bool]
    ) -> DirectName | None:
        """A URL of the sender's own, by its address or by a name that leads to its address."""
        host = host_key(name.host)
        if host == peer.host or (peer.is_loopback and self._is_here(host)):
            return name if self._is_own_port(peer, source, name.port) else None
        if _is_address(host) or self._is_here(host):
            return None
        if not self._is_own_port(peer, source, name.port):
            return None
        if is_known():
            return name if self._count(peer.address, host) else None
        return replace(name, host=peer.host) if _is_address(peer.host) else None

    def _is_computer_of(self, peer: Peer, source: bytes, name: str) -> bool:
        """Whether the directory has a machine by this name, and it can be at the peer's address."""
        found = self._find(objects.QueueManager, "identifier", source)
        if found is None:
            return False
        names = host_key(found.computer_name), host_key(found.qualified_computer_name)
        addresses = [host_key(address) for address in found.addresses]
        return host_key(name) in names and (not addresses or peer.host in addresses)

    def _is_own_port(self, peer: Peer, source: bytes, port: int | None) -> bool:
        """Decision 83: a machine has one port for receipts; on this computer anything goes."""
        if port is None or peer.is_loopback:
            return self._count(peer.address, f"{source.hex()}:{port}", OWN_NAMES)
        key, now_ms = (peer.host, source), self.core.now_ms
        since, known = self._ports.get(key, (now_ms, port))
        stays = known == port or now_ms - since >= PERIOD_MS
        allowed = stays and self._count(peer.address, f"{source.hex()}:{port}")
        if allowed:
            self._ports[key] = since if known == port else now_ms, port
        return allowed

    def _is_here(self, host: str) -> bool:
        """Whether a host is this computer, where another queue manager may listen too."""
        return self._registry.is_own(host, None) or _is_loopback(host)

    def _is_allowed(self, host: str, port: int | None) -> bool:
        """What the operator set; a port has to be in the list too, unless anything is allowed."""
        if ANY in self._hosts or _host_and_port(host, port) in self._hosts:
            return True
        if port is not None or not self._networks:
            return False
        try:
            address = ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._networks)

    def _allows_private(self, peer: Peer, name: PrivateName, counted: str) -> bool:
        if name.guid == self.core.guid:
            return True
        if name.guid == peer.guid:
            return self._count(counted, name.key, OWN_NAMES)
        if name.guid == NULL_GUID or not self.knows_machine(name.guid):
            return False
        return self._count_queue(counted, format_guid(name.guid), name.key)

    def knows_machine(self, guid: bytes) -> bool:
        """Whether a queue manager is in the directory."""
        return self._find(objects.QueueManager, "identifier", guid) is not None

    def is_entered_at(self, guid: bytes, host: str) -> bool:
        """Whether the directory has a queue manager at this very address."""
        found = self._find(objects.QueueManager, "identifier", guid)
        return found is not None and host in map(host_key, found.addresses)

    def _knows_computer(self, name: str) -> bool:
        return any(
            self._find(objects.QueueManager, attribute, name) is not None
            for attribute in ("computer_name", "qualified_computer_name")
        )

    def _allows_public(self, peer: Peer, name: PublicName, counted: str) -> bool:
        found = self.find_queue(name.guid)
        if found is None:
            return False
        machine = found.queue_manager_identifier
        return machine in (self.core.guid, peer.guid) or self._count(counted, format_guid(machine))

    def owner_of(self, format_name: str) -> bytes:
        """The queue manager of a public queue, by its GUID; empty while that is unknown."""
        name = parse_format_name(format_name)
        service, now_ms = self.directory.service, self.core.now_ms
        assert isinstance(name, PublicName)
        queue = service.known(objects.Queue, equals("identifier", name.guid), now_ms).value
        if queue is None or queue.queue_manager_identifier != NULL_GUID:
            return b"" if queue is None else queue.queue_manager_identifier
        computer = equals("computer_name", queue.computer_name)
        machine = service.known(objects.QueueManager, computer, now_ms).value
        return b"" if machine is None else machine.identifier

    def find_queue(self, identifier: bytes) -> objects.Queue | None:
        """A public queue, as the directory has it."""
        return self._find(objects.Queue, "identifier", identifier)

    def _find(self, kind: type[Kind], attribute: str, value: object) -> Kind | None:
        """An object of the directory, as it was known last; None also when that is unknown."""
        service, now_ms = self.directory.service, self.core.now_ms
        return service.known(kind, equals(attribute, value), now_ms).value

    def _count_queue(self, peer: str, machine: str, queue: str) -> bool:
        """Whether the peer may name one more queue, and one more machine if it is on another."""
        return self._count(peer, machine) and self._count(peer, queue, OWN_NAMES)

    def _count(self, peer: str, machine: str, times: int = 1) -> bool:
        """Whether the peer may name one more machine, or queue of its own."""
        key, now_ms = (source_of(peer), times), self.core.now_ms
        known = self._named.get(key)
        if known is None or now_ms - known[0] >= PERIOD_MS:
            self._named.pop(key, None)
            known = now_ms, set()
        since, named = known
        if (
            machine not in named
            and len(named) >= times * self.core.settings.queue_manager.targets_per_peer
        ):
            return False
        named.add(machine)
        self._named[key] = since, named
        return True


def _with_port(text: str) -> str:
    """A host of the setting in one spelling, its port after it."""
    host, colon, port = text.rpartition(":")
    if colon and port.isdecimal() and (":" not in host or host.endswith("]")):
        return f"{host_key(host.strip('[]'))}:{port}"
    return host_key(text.strip("[]"))


def _sender(text: str) -> str:
    """The address of a sender in the setting, in one spelling."""
    address = text.strip("[]")
    if not _is_address(address):
        raise InvalidParameter(f"receipts_elsewhere names {excerpt(text)}, which is not an address")
    return host_key(address)


def _host_and_port(host: str, port: int | None) -> str:
    return host if port is None else f"{host}:{port}"


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
