"""Fuzz target: any bytes are a UserMessage packet or refused, and nothing else happens."""

import random
import struct
from collections.abc import Callable
from pathlib import Path

from fuzz import scanner_probes
from posthouse.model.errors import RemoteProtocolError
from posthouse.wire.packet.message import deserialize, serialize
from posthouse.wire.packet.packet import Packet, drop_session_header, patch, stamp, summarize

VECTORS = Path(__file__).parent.parent / "tests" / "vectors"
PACKET_SIZE_AT = 8
INTERESTING = (0, 1, 2, 3, 4, 7, 15, 16, 0x7F, 0x80, 0xFA, 0xFB, 0xFF, 0xFFFF, 0x400000, 0xFFFFFFFF)


def vectors() -> list[bytes]:
    """The packets of tests/vectors."""
    found = []
    for path in sorted(VECTORS.glob("*/*.hex")):
        lines = path.read_text("ascii").splitlines()
        found.append(bytes.fromhex(" ".join(line for line in lines if not line.startswith("#"))))
    return found


SEEDS = [*vectors(), *scanner_probes.MESSAGES.values()]


def fuzz_one(data: bytes) -> bool:
    """Reads, rewrites and patches one packet: what is accepted stays stable."""
    try:
        packet = Packet(data)
        packet.check()
    except RemoteProtocolError:
        return False
    seen = packet.summary
    assert summarize(memoryview(data)) == seen
    assert seen.body_at + seen.body_size <= seen.packet_size <= len(data)
    assert patch(data, seen=seen) == data
    stamped = summarize(stamp(data, source_guid=bytes(16), ordinal=1, sent_time=2, seen=seen))
    assert stamped.body_at == seen.body_at
    assert Packet(drop_session_header(data)).session is None
    written = serialize(deserialize(data))
    assert serialize(deserialize(written)) == written
    return True


def mutate(seed: bytes, chance: random.Random) -> bytes:
    """A damaged packet; most keep a PacketSize that fits, or nothing after it would be read."""
    packet = bytearray(seed)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        chance.choice(MISTAKES)(packet, chance)
    if chance.random() < 0.1:
        packet += chance.choice(SEEDS)[-chance.randrange(1, 120) :]
    if chance.random() < 0.9 and len(packet) >= PACKET_SIZE_AT + 4:
        behind = chance.choice((0, 0, 0, 16))
        struct.pack_into("<I", packet, PACKET_SIZE_AT, max(len(packet) - behind, 0))
    return bytes(packet)


def near_front(packet: bytearray, chance: random.Random) -> int:
    """A place in the packet, more often among its headers than in a long body."""
    return chance.randrange(min(len(packet), chance.choice((64, 200, 1 << 30))))


def change_byte(packet: bytearray, chance: random.Random) -> None:
    """Another byte."""
    packet[near_front(packet, chance)] = chance.randrange(256)


def change_number(packet: bytearray, chance: random.Random) -> None:
    """A number at an edge of its range, or near the sizes of this packet."""
    layout = chance.choice(("<H", "<I"))
    size = struct.calcsize(layout)
    at = near_front(packet, chance) // 2 * 2
    if at + size <= len(packet):
        number = chance.choice((*INTERESTING, len(packet), len(packet) - at))
        struct.pack_into(layout, packet, at, number & ((1 << 8 * size) - 1))


def flip_flag(packet: bytearray, chance: random.Random) -> None:
    """One bit of a flags word the other way."""
    at = chance.choice((2, 3, 60, 61, 62, 63, 68, 72, 92))
    if at < len(packet):
        packet[at] ^= 1 << chance.randrange(8)


def cut(packet: bytearray, chance: random.Random) -> None:
    """A piece less, but never so much that nothing is left to change."""
    start = near_front(packet, chance)
    del packet[start : start + chance.choice((1, 2, 4, 16, 1 << 30))]
    packet += bytes(max(0, 16 - len(packet)))


def insert(packet: bytearray, chance: random.Random) -> None:
    """A few bytes of noise."""
    at = near_front(packet, chance)
    packet[at:at] = chance.randbytes(chance.choice((1, 2, 4, 16, 20)))


Mistake = Callable[[bytearray, random.Random], None]
MISTAKES: list[Mistake] = [change_byte, change_number, flip_flag, cut, insert]
