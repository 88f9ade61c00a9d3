"""PGM packets as headers with named fields, for `posthouse decode`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from posthouse.cli.decode.packets import Header, View, plain
from posthouse.wire.pgm.options import OPTION_NAMES
from posthouse.wire.pgm.packets import (
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
UDP_PORTS: Final = frozenset({3055, 3056})


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
