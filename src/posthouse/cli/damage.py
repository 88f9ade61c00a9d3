"""`posthouse damage`: damaged records of messages that were set aside, and the decision on them."""

from __future__ import annotations

from typing import Annotated

import typer

from posthouse.api.status import (
    DamageAcceptBody,
    DamagedRecordJson,
    DamageListJson,
    RecordPlaceJson,
)
from posthouse.api.types import Done
from posthouse.cli.command import DryRun, Yes, confirm, group, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.output import print_json, print_table, say
from posthouse.model.errors import InvalidParameter
from posthouse.model.text import counted

COLUMNS = ("file", "offset", "bytes", "queue", "lookup id", "message", "reason")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    summary = "Damaged records of messages: list, accept."
    inner = group(app, "damage", "Queue manager", summary)
    inner.command("list")(list_damage)
    inner.command("accept")(accept)


@talking
def list_damage(remote: Remote) -> None:
    """List damaged records that were set aside and that you have not decided about.

    All other messages are available. A record is reported until you accept the loss, or restart
    with a good copy of the file. A record with a queue and a lookup id belongs to a message that is
    still counted there but cannot be read. Without them, the message is missing unless it was
    received before.

    Example: posthouse damage list
    """
    found = _listed(remote)
    if remote.json:
        for one in found:
            print_json(one)
        return
    rows = (
        (
            one.file,
            f"{one.offset:,}",
            f"{one.bytes:,}",
            one.queue or "",
            "" if one.lookup_id is None else str(one.lookup_id),
            str(one.message),
            one.reason,
        )
        for one in found
    )
    print_table("", COLUMNS, rows)


@talking
def accept(
    remote: Remote,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="File, as `damage list` shows it.")
    ] = None,
    offset: Annotated[
        int | None,
        typer.Option("--offset", metavar="N", help="Accept only the record at this offset."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Accept all damaged records.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Give up damaged records. Their messages are purged, and the records are no longer reported.

    Copy the file first if you want to keep what is left of it: its space is reused later. The log
    records who accepted the loss. For a store that does not start, see `posthouse doctor`.

    Example: posthouse damage accept 00000007.log
    """
    if (file is None) != everything:
        raise typer.BadParameter("name a FILE, or give --all")
    if offset is not None and file is None:
        raise typer.BadParameter("--offset needs a FILE")
    chosen = [
        one
        for one in _listed(remote)
        if everything or (one.file == file and offset in (None, one.offset))
    ]
    if not chosen and not everything:
        raise InvalidParameter(
            f"{file} has no damaged record to decide about", "`posthouse damage list` shows all."
        )
    if dry_run:
        _tell(remote, chosen, "would be given up")
        return
    if chosen:
        confirm(lambda: f"Give up {counted(len(chosen), 'damaged record')} for good?", yes)
        places = [RecordPlaceJson(file=one.file, offset=one.offset) for one in chosen]
        remote.ask(Done, "POST", path_of("damage", "accept"), body=DamageAcceptBody(records=places))
    _tell(remote, chosen, "given up")


def _listed(remote: Remote) -> list[DamagedRecordJson]:
    return remote.ask(DamageListJson, "GET", path_of("damage")).records


def _tell(remote: Remote, chosen: list[DamagedRecordJson], outcome: str) -> None:
    for one in chosen:
        if remote.json:
            print_json(one)
        else:
            say(f"{one.file}, offset {one.offset}: {outcome}.")
    if not chosen and not remote.json:
        say("Nothing is damaged.")
