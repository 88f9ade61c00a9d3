"""Calls to other queue managers about shared transactions, repeated until they are answered."""

from __future__ import annotations

from typing import Final, NamedTuple

from posthouse.engine.ledger.effects import PeerRequest
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.retries import Retries
from posthouse.engine.transactions.trusted_peers import Peers
from posthouse.model.errors import RemoteProtocolError
from posthouse.model.guids import format_guid
from posthouse.security.peer_calls import (
    NONCE_SIZE,
    PeerCall,
    Reply,
    Verb,
    check_reply,
    sign_call,
)

ASKS_OF_A_TURN_MAX: Final = 256


class AskKey(NamedTuple):
    """The key of a call: its kind, transaction and peer."""

    peer: bytes
    verb: Verb
    transaction: bytes


class PeerAsks:
    """Calls that wait for answers of peers, with the time of their next attempt."""

    def __init__(self, core: Ledger, peers: Peers) -> None:
        self.core = core
        self.peers = peers
        settings = core.settings
        self._retries: Retries[AskKey] = Retries(
            settings.transactions.peer_retry_s * 1000, settings.transactions.peer_retry_max_s * 1000
        )

    def begin(self, key: AskKey, delay_s: int = 0) -> None:
        """Asks until `drop`; without a delay in this turn."""
        at_ms = self.core.now_ms + delay_s * 1000
        self._retries.begin(key, at_ms)
        self.core.deadlines.note(at_ms)
        if not delay_s:
            self.run()

    def once(self, key: AskKey) -> None:
        """Asks once, for what the peer would find out by itself."""
        self._ask(key)

    def drop(self, key: AskKey) -> None:
        """It is answered, or no longer wanted."""
        self._retries.drop(key)

    def run(self) -> None:
        """Asks what is due; the rest of very much follows in the next turn."""
        for key in self._retries.due(self.core.now_ms, ASKS_OF_A_TURN_MAX):
            self._ask(key)

    def next_deadline_ms(self) -> int | None:
        """When something is to be asked again."""
        return self._retries.next_ms()

    def _ask(self, key: AskKey) -> None:
        peer, core = self.peers.of(key.peer), self.core
        if peer is None:
            core.event("transaction_peer_unknown", id=format_guid(key.transaction))
            return
        call = PeerCall(
            key.verb,
            core.guid,
            peer.guid,
            key.transaction,
            core.utc,
            core.random_bytes(NONCE_SIZE),
        )
        text = sign_call(call, peer.key)
        core.effects.asks.append(PeerRequest(peer.guid, peer.url, key.verb, key.transaction, text))

    def reply(self, ask: PeerRequest, text: str | None) -> Reply | None:
        """What the peer answered; None where nothing came that it has signed."""
        peer = self.peers.of(ask.peer)
        if peer is None or text is None:
            return None
        try:
            return check_reply(ask.text, text, peer.key)
        except RemoteProtocolError:
            self.core.refusals["peer_reply"] += 1
            return None
