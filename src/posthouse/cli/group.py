"""`posthouse group`: positions of the named groups of queues, and help for lost readers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from posthouse.api.groups import (
    Begin,
    GroupJson,
    GroupListJson,
    PositionBody,
    ReleasedJson,
)
from posthouse.api.types import Done
from posthouse.cli.command import DryRun, QueuePath, Yes, confirm, group, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.name_hints import full_name
from posthouse.cli.output import print_json, print_pairs, print_table, say
from posthouse.cli.watch_option import watchable
from posthouse.model.text import counted

_PAGE = 200
_POSITION_MAX = (1 << 63) - 1

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]
COLUMNS = ("group", "mode", "position", "claimed", "lag", "bytes", "reader", "last time")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    summary = (
        "Named groups of readers and their positions in queues: list, show, release, set, delete."
    )
    inner = group(app, "group", "Queues and messages", summary)
    inner.command("list")(list_groups)
    inner.command("show")(show)
    inner.command("set")(set_group)
    inner.command("release")(release)
    inner.command("delete")(delete)


@watchable
@talking
def list_groups(
    remote: Remote,
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATH]", parser=full_name, help="Queue of the groups (default: all queues)."
        ),
    ] = None,
) -> None:
    """List groups: position, claims and reader of each.

    Example: posthouse group list './private$/orders'
    """
    found = _all(remote) if path is None else _of_queue(remote, path)
    if remote.json:
        for one in found:
            print_json(one)
    else:
        rows = ((one.queue, *group_row(one)) for one in found)
        print_table("", ("queue", *COLUMNS), rows)


def _all(remote: Remote) -> list[GroupJson]:
    found, offset = list[GroupJson](), 0
    while True:
        query = {"offset": offset, "limit": _PAGE}
        page = remote.ask(GroupListJson, "GET", path_of("groups"), query=query)
        found += page.groups
        if page.next is None:
            return found
        offset = page.next


def _of_queue(remote: Remote, path: str) -> list[GroupJson]:
    return remote.ask(GroupListJson, "GET", path_of("queues", path, "groups")).groups


def group_row(one: GroupJson) -> tuple[str, ...]:
    """A line of a table of groups."""
    return (
        one.name,
        one.mode,
        str(one.position),
        f"{one.claimed_messages:,}",
        f"{one.lag_messages:,}",
        f"{one.lag_bytes:,}",
        _reader(one),
        one.last_time,
    )


def tell_groups(groups: Iterable[GroupJson]) -> None:
    """The groups of a queue, as far as it has any."""
    rows = [group_row(one) for one in groups]
    if rows:
        print_table("Groups", COLUMNS, rows)


def _claim(one: GroupJson) -> str:
    if one.claimed <= one.claim_after:
        return "nothing"
    span = f"{one.claimed_messages:,} messages in ({one.claim_after}, {one.claimed}]"
    return f"{span}, by stream {one.stream}" if one.stream else span


def _reader(one: GroupJson) -> str:
    return f"{one.owner}, {one.lease_left_ms / 1000:.0f} s" if one.leased else "none"


@talking
def show(remote: Remote, path: QueuePath, group: GroupName) -> None:
    """Show a group, and what happened to messages that it did not receive.

    Example: posthouse group show './private$/orders' archive
    """
    found = remote.ask(GroupJson, "GET", _path(path, group))
    if remote.json:
        print_json(found)
    else:
        _tell(found)


def _path(path: str, group: str, *verb: str) -> str:
    return path_of("queues", path, "groups", group, *verb)


def _tell(one: GroupJson) -> None:
    print_pairs(
        {
            "queue": one.queue,
            "group": one.name,
            "mode": one.mode,
            "position": str(one.position),
            "claimed": _claim(one),
            "lag": f"{one.lag_messages:,} messages, {one.lag_bytes:,} bytes",
            "reader": _reader(one),
            "last reader": one.owner,
            "epoch": f"{one.epoch:,}",
            "acknowledged": f"{one.acknowledged:,}",
            "received elsewhere": f"{one.received_elsewhere:,}",
            "expired": f"{one.expired:,}",
            "purged": f"{one.purged:,}",
            "moved away": f"{one.moved_away:,}",
            "created": one.created_time,
            "last time": one.last_time,
        }
    )


@talking
def set_group(
    remote: Remote,
    path: QueuePath,
    group: GroupName,
    position: Annotated[
        str,
        typer.Option(
            "--position",
            metavar="earliest|latest|ID",
            help="New position: a lookup id to continue after, earliest, or latest.",
        ),
    ],
) -> None:
    """Set the position of a group that has no reader and no claims.

    Example: posthouse group set './private$/orders' archive --position earliest
    """
    body = PositionBody(position=_begin(position))
    found = remote.ask(GroupJson, "PATCH", _path(path, group), body=body)
    if remote.json:
        print_json(found)
    else:
        say(f"{found.name} of {found.queue} continues after {found.position}.")


def _begin(text: str) -> Begin:
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    if text.isascii() and text.isdigit() and int(text[:20]) <= _POSITION_MAX:
        return int(text)
    raise typer.BadParameter("a position is earliest, latest or a lookup id")


@talking
def release(
    remote: Remote,
    path: QueuePath,
    group: GroupName,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """End lease and claims of a group whose reader is lost; others can then receive.

    If the reader is still running, it is refused from then on. Messages that it has written but not
    acknowledged may be received and written again.

    Example: posthouse group release './private$/orders' archive --dry-run
    """
    if dry_run:
        found = remote.ask(GroupJson, "GET", _path(path, group))
        _tell_released(remote, found, found.claimed_messages, "Would release")
        return
    confirm(lambda: f"Release {group} of {path}? A reader that still runs is then refused.", yes)
    done = remote.ask(ReleasedJson, "POST", _path(path, group, "release"))
    _tell_released(remote, done, done.released, "Released")


def _tell_released(remote: Remote, one: GroupJson, messages: int, verb: str) -> None:
    if remote.json:
        print_json(one)
    else:
        say(f"{verb} {counted(messages, 'message')} of the group {one.name} in {one.queue}.")


@talking
def delete(
    remote: Remote,
    path: QueuePath,
    group: GroupName,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete a group that has no reader and no claims. The messages stay.

    Example: posthouse group delete './private$/orders' archive --yes
    """
    if dry_run:
        found = remote.ask(GroupJson, "GET", _path(path, group))
        _tell_deleted(remote, found, f"{found.name} of {found.queue} would be deleted.")
        return
    confirm(lambda: f"Delete {group} of {path}?", yes)
    done = remote.ask(Done, "DELETE", _path(path, group))
    _tell_deleted(remote, done, f"{group} of {path} is deleted.")


def _tell_deleted(remote: Remote, value: GroupJson | Done, text: str) -> None:
    if remote.json:
        print_json(value)
    else:
        say(text)
