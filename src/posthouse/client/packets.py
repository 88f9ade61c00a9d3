"""Packets made from templates: everything but sizes and body is written once ([MS-MQMQ] 2.2.20)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import chain, islice, repeat
from math import ceil
from typing import Any, Final, NamedTuple, Unpack

from posthouse.client.bodies import Body, encode_body
from posthouse.client.message import Message as Received
from posthouse.client.send_options import (
    SendOptions,
    check_types,
    forwarded_options,
    named,
    without_delivery,
)
from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.guids import NULL_GUID, parse_guid
from posthouse.model.message import (
    INFINITE,
    PRIORITY_DEFAULT,
    TIME_TO_REACH_QUEUE_MAX,
    DeliveryGuarantee,
    Message,
    MessageId,
    TxSequenceId,
    ack_bits,
    validate,
)
from posthouse.model.names import PathName, PublicName, parse_name
from posthouse.model.trace_context import (
    TraceContext,
    TraceHeaders,
    is_tracestate,
    traceparent_of,
)
from posthouse.security.asked_protection import ask_protection
from posthouse.wire.frames.frames import LARGE
from posthouse.wire.frames.send_frames import PacketRun, Packets
from posthouse.wire.packet.template import Template

_TEMPLATES_MAX: Final = 256  # of one queue
_AT_HAND: Final = frozenset((list, tuple, repeat))  # their bodies take no memory when taken out
BATCH_BYTES: Final = 256 << 10  # of one SEND frame, about
RUN_MIN: Final = 8  # fewer packets are written one by one: large ones are copied less so
_OPENTELEMETRY: Final = "opentelemetry.trace"
_KEYWORDS_OF_MESSAGES: Final = (
    "a received message has options of its own in send_many: give others with Draft(message, ...)"
)


class Options(NamedTuple):
    """The options of a message in the form that packets are made of."""

    label: str = ""
    priority: int = PRIORITY_DEFAULT
    recoverable: bool = False
    app_specific: int = 0
    extension: bytes = b""
    journal: bool = False
    dead_letter: bool = False
    admin_queue: str = ""
    ack: tuple[str, ...] = ()
    response_queue: str = ""
    correlation: str | bytes = ""
    time_to_reach_queue: int | timedelta | None = None
    time_to_be_received: int | timedelta | None = None
    trace: str = ""
    connector_type: str = ""
    body_type: int | None = None
    sign: bool = False
    encrypt: bool = False
    traceparent: str = ""
    tracestate: str = ""


DEFAULTS: Final = Options()


def options(values: SendOptions) -> Options:
    """Options from keywords; the extension has the trace context, given or of the active span."""
    tracing = sys.modules.get(_OPENTELEMETRY)
    if not values and tracing is None:
        return DEFAULTS
    try:
        wanted = Options(**named(values))
    except TypeError as error:
        unknown = values.keys() - SendOptions.__annotations__.keys()
        if not unknown:
            raise error from None
        raise TypeError(_no_such_option(min(unknown))) from None
    if wanted.traceparent or wanted.tracestate:
        from posthouse.formats.trace_headers import with_given_trace

        check_types(wanted)
        given = TraceHeaders(wanted.traceparent, wanted.tracestate)
        return wanted._replace(extension=with_given_trace(wanted.extension, given))
    active = None if tracing is None else _active(tracing)
    return wanted if active is None else _with_active(wanted, active)


def _with_active(wanted: Options, active: TraceHeaders) -> Options:
    """An extension that has no place for a context stays as it is."""
    from posthouse.formats.trace_headers import with_trace

    check_types(wanted)
    made = with_trace(wanted.extension, active)
    return wanted if made is None else wanted._replace(extension=made)


def _active(tracing: Any) -> TraceHeaders | None:
    """The context of the span of OpenTelemetry that is active in this program; None: none is.

    A program without OpenTelemetry has not imported it, and pays for one look into a table.
    """
    context = tracing.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    active = TraceContext(context.trace_id, context.span_id, context.trace_flags)
    state = context.trace_state.to_header() if context.trace_state else ""
    return TraceHeaders(traceparent_of(active), state if is_tracestate(state) else "")


def _no_such_option(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, SendOptions.__annotations__, 1)
    if near:
        return f"a message has no option {name!r}; did you mean {near[0]}?"
    return f"a message has no option {name!r}; there are {', '.join(SendOptions.__annotations__)}"


class Draft:
    """A message to send that differs from its neighbours in more than its body.

    `Draft(message)` is a received message to be sent again, `Draft(message, label="x")` the same
    with another label; `forwarded_options` has what is carried over.
    """

    __slots__ = ("body", "options")

    def __init__(self, body: Body | Received = b"", **values: Unpack[SendOptions]) -> None:
        if values.get("delivery") == "transactional":
            raise TypeError(
                "a Draft has no transaction of its own: pass tx= or transactional=True to send_many"
            )
        if isinstance(body, Received):
            self.body: Body = body.body
            self.options = options(forwarded_options(body, values))
        else:
            self.body, self.options = body, options(values)


class PacketMaker:
    """Makes the packets for one open queue."""

    def __init__(self, destination: str, computer: str, *, protection: bool = False) -> None:
        self._destination = destination
        self._computer = computer
        self._protection = protection  # whether a queue manager signs and encrypts for us
        self._templates: dict[tuple[Options, int, bool], Template] = {}
        self._by_keywords: dict[tuple[object, ...], Template] = {}  # of bodies that are bytes

    def packet(self, body: Body, how: Options, transactional: bool) -> bytes:
        """One packet."""
        data, body_type = encode_body(body, how.body_type)
        try:
            template = self._templates.get((how, body_type, transactional))
        except TypeError:
            check_types(how)
            raise
        if template is None:
            template = self._make(how, body_type, transactional)
        return template.packet(data)

    def packet_of(self, body: Body | Received, how: SendOptions, transactional: bool) -> bytes:
        """One packet, with options as keywords; those that come again are not looked at again."""
        if type(body) is not bytes or _OPENTELEMETRY in sys.modules:
            if isinstance(body, Received):
                draft = Draft(body, **without_delivery(how))
                return self.packet(draft.body, draft.options, transactional)
            return self.packet(body, options(how), transactional)
        try:
            known = transactional, *how.items()
            template = self._by_keywords.get(known)
        except TypeError:  # a list of acknowledgments
            return self.packet(body, options(how), transactional)
        if template is None:
            wanted = options(how)
            template = self._template(wanted, wanted.body_type or 0, transactional)
            if len(self._by_keywords) >= _TEMPLATES_MAX:
                self._by_keywords.clear()
            self._by_keywords[known] = template
        return template.packet(body)

    def alone(self, body: Body, how: Options, transactional: bool) -> Packets:
        """The packets for the frame of one message; a large body is not copied."""
        if type(body) is not bytes or len(body) < LARGE:
            return [self.packet(body, how, transactional)]
        front, back = self._template(how, how.body_type or 0, transactional).around(len(body))
        return PacketRun(front, [body], back)

    def packets(
        self, bodies: Iterable[Body | Draft | Received], how: Options, transactional: bool
    ) -> Iterable[bytes]:
        """One packet for each; plain bytes take the shortest way."""
        plain: Template | None = None
        for body in bodies:
            if type(body) is bytes:
                if plain is None:
                    plain = self._template(how, how.body_type or 0, transactional)
                yield plain.packet(body)
            elif isinstance(body, Draft):
                yield self.packet(body.body, body.options, transactional)
            elif isinstance(body, Received):
                if how is not DEFAULTS and how != options({}):  # which has a trace context
                    raise TypeError(_KEYWORDS_OF_MESSAGES)
                draft = Draft(body)
                yield self.packet(draft.body, draft.options, transactional)
            else:
                yield self.packet(body, how, transactional)

    def batches(
        self,
        bodies: Iterable[Body | Draft | Received],
        how: Options,
        transactional: bool,
        count_max: int,
    ) -> Iterator[Packets]:
        """The packets for frames: runs as long as all bodies are bytes of one size.

        No more is taken out of `bodies` than a frame holds, unless memory holds them anyway.
        """
        source, at_hand = iter(bodies), type(bodies) in _AT_HAND
        for first in source:
            taken: list[Any] = [first]
            if type(first) is bytes:
                size, template = len(first), self._template(how, how.body_type or 0, transactional)
                front, back = template.around(size)
                most = -(-BATCH_BYTES // (len(front) + size + len(back)))
                rest = islice(source, min(most, count_max) - 1)
                if _take_at_hand(taken, rest) if at_hand else _take_alike(taken, rest, size):
                    alike = len(taken) >= RUN_MIN or size >= LARGE
                    yield (
                        PacketRun(front, taken, back)
                        if alike
                        else [b"".join((front, body, back)) for body in taken]
                    )
                    continue
            packets = self.packets(chain(taken, source), how, transactional)
            yield from _batches(packets, count_max)

    def _template(self, how: Options, body_type: int, transactional: bool) -> Template:
        try:
            found = self._templates.get((how, body_type, transactional))
        except TypeError:
            check_types(how)
            raise
        return found or self._make(how, body_type, transactional)

    def _make(self, how: Options, body_type: int, transactional: bool) -> Template:
        if (how.sign or how.encrypt) and not self._protection:
            raise IllegalPropertyValue(
                "only a queue manager signs and encrypts", "Send through one, by connect()."
            )
        check_types(how)
        message = _message(how, body_type, self._computer)
        validate(message)
        message.destination_queue_format_name = self._destination
        if transactional:
            message.transactional_message_sequence_identifier = TxSequenceId(0, 0)
            message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
        if len(self._templates) >= _TEMPLATES_MAX:
            self._templates.clear()
        template = Template(message, how.sign)
        self._templates[how, body_type, transactional] = template
        return template


def _take_at_hand(taken: list[Any], rest: Iterable[Body | Draft | Received]) -> bool:
    """Takes all of the rest. Whether all are bytes of one size."""
    taken += rest
    return {*map(type, taken)} == {bytes} and len({*map(len, taken)}) == 1


def _take_alike(taken: list[Any], rest: Iterable[Body | Draft | Received], size: int) -> bool:
    """Takes the rest, up to the first that is not bytes of this size. Whether there is none."""
    for body in rest:
        taken.append(body)
        if type(body) is not bytes or len(body) != size:
            return False
    return True


def _batches(packets: Iterable[bytes], count_max: int) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for packet in packets:
        batch.append(packet)
        size += len(packet)
        if size >= BATCH_BYTES or len(batch) >= count_max:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _message(how: Options, body_type: int, computer: str) -> Message:
    message = Message(
        label=how.label,
        priority=how.priority,
        body_type=body_type,
        application_tag=how.app_specific,
        extension=how.extension,
        positive_journaling_requested=how.journal,
        negative_journaling_requested=how.dead_letter,
        acknowledgements_requested=ack_bits(how.ack),
        administration_queue_format_name=_format_name(how.admin_queue, computer),
        response_queue_format_name=_format_name(how.response_queue, computer),
        correlation_identifier=_correlation(how.correlation),
        time_to_reach_queue=_seconds(how.time_to_reach_queue, TIME_TO_REACH_QUEUE_MAX),
        time_to_be_received=_seconds(how.time_to_be_received, INFINITE),
    )
    ask_protection(message, sign=how.sign, encrypt=how.encrypt)
    if how.recoverable:
        message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
    if how.connector_type:
        message.connector_type_identifier = parse_guid(how.connector_type)
    if how.trace:
        message.tracing_requested, message.tracing_queue_identifier = True, _report(how.trace)
    return message


def _seconds(value: int | timedelta | None, default: int) -> int:
    if isinstance(value, timedelta):
        return ceil(value.total_seconds())
    return default if value is None else value


def _format_name(text: str, computer: str) -> str:
    """The name that a packet carries for a queue named either way."""
    name = parse_name(text) if text else None
    if isinstance(name, PathName):
        return f"DIRECT=OS:{name.with_computer(computer) if name.computer == '.' else name}"
    return "" if name is None else str(name)


def _correlation(value: str | bytes) -> MessageId:
    """From 20 bytes, 40 hex digits, or a message's `id`."""
    if isinstance(value, bytes):
        return MessageId.unpack(value) if value else MessageId(NULL_GUID, 0)
    if "\\" in value:
        return MessageId.parse(value)
    try:
        return _correlation(bytes.fromhex(value))
    except ValueError:
        raise IllegalPropertyValue(
            "the correlation is neither 40 hex digits nor a message's identifier"
        ) from None


def _report(text: str) -> bytes:
    name = parse_name(text)
    if not isinstance(name, PublicName):
        raise IllegalPropertyValue(
            "the report queue has to be a public queue", "Name it as PUBLIC= and its identifier."
        )
    return name.guid
