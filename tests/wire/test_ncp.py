"""NCP messages and their framing on TCP and UDP (qms-facts 1.1-1.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket, RemoteProtocolError, Truncated
from posthouse.wire.ncp import framing as ncp
from posthouse.wire.ncp.framing import Reply, Request, Stream

U8, U16 = st.integers(0, 0xFF), st.integers(0, 0xFFFF)
ATTACH = bytes.fromhex("2222 02 01 07 01 17 0005 6f 00015d03")


@pytest.mark.spec("NCP framing/1", "NCP framing/4")
def test_a_request_is_type_sequence_connection_task_and_function() -> None:
    request = ncp.read_request(ATTACH)
    assert request == Request(0x2222, 2, 0x0101, 7, 0x17, bytes.fromhex("0005 6f 00015d03"))
    assert ncp.write_request(request) == ATTACH


@pytest.mark.spec("NCP framing/2", "NCP framing/4")
def test_a_reply_repeats_the_request_and_adds_completion_and_status() -> None:
    reply = Reply(0x3333, 2, 0x0101, 7, 0xD5, 0x01, b"data")
    written = bytes.fromhex("3333 02 01 07 01 d5 01") + b"data"
    assert ncp.write_reply(reply) == written
    assert ncp.read_reply(written) == reply


@pytest.mark.spec("NCP framing/3")
@pytest.mark.parametrize("kind", [0x1111, 0x5555])
def test_connections_are_created_and_destroyed_by_type(kind: int) -> None:
    message = kind.to_bytes(2, "big") + bytes.fromhex("01 ff 01 ff 00")
    request = ncp.read_request(message)
    assert request == Request(kind, 1, 0xFFFF, 1, 0, b"\0")
    assert ncp.write_request(request) == message


@pytest.mark.spec("NCP framing/3")
@pytest.mark.parametrize("kind", [0x0000, 0x3333, 0x7777, 0x9999, 0x3E3E, 0xFFFF])
def test_other_types_are_no_requests(kind: int) -> None:
    with pytest.raises(MalformedPacket):
        ncp.read_request(kind.to_bytes(2, "big") + bytes(20))


@pytest.mark.spec("NCP framing/3")
def test_still_working_has_a_type_of_its_own() -> None:
    working = ncp.write_reply(Reply(ncp.WORKING, 5, 1, 1))
    assert working == bytes.fromhex("9999 05 01 01 00 00 00")
    assert ncp.read_reply(working).kind == 0x9999


def test_what_ends_too_early_is_truncated() -> None:
    for cut in range(ncp.REQUEST_SIZE + 1):
        with pytest.raises(Truncated):
            ncp.read_request(ATTACH[:cut])
    for cut in range(ncp.REPLY_SIZE):
        with pytest.raises(Truncated):
            ncp.read_reply(bytes.fromhex("3333020107010000")[:cut])


@given(st.builds(Request, st.just(0x2222), U8, U16, U8, U8, st.binary(max_size=40)))
def test_requests_go_both_ways(request: Request) -> None:
    assert ncp.read_request(ncp.write_request(request)) == request


@given(st.builds(Reply, st.just(0x3333), U8, U16, U8, U8, U8, st.binary(max_size=40)))
def test_replies_go_both_ways(reply: Reply) -> None:
    assert ncp.read_reply(ncp.write_reply(reply)) == reply


# -- subfunctions


@pytest.mark.spec("NCP framing/5")
def test_the_length_counts_subfunction_and_data() -> None:
    data = ncp.write_subfunction(0x6F, bytes.fromhex("00015d03"))
    assert data == bytes.fromhex("0005 6f 00015d03")
    assert ncp.read_subfunction(data) == (0x6F, bytes.fromhex("00015d03"))


@pytest.mark.spec("NCP framing/6")
@pytest.mark.parametrize("data", ["", "00", "0001", "0004 6f 00015d03", "0006 6f 00015d03", "0000"])
def test_another_length_is_truncated(data: str) -> None:
    with pytest.raises(Truncated):
        ncp.read_subfunction(bytes.fromhex(data))


# -- the watchdog


def test_a_watchdog_packet_asks_and_answers_for_a_connection() -> None:
    asked = ncp.write_watchdog(0x0105)
    assert asked == bytes.fromhex("3e3e 00 05 00 01 00 00 00") + b"?"
    assert ncp.is_watchdog(asked)
    assert ncp.read_watchdog(ncp.write_watchdog(0x0105, ncp.ALIVE)) == (0x0105, ord("Y"))


@pytest.mark.parametrize("message", [b"", b"\x3e\x3e", b"\x3e\x3e" + bytes(7), ATTACH])
def test_what_is_no_watchdog_packet_is_refused(message: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        ncp.read_watchdog(message)


# -- TCP


@pytest.mark.spec("NCP TCP/1")
def test_a_request_pdu_has_magic_length_version_and_buffer_size() -> None:
    pdu = ncp.frame_request(ATTACH)
    assert pdu == b"DmdT" + bytes.fromhex("0000001e 00000001 00010000") + ATTACH
    assert list(Stream().feed(pdu)) == [ATTACH]


@pytest.mark.spec("NCP TCP/2", "NCP TCP/5")
def test_a_reply_pdu_has_magic_and_length_with_a_clear_top_bit() -> None:
    message = bytes.fromhex("3333 02 01 07 01 00 00")
    pdu = ncp.frame_reply(message)
    assert pdu == b"tNcP" + bytes.fromhex("00000010") + message
    assert list(Stream(ncp.REPLY_MAGIC).feed(pdu)) == [message]


@pytest.mark.spec("NCP TCP/3")
@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 30, 31, 60, 1000])
def test_pdus_come_in_pieces_of_any_size(size: int) -> None:
    messages = [ATTACH, ATTACH[:-4] + bytes(4), ATTACH + bytes(100)]
    whole = b"".join(map(ncp.frame_request, messages))
    stream, got = Stream(), []
    for at in range(0, len(whole), size):
        got += list(stream.feed(whole[at : at + size]))
    assert got == messages
    assert stream.held_bytes == 0


@pytest.mark.spec("NCP TCP/4")
@pytest.mark.parametrize("size", [0, 15, 16, 21, (128 << 10) + 1, 0x7FFFFFFF])
def test_a_length_out_of_bounds_is_refused_with_its_last_byte(size: int) -> None:
    stream = Stream()
    with pytest.raises(MalformedPacket):
        list(stream.feed(b"DmdT" + size.to_bytes(4, "big")))


@pytest.mark.spec("NCP TCP/5")
def test_a_signed_pdu_is_refused() -> None:
    with pytest.raises(MalformedPacket, match="signed"):
        list(Stream().feed(b"DmdT" + bytes.fromhex("8000001e")))


def test_another_magic_is_refused_with_its_first_wrong_byte() -> None:
    stream = Stream()
    assert list(stream.feed(b"Dmd")) == []
    with pytest.raises(MalformedPacket):
        list(stream.feed(b"X"))


def test_another_version_is_refused() -> None:
    pdu = bytearray(ncp.frame_request(ATTACH))
    pdu[11] = 2
    with pytest.raises(MalformedPacket, match="version 2"):
        list(Stream().feed(bytes(pdu)))


def test_what_came_in_front_of_garbage_is_handed_out() -> None:
    messages = Stream().feed(ncp.frame_request(ATTACH) + b"GET / HTTP/1.1")
    assert next(messages) == ATTACH
    with pytest.raises(MalformedPacket):
        next(messages)


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_any_bytes_give_messages_or_one_error(pieces: list[bytes]) -> None:
    stream = Stream()
    try:
        for piece in pieces:
            for message in stream.feed(piece):
                ncp.read_request(message)
            assert stream.held_bytes < ncp.PDU_SIZE_MAX
    except RemoteProtocolError:
        pass


@given(st.binary(max_size=60))
def test_any_message_is_read_or_refused(message: bytes) -> None:
    for read in (ncp.read_request, ncp.read_reply, ncp.read_watchdog, ncp.read_subfunction):
        try:
            read(message)
        except RemoteProtocolError:
            continue
