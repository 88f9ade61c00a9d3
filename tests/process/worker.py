"""Client processes that are killed while they work. Each tells a file what it begins and ends."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

import posthouse
import posthouse.aio
from posthouse.client.address import resolve
from posthouse.client.blocking import Channel
from posthouse.client.session_socket import SocketLink
from tests.process.shop import LEFT, MOVED, ORDERS, RIGHT, Names

SCRIPT_LENGTH = 60  # requests with an id; this many results are kept of one name
BATCH = 8
WORK_S = 0.001  # on a message, so that there are always more


class Event(NamedTuple):
    """A line of the file: the bodies of something that was begun, or ended, and when."""

    what: str
    bodies: list[str]
    at_ns: int


def read(path: Path) -> list[Event]:
    """What a process told; all of it, for the system keeps what a killed one wrote."""
    return [msgspec.json.decode(line, type=Event) for line in path.read_bytes().splitlines()]


class Teller:
    """Writes the file."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def tell(self, what: str, bodies: list[bytes]) -> None:
        event = Event(what, [body.decode() for body in bodies], time.monotonic_ns())
        os.write(self._file, msgspec.json.encode(event) + b"\n")


def run(arguments: list[str]) -> int:
    """The kind of work, the home, the file, a name, and a seed."""
    kind, home, path, who, seed = arguments
    teller, drawn = Teller(path), random.Random(int(seed))
    if kind == "crowd":
        asyncio.run(crowd(home, teller, drawn, who))
    elif kind == "script":
        follow_script(home, teller, who)
        signal.pause()  # the kill comes late
    else:
        with posthouse.connect(home) as qm:
            KINDS[kind](qm, teller, drawn, Names(who))
    return 0


# -- kinds of work, for ever


def send(
    qm: posthouse.QueueManagerClient, teller: Teller, drawn: random.Random, names: Names
) -> None:
    """Durable batches."""
    while True:
        bodies = names.take(drawn.randint(1, 100))
        teller.tell("sending", bodies)
        qm.queue(ORDERS).send_many(bodies, recoverable=True)
        teller.tell("sent", bodies)


def pairs(
    qm: posthouse.QueueManagerClient, teller: Teller, drawn: random.Random, names: Names
) -> None:
    """Transactions over two queues."""
    while True:
        bodies = names.take(drawn.randint(1, 30))
        teller.tell("committing", bodies)
        with qm.transaction() as tx:
            qm.queue(LEFT).send_many(bodies, tx=tx)
            qm.queue(RIGHT).send_many(bodies, tx=tx)
        teller.tell("committed", bodies)


def move(
    qm: posthouse.QueueManagerClient, teller: Teller, drawn: random.Random, names: Names
) -> None:
    """Transactions that receive and send."""
    while True:
        with qm.transaction() as tx:
            found = qm.queue(LEFT).receive_many(drawn.randint(1, 8), tx=tx)
            bodies = [message.body for message in found]
            teller.tell("moving", bodies)
            qm.queue(MOVED).send_many(bodies, tx=tx)
        teller.tell("moved", bodies)


def consume(
    qm: posthouse.QueueManagerClient, teller: Teller, drawn: random.Random, names: Names
) -> None:
    """Receives in two steps: what was seen is told before it is ended."""
    with qm.queue(ORDERS).consume(batch=50) as consumer:
        bodies: list[bytes] = []
        while (message := consumer.next()) is not None:
            bodies.append(message.body)
            teller.tell("seen", bodies[-1:])
            time.sleep(WORK_S)
            if not drawn.randrange(20):
                consumer.done()
                teller.tell("ended", bodies)
                bodies = []


KINDS: dict[str, Callable[[posthouse.QueueManagerClient, Teller, random.Random, Names], None]] = {
    "send": send,
    "pairs": pairs,
    "move": move,
    "consume": consume,
}


async def crowd(home: str, teller: Teller, drawn: random.Random, who: str) -> None:
    """Many tasks of one session."""
    async with posthouse.aio.connect(home) as qm:

        async def send(names: Names) -> None:
            bodies = names.take(drawn.randint(1, 5))
            teller.tell("sending", bodies)
            await qm.queue(ORDERS).send_many(bodies, recoverable=True)
            teller.tell("sent", bodies)

        async def commit(names: Names) -> None:
            bodies = names.take(drawn.randint(1, 5))
            teller.tell("committing", bodies)
            async with qm.transaction() as tx:
                await qm.queue(LEFT).send_many(bodies, tx=tx)
                await qm.queue(RIGHT).send_many(bodies, tx=tx)
            teller.tell("committed", bodies)

        async def repeat(number: int) -> None:
            names, step = Names(f"{who}-{number}"), (send, commit)[number % 2]
            while True:
                await step(names)

        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(repeat(number))


# -- work that another process can ask for again


def named_client(home: str, who: str) -> posthouse.QueueManagerClient:
    """A client of a session with a known name."""
    link = SocketLink(resolve(home, None, None, None))
    return posthouse.QueueManagerClient(Channel(link, who.encode().rjust(16), who, 10.0, 30.0))


def follow_script(home: str, teller: Teller, who: str) -> None:
    """Sends and commits in an order that never changes, so request ids name the same work."""
    names = Names(who)
    with named_client(home, who) as qm:
        for number in range(SCRIPT_LENGTH):
            bodies = names.take(BATCH)
            if number % 3:
                teller.tell("sending", bodies)
                ids = qm.queue(ORDERS).send_many(bodies, recoverable=True)
                teller.tell("sent", [one.encode() for one in ids])
            else:
                teller.tell("committing", bodies)
                with qm.transaction() as tx:
                    qm.queue(LEFT).send_many(bodies, tx=tx)
                    qm.queue(RIGHT).send_many(bodies, tx=tx)
                teller.tell("committed", bodies)


def wait_for_line(path: Path, count: int, patience_s: float = 60.0) -> None:
    """Until a process has told so much."""
    until = time.monotonic() + patience_s
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert time.monotonic() < until, f"{path} stays short"
        time.sleep(0.005)
