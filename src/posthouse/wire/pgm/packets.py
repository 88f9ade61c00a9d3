"""PGM packets, RFC 3208 8, as [MC-MQSRM] 2.1.3 uses them: over IPv4, without parity.

A packet is read whole or refused with `MalformedPacket`; one that is refused has no effect.
"""

from __future__ import annotations

import struct
from typing import Annotated, Final, NamedTuple

from posthouse.model.errors import MalformedPacket, Truncated
from posthouse.wire.layout import Flags, Layout, bits, u8, u16, u32
from posthouse.wire.pgm.options import NO_OPTIONS, Options, pack_options, read_options

IP_PROTOCOL: Final = 113
SPM: Final = 0x00  # source path message
POLL: Final = 0x01
POLR: Final = 0x02
ODATA: Final = 0x04
RDATA: Final = 0x05  # repair data
NAK: Final = 0x08
NNAK: Final = 0x09  # null NAK: a repairer has answered
NCF: Final = 0x0A  # NAK confirmation
SPMR: Final = 0x0C  # SPM request
ACK: Final = 0x0D  # of congestion control

TYPE_NAMES: Final = {
    SPM: "SPM",
    POLL: "POLL",
    POLR: "POLR",
    ODATA: "ODATA",
    RDATA: "RDATA",
    NAK: "NAK",
    NNAK: "NNAK",
    NCF: "NCF",
    SPMR: "SPMR",
    ACK: "ACK",
}
# What receivers send; its ports are exchanged (8).
_FROM_RECEIVERS: Final = frozenset({POLR, NAK, NNAK, SPMR, ACK})
# Of sections that are left out ([MC-MQSRM] 2.1.3): what stands in them does not matter.
_WITHOUT_EFFECT: Final = frozenset({POLL, POLR, SPMR, ACK})
# Network elements have to find these, by the IP router alert option (4).
ROUTER_ALERT: Final = frozenset({SPM, NCF, RDATA})

AFI_IPV4: Final = 1
DATA_OVERHEAD: Final = 16 + 8 + 4 + 16 + 4  # header, fields, OPT_LENGTH, OPT_FRAGMENT, OPT_FIN
SEQUENCE_MASK: Final = 0xFFFF_FFFF
_HALF: Final = 1 << 31
_CHECKSUM_AT: Final = 6
_CHECKSUM = struct.Struct(">H")


def distance(one: int, other: int) -> int:
    """How far a sequence number is ahead of another, modulo 2^32; negative: before it."""
    return ((one - other + _HALF) & SEQUENCE_MASK) - _HALF


def follow(sequence: int, steps: int = 1) -> int:
    """The sequence number this many steps further on."""
    return (sequence + steps) & SEQUENCE_MASK


class PgmFlags(Flags):
    """The Options octet (8); its bits as everybody sends them, counted from the lowest."""

    present = bits(0)  # option extensions follow
    network = bits(1)  # some of them matter to network elements
    variable_length = bits(6)
    parity = bits(7)


class PgmHeader(NamedTuple):
    """What every packet begins with (8)."""

    source_port: u16
    destination_port: u16
    type: u8
    options: Annotated[PgmFlags, "B"]
    checksum: u16
    gsi: Annotated[bytes, "6s"]
    tsdu_length: u16


class Spm(NamedTuple):
    """Source Path Message (8.1)."""

    sequence: u32
    trailing: u32
    leading: u32
    family: u16
    reserved: u16
    path: Annotated[bytes, "4s"]  # address of the last PGM hop


class Data(NamedTuple):
    """ODATA and RDATA (8.2)."""

    sequence: u32
    trailing: u32


class Nak(NamedTuple):
    """NAK, NNAK and NCF (8.3)."""

    sequence: u32
    source_family: u16
    reserved: u16
    source: Annotated[bytes, "4s"]
    group_family: u16
    reserved_group: u16
    group: Annotated[bytes, "4s"]


PGM_HEADER = Layout(PgmHeader, ">")
SPM_FIELDS = Layout(Spm, ">")
DATA_FIELDS = Layout(Data, ">")
NAK_FIELDS = Layout(Nak, ">")
assert PGM_HEADER.size == 16
assert SPM_FIELDS.size == 20
assert DATA_FIELDS.size == 8
assert NAK_FIELDS.size == 20


class Tsi(NamedTuple):
    """Transport Session Identifier (2): a source and one of its sessions."""

    gsi: bytes
    port: int

    def __str__(self) -> str:
        return f"{self.gsi.hex()}:{self.port}"


class PgmPacket(NamedTuple):
    """A packet with everything in it. `body` is None where the type has no effect here."""

    header: PgmHeader
    body: Spm | Data | Nak | None
    options: Options
    data: bytes

    @property
    def tsi(self) -> Tsi:
        """The session it belongs to, whichever side sent it."""
        header = self.header
        back = header.type in _FROM_RECEIVERS
        return Tsi(header.gsi, header.destination_port if back else header.source_port)

    @property
    def port(self) -> int:
        """The data-destination port: that of the application."""
        header = self.header
        back = header.type in _FROM_RECEIVERS
        return header.source_port if back else header.destination_port

    @property
    def sequences(self) -> tuple[int, ...]:
        """All that a NAK or NCF is about: its own number and those of its list (9.3)."""
        assert isinstance(self.body, Nak)
        return tuple(dict.fromkeys((self.body.sequence, *self.options.nak_list)))


def pack_nla(address: str) -> bytes:
    """An IPv4 address as it stands in packets."""
    return bytes(map(int, address.split(".")))


def unpack_nla(address: bytes) -> str:
    """An IPv4 address as text."""
    return "{}.{}.{}.{}".format(*address)


# -- writing


def pack_spm(
    tsi: Tsi,
    port: int,
    *,
    sequence: int,
    trailing: int,
    leading: int,
    path: str,
    options: Options = NO_OPTIONS,
) -> bytes:
    """A source path message (8.1)."""
    fields = SPM_FIELDS.pack(Spm(sequence, trailing, leading, AFI_IPV4, 0, pack_nla(path)))
    return _pack(SPM, (tsi.port, port), tsi.gsi, fields, options)


def pack_data(
    kind: int,
    tsi: Tsi,
    port: int,
    *,
    sequence: int,
    trailing: int,
    data: bytes,
    options: Options = NO_OPTIONS,
) -> bytes:
    """Original data or its repair (8.2)."""
    fields = DATA_FIELDS.pack(Data(sequence, trailing))
    return _pack(kind, (tsi.port, port), tsi.gsi, fields, options, data)


def pack_nak(
    kind: int, tsi: Tsi, port: int, *, sequences: tuple[int, ...], source: str, group: str
) -> bytes:
    """A NAK of a receiver or its confirmation by the source (8.3)."""
    nak = Nak(sequences[0], AFI_IPV4, 0, pack_nla(source), AFI_IPV4, 0, pack_nla(group))
    options = NO_OPTIONS._replace(nak_list=sequences[1:]) if len(sequences) > 1 else NO_OPTIONS
    ports = (port, tsi.port) if kind in _FROM_RECEIVERS else (tsi.port, port)
    return _pack(kind, ports, tsi.gsi, NAK_FIELDS.pack(nak), options)


def _pack(
    kind: int,
    ports: tuple[int, int],
    gsi: bytes,
    fields: bytes,
    options: Options,
    data: bytes = b"",
) -> bytes:
    extensions = pack_options(options)
    flags = PgmFlags(bool(extensions) | options.network_significant << 1)
    header = PGM_HEADER.pack(PgmHeader(*ports, kind, flags, 0, gsi, len(data)))
    packet = b"".join((header, fields, extensions, data))
    check = _CHECKSUM.pack(checksum(packet))
    return packet[:_CHECKSUM_AT] + check + packet[_CHECKSUM_AT + 2 :]


def checksum(packet: bytes) -> int:
    """One's complement of the one's complement sum, without a pseudo header; never zero (8).

    65,536 is 1 modulo 65,535, so the remainder of the whole number is the sum of its words.
    """
    if len(packet) % 2:
        packet += b"\0"
    return 0xFFFF - int.from_bytes(packet, "big") % 0xFFFF


# -- reading


def read_pgm(datagram: bytes) -> PgmPacket:
    """A packet that is whole, and fits its datagram and its checksum."""
    header = PGM_HEADER.unpack(datagram)
    if header.type not in TYPE_NAMES:  # another version has its bits there, too
        raise MalformedPacket(f"a PGM packet of version or type 0x{header.type:02X}")
    _check_sum(datagram, header)
    if header.type in _WITHOUT_EFFECT:
        return PgmPacket(header, None, NO_OPTIONS, b"")
    body, at = _read_body(datagram, header)
    options = NO_OPTIONS
    if header.options.present:
        options, at = read_options(datagram, at)
    if len(datagram) - at != header.tsdu_length:
        raise MalformedPacket(f"{header.tsdu_length} bytes of data announced, {len(datagram) - at}")
    packet = PgmPacket(header, body, options, datagram[at:])
    _check_data(packet)
    return packet


def _check_sum(datagram: bytes, header: PgmHeader) -> None:
    if header.checksum == 0:
        if header.type in (ODATA, RDATA):
            raise MalformedPacket("a data packet without checksum")
    elif checksum(datagram) != 0xFFFF:
        raise MalformedPacket("a wrong checksum")


def _read_body(datagram: bytes, header: PgmHeader) -> tuple[Spm | Data | Nak, int]:
    start = PGM_HEADER.size
    if header.type == SPM:
        return _checked_spm(SPM_FIELDS.unpack(datagram, start)), start + SPM_FIELDS.size
    if header.type in (ODATA, RDATA):
        return _checked_data(DATA_FIELDS.unpack(datagram, start)), start + DATA_FIELDS.size
    return _checked_nak(NAK_FIELDS.unpack(datagram, start)), start + NAK_FIELDS.size


def _checked_spm(spm: Spm) -> Spm:
    if spm.family != AFI_IPV4:
        raise MalformedPacket(f"an address of the family {spm.family}")
    if distance(spm.leading, spm.trailing) < -1:
        raise MalformedPacket("a window that ends before it begins")
    return spm


def _checked_data(data: Data) -> Data:
    if distance(data.sequence, data.trailing) < 0:
        raise MalformedPacket("data in front of its window")
    return data


def _checked_nak(nak: Nak) -> Nak:
    if (nak.source_family, nak.group_family) != (AFI_IPV4, AFI_IPV4):
        raise MalformedPacket(f"addresses of the families {nak.source_family, nak.group_family}")
    return nak


def _check_data(packet: PgmPacket) -> None:
    if not isinstance(packet.body, Data):
        if packet.data:
            raise MalformedPacket("data in a packet that has none")
        return
    fragment = packet.options.fragment
    if fragment is None:
        return
    steps = distance(packet.body.sequence, fragment.first_sequence)
    if fragment.offset + len(packet.data) > fragment.length or steps < 0:
        raise MalformedPacket("a fragment outside of its unit")
    if (steps == 0) != (fragment.offset == 0):
        raise MalformedPacket("a fragment at another position than its number")


def pgm_extent(data: bytes, at: int) -> int:
    """How long the packet is that begins here, of several one after the other."""
    header = PGM_HEADER.unpack(data, at)
    sizes = {SPM: SPM_FIELDS.size, ODATA: DATA_FIELDS.size, RDATA: DATA_FIELDS.size}
    kinds = {NAK: NAK_FIELDS.size, NNAK: NAK_FIELDS.size, NCF: NAK_FIELDS.size, SPMR: 0}
    fields = (sizes | kinds).get(header.type)
    if fields is None:
        raise MalformedPacket(f"a PGM packet of type 0x{header.type:02X}")
    end = at + PGM_HEADER.size + fields
    if header.options.present:
        end = read_options(data, end)[1]
    if end + header.tsdu_length > len(data):
        raise Truncated(f"it has {end + header.tsdu_length - at} bytes, {len(data) - at} are left")
    return end + header.tsdu_length - at
