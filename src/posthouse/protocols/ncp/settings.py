"""Every timer and limit of NCP (qms-facts 1, 7.3; decision 13)."""

from __future__ import annotations

from dataclasses import dataclass

from posthouse.wire.ncp.framing import PDU_SIZE_MAX


@dataclass(frozen=True, slots=True)
class NcpSettings:
    """How the server behaves. Times are in milliseconds."""

    keyed_logins: bool = True  # decision 13
    clear_text_logins: bool = False
    pdu_size_max: int = PDU_SIZE_MAX  # 1.2: bounded before anything is kept
    buffer_size_max: int = 60 << 10  # accepted by 0x61 and 0x21, on TCP
    datagram_buffer_max: int = 8 << 10  # the same on UDP, and the longest read there
    calls_max: int = 16  # requests of a TCP connection that wait for their answers
    # NetWare's own: first question after 4 min 56.6 s, then every 59.3 s, ten in all.
    watchdog_delay_ms: int = 296_600
    watchdog_interval_ms: int = 59_300
    watchdog_count: int = 10
    create_ms: int = 30_000  # for the first request of a TCP connection
    unfinished_ms: int = 30_000  # for a PDU to become whole
    login_ms: int = 300_000  # a connection without requests on which nobody has logged in
