"""`[pgm]`: every constant of PGM, with the values of [MC-MQSRM] 2.1.3.1; other limits are ours.

Names in parentheses are RFC 3208's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta

from posthouse.model.settings_kinds import (
    COUNT_MAX,
    DAY_MS,
    GIB,
    KIB,
    MIB,
    Fault,
    Ms,
    Name,
    Names,
    Section,
    meaning,
    size,
    within,
)

Encapsulation = Literal["auto", "raw", "udp"]
UdpPort = Annotated[int, Meta(ge=1, le=65_535)]


class PgmSettings(Section, frozen=True):
    """Multicast messages over PGM (RFC 3208): queues with a multicast address, MULTICAST= names.

    Sockets are open only while a queue has such an address, or messages wait for such a name.
    """

    enabled: Annotated[
        bool,
        meaning(
            "Sends and receives multicast messages. Without it, messages wait in their queues"
            " and groups are not joined."
        ),
    ] = True
    encapsulation: Annotated[
        Encapsulation,
        meaning(
            "`raw`: IP protocol 113, like MSMQ, which needs CAP_NET_RAW; `udp`: in UDP "
            "packets; `auto`: raw if that is allowed. Senders and receivers must use the "
            "same."
        ),
    ] = "auto"
    interface: Annotated[
        Name,
        meaning(
            "IPv4 address of the network for multicast. Empty: that of the listeners; if they"
            " listen on all addresses, the system's route to the group."
        ),
    ] = ""
    # As other implementations have them.
    udp_multicast_port: Annotated[
        UdpPort, meaning("UDP port of packets to a group, with `udp`.")
    ] = 3056
    udp_unicast_port: Annotated[
        UdpPort, meaning("UDP port of sources for repair requests, with `udp`.")
    ] = 3055
    hops: Annotated[
        int, within(0, 255, "TTL of packets to a group. 1: they do not pass any router.")
    ] = 1
    rate: Annotated[
        int,
        within(
            1_000,
            COUNT_MAX,
            "Bytes that one session sends per second, including repairs (TXW_MAX_RTE).",
        ),
    ] = 70_000
    bucket_ms: Annotated[
        int,
        within(
            1, 10_000, "Bytes that may be sent at once, as the time in which `rate` allows them."
        ),
    ] = 40
    window_ms: Annotated[Ms, meaning("Time for which sent packets can be repaired (TXW_SECS).")] = (
        300_000
    )
    advance_percent: Annotated[
        int,
        within(
            1, 100, "Step by which the window moves, in percent of it (TXW_ADV_SECS, TXW_ADV_IVL)."
        ),
    ] = 15
    window_bytes: Annotated[
        int,
        size(
            MIB,
            16 * GIB,
            "Largest window of one session. A full window must move before more is sent.",
        ),
    ] = 64 * MIB
    window_total: Annotated[
        int, size(MIB, 64 * GIB, "Largest size of the windows of all sessions.")
    ] = 256 * MIB
    ambient_packets: Annotated[
        int, within(1, COUNT_MAX, "Number of data packets after which an ambient SPM is sent.")
    ] = 50
    ambient_ms: Annotated[
        Ms, meaning("Time after which an ambient SPM is sent while data flows.")
    ] = 500
    heartbeat_min_ms: Annotated[
        Ms, meaning("First pause of the heartbeats after the last data (IHB_MIN).")
    ] = 1_000
    heartbeat_max_ms: Annotated[
        Ms, meaning("Longest pause of the heartbeats; it doubles up to this (IHB_MAX).")
    ] = 15_000
    # Of the formula of 2.1.3.1 for RDATA.
    repair_delay_ms: Annotated[
        int,
        within(
            0,
            DAY_MS,
            "Time that repairs of the newest packets wait for more requests. Older ones wait less.",
        ),
    ] = 60
    packet_bytes: Annotated[
        int, within(256, 65_000, "Largest PGM packet. Longer messages are sent in fragments.")
    ] = 1_400
    idle_ms: Annotated[
        Ms, meaning("Time after which a session with nothing to send is finished.")
    ] = 300_000
    linger_ms: Annotated[
        int,
        within(0, 10_000, "Longest time that a stop waits for receivers that still need repairs."),
    ] = 1_000
    back_off_min_ms: Annotated[
        Ms, meaning("Shortest wait before a repair is requested (NAK_RB_IVL).")
    ] = 10
    back_off_max_ms: Annotated[
        Ms, meaning("Longest such wait. It is drawn at random between the two.")
    ] = 50
    nak_repeat_ms: Annotated[
        Ms, meaning("Time after which an unconfirmed request is repeated (NAK_RPT_IVL).")
    ] = 750
    repair_wait_ms: Annotated[
        Ms,
        meaning("Time after which a confirmed request without data is repeated (NAK_RDATA_IVL)."),
    ] = 2_000
    nak_retries: Annotated[
        int, within(1, 1_000, "Largest number of unconfirmed requests (NAK_NCF_RETRIES).")
    ] = 10
    data_retries: Annotated[
        int,
        within(1, 1_000, "Largest number of confirmed requests without data (NAK_DATA_RETRIES)."),
    ] = 10
    silence_ms: Annotated[Ms, meaning("Time after which a silent source is forgotten.")] = 300_000
    receive_packets: Annotated[
        int,
        within(
            64,
            1 << 24,
            "Largest number of packets of one source that are missing or wait for missing ones.",
        ),
    ] = 65_536
    receive_bytes: Annotated[
        int, size(64 * KIB, GIB, "Size of the packets of one source that wait for missing ones.")
    ] = 16 * MIB
    receive_total: Annotated[
        int,
        size(64 * KIB, 4 * GIB, "Size of the packets of all sources that wait for missing ones."),
    ] = 64 * MIB
    receive_ahead: Annotated[
        int,
        size(
            64 * KIB,
            GIB,
            "Size of received messages that are not in the store yet. Above it, nothing is "
            "read from the network.",
        ),
    ] = 8 * MIB
    sessions_max: Annotated[
        int, within(1, 1_000_000, "Largest number of sources that are received at once.")
    ] = 1_000
    network_elements: Annotated[
        Names,
        meaning(
            "Addresses of PGM routers that may be asked for repairs where sources name them. "
            "For all others, the source itself is asked."
        ),
    ] = ()
    unit_bytes: Annotated[
        int, size(KIB, 65_536, "Largest message with its envelope, sent or received.")
    ] = 65_536
    retry_ms: Annotated[
        Ms,
        meaning(
            "First pause before a group that cannot be reached is tried again. It doubles "
            "each time."
        ),
    ] = 5_000
    retry_max_ms: Annotated[Ms, meaning("Longest such pause.")] = 300_000

    @property
    def advance_ms(self) -> int:
        """TXW_ADV_SECS and TXW_ADV_IVL."""
        return self.window_ms * self.advance_percent // 100

    def faults(self) -> Iterator[Fault]:
        """Limits that are the wrong way round."""
        yield from self.in_order(
            ("heartbeat_min_ms", "heartbeat_max_ms"),
            ("back_off_min_ms", "back_off_max_ms"),
            ("retry_ms", "retry_max_ms"),
            ("receive_bytes", "receive_total"),
            ("window_bytes", "window_total"),
        )
        if self.silence_ms <= self.heartbeat_max_ms:
            yield "silence_ms", "sources are silent for heartbeat_max_ms as a rule"
