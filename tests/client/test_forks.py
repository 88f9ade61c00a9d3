"""Sessions and processes that were forked from the one that has them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import posthouse
from tests.client.serving import Serving

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


def test_a_child_is_told_to_connect_by_itself(server: Serving, path: str) -> None:
    with posthouse.connect(server.home) as manager:
        queue = manager.create_queue(path)
        said = in_child(lambda: queue.send(b"from the child"))
        assert said.startswith("SessionEnded: this session belongs")
        assert said.endswith("after the fork.")
        assert in_child(manager.close) == "None"
        assert queue.send(b"from the parent")
        assert queue.count() == 1

    def anew() -> int:
        with posthouse.connect(server.home) as own:
            return own.queue(path).count()

    assert in_child(anew) == "1"


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
