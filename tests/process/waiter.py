"""A client process with very many receives that wait, in one thread, told by lines what to do."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

import posthouse.aio
from posthouse.aio import QueueManagerClient

QUEUE = r".\private$\waited"
PATIENCE_S = 120.0


class Waiter:
    """The receives of one session."""

    def __init__(self, qm: QueueManagerClient) -> None:
        self.qm = qm
        self.queue = qm.queue(QUEUE)
        self.tasks: list[asyncio.Task[str]] = []

    async def wait(self, count: int) -> int:
        """Lets this many receives wait; returns how many the server has."""
        self.tasks += [asyncio.create_task(self._receive()) for _ in range(count)]
        return await self._settled()

    async def _receive(self) -> str:
        return (await self.queue.receive()).text

    async def cancel(self, count: int) -> int:
        """Calls this many off, from all over; returns how many the server has still."""
        step = len(self.tasks) // count
        cancelled = self.tasks[::step][:count]
        for task in cancelled:
            task.cancel()
        await asyncio.wait(cancelled)
        assert all(task.cancelled() for task in cancelled)
        self.tasks = [task for task in self.tasks if not task.done()]
        return await self._settled()

    async def _settled(self) -> int:
        """The server knows of every receive, and of every one that was called off."""
        async with asyncio.timeout(PATIENCE_S):
            while (there := (await self.queue.properties()).waiting_readers) != len(self.tasks):
                await asyncio.sleep(0.05)
        return there

    async def served(self, count: int) -> list[str]:
        """The bodies that the receives brought; they all have to."""
        assert count == len(self.tasks)
        async with asyncio.timeout(PATIENCE_S):
            tasks, self.tasks = self.tasks, []
            return list(await asyncio.gather(*tasks))


async def obey(home: str) -> None:
    """Lines come in: a word and a number; the answer goes out as one line."""
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with posthouse.aio.connect(home) as qm:
        waiter = Waiter(qm)
        words: dict[str, Callable[[int], Awaitable[object]]] = {
            "wait": waiter.wait,
            "cancel": waiter.cancel,
            "served": waiter.served,
        }
        while line := await lines.readline():
            word, number = line.split()
            answer = await words[word.decode()](int(number))
            assert threading.active_count() == 1
            sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
            sys.stdout.buffer.flush()


def memory_mib(pid: int) -> float:
    """What a process has in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no such line")


def processor_s(pid: int) -> float:
    """The time that all threads of a process had a processor."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


if __name__ == "__main__":
    asyncio.run(obey(sys.argv[1]))
