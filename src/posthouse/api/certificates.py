"""The types of the API that concern certificates and keys."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from posthouse.api.types import BASE64, Guid, Json, Password, UserName

FILE_SIZE_MAX = 1 << 20
DAYS_MAX = 36_500

File = Annotated[bytes, Meta(max_length=FILE_SIZE_MAX, extra_json_schema={"pattern": BASE64})]
KeyBits = Literal[1024, 2048, 3072, 4096]
Days = Annotated[int, Meta(ge=1, le=DAYS_MAX)]
Sid = Annotated[str, Meta(pattern="^S-1-[0-9xXa-fA-F-]+$", max_length=200)]
MachineName = Annotated[str, Meta(min_length=1, max_length=256)]
CertificateId = Annotated[
    str,
    Meta(
        pattern="^([0-9a-f]{32}|[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12})$",
        max_length=36,
        description="Digest of a user's certificate, or GUID of a queue manager.",
    ),
]


class CertificateParams(Json):
    """A certificate of a user, or the keys of a queue manager."""

    id: CertificateId


class CertificateJson(Json):
    """A certificate of a user, or certificate and keys of a queue manager.

    `private_key` shows whether this queue manager can sign or decrypt with it; no private key is
    ever shown. `digest` is by which MSMQ finds a certificate, `fingerprint` its SHA-256;
    `certificate` is its DER form.
    """

    id: str
    kind: Literal["user", "machine"]
    owner: str
    sid: str | None
    guid: str | None
    subject: str | None
    issuer: str | None
    digest: str | None
    fingerprint: str | None
    key_bits: int | None
    not_before: str | None
    not_after: str | None
    internal: bool
    private_key: bool
    providers: list[str]
    certificate: bytes
    created_time: str


class CertificateListJson(Json):
    """All certificates and keys."""

    certificates: list[CertificateJson]


class CertificateMakeBody(Json):
    """A certificate to make: for a user, or without one keys and certificate of this machine."""

    user: UserName | None = None
    days: Days = 3650
    bits: KeyBits | None = None
    replace: bool = False


class CertificateImportBody(Json):
    """A certificate of a user in PEM, DER or PKCS #12 form, with or without its private key."""

    file: File = b""
    password: Password | None = None


class CertificateTrustBody(Json):
    """Somebody else's certificate or keys: of a user by `sid`, of a machine by `guid` and name."""

    sid: Sid | None = None
    guid: Guid | None = None
    name: MachineName | None = None
    certificate: File | None = None
    public_keys: File | None = None


class UserKeysJson(Json):
    """What another queue manager needs of a user who signs; nothing of it is secret."""

    name: str
    sid: str
    certificate: bytes


class MachineKeysJson(Json):
    """What another queue manager needs of this one; nothing of it is secret."""

    name: str
    guid: str
    certificate: bytes
    public_keys: bytes
