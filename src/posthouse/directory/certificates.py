"""Certificates of users in the directory ([MS-MQDMPR] 3.1.1.15)."""

import msgspec

from posthouse.directory.objects import User
from posthouse.security.keys import (
    UserCertificate,
    certificate_digest,
    pack_user_certificates,
    unpack_user_certificates,
)


def with_certificate(user: User, certificate: bytes, identifier: bytes) -> User:
    """The user with one more registered certificate; one that is registered stays once."""
    known = unpack_user_certificates(user.certificates)
    if certificate_digest(certificate) in user.certificate_digest_list:
        return user
    return with_entries(user, (*known, UserCertificate.of(certificate, identifier)))


def without_certificate(user: User, digest: bytes) -> User:
    """The user without the certificate of this digest."""
    known = unpack_user_certificates(user.certificates)
    return with_entries(user, tuple(entry for entry in known if entry.digest != digest))


def with_entries(user: User, entries: tuple[UserCertificate, ...]) -> User:
    """The user with just these certificates."""
    return msgspec.structs.replace(
        user,
        certificates=pack_user_certificates(entries) if entries else b"",
        certificate_digest_list=tuple(entry.digest for entry in entries),
    )
