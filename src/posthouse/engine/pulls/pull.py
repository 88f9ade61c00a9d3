"""Stored values of a pull: its source queue on another machine, and the messages already taken.

A message is known by its lookup id there. Beside each identifier stands a digest of the
message, by which a message that comes again is told from another one under the same identifier.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Set as AbstractSet
from heapq import merge
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from posthouse.engine.pulls.entries import PulledEntries, PullEntry
from posthouse.model.errors import (
    InvalidParameter,
    OperationCancelled,
    QueueError,
    SharingViolation,
)

_NUMBER = struct.Struct("<I")
_PAGE = struct.Struct("<II")
PULL_KEY_SIZE: Final = _NUMBER.size


class PullDefinition(msgspec.Struct, array_like=True):
    """A pull. Its source is a queue of the queue manager with that GUID, by its name there."""

    number: int
    guid: bytes
    source: str
    target: int  # number of the queue here
    host: str = ""  # by which the machine was reached last
    epoch: int = 0  # of the last run: requests of an older one are refused
    pages: int = 0
    messages: int = 0
    size: int = 0  # bytes of their packets
    begun: int = 0  # UTC seconds
    last: int = 0
    copied: bool = False  # of some messages a copy was taken, and the source still had them
    copying: bool = False  # the run that is going on ends nothing at the source
    moved_pages: int = 0  # the pages before the first with copies; all, where there are none


class OfferedMessage(NamedTuple):
    """A message of the source, as it was read there."""

    lookup_id: int
    arrived: int  # UTC seconds, at the source
    message_class: int
    packet: bytes


class RefusedMessage(NamedTuple):
    """A message that was not taken, and why."""

    lookup_id: int
    error: QueueError


class OfferOutcome(NamedTuple):
    """What came of messages that were offered. After `stopped` none was looked at."""

    taken: int
    known: int
    refused: list[RefusedMessage]
    stopped: QueueError | None = None
    left: int = 0  # messages that were not looked at
    stay: tuple[int, ...] = ()  # lookup ids of a journal's messages that pulls put there


def pull_key(number: int) -> bytes:
    """The key of a pull."""
    return _NUMBER.pack(number)


def page_key(number: int, page: int) -> bytes:
    """The key of a page of entries."""
    return _PAGE.pack(number, page)


def page_of(key: bytes) -> tuple[int, int]:
    """The pull and the place of a page."""
    number, page = _PAGE.unpack(key)
    return number, page


def packed_entries(entries: list[PullEntry]) -> bytes:
    """A page."""
    return array("Q", [word for entry in entries for word in entry]).tobytes()


encode_pull = msgspec.msgpack.Encoder().encode
decode_pull = msgspec.msgpack.Decoder(PullDefinition).decode


class Pull:
    """A pull at run time."""

    def __init__(self, definition: PullDefinition) -> None:
        self.definition = definition
        self.holder: object | None = None  # the session that runs it
        self.lease_until_ms = 0  # the same for one without a session
        self._moved = PulledEntries()
        self._copied = PulledEntries()  # no message is moved after one was copied
        self._moved_digests: set[int] | None = None  # once it has been asked for

    def __len__(self) -> int:
        return self._moved.count + self._copied.count

    @property
    def copied_messages(self) -> int:
        """How many were taken and left at the source."""
        return self._copied.count

    def load(self, pages: dict[int, bytes]) -> None:
        """Takes in all pages that the log kept."""
        definition = self.definition
        moved = definition.moved_pages if definition.copied else definition.pages
        self._moved.load(b"".join(page for at, page in pages.items() if at < moved))
        self._copied.load(b"".join(page for at, page in pages.items() if at >= moved))

    def add(self, entry: PullEntry) -> None:
        """One more message; they come in any order."""
        if self.definition.copying:
            self._copied.add(entry)
            return
        if self._moved_digests is not None:
            self._moved_digests.add(entry.digest)
        self._moved.add(entry)

    def digest_of(self, lookup_id: int) -> int | None:
        """The digest of a message that was taken; None: it was not."""
        found = self._moved.digest_of(lookup_id)
        return self._copied.digest_of(lookup_id) if found is None else found

    def moved_digests(self) -> AbstractSet[int]:
        """The digests of all messages that were moved; made once, and kept up to date."""
        if self._moved_digests is None:
            self._moved_digests = set(self._moved.digests())
        return self._moved_digests

    def entries_after(self, lookup_id: int, count: int) -> list[tuple[PullEntry, bool]]:
        """Up to `count` entries with greater identifiers, in order; whether each is of a copy."""
        moved = ((entry, False) for entry in self._moved.after(lookup_id, count))
        copied = ((entry, True) for entry in self._copied.after(lookup_id, count))
        return list(islice(merge(moved, copied), count))

    def check_epoch(self, epoch: int) -> None:
        """Refuses a run that another one has followed."""
        if epoch != self.definition.epoch:
            raise OperationCancelled(
                f"another run of pull {self.definition.number} has begun", "End this one."
            )

    def violation(self) -> SharingViolation:
        """The refusal of a second run at the same time."""
        return SharingViolation(
            f"{self.definition.source} of {self.definition.host} is being pulled by another run",
            "Wait until that has ended; it ends with its session.",
        )


def identifier_reused(lookup_id: int) -> InvalidParameter:
    """The source gives two messages under one identifier, so that one cannot be told as taken."""
    return InvalidParameter(
        f"the source has another message under lookup id {lookup_id} than it had before",
        "Was the machine set up again, or its storage restored? Forget the pull, then pull again: "
        "posthouse migrate forget.",
    )
