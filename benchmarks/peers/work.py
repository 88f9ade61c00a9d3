"""What is measured: ways to send, doses and sizes. The same for everybody."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

BATCH: Final = 100  # messages of a transaction, of an acknowledgement, of a pipeline where one ends
WINDOW: Final = 500  # messages on their way to a peer that acknowledges each
LARGE: Final = 1 << 16  # bodies from this size on travel a few at a time
LARGE_WINDOW: Final = 4


class Mode(Enum):
    """How a producer sends."""

    EXPRESS = "express"  # never synced; the consumer runs at the same time
    PIPELINED = "pipelined"  # durable, the next ones leave before the last is acknowledged
    SINGLE = "single"  # durable, each waits for its acknowledgement
    TRANSACTION = "transaction"  # durable, a hundred at once or none


DURABLE: Final = frozenset({Mode.PIPELINED, Mode.SINGLE, Mode.TRANSACTION})


class Load(NamedTuple):
    """This many messages of a size, sent in one way."""

    mode: Mode
    messages: int
    size: int

    @property
    def durable(self) -> bool:
        """Whether an acknowledgement means: on disk."""
        return self.mode in DURABLE

    @property
    def window(self) -> int:
        """Messages that may be unacknowledged."""
        return WINDOW if self.size < LARGE else LARGE_WINDOW

    @property
    def batch(self) -> int:
        """Messages of a group."""
        return BATCH if self.size < LARGE else LARGE_WINDOW

    def groups(self) -> Iterator[int]:
        """The sizes of the groups that make up the load."""
        left = self.messages
        while left:
            group = min(left, self.batch)
            yield group
            left -= group


class Work(NamedTuple):
    """A workload: its words for the tables, and its doses. No words: nothing to report there."""

    name: str
    mode: Mode
    size: int
    usual: int
    quick: int
    sending: str
    receiving: str = ""
    both: bool = False  # producer and consumer at the same time

    def load(self, *, quick: bool) -> Load:
        """The dose of a round."""
        return Load(self.mode, self.quick if quick else self.usual, self.size)


KIB: Final = 1 << 10
MIB: Final = 1 << 20

# What the tables and the goals call them.
END_TO_END: Final = "express, end to end"
SEND: Final = "durable send, pipelined"
RECEIVE: Final = "receive and durable acknowledge"
ONE_AT_A_TIME: Final = "durable, one at a time"
TRANSACTION: Final = "transaction of 100"
LARGE_BODIES: Final = ("1 MiB bodies", "4 MB bodies")
RELAY: Final = "durable, producer to consumer"
RELAY_TRANSACTIONS: Final = "transactions of 100, producer to consumer"


def _large(name: str, words: str, size: int, usual: int, quick: int) -> Work:
    return Work(name, Mode.PIPELINED, size, usual, quick, f"{words}, sent", f"{words}, received")


# Doses are multiples of 32: this many messages the binary protocol acknowledges at once; fewer wait
# for a timer.
WORKS: Final = (
    Work("express", Mode.EXPRESS, KIB, 50_000, 1_000, END_TO_END, both=True),
    Work("pipelined", Mode.PIPELINED, KIB, 20_000, 500, SEND, RECEIVE),
    Work("single", Mode.SINGLE, KIB, 1_000, 20, ONE_AT_A_TIME),
    Work("transaction", Mode.TRANSACTION, KIB, 9_600, 200, TRANSACTION),
    _large("1mib", LARGE_BODIES[0], MIB, 64, 4),
    # The largest body that a packet of 4 MiB holds whatever its properties are.
    _large("4mb", LARGE_BODIES[1], 4 * MIB - 4096, 32, 2),
    Work("relay", Mode.PIPELINED, KIB, 20_000, 500, RELAY, both=True),
    Work("relaytx", Mode.TRANSACTION, KIB, 9_600, 200, RELAY_TRANSACTIONS, both=True),
)
