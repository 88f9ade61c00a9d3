"""Arrow's IPC stream cut into its messages as the bytes come, without waiting in a thread.

A message is a continuation mark, the size of its metadata, the metadata, and a body whose size is
in the metadata. The metadata is a flatbuffer, of which only that size is read here; Arrow reads the
rest. Everything is bounded: nothing is believed before it is checked.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from posthouse.protocols.handlers.refusals import BadRequest, BodyTooLarge
from posthouse.wire.block_buffer import Gathered

MESSAGE_MAX = 64 << 20
METADATA_MAX = 1 << 20
_MARK = b"\xff\xff\xff\xff"
_PREFIX = struct.Struct("<4sI")
_U16, _U32, _I32, _I64 = (struct.Struct(f"<{code}") for code in "HIiq")
_VERSION, _HEADER_TYPE, _HEADER, _BODY_LENGTH, _CUSTOM = range(5)  # fields of a Message
_V5 = 4  # of the format: since 2020. Older ones have ways of their own to compress
_COMPRESSION = 3  # of a RecordBatch


class Content(IntEnum):
    """What a message brings."""

    SCHEMA = 1
    DICTIONARY = 2
    RECORD_BATCH = 3


class Frame(NamedTuple):
    """One message, whole."""

    content: Content
    data: bytes


class _Table:
    """A table of a flatbuffer: where its fields are, as far as they lie inside the bytes."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        (back,) = _I32.unpack_from(data, at)
        self._fields = at - back
        if not 0 <= self._fields <= len(data) - 4:
            raise struct.error("a table without fields")
        (self._size,) = _U16.unpack_from(data, self._fields)

    def at(self, field: int) -> int:
        """Where a field lies, 0 when it is left out."""
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return 0
        (offset,) = _U16.unpack_from(self._data, self._fields + entry)
        return self._at + offset if offset else 0

    def table(self, field: int) -> _Table | None:
        """A field that is a table itself."""
        at = self.at(field)
        if not at:
            return None
        (offset,) = _U32.unpack_from(self._data, at)
        return _Table(self._data, at + offset)


def described(metadata: bytes) -> tuple[Content, int]:
    """What a message brings, and the size of its body."""
    try:
        message = _Table(metadata, _U32.unpack_from(metadata)[0])
        kind_at, body_at = message.at(_HEADER_TYPE), message.at(_BODY_LENGTH)
        version_at, custom = message.at(_VERSION), message.at(_CUSTOM) > 0
        (version,) = _U16.unpack_from(metadata, version_at) if version_at else (0,)
        kind = metadata[kind_at] if kind_at else 0
        (body,) = _I64.unpack_from(metadata, body_at) if body_at else (0,)
        header = message.table(_HEADER) if kind == Content.RECORD_BATCH else None
        compressed = header is not None and header.at(_COMPRESSION) > 0
    except (struct.error, IndexError):
        raise BadRequest("the stream has a message that Arrow does not have") from None
    if version != _V5 or custom:
        raise BadRequest(
            "the stream has messages of another version, or with metadata of their own"
        )
    if compressed:  # nothing unfolds to more than was sent
        raise BadRequest("the record batches are compressed", "Send them as they are.")
    if kind not in (Content.SCHEMA, Content.RECORD_BATCH):
        raise BadRequest(
            "the stream has something else than a schema and record batches",
            "Send plain columns, without dictionaries.",
        )
    return Content(kind), body


class IpcFrames:
    """Takes bytes, gives messages."""

    def __init__(self) -> None:
        self._data = b""  # the beginning of a message, as far as that is looked at
        self._rest = Gathered()  # what has come after it
        self._at = 0  # where the next message begins
        self._wanted = _PREFIX.size  # this many bytes are worth a look
        self.ended = False  # by its mark, not just by the end of the bytes

    @property
    def missing(self) -> int:
        """How many bytes the message that has begun still needs, as far as that is known."""
        return max(self._wanted - len(self._data) - self._rest.size, 0)

    def feed(self, data: bytes) -> list[Frame]:
        """The messages that are whole now."""
        self._rest.add(data)
        if self.missing and not self.ended:
            return []
        self._data += self._rest.take()
        frames = []
        self._at = 0
        while not self.ended and len(self._data) - self._at >= self._wanted:
            frame = self._next(self._at)
            if frame is not None:
                frames.append(frame)
        self._data = self._data[self._at :]
        if self.ended and self._data:
            raise BadRequest("there are bytes after the end of the stream")
        return frames

    def _next(self, at: int) -> Frame | None:
        mark, size = _PREFIX.unpack_from(self._data, at)
        if mark != _MARK:
            raise BadRequest("the body is not an IPC stream of Arrow's, as it is written today")
        if not size:
            self.ended = True
            self._at += _PREFIX.size
            return None
        if size > METADATA_MAX:
            raise BodyTooLarge("the metadata of a message are too large")
        body_at = _PREFIX.size + size
        if len(self._data) - at < body_at:
            self._wanted = body_at
            return None
        content, body = described(self._data[at + _PREFIX.size : at + body_at])
        if not 0 <= body <= MESSAGE_MAX:
            raise BodyTooLarge(
                f"a record batch has at most {MESSAGE_MAX} bytes", "Send smaller batches."
            )
        self._wanted = body_at + body
        if len(self._data) - at < self._wanted:
            return None
        self._at += self._wanted
        frame = Frame(content, self._data[at : self._at])
        self._wanted = _PREFIX.size
        return frame
