"""One protocol session with another queue manager, [MS-MQQB] 3.1, without sockets or clocks.

Bytes and the time come in, bytes go out. A chunk of bytes is one call on the engine, however many
messages are in it; they count as received at once, and are acknowledged when the engine's answer is
let out, which is when they are safe. What is sent goes the same way in the other direction.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from posthouse.engine.transfer.protocol_interface import Peer, Verdict
from posthouse.model.errors import QueueError, RemoteProtocolError
from posthouse.model.guids import NULL_GUID
from posthouse.protocols.binary.ack_window import ACK_BITS, WRAP, ReceivedCounts, SentCounts
from posthouse.protocols.binary.close_reasons import (
    MISCOUNTED,
    NOT_SENT,
    NOT_TAKEN,
    REFUSED_BY_PEER,
    SILENT,
    UNEXPECTED,
    WINDOW_OVERRUN,
    Breach,
    reason_of,
)
from posthouse.protocols.binary.handshake import Terms
from posthouse.protocols.binary.incoming_messages import Intake, PacketPortion
from posthouse.protocols.binary.interfaces import BinaryTransport as BinaryTransport
from posthouse.protocols.binary.interfaces import Role as Role
from posthouse.protocols.binary.interfaces import SessionHost as SessionHost
from posthouse.protocols.binary.packet_scan import look_at, recoverable_in
from posthouse.protocols.binary.sending import BinarySendingQueue, Fetched, SendingQueues
from posthouse.protocols.binary.session_states import SESSION_STATES, SessionEvent
from posthouse.protocols.binary.session_states import SessionState as SessionState
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.protocols.engine_calls import Answer, Desk
from posthouse.protocols.sending_queue import NEVER
from posthouse.wire.binary.internal import (
    ConnectionParameters,
    EstablishConnection,
    read_connection_parameters,
    read_establish_connection,
    read_session_ack,
    session_ack,
)
from posthouse.wire.binary.stream import INTERNAL_SIZE_MAX, PacketKind, PacketSplitter, packet_kind
from posthouse.wire.packet.headers import SessionHeader
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import PacketSummary
from posthouse.wire.packet.packet_prefixes import is_internal, session_packets
from posthouse.wire.packet.patch import drop_session_header


class BinarySession:
    """The state of a session, [MS-MQQB] 3.1.1.3.1, in either role."""

    def __init__(
        self,
        desk: Desk,
        settings: BinarySettings,
        transport: BinaryTransport,
        host: SessionHost[BinarySession],
        *,
        role: Role,
        own_guid: bytes,
        peer_address: str,
        now: Callable[[], int],
        server_guid: bytes = NULL_GUID,
        pinged: bool = False,
        direct: bool = False,
        routing_server: bool = False,
    ) -> None:
        self._desk, self._settings, self._transport, self._host = desk, settings, transport, host
        self._now = now  # monotonic milliseconds
        self.role = role
        self.terms = Terms(settings, own_guid, server_guid, direct)
        self.remote_address = peer_address
        self.pinged = pinged
        self.state = SESSION_STATES.first
        self.was_open = self.refused = False  # refused: by the other side
        self.was_idle = False  # nothing went on when it ended, whichever end had waited enough
        self.close_reason = ""

        self.sent: SentCounts[BinarySendingQueue] = SentCounts()
        self.received = ReceivedCounts()
        self.queues = SendingQueues(settings)
        self.packets_in = self.packets_out = self.bytes_in = self.bytes_out = 0
        self.unsynced_bytes = 0  # handed to the engine, and not safe yet

        self._splitter = PacketSplitter()
        self.peer = Peer(server_guid, peer_address)
        self._acknowledged: dict[BinarySendingQueue, list[int]] = {}  # not yet told to the engine
        self._active_ms = self._opened_ms = -1  # SessionActive: when it was so last
        self._received_ack = False  # ReceivedAck
        self._fetched = Fetched()
        self._taking = False  # a take is under way
        self._ack_owed = False  # a SessionAck is due, and the transport is not writable
        self._recoverable_since_ack = False
        self._reading = True
        self._intake = Intake(desk)

        self._cleanup_ms = settings.cleanup_routing_ms if routing_server else settings.cleanup_ms
        self._quiet_ms = min(settings.cleanup_routing_ms, settings.cleanup_ms) // 2
        self._initialization_at = self._ack_wait_at = self._ack_send_at = self._linger_at = NEVER
        self._ack_quiet_at = NEVER
        self._cleanup_at = now() + self._cleanup_ms
        self._told_ms = NEVER  # the deadline that the host has

    # -- figures

    @property
    def remote_guid(self) -> bytes:
        """RemoteQMGuid; zero for as long as it is not known."""
        return self.terms.remote_guid

    @property
    def is_open(self) -> bool:
        """Whether user messages may go either way."""
        return self.state is SessionState.OPEN

    @property
    def held_bytes(self) -> int:
        """What has come of a packet that is not complete."""
        return self._splitter.held

    @property
    def announced_bytes(self) -> int:
        """The size of that packet."""
        return self._splitter.announced

    @property
    def messages_in(self) -> int:
        """User messages received."""
        return self.received.total

    @property
    def messages_out(self) -> int:
        """User messages sent."""
        return self.sent.total

    # -- the connection

    def _happened(self, event: SessionEvent) -> None:
        self.state = SESSION_STATES.after(self.state, event)

    def connected(self) -> None:
        """The transport is there: 3.1.5.2.3 for an initiator, 3.1.5.10 for an acceptor."""
        now = self._now()
        if self.role is Role.INITIATOR:
            self._happened(SessionEvent.CONNECTED)
            self._send(self.terms.request(now, pinged=self.pinged))
        self._initialization_at = now + self._settings.initialization_timer_ms
        self._rearm(min(self._initialization_at, self._cleanup_at))

    def lost(self, reason: str) -> None:
        """Handling a Network Disconnect, 3.1.7.3."""
        self.close(reason)

    def close(self, reason: str) -> None:
        """Closing a Session, 3.1.5.9: no packet announces it."""
        if self._linger_at != NEVER:
            self._finish(self.close_reason)
        elif self.state is not SessionState.CLOSED:
            self._stop()
            self._finish(reason)

    def leave(self, reason: str) -> None:
        """Close the session by our own decision, after acknowledging what has arrived."""
        if self.is_open:
            self._acknowledge()
        self.close(reason)

    def _is_idle(self) -> bool:
        """Whether everything was sent and heard of, for a while."""
        busy = self._is_awaiting or self._taking or self._fetched.count or self.queues.have_more
        since_ms = max(self._active_ms, self._opened_ms)
        return self.is_open and not busy and self._now() - since_ms >= self._quiet_ms

    def _stop(self) -> None:
        self.was_idle = self._is_idle()
        self._happened(SessionEvent.CLOSE)
        self._initialization_at = self._cleanup_at = NEVER
        self._ack_wait_at = self._ack_send_at = self._ack_quiet_at = NEVER

    def _finish(self, reason: str) -> None:
        self._linger_at = NEVER
        self.close_reason = reason
        self._transport.close()
        if len(self.queues):
            with suppress(QueueError):  # an engine that has failed needs nothing ended
                self._desk.decide(lambda manager: self.queues.end(), _nothing)
        self._host.closed(self, reason)

    def _break_off(self, error: RemoteProtocolError) -> None:
        """3.1.5.1.3: what was not understood gets no answer."""
        if self.state is not SessionState.CLOSED:
            reason = reason_of(error)
            self.refused = reason == REFUSED_BY_PEER
            self._host.refused(reason)
            self.close(str(error))

    # -- bytes

    def receive(self, data: bytes) -> None:
        """Receiving Any Packet, 3.1.5.1. What lies in front of an error is still taken in."""
        if self.state is SessionState.CLOSED:
            return
        self.bytes_in += len(data)
        # Choice: a part of a packet counts, or a large one on a slow line would end its session.
        self._received_ack = True
        packets = self._splitter.feed(data)
        if packets:
            self.packets_in += len(packets)
            self._take_in(packets)
        error = self._splitter.error
        if not self.is_open and self._splitter.announced > INTERNAL_SIZE_MAX:  # it is not read
            error = Breach(UNEXPECTED, f"UserMessage in {self.state.value}")
        if error is not None:
            self._break_off(error)

    def _take_in(self, packets: list[bytes]) -> None:
        batch: list[bytes] = []
        looks: list[PacketSummary] = []
        error = None
        try:
            self._sort(packets, batch, looks)
        except RemoteProtocolError as breach:
            error = breach
        self._hand_in(batch, looks)
        self._tell_acknowledged()
        if error is not None:
            self._break_off(error)

    def _sort(self, packets: list[bytes], batch: list[bytes], looks: list[PacketSummary]) -> None:
        """Handles what is the session's; counts user messages and puts them aside, in order."""
        begin = 0
        for at in session_packets(packets):
            self._count(packets[begin:at], batch, looks)
            begin, packet = at + 1, packets[at]
            if is_internal(packet):
                self._internal(packet)
            else:
                self._carrier(packet, batch, looks)
            if self.state is SessionState.CLOSED:
                return
        self._count(packets[begin:] if begin else packets, batch, looks)

    def _internal(self, packet: bytes) -> None:
        kind = packet_kind(packet)
        event = _EVENTS.get(kind)
        if event is None or not SESSION_STATES.allows(self.state, event):
            raise Breach(UNEXPECTED, f"{kind.value} in {self.state.value}")
        if event is SessionEvent.SESSION_ACK:
            self._session_header(read_session_ack(packet).header)
        elif event is SessionEvent.ESTABLISH_CONNECTION:
            self._establish(read_establish_connection(packet))
        else:
            self._parameters(read_connection_parameters(packet))

    def _carrier(self, packet: bytes, batch: list[bytes], looks: list[PacketSummary]) -> None:
        """A user message with a SessionHeader, 3.1.5.8.4: counted first, for it counts itself."""
        header = Packet(packet).session
        self._count([drop_session_header(packet)], batch, looks)
        if header is not None:
            self._session_header(header)

    # -- the handshake

    def _establish(self, packet: EstablishConnection) -> None:
        """3.1.5.3."""
        if self.state is SessionState.WAITING_EC_MSG:
            self._answer(packet)
            return
        parameters = self.terms.take_response(packet, self._now())
        self._happened(SessionEvent.ESTABLISH_CONNECTION)
        self._send(parameters)
        self._host.established(self)

    def _answer(self, request: EstablishConnection) -> None:
        """3.1.5.3.1; an acceptor that refuses answers so and closes."""
        self.terms.take_request(request)
        refusal = self.terms.refusal_of(request, admitted=self._host.admits(self))
        self._send(self.terms.response(request, refused=bool(refusal)))
        if refusal:
            self._refuse(refusal)
        else:
            self._happened(SessionEvent.ESTABLISH_CONNECTION)

    def _refuse(self, reason: str) -> None:
        """State-machines 1.2 a: closed at once, but the peer may read its answer."""
        self._host.refused(reason)
        self._stop()
        self.close_reason = reason
        self._linger_at = self._now() + self._settings.refusal_linger_ms
        self._rearm(self._linger_at)

    def _parameters(self, packet: ConnectionParameters) -> None:
        """3.1.5.4."""
        if self.state is SessionState.WAITING_CP_MSG:
            self._send(self.terms.take_parameters_request(packet))
        else:
            self.terms.take_parameters(packet)
        self._open()

    def _open(self) -> None:
        self._initialization_at = NEVER
        self._happened(SessionEvent.CONNECTION_PARAMETERS)
        self.was_open, self._opened_ms = True, self._now()
        self.queues.peer = self.remote_guid
        self._host.opened(self)
        if self.is_open:
            self.peer = self._host.peer_of(self)
            self.pump()

    # -- user messages coming in

    def _count(self, packets: list[bytes], batch: list[bytes], looks: list[PacketSummary]) -> None:
        """Every user message counts, whatever becomes of it (decision 21)."""
        if not packets:
            return
        if not SESSION_STATES.allows(self.state, SessionEvent.USER_MESSAGE):
            raise Breach(UNEXPECTED, f"UserMessage in {self.state.value}")
        seen, recoverable, error = look_at(packets)
        received = self.received
        received.total += len(seen)
        received.recoverable += recoverable
        batch += packets if error is None else packets[: len(seen)]
        looks += seen
        self._active_ms = self._now()
        self._start_ack_send(recoverable)
        if error is not None:
            raise error
        if received.total - received.told > WRAP:
            raise Breach(WINDOW_OVERRUN)

    def _start_ack_send(self, recoverable: int) -> None:
        """Session Ack Send Timer: sooner for the first recoverable one since the last ack."""
        if self._ack_send_at == NEVER:
            self._ack_send_at = self._now() + self.terms.ack_send_timer_ms
            self._rearm(self._ack_send_at)
        if recoverable and not self._recoverable_since_ack:
            self._recoverable_since_ack = True
            self._ack_send_at = min(self._ack_send_at, self._now() + self.terms.recoverable_ack_ms)
            self._rearm(self._ack_send_at)

    def _hand_in(self, batch: list[bytes], looks: list[PacketSummary]) -> None:
        """One call on the engine, which finds out itself where the good packets end."""
        if not batch:
            return
        size = sum(map(len, batch))
        self.unsynced_bytes += size
        self._intake.take(self, PacketPortion(batch, looks, size))
        if self._reading and self.unsynced_bytes > self._settings.receive_ahead:
            self._reading = False
            self._transport.pause()

    def hold(self, until_ms: int) -> None:
        """What comes waits until `release`, or this time: it is to be known who sends it."""
        self._intake.held_until = until_ms
        self._rearm(until_ms)

    def release(self) -> None:
        """What has waited is handed in, in its order."""
        self._intake.release(self)

    def later(self, work: Callable[[], None]) -> None:
        """Does something in its turn."""
        self._transport.later(work)

    def safe(self, looks: list[PacketSummary], size: int, answer: Answer) -> None:
        """What was dealt with is on disk, and may be acknowledged (decision 39)."""
        self.unsynced_bytes -= size
        if self.state is SessionState.CLOSED:
            return
        self._transport.relieved()
        verdict = answer.value
        if not isinstance(verdict, Verdict):
            self._break_off(Breach(NOT_TAKEN, str(answer.error)))
            return
        self.received.safe += verdict.dealt_with
        self.received.recoverable_safe += recoverable_in(looks[: verdict.dealt_with])
        if verdict.sequences:
            self._host.sequences_touched(self, verdict.sequences)
        if verdict.close:
            self._acknowledge()
            self._break_off(Breach(NOT_TAKEN, verdict.close))
            return
        if self._is_ack_due():
            self._acknowledge()
        elif self._settings.ack_quiet_ms and not self.unsynced_bytes:
            # A sender of a single message need not wait for the document's timers.
            self._ack_quiet_at = self._now() + self._settings.ack_quiet_ms
            self._rearm(self._ack_quiet_at)
        if not self._reading and 2 * self.unsynced_bytes <= self._settings.receive_ahead:
            self._reading = True
            self._transport.resume()

    def _is_ack_due(self) -> bool:
        """State-machines 4.3: half a window, or all bits that the flags have.

        A peer may stop at its own window as well as at ours, so the smaller one counts.
        """
        received, window = self.received, min(self._settings.window, self.terms.peer_window)
        return (
            received.unacknowledged >= max(window // 2, 1)
            or received.recoverable_unacknowledged >= ACK_BITS
        )

    def _acknowledge(self) -> None:
        """Sends a SessionAck, or several if there are more stored messages than bits, 3.1.6.4."""
        self._ack_quiet_at = NEVER
        self._ack_owed = not self._transport.writable
        if self._ack_owed or not self.received.unacknowledged:
            return
        sent, received = self.sent, self.received
        headers = received.acknowledgments(sent.total, sent.recoverable, self._settings.window)
        self._send(*map(session_ack, headers))
        self._recoverable_since_ack = received.recoverable > received.recoverable_told
        self._restart_ack_send()

    def _restart_ack_send(self) -> None:
        delay_ms = self.terms.ack_send_timer_ms
        if self._recoverable_since_ack:
            delay_ms = min(delay_ms, self.terms.recoverable_ack_ms)
        self._ack_send_at = self._now() + delay_ms
        self._rearm(self._ack_send_at)

    # -- user messages going out

    def attach(self, queue_number: int) -> None:
        """This outgoing queue has, or may have, messages for the peer. May be said again."""
        if self.state is not SessionState.CLOSED:
            self.queues.attach(queue_number)
            self.pump()

    def detach(self, queue_number: int) -> None:
        """Nothing more is taken from this queue."""
        if self.queues.detach(queue_number, self._fetched):
            self._retire(queue_number)

    def _retire(self, queue_number: int) -> None:
        self._desk.decide(lambda manager: self.queues.retire(queue_number), _nothing)

    def pump(self) -> None:
        """Sends what waits, as far as the peer's window and the transport have room."""
        if not self.is_open or not self._transport.writable:
            return
        if self._ack_owed:
            self._acknowledge()
        self._send_fetched()
        window, fetched = self.terms.peer_window, self._fetched
        count = max(self.sent.room(window), 0) + fetched.wanted(window)
        if self._taking or count <= 0 or not self.queues.wait:
            return
        self._taking = True
        now, bytes_max = self._now(), self._settings.send_batch
        self._desk.decide(
            lambda manager: self.queues.take(manager, count, bytes_max, now), self._taken
        )

    def _taken(self, answer: Answer) -> None:
        """What was taken is as durable as it has to be, so it may go out."""
        self._taking = False
        if not self.is_open:
            return
        if not isinstance(answer.value, list):
            self._break_off(Breach(NOT_SENT, str(answer.error)))
            return
        for batch in answer.value:
            if batch.queue.attached:
                self._fetched.add(batch)
            else:
                batch.queue.give_back(len(batch.packets))
                self._retire(batch.queue.number)
        self.pump()

    def _send_fetched(self) -> None:
        packets: list[bytes] = []
        for batch in self._fetched.give(self.sent.room(self.terms.peer_window)):
            self.sent.note(batch.queue, batch.messages)
            packets += batch.packets
            self._rearm(batch.queue.resend_at_ms)
        if packets:
            self._send(*packets)
            self._active_ms = self._now()
            if self._ack_wait_at == NEVER:
                self._restart_ack_wait()

    def _restart_ack_wait(self) -> None:
        self._ack_wait_at = self._now() + self.terms.ack_wait_timer_ms
        self._rearm(self._ack_wait_at)

    # -- acknowledgments coming in

    def _session_header(self, header: SessionHeader) -> None:
        """3.1.5.5, alike in a SessionAck and inside a user message."""
        for queue, numbers in self.sent.acknowledge(header).items():
            self._acknowledged.setdefault(queue, []).extend(numbers)
        self.terms.announce(header.window_size)
        if not self.received.matches(header):
            raise Breach(MISCOUNTED)
        if self._is_awaiting:
            self._restart_ack_wait()

    @property
    def _is_awaiting(self) -> bool:
        return bool(self.sent.unacknowledged or self.sent.in_flight)

    def _tell_acknowledged(self) -> None:
        """One call on the engine for all that a chunk has acknowledged; then there is room."""
        if self._acknowledged:
            acknowledged, self._acknowledged = self._acknowledged, {}
            self._desk.decide(lambda manager: self.queues.acknowledged(acknowledged), _nothing)
        self.pump()

    # -- time

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        deadline = min(
            self._initialization_at,
            self._cleanup_at,
            self._ack_wait_at,
            self._ack_send_at,
            self._ack_quiet_at,
            self._linger_at,
            self._intake.held_until,
            self.queues.next_deadline_ms(),
        )
        return None if deadline == NEVER else deadline

    def _rearm(self, at_ms: int) -> None:
        if at_ms < self._told_ms:
            self._told_ms = at_ms
            self._host.rearm(self)

    def tick(self) -> None:
        """Runs the timers that are due, 3.1.6."""
        now = self._now()
        if now >= self._linger_at:
            self.close(self.close_reason)
        if now >= self._initialization_at:
            self.close(SILENT)
        if now >= self._cleanup_at:
            self._cleanup(now)
        if now >= self._intake.held_until:
            self.release()
        if now >= self._ack_wait_at:
            self._ack_wait_expired()
        if now >= self._ack_send_at:
            self._ack_send_expired()
        if now >= self._ack_quiet_at:
            self._acknowledge()
        if self.is_open and self.queues.is_due(now):
            self._desk.decide(lambda manager: self.queues.expire(manager, now), _nothing)
            self.pump()
        self._told_ms = self.next_deadline_ms() or NEVER

    def _cleanup(self, now: int) -> None:
        """Session Cleanup Timer Event, 3.1.6.2."""
        if self._active_ms < self._cleanup_at - self._cleanup_ms:
            self.close("nothing was sent or received for a while")
            return
        self._cleanup_at = now + self._cleanup_ms

    def _ack_wait_expired(self) -> None:
        """Session Ack Wait Timer Event, 3.1.6.3."""
        if not self._is_awaiting:
            self._ack_wait_at = NEVER
        elif self._received_ack:
            self._restart_ack_wait()
        else:
            self.close("the peer did not acknowledge messages in time")
        self._received_ack = False

    def _ack_send_expired(self) -> None:
        """Session Ack Send Timer Event, 3.1.6.4."""
        self._acknowledge()
        self._restart_ack_send()

    def _send(self, *parts: bytes) -> None:
        self.packets_out += len(parts)
        self.bytes_out += sum(map(len, parts))
        self._transport.send(list(parts))


_EVENTS = {
    PacketKind.SESSION_ACK: SessionEvent.SESSION_ACK,
    PacketKind.ESTABLISH_CONNECTION: SessionEvent.ESTABLISH_CONNECTION,
    PacketKind.CONNECTION_PARAMETERS: SessionEvent.CONNECTION_PARAMETERS,
}


def _nothing(answer: Answer) -> None:
    """This answer is not waited for."""
