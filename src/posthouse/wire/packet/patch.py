"""Copies of packets with a few fields changed and every other byte left alone.

The store keeps packets as they came; what leaves the machine, or enters it through a local
sender, is a copy patched here.
"""

import struct

from posthouse.model.message import TxSequenceId
from posthouse.wire.packet.headers import (
    BASE_HEADER,
    HOP_COUNT_MAX,
    PACKET_SIZE_MAX,
    SESSION_HEADER,
    TRANSACTION_HEADER,
    BaseFlags,
    SecurityFlags,
    TransactionFlags,
    UserFlags,
)
from posthouse.wire.packet.packet_fields import PacketSummary, summarize
from posthouse.wire.packet.trailing_headers import locate_tail

GUID = struct.Struct("16s")
U16 = struct.Struct("<H")
U32 = struct.Struct("<I")
U32_PAIR = struct.Struct("<II")
U64 = struct.Struct("<Q")

BASE_FLAGS_AT = 2
PACKET_SIZE_AT = 8
TIME_TO_REACH_QUEUE_AT = 12
SOURCE_GUID_AT = BASE_HEADER.size
ADDRESS_AT = SOURCE_GUID_AT + 16  # QueueManagerAddress, [MS-MQMQ] 2.2.19.2
SENT_TIME_AT = BASE_HEADER.size + 36  # MessageID follows it
USER_FLAGS_AT = BASE_HEADER.size + 44
TRANSACTION_NUMBER = TransactionFlags.of(transaction_number=0xFFFFF)
UNVERIFIED = ~SecurityFlags.of(authenticated=1, signature_kind=0xF)


def stamp(
    packet: bytes,
    *,
    source_guid: bytes,
    ordinal: int,
    sent_time: int,
    transaction_number: int | None = None,
    seen: PacketSummary | None = None,
) -> bytes:
    """The packet as its first queue manager sends it: identity, time, transaction number.

    AU and AS are cleared, for only our own verification may set them (decision 3). `seen` saves
    another look where the caller has had one.
    """
    assert len(source_guid) == 16
    seen = summarize(packet) if seen is None else seen
    head = _head(packet, seen)
    GUID.pack_into(head, SOURCE_GUID_AT, source_guid)
    U32_PAIR.pack_into(head, SENT_TIME_AT, sent_time, ordinal)
    if transaction_number is not None:
        _set_transaction_flags(head, seen, transaction_number=transaction_number)
    if seen.security_at:
        (flags,) = U16.unpack_from(head, seen.security_at)
        U16.pack_into(head, seen.security_at, flags & UNVERIFIED)
    return _joined(head, packet)


def addressed_to(packet: bytes, guid: bytes) -> bytes:
    """The packet with this QueueManagerAddress."""
    end = ADDRESS_AT + len(guid)
    return packet if packet[ADDRESS_AT:end] == guid else packet[:ADDRESS_AT] + guid + packet[end:]


def source_of(packet: bytes) -> bytes:
    """SourceQueueManager: the queue manager that the message was first sent by."""
    return packet[SOURCE_GUID_AT:ADDRESS_AT]


def patch(
    packet: bytes,
    *,
    time_to_reach_queue: int | None = None,
    hop_count: int | None = None,
    sequence_id: TxSequenceId | None = None,
    sequence_number: int | None = None,
    previous_sequence_number: int | None = None,
    first: bool | None = None,
    last: bool | None = None,
    final_ack: bool | None = None,
    seen: PacketSummary | None = None,
) -> bytes:
    """The packet with the fields that a transfer changes on the way; None leaves a field as it is.

    TimeToReachQueue is relative on the binary protocol and absolute on remote read; the sequence
    fields and the marks FM, LM and FA belong to the TransactionHeader, which must be there.
    """
    seen = summarize(packet) if seen is None else seen
    head = _head(packet, seen)
    if time_to_reach_queue is not None:
        U32.pack_into(head, TIME_TO_REACH_QUEUE_AT, time_to_reach_queue)
    if hop_count is not None:
        assert hop_count <= HOP_COUNT_MAX
        flags = UserFlags(seen.user_flags).replace(hop_count=hop_count)
        U32.pack_into(head, USER_FLAGS_AT, flags)
    marks = {"first": first, "last": last, "final_ack": final_ack}
    if changes := {name: int(value) for name, value in marks.items() if value is not None}:
        _set_transaction_flags(head, seen, **changes)
    number = None if sequence_id is None else int(sequence_id)
    _set_sequence(head, seen, number, sequence_number, previous_sequence_number)
    return _joined(head, packet)


def drop_session_header(packet: bytes) -> bytes:
    """The packet without a piggy-backed SessionHeader, which belongs to one hop only.

    [MS-MQMQ] 2.2.20.4; works for a header inside PacketSize, after it, or not read yet.
    """
    seen = summarize(packet)
    flags = BaseFlags(seen.base_flags)
    if not flags.session_header:
        return packet
    body_end = seen.body_at + seen.body_size
    tail = locate_tail(packet, body_end, seen.packet_size, seen.base_flags, seen.user_flags)
    size = seen.packet_size
    whole = bytearray(packet[:size])
    if 0 < tail.session_at < size:
        del whole[tail.session_at : tail.session_at + SESSION_HEADER.size]
    assert len(whole) <= PACKET_SIZE_MAX
    U16.pack_into(whole, BASE_FLAGS_AT, flags.replace(session_header=0))
    U32.pack_into(whole, PACKET_SIZE_AT, len(whole))
    return bytes(whole)


def _head(packet: bytes, seen: PacketSummary) -> bytearray:
    """A copy of what lies in front of the label: all that is ever patched."""
    return bytearray(memoryview(packet)[: seen.label_at])


def _joined(head: bytearray, packet: bytes) -> bytes:
    """Head and the rest of the packet, whose body is copied only once this way."""
    return b"".join((head, memoryview(packet)[len(head) :]))


def _set_transaction_flags(head: bytearray, seen: PacketSummary, **fields: int) -> None:
    assert seen.transaction_at, "a message without TransactionHeader has no such fields"
    (flags,) = U32.unpack_from(head, seen.transaction_at)
    U32.pack_into(head, seen.transaction_at, TransactionFlags(flags).replace(**fields))


def _set_sequence(
    head: bytearray,
    seen: PacketSummary,
    number: int | None,
    current: int | None,
    previous: int | None,
) -> None:
    at = seen.transaction_at + 4
    for layout, offset, value in ((U64, 0, number), (U32, 8, current), (U32, 12, previous)):
        if value is not None:
            assert seen.transaction_at, "a message without TransactionHeader has no sequence"
            layout.pack_into(head, at + offset, value)


assert TRANSACTION_HEADER.size == 4 + 8 + 4 + 4
