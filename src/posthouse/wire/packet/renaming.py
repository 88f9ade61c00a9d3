"""Packets with another queue name, everything else left alone, [MS-MQMQ] 2.2.19.2."""

from posthouse.model.names import DirectName
from posthouse.wire.packet.headers import QUEUE_DIRECT, QUEUE_PRIVATE_ON_OTHER, UserFlags
from posthouse.wire.packet.packet_fields import NAME_SIZES, NAMES_AT, PacketSummary
from posthouse.wire.packet.patch import PACKET_SIZE_AT, U32, USER_FLAGS_AT
from posthouse.wire.packet.queue_names import pack_queue_name


def with_private_administration(
    packet: bytes, seen: PacketSummary, guid: bytes, number: int
) -> bytes:
    """The packet with a private queue of that machine as its administration queue, AQ 6.

    All names end on four bytes, so what follows them only moves.
    """
    assert len(guid) == 16
    flags = UserFlags(seen.user_flags)
    start = _name_end(packet, NAMES_AT, flags.destination_type)
    end = _name_end(packet, start, flags.administration_type)
    flags = flags.replace(administration_type=QUEUE_PRIVATE_ON_OTHER)
    return _renamed(packet, seen, start, end, guid + U32.pack(number), flags)


def with_direct_administration(packet: bytes, seen: PacketSummary, name: DirectName) -> bytes:
    """The packet with that direct name for its administration queue, AQ 7."""
    flags = UserFlags(seen.user_flags)
    start = _name_end(packet, NAMES_AT, flags.destination_type)
    end = _name_end(packet, start, flags.administration_type)
    flags = flags.replace(administration_type=QUEUE_DIRECT)
    return _renamed(packet, seen, start, end, pack_queue_name(name, QUEUE_DIRECT), flags)


def with_direct_destination(packet: bytes, seen: PacketSummary, name: DirectName) -> bytes:
    """The packet with that direct name for its destination, DQ 7."""
    flags = UserFlags(seen.user_flags)
    end = _name_end(packet, NAMES_AT, flags.destination_type)
    flags = flags.replace(destination_type=QUEUE_DIRECT)
    return _renamed(packet, seen, NAMES_AT, end, pack_queue_name(name, QUEUE_DIRECT), flags)


def _renamed(
    packet: bytes, seen: PacketSummary, start: int, end: int, name: bytes, flags: UserFlags
) -> bytes:
    whole = bytearray(b"".join((packet[:start], name, packet[end:])))
    U32.pack_into(whole, USER_FLAGS_AT, flags)
    U32.pack_into(whole, PACKET_SIZE_AT, seen.packet_size + len(name) - (end - start))
    return bytes(whole)


def _name_end(packet: bytes, at: int, code: int) -> int:
    """Where the queue name ends that begins there, [MS-MQMQ] 2.2.18.1.5."""
    if code != QUEUE_DIRECT:
        return at + NAME_SIZES[code]
    size = int.from_bytes(packet[at : at + 2], "little")
    return at + 2 + size + 3 & ~3
