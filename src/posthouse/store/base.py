"""The interface of a store: what the driver may rely on, in every implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from posthouse.engine.ledger.records import Record
from posthouse.engine.ledger.state import State


class Recovered(NamedTuple):
    """What a store found when it was opened."""

    state: State
    clean: bool  # the last process stopped cleanly: express messages are still here
    lost_express: dict[int, int]  # per queue number, an estimate
    torn_bytes: int  # unsynced bytes cut off the end
    new: bool = False  # there was no store


class Store(Protocol):
    """Durable order. One owner; `sync` may run in another thread than the rest.

    Positions are log sequence numbers: they only grow. `append` takes what the engine decided and
    is called when the engine's State contains exactly what was appended before plus these records.
    """

    @property
    def appended(self) -> int:
        """Position of the last record written."""

    @property
    def synced(self) -> int:
        """Everything up to this position survives a loss of power."""

    @property
    def unsynced_bytes(self) -> int:
        """How much a sync has to write: whether it is worth a thread."""

    @property
    def pictures(self) -> int:
        """How often the whole state was copied, for a checkpoint."""

    def recover(self) -> Recovered:
        """Opens the store: newest checkpoint and the records after it. Called once, first.

        The State in it is shared from then on: the engine changes it, the store reads it when it
        copies survivors and when it writes checkpoints.
        """

    def append(self, records: Sequence[Record]) -> int:
        """Writes one group, with its mark, and returns the new position. Not yet durable."""

    def sync(self) -> int:
        """Makes durable what was appended before the call; returns that position.

        Where all of it is durable already, nothing is done.
        """

    def read(self, number: int) -> bytes:
        """The packet of a message appended, until the end of it has been synced and tidied.

        `posthouse.engine.ledger.effects.Unreadable` when that one packet cannot be had.
        """

    def read_many(self, numbers: list[int]) -> list[tuple[bytes, bytes]]:
        """The packets of several messages, in that order; Unreadable if any cannot be read."""

    def read_sender(self, number: int) -> bytes:
        """The verified sender stored with a message."""

    def tidy(self) -> bool:
        """A bounded step of upkeep: release, checkpoint, compaction. True: there is more to do.

        Called by the driver between turns, right after append, never in the middle of one.
        """

    def has_room(self) -> bool:
        """False while the disk has less than its reserve free: new messages are refused."""

    def close(self) -> None:
        """A clean stop: express messages kept, everything synced, checkpoint written."""
