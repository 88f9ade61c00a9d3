"""Trusted queue managers as records: found again, never twice, and their keys never shown."""

from __future__ import annotations

import pytest

from posthouse.engine.transactions.trusted_peers import PEERS_MAX
from posthouse.model.errors import QueueError
from posthouse.security.peers import Peer
from tests.engine.rig import Rig

BETA, GAMMA = b"b" * 16, b"c" * 16
URL = "http://beta:8816"


@pytest.fixture
def rig() -> Rig:
    return Rig()


def add(
    rig: Rig, name: str = "BETA", guid: bytes = BETA, url: str = URL, key: bytes | None = None
) -> Peer:
    return rig.run(lambda m: m.transactions.add_peer(name, guid, url, key))


def test_peers_outlive_a_restart_and_are_found_by_name_and_identifier(rig: Rig) -> None:
    beta, gamma = add(rig), add(rig, "gamma", GAMMA, "https://Gamma", bytes(32))
    assert gamma.url == "https://gamma:8816"
    assert len(beta.key) == 32
    rig.restart()
    peers = rig.manager.transactions.peers
    assert peers.all() == [beta, gamma]
    assert peers.find("beta") == peers.of(BETA) == beta
    assert peers.of(b"x" * 16) is None


def test_a_removed_peer_is_gone_for_good(rig: Rig) -> None:
    add(rig)
    rig.run(lambda m: m.transactions.remove_peer("beta"))
    rig.restart()
    assert rig.manager.transactions.all_peers() == []
    with pytest.raises(QueueError, match="no peer"):
        rig.run(lambda m: m.transactions.remove_peer("beta"))


@pytest.mark.parametrize(
    ("name", "guid", "url", "why"),
    [
        ("Beta", GAMMA, URL, "exists"),
        ("other", BETA, URL, "is this queue manager"),
        ("a b", GAMMA, URL, "not a name"),
        ("gamma", bytes(16), URL, "identifier"),
        ("gamma", GAMMA, "beta", "not an address"),
    ],
)
def test_a_wrong_peer_is_refused_and_nothing_changes(
    rig: Rig, name: str, guid: bytes, url: str, why: str
) -> None:
    add(rig)
    before = rig.manager.ledger.state.dump()
    with pytest.raises(QueueError, match=why):
        add(rig, name, guid, url)
    assert rig.manager.ledger.state.dump() == before


def test_nobody_is_a_peer_of_himself(rig: Rig) -> None:
    with pytest.raises(QueueError, match="of its own"):
        add(rig, "me", rig.manager.machine.identifier)


def test_there_is_an_end_to_peers(rig: Rig) -> None:
    for number in range(PEERS_MAX):
        guid = number.to_bytes(2, "little") + b"x" * 14
        rig.manager.transactions.add_peer(f"p{number}", guid, URL)
    with pytest.raises(QueueError, match="1000 peers, which is the limit"):
        add(rig)


def test_no_event_shows_a_key(rig: Rig) -> None:
    peer = add(rig)
    rig.run(lambda m: m.transactions.remove_peer("beta"))
    assert [event.name for event in rig.events if "peer" in event.name] == [
        "peer_added",
        "peer_removed",
    ]
    told = repr(rig.events)
    assert peer.key.hex() not in told
    assert repr(peer.key)[2:-1] not in told
