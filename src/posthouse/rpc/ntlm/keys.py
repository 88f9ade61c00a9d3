"""Keys of NTLMv2, computed from a password and two challenges ([MS-NLMP] 3.3.2, 3.4.5)."""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Final, NamedTuple

from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext

PROOF_SIZE: Final = 16
KEY_SIZE: Final = 16
CHALLENGE_SIZE: Final = 8
ATTRIBUTES_OFFSET: Final = 44
"""Where the attributes begin in a response: after proof, versions, time and challenge."""

_BLOB = struct.Struct("<BB6xQ8s4x")
_MAGIC = b"session key to %s-to-%s %s key magic constant\0"


def hmac_md5(key: bytes, data: bytes) -> bytes:
    """HMAC-MD5, as everything in NTLMv2."""
    return hmac.digest(key, data, "md5")


def rc4(key: bytes) -> CipherContext:
    """A key stream that goes on from call to call."""
    return Cipher(ARC4(key), None).encryptor()


def response_key(nt_hash: bytes, user: str, domain: str) -> bytes:
    """NTOWFv2: only the user's name is in capitals."""
    name = "".join(map(_capital, user)) + domain
    return hmac_md5(nt_hash, name.encode("utf-16-le", "surrogatepass"))


def _capital(letter: str) -> str:
    """Letters that become several, as the German sharp s, stay what they are on Windows."""
    capital = letter.upper()
    return capital if len(capital) == 1 else letter


def make_response(key: bytes, server: bytes, client: bytes, filetime: int, info: bytes) -> bytes:
    """The NTLMv2 response: the proof, and after it what it proves (2.2.2.7-8)."""
    blob = _BLOB.pack(1, 1, filetime, client) + info + bytes(4)
    return hmac_md5(key, server + blob) + blob


def is_response(response: bytes) -> bool:
    """Whether this can be a response of NTLMv2; shorter ones are of NTLM, and weak."""
    return len(response) > ATTRIBUTES_OFFSET and response[PROOF_SIZE : PROOF_SIZE + 2] == b"\1\1"


def proves(key: bytes, server: bytes, response: bytes) -> bool:
    """Whether the proof fits the octets that came with it."""
    expected = hmac_md5(key, server + response[PROOF_SIZE:])
    return hmac.compare_digest(expected, response[:PROOF_SIZE])


def session_base_key(key: bytes, response: bytes) -> bytes:
    """SessionBaseKey, which is the KeyExchangeKey as well (3.4.5.1)."""
    return hmac_md5(key, response[:PROOF_SIZE])


class DirectionKeys(NamedTuple):
    """What protects the messages of one direction."""

    sign: bytes
    seal: bytes


def client_keys(exported: bytes) -> DirectionKeys:
    """SIGNKEY and SEALKEY of what the initiator sends, at 128 bits (3.4.5.2-3)."""
    return _keys(exported, b"client", b"server")


def server_keys(exported: bytes) -> DirectionKeys:
    """SIGNKEY and SEALKEY of what the acceptor sends."""
    return _keys(exported, b"server", b"client")


def _keys(exported: bytes, sender: bytes, receiver: bytes) -> DirectionKeys:
    magics = (_MAGIC % (sender, receiver, kind) for kind in (b"signing", b"sealing"))
    sign, seal = (hashlib.md5(exported + magic, usedforsecurity=False).digest() for magic in magics)
    return DirectionKeys(sign, seal)
