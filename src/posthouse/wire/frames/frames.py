"""Frames of client sessions, for both ends of them (docs/ways.md).

A frame is a length (u32, of what follows it), a kind (u8), a request number (u32) and a payload,
all little-endian. The client numbers its requests as it likes, zero excepted; each gets one answer
with the same number, and an answer may overtake another. An ERROR with request number 0 is the last
frame of a session: its receiver closes.

Payloads of everyday requests are packed with `struct`; all others are MessagePack arrays of the
structures in `frames/payloads.py`, one for each kind.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import msgspec

from posthouse.model.errors import MalformedPacket, QueueError, RemoteProtocolError, Truncated
from posthouse.wire.frames.large_frames import LargeFrame, LargeSend
from posthouse.wire.frames.payloads import (
    Abort,
    Begin,
    Begun,
    Call,
    Called,
    Cancel,
    Close,
    CloseCursor,
    Commit,
    Confirm,
    Count,
    Counted,
    CursorOpened,
    Done,
    Enlist,
    Enlisted,
    Hello,
    Lookup,
    Move,
    Open,
    OpenCursor,
    Opened,
    Outcome,
    Outcomes,
    Payload,
    Ping,
    Prepare,
    Purge,
    Refusal,
    Voted,
    Welcome,
)
from posthouse.wire.packet.headers import PACKET_SIZE_MAX

UPGRADE: Final = "posthouse/1"  # the protocol that `GET /api/v1/session` upgrades to
FRAME_SIZE_MAX: Final = 64 << 20
ITEMS_MAX: Final = 1 << 20  # of a request: each costs several times its bytes once it is unpacked
SESSION_NAME_SIZE: Final = 16
TEXT_MAX: Final = 8192  # of a cause or a remedy

# Requests.
HELLO: Final = 0x01
OPEN: Final = 0x02
CLOSE: Final = 0x03
OPEN_CURSOR: Final = 0x04
CLOSE_CURSOR: Final = 0x05
BEGIN: Final = 0x06
COMMIT: Final = 0x07
ABORT: Final = 0x08
PREPARE: Final = 0x09
LOOKUP: Final = 0x0A
MOVE: Final = 0x0B
PURGE: Final = 0x0C
COUNT: Final = 0x0D
CANCEL: Final = 0x0E
CALL: Final = 0x0F
PING: Final = 0x10
ENLIST: Final = 0x11
CONFIRM: Final = 0x12
OUTCOMES: Final = 0x13
SEND: Final = 0x20
RECEIVE: Final = 0x21
PEEK: Final = 0x22
END: Final = 0x23

# Answers.
WELCOME: Final = 0x81
OPENED: Final = 0x82
CURSOR: Final = 0x84
BEGUN: Final = 0x86
VOTED: Final = 0x89
COUNTED: Final = 0x8D
CALLED: Final = 0x8F
DONE: Final = 0x90
ENLISTED: Final = 0x91
OUTCOME: Final = 0x93
SENT: Final = 0xA0
MESSAGES: Final = 0xA1
ENDED: Final = 0xA3
ERROR: Final = 0xFF

# Flags of RECEIVE and PEEK.
READ_NEXT: Final = 0x01  # PEEK through a cursor: the message after its position
READ_AT_ONCE: Final = 0x02  # RECEIVE: the message is removed before it is delivered, no END follows
_READ_FLAGS: Final = READ_NEXT | READ_AT_ONCE
READ_COUNT_MAX: Final = 2_000  # messages of one answer, which one turn of the server reads

# Marks of a delivered message.
MARK_IN_DOUBT: Final = 0x01  # decision 42: somebody had it whose session broke before its end

_HEADER = struct.Struct("<IBI")
HEADER_SIZE: Final = _HEADER.size
_REST = HEADER_SIZE - 4  # of the header, counted by the length
_LENGTH = struct.Struct("<I")
_pack_header = _HEADER.pack
_frame = tuple.__new__
LARGE: Final = 1 << 16  # frames from this size on are copied as seldom as possible
_PIECE: Final = 1 << 12  # smaller ones are kept together, so that none costs more than its bytes


# -- requests that are packed


class Send(NamedTuple):
    """SEND: packets for an open queue, all of them or none."""

    queue: int
    transaction: int
    request_id: int
    packets: list[bytes]
    size: int  # bytes of the whole payload


class Read(NamedTuple):
    """RECEIVE or PEEK: up to `count_max` messages, waiting for the first; -1 waits for ever."""

    queue: int
    transaction: int
    cursor: int
    timeout_ms: int
    count_max: int
    flags: int


class End(NamedTuple):
    """END: what becomes of received messages: ended with a class, or given back."""

    queue: int
    request_id: int
    positive: bool
    message_class: int
    lookup_ids: tuple[int, ...]


class Delivered(NamedTuple):
    """One message of a MESSAGES frame; `sender` is the SID the queue manager verified."""

    lookup_id: int
    arrived: int  # UTC seconds
    last_move: int  # number of the queue it was moved from
    message_class: int
    aborts: int
    moves: int
    priority: int
    flags: int  # of the row: engine/ledger/records.py
    marks: int
    sender: bytes
    packet: bytes


# -- packed payloads

_SEND = struct.Struct("<IIQI")
_ONE_SEND = struct.Struct("<IIQII")  # with the size of its one packet
_ONE_SEND_SIZE = _ONE_SEND.size
_LARGE_SEND_AT = HEADER_SIZE + _ONE_SEND_SIZE
_ONE_SENT = struct.Struct("<II")
_READ = struct.Struct("<IIIiIB")
_END = struct.Struct("<IQBHI")
MESSAGE_HEADER: Final = struct.Struct("<QIIHHHBBBxHI")
MESSAGE_HEADER_SIZE: Final = MESSAGE_HEADER.size
assert MESSAGE_HEADER_SIZE == 32


def _numbers(payload: bytes, at: int, count: int, code: str, size: int) -> tuple[int, ...]:
    if count > ITEMS_MAX:
        raise MalformedPacket(f"a frame of {count} items; allowed are {ITEMS_MAX}")
    if at + count * size > len(payload):
        raise Truncated(f"a frame announces {count} numbers and has fewer")
    return struct.unpack_from(f"<{count}{code}", payload, at)


def decode_send(payload: bytes) -> Send:
    """The payload of a SEND."""
    if type(payload) is LargeSend:
        return _large_send(payload)
    length = len(payload)
    if length >= _ONE_SEND_SIZE:
        queue, transaction, request_id, count, size = _ONE_SEND.unpack_from(payload)
        if count == 1 and size == length - _ONE_SEND_SIZE:
            packets = [payload[_ONE_SEND_SIZE:]]
            return _frame(Send, (queue, transaction, request_id, packets, length))
    if length < _SEND.size:
        raise Truncated("SEND cut short")
    queue, transaction, request_id, count = _SEND.unpack_from(payload)
    at = _SEND.size + 4 * count
    sizes = _numbers(payload, _SEND.size, count, "I", 4)
    if at + sum(sizes) != length:
        raise MalformedPacket("the packets of a SEND do not have the announced length")
    ends = accumulate(sizes, initial=at)
    packets = [payload[begin:end] for begin, end in pairwise(ends)]
    return _frame(Send, (queue, transaction, request_id, packets, length))


def _large_send(payload: LargeSend) -> Send:
    queue, transaction, request_id, count, size = _ONE_SEND.unpack(payload)
    assert count == 1
    if size != len(payload.packet):
        raise MalformedPacket("the packets of a SEND do not have the announced length")
    return _frame(Send, (queue, transaction, request_id, [payload.packet], len(payload) + size))


def decode_read(payload: bytes) -> Read:
    """The payload of a RECEIVE or PEEK."""
    if len(payload) != _READ.size:
        raise MalformedPacket("a read has another size")
    read = Read._make(_READ.unpack(payload))
    if read.timeout_ms < -1 or read.flags & ~_READ_FLAGS or not read.count_max:
        raise MalformedPacket("a read with a timeout, count or flags that do not exist")
    return read


def decode_end(payload: bytes) -> End:
    """The payload of an END."""
    if len(payload) < _END.size:
        raise Truncated("END cut short")
    queue, request_id, positive, message_class, count = _END.unpack_from(payload)
    if positive > 1 or len(payload) != _END.size + 8 * count:
        raise MalformedPacket("an END does not have the announced length")
    lookup_ids = _numbers(payload, _END.size, count, "Q", 8)
    return End(queue, request_id, bool(positive), message_class, lookup_ids)


def encode_send(
    request: int, queue: int, transaction: int, request_id: int, packets: Sequence[bytes]
) -> bytes:
    """A whole SEND frame."""
    return b"".join(encode_send_parts(request, queue, transaction, request_id, packets))


def encode_send_parts(
    request: int, queue: int, transaction: int, request_id: int, packets: Sequence[bytes]
) -> list[bytes]:
    """A SEND frame in parts, so that large packets need not be copied."""
    count = len(packets)
    sizes = list(map(len, packets))
    size = _REST + _SEND.size + 4 * count + sum(sizes)
    head = _pack_header(size, SEND, request) + _SEND.pack(queue, transaction, request_id, count)
    return [head + struct.pack(f"<{count}I", *sizes), *packets]


def encode_read(kind: int, request: int, read: Read) -> bytes:
    """A whole RECEIVE or PEEK frame."""
    return _pack_header(_REST + _READ.size, kind, request) + _READ.pack(*read)


def encode_end(
    request: int,
    queue: int,
    request_id: int,
    lookup_ids: Sequence[int],
    *,
    positive: bool,
    message_class: int = 0,
) -> bytes:
    """A whole END frame."""
    count = len(lookup_ids)
    return (
        _pack_header(_REST + _END.size + 8 * count, END, request)
        + _END.pack(queue, request_id, positive, message_class, count)
        + struct.pack(f"<{count}Q", *lookup_ids)
    )


def encode_sent(request: int, ordinals: Sequence[int]) -> bytes:
    """A whole SENT frame: the ordinals of the messages' identifiers."""
    count = len(ordinals)
    return _pack_header(_REST + 4 + 4 * count, SENT, request) + struct.pack(
        f"<{count + 1}I", count, *ordinals
    )


def decode_sent(payload: bytes) -> tuple[int, ...]:
    """The ordinals of a SENT."""
    if len(payload) == _ONE_SENT.size:
        count, ordinal = _ONE_SENT.unpack(payload)
        if count == 1:
            return (ordinal,)
    count = _count(payload)
    if len(payload) != 4 + 4 * count:
        raise MalformedPacket("a SENT does not have the announced length")
    return _numbers(payload, 4, count, "I", 4)


def encode_ended(request: int, count: int) -> bytes:
    """A whole ENDED frame: this many messages."""
    return _pack_header(_REST + 4, ENDED, request) + _LENGTH.pack(count)


def decode_ended(payload: bytes) -> int:
    """The count of an ENDED."""
    if len(payload) != 4:
        raise MalformedPacket("an ENDED has another size")
    return _count(payload)


def messages_front(request: int, size: int, count: int) -> bytes:
    """How a MESSAGES frame begins, of this many messages; `size` bytes follow their headers."""
    size += _REST + 4 + MESSAGE_HEADER_SIZE * count
    return _pack_header(size, MESSAGES, request) + _LENGTH.pack(count)


def encode_messages(request: int, messages: Sequence[Delivered]) -> bytes:
    """A whole MESSAGES frame: headers first, then senders and packets."""
    pack, heads, tails, size = MESSAGE_HEADER.pack, [], [], 0
    for message in messages:
        sender, packet = message[9], message[10]
        heads.append(pack(*message[:9], len(sender), len(packet)))
        if sender:
            tails.append(sender)
        tails.append(packet)
        size += len(sender) + len(packet)
    return b"".join((messages_front(request, size, len(heads)), *heads, *tails))


def decode_messages(payload: bytes) -> list[Delivered]:
    """The messages of a MESSAGES frame; packets of one in a buffer of its own stay there."""
    count = _count(payload)
    at = 4 + MESSAGE_HEADER_SIZE * count
    if at > len(payload):
        raise Truncated("a MESSAGES frame has fewer messages than it announces")
    messages, new = [], tuple.__new__
    for values in MESSAGE_HEADER.iter_unpack(memoryview(payload)[4:at]):
        packet_at = at + values[9]
        end = packet_at + values[10]
        if end > len(payload):
            raise Truncated("a message is longer than its frame")
        sender, packet = payload[at:packet_at], payload[packet_at:end]
        messages.append(new(Delivered, values[:9] + (sender, packet)))  # noqa: RUF005 - quicker
        at = end
    if at != len(payload):
        raise MalformedPacket("a MESSAGES frame is longer than its messages")
    if isinstance(payload, memoryview):
        return [each._replace(sender=bytes(each.sender)) for each in messages]
    return messages


def _count(payload: bytes) -> int:
    if len(payload) < 4:
        raise Truncated("an answer without its count")
    count: int = _LENGTH.unpack_from(payload)[0]
    return count


# -- the other payloads

_STRUCTURES: Final[dict[int, type[Payload]]] = {
    HELLO: Hello,
    OPEN: Open,
    CLOSE: Close,
    OPEN_CURSOR: OpenCursor,
    CLOSE_CURSOR: CloseCursor,
    BEGIN: Begin,
    COMMIT: Commit,
    ABORT: Abort,
    PREPARE: Prepare,
    LOOKUP: Lookup,
    MOVE: Move,
    PURGE: Purge,
    COUNT: Count,
    CANCEL: Cancel,
    CALL: Call,
    PING: Ping,
    ENLIST: Enlist,
    CONFIRM: Confirm,
    OUTCOMES: Outcomes,
    WELCOME: Welcome,
    OPENED: Opened,
    CURSOR: CursorOpened,
    BEGUN: Begun,
    VOTED: Voted,
    COUNTED: Counted,
    CALLED: Called,
    DONE: Done,
    ENLISTED: Enlisted,
    OUTCOME: Outcome,
    ERROR: Refusal,
}
_KINDS: Final = {structure: kind for kind, structure in _STRUCTURES.items()}
_DECODERS: Final = {
    kind: msgspec.msgpack.Decoder(structure) for kind, structure in _STRUCTURES.items()
}
_encode = msgspec.msgpack.Encoder().encode


def encode(request: int, payload: Payload) -> bytes:
    """A whole frame whose payload is a structure; its kind follows from that."""
    data = _encode(payload)
    return _pack_header(_REST + len(data), _KINDS[type(payload)], request) + data


def decode_payload(kind: int, payload: bytes) -> Payload:
    """A payload that is a structure."""
    try:
        return _DECODERS[kind].decode(payload)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise MalformedPacket(f"the payload of frame kind 0x{kind:02X}: {error}") from None


UNPACKED: Final[dict[int, Callable[[bytes], object]]] = {
    SEND: decode_send,
    RECEIVE: decode_read,
    PEEK: decode_read,
    END: decode_end,
    SENT: decode_sent,
    MESSAGES: decode_messages,
    ENDED: decode_ended,
}
REQUEST_KINDS: Final = frozenset(k for k in (*_STRUCTURES, *UNPACKED) if k < 0x80)
ANSWER_KINDS: Final = frozenset(k for k in (*_STRUCTURES, *UNPACKED) if k >= 0x80)


def decode(kind: int, payload: bytes) -> object:
    """The payload of any kind; `RemoteProtocolError` for anything that is none."""
    unpack = UNPACKED.get(kind)
    if unpack is not None:
        return unpack(payload)
    if kind not in _DECODERS:
        raise MalformedPacket(f"there is no frame kind 0x{kind:02X}")
    return decode_payload(kind, payload)


def refusal(error: QueueError) -> Refusal:
    """The payload of an ERROR frame; names in it may be any text, half characters included."""
    return Refusal(error.code, _text(error.cause), _text(error.remedy))


def _text(text: str) -> str:
    return text[:TEXT_MAX].encode("utf-8", "replace").decode()


# -- splitting


class Frame(NamedTuple):
    """A frame as it came; its payload is not looked at yet."""

    kind: int
    request: int
    payload: bytes


class Splitter:
    """Cuts a stream into frames, however it arrives. Memory grows as bytes come, never ahead.

    Frames in front of a broken one are good: they come out first, then `broken` states why nothing
    follows.
    """

    __slots__ = ("_chunks", "_large", "_need", "_takes", "broken", "pending", "size_max")

    def __init__(self, size_max: int = FRAME_SIZE_MAX, *, takes: int = MESSAGES) -> None:
        self.size_max = size_max
        self.broken: RemoteProtocolError | None = None
        self._takes = takes  # the kind of large frames that are read into buffers: also SEND
        self._chunks: list[bytes | bytearray] = []  # of a frame that is not whole yet
        self._large: LargeFrame | None = None  # one that is read into its own buffer
        self.pending = 0  # bytes in them
        self._need = HEADER_SIZE

    @property
    def announced(self) -> int:
        """The size that such a frame announces."""
        return max(self._need, self.pending) if self.pending else 0

    def room(self) -> memoryview | None:
        """Where to read the rest of a large frame; what is read there is fed as any other bytes.

        Each of its bytes is copied once: by whom the body of its message is taken, or where its
        packet is stamped. Small messages are cut out of the frame as usual, which costs less than
        a view of each. The frame takes all its memory at once, so reserve that before.
        """
        if self._large is None:
            begun = self._chunks[0] if self._chunks and self._need > LARGE else b""
            if len(begun) < _LARGE_SEND_AT or begun[4] != self._takes:
                return None
            if self._takes == SEND:
                count = _SEND.unpack_from(begun, HEADER_SIZE)[3]
                if count != 1 or self._need > _LARGE_SEND_AT + PACKET_SIZE_MAX:
                    return None
            elif self._need < LARGE * _LENGTH.unpack_from(begun, HEADER_SIZE)[0]:
                return None
            self._large, self._chunks = LargeFrame(self._need, self._chunks), []
        return self._large.room

    def leave_room(self) -> None:
        """Keeps no memory for what has not come of a large frame."""
        if self._large is not None:
            self._chunks, self._large = [self._large.filled_part()], None

    def feed(self, data: bytes | memoryview) -> list[Frame]:
        """The frames that these bytes complete; a large view may change afterwards."""
        frames: list[Frame] = []
        if self.broken is not None:
            return frames
        if self._large is not None or self._chunks:
            data = self._completed(data, frames)
            if self.pending:
                return frames
        at, end = 0, len(data)
        self._need = HEADER_SIZE
        while end - at >= HEADER_SIZE:
            length, kind, request = _HEADER.unpack_from(data, at)
            if length < _REST or length + 4 > self.size_max:
                self.broken = MalformedPacket(
                    f"a frame of {length} bytes; allowed are {_REST} to {self.size_max - 4}"
                )
                return frames
            stop = at + 4 + length
            if stop > end:
                self._need = stop - at
                break
            whole = data[at + HEADER_SIZE : stop]
            frames.append(_frame(Frame, (kind, request, whole if end < LARGE else bytes(whole))))
            at = stop
        if at < end:
            self._hold(bytes(data[at:]))
        return frames

    def _completed(self, data: bytes | memoryview, frames: list[Frame]) -> bytes:
        """Adds bytes to the frame that is not whole yet; returns those that are still to be cut.

        With `pending` bytes left it is not whole now either. A large one is put among the frames.
        """
        if self._large is not None:
            large = self._large
            rest, self.pending = large.take(data), large.filled
            if self.pending < self._need:
                return b""
            view = large.whole()
            _, kind, request = _HEADER.unpack_from(view)
            payload: bytes | memoryview = view[HEADER_SIZE:]
            if kind == SEND:
                payload = LargeSend(bytes(view[HEADER_SIZE:_LARGE_SEND_AT]), view[_LARGE_SEND_AT:])
            frames.append(_frame(Frame, (kind, request, payload)))
            self._large, self.pending = None, 0
            return rest
        self._hold(bytes(data))
        if self.pending < self._need:
            return b""
        if self._need > LARGE:
            frame, data = self._assembled()
            frames.append(frame)
        else:
            data = b"".join(self._chunks)
        self._chunks, self.pending = [], 0
        return data

    def _hold(self, data: bytes) -> None:
        """Keeps bytes for later: large pieces as they are, small ones together."""
        last = self._chunks[-1] if self._chunks else b""
        if len(data) >= _PIECE:
            self._chunks.append(data)
        elif isinstance(last, bytearray):
            last += data
        else:
            self._chunks.append(bytearray(data))
        self.pending += len(data)

    def _assembled(self) -> tuple[Frame, bytes]:
        """A large frame that is whole now, with its payload copied once, and what is after it."""
        chunks = self._chunks
        if len(chunks[0]) < _LARGE_SEND_AT:
            chunks = [b"".join(chunks)]
        last = chunks[-1]
        end = len(last) - (self.pending - self._need)
        views = [memoryview(chunk) for chunk in chunks]
        views[-1] = views[-1][:end]
        _, kind, request = _HEADER.unpack_from(chunks[0])
        if kind == SEND and _SEND.unpack_from(chunks[0], HEADER_SIZE)[3] == 1:
            fields = bytes(views[0][HEADER_SIZE:_LARGE_SEND_AT])
            views[0] = views[0][_LARGE_SEND_AT:]
            payload: bytes = LargeSend(fields, b"".join(views))
        else:
            views[0] = views[0][HEADER_SIZE:]
            payload = b"".join(views)
        return Frame(kind, request, payload), bytes(last[end:])
