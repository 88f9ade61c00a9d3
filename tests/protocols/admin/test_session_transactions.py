"""Transactions of client sessions that others take part in: databases and queue managers."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.model.errors import (
    AccessDenied,
    InsufficientResources,
    InvalidParameter,
    QueueError,
    TransactionEnlist,
    TransactionSequence,
)
from posthouse.protocols.sessions.handles import SessionLimits
from posthouse.runtime.driver import Answer
from posthouse.security.access import Caller
from posthouse.security.enlistment import EnlistmentToken, pack_token
from posthouse.security.peer_calls import (
    PeerCall,
    Reply,
    Verb,
    check_reply,
    parse_call,
    sign_call,
    sign_reply,
)
from posthouse.wire.frames import payloads
from tests.engine.letters import ALICE, BOB
from tests.engine.rig import START_UTC
from tests.protocols.admin.session_rig import Client, SessionRig, packets

LEDGER = r".\private$\ledger"
PEER, KEY, URL = b"p" * 16, b"k" * 32, "http://peer:8816"
BRANCHES = [("0", "orders-db"), ("1", "")]


@pytest.fixture
def rig() -> SessionRig:
    rig = SessionRig()
    rig.run(lambda m: m.transactions.add_peer("PEER", PEER, URL, KEY))
    rig.manager.transactions.coordinator.url = "http://alpha:8816"
    return rig


@pytest.fixture
def client(rig: SessionRig) -> Client:
    return rig.client(name=b"n" * 16)


def is_refused(answer: Any, error: type[QueueError]) -> bool:
    assert isinstance(answer, payloads.Refusal), answer
    return answer.code == error.code


def work(client: Client, token: bytes = b"") -> payloads.Begun:
    """A transaction with one send."""
    begun = client.ask(payloads.Begin(token=token), payloads.Begun)
    batch = packets(b"paid", to="ledger", transactional=True)
    client.send(client.open(LEDGER), batch, tx=begun.transaction)
    return begun


def outcomes(client: Client, *identifiers: bytes, resource: str = "") -> payloads.Outcome:
    return client.ask(payloads.Outcomes(list(identifiers), resource), payloads.Outcome)


# -- databases


def test_a_commit_with_branches_is_remembered_until_they_are_confirmed(
    rig: SessionRig, client: Client
) -> None:
    begun = work(client)
    assert outcomes(client, begun.identifier, b"x" * 16).states == ["undecided", "unknown"]
    client.done(payloads.Commit(begun.transaction, 1, BRANCHES))
    found = outcomes(client, begun.identifier, resource="orders-db")
    assert found == payloads.Outcome(["committed"], [(begun.identifier, "0")])
    client.done(payloads.Confirm(begun.identifier, ["0"]))
    assert outcomes(client, begun.identifier).states == ["committed"]
    client.done(payloads.Confirm(begun.identifier, ["1"]))
    assert outcomes(client, begun.identifier).states == ["unknown"]
    assert rig.bodies("ledger") == [b"paid"]


def test_a_commit_asked_again_after_a_break_tells_the_same(rig: SessionRig, client: Client) -> None:
    begun = work(client)
    client.put(payloads.Commit(begun.transaction, 1, BRANCHES))
    rig.desk.settle()
    rig.restart()
    again = rig.client(name=b"n" * 16)
    again.done(payloads.Commit(begun.transaction, 1, BRANCHES))
    assert outcomes(again, begun.identifier).states == ["committed"]
    assert rig.bodies("ledger") == [b"paid"]


def test_a_session_that_ends_before_its_commit_decides_nothing(
    rig: SessionRig, client: Client
) -> None:
    begun = work(client)
    client.session.lost()
    other = rig.client()
    assert outcomes(other, begun.identifier).states == ["unknown"]


def test_a_decision_is_its_accounts(rig: SessionRig) -> None:
    rig.create("open", transactional=True)
    alice = rig.client(ALICE)
    begun = alice.ask(payloads.Begin(), payloads.Begun)
    alice.done(payloads.Commit(begun.transaction, 0, BRANCHES))
    bob = rig.client(BOB)
    confirm = payloads.Confirm(begun.identifier, ["0", "1"])
    assert is_refused(bob.refused(confirm), AccessDenied)
    assert outcomes(bob, resource="orders-db").unconfirmed == []
    assert outcomes(alice, resource="orders-db").unconfirmed == [(begun.identifier, "0")]
    alice.done(confirm)
    bob.done(confirm)  # there is nothing left to confirm


def test_wrong_branches_and_identifiers_are_refused_and_the_transaction_stays(
    client: Client,
) -> None:
    begun = work(client)
    twice = payloads.Commit(begun.transaction, 0, [("0", ""), ("0", "")])
    assert is_refused(client.refused(twice), InvalidParameter)
    assert is_refused(client.refused(payloads.Confirm(b"short", [])), InvalidParameter)
    assert is_refused(client.refused(payloads.Enlist(begun.transaction, b"")), InvalidParameter)
    client.done(payloads.Commit(begun.transaction))


# -- queue managers


def asked(rig: SessionRig) -> list[Any]:
    asks: list[Any] = []
    rig.driver.on_asks = asks.extend
    return asks


def reply(rig: SessionRig, ask: Any, said: Reply) -> None:
    text = sign_reply(parse_call(ask.text), said, KEY)
    rig.desk.decide(lambda m: m.transactions.answered(ask, text), lambda answer: None)
    rig.desk.settle()


@pytest.mark.parametrize("vote", [Reply.PREPARED, Reply.ABORTED])
def test_a_commit_with_a_peer_is_answered_when_that_has_voted(
    rig: SessionRig, client: Client, vote: Reply
) -> None:
    asks = asked(rig)
    begun = work(client)
    enlisted = client.ask(payloads.Enlist(begun.transaction, PEER), payloads.Enlisted)
    assert enlisted.token.startswith(b"PHTX")
    request = client.put(payloads.Commit(begun.transaction, 1))
    assert client.waits(request)
    assert client.session.requests == 1
    reply(rig, asks[0], vote)
    if vote is Reply.PREPARED:
        assert isinstance(client.answer(request), payloads.Done)
        again = rig.client(name=b"n" * 16)
        again.done(payloads.Commit(begun.transaction, 1))
    else:
        assert is_refused(client.answer(request), TransactionSequence)
        assert rig.manager.machine.refusals["MQ_ERROR_TRANSACTION_SEQUENCE"] == 1
    assert client.session.requests == 0
    assert rig.bodies("ledger") == ([b"paid"] if vote is Reply.PREPARED else [])


@pytest.mark.parametrize("meanwhile", [1, 65])
def test_a_decision_is_carried_out_whatever_came_of_its_request_id(
    rig: SessionRig, client: Client, meanwhile: int
) -> None:
    """A client that uses the id again, or too many others, spoils nobody's transaction."""
    asks = asked(rig)
    begun, other = work(client), work(client)
    client.ask(payloads.Enlist(begun.transaction, PEER), payloads.Enlisted)
    request = client.put(payloads.Commit(begun.transaction, 1))
    client.done(payloads.Commit(other.transaction, meanwhile))
    reply(rig, asks[0], Reply.PREPARED)
    assert isinstance(client.answer(request), payloads.Done)
    assert [ask.verb for ask in asks] == [Verb.PREPARE, Verb.COMMIT]
    assert rig.bodies("ledger") == [b"paid", b"paid"]
    assert rig.manager.transactions.collection.open == {}
    rig.restart()
    assert rig.bodies("ledger") == [b"paid", b"paid"]


def test_a_session_that_ends_while_peers_vote_takes_its_transaction_along(
    rig: SessionRig, client: Client
) -> None:
    asks = asked(rig)
    begun = work(client)
    client.ask(payloads.Enlist(begun.transaction, PEER), payloads.Enlisted)
    client.put(payloads.Commit(begun.transaction, 1))
    rig.desk.settle()
    client.session.lost()
    rig.desk.settle()
    assert [ask.verb for ask in asks] == [Verb.PREPARE, Verb.ABORT]
    reply(rig, asks[0], Reply.PREPARED)
    assert rig.bodies("ledger") == []
    again = rig.client(name=b"n" * 16)
    assert is_refused(again.refused(payloads.Commit(begun.transaction, 1)), TransactionSequence)


def test_only_peers_are_enlisted(client: Client) -> None:
    begun = work(client)
    answer = client.refused(payloads.Enlist(begun.transaction, b"x" * 16))
    assert is_refused(answer, TransactionEnlist)


def called(rig: SessionRig, verb: Verb, identifier: bytes) -> Reply:
    guid = rig.manager.machine.identifier
    text = sign_call(PeerCall(verb, PEER, guid, identifier, START_UTC, bytes(8)), KEY)
    answers: list[Answer] = []
    rig.desk.decide(lambda m: m.transactions.called(text), answers.append)
    rig.desk.settle()
    assert isinstance(answers[0].value, str)
    return check_reply(text, answers[0].value, KEY)


def test_a_part_of_a_peers_transaction_is_begun_with_its_token(
    rig: SessionRig, client: Client
) -> None:
    token = pack_token(EnlistmentToken(PEER, URL, b"t" * 16, START_UTC + 60), KEY)
    begun = work(client, token)
    assert begun.identifier == b"t" * 16
    assert is_refused(client.refused(payloads.Commit(begun.transaction)), TransactionSequence)
    assert called(rig, Verb.PREPARE, b"t" * 16) is Reply.PREPARED
    assert is_refused(client.refused(payloads.Abort(begun.transaction)), TransactionSequence)
    client.session.lost()
    assert called(rig, Verb.COMMIT, b"t" * 16) is Reply.DONE
    assert rig.bodies("ledger") == [b"paid"]


def test_a_client_prepares_nothing_that_others_take_part_in(
    rig: SessionRig, client: Client
) -> None:
    token = pack_token(EnlistmentToken(PEER, URL, b"t" * 16, START_UTC + 60), KEY)
    theirs, ours, plain = work(client, token), work(client), work(client)
    client.ask(payloads.Enlist(ours.transaction, PEER), payloads.Enlisted)
    for begun, coordinator in ((theirs, PEER), (theirs, b"me"), (ours, b"me"), (plain, PEER)):
        answer = client.refused(payloads.Prepare(begun.transaction, coordinator))
        assert is_refused(answer, TransactionSequence)
    for _ in range(2):
        voted = client.ask(payloads.Prepare(plain.transaction, b"me"), payloads.Voted)
        assert voted.vote == "prepared"
    client.done(payloads.Commit(plain.transaction))


def test_any_other_token_is_refused(rig: SessionRig, client: Client) -> None:
    forged = pack_token(EnlistmentToken(PEER, URL, b"t" * 16, START_UTC + 60), b"x" * 32)
    for token in (b"token of Windows", forged):
        answer = client.refused(payloads.Begin(token=token))
        assert is_refused(answer, TransactionEnlist)
    assert rig.manager.transactions.collection.open == {}


def test_anybody_may_give_up_his_part(rig: SessionRig) -> None:
    client = rig.client(Caller.administrator())
    token = pack_token(EnlistmentToken(PEER, URL, b"t" * 16, START_UTC + 60), KEY)
    begun = work(client, token)
    client.done(payloads.Abort(begun.transaction))
    assert called(rig, Verb.PREPARE, b"t" * 16) is Reply.ABORTED


# -- in one request, and before the answer to BEGIN


def ledger(rig: SessionRig) -> list[bytes]:
    return rig.bodies(LEDGER)


def test_a_send_can_be_a_transaction_of_its_own(rig: SessionRig, client: Client) -> None:
    queue = client.open(LEDGER)
    batch = packets(b"debit", b"credit", to="ledger", transactional=True)
    first = client.send(queue, batch, tx=payloads.OWN_TRANSACTION, request_id=7)
    again = client.send(queue, batch, tx=payloads.OWN_TRANSACTION, request_id=7)
    assert first == again
    assert len(set(first)) == 2
    assert ledger(rig) == [b"debit", b"credit"]
    assert rig.manager.transactions.all_open() == []


def test_one_that_is_asked_again_with_another_number_of_messages_is_refused(
    client: Client,
) -> None:
    queue, own = client.open(LEDGER), payloads.OWN_TRANSACTION
    client.send(queue, packets(b"a", to="ledger", transactional=True), tx=own, request_id=7)
    two = packets(b"a", b"b", to="ledger", transactional=True)
    assert is_refused(client.send(queue, two, tx=own, request_id=7), InvalidParameter)


def test_one_that_is_refused_leaves_nothing(rig: SessionRig, client: Client) -> None:
    queue = client.open(LEDGER)
    good, bad = packets(b"a", to="ledger", transactional=True), packets(b"b", to="elsewhere")
    answer = client.send(queue, [*good, *bad], tx=payloads.OWN_TRANSACTION, request_id=8)
    assert isinstance(answer, payloads.Refusal)
    assert ledger(rig) == []
    assert rig.manager.transactions.all_open() == []
    assert client.send(queue, good, tx=payloads.OWN_TRANSACTION, request_id=8)
    assert ledger(rig) == [b"a"]


def test_a_transaction_is_known_by_the_number_of_its_begin(rig: SessionRig, client: Client) -> None:
    queue = client.open(LEDGER)
    batch = packets(b"paid", to="ledger", transactional=True)
    early = payloads.early_handle(client.put(payloads.Begin()))
    client.put_send(queue, batch, tx=early)
    client.done(payloads.Commit(early))
    assert ledger(rig) == [b"paid"]
    assert is_refused(client.send(queue, batch, tx=early), TransactionSequence)


def test_both_handles_of_a_transaction_end_with_it(rig: SessionRig, client: Client) -> None:
    request = client.put(payloads.Begin())
    begun = client.answer(request)
    client.done(payloads.Abort(begun.transaction))
    early = payloads.early_handle(request)
    assert is_refused(client.ask(payloads.Commit(early), payloads.Refusal), TransactionSequence)
    other = client.answer(client.put(payloads.Begin()))
    client.done(payloads.Commit(other.transaction))


def test_two_handles_count_as_one_transaction(rig: SessionRig) -> None:
    client = rig.client(limits=SessionLimits(handles_max=2))
    first, _ = client.begin(), client.begin()
    client.refused(payloads.Begin())
    client.done(payloads.Abort(first))
    client.begin()
    client.refused(payloads.Begin())


@pytest.mark.parametrize("request_number", [0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_large_numbers_of_requests_have_no_early_handle(request_number: int) -> None:
    assert payloads.early_handle(request_number) == 0
    assert payloads.early_handle(0x7FFFFFFE) != payloads.OWN_TRANSACTION


def test_one_user_holds_no_more_than_half_of_all_transactions_prepared_ones_too() -> None:
    """Those outlive their session and restarts: nobody else could have begun one for ever."""
    rig = SessionRig(transactions_max=8)
    for number in range(6):
        client = rig.client(ALICE)
        begun = client.ask(payloads.Begin(), payloads.Begun | payloads.Refusal)
        assert isinstance(begun, payloads.Begun) is (number < 4), number
        if number < 4:
            client.ask(payloads.Prepare(begun.transaction, b"made up"), payloads.Voted)
            client.session.lost()
    rig.restart()
    assert len(rig.manager.transactions.in_doubt()) == 4
    assert is_refused(rig.client(ALICE).refused(payloads.Begin()), InsufficientResources)
    bob = rig.client(BOB)
    begun = bob.ask(payloads.Begin(), payloads.Begun)
    bob.done(payloads.Abort(begun.transaction))
    for transaction in rig.manager.transactions.in_doubt():
        rig.run(lambda m, t=transaction: m.transactions.abort_by_hand(t.identifier, "root"))
    rig.client(ALICE).ask(payloads.Begin(), payloads.Begun)
