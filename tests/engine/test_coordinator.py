"""The coordinator and the participant, one call at a time: who may what, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.ledger.effects import PeerRequest
from posthouse.engine.ledger.records import CHANGE, TABLE_DECISION, TABLE_HEURISTIC, unpack_change
from posthouse.engine.transactions.coordinator import (
    COMMITTED,
    PARTICIPANTS_MAX,
    UNDECIDED,
    UNKNOWN,
)
from posthouse.engine.transactions.distributed import Branch
from posthouse.engine.transactions.transaction import Transaction, TransactionState
from posthouse.model.errors import (
    AccessDenied,
    QueueError,
    TransactionEnlist,
    TransactionSequence,
)
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
from tests.engine.rig import START_UTC, Rig

PEER, OTHER = b"p" * 16, b"o" * 16
KEY, OTHER_KEY = b"k" * 32, b"K" * 32
URL, OUR_URL = "http://peer:8816", "http://alpha:8816"
USER = Caller.user(b"\x01\x01" + bytes(10), "maria")
STRANGER = Caller.user(b"\x01\x01" + bytes(9) + b"x", "otto")
DATABASES = [Branch("0", "orders-db"), Branch("1", "bills-db")]
SID = USER.sid


class Desk(Rig):
    """ALPHA with two peers, and every ask it makes."""

    def __init__(self, **settings: Any) -> None:
        self.asks: list[PeerRequest] = []
        super().__init__(**settings)
        self.run(lambda m: m.transactions.add_peer("PEER", PEER, URL, KEY))
        self.run(lambda m: m.transactions.add_peer("OTHER", OTHER, "http://other", OTHER_KEY))
        self.create("orders", transactional=True)

    def _boot(self, state: Any) -> None:
        super()._boot(state)
        self.driver.on_asks = self.asks.extend
        self.manager.transactions.coordinator.url = OUR_URL

    @property
    def coordinator(self) -> Any:
        return self.manager.transactions.coordinator

    def verbs(self) -> list[tuple[Verb, bytes]]:
        verbs = [(ask.verb, ask.peer) for ask in self.asks]
        self.asks.clear()
        return verbs

    def call(self, verb: Verb, identifier: bytes, sender: bytes = PEER, key: bytes = KEY) -> Reply:
        call = PeerCall(
            verb,
            sender,
            self.manager.machine.identifier,
            identifier,
            self.clock.utc_seconds,
            bytes(8),
        )
        text = sign_call(call, key)
        reply = self.run(lambda m: m.transactions.called(text))
        return check_reply(text, reply, key)

    def answer(self, verb: Verb, reply: Reply, identifier: bytes, peer: bytes = PEER) -> None:
        """A peer's genuine answer to a call of ours."""
        key = KEY if peer == PEER else OTHER_KEY
        text = sign_call(
            PeerCall(verb, self.manager.machine.identifier, peer, identifier, START_UTC, bytes(8)),
            key,
        )
        said = sign_reply(parse_call(text), reply, key)
        ask = PeerRequest(peer, URL, verb, identifier, text)
        self.run(lambda m: m.transactions.answered(ask, said))

    def joined(self, *peers: str, owner: object = None) -> Transaction:
        """An open transaction with a send here and these participants."""
        transaction = self.begin("joint", owner)
        self.send("orders", b"one", tx=transaction)
        for peer in peers:
            self.run(lambda m, p=peer: m.transactions.coordinator.token(transaction, p))  # type: ignore[misc]
        return transaction

    def commit_joint(self, transaction: Transaction, **more: Any) -> list[Answer]:
        answers: list[Answer] = []
        self.run(
            lambda m: m.transactions.commit(
                transaction.identifier, SID, waiter=answers.append, **more
            )
        )
        return answers

    def token(self, identifier: bytes = b"t" * 16, **changes: Any) -> bytes:
        token = EnlistmentToken(PEER, URL, identifier, START_UTC + 60)._replace(**changes)
        return pack_token(token, KEY)

    def enlisted(self, identifier: bytes = b"t" * 16, owner: object = None) -> Transaction:
        transaction = self.run(lambda m: m.transactions.enlist(self.token(identifier), owner))
        self.send("orders", b"theirs", tx=transaction)
        return transaction

    def names(self) -> list[str]:
        return [event.name for event in self.events if event.name.startswith("transaction_")]


@pytest.fixture
def desk() -> Desk:
    return Desk()


# -- coordinating peers


def test_votes_are_asked_for_and_the_decision_is_told_until_confirmed(desk: Desk) -> None:
    tx = desk.joined("PEER", "other")
    answers = desk.commit_joint(tx)
    assert desk.verbs() == [(Verb.PREPARE, OTHER), (Verb.PREPARE, PEER)]
    desk.answer(Verb.PREPARE, Reply.PREPARED, tx.identifier)
    assert desk.bodies("orders") == []
    assert answers == desk.verbs() == []
    desk.answer(Verb.PREPARE, Reply.PREPARED, tx.identifier, OTHER)
    assert desk.bodies("orders") == [b"one"]
    assert [answer.error for answer in answers] == [None]
    assert desk.verbs() == [(Verb.COMMIT, OTHER), (Verb.COMMIT, PEER)]
    desk.answer(Verb.COMMIT, Reply.DONE, tx.identifier)
    desk.restart()
    assert desk.bodies("orders") == [b"one"]
    desk.asks.clear()
    desk.advance(1)
    assert desk.verbs() == [(Verb.COMMIT, OTHER)]
    desk.answer(Verb.COMMIT, Reply.DONE, tx.identifier, OTHER)
    assert desk.manager.ledger.state.of_table(TABLE_DECISION) == []
    desk.advance(1000)
    assert desk.verbs() == []


def test_one_vote_against_it_aborts_all(desk: Desk) -> None:
    tx = desk.joined("PEER", "OTHER")
    answers = desk.commit_joint(tx)
    desk.answer(Verb.PREPARE, Reply.PREPARED, tx.identifier)
    desk.asks.clear()
    desk.answer(Verb.PREPARE, Reply.ABORTED, tx.identifier, OTHER)
    assert isinstance(answers[0].error, TransactionSequence)
    assert "OTHER has aborted" in answers[0].error.cause
    assert desk.verbs() == [(Verb.ABORT, OTHER), (Verb.ABORT, PEER)]
    assert desk.bodies("orders") == []
    assert desk.coordinator.joints == {}


def test_without_all_votes_in_time_it_is_aborted(desk: Desk) -> None:
    tx = desk.joined("PEER")
    answers = desk.commit_joint(tx)
    desk.advance(29)
    assert answers == []
    assert desk.manager.next_deadline_ms() is not None
    desk.advance(1)
    assert "no vote of PEER" in str(answers[0].error)
    desk.asks.clear()
    desk.answer(Verb.PREPARE, Reply.PREPARED, tx.identifier)
    assert desk.verbs() == []


def test_a_peer_is_asked_again_with_longer_pauses(desk: Desk) -> None:
    desk.commit_joint(desk.joined("PEER"))
    times = []
    for _ in range(30):
        if desk.verbs():
            times.append(desk.clock.utc_seconds - START_UTC)
        desk.advance(1)
    assert times == [0, 1, 3, 7, 15]


def test_nothing_is_added_while_votes_are_gathered(desk: Desk) -> None:
    tx = desk.joined("PEER")
    desk.commit_joint(tx)
    assert tx.state is TransactionState.DECIDING
    with pytest.raises(TransactionSequence):
        desk.send("orders", tx=tx)
    with pytest.raises(TransactionSequence):
        desk.run(lambda m: m.transactions.coordinator.token(tx, "OTHER"))
    with pytest.raises(TransactionSequence):
        desk.commit_joint(tx)
    with pytest.raises(TransactionSequence):
        desk.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))


def test_a_client_that_leaves_or_aborts_while_votes_are_gathered_aborts_all(desk: Desk) -> None:
    tx = desk.joined("PEER", owner=desk)
    answers = desk.commit_joint(tx)
    desk.asks.clear()
    desk.run(lambda m: m.end_session(desk))
    assert desk.verbs() == [(Verb.ABORT, PEER)]
    assert isinstance(answers[0].error, TransactionSequence)
    desk.advance(100)
    assert desk.verbs() == []


def test_peers_in_doubt_hear_the_decision_and_otherwise_that_it_was_aborted(desk: Desk) -> None:
    tx = desk.joined("PEER")
    assert desk.call(Verb.OUTCOME, tx.identifier) is Reply.UNDECIDED
    desk.commit_joint(tx)
    assert desk.call(Verb.OUTCOME, tx.identifier) is Reply.UNDECIDED
    assert desk.call(Verb.OUTCOME, tx.identifier, OTHER, OTHER_KEY) is Reply.UNKNOWN
    desk.answer(Verb.PREPARE, Reply.PREPARED, tx.identifier)
    assert desk.call(Verb.OUTCOME, tx.identifier) is Reply.COMMITTED
    desk.restart()
    assert desk.call(Verb.OUTCOME, tx.identifier) is Reply.COMMITTED
    desk.answer(Verb.COMMIT, Reply.DONE, tx.identifier)
    assert desk.call(Verb.OUTCOME, tx.identifier) is Reply.UNKNOWN


def test_a_restart_before_the_decision_aborts(desk: Desk) -> None:
    tx = desk.joined("PEER")
    desk.commit_joint(tx)
    desk.restart()
    assert desk.call(Verb.OUTCOME, tx.identifier) is Reply.UNKNOWN
    assert desk.bodies("orders") == []


def test_answers_that_nobody_signed_change_nothing(desk: Desk) -> None:
    tx = desk.joined("PEER")
    desk.commit_joint(tx)
    ask = desk.asks[0]
    for text in (None, "", "nonsense", ask.text):
        desk.run(lambda m, t=text: m.transactions.answered(ask, t))  # type: ignore[misc]
    assert tx.state is TransactionState.DECIDING
    assert desk.manager.machine.refusals["peer_reply"] == 3


def test_only_peers_become_participants_and_only_where_they_can_call_back(desk: Desk) -> None:
    tx = desk.begin()
    coordinator = desk.coordinator
    with pytest.raises(TransactionEnlist, match="no peer is called 'nobody'"):
        desk.run(lambda m: coordinator.token(tx, "nobody"))
    with pytest.raises(TransactionEnlist, match="not a peer"):
        desk.run(lambda m: coordinator.token_for(tx, b"x" * 16))
    assert desk.run(lambda m: coordinator.token_for(tx, PEER))
    coordinator.url = ""
    with pytest.raises(TransactionEnlist, match="cannot call"):
        desk.run(lambda m: coordinator.token(tx, "PEER"))


def test_a_peer_stays_while_anything_is_open_with_it(desk: Desk) -> None:
    tx = desk.joined("PEER")
    with pytest.raises(TransactionSequence, match="not settled"):
        desk.run(lambda m: m.transactions.remove_peer("PEER"))
    desk.abort(tx)
    desk.enlisted()
    with pytest.raises(TransactionSequence, match="not settled"):
        desk.run(lambda m: m.transactions.remove_peer("PEER"))
    desk.call(Verb.ABORT, b"t" * 16)
    desk.run(lambda m: m.transactions.remove_peer("PEER"))
    with pytest.raises(AccessDenied):
        desk.call(Verb.OUTCOME, tx.identifier)


# -- databases


def test_the_decision_is_kept_until_every_database_has_confirmed(desk: Desk) -> None:
    tx = desk.joined()
    assert desk.run(lambda m: m.transactions.commit(tx.identifier, SID, DATABASES))
    assert desk.bodies("orders") == [b"one"]
    for _ in range(2):
        desk.restart()
        (joint,) = desk.coordinator.decided()
        assert joint.participants == ["database 0 orders-db", "database 1 bills-db"]
    confirm = lambda branch: desk.run(  # noqa: E731
        lambda m: m.transactions.confirm(tx.identifier, [branch], USER)
    )
    confirm("0")
    confirm("0")
    desk.restart()
    assert desk.coordinator.decided()[0].branches == {"1": "bills-db"}
    confirm("1")
    confirm("1")
    desk.restart()
    assert desk.coordinator.decided() == []
    assert desk.manager.ledger.state.of_table(TABLE_DECISION) == []


def test_decision_and_work_are_one_record(desk: Desk) -> None:
    tx = desk.joined()
    before = len(desk.store.log)
    desk.run(lambda m: m.transactions.commit(tx.identifier, SID, DATABASES))
    changes = [unpack_change(r[2]) for r in desk.store.log[before:] if r[0] == CHANGE]
    (decision,) = [c for c in changes if any(d.table == TABLE_DECISION for d in c.defines)]
    assert [run.length for run in decision.published] == [1]


def test_recovery_hears_of_each_transaction_what_became_of_it(desk: Desk) -> None:
    tx = desk.joined()
    ids = [tx.identifier, b"never heard of.."]
    ask = lambda resource, caller=USER: desk.run(  # noqa: E731
        lambda m: m.transactions.coordinator.outcomes(ids, resource, caller)
    )
    assert ask("orders-db") == ([UNDECIDED, UNKNOWN], [])
    desk.run(lambda m: m.transactions.commit(tx.identifier, SID, DATABASES))
    assert ask("orders-db") == ([COMMITTED, UNKNOWN], [(tx.identifier, "0")])
    assert ask("bills-db", desk.admin) == ([COMMITTED, UNKNOWN], [(tx.identifier, "1")])
    assert ask("bills-db", STRANGER) == ([COMMITTED, UNKNOWN], [])
    assert ask("") == ([COMMITTED, UNKNOWN], [])


def test_strangers_confirm_nothing(desk: Desk) -> None:
    tx = desk.joined()
    desk.run(lambda m: m.transactions.commit(tx.identifier, SID, DATABASES))
    with pytest.raises(AccessDenied):
        desk.run(lambda m: m.transactions.confirm(tx.identifier, ["0"], STRANGER))
    desk.run(lambda m: m.transactions.confirm(tx.identifier, ["0", "1"], desk.admin))
    assert desk.coordinator.decided() == []


@pytest.mark.parametrize(
    "branches",
    [
        [Branch("")],
        [Branch("x" * 65)],
        [Branch("a", "r" * 257)],
        [Branch("a"), Branch("a")],
        [Branch(str(i)) for i in range(PARTICIPANTS_MAX + 1)],
    ],
)
def test_impossible_branches_are_refused_and_the_transaction_stays(
    desk: Desk, branches: list[Branch]
) -> None:
    tx = desk.joined()
    with pytest.raises(QueueError):
        desk.run(lambda m: m.transactions.commit(tx.identifier, SID, branches))
    assert tx.state is TransactionState.ACTIVE


def test_peers_and_databases_in_one_transaction(desk: Desk) -> None:
    tx = desk.joined("PEER")
    answers = desk.commit_joint(tx, branches=DATABASES[:1])
    assert desk.run(
        lambda m: m.transactions.coordinator.outcomes([tx.identifier], "", USER)
    ).states == [UNDECIDED]
    desk.answer(Verb.PREPARE, Reply.PREPARED, tx.identifier)
    assert [answer.error for answer in answers] == [None]
    desk.answer(Verb.COMMIT, Reply.DONE, tx.identifier)
    assert desk.coordinator.decided()[0].participants == ["database 0 orders-db"]
    desk.run(lambda m: m.transactions.confirm(tx.identifier, ["0"], USER))
    assert desk.coordinator.decided() == []


# -- taking part


@pytest.mark.spec("MS-MQDMPR 3.1.4.6/1", "MS-MQDMPR 3.1.4.7/1", "MS-MQDMPR 3.1.4.8/1")
@pytest.mark.parametrize("commit", [True, False])
def test_a_part_is_prepared_and_ended_by_its_coordinator_however_often_it_says_so(
    desk: Desk, commit: bool
) -> None:
    tx = desk.enlisted()
    verb = Verb.COMMIT if commit else Verb.ABORT
    for _ in range(2):
        assert desk.call(Verb.PREPARE, tx.identifier) is Reply.PREPARED
        desk.restart()
    for _ in range(2):
        assert desk.call(verb, tx.identifier) is Reply.DONE
        assert desk.bodies("orders") == ([b"theirs"] if commit else [])
        desk.restart()
    assert desk.manager.transactions.in_doubt() == []


def test_what_is_not_here_was_aborted(desk: Desk) -> None:
    assert desk.call(Verb.PREPARE, b"t" * 16) is Reply.ABORTED
    assert desk.call(Verb.ABORT, b"t" * 16) is Reply.DONE


@pytest.mark.spec("MS-MQDMPR 3.1.4.9/1", "MS-MQDMPR 3.1.4.10/1")
@pytest.mark.parametrize(("reply", "done"), [(Reply.COMMITTED, True), (Reply.UNKNOWN, False)])
@pytest.mark.parametrize("restarts", [0, 1])
def test_in_doubt_it_asks_its_coordinator_until_that_knows(
    desk: Desk, reply: Reply, done: bool, restarts: int
) -> None:
    tx = desk.enlisted()
    desk.call(Verb.PREPARE, tx.identifier)
    assert desk.verbs() == []
    for _ in range(restarts):
        desk.restart()
    desk.advance(10)
    assert (Verb.OUTCOME, PEER) in desk.verbs()
    desk.answer(Verb.OUTCOME, Reply.UNDECIDED, tx.identifier)
    assert len(desk.manager.transactions.in_doubt()) == 1
    desk.advance(5)
    assert (Verb.OUTCOME, PEER) in desk.verbs()
    desk.answer(Verb.OUTCOME, reply, tx.identifier)
    assert desk.bodies("orders") == ([b"theirs"] if done else [])
    desk.advance(1000)
    assert desk.verbs() == []


def test_a_peer_decides_its_own_transactions_only(desk: Desk) -> None:
    tx, ours = desk.enlisted(), desk.begin("ours")
    for verb in (Verb.PREPARE, Verb.COMMIT, Verb.ABORT):
        for identifier in (tx.identifier, ours.identifier):
            with pytest.raises(AccessDenied):
                desk.call(verb, identifier, OTHER, OTHER_KEY)
    with pytest.raises(TransactionSequence, match="not prepared"):
        desk.call(Verb.COMMIT, tx.identifier)
    assert tx.state is ours.state is TransactionState.ACTIVE


def test_calls_of_strangers_are_refused(desk: Desk) -> None:
    tx = desk.enlisted()
    for sender, key in ((b"x" * 16, KEY), (PEER, OTHER_KEY), (OTHER, KEY)):
        with pytest.raises(AccessDenied):
            desk.call(Verb.ABORT, tx.identifier, sender, key)
    desk.clock.step_utc(-10_000)
    late = PeerCall(
        Verb.ABORT, PEER, desk.manager.machine.identifier, tx.identifier, START_UTC, bytes(8)
    )
    with pytest.raises(AccessDenied):
        desk.run(lambda m: m.transactions.called(sign_call(late, KEY)))
    assert tx.state is TransactionState.ACTIVE


def test_the_client_of_a_part_may_give_it_up_but_not_commit_it(desk: Desk) -> None:
    tx = desk.enlisted()
    with pytest.raises(TransactionSequence, match="may commit"):
        desk.commit_joint(tx)
    with pytest.raises(TransactionEnlist, match="only the coordinator"):
        desk.run(lambda m: m.transactions.coordinator.token(tx, "OTHER"))
    desk.call(Verb.PREPARE, tx.identifier)
    with pytest.raises(TransactionSequence, match="may abort"):
        desk.run(lambda m: m.transactions.abort_for_client(tx.identifier))
    desk.call(Verb.ABORT, tx.identifier)
    other = desk.enlisted(b"u" * 16)
    desk.run(lambda m: m.transactions.abort_for_client(other.identifier))
    assert desk.call(Verb.PREPARE, other.identifier) is Reply.ABORTED


@pytest.mark.spec("MS-MQDMPR 3.1.4.6/4")
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"coordinator": b"x" * 16}, "trusts"),
        ({"coordinator": OTHER}, "trusts"),
        ({"url": "http://elsewhere:8816"}, "than its record"),
        ({"expires_s": START_UTC - 1}, "expired"),
        ({"expires_s": START_UTC + 86_401}, "expired"),
    ],
)
def test_tokens_that_cannot_be_believed_are_refused(
    desk: Desk, changes: dict[str, Any], why: str
) -> None:
    token = desk.token(**changes)
    with desk.refused(0xC00E0058, why):
        desk.run(lambda m: m.transactions.enlist(token))


def test_a_part_is_begun_once(desk: Desk) -> None:
    tx = desk.enlisted(owner=desk)
    enlist = desk.manager.transactions.enlist
    assert desk.run(lambda m: enlist(desk.token(), desk)) is tx
    with pytest.raises(TransactionEnlist):
        desk.run(lambda m: enlist(desk.token(), None))
    desk.run(lambda m: m.end_session(desk))
    with pytest.raises(TransactionEnlist, match="has ended here"):
        desk.run(lambda m: enlist(desk.token(), desk))
    desk.clock.advance(61_000)
    late = desk.token(b"v" * 16, expires_s=START_UTC + 100)
    desk.run(lambda m: enlist(late))
    assert list(desk.manager.transactions.participant._seen) == [b"v" * 16]


# -- operators


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("agrees", [True, False])
def test_an_operator_decides_and_the_coordinators_word_is_compared(
    desk: Desk, commit: bool, agrees: bool
) -> None:
    tx = desk.enlisted()
    desk.call(Verb.PREPARE, tx.identifier)
    by_hand = "commit_by_hand" if commit else "abort_by_hand"
    desk.run(lambda m: getattr(m.transactions, by_hand)(tx.identifier, "maria"))
    assert desk.bodies("orders") == ([b"theirs"] if commit else [])
    assert f"transaction_{'committed' if commit else 'aborted'}_by_hand" in desk.names()
    desk.restart()
    desk.asks.clear()
    desk.advance(2)
    assert (Verb.OUTCOME, PEER) in desk.verbs()
    reply = Reply.COMMITTED if commit is agrees else Reply.UNKNOWN
    desk.answer(Verb.OUTCOME, reply, tx.identifier)
    last = "transaction_settled_as_by_hand" if agrees else "transaction_outcome_differs"
    assert desk.names()[-1] == last
    assert desk.manager.ledger.state.of_table(TABLE_HEURISTIC) == []
    desk.advance(1000)
    assert desk.verbs() == []


def test_a_decision_of_the_coordinator_meets_that_of_the_operator(desk: Desk) -> None:
    tx = desk.enlisted()
    desk.call(Verb.PREPARE, tx.identifier)
    desk.run(lambda m: m.transactions.abort_by_hand(tx.identifier, "maria"))
    assert desk.call(Verb.COMMIT, tx.identifier) is Reply.DONE
    assert desk.names()[-1] == "transaction_outcome_differs"


def test_an_operator_ends_what_is_decided_and_never_confirmed(desk: Desk) -> None:
    tx = desk.joined("PEER")
    desk.commit_joint(tx, branches=DATABASES)
    desk.answer(Verb.PREPARE, Reply.PREPARED, tx.identifier)
    with pytest.raises(TransactionSequence, match="is committed"):
        desk.run(lambda m: m.transactions.abort_by_hand(tx.identifier, "maria"))
    desk.run(lambda m: m.transactions.commit_by_hand(tx.identifier, "maria"))
    (event,) = [e for e in desk.events if e.name == "transaction_forgotten_by_hand"]
    assert event.details["user"] == "maria"
    assert len(event.details["participants"]) == 3  # type: ignore[arg-type]
    desk.asks.clear()
    desk.restart()
    desk.advance(1000)
    assert desk.coordinator.decided() == desk.verbs() == []


def test_an_operator_commits_nothing_that_is_not_prepared(desk: Desk) -> None:
    tx = desk.begin()
    with pytest.raises(TransactionSequence, match="not prepared"):
        desk.run(lambda m: m.transactions.commit_by_hand(tx.identifier, "maria"))
    desk.run(lambda m: m.transactions.abort_by_hand(tx.identifier, "maria"))
    with pytest.raises(TransactionSequence):
        desk.run(lambda m: m.transactions.abort_by_hand(tx.identifier, "maria"))
