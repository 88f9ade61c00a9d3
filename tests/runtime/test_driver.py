"""The driver: append, sync, then let out. On a simulated disk that forgets what was not synced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from threading import Thread
from typing import Any, TypeVar

import pytest

from posthouse.engine.ledger.effects import Event, Read
from posthouse.engine.ledger.records import FLAG_EXPRESS, FLAG_REMOTE
from posthouse.engine.ledger.state import State
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import (
    IoTimeout,
    MachineQuotaExceeded,
    OperationCancelled,
    QueueNotFound,
    RemoteProtocolError,
    ServiceNotAvailable,
)
from posthouse.model.message import (
    NACK_RECEIVE_REJECTED,
    DeliveryGuarantee,
    Message,
    MessageId,
    TxSequenceId,
)
from posthouse.model.properties import QueueProperties
from posthouse.runtime.driver import Answer, Driver
from posthouse.security.access import Caller
from posthouse.sim import SimClock, SimDisk
from posthouse.store.errors import StoreFailed
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from posthouse.wire.packet.message import deserialize, serialize

T = TypeVar("T")
ORDERS, PLAIN, POISON = r".\private$\orders", r".\private$\plain", r".\private$\orders;poison"
ELSEWHERE = r"DIRECT=OS:beta\private$\orders"
SEND, RECEIVE, PEEK, MOVE = (
    QueueAccessType.SEND,
    QueueAccessType.RECEIVE,
    QueueAccessType.PEEK,
    QueueAccessType.MOVE,
)


def picture(state: State) -> dict[str, object]:
    """What has to survive a loss of power."""
    return {
        "rows": {n: row for n, row in state.table.items() if not row.flags & FLAG_EXPRESS},
        "extras": dict(state.extras),
        "definitions": dict(state.definitions),
    }


class Bench:
    """A queue manager on a simulated disk, with a transactional and a plain queue."""

    def __init__(self) -> None:
        self.disk = SimDisk(7)
        self.clock = SimClock()
        self.store = LogStore(self.disk, StoreSettings())
        settings = EngineSettings("ALPHA")
        chance = Random(1)
        self.manager = QueueManager(
            replace(settings),
            self.store.recover().state,
            self.store.read,
            chance.randbytes,
            self.store.read_many,
        )
        self.manager.start(self.clock.now_ms, self.clock.utc_seconds)
        self.driver = Driver(
            self.manager, self.store, lambda: (self.clock.now_ms, self.clock.utc_seconds)
        )
        self.admin = Caller.administrator()
        self.out: list[Any] = []
        self.run(
            lambda m: m.queues.create_queue(ORDERS, QueueProperties(transactional=True), self.admin)
        )
        self.run(lambda m: m.queues.create_queue(PLAIN, QueueProperties(), self.admin))

    def run(self, call: Callable[[QueueManager], T]) -> T:
        return self.driver.run(call)

    def open(self, name: str, access: QueueAccessType) -> OpenQueueDescriptor:
        return self.run(lambda m: m.queues.open_queue(name, access, self.admin))

    def open_now(self, m: QueueManager) -> OpenQueueDescriptor:
        return m.queues.open_queue(PLAIN, RECEIVE, self.admin)

    def message(self, body: bytes = b"body", **attributes: Any) -> Message:
        return Message(body=body, delivery_guarantee=DeliveryGuarantee.RECOVERABLE, **attributes)

    def transaction(self, name: bytes) -> bytes:
        identifier = name.ljust(16, b".")
        self.run(lambda m: m.transactions.create_transaction(identifier))
        return identifier

    def send(self, body: bytes = b"body", **attributes: Any) -> None:
        sender = self.open(PLAIN, SEND)
        message = self.message(body, **attributes)
        self.run(lambda m: m.messages.enqueue_message_to_an_open_queue(sender, message))

    def send_in_transaction(self, *bodies: bytes) -> None:
        identifier, sender = self.transaction(b"fill"), self.open(ORDERS, SEND)
        transaction = self.manager.transactions.find(identifier)
        for body in bodies:
            message = self.message(body)
            self.run(
                lambda m, message=message: m.messages.enqueue_message_to_an_open_queue(  # type: ignore[misc]
                    sender, message, transaction
                )
            )
        self.run(lambda m: m.transactions.transaction_commit(identifier))

    def turn(self, *calls: Callable[[QueueManager], object]) -> None:
        """A turn of these calls, appended and not synced; their answers go to `out`."""
        self.driver.begin_turn()
        for call in calls:
            self.driver.decide(call, self.out.append)
        self.driver.end_turn()

    def durable(self) -> dict[str, object]:
        """What a process would find if the power failed now."""
        return picture(
            LogStore(self.disk.clone().crash("nothing"), StoreSettings()).recover().state
        )

    def live(self) -> dict[str, object]:
        return picture(self.manager.ledger.state)

    def lookup_id(self, name: str) -> int:
        found = self.manager.messages.first(self.manager.queues._local(name))
        assert found is not None
        return found[0].lookup_id


# -- every operation

Prepare = Callable[[Bench], Callable[[QueueManager], object]]


def _create(bench: Bench) -> Callable[[QueueManager], object]:
    return lambda m: m.queues.create_queue(r".\private$\new", QueueProperties(), bench.admin)


def _delete(bench: Bench) -> Callable[[QueueManager], object]:
    bench.send()
    return lambda m: m.queues.delete_queue(PLAIN, bench.admin)


def _set(bench: Bench) -> Callable[[QueueManager], object]:
    return lambda m: m.queues.set_queue(PLAIN, bench.admin, label="new")


def _open_outgoing(bench: Bench) -> Callable[[QueueManager], object]:
    return lambda m: m.queues.open_queue(ELSEWHERE, SEND, bench.admin)


def _send(bench: Bench) -> Callable[[QueueManager], object]:
    sender = bench.open(PLAIN, SEND)
    return lambda m: m.messages.enqueue_message_to_an_open_queue(sender, bench.message())


def _receive(bench: Bench) -> Callable[[QueueManager], object]:
    bench.send()
    reader = bench.open(PLAIN, RECEIVE)
    return lambda m: m.messages.dequeue_message(reader)


def _receive_many(bench: Bench) -> Callable[[QueueManager], object]:
    bench.send()
    bench.send()
    reader = bench.open(PLAIN, RECEIVE)
    return lambda m: m.messages.dequeue_messages(reader, 5)


def _lookup(bench: Bench) -> Callable[[QueueManager], object]:
    bench.send()
    reader, lookup_id = bench.open(PLAIN, RECEIVE), bench.lookup_id(PLAIN)
    return lambda m: m.messages.read_message_by_lookup_identifier(reader, lookup_id, peek=False)


def _held(bench: Bench) -> tuple[OpenQueueDescriptor, int]:
    bench.send(negative_journaling_requested=True)
    reader, lookup_id = bench.open(PLAIN, RECEIVE), bench.lookup_id(PLAIN)
    bench.run(lambda m: m.messages.dequeue_message(reader, two_phase=True))
    return reader, lookup_id


def _end(bench: Bench) -> Callable[[QueueManager], object]:
    reader, lookup_id = _held(bench)
    return lambda m: m.messages.dequeue_message_end(reader, lookup_id, positive=True)


def _reject(bench: Bench) -> Callable[[QueueManager], object]:
    reader, lookup_id = _held(bench)
    return lambda m: m.messages.dequeue_message_end(
        reader, lookup_id, positive=True, message_class=NACK_RECEIVE_REJECTED
    )


def _purge(bench: Bench) -> Callable[[QueueManager], object]:
    reader, _ = _held(bench)
    return lambda m: m.queues.purge_queue(reader)


def _move(bench: Bench) -> Callable[[QueueManager], object]:
    bench.send_in_transaction(b"a")
    source, target = bench.open(ORDERS, RECEIVE), bench.open(POISON, MOVE)
    lookup_id = bench.lookup_id(ORDERS)
    return lambda m: m.messages.move_message(source, lookup_id, target)


def _full_transaction(bench: Bench) -> bytes:
    bench.send_in_transaction(b"a", b"b")
    identifier = bench.transaction(b"full")
    transaction = bench.manager.transactions.find(identifier)
    sender, reader = bench.open(ORDERS, SEND), bench.open(ORDERS, RECEIVE)
    target = bench.open(POISON, MOVE)
    bench.run(
        lambda m: m.messages.enqueue_message_to_an_open_queue(sender, bench.message(), transaction)
    )
    bench.run(lambda m: m.messages.dequeue_message(reader, transaction=transaction))
    lookup_id = bench.lookup_id(ORDERS)
    bench.run(lambda m: m.messages.move_message(reader, lookup_id, target, transaction))
    return identifier


def _commit(bench: Bench) -> Callable[[QueueManager], object]:
    identifier = _full_transaction(bench)
    return lambda m: m.transactions.transaction_commit(identifier)


def _abort(bench: Bench) -> Callable[[QueueManager], object]:
    identifier = _full_transaction(bench)
    return lambda m: m.transactions.transaction_abort(identifier)


def _prepare(bench: Bench) -> Callable[[QueueManager], object]:
    identifier = _full_transaction(bench)
    return lambda m: m.transactions.collection.prepare(identifier, single_phase=False)


OPERATIONS: list[Prepare] = [
    _create,
    _delete,
    _set,
    _open_outgoing,
    _send,
    _receive,
    _receive_many,
    _lookup,
    _end,
    _reject,
    _purge,
    _move,
    _commit,
    _abort,
    _prepare,
]


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/14")
@pytest.mark.parametrize("prepare", OPERATIONS)
def test_no_answer_leaves_before_its_operation_survives_a_loss_of_power(prepare: Prepare) -> None:
    bench = Bench()
    call = prepare(bench)
    before = bench.durable()
    assert before == bench.live()
    bench.turn(call)
    assert bench.driver.release() == 0
    assert bench.out == []
    assert bench.live() != before
    assert bench.durable() == before
    bench.driver.sync()
    assert bench.durable() == bench.live()
    assert bench.out == []
    assert bench.driver.release() == 1
    (answer,) = bench.out
    assert answer.error is None
    assert bench.driver.waiting_answers == 0


def test_a_timer_of_the_engine_is_no_shorter_way() -> None:
    bench = Bench()
    bench.send(time_to_be_received=5, negative_journaling_requested=True)
    reader = bench.open(r".\system$;deadletter", RECEIVE)
    bench.turn(lambda m: m.messages.peek_message(reader, token=bench.out.append))
    bench.driver.sync()
    bench.driver.release()
    bench.out.clear()
    bench.clock.advance(5000)
    bench.turn()
    assert bench.driver.release() == 0
    bench.driver.sync()
    assert bench.driver.release() == 1
    assert deserialize(bench.out[0].packets[0]).body == b"body"


# -- what is held


def test_answers_leave_in_the_order_of_the_decisions_as_far_as_the_log_is_synced() -> None:
    bench = Bench()
    sender = bench.open(PLAIN, SEND)

    def send(text: bytes) -> Callable[[QueueManager], object]:
        def call(m: QueueManager) -> bytes:
            m.messages.enqueue_message_to_an_open_queue(sender, bench.message(text))
            return text

        return call

    bench.turn(send(b"1"), send(b"2"))
    bench.turn(send(b"3"))
    assert bench.driver.waiting_answers == 3
    bench.driver.begin_turn()
    assert bench.driver.end_turn() == bench.store.appended > bench.store.synced
    bench.driver.sync()
    bench.turn(send(b"4"), send(b"5"))
    assert bench.driver.release() == 3
    assert [answer.value for answer in bench.out] == [b"1", b"2", b"3"]
    bench.driver.sync()
    assert bench.driver.release() == 2
    assert [answer.value for answer in bench.out] == [b"1", b"2", b"3", b"4", b"5"]


def test_a_peek_does_not_show_what_is_not_durable() -> None:
    bench = Bench()
    call, reader = _send(bench), bench.open(PLAIN, PEEK)
    bench.turn(call, lambda m: m.messages.peek_message(reader))
    assert bench.driver.release() == 0
    bench.driver.sync()
    bench.driver.release()
    assert isinstance(bench.out[1].value, Read)
    assert deserialize(bench.out[1].packets[0]).body == b"body"


def test_refusals_are_held_as_well() -> None:
    """An empty queue is a fact too: the receive that emptied it may not have happened."""
    bench = Bench()
    receive, reader = _receive(bench), bench.open(PLAIN, RECEIVE)
    bench.turn(receive, lambda m: m.messages.dequeue_message(reader, timeout_ms=0))
    bench.turn(lambda m: m.queues.open_queue(r".\private$\unknown", RECEIVE, bench.admin))
    assert bench.driver.release() == 0
    bench.driver.sync()
    assert bench.driver.release() == 3
    assert [type(answer.error) for answer in bench.out[1:]] == [IoTimeout, QueueNotFound]
    refusals = bench.manager.machine.refusals
    assert refusals["MQ_ERROR_IO_TIMEOUT"] == refusals["MQ_ERROR_QUEUE_NOT_FOUND"] == 1


def test_a_refusal_that_rests_on_durable_facts_leaves_at_once() -> None:
    bench = Bench()
    bench.turn(lambda m: m.queues.open_queue(r".\private$\unknown", RECEIVE, bench.admin))
    assert bench.driver.release() == 1


def test_wakes_are_held_and_come_behind_the_answers_of_their_turn() -> None:
    bench = Bench()
    readers = [bench.open(PLAIN, RECEIVE) for _ in range(2)]
    for name, reader in zip("ab", readers, strict=True):
        bench.turn(
            lambda m, name=name, reader=reader: m.messages.dequeue_message(  # type: ignore[misc]
                reader, token=lambda answer: bench.out.append((name, answer))
            )
        )
    bench.driver.sync()
    bench.driver.release()
    bench.out.clear()
    sender = bench.open(PLAIN, SEND)
    bench.turn(
        *(
            lambda m, text=text: m.messages.enqueue_message_to_an_open_queue(
                sender, bench.message(text)
            )
            for text in (b"1", b"2")
        )
    )
    assert bench.driver.release() == 0
    bench.driver.sync()
    assert bench.driver.release() == 4
    assert [isinstance(item, Answer) for item in bench.out] == [True, True, False, False]
    woken = [(name, deserialize(answer.packets[0]).body) for name, answer in bench.out[2:]]
    assert woken == [("a", b"1"), ("b", b"2")]


def test_what_protocols_may_do_and_the_log_lines_are_held_too() -> None:
    bench = Bench()
    seen: list[object] = []
    bench.driver.on_active = lambda queues: seen.append(("active", len(queues)))
    bench.driver.on_event = lambda event: seen.append(event.name)
    sender = bench.open(ELSEWHERE, SEND)
    bench.clock.step_utc(1000)
    bench.turn(lambda m: m.messages.enqueue_message_to_an_open_queue(sender, bench.message()))
    assert bench.driver.release() == 0
    assert seen == []
    bench.driver.sync()
    bench.driver.release()
    assert seen == ["clock_step", ("active", 1)]


def test_what_is_owed_to_another_machine_is_held_too() -> None:
    bench = Bench()
    told: list[int] = []
    bench.driver.on_active = lambda queues: told.append(len(queues))
    message = bench.message(negative_journaling_requested=True)
    message.transaction_identifier = 7
    message.sent_time = bench.clock.utc_seconds
    message.transactional_message_sequence_identifier = TxSequenceId(1, 1)
    message.transaction_sequence_number = 1
    message.identifier = MessageId(bytes(range(16)), 1)
    message.destination_queue_format_name = r"DIRECT=OS:ALPHA\private$\orders"
    packet, queue = serialize(message), bench.manager.queues._local(ORDERS)
    bench.run(lambda m: m.messages.sending.enqueue(queue, packet, flags=FLAG_REMOTE))
    reader = bench.open(ORDERS, RECEIVE)
    bench.turn(lambda m: m.messages.dequeue_message(reader))
    bench.driver.release()
    assert told == []
    bench.driver.sync()
    bench.driver.release()
    assert told == [1]  # a final acknowledgment waits to be sent


def test_an_express_message_is_shown_once_what_was_before_it_is_durable() -> None:
    bench = Bench()
    sender, reader = bench.open(PLAIN, SEND), bench.open(PLAIN, RECEIVE)
    bench.run(
        lambda m: m.messages.enqueue_message_to_an_open_queue(sender, bench.message(priority=0))
    )
    synced = bench.disk.calls["sync"]
    bench.turn(
        lambda m: m.messages.enqueue_message_to_an_open_queue(sender, Message(body=b"quick"))
    )
    bench.turn(lambda m: m.messages.dequeue_message(reader))
    assert bench.driver.release() == 2
    assert deserialize(bench.out[1].packets[0]).body == b"quick"
    assert bench.disk.calls["sync"] == synced


def test_a_turn_that_asks_for_nothing_syncs_nothing() -> None:
    bench = Bench()
    calls = bench.disk.calls["any"]
    bench.turn()
    bench.driver.sync()
    assert bench.driver.release() == 0
    assert bench.disk.calls["any"] == calls


def test_upkeep_is_the_stores() -> None:
    bench = Bench()
    bench.send()
    reader = bench.open(PLAIN, RECEIVE)
    delivery = bench.driver.read(lambda m: m.messages.dequeue_message(reader))
    assert delivery is not None
    while bench.driver.tidy():
        pass
    assert bench.durable() == bench.live()


def test_a_sync_in_another_thread_lets_out_only_what_it_covered() -> None:
    bench = Bench()
    call = _send(bench)
    bench.turn(call)
    thread = Thread(target=bench.driver.sync)
    thread.start()
    thread.join()
    bench.turn(call)
    assert bench.driver.release() == 1
    assert bench.driver.waiting_answers == 1


# -- what fails


@pytest.mark.parametrize("kind", ["sync", "write"])
def test_after_a_failed_log_nothing_leaves_and_nothing_is_decided(kind: Any) -> None:
    bench = Bench()
    call = _send(bench)
    bench.turn(call)
    bench.disk.fail_at(1, kind)
    fails: Callable[[], object] = bench.driver.sync
    if kind == "write":
        fails = lambda: bench.turn(call)  # noqa: E731
    with pytest.raises(StoreFailed):
        fails()
    attempts: list[Callable[[], object]] = [
        bench.driver.begin_turn,
        bench.driver.end_turn,
        lambda: bench.driver.decide(call, bench.out.append),
        lambda: bench.run(call),
    ]
    for attempt in attempts:
        assert bench.driver.release() == 0
        with pytest.raises(ServiceNotAvailable):
            attempt()
    assert bench.out == []
    assert bench.driver.failed


@pytest.mark.parametrize("where", ["call", "clock"])
def test_after_a_step_that_broke_off_nothing_is_decided(where: str) -> None:
    bench = Bench()
    send, before = _send(bench), bench.durable()

    def breaks_off(*_: object) -> Any:
        send(bench.manager)
        raise ZeroDivisionError

    if where == "clock":
        bench.driver.clock = breaks_off
    with pytest.raises(ZeroDivisionError):
        bench.run(breaks_off)
    assert bench.live() != before
    assert bench.driver.failed
    for attempt in (bench.driver.begin_turn, bench.driver.end_turn, bench.driver.close):
        with pytest.raises(ServiceNotAvailable):
            attempt()
    assert bench.durable() == before


def test_bytes_of_a_peer_that_are_no_packet_are_no_failure_of_ours() -> None:
    bench = Bench()
    sender = bench.open(PLAIN, SEND)
    with pytest.raises(RemoteProtocolError):
        bench.run(lambda m: m.messages.send_packets(sender, [b"no packet"]))
    assert not bench.driver.failed
    bench.send()


def test_a_sync_that_would_succeed_the_second_time_is_not_believed() -> None:
    """The disk has thrown away what it could not write; only the first error told so."""
    bench = Bench()
    bench.turn(_send(bench))
    bench.disk.fail_at(1, "sync")
    with pytest.raises(StoreFailed):
        bench.driver.sync()
    with pytest.raises(StoreFailed):
        bench.driver.sync()
    assert bench.driver.release() == 0
    assert bench.out == []


def test_a_door_that_fails_keeps_nobody_elses_answer() -> None:
    bench = Bench()

    def breaks(answer: Answer) -> None:
        raise ValueError("the door is broken")

    call = _send(bench)
    bench.driver.begin_turn()
    bench.driver.decide(call, breaks)
    bench.driver.decide(call, bench.out.append)
    bench.driver.end_turn()
    bench.driver.sync()
    with pytest.raises(ValueError, match="broken"):
        bench.driver.release()
    assert bench.driver.release() == 1
    assert len(bench.out) == 1


def test_a_full_disk_refuses_messages_and_nothing_else() -> None:
    bench = Bench()
    events: list[Event] = []
    bench.driver.on_event = events.append
    bench.send(b"before")
    bench.disk.fill_up(1 << 20)
    bench.driver.tidy()  # after which the disk is asked again
    sender, reader = bench.open(PLAIN, SEND), bench.open(PLAIN, RECEIVE)
    with pytest.raises(MachineQuotaExceeded):
        bench.run(lambda m: m.messages.enqueue_message_to_an_open_queue(sender, bench.message()))
    delivery = bench.driver.read(lambda m: m.messages.dequeue_message(reader))
    assert delivery is not None
    bench.disk.fill_up(1 << 40)
    bench.send(b"after")
    assert [event.name for event in events] == ["flow_control_begins", "flow_control_ends"]


# -- one call at a time


def test_a_single_call_is_durable_when_it_returns() -> None:
    bench = Bench()
    bench.send()
    assert bench.durable() == bench.live()
    reader = bench.open(PLAIN, RECEIVE)
    delivery = bench.driver.read(lambda m: m.messages.dequeue_message(reader))
    assert delivery is not None
    assert deserialize(delivery.packet).body == b"body"
    assert bench.durable() == bench.live()


def test_a_single_call_raises_its_refusal_and_counts_it() -> None:
    bench = Bench()
    with pytest.raises(QueueNotFound):
        bench.open(r".\private$\unknown", RECEIVE)
    assert bench.manager.machine.refusals["MQ_ERROR_QUEUE_NOT_FOUND"] == 1


def test_several_messages_come_with_their_packets() -> None:
    bench = Bench()
    for text in (b"0", b"1", b"2", b"3"):
        bench.send(text)
    reader = bench.open(PLAIN, RECEIVE)
    (delivery,) = bench.driver.read_many(
        lambda m: m.messages.dequeue_messages(bench.open_now(m), 1)
    )
    assert deserialize(delivery.packet).body == b"0"
    deliveries = bench.driver.read_many(lambda m: m.messages.dequeue_messages(reader, 2))
    assert [deserialize(d.packet).body for d in deliveries] == [b"1", b"2"]
    assert bench.driver.read(lambda m: m.messages.peek_message(reader)) is not None
    assert bench.driver.read_many(lambda m: m.messages.dequeue_messages(reader, 0)) == []


def test_a_read_that_waits_has_no_message_now() -> None:
    bench = Bench()
    reader = bench.open(PLAIN, RECEIVE)
    assert (
        bench.driver.read(lambda m: m.messages.dequeue_message(reader, token=bench.out.append))
        is None
    )
    bench.send()
    assert len(bench.out) == 1


def test_a_callback_may_start_the_next_turn() -> None:
    bench = Bench()
    order: list[str] = []
    call = _send(bench)

    def again(answer: Answer) -> None:
        order.append("first")
        bench.run(call)
        order.append("inner done")

    bench.driver.begin_turn()
    bench.driver.decide(call, again)
    bench.driver.decide(call, lambda answer: order.append("second"))
    bench.driver.end_turn()
    bench.driver.sync()
    bench.driver.release()
    assert order == ["first", "second", "inner done"]
    assert bench.driver.waiting_answers == 0


def test_a_clean_stop_ends_waits_and_syncs() -> None:
    bench = Bench()
    bench.turn(
        _send(bench),
        lambda m: m.messages.dequeue_message(
            m.queues.open_queue(ORDERS, RECEIVE, bench.admin), token=bench.out.append
        ),
    )
    sender = bench.open(PLAIN, SEND)
    bench.run(lambda m: m.messages.enqueue_message_to_an_open_queue(sender, Message(body=b"quick")))
    live = bench.live()
    bench.driver.close()
    assert isinstance(bench.out[-1].error, OperationCancelled)
    found = LogStore(bench.disk.clone().crash("nothing"), StoreSettings()).recover()
    assert found.clean
    assert picture(found.state)["rows"] == live["rows"]
    assert found.state.table.count == 2  # the express one as well


def test_a_refusal_keeps_no_frames() -> None:
    """Nor does the error it was made from: they would keep connections and what those hold."""
    bench = Bench()

    def refuses(manager: QueueManager) -> None:
        try:
            raise KeyError("what was looked for")
        except KeyError as error:
            raise QueueNotFound("nothing is there") from error

    bench.turn(refuses)
    bench.driver.sync()
    bench.driver.release()
    ((_, error, _),) = bench.out
    assert error is not None
    assert (error.__traceback__, error.__cause__, error.__context__) == (None, None, None)
