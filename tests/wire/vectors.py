"""The packets in tests/vectors, as bytes, and ways to damage them."""

import struct
from pathlib import Path

VECTORS = Path(__file__).parent.parent / "vectors"
PACKET_SIZE_AT = 8


def vector(name: str) -> bytes:
    """The bytes of a vector file; lines that start with # are remarks."""
    lines = (VECTORS / f"{name}.hex").read_text("ascii").splitlines()
    return bytes.fromhex(" ".join(line for line in lines if not line.startswith("#")))


USER_MESSAGE = vector("ms-mqqb/4.1.7-user-message")
MINIMAL = vector("ms-mqmq/2.2.19.2-minimal-message")
QUEUE_NAMES = vector("ms-mqmq/2.2.19.2-queue-names")
MULTIPLE = vector("ms-mqmq/2.2.20.1-multiple-destinations")
TRANSACTIONAL = vector("ms-mqmq/2.2.20.5-transactional-message")
SEALED = vector("ms-mqmq/2.2.20.6-signed-and-sealed-message")
SOAP = vector("ms-mqmq/2.2.20.7-soap-message")
TRACED = vector("ms-mqmq/2.2.20.8-traced-message")

USER_MESSAGES = {
    "frame 7": USER_MESSAGE,
    "minimal": MINIMAL,
    "queue names": QUEUE_NAMES,
    "multiple": MULTIPLE,
    "transactional": TRANSACTIONAL,
    "sealed": SEALED,
    "soap": SOAP,
    "traced": TRACED,
}

SOURCE = b"\x11" * 16
DESTINATION = b"\x22" * 16
SESSION = bytes.fromhex("0100 0200 03000000 0400 0500 4000 0000")


def edited(packet: bytes, at: int, layout: str, *values: int | bytes) -> bytes:
    """The packet with some values packed over its bytes."""
    copy = bytearray(packet)
    struct.pack_into(layout, copy, at, *values)
    return bytes(copy)


def resized(packet: bytes) -> bytes:
    """The packet with a PacketSize that fits the bytes there are."""
    return edited(packet, PACKET_SIZE_AT, "<I", len(packet))


def with_bits(packet: bytes, at: int, layout: str, *, on: int = 0, off: int = 0) -> bytes:
    """The packet with some bits of a number switched on and others off."""
    (value,) = struct.unpack_from(layout, packet, at)
    return edited(packet, at, layout, value & ~off | on)


def with_base_flags(packet: bytes, *, on: int = 0, off: int = 0) -> bytes:
    """The packet with other flags in its BaseHeader."""
    return with_bits(packet, 2, "<H", on=on, off=off)


def with_user_flags(packet: bytes, *, on: int = 0, off: int = 0) -> bytes:
    """The packet with other flags in its UserHeader."""
    return with_bits(packet, 60, "<I", on=on, off=off)
