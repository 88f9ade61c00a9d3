"""Moves or copies the messages of a queue on another machine into a queue here, each once.

Moving: messages are locked at the source (R_StartReceive), offered to the queue manager here, and
ended at the source (R_EndReceive) when they are durable here. Where the answer to an end does not
come, the source is asked for that message by its lookup id: one that is still there is
offered and ended once more. Copying looks at messages and ends none.

Nothing is ended at the source that the queue manager here has not confirmed. So a run may be killed
at any point, and so may either queue manager: the next run goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import msgspec

from posthouse.api.pulls import JOURNAL_ENDING, TakenJson
from posthouse.client.errors import ClientConnectionError, ServerUnreachable, SessionLost
from posthouse.client.message import Message
from posthouse.client.remote.consumer import browse, take_together
from posthouse.client.remote.lookups import peek_each, take_by_lookup
from posthouse.client.remote.pull.patience import Patience, passes
from posthouse.client.remote.pull.run import PullRun, refusal_of
from posthouse.client.remote.reader import QueueReader
from posthouse.client.remote.state import INFINITE, LockedMessage, RemoteOpenQueue, Want
from posthouse.client.rpc_link import LinkLost
from posthouse.model.errors import IoTimeout, QueueError, RemoteProtocolError, SharingViolation
from posthouse.protocols.remote_read.stubs import Ack

T = TypeVar("T")
CHUNK: Final = 64  # messages that are read together
OFFER_BYTES: Final = 4 << 20  # packets of one offer, or one message
REFUSED_MAX: Final = 100
DOUBT_ROUNDS: Final = 5
LISTED_MAX: Final = 10_000_000
PAUSE_S: Final = 0.1
FOLLOW_S: Final = 2.0
"""How long one wait for late messages lasts."""


class PullCounts(msgspec.Struct):
    """How far a run has come."""

    read: int = 0
    taken: int = 0
    known: int = 0  # were here already
    ended: int = 0  # at the source
    refused: int = 0  # left at the source
    stay: int = 0  # in a journal at the source, which pulls of its queue put there
    asked_again: int = 0  # by lookup id, after the answer to an end was lost
    bytes: int = 0


Told = Callable[[PullCounts], None]
Away = Callable[[ClientConnectionError], None]


class Speed:
    """At most this many messages in a second; 0: as many as there are."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._due = time.monotonic()

    @property
    def chunk(self) -> int:
        """How many are read together."""
        return max(1, min(CHUNK, int(self._rate))) if self._rate else CHUNK

    def wait(self, count: int) -> None:
        """Until this many more may be read."""
        if not self._rate:
            return
        now = time.monotonic()
        self._due = max(self._due, now - 1.0)
        if self._due > now:
            time.sleep(self._due - now)
        self._due += count / self._rate


class Interval:
    """A span of time, for who shows progress or takes turns."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def lasts(self) -> bool:
        """Whether it is not over."""
        return time.monotonic() < self._end

    def has_passed(self) -> bool:
        """Whether it is over; then it begins again."""
        if self.lasts():
            return False
        self._end = time.monotonic() + self._seconds
        return True

    def wait(self) -> None:
        """Until it is over."""
        time.sleep(max(self._end - time.monotonic(), 0.0))


class QueuePull:
    """A queue elsewhere is emptied into, or copied to, a queue here."""

    def __init__(
        self,
        queue: QueueReader,
        run: PullRun,
        *,
        told: Told = lambda counts: None,
        away: Away = lambda error: None,
        patient: bool = False,
        rate: float = 0.0,
        limit: int | None = None,
        passed: set[int] | None = None,
    ) -> None:
        self.counts = PullCounts()
        self.refusal: QueueError | None = None  # the first
        self._queue = queue
        self._run = run
        self._told = told
        self._away = away  # told of an outage that lasts
        self._patient = patient  # also before the source was reached
        self._speed = Speed(rate)
        self._limit = limit
        self._doubts: dict[int, None] = {}  # lookup ids whose end was not confirmed
        self._doubted = 0
        self._held: list[LockedMessage] = []  # refused here: locked, so that reads go past them
        self._passed = set[int]() if passed is None else passed  # of a journal: asked for
        self._listed_last = 0  # messages of which copies were taken, or that had been here
        self._reached = False  # the source, by this run

    # -- moving

    def move(self, *, follow: Callable[[], bool] = lambda: False) -> PullCounts:
        """Until the source is empty; while `follow` is true, also what comes later."""
        try:
            if self._run.source.name.endswith(JOURNAL_ENDING):
                self._move_journal(follow)
            else:
                self._move_all(follow)
            self._patiently(self._settle_doubts)
        finally:
            self._give_back_held()
        return self.counts

    def _move_all(self, follow: Callable[[], bool]) -> None:
        while self._has_more():
            locked = self._locked() or (self._waited() if follow() else [])
            if locked:
                self._offer_and_end(locked)
            elif not follow():
                return

    def _move_journal(self, follow: Callable[[], bool]) -> None:
        """By lookup ids: what pulls put into the journal stays there, in front of the rest."""
        while self._has_more():
            listed = self._patiently(self._not_passed)
            if not listed:
                if not follow():
                    return
                time.sleep(FOLLOW_S)
            while listed and self._has_more():
                count = self._count()
                some, listed = listed[:count], listed[count:]
                self._speed.wait(len(some))
                self._offer_and_end(self._patiently(partial(self._lock_some, some)))
                self._passed.update(some)

    @property
    def is_whole(self) -> bool:
        """Return if no limit has ended it early."""
        return self._has_more()

    @property
    def left(self) -> int:
        """Messages that it has seen at the source, and that are there still."""
        return self._listed_last or self.counts.refused + self.counts.stay

    def readable(self) -> int:
        """Count the messages that remote read gives now."""
        return self._patiently(lambda: sum(1 for _ in self._listed()))

    def _not_passed(self) -> list[int]:
        self._opened()
        return [one for one in self._listed() if one not in self._passed]

    def move_some(self, lookup_ids: Sequence[int]) -> PullCounts:
        """The messages with these lookup ids, as far as they are there."""
        try:
            for at in range(0, len(lookup_ids), CHUNK):
                wanted = partial(self._lock_some, lookup_ids[at : at + CHUNK])
                self._offer_and_end(self._patiently(wanted))
            self._patiently(self._settle_doubts)
        finally:
            self._give_back_held()
        return self.counts

    def _lock_some(self, lookup_ids: Sequence[int]) -> list[LockedMessage]:
        self._settle_doubts()
        return take_by_lookup(self._queue, self._opened(), lookup_ids)

    def copy_some(self, lookup_ids: Sequence[int]) -> PullCounts:
        """Copies of the messages with these lookup ids, as far as they are there."""
        for at in range(0, len(lookup_ids), CHUNK):
            self._copy_some(list(lookup_ids[at : at + CHUNK]), set())
        return self.counts

    def _has_more(self) -> bool:
        return self._limit is None or self.counts.read - self.counts.stay < self._limit

    def _count(self) -> int:
        done = self.counts.read - self.counts.stay
        left = CHUNK if self._limit is None else self._limit - done
        return min(self._speed.chunk, left)

    def _locked(self) -> list[LockedMessage]:
        count = self._count()
        self._speed.wait(count)
        return self._patiently(lambda: self._lock(count))

    def _lock(self, count: int) -> list[LockedMessage]:
        self._settle_doubts()
        opened = self._opened()
        return sorted(take_together(self._queue, opened, count), key=_lookup_id)

    def _waited(self) -> list[LockedMessage]:
        """The next message, if one comes."""
        self._patiently(self._opened)
        try:
            return [self._queue.take(Want(), FOLLOW_S)]
        except (IoTimeout, SessionLost):
            return []

    def _patiently(self, call: Callable[[], T]) -> T:
        """Over as many connections as it takes; see `patient`."""
        patience = Patience(self._queue.reader.reconnect_s, self._away)
        while True:
            try:
                found = call()
            except (LinkLost, ServerUnreachable) as error:
                self._held.clear()  # they went back with their connection
                self._reached = self._reached or isinstance(error, LinkLost)
                waits = self._reached or (self._patient and passes(error))
                if not waits or not patience.wait(error):
                    raise _source_error(error) from None
            else:
                self._reached = True
                return found

    def _opened(self) -> RemoteOpenQueue:
        """The queue, open exclusively: not even our connection that broke.

        Until the source has noticed that, it keeps what that had locked, and reads of another
        connection would go past it, out of order.
        """
        until = time.monotonic() + self._queue.reader.reconnect_s
        while True:
            try:
                return self._queue.opened()
            except SharingViolation as error:
                if time.monotonic() > until:
                    raise SharingViolation(
                        f"another program has {self._queue.name} open there to receive from it",
                        "Stop it. With --shared both receive, and the order is not kept.",
                    ) from error
                time.sleep(PAUSE_S)

    # -- each message

    def _offer_and_end(self, locked: list[LockedMessage]) -> None:
        """Nothing of it is ended before the queue manager here has confirmed it."""
        portions = list(_portions(locked, lambda one: one.message.packet))
        for at, portion in enumerate(portions):
            try:
                taken = self._offer([one.message for one in portion])
            except BaseException:
                self._give_back([one for rest in portions[at:] for one in rest])
                raise
            kept = portion[: len(portion) - taken.left]
            refused = {one.lookup_id for one in taken.refused}
            left = refused.union(taken.stay)
            self._end([one for one in kept if one.message.lookup_id not in left])
            self._give_back([one for one in kept if one.message.lookup_id in taken.stay])
            self._held += [one for one in kept if one.message.lookup_id in refused]
            if taken.stopped is not None:
                later = [one for rest in portions[at + 1 :] for one in rest]
                self._give_back([*portion[len(kept) :], *later])
                raise refusal_of(taken.stopped)
        self._check_refusals()

    def _offer(self, messages: Sequence[Message]) -> TakenJson:
        taken, counts = self._run.offer(messages), self.counts
        counts.read += len(messages) - taken.left
        counts.taken += taken.taken
        counts.known += taken.known
        counts.refused += len(taken.refused)
        counts.stay += len(taken.stay)
        counts.bytes += sum(len(one.packet) for one in messages)
        if taken.refused and self.refusal is None:
            self.refusal = refusal_of(taken.refused[0].error)
        self._check_repeats()
        self._told(counts)
        return taken

    def _check_repeats(self) -> None:
        """A source that gives again what it has ended would be read for ever."""
        if self.counts.known > self._run.pull.messages + self._doubted + CHUNK:
            raise RemoteProtocolError(
                f"{self._queue.reader.place.host} returns messages again that it has removed"
            )

    def _check_refusals(self) -> None:
        if len(self._held) > REFUSED_MAX and self.refusal is not None:
            raise self.refusal

    def _end(self, locked: list[LockedMessage]) -> None:
        """R_EndReceive. Those whose answer does not come are asked for by lookup id."""
        queue, ends = self._queue, []
        self._doubts.update(dict.fromkeys(map(_lookup_id, locked)))
        with suppress(LinkLost):
            for one in locked:
                pending = queue.end(one.opened, one.request_id, Ack.ACK, False)
                ends.append((one, pending))
            if locked:
                locked[0].opened.link.flush()
        for one, pending in ends:
            if queue.has_ended(one.opened, pending):
                self._doubts.pop(_lookup_id(one), None)
                self.counts.ended += 1
        self._doubted += len(self._doubts)

    def _settle_doubts(self) -> None:
        """What the source still has of it is offered, which finds it known, and ended again."""
        for _ in range(DOUBT_ROUNDS):
            doubts = list(self._doubts)[:CHUNK]
            if not doubts:
                return
            there = take_by_lookup(self._queue, self._opened(), doubts)
            self.counts.asked_again += len(doubts)
            self.counts.ended += len(doubts) - len(there)
            for lookup_id in doubts:
                del self._doubts[lookup_id]
            if there:
                self._offer_and_end(there)
        if self._doubts:
            raise RemoteProtocolError(
                f"{self._queue.reader.place.host} does not remove messages that were received"
            )

    def _give_back(self, locked: list[LockedMessage]) -> None:
        for one in locked:
            self._queue.give_back(one.opened, one.request_id, Want())

    def _give_back_held(self) -> None:
        held, self._held = self._held, []
        self._give_back(held)

    # -- copying

    def copy(self) -> PullCounts:
        """All messages that are there; none of them leaves the source."""
        known = {lookup_id for lookup_id, _ in self._run.known()}
        self.counts.known = 0
        self._patiently(lambda: self._copy_all(known))
        return self.counts

    def _copy_all(self, known: set[int]) -> None:
        """Identifiers first, then the messages that are not here yet."""
        wanted = list[int]()
        self._listed_last = 0
        for lookup_id in self._listed():
            self._listed_last += 1
            if lookup_id not in known:
                wanted.append(lookup_id)
            if len(wanted) >= self._count():
                self._copy_some(wanted, known)
                wanted = []
            if not self._has_more():
                return
        self._copy_some(wanted, known)

    def _listed(self) -> Iterator[int]:
        """Yield the lookup ids of all messages; from the beginning, where a connection broke."""
        listed = set[int]()
        try:
            for message in browse(self._queue, CHUNK, 0):
                self._reached = True
                if message.lookup_id in listed or len(listed) >= LISTED_MAX:
                    raise RemoteProtocolError(
                        f"{self._queue.reader.place.host} lists message {message.lookup_id} again, "
                        f"or more than {LISTED_MAX:,} messages"
                    )
                listed.add(message.lookup_id)
                yield message.lookup_id
        except SessionLost as error:
            raise LinkLost(error.cause) from None

    def _copy_some(self, lookup_ids: list[int], known: set[int]) -> None:
        self._speed.wait(len(lookup_ids))
        messages = list(peek_each(self._queue, lookup_ids, INFINITE))
        for portion in _portions(messages, lambda one: one.packet):
            taken = self._offer(portion)
            refused = {one.lookup_id for one in taken.refused}
            done = portion[: len(portion) - taken.left]
            known.update({one.lookup_id for one in done} - refused)
            if taken.stopped is not None:
                raise refusal_of(taken.stopped)


def _source_error(error: LinkLost | ServerUnreachable) -> ServerUnreachable:
    """What ends a run: the connection was lost, and none could be made again."""
    if isinstance(error, ServerUnreachable):
        return error
    return ServerUnreachable(
        f"the connection to the source broke: {error.cause}",
        "Run the command again: it continues, and takes no message twice.",
    )


def _lookup_id(locked: LockedMessage) -> int:
    return locked.message.lookup_id


def _portions(messages: list[T], packet: Callable[[T], bytes]) -> Iterator[list[T]]:
    """In offers of a size that the queue manager takes."""
    portion, size = list[T](), 0
    for one in messages:
        length = len(packet(one))
        if portion and size + length > OFFER_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(one)
        size += length
    if portion:
        yield portion
