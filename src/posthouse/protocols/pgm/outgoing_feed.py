"""Feeds one outgoing queue of a multicast name to a PGM source ([MC-MQSRM] 3.1.7.9)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import HELD, Queue
from posthouse.engine.transfer.outgoing_cursor import OutgoingCursor
from posthouse.engine.transfer.protocol_interface import Outbound
from posthouse.model.errors import QueueError, RemoteProtocolError, ServiceNotAvailable
from posthouse.model.message_classes import NACK_BAD_DEST_QUEUE, NACK_MESSAGE_TOO_LARGE
from posthouse.protocols.engine_calls import Answer, Desk
from posthouse.protocols.pgm.session import MulticastPlace
from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.protocols.pgm.source import Source

TAKEN_MAX = 64  # messages fetched at once
TAKEN_BYTES = 256 << 10
LOW_BYTES = 128 << 10  # below this, more is fetched

Write = Callable[[MulticastPlace, bytes], bytes]
"""A message as an application data unit."""


class TakenPackets(NamedTuple):
    """What one take gave."""

    messages: list[Outbound]
    more: bool


class Sources(Protocol):
    """Where sources come from."""

    def open_source(self, feed: Feed) -> Source | None:
        """A session for a queue; None if there can be none now, which the host has reported."""
        ...

    def close_source(self, source: Source) -> None:
        """Nothing more is sent there; it ends by itself, when its window has passed."""
        ...

    def changed(self, source: Source) -> None:
        """A source may have something to do."""
        ...


class Feed:
    """Takes messages as fast as they can be sent, and ends those that are out."""

    def __init__(
        self,
        number: int,
        place: MulticastPlace,
        desk: Desk,
        settings: PgmSettings,
        sources: Sources,
        write: Write,
        now: Callable[[], int],
    ) -> None:
        self.number = number
        self.place = place
        self.source: Source | None = None
        self.retry_at_ms: int | None = None
        self.failures = 0  # in a row
        self.too_large = 0
        self._desk = desk
        self._settings = settings
        self._sources = sources
        self._write = write
        self._now = now
        self._sender: OutgoingCursor | None = None
        self._taking = False
        self._held = False  # on hold, offline or at its end: nothing new is begun

    @property
    def is_busy(self) -> bool:
        """Whether it has to do with the queue."""
        return self.source is not None or self._taking or self._sender is not None

    def look(self) -> None:
        """Something has changed: messages, or the queue's state."""
        queue = self._queue
        if queue is None or not self._may_send(queue):
            self.hold()
        elif queue.state.count:
            self._held = False
            self.pump()

    @property
    def _queue(self) -> Queue | None:
        queue = self._desk.manager.queues.get(self.number)
        return None if queue is None or queue.deleted or queue.outgoing is None else queue

    def _may_send(self, queue: Queue) -> bool:
        assert queue.outgoing is not None
        return self._desk.manager.transfer.connection_active and queue.outgoing.state not in HELD

    # -- taking

    def pump(self) -> None:
        """Fetches more, if little is left to send."""
        if self._taking or self._held:
            return
        if self.source is None:
            self.source = self._sources.open_source(self)
        if self.source is None or self.source.unsent_bytes >= LOW_BYTES:
            return
        self._taking = True
        try:
            self._desk.decide(self._take, self._taken)
        except ServiceNotAvailable:
            self._taking = False

    def _take(self, manager: QueueManager) -> TakenPackets:
        if self._sender is None or not self._sender.live:
            self._sender = manager.transfer.begin_sending(self.number)
        messages = self._sender.take(TAKEN_MAX, TAKEN_BYTES)
        return TakenPackets(messages, self._sender.waiting)

    def _taken(self, answer: Answer) -> None:
        """What was taken is as durable as it has to be, so it may go out."""
        self._taking = False
        taken, source = answer.value, self.source
        if (
            not isinstance(taken, TakenPackets)
            or source is None
            or source.is_finishing
            or self._held
        ):
            self._end_sender()
            return
        for message in taken.messages:
            self._offer(source, message)
        self._sources.changed(source)
        if taken.more:
            self.pump()

    def _offer(self, source: Source, message: Outbound) -> None:
        try:
            unit = self._write(self.place, message.packet)
        except (QueueError, RemoteProtocolError):  # nothing that SRMP has words for
            self._refuse(message.number, NACK_BAD_DEST_QUEUE)
            return
        if len(unit) <= self._settings.unit_bytes:
            source.offer(message.number, unit, self._now())
        else:
            self.too_large += 1
            self._refuse(message.number, NACK_MESSAGE_TOO_LARGE)

    def _refuse(self, number: int, message_class: int) -> None:
        def refuse(manager: QueueManager) -> None:
            queue, row = self._queue, manager.messages.find_row(number)
            if queue is not None and row is not None and row.queue == queue.number:
                manager.transfer.refused(queue, number, message_class)

        self._decide(refuse)

    # -- what is out

    def sent(self, numbers: list[Hashable]) -> None:
        """3.1.7.2.5: what PGM has sent counts as sent; no answer is awaited."""
        found, sender = [number for number in numbers if isinstance(number, int)], self._sender
        if sender is not None:
            self._decide(lambda manager: sender.acknowledged(found))
        if self._held:
            self._end_sender_if_idle()
        else:
            self.pump()

    # -- the end

    def hold(self) -> None:
        """Nothing new is begun; what has begun is sent to its end."""
        self._held = True
        self.retry_at_ms = None
        if self.source is not None:
            self.source.withdraw()
        self._end_sender_if_idle()

    def finish(self) -> None:
        """The session is over, with what has begun."""
        self.hold()
        source, self.source = self.source, None
        if source is not None:
            self._sources.close_source(source)

    def _end_sender_if_idle(self) -> None:
        if not self._taking and (self.source is None or not self.source.unsent_bytes):
            self._end_sender()

    def _end_sender(self) -> None:
        """What was taken and is not out waits again."""
        sender, self._sender = self._sender, None
        if sender is not None:
            self._decide(lambda manager: sender.end())

    def _decide(self, call: Callable[[QueueManager], None]) -> None:
        try:
            self._desk.decide(call, lambda answer: None)
        except QueueError:
            return  # the engine has ended
