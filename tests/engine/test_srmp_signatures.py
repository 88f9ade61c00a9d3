"""Signed messages over HTTP: what a signature proves here, and what it never does (decision 10)."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.ledger.records import FLAG_AUTHENTICATED
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.security.sids import ANONYMOUS, EVERYONE
from posthouse.wire.packet.packet import Packet
from tests.engine.web import ORDERS
from tests.security.key_ring import certificate
from tests.support.srmp_signing_rig import MARIA, SigningRig


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
    assert rig.post_signed(rig.signing(ORDERS), by="stranger") == 400  # nobody knows them


def test_the_certificate_goes_into_the_message(rig: SigningRig) -> None:
    assert rig.post_signed(rig.signing()) == 200
    ((_, number),) = rig.queue("signed").state.order.forward()
    security = Packet(rig.store.read(number)).security
    assert security is not None
    assert security.sender_certificate == certificate(MARIA)
    (read,) = rig.reads("signed")
    assert read.sender == b""  # and the message comes from nobody in particular
