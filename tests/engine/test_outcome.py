"""What becomes of a message: journals, dead letters, acknowledgments, each with its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from posthouse.engine.ledger.books import books_of
from posthouse.engine.ledger.effects import Effects
from posthouse.engine.ledger.records import (
    CHANGE,
    FLAG_FIRST,
    FLAG_LAST,
    MESSAGE,
    unpack_arrival,
    unpack_change,
)
from posthouse.engine.ledger.state import State
from posthouse.model.errors import OperationCancelled
from posthouse.model.guids import NULL_GUID
from posthouse.model.message import (
    ACK_FULL_REACH_QUEUE,
    ACK_FULL_RECEIVE,
    ACK_NACK_RECEIVE,
    ACK_NEG_ARRIVAL,
    ACK_NEG_RECEIVE,
    ACK_NONE,
    ACK_POS_ARRIVAL,
    ACK_POS_RECEIVE,
    ACK_REACH_QUEUE,
    ACK_RECEIVE,
    INFINITE,
    NACK_BAD_DEST_QUEUE,
    NACK_PURGED,
    NACK_QUEUE_DELETED,
    NACK_QUEUE_PURGED,
    NACK_REACH_QUEUE_TIMEOUT,
    NACK_RECEIVE_REJECTED,
    NACK_RECEIVE_TIMEOUT,
    NORMAL,
    NULL_MESSAGE_ID,
    DeliveryGuarantee,
    Message,
    MessageId,
    TxSequenceId,
    class_name,
    is_negative,
)
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.security.sids import EVERYONE
from posthouse.wire.binary.order_acks import FINAL_ACK_BODY, FinalAck
from posthouse.wire.packet.message import deserialize
from tests.engine.letters import (
    DEAD_LETTERS,
    DEAD_TRANSACTIONAL,
    FAR,
    FAR_GUID,
    JOURNAL,
    RECEIVE_ADMIN,
    PostRig,
)
from tests.engine.rig import MOVE, RECEIVE

ADMIN = r"DIRECT=OS:ALPHA\private$\admin"
FAR_ADMIN = r"DIRECT=OS:BRAVO:2801\private$\admin"
EXPRESS, RECOVERABLE, TRANSACTIONAL = "express", "recoverable", "transactional"
DELIVERIES = (EXPRESS, RECOVERABLE, TRANSACTIONAL)


class Sender:
    """Sends to a queue of one kind, always the same way."""

    def __init__(self, rig: PostRig, delivery: str) -> None:
        self.rig = rig
        self.delivery = delivery
        self.count = 0

    @property
    def queue(self) -> str:
        return "accounts" if self.delivery == TRANSACTIONAL else "orders"

    @property
    def dead_letters(self) -> str:
        return DEAD_TRANSACTIONAL if self.delivery == TRANSACTIONAL else DEAD_LETTERS

    def send(self, body: bytes = b"body", to: str = "", **attributes: Any) -> MessageId:
        """Sends and, where the delivery asks for it, commits."""
        rig, to = self.rig, to or self.queue
        if self.delivery != TRANSACTIONAL:
            return rig.send(to, body, recoverable=self.delivery == RECOVERABLE, **attributes)
        self.count += 1
        tx = rig.begin(f"send{self.count}")
        identifier = rig.send(to, body, tx=tx, **attributes)
        rig.commit(tx)
        return identifier


@pytest.fixture
def rig() -> Iterator[PostRig]:
    rig = PostRig()
    rig.create("orders")
    rig.create("accounts", transactional=True)
    rig.create("admin")
    yield rig
    rig.check_books()


def asking(bits: int, admin: str = ADMIN) -> dict[str, Any]:
    return {"acknowledgements_requested": bits, "administration_queue_format_name": admin}


def expire(rig: PostRig, name: str) -> None:
    rig.advance(11)


ENDS: dict[str, tuple[int, Callable[[PostRig, str], object]]] = {
    "received": (ACK_RECEIVE, lambda rig, name: rig.receive(name)),
    "rejected": (NACK_RECEIVE_REJECTED, lambda rig, name: rig.reject(name)),
    "purged": (NACK_QUEUE_PURGED, lambda rig, name: rig.purge(name)),
    "deleted": (NACK_QUEUE_DELETED, lambda rig, name: rig.delete(name)),
    "expired": (NACK_RECEIVE_TIMEOUT, expire),
}
NEGATIVE = [name for name, (reason, _) in ENDS.items() if is_negative(reason)]


# -- administration acknowledgments: which


@pytest.mark.spec(
    "MS-MQQB 3.1.7.2/1",
    "MS-MQQB 3.1.7.2.1/1",
    "MS-MQQB 3.1.7.2.1/2",
    "MS-MQQB 3.1.7.2.1/3",
    "MS-MQDMPR 3.1.1.12/30",
    "MS-MQDMPR 3.1.1.12/31",
    "MS-MQDMPR 3.1.1.12/32",
    "MS-MQDMPR 3.1.1.12/34",
    "MS-MQDMPR 3.1.1.12/35",
    "MS-MQDMPR 3.1.1.12/36",
    "MS-MQDMPR 3.1.7.1.4/1",
)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("bits", range(16))
def test_each_end_is_acknowledged_as_asked(
    rig: PostRig, bits: int, delivery: str, end: str
) -> None:
    sender, (reason, act) = Sender(rig, delivery), ENDS[end]
    sender.send(time_to_be_received=10, **asking(bits))
    arrival = [ACK_REACH_QUEUE] if bits & ACK_POS_ARRIVAL else []
    assert rig.classes("admin") == arrival
    act(rig, sender.queue)
    wanted = ACK_POS_RECEIVE if reason == ACK_RECEIVE else ACK_NEG_RECEIVE
    assert rig.classes("admin") == arrival + ([reason] if bits & wanted else [])
    rig.advance(1000)  # acknowledgments do not expire, and nothing acknowledges them
    assert len(rig.classes("admin")) == len(arrival) + bool(bits & wanted)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/31")
def test_the_arrival_of_a_transactional_message_is_its_commit(rig: PostRig) -> None:
    tx = rig.begin()
    rig.send("accounts", tx=tx, **asking(ACK_POS_ARRIVAL))
    assert rig.classes("admin") == []
    rig.abort(tx)
    assert rig.classes("admin") == []
    tx = rig.begin("t2")
    rig.send("accounts", tx=tx, **asking(ACK_POS_ARRIVAL))
    rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
    rig.restart()
    assert rig.classes("admin") == []
    rig.commit(tx)
    assert rig.classes("admin") == [ACK_REACH_QUEUE]


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/32")
def test_the_receipt_of_a_message_is_the_end_of_its_reading(rig: PostRig) -> None:
    for _ in range(3):
        Sender(rig, RECOVERABLE).send(**asking(ACK_FULL_RECEIVE))
    reader = rig.open("orders", RECEIVE)
    delivery = rig.driver.read(
        lambda m: m.messages.dequeue_message(reader, timeout_ms=0, two_phase=True)
    )
    assert delivery is not None
    assert rig.classes("admin") == []
    lookup_id = delivery.read.lookup_id
    rig.run(lambda m: m.messages.dequeue_message_end(reader, lookup_id, positive=False))
    assert rig.classes("admin") == []
    rig.receive(reader)
    rig.lookup(reader, rig.reads("orders")[0].lookup_id, peek=False)
    rig.peek(reader)
    assert rig.classes("admin") == [ACK_RECEIVE, ACK_RECEIVE]


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/32")
def test_a_transactional_receipt_is_acknowledged_at_commit(rig: PostRig) -> None:
    Sender(rig, TRANSACTIONAL).send(**asking(ACK_FULL_RECEIVE))
    for name, finish, classes in (("a", rig.abort, []), ("b", rig.commit, [ACK_RECEIVE])):
        tx = rig.begin(name)
        rig.receive("accounts", transaction=tx)
        assert rig.classes("admin") == []
        finish(tx)
        assert rig.classes("admin") == classes


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/33", "MS-MQDMPR 3.1.1.12/35", "MS-MQDMPR 3.1.1.12/36")
@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("bits", range(16))
def test_what_never_arrives_is_acknowledged_as_asked(
    rig: PostRig, bits: int, delivery: str
) -> None:
    Sender(rig, delivery).send(to=FAR, time_to_reach_queue=10, **asking(bits))
    assert rig.classes("admin") == []
    rig.advance(11)
    expected = [NACK_REACH_QUEUE_TIMEOUT] if bits & ACK_NEG_ARRIVAL else []
    assert rig.classes("admin") == expected


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/35", "MS-MQDMPR 3.1.1.12/36")
def test_combined_requests_are_their_parts() -> None:
    assert ACK_FULL_REACH_QUEUE == ACK_POS_ARRIVAL | ACK_NEG_ARRIVAL
    assert ACK_NACK_RECEIVE == ACK_NEG_ARRIVAL | ACK_NEG_RECEIVE
    assert ACK_FULL_RECEIVE == ACK_NEG_ARRIVAL | ACK_NEG_RECEIVE | ACK_POS_RECEIVE


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/33")
@pytest.mark.parametrize("way", ["purge", "receive"])
def test_a_message_taken_out_of_an_outgoing_queue_by_hand_has_not_arrived(
    rig: PostRig, way: str
) -> None:
    rig.send(FAR, b"stopped", negative_journaling_requested=True, **asking(0x0F))
    reader = rig.open(FAR, RECEIVE_ADMIN)
    if way == "purge":
        rig.run(lambda m: m.queues.purge_queue(reader))
    else:
        assert rig.receive(reader).message.body == b"stopped"
    assert rig.classes("admin") == [NACK_PURGED]
    assert rig.reasons(DEAD_LETTERS) == [NACK_PURGED]


@pytest.mark.spec("MS-MQMQ 2.2.19.2/11")
@pytest.mark.spec("MS-MQDMPR 3.1.1.12/30")
def test_nobody_is_told_without_an_administration_queue(rig: PostRig) -> None:
    rig.send("orders", acknowledgements_requested=0x0F)
    rig.receive("orders")
    rig.send("orders", administration_queue_format_name=ADMIN)
    rig.receive("orders")
    assert rig.classes("admin") == []
    assert rig.manager.machine.refusals["acknowledgment_dropped"] == 0


# -- administration acknowledgments: what they say


@pytest.mark.spec("MS-MQQB 3.1.7.2.1/4")
@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("end", ENDS)
def test_an_acknowledgment_tells_of_which_message_it_is(
    rig: PostRig, delivery: str, end: str
) -> None:
    sender, (reason, act) = Sender(rig, delivery), ENDS[end]
    identifier = sender.send(
        b"the body",
        label="the label",
        body_type=30,
        priority=5,
        time_to_be_received=10,
        extension=b"not repeated",
        application_tag=9,
        negative_journaling_requested=True,
        positive_journaling_requested=True,
        **asking(ACK_FULL_RECEIVE),
    )
    act(rig, sender.queue)
    (ack,) = rig.messages("admin")
    transactional = delivery == TRANSACTIONAL
    express = delivery == EXPRESS
    assert ack.message_class == reason
    assert ack.correlation_identifier == identifier
    assert ack.response_queue_format_name == f"DIRECT=OS:ALPHA\\private$\\{sender.queue}"
    assert ack.destination_queue_format_name == ADMIN
    assert ack.label == "the label"
    assert ack.delivery_guarantee == (
        DeliveryGuarantee.EXPRESS if express else DeliveryGuarantee.RECOVERABLE
    )
    assert ack.priority == (0 if transactional else 5)
    assert ack.identifier.guid == ack.source_machine_identifier == rig.guid
    assert ack.identifier != identifier
    assert ack.sent_time == rig.clock.utc_seconds
    repeated = is_negative(reason)
    assert (ack.body, ack.body_type) == ((b"the body", 30) if repeated else (b"", 0))
    assert ack.extension == b""
    # It asks for nothing itself, is nobody's and never ends of age.
    assert ack.acknowledgements_requested == ACK_NONE
    assert not ack.positive_journaling_requested
    assert not ack.negative_journaling_requested
    assert ack.administration_queue_format_name == ""
    assert ack.transactional_message_sequence_identifier is None
    assert ack.time_to_reach_queue == ack.time_to_be_received == INFINITE
    assert ack.sender_identifier == b""


@pytest.mark.parametrize("level", [1, 3])
def test_the_body_of_an_encrypted_message_is_not_repeated(rig: PostRig, level: int) -> None:
    rig.send("orders", b"secret", privacy_level=level, label="known", **asking(ACK_FULL_RECEIVE))
    rig.purge("orders")
    (ack,) = rig.messages("admin")
    assert ack.message_class == NACK_QUEUE_PURGED
    assert (ack.body, ack.privacy_level, ack.label) == (b"", 0, "known")


def test_an_acknowledgment_is_a_message_like_another(rig: PostRig) -> None:
    waiting = rig.wait(rig.open("admin", RECEIVE), timeout_ms=60_000)
    rig.send("orders", b"x", **asking(ACK_POS_ARRIVAL))
    assert [answer.error for answer in waiting] == [None]
    assert waiting[0].value.message_class == ACK_REACH_QUEUE


def test_acknowledgments_of_acknowledgments_do_not_exist(rig: PostRig) -> None:
    """Even if the administration queue is the queue itself."""
    rig.send("orders", b"x", **asking(0x0F, r"DIRECT=OS:ALPHA\private$\orders"))
    assert rig.classes("orders") == [NORMAL, ACK_REACH_QUEUE]
    rig.purge("orders")
    assert rig.classes("orders") == [NACK_QUEUE_PURGED]
    rig.purge("orders")
    assert rig.classes("orders") == []


# -- administration acknowledgments: where to


def test_an_acknowledgment_for_another_computer_waits_in_an_outgoing_queue(rig: PostRig) -> None:
    identifier = rig.send("orders", b"x", **asking(ACK_POS_RECEIVE, FAR_ADMIN))
    assert rig.manager.queues.outgoing_queues() == []
    rig.active.clear()
    rig.receive("orders")
    queue, _ = rig.outgoing(FAR_ADMIN)
    assert rig.active == {queue.number}
    for _ in range(2):
        queue, _ = rig.outgoing(FAR_ADMIN)
        ack = rig.peek(rig.open(FAR_ADMIN, RECEIVE_ADMIN)).message
        assert (ack.message_class, ack.correlation_identifier) == (ACK_RECEIVE, identifier)
        assert ack.destination_queue_format_name == FAR_ADMIN
        assert queue.state.count == 1
        rig.restart()


@pytest.mark.parametrize(
    "name",
    [
        r"DIRECT=OS:ALPHA\private$\nowhere",
        r"DIRECT=OS:ALPHA\private$\orders;journal",
        r"DIRECT=OS:ALPHA\private$\orders;poison",
        r"DIRECT=OS:ALPHA\private$\order_queue$",
        r"DIRECT=OS:ALPHA\system$;deadletter",
        r"DIRECT=OS:BRAVO\private$\q;journal",
        r"DIRECT=SPX:00000012:00a0234f7500\q",
        r"DIRECT=OS:ALPHA\private$\accounts",
        r"DIRECT=OS:ALPHA\private$\full",
        r"DIRECT=OS:ALPHA\private$\signed",
        r"DIRECT=OS:ALPHA\private$\sealed",
        "PUBLIC=12345678-9abc-def0-1234-56789abcdef0",
    ],
)
def test_an_acknowledgment_nobody_takes_is_dropped_and_counted(rig: PostRig, name: str) -> None:
    rig.create("full", quota_kib=0)
    rig.create("signed", authentication=True)
    rig.create("sealed", privacy_level=2)
    rig.open("orders;poison", MOVE)
    rig.send("orders", b"x", **asking(ACK_POS_RECEIVE, name))
    assert rig.receive("orders").message.body == b"x"
    core = rig.manager.ledger
    assert core.refusals["acknowledgment_dropped"] == 1
    assert [e.name for e in rig.events if e.name == "acknowledgment_dropped"]
    assert len(core.state.table) == 0
    assert rig.manager.queues.outgoing_queues() == []


def test_no_room_anywhere_drops_the_acknowledgment_and_not_the_message(rig: PostRig) -> None:
    rig.send("orders", b"x", **asking(ACK_POS_RECEIVE))
    reader = rig.open("orders", RECEIVE)
    rig.store.has_room = lambda: False  # type: ignore[method-assign]
    assert rig.receive(reader).message.body == b"x"
    assert rig.classes("admin") == []
    assert rig.manager.machine.refusals["acknowledgment_dropped"] == 1


# -- everything that follows from an end is one step


def prefixes(rig: PostRig, call: Callable[[Any], object]) -> Iterator[State]:
    """The states that crashes leave behind: before the step, inside it, after it."""
    before = rig.manager.ledger.state.dump()
    effects: Effects = rig.decide(call)
    for count in range(len(effects.records) + 1):
        state = State.load(before)
        for kind, _, head, packet in effects.records[:count]:
            if kind == MESSAGE:
                state.apply_message(unpack_arrival(head + packet))
            elif kind == CHANGE:
                state.apply_change(unpack_change(head))
        yield state


@pytest.mark.parametrize("admin", [ADMIN, FAR_ADMIN])
@pytest.mark.parametrize("end", ["received", "purged", "deleted"])
def test_an_end_and_its_consequences_are_one_step(rig: PostRig, admin: str, end: str) -> None:
    rig.set("orders", journaling=True)
    orders, journal = rig.queue("orders").number, rig.queue("orders;journal").number
    rig.send("orders", b"x", negative_journaling_requested=True, **asking(ACK_FULL_RECEIVE, admin))
    reader = rig.open("orders", RECEIVE)
    calls: dict[str, Callable[[Any], object]] = {
        "received": lambda m: m.messages.dequeue_message(reader, timeout_ms=0),
        "purged": lambda m: m.queues.purge_queue(reader),
        "deleted": lambda m: m.queues.delete_queue(r".\private$\orders", rig.admin),
    }
    known = set(rig.manager.ledger.state.queues)
    kept = journal if end == "received" else rig.queue(DEAD_LETTERS).number
    seen = []
    for state in prefixes(rig, calls[end]):
        counts = {number: queue.count for number, queue in state.queues.items() if queue.count}
        acknowledged = rig.queue("admin").number if admin == ADMIN else (set(counts) - known)
        acks = counts.get(acknowledged, 0) if admin == ADMIN else len(acknowledged)
        seen.append((counts.get(orders, 0), counts.get(kept, 0), acks))
    assert set(seen) == {(1, 0, 0), (0, 1, 1)}
    assert seen == sorted(seen, reverse=True)


def test_the_arrival_and_its_consequences_are_one_step(rig: PostRig) -> None:
    sender = rig.open("orders")
    message = Message(
        body=b"x",
        delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
        positive_journaling_requested=True,
        **asking(ACK_POS_ARRIVAL),
    )
    names = ("orders", "admin", JOURNAL)
    numbers = [rig.queue(name).number for name in names]
    seen = [
        tuple(state.queue(number).count for number in numbers)
        for state in prefixes(
            rig, lambda m: m.messages.enqueue_message_to_an_open_queue(sender, message)
        )
    ]
    assert set(seen) == {(0, 0, 0), (1, 1, 1)}
    assert [len(rig.messages(name)) for name in names] == [1, 1, 1]


def test_a_crash_before_the_sync_leaves_neither_end_nor_acknowledgment(rig: PostRig) -> None:
    rig.send("orders", b"x", **asking(ACK_POS_RECEIVE))
    reader = rig.open("orders", RECEIVE)
    rig.driver.begin_turn()
    rig.driver.decide(
        lambda m: m.messages.dequeue_message(reader, timeout_ms=0), lambda answer: None
    )
    rig.driver.end_turn()
    rig.restart()
    assert rig.bodies("orders") == [b"x"]
    assert rig.classes("admin") == []


# -- the journal of the queue


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("end", ENDS)
def test_a_queue_with_journaling_keeps_what_was_received(
    rig: PostRig, delivery: str, end: str
) -> None:
    sender = Sender(rig, delivery)
    rig.set(sender.queue, journaling=True)
    identifier = sender.send(b"kept", time_to_be_received=10)
    if end == "deleted":
        return  # its journal goes with it
    rig.advance(5)
    ENDS[end][1](rig, sender.queue)
    journal = f"{sender.queue};journal"
    if end != "received":
        assert rig.bodies(journal) == []
        return
    (message,), (read,) = rig.messages(journal), rig.reads(journal)
    assert (message.identifier, message.body) == (identifier, b"kept")
    assert read.message_class == NORMAL
    assert read.arrived == rig.clock.utc_seconds
    rig.advance(1000)
    assert rig.bodies(journal) == [b"kept"]  # nothing expires there
    rig.restart()
    assert rig.bodies(journal) == ([] if delivery == EXPRESS else [b"kept"])


def test_a_queue_without_journaling_keeps_nothing(rig: PostRig) -> None:
    rig.send("orders", b"x")
    rig.receive("orders")
    assert rig.bodies("orders;journal") == []


@pytest.mark.parametrize("way", ["commit", "end", "lookup", "many", "wait", "subqueue"])
def test_every_way_to_receive_is_journaled(rig: PostRig, way: str) -> None:
    sender = Sender(rig, TRANSACTIONAL if way == "commit" else RECOVERABLE)
    name = sender.queue
    rig.set(name, journaling=True)
    reader = rig.open(name, RECEIVE)
    if way == "wait":
        rig.wait(reader, timeout_ms=60_000)
    sender.send(b"kept")
    if way == "commit":
        tx = rig.begin("read")
        rig.receive(reader, transaction=tx)
        assert rig.bodies(f"{name};journal") == []
        rig.commit(tx)
    elif way == "end":
        delivery = rig.driver.read(
            lambda m: m.messages.dequeue_message(reader, timeout_ms=0, two_phase=True)
        )
        assert delivery is not None
        lookup_id = delivery.read.lookup_id
        assert rig.bodies(f"{name};journal") == []
        rig.run(lambda m: m.messages.dequeue_message_end(reader, lookup_id, positive=True))
    elif way == "lookup":
        rig.lookup(reader, rig.reads(name)[0].lookup_id, peek=False)
    elif way == "many":
        rig.driver.read_many(lambda m: m.messages.dequeue_messages(reader, 5))
    elif way == "subqueue":
        lookup_id, target = rig.peek(reader).read.lookup_id, rig.open(f"{name};sub", MOVE)
        rig.run(lambda m: m.messages.move_message(reader, lookup_id, target))
        rig.receive(f"{name};sub")
    assert rig.bodies(f"{name};journal") == [b"kept"]


def test_a_full_journal_drops_the_copy_and_the_reader_gets_his_message(rig: PostRig) -> None:
    rig.set("orders", journaling=True, journal_quota_kib=1)
    for body in (bytes(600), bytes(600)):
        rig.send("orders", body)
    assert len(rig.receive("orders").message.body) == 600
    assert len(rig.receive("orders").message.body) == 600
    assert len(rig.bodies("orders;journal")) == 1
    assert rig.manager.machine.refusals["journal_copy_dropped"] == 1
    assert [e.details["queue"] for e in rig.events if e.name == "journal_full"] == [
        r"ALPHA\private$\orders;journal"
    ]


def test_a_message_of_a_journal_has_no_outcome_of_its_own(rig: PostRig) -> None:
    rig.set("orders", journaling=True)
    rig.send("orders", b"x", negative_journaling_requested=True, **asking(0x0F))
    rig.receive("orders")
    before = rig.classes("admin")
    rig.purge("orders;journal")
    assert rig.classes("admin") == before == [ACK_REACH_QUEUE, ACK_RECEIVE]
    assert rig.bodies(DEAD_LETTERS) == []


# -- the system journal


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/17")
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_positive_journaling_copies_what_was_delivered_here(rig: PostRig, delivery: str) -> None:
    sender = Sender(rig, delivery)
    identifier = sender.send(b"copied", positive_journaling_requested=True)
    sender.send(b"not copied")
    (copy,) = rig.messages(JOURNAL)
    assert (copy.identifier, copy.body) == (identifier, b"copied")
    assert rig.bodies(sender.queue) == [b"copied", b"not copied"]
    rig.restart()
    assert rig.bodies(JOURNAL) == ([] if delivery == EXPRESS else [b"copied"])


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/17")
def test_an_aborted_send_is_not_journaled(rig: PostRig) -> None:
    tx = rig.begin()
    rig.send("accounts", b"x", tx=tx, positive_journaling_requested=True)
    rig.abort(tx)
    assert rig.bodies(JOURNAL) == []


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/17")
@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("asked", [True, False])
def test_the_source_journals_what_the_destination_has_taken(
    rig: PostRig, delivery: str, asked: bool
) -> None:
    Sender(rig, delivery).send(b"far", to=FAR, positive_journaling_requested=asked)
    queue, _ = rig.outgoing()
    assert rig.bodies(JOURNAL) == []  # sent is not delivered
    rig.deliver()
    assert rig.bodies(JOURNAL) == ([b"far"] if asked else [])
    assert queue.state.count == 0
    assert books_of(queue).received == 1


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/17")
def test_only_the_source_journals(rig: PostRig) -> None:
    rig.from_afar("orders", b"x", positive_journaling_requested=True)
    assert rig.bodies(JOURNAL) == []


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/17")
def test_an_expired_message_is_not_journaled_as_delivered(rig: PostRig) -> None:
    rig.send(FAR, b"x", time_to_reach_queue=10, positive_journaling_requested=True)
    rig.advance(11)
    assert rig.bodies(JOURNAL) == rig.bodies(DEAD_LETTERS) == []


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/18", "MS-MQDMPR 3.1.1.1/6")
def test_a_full_system_journal_drops_the_copy_and_delivers_the_message() -> None:
    rig = PostRig(journal_quota=1 << 10)
    rig.create("orders")
    for _ in range(3):
        rig.send("orders", bytes(600), positive_journaling_requested=True)
    assert len(rig.bodies("orders")) == 3
    assert len(rig.bodies(JOURNAL)) == 1
    assert rig.manager.machine.refusals["journal_copy_dropped"] == 2
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/18")
def test_a_full_system_journal_does_not_hold_up_the_transfer(rig: PostRig) -> None:
    rig.set(JOURNAL, quota_kib=0)
    rig.send(FAR, b"far", positive_journaling_requested=True)
    queue, _ = rig.outgoing()
    rig.deliver()
    assert queue.state.count == 0
    assert rig.bodies(JOURNAL) == []


# -- dead letters


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/19", "MS-MQDMPR 3.1.1.12/21")
@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("asked", [True, False])
def test_an_undelivered_message_is_kept_with_the_reason_if_asked(
    rig: PostRig, delivery: str, end: str, asked: bool
) -> None:
    sender, (reason, act) = Sender(rig, delivery), ENDS[end]
    identifier = sender.send(b"x", time_to_be_received=10, negative_journaling_requested=asked)
    act(rig, sender.queue)
    expected = [reason] if asked and end != "received" else []
    assert rig.reasons(sender.dead_letters) == expected
    other = DEAD_LETTERS if delivery == TRANSACTIONAL else DEAD_TRANSACTIONAL
    assert rig.reasons(other) == []
    assert [m.identifier for m in rig.messages(sender.dead_letters)] == [identifier] * len(expected)
    for read in rig.reads(sender.dead_letters):
        assert is_negative(read.message_class)
        assert not class_name(read.message_class).startswith("0x")
        assert read.arrived == rig.clock.utc_seconds
    rig.advance(1000)
    rig.restart()
    rig.restart()
    survived = [] if delivery == EXPRESS else expected
    assert rig.reasons(sender.dead_letters) == survived


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/19", "MS-MQDMPR 3.1.1.12/21")
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_what_cannot_reach_its_queue_is_a_dead_letter_of_the_source(
    rig: PostRig, delivery: str
) -> None:
    sender = Sender(rig, delivery)
    sender.send(b"late", to=FAR, time_to_reach_queue=10, negative_journaling_requested=True)
    sender.send(b"dropped", to=FAR, time_to_reach_queue=10)
    rig.advance(11)
    assert rig.bodies(sender.dead_letters) == [b"late"]
    assert rig.reasons(sender.dead_letters) == [NACK_REACH_QUEUE_TIMEOUT]


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/19", "MS-MQDMPR 3.1.1.12/21")
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_what_the_destination_refuses_is_a_dead_letter_with_its_reason(
    rig: PostRig, delivery: str
) -> None:
    sender = Sender(rig, delivery)
    sender.send(b"no", to=FAR, negative_journaling_requested=True, **asking(0x0F))
    queue, _ = rig.outgoing()
    ((_, number),) = queue.state.order.forward()
    rig.run(lambda m: m.transfer.refused(queue, number, NACK_BAD_DEST_QUEUE))
    assert rig.reasons(sender.dead_letters) == [NACK_BAD_DEST_QUEUE]
    assert rig.classes("admin") == []  # the destination has told the administration queue
    assert books_of(queue).rejected == 1


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/20")
def test_a_full_dead_letter_queue_discards() -> None:
    rig = PostRig(journal_quota=1 << 10)
    rig.create("orders")
    rig.create("admin")
    for _ in range(3):
        rig.send(
            "orders", bytes(600), negative_journaling_requested=True, **asking(ACK_NEG_RECEIVE)
        )
    rig.purge("orders")
    assert len(rig.bodies(DEAD_LETTERS)) == 1
    assert rig.classes("admin") == [NACK_QUEUE_PURGED] * 3
    assert rig.manager.machine.refusals["journal_copy_dropped"] == 2
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/4", "MS-MQDMPR 3.1.1.12/21")
@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("end", NEGATIVE)
def test_the_applications_own_dead_letter_queue_comes_first(
    rig: PostRig, delivery: str, end: str
) -> None:
    rig.create("failed", transactional=delivery == TRANSACTIONAL)
    sender, (reason, act) = Sender(rig, delivery), ENDS[end]
    attributes = {
        "time_to_be_received": 10,
        "application_deadletter_queue": r".\private$\failed",
    }
    sender.send(b"x", negative_journaling_requested=True, **attributes)
    sender.send(b"not asked", **attributes)
    for _ in range(2):
        if rig.queue(sender.queue).state.count:
            act(rig, sender.queue)
        if end == "deleted":
            break
    assert rig.bodies("failed") == [b"x"]
    assert rig.reasons("failed") == [reason]
    assert rig.reasons(sender.dead_letters) == []


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/4", "MS-MQDMPR 3.1.1.12/21")
@pytest.mark.parametrize(
    "name",
    [
        r".\private$\nowhere",
        r"BRAVO\private$\failed",
        r".\private$\accounts",
        r".\private$\orders;journal",
        r".\private$\order_queue$",
        r".\private$\orders;poison",
        r".\system$;journal",
        r".\private$\full",
    ],
)
def test_the_systems_queue_stands_in_for_one_that_cannot_take_it(rig: PostRig, name: str) -> None:
    rig.create("full", quota_kib=0)
    rig.open("orders;poison", MOVE)
    rig.send("orders", b"x", negative_journaling_requested=True, application_deadletter_queue=name)
    rig.purge("orders")
    assert rig.bodies(DEAD_LETTERS) == [b"x"]
    assert rig.reasons(DEAD_LETTERS) == [NACK_QUEUE_PURGED]
    assert len(rig.manager.ledger.state.table) == 1


def test_room_promised_to_a_transaction_is_not_given_to_dead_letters(rig: PostRig) -> None:
    rig.create("failed", transactional=True, quota_kib=1)
    tx = rig.begin("send")
    rig.send("failed", bytes(500), tx=tx)
    Sender(rig, TRANSACTIONAL).send(
        bytes(500),
        negative_journaling_requested=True,
        application_deadletter_queue=r".\private$\failed",
    )
    rig.purge("accounts")
    assert len(rig.bodies(DEAD_TRANSACTIONAL)) == 1
    rig.commit(tx)
    assert len(rig.bodies("failed")) == 1


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/5")
def test_no_application_queue_is_named_by_default(rig: PostRig) -> None:
    assert Message().application_deadletter_queue == ""
    rig.send("orders", b"x", negative_journaling_requested=True)
    rig.purge("orders")
    assert rig.bodies(DEAD_LETTERS) == [b"x"]
    with rig.refused(0xC00E0014):  # it is a path name
        rig.send(rig.open("orders"), b"y", application_deadletter_queue="DIRECT=OS:ALPHA\\q")


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/4")
def test_the_applications_queue_is_remembered_over_a_restart(rig: PostRig) -> None:
    rig.create("failed")
    rig.send(
        "orders",
        b"x",
        time_to_be_received=10,
        negative_journaling_requested=True,
        application_deadletter_queue=r".\private$\failed",
    )
    rig.restart()
    rig.advance(11)
    assert rig.bodies("failed") == [b"x"]


def test_a_dead_letter_of_an_application_is_an_ordinary_message_of_its_queue(rig: PostRig) -> None:
    rig.create("failed", journaling=True)
    waiting = rig.wait(rig.open("failed", RECEIVE), timeout_ms=60_000)
    rig.send(
        "orders",
        b"x",
        negative_journaling_requested=True,
        application_deadletter_queue=r".\private$\failed",
        **asking(0x0F),
    )
    rig.purge("orders")
    assert [answer.error for answer in waiting] == [None]
    assert rig.bodies("failed;journal") == [b"x"]
    assert rig.classes("admin") == [ACK_REACH_QUEUE, NACK_QUEUE_PURGED]


def test_a_dead_letter_ends_without_another_word(rig: PostRig) -> None:
    for _ in range(3):
        rig.send("orders", b"x", negative_journaling_requested=True, **asking(0x0F))
    rig.purge("orders")
    before = rig.classes("admin")
    rig.receive(DEAD_LETTERS)
    rig.reject(DEAD_LETTERS)
    rig.purge(DEAD_LETTERS)
    assert rig.classes("admin") == before
    assert rig.reasons(DEAD_LETTERS) == []


@pytest.mark.parametrize("doom", ["purged", "deleted"])
def test_a_message_purged_in_a_readers_hands_lives_on_as_a_dead_letter(
    rig: PostRig, doom: str
) -> None:
    Sender(rig, TRANSACTIONAL).send(b"x", negative_journaling_requested=True)
    tx = rig.begin("read")
    rig.receive("accounts", transaction=tx)
    ENDS[doom][1](rig, "accounts")
    assert rig.reasons(DEAD_TRANSACTIONAL) == []
    rig.abort(tx)
    for _ in range(3):
        assert rig.reasons(DEAD_TRANSACTIONAL) == [ENDS[doom][0]]
        rig.restart()


def test_a_message_received_after_a_purge_is_journaled_for_good(rig: PostRig) -> None:
    rig.set("accounts", journaling=True)
    Sender(rig, TRANSACTIONAL).send(b"x", **asking(ACK_FULL_RECEIVE))
    tx = rig.begin("read")
    rig.receive("accounts", transaction=tx)
    rig.purge("accounts")
    rig.commit(tx)
    assert rig.classes("admin") == [ACK_RECEIVE]
    for _ in range(3):
        assert rig.bodies("accounts;journal") == [b"x"]
        rig.restart()


# -- messages of other machines


@pytest.mark.parametrize("authenticated", [True, False])
@pytest.mark.parametrize("insecure", [True, False])
@pytest.mark.parametrize("end", ENDS)
def test_strangers_get_no_negative_acknowledgments_unless_allowed(
    authenticated: bool, insecure: bool, end: str
) -> None:
    rig = PostRig(send_insecure_nacks=insecure)
    rig.create("orders")
    rig.create("admin")
    reason, act = ENDS[end]
    rig.from_afar("orders", authenticated=authenticated, time_to_be_received=10, **asking(0x0F))
    act(rig, "orders")
    told = authenticated or insecure or not is_negative(reason)
    assert rig.classes("admin") == [ACK_REACH_QUEUE] + ([reason] if told else [])
    rig.check_books()


def test_naming_a_queue_is_no_way_to_write_to_it(rig: PostRig) -> None:
    rig.deny("admin", EVERYONE, WRITE_MESSAGE)
    rig.from_afar("orders", b"x", **asking(0x0F))
    rig.receive("orders")
    assert rig.classes("admin") == []
    assert rig.manager.machine.refusals["acknowledgment_dropped"] == 2


@pytest.mark.spec("MS-MQQB 3.1.7.2/1", "MS-MQQB 3.1.7.2.2/1", "MS-MQQB 3.1.7.17/3")
@pytest.mark.spec("MS-MQDMPR 3.1.7.2.1/3", "MS-MQDMPR 3.1.1.12/50", "MS-MQDMPR 3.1.1.12/51")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    "wanted",
    [
        {"final_ack_required": True},
        {"negative_journaling_requested": True},
        {"positive_journaling_requested": True},
        asking(ACK_FULL_RECEIVE),
        {},
    ],
    ids=["final", "negative", "positive", "acknowledgments", "none"],
)
def test_other_machines_get_the_final_answer_about_their_transactional_messages(
    rig: PostRig, end: str, wanted: dict[str, Any]
) -> None:
    reason, act = ENDS[end]
    rig.from_afar("accounts", transactional=True, ordinal=9, time_to_be_received=10, **wanted)
    assert rig.owed() == []
    act(rig, "accounts")
    final = wanted and "acknowledgements_requested" not in wanted
    body = FINAL_ACK_BODY.pack(FinalAck(int(TxSequenceId(5, 1)), 9, 0, FAR_GUID, 9))
    assert rig.owed() == ([(reason, body)] if final else [])
    rig.restart()
    assert len(rig.owed()) == bool(final)
    assert rig.reasons(DEAD_TRANSACTIONAL) == []  # its source keeps it, on our word


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/51")
def test_nothing_final_is_owed_for_messages_without_a_transaction(rig: PostRig) -> None:
    rig.from_afar("orders", negative_journaling_requested=True, positive_journaling_requested=True)
    rig.receive("orders")
    rig.send("orders", negative_journaling_requested=True)
    rig.receive("orders")
    assert rig.owed() == rig.owed(rig.guid) == []


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/50")
def test_a_received_message_in_a_transaction_is_final_at_its_commit(rig: PostRig) -> None:
    rig.from_afar("accounts", transactional=True, final_ack_required=True)
    for name, finish, told in (("a", rig.abort, 0), ("b", rig.commit, 1)):
        tx = rig.begin(name)
        rig.receive("accounts", transaction=tx)
        assert rig.owed() == []
        finish(tx)
        assert len(rig.owed()) == told


def test_a_plain_message_of_another_machine_is_dead_lettered_here(rig: PostRig) -> None:
    rig.from_afar("orders", b"x", negative_journaling_requested=True)
    rig.purge("orders")
    assert rig.reasons(DEAD_LETTERS) == [NACK_QUEUE_PURGED]
    assert rig.messages(DEAD_LETTERS)[0].identifier.guid == FAR_GUID


# -- attributes that only travel along


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/22")
def test_no_queues_are_named_by_default(rig: PostRig) -> None:
    rig.send("orders", b"x")
    message = rig.receive("orders").message
    assert message.response_queue_format_name == message.administration_queue_format_name == ""
    assert message.destination_multi_queue_format_name == ()
    assert message.response_multi_queue_format_name == ()
    assert message.administration_multi_queue_format_name == ()
    assert message.correlation_identifier == NULL_MESSAGE_ID


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/46", "MS-MQDMPR 3.1.1.12/48")
def test_what_connectors_set_is_carried_and_not_interpreted(rig: PostRig) -> None:
    connector = bytes(range(100, 116))
    rig.send(
        "orders",
        b"x",
        connector_type_identifier=connector,
        authentication_provider_type=77,
        authentication_provider_name="Made Up Provider",
    )
    message = rig.receive("orders").message
    assert message.connector_type_identifier == connector
    assert message.authentication_provider_type == 77
    assert message.authentication_provider_name == "Made Up Provider"
    rig.send("orders", b"y")
    assert rig.receive("orders").message.connector_type_identifier == NULL_GUID


def outgoing_messages(rig: PostRig, name: str) -> list[Message]:
    queue, _ = rig.outgoing(name)
    return [deserialize(rig.store.read(number)) for _, number in queue.state.order.forward()]


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/49")
def test_sequence_identifiers_belong_to_transactional_messages_and_grow(rig: PostRig) -> None:
    rig.send("orders", b"x")
    assert rig.messages("orders")[0].transactional_message_sequence_identifier is None
    sender, found = Sender(rig, TRANSACTIONAL), []
    for computer in ("B", "C", "D"):
        name = rf"DIRECT=OS:{computer}\private$\q"
        sender.send(b"x", to=name)
        (message,) = outgoing_messages(rig, name)
        sequence = message.transactional_message_sequence_identifier
        assert sequence is not None
        found.append(int(sequence))
        rig.restart()
    assert found == sorted(set(found))
    assert all(sequence >> 32 and sequence & 0xFFFFFFFF for sequence in found)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/52")
def test_first_and_last_are_marked_for_each_destination(rig: PostRig) -> None:
    rig.create("more", transactional=True)
    Sender(rig, TRANSACTIONAL).send(b"to be read")
    tx = rig.begin("mixed")
    rig.receive("accounts", transaction=tx)
    for name in ("accounts", "more", "accounts", "accounts"):
        rig.send(name, tx=tx)
    rig.commit(tx)

    def marks(name: str) -> list[int]:
        return [read.flags & (FLAG_FIRST | FLAG_LAST) for read in rig.reads(name)]

    assert marks("accounts") == [FLAG_FIRST, 0, FLAG_LAST]
    assert marks("more") == [FLAG_FIRST | FLAG_LAST]


def test_stopping_is_no_end_of_a_message(rig: PostRig) -> None:
    rig.send("orders", b"x", negative_journaling_requested=True, **asking(ACK_FULL_RECEIVE))
    waiting = rig.wait(rig.open("accounts", RECEIVE), timeout_ms=60_000)
    rig.driver.manager.stop()
    rig.driver.end_turn()
    rig.driver.sync()
    rig.driver.release()
    assert [type(answer.error) for answer in waiting] == [OperationCancelled]
    rig.restart()
    assert rig.bodies("orders") == [b"x"]
    assert rig.classes("admin") == []
