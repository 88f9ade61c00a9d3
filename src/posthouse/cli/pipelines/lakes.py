"""Lakes on the command line: how they are named, and `posthouse pipeline erase`."""

from __future__ import annotations

import tomllib
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posthouse.cli.command import DryRun, Json, Yes, confirm
from posthouse.cli.error_output import CommandFailed
from posthouse.cli.output import complain, print_json, say
from posthouse.cli.pipelines.access import Master, need_lake, need_spark, running_spark
from posthouse.model.text import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from posthouse.spark.lakes.erasure import Erased

Lake = Annotated[
    str,
    typer.Option(
        "--lake", metavar="DIR", help="Lake: a folder, or an object store such as s3://BUCKET/PATH."
    ),
]
StorageOptions = Annotated[
    Path | None,
    typer.Option(
        "--storage-options",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="TOML file with the options of the object store (default: its environment variables).",
    ),
]


def register(inner: typer.Typer) -> None:
    """Add the commands."""
    inner.command("erase")(erase)


def storage_options(file: Path | None) -> dict[str, str] | None:
    """The options of an object store in a file, as `deltalake` takes it."""
    if file is None:
        return None
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} is not TOML: {error}") from None
    wrong = [name for name, value in found.items() if not isinstance(value, str)]
    if wrong:
        raise typer.BadParameter(f"{file}: {wrong[0]} is not a text between quotes")
    return found


def moment(text: str) -> datetime:
    """A point in time; UTC where it has no zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter("a time is written 2026-01-31 or 2026-01-31T12:00:00") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def version_or_moment(text: str) -> int | datetime:
    """A version of a lake by its number, or by a time."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else moment(text)


def erase(
    lake: Lake,
    where: Annotated[
        str,
        typer.Option("--where", metavar="SQL", help="SQL condition over the columns of a message."),
    ],
    store: StorageOptions = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
    master: Master = None,
) -> None:
    """Erase messages from a lake and from all its older versions, for good.

    The condition has the SQL of `pipeline sql` and `pipeline replay --where`, so that a SELECT
    shows first what will go; a backslash between quotes is written twice. DuckDB answers plain
    conditions, and Spark all others. Files with such messages are rewritten without them, and files
    of older versions are deleted, so that those versions can no longer be read. Then every
    remaining file is checked: the command succeeds only if messages matched, and none is left.
    Messages in queues, and copies of the lake elsewhere, are not changed.

    Example: posthouse pipeline erase --lake ./lake --where "label = 'customer 4711'" --dry-run
    """
    need_lake()
    from posthouse.spark import erase as run

    def approve(messages: int) -> None:
        what = counted(messages, "message") if messages else "no message, but all older versions,"
        confirm(lambda: f"Erase {what} from {lake} for good?", yes)

    with ExitStack() as running:

        def spark() -> SparkSession:
            need_spark()
            return running.enter_context(running_spark("erase", master, quiet=json))

        options = storage_options(store)
        done = run(
            lake, where, dry_run=dry_run, storage_options=options, spark=spark, approve=approve
        )
    if json:
        print_json(done._asdict())
    else:
        _tell_erased(done)
    if not done.messages:
        raise _nothing(lake, where)


def _nothing(lake: str, where: str) -> CommandFailed:
    """The error of a condition that holds for no message: it is rarely what was meant."""
    remedy = (
        'Look at what there is: posthouse pipeline sql --lake DIR "SELECT * FROM lake.messages"'
    )
    if "\\" in where:
        remedy = (
            "In SQL a backslash between quotes is written twice, and a shell may take one of two "
            f"away. {remedy}"
        )
    return CommandFailed(f"no message in {lake} matches {where}", remedy, name="NO_MATCH")


def _tell_erased(done: Erased) -> None:
    if not done.messages:
        return
    if done.dry_run:
        say(
            f"Would erase {counted(done.messages, 'message')} in {counted(done.rewritten, 'file')}."
        )
        return
    say(
        f"Erased {counted(done.messages, 'message')}: files rewritten {done.rewritten:,}, deleted "
        f"{done.deleted:,}. Checked the remaining files ({done.files:,}): {done.left:,} such "
        "messages left."
    )
    for name in done.unknown:
        complain(f"{name} is not a file of the lake, and was not checked.")
