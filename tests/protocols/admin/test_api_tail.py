"""Messages as they arrive, over the API: shown, not taken, within bounds and rights."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from posthouse.model.roles import Role
from posthouse.protocols.handlers.scan_limits import TAILS_MAX
from tests.protocols.admin.api_rig import ORDERS, ApiRig, at, with_api

TAIL = at() + "/tail"


async def tail(rig: ApiRig, **query: Any) -> Any:
    reply = await rig.get(TAIL, **query)
    assert reply.status == 200, reply.text
    return reply.json


def test_messages_are_shown_as_they_arrive_and_stay(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send(label="old")
        begun = await tail(rig)
        assert begun["messages"] == []
        waiting = asyncio.create_task(tail(rig, after=begun["after"], wait_ms=20_000))
        await rig.send(label="first", priority=1)
        first = await waiting
        await rig.send(label="urgent", priority=7)
        await rig.send(label="late", priority=0)
        more = await tail(rig, after=first["after"])
        found = [one["label"] for page in (first, more) for one in page["messages"]]
        assert found == ["first", "urgent", "late"]  # in the order of arrival
        short = await tail(rig, after=begun["after"], limit=1)
        assert [one["label"] for one in short["messages"]] == ["first"]
        assert short["after"] < more["after"]
        assert len(await rig.labels()) == 4
        assert (await tail(rig, after=more["after"]))["after"] == more["after"]
        assert (await rig.get(TAIL, wait_ms=60_000)).status == 400

    with_api(tmp_path, work)


def test_a_tail_shows_what_its_role_shows(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send(label="sealed", body_text="the secret")
        look = await rig.token(role=Role.LOOK)
        seen = await tail(rig, after=0, token=look)
        assert [(one["label"], one["body"]) for one in seen["messages"]] == [("sealed", None)]
        assert (await rig.get(TAIL, after=0, bodies="true", token=look)).status == 403
        assert (await tail(rig, after=0))["messages"][0]["body_text"] == "the secret"
        bob = await rig.user("bob")
        assert (await rig.get(TAIL, token=bob)).status == 403

    with_api(tmp_path, work)


def test_a_tail_ends_with_the_rights_and_few_are_open(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        bob = await rig.user("bob")
        await rig.post(at() + "/access/grant", {"who": "bob", "rights": ["peek"]})
        query = {"after": 0, "wait_ms": 20_000, "token": bob}
        waiting = [asyncio.create_task(rig.get(TAIL, **query)) for _ in range(TAILS_MAX)]
        running = rig.admin.services.tails._running
        while running.total() < TAILS_MAX:
            await rig.desk.call(lambda m: None)
        full = await rig.get(TAIL, after=0, token=bob)
        assert (full.status, "4 tails in progress" in full.text) == (429, True)
        await rig.post(at() + "/access/revoke", {"who": "bob"})
        assert [(await one).status for one in waiting] == [403] * TAILS_MAX
        assert not running
        assert await rig.labels(ORDERS) == []

    with_api(tmp_path, work)
