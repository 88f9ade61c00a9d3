"""A read that ends without a message says who has those that are in the queue."""

from __future__ import annotations

from posthouse.engine.queues.empty_reads import claimed
from posthouse.model.properties import MessageSeekAction
from tests.engine.group_rig import GroupRig
from tests.engine.rig import RECEIVE

IO_TIMEOUT = 0xC00E001B
NOT_FOUND = 0xC00E0088


def test_claims_of_a_group_that_has_ended_are_named_with_what_frees_them() -> None:
    rig = GroupRig()
    rig.claimed(3, 3)
    rig.lapse()
    with rig.refused(IO_TIMEOUT, r"of 3 messages 3 are claimed by the group g\. "):
        rig.receive("q")
    waiting = rig.wait(rig.open("q", RECEIVE), timeout_ms=1000)
    rig.advance(1)
    (answer,) = waiting
    assert answer.error is not None
    assert "no message came to" in answer.error.cause
    assert "3 are claimed by the group g" in answer.error.cause
    assert rf"posthouse group release '{rig.queue('q').name}' g" in answer.error.remedy
    assert claimed(rig.manager.groups, rig.queue("q")) == 3
    rig.release()
    assert claimed(rig.manager.groups, rig.queue("q")) == 0
    assert rig.receive("q").message.body == b"0"


def test_messages_that_a_transaction_has_locked_are_counted() -> None:
    rig = GroupRig(queue={"transactional": True})
    tx = rig.begin()
    rig.send("q", b"1", tx=tx)
    rig.commit(tx)
    other = rig.begin("t2")
    taken = rig.receive("q", transaction=other)
    with rig.refused(IO_TIMEOUT, r"of 1 messages 1 are locked .*posthouse transaction list"):
        rig.receive("q")
    with rig.refused(NOT_FOUND, r"is locked by a transaction .*posthouse transaction list"):
        rig.lookup(
            rig.open("q", RECEIVE), taken.read.lookup_id, MessageSeekAction.CURRENT, peek=False
        )


def test_an_empty_queue_is_just_empty() -> None:
    rig = GroupRig()
    with rig.refused(IO_TIMEOUT, r"no message in [^:]*\. Give a longer time"):
        rig.receive("q")


def test_a_journal_that_is_off_is_named() -> None:
    rig = GroupRig()
    with rig.refused(IO_TIMEOUT, r"q keeps no journal\. .*posthouse queue set '.*q' --journal"):
        rig.receive("q;journal")
    rig = GroupRig(queue={"journaling": True})
    with rig.refused(IO_TIMEOUT, r"no message in [^:]*\. Give a longer time"):
        rig.receive("q;journal")


def test_a_queue_without_a_free_message_is_not_told_to_who_peeks() -> None:
    rig = GroupRig()
    rig.claimed(1, 1)
    rig.lapse()
    assert rig.peek("q").message.body == b"0"
    assert rig.open("q", RECEIVE)
