"""Messages on a lease: received in two steps by clients in any language, over HTTP.

A lease locks messages for its caller. The caller ends it when the work is done, and they are
removed; a caller that goes away loses the lease when its time is over, and they are available
again. One who is gone before the answer leaves gets none. Leases are in memory: after a restart of
the queue manager the messages are available.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from posthouse.api.leases import (
    LeasedJson,
    LeaseEndBody,
    LeaseJson,
    LeaseParams,
    LeaseRenewBody,
    TakeBody,
)
from posthouse.api.types import QueueParams, ReceiveBody
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.model.errors import InvalidHandle, InvalidParameter
from posthouse.model.properties import QueueAccessType
from posthouse.protocols.handlers.context import Context, Unbounded, open_queue
from posthouse.protocols.handlers.lease_table import Lease
from posthouse.protocols.handlers.messages import Receive, received
from posthouse.protocols.handlers.request_steps import Decide, Present, Steps


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
        ends = manager.machine.now_ms + body.lease_s * 1000
        lease = Lease(context.caller.sid, receive.descriptor, list(receive.taken), ends)
        return context.services.leases.add(manager, lease)

    try:
        found = yield from received(context, receive)
        if found.messages:
            made = str((yield Decide(begin)).value)
    finally:
        if not made and receive.descriptor is not None:
            yield Decide(receive.close)
    if made and not (yield Present()).value:
        yield Decide(lambda manager: context.services.leases.forget(manager, made))
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
    """Renews a lease: its messages stay locked for this long from now on."""
    lease = context.services.leases.find(manager, context.caller.sid, params.id)
    manager.queues.check_rights_of_now(lease.descriptor, context.caller)
    lease.ends_ms = manager.machine.now_ms + body.lease_s * 1000
    return LeaseJson(lease=params.id, left=lease.lookup_ids, lease_s=body.lease_s)
