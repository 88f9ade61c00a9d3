"""A copy of a capture without secrets: bodies, extensions, tokens and passwords are blanked.

What is kept: addresses, ports, times, names of machines and queues, GUIDs, labels, sizes, and
everything that the protocols need. Frames that are of none of our protocols are left out, and link
layers (with their hardware addresses) are taken off. Bytes that could not be read are blanked.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from posthouse.cli.decode.capture.envelope_secrets import envelope_secrets
from posthouse.cli.decode.capture.rpc import MAPPER_METHODS, METHODS
from posthouse.cli.decode.capture.transcript import CaptureFound, Line, Session
from posthouse.model.errors import RemoteProtocolError
from posthouse.rpc import pdu
from posthouse.wire.capture.connections import Run
from posthouse.wire.capture.files import pcap_file
from posthouse.wire.capture.packets import Span
from posthouse.wire.ncp.framing import (
    REPLY_MAGIC,
    REQUEST_MAGIC,
    TCP_REPLY_SIZE,
    TCP_REQUEST_SIZE,
    WATCHDOG_SIZE,
)
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.pgm.packets import read_pgm
from posthouse.wire.srmp.mime_parts import part_places

BLANK: Final = b"x"
_CONTENT: Final = b"content-type"
# A field of an HTTP head with the lines that continue it; all but those of a few names are blanked.
_FIELD: Final = re.compile(rb"\r\n([!-9;-~]+)[ \t]*:((?:[^\r\n]|\r\n[ \t])*)")
_PLAIN_FIELDS: Final = frozenset(
    b"host content-type content-length transfer-encoding connection soapaction upgrade date server "
    b"mime-version accept".split()
)
_QUERY: Final = re.compile(rb"[A-Z]+ [^ ?\r\n]*\?([^ \r\n]*)")
_PLAIN_PART_FIELDS: Final = frozenset(b"content-type content-length content-id".split())
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
        _blank_session(data, copy, session)
        for at_us, spans in session.frames:
            frames |= dict.fromkeys(spans, at_us)
    ordered = sorted(frames.items(), key=lambda item: (item[1], item[0]))
    return pcap_file([(at_us, bytes(copy[start:end])) for (start, end), at_us in ordered])


def _blank_session(data: bytes, copy: bytearray, session: Session) -> None:
    if session.connection is None:
        for line in session.lines:
            _overwrite(copy, line.spans, _blank_datagram(data, session.protocol, line))
        return
    for from_client in (True, False):
        connection = session.connection
        way = connection.sent if from_client else connection.answered
        lines = [line for line in session.lines if line.from_client == from_client]
        stream = _BlankStream(way.runs(data), session.protocol, lines)
        for segment in way.segments:  # those that came twice, too
            _overwrite(copy, segment.spans, stream.read(segment.place, segment.size))


class _BlankStream:
    """A direction of a connection with its secrets blank, and all bytes that were not read.

    Each byte is copied once into it and once out of it for each time that it was captured.
    """

    def __init__(self, runs: list[Run], protocol: str, lines: list[Line]) -> None:
        self._places = [run.place for run in runs]
        self._octets = [bytearray(run.data) for run in runs]
        for line in lines:
            number = bisect_right(self._places, line.place) - 1
            begin = line.place - self._places[number]
            for start, end in secret_parts(protocol, line):
                self._octets[number][begin + start : begin + end] = BLANK * (end - start)

    def read(self, place: int, size: int) -> bytes:
        """As many bytes from there; what is in no run is blank."""
        number = max(bisect_right(self._places, place) - 1, 0)
        parts, end = list[bytes](), place + size
        while place < end and number < len(self._places):
            begin, octets = self._places[number], self._octets[number]
            if place < begin:
                parts.append(BLANK * (min(begin, end) - place))
                place = min(begin, end)
            taken = octets[place - begin : end - begin]
            parts.append(bytes(taken))
            place += len(taken)
            number += 1
        return b"".join(parts) + BLANK * (end - place)


def _blank_datagram(data: bytes, protocol: str, line: Line) -> bytes:
    octets = bytearray(b"".join(data[start:end] for start, end in line.spans))
    for start, end in secret_parts(protocol, line):
        octets[line.place + start : line.place + end] = BLANK * (end - start)
    return bytes(octets)


def _overwrite(copy: bytearray, spans: tuple[Span, ...], octets: bytes) -> None:
    """Puts bytes into the places of the file that they came from."""
    at = 0
    for start, end in spans:
        copy[start:end] = octets[at : at + end - start]
        at += end - start


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
        seen = summarize(data)
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
    kind_of_content = next(
        (one[2] for one in _FIELD.finditer(data, 0, head_end - 2) if one[1].lower() == _CONTENT),
        b"",
    )
    places = part_places(kind_of_content.strip().decode("latin-1"), data[head_end:])
    at = head_end
    for number, (start, end) in enumerate(places):
        start, end = head_end + start, head_end + end
        yield from _part_head(data, at, start)
        if number:
            yield start, end
        else:
            yield from ((start + a, start + b) for a, b in envelope_secrets(data[start:end]))
        at = end
    yield from _part_head(data, at, len(data))


def _part_head(data: bytes, start: int, end: int) -> Iterator[Span]:
    """Between two parts: a delimiter, and fields that the protocol does not need."""
    for field in _FIELD.finditer(data, start, end):
        if field[1].lower() not in _PLAIN_PART_FIELDS:
            yield field.span(2)


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
    else:
        yield at + WATCHDOG_SIZE, len(data)  # the longest of the other heads


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
