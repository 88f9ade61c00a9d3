"""Bodies and packets to be sent around: all different, and no disk can compress them."""

from __future__ import annotations

from random import Random

from posthouse.model.message import DeliveryGuarantee, Message, TxSequenceId
from posthouse.wire.packet.message import serialize

BODY_SIZE = 1024
_POOL_SIZE = 1 << 20
_STRIDE = 1031  # a prime: bodies repeat only after the whole pool
_POOL = Random(1801).randbytes(_POOL_SIZE + BODY_SIZE)


def body_of(number: int) -> bytes:
    """1 KiB of noise that follows from the number."""
    at = number * _STRIDE % _POOL_SIZE
    return _POOL[at : at + BODY_SIZE]


def packets(count: int, *, express: bool = False, transactional: bool = False) -> list[bytes]:
    """This many UserMessage packets with a body of 1 KiB, as a client would hand them in."""
    return [_packet(number, express, transactional) for number in range(count)]


def _packet(number: int, express: bool, transactional: bool) -> bytes:
    message = Message(
        body=body_of(number),
        label=f"order {number}",
        destination_queue_format_name="DIRECT=OS:.\\private$\\orders",
        delivery_guarantee=(
            DeliveryGuarantee.EXPRESS if express else DeliveryGuarantee.RECOVERABLE
        ),
    )
    if transactional:
        message.transaction_identifier = 1
        message.transactional_message_sequence_identifier = TxSequenceId(0, 0)
    return serialize(message)
