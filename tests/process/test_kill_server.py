"""`kill -9` of a real server while clients of every kind work, again and again on one home."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

import posthouse
import posthouse.aio
from posthouse import (
    ClientConnectionError,
    IoTimeout,
    MessageReturned,
    ServerUnreachable,
    TransactionAborted,
)
from posthouse.client.core import SessionCore
from posthouse.client.requests import CommitRequest, EndRequest, Request, SendRequest
from tests.conftest import Dose
from tests.process import shop
from tests.process.shop import DIARY, LEFT, MOVED, NOTES, ORDERS, RIGHT, Names, Told
from tests.process.warm import WarmServer
from tests.support.process.body_order import in_order

WORK = (SendRequest, EndRequest, CommitRequest)  # a waiting read is none
STEPS = 2  # that each client takes with a new server before the next kill may come
KILL_WITHIN_S = 0.15
PATIENCE_S = 60.0
DAY = 10  # kills; at its end all queues are emptied and looked at
PAUSE_S = 0.02  # at most, between two steps: the load is many clients, not many messages
AIO_SENDERS, AIO_RECEIVERS = 4, 4
# Small, so that segments are sealed, compacted and checkpointed while they are killed.
SETTINGS = "[store]\nsegment_size = '1MiB'\nexpress_memory = '64KiB'\n"
Step = Callable[[], None]
AioStep = Callable[[], Awaitable[None]]


class Load:
    """Clients at work, each step after step until they are told to stop."""

    def __init__(self, home: Path, drawn: random.Random) -> None:
        self.home = home
        self.told = Told()
        self.steps: Counter[str] = Counter()
        self.cores: list[SessionCore] = []
        self.failures: list[BaseException] = []
        self._seeds = drawn
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        for kind in (Diary, Reader, Sender, Pairs, Mover, Receiver, Impatient):
            self._spawn(kind(self, self.draw()).work)
        self._spawn(lambda: asyncio.run(Crowd(self, self.draw()).work()))

    def draw(self) -> random.Random:
        """Chance of its own for one client."""
        return random.Random(self._seeds.getrandbits(32))

    def _spawn(self, work: Step) -> None:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                self.failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self._threads.append(thread)

    def repeat(self, name: str, step: Step) -> None:
        """One client's work."""
        drawn = self.draw()
        self.steps[name] = 0
        while not self._stop.is_set():
            step()
            self.steps[name] += 1
            time.sleep(drawn.uniform(0, PAUSE_S))

    async def repeat_aio(self, name: str, step: AioStep) -> None:
        """The same for a task."""
        drawn = self.draw()
        self.steps[name] = 0
        while not self._stop.is_set():
            await step()
            self.steps[name] += 1
            await asyncio.sleep(drawn.uniform(0, PAUSE_S))

    def wait_for_steps(self, count: int) -> None:
        """Until every client has come on by this many, counted from now."""
        before, until = self.steps.copy(), time.monotonic() + PATIENCE_S
        while any(self.steps[name] < before[name] + count for name in before):
            self.check()
            assert time.monotonic() < until, {n: self.steps[n] - before[n] for n in before}
            time.sleep(0.005)

    def unanswered(self) -> list[Request]:
        """Work that was asked for and has no answer at this moment."""
        sent = [request for core in self.cores for request in list(core._sent.values())]
        return [request for request in sent if isinstance(request, WORK)]

    def check(self) -> None:
        if self.failures:
            raise self.failures[0]

    def stop(self) -> None:
        """Everybody ends the step that they are in."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        self.check()


class Client:
    """One that sits in a thread and has a session of its own."""

    def __init__(self, load: Load, drawn: random.Random) -> None:
        self.load = load
        self.told = load.told
        self.drawn = drawn
        self.name = type(self).__name__
        self.names = Names(self.name)

    def work(self) -> None:
        with posthouse.connect(self.load.home) as self.qm:
            self.load.cores.append(self.qm._channel.core)
            self.load.repeat(self.name, self.step)

    def step(self) -> None:
        raise NotImplementedError

    def bodies(self, count_max: int) -> list[bytes]:
        return self.names.take(self.drawn.randint(1, count_max))


class Diary(Client):
    """Durable batches, some of several frames, to a queue that nobody else sends to."""

    def step(self) -> None:
        bodies = self.bodies(self.drawn.choice((30, 30, 30, 600)))
        ids = self.qm.queue(DIARY).send_many(bodies, recoverable=True)
        assert len(ids) == len(set(ids)) == len(bodies)
        self.told.diary += bodies


class Reader(Client):
    """Reads the diary on and on; what it had when the server died comes again, and says so."""

    def work(self) -> None:
        with posthouse.connect(self.load.home) as self.qm:
            self.load.cores.append(self.qm._channel.core)
            with self.qm.queue(DIARY).consume(timeout=0.05, batch=50) as self.consumer:
                self.load.repeat(self.name, self.step)

    def step(self) -> None:
        bodies: list[bytes] = []
        for _ in range(self.drawn.randint(1, 300)):
            try:
                message = self.consumer.next()
            except ServerUnreachable:  # longer than it waits for a message; it goes on later
                break
            if message is None:
                break
            bodies.append(message.body)
            self.told.read.append((message.body, message.in_doubt))
        try:
            self.consumer.done()
        except MessageReturned:
            return
        assert self.told.put_down.isdisjoint(bodies), "read again though it was ended"
        self.told.put_down.update(bodies)


class Sender(Client):
    """Durable messages, one by one and in small batches."""

    def step(self) -> None:
        bodies = self.bodies(30)
        if len(bodies) < 5:
            for body in bodies:
                self.qm.queue(ORDERS).send(body, recoverable=True)
        else:
            self.qm.queue(ORDERS).send_many(bodies, recoverable=True)
        self.told.acknowledged.update(bodies)


class Pairs(Client):
    """Transactions over two queues."""

    def step(self) -> None:
        bodies = self.bodies(20)
        try:
            with self.qm.transaction() as tx:
                self.qm.queue(LEFT).send_many(bodies, tx=tx)
                self.qm.queue(RIGHT).send_many(bodies, tx=tx)
        except TransactionAborted:
            self.told.aborted.update(bodies)
        else:
            self.told.committed.update(bodies)


class Mover(Client):
    """Transactions that receive from one queue and send to another."""

    def step(self) -> None:
        try:
            with self.qm.transaction() as tx:
                found = self.qm.queue(LEFT).receive_many(self.drawn.randint(1, 20), 0.1, tx=tx)
                bodies = [message.body for message in found]
                self.qm.queue(MOVED).send_many(bodies, tx=tx)
        except (IoTimeout, ServerUnreachable, TransactionAborted):
            return
        assert self.told.moved.isdisjoint(bodies), "received again though that was committed"
        self.told.moved.update(bodies)


class Receiver(Client):
    """Receives outside of transactions."""

    def step(self) -> None:
        try:
            found = self.qm.queue(ORDERS).receive_many(self.drawn.randint(1, 30), 0.1)
        except (IoTimeout, ServerUnreachable):  # nothing came, and nothing is taken without us
            return
        self.told.take(found)


class Impatient(Client):
    """One that does not wait for a server to come back, and so does not know everything."""

    def work(self) -> None:
        self.load.repeat(self.name, self.visit)

    def visit(self) -> None:
        """One session, as long as it lasts or a few steps long."""
        try:
            with posthouse.connect(self.load.home, reconnect=0) as self.qm:
                for _ in range(4):
                    for step in (self.send, self.commit, self.receive, self.receive):
                        step()
        except ClientConnectionError:
            time.sleep(0.02)  # nobody is there for a while

    def send(self) -> None:
        bodies = self.bodies(20)
        try:
            self.qm.queue(ORDERS).send_many(bodies, recoverable=True)
        except ClientConnectionError:
            self.told.unknown.update(bodies)
            raise
        self.told.acknowledged.update(bodies)

    def commit(self) -> None:
        bodies = self.bodies(20)
        try:
            with self.qm.transaction() as tx:
                self.qm.queue(LEFT).send_many(bodies, tx=tx)
                self.qm.queue(RIGHT).send_many(bodies, tx=tx)
        except TransactionAborted:
            self.told.aborted.update(bodies)
        except ClientConnectionError:
            self.told.undecided.append(bodies)
            raise
        else:
            self.told.committed.update(bodies)

    def receive(self) -> None:
        try:
            self.told.take(self.qm.queue(ORDERS).receive_many(5, 0.02))
        except IoTimeout:
            return


class Crowd:
    """Tasks that share one session: senders, receivers, transactions, express messages."""

    def __init__(self, load: Load, drawn: random.Random) -> None:
        self.load = load
        self.told = load.told
        self.drawn = drawn

    async def work(self) -> None:
        async with posthouse.aio.connect(self.load.home) as self.qm:
            self.load.cores.append(self.qm._channel.core)
            kinds = [self.send] * AIO_SENDERS + [self.receive] * AIO_RECEIVERS
            kinds += [self.commit, self.note, self.take_notes]
            async with asyncio.TaskGroup() as group:
                for number, step in enumerate(kinds):
                    names = Names(f"aio-{number}")
                    work = self.load.repeat_aio(names.who, partial(step, names))
                    group.create_task(work)

    async def send(self, names: Names) -> None:
        bodies = names.take(self.drawn.randint(1, 3))
        if len(bodies) == 1:
            await self.qm.queue(ORDERS).send(bodies[0], recoverable=True)
        else:
            await self.qm.queue(ORDERS).send_many(bodies, recoverable=True)
        self.told.acknowledged.update(bodies)

    async def receive(self, names: Names) -> None:
        try:
            self.told.take([await self.qm.queue(ORDERS).receive(0.1)])
        except (IoTimeout, ServerUnreachable):
            return

    async def commit(self, names: Names) -> None:
        bodies = names.take(self.drawn.randint(1, 5))
        try:
            async with self.qm.transaction() as tx:
                await self.qm.queue(LEFT).send_many(bodies, tx=tx)
                await self.qm.queue(RIGHT).send_many(bodies, tx=tx)
        except TransactionAborted:
            self.told.aborted.update(bodies)
        else:
            self.told.committed.update(bodies)

    async def note(self, names: Names) -> None:
        bodies = names.take(self.drawn.randint(1, 20))
        await self.qm.queue(NOTES).send_many(bodies)
        self.told.notes.update(bodies)

    async def take_notes(self, names: Names) -> None:
        try:
            found = await self.qm.queue(NOTES).receive_many(3, 0.1)
        except (IoTimeout, ServerUnreachable):
            return
        self.told.noted.update(message.body for message in found)


def kill_often(server: WarmServer, load: Load, drawn: random.Random, kills: int) -> Counter[str]:
    """Kills and starts again until this many kills met work; returns what they met."""
    met: Counter[str] = Counter()
    with posthouse.connect(server.home) as qm:
        while met["kills"] < kills:
            met += kill_once(server, load, drawn)
            shop.check_balance(qm)
            assert met["idle kills"] <= kills, "the clients do not work"
    return met


def kill_once(server: WarmServer, load: Load, drawn: random.Random) -> Counter[str]:
    """What a kill met, at a drawn moment."""
    load.wait_for_steps(STEPS)
    time.sleep(drawn.uniform(0, KILL_WITHIN_S))
    flying = load.unanswered()
    server.kill()
    server.start()
    load.wait_for_steps(1)  # so everybody has noticed
    caught = [request for request in flying if request.repeated or request.error is not None]
    met = Counter({"kills" if caught else "idle kills": 1})
    for request in caught:
        met[f"{type(request).__name__} unanswered"] += 1
        if isinstance(request, CommitRequest):
            met["commits done, answer lost"] += request.error is None
    return met


def check(qm: posthouse.QueueManagerClient, told: Told) -> Counter[str]:
    """Compares what was told with what is there; returns figures."""
    unknown = told.unknown | {body for bodies in told.undecided for body in bodies}
    accepted = shop.check_balance(qm, locked=0)
    seen = [*told.received.elements(), *shop.drain(qm, ORDERS)]
    shop.each_once(seen, told.acknowledged - told.doubted, unknown | told.doubted)
    assert told.doubted <= told.acknowledged | unknown

    check_diary(told, shop.drain(qm, DIARY))
    right = shop.drain(qm, RIGHT)
    shop.each_once(right, told.committed, unknown)
    assert told.aborted.isdisjoint(right)
    assert in_order(right)
    for bodies in told.undecided:
        assert len(set(right) & set(bodies)) in (0, len(bodies)), "half a transaction"

    moved = shop.drain(qm, MOVED)
    assert told.moved <= set(moved)
    shop.each_once([*shop.drain(qm, LEFT), *moved], set(right), set())

    notes = shop.drain(qm, NOTES)
    noted = [*told.noted.elements(), *notes]
    shop.each_once(noted, set(), told.notes)
    again = {queue: count for queue, count in shop.check_balance(qm, locked=0).items() if count}
    assert again == {queue: count for queue, count in accepted.items() if count}
    return Counter(
        {
            "durable": len(told.acknowledged) + len(told.diary),
            "of unknown outcome": len(unknown),
            "received in doubt": len(told.doubted),
            "read in doubt": sum(in_doubt for _, in_doubt in told.read),
            "committed": len(told.committed),
            "aborted": len(told.aborted),
            "express": len(told.notes),
            "express lost": len(told.notes) - len(noted),
        }
    )


def check_diary(told: Told, left: list[bytes]) -> None:
    """It was read in order; what came again was in doubt."""
    assert told.put_down.isdisjoint(left), "there again though it was ended"
    first: dict[bytes, None] = {}
    for body, in_doubt in told.read:
        assert in_doubt or body not in first, f"{body!r} came again and did not say so"
        first[body] = None
    assert [*first, *(body for body in left if body not in first)] == told.diary


@pytest.mark.timeout(7200)
def test_nothing_acknowledged_is_lost_and_nothing_committed_repeated(
    tmp_path: Path, dose: Dose
) -> None:
    drawn = random.Random(shop.seed())
    met: Counter[str] = Counter()
    with WarmServer(tmp_path) as server:
        server.home.mkdir(mode=0o700)
        (server.home / "posthouse.toml").write_text(SETTINGS)
        server.start()
        shop.open_shop(server.home)
        for _ in range(dose(DAY, 50 * DAY) // DAY):
            load = Load(server.home, drawn)
            load.start()
            met += kill_often(server, load, drawn, DAY)
            load.stop()
            with posthouse.connect(server.home) as qm:
                met += check(qm, load.told)
        server.stop()
    print(dict(met))
