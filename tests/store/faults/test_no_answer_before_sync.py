"""No positive answer before its sync, for every operation of the engine.

At the moment the driver lets an answer out the machine loses its power and everything that was
not synced. What the answer said must hold on what is left. The same check is run on a driver that
does not wait: there it must fail, for every operation.
"""

from __future__ import annotations

import inspect

import pytest

from posthouse.engine.directory.facade import DirectoryFacade
from posthouse.engine.machine.facade import MachineFacade
from posthouse.engine.manager import QueueManager
from posthouse.engine.messages.facade import MessagesFacade
from posthouse.engine.queues.facade import QueuesFacade
from posthouse.engine.transactions.facade import TransactionsFacade
from posthouse.engine.transfer.facade import TransferFacade
from posthouse.engine.transfer.outgoing_cursor import OutgoingCursor
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.properties import QueueProperties
from posthouse.runtime.driver import Answer
from posthouse.sim import SimDisk
from posthouse.store.errors import StoreFailed
from tests.engine.rig import PEEK, RECEIVE
from tests.store.faults.harness import check
from tests.store.faults.operations import LATE, OPERATIONS, Operation, Scene, recoverable
from tests.store.faults.script import ABROAD
from tests.store.faults.stagings import STAGINGS
from tests.store.faults.transfers import TRANSFERS
from tests.store.faults.world import WatchedDriver, World
from tests.support.hasty_driver import HastyDriver, outcome

# What runs the engine, and is not an operation of a caller.
MACHINERY = {
    "begin_turn",
    "deadline_moved",
    "earliest_deadlines",
    "next_deadline_ms",
    "noted_deadline_ms",
    "start",
    "stop",
    "take_begun",
    "take_effects",
}
# Calls on queues and messages that change nothing durable.
LOOKS = {
    "check_rights_of_now",
    "move_reason",
    "fetch_together",
    "addressed",
    "after",
    "all",
    "books_apart",
    "bytes_ahead",
    "cancel_all_reads",
    "cancel_reads_of",
    "check_admission",
    "check_move",
    "claimed_messages",
    "cursor",
    "find_local",
    "find_outgoing",
    "find_row",
    "first",
    "first_and_last",
    "highest_priority",
    "in_order",
    "is_locked",
    "local_queue",
    "met",
    "met_by_upkeep",
    "multicast_addresses",
    "nothing_to_read",
    "oldest_age_s",
    "outgoing_queues",
    "own_hosts",
    "packet",
    "packet_read",
    "packets_read",
    "purgeable",
    "read_of",
    "refused_names",
    "require",
    "seek_by_lookup_id",
    "set_interfaces",
    "size_ahead",
    "size_by_lookup_identifier",
    "state",
    "states",
    "why_empty",
    "would_open",
}


@pytest.mark.spec(
    "MS-MQDMPR 3.1.4.3/5",
    "MS-MQDMPR 3.1.4.4/7",
    "MS-MQDMPR 3.1.4.7/1",
    "MS-MQDMPR 3.1.7.1.3/14",
    "MS-MQDMPR 3.1.7.1.4/3",
    "MS-MQDMPR 3.1.7.1.9/11",
    "MS-MQDMPR 3.1.7.1.16/1",
    "MS-MQDMPR 3.1.7.2.1/2",
)
@pytest.mark.parametrize("operation", OPERATIONS + TRANSFERS + STAGINGS, ids=str)
def test_an_answer_comes_when_what_it_says_is_durable(operation: Operation) -> None:
    found = outcome(operation, WatchedDriver)
    assert not found.before_sync
    assert found.kept == found.decided
    assert found.holds


@pytest.mark.parametrize("operation", OPERATIONS + TRANSFERS + STAGINGS, ids=str)
def test_a_driver_that_does_not_wait_would_be_noticed(operation: Operation) -> None:
    found = outcome(operation, HastyDriver)
    assert found.before_sync
    assert found.kept < found.decided
    assert not found.holds or operation.holds is None


def methods_of(*classes: type) -> set[str]:
    found = (name for each in classes for name, _ in inspect.getmembers(each, inspect.isfunction))
    return {name for name in found if not name.startswith("_")}


def test_every_operation_of_the_engine_is_among_them() -> None:
    known = {each.name for each in OPERATIONS if "." not in each.name}
    operations = methods_of(QueueManager, QueuesFacade, MessagesFacade)
    assert operations - MACHINERY - LOOKS <= known
    assert known <= operations | methods_of(
        TransactionsFacade, TransferFacade, MachineFacade, DirectoryFacade
    )


def test_everything_that_sessions_ask_of_senders_is_among_them() -> None:
    methods = {n for n, _ in inspect.getmembers(OutgoingCursor, inspect.isfunction) if n[0] != "_"}
    assert {f"Sender.{name}" for name in methods} <= {operation.name for operation in TRANSFERS}


@pytest.mark.parametrize("driver", [WatchedDriver, HastyDriver])
@pytest.mark.parametrize(
    ("method", "options"),
    [("dequeue_message", {}), ("peek_message", {}), ("dequeue_message", {"two_phase": True})],
)
def test_a_woken_reader_gets_his_message_when_it_is_durable(
    method: str, options: dict[str, bool], driver: type[WatchedDriver]
) -> None:
    world = World(SimDisk(), driver=driver).start()
    scene = Scene(world)
    kept: list[tuple[int, int]] = []

    def woken(answer: Answer) -> None:
        after = check(world.disk.clone().crash("nothing"), world.witness.now())
        assert answer.error is None
        assert LATE in answer.packets[0]
        kept.append((after.kept, world.witness.written))

    world.run(lambda m: getattr(m.messages, method)(scene.reading, token=woken, **options))
    if isinstance(world.driver, HastyDriver):
        world.driver.hasty = True
    scene.earlier()
    world.driver.sync()
    world.driver.release()
    ((found, decided),) = kept
    assert (found < decided) == (driver is HastyDriver)


@pytest.mark.parametrize("driver", [WatchedDriver, HastyDriver])
def test_protocols_hear_of_a_message_when_it_is_durable(driver: type[WatchedDriver]) -> None:
    """Sessions send what `on_active` names: nothing may travel that a crash could take back."""
    world = World(SimDisk(), driver=driver).start()
    scene = Scene(world)
    target = world.open(ABROAD)
    kept: list[tuple[int, int]] = []

    def active(queues: set[int]) -> None:
        assert scene.abroad.number in queues
        after = check(world.disk.clone().crash("nothing"), world.witness.now())
        kept.append((after.kept, world.witness.written))

    world.driver.on_active = active
    if isinstance(world.driver, HastyDriver):
        world.driver.hasty = True
    world.driver.begin_turn()
    world.driver.decide(
        lambda m: m.messages.enqueue_message_to_an_open_queue(target, recoverable(b"far")),
        lambda answer: None,
    )
    world.driver.end_turn()
    world.driver.sync()
    world.driver.release()
    ((found, decided),) = kept
    assert (found < decided) == (driver is HastyDriver)


def test_what_is_appended_during_a_sync_waits_for_the_next() -> None:
    """The writer thread syncs while the loop goes on: it may call durable only what it began with.

    The group that arrives meanwhile is appended right after a file was synced, again and again, so
    that it also begins new segments behind the back of the sync.
    """
    world = World(SimDisk()).start()
    world.create("plain")
    target, disk = world.open("plain"), world.disk
    released: list[str] = []

    def turn(name: str) -> None:
        message = recoverable(name.encode().ljust(400, b"."))
        world.driver.begin_turn()
        world.driver.decide(
            lambda m: m.messages.enqueue_message_to_an_open_queue(target, message),
            lambda answer: released.append(name),
        )
        world.driver.end_turn()

    for number in range(40):
        meanwhile = iter([f"meanwhile {number}"])

        def arrive(operation: object, meanwhile: object = meanwhile) -> None:
            for name in meanwhile:  # type: ignore[attr-defined]
                turn(name)
                world.driver.tidy()

        turn(f"first {number}")
        disk.on_operation = arrive
        world.driver.sync()
        disk.on_operation = None
        world.driver.release()
        assert released == [f"first {number}"]
        check(disk.clone().crash("nothing"), world.witness.now())
        world.driver.sync()
        world.driver.release()
        assert released == [f"first {number}", f"meanwhile {number}"]
        check(disk.clone().crash("nothing"), world.witness.now())
        released.clear()
    assert len(world.store.ledger.segments) > 5


def test_a_failed_sync_lets_nothing_out() -> None:
    world = World(SimDisk()).start()
    scene = Scene(world)
    answers: list[Answer] = []
    scene.earlier()
    world.driver.begin_turn()
    world.driver.decide(
        lambda m: m.messages.peek_message(scene.reading, timeout_ms=0), answers.append
    )
    world.driver.end_turn()
    world.disk.fail_at(1, "sync")
    with pytest.raises(StoreFailed):
        world.driver.sync()
    assert world.driver.release() == 0
    assert answers == []
    with pytest.raises(StoreFailed):
        world.store.sync()
    assert world.driver.release() == 0


def test_an_express_message_waits_for_nobody_unless_something_waits_in_front_of_it() -> None:
    """Design: it has no position of its own, and is shown at once."""
    world = World(SimDisk()).start()
    scene = Scene(world)
    answers: list[Answer] = []
    express = Message(body=b"express", delivery_guarantee=DeliveryGuarantee.EXPRESS)

    def send_and_peek() -> None:
        world.driver.begin_turn()
        world.driver.decide(
            lambda m: m.messages.enqueue_message_to_an_open_queue(scene.sending, express),
            answers.append,
        )
        world.driver.decide(
            lambda m: m.messages.peek_message(scene.reading, timeout_ms=0), answers.append
        )
        world.driver.end_turn()
        world.driver.release()

    syncs = world.disk.calls["sync"]
    send_and_peek()
    assert len(answers) == 2
    assert world.disk.calls["sync"] == syncs
    scene.earlier()
    send_and_peek()
    assert len(answers) == 2
    world.driver.sync()
    world.driver.release()
    assert len(answers) == 4


def test_a_refusal_waits_too() -> None:
    """It tells what the engine saw: here that a queue exists which is not yet durable."""
    world = World(SimDisk()).start()
    scene = Scene(world)
    refusals: list[Answer] = []
    scene.earlier()
    world.driver.begin_turn()
    world.driver.decide(
        lambda m: m.queues.create_queue(".\\private$\\fresh", QueueProperties(), world.admin),
        refusals.append,
    )
    world.driver.end_turn()
    assert world.driver.release() == 0
    assert refusals == []
    world.driver.sync()
    world.driver.release()
    assert refusals[0].error is not None


def test_the_readers_of_a_stopping_queue_manager_are_told_when_all_is_durable() -> None:
    world = World(SimDisk()).start()
    scene = Scene(world)
    told: list[bool] = []
    world.wait(world.open("answers", PEEK))
    source = world.open("answers", RECEIVE)
    world.run(
        lambda m: m.messages.dequeue_message(
            source, token=lambda answer: told.append(world.store.synced == world.store.appended)
        )
    )
    scene.earlier()
    world.driver.close()
    assert told == [True]
