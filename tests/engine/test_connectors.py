"""Connector queues: when there are some, what comes into them, what connectors say of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from posthouse.directory import objects
from posthouse.engine.directory.connectors import MACHINES_MAX
from posthouse.engine.queues.open_queues import QueueAccessType
from posthouse.engine.queues.queue import QueueRole, QueueType
from posthouse.engine.transfer.protocol_interface import Verdict
from posthouse.model.errors import (
    AccessDenied,
    InvalidParameter,
    QueueNotFound,
    UnsupportedFormatNameOperation,
)
from posthouse.model.message_classes import (
    ACK_REACH_QUEUE,
    ACK_RECEIVE,
    NACK_ACCESS_DENIED,
    NACK_BAD_DEST_QUEUE,
    NACK_NOT_TRANSACTIONAL_MESSAGE,
    NACK_NOT_TRANSACTIONAL_QUEUE,
    NACK_QUEUE_EXCEED_QUOTA,
    NACK_RECEIVE_TIMEOUT,
    NORMAL,
    ORDER_ACK,
)
from posthouse.model.names import PrivateName
from posthouse.security.access import default_queue_descriptor
from posthouse.security.rights import RECEIVE_MESSAGE, WRITE_MESSAGE
from posthouse.security.sids import ADMINISTRATORS, EVERYONE
from posthouse.wire.packet.message import deserialize
from tests.engine.foreign import (
    CONNECTOR,
    HOME,
    LEDGER_STREAM,
    PRIVATE,
    SITE,
    STREAM,
    SYSTEM,
    XACTONLY,
    ForeignRig,
    addressed,
)
from tests.engine.letters import ALICE, DEAD_LETTERS, DEAD_TRANSACTIONAL, FAR_GUID, JOURNAL
from tests.engine.rig import PEEK, RECEIVE, SEND

ANSWERS_HERE = r"DIRECT=OS:ALPHA\private$\answers"


@pytest.fixture
def rig() -> ForeignRig:
    return ForeignRig(send_insecure_nacks=True)


def connectors(rig: ForeignRig) -> list[str]:
    return [queue.name for queue in rig.manager.queues.collection.connector_queues()]


def local_answers(rig: ForeignRig) -> list[int]:
    return [message.message_class for message in rig.messages("answers")]


# -- when there are some


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/14")
def test_a_routing_server_of_a_foreign_site_has_two_of_them(rig: ForeignRig) -> None:
    assert connectors(rig) == [CONNECTOR, XACTONLY]
    for name, transactional in ((CONNECTOR, False), (XACTONLY, True)):
        definition = rig.queue(name).definition
        assert definition.queue_type is QueueType.CONNECTOR
        assert definition.role is QueueRole.CONNECTOR
        assert definition.transactional is transactional
        assert definition.label == "Beyond"


def test_they_come_back_after_a_restart(rig: ForeignRig) -> None:
    rig.take(rig.arriving(b"kept"))
    numbers = [rig.queue(name).number for name in (CONNECTOR, XACTONLY)]
    rig.restart()
    assert [rig.queue(name).number for name in (CONNECTOR, XACTONLY)] == numbers
    assert rig.in_queue() == [b"kept"]
    rig.check_books()


@pytest.mark.parametrize(
    ("sites", "routing"), [((HOME,), True), ((), True), ((HOME, SITE), False), ((SITE,), False)]
)
def test_others_have_none(sites: tuple[bytes, ...], routing: bool) -> None:
    rig = ForeignRig(connected=False)
    rig.belong(*sites, routing_server=routing)
    assert connectors(rig) == []
    with rig.refused(QueueNotFound.code, match="not a routing server of that foreign site"):
        rig.open(CONNECTOR, RECEIVE)


def test_a_site_that_becomes_foreign_gets_them(rig: ForeignRig) -> None:
    rig.write(objects.Site(identifier=SITE, name="Beyond", foreign_site=False))
    assert connectors(rig) == []
    rig.write(objects.Site(identifier=SITE, name="Beyond", foreign_site=True))
    assert connectors(rig) == [CONNECTOR, XACTONLY]


def test_they_are_called_as_the_site_is_now(rig: ForeignRig) -> None:
    rig.write(objects.Site(identifier=SITE, name="Further", foreign_site=True))
    for restarted in (False, True):
        if restarted:
            rig.restart()
        labels = [rig.queue(name).definition.label for name in (CONNECTOR, XACTONLY)]
        assert labels == ["Further", "Further"]


def test_they_stay_while_they_hold_messages_or_are_read(rig: ForeignRig) -> None:
    rig.take(rig.arriving(b"kept"))
    reader = rig.reader(XACTONLY)
    rig.belong(HOME)
    assert connectors(rig) == [CONNECTOR, XACTONLY]
    assert "no longer a connector server" in rig.manager.directory.connectors.state_of(
        rig.queue(CONNECTOR)
    )
    rig.close(reader)
    assert connectors(rig) == [CONNECTOR]
    assert rig.hand_over(ACK_RECEIVE) == b"kept"
    assert connectors(rig) == []
    rig.check_books()


# -- who may do what


def test_nobody_sends_to_a_connector_queue(rig: ForeignRig) -> None:
    for name in (CONNECTOR, XACTONLY, "CONNECTOR=00000000-0000-0000-0000-000000000001"):
        with rig.refused(UnsupportedFormatNameOperation.code, match="filled by routing"):
            rig.open(name, SEND)


def test_reading_it_is_a_right(rig: ForeignRig) -> None:
    for access in (RECEIVE, PEEK):
        with rig.refused(AccessDenied.code):
            rig.open(CONNECTOR, access, ALICE)
    rig.run(
        lambda m: m.queues.set_queue_security(
            CONNECTOR, rig.admin, rig.security(CONNECTOR).grant(ALICE.sid, RECEIVE_MESSAGE).pack()
        )
    )
    rig.close(rig.open(CONNECTOR, RECEIVE, ALICE))


def test_it_cannot_be_deleted_or_made_another(rig: ForeignRig) -> None:
    with rig.refused(AccessDenied.code):
        rig.run(lambda m: m.queues.delete_queue(CONNECTOR, rig.admin))
    rig.run(lambda m: m.queues.set_queue(CONNECTOR, rig.admin, label="bridge", quota_kib=7))
    assert rig.queue(CONNECTOR).definition.quota_kib == 7
    with pytest.raises(Exception, match="journaling"):
        rig.run(lambda m: m.queues.set_queue(CONNECTOR, rig.admin, journaling=True))


# -- messages of other machines


@pytest.mark.parametrize("express", [True, False])
@pytest.mark.parametrize("to", [STREAM, PRIVATE])
def test_what_is_for_a_foreign_system_waits_for_its_connector(
    rig: ForeignRig, express: bool, to: str
) -> None:
    assert rig.take(rig.arriving(b"one", to, express=express)) == Verdict(1)
    assert rig.in_queue() == [b"one"]
    (message,) = rig.messages(CONNECTOR)
    assert message.destination_queue_format_name == to
    assert rig.answers() == []  # it has not reached its queue
    rig.check_books()


def test_it_comes_in_once(rig: ForeignRig) -> None:
    packet = rig.arriving(b"one")
    rig.take(packet, packet)
    rig.take(packet)
    rig.restart()
    rig.take(packet)
    assert rig.in_queue() == [b"one"]


def test_transactional_messages_come_in_order_and_once(rig: ForeignRig) -> None:
    rig.take(rig.in_order(1, 0), rig.in_order(2, 1))
    verdict = rig.take(rig.in_order(2, 1), rig.in_order(4, 3), rig.in_order(3, 2))
    assert rig.in_queue(XACTONLY) == [b"1", b"2", b"3"]
    assert verdict.sequences == ((rig.queue(XACTONLY).number, FAR_GUID),)
    rig.restart()
    rig.take(rig.in_order(3, 2), rig.in_order(4, 3))
    assert rig.in_queue(XACTONLY) == [b"1", b"2", b"3", b"4"]


def test_queues_of_the_system_have_sequences_of_their_own(rig: ForeignRig) -> None:
    rig.take(rig.in_order(1, 0), rig.in_order(1, 0, PRIVATE, body=b"other"))
    assert rig.in_queue(XACTONLY) == [b"1", b"other"]


def test_the_kind_of_a_public_queue_is_in_the_directory(rig: ForeignRig) -> None:
    rig.take(rig.arriving(b"x", LEDGER_STREAM))
    assert rig.answer_classes() == [NACK_NOT_TRANSACTIONAL_MESSAGE]
    rig.take(rig.in_order(1, 0, STREAM, ordinal=9))
    assert rig.final_acks() == [(NACK_NOT_TRANSACTIONAL_QUEUE, 9, 1)]
    assert rig.in_queue() == rig.in_queue(XACTONLY) == []


@pytest.mark.parametrize(
    "name",
    [
        "PUBLIC=00000000-0000-0000-0000-000000000099",
        str(PrivateName(SYSTEM, 4)),
        r"DIRECT=OS:STREAMS\orders",
    ],
)
def test_a_queue_that_is_none_is_refused(rig: ForeignRig, name: str) -> None:
    rig.take(rig.arriving(b"x", name))
    assert rig.in_queue() == []
    assert rig.answer_classes() == [NACK_BAD_DEST_QUEUE]


def test_the_directory_says_who_may_send_there(rig: ForeignRig) -> None:
    security = default_queue_descriptor(ADMINISTRATORS, ())
    found = rig.manager.transfer.receiving.targets.find_queue(bytes(range(112, 128)))
    assert found is not None
    rig.write(msgspec.structs.replace(found, security=security))
    rig.take(rig.arriving())
    assert rig.in_queue() == []
    assert rig.answer_classes() == [NACK_ACCESS_DENIED]


def test_without_a_word_of_the_directory_the_connector_queue_says_so(rig: ForeignRig) -> None:
    rig.run(
        lambda m: m.queues.set_queue_security(
            CONNECTOR, rig.admin, rig.security(CONNECTOR).deny(EVERYONE, WRITE_MESSAGE).pack()
        )
    )
    rig.take(rig.arriving())
    assert rig.answer_classes() == [NACK_ACCESS_DENIED]


def test_a_full_connector_queue_refuses(rig: ForeignRig) -> None:
    rig.run(lambda m: m.queues.set_queue(CONNECTOR, rig.admin, quota_kib=1))
    rig.take(rig.arriving(bytes(2000)))
    assert rig.answer_classes() == [NACK_QUEUE_EXCEED_QUOTA]


def test_systems_behind_another_machine_are_passed_on(rig: ForeignRig) -> None:
    elsewhere = bytes(range(144, 160))
    rig.enter(objects.Site(identifier=bytes(15) + b"e", name="Elsewhere", foreign_site=True))
    rig.enter(
        objects.QueueManager(
            identifier=elsewhere,
            computer_name="OTHER",
            foreign_system=True,
            site_identifier_list=(bytes(15) + b"e",),
        )
    )
    name = str(PrivateName(elsewhere, 0x21))
    rig.take(addressed(rig.asking(b"x", destination_queue_format_name=name), elsewhere))
    assert rig.in_queue() == []
    assert len(rig.sent(name)) == 1


def test_addresses_that_somebody_makes_up_are_not_kept_for_ever(rig: ForeignRig) -> None:
    for number in range(MACHINES_MAX + 10):
        assert not rig.manager.directory.connectors.takes(number.to_bytes(16, "big"))
    assert len(rig.manager.directory.connectors._site_of) <= MACHINES_MAX
    rig.take(rig.arriving(b"still"))
    assert rig.in_queue() == [b"still"]


# -- what a connector says of them


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ACK_REACH_QUEUE, [ACK_REACH_QUEUE]),
        (ACK_RECEIVE, [ACK_REACH_QUEUE, ACK_RECEIVE]),
        (NACK_BAD_DEST_QUEUE, [NACK_BAD_DEST_QUEUE]),
        (NACK_ACCESS_DENIED, [NACK_ACCESS_DENIED]),
        (NACK_RECEIVE_TIMEOUT, [NACK_RECEIVE_TIMEOUT]),
    ],
)
def test_the_sender_learns_what_its_connector_says(
    rig: ForeignRig, said: int, told: list[int]
) -> None:
    rig.take(rig.arriving(b"x"))
    rig.hand_over(said)
    assert rig.answer_classes() == told
    assert rig.in_queue() == []
    rig.check_books()


@pytest.mark.parametrize("said", [NORMAL, ORDER_ACK, 0x0001, 0x1234, 0x8FFF])
def test_not_everything_can_be_said(rig: ForeignRig, said: int) -> None:
    rig.take(rig.arriving(b"x"))
    with pytest.raises(InvalidParameter, match=f"0x{said:04X}"):
        rig.hand_over(said)
    assert rig.in_queue() == [b"x"]


def test_readers_of_other_queues_cannot_say_so_much(rig: ForeignRig) -> None:
    rig.send("orders", b"x")
    with pytest.raises(InvalidParameter):
        rig.hand_over(NACK_BAD_DEST_QUEUE, "orders")


@pytest.mark.parametrize("said", [ACK_REACH_QUEUE, ACK_RECEIVE, NACK_ACCESS_DENIED])
def test_the_source_of_a_transactional_one_gets_its_final_answer(
    rig: ForeignRig, said: int
) -> None:
    rig.take(rig.in_order(1, 0, ordinal=9, final_ack_required=True))
    rig.hand_over(said, XACTONLY)
    final = ACK_RECEIVE if said == ACK_REACH_QUEUE else said
    assert rig.final_acks() == [(final, 9, 1)]


def test_what_was_not_said_anything_of_comes_again(rig: ForeignRig) -> None:
    rig.take(rig.arriving(b"x"))
    reader = rig.reader()
    assert (
        rig.driver.read(lambda m: m.messages.dequeue_message(reader, timeout_ms=0, two_phase=True))
        is not None
    )
    assert rig.run(lambda m: m.messages.dequeue_messages(rig.open(CONNECTOR, RECEIVE), 1)) == []
    rig.close(reader)
    assert rig.hand_over(ACK_RECEIVE) == b"x"


def test_a_message_nobody_hands_over_in_time_expires(rig: ForeignRig) -> None:
    rig.take(rig.arriving(b"x", time_to_be_received=5, negative_journaling_requested=True))
    rig.advance(6)
    assert rig.in_queue() == []
    assert rig.answer_classes() == [NACK_RECEIVE_TIMEOUT]
    assert rig.bodies(DEAD_LETTERS) == [b"x"]


def test_its_time_to_reach_the_queue_ends_at_the_connector_queue(rig: ForeignRig) -> None:
    rig.take(rig.arriving(b"x", time_to_reach_queue=5))
    rig.advance(60)
    assert rig.in_queue() == [b"x"]


# -- messages that are sent here


@pytest.mark.parametrize("to", [STREAM, PRIVATE])
@pytest.mark.parametrize("recoverable", [True, False])
def test_what_is_sent_here_goes_there_in_the_same_turn(
    rig: ForeignRig, to: str, recoverable: bool
) -> None:
    rig.send(to, b"one", recoverable=recoverable)
    assert rig.in_queue() == [b"one"]
    (message,) = rig.messages(CONNECTOR)
    assert message.destination_queue_format_name == to
    rig.check_books()


def test_a_transaction_goes_there_when_it_commits(rig: ForeignRig) -> None:
    tx, descriptor = rig.begin(), rig.open(LEDGER_STREAM)
    for body in (b"one", b"two"):
        rig.send(descriptor, body, tx=tx)
    assert rig.in_queue(XACTONLY) == []
    rig.commit(tx)
    assert rig.in_queue(XACTONLY) == [b"one", b"two"]
    rig.restart()
    assert rig.in_queue(XACTONLY) == [b"one", b"two"]
    rig.check_books()


def test_answers_journal_and_dead_letters_of_what_is_sent_here(rig: ForeignRig) -> None:
    rig.create("answers")
    asked: dict[str, Any] = {
        "administration_queue_format_name": ANSWERS_HERE,
        "acknowledgements_requested": 0x0F,
        "positive_journaling_requested": True,
        "negative_journaling_requested": True,
    }
    rig.send(STREAM, b"good", **asked)
    rig.send(STREAM, b"bad", **asked)
    assert rig.bodies(JOURNAL) == [b"good", b"bad"]
    rig.hand_over(ACK_RECEIVE)
    rig.hand_over(NACK_BAD_DEST_QUEUE)
    assert local_answers(rig) == [ACK_REACH_QUEUE, ACK_RECEIVE, NACK_BAD_DEST_QUEUE]
    assert rig.bodies(DEAD_LETTERS) == [b"bad"]
    rig.check_books()


def test_a_transactional_dead_letter_of_what_is_sent_here(rig: ForeignRig) -> None:
    tx, descriptor = rig.begin(), rig.open(LEDGER_STREAM)
    rig.send(descriptor, b"bad", tx=tx, negative_journaling_requested=True)
    rig.commit(tx)
    rig.hand_over(NACK_ACCESS_DENIED, XACTONLY)
    assert rig.bodies(DEAD_TRANSACTIONAL) == [b"bad"]


def test_the_kind_of_what_is_sent_here_counts_as_well(rig: ForeignRig) -> None:
    rig.send(LEDGER_STREAM, b"x", negative_journaling_requested=True)
    assert rig.bodies(DEAD_LETTERS) == [b"x"]
    tx, descriptor = rig.begin(), rig.open(STREAM)
    rig.send(descriptor, b"y", tx=tx, negative_journaling_requested=True)
    rig.commit(tx)
    assert rig.bodies(DEAD_TRANSACTIONAL) == [b"y"]
    assert rig.in_queue() == rig.in_queue(XACTONLY) == []
    rig.check_books()


def test_what_waited_for_a_way_finds_it_when_there_is_one() -> None:
    rig = ForeignRig(connected=False)
    rig.send(STREAM, b"waits")
    assert len(rig.sent(STREAM)) == 1
    rig.belong(HOME, SITE)
    assert rig.sent(STREAM) == []
    assert rig.in_queue() == [b"waits"]
    rig.check_books()


def test_what_others_sent_before_comes_in_once_and_in_order() -> None:
    """A router that becomes the connector server has messages of others on their way."""
    rig = ForeignRig(connected=False)
    rig.enter_machine()
    express = rig.arriving(b"plain")
    packets = [rig.in_order(1, 0), rig.in_order(2, 1), express]
    rig.take(*packets)
    assert rig.manager.queues.collection.connector_queues() == []
    rig.belong(HOME, SITE)
    assert rig.in_queue(XACTONLY) == [b"1", b"2"]
    assert rig.in_queue() == [b"plain"]
    rig.take(*packets, rig.in_order(3, 2))
    assert rig.in_queue(XACTONLY) == [b"1", b"2", b"3"]
    assert rig.in_queue() == [b"plain"]
    owed = [deserialize(packet) for packet in rig.sent(str(PrivateName(FAR_GUID, 4)))]
    assert {message.message_class for message in owed} == {ORDER_ACK}
    rig.check_books()


def test_a_paused_queue_keeps_its_messages(rig: ForeignRig) -> None:
    rig.close(rig.open(STREAM))
    queue, _ = rig.outgoing(STREAM)
    rig.run(lambda m: m.transfer.pause_queue(queue))
    rig.send(STREAM, b"held")
    assert rig.in_queue() == []
    rig.run(lambda m: m.transfer.resume_queue(queue))
    assert rig.in_queue() == [b"held"]


def test_nothing_overtakes_a_transactional_message_that_somebody_holds() -> None:
    rig = ForeignRig(connected=False)
    tx, descriptor = rig.begin(), rig.open(LEDGER_STREAM)
    for body in (b"one", b"two"):
        rig.send(descriptor, body, tx=tx)
    rig.commit(tx)
    reader = rig.open(LEDGER_STREAM, QueueAccessType.RECEIVE_ADMIN)
    held = rig.driver.read(
        lambda m: m.messages.dequeue_message(reader, timeout_ms=0, two_phase=True)
    )
    assert held is not None
    rig.belong(HOME, SITE)
    assert rig.in_queue(XACTONLY) == []
    rig.run(lambda m: m.messages.dequeue_message_end(reader, held.read.lookup_id, positive=False))
    assert rig.in_queue(XACTONLY) == [b"one", b"two"]
    rig.check_books()


def test_what_finds_no_room_waits_and_says_so(rig: ForeignRig) -> None:
    rig.run(lambda m: m.queues.set_queue(CONNECTOR, rig.admin, quota_kib=1))
    rig.send(STREAM, bytes(500))
    rig.send(STREAM, bytes(600))
    assert len(rig.in_queue()) == 1
    assert len(rig.sent(STREAM)) == 1
    assert rig.manager.next_deadline_ms() is not None
    rig.hand_over(ACK_RECEIVE)
    rig.advance(1)
    assert [len(body) for body in rig.in_queue()] == [600]
    assert rig.sent(STREAM) == []
    rig.check_books()


def test_what_finds_no_room_is_looked_at_no_more_when_the_site_is_left(rig: ForeignRig) -> None:
    rig.run(lambda m: m.queues.set_queue(CONNECTOR, rig.admin, quota_kib=1))
    rig.send(STREAM, bytes(500))
    rig.send(STREAM, bytes(600))
    assert rig.manager.directory.connectors.next_deadline_ms() is not None
    rig.belong(HOME)
    assert rig.manager.directory.connectors.next_deadline_ms() is None


def test_a_great_many_take_several_turns() -> None:
    rig = ForeignRig(connected=False, step_messages=10)
    descriptor = rig.open(STREAM)
    for number in range(25):
        rig.send(descriptor, str(number).encode())
    rig.belong(HOME, SITE)
    assert len(rig.in_queue()) == 10
    rig.turn()
    rig.turn()
    rig.turn()
    assert rig.in_queue() == [str(number).encode() for number in range(25)]
    assert rig.manager.directory.connectors.next_deadline_ms() is None
    rig.check_books()


def test_whoever_waits_at_a_connector_queue_is_served(rig: ForeignRig) -> None:
    answers = rig.wait(rig.reader(), timeout_ms=None)
    rig.send(STREAM, b"here")
    assert len(answers) == 1
    assert answers[0].error is None


def test_administrators_do_not_open_them_as_outgoing(rig: ForeignRig) -> None:
    with pytest.raises(Exception, match="administrative access"):
        rig.open(CONNECTOR, QueueAccessType.PEEK_ADMIN)


# -- crashes


@pytest.mark.parametrize("transactional", [False, True])
def test_a_crash_at_any_record_leaves_each_message_in_one_place(transactional: bool) -> None:
    """Between the outgoing queue and the connector queue nothing is lost and nothing doubled."""
    rig = ForeignRig()
    before = len(rig.store.log)
    if transactional:
        tx, descriptor = rig.begin(), rig.open(LEDGER_STREAM)
        for body in (b"1", b"2", b"3"):
            rig.send(descriptor, body, tx=tx)
        rig.commit(tx)
    else:
        for body in (b"1", b"2", b"3"):
            rig.send(STREAM, body)
    name, whole = XACTONLY if transactional else CONNECTOR, rig.store.log[:]
    found = []
    for end in range(before, len(whole) + 1):
        rig.restart(whole[:end])
        found.append(rig.in_queue(name))
        assert rig.sent(STREAM) == rig.sent(LEDGER_STREAM) == []
        rig.check_books()
    assert found[-1] == [b"1", b"2", b"3"]
    assert all(found[-1][: len(bodies)] == bodies for bodies in found)
    assert not transactional or all(len(bodies) in (0, 3) for bodies in found)


def test_a_crash_at_any_record_takes_a_sequence_in_once() -> None:
    """The same for what was on its way to others when this machine became the connector server."""
    rig = ForeignRig(connected=False)
    packets = [rig.in_order(1, 0), rig.in_order(2, 1), rig.in_order(3, 2)]
    rig.take(*packets)
    before = len(rig.store.log)
    rig.belong(HOME, SITE)
    whole = rig.store.log[:]
    for end in range(before, len(whole) + 1):
        rig.restart(whole[:end])
        rig.belong(HOME, SITE)
        rig.take(*packets, rig.in_order(4, 3))
        assert rig.in_queue(XACTONLY) == [b"1", b"2", b"3", b"4"]
        rig.check_books()
