"""Packets whose security parts or body change their size."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.model.errors import InsufficientResources
from posthouse.model.message import MESSAGE_SIZE_MAX, Message
from posthouse.wire.packet.headers import SecurityFlags
from posthouse.wire.packet.message import deserialize, serialize
from posthouse.wire.packet.optional_headers import Provider, Security
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.protection import (
    signature_of_list,
    with_list_signature,
    with_protection,
)
from tests.wire.strategies import messages

items = st.binary(max_size=30)
securities = st.builds(
    Security,
    st.integers(0, 0xFFFF).map(SecurityFlags),
    items,
    items,
    items,
    items,
    st.none() | st.builds(Provider, st.integers(0, 0xFFFFFFFF), st.text("abc", max_size=5)),
)


@given(messages(), securities, st.none() | st.binary(max_size=70))
@settings(max_examples=50)
def test_everything_else_of_the_packet_stays(
    message: Message, security: Security, body: bytes | None
) -> None:
    view = Packet(serialize(message))
    assert view.properties is not None
    made = Packet(with_protection(view.data, view.summary, security, view.properties, body))
    made.check()
    assert made.security == security
    assert made.body == (view.body if body is None else body)
    assert made.properties is not None
    assert made.properties.message_size == made.properties.allocation_body_size == len(made.body)
    assert made.tail.end == made.summary.packet_size == len(made.data)
    for part in ("names", "transaction", "label", "extension", "tracing_queue", "soap"):
        assert getattr(made, part) == getattr(view, part)
    assert made.multi_queue == view.multi_queue
    assert made.identifier == view.identifier


@given(messages(), st.binary(max_size=70))
@settings(max_examples=50)
def test_list_signature_replaces_the_one_that_was_there(message: Message, signature: bytes) -> None:
    message.destination_multi_queue_format_name = ("DIRECT=OS:a\\private$\\x",)
    view = Packet(serialize(message))
    made = with_list_signature(view, signature)
    assert signature_of_list(Packet(made)) == signature
    message.multiple_destination_signature = signature
    assert deserialize(made) == deserialize(serialize(message))


def test_packet_that_would_be_too_large_is_refused() -> None:
    view = Packet(serialize(Message(body=bytes(MESSAGE_SIZE_MAX - 300), destination_queue_type=0)))
    assert view.properties is not None
    with pytest.raises(InsufficientResources):
        with_protection(
            view.data, view.summary, Security(signature=bytes(300)), view.properties, None
        )
