"""A message with all its attributes, their defaults and limits ([MS-MQDMPR] 3.1.1.12)."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from posthouse.model.errors import (
    IllegalFormatName,
    IllegalPropertySize,
    IllegalPropertyValue,
    InsufficientResources,
    LabelTooLong,
)
from posthouse.model.guids import NULL_GUID
from posthouse.model.message_classes import (
    ACK_REACH_QUEUE,
    ACK_RECEIVE,
    CLASS_CODE_MAX,
    MESSAGE_CLASSES,
    NACK_ACCESS_DENIED,
    NACK_BAD_DEST_QUEUE,
    NACK_BAD_ENCRYPTION,
    NACK_BAD_SIGNATURE,
    NACK_COULD_NOT_ENCRYPT,
    NACK_HOP_COUNT_EXCEEDED,
    NACK_MESSAGE_TOO_LARGE,
    NACK_NOT_TRANSACTIONAL_MESSAGE,
    NACK_NOT_TRANSACTIONAL_QUEUE,
    NACK_PURGED,
    NACK_QUEUE_DELETED,
    NACK_QUEUE_EXCEED_QUOTA,
    NACK_QUEUE_PURGED,
    NACK_REACH_QUEUE_TIMEOUT,
    NACK_RECEIVE_REJECTED,
    NACK_RECEIVE_TIMEOUT,
    NACK_RECEIVE_TIMEOUT_AT_SENDER,
    NACK_SOURCE_COMPUTER_GUID_CHANGED,
    NACK_UNSUPPORTED_CRYPTO_PROVIDER,
    NORMAL,
    ORDER_ACK,
    REPORT,
    MessageClass,
    class_code,
    class_name,
    is_about_receiving,
    is_negative,
)
from posthouse.model.message_ids import MESSAGE_ID_SIZE, NULL_MESSAGE_ID, MessageId, TxSequenceId
from posthouse.model.message_values import (
    ACK_BITS,
    ACK_FULL_REACH_QUEUE,
    ACK_FULL_RECEIVE,
    ACK_NACK_REACH_QUEUE,
    ACK_NACK_RECEIVE,
    ACK_NEG_ARRIVAL,
    ACK_NEG_RECEIVE,
    ACK_NONE,
    ACK_POS_ARRIVAL,
    ACK_POS_RECEIVE,
    ADMINISTRATION_QUEUE_TYPES,
    DESTINATION_QUEUE_TYPES,
    ENCRYPTION_OF_PRIVACY,
    JOURNAL_NEGATIVE,
    JOURNAL_NONE,
    JOURNAL_POSITIVE,
    PROVIDER_NAMES,
    RESPONSE_QUEUE_TYPES,
    WEAK_HASH_ALGORITHMS,
    AuthenticationLevel,
    DeliveryGuarantee,
    EncryptionAlgorithm,
    HashAlgorithm,
    PrivacyLevel,
    QueueTypeCode,
    RequestedAuthentication,
    SenderIdentifierType,
    ack_bits,
    ack_words,
    journal_bits,
    journal_words,
)
from posthouse.model.names import MultipleName, PathName, parse_format_name
from posthouse.model.text import has_lone_surrogate, utf16_length

__all__ = [
    "ACK_BITS",
    "ACK_FULL_REACH_QUEUE",
    "ACK_FULL_RECEIVE",
    "ACK_NACK_REACH_QUEUE",
    "ACK_NACK_RECEIVE",
    "ACK_NEG_ARRIVAL",
    "ACK_NEG_RECEIVE",
    "ACK_NONE",
    "ACK_POS_ARRIVAL",
    "ACK_POS_RECEIVE",
    "ACK_REACH_QUEUE",
    "ACK_RECEIVE",
    "ADMINISTRATION_QUEUE_TYPES",
    "CLASS_CODE_MAX",
    "DESTINATION_QUEUE_TYPES",
    "ENCRYPTION_OF_PRIVACY",
    "INFINITE",
    "JOURNAL_NEGATIVE",
    "JOURNAL_NONE",
    "JOURNAL_POSITIVE",
    "LABEL_LENGTH_MAX",
    "LONG_LIVED",
    "MESSAGE_CLASSES",
    "MESSAGE_ID_SIZE",
    "MESSAGE_SIZE_MAX",
    "NACK_ACCESS_DENIED",
    "NACK_BAD_DEST_QUEUE",
    "NACK_BAD_ENCRYPTION",
    "NACK_BAD_SIGNATURE",
    "NACK_COULD_NOT_ENCRYPT",
    "NACK_HOP_COUNT_EXCEEDED",
    "NACK_MESSAGE_TOO_LARGE",
    "NACK_NOT_TRANSACTIONAL_MESSAGE",
    "NACK_NOT_TRANSACTIONAL_QUEUE",
    "NACK_PURGED",
    "NACK_QUEUE_DELETED",
    "NACK_QUEUE_EXCEED_QUOTA",
    "NACK_QUEUE_PURGED",
    "NACK_REACH_QUEUE_TIMEOUT",
    "NACK_RECEIVE_REJECTED",
    "NACK_RECEIVE_TIMEOUT",
    "NACK_RECEIVE_TIMEOUT_AT_SENDER",
    "NACK_SOURCE_COMPUTER_GUID_CHANGED",
    "NACK_UNSUPPORTED_CRYPTO_PROVIDER",
    "NORMAL",
    "NULL_MESSAGE_ID",
    "ORDER_ACK",
    "PRIORITY_DEFAULT",
    "PRIORITY_MAX",
    "PROVIDER_NAMES",
    "REPORT",
    "RESPONSE_QUEUE_TYPES",
    "TIME_TO_REACH_QUEUE_MAX",
    "WEAK_HASH_ALGORITHMS",
    "AuthenticationLevel",
    "DeliveryGuarantee",
    "EncryptionAlgorithm",
    "HashAlgorithm",
    "Message",
    "MessageClass",
    "MessageId",
    "PrivacyLevel",
    "QueueTypeCode",
    "RequestedAuthentication",
    "SenderIdentifierType",
    "TxSequenceId",
    "ack_bits",
    "ack_words",
    "check_label",
    "class_code",
    "class_name",
    "complete_transaction",
    "is_about_receiving",
    "is_negative",
    "journal_bits",
    "journal_words",
    "limited_time_to_reach_queue",
    "validate",
]

PRIORITY_DEFAULT: Final = 3
PRIORITY_MAX: Final = 7
TIME_TO_REACH_QUEUE_MAX: Final = 0x54600  # four days; also the default
LONG_LIVED: Final = 0xFFFFFFFE  # the sender leaves the time to the enterprise
INFINITE: Final = 0xFFFFFFFF
LABEL_LENGTH_MAX: Final = 249  # WCHARs without the NUL
MESSAGE_SIZE_MAX: Final = 0x0040_0000  # a whole packet, [MS-MQMQ] 2.2.19.1

_U32_MAX: Final = 0xFFFFFFFF


@dataclass(slots=True)
class Message:
    """One message; the names are the document's, `message_class` is its Class.

    Times are seconds since 1970 UTC, format names are texts, empty where there is none. The
    position in a queue belongs to the engine.
    """

    lookup_identifier: int = 0
    identifier: MessageId = NULL_MESSAGE_ID
    allow_peek_when_locked: bool = False
    application_deadletter_queue: str = ""
    arrival_time: int = 0
    message_class: int = NORMAL
    privacy_level: int = PrivacyLevel.NONE
    authentication_level: int = AuthenticationLevel.NONE
    delivery_guarantee: int = DeliveryGuarantee.EXPRESS
    tracing_requested: bool = False
    tracing_queue_identifier: bytes = NULL_GUID
    priority: int = PRIORITY_DEFAULT
    positive_journaling_requested: bool = False
    negative_journaling_requested: bool = False
    response_queue_format_name: str = ""
    response_multi_queue_format_name: tuple[str, ...] = ()
    destination_queue_format_name: str = ""
    destination_multi_queue_format_name: tuple[str, ...] = ()
    administration_queue_format_name: str = ""
    administration_multi_queue_format_name: tuple[str, ...] = ()
    multiple_destination_signature: bytes = b""
    application_tag: int = 0
    source_machine_identifier: bytes = NULL_GUID
    body: bytes = b""
    body_type: int = 0
    correlation_identifier: MessageId = NULL_MESSAGE_ID
    acknowledgements_requested: int = ACK_NONE
    label: str = ""
    sent_time: int = 0
    time_to_reach_queue: int = TIME_TO_REACH_QUEUE_MAX
    time_to_be_received: int = INFINITE
    hash_algorithm: int = HashAlgorithm.SHA1
    encryption_algorithm: int = EncryptionAlgorithm.RC4
    destination_queue_manager_identifier: bytes = NULL_GUID
    destination_queue_type: int = QueueTypeCode.DIRECT_QUEUE
    administration_queue_type: int = QueueTypeCode.NONE
    response_queue_type: int = QueueTypeCode.NONE
    sender_identifier: bytes = b""
    sender_certificate: bytes = b""
    sender_identifier_type: int = SenderIdentifierType.SID
    extension: bytes = b""
    connector_type_identifier: bytes = NULL_GUID
    connector_queue_manager_identifier: bytes = NULL_GUID
    transaction_status_queue_format_name: str = ""
    symmetric_key: bytes = b""
    signature: bytes = b""
    authentication_provider_type: int = 0
    authentication_provider_name: str = ""
    transactional_message_sequence_identifier: TxSequenceId | None = None
    transaction_sequence_number: int = 0
    transaction_previous_sequence_number: int = 0
    transaction_identifier: int = 0
    final_ack_required: bool = False
    first_in_transaction: bool = False
    last_in_transaction: bool = False
    soap_envelope: str = ""
    soap_compound_message: bytes = b""
    soap_body: str = ""
    soap_header: str = ""

    @property
    def is_transactional(self) -> bool:
        """Whether the message belongs to a sequence of transactional messages."""
        return self.transactional_message_sequence_identifier is not None

    @property
    def journal(self) -> int:
        """The source journaling asked for, as bits."""
        positive = JOURNAL_POSITIVE if self.positive_journaling_requested else JOURNAL_NONE
        negative = JOURNAL_NEGATIVE if self.negative_journaling_requested else JOURNAL_NONE
        return positive | negative


def limited_time_to_reach_queue(seconds: int, maximum: int = TIME_TO_REACH_QUEUE_MAX) -> int:
    """The time a message gets to reach its queue; at most what the enterprise allows."""
    return min(seconds, maximum)


_RANGES: Final = (
    ("priority", PRIORITY_MAX),
    ("message_class", CLASS_CODE_MAX),
    ("acknowledgements_requested", ACK_BITS),
    ("application_tag", _U32_MAX),
    ("body_type", _U32_MAX),
    ("time_to_reach_queue", _U32_MAX),
    ("time_to_be_received", _U32_MAX),
)
_CHOICES: Final[tuple[tuple[str, Container[object]], ...]] = (
    ("delivery_guarantee", frozenset(DeliveryGuarantee)),
    ("privacy_level", frozenset(PrivacyLevel)),
    ("authentication_level", frozenset(AuthenticationLevel)),
    ("hash_algorithm", frozenset(HashAlgorithm)),
    ("encryption_algorithm", frozenset(EncryptionAlgorithm)),
    ("sender_identifier_type", frozenset(SenderIdentifierType)),
    ("destination_queue_type", DESTINATION_QUEUE_TYPES),
    ("administration_queue_type", ADMINISTRATION_QUEUE_TYPES),
    ("response_queue_type", RESPONSE_QUEUE_TYPES),
)
_GUIDS: Final = (
    "tracing_queue_identifier",
    "source_machine_identifier",
    "destination_queue_manager_identifier",
    "connector_type_identifier",
    "connector_queue_manager_identifier",
)
_NAMES: Final = (
    "response_queue_format_name",
    "destination_queue_format_name",
    "administration_queue_format_name",
)
_LISTS: Final = (
    "response_multi_queue_format_name",
    "destination_multi_queue_format_name",
    "administration_multi_queue_format_name",
)


def validate(message: Message) -> None:
    """Raise the proper `QueueError` for the first attribute outside its limits.

    Only messages handed in by applications are checked so; what a peer sends is carried as is.
    """
    check_label(message.label)
    for name, maximum in _RANGES:
        _check_range(name, getattr(message, name), maximum)
    for name, choices in _CHOICES:
        _check_choice(name, getattr(message, name), choices)
    for name in _GUIDS:
        _check_guid(name, getattr(message, name))
    _check_identifier("identifier", message.identifier)
    _check_identifier("correlation_identifier", message.correlation_identifier)
    _check_names(message)
    _check_hash(message)
    _check_encryption(message)
    _check_size(message)


def check_label(label: str) -> None:
    """Raise unless the text can be the label of a message."""
    length = utf16_length(label)
    if length > LABEL_LENGTH_MAX:
        raise LabelTooLong(
            f"the label has {length} characters, at most {LABEL_LENGTH_MAX} are allowed"
        )
    if "\0" in label or has_lone_surrogate(label):
        raise IllegalPropertyValue("the label contains a NUL or half a surrogate pair")


def _check_range(name: str, value: int, maximum: int) -> None:
    if not 0 <= value <= maximum:
        raise IllegalPropertyValue(f"{name} is {value}; allowed is 0 to {maximum}")


def _check_choice(name: str, value: int, choices: Container[object]) -> None:
    if value not in choices:
        raise IllegalPropertyValue(f"{name} has no value {value}")


def _check_guid(name: str, value: bytes) -> None:
    if len(value) != 16:
        raise IllegalPropertySize(
            f"{name} has {len(value)} bytes instead of 16", "Pass a GUID of 16 bytes."
        )


def _check_identifier(name: str, value: MessageId) -> None:
    if len(value.guid) != 16:
        raise IllegalPropertySize(f"{name} has {len(value.guid) + 4} bytes instead of 20")
    _check_range(name, value.ordinal, _U32_MAX)


def _check_names(message: Message) -> None:
    for attribute in _NAMES:
        name = getattr(message, attribute)
        if name:
            _check_single(attribute, name)
    for attribute in _LISTS:
        for name in getattr(message, attribute):
            _check_single(attribute, name)
    if message.application_deadletter_queue:
        PathName.parse(message.application_deadletter_queue)


def _check_single(attribute: str, name: str) -> None:
    if isinstance(parse_format_name(name), MultipleName):
        raise IllegalFormatName(f"{attribute} holds a list where a single name is needed")


def _check_hash(message: Message) -> None:
    if message.hash_algorithm in WEAK_HASH_ALGORITHMS:
        raise IllegalPropertyValue(
            f"hash 0x{message.hash_algorithm:04X} is broken and never sent (decision 54)",
            "Use SHA-1, or better SHA-256 or SHA-512.",
        )


def _check_encryption(message: Message) -> None:
    ciphers = ENCRYPTION_OF_PRIVACY.get(PrivacyLevel(message.privacy_level))
    if ciphers is not None and message.encryption_algorithm not in ciphers:
        raise IllegalPropertyValue(
            f"cipher 0x{message.encryption_algorithm:04X} does not go with privacy level "
            f"{message.privacy_level}"
        )


def _check_size(message: Message) -> None:
    size = len(message.body) + len(message.extension) + 2 * len(message.label)
    if size > MESSAGE_SIZE_MAX:
        raise InsufficientResources(
            f"the message has {size} bytes; a packet holds at most {MESSAGE_SIZE_MAX}",
            "Split the body over several messages, or send a reference to it.",
        )


def complete_transaction(message: Message, number: int | None) -> None:
    """The attributes for a transaction of that number, or for none.

    They are the queue manager's: an object sent before may still have some. Choice: no connector
    application, whose values would stay, runs inside the engine.
    """
    message.first_in_transaction = message.last_in_transaction = False
    message.transaction_sequence_number = message.transaction_previous_sequence_number = 0
    if number is None:
        message.transaction_identifier = 0
        message.transactional_message_sequence_identifier = None
    else:
        message.transaction_identifier = number
        message.transactional_message_sequence_identifier = TxSequenceId(0, 0)
        message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
