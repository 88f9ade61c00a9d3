"""XML signatures made by hand."""

from __future__ import annotations

import hashlib
from base64 import b64encode

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15

from posthouse.model.guids import parse_guid
from posthouse.model.message_values import HashAlgorithm
from posthouse.security.message_security import Signer
from posthouse.security.xml_signatures import (
    DRAFT,
    RSA_SHA1,
)
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.message import SrmpMessage
from posthouse.wire.srmp.mime_parts import Parts, read_parts, write_parts
from posthouse.wire.srmp.writer import write_envelope
from tests.security.key_ring import MemoryRing, certificate, private_key

GUID_TEXT = "6a74a825-57b2-43e5-9d34-f1d8b2b8950a"


GUID = parse_guid(GUID_TEXT)


BODY, EXTENSION = b"the body", b"the extension"


SID = b"\1\1\0\0\0\0\0\5\7\0\0\0"


SHA1 = f"{DRAFT}sha1"


MESSAGE = SrmpMessage(
    action="MSMQ:signed",
    to="http://beta/msmq/private$/q",
    id=f"uuid:7@{GUID_TEXT}",
    has_msmq=True,
    source_guid=GUID,
    ordinal=7,
    hash_algorithm=HashAlgorithm.SHA1,
)


def signer(name: str = "ann") -> Signer:
    return Signer(private_key(name), certificate(name))


def ring(*names: str) -> MemoryRing:
    keys = MemoryRing()
    keys.users[SID] = list(names or ("ann",))
    return keys


def received(
    signature: bytes, body: bytes = BODY, extension: bytes = b"", guid: bytes = GUID
) -> tuple[SrmpMessage, Parts]:
    """A message as it arrives with this Signature element."""
    envelope = write_envelope(MESSAGE, signature)
    parts = read_parts(*write_parts(envelope, body, extension, guid=guid, number=1))
    return read_envelope(parts.envelope), parts


def digest(content: bytes, name: str = "sha1") -> str:
    return b64encode(hashlib.new(name, content, usedforsecurity=False).digest()).decode()


def reference(
    uri: str = f"cid:body@{GUID_TEXT}", method: str = SHA1, value: str = digest(BODY)
) -> str:
    return (
        f'<Reference URI="{uri}"><DigestMethod Algorithm="{method}"></DigestMethod>'
        f"<DigestValue>{value}</DigestValue></Reference>"
    )


def method(algorithm: str = RSA_SHA1) -> str:
    return f'<SignatureMethod Algorithm="{algorithm}"></SignatureMethod>'


def element(
    inside: str = method() + reference(),
    *,
    name: str = "ann",
    algorithm: hashes.HashAlgorithm | None = None,
    value: str | None = None,
    key_info: bool = True,
) -> bytes:
    """A Signature element with anything in its SignedInfo, properly signed."""
    info = f"<SignedInfo>{inside}</SignedInfo>"
    made = private_key(name).sign(info.encode(), PKCS1v15(), algorithm or hashes.SHA1())
    if value is None:
        value = f"<SignatureValue>{b64encode(made).decode()}</SignatureValue>"
    attached = f"<X509Data><X509Certificate>{b64encode(certificate(name)).decode()}"
    attached = f"<KeyInfo>{attached}</X509Certificate></X509Data></KeyInfo>" if key_info else ""
    return f'<Signature xmlns="{DRAFT}">{info}{value}{attached}</Signature>'.encode()
