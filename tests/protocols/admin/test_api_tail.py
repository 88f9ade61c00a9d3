"""Messages as they arrive, over the API: shown, not taken, within bounds and rights."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from posthouse.model.roles import Role
from posthouse.protocols.handlers.recent_lines import (
    BYTES_MAX,
    LINES_MAX,
    TEXT_MAX,
    RecentLines,
)
from posthouse.protocols.handlers.scan_limits import TAILS_MAX
from tests.protocols.admin.api_rig import ORDERS, ApiRig, at, with_api

TAIL = at() + "/tail"
LOG = "/api/v1/log"


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


# -- the event log


def written(rig: ApiRig, *lines: tuple[str, str]) -> None:
    for level, event in lines:
        rig.admin.services.log.add("2026-11-18T12:00:00.000Z", level, event, "a=1")


async def log(rig: ApiRig, **query: Any) -> Any:
    reply = await rig.get(LOG, **query)
    assert reply.status == 200, reply.text
    return reply.json


def test_lines_of_the_log_are_shown_as_they_are_written(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        assert await log(rig) == {"lines": [], "after": 0, "left_out": 0}
        written(rig, ("info", "started"), ("warning", "full"))
        begun = await log(rig, limit=1)
        assert [one["event"] for one in begun["lines"]] == ["full"]
        assert begun["after"] == 2
        waiting = asyncio.create_task(log(rig, after=2, wait_ms=20_000, level="warning"))
        await rig.desk.call(lambda m: None)
        written(rig, ("info", "left out"), ("error", "failed"))
        found = await waiting
        assert [(one["number"], one["event"]) for one in found["lines"]] == [(4, "failed")]
        assert found["after"] == 4
        short = await log(rig, after=0, limit=3)
        assert [one["number"] for one in short["lines"]] == [1, 2, 3]
        assert short["after"] == 3
        quiet = await log(rig, after=3, level="error")
        assert (len(quiet["lines"]), quiet["after"]) == (1, 4)
        assert (await log(rig, after=4, wait_ms=100))["after"] == 4
        restarted = await log(rig, after=99)  # numbers begin again with a restart
        assert (len(restarted["lines"]), restarted["after"]) == (4, 4)
        assert (await rig.get(LOG, level="all")).status == 400

    with_api(tmp_path, work)


def test_the_log_is_for_administrators_and_few_wait_for_it(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        for token in (rig.tokens["operate"], await rig.user("bob", role=Role.ADMINISTER)):
            assert (await rig.get(LOG, token=token)).status == 403
        waits = {"after": 0, "wait_ms": 20_000}
        waiting = [asyncio.create_task(rig.get(LOG, **waits)) for _ in range(TAILS_MAX)]
        running = rig.admin.services.tails._running
        while running.total() < TAILS_MAX:
            await rig.desk.call(lambda m: None)
        assert (await rig.get(LOG, **waits)).status == 429
        written(rig, ("info", "at last"))
        assert [len((await one).json["lines"]) for one in waiting] == [1] * TAILS_MAX

    with_api(tmp_path, work)


def test_few_lines_of_the_log_are_kept_and_none_is_long() -> None:
    recent = RecentLines()
    for number in range(LINES_MAX + 10):
        recent.add("", "info", str(number), "x" * 9_000 if number % 2 else "")
    kept = recent.after(0, "debug", LINES_MAX)
    assert len(kept) < LINES_MAX
    assert sum(len(one.text) for one in kept) <= BYTES_MAX // 4
    assert max(len(one.text) for one in kept) == TEXT_MAX + 3
    assert [kept[0].number, kept[-1].number] == [recent.oldest, recent.newest]
    for number in range(LINES_MAX + 10):
        recent.add("", "info", str(number), "")
    assert len(recent.after(0, "debug", 2 * LINES_MAX)) == LINES_MAX


def test_lines_that_are_gone_are_counted(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        written(rig, *[("info", "x")] * (LINES_MAX + 5))
        found = await log(rig, after=2, limit=1)
        assert (found["left_out"], found["lines"][0]["number"]) == (3, 6)
        assert (await log(rig, after=5, limit=1))["left_out"] == 0

    with_api(tmp_path, work)
