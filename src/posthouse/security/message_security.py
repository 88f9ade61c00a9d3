"""Signs, encrypts, verifies and decrypts messages, [MS-MQQB] 3.1.5.8.3, 3.1.7.1.4, 3.1.7.1.5.

Messages without a SecurityHeader do not come here: callers check `PacketSummary.security_at` first,
so that ordinary messages cost nothing. Keys and certificates come from a `KeyRing`, random bytes
and the time from the caller.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from posthouse.model.errors import (
    CertificateNotProvided,
    ComputerDoesNotSupportEncryption,
    CorruptedSecurityData,
    RemoteProtocolError,
)
from posthouse.model.message_classes import (
    NACK_BAD_ENCRYPTION,
    NACK_BAD_SIGNATURE,
    NACK_UNSUPPORTED_CRYPTO_PROVIDER,
)
from posthouse.model.message_values import PrivacyLevel, SenderIdentifierType
from posthouse.security.body_encryption import (
    CannotOpen,
    Random,
    decoy_key,
    decrypt,
    encrypt,
    make_session_key,
    unwrap_key,
    uses_40_bits,
    wrap_key,
)
from posthouse.security.certificates import key_in_certificate
from posthouse.security.key_blobs import exchange_blob, rsa_key
from posthouse.security.key_caches import CachedSymmetricKey, CachedUserCert, KeyCaches
from posthouse.security.keys import ProviderKey, UserCertificate, unpack_public_key
from posthouse.security.providers import (
    AES,
    ENHANCED,
    PROVIDERS,
    RC2,
    RC4,
    CryptoProvider,
    provider_of_level,
)
from posthouse.security.settings import MessageSecuritySettings
from posthouse.security.signing import (
    SignatureKind,
    content_digest,
    may_sign_with,
    sign,
    verify,
)
from posthouse.wire.packet.headers import QUEUE_DIRECT, QUEUE_NONE, SecurityFlags, UserFlags
from posthouse.wire.packet.optional_headers import Provider, Security
from posthouse.wire.packet.packet import Packet, is_encrypted
from posthouse.wire.packet.packet_fields import PacketSummary
from posthouse.wire.packet.patch import UNVERIFIED
from posthouse.wire.packet.protection import (
    signature_of_list,
    with_list_signature,
    with_protection,
)
from posthouse.wire.packet.security_fields import (
    claimed_sender,
    has_signature,
    privacy_level,
    security_flags,
    with_security_flags,
)

SENDER_IS_USER: Final = int(SenderIdentifierType.SID)
SENDER_IS_QUEUE_MANAGER: Final = int(SenderIdentifierType.QUEUE_MANAGER_IDENTIFIER)
IN_SECURITY_HEADER: Final[tuple[SignatureKind, ...]] = (
    SignatureKind.MSMQ_2_0,
    SignatureKind.MSMQ_1_0,
)
IN_LIST_HEADER: Final[tuple[SignatureKind, ...]] = (SignatureKind.MSMQ_3_0,)
NO_CORRELATION: Final = bytes(20)
_HAS_LIST: Final = int(UserFlags.of(multi_queue_header=1))
_PROVEN: Final = {
    kind: SecurityFlags.of(authenticated=1, signature_kind=kind) for kind in SignatureKind
}


class Signer(NamedTuple):
    """A private key with the certificate that shows whose it is."""

    key: RSAPrivateKey
    certificate: bytes

    def __repr__(self) -> str:
        """Without the key, which does not belong into a log."""
        return f"Signer({len(self.certificate)} bytes)"


class KeyRing(Protocol):
    """Where keys and certificates are: the records of the engine, and the directory."""

    def certificates_of(self, sid: bytes) -> Iterable[UserCertificate]:
        """Those registered for a user, local or not."""
        ...

    def certificates_of_machine(self, guid: bytes) -> Iterable[UserCertificate]:
        """Those registered for a queue manager (decision 75)."""
        ...

    def is_registered(self, certificate: bytes) -> bool:
        """Whether anybody has registered this certificate."""
        ...

    def public_keys(self, guid: bytes) -> tuple[ProviderKey, ...]:
        """What a queue manager has published to encrypt for it; nothing if it is not known."""
        ...

    def private_key(self, provider: str) -> RSAPrivateKey | None:
        """Our own key pair of a provider."""
        ...

    def signer(self, sid: bytes) -> Signer | None:
        """What signs for a user here."""
        ...


class Verified(NamedTuple):
    """A received message after its security was looked at.

    `packet` is in the clear, and its AU and AS are ours (decision 3). EB stays, for it shows that
    the body travelled encrypted; its key is gone. `refusal` is the message class to answer with
    where the message is to be dropped; the packet is then as it came.
    """

    packet: bytes
    seen: PacketSummary
    authenticated: bool = False  # the certificate is registered, and of the sender it names
    signature_kind: int = 0  # AS: 1, 3, 5, or 0 for nothing proved
    sender_type: int = 0  # ST
    sender_id: bytes = b""  # as claimed; it counts for more than everyone only if `proven_sid`
    refusal: int | None = None
    reason: str = ""
    digest: bytes = b""  # of what is signed, if it proves a sender

    @property
    def proven_sid(self) -> bytes:
        """The SID of a user who signed, else nothing: then the sender is everyone at most."""
        user = self.authenticated and self.sender_type == SENDER_IS_USER
        return self.sender_id if user else b""


class _Refused(Exception):
    """A message to be dropped, with the class of the acknowledgment to its sender."""

    def __init__(self, message_class: int, reason: str) -> None:
        super().__init__(reason)
        self.message_class = message_class
        self.reason = reason


class MessageSecurity:
    """Signs, seals, opens and verifies for one queue manager."""

    def __init__(
        self, keys: KeyRing, random: Random, settings: MessageSecuritySettings | None = None
    ) -> None:
        self.keys = keys
        self.random = random
        self._secret = random(32)  # of what is made up where a key is not good
        self.configure(settings or MessageSecuritySettings())

    def configure(self, settings: MessageSecuritySettings) -> None:
        """Takes new settings; what was remembered under the old ones is forgotten."""
        self.settings = settings
        self.caches = KeyCaches(
            settings.receive_key_cache_size,
            settings.send_key_cache_size,
            settings.certificate_cache_size,
            settings.symmetric_key_lifetime_s * 1000,
            settings.certificate_lifetime_s * 1000,
        )

    def forget(self) -> None:
        """For every change of keys or certificates: what is withdrawn counts at once."""
        self.caches.clear()

    def advance(self, now_ms: int) -> None:
        """Runs the cleanup timers that are due, [MS-MQQB] 3.1.6.10 to 3.1.6.13."""
        self.caches.advance(now_ms)

    # -- received messages

    def open(self, packet: bytes, seen: PacketSummary, now_ms: int) -> Verified:
        """Decrypts, then verifies (decision 70) a message for a queue of ours.

        `RemoteProtocolError` for a packet that cannot be read: its session is to be closed.
        """
        if not seen.security_at:
            return Verified(packet, seen)
        if _only_names_sender(packet, seen):
            return _unproven(packet, seen)
        self.advance(now_ms)
        view = Packet(packet, seen)
        security = view.security
        assert security is not None
        claim = security.flags.sender_id_type, security.sender_id
        try:
            _check_provider(security)
            clear = self._opened(view, security, now_ms) if security.flags.encrypted else view
            kind = self._verified(clear, security, now_ms)
        except _Refused as refused:
            return Verified(packet, seen, False, 0, *claim, refused.message_class, refused.reason)
        marked = _marked(clear.data, clear.summary, kind)
        proved = Verified(marked, clear.summary, kind is not None, int(kind or 0), *claim)
        return proved if kind is None else proved._replace(digest=self._digest(clear, kind))

    def _digest(self, view: Packet, kind: SignatureKind) -> bytes:
        assert view.security is not None
        key = key_in_certificate(view.security.sender_certificate, self.settings.weak_algorithms)
        assert key is not None  # its signature was good
        return content_digest(view, kind, key)

    def _opened(self, view: Packet, security: Security, now_ms: int) -> Packet:
        """The message with its body in the clear and without its key."""
        properties = view.properties
        provider = provider_of_level(view.privacy_level)
        if properties is None or provider is None:
            raise _Refused(NACK_BAD_ENCRYPTION, f"privacy level {view.privacy_level}")
        algorithm = properties.encryption_algorithm
        if algorithm not in provider.key_sizes or (
            provider.weak and not self.settings.weak_algorithms
        ):
            raise _Refused(NACK_BAD_ENCRYPTION, f"cipher 0x{algorithm:04X} of {provider.name}")
        key = self._received_key(view.summary.source_guid, security, provider, algorithm, now_ms)
        body = _decrypted(key, view.body)
        plain = security._replace(encryption_key=b"")
        data = with_protection(view.data, view.summary, plain, properties, body)
        return Packet(data)

    def _received_key(
        self,
        source: bytes,
        security: Security,
        provider: CryptoProvider,
        algorithm: int,
        now_ms: int,
    ) -> CachedSymmetricKey:
        """The session key, from the cache or by our private key; a made-up one if it is not good.

        A bad key is cached and used like a good one, so that they differ only in the refusal at the
        end, and not in the time that a second message with the same key takes.
        """
        blob = security.encryption_key
        name = provider.name, algorithm, source, blob
        cached = self.caches.receive.find(name)
        if cached is not None:
            return cached
        private_key = self.keys.private_key(provider.name)
        if private_key is None:
            raise _Refused(NACK_BAD_ENCRYPTION, f"we have no key of {provider.name}")
        size, fault = provider.key_sizes[algorithm], ""
        key, decoy = (
            unwrap_key(blob, algorithm, size, private_key, self._secret),
            decoy_key(blob, size, self._secret),
        )
        reject = self.settings.reject_40_bit_rc2 and provider is ENHANCED and algorithm == RC2
        if key is None:
            fault = "the body cannot be decrypted"
        elif reject and uses_40_bits(key):
            fault = "an RC2 key of 40 bits"
        entry = CachedSymmetricKey(
            source, provider.name, algorithm, blob, key or decoy, now_ms, fault
        )
        self.caches.receive.add(name, entry)
        return entry

    def _verified(self, view: Packet, security: Security, now_ms: int) -> SignatureKind | None:
        """The form of the signature if it proves a sender, None if nothing was signed."""
        signature = security.signature or signature_of_list(view)
        if not signature:
            return None
        kinds = IN_SECURITY_HEADER if security.signature else IN_LIST_HEADER
        certificate = security.sender_certificate
        # The document verifies before it looks for the owner. The other way round a stranger's
        # certificate costs a search, and the answer is the same.
        known = self._is_of_sender(certificate, security, now_ms)
        if not known and security.flags.sender_id_type:
            raise _Refused(NACK_BAD_SIGNATURE, "the certificate is not registered for the sender")
        weak = self.settings.weak_algorithms
        key = key_in_certificate(certificate, weak)
        kind = None if key is None else verify(view, kinds, signature, key, weak=weak)
        if kind is None:
            raise _Refused(NACK_BAD_SIGNATURE, "the signature does not fit the message")
        return kind if known else None

    def _is_of_sender(self, certificate: bytes, security: Security, now_ms: int) -> bool:
        """Whether the certificate belongs to the sender that the message names.

        Choice: without a name in the message it is enough that somebody here has registered the
        certificate; a signature by anybody else's proves nothing and does no harm.
        """
        sender = security.sender_id
        if security.flags.sender_id_type == SENDER_IS_USER:
            return self._is_of_user(certificate, sender, now_ms)
        if security.flags.sender_id_type == SENDER_IS_QUEUE_MANAGER:
            entries = self.keys.certificates_of_machine(sender) if len(sender) == 16 else ()
            return any(entry.certificate == certificate for entry in entries)
        return not security.flags.sender_id_type and self.keys.is_registered(certificate)

    def _is_of_user(self, certificate: bytes, sid: bytes, now_ms: int) -> bool:
        """UserCertCache first, then what is registered for the SID."""
        name = certificate, sid
        if self.caches.certificates.find(name) is not None:
            return True
        for entry in self.keys.certificates_of(sid):
            if entry.certificate == certificate:
                self.caches.certificates.add(name, CachedUserCert(entry, sid, now_ms))
                return True
        return False

    # -- messages to send

    def sign(
        self, packet: bytes, sid: bytes, kind: SignatureKind = SignatureKind.MSMQ_2_0
    ) -> bytes:
        """Signing the Packet, [MS-MQQB] 3.1.7.1.4, for a user whose key is here.

        The packet is in the clear and has its source, destination and list already. A message to
        several queues is signed as MSMQ 3.0 whatever was asked for, and no other one is.
        """
        signer = self.keys.signer(sid)
        if signer is None:
            raise CertificateNotProvided(
                "the sender has no certificate here to sign with",
                "Make one with: posthouse cert create --user NAME.",
            )
        view = self._with_signer(Packet(packet), sid, signer)
        if view.tail.multi_queue_at:
            return with_list_signature(view, sign(view, SignatureKind.MSMQ_3_0, signer.key))
        if kind == SignatureKind.MSMQ_3_0:
            kind = SignatureKind.MSMQ_2_0
        security, properties = view.security, view.properties
        assert security is not None
        assert properties is not None
        signed = security._replace(signature=sign(view, kind, signer.key))
        return with_protection(view.data, view.summary, signed, properties)

    def _with_signer(self, view: Packet, sid: bytes, signer: Signer) -> Packet:
        """The packet with the sender, their certificate and a hash that may be signed."""
        properties = view.properties
        assert properties is not None
        if not may_sign_with(properties.hash_algorithm):
            properties = properties._replace(hash_algorithm=self.settings.signing_hash)
        if properties.correlation_id == NO_CORRELATION:
            # The only signed field that can differ between two messages with the same content.
            properties = properties._replace(correlation_id=self.random(len(NO_CORRELATION)))
        old = view.security or Security()
        flags = SecurityFlags(old.flags & UNVERIFIED)
        security = old._replace(
            flags=flags.replace(sender_id_type=SENDER_IS_USER, default_provider=1),
            sender_id=sid,
            signature=b"",
            sender_certificate=signer.certificate,
        )
        return Packet(with_protection(view.data, view.summary, security, properties))

    def seal(self, packet: bytes, seen: PacketSummary, now_ms: int) -> bytes:
        """Encrypting the Message Body, [MS-MQQB] 3.1.7.1.5, for the final destination.

        A message that wants no privacy, or has its key already, is returned as it is. Any error,
        a `QueueError`, is for 3.1.7.1.5.1: the message must not go out in the clear.
        """
        if not privacy_wanted(packet, seen):
            return packet
        try:
            return self._sealed(packet, seen, now_ms)
        except RemoteProtocolError as error:
            raise CorruptedSecurityData(f"the message cannot be read: {error}") from None

    def _sealed(self, packet: bytes, seen: PacketSummary, now_ms: int) -> bytes:
        view = Packet(packet, seen)
        old = view.security or Security()
        if old.encryption_key:
            return packet
        self.advance(now_ms)
        if view.user_flags.destination_type in (QUEUE_DIRECT, QUEUE_NONE):
            raise ComputerDoesNotSupportEncryption(
                "only messages to public and private format names can be encrypted",
                "Send by a PRIVATE= or PUBLIC= name.",
            )
        properties = view.properties
        assert properties is not None
        provider, published = self._receiver_key(seen.address_guid, properties.privacy_level)
        key = self._key_to_send(seen.address_guid, provider, published, now_ms)
        security = old._replace(
            flags=old.flags.replace(encrypted=1, default_provider=0),
            encryption_key=key.encrypted_key,
            provider=Provider(provider.provider_type, provider.name),
        )
        properties = properties._replace(
            encryption_algorithm=key.algorithm, privacy_level=provider.privacy_level
        )
        body = encrypt(key.algorithm, key.key, view.body)
        return with_protection(packet, seen, security, properties, body)

    def _receiver_key(self, guid: bytes, privacy_level: int) -> tuple[CryptoProvider, ProviderKey]:
        """UseCSP and UsePublicKey: AES before Enhanced, never Base (decisions 54 and 71)."""
        published = {key.provider_name: key for key in self.keys.public_keys(guid)}
        for provider in (AES, ENHANCED):
            key = published.get(provider.name)
            if key is not None:
                return provider, key
            if privacy_level == PrivacyLevel.ADVANCED:
                break
        raise ComputerDoesNotSupportEncryption(
            "the destination has published no key that is strong enough",
            "Exchange keys: posthouse cert export there, posthouse cert trust here.",
        )

    def _key_to_send(
        self, guid: bytes, provider: CryptoProvider, published: ProviderKey, now_ms: int
    ) -> CachedSymmetricKey:
        """A session key for the receiver.

        Choice: one for RC4 is made for each message, because two bodies under the same key stream
        would give each other away.
        """
        algorithm = self.settings.preferred_enhanced_algorithm
        if provider is AES:
            algorithm = self.settings.preferred_advanced_algorithm
        cache, name = self.caches.sent_with(provider.name), (provider.name, algorithm, guid)
        cached = cache.find(name)
        if cached is not None:
            return cached
        try:
            receiver = rsa_key(unpack_public_key(exchange_blob(published)))
        except RemoteProtocolError as error:
            raise ComputerDoesNotSupportEncryption(
                f"the key that the destination published cannot be used: {error}"
            ) from None
        key = make_session_key(provider, algorithm, self.random)
        blob = wrap_key(algorithm, key, receiver)
        made = CachedSymmetricKey(guid, provider.name, algorithm, blob, key, now_ms)
        if algorithm != RC4:
            cache.add(name, made)
        return made


def privacy_wanted(packet: bytes, seen: PacketSummary) -> bool:
    """Whether PrivacyLevel asks for an encrypted body: the quick question before `seal`."""
    return privacy_level(packet, seen) != 0


def requested_signature(packet: bytes, seen: PacketSummary) -> SignatureKind | None:
    """The signature that a client of ours asks for, by the bits AS of a packet it hands over.

    On the wire between queue managers these bits mean nothing (decision 3).
    """
    if not seen.security_at or not seen.properties_at:
        return None
    try:
        return SignatureKind(security_flags(packet, seen).signature_kind)
    except ValueError:
        return None


def _only_names_sender(packet: bytes, seen: PacketSummary) -> bool:
    """Whether a SecurityHeader has neither signature nor ciphertext: most of Windows' have not."""
    secret = is_encrypted(packet, seen) or seen.user_flags & _HAS_LIST
    return not (secret or has_signature(packet, seen))


def _unproven(packet: bytes, seen: PacketSummary) -> Verified:
    """The claim of a sender who did not sign."""
    sender_type, sender = claimed_sender(packet, seen)
    return Verified(_marked(packet, seen, None), seen, False, 0, sender_type, sender)


def _check_provider(security: Security) -> None:
    """Decision 74: a provider with an unknown name."""
    provider = security.provider
    if provider is not None and provider.name and provider.name not in PROVIDERS:
        raise _Refused(NACK_UNSUPPORTED_CRYPTO_PROVIDER, "a cryptographic provider unknown here")


def _decrypted(key: CachedSymmetricKey, body: bytes) -> bytes:
    """The clear body; under a bad key the same work is done, for the same answer."""
    try:
        clear = decrypt(key.algorithm, key.key, body)
    except CannotOpen:
        fault = key.fault or "the body cannot be decrypted"
        raise _Refused(NACK_BAD_ENCRYPTION, fault) from None
    if key.fault:
        raise _Refused(NACK_BAD_ENCRYPTION, key.fault)
    return clear


def _marked(packet: bytes, seen: PacketSummary, kind: SignatureKind | None) -> bytes:
    """The packet with AU and AS as our own verification found them (decision 3)."""
    flags = security_flags(packet, seen) & UNVERIFIED
    return with_security_flags(packet, seen, flags | (_PROVEN[kind] if kind is not None else 0))
