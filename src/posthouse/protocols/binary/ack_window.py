"""The acknowledgment window: counts of messages sent and received, [MS-MQQB] 3.1.1.4, 3.1.1.6.1.

Packets carry no numbers: both sides count. Counts are whole here and 16 bits wide on the wire, so
what comes from the wire is read as the nearest number that makes sense (3.1.1.3.1).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from posthouse.engine.transfer.protocol_interface import Outbound
from posthouse.model.errors import RemoteProtocolError
from posthouse.wire.packet.headers import SessionHeader

WRAP = 0xFFFF
HALF = 0x8000
ACK_BITS = 32  # of RecoverableMsgAckFlags
RUNS_MIN = 64  # this many empty ones may stay
GONE = -1  # stands for a message of a run that was acknowledged before the others

Owner = TypeVar("Owner")


class TooManyAcknowledged(RemoteProtocolError):
    """A peer acknowledges what was never sent on this session (decision 24)."""


class _Run(Generic[Owner]):
    """Messages of one owner that were sent together: ascending places, and their numbers."""

    __slots__ = ("left", "numbers", "owner", "places")

    def __init__(self, owner: Owner, places: Sequence[int], numbers: list[int]) -> None:
        self.owner = owner
        self.places = places
        self.numbers = numbers
        self.left = len(numbers)

    def take(self, first: int, last: int) -> list[int]:
        """The numbers at these places that are still there, and no longer."""
        numbers = self.numbers
        begin, end = bisect_left(self.places, first), bisect_right(self.places, last)
        if end - begin == self.left == len(numbers):
            self.left = 0
            return numbers
        taken = [number for number in numbers[begin:end] if number != GONE]
        numbers[begin:end] = [GONE] * (end - begin)
        self.left -= len(taken)
        return taken


class InFlight(Generic[Owner]):
    """Messages sent and not acknowledged, in runs: no object for each message."""

    __slots__ = ("_begin", "_lasts", "_runs", "count")

    def __init__(self) -> None:
        self._runs: list[_Run[Owner]] = []
        self._lasts: list[int] = []  # the last place of each
        self._begin = 0  # nothing is left of the runs in front of this one
        self.count = 0

    def add(self, owner: Owner, places: Sequence[int], numbers: list[int]) -> None:
        """Messages sent together; their places lie after all earlier ones."""
        if numbers:
            self._runs.append(_Run(owner, places, numbers))
            self._lasts.append(places[-1])
            self.count += len(numbers)

    def take(self, first: int, last: int, taken: dict[Owner, list[int]]) -> None:
        """Moves what lies at these places over to `taken`, by owner.

        A peer that acknowledges the last of many first does not make us look at all of them.
        """
        runs, at = self._runs, bisect_left(self._lasts, first, self._begin)
        while at < len(runs) and runs[at].places[0] <= last:
            run = runs[at]
            if run.left and (numbers := run.take(first, last)):
                self.count -= len(numbers)
                taken.setdefault(run.owner, []).extend(numbers)
            at += 1
        self._drop_empty()

    def _drop_empty(self) -> None:
        runs, begin = self._runs, self._begin
        while begin < len(runs) and not runs[begin].left:
            begin += 1
        if begin == len(runs) or (begin > RUNS_MIN and 2 * begin > len(runs)):
            del runs[:begin], self._lasts[:begin]
            begin = 0
        self._begin = begin

    @property
    def oldest(self) -> int:
        """No place before this one is taken; 0 if none is."""
        return self._runs[self._begin].places[0] if self._runs else 0


class SentCounts(Generic[Owner]):
    """MessageSentCount and RecoverableMessageSentCount, and what awaits an acknowledgment."""

    __slots__ = ("_express", "_recoverable", "acknowledged", "recoverable", "total")

    def __init__(self) -> None:
        self.total = 0
        self.recoverable = 0
        self.acknowledged = 0  # by AckSequenceNumber
        self._express: InFlight[Owner] = InFlight()
        self._recoverable: InFlight[Owner] = InFlight()

    @property
    def unacknowledged(self) -> int:
        """UnAckedMessageCount: sent here and not covered by AckSequenceNumber (decision 28)."""
        return self.total - self.acknowledged

    @property
    def in_flight(self) -> int:
        """Messages whose end waits for an acknowledgment of this session."""
        return self._express.count + self._recoverable.count

    def room(self, window: int) -> int:
        """How many more may be sent to a peer that announced this window.

        Recoverable messages count until they are stored there, lest their numbers become ambiguous.
        """
        room = window - self.total + self.acknowledged
        if oldest := self._recoverable.oldest:
            return min(room, oldest + HALF - ACK_BITS - self.recoverable)
        return room

    def note(self, owner: Owner, sent: list[Outbound]) -> None:
        """These go out now, in this order."""
        numbers = [message.number for message in sent]
        marks = [message.recoverable for message in sent]
        recoverable = sum(marks)
        place, stored_place = self.total + 1, self.recoverable + 1
        self.total += len(sent)
        self.recoverable += recoverable
        places: Sequence[int] = range(place, self.total + 1)
        stored_places = range(stored_place, self.recoverable + 1)
        if recoverable == len(sent):
            self._recoverable.add(owner, stored_places, numbers)
        elif not recoverable:
            self._express.add(owner, places, numbers)
        else:
            pairs = list(zip(numbers, places, marks, strict=True))
            stored = [number for number, _, mark in pairs if mark]
            self._recoverable.add(owner, stored_places, stored)
            rest = [(number, at) for number, at, mark in pairs if not mark]
            self._express.add(owner, [at for _, at in rest], [number for number, _ in rest])

    def acknowledge(self, header: SessionHeader) -> dict[Owner, list[int]]:
        """What a SessionHeader takes out of flight, by owner; all or nothing, 3.1.5.5.1-3."""
        before = self.acknowledged
        reached = before + (header.ack_sequence_number - before & WRAP)
        if reached > self.total:
            raise TooManyAcknowledged(f"message {reached} is acknowledged, {self.total} were sent")
        named = self._named(header.recoverable_ack_sequence_number, header.recoverable_ack_flags)
        self.acknowledged = reached
        taken: dict[Owner, list[int]] = {}
        self._express.take(before + 1, reached, taken)
        for first, last in named:
            self._recoverable.take(first, last, taken)
        return taken

    def _named(self, base: int, flags: int) -> list[tuple[int, int]]:
        """The recoverable numbers that base and flags name (decision 72), as ranges."""
        if not base:
            return []
        first = self.recoverable - (self.recoverable - base & WRAP)
        last = first + max(flags.bit_length() - 1, 0)
        if first < max(1, self.recoverable - HALF) or last > self.recoverable:
            raise TooManyAcknowledged(
                f"recoverable message {base} is acknowledged, {self.recoverable} were sent"
            )
        return [(first + low, first + high) for low, high in _ones(flags | 1)]


def _ones(bits: int) -> Iterator[tuple[int, int]]:
    """The stretches of ones in a number, as positions of their first and last."""
    at = 0
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        bits >>= zeros
        ones = (bits + 1 & ~bits).bit_length() - 1
        yield at + zeros, at + zeros + ones - 1
        bits >>= ones
        at += zeros + ones


class ReceivedCounts:
    """Counts of messages received, of those that are safe, and of those acknowledged to the peer.

    Safe means: dealt with, and synced (decision 39). That happens in the order of arrival, so three
    counts are enough.
    """

    __slots__ = ("recoverable", "recoverable_safe", "recoverable_told", "safe", "told", "total")

    def __init__(self) -> None:
        self.total = self.recoverable = 0  # MessageReceivedCount, RecoverableMessageReceivedCount
        self.safe = self.recoverable_safe = 0
        self.told = self.recoverable_told = 0  # the latter: LastAckedRecoverableMsgSeqNumber

    @property
    def unacknowledged(self) -> int:
        """UnackedReceivedMsgCount, as far as it may be acknowledged."""
        return self.safe - self.told

    @property
    def recoverable_unacknowledged(self) -> int:
        """Stored recoverable messages that are not acknowledged to the peer."""
        return self.recoverable_safe - self.recoverable_told

    def matches(self, header: SessionHeader) -> bool:
        """Validate Message Counts, [MS-MQQB] 3.1.5.5.5."""
        return (
            header.user_sequence_number == self.total & WRAP
            and header.recoverable_sequence_number == self.recoverable & WRAP
        )

    def acknowledgments(
        self, sent: int, recoverable_sent: int, window: int
    ) -> Iterator[SessionHeader]:
        """SessionHeaders that acknowledge all that is due, at least one, 3.1.6.4."""
        while True:
            base, flags = self._take_flags()
            self.told = self.safe
            yield SessionHeader(
                self.safe & WRAP, base, flags, sent & WRAP, recoverable_sent & WRAP, window
            )
            if not self.recoverable_unacknowledged:
                return

    def _take_flags(self) -> tuple[int, int]:
        """RecoverableMsgAckSeqNumber and RecoverableMsgAckFlags; both 0 if nothing is new."""
        count = min(self.recoverable_unacknowledged, ACK_BITS)
        if not count:
            return 0, 0
        base = self.recoverable_told + 1 & WRAP
        if base:
            self.recoverable_told += count
            return base, (1 << count) - 1
        # 0 means none (decision 72), so the number before it, known already, is named once more.
        count = min(count, ACK_BITS - 1)
        self.recoverable_told += count
        return WRAP, (2 << count) - 1
