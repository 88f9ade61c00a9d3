"""Application data units from packets in order (RFC 3208 9.2.3)."""

from __future__ import annotations

from posthouse.wire.pgm.options import Fragment


class Assembly:
    """The unit whose fragments are coming in.

    What does not fit is dropped up to the next beginning of a unit: a session may be taken up in
    the middle of one, a fragment may be lost for ever, and a source may be wrong.
    """

    def __init__(self, unit_bytes: int) -> None:
        self.dropped = 0  # fragments and units that were not use
        self._unit_bytes = unit_bytes
        self._fragment: Fragment | None = None  # the first one
        self._data = bytearray()

    def broken(self) -> None:
        """A packet is missing for ever."""
        if self._fragment is not None:
            self.dropped += 1
        self._fragment = None
        self._data = bytearray()

    def add(self, sequence: int, fragment: Fragment | None, data: bytes) -> bytes:
        """The next packet; returns the unit that it completes, else nothing."""
        if fragment is None:
            self.broken()
            if len(data) > self._unit_bytes:
                self.dropped += 1
                return b""
            return data
        if not fragment.offset:
            self._begin(sequence, fragment)
        if not self._fits(fragment):
            self.broken()
            self.dropped += 1
            return b""
        self._data += data
        if len(self._data) < fragment.length:
            return b""
        unit = bytes(self._data)
        self._fragment, self._data = None, bytearray()
        return unit

    def _begin(self, sequence: int, fragment: Fragment) -> None:
        self.broken()
        if fragment.first_sequence == sequence and fragment.length <= self._unit_bytes:
            self._fragment = fragment

    def _fits(self, fragment: Fragment) -> bool:
        first = self._fragment
        return (
            first is not None
            and fragment.first_sequence == first.first_sequence
            and fragment.length == first.length
            and fragment.offset == len(self._data)
        )
