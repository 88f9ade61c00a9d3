"""Transactions that have not ended, peers, and the calls of peers (docs/ways.md)."""

from __future__ import annotations

from typing import Final

from posthouse.api.peers import (
    PeerAddBody,
    PeerAddedJson,
    PeerJson,
    PeerListJson,
    PeerParams,
)
from posthouse.api.types import (
    Done,
    Nothing,
    TransactionInfoJson,
    TransactionListJson,
    TransactionParams,
)
from posthouse.engine.manager import QueueManager
from posthouse.engine.transactions.distributed import Joint
from posthouse.engine.transactions.transaction import Transaction, TransactionState
from posthouse.model.guids import format_guid, parse_guid
from posthouse.model.message_json import time_text
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.refusals import (
    MethodNotAllowed,
    NoSuchPeer,
    NoSuchTransaction,
    Unauthorized,
)
from posthouse.security.peer_calls import PREFIX as CALL_PREFIX
from posthouse.security.peers import Peer, key_text, parse_key

PEER_CALL: Final = "/api/v1/two-phase"
"""Where peers call; not for others, so no part of the API's document."""


# -- transactions


def list_transactions(
    manager: QueueManager, context: Context, params: Nothing, body: Nothing
) -> TransactionListJson:
    """Lists the transactions that have not ended, or are not confirmed by all participants."""
    context.require_administrator()
    found = [_info(manager, one) for one in manager.transactions.all_open()]
    found += [_decided(joint) for joint in manager.transactions.decided()]
    return TransactionListJson(transactions=sorted(found, key=lambda one: one.id))


def _info(manager: QueueManager, transaction: Transaction) -> TransactionInfoJson:
    prepared = transaction.state is TransactionState.PREPARED
    idle_ms = manager.machine.now_ms - transaction.last_used_ms
    joint = manager.transactions.joint(transaction.identifier)
    return TransactionInfoJson(
        id=format_guid(transaction.identifier),
        state=transaction.state.value,
        operations=transaction.count,
        bytes=transaction.size,
        coordinator=transaction.coordinator.hex(),
        participants=joint.participants if joint else [],
        prepared_time=time_text(transaction.prepared_at) if prepared else None,
        decided_time=None,
        idle_s=max(idle_ms, 0) // 1000,
    )


def _decided(joint: Joint) -> TransactionInfoJson:
    return TransactionInfoJson(
        id=format_guid(joint.identifier),
        state=joint.state.value,
        operations=0,
        bytes=0,
        coordinator="",
        participants=joint.participants,
        prepared_time=None,
        decided_time=time_text(joint.decided_at),
        idle_s=0,
    )


def commit_transaction(
    manager: QueueManager, context: Context, params: TransactionParams, body: Nothing
) -> Done:
    """Commits a prepared transaction in its coordinator's place. The log keeps who did it.

    One that is committed here, and waits for participants to confirm, is forgotten.
    """
    context.require_administrator()
    identifier = _known(manager, params)
    transaction = manager.transactions.find_open(identifier)
    if transaction is not None and transaction.state is not TransactionState.PREPARED:
        raise NoSuchTransaction(
            f"the transaction {params.id} is not prepared", "Its client will end it, or abort it."
        )
    manager.transactions.commit_by_hand(identifier, context.caller.name)
    return Done()


def abort_transaction(
    manager: QueueManager, context: Context, params: TransactionParams, body: Nothing
) -> Done:
    """Aborts a transaction; of a prepared one in its coordinator's place."""
    context.require_administrator()
    manager.transactions.abort_by_hand(_known(manager, params), context.caller.name)
    return Done()


def _known(manager: QueueManager, params: TransactionParams) -> bytes:
    identifier = parse_guid(params.id)
    transactions = manager.transactions
    if transactions.find_open(identifier) is None and transactions.joint(identifier) is None:
        raise NoSuchTransaction(f"the transaction {params.id} is unknown or has ended")
    return identifier


# -- peers


def list_peers(
    manager: QueueManager, context: Context, params: Nothing, body: Nothing
) -> PeerListJson:
    """Lists the queue managers that share transactions with this one."""
    context.require_administrator()
    return PeerListJson(peers=[_peer(peer) for peer in manager.transactions.all_peers()])


def add_peer(
    manager: QueueManager, context: Context, params: Nothing, body: PeerAddBody
) -> PeerAddedJson:
    """Trusts another queue manager with transactions; it has to trust this one, with that key."""
    context.require_administrator()
    key = None if body.key is None else parse_key(body.key)
    peer = manager.transactions.add_peer(body.name, parse_guid(body.guid), body.url, key)
    context.tell(manager, "peer_trusted", peer=peer.name)
    return PeerAddedJson(peer=_peer(peer), key=key_text(peer.key) if key is None else None)


def remove_peer(manager: QueueManager, context: Context, params: PeerParams, body: Nothing) -> Done:
    """Trusts a queue manager no more, once nothing is open with it."""
    context.require_administrator()
    if not manager.transactions.is_peer(params.name):
        raise NoSuchPeer(f"there is no peer {params.name}")
    manager.transactions.remove_peer(params.name)
    context.tell(manager, "peer_not_trusted", peer=params.name)
    return Done()


def _peer(peer: Peer) -> PeerJson:
    return PeerJson(
        name=peer.name,
        guid=format_guid(peer.guid),
        url=peer.url,
        created_time=time_text(peer.created_s),
    )


# -- calls of peers


def call_of(method: str, authorization: list[str]) -> str:
    """The signed call of a peer; it stands where others show a token."""
    if method != "POST":
        raise MethodNotAllowed(f"{PEER_CALL} does not take {method[:16]}", ("POST",))
    scheme, _, text = (authorization[0] if len(authorization) == 1 else "").partition(" ")
    if scheme.lower() != "bearer" or not text.strip().startswith(CALL_PREFIX):
        raise Unauthorized("only peers call here", "Add the caller as a peer.")
    return text.strip()
