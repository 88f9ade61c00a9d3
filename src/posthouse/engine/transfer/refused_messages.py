"""Messages of other machines that were refused here: which, where they should go, why, from where.

"Why did order 4711 not arrive" is asked where it was to arrive. A refused message is nowhere else,
so the receiving side of every protocol reports it here: one line in the log, and an entry in a
table that the operator's questions read. The table is in memory: a restart forgets it, the log does
not. Names, labels and addresses are chosen by strangers, so entries and bytes are limited, and a
flood from one address displaces entries of that address alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.transfer.arrivals import Arriving
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.refused_arrival import Key, RefusedArrival
from posthouse.model.bounded_tables import Shared
from posthouse.model.errors import QueueError
from posthouse.model.guids import format_guid
from posthouse.model.message_classes import (
    MESSAGE_CLASSES,
    NACK_REACH_QUEUE_TIMEOUT,
    class_name,
)
from posthouse.wire.packet.packet import Packet
from posthouse.wire.srmp.message import SrmpMessage

ENTRIES_MAX: Final = 10_000
BYTES_MAX: Final = 8 << 20  # of all entries
TEXT_MAX: Final = 256  # characters of a label, a name or a cause; over HTTP they may be long

_MEANING = {entry.code: entry.meaning for entry in MESSAGE_CLASSES}


def _named(message: SrmpMessage) -> str:
    """Return the format name for the URL that a message was sent to."""
    return f"DIRECT={message.to}"


class RefusedMessages:
    """The messages that were refused last."""

    def __init__(self, core: Ledger) -> None:
        self._core = core
        self._entries: Shared[Key, RefusedArrival] = Shared(lambda key, one: one.address)
        self._bytes = 0
        self._count = 0

    def __len__(self) -> int:
        return len(self._entries)

    def note(
        self,
        identifier: tuple[bytes, int],
        label: str,
        queue: str,
        reason: str,
        cause: str,
        address: str,
        *,
        kept: bool = False,
    ) -> None:
        """Keep a refusal, and write it to the operator's log."""
        core, (source, ordinal) = self._core, identifier
        label, queue, cause = label[:TEXT_MAX], queue[:TEXT_MAX], cause[:TEXT_MAX]
        core.event(
            "message_refused",
            id=f"{format_guid(source)}\\{ordinal}",
            label=label,
            queue=queue,
            why=reason,
            cause=cause,
            address=address,
            source=format_guid(source),
        )
        self._count += 1
        new = RefusedArrival(
            *(source, ordinal, label, queue, reason, cause),
            *(address[:TEXT_MAX], core.utc, core.utc, 1, self._count, kept),
        )
        old = self._entries.get(new.key)
        if old is not None:
            new = new._replace(
                first_utc=old.first_utc, times=old.times + 1, is_kept=old.is_kept or kept
            )
            self._bytes -= old.size
        self._entries[new.key] = new
        self._bytes += new.size
        while len(self._entries) > ENTRIES_MAX or self._bytes > BYTES_MAX:
            surplus = self._entries.surplus()
            self._bytes -= self._entries[surplus].size
            del self._entries[surplus]

    def note_arrival(
        self, peer: Peer, arrival: Arriving, message_class: int, cause: str, *, kept: bool
    ) -> None:
        """Keep the refusal of a packet; without a cause of its own that of the class is given."""
        seen = arrival.seen
        self.note(
            (seen.source_guid, seen.ordinal),
            Packet(arrival.packet, seen).label,
            arrival.destination,
            class_name(message_class),
            cause or _MEANING.get(message_class, ""),
            peer.address,
            kept=kept,
        )

    def note_post(
        self, peer: Peer, message: SrmpMessage, error: Exception, queue: str = ""
    ) -> None:
        """Keep the refusal of a message over HTTP, or of its copy for a queue by multicast."""
        reason = error.name if isinstance(error, QueueError) else "srmp_refused"
        cause = error.cause if isinstance(error, QueueError) else str(error)
        self._core.refusals[reason] += 1
        identifier = message.source_guid, message.ordinal
        self.note(identifier, message.label, queue or _named(message), reason, cause, peer.address)

    def note_late(self, peer: Peer, message: SrmpMessage) -> None:
        """Keep a message over HTTP whose time was over when it came; its sender is not told."""
        identifier = message.source_guid, message.ordinal
        cause = _MEANING[NACK_REACH_QUEUE_TIMEOUT]
        self.note(
            identifier, message.label, _named(message), "expired_on_arrival", cause, peer.address
        )

    def newest(self, before: int = 0) -> Iterator[RefusedArrival]:
        """Yield the entries, the latest refusal first; those in front of a number, if there is one.

        Entries are in the order of their numbers: one that is refused again becomes the last.
        """
        for one in reversed(self._entries.values()):
            if not before or one.number < before:
                yield one

    def of_message(self, source: bytes, ordinal: int) -> list[RefusedArrival]:
        """Return the refusals of a message, the oldest first."""
        return [
            one for one in self._entries.values() if one.ordinal == ordinal and one.source == source
        ]
