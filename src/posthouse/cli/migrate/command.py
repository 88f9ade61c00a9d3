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


def register(app: typer.Typer) -> None:
    """Add the commands."""
    summary = "Move off another machine: plan, pull, verify, switch."
    inner = group(app, "migrate", "Other machines", summary)
    for command in (plan, pull, verify, switch):
        inner.command()(command)
    inner.command("list")(list_pulls)
    inner.command()(forget)


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
            one.last_time or "", "running" if one.running else "",
        )
        for one in pulls
    ]  # fmt: skip
    columns = ("Pull", "Host", "Source", "Queue", "Messages", "Bytes", "Last", "State")
    print_table("", columns, rows)


@talking
def forget(
    remote: Remote,
    number: Annotated[int, typer.Argument(metavar="PULL", min=1, max=U32_MAX, help="Its number.")],
    yes: Yes = False,
) -> None:
    """Forget what was pulled from a queue: another run takes all that the source has.

    The messages stay. For machines that were set up again, and when all is over.

    Example: posthouse migrate forget 1
    """
    confirm(lambda: f"Forget which messages pull {number} has taken?", yes)
    remote.ask(Done, "DELETE", path_of("pulls", str(number)))
    if not remote.json:
        say(f"Pull {number} is forgotten.")
