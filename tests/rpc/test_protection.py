"""Protected PDUs there and back, at every level, with and without signed headers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import RemoteProtocolError
from posthouse.rpc import pdu
from posthouse.rpc.protection import PAD, Protection
from posthouse.rpc.security import KERBEROS, NTLM, BadProtection, Identity, Level

from .login_book import agreed

SIGNATURE = b"0123456789"
PROTECTED = [Level.CALL, Level.PACKET, Level.INTEGRITY, Level.PRIVACY]


class Recorder:
    """A security context that tells what it was given; its signatures have another size."""

    complete = True
    identity: Identity | None = None
    mechanism = "kerberos"
    signature_size = len(SIGNATURE)

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, bytes, bytes]] = []

    def signature_size_at(self, level: Level) -> int:
        return len(SIGNATURE)

    def step(self, token: bytes) -> bytes | None:
        return None

    def protect(
        self, level: Level, before: bytes, body: bytes, after: bytes
    ) -> tuple[bytes, bytes]:
        self.seen.append((before, body, after))
        return body[::-1], SIGNATURE

    def unprotect(
        self, level: Level, before: bytes, body: bytes, after: bytes, signature: bytes
    ) -> bytes:
        assert signature == SIGNATURE
        self.seen.append((before, body[::-1], after))
        return body[::-1]


@pytest.mark.spec("RPC/21")
@given(st.sampled_from(PROTECTED), st.binary(max_size=100), st.booleans())
def test_there_and_back(level: Level, stub: bytes, header_signing: bool) -> None:
    client, server = agreed()
    ours = Protection(client, NTLM, level, 7, header_signing=header_signing)
    theirs = Protection(server, NTLM, level, 7)
    for _ in range(2):
        head = pdu.pack_request(1, 5, b"")
        whole = ours.pack(pdu.REQUEST, pdu.WHOLE, 9, head, stub)
        header = pdu.split(whole)
        assert header == pdu.Header(pdu.REQUEST, pdu.WHOLE, len(whole), 16, 9)
        assert (len(whole) - 24 - ours.overhead) % PAD == 0
        assert theirs.unpack(whole, 16) == stub


@pytest.mark.parametrize("header_signing", [False, True])
def test_header_and_trailer_are_signed_where_both_ends_said_so(header_signing: bool) -> None:
    context = Recorder()
    protection = Protection(context, KERBEROS, Level.PRIVACY, 3, header_signing=header_signing)
    whole = protection.pack(pdu.RESPONSE, pdu.WHOLE, 9, b"12345678", b"stub")
    assert protection.unpack(whole, len(SIGNATURE)) == b"stub"
    sent, received = context.seen
    assert sent == received
    if header_signing:
        assert sent == (whole[:24], b"stub" + bytes(12), bytes.fromhex("1006 0c00 03000000"))
    else:
        assert sent == (b"", b"stub" + bytes(12), b"")


def test_ntlm_always_signs_headers() -> None:
    client, server = agreed()
    whole = Protection(client, NTLM, Level.INTEGRITY).pack(pdu.REQUEST, 3, 9, bytes(8), b"stub")
    changed = bytearray(whole)
    changed[12] ^= 1
    with pytest.raises(BadProtection):
        Protection(server, NTLM, Level.INTEGRITY).unpack(bytes(changed), 16)


@given(st.integers(pdu.FRAG_LENGTH_MIN, 0xFFFF), st.sampled_from((8, 24)))
def test_room_is_all_that_fits(frag_length: int, head_size: int) -> None:
    protection = Protection(Recorder(), KERBEROS, Level.PRIVACY)
    room = protection.room(frag_length, head_size)
    whole = protection.pack(pdu.REQUEST, 3, 1, bytes(head_size), bytes(room))
    assert len(whole) <= frag_length < len(whole) + PAD


@pytest.mark.parametrize("field", ["auth_type", "said_level", "context_id"])
def test_trailer_of_another_context_is_refused(field: str) -> None:
    protection = Protection(Recorder(), KERBEROS, Level.INTEGRITY, 3)
    whole = protection.pack(pdu.REQUEST, 3, 1, bytes(8), b"stub")
    setattr(protection, field, 6)
    with pytest.raises(RemoteProtocolError):
        protection.unpack(whole, len(SIGNATURE))


def test_padding_beyond_the_stub_is_refused() -> None:
    protection = Protection(Recorder(), KERBEROS, Level.INTEGRITY, 3)
    whole = bytearray(protection.pack(pdu.REQUEST, 3, 1, bytes(8), b"stub"))
    whole[-len(SIGNATURE) - 6] = 17
    with pytest.raises(RemoteProtocolError):
        protection.unpack(bytes(whole), len(SIGNATURE))
