"""`posthouse status`, `books`, `online` and `offline`: the queue manager as a whole."""

from __future__ import annotations

from typing import Annotated

import typer

from posthouse.api.types import (
    BooksJson,
    CountedJson,
    DirectoryStatusJson,
    OnlineJson,
    StatusJson,
)
from posthouse.cli.command import talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.output import print_json, print_pairs, print_table, say
from posthouse.cli.watch_option import watchable
from posthouse.model.text import counted

UNBALANCED = 1
WRONG = 1
ENTRIES = (
    "accepted",
    "waiting",
    "locked",
    "received",
    "expired",
    "purged",
    "rejected",
    "moved_away",
    "lost_express",
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (status, books, online, offline):
        app.command(rich_help_panel="Queue manager")(command)


@watchable
@talking
def status(
    remote: Remote,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit with code 1 if something is wrong; for monitoring."),
    ] = False,
) -> None:
    """Show the queue manager: whether it accepts messages, what is wrong, how much it holds.

    Something is wrong if: messages are refused, there are dead letters, an outgoing queue cannot
    connect or its peer confirms nothing for unconfirmed_age_s, messages of other machines were
    refused in the last hour, the oldest message of a queue is older than the setting oldest_age_s,
    a job has failed, a group without a reader has claims, a sequence is in conflict or not
    accepted, damaged records were set aside, compaction has stopped, a certificate expires within
    30 days or its new files cannot be used, or a shared directory is offline.

    Example: posthouse status
    """
    found = remote.ask(StatusJson, "GET", path_of("status"))
    if remote.json:
        print_json(found)
    else:
        _show(found)
    if check and found.problems:
        raise typer.Exit(WRONG)


def _show(found: StatusJson) -> None:
    print_pairs({"name": found.name, "state": _state(found)})
    for problem in found.problems:
        say(f"!  {problem}")
    print_pairs(
        {
            "dead letters": _counted(found.dead_letters),
            "claimed": f"{sum(one.messages for one in found.claims):,}" if found.claims else "",
            "online": "yes" if found.online else "no",
            "queues": f"{found.queues:,}",
            "messages": f"{found.messages:,}",
            "bytes": f"{found.bytes:,}",
            "transactions": _transactions(found),
            "directory": directory_words(found.directory),
            "throttled": ", ".join(found.throttled),
            "refusals": _counted(found.refusals),
            "guid": found.guid,
            "version": found.version,
            "url": found.url,
            "time": found.time,
        }
    )


def _state(found: StatusJson) -> str:
    if not found.ready:
        return f"REFUSES NEW MESSAGES: {'; '.join(found.not_ready)}"
    return (
        f"{found.state}, {counted(len(found.problems), 'problem')}"
        if found.problems
        else found.state
    )


def _counted(counts: list[CountedJson]) -> str:
    return ", ".join(f"{one.name} {one.count:,}" for one in counts)


def directory_words(found: DirectoryStatusJson) -> str:
    """How the directory stands, in a line."""
    words = f"{found.source}, {'online' if found.online else 'offline'}"
    if found.since:
        words += f" since {found.since}"
    if found.reason:
        words += f": {found.reason}"
    if found.unusable:
        words += f"; cannot be used: {'; '.join(found.unusable)}"
    return words


def _transactions(found: StatusJson) -> str:
    if found.transactions is None or found.in_doubt is None:
        return "shown to administrators only"
    return f"{found.transactions:,}, {found.in_doubt:,} of them prepared"


@watchable
@talking
def books(remote: Remote) -> None:
    """Show the books, which account for every accepted message. Exit code 1 if they do not balance.

    Example: posthouse books
    """
    found = remote.client.books()
    if remote.json:
        print_json(found)
    else:
        titles = ("queue", *(column.replace("_", " ") for column in ENTRIES), "balanced")
        print_table("", titles, map(_row, found.books))
    raise typer.Exit(0 if found.balanced else UNBALANCED)


def _row(line: BooksJson) -> tuple[str, ...]:
    numbers = (f"{getattr(line, column):,}" for column in ENTRIES)
    return (line.queue, *numbers, "yes" if line.balanced else "NO")


@talking
def online(remote: Remote) -> None:
    """Connect to other queue managers again.

    Example: posthouse online
    """
    _switch(remote, "online")


@talking
def offline(remote: Remote) -> None:
    """Disconnect from other queue managers. The queues here stay usable.

    Example: posthouse offline
    """
    _switch(remote, "offline")


def _switch(remote: Remote, word: str) -> None:
    result = remote.ask(OnlineJson, "POST", path_of(word))
    if remote.json:
        print_json(result)
    else:
        say("The queue manager is online." if result.online else "The queue manager is offline.")
