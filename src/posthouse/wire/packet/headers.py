"""The fixed parts of every header of a UserMessage packet, [MS-MQMQ] 2.2.19 and 2.2.20.

All numbers are little-endian and bit 0 is the lowest. Reserved bits are sent as zero and ignored.
"""

from typing import Annotated, NamedTuple

from posthouse.model.message import (
    ADMINISTRATION_QUEUE_TYPES,
    DESTINATION_QUEUE_TYPES,
    LABEL_LENGTH_MAX,
    MESSAGE_SIZE_MAX,
    QueueTypeCode,
)
from posthouse.model.message import INFINITE as INFINITE
from posthouse.wire.layout import Flags, Layout, bits, guid, object_id, u8, u16, u32, u64

VERSION_NUMBER = 0x10  # [MS-MQMQ] 2.2.19.1
SIGNATURE = 0x524F494C  # [MS-MQMQ] 2.2.19.1: the bytes "LIOR"
PACKET_SIZE_MAX = MESSAGE_SIZE_MAX  # [MS-MQMQ] 2.2.19.1
HOPS = 0x1F  # UserHeader.Flags.RC
HOP_COUNT_MAX = 0x1D  # [MS-MQMQ] 2.2.19.2, RC
LABEL_UNITS_MAX = LABEL_LENGTH_MAX + 1  # [MS-MQMQ] 2.2.19.3: the NUL counts here
SENDER_CERTIFICATE_SIZE_MAX = 0xFFFF  # [MS-MQMQ] 2.2.20.6

# Queue type codes of the UserHeader flags DQ, AQ and RQ, [MS-MQMQ] 2.2.19.2: plain numbers, because
# they are compared with bits of every packet.
QUEUE_NONE = int(QueueTypeCode.NONE)
QUEUE_SAME_AS_ADMINISTRATION = int(QueueTypeCode.SAME_AS_ADMINISTRATION_QUEUE)
QUEUE_PRIVATE_ON_SOURCE = int(QueueTypeCode.PRIVATE_QUEUE_ON_SOURCE)
QUEUE_PRIVATE_ON_DESTINATION = int(QueueTypeCode.PRIVATE_QUEUE_ON_DESTINATION)
QUEUE_PRIVATE_ON_ADMINISTRATION = int(QueueTypeCode.PRIVATE_QUEUE_ON_ADMIN)
QUEUE_PUBLIC = int(QueueTypeCode.PUBLIC_QUEUE)
QUEUE_PRIVATE_ON_OTHER = int(QueueTypeCode.PRIVATE_QUEUE_ON_OTHER)
QUEUE_DIRECT = int(QueueTypeCode.DIRECT_QUEUE)

# Unlike a message, a packet may leave its destination out. RQ may have every value.
DESTINATION_TYPES = DESTINATION_QUEUE_TYPES | {QueueTypeCode.NONE}
ADMINISTRATION_TYPES = ADMINISTRATION_QUEUE_TYPES

# Section and header identifiers of the optional headers.
SOAP_HEADER_SECTION = 0x0320  # [MS-MQMQ] 2.2.20.7
SOAP_BODY_SECTION = 0x0384
SRMP_ENVELOPE = 0x0190  # as Windows has them; [MS-MQRR] 2.2.5.1.2 names no values
COMPOUND_MESSAGE = 0x01F4
MQF_DESTINATION = 0x0064  # [MS-MQMQ] 2.2.20.2
MQF_ADMINISTRATION = 0x00C8
MQF_RESPONSE = 0x012C
MQF_SIGNATURE = 0x015E  # [MS-MQMQ] 2.2.20.3


class BaseFlags(Flags):
    """[MS-MQMQ] 2.2.19.1: PR, IN, SH, DH, TR."""

    priority = bits(0, 3)
    internal = bits(3)
    session_header = bits(4)
    debug_header = bits(5)
    tracing = bits(8)


class BaseHeader(NamedTuple):
    """[MS-MQMQ] 2.2.19.1: the start of every packet of a session."""

    version_number: u8 = VERSION_NUMBER
    reserved: u8 = 0
    flags: Annotated[BaseFlags, "H"] = BaseFlags(3)
    signature: u32 = SIGNATURE
    packet_size: u32 = 0
    time_to_reach_queue: u32 = INFINITE


BASE_HEADER = Layout(BaseHeader)
assert BASE_HEADER.size == 16


class UserFlags(Flags):
    """[MS-MQMQ] 2.2.19.2: RC, DM, JN, JP, DQ, AQ, RQ, SH, TH, MP, CQ, MQ, AH, HH."""

    hop_count = bits(0, 5)
    delivery = bits(5, 2)
    negative_journaling = bits(8)
    positive_journaling = bits(9)
    destination_type = bits(10, 3)
    administration_type = bits(13, 3)
    response_type = bits(16, 3)
    security_header = bits(19)
    transaction_header = bits(20)
    properties_header = bits(21)
    connector_type = bits(22)
    multi_queue_header = bits(23)
    over_http = bits(25)
    soap_header = bits(28)


OVER_HTTP = int(UserFlags.of(over_http=1))
QUEUE_NAME_FLAGS = UserFlags.of(
    destination_type=7, administration_type=7, response_type=7, connector_type=1
)


class UserHeader(NamedTuple):
    """[MS-MQMQ] 2.2.19.2: the part in front of the queue names."""

    source_queue_manager: guid
    queue_manager_address: guid
    time_to_be_received: u32
    sent_time: u32
    message_id: u32
    flags: Annotated[UserFlags, "I"]


USER_HEADER = Layout(UserHeader)
assert USER_HEADER.size == 48


class TransactionFlags(Flags):
    """[MS-MQMQ] 2.2.20.5: CG, FA, FM, LM, ID."""

    connector_guid = bits(0)
    final_ack = bits(1)
    first = bits(2)
    last = bits(3)
    transaction_number = bits(4, 20)


class TransactionHeader(NamedTuple):
    """[MS-MQMQ] 2.2.20.5: 20 bytes, followed by ConnectorQMGuid, by the flags."""

    flags: Annotated[TransactionFlags, "I"]
    sequence_id: u64  # int(TxSequenceId)
    sequence_number: u32
    previous_sequence_number: u32


TRANSACTION_HEADER = Layout(TransactionHeader)
assert TRANSACTION_HEADER.size == 20


class SecurityFlags(Flags):
    """[MS-MQMQ] 2.2.20.6: ST, AU, EB, DE, AI, AS.

    AU and AS are results of a verification and mean nothing on the wire; AI is ignored.
    """

    sender_id_type = bits(0, 4)
    authenticated = bits(4)
    encrypted = bits(5)
    default_provider = bits(6)
    security_data = bits(7)
    signature_kind = bits(8, 4)


class SecurityHeader(NamedTuple):
    """[MS-MQMQ] 2.2.20.6: the sizes alone show which of the five items follow."""

    flags: Annotated[SecurityFlags, "H"]
    sender_id_size: u16 = 0
    encryption_key_size: u16 = 0
    signature_size: u16 = 0
    sender_certificate_size: u32 = 0
    provider_info_size: u32 = 0


SECURITY_HEADER = Layout(SecurityHeader)
assert SECURITY_HEADER.size == 16


class MessagePropertiesHeader(NamedTuple):
    """[MS-MQMQ] 2.2.19.3: followed by label, extension and body without a gap."""

    acknowledgments: u8
    label_length: u8  # in UTF-16 units with the NUL
    message_class: u16
    correlation_id: object_id
    body_type: u32
    application_tag: u32
    message_size: u32
    allocation_body_size: u32
    privacy_level: u32
    hash_algorithm: u32
    encryption_algorithm: u32
    extension_size: u32


MESSAGE_PROPERTIES_HEADER = Layout(MessagePropertiesHeader)
assert MESSAGE_PROPERTIES_HEADER.size == 56


class DebugFlags(Flags):
    """[MS-MQMQ] 2.2.20.8: QT."""

    queue_type = bits(0, 2)


class DebugHeader(NamedTuple):
    """[MS-MQMQ] 2.2.20.8: followed by the GUID of the report queue if QT is 1."""

    flags: Annotated[DebugFlags, "H"]
    reserved: u16 = 0


DEBUG_HEADER = Layout(DebugHeader)
assert DEBUG_HEADER.size == 4


class SoapSection(NamedTuple):
    """[MS-MQMQ] 2.2.20.7: in front of each of the two texts of a SoapHeader."""

    section_id: u16
    reserved: u16
    data_length: u32  # in UTF-16 units with the NUL


SOAP_SECTION = Layout(SoapSection)
assert SOAP_SECTION.size == 8


class SrmpEnvelopeHeader(NamedTuple):
    """[MS-MQRR] 2.2.5.1.2.1: followed by the SOAP envelope, UTF-16 with its NUL."""

    header_id: u16
    reserved: u16
    data_length: u32  # in UTF-16 units with the NUL, as the SoapHeader counts


SRMP_ENVELOPE_HEADER = Layout(SrmpEnvelopeHeader)
assert SRMP_ENVELOPE_HEADER.size == 8


class CompoundMessageHeader(NamedTuple):
    """[MS-MQRR] 2.2.5.1.2.2: followed by the HTTP message that brought the message."""

    header_id: u16
    reserved: u16
    http_body_size: u32
    message_body_size: u32
    message_body_offset: u32


COMPOUND_MESSAGE_HEADER = Layout(CompoundMessageHeader)
assert COMPOUND_MESSAGE_HEADER.size == 16


class MqfAddressHeader(NamedTuple):
    """[MS-MQMQ] 2.2.20.2: followed by its MQFFormatNameElements."""

    header_size: u32
    header_id: u16
    reserved: u16
    element_count: u32


MQF_ADDRESS_HEADER = Layout(MqfAddressHeader)
assert MQF_ADDRESS_HEADER.size == 12


class MqfSignatureHeader(NamedTuple):
    """[MS-MQMQ] 2.2.20.3: unlike the address headers it begins with its identifier."""

    header_id: u16
    reserved: u16
    size: u32  # of the signature alone


MQF_SIGNATURE_HEADER = Layout(MqfSignatureHeader)
assert MQF_SIGNATURE_HEADER.size == 8


class SessionHeader(NamedTuple):
    """[MS-MQMQ] 2.2.20.4: what one side of a session has sent and received."""

    ack_sequence_number: u16 = 0
    recoverable_ack_sequence_number: u16 = 0
    recoverable_ack_flags: u32 = 0
    user_sequence_number: u16 = 0
    recoverable_sequence_number: u16 = 0
    window_size: u16 = 64
    reserved: u16 = 0


SESSION_HEADER = Layout(SessionHeader)
assert SESSION_HEADER.size == 16
