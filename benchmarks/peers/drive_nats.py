"""NATS core: messages that are not kept, the fastest way from process to process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import nats
import uvloop
from nats.aio.client import Client
from nats.aio.msg import Msg

from benchmarks.peers.driver import RECEIVE_TIMEOUT_S, Meter
from benchmarks.peers.work import WINDOW, Load, Mode

T = TypeVar("T")
PENDING_SIZE = 64 << 20


class NatsDriver:
    """nats-py on uvloop."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def _connect(self) -> Client:
        return await nats.connect(f"nats://{self._address}", pending_size=PENDING_SIZE)

    def prepare(self, queue: str, mode: Mode) -> None:
        """There is nothing to make."""

    def produce(self, queue: str, load: Load, body: bytes, meter: Meter) -> None:
        """With a round trip now and then, so that the client's buffer does not grow."""

        async def run() -> None:
            client = await self._connect()
            meter.start()
            for number in range(1, load.messages + 1):
                await client.publish(queue, body)
                if number % WINDOW == 0:
                    await client.flush(RECEIVE_TIMEOUT_S)
            await client.flush(RECEIVE_TIMEOUT_S)
            meter.stop()
            await client.close()

        _run(run())

    def consume(self, queue: str, load: Load, meter: Meter) -> int:
        """Subscribed before the producer begins: what comes earlier is lost."""

        async def run() -> int:
            client = await self._connect()
            received = size = 0
            all_there = asyncio.Event()

            async def take(message: Msg) -> None:
                nonlocal received, size
                received += 1
                size += len(message.data)
                if received == load.messages:
                    all_there.set()

            await client.subscribe(queue, cb=take, pending_msgs_limit=-1, pending_bytes_limit=-1)
            await client.flush()
            meter.start()
            await asyncio.wait_for(all_there.wait(), RECEIVE_TIMEOUT_S)
            meter.stop()
            await client.close()
            return size

        return _run(run())


def _run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


DRIVER = NatsDriver
