"""IP packets of frames: link layers taken off, fragments put together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

from posthouse.model.bounded_tables import Bounded
from posthouse.wire.capture.files import Frame

TCP, UDP = 6, 17
ETHERNET, RAW_LINKS = 1, frozenset({12, 14, 101, 228, 229})
NULL, LOOP, COOKED, COOKED_2 = 0, 108, 113, 276
_TAGS: Final = frozenset({0x8100, 0x88A8, 0x9100})
_TAGS_MAX: Final = 4
_ETHER_TYPES: Final = frozenset({0x0800, 0x86DD})
_FAMILIES: Final = frozenset({2, 10, 24, 28, 30})  # of loopback frames: IPv4, IPv6 of some systems
_EXTENSIONS: Final = frozenset({0, 43, 51, 60})  # of IPv6, that only have to be passed over
_EXTENSIONS_MAX: Final = 16
_FRAGMENT: Final = 44
WHOLE_MAX: Final = 65_535 + 40
UNFINISHED_MAX: Final = 1_000  # datagrams whose fragments have not all come
PIECES_MAX: Final = 64  # fragments of one datagram

Span = tuple[int, int]  # where bytes lie in the file


class Endpoint(NamedTuple):
    """An address and a port; PGM has no ports."""

    address: str
    port: int = 0

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}" if self.port else host


class Datagram(NamedTuple):
    """What one IP packet carries, or several fragments together."""

    at_us: int
    source: str
    target: str
    protocol: int
    spans: tuple[Span, ...]  # of its payload
    frames: tuple[Span, ...]  # of the IP packets that it came in

    def payload(self, data: bytes) -> bytes:
        """The bytes, out of the file."""
        if len(self.spans) == 1:
            start, end = self.spans[0]
            return data[start:end]
        return b"".join(data[start:end] for start, end in self.spans)


class _Piece(NamedTuple):
    offset: int
    last: bool
    span: Span
    frame: Span


class _Packet(NamedTuple):
    source: str
    target: str
    protocol: int
    payload: Span
    piece: tuple[int, int, bool] | None = None  # of a fragment: its identification, offset, last


class PacketReader:
    """The IP packets of a capture; `passed_over` counts what is none, by its reason."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.passed_over: Counter[str] = Counter()
        self._unfinished: Bounded[tuple[str, str, int, int], list[_Piece]] = Bounded(UNFINISHED_MAX)

    def datagrams(self, frames: Iterable[Frame]) -> Iterator[Datagram]:
        """What the frames carry, in their order."""
        for frame in frames:
            at = self._ip_at(frame)
            packet = None if at is None else self._packet(at, frame.end)
            if at is None or packet is None:
                self.passed_over["frames without IP" if at is None else "broken IP packets"] += 1
                continue
            # Without what the link put after the packet: padding, checksums, trailers.
            whole = self._whole(frame.at_us, packet, (at, packet.payload[1]))
            if whole is not None:
                yield whole
        if self._unfinished:
            self.passed_over["fragments without the rest"] += len(self._unfinished)

    # -- links

    def _ip_at(self, frame: Frame) -> int | None:
        """Where the IP packet of a frame begins."""
        data, at, end = self._data, frame.start, frame.end
        if frame.link in RAW_LINKS:
            return at
        if frame.link in (NULL, LOOP):
            word = data[at : at + 4]
            families = {int.from_bytes(word, "big"), int.from_bytes(word, "little")}
            return at + 4 if families & _FAMILIES else None
        if frame.link == COOKED:
            return self._behind_type(at + 14, end)
        if frame.link == COOKED_2:
            kind = int.from_bytes(data[at : at + 2], "big")
            return at + 20 if kind in _ETHER_TYPES else None
        return self._behind_type(at + 12, end) if frame.link == ETHERNET else None

    def _behind_type(self, at: int, end: int) -> int | None:
        for _ in range(_TAGS_MAX + 1):
            kind = int.from_bytes(self._data[at : min(at + 2, end)], "big")
            if kind in _ETHER_TYPES:
                return at + 2
            if kind not in _TAGS:
                return None
            at += 4
        return None

    # -- IP

    def _packet(self, at: int, end: int) -> _Packet | None:
        version = self._data[at] >> 4 if at < end else 0
        if version == 4 and end - at >= 20:
            return self._version_4(at, end)
        return self._version_6(at, end) if version == 6 and end - at >= 40 else None

    def _version_4(self, at: int, end: int) -> _Packet | None:
        data = self._data
        head = (data[at] & 0x0F) * 4
        length = int.from_bytes(data[at + 2 : at + 4], "big") or end - at  # 0: cut by the card
        if head < 20 or length < head or at + head > end:
            return None
        flags = int.from_bytes(data[at + 6 : at + 8], "big")
        offset, more = (flags & 0x1FFF) * 8, bool(flags & 0x2000)
        piece = None
        if offset or more:
            piece = int.from_bytes(data[at + 4 : at + 6], "big"), offset, not more
        source, target = (str(IPv4Address(data[at + n : at + n + 4])) for n in (12, 16))
        payload = at + head, min(at + length, end)
        return _Packet(source, target, data[at + 9], payload, piece)

    def _version_6(self, at: int, end: int) -> _Packet | None:
        data = self._data
        source, target = (str(IPv6Address(data[at + n : at + n + 16])) for n in (8, 24))
        length = int.from_bytes(data[at + 4 : at + 6], "big")
        end = min(at + 40 + length, end) if length else end
        kind, at, piece = data[at + 6], at + 40, None
        for _ in range(_EXTENSIONS_MAX):
            if kind == _FRAGMENT and end - at >= 8 and piece is None:
                word = int.from_bytes(data[at + 2 : at + 4], "big")
                piece = int.from_bytes(data[at + 4 : at + 8], "big"), word & 0xFFF8, not word & 1
                kind, at = data[at], at + 8
            elif kind in _EXTENSIONS and end - at >= 8:
                size = (data[at + 1] + 2) * 4 if kind == 51 else (data[at + 1] + 1) * 8
                kind, at = data[at], at + size
            else:
                break
        return _Packet(source, target, kind, (at, end), piece) if at <= end else None

    # -- fragments

    def _whole(self, at_us: int, packet: _Packet, frame: Span) -> Datagram | None:
        source, target, protocol, payload, fragment = packet
        if fragment is None:
            return Datagram(at_us, source, target, protocol, (payload,), (frame,))
        identification, offset, last = fragment
        key = source, target, protocol, identification
        pieces = self._unfinished.get(key, [])
        if any(one.offset == offset for one in pieces):
            return None  # it came twice
        pieces.append(_Piece(offset, last, payload, frame))
        if len(pieces) > PIECES_MAX or offset + payload[1] - payload[0] > WHOLE_MAX:
            self._unfinished.pop(key, None)
            self.passed_over["datagrams of too many fragments"] += 1
            return None
        self._unfinished[key] = pieces
        ordered = _in_order(pieces)
        if ordered is None:
            return None
        del self._unfinished[key]
        spans, frames = tuple(one.span for one in ordered), tuple(one.frame for one in ordered)
        return Datagram(at_us, source, target, protocol, spans, frames)


def _in_order(pieces: list[_Piece]) -> list[_Piece] | None:
    """All of a datagram, None while something is missing; pieces that overlap never fit."""
    ordered, at = sorted(pieces), 0
    for piece in ordered:
        if piece.offset != at:
            return None
        at += piece.span[1] - piece.span[0]
    return ordered if ordered[-1].last else None
