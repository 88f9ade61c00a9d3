"""Lakes on the command line: how they are named, and `posthouse pipeline erase`."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posthouse.cli.command import DryRun, Json, Yes, confirm
from posthouse.cli.output import complain, print_json, say
from posthouse.cli.pipelines.access import need_lake
from posthouse.model.text import counted

if TYPE_CHECKING:
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
) -> None:
    """Erase messages from a lake and from all its older versions, for good.

    Files with such messages are rewritten without them, and files of older versions are deleted, so
    that those versions can no longer be read. Then every remaining file is checked: the command
    succeeds only if no message matches. Messages in queues, and copies of the lake elsewhere, are
    not changed.

    Example: posthouse pipeline erase --lake ./lake --where "label = 'customer 4711'" --dry-run
    """
    need_lake()
    from posthouse.spark import erase as run

    options = storage_options(store)
    found = run(lake, where, dry_run=True, storage_options=options)
    if not dry_run:
        confirm(lambda: f"Erase {counted(found.messages, 'message')} from {lake} for good?", yes)
        found = run(lake, where, storage_options=options)
    if json:
        print_json(found._asdict())
    else:
        _tell_erased(found)


def _tell_erased(done: Erased) -> None:
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
