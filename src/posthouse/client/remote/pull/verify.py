"""Compares a queue elsewhere, what was pulled from it, and the queue here: counts and digests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final, TypeVar

import msgspec

from posthouse.api.pulls import JOURNAL_ENDING
from posthouse.client.manager import QueueManagerClient
from posthouse.client.message import Message
from posthouse.client.remote.consumer import browse
from posthouse.client.remote.pull.run import (
    PulledMessage,
    PullSource,
    list_pulls,
    pulled_messages,
)
from posthouse.client.remote.reader import QueueReader
from posthouse.client.remote.state import INFINITE
from posthouse.model.errors import InvalidParameter, QueueNotFound, RemoteProtocolError
from posthouse.model.guids import format_guid
from posthouse.model.text import counted
from posthouse.wire.packet.digest import message_digest

T = TypeVar("T")
SHOWN_MAX: Final = 10
AHEAD: Final = 64
MESSAGES_MAX: Final = 10_000_000
COUNTED_TIMES: Final = 3


class PullDifferences(msgspec.Struct):
    """What a comparison found; `received_here`, `others_here`, `left_out` are not differences."""

    at_source: int = 0
    pulled: int = 0
    here: int = 0  # of those that were pulled
    received_here: int = 0  # pulled, and no longer in the queue
    others_here: int = 0  # that did not come by this pull
    left_out: int = 0  # of a journal: what pulls received there, and is in the queue's own pull
    unreadable: int | None = None  # counted there, not given by remote read; None: not known
    other_guid: str = ""  # of the machine that the queue was pulled from, where it is another one
    missing: list[int] = []  # lookup ids at the source that were not pulled
    different: list[int] = []  # lookup ids under which the source has another message
    twice: list[str] = []  # ids of messages that are here more than once
    missing_count: int = 0
    different_count: int = 0
    twice_count: int = 0

    @property
    def equal(self) -> bool:
        """Whether there is no difference."""
        differences = self.missing_count, self.different_count, self.twice_count
        return not (any(differences) or self.unreadable or self.other_guid)


def digest_of(message: Message) -> int:
    """What a message is known by beside its lookup id."""
    return message_digest(message.packet, message.message_class)


def check_not_here(manager: QueueManagerClient, source: PullSource) -> None:
    """Refuse a source that is the queue manager itself."""
    if manager.status().guid == format_guid(source.guid):
        raise InvalidParameter(
            f"{source.host} is this queue manager itself",
            "Name the other machine by its own address: --address.",
        )


def compare(
    manager: QueueManagerClient, source: PullSource, target: str, queue: QueueReader
) -> PullDifferences:
    """Looks at every message of both queues; takes none."""
    found = PullDifferences()
    known = {one.lookup_id: one.digest for one in _pulled_from(manager, source.guid, source.name)}
    moved = set[int]()
    if source.name.endswith(JOURNAL_ENDING):
        name = source.name.removesuffix(JOURNAL_ENDING)
        pulled = _pulled_from(manager, source.guid, name)
        moved = {one.digest for one in pulled if not one.copied}
    found.pulled = len(known)
    found.other_guid = "" if known else _pulled_under(manager, source)
    _compare_source(found, known, moved, browse(queue, AHEAD, INFINITE), source.host)
    try:
        _compare_here(found, known, manager.queue(target).browse())
    except QueueNotFound:
        found.received_here = len(known)
    return found


def count_unreadable(
    count: Callable[[], int | None], readable: Callable[[], int], expected: int = 0
) -> int | None:
    """Return how many messages a source counts and does not give; None: it does not count.

    Messages come and go meanwhile, so the counts before and after have to exceed what it gives,
    three times. While it counts no more than `expected`, what it gives is not asked for.
    """
    least: int | None = None
    for _ in range(COUNTED_TIMES):
        before = count()
        if before is None or before <= expected:
            return before and 0
        given, after = readable(), count()
        if after is None:
            return None
        excess = min(before, after) - given
        if excess <= 0:
            return 0
        least = excess if least is None else min(excess, least)
    return least


def unreadable_words(count: int) -> str:
    """The cause, for people."""
    verb = "is" if count == 1 else "are"
    return (
        f"{counted(count, 'message')} {verb} there that remote read does not give: damaged, "
        "encrypted, locked by a program, or by another transaction"
    )


def _pulled_under(manager: QueueManagerClient, source: PullSource) -> str:
    """The GUID that messages of this host and queue were pulled under."""
    for pull in list_pulls(manager):
        if (pull.host, pull.source) == (source.host, source.name) and pull.messages:
            return pull.guid
    return ""


def _pulled_from(manager: QueueManagerClient, guid: bytes, name: str) -> Iterator[PulledMessage]:
    for pull in list_pulls(manager):
        if (pull.guid, pull.source) == (format_guid(guid), name):
            yield from pulled_messages(manager, pull.id)


def _compare_source(
    found: PullDifferences,
    known: dict[int, int],
    moved: AbstractSet[int],
    messages: Iterable[Message],
    host: str,
) -> None:
    seen: set[int] = set()
    for message in messages:
        lookup_id = message.lookup_id
        if lookup_id in seen or len(seen) >= MESSAGES_MAX:
            raise RemoteProtocolError(f"{host} lists its messages again and again")
        seen.add(lookup_id)
        found.at_source += 1
        if lookup_id not in known and digest_of(message) in moved:
            found.left_out += 1
        elif lookup_id not in known:
            found.missing_count += 1
            _note(found.missing, lookup_id)
        elif known[lookup_id] != digest_of(message):
            found.different_count += 1
            _note(found.different, lookup_id)


def _compare_here(
    found: PullDifferences, known: dict[int, int], messages: Iterable[Message]
) -> None:
    pulled, here = Counter(known.values()), Counter[int]()
    for message in messages:
        digest = digest_of(message)
        if digest not in pulled:
            found.others_here += 1
            continue
        here[digest] += 1
        if here[digest] > pulled[digest]:
            found.twice_count += 1
            _note(found.twice, message.id)
    found.here = here.total()
    found.received_here = max(found.pulled - (found.here - found.twice_count), 0)


def _note(notes: list[T], value: T) -> None:
    if len(notes) < SHOWN_MAX:
        notes.append(value)
