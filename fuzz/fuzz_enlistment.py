"""Fuzz target: any bytes are a transaction token or refused; none but the real ones is believed."""

import contextlib

from posthouse.model.errors import AccessDenied, MalformedPacket, TransactionEnlist
from posthouse.security.enlistment import EnlistmentToken, pack_token, parse_token
from posthouse.security.peer_calls import (
    PeerCall,
    Reply,
    Verb,
    check_reply,
    parse_call,
    sign_call,
    sign_reply,
)
from posthouse.security.peers import URL_LENGTH_MAX

KEY = bytes(range(32))
ALPHA, BETA, NOW = b"a" * 16, b"b" * 16, 1_700_000_000
CALLS = [sign_call(PeerCall(verb, ALPHA, BETA, b"t" * 16, NOW, bytes(8)), KEY) for verb in Verb]
TOKENS = [
    pack_token(EnlistmentToken(ALPHA, url, b"t" * 16, NOW), KEY)
    for url in ("", "http://alpha:8816", "https://alpha.example.com:8816")
]
REPLIES = [sign_reply(parse_call(CALLS[0]), reply, KEY) for reply in Reply]
SEEDS = [*TOKENS, *(text.encode() for text in (*CALLS, *REPLIES))]
_GENUINE = frozenset(SEEDS)


def fuzz_one(data: bytes) -> bool:
    """Reads the input as a token, as a call and as an answer; True if a signature is accepted."""
    text, believed = data.decode("latin-1"), False
    with contextlib.suppress(TransactionEnlist):
        believed |= parse_token(data).accepts(KEY)
    with contextlib.suppress(AccessDenied):
        believed |= parse_call(text).accepts(KEY, BETA, NOW)
    with contextlib.suppress(MalformedPacket):
        check_reply(CALLS[0], text, KEY)
        believed = True
    assert not believed or data.strip() in _GENUINE, "somebody without the key made it"
    return _signed(data) or believed


def _signed(data: bytes) -> bool:
    """The fields, signed with the right key."""
    if len(data) < 45:
        return False
    url = bytes(byte & 0x7F for byte in data[40 : 40 + URL_LENGTH_MAX]).decode()
    token = EnlistmentToken(data[:16], url, data[16:32], int.from_bytes(data[32:40], "little"))
    signed = parse_token(pack_token(token, KEY))
    assert signed.token == token
    assert signed.accepts(KEY)
    return True
