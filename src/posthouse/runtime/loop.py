"""The event loop: protocols hand in calls, a turn runs them, one sync covers them all.

A turn takes along every call of one round of the event loop. Its records are appended, then synced
on the spot where that is quick, else by the one writer thread while the next turns are decided; a
sync begins when the last one ends. Nothing polls: without calls and deadlines the loop sleeps.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import TypeVar

from posthouse.engine.manager import QueueManager
from posthouse.model.errors import OperationCancelled, RemoteProtocolError, ServiceNotAvailable
from posthouse.protocols.engine_calls import Answer, Call, Release
from posthouse.protocols.pacing import Busy
from posthouse.runtime.driver import Driver
from posthouse.runtime.garbage_collection import without_collections
from posthouse.runtime.loop_turns import TurnMeter, TurnTimes

T = TypeVar("T")
Waiting = deque[Callable[[], None]]

# A hop to the writer thread and back costs 0.04 to 0.1 ms, and twice as much in a process that is
# busy; what arrives meanwhile waits in its socket and is taken along by the next turn either way.
# Where a sync takes little more than that, whatever a few clients bring is synced on the loop, a
# transaction of a hundred messages of 1 KiB included: it gathers what comes meanwhile in larger
# turns. On other disks it is one message of 1 KiB that came over HTTP, with all it keeps of it;
# with several there is work that a sync in the thread leaves time for.
QUICK_SYNC_S = 0.0005
QUICK_BATCH = 192 << 10  # bytes
INLINE_SYNC_S = 0.001
INLINE_BATCH = 6144  # bytes
TRIAL_EVERY = 256  # syncs in the thread, where the wait for the interpreter counts as the disk's
TRIAL_SYNCS = 16  # on the loop, to measure how quick the disk is
CALM_SYNCS = 16  # this many quick, small syncs bring them back to the loop
CROWDED_S = 0.01  # a turn that has lasted as long takes no more bytes of peers
ENOUGH_S = 0.02  # up to which a turn that ends lets answers out, ...
LEAST_S = 0.005  # ... or for as long, where it has lasted longer
_AVERAGE_OF = 8
_TIMER_MIN_S = 0.001  # a deadline that stays due may not spin
UPKEEP_EVERY_S = 0.005  # looking for something to do costs as much as a small turn
_UPKEEP_PAUSE_S = 0.001  # upkeep that waits for something else than a sync


class SyncPolicy:
    """Where the next sync runs (design.md 4): on the loop while syncs are quick and batches small.

    Leaving the loop happens at once, coming back only after a while, so that a mixed load does not
    change sides with every batch.
    """

    __slots__ = ("_calm", "_trial", "average_s", "threaded")

    def __init__(self) -> None:
        self.average_s = 0.0
        self.threaded = False
        self._calm = self._trial = 0

    def inline(self, batch_bytes: int) -> bool:
        """Whether a batch of this size is synced on the loop."""
        if self.average_s >= INLINE_SYNC_S or batch_bytes >= QUICK_BATCH:
            self._leave()
        elif self.threaded:
            self._come_back(CALM_SYNCS if batch_bytes < INLINE_BATCH else TRIAL_EVERY)
        elif self._trial:
            self._trial -= 1
        elif batch_bytes >= INLINE_BATCH and self.average_s >= QUICK_SYNC_S:
            self._leave()
        return not self.threaded

    def _leave(self) -> None:
        self.threaded, self._calm = True, 0

    def _come_back(self, calm_syncs: int) -> None:
        self._calm += 1
        if self._calm >= calm_syncs:
            self.threaded, self._trial = False, TRIAL_SYNCS

    def note(self, seconds: float) -> None:
        """A sync took this long."""
        self.average_s += (seconds - self.average_s) / _AVERAGE_OF


class SyncTimes:
    """How long syncs took, by buckets, for the metrics."""

    BOUNDS_S: tuple[float, ...] = (
        0.0001,
        0.0002,
        0.0005,
        0.001,
        0.002,
        0.005,
        0.01,
        0.02,
        0.05,
        0.1,
        0.5,
        1.0,
    )

    def __init__(self) -> None:
        self.counts = [0] * (len(self.BOUNDS_S) + 1)
        self.total_s = 0.0

    def note(self, seconds: float) -> None:
        """Counts one."""
        self.counts[bisect_left(self.BOUNDS_S, seconds)] += 1
        self.total_s += seconds


Synced = Callable[[float, BaseException | None], None]


class Writer:
    """The one thread that syncs when a sync is worth leaving the loop for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sync: Callable[[], None]) -> None:
        self._loop = loop
        self._sync = sync
        self._asked: SimpleQueue[Synced | None] = SimpleQueue()
        self._thread: Thread | None = None

    def begin(self, done: Synced) -> None:
        """Syncs; `done` is called on the loop with the seconds it took or the error it met."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="posthouse-writer", daemon=True)
            self._thread.start()
        self._asked.put(done)

    def _run(self) -> None:
        while (done := self._asked.get()) is not None:
            begun, failure = perf_counter(), None
            try:
                self._sync()
            except BaseException as error:  # the loop must get every failure
                failure = error
            self._loop.call_soon_threadsafe(done, perf_counter() - begun, failure)

    def close(self) -> None:
        """Waits for the sync under way and ends the thread."""
        if self._thread is not None:
            self._asked.put(None)
            self._thread.join()
            self._thread = None


class Loop:
    """`posthouse.protocols.engine_calls.Desk` on the running event loop.

    `on_failure` is told once, when the log could not be written or read: nothing is decided or let
    out from then on, and the process has to end.
    """

    def __init__(
        self, driver: Driver, on_failure: Callable[[BaseException], None] = lambda error: None
    ) -> None:
        self.driver = driver
        self._manager = driver.manager
        self.on_failure = on_failure
        self.on_upkeep: Callable[[], None] = lambda: None  # after each step of it
        self.policy = SyncPolicy()
        self.upkeep_every_s = UPKEEP_EVERY_S
        self.sync_times = SyncTimes()
        self.turn_times = TurnTimes()
        self._meter = TurnMeter(self.turn_times)
        self.turns = 0
        self._calls = 0
        self._busy_s = 0.0
        self._begun_s = 0.0  # the turn that is open
        self.failure: BaseException | None = None
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(self._loop, driver.sync)
        self._open = False  # a turn has begun and not ended
        self._ending = False  # its answers leave, and none of them has begun the next one
        # What waits for the next turn: of anybody, and of those who are known by a login.
        self._later: tuple[Waiting, Waiting] = deque(), deque()
        self._syncing = False  # in the writer thread
        self._releasing = False  # some answers wait for the next round
        self._letting_out = False  # answers are being let out
        self._written: list[Callable[[], None]] = []  # to be called after them
        self._joining: list[Callable[[], None]] = []  # to be run before the turn ends
        self._untidy = True
        self._unfinished = False  # the last step of upkeep left something to do
        self._tidied_at = -self.upkeep_every_s
        self._postponed = False  # upkeep was due while a turn was open
        self.stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._armed = False  # the owners of timers were asked since the last one fired
        self._upkeep: asyncio.Handle | None = None
        self._quiet: asyncio.Future[None] | None = None  # waits for the thread's sync to end

    @property
    def manager(self) -> QueueManager:
        """The engine, for looking at figures between turns."""
        return self.driver.manager

    @property
    def unsynced_bytes(self) -> int:
        """Bytes of log that the next sync covers."""
        return self.driver.store.unsynced_bytes

    @property
    def busy(self) -> Busy:
        """How much it has had to do so far: the time of turns, up to their answers."""
        return Busy(self._busy_s, self._calls)

    def start(self) -> None:
        """Lets out what the start of the engine left, and sets the first timer."""
        self._guarded(self._after_turn)

    # -- calls

    def decide(self, call: Call, release: Release) -> None:
        """Runs a call in the current turn; its answer is let out once it is durable."""
        begun, meter = perf_counter(), self._meter
        if not self._open:
            begun = self._begin_turn(begun)
        self._calls += 1
        meter.calls += 1
        try:
            self.driver.decide(call, release)
        except RemoteProtocolError:
            raise  # the door's peer is to blame, and nothing has changed
        except BaseException as error:
            self._fail(error)
            raise
        seconds = perf_counter() - begun
        if seconds > meter.longest_s:
            meter.longest, meter.longest_s = call, seconds

    async def call(self, call: Call) -> Answer:
        """Runs a call and awaits its answer; a refusal is part of the answer."""
        answered: asyncio.Future[Answer] = self._loop.create_future()

        def release(answer: Answer) -> None:
            if not answered.done():  # the caller may have left
                answered.set_result(answer)

        self.decide(call, release)
        return await answered

    async def run(self, call: Callable[[QueueManager], T]) -> T:
        """Runs a call and awaits its value; raises its refusal."""
        answer = await self.call(call)
        if answer.error is not None:
            raise answer.error
        return answer.value  # type: ignore[return-value]

    # -- whose bytes wait for the next turn

    def is_crowded(self, *, known: bool = False) -> bool:
        """Whether the turn has lasted long enough, or others wait for the next one already."""
        if self._later[known]:
            return True
        return self._open and perf_counter() - self._begun_s > CROWDED_S

    @property
    def _is_long(self) -> bool:
        return self._open and perf_counter() - self._begun_s > CROWDED_S

    def later(self, work: Callable[[], None], *, known: bool = False) -> None:
        """Runs work in one of the next turns, in the order in which it came.

        A crowd of strangers does not delay who is known by a login; but it has a part of each turn.
        """
        if not any(self._later):
            self._loop.call_soon(self._run_later)
        self._later[known].append(work)

    def _run_later(self) -> None:
        """As much of what waits as a turn has time for, and at least one of each kind."""
        for waiting in reversed(self._later):
            if waiting:
                self._run_one(waiting.popleft())
            while waiting and not self._is_long:
                self._run_one(waiting.popleft())
        if any(self._later):
            self._loop.call_soon(self._run_later)

    def _run_one(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # the connection's own fault: others go on
            self._report("a door broke over the bytes of a peer", error)

    # -- turns

    def _begin_turn(self, begun: float) -> float:
        """Returns when what was due at its beginning had been done."""
        if self.stopped:
            raise ServiceNotAvailable("the queue manager has stopped")
        meter = self._meter
        meter.begin(begun)
        try:
            ran = self.driver.begin_turn()
        except BaseException as error:
            self._fail(error)
            raise
        if ran:
            now_s = perf_counter()
            meter.did("what was due", now_s - begun)
            begun = now_s
        self._open, self._ending, self._begun_s = True, False, begun
        self.turns += 1
        self._loop.call_soon(self._guarded, self._end_turn)
        return begun

    def join(self, work: Callable[[], None]) -> bool:
        """Runs work before the turn ends that is open; False: none is."""
        if self._open:
            self._joining.append(work)
        return self._open

    def _end_turn(self) -> None:
        if self._open:
            while self._joining:  # work may bring more of it
                joining, self._joining = self._joining, []
                for work in joining:
                    self._run_one(work)
            self._open = False
            self.driver.end_turn()
            if self._postponed:  # answers began the next turn first, and may do so again
                self._tidy_once()
            self._untidy = True
            begun_s = self._begun_s  # of this turn: answers may begin the next one
            self._ending = True
            self._after_turn()
            self._ending = False
            now_s = perf_counter()
            self._busy_s += now_s - begun_s
            self._meter.end(now_s, goes_on=self._open)

    def _after_turn(self) -> None:
        self._settle()
        if self._untidy and (self._upkeep is None or self._unfinished):
            self._tidy()
        if not self._armed or self._manager.deadline_moved():
            self._arm()

    def _settle(self) -> None:
        """Lets out what is durable, and sees to it that the rest becomes so."""
        store = self.driver.store
        if self._syncing or store.synced >= store.appended:
            self._release()
        elif self.policy.inline(store.unsynced_bytes):
            begun, meter = perf_counter(), self._meter
            self.driver.sync()
            now_s = perf_counter()
            seconds = now_s - begun
            self.policy.note(seconds)
            self.sync_times.note(seconds)
            if seconds > meter.longest_s:
                meter.longest, meter.longest_s = "sync", seconds
            self._release(now_s)
        else:
            self._syncing = True
            self._writer.begin(self._synced)
            self._release()

    def _synced(self, seconds: float, error: BaseException | None) -> None:
        """The thread's sync has ended; the next begins at once if anything has come meanwhile."""
        self._syncing = False
        if self._quiet is not None and not self._quiet.done():
            self._quiet.set_result(None)
        if error is not None:
            self._fail(error)
            return
        self.policy.note(seconds)
        self.sync_times.note(seconds)
        self._guarded(lambda: self.measured(self._after_sync))

    def _after_sync(self) -> None:
        self._release()
        self._settle()
        self._tidy()

    def _release(self, begun: float = 0.0, *, all_of_it: bool = False) -> None:
        """A door that breaks over its answer does not keep the others from theirs.

        Of very many answers the rest follows in the next round of the event loop, or when the turn
        ends: what an answer leads to, more bytes of a peer perhaps, counts as a part of the turn.
        """
        driver = self.driver
        if not driver.outbox:
            return
        begun = begun or perf_counter()
        if self._open and begun - self._begun_s > CROWDED_S and not all_of_it:
            return
        if all_of_it:
            latest = math.inf
        elif self._ending:
            latest, least = self._begun_s + ENOUGH_S, begun + LEAST_S
            if latest < least:
                latest = least
        else:
            latest = (self._begun_s if self._open else begun) + CROWDED_S
        outer, self._letting_out = self._letting_out, True
        while True:
            try:
                driver.release(latest)
                break
            except Exception as error:
                self._report("a door could not take its answer", error)
        self._letting_out = outer
        if not outer:
            self._run_written()
        seconds, meter = perf_counter() - begun, self._meter
        if seconds > meter.longest_s:
            meter.longest, meter.longest_s = "answers", seconds
        if driver.outbox and driver.may_release and not self._releasing:
            self._releasing = True
            self._loop.call_soon(self._guarded, self._release_rest)

    def _report(self, message: str, error: Exception) -> None:
        self._loop.call_exception_handler({"message": message, "exception": error})

    def soon(self, call: Callable[[], None]) -> None:
        """Calls once after all that happens now: of answers, when the last of them is let out."""
        if self._letting_out:
            self._written.append(call)
        else:
            self._loop.call_soon(call)

    def _run_written(self) -> None:
        """What is to be written goes in this round of the event loop: none wakes up for it."""
        written, self._written = self._written, []
        for call in written:
            try:
                call()
            except Exception as error:
                self._report("a door could not write its answers", error)

    def _release_rest(self) -> None:
        self._releasing = False
        self.measured(self._release)

    # -- upkeep, between turns

    def _tidy(self) -> None:
        if not self._untidy or self.stopped:
            return
        early_s = self._tidied_at + self.upkeep_every_s - self._loop.time()
        if early_s > 0 and not self._unfinished:
            if self._upkeep is None:
                self._tidy_later(early_s)
            return
        if self._open:
            self._postponed = True
            return
        if self._ending and perf_counter() - self._begun_s > ENOUGH_S:
            self._tidy_later(0.0)
            return
        store = self.driver.store
        before = store.appended
        self._tidy_once()
        if store.appended != before:
            self._settle()
        if self._untidy and not self._syncing:
            self._tidy_later(0.0 if store.appended != before else _UPKEEP_PAUSE_S)

    def _tidy_later(self, seconds: float) -> None:
        if self._upkeep is None:
            self._upkeep = self._loop.call_later(seconds, self._guarded, self._tidy_again)

    def _tidy_once(self) -> None:
        self._postponed = False
        self._tidied_at = self._loop.time()
        begun = perf_counter()
        store = self.driver.store
        with without_collections(lambda: store.pictures):
            self._untidy = self._unfinished = self.driver.tidy()
        self.on_upkeep()
        self._meter.did("upkeep of the store", perf_counter() - begun)

    def _tidy_again(self) -> None:
        """Now it is due, even where the timer was a little early."""
        self._upkeep = None
        self._tidied_at = -self.upkeep_every_s
        self.measured(self._tidy)

    def measured(self, step: Callable[[], None]) -> None:
        """Work outside the turns of calls, which keeps others waiting as they do."""
        self._meter.begin(perf_counter())
        step()
        if not self._open:
            self._meter.end(perf_counter(), goes_on=False)

    # -- timers

    def _arm(self) -> None:
        """One timer for the next deadline. One that is too early stays, and is set again then."""
        if self.stopped:
            return
        manager = self._manager
        deadline_ms = manager.noted_deadline_ms() if self._armed else manager.next_deadline_ms()
        self._armed = True
        if self._timer is not None:
            if deadline_ms is not None and self._timer_at_ms <= deadline_ms:
                return
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None:
            delay_s = (deadline_ms - self.driver.clock()[0]) / 1000
            self._timer_at_ms = deadline_ms
            self._timer = self._loop.call_later(
                max(delay_s, _TIMER_MIN_S), self._guarded, self._due
            )

    def _due(self) -> None:
        self._timer, self._armed = None, False
        deadline_ms = self._manager.next_deadline_ms()
        if self._open:
            return  # the turn's end sets the timer
        if deadline_ms is None or deadline_ms > self.driver.clock()[0]:
            self._arm()
        else:
            self._begin_turn(perf_counter())

    # -- the end

    def _guarded(self, step: Callable[[], None]) -> None:
        if self.failure is not None or self.stopped:
            return
        try:
            step()
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.driver.failed = True
        if self.failure is None:
            self.failure = error
            self._cancel_timers()
            self.on_failure(error)

    def _cancel_timers(self) -> None:
        for handle in (self._timer, self._upkeep):
            if handle is not None:
                handle.cancel()
        self._timer = self._upkeep = None

    def cancel_waits(self) -> None:
        """Ends every waiting read with MQ_ERROR_OPERATION_CANCELLED; the rest goes on."""
        error = OperationCancelled("the queue manager is stopping")

        def cancel(manager: QueueManager) -> None:
            manager.messages.cancel_all_reads(manager.queues.all(), error)

        self.decide(cancel, lambda answer: None)

    async def stop(self) -> None:
        """A clean stop: everything decided is synced and let out, the store is closed."""
        if self.stopped:
            return
        while self._syncing or (self._open and self.failure is None):
            self._guarded(self._end_turn)  # what an answer leads to is another turn
            if self._syncing:
                self._quiet = self._loop.create_future()
                await self._quiet
        self.stopped = True
        self._cancel_timers()
        self._writer.close()
        if self.failure is None:
            self.driver.finish()
            self._release(all_of_it=True)
            self.driver.store.close()
