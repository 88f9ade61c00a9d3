"""Requests over HTTP wait for memory before messages are fetched for their answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from posthouse.model.message import Message
from posthouse.model.message_json import MessageJson
from posthouse.model.properties import QueueAccessType
from posthouse.protocols.handlers.scanning import ScannedMessage
from posthouse.protocols.http import memory_reservations
from posthouse.protocols.http.connection import PIPELINED_MAX
from posthouse.protocols.memory import FETCHED, SEND, Holder
from posthouse.security.access import Caller
from tests.protocols.admin.api_rig import ORDERS, ApiRig, Reply, at, with_api
from tests.support.circles import circles, without_collector

BODY = 300_000
LIMIT = 64 << 20

Ask = Callable[[ApiRig, int], Awaitable[Reply]]
ASKED: dict[str, Ask] = {
    "list": lambda rig, lookup_id: rig.get(f"{at()}/messages"),
    "find": lambda rig, lookup_id: rig.get("/api/v1/messages", where="label = 'large'"),
    "show": lambda rig, lookup_id: rig.get(f"{at()}/messages/{lookup_id}"),
    "receive": lambda rig, lookup_id: rig.post(f"{at()}/receive", {"count": 3}),
    "receive one": lambda rig, lookup_id: rig.post(f"{at()}/receive", {"lookup_id": lookup_id}),
}


async def filled(rig: ApiRig) -> tuple[Holder, int, list[int]]:
    """Somebody who holds all memory, the lookup id of a large message, and what is fetched."""
    await rig.create()
    await rig.run(
        lambda manager: manager.messages.enqueue_message_to_an_open_queue(
            manager.queues.open_queue(ORDERS, QueueAccessType.SEND, Caller.administrator()),
            Message(label="large", body=bytes(BODY)),
        )
    )
    listed = await rig.get(f"{at()}/messages")
    lookup_id = int(listed.json["messages"][0]["lookup_id"])
    memory = rig.admin.memory
    memory.limit = LIMIT
    other = memory.open("elsewhere", print, lambda: None)
    other.take(SEND, LIMIT // 2)
    fetched, reading = list[int](), rig.desk.manager.messages.reading
    read_many = reading._read_many

    def noted(numbers: list[int]) -> list[tuple[bytes, bytes]]:
        fetched.extend(numbers)
        return read_many(numbers)

    reading._read_many = noted
    return other, lookup_id, fetched


@pytest.mark.parametrize("name", ASKED)
def test_nothing_is_fetched_before_there_is_room(tmp_path: Path, name: str) -> None:
    async def work(rig: ApiRig) -> None:
        other, lookup_id, fetched = await filled(rig)
        asked: asyncio.Future[Any] = asyncio.ensure_future(ASKED[name](rig, lookup_id))
        while not rig.admin.memory.delayed:
            await rig.run(lambda manager: None)
        assert fetched == []
        other.leave()
        reply = await asked
        assert reply.status == 200, reply
        assert fetched
        while rig.admin.memory.used:
            await rig.run(lambda manager: None)

    with_api(tmp_path, work)


@pytest.mark.parametrize("name", ASKED)
def test_a_request_that_waits_too_long_is_refused_and_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(memory_reservations, "ROOM_WAIT_S", 0.05)

    async def work(rig: ApiRig) -> None:
        other, lookup_id, fetched = await filled(rig)
        reply = await ASKED[name](rig, lookup_id)
        assert reply.status == 507, reply
        assert "too little memory" in reply.json["error"]["cause"]
        assert fetched == []
        other.leave()
        assert rig.admin.memory.used == 0
        assert (await rig.labels()) == ["large"]

    with_api(tmp_path, work)


def waits_for_room() -> bool:
    """Whether some request of this process waits for memory."""
    names = {getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()}
    return "room_for" in names


@pytest.mark.parametrize("name", ["receive", "receive one"])  # a GET would be sent again
def test_a_request_whose_client_has_gone_does_not_wait_on(tmp_path: Path, name: str) -> None:
    async def work(rig: ApiRig) -> None:
        other, lookup_id, fetched = await filled(rig)
        asked: asyncio.Future[Any] = asyncio.ensure_future(ASKED[name](rig, lookup_id))
        while not rig.admin.memory.delayed:
            await rig.run(lambda manager: None)
        assert waits_for_room()
        for connection in list(rig.server.open):
            connection.transport.abort()
        with pytest.raises(aiohttp.ClientError):
            await asked
        for _ in range(1000):
            if not waits_for_room():
                break
            await rig.run(lambda manager: None)
        assert not waits_for_room()
        other.leave()
        assert (rig.admin.memory.used, fetched) == (0, [])
        assert len((await rig.get(f"{at()}/messages")).json["messages"]) == 1

    with_api(tmp_path, work)


@pytest.mark.parametrize("name", ["find", "receive"])
def test_a_request_whose_client_has_gone_leaves_nothing(tmp_path: Path, name: str) -> None:
    """Circles of requests would stay for long: the collector puts aside what it has seen twice."""

    async def work(rig: ApiRig) -> None:
        other, lookup_id, _ = await filled(rig)
        asked: asyncio.Future[Any] = asyncio.ensure_future(ASKED[name](rig, lookup_id))
        while not rig.admin.memory.delayed:
            await rig.run(lambda manager: None)
        for connection in list(rig.server.open):
            connection.transport.abort()
            del connection
        asked.cancel()
        with suppress(asyncio.CancelledError, aiohttp.ClientError):
            await asked
        del asked
        while rig.server.open or waits_for_room():
            await rig.run(lambda manager: None)
        await rig.run(lambda manager: None)
        assert circles() & {"Conversation", "Holder", "RequestHandler", "BaseRequest"} == set()
        other.leave()
        assert rig.admin.memory.used == 0
        statuses = [
            (await rig.get("/api/v1/messages", where="label = 'large'")).status for _ in range(5)
        ]
        assert statuses == [200] * 5  # the search that was given up does not count

    with without_collector():
        with_api(tmp_path, work)


def test_a_request_that_was_refused_before_its_body_came_leaves_nothing(tmp_path: Path) -> None:
    """aiohttp reads on for a while, so that the refusal arrives; then the client goes."""

    async def work(rig: ApiRig) -> None:
        host, _, port = rig.url.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        token = f"Authorization: Bearer {rig.tokens['operate']}"
        lines = f"POST {at()}/messages HTTP/1.1", "Host: localhost", token
        large = "Content-Type: application/json", f"Content-Length: {10**10}"
        writer.write("\r\n".join([*lines, *large, "", "{"]).encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        writer.transport.abort()
        while rig.server.open:
            await rig.run(lambda manager: None)
        await rig.run(lambda manager: None)
        assert circles() & {"RequestHandler", "BaseRequest", "StreamReader"} == set()

    with without_collector():
        with_api(tmp_path, work)


def test_what_runs_on_for_nobody_is_on_the_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages are made into JSON beside the loop, and need their memory until that is done."""
    begun, may_end = threading.Event(), threading.Event()
    made = ScannedMessage.json

    def slowly(self: ScannedMessage) -> MessageJson:
        begun.set()
        assert may_end.wait(60)
        return made(self)

    async def work(rig: ApiRig) -> None:
        other, _, _ = await filled(rig)
        other.leave()
        monkeypatch.setattr(ScannedMessage, "json", slowly)
        asked: asyncio.Future[Any] = asyncio.ensure_future(rig.get(f"{at()}/messages"))
        while not begun.is_set():
            await rig.run(lambda manager: None)
        assert rig.admin.memory.bytes[FETCHED] > BODY
        asked.cancel()
        with suppress(asyncio.CancelledError):
            await asked
        while any(connection.busy for connection in rig.server.open):
            await rig.run(lambda manager: None)
        assert rig.admin.memory.bytes[FETCHED] > BODY
        may_end.set()
        while rig.admin.memory.used:
            await rig.run(lambda manager: None)

    with_api(tmp_path, work)


@pytest.mark.parametrize("name", ["list", "find", "show"])
def test_answers_that_need_all_memory_come_one_after_the_other(tmp_path: Path, name: str) -> None:
    """There is room for a whole answer before its messages are fetched, so none is refused."""

    async def work(rig: ApiRig) -> None:
        other, lookup_id, _ = await filled(rig)
        other.leave()
        rig.admin.memory.limit = 8 * BODY
        replies = await asyncio.gather(*(ASKED[name](rig, lookup_id) for _ in range(4)))
        assert [reply.status for reply in replies] == [200] * 4
        assert rig.admin.memory.refused == 0
        assert rig.admin.memory.delayed

    with_api(tmp_path, work)


def test_who_pipelines_many_requests_is_closed(tmp_path: Path) -> None:
    """A connection that is full of requests is not read, so it would not be seen to end."""

    async def work(rig: ApiRig) -> None:
        other, _, _ = await filled(rig)
        token = f"Bearer {rig.tokens['operate']}"
        lines = f"GET {at()}/messages HTTP/1.1", "Host: localhost", f"Authorization: {token}"
        request = "\r\n".join([*lines, "", ""]).encode()
        with suppress(ConnectionError):
            assert await rig.raw(request * (PIPELINED_MAX + 2)) == b""
        assert rig.admin.traffic.refused["too many requests before their answers"] == 1
        other.leave()
        while rig.admin.memory.used:
            await rig.run(lambda manager: None)
        assert not waits_for_room()

    with_api(tmp_path, work)
