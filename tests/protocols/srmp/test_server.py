"""SRMP on real sockets: plain, over TLS, by way of proxies; memory, limits, stops."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from posthouse.model.enumerations import ConnectionStatus
from posthouse.model.names import parse_format_name
from posthouse.net.connections import Connections
from posthouse.protocols.memory import RECEIVE, UNSYNCED, MemoryAccount
from posthouse.protocols.srmp.server import UNCOUNTED, SrmpNode, SrmpServer
from posthouse.protocols.srmp.settings import SrmpSettings
from posthouse.security.tls_certificates import make_tls_files
from tests.protocols.closed_at_once import reset_first
from tests.support.loop_server import PATIENCE_S, LoopServer, on_loop, until
from tests.support.memory_store import MemoryStore
from tests.support.srmp_posts import post


class Server(LoopServer):
    """A queue manager that listens on the loopback."""

    def __init__(
        self,
        name: str,
        settings: SrmpSettings | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        store: MemoryStore | None = None,
        **node: Any,
    ) -> None:
        super().__init__(name, store)
        self.node = SrmpNode(self.desk, settings or SrmpSettings(), **node)
        self.protocol = self.node.protocol
        self.driver.on_active = self.protocol.active
        self.doors = [SrmpServer(self.node, None, self.listening)]
        if tls is not None:
            self.doors.append(SrmpServer(self.node, tls, self.listening))
        self.ports: dict[str, int] = {}

    async def start(self, host: str = "127.0.0.1") -> None:
        for door in self.doors:
            address = await door.start(host, 0)
            self.ports[door.name] = int(address.rpartition(":")[2])

    async def stop(self, deadline_s: float = 1.0) -> None:
        await asyncio.gather(*(door.stop(deadline_s) for door in self.doors))
        await self.desk.stop()

    def url(self, name: str, scheme: str = "http", host: str = "127.0.0.1") -> str:
        return f"DIRECT={scheme.upper()}://{host}:{self.ports[scheme]}/msmq/private$/{name}"

    def history(self, to: str) -> list[int]:
        queue = self.manager.queues.find_outgoing(parse_format_name(to))
        assert queue is not None
        assert queue.outgoing is not None
        return [attempt.status for attempt in queue.outgoing.connection_history]


@asynccontextmanager
async def serving(*servers: Server) -> AsyncIterator[None]:
    for server in servers:
        await server.start()
    try:
        yield
    finally:
        for server in servers:
            await server.stop()


def message_to(server: Server, number: int = 1) -> bytes:
    return post(number, f"http://127.0.0.1:{server.ports['http']}/msmq/private$/q")


async def answer_of(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        head = await reader.readuntil(b"\r\n\r\n")
        return head[9:12]


class Tls:
    """Both sides of TLS with one certificate for 127.0.0.1."""

    def __init__(self, folder: Path, *hosts: str) -> None:
        self.folder = folder
        files = make_tls_files(list(hosts or ["127.0.0.1"]), int(time.time()), 30)
        self.certificate, self.key = folder / "tls.pem", folder / "tls.key"
        self.certificate.write_bytes(files.certificate)
        self.key.write_bytes(files.private_key)

    def server(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key)
        return context

    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))


# -- plain


@pytest.mark.spec("MC-MQSRM 2.1.1/2")
@on_loop
async def test_messages_go_from_one_queue_manager_to_another() -> None:
    alpha, beta = Server("ALPHA"), Server("BETA")
    async with serving(alpha, beta):
        await beta.create("q")
        await alpha.send(beta.url("q"), *(b"x" * 1000 for _ in range(50)))
        await until(lambda: beta.count("q") == 50)
        await until(lambda: not alpha.protocol.links.all()[0].exchange.in_flight)  # type: ignore[union-attr]
    assert alpha.protocol.figures().posts == {"200": 50}


@on_loop
async def test_a_client_that_says_it_is_done_gets_its_answer() -> None:
    beta = Server("BETA")
    async with serving(beta):
        await beta.create("q")
        reader, writer = await asyncio.open_connection("127.0.0.1", beta.ports["http"])
        writer.write(message_to(beta))
        writer.write_eof()
        assert await answer_of(reader) == b"200"
        assert await reader.read() == b""
        writer.close()
    assert beta.count("q") == 1


@on_loop
async def test_a_connection_that_is_closed_at_once_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alpha, beta = Server("ALPHA", SrmpSettings(retransmission_ms=10)), Server("BETA")
    async with serving(alpha, beta):
        await beta.create("q")
        ports = reset_first(monkeypatch)
        await alpha.send(beta.url("q"), b"one")
        await until(lambda: beta.count("q") == 1)
        assert ports == [beta.ports["http"]] * 2
        assert alpha.history(beta.url("q")) == [
            ConnectionStatus.SOCKET_CONNECT_FAILURE,
            ConnectionStatus.ESTABLISHED,
        ]


@on_loop
async def test_a_large_message_goes_both_ways_and_counts_in_the_account() -> None:
    memory = MemoryAccount()
    alpha, beta = Server("ALPHA"), Server("BETA", memory=memory)
    async with serving(alpha, beta):
        await beta.create("q")
        await alpha.send(beta.url("q"), b"x" * 3_900_000)
        await until(lambda: beta.count("q") == 1)
        await until(lambda: memory.held == 0)


@on_loop
async def test_what_has_no_room_in_memory_is_closed() -> None:
    memory = MemoryAccount(limit=1 << 20)
    beta = Server("BETA", memory=memory)
    async with serving(beta):
        await beta.create("q")
        reader, writer = await asyncio.open_connection("127.0.0.1", beta.ports["http"])
        head = b"POST /msmq/q HTTP/1.1\r\nHost: b\r\nContent-Length: 4000000\r\n\r\n"
        writer.write(head + bytes(3_900_000))
        with pytest.raises(ConnectionError):
            await reader.readexactly(1)
        writer.close()
        await until(lambda: memory.held == 0)
    assert beta.protocol.refusals


@on_loop
async def test_connections_are_limited() -> None:
    beta = Server("BETA", connections=Connections(1, 1))
    async with serving(beta):
        await beta.create("q")
        _, first = await asyncio.open_connection("127.0.0.1", beta.ports["http"])
        await until(lambda: len(beta.protocol.connections) == 1)
        reader, second = await asyncio.open_connection("127.0.0.1", beta.ports["http"])
        assert await reader.read() == b""
        first.close()
        second.close()
    assert sum(beta.protocol.refusals.values()) == 1


@on_loop
async def test_who_does_not_read_answers_gets_no_more_of_them() -> None:
    beta = Server("BETA")
    asked, stuck = 0, 0

    def is_stuck() -> bool:
        nonlocal asked, stuck
        try:
            asked, stuck = asked + peer.send(b"GET / HTTP/1.1\r\nHost:b\r\n\r\n" * 1000), 0
        except BlockingIOError:
            stuck += 1
        assert asked < 32 << 20
        return stuck > 500

    def has_read() -> bool:
        with suppress(BlockingIOError):
            peer.recv(1 << 20)
        return wire.writable

    async with serving(beta):
        with socket.create_connection(("127.0.0.1", beta.ports["http"])) as peer:
            peer.setblocking(False)
            await until(is_stuck)
            (wire,) = beta.node.open
            assert not wire.writable
            assert beta.node.memory.held < 8 << 20
            await until(has_read)
            answered = beta.protocol.figures().requests["405"]
            await until(lambda: has_read() and beta.protocol.figures().requests["405"] > answered)


@on_loop
async def test_silent_connections_are_closed() -> None:
    beta = Server("BETA", SrmpSettings(idle_ms=50, request_ms=50))
    async with serving(beta):
        silent, writer = await asyncio.open_connection("127.0.0.1", beta.ports["http"])
        slow, other = await asyncio.open_connection("127.0.0.1", beta.ports["http"])
        other.write(b"POST /msmq")
        assert await silent.read() == b""
        assert await answer_of(slow) == b"408"
        writer.close()
        other.close()


@on_loop
async def test_a_stop_answers_what_has_come() -> None:
    beta = Server("BETA")
    await beta.start()
    await beta.create("q")
    reader, writer = await asyncio.open_connection("127.0.0.1", beta.ports["http"])
    writer.write(message_to(beta))
    await until(lambda: beta.protocol.figures().connections == 1)
    await until(lambda: beta.count("q") == 1)
    await beta.stop()
    assert await answer_of(reader) == b"200"
    assert await reader.read() == b""
    writer.close()


class HeldStore(MemoryStore):
    """Syncs when the test lets it, and in the thread for that."""

    unsynced_bytes = 1 << 20

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()

    def sync(self) -> None:
        assert self.gate.wait(PATIENCE_S)
        super().sync()


@on_loop
async def test_a_stop_waits_for_the_disk_as_long_as_it_may() -> None:
    store = HeldStore()
    beta = Server("BETA", store=store)
    await beta.start()
    await beta.create("q")
    reader, writer = await asyncio.open_connection("127.0.0.1", beta.ports["http"])
    store.gate.clear()
    writer.write(message_to(beta))
    await until(lambda: beta.count("q") == 1)
    stopping = asyncio.create_task(beta.doors[0].stop(PATIENCE_S))
    await until(lambda: beta.protocol.stopping)
    for _ in range(20):
        await asyncio.wait({stopping}, timeout=0)
    assert not stopping.done()
    store.gate.set()
    await stopping
    await beta.desk.stop()
    assert await answer_of(reader) == b"200"
    writer.close()


@on_loop
async def test_small_requests_that_wait_for_the_disk_are_counted_where_it_is_behind() -> None:
    """The connection itself takes more; a larger request, or several, always count."""
    store, memory = HeldStore(), MemoryAccount(unsynced_max=1 << 20)
    beta = Server("BETA", store=store, memory=memory)
    async with serving(beta):
        await beta.create("q")
        other = memory.open("192.0.2.1", lambda reason: None, lambda: None)
        for waits, taken, counts in ((1, 0, False), (8, 0, True), (1, 2 << 20, True)):
            reader, writer = await asyncio.open_connection("127.0.0.1", beta.ports["http"])
            store.gate.clear()
            before = beta.count("q")
            other.take(UNSYNCED, taken)
            for number in range(waits):
                writer.write(message_to(beta, 100 * waits + taken + number))
            await until(lambda: beta.count("q") > before)  # noqa: B023
            (wire,) = beta.node.open
            assert wire._holder is not None
            assert (wire._holder.bytes[UNSYNCED] > 0) is counts
            assert wire._holder.waiting is (taken > 0)
            store.gate.set()
            for _ in range(waits):
                assert await answer_of(reader) == b"200"
            await until(lambda: not wire._holder.held)  # noqa: B023
            other.give(UNSYNCED, taken)
            writer.close()
            await until(lambda: not beta.node.open)


@on_loop
async def test_small_requests_of_many_connections_do_not_get_ahead_of_the_disk() -> None:
    store, memory = HeldStore(), MemoryAccount(unsynced_max=32 << 10)
    beta = Server("BETA", store=store, memory=memory)
    async with serving(beta):
        await beta.create("q")
        opened = [await asyncio.open_connection("127.0.0.1", beta.ports["http"]) for _ in range(60)]
        store.gate.clear()
        for number, (_, writer) in enumerate(opened):
            writer.write(message_to(beta, 1 + number))
        await until(lambda: beta.protocol.unsynced_bytes > 60 * len(message_to(beta)))
        left_out = beta.protocol.unsynced_bytes - memory.bytes[UNSYNCED]
        assert 0 <= left_out <= memory.unsynced_max // UNCOUNTED
        assert any(wire._holder is not None and wire._holder.waiting for wire in beta.node.open)
        store.gate.set()
        for number, (reader, writer) in enumerate(opened):
            assert await answer_of(reader) == b"200"
            writer.write(message_to(beta, 101 + number))
        assert [await answer_of(reader) for reader, _ in opened] == [b"200"] * 60
        await until(lambda: not memory.held)
        assert beta.protocol.unsynced_bytes == 0
        for _, writer in opened:
            writer.close()


@on_loop
async def test_requests_that_come_while_a_turn_is_open_are_decided_in_it() -> None:
    beta = Server("BETA")
    beta.node.turns = beta.desk
    async with serving(beta):
        await beta.create("q")
        reader, writer = await asyncio.open_connection("127.0.0.1", beta.ports["http"])
        await until(lambda: len(beta.node.open) == 1)
        (wire,) = beta.node.open
        turns = beta.desk.turns
        wire._take(message_to(beta, 1))
        # The turn begins in the next round, and this comes before its end.
        asyncio.get_running_loop().call_soon(wire._take, message_to(beta, 2))
        await until(lambda: beta.count("q") == 2)
        assert beta.desk.turns == turns + 1
        assert [await answer_of(reader) for _ in range(2)] == [b"200", b"200"]
        writer.close()


@on_loop
async def test_a_connection_that_was_full_is_read_again() -> None:
    beta = Server("BETA", SrmpSettings(pending_max=1))
    async with serving(beta):
        await beta.create("q")
        reader, writer = await asyncio.open_connection("127.0.0.1", beta.ports["http"])
        for number in range(1, 4):
            writer.write(message_to(beta, number))
            assert await answer_of(reader) == b"200"
        writer.close()


@on_loop
async def test_nobody_there_is_a_failure_that_is_told() -> None:
    alpha, beta = Server("ALPHA"), Server("BETA")
    await beta.start()
    to = beta.url("q")
    await beta.stop()
    async with serving(alpha):
        await alpha.send(to, b"one")
        await until(lambda: len(alpha.history(to)) == 1)
        assert alpha.history(to) == [ConnectionStatus.CONNECTION_REFUSED]
        name = "DIRECT=HTTP://no-such-host.invalid/msmq/q"
        await alpha.send(name, b"one")
        await until(lambda: len(alpha.history(name)) == 1)
        assert alpha.history(name) == [ConnectionStatus.DNS_FAILURE]


# -- over TLS


@pytest.mark.spec("MC-MQSRM 2.1.1/3")
@on_loop
async def test_messages_go_over_tls(tmp_path: Path) -> None:
    tls = Tls(tmp_path)
    alpha, beta = Server("ALPHA", trust=tls.client()), Server("BETA", tls=tls.server())
    async with serving(alpha, beta):
        await beta.create("q")
        await alpha.send(beta.url("q", "https"), b"one", b"x" * 500_000)
        await until(lambda: beta.count("q") == 2)
    assert alpha.protocol.figures().posts == {"200": 2}


@pytest.mark.spec("MC-MQSRM 2.1.1/3")
@on_loop
async def test_a_peer_that_is_not_trusted_gets_nothing(tmp_path: Path) -> None:
    tls = Tls(tmp_path)
    alpha, beta = Server("ALPHA"), Server("BETA", tls=tls.server())
    async with serving(alpha, beta):
        await beta.create("q")
        to = beta.url("q", "https")
        await alpha.send(to, b"one")
        await until(lambda: bool(alpha.history(to)))
        assert alpha.history(to) == [ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE]
        assert beta.count("q") == 0


@on_loop
async def test_a_certificate_for_another_host_is_not_trusted(tmp_path: Path) -> None:
    tls = Tls(tmp_path, "other.example")
    alpha, beta = Server("ALPHA", trust=tls.client()), Server("BETA", tls=tls.server())
    async with serving(alpha, beta):
        to = beta.url("q", "https")
        await alpha.send(to, b"one")
        await until(lambda: bool(alpha.history(to)))
        assert alpha.history(to) == [ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE]


@on_loop
async def test_senders_without_a_certificate_are_turned_away_where_one_is_needed(
    tmp_path: Path,
) -> None:
    tls = Tls(tmp_path)
    context = tls.server()
    context.load_verify_locations(tls.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    known = tls.client()
    known.load_cert_chain(tls.certificate, tls.key)
    alpha, gamma = Server("ALPHA", trust=tls.client()), Server("GAMMA", trust=known)
    beta = Server("BETA", tls=context)
    async with serving(alpha, gamma, beta):
        await beta.create("q")
        to = beta.url("q", "https")
        await alpha.send(to, b"stranger")
        await gamma.send(to, b"friend")
        await until(lambda: beta.count("q") == 1)
        await until(lambda: len(alpha.history(to)) > 1 or alpha.history(to)[-1] >= 1 << 31)
        assert alpha.protocol.figures().posts == {}


# -- by way of a proxy


class Proxy:
    """Opens the way to where CONNECT says, and passes bytes on."""

    def __init__(self, status: bytes = b"200 Connection established") -> None:
        self.status = status
        self.asked: list[bytes] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head.partition(b"\r\n")[0])
        writer.write(b"HTTP/1.1 " + self.status + b"\r\n\r\n")
        if not self.status.startswith(b"200"):
            writer.close()
            return
        host, _, port = head.split(b" ")[1].rpartition(b":")
        there, onward = await asyncio.open_connection(host.decode(), int(port))
        self._tasks = [
            asyncio.create_task(self._pass(reader, onward)),
            asyncio.create_task(self._pass(there, writer)),
        ]

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@on_loop
async def test_tls_goes_through_a_proxy_that_sees_nothing_of_it(tmp_path: Path) -> None:
    tls, proxy = Tls(tmp_path), Proxy()
    settings = SrmpSettings(proxy=f"http://127.0.0.1:{await proxy.start()}")
    alpha, beta = Server("ALPHA", settings, trust=tls.client()), Server("BETA", tls=tls.server())
    async with serving(alpha, beta):
        await beta.create("q")
        await alpha.send(beta.url("q", "https"), b"one", b"two")
        await until(lambda: beta.count("q") == 2)
        assert proxy.asked == [f"CONNECT 127.0.0.1:{beta.ports['https']} HTTP/1.1".encode()]
    await proxy.stop()


@on_loop
async def test_a_proxy_that_says_no_is_a_failure_that_is_told(tmp_path: Path) -> None:
    tls, proxy = Tls(tmp_path), Proxy(b"407 Proxy Authentication Required")
    settings = SrmpSettings(proxy=f"http://127.0.0.1:{await proxy.start()}")
    alpha, beta = Server("ALPHA", settings, trust=tls.client()), Server("BETA", tls=tls.server())
    async with serving(alpha, beta):
        to = beta.url("q", "https")
        await alpha.send(to, b"one")
        await until(lambda: bool(alpha.history(to)))
        (link,) = alpha.protocol.links.all()
        assert "407" in link.last_error
    await proxy.stop()


def long_post(to: str, size: int) -> bytes:
    """A request with a message, and spaces after its envelope."""
    head, _, payload = post(1, to, target="/msmq/private$/q").partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")]
    lines.append(b"Content-Length: %d" % size)
    return b"\r\n".join([*lines, b"", payload.ljust(size)])


@pytest.mark.parametrize("whole", [False, True])
def test_a_client_that_leaves_while_it_waits_for_memory(whole: bool) -> None:
    """Half a request goes with its client. A whole one may be of a client that still reads."""

    @on_loop
    async def work() -> None:
        memory = MemoryAccount(limit=4 << 20)
        beta = Server("BETA", memory=memory)
        async with serving(beta):
            await beta.create("q")
            request = long_post(beta.url("q"), 120_000)
            hog = memory.open("192.0.2.1", lambda reason: None, lambda: None)
            hog.take(RECEIVE, memory.limit - 100_000)
            reader, writer = await asyncio.open_connection("127.0.0.1", beta.ports["http"])
            writer.write(request if whole else request[:90_000])
            await until(lambda: any(holder.waiting for holder in memory._holders))
            assert len(beta.node.open) == 1
            writer.write_eof()
            if whole:
                await until(lambda: not beta.node.departures._watched)  # its end was noticed
                assert len(beta.node.open) == 1
                hog.leave()
                assert (await reader.readline()).startswith(b"HTTP/1.1 ")  # it was read whole
            else:
                await until(lambda: not beta.node.open)
                assert beta.count("q") == 0
                hog.leave()
            writer.close()

    work()
