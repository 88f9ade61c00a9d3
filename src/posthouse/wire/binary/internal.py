"""The internal packets of a session: handshake and session acknowledgment, [MS-MQQB] 2.2.

Readers return what the packet holds, whether or not it is wise to follow it; only what breaks the
structure is refused, with `RemoteProtocolError`. Builders write reserved fields as zero.
"""

from typing import Annotated, NamedTuple, TypeVar

from posthouse.model.errors import MalformedPacket, Truncated
from posthouse.model.guids import NULL_GUID
from posthouse.wire.layout import Flags, Layout, bits, guid, u16, u32
from posthouse.wire.packet.headers import (
    BASE_HEADER,
    SESSION_HEADER,
    SIGNATURE,
    VERSION_NUMBER,
    BaseFlags,
    BaseHeader,
    SessionHeader,
)

# The values of PT, [MS-MQQB] 2.2.1.
SESSION_ACK_TYPE = 1
ESTABLISH_CONNECTION_TYPE = 2
CONNECTION_PARAMETERS_TYPE = 3

INTERNAL_FLAGS = BaseFlags.of(priority=3, internal=1)  # as the frames of [MS-MQQB] 4.1 have it
SESSION_ACK_FLAGS = INTERNAL_FLAGS.replace(session_header=1)
PADDING = b"\x5a" * 512  # [MS-MQQB] 2.2.3.1
fill = Annotated[bytes, "512s"]


class InternalFlags(Flags):
    """[MS-MQQB] 2.2.1: PT and CS."""

    packet_type = bits(0, 4)
    refused = bits(4)


class InternalHeader(NamedTuple):
    """[MS-MQQB] 2.2.1: what kind of internal packet this is."""

    reserved: u16
    flags: Annotated[InternalFlags, "H"]


INTERNAL_HEADER = Layout(InternalHeader)
INTERNAL_AT = BASE_HEADER.size
HEADER_AT = INTERNAL_AT + INTERNAL_HEADER.size
assert HEADER_AT == 20


class OperatingSystem(Flags):
    """[MS-MQQB] 2.2.3.1: RE, SE, OS, QS.

    RE is always 0x10 when sent and never looked at: there are peers that swap the two bytes.
    """

    fixed = bits(0, 8)
    session = bits(8)  # 1 if no ping went ahead of this session
    server = bits(9)
    quality_of_service = bits(10)


class EstablishConnectionHeader(NamedTuple):
    """[MS-MQQB] 2.2.3.1: who calls whom, and when."""

    client_guid: guid
    server_guid: guid
    time_stamp: u32  # milliseconds the initiator's system has been up
    operating_system: Annotated[OperatingSystem, "H"]
    reserved: u16 = 0
    padding: fill = PADDING


ESTABLISH_CONNECTION_HEADER = Layout(EstablishConnectionHeader)
ESTABLISH_CONNECTION_SIZE = HEADER_AT + ESTABLISH_CONNECTION_HEADER.size
assert ESTABLISH_CONNECTION_SIZE == 572


class ConnectionParametersHeader(NamedTuple):
    """[MS-MQQB] 2.2.2.1: times in milliseconds, and how many packets may be unacknowledged."""

    recoverable_ack_timeout: u32
    ack_timeout: u32
    reserved: u16 = 0
    window_size: u16 = 64


CONNECTION_PARAMETERS_HEADER = Layout(ConnectionParametersHeader)
CONNECTION_PARAMETERS_SIZE = HEADER_AT + CONNECTION_PARAMETERS_HEADER.size
assert CONNECTION_PARAMETERS_SIZE == 32

SESSION_ACK_SIZE = HEADER_AT + SESSION_HEADER.size
assert SESSION_ACK_SIZE == 36


class EstablishConnection(NamedTuple):
    """[MS-MQQB] 2.2.3: the first packet of each side."""

    base: BaseHeader
    internal: InternalHeader
    header: EstablishConnectionHeader

    @property
    def refused(self) -> bool:
        """CS: the acceptor does not want this session."""
        return bool(self.internal.flags.refused)

    def pack(self) -> bytes:
        """The 572 bytes of the packet."""
        return _pack(self.base, self.internal, ESTABLISH_CONNECTION_HEADER.pack(self.header))


class ConnectionParameters(NamedTuple):
    """[MS-MQQB] 2.2.2: the second packet of each side."""

    base: BaseHeader
    internal: InternalHeader
    header: ConnectionParametersHeader

    @property
    def refused(self) -> bool:
        """CS: the sender ends the handshake here."""
        return bool(self.internal.flags.refused)

    def pack(self) -> bytes:
        """The 32 bytes of the packet."""
        return _pack(self.base, self.internal, CONNECTION_PARAMETERS_HEADER.pack(self.header))


class SessionAck(NamedTuple):
    """[MS-MQQB] 2.2.6: a SessionHeader that travels alone."""

    base: BaseHeader
    internal: InternalHeader
    header: SessionHeader

    def pack(self) -> bytes:
        """The 36 bytes of the packet; PacketSize counts them all (decision 27)."""
        return _pack(self.base, self.internal, SESSION_HEADER.pack(self.header))


def establish_connection(
    client_guid: bytes,
    server_guid: bytes = NULL_GUID,
    *,
    time_stamp: int,
    pinged: bool = False,
    server: bool = True,
    refused: bool = False,
) -> bytes:
    """An EstablishConnection packet, [MS-MQQB] 2.2.3; its padding is that of a response."""
    system = OperatingSystem.of(fixed=0x10, session=not pinged, server=server)
    header = EstablishConnectionHeader(client_guid, server_guid, time_stamp, system)
    base = BaseHeader(flags=INTERNAL_FLAGS, packet_size=ESTABLISH_CONNECTION_SIZE)
    internal = _internal(ESTABLISH_CONNECTION_TYPE, refused)
    return EstablishConnection(base, internal, header).pack()


def establish_connection_response(
    request: EstablishConnection, server_guid: bytes, *, refused: bool = False
) -> bytes:
    """The answer to a request, [MS-MQQB] 3.1.5.3.1: what it said, with our own GUID."""
    asked = request.header
    return establish_connection(
        asked.client_guid,
        server_guid,
        time_stamp=asked.time_stamp,
        pinged=not asked.operating_system.session,
        server=bool(asked.operating_system.server),
        refused=refused,
    )


def connection_parameters(
    recoverable_ack_timeout_ms: int,
    ack_timeout_ms: int,
    window_size: int,
    *,
    refused: bool = False,
) -> bytes:
    """A ConnectionParameters packet, [MS-MQQB] 2.2.2."""
    header = ConnectionParametersHeader(recoverable_ack_timeout_ms, ack_timeout_ms, 0, window_size)
    base = BaseHeader(flags=INTERNAL_FLAGS, packet_size=CONNECTION_PARAMETERS_SIZE)
    internal = _internal(CONNECTION_PARAMETERS_TYPE, refused)
    return ConnectionParameters(base, internal, header).pack()


def session_ack(header: SessionHeader) -> bytes:
    """A SessionAck packet, [MS-MQQB] 2.2.6."""
    base = BaseHeader(flags=SESSION_ACK_FLAGS, packet_size=SESSION_ACK_SIZE)
    return SessionAck(base, _internal(SESSION_ACK_TYPE), header).pack()


def read_establish_connection(packet: bytes) -> EstablishConnection:
    """Reads an EstablishConnection packet, [MS-MQQB] 2.2.3."""
    base, internal = _read_heads(packet, ESTABLISH_CONNECTION_TYPE)
    header = _read_header(packet, base.packet_size, ESTABLISH_CONNECTION_HEADER)
    return EstablishConnection(base, internal, header)


def read_connection_parameters(packet: bytes) -> ConnectionParameters:
    """Reads a ConnectionParameters packet, [MS-MQQB] 2.2.2."""
    base, internal = _read_heads(packet, CONNECTION_PARAMETERS_TYPE)
    header = _read_header(packet, base.packet_size, CONNECTION_PARAMETERS_HEADER)
    return ConnectionParameters(base, internal, header)


def read_session_ack(packet: bytes) -> SessionAck:
    """Reads a SessionAck packet, [MS-MQQB] 2.2.6.

    Its SessionHeader may lie after what PacketSize counts (decision 27).
    """
    base, internal = _read_heads(packet, SESSION_ACK_TYPE)
    if not base.flags.session_header or internal.flags.refused:
        raise MalformedPacket("SessionAck without the flag SH, or with the flag CS")
    counted = base.packet_size if base.packet_size != HEADER_AT else SESSION_ACK_SIZE
    return SessionAck(base, internal, _read_header(packet, counted, SESSION_HEADER))


def _internal(packet_type: int, refused: bool = False) -> InternalHeader:
    return InternalHeader(0, InternalFlags.of(packet_type=packet_type, refused=refused))


def _pack(base: BaseHeader, internal: InternalHeader, header: bytes) -> bytes:
    return BASE_HEADER.pack(base) + INTERNAL_HEADER.pack(internal) + header


def _read_heads(packet: bytes, packet_type: int) -> tuple[BaseHeader, InternalHeader]:
    base = BASE_HEADER.unpack(packet)
    if base.version_number != VERSION_NUMBER or base.signature != SIGNATURE:
        raise MalformedPacket("not a message queuing packet")
    internal = INTERNAL_HEADER.unpack(packet, INTERNAL_AT)
    if not base.flags.internal or internal.flags.packet_type != packet_type:
        raise MalformedPacket(f"not an internal packet of type {packet_type}")
    return base, internal


Header = TypeVar("Header", bound=NamedTuple)


def _read_header(packet: bytes, packet_size: int, layout: Layout[Header]) -> Header:
    """What follows the InternalHeader, which must be all that follows it."""
    size = HEADER_AT + layout.size
    if packet_size != size:
        raise MalformedPacket(f"{layout.record.__name__} in a packet of {packet_size} bytes")
    if len(packet) != size:
        raise Truncated(f"PacketSize is {size}, but there are {len(packet)} bytes")
    return layout.unpack(packet, HEADER_AT)
