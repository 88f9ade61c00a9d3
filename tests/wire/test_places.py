"""Places in sequences, and what is to be done with a packet before it is sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.message import DeliveryGuarantee, Message, MessageId, TxSequenceId
from posthouse.wire.packet.message import deserialize, serialize
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.packet.sequence_places import Finder, place_of, placed, transaction_header_at

GUID = bytes(range(16))
NAMES = [
    r"DIRECT=OS:BRAVO\private$\far",
    r"DIRECT=TCP:10.1.1.1\q",
    r"PUBLIC=00010203-0405-0607-0809-0a0b0c0d0e0f",
    "PRIVATE=00010203-0405-0607-0809-0a0b0c0d0e0f\\00000010",
]


def packet_of(**attributes: Any) -> bytes:
    values: dict[str, Any] = {
        "identifier": MessageId(GUID, 1),
        "source_machine_identifier": GUID,
        "destination_queue_format_name": NAMES[0],
        "delivery_guarantee": DeliveryGuarantee.RECOVERABLE,
    }
    return serialize(Message(**values | attributes))


MESSAGES = st.fixed_dictionaries(
    {
        "destination_queue_format_name": st.sampled_from(NAMES),
        "administration_queue_format_name": st.sampled_from(["", NAMES[0], NAMES[3]]),
        "response_queue_format_name": st.sampled_from(["", "", NAMES[1], NAMES[3]]),
        "connector_type_identifier": st.sampled_from([bytes(16), bytes(16), GUID]),
        "transactional_message_sequence_identifier": st.sampled_from([None, TxSequenceId(5, 1)]),
        "privacy_level": st.sampled_from([0, 0, 0, 1, 3, 5]),
        "sender_identifier_type": st.sampled_from([0, 0, 1]),
        "sender_identifier": st.just(bytes(12)),
        "label": st.sampled_from(["", "hello"]),
        "body": st.binary(max_size=9),
    }
)


def message(attributes: dict[str, Any]) -> bytes:
    if not attributes["sender_identifier_type"]:
        attributes = attributes | {"sender_identifier": b""}
    return packet_of(**attributes)


@given(st.lists(MESSAGES, min_size=1, max_size=6))
def test_headers_are_found_where_a_look_finds_them(many: list[dict[str, Any]]) -> None:
    packets, finder = [message(attributes) for attributes in many], Finder()
    careful = finder.careful(packets)
    for at, (attributes, packet) in enumerate(zip(many, packets, strict=True)):
        seen, alone = summarize(packet), Finder()
        secret, care = bool(attributes["privacy_level"]), at in careful
        assert care == bool(alone.careful([packet]))
        assert alone.transaction_at == transaction_header_at(packet) == seen.transaction_at
        assert finder.transaction_at in (0, seen.transaction_at)
        assert care >= secret
        if not seen.security_at:
            assert care == secret


def test_packets_that_are_alike_have_their_headers_at_one_place() -> None:
    sequence = {"transactional_message_sequence_identifier": TxSequenceId(5, 1)}
    packets = [packet_of(body=bytes(size), **sequence) for size in (1, 20, 300)]
    finder = Finder()
    assert finder.careful(packets) == []
    assert finder.transaction_at == transaction_header_at(packets[0])


def test_a_traced_packet_needs_care() -> None:
    packet = packet_of(tracing_requested=True, tracing_queue_identifier=GUID)
    assert Finder().careful([packet_of(), packet, packet_of()]) == [1]


@given(
    MESSAGES,
    st.integers(0, (1 << 64) - 1),
    st.integers(0, 0xFFFFFFFF),
    st.integers(0, 0xFFFFFFFF),
    st.integers(0, 255),
)
def test_a_place_is_put_in_and_nothing_else(
    attributes: dict[str, Any], sequence_id: int, number: int, previous: int, marks: int
) -> None:
    attributes = attributes | {"transactional_message_sequence_identifier": TxSequenceId(5, 1)}
    packet = message(attributes)
    made = placed(packet, marks, sequence_id, number, previous)
    assert place_of(made) == (sequence_id, number, previous)
    found = deserialize(made)
    assert found.first_in_transaction == bool(marks & 4)
    assert found.last_in_transaction == bool(marks & 8)
    assert placed(made, marks, sequence_id, number, previous) is made
    at = transaction_header_at(packet)
    assert placed(packet, marks, sequence_id, number, previous, at) == made
    assert (made[:at], made[at + 20 :]) == (packet[:at], packet[at + 20 :])
    assert made[at] & 0xF3 == packet[at] & 0xF3


def test_a_message_without_a_transaction_has_no_place() -> None:
    packet = packet_of()
    assert place_of(packet) == (0, 0, 0)
    with pytest.raises(AssertionError):
        placed(packet, 0, 1, 1, 0)
