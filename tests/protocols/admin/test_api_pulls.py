"""Pulls over HTTP: offered messages come into a queue once, for administrators only."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

from posthouse.model.guids import format_guid
from posthouse.wire.packet.digest import message_digest
from tests.engine.pulling import GUID, SOURCE, packet
from tests.protocols.admin.api_rig import ORDERS, ApiRig, Reply, at, with_api

PULLS = "/api/v1/pulls"


async def begin(rig: ApiRig, **changes: Any) -> Reply:
    body = {"guid": format_guid(GUID), "source": SOURCE, "host": "far", "queue": ORDERS}
    return await rig.post(PULLS, body | changes)


async def offer(rig: ApiRig, epoch: int, *ids: int, size: int = 4, **changes: Any) -> Reply:
    messages = [
        {"lookup_id": one, "packet": b64encode(packet(b"%04d" % one * (size // 4), one)).decode()}
        for one in ids
    ]
    body = {"epoch": epoch, "messages": messages} | changes
    return await rig.post(f"{PULLS}/1/messages", body)


def test_messages_are_offered_listed_and_forgotten(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        begun = (await begin(rig)).json
        assert (begun["id"], begun["running"]) == (1, True)
        epoch = begun["epoch"]
        assert (await offer(rig, epoch, 7, 8)).json == {
            "taken": 2, "known": 0, "refused": [], "stopped": None, "left": 0, "stay": [],
        }  # fmt: skip
        assert (await offer(rig, epoch, 8, 9)).json["known"] == 1
        page = (await rig.get(f"{PULLS}/1/messages", limit=2)).json
        digest = f"{message_digest(packet(b'0007', 7), 0):016x}"
        assert page["messages"][0] == {"lookup_id": 7, "digest": digest, "copied": False}
        assert page["next"] == 8
        rest = (await rig.get(f"{PULLS}/1/messages", after=8)).json
        assert ([one["lookup_id"] for one in rest["messages"]], rest["next"]) == ([9], None)
        (shown,) = (await rig.get(PULLS)).json["pulls"]
        assert (shown["messages"], shown["queue"]) == (3, r"ALPHA\private$\orders")
        assert len((await rig.get(f"{at()}/messages")).json["messages"]) == 3
        text = (await rig.get("/metrics")).text
        assert "posthouse_pulled_messages_total 3.0" in text
        assert "posthouse_pulled_again_total 1.0" in text
        assert "posthouse_pulls_running 1.0" in text
        assert (await rig.ask("DELETE", f"{PULLS}/1")).status == 409
        assert (await rig.post(f"{PULLS}/1/end", {"epoch": epoch})).status == 200
        assert (await rig.ask("DELETE", f"{PULLS}/1")).status == 200
        assert (await rig.get(PULLS)).json["pulls"] == []

    with_api(tmp_path, work)


def test_a_second_run_and_a_run_of_old_are_refused(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        epoch = (await begin(rig)).json["epoch"]
        second = await begin(rig)
        assert (second.status, "another run" in second.text) == (409, True)
        assert (await rig.post(f"{PULLS}/1/end", {"epoch": epoch})).status == 200
        assert (await begin(rig)).json["epoch"] == epoch + 1
        old = await offer(rig, epoch, 1)
        assert old.status >= 400
        assert "another run of pull 1 has begun" in old.text

    with_api(tmp_path, work)


def test_only_administrators_bring_in_messages_of_others(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        body = {"guid": format_guid(GUID), "source": SOURCE, "queue": ORDERS}
        for token in (rig.tokens["operate"], await rig.user("eve")):
            assert (await rig.post(PULLS, body, token=token)).status == 403
            assert (await rig.get(PULLS, token=token)).status == 403

    with_api(tmp_path, work)


def test_a_message_of_any_size_comes_in_and_no_other_thing(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        epoch = (await begin(rig)).json["epoch"]
        assert (await offer(rig, epoch, 1, size=3 << 20)).json["taken"] == 1
        wrong = {"lookup_id": 2, "packet": b64encode(b"nonsense").decode()}
        reply = await offer(rig, epoch, messages=[wrong])
        assert reply.json["refused"][0]["lookup_id"] == 2
        assert "not a message" in reply.json["refused"][0]["error"]["cause"]
        for bad in (-1, 1 << 63):
            offered = wrong | {"lookup_id": bad}
            assert (await offer(rig, epoch, messages=[offered])).status == 400
        assert (await begin(rig, guid="x")).status == 400
        assert (await begin(rig, source="a\x00b")).status == 422

    with_api(tmp_path, work)
