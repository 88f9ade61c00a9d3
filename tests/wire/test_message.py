"""Packets read into messages, [MS-MQDMPR] 3.1.7.1.31, and the way there and back."""

from contextlib import suppress
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import RemoteProtocolError
from posthouse.model.message import (
    MESSAGE_CLASSES,
    AuthenticationLevel,
    EncryptionAlgorithm,
    HashAlgorithm,
    Message,
    MessageId,
    PrivacyLevel,
    QueueTypeCode,
    SenderIdentifierType,
    TxSequenceId,
)
from posthouse.wire.packet.message import deserialize, serialize

from .strategies import messages
from .vectors import (
    DESTINATION,
    MINIMAL,
    MULTIPLE,
    QUEUE_NAMES,
    SEALED,
    SESSION,
    SOAP,
    SOURCE,
    TRACED,
    TRANSACTIONAL,
    USER_MESSAGE,
    USER_MESSAGES,
    edited,
    resized,
    with_base_flags,
    with_user_flags,
)

each_message = pytest.mark.parametrize("packet", USER_MESSAGES.values(), ids=USER_MESSAGES)


def test_sample_message_has_its_attributes() -> None:
    source = bytes.fromhex("d1587355509195954997b6e611ea26c6")
    assert deserialize(USER_MESSAGE) == Message(
        identifier=MessageId(source, 0x8EE),
        source_machine_identifier=source,
        priority=3,
        time_to_reach_queue=345600,
        time_to_be_received=0xFFFFFFFF,
        sent_time=0x524F494C,
        destination_queue_type=QueueTypeCode.DIRECT_QUEUE,
        destination_queue_format_name=r"DIRECT=OS:a04bm02\q",
        sender_identifier_type=SenderIdentifierType.SID,
        sender_identifier=bytes.fromhex("010500000000000515000000ad4a9ebd36d9fa3d63a656dae8030000"),
        acknowledgements_requested=0x0F,
        body_type=8,
        hash_algorithm=HashAlgorithm.SHA1,
        encryption_algorithm=EncryptionAlgorithm.RC4,
        label="mqsender label",
        body=b"a\0" * 1000,
    )


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.32/12")
@pytest.mark.parametrize(
    "packet",
    [packet for packet in USER_MESSAGES.values() if packet != SEALED],
    ids=[name for name in USER_MESSAGES if name != "sealed"],
)
def test_packets_are_written_byte_for_byte_as_they_were_read(packet: bytes) -> None:
    assert serialize(deserialize(packet)) == packet


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/8", "MS-MQDMPR 3.1.7.1.32/5", "MS-MQMQ 2.2.20.6/3")
def test_claims_of_a_verified_signature_are_dropped() -> None:
    message = deserialize(SEALED)
    assert message.authentication_level == AuthenticationLevel.NONE
    # ST and EB are left of the flags; AI goes too, as it says nothing.
    assert serialize(message) == edited(SEALED, 68, "<H", 0x0021)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/1", "MS-MQDMPR 3.1.1.12/26", "MS-MQDMPR 3.1.1.12/28")
def test_attributes_of_absent_headers_keep_their_defaults() -> None:
    packet = resized(with_user_flags(MINIMAL, off=0x201C00)[:64])
    message, default = deserialize(packet), Message()
    from_headers = {
        "identifier",
        "source_machine_identifier",
        "destination_queue_manager_identifier",
        "destination_queue_type",
        "sent_time",
    }
    for name in {field.name for field in fields(Message)} - from_headers:
        assert getattr(message, name) == getattr(default, name), name
    assert (message.body, message.extension, message.label) == (b"", b"", "")
    assert (message.application_tag, message.body_type) == (0, 0)
    assert message.correlation_identifier == MessageId(bytes(16), 0)
    assert message.connector_type_identifier == bytes(16)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/2")
def test_base_header_gives_priority_tracing_and_time_to_reach_queue() -> None:
    packet = with_base_flags(edited(MINIMAL, 12, "<I", 4711), off=7, on=0x0106)
    message = deserialize(packet)
    assert (message.priority, message.tracing_requested) == (6, True)
    assert message.time_to_reach_queue == 4711


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/3", "MS-MQDMPR 3.1.1.12/25", "MS-MQMQ 2.2.19.3/9")
def test_message_properties_header_gives_the_properties() -> None:
    message = deserialize(edited(QUEUE_NAMES, 146, "<H", 0x4000))
    assert message.body == bytes.fromhex("b1b2b3b4")
    assert message.label == "L"
    assert message.extension == bytes.fromhex("e1e2e3e4e5")
    assert message.message_class == 0x4000
    assert message.correlation_identifier == MessageId(b"\x55" * 16, 7)
    assert message.application_tag == 0xDEADBEEF
    assert message.body_type == 0x1011
    assert message.acknowledgements_requested == 0x05
    assert message.privacy_level == PrivacyLevel.NONE
    assert message.hash_algorithm == HashAlgorithm.SHA_512
    assert message.encryption_algorithm == EncryptionAlgorithm.AES256


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/4", "MS-MQDMPR 3.1.7.1.31/18")
def test_security_header_gives_sender_keys_and_signature() -> None:
    message = deserialize(SEALED)
    assert message.sender_identifier == bytes.fromhex("010100000000000507000000")
    assert message.sender_identifier_type == SenderIdentifierType.SID
    assert message.symmetric_key == bytes.fromhex("c1c2c3c4c5")
    assert message.signature == bytes.fromhex("d1d2d3d4d5d6")
    assert message.sender_certificate == bytes.fromhex("e1e2e3e4e5e6e7")
    assert message.authentication_provider_type == 1
    assert message.authentication_provider_name == "CS"
    assert message.body == bytes(range(0xF0, 0x100))


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/5", "MS-MQDMPR 3.1.7.1.31/18", "MS-MQDMPR 3.1.1.12/49")
def test_transaction_header_gives_sequence_and_marks() -> None:
    message = deserialize(TRANSACTIONAL)
    assert message.transactional_message_sequence_identifier == TxSequenceId(0x5F5E5000, 9)
    assert message.transaction_sequence_number == 8
    assert message.transaction_previous_sequence_number == 7
    assert message.transaction_identifier == 0x54321
    assert message.connector_queue_manager_identifier == b"\x66" * 16
    assert message.final_ack_required
    assert not message.first_in_transaction
    assert message.last_in_transaction
    assert deserialize(MINIMAL).transactional_message_sequence_identifier is None


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/6", "MS-MQDMPR 3.1.7.1.31/18", "MS-MQDMPR 3.1.1.12/46")
def test_user_header_gives_names_times_and_journaling() -> None:
    message = deserialize(QUEUE_NAMES)
    assert message.destination_queue_format_name == "PUBLIC=a3a2a1a0-a5a4-a7a6-a8a9-aaabacadaeaf"
    assert message.administration_queue_format_name == r"DIRECT=OS:host\adm"
    assert message.response_queue_format_name == (
        r"PRIVATE=33333333-3333-3333-3333-333333333333\00000012"
    )
    assert message.destination_queue_type == QueueTypeCode.PUBLIC_QUEUE
    assert message.administration_queue_type == QueueTypeCode.DIRECT_QUEUE
    assert message.response_queue_type == QueueTypeCode.PRIVATE_QUEUE_ON_OTHER
    assert message.identifier == MessageId(SOURCE, 2)
    assert message.source_machine_identifier == SOURCE
    assert message.destination_queue_manager_identifier == DESTINATION
    assert (message.time_to_be_received, message.sent_time) == (60, 0x5F5E5000)
    assert message.delivery_guarantee == 1
    assert message.positive_journaling_requested
    assert message.negative_journaling_requested
    assert message.connector_type_identifier == b"\x44" * 16


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/6", "MS-MQMQ 2.2.19.2/6")
@pytest.mark.parametrize(("bit", "positive"), [(0x100, False), (0x200, True)])
def test_journal_flags_are_told_apart(bit: int, positive: bool) -> None:
    message = deserialize(with_user_flags(MINIMAL, on=bit))
    assert message.positive_journaling_requested is positive
    assert message.negative_journaling_requested is not positive


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/7")
def test_lists_signature_and_tracing_queue_are_read() -> None:
    message = deserialize(MULTIPLE)
    assert message.destination_multi_queue_format_name == (
        r"DIRECT=OS:h\q",
        "PUBLIC=a3a2a1a0-a5a4-a7a6-a8a9-aaabacadaeaf",
        r"PRIVATE=33333333-3333-3333-3333-333333333333\00000012",
        r"DIRECT=OS:ab\q",
        "DL=b3b2b1b0-b5b4-b7b6-b8b9-babbbcbdbebf",
    )
    assert message.administration_multi_queue_format_name == (r"DIRECT=OS:hst\ad",)
    assert message.response_multi_queue_format_name == ()
    assert message.multiple_destination_signature == b"\x91\x92\x93"
    assert deserialize(TRACED).tracing_queue_identifier == b"\x77" * 16


def test_soap_texts_are_read() -> None:
    message = deserialize(SOAP)
    assert (message.soap_header, message.soap_body) == ("<h/>", "<b />")


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/9", "MS-MQDMPR 3.1.7.1.31/10", "MS-MQDMPR 3.1.1.12/7")
@pytest.mark.spec("MS-MQMQ 2.2.18.1.6/1", "MS-MQMQ 2.2.18.1.6/2")
@pytest.mark.parametrize("code", [*(each.code for each in MESSAGE_CLASSES), 0x0123, 0xE1FF, 0xFFFF])
def test_every_class_is_carried(code: int) -> None:
    packet = edited(MINIMAL, 70, "<H", code)
    assert deserialize(packet).message_class == code
    assert serialize(deserialize(packet)) == packet


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/8", clause="levels")
@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/11")
@pytest.mark.parametrize(
    ("value", "level"),
    [
        (0, PrivacyLevel.NONE),
        (1, PrivacyLevel.BASE),
        (3, PrivacyLevel.ENHANCED),
        (5, PrivacyLevel.ADVANCED),
    ],
)
def test_privacy_levels_have_their_numbers(value: int, level: PrivacyLevel) -> None:
    assert deserialize(edited(MINIMAL, 108, "<I", value)).privacy_level == level


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/12", "MS-MQDMPR 3.1.1.12/41")
@pytest.mark.parametrize(
    ("value", "algorithm"),
    [
        (0x6602, EncryptionAlgorithm.RC2),
        (0x6801, EncryptionAlgorithm.RC4),
        (0x660E, EncryptionAlgorithm.AES128),
        (0x660F, EncryptionAlgorithm.AES192),
        (0x6610, EncryptionAlgorithm.AES256),
    ],
)
def test_encryption_algorithms_have_their_numbers(
    value: int, algorithm: EncryptionAlgorithm
) -> None:
    assert deserialize(edited(MINIMAL, 116, "<I", value)).encryption_algorithm == algorithm


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/13")
@pytest.mark.parametrize(
    ("value", "algorithm"),
    [
        (0x8001, HashAlgorithm.MD2),
        (0x8002, HashAlgorithm.MD4),
        (0x8003, HashAlgorithm.MD5),
        (0x8004, HashAlgorithm.SHA1),
        (0x800C, HashAlgorithm.SHA_256),
        (0x800E, HashAlgorithm.SHA_512),
    ],
)
def test_hash_algorithms_have_their_numbers(value: int, algorithm: HashAlgorithm) -> None:
    assert deserialize(edited(MINIMAL, 112, "<I", value)).hash_algorithm == algorithm


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/17")
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (0, SenderIdentifierType.NONE),
        (1, SenderIdentifierType.SID),
        (2, SenderIdentifierType.QUEUE_MANAGER_IDENTIFIER),
    ],
)
def test_sender_identifier_types_have_their_numbers(value: int, kind: SenderIdentifierType) -> None:
    message = deserialize(edited(SEALED, 68, "<H", value))
    assert message.sender_identifier_type == kind
    if value:  # EB is set as well: the body is encrypted
        assert serialize(message) == edited(SEALED, 68, "<H", 0x20 | value)


@each_message
def test_session_header_is_no_part_of_the_message(packet: bytes) -> None:
    announced = with_base_flags(packet, on=0x0010)
    for whole in (announced, announced + SESSION, resized(announced + SESSION)):
        assert deserialize(memoryview(whole)) == deserialize(packet)


@pytest.mark.spec("MS-MQMQ 2.2.20/3")
@each_message
def test_bytes_behind_the_headers_are_no_part_of_the_message(packet: bytes) -> None:
    assert deserialize(resized(packet + b"\xee" * 12)) == deserialize(packet)


@each_message
def test_every_cut_is_refused(packet: bytes) -> None:
    for size in range(len(packet)):
        with pytest.raises(RemoteProtocolError):
            deserialize(packet[:size])


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.32/12", "MS-MQDMPR 3.1.1.12/25", "MS-MQDMPR 3.1.1.12/27")
@given(messages())
def test_any_message_survives_being_a_packet(message: Message) -> None:
    packet = serialize(message)
    assert deserialize(packet) == message
    assert serialize(deserialize(packet)) == packet


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    with suppress(RemoteProtocolError):
        deserialize(data)
