"""Key blobs and the RSA keys in them, [MS-MQQB] 2.4 and 3.1.7.1.5.2.

Numbers in these blobs have their lowest byte first, while RSA as everybody else writes it begins
with the highest. PUBLICKEYBLOB itself is in `keys`, because the directory holds it too.
"""

from typing import Final, NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers

from posthouse.model.errors import MalformedPacket
from posthouse.security.keys import (
    KEY_EXCHANGE,
    ProviderKey,
    PublicKey,
    pack_public_key,
    unpack_public_key,
)
from posthouse.security.providers import (
    AES128,
    AES192,
    AES256,
    RC2,
    RC4,
    RSA_BITS_MAX,
    RSA_BITS_MIN,
    RSA_BITS_MIN_WEAK,
)
from posthouse.wire.layout import Layout, u32

SESSION_KEY_ALGORITHMS: Final = frozenset({AES128, AES192, AES256, RC2, RC4})
"""[MS-MQQB] 2.4.2."""

_TYPE_AND_VERSION = 0x0000_0201  # SIMPLEBLOB, version 2


class SimpleBlob(NamedTuple):
    """SIMPLEBLOB, [MS-MQQB] 2.4.2: a session key for the owner of one RSA key.

    `encrypted_key` in the byte order of the blob. It is as long as that RSA key is, not the fixed
    256 bytes that the document prints.
    """

    algorithm: int
    encrypted_key: bytes


class _SimpleBlobHeader(NamedTuple):
    type_and_version: u32
    algorithm: u32
    key_algorithm: u32


_SIMPLE_BLOB = Layout(_SimpleBlobHeader)
assert _SIMPLE_BLOB.size == 12


def pack_simple_blob(blob: SimpleBlob) -> bytes:
    """The bytes for EncryptionKey of a SecurityHeader."""
    header = _SimpleBlobHeader(_TYPE_AND_VERSION, blob.algorithm, KEY_EXCHANGE)
    return _SIMPLE_BLOB.pack(header) + blob.encrypted_key


def unpack_simple_blob(data: bytes) -> SimpleBlob:
    """The session key that came with a message, still encrypted."""
    header = _SIMPLE_BLOB.unpack(data)
    if header.type_and_version != _TYPE_AND_VERSION or header.key_algorithm != KEY_EXCHANGE:
        raise MalformedPacket("not a session key blob")
    if header.algorithm not in SESSION_KEY_ALGORITHMS:
        raise MalformedPacket(f"session key for the cipher 0x{header.algorithm:08X}")
    encrypted = data[_SIMPLE_BLOB.size :]
    if not RSA_BITS_MIN_WEAK <= len(encrypted) * 8 <= RSA_BITS_MAX:
        raise MalformedPacket(f"session key of {len(encrypted)} bytes")
    return SimpleBlob(header.algorithm, encrypted)


def exchange_blob(key: ProviderKey) -> bytes:
    """MQDSPUBLICKEY to PUBLICKEYBLOB, [MS-MQQB] 3.1.7.1.5.2: constants here, numbers from there."""
    return pack_public_key(unpack_public_key(key.blob)._replace(algorithm=KEY_EXCHANGE))


def rsa_key(key: PublicKey, *, weak: bool = False) -> RSAPublicKey:
    """The key to compute with; one too small, too large or impossible is a protocol error."""
    smallest = RSA_BITS_MIN_WEAK if weak else RSA_BITS_MIN
    modulus = int.from_bytes(key.modulus, "little")
    if not smallest <= modulus.bit_length() <= RSA_BITS_MAX:
        raise MalformedPacket(f"RSA key of {modulus.bit_length()} bits")
    try:
        return RSAPublicNumbers(key.exponent, modulus).public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise MalformedPacket("numbers that are not an RSA key") from None


def public_key_of(key: RSAPublicKey, algorithm: int = KEY_EXCHANGE) -> PublicKey:
    """The numbers of an RSA key as blobs have them."""
    numbers = key.public_numbers()
    size = (key.key_size + 7) // 8
    return PublicKey(algorithm, size * 8, numbers.e, numbers.n.to_bytes(size, "little"))
