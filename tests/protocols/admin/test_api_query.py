"""Statements of SQL over the API: what they read, for whom, and what they must not."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from posthouse.model.roles import Role
from posthouse.protocols.http.authentication import ApiIdentity
from posthouse.protocols.http.query_runs import SOCKET, QueryDoor, QueryRuns
from posthouse.protocols.http.settings import AdminSettings
from posthouse.security.access import Caller
from posthouse.spark.queries.served import Asked, answered
from tests.protocols.admin.api_rig import AUDIT, ApiRig, at, with_api
from tests.spark.sql_attacks import ATTACKS, DUCK_ATTACKS, SECRET, spelled
from tests.support.loop_server import until

PRODUCT = "queues.orders a0 " + " ".join(
    f"join queues.orders a{number} on a{number}.priority = a0.priority" for number in range(1, 5)
)
# 780 million rows, which go by and are not kept.
ENDLESS = f"select max(upper(concat(a0.id, a1.id, a2.id, a3.id, a4.id))) as x from {PRODUCT}"


def with_queries(
    folder: Path,
    work: Callable[[ApiRig], Awaitable[None]],
    settings: AdminSettings | None = None,
) -> None:
    async def main(rig: ApiRig) -> None:
        rig.admin.services.query = QueryRuns(rig.admin, None).run
        await rig.create()
        for number in range(60):
            await rig.send(label=f"order {number % 3}", body_text=f"body {number}", priority=4)
        await work(rig)

    with_api(folder, main, settings=settings)


def children() -> set[str]:
    """The processes that this one has started."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


async def sql(rig: ApiRig, statement: str, **more: Any) -> Any:
    token = {"token": more.pop("token")} if "token" in more else {}
    return await rig.post("/api/v1/sql", {"statement": statement, **more}, **token)


def test_a_statement_reads_what_its_user_may_read(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        count = "SELECT label, count(*) AS n FROM queues.orders GROUP BY label ORDER BY label"
        found = (await sql(rig, count)).json
        assert found["rows"] == [[f"order {number}", 20] for number in range(3)]
        assert [one["kind"] for one in found["columns"]] == ["text", "number"]
        assert not found["more"]
        few = (await sql(rig, "SELECT label FROM queues.orders", rows=2)).json
        assert (len(few["rows"]), few["more"]) == (2, True)
        await rig.create(AUDIT)
        bob = await rig.user("bob")
        await rig.post(
            at(AUDIT) + "/access/grant", {"who": "bob", "rights": ["peek", "get-properties"]}
        )
        allowed = await sql(rig, "SELECT label FROM queues.audit", token=bob)
        assert allowed.status == 200, allowed.text
        assert allowed.json["rows"] == []
        refused = await sql(rig, count, token=bob)
        assert refused.status == 422, refused.text
        assert "order 0" not in refused.text
        tables = (await sql(rig, "SHOW TABLES", token=bob)).json["rows"]
        named = [row[1] for row in tables if row[0] == "queues"]
        assert named == ["audit"]
        look = await rig.token(role=Role.LOOK)
        assert (await sql(rig, "SELECT body FROM queues.orders", token=look)).status == 403
        assert (await sql(rig, "SELECT * FROM queues.orders LIMIT 1", rows=0)).status == 400

    with_queries(tmp_path, work)


def test_folders_of_a_queue_manager_that_was_killed_go_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a living one stay, and what only has such a name."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, living, link, file, of_another = (
        tmp_path / f"posthouse-query-{name}" for name in ("left", "living", "link", "file", "other")
    )
    elsewhere = tmp_path / "elsewhere"
    for folder in (left, living, elsewhere, of_another):
        folder.mkdir(mode=0o700)
        (folder / SOCKET).touch()
    link.symlink_to(elsewhere)
    file.touch()
    owner, holder = os.fstat, os.open(living, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    other = of_another.stat().st_ino

    def owners(descriptor: int) -> os.stat_result:
        found = owner(descriptor)
        if found.st_ino != other:
            return found
        return os.stat_result([*found[:4], found.st_uid + 1, *found[5:]])

    async def work(rig: ApiRig) -> None:
        assert not left.exists()
        found = {one.name.rpartition("-")[2] for one in tmp_path.glob("posthouse-query-*")}
        assert found == {"living", "link", "file", "other"}
        assert (elsewhere / SOCKET).exists()
        os.close(holder)
        running = asyncio.create_task(sql(rig, "SELECT count(*) FROM queues.orders"))
        await until(lambda: len([*tmp_path.glob("posthouse-query-*")]) == 5)
        QueryRuns(rig.admin, None)  # another one starts: the folder in use stays
        assert len([*tmp_path.glob("posthouse-query-*")]) == 4
        assert (await running).json["rows"] == [[60]]
        assert len([*tmp_path.glob("posthouse-query-*")]) == 3

    monkeypatch.setattr(os, "fstat", owners)
    with_queries(tmp_path / "rig", work)


def test_masked_queues_are_not_read(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        read = await rig.token(role=Role.READ)
        refused = await sql(rig, "SELECT body FROM queues.orders", token=read)
        assert refused.status == 422
        assert "masks" in refused.json["error"]["cause"]
        assert (await sql(rig, "SELECT count(*) FROM queues.orders")).json["rows"] == [[60]]

    settings = AdminSettings(masks=(r"read .\private$\orders $.card",))
    with_queries(tmp_path, work, settings)


def test_an_endless_query_is_ended_in_time(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        ended = await sql(rig, ENDLESS)
        assert "was ended after 2 s" in ended.json["error"]["cause"], ended.text
        assert not rig.admin.services.queries._running
        again = await sql(rig, "SELECT 1 AS one")
        assert again.status == 200 or "was ended" in again.text  # a busy machine

    with_queries(tmp_path, work, AdminSettings(query_time_s=2))


def test_a_query_ends_when_its_caller_leaves_and_few_run_at_a_time(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        others = [await rig.user(name, administrator=True) for name in ("bob", "eve", "joe")]
        running = rig.admin.services.queries._running
        before = children()  # a browser and Spark's Java belong to other tests of this worker

        async def endless(token: str) -> None:
            headers = {"Authorization": f"Bearer {token}"}
            async with aiohttp.ClientSession(headers=headers) as client:
                await client.post(f"{rig.url}/api/v1/sql", json={"statement": ENDLESS})

        tasks = [asyncio.create_task(endless(token)) for token in others[:2]]
        await until(lambda: running.total() == 2 and len(children() - before) >= 2)
        full = await sql(rig, "SELECT 1 AS one", token=others[2])
        assert (full.status, "queries_max" in full.text) == (429, True)
        own = await sql(rig, "SELECT 1 AS one", token=others[0])
        assert (own.status, "in progress" in own.text) == (429, True)
        for task in tasks:
            task.cancel()
        await until(lambda: not running and not children() - before)

    with_queries(tmp_path, work, AdminSettings(query_time_s=600))


@pytest.mark.parametrize("change", ["revoked", "expired", "disabled"])
def test_a_query_ends_with_the_rights_of_its_caller(change: str, tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.user("bob", administrator=True)
        before = children()  # a browser and Spark's Java belong to other tests of this worker
        soon = (datetime.now(UTC) + timedelta(seconds=4)).strftime("%Y-%m-%dT%H:%M:%SZ")
        asked = {"user": "bob", "role": "read", "expires": soon if change == "expired" else None}
        made = (await rig.post("/api/v1/tokens", asked)).json
        running = asyncio.create_task(sql(rig, ENDLESS, token=made["token"]))
        await until(lambda: running.done() or bool(children() - before))
        if change == "revoked":
            await rig.ask("DELETE", f"/api/v1/tokens/{made['info']['id']}")
        elif change == "disabled":
            await rig.ask("PATCH", "/api/v1/users/bob", {"disabled": True})
        async with asyncio.timeout(30):
            assert (await running).status >= 400
        assert not rig.admin.services.queries._running
        assert not children() - before

    with_queries(tmp_path, work, AdminSettings(query_time_s=600))


def test_a_query_has_bounded_memory(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        large = (
            "select concat(a0.id, a1.id, a2.id, a3.id) as x, count(*) as n "
            f"from {PRODUCT} group by concat(a0.id, a1.id, a2.id, a3.id)"
        )
        refused = await sql(rig, large)
        assert refused.status >= 400
        assert "memory" in refused.json["error"]["cause"], refused.text

    with_queries(tmp_path, work, AdminSettings(query_memory=64 << 20, query_time_s=200))


def test_every_attack_is_refused_by_this_door_too(tmp_path: Path) -> None:
    """In this process, which is as far as a statement gets; three in one of their own."""
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET)
    attacks = [spelled(one, secret) for one in (*ATTACKS, *DUCK_ATTACKS)]

    async def work(rig: ApiRig) -> None:
        identity = ApiIdentity(Caller.administrator(), Role.ADMINISTER)
        door = QueryDoor(rig.admin, identity)
        door.start(tmp_path / SOCKET)
        try:
            for attack in attacks:
                asked = Asked(str(tmp_path / SOCKET), attack, 10, 1 << 30)
                found = await asyncio.to_thread(answered, asked)
                assert "error" in found, (attack, found)
                assert SECRET not in str(found)
        finally:
            await door.stop(0.0)
        for attack in [*attacks[:2], spelled("select * from read_text('{secret}')", secret)]:
            refused = await sql(rig, attack)
            assert refused.status == 422, refused.text

    with_queries(tmp_path, work)


def test_a_missing_package_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    error = answered(Asked("/nowhere", "SELECT 1", 1, 1 << 30))["error"]
    assert (error["kind"], error["cause"]) == ("missing", "this queue manager has no duckdb")
    assert "pip install" in error["remedy"]
