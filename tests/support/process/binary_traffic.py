"""Two servers that send to each other while they are killed."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import posthouse
from posthouse import IoTimeout, TransactionAborted
from posthouse.client.errors import ServerUnreachable
from posthouse.model.message import ACK_REACH_QUEUE
from tests.process import shop
from tests.process.offices import ADMIN, JOURNAL, PATIENCE_S, Office
from tests.process.shop import Names
from tests.support.process.body_order import in_order

KILL_WITHIN_S = 0.3


PAUSE_S = 0.06


PLAIN, LEFT, RIGHT = "orders", "left", "right"


SEQUENCED = (LEFT, RIGHT)


class Traffic:
    """Applications of one office that send to the other one, until they are told to stop."""

    def __init__(
        self,
        here: Office,
        there: Office,
        seed: int,
        *,
        most: int = 40,
        pause_s: float = PAUSE_S,
    ) -> None:
        self.here, self.there = here, there
        self.seed = seed
        self.most, self.pause_s = most, pause_s  # messages at once, and between them
        self.sent: set[bytes] = set()  # recoverable, and answered
        self.journaled: set[bytes] = set()
        self.asked: set[bytes] = set()  # for an acknowledgment of their arrival
        self.committed: list[bytes] = []
        self.aborted: set[bytes] = set()
        self.received: list[bytes] = []  # from LEFT over there, by commits that were answered
        self.steps = 0
        self.failures: list[BaseException] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(home, step), daemon=True)
            for home, step in (
                (here.server.home, self._send),
                (here.server.home, self._commit),
                (there.server.home, self._receive),
            )
        ]
        self._names = Names(f"{here.name}-orders"), Names(f"{here.name}-pairs")

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        self.check()

    def check(self) -> None:
        if self.failures:
            raise self.failures[0]

    def _run(
        self, home: Path, step: Callable[[posthouse.QueueManagerClient, random.Random], None]
    ) -> None:
        drawn = random.Random(f"{self.seed} {step.__name__}")
        try:
            with posthouse.connect(home) as qm:
                while not self._stop.is_set():
                    step(qm, drawn)
                    self.steps += 1
                    time.sleep(drawn.uniform(0, self.pause_s))
        except BaseException as error:
            self.failures.append(error)

    def _send(self, qm: posthouse.QueueManagerClient, drawn: random.Random) -> None:
        """Recoverable messages, some for the journal, some to be acknowledged."""
        bodies = self._names[0].take(drawn.randint(1, self.most))
        queue = qm.queue(self.there.name_of(PLAIN))
        journal, ask = drawn.random() < 0.3, drawn.random() < 0.3
        if ask:
            admin = self.here.name_of(ADMIN)
            queue.send_many(
                bodies, recoverable=True, journal=journal, admin_queue=admin, ack="pos-arrival"
            )
            self.asked.update(bodies)
        else:
            queue.send_many(bodies, recoverable=True, journal=journal)
        self.sent.update(bodies)
        if journal:
            self.journaled.update(bodies)

    def _commit(self, qm: posthouse.QueueManagerClient, drawn: random.Random) -> None:
        """The same messages to two queues, in one transaction."""
        bodies = self._names[1].take(drawn.randint(1, self.most // 2))
        journal = drawn.random() < 0.3
        try:
            with qm.transaction() as tx:
                for queue in SEQUENCED:
                    qm.queue(self.there.name_of(queue)).send_many(bodies, tx=tx, journal=journal)
        except TransactionAborted:
            self.aborted.update(bodies)
            return
        self.committed += bodies
        if journal:
            self.journaled.update(bodies)

    def _receive(self, qm: posthouse.QueueManagerClient, drawn: random.Random) -> None:
        """Takes some out on the other side; what was aborted comes again."""
        try:
            with qm.transaction() as tx:
                found = qm.queue(f".\\private$\\{LEFT}").receive_many(
                    drawn.randint(1, self.most), 0.1, tx=tx
                )
        except (IoTimeout, TransactionAborted, ServerUnreachable):
            return  # there was nothing, or nobody, within its time
        self.received += [message.body for message in found]


def drained(office: Office, queue: str) -> list[bytes]:
    return shop.drain(office.qm, f".\\private$\\{queue}")


def account(traffic: Traffic) -> Counter[str]:
    """Whether everything is where it was to go, once and in order; returns figures."""
    there = traffic.there
    shop.each_once(drained(there, PLAIN), traffic.sent, set())
    left = [*traffic.received, *drained(there, LEFT)]
    right = drained(there, RIGHT)
    for found in (left, right):
        shop.each_once(found, set(traffic.committed), set())
        assert in_order(found)
        assert traffic.aborted.isdisjoint(found)
    return Counter(
        {
            "recoverable": len(traffic.sent),
            "transactional": 2 * len(traffic.committed),
            "aborted": len(traffic.aborted),
            "received meanwhile": len(traffic.received),
        }
    )


def check_books(traffic: Traffic) -> None:
    """What its senders asked to know of, when all final answers have come."""
    here = traffic.here
    twice = Counter(here.bodies(JOURNAL))
    pairs = traffic.journaled & set(traffic.committed)
    wanted = Counter(traffic.journaled - pairs) + Counter(dict.fromkeys(pairs, 2))
    assert twice == wanted, "the journal"
    admin = list(here.qm.queue(f".\\private$\\{ADMIN}").browse())
    assert {message.message_class for message in admin} <= {ACK_REACH_QUEUE}
    assert len(admin) == len({message.correlation_id for message in admin}) == len(traffic.asked)


def kill_often(
    offices: list[Office],
    traffics: list[Traffic],
    drawn: random.Random,
    kills: int,
    victims: list[Office] | None = None,
) -> Counter[str]:
    """Until this many kills, of anybody unless told otherwise, met messages on their way."""
    met: Counter[str] = Counter()
    while met["kills"] < kills:
        victim = drawn.choice(victims or offices)
        wait_for_steps(traffics)
        time.sleep(drawn.uniform(0, KILL_WITHIN_S))
        flying = sum(office.unsent() for office in offices)
        victim.restart()
        met[f"{victim.name} killed"] += 1
        met["kills" if flying else "idle kills"] += 1
        met["messages on their way"] += flying
        assert met["idle kills"] <= kills, "nothing is on its way"
    return met


def wait_for_steps(traffics: list[Traffic]) -> None:
    """Until each has come on a little."""
    before, until = [traffic.steps for traffic in traffics], time.monotonic() + PATIENCE_S
    while any(t.steps < steps + 3 for t, steps in zip(traffics, before, strict=True)):
        for traffic in traffics:
            traffic.check()
        assert time.monotonic() < until, "the applications do not come on"
        time.sleep(0.005)
