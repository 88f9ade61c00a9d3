"""`posthouse lease`: messages that clients received on a lease: list the leases, end some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from posthouse.api.leases import HeldLeaseJson, LeaseListJson, LeaseReleasedJson
from posthouse.cli.command import DryRun, Yes, confirm, group, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.name_hints import full_name
from posthouse.cli.output import print_json, print_table, say
from posthouse.cli.watch_option import watchable
from posthouse.model.errors import InvalidHandle
from posthouse.model.text import counted

OfQueue = Annotated[
    str | None,
    typer.Option("--queue", metavar="PATH", parser=full_name, help="Only leases of this queue."),
]
OfUser = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="Only leases of this user.")
]
Identifiers = Annotated[
    list[str] | None,
    typer.Argument(metavar="[LEASE]...", help="Leases, as `lease list` shows them."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    inner = group(app, "lease", "Queue manager", "Messages on a lease: list leases, end them.")
    inner.command("list")(list_leases)
    inner.command("end")(end)


def _leases(remote: Remote, queue: str | None, user: str | None) -> LeaseListJson:
    given = {"queue": queue, "user": user}
    query = {name: value for name, value in given.items() if value is not None}
    return remote.ask(LeaseListJson, "GET", path_of("leases"), query=query)


@watchable
@talking
def list_leases(remote: Remote, queue: OfQueue = None, user: OfUser = None) -> None:
    """List the leases: who holds messages of which queue, and until when.

    Administrators see all leases, others their own.

    Example: posthouse lease list --queue './private$/orders'
    """
    found = _leases(remote, queue, user)
    if remote.json:
        for one in found.leases:
            print_json(one)
        return
    columns = ("lease", "queue", "user", "token", "messages", "until")
    print_table("", columns, map(_cells, found.leases))
    if found.left_out:
        say(f"{found.left_out:,} more are not shown. Choose with --queue or --user.")


def _cells(one: HeldLeaseJson) -> tuple[str, ...]:
    return one.lease, one.queue, one.user, one.token, f"{one.messages:,}", one.ends_time


@talking
def end(
    remote: Remote,
    leases: Identifiers = None,
    queue: OfQueue = None,
    user: OfUser = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """End leases: their messages are available again, to any reader.

    Their holders may have worked on the messages, so they count as tried once more. Administrators
    may end any lease, others their own.

    Example: posthouse lease end 7d0c4f5e9a514b118e6c5b7a4a3e0f5a

    Example: posthouse lease end --user eve --queue './private$/orders' --yes
    """
    chosen = set(leases or ())
    if not chosen and queue is None and user is None:
        raise typer.BadParameter("name leases, or choose them with --queue or --user")
    found = [
        one for one in _leases(remote, queue, user).leases if not chosen or one.lease in chosen
    ]
    missing = sorted(chosen - {one.lease for one in found})
    if missing:
        raise InvalidHandle(
            f"there is no lease {missing[0]}: it has ended, or its time is over",
            "`posthouse lease list` shows the leases that there are.",
        )
    if dry_run:
        if remote.json:
            for one in found:
                print_json(one)
        else:
            say(f"Would end {_counts(found)}.")
        return
    confirm(lambda: f"End {_counts(found)}?", yes)
    ended = []
    for one in found:
        try:
            done = remote.ask(LeaseReleasedJson, "DELETE", path_of("leases", one.lease))
        except InvalidHandle:  # its holder has ended it meanwhile, or its time is over
            continue
        ended.append(done)
        if remote.json:
            print_json(done)
    if not remote.json:
        say(f"Ended {_counts(ended)}.")


def _counts(leases: Sequence[HeldLeaseJson | LeaseReleasedJson]) -> str:
    messages = sum(one.messages for one in leases)
    return f"{counted(len(leases), 'lease')} with {counted(messages, 'message')}"
