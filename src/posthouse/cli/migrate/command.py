"""`posthouse migrate`: takes over the queues and messages of another machine."""

from __future__ import annotations

from typing import Annotated

import typer

from posthouse.api.pulls import PullListJson
from posthouse.api.types import U32_MAX, Done
from posthouse.cli.command import Yes, confirm, group, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.migrate.plan import plan
from posthouse.cli.migrate.pull import pull
from posthouse.cli.migrate.switch import switch
from posthouse.cli.migrate.verify import verify
from posthouse.cli.output import print_json, print_table, say
from posthouse.cli.watch_option import watchable
from posthouse.model.errors import InvalidParameter


def register(app: typer.Typer) -> None:
    """Add the commands."""
    summary = "Move off another machine: plan, pull, verify, switch."
    inner = group(app, "migrate", "Other machines", summary)
    for command in (plan, pull, verify, switch):
        inner.command()(command)
    inner.command("list")(list_pulls)
    inner.command()(forget)


@watchable
@talking
def list_pulls(remote: Remote) -> None:
    """List what was pulled from queues of other machines.

    Example: posthouse migrate list
    """
    pulls = remote.ask(PullListJson, "GET", path_of("pulls")).pulls
    if remote.json:
        for one in pulls:
            print_json(one)
        return
    rows = [
        (
            str(one.id), one.host, one.source, one.queue, f"{one.messages:,}", f"{one.bytes:,}",
            f"{one.copies:,}", one.last_time or "", "running" if one.running else "",
        )
        for one in pulls
    ]  # fmt: skip
    columns = ("pull", "host", "source", "queue", "messages", "bytes", "copies", "last", "state")
    print_table("", columns, rows)


@talking
def forget(
    remote: Remote,
    numbers: Annotated[
        list[int] | None,
        typer.Argument(
            metavar="[PULL]...",
            min=1,
            max=U32_MAX,
            help="Numbers of pulls (posthouse migrate list).",
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option("--machine", metavar="HOST", help="Forget all pulls from this machine."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Forget all pulls.")] = False,
    yes: Yes = False,
) -> None:
    """Forget what was pulled from queues: another run takes all that the source has.

    The messages stay. For machines that were set up again, after a rehearsal with --keep, and when
    all is over.

    Example: posthouse migrate forget 1

    Example: posthouse migrate forget --machine winhost
    """
    if bool(numbers) + (machine is not None) + every != 1:
        raise typer.BadParameter("name pulls by their numbers, or give --machine HOST, or --all")
    chosen = numbers or _pulls_of(remote, machine)
    shown = ", ".join(map(str, chosen))
    if chosen:
        confirm(lambda: f"Forget which messages were taken by these pulls: {shown}?", yes)
    elif not remote.json:
        say("There are no pulls.")
    for number in chosen:
        remote.ask(Done, "DELETE", path_of("pulls", str(number)))
        if not remote.json:
            say(f"Pull {number} is forgotten.")


def _pulls_of(remote: Remote, machine: str | None) -> list[int]:
    """The pulls from a machine; None: from all of them."""
    pulls = remote.ask(PullListJson, "GET", path_of("pulls")).pulls
    chosen = [one.id for one in pulls if machine is None or one.host == machine.casefold()]
    if machine is not None and not chosen:
        raise InvalidParameter(
            f"nothing was pulled from {machine}",
            "posthouse migrate list shows the machines that there are.",
        )
    return chosen
