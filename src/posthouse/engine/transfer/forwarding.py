"""Forwarding: how a routing server passes on messages for other machines.

[MS-MQQB] 3.1.5.8.2, 3.1.5.8.5: one more hop, stored, and on to its next hop, unopened.
"""

from __future__ import annotations

from collections import Counter, deque

from posthouse.engine.directory.public_queues import DirectoryOfQueues
from posthouse.engine.ledger.ledger import Ledger, Lock
from posthouse.engine.ledger.parts import Accepting, PacketReads, TraceReports
from posthouse.engine.ledger.records import FLAG_REMOTE
from posthouse.engine.ledger.rows import POSITIVE_JOURNAL, restamped
from posthouse.engine.ledger.transfer_parts import MachineTransfer
from posthouse.engine.messages.admission import Admission, late_by
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.arrivals import Arriving, ReceivedBatch, Refusal
from posthouse.engine.transfer.peer_clocks import Clocks
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
from posthouse.wire.packet.headers import HOP_COUNT_MAX, HOPS
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import PacketSummary
from posthouse.wire.packet.patch import patch, stamp
from posthouse.wire.packet.sequence_places import place_seen

NO_ROOM = (MachineQuotaExceeded, InsufficientResources)  # the machine's fault, not the message's
REST_MS = 5 * 60 * 1000
WAITING_MAX = 50_000  # messages that are known by their identifiers; of older ones copies pile up
_FORGOTTEN = HOPS | POSITIVE_JOURNAL  # of the flags of a message that is passed on
NOT_A_ROUTER = "it is for another computer, and this one is not a routing server"


class Forwarding:
    """Messages for other machines."""

    def __init__(
        self,
        core: Ledger,
        registry: Queues,
        clocks: Clocks,
        admission: Admission,
        sending: Accepting,
        tracing: TraceReports,
        transfer: MachineTransfer,
        reading: PacketReads,
        directory: DirectoryOfQueues,
    ) -> None:
        self.core = core
        self._registry = registry
        self._clocks = clocks
        self._admission = admission
        self._sending = sending
        self._tracing = tracing
        self.resting = Resting(core, reading, directory)
        self._waiting = WaitingForwards(core, transfer)

    def forward(self, batch: ReceivedBatch, arrival: Arriving) -> None:
        """On to its next hop, unopened; only as routing server (decision 15).

        What cannot be stored stays with its sender (decision 81).
        """
        core, seen = self.core, arrival.seen
        if (late_s := late_by(seen, seen.sent_time, core.utc)) > 0:
            self._clocks.late(batch.peer.address, late_s)
            raise Refusal(NACK_REACH_QUEUE_TIMEOUT)
        if not core.settings.queue_manager.routing_server:
            raise Refusal(NACK_BAD_DEST_QUEUE, NOT_A_ROUTER)
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
        flags = self._admission.admit(queue, one, FLAG_REMOTE, False)
        number = self._sending.accept(queue, one, flags, None, b"", "", batch.change)
        if seen.transaction_at:
            self._waiting.add(queue, number, packet, seen)
        if rests:
            self.resting.add(queue, number)
        self._tracing.received(packet, seen, batch.change)

    def _said_anew(self, arrival: Arriving) -> Arriving:
        """A final acknowledgment that went round a circle, sent again as one of our own.

        No other machine repeats it, and with its old message id the machines of the first round
        would drop it as a duplicate.
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

        A direct name contains the host to connect to, so it is not passed on (decision 9). Our copy
        of the directory may be older than the sender's: messages for an unknown public queue wait.
        """
        if name is None or isinstance(name, DirectName):
            raise Refusal(NACK_BAD_DEST_QUEUE)
        try:
            queue = self._registry.passing_target(name, batch.change)
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

    If they were dropped, as the document has it, their message would wait at its sender for ever: a
    final acknowledgment is sent only once. So they wait here for a while and are then sent again;
    each round of a circle costs one such wait.
    """

    def __init__(self, core: Ledger, reading: PacketReads, directory: DirectoryOfQueues) -> None:
        self._core = core
        self._reading = reading
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
            now = core.locks.get(number)
            if now is not None and now.began_as(lock):
                self._reading.give_back(core.queues[queue], number)
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
    nothing that precedes it in its sequence was stored after that: then the copy adds nothing to
    the one that is here. This table is in memory only. An extra copy costs its space and nothing
    else.
    """

    def __init__(self, core: Ledger, transfer: MachineTransfer) -> None:
        self._core = core
        self._transfer = transfer
        # By source and ordinal, the oldest first: the number that a message has here.
        self._numbers: Bounded[tuple[bytes, int], int] = Bounded(WAITING_MAX)
        # Of the copies of a sequence: the last place stored, and where the run up to it began.
        self._runs: Bounded[tuple[int, bytes, int], tuple[int, int]] = Bounded(WAITING_MAX)

    def add(self, queue: Queue, number: int, packet: bytes, seen: PacketSummary) -> None:
        """A message was stored."""
        sequence_id, place, _ = place_seen(packet, seen)
        key = queue.number, seen.source_guid, sequence_id
        last, begun = self._runs.pop(key, (0, number))
        self._runs[key] = place, begun if place > last else number
        self._numbers.pop((seen.source_guid, seen.ordinal), None)  # the latest comes last
        self._numbers[seen.source_guid, seen.ordinal] = number

    def has(self, queue: Queue, packet: bytes, seen: PacketSummary) -> bool:
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
            and not self._transfer.is_in_flight(queue, number, row)
            and core.packet(number) == packet
        )
