"""[MC-MQSRM] 2.2: what the elements of an envelope say, and what makes it malformed."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket
from posthouse.model.guids import NULL_GUID
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.message import SrmpMessage
from posthouse.wire.srmp.writer import write_envelope
from tests.wire.srmp import (
    ADMIN,
    BODY,
    EXAMPLES,
    GUID,
    GUID_TEXT,
    LATER,
    LATER_S,
    MARK,
    RP,
    SE,
    SECOND,
    SECOND_TEXT,
    SENT_S,
    SEQUENCE_ID,
    SRMP,
    STREAM_ID,
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

DURABLE = services("<durable/>")
DELIVERY = f"<deliveryReceiptRequest><sendTo>{ADMIN}</sendTo></deliveryReceiptRequest>"


def commitment(inside: str = "", to: str = ADMIN) -> str:
    return f"<commitmentReceiptRequest><sendTo>{to}</sendTo>{inside}</commitmentReceiptRequest>"


def refused(xml: bytes | str, match: str | None = None) -> None:
    with pytest.raises(MalformedPacket, match=match):
        read_envelope(xml if isinstance(xml, bytes) else xml.encode())


def read(*elements: str) -> SrmpMessage:
    return read_envelope(envelope(path(), properties(), *elements))


# -- the envelope, 2.2.2 and 2.2.3


@pytest.mark.spec("MC-MQSRM 2.2.2/1", "MC-MQSRM 2.2.3/1")
def test_the_root_is_a_soap_envelope() -> None:
    good = simple().decode()
    assert read_envelope(good.encode()).to == URL
    refused(good.replace("se:Envelope", "se:Letter"), "Envelope")
    refused(good.replace("soap/envelope/", "soap/letter/"), "Envelope")
    refused(good.replace("soap/envelope/", "soap/envelope"), "Envelope")


@pytest.mark.spec("MC-MQSRM 2.2.3/1", "MC-MQSRM 2.2.3/3", "MC-MQSRM 2.2.3/5", "MC-MQSRM 2.2.5/1")
def test_elements_are_known_under_any_prefix() -> None:
    text = (
        '<S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/" '
        'xmlns:r="http://schemas.xmlsoap.org/rp/" xmlns:m="http://schemas.xmlsoap.org/srmp/" '
        'xmlns:q="msmq.namespace.xml"><S:Header>'
        f'<r:path S:mustUnderstand="1"><r:action>MSMQ:label</r:action><r:to>{URL}</r:to>'
        f"<r:id>uuid:7@{GUID_TEXT}</r:id></r:path>"
        f'<m:properties S:mustUnderstand="1"><m:expiresAt>{LATER}</m:expiresAt>'
        "<m:sentAt>20260101T000000</m:sentAt></m:properties>"
        '<services xmlns="http://schemas.xmlsoap.org/srmp/" S:mustUnderstand="1"><durable/>'
        "</services><q:Msmq><q:Class>0</q:Class><q:Priority>3</q:Priority>"
        f"<q:BodyType>8</q:BodyType><q:SourceQmGuid>{GUID_TEXT}</q:SourceQmGuid>"
        f"<q:TTrq>{LATER}</q:TTrq></q:Msmq></S:Header><S:Body/></S:Envelope>"
    )
    assert read_envelope(text.encode()) == read_envelope(simple(DURABLE))


@pytest.mark.spec("MC-MQSRM 2.2.3/5", clause="elements")
@pytest.mark.spec("MC-MQSRM 2.2.3/2", "MC-MQSRM 2.2.3/3", "MC-MQSRM 2.2.3/4")
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("schemas.xmlsoap.org/rp/", "schemas.xmlsoap.org/rp", "must be understood"),
        ("schemas.xmlsoap.org/srmp/", "schemas.xmlsoap.org/srm/", "must be understood"),
        (f"<path {RP}", "<path", "must be understood"),
    ],
)
def test_elements_of_other_namespaces_are_not_ours(old: str, new: str, why: str) -> None:
    refused(simple().decode().replace(old, new), why)


@pytest.mark.spec("MC-MQSRM 2.2.3/5", clause="children")
@pytest.mark.parametrize(
    ("element", "child"),
    [("path", "to"), ("path", "id"), ("properties", "expiresAt"), ("Msmq", "Priority")],
)
def test_children_of_other_namespaces_are_not_ours(element: str, child: str) -> None:
    good = simple(DURABLE).decode()
    first = re.search(rf"<{child}>[^<]*</{child}>", good)
    assert first is not None
    foreign = f'<x:{child} xmlns:x="urn:other">forged</x:{child}>'
    for pair in (foreign + first[0], first[0] + foreign):
        beside = good.replace(first[0], pair)
        assert read_envelope(beside.encode()) == read_envelope(good.encode()), element
    refused(good.replace(first[0], foreign), child)


@pytest.mark.spec("MC-MQSRM 2.2.3/4", "MC-MQSRM 2.2.3/5")
def test_an_msmq_element_of_another_namespace_is_not_ours() -> None:
    other = simple().decode().replace("msmq.namespace.xml", "msmq.namespace")
    assert not read_envelope(other.encode()).has_msmq


@pytest.mark.spec("MC-MQSRM 2.2.2/2")
def test_the_header_is_the_first_child() -> None:
    refused(f"<se:Envelope {SE}>{BODY}</se:Envelope>")
    refused(f"<se:Envelope {SE}><x/><se:Header></se:Header>{BODY}</se:Envelope>")
    refused(simple().decode().replace("se:Header", "Header"))
    refused(f"<se:Envelope {SE}>{BODY}<se:Header></se:Header></se:Envelope>")


@pytest.mark.spec("MC-MQSRM 2.2.2/3")
def test_the_body_directly_follows_the_header() -> None:
    refused(envelope(path(), properties(), body=""))
    refused(envelope(path(), properties(), body=f"<x/>{BODY}"))
    refused(envelope(path(), properties(), body="<Body/>"))


@pytest.mark.spec("MC-MQSRM 2.2.2/4")
def test_what_the_body_contains_is_ignored() -> None:
    full = envelope(path(), properties(), msmq(), body="<se:Body>x<to>http://evil</to></se:Body>")
    assert read_envelope(full) == read_envelope(simple())


def test_unknown_elements_are_passed_over() -> None:
    strange = '<x:y xmlns:x="urn:x"><z/></x:y><durable/>'
    assert read(strange, msmq("<Strange>1</Strange>"), strange) == read(msmq())


@pytest.mark.parametrize("where", [0, 1, 2])
def test_an_unknown_header_that_must_be_understood_is_refused(where: int) -> None:
    elements = [path(), properties(), msmq()]
    elements.insert(where, f"<unknown {MARK}/>")
    refused(envelope(*elements), "must be understood")
    elements[where] = '<unknown se:mustUnderstand="0"/>'
    assert read_envelope(envelope(*elements)).to == URL


@pytest.mark.parametrize("element", [path(), properties(), DURABLE, msmq()])
def test_an_element_that_is_there_twice_is_refused(element: str) -> None:
    refused(envelope(path(), properties(), DURABLE, msmq(), element), "twice")


@pytest.mark.parametrize(
    "element",
    [
        path(more=f"<to>{URL}</to>"),
        path(more="<action/>"),
        path(more="<rev><via/></rev><rev><via/></rev>"),
        properties(more=f"<sentAt>{LATER}</sentAt>"),
        msmq("<Class>0</Class>"),
        services("<durable/><durable/>"),
        stream(more="<current>2</current>"),
    ],
)
def test_a_child_that_is_there_twice_is_refused(element: str) -> None:
    others = [path(), properties(), services("<durable/>"), msmq()]
    name = element[1:].split(" ")[0]
    kept = [other for other in others if not other.startswith(f"<{name}")]
    refused(envelope(*kept, element), "twice")


def test_an_element_in_the_middle_of_a_text_is_refused() -> None:
    refused(envelope(path(to="http://beta/<x/>msmq/q"), properties()), "text is due")


# -- path, 2.2.4


@pytest.mark.spec("MC-MQSRM 2.2.4/1")
def test_the_path_is_there_and_marked() -> None:
    refused(envelope(properties(), msmq()), "missing")
    for mark in ("", 'se:mustUnderstand="0"', 'mustUnderstand="1"', 'se:mustUnderstand="true"'):
        refused(envelope(path(mark=mark), properties()), "mustUnderstand")


@pytest.mark.spec("MC-MQSRM 2.2.4.1/1", "MC-MQSRM 2.2.4.2/1", "MC-MQSRM 2.2.4.3/1")
def test_action_to_and_id_are_there() -> None:
    for missing in (path(action=None), path(to=None), path(identifier=None)):
        refused(envelope(missing, properties()), "missing")


@pytest.mark.spec("MC-MQSRM 2.2.4.1/2", "MC-MQSRM 3.1.5.1.1/4")
@pytest.mark.parametrize("label", ["", "label", " a  b ", "MSMQ:", "ä &amp; \U0001f600", "x\ny"])
def test_the_label_is_what_follows_the_prefix(label: str) -> None:
    message = read_envelope(envelope(path(f"MSMQ:{label}"), properties()))
    assert message.label == label.replace("&amp;", "&")


@pytest.mark.spec("MC-MQSRM 2.2.4.1/3", "MC-MQSRM 3.1.5.1.1/5")
@pytest.mark.parametrize("action", ["", "Generic label", "msmq:x", " MSMQ:x"])
def test_another_action_is_no_label(action: str) -> None:
    message = read_envelope(envelope(path(action), properties()))
    assert message.label == ""
    assert message.action == action


@pytest.mark.spec("MC-MQSRM 2.2.4.2/2", "MC-MQSRM 2.2.4.2/3")
@pytest.mark.parametrize("to", [URL, "https://beta/msmq/q", "MSMQ:MULTICAST=234.1.1.1:8001"])
def test_the_destination_is_a_url_or_a_multicast_name(to: str) -> None:
    assert read_envelope(envelope(path(to=to), properties())).to == to
    assert read_envelope(envelope(path(to=f"\n {to} "), properties())).to == to


@pytest.mark.spec("MC-MQSRM 2.2.4.2/7")
@pytest.mark.parametrize(
    "to", ["", "beta", "ftp://beta/q", "DIRECT=http://beta/msmq/q", "MSMQ:DIRECT=OS:beta\\q"]
)
def test_any_other_destination_is_malformed(to: str) -> None:
    refused(envelope(path(to=to), properties()), "to is")


@pytest.mark.spec("MC-MQSRM 2.2.4.3/2", "MC-MQSRM 3.1.5.1.1/10")
@pytest.mark.parametrize("identifier", ["", "anything", f"uuid:9@{GUID_TEXT}"])
def test_without_msmq_the_id_means_nothing(identifier: str) -> None:
    message = read_envelope(envelope(path(identifier=identifier), properties()))
    assert (message.source_guid, message.ordinal) == (NULL_GUID, 1)


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/9", clause="id")
@pytest.mark.spec("MC-MQSRM 2.2.4.3/3", "MC-MQSRM 3.1.5.1.1/8")
def test_with_msmq_the_id_is_a_number_and_a_guid() -> None:
    message = read(msmq())
    assert (message.source_guid, message.ordinal) == (GUID, 7)
    for wrong in ("", "7", f"7@{GUID_TEXT}", f"uuid:x@{GUID_TEXT}", "uuid:7@", "uuid:7"):
        refused(envelope(path(identifier=wrong), properties(), msmq()))


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/9", clause="SourceQmGuid")
@pytest.mark.spec("MC-MQSRM 2.2.4.3/5", "MC-MQSRM 2.2.6.13/1", "MC-MQSRM 3.1.5.1.1/41")
def test_of_two_guids_the_one_of_the_source_counts() -> None:
    message = read(msmq(SourceQmGuid=SECOND_TEXT))
    assert (message.source_guid, message.ordinal) == (SECOND, 7)


@pytest.mark.spec("MC-MQSRM 2.2.4.4/1")
@pytest.mark.parametrize("inside", ["", "<via>a</via><via>b</via>", "<via/><via/>", "<Via/>"])
def test_rev_holds_exactly_one_via(inside: str) -> None:
    refused(envelope(path(more=f"<rev>{inside}</rev>"), properties()), "via")


@pytest.mark.spec("MC-MQSRM 2.2.4.4/2")
@pytest.mark.parametrize("via", [ADMIN, "MSMQ:DIRECT=OS:alpha\\private$\\answers"])
def test_via_names_the_response_queue(via: str) -> None:
    message = read_envelope(envelope(path(more=f"<rev><via> {via}</via></rev>"), properties()))
    assert message.via == via


@pytest.mark.spec("MC-MQSRM 2.2.4.4/3")
@pytest.mark.parametrize("via", ["<via/>", "<via></via>"])
def test_an_empty_via_is_no_response_queue(via: str) -> None:
    message = read_envelope(envelope(path(more=f"<rev>{via}</rev>"), properties()))
    assert message == read_envelope(envelope(path(), properties()))


@pytest.mark.spec("MC-MQSRM 2.2.4.5/1")
@pytest.mark.parametrize("name", ["fwd", "from", "relatesTo", "fault"])
def test_other_elements_of_the_path_are_ignored(name: str) -> None:
    more = f"<{name}><via>x</via><to>http://evil/</to></{name}>" * 2
    found = read_envelope(envelope(path(more=more), properties(), msmq()))
    assert found == read_envelope(simple())
    assert f"<{name}" not in write_envelope(found).decode()


# -- properties, 2.2.5.1


@pytest.mark.spec("MC-MQSRM 2.2.5.1/1")
def test_properties_are_there_and_marked() -> None:
    refused(envelope(path(), msmq()), "missing")
    refused(envelope(path(), properties().replace(MARK, "")), "mustUnderstand")


@pytest.mark.spec("MC-MQSRM 2.2.5.1.1/1")
def test_the_expiry_is_there_and_a_date() -> None:
    assert read().expires_at == LATER_S
    refused(envelope(path(), properties(expires=None)), "expiresAt")
    refused(envelope(path(), properties(expires="tomorrow")), "date")


@pytest.mark.spec("MC-MQSRM 2.2.5.1.2/1", "MC-MQSRM 3.1.5.1.1/14")
def test_the_time_of_sending_may_be_missing() -> None:
    assert read().sent_at == SENT_S
    assert read_envelope(envelope(path(), properties(sent=None))).sent_at is None
    refused(envelope(path(), properties(sent="")), "date")


@pytest.mark.spec("MC-MQSRM 2.2.5.1.3/1")
def test_in_reply_to_is_ignored() -> None:
    found = read_envelope(envelope(path(), properties(more="<inReplyTo>x</inReplyTo>"), msmq()))
    assert found == read_envelope(simple())
    assert b"inReplyTo" not in write_envelope(found)


# -- services, 2.2.5.2


@pytest.mark.spec("MC-MQSRM 2.2.5.2/1")
def test_services_are_marked() -> None:
    refused(envelope(path(), properties(), services("<durable/>", mark="")), "mustUnderstand")
    assert read(services("")) == read()


@pytest.mark.spec("MC-MQSRM 2.2.5.2.1/1", "MC-MQSRM 3.1.5.1.1/15")
def test_durable_makes_a_message_recoverable() -> None:
    assert read(DURABLE).durable
    assert not read(services(DELIVERY)).durable
    assert not read().durable


@pytest.mark.spec("MC-MQSRM 2.2.5.2.2/1")
def test_a_delivery_receipt_is_asked_for_with_an_address() -> None:
    assert read(services(DELIVERY)).delivery_receipt_to == ADMIN
    assert read().delivery_receipt_to == ""
    wrong = ("", "<sendTo/>", "<sendTo>alpha</sendTo>", "<sendTo>MSMQ:DIRECT=OS:a\\q</sendTo>")
    for inside in wrong:
        asked = f"<deliveryReceiptRequest>{inside}</deliveryReceiptRequest>"
        refused(envelope(path(), properties(), services(asked)), "sendTo")


@pytest.mark.spec("MC-MQSRM 2.2.5.2.3/1", "MC-MQSRM 3.1.5.1.1/18")
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("negative", [False, True])
def test_a_commitment_receipt_is_asked_for_with_an_address(positive: bool, negative: bool) -> None:
    inside = "<positiveOnly/>" * positive + "<negativeOnly/>" * negative
    found = read(services(commitment(inside)))
    assert found.commitment_receipt_to == ADMIN
    assert (found.positive_only, found.negative_only) == (positive, negative)


@pytest.mark.spec("MC-MQSRM 2.2.5.2.3/1")
def test_a_commitment_receipt_without_an_address_is_malformed() -> None:
    refused(envelope(path(), properties(), services(commitment(to=""))), "sendTo")
    bare = "<commitmentReceiptRequest><positiveOnly/></commitmentReceiptRequest>"
    refused(envelope(path(), properties(), services(bare)), "sendTo")


# -- stream, 2.2.5.3


@pytest.mark.spec(
    "MC-MQSRM 2.2.5.3/1",
    "MC-MQSRM 2.2.5.3.1/1",
    "MC-MQSRM 2.2.5.3.2/1",
    "MC-MQSRM 2.2.5.3.4/2",
    "MC-MQSRM 3.1.5.1.1/22",
    "MC-MQSRM 3.1.5.1.1/23",
    "MC-MQSRM 3.1.5.1.1/25",
)
def test_a_stream_has_a_name_a_number_and_an_address_for_receipts() -> None:
    found = read(DURABLE, stream(), msmq()).stream
    assert found == (STREAM_ID, GUID, SEQUENCE_ID, 1, 0, ADMIN)


@pytest.mark.spec("MC-MQSRM 2.2.5.3/1")
def test_a_stream_is_marked() -> None:
    refused(envelope(path(), properties(), DURABLE, stream(mark=""), msmq()), "mustUnderstand")


@pytest.mark.spec("MC-MQSRM 2.2.5.2.1/2")
def test_a_stream_without_durable_is_malformed() -> None:
    refused(envelope(path(), properties(), stream(), msmq()), "durable")
    refused(envelope(path(), properties(), services(DELIVERY), stream(), msmq()), "durable")


@pytest.mark.spec("MC-MQSRM 2.2.5.3/2")
def test_a_stream_without_msmq_is_malformed() -> None:
    refused(envelope(path(), properties(), DURABLE, stream()), "Msmq")
    refused(envelope(path(), properties(), stream(name="Stream")), "Msmq")


@pytest.mark.spec("MC-MQSRM 2.2.5.3/4")
def test_a_capital_stream_is_a_stream() -> None:
    small = read(DURABLE, stream(), msmq())
    assert read(DURABLE, stream(name="Stream"), msmq()) == small
    assert (
        read(stream(name="Stream"), msmq()) == small
    )  # as the example has it, durable all the same
    refused(envelope(path(), properties(), DURABLE, stream(), stream(name="Stream"), msmq()))
    assert b"<stream " in write_envelope(small)


@pytest.mark.spec("MC-MQSRM 2.2.5.3/5")
def test_unknown_children_of_stream_and_start_are_ignored() -> None:
    start = f"<start><sendReceiptsTo>\n{ADMIN}\n</sendReceiptsTo><expiresAt>x</expiresAt></start>"
    more = f"{start}<streamReceiptRequest/><end/>"
    assert read(DURABLE, stream(more=more), msmq()) == read(DURABLE, stream(), msmq())


@pytest.mark.spec("MC-MQSRM 2.2.5.3.1/1", "MC-MQSRM 2.2.5.3.2/1", "MC-MQSRM 2.2.5.3.4/2")
@pytest.mark.parametrize(
    "element",
    [
        stream(stream_id=""),
        stream(stream_id=f"<streamId>{GUID_TEXT}\\1</streamId>"),
        stream(current=""),
        stream(current="<current>0</current>"),
        stream(current="<current>x</current>"),
        stream(current="<current>4294967296</current>"),
        stream(more="<previous>-1</previous>"),
        stream(more="<start/>"),
        stream(more="<start><sendReceiptsTo>alpha</sendReceiptsTo></start>"),
        stream(more="<start><sendReceiptsTo/></start>"),
    ],
)
def test_a_stream_that_lacks_something_is_malformed(element: str) -> None:
    refused(envelope(path(), properties(), DURABLE, element, msmq()))


@pytest.mark.spec("MC-MQSRM 2.2.5.3.3/1", "MC-MQSRM 2.2.5.3.3/3", "MC-MQSRM 3.1.5.1.1/24")
@pytest.mark.parametrize(("text", "previous"), [("", 41), ("<previous>17</previous>", 17)])
def test_without_previous_it_is_the_number_before(text: str, previous: int) -> None:
    found = read(DURABLE, stream("<current>42</current>", text), msmq()).stream
    assert found is not None
    assert (found.current, found.previous) == (42, previous)
    assert found.send_receipts_to is None


# -- receipts, 2.2.5.4 to 2.2.5.6

ORIGINAL = f"<id>uuid:9@{SECOND_TEXT}</id>"
RECEIVED = "<receivedAt>20260101T000000</receivedAt>"
DECIDED = "<decidedAt>20260101T000000</decidedAt>"


@pytest.mark.spec("MC-MQSRM 2.2.5.4/2", "MC-MQSRM 2.2.5.4/3")
def test_a_delivery_receipt_has_its_time_and_the_original() -> None:
    found = read(f"<deliveryReceipt>{RECEIVED}{ORIGINAL}</deliveryReceipt>")
    assert found.delivery_receipt == (SENT_S, (SECOND, 9))
    for inside in ("", RECEIVED, ORIGINAL, RECEIVED + "<id>9</id>"):
        refused(envelope(path(), properties(), f"<deliveryReceipt>{inside}</deliveryReceipt>"))


@pytest.mark.spec("MC-MQSRM 2.2.5.5/2", "MC-MQSRM 2.2.5.5/3", "MC-MQSRM 2.2.5.5/4")
@pytest.mark.parametrize("decision", ["positive", "negative"])
def test_a_commitment_receipt_has_its_time_the_decision_and_the_original(decision: str) -> None:
    text = f"<decision>{decision}</decision>"
    found = read(f"<commitmentReceipt>{DECIDED}{text}{ORIGINAL}</commitmentReceipt>")
    assert found.commitment_receipt == (SENT_S, decision, (SECOND, 9))
    for inside in (DECIDED + ORIGINAL, DECIDED + text, text + ORIGINAL):
        refused(envelope(path(), properties(), f"<commitmentReceipt>{inside}</commitmentReceipt>"))


@pytest.mark.spec("MC-MQSRM 2.2.5.5/3")
@pytest.mark.parametrize("decision", ["", "Positive", "maybe", "positive negative"])
def test_another_decision_is_malformed(decision: str) -> None:
    inside = f"{DECIDED}<decision>{decision}</decision>{ORIGINAL}"
    text = f"<commitmentReceipt>{inside}</commitmentReceipt>"
    refused(envelope(path(), properties(), text), "decision")


@pytest.mark.spec("MC-MQSRM 2.2.5.6/2", "MC-MQSRM 2.2.5.6/3")
def test_a_stream_receipt_has_the_stream_and_the_last_number() -> None:
    name, last = f"<streamId>{STREAM_ID}</streamId>", "<lastOrdinal>2</lastOrdinal>"
    found = read(f"<streamReceipt>{name}{last}</streamReceipt>")
    assert found.stream_receipt == (STREAM_ID, GUID, SEQUENCE_ID, 2)
    for inside in ("", name, last, name + "<lastOrdinal>two</lastOrdinal>"):
        refused(envelope(path(), properties(), f"<streamReceipt>{inside}</streamReceipt>"))


# -- Msmq, 2.2.6


@pytest.mark.spec("MC-MQSRM 2.2.6/2")
def test_without_msmq_everything_has_its_default() -> None:
    found = read()
    assert not found.has_msmq
    assert (found.message_class, found.priority, found.source_guid) == (0, 3, NULL_GUID)
    assert (found.body_type, found.application_tag, found.hash_algorithm) == (0, 0, 0)


@pytest.mark.spec(
    "MC-MQSRM 2.2.6/3",
    "MC-MQSRM 2.2.6.1/1",
    "MC-MQSRM 2.2.6.2/1",
    "MC-MQSRM 2.2.6.9/1",
    "MC-MQSRM 2.2.6.13/1",
    "MC-MQSRM 2.2.6.17/1",
)
@pytest.mark.parametrize("name", ["Class", "Priority", "BodyType", "SourceQmGuid", "TTrq"])
@pytest.mark.parametrize("text", [None, "", "x"])
def test_required_children_are_there_and_sound(name: str, text: str | None) -> None:
    refused(simple(**{name: text}))


@pytest.mark.spec("MC-MQSRM 2.2.6.1/1", "MC-MQSRM 3.1.5.1.1/26")
@pytest.mark.parametrize("value", [0, 2, 255, 0x4000, 0xC004, 12345, 0x1_0000, 2**64 - 1])
def test_any_number_may_be_a_class(value: int) -> None:
    assert read(msmq(Class=str(value))).message_class == value


@pytest.mark.spec("MC-MQSRM 2.2.6.2/1", "MC-MQSRM 3.1.5.1.1/27")
def test_priorities_are_0_to_7() -> None:
    for value in range(8):
        assert read(msmq(Priority=str(value))).priority == value
    refused(simple(Priority="8"), "priority")


@pytest.mark.spec(
    "MC-MQSRM 2.2.6.3/1",
    "MC-MQSRM 2.2.6.4/1",
    "MC-MQSRM 2.2.6.6/1",
    "MC-MQSRM 3.1.5.1.1/28",
    "MC-MQSRM 3.1.5.1.1/29",
    "MC-MQSRM 3.1.5.1.1/31",
)
@pytest.mark.parametrize(
    ("name", "attribute"),
    [("Journal", "journal"), ("DeadLetter", "dead_letter"), ("Trace", "trace")],
)
def test_empty_elements_ask_for_something(name: str, attribute: str) -> None:
    assert getattr(read(msmq(f"<{name}/>")), attribute) is True
    assert getattr(read(msmq()), attribute) is False


@pytest.mark.spec("MC-MQSRM 2.2.6.5/1", "MC-MQSRM 2.2.6.5/2", "MC-MQSRM 3.1.5.1.1/30")
def test_the_correlation_is_twenty_octets() -> None:
    text = "AAECAwQFBgcICQoLDA0ODxAREhM="
    assert read(msmq(Correlation=text)).correlation == bytes(range(20))
    refused(simple(Correlation="AAECAwQF"), "correlation")
    refused(simple(Correlation="!" * 28), "base64")


@pytest.mark.spec("MC-MQSRM 2.2.6.7/1", "MC-MQSRM 3.1.5.1.1/32")
def test_the_connector_type_is_a_guid() -> None:
    assert read(msmq(ConnectorType=SECOND_TEXT)).connector_type == SECOND
    refused(simple(ConnectorType="connector"), "GUID")


@pytest.mark.spec(
    "MC-MQSRM 2.2.6.8/1",
    "MC-MQSRM 2.2.6.9/1",
    "MC-MQSRM 2.2.6.10/1",
    "MC-MQSRM 3.1.5.1.1/33",
    "MC-MQSRM 3.1.5.1.1/34",
    "MC-MQSRM 3.1.5.1.1/35",
)
@pytest.mark.parametrize(
    ("name", "attribute"),
    [("App", "application_tag"), ("BodyType", "body_type"), ("HashAlgorithm", "hash_algorithm")],
)
def test_numbers_are_read(name: str, attribute: str) -> None:
    assert getattr(read(msmq(**{name: "32772"})), attribute) == 32772
    for wrong in ("", "x", "-1", "4294967296"):
        refused(simple(**{name: wrong}))


@pytest.mark.spec(
    "MC-MQSRM 2.2.6.11/1",
    "MC-MQSRM 2.2.6.11/2",
    "MC-MQSRM 3.1.5.1.1/36",
    "MC-MQSRM 3.1.5.1.1/37",
    "MC-MQSRM 3.1.5.1.1/38",
)
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("connector", ["", SECOND_TEXT])
def test_marks_of_a_transaction_are_read(first: bool, last: bool, connector: str) -> None:
    inside = "<First/>" * first + "<Last/>" * last
    inside += f"<ConnectorId>{connector}</ConnectorId>" if connector else ""
    found = read(msmq(f"<Eod>{inside}</Eod>"))
    assert (found.first, found.last) == (first, last)
    assert found.connector_id == (SECOND if connector else NULL_GUID)
    refused(simple(Eod="<ConnectorId>x</ConnectorId>"), "GUID")


@pytest.mark.spec("MC-MQSRM 2.2.6.12/1", "MC-MQSRM 3.1.5.1.1/39", "MC-MQSRM 3.1.5.1.1/40")
def test_a_provider_has_a_type_or_a_name() -> None:
    both = "<Type>1234</Type><Name>ProviderName</Name>"
    assert read(msmq(Provider=both)).provider == (1234, "ProviderName")
    assert read(msmq(Provider="<Type>1</Type>")).provider == (1, "")
    assert read(msmq(Provider="<Name>x</Name>")).provider == (0, "x")
    assert read(msmq()).provider is None
    refused(simple(Provider=""), "Provider")
    refused(simple(Provider="<Type>x</Type>"), "number")


@pytest.mark.spec(
    "MC-MQSRM 2.2.6.14/1",
    "MC-MQSRM 2.2.6.15/1",
    "MC-MQSRM 2.2.6.16/1",
    "MC-MQSRM 3.1.5.1.1/42",
    "MC-MQSRM 3.1.5.1.1/43",
    "MC-MQSRM 3.1.5.1.1/44",
)
@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("DestinationMqf", "destination_mqf"),
        ("AdminMqf", "admin_mqf"),
        ("ResponseMqf", "response_mqf"),
    ],
)
def test_lists_are_split_at_white_space(name: str, attribute: str) -> None:
    names = ("http://Machine1/msmq/q", "http://Machine2/msmq/q", "MSMQ:DIRECT=OS:x\\q")
    text = f"\r\n{names[0]}\n{names[1]}\t {names[2]} \n"
    assert getattr(read(msmq(**{name: text})), attribute) == names
    assert getattr(read(msmq()), attribute) == ()


@pytest.mark.spec("MC-MQSRM 2.2.6.17/1", "MC-MQSRM 2.2.1.2/2")
def test_the_time_to_reach_the_queue_is_a_date() -> None:
    assert read(msmq()).reach_by == LATER_S
    refused(simple(TTrq="20261332T000000"), "date")


# -- all of it


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_written_of_an_example_reads_the_same(name: str) -> None:
    message = read_envelope(example(name).parts.envelope)
    assert read_envelope(write_envelope(message)) == message


@given(st.data())
def test_any_damage_gives_a_message_or_the_proper_error(data: st.DataObject) -> None:
    xml = bytearray(example(data.draw(st.sampled_from(EXAMPLES))).parts.envelope)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(xml)))
        end = at + data.draw(st.integers(0, 12))
        xml[at:end] = data.draw(st.binary(max_size=12) | st.sampled_from((b"<", b">", b"/", b"1")))
    with suppress(MalformedPacket):
        read_envelope(bytes(xml))


def test_namespaces_are_declared_where_the_document_has_them() -> None:
    text = write_envelope(read(msmq())).decode()
    assert text.startswith(f"<se:Envelope {SE} {SRMP}><se:Header><path {RP} {MARK}>")
    assert '<Msmq xmlns="msmq.namespace.xml">' in text
