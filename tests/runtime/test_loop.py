"""The loop on simulated time and a simulated disk, with the real writer thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from threading import Event, current_thread, main_thread

import pytest

from posthouse.engine.ledger.records import Record
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import QueueAccessType
from posthouse.model.errors import (
    IoTimeout,
    OperationCancelled,
    QueueNotFound,
    RemoteProtocolError,
    ServiceNotAvailable,
)
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.names import PathName
from posthouse.model.properties import QueueProperties
from posthouse.protocols.engine_calls import Answer
from posthouse.protocols.sessions.protocol import ClientSession
from posthouse.runtime.driver import Driver
from posthouse.runtime.loop import (
    CALM_SYNCS,
    INLINE_BATCH,
    INLINE_SYNC_S,
    QUICK_BATCH,
    QUICK_SYNC_S,
    TRIAL_EVERY,
    TRIAL_SYNCS,
    Loop,
    SyncPolicy,
)
from posthouse.security.access import Caller
from posthouse.sim import SimClock, SimDisk
from posthouse.store.errors import StoreFailed
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from tests.engine.settings import engine_settings
from tests.runtime.sim_loop import SimLoop, run

ADMIN = Caller.administrator()
PATH = PathName.parse(r".\private$\orders")
QUEUE = r".\private$\orders"
THREAD_S = 30.0


class WatchedStore(LogStore):
    """Says what it does, and lets a test hold its syncs or break it."""

    def __init__(self, disk: SimDisk, trace: list[str]) -> None:
        super().__init__(disk, StoreSettings())
        self.trace = trace
        self.batch = 0  # what the loop takes for the size of the batch
        self.may_sync = Event()
        self.may_sync.set()
        self.sync_begun = Event()
        self.durable = 0
        self.tidied = 0
        self.fail_tidy = False

    def hold(self) -> None:
        """The next sync begins and does not end until a test lets it."""
        self.batch = QUICK_BATCH  # in the thread
        self.sync_begun.clear()
        self.may_sync.clear()

    @property
    def unsynced_bytes(self) -> int:
        return self.batch

    def append(self, records: list[Record]) -> int:  # type: ignore[override]
        self.trace.append("append")
        return super().append(records)

    def sync(self) -> int:
        where = "loop" if current_thread() is main_thread() else "thread"
        target = self.appended  # what comes while the sync is held is not covered by it
        self.sync_begun.set()
        assert self.may_sync.wait(THREAD_S)
        super().sync()
        self.trace.append(f"sync on the {where}")
        self.durable = target
        return target

    @property
    def synced(self) -> int:
        return self.durable

    def tidy(self) -> bool:
        self.tidied += 1
        if self.fail_tidy:
            raise StoreFailed("the disk is gone")
        return super().tidy()


class QuickDisk(SyncPolicy):
    """Syncs take no time here, however busy the machine is; only the size of a batch counts."""

    def note(self, seconds: float) -> None:
        super().note(0.0)


class Bench:
    """A queue manager with one queue, on a loop."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.loop = SimLoop(self.clock)
        self.disk = SimDisk(3)
        self.trace: list[str] = []
        self.failures: list[BaseException] = []

    async def start(self) -> None:
        self.store = WatchedStore(self.disk, self.trace)
        settings = engine_settings("ALPHA", directory_integrated=False, step_messages=10)
        self.manager = QueueManager(
            settings,
            self.store.recover().state,
            self.store.read,
            Random(1).randbytes,
            self.store.read_many,
        )
        driver = Driver(
            self.manager, self.store, lambda: (self.clock.now_ms, self.clock.utc_seconds)
        )
        self.manager.start(self.clock.now_ms, self.clock.utc_seconds)
        driver.end_turn()
        driver.sync()
        self.desk = Loop(driver, self.failures.append)
        self.desk.policy = QuickDisk()
        self.desk.start()
        await self.desk.run(lambda m: m.queues.create_queue(QUEUE, QueueProperties(), ADMIN))
        self.reader = await self.desk.run(
            lambda m: m.queues.open_queue(QUEUE, QueueAccessType.RECEIVE, ADMIN)
        )
        self.sender = await self.desk.run(
            lambda m: m.queues.open_queue(QUEUE, QueueAccessType.SEND, ADMIN)
        )
        await self.loop.quiet()
        self.trace.clear()

    def send(self, label: str) -> None:
        """One durable message; its answer goes to the trace."""
        message = Message(label=label, delivery_guarantee=DeliveryGuarantee.RECOVERABLE)
        self.desk.decide(
            lambda m: m.messages.enqueue_message_to_an_open_queue(self.sender, message),
            self.note(label),
        )

    def note(self, label: str) -> Callable[[Answer], None]:
        return lambda answer: self.trace.append(
            f"{label} answered" if answer.error is None else f"{label}: {answer.error.name}"
        )

    def count(self) -> None:
        """A call that changes nothing."""
        self.desk.decide(lambda m: m.machine.state, self.note("look"))

    def wait(self, timeout_ms: int | None, answers: list[Answer]) -> None:
        """A read that waits."""
        self.desk.decide(
            lambda m: m.messages.dequeue_message(
                self.reader, timeout_ms=timeout_ms, token=answers.append
            ),
            lambda answer: None,
        )


def on_loop(test: Callable[[Bench], Awaitable[None]]) -> Callable[[], None]:
    """Runs a test on simulated time; the loop is stopped behind it."""

    async def whole(bench: Bench) -> None:
        await bench.start()
        try:
            await test(bench)
        finally:
            bench.store.may_sync.set()
            await bench.desk.stop()

    def run_it() -> None:
        bench = Bench()
        run(bench.loop, whole(bench))

    run_it.__name__, run_it.__doc__ = test.__name__, test.__doc__
    return run_it


# -- append, sync, release


@on_loop
async def test_a_small_batch_is_synced_on_the_loop(bench: Bench) -> None:
    bench.send("one")
    assert bench.trace == []  # decided, and nothing else yet
    await bench.loop.quiet()
    assert bench.trace == ["append", "sync on the loop", "one answered"]


@on_loop
async def test_calls_of_one_round_share_a_turn_and_a_sync(bench: Bench) -> None:
    for label in ("one", "two", "three"):
        bench.loop.call_soon(bench.send, label)
    await bench.loop.quiet()
    assert bench.trace == [
        "append",
        "sync on the loop",
        "one answered",
        "two answered",
        "three answered",
    ]


@on_loop
async def test_what_joins_a_turn_shares_its_sync(bench: Bench) -> None:
    assert not bench.desk.join(lambda: bench.send("none"))  # no turn is open
    bench.send("one")
    assert bench.desk.join(lambda: bench.desk.join(lambda: bench.send("two")) and None)
    await bench.loop.quiet()
    assert bench.trace == ["append", "sync on the loop", "one answered", "two answered"]
    assert not bench.desk.join(lambda: bench.send("none"))


@on_loop
async def test_what_breaks_as_it_joins_a_turn_keeps_nothing_from_its_end(bench: Bench) -> None:
    told: list[BaseException] = []
    bench.loop.set_exception_handler(lambda loop, context: told.append(context["exception"]))
    bench.send("one")
    bench.desk.join(lambda: [][0])
    bench.desk.join(lambda: bench.send("two"))
    await bench.loop.quiet()
    assert bench.trace == ["append", "sync on the loop", "one answered", "two answered"]
    assert [type(error) for error in told] == [IndexError]
    assert not bench.failures


@on_loop
async def test_the_loop_tells_how_much_it_has_had_to_do(bench: Bench) -> None:
    begun = bench.desk.busy
    for label in ("one", "two"):
        bench.loop.call_soon(bench.send, label)
    await bench.loop.quiet()
    ended = bench.desk.busy
    assert ended.calls == begun.calls + 2
    assert ended.seconds > begun.seconds
    await bench.loop.quiet()
    assert bench.desk.busy == ended


@on_loop
async def test_a_large_batch_is_synced_in_the_thread_and_answered_after_it(bench: Bench) -> None:
    bench.store.hold()
    bench.send("one")
    await bench.loop.quiet()
    assert bench.store.sync_begun.wait(THREAD_S)
    assert bench.trace == ["append"]
    bench.store.may_sync.set()
    await bench.desk.run(lambda m: None)
    assert bench.trace == ["append", "sync on the thread", "one answered"]


@on_loop
async def test_what_comes_during_a_sync_waits_for_the_next_which_takes_all_of_it(
    bench: Bench,
) -> None:
    bench.store.hold()
    bench.send("one")
    await bench.loop.quiet()
    assert bench.store.sync_begun.wait(THREAD_S)
    for label in ("two", "three"):
        bench.send(label)
        await bench.loop.quiet()  # a turn of its own
    bench.count()  # even what changes nothing saw what is not durable yet
    await bench.loop.quiet()
    assert bench.trace == ["append", "append", "append"]
    bench.store.may_sync.set()
    await bench.desk.run(lambda m: None)
    assert bench.trace[3:] == [
        "sync on the thread",
        "one answered",
        "sync on the thread",
        "two answered",
        "three answered",
        "look answered",
    ]


@on_loop
async def test_a_turn_with_nothing_to_sync_answers_at_once(bench: Bench) -> None:
    bench.count()
    await bench.loop.quiet()
    assert bench.trace == ["look answered"]


@on_loop
async def test_a_refusal_is_an_answer(bench: Bench) -> None:
    with pytest.raises(QueueNotFound):
        await bench.desk.run(
            lambda m: m.queues.open_queue(r".\private$\none", QueueAccessType.SEND, ADMIN)
        )
    answer = await bench.desk.call(
        lambda m: m.queues.open_queue(r".\private$\none", QueueAccessType.SEND, ADMIN)
    )
    assert isinstance(answer.error, QueueNotFound)


@on_loop
async def test_an_answer_may_lead_to_the_next_call(bench: Bench) -> None:
    bench.desk.decide(lambda m: None, lambda answer: bench.send("next"))
    await bench.loop.quiet()
    assert bench.trace == ["append", "sync on the loop", "next answered"]


@on_loop
async def test_whoever_gives_up_waiting_for_an_answer_disturbs_nobody(bench: Bench) -> None:
    task = bench.loop.create_task(bench.desk.call(lambda m: None))
    bench.loop.call_soon(task.cancel)
    await bench.loop.quiet()
    bench.send("one")
    await bench.loop.quiet()
    assert bench.trace[-1] == "one answered"


@on_loop
async def test_a_door_that_breaks_over_its_answer_leaves_the_others_theirs(bench: Bench) -> None:
    told: list[object] = []
    bench.loop.set_exception_handler(lambda loop, context: told.append(context["exception"]))

    def broken(answer: Answer) -> None:
        raise ValueError("a mistake of ours")

    bench.desk.decide(lambda m: None, broken)
    bench.send("one")
    await bench.loop.quiet()
    assert bench.trace[-1] == "one answered"
    assert [str(error) for error in told] == ["a mistake of ours"]
    assert bench.failures == []


# -- timers


@on_loop
async def test_an_idle_loop_does_not_wake_up(bench: Bench) -> None:
    await bench.loop.pass_time(1)  # upkeep comes to its end
    turns, rounds = bench.desk.turns, bench.loop.selector.rounds
    await bench.loop.pass_time(86_400)
    assert bench.desk.turns == turns
    assert bench.loop.selector.rounds - rounds <= 3  # this test's own timer


@on_loop
async def test_a_waiting_read_costs_nothing_until_its_deadline(bench: Bench) -> None:
    answers: list[Answer] = []
    bench.wait(3_600_000, answers)
    await bench.loop.pass_time(1)
    turns, begun = bench.desk.turns, bench.clock.now_ms
    await bench.loop.pass_time(3598)
    assert (bench.desk.turns, answers) == (turns, [])
    await bench.loop.pass_time(1.001)
    (answer,) = answers
    assert isinstance(answer.error, IoTimeout)
    assert bench.desk.turns == turns + 1
    assert bench.clock.now_ms - begun < 3_600_000


@on_loop
async def test_an_earlier_deadline_is_kept_while_a_later_one_waits(bench: Bench) -> None:
    late: list[Answer] = []
    early: list[Answer] = []
    bench.wait(100_000, late)
    await bench.loop.quiet()
    bench.wait(1_000, early)
    await bench.loop.quiet()
    await bench.loop.pass_time(1.001)
    assert (len(early), len(late)) == (1, 0)
    await bench.loop.pass_time(99)
    assert (len(early), len(late)) == (1, 1)


@on_loop
async def test_a_timer_that_nobody_needs_any_more_is_taken_back(bench: Bench) -> None:
    answers: list[Answer] = []
    bench.wait(1_000_000, answers)
    await bench.loop.quiet()
    bench.send("one")
    await bench.loop.pass_time(1)
    assert len(answers) == 1
    rounds = bench.loop.selector.rounds
    await bench.loop.pass_time(10_000)
    assert bench.loop.selector.rounds - rounds <= 3


@on_loop
async def test_a_waiting_read_is_answered_when_the_message_is_durable(bench: Bench) -> None:
    answers: list[Answer] = []
    bench.wait(None, answers)
    await bench.loop.quiet()
    bench.store.hold()
    bench.send("one")
    await bench.loop.quiet()
    assert bench.store.sync_begun.wait(THREAD_S)
    assert answers == []
    bench.store.may_sync.set()
    await bench.desk.run(lambda m: None)
    assert len(answers[0].packets) == 1


@on_loop
async def test_a_purge_of_many_steps_ends_without_being_pushed(bench: Bench) -> None:
    for number in range(100):
        bench.send(str(number))
    await bench.loop.quiet()
    turns = bench.desk.turns
    assert await bench.desk.run(lambda m: m.queues.purge_queue(bench.reader)) == 100
    assert bench.desk.turns - turns >= 10
    assert bench.manager.queues.local_queue(PATH).state.count == 0


# -- upkeep


@on_loop
async def test_upkeep_follows_a_turn_and_ends(bench: Bench) -> None:
    await bench.loop.pass_time(1)
    tidied = bench.store.tidied
    bench.send("one")
    await bench.loop.pass_time(1)
    assert bench.store.tidied > tidied
    tidied = bench.store.tidied
    await bench.loop.pass_time(1000)
    assert bench.store.tidied == tidied


@on_loop
async def test_upkeep_gets_its_turn_among_calls_that_follow_each_other_at_once(
    bench: Bench,
) -> None:
    done = bench.loop.create_future()
    left = 50

    def again(answer: Answer) -> None:
        nonlocal left
        left -= 1
        bench.clock.advance(5)
        if left:
            bench.desk.decide(lambda m: None, again)
        else:
            done.set_result(None)

    tidied = bench.store.tidied
    again(Answer(None, None, ()))
    await done
    assert bench.store.tidied - tidied >= 40


@on_loop
async def test_every_sync_is_counted_wherever_it_runs(bench: Bench) -> None:
    before = sum(bench.desk.sync_times.counts)
    bench.send("one")
    await bench.loop.quiet()
    assert sum(bench.desk.sync_times.counts) == before + 1
    assert bench.desk.policy.average_s >= 0


@on_loop
async def test_small_turns_share_their_upkeep(bench: Bench) -> None:
    tidied = bench.store.tidied
    for number in range(50):
        bench.send(str(number))
        await bench.loop.quiet()
    assert bench.store.tidied - tidied <= 1
    await bench.loop.pass_time(1)
    assert bench.store.tidied - tidied >= 1


# -- the end


@on_loop
async def test_damaged_bytes_are_their_senders_fault_only(bench: Bench) -> None:
    def damaged(manager: QueueManager) -> object:
        raise RemoteProtocolError("no packet")

    with pytest.raises(RemoteProtocolError):
        bench.desk.decide(damaged, bench.note("bad"))
    bench.send("one")
    await bench.loop.quiet()
    assert bench.trace[-1] == "one answered"
    assert bench.failures == []


@on_loop
async def test_a_call_that_breaks_off_ends_everything(bench: Bench) -> None:
    def broken(manager: QueueManager) -> object:
        raise KeyError("a mistake of ours")

    bench.send("before")
    with pytest.raises(KeyError):
        bench.desk.decide(broken, bench.note("bad"))
    await bench.loop.quiet()
    assert bench.trace == []  # the turn is half decided: nothing of it may be kept or told
    assert isinstance(bench.failures[0], KeyError)
    with pytest.raises(ServiceNotAvailable):
        bench.count()
    assert len(bench.failures) == 1


@pytest.mark.parametrize("batch", [0, QUICK_BATCH])
def test_a_failed_sync_ends_everything_and_answers_nobody(batch: int) -> None:
    async def failing(bench: Bench) -> None:
        bench.store.batch = batch
        bench.disk.fail_at(1, "sync")
        bench.send("one")
        while not bench.failures:
            await bench.loop.quiet()
        assert isinstance(bench.failures[0], StoreFailed)
        assert bench.trace == ["append"]
        with pytest.raises(ServiceNotAvailable):
            await bench.desk.run(lambda m: None)

    on_loop(failing)()


@on_loop
async def test_failed_upkeep_ends_everything(bench: Bench) -> None:
    bench.store.fail_tidy = True
    bench.send("one")
    await bench.loop.pass_time(1)
    assert isinstance(bench.failures[0], StoreFailed)
    with pytest.raises(ServiceNotAvailable):
        bench.count()


@on_loop
async def test_waits_can_be_cancelled_while_the_rest_goes_on(bench: Bench) -> None:
    answers: list[Answer] = []
    bench.wait(None, answers)
    bench.desk.cancel_waits()
    await bench.loop.quiet()
    assert isinstance(answers[0].error, OperationCancelled)
    bench.send("one")
    await bench.loop.quiet()
    assert bench.trace[-1] == "one answered"


@on_loop
async def test_a_stop_answers_what_was_decided_and_keeps_it(bench: Bench) -> None:
    answers: list[Answer] = []
    bench.wait(None, answers)
    await bench.loop.quiet()
    bench.store.hold()
    other = bench.desk.run(lambda m: None)
    bench.desk.decide(
        lambda m: m.messages.cancel_reads_of(bench.reader, OperationCancelled("x")), id
    )
    bench.send("one")
    await bench.loop.quiet()
    assert bench.store.sync_begun.wait(THREAD_S)
    bench.send("two")
    bench.loop.call_soon(bench.store.may_sync.set)
    await bench.desk.stop()
    assert [line for line in bench.trace if "answered" in line] == ["one answered", "two answered"]
    assert len(answers) == 1
    with pytest.raises(ServiceNotAvailable):
        await other
    again = LogStore(bench.disk, StoreSettings())
    recovered = again.recover()
    assert recovered.clean
    assert len(recovered.state.table) == 2


# -- where syncs run


@on_loop
async def test_a_stop_takes_along_what_answers_lead_to(bench: Bench) -> None:
    bench.store.hold()
    bench.send("one")
    bench.desk.decide(lambda m: None, lambda answer: bench.send("two"))
    await bench.loop.quiet()
    assert bench.store.sync_begun.wait(THREAD_S)
    bench.loop.call_soon(bench.store.may_sync.set)
    await bench.desk.stop()
    assert [line for line in bench.trace if "answered" in line] == ["one answered", "two answered"]
    recovered = LogStore(bench.disk, StoreSettings()).recover()
    assert recovered.clean
    assert len(recovered.state.table) == 2


@on_loop
async def test_a_door_that_breaks_over_the_last_answers_does_not_spoil_the_stop(
    bench: Bench,
) -> None:
    """A session that begins its next request when the wait in front of it ends is too late."""
    faults: list[object] = []
    bench.loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))
    answers: list[Answer] = []
    bench.desk.decide(
        lambda m: m.messages.dequeue_message(bench.reader, token=lambda answer: bench.send("late")),
        id,
    )
    bench.wait(None, answers)
    await bench.desk.stop()
    assert [type(fault) for fault in faults] == [ServiceNotAvailable]
    assert [type(answer.error) for answer in answers] == [OperationCancelled]
    assert LogStore(bench.disk, StoreSettings()).recover().clean


def test_syncs_leave_the_loop_at_once_and_come_back_after_a_while() -> None:
    policy = SyncPolicy()
    assert policy.inline(100)
    assert not policy.inline(QUICK_BATCH)
    back = [policy.inline(100) for _ in range(CALM_SYNCS)]
    assert back == [False] * (CALM_SYNCS - 1) + [True]


def test_a_quick_disk_syncs_on_the_loop_what_is_not_large() -> None:
    policy = SyncPolicy()
    for _ in range(100):
        assert policy.inline(QUICK_BATCH - 1)
        policy.note(QUICK_SYNC_S / 2)


def test_a_transaction_of_a_hundred_messages_is_synced_on_the_loop_where_that_is_quick() -> None:
    policy = SyncPolicy()
    for _ in range(100):
        assert policy.inline(100 * 1500)  # 1 KiB each, with headers
        policy.note(QUICK_SYNC_S / 2)


def test_a_disk_that_is_not_quick_syncs_on_the_loop_what_is_small() -> None:
    policy = SyncPolicy()
    for _ in range(100):
        policy.note(2 * QUICK_SYNC_S)
    assert all(policy.inline(INLINE_BATCH - 1) for _ in range(100))
    assert not policy.inline(INLINE_BATCH)


def test_a_disk_that_became_quick_is_found_out_by_trial() -> None:
    policy = SyncPolicy()
    for _ in range(100):
        policy.note(2 * QUICK_SYNC_S)
    assert not any(policy.inline(INLINE_BATCH) for _ in range(TRIAL_EVERY))
    for _ in range(TRIAL_SYNCS + 1):
        assert policy.inline(INLINE_BATCH)
        policy.note(QUICK_SYNC_S / 10)
    assert all(policy.inline(INLINE_BATCH) for _ in range(100))


def test_a_trial_that_fails_is_over_soon() -> None:
    policy = SyncPolicy()
    for _ in range(100):
        policy.note(2 * QUICK_SYNC_S)
    where = [policy.inline(INLINE_BATCH) for _ in range(TRIAL_EVERY + TRIAL_SYNCS + 3)]
    assert where.count(True) == TRIAL_SYNCS + 1
    assert not where[-1]


def test_a_slow_disk_is_left_to_the_thread() -> None:
    policy = SyncPolicy()
    for _ in range(20):
        policy.note(2 * INLINE_SYNC_S)
    assert not any(policy.inline(1) for _ in range(100))
    for _ in range(50):
        policy.note(INLINE_SYNC_S / 10)
    assert [policy.inline(1) for _ in range(CALM_SYNCS)][-1]


def test_one_slow_sync_among_quick_ones_is_remembered_for_a_while() -> None:
    policy = SyncPolicy()
    policy.note(0.05)
    assert not policy.inline(1)


@on_loop
async def test_a_session_may_end_after_the_queue_manager(bench: Bench) -> None:
    session = ClientSession(bench.desk, Caller.administrator(), "administer", lambda frames: None)
    await bench.desk.stop()
    session.lost()
    assert session.closed
