"""The outgoing queues that a session serves, [MS-MQQB] 3.1.7.1, 3.1.2.6 and 3.1.6.5."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from posthouse.engine.manager import QueueManager
from posthouse.engine.remote import Outbound
from posthouse.protocols.binary.settings import BinarySettings

NEVER = 1 << 62  # a time that does not come


class Sender(Protocol):
    """The engine's side of one queue on one session: `Transfer.begin_sending`."""

    @property
    def waiting(self) -> bool:
        """Whether there is something to take now."""
        ...

    @property
    def unordered(self) -> int:
        """Transactional messages sent here that have no order acknowledgment yet."""
        ...

    @property
    def order_acks(self) -> int:
        """Order acknowledgments that made progress; only ever grows."""
        ...

    def take(self, count: int, bytes_max: int) -> list[Outbound]:
        """The next messages, each once; at least one however large it is."""
        ...

    def acknowledged(self, numbers: list[int]) -> None:
        """The session's peer has these."""
        ...

    def resend(self) -> None:
        """Transactional messages without order acknowledgment are to be taken again."""
        ...

    def resend_planned(self, count: int, interval_ms: int) -> None:
        """For administrators: how often it was sent again, and when it will be next."""
        ...

    def end(self) -> None:
        """Nothing more is sent here."""
        ...


class SendingQueue:
    """One outgoing queue on one session, with its Transactional Ack Wait Timer."""

    __slots__ = (
        "_order_acks",
        "_resend_ms",
        "attached",
        "in_flight",
        "number",
        "resend_at_ms",
        "resend_index",
        "sender",
    )

    def __init__(self, number: int, resend_ms: tuple[int, ...]) -> None:
        self.number = number
        self.sender: Sender | None = None  # begun with the first take
        self.attached = True
        self.in_flight = 0  # taken, and not acknowledged on this session
        self.resend_index = 0  # into ResendTimerTable
        self.resend_at_ms = NEVER
        self._resend_ms = resend_ms
        self._order_acks = 0

    @property
    def resend_interval_ms(self) -> int:
        """ResendInterval."""
        return self._resend_ms[self.resend_index]

    def take(self, manager: QueueManager, count: int, bytes_max: int) -> list[Outbound]:
        """The next messages; a new session begins with a new sender."""
        if self.sender is None:
            self.sender = manager.transfer.begin_sending(self.number)
            self._order_acks = self.sender.order_acks
        return self.sender.take(count, bytes_max)

    @property
    def has_more(self) -> bool:
        """Whether another take would give something."""
        return self.sender is not None and self.sender.waiting

    def note_taken(self, messages: list[Outbound], now_ms: int) -> None:
        """These are about to be sent."""
        self.in_flight += len(messages)
        for message in messages:
            if message.transactional:
                self.start_timer(now_ms)
                return

    def start_timer(self, now_ms: int) -> None:
        """A transactional message is sent: the timer starts unless it runs, 3.1.2.6."""
        self.look_for_progress(now_ms)
        if self.resend_at_ms == NEVER:
            self._start(now_ms)

    def _start(self, now_ms: int) -> None:
        assert self.sender is not None
        self.resend_at_ms = now_ms + self.resend_interval_ms
        self.sender.resend_planned(self.resend_index, self.resend_interval_ms)

    @property
    def has_progress(self) -> bool:
        """Whether order acknowledgments came since the last look."""
        return self.sender is not None and self.sender.order_acks != self._order_acks

    def look_for_progress(self, now_ms: int) -> None:
        """Progress takes the interval back to the first one (state-machines 3 d)."""
        sender = self.sender
        if sender is None or not self.has_progress:
            return
        self._order_acks = sender.order_acks
        self.resend_index, self.resend_at_ms = 0, NEVER
        if sender.unordered:
            self._start(now_ms)

    def expire(self, now_ms: int) -> bool:
        """Transactional Ack Wait Timer Event, 3.1.6.5: whether messages are to be sent again."""
        sender = self.sender
        self.look_for_progress(now_ms)
        if sender is None or now_ms < self.resend_at_ms:
            return False
        self.resend_at_ms = NEVER
        if not sender.unordered:
            self.resend_index = 0
            return False
        sender.resend()
        self.resend_index = min(self.resend_index + 1, len(self._resend_ms) - 1)
        self._start(now_ms)
        return True

    def end(self) -> None:
        """The session, or its part for this queue, is over."""
        self.attached = False
        self.resend_at_ms = NEVER
        sender, self.sender = self.sender, None
        if sender is not None:
            sender.end()


class Taken(NamedTuple):
    """What one queue gave to be sent."""

    queue: SendingQueue
    messages: list[Outbound]


class SendingQueues:
    """All queues of a session. Each gets its turn.

    `take`, `acknowledged`, `expire`, `retire` and `end` are called from inside the engine's turns.
    """

    def __init__(self, settings: BinarySettings) -> None:
        self._resend_ms = settings.resend_ms
        self._queues: dict[int, SendingQueue] = {}
        self._ready: dict[int, SendingQueue] = {}  # may have something, in the order of turns

    @property
    def wait(self) -> bool:
        """Whether a take may give something."""
        return bool(self._ready)

    def __len__(self) -> int:
        return len(self._queues)

    def attach(self, number: int) -> None:
        """This queue has, or may have, messages that go out on this session."""
        queue = self._queues.get(number)
        if queue is None:
            queue = self._queues[number] = SendingQueue(number, self._resend_ms)
        queue.attached = True
        self._ready[number] = queue

    def detach(self, number: int) -> bool:
        """Nothing more is taken from it; True: it can be retired.

        What is in flight may still be acknowledged, so its sender lives on until then.
        """
        queue = self._queues.get(number)
        if queue is None:
            return False
        self._ready.pop(number, None)
        queue.attached = False
        queue.resend_at_ms = NEVER
        return not queue.in_flight

    def take(self, manager: QueueManager, count: int, bytes_max: int, now_ms: int) -> list[Taken]:
        """Up to so many messages; the queue that gave last comes last the next time."""
        taken: list[Taken] = []
        for number, queue in list(self._ready.items()):
            messages = queue.take(manager, count, bytes_max)
            del self._ready[number]
            if not messages:
                continue
            if queue.has_more:
                self._ready[number] = queue
            taken.append(Taken(queue, messages))
            queue.note_taken(messages, now_ms)
            count -= len(messages)
            bytes_max -= sum([len(message.packet) for message in messages])
            if count <= 0 or bytes_max <= 0:
                break
        return taken

    def acknowledged(self, numbers: dict[SendingQueue, list[int]]) -> None:
        """A SessionHeader took these out of flight."""
        for queue, acknowledged in numbers.items():
            queue.in_flight -= len(acknowledged)
            if queue.sender is not None:
                queue.sender.acknowledged(acknowledged)
                self.retire(queue.number)

    def retire(self, number: int) -> None:
        """Ends a detached queue that has nothing in flight."""
        queue = self._queues.get(number)
        if queue is not None and not queue.attached and not queue.in_flight:
            del self._queues[number]
            queue.end()

    def expire(self, now_ms: int) -> None:
        """Looks at all Transactional Ack Wait Timers; what is to be sent again waits then."""
        for number, queue in self._queues.items():
            if queue.attached and queue.expire(now_ms):
                self._ready[number] = queue

    def is_due(self, now_ms: int) -> bool:
        """Whether `expire` has something to do."""
        return any(
            now_ms >= queue.resend_at_ms or queue.has_progress for queue in self._queues.values()
        )

    def next_deadline_ms(self) -> int:
        """When the first Transactional Ack Wait Timer expires."""
        return min([queue.resend_at_ms for queue in self._queues.values()], default=NEVER)

    def end(self) -> None:
        """The session is closed."""
        for queue in self._queues.values():
            queue.end()
        self._queues.clear()
        self._ready.clear()
