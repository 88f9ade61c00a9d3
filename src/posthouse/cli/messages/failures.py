"""`posthouse failures` and `posthouse message return`: look at failed messages, send them back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

import msgspec
import typer

from posthouse.api.failures import (
    FailureGroupJson,
    FailuresJson,
    ReturnBody,
    ReturnJson,
    ReturnTargetJson,
    nothing_returned,
)
from posthouse.api.types import LOOKUP_IDS_MAX
from posthouse.cli.command import DryRun, Yes, confirm, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.exit_codes import REFUSED
from posthouse.cli.messages.selection import LookupIds, Source, Where, count_of
from posthouse.cli.name_hints import full_name
from posthouse.cli.output import complain, partly, print_json, print_table, say
from posthouse.cli.progress import bar
from posthouse.formats.failures import KEY
from posthouse.model.text import counted

TEXT_SHOWN = 100  # characters of an exception message in the table
TARGETS_ASKED = 5
ROWS_SHOWN = 100

Group = Annotated[
    str | None,
    typer.Option(
        "--group", metavar="KEY", help="Key of a group, as `posthouse failures` shows it."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Queues and messages")(failures)


@talking
def failures(
    remote: Remote,
    source: Source,
    where: Where = None,
    similar: Annotated[
        bool,
        typer.Option(
            "--similar", help="Ignore numbers and GUIDs in exception messages when grouping."
        ),
    ] = False,
) -> None:
    """Show why messages failed: in groups by exception, its message and the first own stack frame.

    For error queues of NServiceBus and Rebus, and for dead letters. An own stack frame does not
    belong to .NET or to a message bus. The key of a group is the same in every run; `posthouse
    message return --group KEY` sends its messages back. This command does not move messages.

    Example: posthouse failures './private$/error'
    """
    found, total = FailuresJson(groups=[]), count_of(remote, source)
    path, after = path_of("queues", source, "failures"), None
    with bar("looking", total, quiet=remote.json) as advance:
        while True:
            query = {"where": where, "similar": similar, "after": after}
            page = remote.ask(FailuresJson, "GET", path, query=query)
            found.add_page(page)
            advance(found.scanned, total)
            if (after := page.next) is None:
                break
    if remote.json:
        for group in found.groups:
            print_json(group)
    else:
        _tell_groups(found.groups)
    if found.others:
        complain(f"{counted(found.others, 'message')} in more groups: try --similar or --where.")


def _tell_groups(groups: list[FailureGroupJson]) -> None:
    columns = ("group", "messages", "first", "last", "why", "where", "queue", "lookup ids")
    print_table("", columns, map(_group_row, groups[:ROWS_SHOWN]))
    if len(groups) > ROWS_SHOWN:
        complain(f"{counted(len(groups) - ROWS_SHOWN, 'more group')}: add --json to see them.")


def _group_row(group: FailureGroupJson) -> tuple[str, ...]:
    text = group.exception_message or ""
    shown = text if len(text) <= TEXT_SHOWN else f"{text[:TEXT_SHOWN]}..."
    why = ": ".join(filter(None, (group.exception_type, shown)))
    why = why or " ".join(filter(None, (group.class_, group.message_type)))
    return (
        group.key,
        f"{group.count:,}",
        group.first_time,
        group.last_time,
        why or "not known",
        group.frame or "",
        ", ".join(group.failed_queues),
        ", ".join(str(one.lookup_id) for one in group.examples),
    )


@talking
def return_messages(
    remote: Remote,
    source: Source,
    where: Where = None,
    group: Group = None,
    lookup_ids: LookupIds = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="DEST",
            parser=full_name,
            help="Queue to return them to (default: the queue where they failed).",
        ),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Return failed messages to the queues where they failed.

    The queue is the one that NServiceBus or Rebus wrote into the headers, the queue of a subqueue
    such as ;retry and ;poison, or the destination of a dead letter. Each message is received and
    sent in one step, in the order of the queue, and stays as it is. What cannot go stays and is
    listed with the reason; the exit code is 1 then. Run it again to go on after an interruption.
    On a terminal it asks first, as `queue purge` does; without one it acts at once.

    Example: posthouse message return './private$/error' --dry-run

    Example: posthouse message return './private$/orders;poison' --where 'label ~ "order"'
    """
    if lookup_ids and (where is not None or group is not None):
        raise typer.BadParameter("give --lookup-id, or --where and --group, not both")
    if group is not None and re.fullmatch(KEY, group) is None:
        raise typer.BadParameter(
            "a group key is 12 hexadecimal digits; `posthouse failures` shows them"
        )
    body = ReturnBody(where=where, group=group, to=to, dry_run=dry_run)
    if not dry_run:
        confirm(lambda: _question(remote, source, body, lookup_ids), yes)
    total = count_of(remote, source) if not lookup_ids else len(lookup_ids)
    result = nothing_returned(dry_run=dry_run)

    def returned() -> str:
        return f"Returned {counted(result.done, 'message')}" if result.done else ""

    def stopped() -> str:
        again = "Nothing was changed." if dry_run else "Run it again to continue."
        return f"Returned {counted(result.done, 'message')} or more. {again}"

    with (
        partly(returned, stopped),
        bar("return", total, quiet=remote.json) as advance,
    ):
        for page in _pages(remote, source, body, lookup_ids):
            result.add_page(page)
            advance(result.scanned, total)
    _tell_returned(remote, result, named=bool(lookup_ids))


def _question(remote: Remote, source: str, body: ReturnBody, lookup_ids: list[int] | None) -> str:
    """How many go where, by a dry run; it is asked for on a terminal only."""
    found = nothing_returned(dry_run=True)
    for page in _pages(remote, source, msgspec.structs.replace(body, dry_run=True), lookup_ids):
        found.add_page(page)
    places = [f"{one.to} ({one.messages:,})" for one in found.targets if one.to and not one.error]
    where = f" to {', '.join(places[:TARGETS_ASKED])}" if places else ""
    more = ", ..." if len(places) > TARGETS_ASKED else ""
    return f"Return {counted(found.matched - found.refused, 'message')} of {source}{where}{more}?"


def _pages(
    remote: Remote, source: str, body: ReturnBody, lookup_ids: list[int] | None
) -> Iterable[ReturnJson]:
    path = path_of("queues", source, "return")
    if lookup_ids:
        ids = list(dict.fromkeys(lookup_ids))
        for at in range(0, len(ids), LOOKUP_IDS_MAX):
            portion = msgspec.structs.replace(body, lookup_ids=ids[at : at + LOOKUP_IDS_MAX])
            page = remote.ask(ReturnJson, "POST", path, body=portion)
            body = msgspec.structs.replace(body, skip=page.skip)
            yield page
        return
    while True:
        page = remote.ask(ReturnJson, "POST", path, body=body)
        yield page
        if page.next is None:
            return
        body = msgspec.structs.replace(body, after=page.next, skip=page.skip)


def _tell_returned(remote: Remote, result: ReturnJson, *, named: bool) -> None:
    if remote.json:
        print_json(result)
    else:
        _tell_targets(result)
    if result.refused:
        outcome = "cannot be returned" if result.dry_run else "not returned, still in the queue"
        complain(f"{counted(result.refused, 'message')} {outcome}.")
    if result.gone and named:
        complain(f"{result.gone:,} of them are not in the queue, or another reader holds them.")
    if result.refused or (result.gone and named):
        raise typer.Exit(REFUSED)


def _tell_targets(result: ReturnJson) -> None:
    if result.targets:
        columns = ("to", "messages", "returned", "why not")
        print_table("", columns, map(_target_row, result.targets))
    if result.dry_run:
        say(f"Found {counted(result.matched, 'message')}. Nothing was changed.")
    else:
        gone = f"; {result.gone:,} had left the queue before" if result.gone else ""
        say(f"Returned {counted(result.done, 'message')}{gone}.")


def _target_row(target: ReturnTargetJson) -> tuple[str, ...]:
    error = target.error
    why = "" if error is None else f"{error.name}: {error.cause}. {error.remedy}"
    return target.to or "not known", f"{target.messages:,}", f"{target.done:,}", why
