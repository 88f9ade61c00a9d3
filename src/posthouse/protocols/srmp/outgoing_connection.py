"""An outgoing HTTP connection: requests out, the status of each back ([MC-MQSRM] 3.1.7.2.5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from posthouse.protocols.srmp.http_head import ResponseHead
from posthouse.protocols.srmp.http_reader import ResponseReader
from posthouse.protocols.srmp.network import SrmpTransport
from posthouse.protocols.srmp.settings import SrmpSettings


class Posted(NamedTuple):
    """A request that waits for its response."""

    number: int  # of its message
    transactional: bool
    at_ms: int


class ExchangeOwner(Protocol):
    """Who sends over a connection."""

    def answered(self, posted: Posted, head: ResponseHead) -> None:
        """A request got its response."""
        ...

    def ended(self, exchange: Exchange, words: str) -> None:
        """The connection is over, with what was in flight; empty words: no fault."""
        ...

    def writable(self) -> None:
        """The peer takes more."""
        ...


class Exchange:
    """The client's end of one connection."""

    unsynced_bytes = 0

    def __init__(
        self,
        settings: SrmpSettings,
        transport: SrmpTransport,
        sender: ExchangeOwner,
        now: Callable[[], int],
        pipeline: int = 1,
    ) -> None:
        self.settings = settings
        self.pipeline = pipeline  # requests on their way, once the peer has answered one
        self.overlapped = False  # one was sent before the one in front of it was answered
        self.in_flight: deque[Posted] = deque()
        self.answers = 0
        self.refusal = ""  # an answer that ends it, once those after it are there
        self.is_closed = False
        self._transport = transport
        self._sender = sender
        self._now = now
        self._reader = ResponseReader(settings)
        self._is_last = False  # the peer said that it closes
        self._quiet_since_ms = now()

    @property
    def local_address(self) -> str:
        """Our own address on this connection."""
        return self._transport.local_address

    @property
    def held_bytes(self) -> int:
        """Of a response that is not whole yet."""
        return self._reader.held

    @property
    def announced_bytes(self) -> int:
        """What is kept of a response has a limit that is small: nothing is reserved for it."""
        return self._reader.held

    @property
    def has_room(self) -> bool:
        """Whether another request may go out now."""
        # A peer that closes after each answer, or speaks HTTP/1.0, is known by its first one.
        window = self.pipeline if self.answers else 1
        free = len(self.in_flight) < window and self._transport.writable
        return free and not self.is_closed and not self._is_last and not self.refusal

    def post(self, number: int, transactional: bool, parts: list[bytes]) -> None:
        """Sends a request."""
        self.overlapped = self.overlapped or bool(self.in_flight)
        self.in_flight.append(Posted(number, transactional, self._now()))
        self._transport.send(parts)

    # -- from the network

    def receive(self, data: bytes) -> None:
        """Bytes of the peer."""
        for head in self._reader.feed(data):
            if self.is_closed:
                return
            if not self.in_flight:
                self._end("the peer answers what was not asked")
                return
            self.answers += 1
            self._quiet_since_ms = self._now()
            self._is_last = not head.keep
            self._sender.answered(self.in_flight.popleft(), head)
            if self._is_last:
                self._end("")
        if self._reader.error is not None:
            self._end(f"the peer does not speak HTTP: {self._reader.error.words}")
        elif not self.is_closed:
            self._sender.writable()

    @property
    def has_stumbled(self) -> bool:
        """Whether it was over soon after several requests were on their way at once."""
        return self.overlapped and bool(self.in_flight) and self.answers < 2 * self.pipeline

    def pump(self) -> None:
        """The peer takes more."""
        self._sender.writable()

    def lost(self, words: str) -> None:
        """The peer has closed it, or it broke."""
        if not self.is_closed:
            self.is_closed = True
            self._sender.ended(self, words if self.in_flight or not self.answers else "")

    # -- time

    def next_deadline_ms(self) -> int | None:
        """When a response is overdue, or idleness ends it (3.1.2.4)."""
        if self.is_closed:
            return None
        if self.in_flight:
            return self.in_flight[0].at_ms + self.settings.response_ms
        return self._quiet_since_ms + self.settings.cleanup_ms

    def tick(self) -> None:
        """Session Cleanup Timer Event (3.1.6.4), or a time-out of the transport (3.1.7.2.5)."""
        deadline_ms, now_ms = self.next_deadline_ms(), self._now()
        if deadline_ms is not None and deadline_ms <= now_ms:
            waited_s = self.settings.response_ms / 1000
            self._end(f"no answer within {waited_s:g} s" if self.in_flight else "")

    def _end(self, words: str) -> None:
        if not self.is_closed:
            self.leave()
            self._sender.ended(self, words)

    def leave(self) -> None:
        """Closes it without a report to its sender, which asked for it."""
        if not self.is_closed:
            self.is_closed = True
            self._transport.close()
