"""PGM on real sockets of the loopback, inside of UDP; raw where this process may."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue
from posthouse.model.properties import QueueProperties
from posthouse.protocols.pgm.server import Medium, PgmNode, may_send_raw
from posthouse.protocols.pgm.settings import PgmSettings
from posthouse.wire.packet.message import deserialize
from posthouse.wire.pgm.packets import NAK, ODATA, SPM, Tsi, pack_nak, read_pgm
from tests.support.loop_server import ADMIN, LoopServer, until

GROUP = "239.113.7.1"
PLACE = f"{GROUP}:8001"
NAME = f"MULTICAST={PLACE}"
SETTINGS = PgmSettings(rate=50_000_000, linger_ms=0)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket(type=socket.SOCK_DGRAM)) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]


def settings(encapsulation: Literal["udp", "raw"] = "udp", **changes: Any) -> PgmSettings:
    multicast, unicast = free_ports(2)
    ports = {"udp_multicast_port": multicast, "udp_unicast_port": unicast}
    return replace(SETTINGS, encapsulation=encapsulation, **ports | changes)


class House(LoopServer):
    """A queue manager with PGM on the loopback, without any other door."""

    def __init__(self, name: str, address: str, settings: PgmSettings) -> None:
        super().__init__(name)
        self.node = PgmNode(self.desk, settings, interface=address)
        self.driver.on_active = self.node.protocol.active

    async def call(self, call: Any) -> Any:
        answers: list[Any] = []
        self.desk.decide(call, answers.append)
        await until(lambda: bool(answers))
        assert answers[0].error is None
        return answers[0].value

    async def listens(self, name: str = "quotes") -> Queue:
        properties = QueueProperties(multicast_address=PLACE)
        made = await self.call(
            lambda m: m.queues.create_queue(f".\\private$\\{name}", properties, ADMIN)
        )
        assert isinstance(made, Queue)
        await until(lambda: bool(self.node.protocol.reception.places))
        return made

    async def bodies(self, queue: Queue) -> list[bytes]:
        numbers = [number for _, number in queue.state.order.forward()]

        def run(manager: QueueManager) -> None:
            manager.messages.reading.fetch_many(numbers)
            packets = manager.messages.packets_read()
            found.extend(deserialize(packets[number]).body for number in numbers)

        found: list[bytes] = []
        await self.call(run)
        return found


@asynccontextmanager
async def house(name: str, address: str, settings: PgmSettings) -> AsyncIterator[House]:
    made = House(name, address, settings)
    assert await made.node.start(address, 0) == ""
    try:
        yield made
    finally:
        await made.node.stop(5.0)
        await made.desk.stop()


def test_messages_pass_between_two_on_one_machine() -> None:
    async def run() -> None:
        both = settings()
        async with house("A", "127.0.0.2", both) as one, house("B", "127.0.0.3", both) as two:
            queue, own = await two.listens(), await one.listens()
            bodies = [b"%03d" % at + b"x" * (at * 131 % 4_000) for at in range(60)]
            await one.send(NAME, *bodies, express=True)
            for place, found in ((two, queue), (one, own)):
                await until(lambda found=found: found.state.count == 60)  # type: ignore[misc]
                assert await place.bodies(found) == bodies

    asyncio.run(run())


def test_datagrams_that_get_lost_are_sent_again() -> None:
    async def run() -> None:
        both, chance = settings(), random.Random(1)
        async with house("A", "127.0.0.2", both) as one, house("B", "127.0.0.3", both) as two:
            queue = await two.listens()
            await one.send(NAME, b"first", express=True)
            await until(lambda: queue.state.count == 1)
            payload = two.node.medium.payload
            two.node.medium.payload = lambda d: b"" if chance.random() < 0.1 else payload(d)  # type: ignore[method-assign]
            bodies = [b"%03d" % at + b"x" * 2_000 for at in range(40)]
            await one.send(NAME, *bodies, express=True)
            await until(lambda: queue.state.count == 41)
            assert await two.bodies(queue) == [b"first", *bodies]
            assert two.node.protocol.figures().received["repaired"] > 0
            assert one.node.protocol.figures().sent["repairs"] > 0

    asyncio.run(run())


def test_sockets_are_there_only_while_somebody_needs_them() -> None:
    async def run() -> None:
        async with house("A", "127.0.0.2", settings()) as one:
            node = one.node
            assert (node._groups, node._listeners, node._senders) == ({}, {}, {})
            queue = await one.listens()
            assert list(node._groups) == [GROUP]
            await one.call(lambda manager: manager.queues.delete_queue(queue.name, ADMIN))
            await until(lambda: not node._groups)

    asyncio.run(run())


def test_a_pause_reads_nothing_and_loses_nothing() -> None:
    async def run() -> None:
        both = settings()
        async with house("A", "127.0.0.2", both) as one, house("B", "127.0.0.3", both) as two:
            queue = await two.listens()
            two.node.pause()
            await one.send(NAME, b"one", express=True)
            await until(lambda: one.node.protocol.figures().sent["data"] == 1)
            assert queue.state.count == 0
            two.node.resume()
            await until(lambda: queue.state.count == 1)

    asyncio.run(run())


def test_a_stop_says_fin_and_answers_until_then() -> None:
    async def run() -> None:
        both = settings(linger_ms=200)
        ear = socket.socket(type=socket.SOCK_DGRAM)
        ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ear.bind((GROUP, both.udp_multicast_port))
        member = socket.inet_aton(GROUP) + socket.inet_aton("127.0.0.3")
        ear.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        ear.setblocking(False)
        async with house("A", "127.0.0.2", both) as one:
            await one.send(NAME, b"one", express=True)
            await until(lambda: one.node.protocol.figures().sent["data"] == 1)
        packets = []
        while True:
            try:
                packets.append(read_pgm(ear.recv(65_535)))
            except BlockingIOError:
                break
        ear.close()
        assert [packet.header.type for packet in packets][:4] == [SPM, SPM, SPM, ODATA]
        assert packets[-1].options.fin

    asyncio.run(run())


@pytest.mark.spec("PGM/26")
def test_a_nak_on_the_port_for_it_is_confirmed() -> None:
    async def run() -> None:
        both = settings()
        async with house("A", "127.0.0.2", both) as one:
            await one.send(NAME, b"one", express=True)
            await until(lambda: one.node.protocol.figures().sent["data"] == 1)
            (source,) = one.node.protocol.sources.values()
            number, tsi = source.window.leading, source.session.tsi
            with socket.socket(type=socket.SOCK_DGRAM) as asker:
                for each in (Tsi(tsi.gsi, tsi.port ^ 1), tsi):
                    nak = pack_nak(
                        NAK, each, 8001, sequences=(number,), source="127.0.0.2", group=GROUP
                    )
                    asker.sendto(nak, ("127.0.0.2", both.udp_unicast_port))
            await until(lambda: one.node.protocol.figures().sent["confirmations"] == 1)
            assert one.node.protocol.figures().received["strays"] == 1

    asyncio.run(run())


@pytest.mark.skipif(not may_send_raw(), reason="raw sockets need CAP_NET_RAW")
def test_messages_pass_over_ip_itself() -> None:
    async def run() -> None:
        both = settings("raw")
        async with house("A", "127.0.0.2", both) as one, house("B", "127.0.0.3", both) as two:
            assert str(one.node.medium) == "raw"
            queue = await two.listens()
            await one.send(NAME, b"one", b"x" * 5_000, express=True)
            await until(lambda: queue.state.count == 2)
            assert await two.bodies(queue) == [b"one", b"x" * 5_000]

    asyncio.run(run())


def test_raw_is_taken_only_where_it_is_allowed() -> None:
    assert Medium(replace(SETTINGS, encapsulation="auto")).raw is may_send_raw()
    medium = Medium(replace(SETTINGS, encapsulation="udp"))
    assert (str(medium), medium.payload(b"F")) == ("udp", b"F")
    assert Medium(replace(SETTINGS, encapsulation="raw")).payload(b"F" + bytes(23) + b"x") == b"x"


def test_limits_of_the_protocol_that_are_the_wrong_way_round() -> None:
    assert list(PgmSettings().faults()) == []
    wrong = PgmSettings(heartbeat_min_ms=20_000, silence_ms=5)
    assert [key for key, _ in wrong.faults()] == ["heartbeat_min_ms", "silence_ms"]
