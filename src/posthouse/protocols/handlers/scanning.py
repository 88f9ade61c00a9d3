"""Scans the messages of queues in bounded steps, without holding anything between them.

A scan remembers a place in queue order. Messages that come or go meanwhile are seen or not, as in
any browse; those it has shown it does not show again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from posthouse.api.types import SkippedJson
from posthouse.engine.ledger.effects import Read
from posthouse.engine.ledger.order import START, QueuePosition
from posthouse.engine.ledger.records import Row
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue, QueueRole
from posthouse.model.errors import (
    AccessDenied,
    QueueError,
    QueueNotFound,
    ServiceNotAvailable,
    TooLittleMemory,
)
from posthouse.model.filters import Filter
from posthouse.model.message_json import MessageJson
from posthouse.model.properties import QueueAccessType
from posthouse.protocols.handlers.context import Context, Services, opened
from posthouse.protocols.handlers.decoding import Decoding, decoded_size
from posthouse.protocols.handlers.message_fields import MessageFields, header_condition
from posthouse.protocols.handlers.message_json import message_json
from posthouse.protocols.handlers.request_steps import Decide, Steps
from posthouse.security.rights import PEEK_MESSAGE

STEP_MESSAGES: Final = 500
FIRST_MESSAGES: Final = 50  # of a search: compared at once, for most queues are short
STEP_BYTES: Final = 4 << 20  # of packets that one step fetches
STEP_ROWS: Final = 2_000  # that one step looks at
SEARCH_S: Final = 1.0  # after which a request of a search is answered with what it has
SCAN_MAX: Final = 1_000_000  # messages that one request reads
JSON_FACTOR: Final = 4  # of the memory that a message takes until its JSON is sent
EXAMINED_BYTES: Final = 256 << 10  # above them packets are read and compared beside the loop
MASKED_BYTES: Final = 16 << 10  # the same for a role with masks, whose bodies are parsed

Wanted = Callable[[Row], bool]
Chosen = tuple[QueuePosition, int, Row]


class ScannedMessage(NamedTuple):
    """A message that a scan came by."""

    read: Read
    packet: bytes
    queue: str
    code_page: str = ""
    move_reason: str = ""

    @property
    def place(self) -> QueuePosition:
        """Where it stands in its queue."""
        return QueuePosition(self.read.priority, self.read.lookup_id)

    def json(self) -> MessageJson:
        """The message as JSON."""
        return message_json(self.read, self.packet, self.queue, self.code_page, self.move_reason)

    @property
    def fields(self) -> MessageFields:
        """The message for comparisons that need no content."""
        return MessageFields(self.read, self.packet, self.queue, self.json)


class Scan:
    """The messages of one queue after a place, step by step."""

    def __init__(
        self,
        context: Context,
        queue: str,
        *,
        place: QueuePosition = START,
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
        self.room = 0  # bytes on the account for the last step
        self.passed = 0  # messages of the last step that their rows ruled out
        self._code_page = ""
        self._reasons: dict[int, str] = {}  # of messages of the last step that were moved

    def step(self, count: int = STEP_MESSAGES) -> Steps[list[ScannedMessage]]:
        """Up to `count` messages more; fewer than there are when they are large.

        Before they are fetched there has to be memory for all that is made of them; it is on the
        account until it is `kept` for an answer or given back.
        """
        answer = yield Decide(lambda manager: self._look(manager, count))
        if isinstance(answer.value, int):
            size = answer.value
            yield self.context.memory.room(JSON_FACTOR * size)
            self.room = JSON_FACTOR * size
            answer = yield Decide(lambda manager: self._look(manager, count, size))
        assert isinstance(answer.value, list)
        batch = [
            ScannedMessage(
                read, packet, self.queue, self._code_page, self._reasons.get(read.number, "")
            )
            for read, packet in zip(answer.value, answer.packets, strict=True)
        ]
        self.kept(room := JSON_FACTOR * sum(len(found.packet) for found in batch))
        self.room = room
        return batch

    def kept(self, size: int) -> None:
        """So much of the memory of the last step is needed for the answer."""
        room, self.room = self.room, 0
        self.context.memory.change(size - room)

    def given_back(self) -> None:
        """What was made of the last step is not needed."""
        self.kept(0)

    def _look(self, manager: QueueManager, count: int, room: int | None = None) -> list[Read] | int:
        """The next messages; their size instead, where there is no room for them now.

        With `room` there is memory for as many bytes of them.
        """
        services = self.context.services
        begun_s = services.clock_s()
        try:
            return self._looked(manager, count, room)
        finally:
            services.search_pace.looked(services.clock_s() - begun_s)

    def _looked(self, manager: QueueManager, count: int, room: int | None) -> list[Read] | int:
        with opened(manager, self.queue, self._access, self.context) as descriptor:
            queue = descriptor.target()
            self.queue, self._code_page = queue.name, queue.code_page
            chosen, place, done = self._chosen(manager, queue, count)
            if room is not None:
                chosen, place, done = _within(chosen, room, place, done)
            elif not self._takes(size := sum(row.size for _, _, row in chosen)):
                return size
            reads = list[Read]()
            self._reasons = {}
            manager.messages.fetch_together([number for _, number, _ in chosen])
            for self.place, number, row in chosen:
                reads.append(manager.messages.read_of(number, row))
                if reason := manager.messages.move_reason(number):
                    self._reasons[number] = reason
            self.place, self.done = place, done
            return reads

    def _takes(self, size: int) -> bool:
        room = JSON_FACTOR * size
        if not self.context.memory.take(room):
            return False
        self.room = room
        return True

    def _chosen(
        self, manager: QueueManager, queue: Queue, count: int
    ) -> tuple[list[Chosen], QueuePosition, bool]:
        """The next messages, where that ends, and whether it is the end of the queue."""
        messages, chosen, size, last = manager.messages, list[Chosen](), 0, self.place
        self.passed = 0
        for looked, (place, number) in enumerate(messages.in_order(queue, self.place)):
            row = messages.row(number)
            if len(chosen) >= count or looked >= STEP_ROWS or (chosen and size >= STEP_BYTES):
                return chosen, last, False
            last = place
            if not (self._locked or messages.is_visible(number, True)):
                continue
            if self._wanted is None or self._wanted(row):
                chosen.append((place, number, row))
                size += row.size
            else:
                self.passed += 1
        return chosen, last, True


def _within(
    chosen: list[Chosen], room: int, place: QueuePosition, done: bool
) -> tuple[list[Chosen], QueuePosition, bool]:
    """Others may have come meanwhile: what there is room for of these, but one of any size."""
    for at, (_, _, row) in enumerate(chosen):
        room -= row.size
        if room < 0 and at:
            return chosen[:at], chosen[at - 1][0], False
    return chosen, place, done


def examined(
    context: Context,
    batch: list[ScannedMessage],
    where: Filter | None,
    decoding: Decoding | None = None,
) -> Steps[list[MessageJson | None]]:
    """The messages that a filter matches, None for others; with `decoding` perhaps fewer.

    More than a few are compared beside the loop, and only in the share of the time that bulk reads
    have; so is all that decodes bodies.
    """

    view = context.view
    headers = None if where is None else header_condition(where)

    def matching(found: ScannedMessage) -> MessageJson | None:
        if headers is not None and not headers(found.fields):
            return None
        message = view.shown(found.json())
        return message if where is None or where.matches(message) else None

    def examine() -> list[MessageJson | None]:
        messages = map(matching, batch)
        return list(messages if decoding is None else decoding.decoded(messages))

    size = sum(len(found.packet) for found in batch)
    decodes = decoding is not None or (where is not None and where.decodes)
    few = size <= _bytes_at_once(context) and (where is None or len(batch) <= FIRST_MESSAGES)
    if few and not decodes:
        return examine()
    services, plain = context.services, where is None and not decodes
    answer = yield services.offload(examine) if plain else services.search(examine)
    assert isinstance(answer.value, list)
    return answer.value


def _bytes_at_once(context: Context) -> int:
    return MASKED_BYTES if context.view.patterns else EXAMINED_BYTES


def seen_by_role(context: Context, messages: list[MessageJson]) -> Steps[list[MessageJson]]:
    """Messages with as much of their content as the role sees; large ones beside the loop."""

    def look() -> list[MessageJson]:
        return [context.view.shown(message) for message in messages]

    size = sum(message.body_size for message in messages)
    if not context.view.patterns or size <= MASKED_BYTES:
        return look()
    answer = yield context.services.offload(look)
    assert isinstance(answer.value, list)
    return answer.value


class Page(NamedTuple):
    """What a search found, and where it stopped: None at the end."""

    messages: list[MessageJson]
    stopped: QueuePosition | None
    scanned: int
    size: int


def search(
    scan: Scan,
    where: Filter | None,
    limit: int,
    decoding: Decoding | None = None,
    latest_s: float | None = None,
) -> Steps[Page]:
    """The next messages that a filter matches, up to a page of them.

    A long search is answered every `SEARCH_S` with what it has and where it goes on, so that its
    caller sees how far it is, and can stop it.
    """
    page: list[MessageJson] = []
    scanned = size = 0
    services = scan.context.services
    latest_s = search_until(services) if latest_s is None else latest_s
    while not scan.done:
        first = FIRST_MESSAGES if where else min(limit, STEP_MESSAGES)
        batch = yield from scan.step(STEP_MESSAGES if scanned and where else first)
        scanned += scan.passed
        if not batch and where:
            yield services.search(_nothing)  # rests where others work
        messages = yield from _fetched(scan, batch, where, decoding)
        last = batch[len(messages) - 1] if decoding is not None and decoding.is_spent else None
        for found, message in zip(batch, messages, strict=False):
            scanned += 1
            if message is not None:
                page.append(message)
                size += len(found.packet)
            full = len(page) >= limit or size >= STEP_BYTES or found is last
            if full and not (scan.done and found is batch[-1]):
                return Page(page, found.place, scanned, size)
        over = scanned >= SCAN_MAX or (where is not None and services.clock_s() >= latest_s)
        if over and not scan.done:
            return Page(page, scan.place, scanned, size)
    return Page(page, None, scanned, size)


def search_until(services: Services) -> float:
    """Until when a request that begins now looks for messages."""
    return services.clock_s() + SEARCH_S


def _nothing() -> None:
    """The work of a step whose rows ruled out all messages."""


def _fetched(
    scan: Scan, batch: list[ScannedMessage], where: Filter | None, decoding: Decoding | None
) -> Steps[list[MessageJson | None]]:
    """Those that match, with the memory that they take as JSON on the account."""
    try:
        messages = yield from examined(scan.context, batch, where, decoding)
    except BaseException:
        scan.given_back()
        raise
    pairs = zip(batch, messages, strict=False)
    kept = (len(found.packet) for found, one in pairs if one is not None)
    scan.kept(JSON_FACTOR * sum(kept) + decoded_size(messages))
    return messages


def peekable_queues(manager: QueueManager, context: Context, after: int) -> list[tuple[int, str]]:
    """Number and name of every queue with messages that the caller may look at."""
    return [
        (queue.number, queue.name)
        for queue in manager.queues.all()
        if queue.number >= after and queue.state.count and is_peekable(manager, context, queue)
    ]


def is_peekable(manager: QueueManager, context: Context, queue: Queue) -> bool:
    """Whether the caller may look at the messages of a queue."""
    if queue.outgoing is not None:
        return context.caller.is_administrator and context.caller.scopes is None
    if queue.definition.role is QueueRole.INTERNAL:
        return False
    return manager.queues.guard(queue).allows(context.caller, PEEK_MESSAGE)


GONE = (QueueNotFound, AccessDenied)
"""Why a queue that could be read a moment ago cannot be now."""


def skipping(queue: str, error: QueueError) -> SkippedJson:
    """Return the entry for a queue that a search of several goes past.

    Raises the error where it is about the queue manager, not about the queue.
    """
    if isinstance(error, ServiceNotAvailable | TooLittleMemory):
        raise error
    return SkippedJson(queue=queue, reason=error.cause)
