"""The place of a message in its sequence, as its TransactionHeader has it, [MS-MQMQ] 2.2.20.5."""

import struct
from collections.abc import Iterator

from posthouse.wire.packet.headers import BaseFlags, TransactionFlags
from posthouse.wire.packet.packet_fields import (
    CONNECTOR_GUID,
    CONNECTOR_TYPE,
    HEAD,
    NAMES_AT,
    PROPERTIES,
    SECURITY,
    SHAPE_SIZES,
    TRANSACTION,
    PacketSummary,
    names_end,
)

HEADER = struct.Struct("<IQII")  # Flags, TxSequenceID, TxSequenceNumber, PreviousTxSequenceNumber
PLACE = struct.Struct("<QII")  # the same without the flags
FLAGS = struct.Struct("<I")
USER_FLAGS_AT = HEAD.size - FLAGS.size
LIKENESS_END = HEAD.size + 2  # UserHeader.Flags and the size of a direct destination
BASE_FLAGS_AT = 2
TRACED = int(BaseFlags.of(tracing=1)) >> 8
PRIVACY_LEVEL_AT = 40  # in a MessagePropertiesHeader
NO_PRIVACY = bytes(4)
MARKS = int(TransactionFlags.of(first=1, last=1))


def transaction_header_at(packet: bytes) -> int:
    """Where the TransactionHeader of a sound packet lies, 0 when it has none."""
    (user_flags,) = FLAGS.unpack_from(packet, USER_FLAGS_AT)
    return _names_end(packet, user_flags) if user_flags & TRANSACTION else 0


def _names_end(packet: bytes, user_flags: int) -> int:
    """Where the UserHeader ends."""
    size = SHAPE_SIZES[user_flags >> 10 & 0x1FF]
    at = NAMES_AT + size if size >= 0 else names_end(packet, user_flags, size)
    return at + 16 if user_flags & CONNECTOR_TYPE else at


class Finder:
    """Finds the same headers in packets that are sent together, most of which are alike."""

    __slots__ = ("_alike", "_privacy_at", "transaction_at")

    def __init__(self) -> None:
        self._alike = False  # packets with these flags have their headers at the same places
        self._privacy_at = 0  # PrivacyLevel; 0 as well where it is after a SecurityHeader
        self.transaction_at = 0  # of all packets; 0: there is no such header, or not at one place

    def careful(self, packets: list[bytes]) -> list[int]:
        """Which of these sound packets are traced or secret, so that more is to be done."""
        first = packets[0]
        self._look(first)
        if len(packets) > 1 and not self._are_alike(packets):
            careful = [at for at, packet in enumerate(packets) if self.careful([packet])]
            self.transaction_at = 0
            return careful
        begin, end = self._privacy_at, self._privacy_at + len(NO_PRIVACY)
        if begin:
            return [
                at
                for at, packet in enumerate(packets)
                if packet[begin:end] != NO_PRIVACY or packet[BASE_FLAGS_AT + 1] & TRACED
            ]
        (user_flags,) = FLAGS.unpack_from(first, USER_FLAGS_AT)
        if user_flags & PROPERTIES:
            return list(range(len(packets)))
        return [at for at, packet in enumerate(packets) if packet[BASE_FLAGS_AT + 1] & TRACED]

    def _are_alike(self, packets: list[bytes]) -> bool:
        """Whether all have their headers where the first has them."""
        kinds = [packet[USER_FLAGS_AT:LIKENESS_END] for packet in packets]
        if not self._alike or kinds.count(kinds[0]) != len(kinds):
            return False
        at = self.transaction_at
        return not at or not [packet for packet in packets if packet[at] & CONNECTOR_GUID]

    def _look(self, packet: bytes) -> None:
        (user_flags,) = FLAGS.unpack_from(packet, USER_FLAGS_AT)
        at = transaction_header_at(packet)
        self.transaction_at = at
        connected = bool(at and packet[at] & CONNECTOR_GUID)
        only_destination = user_flags >> 13 & 0x3F == 0
        self._alike = only_destination and not connected
        self._privacy_at = 0
        if user_flags & PROPERTIES and not user_flags & SECURITY:
            names = at or _names_end(packet, user_flags)
            size = (HEADER.size + 16 * connected) if at else 0
            self._privacy_at = names + size + PRIVACY_LEVEL_AT


def placed(
    packet: bytes, marks: int, sequence_id: int, number: int, previous: int, at: int = 0
) -> bytes:
    """The packet with this place in a sequence and FM and LM as in `marks`.

    It is the packet itself if it has these values already. `at` saves looking for the
    TransactionHeader.
    """
    at = at or transaction_header_at(packet)
    assert at, "a message without TransactionHeader has no place in a sequence"
    (flags,) = FLAGS.unpack_from(packet, at)
    header = HEADER.pack(flags & ~MARKS | marks & MARKS, sequence_id, number, previous)
    end = at + HEADER.size
    if packet[at:end] == header:
        return packet
    return b"".join((packet[:at], header, memoryview(packet)[end:]))


def place_seen(packet: bytes, seen: PacketSummary) -> tuple[int, int, int]:
    """The packet with this place, where it is known to have a TransactionHeader."""
    return PLACE.unpack_from(packet, seen.transaction_at + FLAGS.size)


def places_seen(packets: list[bytes], seen: PacketSummary) -> Iterator[tuple[int, int, int]]:
    """The place of each of these packets, whose TransactionHeaders lie where this one's does."""
    begin = seen.transaction_at + FLAGS.size
    end = begin + PLACE.size
    return PLACE.iter_unpack(b"".join([packet[begin:end] for packet in packets]))


def place_of(packet: bytes) -> tuple[int, int, int]:
    """Sequence identifier, number and previous number; zeros without TransactionHeader."""
    at = transaction_header_at(packet)
    if not at:
        return 0, 0, 0
    _, sequence_id, number, previous = HEADER.unpack_from(packet, at)
    return sequence_id, number, previous
