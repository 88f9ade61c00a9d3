"""Messages of one sender that differ in nothing but number and body, read and packed by a template.

A sender writes the same request again and again: head, parts and envelope are those of the message
before, up to the second in `sentAt`. Only the digits of the identifier and the octets of the body
are new. Where exactly these bytes differ the rest was read before, and means what it meant then. A
test holds both ways of reading together.
"""

from codecs import utf_16_le_encode
from typing import Final, NamedTuple

from posthouse.model.errors import MalformedPacket
from posthouse.wire.layout import align4
from posthouse.wire.packet.headers import COMPOUND_MESSAGE_HEADER, SRMP_ENVELOPE_HEADER
from posthouse.wire.packet.packet_fields import (
    ORDINAL_AT,
    ORDINAL_END,
    PacketSummary,
    summarize,
)
from posthouse.wire.srmp.envelope import read_tree
from posthouse.wire.srmp.fast_reader import read_plain
from posthouse.wire.srmp.mapping import packet_of
from posthouse.wire.srmp.message import SrmpMessage
from posthouse.wire.srmp.mime_parts import Parts, PartsReader
from posthouse.wire.srmp.values import U32_MAX

REPEATED_MAX: Final = 8192  # bytes of a request without its body
TEMPLATES_MAX: Final = 64  # that connections share
_ID: Final = b"<id>uuid:"  # in an envelope of the usual form it stands once
_ORDINAL: Final = PacketSummary._fields.index("ordinal")
_new = tuple.__new__  # one for each message: half the time of a call of its class


class ReadMessage(NamedTuple):
    """A message that was read, and what makes its packet; None: `packet_of` does."""

    message: SrmpMessage
    parts: Parts
    template: "MessageTemplate | None" = None


class _Repeated(NamedTuple):
    """What messages have in common: all bytes but the digits of the identifier and the body."""

    head: bytes
    front: bytes  # of the payload, up to the digits
    middle: bytes  # from there to the body
    back: bytes
    size: int  # of the whole payload


class MessageTemplate:
    """Makes the message and the packet of payloads that have these bytes in common."""

    __slots__ = (
        "_after",
        "_before",
        "_body_at",
        "_body_end",
        "_digits_at",
        "_digits_end",
        "_envelope_at",
        "_envelope_end",
        "_message",
        "_packed",
        "_parts",
        "repeated",
    )

    def __init__(
        self, repeated: _Repeated, message: SrmpMessage, parts: Parts, envelope_at: int
    ) -> None:
        """Of one such message; `MalformedPacket` where it fits into no packet."""
        assert message.sent_at is not None, "the time of arrival would be a part of the packet"
        head, front, middle, _, _ = self.repeated = repeated
        self._message = message
        self._parts = parts._replace(envelope=b"", body=b"", payload=b"")  # they may be large
        self._digits_at, self._body_at = len(front), parts.body_at
        self._digits_end = parts.body_at - len(middle)
        self._body_end = parts.body_at + len(parts.body)
        self._envelope_at, self._envelope_end = envelope_at, envelope_at + len(parts.envelope)
        packet = packet_of(message, parts, head, 0)
        seen = summarize(packet)
        self._before, self._after = seen[:_ORDINAL], seen[_ORDINAL + 1 :]
        # Where the digits stand in the envelope of the packet, and in the HTTP message after it.
        body_end, width = seen.body_at + seen.body_size, self._digits_end - self._digits_at
        text_at = align4(body_end) + SRMP_ENVELOPE_HEADER.size
        text_end = align4(text_at + 2 * len(parts.envelope) + 2)
        first = text_at + 2 * (self._digits_at - envelope_at)
        second = text_end + COMPOUND_MESSAGE_HEADER.size + len(head) + self._digits_at
        self._packed = (
            packet[:ORDINAL_AT],
            packet[ORDINAL_END : seen.body_at],
            packet[body_end:first],
            packet[first + 2 * width : second],
            packet[second + width :],
        )
        assert self.packet(parts.payload)[0] == packet

    def read(self, payload: bytes) -> ReadMessage | None:
        """The message of a payload; None where it differs in more than digits and body."""
        _, front, middle, back, size = self.repeated
        digits = payload[self._digits_at : self._digits_end]
        if (
            len(payload) != size
            or not digits.isdigit()
            or not payload.startswith(front)
            or not payload.startswith(middle, self._digits_end)
            or not payload.endswith(back)
            or (ordinal := int(digits)) > U32_MAX
        ):
            return None
        message: SrmpMessage = self._message.__copy__()  # type: ignore[attr-defined]
        message.id = f"uuid:{digits.decode('ascii')}{message.id[5 + len(digits) :]}"
        message.ordinal = ordinal
        _, _, extension, body_at, body_id, extension_id, kind, _ = self._parts
        envelope = payload[self._envelope_at : self._envelope_end]
        body = payload[body_at : self._body_end]
        parts = (envelope, body, extension, body_at, body_id, extension_id, kind, payload)
        return _new(ReadMessage, (message, _new(Parts, parts), self))

    def packet(self, payload: bytes) -> tuple[bytes, PacketSummary]:
        """The packet of a payload that was read with this template, and its summary."""
        digits = payload[self._digits_at : self._digits_end]
        ordinal = int(digits)
        start, names, tail, http, end = self._packed
        packet = b"".join(
            (
                start,
                ordinal.to_bytes(4, "little"),
                names,
                payload[self._body_at : self._body_end],
                tail,
                utf_16_le_encode(digits.decode("ascii"))[0],
                http,
                digits,
                end,
            )
        )
        return packet, _new(PacketSummary, (*self._before, ordinal, *self._after))


_shared: dict[_Repeated, MessageTemplate] = {}


class MessageReader:
    """Reads the messages of one connection.

    What it reads depends on the bytes of a message alone, not on those before.
    """

    __slots__ = ("_parts", "_repeated", "_template")

    def __init__(self) -> None:
        self._parts = PartsReader()
        self._repeated: _Repeated | None = None  # of the last message
        self._template: MessageTemplate | None = None  # once a second one had it

    def read(self, head: bytes, content_type: str, payload: bytes) -> ReadMessage:
        """Message Deserialization (3.1.5.1.1) of a payload after this HTTP head.

        The head decides on the content type. `MalformedPacket` for what is not a message.
        """
        template = self._template
        if template is not None and template.repeated.head == head:
            found = template.read(payload)
            if found is not None:
                return found
        parts = self._parts.read(content_type, payload)
        message = read_plain(parts.envelope)
        if message is None:
            self._repeated = self._template = None
            return ReadMessage(read_tree(parts.envelope), parts)
        envelope_at = self._parts.envelope_at
        repeated = _repeated(head, message, parts, envelope_at)
        if envelope_at is None or repeated is None or repeated != self._repeated:
            self._repeated, self._template = repeated, None
            return ReadMessage(message, parts)
        self._template = _template(repeated, message, parts, envelope_at)
        return ReadMessage(message, parts, self._template)


def _repeated(
    head: bytes, message: SrmpMessage, parts: Parts, envelope_at: int | None
) -> _Repeated | None:
    """What the next message of the sender may have in common with this one, of the usual form."""
    payload, body_at, body_size = parts.payload, parts.body_at, len(parts.body)
    around = len(head) + len(payload) - body_size
    if envelope_at is None or around > REPEATED_MAX:
        return None
    if not message.is_plain or message.sent_at is None:
        return None
    digits_at = payload.index(_ID, envelope_at) + len(_ID)
    digits_end = payload.index(b"@", digits_at)
    return _Repeated(
        head,
        payload[:digits_at],
        payload[digits_end:body_at],
        payload[body_at + body_size :],
        len(payload),
    )


def _template(
    repeated: _Repeated, message: SrmpMessage, parts: Parts, envelope_at: int
) -> MessageTemplate | None:
    """The template of such messages; connections whose messages are alike share it."""
    known = _shared.get(repeated)
    if known is None:
        try:
            known = MessageTemplate(repeated, message, parts, envelope_at)
        except MalformedPacket:
            return None  # raised again where its packet is made
        if len(_shared) >= TEMPLATES_MAX:
            _shared.clear()
        _shared[repeated] = known
    return known
