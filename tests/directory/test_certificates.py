"""Certificates of users."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory.certificates import with_certificate, without_certificate
from posthouse.directory.objects import User
from posthouse.security.keys import certificate_digest

from .world import ALICE, guid


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
