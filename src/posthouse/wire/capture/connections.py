"""TCP connections of a capture: each direction as a stream, with what is missing of it.

The whole capture is there, so segments are put into the order of their numbers, whatever order,
repetition or overlap they came in. A part that was not captured is a gap between two runs.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from posthouse.wire.capture.packets import Datagram, Endpoint, Span

_HEAD: Final = struct.Struct(">HHIIBB")
_FIN, _SYN, _RST = 0x01, 0x02, 0x04
_HALF: Final = 1 << 31
_FAR: Final = 1 << 30  # a number this far from the others belongs to another connection


class Segment(NamedTuple):
    """Bytes of a direction: their place in the stream and in the file, and when they came."""

    place: int
    at_us: int
    spans: tuple[Span, ...]
    size: int


@dataclass
class Run:
    """Bytes of a direction without a gap."""

    place: int  # of its first byte in the stream
    missing: int  # bytes in front of it that were not captured
    data: bytes = b""
    ends: list[int] = field(default_factory=list)  # of segments, in `data`
    times: list[int] = field(default_factory=list)  # of the same segments

    def time_of(self, end: int) -> int:
        """When the byte in front of this place came, and everything before it."""
        return self.times[min(bisect_right(self.ends, end - 1), len(self.times) - 1)]


class Direction:
    """What one side of a connection sends."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.start: int | None = None  # of a SYN: the place of the first byte
        self.ended_us: int | None = None
        self.was_reset = False
        self._first: int | None = None  # sequence number that stands for place 0
        self._last = 0

    def place_of(self, number: int) -> int:
        """A sequence number as a place in the stream, which does not wrap around."""
        if self._first is None:
            self._first = number
        near = (number - self._first - self._last + _HALF) % (1 << 32) - _HALF
        return self._last + near

    def add(self, place: int, datagram: Datagram, spans: tuple[Span, ...]) -> None:
        """A segment with bytes."""
        size = sum(end - start for start, end in spans)
        self._last = max(self._last, place)
        self.segments.append(Segment(place, datagram.at_us, spans, size))

    def runs(self, data: bytes) -> list[Run]:
        """The stream, cut where something is missing; of bytes that came twice the first count."""
        ordered = sorted(self.segments, key=lambda segment: segment.place)
        runs: list[Run] = []
        at = ordered[0].place if self.start is None and ordered else self.start or 0
        parts: list[bytes] = []
        latest = 0
        for segment in ordered:
            end = segment.place + segment.size
            if end <= at:
                continue
            if segment.place > at or not runs:
                _close(runs, parts)
                runs.append(Run(max(segment.place, at), max(segment.place - at, 0)))
                at = runs[-1].place
            octets = b"".join(data[start:stop] for start, stop in segment.spans)
            parts.append(octets[at - segment.place :])
            at, latest = end, max(latest, segment.at_us)
            runs[-1].ends.append(end - runs[-1].place)
            runs[-1].times.append(latest)
        _close(runs, parts)
        return runs


def _close(runs: list[Run], parts: list[bytes]) -> None:
    if parts:
        runs[-1].data = b"".join(parts)
        parts.clear()


class Connection:
    """One connection: the side that opened it is the client."""

    def __init__(self, client: Endpoint, server: Endpoint, at_us: int) -> None:
        self.client = client
        self.server = server
        self.at_us = at_us
        self.ways = {client: Direction(), server: Direction()}
        self.frames: list[tuple[int, tuple[Span, ...]]] = []
        self.has_begun = False  # a SYN was seen

    @property
    def sent(self) -> Direction:
        """Of the client."""
        return self.ways[self.client]

    @property
    def answered(self) -> Direction:
        """Of the server."""
        return self.ways[self.server]

    def turn(self) -> None:
        """The other side is the client."""
        self.client, self.server = self.server, self.client


def connections(data: bytes, datagrams: Iterable[Datagram]) -> Iterator[Connection]:
    """The TCP connections, in the order of their first segments."""
    known: dict[tuple[Endpoint, Endpoint], Connection] = {}
    made: list[Connection] = []
    for datagram in datagrams:
        octets = datagram.payload(data)
        if len(octets) < 20:
            continue
        source_port, target_port, number, _, words, flags = _HEAD.unpack_from(octets)
        head = (words >> 4) * 4
        if not 20 <= head <= len(octets):
            continue
        source = Endpoint(datagram.source, source_port)
        target = Endpoint(datagram.target, target_port)
        key = (source, target) if source <= target else (target, source)
        found = known.get(key)
        if found is None or _is_another(found, source, number, flags):
            found = known[key] = Connection(source, target, datagram.at_us)
            if not flags & _SYN and source.port < target.port:
                found.turn()  # the beginning was not captured: the lower port listens
            made.append(found)
        _add(found, source, datagram, number, flags, head)
    yield from made


def _is_another(found: Connection, source: Endpoint, number: int, flags: int) -> bool:
    """Whether the same addresses and ports begin a new connection."""
    way = found.ways[source]
    if not flags & _SYN or not (way.segments or way.start is not None):
        return False
    place = way.place_of((number + 1) % (1 << 32))
    if way.start is not None:
        return place != way.start
    return abs(place) > _FAR or place > min(segment.place for segment in way.segments)


def _add(
    found: Connection, source: Endpoint, datagram: Datagram, number: int, flags: int, head: int
) -> None:
    way = found.ways[source]
    found.frames.append((datagram.at_us, datagram.frames))
    if flags & _SYN:
        way.start = way.place_of((number + 1) % (1 << 32))
        if not found.has_begun:
            found.has_begun = True
            is_client = not flags & 0x10
            if is_client != (source == found.client):
                found.turn()
        number = (number + 1) % (1 << 32)
    spans = _cut(datagram.spans, head)
    place = way.place_of(number)
    if spans:
        way.add(place, datagram, spans)
    if flags & (_FIN | _RST):
        way.ended_us, way.was_reset = datagram.at_us, bool(flags & _RST)


def _cut(spans: tuple[Span, ...], size: int) -> tuple[Span, ...]:
    """Without this many bytes at the front."""
    left = []
    for start, end in spans:
        taken = min(size, end - start)
        size -= taken
        if start + taken < end:
            left.append((start + taken, end))
    return tuple(left)
