"""Signed messages over HTTP: what a signature proves here, and what it never does (decision 10)."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.ledger.records import FLAG_AUTHENTICATED
from posthouse.engine.transfer.srmp.receiving import SrmpArrival
from posthouse.model.message_values import HashAlgorithm
from posthouse.security.message_security import Signer
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.security.sids import ANONYMOUS, EVERYONE
from posthouse.security.xml_signatures import sign
from posthouse.wire.packet.packet import Packet
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.message import SrmpMessage
from posthouse.wire.srmp.parts import read_parts, write_parts
from posthouse.wire.srmp.writer import write_envelope
from tests.engine.letters import FAR_GUID
from tests.engine.web import ORDERS, PEER, WebRig, head_of
from tests.security.key_ring import certificate, private_key

MARIA = "maria"
SIGNED = "http://alpha/msmq/private$/signed"


class SigningRig(WebRig):
    """A rig with an account whose certificate the sender signs with, and a queue that wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.maria = self.run(lambda m: m.accounts.add(MARIA)).sid
        certificates = self.manager.certificates
        self.run(lambda m: certificates.register(self.maria, certificate(MARIA)))
        self.create("signed", authentication=True)

    def post_signed(
        self,
        message: SrmpMessage,
        body: bytes = b"body",
        extension: bytes = b"",
        *,
        by: str = MARIA,
        over: tuple[bytes, bytes] | None = None,
    ) -> int:
        """Posts a message with the signature of somebody over its parts, or over others."""
        signer = Signer(private_key(by), certificate(by))
        signature = sign(*(over or (body, extension)), FAR_GUID, HashAlgorithm.SHA1, signer)
        envelope = write_envelope(message, signature)
        content_type, payload = write_parts(envelope, body, extension, guid=FAR_GUID, number=1)
        parts = read_parts(content_type, payload)
        arrival = SrmpArrival(PEER, read_envelope(parts.envelope), parts, head_of(content_type))
        (verdict,) = self.run(lambda m: m.transfer.receive_srmp([arrival]))
        return verdict.status

    def signing(self, to: str = SIGNED, **elements: Any) -> SrmpMessage:
        return self.message(to, hash_algorithm=HashAlgorithm.SHA1, **elements)

    def flags(self, name: str) -> list[int]:
        return [read.flags & FLAG_AUTHENTICATED for read in self.reads(name)]


@pytest.fixture
def rig() -> SigningRig:
    return SigningRig()


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/11", "MC-MQSRM 3.1.5.1.12/5", "MC-MQSRM 3.1.5.1.6.1/15")
def test_body_and_extension_are_covered_and_nothing_else(rig: SigningRig) -> None:
    changes: list[dict[str, Any]] = [{}, {"action": "MSMQ:x"}, {"priority": 7}]
    for at, elements in enumerate(changes):
        assert rig.post_signed(rig.signing(**elements), b"body %d" % at, b"extension") == 200
    assert rig.flags("signed") == [FLAG_AUTHENTICATED] * 3
    covered = (b"body", b"extension")
    assert rig.post_signed(rig.signing(), b"Body", b"extension", over=covered) == 400
    assert rig.post_signed(rig.signing(), b"body", b"Extension", over=covered) == 400
    assert len(rig.messages("signed")) == 3
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.1/14", "MC-MQSRM 3.1.5.1.6/2")
@pytest.mark.parametrize("stream", [False, True])
def test_a_broken_signature_is_refused_and_leaves_no_trace(rig: SigningRig, stream: bool) -> None:
    message = rig.streamed(1) if stream else rig.signing(ORDERS)
    before = rig.manager.ledger.state.dump()
    assert rig.post_signed(message, over=(b"another body", b"")) == 400
    assert rig.manager.ledger.state.dump() == before
    assert rig.known() == []
    assert rig.post_signed(message) == 200


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/12")
def test_a_signature_gives_nobody_a_right(rig: SigningRig) -> None:
    for name in ("orders", "signed"):
        rig.set_security(name, rig.security(name).revoke(EVERYONE).pack())
        rig.grant(name, rig.maria, WRITE_MESSAGE)
        assert rig.post_signed(rig.signing(f"http://alpha/msmq/private$/{name}")) == 400
        assert rig.messages(name) == []
        rig.grant(name, EVERYONE, WRITE_MESSAGE)
        assert rig.post_signed(rig.signing(f"http://alpha/msmq/private$/{name}")) == 200


@pytest.mark.spec("MC-MQSRM 3.1.5.1.12/5")
def test_who_signs_is_not_anonymous(rig: SigningRig) -> None:
    rig.deny("orders", ANONYMOUS, WRITE_MESSAGE)
    assert rig.post(rig.message()) == [400]
    assert rig.post_signed(rig.signing(ORDERS)) == 200
    assert rig.post_signed(rig.signing(ORDERS), by="stranger") == 400  # nobody knows him


def test_the_certificate_goes_into_the_message(rig: SigningRig) -> None:
    assert rig.post_signed(rig.signing()) == 200
    ((_, number),) = rig.queue("signed").state.order.forward()
    security = Packet(rig.store.read(number)).security
    assert security is not None
    assert security.sender_certificate == certificate(MARIA)
    (read,) = rig.reads("signed")
    assert read.sender == b""  # and the message comes from nobody in particular
