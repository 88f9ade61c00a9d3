"""Redis streams with a consumer group: redis-py with its parser in C."""

from __future__ import annotations

from typing import Any

import redis

from benchmarks.peers.driver import RECEIVE_TIMEOUT_S, Meter, host_and_port
from benchmarks.peers.work import Load, Mode

GROUP, CONSUMER, FIELD = "group", "consumer", b"body"


class RedisDriver:
    """A pipeline is a batch of commands whose answers are read together."""

    def __init__(self, address: str) -> None:
        self._host, self._port = host_and_port(address)

    def _connect(self) -> Any:
        client = redis.Redis(self._host, self._port, socket_timeout=2 * RECEIVE_TIMEOUT_S)
        client.ping()
        return client

    def prepare(self, queue: str, mode: Mode) -> None:
        """A stream with a group that begins at its start."""
        client = self._connect()
        client.delete(queue)
        client.xgroup_create(queue, GROUP, id="0", mkstream=True)
        client.close()

    def produce(self, queue: str, load: Load, body: bytes, meter: Meter) -> None:
        """Transactions are MULTI and EXEC."""
        client, entry = self._connect(), {FIELD: body}
        meter.start()
        if load.mode is Mode.SINGLE:
            for _ in range(load.messages):
                client.xadd(queue, entry)
                meter.lap()
        else:
            for group in load.groups():
                commands = client.pipeline(transaction=load.mode is Mode.TRANSACTION)
                for _ in range(group):
                    commands.xadd(queue, entry)
                commands.execute()
                if load.mode is Mode.TRANSACTION:
                    meter.lap()
        meter.stop()
        client.close()

    def consume(self, queue: str, load: Load, meter: Meter) -> int:
        """What was read is acknowledged and deleted, as a queue would."""
        client = self._connect()
        received = size = 0
        meter.start()
        while received < load.messages:
            entries = self._read(client, queue, min(load.batch, load.messages - received))
            if not entries:
                break
            identifiers = [identifier for identifier, _ in entries]
            commands = client.pipeline(transaction=False)
            commands.xack(queue, GROUP, *identifiers)
            commands.xdel(queue, *identifiers)
            commands.execute()
            received += len(entries)
            size += sum(len(fields[FIELD]) for _, fields in entries)
        meter.stop()
        client.close()
        return size

    def _read(self, client: Any, queue: str, count: int) -> list[Any]:
        """The next batch; the answer's shape depends on the protocol version."""
        found = client.xreadgroup(
            GROUP, CONSUMER, {queue: ">"}, count=count, block=RECEIVE_TIMEOUT_S * 1000
        )
        if not found:
            return []
        if isinstance(found, dict):
            (batches,) = found.values()
            return [entry for batch in batches for entry in batch]
        ((_, entries),) = found
        return list(entries)


DRIVER = RedisDriver
