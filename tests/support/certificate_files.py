"""Certificates and keys as files hold them."""

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509 import load_der_x509_certificate

from tests.security.key_ring import certificate, private_key


def pem(name: str) -> bytes:
    return load_der_x509_certificate(certificate(name)).public_bytes(Encoding.PEM)


def key_pem(name: str, password: bytes | None = None) -> bytes:
    how = NoEncryption() if password is None else BestAvailableEncryption(password)
    return private_key(name).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)


def bundle(name: str, password: bytes | None) -> bytes:
    how = NoEncryption() if password is None else BestAvailableEncryption(password)
    found = load_der_x509_certificate(certificate(name))
    return pkcs12.serialize_key_and_certificates(b"x", private_key(name), found, None, how)
