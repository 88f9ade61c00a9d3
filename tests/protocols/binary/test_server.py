"""The binary protocol on real sockets: loopback, both families, limits, memory, the stop."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable
from typing import Any
from weakref import ref

import pytest

from posthouse.net.connections import Connections
from posthouse.protocols.binary.settings import BinarySettings, PingSettings
from posthouse.protocols.memory import MemoryAccount
from posthouse.protocols.streams import WRITE_BUFFER
from posthouse.store.errors import StoreFailed
from posthouse.wire.binary.internal import (
    CONNECTION_PARAMETERS_SIZE,
    ESTABLISH_CONNECTION_SIZE,
    connection_parameters,
    establish_connection,
    read_establish_connection,
)
from posthouse.wire.binary.ping import ping_request, read_ping
from posthouse.wire.packet.headers import BASE_HEADER, BaseFlags, BaseHeader
from tests.conftest import Dose
from tests.protocols.binary.socket_rig import Server, serving
from tests.protocols.closed_at_once import reset_first
from tests.support.loop_server import on_loop, turn, until
from tests.support.stranger_socket import STRANGER, Stranger, has_ipv6

MIB = 1 << 20


# -- messages


@pytest.mark.spec("MS-MQQB 2.1.1/1", "MS-MQQB 2.1.1/3", "MS-MQQB 2.1.1/5")
@on_loop
async def test_messages_of_all_kinds_go_from_one_to_the_other() -> None:
    async with serving("ALPHA") as alpha, serving("BETA") as beta:
        await beta.create("orders")
        await beta.create("exact", transactional=True)
        orders = rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\orders"
        exact = rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\exact"
        await alpha.send(orders, *[b"express"] * 100, express=True)
        await alpha.send(orders, *[b"recoverable"] * 100)
        await alpha.send_in_transaction(exact, *[b"%d" % n for n in range(100)])
        await until(lambda: beta.count("orders") == 200 and beta.count("exact") == 100)
        assert await beta.bodies("exact") == [b"%d" % n for n in range(100)]
        await until(lambda: not alpha.outgoing(orders).state.count)
        await until(lambda: not alpha.outgoing(exact).state.count)
        assert alpha.protocol.figures().sessions == {("initiator", "OPEN"): 1}


@on_loop
async def test_a_connection_that_is_closed_at_once_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = BinarySettings(retry_connect_ms=10, retry_connect_max_ms=10)
    async with serving("ALPHA", settings=settings) as alpha, serving("BETA") as beta:
        await beta.create("orders")
        ports = reset_first(monkeypatch)
        await alpha.send(rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\orders", b"one")
        await until(lambda: beta.count("orders") == 1)
        assert ports == [beta.port] * 2


@on_loop
async def test_a_large_message_arrives_whole() -> None:
    async with serving("ALPHA") as alpha, serving("BETA") as beta:
        await beta.create("orders")
        body = bytes(range(256)) * 12_000
        await alpha.send(rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\orders", body, body)
        await until(lambda: beta.count("orders") == 2)
        assert await beta.bodies("orders") == [body, body]
        await until(lambda: alpha.node.memory.held == beta.node.memory.held == 0)


@on_loop
async def test_a_host_name_is_resolved_by_the_system() -> None:
    async with serving("ALPHA") as alpha, serving("BETA") as beta:
        await beta.create("orders")
        name = rf"DIRECT=OS:localhost:{beta.port}\private$\orders"
        await alpha.send(name, b"one")
        await until(lambda: beta.count("orders") == 1)
        queue = alpha.outgoing(name)
        assert queue.outgoing is not None
        assert queue.outgoing.next_hops == ("IP=127.0.0.1",)


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
@on_loop
async def test_ipv6_is_as_good() -> None:
    async with serving("ALPHA") as alpha, serving("BETA", "::1") as beta:
        assert beta.address == f"[::1]:{beta.port}"
        await beta.create("orders")
        name = rf"DIRECT=TCP:[::1]:{beta.port}\private$\orders"
        await alpha.send(name, b"one")
        await until(lambda: beta.count("orders") == 1)
        queue = alpha.outgoing(name)
        assert queue.outgoing is not None
        assert queue.outgoing.next_hops == ("IPv6=::1",)


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
@on_loop
async def test_all_addresses_of_ipv6_are_those_of_ipv4_too() -> None:
    async with serving("ALPHA") as alpha, serving("BETA", "::") as beta:
        await beta.create("orders")
        for host in ("[::1]", "127.0.0.1"):
            await alpha.send(rf"DIRECT=TCP:{host}:{beta.port}\private$\orders", b"one")
        await until(lambda: beta.count("orders") == 2)
        assert {session.remote_address for session in beta.protocol.sessions} == {
            "::1",
            "127.0.0.1",
        }
        loop = asyncio.get_running_loop()
        port = int(beta.ping_address.rpartition(":")[2])
        for host in ("::1", "127.0.0.1"):
            transport, asker = await loop.create_datagram_endpoint(Asker, remote_addr=(host, port))
            transport.sendto(ping_request(STRANGER, 1))
            await until(lambda asker=asker: bool(asker.heard))  # type: ignore[misc]
            transport.close()


@on_loop
async def test_a_destination_that_is_not_there_is_told_in_words() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with serving("ALPHA") as alpha:
        name, host = rf"DIRECT=TCP:127.0.0.1:{port}\private$\orders", "x" * 70
        await alpha.send(name, b"one")
        await alpha.send(rf"DIRECT=OS:{host}\private$\orders", b"two")
        refused, unknown = (
            alpha.outgoing(name).outgoing,
            alpha.outgoing(rf"DIRECT=OS:{host}\private$\orders").outgoing,
        )
        assert refused is not None
        assert unknown is not None
        await until(lambda: bool(refused.last_error and unknown.last_error))
        assert refused.last_error == f"there is no listener on 127.0.0.1 port {port}"
        assert unknown.last_error.startswith(f"{host} cannot be resolved: ")


@on_loop
async def test_a_listener_that_comes_later_gets_what_waits() -> None:
    settings = BinarySettings(retry_connect_ms=10, retry_connect_max_ms=10)
    async with serving("ALPHA", settings=settings) as alpha:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        name = rf"DIRECT=TCP:127.0.0.1:{port}\private$\orders"
        await alpha.send(name, b"one")
        await until(lambda: len(alpha.outgoing(name).outgoing.connection_history) > 2)  # type: ignore[union-attr]
        beta = Server("BETA")
        await beta.create("orders")
        await beta.door.start("127.0.0.1", port)
        await until(lambda: beta.count("orders") == 1)
        await beta.stop()


# -- strangers


@pytest.mark.spec("MS-MQQB 2.1.1/7")
@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n" * 2,
        b"\x00" * 600,
        establish_connection(STRANGER, time_stamp=1) * 2,
    ],
)
@on_loop
async def test_what_is_no_session_is_closed_and_others_go_on(data: bytes) -> None:
    async with serving("ALPHA") as alpha, serving("BETA") as beta:
        await beta.create("orders")
        stranger = await Stranger.connect(beta)
        stranger.writer.write(data)
        stranger.writer.write_eof()
        while await stranger.reader.read(1 << 16):
            pass
        stranger.close()
        await alpha.send(rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\orders", b"one")
        await until(lambda: beta.count("orders") == 1)
        assert beta.protocol.figures().refused


@on_loop
async def test_a_connection_that_says_nothing_is_closed_after_a_while() -> None:
    async with serving(settings=BinarySettings(initialization_ms=20)) as beta:
        stranger = await Stranger.connect(beta)
        assert await stranger.is_closed()
        assert not beta.node.open
        stranger.close()


@on_loop
async def test_connections_above_the_limit_are_turned_away() -> None:
    async with serving(connections=Connections(2, 3)) as beta:
        first, second = await Stranger.connect(beta), await Stranger.connect(beta)
        await first.open()
        await second.open()
        third = await Stranger.connect(beta)
        assert await third.is_closed()
        assert beta.protocol.refusals == {"too many connections": 1}
        first.close()
        await until(lambda: len(beta.node.open) == 1)
        fourth = await Stranger.connect(beta)
        await fourth.open()
        for one in (second, third, fourth):
            one.close()


@on_loop
async def test_sessions_above_the_limit_hear_that_they_are_refused() -> None:
    """Decision 74."""
    settings = BinarySettings(sessions_max=1, refusal_linger_ms=20)
    async with serving(settings=settings) as beta:
        first, second = await Stranger.connect(beta), await Stranger.connect(beta)
        await first.open()
        second.writer.write(establish_connection(b"\x66" * 16, time_stamp=1))
        answer = await second.reader.readexactly(ESTABLISH_CONNECTION_SIZE)
        assert read_establish_connection(answer).refused
        assert await second.is_closed()
        first.close()
        second.close()


# -- memory


def half_a_packet(size: int = 4 * MIB) -> bytes:
    """The first half of a user message."""
    header = BaseHeader(flags=BaseFlags.of(priority=3), packet_size=size)
    return BASE_HEADER.pack(header) + bytes(size // 2 - BASE_HEADER.size)


@on_loop
async def run_with_halves(count: int) -> None:
    """Sessions that each stop in the middle of a 4 MB packet, beside one that works."""
    memory = MemoryAccount(limit=count * 300 << 10)
    async with serving("ALPHA") as alpha, serving("BETA", memory=memory) as beta:
        await beta.create("orders")
        strangers = [await Stranger.connect(beta) for _ in range(count)]
        half = half_a_packet()
        for number, stranger in enumerate(strangers):
            await stranger.open((number + 1).to_bytes(16, "big"))
            stranger.writer.write(half)
        name = rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\orders"
        for number in range(20):
            await alpha.send(name, b"%d" % number)
            await until(lambda seen=number: beta.count("orders") == seen + 1)  # type: ignore[misc]
        assert memory.held <= memory.limit
        for stranger in strangers:
            stranger.close()
        memory.close_slow(beta.node.now())
        await until(lambda: len(beta.node.open) == 1, 30 + count / 5)
        assert memory.held == 0


def test_sessions_that_stop_inside_a_packet_take_bounded_memory(dose: Dose) -> None:
    run_with_halves(dose(40, 2_000))


@on_loop
async def test_half_a_packet_goes_with_its_session_at_once() -> None:
    """Without the collector of circles, which may not come for minutes."""
    async with serving() as beta:
        gc.collect()
        gc.disable()
        try:
            stranger = await Stranger.connect(beta)
            await stranger.open()
            stranger.writer.write(half_a_packet())
            await until(lambda: beta.node.memory.held == 2 * MIB)
            (session,) = beta.protocol.sessions
            known = ref(session)
            del session
            stranger.close()
            await until(lambda: not beta.node.open)
            for _ in range(5):
                await turn()
            assert known() is None
        finally:
            gc.enable()


@on_loop
async def test_a_session_that_waited_for_memory_goes_on() -> None:
    memory = MemoryAccount(limit=6 * MIB)
    async with serving("ALPHA") as alpha, serving("BETA", memory=memory) as beta:
        await beta.create("orders")
        hog = await Stranger.connect(beta)
        await hog.open()
        hog.writer.write(half_a_packet())
        await until(lambda: memory.short)
        body = bytes(MIB)
        await alpha.send(rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\orders", body)
        await until(lambda: any(h.waiting for h in memory._holders))
        assert beta.count("orders") == 0
        hog.close()
        await until(lambda: beta.count("orders") == 1)
        assert await beta.bodies("orders") == [body]


@on_loop
async def test_senders_of_small_messages_wait_for_a_disk_that_is_behind() -> None:
    memory = MemoryAccount(unsynced_max=64 << 10)
    async with serving("ALPHA") as alpha, serving("BETA", memory=memory) as beta:
        await beta.create("orders")
        beta.desk._settle = lambda: None  # type: ignore[method-assign]
        body = bytes(4 << 10)
        await alpha.send(rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\orders", *[body] * 200)
        await until(lambda: any(holder.waiting for holder in memory._holders))
        (connection,) = beta.node.open
        assert not connection._transport.is_reading()
        del beta.desk._settle
        await beta.desk.run(lambda manager: None)
        await until(lambda: beta.count("orders") == 200)
        await until(lambda: memory.held == 0)


@on_loop
async def test_no_more_is_fetched_for_a_peer_that_does_not_read() -> None:
    settings = BinarySettings(window=64, send_batch=MIB)
    async with serving("ALPHA", settings=settings) as alpha:
        heard: list[asyncio.StreamReader] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            request = await reader.readexactly(ESTABLISH_CONNECTION_SIZE)
            asked = read_establish_connection(request)
            answer = establish_connection(
                asked.header.client_guid, STRANGER, time_stamp=asked.header.time_stamp
            )
            writer.write(answer)
            await reader.readexactly(CONNECTION_PARAMETERS_SIZE)
            writer.write(connection_parameters(500, 20_000, 64))
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            heard.append(reader)
            await stopped.wait()
            writer.transport.abort()

        stopped = asyncio.Event()
        listener = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 16)
        port = listener.sockets[0].getsockname()[1]
        body = bytes(MIB)
        await alpha.send(
            rf"DIRECT=TCP:127.0.0.1:{port}\private$\orders", *[body] * 60, express=True
        )
        (connection,) = await _one(lambda: list(alpha.node.open))
        await until(lambda: not connection.writable)
        for _ in range(50):
            await turn()
        unsent = connection._transport.get_write_buffer_size()
        assert WRITE_BUFFER < unsent < 4 * MIB
        assert alpha.node.memory.held >= unsent - MIB
        stopped.set()
        listener.close()


async def _one(look: Callable[[], list[Any]]) -> list[Any]:
    await until(lambda: len(look()) == 1)
    return look()


# -- pings


class Asker(asyncio.DatagramProtocol):
    """A port that pings are sent from."""

    def __init__(self) -> None:
        self.heard: list[tuple[bytes, Any]] = []

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.heard.append((data, addr))


@pytest.mark.spec("MS-MQQB 2.1.2/4", "MS-MQQB 2.1.2/5")
@on_loop
async def test_a_ping_is_answered_to_where_it_came_from_and_nothing_else_is() -> None:
    async with serving() as beta:
        loop = asyncio.get_running_loop()
        host, _, port = beta.ping_address.rpartition(":")
        transport, asker = await loop.create_datagram_endpoint(Asker, remote_addr=(host, int(port)))
        transport.sendto(b"\x00" * 24)
        transport.sendto(b"garbage")
        transport.sendto(ping_request(STRANGER, 99))
        await until(lambda: bool(asker.heard))
        ((data, _),) = asker.heard
        answer = read_ping(data)
        assert (answer.cookie, answer.queue_manager) == (99, beta.manager.machine.identifier)
        assert not answer.refused
        transport.close()


def test_pings_are_answered_on_a_name_with_several_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = [(socket.AF_INET, 0, 0, "", (one, 0)) for one in ("127.0.0.1", "127.0.0.2")]

    async def run() -> None:
        beta = Server("BETA")
        with monkeypatch.context() as patched:
            patched.setattr(socket, "getaddrinfo", lambda *args, **more: entries)
            await beta.start("name")
        assert beta.ping_address.startswith("127.0.0.1:")
        await beta.stop()

    asyncio.run(run())


@pytest.mark.spec("MS-MQQB 2.1.2/2", "MS-MQQB 2.1.2/3")
@on_loop
async def test_a_ping_of_ours_is_answered_on_the_port_it_was_sent_from() -> None:
    async with serving("BETA") as beta:
        await beta.create("orders")
        port = int(beta.ping_address.rpartition(":")[2])
        ping = PingSettings(first=True, target_port=port)
        async with serving("ALPHA", ping=ping) as alpha:
            await alpha.send(rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\orders", b"one")
            await until(lambda: beta.count("orders") == 1)
            assert beta.protocol.figures().pings_answered == 1
            (session,) = alpha.protocol.sessions
            assert session.pinged


@pytest.mark.spec("MS-MQQB 2.1.2/2")
def test_pings_go_to_port_3527_unless_a_setting_says_otherwise() -> None:
    assert PingSettings().target_port == 3527


# -- the stop


@pytest.mark.spec("MS-MQQB 3.1.4.2/1")
@on_loop
async def test_a_stop_keeps_what_came_and_closes_without_a_word() -> None:
    async with serving("ALPHA") as alpha:
        beta = Server("BETA")
        await beta.start()
        await beta.create("orders")
        stranger = await Stranger.connect(beta)
        await stranger.open()
        name = rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\orders"
        await alpha.send(name, *[b"x"] * 200)
        await until(lambda: beta.count("orders") > 0)
        await beta.stop()
        assert await stranger.is_closed()
        assert not beta.protocol.sessions
        await until(lambda: not beta.node.open)
        assert beta.node.memory.held == 0
        stored = beta.count("orders")
        assert stored + alpha.outgoing(name).state.count >= 200
        stranger.close()


@on_loop
async def test_after_a_stop_nobody_is_let_in() -> None:
    beta = Server("BETA")
    await beta.start()
    await beta.stop()
    with pytest.raises(ConnectionRefusedError):
        await Stranger.connect(beta)


@on_loop
async def test_a_disk_that_fails_ends_everything_and_acknowledges_nothing() -> None:
    async with serving("ALPHA") as alpha:
        beta = Server("BETA")
        await beta.start()
        await beta.create("orders")
        mistakes: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: mistakes.append(about))

        def fail() -> int:
            raise StoreFailed("the disk is gone")

        name = rf"DIRECT=TCP:127.0.0.1:{beta.port}\private$\orders"
        await alpha.send(name, b"one")
        await until(lambda: beta.count("orders") == 1)
        await until(lambda: not alpha.outgoing(name).state.count)
        beta.store.sync = fail  # type: ignore[method-assign]
        await alpha.send(name, b"two")
        await until(lambda: beta.desk.failure is not None)
        await beta.stop(0.0)
        assert not beta.protocol.sessions
        await until(lambda: not beta.node.open)
        assert alpha.outgoing(name).state.count == 1
        assert mistakes == []


@on_loop
async def test_a_session_that_leaves_while_it_waits_for_memory_is_noticed() -> None:
    memory = MemoryAccount(limit=6 * MIB)
    async with serving("BETA", memory=memory) as beta:
        hog, stranger = await Stranger.connect(beta), await Stranger.connect(beta)
        await hog.open()
        hog.writer.write(half_a_packet())
        await until(lambda: memory.short)
        await stranger.open(bytes(15) + b"2")
        stranger.writer.write(half_a_packet()[:50_000])
        await until(lambda: any(holder.waiting for holder in memory._holders))
        assert len(beta.node.open) == 2
        stranger.close()
        await until(lambda: len(beta.node.open) == 1)
        hog.close()
