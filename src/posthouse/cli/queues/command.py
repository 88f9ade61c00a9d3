"""`posthouse queue`: creates, lists, shows, changes, empties and deletes queues."""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeVar

import typer
from msgspec import UNSET, UnsetType

from posthouse.api.transfer import ResetJson, SequencesJson
from posthouse.api.types import (
    CountJson,
    Privacy,
    QueueCreateBody,
    QueueJson,
    QueueSetBody,
)
from posthouse.cli.command import DryRun, QueuePath, Yes, confirm, group, guid, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.durations import shown
from posthouse.cli.group import tell_groups
from posthouse.cli.output import age, complain, print_json, print_pairs, print_table, say
from posthouse.cli.queues import access as queue_access
from posthouse.cli.queues.listing import list_queues
from posthouse.cli.queues.options import (
    NO_QUOTA,
    BasePriority,
    CodePage,
    JournalQuota,
    Label,
    MaxAborts,
    Multicast,
    PoisonQueue,
    PrivacyLevel,
    Quota,
    RetryDelays,
    TypeId,
    delays,
    quota_of,
)
from posthouse.cli.queues.transfer import outgoing_pairs, tell_sequences, tell_transfer
from posthouse.cli.remote_queue import (
    Far,
    Machine,
    MachineUser,
    PasswordFile,
    far_machine,
)
from posthouse.cli.watch_option import watchable
from posthouse.model.errors import QueueExists
from posthouse.model.properties import (
    DEFAULT_POISON_QUEUE,
)
from posthouse.model.text import counted

PUBLIC_MADE = (
    "This is a public queue: its name is in the directory. A private queue has private$ in its "
    "name, such as './private$/orders'."
)
OTHER_KIND = (
    "A queue cannot change that: use it as it is, or delete it and create it again with "
    "--transactional or without."
)
T = TypeVar("T")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    inner = group(
        app,
        "queue",
        "Queues and messages",
        "Queues: create, list, show, set, purge, delete, rights.",
    )
    inner.command("create")(create)
    inner.command("list")(list_queues)
    inner.command("show")(show)
    inner.command("set")(set_queue)
    inner.command("delete")(delete)
    inner.command("purge")(purge)
    inner.command("pause")(pause)
    inner.command("resume")(resume)
    inner.command("retry")(retry)
    inner.command("sequences")(sequences)
    inner.command("reset-sequence")(reset_sequence)
    queue_access.register(inner)


@talking
def create(
    remote: Remote,
    path: QueuePath,
    transactional: Annotated[
        bool,
        typer.Option("--transactional", help="Take only messages that are sent in a transaction."),
    ] = False,
    journal: Annotated[
        bool, typer.Option("--journal", help="Keep received messages in the journal of the queue.")
    ] = False,
    authenticated: Annotated[
        bool,
        typer.Option(
            "--authenticated", help="Take only signed messages of users who have the right send."
        ),
    ] = False,
    privacy: Annotated[Privacy, PrivacyLevel] = "optional",
    quota: Annotated[str, Quota] = NO_QUOTA,
    journal_quota: Annotated[str, JournalQuota] = NO_QUOTA,
    label: Annotated[str, Label] = "",
    base_priority: Annotated[int, BasePriority] = 0,
    multicast: Annotated[str, Multicast] = "",
    type_id: Annotated[str | None, TypeId] = None,
    code_page: Annotated[str, CodePage] = "",
    max_aborts: Annotated[int, MaxAborts] = 0,
    poison_queue: Annotated[str, PoisonQueue] = "",
    retry_delays: Annotated[str, RetryDelays] = "",
    exist_ok: Annotated[
        bool,
        typer.Option(
            "--exist-ok",
            help="Leave a queue of this name as it is, if it is transactional or not as asked for.",
        ),
    ] = False,
) -> None:
    """Create a queue; prints its path name and its format name.

    Example: posthouse queue create './private$/orders' --transactional --label 'New orders'

    Example: posthouse queue create orders --transactional --exist-ok
    """
    body = QueueCreateBody(
        path=path,
        label=label,
        transactional=transactional,
        journal=journal,
        authenticated=authenticated,
        privacy=privacy,
        quota_kib=quota_of(quota),
        journal_quota_kib=quota_of(journal_quota),
        base_priority=base_priority,
        multicast=multicast,
        type_id=None if type_id is None else guid(type_id),
        code_page=code_page,
        max_aborts=max_aborts,
        poison_queue=poison_queue,
        retry_delays_s=delays(retry_delays),
    )
    try:
        queue = remote.ask(QueueJson, "POST", path_of("queues"), body=body)
    except QueueExists:
        if not exist_ok:
            raise
        queue = remote.ask(QueueJson, "GET", path_of("queues", path))
        if queue.transactional != transactional:
            kind = "transactional" if queue.transactional else "not transactional"
            raise QueueExists(f"{queue.path} is there, and it is {kind}", OTHER_KIND) from None
    if remote.json:
        print_json(queue)
    else:
        # By its identifier a public queue is known to others: `directory queue create` takes it.
        name = queue.guid_name if queue.kind == "public" else queue.format_name
        say(f"{queue.path}  {name}")
        if queue.kind == "public":
            complain(PUBLIC_MADE)


@watchable
@talking
def show(
    remote: Remote,
    path: QueuePath,
    machine: Machine = None,
    user: MachineUser = None,
    password_file: PasswordFile = None,
) -> None:
    """Show a queue: properties, counts, bytes, oldest age, rates, groups, connection history.

    With --machine every management property of a queue of another machine.

    Example: posthouse queue show './private$/orders'
    """
    if machine := far_machine(machine, user, password_file):
        from posthouse.cli.machines.remote_queues import show_far_queue  # loads DCE/RPC

        show_far_queue(path, machine, user, password_file, json=remote.json)
        return
    queue = remote.ask(QueueJson, "GET", path_of("queues", path))
    if remote.json:
        print_json(queue)
        return
    _tell(queue)
    tell_groups(queue.groups)
    if queue.holders:
        rows = [(one.user, one.by, f"{one.messages:,}") for one in queue.holders]
        print_table("Holders of locked messages", ("user", "by", "messages"), rows)
    tell_transfer(queue)


def _tell(queue: QueueJson) -> None:
    is_subqueue = queue.kind == "subqueue"
    print_pairs(
        {
            "queue": queue.path,
            "format name": queue.format_name,
            "by GUID": queue.guid_name,
            "kind": queue.kind,
            "label": queue.label,
            "type": queue.type_id,
            "transactional": _yes(queue.transactional),
            "journal": _yes(queue.journal),
            "authenticated": _yes(queue.authenticated),
            "privacy": queue.privacy,
            "quota": "that of its queue" if is_subqueue else _kib(queue.quota_kib),
            "journal quota": _kib(queue.journal_quota_kib),
            "base priority": str(queue.base_priority),
            "multicast": queue.multicast,
            "code page": queue.code_page,
            "poison policy": _policy(queue),
            "created": queue.created_time,
            "modified": queue.modified_time,
            "messages": _held(queue),
            "bytes": f"{queue.bytes:,}",
            "journal messages": f"{queue.journal_messages:,}",
            "oldest": age(queue.oldest_age_s),
            "rates": f"{queue.accepted_per_s:.1f}/s in, {queue.received_per_s:.1f}/s out",
            "readers": f"{queue.readers:,}, {queue.waiting_readers:,} waiting",
            "purged up to": str(queue.purged_through or ""),
            "reason": queue.reason,
            "state": queue.state.replace("_", " "),
        }
        | outgoing_pairs(queue)
    )


def _policy(queue: QueueJson) -> str:
    """What becomes of a message after an abort; empty: it is available at once, for ever."""
    parts = []
    if queue.max_aborts:
        target = queue.poison_queue or DEFAULT_POISON_QUEUE
        parts.append(f"after {queue.max_aborts:,} aborts to {target}")
    if queue.retry_delays_s:
        parts.append(f"next try after {', '.join(map(shown, queue.retry_delays_s))}")
    return "; ".join(parts)


def _held(queue: QueueJson) -> str:
    words = f"{queue.messages:,}, {queue.locked - queue.retry_waiting:,} of them locked"
    if queue.retry_waiting:
        words += f", {queue.retry_waiting:,} waiting for their next try"
    if queue.claimed:
        words += f", {queue.claimed:,} claimed by a group (posthouse group list)"
    return words


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _kib(quota: int | None) -> str:
    return NO_QUOTA if quota is None else f"{quota:,} KiB"


@talking
def set_queue(
    remote: Remote,
    path: QueuePath,
    label: Annotated[str | None, Label] = None,
    journal: Annotated[
        bool | None,
        typer.Option(
            "--journal/--no-journal", help="Keep received messages in the journal, or not."
        ),
    ] = None,
    authenticated: Annotated[
        bool | None,
        typer.Option(
            "--authenticated/--no-authenticated",
            help="Take only signed messages of users who have the right send, or all.",
        ),
    ] = None,
    privacy: Annotated[Privacy | None, PrivacyLevel] = None,
    quota: Annotated[str | None, Quota] = None,
    journal_quota: Annotated[str | None, JournalQuota] = None,
    base_priority: Annotated[int | None, BasePriority] = None,
    multicast: Annotated[str | None, Multicast] = None,
    type_id: Annotated[str | None, TypeId] = None,
    code_page: Annotated[str | None, CodePage] = None,
    max_aborts: Annotated[int | None, MaxAborts] = None,
    poison_queue: Annotated[str | None, PoisonQueue] = None,
    retry_delays: Annotated[str | None, RetryDelays] = None,
) -> None:
    """Change properties of a queue. Options that you leave out are not changed.

    Whether a queue is transactional is decided when it is created.

    Example: posthouse queue set './private$/orders' --label 'Old orders' --quota 10240

    Example: posthouse queue set './private$/orders' --code-page 1251

    Example: posthouse queue set './private$/bills' --max-aborts 5 --retry-delays 1s,10s,5m
    """
    body = QueueSetBody(
        label=_given(label),
        journal=_given(journal),
        authenticated=_given(authenticated),
        privacy=_given(privacy),
        quota_kib=UNSET if quota is None else quota_of(quota),
        journal_quota_kib=UNSET if journal_quota is None else quota_of(journal_quota),
        base_priority=_given(base_priority),
        multicast=_given(multicast),
        type_id=UNSET if type_id is None else guid(type_id),
        code_page=_given(code_page),
        max_aborts=_given(max_aborts),
        poison_queue=_given(poison_queue),
        retry_delays_s=UNSET if retry_delays is None else delays(retry_delays),
    )
    if body == QueueSetBody():
        raise typer.BadParameter("nothing to change: give at least one option")
    queue = remote.ask(QueueJson, "PATCH", path_of("queues", path), body=body)
    if remote.json:
        print_json(queue)
    else:
        _tell(queue)


def _given(value: T | None) -> T | UnsetType:
    return UNSET if value is None else value


@talking
def delete(remote: Remote, path: QueuePath, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete a queue with its journal, its subqueues and all their messages.

    Example: posthouse queue delete './private$/orders' --yes
    """
    _destroy(remote, "Delete", path, Destruction("DELETE", path_of("queues", path)), dry_run, yes)


@talking
def purge(
    remote: Remote,
    path: QueuePath,
    dry_run: DryRun = False,
    yes: Yes = False,
    *,
    far: Far,
) -> None:
    """Remove all messages of a queue.

    Example: posthouse queue purge './private$/orders' --dry-run
    """
    if far.is_meant:
        _purge_far(remote, path, far, dry_run, yes)
        return
    how = Destruction("POST", path_of("queues", path, "purge"))
    _destroy(remote, "Purge", path, how, dry_run, yes)


def _purge_far(remote: Remote, path: str, far: Far, dry_run: bool, yes: bool) -> None:
    """Another computer states that it is done, and not how many there were: they are counted."""
    with far.manager(remote, path) as manager:
        queue = manager.queue(far.queue_name(path))
        messages = sum(1 for _ in queue.browse(body_max=0))
        if not dry_run:
            confirm(lambda: f"Purge {path} with {counted(messages, 'message')}?", yes)
            queue.purge()
    _tell_destroyed(remote, "Purge", path, CountJson(messages=messages, dry_run=dry_run))


class Destruction(NamedTuple):
    """A request that removes messages, and states how many."""

    method: str
    target: str

    def ask(self, remote: Remote, dry_run: bool) -> CountJson:
        """Does it, or counts."""
        return remote.ask(CountJson, self.method, self.target, query={"dry_run": dry_run})


def _destroy(
    remote: Remote, verb: str, path: str, how: Destruction, dry_run: bool, yes: bool
) -> None:
    if not dry_run:
        confirm(lambda: f"{verb} {path} with {_messages(how.ask(remote, True))}?", yes)
    _tell_destroyed(remote, verb, path, how.ask(remote, dry_run))


def _tell_destroyed(remote: Remote, verb: str, path: str, result: CountJson) -> None:
    if remote.json:
        print_json(result)
    else:
        done = f"Would {verb.lower()}" if result.dry_run else f"{verb}d"
        say(f"{done} {path} with {_messages(result)}.")


def _messages(result: CountJson) -> str:
    return counted(result.messages, "message")


@talking
def pause(remote: Remote, path: QueuePath) -> None:
    """Pause an outgoing queue. Its messages are not sent until you resume it.

    Example: posthouse queue pause 'DIRECT=OS:beta\\private$\\orders'
    """
    _steer(remote, path, "pause")


@talking
def resume(remote: Remote, path: QueuePath) -> None:
    """Resume a paused outgoing queue.

    Example: posthouse queue resume 'DIRECT=OS:beta\\private$\\orders'
    """
    _steer(remote, path, "resume")


@talking
def retry(remote: Remote, path: QueuePath) -> None:
    """Connect an outgoing queue now, instead of after its pause.

    Example: posthouse queue retry 'DIRECT=OS:beta\\private$\\orders'
    """
    _steer(remote, path, "retry")


@talking
def sequences(remote: Remote, path: QueuePath) -> None:
    """Show the sequences of transactional messages of a queue, and what is rejected.

    Each address that sends as a queue manager has its own sequence. Not accepted: messages that
    follow one that did not arrive. In conflict: addresses that sent different messages under the
    same number; two queue managers have one GUID, or one pretends to be the other.

    Example: posthouse queue sequences './private$/orders'
    """
    found = remote.ask(SequencesJson, "GET", path_of("queues", path, "sequences"))
    if remote.json:
        print_json(found)
    else:
        tell_sequences(found)


@talking
def reset_sequence(
    remote: Remote,
    path: QueuePath,
    source: Annotated[
        str, typer.Option("--source", metavar="GUID", help="Only sequences of this queue manager.")
    ] = "",
    address: Annotated[
        str,
        typer.Option(
            "--address", metavar="HOST", help="Only sequences that came from this address."
        ),
    ] = "",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Restart sequences of transactional messages that do not continue by themselves.

    Outgoing queue: messages that have not arrived get a new sequence; those that have arrived but
    are not acknowledged arrive twice. Queue of this machine: the next message of these senders is
    accepted, whatever its number; messages that they send again are accepted again.

    Example: posthouse queue reset-sequence './private$/orders' --address 192.0.2.9 --dry-run
    """
    target = path_of("queues", path, "reset-sequence")
    query = {"source": guid(source) if source else "", "address": address}

    def ask(look_only: bool) -> ResetJson:
        return remote.ask(ResetJson, "POST", target, query=query | {"dry_run": look_only})

    if not dry_run:
        confirm(lambda: f"Restart {_sequences(ask(True))} of {path}?", yes)
    result = ask(dry_run)
    if remote.json:
        print_json(result)
    else:
        done = "Would restart" if dry_run else "Restarted"
        say(f"{done} {_sequences(result)} of {path}.")


def _sequences(result: ResetJson) -> str:
    words = counted(result.sequences, "sequence")
    return f"{words} with {counted(result.messages, 'message')}" if result.messages else words


def _steer(remote: Remote, path: str, verb: str) -> None:
    queue = remote.ask(QueueJson, "POST", path_of("queues", path, verb))
    if remote.json:
        print_json(queue)
    else:
        say(f"{queue.path or queue.format_name}: {queue.state.replace('_', ' ')}")
