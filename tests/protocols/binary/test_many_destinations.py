"""Very many destinations that cannot be reached: each waits with its reason, and holds up no other.

What a message to somebody else costs does not grow with them; this is counted in calls of
functions, which are the same on every computer.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterable

import pytest

from posthouse.directory.objects import QueueManager
from posthouse.engine.manager import QueueManager as Engine
from posthouse.model.guids import format_guid
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.properties import QueueAccessType
from tests.protocols.binary.memory_net import ADMIN, Machine, Net

DESTINATIONS = 10_000
MEASURED = 400  # among them, whose memory is counted
DESTINATION_BYTES_MAX = 16 << 10
HOUR_MS = 3_600_000
ORDERS = r".\private$\orders"
TO_OMEGA = r"DIRECT=TCP:10.0.0.2\private$\orders"


def guid(number: int) -> bytes:
    return (number + 1).to_bytes(16, "big")


def private(number: int) -> str:
    return f"PRIVATE={format_guid(guid(number))}\\00000005"


# By kind, the name of destination N, and why it waits.
KINDS: list[tuple[Callable[[int], str], str]] = [
    (private, "the directory has no queue manager"),
    (lambda n: private(DESTINATIONS + n), "cannot be resolved"),
    (lambda n: rf"DIRECT=TCP:192.0.{n >> 8}.{n & 255}\private$\q", "there is no listener on"),
    (lambda n: rf"DIRECT=OS:host{n}\private$\q", "cannot be resolved"),
]


class Town:
    """ALPHA sends, OMEGA is there, nobody else is."""

    def __init__(self) -> None:
        self.net = Net()
        self.alpha = self.net.machine("ALPHA", "10.0.0.1")
        self.omega = self.net.machine("OMEGA", "10.0.0.2")
        self.omega.create(ORDERS)

    def send_to(self, names: Iterable[str]) -> None:
        def run(engine: Engine) -> None:
            for name in names:
                opened = engine.queues.open_queue(name, QueueAccessType.SEND, ADMIN)
                message = Message(body=b"x", delivery_guarantee=DeliveryGuarantee.RECOVERABLE)
                engine.messages.enqueue_message_to_an_open_queue(opened, message)
                engine.queues.close_queue(opened)

        self.alpha.call(run)

    def enter(self, numbers: Iterable[int]) -> None:
        """Machines that the directory has, and no name server."""

        def run(engine: Engine) -> None:
            service, core = engine.directory.service, engine.ledger
            for number in numbers:
                value = QueueManager(
                    identifier=guid(DESTINATIONS + number), computer_name=f"M{number}"
                )
                service.create_directory_object(value, core.now_ms, core.utc)

        self.alpha.call(run)

    def calls_of(self, work: Callable[[], object]) -> int:
        """How many functions are called, of Python and of C."""
        count = 0

        def note(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(note)
        try:
            work()
        finally:
            sys.setprofile(None)
        return count

    def cost(self) -> int:
        """What a message costs that arrives, after one that had to open the session."""
        self.alpha.send(TO_OMEGA, b"first")
        return self.calls_of(lambda: self.alpha.send(TO_OMEGA, b"second"))


def reasons(alpha: Machine) -> dict[str, str]:
    """Why each queue to others waits; nothing for those that are empty."""
    return {
        queue.definition.format_name: queue.outgoing.last_error
        for queue in alpha.manager.queues.outgoing_queues()
        if queue.outgoing is not None and queue.state.count
    }


@pytest.fixture(scope="module")
def town() -> Town:
    """With all of them."""
    town, each = Town(), DESTINATIONS // len(KINDS)
    town.enter(range(each))
    for name, _ in KINDS:
        town.send_to(map(name, range(each - MEASURED // len(KINDS))))
    return town


def test_each_waits_with_its_reason_and_takes_little_memory(town: Town) -> None:
    each, more = DESTINATIONS // len(KINDS), MEASURED // len(KINDS)
    tracemalloc.start()
    for name, _ in KINDS:
        town.send_to(map(name, range(each - more, each)))
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown / MEASURED < DESTINATION_BYTES_MAX
    found = reasons(town.alpha)
    assert len(found) == DESTINATIONS
    for name, reason in KINDS:
        assert {reason in found[name(number)] for number in range(each)} == {True}, name(0)


def test_the_others_go_on_and_cost_what_they_did(town: Town) -> None:
    alone = Town().cost()
    assert town.cost() < 2 * alone
    assert town.omega.bodies(ORDERS) == [b"first", b"second"]


def test_they_are_tried_again_no_more_often_than_the_settings_say() -> None:
    town, each = Town(), 50
    for name, _ in KINDS:
        town.send_to(map(name, range(each)))
    town.net.connects.clear()
    town.net.resolved.clear()
    town.net.advance(HOUR_MS)
    most = HOUR_MS // town.alpha.settings.retry_connect_max_ms + 10  # the first follow fast
    for tried in (town.net.connects, town.net.resolved):
        assert each * 5 < len(tried) < each * most
    assert len(reasons(town.alpha)) == each * len(KINDS)
