"""Messages made into packets, [MS-MQDMPR] 3.1.7.1.30 and 3.1.7.1.32: flags, sizes, limits."""

from typing import Any

import pytest
from hypothesis import given

from posthouse.model.errors import (
    IllegalFormatName,
    IllegalPropertySize,
    IllegalPropertyValue,
    InsufficientResources,
    LabelTooLong,
    QueueError,
)
from posthouse.model.message import Message, MessageId, TxSequenceId
from posthouse.wire.packet.headers import PACKET_SIZE_MAX
from posthouse.wire.packet.message import construct, deserialize, serialize
from posthouse.wire.packet.packet import Packet

from .strategies import messages

QUEUE = b"\x77" * 16
SID = bytes.fromhex("010100000000000507000000")
DIRECT = r"DIRECT=OS:host\private$\orders"
SEQUENCE = TxSequenceId(1, 2)


def packet_of(**attributes: Any) -> Packet:
    attributes.setdefault("destination_queue_format_name", DIRECT)
    return Packet(serialize(Message(**attributes)))


def test_a_message_without_anything_has_three_headers() -> None:
    parts = construct(Message())
    assert [name for name, part in parts._asdict().items() if part] == ["head", "properties"]
    assert len(serialize(Message())) == 120


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.30/1")
@pytest.mark.parametrize(
    ("attributes", "present"),
    [
        ({}, False),
        ({"transactional_message_sequence_identifier": SEQUENCE}, True),
        ({"transaction_identifier": 5}, True),
        ({"first_in_transaction": True}, False),
    ],
)
def test_transaction_header_goes_with_a_transaction_identifier(
    attributes: dict[str, Any], present: bool
) -> None:
    packet = packet_of(**attributes)
    assert packet.user_flags.transaction_header == present
    assert (packet.transaction is not None) == present


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.30/2")
@pytest.mark.parametrize(
    ("attributes", "present"),
    [
        ({}, False),
        ({"sender_identifier": SID}, True),
        ({"sender_identifier": SID, "sender_identifier_type": 0}, False),
        ({"sender_certificate": b"c"}, True),
        ({"signature": b"s"}, True),
        ({"symmetric_key": b"k"}, True),
        ({"privacy_level": 5}, True),
        ({"authentication_provider_name": "p"}, True),
    ],
)
def test_security_header_goes_with_signature_encryption_or_sender(
    attributes: dict[str, Any], present: bool
) -> None:
    packet = packet_of(**attributes)
    assert packet.user_flags.security_header == present
    assert (packet.security is not None) == present


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.30/3")
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"body": b"b"},
        {"label": "l"},
        {"message_class": 1},
        {"correlation_identifier": MessageId(QUEUE, 1)},
        {"hash_algorithm": 0x8003},
    ],
)
def test_message_properties_header_is_announced(attributes: dict[str, Any]) -> None:
    packet = packet_of(**attributes)
    assert packet.user_flags.properties_header == 1
    assert packet.properties is not None


@pytest.mark.spec(
    "MS-MQDMPR 3.1.7.1.30/4",
    "MS-MQDMPR 3.1.7.1.32/2",
    "MS-MQDMPR 3.1.7.1.32/9",
    "MS-MQMQ 2.2.19.1/7",
)
@pytest.mark.parametrize(
    ("requested", "queue", "tracing", "debug", "size"),
    [
        (False, bytes(16), 0, 0, 0),
        (False, QUEUE, 0, 1, 20),
        (True, QUEUE, 1, 1, 20),
        (True, bytes(16), 1, 1, 4),
    ],
)
def test_debug_header_goes_with_tracing(
    requested: bool, queue: bytes, tracing: int, debug: int, size: int
) -> None:
    message = Message(tracing_requested=requested, tracing_queue_identifier=queue)
    packet = Packet(serialize(message))
    assert (packet.base_flags.tracing, packet.base_flags.debug_header) == (tracing, debug)
    assert len(construct(message).debug) == size
    assert packet.tracing_queue == queue


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.30/5")
@pytest.mark.parametrize(
    ("attributes", "present"),
    [
        ({}, False),
        ({"destination_multi_queue_format_name": (DIRECT, DIRECT)}, True),
        ({"response_multi_queue_format_name": (DIRECT,)}, True),
        ({"multiple_destination_signature": b"s"}, True),
    ],
)
def test_multi_queue_header_goes_with_lists(attributes: dict[str, Any], present: bool) -> None:
    packet = packet_of(**attributes)
    assert packet.user_flags.multi_queue_header == present
    assert (packet.multi_queue is not None) == present


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.32/1", "MS-MQDMPR 3.1.1.12/16", "MS-MQMQ 2.2.19.2/5")
def test_transactional_messages_have_no_priority_and_are_recoverable() -> None:
    packet = packet_of(priority=7, transactional_message_sequence_identifier=SEQUENCE)
    assert packet.base_flags.priority == 0
    assert packet.user_flags.delivery == 1
    assert packet_of(priority=7).base_flags.priority == 7
    assert packet_of().base_flags.priority == 3


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.32/3", "MS-MQDMPR 3.1.1.12/37", "MS-MQMQ 2.2.19.3/2")
@pytest.mark.parametrize(
    ("label", "units"), [("", 0), ("x", 2), ("\U0001f600", 3), ("x" * 249, 250)]
)
def test_label_length_counts_units_with_the_nul(label: str, units: int) -> None:
    packet = packet_of(label=label)
    assert packet.properties is not None
    assert packet.properties.label_length == units
    assert packet.summary.label_size == 2 * units
    assert packet.label == label


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/37")
@pytest.mark.parametrize("label", ["x" * 250, "\U0001f600" * 125])
def test_a_label_too_long_is_refused(label: str) -> None:
    with pytest.raises(LabelTooLong):
        serialize(Message(label=label))


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.32/4", "MS-MQMQ 2.2.19.3/4")
def test_body_and_extension_sizes_count_bytes() -> None:
    header = packet_of(body=b"body!", extension=b"ext").properties
    assert header is not None
    assert (header.message_size, header.allocation_body_size, header.extension_size) == (5, 5, 3)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.32/5")
def test_authentication_level_is_never_claimed() -> None:
    security = packet_of(authentication_level=3, signature=b"s", sender_certificate=b"c").security
    assert security is not None
    assert (security.flags.authenticated, security.flags.signature_kind) == (0, 0)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.32/6")
@pytest.mark.parametrize(("level", "bit"), [(0, 0), (1, 1), (3, 1), (5, 1)])
def test_encryption_bit_follows_the_privacy_level(level: int, bit: int) -> None:
    security = packet_of(privacy_level=level, sender_identifier=SID).security
    assert security is not None
    assert security.flags.encrypted == bit


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.32/7")
def test_certificate_and_provider_sizes() -> None:
    raw = construct(
        Message(
            sender_certificate=b"certificate",
            authentication_provider_type=1,
            authentication_provider_name="name",
        )
    ).security
    assert raw[8:12] == len(b"certificate").to_bytes(4, "little")
    assert raw[12:16] == (10 + 4).to_bytes(4, "little")


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.32/8")
@pytest.mark.parametrize(
    ("signature", "provider", "bit"),
    [
        (b"s", "", 1),
        (b"s", "Microsoft Base Cryptographic Provider v1.0", 1),
        (b"s", "Provider of an application", 0),
        (b"", "", 0),
    ],
)
def test_default_provider_bit_tells_who_signed(signature: bytes, provider: str, bit: int) -> None:
    security = packet_of(
        signature=signature, authentication_provider_name=provider, sender_identifier=SID
    ).security
    assert security is not None
    assert security.flags.default_provider == bit


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.32/10")
def test_transaction_number_has_twenty_bits() -> None:
    header = packet_of(transaction_identifier=0xFFFFF).transaction
    assert header is not None
    assert header.flags.transaction_number == 0xFFFFF
    assert header[1:] == (0, 0, 0), "not yet in a sequence"
    for number in (0x100000, -1):
        with pytest.raises(IllegalPropertyValue):
            serialize(Message(transaction_identifier=number))


@pytest.mark.spec(
    "MS-MQDMPR 3.1.7.1.32/11",
    "MS-MQMQ 2.2.19.1/2",
    "MS-MQMQ 2.2.19.1/3",
    "MS-MQMQ 2.2.19.2/9",
)
@given(messages())
def test_packet_size_is_the_size_of_the_packet(message: Message) -> None:
    packet = serialize(message)
    assert Packet(packet).base.packet_size == len(packet)
    assert len(packet) % 4 == 0
    assert not Packet(packet).base_flags.session_header
    assert not Packet(packet).user_flags.over_http
    assert Packet(packet).user_flags.properties_header
    assert Packet(packet).tail.end == len(packet)


@pytest.mark.spec("MS-MQMQ 2.2.19.2/2")
@pytest.mark.parametrize(
    ("name", "address"),
    [
        (DIRECT, bytes(16)),
        ("PUBLIC=00000000-0000-0000-0000-000000000001", QUEUE),
        (r"PRIVATE=77777777-7777-7777-7777-777777777777\1", QUEUE),
        (r"PRIVATE=88888888-8888-8888-8888-888888888888\1", b"\x88" * 16),
    ],
)
def test_address_is_the_host_of_the_queue_and_zero_for_a_direct_name(
    name: str, address: bytes
) -> None:
    packet = packet_of(
        destination_queue_format_name=name, destination_queue_manager_identifier=QUEUE
    )
    assert packet.summary.address_guid == address
    assert str(packet.destination_queue).startswith(name[:20])


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/22", "MS-MQDMPR 3.1.1.12/43")
def test_types_default_to_no_queues_and_a_sid() -> None:
    packet = packet_of()
    assert (packet.user_flags.administration_type, packet.user_flags.response_type) == (0, 0)
    security = packet_of(sender_identifier=SID).security
    assert security is not None
    assert security.flags.sender_id_type == 1


def test_queue_types_follow_the_names() -> None:
    packet = packet_of(administration_queue_format_name=DIRECT, response_queue_format_name=DIRECT)
    assert (packet.user_flags.administration_type, packet.user_flags.response_type) == (7, 7)


@pytest.mark.spec("MS-MQMQ 2.2.19.1/2")
def test_the_largest_message_fits_and_a_larger_one_is_refused() -> None:
    room = PACKET_SIZE_MAX - len(serialize(Message()))
    assert len(serialize(Message(body=bytes(room)))) == PACKET_SIZE_MAX
    with pytest.raises(InsufficientResources, match="4194308"):
        serialize(Message(body=bytes(room + 1)))
    with pytest.raises(InsufficientResources):
        serialize(Message(extension=bytes(PACKET_SIZE_MAX + 1)))


@pytest.mark.parametrize(
    "attributes",
    [
        {"priority": 8},
        {"priority": -1},
        {"delivery_guarantee": 2},
        {"body_type": 1 << 32},
        {"application_tag": -1},
        {"message_class": 0x10000},
        {"sent_time": 1 << 32},
        {"time_to_reach_queue": -1},
        {"identifier": MessageId(QUEUE, 1 << 32)},
        {"correlation_identifier": MessageId(QUEUE, -1)},
        {"sender_identifier": b"x", "sender_identifier_type": 16},
        {"sender_identifier": bytes(0x10000)},
        {"sender_certificate": bytes(0x10000)},
        {"signature": bytes(0x10000)},
        {"transactional_message_sequence_identifier": TxSequenceId(1 << 32, 0)},
        {"transactional_message_sequence_identifier": TxSequenceId(1, 1 << 32)},
        {"transactional_message_sequence_identifier": TxSequenceId(1, -1)},
        {"transaction_identifier": 1, "transaction_sequence_number": 1 << 32},
    ],
)
def test_values_that_do_not_fit_are_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(IllegalPropertyValue):
        serialize(Message(**attributes))


@pytest.mark.parametrize(
    "attributes",
    [
        {"source_machine_identifier": b"short"},
        {"destination_queue_manager_identifier": bytes(17)},
        {"connector_type_identifier": b""},
        {"tracing_queue_identifier": bytes(15)},
        {"correlation_identifier": MessageId(b"short", 1)},
        {"connector_queue_manager_identifier": bytes(17), "transaction_identifier": 1},
    ],
)
def test_identifiers_of_another_size_are_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(IllegalPropertySize):
        serialize(Message(**attributes))


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/23")
@pytest.mark.parametrize(
    "attributes",
    [
        {"destination_queue_format_name": f"{DIRECT},{DIRECT}"},
        {"administration_queue_format_name": "MULTICAST=234.1.1.1:8001"},
        {"administration_queue_format_name": "nonsense"},
        {"response_queue_format_name": "DL=77777777-7777-7777-7777-777777777777"},
        {"destination_multi_queue_format_name": (f"{DIRECT},{DIRECT}",)},
    ],
)
def test_names_without_a_place_are_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(IllegalFormatName):
        serialize(Message(**attributes))


def test_every_refusal_has_its_code() -> None:
    with pytest.raises(QueueError) as refused:
        serialize(Message(body=bytes(PACKET_SIZE_MAX)))
    assert refused.value.code == 0xC00E0027


@pytest.mark.spec("MS-MQMQ 2.2.20/2")
def test_padding_is_sent_as_zeros() -> None:
    parts = construct(Message(body=b"12345", label="x", extension=b"ab"))
    assert parts.padding == bytes(1)
    assert deserialize(b"".join(parts)).body == b"12345"
