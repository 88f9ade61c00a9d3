"""Fuzz target: whatever is done to signed and encrypted packets, only genuine ones are believed.

The key pair is fixed and made for this file alone, so that a seed gives the same inputs again.
"""

import random
import struct
from collections.abc import Iterable
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from posthouse.model.errors import RemoteProtocolError
from posthouse.model.message import Message, MessageId
from posthouse.model.names import PrivateName
from posthouse.security.body_encryption import encrypt
from posthouse.security.key_blobs import SimpleBlob, pack_simple_blob
from posthouse.security.keys import ProviderKey, UserCertificate
from posthouse.security.message_security import MessageSecurity, Signer
from posthouse.security.providers import PROVIDERS, CryptoProvider
from posthouse.security.settings import MessageSecuritySettings
from posthouse.security.sids import make_sid
from posthouse.security.signing import SignatureKind, hash_input
from posthouse.wire.packet.headers import SecurityFlags
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.optional_headers import Security
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.packet.protection import with_protection

P = 0xED6924912FA748CC5B0FA1561C7114987E86B9EA1D5C53AC20F8F966C95DB3E31828F2CF6033529A536E8BCC9B65E1B9231F1A927DAD8800016E7A396D04113F  # noqa: E501
Q = 0xE8ADEBB1389B1DBDEFB0DF57456E375BDB46A5DDCD8D4A87877DF4FFCB70DE8144D2EC928964FBF84B5D62A4973D51C1D9E86E5883939B823BBCDB876AB3CD35  # noqa: E501
N, E = P * Q, 65_537
D = pow(E, -1, (P - 1) * (Q - 1))
SIZE = 128
SID = make_sid(5, 21, 1, 2, 3, 1000)
SOURCE, HERE = b"s" * 16, b"h" * 16
LIST = ("DIRECT=OS:a\\private$\\x", "DIRECT=OS:b\\private$\\y")
DAY = datetime(2026, 1, 1, tzinfo=UTC)


def _private_key() -> rsa.RSAPrivateKey:
    crt = rsa.rsa_crt_dmp1(D, P), rsa.rsa_crt_dmq1(D, Q), rsa.rsa_crt_iqmp(P, Q)
    return rsa.RSAPrivateNumbers(P, Q, D, *crt, rsa.RSAPublicNumbers(E, N)).private_key()


KEY = _private_key()


def _certificate() -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fuzz")])
    builder = x509.CertificateBuilder(name, name, KEY.public_key(), 1, DAY, DAY.replace(year=2100))
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


CERTIFICATE = _certificate()


class Ring:
    """One user, one machine and the keys of every provider."""

    def certificates_of(self, sid: bytes) -> Iterable[UserCertificate]:
        """Of the one user."""
        return [UserCertificate.of(CERTIFICATE)] if sid == SID else []

    def certificates_of_machine(self, guid: bytes) -> Iterable[UserCertificate]:
        """Of the one machine."""
        return [UserCertificate.of(CERTIFICATE)] if guid == SOURCE else []

    def is_registered(self, certificate: bytes) -> bool:
        """The one certificate is."""
        return certificate == CERTIFICATE

    def public_keys(self, guid: bytes) -> tuple[ProviderKey, ...]:
        """Nothing is sealed here."""
        return ()

    def private_key(self, provider: str) -> rsa.RSAPrivateKey | None:
        """One for all providers."""
        return KEY

    def signer(self, sid: bytes) -> Signer | None:
        """The one user signs."""
        return Signer(KEY, CERTIFICATE) if sid == SID else None


SECURITY = MessageSecurity(Ring(), bytes, MessageSecuritySettings(weak_algorithms=True))


def _message(**attributes: object) -> bytes:
    values: dict[str, object] = {
        "identifier": MessageId(SOURCE, 1),
        "source_machine_identifier": SOURCE,
        "destination_queue_manager_identifier": HERE,
        "destination_queue_format_name": str(PrivateName(HERE, 3)),
        "destination_queue_type": 3,
        "label": "order",
        "extension": b"ext",
        "body": b"<order/>",
        "hash_algorithm": 0x800E,
    }
    return serialize(Message(**{**values, **attributes}))  # type: ignore[arg-type]


def _wrapped(algorithm: int, key: bytes) -> bytes:
    """A SIMPLEBLOB whose padding is always the same."""
    padded = b"\0\2" + b"\xaa" * (SIZE - 3 - len(key)) + b"\0" + key
    power = pow(int.from_bytes(padded, "big"), E, N)
    return pack_simple_blob(SimpleBlob(algorithm, power.to_bytes(SIZE, "little")))


def _sealed(packet: bytes, provider: CryptoProvider, algorithm: int) -> bytes:
    view, key = Packet(packet), bytes(range(1, 1 + provider.key_sizes[algorithm]))
    assert view.properties is not None
    security = (view.security or Security())._replace(encryption_key=_wrapped(algorithm, key))
    flags = SecurityFlags(security.flags).replace(encrypted=1)
    properties = view.properties._replace(
        privacy_level=provider.privacy_level, encryption_algorithm=algorithm
    )
    body = encrypt(algorithm, key, view.body)
    return with_protection(packet, view.summary, security._replace(flags=flags), properties, body)


SIGNED = [
    SECURITY.sign(_message(), SID, SignatureKind.MSMQ_1_0),
    SECURITY.sign(_message(), SID, SignatureKind.MSMQ_2_0),
    SECURITY.sign(_message(destination_multi_queue_format_name=LIST), SID),
]
SEEDS = [
    _message(sender_identifier=SID, sender_identifier_type=1),
    *SIGNED,
    *(
        _sealed(packet, provider, algorithm)
        for packet in (_message(), SIGNED[1])
        for provider in PROVIDERS.values()
        for algorithm in provider.key_sizes
    ),
]
_GENUINE = {
    (kind, hash_input(Packet(packet), kind))
    for kind, packet in zip(SignatureKind, SIGNED, strict=True)
}


def fuzz_one(data: bytes) -> bool:
    """Opens one packet: whatever is accepted must be what the owner of the key signed."""
    try:
        seen = summarize(data)
        found = SECURITY.open(data, seen, 0)
    except RemoteProtocolError:
        return False
    assert summarize(found.packet) == found.seen
    if found.authenticated:
        kind = SignatureKind(found.signature_kind)
        assert (kind, hash_input(Packet(found.packet), kind)) in _GENUINE, "that was never signed"
    if seen.security_at and found.refusal is None:
        flags = SecurityFlags(struct.unpack_from("<H", found.packet, found.seen.security_at)[0])
        assert bool(flags.authenticated) == found.authenticated
    return found.refusal is None


def mutate(seed: bytes, chance: random.Random) -> bytes:
    """A few other bytes, mostly after the fixed headers, in a packet that keeps its size."""
    packet = bytearray(seed)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(chance.choice((0, 48, 64)), len(packet))
        packet[at] = chance.choice((packet[at] ^ 1 << chance.randrange(8), chance.randrange(256)))
    return bytes(packet)
