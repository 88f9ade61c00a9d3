"""Signatures with each hash that Windows and its frameworks use ([MS-MQQB] note 1)."""

from __future__ import annotations

import pytest

from posthouse.engine.ledger.records import FLAG_AUTHENTICATED
from posthouse.model.message_classes import NACK_BAD_SIGNATURE
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from tests.support.signing_rig import SigningRig


@pytest.mark.parametrize("algorithm", [0x8004, 0x800C, 0x800E], ids=["sha1", "sha256", "sha512"])
def test_messages_with_each_hash_of_windows_are_verified(algorithm: int) -> None:
    """Windows signs with SHA-512, WCF asks for SHA-256, CoreWCF for SHA-1."""
    rig = SigningRig()
    packet = rig.signed(hash_algorithm=algorithm)
    properties = Packet(packet).properties
    assert properties is not None
    assert properties.hash_algorithm == algorithm  # it was not replaced
    rig.take(packet)
    assert rig.flags() == [FLAG_AUTHENTICATED]
    other = bytearray(rig.signed(hash_algorithm=algorithm))
    other[summarize(bytes(other)).body_at] ^= 1
    rig.take(bytes(other))
    assert rig.flags() == [FLAG_AUTHENTICATED]
    assert rig.refusals(NACK_BAD_SIGNATURE) == 1
