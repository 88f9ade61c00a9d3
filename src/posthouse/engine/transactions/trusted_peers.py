"""Trusted queue managers as records of the log (docs/ways.md).

Only these are called, and only at the address of their record; only their tokens and calls are
believed.
"""

from __future__ import annotations

from typing import Final

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import TABLE_PEER, Change
from posthouse.model.bounded_tables import require_room
from posthouse.model.errors import (
    InvalidParameter,
    StatusNotFound,
    TransactionEnlist,
)
from posthouse.model.guids import format_guid
from posthouse.model.text import excerpt
from posthouse.security.peers import (
    KEY_SIZE,
    Peer,
    check_url,
    decode_peer,
    encode_peer,
    peer_key,
)

PEERS_MAX: Final = 1000


class Peers:
    """The queue managers that this one shares transactions with."""

    def __init__(self, core: Ledger) -> None:
        self.core = core
        self._by_name: dict[str, Peer] = {}
        self._by_guid: dict[bytes, Peer] = {}

    def load(self) -> None:
        """Everything the store kept."""
        for _, value in self.core.state.of_table(TABLE_PEER):
            self._remember(decode_peer(value))

    def all(self) -> list[Peer]:
        """Every peer, by name."""
        return [peer for _, peer in sorted(self._by_name.items())]

    def find(self, name: str) -> Peer:
        """The peer of that name, however its letters are cased."""
        peer = self._by_name.get(peer_key(name))
        if peer is None:
            raise StatusNotFound(
                f"there is no peer {excerpt(name)}", "`posthouse peer list` shows the peers."
            )
        return peer

    def named(self, text: str) -> Peer:
        """A peer by its name, or by the host where it is called if only one is called there."""
        peer = self._by_name.get(peer_key(text))
        if peer is not None:
            return peer
        there = [peer for peer in self._by_name.values() if peer.host == text.casefold()]
        if len(there) != 1:
            which = "several peers are" if there else "no peer is"
            raise TransactionEnlist(
                f"{which} called {excerpt(text)}, by name or by address",
                "Add each of the two as a peer of the other, and name it: posthouse peer list.",
            )
        return there[0]

    def knows(self, name: str) -> bool:
        """Whether there is a peer of that name."""
        return peer_key(name) in self._by_name

    def of(self, guid: bytes) -> Peer | None:
        """The peer with that identifier."""
        return self._by_guid.get(guid)

    def add(self, name: str, guid: bytes, url: str, key: bytes | None = None) -> Peer:
        """A new peer; without a key one is made, for the other side to be told."""
        if peer_key(name) in self._by_name:
            raise InvalidParameter(f"the peer {excerpt(name)} already exists", "Remove it first.")
        if guid in self._by_guid:
            raise InvalidParameter(f"the peer {self._by_guid[guid].name} is this queue manager")
        if guid == self.core.guid:
            raise InvalidParameter("this queue manager is not a peer of its own")
        require_room(len(self._by_name), PEERS_MAX, "peers", "Delete some: posthouse peer delete.")
        peer = Peer(
            name=name,
            guid=guid,
            url=check_url(url),
            key=self.core.random_bytes(KEY_SIZE) if key is None else key,
            created_s=self.core.utc,
        ).checked()
        self._remember(peer)
        self._define(peer, encode_peer(peer))
        self.core.event("peer_added", peer=name, guid=format_guid(guid), url=peer.url)
        return peer

    def remove(self, peer: Peer) -> None:
        """It is no longer believed, nor called."""
        del self._by_name[peer_key(peer.name)], self._by_guid[peer.guid]
        self._define(peer, None)
        self.core.event("peer_removed", peer=peer.name, guid=format_guid(peer.guid))

    def _remember(self, peer: Peer) -> None:
        self._by_name[peer_key(peer.name)] = self._by_guid[peer.guid] = peer

    def _define(self, peer: Peer, value: bytes | None) -> None:
        change = Change()
        self.core.define(TABLE_PEER, peer.guid, value, change)
        self.core.commit(change)
