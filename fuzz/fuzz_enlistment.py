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
    """Reads it as a token, as a call and as an answer."""
    text, believed = data.decode("latin-1"), False
    with contextlib.suppress(TransactionEnlist):
        believed |= parse_token(data).accepts(KEY)
    with contextlib.suppress(AccessDenied):
        believed |= parse_call(text).accepts(KEY, BETA, NOW)
    with contextlib.suppress(MalformedPacket):
        check_reply(CALLS[0], text, KEY)
        believed = True
    assert not believed or data.strip() in _GENUINE, "somebody without the key made it"
    return believed
