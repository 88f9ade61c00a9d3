"""Every constant of PGM, with the values of [MC-MQSRM] 2.1.3.1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Encapsulation = Literal["auto", "raw", "udp"]

ADVANCE_PERCENT = 15  # TXW_ADV_SECS and TXW_ADV_IVL, of TXW_SECS


@dataclass(frozen=True, slots=True)
class PgmSettings:
    """How sources and receivers behave. Times are in milliseconds; names are RFC 3208's."""

    # Sources
    rate: int = 70_000  # TXW_MAX_RTE, bytes in a second
    bucket_ms: int = 40  # what the token bucket holds, of the rate
    window_ms: int = 300_000  # TXW_SECS
    advance_percent: int = ADVANCE_PERCENT
    window_bytes: int = 64 << 20  # ours: a window as large as this stops the source until it moves
    window_total: int = 256 << 20  # the same for all sources together
    ambient_packets: int = 50  # ambient SPMs: after so many data packets,
    ambient_ms: int = 500  # or so long after the last one
    heartbeat_min_ms: int = 1_000  # IHB_MIN
    heartbeat_max_ms: int = 15_000  # IHB_MAX
    repair_delay_ms: int = 60  # of the formula of 2.1.3.1 for RDATA
    packet_bytes: int = 1_400  # the longest PGM packet; longer units go in fragments
    idle_ms: int = 300_000  # ours: a session without messages is finished after this
    linger_ms: int = 1_000  # ours: how long a stop waits for receivers that miss something
    # Receivers
    back_off_min_ms: int = 10  # NAK_RB_IVL, drawn from these two
    back_off_max_ms: int = 50
    nak_repeat_ms: int = 750  # NAK_RPT_IVL
    repair_wait_ms: int = 2_000  # NAK_RDATA_IVL
    nak_retries: int = 10  # NAK_NCF_RETRIES
    data_retries: int = 10  # NAK_DATA_RETRIES
    silence_ms: int = 300_000  # ours: a source that says nothing for so long is forgotten
    receive_packets: int = 65_536  # ours: the receive window of one source,
    receive_bytes: int = 16 << 20  # and what may wait in it for what is missing
    receive_total: int = 64 << 20  # the same of all sources together
    sessions_max: int = 1_000  # ours: sources that are listened to at once
    network_elements: tuple[str, ...] = ()  # ours: who besides a source is asked for its repairs
    unit_bytes: int = 65_536  # the longest application data unit, sent or received
    receive_ahead: int = 8 << 20  # ours: received and not yet on disk
    # Network
    retry_ms: int = 5_000  # ours: a group that cannot be reached; the pause doubles
    retry_max_ms: int = 300_000
    encapsulation: Encapsulation = "auto"
    udp_multicast_port: int = 3056  # as other implementations have them
    udp_unicast_port: int = 3055
    hops: int = 1  # how many routers pass what is sent to a group, and one

    @property
    def advance_ms(self) -> int:
        """TXW_ADV_SECS and TXW_ADV_IVL."""
        return self.window_ms * self.advance_percent // 100
