"""Option extensions of PGM packets, RFC 3208 9, as far as [MC-MQSRM] 2.1.3 has a use for them."""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from posthouse.model.errors import MalformedPacket, Truncated

OPT_LENGTH: Final = 0x00
OPT_FRAGMENT: Final = 0x01
OPT_NAK_LIST: Final = 0x02
OPT_JOIN: Final = 0x03
OPT_SYN: Final = 0x0D
OPT_FIN: Final = 0x0E
OPT_RST: Final = 0x0F
OPT_END: Final = 0x80  # in the type of the last option
TYPE_MASK: Final = 0x7F

OPTION_NAMES: Final = {
    OPT_LENGTH: "OPT_LENGTH",
    OPT_FRAGMENT: "OPT_FRAGMENT",
    OPT_NAK_LIST: "OPT_NAK_LIST",
    OPT_JOIN: "OPT_JOIN",
    0x04: "OPT_NAK_BO_IVL",
    0x05: "OPT_NAK_BO_RNG",
    0x07: "OPT_REDIRECT",
    0x08: "OPT_PARITY_PRM",
    0x09: "OPT_PARITY_GRP",
    0x0A: "OPT_CURR_TGSIZE",
    0x0B: "OPT_NBR_UNREACH",
    0x0C: "OPT_PATH_NLA",
    OPT_SYN: "OPT_SYN",
    OPT_FIN: "OPT_FIN",
    OPT_RST: "OPT_RST",
    0x10: "OPT_CR",
    0x11: "OPT_CRQST",
    0x12: "OPT_PGMCC_DATA",
    0x13: "OPT_PGMCC_FEEDBACK",
    0x7F: "OPT_INVALID",
}

OPTIONS_MAX: Final = 16  # a packet has no more, RFC 3208 9
NAK_LIST_MAX: Final = 62  # RFC 3208 9.3
OPTION_HEADER_SIZE: Final = 4
FRAGMENT_SIZE: Final = 16  # the RFC prints 12 and draws 16, which everybody sends
LENGTH_SIZE: Final = 4
RESET_ERROR_MASK: Final = 0x3F
RESET_NO_NAKS: Final = 0x40

OPX_MASK: Final = 0x03
OPX_IGNORE: Final = 0x00
OPX_INVALIDATE: Final = 0x01

_HEADER = struct.Struct(">BBBB")
_LENGTH = struct.Struct(">BBH")
_FRAGMENT = struct.Struct(">III")
_U32 = struct.Struct(">I")


class Fragment(NamedTuple):
    """OPT_FRAGMENT (9.2): which part of an application data unit the packet holds."""

    first_sequence: int
    offset: int
    length: int  # of the whole unit


class Reset(NamedTuple):
    """OPT_RST (9.8): the source gives the session up."""

    no_naks: bool = True  # what is missing can no longer be asked for
    error: int = 0


class Options(NamedTuple):
    """The options of a packet; those of no use here by their numbers only."""

    fragment: Fragment | None = None
    nak_list: tuple[int, ...] = ()
    join: int | None = None
    syn: bool = False
    fin: bool = False
    reset: Reset | None = None
    others: tuple[int, ...] = ()

    @property
    def network_significant(self) -> bool:
        """Whether network elements have to look at them (9.3.5)."""
        return bool(self.nak_list)


NO_OPTIONS: Final = Options()


def pack_options(options: Options) -> bytes:
    """The extensions with OPT_LENGTH in front and OPT_END in the last; empty for none (9.1)."""
    parts = _extensions(options)
    if not parts:
        return b""
    last = parts[-1]
    parts[-1] = bytes([last[0] | OPT_END]) + last[1:]
    total = LENGTH_SIZE + sum(map(len, parts))
    return _LENGTH.pack(OPT_LENGTH, LENGTH_SIZE, total) + b"".join(parts)


def _extensions(options: Options) -> list[bytes]:
    """Those that matter to the network come first (9.1)."""
    parts: list[bytes] = []
    if options.nak_list:
        numbers = struct.pack(f">{len(options.nak_list)}I", *options.nak_list)
        parts.append(_extension(OPT_NAK_LIST, numbers))
    if options.fragment is not None:
        parts.append(_extension(OPT_FRAGMENT, _FRAGMENT.pack(*options.fragment)))
    if options.join is not None:
        parts.append(_extension(OPT_JOIN, _U32.pack(options.join)))
    if options.syn:
        parts.append(_extension(OPT_SYN))
    if options.fin:
        parts.append(_extension(OPT_FIN))
    if options.reset is not None:
        reset = options.reset
        specific = (RESET_NO_NAKS if reset.no_naks else 0) | reset.error & RESET_ERROR_MASK
        parts.append(_extension(OPT_RST, specific=specific))
    return parts


def _extension(kind: int, value: bytes = b"", specific: int = 0) -> bytes:
    return _HEADER.pack(kind, OPTION_HEADER_SIZE + len(value), 0, specific) + value


def read_options(data: bytes, at: int) -> tuple[Options, int]:
    """The options that begin here, and where they end; MalformedPacket if they do not fit."""
    end = _extent(data, at)
    at += LENGTH_SIZE
    found: dict[int, bytes] = {}
    others: list[int] = []
    last = at == end
    for _ in range(OPTIONS_MAX):
        if last:
            break
        kind, size, extensibility = _option(data, at, end)
        last = bool(kind & OPT_END)
        kind &= TYPE_MASK
        if kind in _READERS:
            found.setdefault(kind, data[at + 3 : at + size])
        elif _counts(kind, extensibility):
            others.append(kind)
        at += size
    if not last or at != end:
        raise MalformedPacket("the options do not end at their length")
    return _options(found, tuple(others)), end


def _extent(data: bytes, at: int) -> int:
    """OPT_LENGTH (9.1.1)."""
    if at + LENGTH_SIZE > len(data):
        raise Truncated("the options end before their length")
    kind, size, total = _LENGTH.unpack_from(data, at)
    if kind & TYPE_MASK != OPT_LENGTH or size != LENGTH_SIZE or total < LENGTH_SIZE:
        raise MalformedPacket("the first option is not OPT_LENGTH")
    if at + total > len(data):
        raise Truncated("the options are longer than the packet")
    return int(at + total)


def _option(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    if at + OPTION_HEADER_SIZE > end:
        raise Truncated("an option begins after the end of the options")
    kind, size, extensibility, _ = _HEADER.unpack_from(data, at)
    if size < OPTION_HEADER_SIZE or at + size > end:
        raise MalformedPacket(f"an option of {size} bytes")
    return kind, size, extensibility


def _counts(kind: int, extensibility: int) -> bool:
    """What to do with an option that is not read here, by its OPX bits (9)."""
    treatment = extensibility & OPX_MASK
    if kind in OPTION_NAMES or treatment == OPX_IGNORE:
        return True
    if treatment == OPX_INVALIDATE:
        return False
    raise MalformedPacket(
        f"an unknown option 0x{kind:02X} which means that the packet is not to be"
    )


def _read_fragment(value: bytes) -> Fragment:
    if len(value) != FRAGMENT_SIZE - 3:
        raise MalformedPacket(f"OPT_FRAGMENT of {len(value) + 3} bytes")
    return Fragment(*_FRAGMENT.unpack_from(value, 1))


def _read_nak_list(value: bytes) -> tuple[int, ...]:
    count, rest = divmod(len(value) - 1, 4)
    if rest or not 1 <= count <= NAK_LIST_MAX:
        raise MalformedPacket(f"OPT_NAK_LIST of {len(value) + 3} bytes")
    return struct.unpack_from(f">{count}I", value, 1)


def _read_join(value: bytes) -> int:
    if len(value) != 5:
        raise MalformedPacket(f"OPT_JOIN of {len(value) + 3} bytes")
    return int(_U32.unpack_from(value, 1)[0])


def _read_mark(value: bytes) -> bool:
    if len(value) != 1:
        raise MalformedPacket(f"OPT_SYN or OPT_FIN of {len(value) + 3} bytes")
    return True


def _read_reset(value: bytes) -> Reset:
    if len(value) != 1:
        raise MalformedPacket(f"OPT_RST of {len(value) + 3} bytes")
    return Reset(bool(value[0] & RESET_NO_NAKS), value[0] & RESET_ERROR_MASK)


_READERS: Final = {
    OPT_FRAGMENT: ("fragment", _read_fragment),
    OPT_NAK_LIST: ("nak_list", _read_nak_list),
    OPT_JOIN: ("join", _read_join),
    OPT_SYN: ("syn", _read_mark),
    OPT_FIN: ("fin", _read_mark),
    OPT_RST: ("reset", _read_reset),
}


def _options(found: dict[int, bytes], others: tuple[int, ...]) -> Options:
    if not found and not others:
        return NO_OPTIONS
    values: dict[str, Any] = {"others": others}
    for kind, value in found.items():
        name, read = _READERS[kind]
        values[name] = read(value)
    return NO_OPTIONS._replace(**values)
