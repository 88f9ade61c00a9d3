"""Acknowledgments of transactional messages, [MS-MQQB] 2.2.4 and 2.2.5.

Both are UserMessage packets to the queue `order_queue$` of the queue manager that sent the
messages. Readers judge no numbers: an acknowledgment of something that was never sent is for the
sequence to ignore (decision 24), and peers do send the number 0.
"""

from typing import NamedTuple

from posthouse.model.errors import MalformedPacket
from posthouse.model.message import EncryptionAlgorithm, HashAlgorithm
from posthouse.model.message_classes import ACK_RECEIVE, ORDER_ACK
from posthouse.model.names import DirectName, PrivateName, Protocol
from posthouse.wire.layout import Layout, align4, encode_text, guid, object_id, u32, u64
from posthouse.wire.packet.headers import (
    INFINITE,
    MESSAGE_PROPERTIES_HEADER,
    QUEUE_DIRECT,
    QUEUE_PRIVATE_ON_DESTINATION,
    SIGNATURE,
    VERSION_NUMBER,
    BaseFlags,
    MessagePropertiesHeader,
    UserFlags,
)
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import HEAD, NAMES_AT, PacketSummary, summarize

ORDER_QUEUE_NUMBER = 4
ORDER_QUEUE_NAME = "order_queue$"
LABEL = "QM Ordering Ack"
BODY_SIZE = 0x24
FINAL_ACK_CLASS_MIN = ACK_RECEIVE  # [MS-MQQB] 3.1.5.1.1: every class from here on
NUMBER_MAX = 0xFFFFFFFF

# A SessionHeader belongs to the hop, so it does not make another message of an acknowledgment.
MEANINGFUL_FLAGS = 0xFFFF & ~BaseFlags.of(session_header=1)
PACKED_LABEL = encode_text(LABEL)
NAME_END = f"\\private$\\{ORDER_QUEUE_NAME}".encode("utf-16-le")

OrderQueue = DirectName | PrivateName


class OrderAck(NamedTuple):
    """OrderAck Body, [MS-MQQB] 2.2.4.1: everything up to this number has arrived."""

    sequence_id: u64  # int(TxSequenceId) of the incoming sequence (decision 25)
    sequence_number: u32
    previous_sequence_number: u32
    reserved: object_id = bytes(20)

    @classmethod
    def of(cls, sequence_id: int, sequence_number: int) -> "OrderAck":
        """The acknowledgment of all messages up to this one."""
        assert 0 < sequence_number <= NUMBER_MAX
        return cls(sequence_id, sequence_number, sequence_number - 1)


class FinalAck(NamedTuple):
    """FinalAck Body, [MS-MQQB] 2.2.5.1: what became of one message; its class states what."""

    sequence_id: u64  # int(TxSequenceId)
    sequence_number: u32
    previous_sequence_number: u32
    source_queue_manager: guid
    message_id: u32


ORDER_ACK_BODY = Layout(OrderAck)
FINAL_ACK_BODY = Layout(FinalAck)
assert ORDER_ACK_BODY.size == FINAL_ACK_BODY.size == BODY_SIZE


class Origin(NamedTuple):
    """What every message of a queue manager carries, acknowledgments too: its own identity."""

    source_guid: bytes
    ordinal: int
    sent_time: int


def order_queue_of(queue_manager: bytes) -> PrivateName:
    """The order queue of a queue manager known by its GUID, [MS-MQQB] 2.2.4."""
    return PrivateName(queue_manager, ORDER_QUEUE_NUMBER)


def order_queue_at(address: str) -> DirectName:
    """The order queue at an IPv4 or IPv6 address, [MS-MQQB] 2.2.4."""
    return DirectName(Protocol.TCP, address.upper(), None, ORDER_QUEUE_NAME, private=True)


def order_ack(body: OrderAck, destination: OrderQueue, origin: Origin) -> bytes:
    """An OrderAck packet, [MS-MQQB] 2.2.4.

    It is sent as express: 2.2.4 leaves no other bit, and if it is lost another one follows.
    """
    return _pack(ORDER_ACK_BODY.pack(body), ORDER_ACK, 0, destination, origin)


def final_ack(body: FinalAck, message_class: int, destination: OrderQueue, origin: Origin) -> bytes:
    """A FinalAck packet, [MS-MQQB] 2.2.5: recoverable, with the class that names the reason."""
    assert message_class >= FINAL_ACK_CLASS_MIN
    assert 0 < body.sequence_number <= NUMBER_MAX
    assert 0 <= body.previous_sequence_number < NUMBER_MAX
    return _pack(FINAL_ACK_BODY.pack(body), message_class, 1, destination, origin)


def read_order_ack(packet: bytes, seen: PacketSummary | None = None) -> OrderAck:
    """The body of a packet that is an OrderAck, [MS-MQQB] 2.2.4.1."""
    return ORDER_ACK_BODY.unpack(_body(packet, seen))


def read_final_ack(packet: bytes, seen: PacketSummary | None = None) -> FinalAck:
    """The body of a packet that is a FinalAck, [MS-MQQB] 2.2.5.1."""
    return FINAL_ACK_BODY.unpack(_body(packet, seen))


def ack_class(packet: bytes, base_flags: int, user_flags: int) -> int:
    """ORDER_ACK or the class of a FinalAck; 0 for any other message, [MS-MQQB] 3.1.5.1.1.

    Most messages are done with by their flags and the end of their destination's name.
    """
    if base_flags & MEANINGFUL_FLAGS or not _goes_to_order_queue(packet, user_flags):
        return 0
    seen = summarize(packet)
    code = seen.message_class
    if packet[seen.label_at : seen.label_at + seen.label_size] != PACKED_LABEL:
        return 0
    if code >= FINAL_ACK_CLASS_MIN or (code == ORDER_ACK and seen.body_size == BODY_SIZE):
        return code
    return 0


def _goes_to_order_queue(packet: bytes, user_flags: int) -> bool:
    """Whether DestinationQueue is an order queue, of any machine."""
    code = user_flags >> 10 & 7
    if code == QUEUE_PRIVATE_ON_DESTINATION:
        return packet[NAMES_AT : NAMES_AT + 4] == ORDER_QUEUE_NUMBER.to_bytes(4, "little")
    if code != QUEUE_DIRECT:
        return False
    size = int.from_bytes(packet[NAMES_AT : NAMES_AT + 2], "little")
    name = packet[NAMES_AT + 2 : NAMES_AT + 2 + size].removesuffix(b"\0\0")
    if not (name.endswith(b"$\0") and name.lower().endswith(NAME_END)):
        return False
    destination = Packet(packet).destination_queue  # which refuses what is not a name
    return isinstance(destination, DirectName) and destination.private


def _body(packet: bytes, seen: PacketSummary | None) -> bytes:
    body = Packet(packet, seen).body
    if len(body) != BODY_SIZE:
        raise MalformedPacket(f"transactional acknowledgment with a body of {len(body)} bytes")
    return body


def _pack(
    body: bytes, message_class: int, delivery: int, destination: OrderQueue, origin: Origin
) -> bytes:
    """A UserMessage packet of three headers; label and body need no padding."""
    address, code, name = _pack_destination(destination)
    flags = UserFlags.of(delivery=delivery, destination_type=code, properties_header=1)
    properties = MESSAGE_PROPERTIES_HEADER.pack(_properties(message_class))
    rest = b"".join((name, properties, PACKED_LABEL, body))
    head = HEAD.pack(
        VERSION_NUMBER,
        0,
        SIGNATURE,
        HEAD.size + len(rest),
        INFINITE,
        origin.source_guid,
        address,
        INFINITE,
        origin.sent_time,
        origin.ordinal,
        flags,
    )
    return head + rest


def _properties(message_class: int) -> MessagePropertiesHeader:
    return MessagePropertiesHeader(
        acknowledgments=0,
        label_length=len(PACKED_LABEL) // 2,
        message_class=message_class,
        correlation_id=bytes(20),
        body_type=0,
        application_tag=0,
        message_size=BODY_SIZE,
        allocation_body_size=BODY_SIZE,
        privacy_level=0,
        hash_algorithm=HashAlgorithm.SHA1,  # unused, but what a message of ours has by default
        encryption_algorithm=EncryptionAlgorithm.RC4,
        extension_size=0,
    )


def _pack_destination(destination: OrderQueue) -> tuple[bytes, int, bytes]:
    """QueueManagerAddress, DQ and DestinationQueue.

    The document's grammar of the direct name has no port and this spelling of `PRIVATE$`; a port
    of ours selects the connection only (decision 41).
    """
    if isinstance(destination, PrivateName):
        assert destination.number == ORDER_QUEUE_NUMBER
        number = ORDER_QUEUE_NUMBER.to_bytes(4, "little")
        return destination.guid, QUEUE_PRIVATE_ON_DESTINATION, number
    assert destination.protocol is Protocol.TCP
    text = encode_text(f"TCP:{destination.host}\\PRIVATE$\\{ORDER_QUEUE_NAME}")
    raw = len(text).to_bytes(2, "little") + text
    return bytes(16), QUEUE_DIRECT, raw.ljust(align4(len(raw)), b"\0")
