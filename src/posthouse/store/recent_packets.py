"""Packets of the last groups that were written, for a reader or a session that follows closely.

They are in memory anyway when they are written. Without this, a message that is taken a moment
later is read from its file and verified again, which costs more than all else that taking it does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from posthouse.engine.ledger.records import MESSAGE, Record, senders_of

BYTES_MAX: Final = 8 << 20  # of packets, and of what is kept with them
_OVERHEAD: Final = 300  # of a record: its head, its tuple and its place
GROUP_MIN: Final = 16  # messages: fewer are read from the file as quickly

_NUMBER, _HEAD, _PACKET = itemgetter(1), itemgetter(2), itemgetter(3)  # of a record


class RecentPackets:
    """MESSAGE records by number, the oldest groups go first. A number never gets another packet."""

    __slots__ = ("_bytes", "_groups", "_lasts", "_sizes")

    def __init__(self) -> None:
        self._groups: list[dict[int, Record]] = []
        self._lasts: list[int] = []  # the last number of each, which grow
        self._sizes: list[int] = []  # bytes of each
        self._bytes = 0

    def add(self, records: Sequence[Record]) -> None:
        """Records that have been written together, if there are enough messages among them."""
        records = [record for record in records if record[0] == MESSAGE]
        if len(records) < GROUP_MIN:
            return
        group = dict(zip(map(_NUMBER, records), records, strict=True))
        last, size = max(group), sum(map(len, map(_PACKET, records))) + _OVERHEAD * len(group)
        if self._lasts and last <= self._lasts[-1]:
            return
        self._groups.append(group)
        self._lasts.append(last)
        self._sizes.append(size)
        self._bytes += size
        gone = 0
        while self._bytes > BYTES_MAX:
            self._bytes -= self._sizes[gone]
            gone += 1
        del self._groups[:gone], self._lasts[:gone], self._sizes[:gone]

    def find(self, numbers: list[int]) -> list[tuple[bytes, bytes]] | None:
        """Senders and packets of messages, if all of them are here; else None."""
        if not numbers:
            return None
        records: list[Record] = []
        at, index = 0, bisect_left(self._lasts, numbers[0])
        while at < len(numbers):
            if index == len(self._lasts):
                return None
            end = bisect_right(numbers, self._lasts[index], at)
            try:
                records += map(self._groups[index].__getitem__, numbers[at:end])
            except KeyError:
                return None
            at, index = end, index + 1
        senders = senders_of(list(map(_HEAD, records)))
        return list(zip(senders, map(_PACKET, records), strict=True))
