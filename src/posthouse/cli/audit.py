"""`posthouse audit`: what operators did, from the audit log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from posthouse.api.audit import AuditEntryJson, AuditPageJson
from posthouse.api.audit_names import act_name
from posthouse.cli.command import talking
from posthouse.cli.connection import Query, Remote, path_of
from posthouse.cli.durations import seconds
from posthouse.cli.output import complain, print_json, print_table, say
from posthouse.cli.token import SPAN
from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.message_json import parse_time, time_text
from posthouse.model.text import counted

PAGE = 500
FOLLOW_S = 1.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit", rich_help_panel="Users")(audit)


@talking
def audit(
    remote: Remote,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="T", help="Only acts since then: a date and time, or 2h, 7d."
        ),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="NAME", help="Only acts of this user.")
    ] = None,
    act: Annotated[
        str | None,
        typer.Option("--act", metavar="TEXT", help="Only acts whose name or code contains this."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="Show at most the last N acts.")
    ] = 100,
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue, and show new acts as they happen.")
    ] = False,
) -> None:
    """Show what operators did: who, from where, when, on what, and what came of it.

    Example: posthouse audit --since 2h --user alice

    Example: posthouse audit --act purge --json
    """
    query: Query = {
        "since": None if since is None else moment(since),
        "user": user,
        "act": act,
    }
    entries = list(_newest(remote, query, limit))
    entries.reverse()
    _show(remote, entries)
    last = entries[-1].seq if entries else _last_seq(remote)
    while follow:
        page = _page(remote, {**query, "after": last, "limit": PAGE})
        _show(remote, page.entries, headed=False)
        last = max([last, *(entry.seq for entry in page.entries)], default=last)
        if page.next is None:
            time.sleep(FOLLOW_S)
        else:
            last = page.next


def moment(text: str) -> str:
    """A moment, or a time before now, as ISO 8601."""
    if SPAN.fullmatch(text.strip().lower()):
        return time_text(max(0, int(time.time() - seconds(text.strip().lower()))))
    try:
        return time_text(parse_time(text))
    except IllegalPropertyValue as error:
        raise typer.BadParameter(f"{error.cause}; or write 30m, 2h, 7d") from None


def _page(remote: Remote, query: Query) -> AuditPageJson:
    return remote.ask(AuditPageJson, "GET", path_of("audit"), query=query)


def _newest(remote: Remote, query: Query, limit: int) -> Iterator[AuditEntryJson]:
    """The last acts, the newest first."""
    before: int | None = None
    told = False
    while limit > 0:
        page = _page(remote, {**query, "before": before, "limit": min(limit, PAGE)})
        if page.unwritten and not told:
            complain(f"Not yet written to the audit log: {counted(page.unwritten, 'act')}.")
            told = True
        yield from page.entries
        limit, before = limit - len(page.entries), page.next
        if before is None:
            return


def _last_seq(remote: Remote) -> int:
    entries = _page(remote, {"limit": 1}).entries
    return entries[0].seq if entries else 0


def _show(remote: Remote, entries: list[AuditEntryJson], *, headed: bool = True) -> None:
    if remote.json:
        for entry in entries:
            print_json(entry)
    elif headed:
        rows = [_row(entry) for entry in entries]
        print_table("", ("time", "user", "from", "act", "on", "outcome"), rows)
    else:
        for entry in entries:
            say("  ".join(_row(entry)))


def _row(entry: AuditEntryJson) -> tuple[str, ...]:
    on = " ".join(f"{name}={value}" for name, value in entry.object.items())
    result = " ".join(f"{name}={value}" for name, value in entry.result.items())
    outcome = " ".join(part for part in (entry.outcome, entry.error or result) if part)
    return entry.time, entry.user, entry.address, act_name(entry.act), on, outcome
