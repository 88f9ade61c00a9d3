"""X.509 certificates: made, read from files, sealed private keys."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import (
    Encoding,
)
from cryptography.x509 import load_der_x509_certificate
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import CorruptedSecurityData, InvalidCertificate
from posthouse.security.certificates import (
    FILE_SIZE_MAX,
    NONCE_SIZE,
    certificate_facts,
    key_in_certificate,
    make_certificate,
    open_private_key,
    read_key_pair,
    seal_private_key,
)
from posthouse.security.keys import certificate_digest
from tests.security.key_ring import BITS, UTC_S, certificate, private_key
from tests.support.certificate_files import bundle, key_pem, pem

SEAL = b"s" * 32
NONCE = b"n" * NONCE_SIZE


def test_made_certificate_says_whose_it_is_and_how_long() -> None:
    facts = certificate_facts(certificate("alice"))
    assert facts.subject == facts.issuer == "CN=alice"
    assert facts.not_before_s == UTC_S - 3600
    assert facts.not_after_s == UTC_S - 3600 + 365 * 86_400
    assert facts.key_bits == BITS
    assert facts.digest == certificate_digest(certificate("alice"))
    assert len(facts.fingerprint) == 32
    assert key_in_certificate(certificate("alice")) == private_key("alice").public_key()


def test_certificate_is_read_in_every_form() -> None:
    der = certificate("alice")
    for data in (der, pem("alice"), b"some words\n" + pem("alice")):
        assert read_key_pair(data) == (der, None)
    for data, password in (
        (pem("alice") + key_pem("alice"), None),
        (pem("alice") + key_pem("alice", b"secret"), b"secret"),
        (bundle("alice", None), None),
        (bundle("alice", b"secret"), b"secret"),
    ):
        found = read_key_pair(data, password)
        assert found.certificate == der
        assert found.private_key is not None
        assert found.private_key.private_numbers() == private_key("alice").private_numbers()
        assert "RSA" not in repr(found)


@pytest.mark.parametrize("password", [None, b"wrong"])
def test_sealed_files_need_their_password(password: bytes | None) -> None:
    for data in (pem("alice") + key_pem("alice", b"secret"), bundle("alice", b"secret")):
        with pytest.raises(InvalidCertificate, match="password"):
            read_key_pair(data, password)


def test_key_of_another_certificate_is_refused() -> None:
    with pytest.raises(InvalidCertificate, match="another certificate"):
        read_key_pair(pem("alice") + key_pem("beta"))


def made_with(key: ec.EllipticCurvePublicKey | RSAPublicKey) -> bytes:
    """A certificate for any key, signed by another."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "curve")])
    found = load_der_x509_certificate(certificate("alice"))
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key)
        .serial_number(1)
        .not_valid_before(found.not_valid_before_utc)
        .not_valid_after(found.not_valid_after_utc)
        .sign(private_key("alice"), hashes.SHA256())
        .public_bytes(Encoding.DER)
    )


def test_key_that_is_made_to_cost_much_is_refused() -> None:
    modulus = private_key("alice").public_key().public_numbers().n
    for exponent, usable in ((65_537, True), (0xFFFF_FFFF, True), (modulus - 2, False)):
        key = RSAPublicNumbers(exponent, modulus).public_key()
        assert (key_in_certificate(made_with(key)) is not None) is usable


def test_certificate_of_another_kind_of_key_is_refused() -> None:
    made = made_with(ec.generate_private_key(ec.SECP256R1()).public_key())
    assert key_in_certificate(made) is None
    assert certificate_facts(made).key_bits == 0
    with pytest.raises(InvalidCertificate, match="RSA"):
        read_key_pair(made)


@given(st.binary(max_size=200) | st.binary(max_size=99).map(lambda b: b"-----BEGIN " + b))
def test_any_bytes_are_a_certificate_or_refused(data: bytes) -> None:
    with pytest.raises(InvalidCertificate):
        read_key_pair(data)
    with pytest.raises(InvalidCertificate):
        certificate_facts(data)
    assert key_in_certificate(data) is None


@given(st.data())
def test_any_change_of_a_certificate_is_read_or_refused(data: st.DataObject) -> None:
    changed = bytearray(certificate("alice"))
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    key_in_certificate(bytes(changed))
    try:
        read_key_pair(bytes(changed))
        certificate_facts(bytes(changed))
    except InvalidCertificate:
        return


def test_huge_file_is_not_even_looked_at() -> None:
    with pytest.raises(InvalidCertificate, match="bytes"):
        read_key_pair(bytes(FILE_SIZE_MAX + 1))


def test_long_names_are_cut_to_what_a_subject_holds() -> None:
    made = make_certificate(private_key("alice"), "x" * 100, UTC_S, 1)
    assert certificate_facts(made).subject == "CN=" + "x" * 64


def test_sealed_private_key_opens_with_its_key_and_for_its_owner_only() -> None:
    sealed = seal_private_key(private_key("alice"), SEAL, NONCE, b"alice")
    found = open_private_key(sealed, SEAL, b"alice")
    assert found.private_numbers() == private_key("alice").private_numbers()
    for data, seal, owner in (
        (sealed, b"t" * 32, b"alice"),
        (sealed, SEAL, b"bob"),
        (sealed[:-1], SEAL, b"alice"),
        (b"", SEAL, b"alice"),
    ):
        with pytest.raises(CorruptedSecurityData, match="key file"):
            open_private_key(data, seal, owner)


@given(st.binary(max_size=60))
def test_any_bytes_are_no_sealed_key(data: bytes) -> None:
    with pytest.raises(CorruptedSecurityData):
        open_private_key(data, SEAL, b"alice")
