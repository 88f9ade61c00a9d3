"""What ties a login with Kerberos to its TLS connection."""

from __future__ import annotations

import hashlib
from base64 import b64decode
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from posthouse.runtime.ldap.kerberos import end_point

OLD = b64decode(  # signed with SHA-1, which nobody does any more
    "MIIBbjCCARSgAwIBAgIUAwMNFOPBvV3+AUdxkgQCf0r9/RQwCQYHKoZIzj0EATAMMQowCAYDVQQDDAFhMCAX"
    "DTI2MTExNjEwNTMwNloYDzIxMjYxMDIzMTA1MzA2WjAMMQowCAYDVQQDDAFhMFkwEwYHKoZIzj0CAQYIKoZI"
    "zj0DAQcDQgAE+Y63LgYt13Q9d8bFZhBo9J0RRbroLhkCbtV6twZCvPXasN8gMrTPhHlPxAnDTeXO3ESA/aaY"
    "NPY79PkTTEMoS6NTMFEwHQYDVR0OBBYEFKWI1BMALQhSlaKpAdcMIovTY+TeMB8GA1UdIwQYMBaAFKWI1BMA"
    "LQhSlaKpAdcMIovTY+TeMA8GA1UdEwEB/wQFMAMBAf8wCQYHKoZIzj0EAQNJADBGAiEAuBHRd2rjmh/EhDgF"
    "Y9epeuka7C4EdZb5Pu+I5MJxtPQCIQC7FpAFuRXdQBwgkZkawYqs9839JiMmvaNQqFPr+A6lbA=="
)


def certificate(algorithm: hashes.SHA256 | hashes.SHA384 | None) -> bytes:
    curve = ec.generate_private_key(ec.SECP256R1())
    key = ed25519.Ed25519PrivateKey.generate() if algorithm is None else curve
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    end = start + timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, start, end)
    return builder.sign(key, algorithm).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (certificate(hashes.SHA256()), "sha256"),
        (certificate(hashes.SHA384()), "sha384"),
        (certificate(None), "sha256"),
        (OLD, "sha256"),
    ],
    ids=["sha256", "sha384", "none of its own", "weak"],
)
def test_the_certificate_of_the_server_stands_for_the_connection(data: bytes, digest: str) -> None:
    """RFC 5929 4.1: by the digest of its signature, unless that is none or a weak one."""
    assert end_point(data) == b"tls-server-end-point:" + hashlib.new(digest, data).digest()
