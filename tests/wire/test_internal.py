"""The internal packets against the frames of [MS-MQQB] 4.1, field by field, and damaged."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import RemoteProtocolError
from posthouse.wire.binary.internal import (
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
    InternalFlags,
    InternalHeader,
    OperatingSystem,
    SessionAck,
    connection_parameters,
    establish_connection,
    establish_connection_response,
    read_connection_parameters,
    read_establish_connection,
    read_session_ack,
    session_ack,
)
from posthouse.wire.packet.headers import BASE_HEADER, BaseFlags, SessionHeader

from .strategies import U16, U32
from .vectors import SESSION, edited, vector, with_base_flags

Read = Callable[[bytes], EstablishConnection | ConnectionParameters | SessionAck]

REQUEST = vector("ms-mqqb/4.1.3-establish-connection-request")
RESPONSE = vector("ms-mqqb/4.1.4-establish-connection-response")
PARAMETERS = vector("ms-mqqb/4.1.5-connection-parameters-request")
PARAMETERS_RESPONSE = vector("ms-mqqb/4.1.6-connection-parameters-response")
ACK = vector("ms-mqqb/4.1.8-session-ack")
CLIENT = bytes.fromhex("d1587355509195954997b6e611ea26c6")
SERVER = bytes.fromhex("0789cd434c39118f44459078909ea0fc")
OTHER_CLIENT = bytes.fromhex("0523741f5ebe7741bc77c4dd7719e474")
OTHER_SERVER = bytes.fromhex("eb6a3a3c67f5434187d385cf4d68ceb4")
SYSTEM = OperatingSystem(0x0310)

FRAMES: dict[str, tuple[Read, bytes]] = {
    "frame 3": (read_establish_connection, REQUEST),
    "frame 4": (read_establish_connection, RESPONSE),
    "frame 5": (read_connection_parameters, PARAMETERS),
    "frame 6": (read_connection_parameters, PARAMETERS_RESPONSE),
    "frame 8": (read_session_ack, ACK),
}
each_frame = pytest.mark.parametrize(("read", "packet"), FRAMES.values(), ids=FRAMES)
guids = st.binary(min_size=16, max_size=16)


SURVEY = vector("windows/survey-request")
HEAD_OF_WINDOWS = vector("windows/survey-response-head")


def test_live_windows_speaks_as_the_document_prints_it() -> None:
    """Frames 3 and 4 are what surveys send to hosts and what these answer, but for the padding."""
    assert SURVEY[:60] == REQUEST[:60]
    assert len(SURVEY) == len(REQUEST)
    assert RESPONSE[:16] == HEAD_OF_WINDOWS
    survey = read_establish_connection(SURVEY)
    assert survey.header[:4] == read_establish_connection(REQUEST).header[:4]
    answer = establish_connection_response(survey, SERVER, refused=False)
    assert plain(HEAD_OF_WINDOWS) == answer[:16]


def plain(packet: bytes) -> bytes:
    """The packet as we send it: the reserved byte of the frames is memory somebody left behind."""
    return edited(packet, 1, "B", 0)


@pytest.mark.spec("MS-MQQB 2.2.1/1", "MS-MQQB 2.2.1/2", "MS-MQQB 2.2/1")
@each_frame
def test_frames_go_both_ways_byte_for_byte(read: Read, packet: bytes) -> None:
    assert read(packet).pack() == packet


@pytest.mark.spec(
    "MS-MQQB 2.2.3/1",
    "MS-MQQB 2.2.3.1/5",
    "MS-MQQB 2.2.3.1/6",
    "MS-MQQB 2.2.3.1/7",
    "MS-MQQB 2.2/1",
    "MS-MQMQ 2.2.19.1/4",
)
def test_establish_connection_of_the_frames_is_read_and_built() -> None:
    read = read_establish_connection(REQUEST)
    assert read.header[:5] == (CLIENT, SERVER, 0x1DDECA4E, SYSTEM, 0)
    assert not read.refused
    assert establish_connection(CLIENT, SERVER, time_stamp=0x1DDECA4E) == plain(REQUEST)
    response = read_establish_connection(RESPONSE)
    assert response.header[:4] == (OTHER_CLIENT, OTHER_SERVER, 0x1DDECA4E, SYSTEM)
    assert establish_connection_response(response, OTHER_SERVER) == plain(RESPONSE)


@pytest.mark.spec(
    "MS-MQQB 2.2.2/1",
    "MS-MQQB 2.2.2.1/1",
    "MS-MQQB 2.2.2.1/2",
    "MS-MQQB 2.2.2.1/5",
    "MS-MQMQ 2.2.19.1/4",
)
def test_connection_parameters_of_the_frames_are_read_and_built() -> None:
    read = read_connection_parameters(PARAMETERS)
    assert read.header == ConnectionParametersHeader(1496, 120_000, 0, 64)
    assert connection_parameters(1496, 120_000, 64) == plain(PARAMETERS)


@pytest.mark.spec("MS-MQQB 2.2.6/1", "MS-MQQB 2.2.6/2", "MS-MQMQ 2.2.19.1/4")
def test_session_ack_of_the_frames_is_read_and_built() -> None:
    header = SessionHeader(ack_sequence_number=1, window_size=64)
    assert read_session_ack(ACK).header == header
    built = session_ack(header)
    assert built == plain(ACK)
    assert BASE_HEADER.unpack(built).packet_size == len(built) == 36


@pytest.mark.spec(
    "MS-MQQB 2.2.3.1/1",
    "MS-MQQB 2.2.3.1/2",
    "MS-MQQB 2.2.3.1/3",
    "MS-MQQB 2.2.3.1/4",
    "MS-MQQB 2.2.3.1/11",
)
def test_establish_connection_fields_lie_where_the_table_has_them() -> None:
    packet = establish_connection(b"c" * 16, b"s" * 16, time_stamp=0x01020304)
    assert packet[20:36] == b"c" * 16
    assert packet[36:52] == b"s" * 16
    assert packet[52:60] == bytes.fromhex("04030201 1003 0000")
    response = establish_connection_response(read_establish_connection(packet), b"o" * 16)
    assert response[20:36] == b"c" * 16
    assert response[36:52] == b"o" * 16
    assert response[52:60] == packet[52:60]


@pytest.mark.spec("MS-MQQB 2.2.3.1/2")
def test_a_request_without_a_known_acceptor_has_a_zero_server_guid() -> None:
    packet = establish_connection(CLIENT, time_stamp=1)
    assert read_establish_connection(packet).header.server_guid == bytes(16)


@pytest.mark.spec("MS-MQQB 2.2.3.1/6", "MS-MQQB 2.2.3.1/9", "MS-MQQB 2.2.3.1/10")
@pytest.mark.parametrize(("pinged", "word"), [(False, 0x0310), (True, 0x0210)])
def test_session_flag_tells_of_the_ping_and_is_repeated(pinged: bool, word: int) -> None:
    request = read_establish_connection(establish_connection(CLIENT, time_stamp=1, pinged=pinged))
    assert request.header.operating_system == word
    response = read_establish_connection(establish_connection_response(request, SERVER))
    assert response.header.operating_system == word


@pytest.mark.spec("MS-MQQB 2.2.3.1/7")
def test_server_flag_is_bit_nine() -> None:
    packet = establish_connection(CLIENT, time_stamp=1, server=False)
    assert read_establish_connection(packet).header.operating_system == 0x0110


@pytest.mark.spec("MS-MQQB 2.2.3.1/10", "MS-MQQB 2.2.3.1/11", "MS-MQQB 2.2.3.1/12")
def test_padding_and_reserved_bits_of_a_request_are_not_interpreted() -> None:
    odd = edited(REQUEST, 56, "<HH", 0xFB10, 0xFFFF)[:60] + bytes(range(256)) * 2
    system = read_establish_connection(odd).header.operating_system
    assert (system.session, system.server, system.quality_of_service) == (1, 1, 0)
    response = establish_connection_response(read_establish_connection(odd), SERVER)
    assert response[56:60] == bytes.fromhex("10030000")
    assert response[60:] == b"\x5a" * 512


@pytest.mark.spec("MS-MQQB 2.2.1/4")
def test_refusal_is_bit_four() -> None:
    refusal = establish_connection_response(
        read_establish_connection(REQUEST), OTHER_SERVER, refused=True
    )
    assert refusal[16:20] == bytes.fromhex("00001200")
    assert read_establish_connection(refusal).refused
    parameters = connection_parameters(500, 20_000, 1, refused=True)
    assert parameters[16:20] == bytes.fromhex("00001300")
    assert read_connection_parameters(parameters).refused


@pytest.mark.spec("MS-MQQB 2.2.1/4")
def test_a_session_ack_cannot_refuse() -> None:
    with pytest.raises(RemoteProtocolError, match="CS"):
        read_session_ack(edited(ACK, 18, "<H", 0x11))


@pytest.mark.spec("MS-MQQB 2.2.1/1", "MS-MQQB 2.2.1/7")
@each_frame
def test_reserved_bits_are_ignored(read: Read, packet: bytes) -> None:
    odd = read(edited(packet, 16, "<HH", 0xFFFF, packet[18] | 0xFFE0))
    assert odd.header == read(packet).header
    assert odd.internal.flags.packet_type == packet[18]
    assert odd.internal.flags.refused == 0


@pytest.mark.spec("MS-MQQB 2.2.2.1/4", "MS-MQQB 2.2.2.1/5")
def test_connection_parameters_fields_lie_where_the_table_has_them() -> None:
    packet = connection_parameters(0x01020304, 0x05060708, 0xFFFF)
    assert packet[20:] == bytes.fromhex("04030201 08070605 0000 ffff")
    odd = read_connection_parameters(edited(packet, 28, "<H", 0xABCD)).header
    assert odd[:2] == (0x01020304, 0x05060708)
    assert odd.window_size == 0xFFFF


@pytest.mark.spec("MS-MQQB 2.2.6/1")
def test_session_header_of_an_ack_may_lie_behind_packet_size() -> None:
    behind = edited(ACK[:20], 8, "<I", 20) + SESSION
    assert read_session_ack(behind).header == SessionHeader(1, 2, 3, 4, 5, 64, 0)
    with pytest.raises(RemoteProtocolError):
        read_session_ack(behind[:20])


@pytest.mark.spec("MS-MQQB 3.1.5.1.1/1")
def test_a_session_ack_needs_the_flag_sh() -> None:
    with pytest.raises(RemoteProtocolError, match="SH"):
        read_session_ack(with_base_flags(ACK, off=BaseFlags.of(session_header=1)))


@each_frame
def test_a_packet_of_another_size_is_refused(read: Read, packet: bytes) -> None:
    for size in (0, 15, 16, 19, 20, len(packet) - 1):
        with pytest.raises(RemoteProtocolError):
            read(packet[:size])
        if size >= 16:
            with pytest.raises(RemoteProtocolError):
                read(edited(packet[:size], 8, "<I", size))
    with pytest.raises(RemoteProtocolError):
        read(packet + b"\0")
    with pytest.raises(RemoteProtocolError):
        read(edited(packet + b"\0", 8, "<I", len(packet) + 1))


@pytest.mark.spec("MS-MQQB 3.1.5.1.2/1")
@each_frame
def test_version_signature_and_internal_flag_are_checked(read: Read, packet: bytes) -> None:
    for at, value in ((0, 0x11), (4, 0x4D), (7, 0x00), (2, packet[2] & ~8)):
        with pytest.raises(RemoteProtocolError):
            read(edited(packet, at, "B", value))


@each_frame
def test_a_packet_of_another_type_is_refused(read: Read, packet: bytes) -> None:
    for other in {*range(16)} - {packet[18]}:
        with pytest.raises(RemoteProtocolError):
            read(edited(packet, 18, "<H", other))


@given(guids, guids, U32, U16, U16, U16, U16, st.binary(min_size=512, max_size=512))
def test_any_establish_connection_goes_both_ways(
    client: bytes,
    server: bytes,
    time_stamp: int,
    system: int,
    first: int,
    second: int,
    flags: int,
    padding: bytes,
) -> None:
    packet = EstablishConnection(
        BASE_HEADER.unpack(REQUEST),
        InternalHeader(first, InternalFlags(flags & 0xFFF0 | 2)),
        EstablishConnectionHeader(
            client, server, time_stamp, OperatingSystem(system), second, padding
        ),
    )
    assert read_establish_connection(packet.pack()) == packet


@given(st.builds(SessionHeader, U16, U16, U32, U16, U16, U16, U16))
def test_any_session_header_goes_both_ways(header: SessionHeader) -> None:
    assert read_session_ack(session_ack(header)).header == header


@each_frame
@given(data=st.data())
def test_damage_gives_a_packet_or_the_protocol_error(
    read: Read, packet: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(packet[: data.draw(st.integers(0, len(packet)))])
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, 63), st.integers(0, 255)))):
        damaged[at : at + 1] = bytes([value])
    with suppress(RemoteProtocolError):
        assert read(bytes(damaged)).pack() == damaged
