"""PGM packets (RFC 3208 8-9)."""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket, RemoteProtocolError
from posthouse.wire.pgm.options import (
    NAK_LIST_MAX,
    NO_OPTIONS,
    Fragment,
    Options,
    Reset,
    pack_options,
    read_options,
)
from posthouse.wire.pgm.packets import (
    ACK,
    DATA_OVERHEAD,
    IP_PROTOCOL,
    NAK,
    NCF,
    NNAK,
    ODATA,
    POLL,
    POLR,
    RDATA,
    ROUTER_ALERT,
    SPM,
    SPMR,
    Data,
    Nak,
    PgmPacket,
    Spm,
    Tsi,
    checksum,
    distance,
    follow,
    pack_data,
    pack_nak,
    pack_nla,
    pack_spm,
    pgm_extent,
    read_pgm,
    unpack_nla,
)

TSI = Tsi(bytes.fromhex("a1a2a3a4a5a6"), 0x1234)
PORT = 8001
SOURCE, GROUP = "10.1.2.3", "234.1.1.1"
u32 = st.integers(0, 0xFFFF_FFFF)


def spm(**more: object) -> bytes:
    values = {"sequence": 7, "trailing": 100, "leading": 109, "path": SOURCE}
    return pack_spm(TSI, PORT, **(values | more))  # type: ignore[arg-type]


def data(kind: int = ODATA, options: Options = NO_OPTIONS, body: bytes = b"hello") -> bytes:
    return pack_data(kind, TSI, PORT, sequence=105, trailing=100, data=body, options=options)


def nak(kind: int = NAK, *sequences: int) -> bytes:
    return pack_nak(kind, TSI, PORT, sequences=sequences or (105,), source=SOURCE, group=GROUP)


def resum(packet: bytes) -> bytes:
    """The packet with the checksum that it should have."""
    blank = packet[:6] + b"\0\0" + packet[8:]
    return blank[:6] + struct.pack(">H", checksum(blank)) + blank[8:]


ALL = [
    spm(),
    spm(options=NO_OPTIONS._replace(fin=True)),
    spm(options=NO_OPTIONS._replace(reset=Reset(True, 5), join=99)),
    data(),
    data(RDATA, NO_OPTIONS._replace(fragment=Fragment(103, 2800, 3000), syn=True)),
    data(ODATA, NO_OPTIONS._replace(fin=True), b""),
    nak(),
    nak(NAK, 105, 106, 109),
    nak(NNAK),
    nak(NCF, 105, 0xFFFF_FFFF),
]


@pytest.mark.spec("PGM/1")
def test_it_is_protocol_113_and_the_network_has_to_find_three_types() -> None:
    assert IP_PROTOCOL == 113
    assert {SPM, NCF, RDATA} == ROUTER_ALERT


@pytest.mark.spec("PGM/2", "PGM/10")
def test_an_spm_has_its_sixteen_and_twenty_octets() -> None:
    packet = spm()
    assert packet[:4].hex() == "12341f41"
    assert packet[4:6].hex() == "0000"
    assert packet[8:16].hex() == "a1a2a3a4a5a60000"
    assert packet[16:].hex() == "00000007000000640000006d000100000a010203"


@pytest.mark.spec("PGM/2", "PGM/9", "PGM/11")
def test_a_data_packet_has_number_and_trailing_edge_in_front_of_its_data() -> None:
    packet = data()
    assert packet[4:6].hex() == "0400"
    assert packet[14:16].hex() == "0005"
    assert packet[16:].hex() == "0000006900000064" + b"hello".hex()
    assert data(RDATA)[4:6].hex() == "0500"


@pytest.mark.spec("PGM/12", "PGM/9")
@pytest.mark.parametrize(("kind", "code"), [(NAK, "08"), (NNAK, "09"), (NCF, "0a")])
def test_a_nak_names_number_source_and_group(kind: int, code: str) -> None:
    packet = nak(kind)
    assert packet[4:5].hex() == code
    assert packet[14:16] == b"\0\0"
    assert packet[16:].hex() == "00000069000100000a01020300010000ea010101"


@pytest.mark.spec("PGM/3")
def test_types_have_their_numbers_and_version_zero() -> None:
    numbers = {SPM: 0, ODATA: 4, RDATA: 5, NAK: 8, NCF: 10, SPMR: 12}
    assert all(kind == number for kind, number in numbers.items())
    assert {read_pgm(packet).header.type >> 6 for packet in ALL} == {0}


@pytest.mark.spec("PGM/8")
def test_ports_of_receivers_are_exchanged() -> None:
    for packet in ALL:
        read = read_pgm(packet)
        assert (read.tsi, read.port) == (TSI, PORT)
        ports = read.header.source_port, read.header.destination_port
        back = read.header.type in (NAK, NNAK)
        assert ports == ((PORT, TSI.port) if back else (TSI.port, PORT))


@pytest.mark.spec("PGM/7", "PGM/8")
def test_an_spm_request_names_the_session_with_exchanged_ports() -> None:
    header = struct.pack(">HHBBH6sH", PORT, TSI.port, SPMR, 0, 0, TSI.gsi, 0)
    read = read_pgm(header)
    assert (read.tsi, read.port, read.body) == (TSI, PORT, None)


@pytest.mark.spec("PGM/4")
@pytest.mark.parametrize("kind", [0x40, 0x44, 0x80, 0xC0, 0x03, 0x06, 0x0B, 0x0E, 0x14])
def test_other_versions_and_types_are_discarded(kind: int) -> None:
    packet = data()
    with pytest.raises(MalformedPacket):
        read_pgm(resum(packet[:4] + bytes([kind]) + packet[5:]))


@pytest.mark.spec("PGM/4")
@pytest.mark.parametrize("packet", ALL)
def test_lengths_that_do_not_fit_are_discarded(packet: bytes) -> None:
    for size in range(len(packet)):
        with pytest.raises(RemoteProtocolError):
            read_pgm(resum(packet[:size]) if size >= 8 else packet[:size])
    with pytest.raises(MalformedPacket):
        read_pgm(resum(packet + b"\0\0"))


@pytest.mark.spec("PGM/9")
def test_data_in_a_packet_without_data_is_discarded() -> None:
    packet = spm() + b"more"
    packet = packet[:14] + b"\0\4" + packet[16:]
    with pytest.raises(MalformedPacket):
        read_pgm(resum(packet))


@pytest.mark.spec("PGM/5")
@given(st.binary(min_size=16, max_size=200))
def test_the_checksum_is_that_of_the_internet(packet: bytes) -> None:
    padded = packet + b"\0" * (len(packet) % 2)
    total = sum(struct.unpack(f">{len(padded) // 2}H", padded))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    assert checksum(packet) == ((~total & 0xFFFF) or 0xFFFF)


@pytest.mark.spec("PGM/5")
def test_a_sum_of_zero_is_sent_as_all_ones() -> None:
    assert checksum(bytes.fromhex("ffff0000")) == 0xFFFF
    for word in range(0x10000):
        packet = data(body=struct.pack(">H", word))
        if packet[6:8] == b"\xff\xff":
            break
    assert packet[6:8] == b"\xff\xff"
    assert read_pgm(packet).data == struct.pack(">H", word)


@pytest.mark.spec("PGM/6")
@pytest.mark.parametrize("packet", ALL)
def test_a_wrong_checksum_is_discarded_and_data_has_one(packet: bytes) -> None:
    bare = packet[:6] + b"\0\0" + packet[8:]
    if packet[4] in (ODATA, RDATA):
        with pytest.raises(MalformedPacket):
            read_pgm(bare)
    else:
        assert read_pgm(bare)[1:] == read_pgm(packet)[1:]
    for at in range(len(packet)):
        wrong = bytearray(packet)
        wrong[at] ^= 0x10
        with pytest.raises(RemoteProtocolError):
            read_pgm(bytes(wrong))


@pytest.mark.spec("PGM/13", "PGM/14")
def test_options_are_announced_by_bits_and_by_their_length() -> None:
    assert data()[5] == 0
    packet = data(options=NO_OPTIONS._replace(fin=True))
    assert packet[5] == 0x01
    assert packet[24:32].hex() == "000400088e040000"
    packet = nak(NAK, 105, 107)
    assert packet[5] == 0x03
    assert packet[36:].hex() == "0004000c820800000000006b"


@pytest.mark.spec("PGM/14")
def test_only_the_last_option_has_the_end_bit() -> None:
    options = NO_OPTIONS._replace(nak_list=(1,), join=2, syn=True, fin=True, reset=Reset())
    packed, at, ends = pack_options(options), 4, []
    while at < len(packed):
        ends.append(bool(packed[at] & 0x80))
        at += packed[at + 1]
    assert ends == [False] * 4 + [True]
    assert read_options(packed, 0) == (options, len(packed))


@pytest.mark.spec("PGM/13")
def test_parity_packets_are_marked() -> None:
    packet = data()
    read = read_pgm(resum(packet[:5] + b"\xc0" + packet[6:]))
    assert (read.header.options.parity, read.header.options.variable_length) == (1, 1)


def with_option(option: bytes) -> bytes:
    """A data packet with one more option in front of OPT_FIN."""
    extensions = struct.pack(">BBH", 0, 4, 8 + len(option)) + option + b"\x8e\x04\0\0"
    packet = data()
    return resum(packet[:5] + b"\x01" + packet[6:24] + extensions + packet[24:])


@pytest.mark.spec("PGM/15")
def test_an_unknown_option_says_itself_what_becomes_of_it() -> None:
    kept = read_pgm(with_option(b"\x55\x04\x00\x00"))
    assert (kept.options.others, kept.options.fin, kept.data) == ((0x55,), True, b"hello")
    invalidated = read_pgm(with_option(b"\x55\x08\x01\x00abcd"))
    assert (invalidated.options.others, invalidated.options.fin) == ((), True)
    for extensibility in (2, 3):
        with pytest.raises(MalformedPacket):
            read_pgm(with_option(bytes([0x55, 4, extensibility, 0])))


def test_options_of_sections_that_are_left_out_are_harmless() -> None:
    for kind in (0x04, 0x05, 0x07, 0x08, 0x0B, 0x10, 0x7F):
        assert read_pgm(with_option(bytes([kind, 4, 2, 0]))).options.others == (kind,)


@pytest.mark.parametrize(
    "option",
    [
        b"\x55\x03\x00",  # shorter than any
        b"\x55\x00\x00\x00",
        b"\x55\xff\x00\x00",  # beyond the end
        b"\x01\x0c\x00\x00" + bytes(8),  # OPT_FRAGMENT as the RFC prints its length
        b"\x02\x04\x00\x00",  # an empty list
        b"\x02\x07\x00\x00abc",
        b"\x02\xff\x00\x00" + bytes(251),
        b"\x03\x04\x00\x00",
        b"\x0d\x08\x00\x00" + bytes(4),
        b"\x0f\x08\x00\x00" + bytes(4),
        b"\x8e\x04\x00\x00",  # the end before the end
        b"\x55\x04\x00\x00" * 16,  # too many
    ],
)
def test_options_that_do_not_fit_are_discarded(option: bytes) -> None:
    with pytest.raises(MalformedPacket):
        read_pgm(with_option(option))


def test_options_begin_with_their_length() -> None:
    packet = with_option(b"")
    for wrong in (b"\x01\x04\x00\x08", b"\x00\x05\x00\x08", b"\x00\x04\x00\x02"):
        with pytest.raises(MalformedPacket):
            read_pgm(resum(packet[:24] + wrong + packet[28:]))


@pytest.mark.spec("PGM/16")
def test_a_fragment_has_first_number_offset_and_length() -> None:
    packet = data(options=NO_OPTIONS._replace(fragment=Fragment(103, 2800, 3000)))
    assert packet[24:44].hex() == "00040014811000000000006700000af000000bb8"
    assert len(packet) <= DATA_OVERHEAD + 5
    assert read_pgm(packet).options.fragment == Fragment(103, 2800, 3000)


@pytest.mark.spec("PGM/39")
@pytest.mark.parametrize(
    "fragment",
    [
        Fragment(105, 1400, 3000),  # the first one, but not at the beginning
        Fragment(104, 0, 3000),  # the second at the beginning
        Fragment(106, 1400, 3000),  # in front of the first
        Fragment(104, 2996, 3000),  # beyond the end
    ],
)
def test_a_fragment_that_contradicts_itself_is_discarded(fragment: Fragment) -> None:
    with pytest.raises(MalformedPacket):
        read_pgm(data(options=NO_OPTIONS._replace(fragment=fragment)))


@pytest.mark.spec("PGM/17")
def test_a_nak_lists_up_to_62_further_numbers() -> None:
    numbers = tuple(range(0xFFFF_FFF0, 0xFFFF_FFF0 + 16)) + tuple(range(47))
    assert len(numbers) == NAK_LIST_MAX + 1
    assert read_pgm(nak(NAK, *numbers)).sequences == numbers
    with pytest.raises(struct.error):
        nak(NAK, *numbers, 99)


def test_a_number_that_is_listed_twice_counts_once() -> None:
    assert read_pgm(nak(NAK, 5, 6, 5, 6)).sequences == (5, 6)


@pytest.mark.spec("PGM/18")
@given(u32, st.integers(-(1 << 31), (1 << 31) - 1))
def test_numbers_are_compared_modulo_two_to_the_32(number: int, steps: int) -> None:
    assert distance(follow(number, steps), number) == steps


@pytest.mark.spec("PGM/18")
def test_a_window_that_ends_before_it_begins_is_discarded() -> None:
    assert isinstance(read_pgm(spm(trailing=0, leading=0xFFFF_FFFF)).body, Spm)
    for leading in (98, 0x8000_0000 + 100, 0xFFFF_FFFF):
        with pytest.raises(MalformedPacket):
            read_pgm(spm(leading=leading))
    with pytest.raises(MalformedPacket):
        read_pgm(pack_data(ODATA, TSI, PORT, sequence=99, trailing=100, data=b"x"))


def test_addresses_are_those_of_ipv4() -> None:
    assert unpack_nla(pack_nla(SOURCE)) == SOURCE
    packet = spm()
    with pytest.raises(MalformedPacket):
        read_pgm(resum(packet[:28] + b"\0\2" + packet[30:]))
    packet = nak()
    for at in (20, 28):
        with pytest.raises(MalformedPacket):
            read_pgm(resum(packet[:at] + b"\0\2" + packet[at + 2 :]))


@pytest.mark.spec("MC-MQSRM 2.1.3/2")
@pytest.mark.parametrize("kind", [POLL, POLR, SPMR, ACK])
def test_packets_of_other_roles_are_read_without_effect(kind: int) -> None:
    packet = struct.pack(">HHBBH6sH", 1, 2, kind, 0, 0, TSI.gsi, 0) + b"whatever"
    assert read_pgm(packet).body is None


@given(
    st.sampled_from([ODATA, RDATA]),
    u32,
    st.integers(0, (1 << 31) - 1),
    st.binary(max_size=1500),
    st.booleans(),
    st.booleans(),
    st.none() | u32,
)
def test_any_data_packet_comes_back(
    kind: int, trailing: int, ahead: int, body: bytes, syn: bool, fin: bool, join: int | None
) -> None:
    options = NO_OPTIONS._replace(syn=syn, fin=fin, join=join)
    sequence = follow(trailing, ahead)
    packet = pack_data(
        kind, TSI, PORT, sequence=sequence, trailing=trailing, data=body, options=options
    )
    read = read_pgm(packet)
    assert read[1:] == (Data(sequence, trailing), options, body)
    assert pgm_extent(b"__" + packet + packet, 2) == len(packet)


def test_packets_one_behind_the_other_are_told_apart() -> None:
    everything, at = b"".join(ALL), 0
    for packet in ALL:
        assert pgm_extent(everything, at) == len(packet)
        at += len(packet)
    with pytest.raises(RemoteProtocolError):
        pgm_extent(everything[:-1], len(everything) - len(ALL[-1]))
    with pytest.raises(MalformedPacket):
        pgm_extent(b"\0\0\0\0\x01" + bytes(20), 0)


def test_a_nak_has_its_fields() -> None:
    body = read_pgm(nak()).body
    assert isinstance(body, Nak)
    assert (unpack_nla(body.source), unpack_nla(body.group)) == (SOURCE, GROUP)


@given(st.binary(max_size=120))
def test_any_bytes_are_a_packet_or_refused(datagram: bytes) -> None:
    for packet in (datagram, resum(datagram) if len(datagram) >= 8 else datagram):
        with suppress(RemoteProtocolError):
            assert isinstance(read_pgm(packet), PgmPacket)


@given(st.sampled_from(ALL), st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255))))
def test_any_change_of_a_packet_is_a_packet_or_refused(
    packet: bytes, changes: list[tuple[int, int]]
) -> None:
    changed = bytearray(packet)
    for at, value in changes:
        changed[at % len(changed)] = value
    try:
        read = read_pgm(resum(bytes(changed)))
    except RemoteProtocolError:
        return
    assert len(read.data) == read.header.tsdu_length or read.body is None


def test_every_type_and_flag_octet_is_handled() -> None:
    for packet, kind, flags in product(ALL, range(256), (0, 1, 2, 3, 0x80, 0xC1)):
        changed = resum(packet[:4] + bytes([kind, flags]) + packet[6:])
        try:
            read_pgm(changed)
        except RemoteProtocolError:
            continue
