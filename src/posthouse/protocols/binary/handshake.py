"""The handshake that opens a session, [MS-MQQB] 3.1.5.2.3-3.1.5.4."""

from __future__ import annotations

from posthouse.model.guids import NULL_GUID
from posthouse.protocols.binary.close_reasons import (
    LIMIT,
    OWN_GUID,
    REFUSED_BY_PEER,
    UNEXPECTED,
    WRONG_GUID,
    Breach,
)
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.protocols.sending_queue import NEVER
from posthouse.wire.binary.internal import (
    ConnectionParameters,
    EstablishConnection,
    connection_parameters,
    establish_connection,
    establish_connection_response,
)

UPTIME_WRAP = 0xFFFF_FFFF
ROUND_TRIPS = 8  # in RecoverableAckSendTimeout, 3.1.5.3.2


class Terms:
    """Who talks to whom, with which windows and times."""

    __slots__ = (
        "_settings",
        "ack_wait_ms",
        "direct",
        "own_guid",
        "peer_window",
        "recoverable_ack_ms",
        "remote_guid",
    )

    def __init__(
        self, settings: BinarySettings, own_guid: bytes, server_guid: bytes, direct: bool
    ) -> None:
        self._settings = settings
        self.own_guid = own_guid
        self.remote_guid = server_guid  # RemoteQMGuid: expected of an acceptor; zero: not known
        self.direct = direct  # DirectFormatSession
        self.peer_window = 1  # ReceivedWindowSize
        self.ack_wait_ms = settings.ack_wait_timeout_ms  # AckWaitTimeout
        self.recoverable_ack_ms = NEVER  # RecoverableAckSendTimeout, not known yet

    @property
    def ack_wait_timer_ms(self) -> int:
        """How long the Session Ack Wait Timer lasts, 3.1.2.4."""
        return self.ack_wait_ms * (self._settings.ack_wait_direct_factor if self.direct else 1)

    @property
    def ack_send_timer_ms(self) -> int:
        """How long the Session Ack Send Timer lasts without recoverable messages."""
        return max(self.ack_wait_ms // 2, 1)  # a timer of no time would not let go

    def announce(self, window: int) -> None:
        """The peer states how much it takes; 0 is 1 (decision 73)."""
        self.peer_window = max(window, 1)

    # -- EstablishConnection

    def request(self, now_ms: int, *, pinged: bool) -> bytes:
        """The first packet, 3.1.5.2.3."""
        stamp = now_ms & UPTIME_WRAP
        return establish_connection(
            self.own_guid, self.remote_guid, time_stamp=stamp, pinged=pinged
        )

    def take_request(self, request: EstablishConnection) -> None:
        """3.1.5.3.1: who asks, and by which kind of name."""
        if request.refused:
            raise Breach(UNEXPECTED, "a request that refuses")
        self.remote_guid = request.header.client_guid
        self.direct = request.header.server_guid == NULL_GUID

    def refusal_of(self, request: EstablishConnection, *, admitted: bool) -> str:
        """Why a request is refused. A zero ServerGuid is not a reason (decision 26).

        Our own GUID is that of a copy of this home, or of somebody who pretends to be us.
        """
        if request.header.server_guid not in (NULL_GUID, self.own_guid):
            return WRONG_GUID
        if self.remote_guid in (NULL_GUID, self.own_guid):
            return OWN_GUID
        return "" if admitted else LIMIT

    def response(self, request: EstablishConnection, *, refused: bool) -> bytes:
        """The answer to a request, 3.1.5.3.1."""
        return establish_connection_response(request, self.own_guid, refused=refused)

    def take_response(self, response: EstablishConnection, now_ms: int) -> bytes:
        """3.1.5.3.2: the ConnectionParameters that follow a valid answer."""
        header, expected = response.header, self.remote_guid
        if response.refused:
            raise Breach(REFUSED_BY_PEER)
        if header.client_guid != self.own_guid or expected not in (NULL_GUID, header.server_guid):
            raise Breach(WRONG_GUID)
        if header.server_guid in (NULL_GUID, self.own_guid):
            raise Breach(OWN_GUID)
        self.remote_guid = header.server_guid
        round_trip_ms = now_ms - header.time_stamp & UPTIME_WRAP
        self.recoverable_ack_ms = self._limited_recoverable(ROUND_TRIPS * round_trip_ms)
        return connection_parameters(
            self.recoverable_ack_ms, self.ack_wait_ms, self._settings.window
        )

    # -- ConnectionParameters

    def take_parameters_request(self, request: ConnectionParameters) -> bytes:
        """3.1.5.4.1: the initiator's times become ours; the answer repeats them."""
        self.take_parameters(request)
        header, settings = request.header, self._settings
        self.ack_wait_ms = min(
            max(header.ack_timeout, settings.ack_wait_min_ms), settings.ack_wait_max_ms
        )
        self.recoverable_ack_ms = self._limited_recoverable(header.recoverable_ack_timeout)
        return connection_parameters(
            header.recoverable_ack_timeout, header.ack_timeout, settings.window
        )

    def take_parameters(self, parameters: ConnectionParameters) -> None:
        """3.1.5.4.2: the peer's window."""
        if parameters.refused:
            raise Breach(REFUSED_BY_PEER)
        self.announce(parameters.header.window_size)

    def _limited_recoverable(self, milliseconds: int) -> int:
        settings = self._settings
        return min(
            max(milliseconds, settings.recoverable_ack_min_ms), settings.recoverable_ack_max_ms
        )
