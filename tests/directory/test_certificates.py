"""Internal certificates and certificates of users."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory.certificates import (
    InternalCertificate,
    InternalCertificateCollection,
    decode_certificate,
    encode_certificate,
    with_certificate,
    without_certificate,
)
from posthouse.directory.objects import User
from posthouse.model.errors import QueueError, RemoteProtocolError
from posthouse.security.keys import certificate_digest

from .world import ALICE, guid


@pytest.mark.spec("MS-MQDMPR 3.1.1.1/24")
def test_a_user_has_at_most_one_internal_certificate() -> None:
    collection = InternalCertificateCollection([InternalCertificate(b"one", guid(1))])
    with pytest.raises(QueueError) as refused:
        collection.add(InternalCertificate(b"two", guid(1)))
    assert refused.value.code == 0xC00E002E
    assert len(collection) == 1
    collection.add(InternalCertificate(b"two", guid(2)))
    assert collection.remove(guid(1)) == InternalCertificate(b"one", guid(1))
    collection.add(InternalCertificate(b"three", guid(1)))
    assert len(collection) == 2


@pytest.mark.spec("MS-MQDMPR 3.1.1.19/1")
def test_an_internal_certificate_belongs_to_one_user_object() -> None:
    collection = InternalCertificateCollection([InternalCertificate(b"der", guid(1))])
    found = collection.of(guid(1))
    assert found is not None
    assert (found.certificate, found.user) == (b"der", guid(1))
    assert collection.of(guid(2)) is None


@given(st.binary(), st.binary(min_size=16, max_size=16))
def test_internal_certificates_survive_the_store(certificate: bytes, user: bytes) -> None:
    value = InternalCertificate(certificate, user)
    assert decode_certificate(encode_certificate(value)) == value


@given(st.binary(max_size=40))
def test_any_bytes_give_a_certificate_or_the_one_error(data: bytes) -> None:
    try:
        assert isinstance(decode_certificate(data), InternalCertificate)
    except RemoteProtocolError:
        assert data != encode_certificate(InternalCertificate(b"", b""))


@pytest.mark.spec("MS-MQDMPR 3.1.1.15/1")
@given(st.lists(st.binary(max_size=10), max_size=5))
def test_registered_certificates_and_their_digests_go_together(certificates: list[bytes]) -> None:
    user = User(security_identifier=ALICE)
    for number, certificate in enumerate(certificates):
        user = with_certificate(user, certificate, guid(number))
        user.validate()
    distinct = list(dict.fromkeys(certificates))
    assert user.certificate_digest_list == tuple(map(certificate_digest, distinct))
    for certificate in certificates:
        user = without_certificate(user, certificate_digest(certificate))
        user.validate()
    assert user == User(security_identifier=ALICE)
