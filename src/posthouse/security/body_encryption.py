"""Encryption of message bodies, [MS-MQQB] 2.4.2, 3.1.5.8.3 and 3.1.7.1.5.

Block ciphers run in CBC mode with a zero initial vector and PKCS #5 padding, as the document wants
it: equal bodies under one key look equal. Whatever is wrong with a received body or its key gives
the same answer after the same work.
"""

import hashlib
import hmac
from collections.abc import Callable
from typing import Any, Final

from Cryptodome.Cipher import ARC2
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from posthouse.model.errors import RemoteProtocolError
from posthouse.security.key_blobs import SimpleBlob, pack_simple_blob, unpack_simple_blob
from posthouse.security.providers import RC2, RC4, CryptoProvider

Random = Callable[[int], bytes]

_RC2_BLOCK: Final = 8
_AES_BLOCK: Final = 16
_PADDING_MIN: Final = 11  # bytes of PKCS #1 v1.5 around a message
_RC2_40_BIT_REST: Final = bytes(11)  # [MS-MQQB] 3.1.5.8.3: the final 88 bits


class CannotOpen(Exception):
    """A body that cannot be decrypted. It has no reason, for that would help a forger."""


def encrypt(algorithm: int, key: bytes, body: bytes) -> bytes:
    """The ciphertext of a body; RC2 keys count with all their bits."""
    if algorithm == RC4:
        return Cipher(ARC4(key), None).encryptor().update(body)
    if algorithm == RC2:
        return bytes(_rc2(key).encrypt(_padded(body, _RC2_BLOCK)))
    encryptor = Cipher(AES(key), CBC(bytes(_AES_BLOCK))).encryptor()
    return encryptor.update(_padded(body, _AES_BLOCK)) + encryptor.finalize()


def decrypt(algorithm: int, key: bytes, body: bytes) -> bytes:
    """The body of a ciphertext; `CannotOpen` for any that no such key has made."""
    try:
        if algorithm == RC4:
            return Cipher(ARC4(key), None).decryptor().update(body)
        if algorithm == RC2:
            return _unpadded(_rc2(key).decrypt(body), _RC2_BLOCK)
        decryptor = Cipher(AES(key), CBC(bytes(_AES_BLOCK))).decryptor()
        return _unpadded(decryptor.update(body) + decryptor.finalize(), _AES_BLOCK)
    except ValueError:
        raise CannotOpen from None


def _rc2(key: bytes) -> Any:
    new: Any = ARC2.new  # its types lack effective_keylen
    return new(key, ARC2.MODE_CBC, iv=bytes(_RC2_BLOCK), effective_keylen=len(key) * 8)


def _padded(body: bytes, block: int) -> bytes:
    padder = PKCS7(block * 8).padder()
    return padder.update(body) + padder.finalize()


def _unpadded(body: bytes, block: int) -> bytes:
    unpadder = PKCS7(block * 8).unpadder()
    return unpadder.update(body) + unpadder.finalize()


def make_session_key(provider: CryptoProvider, algorithm: int, random: Random) -> bytes:
    """A session key of the provider's length; never one that RC2 would use 40 bits of."""
    size = provider.key_sizes[algorithm]
    key = random(size)
    while algorithm == RC2 and uses_40_bits(key):
        key = random(size)
    return key


def uses_40_bits(key: bytes) -> bool:
    """Whether this is an RC2 key of 128 bits whose final 88 are zero, [MS-MQQB] 3.1.5.8.3."""
    return key.endswith(_RC2_40_BIT_REST)


def wrap_key(algorithm: int, key: bytes, receiver: RSAPublicKey) -> bytes:
    """The SIMPLEBLOB of a session key for a receiver; the padding is random of its own."""
    encrypted = receiver.encrypt(key, PKCS1v15())
    return pack_simple_blob(SimpleBlob(algorithm, encrypted[::-1]))


def unwrap_key(
    blob: bytes, algorithm: int, size: int, private_key: RSAPrivateKey, secret: bytes = b""
) -> bytes | None:
    """The session key in a SIMPLEBLOB, None if there is none of that cipher and length.

    A forged blob does not fail in RSA: it gives some other bytes, mostly of another length, always
    the same ones for a blob. So an answer does not show whether the padding was right.
    """
    try:
        found = unpack_simple_blob(blob)
    except RemoteProtocolError:
        return None
    key = _rsa_decrypted(private_key, found.encrypted_key[::-1], secret)
    return key if found.algorithm == algorithm and len(key) == size else None


def _rsa_decrypted(private_key: RSAPrivateKey, data: bytes, secret: bytes) -> bytes:
    """What RSA gives. OpenSSL before 3.2 fails on wrong padding; then we make up what it gives."""
    made_up = _made_up(data, secret, private_key.key_size // 8 - _PADDING_MIN)
    try:
        return private_key.decrypt(data, PKCS1v15())
    except (ValueError, UnsupportedAlgorithm):
        return made_up


def _made_up(data: bytes, secret: bytes, longest: int) -> bytes:
    """Bytes of any length that PKCS #1 v1.5 allows; without the secret they cannot be predicted."""
    stream = hashlib.shake_256(hmac.digest(secret, data, "sha256")).digest(longest + 8)
    return stream[: int.from_bytes(stream[-8:]) % (longest + 1)]


def decoy_key(blob: bytes, size: int, secret: bytes) -> bytes:
    """What a body is decrypted with where a blob holds no key."""
    return hashlib.shake_256(hmac.digest(secret, b"key" + blob, "sha256")).digest(size)
