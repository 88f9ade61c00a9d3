"""Fixed headers against the frames of [MS-MQQB] 4.1, and their flags bit by bit."""

import pytest

from posthouse.model.errors import Truncated
from posthouse.wire.layout import Flags, Layout, bits
from posthouse.wire.packet.headers import (
    BASE_HEADER,
    DEBUG_HEADER,
    MESSAGE_PROPERTIES_HEADER,
    MQF_ADDRESS_HEADER,
    MQF_SIGNATURE_HEADER,
    SECURITY_HEADER,
    SESSION_HEADER,
    SOAP_SECTION,
    TRANSACTION_HEADER,
    USER_HEADER,
    BaseFlags,
    BaseHeader,
    DebugFlags,
    SecurityFlags,
    SessionHeader,
    TransactionFlags,
    UserFlags,
)

from .vectors import USER_MESSAGE, vector

SESSION_ACK = vector("ms-mqqb/4.1.8-session-ack")
LAYOUTS = [
    BASE_HEADER,
    USER_HEADER,
    TRANSACTION_HEADER,
    SECURITY_HEADER,
    MESSAGE_PROPERTIES_HEADER,
    DEBUG_HEADER,
    SOAP_SECTION,
    MQF_ADDRESS_HEADER,
    MQF_SIGNATURE_HEADER,
    SESSION_HEADER,
]


@pytest.mark.spec("MS-MQMQ 2.2.19.1/1", "MS-MQMQ 2.2.19.1/4")
@pytest.mark.parametrize(
    ("frame", "reserved", "flags", "size", "time_to_reach_queue"),
    [
        ("3-establish-connection-request", 0xC0, 0x000B, 572, 0xFFFFFFFF),
        ("4-establish-connection-response", 0x5A, 0x000B, 572, 0xFFFFFFFF),
        ("5-connection-parameters-request", 0xC0, 0x000B, 32, 0xFFFFFFFF),
        ("6-connection-parameters-response", 0xC0, 0x000B, 32, 0xFFFFFFFF),
        ("7-user-message", 0, 0x0003, 2224, 345600),
        ("8-session-ack", 0xCD, 0x001B, 36, 0xFFFFFFFF),
    ],
)
def test_base_headers_of_the_frames_go_both_ways(
    frame: str, reserved: int, flags: int, size: int, time_to_reach_queue: int
) -> None:
    packet = vector(f"ms-mqqb/4.1.{frame}")
    header = BASE_HEADER.unpack(packet)
    assert header == (0x10, reserved, flags, 0x524F494C, size, time_to_reach_queue)
    assert header.packet_size == len(packet)
    assert BASE_HEADER.pack(header) == packet[:16]


def test_a_new_base_header_has_priority_three_and_no_time_limit() -> None:
    packed = BASE_HEADER.pack(BaseHeader(packet_size=16))
    assert packed == bytes.fromhex("10000300 4c494f52 10000000 ffffffff")


@pytest.mark.spec("MS-MQMQ 2.2.19.2/1")
def test_user_header_of_the_sample_message_goes_both_ways() -> None:
    header = USER_HEADER.unpack(USER_MESSAGE, 16)
    assert header.source_queue_manager.hex() == "d1587355509195954997b6e611ea26c6"
    assert header.queue_manager_address == bytes(16)
    assert header[2:] == (0xFFFFFFFF, 0x524F494C, 0x8EE, 0x281C00)
    assert USER_HEADER.pack(header) == USER_MESSAGE[16:64]


def test_security_header_of_the_sample_message_goes_both_ways() -> None:
    header = SECURITY_HEADER.unpack(USER_MESSAGE, 92)
    assert header == (1, 28, 0, 0, 0, 0)
    assert SECURITY_HEADER.pack(header) == USER_MESSAGE[92:108]


@pytest.mark.spec("MS-MQMQ 2.2.19.3/1")
def test_message_properties_header_of_the_sample_message_goes_both_ways() -> None:
    header = MESSAGE_PROPERTIES_HEADER.unpack(USER_MESSAGE, 136)
    assert header == (15, 15, 0, bytes(20), 8, 0, 2000, 2000, 0, 0x8004, 0x6801, 0)
    assert MESSAGE_PROPERTIES_HEADER.pack(header) == USER_MESSAGE[136:192]


@pytest.mark.spec("MS-MQMQ 2.2.20.4/1")
def test_session_header_of_the_session_ack_goes_both_ways() -> None:
    header = SESSION_HEADER.unpack(SESSION_ACK, 20)
    assert header == SessionHeader(ack_sequence_number=1, window_size=64)
    assert SESSION_HEADER.pack(header) == SESSION_ACK[20:]


@pytest.mark.spec("MS-MQMQ 2.2.20.4/1")
def test_session_header_fields_lie_where_the_table_has_them() -> None:
    raw = bytes.fromhex("0100 0200 03000000 0400 0500 0600 0700")
    assert SESSION_HEADER.unpack(raw) == (1, 2, 3, 4, 5, 6, 7)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.record.__name__)
def test_every_header_refuses_every_shorter_input(layout: Layout[BaseHeader]) -> None:
    raw = bytes(range(layout.size))
    assert layout.pack(layout.unpack(raw + b"behind")) == raw
    for size in range(layout.size):
        with pytest.raises(Truncated):
            layout.unpack(raw[:size])


def masks(flags: type[Flags]) -> dict[str, int]:
    return {
        name: field.mask << field.shift
        for name, field in vars(flags).items()
        if isinstance(field, bits)
    }


@pytest.mark.spec("MS-MQMQ 2.2.19.1/5", "MS-MQMQ 2.2.19.1/6")
def test_base_flags_bits() -> None:
    assert masks(BaseFlags) == {
        "priority": 0x0007,
        "internal": 0x0008,
        "session_header": 0x0010,
        "debug_header": 0x0020,
        "tracing": 0x0100,
    }


@pytest.mark.spec("MS-MQMQ 2.2.19.2/6", "MS-MQMQ 2.2.19.2/9")
def test_user_flags_bits() -> None:
    assert masks(UserFlags) == {
        "hop_count": 0x0000001F,
        "delivery": 0x00000060,
        "negative_journaling": 0x00000100,
        "positive_journaling": 0x00000200,
        "destination_type": 0x00001C00,
        "administration_type": 0x0000E000,
        "response_type": 0x00070000,
        "security_header": 0x00080000,
        "transaction_header": 0x00100000,
        "properties_header": 0x00200000,
        "connector_type": 0x00400000,
        "multi_queue_header": 0x00800000,
        "over_http": 0x02000000,
        "soap_header": 0x10000000,
    }


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.32/10")
def test_transaction_flags_bits() -> None:
    assert masks(TransactionFlags) == {
        "connector_guid": 0x00000001,
        "final_ack": 0x00000002,
        "first": 0x00000004,
        "last": 0x00000008,
        "transaction_number": 0x00FFFFF0,
    }


@pytest.mark.spec("MS-MQMQ 2.2.20.6/4")
def test_security_flags_bits() -> None:
    assert masks(SecurityFlags) == {
        "sender_id_type": 0x000F,
        "authenticated": 0x0010,
        "encrypted": 0x0020,
        "default_provider": 0x0040,
        "security_data": 0x0080,
        "signature_kind": 0x0F00,
    }
    assert SecurityFlags(0).replace(sender_id_type=2, encrypted=1) == 0x22
    assert SecurityFlags(0x41).sender_id_type == 1


def test_debug_flags_bits() -> None:
    assert masks(DebugFlags) == {"queue_type": 0x0003}
