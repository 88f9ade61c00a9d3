"""`posthouse migrate`: takes over the queues and messages of another machine."""

from __future__ import annotations

import typer

from posthouse.cli.command import group
from posthouse.cli.migrate.pull import pull


def register(app: typer.Typer) -> None:
    """Add the commands."""
    summary = "Move off another machine: plan, pull, verify, switch."
    inner = group(app, "migrate", "Other machines", summary)
    inner.command()(pull)
