"""A received message; its packet is parsed on first use."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from posthouse.client.bodies import decode_json, decode_text
from posthouse.engine.ledger.records import FLAG_AUTHENTICATED, FLAG_EXPRESS, FLAG_TRANSACTIONAL
from posthouse.model.guids import NULL_GUID, format_guid
from posthouse.model.message import INFINITE, ack_words, class_name
from posthouse.wire.frames.frames import MARK_IN_DOUBT, Delivered
from posthouse.wire.packet.bodies import body_bytes, body_of
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize

if TYPE_CHECKING:
    from posthouse.formats import Decoded
    from posthouse.model.message_json import MessageJson

Delivery = Literal["express", "recoverable", "transactional"]


class Message:
    """A message of a queue. The names are those of its JSON form (docs/api.md).

    `queue` is the name by which the queue was opened, `lookup_id` the number of the message in it;
    later ones are greater. `in_doubt` shows that it may have been read before: a session broke
    between the end of an earlier receive and its answer (decision 42).
    """

    __slots__ = ("_delivered", "_packet", "in_doubt", "lookup_id", "queue")

    def __init__(self, delivered: Delivered, queue: str) -> None:
        self._delivered = delivered
        self._packet: Packet | None = None
        self.queue = queue
        self.lookup_id = delivered[0]
        self.in_doubt = delivered[8] & MARK_IN_DOUBT != 0

    def __repr__(self) -> str:
        return f"<Message {self.lookup_id} of {self.queue}: {self.label!r}, {self.body_size} bytes>"

    def __eq__(self, other: object) -> bool:
        """Whether both are the same message of the same queue, however often it was read."""
        if not isinstance(other, Message):
            return NotImplemented
        return self.lookup_id == other.lookup_id and self.packet == other.packet

    def __hash__(self) -> int:
        return hash(self.lookup_id)

    def __getstate__(self) -> object:
        """For `pickle` and `copy`: a packet in the buffer of a large answer is taken out of it."""
        _ = self.packet
        return super().__getstate__()

    @property
    def packet(self) -> bytes:
        """The whole packet as it is stored ([MS-MQMQ] 2.2.20)."""
        packet = self._delivered[10]
        if isinstance(packet, memoryview):
            self._delivered = self._delivered._replace(packet=bytes(packet))
        return self._delivered.packet

    @property
    def _parsed(self) -> Packet:
        packet = self._packet
        if packet is None:
            packet = self._packet = Packet(self.packet)
        return packet

    # -- properties that the sender set

    @property
    def body(self) -> bytes:
        """The body as it was sent."""
        packet = self._delivered[10]
        if type(packet) is bytes:
            return packet[body_of(packet)]
        # In the buffer of a large answer: this is the one copy.
        return bytes(body_bytes(packet, summarize(packet)))

    @property
    def body_size(self) -> int:
        """Bytes of the body."""
        return self._parsed.summary.body_size

    @property
    def body_type(self) -> int:
        """The body type that the sender set; 0 where there is none."""
        return self._parsed.body_type

    @property
    def text(self) -> str:
        """The body as text; ValueError where it is none."""
        return decode_text(self.body, self.body_type)

    def json(self) -> Any:
        """The value of the JSON body; ValueError where it is not JSON."""
        return decode_json(self.body, self.body_type)

    def decoded(self, code_page: str = "") -> Decoded:
        """What is in the message: XML, .NET objects, WCF, headers of message buses.

        Any bytes give a result, with `error` where they break the format that they claim.
        `code_page` is that of the sender, for bodies of type VT_LPSTR: `properties().code_page` of
        the queue, where it has one.
        """
        from posthouse.formats import decode
        from posthouse.model.code_pages import DEFAULT_CODE_PAGE

        return decode(
            self.body,
            body_type=self.body_type,
            extension=self.extension,
            label=self.label,
            app_specific=self.app_specific,
            correlation_id=bytes.fromhex(self.correlation_id),
            code_page=code_page or DEFAULT_CODE_PAGE,
        )

    @property
    def label(self) -> str:
        """The label."""
        return self._parsed.label

    @property
    def extension(self) -> bytes:
        """The extension, for applications."""
        return self._parsed.extension

    @property
    def traceparent(self) -> str:
        """The trace context of W3C that the message came with; empty where it has none."""
        return self._trace[0]

    @property
    def tracestate(self) -> str:
        """What goes with `traceparent`; empty where there is nothing."""
        return self._trace[1]

    @property
    def _trace(self) -> tuple[str, str]:
        from posthouse.formats.trace_headers import shown_trace

        return shown_trace(self.extension) or ("", "")

    @property
    def app_specific(self) -> int:
        """A number for applications."""
        return self._parsed.application_tag

    # -- which message it is

    @property
    def id(self) -> str:
        """The identifier: `guid\\ordinal`."""
        return str(self._parsed.identifier)

    @property
    def correlation_id(self) -> str:
        """40 hex digits; all zero where there is none."""
        return self._parsed.correlation_identifier.pack().hex()

    @property
    def message_class(self) -> int:
        """0 for a normal message; acknowledgments and reports have others."""
        return self._delivered.message_class

    @property
    def class_name(self) -> str:
        """The class as a word."""
        return class_name(self._delivered.message_class)

    # -- how it travels

    @property
    def priority(self) -> int:
        """0 to 7; higher ones are received first."""
        return self._delivered.priority

    @property
    def delivery(self) -> Delivery:
        """Whether it was written to disk, and as part of a transaction."""
        flags = self._delivered.flags
        if flags & FLAG_TRANSACTIONAL:
            return "transactional"
        return "express" if flags & FLAG_EXPRESS else "recoverable"

    @property
    def sent_time(self) -> datetime:
        """When it was sent, in UTC."""
        return datetime.fromtimestamp(self._parsed.summary.sent_time, UTC)

    @property
    def arrived_time(self) -> datetime:
        """When it came into the queue, in UTC."""
        return datetime.fromtimestamp(self._delivered.arrived, UTC)

    @property
    def time_to_be_received(self) -> int | None:
        """Seconds after which it expires unread; None: never."""
        seconds = self._parsed.summary.time_to_be_received
        return None if seconds == INFINITE else seconds

    @property
    def destination(self) -> str:
        """The format name it was sent to."""
        return self._parsed.names.texts[0]

    @property
    def admin_queue(self) -> str:
        """Where acknowledgments go; empty for nowhere."""
        return self._parsed.names.texts[1]

    @property
    def response_queue(self) -> str:
        """Where answers go; empty for nowhere. `qm.queue` takes it."""
        return self._parsed.names.texts[2]

    @property
    def acknowledge(self) -> list[str]:
        """The acknowledgments that the sender asked for."""
        return ack_words(self._parsed.summary.ack_flags)

    @property
    def journal(self) -> list[str]:
        """The copies that the sender asked for: `positive`, `negative`."""
        flags = self._parsed.user_flags
        asked = ("positive", flags.positive_journaling), ("negative", flags.negative_journaling)
        return [word for word, is_asked in asked if is_asked]

    @property
    def connector_type(self) -> str:
        """The GUID of the connector that the message is for or from; empty for none."""
        guid = self._parsed.connector_type
        return "" if guid == NULL_GUID else format_guid(guid)

    @property
    def trace(self) -> str:
        """The report queue as a format name; empty where the message is not traced."""
        packet = self._parsed
        return f"PUBLIC={format_guid(packet.tracing_queue)}" if packet.base_flags.tracing else ""

    @property
    def sender(self) -> str:
        """The sender's SID as the queue manager verified it; empty for none."""
        sender = self._delivered.sender
        if not sender:
            return ""
        from posthouse.security.sids import format_sid

        return format_sid(sender)

    @property
    def authenticated(self) -> bool:
        """Whether the queue manager verified a signature."""
        return self._delivered.flags & FLAG_AUTHENTICATED != 0

    @property
    def encrypted(self) -> bool:
        """Whether the body travelled encrypted."""
        return self._parsed.encrypted

    @property
    def abort_count(self) -> int:
        """How often a transaction that had received it was aborted."""
        return self._delivered.aborts

    @property
    def move_count(self) -> int:
        """How often it was moved."""
        return self._delivered.moves

    def to_dict(self) -> dict[str, Any]:
        """Return what `to_json` has as plain values, for `json.dumps`; bytes are base64."""
        plain: dict[str, Any] = msgspec.to_builtins(self.to_json())
        return plain

    def to_json(self) -> MessageJson:
        """Return the message as the API shows it, a struct that `msgspec.json.encode` writes."""
        from posthouse.engine.ledger.effects import Read
        from posthouse.protocols.handlers.message_json import message_json

        d = self._delivered
        read = Read(
            0,
            d.lookup_id,
            0,
            d.priority,
            d.message_class,
            d.arrived,
            d.aborts,
            d.moves,
            d.last_move,
            d.flags,
        )
        return message_json(read, self.packet, self.queue)
