"""Names for the order queue of a sender of which only the address is known.

The document names it by the address that the sender is seen at ([MS-MQQB] 3.1.7.17). After a NAT
that address belongs to the gateway, and MSMQ refuses a name that is not its own: the sender sends
again what was acknowledged long ago. Then the next acknowledgment names it by its GUID; if that
one is not taken either, by the address again.
"""

from __future__ import annotations

from typing import Final

from posthouse.engine.ledger.ledger import Ledger
from posthouse.model.bounded_tables import Shared
from posthouse.model.guids import format_guid

NOT_TAKEN_MS: Final = 15_000
"""An acknowledgment that old was no longer on its way; senders wait 30 s before they resend."""
SENDERS_MAX: Final = 10_000

Sender = tuple[bytes, str]  # GUID, and the host that it sends from


class OrderQueueNames:
    """Which senders did not take an acknowledgment by address."""

    def __init__(self, core: Ledger) -> None:
        self._core = core
        # The last acknowledgment of each sender's sequence: its number, and when it was sent.
        self._told: Shared[tuple[bytes, str, int], tuple[int, int]] = Shared(
            lambda key, told: key[1], SENDERS_MAX
        )
        self._by_guid: Shared[Sender, None] = Shared(lambda key, nothing: key[1], SENDERS_MAX)

    def is_by_guid(self, source: bytes, host: str) -> bool:
        """Whether the order queue is to be named by the sender's GUID."""
        return (source, host) in self._by_guid

    def told(self, source: bytes, host: str, place: tuple[int, int]) -> None:
        """An acknowledgment up to this place of a sequence leaves; the first of its kind counts."""
        sequence_id, number = place
        key = source, host, sequence_id
        if key not in self._told or self._told[key][0] < number:
            self._told[key] = number, self._core.now_ms

    def came_again(self, source: bytes, host: str, place: tuple[int, int]) -> None:
        """A message came that was accepted before: has its sender taken the acknowledgment?"""
        sequence_id, number = place
        key, sender = (source, host, sequence_id), (source, host)
        told = self._told.get(key)
        if told is None or number > told[0] or self._core.now_ms - told[1] < NOT_TAKEN_MS:
            return
        del self._told[key]
        if sender in self._by_guid:
            del self._by_guid[sender]
        else:
            self._by_guid[sender] = None
            self._core.event("acknowledgments_by_guid", source=format_guid(source), address=host)
