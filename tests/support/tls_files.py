"""Certificates for tests of TLS."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

from posthouse.security.tls_certificates import make_tls_files

DATA = Path(__file__).parents[1] / "client" / "data"


CERTIFICATE, KEY = DATA / "certificate.pem", DATA / "key.pem"


def expired_tls(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """TLS of a server whose certificate has expired, and the file that clients trust."""
    made = make_tls_files(["localhost", "127.0.0.1"], int(time.time()) - 20 * 86_400, 10)
    certificate, key = folder / "expired.pem", folder / "expired.key"
    certificate.write_bytes(made.certificate)
    key.write_bytes(made.private_key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context, certificate
