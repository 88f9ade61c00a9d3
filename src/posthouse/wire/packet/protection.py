"""Copies of packets whose security parts or body have another size, [MS-MQMQ] 2.2.20.

`wire.patch` changes fields in place; here headers grow and shrink, so what follows moves.
"""

from typing import Final

from posthouse.model.errors import InsufficientResources
from posthouse.wire.layout import Reader, align4
from posthouse.wire.packet.headers import (
    MESSAGE_PROPERTIES_HEADER,
    MQF_ADDRESS_HEADER,
    MQF_SIGNATURE,
    MQF_SIGNATURE_HEADER,
    PACKET_SIZE_MAX,
    MessagePropertiesHeader,
    MqfSignatureHeader,
)
from posthouse.wire.packet.optional_headers import Security, padded
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import SECURITY, PacketSummary
from posthouse.wire.packet.patch import PACKET_SIZE_AT, U32, USER_FLAGS_AT

MQF_ADDRESS_LISTS: Final = 3


def with_protection(
    packet: bytes,
    seen: PacketSummary,
    security: Security,
    properties: MessagePropertiesHeader,
    body: bytes | memoryview | None = None,
) -> bytes:
    """The packet with this SecurityHeader, these fixed properties and, if given, another body.

    MessageSize and AllocationBodySize both become the size of the body: it takes that many bytes.
    """
    body_end = seen.body_at + seen.body_size
    whole = memoryview(packet)
    if body is None:
        body = whole[seen.body_at : body_end]
    properties = properties._replace(message_size=len(body), allocation_body_size=len(body))
    head = bytearray(packet[: seen.security_at or seen.properties_at])
    U32.pack_into(head, USER_FLAGS_AT, seen.user_flags | SECURITY)
    front = (
        head,
        security.pack(),
        MESSAGE_PROPERTIES_HEADER.pack(properties),
        whole[seen.label_at : seen.body_at],
        body,
    )
    return _sized(front, whole[min(align4(body_end), seen.packet_size) : seen.packet_size])


def _sized(front: tuple[bytes | bytearray | memoryview, ...], tail: memoryview) -> bytes:
    """Everything together, the tail on a boundary of four, PacketSize as it then is."""
    size = sum(map(len, front))
    gap = align4(size) - size
    total = size + gap + len(tail)
    if total > PACKET_SIZE_MAX:
        raise InsufficientResources(f"with signature and keys the packet has {total} bytes")
    U32.pack_into(front[0], PACKET_SIZE_AT, total)
    return b"".join((*front, bytes(gap), tail))


def signature_of_list(packet: Packet) -> bytes:
    """The signature in a MultiQueueFormatHeader, [MS-MQMQ] 2.2.20.3; empty if there is none."""
    return packet.multi_queue.signature if packet.multi_queue else b""


def with_list_signature(packet: Packet, signature: bytes) -> bytes:
    """The packet with this signature in its MultiQueueFormatHeader, [MS-MQMQ] 2.2.20.3."""
    start, end = _list_signature_span(packet)
    head = bytearray(packet.data[:start])
    header = MqfSignatureHeader(MQF_SIGNATURE, 0, len(signature))
    front = (head, MQF_SIGNATURE_HEADER.pack(header) + padded(signature))
    return _sized(front, memoryview(packet.data)[end : packet.summary.packet_size])


def _list_signature_span(packet: Packet) -> tuple[int, int]:
    assert packet.tail.multi_queue_at, "only a message to several queues is signed there"
    reader = Reader(packet.data, packet.tail.multi_queue_at, packet.summary.packet_size)
    for _ in range(MQF_ADDRESS_LISTS):
        reader.align()
        header = reader.read(MQF_ADDRESS_HEADER)
        reader.skip(header.header_size - MQF_ADDRESS_HEADER.size)
    reader.align()
    start = reader.at
    reader.skip(reader.read(MQF_SIGNATURE_HEADER).size)
    reader.align()
    return start, reader.at
