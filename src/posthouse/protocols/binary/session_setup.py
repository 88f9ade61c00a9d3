"""Establish a Protocol Session ([MS-MQQB] 3.1.5.2): resolve, optionally ping, connect."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import OutgoingQueueState
from posthouse.engine.settings import host_key
from posthouse.model.enumerations import ConnectionStatus
from posthouse.protocols.binary.link import BinaryLink
from posthouse.protocols.binary.link_states import BinaryLinkEvent
from posthouse.protocols.binary.network import BinaryNetwork
from posthouse.protocols.binary.next_hop_lookup import (
    Candidate,
    NextHop,
    Unresolved,
    as_address,
    candidates,
    next_hops,
)
from posthouse.protocols.binary.ping import Pinger
from posthouse.protocols.binary.session import BinarySession, BinaryTransport
from posthouse.protocols.outgoing_reports import Reports

_STOPPED = Unresolved(ConnectionStatus.UNKNOWN_FAILURE, "the queue manager has stopped")


class Outcome(Protocol):
    """The callbacks for success and failure of a connection attempt."""

    def connected(
        self, link: BinaryLink, hop: NextHop, transport: BinaryTransport
    ) -> BinarySession:
        """The connection is there."""
        ...

    def failed(
        self, link: BinaryLink, status: ConnectionStatus, words: str, state: OutgoingQueueState
    ) -> None:
        """There is none, and the state that the queues have for that."""
        ...


class Establishing:
    """The steps of an attempt. An answer to an attempt that is over is dropped."""

    def __init__(
        self,
        reports: Reports,
        network: BinaryNetwork,
        pinger: Pinger,
        outcome: Outcome,
        *,
        direct_attempts: int,
        caller_of: Callable[[bytes], str],
    ) -> None:
        self._reports = reports
        self._network = network
        self._pinger = pinger
        self._outcome = outcome
        self._direct_attempts = direct_attempts
        self._caller_of = caller_of

    def resolve(self, link: BinaryLink, *, by_timer: bool) -> None:
        """Resolve Host Address (3.1.5.2.1), afresh with every attempt that begins here."""
        destination = link.destination
        assert destination is not None
        self._begin(link)
        link.hops, link.at = [], 0
        caller = self._caller_of(destination.guid)
        detour = link.failures >= self._direct_attempts > 0

        def find(manager: QueueManager) -> list[Candidate] | Unresolved:
            try:
                return candidates(manager, destination, caller, detour=detour)
            except Unresolved as fault:
                return fault

        found = self._reports.ask(find, _STOPPED)
        if isinstance(found, Unresolved):
            self._unresolved(link, found)
        else:
            self._resolve_next(link, link.attempt, found, by_timer, "")

    def _begin(self, link: BinaryLink) -> None:
        link.attempt += 1
        link.happened(BinaryLinkEvent.BEGIN)
        link.retry_at_ms = None

    def _unresolved(self, link: BinaryLink, fault: Unresolved) -> None:
        link.has_no_way, state = True, OutgoingQueueState.NEED_VALIDATION
        self._outcome.failed(link, fault.status, fault.words, state)

    def _resolve_next(
        self, link: BinaryLink, attempt: int, left: list[Candidate], by_timer: bool, fault: str
    ) -> None:
        """One candidate after the other, until the addresses of all are known."""
        while left:
            candidate, left = left[0], left[1:]
            address = as_address(candidate.host)
            if address is None:
                done = partial(self._resolved, link, attempt, candidate, left, by_timer)
                self._network.resolve(candidate.host, done)
                return
            link.hops += next_hops(candidate, [address])
        if link.hops:
            self._reachable(link, by_timer)
        else:
            self._unresolved(link, Unresolved(ConnectionStatus.DNS_FAILURE, fault))

    def _resolved(
        self,
        link: BinaryLink,
        attempt: int,
        candidate: Candidate,
        left: list[Candidate],
        by_timer: bool,
        addresses: list[str],
        fault: str,
    ) -> None:
        if link.attempt == attempt:
            link.hops += next_hops(candidate, addresses)
            words = fault or f"{candidate.host} has no address"
            self._resolve_next(link, attempt, left, by_timer, words)

    def _reachable(self, link: BinaryLink, by_timer: bool) -> None:
        link.has_no_way = False
        link.addresses = frozenset(host_key(hop.address) for hop in link.hops)
        link.places = frozenset((hop.guid, host_key(hop.address)) for hop in link.hops)
        self._reports.next_hops(link.queues, link.hops)
        self._ping_or_connect(link, by_timer=by_timer)

    def next_hop(self, link: BinaryLink) -> None:
        """3.1.6.1: the next one in the list, without resolving anything."""
        assert link.has_further_hop
        self._begin(link)
        link.at += 1
        self._ping_or_connect(link, by_timer=True)

    def _ping_or_connect(self, link: BinaryLink, *, by_timer: bool) -> None:
        """Ping Mechanism (3.1.5.2.2); a retry never pings."""
        hop = link.hop
        assert hop is not None
        link.pinged = self._pinger.goes_first and not by_timer
        if link.pinged:
            link.happened(BinaryLinkEvent.PING)
            self._pinger.ask(hop.address, partial(self._pinged, link, link.attempt, hop))
        else:
            self._connect(link, hop)

    def _pinged(self, link: BinaryLink, attempt: int, hop: NextHop, accepts: bool) -> None:
        if link.attempt != attempt:
            return
        if accepts:
            self._connect(link, hop)
            return
        words = f"{hop.address} did not answer a ping, or said that it takes no session"
        state = OutgoingQueueState.DISCONNECTED
        self._outcome.failed(link, ConnectionStatus.PING_FAILURE, words, state)

    def _connect(self, link: BinaryLink, hop: NextHop) -> None:
        """2.1.1; what follows is Sending an EstablishConnection Request Packet (3.1.5.2.3)."""
        link.happened(BinaryLinkEvent.CONNECT)
        self._reports.state(link.queues, OutgoingQueueState.WAITING)
        attempt = _Connecting(self._outcome, link, hop)
        self._network.connect(hop.address, hop.port, attempt)


class _Connecting:
    """An attempt of a link, as the network has it."""

    def __init__(self, outcome: Outcome, link: BinaryLink, hop: NextHop) -> None:
        self._outcome = outcome
        self._link = link
        self._hop = hop
        self._attempt = link.attempt
        self._over = False

    @property
    def _matters(self) -> bool:
        """Once; and the link may have other plans by now."""
        over, self._over = self._over, True
        return not over and self._link.attempt == self._attempt

    def connected(self, transport: BinaryTransport) -> BinarySession | None:
        """The connection is there."""
        if not self._matters:
            return None
        return self._outcome.connected(self._link, self._hop, transport)

    def failed(self, status: ConnectionStatus, words: str) -> None:
        """It is not."""
        if self._matters:
            state = OutgoingQueueState.DISCONNECTED
            self._outcome.failed(self._link, status, words, state)
