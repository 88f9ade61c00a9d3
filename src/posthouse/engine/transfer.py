"""Outgoing queues as the engine sees them: sequences, states, the dispatch collection.

[MS-MQDMPR] 3.1.1.3-5, 3.1.1.18, 3.1.4.12-15, 3.1.7.1.28-29, 3.1.7.1.34, 3.1.7.3.9. Sequences are
numbered here, at commit; sending itself is the protocols'.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from heapq import heappop, heappush

import msgspec

from posthouse.engine.core import Core, decode_extra, encode_extra
from posthouse.engine.queue import ConnectionAttempt, OutgoingQueueState, Queue
from posthouse.engine.records import TABLE_INCOMING, TABLE_OUTGOING, Change
from posthouse.model.errors import QueueNotActive, UnsupportedOperation
from posthouse.model.names import DirectName, parse_format_name

_U32 = struct.Struct("<I")


class OutgoingTransferInfo(msgspec.Struct, omit_defaults=True):
    """[MS-MQDMPR] 3.1.1.4, the part that outlives the process."""

    sequence_id: int = 0  # TimeStamp << 32 | Ordinal
    next_number: int = 1
    last_number: int = 0  # given to the message before
    last_ack_id: int = 0
    last_ack_number: int = 0
    last_ack_time: int = 0
    last_ack_count: int = 0
    unread_count: int = 0  # order-acknowledged, not yet reported as received
    resend_interval_s: int = 0
    resend_time: int = 0
    resend_count: int = 0


class IncomingTransactionalTransferInfo(msgspec.Struct, omit_defaults=True):
    """[MS-MQDMPR] 3.1.1.5: one per source queue manager and destination queue."""

    source: bytes
    format_name: str
    sequence_id: int = 0
    sequence_number: int = 0
    last_access_time: int = 0
    reject_count: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode_outgoing = msgspec.msgpack.Decoder(OutgoingTransferInfo).decode
_decode_incoming = msgspec.msgpack.Decoder(IncomingTransactionalTransferInfo).decode


class DispatchEntry:
    """[MS-MQDMPR] 3.1.1.18."""

    __slots__ = ("number", "priority", "protocol_data", "queue", "send_in_progress")

    def __init__(self, queue: int, number: int, priority: int, protocol_data: object) -> None:
        self.queue = queue
        self.number = number
        self.priority = priority
        self.protocol_data = protocol_data
        self.send_in_progress = False

    @property
    def over_binary(self) -> bool:
        """Entries with protocol data go out over the binary protocol, the others over SRMP."""
        return self.protocol_data is not None


class DispatchCollection:
    """What is to be sent, per outgoing queue, the highest priority first."""

    def __init__(self) -> None:
        self._entries: dict[int, dict[int, DispatchEntry]] = {}
        self._heaps: dict[int, list[tuple[int, int, int]]] = {}
        self._orders = 0

    def add(self, queue: Queue, number: int, priority: int, protocol_data: object) -> None:
        """Add Message To Dispatch Collection (3.1.7.1.28)."""
        priority += queue.definition.base_priority
        entry = DispatchEntry(queue.number, number, priority, protocol_data)
        entries = self._entries.setdefault(queue.number, {})
        if number in entries:
            return
        entries[number] = entry
        self._orders += 1
        heap = self._heaps.setdefault(queue.number, [])
        heappush(heap, (-priority, self._orders, number))

    def remove(self, queue: Queue, number: int) -> None:
        """Remove Message From Dispatch Collection (3.1.7.1.29); harmless if it is not there."""
        self._entries.get(queue.number, {}).pop(number, None)

    def remove_queue(self, queue: Queue) -> None:
        """Remove Messages From Dispatch Collection By Queue (3.1.7.1.34)."""
        self._entries.pop(queue.number, None)
        self._heaps.pop(queue.number, None)

    def next(self, queue: Queue, present: Callable[[int], bool]) -> DispatchEntry | None:
        """Dispatch Send Message (3.1.7.3.9): chooses and marks in one step; one at a time a queue.

        `present` tells which messages still exist. Each outgoing queue has a dispatcher of its
        own, so that a stalled destination stops nobody else.
        """
        entries = self._entries.get(queue.number, {})
        if any(entry.send_in_progress for entry in entries.values()):
            return None
        heap = self._heaps.get(queue.number, [])
        while heap:
            entry = entries.get(heap[0][2])
            if entry is not None and present(entry.number):
                entry.send_in_progress = True
                return entry
            number = heappop(heap)[2]
            entries.pop(number, None)
        return None

    def finished(self, queue: Queue, number: int, *, sent: bool) -> None:
        """A send ended: out of the collection when it went, again in line when it did not."""
        entry = self._entries.get(queue.number, {}).get(number)
        if entry is None:
            return
        entry.send_in_progress = False
        if sent:
            self.remove(queue, number)

    def __len__(self) -> int:
        return sum(len(entries) for entries in self._entries.values())


class Transfer:
    """The engine's side of sending."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.connection_active = True
        self.dispatch = DispatchCollection()
        self._outgoing: dict[int, OutgoingTransferInfo] = {}
        self._incoming: dict[tuple[int, bytes], IncomingTransactionalTransferInfo] = {}
        self.first_sequence_id = 0

    def load(self, first_sequence_id: int) -> None:
        """Everything the store kept."""
        self.first_sequence_id = first_sequence_id
        for key, value in self.core.state.of_table(TABLE_OUTGOING):
            self._outgoing[_U32.unpack(key)[0]] = _decode_outgoing(value)
        for key, value in self.core.state.of_table(TABLE_INCOMING):
            self._incoming[_U32.unpack(key[:4])[0], key[4:]] = _decode_incoming(value)

    # -- sequences

    def info(self, queue: Queue) -> OutgoingTransferInfo:
        """OutgoingTransferInfo of an outgoing queue: exactly one each."""
        info = self._outgoing.get(queue.number)
        if info is None:
            info = self._outgoing[queue.number] = OutgoingTransferInfo(
                sequence_id=self.first_sequence_id
            )
        return info

    def number_message(self, queue: Queue, extra: bytes, change: Change) -> bytes:
        """Decisions 23, 43: a transactional message gets its sequence number at commit, once."""
        info, kept = self.info(queue), decode_extra(extra)
        kept.sequence_id = info.sequence_id
        kept.sequence_number = info.next_number
        kept.previous_number = info.last_number
        info.last_number = info.next_number
        info.next_number += 1
        self.store_info(queue, change)
        return encode_extra(kept)

    def store_info(self, queue: Queue, change: Change | None = None) -> None:
        """Keeps the transfer info, in the change it belongs to."""
        key = _U32.pack(queue.number)
        self.core.define(TABLE_OUTGOING, key, _encode(self.info(queue)), change)

    def incoming(self, queue: Queue, source: bytes) -> IncomingTransactionalTransferInfo | None:
        """What is known of a sender's sequence into a queue."""
        return self._incoming.get((queue.number, source))

    def incoming_of(self, queue: Queue) -> list[IncomingTransactionalTransferInfo]:
        """All senders' sequences into a queue."""
        return [info for (number, _), info in self._incoming.items() if number == queue.number]

    def accept(
        self,
        queue: Queue,
        source: bytes,
        format_name: str,
        sequence_id: int,
        number: int,
        change: Change,
    ) -> None:
        """Decision 22: the sequence moves on in the same commit as the accepted message."""
        info = IncomingTransactionalTransferInfo(
            source, format_name, sequence_id, number, self.core.utc, 0
        )
        self._store_incoming(queue, info, change)

    def reject(self, queue: Queue, source: bytes, format_name: str) -> None:
        """A message out of sequence: counted, but the sequence stays where it was."""
        old = self.incoming(queue, source) or IncomingTransactionalTransferInfo(source, format_name)
        info = msgspec.structs.replace(
            old, last_access_time=self.core.utc, reject_count=old.reject_count + 1
        )
        self._store_incoming(queue, info, None)

    def _store_incoming(
        self, queue: Queue, info: IncomingTransactionalTransferInfo, change: Change | None
    ) -> None:
        self._incoming[queue.number, info.source] = info
        key = _U32.pack(queue.number) + info.source
        self.core.define(TABLE_INCOMING, key, _encode(info), change)

    def forget_queue(self, queue: Queue, change: Change) -> None:
        """A deleted queue has no sequences any more."""
        if self._outgoing.pop(queue.number, None) is not None:
            self.core.define(TABLE_OUTGOING, _U32.pack(queue.number), None, change)
        self.dispatch.remove_queue(queue)
        for number, source in [key for key in self._incoming if key[0] == queue.number]:
            del self._incoming[number, source]
            self.core.define(TABLE_INCOMING, _U32.pack(number) + source, None, change)

    # -- states (3.1.1.3; state-machines 7.3)

    def _outgoing_of(self, queue: Queue) -> None:
        if queue.outgoing is None:
            raise UnsupportedOperation(f"{queue.name} is not an outgoing queue")

    def pause(self, queue: Queue) -> None:
        """Pause Queue (3.1.4.14, 3.1.7.2.3)."""
        self._outgoing_of(queue)
        assert queue.outgoing is not None
        self.core.registry.change_definition(queue, on_hold=True)
        if queue.outgoing.state is not OutgoingQueueState.LOCKED:
            queue.outgoing.state = OutgoingQueueState.ON_HOLD
        self.core.effects.active.add(queue.number)

    def resume(self, queue: Queue) -> None:
        """Resume Queue (3.1.4.15, 3.1.7.2.4): Disconnected, and connect if messages wait."""
        self._outgoing_of(queue)
        assert queue.outgoing is not None
        if not queue.definition.on_hold:
            raise QueueNotActive(f"{queue.name} is not paused")
        self.core.registry.change_definition(queue, on_hold=False)
        if queue.outgoing.state is OutgoingQueueState.ON_HOLD:
            queue.outgoing.state = OutgoingQueueState.DISCONNECTED
        self.core.effects.active.add(queue.number)

    def set_state(self, queue: Queue, state: OutgoingQueueState) -> None:
        """A protocol's report; a held or locked queue keeps its state."""
        self._outgoing_of(queue)
        assert queue.outgoing is not None
        if queue.outgoing.state not in (OutgoingQueueState.ON_HOLD, OutgoingQueueState.LOCKED):
            queue.outgoing.state = state

    def wants_connection(self, queue: Queue) -> bool:
        """State-machines 7.3: whenever messages wait and nothing forbids or is under way."""
        outgoing = queue.outgoing
        return (
            outgoing is not None
            and self.connection_active
            and queue.state.count > 0
            and outgoing.state
            not in (
                OutgoingQueueState.ON_HOLD,
                OutgoingQueueState.LOCKED,
                OutgoingQueueState.CONNECTED,
                OutgoingQueueState.WAITING,
                OutgoingQueueState.DISCONNECTING,
            )
        )

    def connected(self, queue: Queue, attempt: ConnectionAttempt) -> None:
        """Adds an entry to ConnectionHistory."""
        self._outgoing_of(queue)
        assert queue.outgoing is not None
        queue.outgoing.connection_history.append(attempt)

    def take_offline(self) -> None:
        """Take Offline (3.1.4.12): local queues stay usable."""
        self.connection_active = False

    def bring_online(self) -> None:
        """Bring Online (3.1.4.13)."""
        self.connection_active = True
        self.core.effects.active.update(q.number for q in self.core.registry.outgoing_queues())

    def add_to_dispatch(self, queue: Queue, number: int, protocol_data: object) -> None:
        """Add Message To Dispatch Collection (3.1.7.1.28)."""
        self._outgoing_of(queue)
        row = self.core.reading.row(number)
        self.dispatch.add(queue, number, row.priority, protocol_data)
        self.core.effects.active.add(queue.number)

    def remove_from_dispatch(self, queue: Queue, number: int) -> None:
        """Remove Message From Dispatch Collection (3.1.7.1.29)."""
        self.dispatch.remove(queue, number)
        self.core.effects.active.add(queue.number)

    def next_dispatch(self, queue: Queue) -> DispatchEntry | None:
        """Dispatch Send Message (3.1.7.3.9)."""
        outgoing = queue.outgoing
        held = (OutgoingQueueState.ON_HOLD, OutgoingQueueState.LOCKED, OutgoingQueueState.INACTIVE)
        if outgoing is None or outgoing.state in held or not self.connection_active:
            return None
        return self.dispatch.next(queue, self.core.state.table.__contains__)

    def is_web(self, queue: Queue) -> bool:
        """Whether the queue's messages travel over HTTP."""
        name = parse_format_name(queue.definition.format_name)
        return isinstance(name, DirectName) and name.is_web
