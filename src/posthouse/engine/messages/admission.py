"""Admission: every reason why a queue refuses a message ([MS-MQDMPR] 3.1.7.1.27)."""

from __future__ import annotations

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import FLAG_AUTHENTICATED, FLAG_REMOTE, FLAG_TRANSACTIONAL
from posthouse.engine.ledger.rows import flags_of
from posthouse.engine.machine.shortages import scarcities
from posthouse.engine.messages.room import Room
from posthouse.engine.queues.queue import Queue, QueueRole
from posthouse.model.errors import (
    IllegalPropertyValue,
    MachineQuotaExceeded,
    MessageNotAuthenticated,
    QueueQuotaExceeded,
    TimedOutInTransit,
    TransactionUsage,
)
from posthouse.model.message import INFINITE
from posthouse.wire.packet.batch import Batch
from posthouse.wire.packet.packet import Packet, is_encrypted
from posthouse.wire.packet.packet_fields import PacketSummary

PRIVACY_OPTIONAL = 1
_PRIVACY_NONE, _PRIVACY_BODY = 0, 2
IN_TRANSACTION = (
    "Send it in a transaction: `posthouse send --transactional`; in Python transactional=True, or "
    "tx= a transaction."
)
OUTSIDE_TRANSACTIONS = (
    "Send it without a transaction: leave out --transactional, in Python transactional= and tx=."
)


class Admission:
    """The door of every queue: a message that is admitted can no longer be refused."""

    def __init__(self, core: Ledger) -> None:
        self.core = core

    def admit(
        self,
        queue: Queue,
        batch: Batch,
        flags: int,
        in_transaction: bool,
        room: Room | None = None,
    ) -> int:
        """Every reason to refuse messages at the queue's door, in the document's order.

        A reason against one message holds for its whole batch. `flags` are those flags of the row
        that the endpoint can set; `room` is the space that batches admitted earlier in the same
        call will take. Returns the flags of the rows.
        """
        seen, definition, leaving = batch.head, queue.definition, queue.outgoing is not None
        flags = flags_of(seen, flags)
        self.check_quotas(queue, batch.size, room)
        if flags & FLAG_REMOTE:
            if not leaving and self._is_late(batch):
                raise TimedOutInTransit("it arrived after its time to reach the queue")
        elif bool(flags & FLAG_TRANSACTIONAL) is not in_transaction:
            raise _not_as_sent(in_transaction)
        if definition.multicast and flags & FLAG_TRANSACTIONAL:
            raise TransactionUsage("messages to a multicast address cannot be transactional")
        if not leaving:  # of an outgoing queue its destination decides
            if (
                definition.transactional is not bool(flags & FLAG_TRANSACTIONAL)
                and definition.role is not QueueRole.INTERNAL
            ):
                raise other_kind(queue)
            if definition.authentication or definition.privacy_level != PRIVACY_OPTIONAL:
                encrypted = is_encrypted(batch.packets[0], seen)
                check_protection(queue, bool(flags & FLAG_AUTHENTICATED), encrypted)
        if seen.ack_flags:
            # Acknowledgments are made in the middle of other steps: names must not fail there.
            Packet(batch.packets[0], seen).names  # noqa: B018
        if room is not None:
            room.take(queue, batch.size)
        return flags

    def check_quotas(self, queue: Queue, size: int, room: Room | None) -> None:
        """The machine's quota is tested before the queue's; uncommitted sends count (O12)."""
        core = self.core
        if core.throttled:
            scarce = scarcities(core.throttled)
            raise MachineQuotaExceeded(
                f"new messages are refused at the moment: {' and '.join(s.cause for s in scarce)}",
                " ".join(one.remedy for one in scarce),
            )
        before, before_here = 0, 0
        if room is not None:
            before, before_here = room.bytes, room.bytes_of.get(queue.number, 0)
        limit = core.settings.machine_quota_kib
        if limit != INFINITE:
            used = core.state.bytes + core.reserved + before
            if used + size > limit << 10:
                raise MachineQuotaExceeded(f"the machine quota of {limit} KiB would be exceeded")
        if not queue.has_room_for(before_here + size):
            raise QueueQuotaExceeded(
                f"the quota of {queue.definition.quota_kib} KiB of {queue.name} would be exceeded"
            )

    def _is_late(self, batch: Batch) -> bool:
        """Of messages from elsewhere: those of this machine are sent now."""
        return late_by(batch.head, batch.sent_time, self.core.utc) > 0


def late_by(seen: PacketSummary, sent_time: int, utc: int) -> int:
    """For how many seconds its time to reach the queue is over; 0 or less: it is not.

    (state-machines 4.1 c)
    """
    reach = seen.time_to_reach_queue
    return 0 if reach == INFINITE else utc - sent_time - reach


def _not_as_sent(in_transaction: bool) -> TransactionUsage:
    """A transactional message is one with a TransactionHeader; ours get it in transactions."""
    return TransactionUsage(
        "the packet has no TransactionHeader, but is sent in a transaction"
        if in_transaction
        else "the packet has a TransactionHeader, but is sent outside a transaction"
    )


def other_kind(queue: Queue, remedy: str = "") -> TransactionUsage:
    """The refusal of a message that is transactional where its queue is not, or the other way."""
    transactional = queue.definition.transactional
    kind = (
        "transactional, the message is not"
        if transactional
        else "not transactional, the message is"
    )
    return TransactionUsage(
        f"the queue {queue.name} is {kind}",
        remedy or (IN_TRANSACTION if transactional else OUTSIDE_TRANSACTIONS),
    )


def check_protection(queue: Queue, authenticated: bool, encrypted: bool) -> None:
    """Whether the queue wants its messages signed, encrypted or in the clear."""
    if queue.definition.authentication and not authenticated:
        raise MessageNotAuthenticated(f"the queue {queue.name} takes authenticated messages only")
    privacy = queue.definition.privacy_level
    if privacy == _PRIVACY_BODY and not encrypted:
        raise IllegalPropertyValue(f"the queue {queue.name} takes encrypted messages only")
    if privacy == _PRIVACY_NONE and encrypted:
        raise IllegalPropertyValue(f"the queue {queue.name} takes no encrypted messages")
