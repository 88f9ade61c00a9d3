"""Sessions of a capture as transcripts: one line for each message, in the order of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from posthouse.cli.decode.capture.rpc import RpcTalk
from posthouse.cli.decode.capture.streams import (
    BINARY,
    HTTP,
    NCP,
    RPC,
    Piece,
    Protocol,
    pieces_of,
    protocol_of,
)
from posthouse.cli.decode.ncp import is_ncp, view_ncp
from posthouse.cli.decode.packets import Header, View, view_packet, view_ping
from posthouse.cli.decode.pgm import UDP_PORTS, is_pgm, view_pgm
from posthouse.cli.decode.srmp import view_srmp
from posthouse.model.errors import MalformedPacket, QueueError, RemoteProtocolError, Truncated
from posthouse.wire.binary.ping import PING_SIGNATURE, PING_SIZE
from posthouse.wire.capture.connections import Connection, connections
from posthouse.wire.capture.files import read_frames
from posthouse.wire.capture.packets import TCP, UDP, Datagram, Endpoint, PacketReader, Span
from posthouse.wire.pgm.packets import IP_PROTOCOL

NAMES: Final = {
    "binary": "binary protocol [MS-MQQB]",
    "rpc": "remote procedure calls [MS-MQRR, MS-MQMR]",
    "http": "HTTP [MC-MQSRM]",
    "ncp": "NCP over TCP",
    "ncp udp": "NCP over UDP",
    "pgm": "PGM multicast [RFC 3208]",
    "ping": "ping [MS-MQQB 2.2.7]",
}
PING_PORT: Final = 3527
NCP_PORT: Final = 524
_XML: Final = ("multipart/related", "text/xml", "application/xml")


@dataclass
class Line:
    """One message of a session."""

    at_us: int
    from_client: bool
    view: View | None
    problem: str = ""
    lost: int = 0
    size: int = 0
    place: int = 0
    spans: tuple[Span, ...] = ()  # of a datagram
    data: bytes = b""


@dataclass
class Session:
    """A connection, or the datagrams between two machines, with the messages in it."""

    protocol: str
    client: Endpoint
    server: Endpoint
    at_us: int
    lines: list[Line] = field(default_factory=list)
    connection: Connection | None = None
    begun: bool = True
    frames: list[tuple[int, tuple[Span, ...]]] = field(default_factory=list)

    @property
    def end(self) -> str:
        """How the connection ended, as far as it was captured."""
        if self.connection is None:
            return ""
        ended = [way for way in self.connection.ways.values() if way.ended_us is not None]
        if any(way.was_reset for way in ended):
            return "reset"
        return "closed" if ended else "still open"


@dataclass
class CaptureFound:
    """Everything of a capture file."""

    sessions: list[Session]
    passed_over: dict[str, int]
    cut: str = ""  # why the file ends early


def read_capture(data: bytes) -> CaptureFound:
    """The sessions of a capture, in the order of their beginnings."""
    reader, cut = PacketReader(data), list[str]()
    tcp, others = list[Datagram](), list[Datagram]()
    for datagram in reader.datagrams(_frames(data, cut)):
        (tcp if datagram.protocol == TCP else others).append(datagram)
    sessions = [_session(data, one, reader) for one in connections(data, tcp)]
    found = [session for session in sessions if session is not None]
    found += _datagram_sessions(data, others, reader)
    found.sort(key=lambda session: session.at_us)
    return CaptureFound(found, dict(reader.passed_over), cut[0] if cut else "")


def _frames(data: bytes, cut: list[str]) -> Iterator[Any]:
    """The frames; a file that was cut off ends with a note."""
    try:
        yield from read_frames(data)
    except Truncated as error:
        cut.append(str(error))


# -- TCP


def _session(data: bytes, connection: Connection, reader: PacketReader) -> Session | None:
    protocol = protocol_of(data, connection)
    if isinstance(protocol, str):
        reader.passed_over[f"TCP connections: {protocol}"] += 1
        return None
    _turn(data, connection, protocol)
    session = Session(
        protocol.name,
        connection.client,
        connection.server,
        connection.at_us,
        connection=connection,
        begun=connection.has_begun,
        frames=connection.frames,
    )
    talk = RpcTalk()
    for piece in pieces_of(data, connection, protocol):
        session.lines.append(_line(piece, protocol, talk))
    return session


def _turn(data: bytes, connection: Connection, protocol: Protocol) -> None:
    """Where the beginning was not captured, the ports or the messages show who is who."""
    if connection.has_begun:
        return
    if connection.client.port == protocol.port:
        connection.turn()
    elif connection.server.port != protocol.port and protocol in (HTTP, NCP):
        first = next((run.data for run in connection.sent.runs(data)), b"")
        if first.startswith((b"HTTP/", b"tNcP")):
            connection.turn()


def _line(piece: Piece, protocol: Protocol, talk: RpcTalk) -> Line:
    line = Line(
        piece.at_us,
        piece.from_client,
        None,
        piece.problem,
        piece.lost,
        len(piece.data),
        piece.place,
        data=piece.data,
    )
    if not piece.problem:
        try:
            line.view = _view(piece.data, protocol, talk)
        except (RemoteProtocolError, QueueError) as error:
            line.problem = str(error)
    return line


def _view(data: bytes, protocol: Protocol, talk: RpcTalk) -> View:
    if protocol is BINARY:
        return view_packet(data)
    if protocol is RPC:
        return talk.view(data)
    return view_ncp(data) if protocol is NCP else _http_view(data)


def _http_view(data: bytes) -> View:
    """A message of SRMP, or any other of HTTP by its first line."""
    head, _, body = data.partition(b"\r\n\r\n")
    first = head.partition(b"\r\n")[0].decode("latin-1")
    kind = b"\r\ncontent-type:"
    content = head.lower().partition(kind)[2].partition(b"\r\n")[0].strip().decode("latin-1")
    chunked = b"\r\ntransfer-encoding:" in head.lower()
    if data.startswith(b"POST ") and content.startswith(_XML) and not chunked:
        return view_srmp(data)
    if data.startswith(b"HTTP/"):
        fields = {"status_line": first, "body": body}
        return View("HTTP response", "RFC 9112", [Header("RFC 9112 4", "Response", fields)])
    fields = {"request_line": first, "body": body}
    return View("HTTP request", "RFC 9112", [Header("RFC 9112 3", "Request", fields)])


# -- datagrams


def _datagram_sessions(
    data: bytes, datagrams: list[Datagram], reader: PacketReader
) -> list[Session]:
    sessions: dict[tuple[str, Endpoint, Endpoint], Session] = {}
    for datagram in datagrams:
        octets = datagram.payload(data)
        source, target, octets, offset = _ports(datagram, octets)
        protocol = _datagram_protocol(datagram, source, target, octets)
        if not protocol:
            reader.passed_over["datagrams of other protocols"] += 1
            continue
        key = (protocol, source, target) if source <= target else (protocol, target, source)
        from_client = source.port not in (PING_PORT, NCP_PORT)
        session = sessions.get(key)
        if session is None:
            ends = (source, target) if from_client else (target, source)
            session = Session(protocol, *ends, datagram.at_us)
            sessions[key] = session
        session.frames.append((datagram.at_us, datagram.frames))
        line = _datagram_line(datagram, protocol, octets, source == session.client, offset)
        session.lines.append(line)
    return list(sessions.values())


def _ports(datagram: Datagram, octets: bytes) -> tuple[Endpoint, Endpoint, bytes, int]:
    if datagram.protocol != UDP or len(octets) < 8:
        return Endpoint(datagram.source), Endpoint(datagram.target), octets, 0
    source, target = (int.from_bytes(octets[at : at + 2], "big") for at in (0, 2))
    return (
        Endpoint(datagram.source, source),
        Endpoint(datagram.target, target),
        octets[8:],
        8,
    )


def _datagram_protocol(
    datagram: Datagram, source: Endpoint, target: Endpoint, octets: bytes
) -> str:
    ports = {source.port, target.port}
    if datagram.protocol == IP_PROTOCOL or (ports & UDP_PORTS and is_pgm(octets)):
        return "pgm"
    if datagram.protocol != UDP:
        return ""
    if octets[2:4] == PING_SIGNATURE.to_bytes(2, "little") and len(octets) == PING_SIZE:
        return "ping"
    return "ncp udp" if NCP_PORT in ports and is_ncp(octets) else ""


def _datagram_line(
    datagram: Datagram, protocol: str, octets: bytes, from_client: bool, offset: int
) -> Line:
    views = {"pgm": view_pgm, "ping": view_ping, "ncp udp": view_ncp}
    line = Line(
        datagram.at_us,
        from_client,
        None,
        size=len(octets),
        place=offset,
        spans=datagram.spans,
        data=octets,
    )
    try:
        line.view = views[protocol](octets)
    except (RemoteProtocolError, QueueError, MalformedPacket) as error:
        line.problem = str(error)
    return line
