"""`posthouse peer`: the queue managers that share transactions with this one."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from posthouse.api.peers import (
    PeerAddBody,
    PeerAddedJson,
    PeerJson,
    PeerListJson,
)
from posthouse.api.types import Done
from posthouse.cli.command import DryRun, Yes, confirm, group, guid, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.output import complain, print_json, print_table, say
from posthouse.model.errors import StatusNotFound

KEY = re.compile(r"phk_[0-9a-f]{64}", re.ASCII)
KEY_FILE_MAX = 4096

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the peer, for use on this side.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    summary = "Peers: queue managers that share transactions with this one: create, list, delete."
    inner = group(app, "peer", "Queue manager", summary)
    inner.command("create")(add)
    inner.command("list")(list_peers)
    inner.command("delete")(remove)


@talking
def add(
    remote: Remote,
    name: Name,
    identifier: Annotated[
        str,
        typer.Argument(
            metavar="GUID", help="GUID of the peer, as `posthouse status` there shows it."
        ),
    ],
    address: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS", help="Admin endpoint of the peer, such as http://host:8816."
        ),
    ],
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            help="File with the key that the other side printed; - reads standard input.",
        ),
    ] = None,
) -> None:
    """Add a peer that shares transactions. Add this queue manager there too, with the same key.

    Without --key-file a new key is printed, once. Use it on the other side.

    Example: posthouse peer create BETA 5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11 http://beta:8816 > key
    """
    body = PeerAddBody(
        name=name,
        guid=guid(identifier),
        url=address,
        key=None if key_file is None else _read_key(key_file),
    )
    added = remote.ask(PeerAddedJson, "POST", path_of("peers"), body=body)
    if remote.json:
        print_json(added)
        return
    if added.key is not None:
        say(added.key)
        complain(f"The key for {added.peer.name}. Store it now: it cannot be shown again.")
    else:
        say(f"{added.peer.name} is trusted.")


def _read_key(file: Path) -> str:
    if str(file) == "-":
        text = sys.stdin.read(KEY_FILE_MAX)
    else:
        with file.open(encoding="utf-8", errors="replace") as lines:
            text = lines.read(KEY_FILE_MAX)
    if not KEY.fullmatch(text.strip()):
        raise typer.BadParameter("the file holds no key; `peer create` on the other side prints it")
    return text.strip()


@talking
def list_peers(remote: Remote) -> None:
    """List the queue managers that share transactions with this one.

    Example: posthouse peer list
    """
    found = _peers(remote)
    if remote.json:
        for peer in found:
            print_json(peer)
        return
    rows = ((peer.name, peer.guid, peer.url, peer.created_time) for peer in found)
    print_table("", ("peer", "guid", "address", "added"), rows)


def _peers(remote: Remote) -> list[PeerJson]:
    return remote.ask(PeerListJson, "GET", path_of("peers")).peers


@talking
def remove(remote: Remote, name: Name, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete a peer. This is refused while a transaction with it is open.

    Example: posthouse peer delete BETA --yes
    """
    if dry_run:
        _tell(remote, name)
        return
    confirm(lambda: f"Stop trusting {name}?", yes)
    done = remote.ask(Done, "DELETE", path_of("peers", name))
    if remote.json:
        print_json(done)
    else:
        say(f"{name} is no longer trusted.")


def _tell(remote: Remote, name: str) -> None:
    peer = next((one for one in _peers(remote) if one.name.lower() == name.lower()), None)
    if peer is None:
        raise StatusNotFound(f"there is no peer {name}", "`posthouse peer list` shows the peers.")
    if remote.json:
        print_json(peer)
    else:
        say(f"{peer.name} at {peer.url} would no longer be trusted.")
