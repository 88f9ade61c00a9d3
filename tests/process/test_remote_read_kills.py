"""`kill -9` of servers that are read from afar, and of their readers, while they are at work.

What a reader was told to have left its queue never comes again. What it was not told so is there
again, or was ended in the moment of the kill; a reader that lives says which these are (decision
42). Nothing is lost that nobody has seen.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import posthouse
from posthouse import IoTimeout
from posthouse.client.errors import ClientConnectionError
from tests.conftest import Dose
from tests.process import shop, worker
from tests.process.remote_worker import HOST, QUEUE, WINDOW
from tests.process.shop import Names
from tests.support.process.gone_clients import wait_until_gone
from tests.support.process.remote_read_server import ORDERS, WORKER, house

KILL_WITHIN_S = 0.15
PATIENCE_S = 60.0
BATCH = 60
LINES = 12  # that a reader has told before it is killed
STOCK_MIN = 200  # messages that always wait, so that readers have work


class Stock:
    """Sends, whenever little is left; `sent` is what was acknowledged."""

    def __init__(self, qm: posthouse.QueueManagerClient) -> None:
        self.queue = qm.queue(ORDERS)
        self.sent: set[str] = set()
        self._names = Names("order")

    def fill(self) -> None:
        while self.queue.count() < STOCK_MIN:
            bodies = self._names.take(BATCH)
            self.queue.send_many(bodies, recoverable=True)
            self.sent.update(body.decode() for body in bodies)

    def fill_until(self, met: Callable[[], bool]) -> None:
        """Readers always find something meanwhile."""
        until = time.monotonic() + PATIENCE_S
        while not met():
            assert time.monotonic() < until, "the readers do not come on"
            self.fill()
        self.fill()


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


# -- the server is killed


class Reader:
    """An application that reads on whatever happens, in a thread of its own."""

    def __init__(self, port: int, read: Callable[[posthouse.RemoteQueue, Reader], None]) -> None:
        self.messages: list[posthouse.Message] = []
        self.at_once: list[bool] = []
        self.doubts = 0
        self.failures: list[BaseException] = []
        self.stopped = threading.Event()
        self._port, self._read = port, read
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def see(self, *messages: posthouse.Message) -> None:
        self.at_once += [message.in_doubt for message in messages]
        self.messages += messages

    def _run(self) -> None:
        try:
            with posthouse.msmq(HOST, rpc_port=self._port, authentication="none") as far:
                while not self.stopped.is_set():
                    try:
                        self._read(far.queue(QUEUE), self)
                    except (IoTimeout, ClientConnectionError):
                        continue
            self.doubts = far.in_doubt
        except BaseException as error:
            self.failures.append(error)

    def stop(self) -> None:
        self.stopped.set()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()
        if self.failures:
            raise self.failures[0]


def one_by_one(queue: posthouse.RemoteQueue, reader: Reader) -> None:
    reader.see(queue.receive(0.05))


def in_batches(queue: posthouse.RemoteQueue, reader: Reader) -> None:
    reader.see(*queue.receive_many(WINDOW, 0.05))


def consuming(queue: posthouse.RemoteQueue, reader: Reader) -> None:
    with queue.consume(timeout=0.05, prefetch=WINDOW) as consumer:
        while not reader.stopped.is_set() and (message := consumer.next()) is not None:
            reader.see(message)
        consumer.done()


READERS = {one_by_one: 1, in_batches: WINDOW, consuming: 3 * WINDOW + 1}  # doubts of one kill


def account(readers: list[Reader], sent: set[str], left: list[str]) -> Counter[str]:
    """Each message once for certain, or in doubt, or left; returns figures."""
    certain: Counter[str] = Counter()
    doubted: set[str] = set()
    for reader in readers:
        seen: set[str] = set()
        for message, at_once in zip(reader.messages, reader.at_once, strict=True):
            body = message.body.decode()
            assert at_once or body not in seen, f"{body} came again, without a word"
            seen.add(body)
            if message.in_doubt:
                doubted.add(body)
            else:
                certain[body] += 1
    assert len(left) == len(set(left)), "something is there twice"
    assert not certain or max(certain.values()) == 1, "something was ended twice"
    assert certain.keys().isdisjoint(left), "something came back"
    assert sent <= certain.keys() | doubted | set(left), "something is lost"
    return Counter(
        certain=len(certain),
        doubted=len(doubted),
        again=len(doubted & (certain.keys() | set(left))),
    )


@pytest.mark.spec("MS-MQRR 3.1.4.9/12", "MS-MQRR 3.1.4.9/13", "MS-MQRR 3.2.4.4.1/4")
@pytest.mark.timeout(7200)
def test_what_was_received_from_a_killed_server_is_received_once_or_in_doubt(
    tmp_path: Path, dose: Dose
) -> None:
    drawn, kills = random.Random(shop.seed()), dose(8, 500)
    with house(tmp_path) as (server, port), posthouse.connect(server.home) as qm:
        stock = Stock(qm)
        stock.fill()
        readers = [Reader(port, read) for read in READERS]
        for _ in range(kills):
            goals = [(reader, len(reader.messages) + 5) for reader in readers]
            stock.fill_until(lambda goals=goals: all(len(r.messages) >= goal for r, goal in goals))
            time.sleep(drawn.uniform(0, KILL_WITHIN_S))
            server.kill()
            server.start()
        for reader, doubts_max in zip(readers, READERS.values(), strict=True):
            reader.stop()
            assert reader.doubts <= kills * doubts_max
        wait_until_gone(qm)
        left = [body.decode() for body in shop.drain(qm, ORDERS)]
        figures = account(readers, stock.sent, left)
        shop.check_balance(qm, locked=0)
    print(f"{kills} kills:", dict(figures))


# -- the readers are killed


@pytest.mark.spec("MS-MQRR 3.1.6.2/2", "MS-MQRR 3.1.4.9/12")
@pytest.mark.timeout(7200)
def test_what_a_killed_reader_had_in_hand_is_back_and_what_it_was_told_stands(
    tmp_path: Path, dose: Dose
) -> None:
    drawn, rounds = random.Random(shop.seed()), dose(4, 150)
    received: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    seen: set[str] = set()
    untold = 0  # this many may have been ended in the very moment
    with house(tmp_path) as (server, port), posthouse.connect(server.home) as qm:
        stock = Stock(qm)
        for number in range(rounds):
            stock.fill()
            pids = {}
            for kind in ("receive", "batches", "consume"):
                path = tmp_path / f"{kind}-{number}"
                seed = str(drawn.getrandbits(32))
                pids[path] = server.loaded.fork(WORKER, kind, str(port), str(path), seed)
            for path in pids:
                stock.fill_until(lambda path=path: lines_of(path) >= LINES)
            for path, pid in pids.items():
                time.sleep(drawn.uniform(0, KILL_WITHIN_S / 3))
                server.loaded.kill(pid)
                events = worker.read(path)
                for event in events:
                    told = {"received": received, "ended": ended}.get(event.what, Counter())
                    told.update(event.bodies)
                    if event.what == "seen":
                        seen.update(event.bodies)
                if events[-1].what == "receiving":
                    untold += 1 if path.name.startswith("receive") else WINDOW
            wait_until_gone(qm)
        left = Counter(body.decode() for body in shop.drain(qm, ORDERS))
        shop.check_balance(qm, locked=0)
    told = received + ended
    assert not told or max(told.values()) == 1, "something was ended twice"
    assert max(left.values(), default=1) == 1
    assert told.keys().isdisjoint(left), "something came back"
    missing = stock.sent - told.keys() - seen - left.keys()
    assert len(missing) <= untold, f"lost: {sorted(missing)[:3]}"
    print(
        f"{3 * rounds} kills:",
        {"told": len(told), "seen, not ended": len(seen - ended.keys()), "left": len(left)},
        f"ended and not told: {len(missing)} of at most {untold}",
    )
