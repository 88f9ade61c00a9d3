"""`posthouse rename`: another computer name for the queue manager of a stopped home."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posthouse.cli.command import Home, Json, Yes, confirm
from posthouse.cli.output import print_json, say
from posthouse.cli.start_errors import opening
from posthouse.model.text import counted
from posthouse.net.control_socket import default_home
from posthouse.runtime.rename import Renamed, current_name
from posthouse.runtime.rename import rename as rename_home


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Queue manager")(rename)


def rename(
    name: Annotated[str, typer.Argument(metavar="NAME", help="New computer name.")],
    home: Home = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="File of settings (default: posthouse.toml in the home).",
        ),
    ] = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Give the queue manager of a stopped home another computer name.

    Stop the queue manager first. The command changes the path names of its queues, its entry and
    public queues in its own directory, and the name of its file server. Messages, identifiers,
    users, rights, groups and jobs stay. It cannot change what others keep: queue names in their
    settings and in waiting messages, their directory entries, and certificates made for the old
    name.

    Example: posthouse rename BETA --home ./alpha
    """
    place = home or default_home()
    with opening(place, "Not renamed"):
        confirm(lambda: f"Rename {current_name(place)} ({place}) to {name}?", yes)
        renamed = rename_home(place, name, config)
    if json:
        print_json(renamed._asdict())
    else:
        _tell(renamed)


def _tell(renamed: Renamed) -> None:
    if renamed.old == renamed.name:
        say(f"The name is already {renamed.name}.")
        return
    public = f", {renamed.public_queues:,} of them public" if renamed.public_queues else ""
    say(f"Renamed {renamed.old} to {renamed.name} with {counted(renamed.queues, 'queue')}{public}.")
    for note in renamed.notes:
        say(note)
    say(f"Start it with: posthouse serve --home {renamed.home}")
