"""What a trace shows of messages: sent, arrived, delivered to another machine, received.

Nothing here is asked for while tracing is off: `Ledger.spans` is None, and who would note something
looks at that once for a batch. A message belongs to the trace that its extension names. One without
a context may get a trace of its own, made from its identifier: so all queue managers on its way
come to the same one, and to the same choice of what is sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from posthouse.engine.ledger.departed_messages import Departures
from posthouse.engine.ledger.records import COLUMN_NAMES, RECEIVED, Row
from posthouse.engine.queues.queue import Queue
from posthouse.model.errors import RemoteProtocolError
from posthouse.model.message_ids import MessageId
from posthouse.model.trace_context import SAMPLED, TraceContext
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import PacketSummary, summarize, summarize_all

SEND: Final = "send"
ARRIVE: Final = "arrive"
DELIVER: Final = "deliver"
RECEIVE: Final = "receive"
RETURNED: Final = "returned"
SPANS_OF_BATCH: Final = 32  # more traces than these share one span, which links to them
LINKS_MAX: Final = 128
OPEN_MAX: Final = 10_000  # messages that are on their way to a machine or a reader
_KEPT_MAX: Final = 256  # contexts of extensions that were read
_KEPT_SIZE: Final = 1024
_NORMAL: Final = 0  # the message class of what applications send
_ID_MASK: Final = (1 << 64) - 1


class SpanNote(NamedTuple):
    """A span that has ended: what happened, to how many messages, in whose trace."""

    operation: str
    queue: str
    began_ms: int  # of the clock of turns
    context: TraceContext | None  # its parent; None: it stands for several traces, its links
    links: tuple[TraceContext, ...]
    messages: int  # how many
    message_id: str  # of one message
    size: int  # of their packets, in bytes
    label: str  # of one message, where the settings let it out
    fault: str  # how it ended, where that was not as meant
    is_root: bool  # it is the span that the context names, and no other one is


class _Traced(NamedTuple):
    """A message that a trace shows."""

    context: TraceContext
    is_own: bool  # the context is not the sender's: it comes from the identifier
    source_guid: bytes
    ordinal: int
    size: int
    label: str


class _Open(NamedTuple):
    """What has begun."""

    operation: str
    queue: str
    began_ms: int
    message: _Traced


class SpanNotes:
    """Collects the spans of a turn; the driver lets them out when the turn is durable."""

    def __init__(
        self,
        read: Callable[[bytes], TraceContext | None],
        now_ms: Callable[[], int],
        packet: Callable[[int], bytes],
        ratio: float = 0.0,
        *,
        labels: bool = False,
    ) -> None:
        """`read` finds the context in an extension, `packet` the packet of a message here."""
        self.dropped = 0  # began, and were forgotten to make room
        self._read = read
        self._now_ms = now_ms
        self._packet = packet
        self._bound = round(ratio * (1 << 64))  # as OpenTelemetry's TraceIdRatioBased has it
        self._labels = labels
        self._notes: list[SpanNote] = []
        self._open: dict[int, _Open] = {}  # by lookup id
        self._kept: dict[bytes, TraceContext | None] = {}

    def take(self) -> list[SpanNote]:
        """The spans that have ended since the last call."""
        notes, self._notes = self._notes, []
        return notes

    # -- what happens to messages

    def sent(self, queue: Queue, packets: list[bytes]) -> None:
        """An application has sent messages."""
        self._note(SEND, queue.name, self._now_ms(), self._traced(packets))

    def arrived(self, queue: Queue, numbers: Iterable[int]) -> None:
        """Messages have become available."""
        packets = [packet for packet in map(self._packet, numbers) if packet]
        self._note(ARRIVE, queue.name, self._now_ms(), self._traced(packets))

    def begins(
        self, operation: str, queue: Queue, numbers: Sequence[int], rows: Sequence[Row]
    ) -> None:
        """Messages are on their way to a reader or to another machine; the first time counts."""
        name, now_ms, table = queue.name, self._now_ms(), self._open
        for row, number in zip(rows, numbers, strict=True):
            before = table.get(row.lookup_id)
            if before is not None and before.operation == operation:
                continue
            packet = self._packet(number)
            for message in self._traced([packet] if packet else []):
                if len(table) >= OPEN_MAX:
                    del table[next(iter(table))]
                    self.dropped += 1
                table[row.lookup_id] = _Open(operation, name, now_ms, message)

    def left(self, reason: int, rows: Iterable[Row]) -> None:
        """Messages have left their queue."""
        if self._open:
            self._end("" if reason == RECEIVED else COLUMN_NAMES[reason], rows)

    def returned(self, row: Row) -> None:
        """A reader has given a message back, or is gone."""
        if self._open:
            self._end(RETURNED, (row,))

    def _end(self, fault: str, rows: Iterable[Row]) -> None:
        ended: dict[tuple[str, str, int], list[_Traced]] = {}
        for row in rows:
            begun = self._open.pop(row.lookup_id, None)
            if begun is not None:
                ended.setdefault(begun[:3], []).append(begun.message)
        for (operation, queue, began_ms), messages in ended.items():
            self._note(operation, queue, began_ms, messages, fault)

    # -- which of them a trace shows

    def _traced(self, packets: list[bytes]) -> list[_Traced]:
        messages = (self._look(*each) for each in zip(packets, _looks(packets), strict=True))
        return [message for message in messages if message is not None]

    def _look(self, packet: bytes, seen: PacketSummary | None) -> _Traced | None:
        if seen is None:
            return None
        context = self._context(Packet(packet, seen).extension) if seen.extension_size else None
        is_own = context is None
        if context is None and self._bound and seen.message_class == _NORMAL:
            context = own_context(seen.source_guid, seen.ordinal)
            if context.trace_id & _ID_MASK >= self._bound:
                return None
        if context is None or not context.is_sampled:
            return None
        label = Packet(packet, seen).label if self._labels else ""
        return _Traced(context, is_own, seen.source_guid, seen.ordinal, len(packet), label)

    def _context(self, extension: bytes) -> TraceContext | None:
        """Messages of one span come together, with the same extension."""
        kept = self._kept
        if extension in kept:
            return kept[extension]
        context = self._read(extension)
        if len(extension) <= _KEPT_SIZE:
            if len(kept) >= _KEPT_MAX:
                kept.clear()
            kept[extension] = context
        return context

    def _note(
        self, operation: str, queue: str, began_ms: int, messages: list[_Traced], fault: str = ""
    ) -> None:
        """One span for each trace; where that would be very many, one that links to them."""
        if not messages:
            return
        traces: dict[TraceContext, list[_Traced]] = {}
        for message in messages:
            traces.setdefault(message.context, []).append(message)
        if len(traces) > SPANS_OF_BATCH:
            links = tuple(traces)[:LINKS_MAX]
            size = sum([message.size for message in messages])
            count = len(messages)
            note = SpanNote(
                operation, queue, began_ms, None, links, count, "", size, "", fault, False
            )
            self._notes.append(note)
            return
        for context, some in traces.items():
            first, count = some[0], len(some)
            self._notes.append(
                SpanNote(
                    operation,
                    queue,
                    began_ms,
                    context,
                    (),
                    count,
                    str(MessageId(first.source_guid, first.ordinal)) if count == 1 else "",
                    sum([message.size for message in some]),
                    first.label if count == 1 else "",
                    fault,
                    first.is_own and operation == SEND,
                )
            )


class TracedDepartures(Departures):
    """The record of what left, which also ends the spans of it."""

    __slots__ = ("_spans",)

    def __init__(self, spans: SpanNotes) -> None:
        super().__init__()
        self._spans = spans

    def note(self, queue: Queue | None, utc: int, reason: int, rows: Sequence[Row]) -> None:
        """Messages leave together."""
        super().note(queue, utc, reason, rows)
        self._spans.left(reason, rows)


def own_context(source_guid: bytes, ordinal: int) -> TraceContext:
    """The context of a message that came without one: its identifier, hashed."""
    digest = blake2b(source_guid + ordinal.to_bytes(4, "little"), digest_size=24).digest()
    trace, span = int.from_bytes(digest[:16], "big"), int.from_bytes(digest[16:], "big")
    return TraceContext(trace or 1, span or 1, SAMPLED)


def _looks(packets: list[bytes]) -> list[PacketSummary | None]:
    """Where things are in packets; None for those with broken headers."""
    try:
        return [*summarize_all(packets)]
    except RemoteProtocolError:
        return [_look_at(packet) for packet in packets]


def _look_at(packet: bytes) -> PacketSummary | None:
    try:
        return summarize(packet)
    except RemoteProtocolError:
        return None
