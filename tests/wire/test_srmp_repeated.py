"""Messages that differ in number and body only are read and packed as if each had come alone."""

from __future__ import annotations

import gc
from collections.abc import Callable
from random import Random

import pytest

from posthouse.model.errors import RemoteProtocolError
from posthouse.wire.packet.packet_fields import PacketSummary, summarize
from posthouse.wire.srmp import repeated_messages
from posthouse.wire.srmp.envelope import read_tree
from posthouse.wire.srmp.mapping import packet_of
from posthouse.wire.srmp.message import SrmpMessage
from posthouse.wire.srmp.mime_parts import FRAME_SIZE_MAX, Parts, read_parts, write_parts
from posthouse.wire.srmp.repeated_messages import REPEATED_MAX, TEMPLATES_MAX, MessageReader
from tests.conftest import Dose
from tests.wire.srmp import GUID, GUID_TEXT, LATER, MARK, NOW_S, RP, SE, SENT, SRMP, URL

HEAD = b"POST /msmq/private$/q HTTP/1.1\r\nHost: beta\r\nContent-Type: %b\r\n\r\n"
Seen = tuple[SrmpMessage, Parts, bytes, PacketSummary]
Request = tuple[bytes, str, bytes]


def request(
    number: str = "1000000007",
    body: bytes = b"0123456789",
    sent: str = f"<sentAt>{SENT}</sentAt>",
    action: str = "MSMQ:order",
    inner: str = "",
    host: bytes = b"beta",
) -> Request:
    envelope = (
        f"<se:Envelope {SE} {SRMP}><se:Header>"
        f"<path {RP} {MARK}><action>{action}</action><to>{URL}</to>"
        f"<id>uuid:{number}@{GUID_TEXT}</id></path>"
        f"<properties {MARK}><expiresAt>{LATER}</expiresAt>{sent}</properties>"
        f"<services {MARK}><durable/></services>{inner}"
        '<Msmq xmlns="msmq.namespace.xml"><Class>0</Class><Priority>3</Priority>'
        f"<BodyType>0</BodyType><SourceQmGuid>{GUID_TEXT}</SourceQmGuid><TTrq>{LATER}</TTrq></Msmq>"
        "</se:Header><se:Body></se:Body></se:Envelope>"
    )
    kind, payload = write_parts(envelope.encode(), body, guid=GUID, number=1)
    return HEAD.replace(b"beta", host) % kind.encode(), kind, payload


def remembered(reader: MessageReader, one: Request) -> Seen | str:
    """What a connection makes of a request after others."""
    try:
        message, parts, template = reader.read(*one)
        if template is not None:
            return message, parts, *template.packet(parts.payload)
        packet = packet_of(message, parts, one[0], NOW_S)
    except RemoteProtocolError as error:
        return str(error)
    return message, parts, packet, summarize(packet)


def alone(one: Request) -> Seen | str:
    """The long way, with nothing remembered."""
    head, kind, payload = one
    try:
        parts = read_parts(kind, payload)
        message = read_tree(parts.envelope)
        packet = packet_of(message, parts, head, NOW_S)
    except RemoteProtocolError as error:
        return str(error)
    return message, parts, packet, summarize(packet)


def primed(one: Request) -> MessageReader:
    """A connection that has a template of this request."""
    reader = MessageReader()
    for _ in range(2):
        reader.read(*one)
    assert reader.read(*one).template is not None
    return reader


@pytest.mark.parametrize("number", ["1000000008", "0000000001", "4294967295", "0000000000"])
def test_another_number_and_another_body_are_read_by_the_template(number: str) -> None:
    reader, other = primed(request()), request(number, b"abcdefghij")
    assert reader.read(*other).template is not None
    assert remembered(reader, other) == alone(other)


@pytest.mark.parametrize(
    "other",
    [
        request("4294967296"),
        request("9999999999"),
        request("100000000"),
        request("10000000078"),
        request("-000000007"),
        request("+000000007"),
        request("١000000000"[:9]),
        request(body=b"0123456"),
        request(body=b""),
        request(sent="<sentAt>20260101T000001</sentAt>"),
        request(action="MSMQ:other"),
        request(host=b"gama"),
        request(inner="<x/>"),
    ],
)
def test_what_differs_in_more_is_read_as_if_it_came_first(other: Request) -> None:
    assert remembered(primed(request()), other) == alone(other)


def test_any_other_byte_is_read_as_if_it_came_first() -> None:
    head, kind, payload = request()
    reader = primed((head, kind, payload))
    for new in (b"0", b"9", b"@", b"<", b"&", b"x", b"\r", b"\xff"):
        for at in range(len(payload)):
            for changed in (
                payload[:at] + new + payload[at + 1 :],
                payload[:at] + new + payload[at:],
            ):
                one = (head, kind, changed)
                assert remembered(reader, one) == alone(one), (new, at)
                reader._template = reader._template or primed((head, kind, payload))._template


@pytest.mark.parametrize(
    "make",
    [
        lambda n: request(str(n), sent=""),  # the time of arrival would be in its packet
        lambda n: request(str(n), inner=f"<stream {MARK}><streamId>x</streamId></stream>"),
        lambda n: request(str(n), action="MSMQ:" + "x" * 260),
        lambda n: request(str(n), action="MSMQ:" + "y" * REPEATED_MAX),
        lambda n: request(str(n), body=b""),
    ],
)
def test_what_has_no_template_is_read_as_if_it_came_first(make: Callable[[int], Request]) -> None:
    reader = MessageReader()
    for number in range(10, 14):
        assert remembered(reader, make(number)) == alone(make(number))
        assert reader._template is None


def test_requests_in_any_order_on_any_connection(dose: Dose) -> None:
    kinds: list[Callable[[str, bytes], Request]] = [
        request,
        lambda number, body: request(number, body, action="MSMQ:a"),
        lambda number, body: request(number, body, sent="<sentAt>20260101T000001</sentAt>"),
        lambda number, body: request(number, body, sent=""),
        lambda number, body: request(number, body, host=b"gama"),
        lambda number, body: request(number, body, inner="<!-- -->"),
    ]
    templated = 0
    for seed in range(dose(20, 1000)):
        chance = Random(seed)
        readers, changes = [MessageReader(), MessageReader()], chance.choice((0.0, 0.1, 0.5))
        kind = chance.choice(kinds)
        for _ in range(60):
            if chance.random() < changes:
                kind = chance.choice(kinds)
            number = str(chance.choice((*range(1, 10), 4294967295, 4294967296)))
            one = kind(number, chance.randbytes(3 if chance.random() < 0.9 else 8))
            if chance.random() < 0.05:
                at = chance.randrange(len(one[2]))
                one = (*one[:2], one[2][:at] + chance.randbytes(1) + one[2][at + 1 :])
            reader = chance.choice(readers)
            assert remembered(reader, one) == alone(one), one
            templated += reader._template is not None
    assert templated > 5 * seed


def copied(number: str, copy: str) -> Request:
    """A request with a copy of the envelope in front of it, in a header of its part."""
    head, kind, payload = request(number)
    start, end = payload.index(b"<se:Envelope"), payload.index(b"</se:Envelope>") + 14
    other = payload[start:end].replace(number.encode(), copy.encode())
    return head, kind, payload.replace(b"\r\n\r\n", b"\r\nX: " + other + b"\r\n\r\n", 1)


def test_a_copy_of_the_envelope_is_not_taken_for_it() -> None:
    # Less stands around the parts than a connection remembers at most.
    assert len(request()[2]) < FRAME_SIZE_MAX
    reader = primed(copied("1000000007", "1000000007"))
    for other in (
        copied("1000000007", "1000000099"),
        copied("1000000099", "1000000007"),
        copied("1000000099", "1000000099"),
    ):
        assert remembered(reader, other) == alone(other)


def bytes_below(what: object) -> int:
    """Bytes and text that are held by something, and by what that holds."""
    found: dict[int, int] = {}
    look: list[object] = [what]
    while look:
        one = look.pop()
        if id(one) in found or isinstance(one, type):
            continue
        found[id(one)] = len(one) if isinstance(one, bytes | str) else 0
        look += gc.get_referents(one)
    return sum(found.values())


def test_a_template_keeps_nothing_of_a_body() -> None:
    reader = primed(request(body=bytes(1 << 20)))
    assert reader._template is not None
    assert bytes_below(reader) < 4 * REPEATED_MAX
    assert bytes_below(repeated_messages._shared[reader._template.repeated]) < 4 * REPEATED_MAX


def test_connections_share_templates_up_to_a_limit() -> None:
    first, second = primed(request()), primed(request())
    assert first._template is second._template
    for number in range(2 * TEMPLATES_MAX):
        primed(request(action=f"MSMQ:{number}"))
        assert len(repeated_messages._shared) <= TEMPLATES_MAX
    assert remembered(first, request("1000000009")) == alone(request("1000000009"))
