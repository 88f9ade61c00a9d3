"""Operations over the API: begin, list, show, stop, resume, forget."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from posthouse.api.operations import (
    ForgottenJson,
    OperationBody,
    OperationJson,
    OperationListJson,
    OperationParams,
)
from posthouse.api.types import Nothing
from posthouse.engine.manager import QueueManager
from posthouse.engine.operations.operations import Operation
from posthouse.engine.queues.queue import Queue
from posthouse.model.errors import InvalidParameter, QueueError
from posthouse.model.message_json import time_text
from posthouse.model.properties import QueueAccessType
from posthouse.protocols.handlers.context import Context, find_queue, opened
from posthouse.protocols.handlers.dry_runs import targets
from posthouse.protocols.handlers.refusals import NoSuchOperation, OperationState
from posthouse.protocols.handlers.request_steps import Steps, at_once
from posthouse.protocols.handlers.scanning import is_peekable
from posthouse.security.accounts import user_key

_NEEDS_TO = {"move": QueueAccessType.MOVE, "copy": QueueAccessType.SEND}


def begin_operation(context: Context, params: Nothing, body: OperationBody) -> Steps[OperationJson]:
    """Begins work on many messages, which the server does by itself; the answer does not wait.

    Rights are those of the caller, looked at again in each step. Messages that come later are left
    alone. Begun again under the same `key`, it is answered by the operation that there is.
    """
    _check(context, body)
    key, asked, user = body.key or "", _digest(body), context.caller.name

    def begin(manager: QueueManager) -> tuple[Operation, bool]:
        if (before := manager.operations.begun(user, key, asked)) is not None:
            return before, False
        context.services.operations.require_room(user)
        queue = _source(manager, context, body.act, body.queue, body.to)
        operation = manager.operations.create(
            body.act,
            queue.name,
            to=body.to or "",
            where=body.where or "",
            lookup_ids=tuple(dict.fromkeys(body.lookup_ids or ())),
            group=body.group or "",
            dry_run=body.dry_run,
            user=user,
            total=queue.state.count,
            key=key,
            asked=asked,
        )
        context.services.operations.reserve(operation, context)
        context.tell(manager, "operation_begun", operation=operation.number, act=body.act)
        return operation, True

    operation, is_new = yield from at_once(begin)
    if is_new:
        context.services.operations.start(operation)
    return _json(context, operation)


def _source(manager: QueueManager, context: Context, act: str, queue: str, to: str | None) -> Queue:
    """Return the queue of an operation; refuse a caller who may not do there what it does."""
    with opened(manager, queue, QueueAccessType.RECEIVE, context) as descriptor:
        found = descriptor.target()
    if to is not None:
        targets(manager, to, _NEEDS_TO.get(act, QueueAccessType.SEND), context.caller)
    return found


def _digest(body: OperationBody) -> bytes:
    """What a request asks for, its key apart."""
    return sha256(msgspec.json.encode(msgspec.structs.replace(body, key=None))).digest()[:16]


def _check(context: Context, body: OperationBody) -> None:
    if body.act in _NEEDS_TO and body.to is None:
        raise InvalidParameter(f"{body.act} needs a queue", "Name it in `to`.")
    if body.act == "delete" and body.to is not None:
        raise InvalidParameter("delete takes no `to`")
    if body.group is not None and body.act != "return":
        raise InvalidParameter("`group` is only for `return`")
    if body.lookup_ids is not None and (body.where is not None or body.group is not None):
        raise InvalidParameter(
            "choose messages by `where` and `group`, or by `lookup_ids`", "Give one of the two."
        )
    if body.where is not None:
        context.view.filter(body.where)


def _own(manager: QueueManager, context: Context, operation: Operation) -> bool:
    """Administrators see all of them, others their own; a token for some queues those of them."""
    caller, what = context.caller, operation.definition
    if caller.is_administrator and caller.scopes is None:
        return True
    if user_key(what.user) != user_key(caller.name):
        return False
    if caller.scopes is None:
        return True
    try:
        return is_peekable(manager, context, find_queue(manager, what.queue))
    except QueueError:  # the queue is deleted
        return False


def _find(manager: QueueManager, context: Context, number: int) -> Operation:
    found = [one for one in manager.operations.all() if one.number == number]
    if not found or not _own(manager, context, found[0]):
        raise NoSuchOperation(f"there is no operation {number}")
    return found[0]


def _find_to_change(manager: QueueManager, context: Context, number: int) -> Operation:
    """Find an operation that the caller may stop, resume and forget.

    A token for some queues has to be able to begin it: forgotten, it could be begun again by the
    program that it belongs to, and be done twice.
    """
    found = _find(manager, context, number)
    if context.caller.scopes is not None:
        what = found.definition
        _source(manager, context, what.act, what.queue, what.to or None)
    return found


def _json(context: Context, operation: Operation) -> OperationJson:
    what, far = operation.definition, operation.progress
    stopping = context.services.operations.is_stopping(operation)
    return OperationJson(
        id=what.number,
        act=what.act,
        queue=what.queue,
        to=what.to,
        where=what.where if context.view.shows_content else None,
        lookup_ids=len(what.lookup_ids),
        group=what.group,
        dry_run=what.dry_run,
        user=what.user,
        state="stopping" if stopping else operation.state,
        begun_time=time_text(what.begun),
        changed_time=time_text(far.changed),
        total=len(what.lookup_ids) or what.total,
        scanned=far.scanned,
        matched=far.matched,
        done=far.done,
        gone=far.gone,
        refused=far.refused,
        error=far.error,
        sample=list(far.sample),
    )


def list_operations(
    manager: QueueManager, context: Context, params: Nothing, body: Nothing
) -> OperationListJson:
    """Lists operations, the newest first: administrators see all, others their own.

    A token for some queues sees operations of these queues only.
    """
    found = [one for one in manager.operations.all() if _own(manager, context, one)]
    return OperationListJson(operations=[_json(context, one) for one in reversed(found)])


def show_operation(
    manager: QueueManager, context: Context, params: OperationParams, body: Nothing
) -> OperationJson:
    """Shows an operation: what was asked for, and how far it has come."""
    return _json(context, _find(manager, context, params.operation))


def stop_operation(
    manager: QueueManager, context: Context, params: OperationParams, body: Nothing
) -> OperationJson:
    """Stops an operation after the step it is in; nothing is lost, and it can be resumed."""
    operation = _find_to_change(manager, context, params.operation)
    if operation.state != "running":
        raise OperationState(f"the operation {params.operation} is {operation.state}")
    context.services.operations.stop(operation)
    return _json(context, operation)


def resume_operation(
    context: Context, params: OperationParams, body: Nothing
) -> Steps[OperationJson]:
    """Goes on with an operation where it was, with the rights of the caller."""

    def resume(manager: QueueManager) -> Operation:
        operation = _find_to_change(manager, context, params.operation)
        if operation.state in ("running", "done"):
            raise OperationState(f"the operation {params.operation} is {operation.state}")
        context.services.operations.reserve(operation, context)
        return operation

    operation = yield from at_once(resume)
    context.services.operations.start(operation)
    return _json(context, operation)


def forget_operation(
    manager: QueueManager, context: Context, params: OperationParams, body: Nothing
) -> ForgottenJson:
    """Forgets an operation that does not run; what it did stays done."""
    operation = _find_to_change(manager, context, params.operation)
    if operation.state == "running":
        raise OperationState(f"the operation {params.operation} is running", "Stop it first.")
    manager.operations.forget(operation)
    return ForgottenJson(operation.definition.dry_run)
