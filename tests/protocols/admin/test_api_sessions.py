"""Client sessions on the admin endpoint and the control socket: how they begin and end."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from posthouse.model.message import Message
from posthouse.model.properties import QueueAccessType
from posthouse.model.roles import Role
from posthouse.protocols.memory import Buffer
from posthouse.wire.frames import frames, payloads
from posthouse.wire.packet.message import serialize
from tests.protocols.admin.api_rig import ORDERS, ApiRig, at, with_api
from tests.protocols.admin.session_peer import UPGRADE, Peer, request
from tests.support.circles import circles, without_collector


def test_a_session_speaks_frames_and_asks_the_api(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        hello = frames.encode(1, payloads.Hello(client="test"))
        peer = await Peer.connect(rig, rig.tokens["administer"], hello)
        welcome = await peer.answer()
        assert isinstance(welcome, payloads.Welcome)
        called = await peer.ask(payloads.Call("GET", "/api/v1/status", b""), 2)
        assert isinstance(called, payloads.Called)
        assert called.status == 200
        assert json.loads(called.body)["name"] == "ALPHA"
        missing = await peer.ask(payloads.Call("GET", "/api/v1/nothing", b""), 3)
        assert isinstance(missing, payloads.Called)
        assert missing.status == 404
        assert rig.admin.traffic.sessions == 1
        peer.writer.close()
        while rig.admin.traffic.sessions:
            await rig.desk.call(lambda m: None)
        assert rig.admin.sessions == {}
        assert rig.admin.memory.held == 0

    with_api(tmp_path, work)


def test_a_session_has_the_role_of_its_token(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        peer = await Peer.connect(rig, rig.tokens["read"])
        await peer.ask(payloads.Hello())
        body = msgspec.json.encode({"path": ORDERS})
        called = await peer.ask(payloads.Call("POST", "/api/v1/queues", body), 2)
        assert isinstance(called, payloads.Called)
        assert called.status == 403

    with_api(tmp_path, work)


def test_a_token_to_read_takes_and_sends_nothing_over_a_session(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send(label="one")
        peer = await Peer.connect(rig, rig.tokens["read"])
        await peer.ask(payloads.Hello())
        elsewhere = r"DIRECT=OS:BETA\private$\orders"
        for number, (queue, access) in enumerate(
            [
                (ORDERS, QueueAccessType.RECEIVE),
                (ORDERS, QueueAccessType.SEND),
                (ORDERS, QueueAccessType.MOVE),
                (elsewhere, QueueAccessType.SEND),
            ],
            2,
        ):
            refused = await peer.ask(payloads.Open(queue, access), number)
            assert isinstance(refused, payloads.Refusal), (queue, access)
            assert "may only look" in refused.cause
        opened = await peer.ask(payloads.Open(ORDERS, QueueAccessType.PEEK), 9)
        assert isinstance(opened, payloads.Opened)
        assert await rig.labels() == ["one"]

    with_api(tmp_path, work)


def test_messages_of_a_broken_session_are_back(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send(label="one")
        peer = await Peer.connect(rig, rig.tokens["administer"])
        await peer.ask(payloads.Hello())
        opened = await peer.ask(payloads.Open(ORDERS, QueueAccessType.RECEIVE), 2)
        assert isinstance(opened, payloads.Opened)
        read = frames.Read(opened.queue, 0, 0, 0, 1, 0)
        peer.writer.write(frames.encode_read(frames.RECEIVE, 3, read))
        await peer.answer()
        assert await rig.labels() == []
        peer.writer.transport.abort()
        while not await rig.labels():
            pass
        assert await rig.labels() == ["one"]

    with_api(tmp_path, work)


def test_a_receive_asked_of_the_api_ends_with_its_session(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        peer = await Peer.connect(rig, rig.tokens["administer"])
        await peer.ask(payloads.Hello())
        body = msgspec.json.encode({"timeout_ms": 60_000})
        call = payloads.Call("POST", at() + "/receive", body)
        peer.writer.write(frames.encode(2, call))
        while not (await rig.get(at())).json["waiting_readers"]:
            pass
        peer.writer.transport.abort()
        while (await rig.get(at())).json["readers"]:
            pass
        await rig.send(label="kept")
        assert await rig.labels() == ["kept"]

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({**UPGRADE, "Authorization": ""}, 401),
        ({**UPGRADE, "Authorization": "Bearer pht_0_0"}, 401),
        ({**UPGRADE, "Upgrade": ""}, 426),
        ({**UPGRADE, "Upgrade": "websocket"}, 426),
        ({**UPGRADE, "Connection": "close"}, 426),
        ({**UPGRADE, "Host": "evil.example"}, 403),
        ({**UPGRADE, "Host": ""}, 400),
        ({**UPGRADE, "Origin": "http://evil.example"}, 403),
        ({**UPGRADE, "X": "x" * 9000}, 431),
        ({**UPGRADE, " Bad": "x"}, 400),
        ({**UPGRADE, "X": "x\nHost: evil.example"}, 400),
    ],
)
def test_sessions_that_do_not_begin(headers: dict[str, str], status: int, tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        given = {"Authorization": f"Bearer {rig.tokens['administer']}", **headers}
        answer = await rig.raw(request(**given))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.split()[1] == str(status).encode()
        assert json.loads(body)["error"]["cause"]
        assert rig.admin.traffic.sessions == 0

    with_api(tmp_path, work)


def test_other_versions_of_http_begin_no_session(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        old = request(**UPGRADE).replace(b"HTTP/1.1", b"HTTP/1.0")
        assert (await rig.raw(old)).split()[1] == b"400"

    with_api(tmp_path, work)


def test_sessions_end_with_their_token(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        peer = await Peer.connect(rig, token := await rig.token(role=Role.OPERATE))
        other = await Peer.connect(rig, rig.tokens["operate"])
        await peer.ask(payloads.Hello())
        token_id = token.split("_")[1]
        assert (await rig.ask("DELETE", f"/api/v1/tokens/{token_id}")).status == 200
        assert await peer.ended()
        assert isinstance(await other.ask(payloads.Hello()), payloads.Welcome)
        expires = int(time.time()) + 2
        short = await Peer.connect(rig, await rig.token(expires_s=expires))
        assert await short.ended()
        bob = await Peer.connect(rig, await rig.user("bob"))
        await rig.ask("DELETE", "/api/v1/users/bob")
        assert await bob.ended()

    with_api(tmp_path, work)


CHANGES = [
    ("PATCH", "/api/v1/users/bob", {"administrator": False}),
    ("PATCH", "/api/v1/users/bob", {"disabled": True}),
    ("POST", "/api/v1/users/bob/password", {"password": "another"}),
]


@pytest.mark.parametrize("change", CHANGES)
def test_sessions_end_when_their_user_changes(
    change: tuple[str, str, dict[str, object]], tmp_path: Path
) -> None:
    async def work(rig: ApiRig) -> None:
        bob = await Peer.connect(rig, await rig.user("bob", administrator=True))
        other = await Peer.connect(rig, rig.tokens["operate"])
        await bob.ask(payloads.Hello())
        assert (await rig.ask(*change)).status == 200
        assert await bob.ended()
        assert isinstance(await other.ask(payloads.Hello()), payloads.Welcome)

    with_api(tmp_path, work)


def test_who_changes_himself_is_answered_and_has_nothing_more_to_say(tmp_path: Path) -> None:
    """An open session keeps no right that its account has lost."""

    async def work(rig: ApiRig) -> None:
        bob = await Peer.connect(rig, await rig.user("bob", administrator=True))
        await bob.ask(payloads.Hello())
        path, body = "/api/v1/users/bob", msgspec.json.encode({"administrator": False})
        grab = msgspec.json.encode({"role": "administer"})
        bob.writer.write(
            frames.encode(2, payloads.Call("PATCH", path, body))
            + frames.encode(3, payloads.Call("POST", "/api/v1/tokens", grab))
        )
        answers = [await bob.answer(), await bob.answer()]  # a refusal need not wait for the disk
        assert {answer.status for answer in answers if isinstance(answer, payloads.Called)} == {
            200,
            403,
        }
        assert await bob.ended()
        assert len(rig.admin.tokens.of("administrator")) == len(Role)

    with_api(tmp_path, work)


def test_nonsense_ends_the_session_and_no_other(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        peer = await Peer.connect(rig, rig.tokens["operate"], b"\xff" * 100)
        await peer.ended()
        other = await Peer.connect(rig, rig.tokens["operate"])
        assert isinstance(await other.ask(payloads.Hello()), payloads.Welcome)

    with_api(tmp_path, work)


def test_what_is_on_its_way_is_on_the_account(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        peer = await Peer.connect(rig, rig.tokens["operate"])
        await peer.ask(payloads.Hello())
        opened = await peer.ask(payloads.Open(ORDERS, QueueAccessType.SEND), 2)
        assert isinstance(opened, payloads.Opened)
        message = Message(body=b"x" * 2_000_000)
        message.destination_queue_format_name = r"DIRECT=OS:ALPHA\private$\orders"
        frame = frames.encode_send(3, opened.queue, 0, 0, [serialize(message)])
        data = b"".join(frame) if isinstance(frame, list) else frame
        peer.writer.write(data[:1_000_000])
        while rig.admin.memory.held < 1_000_000:
            await rig.desk.call(lambda m: None)
        peer.writer.write(data[1_000_000:])
        await peer.answer()
        assert len(await rig.labels()) == 1
        assert rig.admin.memory.held == 0

    with_api(tmp_path, work)


def test_a_client_that_vanished_is_noticed(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await Peer.connect(rig, rig.tokens["operate"])
        (connection,) = [one for one in rig.server.open if one.session is not None]
        ours = connection.transport.get_extra_info("socket")
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30

    with_api(tmp_path, work)


def test_a_session_that_ended_does_not_wait_for_its_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posthouse.protocols.http.connection.LINGER_S", 0.0)

    async def work(rig: ApiRig) -> None:
        peer = await Peer.connect(rig, rig.tokens["operate"])
        await peer.ask(payloads.Hello())
        (connection,) = [one for one in rig.server.open if one.session is not None]
        connection.transport.set_write_buffer_limits(high=1 << 30)
        connection.transport.write(bytes(64 << 20))  # more than sockets take
        peer.writer.write(b"\xff" * 100)
        while connection in rig.server.open:
            await rig.desk.call(lambda m: None)
        assert rig.server.connections.count == 0

    with_api(tmp_path, work)


def test_what_was_sent_is_on_the_account_no_more(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        peer = await Peer.connect(rig, rig.tokens["operate"])
        await peer.ask(payloads.Hello())
        handles = []
        for number, access in enumerate((QueueAccessType.SEND, QueueAccessType.PEEK), 2):
            opened = await peer.ask(payloads.Open(ORDERS, access), number)
            assert isinstance(opened, payloads.Opened)
            handles.append(opened.queue)
        message = Message(body=b"x" * 4_000_000)
        message.destination_queue_format_name = r"DIRECT=OS:ALPHA\private$\orders"
        peer.writer.write(frames.encode_send(4, handles[0], 0, 0, [serialize(message)]))
        await peer.answer()
        read = frames.Read(handles[1], 0, 0, 0, 1, 0)
        for number in range(5, 10):
            peer.writer.write(frames.encode_read(frames.PEEK, number, read))
        while rig.admin.memory.held < 4_000_000:
            await rig.desk.call(lambda m: None)
        for _ in range(5):
            await peer.answer()
        while rig.admin.memory.held:
            await rig.desk.call(lambda m: None)

    with_api(tmp_path, work)


@pytest.mark.parametrize(("size", "counted"), [(1_000, False), (8_000, True)])
def test_an_answer_is_on_the_account_if_the_connection_does_not_take_more(
    tmp_path: Path, size: int, counted: bool
) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        await rig.send(body=bytes(size))
        peer = await Peer.connect(rig, rig.tokens["administer"])
        await peer.ask(payloads.Hello())
        opened = await peer.ask(payloads.Open(ORDERS, QueueAccessType.RECEIVE), 2)
        assert isinstance(opened, payloads.Opened)
        memory = rig.admin.memory
        memory.peak = 0
        read = frames.Read(opened.queue, 0, 0, 0, 1, 0)
        peer.writer.write(frames.encode_read(frames.RECEIVE, 3, read))
        await peer.answer()
        assert (memory.peak >= size) is counted
        assert (memory.peak == 0) is not counted
        while memory.held:
            await rig.desk.call(lambda m: None)

    with_api(tmp_path, work)


def test_reading_goes_on_when_both_memory_and_the_client_allow_it(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        peer = await Peer.connect(rig, rig.tokens["operate"])
        await peer.ask(payloads.Hello())
        opened = await peer.ask(payloads.Open(ORDERS, QueueAccessType.SEND), 2)
        assert isinstance(opened, payloads.Opened)
        (connection,) = [one for one in rig.server.open if one.session is not None]
        other, much = rig.admin.memory.open("elsewhere", print, print), rig.admin.memory.limit * 2
        message = Message(body=b"x" * 2_000_000)
        message.destination_queue_format_name = r"DIRECT=OS:ALPHA\private$\orders"
        other.take(Buffer.SEND.value, much // 3)
        data = frames.encode_send(3, opened.queue, 0, 0, [serialize(message)])
        peer.writer.write(data[:100_000])
        while connection.transport.is_reading():
            await rig.desk.call(lambda m: None)
        connection.pause_writing()
        connection.resume_writing()
        assert not connection.transport.is_reading()
        connection.pause_writing()
        other.give(Buffer.SEND.value, much // 3)
        assert not connection.transport.is_reading()
        connection.resume_writing()
        peer.writer.write(data[100_000:200_000])
        while not (connection._holder and connection._holder.announced):
            await rig.desk.call(lambda m: None)
        peer.writer.write(data[200_000:])
        assert await peer.answer() == (1,)

    with_api(tmp_path, work)


def tracked(work: Callable[[], None]) -> int:
    """The most memory that was taken meanwhile."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    work()
    return tracemalloc.get_traced_memory()[1] - before


def test_a_large_packet_is_read_into_its_frame_while_memory_is_reserved_for_it(
    tmp_path: Path,
) -> None:
    """The frame has all its memory at once; one that comes too slowly gives it back."""

    async def work(rig: ApiRig) -> None:
        await rig.create()
        peer = await Peer.connect(rig, rig.tokens["operate"])
        await peer.ask(payloads.Hello())
        opened = await peer.ask(payloads.Open(ORDERS, QueueAccessType.SEND), 2)
        assert isinstance(opened, payloads.Opened)
        (connection,) = [one for one in rig.server.open if one.session is not None]
        holder, memory = connection._holder, rig.admin.memory
        assert holder is not None
        message = Message(body=b"x" * 2_000_000)
        message.destination_queue_format_name = r"DIRECT=OS:ALPHA\private$\orders"
        data = frames.encode_send(3, opened.queue, 0, 0, [serialize(message)])

        async def bring(part: bytes, whole: int) -> None:
            peer.writer.write(part)
            while holder.bytes[Buffer.RECEIVE.value] < whole:
                await rig.desk.call(lambda m: None)

        await bring(data[:100_000], 100_000)
        assert holder.reserved == len(data) - 100_000
        room = connection.get_buffer(-1)
        assert len(room) == holder.reserved
        room[:200_000] = data[100_000:300_000]
        assert tracked(lambda: connection.buffer_updated(200_000)) < 100_000  # not copied
        assert len(connection.get_buffer(-1)) == holder.reserved == len(data) - 300_000
        del room
        before, _ = tracemalloc.get_traced_memory()
        memory.close_slow(0)
        memory.close_slow(10**9)
        memory.close_slow(2 * 10**9)
        after, _ = tracemalloc.get_traced_memory()
        assert (holder.lapsed, holder.reserved) == (True, 0)
        assert before - after > 1_500_000
        assert connection.session is not None
        assert connection.session.splitter.pending == 300_000
        assert len(connection.get_buffer(-1)) < len(data) - 300_000  # until it is announced again
        peer.writer.write(data[300_000:])
        assert await peer.answer() == (1,)
        assert memory.reserved == 0

    tracemalloc.start()
    try:
        with_api(tmp_path, work)
    finally:
        tracemalloc.stop()


def test_the_control_socket_takes_sessions_without_a_token(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        peer = Peer(*await asyncio.open_unix_connection(rig.socket))
        peer.writer.write(request(**UPGRADE))
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.ask(payloads.Hello())
        body = msgspec.json.encode({"path": ORDERS})
        called = await peer.ask(payloads.Call("POST", "/api/v1/queues", body), 2)
        assert isinstance(called, payloads.Called)
        assert called.status == 201

    with_api(tmp_path, work)


def test_a_stop_answers_what_was_asked_and_closes(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        peer = await Peer.connect(rig, rig.tokens["operate"])
        await peer.ask(payloads.Hello())
        await rig.server.stop(5.0)
        assert await peer.ended()
        rig.admin.enter()

    with_api(tmp_path, work)


def test_nothing_is_left_of_a_session(tmp_path: Path) -> None:
    """Nor of the queues that it had open."""

    async def work(rig: ApiRig) -> None:
        await rig.create()
        peer = await Peer.connect(rig, rig.tokens["operate"])
        await peer.ask(payloads.Hello())
        assert isinstance(
            await peer.ask(payloads.Open(ORDERS, QueueAccessType.RECEIVE), 2), payloads.Opened
        )
        with without_collector():
            peer.writer.close()
            while rig.admin.traffic.sessions:
                await rig.run(lambda manager: None)
            await rig.run(lambda manager: None)
            assert circles() & {"ClientSession", "Connection", "OpenQueueDescriptor"} == set()

    with_api(tmp_path, work)
