"""Going through the messages of queues in bounded steps, without holding anything between them.

A scan remembers a place in queue order. Messages that come or go meanwhile are seen or not, as in
any browse; those it has shown it does not show again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from posthouse.engine.ledger.effects import Read
from posthouse.engine.ledger.order import START, Place
from posthouse.engine.ledger.records import Row
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue, QueueRole
from posthouse.model.errors import AccessDenied, QueueNotFound
from posthouse.model.filters import Filter
from posthouse.model.message_json import MessageJson
from posthouse.model.properties import QueueAccessType
from posthouse.protocols.handlers.context import Context, opened
from posthouse.protocols.handlers.conversation import Decide, Steps
from posthouse.protocols.handlers.message_json import message_json
from posthouse.security.rights import PEEK_MESSAGE

STEP_MESSAGES: Final = 500
FIRST_MESSAGES: Final = 50  # of a search: compared at once, for most queues are short
STEP_BYTES: Final = 4 << 20  # of packets that one step fetches
STEP_ROWS: Final = 4_000  # that one step looks at
SCAN_MAX: Final = 100_000  # messages that one request reads
JSON_FACTOR: Final = 3  # of the memory that a message takes as JSON: its bytes, a text, base64
EXAMINED_BYTES: Final = 256 << 10  # above them packets are read and compared beside the loop

Wanted = Callable[[Row], bool]


class Found(NamedTuple):
    """A message that a scan came by."""

    read: Read
    packet: bytes
    queue: str

    @property
    def place(self) -> Place:
        """Where it stands in its queue."""
        return Place(self.read.priority, self.read.lookup_id)

    def json(self) -> MessageJson:
        """The message as JSON."""
        return message_json(self.read, self.packet, self.queue)


class Scan:
    """The messages of one queue behind a place, step by step."""

    def __init__(
        self,
        context: Context,
        queue: str,
        *,
        place: Place = START,
        access: QueueAccessType = QueueAccessType.PEEK,
        wanted: Wanted | None = None,
        locked: bool = False,
    ) -> None:
        self.place = place
        self.done = False
        self.queue = queue
        self.context = context
        self._access = access
        self._wanted = wanted
        self._locked = locked

    def step(self, count: int = STEP_MESSAGES) -> Steps[list[Found]]:
        """Up to `count` messages more; fewer than there are when they are large."""
        answer = yield Decide(lambda manager: self._look(manager, count))
        assert isinstance(answer.value, list)
        return [
            Found(read, packet, self.queue)
            for read, packet in zip(answer.value, answer.packets, strict=True)
        ]

    def _look(self, manager: QueueManager, count: int) -> list[Read]:
        with opened(manager, self.queue, self._access, self.context) as descriptor:
            return self._reads(manager, descriptor.target(), count)

    def _reads(self, manager: QueueManager, queue: Queue, count: int) -> list[Read]:
        self.queue = queue.name
        reading, reads, size = manager.reading, list[Read](), 0
        for looked, (place, number) in enumerate(queue.state.order.forward(self.place)):
            row = reading.row(number)
            if len(reads) >= count or looked >= STEP_ROWS or (reads and size >= STEP_BYTES):
                return reads
            self.place = place
            if not (self._locked or reading.visible(number, True)):
                continue
            if self._wanted is None or self._wanted(row):
                reads.append(reading.read_of(number, row))
                size += row.size
        self.done = True
        return reads


def examined(
    context: Context, batch: list[Found], where: Filter | None
) -> Steps[list[MessageJson | None]]:
    """The messages that a filter matches, None for others.

    More than a few are compared beside the loop, and only in the share of the time that bulk reads
    have.
    """

    def examine() -> list[MessageJson | None]:
        messages = map(Found.json, batch)
        return [one if where is None or where.matches(one) else None for one in messages]

    size = sum(len(found.packet) for found in batch)
    decodes = where is not None and where.decodes
    few = size <= EXAMINED_BYTES and (where is None or len(batch) <= FIRST_MESSAGES)
    if few and not decodes:
        return examine()
    services = context.services
    if where is not None:
        services.pace.looked()
    answer = yield services.offload(examine) if where is None else services.gather(examine)
    assert isinstance(answer.value, list)
    return answer.value


class Page(NamedTuple):
    """What a search found, and where it stopped: None at the end."""

    messages: list[MessageJson]
    stopped: Place | None
    scanned: int
    size: int


def search(scan: Scan, where: Filter | None, limit: int, scan_max: int = SCAN_MAX) -> Steps[Page]:
    """The next messages that a filter matches, up to a page of them."""
    page: list[MessageJson] = []
    scanned = size = 0
    while not scan.done:
        first = FIRST_MESSAGES if where else min(limit, STEP_MESSAGES)
        batch = yield from scan.step(STEP_MESSAGES if scanned and where else first)
        messages = yield from _fetched(scan.context, batch, where)
        for found, message in zip(batch, messages, strict=True):
            scanned += 1
            if message is not None:
                page.append(message)
                size += len(found.packet)
            full = len(page) >= limit or size >= STEP_BYTES
            if full and not (scan.done and found is batch[-1]):
                return Page(page, found.place, scanned, size)
        if scanned >= scan_max and not scan.done:
            return Page(page, scan.place, scanned, size)
    return Page(page, None, scanned, size)


def _fetched(
    context: Context, batch: list[Found], where: Filter | None
) -> Steps[list[MessageJson | None]]:
    """The same as `examined`, with the memory for it on the account."""
    sizes = [len(found.packet) for found in batch]
    context.fetched(sum(sizes))
    try:
        messages = yield from examined(context, batch, where)
    finally:
        context.fetched(-sum(sizes))
    kept = (size for size, one in zip(sizes, messages, strict=True) if one is not None)
    context.fetched(JSON_FACTOR * sum(kept))
    return messages


def peekable_queues(manager: QueueManager, context: Context, after: int) -> list[tuple[int, str]]:
    """Number and name of every queue with messages that the caller may look at."""
    return [
        (queue.number, queue.name)
        for queue in manager.queues.all()
        if queue.number >= after and queue.state.count and _peekable(manager, context, queue)
    ]


def _peekable(manager: QueueManager, context: Context, queue: Queue) -> bool:
    if queue.outgoing is not None:
        return context.caller.is_administrator and context.caller.scopes is None
    if queue.definition.role is QueueRole.INTERNAL:
        return False
    return manager.queues.guard(queue).allows(context.caller, PEEK_MESSAGE)


GONE = (QueueNotFound, AccessDenied)
"""Why a queue that could be read a moment ago cannot be now."""
