"""Makes packets and records of many messages at once, for stages.

Everything in front of the body is written once and repeated as a matrix; the fields that each
message has of its own are set column by column. Needs numpy; runs in a thread.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np

from posthouse.engine.ledger.records import (
    ARRIVAL_OF_ROW,
    FLAG_TRANSACTIONAL,
    MESSAGE,
    NEVER,
    ROW,
    ROW_SIZE,
    WANT_ARRIVAL,
    WANT_DEAD_LETTER,
    WANT_JOURNAL,
    Row,
)
from posthouse.engine.ledger.rows import ARRIVAL_COLUMNS
from posthouse.engine.pipelines.stage import ASKING, TRANSACTIONAL, StagedRun, StageTarget
from posthouse.model.message import (
    INFINITE,
    DeliveryGuarantee,
    Message,
    MessageId,
    TxSequenceId,
    limited_time_to_reach_queue,
    validate,
)
from posthouse.model.message_values import JOURNAL_NEGATIVE, JOURNAL_POSITIVE
from posthouse.protocols.arrow.stages.columns import GroupColumns, How
from posthouse.protocols.handlers.message_json import format_name
from posthouse.wire.packet.columns import FRONT, PROPERTIES
from posthouse.wire.packet.headers import MESSAGE_PROPERTIES_HEADER, PACKET_SIZE_MAX
from posthouse.wire.packet.serialize import construct

_PADDING: Final = (b"", b"\0\0\0", b"\0\0", b"\0")  # by size modulo 4


class Maker(NamedTuple):
    """What messages of a portion have from the queue manager."""

    guid: bytes
    utc: int
    computer: str
    sender: bytes
    transaction_number: int
    time_to_reach_queue_max: int


class Lengths(NamedTuple):
    """Of each message, in bytes; a number where all have the same."""

    label: Any
    extension: Any
    body: Any

    @property
    def content(self) -> Any:
        """All three."""
        return self.label + self.extension + self.body


def is_transactional(target: StageTarget, how: How) -> bool:
    """A queue of this machine decides itself; for others the sender decides."""
    return how.transactional if target.outgoing else target.transactional


def template(maker: Maker, target: StageTarget, how: How) -> Message:
    """A message with all that those of a group share; QueueError for what cannot be one."""
    message = Message(
        priority=how.priority,
        delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
        acknowledgements_requested=how.acknowledge,
        positive_journaling_requested=bool(how.journal & JOURNAL_POSITIVE),
        negative_journaling_requested=bool(how.journal & JOURNAL_NEGATIVE),
        administration_queue_format_name=format_name(how.admin_queue, maker.computer),
        response_queue_format_name=format_name(how.response_queue, maker.computer),
    )
    if how.time_to_reach_queue is not None:
        message.time_to_reach_queue = how.time_to_reach_queue
    if how.time_to_be_received is not None:
        message.time_to_be_received = how.time_to_be_received
    validate(message)
    message.time_to_reach_queue = limited_time_to_reach_queue(
        message.time_to_reach_queue, maker.time_to_reach_queue_max
    )
    message.identifier = MessageId(maker.guid, 0)
    message.source_machine_identifier = maker.guid
    message.sent_time = maker.utc
    message.destination_queue_format_name = target.format_name
    if is_transactional(target, how):
        message.transaction_identifier = maker.transaction_number
        message.transactional_message_sequence_identifier = TxSequenceId(0, 0)
    return message


def row_of(maker: Maker, target: StageTarget, how: How, message: Message) -> Row:
    """The row that messages of a group share."""
    expires, transactional = NEVER, is_transactional(target, how)
    if message.time_to_be_received != INFINITE:
        expires = maker.utc + message.time_to_be_received
    if target.outgoing and message.time_to_reach_queue != INFINITE:
        expires = min(expires, maker.utc + message.time_to_reach_queue + 1)
    wants = how.acknowledge & 0x0F
    wants |= WANT_DEAD_LETTER if how.journal & JOURNAL_NEGATIVE else 0
    wants |= WANT_JOURNAL if how.journal & JOURNAL_POSITIVE else 0
    priority = 0 if transactional else how.priority
    flags = FLAG_TRANSACTIONAL if transactional else 0
    return Row(
        *(0, target.queue, min(expires, NEVER), maker.utc, 0, 0, 0),
        int(message.message_class),
        *(0, 0, priority, flags, wants),
    )


def kind_of(target: StageTarget, row: Row) -> int:
    """What a publish has to look at."""
    kind = TRANSACTIONAL if row.flags & FLAG_TRANSACTIONAL else 0
    return kind | (
        ASKING if row.wants & (WANT_JOURNAL | WANT_ARRIVAL) and not target.outgoing else 0
    )


def made(
    maker: Maker, target: StageTarget, how: How, values: GroupColumns, numbers: Any, ordinals: Any
) -> StagedRun:
    """The records of a group of rows, with a number and an ordinal for each."""
    message = template(maker, target, how)
    row = row_of(maker, target, how, message)
    bodies, labels, extensions = values.bodies(), values.labels(), values.extensions()
    lengths = Lengths(
        len(labels) if isinstance(labels, bytes) else _lengths(labels),
        0 if extensions is None else _lengths(extensions),
        _lengths(bodies),
    )
    identifiers = values.identifiers()
    if identifiers is not None:
        ordinals = np.where(identifiers[1] > 0, identifiers[1], ordinals)
    fronts, sizes = _fronts(message, values, lengths, ordinals, identifiers)
    pads = [_PADDING[left] for left in (lengths.content & 3).tolist()]
    between = [part for part in (labels, extensions) if part]
    columns = [repeat(part) if isinstance(part, bytes) else part for part in between]
    packets = list(map(b"".join, zip(fronts, *columns, bodies, pads, strict=False)))
    heads, rows = _heads(row, maker.sender, numbers, ordinals, sizes, lengths, len(fronts[0]))
    records = list(zip(repeat(MESSAGE), numbers.tolist(), heads, packets))
    first, size = int(numbers[0]), int(sizes.sum())
    return StagedRun(target.queue, first, rows, size, kind_of(target, row), records)


def merged(runs: list[StagedRun], order: Any) -> StagedRun:
    """Groups of one queue and priority as one run; `order` are the places of its messages."""
    records = [record for run in runs for record in run.records]
    rows = np.frombuffer(b"".join([run.rows for run in runs]), np.uint8).reshape(-1, ROW_SIZE)
    kind = 0
    for run in runs:
        kind |= run.kind
    return StagedRun(
        runs[0].queue,
        min(run.number for run in runs),
        rows[order].tobytes(),
        sum(run.size for run in runs),
        kind,
        [records[at] for at in order.tolist()],
    )


def _lengths(parts: list[bytes]) -> Any:
    return np.fromiter(map(len, parts), np.int64, len(parts))


def _fronts(
    message: Message, values: GroupColumns, lengths: Lengths, ordinals: Any, identifiers: Any
) -> tuple[list[bytes], Any]:
    """Everything in front of the label, for each message; and the sizes of the packets."""
    parts = construct(message)
    front = b"".join(parts[: parts._fields.index("label")])
    properties_at = len(front) - MESSAGE_PROPERTIES_HEADER.size
    sizes = len(front) + (lengths.content + 3 & ~3)
    if int(sizes.max()) > PACKET_SIZE_MAX:
        row = int(np.argmax(sizes))
        cause = f"the message takes {sizes[row]} bytes, a packet holds at most {PACKET_SIZE_MAX}"
        raise values.refuse(row, "body", cause)
    block = _repeated(front, len(values))
    _set(block, FRONT["packet_size"].offset, sizes)
    _set(block, FRONT["ordinal"].offset, ordinals)
    if identifiers is not None:
        brought = identifiers[1] > 0
        block[brought, FRONT["source_guid"].bytes] = identifiers[0][brought]
    correlations = values.correlations()
    if correlations is not None:
        block[:, properties_at:][:, PROPERTIES["correlation"].bytes] = correlations
    block[:, properties_at + PROPERTIES["units"].offset] = lengths.label // 2
    for name, numbers in (
        ("body_type", values.numbers("body_type")),
        ("application_tag", values.numbers("app_specific")),
        ("body_size", lengths.body),
        ("allocated", lengths.body),
        ("extension_size", lengths.extension),
    ):
        _set(block, properties_at + PROPERTIES[name].offset, numbers)
    return _cut(block), sizes


def _heads(
    row: Row,
    sender: bytes,
    numbers: Any,
    ordinals: Any,
    sizes: Any,
    lengths: Lengths,
    label_at: int,
) -> tuple[list[bytes], bytes]:
    """The arrival block of each message, and the packed rows of all."""
    span = (label_at, 0, 0, 0, 0, 0)
    head = ARRIVAL_OF_ROW.pack(0, ROW.pack(*row), *span, len(sender), 0) + sender
    block = _repeated(head, len(sizes))
    for name, values in (
        ("number", numbers),
        ("row_size", sizes),
        ("row_ordinal", ordinals),
        ("label_size", lengths.label),
        ("extension_at", label_at + lengths.label),
        ("extension_size", lengths.extension),
        ("body_at", label_at + lengths.label + lengths.extension),
        ("body_size", lengths.body),
    ):
        form, at = ARRIVAL_COLUMNS[name]
        _set(block, at, values, form)
    return _cut(block), block[:, ARRIVAL_COLUMNS["row"].bytes].tobytes()


def _repeated(template: bytes, count: int) -> Any:
    block = np.empty((count, len(template)), np.uint8)
    block[:] = np.frombuffer(template, np.uint8)
    return block


def _set(block: Any, at: int, numbers: Any, layout: str = "<u4") -> None:
    """A field of all messages: one number each, or the same for all."""
    values = np.ascontiguousarray(np.broadcast_to(numbers, len(block)), layout)
    width = values.itemsize
    block[:, at : at + width] = values.view(np.uint8).reshape(-1, width)


def _cut(block: Any) -> list[bytes]:
    data, width = block.tobytes(), block.shape[1]
    return [data[at : at + width] for at in range(0, len(data), width)]
