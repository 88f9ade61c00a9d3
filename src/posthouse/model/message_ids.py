"""Identifiers of messages and of sequences of messages ([MS-MQMQ] 2.2.8, 2.2.18.1.2)."""

import re
import struct
from typing import Final, NamedTuple

from posthouse.model.errors import IllegalPropertySize, IllegalPropertyValue
from posthouse.model.guids import GUID_PATTERN, NULL_GUID, format_guid, parse_guid
from posthouse.model.text import excerpt

MESSAGE_ID_SIZE: Final = 20

_ID_TEXT = re.compile(rf"({GUID_PATTERN})\\([0-9]{{1,10}})")
_U32 = struct.Struct("<I")


class MessageId(NamedTuple):
    """OBJECTID: who gave the identifier, and a number ([MS-MQMQ] 2.2.8, 2.2.18.1.3)."""

    guid: bytes
    ordinal: int

    def pack(self) -> bytes:
        """The 20 bytes of packets."""
        return self.guid + _U32.pack(self.ordinal)

    @classmethod
    def unpack(cls, data: bytes) -> "MessageId":
        """Read the 20 bytes of packets."""
        if len(data) != MESSAGE_ID_SIZE:
            raise IllegalPropertySize(f"a message id has {MESSAGE_ID_SIZE} bytes, not {len(data)}")
        return cls(bytes(data[:16]), _U32.unpack_from(data, 16)[0])

    @classmethod
    def parse(cls, text: str) -> "MessageId":
        """Read the form `guid\\decimal` that applications use."""
        match = _ID_TEXT.fullmatch(text)
        ordinal = int(match[2]) if match else 0
        if match is None or ordinal > 0xFFFFFFFF:
            raise IllegalPropertyValue(f"{excerpt(text)} is not a GUID, a backslash and a number")
        return cls(parse_guid(match[1]), ordinal)

    def __str__(self) -> str:
        return f"{format_guid(self.guid)}\\{self.ordinal}"


NULL_MESSAGE_ID: Final = MessageId(NULL_GUID, 0)


class TxSequenceId(NamedTuple):
    """A sequence of transactional messages; later ones compare greater ([MS-MQMQ] 2.2.18.1.2)."""

    time_stamp: int
    ordinal: int

    def __int__(self) -> int:
        return self.time_stamp << 32 | self.ordinal

    @classmethod
    def from_int(cls, number: int) -> "TxSequenceId":
        """The sequence with this number, as packets carry it little-endian in eight bytes."""
        return cls(number >> 32, number & 0xFFFFFFFF)
