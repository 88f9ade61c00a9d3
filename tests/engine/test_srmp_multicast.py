"""Messages to multicast addresses, both ways ([MC-MQSRM] 2.2.4.2, 3.1.5.1.3)."""

from __future__ import annotations

import pytest

from posthouse.model.errors import TransactionUsage
from posthouse.model.message import Message, MessageId
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.security.sids import EVERYONE
from posthouse.wire.packet.message import deserialize, serialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.srmp.message import SrmpMessage
from tests.engine.letters import FAR_GUID
from tests.engine.web import ADMIN, WebRig, arrival_of

GROUP = "234.1.1.1:8001"
TO = f"MSMQ:MULTICAST={GROUP}"
NAME = f"MULTICAST={GROUP}"


class CastRig(WebRig):
    """A rig with two queues that listen to a multicast address, and one that does not."""

    def __init__(self) -> None:
        super().__init__()
        self.create("east", multicast_address=GROUP)
        self.create("west", multicast_address=GROUP)
        self.create("other", multicast_address="234.1.1.1:8002")

    def cast(self, *messages: SrmpMessage, body: bytes = b"x", address: str = GROUP) -> None:
        arrivals = [arrival_of(message, body) for message in messages]
        self.run(lambda m: m.transfer.receive_multicast(address, arrivals))

    def found(self) -> list[list[bytes]]:
        return [self.bodies(name) for name in ("east", "west", "other", "orders")]


@pytest.fixture
def rig() -> CastRig:
    return CastRig()


def test_each_queue_with_the_address_gets_a_copy(rig: CastRig) -> None:
    rig.cast(rig.message(TO, durable=False), rig.message(TO), body=b"x")
    assert rig.found() == [[b"x", b"x"], [b"x", b"x"], [], []]
    (message, _) = rig.messages("east")
    assert message.destination_queue_format_name == NAME
    assert message.identifier == MessageId(FAR_GUID, 1)
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.5.1.3/1")
def test_an_address_that_no_queue_has_is_dropped(rig: CastRig) -> None:
    before = rig.manager.ledger.state.dump()
    rig.cast(rig.message("MSMQ:MULTICAST=234.9.9.9:1"), address="234.9.9.9:1")
    assert rig.manager.ledger.state.dump() == before
    assert rig.post(rig.message("MSMQ:MULTICAST=234.9.9.9:1")) == [400]


def test_a_copy_that_came_before_is_known(rig: CastRig) -> None:
    message = rig.message(TO)
    rig.cast(message, message)
    rig.restart()
    rig.cast(message)
    assert rig.found() == [[b"x"], [b"x"], [], []]


def test_a_queue_that_refuses_keeps_no_other_from_its_copy(rig: CastRig) -> None:
    rig.deny("east", EVERYONE, WRITE_MESSAGE)
    rig.cast(rig.message(TO))
    assert rig.found() == [[], [b"x"], [], []]
    assert rig.manager.machine.refusals["MQ_ERROR_ACCESS_DENIED"] == 1
    (one,) = rig.manager.transfer.refused_arrivals()
    assert (one.queue, one.reason) == (rig.queue("east").name, "MQ_ERROR_ACCESS_DENIED")


def test_streams_receipts_and_late_messages_do_not_come_by_multicast(rig: CastRig) -> None:
    rig.create("tx", transactional=True)
    late = rig.message(TO, sent_at=rig.utc - 60, reach_by=rig.utc - 1)
    receipt = rig.delivery_receipt(TO, MessageId(FAR_GUID, 1))
    rig.cast(rig.streamed(1, to=TO), receipt, late)
    assert rig.found() == [[], [], [], []]
    refused = {one.reason for one in rig.manager.transfer.refused_arrivals()}
    assert refused == {"srmp_refused", "expired_on_arrival"}
    rig.check_books()


def test_nobody_answers_a_crowd(rig: CastRig) -> None:
    asks = {"commitment_receipt_to": ADMIN, "positive_only": True}
    rig.cast(rig.message(TO, delivery_receipt_to=ADMIN, **asks))
    rig.receive("east")
    assert rig.answers() == []


def test_whoever_listens_is_told_which_addresses_there_are(rig: CastRig) -> None:
    queues = rig.manager.queues
    assert queues.multicast_addresses() == {GROUP, "234.1.1.1:8002"}
    rig.active.clear()
    number = rig.queue("other").number
    rig.set("other", multicast_address="234.1.1.1:9")
    assert number in rig.active
    assert queues.multicast_addresses() == {GROUP, "234.1.1.1:9"}
    rig.active.clear()
    rig.delete("other")
    assert number in rig.active
    assert queues.multicast_addresses() == {GROUP}
    rig.active.clear()
    rig.create("new", multicast_address="234.1.1.1:10")
    assert rig.queue("new").number in rig.active
    rig.restart()
    assert rig.manager.queues.multicast_addresses() == {GROUP, "234.1.1.1:10"}


def test_messages_can_be_sent_to_a_multicast_address(rig: CastRig) -> None:
    rig.send(NAME, b"x", label="to all")
    (packet,) = rig.take(NAME)
    assert (packet.body, packet.destination_text) == (b"x", NAME)
    request, message = rig.request(packet)
    assert message.to == TO
    (number,) = [n for _, n in rig.away(NAME).state.order.forward()]
    sender = rig.away(NAME).outgoing.sender  # type: ignore[union-attr]
    assert sender is not None
    rig.run(lambda m: sender.acknowledged([number]))
    assert rig.waiting(NAME) == []
    assert request.payload
    rig.check_books()


def test_a_transaction_has_no_place_there(rig: CastRig) -> None:
    transaction = rig.begin()
    with pytest.raises(TransactionUsage):
        rig.send(NAME, b"x", tx=transaction)
    message = Message(destination_queue_format_name=NAME, body=b"x", transaction_identifier=1)
    descriptor = rig.open(NAME)
    with pytest.raises(TransactionUsage):
        rig.run(lambda m: m.messages.send_packets(descriptor, [serialize(message)], transaction))
    rig.check_books()


def test_a_packet_of_a_client_names_the_address_in_its_list() -> None:
    packet = serialize(Message(destination_queue_format_name=NAME, body=b"x"))
    assert Packet(packet).destination_text == NAME
    assert Packet(packet).destination_queue is None
    assert deserialize(packet).destination_queue_format_name == NAME
    assert deserialize(serialize(deserialize(packet))) == deserialize(packet)
