"""NCP on asyncio: one port for TCP and UDP, memory, and the stop."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from posthouse.client.ncp_calls import NcpCalls
from posthouse.client.ncp_core import NcpLost
from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import EngineSettings
from posthouse.engine.state import State
from posthouse.model.bindery import NWOT_JOB_QUEUE, NWOT_USER
from posthouse.model.qms import NWQueueJobStruct
from posthouse.protocols.connections import Connections
from posthouse.protocols.job_queue.server import NcpNode, NcpServer
from posthouse.protocols.job_queue.settings import NcpSettings
from posthouse.protocols.memory import MemoryAccount
from posthouse.runtime.driver import Driver
from posthouse.runtime.loop import Loop
from posthouse.security.access import Caller
from posthouse.store.memory import MemoryStore
from posthouse.wire import ncp
from tests.protocols.binary.socket_rig import clock, until

T = TypeVar("T")
HOST, PASSWORD = "127.0.0.1", "SECRET"


class House:
    """A queue manager with its NCP port, a user and a queue."""

    def __init__(self, settings: NcpSettings | None = None, limit: int = 1 << 30) -> None:
        store = MemoryStore()
        self.manager = QueueManager(
            EngineSettings("ALPHA"),
            State(),
            store.read,
            random.Random(5).randbytes,
            store.read_many,
        )
        self.driver = Driver(self.manager, store, clock)
        self.manager.start(*clock())
        self.driver.end_turn()
        self.desk = Loop(self.driver)
        self.desk.start()
        self.node = NcpNode(
            self.desk,
            settings or NcpSettings(),
            "ALPHA",
            memory=MemoryAccount(limit),
            connections=Connections(100, 8),
        )
        self.server = NcpServer(self.node)
        self.port = self.queue = 0

    async def start(self) -> None:
        self.port = int((await self.server.start(HOST, 0)).rpartition(":")[2])
        await self.desk.run(self._furnish)

    def _furnish(self, manager: QueueManager) -> None:
        manager.accounts.certificates.key_file = lambda: bytes(32)
        root = manager.stations.begin("test")
        manager.bindery.enter(root, Caller.administrator())
        manager.bindery.create_object(root, NWOT_USER, "ALICE")
        manager.bindery.change_object_password(root, NWOT_USER, "ALICE", "", PASSWORD)
        queues = manager.job_queues
        self.queue = queues.create_queue(root, NWOT_JOB_QUEUE, "JOBS", "SYS:")
        for name in ("Q_USERS", "Q_OPERATORS"):
            manager.bindery.add_object_to_set(
                root, NWOT_JOB_QUEUE, "JOBS", name, NWOT_USER, "ALICE"
            )
        manager.stations.end(root)

    async def client(self, *, udp: bool = False) -> NcpCalls:
        def connect() -> NcpCalls:
            calls = NcpCalls.connect(HOST, self.port, transport="udp" if udp else "tcp")
            calls.login("ALICE", NWOT_USER, PASSWORD)
            return calls

        return await asyncio.to_thread(connect)

    async def stop(self) -> None:
        await self.server.stop(1.0)
        await self.desk.stop()


@asynccontextmanager
async def house(settings: NcpSettings | None = None, limit: int = 1 << 30) -> AsyncIterator[House]:
    made = House(settings, limit)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


def run(work: Callable[[], Awaitable[T]]) -> T:
    async def limited() -> T:
        async with asyncio.timeout(60):
            return await work()

    return asyncio.run(limited())


@pytest.mark.spec("NCP TCP/1", "NCP UDP/1")
@pytest.mark.parametrize("udp", [False, True], ids=["tcp", "udp"])
def test_tcp_and_udp_share_one_port(udp: bool) -> None:
    async def work() -> None:
        async with house() as made:
            alice = await made.client(udp=udp)

            def submit() -> bytes:
                job = alice.create_queue_file(made.queue, NWQueueJobStruct())
                alice.write_file(job.job_file_handle, 0, bytes(200_000))
                alice.close_file_and_start_queue_job(made.queue, job.job_number)
                return alice.get_file_server_information().name.encode()

            assert await asyncio.to_thread(submit) == b"ALPHA"
            await asyncio.to_thread(alice.close)
            await until(lambda: not made.node.protocol.services)
            assert made.node.memory.held == 0

    run(work)


def test_the_port_of_the_settings_has_to_be_free_on_both() -> None:
    async def work() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind((HOST, 0))
            made = House()
            with pytest.raises(OSError, match="in use"):
                await made.server.start(HOST, taken.getsockname()[1])
            await made.desk.stop()

    run(work)


def test_one_address_has_so_many_connections_at_most() -> None:
    async def work() -> None:
        async with house() as made:
            open_ones = [await asyncio.open_connection(HOST, made.port) for _ in range(8)]
            await until(lambda: len(made.node.open) == 8)
            reader, writer = await asyncio.open_connection(HOST, made.port)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()
            figures = made.node.protocol.figures
            assert figures.refused == {"too many connections of one address": 1}
            for _, each in open_ones:
                each.close()
            await until(lambda: not made.node.open)

    run(work)


@pytest.mark.spec("NCP TCP/4")
def test_a_long_request_ends_its_connection_before_it_is_kept() -> None:
    async def work() -> None:
        async with house() as made:
            reader, writer = await asyncio.open_connection(HOST, made.port)
            writer.write(b"DmdT" + (1 << 24).to_bytes(4, "big") + bytes(1000))
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()
            assert made.node.protocol.figures.refused == {"malformed": 1}
            await until(lambda: not made.node.open)
            assert made.node.memory.held == 0

    run(work)


def test_a_client_that_reads_nothing_is_not_read_either() -> None:
    async def work() -> None:
        async with house() as made:
            reader, writer = await asyncio.open_connection(HOST, made.port, limit=1024)
            create = ncp.Request(ncp.CREATE_CONNECTION, 1, 0xFFFF, 1, 0, b"\0")
            writer.write(ncp.frame_request(ncp.write_request(create)))
            reply = ncp.read_reply((await reader.readexactly(16))[8:])
            info = ncp.write_subfunction(0x11, b"")
            ask = ncp.Request(ncp.REQUEST, 1, reply.connection, 1, 0x17, info)
            pdu = ncp.frame_request(ncp.write_request(ask))
            count = 20_000
            writer.write(pdu * count)
            answered = 0
            while answered < count:  # every one of them comes, in order
                data = await reader.readexactly(8 + 8 + 128)
                assert data[:4] == ncp.REPLY_MAGIC
                answered += 1
            writer.close()
            await until(lambda: not made.node.open)

    run(work)


@pytest.mark.spec("NCP session/7")
def test_a_stop_answers_what_was_begun_and_lets_clients_go() -> None:
    async def work() -> None:
        made = House()
        await made.start()
        alice = await made.client()
        await asyncio.to_thread(alice.create_queue_file, made.queue, NWQueueJobStruct())
        await made.server.stop(5.0)
        await until(lambda: not made.node.protocol.services)
        assert not made.manager.job_queues.jobs
        with pytest.raises(NcpLost):
            await asyncio.to_thread(alice.get_file_server_information)
        await made.desk.stop()

    run(work)


def test_idle_connections_end_by_the_clock() -> None:
    async def work() -> None:
        async with house(NcpSettings(create_ms=50)) as made:
            reader, writer = await asyncio.open_connection(HOST, made.port)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()
            assert made.node.protocol.figures.refused == {"idle": 1}

    run(work)
