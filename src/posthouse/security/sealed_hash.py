"""Hashes of passwords as the store keeps them: sealed with the key file of the home (decision 14).

A stolen hash is enough to log in, so it is worth as much as the password.
"""

from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from posthouse.model.errors import CorruptedSecurityData
from posthouse.security.certificates import NONCE_SIZE

HASH_SIZE: Final = 16
_TAG_SIZE: Final = 16


def seal_hash(value: bytes, key: bytes, nonce: bytes, purpose: bytes) -> bytes:
    """What the store keeps; good for this purpose, which names the owner, and for no other."""
    assert len(value) == HASH_SIZE
    assert len(nonce) == NONCE_SIZE
    return nonce + AESGCM(key).encrypt(nonce, value, purpose)


def open_hash(sealed: bytes, key: bytes, purpose: bytes, door: str) -> bytes:
    """The hash of a record; CorruptedSecurityData where record and key file do not fit."""
    if len(sealed) != NONCE_SIZE + HASH_SIZE + _TAG_SIZE:
        raise CorruptedSecurityData(f"the sealed verifier of the {door} door is damaged")
    nonce, rest = sealed[:NONCE_SIZE], sealed[NONCE_SIZE:]
    try:
        return AESGCM(key).decrypt(nonce, rest, purpose)
    except InvalidTag:
        raise CorruptedSecurityData(
            f"the verifier of the {door} door was sealed with another key file",
            "Restore keys/seal.key of this home, or set the password again.",
        ) from None
