"""`posthouse user`: accounts. Passwords come from standard input and from nowhere else."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated, Literal, get_args

import typer
from msgspec import UNSET

from posthouse.api.types import (
    Done,
    DoorWord,
    PasswordBody,
    RoleWord,
    TokenListJson,
    UserCreateBody,
    UserJson,
    UserListJson,
    UserSetBody,
)
from posthouse.cli.command import DryRun, Yes, confirm, group, talking, words
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.output import print_json, print_table, say
from posthouse.model.text import counted

DOORS = get_args(DoorWord)
PASSWORD_LENGTH_MAX = 1024

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]
Doors = typer.Option(
    "--doors", metavar="LIST", help="Doors that the password opens: http, rpc, ncp."
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    inner = group(app, "user", "Users", "Users: create, set, list, delete.")
    inner.command("create")(add)
    inner.command("set")(set_user)
    inner.command("passwd")(passwd)
    inner.command("list")(list_users)
    inner.command("delete")(delete)


@talking
def add(
    remote: Remote,
    name: Name,
    doors: Annotated[str, Doors] = "http",
    role: Annotated[
        RoleWord | None,
        typer.Option(
            "--role",
            metavar="metrics|look|read|operate|administer",
            help="Role of the user, which limits logins by password and tokens (default: operate "
            "for passwords, no limit for tokens).",
        ),
    ] = None,
    administrator: Annotated[
        bool, typer.Option("--administrator", help="Make the user an administrator.")
    ] = False,
    no_password: Annotated[
        bool,
        typer.Option(
            "--no-password", help="Create the user without a password; only tokens give access."
        ),
    ] = False,
) -> None:
    """Create a user. The password is one line of standard input; an empty line means no password.

    A user without a password needs a token.

    Example: posthouse user create alice --doors http,rpc < password.txt
    """
    wanted = words(doors, DOORS, "door")
    password = None if no_password else read_password() or None
    body = UserCreateBody(
        name=name,
        doors=wanted,  # type: ignore[arg-type]
        administrator=administrator,
        password=password,
        role=role,
    )
    _tell(remote, remote.ask(UserJson, "POST", path_of("users"), body=body))


def read_password() -> str:
    """One line of standard input; on a terminal it is asked for twice and not shown."""
    if not sys.stdin.isatty():
        line = sys.stdin.readline(PASSWORD_LENGTH_MAX + 2).rstrip("\r\n")
        if len(line) > PASSWORD_LENGTH_MAX:
            raise typer.BadParameter(f"a password has at most {PASSWORD_LENGTH_MAX} characters")
        return line
    first = getpass.getpass("Password: ")
    if first != getpass.getpass("Again: "):
        raise typer.BadParameter("the two passwords differ")
    return first


def _tell(remote: Remote, user: UserJson) -> None:
    if remote.json:
        print_json(user)
    else:
        say(f"{user.name}  {user.sid}  {_described(user)}")


def _described(user: UserJson) -> str:
    words = [f"doors {','.join(user.doors) or 'none'}"]
    words += ["administrator"] if user.administrator else []
    words += [f"role {user.role}"] if user.role else []
    words += [] if user.password else ["no password"]
    if user.password and user.shut:
        words.append(f"no password for {','.join(user.shut)} yet")
    words += ["disabled"] if user.disabled else []
    return ", ".join(words)


@talking
def set_user(
    remote: Remote,
    name: Name,
    doors: Annotated[str | None, Doors] = None,
    administrator: Annotated[
        bool | None,
        typer.Option(
            "--administrator/--no-administrator", help="Make the user an administrator, or not."
        ),
    ] = None,
    role: Annotated[
        Literal["metrics", "look", "read", "operate", "administer", "none"] | None,
        typer.Option(
            "--role",
            metavar="metrics|look|read|operate|administer|none",
            help="Role of the user; none removes the limit.",
        ),
    ] = None,
    disabled: Annotated[
        bool | None, typer.Option("--disabled/--enabled", help="Disable or enable the user.")
    ] = None,
) -> None:
    """Change a user. Open sessions of the user end.

    Example: posthouse user set alice --disabled
    """
    wanted = UNSET if doors is None else words(doors, DOORS, "door")
    body = UserSetBody(
        doors=wanted,  # type: ignore[arg-type]
        administrator=UNSET if administrator is None else administrator,
        disabled=UNSET if disabled is None else disabled,
        role=UNSET if role is None else None if role == "none" else role,
    )
    if body == UserSetBody():
        raise typer.BadParameter("nothing to change: give at least one option")
    _tell(remote, remote.ask(UserJson, "PATCH", path_of("users", name), body=body))


@talking
def passwd(remote: Remote, name: Name) -> None:
    """Give a user a new password, which is one line of standard input.

    Example: posthouse user passwd alice < password.txt
    """
    password = read_password()
    if not password:
        raise typer.BadParameter("standard input holds no password")
    target = path_of("users", name, "password")
    done = remote.ask(Done, "POST", target, body=PasswordBody(password=password))
    if remote.json:
        print_json(done)
    else:
        say(f"{name} has a new password.")


@talking
def list_users(remote: Remote) -> None:
    """List the users.

    Example: posthouse user list
    """
    users = remote.ask(UserListJson, "GET", path_of("users")).users
    if remote.json:
        for user in users:
            print_json(user)
        return
    rows = ((user.name, user.sid, user.created_time, _described(user)) for user in users)
    print_table("", ("user", "sid", "created", "may"), rows)


@talking
def delete(remote: Remote, name: Name, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete a user and the user's tokens. Queues stay.

    Example: posthouse user delete alice --yes
    """
    if not dry_run:
        confirm(
            lambda: f"Delete the user {name} and {counted(_tokens(remote, name), 'token')}?", yes
        )
    user = remote.ask(UserJson, "GET", path_of("users", name))
    tokens = _tokens(remote, user.name)
    if not dry_run:
        remote.ask(Done, "DELETE", path_of("users", name))
    if remote.json:
        print_json({"user": user.name, "tokens": tokens, "dry_run": dry_run})
    else:
        done = "Would delete" if dry_run else "Deleted"
        say(f"{done} user {user.name} and {counted(tokens, 'token')}.")


def _tokens(remote: Remote, name: str) -> int:
    """How many tokens let this user in."""
    tokens = remote.ask(TokenListJson, "GET", path_of("tokens")).tokens
    return sum(token.user.casefold() == name.casefold() for token in tokens)
