"""The quick look at many messages sees what a look at each of them sees."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import RemoteProtocolError
from posthouse.model.message import TxSequenceId
from posthouse.model.message_classes import ACK_RECEIVE, NORMAL
from posthouse.protocols.binary.packet_scan import look_at
from posthouse.wire.packet.packet_fields import (
    RECOVERABLE,
    PacketSummary,
    ordinals_of,
    own_summaries,
    require_properties,
    summarize,
)
from tests.protocols.binary.session_rig import user_message

ordinals = st.integers(1, 0xFFFFFFFF)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Messages that are much like each other, but not quite."""
    sequence = draw(st.sampled_from([None, None, TxSequenceId(5, 1), TxSequenceId(5, 2)]))
    return user_message(
        draw(ordinals),
        draw(st.sampled_from(["orders", "orders", "bills"])),
        recoverable=draw(st.booleans()) or sequence is not None,
        body=draw(st.sampled_from([b"same", b"sami", b"longer"])),
        label=draw(st.sampled_from(["label", "label", "lobel", ""])),
        transactional_message_sequence_identifier=sequence,
        transaction_sequence_number=draw(st.integers(1, 3)) if sequence else 0,
        message_class=draw(st.sampled_from([NORMAL, NORMAL, ACK_RECEIVE])),
    )


@st.composite
def bent(draw: st.DrawFn) -> bytes:
    """The same with a byte or two changed, as the splitter lets it pass."""
    packet = bytearray(draw(messages()))
    for _ in range(draw(st.integers(0, 2))):
        packet[draw(st.integers(12, len(packet) - 1))] = draw(st.integers(0, 255))
    return bytes(packet)


def one_by_one(packets: list[bytes]) -> tuple[list[PacketSummary], bool]:
    seen: list[PacketSummary] = []
    for packet in packets:
        try:
            look = summarize(packet)
            require_properties(look)
        except RemoteProtocolError:
            return seen, True
        if look.user_flags & 1 << 25:
            return seen, True
        seen.append(look)
    return seen, False


@given(st.lists(st.one_of(messages(), bent()), max_size=12))
def test_looks_are_those_at_each_message(packets: list[bytes]) -> None:
    seen, recoverable, error = look_at(packets)
    assert (own_summaries(packets, seen), error is not None) == one_by_one(packets)
    assert recoverable == sum(bool(look.user_flags & RECOVERABLE) for look in seen)


def test_what_lies_behind_the_numbers_is_looked_at_too() -> None:
    packets = [
        user_message(
            number,
            transactional_message_sequence_identifier=TxSequenceId(5, 1),
            transaction_sequence_number=number,
            message_class=code,
        )
        for number, code in ((1, NORMAL), (2, ACK_RECEIVE))
    ]
    assert [look.message_class for look in look_at(packets).seen] == [NORMAL, ACK_RECEIVE]


def test_messages_that_differ_in_their_numbers_only_are_looked_at_alike() -> None:
    packets = [user_message(number, body=b"body") for number in (1, 2, 0xFFFFFFFF)]
    looks = look_at(packets).seen
    assert all(look is looks[0] for look in looks)
    assert ordinals_of(packets) == [1, 2, 0xFFFFFFFF]
    assert own_summaries(packets, looks) == [summarize(packet) for packet in packets]
    rows = [
        user_message(
            number,
            body=b"body",
            transactional_message_sequence_identifier=TxSequenceId(5, 1),
            transaction_sequence_number=number,
            transaction_previous_sequence_number=number - 1,
        )
        for number in (1, 2, 3)
    ]
    looks = look_at(rows).seen
    assert all(look is looks[0] for look in looks)
    assert own_summaries(rows, looks) == [summarize(row) for row in rows]


def test_a_message_without_properties_is_refused_after_others_like_it() -> None:
    """Endpoints refuse it, and a look at each message has to do so too."""
    packet = user_message(1)
    bare = bytearray(packet)
    bare[62] &= ~0x20  # the flag for its MessagePropertiesHeader
    packets = [packet] * 5 + [bytes(bare)]
    seen, _, error = look_at(packets)
    assert "MessagePropertiesHeader" in str(error)
    assert (own_summaries(packets, seen), True) == one_by_one(packets)
