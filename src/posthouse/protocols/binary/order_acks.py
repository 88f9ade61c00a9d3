"""The Order Ack Send Timer: when order acknowledgments are sent, [MS-MQQB] 3.1.2.7 and 3.1.6.9."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from heapq import heappop, heappush

from posthouse.protocols.binary.settings import BinarySettings

ORDER_ACKS_AT_ONCE = 64  # that one turn sends; what else is due follows in the next
# The local queue's number, the GUID of the messages' source, and the host that they came from.
Sequence = tuple[int, bytes, str]
_STOPPED = -1


class _Timer:
    """One timer: who started it, when it is due, and LastOrderAckSendTime."""

    __slots__ = ("due_ms", "owner", "sent_ms")

    def __init__(self, owner: Hashable, now_ms: int) -> None:
        self.owner = owner
        self.due_ms = _STOPPED
        self.sent_ms = now_ms


class OrderAckTimers:
    """One timer for each source and destination queue (state-machines 4.2 h).

    One acknowledgment covers many messages: each further message puts it off, but not for ever.
    """

    def __init__(self, settings: BinarySettings) -> None:
        self._delay_ms = settings.order_ack_ms
        self._delay_max_ms = settings.order_ack_max_ms
        self._timers: dict[Sequence, _Timer] = {}
        self._of_owner: dict[Hashable, set[Sequence]] = {}
        self._heap: list[tuple[int, Sequence]] = []  # a timer is due then, or later

    def touched(self, owner: Hashable, sequences: Iterable[Sequence], now_ms: int) -> None:
        """Transactional messages of these came on a session and are safe, 3.1.1.6.2."""
        for sequence in sequences:
            timer = self._timers.get(sequence)
            if timer is None or timer.owner is not owner:
                timer = self._own(owner, sequence, now_ms)
            if timer.due_ms == _STOPPED:
                timer.due_ms = now_ms + self._delay_ms
                heappush(self._heap, (timer.due_ms, sequence))
            elif now_ms - timer.sent_ms < self._delay_max_ms:
                timer.due_ms = now_ms + self._delay_ms

    def _own(self, owner: Hashable, sequence: Sequence, now_ms: int) -> _Timer:
        """A timer belongs to the session that its last message came on."""
        timer = self._timers.get(sequence)
        if timer is None:
            timer = self._timers[sequence] = _Timer(owner, now_ms)
        else:
            self._of_owner[timer.owner].discard(sequence)
            timer.owner = owner
        self._of_owner.setdefault(owner, set()).add(sequence)
        return timer

    def due(self, now_ms: int) -> list[Sequence]:
        """Order Ack Send Timer Event: what is to be acknowledged now. Its timers are stopped."""
        heap, due = self._heap, list[Sequence]()
        while heap and heap[0][0] <= now_ms and len(due) < ORDER_ACKS_AT_ONCE:
            _, sequence = heappop(heap)
            timer = self._timers.get(sequence)
            if timer is None or timer.due_ms == _STOPPED:
                continue
            if timer.due_ms > now_ms:
                heappush(heap, (timer.due_ms, sequence))
                continue
            timer.due_ms, timer.sent_ms = _STOPPED, now_ms
            due.append(sequence)
        return due

    def next_deadline_ms(self) -> int | None:
        """When to look again; nothing is due earlier."""
        return self._heap[0][0] if self._heap else None

    def forget(self, owner: Hashable) -> None:
        """A session is closed: nothing is sent for it, its peer will send again."""
        for sequence in self._of_owner.pop(owner, ()):
            del self._timers[sequence]

    def __len__(self) -> int:
        return len(self._timers)
