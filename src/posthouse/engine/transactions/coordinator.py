"""The coordinator of transactions with participants elsewhere (docs/ways.md; decision 51).

Votes are gathered first. The decision is one record together with this queue manager's own part
of the transaction, so both hold or neither; asks leave the process after the sync of their turn,
so no decision that could be lost is sent. It is sent until all have confirmed, and
forgotten then. The answer about any other is that it was aborted.

Peers vote. Databases are prepared by the client before it asks for the commit: to the coordinator
they are branches that somebody will confirm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from posthouse.engine.ledger.effects import Wake
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import OpenTransactions
from posthouse.engine.ledger.records import TABLE_DECISION, Change
from posthouse.engine.transactions.distributed import (
    Branch,
    Joint,
    JointState,
    Within,
    at_once,
    pack_decision,
    unpack_decision,
)
from posthouse.engine.transactions.peer_calls import AskKey, PeerAsks
from posthouse.engine.transactions.transaction import Transaction, TransactionState
from posthouse.engine.transactions.trusted_peers import Peers
from posthouse.model.bounded_tables import has_share
from posthouse.model.errors import (
    AccessDenied,
    InsufficientResources,
    InvalidParameter,
    QueueError,
    TransactionEnlist,
    TransactionSequence,
)
from posthouse.model.guids import format_guid
from posthouse.security.access import Caller
from posthouse.security.enlistment import EnlistmentToken, pack_token
from posthouse.security.peer_calls import Reply, Verb
from posthouse.security.rights import WRITE_MESSAGE

PARTICIPANTS_MAX: Final = 64  # of one transaction
BRANCH_LENGTH_MAX: Final = 64  # as X/Open has it
RESOURCE_LENGTH_MAX: Final = 256

UNDECIDED, COMMITTED, UNKNOWN = "undecided", "committed", "unknown"
"""What became of a transaction, for those who recover databases."""


class TransactionOutcomes(NamedTuple):
    """What became of transactions, and what a database is still to confirm."""

    states: list[str]
    unconfirmed: list[tuple[bytes, str]]


class Coordinator:
    """The transactions of this queue manager that others take part in."""

    def __init__(
        self, core: Ledger, transactions: OpenTransactions, peers: Peers, asks: PeerAsks
    ) -> None:
        self.core = core
        self._transactions = transactions
        self.peers = peers
        self.asks = asks
        self.url = ""  # where peers call this queue manager; set by the server that listens there
        self.joints: dict[bytes, Joint] = {}
        self._preparing: dict[bytes, int] = {}  # until when votes count, the earliest first

    def load(self) -> None:
        """Decisions that were not confirmed by everybody are told again."""
        for identifier, value in self.core.state.of_table(TABLE_DECISION):
            joint = self.joints[identifier] = unpack_decision(identifier, value)
            self._tell(joint, Verb.COMMIT)

    def decided(self) -> list[Joint]:
        """Decisions that not everybody has confirmed."""
        return [joint for joint in self.joints.values() if joint.state is JointState.COMMITTED]

    # -- participants

    def token(self, transaction: Transaction, name: str) -> bytes:
        """Makes a peer a participant; the token is how a client begins the peer's part of it.

        The peer is known by its name, or by its host.
        """
        return self._token(transaction, self.peers.named(name).guid)

    def token_for(self, transaction: Transaction, guid: bytes) -> bytes:
        """Makes a peer, by its identifier, a participant, and returns the token for it."""
        if self.peers.of(guid) is None:
            raise TransactionEnlist(
                f"the queue manager {format_guid(guid)} is not a peer of this one",
                "Add each of the two as a peer of the other, with the same key.",
            )
        return self._token(transaction, guid)

    def _token(self, transaction: Transaction, guid: bytes) -> bytes:
        core, peer = self.core, self.peers.of(guid)
        assert peer is not None
        self._transactions.use(transaction, 0)
        if transaction.coordinator:
            raise TransactionEnlist("only the coordinator of a transaction adds participants")
        if not self.url:
            raise TransactionEnlist(
                "other queue managers cannot call this one", "Switch the admin endpoint on."
            )
        joint = self._joint(transaction.identifier)
        if len(joint.members) >= PARTICIPANTS_MAX:
            raise InsufficientResources("the transaction has too many participants")
        joint.members.add(guid)
        expires_s = core.utc + core.settings.transactions.enlistment_s
        token = EnlistmentToken(core.guid, self.url, transaction.identifier, expires_s)
        return pack_token(token, peer.key)

    def _joint(self, identifier: bytes) -> Joint:
        joint = self.joints.get(identifier)
        if joint is None:
            joint = self.joints[identifier] = Joint(identifier)
        return joint

    # -- commit

    def commit(
        self,
        identifier: bytes,
        account: bytes = b"",
        branches: Sequence[Branch] = (),
        *,
        waiter: object = None,
        within: Within = at_once,
    ) -> bool:
        """Commits for a client. True: it is decided. False: `waiter` gets a Wake."""
        transaction = self._transactions.find(identifier)
        self._check_branches(account, branches)
        if self.peers.of(transaction.coordinator) is not None:
            raise TransactionSequence("only the coordinator of this transaction may commit it")
        joint = self.joints.get(identifier)
        if joint is None and not branches:
            within(lambda: self._transactions.commit(identifier))
            return True
        if joint is not None and joint.members and transaction.state is not TransactionState.ACTIVE:
            raise TransactionSequence(f"the transaction is {transaction.state.value} already")
        joint = self._joint(identifier)
        joint.account, joint.branches, joint.within = account, dict(branches), within
        if not joint.members:
            self._decide(joint)
            return True
        self._prepare(joint, transaction, waiter)
        return False

    def _check_branches(self, account: bytes, branches: Sequence[Branch]) -> None:
        if len(branches) > PARTICIPANTS_MAX or len(dict(branches)) != len(branches):
            raise InvalidParameter("too many branches, or one of them twice")
        for name, resource in branches:
            if not 0 < len(name) <= BRANCH_LENGTH_MAX or len(resource) > RESOURCE_LENGTH_MAX:
                raise InvalidParameter("the name of a branch is empty or too long")
        most, taken = self.core.settings.limits.transactions_max, len(self.joints)
        if branches and 2 * taken >= most:  # below that any user has a share
            own = sum(joint.account == account for joint in self.joints.values())
            if not has_share(own, taken, most):
                raise InsufficientResources(
                    f"too many decisions wait to be confirmed, {own} of this user"
                )

    def _prepare(self, joint: Joint, transaction: Transaction, waiter: object) -> None:
        core = self.core
        self._transactions.close(transaction)
        joint.state, joint.waiter = JointState.PREPARING, waiter
        until_ms = core.now_ms + core.settings.transactions.prepare_s * 1000
        self._preparing[joint.identifier] = until_ms
        core.deadlines.note(until_ms)
        self._tell(joint, Verb.PREPARE)

    def _decide(self, joint: Joint) -> None:
        """The decision and our own part of it are one record."""
        core, identifier = self.core, joint.identifier
        self._preparing.pop(identifier, None)
        joint.state, joint.decided_at = JointState.COMMITTED, core.utc
        joint.within(
            lambda: self._transactions.commit(identifier, also=lambda c: self._store(joint, c))
        )
        joint.within = at_once
        self._tell(joint, Verb.COMMIT)
        if joint.waiter is not None:
            core.effects.wakes.append(Wake(joint.waiter, None, None))
            joint.waiter = None

    def _tell(self, joint: Joint, verb: Verb) -> None:
        for member in sorted(joint.members):
            self.asks.begin(AskKey(member, verb, joint.identifier))

    def _store(self, joint: Joint, change: Change) -> None:
        value = None if joint.settled else pack_decision(joint)
        if joint.settled:
            del self.joints[joint.identifier]
        self.core.define(TABLE_DECISION, joint.identifier, value, change)

    # -- abort

    def _fail(self, joint: Joint, why: str) -> None:
        joint.why = why
        self._transactions.abort(joint.identifier)

    def ended(self, transaction: Transaction) -> None:
        """Our own part has ended. Undecided, that aborts the others' parts too."""
        joint = self.joints.get(transaction.identifier)
        if joint is None or joint.state is JointState.COMMITTED:
            return
        del self.joints[joint.identifier]
        self._preparing.pop(joint.identifier, None)
        for member in sorted(joint.members):
            self.asks.drop(AskKey(member, Verb.PREPARE, joint.identifier))
            self.asks.once(AskKey(member, Verb.ABORT, joint.identifier))
        if joint.waiter is not None:
            error: QueueError = TransactionSequence(
                f"the transaction was aborted: {joint.why or 'its session or its time ended'}",
                "Begin a new transaction and do its work again.",
            )
            self.core.effects.wakes.append(Wake(joint.waiter, None, error))

    def run(self) -> None:
        """Aborts what did not get all its votes in time."""
        for identifier, until_ms in list(self._preparing.items()):
            if until_ms > self.core.now_ms:
                return
            joint = self.joints[identifier]
            missing = ", ".join(self._names(joint.members - joint.voted))
            self._fail(joint, f"no vote of {missing} came in time")

    def next_deadline_ms(self) -> int | None:
        """When votes come too late."""
        return next(iter(self._preparing.values()), None)

    # -- answers of peers, and their questions

    def voted(self, member: bytes, identifier: bytes, reply: Reply) -> None:
        """A peer's answer to PREPARE."""
        joint = self.joints.get(identifier)
        if joint is None or joint.state is not JointState.PREPARING or member not in joint.members:
            return
        self.asks.drop(AskKey(member, Verb.PREPARE, identifier))
        if reply is not Reply.PREPARED:
            self._fail(joint, f"{self._names([member])[0]} has aborted it")
            return
        joint.voted.add(member)
        if joint.voted == joint.members:
            self._decide(joint)

    def carried_out(self, member: bytes, identifier: bytes) -> None:
        """A peer has committed its part."""
        self.asks.drop(AskKey(member, Verb.COMMIT, identifier))
        joint = self.joints.get(identifier)
        if joint is not None and joint.state is JointState.COMMITTED and member in joint.members:
            joint.members.discard(member)
            self._keep(joint)

    def outcome(self, member: bytes, identifier: bytes) -> Reply:
        """The answer to a peer in doubt."""
        joint = self.joints.get(identifier)
        if joint is None or member not in joint.members:
            return Reply.UNKNOWN
        return Reply.COMMITTED if joint.state is JointState.COMMITTED else Reply.UNDECIDED

    def _keep(self, joint: Joint) -> None:
        change = Change()
        self._store(joint, change)
        self.core.commit(change)

    # -- databases

    def confirm(self, identifier: bytes, branches: Iterable[str], caller: Caller) -> None:
        """Databases have committed their branches. What is forgotten was confirmed before."""
        joint = self._owned(identifier, caller)
        if joint is None:
            return
        before = len(joint.branches)
        for branch in branches:
            joint.branches.pop(branch, None)
        if len(joint.branches) != before:
            self._keep(joint)

    def _owned(self, identifier: bytes, caller: Caller) -> Joint | None:
        joint = self.joints.get(identifier)
        if joint is None or joint.state is not JointState.COMMITTED:
            return None
        if not self._may_settle(joint, caller):
            raise AccessDenied(f"the transaction {format_guid(identifier)} belongs to another user")
        caller.check_limit(WRITE_MESSAGE)
        return joint

    def _may_settle(self, joint: Joint, caller: Caller) -> bool:
        return caller.is_administrator or caller.sid == joint.account

    def outcomes(
        self, identifiers: Iterable[bytes], resource: str, caller: Caller
    ) -> TransactionOutcomes:
        """What became of transactions that a database has prepared, and what it is to confirm.

        A transaction that is neither open nor decided can no longer be decided.
        """
        states = [self._state(identifier) for identifier in identifiers]
        unconfirmed = [
            (joint.identifier, branch)
            for joint in (self.decided() if resource else ())
            if self._may_settle(joint, caller)
            for branch, where in joint.branches.items()
            if where == resource
        ]
        return TransactionOutcomes(states, unconfirmed)

    def _state(self, identifier: bytes) -> str:
        joint = self.joints.get(identifier)
        if joint is not None and joint.state is JointState.COMMITTED:
            return COMMITTED
        return UNDECIDED if identifier in self._transactions.open else UNKNOWN

    # -- operators

    def forget(self, joint: Joint, user: str) -> None:
        """An operator has seen to it that every participant committed: no one is informed."""
        for member in joint.members:
            self.asks.drop(AskKey(member, Verb.COMMIT, joint.identifier))
        self.core.event(
            "transaction_forgotten_by_hand",
            id=format_guid(joint.identifier),
            participants=joint.participants,
            user=user,
        )
        joint.members, joint.branches = set(), {}
        self._keep(joint)

    def _names(self, members: Iterable[bytes]) -> list[str]:
        peers = [self.peers.of(member) for member in sorted(members)]
        return [peer.name if peer else "a removed peer" for peer in peers]
