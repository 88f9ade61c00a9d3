"""The life of a message: where it is, how it left, and reports of other queue managers."""

from __future__ import annotations

from typing import Final

from posthouse.api.explain import ExplainParams, LifeJson
from posthouse.api.refused import RefusedMessageJson
from posthouse.api.types import DepartureJson, Nothing, PlaceJson, SkippedJson
from posthouse.engine.ledger.departed_messages import Departure
from posthouse.engine.ledger.records import COLUMN_NAMES, FLAG_ARRIVED, RECEIVED, Row
from posthouse.engine.manager import QueueManager
from posthouse.model.errors import QueueError
from posthouse.model.message import MESSAGE_CLASSES, MessageId
from posthouse.model.message_json import time_text
from posthouse.model.properties import OutgoingQueueState
from posthouse.protocols.handlers.context import Context, find_queue
from posthouse.protocols.handlers.message_json import readable
from posthouse.protocols.handlers.refused import may_see, refused_json
from posthouse.protocols.handlers.request_steps import Steps, looked_at
from posthouse.protocols.handlers.scanning import (
    GONE,
    Scan,
    ScannedMessage,
    is_peekable,
    peekable_queues,
    skipping,
)

SENT = (
    "it was sent, and the other machine has not confirmed it. If that lasts, the machine refuses "
    "it: no such queue, not transactional, no right to send; posthouse message refused there has "
    "the reason, explain --peers asks it. Or it does not accept the sequence of this machine: "
    "posthouse queue sequences QUEUE there"
)
ARRIVED = (
    "the other machine has it in its queue. It is kept here until that machine reports that it was "
    "received, expired or purged"
)
DELIVERED: Final = "delivered"
_MEANING: Final = {entry.code: entry for entry in MESSAGE_CLASSES}


def explain_message(context: Context, params: ExplainParams, body: Nothing) -> Steps[LifeJson]:
    """States where a message is or how it left, and what its class means: why it is a dead letter.

    With `peers` the queue managers of `[admin] explain_peers` are asked too, for administrators.
    """
    if params.peers:
        context.require_administrator()
    wanted = MessageId.parse(params.id)
    with context.services.scans.running(context.caller):
        skipped = list[SkippedJson]()
        places = yield from _places(context, wanted, skipped)
        guid = yield from looked_at(lambda manager: manager.machine.identifier)
    is_own = wanted.guid == guid
    left = yield from looked_at(lambda manager: _departures(manager, context, wanted, is_own))
    refusals = yield from looked_at(lambda manager: _refusals(manager, context, wanted))
    words = _answer(places, left, refusals, is_own)
    life = LifeJson(str(wanted), places, words, left, refusals=refusals, skipped=skipped)
    if params.peers and context.services.ask_peers is not None:
        answer = yield context.services.ask_peers(str(wanted))
        assert isinstance(answer.value, list)
        life.peers = answer.value
    return life


def _refusals(
    manager: QueueManager, context: Context, wanted: MessageId
) -> list[RefusedMessageJson]:
    """Return the refusals of a message, for queues that the caller may look into."""
    found = manager.transfer.refusals_of(wanted.guid, wanted.ordinal)
    return refused_json(one for one in found if may_see(manager, context, one))


def _departures(
    manager: QueueManager, context: Context, wanted: MessageId, is_own: bool
) -> list[DepartureJson]:
    """What left queues that the caller may look into."""
    found = list[DepartureJson]()
    whole = context.caller.is_administrator and context.caller.scopes is None
    for one in manager.machine.departures(wanted.ordinal, remote=not is_own):
        queue = one.queue
        if whole or (queue is not None and is_peekable(manager, context, queue)):
            found.append(
                DepartureJson(
                    queue="a queue that is deleted" if queue is None else queue.name,
                    lookup_id=one.row.lookup_id,
                    time=time_text(one.utc),
                    how=_how(one),
                    reader=one.reader,
                    certain=is_own,
                )
            )
    return found


def _how(one: Departure) -> str:
    if one.queue is not None and one.queue.outgoing is not None and one.reason == RECEIVED:
        return DELIVERED
    return COLUMN_NAMES[one.reason].replace("_", " ")


def _places(
    context: Context, wanted: MessageId, skipped: list[SkippedJson]
) -> Steps[list[PlaceJson]]:
    """Where a message is, of the queues that the caller may look into."""
    places: list[PlaceJson] = []
    queues = yield from looked_at(lambda manager: peekable_queues(manager, context, 0))
    for _, name in queues:
        try:
            found = yield from _with_ordinal(context, name, wanted.ordinal)
        except GONE:
            continue
        except QueueError as error:
            skipped.append(skipping(name, error))
            continue
        for one in found:
            if readable(one.packet).identifier == wanted:
                locked = yield from _is_locked(one)
                reason = yield from _reason(name, one.read.number)
                places.append(_place(one, locked, reason))
    return places


def _with_ordinal(context: Context, queue: str, ordinal: int) -> Steps[list[ScannedMessage]]:
    def has_ordinal(row: Row) -> bool:
        return row.ordinal == ordinal

    scan, found = Scan(context, queue, wanted=has_ordinal, locked=True), list[ScannedMessage]()
    while not scan.done:
        found += yield from scan.step()
        scan.given_back()
    return found


def _is_locked(found: ScannedMessage) -> Steps[bool]:
    return looked_at(lambda manager: manager.messages.is_locked(found.read.number))


def _reason(name: str, number: int) -> Steps[str]:
    """Why a message of an outgoing queue is still there; empty for any other queue."""

    def look(manager: QueueManager) -> str:
        queue = find_queue(manager, name)
        outgoing = queue.outgoing
        if outgoing is None:
            return ""
        row = manager.messages.find_row(number)
        if row is not None and row.flags & FLAG_ARRIVED:
            return ARRIVED
        match outgoing.state:
            case OutgoingQueueState.ON_HOLD:
                return f"it is paused: posthouse queue resume '{name}'"
            case OutgoingQueueState.LOCKED:
                return "this machine is hardened and sends over HTTP only"
        if outgoing.last_error:
            return f"it cannot connect: {outgoing.last_error}"
        if manager.transfer.unacknowledged(queue):
            return SENT
        return "it is on its way"

    return looked_at(look)


def _place(found: ScannedMessage, locked: bool, reason: str) -> PlaceJson:
    read, entry = found.read, _MEANING.get(found.read.message_class)
    return PlaceJson(
        queue=found.queue,
        lookup_id=read.lookup_id,
        state="locked" if locked else "waiting",
        class_=entry.word if entry else f"0x{read.message_class:04x}",
        class_code=read.message_class,
        meaning=entry.meaning if entry else "a class of the application that sent it",
        arrived_time=time_text(read.arrived),
        abort_count=read.aborts,
        move_count=read.moves,
        reason=reason,
    )


def _answer(
    places: list[PlaceJson],
    left: list[DepartureJson],
    refusals: list[RefusedMessageJson],
    is_own: bool,
) -> str:
    """Return what became of the message; a copy in a journal comes after the original."""
    words = [_departure_words(one) for one in left if not places or one.how == DELIVERED]
    words += map(_refusal_words, refusals)
    words += map(_place_words, places)
    if words:
        return "; ".join(words)
    if not is_own:
        return (
            "The message is in no queue here that you may look into, and it is not among the "
            "messages that were refused here since the start: posthouse message refused. Another "
            "queue manager sent it: ask there too."
        )
    return (
        "The message is in no queue here that you may look into: it was received, it expired, "
        "another machine has taken it over, or it was express and the queue manager was killed "
        "since. The column `expired` of `posthouse books` counts expired ones. For another "
        "machine: run this command there. Send with --journal and --dead-letter to keep messages "
        "that leave, with --recoverable to keep them through a crash."
    )


def _place_words(one: PlaceJson) -> str:
    if one.queue.endswith(";journal") and not one.class_code:
        return f"a copy is in {one.queue}"
    return f"{one.state} in {one.queue}: {one.reason or one.meaning}"


def _refusal_words(one: RefusedMessageJson) -> str:
    times = f", {one.times:,} times since {one.first_time}" if one.times > 1 else ""
    kept = ". A copy is among the dead letters" if one.dead_letter else ""
    return (
        f"refused here at {one.last_time}{times}: {one.cause}. It came from {one.address} for "
        f"{one.queue}{kept}"
    )


def _departure_words(one: DepartureJson) -> str:
    by = f" by {one.reader}" if one.reader else ""
    doubt = "" if one.certain else ", if no other machine has given the same number"
    if one.how == DELIVERED:
        return (
            f"taken over by the machine of {one.queue} at {one.time}{doubt}. If it is not in that "
            "queue, it was received, expired or refused there: run explain there, or here with "
            "--peers"
        )
    return f"{one.how} from {one.queue} at {one.time}{by}{doubt}"
