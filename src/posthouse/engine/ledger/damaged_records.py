"""What the log keeps of a damaged message record until an operator decides.

The store writes an entry when it opens a log and goes on without such a record, the engine when a
reader meets one. The segment that holds the record is not compacted before the loss is accepted.
"""

from __future__ import annotations

import struct

import msgspec

_KEY = struct.Struct("<II")  # segment and offset


class DamagedRecord(msgspec.Struct, frozen=True):
    """A damaged record of a message: where it lies, and what is known of the message."""

    segment: int
    offset: int
    size: int
    reason: str
    number: int = 0  # of the message; 0: the log does not have it
    named: int = 0  # the number in the damaged bytes, which may itself be damaged
    found: int = 0  # UTC seconds; 0: by the start whose log line names it
    accepted: int = 0  # UTC seconds; 0: not decided yet
    accepted_by: str = ""

    @property
    def key(self) -> bytes:
        """Its key in TABLE_DAMAGE."""
        return damage_key(self.segment, self.offset)


def damage_key(segment: int, offset: int) -> bytes:
    """The key of the record at this place."""
    return _KEY.pack(segment, offset)


encode_damaged = msgspec.msgpack.Encoder().encode
decode_damaged = msgspec.msgpack.Decoder(DamagedRecord).decode
