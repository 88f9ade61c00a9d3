"""The runtime on real sockets: limits, memory, slow clients, the stop."""

import asyncio
from weakref import ref

import pytest

from posthouse.net.connections import Connections
from posthouse.protocols.memory import RECEIVE, SEND, MemoryAccount
from posthouse.rpc import pdu, statuses
from posthouse.rpc.fragments import CALL_OVERHEAD
from posthouse.rpc.server import SHORT, WRITE_BUFFER, RpcServer
from posthouse.rpc.settings import RpcSettings
from tests.support.circles import circles, without_collector
from tests.support.loop_server import PATIENCE_S, on_loop, turn, until

from .socket_rig import hear_all, serving
from .toy import BREAK, ECHO, FIND, LARGE, OPEN, WAIT, WHO, Toy, request

MIB = 1 << 20


@on_loop
async def test_calls_are_served() -> None:
    async with serving() as house:
        stranger = await house.connect()
        ack = await stranger.bind()
        assert ack.secondary_address == str(house.port)
        assert await stranger.call(WHO) == b"nobody at NONE from 127.0.0.1"
        assert await stranger.call(ECHO, b"x" * 3000) == b"x" * 3000
        assert house.server.counts.calls == 2


@on_loop
async def test_both_families_are_served_on_one_port() -> None:
    async with serving(host="::") as house:
        assert house.address.startswith("[::]:")
        stranger = await house.bound()
        assert await stranger.call(WHO) == b"nobody at NONE from 127.0.0.1"


@pytest.mark.spec("RPC/17", "RPC/18")
@on_loop
async def test_waiting_calls_hold_up_nobody() -> None:
    async with serving() as house:
        one, two = await house.bound(), await house.bound()
        one.say(*(request(WAIT, call_id=number) for number in range(1000)))
        await until(lambda: house.server.calls == 1000)
        assert await one.call(ECHO, b"mine", call_id=5000) == b"mine"
        assert await two.call(ECHO, b"theirs", call_id=0) == b"theirs"
        for call in reversed(house.toy.waiting):
            call.answer(b"late")
        heard = [(await one.hear())[0].call_id for _ in range(1000)]
        assert heard == list(reversed(range(1000)))


@pytest.mark.spec("RPC/15", "RPC/16")
@on_loop
async def test_handles_live_as_long_as_a_connection_of_their_group() -> None:
    async with serving() as house:
        one = await house.connect()
        ack = await one.bind()
        two, other = await house.bound(group_id=ack.group_id), await house.bound()
        handle = await one.call(OPEN, b"queue")
        assert await two.call(FIND, handle) == b"queue"
        assert await other.call(FIND, handle) == b"unknown"
        one.close()
        await until(lambda: len(house.server.links) == 2)
        assert await two.call(FIND, handle) == b"queue"
        two.close()
        await until(lambda: house.toy.run_down == [b"queue"])
        assert len(house.server.groups) == 1


@pytest.mark.spec("RPC/25")
@on_loop
async def test_waiting_call_of_a_client_that_is_gone_ends() -> None:
    async with serving() as house:
        stranger = await house.bound()
        stranger.say(request(WAIT))
        await until(lambda: len(house.toy.waiting) == 1)
        stranger.close()
        await until(lambda: house.toy.gone == [1])
        assert house.server.calls == 0


@pytest.mark.spec("RPC/27")
@on_loop
async def test_strangers_are_told_and_closed() -> None:
    async with serving() as house:
        stranger = await house.connect()
        stranger.say(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        header, whole = await stranger.hear()
        assert header.kind == pdu.BIND_NAK
        assert pdu.read_bind_nak(whole[16:]) == pdu.BindNak(statuses.NAK_PROTOCOL_VERSION)
        assert await stranger.is_closed()


@on_loop
async def test_mistake_of_ours_ends_its_call_alone() -> None:
    async with serving() as house:
        stranger = await house.bound()
        stranger.say(request(BREAK))
        assert (await stranger.hear())[0].kind == pdu.FAULT
        assert len(house.bugs) == 1
        assert await stranger.call(ECHO, b"on") == b"on"


@on_loop
async def test_mistake_is_told_to_the_event_loop_where_nobody_else_wants_it() -> None:
    told: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    server = RpcServer([Toy().interface()])
    await server.start("127.0.0.1", 0)
    server._bug(ValueError("ours"))
    await server.stop(0)
    assert [str(context["exception"]) for context in told] == ["ours"]


# -- limits


@on_loop
async def test_connections_are_limited() -> None:
    connections = Connections(3, 2)
    async with serving(connections=connections) as house:
        one, two, three = [await house.connect() for _ in range(3)]
        await one.bind()
        await two.bind()
        assert await three.is_closed()
        assert house.server.refused == {"too many connections of one address": 1}
        one.close()
        await until(lambda: connections.count == 1)
        await (await house.connect()).bind()


@on_loop
async def test_connection_that_never_binds_is_ended() -> None:
    async with serving(RpcSettings(bind_ms=1000)) as house:
        silent, honest = await house.connect(), await house.bound()
        silent.say(b"\x05\0\x0b")
        house.now_ms = 1001
        house.server.sweep()
        assert await silent.is_closed()
        assert house.server.refused == {"never bound": 1}
        assert await honest.call(ECHO, b"x") == b"x"


@on_loop
async def test_client_that_sends_one_byte_at_a_time_is_ended() -> None:
    async with serving(RpcSettings(unfinished_ms=1000)) as house:
        slow = await house.bound()
        for byte in request(ECHO, bytes(1000)):
            slow.say(bytes([byte]))
            await turn()
            house.now_ms += 100
            house.server.sweep()
            if house.server.refused:
                break
        assert await slow.is_closed()
        assert house.server.refused == {"sent too slowly": 1}


@on_loop
async def test_idle_connection_is_ended() -> None:
    async with serving(RpcSettings(idle_ms=1000)) as house:
        idle = await house.bound()
        waiting = await house.bound()
        waiting.say(request(WAIT))
        await until(lambda: house.server.calls == 1)
        house.server.sweep()
        house.now_ms = 1001
        house.server.sweep()
        assert await idle.is_closed()
        house.toy.waiting[0].answer(b"late")
        assert await hear_all([waiting]) == [b"late"]


@on_loop
async def test_client_that_does_not_read_is_not_read_either() -> None:
    async with serving() as house:
        stranger = await house.bound()
        (link,) = house.server.links
        stranger.reader._transport.pause_reading()  # type: ignore[attr-defined]
        stranger.say(*(request(LARGE, b"100000", call_id=number) for number in range(400)))
        await until(lambda: link._is_full)
        assert house.server.counts.calls < 200
        assert link.unsent() < WRITE_BUFFER + 200_000
        stranger.reader._transport.resume_reading()  # type: ignore[attr-defined]
        answered = 0
        while answered < 400:
            header, _ = await stranger.hear()
            answered += header.flags & pdu.LAST_FRAG == pdu.LAST_FRAG
        assert house.server.counts.calls == 400


@on_loop
async def test_client_that_never_reads_is_ended() -> None:
    async with serving(RpcSettings(unsent_max=4 * MIB)) as house:
        stranger = await house.bound()
        stranger.reader._transport.pause_reading()  # type: ignore[attr-defined]
        stranger.say(request(LARGE, b"%d" % (32 * MIB)))
        await until(lambda: not house.server.links)
        assert house.server.refused == {"a client does not read its answers": 1}


@on_loop
async def test_client_that_stops_to_read_is_ended() -> None:
    async with serving(RpcSettings(unfinished_ms=1000)) as house:
        stranger = await house.bound()
        stranger.reader._transport.pause_reading()  # type: ignore[attr-defined]
        stranger.say(request(LARGE, b"%d" % (16 * MIB)))
        (link,) = house.server.links
        await until(lambda: link._is_full)
        house.server.sweep()
        house.now_ms = 1000
        house.server.sweep()
        assert house.server.links
        house.now_ms = 1001
        house.server.sweep()
        await until(lambda: not house.server.links)
        assert house.server.refused == {"a client does not read its answers": 1}


@on_loop
async def test_client_that_reads_slowly_is_kept() -> None:
    async with serving(RpcSettings(unfinished_ms=1000)) as house:
        stranger = await house.bound()
        stranger.say(*(request(WAIT, call_id=number) for number in range(50)))
        await until(lambda: house.server.calls == 50)
        (link,) = house.server.links
        stranger.reader._transport.pause_reading()  # type: ignore[attr-defined]
        for call in list(house.toy.waiting):
            call.answer(bytes(MIB))
        await until(lambda: link._is_full)
        heard = 0
        while heard < 50:
            house.now_ms += 999
            house.server.sweep()
            sent = link._written - link._transport.get_write_buffer_size()
            stranger.reader._transport.resume_reading()  # type: ignore[attr-defined]
            while link._written - link._transport.get_write_buffer_size() == sent and heard < 50:
                header, _ = await stranger.hear()
                heard += header.flags & pdu.LAST_FRAG == pdu.LAST_FRAG
        assert house.server.refused == {}


@on_loop
async def test_answers_at_once_and_later_are_all_in_the_backlog() -> None:
    async with serving() as house:
        stranger = await house.bound()
        stranger.say(*(request(WAIT, call_id=number) for number in range(20)))
        await until(lambda: house.server.calls == 20)
        stranger.reader._transport.pause_reading()  # type: ignore[attr-defined]
        last, *others = list(house.toy.waiting)
        assert last.backlog() == 0
        drained: list[int] = []
        last.when_drained(lambda: drained.append(0))
        assert drained == [0]
        others[0].answer(bytes(100))
        assert last.backlog() == 124
        for call in others[1:]:
            call.answer(bytes(MIB))
        assert last.backlog() > 8 * MIB
        last.when_drained(lambda: drained.append(last.backlog()))
        await turn()
        assert drained == [0]
        stranger.reader._transport.resume_reading()  # type: ignore[attr-defined]
        answered = 0
        while answered < 19:
            header, _ = await stranger.hear()
            answered += header.flags & pdu.LAST_FRAG == pdu.LAST_FRAG
        await until(lambda: len(drained) == 2)
        assert drained[1] <= MIB


@on_loop
async def test_end_of_a_connection_drains_it() -> None:
    async with serving() as house:
        stranger = await house.bound()
        stranger.say(*(request(WAIT, call_id=number) for number in range(20)))
        await until(lambda: house.server.calls == 20)
        stranger.reader._transport.pause_reading()  # type: ignore[attr-defined]
        last, *others = list(house.toy.waiting)
        for call in others:
            call.answer(bytes(MIB))
        drained: list[str] = []
        last.when_drained(lambda: drained.append("now"))
        assert drained == []
        stranger.close()
        await until(lambda: drained == ["now"])


@on_loop
async def test_nothing_is_built_for_a_client_that_is_cut_off() -> None:
    async with serving(RpcSettings(unsent_max=4 * MIB)) as house:
        stranger = await house.bound()
        stranger.say(*(request(WAIT, call_id=number) for number in range(100)))
        await until(lambda: house.server.calls == 100)
        (link,) = house.server.links
        stranger.reader._transport.pause_reading()  # type: ignore[attr-defined]
        for call in list(house.toy.waiting):
            call.answer(bytes(MIB))
        assert link._written < 20 * MIB
        await until(lambda: not house.server.links)
        assert house.server.refused == {"a client does not read its answers": 1}


# -- memory


@on_loop
async def test_many_waiting_calls_are_no_large_request() -> None:
    memory = MemoryAccount(4 * MIB)
    async with serving(memory=memory) as house:
        other = memory.open("10.0.0.9", lambda reason: None, lambda: None)
        other.take(RECEIVE, 3 * MIB)
        stranger = await house.bound()
        stranger.say(*(request(WAIT, bytes(100), call_id=number) for number in range(1000)))
        await until(lambda: house.server.calls == 1000)
        assert memory.bytes[RECEIVE] == 3 * MIB + 1000 * CALL_OVERHEAD
        assert await stranger.call(ECHO, b"x", call_id=1001) == b"x"


@on_loop
async def test_what_is_held_is_on_the_account() -> None:
    memory = MemoryAccount(64 * MIB)
    async with serving(memory=memory) as house:
        stranger = await house.bound()
        stranger.say(request(ECHO, bytes(5000), flags=pdu.FIRST_FRAG))
        await until(lambda: memory.bytes[RECEIVE] > 5000)
        stranger.say(request(ECHO, bytes(300), flags=pdu.LAST_FRAG))
        header, _ = await stranger.hear()
        assert header.kind == pdu.RESPONSE
        await until(lambda: memory.held == 0)
        stranger.reader._transport.pause_reading()  # type: ignore[attr-defined]
        stranger.say(request(LARGE, b"%d" % (16 * MIB)))
        await until(lambda: memory.bytes[SEND] > 0)
        stranger.close()
        await until(lambda: memory.held == 0)


@on_loop
async def test_large_request_waits_while_memory_is_short() -> None:
    memory = MemoryAccount(4 * MIB)
    async with serving(memory=memory) as house:
        other = memory.open("10.0.0.9", lambda reason: None, lambda: None)
        other.take(RECEIVE, 3 * MIB)
        stranger = await house.bound()
        first = request(ECHO, bytes(60_000), flags=pdu.FIRST_FRAG)
        stranger.say(first, request(ECHO, bytes(60_000), flags=0))
        (link,) = house.server.links
        await until(lambda: link._holder is not None and link._holder.waiting)
        other.give(RECEIVE, 3 * MIB)
        stranger.say(request(ECHO, b"", flags=pdu.LAST_FRAG))
        size = 0
        while size < 120_000:
            size += len(pdu.read_response((await stranger.hear())[1][16:]).stub)
        await until(lambda: memory.held == 0)


@on_loop
async def test_who_leaves_while_a_call_waits_for_memory_holds_none_of_it() -> None:
    """Nothing is read from such a client, so that its end would be noticed by the time alone."""
    memory = MemoryAccount(4 * MIB)
    async with serving(memory=memory) as house:
        other = memory.open("10.0.0.9", lambda reason: None, lambda: None)
        other.take(RECEIVE, 3 * MIB)
        leaving, staying = await house.bound(), await house.bound()
        for stranger in (leaving, staying):
            first = request(ECHO, bytes(60_000), flags=pdu.FIRST_FRAG)
            stranger.say(first, request(ECHO, bytes(60_000), flags=0))
        await until(
            lambda: all(x._holder is not None and x._holder.waiting for x in house.server.links)
        )
        # Bytes that wait unread are not an end.
        staying.say(request(ECHO, b"", flags=pdu.LAST_FRAG))
        leaving.close()
        await until(lambda: len(house.server.links) == 1)
        other.give(RECEIVE, 3 * MIB)
        size = 0
        while size < 120_000:
            size += len(pdu.read_response((await staying.hear())[1][16:]).stub)
        await until(lambda: memory.held == 0)
        staying.close()
        await until(lambda: not house.server.links)


@on_loop
async def test_connection_that_holds_the_most_goes_when_memory_is_full() -> None:
    memory = MemoryAccount(1 * MIB)
    async with serving(RpcSettings(held_max=8 * MIB, request_max=8 * MIB), memory=memory) as house:
        greedy, modest = await house.bound(), await house.bound()
        for number in range(40):
            greedy.say(request(ECHO, bytes(60_000), flags=0 if number else pdu.FIRST_FRAG))
        await until(lambda: any(h.waiting for h in memory._holders))
        assert memory.held < memory.limit
        memory.close_slow(house.server.now())
        assert await greedy.is_closed()
        assert await modest.call(ECHO, b"x") == b"x"
        await until(lambda: memory.held == 0)


@on_loop
async def test_what_a_call_announces_is_reserved_until_it_is_whole() -> None:
    memory = MemoryAccount(8 * MIB)
    async with serving(memory=memory) as house:
        strangers = [await house.bound() for _ in range(3)]
        stub = pdu.pack_request(0, ECHO, bytes(60_000), alloc_hint=900_000)
        first = pdu.pack(pdu.REQUEST, pdu.FIRST_FRAG, 7, stub)
        for stranger in strangers:
            stranger.say(first)
        await until(lambda: len([h for h in memory._holders if h.waiting]) == 1)
        held = sum(h.bytes[RECEIVE] for h in memory._holders if not h.waiting)
        assert memory.reserved == 2 * (900_000 + CALL_OVERHEAD) - held
        assert memory.held < 200_000
        for stranger in strangers[:2]:
            stranger.say(request(ECHO, b"", flags=pdu.LAST_FRAG, call_id=7))
        await until(lambda: not any(h.waiting for h in memory._holders))
        for stranger in strangers:
            stranger.close()
        await until(lambda: memory.used == 0)


@on_loop
async def test_client_that_does_not_read_goes_before_others_have_to() -> None:
    memory = MemoryAccount(4 * MIB)
    closed: list[str] = []
    async with serving(memory=memory) as house:
        uploads = memory.open("10.0.0.9", closed.append, lambda: None)
        uploads.may_begin(2 * MIB, 0)
        uploads.take(RECEIVE, 2 * MIB)
        greedy, modest = await house.bound(), await house.bound()
        greedy.reader._transport.pause_reading()  # type: ignore[attr-defined]
        greedy.say(request(LARGE, b"%d" % (16 * MIB)))
        await until(lambda: house.server.refused[SHORT] == 1)
        assert closed == []
        assert await modest.call(ECHO, b"x") == b"x"
        await until(lambda: memory.held == 2 * MIB)


@on_loop
async def test_nothing_is_left_of_a_connection() -> None:
    async with serving() as house:
        stranger = await house.bound()
        stranger.say(request(ECHO, bytes(1000), flags=pdu.FIRST_FRAG), request(WAIT, call_id=8))
        await until(lambda: house.server.calls == 1)
        with without_collector():
            links = [ref(link) for link in house.server.links]
            stranger.close()
            await until(lambda: not house.server.links)
            await turn()
            assert [link() for link in links] == [None]
            assert circles() & {"ServerConnection", "ServerCall", "Link"} == set()


# -- the stop


@on_loop
async def test_stop_ends_what_waits_says_goodbye_and_closes() -> None:
    async with serving() as house:
        waiting, idle = await house.bound(), await house.bound()
        waiting.say(request(WAIT, call_id=3))
        await until(lambda: house.server.calls == 1)
        await house.server.stop(PATIENCE_S)
        assert await hear_all([waiting]) == [b"stopped"]
        for stranger in (waiting, idle):
            assert (await stranger.hear())[0].kind == pdu.SHUTDOWN
            assert await stranger.is_closed()
        with pytest.raises(ConnectionRefusedError):
            await house.connect()


@on_loop
async def test_stop_does_not_wait_for_those_who_do_not_read() -> None:
    async with serving() as house:
        stranger = await house.bound()
        stranger.reader._transport.pause_reading()  # type: ignore[attr-defined]
        stranger.say(request(LARGE, b"%d" % (32 * MIB)))
        (link,) = house.server.links
        await until(lambda: link._is_full)
        await house.server.stop(0)
        await until(lambda: not house.server.links)


@on_loop
async def test_stop_without_a_start_is_nothing() -> None:
    await RpcServer([]).stop(0)
