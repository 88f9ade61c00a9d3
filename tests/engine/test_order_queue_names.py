"""Order acknowledgments after a NAT: by the address that is seen, or by GUID if that is not taken.

A sender that gets an acknowledgment under a name that is not its own refuses it, and sends again
what was acknowledged.
"""

from __future__ import annotations

from posthouse.engine.transfer.order_queue_names import NOT_TAKEN_MS
from posthouse.model.guids import format_guid
from posthouse.model.names import PrivateName
from posthouse.wire.packet.packet import Packet
from tests.engine.letters import FAR_GUID
from tests.support.sequence_rig import EastRig

BY_ADDRESS = r"DIRECT=TCP:192.0.2.7\private$\order_queue$"
BY_GUID = str(PrivateName(FAR_GUID, 4))


def acknowledge(rig: EastRig) -> str:
    """An order acknowledgment leaves; how it names the order queue."""
    rig.run(lambda m: m.transfer.send_order_ack(rig.queue("east").number, FAR_GUID))
    return str(Packet(rig.sent(BY_GUID)[-1]).destination_queue)


def resend(rig: EastRig, number: int = 1, after_s: float = NOT_TAKEN_MS / 1000) -> None:
    rig.advance(after_s)
    rig.take(rig.tx(number, number - 1, ordinal=number))


def test_who_does_not_take_an_acknowledgment_by_address_gets_it_by_guid() -> None:
    rig = EastRig()
    rig.take(rig.tx(1, 0, ordinal=1))
    assert acknowledge(rig) == BY_ADDRESS
    resend(rig)
    assert acknowledge(rig) == BY_GUID
    (event,) = [event for event in rig.events if event.name == "acknowledgments_by_guid"]
    assert event.details == {"source": format_guid(FAR_GUID), "address": "192.0.2.7"}
    assert rig.bodies("east") == [b"1"]  # once
    rig.advance(100)
    rig.take(rig.tx(2, 1, ordinal=2))
    assert acknowledge(rig) == BY_GUID  # it stays so while it works


def test_who_does_not_take_the_guid_either_gets_the_address_again() -> None:
    rig = EastRig()
    rig.take(rig.tx(1, 0, ordinal=1))
    names = []
    for _ in range(4):
        names.append(acknowledge(rig))
        resend(rig)
    assert names == [BY_ADDRESS, BY_GUID, BY_ADDRESS, BY_GUID]


def test_a_message_that_crosses_its_acknowledgment_changes_nothing() -> None:
    rig = EastRig()
    rig.take(rig.tx(1, 0, ordinal=1))
    assert acknowledge(rig) == BY_ADDRESS
    resend(rig, after_s=NOT_TAKEN_MS / 1000 - 0.001)
    assert acknowledge(rig) == BY_ADDRESS


def test_what_was_not_acknowledged_yet_may_come_again_at_any_time() -> None:
    rig = EastRig()
    rig.take(rig.tx(1, 0, ordinal=1))
    acknowledge(rig)
    rig.advance(1)
    rig.take(rig.tx(2, 1, ordinal=2))
    resend(rig, 2)
    assert acknowledge(rig) == BY_ADDRESS


def test_final_acknowledgments_follow() -> None:
    rig = EastRig()
    rig.take(rig.tx(1, 0, ordinal=1, positive_journaling_requested=True))
    acknowledge(rig)
    resend(rig)
    rig.receive("east")
    assert str(Packet(rig.sent(BY_GUID)[-1]).destination_queue) == BY_GUID


def test_a_machine_of_the_directory_is_named_by_guid_from_the_start() -> None:
    rig = EastRig()
    rig.enter_machine()
    rig.take(rig.tx(1, 0, ordinal=1))
    assert acknowledge(rig) == BY_GUID


def test_a_message_of_which_nothing_was_acknowledged_changes_nothing() -> None:
    """Number 0 is before every message, and no acknowledgment was for it."""
    rig = EastRig()
    rig.take(rig.tx(1, 0, ordinal=1))
    rig.advance(NOT_TAKEN_MS / 1000)
    rig.take(rig.tx(0, 0, ordinal=2))
    assert acknowledge(rig) == BY_ADDRESS
    assert rig.bodies("east") == [b"1"]
