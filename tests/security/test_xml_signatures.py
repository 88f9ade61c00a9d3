"""[MC-MQSRM] 2.2.7 and 3.1.5.1.6.1: XML signatures, with keys of our own."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket
from posthouse.model.guids import parse_guid
from posthouse.model.message_values import AuthenticationLevel, HashAlgorithm
from posthouse.security.xml_signatures import (
    DRAFT,
    RSA_SHA1,
    RSA_SHA256,
    XmlVerified,
    sign,
    verify,
)
from posthouse.wire.packet.headers import SecurityFlags
from tests.security.key_ring import UTC_S, MemoryRing, certificate, private_key
from tests.support.xml_signatures import (
    BODY,
    EXTENSION,
    GUID,
    GUID_TEXT,
    SHA1,
    digest,
    element,
    method,
    received,
    reference,
    ring,
    signer,
)

OTHER_GUID = "6a74a825-57b2-43e5-9d34-f1d8b2b8950b"
MD5 = f"{DRAFT}md5"


def refusal(signature: bytes, body: bytes = BODY, extension: bytes = b"") -> str:
    return verify(*received(signature, body, extension), ring()).refusal


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/11")
@pytest.mark.spec(
    "MC-MQSRM 2.2.7/1",
    "MC-MQSRM 2.2.7/2",
    "MC-MQSRM 2.2.7.1.2.2/2",
    "MC-MQSRM 2.2.7.2/2",
    "MC-MQSRM 3.1.7.2.4/26",
    "MC-MQSRM 3.1.7.2.4/28",
)
@pytest.mark.parametrize("extension", [b"", EXTENSION])
@pytest.mark.parametrize("body", [b"", BODY, b"\xff\r\n--\0" * 99])
def test_what_we_sign_verifies(body: bytes, extension: bytes) -> None:
    if not (body or extension):
        return
    made = sign(body, extension, GUID, HashAlgorithm.SHA1, signer())
    found = verify(*received(made, body, extension), ring())
    assert found.refusal == ""
    assert found.authenticated
    assert made.count(b"<Reference ") == bool(body) + bool(extension)


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.1/15")
def test_marks_of_authentication_are_those_of_our_verification() -> None:
    found = verify(*received(element()), ring())
    assert found.security is not None
    assert found.security.flags.authenticated
    assert found.security.flags.signature_kind == AuthenticationLevel.XML_SIG
    assert found.security.sender_certificate == certificate("ann")


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/12")
@pytest.mark.spec("MC-MQSRM 2.2.7/3")
def test_a_signature_names_no_sender_who_could_have_rights() -> None:
    found = verify(*received(element()), ring())
    assert found.security is not None
    assert found.security.sender_id == b""
    assert found.security.flags.sender_id_type == 0


def test_a_message_without_signature_proves_nothing() -> None:
    message, parts = received(b"")
    assert verify(message, parts, ring()) == XmlVerified()


def test_a_certificate_that_nobody_registered_proves_nothing() -> None:
    found = verify(*received(element(name="stranger")), ring())
    assert found.refusal == ""
    assert not found.authenticated
    assert found.security is not None
    assert found.security.flags == SecurityFlags(0)


def test_the_certificate_of_the_sending_machine_is_found_by_its_guid() -> None:
    keys = MemoryRing()
    keys.machines[GUID] = ["other", "machine"]
    signature = element(name="machine", key_info=False)
    assert verify(*received(signature), keys).authenticated
    assert "certificate" in verify(*received(signature), MemoryRing()).refusal


@pytest.mark.spec("MC-MQSRM 2.2.7.1/1", "MC-MQSRM 3.1.5.1.6.1/2")
@pytest.mark.parametrize("count", [0, 2])
def test_signed_info_is_there_exactly_once(count: int) -> None:
    made = element()
    start, end = made.index(b"<SignedInfo>"), made.index(b"</SignedInfo>") + 13
    changed = made[:start] + made[start:end] * count + made[end:]
    assert "SignedInfo" in refusal(changed)


@pytest.mark.spec("MC-MQSRM 2.2.7.1.1/1", "MC-MQSRM 3.1.5.1.6.1/2")
@pytest.mark.parametrize("count", [0, 2])
def test_the_signature_method_is_there_exactly_once(count: int) -> None:
    assert "SignatureMethod" in refusal(element(method() * count + reference()))


@pytest.mark.spec("MC-MQSRM 2.2.7.1.1/2", "MC-MQSRM 3.1.5.1.6.1/3")
@pytest.mark.parametrize(
    ("algorithm", "used"),
    [
        (RSA_SHA1, hashes.SHA1()),
        (f"{DRAFT}dsa", hashes.SHA1()),  # what Windows writes over a key of RSA
        (RSA_SHA256, hashes.SHA256()),
    ],
)
def test_rsa_with_sha1_and_sha256_is_accepted(algorithm: str, used: hashes.HashAlgorithm) -> None:
    signature = element(method(algorithm) + reference(), algorithm=used)
    assert verify(*received(signature), ring()).authenticated


@pytest.mark.spec("MC-MQSRM 2.2.7.1.1/2", "MC-MQSRM 3.1.5.1.6.1/3")
@pytest.mark.parametrize(
    "algorithm",
    [
        "",
        f"{DRAFT}hmac-sha1",
        "http://www.w3.org/2000/09/xmldsig#hmac-sha1",
        "http://www.w3.org/2001/04/xmldsig-more#rsa-md5",
        f"{DRAFT}rsa-md5",
    ],
)
def test_other_signature_methods_are_refused(algorithm: str) -> None:
    assert "method" in refusal(element(method(algorithm) + reference()))


@cache
def dsa_pair() -> tuple[dsa.DSAPrivateKey, bytes]:
    key = dsa.generate_private_key(1024)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dsa")])
    begins = datetime.fromtimestamp(UTC_S, UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=1))
    )
    return key, builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


class DsaRing(MemoryRing):
    """Knows the one certificate of DSA."""

    def is_registered(self, wanted: bytes) -> bool:
        return wanted == dsa_pair()[1]


@pytest.mark.spec("MC-MQSRM 2.2.7.1.1/2")
@pytest.mark.parametrize("broken", [False, True])
def test_dsa_with_sha1_is_verified(broken: bool) -> None:
    key, attached = dsa_pair()
    info = f"<SignedInfo>{method(f'{DRAFT}dsa')}{reference()}</SignedInfo>"
    first, second = decode_dss_signature(key.sign(info.encode(), hashes.SHA1()))
    raw = (first ^ broken).to_bytes(20) + second.to_bytes(20)
    signature = (
        f'<Signature xmlns="{DRAFT}">{info}'
        f"<SignatureValue>{b64encode(raw).decode()}</SignatureValue>"
        f"<KeyInfo><X509Data><X509Certificate>{b64encode(attached).decode()}"
        "</X509Certificate></X509Data></KeyInfo></Signature>"
    ).encode()
    assert verify(*received(signature), DsaRing()).authenticated is not broken


@pytest.mark.spec("MC-MQSRM 2.2.7.1.2/1", "MC-MQSRM 3.1.5.1.6.1/4")
@pytest.mark.parametrize("count", [0, 3])
def test_there_are_one_or_two_references(count: int) -> None:
    assert "Reference" in refusal(element(method() + reference() * count))


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.1/5")
@pytest.mark.parametrize("uri", ["cid:body@", "cid:extension@"])
def test_a_reference_to_a_part_that_is_not_there_is_refused(uri: str) -> None:
    content = b"" if uri == "cid:body@" else BODY
    other = EXTENSION if uri == "cid:body@" else b""
    inside = method() + reference(uri + GUID_TEXT, value=digest(b""))
    assert "Reference" in refusal(element(inside), content, other)


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.1/6")
def test_two_references_to_one_part_are_refused() -> None:
    assert "second" in refusal(element(method() + reference() * 2))
    uri, value = f"cid:extension@{GUID_TEXT}", digest(EXTENSION)
    inside = method() + reference(uri, value=value) * 2
    assert "second" in refusal(element(inside), BODY, EXTENSION)


@pytest.mark.spec("MC-MQSRM 2.2.7.1.2/2", "MC-MQSRM 3.1.5.1.6.1/7")
@pytest.mark.parametrize(
    "uri",
    [
        "cid:body",
        "cid:body@",
        f"body@{GUID_TEXT}",
        f"cid:body@{OTHER_GUID}",
        f"xcid:body@{GUID_TEXT}",
        f"cid:body@{GUID_TEXT}x",
        "",
    ],
)
def test_the_uri_of_a_reference_is_compared_whole(uri: str) -> None:
    assert "Reference" in refusal(element(method() + reference(uri)))


@pytest.mark.spec("MC-MQSRM 2.2.7.1.2/2", "MC-MQSRM 2.2.7.1.2/3")
def test_our_references_name_the_parts_by_the_senders_guid() -> None:
    made = sign(BODY, EXTENSION, GUID, HashAlgorithm.SHA1, signer()).decode()
    assert f'<Reference URI="cid:body@{GUID_TEXT}">' in made
    assert f'<Reference URI="cid:extension@{GUID_TEXT}">' in made


def test_a_part_by_the_name_of_another_machine_cannot_be_referred_to() -> None:
    message, parts = received(element(), guid=parse_guid(OTHER_GUID))
    assert "Reference" in verify(message, parts, ring()).refusal


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.1/8", "MC-MQSRM 2.2.7.1.2/3")
def test_a_message_with_a_part_that_is_not_signed_is_not_authenticated() -> None:
    found = verify(*received(element(), BODY, EXTENSION), ring())
    assert found.refusal == ""
    assert not found.authenticated


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.1/9", "MC-MQSRM 2.2.7.1.2.1/1", "MC-MQSRM 2.2.7.1.2.2/1")
@pytest.mark.parametrize("name", ["DigestMethod", "DigestValue"])
@pytest.mark.parametrize("count", [0, 2])
def test_digest_method_and_value_are_there_exactly_once(name: str, count: int) -> None:
    text = reference()
    start, end = text.index(f"<{name}"), text.index(f"</{name}>") + len(name) + 3
    changed = text[:start] + text[start:end] * count + text[end:]
    assert name in refusal(element(method() + changed))


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.1/10")
@pytest.mark.parametrize(
    "algorithm", ["", MD5, f"{DRAFT}md2", "http://www.w3.org/2000/09/xmldsig#md5"]
)
def test_digests_that_are_broken_or_unknown_are_refused(algorithm: str) -> None:
    inside = method() + reference(method=algorithm, value=digest(BODY, "md5"))
    assert "digest method" in refusal(element(inside))


def test_md5_counts_where_weak_algorithms_are_allowed() -> None:
    inside = method() + reference(method=MD5, value=digest(BODY, "md5"))
    assert verify(*received(element(inside)), ring(), weak=True).authenticated


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.1/11", "MC-MQSRM 2.2.7.1.2.2/2")
def test_a_changed_part_does_not_fit_its_digest() -> None:
    assert len(digest(BODY)) == 28
    assert "digest" in refusal(element(), BODY + b" ")
    assert "digest" in refusal(element(), BODY[:-1])
    inside = (
        method() + reference() + reference(f"cid:extension@{GUID_TEXT}", value=digest(EXTENSION))
    )
    assert refusal(element(inside), BODY, EXTENSION) == ""
    assert "digest" in refusal(element(inside), BODY, b"another")


@pytest.mark.spec("MC-MQSRM 2.2.7.2/1", "MC-MQSRM 3.1.5.1.6.1/12")
@pytest.mark.parametrize("value", ["", "<SignatureValue>AA==</SignatureValue>" * 2])
def test_the_signature_value_is_there_exactly_once(value: str) -> None:
    assert "SignatureValue" in refusal(element(value=value))


@pytest.mark.spec("MC-MQSRM 2.2.7.2/1")
def test_a_signature_value_that_is_not_base64_is_refused() -> None:
    assert "base64" in refusal(element(value="<SignatureValue>*</SignatureValue>"))


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.1/13", "MC-MQSRM 2.2.7.2/2")
def test_a_signature_over_other_octets_is_refused() -> None:
    made = element()
    for old, new in (
        (b"<SignedInfo>", b"<SignedInfo >"),
        (b"</Reference>", b"</Reference>\n"),
        (b"<SignedInfo>", b"<SignedInfo><!-- -->"),
    ):
        assert "signature" in refusal(made.replace(old, new, 1))
    other = made.replace(b64encode(certificate("ann")), b64encode(certificate("another")))
    assert "signature" in refusal(other)


def test_octets_in_a_comment_are_not_taken_for_the_signed_ones() -> None:
    """Whoever copies a good SignedInfo into a comment has signed nothing of the one that counts."""
    good = element()
    info = good[good.index(b"<SignedInfo>") : good.index(b"</SignedInfo>") + 13]
    forged = info.replace(digest(BODY).encode(), digest(b"forged").encode())
    moved = good.replace(info, b"<!--" + info + b"-->" + forged)
    assert "signature" in refusal(moved, b"forged")


@pytest.mark.spec("MC-MQSRM 2.2.7.1.2.1/1", "MC-MQSRM 2.2.7.1.2.1/2", "MC-MQSRM 3.1.7.2.4/27")
@pytest.mark.parametrize(
    ("hash_algorithm", "uri"),
    [
        (HashAlgorithm.SHA1, SHA1),
        (HashAlgorithm.SHA_256, "http://www.w3.org/2001/04/xmlenc#sha256"),
        (HashAlgorithm.SHA_512, "http://www.w3.org/2001/04/xmlenc#sha512"),
        (HashAlgorithm.MD5, SHA1),
        (0, SHA1),
    ],
)
def test_digests_that_we_write_go_by_the_hash_of_the_message(hash_algorithm: int, uri: str) -> None:
    made = sign(BODY, b"", GUID, hash_algorithm, signer())
    assert f'<DigestMethod Algorithm="{uri}"></DigestMethod>'.encode() in made
    assert b"md5" not in made.lower()
    assert verify(*received(made), ring()).authenticated


@pytest.mark.spec("MC-MQSRM 2.2.7.1.1/3", "MC-MQSRM 3.1.7.2.4/28")
def test_we_sign_with_rsa_over_the_literal_signed_info() -> None:
    made = sign(BODY, b"", GUID, HashAlgorithm.SHA1, signer())
    message, _ = received(made)
    found = message.signature
    assert found is not None
    assert found.signature_methods == (RSA_SHA1,)
    assert found.signed_info in made
    expected = private_key("ann").sign(found.signed_info, PKCS1v15(), hashes.SHA1())
    assert found.signature_values == (b64encode(expected).decode(),)


@given(st.binary(max_size=60), st.integers(0, 4000))
def test_any_change_of_a_signed_message_is_noticed_or_harmless(noise: bytes, at: int) -> None:
    """Whatever is put into the element, the answer is a verdict and never a crash."""
    made = element()
    at %= len(made)
    changed = made[:at] + noise + made[at + len(noise) :]
    try:
        message, parts = received(changed)
    except (MalformedPacket, UnicodeDecodeError):
        return
    verdict = verify(message, parts, ring())
    if verdict.authenticated:
        assert parts.body == BODY
