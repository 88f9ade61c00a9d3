"""Passing messages on: what a routing server does with those for other machines.

[MS-MQQB] 3.1.5.8.2, 3.1.5.8.5: one more hop, stored, and on to its next hop, unopened.
"""

from __future__ import annotations

from collections import Counter, deque

from posthouse.engine.directory.public_queues import DirectoryOfQueues
from posthouse.engine.ledger.core import Core
from posthouse.engine.ledger.ledger import Lock
from posthouse.engine.ledger.records import FLAG_REMOTE
from posthouse.engine.ledger.rows import POSITIVE_JOURNAL, restamped
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.arrivals import (
    Arriving,
    ReceivedBatch,
    Refusal,
    is_late,
    late_by,
)
from posthouse.model.bounded_tables import Bounded
from posthouse.model.errors import InsufficientResources, MachineQuotaExceeded, QueueError
from posthouse.model.guids import format_guid
from posthouse.model.message_classes import (
    NACK_BAD_DEST_QUEUE,
    NACK_HOP_COUNT_EXCEEDED,
    NACK_REACH_QUEUE_TIMEOUT,
    ORDER_ACK,
    class_name,
)
from posthouse.model.names import DirectName, SingleName
from posthouse.model.text import excerpt
from posthouse.wire.binary.order_acks import ack_class
from posthouse.wire.packet.batch import Batch
from posthouse.wire.packet.glance import Glance
from posthouse.wire.packet.headers import HOP_COUNT_MAX, HOPS
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.patch import patch, stamp
from posthouse.wire.packet.sequence_places import place_seen

NO_ROOM = (MachineQuotaExceeded, InsufficientResources)  # the machine's fault, not the message's
REST_MS = 5 * 60 * 1000
WAITING_MAX = 50_000  # messages that are known by their identifiers; of older ones copies pile up
_FORGOTTEN = HOPS | POSITIVE_JOURNAL  # of the flags of a message that is passed on


class Forwarding:
    """Messages for other machines."""

    def __init__(self, core: Core, directory: DirectoryOfQueues) -> None:
        self.core = core
        self.resting = Resting(core, directory)
        self._waiting = WaitingForwards(core)

    def forward(self, batch: ReceivedBatch, arrival: Arriving) -> None:
        """On to its next hop, unopened; only as routing server (decision 15).

        What cannot be stored stays with its sender (decision 81).
        """
        core, seen = self.core, arrival.seen
        if is_late(seen, core.utc):
            core.clocks.late(batch.peer.address, late_by(seen, core.utc))
            raise Refusal(NACK_REACH_QUEUE_TIMEOUT)
        if not core.settings.queue_manager.routing_server:
            raise Refusal(NACK_BAD_DEST_QUEUE)
        hops = (seen.user_flags & HOPS) + 1
        rests = hops > HOP_COUNT_MAX
        if rests:
            self._tell_circle(arrival)
            if ack_class(arrival.packet, seen.base_flags, seen.user_flags) in (0, ORDER_ACK):
                raise Refusal(NACK_HOP_COUNT_EXCEEDED)
            hops, arrival = 0, self._said_anew(arrival)
            seen = arrival.seen
        packet = patch(arrival.packet, hop_count=hops, seen=seen)
        # Its journal is where it was sent.
        seen = seen._replace(user_flags=(seen.user_flags & ~_FORGOTTEN) | hops)
        queue = self._next_queue(Packet(arrival.packet, arrival.seen).destination_queue, batch)
        if seen.transaction_at and self._waiting.has(queue, packet, seen):
            core.refusals["resend_still_waiting"] += 1
            return
        one = Batch.of(packet, seen)
        flags = core.admission.admit(queue, one, FLAG_REMOTE, False)
        number = core.sending.accept(queue, one, flags, None, b"", "", batch.change)
        if seen.transaction_at:
            self._waiting.add(queue, number, packet, seen)
        if rests:
            self.resting.add(queue, number)
        core.tracing.received(packet, seen, batch.change)

    def _said_anew(self, arrival: Arriving) -> Arriving:
        """A final acknowledgment that has gone round, as one of ours: nobody else says it again.

        Under its old identifier those who have had it on its first round would drop it.
        """
        core, ordinal = self.core, self.core.ordinals.next()
        packet = stamp(
            arrival.packet,
            source_guid=core.guid,
            ordinal=ordinal,
            sent_time=core.utc,
            seen=arrival.seen,
        )
        return Arriving(packet, restamped(arrival.seen, core.guid, core.utc, ordinal))

    def _next_queue(self, name: SingleName | None, batch: ReceivedBatch) -> Queue:
        """The outgoing queue towards a destination (3.1.5.8.5).

        A direct name has the host to connect to: who uses one does so (decision 9).
        What we know of the directory may be older than what the sender knows: a public queue that
        we have not heard of is waited for.
        """
        if name is None or isinstance(name, DirectName):
            raise Refusal(NACK_BAD_DEST_QUEUE)
        try:
            queue = self.core.registry.passing_target(name, batch.change)
        except NO_ROOM:
            raise
        except QueueError:
            raise Refusal(NACK_BAD_DEST_QUEUE) from None
        if queue.outgoing is None:  # the name is ours, the address is not
            raise Refusal(NACK_BAD_DEST_QUEUE)
        return queue

    def _tell_circle(self, arrival: Arriving) -> None:
        """Entries of the directory contradict each other, and somebody has to mend them."""
        seen = arrival.seen
        self.core.event(
            "hop_count_exceeded",
            label=excerpt(Packet(arrival.packet, seen).label),
            message_class=class_name(seen.message_class),
            code=seen.message_class,
            source=format_guid(seen.source_guid),
            destination=format_guid(seen.address_guid),
            hops=seen.user_flags & HOPS,
        )


class Resting:
    """Final acknowledgments that went round in a circle until their hops were used up.

    Dropped, as the document has it, they would leave the message that they speak of waiting with
    its sender for ever: nobody says them twice. So they rest here, and then set out again; each
    round of a circle costs a rest.
    """

    def __init__(self, core: Core, directory: DirectoryOfQueues) -> None:
        self._core = core
        self._directory = directory
        self._version = 0  # of the directory, when the last one came
        self._until: deque[tuple[int, int, int, Lock]] = deque()  # milliseconds, queue, number
        self._held: Counter[int] = Counter()  # by queue

    def add(self, queue: Queue, number: int) -> None:
        """It came just now, and goes nowhere for a while."""
        lock = Lock(None)
        self._core.lock(queue, number, lock)
        self._version = self._directory.service.version
        until_ms = self._core.now_ms + REST_MS
        self._until.append((until_ms, queue.number, number, lock))
        self._core.deadlines.note(until_ms)
        self._held[queue.number] += 1

    def next_deadline_ms(self) -> int | None:
        """When the next one sets out: at once when the directory has changed."""
        if not self._until:
            return None
        return self._core.now_ms if self._is_mended else self._until[0][0]

    @property
    def _is_mended(self) -> bool:
        return self._version != self._directory.service.version

    def run_timer(self) -> None:
        """Those that have rested long enough are sent."""
        core, all_of_them = self._core, self._is_mended
        while self._until and (all_of_them or self._until[0][0] <= core.now_ms):
            _, queue, number, lock = self._until.popleft()
            self._held[queue] -= 1
            if core.locks.get(number) is lock:
                core.reading.give_back(core.queues[queue], number)
                core.effects.active.add(queue)

    def reason_of(self, queue: Queue) -> str:
        """Why messages of an outgoing queue are held; nothing if none is."""
        count = self._held[queue.number]
        if not count:
            return ""
        return (
            f"{count:,} acknowledgments went in a circle over {HOP_COUNT_MAX} routers and wait:"
            " sites, links or routing servers of the directory contradict each other"
        )


class WaitingForwards:
    """Transactional messages that came to be passed on and have not left yet.

    Their sender sends them again until they are acknowledged, and each of those copies would be
    stored. One is dropped if it is the same, byte by byte, as one that waits here unsent, and
    nothing that precedes it in its sequence was stored after that: then it would say nothing that
    the one here does not say as well, and earlier. What is known is in memory only. A copy too many
    costs its room, no more.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        # By source and ordinal, the oldest first: the number that a message has here.
        self._numbers: Bounded[tuple[bytes, int], int] = Bounded(WAITING_MAX)
        # Of the copies of a sequence: the last place stored, and where the run up to it began.
        self._runs: Bounded[tuple[int, bytes, int], tuple[int, int]] = Bounded(WAITING_MAX)

    def add(self, queue: Queue, number: int, packet: bytes, seen: Glance) -> None:
        """A message was stored."""
        sequence_id, place, _ = place_seen(packet, seen)
        key = queue.number, seen.source_guid, sequence_id
        last, begun = self._runs.pop(key, (0, number))
        self._runs[key] = place, begun if place > last else number
        self._numbers.pop((seen.source_guid, seen.ordinal), None)  # the latest comes last
        self._numbers[seen.source_guid, seen.ordinal] = number

    def has(self, queue: Queue, packet: bytes, seen: Glance) -> bool:
        """Whether the same message waits here, and a copy of it would be of no use."""
        core, source = self._core, seen.source_guid
        number = self._numbers.get((source, seen.ordinal), 0)
        row = core.state.table.get(number)
        if row is None or row.queue != queue.number:
            return False
        sequence_id = place_seen(packet, seen)[0]
        _, begun = self._runs.get((queue.number, source, sequence_id), (0, number + 1))
        return (
            number >= begun
            and number not in core.locks
            and not core.transfer.is_in_flight(queue, number, row)
            and core.packet(number) == packet
        )
