"""Queues as Arrow streams over HTTP: what is in them, for whom, and how they end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from posthouse.api.sends import SendBody
from posthouse.client.admin_http import BulkHttp, segment
from posthouse.client.arrow_read import read
from posthouse.client.errors import SessionLost
from posthouse.engine.manager import QueueManager
from posthouse.model.errors import AccessDenied, InvalidParameter, MessageStorageFailed, QueueError
from posthouse.model.extras import install
from posthouse.model.message import Message
from posthouse.model.message_json import MessageJson
from posthouse.model.names import parse_name
from posthouse.model.properties import QueueAccessType
from posthouse.model.roles import Role
from posthouse.protocols.arrow import read as arrow_read
from posthouse.protocols.handlers.message_json import message_of
from posthouse.protocols.handlers.messages import begin
from posthouse.protocols.http.answer_streams import Streaming
from posthouse.protocols.memory import Buffer
from posthouse.security.access import Caller
from posthouse.store.log import LogStore
from tests.protocols.admin.api_rig import AUDIT, ORDERS, ApiRig, at, with_api
from tests.protocols.admin.arrow_rows import ALL, row_of

T = TypeVar("T")
EVERYTHING = ",".join(column.name for column in ALL)
CONNECTOR = "6cd0b3e1-6f61-4d24-8a5c-0d2d3a4a1f11"
DEAD = r".\system$;deadletter"


async def beside(call: Callable[[], T]) -> T:
    """What a client does, in a thread of its own."""
    return await asyncio.to_thread(call)


def rows_of(
    rig: ApiRig, queue: str = ORDERS, token: str = "", **query: Any
) -> list[dict[str, Any]]:
    query.setdefault("columns", EVERYTHING)
    words = "&".join(f"{name}={value}" for name, value in query.items())
    with BulkHttp(rig.url, token=token or rig.tokens["read"]) as http:
        batches = list(http.read_arrow(f"/queues/{segment(queue)}/arrow?{words}"))
    return [row for batch in batches for row in batch.to_pylist()]


async def arrow(rig: ApiRig, queue: str = ORDERS, **query: Any) -> list[dict[str, Any]]:
    return await beside(lambda: rows_of(rig, queue, **query))


async def shown(rig: ApiRig, queue: str, lookup_id: int) -> dict[str, Any]:
    """The same row, of the message's JSON."""
    reply = await rig.get(f"{at(queue)}/messages/{lookup_id}")
    assert reply.status == 200, reply
    return row_of(msgspec.convert(reply.json, MessageJson))


async def check(rig: ApiRig, queue: str, count: int) -> list[dict[str, Any]]:
    rows = await arrow(rig, queue)
    assert len(rows) == count
    ids = [row["lookup_id"] for row in rows]
    assert ids == sorted(ids)
    for row in rows:
        assert row == await shown(rig, queue, row["lookup_id"])
    return rows


def test_rows_are_what_the_json_says_of_the_same_messages(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create(journaling=True)
        await rig.create(AUDIT, transactional=True)
        for number in range(30):
            await rig.send(
                label=f"order {number}" if number % 3 else "Größe 名",
                body_text="x" * number,
                priority=number % 8,
                delivery="recoverable" if number % 2 else "express",
                extension=b"\1\2" if number % 5 else b"",
                correlation_id=f"{number:040x}",
                app_specific=number,
                time_to_be_received=None if number % 4 else 86_400,
                acknowledge=["pos-arrival", "neg-receive"] if number % 7 == 0 else [],
                journal=["negative"] if number % 7 == 0 else [],
                admin_queue=AUDIT if number % 7 == 0 else "",
                response_queue=r"other\private$\answers" if number % 11 == 0 else "",
                **({"connector_type": CONNECTOR} if number % 13 == 0 else {}),
            )
            await rig.send(AUDIT, label=f"audit {number}", delivery="transactional")
        await check(rig, ORDERS, 30)
        rows = await check(rig, AUDIT, 30)
        assert all(row["transaction"]["first"] for row in rows)
        assert (await rig.post(f"{at()}/receive", {"count": 9})).status == 200
        await check(rig, ORDERS + ";journal", 9)
        await check(rig, ORDERS, 21)

    with_api(tmp_path, work)


def test_moved_messages_and_dead_letters_are_rows_too(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        for number in range(4):
            await rig.send(label=f"order {number}", delivery="recoverable", journal=["negative"])
        target = ORDERS + ";later"
        body = {"where": 'label = "order 1"', "to": target}
        assert (await rig.post(f"{at()}/move", body)).json["done"] == 1
        assert (await check(rig, target, 1))[0]["move_count"] == 1
        assert (await rig.post(f"{at()}/purge")).status == 200
        rows = await check(rig, DEAD, 3)
        assert {row["class"] for row in rows} == {"nack-queue-purged"}
        assert await arrow(rig) == []

    with_api(tmp_path, work)


async def message_sent(rig: ApiRig, message: Message, queue: str = ORDERS) -> None:
    def send(manager: QueueManager) -> None:
        name = parse_name(queue)
        who = Caller.administrator()
        descriptor = manager.queues.open_queue(name, QueueAccessType.SEND, who)
        manager.messages.enqueue_message_to_an_open_queue(descriptor, message)
        manager.queues.close_queue(descriptor)

    await rig.run(send)


def test_what_somebody_has_locked_is_there(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create(AUDIT, transactional=True)
        for number in range(3):
            await rig.send(AUDIT, label=str(number), delivery="transactional")

        def lock(manager: QueueManager) -> Any:
            who = Caller.administrator()
            descriptor = manager.queues.open_queue(parse_name(AUDIT), QueueAccessType.RECEIVE, who)
            transaction = begin(manager)
            return manager.messages.dequeue_messages(descriptor, 2, transaction), transaction

        _, transaction = await rig.run(lock)
        assert [row["label"] for row in await arrow(rig, AUDIT)] == ["0", "1", "2"]
        await rig.run(
            lambda manager: manager.transactions.transaction_commit(transaction.identifier)
        )
        assert [row["label"] for row in await arrow(rig, AUDIT)] == ["2"]

    with_api(tmp_path, work)


def test_a_range_begins_behind_one_id_and_ends_with_another(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        for number in range(9):
            await rig.send(label=str(number), priority=7 - number % 3)
        rows = await arrow(rig)
        ids = [row["lookup_id"] for row in rows]
        assert [row["label"] for row in rows] == [str(number) for number in range(9)]
        some = await arrow(rig, after=ids[1], through=ids[5], columns="label,lookup_id")
        assert some == [{"label": str(n), "lookup_id": ids[n]} for n in (2, 3, 4, 5)]
        assert await arrow(rig, after=ids[-1]) == []
        assert await arrow(rig, after=ids[3], through=ids[3]) == []

    with_api(tmp_path, work)


def test_batches_are_cut_by_rows_and_by_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_read, "BATCH_ROWS", 600)
    monkeypatch.setattr(arrow_read, "BATCH_BYTES", 20_000)

    async def work(rig: ApiRig) -> None:
        await rig.create()
        sizes = [10] * 20 + [30_000] + [5_000] * 12 + [1] * 700
        message = SendBody()
        for number, size in enumerate(sizes):
            made = message_of(message, "ALPHA")
            made.label, made.body = str(number), bytes(size)
            await message_sent(rig, made)

        def client() -> list[Any]:
            with BulkHttp(rig.url, token=rig.tokens["read"]) as http:
                return list(read(http, ORDERS, 0, 1 << 60, ["label", "body"]))

        batches = await beside(client)
        assert [row["label"] for b in batches for row in b.to_pylist()] == [
            str(number) for number in range(len(sizes))
        ]
        assert [len(row["body"]) for b in batches for row in b.to_pylist()] == sizes
        assert all(b.num_rows == 1 or b.nbytes <= 25_000 for b in batches)
        assert len(batches) >= 8

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    ("columns", "hint"),
    [("labell", "label"), ("body,Queue", "queue"), ("label,label", "twice"), ("%FF", "")],
)
def test_wrong_columns_are_refused(columns: str, hint: str, tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        with pytest.raises(InvalidParameter) as refused:
            await arrow(rig, columns=columns)
        assert hint in str(refused.value)

    with_api(tmp_path, work)


def test_looking_needs_the_right_to_peek(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send(label="1")
        bob = await rig.user("bob", role=Role.READ)
        with pytest.raises(AccessDenied):
            await beside(lambda: rows_of(rig, token=bob))
        grant = {"who": "bob", "rights": ["peek"]}
        assert (await rig.post(f"{at()}/access/grant", grant)).status == 200
        assert len(await beside(lambda: rows_of(rig, token=bob))) == 1
        for name in (r".\private$\nobody", "DIRECT=OS:elsewhere\\private$\\x"):
            with pytest.raises(QueueError):
                await arrow(rig, name)

    with_api(tmp_path, work)


def test_without_pyarrow_the_remedy_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        reply = await rig.get(f"{at()}/arrow")
        assert reply.status == 501
        assert install("spark") in reply.json["error"]["remedy"]

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "posthouse.protocols.arrow.record_batches", raising=False)
    monkeypatch.delattr("posthouse.protocols.arrow.record_batches", raising=False)
    with_api(tmp_path, work)


def test_a_stream_is_for_get_over_http_alone(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        assert (await rig.ask("HEAD", f"{at()}/arrow")).status == 501

    with_api(tmp_path, work)


def damaged(rig: ApiRig, number: int) -> None:
    """A flipped byte in the record of a message."""
    store = rig.desk.driver.store
    assert isinstance(store, LogStore)
    place = store.ledger.positions.get(number)
    assert place is not None
    path = rig.folder / "store" / f"{place.segment:08d}.log"
    data = bytearray(path.read_bytes())
    data[place.offset + place.size - 1] ^= 0xFF
    path.write_bytes(data)


def test_damage_is_refused_or_breaks_the_stream_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_read, "BATCH_ROWS", 3)

    async def work(rig: ApiRig) -> None:
        await rig.create()
        for number in range(9):
            await rig.send(label=str(number), body_text="x", delivery="recoverable")
        rows = await arrow(rig)
        numbers = await rig.run(lambda m: [n for n, row in m.ledger.state.table.items()])
        damaged(rig, numbers[7])
        known = await arrow(rig, columns="lookup_id,priority,arrived_time")  # reads no packet
        assert [row["lookup_id"] for row in known] == [row["lookup_id"] for row in rows]
        with pytest.raises(SessionLost):
            await arrow(rig)
        (listed,) = (await rig.get("/api/v1/damage")).json["records"]
        assert listed["lookup_id"] == rows[7]["lookup_id"]
        with pytest.raises(MessageStorageFailed, match="damaged"):
            await arrow(rig, after=rows[6]["lookup_id"])
        found: list[str] = []

        def client() -> None:
            with BulkHttp(rig.url, token=rig.tokens["read"]) as http:
                for batch in read(http, ORDERS, 0, 1 << 60, ["label"]):
                    found.extend(batch.column("label").to_pylist())

        with pytest.raises(MessageStorageFailed):
            await beside(client)
        assert found == [str(number) for number in range(6)]
        assert pins(rig) == 0

    with_api(tmp_path, work)


def pins(rig: ApiRig) -> int:
    store = rig.desk.driver.store
    assert isinstance(store, LogStore)
    return sum(segment.pins for segment in store.ledger.segments.values())


def test_a_reader_that_reads_nothing_costs_two_batches_at_most(tmp_path: Path) -> None:
    size, count = 1 << 20, 60

    async def work(rig: ApiRig) -> None:
        await rig.create()
        message = Message(body=bytes(size))
        for _ in range(count):
            await message_sent(rig, message)
        host, _, port = rig.url.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1)
        writer.write(
            f"GET {at()}/arrow HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {rig.tokens['read']}\r\n\r\n".encode()
        )
        held = rig.admin.memory.bytes
        while not held[Buffer.ARROW]:
            await rig.run(lambda manager: None)
        for _ in range(2000):  # it may grow as long as it likes
            await rig.run(lambda manager: None)
        assert held[Buffer.ARROW] <= 3 * 2 * (arrow_read.BATCH_BYTES + size)
        assert pins(rig) == 0
        writer.transport.abort()
        while rig.admin.memory.held:
            await rig.run(lambda manager: None)
        assert reader is not None

    with_api(tmp_path, work)


def test_a_reader_that_goes_while_memory_is_short_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, has_room = [False], Streaming.has_room
    monkeypatch.setattr(
        Streaming, "has_room", lambda self, size: not short[0] and has_room(self, size)
    )

    async def work(rig: ApiRig) -> None:
        await rig.create()
        for _ in range(8):
            await rig.send(body_text="x" * 2000, delivery="recoverable")
        host, _, port = rig.url.removeprefix("http://").rpartition(":")
        for _ in range(5):
            short[0] = True
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(
                f"GET {at()}/arrow HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {rig.tokens['read']}\r\n\r\n".encode()
            )
            while not any(one.busy for one in rig.server.open):
                await rig.run(lambda manager: None)
            writer.transport.abort()
            while rig.server.open and any(one.busy for one in rig.server.open):
                await rig.run(lambda manager: None)
            short[0] = False
            await arrow(rig)
        while pins(rig):  # until what waited has had its turn; the rig has a time limit
            await rig.run(lambda manager: None)

    with_api(tmp_path, work)


def test_streams_beside_each_other_share_what_memory_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_read, "BATCH_ROWS", 500)

    async def work(rig: ApiRig) -> None:
        await rig.create()
        for number in range(1500):
            await message_sent(rig, Message(label=str(number), body=bytes(300)))
        rig.admin.memory.limit = 1 << 20
        found = await asyncio.gather(*(arrow(rig, columns="label") for _ in range(5)))
        for rows in found:
            assert [row["label"] for row in rows] == [str(number) for number in range(1500)]
        while rig.admin.memory.held:
            await rig.run(lambda manager: None)

    with_api(tmp_path, work)


def test_a_token_that_is_revoked_ends_its_streams(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        for _ in range(40):
            await message_sent(rig, Message(body=bytes(1 << 20)))
        made = (await rig.post("/api/v1/tokens", {"role": "read"})).json
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()
        go_on = asyncio.Event()

        def client() -> None:
            with BulkHttp(rig.url, token=made["token"]) as http:
                for _ in http.read_arrow(f"/queues/{segment(ORDERS)}/arrow"):
                    loop.call_soon_threadsafe(begun.set)
                    asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(30)

        task = asyncio.create_task(beside(client))
        await begun.wait()
        assert (await rig.ask("DELETE", f"/api/v1/tokens/{made['info']['id']}")).status == 200
        go_on.set()
        with pytest.raises(SessionLost):
            await task

    with_api(tmp_path, work)


def test_express_messages_on_disk_and_in_memory_are_rows_alike(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        store = rig.desk.driver.store
        assert isinstance(store, LogStore)
        store.express.settings = replace(store.settings, express_memory=8_000)
        for number in range(40):
            await rig.send(label=str(number), body_text="x" * 500, priority=number % 8)
            await rig.send(label=f"kept {number}", delivery="recoverable")
        assert store.express.segments
        assert store.express.memory
        await check(rig, ORDERS, 80)

    with_api(tmp_path, work)
