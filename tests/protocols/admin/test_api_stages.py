"""Stages over HTTP: Arrow in, durable and unseen, published as one commit."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from posthouse.api.route import ARROW
from posthouse.model.roles import Role
from posthouse.protocols.arrow.stages import rows as stage_rows
from posthouse.protocols.http import memory_reservations
from posthouse.protocols.http.request_streams import FIRST_LOOK, UPLOAD_BYTES
from posthouse.protocols.http.settings import AdminSettings
from posthouse.protocols.memory import RECEIVE, SEND, UPLOADS, Holder
from posthouse.wire.packet.message import deserialize
from tests.engine.settings import engine_settings
from tests.protocols.admin.api_rig import ORDERS, ApiRig, Reply, at, with_api
from tests.protocols.admin.stage_tables import stream, table

LEDGER = r".\private$\ledger"
KEY = "/api/v1/stages/query%20one/0/0/0"
QUERY = "query one"
ROWS = [{"body": b"body %d" % n, "label": f"label {n}"} for n in range(20)]


async def put(
    rig: ApiRig,
    data: Any,
    path: str = KEY,
    queue: str = ORDERS,
    content: str = "",
    **options: Any,
) -> Reply:
    if queue:
        path += f"?queue={quote(queue, safe='')}"
    path += f"&content={content}" if content else ""
    headers = {"Content-Type": ARROW, **options.pop("headers", {})}
    return await rig.ask("PUT", path, raw=data, headers=headers, **options)


async def publish(
    rig: ApiRig, batch: int = 0, *stages: tuple[int, int], content: str = "", **options: Any
) -> Reply:
    body = {"query": QUERY, "batch": batch, "stages": [list(one) for one in stages]}
    body["content"] = content
    return await rig.post("/api/v1/publish", body, **options)


def cause(reply: Reply) -> str:
    return str(reply.json["error"]["cause"])


async def settled(rig: ApiRig) -> None:
    """Nothing is left: no upload, no pending message, no memory on the account."""
    async with asyncio.timeout(10):
        while rig.desk.manager.stages.uploads or rig.admin.memory.held:
            await rig.run(lambda manager: None)
    stages = rig.desk.manager.stages
    pending = sum(stage.messages for stage in stages.stages.values())
    assert len(rig.desk.manager.ledger.state.pending) == pending


def test_rows_are_staged_and_published(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.create(LEDGER, transactional=True)
        rows = [{**row, "destination": LEDGER if n % 2 else None} for n, row in enumerate(ROWS)]
        staged = await put(rig, stream(table(rows[:7]), table(rows[7:])))
        assert (staged.status, staged.json["messages"], staged.json["already"]) == (200, 20, False)
        assert staged.json["bytes"] > 20 * 100
        assert await rig.labels() == []
        done = await publish(rig, 0, (0, 0))
        assert (done.status, done.json) == (200, {"messages": 20, "already": False})
        assert await rig.labels() == [row["label"] for row in ROWS[0::2]]
        found = (await rig.get(f"{at(LEDGER)}/messages")).json["messages"]
        assert [one["delivery"] for one in found] == ["transactional"] * 10
        assert [one["transaction"]["first"] for one in found] == [True, *[False] * 9]
        assert len({one["transaction"]["id"] for one in found}) == 1
        again = await publish(rig, 0, (0, 0))
        assert again.json == {"messages": 20, "already": True}
        await settled(rig)

    with_api(tmp_path, work)


def test_rows_that_are_sent_in_different_ways_arrive_in_their_order(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        rows = [
            {
                **row,
                "response_queue": (ORDERS, LEDGER)[n % 2],
                "journal": ["positive"] if n % 3 == 0 else None,
                "time_to_be_received": 3600 + n % 4,
            }
            for n, row in enumerate(ROWS)
        ]
        assert (await put(rig, stream(table(rows[:7]), table(rows[7:])))).status == 200
        await publish(rig, 0, (0, 0))
        assert await rig.labels() == [row["label"] for row in ROWS]

    with_api(tmp_path, work)


def test_a_published_batch_takes_no_more_stages(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await publish(rig, 0, content="offsets")
        staged = await put(rig, stream(table(ROWS)), content="offsets")
        assert staged.json == {"messages": 0, "bytes": 0, "already": True}
        refused = await put(rig, stream(table(ROWS)), content="others")
        assert refused.json["error"]["name"] == "MQ_ERROR_TRANSACTION_SEQUENCE"
        await settled(rig)
        assert not rig.desk.manager.stages.stages

    with_api(tmp_path, work)


def test_stages_are_shown_and_discarded(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await put(rig, stream(table(ROWS)))
        (shown,) = (await rig.get("/api/v1/stages")).json["stages"]
        assert (shown["query"], shown["batch"], shown["messages"]) == (QUERY, 0, 20)
        assert shown["expires_time"] > shown["created_time"]
        eve = await rig.user("eve")
        assert (await rig.get("/api/v1/stages", token=eve)).json["stages"] == []
        assert (await rig.get("/api/v1/queries/query%20one", token=eve)).status == 403
        assert (await publish(rig, 0, (0, 0), token=eve)).status == 403
        missing = await publish(rig, 0, (0, 0), (1, 0))
        assert (missing.status, "partition 1" in cause(missing)) == (409, True)
        progress = (await rig.get("/api/v1/queries/query%20one")).json
        assert (progress["batch"], progress["stages"]) == (None, 1)
        gone = await rig.ask("DELETE", "/api/v1/stages/query%20one/0")
        assert gone.json == {"stages": 1}
        await publish(rig, 5)
        progress = (await rig.get("/api/v1/queries/query%20one")).json
        assert (progress["batch"], progress["messages"]) == (5, 0)
        assert (await rig.ask("DELETE", "/api/v1/queries/query%20one")).json == {"done": True}
        assert (await publish(rig, 0)).json == {"messages": 0, "already": False}

    with_api(tmp_path, work)


def test_a_bad_row_refuses_the_stage_with_its_place(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        rows = [dict(row, priority=3) for row in ROWS]
        rows[13]["priority"] = 9
        refused = await put(rig, stream(table(rows[:10]), table(rows[10:])))
        error = refused.json["error"]
        assert (refused.status, error["row"], error["column"]) == (400, 13, "priority")
        assert error["name"] == "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"
        nowhere = [dict(row, destination=r".\private$\nowhere") for row in ROWS]
        refused = await put(rig, stream(table(nowhere)))
        error = refused.json["error"]
        assert (error["row"], error["column"]) == (0, "destination")
        assert error["name"] == "MQ_ERROR_QUEUE_NOT_FOUND"
        await settled(rig)
        assert len(rig.desk.manager.ledger.state.table) == 0
        missing = await publish(rig, 0, (0, 0))
        assert (missing.status, "row" in missing.json["error"]) == (409, False)

    with_api(tmp_path, work)


def test_rights_and_roles_hold(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        eve = await rig.user("eve", role=Role.OPERATE)
        path = f"{at()}/access/deny"
        await rig.post(path, {"who": "eve", "rights": ["send"]})
        data = stream(table(ROWS))
        assert (await put(rig, data, token=rig.tokens["read"])).status == 403
        refused = await put(rig, data, token=eve)
        assert (refused.status, refused.json["error"]["column"]) == (400, "destination")
        assert refused.json["error"]["name"] == "MQ_ERROR_ACCESS_DENIED"
        assert (await put(rig, data, token=None)).status == 401
        answers = [dict(row, acknowledge=["pos-arrival"], admin_queue=ORDERS) for row in ROWS]
        await rig.create(LEDGER)
        refused = await put(rig, stream(table(answers)), queue=LEDGER, token=eve)
        assert refused.json["error"]["column"] == "admin_queue"
        await settled(rig)

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        (lambda data: data[:-8], 400, "before its end"),
        (lambda data: data[: len(data) // 2], 400, "before its end"),
        (lambda data: b"", 400, "before its end"),
        (lambda data: data + b"more", 400, "after the end"),
        (lambda data: b"\0" * 100, 400, "IPC stream"),
        (lambda data: data[:-8] + data, 400, "second schema"),
        (lambda data: b"\xff\xff\xff\xff\0\0\0\0", 400, "no schema"),
    ],
)
def test_bodies_that_are_no_stream_leave_nothing(
    tmp_path: Path, change: Any, status: int, words: str
) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        refused = await put(rig, change(stream(table(ROWS[:10]), table(ROWS[10:]))))
        assert (refused.status, words in cause(refused)) == (status, True), refused
        await settled(rig)
        assert len(rig.desk.manager.ledger.state.table) == 0
        assert (await put(rig, stream(table(ROWS)))).status == 200

    with_api(tmp_path, work)


def test_a_batch_in_front_of_its_schema_is_refused(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        batch = table(ROWS).serialize().to_pybytes()
        refused = await put(rig, batch + b"\xff\xff\xff\xff\0\0\0\0")
        assert "begin with its schema" in cause(refused)

    with_api(tmp_path, work)


def test_a_column_whose_name_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        refused = await put(rig, stream(table(ROWS)).replace(b"label\0", b"lab\xff\xfe\0"))
        assert (refused.status, "no sound schema" in cause(refused)) == (400, True)
        assert not rig.faults

    with_api(tmp_path, work)


def test_content_of_another_type_is_refused(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        data = stream(table(ROWS))
        refused = await put(rig, data, headers={"Content-Type": "application/json"})
        assert (refused.status, ARROW in cause(refused)) == (415, True)
        refused = await put(rig, data, headers={"Content-Encoding": "gzip"})
        assert refused.status == 415
        assert (await put(rig, data, "/api/v1/stages/q/-1/0/0")).status == 400
        assert (await rig.post(KEY)).status == 405
        for method in ("POST", "PATCH", "GET"):
            refused = await rig.ask(method, KEY, raw=data, headers={"Content-Type": ARROW})
            assert (refused.status, refused.headers["Allow"]) == (405, "PUT")

    with_api(tmp_path, work)


def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    """Its sender is gone in the middle of a stream of which some is in the log already."""

    async def work(rig: ApiRig) -> None:
        await rig.create()
        data = stream(table(ROWS[:10]), table(ROWS[10:]))
        begun = asyncio.Event()

        async def pieces() -> AsyncIterator[bytes]:
            yield data[:-300]
            begun.set()
            await asyncio.Event().wait()

        sending = asyncio.ensure_future(put(rig, pieces()))
        await begun.wait()
        async with asyncio.timeout(10):
            while len(rig.desk.manager.ledger.state.pending) < 10:
                await rig.run(lambda manager: None)
        sending.cancel()
        await asyncio.wait([sending])
        await settled(rig)
        assert len(rig.desk.manager.ledger.state.table) == 0

    with_api(tmp_path, work)


def test_a_body_that_does_not_come_is_refused(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()

        begun = stream(table(ROWS))[:400]
        head = (
            f"PUT {KEY} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {ARROW}\r\n"
            f"Authorization: Bearer {rig.tokens['administer']}\r\nContent-Length: 4000\r\n\r\n"
        )
        await rig.raw(head.encode() + begun, until=b"did not arrive in time")
        await settled(rig)

    with_api(tmp_path, work, settings=AdminSettings(body_timeout_s=0.2))


def test_many_portions_and_writers_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_rows, "PORTION_ROWS", 7)

    async def work(rig: ApiRig) -> None:
        await rig.create()

        async def write(partition: int) -> None:
            rows = [{"body": b"%d %04d" % (partition, n)} for n in range(300)]
            batches = [table(rows[at : at + 50]) for at in range(0, 300, 50)]
            staged = await put(rig, stream(*batches), f"/api/v1/stages/query%20one/0/{partition}/5")
            assert staged.json["messages"] == 300

        await asyncio.gather(*map(write, range(4)))
        assert (await publish(rig, 0, *[(n, 5) for n in range(4)])).json["messages"] == 1200
        packets = await rig.run(lambda m: bodies_of(m))
        assert packets == [b"%d %04d" % (p, n) for p in range(4) for n in range(300)]
        await settled(rig)

    with_api(tmp_path, work)


def bodies_of(manager: Any) -> list[bytes]:
    queue = manager.queues.all()
    (orders,) = [one for one in queue if one.name.endswith("orders")]
    numbers = [number for _, number in orders.state.order.forward()]
    return [deserialize(manager.messages.packet(number)).body for number in numbers]


def test_a_full_queue_refuses_a_stage_and_keeps_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_rows, "PORTION_ROWS", 5)

    async def work(rig: ApiRig) -> None:
        await rig.create(quota_kib=2)
        refused = await put(rig, stream(table(ROWS)))
        assert refused.status == 507
        await settled(rig)
        assert rig.desk.manager.ledger.reserved == 0

    with_api(tmp_path, work)


def test_an_upload_waits_for_memory_and_gives_up_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_reservations, "ROOM_WAIT_S", 0.1)

    async def work(rig: ApiRig) -> None:
        await rig.create()
        rows, memory = [{"body": bytes(2_000_000)}] * 3, rig.admin.memory
        other = memory.open("127.0.0.1", lambda reason: None, lambda: None)
        other.take(RECEIVE, memory.limit // 2 + 1)
        refused = await put(rig, stream(table(rows)))
        assert (refused.status, "memory" in cause(refused)) == (507, True)
        other.leave()
        assert (await put(rig, stream(table(rows)))).json["messages"] == 3
        await settled(rig)

    with_api(tmp_path, work)


def test_an_upload_that_waits_for_memory_holds_little_and_is_woken(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        rows, memory = [{"body": bytes(2_000_000)}] * 3, rig.admin.memory
        other = memory.open("elsewhere", lambda reason: None, lambda: None)
        other.take(SEND, memory.limit // 2 - (1 << 20))
        assert other.may_begin(500_000, 0)
        upload: asyncio.Future[Any] = asyncio.ensure_future(put(rig, stream(table(rows))))
        while not memory.delayed:
            await rig.run(lambda manager: None)
        (waiting,) = (one for of in memory._waiting.values() for one in of)
        asked, may_begin = list[int](), memory.has_room_for

        def noted(holder: Holder, size: int) -> bool:
            asked.append(size)
            return may_begin(holder, size)

        memory.has_room_for = noted  # type: ignore[method-assign]
        for _ in range(200):
            await rig.run(lambda manager: None)
        assert asked == []  # it does not ask again and again
        assert 0 < memory.bytes[RECEIVE] <= FIRST_LOOK
        assert memory.bytes[UPLOADS] == UPLOAD_BYTES
        assert waiting.wanted > 6_000_000
        other.leave()
        assert (await upload).json["messages"] == 3
        assert len(asked) >= 1
        await settled(rig)

    with_api(tmp_path, work)


def test_more_uploads_than_there_is_memory_for_are_refused_at_once(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        memory = rig.admin.memory
        other = memory.open("elsewhere", lambda reason: None, lambda: None)
        other.take(SEND, memory.limit // 2 - UPLOAD_BYTES // 2)
        refused = await put(rig, stream(table(ROWS)))
        assert (refused.status, "memory" in cause(refused)) == (507, True)
        other.leave()
        assert (await put(rig, stream(table(ROWS)))).status == 200
        await settled(rig)

    with_api(tmp_path, work)


def test_stages_expire_by_the_clock(tmp_path: Path) -> None:
    now = [1_000_000, 1_700_000_000]

    async def work(rig: ApiRig) -> None:
        await rig.create()
        await put(rig, stream(table(ROWS)))
        now[0] += 61_000
        now[1] += 61
        assert (await publish(rig, 0, (0, 0))).status == 409
        assert (await rig.get("/api/v1/stages")).json["stages"] == []

    engine = engine_settings("ALPHA", stage_expiry_s=60)
    with_api(tmp_path, work, engine=engine, clock=lambda: (now[0], now[1]))


def test_without_pyarrow_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        data = stream(table(ROWS))
        name = "posthouse.protocols.arrow.stages.rows"
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.delattr("posthouse.protocols.arrow.stages.rows", raising=False)
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        refused = await put(rig, data)
        assert refused.status == 501
        assert refused.json["error"]["remedy"].endswith("[spark]'")

    with_api(tmp_path, work)


def test_metrics_count_stages_and_batches(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await put(rig, stream(table(ROWS)))
        text = (await rig.get("/metrics")).text
        assert "posthouse_stages 1.0" in text
        assert "posthouse_staged_messages 20.0" in text
        await publish(rig, 0, (0, 0))
        text = (await rig.get("/metrics")).text
        assert "posthouse_staged_bytes 0.0" in text
        assert "posthouse_published_batches_total 1.0" in text
        assert "posthouse_published_messages_total 20.0" in text

    with_api(tmp_path, work)


def test_a_session_cannot_carry_a_stream(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        answers: list[tuple[int, bytes]] = []
        caller = rig.desk.manager.ledger.system
        rig.admin.api.call(
            caller, Role.ADMINISTER, "PUT", KEY, b"", lambda *answer: answers.append(answer)
        )
        assert answers[0][0] == 501

    with_api(tmp_path, work)


def test_empty_streams_and_nulls_are_stages_too(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        staged = await put(rig, stream(table([], "body")))
        assert staged.json == {"messages": 0, "bytes": 0, "already": False}
        assert (await publish(rig, 0, (0, 0))).json == {"messages": 0, "already": False}

    with_api(tmp_path, work)
