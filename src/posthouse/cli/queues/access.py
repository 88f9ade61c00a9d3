"""`posthouse queue grant|deny|revoke|access`: who may do what with a queue."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from posthouse.api.access import AccessJson, GrantBody, RevokeBody
from posthouse.api.types import (
    Done,
    Right,
)
from posthouse.cli.command import QueuePath, talking, words
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.output import print_json, print_table, say

RIGHTS = get_args(Right)

Who = Annotated[
    str,
    typer.Argument(
        metavar="WHO", help="User name, SID, or users, everyone, anonymous, administrators."
    ),
]
Rights = Annotated[
    str,
    typer.Argument(
        metavar="RIGHTS",
        help="Rights, separated by commas: send, peek, receive (includes peek and purge), purge, "
        "journal, get-properties, set-properties, properties (both), delete, get-permissions, "
        "change-permissions, take-ownership, full.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to `posthouse queue`."""
    for command in (grant, deny, revoke, access):
        app.command()(command)


@talking
def grant(remote: Remote, path: QueuePath, who: Who, rights: Rights) -> None:
    """Grant rights on a queue.

    Example: posthouse queue grant './private$/orders' alice peek,receive
    """
    _change(remote, path, "grant", who, rights)


@talking
def deny(remote: Remote, path: QueuePath, who: Who, rights: Rights) -> None:
    """Deny rights on a queue. A denial overrides all grants.

    Example: posthouse queue deny './private$/orders' anonymous send
    """
    _change(remote, path, "deny", who, rights)


def _change(remote: Remote, path: str, verb: str, who: str, rights: str) -> None:
    found = words(rights, RIGHTS, "right")
    if not found:
        raise typer.BadParameter("name at least one right")
    body = GrantBody(who=who, rights=found)  # type: ignore[arg-type]
    remote.ask(Done, "POST", path_of("queues", path, "access", verb), body=body)
    _show(remote, path)


@talking
def revoke(remote: Remote, path: QueuePath, who: Who) -> None:
    """Remove all entries of a user from the access list of a queue.

    Example: posthouse queue revoke './private$/orders' alice
    """
    target = path_of("queues", path, "access", "revoke")
    remote.ask(Done, "POST", target, body=RevokeBody(who=who))
    _show(remote, path)


@talking
def access(remote: Remote, path: QueuePath) -> None:
    """Show who may do what with a queue.

    Example: posthouse queue access './private$/orders'
    """
    _show(remote, path)


def _show(remote: Remote, path: str) -> None:
    found = remote.ask(AccessJson, "GET", path_of("queues", path, "access"))
    if remote.json:
        print_json(found)
        return
    say(f"Owner: {found.owner}")
    print_table(
        "",
        ("who", "", "rights"),
        (
            (entry.who, "may not" if entry.denied else "may", ",".join(entry.rights))
            for entry in found.entries
        ),
    )
