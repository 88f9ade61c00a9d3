"""Frames of pcap and pcapng files, in either byte order (draft-ietf-opsawg-pcap, -pcapng).

By hand: of the pure readers on the package index, one is hardly kept up and one is a packet library
of a hundred times this size. What is needed of the two formats is a page each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from posthouse.model.errors import MalformedPacket, Truncated

PCAP: Final = {  # magic: byte order, and parts of a second
    b"\xa1\xb2\xc3\xd4": (">", 1_000_000),
    b"\xd4\xc3\xb2\xa1": ("<", 1_000_000),
    b"\xa1\xb2\x3c\x4d": (">", 1_000_000_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1_000_000_000),
}
PCAPNG: Final = b"\x0a\x0d\x0d\x0a"
FRAMES_MAX: Final = 2_000_000
RAW_IP: Final = 101

_PCAP_HEAD: Final = 24
_SECTION, _INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 0x0A0D0D0A, 1, 2, 3, 6
_BYTE_ORDER: Final = 0x1A2B3C4D
_TS_RESOLUTION, _TS_OFFSET = 9, 14
_MICROSECONDS: Final = 1_000_000
_INTERFACES_MAX: Final = 1_000
_TIME_MAX: Final = 0xFFFF_FFFF * _MICROSECONDS  # as in packets: a later time is nonsense


class Frame(NamedTuple):
    """One frame: when it was seen, on what kind of link, and where its bytes lie in the file."""

    at_us: int
    link: int
    start: int
    end: int


class _Interface(NamedTuple):
    link: int
    parts: int = _MICROSECONDS  # of a second
    offset_s: int = 0


def is_capture(data: bytes) -> bool:
    """Whether these bytes begin a capture file."""
    return data[:4] in PCAP or data[:4] == PCAPNG


def read_frames(data: bytes) -> Iterator[Frame]:
    """Every frame of a file in its order; `RemoteProtocolError` where it breaks its format.

    A file that ends in the middle of a frame, as after a full disk, raises `Truncated`.
    """
    frames = _pcap(data) if data[:4] in PCAP else _pcapng(data)
    for number, frame in enumerate(frames):
        if number >= FRAMES_MAX:
            raise MalformedPacket(f"a capture of more than {FRAMES_MAX:,} frames")
        yield frame


def pcap_file(packets: list[tuple[int, bytes]]) -> bytes:
    """A pcap file of bare IP packets, each with its time in microseconds."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 0x40000, RAW_IP)]
    for at_us, packet in packets:
        seconds, rest = divmod(at_us, _MICROSECONDS)
        parts.append(struct.pack("<IIII", seconds & 0xFFFFFFFF, rest, len(packet), len(packet)))
        parts.append(packet)
    return b"".join(parts)


# -- pcap


def _pcap(data: bytes) -> Iterator[Frame]:
    order, parts = PCAP[data[:4]]
    if len(data) < _PCAP_HEAD:
        raise Truncated("the head of a pcap file")
    link = struct.unpack_from(f"{order}I", data, 20)[0] & 0xFFFF
    record, at = struct.Struct(f"{order}IIII"), _PCAP_HEAD
    while at < len(data):
        if len(data) - at < record.size:
            raise Truncated("the head of the last frame")
        seconds, rest, size, _ = record.unpack_from(data, at)
        at += record.size
        _check_room(data, at, size)
        yield Frame(seconds * _MICROSECONDS + rest * _MICROSECONDS // parts, link, at, at + size)
        at += size


def _check_room(data: bytes, at: int, size: int) -> None:
    if size > len(data) - at:
        raise Truncated(f"a frame of {size} bytes, of which {len(data) - at} are there")


# -- pcapng


class _Section:
    """A section of a pcapng file: its byte order and its interfaces."""

    def __init__(self, data: bytes, order: str) -> None:
        self._data = data
        self._order = order
        self._interfaces: list[_Interface] = []

    def numbers(self, layout: str, at: int, end: int) -> tuple[int, ...]:
        """Integers of a block, which has to have them."""
        fields = struct.Struct(self._order + layout)
        if end - at < fields.size:
            raise MalformedPacket("a block of pcapng that is too short")
        return fields.unpack_from(self._data, at)

    def frames(self, kind: int, at: int, end: int) -> Iterator[Frame]:
        """The frame of a block, if it has one; interfaces are kept."""
        if kind == _INTERFACE:
            if len(self._interfaces) >= _INTERFACES_MAX:
                raise MalformedPacket(f"more than {_INTERFACES_MAX} interfaces")
            self._interfaces.append(self._interface(at, end))
        elif kind == _PACKET:
            number, high, low, size, _ = self.numbers("IIIII", at, end)
            yield self._frame(number, high << 32 | low, size, at + 20, end)
        elif kind == _OLD_PACKET:
            number, _, high, low, size, _ = self.numbers("HHIIII", at, end)
            yield self._frame(number, high << 32 | low, size, at + 20, end)
        elif kind == _SIMPLE_PACKET:
            (size,) = self.numbers("I", at, end)
            yield self._frame(0, 0, min(size, end - at - 4), at + 4, end)

    def _interface(self, at: int, end: int) -> _Interface:
        link, _, _ = self.numbers("HHI", at, end)
        parts, offset_s, at = _MICROSECONDS, 0, at + 8
        while end - at >= 4:
            code, size = self.numbers("HH", at, end)
            value = self._data[at + 4 : min(at + 4 + size, end)]
            if code == 0:
                break
            if code == _TS_RESOLUTION and value:
                parts = 1 << (value[0] & 0x7F) if value[0] & 0x80 else 10 ** min(value[0], 30)
            elif code == _TS_OFFSET and len(value) == 8:
                order = "little" if self._order == "<" else "big"
                offset_s = int.from_bytes(value, order, signed=True)  # type: ignore[arg-type]
            at += 4 + size + -size % 4
        return _Interface(link, parts, offset_s)

    def _frame(self, number: int, stamp: int, size: int, at: int, end: int) -> Frame:
        if number >= len(self._interfaces):
            raise MalformedPacket(f"a frame of interface {number}, which was not described")
        if size > end - at:
            raise MalformedPacket(f"a frame of {size} bytes in a block that has {end - at} for it")
        link, parts, offset_s = self._interfaces[number]
        at_us = stamp * _MICROSECONDS // parts + offset_s * _MICROSECONDS
        return Frame(min(max(at_us, 0), _TIME_MAX), link, at, at + size)


def _pcapng(data: bytes) -> Iterator[Frame]:
    at, section = 0, _Section(data, "<")
    while at < len(data):
        if len(data) - at < 12:
            raise Truncated("the head of the last block")
        if data[at : at + 4] == PCAPNG:
            section = _Section(data, _order_of(data, at))
        kind, size = section.numbers("II", at, len(data))
        if size < 12 or size % 4:
            raise MalformedPacket(f"a block of {size} bytes")
        _check_room(data, at, size)
        yield from section.frames(kind, at + 8, at + size - 4)
        at += size


def _order_of(data: bytes, at: int) -> str:
    for order in "<>":
        if data[at + 8 : at + 12] == struct.pack(f"{order}I", _BYTE_ORDER):
            return order
    raise MalformedPacket("a section of pcapng without its byte order")
