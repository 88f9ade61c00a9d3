"""Stored packets as JSON: every one of them, whatever a peer put into it."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.api.sends import SendBody
from posthouse.engine.ledger.effects import Read
from posthouse.engine.ledger.records import Row
from posthouse.model.errors import QueueError, RemoteProtocolError
from posthouse.model.filters import FIELDS
from posthouse.model.message import Message, SenderIdentifierType, TxSequenceId
from posthouse.model.message_json import MessageJson
from posthouse.protocols.handlers.message_fields import ROW_FIELDS, MessageFields, RowFields
from posthouse.protocols.handlers.message_json import (
    clean,
    copy_of,
    format_name,
    message_json,
    message_of,
    readable,
)
from posthouse.security.sids import ADMINISTRATORS
from posthouse.wire.packet.message import deserialize, serialize
from posthouse.wire.packet.packet_fields import summarize
from tests.wire.strategies import messages

READ = Read(1, 7, 16, 3, 0, 1_700_000_000, 1, 2, 0, 0)


def shown(packet: bytes, read: Read = READ) -> MessageJson:
    message = message_json(read, packet, "ALPHA\\private$\\orders")
    return msgspec.json.decode(msgspec.json.encode(message), type=MessageJson)


@given(messages())
def test_any_message_is_shown_as_it_is(message: Message) -> None:
    packet = serialize(message)
    json = shown(packet)
    assert json.body == message.body
    assert json.label == clean(deserialize(packet).label)
    assert json.correlation_id == message.correlation_identifier.pack().hex()
    assert json.app_specific == message.application_tag
    assert json.lookup_id == 7
    assert (json.abort_count, json.move_count) == (1, 2)


@given(messages(), st.integers(0, 255))
def test_single_fields_are_those_of_the_json(message: Message, flags: int) -> None:
    """What a search compares is what is shown."""
    packet, read, queue = serialize(message), READ._replace(flags=flags), "ALPHA\\private$\\orders"
    json = message_json(read, packet, queue)
    row = Row(7, 16, 0, 1_700_000_000, len(packet), 1, 0, 0, 1, 2, 3, flags, 0)
    for name in (*FIELDS, "extension"):
        name = "class_" if name == "class" else name
        fields = MessageFields(read, packet, queue, lambda: json)
        assert getattr(fields, name) == getattr(json, name), name
        if name in ROW_FIELDS:
            assert getattr(RowFields(row), name) == getattr(json, name), name


def test_fields_of_broken_headers_are_those_of_the_json() -> None:
    packet = serialize(Message(label="order"))
    seen = summarize(packet)
    broken = packet[: seen.label_at + 1]  # ends in its label
    json = message_json(READ, packet, "")
    assert MessageFields(READ, broken, "", lambda: json).label == "order"


@given(messages(), st.data())
def test_any_bytes_that_can_be_stored_are_shown(message: Message, data: st.DataObject) -> None:
    """A queue holds whatever passed the first look; the headers behind it may be anything."""
    packet = bytearray(serialize(message))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(packet) - 1))
        packet[at] = data.draw(st.integers(0, 255))
    with suppress(RemoteProtocolError):
        summarize(bytes(packet))
        assert shown(bytes(packet)).id


def test_a_packet_with_broken_headers_shows_its_front() -> None:
    message = Message(body=b"body", soap_header="<h/>", soap_body="<b/>", label="label")
    packet = bytearray(serialize(message))
    while True:  # cut the tail's own length field until it does not add up
        try:
            deserialize(bytes(packet))
        except RemoteProtocolError:
            break
        packet[-1 - packet[::-1].index(b"<"[0]) - 4] = 0xFF
    found = readable(bytes(packet))
    assert found.body == b"body"
    with pytest.raises(RemoteProtocolError):
        copy_of(bytes(packet))


def test_half_surrogate_pairs_do_not_reach_json() -> None:
    packet = serialize(Message(label="AB"))
    seen = summarize(packet)
    broken = packet[: seen.label_at] + b"\x00\xd8" + packet[seen.label_at + 2 :]
    assert shown(broken).label == "\ufffdB"


def test_senders_and_transactions() -> None:
    machine = Message(
        sender_identifier=bytes(range(16)),
        sender_identifier_type=SenderIdentifierType.QUEUE_MANAGER_IDENTIFIER,
    )
    assert shown(serialize(machine)).sender == ""  # a claim is not proof
    verified = READ._replace(sender=ADMINISTRATORS)
    assert shown(serialize(machine), verified).sender == "S-1-5-32-544"
    sent = Message(
        transactional_message_sequence_identifier=TxSequenceId(1, 2),
        transaction_identifier=9,
        delivery_guarantee=1,
    )
    json = shown(serialize(sent), READ._replace(flags=0x02 | 0x04))
    assert json.delivery == "transactional"
    assert json.transaction is not None
    assert (json.transaction.id, json.transaction.first, json.transaction.last) == (9, True, False)


@given(messages())
def test_a_copy_can_be_sent_again(message: Message) -> None:
    copy = copy_of(serialize(message))
    assert copy.body == message.body
    assert not copy.signature
    assert serialize(copy)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", ""),
        (r".\private$\x", r"DIRECT=OS:ALPHA\private$\x"),
        (r"BETA\private$\x", r"DIRECT=OS:BETA\private$\x"),
        (r"DIRECT=TCP:127.0.0.1\private$\x", r"DIRECT=TCP:127.0.0.1\private$\x"),
    ],
)
def test_names_in_messages_are_format_names(text: str, name: str) -> None:
    assert format_name(text, "ALPHA") == name


@given(
    st.text(max_size=40),
    st.sampled_from(["PUBLIC=", "DIRECT=OS:", "", ".\\private$\\"]),
    st.one_of(st.none(), st.text(max_size=20)),
    st.binary(max_size=20),
    st.sampled_from([0, 8, 30, 31]),
)
def test_any_send_is_a_message_or_refused(
    text: str, prefix: str, body_text: str | None, body: bytes, body_type: int
) -> None:
    name = prefix + text
    for field in ("admin_queue", "response_queue", "trace", "label"):
        asked = {field: name, "body_text": body_text, "body": body, "body_type": body_type}
        with suppress(QueueError):
            message = message_of(SendBody(**asked), "ALPHA")  # type: ignore[arg-type]
            assert message.body == body or not body
