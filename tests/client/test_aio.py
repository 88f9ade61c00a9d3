"""The asyncio client with a server over real sockets."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import TypeVar

import pytest

import posthouse
from posthouse.aio import Queue, QueueManagerClient
from posthouse.client.errors import (
    MessageReturned,
    ServerUnreachable,
    SessionEnded,
    TransactionAborted,
)
from posthouse.client.requests import EndRequest
from posthouse.model.errors import QueueExists, TransactionUsage
from tests.client.serving import Serving

T = TypeVar("T")
WAITS = 2000


class Round:
    """Lets the event loop go round once."""

    def __await__(self) -> Generator[None, None, None]:
        yield


async def one_round() -> None:
    await Round()


def run(server: Serving, work: Callable[[QueueManagerClient], Awaitable[T]]) -> T:
    """Does something with a session of its own."""

    async def main() -> T:
        async with posthouse.aio.connect(server.home) as manager:
            return await work(manager)

    return asyncio.run(main())


def test_the_names_of_the_blocking_client_awaited(server: Serving, path: str) -> None:
    async def work(manager: QueueManagerClient) -> None:
        assert manager.name == "ALPHA"
        assert manager.guid == (await manager.status()).guid
        queue = await manager.create_queue(path, journal=True)
        identifier = await queue.send({"customer": 7}, label="order")
        await queue.send_many([b"%d" % number for number in range(500)], priority=2)
        assert await queue.count() == 501
        assert (await queue.peek(0)).id == identifier
        message = await queue.receive(0)
        assert (message.json(), message.label) == ({"customer": 7}, "order")
        first = await queue.lookup(seek="first")
        assert (await queue.lookup(first.lookup_id, "next", receive=True)).body == b"1"
        assert len([message async for message in queue.browse(page=70)]) == 499
        await queue.move(first, queue.subqueue("poison"))
        assert await queue.subqueue("poison").purge() == 1
        async with queue.cursor(receiving=True) as cursor:
            assert (await cursor.peek()).body == b"2"
            assert (await cursor.next()).body == b"3"
            assert (await cursor.receive()).body == b"3"
        assert len(await queue.receive_many(10)) == 10
        assert (await queue.properties()).messages == 487
        assert (await queue.set(label="new")).label == "new"
        assert path[2:] in [one.path[6:] for one in await manager.queues()]
        assert (await manager.books()).balanced
        assert (await manager.call("GET", "/status"))["name"] == "ALPHA"
        assert await queue.journal.count() == 13
        with pytest.raises(QueueExists):
            await manager.create_queue(path)
        await queue.close()
        assert await queue.delete() == 500  # with its journal

    run(server, work)


def test_consumers(server: Serving, path: str) -> None:
    async def work(manager: QueueManagerClient) -> None:
        queue = await manager.create_queue(path)
        await queue.send_many([b"%d" % number for number in range(1000)])
        seen = [message.body async for message in queue.consume(timeout=0, prefetch=True)]
        assert seen == [b"%d" % number for number in range(1000)]
        await queue.send_many([b"a", b"b", b"c"])
        async with queue.consume(timeout=0) as messages:
            assert (await messages.next()).body == b"a"  # type: ignore[union-attr]
            assert (await messages.next()).body == b"b"  # type: ignore[union-attr]
            await messages.done()
        assert [message.body async for message in queue.browse()] == [b"c"]
        last = await queue.peek(0)
        async with queue.consume(lookup_id=last.lookup_id) as messages:
            assert (await messages.next()).body == b"c"  # type: ignore[union-attr]
        assert await queue.count() == 1, "it was not done, and is back"
        taken = [message.body async for message in queue.consume(lookup_id=last.lookup_id)]
        assert (taken, await queue.count()) == ([b"c"], 0)

    run(server, work)


def test_a_break_leaves_the_consumer_as_it_is(server: Serving, path: str) -> None:
    async def work(manager: QueueManagerClient) -> None:
        queue = await manager.create_queue(path)
        await queue.send_many([b"%d" % number for number in range(10)])
        async with queue.consume(timeout=0, batch=3, prefetch=True) as messages:
            async for message in messages:
                if message.body == b"3":
                    break
            await other(manager)  # the loop has its turn, as in a program that sleeps here
            await messages.done()
            assert await queue.count() == 6
            assert (await anext(messages)).body == b"4"
            rest = [message.body async for message in messages]
            assert rest == [b"5", b"6", b"7", b"8", b"9"]
            await queue.send(b"later")
            await anext(messages)
        with pytest.raises(MessageReturned, match="went back"):
            await messages.done()
        assert await queue.count() == 1
        async for message in queue.consume(timeout=0):
            assert message.body == b"later"
            break
        assert (await queue.receive(timeout=60)).body == b"later", "one that was dropped gives back"

    async def other(manager: QueueManagerClient) -> None:
        gc.collect()
        for _ in range(3):
            await manager.status()

    run(server, work)


async def failing(manager: QueueManagerClient, queue: Queue) -> None:
    async with manager.transaction() as tx:
        await queue.receive(0, tx=tx)
        raise KeyError("oh")


def test_transactions(server: Serving, path: str) -> None:
    async def work(manager: QueueManagerClient) -> None:
        queue = await manager.create_queue(path, transactional=True)
        async with manager.transaction() as tx:
            await queue.send(b"1", tx=tx)
        with pytest.raises(TransactionUsage):
            await queue.send(b"without")
        with pytest.raises(KeyError):
            await failing(manager, queue)
        tx = await manager.transaction().begin()
        await queue.send(b"2", tx=tx)
        await tx.commit()
        assert [message.body async for message in queue.browse()] == [b"1", b"2"]

    run(server, work)


def test_very_many_waits_are_entries_and_no_tasks(server: Serving, path: str) -> None:
    """Each wait is one request and one future; the client makes no task for it."""

    async def work(manager: QueueManagerClient) -> None:
        queue = await manager.create_queue(path)
        before = len(asyncio.all_tasks())
        waits = [asyncio.ensure_future(queue.receive()) for _ in range(WAITS)]
        while (await queue.properties()).waiting_readers < WAITS:
            pass
        assert len(asyncio.all_tasks()) == before + WAITS  # those of this test
        await queue.send_many([b"%d" % number for number in range(WAITS)])
        found = await asyncio.gather(*waits)
        assert {message.body for message in found} == {b"%d" % number for number in range(WAITS)}
        assert await queue.count() == 0

    run(server, work)


def test_ends_of_one_moment_are_few_frames(server: Serving, path: str) -> None:
    """Of what one read of the socket brings; the questions of the test do not count."""

    async def work(manager: QueueManagerClient) -> int:
        queue = await manager.create_queue(path)
        waits = [asyncio.ensure_future(queue.receive()) for _ in range(200)]
        while (await queue.properties()).waiting_readers < 200:
            pass
        core = manager._channel.core
        before = core._last_id
        await queue.send_many([b"x"] * 200)
        await asyncio.gather(*waits)
        return core._last_id - before

    assert run(server, work) < 10


def test_a_cancelled_receive_takes_nothing(server: Serving, path: str) -> None:
    async def work(manager: QueueManagerClient) -> None:
        queue = await manager.create_queue(path)
        for _ in range(20):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await queue.receive()
        while (await queue.properties()).waiting_readers:
            pass
        await queue.send(b"still here")
        assert (await queue.receive(5)).body == b"still here"

    run(server, work)


def test_a_consumer_goes_on_after_its_call_was_cancelled(server: Serving, path: str) -> None:
    async def work(manager: QueueManagerClient) -> None:
        queue = await manager.create_queue(path)
        async with queue.consume(prefetch=True) as consumer:
            for body in (b"1", b"2"):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.001):
                        await consumer.next()
                await queue.send(body)
                message = await consumer.next()
                assert message is not None
                assert message.body == body

    run(server, work)


def test_a_consumer_that_another_task_closes_waits_no_longer(server: Serving, path: str) -> None:
    async def work(manager: QueueManagerClient) -> None:
        queue = await manager.create_queue(path)
        consumer = queue.consume()
        waits = asyncio.create_task(consumer.next())
        while not (await queue.properties()).waiting_readers:
            pass
        await consumer.close()
        async with asyncio.timeout(30):
            assert await waits is None

    run(server, work)


def test_a_message_that_is_being_ended_is_returned_in_spite_of_a_cancellation(
    server: Serving, path: str
) -> None:
    async def work(manager: QueueManagerClient) -> None:
        queue = await manager.create_queue(path)
        await queue.send(b"mine")
        task = asyncio.ensure_future(queue.receive())
        await is_ending(manager)
        task.cancel()
        assert (await task).body == b"mine"
        assert await queue.count() == 0

    run(server, work)


async def is_ending(manager: QueueManagerClient) -> None:
    """Goes round until the end of a message is on its way."""
    core = manager._channel.core
    while not any(isinstance(request, EndRequest) for request in core._sent.values()):
        await one_round()


def test_a_cancellation_that_was_held_back_comes_with_the_next_wait(
    server: Serving, path: str
) -> None:
    async def work(manager: QueueManagerClient) -> None:
        queue, found = await manager.create_queue(path), list[bytes]()

        async def receive_for_ever() -> None:
            while True:
                found.append((await queue.receive()).body)

        task = asyncio.ensure_future(receive_for_ever())
        sending = asyncio.ensure_future(queue.send_many([b"a", b"b"]))
        await is_ending(manager)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await sending
        assert (found, await queue.count()) == ([b"a"], 1)

    run(server, work)


def test_a_cancellation_that_was_held_back_comes_also_with_a_wait_for_something_else(
    server: Serving, path: str
) -> None:
    async def work(manager: QueueManagerClient) -> None:
        queue, found = await manager.create_queue(path), list[bytes]()

        async def receive_and_work() -> None:
            found.append((await queue.receive()).body)
            try:
                await asyncio.Event().wait()
            finally:
                counts.append(task.cancelling())

        counts: list[int] = []
        task = asyncio.ensure_future(receive_and_work())
        sending = asyncio.ensure_future(queue.send(b"mine"))
        await is_ending(manager)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await sending
        assert (found, counts) == ([b"mine"], [1])

    run(server, work)


def test_a_timeout_that_was_held_back_is_over_when_it_is_left(server: Serving, path: str) -> None:
    async def work(manager: QueueManagerClient) -> None:
        queue = await manager.create_queue(path)

        async def receive_in_time() -> list[bytes]:
            async with asyncio.timeout(None) as limit:
                limits.append(limit)
                first = await queue.receive()
            return [first.body, (await queue.receive()).body]

        limits: list[asyncio.Timeout] = []
        task = asyncio.ensure_future(receive_in_time())
        sending = asyncio.ensure_future(queue.send_many([b"a", b"b"]))
        await is_ending(manager)
        limits[0].reschedule(0)
        assert await task == [b"a", b"b"]
        await sending

    run(server, work)


def test_cancelled_receives_lose_nothing_whenever_it_happens(server: Serving, path: str) -> None:
    async def work(manager: QueueManagerClient) -> None:
        queue = await manager.create_queue(path)
        await queue.send_many([b"%d" % number for number in range(50)], recoverable=True)
        found: list[bytes] = []
        for rounds in range(50):
            task = asyncio.ensure_future(queue.receive())
            for _ in range(rounds % 12):
                await one_round()
            task.cancel()
            try:
                found.append((await task).body)
            except asyncio.CancelledError:
                continue
        while (await queue.properties()).locked:
            pass
        found += [message.body async for message in queue.consume(timeout=0)]
        assert sorted(found) == sorted(b"%d" % number for number in range(50))

    run(server, work)


def test_a_cancelled_receive_of_a_transaction_loses_nothing(server: Serving, path: str) -> None:
    async def work(manager: QueueManagerClient) -> None:
        queue = await manager.create_queue(path, transactional=True)
        await queue.send_many([b"1", b"2"], transactional=True)
        async with manager.transaction() as tx:
            task = asyncio.ensure_future(queue.receive(tx=tx))
            while not any(read.transaction for read in manager._channel.core._sent.values()):
                await one_round()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(TransactionAborted, match="cancelled"):
                await tx.commit()
        assert await queue.count() == 2

    run(server, work)


def test_a_broken_connection_is_made_again(server: Serving, path: str) -> None:
    async def work(manager: QueueManagerClient) -> None:
        queue = await manager.create_queue(path)
        waits = [asyncio.ensure_future(queue.receive(30)) for _ in range(5)]
        for number in range(5):
            await asyncio.to_thread(server.break_connections)
            await queue.send(b"%d" % number, recoverable=True)
        found = await asyncio.gather(*waits)
        assert sorted(message.body for message in found) == [b"%d" % n for n in range(5)]
        assert await queue.count() == 0

    run(server, work)


def test_a_wait_outlives_a_restart(home: Path, path: str) -> None:
    async def main(first: Serving) -> bytes:
        async with posthouse.aio.connect(home) as manager:
            queue = await manager.create_queue(path)
            waiting = asyncio.ensure_future(queue.receive())
            while not (await queue.properties()).waiting_readers:
                pass
            await asyncio.to_thread(first.stop)
            second = await asyncio.to_thread(Serving, home)
            await queue.send(b"at last", recoverable=True)
            body = (await waiting).body
        await asyncio.to_thread(second.stop)
        return body

    assert asyncio.run(main(Serving(home))) == b"at last"


def test_nobody_there(home: Path) -> None:
    async def main() -> None:
        await posthouse.aio.connect(home)

    with pytest.raises(ServerUnreachable, match="posthouse serve"):
        asyncio.run(main())


def test_when_nobody_comes_back_it_says_so(home: Path, path: str) -> None:
    async def main(stop: Callable[[], None]) -> None:
        manager = await posthouse.aio.connect(home, reconnect=0.05)
        queue = await manager.create_queue(path)
        waiting = asyncio.ensure_future(queue.receive())
        await queue.count()
        await asyncio.to_thread(stop)
        with pytest.raises(ConnectionError):
            await waiting
        await manager.close()
        with pytest.raises(SessionEnded):
            await queue.count()

    asyncio.run(main(Serving(home).stop))


def test_a_receive_does_not_wait_longer_for_a_server_than_for_a_message(
    home: Path, path: str
) -> None:
    async def main() -> None:
        server = Serving(home)
        async with posthouse.aio.connect(home, reconnect=3600) as manager:
            queue = await manager.create_queue(path)
            patient = asyncio.create_task(queue.receive())
            while not (await queue.properties()).waiting_readers:
                pass
            await asyncio.to_thread(server.stop)
            for timeout in (0.05, 0):
                with pytest.raises(ServerUnreachable, match="until the timeout was over"):
                    await queue.receive(timeout=timeout)
            server = await asyncio.to_thread(Serving, home)
            await queue.send(b"at last", recoverable=True)
            assert (await patient).body == b"at last"
        await asyncio.to_thread(server.stop)

    asyncio.run(main())


def test_closing_ends_what_waits(server: Serving, path: str) -> None:
    async def main() -> None:
        manager = await posthouse.aio.connect(url=server.url, token=token)
        queue = await manager.create_queue(path)
        waiting = asyncio.ensure_future(queue.receive(timeout=None))
        await queue.count()
        await manager.close()
        with pytest.raises(SessionEnded):
            await waiting

    with posthouse.connect(server.home) as local:
        token = local.call("POST", "/tokens", {"role": "administer"})["token"]
    asyncio.run(main())


def test_two_loops_have_two_sessions(server: Serving, path: str) -> None:
    with posthouse.connect(server.home) as local:
        local.create_queue(path)

    async def work(manager: QueueManagerClient) -> None:
        await manager.queue(path).send_many([b"x"] * 100)

    threads = [threading.Thread(target=run, args=(server, work)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with posthouse.connect(server.home) as local:
        assert local.queue(path).count() == 300


def test_a_server_may_come_and_go_between_requests(home: Path, path: str) -> None:
    async def main() -> int:
        first = await asyncio.to_thread(Serving, home)
        async with posthouse.aio.connect(home) as manager:
            queue = await manager.create_queue(path)
            await queue.send(b"1", recoverable=True)
            await asyncio.to_thread(first.stop)
            second = await asyncio.to_thread(Serving, home)
            await queue.send(b"2", recoverable=True)
            count = await queue.count()
        await asyncio.to_thread(second.stop)
        return count

    assert asyncio.run(main()) == 2


def test_a_session_by_await_alone(server: Serving) -> None:
    async def main() -> str:
        manager = await posthouse.aio.connect(server.home, name="a test")
        async with manager:
            return repr(manager)

    assert "ALPHA" in asyncio.run(main())
