"""Capture files: formats, links, fragments, and TCP put together, whatever was captured how."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket, RemoteProtocolError, Truncated
from posthouse.wire.capture import files, packets
from posthouse.wire.capture.connections import Connection, Direction, connections
from posthouse.wire.capture.files import is_capture, pcap_file, read_frames
from posthouse.wire.capture.packets import Datagram, PacketReader
from tests.support.capture_files import (
    ACK,
    CLIENT,
    LINKS,
    RST,
    SERVER,
    SYN,
    TimedFrame,
    block,
    conversation,
    datagram,
    fragments,
    ip_packet,
    pcap,
    pcapng,
    segment,
    timed,
)

V6 = "2001:db8::7", "2001:db8::1"
V4 = CLIENT.address, SERVER.address


def datagrams(data: bytes) -> list[Datagram]:
    return list(PacketReader(data).datagrams(read_frames(data)))


def payloads(data: bytes) -> list[bytes]:
    return [one.payload(data) for one in datagrams(data)]


def passed_over(data: bytes) -> dict[str, int]:
    reader = PacketReader(data)
    list(reader.datagrams(read_frames(data)))
    return dict(reader.passed_over)


def streams(data: bytes) -> list[tuple[Connection, bytes, bytes]]:
    """Each connection with what both sides sent; a gap is a question mark."""
    found = connections(data, [one for one in datagrams(data) if one.protocol == packets.TCP])
    return [(one, joined(data, one.sent), joined(data, one.answered)) for one in found]


def joined(data: bytes, way: Direction) -> bytes:
    return b"".join(b"?" * bool(run.missing) + run.data for run in way.runs(data))


# -- files


@pytest.mark.parametrize("make", [pcap, pcapng])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("ends", [V4, V6], ids=["ipv4", "ipv6"])
def test_every_format_and_link_gives_the_same(
    make: object, order: str, link: str, ends: tuple[str, str]
) -> None:
    frames = timed([ip_packet(*ends, 17, b"hello"), ip_packet(*ends, 6, b"")])
    data = make(frames, link, order)  # type: ignore[operator]
    assert is_capture(data)
    first, second = datagrams(data)
    assert (first.source, first.target) == ends
    assert first.payload(data) == b"hello"
    assert (first.at_us, second.at_us) == (frames[0].at_us, frames[1].at_us)


def test_times_in_nanoseconds_and_powers_of_two() -> None:
    (frame,) = read_frames(pcap([TimedFrame(1_500_000, b"E")], nanoseconds=True))
    assert frame.at_us == 1_500_000
    section = block("<", 0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    options = struct.pack("<HHBxxx", 9, 1, 0x80 | 10) + struct.pack("<HHq", 14, 8, 100)
    interface = block("<", 1, struct.pack("<HHI", 101, 0, 0) + options)
    packet = block("<", 6, struct.pack("<IIIII", 0, 0, 1536, 1, 1) + b"E")
    (frame,) = read_frames(section + interface + packet)
    assert frame.at_us == 101_500_000


def test_a_time_that_is_nonsense_is_the_last_one_there_is() -> None:
    section = block("<", 0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    interface = block("<", 1, struct.pack("<HHI", 101, 0, 0))
    packet = block("<", 6, struct.pack("<IIIII", 0, 0xFFFFFFFF, 0, 1, 1) + b"E")
    (frame,) = read_frames(section + interface + packet)
    assert frame.at_us == 0xFFFFFFFF * 1_000_000


def test_old_and_simple_blocks_of_pcapng() -> None:
    section = block("<", 0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    interface = block("<", 1, struct.pack("<HHI", 101, 0, 0))
    old = block("<", 2, struct.pack("<HHIIII", 0, 0, 0, 7, 3, 3) + b"old")
    simple = block("<", 3, struct.pack("<I", 6) + b"simple")
    data = section + interface + old + simple
    assert [data[one.start : one.end] for one in read_frames(data)] == [b"old", b"simple"]


def test_a_second_section_begins_again() -> None:
    frames = timed([ip_packet(*V4, 17, b"x")])
    data = pcapng(frames, order="<") + pcapng(frames, "ethernet", order=">")
    assert payloads(data) == [b"x", b"x"]


@pytest.mark.parametrize("make", [pcap, pcapng])
def test_a_file_that_was_cut_gives_what_is_there(make: object) -> None:
    frames = timed([ip_packet(*V4, 17, b"first"), ip_packet(*V4, 17, b"second")])
    data = make(frames)[:-3]  # type: ignore[operator]
    frames_left = read_frames(data)
    assert next(frames_left).at_us == frames[0].at_us
    with pytest.raises(Truncated):
        next(frames_left)


@pytest.mark.parametrize(
    "data",
    [
        block("<", 0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4E, 1, 0, -1)),
        pcapng([]) + block("<", 6, struct.pack("<IIIII", 9, 0, 0, 0, 0)),
        pcapng([]) + block("<", 6, struct.pack("<IIIII", 0, 0, 0, 50, 50)),
        pcapng([]) + block("<", 6, b"short"),
        pcapng([]) + struct.pack("<III", 6, 8, 8),
        pcapng([]) + struct.pack("<III", 6, 13, 0) + bytes(8),
    ],
)
def test_a_broken_file_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedPacket):
        list(read_frames(data))


def test_no_more_frames_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FRAMES_MAX", 3)
    data = pcap(timed([b"E"] * 4))
    with pytest.raises(MalformedPacket):
        list(read_frames(data))


def test_what_is_written_can_be_read() -> None:
    whole = [(1_700_000_000_123_456, ip_packet(*V4, 17, b"one")), (5, ip_packet(*V6, 6, b"two"))]
    data = pcap_file(whole)
    assert [(one.at_us, data[one.start : one.end]) for one in read_frames(data)] == whole


@given(st.binary(max_size=300))
def test_any_bytes_are_frames_or_refused(data: bytes) -> None:
    for front in (*files.PCAP, files.PCAPNG, pcapng([]), pcap([])):
        try:
            for one in PacketReader(front + data).datagrams(read_frames(front + data)):
                assert one.payload(front + data) is not None
        except RemoteProtocolError:
            pass


# -- IP


@pytest.mark.parametrize("ends", [V4, V6], ids=["ipv4", "ipv6"])
@given(order=st.permutations(range(5)), again=st.lists(st.integers(0, 4), max_size=3))
def test_fragments_in_any_order_are_one_datagram(
    ends: tuple[str, str], order: list[int], again: list[int]
) -> None:
    payload = bytes(range(100)) + b"end"
    parts = fragments(*ends, 17, payload, 24)
    assert len(parts) == 5
    found = payloads(pcap(timed([parts[at] for at in [*again, *order]])))
    assert found == [payload]


def test_fragments_that_overlap_or_miss_something_are_not_a_datagram() -> None:
    whole = fragments(*V4, 17, bytes(100), 24)
    assert passed_over(pcap(timed(whole[:2] + whole[3:]))) == {"fragments without the rest": 1}
    overlap = ip_packet(*V4, 17, bytes(24), fragment=(77, 2 | 0x2000))
    assert payloads(pcap(timed([whole[0], overlap, *whole[1:]]))) == []


def test_fragments_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packets, "PIECES_MAX", 3)
    assert passed_over(pcap(timed(fragments(*V4, 17, bytes(100), 24)))) == {
        "datagrams of too many fragments": 1,
        "fragments without the rest": 1,
    }


def test_extension_headers_of_ipv6_are_passed_over() -> None:
    udp = b"\x00\x07\x00\x09\x00\x08\x00\x00"
    options = bytes([43, 0]) + bytes(6) + bytes([60, 1]) + bytes(14) + bytes([17, 0]) + bytes(6)
    data = pcap(timed([ip_packet(*V6, 0, options + udp)]))
    (found,) = datagrams(data)
    assert (found.protocol, found.payload(data)) == (17, udp)


@pytest.mark.parametrize(
    "frame", [b"", b"\x45", b"\x55" * 60, bytes(60), b"\x44" + bytes(40), b"\x6f" + bytes(20)]
)
def test_what_is_not_ip_is_counted(frame: bytes) -> None:
    assert passed_over(pcap(timed([frame]))) == {"broken IP packets": 1}


def test_frames_of_other_kinds_are_counted() -> None:
    arp = pcap(timed([ip_packet(*V4, 17, b"")]), "ethernet").replace(
        b"\x08\x00\x45", b"\x08\x06\x45"
    )
    assert passed_over(arp) == {"frames without IP": 1}
    assert passed_over(pcap(timed([ip_packet(*V4, 17, b"")]), "vlan")) == {}


# -- TCP


def test_a_conversation_is_two_streams() -> None:
    data = pcap(timed(conversation((True, b"hello"), (False, b"welcome"), (True, b" again"))))
    ((connection, sent, answered),) = streams(data)
    assert (connection.client, connection.server) == (CLIENT, SERVER)
    assert (sent, answered) == (b"hello again", b"welcome")
    assert connection.has_begun
    assert connection.sent.ended_us is not None
    assert not connection.sent.was_reset


@given(
    st.binary(min_size=1, max_size=200),
    st.integers(1, 60),
    st.randoms(use_true_random=False),
    st.integers(0, 2**32 - 1),
)
def test_any_cut_any_order_and_repetition_give_the_same(
    body: bytes, size: int, chance: object, start: int
) -> None:
    """Also over the end of the sequence numbers, with segments that overlap."""
    frames = conversation((True, body), (False, body[::-1]), start=start, size=size)
    repeated = [frame for frame in frames if chance.random() < 0.3]  # type: ignore[attr-defined]
    overlaps = [
        segment(CLIENT, SERVER, start + at, body[at : at + 2 * size])
        for at in range(0, len(body), 3)
        if chance.random() < 0.2  # type: ignore[attr-defined]
    ]
    mixed = frames + repeated + overlaps
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    ((_, sent, answered),) = streams(pcap(timed(mixed)))
    assert (sent, answered) == (body, body[::-1])


@pytest.mark.parametrize("backwards", [False, True])
def test_numbers_that_wrap_around_go_on(backwards: bool) -> None:
    frames = conversation((True, b"abcdefghij"), start=2**32 - 4, size=3)
    ((_, sent, _),) = streams(pcap(timed(frames[::-1] if backwards else frames)))
    assert sent == b"abcdefghij"


def test_a_segment_that_was_not_captured_is_a_gap() -> None:
    frames = conversation((True, b"abcdef"), (False, b"x"), size=2)
    data = pcap(timed(frames[:3] + frames[4:]))
    ((connection, sent, _),) = streams(data)
    assert sent == b"ab?ef"
    assert [run.missing for run in connection.sent.runs(data)] == [0, 2]


def test_a_beginning_that_was_not_captured() -> None:
    frames = conversation((True, b"abcdef"), (False, b"x"), size=2)
    ((connection, sent, answered),) = streams(pcap(timed(frames[3:])))
    assert (sent, answered) == (b"cdef", b"x")
    assert not connection.has_begun
    assert connection.client == CLIENT  # the lower port listens


def test_the_same_ports_may_be_used_again() -> None:
    first = conversation((True, b"first"), start=1000)
    second = conversation((True, b"second"), start=900_000_000)
    found = streams(pcap(timed(first + second)))
    assert [sent for _, sent, _ in found] == [b"first", b"second"]


def test_a_reset_is_seen_and_answers_that_come_first_do_not_turn_the_sides() -> None:
    frames = [
        segment(SERVER, CLIENT, 500, flags=SYN | ACK),
        segment(CLIENT, SERVER, 100, flags=SYN),
        segment(CLIENT, SERVER, 101, b"hi", RST | ACK),
    ]
    ((connection, sent, _),) = streams(pcap(timed(frames)))
    assert (connection.client, sent) == (CLIENT, b"hi")
    assert connection.sent.was_reset


def test_broken_segments_are_passed_over() -> None:
    short = ip_packet(*V4, 6, b"short")
    wrong = bytearray(segment(CLIENT, SERVER, 1, b"data"))
    wrong[32] = 0xF0
    assert streams(pcap(timed([short, bytes(wrong), datagram(CLIENT, SERVER, b"udp")]))) == []


def test_times_are_those_of_the_last_byte() -> None:
    data = pcap(timed(conversation((True, b"abcdef"), size=2)))
    ((connection, _, _),) = streams(data)
    (run,) = connection.sent.runs(data)
    begin = 1_700_000_000_000_000
    assert [run.time_of(end) - begin for end in (1, 2, 3, 6)] == [2000, 2000, 3000, 4000]
