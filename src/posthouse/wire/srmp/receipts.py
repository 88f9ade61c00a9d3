"""Stream receipts as messages: what an order or final acknowledgment is over HTTP.

They are packets like those of [MS-MQQB] 2.2.4-5, addressed to a URL; the body is that of a
FinalAck also for an order acknowledgment, because a stream has the GUID of its sender in its name.
The extension keeps that name exactly as the sender wrote it ([MC-MQSRM] 3.1.6.3). They never leave
in this form: the serializer makes SRMP messages of them ([MC-MQSRM] 2.2.5.5-6).
"""

from typing import NamedTuple

from posthouse.model.errors import RemoteProtocolError
from posthouse.model.guids import format_guid
from posthouse.model.message import DeliveryGuarantee, Message, MessageId
from posthouse.model.message_classes import ORDER_ACK
from posthouse.model.names import DirectName
from posthouse.wire.binary.order_acks import (
    BODY_SIZE,
    FINAL_ACK_BODY,
    FINAL_ACK_CLASS_MIN,
    LABEL,
    FinalAck,
    Origin,
)
from posthouse.wire.packet.headers import INFINITE
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import PacketSummary, summarize


class StreamReceipt(NamedTuple):
    """The values of a stream receipt, [MC-MQSRM] 2.2.5.6; of a final one also of which message."""

    stream_id: str
    last_ordinal: int
    final: bool
    identifier: MessageId


def stream_id_of(guid: bytes, sequence_id: int) -> str:
    """The name of a stream, [MC-MQSRM] 2.2.5.3.1: `uid:`, GUID, backslash, number in decimal."""
    return f"uid:{format_guid(guid)}\\{sequence_id}"


def stream_receipt(
    stream_id: str, source: bytes, sequence_id: int, last: int, to: str, origin: Origin
) -> bytes:
    """A stream receipt for everything up to a number, [MC-MQSRM] 3.1.6.3; lost ones come again."""
    body = FinalAck(sequence_id, last, last - 1, source, 0)
    return _pack(body, ORDER_ACK, LABEL, stream_id, to, origin, DeliveryGuarantee.EXPRESS)


def final_stream_receipt(
    body: FinalAck, message_class: int, label: str, stream_id: str, to: str, origin: Origin
) -> bytes:
    """A final stream receipt, [MC-MQSRM] 3.1.7.3.3, with the label of the message it is about."""
    assert message_class >= FINAL_ACK_CLASS_MIN
    guarantee = DeliveryGuarantee.RECOVERABLE
    return _pack(body, message_class, label, stream_id, to, origin, guarantee)


def _pack(
    body: FinalAck,
    message_class: int,
    label: str,
    stream_id: str,
    to: str,
    origin: Origin,
    guarantee: DeliveryGuarantee,
) -> bytes:
    correlation = MessageId(body.source_queue_manager, body.message_id)
    return serialize(
        Message(
            identifier=MessageId(origin.source_guid, origin.ordinal),
            source_machine_identifier=origin.source_guid,
            sent_time=origin.sent_time,
            message_class=message_class,
            correlation_identifier=correlation,
            destination_queue_format_name=to,
            delivery_guarantee=guarantee,
            time_to_reach_queue=INFINITE,
            time_to_be_received=INFINITE,
            priority=0,
            label=label,
            extension=stream_id.encode("utf-8", "surrogatepass"),
            body=FINAL_ACK_BODY.pack(body),
        )
    )


def read_stream_receipt(packet: bytes, seen: PacketSummary | None = None) -> StreamReceipt | None:
    """What a packet states that is a stream receipt; None for any other message.

    Only queue managers send to an order queue, so the destination identifies receipts.
    """
    seen = summarize(packet) if seen is None else seen
    code = seen.message_class
    if seen.body_size != BODY_SIZE or not seen.extension_size:
        return None
    if code != ORDER_ACK and code < FINAL_ACK_CLASS_MIN:
        return None
    view = Packet(packet, seen)
    try:
        name = view.destination_queue
    except RemoteProtocolError:
        return None
    if not (isinstance(name, DirectName) and name.is_web):
        return None
    stream_id = view.extension.decode("utf-8", "surrogatepass")
    if not stream_id.startswith("uid:"):
        return None
    body = FINAL_ACK_BODY.unpack(view.body)
    identifier = MessageId(body.source_queue_manager, body.message_id)
    return StreamReceipt(stream_id, body.sequence_number, code != ORDER_ACK, identifier)
