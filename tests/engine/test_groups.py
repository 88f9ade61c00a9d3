"""Named groups: leases with epochs, claims, acknowledgments, operators (docs/architecture.md)."""

from __future__ import annotations

import pytest

from posthouse.engine.ledger.books import books_of
from posthouse.engine.ledger.records import CHANGE, TABLE_GROUP, unpack_change
from posthouse.engine.queues.open_queues import QueueShareMode
from posthouse.model.errors import OperationCancelled, QueueError, SharingViolation
from posthouse.model.message import ACK_FULL_RECEIVE, ACK_RECEIVE, Message
from posthouse.wire.packet.message import serialize
from tests.engine.group_rig import (
    CONSUME,
    INVALID_PARAMETER,
    LEASE_S,
    OBSERVE,
    SHARING_VIOLATION,
    GroupRig,
)
from tests.engine.rig import PEEK, RECEIVE


@pytest.fixture
def rig() -> GroupRig:
    return GroupRig()


# -- leases


def test_a_new_group_begins_in_front_of_the_first_message(rig: GroupRig) -> None:
    ids = rig.fill(3)
    assert rig.lease() == 1
    assert rig.group().definition.position == ids[0] - 1
    assert rig.manager.groups.lag(rig.group()).messages == 3


def test_a_new_group_of_an_empty_queue_begins_at_its_end(rig: GroupRig) -> None:
    rig.fill(2)
    rig.purge()
    rig.lease()
    assert rig.manager.groups.lag(rig.group()).messages == 0
    assert rig.group().definition.position >= rig.manager.groups.purged_through(rig.queue("q"))


def test_a_new_group_begins_where_it_is_told(rig: GroupRig) -> None:
    ids = rig.fill(3)
    rig.lease(position=ids[1])
    assert rig.manager.groups.lag(rig.group()).messages == 1


def test_a_group_that_is_there_keeps_its_position(rig: GroupRig) -> None:
    epoch, ids = rig.claimed(3, 2)
    rig.acknowledge(epoch, ids[1])
    rig.lease(position=0)
    assert rig.group().definition.position == ids[1]


def test_no_group_begins_behind_what_is_to_come(rig: GroupRig) -> None:
    with rig.refused(INVALID_PARAMETER):
        rig.lease(position=rig.manager.groups.last_id() + 1)
    assert not rig.queue("q").groups


@pytest.mark.parametrize(
    "name", ["", "a b", "a/b", "-a", "\N{LATIN SMALL LETTER E WITH ACUTE}", "x" * 65]
)
def test_a_name_that_is_none_is_refused(rig: GroupRig, name: str) -> None:
    with rig.refused(INVALID_PARAMETER):
        rig.lease(name)


def test_an_owner_without_end_is_refused(rig: GroupRig) -> None:
    with rig.refused(INVALID_PARAMETER):
        rig.lease(owner="x" * 1025)


def test_too_many_groups_are_refused() -> None:
    rig = GroupRig(groups_max=1)
    rig.lease("one", mode=OBSERVE)
    with rig.refused(0xC00E0027):
        rig.lease("two", mode=OBSERVE)


def test_outgoing_queues_have_no_groups(rig: GroupRig) -> None:
    rig.send("DIRECT=OS:beta\\private$\\far")
    (outgoing,) = rig.manager.queues.outgoing_queues()
    with rig.refused(0xC00E006A):
        rig.run(lambda m: m.groups.lease(outgoing, "g", OBSERVE, "me"))


def test_another_owner_waits_until_the_lease_has_lapsed(rig: GroupRig) -> None:
    rig.lease(owner="one")
    with rig.refused(SHARING_VIOLATION, "one has the lease.*posthouse group release"):
        rig.lease(owner="two")
    rig.lapse()
    assert rig.lease(owner="two") == 2


def test_the_same_owner_takes_over_at_once_and_the_old_reader_is_refused(rig: GroupRig) -> None:
    ids = rig.fill(2)
    old = rig.lease()
    new = rig.lease()
    assert new == old + 1
    for call in (
        lambda: rig.lease(epoch=old),
        lambda: rig.claim(old, ids[0]),
        lambda: rig.acknowledge(old, ids[0]),
    ):
        with rig.refused(SHARING_VIOLATION, "a newer reader has taken over"):
            call()
    rig.claim(new, ids[0])


def test_an_epoch_that_never_was_is_refused(rig: GroupRig) -> None:
    epoch = rig.lease()
    with rig.refused(SHARING_VIOLATION):
        rig.lease(epoch=epoch + 1)


def test_a_renewed_lease_lasts_from_then_on(rig: GroupRig) -> None:
    epoch = rig.lease()
    rig.advance(LEASE_S - 1)
    assert rig.lease(epoch=epoch) == epoch
    rig.advance(LEASE_S - 1)
    assert rig.manager.groups.is_leased(rig.group())
    assert rig.manager.groups.lease_left_ms(rig.group()) == 1000


def test_a_renewal_writes_nothing(rig: GroupRig) -> None:
    epoch, before = rig.lease(), rig.store.appended
    rig.lease(epoch=epoch)
    assert rig.store.appended == before


def test_a_lapsed_lease_can_be_renewed_if_nobody_took_over(rig: GroupRig) -> None:
    epoch = rig.lease()
    rig.lapse()
    assert not rig.manager.groups.is_leased(rig.group())
    rig.lease(epoch=epoch)
    assert rig.manager.groups.is_leased(rig.group())


def test_a_claim_renews_the_lease(rig: GroupRig) -> None:
    ids = rig.fill(1)
    epoch = rig.lease()
    rig.advance(LEASE_S - 1)
    rig.claim(epoch, ids[0])
    assert rig.manager.groups.lease_left_ms(rig.group()) == LEASE_S * 1000


def test_a_reader_that_ends_frees_the_queue_but_not_what_it_claimed(rig: GroupRig) -> None:
    epoch, ids = rig.claimed(2, 1)
    group = rig.group()
    with rig.refused(SHARING_VIOLATION):
        rig.run(lambda m: m.groups.end_lease(group, epoch - 1))
    rig.run(lambda m: m.groups.end_lease(group, epoch))
    assert rig.receive("q").read.lookup_id == ids[1]
    assert rig.acknowledge(None, ids[0]) == 1


def test_a_group_does_not_change_its_mode(rig: GroupRig) -> None:
    rig.lease(mode=OBSERVE)
    with rig.refused(0xC00E003E, "exists, to observe"):
        rig.lease(mode=CONSUME)


def test_one_group_at_a_time_consumes(rig: GroupRig) -> None:
    ids = rig.fill(2)
    epoch = rig.lease("one")
    with rig.refused(SHARING_VIOLATION, "group one .*posthouse group release"):
        rig.lease("two")
    rig.claim(epoch, ids[0], "one")
    rig.lapse()
    with rig.refused(SHARING_VIOLATION, "claimed.*group one"):
        rig.lease("two")
    rig.acknowledge(None, ids[0], "one")
    rig.lease("two")
    with rig.refused(SHARING_VIOLATION, "group two"):
        rig.lease("one", epoch=epoch)
    with rig.refused(SHARING_VIOLATION, "group two"):
        rig.claim(epoch, ids[1], "one")


def test_any_number_of_groups_observe(rig: GroupRig) -> None:
    rig.fill(1)
    rig.lease("one", mode=OBSERVE)
    rig.lease("two", mode=OBSERVE)
    rig.lease("three", mode=CONSUME)
    assert [group.name for group in rig.manager.groups.all()] == ["one", "three", "two"]


def test_no_lease_beside_an_exclusive_reader(rig: GroupRig) -> None:
    epoch = rig.lease()
    rig.lapse()
    reader = rig.open("q", RECEIVE, share=QueueShareMode.DENY_RECEIVE)
    for options in ({}, {"epoch": epoch}):
        with rig.refused(SHARING_VIOLATION, "open exclusively in another program"):
            rig.lease(**options)
    with rig.refused(SHARING_VIOLATION):
        rig.claim(epoch, 0)
    rig.close(reader)
    rig.lease(epoch=epoch)


@pytest.mark.parametrize("access", [RECEIVE, PEEK])
def test_no_exclusive_reader_beside_a_lease(rig: GroupRig, access: object) -> None:
    rig.lease()
    with rig.refused(SHARING_VIOLATION, "group g"):
        rig.open("q", access, share=QueueShareMode.DENY_RECEIVE)  # type: ignore[arg-type]


# -- claims


def test_an_observing_group_claims_nothing(rig: GroupRig) -> None:
    ids = rig.fill(1)
    epoch = rig.lease(mode=OBSERVE)
    with rig.refused(0xC00E006A):
        rig.claim(epoch, ids[0])


def test_claiming_again_or_less_changes_nothing(rig: GroupRig) -> None:
    epoch, ids = rig.claimed(3, 2)
    before = rig.store.appended
    rig.claim(epoch, ids[1])
    rig.claim(epoch, ids[0])
    rig.claim(epoch, 0)
    assert rig.store.appended == before
    assert rig.group().definition.claimed == ids[1]


def test_what_is_to_come_cannot_be_claimed(rig: GroupRig) -> None:
    epoch = rig.lease()
    with rig.refused(INVALID_PARAMETER):
        rig.claim(epoch, rig.manager.groups.last_id() + 1)


def test_a_claim_stops_before_what_others_hold() -> None:
    rig = GroupRig(queue={"transactional": True})
    for number in range(3):
        tx = rig.begin(f"s{number}")
        rig.send("q", b"%d" % number, tx=tx)
        rig.commit(tx)
    ids = rig.ids()
    reader, tx = rig.open("q", RECEIVE), rig.begin()
    rig.lookup(reader, ids[1], peek=False, transaction=tx)
    epoch = rig.lease()
    assert rig.manager.groups.first_locked(rig.queue("q"), 0) == ids[1]
    assert rig.manager.groups.first_locked(rig.queue("q"), ids[1]) is None
    with rig.refused(SHARING_VIOLATION, "locked by another reader"):
        rig.claim(epoch, ids[2])
    rig.claim(epoch, ids[0])
    rig.abort(tx)
    rig.claim(epoch, ids[2])
    assert rig.manager.groups.claimed_messages(rig.group()) == 3


def test_claims_survive_a_crash_and_count_as_leased_for_a_while(rig: GroupRig) -> None:
    epoch, ids = rig.claimed(3, 2)
    rig.restart()
    assert rig.manager.groups.claimed_messages(rig.group()) == 2
    with rig.refused(SHARING_VIOLATION):
        rig.receive("q")
    with rig.refused(SHARING_VIOLATION):
        rig.lease(owner="another")
    rig.lease(epoch=epoch)
    rig.lapse()
    assert rig.receive("q").read.lookup_id == ids[2]


def test_a_lease_without_claims_ends_with_the_process(rig: GroupRig) -> None:
    rig.fill(1)
    rig.lease()
    rig.restart()
    assert rig.receive("q").message.body == b"0"
    assert rig.lease(owner="another") == 2


# -- acknowledgments


def test_acknowledging_is_receiving(rig: GroupRig) -> None:
    epoch, ids = rig.claimed(4, 3)
    assert rig.acknowledge(epoch, ids[1]) == 2
    assert rig.ids() == ids[2:]
    assert rig.group().definition.position == ids[1]
    assert rig.acknowledge(epoch, ids[2]) == 1
    assert rig.queue("q").claim is None
    assert rig.manager.ledger.claims == 0
    assert books_of(rig.queue("q")).received == 3
    rig.check_books()


def test_acknowledging_again_has_the_same_answer(rig: GroupRig) -> None:
    epoch, ids = rig.claimed(2, 2)
    rig.acknowledge(epoch, ids[1])
    before = rig.store.appended
    assert rig.acknowledge(epoch, ids[1]) == 0
    assert rig.acknowledge(epoch, ids[0]) == 0
    assert rig.store.appended == before


def test_what_is_not_claimed_is_not_acknowledged(rig: GroupRig) -> None:
    epoch, ids = rig.claimed(2, 1)
    with rig.refused(INVALID_PARAMETER, "has claimed messages up to"):
        rig.acknowledge(epoch, ids[1])


def test_an_afterthought_waits_for_the_end_of_the_lease(rig: GroupRig) -> None:
    _, ids = rig.claimed(2, 2)
    with rig.refused(SHARING_VIOLATION, "at work"):
        rig.acknowledge(None, ids[1])
    rig.lapse()
    assert rig.acknowledge(None, ids[0]) == 1
    with rig.refused(INVALID_PARAMETER):
        rig.acknowledge(None, ids[1] + 1)


def test_received_messages_go_to_the_journal_and_are_acknowledged() -> None:
    rig = GroupRig(queue={"journaling": True})
    rig.create("admin")
    epoch, ids = rig.claimed(
        2,
        2,
        administration_queue_format_name="DIRECT=OS:.\\private$\\admin",
        acknowledgements_requested=ACK_FULL_RECEIVE,
    )
    rig.acknowledge(epoch, ids[1])
    assert rig.bodies("ALPHA\\private$\\q;journal") == [b"0", b"1"]
    assert [message.message_class for message in rig.messages("admin")] == [ACK_RECEIVE] * 2


def test_messages_of_all_priorities_are_received_in_the_order_they_came(rig: GroupRig) -> None:
    for number in range(9):
        rig.send("q", b"%d" % number, priority=number % 3)
    ids = rig.ids()
    epoch = rig.lease()
    rig.claim(epoch, ids[7])
    assert rig.acknowledge(epoch, ids[4]) == 5
    assert rig.ids() == ids[5:]


def test_express_messages_are_received_too(rig: GroupRig) -> None:
    rig.fill(2, recoverable=False)
    epoch, ids = rig.claimed(2, 4)
    assert rig.acknowledge(epoch, ids[3]) == 4
    assert rig.manager.groups.elsewhere(rig.group()).received == 0
    rig.check_books()


def test_express_messages_that_a_crash_took_are_passed_over(rig: GroupRig) -> None:
    rig.fill(2, recoverable=False)
    epoch, ids = rig.claimed(2, 4)
    rig.restart()
    assert rig.acknowledge(epoch, ids[3]) == 2
    assert rig.group().definition.position == ids[3]


def test_an_observing_group_moves_on_without_receiving(rig: GroupRig) -> None:
    ids = rig.fill(3)
    epoch = rig.lease(mode=OBSERVE)
    assert rig.acknowledge(epoch, ids[1]) == 0
    assert rig.group().definition.position == ids[1]
    assert rig.group().definition.acknowledged == 2
    assert rig.ids() == ids
    with rig.refused(INVALID_PARAMETER):
        rig.acknowledge(epoch, rig.manager.groups.last_id() + 1)


def test_an_observing_group_hinders_nobody(rig: GroupRig) -> None:
    ids = rig.fill(2)
    rig.lease(mode=OBSERVE)
    assert rig.receive("q").read.lookup_id == ids[0]
    assert rig.purge() == 1
    rig.run(lambda m: m.queues.delete_queue(r".\private$\q", rig.admin))


# -- many messages, in steps


def test_very_many_are_received_in_steps_and_answered_after_the_last() -> None:
    rig = GroupRig(step_messages=3)
    epoch, ids = rig.claimed(8, 7)
    answers = rig.begin_acknowledging(epoch, ids[6])
    assert not answers
    assert rig.group().definition.position == ids[2]
    assert rig.manager.next_deadline_ms() == rig.manager.machine.now_ms
    rig.turn()
    assert rig.group().definition.position == ids[5]
    assert not answers
    rig.turn()
    assert [answer.error for answer in answers] == [None]
    assert rig.ids() == ids[7:]
    assert rig.group().acknowledging is None


def test_each_step_is_one_record_with_the_position() -> None:
    rig = GroupRig(step_messages=3)
    epoch, ids = rig.claimed(8, 8)
    before = rig.store.appended
    rig.acknowledge(epoch, ids[7])
    changes = [unpack_change(r[2]) for r in rig.store.log[before:] if r[0] == CHANGE]
    assert [len(change.ends) for change in changes] == [3, 3, 2]
    assert [[d.table for d in change.defines] for change in changes] == [[TABLE_GROUP]] * 3


def test_a_step_takes_no_more_than_eight_mebibytes_of_packets(rig: GroupRig) -> None:
    for _ in range(5):
        rig.send("q", bytes(3 << 20))
    ids = rig.ids()
    epoch = rig.lease()
    rig.claim(epoch, ids[4])
    before = rig.store.appended
    assert rig.acknowledge(epoch, ids[4]) == 5
    changes = [unpack_change(r[2]) for r in rig.store.log[before:] if r[0] == CHANGE]
    assert [len(change.ends) for change in changes] == [2, 2, 1]


def test_a_crash_between_the_steps_keeps_the_rest_claimed() -> None:
    rig = GroupRig(step_messages=3)
    epoch, ids = rig.claimed(8, 8)
    rig.begin_acknowledging(epoch, ids[7])
    rig.restart()
    assert rig.ids() == ids[3:]
    assert rig.group().definition.position == ids[2]
    assert rig.manager.groups.claimed_messages(rig.group()) == 5
    assert rig.acknowledge(epoch, ids[7]) == 5
    rig.check_books()


def test_asking_again_while_it_runs_joins_it_and_goes_further() -> None:
    rig = GroupRig(step_messages=2)
    epoch, ids = rig.claimed(8, 8)
    first = rig.begin_acknowledging(epoch, ids[3])
    again = rig.begin_acknowledging(epoch, ids[3])
    further = rig.begin_acknowledging(epoch, ids[6])
    for _ in range(4):
        rig.turn()
    assert [len(answers) for answers in (first, again, further)] == [1, 1, 1]
    assert rig.ids() == ids[7:]


def test_a_stop_ends_it_where_it_is() -> None:
    rig = GroupRig(step_messages=2)
    epoch, ids = rig.claimed(8, 8)
    answers = rig.begin_acknowledging(epoch, ids[7])
    rig.driver.close()
    (answer,) = answers
    assert isinstance(answer.error, OperationCancelled)


def test_a_release_ends_it_where_it_is() -> None:
    rig = GroupRig(step_messages=2)
    epoch, ids = rig.claimed(8, 8)
    answers = rig.begin_acknowledging(epoch, ids[7])
    rig.release()
    rig.turn()
    (answer,) = answers
    assert isinstance(answer.error, SharingViolation)
    assert len(rig.ids()) in (4, 6)
    before = rig.ids()
    rig.turn()
    assert rig.ids() == before


def test_a_reader_that_waits_at_the_journal_is_served_by_each_step() -> None:
    rig = GroupRig(step_messages=2, queue={"journaling": True})
    epoch, ids = rig.claimed(3, 3)
    waiting = rig.wait(rig.open("ALPHA\\private$\\q;journal", RECEIVE))
    rig.acknowledge(epoch, ids[2])
    assert len(waiting) == 1
    rig.check_books()


# -- operators


def test_a_release_gives_messages_back_and_refuses_the_reader(rig: GroupRig) -> None:
    epoch, ids = rig.claimed(3, 2)
    assert rig.release() == 2
    assert rig.receive("q").read.lookup_id == ids[0]
    with rig.refused(SHARING_VIOLATION, "newer reader"):
        rig.acknowledge(epoch, ids[1])
    with rig.refused(INVALID_PARAMETER, "operator who released"):
        rig.acknowledge(None, ids[1])
    rig.restart()
    assert rig.receive("q").read.lookup_id == ids[1]


def test_a_release_without_claims_ends_the_lease(rig: GroupRig) -> None:
    rig.fill(1)
    rig.lease()
    assert rig.release() == 0
    rig.receive("q")


def test_the_release_of_a_group_leaves_the_claims_of_another(rig: GroupRig) -> None:
    rig.lease("old")
    rig.lapse()
    _, ids = rig.claimed(2, 1)
    rig.release("old")
    rig.lapse()
    assert rig.receive("q").read.lookup_id == ids[1]


def test_a_position_is_set_forwards_and_backwards(rig: GroupRig) -> None:
    ids = rig.fill(3)
    rig.lease(mode=OBSERVE)
    group = rig.group()
    with rig.refused(SHARING_VIOLATION):
        rig.run(lambda m: m.groups.set_position(group, ids[1]))
    rig.lapse()
    rig.run(lambda m: m.groups.set_position(group, ids[1]))
    assert rig.manager.groups.lag(group).messages == 1
    rig.run(lambda m: m.groups.set_position(group, 0))
    rig.restart()
    assert rig.group().definition.position == 0
    with rig.refused(INVALID_PARAMETER):
        rig.run(lambda m: m.groups.set_position(rig.group(), 1 << 60))


def test_a_group_that_is_sent_back_has_no_claims(rig: GroupRig) -> None:
    epoch, ids = rig.claimed(3, 3)
    rig.acknowledge(epoch, ids[2])
    rig.lapse()
    group = rig.group()
    rig.run(lambda m: m.groups.set_position(group, 0))
    rig.restart()
    assert not rig.group().has_claims
    assert rig.manager.ledger.claims == 0
    rig.lease("other")


def test_neither_position_nor_end_of_a_group_with_claims(rig: GroupRig) -> None:
    rig.claimed(2, 1)
    rig.lapse()
    group = rig.group()
    with rig.refused(SHARING_VIOLATION, "it has claims"):
        rig.run(lambda m: m.groups.set_position(group, 0))
    with rig.refused(SHARING_VIOLATION, "it has claims"):
        rig.run(lambda m: m.groups.delete(group))


def test_a_deleted_group_is_gone_for_good(rig: GroupRig) -> None:
    rig.lease()
    rig.lapse()
    group = rig.group()
    rig.run(lambda m: m.groups.delete(group))
    assert not rig.manager.groups.all()
    assert rig.queue("q").consumer is None
    rig.restart()
    assert not rig.manager.groups.all()
    assert rig.lease() == 1


def test_groups_go_with_their_queue(rig: GroupRig) -> None:
    rig.fill(1)
    rig.purge()
    rig.lease(mode=OBSERVE)
    rig.run(lambda m: m.queues.delete_queue(r".\private$\q", rig.admin))
    tables = {table for table, _ in rig.manager.ledger.state.definitions}
    assert not tables & {17, 18}
    rig.restart()
    assert not rig.manager.groups.all()


# -- figures


def test_what_happened_elsewhere_is_counted_since_the_group_was_made(rig: GroupRig) -> None:
    rig.fill(1)
    rig.receive("q")
    ids = rig.fill(6, time_to_be_received=0xFFFFFFFF)
    epoch = rig.lease()
    rig.claim(epoch, ids[1])
    rig.acknowledge(epoch, ids[1])
    rig.lapse()
    rig.receive("q")
    rig.send("q", time_to_be_received=1)
    rig.advance(2)
    assert rig.purge() == 3
    elsewhere = rig.manager.groups.elsewhere(rig.group())
    assert elsewhere == (1, 1, 3, 0)
    assert rig.group().definition.acknowledged == 2
    rig.restart()
    assert rig.manager.groups.elsewhere(rig.group()) == elsewhere


def test_lag_has_the_bytes_of_what_lies_behind_the_position(rig: GroupRig) -> None:
    ids = rig.fill(4)
    sizes = [rig.manager.messages.row(n).size for _, n in rig.queue("q").state.order.forward()]
    rig.lease(mode=OBSERVE)
    groups = rig.manager.groups
    assert groups.lag(rig.group()) == (4, sum(sizes))
    rig.acknowledge(1, ids[0])
    assert groups.lag(rig.group()) == (3, sum(sizes[1:]))
    rig.acknowledge(1, ids[3])
    assert groups.lag(rig.group()) == (0, 0)


def test_the_bytes_of_a_long_lag_are_estimated(rig: GroupRig) -> None:
    """However many there are: whoever looks at a group keeps others waiting meanwhile."""
    reader = rig.open("q")
    packet = serialize(Message(body=b"x", destination_queue_format_name="DIRECT=OS:.\\private$\\q"))
    rig.run(lambda m: m.messages.send_packets(reader, [packet] * 600))
    ids = rig.ids()
    rig.lease(mode=OBSERVE)
    rig.acknowledge(1, ids[199])
    total = rig.queue("q").state.bytes
    assert rig.manager.groups.lag(rig.group()) == (400, total * 400 // 600)
    rig.acknowledge(1, ids[599])
    rig.fill(1)
    (size,) = {rig.manager.messages.row(rig.queue("q").current_number(rig.ids()[-1])).size}
    assert rig.manager.groups.lag(rig.group()) == (1, size)


# -- the highest identifier that was purged


def test_a_purge_leaves_its_mark(rig: GroupRig) -> None:
    ids = rig.fill(3)
    groups = rig.manager.groups
    assert groups.purged_through(rig.queue("q")) == 0
    rig.purge()
    assert groups.purged_through(rig.queue("q")) == ids[2]
    rig.purge()
    later = rig.fill(1)
    rig.receive("q")
    assert groups.purged_through(rig.queue("q")) == ids[2] < later[0]
    rig.restart()
    assert rig.manager.groups.purged_through(rig.queue("q")) == ids[2]


def test_the_mark_is_in_the_record_of_the_purge() -> None:
    rig = GroupRig(step_messages=2)
    ids = rig.fill(5)
    before = rig.store.appended
    rig.purge()
    changes = [unpack_change(r[2]) for r in rig.store.log[before:] if r[0] == CHANGE]
    marks = [[int.from_bytes(d.value or b"", "little") for d in c.defines] for c in changes if c]
    assert marks == [[ids[1]], [ids[3]], [ids[4]]]


def test_a_purged_message_in_other_hands_leaves_its_mark_when_it_ends(rig: GroupRig) -> None:
    ids = rig.fill(2)
    reader = rig.open("q", RECEIVE)
    held = [rig.receive(reader, two_phase=True) for _ in ids]
    rig.purge()
    assert rig.manager.groups.purged_through(rig.queue("q")) == 0
    rig.run(lambda m: m.messages.dequeue_message_end(reader, held[0].read.lookup_id, positive=True))
    assert rig.manager.groups.purged_through(rig.queue("q")) == 0
    rig.run(
        lambda m: m.messages.dequeue_message_end(reader, held[1].read.lookup_id, positive=False)
    )
    assert rig.manager.groups.purged_through(rig.queue("q")) == ids[1]


def test_a_crash_ends_purged_messages_with_their_mark(rig: GroupRig) -> None:
    ids = rig.fill(1)
    reader = rig.open("q", RECEIVE)
    rig.receive(reader, two_phase=True)
    rig.purge()
    rig.restart()
    assert rig.ids() == []
    assert rig.manager.groups.purged_through(rig.queue("q")) == ids[0]


def test_refusals_name_the_group_and_the_remedy(rig: GroupRig) -> None:
    rig.claimed(1, 1)
    with pytest.raises(QueueError) as caught:
        rig.receive("q")
    assert "group g " in caught.value.cause
    assert caught.value.remedy.endswith(r"posthouse group release 'ALPHA\private$\q' g")


def test_the_bytes_of_a_long_lag_are_exact_where_little_lies_in_front(rig: GroupRig) -> None:
    """What was dealt with is subtracted: here one message that is larger than the others."""
    rig.send("q", b"x" * 5000)
    reader = rig.open("q")
    packet = serialize(Message(body=b"x", destination_queue_format_name="DIRECT=OS:.\\private$\\q"))
    rig.run(lambda m: m.messages.send_packets(reader, [packet] * 200))
    first, *others = [
        rig.manager.messages.row(number).size for _, number in rig.queue("q").state.order.forward()
    ]
    rig.lease(mode=OBSERVE)
    rig.acknowledge(1, rig.ids()[0])
    assert first > 5000
    assert rig.manager.groups.lag(rig.group()) == (200, sum(others))
