"""`posthouse message`: finds, moves, copies, deletes, resends, returns and explains messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from posthouse.api.explain import LifeJson
from posthouse.api.refused import RefusedListJson, RefusedMessageJson
from posthouse.api.types import (
    LOOKUP_ID_MAX,
    LOOKUP_IDS_MAX,
    PAGE_MAX,
    BulkJson,
    ErrorBody,
    MoveMessagesBody,
    ResendBody,
    SelectBody,
    SelectToBody,
)
from posthouse.cli.command import DryRun, Yes, confirm, group, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.exit_codes import NOTHING_THERE, REFUSED
from posthouse.cli.messages import files as message_files
from posthouse.cli.messages.failures import return_messages
from posthouse.cli.messages.output import Hex, Output, Raw
from posthouse.cli.messages.selection import (
    LookupIds,
    Source,
    Where,
    check,
    chosen,
    found_messages,
)
from posthouse.cli.messages.view import COLUMNS, as_json, row
from posthouse.cli.name_hints import full_name
from posthouse.cli.output import complain, partly, print_json, print_table, say
from posthouse.cli.progress import bar
from posthouse.cli.receive import shown
from posthouse.cli.remote_queue import Far, is_here
from posthouse.formats.search import content_of
from posthouse.model.errors import MessageNotFound, QueueError
from posthouse.model.filters import parse_filter
from posthouse.model.message_json import MessageJson
from posthouse.model.text import counted

if TYPE_CHECKING:
    from posthouse.client.msmq import RemoteQueue

ROWS_SHOWN = 1000
PAST = {"move": "Moved", "copy": "Copied", "delete": "Deleted", "resend": "Resent"}
MESSAGE_ID = re.compile(r"([0-9a-fA-F-]{36})[\\/]([0-9]{1,9})", re.ASCII)

Destination = Annotated[
    str,
    typer.Argument(
        metavar="DEST", parser=full_name, help="Name of a private queue, path name or format name."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    summary = (
        "Messages: find, show, move, copy, delete, resend, return, export, import, explain, "
        "refused."
    )
    inner = group(app, "message", "Queues and messages", summary)
    for command in (find, show, explain, refused, move, copy, delete, resend):
        inner.command()(command)
    inner.command("return")(return_messages)
    message_files.register(inner)


# -- looking


@talking
def find(
    remote: Remote,
    filter: Annotated[
        str,
        typer.Argument(metavar="FILTER", help="Filter, such as 'label ~ \"order\"'."),
    ],
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            metavar="N",
            min=1,
            help="Show at most this many (default for a table: 1000).",
        ),
    ] = None,
) -> None:
    """Find messages of all queues that you may look into.

    A filter compares fields of the message JSON; join comparisons with and, or, not and
    parentheses. ~ means "contains". You can also search the content: text, format, message_type,
    exception_type, failed_queue, header["NAME"] and others (docs/formats.md).

    Example: posthouse message find 'priority >= 5 and label ~ "order"'

    Example: posthouse message find 'header["NServiceBus.EnclosedMessageTypes"] ~ "OrderPlaced"'
    """
    messages = found_messages(remote, None, filter, bodies=None)
    if remote.json:
        for number, message in enumerate(messages, 1):
            print_json(as_json(message))
            if number == limit:
                break
        return
    rows: list[tuple[str, ...]] = []
    for message in messages:
        if len(rows) >= (limit or ROWS_SHOWN):
            complain(f"There are more than {len(rows):,}; narrow the filter, or use --limit.")
            break
        rows.append(row(message))
    print_table("", COLUMNS, rows)


@talking
def show(
    remote: Remote,
    source: Source,
    lookup_id: Annotated[
        int,
        typer.Argument(
            metavar="LOOKUPID", min=1, max=LOOKUP_ID_MAX, help="Lookup id of the message."
        ),
    ],
    raw: Raw = False,
    hexed: Hex = False,
) -> None:
    """Show one message: its properties, and what is in its body.

    The body is decoded: XML, .NET objects, WCF, headers of message buses (docs/formats.md). The
    message stays where it is.

    Example: posthouse message show './private$/orders' 17
    """
    handler = Output(raw=raw, hexed=hexed).handler(json=remote.json, single=True)
    message = shown(remote, remote.queue(source).lookup(lookup_id))
    if message.move_count:
        path = path_of("queues", source, "messages", str(lookup_id))
        message.move_reason = remote.ask(MessageJson, "GET", path).move_reason
    handler(message)


@talking
def explain(
    remote: Remote,
    id: Annotated[str, typer.Argument(metavar="ID", help="Message id: GUID\\NUMBER.")],
    peers: Annotated[
        bool,
        typer.Option(
            "--peers", help="Also ask the queue managers in the setting admin.explain_peers."
        ),
    ] = False,
) -> None:
    r"""Show where a message is, and why; for example, why it became a dead letter.

    Of the last messages that left their queue it shows when, how and, where known, who received it.

    The exit code is 4 if it is in no queue that you may look into.

    Example: posthouse message explain '5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11\17'
    """
    parts = MESSAGE_ID.fullmatch(id)
    if parts is None:
        raise typer.BadParameter(
            "a message id is a GUID, a backslash and a number, as `posthouse send` prints it. For "
            "a lookup id: posthouse message show QUEUE LOOKUPID"
        )
    path = path_of("messages", f"{parts[1]}\\{parts[2]}", "explain")
    found = remote.ask(LifeJson, "GET", path, query={"peers": True} if peers else None)
    if remote.json:
        print_json(found)
    else:
        _tell_places(found)
        for peer in found.peers:
            say(f"{peer.name}: {peer.error or peer.answer}")
    if peers and not found.peers:
        complain("No other queue manager was asked: the setting admin.explain_peers names none.")
    if not found.places and not any(peer.places for peer in found.peers):
        raise typer.Exit(NOTHING_THERE)


def _tell_places(found: LifeJson) -> None:
    say(found.answer)
    for queue in found.skipped:
        complain(f"Not looked into: {queue.queue}: {queue.reason}")
    if found.places:
        columns = ("queue", "lookup id", "state", "class", "arrived", "aborts", "moves")
        rows = (
            (
                place.queue,
                str(place.lookup_id),
                place.state,
                place.class_,
                place.arrived_time,
                str(place.abort_count),
                str(place.move_count),
            )
            for place in found.places
        )
        print_table("", columns, rows)


@talking
def refused(
    remote: Remote,
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", min=1, help="Show at most this many."),
    ] = 100,
) -> None:
    """Show messages of other machines that were refused on arrival, and why; the latest first.

    The queue manager keeps the last 10,000 in memory: a restart forgets them, its log does not
    (message_refused). `posthouse message explain ID` asks for one message.

    Example: posthouse message refused
    """
    found, after = list[RefusedMessageJson](), None
    while len(found) < limit:
        query = {"limit": min(limit - len(found), PAGE_MAX), "after": after}
        page = remote.ask(RefusedListJson, "GET", path_of("refused"), query=query)
        found += page.messages
        if (after := page.next) is None:
            break
    if remote.json:
        for one in found:
            print_json(one)
    elif not found:
        say("No message of another machine that you may see was refused since the start.")
    else:
        columns = ("time", "queue", "cause", "label", "from", "times", "dead letter", "id")
        print_table("", columns, map(_refused_row, found))


def _refused_row(one: RefusedMessageJson) -> tuple[str, ...]:
    kept = "yes" if one.dead_letter else "no"
    return (
        *(one.last_time, one.queue, one.cause, one.label, one.address),
        *(f"{one.times:,}", kept, one.id),
    )


# -- acting


@talking
def move(
    remote: Remote,
    source: Source,
    destination: Destination,
    where: Where = None,
    lookup_ids: LookupIds = None,
    reason: Annotated[
        str,
        typer.Option(
            "--reason",
            metavar="TEXT",
            help="Reason, kept with the messages and shown by `message show` and `failures`.",
        ),
    ] = "",
    dry_run: DryRun = False,
    *,
    far: Far,
) -> None:
    """Move messages to another queue of the same machine. They keep their identifiers.

    Without --where and --lookup-id all messages are moved. On another computer, messages can only
    be moved between a queue and its subqueues, or to a queue of this queue manager: then each
    message arrives here exactly once (docs/migrate.md).

    Example: posthouse message move './private$/in' './private$/in;poison' --where 'abort_count > 3'
    """
    if far.is_meant and reason:
        raise typer.BadParameter("--reason is for messages of this queue manager")
    if far.is_meant and is_here(destination):
        from posthouse.cli.messages.pull import pull_some  # loads DCE/RPC

        pulled = pull_some(remote, far, source, destination, where, lookup_ids, dry_run=dry_run)
        _tell(remote, "move", pulled, named=bool(lookup_ids))
        return
    if far.is_meant:
        with far.manager(remote, source) as manager:
            queues = (
                manager.queue(far.queue_name(source)),
                manager.queue(far.queue_name(destination)),
            )
            moved = _move_far(*queues, where, lookup_ids, dry_run=dry_run)
            _tell(remote, "move", moved, named=bool(lookup_ids))
        return
    lookup_id_list = chosen(remote, source, where, lookup_ids)
    body = MoveMessagesBody(to=destination, dry_run=dry_run, reason=reason)
    _act(remote, source, "move", lookup_id_list, body, named=bool(lookup_ids))


@talking
def copy(
    remote: Remote,
    source: Source,
    destination: Destination,
    where: Where = None,
    lookup_ids: LookupIds = None,
    dry_run: DryRun = False,
    *,
    far: Far,
) -> None:
    """Send copies of messages to any queue; the copies are new messages.

    Without --where and --lookup-id all messages are copied. Messages of another computer's queue
    are copied to a queue here, exactly once, and keep their ids (docs/migrate.md).

    Example: posthouse message copy './private$/orders' './private$/audit' --where 'priority = 7'
    """
    if far.is_meant:
        from posthouse.cli.messages.pull import pull_some  # loads DCE/RPC

        pulled = pull_some(
            remote, far, source, destination, where, lookup_ids, dry_run=dry_run, keep=True
        )
        _tell(remote, "copy", pulled, named=bool(lookup_ids))
        return
    lookup_id_list = chosen(remote, source, where, lookup_ids)
    body = SelectToBody(to=destination, dry_run=dry_run)
    _act(remote, source, "copy", lookup_id_list, body, named=bool(lookup_ids))


@talking
def delete(
    remote: Remote,
    source: Source,
    where: Where = None,
    lookup_ids: LookupIds = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete messages, as if they had been received.

    Choose them with --where or --lookup-id; `posthouse queue purge` removes all messages.

    Example: posthouse message delete './private$/orders' --where 'label = "test"' --dry-run
    """
    if where is None and not lookup_ids:
        raise typer.BadParameter(
            "give --where or --lookup-id; `posthouse queue purge` removes all messages"
        )
    lookup_id_list = chosen(remote, source, where, lookup_ids)
    if not dry_run and lookup_id_list:
        confirm(lambda: f"Delete {counted(len(lookup_id_list), 'message')} of {source}?", yes)
    body = SelectBody(dry_run=dry_run)
    _act(remote, source, "delete", lookup_id_list, body, named=bool(lookup_ids))


@talking
def resend(
    remote: Remote,
    source: Source,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="DEST",
            parser=full_name,
            help="Queue to send them to (default: the queue they were sent to first).",
        ),
    ] = None,
    where: Where = None,
    lookup_ids: LookupIds = None,
    dry_run: DryRun = False,
) -> None:
    """Send messages again, such as dead letters, and remove them from their queue.

    Without --where and --lookup-id all messages are sent.

    Example: posthouse message resend './system$;deadletter' --where 'class = nack-receive-timeout'
    """
    lookup_id_list = chosen(remote, source, where, lookup_ids)
    body = ResendBody(to=to, dry_run=dry_run)
    _act(remote, source, "resend", lookup_id_list, body, named=bool(lookup_ids))


def _act(
    remote: Remote,
    source: str,
    verb: str,
    lookup_ids: list[int],
    body: SelectBody,
    *,
    named: bool,
) -> None:
    """In portions, so that there is progress to show and Ctrl-C ends it between two of them.

    `named`: the user gave these lookup ids, so one that is not there is an error.
    """
    total = BulkJson(matched=0, done=0, gone=0, refused=0, error=None, dry_run=body.dry_run)
    path = path_of("queues", source, verb)
    with (
        partly(lambda: _done(verb, total), lambda: _stopped(verb, total, len(lookup_ids), body)),
        bar(verb, len(lookup_ids), quiet=remote.json) as advance,
    ):
        for at in range(0, len(lookup_ids), LOOKUP_IDS_MAX):
            portion = lookup_ids[at : at + LOOKUP_IDS_MAX]
            asked = msgspec.structs.replace(body, lookup_ids=portion)
            total = _sum(total, remote.ask(BulkJson, "POST", path, body=asked))
            advance(at + len(portion), len(lookup_ids))
    _tell(remote, verb, total, named=named)


def _done(verb: str, total: BulkJson) -> str:
    return f"{PAST[verb]} {counted(total.done, 'message')}" if total.done else ""


def _stopped(verb: str, total: BulkJson, in_all: int, body: SelectBody) -> str:
    """The portion that was under way may be done or not."""
    if body.dry_run:
        return "Stopped. Nothing was changed."
    most = min(total.done + LOOKUP_IDS_MAX, in_all)
    again = "Run it again to continue: it takes what is left in the queue."
    if isinstance(body, SelectToBody) and not isinstance(body, MoveMessagesBody):
        again = f"Running it again copies all of them once more: delete those in {body.to} before."
    return f"{PAST[verb]} {total.done:,} to {most:,} of {counted(in_all, 'message')}. {again}"


def _sum(one: BulkJson, other: BulkJson) -> BulkJson:
    return BulkJson(
        matched=one.matched + other.matched,
        done=one.done + other.done,
        gone=one.gone + other.gone,
        refused=one.refused + other.refused,
        error=one.error or other.error,
        dry_run=one.dry_run,
    )


def _tell(remote: Remote, verb: str, result: BulkJson, *, named: bool) -> None:
    if remote.json:
        print_json(result)
    elif result.dry_run:
        refused = f"; {result.refused:,} of them would be refused" if result.refused else ""
        messages = counted(result.matched, "message")
        say(f"Would {verb} {messages}{refused}. Nothing was changed.")
    else:
        gone = f"; {result.gone:,} had left the queue before" if result.gone else ""
        say(f"{PAST[verb]} {counted(result.done, 'message')}{gone}.")
    if error := result.error:
        cause = f"{error.name} ({error.hex}): {error.cause}. {error.remedy}"
        if result.dry_run:
            complain(f"The first refusal: {cause}")
        elif result.refused:
            messages = counted(result.refused, "message")
            complain(f"{messages} refused and left in the queue. The first refusal: {cause}")
        else:
            complain(f"Stopped early: {cause}")
    if result.gone and named:
        complain(
            f"{result.gone:,} of the messages are not in the queue: they were received, moved or "
            "deleted, or were never there. `posthouse peek SRC --count N` shows what is there."
        )
    if result.error:
        raise typer.Exit(REFUSED)
    if result.gone and named:
        raise typer.Exit(NOTHING_THERE)


# -- messages of another computer, one after the other


def _chosen_far(queue: RemoteQueue, where: str | None, lookup_ids: list[int] | None) -> list[int]:
    """The lookup ids of the messages meant; a filter is applied here."""
    check(where, lookup_ids)
    if lookup_ids:
        return list(dict.fromkeys(lookup_ids))
    if where is None:
        return [message.lookup_id for message in queue.browse(body_max=0)]
    matches = parse_filter(where, content_of).matches
    return [message.lookup_id for message in queue.browse() if matches(message.to_json())]


def _move_far(
    source: RemoteQueue,
    target: RemoteQueue,
    where: str | None,
    lookup_ids: list[int] | None,
    *,
    dry_run: bool,
) -> BulkJson:
    """Moves messages; one that is gone is counted, one that is refused stays and is reported."""
    meant = _chosen_far(source, where, lookup_ids)
    done = gone = refused = 0
    first: QueueError | None = None
    for lookup_id in () if dry_run else meant:
        try:
            source.move(lookup_id, target)
            done += 1
        except MessageNotFound:
            gone += 1
        except QueueError as error:
            refused += 1
            first = first or error
            if not done:
                break  # all of them would be refused
    told = None if first is None else ErrorBody.of(first)
    return BulkJson(
        matched=len(meant), done=done, gone=gone, refused=refused, error=told, dry_run=dry_run
    )
