"""A process that is watched from outside: it writes a line for every answer it has got.

`python -m tests.store.faults.answering HOME [hasty]`. With `hasty` it writes the line before the
sync, as no process may: what looks at the trace has to notice.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from posthouse.engine.manager import QueueManager
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.properties import QueueProperties
from posthouse.runtime.driver import Call
from posthouse.runtime.embedded import EmbeddedQueueManager
from posthouse.store.settings import StoreSettings
from tests.engine.rig import MOVE, RECEIVE, SEND
from tests.engine.staging import QUERY, key_of, run_of

OUT = 1
ROUNDS = 12


def recoverable(content: bytes) -> Message:
    """A message that has to be kept."""
    return Message(body=content, delivery_guarantee=DeliveryGuarantee.RECOVERABLE)


def calls(home: EmbeddedQueueManager) -> Iterator[Call]:
    """Durable work of every kind; small segments make new files all the time."""
    admin, manager = home.administrator, home.manager
    yield lambda m: m.queues.create_queue(".\\private$\\plain", QueueProperties(), admin)
    yield lambda m: m.queues.create_queue(
        ".\\private$\\east", QueueProperties(transactional=True), admin
    )
    plain = manager.queues.open_queue(".\\private$\\plain", SEND, admin)
    east = manager.queues.open_queue(".\\private$\\east", SEND, admin)
    source = manager.queues.open_queue(".\\private$\\plain", RECEIVE, admin)
    aside = manager.queues.open_queue(".\\private$\\plain;aside", MOVE, admin)
    for number in range(ROUNDS):
        content = b"x" * (number * 150)
        identifier = bytes([number + 1]) * 16
        yield lambda m, c=content: m.messages.enqueue_message_to_an_open_queue(
            plain, recoverable(c)
        )
        yield lambda m: m.messages.peek_message(source, timeout_ms=0)

        def transact(m: QueueManager, c: bytes = content, i: bytes = identifier) -> None:
            transaction = m.transactions.create_transaction(i)
            for _ in range(3):
                m.messages.enqueue_message_to_an_open_queue(east, recoverable(c), transaction)
            m.transactions.transaction_commit(i)

        yield transact

        def stage(m: QueueManager, c: bytes = content, n: int = number) -> None:
            upload = m.stages.begin(key_of(n), admin)
            assert upload is not None
            target = m.stages.target(upload, ".\\private$\\plain")
            m.stages.append(upload, [run_of(m, upload, target, [c, c])])
            m.stages.finish(upload)

        yield stage
        yield lambda m, n=number: m.stages.publish(QUERY, n, [(0, 0)], admin)
        if number % 2:
            yield lambda m: m.messages.dequeue_message(source, timeout_ms=0)
        else:
            yield lambda m: m.messages.move_message(
                source, m.messages.peek_message(source, timeout_ms=0).lookup_id, aside
            )
    yield lambda m: m.queues.delete_queue(".\\private$\\east", admin)


def answer(number: int) -> None:
    """The line that somebody outside may rely on."""
    os.write(OUT, b"answer %d\n" % number)


def main(home: str, hasty: bool) -> None:
    """Does everything, one call after the other, with upkeep in between."""
    settings = StoreSettings(segment_size=4000, checkpoint_ratio=1, step_bytes=1000)
    with EmbeddedQueueManager(home, name="ALPHA", store_settings=settings) as opened:
        driver = opened.driver
        for number, call in enumerate(calls(opened)):
            if hasty:
                driver.begin_turn()
                driver.decide(call, lambda given: None)
                driver.end_turn()
                answer(number)
                driver.sync()
                driver.release()
            else:
                driver.run(call)
                answer(number)
            driver.tidy()


if __name__ == "__main__":
    main(sys.argv[1], "hasty" in sys.argv[2:])
