"""Fields of a SecurityHeader that are read or changed alone, [MS-MQMQ] 2.2.20.6.

`optional.Security` is the whole header; these save that work where one field is enough.
"""

from __future__ import annotations

from posthouse.wire.packet.headers import SecurityFlags
from posthouse.wire.packet.packet_fields import SECURITY_SIZES, PacketSummary
from posthouse.wire.packet.patch import U16, U32
from posthouse.wire.packet.sequence_places import PRIVACY_LEVEL_AT

SENDER_TYPE = int(SecurityFlags.of(sender_id_type=0xF))


def privacy_level(packet: bytes, seen: PacketSummary) -> int:
    """PrivacyLevel of the MessagePropertiesHeader; 0 without one."""
    at = seen.properties_at
    return int(U32.unpack_from(packet, at + PRIVACY_LEVEL_AT)[0]) if at else 0


def security_flags(packet: bytes, seen: PacketSummary) -> SecurityFlags:
    """The flags of a SecurityHeader that is there."""
    return SecurityFlags(U16.unpack_from(packet, seen.security_at)[0])


def with_security_flags(packet: bytes, seen: PacketSummary, flags: int) -> bytes:
    """The packet with other flags in its SecurityHeader; itself where it has these."""
    at, whole = seen.security_at, memoryview(packet)
    if U16.unpack_from(packet, at)[0] == flags:
        return packet
    return b"".join((whole[:at], U16.pack(flags), whole[at + U16.size :]))


def has_signature(packet: bytes, seen: PacketSummary) -> bool:
    """Whether the SecurityHeader, which is there, has a signature."""
    return bool(SECURITY_SIZES.unpack_from(packet, seen.security_at)[2])


def claimed_sender(packet: bytes, seen: PacketSummary) -> tuple[int, bytes]:
    """The sender that a SecurityHeader names, proved or not: the kind of name, and the name."""
    size = SECURITY_SIZES.unpack_from(packet, seen.security_at)[0]
    start = seen.security_at + SECURITY_SIZES.size
    return packet[seen.security_at] & SENDER_TYPE, packet[start : start + size]
