"""Transactions of client sessions: begun, joined with others, decided, confirmed.

A transaction belongs to the session that began it, until other queue managers have voted on it. A
commit with participants elsewhere is answered when it is decided (docs/ways.md).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from posthouse.engine.manager import QueueManager
from posthouse.engine.sessions.resumable import COMMITTED
from posthouse.engine.transactions.distributed import Branch, Within, at_once
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import InvalidParameter, TransactionSequence
from posthouse.protocols.engine_calls import Answer
from posthouse.protocols.sessions.answers import decoded, done, structure
from posthouse.protocols.sessions.session import OpenSession
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.wire.frames import frames, payloads


def on_begin(session: OpenSession, request: int, payload: bytes) -> None:
    """BEGIN: Create Transaction (3.1.7.1.8), or the part here of another queue manager's."""
    asked = decoded(payloads.Begin, frames.BEGIN, payload)

    def call(manager: QueueManager) -> payloads.Begun:
        session.transactions.check_room()
        if asked.token:
            account = session.caller.sid
            transaction = manager.transactions.enlist(asked.token, session, account=account)
        else:
            identifier = _identifier(asked.identifier or manager.machine.new_guid())
            transaction = manager.transactions.create_transaction(
                identifier, session, session.caller.sid
            )
        handle = session.transactions.add(transaction, payloads.early_handle(request))
        return payloads.Begun(handle, transaction.identifier)

    session.decide(request, call, structure)


def _identifier(identifier: bytes) -> bytes:
    if len(identifier) != 16:
        raise InvalidParameter("an identifier has 16 bytes")
    return identifier


def _own(session: OpenSession, manager: QueueManager, handle: int) -> Transaction:
    """The transaction of a handle, which is good for nothing once that has ended."""
    try:
        return session.own_transaction(manager, handle)
    except TransactionSequence:
        session.transactions.drop(handle)
        raise


def on_commit(session: OpenSession, request: int, payload: bytes) -> None:
    """COMMIT: Transaction Commit (3.1.4.4), once for each request id."""
    asked = decoded(payloads.Commit, frames.COMMIT, payload)
    answered = partial(session.answered, request, done, 0)

    def told(answer: Answer) -> None:
        if answer.error is not None:
            session.desk.manager.machine.refused(answer.error)
        answered(answer)

    def call(manager: QueueManager) -> bool:
        named = session.named if asked.request_id else None
        within: Within = at_once
        if named is not None:
            if named.kept(asked.request_id, COMMITTED) is not None:
                return True
            within = partial(manager.sessions.now, named, asked.request_id, COMMITTED, 0)
        transaction = _own(session, manager, asked.transaction)
        decided = manager.transactions.commit(
            transaction.identifier,
            session.caller.sid,
            [Branch(*branch) for branch in asked.branches],
            waiter=told,
            within=within,
        )
        session.transactions.drop(asked.transaction)
        return decided

    def release(answer: Answer) -> None:
        if answer.error is not None or answer.value:
            answered(answer)

    session.requests += 1
    session.desk.decide(call, release)


def on_abort(session: OpenSession, request: int, payload: bytes) -> None:
    """ABORT: Transaction Abort (3.1.4.5)."""
    asked = decoded(payloads.Abort, frames.ABORT, payload)

    def call(manager: QueueManager) -> None:
        transaction = _own(session, manager, asked.transaction)
        manager.transactions.abort_for_client(transaction.identifier)
        session.transactions.drop(asked.transaction)

    session.decide(request, call, done)


def on_prepare(session: OpenSession, request: int, payload: bytes) -> None:
    """PREPARE: DTC Transaction Prepare (3.1.4.6)."""
    asked = decoded(payloads.Prepare, frames.PREPARE, payload)

    def call(manager: QueueManager) -> payloads.Voted:
        transaction = session.own_transaction(manager, asked.transaction)
        vote = manager.transactions.prepare_for_client(transaction.identifier, asked.coordinator)
        return payloads.Voted(vote.value)

    session.decide(request, call, structure)


def on_enlist(session: OpenSession, request: int, payload: bytes) -> None:
    """ENLIST: another queue manager takes part; its token goes there with the client."""
    asked = decoded(payloads.Enlist, frames.ENLIST, payload)

    def call(manager: QueueManager) -> payloads.Enlisted:
        session.caller.check_limit(WRITE_MESSAGE)
        transaction = session.own_transaction(manager, asked.transaction)
        transactions = manager.transactions
        if asked.name:
            return payloads.Enlisted(transactions.token(transaction, asked.name))
        return payloads.Enlisted(transactions.token_for(transaction, _identifier(asked.peer)))

    session.decide(request, call, structure)


def on_confirm(session: OpenSession, request: int, payload: bytes) -> None:
    """CONFIRM: databases have committed what was decided."""
    asked = decoded(payloads.Confirm, frames.CONFIRM, payload)
    session.decide(
        request,
        lambda manager: manager.transactions.confirm(
            _identifier(asked.identifier), asked.branches, session.caller
        ),
        done,
    )


def on_outcomes(session: OpenSession, request: int, payload: bytes) -> None:
    """OUTCOMES: what became of transactions that a database has prepared."""
    asked = decoded(payloads.Outcomes, frames.OUTCOMES, payload)

    def call(manager: QueueManager) -> payloads.Outcome:
        transactions = manager.transactions
        found = transactions.outcomes(asked.identifiers, asked.resource, session.caller)
        return payloads.Outcome(found.states, found.unconfirmed)

    session.decide(request, call, structure)


HANDLERS: dict[int, Callable[[OpenSession, int, bytes], None]] = {
    frames.BEGIN: on_begin,
    frames.COMMIT: on_commit,
    frames.ABORT: on_abort,
    frames.PREPARE: on_prepare,
    frames.ENLIST: on_enlist,
    frames.CONFIRM: on_confirm,
    frames.OUTCOMES: on_outcomes,
}
