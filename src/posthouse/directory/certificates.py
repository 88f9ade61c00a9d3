"""Certificates that the server made for its users ([MS-MQDMPR] 3.1.1.19)."""

from collections.abc import Iterable

import msgspec

from posthouse.directory.objects import User
from posthouse.model.errors import MalformedPacket, error_for
from posthouse.security.keys import (
    UserCertificate,
    certificate_digest,
    pack_user_certificates,
    unpack_user_certificates,
)

MQ_ERROR_INTERNAL_USER_CERT_EXIST = 0xC00E002E


class InternalCertificate(msgspec.Struct, frozen=True):
    """An X.509 certificate that the server generated, and the User object it belongs to."""

    certificate: bytes
    user: bytes


_DECODER = msgspec.msgpack.Decoder(InternalCertificate)


def encode_certificate(value: InternalCertificate) -> bytes:
    """The bytes that the store keeps."""
    return msgspec.msgpack.encode(value)


def decode_certificate(data: bytes) -> InternalCertificate:
    """A certificate read back; anything else is damage."""
    try:
        return _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedPacket(f"damaged certificate record: {error}") from None


class InternalCertificateCollection:
    """At most one internal certificate for each user, [MS-MQDMPR] 3.1.1.1."""

    def __init__(self, values: Iterable[InternalCertificate] = ()) -> None:
        self._by_user: dict[bytes, InternalCertificate] = {}
        for value in values:
            self.add(value)

    def add(self, value: InternalCertificate) -> None:
        """Adds the first certificate of a user; a second one is refused."""
        if value.user in self._by_user:
            raise error_for(
                MQ_ERROR_INTERNAL_USER_CERT_EXIST, "the user has an internal certificate already"
            )
        self._by_user[value.user] = value

    def remove(self, user: bytes) -> InternalCertificate | None:
        """Takes the certificate of a user away, so that a new one can be made."""
        return self._by_user.pop(user, None)

    def of(self, user: bytes) -> InternalCertificate | None:
        """The certificate of a user."""
        return self._by_user.get(user)

    def __len__(self) -> int:
        return len(self._by_user)


def with_certificate(user: User, certificate: bytes, identifier: bytes) -> User:
    """The user with one more registered certificate; one that is registered stays once."""
    known = unpack_user_certificates(user.certificates)
    if certificate_digest(certificate) in user.certificate_digest_list:
        return user
    return _with_entries(user, (*known, UserCertificate.of(certificate, identifier)))


def without_certificate(user: User, digest: bytes) -> User:
    """The user without the certificate of this digest."""
    known = unpack_user_certificates(user.certificates)
    return _with_entries(user, tuple(entry for entry in known if entry.digest != digest))


def _with_entries(user: User, entries: tuple[UserCertificate, ...]) -> User:
    return msgspec.structs.replace(
        user,
        certificates=pack_user_certificates(entries) if entries else b"",
        certificate_digest_list=tuple(entry.digest for entry in entries),
    )
