"""Certificates and keys as records, and who a verified message is from."""

from __future__ import annotations

from typing import Unpack

import msgspec
import pytest

from posthouse.client.packets import PacketMaker
from posthouse.client.packets import options as packet_options
from posthouse.client.send_options import SendOptions
from posthouse.directory import objects
from posthouse.directory.certificates import with_certificate
from posthouse.engine.accounts.certificates import Certificates
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.model.errors import (
    AccessDenied,
    CertificateNotProvided,
    CorruptedSecurityData,
    InsufficientResources,
    InvalidParameter,
    MessageNotAuthenticated,
    QueueError,
)
from posthouse.model.message import Message
from posthouse.model.message_values import AES_PROVIDER, ENHANCED_PROVIDER
from posthouse.model.names import PrivateName
from posthouse.security.certificates import open_private_key
from posthouse.security.descriptors import unpack_descriptor
from posthouse.security.key_blobs import public_key_of
from posthouse.security.keys import (
    KEY_SIGNATURE,
    pack_provider_keys,
    unpack_provider_keys,
    unpack_public_key,
)
from posthouse.security.message_security import Verified
from posthouse.security.rights import parse_rights
from posthouse.security.sids import ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, make_sid
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from tests.engine.rig import RECEIVE, SEND, Rig
from tests.security.key_ring import certificate, private_key, provider_key

STRANGER = make_sid(5, 21, 7, 7, 7, 1000)
BETA = b"b" * 16
SEAL = b"s" * 32


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    unlock(rig)
    return rig


def unlock(rig: Rig, seal: bytes = SEAL) -> Certificates:
    certificates = rig.manager.certificates
    certificates.key_file = lambda: seal
    return certificates


def restarted(rig: Rig, seal: bytes = SEAL) -> Certificates:
    rig.restart()
    return unlock(rig, seal)


def maria(rig: Rig) -> bytes:
    return rig.run(lambda m: m.accounts.add("maria")).sid


def publish(rig: Rig) -> None:
    keys = {AES_PROVIDER: private_key("alpha"), ENHANCED_PROVIDER: private_key("beta")}
    signing = {AES_PROVIDER: private_key("gamma"), ENHANCED_PROVIDER: private_key("own")}
    rig.run(lambda m: m.certificates.publish(keys, certificate("gamma"), signing))


def test_registered_certificates_and_their_keys_outlive_a_restart(rig: Rig) -> None:
    sid = maria(rig)
    rig.run(
        lambda m: m.certificates.register(
            sid, certificate("alice"), private_key("alice"), internal=True
        )
    )
    certificates = restarted(rig)
    (found,) = certificates.certificates_of(sid)
    assert found.certificate == certificate("alice")
    signer = certificates.signer(sid)
    assert signer is not None
    assert signer.key.private_numbers() == private_key("alice").private_numbers()
    assert certificates.is_registered(certificate("alice"))
    assert certificates.signer(STRANGER) is None


def test_the_log_holds_no_private_key_in_the_clear(rig: Rig) -> None:
    sid = maria(rig)
    key = private_key("alice")
    rig.run(lambda m: m.certificates.register(sid, certificate("alice"), key))
    prime = key.private_numbers().p.to_bytes(64, "big")
    values = rig.manager.ledger.state.definitions.values()
    assert not any(prime in value for value in values)
    (registration,) = rig.manager.certificates.of_user(sid)
    assert registration.sealed_key


def test_with_another_key_file_private_keys_are_gone_and_the_operator_is_told(rig: Rig) -> None:
    sid = maria(rig)
    publish(rig)
    rig.run(lambda m: m.certificates.register(sid, certificate("alice"), private_key("alice")))
    certificates = restarted(rig, b"t" * 32)
    assert certificates.signer(sid) is None
    assert certificates.private_key(AES_PROVIDER) is None
    assert certificates.signer(sid) is None  # told once
    names = [event.name for event in rig.manager.ledger.effects.events]
    assert names.count("private_key_unreadable") == 2


@pytest.mark.spec("MS-MQDMPR 3.1.1.1/24")
def test_second_internal_certificate_and_the_same_one_twice_are_refused(rig: Rig) -> None:
    sid = maria(rig)

    def register(name: str, *, internal: bool) -> None:
        rig.run(lambda m: m.certificates.register(sid, certificate(name), internal=internal))

    register("alice", internal=True)
    with pytest.raises(QueueError) as refused:
        register("bob", internal=True)
    assert refused.value.code == 0xC00E002E
    with pytest.raises(InvalidParameter):
        register("alice", internal=False)
    register("bob", internal=False)
    assert len(rig.manager.certificates.of_user(sid)) == 2


def test_certificates_and_trusted_machines_have_an_end(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posthouse.engine.accounts.certificates.CERTIFICATES_MAX", 1)
    certificates = rig.manager.certificates
    sids = [rig.run(lambda m, name=name: m.accounts.add(name)).sid for name in ("maria", "otto")]
    rig.run(lambda m: certificates.register(sids[0], certificate("alice")))
    with pytest.raises(InsufficientResources, match="there are 1 certificates"):
        rig.run(lambda m: certificates.register(sids[1], certificate("bob")))
    blob = pack_provider_keys([provider_key(AES_PROVIDER, "beta")])
    for _ in range(2):  # one that is known may change
        rig.run(lambda m: certificates.trust(BETA, "BETA", certificate("beta"), blob))
    with pytest.raises(InsufficientResources, match="there are 1 machines"):
        rig.run(lambda m: certificates.trust(b"c" * 16, "GAMMA", certificate("beta"), blob))


def test_withdrawn_certificate_proves_nothing_from_then_on(rig: Rig) -> None:
    sid = maria(rig)
    rig.run(lambda m: m.certificates.register(sid, certificate("alice"), private_key("alice")))
    certificates = rig.manager.certificates
    packet = certificates.security.sign(serialize(Message(body=b"x")), sid)
    assert certificates.security.open(packet, summarize(packet), 0).authenticated
    (registration,) = certificates.of_user(sid)
    rig.run(lambda m: m.certificates.withdraw(registration))
    assert not certificates.security.open(packet, summarize(packet), 0).authenticated
    certificates = restarted(rig)
    assert certificates.users() == []


def test_certificates_go_with_their_user(rig: Rig) -> None:
    sid = maria(rig)
    rig.run(lambda m: m.certificates.register(sid, certificate("alice")))
    rig.run(lambda m: m.accounts.remove("maria"))
    assert restarted(rig).users() == []
    assert rig.manager.accounts.of_sid(sid) is None


@pytest.mark.spec("MS-MQQB 3.1.7.1.5/4")
def test_published_keys_are_one_for_each_provider_and_open_what_is_sealed_for_us(rig: Rig) -> None:
    publish(rig)
    certificates = restarted(rig)
    own = certificates.machine(rig.manager.machine.identifier)
    assert own is not None
    names = [key.provider_name for key in own.provider_keys]
    assert names == [AES_PROVIDER, ENHANCED_PROVIDER]
    guid = rig.manager.machine.identifier
    message = Message(
        body=b"secret",
        privacy_level=5,
        encryption_algorithm=0x6610,
        destination_queue_type=3,
        destination_queue_manager_identifier=guid,
        destination_queue_format_name=str(PrivateName(guid, 1)),
    )
    packet = serialize(message)
    sealed = certificates.security.seal(packet, summarize(packet), 0)
    assert b"secret" not in sealed
    certificates.security.forget()
    found = certificates.security.open(sealed, summarize(sealed), 0)
    assert Packet(found.packet).body == b"secret"


@pytest.mark.spec("MS-MQDMPR 3.1.3/6")
def test_the_directory_shows_one_signing_key_for_each_provider_beside_the_encryption_keys(
    rig: Rig,
) -> None:
    assert rig.manager.directory.own_queue_manager().public_signing_key_list == b""
    publish(rig)
    for own in (
        rig.manager.directory.own_queue_manager(),
        (restarted(rig), rig.manager.directory.own_queue_manager())[1],
    ):
        assert unpack_provider_keys(own.public_encryption_key_list) == (
            provider_key(AES_PROVIDER, "alpha"),
            provider_key(ENHANCED_PROVIDER, "beta"),
        )
        signing = unpack_provider_keys(own.public_signing_key_list)
        assert [one.provider_name for one in signing] == [AES_PROVIDER, ENHANCED_PROVIDER]
        assert [unpack_public_key(one.blob) for one in signing] == [
            public_key_of(private_key(name).public_key(), KEY_SIGNATURE)
            for name in ("gamma", "own")
        ]


def test_private_signing_keys_are_sealed_for_signing(rig: Rig) -> None:
    publish(rig)
    own = rig.manager.certificates.machine(rig.manager.machine.identifier)
    assert own is not None
    owner = b"signing:" + own.guid + AES_PROVIDER.encode()
    opened = open_private_key(own.sealed_signing_keys[AES_PROVIDER], SEAL, owner)
    assert opened.private_numbers() == private_key("gamma").private_numbers()
    with pytest.raises(CorruptedSecurityData):
        open_private_key(
            own.sealed_signing_keys[AES_PROVIDER], SEAL, owner.replace(b"signing:", b"machine:")
        )


def test_keys_of_other_queue_managers_are_trusted_and_distrusted(rig: Rig) -> None:
    blob = pack_provider_keys([provider_key(AES_PROVIDER, "beta")])
    rig.run(lambda m: m.certificates.trust(BETA, "BETA", certificate("beta"), blob))
    certificates = restarted(rig)
    assert certificates.public_keys(BETA) == (provider_key(AES_PROVIDER, "beta"),)
    (found,) = certificates.certificates_of_machine(BETA)
    assert found.certificate == certificate("beta")
    assert [one.name for one in certificates.machines()] == ["BETA"]
    rig.run(lambda m: m.certificates.distrust(certificates.machines()[0]))
    assert restarted(rig).public_keys(BETA) == ()
    own = rig.manager.machine.identifier
    assert rig.manager.certificates.machine(BETA) is None
    with pytest.raises(InvalidParameter):
        rig.run(lambda m: m.certificates.trust(own, "ME", b"x", b""))


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/12", "MS-MQQB 3.1.7.1.5/3")
def test_certificates_and_keys_of_the_directory_count_too(rig: Rig) -> None:
    service = rig.manager.directory.service
    rig.manager.certificates.directory = service
    user = with_certificate(objects.User(security_identifier=STRANGER), certificate("bob"), BETA)
    blob = pack_provider_keys([provider_key(AES_PROVIDER, "beta")])
    machine = objects.QueueManager(
        identifier=BETA, computer_name="BETA", public_encryption_key_list=blob
    )
    rig.run(lambda m: service.create_directory_object(user, m.machine.now_ms, m.machine.utc))
    rig.run(lambda m: service.create_directory_object(machine, m.machine.now_ms, m.machine.utc))
    certificates = rig.manager.certificates
    (found,) = certificates.certificates_of(STRANGER)
    assert found.certificate == certificate("bob")
    assert certificates.public_keys(BETA) == (provider_key(AES_PROVIDER, "beta"),)
    assert certificates.public_keys(b"?" * 16) == ()
    assert not list(certificates.certificates_of(make_sid(5, 21, 1)))


# -- who sent it


def verified(
    *, authenticated: bool = False, sender_type: int = 0, sender_id: bytes = b""
) -> Verified:
    packet = serialize(Message())
    return Verified(packet, summarize(packet), authenticated, 3, sender_type, sender_id)


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/26", "MS-MQQB 3.1.5.8.3/27")
def test_proven_sender_is_his_account_with_its_groups(rig: Rig) -> None:
    sid = maria(rig)
    sender = rig.manager.certificates.sender(
        verified(authenticated=True, sender_type=1, sender_id=sid)
    )
    assert sender is rig.manager.accounts.caller("maria")
    assert sender.groups == {sid, EVERYONE, AUTHENTICATED_USERS}


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/27")
def test_disabled_sender_is_denied(rig: Rig) -> None:
    sid = maria(rig)
    account = msgspec.structs.replace(rig.manager.accounts.find("maria"), disabled=True)
    rig.run(lambda m: m.accounts.replace(account))
    with pytest.raises(AccessDenied):
        rig.manager.certificates.sender(verified(authenticated=True, sender_type=1, sender_id=sid))


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/26")
def test_proven_stranger_is_himself_and_an_unproven_one_everyone_at_most(rig: Rig) -> None:
    certificates = rig.manager.certificates
    proven = certificates.sender(verified(authenticated=True, sender_type=1, sender_id=STRANGER))
    assert proven.authenticated
    assert STRANGER in proven.groups
    assert not proven.is_administrator
    claimed = certificates.sender(verified(sender_type=1, sender_id=STRANGER))
    assert claimed.groups == {EVERYONE}
    assert not claimed.authenticated
    assert STRANGER in claimed.deny_only
    manager = certificates.sender(verified(authenticated=True, sender_type=2, sender_id=BETA))
    assert manager.groups == {EVERYONE}
    nobody = certificates.sender(verified())
    assert nobody.groups == {ANONYMOUS, EVERYONE}


def test_the_same_sender_gives_the_same_caller_until_certificates_change(rig: Rig) -> None:
    certificates = rig.manager.certificates
    message = verified(sender_type=1, sender_id=STRANGER)
    first = certificates.sender(message)
    assert certificates.sender(message) is first
    rig.run(lambda m: m.certificates.register(STRANGER, certificate("bob")))
    assert certificates.sender(message) is not first


def test_senders_that_are_remembered_are_limited(rig: Rig) -> None:
    certificates = rig.manager.certificates
    for number in range(3000):
        certificates.sender(verified(sender_type=1, sender_id=make_sid(5, 21, number)))
    assert len(certificates._senders) <= 1024


# -- signing for clients


def asking(rig: Rig, name: str, **options: Unpack[SendOptions]) -> bytes:
    """A packet as a client of ours makes it for a queue here."""
    destination = f"DIRECT=OS:{rig.manager.machine.settings.computer_name}\\private$\\{name}"
    maker = PacketMaker(destination, "alpha", protection=True)
    return maker.packet(b"<order/>", packet_options(options), False)


def open_for(rig: Rig, name: str, user: str) -> OpenQueueDescriptor:
    caller = rig.manager.accounts.caller(user)
    return rig.run(lambda m: m.queues.open_queue(f".\\private$\\{name}", SEND, caller))


@pytest.mark.spec("MS-MQQB 3.1.7.1.4/1")
def test_client_that_asks_for_it_is_signed_for_and_counts_as_authenticated(rig: Rig) -> None:
    sid = maria(rig)
    queue = rig.create("orders", authentication=True)
    granted = unpack_descriptor(queue.definition.security).grant(sid, parse_rights("send"))
    rig.run(lambda m: m.queues.set_queue_security(r".\private$\orders", rig.admin, granted.pack()))
    descriptor = open_for(rig, "orders", "maria")
    with pytest.raises(MessageNotAuthenticated):
        rig.run(lambda m: m.messages.send_packets(descriptor, [asking(rig, "orders")]))
    with pytest.raises(CertificateNotProvided):
        rig.run(lambda m: m.messages.send_packets(descriptor, [asking(rig, "orders", sign=True)]))
    certificates = rig.manager.certificates
    rig.run(lambda m: m.certificates.register(sid, certificate("alice"), private_key("alice")))
    rig.run(lambda m: m.messages.send_packets(descriptor, [asking(rig, "orders", sign=True)]))
    reader = rig.run(lambda m: m.queues.open_queue(r".\private$\orders", RECEIVE, rig.admin))
    packet = bytes(rig.receive(reader).packet)
    view = Packet(packet)
    assert view.security is not None
    assert view.security.flags.signature_kind == 0
    assert view.security.sender_id == sid
    assert certificates.security.open(packet, view.summary, 0).proven_sid == sid


def test_packet_that_asks_for_nothing_is_left_alone(rig: Rig) -> None:
    caller = rig.admin
    packet = asking(rig, "orders", encrypt=True)
    signed = rig.manager.certificates.signed(packet, summarize(packet), caller)
    assert signed == (packet, summarize(packet), 0)
