"""Messages that came over HTTP, as they are kept and as others read them ([MS-MQRR] 2.2.5.1.2)."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import RemoteProtocolError
from posthouse.model.message import Message, MessageId
from posthouse.model.names import DirectName, parse_format_name
from posthouse.wire.packet.headers import OVER_HTTP
from posthouse.wire.packet.message import deserialize, serialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.packet.patch import PACKET_SIZE_AT, USER_FLAGS_AT, stamp
from posthouse.wire.packet.renaming import with_direct_administration, with_direct_destination
from posthouse.wire.srmp.stored_messages import (
    came_over_http,
    document_form,
    soap_texts,
    stored_form,
    stored_parts,
    without_srmp,
)
from tests.wire.srmp import BEHIND, ENVELOPE, FRONT, http_packet

GUID = bytes(range(16))
TAILS: list[dict[str, Any]] = [
    {},
    {"tracing_requested": True, "tracing_queue_identifier": GUID},
    {"destination_multi_queue_format_name": (r"DIRECT=OS:a\q",)},
    {
        "tracing_requested": True,
        "tracing_queue_identifier": GUID,
        "destination_multi_queue_format_name": (r"DIRECT=OS:a\q",),
        "label": "odd",
        "extension": b"e",
    },
]


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/53")
@pytest.mark.parametrize("attributes", TAILS)
@pytest.mark.parametrize("body", [b"", b"b", b"body", b"x" * 999])
def test_everything_is_found_in_the_stored_form(attributes: dict[str, Any], body: bytes) -> None:
    packet = http_packet(body, **attributes)
    assert came_over_http(packet)
    view = Packet(packet)
    view.check()
    assert view.body == body
    parts = stored_parts(packet)
    assert (parts.envelope, parts.compound) == (ENVELOPE, FRONT + body + BEHIND)
    assert (parts.body_offset, parts.body_size) == (len(FRONT), len(body))
    message = deserialize(packet)
    assert (message.body, message.soap_envelope) == (body, ENVELOPE)
    assert message.soap_compound_message == FRONT + body + BEHIND
    assert (message.soap_header, message.soap_body) == ("<se:Header>ä</se:Header>", "<se:Body/>")
    assert message.tracing_queue_identifier == attributes.get("tracing_queue_identifier", bytes(16))
    assert message.destination_multi_queue_format_name == attributes.get(
        "destination_multi_queue_format_name", ()
    )


@pytest.mark.parametrize("attributes", TAILS)
@given(body=st.binary(max_size=40), envelope=st.text(max_size=20).filter(lambda t: "\0" not in t))
def test_both_forms_lead_to_each_other(
    attributes: dict[str, Any], body: bytes, envelope: str
) -> None:
    packet = http_packet(body, envelope, **attributes)
    read = document_form(packet, summarize(packet))
    seen = summarize(read)
    assert seen.body_size == 0
    assert stored_parts(read) == stored_parts(packet)
    assert stored_form(read, seen) == packet
    assert stored_form(packet, summarize(packet)) == packet
    assert document_form(read, seen) == read


@pytest.mark.parametrize("attributes", TAILS)
@pytest.mark.parametrize("in_document_form", [False, True])
def test_sent_anew_nothing_is_left_of_http(
    attributes: dict[str, Any], in_document_form: bool
) -> None:
    packet = http_packet(b"body", **attributes)
    if in_document_form:
        packet = document_form(packet, summarize(packet))
    assert without_srmp(packet, summarize(packet)) == serialize(Message(body=b"body", **attributes))


def test_the_flag_alone_is_dropped() -> None:
    plain = serialize(Message(body=b"body"))
    packet = bytearray(plain)
    (flags,) = struct.unpack_from("<I", packet, USER_FLAGS_AT)
    struct.pack_into("<I", packet, USER_FLAGS_AT, flags | OVER_HTTP)
    assert without_srmp(bytes(packet), summarize(bytes(packet))) == plain
    with pytest.raises(RemoteProtocolError):
        stored_parts(bytes(packet))
    with pytest.raises(RemoteProtocolError):
        stored_parts(plain)


@pytest.mark.parametrize("attributes", TAILS)
def test_patches_and_new_names_leave_the_headers_alone(attributes: dict[str, Any]) -> None:
    packet = http_packet(b"body", **attributes)
    before = stored_parts(packet)
    stamped = stamp(packet, source_guid=GUID, ordinal=7, sent_time=9)
    assert stored_parts(stamped) == before
    name = parse_format_name("DIRECT=HTTP://far/msmq/private$/a_queue")
    assert isinstance(name, DirectName)
    for renamed in (
        with_direct_administration(packet, summarize(packet), name),
        with_direct_destination(packet, summarize(packet), name),
    ):
        view = Packet(renamed)
        view.check()
        assert name in (view.administration_queue, view.destination_queue)
        assert stored_parts(renamed) == before
        assert view.body == b"body"
        assert view.identifier == MessageId(bytes(16), 0)


@given(st.data())
def test_any_cut_or_change_gives_parts_or_one_error(data: st.DataObject) -> None:
    packet = bytearray(http_packet(b"body", **data.draw(st.sampled_from(TAILS))))
    at = data.draw(st.integers(USER_FLAGS_AT, len(packet) - 1))
    packet[at] = data.draw(st.integers(0, 255))
    length = data.draw(st.integers(64, len(packet)))
    changed = bytearray(packet[:length])
    struct.pack_into("<I", changed, PACKET_SIZE_AT, len(changed))
    for whole in (bytes(packet), bytes(changed)):
        try:
            seen = summarize(whole)
            without_srmp(whole, seen)
            stored_parts(whole, seen)
            document_form(whole, seen)
            stored_form(whole, seen)
        except RemoteProtocolError:
            pass


@pytest.mark.parametrize(
    ("envelope", "expected"),
    [
        ("<Envelope><Header a='1'>x</Header><Body>y</Body></Envelope>", ("x", "y")),
        ("<s:Envelope><s:Header/><s:Body ></s:Body></s:Envelope>", ("", "")),
        ("<s:Envelope></s:Envelope>", ("", "")),
    ],
)
def test_soap_texts_are_found_under_any_prefix(envelope: str, expected: tuple[str, str]) -> None:
    for text, inner in zip(soap_texts(envelope), expected, strict=True):
        assert inner in text


def test_soap_texts_are_found_in_one_pass() -> None:
    """Beginnings without ends, many of them: with a pattern for both this took seconds."""
    many = "<Header>" * 2000 + "y" * 240_000
    assert soap_texts(f"<s·:Envelope>{many}<s·:Body>b</s·:Body></s·:Envelope>") == (
        "",
        "<s·:Body>b</s·:Body>",
    )
    assert soap_texts("<a:Header x='/'>1<a:Headers></a:Headers></a:Header ><Body a=''/>") == (
        "<a:Header x='/'>1<a:Headers></a:Headers></a:Header >",
        "<Body a=''/>",
    )
