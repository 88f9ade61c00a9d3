"""Messages made into packets, [MS-MQDMPR] 3.1.7.1.30 and 3.1.7.1.32.

Nothing is signed or encrypted here: keys, signatures and ciphertext are carried as they are.
"""

import struct
from functools import lru_cache
from typing import NamedTuple

from posthouse.model.errors import (
    IllegalPropertySize,
    IllegalPropertyValue,
    InsufficientResources,
    LabelTooLong,
)
from posthouse.model.guids import NULL_GUID
from posthouse.model.message import (
    ACK_BITS,
    PRIORITY_MAX,
    PROVIDER_NAMES,
    DeliveryGuarantee,
    Message,
    SenderIdentifierType,
    TxSequenceId,
)
from posthouse.model.names import DirectName, FormatName, PrivateName, parse_format_name
from posthouse.model.text import utf16_length
from posthouse.wire.layout import align4, encode_text
from posthouse.wire.packet.headers import (
    LABEL_UNITS_MAX,
    MESSAGE_PROPERTIES_HEADER,
    PACKET_SIZE_MAX,
    SENDER_CERTIFICATE_SIZE_MAX,
    SIGNATURE,
    TRANSACTION_HEADER,
    VERSION_NUMBER,
    SecurityFlags,
    TransactionFlags,
    TransactionHeader,
)
from posthouse.wire.packet.optional_headers import MultiQueue, Provider, Security, Soap, pack_debug
from posthouse.wire.packet.packet_fields import HEAD
from posthouse.wire.packet.queue_names import (
    CACHED_NAMES_MAX,
    administration_type,
    destination_type,
    pack_queue_name,
    response_type,
)

FIXED_SIZE = HEAD.size + MESSAGE_PROPERTIES_HEADER.size
RECOVERABLE = int(DeliveryGuarantee.RECOVERABLE)
MULTICAST = "MULTICAST="
TRANSACTION_NUMBER_MAX = 0xFFFFF  # [MS-MQMQ] 2.2.20.5: 20 bits


class UserMessage(NamedTuple):
    """The parts of a UserMessage packet in their order, empty where one is left out.

    [MS-MQDMPR] 3.1.7.1.30 states which are left out, [MS-MQMQ] 2.2.20 gives the order.
    """

    head: bytes
    names: bytes
    transaction: bytes
    security: bytes
    properties: bytes
    label: bytes
    extension: bytes
    body: bytes
    padding: bytes
    debug: bytes
    soap: bytes
    multi_queue: bytes


class PackedNames(NamedTuple):
    """The queue names of a UserHeader as bytes, and the fields that depend on them."""

    raw: bytes
    flags: int  # DQ, AQ, RQ and CQ
    address: bytes


def serialize(message: Message) -> bytes:
    """Serialize Message to Buffer, [MS-MQDMPR] 3.1.7.1.32.

    `QueueError` for what no packet can hold: a message too large, a label too long, a number or
    GUID out of bounds, a queue name that has no place in packets.
    """
    _check_bulk(message)
    try:
        return b"".join(construct(message))
    except struct.error as error:
        raise IllegalPropertyValue(f"an attribute does not fit its field: {error}") from None


def construct(message: Message) -> UserMessage:
    """Construct a UserMessage Packet, [MS-MQDMPR] 3.1.7.1.30: the headers this message needs."""
    names = _pack_names(message)
    label = _pack_label(message.label)
    content = len(label) + len(message.extension) + len(message.body)
    optional = (
        _pack_transaction(message),
        _pack_security(message),
        _pack_debug(message),
        _pack_soap(message),
        _pack_multi_queue(message),
    )
    transaction, security, debug, soap, multi_queue = optional
    packet_size = FIXED_SIZE + len(names.raw) + align4(content) + sum(map(len, optional))
    _check_packet_size(packet_size)
    return UserMessage(
        _pack_head(message, packet_size, names, *map(bool, optional)),
        names.raw,
        transaction,
        security,
        _pack_properties(message, label),
        label,
        message.extension,
        message.body,
        bytes(-content % 4),
        debug,
        soap,
        multi_queue,
    )


def _check_bulk(message: Message) -> None:
    """Refuses what is too large before anything of it is copied."""
    size = (
        len(message.body)
        + len(message.extension)
        + len(message.sender_certificate)
        + len(message.multiple_destination_signature)
        + 2 * (len(message.soap_header) + len(message.soap_body))
    )
    _check_packet_size(size)
    if len(message.sender_certificate) > SENDER_CERTIFICATE_SIZE_MAX:
        raise IllegalPropertyValue(
            f"the sender certificate has {len(message.sender_certificate)} bytes, "
            f"at most {SENDER_CERTIFICATE_SIZE_MAX} are allowed"
        )


def _check_packet_size(size: int) -> None:
    if size > PACKET_SIZE_MAX:
        raise InsufficientResources(
            f"the message takes {size} bytes, a packet holds at most {PACKET_SIZE_MAX}",
            "Split the body over several messages, or send a reference to it.",
        )


def _check(name: str, value: int, maximum: int) -> int:
    if not 0 <= value <= maximum:
        raise IllegalPropertyValue(f"{name} is {value}; allowed is 0 to {maximum}")
    return value


def _guid(name: str, value: bytes) -> bytes:
    if len(value) != 16:
        raise IllegalPropertySize(f"{name} has {len(value)} bytes instead of 16")
    return value


def _is_transactional(message: Message) -> bool:
    """Whether the message has a transaction identifier, in its sequence or on its own."""
    return message.is_transactional or message.transaction_identifier != 0


def _pack_head(
    message: Message,
    packet_size: int,
    names: PackedNames,
    transaction: bool,
    security: bool,
    debug: bool,
    soap: bool,
    multi_queue: bool,
) -> bytes:
    """BaseHeader and the fixed part of UserHeader; PacketSize counts all of it (decision 27)."""
    priority = 0 if transaction else _check("priority", message.priority, PRIORITY_MAX)
    delivery = RECOVERABLE if transaction else message.delivery_guarantee
    return HEAD.pack(
        VERSION_NUMBER,
        priority | debug << 5 | message.tracing_requested << 8,
        SIGNATURE,
        packet_size,
        message.time_to_reach_queue,
        message.source_machine_identifier,
        names.address,
        message.time_to_be_received,
        message.sent_time,
        message.identifier.ordinal,
        names.flags
        | _check("delivery_guarantee", delivery, RECOVERABLE) << 5
        | message.negative_journaling_requested << 8
        | message.positive_journaling_requested << 9
        | security << 19
        | transaction << 20
        | 1 << 21  # MP
        | multi_queue << 23
        | soap << 28,
    )


def _pack_names(message: Message) -> PackedNames:
    return pack_queue_names(
        message.destination_queue_format_name,
        message.administration_queue_format_name,
        message.response_queue_format_name,
        message.administration_queue_type,
        message.response_queue_type,
        _guid("source_machine_identifier", message.source_machine_identifier),
        _guid("destination_queue_manager_identifier", message.destination_queue_manager_identifier),
        _guid("connector_type_identifier", message.connector_type_identifier),
    )


@lru_cache(CACHED_NAMES_MAX)
def pack_queue_names(
    destination_text: str,
    administration_text: str,
    response_text: str,
    wanted_administration_type: int,
    wanted_response_type: int,
    source: bytes,
    destination_manager: bytes,
    connector_type: bytes,
) -> PackedNames:
    """The queue names and connector type of the UserHeader.

    The queue types of the message decide where they agree with the names; else the names win.
    """
    destination = _parse(destination_text)
    administration = _parse(administration_text)
    response = _parse(response_text)
    address = _address(destination, destination_manager)
    codes = (
        destination_type(destination),
        administration_type(administration, wanted_administration_type, source, address),
        response_type(response, wanted_response_type, source, address, administration),
    )
    raw = b"".join(map(pack_queue_name, (destination, administration, response), codes))
    flags = codes[0] << 10 | codes[1] << 13 | codes[2] << 16
    if connector_type == NULL_GUID:
        return PackedNames(raw, flags, address)
    return PackedNames(raw + connector_type, flags | 1 << 22, address)


def _parse(name: str) -> FormatName | None:
    return parse_format_name(name) if name else None


def _address(destination: FormatName | None, destination_manager: bytes) -> bytes:
    """QueueManagerAddress, [MS-MQMQ] 2.2.19.2: the host of the queue, zero for a direct name."""
    if isinstance(destination, DirectName):
        return NULL_GUID
    return destination.guid if isinstance(destination, PrivateName) else destination_manager


def _pack_transaction(message: Message) -> bytes:
    """TransactionHeader, [MS-MQMQ] 2.2.20.5."""
    if not _is_transactional(message):
        return b""
    connector = _guid(
        "connector_queue_manager_identifier", message.connector_queue_manager_identifier
    )
    number = _check(
        "transaction_identifier", message.transaction_identifier, TRANSACTION_NUMBER_MAX
    )
    header = TransactionHeader(
        TransactionFlags.of(
            connector_guid=connector != NULL_GUID,
            final_ack=message.final_ack_required,
            first=message.first_in_transaction,
            last=message.last_in_transaction,
            transaction_number=number,
        ),
        _sequence_number(message.transactional_message_sequence_identifier),
        message.transaction_sequence_number,
        message.transaction_previous_sequence_number,
    )
    packed = TRANSACTION_HEADER.pack(header)
    return packed if connector == NULL_GUID else packed + connector


def _sequence_number(sequence: TxSequenceId | None) -> int:
    if sequence is None:
        return 0
    _check("the ordinal of the sequence", sequence.ordinal, 0xFFFFFFFF)  # else it is a later one
    return int(sequence)


def _pack_security(message: Message) -> bytes:
    """SecurityHeader, [MS-MQMQ] 2.2.20.6, for a message signed, encrypted or with a sender.

    AU and AS stay zero (decision 3). EB follows PrivacyLevel, also while the body is still clear.
    """
    named = message.sender_identifier_type != SenderIdentifierType.NONE
    sender_id = message.sender_identifier if named else b""
    provider = _provider(message)
    security = Security(
        SecurityFlags(0),
        sender_id,
        message.symmetric_key,
        message.signature,
        message.sender_certificate,
        provider,
    )
    encrypted = message.privacy_level != 0
    if not (encrypted or any(security[1:])):
        return b""
    signed = bool(message.signature or message.multiple_destination_signature)
    sender_type = message.sender_identifier_type if sender_id else 0
    flags = SecurityFlags.of(
        sender_id_type=_check("sender_identifier_type", sender_type, 0xF),
        encrypted=encrypted,
        default_provider=signed and _is_default_provider(provider),
    )
    return security._replace(flags=flags).pack()


def _provider(message: Message) -> Provider | None:
    if not (message.authentication_provider_name or message.authentication_provider_type):
        return None
    return Provider(message.authentication_provider_type, message.authentication_provider_name)


def _is_default_provider(provider: Provider | None) -> bool:
    """Whether the messaging system signed; an application that did names another provider."""
    return provider is None or provider.name in ("", *PROVIDER_NAMES)


def _pack_label(label: str) -> bytes:
    """The label with its NUL; an empty one takes no room, [MS-MQMQ] 2.2.19.3."""
    units = utf16_length(label) + 1
    if units > LABEL_UNITS_MAX:
        raise LabelTooLong(
            f"the label has {units - 1} characters, at most {LABEL_UNITS_MAX - 1} are allowed"
        )
    return encode_text(label) if label else b""


def _pack_properties(message: Message, label: bytes) -> bytes:
    """MessagePropertiesHeader, [MS-MQMQ] 2.2.19.3; always there, as its algorithms are always set.

    MessageSize and AllocationBodySize are equal, for the documents leave open what a difference
    would mean.
    """
    correlation = message.correlation_identifier
    _guid("correlation_identifier", correlation.guid)
    body_size = len(message.body)
    return MESSAGE_PROPERTIES_HEADER.codec.pack(
        message.acknowledgements_requested & ACK_BITS,
        len(label) // 2,
        message.message_class,
        correlation.pack(),
        message.body_type,
        message.application_tag,
        body_size,
        body_size,
        message.privacy_level,
        message.hash_algorithm,
        message.encryption_algorithm,
        len(message.extension),
    )


def _pack_debug(message: Message) -> bytes:
    """DebugHeader, [MS-MQMQ] 2.2.20.8; its flag DH sits in the BaseHeader."""
    queue = _guid("tracing_queue_identifier", message.tracing_queue_identifier)
    return pack_debug(queue) if message.tracing_requested or queue != NULL_GUID else b""


def _pack_soap(message: Message) -> bytes:
    """SoapHeader, [MS-MQMQ] 2.2.20.7."""
    if not (message.soap_header or message.soap_body):
        return b""
    return Soap(message.soap_header, message.soap_body).pack()


def _pack_multi_queue(message: Message) -> bytes:
    """MultiQueueFormatHeader, [MS-MQMQ] 2.2.20.1."""
    destinations = message.destination_multi_queue_format_name
    if not destinations and message.destination_queue_format_name[:10].upper() == MULTICAST:
        destinations = (message.destination_queue_format_name,)
    lists = (
        destinations,
        message.administration_multi_queue_format_name,
        message.response_multi_queue_format_name,
    )
    signature = message.multiple_destination_signature
    if not (any(lists) or signature):
        return b""
    destination, administration, response = (
        tuple(map(parse_format_name, names)) for names in lists
    )
    return MultiQueue(destination, administration, response, signature).pack()
