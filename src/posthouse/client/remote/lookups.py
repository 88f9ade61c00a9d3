"""Many messages of another computer by their lookup ids, asked for together.

A message that is gone, or that we may not read, is left out. Each is received in two steps, so that
a broken connection loses none; a repeated request does not return what was already received.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from posthouse.client.errors import ServerUnreachable
from posthouse.client.message import Message
from posthouse.client.remote.reader import QueueReader
from posthouse.client.remote.state import (
    LOOKUP_PEEK,
    LOOKUP_RECEIVE,
    LockedMessage,
    Outage,
    RemoteOpenQueue,
    Want,
)
from posthouse.client.rpc_link import LinkLost, PendingCall
from posthouse.model.errors import MessageNotFound
from posthouse.protocols.remote_read.stubs import Ack

CHUNK: Final = 64  # asked for together
_PEEK: Final = LOOKUP_PEEK["current"]
_RECEIVE: Final = LOOKUP_RECEIVE["current"]
_Started = tuple[int, PendingCall, Want]


def peek_each(queue: QueueReader, lookup_ids: Sequence[int], body_max: int) -> Iterator[Message]:
    """Those that are there, in the order of the identifiers."""
    wants = [Want(_PEEK, lookup_id, 0, body_max) for lookup_id in lookup_ids]
    for at in range(0, len(wants), CHUNK):
        yield from _peeked(queue, wants[at : at + CHUNK])


def _peeked(queue: QueueReader, wants: list[Want]) -> list[Message]:
    outage = Outage(queue.reader.reconnect_s)
    while True:
        try:
            opened = queue.opened()
            found = _found(queue, opened, wants)
            return [message for message, _ in found]
        except (LinkLost, ServerUnreachable) as error:
            outage.go_on(error)


def receive_each(queue: QueueReader, lookup_ids: Sequence[int]) -> list[Message]:
    """Takes those that are there; with a broken connection below it, one may be there still.

    Such a message was locked for the connection that broke, and comes back: ask once more later.
    """
    taken: list[Message] = []
    for at in range(0, len(lookup_ids), CHUNK):
        chunk = lookup_ids[at : at + CHUNK]
        taken += _received(queue, [Want(_RECEIVE, lookup_id) for lookup_id in chunk])
    return taken


def _received(queue: QueueReader, wants: list[Want]) -> list[Message]:
    outage = Outage(queue.reader.reconnect_s)
    while True:
        try:
            opened = queue.opened()
            found = _found(queue, opened, wants)
        except (LinkLost, ServerUnreachable) as error:
            outage.go_on(error)
            continue
        return _ended(queue, opened, found)


def _ended(
    queue: QueueReader, opened: RemoteOpenQueue, found: list[tuple[Message, int]]
) -> list[Message]:
    """Those whose ends were sent, or may have been."""
    ends: list[tuple[Message, PendingCall]] = []
    with suppress(LinkLost):
        for message, request_id in found:
            ends.append((message, queue.end(opened, request_id, Ack.ACK, False)))
        opened.link.flush()
    for message, end in ends:
        queue.settle(opened, message, end, Want(_RECEIVE))
    return [message for message, _ in ends]


def take_by_lookup(
    queue: QueueReader, opened: RemoteOpenQueue, lookup_ids: Sequence[int]
) -> list[LockedMessage]:
    """Those that are there, locked until they are ended or given back."""
    wants = [Want(_RECEIVE, lookup_id) for lookup_id in lookup_ids]
    found = _found(queue, opened, wants) if wants else []
    return [LockedMessage(message, opened, request_id) for message, request_id in found]


def _found(
    queue: QueueReader, opened: RemoteOpenQueue, wants: list[Want]
) -> list[tuple[Message, int]]:
    """The messages that are there, with the numbers of the requests that hold them."""
    started: deque[_Started] = deque((*queue.start(opened, want, 0.0), want) for want in wants)
    opened.link.flush()
    deadline = time.monotonic() + queue.reader.timeout_s
    found: list[tuple[Message, int]] = []
    try:
        while started:
            request_id, pending, want = started[0]
            queue.wait(opened.link, pending, deadline)
            started.popleft()
            opened.waiting.pop(request_id, None)
            with suppress(MessageNotFound):
                received = queue.received(opened, request_id, pending, want)
                message = queue.message_of(opened, request_id, want, received)
                found.append((message, request_id))
    except (LinkLost, ServerUnreachable):
        raise
    except BaseException:
        _release(queue, opened, started, found, wants[0])
        raise
    return found


def _release(
    queue: QueueReader,
    opened: RemoteOpenQueue,
    started: deque[_Started],
    found: list[tuple[Message, int]],
    want: Want,
) -> None:
    """What is locked for us, or will be when its answer comes, goes back."""
    if want.takes:
        for request_id, pending, _ in started:
            queue.abandon(opened, request_id, pending, want)
        for _, request_id in found:
            queue.give_back(opened, request_id, want)
