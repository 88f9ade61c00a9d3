"""The NT hash of a password, sealed, for logins over RPC (decision 14).

A stolen hash is enough to log in, so it is worth as much as the password: it is kept sealed with
the key file of the home, and opened for the one login that needs it.
"""

import unicodedata
from typing import Final

from Cryptodome.Hash import MD4
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from posthouse.model.errors import CorruptedSecurityData
from posthouse.security.certificates import NONCE_SIZE

NT_HASH_SIZE: Final = 16
_PURPOSE = b"nt hash of "
_TAG_SIZE = 16


def nt_hash(password: str) -> bytes:
    """MD4 over the password in UTF-16, [MS-NLMP] 3.3.1."""
    return MD4.new(password.encode("utf-16-le", "surrogatepass")).digest()


def nt_hash_of_account(password: str) -> bytes:
    """As it is stored: composed characters, which is what keyboards of Windows send."""
    return nt_hash(unicodedata.normalize("NFC", password))


def seal_nt_hash(value: bytes, key: bytes, nonce: bytes, sid: bytes) -> bytes:
    """What the store keeps; good for this account and for no other."""
    assert len(value) == NT_HASH_SIZE
    assert len(nonce) == NONCE_SIZE
    return nonce + AESGCM(key).encrypt(nonce, value, _PURPOSE + sid)


def open_nt_hash(sealed: bytes, key: bytes, sid: bytes) -> bytes:
    """The hash of a record; CorruptedSecurityData where record and key file do not fit."""
    if len(sealed) != NONCE_SIZE + NT_HASH_SIZE + _TAG_SIZE:
        raise CorruptedSecurityData("the sealed verifier of the rpc door is damaged")
    nonce, rest = sealed[:NONCE_SIZE], sealed[NONCE_SIZE:]
    try:
        return AESGCM(key).decrypt(nonce, rest, _PURPOSE + sid)
    except InvalidTag:
        raise CorruptedSecurityData(
            "the verifier of the rpc door was sealed with another key file",
            "Restore keys/seal.key of this home, or set the password again.",
        ) from None
