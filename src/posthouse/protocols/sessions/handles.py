"""The open queues, cursors and transactions of a client session, by handle.

Handles begin at a random number, so that a handle of a broken session is invalid in the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import (
    IllegalFormatName,
    InsufficientResources,
    InvalidHandle,
    InvalidParameter,
    QueueError,
    RemoteProtocolError,
    TransactionSequence,
)
from posthouse.wire.frames.frames import FRAME_SIZE_MAX
from posthouse.wire.packet.batch import Batch
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import PacketSummary, require_properties, summarize
from posthouse.wire.packet.packet_prefixes import has_user_header, user_header

_HANDLE_MASK = 0x3FFFFFFF
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """What one client session may use. Only the size of a frame follows a setting."""

    frame_size_max: int = FRAME_SIZE_MAX
    requests_max: int = 1024  # outstanding; more are not read
    request_bytes_max: int = 16 << 20  # of outstanding requests and of messages read by them,
    # beyond the one that passes it
    waits_max: int = 65_536  # waiting reads
    handles_max: int = 16_384  # of each kind
    held_max: int = 65_536  # messages received through one handle and not ended
    batch_max: int = 10_000  # messages of one frame
    unread_bytes_max: int = 64 << 20  # of answers, beyond what the connection buffers


class Handles(Generic[T]):
    """Objects of one kind by handle."""

    __slots__ = ("_error", "_last", "_limit", "_of", "_second", "_what")

    def __init__(self, what: str, start: int, limit: int, error: type[QueueError]) -> None:
        self._what = what
        self._last = start & _HANDLE_MASK
        self._limit = limit
        self._error = error
        self._of: dict[int, T] = {}
        self._second: dict[int, int] = {}  # of what has two handles, each by the other

    def check_room(self) -> None:
        """Refuses one more than the session may have."""
        if len(self._of) - len(self._second) // 2 >= self._limit:
            raise InsufficientResources(f"the session has too many {self._what}s open")

    def add(self, value: T, second: int = 0) -> int:
        """The handle of something new; `second` is one that the client has already."""
        self._last += 1
        self._of[self._last] = value
        if second and second not in self._of:
            self._of[second] = value
            self._second[second], self._second[self._last] = self._last, second
        return self._last

    def get(self, handle: int) -> T:
        """What the handle stands for."""
        try:
            return self._of[handle]
        except KeyError:
            raise self._error(f"the session has no {self._what} {handle} open") from None

    def drop(self, handle: int) -> None:
        """Makes a handle invalid."""
        self._of.pop(handle, None)
        if self._second:
            second = self._second.pop(handle, 0)
            if second:
                del self._second[second], self._of[second]

    def clear(self) -> None:
        """None of the handles stands for anything."""
        self._of, self._second = {}, {}

    def drop_all(self, values: set[T]) -> None:
        """Drop all handles of these values."""
        for handle in [handle for handle, value in self._of.items() if value in values]:
            self.drop(handle)


def queue_handles(start: int, limits: SessionLimits) -> Handles[SessionQueue]:
    """For open queues."""
    return Handles("queue", start, limits.handles_max, InvalidHandle)


def transaction_handles(start: int, limits: SessionLimits) -> Handles[Transaction]:
    """For transactions."""
    return Handles("transaction", start, limits.handles_max, TransactionSequence)


class SessionQueue:
    """An open queue, and what was found good of the packets sent to it.

    Packets of one client to one queue begin alike: user header and queue names are read again
    only when they change. Everything else the engine checks of each packet.
    """

    __slots__ = ("_front", "_names", "descriptor")

    def __init__(self, descriptor: OpenQueueDescriptor, destination: str) -> None:
        self.descriptor = descriptor
        self._names = {destination.casefold(), descriptor.format_name.casefold()}
        self._front: bytes | None = None

    def check(self, batches: list[Batch]) -> None:
        """Refuses packets that are none or that are for another queue.

        The packets of a batch share their names: one is looked at, unless headers follow its body.
        """
        place = 0
        for batch in batches:
            if not has_user_header(batch.packets[0], batch.head, self._front):
                self._front = self._check(place, batch.packets[0], batch.head)
                if self._front is None:
                    for at in range(1, batch.count):
                        self._check(place + at, batch.packets[at], batch.looks[at])
            place += batch.count

    def _check(self, place: int, data: bytes, seen: PacketSummary) -> bytes | None:
        """The front that a packet and those like it have; None where each has to be looked at."""
        try:
            require_properties(seen)
            packet = Packet(data, seen)
            packet.check()
        except RemoteProtocolError as error:
            raise bad_packet(error, place) from None
        if packet.destination_text.casefold() not in self._names:
            raise IllegalFormatName(
                f"packet {place} of the batch is for another queue than the one that is open",
                "Address packets with the destination that the open queue has.",
            )
        return user_header(data, seen)


def first_bad(packets: list[bytes]) -> int | None:
    """The place of the first packet that is none."""
    for place, packet in enumerate(packets):
        try:
            summarize(packet)
        except RemoteProtocolError:
            return place
    return None


def bad_packet(error: RemoteProtocolError, place: int | None = None) -> QueueError:
    """A packet that is none, in a frame that is one: only its request is refused."""
    which = "a packet" if place is None else f"packet {place}"
    return InvalidParameter(
        f"{which} of the batch is not a message: {error}",
        "Build packets with the client library, or as [MS-MQMQ] 2.2.20 has them.",
    )
