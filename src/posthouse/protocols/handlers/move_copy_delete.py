"""Many messages at once: move, copy, delete, resend those that a filter matches or a list names.

The work goes in steps, so that others have their turn in between. Each message is done or not
done; what somebody else took meanwhile is counted as gone. Messages that came after the work began
are left alone, so that sending into the same queue comes to an end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from posthouse.api.types import (
    BulkJson,
    ErrorBody,
    MoveMessagesBody,
    QueueParams,
    ResendBody,
    SelectBody,
    SelectToBody,
)
from posthouse.engine.ledger.effects import Read
from posthouse.engine.ledger.records import Row
from posthouse.engine.manager import QueueManager
from posthouse.engine.messages.returning import is_transactional
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.model.errors import (
    AccessDenied,
    InvalidParameter,
    MessageAlreadyReceived,
    MessageNotFound,
    QueueError,
    RemoteProtocolError,
)
from posthouse.model.filters import Filter
from posthouse.model.message import Message
from posthouse.model.properties import MessageSeekAction, QueueAccessType
from posthouse.protocols.handlers.context import Context, open_queue, opened
from posthouse.protocols.handlers.dry_runs import Trial, targets
from posthouse.protocols.handlers.message_json import clean, copy_of
from posthouse.protocols.handlers.messages import send_one
from posthouse.protocols.handlers.refusals import error_body
from posthouse.protocols.handlers.request_steps import Decide, Steps, at_once
from posthouse.protocols.handlers.scanning import (
    STEP_BYTES,
    STEP_MESSAGES,
    Scan,
    ScannedMessage,
    examined,
)

Access = QueueAccessType
GONE = (MessageNotFound, MessageAlreadyReceived)


class Tally:
    """What came of the messages so far."""

    def __init__(self, dry_run: bool) -> None:
        self.matched = self.done = self.gone = self.refused = 0
        self.error: ErrorBody | None = None
        self.dry_run = dry_run

    def add(self, outcome: QueueError | None) -> None:
        """What came of one more."""
        if outcome is None:
            self.done += not self.dry_run
        elif isinstance(outcome, GONE):
            self.gone += 1
        else:
            self.refused += 1
            self.error = self.error or error_body(outcome)

    def result(self) -> BulkJson:
        """All of it."""
        return BulkJson(
            matched=self.matched,
            done=self.done,
            gone=self.gone,
            refused=self.refused,
            error=self.error,
            dry_run=self.dry_run,
        )


# -- choosing


class _Choice(Protocol):
    """Messages chosen, a batch at a time."""

    def next(self, tally: Tally) -> Steps[list[ScannedMessage] | None]:
        """The next ones; None when there are no more."""


class _ByFilter:
    """The messages that a filter matches, of those that are there now."""

    def __init__(self, context: Context, queue: str, where: Filter) -> None:
        self._scan = Scan(context, queue, access=Access.RECEIVE, wanted=self._is_old)
        self._where = where
        self._ceiling = 0

    def _is_old(self, row: Row) -> bool:
        return row.lookup_id < self._ceiling

    def next(self, tally: Tally) -> Steps[list[ScannedMessage] | None]:
        if self._scan.done:
            return None
        if not self._ceiling:
            self._ceiling = yield from at_once(lambda manager: manager.returning.next_lookup_id())
        batch = yield from self._scan.step()
        self._scan.given_back()  # each step of the work is over before the next one
        matching = yield from examined(self._scan.context, batch, self._where)
        pairs = zip(batch, matching, strict=True)
        chosen = [found for found, message in pairs if message is not None]
        tally.matched += len(chosen)
        return chosen


class ByIds:
    """The messages with these lookup ids."""

    def __init__(self, context: Context, queue: str, lookup_ids: list[int]) -> None:
        self._context = context
        self._queue = queue
        self._left = list(dict.fromkeys(lookup_ids))
        self._missing = 0

    def next(self, tally: Tally) -> Steps[list[ScannedMessage] | None]:
        """The next ones; None when there are no more."""
        if not self._left:
            return None
        answer = yield Decide(self._look)
        reads: list[Read] = answer.value  # type: ignore[assignment]
        tally.gone, self._missing = tally.gone + self._missing, 0
        tally.matched += len(reads)
        pairs = zip(reads, answer.packets, strict=True)
        return [ScannedMessage(read, packet, self._queue) for read, packet in pairs]

    @property
    def left(self) -> int:
        """How many were not looked for yet."""
        return len(self._left)

    def _look(self, manager: QueueManager) -> list[Read]:
        reads, size = list[Read](), 0
        with opened(manager, self._queue, Access.RECEIVE, self._context) as descriptor:
            while self._left and len(reads) < STEP_MESSAGES and size < STEP_BYTES:
                lookup_id = self._left.pop(0)
                number = _available(manager, descriptor, lookup_id)
                row = manager.messages.row(number) if number else None
                if row is None or row.lookup_id != lookup_id:  # it was moved, and has another now
                    self._missing += 1
                    continue
                reads.append(manager.messages.read_of(number, row))
                size += row.size
        return reads


def _available(manager: QueueManager, descriptor: OpenQueueDescriptor, lookup_id: int) -> int:
    """The number of a message that could be received now, else 0."""
    current = MessageSeekAction.CURRENT
    try:
        return manager.messages.seek_by_lookup_id(
            descriptor.target(), lookup_id, current, peek=False
        )
    except QueueError:
        return 0


def _choice(context: Context, queue: str, body: SelectBody) -> _Choice:
    if body.where is not None and body.lookup_ids is None:
        return _ByFilter(context, queue, context.view.filter(body.where))
    if body.lookup_ids is not None and body.where is None:
        return ByIds(context, queue, body.lookup_ids)
    raise InvalidParameter("choose messages by `where` or by `lookup_ids`", "Give one of the two.")


# -- acting


class StepQueues:
    """The queues that one step has open."""

    def __init__(self, manager: QueueManager, context: Context, source: str) -> None:
        self.manager = manager
        self.context = context
        self._open: dict[tuple[str, QueueAccessType], OpenQueueDescriptor] = {}
        self.source = self.queue(source, Access.RECEIVE)

    def queue(self, name: str, access: QueueAccessType) -> OpenQueueDescriptor:
        """A queue that the work needs, open until the step ends."""
        descriptor = self._open.get((name, access))
        if descriptor is None:
            if access in (Access.SEND, Access.MOVE):  # where masks may be others
                self.context.view.require_whole(self.source.target().name)
            descriptor = open_queue(self.manager, name, access, self.context)
            self._open[name, access] = descriptor
        return descriptor

    def require(self, found: ScannedMessage) -> None:
        """The message is still there, and not held."""
        self.manager.messages.seek_by_lookup_id(
            self.source.target(), found.read.lookup_id, MessageSeekAction.CURRENT, peek=False
        )

    def delete(self, found: ScannedMessage) -> None:
        """The message is received, and not shown."""
        self.manager.messages.read_message_by_lookup_identifier(
            self.source, found.read.lookup_id, peek=False
        )

    def close(self) -> None:
        """Nothing stays open between steps."""
        for descriptor in self._open.values():
            self.manager.queues.close_queue(descriptor)


Act = Callable[[StepQueues, ScannedMessage, Message], None]


Target = tuple[str, QueueAccessType]
Work = tuple[ScannedMessage, Message]
"""A message, and the copy that is sent in its place where one is."""


def _bulk(context: Context, queue: str, body: SelectBody, bulk: BulkAct) -> Steps[BulkJson]:
    """Chooses messages and acts on each, step by step.

    A queue that cannot be opened refuses the request, unless some of it is done already: then the
    answer states how much, and why no more. A dry run only states what would be refused.
    """
    with context.services.scans.running(context.caller):
        return (yield from _bulk_steps(context, queue, body, bulk))


def _bulk_steps(context: Context, queue: str, body: SelectBody, bulk: BulkAct) -> Steps[BulkJson]:
    tally, choice, target = Tally(body.dry_run), _choice(context, queue, body), bulk.target
    if body.dry_run and target is not None:
        yield from at_once(lambda manager: targets(manager, *target, context.caller))
    while (batch := (yield from _next(context, choice, tally))) is not None:
        work = prepared(batch, bulk, tally)
        try:
            if body.dry_run:
                outcomes = yield from _acted(context, queue, bulk.dry, work, None, bulk.takes)
            else:
                outcomes = yield from _acted(context, queue, bulk.act, work, target, bulk.takes)
        except QueueError as error:
            if not tally.done:
                raise
            outcomes = [error] * len(work)
        for outcome in outcomes:
            tally.add(outcome)
    return tally.result()


def prepared(batch: list[ScannedMessage], bulk: BulkAct, tally: Tally) -> list[Work]:
    """The messages with the copies that are sent in their place; damaged ones are refused."""
    work = list[Work]()
    for found in batch:
        try:
            work.append((found, copy_of(found.packet) if bulk.sends else Message()))
        except RemoteProtocolError as error:
            tally.add(QueueError(f"the message {found.read.lookup_id} is damaged: {error}"))
    return work


def _next(context: Context, choice: _Choice, tally: Tally) -> Steps[list[ScannedMessage] | None]:
    """The next messages; it ends here with the token that it was begun with."""
    try:
        if context.services.tokens.is_over(context.token_id):
            raise AccessDenied("the token was revoked, or has expired")
        return (yield from choice.next(tally))
    except QueueError as error:  # the queue was deleted meanwhile, or its rights have changed
        if not tally.done:
            raise
        tally.error = tally.error or error_body(error)
        return None


def _acted(
    context: Context, queue: str, act: Act, batch: list[Work], target: Target | None, takes: bool
) -> Steps[list[QueueError | None]]:
    return (
        yield from at_once(
            lambda manager: act_on(manager, context, queue, act, batch, target, takes)
        )
    )


def act_on(
    manager: QueueManager,
    context: Context,
    queue: str,
    act: Act,
    batch: list[Work],
    target: Target | None,
    takes: bool,
) -> list[QueueError | None]:
    """Acts on each of some messages, inside a turn: what came of them."""
    work = StepQueues(manager, context, queue)
    try:
        if takes:  # before anything is sent that could not be removed then
            manager.groups.check_receiver(work.source.target())
        if target is not None:
            work.queue(*target)
        return [_outcome(work, act, found, message) for found, message in batch]
    finally:
        work.close()


def _outcome(
    work: StepQueues, act: Act, found: ScannedMessage, message: Message
) -> QueueError | None:
    try:
        act(work, found, message)
    except QueueError as error:
        return work.manager.machine.refused(error)
    return None


def _send_again(work: StepQueues, found: ScannedMessage, message: Message, name: str) -> None:
    """Sends and removes in one record."""
    target = work.queue(name, Access.SEND)
    work.manager.returning.send_again(work.source, found.read.lookup_id, target, message)


class BulkAct(NamedTuple):
    """What is done to each message, and what a dry run of it looks at."""

    act: Act
    dry: Act
    target: Target | None = None
    sends: bool = False
    takes: bool = True


def deleting() -> BulkAct:
    """Messages end, as if they had been received."""
    return BulkAct(
        lambda work, found, message: work.delete(found),
        lambda work, found, message: work.require(found),
    )


def moving(to: str, reason: str = "") -> BulkAct:
    """Messages change their queue and stay the same messages; a reason is kept with them."""

    def move(work: StepQueues, found: ScannedMessage, message: Message) -> None:
        target = work.queue(to, Access.MOVE)
        work.manager.messages.move_message(
            work.source, found.read.lookup_id, target, reason=clean(reason)
        )

    trial = Trial()

    def dry(work: StepQueues, found: ScannedMessage, message: Message) -> None:
        trial.move(work.manager, work.source, found.read.lookup_id, to)

    return BulkAct(move, dry, (to, Access.MOVE))


def copying(to: str) -> BulkAct:
    """Copies are sent; the originals stay."""

    def copy(work: StepQueues, found: ScannedMessage, message: Message) -> None:
        target = work.queue(to, Access.SEND)
        send_one(work.manager, target, message, is_transactional(target, message))

    trial = Trial()

    def dry(work: StepQueues, found: ScannedMessage, message: Message) -> None:
        trial.send(work.manager, to, work.context.caller, message)

    return BulkAct(copy, dry, (to, Access.SEND), sends=True, takes=False)


def resending(to: str | None) -> BulkAct:
    """Messages are sent again, each in one record with its end; without `to`, where they went."""

    def resend(work: StepQueues, found: ScannedMessage, message: Message) -> None:
        _send_again(work, found, message, to or message.destination_queue_format_name)

    trial = Trial()

    def dry(work: StepQueues, found: ScannedMessage, message: Message) -> None:
        name, caller = to or message.destination_queue_format_name, work.context.caller
        lookup_id = found.read.lookup_id
        trial.send_again(work.manager, work.source, lookup_id, name, caller, message)

    return BulkAct(resend, dry, None if to is None else (to, Access.SEND), sends=True)


# -- handlers


def delete_messages(context: Context, params: QueueParams, body: SelectBody) -> Steps[BulkJson]:
    """Deletes messages, as if they had been received."""
    return _bulk(context, params.queue, body, deleting())


def move_messages(context: Context, params: QueueParams, body: MoveMessagesBody) -> Steps[BulkJson]:
    """Moves messages to another queue of this machine; they stay the same messages."""
    return _bulk(context, params.queue, body, moving(body.to, body.reason))


def copy_messages(context: Context, params: QueueParams, body: SelectToBody) -> Steps[BulkJson]:
    """Sends copies of messages to any queue; the copies are new messages."""
    return _bulk(context, params.queue, body, copying(body.to))


def resend_messages(context: Context, params: QueueParams, body: ResendBody) -> Steps[BulkJson]:
    """Sends messages again, dead letters for one, and removes them from where they are."""
    return _bulk(context, params.queue, body, resending(body.to))
