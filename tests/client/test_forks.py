"""Sessions and processes that were forked from the one that has them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

import pytest

import posthouse
from tests.client.serving import Serving, serving
from tests.support.result_thread import Thread

_queue: posthouse.Queue

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def in_child(work: Callable[[], object]) -> str:
    """What work says in a child process of this one: the error that it ends with."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = repr(work())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


def test_a_child_connects_by_itself(server: Serving, path: str) -> None:
    with posthouse.connect(server.home) as manager:
        queue = manager.create_queue(path, transactional=True)
        queue.send_many([b"1", b"2"], transactional=True)

        def work() -> list[object]:
            with manager.transaction() as tx:
                queue.send(b"3", tx=tx)  # over the handles that the parent had opened
                queue.send(queue.receive(0, tx=tx), tx=tx)
            with queue.consume(timeout=0) as messages:
                found: list[object] = [next(messages).body]
                messages.done()
            found.append(in_child(queue.count))
            manager.close()
            return found

        assert in_child(work) == "[b'2', '2']"
        assert in_child(manager.close) == "None"
        queue.send(b"4", transactional=True)
        assert [queue.receive(0).body for _ in range(3)] == [b"3", b"1", b"4"]


def test_the_processes_of_a_pool_share_a_session_by_name_only(server: Serving, path: str) -> None:
    with posthouse.connect(server.home) as manager:
        queue = manager.create_queue(path)
        queue.send_many([b"%d" % number for number in range(40)])
        with get_context("fork").Pool(4, _use, (queue,)) as pool:
            bodies = pool.map(_receive, range(40), chunksize=1)
        assert sorted(bodies, key=int) == [b"%d" % number for number in range(40)]
        assert queue.count() == 0


def _use(queue: posthouse.Queue) -> None:
    global _queue
    _queue = queue


def _receive(_: int) -> bytes:
    return _queue.receive(timeout=60).body


def test_what_the_parent_holds_is_refused_in_a_child(server: Serving, path: str) -> None:
    with posthouse.connect(server.home) as manager:
        queue = manager.create_queue(path, transactional=True)
        queue.send_many([b"1", b"2", b"3"], transactional=True)
        spare = manager.create_queue(path + "-spare")
        spare.send(b"")
        begun = manager.transaction().begin()
        with manager.transaction() as tx, queue.consume(timeout=0, prefetch=True) as messages:
            taken = queue.receive(0, tx=tx)
            assert next(messages).body == b"2"
            cursor = spare.cursor()
            cursor.peek()

            def leave() -> None:
                with manager.transaction() as own, ExitStack() as blocks_of_the_parent:
                    blocks_of_the_parent.push(messages)
                    blocks_of_the_parent.push(tx)
                    queue.send(b"of the child", tx=own)
                    raise KeyError("in the block")

            held = "belongs to the process that this one was forked from. Make a"
            for work, what in (
                (lambda: queue.send(b"x", tx=tx), "transaction"),
                (lambda: queue.receive(0, tx=begun), "transaction"),
                (tx.commit, "transaction"),
                (begun.abort, "transaction"),
                (messages.next, "consumer"),
                (messages.done, "consumer"),
                (cursor.next, "cursor"),
            ):
                said = in_child(work)
                assert said.startswith(f"SessionEnded: this {what} {held} {what}"), said
            assert in_child(messages.close) == "None"
            assert in_child(leave).startswith("KeyError")
            queue.send(taken, tx=tx)
            assert next(messages).body == b"3"
        begun.abort()
        found = queue.receive_many(9, 0)
        assert [message.body for message in found] == [b"3", b"1"], "2 was done, 3 went back"


def test_threads_of_a_child_connect_once_and_a_lock_of_a_thread_that_it_lacks_holds_nothing(
    server: Serving, path: str
) -> None:
    with posthouse.connect(server.home) as manager, posthouse.connect(server.home) as other:
        queue = manager.create_queue(path)
        waits = Thread(lambda: queue.receive(60))
        while not other.queue(path).properties().waiting_readers:
            pass
        held, go = threading.Event(), threading.Event()

        def hold() -> None:
            with manager._channel.core.lock:
                held.set()
                go.wait()

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait()

        def work() -> int:
            with ThreadPoolExecutor(4) as threads:
                list(threads.map(lambda _: other.status(), range(8)))
                list(threads.map(lambda _: queue.name + manager.status().name, range(8)))
            return manager._channel.core.generation

        assert in_child(work) == "3", "one of the parent, the place of it, and one connection"
        go.set()
        holder.join()
        queue.send(b"for the parent")
        assert waits.result().body == b"for the parent"


def test_a_child_that_finds_no_server_connects_later(home: Path, path: str) -> None:
    with serving(home):
        manager = posthouse.connect(home, timeout=0.5, reconnect=0)
        queue = manager.create_queue(path)
        assert in_child(lambda: queue.send(b"")).count("\\\\") == 1, "`reconnect` is not asked"

    def work() -> list[str]:
        try:
            queue.count()
        except posthouse.ServerUnreachable as error:
            first = error.cause
        with serving(home):
            return [first, queue.name, str(queue.send(b"") != "")]

    said = in_child(work)
    assert said.startswith("['no queue manager answers at "), said
    assert said.endswith("'True']")
    manager.close()


def test_the_end_of_a_parent_is_noticed_in_spite_of_its_child(server: Serving, path: str) -> None:
    with posthouse.connect(server.home) as other:
        queue = other.create_queue(path)
        queue.send(b"once")
        manager = posthouse.connect(server.home)
        consumer = manager.queue(path).consume(timeout=0)
        next(iter(consumer))
        begun, may_end = os.pipe(), os.pipe()
        child = os.fork()
        if not child:
            os.write(begun[1], b"!")
            os.read(may_end[0], 1)
            os._exit(0)
        os.read(begun[0], 1)
        manager._channel._link.disconnect()
        assert queue.receive(timeout=60).body == b"once"  # given back, though the child lives
        os.write(may_end[1], b"!")
        os.waitpid(child, 0)
        for end in (*begun, *may_end):
            os.close(end)


def test_an_embedded_queue_manager_stays_with_its_process(home: Path, path: str) -> None:
    with posthouse.open(home) as manager:
        queue = manager.create_queue(path)
        assert in_child(lambda: queue.send(b"from the child")).startswith("SessionEnded")
        assert in_child(manager.close) == "None"
        assert queue.send(b"from the parent")
    with posthouse.open(home) as manager:
        assert manager.queue(path).count() == 1


def test_an_awaited_session_stays_with_its_process(server: Serving, path: str) -> None:
    async def main() -> None:
        async with posthouse.aio.connect(server.home) as manager:
            queue = await manager.create_queue(path)

            def ask() -> None:
                queue.count().send(None)

            assert in_child(ask).startswith("SessionEnded")
            assert await queue.count() == 0

    asyncio.run(main())
