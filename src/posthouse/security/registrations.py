"""Certificates and keys as records of the log: their owners and their use.

Private keys are in these records sealed with the key file of the home, so that neither the log nor
a copy of it is enough to use them.
"""

from typing import Final

import msgspec

from posthouse.model.errors import (
    IllegalUser,
    InvalidParameter,
    MalformedPacket,
    RemoteProtocolError,
)
from posthouse.model.guids import NULL_GUID
from posthouse.model.text import excerpt
from posthouse.security.keys import ProviderKey, certificate_digest, unpack_provider_keys
from posthouse.security.sids import (
    LOCAL_SYSTEM,
    OWNER_RIGHTS,
    PRINCIPALS,
    format_sid,
    is_sid,
)
from posthouse.wire.packet.headers import SENDER_CERTIFICATE_SIZE_MAX

MACHINE_NAME_LENGTH_MAX: Final = 256
_NOBODY: Final = frozenset((*PRINCIPALS.values(), LOCAL_SYSTEM, OWNER_RIGHTS))


class UserRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate of a user, [MS-MQDMPR] 3.1.1.15; internal ones we have made ourselves."""

    sid: bytes
    certificate: bytes
    identifier: bytes
    created_s: int
    internal: bool = False
    sealed_key: bytes = b""

    @property
    def digest(self) -> bytes:
        """By which MSMQ finds it."""
        return certificate_digest(self.certificate)

    def checked(self) -> "UserRegistration":
        """The registration, if it can be one: no group and no part of the system signs."""
        if not is_sid(self.sid) or self.sid in _NOBODY:
            raise IllegalUser(f"{_sid_text(self.sid)} cannot sign")
        _check_certificate(self.certificate)
        return self


class MachineRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a queue manager, our own or a trusted one, [MS-MQDMPR] 3.1.1.1.

    `public_keys` and `signing_keys` are an MQDSPUBLICKEYS each: what others encrypt with, and what
    they verify with. `sealed_keys` and `sealed_signing_keys` hold our private ones by provider.
    """

    guid: bytes
    name: str
    created_s: int
    certificate: bytes = b""
    public_keys: bytes = b""
    sealed_keys: dict[str, bytes] = {}
    signing_keys: bytes = b""
    sealed_signing_keys: dict[str, bytes] = {}

    @property
    def provider_keys(self) -> tuple[ProviderKey, ...]:
        """What others encrypt for it with."""
        return unpack_provider_keys(self.public_keys)

    def checked(self) -> "MachineRegistration":
        """The registration, if all of it is possible and some of it is of use."""
        if len(self.guid) != 16 or self.guid == NULL_GUID:
            raise InvalidParameter("a queue manager has an identifier of 16 bytes")
        if not 0 < len(self.name) <= MACHINE_NAME_LENGTH_MAX or not self.name.isprintable():
            raise InvalidParameter(f"{excerpt(self.name)} is not a name of a queue manager")
        if not self.certificate and not self.public_keys:
            raise InvalidParameter("neither a certificate nor a public key was given")
        _check_certificate(self.certificate)
        try:
            unpack_provider_keys(self.public_keys)
        except RemoteProtocolError as error:
            raise InvalidParameter(f"the public keys cannot be read: {error}") from None
        return self


def _sid_text(sid: bytes) -> str:
    return format_sid(sid) if is_sid(sid) else "this"


def _check_certificate(certificate: bytes) -> None:
    if len(certificate) > SENDER_CERTIFICATE_SIZE_MAX:
        raise InvalidParameter(f"a certificate of {len(certificate)} bytes fits no message")


_ENCODER = msgspec.msgpack.Encoder()
_USER = msgspec.msgpack.Decoder(UserRegistration)
_MACHINE = msgspec.msgpack.Decoder(MachineRegistration)


def encode_registration(value: UserRegistration | MachineRegistration) -> bytes:
    """The bytes that the store keeps."""
    return _ENCODER.encode(value)


def decode_user_registration(data: bytes) -> UserRegistration:
    """A user's certificate read back; anything else is damage."""
    try:
        return _USER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedPacket(f"damaged record of a certificate: {error}") from None


def decode_machine_registration(data: bytes) -> MachineRegistration:
    """A machine's keys read back; anything else is damage."""
    try:
        return _MACHINE.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedPacket(f"damaged record of a machine's keys: {error}") from None
