"""Dead letters of messages that are refused on arrival.

A message outside of transactions that asked for a dead letter ends where it is refused: its sender
has had its session acknowledgment, and gets no other unless it signs. So a copy is kept here, where
an operator can send it on. Strangers choose what they send, so this is for senders that may send to
some queue here, for reasons that do not speak against the content, and within limits: a part of
them for each address and hour, all of them for the dead-letter queue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import Accepting
from posthouse.engine.ledger.records import WANT_DEAD_LETTER, Change, Row
from posthouse.engine.messages.admission import Admission
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import DEADLETTER, Queue, QueueRole
from posthouse.engine.transfer.arrivals import Arriving, Refusal
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.address_prefixes import source_of
from posthouse.model.bounded_tables import Bounded
from posthouse.model.errors import QueueError
from posthouse.model.message_classes import (
    NACK_ACCESS_DENIED,
    NACK_BAD_DEST_QUEUE,
    NACK_HOP_COUNT_EXCEEDED,
    NACK_NOT_TRANSACTIONAL_MESSAGE,
    NACK_QUEUE_EXCEED_QUOTA,
    NACK_REACH_QUEUE_TIMEOUT,
)
from posthouse.security.access import Caller, Guard
from posthouse.security.rights import WRITE_MESSAGE

ADDRESSES_MAX: Final = 10_000  # whose part is known
SENDERS_MAX: Final = 10_000  # of whom it is known for a minute that they may send to some queue
PART_MESSAGES: Final = 1_000  # of one address in an hour
PART_BYTES: Final = 16 << 20
MESSAGES_MAX: Final = 10_000  # in the dead-letter queue; with more there, none is added
BYTES_MAX: Final = 64 << 20

# The documents have a dead letter for these, from any sender.
_ALWAYS = frozenset({NACK_QUEUE_EXCEED_QUOTA, NACK_HOP_COUNT_EXCEEDED})
# Not for signatures and encryption: such a message may be forged.
_LIMITED = frozenset(
    {
        NACK_ACCESS_DENIED,
        NACK_BAD_DEST_QUEUE,
        NACK_NOT_TRANSACTIONAL_MESSAGE,
        NACK_REACH_QUEUE_TIMEOUT,
    }
)
_ANYBODY = Caller.anonymous()


class RefusedDeadLetters:
    """Decides which refused messages are kept, and keeps them."""

    def __init__(
        self,
        core: Ledger,
        registry: Queues,
        admission: Admission,
        sending: Accepting,
        guard: Callable[[Queue], Guard],
        sender: Callable[[Arriving], Caller],
    ) -> None:
        self._core = core
        self._registry = registry
        self._admission = admission
        self._sending = sending
        self._guard = guard
        self._sender = sender
        # By address: the hour, and what was kept in it.
        self._parts: Bounded[str, tuple[int, int, int]] = Bounded(ADDRESSES_MAX)
        self._senders: Bounded[bytes, tuple[int, bool]] = Bounded(SENDERS_MAX)  # by SID

    def keep(
        self, peer: Peer, arrival: Arriving, row: Row, message_class: int, change: Change
    ) -> bool:
        """Put a copy of a refused message among the dead letters, if it is to be kept."""
        if not row.wants & WANT_DEAD_LETTER or arrival.seen.transaction_at:
            return False
        queue, size = self._core.queues[DEADLETTER], len(arrival.packet)
        if message_class not in _ALWAYS and not (
            message_class in _LIMITED
            and self._has_room(queue, size)
            and self._take_part(source_of(peer.host), size)
            and self._may_send(arrival)  # last, since it may verify a signature
        ):
            return False
        kept = queue.has_room_for(size)
        self._sending.copy(queue, row, arrival.packet, change)
        return kept

    def _has_room(self, queue: Queue, size: int) -> bool:
        try:
            self._admission.check_quotas(queue, size, None)
        except QueueError:
            return False
        state = queue.state
        return state.count < MESSAGES_MAX and state.bytes + size <= BYTES_MAX

    def _take_part(self, address: str, size: int) -> bool:
        hour = self._core.utc // 3600
        begun, messages, taken = self._parts.get(address, (hour, 0, 0))
        if begun != hour:
            messages = taken = 0
        if messages >= PART_MESSAGES or taken + size > PART_BYTES:
            return False
        self._parts[address] = hour, messages + 1, taken + size
        return True

    def _may_send(self, arrival: Arriving) -> bool:
        """Whether the sender of a message may send to some queue here."""
        if self._is_sender(_ANYBODY):
            return True
        try:
            caller = self._sender(Arriving(arrival.packet, arrival.seen))
        except (QueueError, Refusal):
            return False
        return self._is_sender(caller)

    def _is_sender(self, caller: Caller) -> bool:
        """Whether somebody may send to some queue here; all queues are looked at once a minute."""
        minute = self._core.utc // 60
        known_at, may_send = self._senders.get(caller.sid, (-1, False))
        if known_at != minute:
            may_send = any(
                queue.definition.role is QueueRole.PLAIN
                and self._guard(queue).allows(caller, WRITE_MESSAGE)
                for queue in self._registry.all()
            )
            self._senders[caller.sid] = minute, may_send
        return may_send
