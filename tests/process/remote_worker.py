"""Processes that read from afar until they are killed; each tells a file what it has done."""

from __future__ import annotations

import random
import time

import posthouse
from tests.process.worker import WORK_S, Teller

HOST = "127.0.0.1"
QUEUE = r"private$\orders"
WINDOW = 8


def run(arguments: list[str]) -> int:
    """The kind of work, the port, the file and a seed."""
    kind, port, path, seed = arguments
    with posthouse.msmq(HOST, rpc_port=int(port), authentication="none") as far:
        WORK[kind](far.queue(QUEUE), Teller(path), random.Random(int(seed)))
    return 0


def receive(queue: posthouse.RemoteQueue, teller: Teller, drawn: random.Random) -> None:
    """One by one: a message is told of when it has left its queue."""
    while True:
        teller.tell("receiving", [])
        message = queue.receive()
        teller.tell("received", [message.body])


def batches(queue: posthouse.RemoteQueue, teller: Teller, drawn: random.Random) -> None:
    """Several at a time."""
    while True:
        teller.tell("receiving", [])
        messages = queue.receive_many(drawn.randint(1, WINDOW))
        teller.tell("received", [message.body for message in messages])


def consume(queue: posthouse.RemoteQueue, teller: Teller, drawn: random.Random) -> None:
    """With a window: a message is told of when it is seen, before it is ended."""
    with queue.consume(prefetch=WINDOW) as consumer:
        bodies: list[bytes] = []
        while (message := consumer.next()) is not None:
            bodies.append(message.body)
            teller.tell("seen", bodies[-1:])
            time.sleep(WORK_S)
            if not drawn.randrange(10):
                consumer.done()
                teller.tell("ended", bodies)
                bodies = []


WORK = {"receive": receive, "batches": batches, "consume": consume}
