"""Options that select messages: a filter, lookup ids, or a whole queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from posthouse.api.types import (
    LOOKUP_ID_MAX,
    PAGE_MAX,
    MessagePageJson,
    QueueJson,
)
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.name_hints import full_name
from posthouse.cli.output import complain
from posthouse.cli.progress import bar
from posthouse.model.errors import QueueError
from posthouse.model.message_json import MessageJson

Source = Annotated[
    str,
    typer.Argument(
        metavar="SRC", parser=full_name, help="Name of a private queue, path name or format name."
    ),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where", metavar="FILTER", help="Filter for the messages, such as 'label ~ \"order\"'."
    ),
]
LookupIds = Annotated[
    list[int] | None,
    typer.Option(
        "--lookup-id",
        metavar="N",
        min=1,
        max=LOOKUP_ID_MAX,
        help="Lookup id of a message; repeat it for several.",
    ),
]


def chosen(
    remote: Remote, source: str, where: str | None, lookup_ids: list[int] | None
) -> list[int]:
    """The lookup ids of the messages meant; those that come later are not."""
    check(where, lookup_ids)
    if lookup_ids:
        return list(dict.fromkeys(lookup_ids))
    total = count_of(remote, source)
    with bar("looking", total, quiet=remote.json) as advance:
        found: list[int] = []
        for page in pages(remote, source, where, bodies=False):
            found += [message.lookup_id for message in page.messages]
            advance(page.scanned, total)
        return found


def count_of(remote: Remote, source: str) -> int:
    """How many messages there are to look at, for the progress; 0 if that is not allowed."""
    try:
        return remote.ask(QueueJson, "GET", path_of("queues", source)).messages
    except QueueError:
        return 0


def check(where: str | None, lookup_ids: list[int] | None) -> None:
    """A filter or lookup ids, not both."""
    if where is not None and lookup_ids:
        raise typer.BadParameter("give --where or --lookup-id, not both")


def pages(
    remote: Remote, source: str | None, where: str | None, *, bodies: bool | None
) -> Iterator[MessagePageJson]:
    """The messages of a queue, or of all, page by page; `scanned` counts from the beginning.

    `bodies` None: those that the role of the caller shows.
    """
    path = path_of("messages") if source is None else path_of("queues", source, "messages")
    after: str | None = None
    scanned = 0
    while True:
        query = {"where": where, "after": after, "limit": PAGE_MAX, "bodies": bodies}
        page = remote.ask(MessagePageJson, "GET", path, query=query)
        for queue in page.skipped:
            complain(f"Not looked into: {queue.queue}: {queue.reason}")
        scanned += page.scanned
        yield MessagePageJson(messages=page.messages, next=page.next, scanned=scanned)
        after = page.next
        if after is None:
            return


def found_messages(
    remote: Remote, source: str | None, where: str | None, *, bodies: bool | None
) -> Iterator[MessageJson]:
    """The messages that `pages` gives, one by one."""
    for page in pages(remote, source, where, bodies=bodies):
        yield from page.messages
