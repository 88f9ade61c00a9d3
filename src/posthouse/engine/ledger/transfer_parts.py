"""Interfaces of transfer for other parts of the engine: sequences and outgoing queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from posthouse.engine.ledger.records import Change, Row
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.message_history import MessageHistory
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.sequence_values import IncomingTransactionalTransferInfo as Incoming
from posthouse.engine.transfer.sequence_values import Judgment, SequenceClaim, SequenceInfo


class SequenceOrigins(Protocol):
    """The interface that decides on the places of messages in sequences."""

    @property
    def places(self) -> MessageHistory:
        """The contents that are remembered."""

    def judge(self, claim: SequenceClaim) -> Judgment:
        """How a message stands to what came before it."""

    def around(
        self, queue: Queue, source: bytes, format_name: str, host: str, sequence_id: int
    ) -> tuple[Incoming | None, list[Incoming]]:
        """What is known of the lineage of a host, and the others of that sequence."""

    def is_of_the_future(self, own: Incoming | None, sequence_id: int) -> bool:
        """Whether a sequence begins later than the clock here allows."""

    def are_new(
        self,
        others: list[Incoming],
        sequence_id: int,
        numbers: list[int],
    ) -> bool:
        """Whether none of the other lineages remembers any of these places."""

    def content(self, lineage: Incoming, place: tuple[int, int]) -> bytes | None:
        """What was accepted at a place; None where that is not known."""

    def content_at(self, key: bytes, number: int) -> bytes | None:
        """What was accepted at a number, by the key of its sequence."""


class SentSequences(Protocol):
    """Sequences of messages to other machines."""

    def kept_for_final_answer(self, queue: Queue) -> None:
        """A message has arrived and stays."""

    def left(self, queue: Queue, flags: Sequence[int]) -> None:
        """Messages with these flags left their outgoing queue, for any reason."""

    def number(self, queue: Queue, lookup_id: int, count: int, change: Change) -> SequenceInfo:
        """Transactional messages get their places at commit, once."""

    def queue_of(self, sequence_id: int) -> Queue | None:
        """The outgoing queue whose messages are, or were, in a sequence."""


class MachineTransfer(Protocol):
    """Outgoing queues, and sequences in both directions."""

    is_connected: Callable[[bytes], bool]

    @property
    def lineages(self) -> SequenceOrigins:
        """Of sequences that come in."""

    @property
    def sequences(self) -> SentSequences:
        """Those that go out."""

    def address_of(self, guid: bytes) -> tuple[str, int | None] | None:
        """Where a queue manager was reached last."""

    def all_at(self, number: int, source: bytes | None = ...) -> list[Incoming]:
        """All sequences into a queue that may be deleted, or those of one sender."""

    def all_incoming(self) -> list[tuple[int, Incoming]]:
        """Every sequence, with the number of its queue."""

    def count_reject(
        self,
        queue: Queue,
        old: Incoming,
        change: Change,
        address: str = ...,
    ) -> None:
        """Count a rejected message of a sequence that was found."""

    def end_of(
        self, source: bytes, format_name: str, host: str, place: tuple[int, int], digest: bytes
    ) -> int:
        """How a message ended that came from another host before, as the class of its answer."""

    def final_acknowledged(
        self, message_class: int, source: bytes, ordinal: int, sequence_id: int, number: int
    ) -> bool:
        """A FinalAck of a sender that may send it; False when it fits nothing that was sent."""

    def has_left(self, source: bytes) -> bool:
        """Whether a source has sent into a queue that is deleted by now."""

    def heirs(
        self, queue: Queue, source: bytes, format_name: str, host: str, place: tuple[int, int]
    ) -> list[str]:
        """A host, those that have sent the same message, and those that have gone on from there."""

    def incoming_at(
        self, number: int, source: bytes, format_name: str, via: str = ...
    ) -> Incoming | None:
        """The sequence into a queue that may be deleted."""

    def incoming_of(self, queue: Queue, source: bytes | None = ...) -> list[Incoming]:
        """All sequences into a queue, or those of one sender."""

    def is_in_flight(self, queue: Queue, number: int, row: Row) -> bool:
        """State-machines 2 a: sent on a live session, so that the peer may have it."""

    def keep_incoming(self, queue: int, info: Incoming, change: Change | None) -> None:
        """What is known of a sequence into a queue from now on."""

    def left_behind(
        self, source: bytes, format_name: str, place: tuple[int, int], host: str, digest: bytes
    ) -> int:
        """The deleted queue of this name into which this place of a sequence came; 0: none."""

    def name_of(self, info: Incoming) -> str:
        """What a lineage is known by, beside its source."""

    def note_end(
        self,
        source: bytes,
        format_name: str,
        host: str,
        place: tuple[int, int],
        message_class: int,
        change: Change,
    ) -> None:
        """A message of a host has ended; who sends it again gets the answer of that class."""

    def order_acknowledged(self, sequence_id: int, number: int) -> bool:
        """An OrderAck of a sender that may send it; False when it fits nothing that was sent."""

    def other_lineages(
        self,
        queue: Queue,
        source: bytes,
        format_name: str,
        own: Incoming | None,
    ) -> list[Incoming]:
        """What is known of a sequence as others have sent it; those of a deleted queue count."""

    def own_lineage(
        self, queue: Queue, source: bytes, format_name: str, host: str, sequence_id: int
    ) -> Incoming | None:
        """What is known of a sequence as a host has sent it."""

    def retry(self, queue: Queue) -> None:
        """An operator does not want to wait for the next attempt to connect."""

    def incoming(
        self, queue: Queue, source: bytes, format_name: str = ..., via: str = ...
    ) -> Incoming | None:
        """What is known of a sender's sequence into a queue; without a name, of its latest."""

    def order_acknowledged_by(self, peer: Peer, sequence_id: int, number: int) -> bool:
        """Receiving an OrderAck packet (3.1.5.6); what does not count is counted."""

    def final_acknowledged_by(
        self,
        peer: Peer,
        message_class: int,
        source: bytes,
        ordinal: int,
        sequence_id: int,
        number: int,
    ) -> bool:
        """Receiving a FinalAck packet (3.1.5.7); what does not count is counted."""

    def accept(
        self,
        queue: Queue,
        source: bytes,
        format_name: str,
        sequence_id: int,
        number: int,
        change: Change,
        address: str = ...,
        host: str = ...,
        origin: Incoming | None = ...,
        first: int = ...,
        messages: int = ...,
    ) -> Incoming:
        """Decision 22: the sequence moves on in the same commit as the accepted message."""
