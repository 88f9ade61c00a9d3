"""Packets made into SRMP messages, [MC-MQSRM] 3.1.7.2.2 and 3.1.7.2.4.

The same packet gives the same octets each time it is sent: its identifier, its time and its place
in a stream were given once (decision 62).
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote

from posthouse.model.errors import MalformedPacket, RemoteProtocolError
from posthouse.model.message import (
    ACK_NEG_RECEIVE,
    ACK_POS_ARRIVAL,
    ACK_POS_RECEIVE,
    MessageId,
)
from posthouse.model.message_classes import ACK_REACH_QUEUE
from posthouse.model.names import DirectName, FormatName, MulticastName
from posthouse.wire.packet.headers import HOPS, INFINITE, OVER_HTTP, TRANSACTION_HEADER, BaseFlags
from posthouse.wire.packet.optional_headers import MultiQueue
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import RECOVERABLE, PacketSummary, summarize
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.forwarding_headers import FORWARDED_FOR, sender_in, via_of
from posthouse.wire.srmp.message import (
    FOREVER,
    LABEL_PREFIX,
    CommitmentReceipt,
    DeliveryReceipt,
    SrmpMessage,
    Stream,
    StreamReceipt,
    decision_of,
)
from posthouse.wire.srmp.mime_parts import XML, Parts, read_parts, write_parts
from posthouse.wire.srmp.receipts import read_stream_receipt
from posthouse.wire.srmp.stored_messages import stored_parts, without_srmp
from posthouse.wire.srmp.values import (
    escape,
    is_url,
    read_stream_id,
    write_message_id,
    write_stream_id,
)
from posthouse.wire.srmp.writer import write_envelope

ORDER_QUEUE_PATH: Final = "/MSMQ/PRIVATE$/order_queue$"  # decision 60
SOAP_ACTION: Final = ("SOAPAction", '"MSMQMessage"')
PROXY_ACCEPT: Final = ("Proxy-Accept", "NonInteractiveClient")
BOUNDARY_NUMBERS: Final = 0xFFFF

_NO_CORRELATION: Final = bytes(20)
_TRACING: Final = int(BaseFlags.of(tracing=1))
_JN, _JP = 1 << 8, 1 << 9  # of the UserHeader
_CG, _FA, _FM, _LM = 1, 2, 4, 8  # of the TransactionHeader
_UNESCAPED: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SAFE_IN_PATH: Final = "/$-_.!~*'()?=&:@;+,%"
_TO: Final = re.compile(r"(<(?:[^\s<>/:]+:)?to(?:\s[^<>]*)?>)[^<]*(</(?:[^\s<>/:]+:)?to\s*>)")


def url_of_web_name(name: FormatName) -> str | None:
    """The URL of a name of HTTP or HTTPS, scheme in lower case (decision 61); None for others."""
    if not (isinstance(name, DirectName) and name.is_web):
        return None
    scheme, colon, rest = name.wire.partition(":")
    return f"{scheme.lower()}{colon}{rest}"


class SrmpContext(NamedTuple):
    """What the SRMP form of a message needs beside its packet."""

    receipts_to: str  # sendReceiptsTo of the streams to this destination
    url_of: Callable[[FormatName], str | None] = url_of_web_name  # also of queues of ours
    destination: FormatName | None = None  # where the packet does not name it
    # body, extension, GUID, ordinal -> Signature
    sign: Callable[[bytes, bytes, bytes, int], bytes] | None = None


class SrmpRequest(NamedTuple):
    """A message as it goes out: the fields of its head and its payload."""

    url: str  # what stands in `to`
    fields: list[tuple[str, str]]
    payload: bytes


def srmp_of(packet: bytes, seen: PacketSummary, context: SrmpContext) -> SrmpRequest:
    """Message Serialization, 3.1.7.2.4; a message that came over HTTP goes on as it came.

    Its head states how many have passed it on, and from whom the last of them had it.
    """
    made, hops = _serialized(packet, seen, context), seen.user_flags & HOPS
    if not hops:
        return made
    fields, sender = [*made.fields, ("Via", via_of(hops))], _sender(packet, seen)
    return made._replace(fields=[*fields, (FORWARDED_FOR, sender)] if sender else fields)


def _sender(packet: bytes, seen: PacketSummary) -> str:
    try:
        return sender_in(stored_parts(packet, seen).compound)
    except RemoteProtocolError:
        return ""


def _serialized(packet: bytes, seen: PacketSummary, context: SrmpContext) -> SrmpRequest:
    if seen.user_flags & OVER_HTTP:
        try:
            return _forwarded(packet, seen, context)
        except RemoteProtocolError:  # its envelope cannot be changed: then it gets a new one
            packet = without_srmp(packet, seen)
            seen = summarize(packet)
    view = Packet(packet, seen)
    message = message_of(view, context)
    if message.stream_receipt or message.delivery_receipt or message.commitment_receipt:
        return _request(message.to, XML, write_envelope(message))
    body, extension = view.body, view.extension
    signature = b""
    if context.sign is not None and (body or extension):
        signature = context.sign(body, extension, seen.source_guid, seen.ordinal)
    envelope = write_envelope(message, signature)
    content_type, payload = write_parts(
        envelope,
        body,
        extension,
        guid=seen.source_guid,
        number=seen.ordinal % BOUNDARY_NUMBERS,
    )
    return _request(message.to, content_type, payload)


def _request(url: str, content_type: str, payload: bytes) -> SrmpRequest:
    fields = [("Content-Type", content_type), SOAP_ACTION, PROXY_ACCEPT]
    return SrmpRequest(url, fields, payload)


# -- the elements of a message


def message_of(view: Packet, context: SrmpContext) -> SrmpMessage:
    """The elements that a packet's properties become."""
    seen, names = view.summary, view.names
    flags, guid = seen.user_flags, seen.source_guid
    properties = view.properties
    until = _until(seen)
    message = SrmpMessage(
        action=LABEL_PREFIX + view.label,
        to=destination_of(view, context),
        id=write_message_id(guid, seen.ordinal),
        expires_at=until,
        sent_at=seen.sent_time,
        durable=bool(flags & RECOVERABLE),
        has_msmq=True,
        message_class=seen.message_class,
        priority=seen.priority,
        journal=bool(flags & _JP),
        dead_letter=bool(flags & _JN),
        trace=bool(seen.base_flags & _TRACING),
        connector_type=names.connector_type,
        source_guid=guid,
        ordinal=seen.ordinal,
        reach_by=until,
    )
    if properties is not None:
        correlation = properties.correlation_id
        message.correlation = b"" if correlation == _NO_CORRELATION else correlation
        message.application_tag = properties.application_tag
        message.body_type = properties.body_type
        message.hash_algorithm = properties.hash_algorithm
    if names.response is not None:
        message.via = context.url_of(names.response) or f"{LABEL_PREFIX}{names.response}"
    if seen.security_at and view.security is not None:
        message.provider = view.security.provider
    if view.tail.multi_queue_at and view.multi_queue is not None:
        _set_lists(message, view.multi_queue, context)
    if seen.transaction_at:
        _set_stream(message, view, context)
    _set_services(message, view, context)
    _set_receipts(message, view)
    return message


def destination_of(view: Packet, context: SrmpContext) -> str:
    """The to element, 2.2.4.2: a URL, or `MSMQ:` and a multicast name."""
    name = context.destination or view.destination_queue
    if name is None and view.multi_queue is not None and view.multi_queue.destination:
        name = view.multi_queue.destination[0]
    if isinstance(name, MulticastName):
        return f"{LABEL_PREFIX}{name}"
    url = None if name is None else url_of_web_name(name)
    assert url is not None, f"{name} is not a name of HTTP"
    return url


def _until(seen: PacketSummary) -> int:
    """Sent time and time to reach queue, as far as a date can express it (decision 63)."""
    if seen.time_to_reach_queue == INFINITE:
        return FOREVER
    return min(seen.sent_time + seen.time_to_reach_queue, FOREVER)


def _set_lists(message: SrmpMessage, lists: MultiQueue, context: SrmpContext) -> None:
    """DestinationMqf, AdminMqf and ResponseMqf, 2.2.6.14 to 2.2.6.16.

    A multicast name by itself is not a list: it stands there because the header has no room for it.
    """
    if len(lists.destination) == 1 and isinstance(lists.destination[0], MulticastName):
        lists = lists._replace(destination=())
    message.destination_mqf, message.admin_mqf, message.response_mqf = (
        tuple(context.url_of(name) or f"{LABEL_PREFIX}{name}" for name in names)
        for names in (lists.destination, lists.administration, lists.response)
    )


def _set_stream(message: SrmpMessage, view: Packet, context: SrmpContext) -> None:
    """stream, 2.2.5.3, and Eod, 2.2.6.11, of a message with a place in a sequence.

    What has nothing of its stream in front of it begins it, also where the first one has
    expired (decision 76).
    """
    seen = view.summary
    flags, sequence_id, current, previous = TRANSACTION_HEADER.codec.unpack_from(
        view.data, seen.transaction_at
    )
    message.first, message.last = bool(flags & _FM), bool(flags & _LM)
    message.connector_id = view.connector_guid
    message.durable = True
    if current:
        stream_id = write_stream_id(seen.source_guid, sequence_id)
        start = None if previous else context.receipts_to
        place = stream_id, seen.source_guid, sequence_id, current, previous, start
        message.stream = Stream(*place)


def _set_services(message: SrmpMessage, view: Packet, context: SrmpContext) -> None:
    """The receipts asked for, 2.2.5.2; without an address that is a URL none can be."""
    asked = view.summary.ack_flags
    final = view.summary.transaction_flags & _FA
    administration = view.names.administration
    if administration is None or not (asked or final):
        return
    url = context.url_of(administration)
    if url is None:
        return
    if asked & ACK_POS_ARRIVAL:
        message.delivery_receipt_to = url
    if final or asked & (ACK_POS_RECEIVE | ACK_NEG_RECEIVE):
        message.commitment_receipt_to = url
        message.positive_only = bool(asked & ACK_POS_RECEIVE)
        message.negative_only = bool(asked & ACK_NEG_RECEIVE)


def _set_receipts(message: SrmpMessage, view: Packet) -> None:
    """2.2.5.4 to 2.2.5.6: what an acknowledgment of ours is over HTTP, by its class."""
    code, decided_at = message.message_class, view.summary.sent_time
    if not code:
        return
    receipt = read_stream_receipt(view.data, view.summary)
    if receipt is not None:
        stream_id, guid, sequence_id = read_stream_id(receipt.stream_id)
        message.stream_receipt = StreamReceipt(stream_id, guid, sequence_id, receipt.last_ordinal)
        if receipt.final:
            decision = decision_of(code)
            message.commitment_receipt = CommitmentReceipt(decided_at, decision, receipt.identifier)
        else:
            message.correlation = _NO_CORRELATION
        return
    original = MessageId.unpack(message.correlation or _NO_CORRELATION)
    if code == ACK_REACH_QUEUE:
        message.delivery_receipt = DeliveryReceipt(decided_at, original)
    elif decision := decision_of(code):
        message.commitment_receipt = CommitmentReceipt(decided_at, decision, original)


# -- messages that go on


def _forwarded(packet: bytes, seen: PacketSummary, context: SrmpContext) -> SrmpRequest:
    """A message for somebody else: its own envelope with another destination (3.1.5.1.3)."""
    to = destination_of(Packet(packet, seen), context)
    stored = stored_parts(packet, seen)
    parts = _parts_of_compound(stored.compound)
    text, count = _TO.subn(lambda found: found[1] + escape(to) + found[2], stored.envelope)
    envelope = text.encode()
    if count != 1 or read_envelope(envelope).to != to:
        raise MalformedPacket("an envelope in which the destination cannot be changed")
    if not (parts.body_id or parts.extension_id or parts.body):
        return _request(to, XML, envelope)
    content_type, payload = write_parts(
        envelope,
        parts.body,
        parts.extension,
        guid=seen.source_guid,
        number=seen.ordinal % BOUNDARY_NUMBERS,
        body_id=parts.body_id,
        extension_id=parts.extension_id,
        body_content_type=parts.body_content_type,
    )
    return _request(to, content_type, payload)


def _parts_of_compound(compound: bytes) -> Parts:
    """The parts of an HTTP message that was accepted once."""
    head, _, payload = compound.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-type":
            return read_parts(value.strip().decode("latin-1"), payload)
    raise MalformedPacket("an HTTP message without Content-Type")


# -- addresses


@lru_cache(1024)
def request_target(url: str) -> tuple[str, str]:
    """The Host field and the path of the request line for a URL, percent-encoded."""
    assert is_url(url)
    authority, _, path = url.partition("://")[2].partition("/")
    whole = _UNESCAPED.sub("%25", path)
    return authority, "/" + quote(whole, safe=_SAFE_IN_PATH, encoding="utf-8", errors="replace")
