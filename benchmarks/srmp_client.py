"""Senders of one message at a time on each of several connections, for `srmp`.

`python -m benchmarks.srmp_client http|amqp HOST:PORT CONNECTIONS COUNT`. It reports in lines of
JSON: `ready` when it is connected, then it waits for a line; `done` with its times after that.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import uvloop

from benchmarks.peers.driver import Meter, host_and_port
from benchmarks.samples import body_of

QUEUE = "orders"
FIRST_ID = 1_000_000_000  # so that all identifiers have as many digits
GUID = "caf195ea-615c-4264-ae08-11a4e60194c0"
BOUNDARY = "MSMQ - SOAP boundary, 53287"
ANSWER_END, POSITIVE = b"\r\n\r\n", b"HTTP/1.1 200"
LIMIT_S = 120.0

ENVELOPE = """<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/" \
xmlns="http://schemas.xmlsoap.org/srmp/"><se:Header>\
<path xmlns="http://schemas.xmlsoap.org/rp/" se:mustUnderstand="1"><action>MSMQ:order</action>\
<to>http://{address}/msmq/private$/{queue}</to><id>uuid:{number}@{guid}</id></path>\
<properties se:mustUnderstand="1"><expiresAt>20380119T031407</expiresAt>\
<sentAt>{sent}</sentAt></properties><services se:mustUnderstand="1"><durable/></services>\
<Msmq xmlns="msmq.namespace.xml"><Class>0</Class><Priority>3</Priority>\
<Correlation>AAAAAAAAAAAAAAAAAAAAAAAAAAA=</Correlation><App>0</App><BodyType>0</BodyType>\
<HashAlgorithm>32772</HashAlgorithm><SourceQmGuid>{guid}</SourceQmGuid><TTrq>{reach}</TTrq>\
</Msmq></se:Header><se:Body></se:Body></se:Envelope>"""
DAY_S = 86_400


def requests(address: str, first: int, count: int) -> Iterator[bytes]:
    """Durable messages of 1 KiB as MSMQ posts them, each with an identifier of its own."""
    for number in range(first, first + count):
        yield request(address, number, body_of(number))


def request(address: str, number: int, body: bytes) -> bytes:
    """One of them."""
    now = time.time()
    envelope = ENVELOPE.format(
        address=address,
        queue=QUEUE,
        number=number,
        guid=GUID,
        sent=_date(now),
        reach=_date(now + DAY_S),
    ).encode()
    payload = b"".join(
        (
            f"--{BOUNDARY}\r\nContent-Type: text/xml; charset=UTF-8\r\n".encode(),
            b"Content-Length: %d\r\n\r\n" % len(envelope),
            envelope,
            f"--{BOUNDARY}\r\nContent-Type: application/octet-stream\r\n".encode(),
            f"Content-Length: {len(body)}\r\nContent-Id: body@{GUID}\r\n\r\n".encode(),
            body,
            f"--{BOUNDARY}--\r\n".encode(),
        )
    )
    head = (
        f"POST /msmq/private$/{QUEUE} HTTP/1.1\r\nHost: {address}\r\n"
        f'Content-Type: multipart/related; boundary="{BOUNDARY}"; type=text/xml\r\n'
        f'Content-Length: {len(payload)}\r\nSOAPAction: "MSMQMessage"\r\n'
        "Proxy-Accept: NonInteractiveClient\r\n\r\n"
    )
    return head.encode() + payload


def _date(utc: float) -> str:
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(utc))


# -- HTTP


class Poster(asyncio.Protocol):
    """One connection that is kept alive; the next request leaves when the last is answered."""

    def __init__(self, mine: list[bytes], finished: Callable[[], None]) -> None:
        self._mine = mine
        self._finished = finished
        self._answer = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Waits until everybody is connected."""
        self._transport = cast(asyncio.Transport, transport)

    def post(self) -> None:
        """The next one, if there is one."""
        if self._mine:
            self._transport.write(self._mine.pop())
        else:
            self._transport.close()
            self._finished()

    def data_received(self, data: bytes) -> None:
        """An answer, or a part of one."""
        self._answer += data
        head, end, rest = self._answer.partition(ANSWER_END)
        if end and len(rest) >= _length(head):
            assert self._answer.startswith(POSITIVE), self._answer
            self._answer = b""
            self.post()


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return int(value)
    return 0


async def post(address: str, connections: int, count: int, meter: Meter) -> None:
    """All messages, over all connections; the messages are made before the clock runs."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    left = connections

    def finished() -> None:
        nonlocal left
        left -= 1
        if not left:
            meter.stop()
            over.set()

    host, port = host_and_port(address)
    # Different in every run, as long as the server remembers identifiers: no server is so fast
    # that the next run could begin within the numbers of this one.
    first = FIRST_ID + int(time.monotonic() * 100_000) % (3 * 10**9)
    share = count // connections
    posters = []
    for number in range(connections):
        mine = list(requests(address, first + number * share, share))
        _, poster = await loop.create_connection(lambda: Poster(mine, finished), host, port)  # noqa: B023
        posters.append(poster)
    meter.start()
    for poster in posters:
        poster.post()
    await asyncio.wait_for(over.wait(), LIMIT_S)


def post_all(address: str, connections: int, count: int, meter: Meter) -> None:
    """Post all messages, called from outside of any loop."""
    uvloop.run(post(address, connections, count, meter))


# -- AMQP


class Publisher:
    """A connection to RabbitMQ: a persistent message leaves when the last is confirmed."""

    def __init__(self, connection: Any, share: int, finished: Callable[[], None]) -> None:
        import pika  # type: ignore[import-untyped]

        self._properties = pika.BasicProperties(delivery_mode=2)
        self._connection = connection
        self._sent, self._share = 0, share
        self._finished = finished
        self._channel: Any = None

    def opened(self, ready: Callable[[], None]) -> None:
        """Asks for a channel that confirms."""

        def confirm(channel: Any) -> None:
            self._channel = channel
            channel.confirm_delivery(lambda frame: self.publish(), callback=lambda _: ready())

        self._connection.channel(on_open_callback=confirm)

    def publish(self) -> None:
        """The next one, if there is one."""
        if self._sent == self._share:
            self._finished()
            return
        self._sent += 1
        self._channel.basic_publish("", QUEUE, body_of(self._sent), self._properties)


def publish_all(address: str, connections: int, count: int, meter: Meter) -> None:
    """All connections on one loop, as those over HTTP are."""
    import pika

    host, port = host_and_port(address)
    loop: Any = None  # the first makes one
    parameters = pika.ConnectionParameters(host, port, heartbeat=0)
    publishers: list[Publisher] = []
    waiting, left = connections, connections

    def ready() -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            meter.start()
            for publisher in publishers:
                publisher.publish()

    def finished() -> None:
        nonlocal left
        left -= 1
        if not left:
            meter.stop()
            loop.stop()

    for _ in range(connections):
        connection = pika.SelectConnection(parameters, custom_ioloop=loop)
        loop = connection.ioloop
        publisher = Publisher(connection, count // connections, finished)
        connection.add_on_open_callback(lambda _, made=publisher: made.opened(ready))
        publishers.append(publisher)
    loop.start()
    assert meter.ended, "RabbitMQ closed a connection"


WAYS = {"http": post_all, "amqp": publish_all}


def main(way: str, address: str, connections: int, count: int) -> None:
    """Does it once and returns the time it took."""

    def wait() -> None:
        print(json.dumps({"ready": True}), flush=True)
        sys.stdin.readline()

    meter = Meter(wait)
    WAYS[way](address, connections, count, meter)
    wall_s = meter.ended - meter.began
    print(json.dumps({"done": count, "wall_s": wall_s, "cpu_s": meter.cpu_s}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
