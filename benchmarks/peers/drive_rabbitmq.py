"""RabbitMQ with a classic durable queue: pika, its fastest pure client for each way of sending."""

from __future__ import annotations

from typing import Any

import pika  # type: ignore[import-untyped]

from benchmarks.peers.driver import Meter, host_and_port
from benchmarks.peers.work import BATCH, WINDOW, Load, Mode

TRANSIENT, PERSISTENT = 1, 2
LIMIT_S = 120  # of one round


class RabbitDriver:
    """Confirms for durable messages, tx for transactions, automatic acknowledgement for express."""

    def __init__(self, address: str) -> None:
        host, port = host_and_port(address)
        self._parameters = pika.ConnectionParameters(host, port, heartbeat=0)

    def prepare(self, queue: str, mode: Mode) -> None:
        """A durable queue for what is durable."""
        connection = pika.BlockingConnection(self._parameters)
        channel = connection.channel()
        channel.queue_delete(queue)
        channel.queue_declare(queue, durable=mode is not Mode.EXPRESS)
        connection.close()

    def produce(self, queue: str, load: Load, body: bytes, meter: Meter) -> None:
        """The blocking client cannot pipeline, so that is done with the other one."""
        if load.mode in (Mode.SINGLE, Mode.TRANSACTION):
            self._send_and_wait(queue, load, body, meter)
        else:
            _Publisher(self._parameters, queue, load, body, meter).run()

    def _send_and_wait(self, queue: str, load: Load, body: bytes, meter: Meter) -> None:
        connection = pika.BlockingConnection(self._parameters)
        channel = connection.channel()
        properties = pika.BasicProperties(delivery_mode=PERSISTENT)
        if load.mode is Mode.SINGLE:
            channel.confirm_delivery()
            meter.start()
            for _ in range(load.messages):
                channel.basic_publish("", queue, body, properties)
                meter.lap()
        else:
            channel.tx_select()
            meter.start()
            for group in load.groups():
                for _ in range(group):
                    channel.basic_publish("", queue, body, properties)
                channel.tx_commit()
                meter.lap()
        meter.stop()
        connection.close()

    def consume(self, queue: str, load: Load, meter: Meter) -> int:
        """Acknowledges a hundred messages at a time; a request after the last one shows that it
        arrived.
        """
        connection = pika.BlockingConnection(self._parameters)
        channel = connection.channel()
        received = size = 0

        def take(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
            nonlocal received, size
            received += 1
            size += len(body)
            if load.durable and (received % load.batch == 0 or received == load.messages):
                channel.basic_ack(method.delivery_tag, multiple=True)
            if received == load.messages:
                channel.stop_consuming()

        if load.durable:
            channel.basic_qos(prefetch_count=WINDOW)
        connection.call_later(LIMIT_S, channel.stop_consuming)
        meter.start()
        channel.basic_consume(queue, take, auto_ack=not load.durable)
        channel.start_consuming()
        if load.durable:
            channel.queue_declare(queue, passive=True)
        meter.stop()
        connection.close()
        return size


class _Publisher:
    """Publishes with as many unconfirmed messages as the window allows; express without any."""

    def __init__(self, parameters: Any, queue: str, load: Load, body: bytes, meter: Meter) -> None:
        self._queue = queue
        self._load = load
        self._body = body
        self._meter = meter
        mode = PERSISTENT if load.durable else TRANSIENT
        self._properties = pika.BasicProperties(delivery_mode=mode)
        self._sent = 0
        self._confirmed = 0  # all up to this one
        self._early: set[int] = set()  # confirmed before one in front of them
        self._connection = pika.SelectConnection(
            parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_close_callback=lambda connection, _: connection.ioloop.stop(),
        )

    def run(self) -> None:
        """Until everything is sent and confirmed."""
        self._connection.ioloop.start()
        assert self._meter.ended, "RabbitMQ closed the connection"

    def _opened(self, channel: Any) -> None:
        self._channel = channel
        if self._load.durable:
            channel.confirm_delivery(self._on_confirm, callback=lambda _: self._start())
        else:
            self._start()

    def _start(self) -> None:
        self._meter.start()
        if self._load.durable:
            self._fill_window()
        else:
            self._publish_on()

    def _publish(self) -> None:
        self._channel.basic_publish("", self._queue, self._body, self._properties)
        self._sent += 1

    def _publish_on(self) -> None:
        """A batch, then what has piled up is written."""
        for _ in range(min(BATCH, self._load.messages - self._sent)):
            self._publish()
        if self._sent < self._load.messages:
            self._connection.ioloop.call_later(0, self._publish_on)
        else:
            self._finish()

    def _fill_window(self) -> None:
        limit = min(self._load.messages, self._confirmed + WINDOW)
        while self._sent < limit:
            self._publish()

    def _on_confirm(self, frame: Any) -> None:
        tag = frame.method.delivery_tag
        if frame.method.multiple:
            self._confirmed = max(self._confirmed, tag)
            self._early = {early for early in self._early if early > tag}
        else:
            self._early.add(tag)
        while self._confirmed + 1 in self._early:
            self._confirmed += 1
            self._early.remove(self._confirmed)
        if self._confirmed >= self._load.messages:
            self._finish()
        else:
            self._fill_window()

    def _finish(self) -> None:
        self._meter.stop()
        self._connection.close()


DRIVER = RabbitDriver
