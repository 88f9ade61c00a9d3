"""Every way to take messages out of a queue, beside the lease and the claims of a group."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

from posthouse.engine.ledger.books import books_of
from posthouse.engine.ledger.effects import Unreadable
from posthouse.engine.messages.reading import MessageSeekAction
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.engine.sessions.calls import receive_several
from posthouse.engine.transfer import remote_reads
from posthouse.model.errors import MessageNotFound, QueueError, SharingViolation
from posthouse.model.guids import NULL_GUID
from posthouse.model.properties import QueueAccessType
from tests.engine.group_rig import SHARING_VIOLATION, GroupRig
from tests.engine.rig import MOVE, PEEK, RECEIVE

SUB = r".\private$\q;sub"
Door = Callable[[GroupRig, OpenQueueDescriptor, int], object]


def _received(rig: GroupRig, reader: OpenQueueDescriptor, lookup_id: int) -> int:
    return rig.receive(reader).read.lookup_id


def _received_many(rig: GroupRig, reader: OpenQueueDescriptor, lookup_id: int) -> int:
    return rig.driver.read_many(lambda m: m.messages.dequeue_messages(reader, 1))[0].read.lookup_id


def _received_by_session(rig: GroupRig, reader: OpenQueueDescriptor, lookup_id: int) -> int:
    (read,) = rig.run(
        lambda m: receive_several(
            m, reader, 1, None, two_phase=True, timeout_ms=0, token=None, tag=None
        )
    ) or [None]
    assert read is not None
    return read.lookup_id


def _received_in_two_steps(rig: GroupRig, reader: OpenQueueDescriptor, lookup_id: int) -> int:
    return rig.receive(reader, two_phase=True).read.lookup_id


def _received_by_cursor(rig: GroupRig, reader: OpenQueueDescriptor, lookup_id: int) -> int:
    cursor = rig.run(lambda m: m.messages.open_cursor(reader))
    return rig.receive(reader, cursor=cursor).read.lookup_id


def _received_in_a_transaction(rig: GroupRig, reader: OpenQueueDescriptor, lookup_id: int) -> int:
    return rig.receive(
        reader, transaction=rig.begin(str(len(rig.manager.transactions.collection.open)))
    ).read.lookup_id


def _received_first(rig: GroupRig, reader: OpenQueueDescriptor, lookup_id: int) -> int:
    return rig.lookup(reader, 0, MessageSeekAction.FIRST, peek=False).read.lookup_id


def _received_last(rig: GroupRig, reader: OpenQueueDescriptor, lookup_id: int) -> int:
    return rig.lookup(reader, 0, MessageSeekAction.LAST, peek=False).read.lookup_id


def _received_by_id(rig: GroupRig, reader: OpenQueueDescriptor, lookup_id: int) -> int:
    return rig.lookup(reader, lookup_id, peek=False).read.lookup_id


def _moved(rig: GroupRig, reader: OpenQueueDescriptor, lookup_id: int) -> int:
    target = rig.open(SUB, MOVE)
    rig.run(lambda m: m.messages.move_message(reader, lookup_id, target))
    return lookup_id


def _moved_in_a_transaction(rig: GroupRig, reader: OpenQueueDescriptor, lookup_id: int) -> int:
    target, transaction = (
        rig.open(SUB, MOVE),
        rig.begin(str(len(rig.manager.transactions.collection.open))),
    )
    rig.run(lambda m: m.messages.move_message(reader, lookup_id, target, transaction))
    return lookup_id


def _moved_from_afar(rig: GroupRig, reader: OpenQueueDescriptor, lookup_id: int) -> int:
    context = rig.open(SUB, MOVE).context
    identifier = NULL_GUID
    rig.run(lambda m: remote_reads.move_message(m, reader, context, lookup_id, identifier))
    return lookup_id


PLAIN: list[Door] = [
    _received,
    _received_many,
    _received_by_session,
    _received_in_two_steps,
    _received_by_cursor,
    _received_first,
    _received_last,
]
BY_ID: list[Door] = [_received_by_id, _moved, _moved_from_afar]
IN_TRANSACTIONS: list[Door] = [_received_in_a_transaction, _moved_in_a_transaction]


def rig_of(door: Door, **settings: int) -> GroupRig:
    return GroupRig(queue={"transactional": door in IN_TRANSACTIONS}, **settings)


def fill(rig: GroupRig, count: int) -> list[int]:
    if not rig.queue("q").definition.transactional:
        return rig.fill(count)
    transaction = rig.begin("fill")
    for number in range(count):
        rig.send("q", b"%d" % number, tx=transaction)
    rig.commit(transaction)
    return rig.ids()


@pytest.mark.parametrize("door", [*PLAIN, *BY_ID, *IN_TRANSACTIONS])
def test_nobody_else_receives_under_a_lease(door: Door) -> None:
    rig = rig_of(door)
    ids = fill(rig, 3)
    epoch = rig.lease()
    rig.claim(epoch, ids[0])
    reader = rig.open("q", RECEIVE)
    for lookup_id in ids[:2]:
        with pytest.raises(SharingViolation, match="group g reads"):
            door(rig, reader, lookup_id)
    assert rig.ids() == ids
    assert rig.queue("q").locked == 0


@pytest.mark.parametrize("door", [*PLAIN, *BY_ID, *IN_TRANSACTIONS])
def test_what_is_not_claimed_is_anybodys_after_the_lease(door: Door) -> None:
    rig = rig_of(door)
    ids = fill(rig, 3)
    epoch = rig.lease(position=ids[0])
    rig.claim(epoch, ids[1])
    rig.lapse()
    reader = rig.open("q", RECEIVE)
    wanted = ids[2] if door is _received_last else ids[0]
    assert door(rig, reader, wanted) == wanted
    if door in PLAIN:
        rest = ids[0] if door is _received_last else ids[2]
        assert door(rig, reader, 0) == rest


@pytest.mark.parametrize("door", [*PLAIN, _received_in_a_transaction])
def test_claimed_messages_are_passed_over_without_a_lease(door: Door) -> None:
    rig = rig_of(door)
    ids = fill(rig, 3)
    rig.claim(rig.lease(), ids[2])
    rig.lapse()
    reader = rig.open("q", RECEIVE)
    with pytest.raises((QueueError, IndexError)):
        door(rig, reader, ids[0])
    assert rig.ids() == ids
    assert rig.queue("q").locked == 0


@pytest.mark.parametrize("door", [*BY_ID, _moved_in_a_transaction])
def test_a_claimed_message_that_is_named_is_refused(door: Door) -> None:
    rig = rig_of(door)
    ids = fill(rig, 3)
    rig.claim(rig.lease(), ids[1])
    rig.lapse()
    reader = rig.open("q", RECEIVE)
    with pytest.raises(SharingViolation, match=f"{ids[1]} is claimed: the group g"):
        door(rig, reader, ids[1])
    assert door(rig, reader, ids[2]) == ids[2]


@pytest.mark.parametrize("action", [MessageSeekAction.NEXT, MessageSeekAction.PREVIOUS])
def test_seeks_from_a_message_go_around_what_is_claimed(action: MessageSeekAction) -> None:
    rig = GroupRig()
    ids = rig.fill(5)
    rig.claim(rig.lease(position=ids[0]), ids[3])
    rig.lapse()
    reader = rig.open("q", RECEIVE)
    start, end = (ids[0], ids[4]) if action is MessageSeekAction.NEXT else (ids[4], ids[0])
    assert rig.lookup(reader, start, action, peek=False).read.lookup_id == end


def test_peeks_see_everything_lease_or_no_lease() -> None:
    rig = GroupRig()
    ids = rig.fill(3)
    rig.claim(rig.lease(), ids[1])
    looker = rig.open("q", PEEK)
    for _ in range(2):
        cursor = rig.run(lambda m: m.messages.open_cursor(looker))
        seen = [rig.peek(looker, cursor=cursor).read.lookup_id]
        for _ in ids[1:]:
            found = rig.driver.read(
                lambda m, cursor=cursor: m.messages.peek_next_message(looker, cursor, timeout_ms=0)
            )
            assert found is not None
            seen.append(found.read.lookup_id)
        assert seen == ids
        assert rig.peek(looker).read.lookup_id == ids[0]
        assert rig.lookup(looker, ids[1], peek=True).read.lookup_id == ids[1]
        rig.lapse()


def test_peeks_see_what_is_claimed_after_others_have_received_behind_it() -> None:
    rig = GroupRig()
    ids = rig.fill(6)
    rig.claim(rig.lease(), ids[1])
    rig.lapse()
    reader = rig.open("q", RECEIVE)
    taken = rig.driver.read_many(lambda m: m.messages.dequeue_messages(reader, 2, two_phase=True))
    assert [one.read.lookup_id for one in taken] == ids[2:4]
    assert rig.peek("q").read.lookup_id == ids[0]
    rig.release()
    assert rig.receive("q").read.lookup_id == ids[0]


def test_sends_go_on_under_a_lease() -> None:
    rig = GroupRig()
    rig.lease()
    rig.send("q", b"new")
    assert rig.bodies("q") == [b"new"]


def test_messages_move_in_under_a_lease() -> None:
    rig = GroupRig()
    rig.create("other")
    (lookup_id,) = rig.fill(1, "other")
    rig.lease()
    source = rig.open("other", RECEIVE)
    target = rig.open("q", MOVE)
    rig.run(lambda m: m.messages.move_message(source, lookup_id, target))
    assert rig.bodies("q") == [b"0"]


# -- waiting reads


def test_waiting_receives_end_when_the_lease_begins_and_waiting_peeks_do_not() -> None:
    rig = GroupRig()
    reader = rig.open("q", RECEIVE)
    taking = rig.wait(reader)
    looking = rig.wait(reader, "peek_message")
    rig.lease()
    (answer,) = taking
    assert isinstance(answer.error, SharingViolation)
    assert not looking
    rig.send("q", b"new")
    assert len(looking) == 1
    assert looking[0].error is None


def test_nobody_begins_to_wait_under_a_lease() -> None:
    rig = GroupRig()
    rig.lease()
    (answer,) = rig.wait(rig.open("q", RECEIVE))
    assert isinstance(answer.error, SharingViolation)


def test_who_waits_behind_claims_gets_what_is_new_and_what_is_released() -> None:
    rig = GroupRig()
    _, ids = rig.claimed(2, 2)
    rig.lapse()
    first, second, third = (rig.wait(rig.open("q", RECEIVE)) for _ in range(3))
    looking = rig.wait(rig.open("q", PEEK), "peek_message")
    assert len(looking) == 1
    rig.send("q", b"new")
    assert [answer.error for answer in first] == [None]
    assert not second
    rig.release()
    assert [answer.value.lookup_id for answer in (*second, *third)] == ids  # type: ignore[attr-defined]
    assert rig.ids() == []


def test_a_cursor_that_waits_is_served_with_what_is_released_behind_it() -> None:
    rig = GroupRig()
    ids = rig.fill(3)
    rig.claim(rig.lease(position=ids[0]), ids[2])
    rig.lapse()
    reader = rig.open("q", RECEIVE)
    cursor = rig.run(lambda m: m.messages.open_cursor(reader))
    rig.receive(reader, cursor=cursor)
    waiting = rig.wait(reader, cursor=cursor)
    assert not waiting
    rig.release()
    assert waiting[0].value.lookup_id == ids[1]  # type: ignore[attr-defined]


# -- what was in other hands before


def test_a_read_that_began_before_the_lease_may_end() -> None:
    rig = GroupRig()
    ids = rig.fill(2)
    reader = rig.open("q", RECEIVE)
    rig.receive(reader, two_phase=True)
    rig.lease()
    rig.run(lambda m: m.messages.dequeue_message_end(reader, ids[0], positive=True))
    assert rig.ids() == ids[1:]


def test_a_transaction_that_began_before_the_lease_may_commit() -> None:
    rig = GroupRig(queue={"transactional": True})
    ids = fill(rig, 2)
    reader, transaction = rig.open("q", RECEIVE), rig.begin()
    rig.receive(reader, transaction=transaction)
    epoch = rig.lease()
    with pytest.raises(SharingViolation):
        rig.receive(reader, transaction=transaction)
    rig.commit(transaction)
    rig.claim(epoch, ids[1])
    assert rig.acknowledge(epoch, ids[1]) == 1


# -- purge, expiry, deletion


def test_a_purge_leaves_what_is_claimed() -> None:
    rig = GroupRig()
    rig.fill(6, priority=1)
    epoch, ids = rig.claimed(6, 8)
    assert rig.purge() == 4
    assert rig.ids() == ids[:8]
    assert rig.manager.groups.purged_through(rig.queue("q")) == ids[-1]
    assert rig.acknowledge(epoch, ids[7]) == 8
    rig.check_books()


def test_a_purge_in_steps_leaves_what_is_claimed_meanwhile() -> None:
    rig = GroupRig(step_messages=2)
    ids = rig.fill(6)
    epoch = rig.lease(position=ids[3])
    reader = rig.open("q", RECEIVE)
    rig.driver.begin_turn()
    rig.driver.decide(lambda m: m.queues.purge_queue(reader), lambda answer: None)
    rig.driver.end_turn()
    rig.driver.sync()
    rig.claim(epoch, ids[5])
    for _ in range(4):
        rig.turn()
    assert rig.ids() == ids[4:]


def test_what_is_claimed_does_not_expire() -> None:
    rig = GroupRig()
    epoch, ids = rig.claimed(3, 2, time_to_be_received=5)
    rig.advance(20)
    assert rig.ids() == ids[:2]
    rig.restart()
    rig.turn()
    assert rig.ids() == ids[:2]
    assert rig.acknowledge(epoch, ids[0]) == 1
    rig.release()
    rig.turn()
    assert rig.ids() == []
    books = books_of(rig.queue("q"))
    assert (books.received, books.expired) == (1, 2)
    assert not rig.manager.ledger.state.calendar.held


def test_what_is_claimed_and_overdue_is_in_a_checkpoint() -> None:
    rig = GroupRig()
    rig.claimed(1, 1, time_to_be_received=5)
    rig.advance(20)
    state = type(rig.manager.ledger.state).load(rig.manager.ledger.state.dump())
    assert state.calendar.earliest < inf


def test_a_queue_with_a_lease_or_claims_is_not_deleted() -> None:
    rig = GroupRig()
    _, ids = rig.claimed(1, 1)
    for _ in range(2):
        with rig.refused(SHARING_VIOLATION, "group g"):
            rig.run(lambda m: m.queues.delete_queue(r".\private$\q", rig.admin))
        rig.lapse()
    rig.acknowledge(None, ids[0])
    rig.run(lambda m: m.queues.delete_queue(r".\private$\q", rig.admin))


def test_a_queue_whose_journal_is_claimed_is_not_deleted() -> None:
    rig = GroupRig(queue={"journaling": True})
    rig.fill(1)
    rig.receive("q")
    journal = r".\private$\q;journal"
    rig.claim(rig.lease(queue=journal), rig.ids(journal)[0], queue=journal)
    rig.lapse()
    with rig.refused(SHARING_VIOLATION, "journal"):
        rig.run(lambda m: m.queues.delete_queue(r".\private$\q", rig.admin))


@pytest.mark.parametrize(
    "name", [r".\private$\q;journal", r".\system$;deadletter", r".\system$;journal", SUB]
)
def test_system_queues_and_subqueues_have_groups(name: str) -> None:
    rig = GroupRig()
    rig.close(rig.open(SUB, MOVE)) if name != SUB else rig.open(SUB, MOVE)
    assert rig.lease(queue=name) == 1
    rig.restart()
    assert rig.lease(queue=name) == 2


def test_a_subqueue_with_a_group_stays() -> None:
    rig = GroupRig()
    opened = rig.open(SUB, MOVE)
    rig.lease(queue=SUB)
    rig.close(opened)
    rig.lapse()
    group = rig.group(queue=SUB)
    rig.run(lambda m: m.groups.delete(group))
    with pytest.raises(QueueError):
        rig.queue(SUB)


# -- damage


def test_a_damaged_message_hinders_no_claim_and_is_received() -> None:
    rig = GroupRig()
    ids = rig.fill(3)
    number = rig.queue("q").current_number(ids[1])
    read_many = rig.manager.messages.reading._read_many

    def damaged(numbers: list[int]) -> list[tuple[bytes, bytes]]:
        if number in numbers:
            raise Unreadable("checksum")
        return read_many(numbers)

    rig.manager.messages.reading._read_many = damaged
    looker = rig.open("q", PEEK)
    with pytest.raises(QueueError):
        rig.lookup(looker, ids[1], peek=True)
    assert rig.queue("q").locked == 1
    epoch = rig.lease()
    rig.claim(epoch, ids[2])
    assert rig.acknowledge(epoch, ids[2]) == 3
    assert rig.queue("q").locked == 0
    rig.check_books()


def test_a_message_that_moved_away_and_back_is_not_claimed() -> None:
    """It has a new lookup identifier; the old one answers to where it is now."""
    rig = GroupRig()
    ids = rig.fill(2)
    reader = rig.open("q", RECEIVE)
    sub = rig.open(SUB, MOVE)
    rig.run(lambda m: m.messages.move_message(reader, ids[0], sub))
    rig.claim(rig.lease(), ids[1])
    rig.lapse()
    (moved,) = rig.ids(SUB)
    back = rig.open("q", QueueAccessType.MOVE)
    source = rig.open(SUB, RECEIVE)
    rig.run(lambda m: m.messages.move_message(source, moved, back))
    assert rig.receive(reader).message.body == b"0"
    with pytest.raises(MessageNotFound):
        rig.lookup(reader, ids[0], peek=False)
