"""The sending end of an [MS-MQQB] session, for a client without a queue manager of its own.

No sockets and no clock: bytes and the time come in, bytes go out. It initiates, sends express and
recoverable messages within the peer's window, and states which of them are acknowledged.
"""

from __future__ import annotations

from collections import deque

from posthouse.engine.transfer.protocol_interface import Outbound
from posthouse.model.guids import NULL_GUID
from posthouse.protocols.binary.ack_window import ReceivedCounts, SentCounts
from posthouse.protocols.binary.close_reasons import MISCOUNTED, UNEXPECTED, Breach
from posthouse.protocols.binary.handshake import Terms
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.wire.binary.internal import (
    read_connection_parameters,
    read_establish_connection,
    read_session_ack,
    session_ack,
)
from posthouse.wire.binary.stream import PacketKind, PacketSplitter, packet_kind
from posthouse.wire.packet.headers import SessionHeader
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import RECOVERABLE, summarize


class SenderSession:
    """One connection's worth of it; messages that were not acknowledged go into the next."""

    def __init__(self, settings: BinarySettings, guid: bytes, waiting: deque[Outbound]) -> None:
        self.terms = Terms(settings, guid, NULL_GUID, direct=True)
        self.is_open = False
        self.acknowledged: list[int] = []  # numbers, since the caller last looked
        self._settings = settings
        self._waiting = waiting  # shared: what is to be sent, in order
        self._sent: SentCounts[None] = SentCounts()
        self._received = ReceivedCounts()
        self._splitter = PacketSplitter()
        self._established = False

    def begin(self, now_ms: int) -> bytes:
        """The first packet, 3.1.5.2.3."""
        return self.terms.request(now_ms, pinged=False)

    def receive(self, data: bytes, now_ms: int) -> list[bytes]:
        """What is to be sent because of these bytes; RemoteProtocolError ends the session."""
        answers: list[bytes] = []
        for packet in self._splitter.feed(data):
            answers += self._packet(packet, now_ms)
        if self._splitter.error is not None:
            raise self._splitter.error
        return answers + self.take()

    def _packet(self, packet: bytes, now_ms: int) -> list[bytes]:
        kind = packet_kind(packet)
        if kind is PacketKind.ESTABLISH_CONNECTION and not self._established:
            self._established = True
            return [self.terms.take_response(read_establish_connection(packet), now_ms)]
        if kind is PacketKind.CONNECTION_PARAMETERS and self._established and not self.is_open:
            self.terms.take_parameters(read_connection_parameters(packet))
            self.is_open = True
            return []
        if not self.is_open or kind in _OF_THE_BEGINNING:
            raise Breach(UNEXPECTED, kind.value)
        if kind is PacketKind.SESSION_ACK:
            self._session_header(read_session_ack(packet).header)
            return []
        return self._user_message(packet)

    def _user_message(self, packet: bytes) -> list[bytes]:
        """There is no queue here: what comes is counted and let go, so that the peer goes on."""
        received = self._received
        received.total += 1
        received.recoverable += bool(summarize(packet).user_flags & RECOVERABLE)
        received.safe, received.recoverable_safe = received.total, received.recoverable
        header = Packet(packet).session
        if header is not None:
            self._session_header(header)
        sent, window = self._sent, self._settings.window
        headers = received.acknowledgments(sent.total, sent.recoverable, window)
        return [session_ack(each) for each in headers]

    def _session_header(self, header: SessionHeader) -> None:
        """3.1.5.5."""
        for numbers in self._sent.acknowledge(header).values():
            self.acknowledged += numbers
        self.terms.announce(header.window_size)
        if not self._received.matches(header):
            raise Breach(MISCOUNTED)

    def take(self) -> list[bytes]:
        """The next packets, as far as the peer's window has room."""
        if not self.is_open:
            return []
        room = min(self._sent.room(self.terms.peer_window), len(self._waiting))
        if room <= 0:
            return []
        going = [self._waiting.popleft() for _ in range(room)]
        self._sent.note(None, going)
        return [message.packet for message in going]


_OF_THE_BEGINNING = (PacketKind.ESTABLISH_CONNECTION, PacketKind.CONNECTION_PARAMETERS)
