"""[MC-MQSRM] 3.1.7.2.2 and 3.1.7.2.4: messages of ours as they go out."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.guids import NULL_GUID
from posthouse.model.message import (
    ACK_NEG_ARRIVAL,
    ACK_NEG_RECEIVE,
    ACK_POS_ARRIVAL,
    ACK_POS_RECEIVE,
    Message,
    MessageId,
    TxSequenceId,
)
from posthouse.model.message_classes import (
    ACK_REACH_QUEUE,
    ACK_RECEIVE,
    NACK_ACCESS_DENIED,
    NACK_QUEUE_PURGED,
    ORDER_ACK,
)
from posthouse.model.names import FormatName, MulticastName, parse_format_name
from posthouse.wire.binary.order_acks import FinalAck, Origin
from posthouse.wire.packet.headers import INFINITE
from posthouse.wire.packet.message import deserialize, serialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.mapping import packet_of
from posthouse.wire.srmp.message import SrmpKind, SrmpMessage, kind_of
from posthouse.wire.srmp.mime_parts import Parts, read_parts, write_parts
from posthouse.wire.srmp.receipts import final_stream_receipt, stream_receipt
from posthouse.wire.srmp.serialize import (
    SrmpContext,
    SrmpRequest,
    message_of,
    request_target,
    srmp_of,
    url_of_web_name,
)
from posthouse.wire.srmp.stored_messages import without_srmp
from tests.wire.srmp import (
    ADMIN,
    GUID,
    GUID_TEXT,
    LATER,
    NOW_S,
    SECOND,
    SECOND_TEXT,
    SENT,
    SENT_S,
    SEQUENCE_ID,
    STREAM_ID,
    envelope,
    msmq,
    path,
    properties,
    services,
    stream,
)

DESTINATION = "DIRECT=HTTP://beta/msmq/private$/q"
ADMINISTRATION = "DIRECT=HTTP://alpha/MSMQ/private$/receipts"
ORDER_QUEUE = "http://alpha:8080/MSMQ/PRIVATE$/order_queue$"
CONTEXT = SrmpContext(ORDER_QUEUE)


def packet(**attributes: Any) -> bytes:
    """A message of ours."""
    plain = {
        "identifier": MessageId(GUID, 7),
        "source_machine_identifier": GUID,
        "destination_queue_format_name": DESTINATION,
        "sent_time": SENT_S,
        "time_to_reach_queue": 4 * 86_400,
        "hash_algorithm": 0x8004,
    }
    return serialize(Message(**(plain | attributes)))


def sent(context: SrmpContext = CONTEXT, **attributes: Any) -> SrmpRequest:
    data = packet(**attributes)
    return srmp_of(data, summarize(data), context)


def parts_of(request: SrmpRequest) -> Parts:
    return read_parts(dict(request.fields)["Content-Type"], request.payload)


def text(context: SrmpContext = CONTEXT, **attributes: Any) -> str:
    """The envelope."""
    return parts_of(sent(context, **attributes)).envelope.decode()


def back(context: SrmpContext = CONTEXT, **attributes: Any) -> SrmpMessage:
    """The message as its receiver reads it."""
    return read_envelope(text(context, **attributes).encode())


def transactional(number: int, previous: int, **attributes: Any) -> dict[str, Any]:
    return {
        "transactional_message_sequence_identifier": TxSequenceId.from_int(SEQUENCE_ID),
        "transaction_sequence_number": number,
        "transaction_previous_sequence_number": previous,
        **attributes,
    }


MINIMAL = (
    '<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/" '
    'xmlns="http://schemas.xmlsoap.org/srmp/"><se:Header>'
    '<path xmlns="http://schemas.xmlsoap.org/rp/" se:mustUnderstand="1">'
    "<action>MSMQ:</action><to>http://beta/msmq/private$/q</to>"
    f"<id>uuid:7@{GUID_TEXT}</id></path>"
    f'<properties se:mustUnderstand="1"><expiresAt>{LATER}</expiresAt>'
    f"<sentAt>{SENT}</sentAt></properties>"
    '<Msmq xmlns="msmq.namespace.xml"><Class>0</Class><Priority>3</Priority>'
    "<BodyType>0</BodyType><HashAlgorithm>32772</HashAlgorithm>"
    f"<SourceQmGuid>{GUID_TEXT}</SourceQmGuid><TTrq>{LATER}</TTrq></Msmq>"
    "</se:Header><se:Body></se:Body></se:Envelope>"
)


@pytest.mark.spec(
    "MC-MQSRM 3.1.7.2.4/1",
    "MC-MQSRM 3.1.7.2.4/6",
    "MC-MQSRM 3.1.7.2.4/8",
    "MC-MQSRM 3.1.7.2.4/19",
    "MC-MQSRM 2.2.6/1",
    "MC-MQSRM 2.2.2/4",
)
def test_the_smallest_message_octet_for_octet() -> None:
    request = sent(body=b"body")
    assert request.payload == (
        b"--MSMQ - SOAP boundary, 7\r\nContent-Type: text/xml; charset=UTF-8\r\n"
        + f"Content-Length: {len(MINIMAL)}\r\n\r\n{MINIMAL}".encode()
        + b"--MSMQ - SOAP boundary, 7\r\nContent-Type: application/octet-stream\r\n"
        + f"Content-Length: 4\r\nContent-Id: body@{GUID_TEXT}\r\n\r\n".encode()
        + b"body--MSMQ - SOAP boundary, 7--\r\n"
    )
    assert request.url == "http://beta/msmq/private$/q"
    assert request.fields == [
        ("Content-Type", 'multipart/related; boundary="MSMQ - SOAP boundary, 7"; type=text/xml'),
        ("SOAPAction", '"MSMQMessage"'),
        ("Proxy-Accept", "NonInteractiveClient"),
    ]


@pytest.mark.spec("MC-MQSRM 3.1.7.2.2/1", "MC-MQSRM 2.2.4.3/4", "MC-MQSRM 3.1.7.2.4/6")
def test_the_id_is_the_index_of_the_message_and_our_guid() -> None:
    found = back(identifier=MessageId(GUID, 4_294_967_295))
    assert found.id == f"uuid:4294967295@{GUID_TEXT}"
    assert found.source_guid == GUID


@pytest.mark.spec("MC-MQSRM 3.1.7.2.2/2", "MC-MQSRM 2.2.4.3/6", "MC-MQSRM 2.2.5.1.2/2")
def test_a_message_goes_out_the_same_each_time() -> None:
    attributes = transactional(3, 2, body=b"x" * 999, label="again")
    assert sent(**attributes) == sent(**attributes)


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/2", "MC-MQSRM 3.1.7.2.4/3")
def test_elements_stand_in_the_documents_order() -> None:
    attributes = transactional(
        1,
        0,
        body=b"x",
        response_queue_format_name=ADMINISTRATION,
        administration_queue_format_name=ADMINISTRATION,
        acknowledgements_requested=ACK_POS_ARRIVAL,
    )
    signed = CONTEXT._replace(sign=lambda *_: b"<Signature/>")
    names = re.findall(r"<(\w[\w:]*)", text(signed, **attributes))
    order = ["path", "properties", "services", "stream", "Msmq", "Signature", "se:Body"]
    assert [name for name in names if name in order] == order
    path_names = ["action", "to", "id", "rev", "via"]
    assert [name for name in names if name in path_names] == path_names


@pytest.mark.spec("MC-MQSRM 2.2.4.1/2", "MC-MQSRM 3.1.7.2.4/4")
@pytest.mark.parametrize("label", ["", "a label", "MSMQ:", "ä <&>"])
def test_the_label_stands_behind_its_prefix(label: str) -> None:
    assert back(label=label).action == f"MSMQ:{label}"


@pytest.mark.spec("MC-MQSRM 2.2.4.2/2", "MC-MQSRM 3.1.7.2.4/5")
@pytest.mark.parametrize(
    ("name", "to"),
    [
        (DESTINATION, "http://beta/msmq/private$/q"),
        ("DIRECT=https://Beta:8443/MSMQ/q", "https://Beta:8443/MSMQ/q"),
        ("DIRECT=HTTP://[::1]/msmq/a&b", "http://[::1]/msmq/a&b"),
    ],
)
def test_the_destination_is_a_url_with_its_scheme_in_lower_case(name: str, to: str) -> None:
    assert back(destination_queue_format_name=name).to == to


@pytest.mark.spec("MC-MQSRM 2.2.4.2/3", "MC-MQSRM 3.1.7.2.4/5")
@pytest.mark.parametrize("named", [False, True])
def test_a_multicast_name_has_its_prefix(named: bool) -> None:
    name = "MULTICAST=234.1.1.1:8001"
    context = CONTEXT._replace(destination=MulticastName("234.1.1.1", 8001)) if named else CONTEXT
    request = sent(context, destination_queue_format_name=name, body=b"x")
    assert request.url == f"MSMQ:{name}"
    found = read_envelope(parts_of(request).envelope)
    assert found.to == f"MSMQ:{name}"
    assert found.destination_mqf == ()


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/7")
@pytest.mark.parametrize(
    ("name", "via"),
    [
        ("", ""),
        (ADMINISTRATION, ADMIN),
        (r"DIRECT=OS:alpha\private$\q", r"MSMQ:DIRECT=OS:alpha\private$\q"),
        (f"PUBLIC={GUID_TEXT}", f"MSMQ:PUBLIC={GUID_TEXT}"),
    ],
)
def test_the_response_queue_is_a_url_or_has_its_prefix(name: str, via: str) -> None:
    found = text(response_queue_format_name=name)
    assert (f"<rev><via>{via}</via></rev>" in found) is bool(via)
    assert ("<rev>" in found) is bool(via)


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/8", "MC-MQSRM 2.2.5.1.1/3")
@pytest.mark.parametrize(
    ("seconds", "until"),
    [(0, SENT), (10, "20260101T000010"), (INFINITE, "20380119T031407"), (2**31, "20380119T031407")],
)
def test_expiry_is_the_sending_and_the_time_to_reach_the_queue(seconds: int, until: str) -> None:
    found = text(time_to_reach_queue=seconds)
    assert f"<expiresAt>{until}</expiresAt><sentAt>{SENT}</sentAt>" in found
    assert f"<TTrq>{until}</TTrq>" in found


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/9", "MC-MQSRM 3.1.7.2.4/10")
def test_services_are_written_where_there_are_any() -> None:
    assert "<services" not in text()
    durable = '<services se:mustUnderstand="1"><durable/></services>'
    assert durable in text(delivery_guarantee=1)
    assert durable in text(**transactional(2, 1))


@pytest.mark.spec(
    "MC-MQSRM 3.1.7.2.4/9",
    "MC-MQSRM 3.1.7.2.4/11",
    "MC-MQSRM 3.1.7.2.4/12",
    "MC-MQSRM 3.1.7.2.4/13",
)
@pytest.mark.parametrize("asked", range(16))
def test_receipts_are_asked_for_one_by_one(asked: int) -> None:
    found = back(administration_queue_format_name=ADMINISTRATION, acknowledgements_requested=asked)
    assert found.delivery_receipt_to == (ADMIN if asked & ACK_POS_ARRIVAL else "")
    received = asked & (ACK_POS_RECEIVE | ACK_NEG_RECEIVE)
    assert found.commitment_receipt_to == (ADMIN if received else "")
    assert found.positive_only is bool(asked & ACK_POS_RECEIVE)
    assert found.negative_only is bool(asked & ACK_NEG_RECEIVE)
    if asked in (0, ACK_NEG_ARRIVAL):
        assert "<services" not in text(acknowledgements_requested=asked)


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/12")
def test_a_final_acknowledgment_is_a_commitment_receipt_of_no_kind() -> None:
    attributes = transactional(
        2, 1, final_ack_required=True, administration_queue_format_name=ADMINISTRATION
    )
    wanted = f"<commitmentReceiptRequest><sendTo>{ADMIN}</sendTo></commitmentReceiptRequest>"
    assert wanted in text(**attributes)


def test_receipts_without_an_address_by_url_cannot_be_asked_for() -> None:
    own = r"DIRECT=OS:alpha\private$\admin"
    attributes = {
        "administration_queue_format_name": own,
        "acknowledgements_requested": ACK_POS_ARRIVAL,
    }
    assert "<services" not in text(**attributes)
    assert "<services" not in text(acknowledgements_requested=ACK_POS_ARRIVAL)

    def url_of(name: FormatName) -> str | None:
        return "http://alpha/msmq/private$/admin" if str(name) == own else url_of_web_name(name)

    found = back(CONTEXT._replace(url_of=url_of), **attributes)
    assert found.delivery_receipt_to == "http://alpha/msmq/private$/admin"


@pytest.mark.spec(
    "MC-MQSRM 3.1.7.2.4/14",
    "MC-MQSRM 3.1.7.2.4/15",
    "MC-MQSRM 2.2.5.3/4",
    "MC-MQSRM 2.2.5.3.2/2",
    "MC-MQSRM 2.2.5.3.3/2",
    "MC-MQSRM 2.2.5.3.4/1",
)
def test_a_stream_tells_its_numbers() -> None:
    name = f"<streamId>{STREAM_ID}</streamId>"
    start = f"<start><sendReceiptsTo>{ORDER_QUEUE}</sendReceiptsTo></start>"
    mark = '<stream se:mustUnderstand="1">'
    assert "<stream " not in text()
    assert f"{mark}{name}<current>1</current>{start}</stream>" in text(**transactional(1, 0))
    second = f"{mark}{name}<current>2</current><previous>1</previous></stream>"
    assert second in text(**transactional(2, 1))
    gap = f"{mark}{name}<current>9</current><previous>4</previous></stream>"
    assert gap in text(**transactional(9, 4))


def test_a_stream_begins_where_the_first_messages_have_expired() -> None:
    late = f"<current>3</current><previous>0</previous><start><sendReceiptsTo>{ORDER_QUEUE}<"
    assert late in text(**transactional(3, 0))
    found = back(**transactional(3, 0)).stream
    assert found is not None
    assert (found.current, found.previous, found.send_receipts_to) == (3, 0, ORDER_QUEUE)


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/19", "MC-MQSRM 3.1.7.2.4/20", "MC-MQSRM 3.1.7.2.4/21")
def test_everything_of_msmq_in_its_order() -> None:
    found = text(
        priority=5,
        positive_journaling_requested=True,
        negative_journaling_requested=True,
        correlation_identifier=MessageId(SECOND, 9),
        tracing_requested=True,
        connector_type_identifier=SECOND,
        application_tag=36,
        body_type=8,
    )
    correlation = b64encode(SECOND + b"\x09\0\0\0").decode()
    assert (
        "<Class>0</Class><Priority>5</Priority><Journal/><DeadLetter/>"
        f"<Correlation>{correlation}</Correlation><Trace/>"
        f"<ConnectorType>{SECOND_TEXT}</ConnectorType><App>36</App><BodyType>8</BodyType>"
        f"<HashAlgorithm>32772</HashAlgorithm><SourceQmGuid>{GUID_TEXT}</SourceQmGuid><TTrq>"
    ) in found


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/20", "MC-MQSRM 3.1.7.2.4/21")
def test_what_is_not_set_is_left_out() -> None:
    found = text(hash_algorithm=0)
    for name in ("Journal", "DeadLetter", "Trace", "Correlation", "ConnectorType", "App"):
        assert f"<{name}" not in found
    for name in ("HashAlgorithm", "Eod", "Provider", "DestinationMqf", "AdminMqf", "ResponseMqf"):
        assert f"<{name}" not in found


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/22")
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("connector", [NULL_GUID, SECOND])
def test_marks_of_a_transaction_are_written(first: bool, last: bool, connector: bytes) -> None:
    found = text(
        **transactional(
            2,
            1,
            first_in_transaction=first,
            last_in_transaction=last,
            connector_queue_manager_identifier=connector,
        )
    )
    inside = "<First/>" * first + "<Last/>" * last
    if connector != NULL_GUID:
        inside += f"<ConnectorId>{SECOND_TEXT}</ConnectorId>"
    assert (f"<Eod>{inside}</Eod>" in found) is bool(inside)
    assert ("<Eod>" in found) is bool(inside)


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/23")
@pytest.mark.parametrize(("kind", "name"), [(24, "AES"), (24, ""), (0, "AES")])
def test_a_provider_has_type_and_name(kind: int, name: str) -> None:
    found = text(authentication_provider_type=kind, authentication_provider_name=name)
    assert f"<Provider><Type>{kind}</Type><Name>{name}</Name></Provider>" in found


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/24")
def test_lists_are_written_with_a_blank_behind_each_name() -> None:
    names = ("DIRECT=HTTP://m1/msmq/q", r"DIRECT=OS:m2\q")
    found = text(
        destination_multi_queue_format_name=names,
        administration_multi_queue_format_name=names[:1],
        response_multi_queue_format_name=names[1:],
    )
    assert (
        r"<DestinationMqf>http://m1/msmq/q MSMQ:DIRECT=OS:m2\q </DestinationMqf>"
        r"<AdminMqf>http://m1/msmq/q </AdminMqf>"
        r"<ResponseMqf>MSMQ:DIRECT=OS:m2\q </ResponseMqf>"
    ) in found


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/25")
@pytest.mark.parametrize(
    "label", ["</action></path>", "&amp;", "<!--", "]]>", "<![CDATA[", "\x01\ud800\ufffe", "a\rb"]
)
def test_no_label_can_break_the_envelope(label: str) -> None:
    found = back(label=label, response_queue_format_name="DIRECT=HTTP://alpha/msmq/<&>")
    assert found.label == re.sub("[\x01\ud800\ufffe]", "\ufffd", label)
    assert found.via == "http://alpha/msmq/<&>"


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/26", "MC-MQSRM 3.1.7.2.4/2")
def test_a_signature_is_made_over_the_parts() -> None:
    seen: list[tuple[bytes, bytes, bytes, int]] = []

    def sign(body: bytes, extension: bytes, guid: bytes, ordinal: int) -> bytes:
        seen.append((body, extension, guid, ordinal))
        return b"<Signature/>"

    context = CONTEXT._replace(sign=sign)
    found = text(context, body=b"body", extension=b"extension", identifier=MessageId(GUID, 77))
    assert seen == [(b"body", b"extension", GUID, 77)]
    assert "</Msmq><Signature/></se:Header>" in found
    assert "<Signature" not in text(context)


def test_an_extension_is_a_part_of_its_own() -> None:
    parts = parts_of(sent(body=b"body", extension=b"more"))
    assert (parts.body, parts.extension) == (b"body", b"more")
    assert parts.extension_id == f"extension@{GUID_TEXT}"


# -- there and back again

NAMES = st.sampled_from(
    ("", ADMINISTRATION, r"DIRECT=OS:alpha\private$\x", f"PUBLIC={SECOND_TEXT}")
)
LABELS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=99)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Any message that SRMP can carry whole."""
    number = draw(st.integers(0, 9))
    asked = draw(st.sampled_from((0, 1, 2, 3, 8, 9, 10, 11)))
    ours = MessageId(GUID, draw(st.integers(0, 0xFFFF_FFFF)))
    correlation = MessageId(draw(st.sampled_from((GUID, NULL_GUID))), draw(st.integers(0, 9)))
    stream_place = (
        {}
        if not number
        else transactional(
            number,
            draw(st.integers(0, number - 1)),
            transaction_identifier=1,
            first_in_transaction=draw(st.booleans()),
            last_in_transaction=draw(st.booleans()),
            connector_queue_manager_identifier=draw(st.sampled_from((SECOND, NULL_GUID))),
        )
    )
    return Message(
        identifier=ours,
        source_machine_identifier=GUID,
        destination_queue_format_name=DESTINATION,
        administration_queue_format_name=ADMINISTRATION if asked else "",
        response_queue_format_name=draw(NAMES),
        acknowledgements_requested=asked,
        delivery_guarantee=1 if number else draw(st.integers(0, 1)),
        priority=0 if number else draw(st.integers(0, 7)),
        positive_journaling_requested=draw(st.booleans()),
        negative_journaling_requested=draw(st.booleans()),
        tracing_requested=False,
        correlation_identifier=correlation,
        connector_type_identifier=draw(st.sampled_from((SECOND, NULL_GUID))),
        application_tag=draw(st.integers(0, 0xFFFF_FFFF)),
        body_type=draw(st.integers(0, 0xFFFF_FFFF)),
        hash_algorithm=draw(st.sampled_from((0, 0x8004, 0x800E))),
        label=draw(LABELS),
        body=draw(st.binary(max_size=60)),
        extension=draw(st.binary(max_size=20)),
        sent_time=SENT_S,
        time_to_reach_queue=draw(st.sampled_from((0, 60, INFINITE))),
        authentication_provider_name=draw(st.sampled_from(("", "AES"))),
        destination_multi_queue_format_name=draw(
            st.sampled_from(((), (DESTINATION, r"DIRECT=OS:b\q")))
        ),
        **stream_place,
    )


@pytest.mark.spec("MC-MQSRM 3.1.7.2.4/29", "MC-MQSRM 2.2.4.3/4")
@given(messages())
def test_what_we_send_arrives_with_the_same_properties(message: Message) -> None:
    before = serialize(message)
    request = srmp_of(before, summarize(before), CONTEXT)
    parts = parts_of(request)
    arrived = packet_of(read_envelope(parts.envelope), parts, b"POST\r\n\r\n", NOW_S)
    after = without_srmp(arrived, summarize(arrived))
    expected, found = deserialize(before), deserialize(after)
    expected.final_ack_required = bool(message.acknowledgements_requested & 10) and (
        message.transaction_sequence_number > 0
    )
    assert found == expected
    assert srmp_of(after, summarize(after), CONTEXT) == request


# -- receipts


def receipt(message_class: int, **attributes: Any) -> SrmpRequest:
    plain = {
        "destination_queue_format_name": ADMINISTRATION,
        "response_queue_format_name": DESTINATION,
        "message_class": message_class,
        "correlation_identifier": MessageId(SECOND, 9),
        "label": "the original's",
        "time_to_reach_queue": INFINITE,
    }
    return sent(**(plain | attributes))


@pytest.mark.spec(
    "MC-MQSRM 2.2.2/6",
    "MC-MQSRM 2.2.4.1/4",
    "MC-MQSRM 2.2.5.4/2",
    "MC-MQSRM 2.2.5.4/3",
    "MC-MQSRM 2.2.5.4/4",
    "MC-MQSRM 2.2.5.4/5",
)
def test_an_arrival_acknowledgment_is_a_delivery_receipt() -> None:
    request = receipt(ACK_REACH_QUEUE, body=b"never attached")
    assert dict(request.fields)["Content-Type"] == "text/xml"
    found = read_envelope(request.payload)
    assert kind_of(found) is SrmpKind.DELIVERY_RECEIPT
    assert found.delivery_receipt == (SENT_S, (SECOND, 9))
    assert found.correlation == MessageId(SECOND, 9).pack()
    assert found.action == "MSMQ:the original's"
    assert (found.to, found.id) == (ADMIN, f"uuid:7@{GUID_TEXT}")
    assert found.via == "http://beta/msmq/private$/q"
    assert b"never attached" not in request.payload


@pytest.mark.spec("MC-MQSRM 2.2.4.1/5", "MC-MQSRM 2.2.5.4/6")
def test_a_receipt_for_a_foreign_message_has_its_null_id() -> None:
    request = receipt(ACK_REACH_QUEUE, label="", correlation_identifier=MessageId(NULL_GUID, 1))
    found = read_envelope(request.payload)
    assert found.action == "MSMQ:"
    text = request.payload.decode()
    assert "<id>uuid:1@00000000-0000-0000-0000-000000000000</id></deliveryReceipt>" in text
    assert "<Correlation>AAAAAAAAAAAAAAAAAAAAAAEAAAA=</Correlation>" in text


@pytest.mark.spec(
    "MC-MQSRM 2.2.5.5/2", "MC-MQSRM 2.2.5.5/3", "MC-MQSRM 2.2.5.5/4", "MC-MQSRM 2.2.2/6"
)
@pytest.mark.parametrize(
    ("code", "decision"), [(ACK_RECEIVE, "positive"), (NACK_QUEUE_PURGED, "negative")]
)
def test_a_receive_acknowledgment_is_a_commitment_receipt(code: int, decision: str) -> None:
    request = receipt(code, body=b"repeated by negative ones")
    found = read_envelope(request.payload)
    assert kind_of(found) is SrmpKind.COMMITMENT_RECEIPT
    assert found.commitment_receipt == (SENT_S, decision, (SECOND, 9))
    assert dict(request.fields)["Content-Type"] == "text/xml"


def test_an_acknowledgment_that_srmp_does_not_know_is_a_message_of_its_class() -> None:
    request = receipt(NACK_ACCESS_DENIED, body=b"body")
    found = read_envelope(parts_of(request).envelope)
    assert kind_of(found) is SrmpKind.IGNORED
    assert found.message_class == NACK_ACCESS_DENIED


@pytest.mark.spec(
    "MC-MQSRM 2.2.4.1/6",
    "MC-MQSRM 2.2.5.6/2",
    "MC-MQSRM 2.2.5.6/3",
    "MC-MQSRM 2.2.2/6",
)
def test_a_stream_receipt_repeats_the_name_of_the_stream() -> None:
    origin = Origin(GUID, 12, SENT_S)
    name = STREAM_ID.upper().replace("UID", "uid", 1)
    data = stream_receipt(name, SECOND, SEQUENCE_ID, 42, ADMINISTRATION, origin)
    request = srmp_of(data, summarize(data), CONTEXT)
    assert dict(request.fields)["Content-Type"] == "text/xml"
    found = read_envelope(request.payload)
    assert kind_of(found) is SrmpKind.STREAM_RECEIPT
    assert found.stream_receipt == (name, GUID, SEQUENCE_ID, 42)
    assert found.action == "MSMQ:QM Ordering Ack"
    assert found.message_class == ORDER_ACK
    assert found.to == ADMIN
    assert not found.durable


@pytest.mark.spec("MC-MQSRM 2.2.5.5/1", "MC-MQSRM 2.2.5.5/4")
@pytest.mark.parametrize(
    ("code", "decision"), [(ACK_RECEIVE, "positive"), (NACK_QUEUE_PURGED, "negative")]
)
def test_a_final_stream_receipt_has_both_elements(code: int, decision: str) -> None:
    body = FinalAck(SEQUENCE_ID, 42, 41, SECOND, 9)
    origin = Origin(GUID, 12, SENT_S)
    data = final_stream_receipt(body, code, "the original's", STREAM_ID, ADMINISTRATION, origin)
    found = read_envelope(srmp_of(data, summarize(data), CONTEXT).payload)
    assert kind_of(found) is SrmpKind.FINAL_STREAM_RECEIPT
    assert found.stream_receipt == (STREAM_ID, GUID, SEQUENCE_ID, 42)
    assert found.commitment_receipt == (SENT_S, decision, (SECOND, 9))
    assert found.action == "MSMQ:the original's"


# -- messages that go on


def forwarded(xml: bytes, body: bytes = b"body", to: str = DESTINATION) -> SrmpRequest:
    kind, payload = write_parts(xml, body, b"ext", guid=SECOND, number=3)
    head = f"POST /x HTTP/1.1\r\nHost: h\r\nContent-Type: {kind}\r\n\r\n".encode()
    parts = read_parts(kind, payload)
    data = packet_of(read_envelope(xml), parts, head, NOW_S)
    return srmp_of(data, summarize(data), CONTEXT._replace(destination=parse_format_name(to)))


def test_a_message_that_goes_on_has_its_own_envelope() -> None:
    strange = '<x:y xmlns:x="urn:x">é</x:y>'
    durable = services("<durable/>")
    xml = envelope(path(), properties(), durable, stream(), msmq(), strange)
    request = forwarded(xml, to="DIRECT=HTTPS://gamma/msmq/a&b")
    parts = parts_of(request)
    expected = xml.replace(b"<to>http://beta/msmq/private$/q<", b"<to>https://gamma/msmq/a&amp;b<")
    assert parts.envelope == expected
    assert (parts.body, parts.extension) == (b"body", b"ext")
    assert parts.body_id == f"body@{SECOND_TEXT}"
    assert request.url == "https://gamma/msmq/a&b"


def test_a_bare_envelope_goes_on_bare() -> None:
    xml = envelope(path(), properties(), msmq())
    head = b"POST /x HTTP/1.1\r\ncontent-type: text/xml\r\n\r\n"
    data = packet_of(read_envelope(xml), read_parts("text/xml", xml), head, NOW_S)
    request = srmp_of(data, summarize(data), CONTEXT)
    assert request.payload == xml
    assert dict(request.fields)["Content-Type"] == "text/xml"


def test_an_envelope_that_hides_its_destination_is_written_anew() -> None:
    hidden = "<![CDATA[http://beta/msmq/private$/q]]>"
    xml = envelope(path(to=hidden), properties(), msmq())
    parts = parts_of(forwarded(xml, to="DIRECT=HTTP://gamma/msmq/q"))
    found = read_envelope(parts.envelope)
    assert found.to == "http://gamma/msmq/q"
    assert (found.source_guid, found.ordinal) == (GUID, 7)
    assert parts.body == b"body"


# -- addresses


@pytest.mark.parametrize(
    ("url", "host", "target"),
    [
        ("http://beta/msmq/private$/q", "beta", "/msmq/private$/q"),
        ("https://beta:8443/MSMQ/Q?a=b", "beta:8443", "/MSMQ/Q?a=b"),
        ("http://[::1]:80/msmq/ä", "[::1]:80", "/msmq/%C3%A4"),
        ("http://beta/msmq/a%b", "beta", "/msmq/a%25b"),
        ("http://beta/msmq/private%24/q", "beta", "/msmq/private%24/q"),
        ("http://beta/msmq/a<b>c|d^", "beta", "/msmq/a%3Cb%3Ec%7Cd%5E"),
    ],
)
def test_the_path_of_a_request_is_percent_encoded(url: str, host: str, target: str) -> None:
    assert request_target(url) == (host, target)


def test_names_of_other_kinds_have_no_url() -> None:
    assert url_of_web_name(parse_format_name(r"DIRECT=OS:a\q")) is None
    assert url_of_web_name(parse_format_name(f"PUBLIC={GUID_TEXT}")) is None


def test_a_message_of_a_packet_has_all_elements() -> None:
    found = message_of(Packet(packet(label="x")), CONTEXT)
    assert found.has_msmq
    assert found.label == "x"
