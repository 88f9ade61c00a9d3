"""The NT hash of a password, sealed, for logins over RPC (decision 14).

A stolen hash is enough to log in, so it is worth as much as the password: it is kept sealed with
the key file of the home, and opened for the one login that needs it.
"""

import unicodedata

from Cryptodome.Hash import MD4

from posthouse.security.sealed_hash import open_hash, seal_hash

_PURPOSE = b"nt hash of "


def nt_hash(password: str) -> bytes:
    """MD4 over the password in UTF-16, [MS-NLMP] 3.3.1."""
    return MD4.new(password.encode("utf-16-le", "surrogatepass")).digest()


def nt_hash_of_account(password: str) -> bytes:
    """As it is stored: composed characters, which is what keyboards of Windows send."""
    return nt_hash(unicodedata.normalize("NFC", password))


def seal_nt_hash(value: bytes, key: bytes, nonce: bytes, sid: bytes) -> bytes:
    """What the store keeps; good for this account and for no other."""
    return seal_hash(value, key, nonce, _PURPOSE + sid)


def open_nt_hash(sealed: bytes, key: bytes, sid: bytes) -> bytes:
    """The hash of a record; CorruptedSecurityData where record and key file do not fit."""
    return open_hash(sealed, key, _PURPOSE + sid, "rpc")
