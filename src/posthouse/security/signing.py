"""Digital signatures of messages, [MS-MQMQ] 2.5, [MS-MQQB] 3.1.5.8.3 and 3.1.7.1.4.

What is hashed stands in one function. The documents give the fields and their order but not the
bytes of each, so this is unproven against Windows (decision 53): queue names count as the text of
their format names in UTF-16 with the NUL, whichever way a packet abbreviates them; label, extension
and body as the packet has them; a missing connector type as zeros; all other absent parts as
nothing.
"""

import hashlib
import hmac
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

from Cryptodome.Hash import MD2, MD4
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.dsa import DSAPublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from posthouse.model.message_values import WEAK_HASH_ALGORITHMS, AuthenticationLevel, HashAlgorithm
from posthouse.wire.layout import encode_text
from posthouse.wire.packet.bodies import label_bytes
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import ACKNOWLEDGMENTS

_WEAK: Final = frozenset(map(int, WEAK_HASH_ALGORITHMS))
_MESSAGE_FIELDS: Final = struct.Struct("<BBBBHI")


class SignatureKind(IntEnum):
    """The forms of [MS-MQMQ] 2.5; the numbers are those of AS, [MS-MQQB] 3.1.5.8.3."""

    MSMQ_1_0 = AuthenticationLevel.SIG10
    MSMQ_2_0 = AuthenticationLevel.SIG20
    MSMQ_3_0 = AuthenticationLevel.SIG30


class _Hash:
    """A hash algorithm: how it is computed and how PKCS #1 names it inside a signature."""

    def __init__(self, compute: Callable[[bytes], bytes], name: str, signer: Any = None) -> None:
        self.compute = compute
        self.name = bytes.fromhex(name)  # DigestInfo up to the hash, [RFC3447] 9.2
        self.signer = signer


_HASHES: Final[dict[int, _Hash]] = {
    HashAlgorithm.MD2: _Hash(
        lambda data: MD2.new(data).digest(), "3020300c06082a864886f70d020205000410"
    ),
    HashAlgorithm.MD4: _Hash(
        lambda data: MD4.new(data).digest(), "3020300c06082a864886f70d020405000410"
    ),
    HashAlgorithm.MD5: _Hash(
        lambda data: hashlib.md5(data, usedforsecurity=False).digest(),
        "3020300c06082a864886f70d020505000410",
    ),
    HashAlgorithm.SHA1: _Hash(
        lambda data: hashlib.sha1(data, usedforsecurity=False).digest(),
        "3021300906052b0e03021a05000414",
        hashes.SHA1(),
    ),
    HashAlgorithm.SHA_256: _Hash(
        lambda data: hashlib.sha256(data).digest(),
        "3031300d060960864801650304020105000420",
        hashes.SHA256(),
    ),
    HashAlgorithm.SHA_512: _Hash(
        lambda data: hashlib.sha512(data).digest(),
        "3051300d060960864801650304020305000440",
        hashes.SHA512(),
    ),
}


def may_sign_with(hash_algorithm: int) -> bool:
    """Whether we sign with this hash: never a broken or unknown one (decision 54)."""
    return hash_algorithm in _HASHES and hash_algorithm not in _WEAK


def may_verify_with(hash_algorithm: int, weak: bool) -> bool:
    """Whether a signature over this hash may prove anything; broken ones by a setting only."""
    return hash_algorithm in _HASHES and (weak or hash_algorithm not in _WEAK)


def hash_input(packet: Packet, kind: SignatureKind) -> bytes:
    """The bytes that are hashed, [MS-MQMQ] 2.5.1 to 2.5.3: in this order, nothing in between."""
    properties = packet.properties
    assert properties is not None
    seen, names = packet.summary, packet.names
    destination, administration, response = (
        encode_text(text) if text else b"" for text in names.texts
    )
    parts = [
        properties.correlation_id,
        struct.pack("<I", properties.application_tag),
        packet.body,
        label_bytes(packet.data, seen),
        response,
        administration,
    ]
    if kind == SignatureKind.MSMQ_3_0:
        parts += (packet.extension, _destination_list(packet))
    if kind != SignatureKind.MSMQ_1_0:
        parts += (seen.source_guid, _message_fields(packet), names.connector_type)
    if kind == SignatureKind.MSMQ_2_0:
        parts.append(destination)
    return b"".join(parts)


def content_digest(packet: Packet, kind: SignatureKind, key: RSAPublicKey) -> bytes:
    """What is signed, and by which key: equal for all copies of a signed message."""
    return signed_digest(hash_input(packet, kind), key)


def signed_digest(content: bytes, key: RSAPublicKey | DSAPublicKey) -> bytes:
    """A digest of signed octets and the key that has signed them."""
    owner = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.blake2b(content, key=hashlib.sha256(owner).digest(), digest_size=32).digest()


def _message_fields(packet: Packet) -> bytes:
    """DM, PR, both journal bits, the acknowledgments, class and body type."""
    flags, properties = packet.user_flags, packet.properties
    assert properties is not None
    return _MESSAGE_FIELDS.pack(
        flags.delivery,
        packet.base_flags.priority,
        flags.positive_journaling << 1 | flags.negative_journaling,
        properties.acknowledgments & ACKNOWLEDGMENTS,
        properties.message_class,
        properties.body_type,
    )


def _destination_list(packet: Packet) -> bytes:
    lists = packet.multi_queue
    return encode_text(",".join(map(str, lists.destination))) if lists else b""


def sign(packet: Packet, kind: SignatureKind, key: RSAPrivateKey) -> bytes:
    """The signature by HashAlgorithm of the packet, lowest byte first as in all key blobs."""
    assert packet.properties is not None
    algorithm = _HASHES[packet.properties.hash_algorithm]
    assert algorithm.signer is not None, "broken hashes are never used"
    digest = algorithm.compute(hash_input(packet, kind))
    return key.sign(digest, PKCS1v15(), Prehashed(algorithm.signer))[::-1]


def verify(
    packet: Packet,
    kinds: tuple[SignatureKind, ...],
    signature: bytes,
    key: RSAPublicKey,
    *,
    weak: bool = False,
) -> SignatureKind | None:
    """The first of these forms that the signature fits, [MS-MQQB] 3.1.5.8.3; None if none does."""
    properties = packet.properties
    if properties is None or not may_verify_with(properties.hash_algorithm, weak):
        return None
    try:
        signed = key.recover_data_from_signature(signature[::-1], PKCS1v15(), None)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return None
    algorithm = _HASHES[properties.hash_algorithm]
    for kind in kinds:
        digest = algorithm.compute(hash_input(packet, kind))
        if hmac.compare_digest(signed, algorithm.name + digest):
            return kind
    return None
