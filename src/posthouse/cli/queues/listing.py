"""`posthouse queue list`: which queues, which columns, in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, NamedTuple

import typer

from posthouse.api.types import QueueJson, QueueListJson
from posthouse.cli.command import talking, words
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.output import age, complain, print_json, print_table
from posthouse.cli.queues.transfer import outgoing_row
from posthouse.cli.remote_queue import Machine, MachineUser, PasswordFile, far_machine
from posthouse.cli.watch_option import watchable

NO_QUEUES: Final = (
    "There is no queue that you may list. Create one with `posthouse queue create "
    "NAME`. The owner of a queue allows you to list it with `posthouse "
    "queue grant PATH WHO get-properties`."
)
OUTGOING: Final = (
    *("to", "state", "unsent", "unacknowledged", "unread", "oldest"),
    *("next retry", "last error"),
)


class Column(NamedTuple):
    """A column of the list: its title, the value, and how people read it."""

    title: str
    value: Callable[[QueueJson], Any]
    shown: Callable[[Any], str] = str


def _kind(queue: QueueJson) -> str:
    kind = ["" if queue.kind == "private" else queue.kind.replace("_", " "), queue.state]
    kind.append("transactional" if queue.transactional else "")
    return ", ".join(filter(None, kind))


def size(count: int) -> str:
    """Bytes for people."""
    for unit, least in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if count >= least:
            return f"{count / least:.1f} {unit}"
    return str(count)


def _rate(value: float) -> str:
    return f"{value:.1f}"


def _count(value: int) -> str:
    return f"{value:,}"


def _quota(value: int | None) -> str:
    return "" if value is None else f"{value:,} KiB"


COLUMNS: Final = {
    "queue": Column("queue", lambda queue: queue.path or queue.format_name),
    "messages": Column("messages", lambda queue: queue.messages, _count),
    "bytes": Column("bytes", lambda queue: queue.bytes, size),
    "oldest": Column("oldest", lambda queue: queue.oldest_age_s, age),
    "in": Column("in/s", lambda queue: queue.accepted_per_s, _rate),
    "out": Column("out/s", lambda queue: queue.received_per_s, _rate),
    "kind": Column("kind", _kind),
    "label": Column("label", lambda queue: queue.label),
    "locked": Column("locked", lambda queue: queue.locked, _count),
    "claimed": Column("claimed", lambda queue: queue.claimed, _count),
    "journal": Column("journal", lambda queue: queue.journal_messages, _count),
    "readers": Column("readers", lambda queue: queue.readers, _count),
    "quota": Column("quota", lambda queue: queue.quota_kib, _quota),
    "created": Column("created", lambda queue: queue.created_time),
    "format-name": Column("format name", lambda queue: queue.format_name),
}
DEFAULT_COLUMNS: Final = ["queue", "messages", "bytes", "oldest", "in", "out", "kind", "label"]


class Selection(NamedTuple):
    """What the command line asks for: a pattern, an order, columns."""

    match: str = ""
    sort: str = ""
    reverse: bool = False
    columns: list[str] = DEFAULT_COLUMNS

    def of(self, queues: Iterable[QueueJson]) -> Iterable[QueueJson]:
        """The queues that match, in the order asked for."""
        wanted = (queue for queue in queues if self._matches(queue))
        if not self.sort:
            return wanted
        value = COLUMNS[self.sort].value
        found = sorted(wanted, key=lambda queue: queue.path.lower())
        texts = isinstance(value(found[0]), str) if found else True
        if texts:
            return sorted(found, key=lambda queue: value(queue).lower(), reverse=self.reverse)
        return sorted(found, key=lambda queue: value(queue) or 0, reverse=not self.reverse)

    def _matches(self, queue: QueueJson) -> bool:
        if not self.match:
            return True
        pattern, path = self.match.lower(), (queue.path or queue.format_name).lower()
        bare = path.partition("\\")[2].removeprefix("private$\\")
        return any(fnmatchcase(name, pattern) for name in (path, bare))


Match = Annotated[
    str,
    typer.Option(
        "--match",
        metavar="PATTERN",
        help="List only queues whose name matches, for example 'order*'; * and ? stand for any "
        "characters.",
    ),
]
Sort = Annotated[
    str,
    typer.Option(
        "--sort",
        metavar="COLUMN",
        help="Order by a column: largest number first, texts A to Z.",
    ),
]
Reverse = Annotated[bool, typer.Option("--reverse", help="Turn the order of --sort around.")]
Columns = Annotated[
    str,
    typer.Option("--columns", metavar="LIST", help=f"Columns to show, of: {', '.join(COLUMNS)}."),
]


@watchable
@talking
def list_queues(
    remote: Remote,
    outgoing: Annotated[
        bool, typer.Option("--outgoing", help="List queues to other computers too.")
    ] = False,
    system: Annotated[
        bool, typer.Option("--system", help="List journals and dead-letter queues too.")
    ] = False,
    match: Match = "",
    sort: Sort = "",
    reverse: Reverse = False,
    columns: Columns = "",
    machine: Machine = None,
    user: MachineUser = None,
    password_file: PasswordFile = None,
) -> None:
    """List the queues whose properties you may see (the right get-properties).

    With --machine all queues of another machine, as `posthouse scan` shows them.

    For outgoing queues it shows how many messages are not sent, sent but not acknowledged, and
    arrived but not yet known to be received.

    Example: posthouse queue list --outgoing

    Example: posthouse queue list --match 'order*' --sort messages --columns queue,messages,oldest
    """
    selection = selected(match, sort, reverse, columns)
    if machine := far_machine(machine, user, password_file):
        if match or sort or columns or outgoing or system:
            raise typer.BadParameter(
                "with --machine all queues are listed, in their order: --match, --sort, --columns, "
                "--outgoing and --system are for queues here"
            )
        from posthouse.cli.machines.remote_queues import list_far_queues  # loads DCE/RPC

        list_far_queues(machine, user, password_file, json=remote.json)
    found = selection.of(all_queues(remote, outgoing=outgoing, system=system))
    if remote.json:
        for queue in found:
            print_json(_values(queue, selection.columns) if columns else queue)
        return
    _print(list(found), selection, outgoing)


def selected(match: str, sort: str, reverse: bool, columns: str) -> Selection:
    """What the options mean."""
    order = words(sort, COLUMNS, "column")
    if len(order) > 1:
        raise typer.BadParameter("--sort takes one column")
    if reverse and not order:
        raise typer.BadParameter("--reverse goes with --sort")
    chosen = words(columns, COLUMNS, "column") or DEFAULT_COLUMNS
    return Selection(match, "".join(order), reverse, chosen)


def _values(queue: QueueJson, columns: list[str]) -> dict[str, Any]:
    return {name: COLUMNS[name].value(queue) for name in columns}


def _print(queues: list[QueueJson], selection: Selection, outgoing: bool) -> None:
    here = [queue for queue in queues if queue.outgoing is None]
    if not queues:
        complain(f"No queue matches {selection.match!r}." if selection.match else NO_QUEUES)
        return
    if here or not outgoing:
        columns = [COLUMNS[name] for name in selection.columns]
        rows = ([one.shown(one.value(queue)) for one in columns] for queue in here)
        print_table("", [one.title for one in columns], rows)
    if outgoing:
        lines = (outgoing_row(queue.outgoing, queue) for queue in queues if queue.outgoing)
        print_table("Outgoing", OUTGOING, lines)


def all_queues(
    remote: Remote, *, outgoing: bool = False, system: bool = False
) -> Iterator[QueueJson]:
    """Every queue, page by page."""
    after: int | None = 0
    while after is not None:
        query = {"outgoing": outgoing, "system": system, "after": after}
        page = remote.ask(QueueListJson, "GET", path_of("queues"), query=query)
        yield from page.queues
        after = page.next
