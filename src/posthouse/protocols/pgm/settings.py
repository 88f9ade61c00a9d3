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

    Sockets are open only while a queue has such an address or messages for such a name wait.
    """

    enabled: Annotated[
        bool,
        meaning(
            "Sends and receives multicast messages; otherwise they wait in their queues, and "
            "groups are not joined."
        ),
    ] = True
    encapsulation: Annotated[
        Encapsulation,
        meaning(
            "`raw`: IP protocol 113, as MSMQ does, which needs CAP_NET_RAW; `udp`: inside of "
            "UDP; `auto`: raw where that is allowed. Senders and receivers have to agree."
        ),
    ] = "auto"
    interface: Annotated[
        Name,
        meaning(
            "IPv4 address of the network to multicast on; empty: that of the listeners, and "
            "where they listen on all, the system's route to the group."
        ),
    ] = ""
    # As other implementations have them.
    udp_multicast_port: Annotated[
        UdpPort, meaning("UDP port of packets to a group, inside of UDP.")
    ] = 3056
    udp_unicast_port: Annotated[
        UdpPort, meaning("UDP port on which sources are asked for repairs.")
    ] = 3055
    hops: Annotated[int, within(0, 255, "TTL of packets to a group; 1: not beyond any router.")] = 1
    rate: Annotated[
        int,
        within(
            1_000,
            COUNT_MAX,
            "Bytes that one session sends in a second, repairs included (TXW_MAX_RTE).",
        ),
    ] = 70_000
    bucket_ms: Annotated[int, within(1, 10_000, "How much of that may go out at once.")] = 40
    window_ms: Annotated[Ms, meaning("How long what was sent can be repaired (TXW_SECS).")] = (
        300_000
    )
    advance_percent: Annotated[
        int,
        within(1, 100, "The window moves in steps of this part of it (TXW_ADV_SECS, TXW_ADV_IVL)."),
    ] = 15
    window_bytes: Annotated[
        int,
        size(
            MIB,
            16 * GIB,
            "What the window of one session takes at most; a full one has to move before more"
            " is sent.",
        ),
    ] = 64 * MIB
    window_total: Annotated[int, size(MIB, 64 * GIB, "The same of all sessions.")] = 256 * MIB
    ambient_packets: Annotated[
        int, within(1, COUNT_MAX, "Data packets before the next ambient SPM,")
    ] = 50
    ambient_ms: Annotated[Ms, meaning("or the time before it, while data flows.")] = 500
    heartbeat_min_ms: Annotated[
        Ms, meaning("First pause of the heartbeats behind the last data (IHB_MIN).")
    ] = 1_000
    heartbeat_max_ms: Annotated[Ms, meaning("It doubles up to this (IHB_MAX).")] = 15_000
    # Of the formula of 2.1.3.1 for RDATA.
    repair_delay_ms: Annotated[
        int,
        within(
            0,
            DAY_MS,
            "Repairs of the newest packets wait so long for further requests, older ones less.",
        ),
    ] = 60
    packet_bytes: Annotated[
        int, within(256, 65_000, "The longest PGM packet; longer messages are sent in fragments.")
    ] = 1_400
    idle_ms: Annotated[
        Ms, meaning("A session that has nothing to send for so long is finished.")
    ] = 300_000
    linger_ms: Annotated[
        int, within(0, 10_000, "How long a stop waits for receivers that miss something.")
    ] = 1_000
    back_off_min_ms: Annotated[
        Ms, meaning("Shortest wait before a repair is asked for (NAK_RB_IVL).")
    ] = 10
    back_off_max_ms: Annotated[Ms, meaning("The longest; drawn between the two.")] = 50
    nak_repeat_ms: Annotated[
        Ms, meaning("A request without confirmation is repeated after this (NAK_RPT_IVL).")
    ] = 750
    repair_wait_ms: Annotated[
        Ms, meaning("A confirmed one, when no data came (NAK_RDATA_IVL).")
    ] = 2_000
    nak_retries: Annotated[
        int, within(1, 1_000, "Requests without confirmation (NAK_NCF_RETRIES).")
    ] = 10
    data_retries: Annotated[
        int, within(1, 1_000, "Confirmations without data (NAK_DATA_RETRIES).")
    ] = 10
    silence_ms: Annotated[Ms, meaning("A source that says nothing for so long is forgotten.")] = (
        300_000
    )
    receive_packets: Annotated[
        int, within(64, 1 << 24, "Packets of one source that may be missing or wait.")
    ] = 65_536
    receive_bytes: Annotated[
        int, size(64 * KIB, GIB, "What may wait of one source for packets that are missing,")
    ] = 16 * MIB
    receive_total: Annotated[int, size(64 * KIB, 4 * GIB, "and of all of them.")] = 64 * MIB
    receive_ahead: Annotated[
        int,
        size(
            64 * KIB,
            GIB,
            "What may be received and not yet in the store; above it nothing is read.",
        ),
    ] = 8 * MIB
    sessions_max: Annotated[int, within(1, 1_000_000, "Sources that are listened to at once.")] = (
        1_000
    )
    network_elements: Annotated[
        Names,
        meaning(
            "Addresses of PGM routers that are asked for repairs where sources name them; all"
            " others are passed over, and the source itself is asked."
        ),
    ] = ()
    unit_bytes: Annotated[
        int, size(KIB, 65_536, "The longest message with its envelope, sent or received.")
    ] = 65_536
    retry_ms: Annotated[
        Ms, meaning("Pause before a group that cannot be reached is tried again.")
    ] = 5_000
    retry_max_ms: Annotated[Ms, meaning("It doubles up to this.")] = 300_000

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
