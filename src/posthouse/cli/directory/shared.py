"""Shared code of the `posthouse directory` commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeVar

import typer

from posthouse.api.directory import (
    ChangedFieldJson,
    ChangedObjectJson,
    DirectoryChangeJson,
    DirectoryImportBody,
    DirectoryRemoveBody,
    ObjectKind,
)
from posthouse.cli.command import confirm
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.output import print_json, print_table, say
from posthouse.directory.document.document import AliasPart, Document, ListPart

NAME_LENGTH_MAX = 256
SHOWN_MAX = 1000  # changes that people read


def named(name: str) -> str:
    """A name that an object of the directory may have, as far as its length goes."""
    if not 0 < len(name) <= NAME_LENGTH_MAX:
        raise typer.BadParameter(f"a name has 1 to {NAME_LENGTH_MAX} characters")
    return name


Many = list[str] | None
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the object.", callback=named)]


def document_of(remote: Remote) -> Document:
    """The whole directory."""
    return remote.ask(Document, "GET", path_of("directory"))


def given(**fields: Any) -> dict[str, Any]:
    """Fields of a part that the command line speaks of; an empty text empties a list."""
    return {
        name: [one for one in value if one] if isinstance(value, list) else value
        for name, value in fields.items()
        if value is not None
    }


Part = TypeVar("Part")


def print_parts(
    remote: Remote,
    parts: Iterable[Part],
    columns: Sequence[str],
    row: Callable[[Part], Sequence[str]],
) -> None:
    """Parts of the document: as they are for machines, a row each for people."""
    if remote.json:
        for part in parts:
            print_json(part)
    else:
        print_table("", columns, map(row, parts))


def changed(
    remote: Remote,
    document: Document,
    *,
    only: Sequence[str] | None = None,
    prune: bool = False,
    dry_run: bool = False,
) -> None:
    """Change the directory to match a document, and print what changed."""
    fields = None if only is None else list(only)
    body = DirectoryImportBody(document=document, only=fields, prune=prune, dry_run=dry_run)
    tell(remote, remote.ask(DirectoryChangeJson, "POST", path_of("directory"), body=body))


def tell(remote: Remote, done: DirectoryChangeJson) -> None:
    """What a change did, or would do."""
    if remote.json:
        for change in done.changes:
            print_json(change)
    elif not done.changes:
        say("The directory has this already.")
    else:
        rows = (
            (change.change, change.kind, change.name, _how(change))
            for change in done.changes[:SHOWN_MAX]
        )
        print_table("", ("change", "what", "name", "how"), rows)
        if len(done.changes) > SHOWN_MAX:
            say(f"{len(done.changes) - SHOWN_MAX:,} more; add --json to see all.")


def _how(change: ChangedObjectJson) -> str:
    parts = [*map(_different, change.fields)]
    if change.named_by:
        more = f" and {change.left_off:,} more" if change.left_off else ""
        parts.append(f"still named by {', '.join(change.named_by)}{more}")
    return "; ".join(parts)


def tell_where(remote: Remote, parts: Iterable[ListPart | AliasPart], name: str) -> None:
    """Under which name a list or an alias is sent to."""
    if not remote.json:
        found = [part.guid for part in parts if part.name.casefold() == name.casefold()]
        say(f"Messages for {name} go to DL={', '.join(found)}.")


def _different(change: ChangedFieldJson) -> str:
    if not change.before:
        return f"{change.field} = {change.after}"
    if not change.after and change.before.isdecimal():
        return f"{change.field} back to its default (was {change.before})"
    if not change.after:
        return f"{change.field} removed (was {change.before})"
    return f"{change.field} = {change.after} (was {change.before})"


def remove_object(remote: Remote, kind: ObjectKind, name: str, dry_run: bool, yes: bool) -> None:
    """Delete an object, if the operator confirms it."""
    if not dry_run:
        confirm(lambda: f"Remove the {kind} {name} from the directory?", yes)
    body = DirectoryRemoveBody(kind=kind, name=name, dry_run=dry_run)
    path = path_of("directory", "remove")
    tell(remote, remote.ask(DirectoryChangeJson, "POST", path, body=body))
