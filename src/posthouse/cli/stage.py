"""`posthouse stage`: batches that wait to be published; drops those of dead queries."""

from __future__ import annotations

from typing import Annotated

import typer

from posthouse.api.stages import (
    DiscardedJson,
    QueryJson,
    StageJson,
    StageListJson,
)
from posthouse.api.types import Done
from posthouse.cli.command import DryRun, Yes, confirm, group, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.output import print_json, print_table, say
from posthouse.cli.watch_option import watchable
from posthouse.model.text import counted

Query = Annotated[str, typer.Argument(metavar="QUERY", help="Query, as `stage list` shows it.")]
Batch = Annotated[int, typer.Argument(metavar="BATCH", min=0, help="Number of the batch.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    summary = "Stages: messages of batches that are not published yet: list, show, discard, forget."
    inner = group(app, "stage", "Queue manager", summary)
    inner.command("list")(list_stages)
    inner.command("show")(show)
    inner.command("discard")(discard)
    inner.command("forget")(forget)


def _stages(remote: Remote) -> StageListJson:
    return remote.ask(StageListJson, "GET", path_of("stages"))


@watchable
@talking
def list_stages(remote: Remote) -> None:
    """List the stages: messages of batches that are not published yet.

    Stages are durable and invisible to readers. A stage that is not published expires.

    Example: posthouse stage list
    """
    found = _stages(remote)
    if remote.json:
        for one in found.stages:
            print_json(one)
        return
    columns = ("query", "batch", "partition", "attempt", "messages", "bytes", "since", "until")
    print_table("", columns, map(_cells, found.stages))
    if found.left_out:
        say(f"{found.left_out:,} more are not shown.")


def _cells(one: StageJson) -> tuple[str, ...]:
    return (
        one.query,
        str(one.batch),
        str(one.partition),
        str(one.attempt),
        f"{one.messages:,}",
        f"{one.bytes:,}",
        one.created_time,
        one.expires_time,
    )


@talking
def show(remote: Remote, query: Query) -> None:
    """Show the last published batch of a query.

    Example: posthouse stage show 7d0c4f5e-9a51-4b11-8e6c-5b7a4a3e0f5a
    """
    found = remote.ask(QueryJson, "GET", path_of("queries", query))
    if remote.json:
        print_json(found)
    elif found.batch is None:
        say(f"{query} has published nothing; {found.stages:,} stages wait.")
    else:
        say(
            f"{query} has published batch {found.batch} ({found.messages:,} messages, "
            f"{found.published_time}); {found.stages:,} stages wait."
        )


@talking
def discard(
    remote: Remote, query: Query, batch: Batch, dry_run: DryRun = False, yes: Yes = False
) -> None:
    """Delete the stages of a batch that will not be published, with their messages.

    Example: posthouse stage discard 7d0c4f5e-9a51-4b11-8e6c-5b7a4a3e0f5a 12
    """
    chosen = [s for s in _stages(remote).stages if (s.query, s.batch) == (query, batch)]
    if dry_run:
        say(f"Would discard {_counts(chosen)}.")
        return
    confirm(lambda: f"Discard {_counts(chosen)}?", yes)
    done = remote.ask(DiscardedJson, "DELETE", path_of("stages", query, str(batch)))
    if remote.json:
        print_json(done)
    else:
        say(f"Discarded {counted(done.stages, 'stage')}.")


def _counts(stages: list[StageJson]) -> str:
    messages = sum(one.messages for one in stages)
    return f"{counted(len(stages), 'stage')} with {counted(messages, 'message')}"


@talking
def forget(remote: Remote, query: Query, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Forget the last published batch of a query, and delete its stages. Published messages stay.

    The next batch of the query may then have any number. A batch that was published before is
    published again.

    Example: posthouse stage forget 7d0c4f5e-9a51-4b11-8e6c-5b7a4a3e0f5a --dry-run
    """
    known = remote.ask(QueryJson, "GET", path_of("queries", query))
    what = f"that {query} has published batch {known.batch}, and {known.stages:,} stages of it"
    if dry_run:
        say(f"Would forget {what}.")
        return
    confirm(lambda: f"Forget {what}?", yes)
    done = remote.ask(Done, "DELETE", path_of("queries", query))
    if remote.json:
        print_json(done)
    else:
        say(f"{query} is forgotten.")
