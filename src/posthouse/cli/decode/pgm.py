"""PGM packets as headers with named fields, for `posthouse decode`; also out of capture files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from posthouse.cli.decode.packets import Header, View, plain
from posthouse.model.errors import RemoteProtocolError
from posthouse.wire.pgm.options import OPTION_NAMES
from posthouse.wire.pgm.packets import (
    IP_PROTOCOL,
    PGM_HEADER,
    TYPE_NAMES,
    Data,
    Nak,
    PgmPacket,
    Spm,
    read_pgm,
    unpack_nla,
)

SECTIONS: Final = {
    Spm: ("RFC 3208 8.1", "Source Path Message"),
    Data: ("RFC 3208 8.2", "Data"),
    Nak: ("RFC 3208 8.3", "NAK"),
}
ADDRESSES: Final = frozenset({"path", "source", "group"})
_UNUSED_FLAGS: Final = 0x3C
_UDP: Final = 17
UDP_PORTS: Final = frozenset({3055, 3056})
_IP_BEGINS: Final = {1: 14, 101: 0, 113: 16, 228: 0}  # by link type: Ethernet, raw, cooked, IPv4
_ORDERS: Final = {b"\xa1\xb2\xc3\xd4": ">", b"\xd4\xc3\xb2\xa1": "<"} | {
    b"\xa1\xb2\x3c\x4d": ">",
    b"\x4d\x3c\xb2\xa1": "<",
}


def is_pgm(front: bytes) -> bool:
    """Whether these bytes begin a PGM packet: a type of it, and no flags that there are not."""
    whole = len(front) >= PGM_HEADER.size
    return whole and front[4] in TYPE_NAMES and not front[5] & _UNUSED_FLAGS


def view_pgm(datagram: bytes) -> View:
    """A PGM packet; `RemoteProtocolError` if any part of it breaks RFC 3208."""
    packet = read_pgm(datagram)
    return View(TYPE_NAMES[packet.header.type], "RFC 3208 8", list(_headers(packet)))


def _headers(packet: PgmPacket) -> Iterator[Header]:
    fields = plain(packet.header) | {"gsi": packet.header.gsi.hex(), "session": str(packet.tsi)}
    yield Header("RFC 3208 8", "PGM Header", fields)
    if packet.body is not None:
        yield Header(*SECTIONS[type(packet.body)], _with_addresses(packet.body))
    options = _options(packet)
    if options:
        yield Header("RFC 3208 9", "Options", options)
    if packet.data:
        yield Header("RFC 3208 8.2", "TSDU", {"data": packet.data})


def _with_addresses(body: Spm | Data | Nak) -> dict[str, Any]:
    values = body._asdict()
    return {name: unpack_nla(v) if name in ADDRESSES else v for name, v in values.items()}


def _options(packet: PgmPacket) -> dict[str, Any]:
    """Those that are there, by their names."""
    options, found = packet.options, dict[str, Any]()
    if options.fragment is not None:
        found["OPT_FRAGMENT"] = options.fragment._asdict()
    if options.nak_list:
        found["OPT_NAK_LIST"] = list(options.nak_list)
    if options.join is not None:
        found["OPT_JOIN"] = options.join
    found |= {f"OPT_{name}": True for name in ("SYN", "FIN") if getattr(options, name.lower())}
    if options.reset is not None:
        found["OPT_RST"] = options.reset._asdict()
    others = [OPTION_NAMES.get(kind, f"0x{kind:02X}") for kind in options.others]
    return found | ({"others": others} if others else {})


# -- capture files


def pgm_of_capture(capture: bytes) -> bytes:
    """The PGM packets of a pcap file, raw and inside of UDP, one after the other."""
    order = _ORDERS.get(capture[:4])
    if order is None or len(capture) < 24:
        return b""
    (link_type,) = struct.unpack_from(f"{order}I", capture, 20)
    begins = _IP_BEGINS.get(link_type & 0xFFFF)
    if begins is None:
        return b""
    frames = _frames(capture, order)
    return b"".join(_pgm_of(frame[begins:]) for frame in frames)


def _frames(capture: bytes, order: str) -> Iterator[bytes]:
    record, at = struct.Struct(f"{order}IIII"), 24
    while at + record.size <= len(capture):
        size = record.unpack_from(capture, at)[2]
        at += record.size
        yield capture[at : at + size]
        at += size


def _pgm_of(ip: bytes) -> bytes:
    """The PGM packet of an IP packet; nothing if it has none, or is not whole."""
    if len(ip) < 20 or ip[0] >> 4 != 4:
        return b""
    start, end = (ip[0] & 0x0F) * 4, int.from_bytes(ip[2:4], "big")
    if ip[9] == IP_PROTOCOL:
        return _sound(ip[start:end])
    if ip[9] == _UDP and int.from_bytes(ip[start + 2 : start + 4], "big") in UDP_PORTS:
        return _sound(ip[start + 8 : end])
    return b""


def _sound(datagram: bytes) -> bytes:
    try:
        return datagram if read_pgm(datagram).body is not None else b""
    except RemoteProtocolError:
        return b""
