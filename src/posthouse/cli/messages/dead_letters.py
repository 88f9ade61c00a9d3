"""`posthouse deadletters`: all dead letters by reason, destination and sender."""

from __future__ import annotations

import msgspec
import typer

from posthouse.api.types import MessagePageJson, QueueJson
from posthouse.cli.command import talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.messages.selection import Where
from posthouse.cli.output import complain, print_json, print_table, say
from posthouse.cli.progress import bar
from posthouse.cli.queues.listing import all_queues
from posthouse.cli.watch_option import watchable
from posthouse.model.message import MESSAGE_CLASSES
from posthouse.model.message_json import MessageJson
from posthouse.model.text import counted

PAGE = 1_000
GROUPS_MAX = 10_000
EXAMPLES = 3
ROWS_SHOWN = 100
_MEANING = {entry.word: entry.meaning for entry in MESSAGE_CLASSES}


class DeadLetterGroup(msgspec.Struct):
    """Dead letters with one reason, one destination and one sender."""

    queue: str
    reason: str
    meaning: str
    destination: str
    source: str
    messages: int
    first_time: str
    last_time: str
    lookup_ids: list[int]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Queues and messages")(deadletters)


@watchable
@talking
def deadletters(remote: Remote, where: Where = None) -> None:
    """Show all dead letters in groups: why they died, where they were to go, who sent them.

    `posthouse failures` shows the exceptions in the messages of one queue, `posthouse message
    return` sends dead letters back to their destination. Charts by hour need Spark: `posthouse
    pipeline deadletters`.

    Example: posthouse deadletters
    """
    groups = dict[tuple[str, ...], DeadLetterGroup]()
    queues = [queue for queue in all_queues(remote, system=True) if is_dead_letters(queue)]
    seen = others = 0
    total = sum(queue.messages for queue in queues)
    with bar("looking", total, quiet=remote.json) as advance:
        for queue in queues:
            after: str | None = None
            while True:
                page = _page(remote, queue, where, after)
                for message in page.messages:
                    others += not _add(groups, queue, message)
                seen += page.scanned
                advance(seen, total)
                if (after := page.next) is None:
                    break
    found = sorted(groups.values(), key=lambda group: -group.messages)
    if remote.json:
        for group in found:
            print_json(group)
        return
    if not found:
        say("There are no dead letters.")
        return
    columns = ("reason", "messages", "destination", "from", "first", "last", "lookup ids")
    print_table("", columns, (_row(group) for group in found[:ROWS_SHOWN]))
    for name in dict.fromkeys(group.reason for group in found):
        say(f"{name}: {_MEANING.get(name, 'not known')}")
    if len(found) > ROWS_SHOWN:
        complain(f"{counted(len(found) - ROWS_SHOWN, 'more group')}: add --json to see them.")
    if others:
        complain(f"{counted(others, 'message')} in more groups not shown: narrow it with --where.")


def is_dead_letters(queue: QueueJson) -> bool:
    """Whether a queue is one of dead letters, with something in it."""
    return "dead" in queue.kind and queue.messages > 0


def _page(
    remote: Remote, queue: QueueJson, where: str | None, after: str | None
) -> MessagePageJson:
    query = {"limit": PAGE, "bodies": False, "where": where, "after": after}
    path = path_of("queues", queue.path, "messages")
    return remote.ask(MessagePageJson, "GET", path, query=query)


def _add(
    groups: dict[tuple[str, ...], DeadLetterGroup], queue: QueueJson, message: MessageJson
) -> bool:
    """Count a message; False where there are too many groups for one more."""
    key = (queue.path, message.class_, message.destination, message.source_queue_manager)
    group = groups.get(key)
    if group is None:
        if len(groups) >= GROUPS_MAX:
            return False
        meaning = _MEANING.get(message.class_, "")
        times = (message.arrived_time, message.arrived_time)
        group = groups[key] = DeadLetterGroup(*key[:2], meaning, *key[2:], 0, *times, [])
    group.messages += 1
    group.first_time = min(group.first_time, message.arrived_time)
    group.last_time = max(group.last_time, message.arrived_time)
    if len(group.lookup_ids) < EXAMPLES:
        group.lookup_ids.append(message.lookup_id)
    return True


def _row(group: DeadLetterGroup) -> tuple[str, ...]:
    return (
        group.reason,
        f"{group.messages:,}",
        group.destination,
        group.source,
        group.first_time,
        group.last_time,
        ", ".join(map(str, group.lookup_ids)),
    )
