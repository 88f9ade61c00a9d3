"""A queue manager with its admin endpoint on a real socket, and a client that speaks HTTP."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec

from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import EngineSettings
from posthouse.model.properties import QueueProperties
from posthouse.model.roles import Role
from posthouse.protocols.handlers.audit_trail import AuditTrail
from posthouse.protocols.http.door import Admin
from posthouse.protocols.http.server import AdminServer, ControlSocket
from posthouse.protocols.http.settings import AdminSettings
from posthouse.runtime.driver import Clock, Driver
from posthouse.runtime.home import real_clock
from posthouse.runtime.key_file import KeyFile
from posthouse.runtime.loop import Loop
from posthouse.security.access import Caller
from posthouse.security.sids import ADMINISTRATORS
from posthouse.store.disk import RealDisk
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from tests.support.machine_books import machine_books

T = TypeVar("T")
ORDERS = r".\private$\orders"
AUDIT = r".\private$\audit"


class Reply(NamedTuple):
    """What the server said."""

    status: int
    json: Any
    text: str
    headers: Any


class ApiRig:
    """One queue manager named ALPHA. Requests are the administrator's unless they say otherwise."""

    def __init__(
        self,
        folder: Path,
        desk: Loop,
        settings: AdminSettings | None = None,
        audit: AuditTrail | None = None,
    ) -> None:
        store = desk.driver.store
        assert isinstance(store, LogStore)
        self.folder = folder
        self.desk = desk
        self.backups: list[str] = []
        self.faults: list[Exception] = []
        self.admin = Admin(
            desk,
            version="9.9",
            settings=settings,
            sync_times=desk.sync_times,
            backup=self.backup,
            fault=self.faults.append,
            store=store,
            audit=audit,
            turns=desk,
        )
        self.server = AdminServer(self.admin)
        self.control = ControlSocket(self.admin)
        self.url = ""
        self.socket = ""
        self.tokens: dict[str, str] = {}

    async def backup(self, directory: str) -> None:
        self.backups.append(directory)

    async def start(self) -> None:
        self.url = f"http://{await self.server.start('127.0.0.1', 0)}"
        self.socket = await self.control.start(str(self.folder), 0)
        self.http = aiohttp.ClientSession(auto_decompress=False)
        for role in Role:
            self.tokens[role.value] = await self.token(role=role)

    async def stop(self) -> None:
        await self.http.close()
        await self.server.stop(1.0)
        await self.control.stop(1.0)
        await self.desk.stop()

    async def run(self, call: Callable[[QueueManager], T]) -> T:
        return await self.desk.run(call)

    # -- who

    async def token(self, user: str = "administrator", **options: Any) -> str:
        _, text = await self.run(lambda m: self.admin.tokens.create(user, **options))
        return text

    async def user(self, name: str, *, administrator: bool = False, **token: Any) -> str:
        """A new user; returns a token of theirs that reaches as far as any."""
        groups = (ADMINISTRATORS,) if administrator else ()
        await self.run(lambda m: m.accounts.add(name, groups=groups))
        token.setdefault("role", Role.ADMINISTER)
        return await self.token(name, **token)

    # -- requests

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> Reply:
        sent = dict(headers or {})
        if token is not None:
            sent.setdefault("Authorization", f"Bearer {token or self.tokens['administer']}")
        data = raw if body is None else msgspec.json.encode(body)
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        if query:
            pairs = [f"{name}={quote(str(value), safe='')}" for name, value in query.items()]
            path = f"{path}?{'&'.join(pairs)}"
        url = aiohttp.client.URL(self.url + path, encoded=True)
        async with self.http.request(method, url, data=data, headers=sent) as response:
            text = await response.text()
            is_json = response.content_type == "application/json" and text
            parsed = msgspec.json.decode(text) if is_json else None
            return Reply(response.status, parsed, text, response.headers)

    async def get(self, path: str, **options: Any) -> Reply:
        return await self.ask("GET", path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> Reply:
        return await self.ask("POST", path, body, **options)

    async def raw(self, data: bytes, until: bytes = b"") -> bytes:
        """Bytes on a connection of their own, and everything that comes back until its end.

        With `until` only to these bytes: a server that refuses a body waits a while for the rest.
        """
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(data)
        await writer.drain()
        try:
            return await (reader.readuntil(until) if until else reader.read())
        except ConnectionError:
            return b""
        finally:
            writer.close()

    # -- things

    async def create(self, path: str = ORDERS, **properties: Any) -> None:
        await self.run(
            lambda m: m.queues.create_queue(
                path, QueueProperties(**properties), Caller.administrator()
            )
        )

    async def send(self, queue: str = ORDERS, **message: Any) -> str:
        reply = await self.post(f"{at(queue)}/messages", message)
        assert reply.status == 201, reply
        return str(reply.json["id"])

    async def labels(self, queue: str = ORDERS, **query: Any) -> list[str]:
        reply = await self.get(f"{at(queue)}/messages", **query)
        assert reply.status == 200, reply
        return [message["label"] for message in reply.json["messages"]]


def at(queue: str = ORDERS) -> str:
    """The path of a queue in the API."""
    return f"/api/v1/queues/{quote(queue, safe='$')}"


def with_api(
    folder: Path,
    work: Callable[[ApiRig], Awaitable[T]],
    settings: AdminSettings | None = None,
    engine: EngineSettings | None = None,
    clock: Clock = real_clock,
    seconds: float = 60.0,
    audit: Callable[[Path], AuditTrail] | None = None,
) -> T:
    """Runs a coroutine with a queue manager around it; its books balance at the end."""

    async def main() -> T:
        store = LogStore(RealDisk(folder / "store"), StoreSettings(store_id=os.urandom(16)))
        state = store.recover().state
        manager = QueueManager(
            engine or EngineSettings("ALPHA"), state, store.read, os.urandom, store.read_many
        )
        manager.certificates.key_file = KeyFile(folder)
        driver = Driver(manager, store, clock)
        manager.start(*clock())
        driver.end_turn()
        driver.sync()
        desk = Loop(driver)
        desk.start()
        rig = ApiRig(folder, desk, settings, None if audit is None else audit(folder))
        await rig.start()
        try:
            async with asyncio.timeout(seconds):
                result = await work(rig)
            assert desk.failure is None
            assert rig.faults == []
            for name, books in machine_books(manager.queues.all()).items():
                assert books.balanced, (name, books)
            return result
        finally:
            await rig.stop()

    return asyncio.run(main())
