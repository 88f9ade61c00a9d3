"""Reports of protocols to the engine on outgoing queues ([MS-MQDMPR] 3.1.1.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import ConnectionAttempt, OutgoingQueueState, Queue
from posthouse.model.enumerations import ConnectionStatus
from posthouse.model.errors import RemoteMachineNotAvailable, ServiceNotAvailable
from posthouse.protocols.engine_calls import Desk

T = TypeVar("T")
U = TypeVar("U")


class Reports:
    """Short words with the engine in the current turn; their sync is not waited for."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def ask(self, call: Callable[[QueueManager], T], otherwise: U) -> T | U:
        """The answer of the engine; `otherwise` once it has ended."""
        values: list[T] = []
        try:
            self.desk.decide(lambda manager: values.append(call(manager)), lambda answer: None)
        except ServiceNotAvailable:
            return otherwise
        return values[0] if values else otherwise

    def tell(self, numbers: Iterable[int], call: Callable[[QueueManager, Queue], None]) -> None:
        """Report something about several outgoing queues, as far as they still exist."""

        def run(manager: QueueManager) -> None:
            for number in numbers:
                queue = manager.queues.get(number)
                if queue is not None and queue.outgoing is not None and not queue.deleted:
                    call(manager, queue)

        if numbers:
            self.ask(run, None)

    def state(self, numbers: Iterable[int], state: OutgoingQueueState) -> None:
        """State of OutgoingQueue; a held or locked queue keeps its own."""
        self.tell(numbers, lambda manager, queue: manager.transfer.set_state(queue, state))

    def history(self, numbers: Iterable[int], status: ConnectionStatus, hop: object | None) -> None:
        """An entry of ConnectionHistory for each of some queues."""
        error = RemoteMachineNotAvailable.code if status.is_failure else 0
        shown = () if hop is None else (str(hop),)

        def note(manager: QueueManager, queue: Queue) -> None:
            attempt = ConnectionAttempt(int(status), manager.machine.utc, error, shown)
            manager.transfer.connection_attempted(queue, attempt)

        self.tell(numbers, note)

    def next_hops(self, numbers: Iterable[int], hops: Iterable[object]) -> None:
        """NextHops as administrators see them."""
        shown = tuple(dict.fromkeys(map(str, hops)))
        self.tell(numbers, lambda manager, queue: manager.transfer.set_next_hops(queue, shown))

    def retry(self, numbers: Iterable[int], in_ms: int | None, last_error: str) -> None:
        """When it goes on, and what went wrong; None: nothing has."""
        in_s = None if in_ms is None else -(-in_ms // 1000)

        def plan(manager: QueueManager, queue: Queue) -> None:
            retry_time = 0 if in_s is None else manager.machine.utc + in_s
            manager.transfer.connection_planned(queue, retry_time, last_error)

        self.tell(numbers, plan)
