"""What remote readers ask of the engine ([MS-MQRR] 3.1.4.9-15, 3.1.5, 3.1.6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.effects import READ_IN_DOUBT
from posthouse.engine.transfer import remote_reads
from posthouse.engine.transfer.remote_reads import Particulars
from posthouse.model.errors import (
    AccessDenied,
    InvalidHandle,
    InvalidParameter,
    MessageLockedUnderTransaction,
    MessageNotFound,
    StatusInvalidParameter,
    TransactionEnlist,
    TransactionSequence,
    TransactionUsage,
)
from posthouse.model.guids import NULL_GUID
from posthouse.model.message import NACK_RECEIVE_REJECTED
from posthouse.security.peer_calls import Reply, Verb
from tests.engine.arrivals import PeerRig
from tests.engine.far_readers import UOW, Client, FarReaders, far_readers
from tests.engine.letters import FAR_GUID
from tests.engine.readers import DEAD_TRANSACTIONAL, SUBQUEUE, answered, user
from tests.engine.rig import MOVE, PEEK, RECEIVE

ENLIST, SEQUENCE, USAGE = 0xC00E0058, 0xC00E0051, 0xC00E0050
NOT_FOUND, HANDLE, PARAMETER = 0xC00E0088, 0xC00E0007, 0xC00E0006
LOCKED, STATUS_PARAMETER, DENIED = 0xC00E009C, 0xC000000D, 0xC00E0025
OTHER = r".\private$\q;other"


# -- enlistment (3.1.4.12)


@pytest.mark.spec("MS-MQRR 3.1.4.12/6", "MS-MQRR 3.1.4.12/8", "MS-MQRR 3.1.4.12/1")
def test_a_token_of_our_coordinator_makes_the_identifier_known() -> None:
    rig = far_readers(b"a", transactional=True)
    source = rig.reader()
    with rig.refuses(TransactionSequence, SEQUENCE):
        rig.transaction(source)
    rig.enlist()
    assert rig.transaction(source) is rig.manager.transactions.find(UOW)
    rig.enlist()  # said twice it is the same


@pytest.mark.spec("MS-MQRR 3.1.4.12/7")
@pytest.mark.parametrize("token", [b"\x01\x00\x00\x00" * 40, b"", b"PHTX"])
def test_a_windows_token_is_refused_and_begins_nothing(token: bytes) -> None:
    rig = far_readers(transactional=True)
    with rig.refuses(TransactionEnlist, ENLIST):
        rig.enlist(token=token)
    assert UOW not in rig.manager.transactions.collection.open


@pytest.mark.spec("MS-MQRR 3.1.4.12/7")
@given(st.binary(max_size=400))
def test_no_other_bytes_are_a_token(token: bytes) -> None:
    rig = far_readers()
    with rig.refuses(TransactionEnlist, ENLIST):
        rig.enlist(token=token)


@pytest.mark.spec("MS-MQRR 3.1.4.12/6")
def test_a_token_of_another_transaction_is_refused() -> None:
    rig = far_readers(transactional=True)
    with rig.refuses(TransactionEnlist, ENLIST):
        rig.enlist(token=rig.token(b"v" * 16))
    with rig.refuses(TransactionEnlist, ENLIST):
        rig.enlist(token=rig.token(coordinator=b"D" * 16))


@pytest.mark.spec("MS-MQRR 3.1.4.12/2", "MS-MQRR 3.1.4.10/8", "MS-MQRR 3.1.4.15/3")
@pytest.mark.parametrize("commit", [True, False])
def test_receives_and_moves_of_one_transaction_happen_together(commit: bool) -> None:
    rig = far_readers(b"read", b"moved", transactional=True)
    rig.enlist()
    source, target = rig.reader(), rig.mover(SUBQUEUE)
    rig.receive_in(source)
    rig.move_to(source, target.context, rig.id_of(b"moved"), UOW)
    assert rig.bodies("q") == [b"read", b"moved"]
    assert rig.bodies(SUBQUEUE) == []
    assert rig.call(Verb.PREPARE) is Reply.PREPARED
    rig.restart()
    assert rig.call(Verb.COMMIT if commit else Verb.ABORT) is Reply.DONE
    assert rig.bodies("q") == ([] if commit else [b"read", b"moved"])
    assert (rig.bodies(SUBQUEUE) if commit else []) == ([b"moved"] if commit else [])
    rig.check_books()


@pytest.mark.spec("MS-MQRR 3.1.4.15/1")
def test_what_was_not_acknowledged_is_not_committed() -> None:
    rig = far_readers(b"a", b"b", transactional=True)
    rig.enlist()
    source = rig.reader()
    rig.receive_in(source)
    rig.start(source, UOW)  # whether this one ever reached its reader is not known
    assert rig.call(Verb.PREPARE) is Reply.ABORTED
    assert rig.available() == [b"a", b"b"]


# -- whose transaction it is (decision 6, 3.1.4.13)


@pytest.mark.spec("MS-MQRR 3.1.4.13/20")
def test_an_unknown_transaction_is_refused_and_none_is_made() -> None:
    rig = far_readers(b"a", transactional=True)
    source = rig.reader()
    with rig.refuses(TransactionSequence, SEQUENCE):
        rig.start(source, UOW)
    assert not rig.manager.transactions.collection.open


@pytest.mark.spec("MS-MQRR 3.1.4.13/18", "MS-MQRR 3.1.4.13/19", "MS-MQRR 3.1.4.13/8")
def test_the_queue_and_the_action_come_before_the_transaction() -> None:
    rig = far_readers(b"a")
    with rig.refuses(TransactionUsage, USAGE):
        rig.transaction(rig.reader())
    rig.create("t", transactional=True)
    with rig.refuses(TransactionUsage, USAGE):
        rig.transaction(rig.reader("t"), peek=True)
    with rig.refuses(TransactionSequence, SEQUENCE):
        rig.transaction(rig.reader("t"))


@pytest.mark.spec("MS-MQRR 3.1.4.13/9", "MS-MQRR 3.1.4.13/16")
@pytest.mark.parametrize("peek", [True, False])
def test_the_null_transaction_is_none_whatever_the_queue(peek: bool) -> None:
    rig = far_readers(b"a")
    assert rig.transaction(rig.reader(), NULL_GUID, peek=peek) is None


def test_a_transaction_is_its_clients_only() -> None:
    rig = far_readers(b"a", transactional=True)
    local = rig.begin("local")
    rig.enlist()
    stranger = rig.reader(association=Client())
    for identifier in (UOW, local.identifier):
        with rig.refuses(TransactionSequence, SEQUENCE):
            rig.transaction(stranger, identifier)
    with rig.refuses(TransactionSequence, SEQUENCE):
        rig.transaction(rig.reader(), local.identifier)
    with rig.refuses(TransactionEnlist, ENLIST):
        rig.enlist(association=Client())


@pytest.mark.spec("MS-MQRR 3.1.4.13/25")
@pytest.mark.parametrize("how", ["idle", "gone"])
def test_a_client_that_is_silent_or_gone_loses_its_transaction(how: str) -> None:
    rig = far_readers(b"a", transactional=True)
    rig.enlist()
    rig.receive_in(rig.reader())
    if how == "idle":
        rig.advance(61)
    else:
        rig.run(lambda m: remote_reads.end_association(m, rig.client))
    assert rig.available() == [b"a"]
    assert rig.call(Verb.PREPARE) is Reply.ABORTED
    with pytest.raises(TransactionEnlist):
        rig.enlist()  # half of it is gone: a new part would look whole


# -- the end of a read (3.1.4.15)


@pytest.mark.spec("MS-MQRR 3.1.4.15/3", "MS-MQRR 3.1.4.13/22")
def test_an_acknowledged_read_stays_locked_until_the_commit() -> None:
    rig = far_readers(b"a", transactional=True)
    rig.enlist()
    rig.receive_in(rig.reader())
    assert rig.bodies("q") == [b"a"]
    assert rig.available() == []
    rig.commit_from_afar()
    assert rig.bodies("q") == []


@pytest.mark.spec("MS-MQRR 3.1.4.15/4")
def test_a_refused_read_leaves_the_transaction_at_once() -> None:
    rig = far_readers(b"a", b"b", transactional=True)
    rig.enlist()
    source = rig.reader()
    refused = rig.start(source, UOW).read
    rig.receive_in(source)
    rig.end_read(source, refused.lookup_id, positive=False)
    assert rig.available() == [b"a"]
    rig.commit_from_afar()
    assert rig.available() == [b"a"]
    assert rig.read_of(b"a").aborts == 0


@pytest.mark.spec("MS-MQRR 3.1.4.15/9")
@pytest.mark.parametrize("positive", [True, False])
def test_a_message_that_is_gone_has_no_end(positive: bool) -> None:
    rig = far_readers(b"a", transactional=True)
    rig.enlist()
    source = rig.reader()
    lookup_id = rig.receive_in(source).read.lookup_id
    rig.commit_from_afar()
    with rig.refuses(MessageNotFound, NOT_FOUND):
        rig.end_read(source, lookup_id, positive=positive)


@pytest.mark.spec("MS-MQRR 3.1.4.15/10")
def test_a_read_whose_transaction_was_aborted_cannot_end() -> None:
    rig = far_readers(b"a", transactional=True)
    rig.enlist()
    source = rig.reader()
    lookup_id = rig.start(source, UOW).read.lookup_id
    assert rig.call(Verb.ABORT) is Reply.DONE
    with rig.refuses(TransactionSequence, SEQUENCE):
        rig.end_read(source, lookup_id, positive=True)


@pytest.mark.parametrize("positive", [True, False])
def test_outside_transactions_an_end_takes_or_returns_the_message(positive: bool) -> None:
    rig = far_readers(b"a")
    source = rig.reader()
    rig.end_read(source, rig.start(source).read.lookup_id, positive=positive)
    assert rig.available() == ([] if positive else [b"a"])


# -- rejection (3.1.4.14)


@pytest.mark.spec("MS-MQRR 3.1.4.14/3", "MS-MQRR 3.1.4.14/7")
@pytest.mark.parametrize("message_class", [0, NACK_RECEIVE_REJECTED])
def test_a_rejection_counts_at_the_commit(message_class: int) -> None:
    rig = far_readers(transactional=True)
    rig.fill(b"a", negative_journaling_requested=True)
    rig.enlist()
    source = rig.reader()
    lookup_id = rig.receive_in(source).read.lookup_id
    rig.set_class(source, lookup_id, message_class)
    assert rig.bodies("q") == [b"a"]
    rig.commit_from_afar()
    assert rig.bodies("q") == []
    assert rig.bodies(DEAD_TRANSACTIONAL) == ([b"a"] if message_class else [])


@pytest.mark.spec("MS-MQRR 3.1.4.14/7")
def test_a_rejected_message_is_back_after_an_abort() -> None:
    rig = far_readers(b"a", transactional=True)
    rig.enlist()
    source = rig.reader()
    rig.set_class(source, rig.receive_in(source).read.lookup_id, NACK_RECEIVE_REJECTED)
    assert rig.call(Verb.ABORT) is Reply.DONE
    assert rig.available() == [b"a"]


@pytest.mark.spec("MS-MQRR 3.1.4.14/5")
@pytest.mark.parametrize("message_class", [0, NACK_RECEIVE_REJECTED])
def test_only_a_message_of_the_queue_is_rejected(message_class: int) -> None:
    rig = far_readers(b"a", transactional=True)
    rig.create("other", transactional=True)
    for lookup_id in (4711, rig.ids()[0]):
        with rig.refuses(MessageNotFound, NOT_FOUND):
            rig.set_class(rig.reader("other"), lookup_id, message_class)


@pytest.mark.spec("MS-MQRR 3.1.4.14/6")
@pytest.mark.parametrize("message_class", [0, NACK_RECEIVE_REJECTED])
def test_only_what_the_client_received_in_a_transaction_is_rejected(message_class: int) -> None:
    rig = far_readers(b"free", b"held", b"moved", b"another's", transactional=True)
    ids = rig.ids()
    source, stranger = rig.reader(), rig.reader(association=Client())
    rig.enlist()
    rig.hold(stranger, transaction=rig.begin("local", stranger.association))
    rig.lookup(source, ids[1], peek=False, two_phase=True)
    rig.move_to(source, rig.mover(SUBQUEUE).context, ids[2], UOW)
    for lookup_id in ids:
        with rig.refuses(TransactionUsage, USAGE):
            rig.set_class(source, lookup_id, message_class)


@pytest.mark.spec("MS-MQRR 3.1.4.14/2", "MS-MQRR 3.1.4.14/3")
@pytest.mark.parametrize("message_class", [1, 0x4000, 0xC000, 0xFFFF])
def test_no_other_class_is_taken(message_class: int) -> None:
    rig = far_readers(b"a", transactional=True)
    rig.enlist()
    source = rig.reader()
    lookup_id = rig.receive_in(source).read.lookup_id
    with rig.refuses(InvalidParameter, PARAMETER):
        rig.set_class(source, lookup_id, message_class)
    with rig.refuses(AccessDenied, DENIED):
        rig.set_class(rig.open("q", PEEK, association=rig.client), lookup_id, message_class)


# -- moves (3.1.4.10)


@pytest.mark.spec("MS-MQRR 3.1.4.10/1", "MS-MQRR 3.1.4.10/5", "MS-MQRR 3.1.4.10/9")
@pytest.mark.parametrize(("start", "goal"), [("q", SUBQUEUE), (SUBQUEUE, "q"), (SUBQUEUE, OTHER)])
def test_a_message_moves_inside_its_family(start: str, goal: str) -> None:
    rig = far_readers(b"a")
    target = rig.mover(goal)
    if start == SUBQUEUE:
        rig.move_between(b"a", "q", SUBQUEUE)
    source = rig.reader(start)
    lookup_id = rig.ids(start)[0]
    rig.move_to(source, target.context, lookup_id)
    assert (rig.bodies(start), rig.bodies(goal)) == ([], [b"a"])
    assert rig.ids(goal) != [lookup_id]
    rig.restart()
    assert rig.bodies(goal) == [b"a"]


@pytest.mark.spec("MS-MQRR 3.1.4.10/12", "MS-MQRR 3.1.4.10/1", "MS-MQRR 3.1.4.10/13")
@pytest.mark.parametrize(
    "goal", ["q", "stranger", r".\private$\stranger;poison", r".\private$\q2;poison"]
)
def test_queues_that_are_not_related_exchange_nothing(goal: str) -> None:
    rig = far_readers(b"a")
    rig.create("stranger")
    rig.create("q2")
    source, target = rig.reader(), rig.mover(goal)
    with rig.refuses(StatusInvalidParameter, STATUS_PARAMETER):
        rig.move_to(source, target.context, rig.ids()[0])


@pytest.mark.spec("MS-MQRR 3.1.4.10/3", "MS-MQRR 3.1.4.10/11", "MS-MQRR 3.2.4.6/1")
def test_a_move_context_is_good_for_its_own_client_and_user_only() -> None:
    rig = far_readers(b"a")
    rig.grant("receive,peek")
    lookup_id, source = rig.ids()[0], rig.reader()
    closed = rig.mover(SUBQUEUE)
    rig.close(closed)
    contexts = [
        0,
        closed.context,
        rig.mover(SUBQUEUE).handle,  # a context is not a handle, and no handle a context
        source.context,
        rig.open(SUBQUEUE, RECEIVE, association=rig.client).context,
        rig.mover(SUBQUEUE, association=Client()).context,
        rig.mover(SUBQUEUE, caller=user()).context,
    ]
    for context in contexts:
        with rig.refuses(InvalidHandle, HANDLE):
            rig.move_to(source, context, lookup_id)
    rig.move_to(source, rig.mover(SUBQUEUE).context, lookup_id)


def test_move_contexts_are_random() -> None:
    rig = far_readers()
    contexts = {rig.mover(SUBQUEUE).context for _ in range(64)}
    assert len(contexts) == 64
    assert max(contexts).bit_length() > 56


@pytest.mark.spec("MS-MQRR 3.1.4.10/2")
@pytest.mark.parametrize("access", [PEEK, MOVE])
def test_a_source_is_open_for_receiving(access: Any) -> None:
    rig = far_readers(b"a")
    source = rig.open("q", access, association=rig.client)
    target = rig.mover(SUBQUEUE)
    with rig.refuses(AccessDenied, DENIED):
        rig.move_to(source, target.context, rig.ids()[0])


@pytest.mark.spec("MS-MQRR 3.1.4.10/14", "MS-MQRR 3.1.4.10/6", "MS-MQRR 3.2.4.6/2")
@pytest.mark.parametrize("transactional", [True, False])
def test_transactional_queues_want_a_transaction_and_others_want_none(transactional: bool) -> None:
    rig = far_readers(b"a", transactional=transactional)
    rig.enlist()
    source, target = rig.reader(), rig.mover(SUBQUEUE)
    wrong, right = (NULL_GUID, UOW) if transactional else (UOW, NULL_GUID)
    with rig.refuses(TransactionUsage, USAGE):
        rig.move_to(source, target.context, rig.ids()[0], wrong)
    rig.move_to(source, target.context, rig.ids()[0], right)


@pytest.mark.spec("MS-MQRR 3.1.4.10/15", "MS-MQRR 3.1.4.10/4")
def test_a_message_that_is_not_in_the_source_is_not_moved() -> None:
    rig = far_readers(b"a")
    source, target = rig.reader(), rig.mover(SUBQUEUE)
    for lookup_id in (0, 4711, rig.ids()[0] + (1 << 32)):
        with rig.refuses(MessageNotFound, NOT_FOUND):
            rig.move_to(source, target.context, lookup_id)


@pytest.mark.spec("MS-MQRR 3.1.4.10/16")
def test_a_message_of_another_transaction_is_not_moved() -> None:
    rig = far_readers(b"a", transactional=True)
    rig.enlist()
    source, target = rig.reader(), rig.mover(SUBQUEUE)
    rig.hold(rig.reader(), transaction=rig.begin("local"))
    with rig.refuses(MessageLockedUnderTransaction, LOCKED):
        rig.move_to(source, target.context, rig.ids()[0], UOW)


@pytest.mark.spec("MS-MQRR 3.1.4.10/17", "MS-MQRR 3.1.4.10/7")
def test_a_move_in_an_unknown_transaction_is_refused() -> None:
    rig = far_readers(b"a", transactional=True)
    source, target = rig.reader(), rig.mover(SUBQUEUE)
    rig.enlist(association=Client())
    for identifier in (UOW, b"v" * 16):
        with rig.refuses(TransactionSequence, SEQUENCE):
            rig.move_to(source, target.context, rig.ids()[0], identifier)


@pytest.mark.spec("MS-MQRR 3.1.4.10/10", "MS-MQRR 3.1.4.10/11", "MS-MQRR 3.1.4.10/12")
def test_the_reasons_to_refuse_a_move_come_in_order() -> None:
    """Every step repairs what the last one was refused for."""
    rig = far_readers(transactional=True)
    rig.create("plain")
    source, stranger = rig.reader(), rig.mover(r".\private$\plain;poison")
    target = rig.mover(SUBQUEUE)
    steps: list[tuple[type[Exception], int, int, bytes]] = [
        (InvalidHandle, 1, 1, NULL_GUID),
        (StatusInvalidParameter, stranger.context, 1, UOW),
        (TransactionUsage, target.context, 1, NULL_GUID),
        (MessageNotFound, target.context, 1, UOW),
    ]
    for error, context, lookup_id, identifier in steps:
        with pytest.raises(error):
            rig.move_to(source, context, lookup_id, identifier)
    rig.fill(b"a")
    held = rig.begin("local")
    rig.hold(rig.reader(), transaction=held)
    with pytest.raises(MessageLockedUnderTransaction):
        rig.move_to(source, target.context, rig.ids()[0], UOW)
    rig.abort(held)
    with pytest.raises(TransactionSequence):
        rig.move_to(source, target.context, rig.ids()[0], UOW)
    rig.enlist()
    rig.move_to(source, target.context, rig.ids()[0], UOW)


# -- clients that are gone (3.1.5.1, 3.1.6), and doubt (decision 42)


def in_doubt(rig: FarReaders, name: str = "q") -> list[bytes]:
    marked = [bool(read.flags & READ_IN_DOUBT) for read in rig.reads(name)]
    return [text for text, mark in zip(rig.bodies(name), marked, strict=True) if mark]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.12/7", "MS-MQRR 3.1.5.1/1")
def test_what_a_lost_reader_held_comes_again_and_says_so() -> None:
    rig = far_readers(b"a", b"b")
    source = rig.reader()
    lookup_id = rig.start(source).read.lookup_id
    rig.give_back(source, lookup_id, in_doubt=True)
    assert rig.available() == [b"a", b"b"]
    assert in_doubt(rig) == [b"a"]
    assert rig.manager.machine.refusals["message_in_doubt"] == 1
    assert [event.name for event in rig.events].count("message_in_doubt") == 1
    assert rig.read_of(b"a").aborts == 0
    rig.restart()
    assert in_doubt(rig) == [b"a"]
    rig.move_between(b"a", "q", SUBQUEUE)
    assert in_doubt(rig, SUBQUEUE) == [b"a"]
    again = rig.receive(SUBQUEUE)
    assert again.read.flags & READ_IN_DOUBT
    assert not rig.receive("q").read.flags & READ_IN_DOUBT
    assert rig.manager.ledger.state.extras == {}


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.12/7")
def test_many_readers_see_the_mark_too() -> None:
    rig = far_readers(b"a", b"b", b"c")
    source = rig.reader()
    rig.give_back(source, rig.start(source).read.lookup_id, in_doubt=True)
    reads = rig.run(lambda m: m.messages.dequeue_messages(source, 3))
    assert [bool(read.flags & READ_IN_DOUBT) for read in reads] == [True, False, False]


def test_who_gives_back_by_himself_leaves_no_doubt() -> None:
    rig = far_readers(b"a", b"b", b"c")
    source = rig.reader()
    rig.end_read(source, rig.start(source).read.lookup_id, positive=False)
    rig.give_back(source, rig.start(source).read.lookup_id, in_doubt=False)
    rig.start(source)
    rig.close(source)
    assert rig.available() == [b"a", b"b", b"c"]
    assert in_doubt(rig) == []


@pytest.mark.spec("MS-MQRR 3.1.6.2/2", "MS-MQRR 3.1.6.2/3", "MS-MQRR 3.1.6.1/2")
def test_rundown_returns_what_was_held_and_closes_the_queue() -> None:
    rig = far_readers(b"a", b"b")
    source = rig.reader()
    rig.start(source)
    rig.cursor(source)
    answers = rig.wait(rig.reader(), timeout_ms=None, tag=1)  # takes b
    waiting = rig.wait(rig.reader(association=Client()), timeout_ms=None, tag=1)
    rig.run(lambda m: remote_reads.run_down(m, source))
    assert [answered(answers), answered(waiting)] == [b"b", b"a"]
    assert waiting[0].value.flags & READ_IN_DOUBT  # type: ignore[attr-defined]
    assert not source.cursors
    with pytest.raises(InvalidHandle):
        rig.close(source)


@pytest.mark.spec("MS-MQRR 3.1.6.1/1", "MS-MQRR 3.1.6.1/2", "MS-MQRR 3.1.6.2/1")
def test_a_client_that_is_gone_leaves_nothing_open() -> None:
    rig = far_readers(b"a", b"b", transactional=True)
    rig.enlist()
    first, second = rig.reader(), rig.reader()
    rig.receive_in(first)
    rig.start(second)
    waiting = rig.wait(first, timeout_ms=None, tag=1)
    rig.run(lambda m: remote_reads.end_association(m, rig.client))
    assert [type(one.error).__name__ for one in waiting] == ["OperationCancelled"]
    assert rig.available() == [b"a", b"b"]
    assert in_doubt(rig) == [b"b"]  # what a transaction undid is in no doubt
    assert rig.manager.queues.opening.opened_by(rig.client) == []
    assert not rig.manager.transactions.collection.open


@pytest.mark.spec("MS-MQRR 3.1.5.1/1")
def test_a_read_in_a_transaction_that_was_given_up_leaves_it() -> None:
    rig = far_readers(b"a", b"b", transactional=True)
    rig.enlist()
    source = rig.reader()
    given_up = rig.start(source, UOW).read.lookup_id
    rig.receive_in(source)
    rig.give_back(source, given_up, in_doubt=True)
    assert rig.available() == [b"a"]
    assert in_doubt(rig) == []
    rig.commit_from_afar()
    assert rig.bodies("q") == [b"a"]


@pytest.mark.parametrize("state", ["free", "gone", "deleted", "prepared"])
def test_there_is_not_always_something_to_give_back(state: str) -> None:
    rig = far_readers(b"a", transactional=True)
    rig.enlist()
    source = rig.reader()
    lookup_id = rig.receive_in(source).read.lookup_id
    if state == "free":
        assert rig.call(Verb.ABORT) is Reply.DONE
    elif state == "gone":
        rig.commit_from_afar()
    elif state == "deleted":
        rig.delete()
    else:
        assert rig.call(Verb.PREPARE) is Reply.PREPARED
    before = rig.picture()
    rig.give_back(source, lookup_id, in_doubt=True)
    assert rig.picture() == before


def test_a_purged_message_of_a_lost_reader_is_gone() -> None:
    rig = far_readers(b"a")
    source = rig.reader()
    lookup_id = rig.start(source).read.lookup_id
    rig.purge()
    rig.give_back(source, lookup_id, in_doubt=True)
    assert rig.bodies("q") == []
    assert rig.manager.machine.refusals["message_in_doubt"] == 0
    rig.check_books()


# -- particulars (2.2.5)


def test_a_plain_message_has_no_particulars() -> None:
    rig = far_readers(b"a")
    assert rig.particulars(rig.peek("q")) == Particulars(source_address="127.0.0.1")
    assert rig.particulars(rig.start(rig.reader())) == Particulars(source_address="127.0.0.1")


@pytest.mark.spec("MS-MQRR 2.2.5.3/10", "MS-MQRR 2.2.5.3/11")
def test_a_message_says_which_subqueue_it_lies_in() -> None:
    rig = far_readers(b"a")
    rig.move_between(b"a", "q", SUBQUEUE)
    assert rig.particulars(rig.peek(SUBQUEUE)).subqueue == "poison"
    rig.move_between(b"a", SUBQUEUE, "q")
    assert rig.particulars(rig.peek("q")).subqueue == ""


@pytest.mark.spec("MS-MQRR 2.2.5.3/12", "MS-MQRR 2.2.5.3/13")
def test_a_message_on_the_move_says_where_to() -> None:
    rig = far_readers(b"a", b"b", transactional=True)
    rig.enlist()
    source = rig.reader()
    seen = rig.peek("q")
    assert rig.particulars(seen).target_subqueue == ""
    rig.move_to(source, rig.mover(SUBQUEUE).context, seen.read.lookup_id, UOW)
    other = rig.ids()[1]
    transaction = rig.transaction(source)
    rig.lookup(source, other, peek=False, transaction=transaction, allow_peek=True)
    assert rig.particulars(seen).target_subqueue == "poison"
    assert rig.particulars(rig.lookup(source, other, peek=True)).target_subqueue == ""


@pytest.mark.spec("MS-MQRR 2.2.5.2/5", "MS-MQRR 2.2.5.4/2")
@pytest.mark.parametrize(
    ("name", "invalid"), [(r".\private$\failed", False), (r".\private$\nowhere", True)]
)
def test_a_message_says_its_dead_letter_queue_and_whether_that_is_one(
    name: str, invalid: bool
) -> None:
    rig = far_readers()
    rig.create("failed")
    rig.send("q", b"x", negative_journaling_requested=True, application_deadletter_queue=name)
    found = rig.particulars(rig.peek("q"))
    assert found.dead_letter.lower().endswith(name.lower()[2:])
    assert found.dead_letter_invalid is invalid


@pytest.mark.spec("MS-MQRR 2.2.5.5/6")
def test_a_message_of_another_machine_says_where_that_was_last() -> None:
    rig = PeerRig()
    rig.take(rig.packet(b"a"))
    seen = rig.peek("orders")
    assert remote_reads.particulars(rig.manager, seen.read, seen.packet).source_address == ""
    rig.run(lambda m: m.transfer.outgoing.machines.reached(FAR_GUID, "192.0.2.7", None))
    rig.restart()
    found = remote_reads.particulars(rig.manager, seen.read, seen.packet)
    assert found.source_address == "192.0.2.7"
