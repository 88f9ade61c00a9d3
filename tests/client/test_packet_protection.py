"""Packets that ask a queue manager to sign or to encrypt."""

from __future__ import annotations

import pytest

from posthouse.client.packets import Options, PacketMaker
from posthouse.model.errors import IllegalPropertyValue
from posthouse.security.message_security import privacy_wanted, requested_signature
from posthouse.security.signing import SignatureKind
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize

DESTINATION = "PRIVATE=5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11\\00000003"


def made(how: Options, body: bytes = b"<order/>", transactional: bool = False) -> bytes:
    return PacketMaker(DESTINATION, "alpha", protection=True).packet(body, how, transactional)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/10")
@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("encrypt", [False, True])
@pytest.mark.parametrize("sign", [False, True])
def test_wishes_are_in_the_security_header_and_nowhere_else(
    sign: bool, encrypt: bool, transactional: bool
) -> None:
    packet = made(Options(label="x", sign=sign, encrypt=encrypt), transactional=transactional)
    seen = summarize(packet)
    assert bool(seen.security_at) == (sign or encrypt)
    assert requested_signature(packet, seen) is (SignatureKind.MSMQ_2_0 if sign else None)
    assert privacy_wanted(packet, seen) == encrypt
    view = Packet(packet)
    view.check()
    assert (view.body, view.label, view.encrypted) == (b"<order/>", "x", encrypt)


@pytest.mark.parametrize("how", [Options(sign=True), Options(encrypt=True)])
def test_without_a_queue_manager_in_between_both_are_refused(how: Options) -> None:
    maker = PacketMaker(DESTINATION, "alpha")
    with pytest.raises(IllegalPropertyValue):
        maker.packet(b"x", how, False)
    with pytest.raises(IllegalPropertyValue):
        list(maker.packets([b"x"], how, False))
