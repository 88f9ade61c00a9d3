"""The bridge to Redis of the examples, both ways, also where it is killed with work in hand."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import posthouse
from posthouse.client.manager import QueueManagerClient
from tests.connector.foreign_site import (
    LEDGER,
    ORDERS,
    SITE,
    connect_streams,
    document,
    empty,
)
from tests.process.redis_store import DURABLE, FORGETFUL, RedisStore, redis_server
from tests.process.serving import Serving

pytestmark = pytest.mark.peer("redis")

BRIDGE = Path(__file__).parents[2] / "examples" / "redis_bridge.py"
CONNECTOR = f"CONNECTOR={SITE}"
RESULTS = r".\private$\results"
WAIT_S = 120.0
KILLS = 2
CONFIG = '[queue_manager]\nname = "ALPHA"\nrouting_server = true\n'


class Shop:
    """A queue manager with the foreign site Streams, and the Redis behind it."""

    def __init__(self, home: Path, manager: QueueManagerClient, store: RedisStore) -> None:
        self.manager = manager
        self.store = store
        self.home = home

    @contextmanager
    def bridge(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """The bridge as a process; killed at the end unless it has been stopped."""
        command = [sys.executable, str(BRIDGE), *words, "--redis", self.store.url]
        with subprocess.Popen(
            [*command, "--home", str(self.home)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(os.environ),
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"ready\n"
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def handed(self) -> int:
        return sum(int(self.store.client.xlen(stream)) for stream in ("orders", "ledger"))

    def has_handed(self, count: int) -> bool:
        return self.handed() >= count

    def has(self, queue: posthouse.Queue, count: int) -> bool:
        return queue.count() >= count

    def waiting(self) -> int:
        names = (CONNECTOR, f"{CONNECTOR};xactonly")
        return sum(self.manager.queue(name).count() for name in names)


@pytest.fixture(scope="module")
def forgetful_shop() -> Iterator[Shop]:
    """Nobody pulls the plug of its Redis, so that this writes nothing."""
    with opened(FORGETFUL) as found:
        yield found


@pytest.fixture
def shop(forgetful_shop: Shop) -> Iterator[Shop]:
    """One without what an earlier test has left."""
    home, store = forgetful_shop.home, forgetful_shop.store
    store.client.flushall()
    with posthouse.connect(home) as manager:
        empty(manager)
        yield Shop(home, manager, store)


@pytest.fixture
def durable_shop() -> Iterator[Shop]:
    """Its Redis has on disk what it has answered."""
    with opened(DURABLE) as found:
        yield found


@contextmanager
def opened(settings: dict[str, str]) -> Iterator[Shop]:
    with (
        tempfile.TemporaryDirectory(prefix="ph-") as text,
        redis_server(settings) as store,
        Serving(_configured(Path(text)), "--config", f"{text}/posthouse.toml") as server,
    ):
        server.ready()
        with posthouse.connect(server.home) as manager:
            connect_streams(manager)
            yield Shop(server.home, manager, store)


def _configured(folder: Path) -> Path:
    (folder / "posthouse.toml").write_text(CONFIG)
    return folder


def until(what: str, done: Callable[[], bool]) -> None:
    """Waits for other processes."""
    deadline = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_messages_become_entries_and_their_senders_learn_it(shop: Shop) -> None:
    manager = shop.manager
    answers = manager.create_queue(r".\private$\answers")
    with shop.bridge("out", "--site", "Streams") as process:
        wanted = "pos-arrival,neg-arrival"
        manager.queue(ORDERS).send(
            b"an order", label="1", admin_queue=answers.name, ack=wanted, recoverable=True
        )
        manager.queue(LEDGER).send(b"a booking", transactional=True)
        assert answers.receive(WAIT_S).class_name == "ack-reach-queue"
        until("the ledger", lambda: shop.store.bodies("ledger") == [b"a booking"])
        until("both queues", lambda: not shop.waiting())
        private = rf"PRIVATE={manager.find_queues(machine='REDIS')[0].machine_guid}\21"
        manager.queue(private).send(b"to nobody", admin_queue=answers.name, ack=wanted)
        assert answers.receive(WAIT_S).class_name == "nack-bad-dest-queue"
        process.terminate()
        assert process.wait(WAIT_S) == 0
    (entry,) = shop.store.client.xrange("orders")
    assert entry[1][b"body"] == b"an order"
    assert entry[1][b"label"] == b"1"
    assert manager.books().balanced


def test_a_message_that_redis_refuses_is_not_taken_for_delivered(shop: Shop) -> None:
    shop.store.client.set("orders", "no stream")
    shop.manager.queue(ORDERS).send(b"an order", recoverable=True)
    with shop.bridge("out", "--site", "Streams") as process:
        assert process.stderr is not None
        assert b"WRONGTYPE" in process.stderr.readline()
        assert shop.waiting() == 1
        shop.store.client.delete("orders")
        until("the order", lambda: not shop.waiting())
    assert shop.store.bodies("orders") == [b"an order"]


def test_a_stream_is_found_among_very_many_queues(shop: Shop) -> None:
    many = document(shop.manager.guid, shop.manager.name)
    for number in range(1001):
        guid = f"8a1e7d0c-3f52-4c8e-9b11-{number:012x}"
        many["queues"].append({"path": f"REDIS\\a{number}", "guid": guid})
    shop.manager.call("POST", "/directory", {"document": many})
    shop.manager.queue(ORDERS).send(b"an order", recoverable=True)
    with shop.bridge("out", "--site", "Streams"):
        until("the order", lambda: not shop.waiting())
    assert shop.store.bodies("orders") == [b"an order"]


def test_a_bridge_that_is_killed_loses_and_doubles_nothing(shop: Shop) -> None:
    count, orders, ledger = 600, [], []
    for number in range(count):
        orders.append(b"order %d" % number)
        ledger.append(b"booking %d" % number)
    shop.manager.queue(ORDERS).send_many(orders, recoverable=True)
    for at in range(0, count, 50):
        shop.manager.queue(LEDGER).send_many(ledger[at : at + 50], transactional=True)
    for kill in range(1, KILLS + 1):
        goal = kill * 2 * count // (KILLS + 2)
        with shop.bridge("out", "--site", "Streams") as process:
            until(f"{goal} entries", partial(shop.has_handed, goal))
            process.kill()
    assert shop.waiting(), "it was through before it was killed"
    with shop.bridge("out", "--site", "Streams"):
        until("the rest", lambda: shop.handed() >= 2 * count and not shop.waiting())
    assert shop.store.bodies("orders") == orders
    assert shop.store.bodies("ledger") == ledger
    assert shop.manager.books().balanced


def test_entries_become_messages_once_whoever_is_killed(shop: Shop) -> None:
    results, bodies = shop.manager.create_queue(RESULTS, transactional=True), []
    for number in range(1000):
        bodies.append(b"result %d" % number)
        shop.store.client.xadd("results", {"body": bodies[-1], "label": str(number)})
    words = ("in", "--stream", "results", RESULTS)
    for kill in range(1, KILLS + 1):
        goal = kill * 200
        with shop.bridge(*words) as process:
            until(f"{goal} messages", partial(shop.has, results, goal))
            process.kill()
    with shop.bridge(*words) as process:
        until("the rest", lambda: results.count() >= len(bodies))
        process.terminate()
        assert process.wait(WAIT_S) == 0
    found = list(results.browse())
    assert [message.body for message in found] == bodies
    assert found[7].label == "7"
    assert found[0].to_json().connector_type


def test_a_redis_that_is_killed_gets_every_message_once(durable_shop: Shop) -> None:
    """The bridge runs on: what it was not answered it hands over again."""
    shop, count = durable_shop, 300
    orders = [b"order %d" % number for number in range(count)]
    ledger = [b"booking %d" % number for number in range(count)]
    shop.manager.queue(ORDERS).send_many(orders, recoverable=True)
    for at in range(0, count, 50):
        shop.manager.queue(LEDGER).send_many(ledger[at : at + 50], transactional=True)
    with shop.bridge("out", "--site", "Streams") as process:
        for kill in range(1, KILLS + 1):
            until("some entries", partial(shop.has_handed, kill * 2 * count // (KILLS + 2)))
            shop.store.kill()
            assert shop.waiting(), "it was through before Redis was killed"
            shop.store.start()
        until("the rest", lambda: shop.handed() >= 2 * count and not shop.waiting())
        process.terminate()
        assert process.wait(WAIT_S) == 0
    assert shop.store.bodies("orders") == orders
    assert shop.store.bodies("ledger") == ledger
    assert shop.manager.books().balanced


def test_entries_of_a_redis_that_is_killed_are_brought_once(durable_shop: Shop) -> None:
    """It says that Redis is away, and reads on when it is there again."""
    shop = durable_shop
    results, bodies = shop.manager.create_queue(RESULTS, transactional=True), []
    with shop.bridge("in", "--stream", "results", RESULTS) as process:
        assert process.stderr is not None
        for at in range(0, 800, 400):
            bodies += [b"result %d" % number for number in range(at, at + 400)]
            for body in bodies[at:]:
                shop.store.client.xadd("results", {"body": body})
            shop.store.kill()
            assert b"redis.sock" in process.stderr.readline()
            shop.store.start()
        until("all of them", partial(shop.has, results, len(bodies)))
        process.terminate()
        assert process.wait(WAIT_S) == 0
    assert [message.body for message in results.browse()] == bodies


def test_an_entry_with_any_label_is_brought(shop: Shop) -> None:
    results = shop.manager.create_queue(RESULTS, transactional=True)
    for label in (b"\xff\xfe", b"a\0b", 2 * b"long " * 100, b"fine"):
        shop.store.client.xadd("results", {"body": b"x", "label": label})
    with shop.bridge("in", "--stream", "results", RESULTS):
        until("all of them", lambda: results.count() == 4)
    assert [message.label[:5] for message in results.browse()][1:] == ["a b", "long ", "fine"]


def test_entries_are_brought_after_redis_has_refused_to_show_them(shop: Shop) -> None:
    """Whatever Redis answers, the bridge asks again: nobody else looks after it."""
    results = shop.manager.create_queue(RESULTS, transactional=True)
    shop.store.client.set("results", "no stream")
    with shop.bridge("in", "--stream", "results", RESULTS) as process:
        assert process.stderr is not None
        assert b"wrong kind" in process.stderr.readline()
        shop.store.client.delete("results")
        shop.store.client.xadd("results", {"body": b"x"})
        until("the entry", lambda: results.count() == 1)
