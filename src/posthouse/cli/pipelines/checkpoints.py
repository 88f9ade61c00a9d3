"""`posthouse pipeline checkpoint`: what a checkpoint of a stream has, and its way elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from posthouse.cli.command import DryRun, Json, Yes, confirm, group, talking
from posthouse.cli.connection import Remote
from posthouse.cli.output import print_json, print_table, say
from posthouse.cli.pipelines.access import need_spark, reached
from posthouse.model.text import counted

CheckpointFolder = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="Checkpoint folder of a stream.")
]


def register(inner: typer.Typer) -> None:
    """Add the commands to `posthouse pipeline`."""
    checkpoint = group(inner, "checkpoint", "Data", "Checkpoints of streams: show, move, rebase.")
    checkpoint.command("show")(show)
    checkpoint.command("move")(move)
    checkpoint.command("rebase")(rebase)


def show(checkpoint: CheckpointFolder, json: Json = False) -> None:
    """Show how far a stream has read each queue, by the last batch that is done.

    Example: posthouse pipeline checkpoint show ./checkpoint
    """
    need_spark()
    from posthouse.spark.checkpoint_tools import checkpoint_content

    found = checkpoint_content(checkpoint)
    if json:
        for one in found.positions:
            print_json({**one._asdict(), "committed": found.committed, "planned": found.planned})
        return
    rows = ((one.queue, str(one.position), one.group, one.url) for one in found.positions)
    print_table("", ("queue", "position", "group", "url"), rows)
    if found.planned > found.committed:
        say(f"Batch {found.planned} was begun and is not done.")


def move(
    checkpoint: CheckpointFolder,
    old: Annotated[str, typer.Option("--from", metavar="OLD", help="Computer name in it.")],
    new: Annotated[str, typer.Option("--to", metavar="NEW", help="Computer name from now on.")],
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Give the queues of a computer another name in a checkpoint. Stop its stream before.

    A stream follows `posthouse rename` by itself, by the GUID of the queue manager. This is for
    checkpoints without one, which version 0.1 wrote. All batches have to be done.

    Example: posthouse pipeline checkpoint move ./checkpoint --from ALPHA --to BETA --yes
    """
    need_spark()
    from posthouse.spark.checkpoint_tools import move_checkpoint

    confirm(lambda: f"Change {checkpoint} from {old} to {new}?", yes)
    found = move_checkpoint(checkpoint, old, new)
    if json:
        for one in found.positions:
            print_json(one._asdict())
        return
    say(f"{counted(len(found.positions), 'queue')} in {checkpoint}.")


@talking
def rebase(
    remote: Remote,
    checkpoint: CheckpointFolder,
    name: Annotated[str, typer.Option("--group", metavar="NAME", help="Group to place there.")],
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Place a group where a checkpoint is. Stop the stream before.

    This is the way from looking (consume=none) to consuming, or to another group, with the same
    checkpoint: run the command, and start the stream with consume=onCommit and this group. Messages
    that the stream has read before stay in their queues. It is refused if the group has a reader or
    claims, has acknowledged more than the checkpoint has read, or has been read with by others.

    Example: posthouse pipeline checkpoint rebase ./checkpoint --group billing --dry-run
    """
    need_spark()
    from posthouse.spark.checkpoint_tools import rebase_checkpoint

    with reached(remote, "operate") as place:
        access = (checkpoint, name, place.url, place.token_file, place.ca_file)
        found = rebase_checkpoint(*access, dry_run=True)
        if not dry_run:
            what = counted(len(found), "queue")
            confirm(lambda: f"Place the group {name} of {what} where {checkpoint} is?", yes)
            found = rebase_checkpoint(*access)
    if remote.json:
        for one in found:
            print_json(one._asdict())
        return
    rows = (
        (one.queue, one.group, "" if one.before is None else str(one.before), str(one.position))
        for one in found
    )
    print_table("", ("queue", "group", "before", "position"), rows)
