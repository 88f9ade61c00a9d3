"""Calls between queue managers that share a transaction, signed with their key.

A call is a text that goes where a token goes, in the header of a request; its answer is signed too,
and bound to the call. Both are worthless elsewhere: they name who calls whom, about which
transaction and when. Every call may be repeated: a second one changes nothing.
"""

import binascii
import hashlib
import hmac
import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from enum import Enum
from typing import Final, NamedTuple

from posthouse.model.errors import AccessDenied, MalformedPacket
from posthouse.security.peers import KEY_SIZE

PREFIX: Final = "php_"
NONCE_SIZE: Final = 8
CALL_WINDOW_S: Final = 600  # how far the clocks of two machines may be apart
MAC_SIZE: Final = 32

_CALL = struct.Struct("<4sBB16s16s16sQ8s")
_CALL_MAGIC, _REPLY_MAGIC = b"PHTC", b"PHTR"
_VERSION = 1
_TEXT = re.compile(r"[A-Za-z0-9_-]+")


class Verb(Enum):
    """What is asked of the other queue manager."""

    PREPARE = 1
    COMMIT = 2
    ABORT = 3
    OUTCOME = 4  # of its coordinator, by a participant in doubt


class Reply(Enum):
    """What it answers."""

    PREPARED = 1
    ABORTED = 2
    DONE = 3  # the decision is carried out, now or before
    COMMITTED = 4  # OUTCOME: decided so
    UNDECIDED = 5  # OUTCOME: ask again
    UNKNOWN = 6  # OUTCOME: presumed abort


class PeerCall(NamedTuple):
    """One call, as it was signed."""

    verb: Verb
    sender: bytes
    receiver: bytes
    transaction: bytes
    issued_s: int  # UTC
    nonce: bytes


class SignedCall(NamedTuple):
    """A call as it came: not to be believed before `accepts`."""

    call: PeerCall
    signed: bytes
    mac: bytes

    def accepts(self, key: bytes, receiver: bytes, now_s: int) -> bool:
        """Whether a holder of the key made it, for this queue manager and for now."""
        timely = abs(self.call.issued_s - now_s) <= CALL_WINDOW_S
        ours = self.call.receiver == receiver
        return hmac.compare_digest(self.mac, _mac(key, self.signed)) and ours and timely


def sign_call(call: PeerCall, key: bytes) -> str:
    """The text of a call."""
    signed = _CALL.pack(_CALL_MAGIC, _VERSION, call.verb.value, *call[1:])
    return PREFIX + _encode(signed + _mac(key, signed))


def parse_call(text: str) -> SignedCall:
    """A call read back; anything else is refused without saying what was wrong."""
    data = _decode(text.removeprefix(PREFIX)) if text.startswith(PREFIX) else b""
    if len(data) != _CALL.size + MAC_SIZE:
        raise refused_call()
    magic, version, verb, *rest = _CALL.unpack_from(data)
    if magic != _CALL_MAGIC or version != _VERSION or verb not in _VERBS:
        raise refused_call()
    call = PeerCall(Verb(verb), *rest)
    return SignedCall(call, data[: _CALL.size], data[_CALL.size :])


def refused_call() -> AccessDenied:
    """The one answer to calls of untrusted callers."""
    return AccessDenied(
        "the call is not one of a trusted queue manager",
        "Add each of the two as a peer of the other, with the same key; compare their clocks.",
    )


def sign_reply(call: SignedCall, reply: Reply, key: bytes) -> str:
    """The text of an answer to this call."""
    return _encode(bytes([reply.value]) + _reply_mac(call.mac, reply.value, key))


def check_reply(call_text: str, text: str, key: bytes) -> Reply:
    """The answer to the call that was sent; MalformedPacket if it is none of the peer's."""
    data, call = _decode(text.strip()), parse_call(call_text)
    genuine = (
        len(data) == 1 + MAC_SIZE
        and data[0] in _REPLIES
        and hmac.compare_digest(data[1:], _reply_mac(call.mac, data[0], key))
    )
    if not genuine:
        raise MalformedPacket("the answer to a call of a transaction is not signed by the peer")
    return Reply(data[0])


_VERBS = frozenset(verb.value for verb in Verb)
_REPLIES = frozenset(reply.value for reply in Reply)


def _reply_mac(call_mac: bytes, value: int, key: bytes) -> bytes:
    return _mac(key, _REPLY_MAGIC + call_mac + bytes([value]))


def _mac(key: bytes, signed: bytes) -> bytes:
    assert len(key) == KEY_SIZE
    return hmac.digest(key, signed, hashlib.sha256)


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _decode(text: str) -> bytes:
    """The bytes of a text; none for one that is not written the one right way."""
    if len(text) > 1024 or not _TEXT.fullmatch(text):
        return b""
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""
    return data if _encode(data) == text else b""
