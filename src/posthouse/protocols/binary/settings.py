"""Every timer and limit of the binary protocol, with the document's values ([MS-MQQB] 3.1.2-3)."""

from __future__ import annotations

from dataclasses import dataclass

MINUTE_MS = 60_000


def resend_table(
    short_ms: int = 30_000,
    medium_ms: int = 5 * MINUTE_MS,
    long_ms: int = 30 * MINUTE_MS,
    final_ms: int = 360 * MINUTE_MS,
) -> tuple[int, ...]:
    """ResendTimerTable as Global Initialization fills it (3.1.3.1)."""
    return (*(short_ms,) * 3, *(medium_ms,) * 3, *(long_ms,) * 3, final_ms)


@dataclass(frozen=True, slots=True)
class BinarySettings:
    """How sessions behave. Times are in milliseconds; notes are those of [MS-MQQB] section 6."""

    round_trip_ms: int = 0  # RoundTripDelay: added to the times that say so
    initialization_ms: int = MINUTE_MS  # 3.1.2.1, note 43; and twice the round trip
    cleanup_ms: int = 5 * MINUTE_MS  # 3.1.2.2, note 44
    cleanup_routing_ms: int = 2 * MINUTE_MS  # the same on a routing server
    retry_connect_ms: int = 5_000  # 3.1.2.3, note 45, and a round trip: the first pause; it doubles
    retry_connect_max_ms: int = 5 * MINUTE_MS
    next_hop_ms: int = 100  # the same timer while the list of next hops is not at its end (3.1.6.1)
    direct_attempts: int = 3  # ours: then routing servers of the same site are tried too; 0: never
    ack_wait_ms: int = 20_000  # AckWaitTimeout, note 51, without the round trip
    ack_wait_direct_factor: int = 2  # 3.1.2.4, note 46
    ack_wait_min_ms: int = 20_000  # what a peer may ask for, 2.2.2.1
    ack_wait_max_ms: int = 120_000
    recoverable_ack_min_ms: int = 500  # of RecoverableAckSendTimeout, 3.1.5.3.2
    recoverable_ack_max_ms: int = 120_000
    ack_quiet_ms: int = 10  # ours: nothing more has come for so long, all is safe: say so
    resend_ms: tuple[int, ...] = resend_table()  # ResendTimerTable, 3.1.3.1
    order_ack_ms: int = 500  # OrderAckTimeout, 3.1.3.2
    order_ack_max_ms: int = 10_000  # MaximumOrderAckDelay, note 52
    final_ack_look_ms: int = 5 * MINUTE_MS  # ours: how often a sender looks for final answers
    ping_response_ms: int = 1_000  # 3.1.2.9
    ping_first: bool = False  # decision 16
    ping_port: int = 3527  # of those who are asked
    answer_pings: bool = True
    window: int = 64  # WindowSize, note 36
    connect_timeout_ms: int = 20_000
    sessions_max: int = 10_000
    links_per_caller: int = 16  # ours: to machines known by their calls alone, of one address
    ack_from: tuple[str, ...] = ()  # decision 24: addresses whose order and final acks count
    refusal_linger_ms: int = 1_000  # a refused peer has so long to read why
    receive_ahead_bytes: int = 8 << 20  # received on one session and not yet on disk
    send_batch_bytes: int = 4 << 20  # fetched for one session at once

    @property
    def initialization_timer_ms(self) -> int:
        """How long the Session Initialization Timer lasts (3.1.2.1, note 43)."""
        return self.initialization_ms + 2 * self.round_trip_ms

    @property
    def first_retry_ms(self) -> int:
        """How long the Session Retry Connect Timer lasts the first time (3.1.2.3, note 45)."""
        return self.retry_connect_ms + self.round_trip_ms

    @property
    def ack_wait_timeout_ms(self) -> int:
        """AckWaitTimeout as it is offered to the peer (3.1.3.2, note 51)."""
        return self.ack_wait_ms + self.round_trip_ms
