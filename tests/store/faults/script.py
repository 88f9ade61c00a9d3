"""The scripted run: a short, busy and deterministic life of a queue manager.

Each step is a few calls on the engine through the driver. Together they make every kind of record
in every delivery and size, several segments, checkpoints and compactions, two clean stops, two
kills, a prepared transaction that lives over both, and messages that never leave while everything
around them does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posthouse.engine.manager import QueueManager
from posthouse.engine.messages.reading import MessageSeekAction
from posthouse.model.message import (
    ACK_FULL_REACH_QUEUE,
    ACK_FULL_RECEIVE,
    NACK_RECEIVE_REJECTED,
    DeliveryGuarantee,
    Message,
)
from posthouse.runtime.driver import Answer
from posthouse.wire.packet.message import serialize
from tests.engine.rig import MOVE, RECEIVE, SEND
from tests.engine.staging import QUERY, append, begin, key_of, publish, stage
from tests.store.faults.group_steps import (
    acknowledge_some,
    claim_some,
    purge_beside_claims,
    release_the_rest,
)
from tests.store.faults.world import SEGMENT_SIZE, World

Step = Callable[[World], None]

ADMINISTRATION = "DIRECT=OS:ALPHA\\private$\\answers"
ABROAD = "DIRECT=OS:BETA\\private$\\far"


def body(name: str, size: int = 40) -> bytes:
    """A body that tells which message it belongs to."""
    return (f"{name} " * (size // (len(name) + 1) + 1)).encode()[:size]


def make_queues(world: World) -> None:
    world.create("orders", journaling=True)
    world.create("ledger", transactional=True)
    world.create("archive", transactional=True, journaling=True)
    world.create("bulk")
    world.create("answers")
    world.create(".\\shop")


def send_all_kinds(world: World) -> None:
    world.send("orders", body("first", 60), label="first", priority=7)
    world.send("orders", b"")
    world.send("orders", body("express", 50), recoverable=False)
    world.send("orders", body("low"), priority=0, extension=b"extension", application_tag=7)
    world.send("bulk", body("long", SEGMENT_SIZE + 700))
    world.send("bulk", body("express", 900), recoverable=False)


def send_with_acknowledgments(world: World) -> None:
    asked: dict[str, Any] = {
        "administration_queue_format_name": ADMINISTRATION,
        "positive_journaling_requested": True,
        "negative_journaling_requested": True,
    }
    world.send("orders", body("arrives"), acknowledgements_requested=ACK_FULL_REACH_QUEUE, **asked)
    world.send(
        "orders",
        body("in time"),
        acknowledgements_requested=ACK_FULL_RECEIVE,
        time_to_be_received=5,
        **asked,
    )


def receive_some(world: World) -> None:
    world.receive("orders")
    world.peek("orders")
    world.receive("answers")


def commit_across_queues(world: World) -> None:
    tx = world.begin("across")
    world.send("ledger", body("debit"), tx=tx)
    world.send("archive", body("credit"), tx=tx)
    world.send("ledger", body("fee", 300), tx=tx)
    world.commit(tx)


def abort_everything(world: World) -> None:
    tx = world.begin("undone")
    world.send("ledger", body("never"), tx=tx)
    world.receive("ledger", transaction=tx)
    world.abort(tx)


def exchange(world: World) -> None:
    tx = world.begin("exchange")
    world.receive("ledger", transaction=tx)
    world.send("archive", body("exchanged"), tx=tx)
    world.send(ABROAD, body("abroad"), tx=tx)
    world.commit(tx)


def spill_and_abort(world: World) -> None:
    tx = world.begin("large")
    for number in range(4):
        world.send("ledger", body(f"part {number}", 900), tx=tx)
    world.abort(tx)


def spill_and_commit(world: World) -> None:
    tx = world.begin("larger")
    for number in range(4):
        world.send("archive", body(f"piece {number}", 800), tx=tx)
    world.commit(tx)


def prepare(world: World) -> None:
    tx = world.begin("prepared")
    world.receive("ledger", transaction=tx)
    world.send("archive", body("in doubt"), tx=tx)
    world.run(
        lambda m: m.transactions.collection.prepare(
            tx.identifier, single_phase=False, coordinator=b"c"
        )
    )
    other = world.begin("prepared too")
    world.send("ledger", body("withdrawn"), tx=other)
    world.run(lambda m: m.transactions.collection.prepare(other.identifier, single_phase=False))


def decide(world: World) -> None:
    first, second = sorted(t.identifier for t in world.manager.transactions.in_doubt())
    world.run(lambda m: m.transactions.transaction_abort(second))
    world.run(lambda m: m.transactions.transaction_commit(first))


def move_there_and_back(world: World) -> None:
    source, target = world.open("orders", RECEIVE), world.open("orders;later", MOVE)
    read = world.peek(source).read
    world.run(lambda m: m.messages.move_message(source, read.lookup_id, target))
    world.close(source)
    world.close(target)


def move_back(world: World) -> None:
    source, target = world.open("orders;later", RECEIVE), world.open("orders", MOVE)
    read = world.peek(source).read
    world.run(lambda m: m.messages.move_message(source, read.lookup_id, target))
    world.close(source)
    world.close(target)


def move_in_transaction(world: World) -> None:
    source, target = world.open("archive", RECEIVE), world.open("archive;kept", MOVE)
    read, tx = world.peek(source).read, world.begin("moving")
    world.run(lambda m: m.messages.move_message(source, read.lookup_id, target, tx))
    world.send("ledger", body("moved"), tx=tx)
    world.commit(tx)
    world.close(source)
    world.close(target)


def read_in_two_steps(world: World) -> None:
    source = world.open("orders", RECEIVE)
    refused = world.receive(source, two_phase=True).read
    world.run(lambda m: m.messages.dequeue_message_end(source, refused.lookup_id, positive=False))
    taken = world.receive(source, two_phase=True).read
    world.run(lambda m: m.messages.dequeue_message_end(source, taken.lookup_id, positive=True))
    world.close(source)


def reject(world: World) -> None:
    world.send("bulk", body("rejected"), negative_journaling_requested=True, priority=7)
    source = world.open("bulk", RECEIVE)
    read = world.receive(source, two_phase=True).read
    world.run(
        lambda m: m.messages.dequeue_message_end(
            source, read.lookup_id, positive=True, message_class=NACK_RECEIVE_REJECTED
        )
    )
    world.close(source)


def purge_under_a_reader(world: World) -> None:
    world.send("bulk", body("held"), priority=7)
    source = world.open("bulk", RECEIVE)
    world.receive(source, two_phase=True)
    world.run(lambda m: m.queues.purge_queue(source))
    world.close(source)


def expire(world: World) -> None:
    world.send("bulk", body("short"), time_to_be_received=3)
    world.send("bulk", body("longer"), time_to_be_received=4000, negative_journaling_requested=True)
    world.advance(10)


def expire_in_a_hand(world: World) -> None:
    """Its time passes while somebody holds it, and then they are gone: the step behind kills."""
    world.send("bulk", body("held"), time_to_be_received=3, priority=7)
    world.receive(world.open("bulk", RECEIVE), two_phase=True)
    world.advance(5)


def wake_a_reader(world: World) -> None:
    source = world.open("answers", RECEIVE)
    world.run(lambda m: m.queues.purge_queue(source))
    answers = world.wait(source)
    world.loose = True
    world.send("answers", body("awaited"))
    world.loose = False
    assert len(answers) == 1
    world.close(source)


def read_by_cursor_and_lookup(world: World) -> None:
    source = world.open("orders", RECEIVE)
    cursor = world.run(lambda m: m.messages.open_cursor(source))
    first = world.peek(source, cursor=cursor).read
    world.driver.read(lambda m: m.messages.peek_next_message(source, cursor, timeout_ms=0))
    world.receive(source, cursor=cursor)
    world.lookup(source, first.lookup_id, MessageSeekAction.CURRENT, peek=False)
    world.close(source)


def one_busy_turn(world: World) -> None:
    """Several callers in one group, and a batch of packets."""
    target, source = world.open("bulk", SEND), world.open("bulk", RECEIVE)
    message = Message(body=body("packet"), destination_queue_format_name=ADMINISTRATION)
    message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
    packets = [serialize(message)] * 3
    calls: list[Callable[[QueueManager], object]] = [
        lambda m: m.messages.send_packets(target, packets),
        lambda m: m.messages.enqueue_message_to_an_open_queue(
            target, Message(body=body("express"))
        ),
        lambda m: m.messages.dequeue_messages(source, 2),
        lambda m: m.messages.send_packets(target, packets[:1]),
    ]
    several(world, calls)
    world.close(target)
    world.close(source)


def several(world: World, calls: list[Callable[[QueueManager], object]]) -> None:
    """Calls of one turn; each answer has to be a good one."""
    answers: list[Answer] = []
    world.driver.begin_turn()
    for call in calls:
        world.driver.decide(call, answers.append)
    world.driver.end_turn()
    world.driver.sync()
    world.driver.release()
    assert len(answers) == len(calls)
    for answer in answers:
        if answer.error is not None:
            raise answer.error


def turns_without_sync(world: World, count: int, size: int, tidy: int = 0) -> None:
    """Group commit: turns that are appended while the last sync still runs, with upkeep."""
    target = world.open("bulk", SEND)
    for number in range(count):
        message = Message(body=body(f"turn {number}", size))
        message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
        world.driver.begin_turn()
        world.driver.decide(
            lambda m, message=message: m.messages.enqueue_message_to_an_open_queue(target, message),
            lambda answer: None,
        )
        world.driver.end_turn()
        for _ in range(tidy):
            world.driver.tidy()


def many_turns_one_sync(world: World) -> None:
    """Segments are sealed and indexed, checkpoints begun, before anything of it is synced."""
    turns_without_sync(world, 6, 900, tidy=2)
    world.driver.sync()
    world.driver.release()


def kill_before_the_sync(world: World) -> None:
    """What the next process finds was never synced: it has to see to that before it answers."""
    turns_without_sync(world, 6, 900)
    world.kill()
    world.check()


def change_properties(world: World) -> None:
    world.run(
        lambda m: m.queues.set_queue(".\\private$\\bulk", world.admin, label="much", quota_kib=99)
    )
    queue = world.queue("bulk")
    world.run(
        lambda m: m.queues.set_queue_security(
            ".\\private$\\bulk", world.admin, queue.definition.security
        )
    )
    outgoing = next(iter(world.manager.queues.outgoing_queues()))
    world.run(lambda m: m.transfer.pause_queue(outgoing))


def delete_a_queue(world: World) -> None:
    world.create("passing")
    world.send("passing", body("gone"), negative_journaling_requested=True)
    world.send("passing", body("gone too"))
    world.run(lambda m: m.queues.delete_queue(".\\private$\\passing", world.admin))


def delete_a_public_queue(world: World) -> None:
    world.create(".\\passing")
    world.send(".\\passing", body("published"))
    world.run(lambda m: m.queues.delete_queue(".\\passing", world.admin))


def come_and_go(world: World) -> None:
    """Messages that live for a moment: what compaction is for."""
    for number in range(4):
        world.send("answers", body(f"round {number}", 350))
    source = world.open("answers", RECEIVE)
    world.run(lambda m: m.messages.dequeue_messages(source, 3))
    world.run(lambda m: m.messages.dequeue_messages(source, 9))
    world.close(source)


def stage_batches(world: World) -> None:
    """Batch 1 is left to be published much later, batch 2 at once; one stage is replaced."""
    some = [body(f"staged {number}", 90) for number in range(3)]
    world.create("rows", transactional=True)
    stage(world, key_of(1, 0), ("bulk", some), ("rows", some))
    stage(world, key_of(1, 1), (ABROAD, some[:2]), transactional=True)
    stage(world, key_of(1, 1, attempt=1), ("bulk", some[:1]))
    asked = {"administration_queue_format_name": ADMINISTRATION}
    stage(
        world,
        key_of(2, query="other"),
        ("answers", some[:2]),
        acknowledgements_requested=ACK_FULL_REACH_QUEUE,
        time_to_be_received=4000,
        **asked,
    )
    stage(world, key_of(2, query="other"), ("answers", some))
    publish(world, 2, (0, 0), query="other")


def publish_and_discard(world: World) -> None:
    """What waited over stops and kills becomes visible in one step."""
    publish(world, 1, (0, 0), (1, 0))
    assert publish(world, 1, (0, 0), (1, 0)).already
    stage(world, key_of(3), ("bulk", [body("dropped", 200)] * 3))
    world.run(lambda m: m.stages.discard(QUERY, 3, world.admin))
    stage(world, key_of(4), ("rows", [body("published", 120)] * 2))
    publish(world, 4, (0, 0))


def leave_an_upload(world: World) -> None:
    """Whoever writes a stage is gone in the middle of it: the step behind kills."""
    upload = begin(world, key_of(9))
    append(world, upload, [("bulk", [body("unfinished", 300)] * 3)])


def drain(world: World) -> None:
    source = world.open("bulk", RECEIVE)
    world.run(lambda m: m.queues.purge_queue(source))
    world.close(source)


def stop_and_start(world: World) -> None:
    world.restart()


def kill_and_start(world: World) -> None:
    world.kill()
    world.check()


STEPS: tuple[Step, ...] = (
    make_queues,
    send_all_kinds,
    commit_across_queues,
    come_and_go,
    stage_batches,
    send_with_acknowledgments,
    claim_some,
    receive_some,
    prepare,
    expire,
    move_there_and_back,
    stop_and_start,
    come_and_go,
    one_busy_turn,
    abort_everything,
    exchange,
    spill_and_abort,
    read_in_two_steps,
    change_properties,
    reject,
    expire_in_a_hand,
    leave_an_upload,
    kill_and_start,
    acknowledge_some,
    spill_and_commit,
    move_back,
    delete_a_queue,
    wake_a_reader,
    decide,
    come_and_go,
    many_turns_one_sync,
    read_by_cursor_and_lookup,
    move_in_transaction,
    purge_beside_claims,
    stop_and_start,
    publish_and_discard,
    acknowledge_some,
    delete_a_public_queue,
    purge_under_a_reader,
    come_and_go,
    kill_before_the_sync,
    drain,
    kill_and_start,
    release_the_rest,
    come_and_go,
)
