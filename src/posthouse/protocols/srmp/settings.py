"""Every timer and limit of SRMP over HTTP, with the document's values ([MC-MQSRM] 3.1.2-3)."""

from __future__ import annotations

from dataclasses import dataclass

MINUTE_MS = 60_000
KIB = 1 << 10
MIB = 1 << 20


def resend_table(
    short_ms: int = 30_000,
    medium_ms: int = 5 * MINUTE_MS,
    long_ms: int = 30 * MINUTE_MS,
    final_ms: int = 360 * MINUTE_MS,
) -> tuple[int, ...]:
    """ResendTimerTable as Global Initialization fills it (3.1.3.1)."""
    return (*(short_ms,) * 3, *(medium_ms,) * 3, *(long_ms,) * 3, final_ms)


@dataclass(frozen=True, slots=True)
class SrmpSettings:
    """How connections behave. Times are in milliseconds; notes are those of [MC-MQSRM] section 6.

    What has no section is ours (decision 68).
    """

    # Both directions.
    head_size_max: int = 16 * KIB  # request line or status line, and header fields
    fields_max: int = 64
    # Requests of others.
    body_size_max: int = 5 * MIB  # a message of 4 MiB, its envelope and frame
    idle_ms: int = 2 * MINUTE_MS  # without a request
    request_ms: int = 2 * MINUTE_MS  # from its first byte to its last
    pending_max: int = 64  # requests of one connection that are not answered yet
    receive_ahead_bytes: int = 8 * MIB  # of one connection, not yet on disk
    reverse_proxies: tuple[str, ...] = ()  # whose X-Forwarded-For is believed
    # Requests of ours.
    retransmission_ms: int = 20_000  # RetransmissionTimeout, note 25
    round_trip_ms: int = 0  # RoundTripDelay, which is added to it
    retransmission_max_ms: int = 5 * MINUTE_MS  # it doubles with each failure in a row, up to here
    resend_ms: tuple[int, ...] = resend_table()  # ResendTimerTable, 3.1.3.1
    cleanup_ms: int = 5 * MINUTE_MS  # Session Cleanup Timer, note 19
    connect_timeout_ms: int = 20_000
    response_ms: int = MINUTE_MS  # time for the HTTP response
    answer_size_max: int = 64 * KIB  # of its body, which nobody reads
    pipeline: int = 16  # requests of one connection that wait for their responses, once it works
    send_batch: int = 32  # messages read from the store for one connection at once
    send_batch_bytes: int = 256 * KIB
    receipts_from: tuple[str, ...] = ()  # decision 24: whose stream receipts count for any queue
    receipt_host: str = ""  # decision 60: the host of our receipt addresses, where it is told
    proxy: tuple[str, int] | None = None
    proxy_bypass: tuple[str, ...] = ()  # hosts, or domains with a dot in front
