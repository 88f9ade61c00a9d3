"""Packets with values that no queue manager sends close their session ([MS-MQMQ] 2.2.19.2)."""

from __future__ import annotations

import pytest

from posthouse.model.message_classes import CLASS_BITS, MESSAGE_CLASSES
from posthouse.wire.packet.headers import HOP_COUNT_MAX
from posthouse.wire.packet.patch import USER_FLAGS_AT
from tests.engine.arrivals import PeerRig


def with_hops(packet: bytes, hops: int) -> bytes:
    """The packet as it is after this many routing servers, also too many."""
    found = bytearray(packet)
    found[USER_FLAGS_AT] = found[USER_FLAGS_AT] & ~0x1F | hops
    return bytes(found)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("code", [0x7777, 0x0200, 0xFFFF, 0x1000])
def test_a_class_of_bits_that_no_class_has_closes_the_session(count: int, code: int) -> None:
    rig = PeerRig()
    good, bad = rig.packet(b"good"), [rig.packet(message_class=code) for _ in range(count)]
    verdict = rig.take(good, *bad)
    assert (verdict.dealt_with, f"{code:#06x}" in verdict.close) == (1, True)
    assert not rig.take(*bad).dealt_with
    assert rig.bodies("orders") == [b"good"]


@pytest.mark.parametrize("code", [*(one.code for one in MESSAGE_CLASSES), 0x0123, CLASS_BITS])
def test_every_class_of_the_document_and_of_applications_is_carried(code: int) -> None:
    rig = PeerRig()
    assert rig.take(rig.packet(b"body", message_class=code)).dealt_with == 1
    assert [message.message_class for message in rig.messages("orders")] == [code]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("hops", [HOP_COUNT_MAX + 1, 0x1F])
def test_a_hop_count_above_the_maximum_closes_the_session(count: int, hops: int) -> None:
    rig = PeerRig()
    verdict = rig.take(*(with_hops(rig.packet(b"x"), hops) for _ in range(count)))
    assert (verdict.dealt_with, str(hops) in verdict.close) == (0, True)
    assert rig.take(with_hops(rig.packet(b"last"), HOP_COUNT_MAX)).dealt_with == 1
    assert rig.bodies("orders") == [b"last"]
