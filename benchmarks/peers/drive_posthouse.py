"""Posthouse, over TCP like the others, with its blocking client."""

from __future__ import annotations

from contextlib import suppress
from itertools import repeat

from benchmarks.peers.driver import RECEIVE_TIMEOUT_S, Meter
from benchmarks.peers.work import Load, Mode
from posthouse.client.connect import connect
from posthouse.client.manager import Queue, QueueManagerClient
from posthouse.model.errors import QueueNotFound

EXPRESS_BATCH = 500  # the others send on and on where nothing is acknowledged


class PosthouseDriver:
    """`send_many` for pipelines, `send` for single messages, `consume` to receive."""

    def __init__(self, address: str, target: str = r".\private$\{}") -> None:
        self._url, _, self._token_file = address.partition(" ")
        self._target = target  # of producers

    def _connect(self) -> QueueManagerClient:
        return connect(url=self._url, token_file=self._token_file)

    def prepare(self, queue: str, mode: Mode) -> None:
        """Queues for transactions are made for them."""
        with self._connect() as manager:
            with suppress(QueueNotFound):
                manager.delete_queue(_path(queue))
            manager.create_queue(_path(queue), transactional=mode is Mode.TRANSACTION)

    def produce(self, queue: str, load: Load, body: bytes, meter: Meter) -> None:
        """Connected before the clock runs; the queue is opened by the first message."""
        with self._connect() as manager:
            target = manager.queue(self._target.format(queue))
            meter.start()
            if load.mode is Mode.SINGLE:
                _send_singly(target, load, body, meter)
            elif load.mode is Mode.TRANSACTION:
                _send_in_transactions(target, load, body, meter)
            else:
                target.send_many(repeat(body, load.messages), recoverable=load.durable)
            meter.stop()

    def consume(self, queue: str, load: Load, meter: Meter) -> int:
        """In batches, the next one on its way meanwhile; the last end is waited for."""
        received = size = 0
        with self._connect() as manager:
            source = manager.queue(_path(queue))
            meter.start()
            with source.consume(
                timeout=RECEIVE_TIMEOUT_S,
                batch=load.batch if load.durable else EXPRESS_BATCH,
                prefetch=True,
                at_once=not load.durable,  # as the others do where nothing is acknowledged
            ) as consumer:
                while received < load.messages:
                    message = consumer.next()
                    if message is None:
                        break
                    received += 1
                    size += len(message.body)
                consumer.done()
                meter.stop()
        return size


def _path(queue: str) -> str:
    return f".\\private$\\{queue}"


def _send_singly(target: Queue, load: Load, body: bytes, meter: Meter) -> None:
    for _ in range(load.messages):
        target.send(body, recoverable=True)
        meter.lap()


def _send_in_transactions(target: Queue, load: Load, body: bytes, meter: Meter) -> None:
    """Each group is a transaction of its own, in one request; others send theirs in one too."""
    for group in load.groups():
        target.send_many(repeat(body, group), transactional=True)
        meter.lap()


DRIVER = PosthouseDriver
