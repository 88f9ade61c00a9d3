"""Fuzz target: any bytes of a session are packets or refused, however they arrive.

Splitter, kinds, internal packets, transactional acknowledgments, pings and `posthouse decode`.
It runs with its siblings by `make fuzz`; alone, guided by coverage, by
`python -m fuzz.guided session_packets -max_total_time=600` (see there).
"""

import random
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fuzz import scanner_probes
from posthouse.cli.decode import command as decode
from posthouse.cli.output import json_line
from posthouse.model.errors import RemoteProtocolError
from posthouse.wire.binary.internal import (
    connection_parameters,
    establish_connection,
    read_connection_parameters,
    read_establish_connection,
    read_session_ack,
    session_ack,
)
from posthouse.wire.binary.order_acks import (
    FINAL_ACK_BODY,
    ORDER_ACK_BODY,
    FinalAck,
    OrderAck,
    Origin,
    final_ack,
    order_ack,
    order_queue_at,
    order_queue_of,
    read_final_ack,
    read_order_ack,
)
from posthouse.wire.binary.ping import ping_request, read_ping
from posthouse.wire.binary.stream import PacketKind, PacketSplitter, packet_kind
from posthouse.wire.packet.headers import SessionHeader
from posthouse.wire.packet.packet import Packet

VECTORS = Path(__file__).parent.parent / "tests" / "vectors"
PACKET_SIZE_AT = 8
FLAGS_AT = 2
SESSION = bytes.fromhex("0100 0200 03000000 0400 0500 4000 0000")
EDGES = (0, 1, 2, 3, 4, 15, 16, 20, 36, 572, 0x7F, 0x80, 0xFF, 0x4000, 0xFFFF, 0x400000, 0xFFFFFFFF)


def vector(path: Path) -> bytes:
    """A packet of tests/vectors."""
    lines = path.read_text("ascii").splitlines()
    return bytes.fromhex(" ".join(line for line in lines if not line.startswith("#")))


GUID = b"\x11" * 16
ORIGIN = Origin(GUID, 7, 1_600_000_000)
PACKETS = [
    *(vector(path) for path in sorted(VECTORS.glob("*/*.hex"))),
    establish_connection(GUID, time_stamp=1, pinged=True, refused=True),
    connection_parameters(500, 20_000, 1, refused=True),
    session_ack(SessionHeader(1, 2, 3, 4, 5, 64)),
    order_ack(OrderAck.of(5 << 32 | 1, 9), order_queue_at("fe80::1"), ORIGIN),
    order_ack(OrderAck.of(5 << 32 | 1, 9), order_queue_of(GUID), ORIGIN),
    final_ack(FinalAck(5, 9, 8, GUID, 3), 0x4000, order_queue_at("10.0.0.1"), ORIGIN),
    final_ack(FinalAck(5, 9, 8, GUID, 3), 0xC004, order_queue_of(GUID), ORIGIN),
    ping_request(GUID, 0x524F494C),
]
SEEDS = [*PACKETS, b"".join(PACKETS[:-1]), *scanner_probes.SEEDS]


def fuzz_one(data: bytes) -> bool:
    """Whether the bytes begin with something that is good to its end."""
    packets, error = cut(data, len(data) or 1)
    assert cut(data, 1 + sum(data[:3]) % 97) == (packets, error)
    accepted = sum([reads(packet) for packet in packets]) > 0
    accepted |= is_ping(data)
    with suppress(RemoteProtocolError):
        packet_kind(data)
    with suppress(RemoteProtocolError):
        for found in decode.split(data):
            json_line(decode.as_json(found))
    return accepted


def cut(data: bytes, piece: int) -> tuple[list[bytes], bool]:
    """The packets of a stream that arrives in such pieces, and whether it is broken."""
    splitter = PacketSplitter()
    packets: list[bytes] = []
    for at in range(0, len(data), piece):
        packets += splitter.feed(data[at : at + piece])
    whole = b"".join(packets)
    assert data.startswith(whole)
    assert splitter.held == (0 if splitter.error else len(data) - len(whole))
    return packets, splitter.error is not None


def reads(packet: bytes) -> bool:
    """Offers a packet to the codec of its kind; what is accepted is written the same way again."""
    try:
        CODECS[packet_kind(packet)](packet)
    except RemoteProtocolError:
        return False
    return True


def check_establish_connection(packet: bytes) -> None:
    """There and back."""
    assert read_establish_connection(packet).pack() == packet


def check_connection_parameters(packet: bytes) -> None:
    """There and back."""
    assert read_connection_parameters(packet).pack() == packet


def check_session_ack(packet: bytes) -> None:
    """There and back."""
    assert read_session_ack(packet).pack() == packet


def check_order_ack(packet: bytes) -> None:
    """The body there and back."""
    assert ORDER_ACK_BODY.pack(read_order_ack(packet)) == Packet(packet).body


def check_final_ack(packet: bytes) -> None:
    """The body there and back."""
    assert FINAL_ACK_BODY.pack(read_final_ack(packet)) == Packet(packet).body


def check_user_message(packet: bytes) -> None:
    """Every part; `fuzz_packet.py` does more."""
    Packet(packet).check()


CODECS: dict[PacketKind, Callable[[bytes], None]] = {
    PacketKind.ESTABLISH_CONNECTION: check_establish_connection,
    PacketKind.CONNECTION_PARAMETERS: check_connection_parameters,
    PacketKind.SESSION_ACK: check_session_ack,
    PacketKind.ORDER_ACK: check_order_ack,
    PacketKind.FINAL_ACK: check_final_ack,
    PacketKind.USER_MESSAGE: check_user_message,
}


def is_ping(data: bytes) -> bool:
    """Offers the bytes as a datagram."""
    try:
        assert read_ping(data).pack() == data
    except RemoteProtocolError:
        return False
    return True


def mutate(seed: bytes, chance: random.Random) -> bytes:
    """A damaged stream; most packets keep a PacketSize that fits, or nothing would follow them."""
    packets = [bytearray(packet) for packet in cut(seed, len(seed) or 1)[0]] or [bytearray(seed)]
    for _ in range(chance.choice((1, 1, 2, 3))):
        chance.choice(MOVES)(packets, chance)
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        packet = chance.choice(packets)
        chance.choice(MISTAKES)(packet, chance)
        if chance.random() < 0.8 and len(packet) >= 16:
            struct.pack_into("<I", packet, PACKET_SIZE_AT, len(packet))
    return b"".join(packets)


def add(packets: list[bytearray], chance: random.Random) -> None:
    """One more packet, somewhere."""
    packets.insert(chance.randrange(len(packets) + 1), bytearray(chance.choice(PACKETS)))


def drop(packets: list[bytearray], chance: random.Random) -> None:
    """One packet less, but never none."""
    if len(packets) > 1:
        del packets[chance.randrange(len(packets))]


def piggyback(packets: list[bytearray], chance: random.Random) -> None:
    """Flags a packet as having a SessionHeader, which is after it, inside it or missing."""
    packet = chance.choice(packets)
    if len(packet) >= 16:
        packet[FLAGS_AT] |= 0x10
        packet += chance.choice((SESSION, SESSION, b""))
        if chance.random() < 0.5:
            struct.pack_into("<I", packet, PACKET_SIZE_AT, len(packet))


def nothing(packets: list[bytearray], chance: random.Random) -> None:
    """All packets as they are."""


def near_front(packet: bytearray, chance: random.Random) -> int:
    """A place in the packet, more often among its headers than in a long body."""
    return chance.randrange(max(1, min(len(packet), chance.choice((20, 72, 200, 1 << 30)))))


def change_byte(packet: bytearray, chance: random.Random) -> None:
    """Another byte."""
    at = near_front(packet, chance)
    packet[at : at + 1] = bytes([chance.randrange(256)])


def change_number(packet: bytearray, chance: random.Random) -> None:
    """A number at an edge of its range, or near the size of this packet."""
    size = chance.choice((2, 4))
    at = near_front(packet, chance) // 2 * 2
    number = chance.choice((*EDGES, len(packet), len(packet) - 16)) & ((1 << 8 * size) - 1)
    packet[at : at + size] = number.to_bytes(size, "little")


def flip_flag(packet: bytearray, chance: random.Random) -> None:
    """One bit of a flags word the other way."""
    at = chance.choice((0, 1, 2, 2, 3, 18, 18, 19, 60, 61, 62, 63))
    if at < len(packet):
        packet[at] ^= 1 << chance.randrange(8)


def shorten(packet: bytearray, chance: random.Random) -> None:
    """A piece less."""
    at = near_front(packet, chance)
    del packet[at : at + chance.choice((1, 2, 4, 16, 1 << 30))]


def lengthen(packet: bytearray, chance: random.Random) -> None:
    """A few bytes of noise."""
    at = near_front(packet, chance)
    packet[at:at] = chance.randbytes(chance.choice((1, 2, 4, 16)))


MOVES = [add, drop, piggyback, nothing]
MISTAKES = [change_byte, change_number, flip_flag, shorten, lengthen]
