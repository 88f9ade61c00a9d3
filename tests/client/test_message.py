"""Messages as readers get them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.client.message import Message
from posthouse.client.packets import Options, PacketMaker
from posthouse.engine.ledger.records import FLAG_AUTHENTICATED, FLAG_EXPRESS, FLAG_TRANSACTIONAL
from posthouse.model.message import Message as Content
from posthouse.security.sids import ADMINISTRATORS
from posthouse.wire.frames.frames import MARK_IN_DOUBT, Delivered
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.patch import stamp
from tests.wire.strategies import messages

QUEUE = r".\private$\orders"
GUID = bytes(range(16))


def message(body: object = b"body", *, flags: int = 0, marks: int = 0, **how: object) -> Message:
    maker = PacketMaker(r"DIRECT=OS:ALPHA\private$\orders", "ALPHA")
    packet = maker.packet(body, Options(**how), False)  # type: ignore[arg-type]
    packet = stamp(packet, source_guid=GUID, ordinal=9, sent_time=1_700_000_000)
    return Message(
        Delivered(77, 1_700_000_005, 3, 0, 1, 2, 6, flags, marks, ADMINISTRATORS, packet), QUEUE
    )


def test_what_the_packet_says() -> None:
    found = message(
        label="an order",
        app_specific=4,
        extension=b"e",
        admin_queue=r".\private$\acks",
        ack=("pos-receive",),
        response_queue=r".\private$\answers",
        correlation="ab" * 20,
        time_to_be_received=60,
    )
    assert found.body == b"body"
    assert found.body_size == 4
    assert found.body_type == 0
    assert found.label == "an order"
    assert found.app_specific == 4
    assert found.extension == b"e"
    assert found.destination == r"DIRECT=OS:ALPHA\private$\orders"
    assert found.admin_queue == r"DIRECT=OS:ALPHA\private$\acks"
    assert found.response_queue == r"DIRECT=OS:ALPHA\private$\answers"
    assert found.acknowledge == ["pos-receive"]
    assert found.correlation_id == "ab" * 20
    assert found.time_to_be_received == 60
    assert found.id == "03020100-0504-0706-0809-0a0b0c0d0e0f\\9"
    assert found.sent_time == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert not found.encrypted
    assert b"ebody" in found.packet


def test_what_the_queue_manager_says() -> None:
    found = message(flags=FLAG_EXPRESS | FLAG_AUTHENTICATED)
    assert found.lookup_id == 77
    assert found.arrived_time == datetime(2023, 11, 14, 22, 13, 25, tzinfo=UTC)
    assert found.priority == 6
    assert found.message_class == 0
    assert found.class_name == "normal"
    assert (found.abort_count, found.move_count) == (1, 2)
    assert found.sender == "S-1-5-32-544"
    assert found.authenticated
    assert found.queue == QUEUE
    assert "77" in repr(found)


@pytest.mark.parametrize(
    ("flags", "delivery"),
    [(FLAG_EXPRESS, "express"), (0, "recoverable"), (FLAG_TRANSACTIONAL, "transactional")],
)
def test_how_it_was_delivered(flags: int, delivery: str) -> None:
    assert message(flags=flags).delivery == delivery


@pytest.mark.parametrize(("marks", "in_doubt"), [(0, False), (MARK_IN_DOUBT, True)])
def test_whether_somebody_may_have_had_it(marks: int, in_doubt: bool) -> None:
    assert message(marks=marks).in_doubt is in_doubt


def test_text_and_json() -> None:
    assert message("grüße").text == "grüße"
    assert message({"a": [1, None]}).json() == {"a": [1, None]}
    assert message('{"a": 1}').json() == {"a": 1}
    with pytest.raises(ValueError, match="utf-8"):
        _ = message(b"\xff\xfe\xff").text
    with pytest.raises(ValueError, match="JSON"):
        message(b"{").json()


def test_a_message_without_limits() -> None:
    found = message()
    assert found.time_to_be_received is None
    assert found.admin_queue == found.response_queue == ""
    assert found.correlation_id == "00" * 20


def test_as_json() -> None:
    shown = message(label="an order").to_json()
    assert (shown.id, shown.lookup_id) == (message().id, 77)
    assert (shown.label, shown.queue, shown.body) == ("an order", QUEUE, b"body")


@given(st.lists(st.tuples(messages(), st.binary(max_size=9)), min_size=1, max_size=4), st.data())
def test_the_body_is_found_whatever_came_before(
    some: list[tuple[Content, bytes]], data: st.DataObject
) -> None:
    packets = []
    for content, body in some:
        packets.append(serialize(content))
        content.body = body  # alike but for the body, and of the same length or not
        packets.append(serialize(content))
    for packet in data.draw(st.permutations(packets)):
        delivered = Delivered(1, 0, 0, 0, 0, 0, 3, 0, 0, b"", packet)
        assert Message(delivered, "orders").body == Packet(packet).body


def test_what_is_in_it() -> None:
    found = message(b"\xe0", body_type=30)
    assert (found.decoded().value, found.decoded("1251").value) == ("à", "а")
    headers = b'{"rbs2-msg-type":"A.B, C","rbs2-corr-id":"7"}'
    bus = message(b"[1]", extension=headers).decoded()
    assert (bus.format, bus.value, bus.to_json()["message_type"]) == ("rebus", [1], "A.B")


@pytest.mark.parametrize("copied", [deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_message_of_a_large_answer_can_be_handed_to_another_process(
    copied: Callable[[Message], Message],
) -> None:
    """Its packet is a part of the answer's buffer until somebody asks for it."""
    small = message(b"x" * 100_000, label="an order")
    packet = memoryview(bytearray(small.packet)).toreadonly()
    large = Message(small._delivered._replace(packet=packet), QUEUE)  # type: ignore[arg-type]
    found = copied(large)
    assert (found.body, found.label, found.queue) == (b"x" * 100_000, "an order", QUEUE)
    assert found.packet == large.packet == small.packet
