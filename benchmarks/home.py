"""A queue manager to be measured: an embedded one, on a disk that watches the syncs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.meters import Stopwatch
from benchmarks.witness import WitnessDisk
from posthouse.engine.ledger.books import books_of
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.settings import EngineSettings
from posthouse.model.properties import QueueProperties
from posthouse.runtime.driver import Answer, Call, Driver
from posthouse.runtime.home import STORE, real_clock
from posthouse.security.access import Caller
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings

QUEUE = ".\\private$\\orders"
TRANSACTIONAL_QUEUE = ".\\private$\\ledger"


class Handles(NamedTuple):
    """A queue, open for both directions."""

    send: OpenQueueDescriptor
    receive: OpenQueueDescriptor


class Turn:
    """Receives the answers of one turn, and checks that its group was synced before they came."""

    __slots__ = ("_disk", "answers", "due", "written")

    def __init__(self, disk: WitnessDisk, due: int = 1) -> None:
        self._disk = disk
        self.written = disk.writes
        self.due = due  # answers that have not come
        self.answers: list[Answer] = []

    def __call__(self, answer: Answer) -> None:
        self.check(answer)
        self.answers.append(answer)

    def check(self, answer: Answer) -> None:
        """Check an answer without keeping it: it may hold a megabyte of packets."""
        self._disk.require_synced(self.written)
        if answer.error is not None:
            raise answer.error
        self.due -= 1


class Home:
    """Engine, store and driver over one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.disk = WitnessDisk(directory / STORE)
        self.store = LogStore(self.disk, StoreSettings(store_id=os.urandom(16)))
        with Stopwatch() as watch:
            self.recovered = self.store.recover()
        self.recover_s, self.recover_cpu_s = watch.wall_s, watch.cpu_s
        settings = EngineSettings("BENCH")
        self.manager = QueueManager(
            settings, self.recovered.state, self.store.read, os.urandom, self.store.read_many
        )
        self.driver = Driver(self.manager, self.store, real_clock)
        self.manager.start(*real_clock())
        self.driver.end_turn()
        self.driver.sync()
        self.administrator = Caller.administrator()

    def create(self, path: str, *, transactional: bool = False) -> Handles:
        """A new queue, opened."""
        properties = QueueProperties(transactional=transactional)
        self.driver.run(lambda m: m.queues.create_queue(path, properties, self.administrator))
        return self.open(path)

    def open(self, path: str) -> Handles:
        """A queue that is there."""
        return Handles(
            self._open(path, QueueAccessType.SEND), self._open(path, QueueAccessType.RECEIVE)
        )

    def _open(self, path: str, access: QueueAccessType) -> OpenQueueDescriptor:
        return self.driver.run(lambda m: m.queues.open_queue(path, access, self.administrator))

    def decide(self, calls: Sequence[Call], *, keep: bool) -> Turn:
        """A turn up to its append; the answers come after a sync."""
        driver, turn = self.driver, Turn(self.disk, len(calls))
        release = turn if keep else turn.check
        driver.begin_turn()
        for call in calls:
            driver.decide(call, release)
        driver.end_turn()
        turn.written = self.disk.writes
        return turn

    def turn(self, *calls: Call) -> list[Answer]:
        """A whole turn: decided, appended, synced, let out; then a step of upkeep."""
        turn, driver = self.decide(calls, keep=True), self.driver
        driver.sync()
        driver.release()
        assert not turn.due, "an answer is missing"
        driver.tidy()
        return turn.answers

    def tidy_up(self) -> None:
        """All upkeep that is due; some of its steps wait for a sync."""
        while self.driver.tidy():
            self.driver.sync()

    def waiting(self, path: str) -> int:
        """Messages in a queue."""
        queue = self.driver.run(lambda m: m.queues.queue_properties(path, self.administrator))
        return books_of(queue).waiting

    def close(self) -> None:
        """Stops cleanly."""
        self.driver.close()
        self.disk.close()


def send_call(handles: Handles, packets: list[bytes]) -> Call:
    """Sends packets in one call."""
    return lambda manager: manager.messages.send_packets(handles.send, packets)


def receive_call(handles: Handles, count: int) -> Call:
    """Receives up to this many messages in one call."""
    return lambda manager: manager.messages.dequeue_messages(handles.receive, count)


def batches(packets: list[bytes], size: int, count: int) -> Iterable[list[bytes]]:
    """This many packets in batches, taken from the list over and over."""
    at = 0
    while count > 0:
        batch = packets[at : at + min(size, count)]
        at = (at + len(batch)) % len(packets)
        count -= len(batch)
        yield batch
