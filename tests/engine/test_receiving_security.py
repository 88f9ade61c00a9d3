"""Signed and encrypted messages on arrival, and on whose behalf they come ([MS-MQQB] 3.1.5.8.3)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from posthouse.engine.ledger.records import FLAG_AUTHENTICATED, Change
from posthouse.engine.transfer.protocol_interface import Verdict
from posthouse.model.message_classes import (
    ACK_REACH_QUEUE,
    NACK_ACCESS_DENIED,
    NACK_BAD_DEST_QUEUE,
    NACK_BAD_ENCRYPTION,
    NACK_BAD_SIGNATURE,
    NACK_QUEUE_EXCEED_QUOTA,
    NACK_REACH_QUEUE_TIMEOUT,
)
from posthouse.model.message_values import SenderIdentifierType
from posthouse.model.names import PrivateName, PublicName
from posthouse.model.properties import QueuePrivacyLevel
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.security.sids import EVERYONE
from posthouse.wire.packet.digest import content_digest
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from tests.engine.arrivals import PEER
from tests.engine.letters import FAR_GUID
from tests.engine.rig import START_UTC
from tests.support.signing_rig import MARIA, STRANGER, SigningRig


def tampered(packet: bytes) -> bytes:
    """The same packet with another body."""
    at = summarize(packet).body_at
    return packet[:at] + bytes([packet[at] ^ 1]) + packet[at + 1 :]


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/8", "MS-MQQB 3.1.5.8.3/26")
def test_a_verified_message_comes_from_its_signer() -> None:
    rig = SigningRig()
    rig.take(rig.signed(), rig.packet(b"unsigned"))
    assert rig.flags() == [FLAG_AUTHENTICATED, 0]
    delivery = rig.receive("orders")
    assert delivery.read.sender == rig.maria
    assert Packet(delivery.packet).security.flags.authenticated  # type: ignore[union-attr]
    assert rig.receive("orders").read.sender == b""


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/9")
@pytest.mark.parametrize("transactional", [True, False])
def test_a_broken_signature_drops_the_message(transactional: bool) -> None:
    rig = SigningRig(send_insecure_nacks=True)
    rig.create("east", transactional=True)
    packet = rig.signed()
    if transactional:
        east = r"DIRECT=OS:ALPHA\private$\east"
        packet = rig.far.sign(
            rig.transactional(1, 0, destination_queue_format_name=east), rig.maria
        )
    rig.take(tampered(packet))
    assert rig.bodies("orders") == rig.bodies("east") == []
    assert rig.answer_classes() == ([] if transactional else [NACK_BAD_SIGNATURE])
    assert [code for code, _, _ in rig.final_acks()] == ([NACK_BAD_SIGNATURE] * transactional)


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/15", "MS-MQQB 3.1.5.8.3/10")
def test_a_certificate_nobody_registered_drops_the_message() -> None:
    rig = SigningRig(send_insecure_nacks=True)
    rig.take(rig.signed(STRANGER))
    assert rig.bodies("orders") == []
    assert rig.answer_classes() == [NACK_BAD_SIGNATURE]


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/11", clause="certificate")
@pytest.mark.spec("MS-MQQB 3.1.5.8.3/15")
def test_the_certificate_of_another_under_a_known_name_drops_the_message() -> None:
    rig = SigningRig(send_insecure_nacks=True)
    rig.take(rig.signed())
    rig.sign_as(rig.maria, "stranger")
    rig.take(rig.signed())
    assert rig.flags() == [FLAG_AUTHENTICATED]
    assert rig.answer_classes() == [ACK_REACH_QUEUE, NACK_BAD_SIGNATURE]


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/24", "MS-MQQB 3.1.5.8.3/26", "MS-MQQB 3.1.5.8.3/27")
def test_rights_are_those_of_the_signer() -> None:
    rig = SigningRig()
    rig.deny("orders", rig.maria, WRITE_MESSAGE)
    rig.take(rig.signed(), rig.packet(b"anonymous"))
    assert rig.bodies("orders") == [b"anonymous"]
    assert rig.refusals(NACK_ACCESS_DENIED) == 1


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/24")
def test_a_signer_may_do_what_strangers_may_not() -> None:
    rig = SigningRig()
    rig.set_security(
        "orders", rig.security("orders").revoke(EVERYONE).grant(rig.maria, WRITE_MESSAGE).pack()
    )
    rig.take(rig.signed(), rig.packet(b"anonymous"))
    assert rig.bodies("orders") == [b"asks"]


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/26")
def test_a_claim_that_nobody_signed_counts_for_nothing() -> None:
    rig = SigningRig()
    claim = rig.packet(
        b"claims", sender_identifier=rig.maria, sender_identifier_type=SenderIdentifierType.SID
    )
    assert summarize(claim).security_at
    rig.take(claim)
    assert rig.flags() == [0]
    assert rig.receive("orders").read.sender == b""
    rig.deny("orders", rig.maria, WRITE_MESSAGE)  # it can only take rights away
    rig.take(rig.packet(b"again", sender_identifier=rig.maria, sender_identifier_type=1))
    assert rig.bodies("orders") == []


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/27")
def test_a_disabled_account_is_denied() -> None:
    rig = SigningRig()
    account = rig.manager.accounts.find(MARIA)
    rig.run(lambda m: m.accounts.replace(replace(account, disabled=True)))
    rig.take(rig.signed())
    assert rig.bodies("orders") == []
    assert rig.refusals(NACK_ACCESS_DENIED) == 1


def test_marks_of_the_wire_prove_nothing() -> None:
    rig = SigningRig()
    packet = bytearray(rig.packet(b"marked", sender_identifier=rig.maria, sender_identifier_type=1))
    at = summarize(bytes(packet)).security_at
    flags = Packet(bytes(packet)).security
    assert flags is not None
    marked = flags.flags.replace(authenticated=1, signature_kind=3)
    packet[at : at + 2] = int(marked).to_bytes(2, "little")
    rig.take(bytes(packet))
    security = Packet(rig.receive("orders").packet).security
    assert security is not None
    assert not security.flags.authenticated
    assert not security.flags.signature_kind


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/9")
def test_a_queue_for_authenticated_messages_takes_no_others() -> None:
    rig = SigningRig(send_insecure_nacks=True)
    rig.grant("orders", rig.maria, WRITE_MESSAGE)
    rig.set("orders", authentication=True)
    rig.take(rig.asking(), rig.signed())
    assert rig.flags() == [FLAG_AUTHENTICATED]
    assert len(rig.answer_classes()) == 2


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/16")
def test_an_encrypted_message_is_stored_in_the_clear() -> None:
    rig = SigningRig()
    packet = rig.sealed(body=b"secret")
    assert Packet(packet).body != b"secret"
    assert rig.take(packet) == Verdict(1)
    assert rig.bodies("orders") == [b"secret"]
    assert rig.take(packet) == Verdict(1)
    assert rig.bodies("orders") == [b"secret"]


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/23")
def test_what_cannot_be_decrypted_is_dropped() -> None:
    rig = SigningRig(send_insecure_nacks=True)
    packet = rig.sealed(body=b"secret")
    at = packet.index(Packet(packet).security.encryption_key)  # type: ignore[union-attr]
    rig.take(packet[: at + 20] + bytes(20) + packet[at + 40 :])
    assert rig.bodies("orders") == []
    (answer,) = rig.answers()
    assert answer.message_class == NACK_BAD_ENCRYPTION
    assert answer.body == b""


def test_a_queue_for_encrypted_messages_takes_no_others() -> None:
    rig = SigningRig(send_insecure_nacks=True)
    rig.set("orders", privacy_level=int(QueuePrivacyLevel.BODY))
    rig.take(rig.asking(), rig.sealed(body=b"secret"))
    assert rig.bodies("orders") == [b"secret"]
    assert NACK_BAD_ENCRYPTION in rig.answer_classes()


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/1")
def test_a_message_for_another_machine_is_not_opened() -> None:
    rig = SigningRig(routing_server=True)
    beyond = str(PrivateName(bytes(range(48, 64)), 0x21))
    packet = tampered(rig.signed(destination_queue_format_name=beyond))
    assert rig.take(packet) == Verdict(1)
    assert len(rig.sent(beyond)) == 1


@pytest.mark.spec("MS-MQQB 3.1.7.15/2")
def test_whoever_signed_is_told_why() -> None:
    rig = SigningRig()
    rig.deny("orders", rig.maria, WRITE_MESSAGE)
    rig.take(rig.signed())
    assert rig.answer_classes() == [NACK_ACCESS_DENIED]


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/25")
@pytest.mark.parametrize("count", [1, 2])
def test_the_directory_has_the_last_word_on_a_public_queue(count: int) -> None:
    rig = SigningRig()
    queue = rig.create(".\\open")
    name = str(PublicName(queue.definition.identifier))

    def arrive() -> None:
        rig.take(*(rig.packet(destination_queue_format_name=name) for _ in range(count)))

    arrive()
    assert len(rig.bodies(".\\open")) == count
    narrow = rig.security(".\\open").revoke(EVERYONE).pack()
    directory = rig.manager.directory
    value = directory.queues.object_of(replace(queue.definition, security=narrow))
    rig.run(
        lambda m: directory.service.write_directory(
            value, rig.clock.now_ms, rig.clock.utc_seconds, ("security",)
        )
    )
    arrive()
    assert len(rig.bodies(".\\open")) == count
    assert rig.refusals(NACK_ACCESS_DENIED) == count
    rig.manager.directory.queues.directory.connected = (
        False  # then what the queue itself says counts
    )
    rig.manager.directory.service.offline = True
    arrive()
    assert len(rig.bodies(".\\open")) == 2 * count


LATE = {"sent_time": START_UTC - 9, "time_to_reach_queue": 8}
NOWHERE = {"destination_queue_format_name": r"DIRECT=OS:ALPHA\private$\none"}


@pytest.mark.spec("MS-MQQB 3.1.5.8/2")
@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ("again late nowhere forged denied full", None),
        ("late nowhere forged denied full", NACK_REACH_QUEUE_TIMEOUT),
        ("nowhere forged denied full", NACK_BAD_DEST_QUEUE),
        ("forged denied full", NACK_BAD_SIGNATURE),
        ("denied full", NACK_ACCESS_DENIED),
        ("full", NACK_QUEUE_EXCEED_QUOTA),
        ("", ACK_REACH_QUEUE),
    ],
)
def test_what_is_wrong_is_told_in_the_order_of_the_steps(wrong: str, code: int | None) -> None:
    rig = SigningRig(send_insecure_nacks=True)
    faults = wrong.split()
    attributes: dict[str, Any] = {"ordinal": 77}
    if "late" in faults:
        attributes |= LATE
    if "nowhere" in faults:
        attributes |= NOWHERE
    packet = rig.signed(**attributes)
    if "forged" in faults:
        packet = tampered(packet)
    if "again" in faults:
        notes = {FAR_GUID: {77: content_digest(packet, summarize(packet))}}
        rig.run(lambda m: m.transfer.receiving.history.add(notes, {}, Change(), PEER.host))
    if "denied" in faults:
        rig.deny("orders", rig.maria, WRITE_MESSAGE)
    if "full" in faults:
        rig.set("orders", quota_kib=0)
    assert rig.take(packet) == Verdict(1)
    assert rig.answer_classes() == ([] if code is None else [code])


def test_an_encrypted_message_is_known_when_it_is_encrypted_again() -> None:
    rig = SigningRig()
    packets = []
    for _ in range(3):
        rig.far.caches.clear()  # so that there is a new key
        packets.append(rig.sealed(body=b"secret", ordinal=77))
    assert len(set(packets)) == 3
    for packet in packets:
        rig.take(packet)
    assert rig.bodies("orders") == [b"secret"]
