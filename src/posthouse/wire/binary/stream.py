"""The bytes of a session as packets, [MS-MQQB] 3.1.5.1: where each ends, and what it is."""

import struct
from enum import Enum

from posthouse.model.errors import MalformedPacket, RemoteProtocolError, Truncated
from posthouse.model.message_classes import ORDER_ACK
from posthouse.wire.binary.internal import (
    CONNECTION_PARAMETERS_TYPE,
    ESTABLISH_CONNECTION_SIZE,
    ESTABLISH_CONNECTION_TYPE,
    HEADER_AT,
    SESSION_ACK_TYPE,
)
from posthouse.wire.binary.order_acks import ack_class
from posthouse.wire.block_buffer import Gathered
from posthouse.wire.packet.headers import (
    BASE_HEADER,
    PACKET_SIZE_MAX,
    SESSION_HEADER,
    SIGNATURE,
    VERSION_NUMBER,
)
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import HEAD, INTERNAL, SESSION

FRONT = struct.Struct("<BxHII")  # version, flags, signature and PacketSize of a BaseHeader
INTERNAL_FLAGS = struct.Struct("<18xH")
USER_FLAGS = struct.Struct("<60xI")
BASE_SIZE = BASE_HEADER.size
INTERNAL_SIZE_MAX = ESTABLISH_CONNECTION_SIZE
UNUSUAL = INTERNAL | SESSION
PACKET_TYPE = 0x000F


class PacketKind(Enum):
    """The packets of a session, [MS-MQQB] 2.1.1."""

    ESTABLISH_CONNECTION = "EstablishConnection"
    CONNECTION_PARAMETERS = "ConnectionParameters"
    SESSION_ACK = "SessionAck"
    ORDER_ACK = "OrderAck"
    FINAL_ACK = "FinalAck"
    USER_MESSAGE = "UserMessage"


INTERNAL_KINDS = {
    SESSION_ACK_TYPE: PacketKind.SESSION_ACK,
    ESTABLISH_CONNECTION_TYPE: PacketKind.ESTABLISH_CONNECTION,
    CONNECTION_PARAMETERS_TYPE: PacketKind.CONNECTION_PARAMETERS,
}
USER_MESSAGE = PacketKind.USER_MESSAGE


def packet_kind(packet: bytes) -> PacketKind:
    """Identifying Packet Type, [MS-MQQB] 3.1.5.1.1, and Verifying the Signature, 3.1.5.1.2.

    Reads no more than it needs to: the codec of each kind checks the rest. All classes of user
    messages are accepted, for reports and acknowledgments are among them.
    """
    try:
        version, base_flags, signature, _ = FRONT.unpack_from(packet)
        if version != VERSION_NUMBER or signature != SIGNATURE:
            raise MalformedPacket("not a message queuing packet")
        if base_flags & INTERNAL:
            return _internal_kind(base_flags, INTERNAL_FLAGS.unpack_from(packet)[0] & PACKET_TYPE)
        (user_flags,) = USER_FLAGS.unpack_from(packet)
    except struct.error:
        raise Truncated(f"packet of {len(packet)} bytes") from None
    code = ack_class(packet, base_flags, user_flags)
    if not code:
        return USER_MESSAGE
    return PacketKind.ORDER_ACK if code == ORDER_ACK else PacketKind.FINAL_ACK


def _internal_kind(base_flags: int, packet_type: int) -> PacketKind:
    kind = INTERNAL_KINDS.get(packet_type)
    if kind is None:
        raise MalformedPacket(f"internal packet of type {packet_type}")
    if kind is PacketKind.SESSION_ACK and not base_flags & SESSION:
        raise MalformedPacket("SessionAck without the flag SH")
    return kind


class PacketSplitter:
    """Cuts the bytes of a connection into packets, however they arrive.

    A BaseHeader is judged as soon as its 16 bytes are there. What is kept is never more than has
    arrived, whatever PacketSize promises; `held` states how much that is. No packet is looked into,
    except to find a SessionHeader after PacketSize.
    """

    __slots__ = ("_held", "_limit", "_wanted", "error")

    def __init__(self, packet_size_max: int = PACKET_SIZE_MAX) -> None:
        self.error: RemoteProtocolError | None = None
        self._held = Gathered()  # the beginning of a packet
        self._wanted = BASE_SIZE  # how much of it is needed for the next step
        self._limit = packet_size_max

    @property
    def held(self) -> int:
        """The size in bytes of what has come of a packet that is not complete."""
        return self._held.size

    @property
    def announced(self) -> int:
        """The size that such a packet announces, once its BaseHeader is there."""
        return self._wanted if self._held.size else 0

    def feed(self, data: bytes) -> list[bytes]:
        """The packets that these bytes complete, in their order.

        If the bytes after them do not begin a packet, `error` is set and no more packets follow:
        close the session when the packets before the error are done with.
        """
        packets: list[bytes] = []
        if self.error is None:
            try:
                at = self._fill(data, packets) if self._held.size else 0
                self._split(data, at, packets)
            except RemoteProtocolError as error:
                self.error = type(error)(*error.args)  # a trace would keep the bytes alive
                self._held = Gathered()
        return packets

    def _split(self, data: bytes, at: int, packets: list[bytes]) -> None:
        """Takes the packets that lie whole in these bytes, and keeps what is left."""
        unpack, append, limit = FRONT.unpack_from, packets.append, self._limit
        end = len(data)
        last = end - BASE_SIZE
        wanted = BASE_SIZE
        while at <= last:
            version, flags, signature, wanted = unpack(data, at)
            if (
                signature != SIGNATURE
                or version != VERSION_NUMBER
                or flags & UNUSUAL
                or not BASE_SIZE <= wanted <= limit
            ):
                wanted = packet_extent(data, at, end, limit)
            stop = at + wanted
            if stop > end:
                break
            append(data[at:stop])
            at = stop
            wanted = BASE_SIZE
        if at < end:
            self._held.add(memoryview(data)[at:])
            self._wanted = wanted

    def _fill(self, data: bytes, packets: list[bytes]) -> int:
        """Completes the packet that is held; returns how many of the bytes that took."""
        at, held = 0, self._held
        while held.size:
            taken = memoryview(data)[at : at + self._wanted - held.size]
            held.add(taken)
            at += len(taken)
            if held.size < self._wanted:
                break
            front = held.take()
            self._wanted = size = packet_extent(front, 0, len(front), self._limit)
            if size > len(front):
                held.add(front)
                continue
            packets.append(front[:size])  # all of it, mostly, and then not copied
            held.add(front[size:])
            self._wanted = BASE_SIZE
        return at


def packet_extent(
    data: bytes | bytearray, at: int, end: int, packet_size_max: int = PACKET_SIZE_MAX
) -> int:
    """The size of the packet at `at` with its SessionHeader, as far as the bytes up to `end` show
    it.

    A size beyond `end` means: ask again when this many are there. A BaseHeader must be there.
    """
    front: tuple[int, int, int, int] = FRONT.unpack_from(data, at)
    version, flags, signature, size = front
    if version != VERSION_NUMBER or signature != SIGNATURE:
        raise MalformedPacket("not a message queuing packet")
    limit = min(packet_size_max, INTERNAL_SIZE_MAX) if flags & INTERNAL else packet_size_max
    if not BASE_SIZE <= size <= limit:
        raise MalformedPacket(f"packet of {size} bytes, allowed are {BASE_SIZE} to {limit}")
    if not flags & SESSION or end - at < size or not _session_follows(data, at, size, flags):
        return size
    whole = size + SESSION_HEADER.size
    return size if end - at >= whole and _begins_packet(data, at + size) else whole


def _session_follows(data: bytes | bytearray, at: int, size: int, flags: int) -> bool:
    """Whether the SessionHeader of this packet is not counted by its PacketSize (decision 27)."""
    if flags & INTERNAL:
        return size == HEADER_AT
    return Packet(memoryview(data)[at : at + size]).session_follows


def _begins_packet(data: bytes | bytearray, at: int) -> bool:
    """Whether a peer has set the flag SH and then left the SessionHeader out.

    The flags of recoverable messages would have to spell a signature for this to be wrong.
    """
    version, _, signature, _ = FRONT.unpack_from(data, at)
    return bool(version == VERSION_NUMBER and signature == SIGNATURE)


assert USER_FLAGS.size == HEAD.size
