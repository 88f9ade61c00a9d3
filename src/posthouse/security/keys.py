"""Public keys and certificates as the directory holds them ([MS-MQMQ] 2.2.1, 2.2.2, 2.2.21).

Layouts only: keys are neither made nor used here; that comes with message signing and sealing.
"""

import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from posthouse.model.errors import MalformedPacket
from posthouse.model.guids import NULL_GUID
from posthouse.model.message_values import AES_PROVIDER, BASE_PROVIDER, ENHANCED_PROVIDER
from posthouse.wire.layout import Layout, Reader, decode_text, encode_text, guid, u32

PROVIDER_OF_PRIVACY_LEVEL: Final = {1: BASE_PROVIDER, 3: ENHANCED_PROVIDER, 5: AES_PROVIDER}
"""[MS-MQQB] 3.1.5.8.3: which provider a message of this PrivacyLevel was sealed with."""

PROV_RSA_FULL: Final = 1
PROV_RSA_AES: Final = 0x18
PROVIDER_TYPE: Final = {
    BASE_PROVIDER: PROV_RSA_FULL,
    ENHANCED_PROVIDER: PROV_RSA_FULL,
    AES_PROVIDER: PROV_RSA_AES,
}

KEY_EXCHANGE: Final = 0x0000_A400
KEY_SIGNATURE: Final = 0x0000_2400
KEY_BITS_MAX: Final = 16_384
PROVIDER_NAME_SIZE_MAX: Final = 512
KEYS_MAX: Final = 64
CERTIFICATES_MAX: Final = 1024
CERTIFICATE_SIZE_MAX: Final = 1 << 20

_BLOB_TYPE_AND_VERSION = 0x0000_0206  # PUBLICKEYBLOB, version 2
_RSA1 = 0x3141_5352


class PublicKey(NamedTuple):
    """An RSA public key; `modulus` in the byte order of the blob, lowest byte first."""

    algorithm: int
    bit_length: int
    exponent: int
    modulus: bytes


class _BlobHeader(NamedTuple):
    type_and_version: u32
    algorithm: u32
    magic: u32
    bit_length: u32
    exponent: u32


_BLOB = Layout(_BlobHeader)
assert _BLOB.size == 20


def pack_public_key(key: PublicKey) -> bytes:
    """PUBLICKEYBLOB, [MS-MQQB] 2.4.1: BLOBHEADER, RSAPUBKEY, modulus."""
    assert len(key.modulus) * 8 == key.bit_length
    return (
        _BLOB.pack(
            _BlobHeader(_BLOB_TYPE_AND_VERSION, key.algorithm, _RSA1, key.bit_length, key.exponent)
        )
        + key.modulus
    )


def unpack_public_key(data: bytes) -> PublicKey:
    """The key in a PUBLICKEYBLOB that a peer or the directory gave."""
    head = _BLOB.unpack(data)
    if head.type_and_version != _BLOB_TYPE_AND_VERSION or head.magic != _RSA1:
        raise MalformedPacket("not an RSA public key blob")
    if head.algorithm not in (KEY_EXCHANGE, KEY_SIGNATURE):
        raise MalformedPacket(f"key algorithm 0x{head.algorithm:08X} is not RSA")
    if not 0 < head.bit_length <= KEY_BITS_MAX or head.bit_length % 8:
        raise MalformedPacket(f"RSA key of {head.bit_length} bits")
    modulus = data[_BLOB.size :]
    if len(modulus) * 8 != head.bit_length:
        raise MalformedPacket("modulus and bit length of a key differ")
    return PublicKey(head.algorithm, head.bit_length, head.exponent, modulus)


class ProviderKey(NamedTuple):
    """MQDSPUBLICKEY, [MS-MQMQ] 2.2.1: the key blob that belongs to one provider."""

    provider_name: str
    provider_type: int
    blob: bytes


class _ProviderKeyHeader(NamedTuple):
    key_size: u32
    provider_size: u32
    provider_type: u32


class _ProviderKeysHeader(NamedTuple):
    size: u32
    keys: u32


_PROVIDER_KEY = Layout(_ProviderKeyHeader)
_PROVIDER_KEYS = Layout(_ProviderKeysHeader)


def pack_provider_keys(keys: Iterable[ProviderKey]) -> bytes:
    """MQDSPUBLICKEYS, [MS-MQMQ] 2.2.2."""
    packed = [_pack_provider_key(key) for key in keys]
    body = b"".join(packed)
    return _PROVIDER_KEYS.pack(_ProviderKeysHeader(8 + len(body), len(packed))) + body


def _pack_provider_key(key: ProviderKey) -> bytes:
    name = encode_text(key.provider_name)
    head = _ProviderKeyHeader(len(key.blob), len(name), key.provider_type)
    return _PROVIDER_KEY.pack(head) + name + key.blob


def unpack_provider_keys(data: bytes) -> tuple[ProviderKey, ...]:
    """The keys of an MQDSPUBLICKEYS; no bytes at all are the empty list of a new machine."""
    if not data:
        return ()
    reader = Reader(data)
    head = reader.read(_PROVIDER_KEYS)
    if head.size != len(data) or head.keys > KEYS_MAX:
        raise MalformedPacket("public key list with a wrong size or too many keys")
    keys = tuple(_read_provider_key(reader) for _ in range(head.keys))
    if reader.remaining:
        raise MalformedPacket("bytes after the last public key")
    return keys


def _read_provider_key(reader: Reader) -> ProviderKey:
    head = reader.read(_PROVIDER_KEY)
    if not 2 <= head.provider_size <= PROVIDER_NAME_SIZE_MAX:
        raise MalformedPacket(f"provider name of {head.provider_size} bytes")
    raw = reader.take(head.provider_size)
    name = decode_text(raw)
    if "\0" in name or encode_text(name) != raw:
        raise MalformedPacket("provider name without its NUL, or with several")
    return ProviderKey(name, head.provider_type, reader.take(head.key_size))


class UserCertificate(NamedTuple):
    """MQUSERSIGNCERT, [MS-MQMQ] 2.2.22: digest, registration GUID, encoded certificate."""

    digest: bytes
    identifier: bytes
    certificate: bytes

    @classmethod
    def of(cls, certificate: bytes, identifier: bytes = NULL_GUID) -> "UserCertificate":
        """The entry of an encoded certificate."""
        return cls(certificate_digest(certificate), identifier, certificate)


class _CertificateHeader(NamedTuple):
    digest: guid
    identifier: guid
    size: u32


class _CertificatesHeader(NamedTuple):
    certificates: u32


_CERTIFICATE = Layout(_CertificateHeader)
_CERTIFICATES = Layout(_CertificatesHeader)


def certificate_digest(certificate: bytes) -> bytes:
    """The 16-byte MD5 by which MSMQ finds a certificate, [MS-MQDMPR] 3.1.1.15; no proof of it."""
    return hashlib.md5(certificate, usedforsecurity=False).digest()


def pack_user_certificates(certificates: Iterable[UserCertificate]) -> bytes:
    """MQUSERSIGNCERTS, [MS-MQMQ] 2.2.21."""
    packed = [
        _CERTIFICATE.pack(
            _CertificateHeader(entry.digest, entry.identifier, len(entry.certificate))
        )
        + entry.certificate
        for entry in certificates
    ]
    return _CERTIFICATES.pack(_CertificatesHeader(len(packed))) + b"".join(packed)


def unpack_user_certificates(data: bytes) -> tuple[UserCertificate, ...]:
    """The certificates of a user; no bytes at all are the empty list."""
    if not data:
        return ()
    reader = Reader(data)
    count = reader.read(_CERTIFICATES).certificates
    if count > CERTIFICATES_MAX:
        raise MalformedPacket(f"{count} certificates of one user")
    certificates = tuple(_read_certificate(reader) for _ in range(count))
    if reader.remaining:
        raise MalformedPacket("bytes after the last certificate")
    return certificates


def _read_certificate(reader: Reader) -> UserCertificate:
    head = reader.read(_CERTIFICATE)
    if head.size > CERTIFICATE_SIZE_MAX:
        raise MalformedPacket(f"certificate of {head.size} bytes")
    return UserCertificate(head.digest, head.identifier, reader.take(head.size))
