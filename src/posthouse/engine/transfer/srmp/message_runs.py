"""Runs of simple messages over HTTP, accepted in one step ([MC-MQSRM] 3.1.5.1.12).

Most messages are such: outside of streams, unsigned, without receipts and journals, for a queue
that takes them from anybody. Those of a turn that go to one queue one after the other are a run,
and come in at once. Everything else looks at a state that has the run in it: see `flush`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from posthouse.engine.ledger.records import FLAG_REMOTE, Change
from posthouse.engine.messages.admission import Admission
from posthouse.engine.messages.room import Room
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.arrivals import Notes, ReceivedBatch, is_noted
from posthouse.engine.transfer.message_history import MessageHistory
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.srmp.protocol_interface import SrmpArrival
from posthouse.model.errors import QueueError
from posthouse.security.access import Caller, Guard
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.wire.packet.batch import Batch
from posthouse.wire.packet.packet_fields import PacketSummary

Accept = Callable[[Queue, Batch, int, None, bytes, str, Change], object]  # of `Sending`
_ANYBODY = Caller.anonymous()


def neighbours(arrivals: list[SrmpArrival]) -> Iterator[list[SrmpArrival]]:
    """Messages in their order: those of one host and one template that follow on each other."""
    alike: list[SrmpArrival] = []
    for arrival in arrivals:
        if alike:
            first = alike[0]
            if (
                arrival.template is None
                or arrival.template is not first.template
                or arrival.peer.host != first.peer.host
            ):
                yield alike
                alike = []
        alike.append(arrival)
    if alike:
        yield alike


class SrmpBatch(ReceivedBatch):
    """What the messages of one turn have come to so far, with the run that is still growing."""

    __slots__ = (
        "_accept",
        "_admission",
        "_guard",
        "_history",
        "_kind",
        "_looks",
        "_open",
        "_packets",
        "_queue",
        "_room",
        "hosts",
    )

    def __init__(
        self,
        peer: Peer,
        guard: Callable[[Queue], Guard],
        admission: Admission,
        accept: Accept,
        history: MessageHistory,
    ) -> None:
        super().__init__(peer)
        self._history = history
        self._admission = admission
        self._accept = accept
        self._guard = guard
        self._open: dict[int, bool] = {}  # queues, by number
        self._queue: Queue | None = None
        self._kind = (0, 0)  # priority and flags of the rows
        self._packets: list[bytes] = []
        self._looks: list[PacketSummary] = []
        self._room = Room()  # what the run takes
        self.hosts: dict[str, tuple[Notes, Notes]] = {}  # recoverable and express ones

    def come_from(self, host: str) -> None:
        """Requests of all connections are one batch; what follows comes from this host."""
        self.recoverable, self.express = self.hosts.setdefault(host, ({}, {}))

    def has(self, source: bytes, ordinal: int, digest: bytes) -> bool:
        """Whether the message came in this very batch, from any host."""
        for recoverable, express in self.hosts.values():
            if is_noted(recoverable, source, ordinal, digest):
                return True
            if is_noted(express, source, ordinal, digest):
                return True
        return False

    def came_in(self, source: bytes, ordinal: int, digest: bytes) -> bool:
        """Whether the message is in the history, or came in this very batch."""
        return self._history.knows(source, ordinal, digest) or self.has(source, ordinal, digest)

    def are_new(self, source: bytes, ordinals: list[int], digests: list[bytes]) -> bool:
        """Whether none of these messages came in, and no identifier is there twice."""
        if len(set(ordinals)) != len(ordinals):
            return False
        if self._history.has_none_of(source, ordinals) and self._has_none_of(source, ordinals):
            return True
        pairs = zip(ordinals, digests, strict=True)
        return not any(self.came_in(source, ordinal, digest) for ordinal, digest in pairs)

    def _has_none_of(self, source: bytes, ordinals: list[int]) -> bool:
        """Whether nothing came in this batch under any of these identifiers."""
        for kinds in self.hosts.values():
            for notes in kinds:
                held = notes.get(source)
                if held and not held.keys().isdisjoint(ordinals):
                    return False
        return True

    def is_open(self, queue: Queue) -> bool:
        """Whether anybody may send to a queue."""
        known = self._open.get(queue.number)
        if known is None:
            known = self._open[queue.number] = self._takes_all(queue)
        return known

    def _takes_all(self, queue: Queue) -> bool:
        try:
            return self._guard(queue).allows(_ANYBODY, WRITE_MESSAGE)
        except QueueError:
            return False

    def gather(self, queue: Queue, more: Batch) -> bool:
        """Some more for an open queue; False: they would be refused, and none is taken."""
        if queue is not self._queue:
            self.flush()
            self._queue = queue
        try:
            flags = self._admission.admit(queue, more, FLAG_REMOTE, False, self._room)
        except QueueError:
            return False
        kind = more.head.priority, flags
        if kind != self._kind:
            self.flush()
            self._kind = kind
            self._room = Room()
            self._room.take(queue, more.size)
        self._packets += more.packets
        self._looks += more.looks
        return True

    def flush(self) -> None:
        """The run comes in: whatever else the batch brings finds it there."""
        packets, looks, queue = self._packets, self._looks, self._queue
        if not packets:
            return
        assert queue is not None
        self._packets, self._looks, self._room = [], [], Room()
        batch = Batch(packets, looks, [seen.ordinal for seen in looks])
        self._accept(queue, batch, self._kind[1], None, b"", "", self.change)
