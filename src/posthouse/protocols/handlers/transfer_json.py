"""Outgoing queues and sequences as the API shows them ([MS-MQDMPR] 3.1.1.3-5)."""

from __future__ import annotations

from posthouse.api.transfer import (
    ConflictJson,
    ConnectionJson,
    IncomingSequenceJson,
    OutgoingJson,
    OutgoingSequenceJson,
    SequencePlaceJson,
    SequencesJson,
    TurnedAwayJson,
)
from posthouse.engine.ledger.books import sender_books_of
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.sequence_values import SequenceInfo
from posthouse.model.enumerations import ConnectionStatus
from posthouse.model.guids import format_guid
from posthouse.model.message_json import time_text


def state_word(queue: Queue) -> str:
    """The state of an outgoing queue; nothing for any other."""
    return queue.outgoing.state.name.lower() if queue.outgoing else ""


def connections_json(queue: Queue) -> list[ConnectionJson]:
    """The connection history of an outgoing queue, the oldest attempt first."""
    if queue.outgoing is None:
        return []
    return [
        ConnectionJson(
            time=time_text(attempt.time),
            status=ConnectionStatus(attempt.status).name.lower().replace("_", " "),
            status_code=attempt.status,
            error=attempt.error,
            next_hops=list(attempt.next_hops),
        )
        for attempt in queue.outgoing.connection_history
    ]


def outgoing_json(manager: QueueManager, queue: Queue, *, whole: bool) -> OutgoingJson | None:
    """The sender's books of an outgoing queue and how it gets on; None for any other."""
    outgoing, transfer = queue.outgoing, manager.transfer
    if outgoing is None:
        return None
    books = sender_books_of(queue, transfer.unacknowledged(queue))
    return OutgoingJson(
        sent=books.sent,
        unsent=books.unsent,
        unacknowledged=books.unacknowledged,
        unread=transfer.arrived(queue),
        delivered=books.delivered,
        failed=books.failed,
        next_retry_time=_time(outgoing.retry_time),
        last_error=outgoing.last_error,
        next_hops=list(outgoing.next_hops),
        sequence=_sequence(manager, queue) if whole else None,
    )


def _sequence(manager: QueueManager, queue: Queue) -> OutgoingSequenceJson | None:
    report = manager.transfer.report(queue)
    if not report.next_sequence.sequence_id:
        return None
    return OutgoingSequenceJson(
        first_unacknowledged=_place(report.first_non_ack),
        last_unacknowledged=_place(report.last_non_ack),
        last_acknowledged=_place(report.last_ack),
        next=_shown(report.next_sequence),
        unacknowledged=report.no_ack_count,
        unread=report.no_read_count,
        last_acknowledged_time=_time(report.last_ack_time),
        acknowledgments=report.last_ack_count,
        resends=report.resend_count,
        resend_interval_s=report.resend_interval_s,
        resend_time=_time(report.resend_time),
    )


def incoming_json(manager: QueueManager, queue: Queue) -> list[IncomingSequenceJson]:
    """The sequences of other queue managers into a queue."""
    return [
        IncomingSequenceJson(
            source=format_guid(info.source),
            format_name=info.format_name,
            sequence=_sequence_text(info.sequence_id),
            number=info.sequence_number,
            last_time=_time(info.last_access_time),
            rejected=info.reject_count,
            address=info.lineage or info.address,
            vouched=not info.lineage and manager.transfer.knows_machine(info.source),
        )
        for info in manager.transfer.incoming_of(queue)
    ]


def sequences_json(manager: QueueManager, queue: Queue) -> SequencesJson:
    """Every sequence of a queue, and what is rejected."""
    transfer, number = manager.transfer, queue.number
    return SequencesJson(
        queue=queue.name,
        incoming=incoming_json(manager, queue),
        turned_away=[
            TurnedAwayJson(
                source=format_guid(source),
                address=host,
                format_name=name,
                place=_shown(SequenceInfo(*one.place, one.previous)),
                messages=one.messages,
                since=_time(one.since),
                last_time=_time(one.last),
            )
            for (at, source, name, host), one in transfer.turned_away().items()
            if at == number
        ],
        conflicts=[
            ConflictJson(
                source=format_guid(source), address=host, other=other, last_time=_time(last)
            )
            for (at, source, host, other), last in transfer.conflicts().items()
            if at == number
        ],
        outgoing=_sequence(manager, queue) if queue.outgoing is not None else None,
    )


def _place(info: SequenceInfo | None) -> SequencePlaceJson | None:
    return None if info is None else _shown(info)


def _shown(info: SequenceInfo) -> SequencePlaceJson:
    return SequencePlaceJson(
        sequence=_sequence_text(info.sequence_id),
        number=info.number,
        previous=info.previous_number,
    )


def _sequence_text(sequence_id: int) -> str:
    return f"{sequence_id >> 32}\\{sequence_id & 0xFFFFFFFF}"


def _time(seconds: int) -> str | None:
    return time_text(seconds) if seconds else None
