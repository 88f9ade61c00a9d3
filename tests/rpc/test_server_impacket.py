"""impacket's client against our runtime: levels, fragments, wrong passwords, interfaces."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from impacket.dcerpc.v5 import transport
from impacket.dcerpc.v5.rpcrt import DCERPCException

from posthouse.rpc.security import Level
from tests.support.loop_server import on_loop

from .login_book import DOMAIN, PASSWORD, USER
from .socket_rig import House, serving
from .toy import ECHO, GUARDED, LARGE, THROW, TOY, WHO

LEVELS = [Level.CONNECT, Level.INTEGRITY, Level.PRIVACY]


class Peer:
    """A connection of impacket's; all of it blocks."""

    def __init__(
        self, port: int, level: Level = Level.NONE, password: str = PASSWORD, fragment: int = 0
    ) -> None:
        tcp = transport.DCERPCTransportFactory(f"ncacn_ip_tcp:127.0.0.1[{port}]")
        tcp.set_connect_timeout(30)
        self.dce: Any = tcp.get_dce_rpc()
        if level != Level.NONE:
            self.dce.set_credentials(USER, password, DOMAIN)
            self.dce.set_auth_level(int(level))
        self.dce.connect()
        if fragment:
            self.dce.set_max_fragment_size(fragment)

    def bind(self, name: tuple[bytes, int, int] = TOY) -> None:
        uuid, major, minor = name
        self.dce.bind(uuid + major.to_bytes(2, "little") + minor.to_bytes(2, "little"))

    def call(self, opnum: int, stub: bytes = b"") -> bytes:
        self.dce.call(opnum, stub)
        return bytes(self.dce.recv())

    def complaint(self, opnum: int, stub: bytes = b"") -> str:
        with pytest.raises(DCERPCException) as caught:
            self.call(opnum, stub)
        return str(caught.value)

    def close(self) -> None:
        self.dce.disconnect()


async def with_peer(work: Callable[[House], None]) -> None:
    async with serving() as house:
        await asyncio.to_thread(work, house)
        assert house.bugs == []
        assert house.server.counts.violations == 0


@on_loop
async def test_calls_in_the_clear() -> None:
    def work(house: House) -> None:
        peer = Peer(house.port)
        peer.bind()
        assert peer.call(WHO) == b"nobody at NONE from 127.0.0.1"
        assert len(peer.call(LARGE, b"100000")) == 100_000
        peer.close()

    await with_peer(work)


@pytest.mark.spec("RPC/19", "RPC/20", "RPC/21")
@pytest.mark.parametrize("level", LEVELS)
@on_loop
async def test_calls_with_a_login(level: Level) -> None:
    def work(house: House) -> None:
        peer = Peer(house.port, level)
        peer.bind()
        assert peer.call(WHO) == f"alice at {level.name} from 127.0.0.1".encode()
        for size in (0, 1, 15, 16, 17, 4000, 30_000):
            assert len(peer.call(LARGE, b"%d" % size)) == size
            assert peer.call(ECHO, bytes(size)) == bytes(size)
        assert peer.call(WHO).startswith(b"alice")
        peer.close()

    await with_peer(work)


@pytest.mark.spec("RPC/19")
@pytest.mark.parametrize("level", [Level.NONE, Level.INTEGRITY, Level.PRIVACY])
@on_loop
async def test_requests_in_fragments(level: Level) -> None:
    def work(house: House) -> None:
        peer = Peer(house.port, level, fragment=96)
        peer.bind()
        stub = bytes(range(256)) * 12
        assert peer.call(ECHO, stub) == stub
        assert house.toy.served == [(ECHO, stub)]
        peer.close()

    await with_peer(work)


@pytest.mark.spec("RPC/22")
@pytest.mark.parametrize("level", LEVELS)
@on_loop
async def test_wrong_password_opens_nothing(level: Level) -> None:
    def work(house: House) -> None:
        peer = Peer(house.port, level, password="wrong")
        peer.bind()
        assert "access_denied" in peer.complaint(ECHO, b"x")
        assert "access_denied" in peer.complaint(ECHO, b"x")
        assert house.toy.served == []
        peer.close()

    await with_peer(work)


@pytest.mark.spec("RPC/28")
@pytest.mark.parametrize("level", [Level.NONE, *LEVELS])
@on_loop
async def test_privacy_is_the_least_where_it_is_wanted(level: Level) -> None:
    def work(house: House) -> None:
        peer = Peer(house.port, level)
        peer.bind(GUARDED)
        if level == Level.PRIVACY:
            assert peer.call(ECHO, b"secret") == b"secret"
        else:
            assert "access_denied" in peer.complaint(ECHO, b"secret")
        peer.close()

    await with_peer(work)


@pytest.mark.spec("RPC/14")
@pytest.mark.parametrize("level", [Level.NONE, Level.INTEGRITY, Level.PRIVACY])
@on_loop
async def test_alter_context_adds_an_interface(level: Level) -> None:
    def work(house: House) -> None:
        peer = Peer(house.port, level)
        peer.bind()
        uuid, major, minor = GUARDED
        name = uuid + major.to_bytes(2, "little") + minor.to_bytes(2, "little")
        other = peer.dce.alter_ctx(name)
        if level == Level.PRIVACY:
            other.call(ECHO, b"x")
            assert bytes(other.recv()) == b"x"
        assert peer.call(ECHO, b"y") == b"y"
        peer.close()

    await with_peer(work)


@on_loop
async def test_faults_reach_the_caller() -> None:
    def work(house: House) -> None:
        peer = Peer(house.port, Level.PRIVACY)
        peer.bind()
        assert "c00e0003" in peer.complaint(THROW)
        assert "nca_s_op_rng_error" in peer.complaint(99)
        assert peer.call(ECHO, b"on") == b"on"
        peer.close()

    await with_peer(work)


@on_loop
async def test_unknown_interface_is_refused() -> None:
    def work(house: House) -> None:
        peer = Peer(house.port)
        with pytest.raises(DCERPCException, match="abstract_syntax_not_supported"):
            peer.bind((b"u" * 16, 1, 0))
        peer.close()

    await with_peer(work)
