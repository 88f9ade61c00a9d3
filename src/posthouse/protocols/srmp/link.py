"""One outgoing queue over HTTP, from its first message to its last ([MC-MQSRM] 3.1.7.7-9)."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from posthouse.engine.transfer.protocol_interface import Outbound
from posthouse.model.enumerations import ConnectionStatus
from posthouse.model.names import DirectName
from posthouse.protocols.sending_queue import NEVER
from posthouse.protocols.srmp.destinations import HttpDestination
from posthouse.protocols.srmp.http_head import ResponseHead
from posthouse.protocols.srmp.link_states import LINK_STATES, SrmpLinkEvent
from posthouse.protocols.srmp.link_states import SrmpLinkState as SrmpLinkState
from posthouse.protocols.srmp.network import SrmpTransport
from posthouse.protocols.srmp.outgoing_connection import Exchange, Posted
from posthouse.protocols.srmp.sending import SrmpSendingQueue
from posthouse.protocols.srmp.settings import SrmpSettings

CAUTION = 64  # requests that go one at a time after a peer has not taken several at once
CAUTION_DOUBLINGS_MAX = 20


class LinkHost(Protocol):
    """Who has all links."""

    def answered(self, link: SrmpLink, posted: Posted, head: ResponseHead) -> None:
        """A request of a link got its response."""
        ...

    def ended(self, link: SrmpLink, exchange: Exchange, words: str) -> None:
        """The connection of a link is over."""
        ...

    def pump(self, link: SrmpLink) -> None:
        """A link may send more."""
        ...

    def due(self, link: SrmpLink) -> None:
        """A timer of a link."""
        ...

    def connected(self, link: SrmpLink, transport: SrmpTransport) -> Exchange:
        """The connection that a link waited for is there."""
        ...

    def not_connected(self, link: SrmpLink, status: ConnectionStatus, words: str) -> None:
        """It is not."""
        ...


class SrmpLink:
    """An outgoing queue, at most one connection for it, and what is to be sent on that."""

    def __init__(
        self, number: int, name: DirectName, settings: SrmpSettings, host: LinkHost
    ) -> None:
        self.number = number
        self.name = name
        self.state = LINK_STATES.first
        self.sending = SrmpSendingQueue(number, settings)
        self.fetched: deque[Outbound] = deque()  # taken and not sent
        self.fetched_at_ms = 0
        self.ready = False  # a take may give something
        self.is_taking = False
        self.exchange: Exchange | None = None
        self.destination: HttpDestination | None = None
        self.hops: list[str] = []  # addresses of the destination
        self.at = 0  # of them in use
        self.addresses: frozenset[str] = frozenset()  # where it led to the last time
        self.own_addresses: frozenset[str] = frozenset()  # of the host in its name
        self.learned_at_ms = 0
        self.is_learning = False
        self.attempt = 0  # a number for each, so that late answers are known as such
        self.failures = 0  # in a row
        self.stumbles = 0  # connections that did not take several requests at once
        self.caution = 0  # requests that are posted one at a time because of that
        self.retry_at_ms = NEVER
        self.last_error = ""
        self._host = host

    def happened(self, event: SrmpLinkEvent) -> None:
        """One transition of the table."""
        self.state = LINK_STATES.after(self.state, event)

    def stumbled(self) -> None:
        """Requests go one at a time for a while, which grows with each time."""
        self.caution = CAUTION << min(2 * self.stumbles, CAUTION_DOUBLINGS_MAX)
        self.stumbles += 1

    @property
    def hop(self) -> str | None:
        """The address in use."""
        return self.hops[self.at] if self.at < len(self.hops) else None

    # -- reports of its connection

    def answered(self, posted: Posted, head: ResponseHead) -> None:
        """A request got its response."""
        self._host.answered(self, posted, head)

    def ended(self, exchange: Exchange, words: str) -> None:
        """The connection is over."""
        self._host.ended(self, exchange, words)

    def writable(self) -> None:
        """The peer takes more."""
        self._host.pump(self)

    # -- timers

    def next_deadline_ms(self) -> int | None:
        """Retransmission, Stream Receipt Wait, Session Cleanup, and the time for a response."""
        found = [self.sending.resend_at_ms, self.sending.remind_at_ms]
        if self.state is SrmpLinkState.WAITING:
            found.append(self.retry_at_ms)
        if self.exchange is not None:
            found.append(self.exchange.next_deadline_ms() or NEVER)
        earliest = min(found)
        return None if earliest == NEVER else earliest

    def tick(self) -> None:
        """Does what is due."""
        if self.exchange is not None:
            self.exchange.tick()
        self._host.due(self)


class LinkAttempt:
    """An attempt of a link, as the network has it."""

    def __init__(self, host: LinkHost, link: SrmpLink) -> None:
        self._host = host
        self._link = link
        self._attempt = link.attempt
        self._over = False

    @property
    def _matters(self) -> bool:
        """Once; and the link may have other plans by now."""
        over, self._over = self._over, True
        return not over and self._link.attempt == self._attempt

    def connected(self, transport: SrmpTransport) -> Exchange | None:
        """The connection is there."""
        return self._host.connected(self._link, transport) if self._matters else None

    def failed(self, status: ConnectionStatus, words: str) -> None:
        """It is not."""
        if self._matters:
            self._host.not_connected(self._link, status, words)
