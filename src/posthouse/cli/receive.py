"""`posthouse receive` and `posthouse peek`: takes messages, or looks at them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Annotated

import typer

from posthouse.cli.command import talking
from posthouse.cli.connection import Remote
from posthouse.cli.far import Far, Level, Mechanisms, RpcPort, User
from posthouse.cli.message_view import line, show_one
from posthouse.cli.output import print_json, say
from posthouse.client.manager import Consumer, Queue
from posthouse.client.message import Message
from posthouse.client.msmq import RemoteQueue
from posthouse.client.remote_consuming import RemoteConsumer
from posthouse.model.errors import IoTimeout, QueueError
from posthouse.model.message_json import MessageJson
from posthouse.model.paths import PathName
from posthouse.protocols.admin.types import LOOKUP_ID_MAX, WAIT_MAX_MS

BATCH = 100

Source = Annotated[
    str, typer.Argument(metavar="SRC", help="Path name or format name of the queue.")
]
Count = Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="So many; 1.")]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="S",
        min=0,
        max=WAIT_MAX_MS / 1000,
        help="Wait so many seconds for each message.",
    ),
]
LookupId = Annotated[
    int | None,
    typer.Option(
        "--lookup-id", metavar="N", min=1, max=LOOKUP_ID_MAX, help="The message with this one."
    ),
]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C, or until --count is reached.")
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
    user: User = None,
    rpc_port: RpcPort = None,
    authentication: Level = None,
    mechanism: Mechanisms = None,
) -> None:
    """Take messages from a queue. Each is gone once it has been printed.

    Without a message in time the exit code is 1. A queue of another computer is read over remote
    read where --user says as whom, or --authentication none that it is nobody.

    Example: posthouse receive './private$/orders' --count 10 --timeout 0.5 --json
    """
    far = Far(user, rpc_port, authentication, mechanism)
    with _queue(remote, source, far) as queue:
        if lookup_id is not None:
            _one_alone(count, follow)
            show_one(_shown(remote, queue.lookup(lookup_id, receive=True)), json=remote.json)
            return
        _print_all(remote, _received(queue, count, timeout, follow), count, follow)


@contextmanager
def _queue(remote: Remote, source: str, far: Far) -> Iterator[Queue | RemoteQueue]:
    """The queue, here or there."""
    if not far.is_meant:
        yield remote.queue(source)
        return
    with far.manager(remote, source) as manager:
        yield manager.queue(far.queue_name(source))


def _one_alone(count: int | None, follow: bool) -> None:
    if count is not None or follow:
        raise typer.BadParameter("--lookup-id names one message: leave --count and --follow out")


def _received(
    queue: Queue | RemoteQueue, count: int | None, timeout: float, follow: bool
) -> Iterator[Message]:
    """Messages that end when the next one is asked for: what was not printed is not lost."""
    left = count or (None if follow else 1)
    with _consumer(queue, None if follow else timeout, left) as consumer:
        while left != 0 and (message := consumer.next()) is not None:
            left = None if left is None else left - 1
            yield message
            sys.stdout.flush()
            if left == 0 or follow:
                consumer.done()


def _consumer(
    queue: Queue | RemoteQueue, wait: float | None, left: int | None
) -> Consumer | RemoteConsumer:
    if isinstance(queue, RemoteQueue):
        return queue.consume(timeout=wait)
    return queue.consume(timeout=wait, batch=BATCH if left is None else min(BATCH, left))


@talking
def peek(
    remote: Remote,
    source: Source,
    count: Count = None,
    timeout: Timeout = 0,
    lookup_id: LookupId = None,
    follow: Follow = False,
    user: User = None,
    rpc_port: RpcPort = None,
    authentication: Level = None,
    mechanism: Mechanisms = None,
) -> None:
    """Look at messages of a queue, which stay where they are.

    Without a message in time the exit code is 1. Queues of other computers as with `receive`.

    Example: posthouse peek './private$/orders' --count 10
    """
    far = Far(user, rpc_port, authentication, mechanism)
    with _queue(remote, source, far) as queue:
        if lookup_id is not None:
            _one_alone(count, follow)
            show_one(_shown(remote, queue.lookup(lookup_id)), json=remote.json)
            return
        left = count or (None if follow else 1)
        messages = _stepped(queue, timeout, follow) if follow or timeout else _browsed(queue)
        _print_all(remote, islice(messages, left), count, follow)


def _browsed(queue: Queue | RemoteQueue) -> Iterator[Message]:
    return queue.browse(page=BATCH) if isinstance(queue, Queue) else queue.browse()


def _stepped(queue: Queue | RemoteQueue, timeout: float, follow: bool) -> Iterator[Message]:
    wait = None if follow else timeout
    with queue.cursor() as cursor, suppress(IoTimeout):
        yield cursor.peek(wait)
        while True:
            yield cursor.next(wait)


def _print_all(
    remote: Remote, messages: Iterator[Message], count: int | None, follow: bool
) -> None:
    found = False
    single = count is None and not follow
    try:
        for message in messages:
            found = True
            _print(_shown(remote, message), remote.json, single)
    except KeyboardInterrupt:
        if not follow:
            raise
        return
    if not found:
        raise IoTimeout("no message was there, or came in time")


def _print(message: MessageJson, json: bool, single: bool) -> None:
    if json:
        print_json(message)
    elif single:
        show_one(message, json=False)
    else:
        say(line(message))
    sys.stdout.flush()


def _shown(remote: Remote, message: Message) -> MessageJson:
    """With the whole name of the queue, whatever it was asked for by, and its verified sender."""
    shown = message.to_json()
    shown.sender = message.sender or shown.sender
    with suppress(QueueError):  # of a format name
        path = PathName.parse(message.queue)
        if path.computer == ".":
            path = path.with_computer(remote.client.name)
        shown.queue = str(path)
    return shown
