"""Queue managers that call each other over real sockets about the transactions they share."""

from __future__ import annotations

import asyncio
import io
import os
import ssl
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import posthouse
from posthouse.engine.ledger.effects import PeerRequest
from posthouse.engine.manager import QueueManager
from posthouse.protocols.handlers.peers import PEER_CALL
from posthouse.protocols.http.server import AdminServer
from posthouse.runtime import peer_calls
from posthouse.runtime.driver import Driver
from posthouse.runtime.home import real_clock
from posthouse.runtime.logs import Log, LogStream
from posthouse.runtime.loop import Loop
from posthouse.runtime.peer_calls import Coordination
from posthouse.security.peer_calls import PeerCall, Reply, Verb, check_reply, sign_call
from posthouse.store.disk import RealDisk
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from tests.engine.settings import engine_settings
from tests.protocols.admin.api_rig import ApiRig

PATH = r".\private$\orders"
KEY = b"k" * 32
CERTIFICATES = Path(__file__).parents[1] / "vectors" / "tls"


class Machine(ApiRig):
    """A queue manager with its endpoint and its calls to others."""

    def __init__(self, folder: Path, desk: Loop) -> None:
        super().__init__(folder, desk)
        self.lines = io.StringIO()
        self.log = Log(LogStream(self.lines))
        self.coordination = Coordination(desk, self.log, timeout_s=5)

    async def start(self) -> None:
        await super().start()
        self.manager.transactions.coordinator.url = self.url
        self.coordination.start()
        await self.create(PATH, transactional=True)

    @property
    def manager(self) -> QueueManager:
        return self.desk.manager

    async def stop(self) -> None:
        await self.coordination.stop()
        await super().stop()

    async def trust(self, other: Machine) -> None:
        guid = other.manager.machine.identifier
        await self.run(lambda m: m.transactions.add_peer(other.name, guid, other.url, KEY))

    @property
    def name(self) -> str:
        return self.manager.machine.settings.computer_name

    @asynccontextmanager
    async def client(self) -> Any:
        token = self.tokens["administer"]
        async with posthouse.aio.connect(url=self.url, token=token) as qm:
            yield qm

    def count(self) -> int:
        queue = self.manager.queues._local(PATH)
        return queue.state.count - queue.locked

    async def until(self, holds: Callable[[], bool]) -> None:
        """Lets everything go on until something holds."""
        while not holds():
            await asyncio.get_running_loop().run_in_executor(None, int)
            await self.run(lambda m: None)

    @property
    def quiet(self) -> bool:
        two_phase = self.manager.transactions
        return not two_phase.coordinator.joints and not self.manager.transactions.in_doubt()


async def started(folder: Path, name: str, **settings: Any) -> Machine:
    store = LogStore(RealDisk(folder / name), StoreSettings(store_id=os.urandom(16)))
    engine = engine_settings(name, **settings)
    recovered = store.recover().state
    manager = QueueManager(engine, recovered, store.read, os.urandom, store.read_many)
    driver = Driver(manager, store, real_clock)
    manager.start(*real_clock())
    driver.end_turn()
    driver.sync()
    desk = Loop(driver)
    desk.start()
    (folder / f"{name}.home").mkdir(exist_ok=True)
    machine = Machine(folder / f"{name}.home", desk)
    await machine.start()
    return machine


def with_two(
    folder: Path, work: Callable[[Machine, Machine], Awaitable[None]], **settings: Any
) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            alpha = await started(folder, "ALPHA", **settings)
            beta = await started(folder, "BETA", **settings)
            await alpha.trust(beta)
            await beta.trust(alpha)
            try:
                await work(alpha, beta)
            finally:
                await asyncio.gather(alpha.stop(), beta.stop())
            assert alpha.faults == beta.faults == []

    asyncio.run(main())


def test_two_queue_managers_commit_and_abort_together(tmp_path: Path) -> None:
    async def work(alpha: Machine, beta: Machine) -> None:
        async with alpha.client() as here, beta.client() as there:
            for fails in (False, True):
                try:
                    async with here.transaction() as tx:
                        part = await tx.enlist(there)
                        await here.queue(PATH).send(b"one", tx=tx)
                        await there.queue(PATH).send(b"two", tx=part)
                        if fails:
                            raise KeyError
                except KeyError:
                    pass
                await alpha.until(
                    lambda: alpha.quiet and not beta.manager.transactions.collection.open
                )
                assert (alpha.count(), beta.count()) == (1, 1)
            assert "peer_" not in alpha.lines.getvalue()

    with_two(tmp_path, work)


def test_a_part_takes_no_orders_of_its_client(tmp_path: Path) -> None:
    async def work(alpha: Machine, beta: Machine) -> None:
        async with alpha.client() as here, beta.client() as there:
            tx = await here.transaction().begin()
            part = await tx.enlist(there)
            for order in (part.begin, part.commit, lambda: part.enlist(here)):
                with pytest.raises(posthouse.errors.TransactionSequence):
                    await order()
            await part.abort()
            with pytest.raises(posthouse.QueueError, match="BETA has aborted it"):
                await tx.commit()
            assert (alpha.count(), beta.count()) == (0, 0)

    with_two(tmp_path, work)


def test_a_peer_that_is_gone_aborts_and_one_line_tells_of_it(tmp_path: Path) -> None:
    async def work(alpha: Machine, beta: Machine) -> None:
        async with alpha.client() as here:
            async with beta.client() as there:
                tx = await here.transaction().begin()
                part = await tx.enlist(there)
                await there.queue(PATH).send(b"two", tx=part)
                await beta.server.stop(0)
            with pytest.raises(posthouse.QueueError, match="no vote of BETA"):
                await tx.commit()
        assert alpha.lines.getvalue().count("peer_does_not_answer") == 1

    with_two(tmp_path, work, prepare_s=1)


def test_strangers_at_the_door_of_peers_are_refused(tmp_path: Path) -> None:
    async def work(alpha: Machine, beta: Machine) -> None:
        call = PeerCall(
            Verb.OUTCOME,
            beta.manager.machine.identifier,
            alpha.manager.machine.identifier,
            b"t" * 16,
            real_clock()[1],
            bytes(8),
        )
        good, forged = sign_call(call, KEY), sign_call(call, b"x" * 32)
        said = await alpha.post(PEER_CALL, token=good)
        assert (said.status, check_reply(good, said.text, KEY)) == (200, Reply.UNKNOWN)
        assert (await alpha.post(PEER_CALL, token=forged)).status == 403
        assert (await alpha.post(PEER_CALL, token="php_nonsense")).status == 403
        assert (await alpha.post(PEER_CALL)).status == 401  # a token for everything else
        assert (await alpha.post(PEER_CALL, token=None)).status == 401
        assert (await alpha.get(PEER_CALL, token=good)).status == 405
        assert (await alpha.get("/api/v1/status", token=good)).status == 401
        headers = {"Origin": "http://evil.example"}
        assert (await alpha.post(PEER_CALL, token=good, headers=headers)).status == 403

    with_two(tmp_path, work)


@pytest.mark.parametrize("trusted", [True, False])
def test_certificates_of_peers_are_checked(tmp_path: Path, trusted: bool) -> None:
    async def work(alpha: Machine, beta: Machine) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(CERTIFICATES / "localhost.pem", CERTIFICATES / "localhost.key")
        door = AdminServer(beta.admin, tls=context)
        address = await door.start("127.0.0.1", 0)
        await alpha.run(lambda m: m.transactions.remove_peer("BETA"))
        beta.url = f"https://localhost:{address.rpartition(':')[2]}"
        await alpha.trust(beta)
        calls = Coordination(alpha.desk, alpha.log, timeout_s=5)
        if trusted:
            calls.use_tls(ssl.create_default_context(cafile=CERTIFICATES / "localhost.pem"))
        calls.start()
        async with alpha.client() as here:
            tx = await here.transaction().begin()
            await alpha.run(
                lambda m: m.transactions.coordinator.token(
                    m.transactions.find(identifier(tx)), "BETA"
                )
            )
            with pytest.raises(posthouse.QueueError, match="aborted it" if trusted else "no vote"):
                await tx.commit()
        assert ("peer_does_not_answer" in alpha.lines.getvalue()) is not trusted
        await calls.stop()
        await door.stop(1)

    with_two(tmp_path, work, prepare_s=1)


def identifier(tx: Any) -> bytes:
    found: bytes = tx.handle.identifier
    return found


@pytest.mark.parametrize("answer", ["status", "redirect", "endless", "binary"])
def test_whatever_a_peer_answers_is_survived(tmp_path: Path, answer: str) -> None:
    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        if answer == "redirect":
            raise web.HTTPFound("http://127.0.0.1:1/")
        body = {"status": b"", "endless": b"x" * (1 << 20), "binary": b"\xff\xfe"}[answer]
        return web.Response(status=500 if answer == "status" else 200, body=body)

    async def work(alpha: Machine, beta: Machine) -> None:
        runner = web.ServerRunner(web.Server(respond))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        guid = b"g" * 16
        await alpha.run(lambda m: m.transactions.add_peer("ODD", guid, site.name, KEY))
        asks: list[PeerRequest] = []
        alpha.desk.driver.on_asks = lambda some: (asks.extend(some), alpha.coordination.take(some))  # type: ignore[assignment,func-returns-value]
        tx = await alpha.run(lambda m: m.transactions.create_transaction(b"t" * 16))
        await alpha.run(lambda m: m.transactions.coordinator.token(tx, "ODD"))
        await alpha.run(lambda m: m.transactions.commit(b"t" * 16, waiter=print))
        await alpha.until(lambda: bool(asks) and not alpha.coordination._calls)
        refused = alpha.manager.machine.refusals["peer_reply"]
        assert refused or "peer_does_not_answer" in alpha.lines.getvalue()
        await alpha.run(lambda m: m.transactions.transaction_abort(b"t" * 16))
        await runner.cleanup()

    with_two(tmp_path, work)


def test_no_more_calls_than_are_allowed_are_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_calls, "CALLS_OF_A_PEER_MAX", 2)

    async def work(alpha: Machine, beta: Machine) -> None:
        asks = [
            PeerRequest(b"p" * 16, alpha.url, Verb.ABORT, bytes([n]) * 16, "php_x")
            for n in range(9)
        ]
        alpha.coordination.take([*asks, *asks])
        assert len(alpha.coordination._calls) == 2
        await alpha.until(lambda: not alpha.coordination._calls)
        alpha.coordination.take(asks[:1])
        await alpha.coordination.stop()
        alpha.coordination.take(asks)
        assert alpha.coordination._calls == {}

    with_two(tmp_path, work)
