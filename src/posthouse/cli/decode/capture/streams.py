"""Streams of a TCP connection cut into the messages of its protocol.

Nothing is looked into here but what states where a message ends. After a gap the next message is
looked for; what lies between, and what breaks its protocol, is one piece with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from posthouse.cli.decode.ncp import ncp_extent
from posthouse.model.errors import MalformedPacket, RemoteProtocolError
from posthouse.rpc import pdu
from posthouse.wire.binary.stream import BASE_SIZE, packet_extent
from posthouse.wire.capture.connections import Connection, Direction, Run
from posthouse.wire.ncp.framing import REPLY_MAGIC, REQUEST_MAGIC
from posthouse.wire.packet.headers import SIGNATURE

_SIGNATURE: Final = SIGNATURE.to_bytes(4, "little")
_METHODS: Final = re.compile(rb"(?:POST|GET|PUT|DELETE|PATCH|HEAD|OPTIONS|CONNECT) ")
_FIELD: Final = re.compile(rb"\r\n(content-length|transfer-encoding):[ \t]*([^\r\n]*)", re.I)
_LINE_MAX: Final = 4096
HEAD_MAX: Final = 1 << 16
_TLS: Final = (b"\x16\x03\x00", b"\x16\x03\x01", b"\x16\x03\x02", b"\x16\x03\x03")


class Piece(NamedTuple):
    """A message of one direction, or bytes that are none and why."""

    at_us: int
    from_client: bool
    place: int  # of its first byte in the stream
    data: bytes
    problem: str = ""
    lost: int = 0  # bytes in front of it that were not captured


Extent = Callable[[bytes, int, bool], int]
"""The size of the message at a place; 0: it is not all there, and ends the run."""


class Protocol(NamedTuple):
    """A protocol over TCP: how it is called, how it begins, where a message ends."""

    name: str
    port: int
    begins: Callable[[bytes], bool]
    extent: Extent
    find: Callable[[bytes, int], int]  # the next message after a gap; -1: there is none


# -- where messages end


def _binary_extent(data: bytes, at: int, at_end: bool) -> int:
    if len(data) - at < BASE_SIZE:
        return 0
    return packet_extent(data, at, len(data))


def _find_binary(data: bytes, at: int) -> int:
    while (found := data.find(_SIGNATURE, at + 4)) >= 0:
        begins = found - 4
        try:
            if len(data) - begins >= BASE_SIZE and packet_extent(data, begins, len(data)):
                return begins
        except RemoteProtocolError:
            pass
        at = begins + 1
    return -1


def _rpc_extent(data: bytes, at: int, at_end: bool) -> int:
    found = pdu.split(memoryview(data)[at : at + pdu.HEADER_SIZE], 0)
    if isinstance(found, int) and len(data) - at < pdu.HEADER_SIZE:
        return 0
    return pdu.read_header(data, at).frag_length


def _find_rpc(data: bytes, at: int) -> int:
    """A PDU that is followed by another one, or by nothing."""
    for begins in range(at, min(len(data) - pdu.HEADER_SIZE, at + (1 << 16))):
        if data[begins] == pdu.VERSION and _is_rpc(data[begins : begins + pdu.HEADER_SIZE]):
            end = begins + pdu.read_header(data, begins).frag_length
            if end == len(data) or _is_rpc(data[end : end + pdu.HEADER_SIZE]):
                return begins
    return -1


def _is_rpc(front: bytes) -> bool:
    try:
        return len(front) >= pdu.HEADER_SIZE and bool(pdu.read_header(front))
    except RemoteProtocolError:
        return False


def _http_extent(data: bytes, at: int, at_end: bool) -> int:
    if not _is_http(data[at : at + 64]):  # another protocol follows on the connection
        raise RemoteProtocolError("it is not of this protocol")
    end = data.find(b"\r\n\r\n", at, at + HEAD_MAX)
    if end < 0:
        if len(data) - at > HEAD_MAX:
            raise MalformedPacket("the head of an HTTP message has no end")
        return 0
    head, body = data[at : end + 2], end + 4
    fields = {name.lower(): value.strip().lower() for name, value in _FIELD.findall(head)}
    if fields.get(b"transfer-encoding", b"identity") != b"identity":
        return _chunks_end(data, body) - at if _chunks_end(data, body) else 0
    length = fields.get(b"content-length")
    if length is None:
        is_whole = not head.startswith(b"HTTP/") or head[9:12] in (b"100", b"204", b"304")
        return (body if is_whole else len(data)) - at
    if not (length.isdigit() and len(length) < 12):
        raise MalformedPacket("an HTTP message without a good Content-Length")
    return body + int(length) - at


def _chunks_end(data: bytes, at: int) -> int:
    """Where a body in chunks ends; 0: it is not all there."""
    while True:
        line = data.find(b"\r\n", at, at + _LINE_MAX)
        if line < 0:
            if len(data) - at >= _LINE_MAX:
                raise MalformedPacket("a chunk without a size")
            return 0
        size = data[at:line].partition(b";")[0].strip()
        if not re.fullmatch(rb"[0-9a-fA-F]{1,8}", size):
            raise MalformedPacket("a chunk without a size")
        if int(size, 16) == 0:
            end = data.find(b"\r\n\r\n", line, line + HEAD_MAX)
            return end + 4 if end >= 0 else 0
        at = line + 2 + int(size, 16) + 2
        if at > len(data):
            return 0


def _is_http(front: bytes) -> bool:
    return bool(_METHODS.match(front)) or front.startswith((b"HTTP/1.0 ", b"HTTP/1.1 "))


def _find_http(data: bytes, at: int) -> int:
    found = re.compile(rb"(?:POST [^\r\n]{1,4096} HTTP/1\.[01]\r\n|HTTP/1\.[01] [1-5][0-9]{2} )")
    match = found.search(data, at)
    return match.start() if match else -1


def _ncp_extent(data: bytes, at: int, at_end: bool) -> int:
    if len(data) - at < 8:
        return 0
    if data[at : at + 4] not in (REQUEST_MAGIC, REPLY_MAGIC):
        raise MalformedPacket("not NCP over TCP")
    return ncp_extent(data, at)


def _find_ncp(data: bytes, at: int) -> int:
    found = [
        place for magic in (REQUEST_MAGIC, REPLY_MAGIC) if (place := data.find(magic, at)) >= 0
    ]
    return min(found, default=-1)


BINARY: Final = Protocol(
    "binary",
    1801,
    lambda front: front[4:8] == _SIGNATURE and front[:1] == b"\x10",
    _binary_extent,
    _find_binary,
)
RPC: Final = Protocol("rpc", 135, _is_rpc, _rpc_extent, _find_rpc)
HTTP: Final = Protocol("http", 80, _is_http, _http_extent, _find_http)
NCP: Final = Protocol(
    "ncp", 524, lambda front: front[:4] in (REQUEST_MAGIC, REPLY_MAGIC), _ncp_extent, _find_ncp
)
PROTOCOLS: Final = (BINARY, NCP, HTTP, RPC)


# -- connections


def protocol_of(data: bytes, connection: Connection) -> Protocol | str:
    """The protocol of a connection by its first bytes, or by its port; a text: why it has none."""
    runs = connection.sent.runs(data) + connection.answered.runs(data)
    if not any(run.data for run in runs):
        return "no data"
    for run in runs:
        if run.data.startswith(_TLS):
            return "TLS, which cannot be read"
        for protocol in PROTOCOLS:
            if protocol.begins(run.data[:64]):
                return protocol
    if connection.has_begun:
        return "another protocol"
    for protocol in PROTOCOLS:
        if any(protocol.find(run.data, 0) >= 0 for run in runs if protocol is not RPC):
            return protocol
    return "another protocol"


def pieces_of(data: bytes, connection: Connection, protocol: Protocol) -> list[Piece]:
    """The messages of both directions, in the order in which they were whole."""
    ways = ((connection.sent, True), (connection.answered, False))
    found: list[Piece] = []
    for way, from_client in ways:
        latest = 0
        for piece in _of_way(data, way, from_client, protocol):
            latest = max(latest, piece.at_us)
            found.append(piece._replace(at_us=latest))
    return sorted(found, key=lambda piece: piece.at_us)  # stable: a direction keeps its order


def _of_way(data: bytes, way: Direction, from_client: bool, protocol: Protocol) -> Iterator[Piece]:
    for number, run in enumerate(way.runs(data)):
        from_the_start = number == 0 and way.start is not None and not run.missing
        yield from _of_run(run, from_client, protocol, from_the_start)


def _of_run(
    run: Run, from_client: bool, protocol: Protocol, from_the_start: bool
) -> Iterator[Piece]:
    at, data, lost = 0, run.data, run.missing
    if not protocol.begins(data[:64]):
        at = protocol.find(data, 0)
        if at:
            end = at if at > 0 else len(data)
            reason = "the beginning of it was not captured"
            if from_the_start:
                reason = "it is not of this protocol"
            yield Piece(run.time_of(end), from_client, run.place, data[:end], reason, lost)
            lost = 0
            if at < 0:
                return
    while at < len(data):
        try:
            size = protocol.extent(data, at, True)
        except RemoteProtocolError as error:
            rest = data[at:]
            yield Piece(run.time_of(len(data)), from_client, run.place + at, rest, str(error), lost)
            return
        if not size or at + size > len(data):
            why = f"only {len(data) - at:,} bytes of it were captured"
            if size:
                why = f"only {len(data) - at:,} of {size:,} bytes of it were captured"
            yield Piece(run.time_of(len(data)), from_client, run.place + at, data[at:], why, lost)
            return
        end = at + size
        yield Piece(run.time_of(end), from_client, run.place + at, data[at:end], "", lost)
        at, lost = end, 0
