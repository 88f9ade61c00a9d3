"""The results of a turn of the engine, which the driver appends, syncs and then lets out.

Everything a method of the engine returned or put here may leave the process only when the log is
synced up to where it was when the engine decided. The driver keeps that order, in one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, overload

from posthouse.engine.ledger.records import (
    CHANGE,
    EXPRESS,
    MESSAGE,
    Change,
    Record,
    Row,
    sender_of,
)
from posthouse.engine.ledger.row_columns import Rows
from posthouse.model.errors import QueueError
from posthouse.security.peer_calls import Verb


class Unreadable(Exception):
    """The stored packet of one message cannot be had; the rest of the store is not concerned."""

    place: tuple[int, int, int] | None = None  # segment, offset and size of a durable record
    number = 0  # of the message, if the code that raised it has it
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
    sender: bytes = b""  # SID that the endpoint verified; empty if none


def read_of_row(number: int, row: Row, sender: bytes) -> Read:
    """A message as its reader sees it."""
    lookup_id, queue, _, arrived, _, _, moved, kind, aborts, moves, priority, flags, _, _ = row
    fields = (
        number,
        lookup_id,
        queue,
        priority,
        kind,
        arrived,
        aborts,
        moves,
        moved if moves else 0,  # else it is a place in a sequence
        flags,
        sender,
    )
    return tuple.__new__(Read, fields)


class Reads(Sequence[Read]):
    """Several messages that a reader gets, by column; each of them is made when it is asked for."""

    __slots__ = ("in_doubt", "numbers", "rows", "senders")

    def __init__(
        self,
        numbers: list[int],
        rows: Rows,
        senders: list[bytes],
        in_doubt: frozenset[int] = frozenset(),
    ) -> None:
        self.numbers = numbers
        self.rows = rows
        self.senders = senders
        self.in_doubt = in_doubt  # numbers of those that a lost reader had: READ_IN_DOUBT

    def __len__(self) -> int:
        return len(self.numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __iter__(self) -> Iterator[Read]:
        made = map(read_of_row, self.numbers, self.rows, self.senders)
        return map(self._marked, made) if self.in_doubt else made

    @overload
    def __getitem__(self, at: int) -> Read: ...
    @overload
    def __getitem__(self, at: slice) -> list[Read]: ...
    def __getitem__(self, at: int | slice) -> Read | list[Read]:
        if isinstance(at, slice):
            return list(self)[at]
        return self._marked(read_of_row(self.numbers[at], self.rows[at], self.senders[at]))

    def _marked(self, read: Read) -> Read:
        if read.number not in self.in_doubt:
            return read
        return read._replace(flags=read.flags | READ_IN_DOUBT)


class Wake(NamedTuple):
    """A waiting read ended: with a message, several if it asked for them, or an error."""

    token: object
    read: Read | list[Read] | None
    error: QueueError | None


class PeerRequest(NamedTuple):
    """A signed call on another queue manager; what it answers goes to `manager.transactions`."""

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
    """The effects of one turn, in order: records, answers, wakes and events."""

    __slots__ = (
        "_change",
        "_seen",
        "active",
        "asks",
        "events",
        "joined",
        "packets",
        "records",
        "senders",
        "wakes",
    )

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._change: Change | None = None
        self.joined = False  # all steps go into the open record: see Ledger.one_step
        self.wakes: list[Wake] = []
        self.active: set[int] = set()  # outgoing queues that have something to send
        self.events: list[Event] = []
        self.asks: list[PeerRequest] = []
        self.packets: dict[int, bytes] = {}  # those that were needed: brought or fetched
        self.senders: dict[int, bytes] = {}  # of the same messages
        self._seen = 0  # this many records have been looked at for packets

    @property
    def change(self) -> Change:
        """The open CHANGE record of single steps; see `seal`."""
        if self._change is None:
            self._change = Change()
        return self._change

    def packet(self, number: int) -> bytes | None:
        """The packet of a message that this turn brought or fetched, None for any other."""
        return self.at_hand().get(number)

    def at_hand(self) -> dict[int, bytes]:
        """The packets that this turn brought or fetched.

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
        return self.packets

    def seal(self) -> None:
        """Closes the open CHANGE record, so that what follows stands after it in the log."""
        change = self._change
        if change is not None and not self.joined:
            self._change = None
            if change:
                self.records.append((CHANGE, 0, change.pack(), b""))

    def __enter__(self) -> None:
        """All steps from here on go into one CHANGE record: see `Ledger.one_step`."""
        self.seal()
        self.joined = True

    def __exit__(self, *_: object) -> None:
        self.joined = False
        self.seal()

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
