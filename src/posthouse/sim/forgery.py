"""Forged packets and posts that an attacker sends in the name of other machines.

Everything here is well-formed. What gives a forged message away is the address that it comes from.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from posthouse.engine.ledger.records import Row
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.sequence_values import SEQUENCED as SEQUENCED_LANE
from posthouse.engine.transfer.sequence_values import is_numbered
from posthouse.model.message import DeliveryGuarantee, Message, MessageId, TxSequenceId
from posthouse.model.message_classes import (
    ACK_RECEIVE,
    NACK_BAD_DEST_QUEUE,
    NACK_QUEUE_PURGED,
    NACK_RECEIVE_REJECTED,
)
from posthouse.model.names import parse_format_name
from posthouse.protocols.srmp.http_writer import request
from posthouse.sim.managers import SimManager
from posthouse.sim.messages import STRANGE, Kind
from posthouse.wire.binary.order_acks import (
    FinalAck,
    OrderAck,
    OrderQueue,
    Origin,
    final_ack,
    order_ack,
    order_queue_at,
    order_queue_of,
)
from posthouse.wire.packet.bodies import label_bytes, with_label
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.packet.serialize import serialize
from posthouse.wire.srmp.receipts import final_stream_receipt, stream_id_of, stream_receipt
from posthouse.wire.srmp.serialize import ORDER_QUEUE_PATH, SrmpContext, request_target, srmp_of

HUGE = (1 << 64) - 1, (1 << 32) - 1  # the last sequence there can be, and its last number
CLASSES = (ACK_RECEIVE, NACK_BAD_DEST_QUEUE, NACK_QUEUE_PURGED, NACK_RECEIVE_REJECTED)


class Aim(NamedTuple):
    """Whose messages are attacked: of this machine, to this queue, under this name of it."""

    source: SimManager
    target: SimManager
    queue: str
    format_name: str

    @property
    def is_posted(self) -> bool:
        """Whether they travel over HTTP."""
        return self.format_name.startswith("DIRECT=HTTP")


class Slot(NamedTuple):
    """A place in a sequence, and the ordinal of the message that has it or gets it."""

    sequence_id: int
    number: int
    previous: int
    ordinal: int


def _outgoing(aim: Aim) -> Queue | None:
    return aim.source.manager.queues.find_outgoing(parse_format_name(aim.format_name))


def next_ordinal(source: SimManager) -> int:
    """The message number that a machine gives out next."""
    return source.manager.machine.next_ordinal


def next_slot(aim: Aim) -> Slot:
    """What the source gives to its next transactional message for the queue."""
    coming = aim.source.manager.transfer.next_sequence(_outgoing(aim))
    return Slot(*coming, next_ordinal(aim.source))


def given_out(aim: Aim) -> list[Slot]:
    """The slots of what the source has not finished with: waiting, on its way, or arrived."""
    queue = _outgoing(aim)
    if queue is None:
        return []
    manager = aim.source.manager
    rows: list[tuple[int, Row]] = []
    for lookup_id, number in queue.state.order.lane(SEQUENCED_LANE).after(0):
        row = manager.messages.row(number)
        if is_numbered(row.flags):
            rows.append((lookup_id, row))
    return [
        Slot(
            manager.transfer.sequence_at(queue, lookup_id),
            row.last_move,
            max(row.last_move - 1, 0),
            row.ordinal,
        )
        for lookup_id, row in rows
    ]


class Forger:
    """Makes messages whose labels only the account recognises."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.made = 0

    def label(self) -> str:
        """A name that no letter has."""
        self.made += 1
        return f"{STRANGE}{self.made}"

    def relabelled(self, packet: bytes) -> bytes | None:
        """A captured packet with other content: its label, and nothing else, is the stranger's.

        None for one whose label has no room for that.
        """
        seen, name = summarize(packet), self.label()
        closing = b"\0\0" if label_bytes(packet, seen).endswith(b"\0\0") else b""
        units = (seen.label_size - len(closing)) // 2
        if len(name) > units:
            return None
        label = name.ljust(units).encode("utf-16-le") + closing
        return with_label(packet, seen, label)

    def message(
        self, aim: Aim, guid: bytes, ordinal: int, kind: Kind, slot: Slot | None = None
    ) -> bytes:
        """A user message from `guid`; with a slot it stands there in a sequence."""
        chance, sequenced = self.chance, slot is not None
        express, recoverable = DeliveryGuarantee.EXPRESS, DeliveryGuarantee.RECOVERABLE
        message = Message(
            label=self.label(),
            body=chance.randbytes(chance.choice((0, 10, 200))),
            identifier=MessageId(guid, ordinal & 0xFFFFFFFF),
            source_machine_identifier=guid,
            sent_time=aim.target.world.clock.utc_seconds,
            destination_queue_format_name=aim.format_name,
            delivery_guarantee=express if kind == "express" else recoverable,
            priority=0 if sequenced else 3,
            negative_journaling_requested=chance.random() < 0.2,
        )
        if slot is not None:
            message.transactional_message_sequence_identifier = TxSequenceId.from_int(
                slot.sequence_id
            )
            message.transaction_sequence_number = slot.number
            message.transaction_previous_sequence_number = slot.previous
            message.first_in_transaction = message.last_in_transaction = True
            message.final_ack_required = chance.random() < 0.3
        return serialize(message)

    # -- acknowledgments in the name of the target

    def order_ack(self, aim: Aim, slot: Slot) -> bytes:
        """A forged order acknowledgment: everything up to there has arrived."""
        body = OrderAck.of(slot.sequence_id, slot.number)
        return order_ack(body, self._order_queue(aim), self._origin(aim))

    def final_ack(self, aim: Aim, slot: Slot) -> bytes:
        """A forged final acknowledgment of a message."""
        guid = aim.source.manager.machine.identifier
        body = FinalAck(slot.sequence_id, slot.number, slot.previous, guid, slot.ordinal)
        code = self.chance.choice(CLASSES)
        return final_ack(body, code, self._order_queue(aim), self._origin(aim))

    def _order_queue(self, aim: Aim) -> OrderQueue:
        if self.chance.random() < 0.5:
            return order_queue_of(aim.source.manager.machine.identifier)
        return order_queue_at(aim.source.address)

    def _origin(self, aim: Aim) -> Origin:
        manager = aim.target.manager
        return Origin(
            manager.machine.identifier,
            manager.machine.next_ordinal,
            aim.target.world.clock.utc_seconds,
        )

    def stream_receipt(self, aim: Aim, slot: Slot) -> bytes:
        """A forged receipt over HTTP, for a stream."""
        guid = aim.source.manager.machine.identifier
        stream_id, to = stream_id_of(guid, slot.sequence_id), _receipts_name(aim.source.address)
        place = slot.sequence_id, slot.number
        return posted(stream_receipt(stream_id, guid, *place, to, self._origin(aim)), "")

    def final_receipt(self, aim: Aim, slot: Slot) -> bytes:
        """What became of a message of a stream."""
        guid = aim.source.manager.machine.identifier
        stream_id, to = stream_id_of(guid, slot.sequence_id), _receipts_name(aim.source.address)
        body = FinalAck(slot.sequence_id, slot.number, slot.previous, guid, slot.ordinal)
        code = self.chance.choice((ACK_RECEIVE, NACK_QUEUE_PURGED, NACK_RECEIVE_REJECTED))
        packet = final_stream_receipt(body, code, self.label(), stream_id, to, self._origin(aim))
        return posted(packet, "")


def _receipts_name(address: str) -> str:
    return f"DIRECT=HTTP://{address}{ORDER_QUEUE_PATH}"


def receipts_url(address: str) -> str:
    """Where a machine takes receipts of its streams."""
    return f"http://{address}{ORDER_QUEUE_PATH}"


def posted(packet: bytes, receipts_to: str) -> bytes:
    """A message as an HTTP request."""
    made = srmp_of(packet, summarize(packet), SrmpContext(receipts_to))
    host, target = request_target(made.url)
    return b"".join(request(target, host, made.fields, made.payload))
