"""The driver: the only place that orders "append, sync, then answer".

Endpoints hand in calls on the engine, each with a function for its answer. A turn runs the calls,
appends the records that the engine made, and holds back all results until the log is synced up to
them: answers, refusals and wakes, what protocols may send or owe their peers, and log lines.
Nothing leaves by another way. After a failed write nothing leaves at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

from posthouse.engine.directory.authority_calls import Answered, AuthorityNeeded
from posthouse.engine.ledger.effects import Effects, Event, PeerRequest, Read, Reads, Wake
from posthouse.engine.ledger.spans import SpanNote, SpanNotes
from posthouse.engine.ledger.steps import SteppedWork
from posthouse.engine.manager import QueueManager
from posthouse.model.errors import (
    QueueError,
    RemoteProtocolError,
    ServiceNotAvailable,
    without_frames,
)
from posthouse.model.message import Message
from posthouse.protocols.engine_calls import Answer as Answer
from posthouse.protocols.engine_calls import Call as Call
from posthouse.protocols.engine_calls import Release as Release
from posthouse.store.base import Store
from posthouse.wire.packet.message import deserialize

T = TypeVar("T")
_answered = tuple.__new__


class Delivery(NamedTuple):
    """A message as a reader gets it."""

    read: Read
    packet: bytes

    @property
    def message(self) -> Message:
        """The packet's attributes."""
        return deserialize(self.packet)


Clock = Callable[[], tuple[int, int]]  # monotonic milliseconds, UTC seconds
OnNeed = Callable[[AuthorityNeeded, Call, Release], None]
"""Asks for what a call needs, then decides `made_again` of it."""


def made_again(need: AuthorityNeeded, answer: Answered, call: Call) -> Call:
    """The call that was broken off, repeated with the answer of the authority."""
    return lambda manager: manager.directory.again(need, answer, lambda: call(manager))


class Driver:
    """Runs one engine on one store."""

    def __init__(self, manager: QueueManager, store: Store, clock: Clock) -> None:
        self.manager = manager
        self.store = store
        self.clock = clock
        self.on_event: Callable[[Event], None] = lambda event: None
        self.on_active: Callable[[set[int]], None] = lambda queues: None
        self.on_asks: Callable[[list[PeerRequest]], None] = lambda asks: None
        self.on_need: OnNeed | None = None  # has the authority of the directory asked
        self.spans: SpanNotes | None = None  # what a trace shows; None: tracing is off
        self.on_spans: Callable[[list[SpanNote]], None] = lambda spans: None
        self.failed = False  # the engine is ahead of the log: nothing may be decided or let out
        self._had_room = True
        self._decided: list[tuple[Release, Answer]] = []
        self._unfinished: list[tuple[Release, Answer, list[SteppedWork]]] = []
        # What waits for a sync, with the position that the log has to be synced to.
        self.outbox: deque[tuple[int, Callable[[Any], None], Any]] = deque()

    # -- a turn

    def begin_turn(self) -> bool:
        """Brings the clocks; timers that are due run first. Returns whether there were any."""
        if self.failed:
            raise _unsound()
        try:
            if self.store.has_room() is not self._had_room:
                self._follow_room()
            now_ms, utc = self.clock()
            return self.manager.begin_turn(now_ms, utc)
        except BaseException:
            self.failed = True
            raise

    def _follow_room(self) -> None:
        """The disk has less than its reserve, or enough again."""
        self._had_room, machine = not self._had_room, self.manager.machine
        (machine.end_flow_control if self._had_room else machine.begin_flow_control)("disk")

    def decide(self, call: Call, release: Release) -> None:
        """Runs a call on the engine; its answer waits for the sync.

        The engine refuses before it changes anything. Any other exception may leave a step half
        done that is not in the log. A call that takes several turns is answered when the last of
        them is durable.
        """
        if self.failed:
            raise _unsound()
        try:
            value, error = call(self.manager), None
        except AuthorityNeeded as need:
            if self.on_need is not None:
                self.on_need(need, call, release)
                return
            value, error = None, self.manager.machine.refused(need)
        except QueueError as refusal:
            value, error = None, without_frames(self.manager.machine.refused(refusal))
        except RemoteProtocolError:
            raise  # bytes of a peer, looked at before they are taken in
        except BaseException:
            self.failed = True
            raise
        answer, unfinished = _answered(Answer, (value, error, ())), self.manager.take_begun()
        if unfinished:
            self._unfinished.append((release, answer, unfinished))
        else:
            self._decided.append((release, answer))

    def end_turn(self) -> int:
        """Appends what the turn asked for; its answers wait from now on."""
        if self.failed:
            raise _unsound()
        try:
            effects, store = self.manager.take_effects(), self.store
            position = store.append(effects.records) if effects.records else store.appended
            decided, self._decided, fetched = self._decided, [], effects.packets
            for release, answer in decided:
                if fetched and (packets := _packets(answer.value, fetched)):
                    answer = _answered(Answer, (answer.value, answer.error, packets))
                self.outbox.append((position, release, answer))
            if self._unfinished:
                self._answer_finished(position)
            if effects.wakes or effects.events or effects.active or effects.asks:
                self._follow(position, effects)
            if self.spans is not None and (spans := self.spans.take()):
                self.outbox.append((position, self.on_spans, spans))
        except BaseException:
            self.failed = True
            raise
        return position

    def _answer_finished(self, position: int) -> None:
        """What took several turns, as far as this was the last one."""
        waiting, self._unfinished = self._unfinished, []
        for entry in waiting:
            release, answer, steps = entry
            if all(step.done for step in steps):
                error = next((step.error for step in steps if step.error), None)
                self.outbox.append((position, release, answer._replace(error=error)))
            else:
                self._unfinished.append(entry)

    def _follow(self, position: int, effects: Effects) -> None:
        """Queues the effects of a turn that concern others than its callers, such as wakes and
        events.
        """
        outbox = self.outbox
        for wake in effects.wakes:
            outbox.append((position, *_woken(wake, effects.packets)))
        for event in effects.events:
            outbox.append((position, self.on_event, event))
        if effects.active:
            outbox.append((position, self.on_active, effects.active))
        if effects.asks:
            outbox.append((position, self.on_asks, effects.asks))

    def sync(self) -> None:
        """Makes everything appended so far durable. The only call that may run in a thread."""
        try:
            self.store.sync()
        except BaseException:
            self.failed = True
            raise

    def release(self, latest_s: float = inf) -> int:
        """Lets out everything whose decision is durable, in the order of the decisions.

        What is left at that time of `time.perf_counter` follows with the next call.
        """
        outbox, released = self.outbox, 0
        synced = self.store.synced if outbox else 0
        while outbox and outbox[0][0] <= synced and not self.failed:
            _, release, value = outbox.popleft()
            release(value)
            released += 1
            if outbox and perf_counter() > latest_s:
                break
        return released

    @property
    def may_release(self) -> bool:
        """Whether something is durable and has not been let out."""
        return not self.failed and bool(self.outbox) and self.outbox[0][0] <= self.store.synced

    def tidy(self) -> bool:
        """A step of the store's upkeep, between turns. True: there is more to do."""
        return self.store.tidy()

    @property
    def waiting_answers(self) -> int:
        """Answers, and what else is let out, that wait for a sync."""
        return len(self.outbox)

    # -- one call at a time, for embedded use

    def run(self, call: Callable[[QueueManager], T]) -> T:
        """One call, durable when it returns; raises its refusal. Not for reads that wait."""
        return self._alone(call).value  # type: ignore[return-value]

    def read(self, call: Callable[[QueueManager], Read | None]) -> Delivery | None:
        """One read that finds its message now or not at all, durable when it returns."""
        answer = self._alone(call)
        return Delivery(answer.value, answer.packets[0]) if isinstance(answer.value, Read) else None

    def read_many(self, call: Callable[[QueueManager], Sequence[Read]]) -> list[Delivery]:
        """One read of several messages, durable when it returns."""
        answer = self._alone(call)
        assert isinstance(answer.value, Sequence)
        return [Delivery(*pair) for pair in zip(answer.value, answer.packets, strict=True)]

    def _alone(self, call: Call) -> Answer:
        answers: list[Answer] = []
        self.begin_turn()
        self.decide(call, answers.append)
        self._end_alone()
        while not answers:
            self.tidy()
            self.begin_turn()
            self._end_alone()
        (answer,) = answers
        if answer.error is not None:
            raise answer.error
        return answer

    def _end_alone(self) -> None:
        self.end_turn()
        self.sync()
        self.release()

    def close(self) -> None:
        """A clean stop: waits end, everything is synced and let out, the store is closed."""
        self.finish()
        try:
            self.release()
        finally:
            self.store.close()

    def finish(self) -> None:
        """The first half of a clean stop: waits end, and everything is synced."""
        self.manager.stop()
        self.end_turn()
        self.sync()


def _unsound() -> ServiceNotAvailable:
    return ServiceNotAvailable("the log could not be written or read, so nothing more is decided")


def _packets(value: object, fetched: dict[int, bytes]) -> tuple[bytes, ...]:
    if isinstance(value, Read):
        return (fetched[value.number],)
    if type(value) is Reads:
        return tuple(map(fetched.__getitem__, value.numbers))
    if isinstance(value, list) and value and isinstance(value[0], Read):
        return tuple([fetched[read.number] for read in value])
    return ()


def _woken(wake: Wake, fetched: dict[int, bytes]) -> tuple[Release, Answer]:
    release = wake.token
    assert callable(release), "a waiting read's token is what to do with its answer"
    return release, Answer(wake.read, wake.error, _packets(wake.read, fetched))
