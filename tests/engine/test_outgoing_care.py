"""What is done with a message besides sending it: encryption, and reports of traced ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from posthouse.model.errors import ComputerDoesNotSupportEncryption
from posthouse.model.message import NACK_COULD_NOT_ENCRYPT
from posthouse.model.message_classes import REPORT
from posthouse.model.names import PrivateName
from posthouse.model.properties import ConnectionStatus
from posthouse.security.keys import pack_provider_keys
from posthouse.security.providers import AES_PROVIDER
from posthouse.wire.packet.message import deserialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from tests.engine.letters import DEAD_LETTERS, DEAD_TRANSACTIONAL, FAR
from tests.engine.sessions import SessionRig, places
from tests.security.key_ring import certificate, provider_key

BETA = b"b" * 16
BETA_QUEUE = str(PrivateName(BETA, 0x20))
SECRET: dict[str, Any] = {"privacy_level": 5, "encryption_algorithm": 0x6610}


@pytest.fixture
def rig() -> Iterator[SessionRig]:
    rig = SessionRig()
    blob = pack_provider_keys([provider_key(AES_PROVIDER, "beta")])
    rig.run(lambda m: m.certificates.trust(BETA, "BETA", certificate("beta"), blob))
    yield rig
    rig.check_books()


@pytest.mark.spec("MS-MQQB 3.1.7.1/3")
def test_a_secret_message_is_encrypted_for_each_session(rig: SessionRig) -> None:
    rig.send(BETA_QUEUE, b"secret", **SECRET)
    rig.send(BETA_QUEUE, b"open")
    for _ in range(2):
        secret, plain = rig.take(rig.session(BETA_QUEUE))
        assert b"secret" not in secret.packet
        assert Packet(secret.packet).encrypted
        assert plain.packet == rig.store.read(plain.number)
        rig.restart()
        blob = pack_provider_keys([provider_key(AES_PROVIDER, "beta")])
        rig.run(lambda m, b=blob: m.certificates.trust(BETA, "B", certificate("beta"), b))
    assert b"secret" in rig.store.read(secret.number)


@pytest.mark.spec("MS-MQQB 3.1.7.1/3")
def test_a_secret_transactional_message_has_its_place_all_the_same(rig: SessionRig) -> None:
    rig.commit_sends("abc", to=BETA_QUEUE, **SECRET)
    taken = rig.take(rig.session(BETA_QUEUE))
    assert [place[1:] for place in places(taken)] == [(1, 0), (2, 1), (3, 2)]
    assert all(Packet(out.packet).encrypted for out in taken)


@pytest.mark.spec("MS-MQQB 3.1.7.1.5.1/1", "MS-MQQB 3.1.7.1.5.1/2", "MS-MQQB 3.1.7.1.5.1/3")
@pytest.mark.parametrize("transactional", [True, False])
def test_a_message_that_cannot_be_encrypted_is_not_sent(
    rig: SessionRig, transactional: bool
) -> None:
    rig.create("answers")
    asks: dict[str, Any] = {
        "negative_journaling_requested": True,
        "acknowledgements_requested": 4,
        "administration_queue_format_name": r"DIRECT=OS:ALPHA\private$\answers",
    }
    if transactional:
        rig.commit_sends("a")
        rig.commit_sends("s", **SECRET, **asks)
        rig.commit_sends("b")
    else:
        for body, wants in ((b"a", {}), (b"s", SECRET | asks), (b"b", {})):
            rig.send(FAR, body, **wants)
    taken = rig.take(rig.session())
    bodies = [deserialize(out.packet).body for out in taken]
    assert bodies == [b"a", b"b"]
    if transactional:
        assert places(taken)[1] == (b"b", 3, 1)  # the gap is bridged
    assert rig.waiting_bodies() == [b"a", b"b"]
    dead = DEAD_TRANSACTIONAL if transactional else DEAD_LETTERS
    assert rig.bodies(dead) == [b"s"]
    assert rig.reasons(dead) == rig.classes("answers") == [NACK_COULD_NOT_ENCRYPT]
    attempt = rig.outgoing()[1].connection_history[-1]
    assert attempt.status is ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE
    assert attempt.error == ComputerDoesNotSupportEncryption.code
    assert rig.events[-1].name == "message_not_encrypted"


def test_what_is_passed_on_is_left_as_it_is(rig: SessionRig) -> None:
    """Its first queue manager has encrypted it, or meant it to be read."""
    rig.send(BETA_QUEUE, b"x", **SECRET)
    packet = rig.store.read(rig.manager.ledger.state.last_number)
    queue = rig.outgoing(BETA_QUEUE)[0]
    rig.run(lambda m: m.messages.sending.enqueue(queue, packet, flags=0x80))
    own, forwarded = rig.take(rig.session(BETA_QUEUE))
    assert forwarded.packet == packet != own.packet


@pytest.mark.spec("MS-MQQB 3.1.7.1.7/1", "MS-MQQB 3.1.7.1.7/2", "MS-MQQB 3.1.7.1.7/3")
def test_a_traced_message_is_reported_when_it_is_sent(rig: SessionRig) -> None:
    reports = rig.create(".\\reports").definition.identifier
    rig.send(FAR, b"x", tracing_requested=True, tracing_queue_identifier=reports)
    rig.send(FAR, b"y")
    sender = rig.session()
    rig.outgoing()[1].next_hops = ("IP=10.0.0.2",)
    assert rig.messages(".\\reports") == []
    taken = rig.take(sender)
    assert [out.packet for out in taken] == [rig.store.read(out.number) for out in taken]
    (report,) = rig.messages(".\\reports")
    assert report.message_class == REPORT
    ordinal = summarize(taken[0].packet).ordinal
    assert report.body.decode("utf-16-le") == (
        f"<MESSAGE ID>{ordinal:08X}</MESSAGE ID>\r\n<TARGET QUEUE>{FAR}</TARGET QUEUE>\r\n"
        "<NEXT HOP>10.0.0.2</NEXT HOP>\r\n<HOP COUNT>00 </HOP COUNT>\r\n"
    )
