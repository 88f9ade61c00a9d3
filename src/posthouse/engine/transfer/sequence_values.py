"""Values of sequences: the state of one, the place of a message, and the verdict on it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import msgspec

from posthouse.engine.ledger.records import FLAG_REMOTE, FLAG_TRANSACTIONAL
from posthouse.engine.queues.queue import Queue

Place = tuple[int, int]  # sequence identifier and number
SEQUENCED = 0  # the priority of transactional messages
OURS = FLAG_TRANSACTIONAL | FLAG_REMOTE


class SequenceInfo(NamedTuple):
    """SEQUENCE_INFO, [MS-MQMQ] 2.2.5."""

    sequence_id: int
    number: int
    previous_number: int


class IncomingTransactionalTransferInfo(msgspec.Struct, omit_defaults=True):
    """[MS-MQDMPR] 3.1.1.5: one per source queue manager and destination queue."""

    source: bytes
    format_name: str
    sequence_id: int = 0
    sequence_number: int = 0
    last_access_time: int = 0
    reject_count: int = 0  # rejections before the last acceptance, or so far
    rejected: int = 0  # since the last acceptance
    address: str = ""  # where the source's session came from the last time
    # Of a stream of SRMP ([MC-MQSRM] 3.1.1.1.6) only: the host it came from, its name as sent, ...
    via: str = ""
    stream_id: str = ""
    receipts_to: str = ""  # ... SendReceiptsTo as a format name, empty where none may be sent
    acknowledged: int = 0  # LastAcknowledgedStreamMessage
    receipts_as: str = ""  # the name in receipts, where a sender that has moved gets them elsewhere
    host: str = ""  # of other sequences: whose it is; empty: of the directory, or of version 0.1
    # The lineage that it has gone on from, and at which place (`sequence_origins.py`).
    origin: str | None = None
    shared_id: int = 0
    shared_number: int = 0
    began: int = 0  # numbers of its sequence up to there are not its own
    accepted: int = 0  # messages; 0: none since version 0.1
    anew: bool = False  # an operator has reset it: the next message is taken, whatever its place

    @property
    def lineage(self) -> str:
        """The host that it belongs to."""
        return self.via or self.host


class Standing(Enum):
    """How a message stands to what came before it."""

    NEXT = "next"
    OLD = "old"  # its own lineage is further
    AGREED = "agreed"  # another lineage has it
    HELD = "held"
    GAP = "gap"  # something in front of it is missing


class SequenceClaim(NamedTuple):
    """The place in a sequence that a message has."""

    queue: Queue
    source: bytes
    format_name: str
    host: str  # its lineage; empty: that of the directory
    place: Place
    previous: int
    begins: bool  # nothing is in front of it in its sequence
    digest: bytes


class Judgment(NamedTuple):
    """How it stands, what is known of its own lineage, and which one it goes on from.

    Where that is not certain, `like` is one that it may have gone on from.
    """

    standing: Standing
    own: IncomingTransactionalTransferInfo | None
    origin: IncomingTransactionalTransferInfo | None = None
    like: IncomingTransactionalTransferInfo | None = None


class OutgoingTransferReport(NamedTuple):
    """OutgoingTransferInfo as administrators see it ([MS-MQDMPR] 3.1.1.4)."""

    first_non_ack: SequenceInfo | None
    last_non_ack: SequenceInfo | None
    last_ack: SequenceInfo | None
    next_sequence: SequenceInfo
    no_ack_count: int
    no_read_count: int  # order-acknowledged, not yet reported as received
    last_ack_time: int
    last_ack_count: int
    resend_count: int
    resend_interval_s: int
    resend_time: int


def is_numbered(flags: int) -> bool:
    """Whether a message of an outgoing queue has a place in a sequence of ours."""
    return flags & OURS == FLAG_TRANSACTIONAL
