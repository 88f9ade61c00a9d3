"""Signing, sealing, opening and verifying whole packets, as two queue managers do."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.model.errors import (
    CertificateNotProvided,
    ComputerDoesNotSupportEncryption,
    QueueError,
    RemoteProtocolError,
)
from posthouse.model.guids import format_guid
from posthouse.model.message import MESSAGE_SIZE_MAX, Message
from posthouse.model.message_classes import (
    NACK_BAD_ENCRYPTION,
    NACK_BAD_SIGNATURE,
    NACK_UNSUPPORTED_CRYPTO_PROVIDER,
)
from posthouse.model.message_values import AES_PROVIDER, BASE_PROVIDER, ENHANCED_PROVIDER
from posthouse.security.body_encryption import encrypt, wrap_key
from posthouse.security.key_blobs import unpack_simple_blob
from posthouse.security.message_security import (
    MessageSecurity,
    Verified,
    privacy_wanted,
    requested_signature,
)
from posthouse.security.providers import AES128, AES192, AES256, PROVIDERS, RC2, RC4
from posthouse.security.settings import MessageSecuritySettings
from posthouse.security.sids import make_sid
from posthouse.security.signing import SignatureKind, sign
from posthouse.wire.packet.headers import SecurityFlags
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.optional_headers import Provider, Security
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.packet.protection import (
    signature_of_list,
    with_list_signature,
    with_protection,
)
from tests.security.key_ring import MemoryRing, certificate, next_cleanup, private_key, provider_key
from tests.support.packet_security import changed, security_of, with_flags
from tests.support.signed_samples import ADDRESS, SOURCE, sample
from tests.wire.strategies import messages

ALICE = make_sid(5, 21, 1, 2, 3, 1000)
BOB = make_sid(5, 21, 1, 2, 3, 1001)
NOW = 1_000_000
LIST = ("DIRECT=OS:a\\private$\\x", "DIRECT=OS:b\\private$\\y")
WEAK = MessageSecuritySettings(weak_algorithms=True)


class Pair:
    """A sender and a receiver who know each other's keys, Alice registered at both."""

    def __init__(
        self,
        sending: MessageSecuritySettings | None = None,
        receiving: MessageSecuritySettings | None = None,
        providers: tuple[str, ...] = (AES_PROVIDER, ENHANCED_PROVIDER),
    ) -> None:
        self.here, self.there = MemoryRing(), MemoryRing()
        self.here.users[ALICE] = self.there.users[ALICE] = ["alice"]
        self.here.published[ADDRESS] = [provider_key(name, "beta") for name in providers]
        self.there.own = dict.fromkeys(PROVIDERS, "beta")
        numbers = itertools.count()
        self.sender = MessageSecurity(
            self.here, lambda size: next(numbers).to_bytes(2, "big") * (size // 2), sending
        )
        self.receiver = MessageSecurity(self.there, bytes, receiving)

    def signed(self, message: Message, kind: SignatureKind = SignatureKind.MSMQ_2_0) -> bytes:
        return self.sender.sign(serialize(message), ALICE, kind)

    def sealed(self, packet: bytes, now_ms: int = NOW) -> bytes:
        return self.sender.seal(packet, summarize(packet), now_ms)

    def open(self, packet: bytes, now_ms: int = NOW) -> Verified:
        return self.receiver.open(packet, summarize(packet), now_ms)


# -- signing and verifying


@pytest.mark.spec(
    "MS-MQQB 3.1.7.1.4/1", "MS-MQQB 3.1.7.1.4/3", "MS-MQQB 3.1.5.8.3/8", "MS-MQDMPR 3.1.1.12/10"
)
@pytest.mark.parametrize("kind", [SignatureKind.MSMQ_1_0, SignatureKind.MSMQ_2_0])
def test_signed_message_is_authenticated_with_the_kind_of_its_signature(
    kind: SignatureKind,
) -> None:
    pair = Pair()
    packet = pair.signed(sample(), kind)
    security = security_of(packet)
    assert security.signature
    assert security.sender_certificate == certificate("alice")
    assert (security.flags.sender_id_type, security.sender_id) == (1, ALICE)
    assert security.flags.authenticated == security.flags.signature_kind == 0
    found = pair.open(packet)
    assert found.refusal is None
    assert found.authenticated
    assert found.proven_sid == ALICE
    assert found.signature_kind == kind
    flags = security_of(found.packet).flags
    assert (flags.authenticated, flags.signature_kind) == (1, kind)
    assert found.seen == summarize(found.packet)


@pytest.mark.spec(
    "MS-MQQB 3.1.7.1.4/2",
    "MS-MQQB 3.1.5.8.3/4",
    "MS-MQQB 3.1.5.8.3/8",
    "MS-MQDMPR 3.1.1.12/24",
    "MS-MQDMPR 3.1.1.12/10",
)
def test_message_to_several_queues_is_signed_in_its_list() -> None:
    pair = Pair()
    packet = pair.signed(sample(destination_multi_queue_format_name=LIST))
    view = Packet(packet)
    assert not security_of(packet).signature
    assert signature_of_list(view)
    found = pair.open(packet)
    assert found.authenticated
    assert found.signature_kind == SignatureKind.MSMQ_3_0
    # The same signature holds for the copy to another queue of the list.
    other = pair.signed(
        sample(
            destination_multi_queue_format_name=LIST,
            destination_queue_type=7,
            destination_queue_format_name=LIST[1],
        )
    )
    assert signature_of_list(Packet(other)) == signature_of_list(view)


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/4")
def test_signature_of_the_list_does_not_count_beside_one_of_the_header() -> None:
    pair = Pair()
    packet = pair.signed(sample(destination_multi_queue_format_name=LIST))
    assert pair.open(changed(packet, signature=b"x" * 128)).refusal == NACK_BAD_SIGNATURE


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/3")
def test_signature_of_form_3_0_does_not_count_in_the_header() -> None:
    pair = Pair()
    view = Packet(pair.signed(sample()))
    signature = sign(view, SignatureKind.MSMQ_3_0, private_key("alice"))
    assert pair.open(changed(view.data, signature=signature)).refusal == NACK_BAD_SIGNATURE


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/9")
def test_signature_that_does_not_fit_drops_the_message() -> None:
    pair = Pair()
    packet = pair.signed(sample())
    found = pair.open(changed(packet, body=b"<forged/>"))
    assert found.refusal == NACK_BAD_SIGNATURE
    assert not found.authenticated
    assert found.proven_sid == b""
    assert found.reason


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/9")
@given(st.data())
def test_any_flipped_bit_of_signature_or_certificate_drops_the_message(data: st.DataObject) -> None:
    pair = Pair()
    packet = pair.signed(sample())
    security = security_of(packet)
    name = data.draw(st.sampled_from(["signature", "sender_certificate"]))
    item = bytearray(getattr(security, name))
    at = data.draw(st.integers(0, len(item) - 1))
    item[at] ^= 1 << data.draw(st.integers(0, 7))
    assert pair.open(changed(packet, **{name: bytes(item)})).refusal == NACK_BAD_SIGNATURE


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/10", "MS-MQQB 3.1.5.8.3/15")
def test_certificate_of_somebody_else_does_not_prove_the_sender() -> None:
    pair = Pair()
    packet = pair.signed(sample())
    assert pair.open(packet).authenticated
    pair.there.users[BOB] = ["bob"]
    assert pair.open(changed(packet, sender_id=BOB)).refusal == NACK_BAD_SIGNATURE
    pair.there.users.clear()
    pair.receiver.forget()
    assert pair.open(packet).refusal == NACK_BAD_SIGNATURE


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/11", clause="SID")
@pytest.mark.spec("MS-MQQB 3.1.5.8.3/12", "MS-MQQB 3.1.5.8.3/13")
def test_certificate_is_searched_once_and_then_remembered_with_its_owner() -> None:
    pair = Pair()
    packet = pair.signed(sample())
    assert pair.open(packet).authenticated
    assert pair.open(packet).authenticated
    assert pair.there.searches == 1
    pair.there.users[BOB] = ["bob"]
    assert pair.open(changed(packet, sender_id=BOB)).refusal == NACK_BAD_SIGNATURE
    assert pair.there.searches == 2
    cached = pair.receiver.caches.certificates.find((certificate("alice"), ALICE))
    assert cached is not None
    assert cached.user_cert.certificate == certificate("alice")
    assert (cached.security_id, cached.cached_ms) == (ALICE, NOW)


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/11", clause="certificate")
@pytest.mark.spec("MS-MQQB 3.1.5.8.3/10")
def test_another_certificate_under_a_remembered_name_does_not_prove_the_sender() -> None:
    pair = Pair()
    assert pair.open(pair.signed(sample())).authenticated
    pair.here.users[ALICE] = ["bob"]  # a good signature, by a key that is not hers
    found = pair.open(pair.signed(sample(body=b"<forged/>")))
    assert found.refusal == NACK_BAD_SIGNATURE
    assert (found.authenticated, found.proven_sid) == (False, b"")


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/13")
def test_full_certificate_cache_drops_its_oldest_half() -> None:
    pair = Pair(receiving=MessageSecuritySettings(certificate_cache_size=2))
    for number in range(3):
        sid = make_sid(5, 21, 9, 9, 9, 1000 + number)
        pair.here.users[sid] = pair.there.users[sid] = ["alice"]
        assert pair.open(pair.sender.sign(serialize(sample()), sid), NOW + number).authenticated
    cache = pair.receiver.caches.certificates
    assert len(cache) == 2
    assert cache.find((certificate("alice"), make_sid(5, 21, 9, 9, 9, 1000))) is None


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/14", "MS-MQQB 3.1.2.13/1")
def test_remembering_a_certificate_starts_its_timer_once() -> None:
    pair = Pair()
    packet = pair.signed(sample())
    assert next_cleanup(pair.receiver.caches) is None
    pair.open(packet)
    pair.open(packet, NOW + 5)
    assert next_cleanup(pair.receiver.caches) == NOW + 1_200_000
    pair.receiver.advance(NOW + 1_200_001)
    assert next_cleanup(pair.receiver.caches) is None
    pair.there.users.clear()
    assert pair.open(packet, NOW + 1_300_000).refusal == NACK_BAD_SIGNATURE


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/26")
def test_claim_that_nobody_signed_proves_nothing() -> None:
    pair = Pair()
    packet = serialize(sample(sender_identifier=ALICE, sender_identifier_type=1))
    found = pair.open(packet)
    assert found.refusal is None
    assert (found.authenticated, found.proven_sid) == (False, b"")
    assert (found.sender_type, found.sender_id) == (1, ALICE)
    assert found.packet == packet


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/26")
def test_queue_manager_that_signs_is_authenticated_without_being_a_user() -> None:
    pair = Pair()
    pair.there.machines[SOURCE] = ["alice"]
    packet = changed(pair.signed(sample()), sender_id=SOURCE)
    found = pair.open(with_flags(packet, sender_id_type=2))
    assert found.authenticated
    assert found.proven_sid == b""


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/10")
def test_unknown_queue_manager_or_kind_of_sender_is_refused() -> None:
    pair = Pair()
    packet = pair.signed(sample())
    for sender_type in (2, 3, 15):
        found = pair.open(with_flags(packet, sender_id_type=sender_type))
        assert found.refusal == NACK_BAD_SIGNATURE


def test_signature_without_a_named_sender_needs_a_registered_certificate() -> None:
    pair = Pair()
    packet = with_flags(changed(pair.signed(sample()), sender_id=b""), sender_id_type=0)
    found = pair.open(packet)
    assert found.authenticated
    assert found.proven_sid == b""
    pair.there.users.clear()
    found = pair.open(packet)
    assert (found.refusal, found.authenticated, found.signature_kind) == (None, False, 0)
    assert pair.open(changed(packet, body=b"forged")).refusal == NACK_BAD_SIGNATURE


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/8")
@given(messages())
@settings(max_examples=50)
def test_bits_of_a_verification_that_came_over_the_wire_are_cleared(message: Message) -> None:
    packet = serialize(message)
    seen = summarize(packet)
    if not seen.security_at:
        return
    forged = with_flags(packet, authenticated=1, signature_kind=3)
    found = Pair().open(forged)
    assert not found.authenticated
    if found.refusal is None:
        flags = security_of(found.packet).flags
        assert flags.authenticated == flags.signature_kind == 0


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/6")
def test_hashes_that_are_broken_follow_the_setting() -> None:
    message = sample(hash_algorithm=0x8003)
    strong = Pair().signed(message)
    properties = Packet(strong).properties
    assert properties is not None
    assert properties.hash_algorithm == 0x800E  # what may be signed stands in for it


def test_sender_without_a_certificate_cannot_sign() -> None:
    with pytest.raises(CertificateNotProvided):
        Pair().sender.sign(serialize(sample()), BOB)


@given(messages())
@settings(max_examples=50)
def test_every_message_can_be_signed_and_verified(message: Message) -> None:
    message.privacy_level = 0
    message.symmetric_key = b""
    message.authentication_provider_name = ""
    message.authentication_provider_type = 0
    pair = Pair()
    found = pair.open(pair.signed(message))
    assert found.refusal is None
    assert found.authenticated
    assert Packet(found.packet).body == message.body


# -- sealing and opening


def secret(level: int = 5, **fields: object) -> bytes:
    return serialize(sample(privacy_level=level, encryption_algorithm=_default(level), **fields))


def _default(level: int) -> int:
    return AES256 if level == 5 else RC4


@pytest.mark.spec(
    "MS-MQQB 3.1.7.1.5/1",
    "MS-MQQB 3.1.7.1.5/8",
    "MS-MQQB 3.1.7.1.5/11",
    "MS-MQQB 3.1.7.1.5/15",
    "MS-MQQB 3.1.7.1.5/16",
    "MS-MQQB 3.1.5.8.3/16",
    "MS-MQQB 3.1.5.8.3/19",
    "MS-MQQB 3.1.1.3.3/2",
)
@pytest.mark.parametrize(
    ("providers", "settings", "algorithm", "size", "level"),
    [
        ((AES_PROVIDER,), MessageSecuritySettings(), AES256, 32, 5),
        ((AES_PROVIDER,), MessageSecuritySettings(advanced_algorithm="aes192"), AES192, 24, 5),
        ((AES_PROVIDER,), MessageSecuritySettings(advanced_algorithm="aes128"), AES128, 16, 5),
        ((ENHANCED_PROVIDER,), MessageSecuritySettings(), RC4, 16, 3),
        ((ENHANCED_PROVIDER,), MessageSecuritySettings(enhanced_algorithm="rc2"), RC2, 16, 3),
    ],
)
def test_body_travels_encrypted_and_arrives_clear(
    providers: tuple[str, ...],
    settings: MessageSecuritySettings,
    algorithm: int,
    size: int,
    level: int,
) -> None:
    pair = Pair(sending=settings, providers=providers)
    packet = secret(level)
    sealed = pair.sealed(packet)
    view = Packet(sealed)
    assert b"<order/>" not in sealed
    assert view.properties is not None
    assert view.properties.encryption_algorithm == algorithm
    assert view.properties.privacy_level == level
    assert view.properties.allocation_body_size == view.properties.message_size == len(view.body)
    security = security_of(sealed)
    assert security.flags.encrypted
    assert security.provider is not None
    assert security.provider.name == providers[0]
    assert unpack_simple_blob(security.encryption_key).algorithm == algorithm
    found = pair.open(sealed)
    assert found.refusal is None
    assert Packet(found.packet).body == b"<order/>"
    assert Packet(found.packet).encrypted
    assert not security_of(found.packet).encryption_key
    name = (providers[0], algorithm, SOURCE, security.encryption_key)
    cached = pair.receiver.caches.receive.find(name)
    assert cached is not None
    assert len(cached.key) == size
    assert view.body == encrypt(algorithm, cached.key, b"<order/>")
    assert cached.encrypted_key == security.encryption_key


@pytest.mark.spec("MS-MQQB 3.1.1.3.3/1", "MS-MQQB 3.1.1.3.4/1")
def test_both_sides_keep_the_key_and_the_receiver_the_certificate() -> None:
    pair = Pair()
    sealed = pair.sealed(pair.sender.sign(secret(), ALICE), NOW + 5)
    blob, algorithm = security_of(sealed).encryption_key, 0x6610
    assert pair.open(sealed, NOW + 9).refusal is None
    ((_, sent),) = pair.sender.caches.send._entries.items()
    ((_, received),) = pair.receiver.caches.receive._entries.items()
    for key, peer, cached in ((sent, ADDRESS, NOW + 5), (received, SOURCE, NOW + 9)):
        assert (key.remote_guid, key.provider, key.algorithm) == (peer, AES_PROVIDER, algorithm)
        assert (key.encrypted_key, key.cached_ms) == (blob, cached)
        assert Packet(sealed).body == encrypt(algorithm, key.key, b"<order/>")
    ((_, owner),) = pair.receiver.caches.certificates._entries.items()
    assert owner.user_cert.certificate == certificate("alice")
    assert (owner.security_id, owner.cached_ms) == (ALICE, NOW + 9)


def test_signed_and_sealed_message_arrives_clear_and_authenticated() -> None:
    pair = Pair()
    packet = pair.sender.sign(secret(), ALICE)
    found = pair.open(pair.sealed(packet))
    assert found.refusal is None
    assert found.authenticated
    assert Packet(found.packet).body == b"<order/>"
    listed = pair.sender.sign(secret(destination_multi_queue_format_name=LIST), ALICE)
    found = pair.open(pair.sealed(listed))
    assert (found.authenticated, found.signature_kind) == (True, 5)


@given(messages(), st.sampled_from([3, 5]))
@settings(max_examples=50)
def test_every_message_for_a_private_queue_can_be_sealed_and_opened(
    message: Message, level: int
) -> None:
    message.privacy_level = level
    message.destination_queue_type = 3
    message.destination_queue_manager_identifier = ADDRESS
    message.destination_queue_format_name = sample().destination_queue_format_name
    message.administration_queue_format_name = message.response_queue_format_name = ""
    message.symmetric_key = message.signature = message.multiple_destination_signature = b""
    pair = Pair()
    found = pair.open(pair.sealed(serialize(message)))
    assert found.refusal is None
    assert Packet(found.packet).body == message.body
    assert Packet(found.packet).label == message.label


def test_message_that_wants_no_privacy_or_has_its_key_is_left_alone() -> None:
    pair = Pair()
    plain = serialize(sample())
    assert not privacy_wanted(plain, summarize(plain))
    assert pair.sealed(plain) is plain
    sealed = pair.sealed(secret())
    assert pair.sealed(sealed) is sealed


@pytest.mark.spec("MS-MQQB 3.1.3.2/15")
def test_keys_of_the_receiver_are_looked_for_when_something_is_encrypted() -> None:
    pair = Pair()
    pair.sealed(serialize(sample()))
    pair.sealed(pair.signed(sample()))
    assert pair.here.key_searches == 0
    pair.sealed(secret())
    assert pair.here.key_searches == 1


@pytest.mark.spec("MS-MQQB 3.1.7.1.5/2")
def test_direct_names_cannot_be_encrypted_for() -> None:
    packet = secret(destination_queue_type=7, destination_queue_format_name=LIST[0])
    with pytest.raises(ComputerDoesNotSupportEncryption):
        Pair().sealed(packet)


@pytest.mark.spec("MS-MQQB 3.1.7.1.5/3", "MS-MQQB 3.1.7.1.5/7")
def test_receiver_without_published_keys_is_an_encryption_error() -> None:
    with pytest.raises(ComputerDoesNotSupportEncryption):
        Pair(providers=()).sealed(secret())


@pytest.mark.spec("MS-MQQB 3.1.7.1.5/5")
@pytest.mark.parametrize("level", [1, 3, 5])
def test_strongest_provider_is_chosen_whatever_level_was_asked_for(level: int) -> None:
    pair = Pair(providers=(BASE_PROVIDER, ENHANCED_PROVIDER, AES_PROVIDER))
    sealed = Packet(pair.sealed(secret(level)))
    assert sealed.privacy_level == 5
    pair = Pair(providers=(BASE_PROVIDER, ENHANCED_PROVIDER))
    if level < 5:
        assert Packet(pair.sealed(secret(level))).privacy_level == 3


@pytest.mark.spec("MS-MQQB 3.1.7.1.5/6")
def test_advanced_privacy_needs_an_aes_key_and_enhanced_at_least_its_own() -> None:
    with pytest.raises(ComputerDoesNotSupportEncryption):
        Pair(providers=(BASE_PROVIDER, ENHANCED_PROVIDER)).sealed(secret(5))
    with pytest.raises(ComputerDoesNotSupportEncryption):
        Pair(providers=(BASE_PROVIDER,)).sealed(secret(3))


@pytest.mark.spec("MS-MQQB 3.1.7.1.5/9", "MS-MQQB 3.1.7.1.5/5", "MS-MQDMPR 3.1.1.12/9")
@pytest.mark.parametrize("settings", [MessageSecuritySettings(), WEAK])
def test_base_keys_are_never_used_for_sending(settings: MessageSecuritySettings) -> None:
    with pytest.raises(ComputerDoesNotSupportEncryption):
        Pair(sending=settings, providers=(BASE_PROVIDER,)).sealed(secret(1))


@pytest.mark.spec("MS-MQQB 3.1.7.1.5/9", "MS-MQDMPR 3.1.3/7")
def test_small_key_of_a_receiver_is_an_encryption_error() -> None:
    pair = Pair()
    small = bytes.fromhex("06020000 00a40000 52534131 00020000 01000100") + b"\xff" * 64
    key = provider_key(AES_PROVIDER, "beta")._replace(blob=small)
    for published in (key, key._replace(blob=b"rubbish")):
        pair.here.published[ADDRESS] = [published]
        with pytest.raises(ComputerDoesNotSupportEncryption):
            pair.sealed(secret())


@pytest.mark.spec("MS-MQQB 3.1.7.1.5/10", "MS-MQQB 3.1.7.1.5/12", "MS-MQQB 3.1.2.11/1")
def test_session_key_is_used_again_until_it_is_too_old() -> None:
    pair = Pair()
    first = security_of(pair.sealed(secret())).encryption_key
    assert next_cleanup(pair.sender.caches) == NOW + 600_000
    assert security_of(pair.sealed(secret(), NOW + 9)).encryption_key == first
    other = b"e" * 16
    pair.here.published[other] = pair.here.published[ADDRESS]
    elsewhere = secret(
        destination_queue_manager_identifier=other,
        destination_queue_type=5,
        destination_queue_format_name="PUBLIC=" + format_guid(other),
    )
    assert security_of(pair.sealed(elsewhere)).encryption_key != first
    assert security_of(pair.sealed(secret(), NOW + 600_001)).encryption_key != first


@pytest.mark.spec("MS-MQQB 3.1.7.1.5/12")
def test_full_cache_of_sent_keys_drops_its_oldest_half() -> None:
    pair = Pair(sending=MessageSecuritySettings(send_key_cache_size=2))
    for number in range(3):
        guid = bytes((number + 1,)) * 16
        pair.here.published[guid] = pair.here.published[ADDRESS]
        packet = secret(
            destination_queue_manager_identifier=guid,
            destination_queue_type=5,
            destination_queue_format_name=f"PUBLIC={format_guid(guid)}",
        )
        pair.sealed(packet, NOW + number)
    assert len(pair.sender.caches.send) == 2
    assert pair.sender.caches.send.find((AES_PROVIDER, AES256, b"\1" * 16)) is None


def test_rc4_keys_are_not_used_twice() -> None:
    pair = Pair(providers=(ENHANCED_PROVIDER,))
    one, two = (security_of(pair.sealed(secret(3))).encryption_key for _ in range(2))
    assert one != two
    assert len(pair.sender.caches.send) == 0


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/18", "MS-MQQB 3.1.5.8.3/20", "MS-MQQB 3.1.2.10/1")
def test_received_key_is_remembered_for_its_source_and_blob() -> None:
    pair = Pair()
    sealed = pair.sealed(secret())
    pair.open(sealed)
    assert next_cleanup(pair.receiver.caches) == NOW + 600_000
    pair.there.own.clear()  # whoever has no private key has only what is remembered
    assert pair.open(sealed).refusal is None
    other = pair.sealed(secret(source_machine_identifier=b"z" * 16))
    assert pair.open(other).refusal == NACK_BAD_ENCRYPTION
    forged = bytearray(security_of(sealed).encryption_key)
    forged[-1] ^= 1
    assert pair.open(changed(sealed, encryption_key=bytes(forged))).refusal == NACK_BAD_ENCRYPTION


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/20")
def test_full_cache_of_received_keys_drops_its_oldest_half() -> None:
    pair = Pair(
        receiving=MessageSecuritySettings(receive_key_cache_size=2),
        providers=(ENHANCED_PROVIDER,),
    )
    packets = [pair.sealed(secret(3)) for _ in range(3)]  # each has a key of its own
    for number, packet in enumerate(packets):
        assert pair.open(packet, NOW + number).refusal is None
    cache = pair.receiver.caches.receive
    assert len(cache) == 2
    blob = security_of(packets[0]).encryption_key
    assert cache.find((ENHANCED_PROVIDER, RC4, SOURCE, blob)) is None


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/17", "MS-MQMQ 2.2.19.3/6")
@given(st.integers(0, 0xFFFFFFFF))
def test_encrypted_message_of_another_privacy_level_is_dropped(level: int) -> None:
    pair = Pair()
    sealed = pair.sealed(secret())
    view = Packet(sealed)
    assert view.properties is not None
    properties = view.properties._replace(privacy_level=level)
    odd = with_protection(sealed, view.summary, security_of(sealed), properties)
    if level != 5:
        assert pair.open(odd).refusal == NACK_BAD_ENCRYPTION


@pytest.mark.spec("MS-MQMQ 2.2.19.3/8")
def test_unknown_cipher_matters_in_encrypted_messages_only() -> None:
    pair = Pair()
    sealed = pair.sealed(secret())
    view = Packet(sealed)
    assert view.properties is not None
    properties = view.properties._replace(encryption_algorithm=0x6612)
    odd = with_protection(sealed, view.summary, security_of(sealed), properties)
    assert pair.open(odd).refusal == NACK_BAD_ENCRYPTION
    clear = pair.signed(sample(encryption_algorithm=0x6612))
    assert pair.open(clear).refusal is None


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/23")
@given(st.data())
def test_any_flipped_bit_of_the_session_key_drops_the_message(data: st.DataObject) -> None:
    pair = Pair()
    sealed = pair.sealed(secret())
    blob = bytearray(security_of(sealed).encryption_key)
    at = data.draw(st.integers(0, len(blob) - 1))
    blob[at] ^= 1 << data.draw(st.integers(0, 7))
    found = pair.open(changed(sealed, encryption_key=bytes(blob)))
    # RSA gives some bytes for a forged blob; the rare ones of the right length open to rubbish.
    assert found.refusal == NACK_BAD_ENCRYPTION or Packet(found.packet).body != b"<order/>"


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/23")
def test_bodies_that_cannot_be_decrypted_are_all_refused_alike() -> None:
    pair = Pair()
    sealed = pair.sealed(secret())
    reasons = set()
    for odd in (
        changed(sealed, body=Packet(sealed).body[:-1]),
        changed(sealed, body=b""),
        changed(sealed, body=bytes(16)),
        changed(sealed, encryption_key=b"rubbish"),
        changed(sealed, encryption_key=b""),
    ):
        found = pair.open(odd)
        assert found.refusal == NACK_BAD_ENCRYPTION
        assert found.packet == odd
        reasons.add(found.reason)
    assert len(reasons) == 1


def test_clear_message_that_claims_to_be_encrypted_is_refused() -> None:
    assert Pair().open(secret()).refusal == NACK_BAD_ENCRYPTION


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/21", "MS-MQQB 3.1.1.3/3", "MS-MQQB 3.1.3.1/9")
@pytest.mark.parametrize(("reject", "refusal"), [(True, NACK_BAD_ENCRYPTION), (False, None)])
def test_rc2_keys_of_40_bits_follow_the_setting(reject: bool, refusal: int | None) -> None:
    pair = Pair(receiving=MessageSecuritySettings(reject_40_bit_rc2=reject))
    packet = sealed_by_hand(ENHANCED_PROVIDER, 3, RC2, b"12345" + bytes(11))
    assert pair.open(packet).refusal == refusal


@pytest.mark.spec("MS-MQQB 3.1.7.1.5/8", "MS-MQQB 3.1.5.8.3/16", "MS-MQDMPR 3.1.1.12/9")
@pytest.mark.parametrize("algorithm", [RC2, RC4])
def test_messages_of_the_base_provider_follow_the_weak_setting(algorithm: int) -> None:
    packet = sealed_by_hand(BASE_PROVIDER, 1, algorithm, b"12345")
    assert Pair().open(packet).refusal == NACK_BAD_ENCRYPTION
    found = Pair(receiving=WEAK).open(packet)
    assert found.refusal is None
    assert Packet(found.packet).body == b"<order/>"


def sealed_by_hand(provider: str, level: int, algorithm: int, key: bytes) -> bytes:
    """A message as a peer sends it that allows itself more than we do."""
    view = Packet(secret(level))
    assert view.properties is not None
    security = Security(
        SecurityFlags.of(encrypted=1),
        encryption_key=wrap_key(algorithm, key, private_key("beta").public_key()),
        provider=Provider(PROVIDERS[provider].provider_type, provider),
    )
    properties = view.properties._replace(encryption_algorithm=algorithm)
    body = encrypt(algorithm, key, view.body)
    return with_protection(view.data, view.summary, security, properties, body)


def test_provider_that_nobody_knows_is_refused_by_its_own_class() -> None:
    pair = Pair()
    packet = changed(pair.signed(sample()), provider=Provider(1, "Somebody's Provider"))
    assert pair.open(packet).refusal == NACK_UNSUPPORTED_CRYPTO_PROVIDER


def test_message_too_large_to_be_sealed_is_an_error_of_the_sender() -> None:
    with pytest.raises(QueueError):
        Pair().sealed(secret(body=bytes(MESSAGE_SIZE_MAX - 400)))


# -- anything


@given(messages(), st.data())
@settings(max_examples=50)
def test_any_change_of_a_packet_gives_an_answer_or_a_protocol_error(
    message: Message, data: st.DataObject
) -> None:
    pair = Pair(receiving=WEAK)
    packet = bytearray(serialize(message))
    for _ in range(data.draw(st.integers(0, 3))):
        packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.integers(0, 255))
    try:
        seen = summarize(bytes(packet))
        found = pair.receiver.open(bytes(packet), seen, NOW)
    except RemoteProtocolError:
        return
    assert not found.authenticated
    assert summarize(found.packet) == found.seen


def test_packet_without_security_header_is_none_of_our_business() -> None:
    packet = serialize(Message(body=b"x"))
    found = Pair().open(packet)
    assert found.packet is packet
    assert (found.refusal, found.authenticated, found.sender_type) == (None, False, 0)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/10")
def test_client_asks_for_a_signature_by_the_bits_of_the_header() -> None:
    packet = serialize(sample(sender_identifier=ALICE, sender_identifier_type=1))
    assert requested_signature(packet, summarize(packet)) is None
    for bits, kind in ((3, SignatureKind.MSMQ_2_0), (1, SignatureKind.MSMQ_1_0), (2, None)):
        asked = with_flags(packet, signature_kind=bits)
        assert requested_signature(asked, summarize(asked)) is kind
    plain = serialize(Message())
    assert requested_signature(plain, summarize(plain)) is None


def test_new_settings_and_withdrawn_certificates_forget_what_was_remembered() -> None:
    pair = Pair()
    pair.open(pair.sealed(pair.sender.sign(secret(), ALICE)))
    assert len(pair.receiver.caches.receive) == len(pair.receiver.caches.certificates) == 1
    pair.receiver.forget()
    assert next_cleanup(pair.receiver.caches) is None
    pair.receiver.configure(WEAK)
    assert pair.receiver.settings is WEAK


def test_signers_and_keys_print_no_secrets() -> None:
    signer = Pair().here.signer(ALICE)
    assert "RSAPrivateKey" not in repr(signer)


def test_list_signature_is_replaced_not_added() -> None:
    pair = Pair()
    packet = pair.signed(sample(destination_multi_queue_format_name=LIST))
    again = with_list_signature(Packet(packet), signature_of_list(Packet(packet)))
    assert again == packet
