"""The endpoints rpc and epm on real sockets ([MS-MQRR] 2.1, 3.1.3, 3.1.4.1)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from posthouse.engine.manager import QueueManager
from posthouse.protocols.remote_read import stubs
from posthouse.protocols.remote_read.server import (
    PORT_MAX,
    EndpointMapperServer,
    RemoteReadNode,
    RemoteReadServer,
)
from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.rpc import ept, statuses
from posthouse.rpc.ntlm.authentication import ServerNames
from posthouse.rpc.security import Level
from posthouse.rpc.statuses import Fault
from posthouse.security.access import default_queue_descriptor
from posthouse.security.rights import PEEK_MESSAGE, RECEIVE_MESSAGE
from posthouse.security.sids import ADMINISTRATORS, ANONYMOUS
from tests.protocols.remote_read.socket_rig import QUEUE, House, Visitor, house
from tests.support.loop_server import ADMIN, until

ALL = 0xFFFFFFFF
CANCELLED = 0xC00E0008
START = (0, 0, 0)  # lookup identifier, cursor, action
OPEN_TO_ALL = RemoteReadSettings(minimum_authentication="none")


def run(story: Callable[[House], Awaitable[None]], settings: RemoteReadSettings | None = None):
    async def tell() -> None:
        async with house(settings) as place:
            await story(place)

    asyncio.run(tell())


async def let_in(place: House) -> None:
    """Anonymous readers may receive."""
    security = default_queue_descriptor(
        ADMINISTRATORS, ((ANONYMOUS, PEEK_MESSAGE | RECEIVE_MESSAGE),)
    )

    def grant(manager: QueueManager) -> None:
        manager.queues.set_queue_security(QUEUE, ADMIN, security)

    await place.desk.run(grant)


@pytest.mark.spec("MS-MQRR 3.1.3/1", "MS-MQRR 2.1/1", "MS-MQRR 2.1/3")
@pytest.mark.parametrize("level", [Level.CONNECT, Level.PACKET, Level.INTEGRITY, Level.PRIVACY])
def test_messages_are_received_over_tcp_at_every_level(level):
    async def story(place: House) -> None:
        await place.send(QUEUE, b"one", b"two")
        reader = await Visitor(place.port, level=level).connect()
        handle = await reader.open()
        for request, body in ((1, b"one"), (2, b"two")):
            received = await reader.call(7, handle, *START, 0, request, ALL, ALL)
            assert received.result == 0
            assert body in received.sections[0].buffer
            assert (await reader.call(9, handle, 2, request)).result == 0
        assert place.count("orders") == 0
        reader.close()

    run(story, RemoteReadSettings(minimum_authentication="connect"))


@pytest.mark.spec("MS-MQRR 3.1.4.2/17", "RPC/28")
def test_without_a_login_both_the_setting_and_the_queue_have_to_allow_it():
    async def story(place: House) -> None:
        await place.send(QUEUE, b"one")
        reader = await Visitor(place.port, level=Level.NONE).connect()
        with pytest.raises(Fault) as caught:
            await reader.open()
        assert caught.value.status == 0xC00E0025
        await let_in(place)
        handle = await reader.open()
        assert (await reader.call(7, handle, *START, 0, 1, ALL, ALL)).result == 0
        reader.close()

    run(story, OPEN_TO_ALL)


@pytest.mark.spec("MS-MQRR 3.1.4.2/16", "RPC/28")
@pytest.mark.parametrize("level", [Level.NONE, Level.CONNECT, Level.INTEGRITY])
def test_a_level_that_is_too_low_is_an_access_denied_fault(level):
    async def story(place: House) -> None:
        await let_in(place)
        reader = await Visitor(place.port, level=level).connect()
        with pytest.raises(Fault) as caught:
            await reader.open()
        assert caught.value.status == statuses.ACCESS_DENIED
        with pytest.raises(Fault):
            await reader.call(0)
        reader.close()

    run(story)


@pytest.mark.spec("MS-MQRR 3.1.4.1/1", "MS-MQRR 2.1/2", "RPC/29", "RPC/30")
def test_the_mapper_and_the_method_tell_the_real_port():
    async def story(place: House) -> None:
        reader = await Visitor(place.port).connect()
        assert (await reader.call(0)).port == place.port
        reader.close()
        for port in (place.epm_port, place.port):
            asker = await Visitor(port, ept.EPT, Level.NONE).connect()
            stub = await asker.end(asker.begin(ept.EPT_MAP, ept.map_request(stubs.REMOTE_READ)))
            answer = ept.MAP_RESPONSE.decode(stub)
            assert ept.tcp_ports(answer, stubs.REMOTE_READ) == [place.port]
            asker.close()

    run(story)


@pytest.mark.spec("RPC/18", "MS-MQRR 2.2.4.1/1")
def test_a_wait_holds_up_nobody():
    async def story(place: House) -> None:
        reader = await Visitor(place.port).connect()
        handle = await reader.open()
        request = stubs.StartReceive(handle, *START, ALL, 1, ALL, ALL)
        waiting = reader.begin(7, stubs.encode_request(7, request))
        assert (await reader.call(4, handle)).result == 0
        other = await Visitor(place.port).connect()
        assert (await other.call(0)).port == place.port
        await place.send(QUEUE, b"late")
        received = stubs.decode_response(7, await reader.end(waiting))
        assert b"late" in received.sections[0].buffer
        reader.close()
        other.close()

    run(story)


@pytest.mark.spec("RPC/16", "MS-MQRR 3.1.6.2/1", "MS-MQRR 3.1.6.2/2")
def test_a_connection_that_is_gone_gives_back_what_it_had():
    async def story(place: House) -> None:
        await place.send(QUEUE, b"one")
        reader = await Visitor(place.port).connect()
        handle = await reader.open()
        await reader.call(7, handle, *START, 0, 1, ALL, ALL)
        reader.close()
        await until(lambda: not place.node.figures().clients)
        second = await Visitor(place.port).connect()
        handle = await second.open()
        received = await second.call(7, handle, *START, 0, 1, ALL, ALL)
        assert b"one" in received.sections[0].buffer
        second.close()

    run(story)


@pytest.mark.spec("MS-MQRR 3.1.2.2/3", "MS-MQRR 3.1.5.1/1")
def test_the_cleanup_timer_runs_by_the_clock():
    async def story(place: House) -> None:
        await place.send(QUEUE, b"one", b"two")
        reader = await Visitor(place.port).connect()
        handle = await reader.open()
        for request in (1, 2):
            await reader.call(7, handle, *START, 0, request, ALL, ALL)
        await until(lambda: place.node.figures().cleaned_up == 2)
        assert (await reader.call(9, handle, 2, 1)).result == 0xC00E0007
        assert place.count("orders") == 2
        reader.close()

    run(story, RemoteReadSettings(cleanup_ms=20))


@pytest.mark.parametrize("level", [Level.NONE, Level.PRIVACY])
def test_a_client_that_reads_late_gets_everything_and_costs_little(level):
    """Forty answers of 256 KiB, of which the server never holds more than a few."""
    size, count = 256 << 10, 40

    async def story(place: House) -> None:
        await let_in(place)
        await place.send(QUEUE, *[bytes([n]) * size for n in range(count)])
        reader = await Visitor(place.port, level=level).connect()
        handle = await reader.open()
        calls = []
        for request in range(count):
            asked = stubs.StartReceive(handle, *START, 0, request, ALL, ALL)
            calls.append(reader.begin(7, stubs.encode_request(7, asked)))
        (link,) = place.node.servers[0].links
        await until(lambda: place.node.remote.pending.count > 0)
        for number, call in enumerate(calls):
            assert link._connection.backlog < (2 << 20)
            received = stubs.decode_response(7, await reader.end(call))
            assert bytes([number]) * size in received.sections[0].buffer
        reader.close()

    run(story, RemoteReadSettings(minimum_authentication="none", read_ahead=2 * size))


def test_a_stop_answers_what_waits():
    async def story() -> None:
        place = House()
        await place.start()
        reader = await Visitor(place.port).connect()
        handle = await reader.open()
        request = stubs.StartReceive(handle, *START, ALL, 1, ALL, ALL)
        waiting = reader.begin(7, stubs.encode_request(7, request))
        await until(lambda: place.node.figures().waiting == 1)
        stopping = asyncio.create_task(place.stop())
        received = stubs.decode_response(7, await reader.end(waiting))
        assert received.result == CANCELLED
        reader.close()
        await stopping

    asyncio.run(story())


def test_the_figures_count_calls_faults_and_logins():
    async def story(place: House) -> None:
        reader = await Visitor(place.port).connect()
        handle = await reader.open()
        await reader.call(4, handle)
        stranger = await Visitor(place.port, level=Level.NONE).connect()
        with pytest.raises(Fault):
            await stranger.call(0)
        figures = place.node.figures()
        assert figures.connections == 2
        assert (figures.clients, figures.opened) == (1, 1)
        assert figures.calls["R_OpenQueue"] == figures.calls["R_CreateCursor"] == 1
        assert figures.calls["R_GetServerPort"] == 0
        assert figures.faults == {"0x00000005": 1}
        reader.close()
        stranger.close()

    run(story)


# -- ports


@contextmanager
def taken_ports(steps: int = 1) -> Iterator[int]:
    """So many ports that are taken, the first of them, and the next one that is tried free."""
    while True:
        with ExitStack() as held:
            sockets = [held.enter_context(socket.socket()) for _ in range(steps)]
            sockets[0].bind(("127.0.0.1", 0))
            port = sockets[0].getsockname()[1]
            try:
                assert port + 11 * steps <= PORT_MAX
                for step, one in enumerate(sockets):
                    if step:
                        one.bind(("127.0.0.1", port + 11 * step))
                    one.listen()
                with socket.socket() as free:
                    free.bind(("127.0.0.1", port + 11 * steps))
            except (AssertionError, OSError):
                continue
            yield port
            return


@pytest.mark.spec("MS-MQRR 3.1.4.1/2", "RPC/34")
@pytest.mark.parametrize("taken", [1, 3])
def test_a_port_that_is_taken_is_stepped_over_by_eleven(taken):
    async def story(place: House) -> None:
        with taken_ports(taken) as port:
            node, free = node_of(place), port + 11 * taken
            door = RemoteReadServer(node, step=True)
            assert await door.start("127.0.0.1", port) == f"127.0.0.1:{free}"
            assert node.remote.port == free
            reader = await Visitor(free).connect()
            assert (await reader.call(0)).port == free
            reader.close()
            await door.stop(1.0)

    run(story)


def test_a_port_that_was_asked_for_is_not_stepped_over():
    async def story(place: House) -> None:
        with taken_ports() as port, pytest.raises(OSError, match="in use"):
            await RemoteReadServer(node_of(place)).start("127.0.0.1", port)

    run(story)


def node_of(place: House) -> RemoteReadNode:
    return RemoteReadNode(place.desk, RemoteReadSettings(), ServerNames("ALPHA"))


def test_a_mapper_that_nobody_asked_for_does_without_its_port():
    async def story(place: House) -> None:
        missed: list[str] = []
        with taken_ports() as port:
            door = EndpointMapperServer(
                node_of(place), missed=lambda where, error: missed.append(where)
            )
            assert await door.start("127.0.0.1", port) == ""
            await door.stop(1.0)
            with pytest.raises(OSError, match="in use"):
                await EndpointMapperServer(node_of(place)).start("127.0.0.1", port)
        assert missed == [f"127.0.0.1:{port}"]

    run(story)
