"""Transactions as protocols use them: begin, commit, prepare, share (docs/ways.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from posthouse.engine.ledger.effects import PeerRequest
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.machine.facade import MachineFacade
from posthouse.engine.transactions.collection import Transactions
from posthouse.engine.transactions.coordinator import Coordinator, TransactionOutcomes
from posthouse.engine.transactions.distributed import Branch, Joint, JointState, Within, at_once
from posthouse.engine.transactions.participant import Participant
from posthouse.engine.transactions.peer_calls import PeerAsks
from posthouse.engine.transactions.transaction import Transaction, TransactionState, Vote
from posthouse.engine.transactions.trusted_peers import Peers
from posthouse.model.errors import TransactionSequence
from posthouse.model.guids import format_guid
from posthouse.security.access import Caller
from posthouse.security.peer_calls import (
    PeerCall,
    Reply,
    Verb,
    parse_call,
    refused_call,
    sign_reply,
)
from posthouse.security.peers import Peer


class TransactionsFacade:
    """Every event of transactions, those that several machines share included."""

    def __init__(self, core: Ledger, machine: MachineFacade, collection: Transactions) -> None:
        self.core = core
        self.machine = machine
        self.collection = collection
        collection.on_end = self.ended
        self.peers = Peers(core)
        self.asks = PeerAsks(core, self.peers)
        self.coordinator = Coordinator(core, collection, self.peers, self.asks)
        self.participant = Participant(core, collection, self.peers, self.asks)

    def load(self) -> None:
        """Everything the store kept; prepared transactions are known already."""
        self.peers.load()
        self.coordinator.load()
        self.participant.load()

    def run(self) -> None:
        """What is due by the clock."""
        self.coordinator.run()
        self.asks.run()

    def next_deadline_ms(self) -> int | None:
        """When something is due."""
        deadlines = (self.coordinator.next_deadline_ms(), self.asks.next_deadline_ms())
        return min((d for d in deadlines if d is not None), default=None)

    def ended(self, transaction: Transaction) -> None:
        """A transaction has ended here; called by `Transactions`."""
        self.coordinator.ended(transaction)
        self.participant.ended(transaction)

    # -- transactions of clients

    def create_transaction(
        self, identifier: bytes, owner: object = None, account: bytes = b""
    ) -> Transaction:
        """Create Transaction (3.1.7.1.8), of the user with that SID."""
        self.machine.require_ready()
        return self.collection.create(identifier, owner, account)

    def transaction_commit(self, identifier: bytes) -> None:
        """Transaction Commit (3.1.4.4); of a prepared one also DTC Transaction Commit (3.1.4.7)."""
        self.collection.commit(identifier)

    def transaction_abort(self, identifier: bytes) -> None:
        """Transaction Abort (3.1.4.5); of a prepared one also DTC Transaction Abort (3.1.4.8)."""
        self.collection.abort(identifier)

    def commit(
        self,
        identifier: bytes,
        account: bytes = b"",
        branches: Sequence[Branch] = (),
        *,
        waiter: object = None,
        within: Within = at_once,
    ) -> bool:
        """Commits for a client, with all who take part.

        True: it is decided. False: `waiter` gets the outcome with a Wake.
        """
        return self.coordinator.commit(identifier, account, branches, waiter=waiter, within=within)

    def find(self, identifier: bytes) -> Transaction:
        """An open transaction; refused where there is none."""
        return self.collection.find(identifier)

    def all_open(self) -> list[Transaction]:
        """The transactions that have not ended."""
        return list(self.collection.open.values())

    def in_doubt(self) -> list[Transaction]:
        """Prepared transactions: only their coordinator, or an operator, ends them (3.1.4.9-11)."""
        return self.collection.prepared()

    def find_open(self, identifier: bytes) -> Transaction | None:
        """An open transaction; None: there is none."""
        return self.collection.open.get(identifier)

    # -- transactions with other machines

    def set_url(self, url: str) -> None:
        """Where peers reach this queue manager; empty: nowhere."""
        self.coordinator.url = url

    @property
    def url(self) -> str:
        """Where peers reach this queue manager."""
        return self.coordinator.url

    def enlist(
        self, token: bytes, owner: object = None, identifier: bytes = b"", account: bytes = b""
    ) -> Transaction:
        """Begins the part here of the transaction that a token names."""
        return self.participant.enlist(token, owner, identifier, account)

    def token(self, transaction: Transaction, name: str) -> bytes:
        """Makes a peer a participant; with the token a client begins the peer's part."""
        return self.coordinator.token(transaction, name)

    def token_for(self, transaction: Transaction, guid: bytes) -> bytes:
        """Makes the peer with an identifier a participant."""
        return self.coordinator.token_for(transaction, guid)

    def confirm(self, identifier: bytes, branches: Iterable[str], caller: Caller) -> None:
        """Databases have committed their branches."""
        self.coordinator.confirm(identifier, branches, caller)

    def outcomes(
        self, identifiers: Iterable[bytes], resource: str, caller: Caller
    ) -> TransactionOutcomes:
        """What became of transactions that a database has prepared."""
        return self.coordinator.outcomes(identifiers, resource, caller)

    def joint(self, identifier: bytes) -> Joint | None:
        """A transaction that other machines or databases take part in."""
        return self.coordinator.joints.get(identifier)

    def decided(self) -> list[Joint]:
        """Decisions that not every participant has confirmed."""
        return self.coordinator.decided()

    # -- peers

    def all_peers(self) -> list[Peer]:
        """The queue managers that share transactions with this one."""
        return self.peers.all()

    def is_peer(self, name: str) -> bool:
        """Whether there is a peer of that name."""
        return self.peers.knows(name)

    def add_peer(self, name: str, guid: bytes, url: str, key: bytes | None = None) -> Peer:
        """Trusts another queue manager; without a key one is made."""
        return self.peers.add(name, guid, url, key)

    def remove_peer(self, name: str) -> None:
        """A peer goes, unless something is still to be settled with it."""
        peer = self.peers.find(name)
        if self._open_with(peer.guid):
            raise TransactionSequence(
                f"transactions with {peer.name} are not settled",
                "Wait for them, or end them: posthouse transaction list.",
            )
        self.peers.remove(peer)

    def _open_with(self, guid: bytes) -> bool:
        joints = self.coordinator.joints.values()
        parts = self.collection.open.values()
        heuristics = self.participant.heuristics.values()
        return (
            any(guid in joint.members for joint in joints)
            or any(part.coordinator == guid for part in parts)
            or any(heuristic.coordinator == guid for heuristic in heuristics)
        )

    # -- calls of peers, and answers to ours

    def called(self, text: str) -> str:
        """A peer calls: what it asks is done, and its signed answer returned."""
        signed = parse_call(text)
        peer = self.peers.of(signed.call.sender)
        if peer is None or not signed.accepts(peer.key, self.core.guid, self.core.utc):
            raise refused_call()
        return sign_reply(signed, self._obey(signed.call), peer.key)

    def _obey(self, call: PeerCall) -> Reply:
        sender, identifier = call.sender, call.transaction
        if call.verb is Verb.OUTCOME:
            return self.coordinator.outcome(sender, identifier)
        if call.verb is Verb.PREPARE:
            return self.participant.prepare(sender, identifier)
        if call.verb is Verb.COMMIT:
            return self.participant.commit(sender, identifier)
        return self.participant.abort(sender, identifier)

    def answered(self, ask: PeerRequest, text: str | None) -> None:
        """A peer has answered, or not; without an answer it is asked again when that is due."""
        reply = self.asks.reply(ask, text)
        if reply is None:
            return
        peer, identifier = ask.peer, ask.transaction
        if ask.verb is Verb.PREPARE:
            self.coordinator.voted(peer, identifier, reply)
        elif ask.verb is Verb.COMMIT and reply is Reply.DONE:
            self.coordinator.carried_out(peer, identifier)
        elif ask.verb is Verb.OUTCOME:
            self.participant.told(peer, identifier, reply)

    # -- clients and operators

    def prepare_for_client(self, identifier: bytes, coordinator: bytes) -> Vote:
        """A client that coordinates by itself (3.1.4.6); what others take part in is not its."""
        transaction = self.collection.find(identifier)
        shared = transaction.coordinator or identifier in self.coordinator.joints
        if self.peers.of(coordinator) is not None or (
            shared and transaction.state is not TransactionState.PREPARED
        ):
            raise TransactionSequence(
                "other queue managers take part in this transaction, and they prepare it"
            )
        return self.collection.prepare_for(coordinator, identifier)

    def abort_for_client(self, identifier: bytes) -> None:
        """A client gives up; what is prepared for a peer is no longer its."""
        transaction = self.collection.find(identifier)
        prepared = transaction.state is TransactionState.PREPARED
        if prepared and self.peers.of(transaction.coordinator) is not None:
            raise TransactionSequence("only the coordinator of this transaction may abort it")
        self.collection.abort(identifier)

    def commit_by_hand(self, identifier: bytes, user: str) -> None:
        """An operator commits in the coordinator's place, or takes a decision as carried out."""
        joint = self.coordinator.joints.get(identifier)
        if joint is not None and joint.state is JointState.COMMITTED:
            self.coordinator.forget(joint, user)
            return
        transaction = self.collection.find(identifier)
        if transaction.state is not TransactionState.PREPARED:
            raise TransactionSequence(
                f"the transaction {format_guid(identifier)} is not prepared",
                "Its client will end it, or abort it.",
            )
        self._end_by_hand(transaction, user, commit=True)

    def abort_by_hand(self, identifier: bytes, user: str) -> None:
        """An operator aborts; of a prepared transaction in the coordinator's place."""
        joint = self.coordinator.joints.get(identifier)
        if joint is not None and joint.state is JointState.COMMITTED:
            raise TransactionSequence(
                "the transaction is committed, and some participants have yet to be informed",
                "Settle those by hand, then commit it here: that ends it.",
            )
        self._end_by_hand(self.collection.find(identifier), user, commit=False)

    def _end_by_hand(self, transaction: Transaction, user: str, *, commit: bool) -> None:
        identifier, transactions = transaction.identifier, self.collection
        prepared = transaction.state is TransactionState.PREPARED
        if prepared and self.peers.of(transaction.coordinator) is not None:
            self.participant.end_by_hand(transaction, commit=commit)
        else:
            (transactions.commit if commit else transactions.abort)(identifier)
        what = "committed" if commit else "aborted"
        self.core.event(f"transaction_{what}_by_hand", id=format_guid(identifier), user=user)
