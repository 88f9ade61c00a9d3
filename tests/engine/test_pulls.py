"""Pulls: messages of queues elsewhere are taken once, whatever is cut, repeated or made up."""

from __future__ import annotations

import pytest

from posthouse.engine.ledger.records import TABLE_PULL, TABLE_PULLED
from posthouse.engine.manager import QueueManager
from posthouse.engine.pulls.pull import OfferedMessage, Pull
from posthouse.engine.pulls.pulls import JOURNAL_ENDING, PULLS_MAX
from posthouse.model.errors import (
    InsufficientResources,
    InvalidParameter,
    OperationCancelled,
    PropertyNotAllowed,
    QueueNotFound,
    SharingViolation,
    UnsupportedOperation,
)
from posthouse.model.message import DeliveryGuarantee
from posthouse.model.message_classes import NACK_RECEIVE_TIMEOUT
from posthouse.model.names import parse_name
from posthouse.wire.packet.digest import message_digest
from posthouse.wire.packet.message import deserialize, serialize
from tests.engine.pulling import (
    GUID,
    LEASE_MS,
    SENT,
    SOURCE,
    Source,
    offer,
    packet,
    take,
    transactional,
)
from tests.engine.rig import RECEIVE, Rig


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.create("orders")
    made.create("ledger", transactional=True)
    return made


# -- what is taken


def test_messages_are_taken_in_order_and_stay_what_they_were(rig: Rig) -> None:
    source = Source(rig)
    one = packet(b"body", 17, label="Label", extension=b"more", priority=5, application_tag=9)
    offered = [OfferedMessage(500, SENT + 3, 0, one), *offer(501, 502)]
    assert source.take(offered)[:2] == (3, 0)
    delivery = rig.peek("orders")
    assert delivery.packet == one  # identifier, times, names, flags: every byte of it
    assert (delivery.read.arrived, delivery.read.priority) == (SENT + 3, 5)
    assert rig.bodies("orders") == [b"body", b"501", b"502"]
    rig.check_books()


def test_what_was_taken_before_is_known(rig: Rig) -> None:
    source = Source(rig)
    source.take(offer(1, 2, 3))
    assert source.take(offer(2, 3, 4))[:2] == (1, 2)
    rig.restart()
    again = Source(rig)
    assert again.take(offer(1, 2, 3, 4, 5))[:2] == (1, 4)
    assert rig.bodies("orders") == [b"1", b"2", b"3", b"4", b"5"]
    assert rig.manager.pulls.taken_messages == 1
    rig.check_books()


def test_one_that_comes_twice_in_one_offer_is_taken_once(rig: Rig) -> None:
    assert Source(rig).take(offer(1, 1))[:2] == (1, 1)
    assert rig.bodies("orders") == [b"1"]


def test_what_was_received_here_meanwhile_does_not_come_back(rig: Rig) -> None:
    Source(rig).take(offer(1, 2))
    rig.receive("orders")
    rig.receive("orders")
    rig.restart()
    assert Source(rig).take(offer(1, 2))[:2] == (0, 2)
    assert rig.bodies("orders") == []


def test_lookup_identifiers_come_in_any_order(rig: Rig) -> None:
    source = Source(rig)
    source.take(offer(9, 3, 7))
    source.take(offer(5, 1))
    assert source.take(offer(1, 3, 5, 7, 9))[:2] == (0, 5)
    entries = [entry for entry, _ in source.pull.entries_after(0, 10)]
    assert [entry.lookup_id for entry in entries] == [1, 3, 5, 7, 9]
    assert [entry.digest for entry in entries] == [
        message_digest(one.packet, 0) for one in offer(1, 3, 5, 7, 9)
    ]
    assert [entry.lookup_id for entry, _ in source.pull.entries_after(3, 2)] == [5, 7]


def test_an_express_message_is_kept(rig: Rig) -> None:
    """Nobody else has it when the source has ended it."""
    express = deserialize(offer(1)[0].packet)
    express.delivery_guarantee = DeliveryGuarantee.EXPRESS
    Source(rig).take([OfferedMessage(1, 0, 0, serialize(express))])
    rig.restart()
    assert rig.bodies("orders") == [b"1"]


def test_a_transactional_queue_takes_transactional_messages(rig: Rig) -> None:
    source = Source(rig, "ledger")
    messages = [OfferedMessage(at, 0, 0, transactional(b"%d" % at, at)) for at in (1, 2)]
    assert source.take(messages)[:2] == (2, 0)
    assert rig.bodies("ledger") == [b"1", b"2"]
    taken = source.take(offer(3))
    assert (taken.taken, [one.lookup_id for one in taken.refused]) == (0, [3])
    assert "transactional" in taken.refused[0].error.cause


def test_acknowledgments_were_the_matter_of_the_source(rig: Rig) -> None:
    rig.create("answers")
    Source(rig).take(
        offer(
            1,
            acknowledgements_requested=0x0F,
            administration_queue_format_name=r"DIRECT=OS:ALPHA\private$\answers",
            positive_journaling_requested=True,
        )
    )
    rig.receive("orders")
    assert rig.bodies("answers") == []
    assert rig.bodies(r".\system$;journal") == []


def test_a_dead_letter_keeps_its_reason(rig: Rig) -> None:
    source = Source(rig, r".\system$;deadletter", r"system$;deadletter")
    dead = OfferedMessage(4, 0, NACK_RECEIVE_TIMEOUT, packet(b"late", 4, time_to_be_received=1))
    assert source.take([dead])[:2] == (1, 0)
    assert rig.peek(r".\system$;deadletter").read.message_class == NACK_RECEIVE_TIMEOUT
    rig.advance(3600)
    assert rig.bodies(r".\system$;deadletter") == [b"late"]


def test_a_journal_takes_what_others_received_there(rig: Rig) -> None:
    """What a pull of the queue received there stays there: it is the proof, and is here."""
    Source(rig).take(offer(1, 2))
    journal = Source(rig, r".\private$\orders;journal", SOURCE + JOURNAL_ENDING)
    of_pull = [one._replace(lookup_id=one.lookup_id + 100) for one in offer(1, 2)]
    for taken, known in ((1, 0), (0, 1)):  # what the source did not end comes again
        outcome = journal.take([*of_pull, *offer(50)])
        assert (outcome.taken, outcome.known, outcome.stay) == (taken, known, (101, 102))
    assert rig.bodies(r".\private$\orders;journal") == [b"50"]
    assert rig.bodies("orders") == [b"1", b"2"]


def test_one_whose_time_is_over_expires_here(rig: Rig) -> None:
    Source(rig).take(offer(1, time_to_be_received=10, negative_journaling_requested=True))
    assert rig.bodies("orders") == []
    assert rig.bodies(r".\system$;deadletter") == [b"1"]
    rig.check_books()


def test_a_waiting_reader_gets_what_is_taken(rig: Rig) -> None:
    answers = rig.wait(rig.open("orders", RECEIVE))
    Source(rig).take(offer(1))
    assert len(answers) == 1
    assert rig.bodies("orders") == []


# -- a crash at any record


def test_after_any_cut_of_the_log_each_message_is_there_once() -> None:
    rig = Rig()
    rig.create("orders")
    source = Source(rig)
    start = len(rig.store.log)
    for ids in ((1, 2, 3), (3, 4), (5,)):
        source.take(offer(*ids))
    log = list(rig.store.log)
    for length in range(start, len(log) + 1):
        rig.restart(log[:length])
        known = len(rig.manager.pulls.all()[0])
        assert known == len(rig.bodies("orders")), "messages and their entries are one step"
        assert Source(rig).take(offer(1, 2, 3, 4, 5))[:2] == (5 - known, known)
        assert rig.bodies("orders") == [b"1", b"2", b"3", b"4", b"5"]
        rig.check_books()


# -- one run at a time


def test_a_second_run_is_refused_while_the_first_lasts(rig: Rig) -> None:
    first = Source(rig)
    with rig.refused(SharingViolation.code, "pulled by another run"):
        Source(rig)
    rig.run(lambda m: m.end_session(first.holder))
    second = Source(rig)
    with rig.refused(OperationCancelled.code, "another run"):
        first.take(offer(1))
    assert second.take(offer(1)).taken == 1
    rig.run(lambda m: m.pulls.end(second.pull.definition.number, second.epoch))
    Source(rig)


def test_a_run_without_a_session_is_a_lease(rig: Rig) -> None:
    def begin(manager: QueueManager) -> Pull:
        name = parse_name(r".\private$\orders")
        return manager.pulls.begin(GUID, SOURCE, "far", name, None, LEASE_MS)

    pull = rig.run(begin)
    first = pull.definition.epoch
    with rig.refused(SharingViolation.code):
        rig.run(begin)
    rig.advance(50)
    rig.run(lambda m: take(m, pull, pull.definition.epoch, offer(1), None))  # which renews it
    rig.advance(50)
    with rig.refused(SharingViolation.code):
        rig.run(begin)
    rig.advance(11)
    assert rig.run(begin).definition.epoch == first + 1


def test_a_run_goes_on_after_a_restart_of_the_server(rig: Rig) -> None:
    source = Source(rig)
    source.take(offer(1))
    rig.restart()
    source.holder = object()
    assert source.take(offer(1, 2))[:2] == (1, 1)


# -- refusals


def test_another_message_under_a_known_identifier_is_refused(rig: Rig) -> None:
    source = Source(rig)
    source.take(offer(1))
    other = OfferedMessage(1, 0, 0, packet(b"other", 1))
    taken = source.take([other, *offer(2)])
    assert (taken.taken, [one.lookup_id for one in taken.refused]) == (1, [1])
    assert "another message under lookup id 1" in taken.refused[0].error.cause
    assert rig.bodies("orders") == [b"1", b"2"]


@pytest.mark.parametrize("data", [b"", b"nonsense", bytes(200)], ids=["none", "words", "zeros"])
def test_what_is_not_a_message_is_refused_alone(rig: Rig, data: bytes) -> None:
    taken = Source(rig).take([OfferedMessage(1, 0, 0, data), *offer(2)])
    assert (taken.taken, [one.lookup_id for one in taken.refused]) == (1, [1])
    assert taken.refused[0].error.code == InvalidParameter.code


def test_without_room_the_rest_is_left(rig: Rig) -> None:
    rig.create("small", quota_kib=1)
    source = Source(rig, "small")
    taken = source.take(offer(1, 2, 3, 4, 5, 6, 7, 8, 9, extension=bytes(100)))
    assert taken.stopped is not None
    assert "quota" in taken.stopped.cause
    assert taken.taken + taken.left == 9
    assert len(rig.bodies("small")) == taken.taken > 0


def test_the_number_of_known_messages_has_an_end() -> None:
    rig = Rig(pulled_messages_max=3)
    rig.create("orders")
    source = Source(rig)
    taken = source.take(offer(1, 2, 3, 4, 5))
    assert (taken.taken, taken.left) == (3, 2)
    assert isinstance(taken.stopped, InsufficientResources)
    rig.run(lambda m: m.end_session(source.holder))
    rig.run(lambda m: m.pulls.forget(source.pull.definition.number))
    assert Source(rig).take(offer(6, 7, 8)).taken == 3


def test_a_pull_keeps_its_target_and_a_host_its_machine(rig: Rig) -> None:
    source = Source(rig)
    source.take(offer(1))
    rig.run(lambda m: m.end_session(source.holder))
    with rig.refused(PropertyNotAllowed.code, "into another queue"):
        Source(rig, "ledger")
    with rig.refused(PropertyNotAllowed.code, "not the queue manager"):
        Source(rig, guid=bytes(16))


def test_a_queue_of_this_machine_is_not_pulled(rig: Rig) -> None:
    """Its messages would come again and again, under new lookup ids."""
    with pytest.raises(PropertyNotAllowed, match="far is this queue manager itself"):
        Source(rig, guid=rig.manager.machine.identifier)
    assert not rig.manager.pulls.all()


def test_targets_are_queues_of_applications_and_their_copies(rig: Rig) -> None:
    with rig.refused(QueueNotFound.code, "no queue"):
        Source(rig, "missing")
    with rig.refused(UnsupportedOperation.code):
        Source(rig, r".\private$\order_queue$")
    with rig.refused(InvalidParameter.code, "not the name of a queue"):
        Source(rig, name="a\nb")


def test_the_number_of_pulls_has_an_end(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert PULLS_MAX >= 1000
    monkeypatch.setattr("posthouse.engine.pulls.pulls.PULLS_MAX", 1)
    Source(rig)
    with rig.refused(InsufficientResources.code, "pulls"):
        Source(rig, "ledger", r"private$\other")


# -- forgetting


def test_a_forgotten_pull_takes_everything_again(rig: Rig) -> None:
    source = Source(rig)
    source.take(offer(1, 2))
    with rig.refused(SharingViolation.code):
        rig.run(lambda m: m.pulls.forget(1))
    rig.run(lambda m: m.end_session(source.holder))
    rig.run(lambda m: m.pulls.forget(1))
    rig.restart()
    assert rig.manager.pulls.all() == []
    assert Source(rig).take(offer(1, 2))[:2] == (2, 0)
    with rig.refused(InvalidParameter.code, "no pull 9"):
        rig.run(lambda m: m.pulls.forget(9))


def test_with_its_queue_a_pull_is_gone(rig: Rig) -> None:
    source = Source(rig)
    source.take(offer(1, 2))
    rig.run(lambda m: m.queues.delete_queue(r".\private$\orders", rig.admin))
    state = rig.manager.ledger.state
    assert not state.of_table(TABLE_PULL)
    assert not state.of_table(TABLE_PULLED)
    with rig.refused(InvalidParameter.code):
        source.take(offer(3))


def test_what_was_copied_is_not_moved_since_its_copy_may_be_gone(rig: Rig) -> None:
    copying = Source(rig, keep=True)
    copying.take(offer(1, 2))
    rig.run(lambda m: m.end_session(copying.holder))
    rig.receive("orders")
    rig.restart()
    with rig.refused(PropertyNotAllowed.code):
        Source(rig)
    again = Source(rig, keep=True)
    assert again.take(offer(1, 2, 3))[:2] == (1, 2)
    rig.run(lambda m: m.end_session(again.holder))
    rig.run(lambda m: m.pulls.forget(again.pull.definition.number))
    assert Source(rig).take(offer(1, 2, 3)).taken == 3


def test_the_journal_of_a_queue_that_was_copied_is_taken_whole(rig: Rig) -> None:
    """Another program may have received what was only copied."""
    Source(rig, keep=True).take(offer(1, 2))
    journal = Source(rig, r".\private$\orders;journal", SOURCE + JOURNAL_ENDING)
    of_program = [one._replace(lookup_id=one.lookup_id + 70) for one in offer(1)]
    assert journal.take(of_program)[:2] == (1, 0)


@pytest.mark.parametrize("restart", [False, True])
def test_what_was_moved_before_a_copy_is_left_out_of_the_journal(rig: Rig, restart: bool) -> None:
    moving = Source(rig)
    moving.take(offer(1, 2))
    rig.run(lambda m: m.end_session(moving.holder))
    copying = Source(rig, keep=True)
    assert copying.take(offer(2, 3))[:2] == (1, 1)
    if restart:
        rig.restart()
        copying = Source(rig, keep=True)
    assert [copied for _, copied in copying.pull.entries_after(0, 9)] == [False, False, True]
    assert [entry.lookup_id for entry, _ in copying.pull.entries_after(1, 1)] == [2]
    rig.run(lambda m: m.end_session(copying.holder))
    with rig.refused(PropertyNotAllowed.code, "2 other messages were moved before"):
        Source(rig)
    journal = Source(rig, r".\private$\orders;journal", SOURCE + JOURNAL_ENDING, keep=True)
    there = [one._replace(lookup_id=one.lookup_id + 70) for one in offer(1, 2, 3)]
    outcome = journal.take(there)
    assert (outcome.taken, outcome.known, outcome.stay) == (1, 0, (71, 72))


def test_a_run_that_copies_goes_on_copying_after_a_restart(rig: Rig) -> None:
    copying = Source(rig, keep=True)
    rig.restart()
    assert copying.take(offer(1)).taken == 1
    rig.run(lambda m: m.end_session(copying.holder))
    with rig.refused(PropertyNotAllowed.code):
        Source(rig, keep=False)


def test_a_late_request_of_a_pull_that_is_gone_meets_no_other(rig: Rig) -> None:
    gone = Source(rig)
    rig.run(lambda m: m.queues.delete_queue(r".\private$\orders", rig.admin))
    other = Source(rig, r".\private$\ledger", "private$\\other")
    assert other.pull.definition.number > gone.pull.definition.number
    with rig.refused(InvalidParameter.code):
        gone.take(offer(1))


def test_a_number_that_is_given_again_after_a_restart_has_other_epochs(rig: Rig) -> None:
    gone = Source(rig)
    rig.run(lambda m: m.queues.delete_queue(r".\private$\orders", rig.admin))
    rig.advance(5)
    rig.restart()
    other = Source(rig, r".\private$\ledger", "private$\\other")
    assert other.pull.definition.number == gone.pull.definition.number
    with rig.refused(OperationCancelled.code):
        gone.take(offer(1))


def test_a_quota_can_be_used_whole() -> None:
    rig = Rig()
    rig.create("small", quota_kib=4)
    messages = [OfferedMessage(one, 0, 0, packet(bytes(1000), one)) for one in (1, 2, 3)]
    assert Source(rig, "small").take(messages).taken == 3
