"""Converts between stored packets, messages to send and their JSON (docs/api.md)."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from posthouse.api.sends import SendBody
from posthouse.engine.ledger.effects import Read
from posthouse.engine.ledger.records import (
    FLAG_AUTHENTICATED,
    FLAG_EXPRESS,
    FLAG_FIRST,
    FLAG_LAST,
    FLAG_REMOTE,
    FLAG_TRANSACTIONAL,
)
from posthouse.formats import FormatError
from posthouse.formats.encode import encode_text
from posthouse.formats.trace_headers import shown_trace
from posthouse.model.errors import IllegalPropertyValue, RemoteProtocolError
from posthouse.model.guids import NULL_GUID, format_guid, parse_guid
from posthouse.model.message import (
    INFINITE,
    DeliveryGuarantee,
    Message,
    MessageId,
    SenderIdentifierType,
    ack_bits,
    ack_words,
    class_name,
    journal_bits,
    journal_words,
)
from posthouse.model.message_json import (
    VT_LPSTR,
    MessageJson,
    TransactionJson,
    body_text,
    text_body,
    time_text,
)
from posthouse.model.message_values import (
    JOURNAL_NEGATIVE,
    JOURNAL_POSITIVE,
    HashAlgorithm,
    QueueTypeCode,
)
from posthouse.model.names import PathName, PublicName, parse_name
from posthouse.model.text import has_lone_surrogate
from posthouse.security.sids import format_sid, is_sid
from posthouse.wire.packet.bodies import body_bytes
from posthouse.wire.packet.message import deserialize
from posthouse.wire.packet.packet import is_encrypted
from posthouse.wire.packet.packet_fields import summarize

FORMATTED_MAX: Final = 1 << 18  # characters: a formatter takes a few microseconds for each


def message_json(
    read: Read, packet: bytes, queue: str, code_page: str = "", move_reason: str = ""
) -> MessageJson:
    """A message as it is in a queue. Any stored packet has one, however odd its headers.

    `code_page` is that of the queue; `move_reason` is why the message was moved there.
    """
    message = readable(packet)
    trace = shown_trace(message.extension)
    return MessageJson(
        id=str(message.identifier),
        lookup_id=read.lookup_id,
        queue=queue,
        label=clean(message.label),
        body=message.body,
        body_text=body_text(message.body, message.body_type),
        body_type=message.body_type,
        body_size=len(message.body),
        priority=read.priority,
        class_=class_name(read.message_class),
        class_code=read.message_class,
        delivery=delivery_name(read.flags),
        correlation_id=message.correlation_identifier.pack().hex(),
        sent_time=time_text(message.sent_time),
        arrived_time=time_text(read.arrived),
        source_queue_manager=format_guid(message.source_machine_identifier),
        destination=_destination(message),
        admin_queue=clean(message.administration_queue_format_name),
        response_queue=clean(message.response_queue_format_name),
        acknowledge=ack_words(message.acknowledgements_requested),
        journal=journal_words(message.journal),
        app_specific=message.application_tag,
        connector_type=_guid(message.connector_type_identifier),
        trace=_trace(message),
        time_to_be_received=limited(message.time_to_be_received),
        authenticated=bool(read.flags & FLAG_AUTHENTICATED),
        encrypted=is_encrypted(packet),
        sender=_sender(read),
        extension=message.extension,
        transaction=_transaction(read, message),
        abort_count=read.aborts,
        move_count=read.moves,
        code_page=code_page if code_page and message.body_type == VT_LPSTR else UNSET,
        move_reason=move_reason or UNSET,
        traceparent=UNSET if trace is None else trace.parent,
        tracestate=(None if trace is None else trace.state) or UNSET,
    )


def readable(packet: bytes) -> Message:
    """The attributes of a stored packet; of one with broken headers what its front has."""
    try:
        return deserialize(packet)
    except RemoteProtocolError:
        seen = summarize(packet)
        body = body_bytes(packet, seen)
        return Message(
            identifier=MessageId(seen.source_guid, seen.ordinal),
            source_machine_identifier=seen.source_guid,
            sent_time=seen.sent_time,
            time_to_be_received=seen.time_to_be_received,
            acknowledgements_requested=seen.ack_flags,
            sender_identifier_type=SenderIdentifierType.NONE,
            body=bytes(body),
        )


def clean(text: str) -> str:
    """The text with half surrogate pairs, which JSON cannot carry, replaced."""
    if not has_lone_surrogate(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def delivery_name(flags: int) -> str:
    """How a message is kept, by the flags of its row."""
    if flags & FLAG_TRANSACTIONAL:
        return "transactional"
    return "express" if flags & FLAG_EXPRESS else "recoverable"


def _destination(message: Message) -> str:
    elements = message.destination_multi_queue_format_name
    return clean(",".join(elements) or message.destination_queue_format_name)


def _guid(guid: bytes) -> str:
    return "" if guid == NULL_GUID else format_guid(guid)


def _trace(message: Message) -> str:
    queue = message.tracing_queue_identifier
    return f"PUBLIC={format_guid(queue)}" if message.tracing_requested else ""


def limited(seconds: int) -> int | None:
    """Seconds, None without a limit."""
    return None if seconds == INFINITE else seconds


def _sender(read: Read) -> str:
    """As its door verified it; what a packet claims is not proof."""
    return format_sid(read.sender) if is_sid(read.sender) else ""


def _transaction(read: Read, message: Message) -> TransactionJson | None:
    if not read.flags & FLAG_TRANSACTIONAL:
        return None
    first, last = bool(read.flags & FLAG_FIRST), bool(read.flags & FLAG_LAST)
    if read.flags & FLAG_REMOTE:  # marked where it was sent
        first, last = message.first_in_transaction, message.last_in_transaction
    return TransactionJson(message.transaction_identifier, first, last)


# -- sending


def message_of(body: SendBody, computer: str) -> Message:
    """The message that a request asks to send; `computer` is the one that `.` means."""
    journal = journal_bits(body.journal)
    content, body_type = _body(body)
    message = Message(
        label=body.label,
        body=content,
        body_type=body_type,
        priority=body.priority,
        delivery_guarantee=_guarantee(body),
        application_tag=body.app_specific,
        extension=body.extension,
        acknowledgements_requested=ack_bits(body.acknowledge),
        positive_journaling_requested=bool(journal & JOURNAL_POSITIVE),
        negative_journaling_requested=bool(journal & JOURNAL_NEGATIVE),
        administration_queue_format_name=format_name(body.admin_queue, computer),
        response_queue_format_name=format_name(body.response_queue, computer),
        application_deadletter_queue=body.dead_letter_queue,
    )
    if body.body_text is not None and body.body:
        raise IllegalPropertyValue("a message has a body or a body_text, not both")
    if body.correlation_id:
        message.correlation_identifier = MessageId.unpack(bytes.fromhex(body.correlation_id))
    if body.connector_type:
        message.connector_type_identifier = parse_guid(body.connector_type)
    if body.time_to_reach_queue is not None:
        message.time_to_reach_queue = body.time_to_reach_queue
    if body.time_to_be_received is not None:
        message.time_to_be_received = body.time_to_be_received
    _set_trace(message, body.trace)
    return message


def _body(body: SendBody) -> tuple[bytes, int]:
    """The bytes of the body, and their type."""
    how, text = body.formatter, body.body_text
    if how is None:
        content = body.body if text is None else text_body(text, body.body_type)
        return content, body.body_type
    if text is None or body.body_type:
        raise IllegalPropertyValue(
            "a formatter writes a body_text, and sets the body type",
            "Give body_text, and neither body nor body_type.",
        )
    if len(text) > FORMATTED_MAX:
        raise IllegalPropertyValue(
            f"a formatter takes at most {FORMATTED_MAX} characters here",
            "Use posthouse send --formatter, or send the body as it is to be.",
        )
    try:
        return encode_text(text.encode(), how.formatter, how.type, how.root, how.namespace)
    except FormatError as error:
        raise IllegalPropertyValue(str(error)) from None


def _guarantee(body: SendBody) -> DeliveryGuarantee:
    durable = body.delivery != "express"
    return DeliveryGuarantee.RECOVERABLE if durable else DeliveryGuarantee.EXPRESS


def _set_trace(message: Message, trace: str) -> None:
    name = parse_name(trace) if trace else None
    if name is None:
        return
    if not isinstance(name, PublicName):
        raise IllegalPropertyValue(
            "the report queue has to be a public queue", "Name it as PUBLIC= and its identifier."
        )
    message.tracing_requested, message.tracing_queue_identifier = True, name.guid


def format_name(text: str, computer: str) -> str:
    """The format name that a packet carries for a queue named either way; empty stays empty."""
    name = parse_name(text) if text else None
    if isinstance(name, PathName):
        path = name.with_computer(computer) if name.computer == "." else name
        return f"DIRECT=OS:{path}"
    return "" if name is None else str(name)


def copy_of(packet: bytes) -> Message:
    """A message to send again: what the queue manager fills in, and what was signed, is left out.

    `RemoteProtocolError` for a packet that cannot be read whole.
    """
    message = deserialize(packet)
    message.signature = message.sender_certificate = b""
    message.hash_algorithm = HashAlgorithm.SHA1
    message.sender_identifier = b""
    message.sender_identifier_type = SenderIdentifierType.SID
    message.destination_queue_type = QueueTypeCode.DIRECT_QUEUE  # none where it was multicast
    message.destination_multi_queue_format_name = ()
    message.multiple_destination_signature = b""
    return message
