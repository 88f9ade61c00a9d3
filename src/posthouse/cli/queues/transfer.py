"""Output of `posthouse queue list` and `show` on messages between queue managers."""

from __future__ import annotations

from posthouse.api.transfer import (
    IncomingSequenceJson,
    OutgoingJson,
    OutgoingSequenceJson,
    SequencePlaceJson,
    SequencesJson,
)
from posthouse.api.types import QueueJson
from posthouse.cli.output import age, print_pairs, print_table, say


def outgoing_row(outgoing: OutgoingJson, queue: QueueJson) -> tuple[str, ...]:
    """A line of `queue list --outgoing`."""
    return (
        queue.format_name,
        queue.state.replace("_", " "),
        f"{outgoing.unsent:,}",
        f"{outgoing.unacknowledged - outgoing.unread:,}",
        f"{outgoing.unread:,}",
        age(queue.oldest_age_s),
        outgoing.next_retry_time or "",
        outgoing.last_error,
    )


def tell_transfer(queue: QueueJson) -> None:
    """Sequences that arrive, and connections of a queue, as far as it has any."""
    if queue.incoming:
        _tell_incoming(queue.incoming)
    if queue.connections:
        print_table(
            "Connections",
            ("time", "status", "error", "next hops"),
            (
                (one.time, one.status, _error(one.error), ", ".join(one.next_hops))
                for one in queue.connections
            ),
        )


def _tell_incoming(incoming: list[IncomingSequenceJson]) -> None:
    print_table(
        "Sequences of other queue managers",
        ("source", "from", "sequence", "last number", "last time", "rejected", "sent to"),
        (
            (
                *(one.source, _from(one), one.sequence, f"{one.number:,}", one.last_time or ""),
                *(f"{one.rejected:,}", one.format_name),
            )
            for one in incoming
        ),
    )


def _from(one: IncomingSequenceJson) -> str:
    return f"{one.address} (directory)" if one.vouched else one.address


def tell_sequences(found: SequencesJson) -> None:
    """What `posthouse queue sequences` prints."""
    if found.outgoing is not None:
        print_pairs(_sequence_pairs(found.outgoing))
    if found.incoming:
        _tell_incoming(found.incoming)
    if found.turned_away:
        print_table(
            "Not accepted",
            ("source", "from", "number", "follows", "times", "since", "last time"),
            (
                (
                    *(one.source, one.address, _place(one.place), f"{one.place.previous:,}"),
                    *(f"{one.messages:,}", one.since or "", one.last_time or ""),
                )
                for one in found.turned_away
            ),
        )
    if found.conflicts:
        print_table(
            "In conflict",
            ("source", "from", "and from", "last time"),
            ((one.source, one.address, one.other, one.last_time or "") for one in found.conflicts),
        )
    if not (found.outgoing or found.incoming or found.turned_away):
        say(f"{found.queue} has no sequences.")


def _error(code: int) -> str:
    return f"0x{code:08X}" if code else ""


def outgoing_pairs(queue: QueueJson) -> dict[str, str]:
    """What `posthouse queue show` adds for an outgoing queue."""
    if (outgoing := queue.outgoing) is None:
        return {}
    return {
        "sent": f"{outgoing.sent:,}",
        "unsent": f"{outgoing.unsent:,}",
        "unacknowledged": f"{outgoing.unacknowledged:,}, {outgoing.unread:,} have arrived",
        "delivered": f"{outgoing.delivered:,}",
        "failed": f"{outgoing.failed:,}",
        "next hops": ", ".join(outgoing.next_hops),
        "next retry": outgoing.next_retry_time or "",
        "last error": outgoing.last_error,
    } | ({} if outgoing.sequence is None else _sequence_pairs(outgoing.sequence))


def _sequence_pairs(sequence: OutgoingSequenceJson) -> dict[str, str]:
    return {
        "next in sequence": _place(sequence.next),
        "first unacknowledged": _place(sequence.first_unacknowledged),
        "last unacknowledged": _place(sequence.last_unacknowledged),
        "last acknowledged": _place(sequence.last_acknowledged),
        "acknowledged at": sequence.last_acknowledged_time or "",
        "not acknowledged": f"{sequence.unacknowledged:,}",
        "not read": f"{sequence.unread:,}",
        "resends": f"{sequence.resends:,}, {sequence.resend_interval_s:,} s apart",
        "resend at": sequence.resend_time or "",
    }


def _place(place: SequencePlaceJson | None) -> str:
    return "" if place is None else f"{place.number:,} of {place.sequence}"
