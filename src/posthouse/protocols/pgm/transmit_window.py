"""The transmit window: packets that a source can still repair (RFC 3208 2.1, 16)."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from posthouse.wire.pgm.options import Options
from posthouse.wire.pgm.packets import distance, follow

PACKET_COST = 256  # what a packet takes in memory beside its data


class Sent(NamedTuple):
    """A data packet as it was sent."""

    sent_ms: int
    data: bytes
    options: Options

    @property
    def cost(self) -> int:
        """What it takes in memory."""
        return PACKET_COST + len(self.data)


class Kept:
    """What the windows of all sources take in memory together."""

    __slots__ = ("bytes", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0


class TransmitWindow:
    """Packets from the trailing to the leading edge, one number each."""

    def __init__(self, first_sequence: int, kept: Kept, limit: int) -> None:
        self.trailing = first_sequence
        self.bytes = 0
        self._kept = kept
        self._limit = limit
        self._packets: deque[Sent] = deque()

    def __len__(self) -> int:
        return len(self._packets)

    @property
    def leading(self) -> int:
        """TXW_LEAD: the number of the last packet sent; in front of the trailing edge: none."""
        return follow(self.trailing, len(self._packets) - 1)

    @property
    def next_sequence(self) -> int:
        """The number of the next packet."""
        return follow(self.trailing, len(self._packets))

    @property
    def is_full(self) -> bool:
        """Whether it, or all of them together, has to move before more is sent."""
        return self.bytes >= self._limit or self._kept.bytes >= self._kept.limit

    def _count(self, grown: int) -> None:
        self.bytes += grown
        self._kept.bytes += grown

    def clear(self) -> None:
        """Drops all packets: none can be repaired from now on."""
        self._packets.clear()
        self._count(-self.bytes)

    def add(self, packet: Sent) -> int:
        """A packet has been sent; returns its number."""
        sequence = self.next_sequence
        self._packets.append(packet)
        self._count(packet.cost)
        return sequence

    def get(self, sequence: int) -> Sent | None:
        """The packet of this number, while it is in the window."""
        at = distance(sequence, self.trailing)
        return self._packets[at] if 0 <= at < len(self._packets) else None

    def advance(self, sent_before_ms: int, stop_at: int | None) -> int:
        """Gives up what was sent before that time, but nothing from `stop_at` on (2.1.3.1)."""
        given_up = 0
        while self._packets and self._packets[0].sent_ms < sent_before_ms:
            if self.trailing == stop_at:
                break
            self._count(-self._packets.popleft().cost)
            self.trailing = follow(self.trailing)
            given_up += 1
        return given_up
