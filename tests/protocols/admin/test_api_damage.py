"""Damaged records over the API: listed and given up by administrators only."""

from __future__ import annotations

from pathlib import Path

from posthouse.engine.ledger.damaged_records import DamagedRecord
from posthouse.engine.manager import QueueManager
from tests.protocols.admin.api_rig import ApiRig, with_api

PLACE = {"file": "00000001.log", "offset": 4711}


def put_on_the_list(manager: QueueManager) -> None:
    damaged = DamagedRecord(1, 4711, 300, "the record has a wrong checksum", 0, 17)
    manager.machine.damage._keep(damaged)


def test_damage_is_listed_and_accepted_by_its_place(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        assert (await rig.get("/api/v1/damage")).json == {"records": []}
        await rig.run(put_on_the_list)
        (listed,) = (await rig.get("/api/v1/damage")).json["records"]
        assert listed == {
            **PLACE,
            "bytes": 300,
            "reason": "the record has a wrong checksum",
            "message": 17,
            "queue": None,
            "lookup_id": None,
            "found": None,
        }
        status = (await rig.get("/api/v1/status")).json
        assert status["damaged"] == 1
        assert "1 damaged record of messages set aside" in status["problems"][0]
        assert "posthouse_damaged_records 1.0" in (await rig.get("/metrics")).text
        bob = await rig.user("bob")
        assert (await rig.get("/api/v1/damage", token=bob)).status == 403
        asked = {"records": [PLACE]}
        assert (await rig.post("/api/v1/damage/accept", asked, token=bob)).status == 403
        both = {"records": [PLACE, PLACE | {"offset": 1}]}
        assert (await rig.post("/api/v1/damage/accept", both)).status == 404
        assert len((await rig.get("/api/v1/damage")).json["records"]) == 1
        assert (await rig.post("/api/v1/damage/accept", {"records": []})).status in (400, 422)
        accepted = await rig.post("/api/v1/damage/accept", {"records": [PLACE, PLACE]})
        assert accepted.json == {"done": True}
        assert (await rig.get("/api/v1/damage")).json == {"records": []}
        assert (await rig.get("/api/v1/status")).json["damaged"] == 0

    with_api(tmp_path, work)
