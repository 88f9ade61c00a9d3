"""The metrics of queues, in the text form of Prometheus (0.0.4).

Written here and not by a library, because there may be ten thousand queues with a dozen lines each,
and everybody else waits meanwhile. They are added a few at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from posthouse.engine.ledger.books import books_of, sender_books_of
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Group, OutgoingQueueState, Queue
from posthouse.protocols.handlers.queues import kind_of
from posthouse.protocols.handlers.transfer_json import state_word

OUTCOMES: Final = (
    "accepted",
    "received",
    "expired",
    "purged",
    "rejected",
    "moved_away",
    "lost_express",
)
"""Of the books: those that only go up."""


class Family(NamedTuple):
    """A metric: what its samples have in common."""

    name: str
    kind: str
    about: str

    @property
    def head(self) -> str:
        """What stands in front of the samples."""
        return f"# HELP {self.name} {self.about}\n# TYPE {self.name} {self.kind}\n"


DEPTH: Final = Family("posthouse_queue_messages", "gauge", "Messages in a queue.")
SIZE: Final = Family("posthouse_queue_bytes", "gauge", "Bytes of the messages in a queue.")
AGE: Final = Family(
    "posthouse_queue_oldest_seconds", "gauge", "Age of the oldest message in seconds."
)
READERS: Final = Family(
    "posthouse_queue_waiting_reads", "gauge", "Readers that wait for a message."
)
BOOKS: Final = Family(
    "posthouse_queue_books_total",
    "counter",
    "Messages by outcome. Accepted is the sum of all others and of the messages in the queue.",
)
LEAVING: Final = Family(
    "posthouse_outgoing_messages",
    "gauge",
    "Messages of an outgoing queue by progress; unread: arrived there and not yet received.",
)
UNCONFIRMED: Final = Family(
    "posthouse_outgoing_unconfirmed_seconds",
    "gauge",
    "How long a transactional message was sent and not confirmed, while the peer is reached.",
)
STATES: Final = Family("posthouse_outgoing_queues", "gauge", "Outgoing queues by state.")
UNBALANCED: Final = Family(
    "posthouse_books_unbalanced", "gauge", "Queues whose books do not balance."
)


GROUP_LAG: Final = Family(
    "posthouse_group_lag_messages", "gauge", "Lag of a group: messages after its position."
)
GROUP_LAG_BYTES: Final = Family(
    "posthouse_group_lag_bytes", "gauge", "Lag of a group in bytes; an estimate if it is large."
)
GROUP_CLAIMED: Final = Family(
    "posthouse_group_claimed_messages",
    "gauge",
    "Messages that a group has claimed: no other reader gets them.",
)
GROUP_LEASED: Final = Family(
    "posthouse_group_leased", "gauge", "1 while a reader holds the lease of a group."
)
GROUP_ACKNOWLEDGED: Final = Family(
    "posthouse_group_acknowledged_total", "counter", "Messages that a group has acknowledged."
)
_OF_QUEUES: Final = (DEPTH, SIZE, AGE, READERS, BOOKS, LEAVING, UNCONFIRMED)
_OF_GROUPS: Final = (GROUP_LAG, GROUP_LAG_BYTES, GROUP_CLAIMED, GROUP_LEASED, GROUP_ACKNOWLEDGED)


class QueueMetrics:
    """The samples of all queues of one scrape."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self._samples: dict[Family, list[str]] = {
            family: [] for family in (*_OF_QUEUES, *_OF_GROUPS)
        }
        self._states = dict.fromkeys((state.name.lower() for state in OutgoingQueueState), 0)
        self._unbalanced = 0

    def add(self, queues: Iterable[Queue]) -> None:
        """Looks at some queues."""
        for queue in queues:
            label = _labels(queue)
            age_s = self._manager.messages.oldest_age_s(queue) or 0
            self._sample(DEPTH, label, queue.state.count)
            self._sample(SIZE, label, queue.state.bytes)
            self._sample(AGE, label, age_s)
            self._sample(READERS, label, len(queue.waiters))
            books = books_of(queue)
            for outcome in OUTCOMES:
                self._sample(BOOKS, f'{label},outcome="{outcome}"', getattr(books, outcome))
            self._unbalanced += not books.balanced
            if queue.outgoing is not None:
                self._add_outgoing(queue, label)
            for group in queue.groups.values():
                self._add_group(group, f'{label},group="{escaped(group.name)}"')

    def _add_group(self, group: Group, label: str) -> None:
        groups = self._manager.groups
        lag = groups.lag(group)
        self._sample(GROUP_LAG, label, lag.messages)
        self._sample(GROUP_LAG_BYTES, label, lag.bytes)
        self._sample(GROUP_CLAIMED, label, groups.claimed_messages(group))
        self._sample(GROUP_LEASED, label, groups.is_leased(group))
        self._sample(GROUP_ACKNOWLEDGED, label, group.definition.acknowledged)

    def _add_outgoing(self, queue: Queue, label: str) -> None:
        transfer = self._manager.transfer
        books = sender_books_of(queue, transfer.unacknowledged(queue))
        arrived = transfer.arrived(queue)
        self._sample(LEAVING, f'{label},progress="unsent"', books.unsent)
        self._sample(LEAVING, f'{label},progress="unacknowledged"', books.unacknowledged - arrived)
        self._sample(LEAVING, f'{label},progress="unread"', arrived)
        self._sample(UNCONFIRMED, label, transfer.unconfirmed_s(queue))
        self._states[state_word(queue)] += 1

    def _sample(self, family: Family, labels: str, value: float) -> None:
        self._samples[family].append(f"{family.name}{labels}}} {float(value)!r}\n")

    def text(self) -> bytes:
        """All that was added."""
        parts = [family.head + "".join(lines) for family, lines in self._samples.items()]
        parts.append(STATES.head)
        for state, count in self._states.items():
            parts.append(f'{STATES.name}{{state="{state}"}} {float(count)!r}\n')
        parts.append(f"{UNBALANCED.head}{UNBALANCED.name} {float(self._unbalanced)!r}\n")
        return "".join(parts).encode()


def _labels(queue: Queue) -> str:
    """The beginning of the labels of each sample of a queue."""
    short = queue.name.rpartition("\\")[2]
    return f'{{queue="{escaped(queue.name)}",name="{escaped(short)}",kind="{kind_of(queue)}"'


def escaped(text: str) -> str:
    """A text as the value of a label."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
