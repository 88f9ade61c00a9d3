"""PDUs there and back, by vectors written by hand and for any bytes at all."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket, RemoteProtocolError, Truncated
from posthouse.rpc import pdu, statuses, syntax
from posthouse.rpc.syntax import SyntaxId

MQRR = syntax.syntax("1a9134dd-7b39-45ba-ad88-44d01ca47f28", 1)
ANY_SYNTAX = st.builds(
    SyntaxId,
    st.binary(min_size=16, max_size=16),
    st.integers(0, 0xFFFF),
    st.integers(0, 0xFFFF),
)
U16, U32 = st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF)
ITEMS = st.builds(pdu.ContextItem, U16, ANY_SYNTAX, st.lists(ANY_SYNTAX, max_size=4).map(tuple))
BINDS = st.builds(pdu.Bind, U16, U16, U32, st.lists(ITEMS, max_size=5).map(tuple))
RESULTS = st.builds(pdu.ContextResult, U16, U16, ANY_SYNTAX)
ADDRESSES = st.text("0123456789abc.", max_size=9)
ACKS = st.builds(pdu.BindAck, U16, U16, U32, ADDRESSES, st.lists(RESULTS, max_size=5).map(tuple))


def hexed(text: str) -> bytes:
    return bytes.fromhex(text)


def test_bind_by_hand() -> None:
    item = pdu.ContextItem(1, MQRR, (syntax.NDR,))
    bind = pdu.pack_bind(pdu.Bind(5840, 5840, 0, (item,)))
    assert pdu.pack(pdu.BIND, pdu.WHOLE, 7, bind) == hexed(
        "05 00 0b 03 10000000 4800 0000 07000000"
        "d016 d016 00000000 01 000000"
        "0100 01 00 dd34911a397bba45ad8844d01ca47f28 0100 0000"
        "045d888aeb1cc9119fe808002b104860 0200 0000"
    )


def test_bind_ack_by_hand() -> None:
    ack = pdu.BindAck(4280, 4280, 0x53F0, "2103", (pdu.ContextResult(0, 0, syntax.NDR),))
    assert pdu.pack(pdu.BIND_ACK, pdu.WHOLE, 1, pdu.pack_bind_ack(ack)) == hexed(
        "05 00 0c 03 10000000 3c00 0000 01000000"
        "b810 b810 f0530000 0500 3231303300 00 01 000000"
        "0000 0000 045d888aeb1cc9119fe808002b104860 02000000"
    )


def test_secondary_address_may_be_absent() -> None:
    ack = pdu.BindAck(1, 2, 3, "", (pdu.ContextResult(2, 1),))
    assert pdu.read_bind_ack(pdu.pack_bind_ack(ack)) == ack


@pytest.mark.spec("RPC/27")
def test_bind_nak_is_the_one_that_port_scanners_know() -> None:
    nak = pdu.pack_bind_nak(pdu.BindNak(statuses.NAK_PROTOCOL_VERSION))
    assert pdu.pack(pdu.BIND_NAK, pdu.WHOLE, 0x40010800, nak) == (
        b"\x05\0\r\x03\x10\0\0\0\x18\0\0\0\0\x08\x01\x40\x04\0\x01\x05\0\0\0\0"
    )


def test_bind_nak_is_read_with_and_without_versions() -> None:
    assert pdu.read_bind_nak(b"\x02\0") == pdu.BindNak(2, ())
    assert pdu.read_bind_nak(b"\x04\0\x02\x05\0\x05\x01") == pdu.BindNak(4, ((5, 0), (5, 1)))


def test_request_with_an_object_by_hand() -> None:
    body = hexed("05000000 0100 0700") + b"o" * 16 + b"stub!"
    assert pdu.read_request(body, pdu.OBJECT_UUID) == pdu.Request(5, 1, 7, b"o" * 16, b"stub!")
    assert pdu.read_request(body[:8] + b"stub!", 0) == pdu.Request(5, 1, 7, None, b"stub!")
    assert pdu.pack_request(1, 7, b"stub!") == body[:8] + b"stub!"


def test_response_and_fault_by_hand() -> None:
    assert pdu.pack_response(3, b"abcd") == hexed("04000000 0300 00 00") + b"abcd"
    assert pdu.read_response(hexed("04000000 0300 02 00") + b"abcd") == pdu.Response(
        4, 3, 2, b"abcd"
    )
    assert pdu.pack(pdu.FAULT, pdu.WHOLE, 2, pdu.pack_fault(3, 0xC00E0003)) == hexed(
        "05 00 03 03 10000000 2000 0000 02000000 20000000 0300 00 00 03000ec0 00000000"
    )
    assert pdu.read_fault(pdu.pack_fault(3, 0xC00E0003)).status == 0xC00E0003


def test_token_is_aligned_to_four() -> None:
    trailer = pdu.Trailer(10, 6, 0, 79231, b"NTLMSSP\0")
    whole = pdu.pack(pdu.AUTH3, pdu.WHOLE, 1, b"123", trailer)
    assert whole[16:] == b"123\0" + hexed("0a 06 01 00 7f350100") + b"NTLMSSP\0"
    header = pdu.read_header(whole)
    assert pdu.body_of(whole, header) == (b"123", trailer._replace(pad_length=1))


def test_split_says_how_many_bytes_are_missing() -> None:
    whole = pdu.pack(pdu.REQUEST, pdu.WHOLE, 9, pdu.pack_request(0, 1, b"0123"))
    assert [pdu.split(whole[:size]) for size in (0, 15, 16, 27)] == [16, 1, 12, 1]
    assert pdu.split(b"xx" + whole + b"y", 2) == pdu.Header(pdu.REQUEST, 3, 28, 0, 9)


def test_big_endian_header_is_read_as_such() -> None:
    whole = hexed("05 00 0b 03 00000000 0018 0000 00000102") + bytes(8)
    assert pdu.split(whole) == pdu.Header(pdu.BIND, 3, 24, 0, 0x102, is_little_endian=False)


@pytest.mark.parametrize("start", [b"GET / HT", b"\x04\0\x0b\x03\x10\0\0\0", b"\x05\x02\x0b\x03"])
@pytest.mark.spec("RPC/27")
def test_other_protocols_and_versions_are_strangers(start: bytes) -> None:
    with pytest.raises(pdu.NotRpc) as caught:
        pdu.split(start.ljust(12, b"-") + b"\x01\x02\0\0")
    assert caught.value.call_id == 0x201


@pytest.mark.parametrize(
    "lengths", ["0f00 0000", "1000 0100", "1700 0000 ff", "2000 0900", "1000 ffff"]
)
def test_lengths_that_contradict_each_other_are_refused(lengths: str) -> None:
    header = hexed(f"05 00 00 03 10000000 {lengths}").ljust(16, b"\0")
    if lengths.startswith("1700"):
        assert pdu.split(header) == 7
    else:
        with pytest.raises(MalformedPacket):
            pdu.split(header)


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(MalformedPacket):
        pdu.split(hexed("05 00 01 03 10000000 1000 0000 00000000"))


def test_padding_beyond_the_body_is_refused() -> None:
    whole = bytearray(pdu.pack(pdu.AUTH3, 3, 1, b"123", pdu.Trailer(10, 6, 0, 0, b"t")))
    whole[16 + 4 + 2] = 5
    with pytest.raises(MalformedPacket):
        pdu.body_of(bytes(whole), pdu.read_header(whole))


@given(BINDS)
def test_binds_there_and_back(bind: pdu.Bind) -> None:
    assert pdu.read_bind(pdu.pack_bind(bind)) == bind


@given(BINDS, st.data())
def test_shortened_binds_are_refused(bind: pdu.Bind, data: st.DataObject) -> None:
    body = pdu.pack_bind(bind)
    with pytest.raises(Truncated):
        pdu.read_bind(body[: data.draw(st.integers(0, len(body) - 1))])


@given(ACKS)
def test_bind_acks_there_and_back(ack: pdu.BindAck) -> None:
    assert pdu.read_bind_ack(pdu.pack_bind_ack(ack)) == ack


@given(st.sampled_from(sorted(pdu.KINDS)), U32, st.binary(max_size=99), st.binary(max_size=50))
def test_pdus_with_and_without_trailers_there_and_back(
    kind: int, call_id: int, body: bytes, token: bytes
) -> None:
    trailer = pdu.Trailer(9, 5, -len(body) % 4, 1, token) if token else None
    whole = pdu.pack(kind, pdu.WHOLE, call_id, body, trailer)
    header = pdu.split(whole)
    assert header == pdu.Header(kind, pdu.WHOLE, len(whole), len(token), call_id)
    assert isinstance(header, pdu.Header)
    assert pdu.body_of(whole, header) == (body, trailer)


READERS: list[Callable[[bytes], object]] = [
    pdu.read_bind,
    pdu.read_bind_ack,
    pdu.read_bind_nak,
    pdu.read_response,
    pdu.read_fault,
]


@given(st.binary(max_size=300), st.integers(0, 255))
def test_any_bytes_are_read_or_refused(data: bytes, flags: int) -> None:
    readers: list[Callable[[bytes], object]] = [*READERS, partial(pdu.read_request, flags=flags)]
    for reader in readers:
        try:
            reader(data)
        except RemoteProtocolError:
            continue


@given(st.binary(max_size=80))
def test_any_bytes_are_a_header_a_number_or_refused(data: bytes) -> None:
    for start in (b"", hexed("05 00 0b 03 10000000"), hexed("05 00 10 03 00000000")):
        try:
            header = pdu.split(start + data)
        except RemoteProtocolError:
            continue
        if isinstance(header, pdu.Header):
            try:
                pdu.body_of((start + data)[: header.frag_length], header)
            except RemoteProtocolError:
                continue
