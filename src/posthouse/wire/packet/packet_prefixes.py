"""Reads only the first bytes of packets, without their other headers, [MS-MQMQ] 2.2.19.1."""

from __future__ import annotations

from posthouse.wire.packet.packet_fields import INTERNAL, NAMES_AT, SESSION, PacketSummary
from posthouse.wire.packet.patch import BASE_FLAGS_AT, SOURCE_GUID_AT
from posthouse.wire.packet.trailing_headers import BASE_TAIL, USER_TAIL

USER_HEADER_AT = SOURCE_GUID_AT
_SESSIONS_OWN = INTERNAL | SESSION  # both in the low byte


def is_internal(packet: bytes) -> bool:
    """Whether it is a packet between the protocols of two queue managers, not a message."""
    return bool(packet[BASE_FLAGS_AT] & INTERNAL)


def session_packets(packets: list[bytes]) -> list[int]:
    """Which of these packets concern a session: internal ones, and carriers of a SessionHeader."""
    return [at for at, packet in enumerate(packets) if packet[BASE_FLAGS_AT] & _SESSIONS_OWN]


def user_header(packet: bytes | memoryview, seen: PacketSummary) -> bytes | None:
    """UserHeader and queue names of a packet that ends with its body and is not protected.

    None: others that begin alike may differ in what follows. They are bytes of their own: who
    keeps them does not keep the frame that a large packet came in.
    """
    if seen.security_at or seen.user_flags & USER_TAIL or seen.base_flags & BASE_TAIL:
        return None
    end = seen.transaction_at or seen.properties_at or seen.body_at
    assert end >= NAMES_AT
    return bytes(packet[USER_HEADER_AT:end])


def has_user_header(packet: bytes, seen: PacketSummary, header: bytes | None) -> bool:
    """Whether a packet has this `user_header`, and ends with its body too."""
    if header is None or seen.base_flags & BASE_TAIL:
        return False
    return packet[USER_HEADER_AT : USER_HEADER_AT + len(header)] == header
