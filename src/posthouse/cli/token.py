"""`posthouse token`: lets programs and people in over the admin endpoint."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from posthouse.api.types import (
    Done,
    RoleWord,
    TokenCreateBody,
    TokenCreatedJson,
    TokenJson,
    TokenListJson,
)
from posthouse.cli.command import DryRun, Yes, confirm, group, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.durations import seconds
from posthouse.cli.output import complain, print_json, print_table, say
from posthouse.model.errors import IllegalPropertyValue, StatusNotFound
from posthouse.model.message_json import parse_time, time_text

SPAN = re.compile(r"[0-9]{1,9}[smhdw]", re.ASCII)
TOKEN_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    inner = group(app, "token", "Users", "Tokens: create, list, delete.")
    inner.command("create")(create)
    inner.command("list")(list_tokens)
    inner.command("delete")(revoke)


@talking
def create(
    remote: Remote,
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="User whose rights the token has.")
    ] = "administrator",
    role: Annotated[
        RoleWord,
        typer.Option(
            "--role",
            metavar="metrics|look|read|operate|administer",
            help="metrics: only /metrics; look: everything but the content of messages; read: also "
            "that; operate: also send, receive and purge; administer: everything.",
        ),
    ] = "read",
    queues: Annotated[
        list[str] | None,
        typer.Option(
            "--queue",
            metavar="PATTERN=RIGHTS",
            help="Allow only queues that match this pattern; repeat it for several.",
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires",
            metavar="T",
            help="Expiry: a date such as 2027-01-31, or a duration such as 12h, 30d, 4w.",
        ),
    ] = None,
) -> None:
    """Create a token and print it. It cannot be shown again.

    Example: posthouse token create --role operate --expires 30d > token.txt
    """
    body = TokenCreateBody(
        user=user,
        role=role,
        queues=queues or [],
        expires=None if expires is None else expiry(expires),
    )
    created = remote.ask(TokenCreatedJson, "POST", path_of("tokens"), body=body)
    if remote.json:
        print_json(created)
    else:
        say(created.token)
        complain(
            f"Created token {created.info.id} ({_described(created.info)}). "
            "Store it now: it cannot be shown again."
        )


def expiry(text: str) -> str:
    """A moment, or a span of time from now, as ISO 8601."""
    if SPAN.fullmatch(text.strip().lower()):
        try:
            moment = datetime.now(UTC) + timedelta(seconds=seconds(text.strip().lower()))
            return time_text(parse_time(moment.isoformat()))
        except (OverflowError, IllegalPropertyValue):
            raise typer.BadParameter("that date is too far in the future") from None
    try:
        return time_text(parse_time(text))
    except IllegalPropertyValue as error:
        raise typer.BadParameter(f"{error.cause}; or write 12h, 30d, 4w") from None


def _described(token: TokenJson) -> str:
    scope = ", ".join(token.queues) or "all queues"
    until = f"expires {token.expires}" if token.expires else "never expires"
    return f"user {token.user}, role {token.role}, {scope}, {until}"


@talking
def list_tokens(remote: Remote) -> None:
    """List the tokens, without their secrets.

    Example: posthouse token list
    """
    tokens = remote.ask(TokenListJson, "GET", path_of("tokens")).tokens
    if remote.json:
        for token in tokens:
            print_json(token)
        return
    rows = (
        (
            token.id,
            token.user,
            token.role,
            ", ".join(token.queues),
            token.expires or "never",
            token.created_time,
        )
        for token in tokens
    )
    print_table("", ("token", "user", "role", "queues", "expires", "created"), rows)


@talking
def revoke(
    remote: Remote,
    id: Annotated[str, typer.Argument(metavar="ID", help="Identifier, as `token list` shows it.")],
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Revoke a token. It is refused from now on, and its open sessions end.

    Example: posthouse token delete 0123456789abcdef --yes
    """
    if not TOKEN_ID.fullmatch(id):
        raise typer.BadParameter("a token's identifier has 16 hex digits; `token list` shows it")
    if dry_run:
        _show(remote, id)
        return
    confirm(lambda: f"Revoke the token {id}?", yes)
    done = remote.ask(Done, "DELETE", path_of("tokens", id))
    if remote.json:
        print_json(done)
    else:
        say(f"{id} is revoked.")


def _show(remote: Remote, id: str) -> None:
    tokens = remote.ask(TokenListJson, "GET", path_of("tokens")).tokens
    found = [token for token in tokens if token.id == id]
    if not found:
        raise StatusNotFound(f"there is no token {id}", "`posthouse token list` shows the tokens.")
    if remote.json:
        print_json(found[0])
    else:
        say(f"Would revoke {id} ({_described(found[0])}).")
