"""Messages over HTTP that ask for nothing, taken in together ([MC-MQSRM] 3.1.5.1.12).

Most messages are such: outside of streams, unsigned, without receipts and journals, for a queue
that takes them from anybody. Those of a turn that go to one queue one after the other are a run,
and come in at once. Everything else looks at a state that has the run in it: see `flush`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import FLAG_EXPRESS, FLAG_REMOTE, Change
from posthouse.engine.ledger.rows import DELIVERY
from posthouse.engine.messages.admission import INFINITE, PRIVACY_OPTIONAL
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.arrivals import Notes, ReceivedBatch, is_noted
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.errors import QueueError
from posthouse.security.access import Caller, Guard
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.wire.packet.batch import Batch
from posthouse.wire.packet.glance import Glance
from posthouse.wire.srmp.message import SrmpMessage
from posthouse.wire.srmp.parts import Parts

Accept = Callable[[Queue, Batch, int, None, bytes, str, Change], object]  # of `Sending`
_ANYBODY = Caller.anonymous()


class SrmpArrival(NamedTuple):
    """A message that a door has read: from whom, its elements, its parts, its HTTP head."""

    peer: Peer
    message: SrmpMessage
    parts: Parts
    head: bytes


class SrmpBatch(ReceivedBatch):
    """What the messages of one turn have come to so far, with the run that is still growing."""

    __slots__ = (
        "_accept",
        "_bytes",
        "_core",
        "_guard",
        "_kind",
        "_looks",
        "_open",
        "_packets",
        "_queue",
        "hosts",
    )

    def __init__(
        self, core: Ledger, peer: Peer, guard: Callable[[Queue], Guard], accept: Accept
    ) -> None:
        super().__init__(peer)
        self._accept = accept
        self._core = core
        self._guard = guard
        self._open: dict[int, bool] = {}  # queues, by number
        self._queue: Queue | None = None
        self._kind = (0, 0)  # priority and flags of the rows
        self._packets: list[bytes] = []
        self._looks: list[Glance] = []
        self._bytes = 0
        self.hosts: dict[str, tuple[Notes, Notes]] = {}  # recoverable and express ones

    def come_from(self, host: str) -> None:
        """Requests of all connections are one batch; what follows comes from this host."""
        self.recoverable, self.express = self.hosts.setdefault(host, ({}, {}))

    def has(self, source: bytes, ordinal: int, digest: bytes) -> bool:
        """Whether the message came in this very batch, from any host."""
        notes = [kind for kinds in self.hosts.values() for kind in kinds]
        return any(is_noted(one, source, ordinal, digest) for one in notes)

    def is_open(self, queue: Queue) -> bool:
        """Whether a queue takes every message that it has room for, whoever sends it."""
        known = self._open.get(queue.number)
        if known is None:
            known = self._open[queue.number] = self._takes_all(queue)
        return known

    def _takes_all(self, queue: Queue) -> bool:
        core, definition = self._core, queue.definition
        if (
            definition.transactional
            or definition.authentication
            or definition.privacy_level != PRIVACY_OPTIONAL
            or core.throttled
            or core.settings.machine_quota_kib != INFINITE
        ):
            return False
        try:
            return self._guard(queue).allows(_ANYBODY, WRITE_MESSAGE)
        except QueueError:
            return False

    def gather(self, queue: Queue, packet: bytes, seen: Glance) -> bool:
        """One more for an open queue; False: it is late or has no room, and is not taken."""
        size = seen[0]
        if seen[3] != INFINITE and seen[7] + seen[3] < self._core.utc:
            return False
        kind = seen[1], FLAG_REMOTE if seen[9] & DELIVERY else FLAG_REMOTE | FLAG_EXPRESS
        if queue is not self._queue or kind != self._kind:
            self.flush()
            self._queue, self._kind = queue, kind
        if queue.state.bytes + queue.reserved + self._bytes + size > queue.limit:
            return False
        self._packets.append(packet)
        self._looks.append(seen)
        self._bytes += size
        return True

    def flush(self) -> None:
        """The run comes in: whatever else the batch brings finds it there."""
        packets, looks, queue = self._packets, self._looks, self._queue
        if not packets:
            return
        assert queue is not None
        self._packets, self._looks, self._bytes = [], [], 0
        batch = Batch(packets, looks, [seen.ordinal for seen in looks])
        self._accept(queue, batch, self._kind[1], None, b"", "", self.change)
