"""A named group: a durable place in a queue up to which a reader of many messages has come.

What is kept of it is one definition; the end of its lease is known only while the process lives.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import msgspec

from posthouse.engine.ledger.order import QueueRange
from posthouse.engine.ledger.steps import SteppedWork
from posthouse.engine.queues.queue import Queue
from posthouse.model.errors import SharingViolation
from posthouse.model.group_names import GroupMode

_QUEUE = struct.Struct("<I")


class GroupDefinition(msgspec.Struct, omit_defaults=True):
    """What is kept of a group. Its claim covers the lookup ids in (begin, claimed]."""

    queue: int
    name: str
    mode: GroupMode
    position: int  # everything up to here is acknowledged
    claimed: int = 0
    epoch: int = 0  # of the last lease: whoever has an older one is refused
    owner: str = ""  # of the last lease
    acknowledged: int = 0
    acknowledged_express: int = 0  # of these
    began: list[int] = []  # the queue's books when the group was made: the durable line,
    began_express: list[int] = []  # and the express line
    create_time: int = 0
    creator: bytes = b""  # SID of whoever made it; empty where that was not kept yet
    last_time: int = 0  # of the last lease, claim or acknowledgment
    claim_after: int = 0  # where the claim begins, if that is above the position
    stream: str = ""  # whose claim it is: another stream cannot acknowledge it


encode_group = msgspec.msgpack.Encoder().encode
decode_group = msgspec.msgpack.Decoder(GroupDefinition).decode


class Group:
    """A group at run time."""

    __slots__ = ("acknowledging", "definition", "lease_until_ms", "queue")

    def __init__(self, definition: GroupDefinition, queue: Queue) -> None:
        self.definition = definition
        self.queue = queue
        self.lease_until_ms = 0  # on the monotonic clock; 0: nobody has it
        self.acknowledging: Acknowledging | None = None  # an acknowledgment that is not done

    @property
    def name(self) -> str:
        """What it is called, in its queue."""
        return self.definition.name

    @property
    def consumes(self) -> bool:
        """Whether its acknowledgments receive messages."""
        return self.definition.mode is GroupMode.CONSUME

    @property
    def has_claims(self) -> bool:
        """Whether it keeps messages from everybody else, lease or no lease."""
        return self.definition.claimed > self.begin

    @property
    def begin(self) -> int:
        """Where its claim begins; messages between its position and here are anybody's."""
        return max(self.definition.position, self.definition.claim_after)

    @property
    def claim(self) -> QueueRange:
        """What it keeps from everybody else."""
        return QueueRange(self.begin, self.definition.claimed)

    def unclaim(self) -> None:
        """It keeps nothing."""
        definition = self.definition
        definition.claimed, definition.claim_after, definition.stream = definition.position, 0, ""

    @property
    def key(self) -> bytes:
        """Of its definition."""
        return group_key(self.queue.number, self.name)

    def violation(self, what: str) -> SharingViolation:
        """The refusal of a call that comes between the group and its queue."""
        return SharingViolation(
            f"{what}: the group {self.name} reads {self.queue.name}",
            f"Wait until its reader has ended, or if that is lost for good end it: {self.freeing}",
        )

    @property
    def freeing(self) -> str:
        """The command that ends its lease and its claims."""
        return f"posthouse group release '{self.queue.name}' {self.name}"


def group_key(queue: int, name: str) -> bytes:
    """Under which a group is kept: it belongs to one queue."""
    return _QUEUE.pack(queue) + name.encode()


class Acknowledging(SteppedWork):
    """Claimed messages are received, in lookup-identifier order, in as many steps as it takes."""

    __slots__ = ("group", "received", "through")

    def __init__(self, group: Group, through: int) -> None:
        super().__init__()
        self.group = group
        self.through = through
        self.received = 0  # so far


class Lag(NamedTuple):
    """What lies after the position of a group."""

    messages: int
    bytes: int


class Elsewhere(NamedTuple):
    """What became of messages without the group, since it was made."""

    received: int
    expired: int
    purged: int
    moved_away: int
