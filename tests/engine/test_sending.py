"""Enqueue Message: what is taken, what is refused, and when it is answered."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.ledger.records import (
    CHANGE,
    EXPRESS,
    FLAG_AUTHENTICATED,
    FLAG_EXPRESS,
    FLAG_REMOTE,
    FLAG_TRANSACTIONAL,
    MESSAGE,
    unpack_arrival,
)
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.model.errors import (
    AccessDenied,
    MessageNotAuthenticated,
    QueueNotAvailable,
    TransactionUsage,
)
from posthouse.model.message import (
    ACK_NEG_RECEIVE,
    ACK_NONE,
    ACK_POS_ARRIVAL,
    ACK_POS_RECEIVE,
    MESSAGE_SIZE_MAX,
    DeliveryGuarantee,
    EncryptionAlgorithm,
    Message,
    MessageId,
    PrivacyLevel,
    SenderIdentifierType,
    TxSequenceId,
)
from posthouse.runtime.driver import Answer
from posthouse.security.access import Caller
from posthouse.wire.packet.message import deserialize
from tests.engine.rig import PEEK, RECEIVE, RECOVERABLE, START_UTC, Rig
from tests.engine.sends import PEER, arrives, packet_of, size_of, transactional_packet

INSUFFICIENT_RESOURCES = 0xC00E0027
ILLEGAL_PROPERTY_VALUE = 0xC00E0018


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create("orders")
    return rig


@pytest.fixture
def out(rig: Rig) -> OpenQueueDescriptor:
    """The queue open for sending, with the first block of every counter reserved."""
    descriptor = rig.open("orders")
    rig.send(descriptor)
    rig.receive("orders")
    return descriptor


# -- what is taken, and where it stands


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/10", "MS-MQDMPR 3.1.7.1.27/1")
def test_a_message_sent_outside_a_transaction_is_there_at_once(rig: Rig) -> None:
    reader = rig.open("orders", RECEIVE)
    answers = rig.wait(reader)
    identifier = rig.send("orders", b"one")
    (answer,) = answers
    assert deserialize(answer.packets[0]).identifier == identifier
    rig.send("orders", b"two")
    assert deserialize(rig.peek("orders").packet).body == b"two"


@pytest.mark.parametrize("recoverable", [True, False])
@pytest.mark.parametrize("priority", range(8))
def test_any_delivery_and_priority_comes_out_as_it_went_in(
    rig: Rig, priority: int, recoverable: bool
) -> None:
    rig.send("orders", b"b", recoverable=recoverable, priority=priority)
    (read,) = rig.reads("orders")
    assert read.priority == priority
    assert bool(read.flags & FLAG_EXPRESS) is not recoverable
    message = deserialize(rig.receive("orders").packet)
    assert (message.priority, message.delivery_guarantee) == (priority, int(recoverable))


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/6", "MS-MQDMPR 3.1.7.1.9/7", "MS-MQDMPR 3.1.1.12/16")
def test_higher_priority_goes_first_and_equals_in_order_of_arrival(rig: Rig) -> None:
    for round_ in b"ab":
        for priority in (3, 0, 7, 5):
            rig.send("orders", bytes([round_, 48 + priority]), priority=priority)
    expected = [b"a7", b"b7", b"a5", b"b5", b"a3", b"b3", b"a0", b"b0"]
    assert rig.bodies("orders") == expected
    rig.restart()
    assert rig.bodies("orders") == expected
    assert [deserialize(rig.receive("orders").packet).body for _ in expected] == expected


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/5", "MS-MQDMPR 3.1.1.12/1")
def test_lookup_identifiers_grow_whatever_the_priority_and_have_a_zero_high_byte(
    rig: Rig,
) -> None:
    rig.create("other")
    given = []
    for name, priority in (("orders", 0), ("other", 7), ("orders", 7), ("orders", 3)):
        known = {read.lookup_id for read in rig.reads(name)}
        rig.send(name, priority=priority)
        (new,) = {read.lookup_id for read in rig.reads(name)} - known
        given.append(new)
    assert given == sorted(set(given))
    assert all(0 < lookup_id < 1 << 56 for lookup_id in given)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/6")
def test_the_arrival_time_is_when_the_queue_got_it_not_when_it_was_sent(rig: Rig) -> None:
    arrives(rig, rig.queue("orders"), packet_of(sent_time=START_UTC - 1000))
    (read,) = rig.reads("orders")
    assert read.arrived == START_UTC
    assert rig.messages("orders")[0].sent_time == START_UTC - 1000


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/29")
def test_the_source_machine_is_where_the_message_was_handed_in(rig: Rig) -> None:
    rig.send("orders", b"ours", source_machine_identifier=PEER)
    assert rig.messages("orders")[0].source_machine_identifier == rig.manager.machine.identifier
    packet = packet_of(source_machine_identifier=PEER, identifier=MessageId(PEER, 77))
    arrives(rig, rig.queue("orders"), packet)
    assert rig.messages("orders")[1].source_machine_identifier == PEER
    assert rig.messages("orders")[1].identifier == MessageId(PEER, 77)
    outgoing = rig.open(r"DIRECT=OS:GAMMA\private$\q")
    number = arrives(rig, outgoing.target(), packet)
    assert deserialize(rig.store.read(number)).source_machine_identifier == PEER


def test_the_sender_is_the_caller_unless_he_wants_to_be_nobody(rig: Rig) -> None:
    rig.send("orders", sender_identifier=b"somebody else")
    rig.send("orders", sender_identifier_type=SenderIdentifierType.NONE)
    rig.send(
        "orders",
        sender_identifier=PEER,
        sender_identifier_type=SenderIdentifierType.QUEUE_MANAGER_IDENTIFIER,
    )
    named, nameless, machine = rig.messages("orders")
    assert named.sender_identifier == rig.admin.sid
    assert nameless.sender_identifier == b""
    assert machine.sender_identifier == PEER


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/15")
def test_a_message_is_traced_only_when_its_sender_asks_for_it(rig: Rig) -> None:
    rig.send("orders")
    rig.send("orders", tracing_requested=True, tracing_queue_identifier=PEER)
    plain, traced = rig.messages("orders")
    assert (plain.tracing_requested, plain.tracing_queue_identifier) == (False, bytes(16))
    assert (traced.tracing_requested, traced.tracing_queue_identifier) == (True, PEER)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/48")
def test_a_provider_that_a_connector_names_is_carried_and_means_nothing(rig: Rig) -> None:
    rig.send("orders", authentication_provider_type=77, authentication_provider_name="Mine")
    (message,) = rig.messages("orders")
    assert message.authentication_provider_type == 77
    assert message.authentication_provider_name == "Mine"
    assert not rig.reads("orders")[0].flags & FLAG_AUTHENTICATED


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/14", "MS-MQDMPR 3.1.1.12/25", "MS-MQDMPR 3.1.1/1")
def test_a_recoverable_message_survives_a_kill_with_every_attribute(rig: Rig) -> None:
    rig.create("admin")
    rig.send(
        "orders",
        b"\0body\xff",
        label="läbel\t\U0001f4ee",
        priority=6,
        application_tag=0xFFFFFFFE,
        body_type=8209,
        correlation_identifier=MessageId(PEER, 9),
        extension=b"ext\0",
        administration_queue_format_name=r"DIRECT=OS:ALPHA\private$\admin",
        response_queue_format_name=r"DIRECT=TCP:10.0.0.1\private$\reply",
        acknowledgements_requested=ACK_POS_RECEIVE | ACK_NEG_RECEIVE,
        positive_journaling_requested=True,
        negative_journaling_requested=True,
        time_to_be_received=1000,
        message_class=0x7ABC,
        application_deadletter_queue=r".\private$\admin",
        tracing_requested=True,
        tracing_queue_identifier=PEER,
        connector_type_identifier=PEER,
    )
    before, row = rig.messages("orders")[0], rig.reads("orders")[0]
    number = row.number
    kept = rig.manager.messages.find_row(number), rig.manager.ledger.extra(number)
    rig.restart()
    assert rig.messages("orders") == [before]
    assert rig.reads("orders") == [row]
    assert (rig.manager.messages.find_row(number), rig.manager.ledger.extra(number)) == kept
    assert before.label == "läbel\t\U0001f4ee"
    assert rig.manager.ledger.extra(number).dead_letter == r".\private$\admin"


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/13")
def test_an_express_message_may_be_lost_with_the_service_and_a_recoverable_one_not(
    rig: Rig,
) -> None:
    rig.send("orders", b"express", recoverable=False)
    rig.send("orders", b"kept")
    rig.restart()
    assert rig.bodies("orders") in ([b"kept"], [b"express", b"kept"])
    rig.check_books()


def test_the_records_of_a_send_are_one_message_or_a_message_and_its_change(rig: Rig) -> None:
    out = rig.open("orders")
    rig.create("admin")
    rig.send(out)

    def send(**attributes: Any) -> list[int]:
        message = Message(delivery_guarantee=attributes.pop("delivery", RECOVERABLE), **attributes)
        effects = rig.decide(lambda m: m.messages.enqueue_message_to_an_open_queue(out, message))
        return [record[0] for record in effects.records]

    assert send() == [MESSAGE]
    assert send(delivery=DeliveryGuarantee.EXPRESS) == [EXPRESS]
    # The message and its journal copy are true together, when the change is in the log.
    assert send(positive_journaling_requested=True) == [MESSAGE, MESSAGE, CHANGE]


# -- success after the sync


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/11", "MS-MQDMPR 3.1.1.12/14")
def test_a_send_is_answered_only_when_it_is_synced(rig: Rig) -> None:
    out, driver = rig.open("orders"), rig.driver
    answers: list[Answer] = []
    message = Message(delivery_guarantee=RECOVERABLE)
    driver.begin_turn()
    driver.decide(
        lambda m: m.messages.enqueue_message_to_an_open_queue(out, message), answers.append
    )
    driver.end_turn()
    driver.release()
    assert answers == []
    driver.sync()
    driver.release()
    assert answers[0].value == message.identifier


def test_a_send_that_was_not_synced_is_gone_after_a_kill_and_its_numbers_are_not_reused(
    rig: Rig,
) -> None:
    out, driver = rig.open("orders"), rig.driver
    first = rig.send(out, b"kept")
    driver.begin_turn()
    message = Message(body=b"lost", delivery_guarantee=RECOVERABLE)
    driver.decide(
        lambda m: m.messages.enqueue_message_to_an_open_queue(out, message), lambda a: None
    )
    driver.end_turn()
    rig.restart()
    assert rig.bodies("orders") == [b"kept"]
    ids = {first, rig.send("orders", b"later")}
    assert len(ids) == 2
    lookup_ids = [read.lookup_id for read in rig.reads("orders")]
    assert lookup_ids == sorted(set(lookup_ids))


# -- kinds of messages and queues


def test_a_transactional_queue_takes_messages_of_transactions_only(rig: Rig) -> None:
    rig.create("strict", transactional=True)
    strict, loose = rig.open("strict"), rig.open("orders")
    tx = rig.begin()
    rig.send(strict, tx=tx)
    rig.send(loose)
    with rig.refused(TransactionUsage.code, "is transactional, the message is not"):
        rig.send(strict)
    with rig.refused(TransactionUsage.code, "is not transactional"):
        rig.send(loose, tx=tx)
    assert len(tx.operations) == 1


def test_a_peers_message_is_transactional_by_its_header(rig: Rig) -> None:
    rig.create("strict", transactional=True)
    arrives(rig, rig.queue("strict"), transactional_packet())
    arrives(rig, rig.queue("orders"), packet_of())
    with rig.refused(TransactionUsage.code):
        arrives(rig, rig.queue("orders"), transactional_packet())
    with rig.refused(TransactionUsage.code):
        arrives(rig, rig.queue("strict"), packet_of())
    (read,) = rig.reads("strict")
    assert read.flags & FLAG_TRANSACTIONAL
    assert read.priority == 0


@pytest.mark.parametrize("name", ["orders", r"DIRECT=OS:BETA\private$\q"])
def test_a_packet_of_a_client_has_a_transaction_header_in_transactions_only(
    rig: Rig, name: str
) -> None:
    out, tx = rig.open(name), rig.begin()
    with rig.refused(TransactionUsage.code, "outside a transaction"):
        rig.run(lambda m: m.messages.send_packets(out, [transactional_packet()]))
    with rig.refused(TransactionUsage.code, "no TransactionHeader"):
        rig.run(lambda m: m.messages.send_packets(out, [packet_of()], tx))
    assert tx.operations == []


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/49")
def test_an_object_sent_in_a_transaction_before_is_not_transactional_for_ever(rig: Rig) -> None:
    rig.create("strict", transactional=True)
    strict, loose = rig.open("strict"), rig.open("orders")
    message, tx = Message(body=b"again", first_in_transaction=True), rig.begin()
    message.last_in_transaction = True
    message.transaction_sequence_number = message.transaction_previous_sequence_number = 9
    rig.run(lambda m: m.messages.enqueue_message_to_an_open_queue(strict, message, tx))
    rig.commit(tx)
    (first,) = rig.messages("strict")
    assert first.transactional_message_sequence_identifier == TxSequenceId(0, 0)
    assert (first.transaction_identifier, first.transaction_sequence_number) == (tx.number, 0)
    assert first.transaction_previous_sequence_number == 0
    assert (first.first_in_transaction, first.last_in_transaction) == (False, False)
    rig.run(lambda m: m.messages.enqueue_message_to_an_open_queue(loose, message))
    (second,) = rig.messages("orders")
    assert second.transactional_message_sequence_identifier is None
    assert second.transaction_identifier == 0


def test_an_authenticated_queue_takes_verified_messages_only(rig: Rig) -> None:
    queue = rig.create("signed", authentication=True)
    with rig.refused(MessageNotAuthenticated.code, "authenticated messages only"):
        arrives(rig, queue, packet_of())
    arrives(rig, queue, packet_of(), FLAG_REMOTE | FLAG_AUTHENTICATED)
    assert len(rig.reads("signed")) == 1


@pytest.mark.parametrize(
    ("level", "clear", "sealed"), [(0, True, False), (1, True, True), (2, False, True)]
)
def test_a_queue_says_whether_it_wants_its_messages_encrypted(
    rig: Rig, level: int, clear: bool, sealed: bool
) -> None:
    queue = rig.create("private", privacy_level=level)
    encrypted = packet_of(
        privacy_level=PrivacyLevel.ADVANCED,
        encryption_algorithm=EncryptionAlgorithm.AES256,
        symmetric_key=b"key",
    )
    for packet, taken in ((packet_of(), clear), (encrypted, sealed)):
        if taken:
            arrives(rig, queue, packet)
        else:
            with rig.refused(ILLEGAL_PROPERTY_VALUE, "encrypted"):
                arrives(rig, queue, packet)
    assert len(rig.reads("private")) == clear + sealed


# -- bad input


@pytest.mark.parametrize(
    ("code", "bad"),
    [
        (0xC00E005D, {"label": "x" * 250}),
        (ILLEGAL_PROPERTY_VALUE, {"label": "a\0b"}),
        (ILLEGAL_PROPERTY_VALUE, {"priority": 8}),
        (ILLEGAL_PROPERTY_VALUE, {"priority": -1}),
        (ILLEGAL_PROPERTY_VALUE, {"body_type": 1 << 32}),
        (ILLEGAL_PROPERTY_VALUE, {"application_tag": -1}),
        (ILLEGAL_PROPERTY_VALUE, {"time_to_be_received": 1 << 32}),
        (ILLEGAL_PROPERTY_VALUE, {"acknowledgements_requested": 16}),
        (ILLEGAL_PROPERTY_VALUE, {"message_class": 0x10000}),
        (ILLEGAL_PROPERTY_VALUE, {"sender_identifier_type": 9}),
        (0xC00E003B, {"connector_type_identifier": b"short"}),
        (0xC00E003B, {"correlation_identifier": MessageId(b"", 1)}),
        (0xC00E001E, {"administration_queue_format_name": "nonsense"}),
        (0xC00E001E, {"response_queue_format_name": r"DIRECT=OS:a\b,DIRECT=OS:c\d"}),
        (0xC00E0014, {"application_deadletter_queue": "DIRECT=OS:x"}),
    ],
)
def test_a_bad_property_is_refused_and_nothing_changes(
    rig: Rig, out: OpenQueueDescriptor, code: int, bad: dict[str, Any]
) -> None:
    with rig.refused(code):
        rig.send(out, **bad)


def test_a_message_over_the_packet_limit_is_refused(rig: Rig, out: OpenQueueDescriptor) -> None:
    largest = MESSAGE_SIZE_MAX - size_of(b"")
    with rig.refused(INSUFFICIENT_RESOURCES, "packet holds at most"):
        rig.send(out, bytes(largest + 1))
    with rig.refused(INSUFFICIENT_RESOURCES, "packet holds at most"):
        rig.send(out, b"", extension=bytes(MESSAGE_SIZE_MAX + 1))
    rig.send(out, bytes(largest))
    assert rig.queue("orders").state.bytes == MESSAGE_SIZE_MAX


def check_refused(rig: Rig, descriptor: OpenQueueDescriptor, code: int) -> None:
    """Neither a message nor a packet gets through this handle."""
    with rig.refused(code):
        rig.send(descriptor)
    with rig.refused(code):
        rig.run(lambda m: m.messages.send_packets(descriptor, [packet_of()]))


def test_who_has_the_queue_open_for_something_else_cannot_send(rig: Rig) -> None:
    for access in (RECEIVE, PEEK):
        check_refused(rig, rig.open("orders", access), AccessDenied.code)


def test_rights_are_looked_at_again_when_they_change(rig: Rig) -> None:
    stranger = Caller.anonymous()
    out = rig.open("orders", caller=stranger)
    rig.send(out)
    security = rig.create("shut", authentication=True).definition.security
    rig.run(lambda m: m.queues.set_queue(r".\private$\orders", rig.admin, authentication=True))
    assert security
    with rig.refused(AccessDenied.code):
        rig.send(out)


def test_a_queue_that_was_closed_or_deleted_takes_nothing(rig: Rig) -> None:
    rig.create("gone")
    closed, deleted = rig.open("orders"), rig.open("gone")
    rig.close(closed)
    rig.run(lambda m: m.queues.delete_queue(r".\private$\gone", rig.admin))
    for descriptor in (closed, deleted):
        check_refused(rig, descriptor, QueueNotAvailable.code)


# -- what a sender asks for


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/17", "MS-MQDMPR 3.1.1.12/18")
def test_positive_journaling_copies_what_was_delivered_while_the_journal_has_room() -> None:
    rig = Rig(journal_quota=1 << 10)
    rig.create("orders")
    rig.send("orders", b"no copy")
    rig.send("orders", b"copy", positive_journaling_requested=True)
    assert rig.bodies(r".\system$;journal") == [b"copy"]
    rig.send("orders", bytes(1000), positive_journaling_requested=True)
    assert rig.bodies(r".\system$;journal") == [b"copy"]
    assert rig.bodies("orders") == [b"no copy", b"copy", bytes(1000)]
    rig.restart()
    assert rig.bodies(r".\system$;journal") == [b"copy"]


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/30", "MS-MQDMPR 3.1.1.12/31", "MS-MQDMPR 3.1.1.12/32")
@pytest.mark.parametrize(
    ("asked", "on_arrival", "on_receive"),
    [
        (ACK_NONE, 0, 0),
        (ACK_POS_ARRIVAL, 1, 0),
        (ACK_POS_RECEIVE, 0, 1),
        (ACK_POS_ARRIVAL | ACK_POS_RECEIVE, 1, 1),
    ],
)
def test_acknowledgments_come_as_they_were_asked_for(
    rig: Rig, asked: int, on_arrival: int, on_receive: int
) -> None:
    rig.create("admin")
    sent = rig.send(
        "orders",
        acknowledgements_requested=asked,
        administration_queue_format_name=r"DIRECT=OS:ALPHA\private$\admin",
    )
    assert len(rig.messages("admin")) == on_arrival
    rig.receive("orders")
    acks = rig.messages("admin")
    assert len(acks) == on_arrival + on_receive
    assert all(ack.correlation_identifier == sent for ack in acks)


def test_each_message_of_a_batch_has_its_own_places_in_the_log(rig: Rig) -> None:
    out = rig.open("orders")
    labels = ["one", "one", "longer than one", "one", "", ""]
    bodies = [b"1", b"2", b"3", b"44", b"55", b"6"]
    packets = [
        packet_of(label=label, body=body) for label, body in zip(labels, bodies, strict=True)
    ]
    effects = rig.decide(lambda m: m.messages.send_packets(out, packets))
    arrived = [record for record in effects.records if record[0] == MESSAGE]
    for (_, _, head, packet), label, body in zip(arrived, labels, bodies, strict=True):
        label_at, label_size, _, _, body_at, body_size = unpack_arrival(head).span
        assert packet[label_at : label_at + label_size].decode("utf-16-le").rstrip("\0") == label
        assert packet[body_at : body_at + body_size] == body
