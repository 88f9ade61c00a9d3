"""`posthouse receive` and `posthouse peek`: takes messages, or looks at them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import UNSET

from posthouse.api.types import LOOKUP_ID_MAX, WAIT_MAX_MS
from posthouse.cli.command import talking
from posthouse.cli.connection import Remote
from posthouse.cli.durations import duration
from posthouse.cli.error_output import CommandFailed
from posthouse.cli.messages.output import (
    Handler,
    Output,
    leaving,
)
from posthouse.cli.name_hints import full_name
from posthouse.cli.remote_queue import Far
from posthouse.client.manager import Consumer, Queue
from posthouse.client.message import Message
from posthouse.model.errors import IoTimeout, QueueError
from posthouse.model.message_json import VT_LPSTR, MessageJson
from posthouse.model.paths import PathName
from posthouse.model.text import counted

if TYPE_CHECKING:
    from posthouse.client.msmq import RemoteQueue
    from posthouse.client.remote.consumer import RemoteConsumer

BATCH = 100

Source = Annotated[
    str,
    typer.Argument(
        metavar="SRC", parser=full_name, help="Name of a private queue, path name or format name."
    ),
]
Count = Annotated[
    int | None,
    typer.Option("--count", metavar="N", min=1, help="Read up to N messages (default 1)."),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="T",
        parser=duration(0, WAIT_MAX_MS / 1000),
        help="Wait up to T for each message: 500ms, 5s, 10m.",
    ),
]
LookupId = Annotated[
    int | None,
    typer.Option(
        "--lookup-id",
        metavar="N",
        min=1,
        max=LOOKUP_ID_MAX,
        help="Only the message with this lookup id.",
    ),
]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Continue until Ctrl-C, or until --count is reached.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (receive, peek):
        app.command(rich_help_panel="Queues and messages")(command)


@talking
def receive(
    remote: Remote,
    source: Source,
    count: Count = None,
    timeout: Timeout = 0,
    lookup_id: LookupId = None,
    follow: Follow = False,
    *,
    output: Output,
    far: Far,
) -> None:
    """Receive messages from a queue and print each one whole: properties, then the decoded body.

    Bodies are decoded (XML, .NET objects, WCF, headers of message buses: docs/formats.md); other
    bodies are printed as hex. --raw writes the bytes; --json has both, in `body` and `decoded`.

    A message leaves the queue after it has been written; if it cannot be written, it stays. What a
    pipe has accepted counts as written: limit it with --count, not with `| head`. The exit code is
    4 if no message arrives in time. To read a queue of another computer, give --user NAME, or
    --authentication none for anonymous access.

    --out DIR writes NUMBER-LOOKUPID.body and NUMBER-LOOKUPID.json for each message. Both are
    synced to disk before the message leaves the queue. After a crash in between, the files are
    there and the message is still in the queue; a body without its JSON file is unfinished. New
    files, and a new folder, can be read by you alone.

    Example: posthouse receive './private$/orders' --count 10 --timeout 0.5 --json

    Example: posthouse receive './private$/orders' --raw > order.xml

    Example: posthouse receive './private$/orders' --count 1000 --out ./orders

    Example: posthouse receive './private$/orders' --format '{lookup_id} {label} {body_text}'
    """
    _check_choice(count, lookup_id, follow)
    handler = output.handler(json=remote.json, single=count is None and not follow)
    with _queue(remote, source, far) as queue:
        messages = _received(queue, count, timeout, follow, lookup_id)
        _hand_over(remote, messages, handler, follow, taking=True)


@contextmanager
def _queue(remote: Remote, source: str, far: Far) -> Iterator[Queue | RemoteQueue]:
    """The queue, here or there."""
    if not far.is_meant:
        yield remote.queue(source)
        return
    with far.manager(remote, source) as manager:
        yield manager.queue(far.queue_name(source))


def _check_choice(count: int | None, lookup_id: int | None, follow: bool) -> None:
    if lookup_id is not None and (count is not None or follow):
        raise typer.BadParameter("--lookup-id names one message: leave --count and --follow out")


def _received(
    queue: Queue | RemoteQueue,
    count: int | None,
    timeout: float,
    follow: bool,
    lookup_id: int | None,
) -> Iterator[Message]:
    """Messages that end when the next one is asked for: what was not written is not lost."""
    left, found = count or (None if follow else 1), False
    with _consumer(queue, None if follow else timeout, left, lookup_id) as consumer:
        while left != 0 and (message := consumer.next()) is not None:
            left, found = None if left is None else left - 1, True
            yield message
            if left == 0 or follow:
                consumer.done()
        if not found and isinstance(consumer, Consumer) and consumer.timed_out is not None:
            raise consumer.timed_out  # it names who holds the messages that are there


def _consumer(
    queue: Queue | RemoteQueue, wait: float | None, left: int | None, lookup_id: int | None
) -> Consumer | RemoteConsumer:
    if isinstance(queue, Queue):
        batch = BATCH if left is None else min(BATCH, left)
        return queue.consume(timeout=wait, batch=batch, lookup_id=lookup_id)
    return queue.consume(timeout=wait, lookup_id=lookup_id)


@talking
def peek(
    remote: Remote,
    source: Source,
    count: Count = None,
    timeout: Timeout = 0,
    lookup_id: LookupId = None,
    follow: Follow = False,
    *,
    output: Output,
    far: Far,
) -> None:
    """Look at messages of a queue without receiving them.

    One message is printed whole. Several are printed as a table with the beginning of each body;
    --json, --raw, --format and --out write whole bodies. The exit code is 4 if no message arrives
    in time. Queues of other computers are read as with `receive`.

    Example: posthouse peek './private$/orders' --count 10
    """
    _check_choice(count, lookup_id, follow)
    single = count is None and not follow
    handler = output.handler(json=remote.json, single=single, rows=not single)
    with _queue(remote, source, far) as queue:
        messages = islice(
            _seen(queue, timeout, follow, lookup_id), count or (1 if single else None)
        )
        _hand_over(remote, messages, handler, follow, taking=False)


def _seen(
    queue: Queue | RemoteQueue, timeout: float, follow: bool, lookup_id: int | None
) -> Iterator[Message]:
    if lookup_id is not None:
        return iter([queue.lookup(lookup_id)])
    return _stepped(queue, timeout, follow) if follow or timeout else _browsed(queue)


def _browsed(queue: Queue | RemoteQueue) -> Iterator[Message]:
    messages = queue.browse(page=BATCH) if isinstance(queue, Queue) else queue.browse()
    yield next(messages, None) or queue.peek(0)  # its refusal has the reason
    yield from messages


def _stepped(queue: Queue | RemoteQueue, timeout: float, follow: bool) -> Iterator[Message]:
    wait = None if follow else timeout
    with queue.cursor() as cursor:
        yield cursor.peek(wait)
        with suppress(IoTimeout):
            while True:
                yield cursor.next(wait)


def _hand_over(
    remote: Remote, messages: Iterator[Message], handler: Handler, follow: bool, *, taking: bool
) -> None:
    done = 0
    try:
        for message in messages:
            with leaving(taking=taking):
                handler(shown(remote, message))
            done += 1
    except KeyboardInterrupt:
        if follow:
            return
        raise CommandFailed(
            f"Interrupted after {counted(done, 'message')}; the others are still in the queue",
            name="INTERRUPTED",
        ) from None
    finally:
        if isinstance(messages, Generator):
            messages.close()  # what was written is ended, the others go back
    if not done:
        raise IoTimeout("no message was there, or came in time")


def shown(remote: Remote, message: Message) -> MessageJson:
    """With the whole name of the queue, whatever it was asked for by, and its verified sender."""
    found = message.to_json()
    found.sender = message.sender or found.sender
    if found.body_type == VT_LPSTR:
        found.code_page = remote.code_page(message.queue) or UNSET
    with suppress(QueueError):  # of a format name
        path = PathName.parse(message.queue)
        if path.computer == ".":
            path = path.with_computer(remote.client.name)
        found.queue = str(path)
    return found
