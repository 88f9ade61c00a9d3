"""What the engine asks for. It decides only; the driver appends, syncs and then lets out.

Everything a method of the engine returned or put here may leave the process only when the log is
synced up to where it was when the engine decided. The driver keeps that order, in one place.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from posthouse.engine.ledger.records import CHANGE, EXPRESS, MESSAGE, Change, Record, sender_of
from posthouse.model.errors import QueueError
from posthouse.security.peer_calls import Verb


class Unreadable(Exception):
    """The stored packet of one message cannot be had; the rest of the store is not concerned."""

    place: tuple[int, int, int] | None = None  # segment, offset and size of a durable record
    number = 0  # of the message, where whoever met it knows that
    reason = ""


READ_IN_DOUBT: Final = 0x100  # of Read.flags; in front of it are those of the row


class Read(NamedTuple):
    """A message that a reader gets; its packet is in the turn's effects, by number."""

    number: int
    lookup_id: int
    queue: int
    priority: int
    message_class: int
    arrived: int
    aborts: int
    moves: int
    last_move: int
    flags: int
    sender: bytes = b""  # as its door verified it; empty for nobody


class Wake(NamedTuple):
    """A waiting read ended: with a message, several if it asked for them, or an error."""

    token: object
    read: Read | list[Read] | None
    error: QueueError | None


class PeerRequest(NamedTuple):
    """A signed call on another queue manager; what it answers goes to `TwoPhase.answered`."""

    peer: bytes
    url: str
    verb: Verb
    transaction: bytes
    text: str


class Event(NamedTuple):
    """An event for the operator; one log line."""

    name: str
    details: dict[str, object]


class Effects:
    """One turn's asks, in order."""

    __slots__ = (
        "_seen",
        "active",
        "asks",
        "change",
        "events",
        "joined",
        "packets",
        "records",
        "senders",
        "wakes",
    )

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.change = Change()  # the open CHANGE record of single steps; see seal()
        self.joined = False  # all steps go into the open record: see Core.one_step
        self.wakes: list[Wake] = []
        self.active: set[int] = set()  # outgoing queues that have something to send
        self.events: list[Event] = []
        self.asks: list[PeerRequest] = []
        self.packets: dict[int, bytes] = {}  # those that were needed: brought or fetched
        self.senders: dict[int, bytes] = {}  # of the same messages
        self._seen = 0  # this many records have been looked at for packets

    def packet(self, number: int) -> bytes | None:
        """The packet of a message that this turn brought or fetched, None for any other.

        Looks at each record once, however often it is asked: a thousand messages that end in one
        turn may each need their own for an acknowledgment, which is one more record.
        """
        records = self.records
        for at in range(self._seen, len(records)):
            kind, its_number, head, packet = records[at]
            if kind in (MESSAGE, EXPRESS):
                self.packets[its_number] = packet
                self.senders[its_number] = sender_of(head)
        self._seen = len(records)
        return self.packets.get(number)

    def seal(self) -> None:
        """Closes the open CHANGE record, so that what follows stands after it in the log."""
        if self.change and not self.joined:
            self.records.append((CHANGE, 0, self.change.pack(), b""))
            self.change = Change()

    def put(self, change: Change, at: int | None = None) -> None:
        """Appends a record that belongs to no step, or puts it in front of what is there."""
        record = (CHANGE, 0, change.pack(), b"")
        self.records.insert(len(self.records) if at is None else at, record)

    def commit(self, change: Change) -> None:
        """Appends one atomic step."""
        if self.joined:
            self.change.take(change)
            return
        self.seal()
        if change:
            self.records.append((CHANGE, 0, change.pack(), b""))
