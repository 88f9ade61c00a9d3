"""XML signatures of SRMP messages, [MC-MQSRM] 2.2.7, 3.1.5.1.6.1 and 3.1.7.2.4.

This is a draft of XML-DSIG: nothing is canonicalized, the octets of SignedInfo are signed as they
stand, and references are to the octets of MIME parts. So no library for the standard fits. Only
body and extension are covered; a signature therefore never grants rights by itself (decision 10).
Unproven against Windows (decision 53), as there is nothing to compare with.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.dsa import DSAPublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.x509 import InvalidVersion, load_der_x509_certificate

from posthouse.model.message_values import AuthenticationLevel, HashAlgorithm
from posthouse.security.certificates import key_in_certificate
from posthouse.security.message_security import KeyRing, Signer
from posthouse.security.providers import RSA_BITS_MAX, RSA_BITS_MIN
from posthouse.security.signing import signed_digest
from posthouse.wire.packet.headers import SENDER_CERTIFICATE_SIZE_MAX, SecurityFlags
from posthouse.wire.packet.optional_headers import Security
from posthouse.wire.srmp.message import Reference, SignatureElement, SrmpMessage
from posthouse.wire.srmp.mime_parts import BODY, EXTENSION, Parts
from posthouse.wire.srmp.values import write_guid

DRAFT: Final = "http://www.w3.org/2000/02/xmldsig#"
PUBLISHED: Final = "http://www.w3.org/2000/09/xmldsig#"
RSA_SHA1: Final = f"{PUBLISHED}rsa-sha1"  # decision 88
RSA_SHA256: Final = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
DSA: Final = f"{DRAFT}dsa"
REFERENCES_MAX: Final = 2
CERTIFICATES_MAX: Final = 8

# Choice: Windows writes the URI of DSA over what a key of 512 bits has signed, which only RSA can.
# So the key decides which of the two it is.
_METHODS: Final[dict[str, hashes.HashAlgorithm]] = {
    DSA: hashes.SHA1(),
    f"{PUBLISHED}dsa-sha1": hashes.SHA1(),
    f"{DRAFT}rsa-sha1": hashes.SHA1(),
    RSA_SHA1: hashes.SHA1(),
    RSA_SHA256: hashes.SHA256(),
}
_MD5: Final = f"{DRAFT}md5"
_DIGESTS: Final[dict[str, Callable[[bytes], bytes]]] = {
    f"{DRAFT}sha1": lambda data: hashlib.sha1(data, usedforsecurity=False).digest(),
    f"{PUBLISHED}sha1": lambda data: hashlib.sha1(data, usedforsecurity=False).digest(),
    "http://www.w3.org/2001/04/xmlenc#sha256": lambda data: hashlib.sha256(data).digest(),
    "http://www.w3.org/2001/04/xmlenc#sha512": lambda data: hashlib.sha512(data).digest(),
    _MD5: lambda data: hashlib.md5(data, usedforsecurity=False).digest(),
}
_DIGEST_OF_HASH: Final[dict[int, str]] = {
    HashAlgorithm.SHA1: f"{DRAFT}sha1",
    HashAlgorithm.SHA_256: "http://www.w3.org/2001/04/xmlenc#sha256",
    HashAlgorithm.SHA_512: "http://www.w3.org/2001/04/xmlenc#sha512",
}
_PROVEN: Final = SecurityFlags.of(authenticated=1, signature_kind=AuthenticationLevel.XML_SIG)
_Key = RSAPublicKey | DSAPublicKey


class XmlVerified(NamedTuple):
    """What the signature of a message is worth.

    With a `refusal` the message is dropped, which is HTTP 400 (decision 33). `authenticated`: all
    that is in the message is signed, with a certificate that somebody here has registered.
    """

    refusal: str = ""
    authenticated: bool = False
    security: Security | None = None  # for the packet: AU and AS are ours alone (decision 3)
    digest: bytes = b""  # of what is signed, if it is authenticated
    names_itself: bool = False  # the identifier of the message is signed


class _Refused(Exception):
    """Why a message is dropped."""


# -- received messages


def verify(message: SrmpMessage, parts: Parts, keys: KeyRing, *, weak: bool = False) -> XmlVerified:
    """Checking Message Signature, 3.1.5.1.6.1; a message without Signature proves nothing."""
    element = message.signature
    if element is None:
        return XmlVerified()
    try:
        covered = _check_references(element, message, parts, weak)
        named = _check_identifier(element, message)
        certificate, key = _signer_of(element, message, keys, weak)
    except _Refused as refused:
        return XmlVerified(str(refused))
    known = covered and _is_known(certificate, message, keys)
    flags = _PROVEN if known else SecurityFlags(0)
    digest = signed_digest(element.signed_info, key) if known else b""
    security = Security(flags, sender_certificate=certificate)
    return XmlVerified("", known, security, digest, named)


def identity_of(ordinal: int, guid: bytes) -> str:
    """The Id of a SignedInfo of ours: a message is signed with its identifier."""
    return f"message-{ordinal}-{write_guid(guid)}"


def _check_identifier(element: SignatureElement, message: SrmpMessage) -> bool:
    """Whether the identifier is signed; refuses that of another message."""
    if not element.signed_id.startswith("message-"):
        return False
    if element.signed_id != identity_of(message.ordinal, message.source_guid):
        raise _Refused("a signature that was made for another message")
    return True


def _is_known(certificate: bytes, message: SrmpMessage, keys: KeyRing) -> bool:
    """Whether a user has registered the certificate, or the machine that sent the message."""
    if keys.is_registered(certificate):
        return True
    machine = keys.certificates_of_machine(message.source_guid) if message.has_msmq else ()
    return any(entry.certificate == certificate for entry in machine)


def _only(values: tuple[str, ...], name: str) -> str:
    """The one element of this name, 2.2.7: exactly once."""
    if len(values) != 1:
        raise _Refused(f"{len(values)} {name} elements where one is due")
    return values[0]


def _check_references(
    element: SignatureElement, message: SrmpMessage, parts: Parts, weak: bool
) -> bool:
    """Whether all parts of the message are signed; those that are have their digests."""
    if element.signed_infos != 1:
        raise _Refused(f"{element.signed_infos} SignedInfo elements where one is due")
    method = _only(element.signature_methods, "SignatureMethod")
    if method not in _METHODS:
        raise _Refused("a signature method that is not accepted")
    if not 1 <= len(element.references) <= REFERENCES_MAX:
        raise _Refused(f"{len(element.references)} Reference elements")
    contents = _contents(message, parts)
    for reference in element.references:
        content = contents.pop(reference.uri.lower(), None)
        if content is None:
            raise _Refused("a Reference to no part of the message, or a second one to the same")
        _check_digest(reference, content, weak)
    return not contents


def _contents(message: SrmpMessage, parts: Parts) -> dict[str, bytes]:
    """The parts of a message by the URI that a Reference has to have, exactly (decision 10)."""
    contents: dict[str, bytes] = {}
    sender = write_guid(message.source_guid)
    for name, identifier, content in (
        (BODY, parts.body_id, parts.body),
        (EXTENSION, parts.extension_id, parts.extension),
    ):
        if identifier.lower() == name + sender:
            contents[f"cid:{name}{sender}"] = content
        elif identifier or content:
            contents[f"?{name}"] = content  # nothing can refer to it
    return contents


def _check_digest(reference: Reference, content: bytes, weak: bool) -> None:
    method = _only(reference.digest_methods, "DigestMethod")
    value = _only(reference.digest_values, "DigestValue")
    compute = _DIGESTS.get(method)
    if compute is None or (method == _MD5 and not weak):
        raise _Refused("a digest method that is not accepted")
    if not hmac.compare_digest(b64encode(compute(content)), value.encode("utf-8", "replace")):
        raise _Refused("a part that its digest does not fit")


def _signer_of(
    element: SignatureElement, message: SrmpMessage, keys: KeyRing, weak: bool
) -> tuple[bytes, _Key]:
    """The certificate whose key has signed, and the key: one that came along, or the sender's own.

    Decision 88: the document has the certificate attached and leaves open where.
    """
    value = _only(element.signature_values, "SignatureValue")
    try:
        signature = b64decode(value, validate=True)
    except (NotBase64, ValueError):
        raise _Refused("a SignatureValue that is not base64") from None
    method = _only(element.signature_methods, "SignatureMethod")
    for certificate in _certificates(element, message, keys):
        key = _public_key(certificate, weak)
        if key is not None and _fits(key, signature, element.signed_info, _METHODS[method]):
            return certificate, key
    raise _Refused("a signature by no certificate that came along or is known")


def _certificates(
    element: SignatureElement, message: SrmpMessage, keys: KeyRing
) -> Iterable[bytes]:
    for text in element.certificates[:CERTIFICATES_MAX]:
        try:
            certificate = b64decode(text, validate=True)
        except (NotBase64, ValueError):
            raise _Refused("a certificate that is not base64") from None
        if len(certificate) <= SENDER_CERTIFICATE_SIZE_MAX:
            yield certificate
    if message.has_msmq and not element.certificates:
        for entry in keys.certificates_of_machine(message.source_guid):
            yield entry.certificate


@lru_cache(64)
def _public_key(certificate: bytes, weak: bool) -> _Key | None:
    """The key in a certificate if it is one of RSA or DSA that may prove something."""
    rsa = key_in_certificate(certificate, weak)
    if rsa is not None:
        return rsa
    try:
        key = load_der_x509_certificate(certificate).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidVersion):
        return None
    if not isinstance(key, DSAPublicKey) or not RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
        return None
    return key


def _fits(key: _Key, signature: bytes, data: bytes, algorithm: hashes.HashAlgorithm) -> bool:
    try:
        if isinstance(key, RSAPublicKey):
            key.verify(signature, data, PKCS1v15(), algorithm)
        else:
            key.verify(_dss(signature), data, algorithm)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True


def _dss(signature: bytes) -> bytes:
    """XML-DSIG has r and s one after the other."""
    half = len(signature) // 2
    first, second = signature[:half], signature[half:]
    return encode_dss_signature(int.from_bytes(first), int.from_bytes(second))


# -- messages to send


def sign(
    body: bytes,
    extension: bytes,
    guid: bytes,
    hash_algorithm: int,
    signer: Signer,
    ordinal: int | None = None,
) -> bytes:
    """The Signature element for these parts of a message of ours, 3.1.7.2.4.

    With an ordinal the identifier is signed, too: as the Id of SignedInfo, which XML-DSIG allows.

    It is made with RSA; broken hashes and keys of 512 bits are never used (decisions 36 and 54).
    """
    assert signer.key.key_size >= RSA_BITS_MIN
    digest = _DIGEST_OF_HASH.get(hash_algorithm, _DIGEST_OF_HASH[HashAlgorithm.SHA1])
    method = RSA_SHA1 if digest == f"{DRAFT}sha1" else RSA_SHA256
    sender = write_guid(guid)
    references = "".join(
        _reference(f"cid:{name}{sender}", digest, content)
        for name, content in ((BODY, body), (EXTENSION, extension))
        if content
    )
    own = "" if ordinal is None else f' Id="{identity_of(ordinal, guid)}"'
    info = (
        f'<SignedInfo{own}><SignatureMethod Algorithm="{method}"></SignatureMethod>'
        f"{references}</SignedInfo>"
    )
    signature = signer.key.sign(info.encode(), PKCS1v15(), _METHODS[method])
    return (
        f'<Signature xmlns="{DRAFT}">{info}'
        f"<SignatureValue>{b64encode(signature).decode()}</SignatureValue>"
        "<KeyInfo><X509Data><X509Certificate>"
        f"{b64encode(signer.certificate).decode()}</X509Certificate></X509Data></KeyInfo>"
        "</Signature>"
    ).encode()


def _reference(uri: str, digest: str, content: bytes) -> str:
    value = b64encode(_DIGESTS[digest](content)).decode()
    return (
        f'<Reference URI="{uri}"><DigestMethod Algorithm="{digest}"></DigestMethod>'
        f"<DigestValue>{value}</DigestValue></Reference>"
    )
