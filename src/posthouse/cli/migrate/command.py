"""`posthouse migrate`: takes over the queues and messages of another machine."""

from __future__ import annotations

import typer

from posthouse.cli.command import group
from posthouse.cli.migrate.plan import plan
from posthouse.cli.migrate.pull import pull
from posthouse.cli.migrate.pulls import forget, list_pulls
from posthouse.cli.migrate.switch import switch
from posthouse.cli.migrate.verify import verify


def register(app: typer.Typer) -> None:
    """Add the commands."""
    summary = "Move off another machine: plan, pull, verify, switch."
    inner = group(app, "migrate", "Other machines", summary)
    for command in (plan, pull, verify, switch):
        inner.command()(command)
    inner.command("list")(list_pulls)
    inner.command()(forget)
