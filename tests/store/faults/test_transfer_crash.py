"""The power goes at every operation while messages leave for another machine and are answered."""

from __future__ import annotations

from copy import deepcopy

import pytest

from posthouse.engine.ledger.records import FLAG_REMOTE
from posthouse.engine.transfer.outgoing_cursor import OutgoingCursor
from posthouse.engine.transfer.protocol_interface import Outbound, Peer
from posthouse.model.message import (
    ACK_RECEIVE,
    NACK_ACCESS_DENIED,
    DeliveryGuarantee,
    Message,
    MessageId,
    TxSequenceId,
)
from posthouse.sim import SimDisk
from posthouse.wire.binary.order_acks import order_queue_of
from posthouse.wire.packet.message import deserialize, serialize
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.packet.sequence_places import place_of
from tests.conftest import Dose
from tests.store.faults.harness import check, crashed
from tests.store.faults.script import ABROAD
from tests.store.faults.world import World

FAR = Peer(bytes(range(16)), "10.0.0.2")
ASKED = 5  # messages from elsewhere whose sender wants to know


class Promises:
    """What other machines were told, or have told us and will not say again."""

    def __init__(self) -> None:
        self.places: dict[int, tuple[int, int]] = {}  # by ordinal: given to a session
        self.asked: set[int] = set()  # about to be order-acknowledged: gone or not
        self.arrived: set[int] = set()  # order-acknowledged
        self.ended: set[int] = set()  # finally answered, or acknowledged by the session
        self.received = 0  # messages of others that an application has read


class Traffic:
    """A queue manager that sends, is answered, receives and answers."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.world = World(self.disk).start()
        self.told = Promises()
        self.sender: OutgoingCursor | None = None

    def session(self) -> OutgoingCursor:
        (queue,) = [q for q in self.world.manager.queues.outgoing_queues() if q.name == ABROAD]
        return self.world.run(lambda m: m.transfer.begin_sending(queue.number))

    def run(self) -> None:
        world = self.world
        world.create("inbox", transactional=True)
        self.commit("abcd")
        world.send(ABROAD, b"plain")
        sender = self.session()
        first = self.take(sender, 3)
        self.order_ack(first[1])
        self.commit("ef", journal=True)
        rest = self.take(sender, 10)
        plain = [out for out in first if not out.transactional]
        world.run(lambda m: sender.acknowledged([out.number for out in plain]))
        self.told.ended |= {ordinal(out) for out in plain}
        self.order_ack(first[2])
        last = rest[-1]
        self.order_ack(last)  # all has arrived: a new sequence begins
        self.final_ack(rest[-2], ACK_RECEIVE)
        self.final_ack(last, NACK_ACCESS_DENIED)
        self.commit("gh")
        world.run(lambda m: sender.resend())
        self.take(sender, 10)
        for number in range(1, ASKED + 1):
            self.arrive(number)
        for _ in range(ASKED):
            world.receive("inbox")
            self.told.received += 1

    def commit(self, bodies: str, *, journal: bool = False) -> None:
        transaction = self.world.begin(f"for {bodies}")
        for body in bodies:
            self.world.send(
                ABROAD,
                body.encode(),
                tx=transaction,
                negative_journaling_requested=journal,
                positive_journaling_requested=journal,
            )
        self.world.commit(transaction)

    def take(self, sender: OutgoingCursor, count: int) -> list[Outbound]:
        taken = self.world.run(lambda m: sender.take(count, 1 << 20))
        self.told.places |= {ordinal(o): place_of(o.packet)[:2] for o in taken if o.transactional}
        return taken

    def order_ack(self, out: Outbound) -> None:
        sequence_id, number, _ = place_of(out.packet)
        places = self.told.places.items()
        self.told.asked |= {o for o, place in places if place <= (sequence_id, number)}
        assert self.world.run(
            lambda m: m.transfer.outgoing.order_acknowledged_by(FAR, sequence_id, number)
        )
        self.told.arrived |= self.told.asked

    def final_ack(self, out: Outbound, message_class: int) -> None:
        sequence_id, number, _ = place_of(out.packet)
        guid, which = self.world.manager.machine.identifier, ordinal(out)
        assert self.world.run(
            lambda m: m.transfer.outgoing.final_acknowledged_by(
                FAR, message_class, guid, which, sequence_id, number
            )
        )
        self.told.ended.add(which)

    def arrive(self, number: int) -> None:
        message = Message(
            body=b"from afar",
            identifier=MessageId(FAR.guid, number),
            source_machine_identifier=FAR.guid,
            sent_time=self.world.clock.utc_seconds,
            destination_queue_format_name=r"DIRECT=OS:ALPHA\private$\inbox",
            delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
            final_ack_required=True,
            transactional_message_sequence_identifier=TxSequenceId(5, 1),
            transaction_sequence_number=number,
        )
        packet, queue = serialize(message), self.world.queue("inbox")
        self.world.run(lambda m: m.messages.sending.enqueue(queue, packet, flags=FLAG_REMOTE))


def ordinal(out: Outbound) -> int:
    return summarize(out.packet).ordinal


def look(world: World, told: Promises) -> None:
    """Whether a start after a crash knows what others know."""
    queues = {queue.name: queue for queue in world.manager.queues.outgoing_queues()}
    if ABROAD in queues:
        number = queues[ABROAD].number
        sender = world.run(lambda m: m.transfer.begin_sending(number))
        taken = world.run(lambda m: sender.take(100, 1 << 20))
        sent = {ordinal(out): place_of(out.packet)[:2] for out in taken}
        assert not sent.keys() & told.arrived
        assert not sent.keys() & told.ended
        for which, place in told.places.items():
            assert which in told.arrived or sent.get(which, place) == place
        here = {world.manager.messages.row(n).ordinal for _, n in forward(queues[ABROAD])}
        assert told.places.keys() - told.asked <= here
        assert not here & told.ended
    order_queue = queues.get(str(order_queue_of(FAR.guid)))
    owed = [] if order_queue is None else [n for _, n in forward(order_queue)]
    answers = [deserialize(world.store.read(number)) for number in owed]
    assert {message.message_class for message in answers} <= {ACK_RECEIVE}
    inbox = [q for q in world.manager.queues.all() if q.name.endswith("\\inbox")]
    books = [queue.state.books[1] for queue in inbox]
    assert len(owed) == sum(books)  # one for each that was read, and no other
    assert len(owed) >= told.received


def forward(queue: object) -> list[tuple[object, int]]:
    return list(queue.state.order.forward())  # type: ignore[attr-defined]


@pytest.mark.spec("MS-MQQB 3.1.1.3.1/8", "MS-MQQB 3.1.1.3.1/12", "MS-MQQB 3.1.1.3.1/13")
@pytest.mark.spec("MS-MQQB 3.1.1.3.1.2/2", "MS-MQQB 3.1.7.2.2/1")
def test_a_crash_changes_nothing_that_another_machine_knows(dose: Dose) -> None:
    traffic = Traffic()
    seen = 0

    def operated(operation: object) -> None:
        nonlocal seen
        disk, told = traffic.disk.clone(), deepcopy(traffic.told)
        witness = traffic.world.witness.now()
        for label, found in crashed(disk, dose(1, 6)):
            look(check(found, deepcopy(witness), label), told)
            seen += 1

    traffic.disk.on_operation = operated
    traffic.run()
    traffic.disk.on_operation = None
    look(traffic.world, traffic.told)
    assert seen > 100
