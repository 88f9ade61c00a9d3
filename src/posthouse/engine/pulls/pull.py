"""What is kept of a pull: the queue elsewhere that it reads, and which messages it has taken.

A message is known by its lookup id there. Beside each identifier stands a digest of the
message, by which a message that comes again is told from another one under the same identifier.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import msgspec

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


class PullEntry(NamedTuple):
    """A message that was taken: its lookup id at the source, and its digest."""

    lookup_id: int
    digest: int


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
    """A pull at run time: 16 bytes for each message, in order of identifiers."""

    def __init__(self, definition: PullDefinition) -> None:
        self.definition = definition
        self.holder: object | None = None  # the session that runs it
        self.lease_until_ms = 0  # the same for one without a session
        self.copies = False  # the run that is going on ends nothing at the source
        self._ids = array("Q")
        self._digests = array("Q")
        self._digest_set: set[int] | None = None  # once it has been asked for

    def __len__(self) -> int:
        return len(self._ids)

    def load(self, pages: bytes) -> None:
        """Takes in all pages that the log kept."""
        words = array("Q", pages)
        entries = sorted(zip(words[0::2], words[1::2], strict=True))
        self._ids = array("Q", [lookup_id for lookup_id, _ in entries])
        self._digests = array("Q", [digest for _, digest in entries])

    def add(self, entry: PullEntry) -> None:
        """One more message; most come in order."""
        ids = self._ids
        if self._digest_set is not None:
            self._digest_set.add(entry.digest)
        if not ids or entry.lookup_id > ids[-1]:
            ids.append(entry.lookup_id)
            self._digests.append(entry.digest)
            return
        at = bisect_left(ids, entry.lookup_id)
        ids.insert(at, entry.lookup_id)
        self._digests.insert(at, entry.digest)

    def digest_of(self, lookup_id: int) -> int | None:
        """The digest of a message that was taken; None: it was not."""
        at = bisect_left(self._ids, lookup_id)
        if at < len(self._ids) and self._ids[at] == lookup_id:
            return self._digests[at]
        return None

    def digests(self) -> AbstractSet[int]:
        """The digests of all messages that were taken; made once, and kept up to date."""
        if self._digest_set is None:
            self._digest_set = set(self._digests)
        return self._digest_set

    def entries_after(self, lookup_id: int, count: int) -> list[PullEntry]:
        """Up to `count` entries with greater identifiers, in order."""
        at = bisect_left(self._ids, lookup_id + 1)
        pairs = zip(self._ids[at : at + count], self._digests[at : at + count], strict=True)
        return [PullEntry(*pair) for pair in pairs]

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
