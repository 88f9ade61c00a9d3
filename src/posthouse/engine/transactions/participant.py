"""The participant: parts of transactions that other queue managers coordinate.

A client begins such a part with the coordinator's token. From its vote on only the coordinator
decides: the prepared part survives restarts and asks for the decision until it is known. Only
queue managers that are peers are believed, and only at the addresses of their records.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import OpenTransactions
from posthouse.engine.ledger.records import TABLE_HEURISTIC, Change
from posthouse.engine.transactions.distributed import (
    StoredHeuristic,
    pack_heuristic,
    unpack_heuristic,
)
from posthouse.engine.transactions.peer_calls import AskKey, PeerAsks
from posthouse.engine.transactions.transaction import Transaction, TransactionState, Vote
from posthouse.engine.transactions.trusted_peers import Peers
from posthouse.model.errors import (
    AccessDenied,
    QueueError,
    TransactionEnlist,
    TransactionSequence,
)
from posthouse.model.guids import format_guid
from posthouse.security.enlistment import EnlistmentToken, parse_token
from posthouse.security.peer_calls import Reply, Verb

ENLISTMENT_MAX_S: Final = 86_400  # a token that claims more is not a token of ours


class Participant:
    """Parts of transactions that are decided elsewhere."""

    def __init__(
        self, core: Ledger, transactions: OpenTransactions, peers: Peers, asks: PeerAsks
    ) -> None:
        self.core = core
        self._transactions = transactions
        self.peers = peers
        self.asks = asks
        self.heuristics: dict[bytes, StoredHeuristic] = {}
        self._seen: OrderedDict[bytes, int] = OrderedDict()  # enlisted once, until the token ends

    def load(self) -> None:
        """What is in doubt asks its coordinator at once."""
        for identifier, value in self.core.state.of_table(TABLE_HEURISTIC):
            heuristic = self.heuristics[identifier] = unpack_heuristic(value)
            self._wonder(heuristic.coordinator, identifier)
        for transaction in self._transactions.prepared():
            if self.peers.of(transaction.coordinator) is not None:
                self._wonder(transaction.coordinator, transaction.identifier)

    # -- the beginning

    def enlist(
        self, data: bytes, owner: object = None, identifier: bytes = b"", account: bytes = b""
    ) -> Transaction:
        """Begins the part here of the transaction that a token names, and the caller if they do."""
        token = self._believed(data)
        if identifier and identifier != token.transaction:
            raise TransactionEnlist("the transaction token is of another transaction")
        known = self._transactions.open.get(token.transaction)
        if known is not None and known.owner is owner and known.coordinator == token.coordinator:
            return known
        self._forget_seen()
        if token.transaction in self._seen:
            # What was done here before is gone: a new part would make half of it look whole.
            raise TransactionEnlist("the transaction has ended here, or was joined already")
        transaction = self._transactions.create(token.transaction, owner, account)
        transaction.coordinator = token.coordinator
        self._seen[token.transaction] = token.expires_s
        return transaction

    def _believed(self, data: bytes) -> EnlistmentToken:
        signed, now_s = parse_token(data), self.core.utc
        token = signed.token
        peer = self.peers.of(token.coordinator)
        if peer is None or not signed.accepts(peer.key):
            raise TransactionEnlist(
                "the transaction token is not of a queue manager that this one trusts",
                "Add each of the two as a peer of the other, with the same key.",
            )
        if token.url != peer.url:
            raise TransactionEnlist(
                f"the coordinator {peer.name} has another name than its record",
                "Remove the peer and add it with its present address.",
            )
        if not now_s <= token.expires_s <= now_s + ENLISTMENT_MAX_S:
            raise TransactionEnlist(
                "the transaction token has expired", "Ask the coordinator for a new one."
            )
        return token

    def _forget_seen(self) -> None:
        seen = self._seen
        while seen and next(iter(seen.values())) < self.core.utc:
            seen.popitem(last=False)

    # -- calls of the coordinator

    def prepare(self, coordinator: bytes, identifier: bytes) -> Reply:
        """The vote. What cannot be prepared is aborted (3.1.4.6)."""
        transaction = self._of(coordinator, identifier)
        if transaction is None:
            return Reply.ABORTED
        try:
            vote = self._transactions.prepare_for(coordinator, identifier)
        except QueueError as error:
            self.core.event("transaction_not_prepared", id=format_guid(identifier), why=str(error))
            self._transactions.abort(identifier)
            return Reply.ABORTED
        assert vote is Vote.PREPARED
        self._wonder(coordinator, identifier, self.core.settings.transactions.in_doubt_s)
        return Reply.PREPARED

    def commit(self, coordinator: bytes, identifier: bytes) -> Reply:
        """The decision to commit. A part that is no longer here was committed before."""
        transaction = self._of(coordinator, identifier)
        if transaction is None:
            self._compare(identifier, committed=True)
        elif transaction.state is not TransactionState.PREPARED:
            raise TransactionSequence("the transaction was not prepared")
        else:
            self._transactions.commit(identifier)
        return Reply.DONE

    def abort(self, coordinator: bytes, identifier: bytes) -> Reply:
        """The decision to abort, or the coordinator's change of mind before any."""
        if self._of(coordinator, identifier) is None:
            self._compare(identifier, committed=False)
        else:
            self._transactions.abort(identifier)
        return Reply.DONE

    def _of(self, coordinator: bytes, identifier: bytes) -> Transaction | None:
        """The part here, if there is one; it is its coordinator's only."""
        transaction = self._transactions.open.get(identifier)
        if transaction is not None and transaction.coordinator != coordinator:
            raise AccessDenied("the transaction belongs to another coordinator")
        return transaction

    # -- in doubt

    def _wonder(self, coordinator: bytes, identifier: bytes, delay_s: int = 0) -> None:
        self.asks.begin(AskKey(coordinator, Verb.OUTCOME, identifier), delay_s)

    def told(self, coordinator: bytes, identifier: bytes, reply: Reply) -> None:
        """The coordinator's answer to OUTCOME; an unknown one was aborted (3.1.4.9-10)."""
        if reply not in (Reply.COMMITTED, Reply.UNKNOWN):
            return
        committed = reply is Reply.COMMITTED
        transaction = self._transactions.open.get(identifier)
        if transaction is None:
            self._compare(identifier, committed=committed)
        elif transaction.coordinator == coordinator:
            transactions = self._transactions
            (transactions.commit if committed else transactions.abort)(identifier)
        self.asks.drop(AskKey(coordinator, Verb.OUTCOME, identifier))

    def ended(self, transaction: Transaction) -> None:
        """A part has ended: nothing is left to wonder about."""
        identifier = transaction.identifier
        if transaction.coordinator and identifier not in self.heuristics:
            self.asks.drop(AskKey(transaction.coordinator, Verb.OUTCOME, identifier))

    # -- operators

    def end_by_hand(self, transaction: Transaction, *, commit: bool) -> None:
        """An operator decides for the coordinator; its decision is compared once it arrives."""
        identifier, transactions = transaction.identifier, self._transactions
        heuristic = StoredHeuristic(transaction.coordinator, commit, self.core.utc)
        self.heuristics[identifier] = heuristic

        def keep(change: Change) -> None:
            self.core.define(TABLE_HEURISTIC, identifier, pack_heuristic(heuristic), change)

        (transactions.commit if commit else transactions.abort)(identifier, also=keep)

    def _compare(self, identifier: bytes, *, committed: bool) -> None:
        """The coordinator's word on what an operator has ended."""
        heuristic = self.heuristics.pop(identifier, None)
        if heuristic is None:
            return
        self.asks.drop(AskKey(heuristic.coordinator, Verb.OUTCOME, identifier))
        change = Change()
        self.core.define(TABLE_HEURISTIC, identifier, None, change)
        self.core.commit(change)
        agrees = heuristic.committed is committed
        self.core.event(
            "transaction_settled_as_by_hand" if agrees else "transaction_outcome_differs",
            id=format_guid(identifier),
            here="committed" if heuristic.committed else "aborted",
            coordinator="committed" if committed else "aborted",
        )
