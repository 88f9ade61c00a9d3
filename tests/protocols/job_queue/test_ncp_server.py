"""NCP on asyncio: one port for TCP and UDP, memory, and the stop."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from posthouse.client.ncp.calls import NcpCalls
from posthouse.client.ncp.core import NcpLost
from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import EngineSettings
from posthouse.model.bindery import NWOT_JOB_QUEUE, NWOT_USER
from posthouse.model.qms import NWQueueJobStruct
from posthouse.net.connections import Connections
from posthouse.protocols.memory import RECEIVE, SEND, SMALL_REQUEST, UNSYNCED, MemoryAccount
from posthouse.protocols.ncp.server import (
    PORT_TRIES,
    READ_BUFFER,
    WRITE_BUFFER,
    NcpConnection,
    NcpNode,
    NcpServer,
)
from posthouse.protocols.ncp.settings import NcpSettings
from posthouse.security.access import Caller
from posthouse.wire.ncp import framing as ncp
from tests.support.loop_server import LoopServer, turn, until

T = TypeVar("T")
HOST, PASSWORD = "127.0.0.1", "SECRET"


class House(LoopServer):
    """A queue manager with its NCP port, a user and a queue."""

    def __init__(self, settings: NcpSettings | None = None, limit: int = 1 << 30) -> None:
        super().__init__("ALPHA", settings=EngineSettings("ALPHA"))
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
        manager.certificates.key_file = lambda: bytes(32)
        root = manager.stations.begin("test")
        manager.bindery.enter(root, Caller.administrator())
        manager.bindery.create_object(root, NWOT_USER, "ALICE")
        manager.bindery.change_object_password(root, NWOT_USER, "ALICE", "", PASSWORD)
        queues = manager.jobs
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


@pytest.mark.spec("NCP lost connections/4", "NCP lost connections/1")
def test_a_client_over_udp_that_stays_silent_is_lost() -> None:
    settings = NcpSettings(watchdog_delay_ms=50, watchdog_interval_ms=20, watchdog_count=2)

    async def work() -> None:
        async with house(settings) as made:
            alice = await made.client(udp=True)
            with alice.link._lock:  # its thread answers nothing meanwhile
                await until(lambda: made.node.protocol.figures.refused == {"silent": 1})
            assert made.node.protocol.figures.polled == 2
            assert not await made.desk.run(lambda m: m.stations.all())
            await asyncio.to_thread(alice.close)

    run(work)


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
    alone = "127.0.83.1"  # of this test: connections of others use ports of HOST

    async def work() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind((alone, 0))
            made = House()
            port = taken.getsockname()[1]
            with pytest.raises(OSError, match="in use"):
                await made.server.start(alone, port)
            with socket.socket() as free:  # TCP is given up again
                free.bind((alone, port))
            await made.desk.stop()

    run(work)


class Unlucky(NcpServer):
    """Gets ports of the system that somebody else has on UDP."""

    def __init__(self, node: NcpNode, code: int, times: int) -> None:
        super().__init__(node)
        self.code = code
        self.left = times
        self.tries = 0

    async def _start(self, host: str, port: int) -> str:
        self.tries += 1
        if self.left:
            self.left -= 1
            raise OSError(self.code, "somebody has it")
        return await super()._start(host, port)


@pytest.mark.parametrize(
    ("code", "times", "port", "tries"),
    [
        (errno.EADDRINUSE, 3, 0, 4),
        (errno.EADDRINUSE, PORT_TRIES - 1, 0, PORT_TRIES),
        (errno.EADDRINUSE, PORT_TRIES, 0, PORT_TRIES),
        (errno.EADDRINUSE, 1, 10524, 1),
        (errno.EACCES, 1, 0, 1),
    ],
    ids=["some", "many", "too many", "given", "another reason"],
)
def test_a_port_of_the_system_is_looked_for_until_both_are_free(
    code: int, times: int, port: int, tries: int
) -> None:
    async def work() -> None:
        made = House()
        server = Unlucky(made.node, code, times)
        if tries > times:
            assert (await server.start(HOST, port)).startswith(f"{HOST}:")
        else:
            with pytest.raises(OSError, match="somebody has it"):
                await server.start(HOST, port)
        assert server.tries == tries
        await server.stop(0.0)
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


def pdu(function: int, data: bytes = b"", connection: int = 1) -> bytes:
    request = ncp.Request(ncp.REQUEST, 1, connection, 1, function, data)
    return ncp.frame_request(ncp.write_request(request))


CREATE = ncp.frame_request(
    ncp.write_request(ncp.Request(ncp.CREATE_CONNECTION, 1, 0xFFFF, 1, 0, b"\0"))
)
INFORMATION = pdu(0x17, ncp.write_subfunction(0x11, b""))
LONG = b"DmdT" + struct.pack(">II", 100_000, 1)  # the front of a request


async def connection(made: House) -> tuple[socket.socket, NcpConnection]:
    """A TCP connection, with the server's side of it."""
    loop = asyncio.get_running_loop()
    before = set(made.node.open)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
    client.setblocking(False)
    await loop.sock_connect(client, (HOST, made.port))
    await until(lambda: len(made.node.open) > len(before))
    (side,) = made.node.open - before
    return client, side


def is_read(side: NcpConnection) -> bool:
    return side._transport.is_reading()


def test_a_client_that_reads_nothing_is_not_read_either() -> None:
    """What the server keeps for it has an end, and all is answered once it reads."""

    async def work() -> None:
        async with house() as made:
            loop = asyncio.get_running_loop()
            client, side = await connection(made)
            accepted = side._transport.get_extra_info("socket")
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 << 10)
            await loop.sock_sendall(client, CREATE)
            assert len(await loop.sock_recv(client, 16)) == 16
            count, size = 10_000, 8 + 8 + 128  # 1.4 MB of answers: more than sockets take
            asking = asyncio.create_task(loop.sock_sendall(client, INFORMATION * count))
            await until(lambda: not side.writable)
            assert not is_read(side)
            memory = made.node.memory
            assert WRITE_BUFFER < memory.bytes[SEND] < WRITE_BUFFER + READ_BUFFER
            assert memory.held < WRITE_BUFFER + 4 * READ_BUFFER
            got = 0
            while got < count * size:
                got += len(await loop.sock_recv(client, 1 << 20))
            await asking
            assert (got, is_read(side)) == (count * size, True)
            assert memory.held == 0
            client.close()
            await until(lambda: not made.node.open)

    run(work)


@pytest.mark.spec("NCP lost connections/1")
def test_connections_are_kept_alive_so_that_lost_clients_are_noticed() -> None:
    async def work() -> None:
        async with house() as made:
            client, side = await connection(made)
            accepted = side._transport.get_extra_info("socket")
            asked = [
                accepted.getsockopt(level, name)
                for level, name in (
                    (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                    (socket.IPPROTO_TCP, socket.TCP_NODELAY),
                    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
                    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
                    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
                )
            ]
            assert [bool(one) for one in asked[:2]] == [True, True]
            assert asked[2:] == [30, 10, 3]  # gone within a minute
            client.close()
            await until(lambda: not made.node.open)

    run(work)


def test_what_a_connection_holds_is_on_the_account_of_memory() -> None:
    async def work() -> None:
        async with house() as made:
            loop, memory = asyncio.get_running_loop(), made.node.memory
            client, _ = await connection(made)
            await loop.sock_sendall(client, CREATE)
            await loop.sock_recv(client, 16)
            part = LONG + bytes(70_000)
            await loop.sock_sendall(client, part)
            await until(lambda: memory.bytes[RECEIVE] == len(part))
            assert memory.begun[HOST] == 1  # a large one is on its way
            assert memory.held == len(part)
            await loop.sock_sendall(client, bytes(100_000 - len(part)))  # zeros are not a request
            await until(lambda: not made.node.open)
            assert (memory.held, memory.begun[HOST]) == (0, 0)
            client.close()

    run(work)


def test_a_large_request_is_over_when_it_is_whole() -> None:
    async def work() -> None:
        async with house() as made:
            loop, memory = asyncio.get_running_loop(), made.node.memory
            client, side = await connection(made)
            await loop.sock_sendall(client, CREATE)
            await loop.sock_recv(client, 16)
            whole = pdu(0x49, bytes(13) + bytes(90_000))
            await loop.sock_sendall(client, whole[:70_000])
            await until(lambda: memory.begun[HOST] == 1)
            await loop.sock_sendall(client, whole[70_000:])
            assert len(await loop.sock_recv(client, 100)) == 16
            assert (memory.held, memory.begun[HOST], is_read(side)) == (0, 0, True)
            client.close()
            await until(lambda: not made.node.open)

    run(work)


def test_a_little_that_is_not_sent_yet_is_not_counted() -> None:
    """Nobody tells when the last of it is gone: it would stay on the account."""

    async def work() -> None:
        async with house() as made:
            loop = asyncio.get_running_loop()
            client, side = await connection(made)
            accepted = side._transport.get_extra_info("socket")
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 10)
            await loop.sock_sendall(client, CREATE)
            await loop.sock_recv(client, 16)
            protocol, sent = made.node.protocol, 0

            def all_run() -> bool:
                return sum(protocol.figures.calls.values()) == sent

            while not side._transport.get_write_buffer_size():
                await loop.sock_sendall(client, INFORMATION * 16)
                sent += 16
                await until(all_run)
            assert side._transport.get_write_buffer_size() <= SMALL_REQUEST
            assert made.node.memory.bytes[SEND] == 0
            client.close()
            await until(lambda: not made.node.open)

    run(work)


def test_answers_that_wait_for_the_disk_are_on_the_account_of_memory() -> None:
    async def work() -> None:
        async with house() as made:
            client, side = await connection(made)
            memory = made.node.memory
            made.node.buffer[: len(CREATE)] = CREATE
            side.buffer_updated(len(CREATE))  # not decided before the loop turns
            assert side.is_answering
            assert memory.bytes[UNSYNCED] == len(CREATE) - 16
            await until(lambda: not side.is_answering)
            assert memory.held == 0
            client.close()
            await until(lambda: not made.node.open)

    run(work)


def test_nothing_more_is_read_while_the_disk_is_behind() -> None:
    async def work() -> None:
        async with house() as made:
            client, side = await connection(made)
            memory = made.node.memory
            memory.unsynced_max = 4
            made.node.buffer[: len(CREATE)] = CREATE
            side.buffer_updated(len(CREATE))
            assert not is_read(side)
            await until(lambda: is_read(side))  # it is answered
            assert memory.held == 0
            client.close()
            await until(lambda: not made.node.open)

    run(work)


def test_a_large_request_waits_while_memory_is_short_and_small_ones_do_not() -> None:
    async def work() -> None:
        async with house(limit=1 << 20) as made:
            loop, memory = asyncio.get_running_loop(), made.node.memory
            other = memory.open("192.0.2.1", lambda reason: None, lambda: None)
            other.take(RECEIVE, 600_000)
            assert memory.short
            client, side = await connection(made)
            assert len(side.get_buffer(-1)) == SMALL_REQUEST
            await loop.sock_sendall(client, CREATE + INFORMATION)
            await until(lambda: bool(made.node.protocol.services))
            assert is_read(side)
            await loop.sock_sendall(client, LONG + bytes(70_000))
            await until(lambda: not is_read(side))
            held = memory.bytes[RECEIVE]
            other.leave()  # there is room again
            assert is_read(side)
            assert memory.begun[HOST] == 1
            assert len(side.get_buffer(-1)) == READ_BUFFER
            assert memory.bytes[RECEIVE] == held - 600_000
            client.close()
            await until(lambda: not made.node.open)
            assert memory.held == 0

    run(work)


def test_memory_that_runs_out_ends_the_connection_with_the_largest_request() -> None:
    async def work() -> None:
        async with house(limit=200_000) as made:
            loop = asyncio.get_running_loop()
            client, _ = await connection(made)
            await loop.sock_sendall(client, LONG + bytes(99_000))
            await until(lambda: made.node.memory.bytes[RECEIVE] > 99_000)
            other = made.node.memory.open("192.0.2.1", lambda reason: None, lambda: None)
            other.take(RECEIVE, 80_000)
            await until(lambda: not made.node.open)
            (reason,) = made.node.protocol.figures.refused
            assert "memory is short" in reason
            client.close()

    run(work)


def test_requests_that_are_not_looked_at_have_a_limit() -> None:
    """A client that does not read its answers cannot fill the server with requests."""

    async def work() -> None:
        async with house() as made:
            client, side = await connection(made)
            made.node.held_max = 100
            side.writable = False  # its session takes nothing
            made.node.buffer[:200] = bytes(200)
            side.buffer_updated(100)
            assert side._session is not None
            assert side._session.held_bytes == 100
            side.writable = True
            side._read_or_wait()
            assert is_read(side)
            side.writable = False
            side.buffer_updated(1)
            side.writable = True
            side._read_or_wait()
            assert not is_read(side)
            client.close()
            side.abort()
            await until(lambda: not made.node.open)

    run(work)


def test_a_stop_reads_nothing_more() -> None:
    async def work() -> None:
        made = House()
        await made.start()
        loop = asyncio.get_running_loop()
        client, side = await connection(made)
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.node.stopping = True
        side.stop_reading()
        assert not is_read(side)
        made.node.buffer[: len(CREATE)] = CREATE
        side.buffer_updated(len(CREATE))
        datagrams.sendto(CREATE[16:], (HOST, made.port))
        for _ in range(20):
            await turn()
        assert (made.node.memory.held, made.node.protocol.services) == (0, {})
        await made.server.stop(1.0)
        assert await loop.sock_recv(client, 1) == b""
        datagrams.close()
        client.close()
        await made.desk.stop()

    run(work)


@pytest.mark.parametrize("udp", [False, True], ids=["tcp", "udp"])
def test_a_stop_waits_for_answers_that_are_not_durable_yet(udp: bool) -> None:
    async def work() -> None:
        made = House()
        await made.start()
        loop = asyncio.get_running_loop()
        if udp:
            client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            client.setblocking(False)
            await loop.sock_connect(client, (HOST, made.port))
            await loop.sock_sendall(client, CREATE[16:])
            await until(lambda: made.node._is_answering() or bool(made.node.protocol.services))
        else:
            client, side = await connection(made)
            made.node.buffer[: len(CREATE)] = CREATE
            side.buffer_updated(len(CREATE))
            assert made.node._is_answering()
        await made.server.stop(5.0)
        answer = await loop.sock_recv(client, 100)
        assert ncp.read_reply(answer if udp else answer[8:]).completion == 0
        await until(lambda: not made.node.protocol.services)
        client.close()
        await made.desk.stop()

    run(work)


def test_the_clock_is_asked_for_the_next_deadline_alone() -> None:
    class Still(asyncio.SelectorEventLoop):
        def time(self) -> float:
            return 100.0

    async def work() -> None:
        made = House()
        made.node.now = lambda: 5_000
        made.node._wake_at(7_500)
        first = made.node._timer
        assert first is not None
        assert first.when() == 102.5
        made.node._wake_at(4_000)  # it is past
        assert first.cancelled()
        assert made.node._timer is not None
        assert made.node._timer.when() == 100.0
        await made.node.stop(0.0)
        assert made.node._timer.cancelled()
        await made.desk.stop()

    with asyncio.Runner(loop_factory=Still) as runner:
        runner.run(work())


@pytest.mark.spec("NCP session/7")
def test_a_stop_answers_what_was_begun_and_lets_clients_go() -> None:
    async def work() -> None:
        made = House()
        await made.start()
        alice = await made.client()
        await asyncio.to_thread(alice.create_queue_file, made.queue, NWQueueJobStruct())
        await made.server.stop(5.0)
        await until(lambda: not made.node.protocol.services)
        assert not made.manager.jobs.jobs
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


def test_a_client_that_leaves_while_it_waits_for_memory_is_noticed() -> None:
    async def work() -> None:
        patient = NcpSettings(unfinished_ms=3_600_000)
        async with house(patient, limit=1 << 20) as made:
            loop, memory = asyncio.get_running_loop(), made.node.memory
            client, _ = await connection(made)
            await loop.sock_sendall(client, CREATE)
            await loop.sock_recv(client, 16)
            hog = memory.open("192.0.2.1", lambda reason: None, lambda: None)
            hog.take(RECEIVE, memory.limit - 80_000)
            await loop.sock_sendall(client, LONG + bytes(10_000))
            await until(lambda: any(holder.waiting for holder in memory._holders))
            client.close()
            await until(lambda: not made.node.open)
            hog.leave()
            assert memory.held == 0

    run(work)
