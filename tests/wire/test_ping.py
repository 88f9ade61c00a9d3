"""Ping datagrams against the frames of [MS-MQQB] 4.1, and damaged."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import RemoteProtocolError
from posthouse.wire.binary.ping import PING_SIGNATURE, Ping, PingFlags, ping_request, ping_response
from posthouse.wire.binary.ping import read_ping as read

from .strategies import U16, U32
from .vectors import edited, vector

REQUEST = vector("ms-mqqb/4.1.1-ping-request")
RESPONSE = vector("ms-mqqb/4.1.2-ping-response")
CLIENT = bytes.fromhex("d1587355509195954997b6e611ea26c6")
SERVER = bytes.fromhex("0789cd434c39118f44459078909ea0fc")


@pytest.mark.spec("MS-MQQB 2.2.7/1", "MS-MQQB 2.2/1")
def test_frames_go_both_ways_byte_for_byte() -> None:
    assert read(REQUEST) == (0x7D01, PING_SIGNATURE, 4, CLIENT)
    assert read(RESPONSE) == (0xB295, PING_SIGNATURE, 4, SERVER)
    for frame in (REQUEST, RESPONSE):
        assert read(frame).pack() == frame


@pytest.mark.spec("MS-MQQB 2.2.7/2", "MS-MQQB 2.2.7/3", "MS-MQQB 2.2.7/7")
def test_a_request_says_whether_the_initiator_is_a_server() -> None:
    assert ping_request(CLIENT, 4) == bytes.fromhex("00004855 04000000") + CLIENT
    assert ping_request(CLIENT, 4, server=False) == bytes.fromhex("01004855 04000000") + CLIENT


@pytest.mark.spec(
    "MS-MQQB 2.2.7/2",
    "MS-MQQB 2.2.7/3",
    "MS-MQQB 2.2.7/6",
    "MS-MQQB 2.2.7/7",
    "MS-MQQB 3.1.7.7/1",
)
@pytest.mark.parametrize("client", [0, 1])
@pytest.mark.parametrize("refused", [False, True])
def test_a_response_repeats_the_request(client: int, refused: bool) -> None:
    request = Ping(PingFlags.of(client=client), PING_SIGNATURE, 0xFFFFFFFF, CLIENT)
    response = read(ping_response(request, SERVER, refused=refused))
    assert response == (client | refused << 1, PING_SIGNATURE, 0xFFFFFFFF, SERVER)
    assert response.refused == refused


@pytest.mark.spec("MS-MQQB 2.2.7/4")
def test_unused_bits_are_neither_judged_nor_repeated() -> None:
    odd = read(edited(REQUEST, 0, "<H", 0xFFFC))
    assert (odd.flags.client, odd.refused) == (0, False)
    assert read(ping_response(odd, SERVER, refused=False)).flags == 0


@pytest.mark.spec("MS-MQQB 2.2.7/5", "MS-MQQB 3.1.5.1.1/5")
@pytest.mark.parametrize("at", [2, 3])
def test_another_signature_is_refused(at: int) -> None:
    with pytest.raises(RemoteProtocolError, match="signature"):
        read(edited(REQUEST, at, "B", 0))


@pytest.mark.spec("MS-MQQB 2.2.7/1", "MS-MQQB 3.1.5.1.1/5")
def test_a_datagram_of_another_size_is_refused() -> None:
    for size in {*range(40)} - {24}:
        with pytest.raises(RemoteProtocolError):
            read((REQUEST * 2)[:size])


@given(U16, U32, st.binary(min_size=16, max_size=16))
def test_any_ping_goes_both_ways(flags: int, cookie: int, guid: bytes) -> None:
    ping = Ping(PingFlags(flags), PING_SIGNATURE, cookie, guid)
    assert read(ping.pack()) == ping


@given(st.binary(max_size=30) | st.binary(min_size=24, max_size=24))
def test_any_datagram_is_a_ping_or_refused(data: bytes) -> None:
    with suppress(RemoteProtocolError):
        assert read(data).pack() == data
