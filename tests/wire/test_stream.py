"""Bytes cut into packets: in any pieces, with damage, with promises that are not kept."""

import itertools
import struct
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket, RemoteProtocolError, Truncated
from posthouse.wire.binary.internal import read_session_ack
from posthouse.wire.binary.stream import PacketKind, PacketSplitter, packet_kind
from posthouse.wire.packet.headers import PACKET_SIZE_MAX, BaseFlags, SessionHeader
from posthouse.wire.packet.packet import Packet

from .vectors import (
    MINIMAL,
    SESSION,
    TRACED,
    USER_MESSAGE,
    USER_MESSAGES,
    edited,
    resized,
    vector,
    with_base_flags,
)

EC = vector("ms-mqqb/4.1.3-establish-connection-request")
CP = vector("ms-mqqb/4.1.5-connection-parameters-request")
ACK = vector("ms-mqqb/4.1.8-session-ack")
SH = BaseFlags.of(session_header=1)
BEHIND = with_base_flags(MINIMAL, on=SH) + SESSION  # decision 27
INSIDE = resized(BEHIND)
FORGOTTEN = with_base_flags(MINIMAL, on=SH)
ACK_BEHIND = edited(ACK[:20], 8, "<I", 20) + SESSION
STREAM = [EC, CP, USER_MESSAGE, ACK, BEHIND, *USER_MESSAGES.values(), INSIDE, ACK_BEHIND, TRACED]


def header(size: int, flags: int = 3) -> bytes:
    return struct.pack("<BxHIII", 0x10, flags, 0x524F494C, size, 0xFFFFFFFF)


def fed(splitter: PacketSplitter, data: bytes, piece: int) -> list[bytes]:
    pieces = (data[at : at + piece] for at in range(0, len(data), piece))
    return list(itertools.chain.from_iterable(map(splitter.feed, pieces)))


class TestKind:
    @pytest.mark.spec("MS-MQQB 3.1.5.1.1/1", "MS-MQQB 2.1.1/7", "MS-MQQB 2.2.1/2")
    def test_internal_packets_are_known_by_their_type(self) -> None:
        assert packet_kind(EC) is PacketKind.ESTABLISH_CONNECTION
        assert packet_kind(CP) is PacketKind.CONNECTION_PARAMETERS
        assert packet_kind(ACK) is PacketKind.SESSION_ACK

    @pytest.mark.spec("MS-MQQB 3.1.5.1.1/1")
    def test_a_session_ack_without_sh_is_refused(self) -> None:
        with pytest.raises(MalformedPacket, match="SH"):
            packet_kind(with_base_flags(ACK, off=SH))

    @pytest.mark.spec("MS-MQQB 2.2.1/3", "MS-MQQB 2.1.1/7")
    @pytest.mark.parametrize("packet_type", [0, *range(4, 16)])
    def test_other_types_are_refused(self, packet_type: int) -> None:
        with pytest.raises(MalformedPacket, match=f"type {packet_type}"):
            packet_kind(edited(ACK, 18, "<H", packet_type))

    @pytest.mark.spec("MS-MQQB 2.2.1/7")
    def test_reserved_bits_do_not_change_the_type(self) -> None:
        assert packet_kind(edited(ACK, 18, "<H", 0xFFE1)) is PacketKind.SESSION_ACK

    @pytest.mark.spec("MS-MQQB 3.1.5.1.1/4")
    @pytest.mark.parametrize("code", [0, 1, 2, 0xFF, 0x4000, 0x8004, 0xC004, 0xFFFF])
    def test_every_class_may_be_a_user_message(self, code: int) -> None:
        packet = edited(USER_MESSAGE, 138, "<H", code)
        assert Packet(packet).message_class == code
        assert packet_kind(packet) is PacketKind.USER_MESSAGE

    @pytest.mark.parametrize("packet", USER_MESSAGES.values(), ids=USER_MESSAGES)
    def test_user_messages_are_known(self, packet: bytes) -> None:
        assert packet_kind(packet) is PacketKind.USER_MESSAGE

    @pytest.mark.spec("MS-MQQB 3.1.5.1.2/1", "MS-MQQB 3.1.5.1.2/2")
    @pytest.mark.parametrize(("at", "value"), [(0, 0x11), (0, 0), (4, 0x52), (5, 0), (7, 0x4C)])
    def test_version_and_signature_are_verified(self, at: int, value: int) -> None:
        for packet in (EC, USER_MESSAGE):
            with pytest.raises(MalformedPacket, match="not a message queuing packet"):
                packet_kind(edited(packet, at, "B", value))

    def test_a_cut_packet_is_refused(self) -> None:
        for packet in (ACK[:19], EC[:16], MINIMAL[:63], b"", b"\x10"):
            with pytest.raises(Truncated):
                packet_kind(packet)

    @given(st.binary(max_size=100))
    def test_any_bytes_have_a_kind_or_are_refused(self, data: bytes) -> None:
        with suppress(RemoteProtocolError):
            packet_kind(data)
        with suppress(RemoteProtocolError):
            packet_kind(header(len(data) + 16, len(data) & 0x1F) + data)


class TestSplitting:
    @pytest.mark.parametrize("piece", [1, 2, 3, 7, 15, 16, 17, 64, 100, 573, 5000, 1 << 20])
    def test_packets_come_out_whole_however_they_arrive(self, piece: int) -> None:
        splitter = PacketSplitter()
        assert fed(splitter, b"".join(STREAM), piece) == STREAM
        assert splitter.error is None
        assert splitter.held == 0

    @given(st.lists(st.sampled_from(STREAM), max_size=6), st.data())
    def test_packets_come_out_whole_in_any_pieces(
        self, packets: list[bytes], data: st.DataObject
    ) -> None:
        stream = b"".join(packets)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
        splitter = PacketSplitter()
        found: list[bytes] = []
        for start, stop in itertools.pairwise([0, *cuts, len(stream)]):
            found += splitter.feed(stream[start:stop])
        assert found == packets
        assert splitter.error is None

    def test_a_packet_is_there_with_its_last_byte(self) -> None:
        splitter = PacketSplitter()
        assert splitter.feed(EC + USER_MESSAGE[:-1]) == [EC]
        assert splitter.held == len(USER_MESSAGE) - 1
        assert splitter.feed(USER_MESSAGE[-1:]) == [USER_MESSAGE]
        assert splitter.held == 0

    def test_no_bytes_change_nothing(self) -> None:
        splitter = PacketSplitter()
        assert splitter.feed(b"") == []
        assert splitter.feed(ACK[:5]) == []
        assert splitter.feed(b"") == []
        assert splitter.feed(ACK[5:]) == [ACK]


class TestSessionHeader:
    @pytest.mark.spec("MS-MQMQ 2.2.19.1/3", "MS-MQQB 2.2.6/3")
    @pytest.mark.parametrize("piece", [1, 16, 1000])
    @pytest.mark.parametrize("packet", [INSIDE, BEHIND], ids=["inside", "behind"])
    def test_it_is_found_inside_packet_size_and_behind(self, packet: bytes, piece: int) -> None:
        found = fed(PacketSplitter(), packet + CP, piece)
        assert found == [packet, CP]
        assert Packet(found[0]).session == SessionHeader(1, 2, 3, 4, 5, 64, 0)

    @pytest.mark.spec("MS-MQQB 2.2.6/2")
    @pytest.mark.parametrize("piece", [1, 16, 1000])
    def test_a_session_ack_may_have_it_behind(self, piece: int) -> None:
        found = fed(PacketSplitter(), ACK_BEHIND + ACK, piece)
        assert found == [ACK_BEHIND, ACK]
        assert read_session_ack(found[0]).header.ack_sequence_number == 1

    @pytest.mark.parametrize("piece", [1, 16, 1000])
    def test_a_packet_where_it_is_due_is_a_packet(self, piece: int) -> None:
        assert fed(PacketSplitter(), FORGOTTEN * 2 + CP, piece) == [FORGOTTEN, FORGOTTEN, CP]

    def test_a_message_is_not_given_out_before_its_session_header(self) -> None:
        splitter = PacketSplitter()
        assert splitter.feed(BEHIND[:-1]) == []
        assert splitter.feed(BEHIND[-1:]) == [BEHIND]

    def test_a_message_too_damaged_to_find_it_is_refused(self) -> None:
        splitter = PacketSplitter()
        damaged = with_base_flags(edited(USER_MESSAGE, 168, "<I", 0xFFFFFFFF), on=SH)
        assert splitter.feed(CP + damaged) == [CP]
        assert isinstance(splitter.error, RemoteProtocolError)


class TestRefusal:
    @pytest.mark.spec("MS-MQQB 3.1.5.1.2/1", "MS-MQQB 3.1.5.1.2/2", "MS-MQQB 3.1.5.1/2")
    @pytest.mark.parametrize(("at", "value"), [(0, 0x11), (4, 0x52), (7, 0x4C)])
    @pytest.mark.parametrize("piece", [1, 1000])
    def test_a_bad_front_is_refused_with_its_sixteenth_byte(
        self, at: int, value: int, piece: int
    ) -> None:
        splitter = PacketSplitter()
        bad = edited(header(100), at, "B", value)
        assert fed(splitter, bad[:15], piece) == []
        assert splitter.error is None
        assert splitter.feed(bad[15:]) == []
        assert isinstance(splitter.error, MalformedPacket)
        assert splitter.held == 0

    @pytest.mark.spec("MS-MQQB 3.1.5.1.3/2", "MS-MQMQ 2.2.19.1/2")
    @pytest.mark.parametrize("size", [0, 15, PACKET_SIZE_MAX + 1, 0xFFFFFFFF])
    def test_an_impossible_packet_size_is_refused_at_once(self, size: int) -> None:
        splitter = PacketSplitter()
        assert splitter.feed(header(size)) == []
        assert splitter.error is not None
        assert f"packet of {size} bytes" in str(splitter.error)

    @pytest.mark.spec("MS-MQQB 3.1.5.1.3/2")
    @pytest.mark.parametrize("size", [16, PACKET_SIZE_MAX])
    def test_sizes_at_the_limits_are_waited_for(self, size: int) -> None:
        splitter = PacketSplitter()
        packets = splitter.feed(header(size))
        assert splitter.error is None
        assert packets == ([header(16)] if size == 16 else [])

    def test_the_limit_is_the_callers(self) -> None:
        assert fed(PacketSplitter(len(USER_MESSAGE)), USER_MESSAGE, 100) == [USER_MESSAGE]
        splitter = PacketSplitter(len(USER_MESSAGE) - 1)
        assert splitter.feed(USER_MESSAGE[:16]) == []
        assert splitter.error is not None

    def test_an_internal_packet_is_never_larger_than_the_largest(self) -> None:
        splitter = PacketSplitter()
        assert splitter.feed(header(573, 0x0B)) == []
        assert splitter.error is not None

    @pytest.mark.spec("MS-MQQB 3.1.5.1.2/2", "MS-MQQB 3.1.5.1.3/1")
    @pytest.mark.parametrize("piece", [1, 50, 10_000])
    def test_good_packets_in_front_are_given_out_and_nothing_behind(self, piece: int) -> None:
        splitter = PacketSplitter()
        assert fed(splitter, EC + CP + b"GET / HTTP/1.1\r\n\r\n" + ACK, piece) == [EC, CP]
        assert splitter.error is not None
        assert splitter.feed(ACK) == []

    @given(st.binary(max_size=300), st.integers(1, 40))
    def test_any_bytes_give_packets_or_an_error(self, data: bytes, piece: int) -> None:
        splitter = PacketSplitter()
        assert b"".join(fed(splitter, data, piece)) == data[:0]
        assert splitter.held <= len(data)

    @given(
        st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=5),
        st.integers(1, 900),
    )
    def test_damage_is_the_same_in_any_pieces(
        self, damage: list[tuple[int, int]], piece: int
    ) -> None:
        data = bytearray(b"".join(STREAM))
        for at, value in damage:
            data[at] = value
        whole, parts = PacketSplitter(), PacketSplitter()
        assert whole.feed(bytes(data)) == fed(parts, bytes(data), piece)
        assert (whole.error is None) == (parts.error is None)
        assert whole.held == parts.held


class TestMemory:
    def test_a_promise_allocates_nothing(self) -> None:
        tracemalloc.start()
        try:
            splitters = [PacketSplitter() for _ in range(200)]
            for splitter in splitters:
                assert splitter.feed(header(PACKET_SIZE_MAX) + bytes(84)) == []
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert sum(splitter.held for splitter in splitters) == 20_000
        assert peak < 400_000

    def test_a_large_packet_in_small_pieces_is_kept_once(self) -> None:
        size = 1 << 20
        splitter = PacketSplitter()
        tracemalloc.start()
        try:
            data = header(size)
            splitter.feed(data)
            piece = bytes(1460)
            for _ in range((size - 16) // 1460):
                assert splitter.feed(piece) == []
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 2.5 * size
        (packet,) = splitter.feed(bytes((size - 16) % 1460))
        assert len(packet) == size

    def test_an_error_keeps_no_bytes(self) -> None:
        splitter = PacketSplitter()
        splitter.feed(header(1000) + bytes(500))
        splitter.feed(bytes(500) + b"x" * 16)
        assert splitter.error is not None
        assert splitter.error.__traceback__ is None
        assert splitter.error.__context__ is None
        assert splitter.held == 0
