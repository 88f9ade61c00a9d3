"""`posthouse operation`: work on many messages that the server does by itself."""

from __future__ import annotations

import time
from secrets import token_hex
from typing import Annotated, get_args

import msgspec
import typer

from posthouse.api.operations import (
    Act,
    ForgottenJson,
    OperationBody,
    OperationJson,
    OperationKey,
    OperationListJson,
)
from posthouse.cli.command import DryRun, Yes, confirm, group, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.exit_codes import REFUSED
from posthouse.cli.messages.selection import LookupIds, Source, Where
from posthouse.cli.name_hints import full_name
from posthouse.cli.output import print_json, print_table, say

WAIT_S = 0.5
ENDED = ("done", "stopped", "failed", "interrupted")
Number = Annotated[
    int,
    typer.Argument(metavar="N", min=1, max=(1 << 32) - 1, help="Number of the operation."),
]


def _key(text: str) -> str:
    try:
        return msgspec.convert(text, OperationKey)
    except msgspec.ValidationError:
        raise typer.BadParameter("a key has 8 to 64 letters, digits and . _ -") from None


def register(app: typer.Typer) -> None:
    """Add the commands."""
    inner = group(
        app, "operation", "Messages", "Operations: start, list, show, stop, resume, delete."
    )
    inner.command("start")(start)
    inner.command("list")(list_operations)
    inner.command("show")(show)
    inner.command("stop")(stop)
    inner.command("resume")(resume)
    inner.command("delete")(delete)


@talking
def start(
    remote: Remote,
    act: Annotated[
        Act,
        typer.Argument(
            metavar="|".join(get_args(Act)), help="What to do with the messages of the queue."
        ),
    ],
    queue: Source,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="DEST",
            parser=full_name,
            help="Queue they go to; move and copy need it.",
        ),
    ] = None,
    where: Where = None,
    lookup_ids: LookupIds = None,
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="KEY", help="With return: key of a group of failures."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the operation has ended.")] = (
        False
    ),
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            parser=_key,
            help="Key of your choice: 8 to 64 letters, digits and . _ -. Repeated with the same "
            "key, the command shows the operation of the first start.",
        ),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Start work on many messages. The server does it by itself; you can stop and resume it.

    Without --where and --lookup-id all messages of the queue are meant; those that come later are
    left alone.

    Example: posthouse operation start move orders --to audit --where 'priority < 3' --yes

    Example: posthouse operation start return 'orders;failed' --dry-run --wait

    Example: posthouse operation start delete orders --key cleanup-2026-05-01 --yes
    """
    if not dry_run:
        confirm(lambda: f"{act.capitalize()} messages of {queue}?", yes)
    body = OperationBody(
        act=act,
        queue=queue,
        to=to,
        where=where,
        lookup_ids=lookup_ids or None,
        group=group,
        dry_run=dry_run,
        key=key or token_hex(16),
    )
    path = path_of("operations")
    begun = remote.ask(OperationJson, "POST", path, body=body, repeatable=True)
    _follow(remote, begun, wait)


def _follow(remote: Remote, shown: OperationJson, wait: bool) -> None:
    while wait and shown.state not in ENDED:
        time.sleep(WAIT_S)
        shown = _ask(remote, shown.id)
    _tell(remote, shown)
    if shown.state == "failed":
        raise typer.Exit(REFUSED)


def _ask(remote: Remote, number: int) -> OperationJson:
    return remote.ask(OperationJson, "GET", path_of("operations", str(number)))


def _tell(remote: Remote, one: OperationJson) -> None:
    if remote.json:
        print_json(one)
        return
    say(f"Operation {one.id}: {_words(one)}")
    if one.sample:
        say(f"For example the lookup ids {', '.join(map(str, one.sample))}.")
    if one.error:
        say(one.error)


def _words(one: OperationJson) -> str:
    goal = f" to {one.to}" if one.to else ""
    dry = ", a dry run" if one.dry_run else ""
    counts = f"{one.scanned:,} of {one.total:,} looked at, {one.matched:,} matched"
    done = f"{one.done:,} done, {one.gone:,} gone, {one.refused:,} refused"
    return f"{one.act} {one.queue}{goal}{dry}: {one.state}; {counts}, {done}"


@talking
def list_operations(remote: Remote) -> None:
    """List operations, the newest first.

    Example: posthouse operation list
    """
    found = remote.ask(OperationListJson, "GET", path_of("operations")).operations
    if remote.json:
        for one in found:
            print_json(one)
        return
    rows = (
        (
            str(one.id),
            one.act + (" (dry)" if one.dry_run else ""),
            one.queue,
            one.state,
            f"{one.scanned:,}/{one.total:,}",
            f"{one.done:,}",
            f"{one.refused:,}",
            one.user,
            one.begun_time,
        )
        for one in found
    )
    columns = ("no", "act", "queue", "state", "looked at", "done", "refused", "user", "begun")
    print_table("", columns, rows)


@talking
def show(remote: Remote, number: Number) -> None:
    """Show an operation: what was asked for, and how far it has come.

    Example: posthouse operation show 3
    """
    _tell(remote, _ask(remote, number))


@talking
def stop(remote: Remote, number: Number) -> None:
    """Stop an operation after the step it is in. Nothing is lost, and you can resume it.

    Example: posthouse operation stop 3
    """
    path = path_of("operations", str(number), "stop")
    _tell(remote, remote.ask(OperationJson, "POST", path))


@talking
def resume(
    remote: Remote,
    number: Number,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the operation has ended.")] = (
        False
    ),
) -> None:
    """Go on with an operation that was stopped, failed or was interrupted by a restart.

    Example: posthouse operation resume 3
    """
    path = path_of("operations", str(number), "resume")
    _follow(remote, remote.ask(OperationJson, "POST", path), wait)


@talking
def delete(remote: Remote, number: Number, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Forget an operation that does not run. What it did stays done.

    Example: posthouse operation delete 3 --yes
    """
    if dry_run:
        _tell(remote, _ask(remote, number))
        return
    confirm(lambda: f"Forget the operation {number}?", yes)
    done = remote.ask(ForgottenJson, "DELETE", path_of("operations", str(number)))
    if remote.json:
        print_json(done)
    else:
        say(f"The operation {number} is forgotten.")
