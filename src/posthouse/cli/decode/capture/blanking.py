"""A copy of a capture without secrets: bodies, extensions, tokens and passwords are blanked.

What is kept: addresses, ports, times, names of machines and queues, GUIDs, labels, sizes, and
everything that the protocols need. Frames that are of none of our protocols are left out, and link
layers (with their hardware addresses) are taken off. Bytes that could not be read are blanked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from posthouse.cli.decode.capture.rpc import MAPPER_METHODS, METHODS
from posthouse.cli.decode.capture.transcript import CaptureFound, Line, Session
from posthouse.model.errors import RemoteProtocolError
from posthouse.rpc import pdu
from posthouse.wire.capture.files import pcap_file
from posthouse.wire.capture.packets import Span
from posthouse.wire.ncp.framing import REPLY_MAGIC, REQUEST_MAGIC, TCP_REPLY_SIZE, TCP_REQUEST_SIZE
from posthouse.wire.packet.glance import glance
from posthouse.wire.packet.packet import Packet
from posthouse.wire.pgm.packets import read_pgm

BLANK: Final = ord("x")
# A field of an HTTP head with the lines that continue it; all but those of a few names are blanked.
_FIELD: Final = re.compile(rb"\r\n([!-9;-~]+)[ \t]*:((?:[^\r\n]|\r\n[ \t])*)")
_PLAIN_FIELDS: Final = frozenset(
    b"host content-type content-length transfer-encoding connection soapaction upgrade date server "
    b"mime-version accept".split()
)
_QUERY: Final = re.compile(rb"[A-Z]+ [^ ?\r\n]*\?([^ \r\n]*)")
_SOAP_BODY: Final = re.compile(
    rb"<([A-Za-z0-9_.-]+:)?Body(?:\s[^>]*)?(?<!/)>(.*?)</(?:[A-Za-z0-9_.-]+:)?Body\s*>", re.S
)
# Calls whose requests hold names and numbers: those of the interfaces that we have.
_OPEN_CALLS: Final = frozenset(
    [method.name for methods in METHODS.values() for method in methods.values()]
    + list(MAPPER_METHODS.values())
)
_NCP_HEAD: Final = 7  # type, sequence, connection, task, connection, function
_NCP_REPLY_HEAD: Final = 8
_USER_KINDS: Final = ("UserMessage", "OrderAck", "FinalAck")


def blanked(data: bytes, found: CaptureFound) -> bytes:
    """A pcap file of the same sessions, blanked."""
    copy = bytearray(data)
    frames: dict[Span, int] = {}
    for session in found.sessions:
        _blank_session(copy, session)
        for at_us, spans in session.frames:
            frames |= dict.fromkeys(spans, at_us)
    ordered = sorted(frames.items(), key=lambda item: (item[1], item[0]))
    return pcap_file([(at_us, bytes(copy[start:end])) for (start, end), at_us in ordered])


def _blank_session(copy: bytearray, session: Session) -> None:
    for from_client in (True, False):
        ranges = [
            (line.place + start, line.place + end)
            for line in session.lines
            if line.from_client == from_client
            for start, end in secret_parts(session.protocol, line)
        ]
        if session.connection is not None:
            connection = session.connection
            way = connection.sent if from_client else connection.answered
            for segment in way.segments:  # those that came twice, too
                _blank(copy, segment.spans, segment.place, ranges)
    if session.connection is None:
        for line in session.lines:
            parts = [
                (line.place + a, line.place + b) for a, b in secret_parts(session.protocol, line)
            ]
            _blank(copy, line.spans, 0, parts)


def _blank(copy: bytearray, spans: tuple[Span, ...], place: int, ranges: list[Span]) -> None:
    """Blanks those parts of a stream that lie in these bytes of the file."""
    for start, end in spans:
        size = end - start
        for first, last in ranges:
            low, high = max(first - place, 0), min(last - place, size)
            if low < high:
                copy[start + low : start + high] = bytes([BLANK]) * (high - low)
        place += size


def secret_parts(protocol: str, line: Line) -> list[Span]:
    """Where a message has what no one else should see; all of one that could not be read."""
    if line.view is None:
        return [(0, len(line.data))]
    try:
        return [
            (start, end)
            for start, end in _PARTS[protocol](line.data, line.view.kind)
            if start < end
        ]
    except RemoteProtocolError:
        return [(0, len(line.data))]


def _binary(data: bytes, kind: str) -> Iterator[Span]:
    if kind in _USER_KINDS[:1]:
        seen = glance(data)
        yield seen.body_at, seen.body_at + seen.body_size
        yield seen.extension_at, seen.extension_at + seen.extension_size
        tail = Packet(data, seen).tail
        if tail.soap_at:  # and whatever follows it
            yield tail.soap_at, len(data)
        elif tail.compound_at:  # the message as it was over HTTP
            yield tail.compound_at, len(data)


def _rpc(data: bytes, kind: str) -> Iterator[Span]:
    header = pdu.read_header(data)
    if header.auth_length:
        yield len(data) - header.auth_length, len(data)
    whole = header.flags & pdu.WHOLE == pdu.WHOLE
    if header.kind == pdu.RESPONSE or (
        header.kind == pdu.REQUEST and not (whole and kind.rpartition(" ")[2] in _OPEN_CALLS)
    ):
        yield pdu.CALL_HEADER_SIZE, len(data) - header.auth_length


def _http(data: bytes, kind: str) -> Iterator[Span]:
    head_end = data.find(b"\r\n\r\n") + 4
    if query := _QUERY.match(data):
        yield query.span(1)
    for field in _FIELD.finditer(data, 0, head_end - 2):
        if field[1].lower() not in _PLAIN_FIELDS:
            yield field.span(2)
    if not kind.startswith("SRMP"):
        yield head_end, len(data)
        return
    end = _envelope_end(data, head_end)
    if body := _SOAP_BODY.search(data, head_end, max(end, head_end)):
        yield body.span(2)
    yield (end if end > 0 else head_end), len(data)


def _envelope_end(data: bytes, at: int) -> int:
    """Where the SOAP envelope ends; what follows is the body, the extension and their frames."""
    found = re.compile(rb"</[A-Za-z0-9_.-]*:?Envelope\s*>").search(data, at)
    return found.end() if found else -1


def _ncp(data: bytes, kind: str) -> Iterator[Span]:
    """Everything after the numbers of function and subfunction, or the completion code."""
    at = 0
    if data[:4] == REQUEST_MAGIC:
        at = TCP_REQUEST_SIZE
    elif data[:4] == REPLY_MAGIC:
        at = TCP_REPLY_SIZE
    if kind == "NCP Request":
        yield at + _NCP_HEAD + 3, len(data)
    elif kind == "NCP Reply":
        yield at + _NCP_REPLY_HEAD, len(data)


def _pgm(data: bytes, kind: str) -> Iterator[Span]:
    size = len(read_pgm(data).data)
    yield len(data) - size, len(data)


def _nothing(data: bytes, kind: str) -> Iterator[Span]:
    return iter(())


_PARTS: Final = {
    "binary": _binary,
    "rpc": _rpc,
    "http": _http,
    "ncp": _ncp,
    "ncp udp": _ncp,
    "pgm": _pgm,
    "ping": _nothing,
}
