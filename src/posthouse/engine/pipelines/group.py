"""A named group: a durable position in a queue, up to which a reader has acknowledged messages.

What is kept of it is one definition; the end of its lease is known only while the process lives.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import msgspec

from posthouse.engine.ledger.records import EXPIRED, MOVED, PURGED, RECEIVED
from posthouse.model.group_names import GroupMode

_QUEUE = struct.Struct("<I")
_COLUMNS = (RECEIVED, EXPIRED, PURGED, MOVED)


class GroupDefinition(msgspec.Struct, omit_defaults=True):
    """What is kept of a group. Its claim covers the lookup ids in (begin, claimed]."""

    queue: int
    name: str
    mode: GroupMode
    position: int  # everything up to here is acknowledged
    claimed: int = 0
    epoch: int = 0  # of the last lease: readers with an older one are refused
    owner: str = ""  # of the last lease
    acknowledged: int = 0
    acknowledged_express: int = 0  # of these
    began: list[int] = []  # the queue's books when the group was made: the durable line,
    began_express: list[int] = []  # and the express line
    create_time: int = 0
    creator: bytes = b""  # SID of the user that created it; empty in older homes
    last_time: int = 0  # of the last lease, claim or acknowledgment
    claim_after: int = 0  # where the claim begins, if that is above the position
    stream: str = ""  # whose claim it is: another stream cannot acknowledge it


encode_group = msgspec.msgpack.Encoder().encode
decode_group = msgspec.msgpack.Decoder(GroupDefinition).decode


def group_key(queue: int, name: str) -> bytes:
    """Under which a group is kept: it belongs to one queue."""
    return _QUEUE.pack(queue) + name.encode()


class Lag(NamedTuple):
    """The lag of a group: messages and bytes after its position."""

    messages: int
    bytes: int


class Elsewhere(NamedTuple):
    """Counts of messages that left the queue otherwise than through the group, since it was
    created.
    """

    received: int
    expired: int
    purged: int
    moved_away: int


def since(line: list[int], began: list[int]) -> list[int]:
    """How far the columns that count have gone."""
    return [line[column] - (began[column] if began else 0) for column in _COLUMNS]
