"""Packets of templates are the packets that the serializer makes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from itertools import repeat
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.client.packets import DEFAULTS, Draft, Options, PacketMaker, options
from posthouse.client.requests import QueueHandle, SendRequest
from posthouse.client.send_options import _TYPES, SendOptions
from posthouse.model.errors import (
    IllegalPropertySize,
    IllegalPropertyValue,
    InsufficientResources,
    LabelTooLong,
    QueueError,
)
from posthouse.model.guids import NULL_GUID
from posthouse.model.message import DeliveryGuarantee, Message, MessageId, TxSequenceId
from posthouse.wire.frames import frames
from posthouse.wire.frames.send_frames import PacketRun, Packets, encode_send_run, size_of
from posthouse.wire.packet.headers import PACKET_SIZE_MAX
from posthouse.wire.packet.message import deserialize, serialize
from tests.engine.rig import SEND, Rig

DESTINATION = r"DIRECT=OS:ALPHA\private$\orders"
OTHER = "0123456789abcdef0123456789abcdef01234567"
labels = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=100)


def maker() -> PacketMaker:
    return PacketMaker(DESTINATION, "ALPHA")


@given(
    st.binary(max_size=300),
    labels,
    st.binary(max_size=50),
    st.integers(0, 7),
    st.integers(0, 0xFFFFFFFF),
    st.booleans(),
    st.booleans(),
)
def test_a_template_makes_the_packet_of_the_serializer(
    body: bytes,
    label: str,
    extension: bytes,
    priority: int,
    tag: int,
    recoverable: bool,
    transactional: bool,
) -> None:
    how = Options(label, priority, recoverable, tag, extension)
    message = Message(
        body=body,
        label=label,
        extension=extension,
        priority=priority,
        application_tag=tag,
        destination_queue_format_name=DESTINATION,
    )
    if recoverable or transactional:
        message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
    if transactional:
        message.transactional_message_sequence_identifier = TxSequenceId(0, 0)
    made = maker()
    for _ in range(2):  # the second one comes of the template that the first one left
        assert made.packet(body, how, transactional) == serialize(message)


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_many_packets_are_the_single_ones(bodies: list[bytes]) -> None:
    made = maker()
    assert list(made.packets(bodies, DEFAULTS, False)) == [
        made.packet(body, DEFAULTS, False) for body in bodies
    ]


def test_every_option_arrives() -> None:
    how = options(
        {
            "label": "an order",
            "priority": 5,
            "recoverable": True,
            "app_specific": 7,
            "extension": b"ext",
            "journal": True,
            "dead_letter": True,
            "admin_queue": r".\private$\acks",
            "ack": "pos-arrival,neg-receive",
            "response_queue": r"BETA\private$\answers",
            "correlation": OTHER,
            "time_to_reach_queue": 60,
            "time_to_be_received": 90,
            "trace": "PUBLIC=01234567-89ab-cdef-0123-456789abcdef",
            "connector_type": "11234567-89ab-cdef-0123-456789abcdef",
            "body_type": 30,
        }
    )
    message = deserialize(maker().packet("text", how, False))
    assert message.label == "an order"
    assert message.priority == 5
    assert message.delivery_guarantee == DeliveryGuarantee.RECOVERABLE
    assert message.application_tag == 7
    assert message.extension == b"ext"
    assert message.positive_journaling_requested
    assert message.negative_journaling_requested
    assert message.administration_queue_format_name == r"DIRECT=OS:ALPHA\private$\acks"
    assert message.acknowledgements_requested == 0x09
    assert message.response_queue_format_name == r"DIRECT=OS:BETA\private$\answers"
    assert message.correlation_identifier.pack().hex() == OTHER
    assert (message.time_to_reach_queue, message.time_to_be_received) == (60, 90)
    assert message.tracing_requested
    assert message.connector_type_identifier[:4] == bytes.fromhex("67452311")
    assert (message.body, message.body_type) == (b"text", 30)


def test_format_names_stay_what_they_are() -> None:
    name = r"DIRECT=TCP:127.0.0.1\private$\answers"
    message = deserialize(maker().packet(b"", Options(response_queue=name), False))
    assert message.response_queue_format_name == name


def test_a_message_identifier_is_a_correlation() -> None:
    identifier = MessageId(bytes(range(16)), 77)
    for given_id in (str(identifier), identifier.pack(), identifier.pack().hex()):
        message = deserialize(maker().packet(b"", Options(correlation=given_id), False))
        assert message.correlation_identifier == identifier


def test_drafts_have_options_of_their_own() -> None:
    drafts: list[Any] = [b"a", Draft(b"b", label="two", priority=7), {"c": 3}, "d"]
    packets = maker().packets(drafts, Options(label="all"), False)
    messages = [deserialize(packet) for packet in packets]
    assert [message.label for message in messages] == ["all", "two", "all", "all"]
    assert [message.priority for message in messages] == [3, 7, 3, 3]
    assert [message.body_type for message in messages] == [0, 0, 0, 8]


def test_templates_do_not_pile_up() -> None:
    made = maker()
    for number in range(1000):
        made.packet(b"", Options(label=str(number)), False)
    assert len(made._templates) <= 256


def test_the_largest_packet_and_one_that_is_larger() -> None:
    made = maker()
    small = made.packet(b"", DEFAULTS, False)
    body = bytes(PACKET_SIZE_MAX - len(small))
    assert len(made.packet(body, DEFAULTS, False)) == PACKET_SIZE_MAX
    with pytest.raises(InsufficientResources, match="a packet holds"):
        made.packet(body + b"1", DEFAULTS, False)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        (Options(label="x" * 250), LabelTooLong),
        (Options(label="a\0b"), IllegalPropertyValue),
        (Options(priority=8), IllegalPropertyValue),
        (Options(ack=("sometimes",)), IllegalPropertyValue),
        (Options(correlation="zz"), IllegalPropertyValue),
        (Options(correlation=b"short"), IllegalPropertySize),
        (Options(trace=r".\private$\reports"), IllegalPropertyValue),
        (Options(app_specific=-1), IllegalPropertyValue),
        (Options(admin_queue="no name"), QueueError),
        (Options(connector_type="no guid"), QueueError),
    ],
)
def test_options_that_cannot_be_are_refused(how: Options, error: type[QueueError]) -> None:
    with pytest.raises(error):
        maker().packet(b"", how, False)


NEW_NAMES: SendOptions = {
    "delivery": "recoverable",
    "journal": ["positive", "negative"],
    "acknowledge": ["pos-arrival", "neg-receive"],
    "correlation_id": OTHER,
}
OLD_NAMES: SendOptions = {
    "recoverable": True,
    "journal": True,
    "dead_letter": True,
    "ack": "pos-arrival,neg-receive",
    "correlation": OTHER,
}


def test_options_have_the_names_of_fields_and_older_ones() -> None:
    assert options(NEW_NAMES) == options(OLD_NAMES)
    assert options({"journal": "negative"}) == options({"dead_letter": True})
    assert options({"journal": []}) == options({"journal": False, "dead_letter": False})
    assert options({"delivery": "express"}) == DEFAULTS


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"delivery": "express", "recoverable": True}, "delivery and recoverable are one option"),
        ({"acknowledge": [], "ack": "pos-arrival"}, "acknowledge and ack are one option"),
        ({"correlation_id": OTHER, "correlation": OTHER}, "correlation_id and correlation are one"),
        ({"journal": ["positive"], "dead_letter": True}, "journal with words and dead_letter are"),
        ({"delivery": "durable"}, "delivery takes express, recoverable, transactional, not 'dur"),
        ({"delivery": ["express"]}, "delivery takes express"),
    ],
)
def test_an_option_under_two_names_and_an_unknown_delivery_are_refused(
    how: SendOptions, words: str
) -> None:
    with pytest.raises(TypeError, match=f"^{words}"):
        options(how)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("priority", "high", "priority takes a whole number from 0 to 7, not 'high'"),
        ("priority", 2.5, "priority takes a whole number"),
        ("priority", True, "priority takes a whole number"),
        ("label", 5, "label takes text, not 5"),
        ("label", ["x"], "label takes text"),
        ("delivery", 1, "delivery takes express"),
        ("recoverable", "yes", "recoverable takes True or False"),
        ("journal", 2.5, "journal takes a list of words"),
        ("journal", [5], "journal takes a list of words"),
        ("ack", 5, "acknowledge takes a list of words"),
        ("acknowledge", [None], "acknowledge takes a list of words"),
        ("correlation_id", 5, "correlation takes 20 bytes"),
        ("extension", "text", "extension takes bytes"),
        ("extension", bytearray(b"x"), "extension takes bytes"),
        ("admin_queue", 5, "admin_queue takes text"),
        ("response_queue", b"x", "response_queue takes text"),
        ("time_to_reach_queue", "5s", "time_to_reach_queue takes whole seconds or a timedelta"),
        ("time_to_be_received", 1.5, "time_to_be_received takes whole seconds or a timedelta"),
        ("trace", 5, "trace takes text"),
        ("connector_type", 5, "connector_type takes text"),
        ("body_type", "8", "body_type takes a whole number"),
        ("app_specific", "5", "app_specific takes a whole number"),
        ("sign", "no", "sign takes True or False"),
        ("encrypt", None, "encrypt takes True or False"),
        ("traceparent", 5, "traceparent takes text"),
        ("tracestate", 5, "tracestate takes text"),
        ("dead_letter", "no", "dead_letter takes True or False"),
    ],
)
def test_a_wrong_type_names_its_option(name: str, value: object, words: str) -> None:
    how: Any = {name: value}
    made = PacketMaker(DESTINATION, "alpha", protection=True)
    for send in (
        lambda: made.packet_of(b"", how, False),
        lambda: made.packet_of("text", how, False),
        lambda: list(made.packets([b"", {}], options(how), False)),
        lambda: list(made.packets([Draft(b"", **how)], DEFAULTS, False)),
    ):
        with pytest.raises(TypeError, match=f"^{words}"):
            send()


def test_every_option_has_a_type_that_is_checked() -> None:
    assert set(Options._fields) == {"ack", *_TYPES}
    older = {"delivery", "acknowledge", "correlation_id"}
    assert set(SendOptions.__annotations__) == {*Options._fields, *older}


def test_times_may_be_timedeltas() -> None:
    how = Options(
        time_to_reach_queue=timedelta(minutes=1), time_to_be_received=timedelta(seconds=89.2)
    )
    message = deserialize(maker().packet(b"", how, False))
    assert (message.time_to_reach_queue, message.time_to_be_received) == (60, 90)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match=r"no option 'labell'; did you mean label\?"):
        options({"labell": "x"})  # type: ignore[typeddict-unknown-key]
    with pytest.raises(TypeError, match="no option 'zzz'; there are label, priority, "):
        Draft(b"", zzz=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize(
    ("attribute", "default"),
    [
        pytest.param(attribute, default, marks=pytest.mark.spec(f"MS-MQDMPR 3.1.1.12/{rule}"))
        for rule, attribute, default in [
            (5, "application_deadletter_queue", ""),
            (7, "message_class", 0),
            (8, "privacy_level", 0),
            (10, "authentication_level", 0),
            (13, "delivery_guarantee", 0),
            (15, "tracing_requested", False),
            (15, "tracing_queue_identifier", NULL_GUID),
            (16, "priority", 3),
            (22, "response_queue_format_name", ""),
            (22, "response_multi_queue_format_name", ()),
            (22, "administration_queue_format_name", ""),
            (22, "administration_multi_queue_format_name", ()),
            (22, "destination_multi_queue_format_name", ()),
            (26, "application_tag", 0),
            (26, "body_type", 0),
            (26, "body", b""),
            (26, "extension", b""),
            (26, "label", ""),
            (28, "correlation_identifier", MessageId(NULL_GUID, 0)),
            (30, "acknowledgements_requested", 0),
            (38, "time_to_reach_queue", 345_600),
            (39, "time_to_be_received", 0xFFFFFFFF),
            (40, "hash_algorithm", 0x8004),
            (41, "encryption_algorithm", 0x6801),
            (43, "administration_queue_type", 0),
            (43, "response_queue_type", 0),
            (43, "sender_identifier_type", 1),
            (46, "connector_type_identifier", NULL_GUID),
            (49, "transactional_message_sequence_identifier", None),
        ]
    ],
)
def test_what_an_application_does_not_set_is_stored_with_the_documents_default(
    attribute: str, default: object, transactional: bool
) -> None:
    """A body alone, as a client sends it, read from the store of the queue manager."""
    rig = Rig()
    rig.create("orders", transactional=transactional)
    opened = rig.open("orders", SEND)
    packet = maker().packet(b"", DEFAULTS, transactional)
    transaction = rig.begin() if transactional else None
    rig.run(lambda m: m.messages.sending.send_packets(opened, [packet], transaction))
    if transaction is not None:
        rig.commit(transaction)
    (message,) = rig.messages("orders")
    changed = {"priority": 0, "delivery_guarantee": 1} if transactional else {}
    if attribute == "transactional_message_sequence_identifier" and transactional:
        assert message.is_transactional
    else:
        assert getattr(message, attribute) == changed.get(attribute, default)


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_trace_context_goes_into_the_extension() -> None:
    """Given, or that of the span that is active."""
    assert options({"traceparent": PARENT}).extension == b'{"traceparent":"%b"}' % PARENT.encode()
    with pytest.raises(IllegalPropertyValue, match="looks like"):
        options({"traceparent": "00-1-2-3"})
    with pytest.raises(IllegalPropertyValue, match="looks like"):
        options({"tracestate": "a=1"})
    with pytest.raises(IllegalPropertyValue, match="no place"):
        options({"traceparent": PARENT, "extension": b"\x00\x01"})


def test_the_active_span_is_taken_over() -> None:
    """Without a word of the program, and never where the extension is something else."""
    from opentelemetry import trace
    from opentelemetry.trace.span import TraceState

    context = trace.SpanContext(
        0x0AF7651916CD43DD8448EB211C80319C,
        0xB7AD6B7169203331,
        False,
        trace.TraceFlags(1),
        TraceState([("a", "1")]),
    )
    assert options({}) == DEFAULTS
    with trace.use_span(trace.NonRecordingSpan(context)):
        made = options({})
        assert made.extension == b'{"traceparent":"%b","tracestate":"a=1"}' % PARENT.encode()
        assert Draft(b"").options == made
        assert options({"extension": b"\x00"}).extension == b"\x00"
        other = PARENT.replace("0af7", "1bf7")
        assert other.encode() in options({"traceparent": other}).extension
    assert options({}) == DEFAULTS


# -- packets for frames

BIG = b"b" * 100_000  # three of them are more than a frame holds
ALIKE = [b"%04d" % number for number in range(20)]


def as_packets(batch: Packets) -> list[bytes]:
    """The packets of a frame."""
    if isinstance(batch, PacketRun):
        frame = encode_send_run(1, 2, 3, 4, batch)
        return frames.decode_send(frame[frames.HEADER_SIZE :]).packets
    return batch


@pytest.mark.parametrize("given_as", [list, tuple, iter])
@pytest.mark.parametrize(
    ("bodies", "count_max", "sizes"),
    [
        ([], 5, []),
        (ALIKE, 256, [20]),
        (ALIKE, 9, [9, 9, 2]),
        (ALIKE, 1, [1] * 20),
        ([*ALIKE, b"of another size", *ALIKE], 256, [41]),
        ([*ALIKE, "text", {"a": 1}, bytearray(b"0123"), Draft(b"0123", label="own")], 22, [22, 2]),
        (["text", *ALIKE], 256, [21]),
        ([BIG] * 7, 256, [3, 3, 1]),
        ([b"small", *[BIG] * 7], 256, [4, 3, 1]),
    ],
    ids=[
        "none",
        "one frame",
        "frames of nine",
        "one by one",
        "another size",
        "other types",
        "text first",
        "large",
        "small, then large",
    ],
)
def test_batches_hold_the_packets_of_all_bodies_in_order(
    bodies: list[Any], count_max: int, sizes: list[int], given_as: Callable[[Any], Any]
) -> None:
    how = Options(label="all")
    batches = [*maker().batches(given_as(bodies), how, False, count_max)]
    assert [len(batch) for batch in batches] == sizes
    packets = [packet for batch in batches for packet in as_packets(batch)]
    assert packets == [*maker().packets(bodies, how, False)]


def test_alike_bodies_are_a_run() -> None:
    for bodies in (ALIKE, iter(ALIKE), repeat(b"body", 20)):
        (batch,) = maker().batches(bodies, DEFAULTS, True, 256)
        assert isinstance(batch, PacketRun)


def test_a_run_is_of_bytes_alone() -> None:
    """Others of the same length are other bytes, or change after they were given."""
    changing = bytearray(b"0020")
    bodies: Any
    for bodies in ([*ALIKE, changing], iter([*ALIKE, changing])):
        (batch,) = maker().batches(bodies, DEFAULTS, False, 256)
        changing[:] = b"9999"
        assert deserialize(as_packets(batch)[-1]).body == b"0020"
        changing[:] = b"0020"


def test_no_more_bodies_are_taken_than_a_frame_holds() -> None:
    left = iter([BIG] * 7)
    batches = maker().batches(left, DEFAULTS, False, 256)
    next(iter(batches))
    assert len([*left]) == 4


# -- options as keywords


@pytest.fixture(params=[False, True], ids=["alone", "with OpenTelemetry"])
def telemetry(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that has loaded it or not; no span is active."""
    if request.param:
        import opentelemetry.trace as loaded

        monkeypatch.setitem(sys.modules, "opentelemetry.trace", loaded)
    else:
        monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)


@pytest.mark.usefixtures("telemetry")
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"recoverable": True, "label": "a"},
        {"label": "b", "priority": 7},
        {"ack": ["pos-arrival"]},
        {"body_type": 8},
        {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"},
    ],
    ids=str,
)
@pytest.mark.parametrize("body", [b"bytes", "text"])
def test_keywords_that_come_again_make_the_same_packet(how: SendOptions, body: str | bytes) -> None:
    made = maker()
    for transactional in (False, True, False, True):
        expected = maker().packet(body, options(how), transactional)
        assert made.packet_of(body, how, transactional) == expected


@pytest.mark.usefixtures("telemetry")
def test_an_unknown_keyword_is_refused_every_time() -> None:
    made, how = maker(), cast(SendOptions, {"lable": "x"})
    for _ in range(2):
        with pytest.raises(TypeError, match="label"):
            made.packet_of(b"", how, False)


# -- large bodies


@pytest.mark.parametrize("how", [Options(), Options(label="large", extension=b"ext", sign=True)])
@pytest.mark.parametrize("size", [frames.LARGE, frames.LARGE + 1, 300_002])
def test_a_large_body_is_sent_as_it_is(how: Options, size: int) -> None:
    """It is not copied into a packet; small ones are, which costs less than another buffer."""
    body, made = bytes([7]) * size, PacketMaker(DESTINATION, "ALPHA", protection=True)
    for packets in (made.alone(body, how, True), *made.batches([body], how, True, 9)):
        handle = QueueHandle(r".\private$\orders", SEND)
        parts = SendRequest(handle, packets, size_of(packets), None).parts()
        assert [part for part in parts if part is body]
        assert as_packets(packets) == [made.packet(body, how, True)]
    assert type(made.alone(body[: frames.LARGE - 1], how, True)) is list


def test_a_large_body_that_may_change_is_copied_when_it_is_sent() -> None:
    body = bytearray(frames.LARGE)
    packets = maker().alone(body, DEFAULTS, False)
    body[:] = b"x" * frames.LARGE
    assert deserialize(as_packets(packets)[0]).body == bytes(frames.LARGE)


def test_a_large_body_that_no_packet_holds_is_refused() -> None:
    with pytest.raises(InsufficientResources):
        maker().alone(bytes(PACKET_SIZE_MAX), DEFAULTS, False)
