"""Keeps the sequences of one source apart by the host that they come from.

The protocols have no login for senders: anybody can send in the sequence of another machine. So
what is known of a sequence belongs to the host that it came from, its lineage, and hosts share it
only where what they send agrees:

- What follows its own lineage is the next message, whatever others have sent.
- What another lineage has accepted at that very place, with the same content, is a duplicate: a
  machine that moves to another address sends again what was not acknowledged, and a stranger who
  repeats a message gains nothing. The lineage goes on from there.
  Version 0.1 kept no contents: what it accepted in the same sequence counts as the same.
- A host that is new begins where another lineage ends, if its message follows that: a machine that
  has moved goes on. If it was a stranger, the other lineage is still where it was.
- Where another lineage passed that place and what it accepted is forgotten, the two cannot be
  compared. The message is held: a machine that has moved sends on, up to what is remembered, and
  that agrees. If it insists, some time later, it is another sender.

Each lineage is acknowledged to its own host. Messages that come from their machine itself or over
routers, each in the place that the directory has for it, are one lineage, without a host.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import TABLE_PLACES
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.message_history import MessageHistory
from posthouse.engine.transfer.sequence_values import (
    IncomingTransactionalTransferInfo as Incoming,
)
from posthouse.engine.transfer.sequence_values import (
    Judgment,
    Place,
    SequenceClaim,
    Standing,
)
from posthouse.model.bounded_tables import Bounded, Shared
from posthouse.model.guids import format_guid

PLACES_MAX = 50_000  # contents that are remembered, of all sequences
INSISTS_MS = 20_000  # below the shortest resend interval of [MS-MQQB] 3.1.3.1
HELD_MAX = 10_000
LASTING_S = 300  # by then a sender has sent again several times
TOLD_MAX = 1000  # conflicts that are in the log, each once

_Key = tuple[int, bytes, str, str]  # queue, source, name of the queue, host


class TurnedAway(NamedTuple):
    """Messages of a sequence that are not accepted: the last one, how many, since when."""

    place: Place
    previous: int
    messages: int
    since: int  # UTC seconds
    last: int

    @property
    def is_lasting(self) -> bool:
        """Whether its sender has sent again in vain."""
        return self.last - self.since >= LASTING_S


class SequenceContents(MessageHistory):
    """Contents by place: a history whose sources are sequences, and whose ordinals are numbers."""

    TABLE = TABLE_PLACES

    def __init__(self, core: Ledger) -> None:
        super().__init__(core)
        self.entries_max = PLACES_MAX

    def _start_timer(self) -> None:
        """They stay until others need the room: senders may be away for long."""

    def _tell_conflict(
        self, source: bytes, ordinal: int, digest: bytes, first: str, host: str
    ) -> None:
        """Only after an operator has reset a sequence."""


def places_key(source: bytes, name: str, sequence_id: int) -> bytes:
    """The sequence of a lineage, in the table of places."""
    text = name.encode("utf-8", "surrogatepass") + source + sequence_id.to_bytes(8, "little")
    return blake2b(text, digest_size=16).digest()


class KnownSequences(Protocol):
    """The sequences that have come in so far."""

    def own_lineage(
        self, queue: Queue, source: bytes, format_name: str, host: str, sequence_id: int
    ) -> Incoming | None:
        """What is known of a sequence as a host has sent it."""

    def other_lineages(
        self, queue: Queue, source: bytes, format_name: str, own: Incoming | None
    ) -> list[Incoming]:
        """What other hosts have sent of that sequence."""

    def name_of(self, info: Incoming) -> str:
        """What a lineage is known by, beside its source."""


class Lineages:
    """Decides whether a message is next in its sequence, a duplicate, or to be held."""

    def __init__(self, core: Ledger, sequences: KnownSequences) -> None:
        self.core = core
        self._sequences = sequences
        self.places = SequenceContents(core)
        self._held: Shared[_Key, tuple[Place, int]] = Shared(_host, HELD_MAX)
        # By queue, source, and the two hosts: when two contents claimed one place the last time.
        self.conflicts: Bounded[tuple[int, bytes, str, str], int] = Bounded(TOLD_MAX)
        # What is not accepted, for as long as nothing is: names are cheap, so in memory only.
        self.turned_away: Shared[_Key, TurnedAway] = Shared(_host, HELD_MAX)

    def judge(self, claim: SequenceClaim) -> Judgment:
        """How a message stands to what came before it."""
        place = claim.place
        own, others = self.around(
            claim.queue, claim.source, claim.format_name, claim.host, place[0]
        )
        if own is not None and place <= last_of(own):
            self._compare(claim, own, self.content(own, place))
            return Judgment(Standing.OLD, own, self._had_elsewhere(claim, own, others))
        if self.is_of_the_future(own, place[0]):
            self.core.refusals["sequence_of_the_future"] += 1
            self._turn_away(claim)
            return Judgment(Standing.GAP, own)
        contents = [(other, self.content(other, place)) for other in others]
        agreed = [
            other
            for other, content in contents
            if content == claim.digest or _had_before_0_2(other, place)
        ]
        if agreed:
            _drop(self._held, _key(claim))
            most = foremost(agreed)
            return Judgment(Standing.AGREED, own, most, most)
        for other, content in contents:
            self._compare(claim, other, content)
        if own is not None and (own.anew or _continues(own, claim)):
            return Judgment(Standing.NEXT, own)
        ends = [other for other in others if _continues(other, claim)]
        may_insist = self._is_forgotten(claim, others) or _skips(claim, others, ends)
        if may_insist or self._overtakes(claim):
            insists = self._insists(claim, may_insist)
            standing = Standing.NEXT if insists else Standing.HELD
            if standing is Standing.HELD:
                self._turn_away(claim)
            return Judgment(
                standing, own, None, foremost(others) if others and own is None else None
            )
        if ends:
            return Judgment(Standing.NEXT, own, foremost(ends), foremost(ends))
        if claim.begins and (own is None or place[0] > own.sequence_id):
            return Judgment(Standing.NEXT, own)
        self._turn_away(claim)
        return Judgment(Standing.GAP, own)

    def is_of_the_future(self, own: Incoming | None, sequence_id: int) -> bool:
        """Whether a sequence states that it began later than now; clocks may differ by a while."""
        begun_s = sequence_id >> 32
        known = own is not None and own.sequence_id == sequence_id
        return not known and begun_s > self.core.utc + self.core.settings.binary.sequence_ahead_s

    def _had_elsewhere(
        self, claim: SequenceClaim, own: Incoming, others: list[Incoming]
    ) -> Incoming | None:
        """The lineage that has a message of an earlier sequence, which its own has not.

        Its sender was there before it began the present sequence here.
        """
        if not others or claim.place[0] == own.sequence_id or self._has(own, claim):
            return None
        agreed = [other for other in others if self._has(other, claim)]
        return foremost(agreed) if agreed else None

    def _has(self, lineage: Incoming, claim: SequenceClaim) -> bool:
        """Whether a lineage has accepted this very message."""
        same = self.content(lineage, claim.place) == claim.digest
        return same or _had_before_0_2(lineage, claim.place)

    def around(
        self, queue: Queue, source: bytes, format_name: str, host: str, sequence_id: int
    ) -> tuple[Incoming | None, list[Incoming]]:
        """What is known of the lineage of a host, and the others of that sequence."""
        own = self._sequences.own_lineage(queue, source, format_name, host, sequence_id)
        return own, self._sequences.other_lineages(queue, source, format_name, own)

    def numbers(self, source: bytes, name: str, sequence_id: int) -> list[int]:
        """What is remembered of the sequence of a lineage."""
        return list(self.places.known_of(places_key(source, name, sequence_id)))

    def are_new(self, others: list[Incoming], sequence_id: int, numbers: list[int]) -> bool:
        """Whether none of the other lineages remembers any of these places."""
        known = (self.places.known_of(self._key_of(other, sequence_id)) for other in others)
        return all(places.keys().isdisjoint(numbers) for places in known)

    def _key_of(self, lineage: Incoming, sequence_id: int) -> bytes:
        name = self._sequences.name_of(lineage)
        return places_key(lineage.source, name, sequence_id)

    def content(self, lineage: Incoming, place: Place) -> bytes | None:
        """What was accepted at a place; None where that is not known."""
        return self.content_at(self._key_of(lineage, place[0]), place[1])

    def content_at(self, key: bytes, number: int) -> bytes | None:
        """What was accepted at a number, by the key of its sequence."""
        run = self.places.known_of(key).get(number)
        return None if run is None else run.digests[number]

    def _is_forgotten(self, claim: SequenceClaim, others: list[Incoming]) -> bool:
        """Whether another lineage was there before, and what it had is forgotten."""
        return any(self._has_forgotten(other, claim.place) for other in others)

    def _overtakes(self, claim: SequenceClaim) -> bool:
        """Whether a message of its sequence is held: nothing overtakes that one."""
        last, _ = self._held.get(_key(claim), ((0, 0), 0))
        return last[0] == claim.place[0]

    def _has_forgotten(self, lineage: Incoming, place: Place) -> bool:
        """Whether a lineage may have had a message of its own there; the oldest are dropped."""
        sequence_id, number = place
        if sequence_id != lineage.sequence_id:
            return False
        known = self.places.known_of(self._key_of(lineage, sequence_id))
        remembered = next(iter(known), lineage.sequence_number + 1)
        return lineage.began < number < remembered

    def _insists(self, claim: SequenceClaim, may_insist: bool) -> bool:
        """Whether messages that were held come again, a while later, from the first one on.

        By then all that their sender had was looked at, and none of it agreed. One that is held
        with them only may not insist: it would have a place that it cannot have alone.
        """
        key, now_ms = _key(claim), self.core.now_ms
        last, since_ms = self._held.get(key, ((0, 0), now_ms))
        if may_insist and claim.place <= last and now_ms - since_ms >= INSISTS_MS:
            del self._held[key]
            return True
        self._held[key] = claim.place, since_ms
        return False

    def _turn_away(self, claim: SequenceClaim) -> None:
        """Counts a message that something is missing in front of; each sequence is logged once."""
        key, now = _key(claim), self.core.utc
        old = self.turned_away.get(key)
        since = now if old is None else old.since
        count = 1 if old is None else old.messages + 1
        self.turned_away[key] = TurnedAway(claim.place, claim.previous, count, since, now)
        if old is not None and not old.is_lasting and self.turned_away[key].is_lasting:
            self.core.event(
                "sequence_rejected",
                queue=claim.queue.name,
                source=format_guid(claim.source),
                address=claim.host,
                number=claim.place[1],
                rejected=count,
            )

    def moved_on(self, key: _Key) -> None:
        """A message of the sequence was accepted."""
        _drop(self.turned_away, key)

    def _compare(self, claim: SequenceClaim, known: Incoming, content: bytes | None) -> None:
        """Two machines send in one sequence, or one pretends to be the other."""
        if content in (None, claim.digest):
            return
        self.core.conflicts["sequence"] += 1
        other = known.lineage or known.address
        key = claim.queue.number, claim.source, claim.host, other
        told = key in self.conflicts
        self.conflicts[key] = self.core.utc
        if not told:
            self.core.event(
                "sequence_conflict",
                queue=claim.queue.name,
                source=format_guid(claim.source),
                address=claim.host,
                other=other,
            )


def _key(claim: SequenceClaim) -> _Key:
    return claim.queue.number, claim.source, claim.format_name, claim.host


def _host(key: _Key, known: object) -> str:
    return key[3]


def _drop(known: Shared[_Key, Any], key: _Key) -> None:
    if key in known:
        del known[key]


def foremost(lineages: list[Incoming]) -> Incoming:
    """The one that has most messages: a stranger who repeats those of a machine has fewer."""
    return max(lineages, key=rank)


def rank(lineage: Incoming) -> tuple[bool, int]:
    """How many messages a lineage has; version 0.1 did not count them."""
    return not lineage.accepted, lineage.accepted


def last_of(lineage: Incoming) -> Place:
    """IncomingTxSequenceID and IncomingTxSequenceNumber: what was accepted last."""
    return lineage.sequence_id, lineage.sequence_number


def _skips(claim: SequenceClaim, others: list[Incoming], ends: list[Incoming]) -> bool:
    """Whether a host that is new leaves numbers out, of which another may be about to send some.

    The previous number is not part of what a message is known by: who has captured one could have
    it taken before those in front of it.
    """
    if not others:
        return False
    number = claim.place[1]
    if ends:
        return all(other.sequence_number + 1 != number for other in ends)
    return claim.begins and number != 1


def _had_before_0_2(lineage: Incoming, place: Place) -> bool:
    """Whether version 0.1 accepted it: what it said was not kept, and its sender may have moved."""
    return not lineage.accepted and place[0] == lineage.sequence_id and place <= last_of(lineage)


def _continues(lineage: Incoming, claim: SequenceClaim) -> bool:
    """Whether a message follows what a lineage has accepted, in the same sequence."""
    sequence_id, number = claim.place
    same = sequence_id == lineage.sequence_id
    return same and claim.previous <= lineage.sequence_number < number
