"""X.509 certificates and RSA key pairs of the queue manager and its users.

Only keys of RSA occur in the protocol, [MS-MQMQ] 2.2.20.6. Making a key takes random bytes and a
good part of a second of its own: that belongs into a thread of the door that asks for it, never
into the engine.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
from cryptography.x509.oid import NameOID

from posthouse.model.errors import CorruptedSecurityData, InvalidCertificate
from posthouse.security.keys import certificate_digest
from posthouse.security.providers import RSA_BITS_MAX, RSA_BITS_MIN, RSA_BITS_MIN_WEAK
from posthouse.wire.packet.headers import SENDER_CERTIFICATE_SIZE_MAX

FILE_SIZE_MAX: Final = 1 << 20
DAYS_MAX: Final = 36_500
COMMON_NAME_MAX: Final = 64  # of an X.509 subject
NONCE_SIZE: Final = 12
SEALING_KEY_SIZE: Final = 32

_PUBLIC_EXPONENT = 65_537
_PUBLIC_EXPONENT_MAX = 0xFFFF_FFFF
_BACKDATED = timedelta(hours=1)  # clocks of peers differ
_PEM = b"-----BEGIN "
_FAULTS = (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion)


class KeyPair(NamedTuple):
    """A certificate, and its private key where it came along."""

    certificate: bytes  # DER
    private_key: RSAPrivateKey | None

    def __repr__(self) -> str:
        """Without the key, which does not belong into a log."""
        return f"KeyPair({len(self.certificate)} bytes, {self.private_key is not None})"


class CertificateFacts(NamedTuple):
    """Subject, issuer, dates and key of a certificate, as lists show them."""

    subject: str
    issuer: str
    serial_number: int
    not_before_s: int
    not_after_s: int
    key_bits: int
    digest: bytes  # MD5, by which MSMQ finds it
    fingerprint: bytes  # SHA-256, by which people compare it


def make_private_key(bits: int) -> RSAPrivateKey:
    """A new key pair; slow, and with random bytes of its own."""
    assert bits >= RSA_BITS_MIN
    return rsa.generate_private_key(_PUBLIC_EXPONENT, bits)


def make_private_keys(providers: Iterable[str], bits: int) -> dict[str, RSAPrivateKey]:
    """A new key pair for each provider."""
    return {provider: make_private_key(bits) for provider in providers}


def make_certificate(key: RSAPrivateKey, name: str, utc_s: int, days: int) -> bytes:
    """A certificate that its own key has signed; registering it is what makes it trusted."""
    common_name = x509.NameAttribute(NameOID.COMMON_NAME, name[:COMMON_NAME_MAX])
    subject = x509.Name([common_name])
    begins = datetime.fromtimestamp(utc_s, UTC) - _BACKDATED
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=min(days, DAYS_MAX)))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def read_key_pair(data: bytes, password: bytes | None = None) -> KeyPair:
    """What a file holds: a certificate as PEM or DER, PEM with its private key, or PKCS #12."""
    if len(data) > FILE_SIZE_MAX:
        raise InvalidCertificate(f"a file of {len(data)} bytes is not a certificate")
    if _PEM in data:
        return _checked(_read_pem(data, password))
    certificate = _load(data)
    if certificate is not None:
        return _checked(KeyPair(certificate.public_bytes(Encoding.DER), None))
    return _checked(_read_pkcs12(data, password))


def _load(data: bytes) -> x509.Certificate | None:
    try:
        return x509.load_der_x509_certificate(data)
    except _FAULTS:
        return None


def _read_pem(data: bytes, password: bytes | None) -> KeyPair:
    try:
        certificate = x509.load_pem_x509_certificate(data).public_bytes(Encoding.DER)
    except _FAULTS:
        raise InvalidCertificate("the file holds no certificate that can be read") from None
    if b"PRIVATE KEY-----" not in data:
        return KeyPair(certificate, None)
    try:
        key = load_pem_private_key(data, password)
    except _FAULTS:
        raise InvalidCertificate(
            "the private key in the file cannot be read", "Give the password it is sealed with."
        ) from None
    return KeyPair(certificate, _rsa(key))


def _read_pkcs12(data: bytes, password: bytes | None) -> KeyPair:
    try:
        bundle = load_pkcs12(data, password)
    except _FAULTS:
        raise InvalidCertificate(
            "the file is not a certificate in PEM, DER or PKCS #12, or its password is another",
            "Give the password of a PKCS #12 file.",
        ) from None
    if bundle.cert is None:
        raise InvalidCertificate("the file holds no certificate")
    certificate = bundle.cert.certificate.public_bytes(Encoding.DER)
    return KeyPair(certificate, None if bundle.key is None else _rsa(bundle.key))


def _rsa(key: object) -> RSAPrivateKey:
    if not isinstance(key, RSAPrivateKey):
        raise InvalidCertificate("the private key is not one of RSA", "Make an RSA certificate.")
    return key


def _checked(pair: KeyPair) -> KeyPair:
    """The pair, if messages can carry the certificate and the two belong together."""
    if len(pair.certificate) > SENDER_CERTIFICATE_SIZE_MAX:
        raise InvalidCertificate(f"a certificate of {len(pair.certificate)} bytes fits no message")
    public_key = key_in_certificate(pair.certificate)
    if public_key is None:
        raise InvalidCertificate("the key of the certificate is not one of RSA, or of a wrong size")
    private_key = pair.private_key
    if private_key is not None and private_key.public_key() != public_key:
        raise InvalidCertificate("the private key in the file belongs to another certificate")
    return pair


@lru_cache(maxsize=64)
def key_in_certificate(certificate: bytes, weak: bool = False) -> RSAPublicKey | None:
    """The public key of a certificate that anybody may have sent; None if it has none to use."""
    found = _load(certificate)
    if found is None:
        return None
    try:
        key = found.public_key()
    except _FAULTS:
        return None
    smallest = RSA_BITS_MIN_WEAK if weak else RSA_BITS_MIN
    if not isinstance(key, RSAPublicKey) or not smallest <= key.key_size <= RSA_BITS_MAX:
        return None
    # The numbers of [MS-MQQB] 2.4.1 have no larger one, and it would make a look at a signature
    # a hundred times as expensive.
    return key if key.public_numbers().e <= _PUBLIC_EXPONENT_MAX else None


def certificate_facts(certificate: bytes) -> CertificateFacts:
    """The facts of a certificate; `InvalidCertificate` if it cannot be read."""
    found = _load(certificate)
    if found is None:
        raise InvalidCertificate("the certificate cannot be read")
    try:
        key = found.public_key()
        return CertificateFacts(
            found.subject.rfc4514_string(),
            found.issuer.rfc4514_string(),
            found.serial_number,
            int(found.not_valid_before_utc.timestamp()),
            int(found.not_valid_after_utc.timestamp()),
            key.key_size if isinstance(key, RSAPublicKey) else 0,
            certificate_digest(certificate),
            found.fingerprint(hashes.SHA256()),
        )
    except _FAULTS:
        raise InvalidCertificate("the certificate cannot be read") from None


def seal_private_key(key: RSAPrivateKey, sealing_key: bytes, nonce: bytes, owner: bytes) -> bytes:
    """A private key as a record of the log has it: unreadable without the home's key file."""
    assert len(sealing_key) == SEALING_KEY_SIZE
    assert len(nonce) == NONCE_SIZE
    plain = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return nonce + AESGCM(sealing_key).encrypt(nonce, plain, owner)


def open_private_key(sealed: bytes, sealing_key: bytes, owner: bytes) -> RSAPrivateKey:
    """The private key in a record; `CorruptedSecurityData` with any but its own key file."""
    nonce, rest = sealed[:NONCE_SIZE], sealed[NONCE_SIZE:]
    try:
        key = load_der_private_key(AESGCM(sealing_key).decrypt(nonce, rest, owner), None)
    except Exception:  # InvalidTag, or anything a damaged record makes of it
        raise CorruptedSecurityData(
            "a private key was sealed with another key file",
            "Restore keys/seal.key of this home, or make the certificate again.",
        ) from None
    return _rsa(key)
