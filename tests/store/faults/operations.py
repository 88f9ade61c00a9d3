"""Every operation of the engine that can answer positively, and what its answer promises.

Each is called when another caller's work is appended but not synced: a message at the head of
`plain` and a queue `fresh`. So an answer that only tells what is there has something to wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from posthouse.engine.ledger.effects import Read
from posthouse.engine.manager import QueueManager
from posthouse.engine.messages.reading import MessageSeekAction
from posthouse.engine.queues.queue import OutgoingQueueState
from posthouse.engine.transactions.transaction import Transaction
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.srmp.protocol_interface import SrmpArrival
from posthouse.model.errors import QueueNotFound
from posthouse.model.guids import format_guid
from posthouse.model.message import (
    INFINITE,
    NACK_RECEIVE_REJECTED,
    DeliveryGuarantee,
    Message,
    MessageId,
    TxSequenceId,
)
from posthouse.model.properties import QueueProperties
from posthouse.security.access import system_queue_descriptor
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet_fields import summarize_all
from posthouse.wire.srmp.message import FOREVER, SrmpMessage, Stream
from tests.engine.rig import MOVE, PEEK, RECEIVE, SEND
from tests.engine.web import arrival_of, stream_id
from tests.store.faults.script import ABROAD, ADMINISTRATION
from tests.store.faults.world import World

LATE = b"not yet synced"
STOCK = [b"stock 0", b"stock 1", b"stock 2"]
TAG = "tag"
FRESH = ".\\private$\\fresh"


class Scene:
    """A world with some of everything, all of it synced, and handles to use it by."""

    def __init__(self, world: World) -> None:
        self.world = world
        for name in ("plain", "stock", "old", "answers"):
            world.create(name)
        world.create("east", transactional=True)
        for content in STOCK:
            world.send("stock", content, negative_journaling_requested=True)
        self.commit(world.begin("before"), b"east 0", b"east 1")
        self.session = object()
        self.sending = world.open("plain")
        self.reading = world.open("plain", RECEIVE)
        self.stock = world.open("stock", RECEIVE)
        self.east = world.open("east", RECEIVE)
        self.cursor = world.run(lambda m: m.messages.open_cursor(self.stock))
        world.close(world.open(ABROAD, SEND))
        self.abroad = next(iter(world.manager.queues.outgoing_queues()))

    def commit(self, transaction: Transaction, *contents: bytes) -> None:
        """A transaction of sends."""
        for content in contents:
            self.world.send("east", content, tx=transaction)
        self.world.commit(transaction)

    def at_work(self, owner: object = None) -> Transaction:
        """A transaction that has sent and received something."""
        transaction = self.world.begin("work", owner)
        self.world.send("east", b"sent at work", tx=transaction)
        self.world.receive(self.east, transaction=transaction)
        return transaction

    def in_doubt(self) -> Transaction:
        """The same, prepared."""
        transaction = self.at_work()
        identifier = transaction.identifier
        self.world.run(lambda m: m.transactions.collection.prepare(identifier, single_phase=False))
        return transaction

    def first_of(self, source: Any, **options: Any) -> Read:
        """A message that is there."""
        return self.world.peek(source, **options).read

    def earlier(self) -> None:
        """Another caller's turn, appended and not synced."""
        message = recoverable(LATE, priority=7)
        driver = self.world.driver
        driver.begin_turn()
        for call in (
            lambda m: m.messages.enqueue_message_to_an_open_queue(self.sending, message),
            lambda m: m.queues.create_queue(FRESH, QueueProperties(), self.world.admin),
        ):
            driver.decide(call, lambda answer: None)
        driver.end_turn()


def recoverable(content: bytes, **attributes: Any) -> Message:
    """A message that has to be kept."""
    message = Message(body=content, **attributes)
    message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
    return message


Call = Callable[[QueueManager], object]
Make = Callable[[Scene], Call]
Holds = Callable[[World], bool]


class Operation(NamedTuple):
    """A call, and what must be so after a crash right behind its answer."""

    name: str
    variant: str
    make: Make
    holds: Holds | None = None  # None: it promises only that what it saw is durable

    def __str__(self) -> str:
        return f"{self.name}-{self.variant}" if self.variant else self.name


OPERATIONS: list[Operation] = []


def operation(name: str, variant: str = "", holds: Holds | None = None) -> Callable[[Make], Make]:
    """Adds an operation to the list."""

    def add(make: Make) -> Make:
        OPERATIONS.append(Operation(name, variant, make, holds))
        return make

    return add


def exists(world: World, name: str) -> bool:
    """Whether there is a queue of this name."""
    try:
        world.queue(name)
    except QueueNotFound:
        return False
    return True


def bodies(name: str, *wanted: bytes) -> Holds:
    """The messages of a queue, in order."""
    return lambda world: exists(world, name) and world.bodies(name) == list(wanted)


def aborted(world: World) -> bool:
    """The transaction's send is gone, its receive is back and counted."""
    return world.bodies("east") == [b"east 0", b"east 1"] and world.reads("east")[0].aborts == 1


def committed(world: World) -> bool:
    """All of the transaction."""
    return world.bodies("east") == [b"east 1", b"sent at work"]


def prepared(world: World) -> bool:
    """The transaction waits for its coordinator."""
    return [t.identifier[:4] for t in world.manager.transactions.in_doubt()] == [b"work"]


def on_hold(world: World) -> bool:
    """The outgoing queue is paused."""
    (queue,) = world.manager.queues.outgoing_queues()
    return queue.outgoing is not None and queue.outgoing.state is OutgoingQueueState.ON_HOLD


# -- queues


@operation("create_queue", "private", lambda world: exists(world, "made"))
def _create(scene: Scene) -> Call:
    admin = scene.world.admin
    return lambda m: m.queues.create_queue(
        ".\\private$\\made", QueueProperties(label="made"), admin
    )


@operation("create_queue", "public", lambda world: exists(world, ".\\made"))
def _create_public(scene: Scene) -> Call:
    return lambda m: m.queues.create_queue(".\\made", QueueProperties(), scene.world.admin)


@operation("delete_queue", "", lambda world: not exists(world, "old"))
def _delete(scene: Scene) -> Call:
    return lambda m: m.queues.delete_queue(".\\private$\\old", scene.world.admin)


@operation("set_queue", "", lambda world: world.queue("old").definition.label == "new")
def _set(scene: Scene) -> Call:
    return lambda m: m.queues.set_queue(".\\private$\\old", scene.world.admin, label="new")


def secured(world: World) -> bool:
    """The queue has the descriptor it was given."""
    return world.queue("old").definition.security == system_queue_descriptor()


@operation("set_queue_security", "", secured)
def _secure(scene: Scene) -> Call:
    name, other = ".\\private$\\old", system_queue_descriptor()
    return lambda m: m.queues.set_queue_security(name, scene.world.admin, other)


@operation("queue_properties", "", lambda world: exists(world, "fresh"))
def _properties(scene: Scene) -> Call:
    return lambda m: m.queues.queue_properties(FRESH, scene.world.admin)


@operation("get_queue_path", "", lambda world: exists(world, "fresh"))
def _path(scene: Scene) -> Call:
    return lambda m: m.directory.get_queue_path("DIRECT=OS:ALPHA\\private$\\fresh")


@operation("open_queue", "here", lambda world: exists(world, "fresh"))
def _open(scene: Scene) -> Call:
    return lambda m: m.queues.open_queue(FRESH, PEEK, scene.world.admin)


@operation("open_queue", "abroad", lambda world: len(world.manager.queues.outgoing_queues()) == 2)
def _open_abroad(scene: Scene) -> Call:
    return lambda m: m.queues.open_queue("DIRECT=OS:GAMMA\\private$\\x", SEND, scene.world.admin)


@operation("open_queue", "subqueue")
def _open_subqueue(scene: Scene) -> Call:
    return lambda m: m.queues.open_queue(".\\private$\\stock;new", MOVE, scene.world.admin)


@operation("close_queue")
def _close(scene: Scene) -> Call:
    return lambda m: m.queues.close_queue(scene.reading)


@operation("purge_queue", "", bodies("stock"))
def _purge(scene: Scene) -> Call:
    return lambda m: m.queues.purge_queue(scene.stock)


@operation("pause_queue", "", on_hold)
def _pause(scene: Scene) -> Call:
    return lambda m: m.transfer.pause_queue(scene.abroad)


@operation("resume_queue", "", lambda world: not on_hold(world))
def _resume(scene: Scene) -> Call:
    scene.world.run(lambda m: m.transfer.pause_queue(scene.abroad))
    return lambda m: m.transfer.resume_queue(scene.abroad)


@operation("take_offline")
def _take_offline(scene: Scene) -> Call:
    return lambda m: m.transfer.take_offline()


@operation("bring_online")
def _bring_online(scene: Scene) -> Call:
    return lambda m: m.transfer.bring_online()


@operation("keep_name")
def _keep_name(scene: Scene) -> Call:
    return lambda m: m.machine.keep_name(m.machine.name)


# -- sending


@operation("enqueue_message_to_an_open_queue", "", bodies("plain", LATE, b"new"))
def _send(scene: Scene) -> Call:
    return lambda m: m.messages.enqueue_message_to_an_open_queue(scene.sending, recoverable(b"new"))


def _asked(world: World) -> bool:
    return world.bodies("plain") == [LATE, b"new"] and len(world.bodies("answers")) == 1


@operation("enqueue_message_to_an_open_queue", "acknowledged", _asked)
def _send_asking(scene: Scene) -> Call:
    message = recoverable(
        b"new",
        acknowledgements_requested=0x01,
        administration_queue_format_name=ADMINISTRATION,
        positive_journaling_requested=True,
    )
    return lambda m: m.messages.enqueue_message_to_an_open_queue(scene.sending, message)


def _in_both(world: World) -> bool:
    return world.bodies("old") == world.bodies("answers") == [b"new"]


@operation("enqueue_message_to_an_open_queue", "to several", _in_both)
def _send_to_several(scene: Scene) -> Call:
    names = "DIRECT=OS:ALPHA\\private$\\old,DIRECT=OS:ALPHA\\private$\\answers"
    several = scene.world.open(names)
    return lambda m: m.messages.enqueue_message_to_an_open_queue(several, recoverable(b"new"))


@operation("enqueue_message_to_an_open_queue", "in a transaction")
def _send_in_transaction(scene: Scene) -> Call:
    transaction, target = scene.world.begin("sending"), scene.world.open("east")
    return lambda m: m.messages.enqueue_message_to_an_open_queue(
        target, recoverable(b"new"), transaction
    )


@operation("send_packets", "", bodies("plain", LATE, b"new", b"new"))
def _send_packets(scene: Scene) -> Call:
    message = recoverable(b"new", destination_queue_format_name=ADMINISTRATION)
    return lambda m: m.messages.send_packets(scene.sending, [serialize(message)] * 2)


ABROAD_PEER = Peer(bytes(range(16)), "192.0.2.7")


def received(*contents: bytes) -> list[bytes]:
    """Packets of another machine for `plain`."""
    return [
        serialize(
            recoverable(
                content,
                identifier=MessageId(ABROAD_PEER.guid, ordinal),
                time_to_reach_queue=INFINITE,
                destination_queue_format_name="DIRECT=OS:ALPHA\\private$\\plain",
            )
        )
        for ordinal, content in enumerate(contents, 1)
    ]


def taken_in(*contents: bytes) -> Holds:
    """The messages are there once, also when they are sent again."""

    def holds(world: World) -> bool:
        packets, before = received(*contents), world.bodies("plain")
        world.run(
            lambda m: m.transfer.receive_packets(ABROAD_PEER, packets, summarize_all(packets))
        )
        return before == world.bodies("plain") == [LATE, *contents]

    return holds


@operation("receive_packets", "one", taken_in(b"new"))
def _receive_one(scene: Scene) -> Call:
    packets = received(b"new")
    return lambda m: m.transfer.receive_packets(ABROAD_PEER, packets, summarize_all(packets))


@operation("receive_packets", "a run", taken_in(b"new", b"newer"))
def _receive_run(scene: Scene) -> Call:
    packets = received(b"new", b"newer")
    return lambda m: m.transfer.receive_packets(ABROAD_PEER, packets, summarize_all(packets))


def in_sequence() -> list[bytes]:
    """Transactional packets of another machine for `east`."""
    return [
        serialize(
            recoverable(
                b"%d" % number,
                identifier=MessageId(ABROAD_PEER.guid, number),
                time_to_reach_queue=INFINITE,
                destination_queue_format_name="DIRECT=OS:ALPHA\\private$\\east",
                transaction_identifier=1,
                transactional_message_sequence_identifier=TxSequenceId(1, 1),
                transaction_sequence_number=number,
                transaction_previous_sequence_number=number - 1,
            )
        )
        for number in (1, 2)
    ]


def accepted_once(world: World) -> bool:
    """The messages are there, once, also when they are sent again."""
    packets, before = in_sequence(), world.bodies("east")
    world.run(lambda m: m.transfer.receive_packets(ABROAD_PEER, packets, summarize_all(packets)))
    return before == world.bodies("east") == [b"east 0", b"east 1", b"1", b"2"]


@operation("receive_packets", "in a sequence", accepted_once)
def _receive_in_sequence(scene: Scene) -> Call:
    packets = in_sequence()
    return lambda m: m.transfer.receive_packets(ABROAD_PEER, packets, summarize_all(packets))


# -- messages over HTTP


def posted(queue: str, *numbers: int, streamed: bool = False) -> list[SrmpArrival]:
    """Durable messages of another machine, or those of a stream; each number is its body."""
    arrivals = []
    for number in numbers:
        receipts = "http://192.0.2.7/msmq/private$/order_queue$" if number == 1 else None
        guid, sequence = ABROAD_PEER.guid, 1 << 32 | 1
        stream = Stream(stream_id(guid, sequence), guid, sequence, number, number - 1, receipts)
        message = SrmpMessage(
            to=f"http://alpha/msmq/private$/{queue}",
            id=f"uuid:{number}@{format_guid(guid)}",
            action="MSMQ:order",
            durable=True,
            has_msmq=True,
            source_guid=guid,
            ordinal=number,
            reach_by=FOREVER,
            stream=stream if streamed else None,
        )
        arrivals.append(arrival_of(message, b"%d" % number, ABROAD_PEER))
    return arrivals


def posted_once(queue: str, there: list[bytes], *, streamed: bool = False) -> Holds:
    """The messages are there, once, also when they are posted again."""

    def holds(world: World) -> bool:
        arrivals, before = posted(queue, 1, 2, streamed=streamed), world.bodies(queue)
        verdicts = world.run(lambda m: m.transfer.receive_srmp(arrivals))
        again = [verdict.status for verdict in verdicts]
        return again == [200, 200] and before == world.bodies(queue) == [*there, b"1", b"2"]

    return holds


@operation("receive_srmp", "durable", posted_once("plain", [LATE]))
def _post(scene: Scene) -> Call:
    arrivals = posted("plain", 1, 2)
    return lambda m: m.transfer.receive_srmp(arrivals)


@operation(
    "receive_srmp", "in a stream", posted_once("east", [b"east 0", b"east 1"], streamed=True)
)
def _post_in_stream(scene: Scene) -> Call:
    arrivals = posted("east", 1, 2, streamed=True)
    return lambda m: m.transfer.receive_srmp(arrivals)


@operation("receive_multicast")
def _multicast(scene: Scene) -> Call:
    scene.world.create("many", multicast_address="234.1.1.1:8001")
    arrivals = posted("many", 1)
    return lambda m: m.transfer.receive_multicast("234.1.1.1:8001", arrivals)


# -- reading


@operation("peek_message", "", bodies("plain", LATE))
def _peek(scene: Scene) -> Call:
    return lambda m: m.messages.peek_message(scene.reading, timeout_ms=0)


@operation("peek_next_message", "", bodies("plain", LATE, b"early"))
def _peek_next(scene: Scene) -> Call:
    world = scene.world
    world.send("plain", b"early")
    cursor = world.run(lambda m: m.messages.open_cursor(scene.reading))

    def call(manager: QueueManager) -> object:
        manager.messages.peek_message(scene.reading, timeout_ms=0, cursor=cursor)
        return manager.messages.peek_next_message(scene.reading, cursor, timeout_ms=0)

    return call


@operation("open_cursor")
def _open_cursor(scene: Scene) -> Call:
    return lambda m: m.messages.open_cursor(scene.reading)


@operation("close_cursor")
def _close_cursor(scene: Scene) -> Call:
    return lambda m: m.messages.close_cursor(scene.cursor)


@operation("dequeue_message", "", bodies("stock", *STOCK[1:]))
def _dequeue(scene: Scene) -> Call:
    return lambda m: m.messages.dequeue_message(scene.stock, timeout_ms=0)


@operation("dequeue_message", "cursor", bodies("stock", *STOCK[1:]))
def _dequeue_by_cursor(scene: Scene) -> Call:
    scene.first_of(scene.stock, cursor=scene.cursor)
    return lambda m: m.messages.dequeue_message(scene.stock, timeout_ms=0, cursor=scene.cursor)


@operation("dequeue_message", "what is not yet synced", bodies("plain"))
def _dequeue_late(scene: Scene) -> Call:
    scene.world.send("plain", b"early")

    def call(manager: QueueManager) -> object:
        manager.messages.dequeue_message(scene.reading, timeout_ms=0)
        return manager.messages.dequeue_message(scene.reading, timeout_ms=0)

    return call


@operation("dequeue_message", "in a transaction")
def _dequeue_in_transaction(scene: Scene) -> Call:
    transaction = scene.world.begin("receiving")
    return lambda m: m.messages.dequeue_message(scene.east, timeout_ms=0, transaction=transaction)


@operation("dequeue_messages", "", bodies("stock", STOCK[2]))
def _dequeue_many(scene: Scene) -> Call:
    return lambda m: m.messages.dequeue_messages(scene.stock, 2)


@operation("dequeue_messages_end", "", bodies("stock", STOCK[2]))
def _end_many(scene: Scene) -> Call:
    reads = scene.world.run(lambda m: m.messages.dequeue_messages(scene.stock, 2, two_phase=True))
    ids = [read.lookup_id for read in reads]
    return lambda m: m.messages.dequeue_messages_end(scene.stock, ids)


@operation("dequeue_message", "begun")
def _begin(scene: Scene) -> Call:
    return lambda m: m.messages.dequeue_message(scene.stock, timeout_ms=0, two_phase=True)


@operation("dequeue_message_end", "positive", bodies("stock", *STOCK[1:]))
def _end(scene: Scene) -> Call:
    read = scene.world.receive(scene.stock, two_phase=True).read
    return lambda m: m.messages.dequeue_message_end(scene.stock, read.lookup_id, positive=True)


@operation("dequeue_message_end", "negative")
def _end_negative(scene: Scene) -> Call:
    read = scene.world.receive(scene.stock, two_phase=True).read
    return lambda m: m.messages.dequeue_message_end(scene.stock, read.lookup_id, positive=False)


@operation("dequeue_message_end", "rejected", bodies(".\\system$;deadletter", STOCK[0]))
def _reject(scene: Scene) -> Call:
    read = scene.world.receive(scene.stock, two_phase=True).read
    return lambda m: m.messages.dequeue_message_end(
        scene.stock, read.lookup_id, positive=True, message_class=NACK_RECEIVE_REJECTED
    )


@operation("read_message_by_lookup_identifier", "peek", bodies("plain", LATE))
def _lookup(scene: Scene) -> Call:
    first = MessageSeekAction.FIRST
    return lambda m: m.messages.read_message_by_lookup_identifier(
        scene.reading, 0, first, peek=True
    )


@operation("read_message_by_lookup_identifier", "receive", bodies("stock", STOCK[0], STOCK[2]))
def _lookup_receive(scene: Scene) -> Call:
    first, following = scene.first_of(scene.stock), MessageSeekAction.NEXT
    return lambda m: m.messages.read_message_by_lookup_identifier(
        scene.stock, first.lookup_id, following, peek=False
    )


@operation("move_message", "", bodies("stock;aside", STOCK[0]))
def _move(scene: Scene) -> Call:
    target, read = scene.world.open("stock;aside", MOVE), scene.first_of(scene.stock)
    return lambda m: m.messages.move_message(scene.stock, read.lookup_id, target)


@operation("cancel_waiting_message_read_request")
def _cancel(scene: Scene) -> Call:
    scene.world.wait(scene.world.open("answers", RECEIVE), tag=TAG)
    waiting = scene.world.open("answers", RECEIVE)
    return lambda m: m.messages.cancel_waiting_message_read_request(waiting, TAG)


# -- transactions


@operation("create_transaction")
def _create_transaction(scene: Scene) -> Call:
    return lambda m: m.transactions.create_transaction(bytes(range(1, 17)))


@operation("transactions.prepare", "", prepared)
def _prepare(scene: Scene) -> Call:
    identifier = scene.at_work().identifier
    return lambda m: m.transactions.collection.prepare(identifier, single_phase=False)


@operation("transactions.prepare", "single phase")
def _prepare_single(scene: Scene) -> Call:
    identifier = scene.at_work().identifier
    return lambda m: m.transactions.collection.prepare(identifier)


@operation("transactions.prepare_for", "", prepared)
def _vote(scene: Scene) -> Call:
    identifier = scene.at_work().identifier
    return lambda m: m.transactions.collection.prepare_for(b"coordinator", identifier)


@operation("transaction_commit", "", committed)
def _commit(scene: Scene) -> Call:
    identifier = scene.at_work().identifier
    return lambda m: m.transactions.transaction_commit(identifier)


@operation("transaction_commit", "of a prepared one", committed)
def _commit_prepared(scene: Scene) -> Call:
    identifier = scene.in_doubt().identifier
    return lambda m: m.transactions.transaction_commit(identifier)


@operation("transaction_abort", "", aborted)
def _abort(scene: Scene) -> Call:
    identifier = scene.at_work().identifier
    return lambda m: m.transactions.transaction_abort(identifier)


@operation("transaction_abort", "of a prepared one", aborted)
def _abort_prepared(scene: Scene) -> Call:
    identifier = scene.in_doubt().identifier
    return lambda m: m.transactions.transaction_abort(identifier)


@operation("in_doubt")
def _in_doubt(scene: Scene) -> Call:
    scene.in_doubt()
    return lambda m: list(m.transactions.in_doubt())


@operation("end_session", "", aborted)
def _end_session(scene: Scene) -> Call:
    scene.at_work(scene.session)
    return lambda m: m.end_session(scene.session)


@operation("add_own_port")
def _add_own_port(scene: Scene) -> Call:
    return lambda m: m.queues.add_own_port(2801)


@operation("add_own_address")
def _add_own_address(scene: Scene) -> Call:
    return lambda m: m.queues.add_own_address("192.0.2.1")
