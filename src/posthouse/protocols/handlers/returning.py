"""Returns failed messages to the queue where they failed: in one record each, in queue order.

Where a message failed is known from the queue it is in (a subqueue, a queue of dead letters) or
from its headers (NServiceBus, Rebus). A message that cannot go stays, and is listed with its
reason; when a target has no room or does not exist, all others for it stay too, so that none
overtakes another.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from posthouse.api.failures import (
    TARGETS_MAX,
    ReturnBody,
    ReturnJson,
    ReturnTargetJson,
    nothing_returned,
)
from posthouse.api.types import QueueParams
from posthouse.engine.manager import QueueManager
from posthouse.model.bus_addresses import queue_of_address
from posthouse.model.errors import (
    AccessDenied,
    InsufficientResources,
    InvalidParameter,
    MachineQuotaExceeded,
    MessageStorageFailed,
    QueueError,
    QueueNotFound,
    QueueQuotaExceeded,
    RemoteProtocolError,
)
from posthouse.model.filters import Filter
from posthouse.model.message import Message
from posthouse.model.properties import QueueAccessType
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.dry_runs import Trial
from posthouse.protocols.handlers.failed_messages import (
    FailedPages,
    beside_the_loop,
    failed_of,
    is_meant,
)
from posthouse.protocols.handlers.message_json import copy_of
from posthouse.protocols.handlers.move_copy_delete import GONE, ByIds, StepQueues, Tally
from posthouse.protocols.handlers.refusals import error_body
from posthouse.protocols.handlers.request_steps import Steps, at_once
from posthouse.protocols.handlers.scanning import ScannedMessage

TURN_MESSAGES: Final = 100  # that go in one turn: each may be made and sent as a new message
# Refusals that hold for every other message to the same queue, too.
_OF_THE_TARGET: Final = (
    AccessDenied,
    InsufficientResources,
    MachineQuotaExceeded,
    QueueNotFound,
    QueueQuotaExceeded,
)
_UNKNOWN: Final = QueueNotFound(
    "the queue in which these messages failed is not known",
    "Name the queue with --to, or leave them out with --where.",
)


class _Candidate(NamedTuple):
    """A message to return: a copy to send, and the address in its headers."""

    found: ScannedMessage
    copy: Message | QueueError
    address: str


def return_messages(context: Context, params: QueueParams, body: ReturnBody) -> Steps[ReturnJson]:
    """Returns failed messages to the queues where they failed; a page at a time, `next` goes on.

    To NServiceBus' FailedQ, Rebus' rbs2-source-queue, the queue of a subqueue, the destination of a
    dead letter. Each is received and sent in one record. What cannot go stays, with the reason.
    """
    if body.lookup_ids is not None and (body.where or body.group or body.after):
        raise InvalidParameter(
            "choose messages by `where` and `group`, or by `lookup_ids`", "Give one of the two."
        )
    where = None if body.where is None else context.view.filter(body.where)
    with context.services.scans.running(context.caller):
        return (yield from ReturnRun(context, params.queue, body, where).steps())


class ReturnRun:
    """One request."""

    def __init__(
        self, context: Context, queue: str, body: ReturnBody, where: Filter | None
    ) -> None:
        self._context = context
        self._queue = queue
        self._body = body
        self._where = where
        self._trial = Trial()
        self._result = nothing_returned(dry_run=body.dry_run)
        self._rows: dict[tuple[str, int], ReturnTargetJson] = {}
        self._closed: dict[str, QueueError | None] = dict.fromkeys(body.skip)

    def steps(self) -> Steps[ReturnJson]:
        """Looks at messages and returns them, some at a time."""
        if self._body.lookup_ids is None:
            yield from self._page()
        else:
            yield from self._named(self._body.lookup_ids)
        self._result.skip = list(self._closed)
        return self.so_far

    @property
    def so_far(self) -> ReturnJson:
        """What was done, also where an error has ended it."""
        self._result.targets = list(self._rows.values())
        return self._result

    def _page(self) -> Steps[None]:
        pages = FailedPages(self._context, self._queue, QueueAccessType.RECEIVE, self._body.after)
        while not pages.done:
            yield from self._batch((yield from pages.step()))
        self._result.scanned, self._result.next = pages.scanned, pages.next

    def _named(self, lookup_ids: list[int]) -> Steps[None]:
        choice, tally = ByIds(self._context, self._queue, lookup_ids), Tally(self._body.dry_run)
        while (batch := (yield from choice.next(tally))) is not None:
            yield from self._batch(batch)
        self._result.gone += tally.gone
        self._result.scanned = tally.matched

    def _batch(self, batch: list[ScannedMessage]) -> Steps[None]:
        chosen = yield from beside_the_loop(self._context, lambda: self._chosen(batch))
        self._result.matched += len(chosen)
        for at in range(0, len(chosen), TURN_MESSAGES):
            yield from at_once(partial(self._act, chosen=chosen[at : at + TURN_MESSAGES]))
            self._check_targets()
            self._context.services.search_pace.looked()  # that turn was this work's own

    def _check_targets(self) -> None:
        """Ends it before more than a bounded number of queues have to be kept."""
        if len(self._closed) > TARGETS_MAX:
            raise InsufficientResources(
                f"more than {TARGETS_MAX} queues have refused a message; "
                f"{self._result.done} messages were returned before that",
                "Create these queues, name one for all with --to, or choose fewer messages with "
                "--where or --group.",
            )

    def _chosen(self, batch: list[ScannedMessage]) -> list[_Candidate]:
        """Those that are meant, each with what is needed to send it."""
        group, chosen = self._body.group, list[_Candidate]()
        for found in batch:
            if not is_meant(self._context, found, self._where):
                continue
            failed = failed_of(found)
            if group is None or failed.key(similar=group.startswith("s")) == group:
                chosen.append(_Candidate(found, _copy(found), failed.address))
        return chosen

    # -- acting, inside a turn

    def _act(self, manager: QueueManager, chosen: list[_Candidate]) -> None:
        work = StepQueues(manager, self._context, self._queue)
        try:
            for candidate in chosen:
                self._return(work, candidate)
        finally:
            work.close()

    def _return(self, work: StepQueues, candidate: _Candidate) -> None:
        target = ""
        try:
            target = self._target(work, candidate)
            self._check_open(target)
            self._send(work, candidate, target)
        except GONE:
            self._result.gone += 1
        except QueueError as error:
            if target and isinstance(error, _OF_THE_TARGET):
                self._closed.setdefault(target, error)
                self._closed[target] = self._closed[target] or error
            self._add(target, work.manager.machine.refused(error))
        else:
            self._add(target, None)

    def _check_open(self, target: str) -> None:
        """No message goes to a queue that has refused one before it."""
        if target in self._closed:
            raise self._closed[target] or QueueQuotaExceeded(
                f"{target} refused an earlier message",
                "Make room there, and return the messages again.",
            )

    def _target(self, work: StepQueues, candidate: _Candidate) -> str:
        """The name of the queue that a message goes back to."""
        return work.manager.returning.name_of(self._body.to or self._source_of(work, candidate))

    def _source_of(self, work: StepQueues, candidate: _Candidate) -> str:
        returning = work.manager.returning
        queue, number, row = returning.available(work.source, candidate.found.read.lookup_id)
        if name := returning.failed_in(queue, number):
            return name
        if returning.is_undelivered(row) and isinstance(candidate.copy, Message):
            return candidate.copy.destination_queue_format_name
        if not candidate.address:
            raise _UNKNOWN
        return queue_of_address(candidate.address)

    def _send(self, work: StepQueues, candidate: _Candidate, target: str) -> None:
        if isinstance(candidate.copy, QueueError):
            raise candidate.copy
        manager, lookup_id = work.manager, candidate.found.read.lookup_id
        if self._body.dry_run:
            caller = self._context.caller
            self._trial.send_back(manager, work.source, lookup_id, target, caller, candidate.copy)
            return
        descriptor = work.queue(target, QueueAccessType.SEND)
        manager.returning.send_back(work.source, lookup_id, descriptor, candidate.copy)

    def _add(self, target: str, error: QueueError | None) -> None:
        done = error is None and not self._body.dry_run
        self._result.done += done
        self._result.refused += error is not None
        key = target, 0 if error is None else error.code
        if key not in self._rows:
            shown = None if error is None else error_body(error)
            self._rows[key] = ReturnTargetJson(to=target, messages=0, done=0, error=shown)
        self._rows[key].messages += 1
        self._rows[key].done += done


def _copy(found: ScannedMessage) -> Message | QueueError:
    try:
        return copy_of(found.packet)
    except RemoteProtocolError as error:
        return MessageStorageFailed(f"the message {found.read.lookup_id} is damaged: {error}")
