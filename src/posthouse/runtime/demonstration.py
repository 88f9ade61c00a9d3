"""What `posthouse demo` does: send, kill, recover, read, dead-letter, and check the books.

The sender is a process of its own that is killed in the middle of its work. It reports each batch
only after the engine answered, so whatever it reported must be there after the recovery.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from posthouse.engine.books import Books
from posthouse.engine.descriptor import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.effects import Read
from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import IoTimeout, QueueExists
from posthouse.model.message import INFINITE, DeliveryGuarantee, Message, class_name
from posthouse.model.names import PathName
from posthouse.model.properties import QueueProperties
from posthouse.runtime.embedded import EmbeddedQueueManager

NAME = "ALPHA"
ORDERS = r".\private$\orders"
OFFERS = r".\private$\offers"
DEAD_LETTERS = r".\system$;deadletter"
BATCH = 50

Progress = Callable[[str, int, int], None]  # what, done, total


@dataclass
class Report:
    """What the demonstration saw."""

    home: Path
    orders: int
    acknowledged_before_kill: int = 0
    found_after_kill: int = 0
    recovery_ms: float = 0.0
    sent_per_second: float = 0.0
    received_per_second: float = 0.0
    in_order: bool = False
    dead_letters: dict[str, int] = field(default_factory=dict)
    books: dict[str, Books] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """Nothing acknowledged was lost, nothing came twice, and the books balance."""
        kept = self.acknowledged_before_kill <= self.found_after_kill
        whole = self.found_after_kill % BATCH == 0  # transactions are there whole or not at all
        return kept and whole and self.in_order and all(b.balanced for b in self.books.values())


def open_home(home: Path) -> EmbeddedQueueManager:
    """The demonstration's queue manager."""
    return EmbeddedQueueManager(home, settings=EngineSettings(NAME))


def send_orders(manager: EmbeddedQueueManager, first: int, last: int) -> Callable[[], int | None]:
    """Sends orders in transactions; each call of the result sends one and says how far it is."""
    sender = manager.open(ORDERS, QueueAccessType.SEND)
    position = first

    def step() -> int | None:
        nonlocal position
        if position >= last:
            return None
        identifier = f"demo{position:012}".encode()
        batch = range(position, min(position + BATCH, last))

        def transaction(engine: QueueManager) -> None:
            tx = engine.create_transaction(identifier)
            for number in batch:
                body = f'{{"order": {number}, "customer": {number % 7}}}'.encode()
                order = Message(body=body, label=f"order {number}")
                engine.enqueue_message_to_an_open_queue(sender, order, tx)
            engine.transaction_commit(identifier)

        manager.run(transaction)
        position = batch.stop
        return position

    return step


def sender(home: Path, orders: int) -> None:
    """The process that is killed: prints how many orders have been acknowledged."""
    manager = open_home(home)
    step = send_orders(manager, 0, orders)
    while (done := step()) is not None:
        sys.stdout.write(f"{done}\n")
        sys.stdout.flush()
    manager.close()


def _kill_a_sender(home: Path, report: Report, progress: Progress) -> None:
    command = [sys.executable, "-m", __name__, str(home), str(report.orders)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            report.acknowledged_before_kill = int(line)
            progress("sending", report.acknowledged_before_kill, report.orders)
            if report.acknowledged_before_kill * 2 >= report.orders:
                process.kill()
                break
        # What it had printed before the kill was acknowledged too.
        for line in process.stdout:
            report.acknowledged_before_kill = int(line)


def _recover(report: Report) -> EmbeddedQueueManager:
    begun = time.perf_counter()
    manager = open_home(report.home)
    report.recovery_ms = (time.perf_counter() - begun) * 1000
    queue = manager.manager.queues.local_queue(PathName.parse(ORDERS))
    report.found_after_kill = queue.state.count
    return manager


def _send_the_rest(manager: EmbeddedQueueManager, report: Report, progress: Progress) -> None:
    begun = time.perf_counter()
    step = send_orders(manager, report.found_after_kill, report.orders)
    while (done := step()) is not None:
        progress("sending", done, report.orders)
    seconds = time.perf_counter() - begun
    report.sent_per_second = (report.orders - report.found_after_kill) / max(seconds, 1e-9)


def _receive_all(manager: EmbeddedQueueManager, report: Report, progress: Progress) -> None:
    receiver = manager.open(ORDERS, QueueAccessType.RECEIVE)
    labels: list[str] = []
    begun = time.perf_counter()
    while len(labels) < report.orders:
        labels.extend(_receive_batch(manager, receiver, len(labels)))
        progress("receiving", len(labels), report.orders)
    report.received_per_second = report.orders / max(time.perf_counter() - begun, 1e-9)
    report.in_order = labels == [f"order {number}" for number in range(report.orders)]


def _receive_batch(
    manager: EmbeddedQueueManager, receiver: OpenQueueDescriptor, done: int
) -> list[str]:
    identifier = f"read{done:012}".encode()

    def take(engine: QueueManager) -> list[Read]:
        transaction = engine.create_transaction(identifier)
        reads = engine.dequeue_messages(receiver, 4 * BATCH, transaction)
        engine.transaction_commit(identifier)
        return reads

    return [delivery.message.label for delivery in manager.read_many(take)]


def _let_offers_die(manager: EmbeddedQueueManager, report: Report) -> None:
    """Offers that nobody takes: some expire, some are purged; all ask to be kept."""
    opened = manager.open(OFFERS, QueueAccessType.SEND)

    for time_to_be_received in (0, 0, 0, INFINITE, INFINITE):
        offer = Message(
            body=b"offer",
            delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
            negative_journaling_requested=True,
            time_to_be_received=time_to_be_received,
        )
        manager.send(opened, offer)
    reader = manager.open(OFFERS, QueueAccessType.RECEIVE)
    manager.run(lambda m: m.purge_queue(reader))
    dead = manager.open(DEAD_LETTERS, QueueAccessType.RECEIVE)
    reasons: Counter[str] = Counter()
    with contextlib.suppress(IoTimeout):
        while True:
            reasons[class_name(manager.receive(dead).read.message_class)] += 1
    report.dead_letters = dict(reasons)


def demonstrate(home: Path, orders: int, progress: Progress) -> Report:
    """The whole of it, in a home of its own."""
    report = Report(home, orders)
    with open_home(home) as manager:
        for path, transactional in ((ORDERS, True), (OFFERS, False)):
            properties = QueueProperties(transactional=transactional, journaling=transactional)
            with contextlib.suppress(QueueExists):
                manager.create_queue(path, properties)
    _kill_a_sender(home, report, progress)
    with _recover(report) as manager:
        _send_the_rest(manager, report, progress)
        _receive_all(manager, report, progress)
        _let_offers_die(manager, report)
        report.books = manager.manager.all_books()
    return report


if __name__ == "__main__":
    sender(Path(sys.argv[1]), int(sys.argv[2]))
