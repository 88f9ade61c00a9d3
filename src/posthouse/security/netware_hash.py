"""NetWare's keyed login, and the sealed hash for it (qms-facts 4.3; decision 14).

The algorithm was published in Dr. Dobb's Journal of November 1993 ("Undocumented Corner"), after
Barry Nance in BYTE of March 1993. It is as weak as its time. A stolen hash is enough to log in, so
it is kept sealed with the key file of the home, like an NT hash.
"""

import hmac
import unicodedata
from typing import Final

from posthouse.security.sealed_hash import HASH_SIZE, open_hash, seal_hash

KEY_SIZE: Final = 8
ANSWER_SIZE: Final = 8
_PURPOSE = b"netware hash of "
_BLOCK = 32
_BOX = [
    int(digit, 16)
    for digit in "780864e45c17bfa8f8cc941e46240ab92fb1d2195e7002660738293f7fcf64a0"
    "23abd83a17cf189d9194e4c55c8b239e7769efc8d1a6ed077a01f54b7bec95d1"
    "bd135de630bbf3649da3149483be5052cbd5d5d2d9aca0b3536951ee0e82d220"
    "4f859686babf0728c73a1425f7ace593e712e1f4a6c6f430c036f87b2dc6aa8d"
]
_KEYS = bytes.fromhex("48934667983de68db7107a265ab9b1356b0fd570aefbad11f447dca7eccf50c0")
assert len(_BOX) == 256
assert len(_KEYS) == _BLOCK


def netware_hash(salt: bytes, text: bytes) -> bytes:
    """The hash of a text under four bytes."""
    folded = _folded(text.rstrip(b"\0"))
    for at in range(_BLOCK):
        folded[at] ^= salt[at % 4]
    return _stirred(folded)


def _folded(text: bytes) -> list[int]:
    """Any length in 32 bytes: whole blocks on each other, then the rest over and over."""
    folded = [0] * _BLOCK
    whole = len(text) - len(text) % _BLOCK
    for at in range(whole):
        folded[at % _BLOCK] ^= text[at]
    rest = text[whole:]
    if rest:
        for at in range(_BLOCK):
            step = at % (len(rest) + 1)
            folded[at] ^= rest[step] if step < len(rest) else _KEYS[at]
    return folded


def _stirred(folded: list[int]) -> bytes:
    total = 0
    for _ in range(2):
        for at in range(_BLOCK):
            other = folded[(at + total) % _BLOCK] - _KEYS[at]
            folded[at] = ((folded[at] + total) ^ other) & 0xFF
            total += folded[at]
    return bytes(_BOX[folded[2 * at]] | _BOX[folded[2 * at + 1]] << 4 for at in range(HASH_SIZE))


def password_hash(object_id: int, password: str) -> bytes:
    """What is kept of an object's password. NetWare passwords have no lower case letters.

    Characters beyond ASCII go as UTF-8: no NetWare client could have sent them.
    """
    text = unicodedata.normalize("NFC", password).upper().encode("utf-8", "surrogatepass")
    return netware_hash(object_id.to_bytes(4, "big"), text)


def keyed_answer(key: bytes, verifier: bytes) -> bytes:
    """The answer of a client with the right password to eight random bytes."""
    mixed = bytearray(netware_hash(key[:4], verifier) + netware_hash(key[4:8], verifier))
    for at in range(16):
        mixed[at] ^= mixed[31 - at]
    return bytes(mixed[at] ^ mixed[15 - at] for at in range(ANSWER_SIZE))


def answers_to(key: bytes, verifier: bytes, answer: bytes) -> bool:
    """Whether this is the answer; takes the same time whatever differs."""
    return hmac.compare_digest(keyed_answer(key, verifier), answer)


def seal_netware_hash(value: bytes, key: bytes, nonce: bytes, owner: bytes) -> bytes:
    """What the store keeps; good for this owner and for no other."""
    return seal_hash(value, key, nonce, _PURPOSE + owner)


def open_netware_hash(sealed: bytes, key: bytes, owner: bytes) -> bytes:
    """The hash of a record; CorruptedSecurityData where record and key file do not fit."""
    return open_hash(sealed, key, _PURPOSE + owner, "ncp")
