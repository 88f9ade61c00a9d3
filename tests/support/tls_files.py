"""Certificates for tests of TLS."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parents[1] / "client" / "data"


CERTIFICATE, KEY = DATA / "certificate.pem", DATA / "key.pem"
