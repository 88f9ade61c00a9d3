"""Batches: what goes together, and that each message of one is treated as it would be alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import RemoteProtocolError
from posthouse.model.message import DeliveryGuarantee, Message, TxSequenceId
from posthouse.wire.packet.batch import Batch, split
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet import patch, stamp
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.packet.sequence_places import placed

from .strategies import messages
from .vectors import SEALED

OURS = bytes(range(100, 116))
ORDERS = r"DIRECT=OS:ALPHA\private$\orders"
TRANSACTIONAL: dict[str, Any] = {
    "transaction_identifier": 1,
    "transactional_message_sequence_identifier": TxSequenceId(5, 6),
    "delivery_guarantee": DeliveryGuarantee.RECOVERABLE,
}


def packet_of(**attributes: Any) -> bytes:
    attributes.setdefault("destination_queue_format_name", ORDERS)
    return serialize(Message(**attributes))


@given(st.lists(messages(), min_size=1, max_size=3), st.data())
def test_batches_have_all_packets_in_order_as_each_is_seen(
    some: list[Message], data: st.DataObject
) -> None:
    packets: list[bytes] = []
    for message in some:
        packet = bytearray(serialize(message))
        packets.append(bytes(packet))
        for _ in range(data.draw(st.integers(0, 4))):  # alike, or with a byte that is another
            if data.draw(st.booleans()):
                packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.integers(0, 255))
            packets.append(bytes(packet))
    try:
        looks = [summarize(packet) for packet in packets]
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            split(packets)
        return
    batches = split(packets)
    assert [packet for batch in batches for packet in batch.packets] == packets
    assert [seen for batch in batches for seen in batch.looks] == looks
    for batch in batches:
        assert batch.size == sum(batch.sizes) == sum(seen.packet_size for seen in batch.looks)
        priorities = bytes([seen.priority for seen in batch.looks])
        assert batch.priorities in (None, priorities)
        for seen in batch.looks:  # what differs is a column, and nothing else
            columns = "packet_size priority base_flags source_guid address_guid sent_time ordinal"
            spans = "label_at label_size extension_at extension_size body_at body_size"
            same = {name: getattr(batch.head, name) for name in f"{columns} {spans}".split()}
            assert seen._replace(**same) == batch.head
            assert seen.base_flags & ~7 == batch.head.base_flags & ~7


@given(st.lists(messages(), min_size=1, max_size=4), st.integers(0, 0xFFFFFFFF), st.booleans())
def test_a_batch_is_stamped_as_each_of_its_packets(
    some: list[Message], reach: int, in_transaction: bool
) -> None:
    packets = [serialize(message) for message in some for _ in range(2)]
    for batch in split(packets):
        number = 0xABCDE if in_transaction and batch.head.transaction_at else None
        ordinals = list(range(7, 7 + len(batch)))
        whole, reach_before = batch.packets, batch.head.time_to_reach_queue
        batch.stamp(OURS, ordinals, 1234, reach, number)
        for before, after, ordinal in zip(whole, batch.packets, ordinals, strict=True):
            limited = min(summarize(before).time_to_reach_queue, reach)
            expected = patch(before, time_to_reach_queue=limited)
            assert after == stamp(
                expected,
                source_guid=OURS,
                ordinal=ordinal,
                sent_time=1234,
                transaction_number=number,
            )
        assert (batch.ordinals, batch.sent_time) == (ordinals, 1234)
        assert batch.head.time_to_reach_queue == min(reach_before, reach)
        assert [one.packets for one in batch.each()] == [[packet] for packet in batch.packets]
        assert {one.sent_time for one in batch.each()} == {1234}


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_batch_gets_its_places_in_a_sequence_one_after_the_other(count: int) -> None:
    packets = [packet_of(body=bytes([n]), **TRANSACTIONAL) for n in range(count)]
    (batch,) = split(packets)
    found = batch.placed(99, 7, 6, 4, 8).packets
    for at, packet in enumerate(packets):
        marks = (4 if at == 0 else 0) | (8 if at == count - 1 else 0)
        assert found[at] == placed(packet, marks, 99, 7 + at, 6 + at)


@pytest.mark.parametrize(
    "change",
    [
        {"delivery_guarantee": DeliveryGuarantee.RECOVERABLE},
        TRANSACTIONAL,
        {"negative_journaling_requested": True},
        {"positive_journaling_requested": True},
        {"acknowledgements_requested": 2, "administration_queue_format_name": ORDERS},
        {"time_to_be_received": 7},
        {"time_to_reach_queue": 7},
        {"privacy_level": 1},
        {"destination_queue_format_name": ORDERS + "2"},
        {"response_queue_format_name": ORDERS},
        {"tracing_requested": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_decides_the_way_of_a_message_parts_batches(change: dict[str, Any]) -> None:
    plain, other = packet_of(), packet_of(**change)
    assert [len(batch) for batch in split([plain, plain, other, plain])] == [2, 1, 1]


@pytest.mark.parametrize("label", ["", "another"])
def test_the_machine_that_private_names_are_of_parts_batches(label: str) -> None:
    plain, other = packet_of(), packet_of(label=label)
    other = other[:32] + bytes(range(16)) + other[48:]
    assert [len(batch) for batch in split([plain, plain, other, other])] == [2, 2]


def test_sizes_priorities_and_labels_are_columns() -> None:
    packets = [packet_of(body=b"x" * n, label="l" * (n % 3), priority=n % 8) for n in range(9)]
    (batch,) = split(packets)
    assert batch.priorities == bytes([n % 8 for n in range(9)])
    assert list(batch.sizes) == [len(packet) for packet in packets]


@pytest.mark.parametrize(
    "packet",
    [
        packet_of(positive_journaling_requested=True),
        packet_of(acknowledgements_requested=1, administration_queue_format_name=ORDERS),
        packet_of(time_to_be_received=0),
        SEALED,
    ],
    ids=["journaled", "acknowledged on arrival", "expires at once", "secured"],
)
def test_a_message_with_consequences_at_once_or_a_signature_is_alone(packet: bytes) -> None:
    assert [len(batch) for batch in split([packet] * 3)] == [1, 1, 1]


@pytest.mark.parametrize("place", [1, 63, 64, 65, 128, 199])
def test_a_packet_among_many_that_are_alike_is_seen_as_it_is(place: int) -> None:
    alike, other = packet_of(body=b"same"), packet_of(body=b"another", priority=7)
    packets = [alike] * place + [other] + [alike] * (199 - place)
    (batch,) = split(packets)
    assert batch.looks == [summarize(packet) for packet in packets]
    assert [seen is batch.looks[0] for seen in batch.looks].count(False) >= 1


@pytest.mark.parametrize("place", [1, 63, 64, 130])
@pytest.mark.parametrize("change", [lambda p: p[:-1], lambda p: p + b"!"])
def test_a_packet_of_another_length_than_it_states_is_refused_among_many(
    place: int, change: Callable[[bytes], bytes]
) -> None:
    packets = [packet_of(body=b"same")] * 131
    packets[place] = change(packets[place])
    with pytest.raises(RemoteProtocolError):
        split(packets)


def test_a_client_that_sends_nothing_makes_no_batch() -> None:
    assert split([]) == []


def test_a_single_message_is_a_batch_as_its_packet_has_it() -> None:
    packet = packet_of(body=b"alone")
    seen = summarize(packet)
    batch = Batch.of(packet)
    assert (batch.packets, batch.looks, batch.ordinals) == ([packet], [seen], (seen.ordinal,))
    assert Batch.of(packet, seen._replace(ack_flags=3)).head.ack_flags == 3
    data = Batch.of_data(b"12345")
    assert (data.packets, data.size, data.head.span) == ([b"12345"], 5, (0, 0, 0, 0, 0, 5))


def test_a_batch_counts_what_it_takes_over() -> None:
    first, second = Batch.of(packet_of(body=b"one")), Batch.of(packet_of(body=b"two"))
    first.extend(second)
    assert (len(first), first.count, len(first.packets), len(first.ordinals)) == (2, 2, 2, 2)
    assert [each.packets for each in first.each()] == [[one] for one in first.packets]


@given(messages(), st.booleans())
def test_a_packet_in_the_frame_it_came_in_is_stamped_as_any(
    message: Message, in_transaction: bool
) -> None:
    """It is copied there and nowhere before."""
    packet = serialize(message)
    number = 5 if in_transaction and summarize(packet).transaction_at else None
    stamped = []
    for data in (packet, memoryview(b"frame" + packet + b"next")[5 : 5 + len(packet)]):
        (batch,) = split([data])  # type: ignore[list-item]
        assert batch.packets[0] is data
        batch.stamp(OURS, [7], 1_000, 100, number)
        assert type(batch.packets[0]) is bytes
        stamped.append((batch.packets, batch.head, batch.size))
    assert stamped[0] == stamped[1]


def test_a_batch_takes_its_packet_out_of_the_frame() -> None:
    packet = packet_of(body=b"x" * 100)
    (batch,) = split([memoryview(packet)])  # type: ignore[list-item]
    batch.own()
    assert type(batch.packets[0]) is bytes
    assert batch.packets == [packet]
    whole = split([packet])[0]
    whole.own()
    assert whole.packets[0] is packet
