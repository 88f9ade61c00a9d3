"""An incoming HTTP connection: requests in, responses out, in order ([MC-MQSRM] 2.1.1).

What is wrong with a request as such is answered here; what it carries goes to the engine with the
requests of all other connections (`Host.hand_in`), and is answered once that is durable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from ipaddress import ip_address
from typing import Protocol

from posthouse.engine.settings import host_key
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.srmp.protocol_interface import SrmpArrival
from posthouse.formats.trace_headers import with_trace
from posthouse.model.errors import RemoteProtocolError
from posthouse.model.trace_context import TraceHeaders, is_tracestate, read_context
from posthouse.protocols.srmp.http_head import RequestHead
from posthouse.protocols.srmp.http_reader import HttpRequest, RequestReader
from posthouse.protocols.srmp.http_writer import CONTINUE, response
from posthouse.protocols.srmp.network import SrmpTransport
from posthouse.protocols.srmp.settings import SrmpSettings
from posthouse.wire.srmp.mime_parts import check_receipt
from posthouse.wire.srmp.repeated_messages import MessageReader

PATH = "/msmq/"
SMALL = 4 << 10  # bytes of requests: the connection itself takes more
_new = tuple.__new__  # one for each request: half the time of a call of its class


class ResponseSlot:
    """A request that waits for its response, in the order of requests."""

    __slots__ = ("connection", "is_old", "keep", "response", "size", "status")

    def __init__(self, connection: SrmpConnection, head: RequestHead, size: int) -> None:
        self.connection = connection
        self.keep = head.keep
        self.is_old = head.is_old
        self.size = size
        self.status = 0
        self.response = b""

    def answer(self, status: int, why: str = "", *, keep: bool = True) -> None:
        """The response, which goes out after those to earlier requests."""
        self.decided(status, why, self.connection.utc, keep=keep)

    def decided(self, status: int, why: str, utc: int, *, keep: bool) -> None:
        """The response of this second."""
        self.status = status
        self.keep = self.keep and keep
        self.response = response(status, why, keep=self.keep, is_old=self.is_old, utc=utc)


class ConnectionHost(Protocol):
    """The interface of a connection to its protocol."""

    @property
    def refuses(self) -> str:
        """Why no request is taken now; empty: they are."""
        ...

    @property
    def utc(self) -> int:
        """The second of our clock, for the Date of responses."""
        ...

    def hand_in(self, slot: ResponseSlot, arrival: SrmpArrival) -> None:
        """Has the engine look at a message; answers the slot later."""
        ...

    def answered(self, status: int) -> None:
        """Counts a response."""
        ...

    def peer_at(self, address: str) -> Peer:
        """The other end as a `Peer` of the engine."""
        ...

    def rearm(self, connection: SrmpConnection) -> None:
        """A connection has something to do earlier than it thought."""
        ...

    def closed(self, connection: SrmpConnection) -> None:
        """A connection is gone."""
        ...


class SrmpConnection:
    """The server's end of one connection."""

    def __init__(
        self,
        settings: SrmpSettings,
        transport: SrmpTransport,
        host: ConnectionHost,
        address: str,
        now: Callable[[], int],
    ) -> None:
        self.settings = settings
        self.address = address
        self.unsynced_bytes = 0
        self._transport = transport
        self._host = host
        self._now = now
        self._reader = RequestReader(settings)
        self._messages = MessageReader()
        self._slots: deque[ResponseSlot] = deque()
        self._peer = host.peer_at(address)
        self._is_proxy = host_key(address) in settings.reverse_proxies
        self._quiet_since_ms = self._begun_at_ms = now()
        self._paused = False
        self._ending = False  # what follows is no longer read
        self.has_asked = False  # a request has come whole
        self.is_closed = False

    @property
    def utc(self) -> int:
        """The second of our clock."""
        return self._host.utc

    # -- bytes in

    @property
    def held_bytes(self) -> int:
        """Of a request that is not whole yet."""
        return self._reader.held

    @property
    def announced_bytes(self) -> int:
        """Of that request when it is whole."""
        return self._reader.announced

    @property
    def is_small(self) -> bool:
        """Whether all it holds is a small request that waits for its sync, or nothing."""
        return self.unsynced_bytes <= SMALL and not self._reader.is_begun

    @property
    def is_waiting(self) -> bool:
        """Whether a request waits for its response."""
        return bool(self._slots)

    def receive(self, data: bytes) -> None:
        """Bytes of the peer."""
        if self._ending:
            return
        was_begun = self._reader.is_begun
        requests = self._reader.feed(data)
        self.has_asked = self.has_asked or bool(requests)
        for request in requests:
            self._take(request)
            if self._ending:
                return
        if self._reader.error is not None:
            self._break_off(self._reader.error.status, self._reader.error.words)
        elif self._reader.is_begun and (requests or not was_begun):
            self._begun_at_ms = self._now()
            self._host.rearm(self)
        if not self._slots:
            self._flush()
        elif self._is_full and not self._paused:
            self._paused = True
            self._transport.pause()

    @property
    def _is_full(self) -> bool:
        ahead = self.unsynced_bytes >= self.settings.receive_ahead
        return ahead or len(self._slots) >= self.settings.pending_max

    def _take(self, request: HttpRequest) -> None:
        head, body = request
        slot = ResponseSlot(self, head, len(head.raw) + len(body))
        self._slots.append(slot)
        self._ending = not head.keep
        refusal = self._host.refuses
        if refusal:
            slot.answer(503, refusal, keep=False)
        elif head.method != b"POST":
            slot.answer(405, "messages come by POST")
        elif not head.path.lower().startswith(PATH):
            slot.answer(404, f"messages go to {PATH}, and nothing else is here")
        else:
            self._read(slot, head, body)
        if not slot.keep:
            self._ending = True
        if slot.response and self._slots[0] is slot:
            self._flush()

    def _read(self, slot: ResponseSlot, head: RequestHead, body: bytes) -> None:
        """Message Deserialization (3.1.5.1.1), as far as it needs no queue."""
        try:
            message, parts, template = self._messages.read(head.raw, head.content_type, body)
            if template is None:
                check_receipt(message, parts)
        except RemoteProtocolError as fault:
            slot.answer(400, str(fault))  # 3.1.5.1.2
            return
        if head.traceparent and not parts.extension and message.signature is None:
            parts, template = parts._replace(extension=_trace_of(head)), None
        self.unsynced_bytes += slot.size
        arrival = _new(SrmpArrival, (self._peer_of(head), message, parts, head.raw, template))
        self._host.hand_in(slot, arrival)

    def _peer_of(self, head: RequestHead) -> Peer:
        """Who sent it; a reverse proxy of ours names the real sender."""
        if not self._is_proxy or not head.forwarded_for:
            return self._peer
        told = head.forwarded_for.rpartition(",")[2].strip()
        try:
            return self._host.peer_at(str(ip_address(told.strip("[]"))))
        except ValueError:
            return self._peer

    def _break_off(self, status: int, words: str) -> None:
        """It is unknown where the next request would begin."""
        slot = ResponseSlot(self, _UNREADABLE, 0)
        slot.answer(status, words)
        self._slots.append(slot)
        self._ending = True
        self._flush()

    # -- responses out

    def answered(
        self, slot: ResponseSlot, status: int, why: str, utc: int, *, is_over: bool = False
    ) -> None:
        """What the engine said of a request is durable; `is_over`: no more requests are taken."""
        self.unsynced_bytes -= slot.size
        if self.is_closed:
            return
        is_last = slot is self._slots[-1] and (self._ending or is_over)
        slot.decided(status, "" if status == 200 else why, utc, keep=not is_last)
        self._flush()
        self._transport.relieved()
        if self._paused and not self._is_full and not self.is_closed:
            self._paused = False
            self._transport.resume()

    def _flush(self) -> None:
        """What is ready goes out, as far as all in front of it is."""
        parts, slots = [], self._slots
        while slots and slots[0].response:
            slot = slots.popleft()
            parts.append(slot.response)
            self._host.answered(slot.status)
            if not slot.keep:
                slots.clear()
                self._send(parts)
                self.leave()
                return
        if not slots and self._reader.expects:
            self._reader.expects = False
            parts.append(CONTINUE)
        if parts:
            self._send(parts)
        if not slots and self._ending:
            self.leave()

    def _send(self, parts: list[bytes]) -> None:
        self._quiet_since_ms = self._now()
        self._transport.send(parts)

    def pump(self) -> None:
        """The peer takes more."""
        self._quiet_since_ms = self._now()

    # -- time (decision 68)

    def next_deadline_ms(self) -> int | None:
        """When it has been silent, or slow, for too long."""
        if self.is_closed:
            return None
        if self._reader.is_begun:
            return self._begun_at_ms + self.settings.request_ms
        return self._quiet_since_ms + self.settings.idle_ms

    def tick(self) -> None:
        """Closes it when its time is over."""
        deadline_ms, now_ms = self.next_deadline_ms(), self._now()
        if deadline_ms is None or deadline_ms > now_ms:
            return
        if self._slots and self._transport.writable:  # it is not the peer that is slow
            self._begun_at_ms = self._quiet_since_ms = now_ms
        elif self._reader.is_begun and not self._slots:
            self._break_off(408, "the request came too slowly")
        else:
            self.leave()

    # -- the end

    def finish(self) -> None:
        """Ends it when what waits is answered."""
        self._ending = True
        if not self._slots:
            self.leave()

    def leave(self) -> None:
        """Closes it; what was written is still sent."""
        if not self.is_closed:
            self.is_closed = True
            self._ending = True
            self._transport.close()
            self._host.closed(self)

    def lost(self, words: str) -> None:
        """The peer has closed it, or it broke."""
        if not self.is_closed:
            self.is_closed = True
            self._ending = True
            self._host.closed(self)


def _trace_of(head: RequestHead) -> bytes:
    """The trace context of a request, for a message that has nothing in its extension."""
    trace = TraceHeaders(head.traceparent, head.tracestate)
    if read_context(trace) is None:
        return b""
    state = trace.state if is_tracestate(trace.state) else ""
    return with_trace(b"", trace._replace(state=state)) or b""


_UNREADABLE = RequestHead(b"", b"", "", "", 0, False, False, False, "")
