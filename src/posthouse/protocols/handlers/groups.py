"""Named groups: list, show, lease, claim, acknowledge, release, set, delete."""

from __future__ import annotations

from typing import Any

from posthouse.api.groups import (
    AcknowledgeBody,
    AcknowledgedJson,
    Begin,
    ClaimBody,
    GroupJson,
    GroupListJson,
    GroupParams,
    GroupsParams,
    LeaseBody,
    PositionBody,
    QueueGroupsParams,
    ReleaseBody,
    ReleasedJson,
)
from posthouse.api.types import Done, Nothing
from posthouse.engine.manager import QueueManager
from posthouse.engine.pipelines.claims import ClaimRange
from posthouse.engine.queues.queue import Acknowledging, Group, Queue
from posthouse.model.errors import InvalidParameter
from posthouse.model.group_names import GroupMode
from posthouse.model.message_json import time_text
from posthouse.model.properties import QueueAccessType
from posthouse.protocols.handlers.context import Context, find_queue
from posthouse.protocols.handlers.refusals import NoSuchGroup
from posthouse.protocols.handlers.request_steps import Decide, Steps, looked_at
from posthouse.security.rights import GET_QUEUE_PROPERTIES

_ACCESS = {
    GroupMode.CONSUME: QueueAccessType.RECEIVE,
    GroupMode.OBSERVE: QueueAccessType.PEEK,
}


# -- looking


def list_groups(
    manager: QueueManager, context: Context, params: GroupsParams, body: Nothing
) -> GroupListJson:
    """Lists the groups of all queues that the caller may look at."""
    found = [group for group in manager.groups.all() if _is_seen(manager, context, group.queue)]
    end = params.offset + params.limit
    return GroupListJson(
        groups=[group_json(manager, group) for group in found[params.offset : end]],
        next=end if len(found) > end else None,
    )


def _is_seen(manager: QueueManager, context: Context, queue: Queue) -> bool:
    return manager.queues.guard(queue).allows(context.caller, GET_QUEUE_PROPERTIES)


def list_queue_groups(
    manager: QueueManager, context: Context, params: QueueGroupsParams, body: Nothing
) -> GroupListJson:
    """Lists the groups of a queue."""
    queue = _seen(manager, context, params.queue)
    return GroupListJson(groups=groups_json(manager, queue), next=None)


def show_group(
    manager: QueueManager, context: Context, params: GroupParams, body: Nothing
) -> GroupJson:
    """Shows a group: position, claims, lease, lag, and what became of messages without it."""
    return group_json(manager, _group(_seen(manager, context, params.queue), params.group))


def _seen(manager: QueueManager, context: Context, name: str) -> Queue:
    queue = find_queue(manager, name)
    if queue.outgoing is not None:
        context.require_administrator()
    else:
        manager.queues.guard(queue).require(context.caller, GET_QUEUE_PROPERTIES)
    return queue


def _group(queue: Queue, name: str) -> Group:
    group = queue.groups.get(name)
    if group is None:
        raise NoSuchGroup(
            f"{queue.name} has no group {name}",
            f"`posthouse group list '{queue.name}'` shows the groups of the queue.",
        )
    return group


def groups_json(manager: QueueManager, queue: Queue) -> list[GroupJson]:
    """The groups of a queue, by name."""
    return [group_json(manager, group) for _, group in sorted(queue.groups.items())]


def group_json(manager: QueueManager, group: Group) -> GroupJson:
    """A group as the API shows it."""
    return GroupJson(**_values(manager, group))


def _values(manager: QueueManager, group: Group) -> dict[str, Any]:
    groups, definition = manager.groups, group.definition
    lag, elsewhere = groups.lag(group), groups.elsewhere(group)
    return {
        "name": group.name,
        "queue": group.queue.name,
        "mode": definition.mode.value,
        "position": definition.position,
        "claim_after": group.begin if group.has_claims else definition.position,
        "claimed": max(definition.claimed, definition.position),
        "claimed_messages": groups.claimed_messages(group),
        "stream": definition.stream if group.has_claims else "",
        "epoch": definition.epoch,
        "owner": definition.owner,
        "leased": groups.is_leased(group),
        "lease_left_ms": groups.lease_left_ms(group),
        "lag_messages": lag.messages,
        "lag_bytes": lag.bytes,
        "acknowledged": definition.acknowledged,
        "received_elsewhere": elsewhere.received,
        "expired": elsewhere.expired,
        "purged": elsewhere.purged,
        "moved_away": elsewhere.moved_away,
        "created_time": time_text(definition.create_time),
        "last_time": time_text(definition.last_time),
    }


# -- readers


def lease_group(
    manager: QueueManager, context: Context, params: GroupParams, body: LeaseBody
) -> GroupJson:
    """Gives the group to a reader for 15 s, or for another 15 s; a new group is made.

    While a consuming group is leased no other reader receives from its queue. A reader renews the
    lease with its epoch; a reader with an older epoch is refused from then on. A reader that ends
    announces it with `end`; what it has claimed stays claimed.
    """
    mode = GroupMode(body.mode)
    queue = _usable(manager, context, params.queue, mode)
    if body.epoch is not None:
        group = _group(queue, params.group)
        if body.end:
            manager.groups.end_lease(group, body.epoch)
            return group_json(manager, group)
    elif body.end:
        raise InvalidParameter("only the reader that holds a lease can end it", "Give its epoch.")
    group = manager.groups.lease(
        queue,
        params.group,
        mode,
        body.owner,
        epoch=body.epoch,
        position=_position(manager, queue, "earliest" if body.position is None else body.position),
        user=context.caller.sid,
    )
    return group_json(manager, group)


def _usable(manager: QueueManager, context: Context, name: str, mode: GroupMode) -> Queue:
    """The queue, for somebody who may do there what the group does."""
    queue, access = find_queue(manager, name), _ACCESS[mode]
    manager.queues.require(queue, context.caller, access)
    return queue


def _position(manager: QueueManager, queue: Queue, begin: Begin) -> int:
    if begin == "latest":
        return manager.groups.last_id()
    return manager.groups.earliest(queue) if begin == "earliest" else begin


def _own(manager: QueueManager, context: Context, params: GroupParams) -> Group:
    """A group, for somebody who may do what it does."""
    group = _group(find_queue(manager, params.queue), params.group)
    _usable(manager, context, params.queue, group.definition.mode)
    return group


def claim_messages(
    manager: QueueManager, context: Context, params: GroupParams, body: ClaimBody
) -> GroupJson:
    """Claims messages, durably: no other reader gets them until they are acknowledged or released.

    Messages that the group has not acknowledged and that lie below `after` refuse the claim: its
    reader has not read them. So does the claim of another stream, unless all of it is read again.
    """
    group = _own(manager, context, params)
    if body.incarnation:
        manager.machine.check_incarnation(body.incarnation, body.through)
    asked = ClaimRange(body.through, body.after, body.stream, body.skip)
    manager.groups.claim(group, body.epoch, asked)
    return group_json(manager, group)


def acknowledge_messages(
    context: Context, params: GroupParams, body: AcknowledgeBody
) -> Steps[AcknowledgedJson]:
    """Acknowledges claimed messages: they are received, in commits of at most 8 MiB.

    What lies below the claim is not received, and what another stream has claimed is refused.
    Answered when the last of them is durable. What is acknowledged already may be so again. Without
    an epoch it is for a reader that has ended, and refused while the group is leased.
    """
    begun: list[Acknowledging] = []

    def begin(manager: QueueManager) -> None:
        group = _own(manager, context, params)
        begun.append(manager.groups.acknowledge(group, body.epoch, body.through, body.stream))

    yield Decide(begin)
    (work,) = begun
    return (
        yield from looked_at(
            lambda manager: AcknowledgedJson(**_values(manager, work.group), received=work.received)
        )
    )


# -- operators


def release_group(
    manager: QueueManager, context: Context, params: GroupParams, body: ReleaseBody
) -> ReleasedJson:
    """Ends lease and claims of a group whose reader is lost; its messages are anybody's again."""
    group = _own(manager, context, params)
    released = manager.groups.release(group, body.stream)
    context.tell(
        manager, "group_released", queue=group.queue.name, group=group.name, messages=released
    )
    return ReleasedJson(**_values(manager, group), released=released)


def set_group(
    manager: QueueManager, context: Context, params: GroupParams, body: PositionBody
) -> GroupJson:
    """Sets the position of a group that has no reader and no claims."""
    group = _own(manager, context, params)
    manager.groups.set_position(group, _position(manager, group.queue, body.position))
    context.tell(
        manager,
        "group_set",
        queue=group.queue.name,
        group=group.name,
        position=group.definition.position,
    )
    return group_json(manager, group)


def delete_group(
    manager: QueueManager, context: Context, params: GroupParams, body: Nothing
) -> Done:
    """Deletes a group that has no reader and no claims; messages stay."""
    group = _own(manager, context, params)
    manager.groups.delete(group)
    context.tell(manager, "group_deleted", queue=group.queue.name, group=group.name)
    return Done()
