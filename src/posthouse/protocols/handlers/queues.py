"""Queues: create, list, show, set, delete, purge, pause, resume, retry, and who may do what."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from posthouse.api.access import AccessEntryJson, AccessJson, AccessSetBody, GrantBody, RevokeBody
from posthouse.api.transfer import ResetJson, ResetParams, SequencesJson
from posthouse.api.types import (
    CountJson,
    Done,
    DryRunParams,
    HolderJson,
    Nothing,
    Privacy,
    QueueCreateBody,
    QueueJson,
    QueueListJson,
    QueueParams,
    QueueSetBody,
    QueuesParams,
)
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue, QueueRole, QueueType
from posthouse.model.errors import UnsupportedOperation
from posthouse.model.guids import NULL_GUID, format_guid, parse_guid
from posthouse.model.message_json import time_text
from posthouse.model.names import PrivateName, PublicName
from posthouse.model.properties import UNLIMITED, QueueAccessType, QueueProperties
from posthouse.protocols.handlers.context import Context, find_queue, opened
from posthouse.protocols.handlers.groups import groups_json
from posthouse.protocols.handlers.queue_pages import paged
from posthouse.protocols.handlers.request_steps import Steps
from posthouse.protocols.handlers.transfer_json import (
    connections_json,
    incoming_json,
    outgoing_json,
    sequences_json,
    state_word,
)
from posthouse.security.descriptors import SecurityDescriptor, entries
from posthouse.security.rights import (
    DELETE_QUEUE,
    GET_QUEUE_PERMISSIONS,
    GET_QUEUE_PROPERTIES,
    parse_rights,
    rights_words,
)
from posthouse.security.sids import PRINCIPALS, format_sid, parse_sid, principal_word

_PRIVACY: tuple[Privacy, ...] = ("none", "optional", "body")
_ALWAYS = frozenset({QueueRole.PLAIN, QueueRole.SUBQUEUE, QueueRole.CONNECTOR})


# -- looking


def list_queues(context: Context, params: QueuesParams, body: Nothing) -> Steps[QueueListJson]:
    """Lists the queues that the caller may look at, in the order they were made."""
    if params.outgoing:
        context.require_administrator()
    page = yield from paged(
        params.after,
        params.limit,
        lambda manager, queue: _listed(manager, context, params, queue),
        lambda manager, queue: describe(manager, context, queue),
    )
    return QueueListJson(queues=page.shown, next=page.next)


def _listed(manager: QueueManager, context: Context, params: QueuesParams, queue: Queue) -> bool:
    role = queue.definition.role
    if role is QueueRole.OUTGOING:
        return params.outgoing
    if role not in _ALWAYS and not params.system:
        return False
    return manager.queues.guard(queue).allows(context.caller, GET_QUEUE_PROPERTIES)


def show_queue(
    manager: QueueManager, context: Context, params: QueueParams, body: Nothing
) -> QueueJson:
    """Shows a queue: properties, counts, bytes, oldest age, rates, groups, connection history."""
    return describe(manager, context, _readable(manager, context, params.queue), connections=True)


def _readable(manager: QueueManager, context: Context, name: str) -> Queue:
    queue = find_queue(manager, name)
    if queue.outgoing is not None:
        context.require_administrator()
        return queue
    return manager.queues.queue_properties(queue, context.caller)


def describe(
    manager: QueueManager, context: Context, queue: Queue, *, connections: bool = False
) -> QueueJson:
    """A queue as the API shows it."""
    definition, rate = queue.definition, context.services.rates.of(queue.number)
    return QueueJson(
        number=queue.number,
        path=definition.pathname,
        format_name=format_name_of(manager, queue),
        guid_name=guid_name_of(manager, queue),
        kind=kind_of(queue),
        label=definition.label,
        type_id="" if definition.type_guid == NULL_GUID else format_guid(definition.type_guid),
        transactional=definition.transactional,
        journal=definition.journaling,
        authenticated=definition.authentication,
        privacy=_PRIVACY[definition.privacy_level],
        quota_kib=_quota(definition.quota_kib),
        journal_quota_kib=_quota(definition.journal_quota_kib),
        base_priority=definition.base_priority,
        multicast=definition.multicast_address,
        code_page=queue.code_page,
        max_aborts=definition.max_aborts,
        poison_queue=definition.poison_queue,
        retry_delays_s=list(definition.retry_delays),
        retry_waiting=manager.poison.waiting_in(queue),
        created_time=time_text(definition.create_time),
        modified_time=time_text(definition.modify_time),
        messages=queue.state.count,
        locked=queue.locked,
        claimed=manager.queues.claimed_messages(queue),
        bytes=queue.state.bytes,
        journal_messages=queue.journal.state.count if queue.journal else 0,
        oldest_age_s=manager.messages.oldest_age_s(queue),
        accepted_per_s=rate.accepted,
        received_per_s=rate.received,
        readers=len(queue.descriptors),
        waiting_readers=len(queue.waiters),
        state=state_word(queue),
        connections=connections_json(queue) if connections else [],
        outgoing=outgoing_json(manager, queue, whole=connections),
        incoming=incoming_json(manager, queue) if connections else [],
        groups=groups_json(manager, queue) if connections else [],
        holders=_holders(context, queue) if connections else [],
        purged_through=manager.groups.purged_through(queue),
        reason=manager.directory.reason_of(queue) or manager.transfer.rests_because(queue),
    )


def _holders(context: Context, queue: Queue) -> list[HolderJson]:
    """Return the holders of locked messages that the caller may see."""
    whole = context.caller.is_administrator and context.caller.scopes is None
    return context.services.leases.holders(queue, None if whole else context.caller.sid)


def format_name_of(manager: QueueManager, queue: Queue) -> str:
    """The name by which messages reach the queue from anywhere."""
    if queue.definition.format_name:
        return queue.definition.format_name
    return f"DIRECT=OS:{queue.definition.pathname}"


def guid_name_of(manager: QueueManager, queue: Queue) -> str:
    """The name of a queue of this machine by GUID: PUBLIC= or PRIVATE=."""
    definition = queue.definition
    if definition.role is not QueueRole.PLAIN:
        return ""
    if definition.queue_type is QueueType.PUBLIC:
        return str(PublicName(definition.identifier))
    return str(PrivateName(manager.machine.identifier, queue.number))


def kind_of(queue: Queue) -> str:
    """What a queue is for: `private`, `public`, `outgoing`, `journal`, ..."""
    role = queue.definition.role
    plain = role is QueueRole.PLAIN
    return queue.definition.queue_type.value if plain else role.value


def _quota(kib: int) -> int | None:
    return None if kib == UNLIMITED else kib


# -- changing


def create_queue(
    manager: QueueManager, context: Context, params: Nothing, body: QueueCreateBody
) -> QueueJson:
    """Creates a queue of the caller's."""
    properties = QueueProperties(
        label=body.label,
        type_guid=parse_guid(body.type_id) if body.type_id else NULL_GUID,
        journaling=body.journal,
        quota_kib=_kib(body.quota_kib),
        journal_quota_kib=_kib(body.journal_quota_kib),
        authentication=body.authenticated,
        privacy_level=_PRIVACY.index(body.privacy),
        transactional=body.transactional,
        multicast_address=body.multicast or None,
        base_priority=body.base_priority,
        code_page=body.code_page,
        max_aborts=body.max_aborts,
        poison_queue=body.poison_queue,
        retry_delays=tuple(body.retry_delays_s),
    )
    queue = manager.queues.create_queue(body.path, properties, context.caller)
    context.tell(manager, "queue_created", queue=queue.name)
    return describe(manager, context, queue)


def _kib(quota: int | None) -> int:
    return UNLIMITED if quota is None else quota


def set_queue(
    manager: QueueManager, context: Context, params: QueueParams, body: QueueSetBody
) -> QueueJson:
    """Changes properties of a queue; whether it is transactional never changes."""
    values: dict[str, Any] = {
        "label": body.label,
        "journaling": body.journal,
        "authentication": body.authenticated,
        "base_priority": body.base_priority,
        "multicast_address": body.multicast,
        "code_page": body.code_page,
        "max_aborts": body.max_aborts,
        "poison_queue": body.poison_queue,
    }
    if not isinstance(body.privacy, UnsetType):
        values["privacy_level"] = _PRIVACY.index(body.privacy)
    if not isinstance(body.quota_kib, UnsetType):
        values["quota_kib"] = _kib(body.quota_kib)
    if not isinstance(body.journal_quota_kib, UnsetType):
        values["journal_quota_kib"] = _kib(body.journal_quota_kib)
    if not isinstance(body.retry_delays_s, UnsetType):
        values["retry_delays"] = tuple(body.retry_delays_s)
    if not isinstance(body.type_id, UnsetType):
        values["type_guid"] = parse_guid(body.type_id)
    given = {name: value for name, value in values.items() if value is not UNSET}
    manager.queues.set_queue(params.queue, context.caller, **given)
    return describe(manager, context, find_queue(manager, params.queue))


def delete_queue(
    manager: QueueManager, context: Context, params: DryRunParams, body: Nothing
) -> CountJson:
    """Deletes a queue with its journal, its subqueues and all their messages."""
    queue = find_queue(manager, params.queue)
    manager.queues.guard(queue).require(context.caller, DELETE_QUEUE)
    family = [queue, *queue.subqueues.values(), *([queue.journal] if queue.journal else [])]
    count = sum(member.state.count for member in family)
    if not params.dry_run:
        manager.queues.delete_queue(params.queue, context.caller)
        context.tell(manager, "queue_deleted", queue=queue.name, messages=count)
    return CountJson(messages=count, dry_run=params.dry_run)


def purge_queue(
    manager: QueueManager, context: Context, params: DryRunParams, body: Nothing
) -> CountJson:
    """Removes all messages of a queue."""
    with opened(manager, params.queue, QueueAccessType.RECEIVE, context) as descriptor:
        if params.dry_run:
            count = manager.queues.purgeable(descriptor)
        else:
            count = manager.queues.purge_queue(descriptor)
            context.tell(manager, "queue_purged", queue=descriptor.target().name, messages=count)
    return CountJson(messages=count, dry_run=params.dry_run)


def _outgoing(manager: QueueManager, context: Context, name: str) -> Queue:
    context.require_administrator()
    queue = find_queue(manager, name)
    if queue.outgoing is None:
        raise UnsupportedOperation(
            f"{queue.name} is not an outgoing queue", "List them: queue list --outgoing."
        )
    return queue


def pause_queue(
    manager: QueueManager, context: Context, params: QueueParams, body: Nothing
) -> QueueJson:
    """Pauses an outgoing queue: nothing leaves it, a restart does not end that."""
    queue = _outgoing(manager, context, params.queue)
    manager.transfer.pause_queue(queue)
    return describe(manager, context, queue)


def resume_queue(
    manager: QueueManager, context: Context, params: QueueParams, body: Nothing
) -> QueueJson:
    """Lets a paused outgoing queue go on."""
    queue = _outgoing(manager, context, params.queue)
    manager.transfer.resume_queue(queue)
    return describe(manager, context, queue)


def retry_queue(
    manager: QueueManager, context: Context, params: QueueParams, body: Nothing
) -> QueueJson:
    """Has an outgoing queue connect now instead of when its waiting time is over."""
    queue = _outgoing(manager, context, params.queue)
    manager.transfer.retry(queue)
    return describe(manager, context, queue)


def show_sequences(
    manager: QueueManager, context: Context, params: QueueParams, body: Nothing
) -> SequencesJson:
    """Shows the sequences of a queue: how far each has come, what is rejected, and from where."""
    context.require_administrator()
    return sequences_json(manager, find_queue(manager, params.queue))


def reset_sequence(
    manager: QueueManager, context: Context, params: ResetParams, body: Nothing
) -> ResetJson:
    """Begins sequences of a queue again.

    Of an outgoing queue: what has not arrived gets a new sequence, so messages that have arrived
    and are not acknowledged arrive twice. Of a queue here: the next message of these senders is
    taken whatever its place, so those that they send again are taken again.
    """
    context.require_administrator()
    queue = find_queue(manager, params.queue)
    if queue.outgoing is not None:
        waiting = manager.transfer.unfinished(queue)
        if waiting and not params.dry_run:
            manager.transfer.begin_again(queue)
        found, messages = int(waiting > 0), waiting
    else:
        source = parse_guid(params.source) if params.source else None
        host = params.address or None
        reset = manager.transfer.reset(queue, source, host, dry_run=params.dry_run)
        found, messages = len(reset), 0
    if found and not params.dry_run:
        context.tell(manager, "sequence_reset", queue=queue.name, sequences=found)
    return ResetJson(sequences=found, messages=messages, dry_run=params.dry_run)


# -- access


def show_access(
    manager: QueueManager, context: Context, params: QueueParams, body: Nothing
) -> AccessJson:
    """Shows who may do what with a queue."""
    guard = manager.queues.guard(find_queue(manager, params.queue))
    guard.require(context.caller, GET_QUEUE_PERMISSIONS)
    return _access_json(manager, guard.descriptor)


def _access_json(manager: QueueManager, descriptor: SecurityDescriptor) -> AccessJson:
    return AccessJson(
        owner=who_is(manager, descriptor.owner),
        entries=[
            AccessEntryJson(
                who=who_is(manager, entry.sid),
                sid=format_sid(entry.sid),
                denied=entry.denied,
                rights=list(rights_words(entry.mask)),
            )
            for entry in entries(descriptor)
        ],
    )


def who_is(manager: QueueManager, sid: bytes) -> str:
    """A SID as a user name or the word for a group; else as text."""
    if word := principal_word(sid):
        return word
    for account in manager.accounts.all():
        if account.sid == sid:
            return account.name
    return format_sid(sid)


def sid_of(manager: QueueManager, who: str) -> bytes:
    """The SID that a user name, the word for a group or `S-1-...` means."""
    if word := PRINCIPALS.get(who.lower()):
        return word
    if who.upper().startswith("S-1-"):
        return parse_sid(who.upper())
    return manager.accounts.find(who).sid


def set_access(
    manager: QueueManager, context: Context, params: QueueParams, body: AccessSetBody
) -> AccessJson:
    """Replaces the access list of a queue as a whole."""
    new = _editable(manager, params.queue).with_entries(
        (sid_of(manager, given.who), parse_rights(",".join(given.rights)), given.denied)
        for given in body.entries
    )
    _set_access(manager, context, params.queue, new, entries=len(body.entries))
    return _access_json(manager, new)


def grant(manager: QueueManager, context: Context, params: QueueParams, body: GrantBody) -> Done:
    """Gives rights on a queue."""
    old, sid = _editable(manager, params.queue), sid_of(manager, body.who)
    new = old.grant(sid, parse_rights(",".join(body.rights)))
    _set_access(manager, context, params.queue, new, grant=body.who, rights=",".join(body.rights))
    return Done()


def deny(manager: QueueManager, context: Context, params: QueueParams, body: GrantBody) -> Done:
    """Denies rights on a queue, whatever else grants them."""
    old, sid = _editable(manager, params.queue), sid_of(manager, body.who)
    new = old.deny(sid, parse_rights(",".join(body.rights)))
    _set_access(manager, context, params.queue, new, deny=body.who, rights=",".join(body.rights))
    return Done()


def revoke(manager: QueueManager, context: Context, params: QueueParams, body: RevokeBody) -> Done:
    """Removes all entries of somebody from the access list of a queue."""
    new = _editable(manager, params.queue).revoke(sid_of(manager, body.who))
    _set_access(manager, context, params.queue, new, revoke=body.who)
    return Done()


def _set_access(
    manager: QueueManager,
    context: Context,
    name: str,
    security: SecurityDescriptor,
    **details: object,
) -> None:
    manager.queues.set_queue_security(name, context.caller, security.pack())
    context.tell(manager, "access_changed", queue=find_queue(manager, name).name, **details)


def _editable(manager: QueueManager, name: str) -> SecurityDescriptor:
    queue = find_queue(manager, name)
    if queue.outgoing is not None:
        raise UnsupportedOperation(
            f"{queue.name} has no access list: only administrators may use it"
        )
    return manager.queues.guard(queue).descriptor
