"""A table as a queue in PostgreSQL: asyncpg, `for update skip locked`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from benchmarks.peers.driver import RECEIVE_TIMEOUT_S, Meter, host_and_port
from benchmarks.peers.work import LARGE, LARGE_WINDOW, Load, Mode

USER, DATABASE = "bench", "postgres"
CONNECTIONS = 16  # one has one statement at a time, so a pipeline is several connections


class PostgresDriver:
    """A row a message; taking it is deleting it."""

    def __init__(self, address: str) -> None:
        self._host, self._port = host_and_port(address)

    async def _connect(self) -> Any:
        return await asyncpg.connect(host=self._host, port=self._port, user=USER, database=DATABASE)

    def prepare(self, queue: str, mode: Mode) -> None:
        """Vacuum would come at times of its own."""

        async def run() -> None:
            connection = await self._connect()
            await connection.execute(f"drop table if exists {queue}")
            await connection.execute(
                f"create table {queue} (id bigserial primary key, body bytea)"
                " with (autovacuum_enabled = off)"
            )
            await connection.execute("checkpoint")
            await connection.close()

        asyncio.run(run())

    def produce(self, queue: str, load: Load, body: bytes, meter: Meter) -> None:
        """Each statement is a transaction; in transactions a hundred rows are one."""

        async def run() -> None:
            insert = f"insert into {queue} (body) values ($1)"
            connections = [await self._connect() for _ in range(_connections(load))]
            statements = [await connection.prepare(insert) for connection in connections]
            meter.start()
            if load.mode is Mode.SINGLE:
                for _ in range(load.messages):
                    await statements[0].fetch(body)
                    meter.lap()
            elif load.mode is Mode.TRANSACTION:
                for group in load.groups():
                    await connections[0].executemany(insert, [(body,)] * group)
                    meter.lap()
            else:
                turns = iter(range(load.messages))
                await asyncio.gather(*(_insert(one, turns, body) for one in statements))
            meter.stop()
            for connection in connections:
                await connection.close()

        asyncio.run(run())

    def consume(self, queue: str, load: Load, meter: Meter) -> int:
        """A batch a statement."""

        async def run() -> int:
            connection = await self._connect()
            await connection.execute("set enable_seqscan = off")
            take = await connection.prepare(
                f"delete from {queue} where id in"
                f" (select id from {queue} order by id for update skip locked limit $1)"
                " returning body"
            )
            received = size = 0
            meter.start()
            until = time.monotonic() + RECEIVE_TIMEOUT_S
            while received < load.messages and time.monotonic() < until:
                rows = await take.fetch(min(load.batch, load.messages - received))
                received += len(rows)
                size += sum(len(row[0]) for row in rows)
            meter.stop()
            await connection.close()
            return size

        return asyncio.run(run())


def _connections(load: Load) -> int:
    if load.mode is not Mode.PIPELINED:
        return 1
    return CONNECTIONS if load.size < LARGE else LARGE_WINDOW


async def _insert(statement: Any, turns: Any, body: bytes) -> None:
    for _ in turns:
        await statement.fetch(body)


DRIVER = PostgresDriver
