"""The directory over the API."""

from __future__ import annotations

from pathlib import Path

from posthouse.model.guids import format_guid
from tests.protocols.admin.api_rig import ApiRig, with_api

PATH = "/api/v1/directory"
BETA = "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11"
MACHINE = {"name": "BETA", "guid": BETA, "addresses": ["10.0.0.2:1801"], "sites": ["North"]}
SITES = [{"name": "North"}]
NOBODY = {"named_by": [], "left_off": 0}


async def add(rig: ApiRig, **parts: object) -> list[tuple[str, str, str]]:
    done = await rig.post(PATH, {"document": parts})
    assert done.status == 200, done.text
    return [(one["change"], one["kind"], one["name"]) for one in done.json["changes"]]


def test_a_document_goes_in_and_comes_out(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        assert await add(rig, sites=SITES, machines=[MACHINE]) == [
            ("created", "site", "North"),
            ("created", "machine", "BETA"),
        ]
        document = (await rig.get(PATH)).json
        assert any(MACHINE.items() <= one.items() for one in document["machines"])
        assert await add(rig, **document) == []
        gone = await rig.post(f"{PATH}/remove", {"kind": "machine", "name": "beta"})
        assert gone.json["changes"] == [
            {"kind": "machine", "name": "BETA", "change": "deleted", "fields": [], **NOBODY}
        ]
        again = await rig.post(f"{PATH}/remove", {"kind": "machine", "name": "beta"})
        assert again.status == 404, again.text

    with_api(tmp_path, work)


def test_a_document_that_is_wrong_changes_nothing(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        before = (await rig.get(PATH)).json
        wrong = {"sites": SITES, "machines": [MACHINE | {"sites": ["South"]}]}
        refused = await rig.post(PATH, {"document": wrong})
        assert refused.status == 422
        assert "South" in refused.json["error"]["cause"]
        tried = await rig.post(PATH, {"document": {"sites": SITES}, "dry_run": True})
        assert tried.json["changes"] == [
            {"kind": "site", "name": "North", "change": "created", "fields": [], **NOBODY}
        ]
        assert (await rig.get(PATH)).json == before

    with_api(tmp_path, work)


def test_what_waited_for_a_way_is_tried_at_once(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        name = f"PRIVATE={BETA}\\00000010"
        manager = rig.desk.manager
        sent = await rig.post(
            f"/api/v1/queues/{name.replace(chr(92), '%5C')}/messages", {"body_text": "x"}
        )
        assert sent.status == 201, sent.text
        (queue,) = manager.queues.outgoing_queues()
        assert queue.outgoing is not None
        queue.outgoing.retry_time = manager.machine.utc + 1000
        await add(rig, machines=[{"name": "BETA", "guid": BETA}])
        assert queue.outgoing.retry_time == manager.machine.utc

    with_api(tmp_path, work)


def test_routes_are_told(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        own = rig.desk.manager.ledger
        me = {"name": own.settings.computer_name, "guid": format_guid(own.guid)}
        await add(rig, sites=SITES, machines=[MACHINE, me | {"sites": ["North"]}])
        way = await rig.get(f"{PATH}/route?source={me['name']}&target=BETA")
        (step,) = way.json["steps"]
        assert step["target"] == "BETA"
        assert "same site" in step["rule"]
        assert (await rig.get(f"{PATH}/route?source=BETA&target=NOBODY")).status == 404
        await add(rig, machines=[MACHINE | {"sites": []}])
        refused = await rig.get(f"{PATH}/route?source={me['name']}&target=BETA")
        assert "BETA is in no site" in refused.json["error"]["cause"]

    with_api(tmp_path, work)


def test_it_is_the_administrators(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        token = await rig.user("bob")
        for method, path in (("GET", PATH), ("GET", f"{PATH}/route?source=A&target=B")):
            assert (await rig.ask(method, path, token=token)).status == 403

    with_api(tmp_path, work)


def test_a_large_document_goes_in_at_once(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        sites = [{"name": f"{number:060}"} for number in range(16_000)]
        done = await rig.post(PATH, {"document": {"sites": sites}})
        assert done.status == 200, done.text[:200]
        assert len(done.json["changes"]) == 16_000

    with_api(tmp_path, work)
