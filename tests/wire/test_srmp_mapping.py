"""[MC-MQSRM] 3.1.5.1.1: what a message becomes inside the queue manager."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket
from posthouse.model.guids import NULL_GUID
from posthouse.model.message import (
    ACK_NEG_RECEIVE,
    ACK_POS_ARRIVAL,
    ACK_POS_RECEIVE,
    DeliveryGuarantee,
    Message,
)
from posthouse.wire.packet.headers import INFINITE, PACKET_SIZE_MAX, SecurityFlags
from posthouse.wire.packet.message import deserialize
from posthouse.wire.packet.optional_headers import Security
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.mapping import packet_of
from posthouse.wire.srmp.mime_parts import Parts, read_parts, write_parts
from posthouse.wire.srmp.stored_messages import came_over_http, stored_parts, without_srmp
from tests.wire.srmp import (
    ADMIN,
    EXAMPLES,
    GUID,
    GUID_TEXT,
    LATER_S,
    NOW_S,
    SECOND,
    SECOND_TEXT,
    SENT_S,
    SEQUENCE_ID,
    URL,
    envelope,
    example,
    msmq,
    path,
    properties,
    services,
    simple,
    stream,
)

HEAD = b"POST /msmq/private$/q HTTP/1.1\r\nHost: beta\r\nContent-Type: text/xml\r\n\r\n"
DURABLE = services("<durable/>")
OTHER = "http://alpha/msmq/private$/done"


def packet(xml: bytes, body: bytes = b"", extension: bytes = b"", head: bytes = HEAD) -> bytes:
    """The packet of a message in parts."""
    parts = read_parts(*write_parts(xml, body, extension, guid=GUID, number=1))
    return packet_of(read_envelope(xml), parts, head, NOW_S)


def mapped(xml: bytes, body: bytes = b"", extension: bytes = b"") -> Message:
    data = packet(xml, body, extension)
    Packet(data).check()
    return deserialize(data)


def refused(xml: bytes, match: str | None = None) -> None:
    with pytest.raises(MalformedPacket, match=match):
        packet(xml)


def asking(*requests: str) -> bytes:
    return simple(services("".join(requests)))


def request(kind: str, to: str, inside: str = "") -> str:
    return f"<{kind}ReceiptRequest><sendTo>{to}</sendTo>{inside}</{kind}ReceiptRequest>"


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/1")
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_message_is_kept_octet_for_octet(name: str) -> None:
    head, _, payload, parts = example(name)
    data = packet_of(read_envelope(parts.envelope), parts, head, NOW_S)
    kept = stored_parts(data)
    assert kept.compound == head + payload
    start = kept.body_offset
    assert kept.compound[start : start + kept.body_size] == parts.body == deserialize(data).body
    assert deserialize(data).soap_compound_message == head + payload


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/2")
def test_envelope_header_and_body_are_kept() -> None:
    xml = simple()
    message = mapped(xml, b"body")
    assert message.soap_envelope == xml.decode()
    assert message.soap_header == xml[xml.index(b"<se:Header") : xml.index(b"<se:Body")].decode()
    assert message.soap_body == "<se:Body></se:Body>"


def test_an_envelope_with_a_byte_order_mark_is_kept_without_it() -> None:
    xml = "\ufeff".encode() + simple()
    assert mapped(xml).soap_envelope == simple().decode()


def test_the_packet_says_that_it_came_over_http() -> None:
    data = packet(simple(), b"x" * 999)
    assert came_over_http(data)
    plain = without_srmp(data, summarize(data))
    assert not came_over_http(plain)
    assert deserialize(plain).body == b"x" * 999


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/14")
def test_the_time_of_sending_is_the_senders_or_the_arrival() -> None:
    assert mapped(simple()).sent_time == SENT_S
    assert mapped(envelope(path(), properties(sent=None), msmq())).sent_time == NOW_S
    assert mapped(envelope(path(), properties(sent="19500101T000000"), msmq())).sent_time == 0
    late = mapped(envelope(path(), properties(sent="99990101T000000"), msmq()))
    assert late.sent_time == 0xFFFF_FFFF


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/4", "MC-MQSRM 3.1.5.1.1/5")
def test_the_label_comes_from_the_action() -> None:
    assert mapped(simple()).label == "label"
    assert mapped(envelope(path("Generic label"), properties(), msmq())).label == ""
    longest = "ä" * 249
    assert mapped(envelope(path(f"MSMQ:{longest}"), properties(), msmq())).label == longest
    refused(envelope(path(f"MSMQ:{longest}x"), properties(), msmq()), "label")
    refused(envelope(path("MSMQ:" + "\U0001f600" * 125), properties(), msmq()), "label")


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/6", "MC-MQSRM 2.2.4.2/4")
@pytest.mark.parametrize(
    ("to", "name"),
    [
        (URL, "DIRECT=HTTP://beta/msmq/private$/q"),
        ("https://beta:8443/MSMQ/q", "DIRECT=HTTPS://beta:8443/MSMQ/q"),
        ("http://[::1]:80/msmq/a/b", "DIRECT=HTTP://[::1]:80/msmq/a/b"),
        ("http://beta/msmq/private%24/q%C3%A4", "DIRECT=HTTP://beta/msmq/private$/qä"),
        ("http://beta/msmq/q?a=b", "DIRECT=HTTP://beta/msmq/q?a=b"),
    ],
)
def test_a_url_becomes_the_destination(to: str, name: str) -> None:
    message = mapped(envelope(path(to=to), properties(), msmq()))
    assert message.destination_queue_format_name == name


@pytest.mark.parametrize(
    "to",
    [
        "http://beta/q",
        "http:///msmq/q",
        "http://beta/msmq/",
        "http://a@beta/msmq/q",
        "http://beta/msmq/a%20b",
        "http://beta/msmq/a%FF",
        "http://b%65ta/msmq/q%00",
        "http://beta/msmq/" + "x" * 600,
        "MSMQ:MULTICAST=1.2.3.4:5",
        "MSMQ:MULTICAST=234.1.1.1",
    ],
)
def test_a_url_that_names_no_queue_is_malformed(to: str) -> None:
    refused(envelope(path(to=to), properties(), msmq()))


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/7")
def test_a_multicast_name_becomes_the_destination() -> None:
    data = packet(envelope(path(to="MSMQ:MULTICAST=234.1.1.1:8001"), properties(), msmq()))
    lists = Packet(data).multi_queue
    assert lists is not None
    assert list(map(str, lists.destination)) == ["MULTICAST=234.1.1.1:8001"]
    assert Packet(data).destination_queue is None


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/9", clause="id")
@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/9", clause="SourceQmGuid")
@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/8", "MC-MQSRM 3.1.5.1.1/41")
def test_the_identifier_is_that_of_the_sender() -> None:
    message = mapped(simple())
    assert message.identifier == (GUID, 7)
    assert message.source_machine_identifier == GUID
    other = mapped(simple(SourceQmGuid=SECOND_TEXT))
    assert other.identifier == (SECOND, 7)


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/10", "MC-MQSRM 2.2.6/2")
def test_a_message_without_msmq_has_number_1_and_the_null_guid() -> None:
    message = mapped(envelope(path(), properties()), b"body")
    assert message.identifier == (NULL_GUID, 1)
    assert (message.message_class, message.priority, message.body) == (0, 3, b"body")


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/11", "MC-MQSRM 3.1.5.1.1/12")
@pytest.mark.parametrize(
    ("via", "name"),
    [
        (ADMIN, "DIRECT=HTTP://alpha/MSMQ/private$/receipts"),
        ("MSMQ:DIRECT=OS:alpha\\private$\\answers", "DIRECT=OS:alpha\\private$\\answers"),
        (f"MSMQ:PUBLIC={GUID_TEXT}", f"PUBLIC={GUID_TEXT}"),
        (f"MSMQ:PRIVATE={SECOND_TEXT}\\00000003", f"PRIVATE={SECOND_TEXT}\\00000003"),
        ("http://alpha/elsewhere", ""),
        ("nonsense", ""),
        (f"MSMQ:PUBLIC={GUID_TEXT};journal", ""),
        ("MSMQ:MULTICAST=234.1.1.1:8001", ""),
        pytest.param("http://alpha/MSMQ/" + "q" * 100_000, "", id="longer than any name"),
    ],
)
def test_via_becomes_the_response_queue(via: str, name: str) -> None:
    xml = envelope(path(more=f"<rev><via>{via}</via></rev>"), properties(), msmq())
    assert mapped(xml).response_queue_format_name == name


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/13", "MC-MQSRM 3.1.5.1.1/45")
def test_the_time_to_reach_the_queue_counts_from_the_sending() -> None:
    assert mapped(envelope(path(), properties())).time_to_reach_queue == LATER_S - SENT_S
    assert mapped(simple(TTrq="20260101T000010")).time_to_reach_queue == 10
    assert mapped(simple(TTrq="20380119T031407")).time_to_reach_queue == INFINITE
    assert mapped(simple(TTrq="19700101T000000")).time_to_reach_queue == 0
    assert mapped(simple()).time_to_be_received == INFINITE


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/15")
def test_durable_is_recoverable_and_the_rest_express() -> None:
    assert mapped(simple(DURABLE)).delivery_guarantee == DeliveryGuarantee.RECOVERABLE
    assert mapped(simple()).delivery_guarantee == DeliveryGuarantee.EXPRESS
    assert mapped(asking(request("delivery", ADMIN))).delivery_guarantee == 0


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/16", "MC-MQSRM 3.1.5.1.1/17")
def test_a_delivery_receipt_is_a_positive_arrival() -> None:
    message = mapped(asking(request("delivery", ADMIN)))
    assert message.acknowledgements_requested == ACK_POS_ARRIVAL
    assert message.administration_queue_format_name == f"DIRECT={ADMIN.replace('http', 'HTTP')}"


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/19", "MC-MQSRM 3.1.5.1.1/20", "MC-MQSRM 3.1.5.1.1/21")
@pytest.mark.parametrize(
    ("inside", "asked"),
    [
        ("", 0),
        ("<positiveOnly/>", ACK_POS_RECEIVE),
        ("<negativeOnly/>", ACK_NEG_RECEIVE),
        ("<negativeOnly/><positiveOnly/>", ACK_POS_RECEIVE | ACK_NEG_RECEIVE),
    ],
)
def test_a_commitment_receipt_asks_for_what_it_says(inside: str, asked: int) -> None:
    message = mapped(asking(request("commitment", OTHER, inside)))
    assert message.acknowledgements_requested == asked
    assert message.administration_queue_format_name == f"DIRECT={OTHER.replace('http', 'HTTP')}"


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/17", "MC-MQSRM 3.1.5.1.1/19")
def test_of_two_addresses_the_one_of_the_commitment_receipt_is_kept() -> None:
    both = asking(request("delivery", ADMIN), request("commitment", OTHER, "<positiveOnly/>"))
    message = mapped(both)
    assert message.acknowledgements_requested == ACK_POS_ARRIVAL | ACK_POS_RECEIVE
    assert message.administration_queue_format_name == f"DIRECT={OTHER.replace('http', 'HTTP')}"


def test_an_address_for_receipts_that_names_no_queue_is_malformed() -> None:
    refused(asking(request("delivery", "http://alpha/elsewhere")))


@pytest.mark.spec(
    "MC-MQSRM 3.1.5.1.1/18",
    "MC-MQSRM 3.1.5.1.1/22",
    "MC-MQSRM 3.1.5.1.1/23",
    "MC-MQSRM 3.1.5.1.1/24",
)
@pytest.mark.parametrize("final", [False, True])
def test_a_stream_message_is_transactional(final: bool) -> None:
    asked = "<durable/>" + (request("commitment", ADMIN) if final else "")
    element = stream("<current>9</current>", "<previous>4</previous>")
    message = mapped(simple(services(asked), element, Priority="6"), b"body")
    assert int(message.transactional_message_sequence_identifier or 0) == SEQUENCE_ID
    assert message.transaction_sequence_number == 9
    assert message.transaction_previous_sequence_number == 4
    assert message.final_ack_required is final
    assert message.delivery_guarantee == DeliveryGuarantee.RECOVERABLE
    assert message.priority == 0
    assert message.body == b"body"


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/25")
def test_the_address_for_stream_receipts_is_no_administration_queue() -> None:
    message = mapped(simple(DURABLE, stream()))
    assert message.administration_queue_format_name == ""
    assert read_envelope(simple(DURABLE, stream())).stream.send_receipts_to == ADMIN  # type: ignore[union-attr]


@pytest.mark.spec(
    "MC-MQSRM 3.1.5.1.1/26",
    "MC-MQSRM 3.1.5.1.1/27",
    "MC-MQSRM 3.1.5.1.1/30",
    "MC-MQSRM 3.1.5.1.1/32",
    "MC-MQSRM 3.1.5.1.1/33",
    "MC-MQSRM 3.1.5.1.1/34",
    "MC-MQSRM 3.1.5.1.1/35",
    "MC-MQSRM 2.2.6.5/1",
)
def test_values_of_msmq_become_properties() -> None:
    message = mapped(
        simple(
            Class="16384",
            Priority="5",
            Correlation="AAECAwQFBgcICQoLDA0ODxAREhM=",
            ConnectorType=SECOND_TEXT,
            App="36",
            BodyType="4294967295",
            HashAlgorithm="32780",
        )
    )
    assert message.message_class == 0x4000
    assert message.priority == 5
    assert message.correlation_identifier.pack() == bytes(range(20))
    assert message.connector_type_identifier == SECOND
    assert message.application_tag == 36
    assert message.body_type == 0xFFFF_FFFF
    assert message.hash_algorithm == 32780


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/28", "MC-MQSRM 3.1.5.1.1/29", "MC-MQSRM 3.1.5.1.1/31")
@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("Journal", "positive_journaling_requested"),
        ("DeadLetter", "negative_journaling_requested"),
        ("Trace", "tracing_requested"),
    ],
)
def test_marks_of_msmq_become_properties(name: str, attribute: str) -> None:
    assert getattr(mapped(envelope(path(), properties(), msmq(f"<{name}/>"))), attribute) is True
    assert getattr(mapped(simple()), attribute) is False


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/36", "MC-MQSRM 3.1.5.1.1/37", "MC-MQSRM 3.1.5.1.1/38")
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("connector", ["", f"<ConnectorId>{SECOND_TEXT}</ConnectorId>"])
def test_marks_of_a_transaction_are_kept(first: bool, last: bool, connector: str) -> None:
    inside = "<First/>" * first + "<Last/>" * last + connector
    message = mapped(simple(DURABLE, stream(), Eod=inside), b"x")
    assert (message.first_in_transaction, message.last_in_transaction) == (first, last)
    expected = SECOND if connector else NULL_GUID
    assert message.connector_queue_manager_identifier == expected


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/39", "MC-MQSRM 3.1.5.1.1/40")
def test_the_provider_is_kept() -> None:
    message = mapped(simple(Provider="<Type>24</Type><Name>Anybody's</Name>"), b"x")
    assert message.authentication_provider_type == 24
    assert message.authentication_provider_name == "Anybody's"


@pytest.mark.spec(
    "MC-MQSRM 3.1.5.1.1/42",
    "MC-MQSRM 3.1.5.1.1/43",
    "MC-MQSRM 3.1.5.1.1/44",
    "MC-MQSRM 2.2.6.14/2",
)
def test_lists_are_kept_in_order() -> None:
    names = "http://m1/msmq/q\nMSMQ:DIRECT=OS:m2\\q  strange-name http://m3/msmq/q"
    message = mapped(simple(DestinationMqf=names, AdminMqf=names, ResponseMqf=names), b"body")
    expected = ("DIRECT=HTTP://m1/msmq/q", r"DIRECT=OS:m2\q", "DIRECT=HTTP://m3/msmq/q")
    assert message.destination_multi_queue_format_name == expected
    assert message.administration_multi_queue_format_name == expected
    assert message.response_multi_queue_format_name == expected
    assert message.destination_queue_format_name == "DIRECT=HTTP://beta/msmq/private$/q"
    assert message.body == b"body"


def test_a_list_of_too_many_names_is_malformed() -> None:
    refused(simple(DestinationMqf=" ".join(f"http://m{n}/msmq/q" for n in range(257))), "list")


def test_a_message_larger_than_any_packet_is_malformed() -> None:
    parts = read_parts(*write_parts(simple(), bytes(PACKET_SIZE_MAX - 4096), guid=GUID, number=1))
    message = read_envelope(parts.envelope)
    assert len(packet_of(message, parts, HEAD, NOW_S)) <= PACKET_SIZE_MAX
    with pytest.raises(MalformedPacket, match="limit"):
        packet_of(message, parts, HEAD + bytes(4096), NOW_S)


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.1/15")
def test_what_a_verification_found_goes_into_the_packet() -> None:
    xml = simple(Provider="<Type>24</Type><Name>Anybody's</Name>")
    parts = Parts(xml, b"body", body_at=len(xml), payload=xml + b"body")
    flags = SecurityFlags.of(authenticated=1, signature_kind=9)
    found = Security(flags, sender_certificate=b"certificate")
    data = packet_of(read_envelope(xml), parts, HEAD, NOW_S, found)
    security = Packet(data).security
    assert security is not None
    assert security.flags == flags
    assert security.sender_certificate == b"certificate"
    assert security.provider == (24, "Anybody's")
    assert Packet(packet(simple())).security is None


@given(st.binary(max_size=99), st.binary(max_size=99), st.booleans())
def test_body_and_extension_survive(body: bytes, extension: bytes, traced: bool) -> None:
    more = "<Trace/>" if traced else ""
    xml = envelope(path(), properties(), DURABLE, stream(), msmq(more, DestinationMqf=URL))
    message = mapped(xml, body, extension)
    assert (message.body, message.extension) == (body, extension)
    assert message.soap_envelope == xml.decode()


@given(st.data())
def test_any_message_gives_a_sound_packet_or_the_proper_error(data: st.DataObject) -> None:
    head, _, _, parts = example(data.draw(st.sampled_from(EXAMPLES)))
    xml = bytearray(parts.envelope)
    at = data.draw(st.integers(0, len(xml)))
    xml[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    with suppress(MalformedPacket):
        message = read_envelope(bytes(xml))
        made = packet_of(message, parts._replace(envelope=bytes(xml)), head, NOW_S)
        Packet(made).check()
        assert summarize(made).packet_size == len(made)
