"""Peers and shared transactions over the API."""

from __future__ import annotations

from pathlib import Path

import pytest

from posthouse.engine.transactions.distributed import Branch
from posthouse.model.guids import format_guid
from tests.protocols.admin.api_rig import AUDIT, ApiRig, with_api

GUID = "01234567-89ab-cdef-0123-456789abcdef"
PEER = {"name": "BETA", "guid": GUID, "url": "http://Beta"}
KEY = "phk_" + "ab" * 32


def test_a_peer_is_added_listed_and_removed_and_its_key_shown_once(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        added = await rig.post("/api/v1/peers", PEER)
        assert added.status == 201
        key = added.json["key"]
        assert key.startswith("phk_")
        assert added.json["peer"]["url"] == "http://beta:8816"
        listed = await rig.get("/api/v1/peers")
        (peer,) = listed.json["peers"]
        assert (peer["name"], peer["guid"]) == ("BETA", GUID)
        assert "key" not in peer
        assert key[4:] not in listed.text
        other = await rig.post(
            "/api/v1/peers", PEER | {"name": "C", "guid": GUID[::-1], "key": KEY}
        )
        assert other.status == 400  # reversed it is not an identifier
        mine = {"name": "C", "guid": GUID.replace("0", "1"), "url": "https://c:1", "key": KEY}
        assert (await rig.post("/api/v1/peers", mine)).json["key"] is None
        assert (await rig.ask("DELETE", "/api/v1/peers/beta")).json == {"done": True}
        assert (await rig.ask("DELETE", "/api/v1/peers/beta")).status == 404

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "ftp://beta.example"},
        {"url": "http://user:word@beta"},
        {"name": "a b"},
        {"key": "phk_short"},
        {"guid": "no identifier"},
        {"more": 1},
    ],
)
def test_impossible_peers_are_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    async def work(rig: ApiRig) -> None:
        reply = await rig.post("/api/v1/peers", PEER | changes)
        assert reply.status in (400, 422)
        assert (await rig.get("/api/v1/peers")).json == {"peers": []}

    with_api(tmp_path, work)


def test_peers_are_the_administrators(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        user = await rig.user("maria")
        for token in (user, rig.tokens["operate"]):
            assert (await rig.get("/api/v1/peers", token=token)).status == 403
            assert (await rig.post("/api/v1/peers", PEER, token=token)).status == 403
            gone = await rig.ask("DELETE", "/api/v1/peers/BETA", token=token)
            assert gone.status == 403

    with_api(tmp_path, work)


def test_a_decision_is_listed_until_it_is_confirmed_or_taken_as_carried_out(
    tmp_path: Path,
) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create(AUDIT, transactional=True)
        identifier = b"t" * 16
        await rig.run(lambda m: m.transactions.create_transaction(identifier))
        branches = [Branch("0", "orders-db")]
        await rig.run(lambda m: m.transactions.commit(identifier, b"", branches))
        (listed,) = (await rig.get("/api/v1/transactions")).json["transactions"]
        assert listed["state"] == "committed"
        assert listed["participants"] == ["database 0 orders-db"]
        assert listed["decided_time"]
        path = f"/api/v1/transactions/{format_guid(identifier)}"
        assert (await rig.post(path + "/abort")).status == 409
        assert 'posthouse_transactions{state="committed"} 1.0' in (await rig.get("/metrics")).text
        assert (await rig.post(path + "/commit")).status == 200
        assert (await rig.get("/api/v1/transactions")).json == {"transactions": []}
        assert (await rig.post(path + "/commit")).status == 404

    with_api(tmp_path, work)
