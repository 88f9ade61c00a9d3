"""Messages on a lease: received in two steps by clients in any language, over HTTP.

A lease locks messages for its caller. The caller ends it when the work is done, and they are
removed; a caller that goes away loses the lease when its time is over, and they are available
again. So does a caller whose token is revoked or expires, or whose user changes. One who is gone
before the answer leaves gets none. Leases are in memory: after a restart of the queue manager the
messages are available.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from posthouse.api.leases import (
    HeldLeaseJson,
    LeasedJson,
    LeaseEndBody,
    LeaseJson,
    LeaseListJson,
    LeaseParams,
    LeaseReleasedJson,
    LeaseRenewBody,
    LeasesParams,
    TakeBody,
)
from posthouse.api.types import Nothing, QueueParams, ReceiveBody
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.model.errors import AccessDenied, InvalidHandle, InvalidParameter
from posthouse.model.message_json import time_text
from posthouse.model.properties import QueueAccessType
from posthouse.protocols.handlers.context import Context, Unbounded, find_queue, open_queue
from posthouse.protocols.handlers.lease_table import Lease
from posthouse.protocols.handlers.messages import Receive, received
from posthouse.protocols.handlers.request_steps import Decide, Present, Steps
from posthouse.security.accounts import user_key
from posthouse.security.rights import RECEIVE_MESSAGE

LISTED_MAX: Final = 1000


class LeasedReceive(Receive):
    """The steps of a receive that keeps the queue open: closing it would return the messages."""

    two_phase = True

    @contextmanager
    def opened(self, manager: QueueManager) -> Iterator[OpenQueueDescriptor]:
        """The queue, opened once."""
        if self.descriptor is None:
            context = self.context
            context.services.leases.expire(manager)
            context.services.leases.check_room(context.caller.sid)
            # What belongs to the request goes with it: the lease may last an hour.
            lasting = replace(
                context, memory=Unbounded(), outflow=None, inflow=None, association=None
            )
            self.descriptor = open_queue(manager, self.queue, QueueAccessType.RECEIVE, lasting)
        yield self.descriptor


def lease_messages(context: Context, params: QueueParams, body: TakeBody) -> Steps[LeasedJson]:
    """Takes messages on a lease: others do not get them until it is ended or its time is over.

    End it with `POST /leases/{id}/end` when the work is done: then they are removed. If you do not,
    they are available again. No message in time is an empty list.
    """
    wanted = ReceiveBody(count=body.count, timeout_ms=body.timeout_ms, decode=body.decode)
    receive = LeasedReceive(context, params.queue, wanted)
    made = ""

    def begin(manager: QueueManager) -> str:
        assert receive.descriptor is not None
        if context.services.tokens.is_over(context.token_id):
            raise AccessDenied("the token was revoked, or has expired")
        ends = manager.machine.now_ms + body.lease_s * 1000
        lease = Lease(
            *(context.caller.sid, receive.descriptor, list(receive.taken), ends),
            token_id=context.token_id,
        )
        return context.services.leases.add(manager, lease)

    def give_back(manager: QueueManager) -> None:
        if context.services.leases.has(made):  # its token may be over by now
            context.services.leases.forget(manager, made)

    try:
        found = yield from received(context, receive)
        if found.messages:
            made = str((yield Decide(begin)).value)
    finally:
        if not made and receive.descriptor is not None:
            yield Decide(receive.close)
    if made and not (yield Present()).value:
        yield Decide(give_back)
        made = ""
    return LeasedJson(
        messages=found.messages,
        reason=found.reason,
        lease=made,
        lease_s=body.lease_s if made else 0,
    )


def end_lease(
    manager: QueueManager, context: Context, params: LeaseParams, body: LeaseEndBody
) -> LeaseJson:
    """Ends a lease, or some of its messages: they are removed, or available again.

    If the answer is lost, ask again: the end of a whole lease gets the same answer.
    """
    leases = context.services.leases
    if (before := leases.answered(context.caller.sid, params.id)) is not None:
        outcome, answer = before
        if outcome != body.outcome:
            raise InvalidHandle(f"the lease has ended: its messages were {outcome}")
        return answer
    lease = leases.find(manager, context.caller.sid, params.id)
    ids = lease.lookup_ids if body.lookup_ids is None else body.lookup_ids
    strange = sorted(set(ids) - set(lease.lookup_ids))
    if strange:
        raise InvalidParameter(
            f"the lease does not have the message {strange[0]}",
            "Name lookup ids that the lease has, and that you have not ended yet.",
        )
    manager.queues.check_rights_of_now(lease.descriptor, context.caller)
    manager.messages.dequeue_messages_end(
        lease.descriptor, sorted(set(ids)), positive=body.outcome == "received"
    )
    lease.lookup_ids = [one for one in lease.lookup_ids if one not in ids]
    answer = LeaseJson(lease=params.id, ended=len(set(ids)), left=lease.lookup_ids)
    if not lease.lookup_ids:
        leases.end(manager, params.id, body.outcome, answer)
    return answer


def renew_lease(
    manager: QueueManager, context: Context, params: LeaseParams, body: LeaseRenewBody
) -> LeaseJson:
    """Renews a lease: its messages stay locked for this long from now on.

    It ends with the token of this call, so a program can change its token meanwhile.
    """
    lease = context.services.leases.find(manager, context.caller.sid, params.id)
    manager.queues.check_rights_of_now(lease.descriptor, context.caller)
    lease.ends_ms = manager.machine.now_ms + body.lease_s * 1000
    lease.token_id = context.token_id
    return LeaseJson(lease=params.id, left=lease.lookup_ids, lease_s=body.lease_s)


# -- operators


def list_leases(
    manager: QueueManager, context: Context, params: LeasesParams, body: Nothing
) -> LeaseListJson:
    """Lists leases, the oldest first: administrators see all, others their own.

    A token for some queues sees leases of these queues only.
    """
    context.services.leases.expire(manager)
    queue = None if params.queue is None else find_queue(manager, params.queue)
    user = None if params.user is None else user_key(params.user)
    found = [
        (key, lease)
        for key, lease in context.services.leases.all()
        if (queue is None or lease.descriptor.queue is queue)
        and (user is None or user_key(lease.descriptor.caller.name) == user)
        and _is_shown(manager, context, lease)
    ]
    shown = [_held_json(manager, key, lease) for key, lease in found[:LISTED_MAX]]
    return LeaseListJson(leases=shown, left_out=len(found) - len(shown))


def _is_shown(manager: QueueManager, context: Context, lease: Lease) -> bool:
    caller, queue = context.caller, lease.descriptor.queue
    if caller.scopes is None:
        return caller.is_administrator or lease.sid == caller.sid
    reached = queue is not None and manager.queues.guard(queue).allows(caller, RECEIVE_MESSAGE)
    return reached and lease.sid == caller.sid


def _held_json(manager: QueueManager, key: str, lease: Lease) -> HeldLeaseJson:
    queue = lease.descriptor.queue
    left_s = (lease.ends_ms - manager.machine.now_ms) // 1000
    return HeldLeaseJson(
        lease=key,
        user=lease.descriptor.caller.name,
        token=lease.token_id,
        queue="" if queue is None else queue.name,
        messages=len(lease.lookup_ids),
        ends_time=time_text(manager.machine.utc + left_s),
    )


def release_lease(
    manager: QueueManager, context: Context, params: LeaseParams, body: Nothing
) -> LeaseReleasedJson:
    """Takes a lease away from its holder: its messages are available again.

    Administrators may do so with any lease, others with their own. The holder may have worked on
    the messages, so they count as tried once more.
    """
    leases = context.services.leases
    leases.expire(manager)
    lease = dict(leases.all()).get(params.id)
    if lease is None or not _is_shown(manager, context, lease):
        raise InvalidHandle(
            "there is no such lease: it has ended, or its time is over",
            "`posthouse lease list` shows the leases that there are.",
        )
    user, messages = lease.descriptor.caller.name, len(lease.lookup_ids)
    leases.forget(manager, params.id, in_doubt=True)
    context.tell(manager, "lease_released", user=user, messages=messages)
    return LeaseReleasedJson(lease=params.id, messages=messages)
