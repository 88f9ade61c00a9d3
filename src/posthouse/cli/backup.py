"""`posthouse backup` and `restore`: a copy of a running queue manager, and a home made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posthouse.api.types import BackupBody, BackupJson
from posthouse.cli.command import Home, Json, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.error_output import CommandFailed
from posthouse.cli.output import print_json, say
from posthouse.cli.progress import bar, spinner
from posthouse.net.control_socket import default_home
from posthouse.runtime.backup import restore as restore_home


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(rich_help_panel="Queue manager")(backup)
    app.command(rich_help_panel="Queue manager")(restore)


@talking
def backup(
    remote: Remote,
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="New folder for the copy, on the machine of the queue manager."
        ),
    ],
) -> None:
    """Copy all data of a running queue manager. Senders and readers are not interrupted.

    Example: posthouse backup ./backup-monday
    """
    body = BackupBody(directory=str(directory.absolute()))
    with spinner("copying", quiet=remote.json):
        made = remote.ask(BackupJson, "POST", path_of("backup"), body=body)
    if remote.target.url is None and not directory.absolute().exists():
        raise CommandFailed(
            f"the queue manager wrote {made.directory}, but you cannot see that folder: a service "
            "has its own /tmp",
            "Name a folder that the service may write to, such as /var/backups/posthouse.",
        )
    if remote.json:
        print_json(made)
    else:
        say(f"The backup is in {made.directory}.")
        say("It has no keys/ (seal.key, TLS files): keep a copy of that folder apart.")


def restore(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder that `posthouse backup` wrote.")
    ],
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys",
            metavar="FILE",
            help="keys/seal.key of the home that was backed up, which no backup has.",
        ),
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Restore a backup into a new home, or one without a store. No queue manager may run on it.

    The backup is checked completely before the home is made. New identifiers start far above the
    last ones, so that none is used twice. Lines with ! name what a backup does not have: without
    --keys, passwords of the doors rpc and ncp and private keys of certificates.

    Example: posthouse restore ./backup-monday --home ./second
    """
    place = home or default_home()
    with bar("restoring", 0, quiet=json) as advance:
        restored = restore_home(directory, place, advance, keys)
    if json:
        values = restored._asdict() | {"manifest": restored.manifest, "home": str(place)}
        print_json(values)
        return
    for note in restored.notes():
        say(note)
    say(f"Start it as {restored.manifest.name} with: posthouse serve --home {place}")
