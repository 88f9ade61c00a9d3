"""MESSAGES frames of messages as the engine gives them: one by one, or by column."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain, repeat
from operator import lshift, or_
from typing import Final, NamedTuple

from posthouse.wire.frames.frames import (
    LARGE,
    MESSAGE_HEADER,
    MESSAGE_HEADER_SIZE,
    messages_front,
)

_WORDS: Final = MESSAGE_HEADER_SIZE // 4
_MARKS, _SIZE = _WORDS - 2, _WORDS - 1  # the last words: marks and size of the sender; the packet's


# Number, lookup id, queue, priority, class, arrived, aborts, moves, last move, flags, sender.
Found = tuple[int, int, int, int, int, int, int, int, int, int, bytes]


class MessageColumns(NamedTuple):
    """What the headers of several messages hold, as 32-bit words for each of them."""

    lookup_id: tuple[array[int], array[int]]  # the low half and the high one
    arrived: array[int]
    last_move: array[int]
    states: tuple[array[int], array[int]]  # class and aborts; moves, priority and flags
    marks: bytes


def encode_message_columns(
    request: int, columns: MessageColumns, senders: Sequence[bytes], packets: Sequence[bytes]
) -> list[bytes]:
    """The frame, in parts. Large packets are not copied."""
    count = len(packets)
    heads, sizes = array("I", bytes(MESSAGE_HEADER_SIZE * count)), array("I", map(len, packets))
    fields = *columns.lookup_id, columns.arrived, columns.last_move, *columns.states
    for place, column in enumerate(fields):
        heads[place::_WORDS] = column
    heads[_SIZE::_WORDS] = sizes
    size, tails = sum(sizes), packets
    if any(senders) or any(columns.marks):
        known = list(map(len, senders))
        heads[_MARKS::_WORDS] = array("I", map(or_, columns.marks, map(lshift, known, repeat(16))))
        size += sum(known)
        tails = list(chain.from_iterable(zip(senders, packets, strict=True)))
    front = messages_front(request, size, count) + heads.tobytes()
    return [b"".join((front, *tails))] if size < LARGE * count else [front, *tails]


def encode_message_lists(
    request: int, reads: Sequence[Found], packets: Sequence[bytes]
) -> list[bytes]:
    """A MESSAGES frame of messages as the engine gives them, with their packets, in parts.

    Their flags have the marks after those of the row. Large packets are not copied.
    """
    pack, count, size = MESSAGE_HEADER.pack, len(reads), 0
    heads, tails = [b""], list[bytes]()
    for read, packet in zip(reads, packets, strict=True):
        _, lookup_id, _, priority, kind, arrived, aborts, moves, moved, flags, sender = read
        marks, lengths = (flags & 0xFF, flags >> 8), (len(sender), len(packet))
        heads.append(
            pack(lookup_id, arrived, moved, kind, aborts, moves, priority, *marks, *lengths)
        )
        tails += (sender, packet) if sender else (packet,)
        size += lengths[0] + lengths[1]
    heads[0] = messages_front(request, size, count)
    if size < LARGE * count:
        return [b"".join(heads + tails)]
    return [b"".join(heads), *tails]
