"""Stages written message by message, without Arrow: what tests of the engine and the store use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posthouse.engine.ledger.records import (
    MESSAGE,
    NEVER,
    WANT_ARRIVAL,
    WANT_JOURNAL,
    Record,
    Span,
    pack_arrival,
)
from posthouse.engine.ledger.rows import flags_of, row_of, wants_of
from posthouse.engine.manager import QueueManager
from posthouse.engine.pipelines.stage import (
    ASKING,
    TRANSACTIONAL,
    BatchSignature,
    Stage,
    StagedRun,
    StageKey,
    StageTarget,
    Upload,
)
from posthouse.model.message import (
    INFINITE,
    DeliveryGuarantee,
    Message,
    MessageId,
    TxSequenceId,
)
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet_fields import summarize
from tests.engine.rig import Rig

QUERY = "query"


def run_of(
    manager: QueueManager,
    upload: Upload,
    target: StageTarget,
    bodies: Sequence[bytes],
    **options: Any,
) -> StagedRun:
    """Messages for one queue that differ in their bodies only."""
    number, ordinals = manager.stages.reserve(len(bodies))
    records, rows, size, kind = list[Record](), list[bytes](), 0, 0
    for at, (body, ordinal) in enumerate(zip(bodies, ordinals, strict=True)):
        packet = packet_of(manager, target, body, ordinal, **options)
        seen = summarize(packet)
        expires = NEVER
        if seen.time_to_be_received != INFINITE:
            expires = manager.machine.utc + seen.time_to_be_received
        wants, flags = wants_of(seen), flags_of(seen, 0)
        row = row_of(seen, target.queue, manager.machine.utc, expires, flags, wants)
        head = pack_arrival(number + at, row, Span(*seen.span), upload.caller.sid)
        records.append((MESSAGE, number + at, head, packet))
        rows.append(head[8:52])
        size += len(packet)
        kind = TRANSACTIONAL if seen.transaction_at else 0
        asking = wants & (WANT_ARRIVAL | WANT_JOURNAL) and not target.outgoing
        kind |= ASKING if asking else 0
    return StagedRun(target.queue, number, b"".join(rows), size, kind, records)


def joined(runs: Sequence[StagedRun]) -> StagedRun:
    """Runs of one queue and priority that were made one behind the other, as one."""
    kind = 0
    for run in runs:
        kind |= run.kind
    return StagedRun(
        runs[0].queue,
        runs[0].number,
        b"".join([run.rows for run in runs]),
        sum(run.size for run in runs),
        kind,
        [record for run in runs for record in run.records],
    )


def packet_of(
    manager: QueueManager, target: StageTarget, body: bytes, ordinal: int, **options: Any
) -> bytes:
    """As a writer of a stage makes it."""
    transactional = options.pop("transactional", target.transactional)
    message = Message(body=body, delivery_guarantee=DeliveryGuarantee.RECOVERABLE, **options)
    message.identifier = MessageId(manager.machine.identifier, ordinal)
    message.source_machine_identifier = manager.machine.identifier
    message.sent_time = manager.machine.utc
    message.destination_queue_format_name = target.format_name
    if transactional:
        message.transaction_identifier = 7
        message.transactional_message_sequence_identifier = TxSequenceId(0, 0)
    return serialize(message)


Rows = Sequence[tuple[str, Sequence[bytes]]]


def append(rig: Rig, upload: Upload, rows: Rows, **options: Any) -> None:
    """One portion: for each queue some bodies, in one turn."""

    def call(manager: QueueManager) -> None:
        targets = [(manager.stages.target(upload, full(name)), bodies) for name, bodies in rows]
        manager.stages.append(
            upload, [run_of(manager, upload, target, some, **options) for target, some in targets]
        )

    rig.run(call)


def full(name: str) -> str:
    """The path of a private queue named by its last part; format names as they are."""
    return name if "=" in name or "\\" in name else f".\\private$\\{name}"


def key_of(batch: int, partition: int = 0, attempt: int = 0, query: str = QUERY) -> StageKey:
    return StageKey(query, batch, partition, attempt)


def begin(rig: Rig, key: StageKey, caller: Any = None) -> Upload:
    upload = rig.run(lambda m: m.stages.begin(key, caller or rig.admin))
    assert upload is not None
    return upload


def stage(rig: Rig, key: StageKey, *rows: tuple[str, Sequence[bytes]], **options: Any) -> Stage:
    """A whole stage, in one portion."""
    upload = begin(rig, key, options.pop("caller", None))
    append(rig, upload, rows, **options)
    return rig.run(lambda m: m.stages.finish(upload))


def publish(
    rig: Rig, batch: int, *chosen: tuple[int, int], query: str = QUERY, **known: str
) -> Any:
    """Publishes as the administrator; `known` is what the batch is known by."""
    signature = BatchSignature(**known)
    return rig.run(lambda m: m.stages.publish(query, batch, list(chosen), rig.admin, signature))
