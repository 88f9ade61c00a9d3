"""Messages to packets and back, [MS-MQDMPR] 3.1.7.1.30 to 3.1.7.1.32.

The reading table of the document lacks three attributes and the writing table one class; both
directions use the union of the two (open point O16).
"""

from posthouse.model.message import Message, MessageId, TxSequenceId
from posthouse.model.names import MulticastName
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.serialize import UserMessage, construct, serialize
from posthouse.wire.srmp.stored_messages import soap_texts, stored_parts

__all__ = ["UserMessage", "construct", "deserialize", "serialize"]


def deserialize(data: bytes | memoryview) -> Message:
    """Deserialize Message From Buffer, [MS-MQDMPR] 3.1.7.1.31.

    Attributes of absent headers keep their defaults. AuthenticationLevel is one of them: only our
    own verification sets it (decision 3). `RemoteProtocolError` for other bytes.
    """
    packet = Packet(data)
    message = Message()
    _read_user_header(packet, message)
    _read_transaction(packet, message)
    _read_security(packet, message)
    _read_properties(packet, message)
    _read_tail(packet, message)
    return message


def _read_user_header(packet: Packet, message: Message) -> None:
    seen, flags, names = packet.summary, packet.user_flags, packet.names
    message.priority = seen.priority
    message.tracing_requested = bool(packet.base_flags.tracing)
    message.time_to_reach_queue = seen.time_to_reach_queue
    message.source_machine_identifier = seen.source_guid
    message.identifier = MessageId(seen.source_guid, seen.ordinal)
    message.destination_queue_manager_identifier = seen.address_guid
    message.time_to_be_received = seen.time_to_be_received
    message.sent_time = seen.sent_time
    message.delivery_guarantee = flags.delivery
    message.negative_journaling_requested = bool(flags.negative_journaling)
    message.positive_journaling_requested = bool(flags.positive_journaling)
    message.destination_queue_type = flags.destination_type
    message.administration_queue_type = flags.administration_type
    message.response_queue_type = flags.response_type
    (
        message.destination_queue_format_name,
        message.administration_queue_format_name,
        message.response_queue_format_name,
    ) = names.texts
    message.connector_type_identifier = names.connector_type


def _read_transaction(packet: Packet, message: Message) -> None:
    header = packet.transaction
    if header is None:
        return
    flags = header.flags
    message.final_ack_required = bool(flags.final_ack)
    message.first_in_transaction = bool(flags.first)
    message.last_in_transaction = bool(flags.last)
    message.transaction_identifier = flags.transaction_number
    message.transactional_message_sequence_identifier = TxSequenceId.from_int(header.sequence_id)
    message.transaction_sequence_number = header.sequence_number
    message.transaction_previous_sequence_number = header.previous_sequence_number
    message.connector_queue_manager_identifier = packet.connector_guid


def _read_security(packet: Packet, message: Message) -> None:
    security = packet.security
    if security is None:
        return
    message.sender_identifier_type = security.flags.sender_id_type
    message.sender_identifier = security.sender_id
    message.symmetric_key = security.encryption_key
    message.signature = security.signature
    message.sender_certificate = security.sender_certificate
    if security.provider is not None:
        message.authentication_provider_type = security.provider.type
        message.authentication_provider_name = security.provider.name


def _read_properties(packet: Packet, message: Message) -> None:
    header = packet.properties
    if header is None:
        return
    message.acknowledgements_requested = packet.summary.ack_flags
    message.message_class = header.message_class
    message.correlation_identifier = MessageId.unpack(header.correlation_id)
    message.body_type = header.body_type
    message.application_tag = header.application_tag
    message.privacy_level = header.privacy_level
    message.hash_algorithm = header.hash_algorithm
    message.encryption_algorithm = header.encryption_algorithm
    message.label = packet.label
    message.extension = packet.extension
    message.body = packet.body


def _read_tail(packet: Packet, message: Message) -> None:
    message.tracing_queue_identifier = packet.tracing_queue
    if packet.soap is not None:
        message.soap_header, message.soap_body = packet.soap
    if packet.user_flags.over_http:
        _read_srmp(packet, message)
    lists = packet.multi_queue
    if lists is not None:
        message.destination_multi_queue_format_name = tuple(map(str, lists.destination))
        message.administration_multi_queue_format_name = tuple(map(str, lists.administration))
        message.response_multi_queue_format_name = tuple(map(str, lists.response))
        message.multiple_destination_signature = lists.signature
        first = lists.destination[0] if lists.destination else None
        if isinstance(first, MulticastName) and not message.destination_queue_format_name:
            message.destination_queue_format_name = str(first)  # it has no place of its own


def _read_srmp(packet: Packet, message: Message) -> None:
    """What a message has of the HTTP message that brought it; for readers only."""
    srmp = stored_parts(packet.data, packet.summary)
    message.soap_envelope, message.soap_compound_message = srmp.envelope, srmp.compound
    if packet.soap is None:
        message.soap_header, message.soap_body = soap_texts(srmp.envelope)
