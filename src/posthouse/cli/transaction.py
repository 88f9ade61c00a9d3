"""`posthouse transaction`: looks at open transactions and ends those whose coordinator is gone."""

from __future__ import annotations

from typing import Annotated

import typer

from posthouse.api.types import Done, TransactionListJson
from posthouse.cli.command import DryRun, Yes, confirm, group, guid, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.output import print_json, print_table, say
from posthouse.cli.watch_option import watchable
from posthouse.model.errors import TransactionSequence
from posthouse.model.text import counted

Identifier = Annotated[
    str, typer.Argument(metavar="ID", help="Identifier, as `transaction list` shows it.")
]

PAST = {"commit": "Committed", "abort": "Aborted"}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    summary = "Open transactions: list, commit, abort."
    inner = group(app, "transaction", "Queue manager", summary)
    inner.command("list")(list_transactions)
    inner.command("commit")(commit)
    inner.command("abort")(abort)


@watchable
@talking
def list_transactions(remote: Remote) -> None:
    """List open transactions, and what each one waits for.

    A prepared one waits for its coordinator, a committed one for participants to confirm it.

    Example: posthouse transaction list
    """
    found = remote.ask(TransactionListJson, "GET", path_of("transactions")).transactions
    if remote.json:
        for one in found:
            print_json(one)
        return
    columns = ("transaction", "state", "operations", "bytes", "idle", "since", "waits for")
    rows = (
        (
            one.id,
            one.state,
            f"{one.operations:,}",
            f"{one.bytes:,}",
            f"{one.idle_s} s",
            one.prepared_time or one.decided_time or "",
            ", ".join(one.participants) or one.coordinator,
        )
        for one in found
    )
    print_table("", columns, rows)


@talking
def commit(remote: Remote, id: Identifier, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Commit a prepared transaction without its coordinator. The log records who did it.

    Example: posthouse transaction commit 5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11
    """
    _end(remote, guid(id), "commit", dry_run, yes)


@talking
def abort(remote: Remote, id: Identifier, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Abort a transaction. A prepared one is aborted without its coordinator.

    Example: posthouse transaction abort 5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11
    """
    _end(remote, guid(id), "abort", dry_run, yes)


def _end(remote: Remote, identifier: str, verb: str, dry_run: bool, yes: bool) -> None:
    if dry_run:
        _tell(remote, identifier, verb)
        return
    confirm(lambda: f"{verb.capitalize()} {identifier}, whatever its coordinator decides?", yes)
    done = remote.ask(Done, "POST", path_of("transactions", identifier, verb))
    if remote.json:
        print_json(done)
    else:
        say(f"{PAST[verb]} {identifier}.")


def _tell(remote: Remote, identifier: str, verb: str) -> None:
    found = remote.ask(TransactionListJson, "GET", path_of("transactions")).transactions
    one = next((one for one in found if one.id == identifier), None)
    if one is None:
        raise TransactionSequence(f"the transaction {identifier} is unknown or has ended")
    if remote.json:
        print_json(one)
    else:
        say(f"{identifier} is {one.state}; {verb} ends {counted(one.operations, 'operation')}.")
