"""Failed messages of a queue, page by page, each decoded outside the loop to show its error.

A page ends after a number of messages, so that a queue of any length takes bounded memory and no
request takes long. The pages of one run are about the messages that were there when it began.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from posthouse.engine.ledger.order import START, QueuePosition
from posthouse.engine.ledger.records import Row
from posthouse.formats.decoded import Decoded
from posthouse.formats.detect import decode
from posthouse.formats.failures import Failure, failure_of
from posthouse.formats.search import SEARCHED
from posthouse.model.code_pages import DEFAULT_CODE_PAGE
from posthouse.model.filters import Filter
from posthouse.model.message import Message, class_name
from posthouse.model.message_classes import is_negative
from posthouse.model.properties import QueueAccessType
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.message_json import readable
from posthouse.protocols.handlers.request_steps import Steps, at_once
from posthouse.protocols.handlers.scanning import Scan, ScannedMessage

PAGE_SCANNED: Final = 5_000  # messages that one request looks at
T = TypeVar("T")


class Failed(NamedTuple):
    """A message, and what it shows of its failure."""

    found: ScannedMessage
    message: Message
    decoded: Decoded
    failure: Failure

    @property
    def reason(self) -> str:
        """Why it is a dead letter, as the word of its class; else empty."""
        kind = self.found.read.message_class
        return class_name(kind) if is_negative(kind) else ""

    @property
    def message_type(self) -> str:
        """Its type, where a bus wrote it."""
        meaning = self.decoded.meaning
        return (meaning.message_type if meaning else None) or ""

    @property
    def address(self) -> str:
        """The queue where it failed, as its headers name it."""
        meaning = self.decoded.meaning
        return (meaning.failed_queue if meaning else None) or ""

    def key(self, *, similar: bool) -> str:
        """The key of its group."""
        if self.failure.type or self.failure.message:
            return self.failure.key(similar=similar)
        return self.failure.key(f"{self.reason} {self.message_type}", similar=similar)


def failed_of(found: ScannedMessage) -> Failed:
    """Looks into a message."""
    message = readable(found.packet)
    decoded = decode(
        message.body,
        body_type=message.body_type,
        extension=message.extension,
        label=message.label,
        app_specific=message.application_tag,
        correlation_id=message.correlation_identifier.pack(),
        code_page=found.code_page or DEFAULT_CODE_PAGE,
        limits=SEARCHED,
    )
    failure = failure_of(decoded)
    if found.move_reason and not (failure.type or failure.message):
        failure = failure._replace(message=found.move_reason)
    return Failed(found, message, decoded, failure)


class FailedPages:
    """The messages of a queue from a place on, up to those that came after the first page."""

    def __init__(
        self, context: Context, queue: str, access: QueueAccessType, after: str | None
    ) -> None:
        place, self._ceiling = START, 0
        if after is not None:
            priority, lookup_id, self._ceiling = map(int, after.split("-"))
            place = QueuePosition(priority, lookup_id)
        self._context = context
        self._scan = Scan(context, queue, place=place, access=access, wanted=self._is_old)
        self.scanned = 0

    def _is_old(self, row: Row) -> bool:
        return row.lookup_id < self._ceiling

    @property
    def done(self) -> bool:
        """Whether the page has ended."""
        return self._scan.done or self.scanned >= PAGE_SCANNED

    @property
    def next(self) -> str | None:
        """Where the next page begins."""
        if self._scan.done:
            return None
        place = self._scan.place
        return f"{place.priority}-{place.lookup_id}-{self._ceiling}"

    def step(self) -> Steps[list[ScannedMessage]]:
        """Some more messages."""
        if not self._ceiling:
            self._ceiling = yield from at_once(lambda manager: manager.returning.next_lookup_id())
        batch = yield from self._scan.step()
        self.scanned += len(batch)
        return batch


def beside_the_loop(context: Context, work: Callable[[], T]) -> Steps[T]:
    """Slow work on messages, in the share of the time that searches have."""
    services = context.services
    answer = yield services.search(work)
    value: T = answer.value  # type: ignore[assignment]
    return value


def is_meant(context: Context, found: ScannedMessage, where: Filter | None) -> bool:
    """Whether a filter matches a message as the caller sees it."""
    return where is None or where.matches(context.view.shown(found.json()))
