"""The section of `posthouse.toml` for multicast messages: `[pgm]`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from posthouse.model.settings_kinds import COUNT_MAX, DAY_MS, SIZE, Name, Names, Section
from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.store.settings import GIB, KIB, MIB

_pgm = PgmSettings()
UdpPort = Annotated[int, Meta(ge=1, le=65_535)]
Ms = Annotated[int, Meta(ge=1, le=DAY_MS)]
NOT_OF_THE_PROTOCOL = ("enabled", "interface")


class PgmSection(Section, frozen=True):
    """Multicast messages over PGM (RFC 3208): queues with a multicast address, MULTICAST= names.

    Sockets are open only while a queue has such an address or messages for such a name wait.
    """

    enabled: Annotated[
        bool,
        Meta(
            description="Sends and receives multicast messages; otherwise they wait in their "
            "queues, and groups are not joined."
        ),
    ] = True
    encapsulation: Annotated[
        Literal["auto", "raw", "udp"],
        Meta(
            description="`raw`: IP protocol 113, as MSMQ does, which needs CAP_NET_RAW; `udp`: "
            "inside of UDP; `auto`: raw where that is allowed. Senders and receivers have to agree."
        ),
    ] = _pgm.encapsulation
    interface: Annotated[
        Name,
        Meta(
            description="IPv4 address of the network to multicast on; empty: that of the "
            "listeners, and where they listen on all, the system's route to the group."
        ),
    ] = ""
    udp_multicast_port: Annotated[
        UdpPort, Meta(description="UDP port of packets to a group, inside of UDP.")
    ] = _pgm.udp_multicast_port
    udp_unicast_port: Annotated[
        UdpPort, Meta(description="UDP port on which sources are asked for repairs.")
    ] = _pgm.udp_unicast_port
    hops: Annotated[
        int,
        Meta(ge=0, le=255, description="TTL of packets to a group; 1: not beyond any router."),
    ] = _pgm.hops
    rate: Annotated[
        int,
        Meta(
            ge=1_000,
            le=COUNT_MAX,
            description="Bytes that one session sends in a second, repairs included (TXW_MAX_RTE).",
        ),
    ] = _pgm.rate
    bucket_ms: Annotated[
        int, Meta(ge=1, le=10_000, description="How much of that may go out at once.")
    ] = _pgm.bucket_ms
    window_ms: Annotated[
        Ms, Meta(description="How long what was sent can be repaired (TXW_SECS).")
    ] = _pgm.window_ms
    advance_percent: Annotated[
        int,
        Meta(
            ge=1,
            le=100,
            description="The window moves in steps of this part of it (TXW_ADV_SECS, TXW_ADV_IVL).",
        ),
    ] = _pgm.advance_percent
    window_bytes: Annotated[
        int,
        Meta(
            ge=MIB,
            le=16 * GIB,
            extra={"unit": SIZE},
            description="What the window of one session takes at most; a full one has to move "
            "before more is sent.",
        ),
    ] = _pgm.window_bytes
    window_total: Annotated[
        int,
        Meta(ge=MIB, le=64 * GIB, extra={"unit": SIZE}, description="The same of all sessions."),
    ] = _pgm.window_total
    ambient_packets: Annotated[
        int, Meta(ge=1, le=COUNT_MAX, description="Data packets before the next ambient SPM,")
    ] = _pgm.ambient_packets
    ambient_ms: Annotated[Ms, Meta(description="or the time before it, while data flows.")] = (
        _pgm.ambient_ms
    )
    heartbeat_min_ms: Annotated[
        Ms, Meta(description="First pause of the heartbeats behind the last data (IHB_MIN).")
    ] = _pgm.heartbeat_min_ms
    heartbeat_max_ms: Annotated[Ms, Meta(description="It doubles up to this (IHB_MAX).")] = (
        _pgm.heartbeat_max_ms
    )
    repair_delay_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=DAY_MS,
            description="Repairs of the newest packets wait so long for further requests, older "
            "ones less.",
        ),
    ] = _pgm.repair_delay_ms
    packet_bytes: Annotated[
        int,
        Meta(
            ge=256,
            le=65_000,
            description="The longest PGM packet; longer messages are sent in fragments.",
        ),
    ] = _pgm.packet_bytes
    idle_ms: Annotated[
        Ms, Meta(description="A session that has nothing to send for so long is finished.")
    ] = _pgm.idle_ms
    linger_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=10_000,
            description="How long a stop waits for receivers that miss something.",
        ),
    ] = _pgm.linger_ms
    back_off_min_ms: Annotated[
        Ms, Meta(description="Shortest wait before a repair is asked for (NAK_RB_IVL).")
    ] = _pgm.back_off_min_ms
    back_off_max_ms: Annotated[Ms, Meta(description="The longest; drawn between the two.")] = (
        _pgm.back_off_max_ms
    )
    nak_repeat_ms: Annotated[
        Ms, Meta(description="A request without confirmation is repeated after this (NAK_RPT_IVL).")
    ] = _pgm.nak_repeat_ms
    repair_wait_ms: Annotated[
        Ms, Meta(description="A confirmed one, when no data came (NAK_RDATA_IVL).")
    ] = _pgm.repair_wait_ms
    nak_retries: Annotated[
        int,
        Meta(ge=1, le=1_000, description="Requests without confirmation (NAK_NCF_RETRIES)."),
    ] = _pgm.nak_retries
    data_retries: Annotated[
        int,
        Meta(ge=1, le=1_000, description="Confirmations without data (NAK_DATA_RETRIES)."),
    ] = _pgm.data_retries
    silence_ms: Annotated[
        Ms, Meta(description="A source that says nothing for so long is forgotten.")
    ] = _pgm.silence_ms
    receive_packets: Annotated[
        int,
        Meta(ge=64, le=1 << 24, description="Packets of one source that may be missing or wait."),
    ] = _pgm.receive_packets
    receive_bytes: Annotated[
        int,
        Meta(
            ge=64 * KIB,
            le=GIB,
            extra={"unit": SIZE},
            description="What may wait of one source for packets that are missing,",
        ),
    ] = _pgm.receive_bytes
    receive_total: Annotated[
        int,
        Meta(ge=64 * KIB, le=4 * GIB, extra={"unit": SIZE}, description="and of all of them."),
    ] = _pgm.receive_total
    receive_ahead: Annotated[
        int,
        Meta(
            ge=64 * KIB,
            le=GIB,
            extra={"unit": SIZE},
            description="What may be received and not yet in the store; above it nothing is read.",
        ),
    ] = _pgm.receive_ahead
    sessions_max: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Sources that are listened to at once.")
    ] = _pgm.sessions_max
    network_elements: Annotated[
        Names,
        Meta(
            description="Addresses of PGM routers that are asked for repairs where sources name "
            "them; all others are passed over, and the source itself is asked."
        ),
    ] = ()
    unit_bytes: Annotated[
        int,
        Meta(
            ge=KIB,
            le=65_536,
            extra={"unit": SIZE},
            description="The longest message with its envelope, sent or received.",
        ),
    ] = _pgm.unit_bytes
    retry_ms: Annotated[
        Ms, Meta(description="Pause before a group that cannot be reached is tried again.")
    ] = _pgm.retry_ms
    retry_max_ms: Annotated[Ms, Meta(description="It doubles up to this.")] = _pgm.retry_max_ms

    def protocol(self) -> PgmSettings:
        """What the protocol gets of it."""
        values = msgspec.structs.asdict(self)
        values["network_elements"] = tuple(self.network_elements)
        return PgmSettings(**{k: v for k, v in values.items() if k not in NOT_OF_THE_PROTOCOL})


def pgm_faults(section: PgmSection) -> Iterator[str]:
    """Settings that contradict each other."""
    for low, high in (
        ("heartbeat_min_ms", "heartbeat_max_ms"),
        ("back_off_min_ms", "back_off_max_ms"),
        ("retry_ms", "retry_max_ms"),
        ("receive_bytes", "receive_total"),
        ("window_bytes", "window_total"),
    ):
        if getattr(section, low) > getattr(section, high):
            yield f"[pgm] {low}: this is more than {high}"
    if section.silence_ms <= section.heartbeat_max_ms:
        yield "[pgm] silence_ms: sources are silent for heartbeat_max_ms as a rule"
