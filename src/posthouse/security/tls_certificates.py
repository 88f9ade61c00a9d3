"""Self-signed TLS certificates, for HTTPS between machines that are given them."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from posthouse.model.errors import InvalidParameter
from posthouse.model.text import excerpt
from posthouse.security.certificates import COMMON_NAME_MAX, DAYS_MAX

_BACKDATED: Final = timedelta(hours=1)  # clocks of peers differ
_NOTHING: Final = dict.fromkeys(
    (
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    ),
    False,
)


class TlsFiles(NamedTuple):
    """A certificate and its key, as PEM."""

    certificate: bytes
    private_key: bytes

    def __repr__(self) -> str:
        """Without the key, which does not belong into a log."""
        return f"TlsFiles({len(self.certificate)} bytes)"


def make_tls_files(hosts: list[str], utc_s: int, days: int) -> TlsFiles:
    """A self-signed certificate for host names and addresses, which clients can trust as an
    authority.

    The key is on the curve P-256, which every TLS of today supports.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    common_name = x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:COMMON_NAME_MAX])
    subject, public = x509.Name([common_name]), key.public_key()
    begins = datetime.fromtimestamp(utc_s, UTC) - _BACKDATED
    usage = x509.KeyUsage(digital_signature=True, key_cert_sign=True, **_NOTHING)
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=min(days, DAYS_MAX)))
        .add_extension(x509.SubjectAlternativeName([*map(_general_name, hosts)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
    )
    certificate = builder.sign(key, hashes.SHA256())
    return TlsFiles(
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise InvalidParameter(
            f"{excerpt(host)} cannot be the host of a certificate",
            "Write names in ASCII, as DNS has them.",
        ) from None
