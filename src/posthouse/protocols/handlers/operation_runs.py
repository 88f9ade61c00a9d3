"""Runs operations in the background: steps on the engine like those of a request.

Each step chooses some messages, acts on them in one turn and writes how far it is in the same turn.
A run ends between two steps when it is told to stop; a restart ends it anywhere, and the next run
goes on where the log has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from posthouse.api.failures import ReturnBody, ReturnJson
from posthouse.engine.ledger.order import START, QueuePosition
from posthouse.engine.ledger.records import Row
from posthouse.engine.manager import QueueManager
from posthouse.engine.operations.operations import DONE, FAILED, RUNNING, STOPPED, Operation
from posthouse.model.bounded_tables import has_share
from posthouse.model.errors import InsufficientResources, QueueError
from posthouse.model.message import Message
from posthouse.model.properties import QueueAccessType
from posthouse.protocols.engine_calls import Desk
from posthouse.protocols.handlers.audit_trail import Act
from posthouse.protocols.handlers.context import Context, Unbounded
from posthouse.protocols.handlers.move_copy_delete import (
    BulkAct,
    ByIds,
    StepQueues,
    Tally,
    act_on,
    copying,
    deleting,
    moving,
    prepared,
    resending,
)
from posthouse.protocols.handlers.refusals import OperationState, error_body
from posthouse.protocols.handlers.request_steps import Conversation, Steps, at_once
from posthouse.protocols.handlers.returning import ReturnRun
from posthouse.protocols.handlers.scanning import Scan, ScannedMessage, examined
from posthouse.security.accounts import user_key

RUNNING_MAX: Final = 4
SAMPLE_MAX: Final = 20
ALL: Final = "priority >= 0"


class OperationRunner:
    """Starts and stops runs; `RUNNING_MAX` at a time, of which a user alone gets half."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._runs: dict[int, OperationRun] = {}

    def require_room(self, user: str) -> None:
        """Refuses where one more run is too many, in all or of this user."""
        own = sum(
            user_key(run.context.caller.name) == user_key(user) for run in self._runs.values()
        )
        if has_share(own, len(self._runs), RUNNING_MAX):
            return
        raise InsufficientResources(
            f"{len(self._runs)} of {RUNNING_MAX} operations that may run at a time are running, "
            f"{own} of this user",
            "Wait for one to end, or stop one: posthouse operation stop N.",
        )

    def reserve(self, operation: Operation, context: Context) -> None:
        """Takes a place for a run with the rights of a caller, in the turn that allows it.

        Others may ask before that turn is durable: they count with it.
        """
        self.require_room(context.caller.name)
        if operation.run is not None:
            raise OperationState(f"the operation {operation.number} is running")
        own = replace(context, memory=Unbounded(), outflow=None, inflow=None, association=None)
        operation.run = self._runs[operation.number] = OperationRun(operation, own)
        operation.progress.state = RUNNING

    def start(self, operation: Operation) -> None:
        """Works on an operation that has a place, from now on."""
        run = self._runs[operation.number]

        def finish(value: object, error: Exception | None) -> None:
            del self._runs[operation.number]
            operation.run = None
            if error is not None and not isinstance(error, QueueError):
                run.context.services.fault(error)
            _tell_end(operation, run.context)

        Conversation(self._desk, run.steps(), finish).start()

    def stop(self, operation: Operation) -> None:
        """Ends a run between two steps."""
        run = self._runs.get(operation.number)
        if run is not None:
            run.stopping = True

    def stop_of(self, token_ids: list[str]) -> None:
        """Ends the runs that were begun with these tokens: they are good for nothing now."""
        for run in self._runs.values():
            if run.context.token_id in token_ids:
                run.stopping = True

    def is_stopping(self, operation: Operation) -> bool:
        """Whether its run ends soon."""
        run = self._runs.get(operation.number)
        return run is not None and run.stopping


def _tell_end(operation: Operation, context: Context) -> None:
    """An entry of the audit log: what came of it in the end."""
    what, far = operation.definition, operation.progress
    if what.dry_run:
        return
    act = Act(
        context.caller.name,
        context.role.value,
        context.token_id,
        context.address or "local",
        "operation_ended",
        {"operation": what.number, "act": what.act, "queue": what.queue, "to": what.to},
    )
    result = {"matched": far.matched, "done": far.done, "gone": far.gone, "refused": far.refused}
    context.services.audit.end(act, operation.state, far.error, result, lambda: None)


@dataclass
class OperationRun:
    """One run of one operation."""

    operation: Operation
    context: Context
    stopping: bool = False

    def steps(self) -> Steps[None]:
        """All of it, and the state that it ends in."""
        progress = self.operation.progress
        try:
            if self.operation.definition.act == "return":
                yield from self._return()
            else:
                yield from self._act()
            progress.state = STOPPED if self.stopping else DONE
        except QueueError as error:
            progress.state, progress.error = FAILED, _words(error)
        yield from at_once(self._save)

    def _save(self, manager: QueueManager) -> None:
        """Writes how far it has come; it ends here if its token has expired."""
        if self.context.services.tokens.is_over(self.context.token_id):
            self.stopping = True
        manager.operations.save(self.operation)

    # -- move, copy, delete, resend

    def _act(self) -> Steps[None]:
        what = self.operation.definition
        bulk = self._bulk()
        if what.lookup_ids:
            yield from self._by_ids(bulk, what.lookup_ids)
        else:
            yield from self._by_filter(bulk)

    def _bulk(self) -> BulkAct:
        what = self.operation.definition
        if what.act == "move":
            return moving(what.to)
        if what.act == "copy":
            return copying(what.to)._replace(act=self._copy)
        return deleting() if what.act == "delete" else resending(what.to or None)

    def _copy(self, work: StepQueues, found: ScannedMessage, message: Message) -> None:
        """A copy, written down together with its place."""
        place = f"{found.place.priority}-{found.place.lookup_id}"
        if self.operation.definition.lookup_ids:
            place = str(self.operation.definition.lookup_ids.index(found.read.lookup_id) + 1)
        target = work.queue(self.operation.definition.to, QueueAccessType.SEND)
        work.manager.operations.copy(self.operation, target, message, place)

    def _by_filter(self, bulk: BulkAct) -> Steps[None]:
        what, progress = self.operation.definition, self.operation.progress
        where = self.context.view.filter(what.where or ALL)

        def is_old(row: Row) -> bool:
            return row.lookup_id < what.ceiling

        scan = Scan(
            self.context,
            what.queue,
            place=_position(progress.place),
            access=QueueAccessType.RECEIVE,
            wanted=is_old,
        )
        while not scan.done and not self.stopping:
            batch = yield from scan.step()
            scan.given_back()
            matching = yield from examined(self.context, batch, where)
            pairs = zip(batch, matching, strict=True)
            chosen = [found for found, message in pairs if message is not None]
            place = f"{scan.place.priority}-{scan.place.lookup_id}"
            yield from self._step(bulk, chosen, len(chosen), len(batch), 0, place)

    def _by_ids(self, bulk: BulkAct, lookup_ids: tuple[int, ...]) -> Steps[None]:
        progress = self.operation.progress
        begin = int(progress.place or 0)
        choice = ByIds(self.context, self.operation.definition.queue, list(lookup_ids[begin:]))
        while not self.stopping:
            tally = Tally(False)
            batch = yield from choice.next(tally)
            if batch is None:
                return
            place = str(len(lookup_ids) - choice.left)
            looked = tally.matched + tally.gone
            yield from self._step(bulk, batch, tally.matched, looked, tally.gone, place)

    def _step(
        self,
        bulk: BulkAct,
        chosen: list[ScannedMessage],
        matched: int,
        scanned: int,
        gone: int,
        place: str,
    ) -> Steps[None]:
        """Acts on some messages in one turn, which also has how far that is."""
        what, progress = self.operation.definition, self.operation.progress
        tally = Tally(what.dry_run)
        work = prepared(chosen, bulk, tally)
        act, target = (bulk.dry, None) if what.dry_run else (bulk.act, bulk.target)
        counts_itself = what.act == "copy" and not what.dry_run

        def step(manager: QueueManager) -> None:
            queue, takes = what.queue, bulk.takes
            for outcome in act_on(manager, self.context, queue, act, work, target, takes):
                tally.add(outcome)
            progress.place = place
            progress.scanned += scanned
            progress.matched += matched
            progress.gone += tally.gone + gone
            progress.refused += tally.refused
            progress.done += 0 if counts_itself else tally.done
            if tally.error is not None and not progress.error:
                progress.error = f"{tally.error.name}: {tally.error.cause}"[:300]
            if what.dry_run:
                room = SAMPLE_MAX - len(progress.sample)
                progress.sample += [found.read.lookup_id for found in chosen[:room]]
            self._save(manager)

        yield from at_once(step)

    # -- return to source

    def _return(self) -> Steps[None]:
        """Page by page, as the command does it."""
        what, progress = self.operation.definition, self.operation.progress
        where = self.context.view.filter(what.where) if what.where else None
        begin = None if what.lookup_ids else f"{START.priority}-{START.lookup_id}-{what.ceiling}"
        while not self.stopping:
            body = ReturnBody(
                lookup_ids=list(what.lookup_ids) or None,
                group=what.group or None,
                to=what.to or None,
                after=progress.place or begin,
                skip=progress.skip,
                dry_run=what.dry_run,
            )
            run = ReturnRun(self.context, what.queue, body, where)
            try:
                page = yield from run.steps()
            except QueueError:
                self._count(run.so_far)
                raise
            self._count(page)
            progress.skip, progress.place = page.skip, page.next or ""
            yield from at_once(self._save)
            if page.next is None:
                self.stopping = False  # all of it is done, even if it was to stop
                return

    def _count(self, page: ReturnJson) -> None:
        progress = self.operation.progress
        progress.scanned += page.scanned
        progress.matched += page.matched
        progress.done += page.done
        progress.gone += page.gone
        progress.refused += page.refused
        errors = [one.error for one in page.targets if one.error is not None]
        if errors and not progress.error:
            progress.error = f"{errors[0].name}: {errors[0].cause}"[:300]


def _position(place: str) -> QueuePosition:
    if not place:
        return START
    priority, lookup_id = map(int, place.split("-"))
    return QueuePosition(priority, lookup_id)


def _words(error: QueueError) -> str:
    shown = error_body(error)
    return f"{shown.name}: {shown.cause}"[:300]
