"""The outgoing queues that a session serves, [MS-MQQB] 3.1.7.1, 3.1.2.6 and 3.1.6.5."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from posthouse.engine.transfer.protocol_interface import Outbound
from posthouse.model.errors import QueueError
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.protocols.sending_queue import NEVER, SendingQueue

if TYPE_CHECKING:  # clients use this module, and do not wait for the engine to load
    from posthouse.engine.manager import QueueManager

NO_LIMIT = -(1 << 62)  # below every dispatch priority
FETCHED_MAX_BYTES = 256 << 10  # taken ahead of the window for one session


class BinarySendingQueue(SendingQueue):
    """One outgoing queue on one session, with its Transactional Ack Wait Timer."""

    __slots__ = ("attached", "in_flight")

    def __init__(self, number: int, resend_ms: tuple[int, ...]) -> None:
        super().__init__(number, resend_ms)
        self.attached = True
        self.in_flight = 0  # taken, and not acknowledged on this session

    def take(
        self, count: int, bytes_max: int, lowest: int, utc_s: int, now_ms: int
    ) -> list[Outbound]:
        """The next messages of at least this dispatch priority; they are about to be sent."""
        assert self.sender is not None
        self.look_for_progress(utc_s, now_ms)
        base = self.sender.queue.definition.base_priority
        messages = self.sender.take(count, bytes_max, lowest - base)
        self.in_flight += len(messages)
        if self.resend_at_ms == NEVER and _any_transactional(messages):
            self.start_timer(utc_s, now_ms)
        return messages

    def give_back(self, count: int) -> None:
        """This many messages that were taken are not sent; a new sender will give them again."""
        if count:
            self.in_flight -= count
            self.begins_anew = True

    @property
    def level(self) -> int | None:
        """The dispatch priority of its next message ([MS-MQDMPR] 3.1.7.1.28); None: none waits."""
        assert self.sender is not None
        priority = self.sender.next_priority
        return None if priority is None else self.sender.queue.definition.base_priority + priority

    @property
    def has_more(self) -> bool:
        """Whether another take would give something."""
        return self.sender is not None and self.sender.waiting

    def end(self) -> None:
        """The session, or its part for this queue, is over."""
        self.attached = False
        super().end()


def _any_transactional(messages: list[Outbound]) -> bool:
    return True in [message.transactional for message in messages]


class TakenMessages(NamedTuple):
    """What one queue gave to be sent."""

    queue: BinarySendingQueue
    messages: list[Outbound]
    packets: list[bytes]

    def part(self, which: slice) -> TakenMessages:
        """Some of them."""
        return TakenMessages(self.queue, self.messages[which], self.packets[which])


class Fetched:
    """Messages taken ahead of the window, so that an acknowledgment finds the next ones ready.

    Without them each window would wait for the engine's log, which has to take in the
    acknowledgments first. They are few, and fewer if they are large.
    """

    __slots__ = ("_batches", "_mean_bytes", "bytes", "count")

    def __init__(self) -> None:
        self._batches: deque[TakenMessages] = deque()
        self._mean_bytes = FETCHED_MAX_BYTES  # of a message; none is taken ahead at first
        self.count = 0
        self.bytes = 0

    def wanted(self, window: int) -> int:
        """How many more should be here."""
        return min(window, FETCHED_MAX_BYTES // (self._mean_bytes + 1)) - self.count

    def add(self, batch: TakenMessages) -> None:
        """These were taken."""
        size = sum(map(len, batch.packets))
        self._batches.append(batch)
        self._mean_bytes = size // len(batch.packets)
        self.count += len(batch.packets)
        self.bytes += size

    def give(self, room: int) -> Iterator[TakenMessages]:
        """Up to this many, in their order; what belongs to an ended queue is left out."""
        while room > 0 and self._batches:
            batch = self._batches.popleft()
            if len(batch.packets) > room:
                self._batches.appendleft(batch.part(slice(room, None)))
                batch = batch.part(slice(room))
            self.count -= len(batch.packets)
            self.bytes -= sum(map(len, batch.packets))
            if batch.queue.sender is not None:
                room -= len(batch.packets)
                yield batch

    def drop(self, queue: BinarySendingQueue) -> int:
        """Those of one queue are not sent; returns how many there were."""
        before, batches = self.count, list(self._batches)
        self._batches.clear()
        self.count = self.bytes = 0
        for batch in batches:
            if batch.queue is not queue:
                self.add(batch)
        return before - self.count


class _Levels:
    """Queues by the dispatch priority of their next message, each level in the order of turns."""

    __slots__ = ("_of", "_order", "_queues")

    def __init__(self) -> None:
        self._queues: dict[int, dict[BinarySendingQueue, None]] = {}
        self._order: list[int] = []  # the levels that there are, the lowest first
        self._of: dict[BinarySendingQueue, int] = {}

    @property
    def highest(self) -> int | None:
        """The level whose turn it is."""
        return self._order[-1] if self._order else None

    def add(self, queue: BinarySendingQueue, level: int) -> None:
        """Puts a queue at the end of a level."""
        if level not in self._queues:
            self._queues[level] = {}
            insort(self._order, level)
        self._queues[level][queue] = None
        self._of[queue] = level

    def raise_to(self, queue: BinarySendingQueue, level: int) -> None:
        """Moves a queue up; one that stands there already, or higher, keeps its turn."""
        now = self._of.get(queue)
        if now is None or now < level:
            self.remove(queue)
            self.add(queue, level)

    def pop(self) -> BinarySendingQueue:
        """Takes out the first queue of the highest level."""
        queue = next(iter(self._queues[self._order[-1]]))
        self.remove(queue)
        return queue

    def remove(self, queue: BinarySendingQueue) -> None:
        """Takes a queue out, if it is here."""
        level = self._of.pop(queue, None)
        if level is None:
            return
        del self._queues[level][queue]
        if not self._queues[level]:
            del self._queues[level], self._order[bisect_left(self._order, level)]


def _lowest(level: int, others: int | None) -> int:
    """Down to which dispatch priority a queue may send in its turn; others wait at theirs."""
    return NO_LIMIT if others is None else min(level, others + 1)


class SendingQueues:
    """All queues of a session, in the order of dispatch ([MS-MQDMPR] 3.1.7.1.28, 3.1.7.3.9).

    The priority of a message on its way is its own plus the base priority of its queue. The highest
    goes first, whatever waits below it; queues that are equal take turns.
    `take`, `acknowledged`, `expire`, `retire` and `end` are called from inside the engine's turns.
    """

    def __init__(self, settings: BinarySettings) -> None:
        self._resend_ms = settings.resend_ms
        self.peer = b""  # who gets them, once that is known
        self._queues: dict[int, BinarySendingQueue] = {}
        self._told: dict[int, BinarySendingQueue] = {}  # may have something new: not sorted in yet
        self._levels = _Levels()

    @property
    def wait(self) -> bool:
        """Whether a take may give something."""
        return bool(self._told) or self._levels.highest is not None

    @property
    def have_more(self) -> bool:
        """Whether anything waits, also what is not reported yet."""
        return self.wait or any(queue.has_more for queue in self._queues.values())

    def __len__(self) -> int:
        return len(self._queues)

    def attach(self, number: int) -> None:
        """This queue has, or may have, messages that go out on this session."""
        queue = self._queues.get(number)
        if queue is None:
            queue = self._queues[number] = BinarySendingQueue(number, self._resend_ms)
        queue.attached = True
        self._told[number] = queue

    def detach(self, number: int, fetched: Fetched) -> bool:
        """Nothing more is sent of it; True: it can be retired.

        What is in flight may still be acknowledged, so its sender lives on until then.
        """
        queue = self._queues.get(number)
        if queue is None:
            return False
        self._told.pop(number, None)
        self._levels.remove(queue)
        queue.attached = False
        queue.resend_at_ms = NEVER
        queue.give_back(fetched.drop(queue))
        return not queue.in_flight

    def take(
        self, manager: QueueManager, count: int, bytes_max: int, now_ms: int
    ) -> list[TakenMessages]:
        """Up to `count` messages; of equals, the queue that gave last comes last next time."""
        taken: list[TakenMessages] = []
        self._sort_in(manager)
        levels = self._levels
        while count > 0 and bytes_max > 0 and (level := levels.highest) is not None:
            queue = levels.pop()
            if not self._is_begun(queue, manager):
                continue
            lowest = _lowest(level, levels.highest)
            messages = queue.take(count, bytes_max, lowest, manager.machine.utc, now_ms)
            left = queue.level
            if left is not None and (messages or left < level):
                levels.add(queue, left)
            if not messages:
                continue
            packets = [message.packet for message in messages]
            taken.append(TakenMessages(queue, messages, packets))
            if left is not None and left >= lowest:
                break  # there was no room for its next message, which nothing overtakes
            count -= len(messages)
            bytes_max -= sum(map(len, packets))
        return taken

    def _sort_in(self, manager: QueueManager) -> None:
        """Gives each queue with news the place of the most that it can have to send."""
        find = manager.queues.get
        for number, queue in self._told.items():
            if (found := find(number)) is None:
                continue
            if (highest := manager.messages.highest_priority(found)) is not None:
                self._levels.raise_to(queue, found.definition.base_priority + highest)
        self._told.clear()

    def _is_begun(self, queue: BinarySendingQueue, manager: QueueManager) -> bool:
        """Whether the queue is still there to be sent from."""
        try:
            if queue.sender is None or queue.begins_anew or not queue.sender.live:
                queue.begin(manager, self.peer)
            return True
        except QueueError:
            del self._queues[queue.number]
            return False

    def acknowledged(self, numbers: dict[BinarySendingQueue, list[int]]) -> None:
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

    def expire(self, manager: QueueManager, now_ms: int) -> None:
        """Looks at all Transactional Ack Wait Timers; what is to be sent again waits then."""
        for number, queue in self._queues.items():
            if queue.attached and queue.expire(manager.machine.utc, now_ms):
                self._told[number] = queue

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
        self._told.clear()
        self._levels = _Levels()
