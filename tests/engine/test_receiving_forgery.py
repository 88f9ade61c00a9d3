"""Messages of strangers that would make us lose or keep what is none of their business."""

from __future__ import annotations

import pytest

from posthouse.directory import objects
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.message import ACK_NEG_ARRIVAL
from posthouse.model.names import PrivateName
from posthouse.wire.binary.order_acks import order_queue_of
from tests.engine.arrivals import ORDERS, PeerRig
from tests.engine.letters import FAR_GUID
from tests.support.answer_rig import AnswerRig

STRANGER = bytes(range(40, 56))
BANK = r"DIRECT=OS:BANK\private$\ledger"


@pytest.fixture
def rig() -> PeerRig:
    rig = PeerRig()
    rig.create("open", transactional=True)
    return rig


def in_flight(rig: PeerRig) -> tuple[Queue, tuple[int, int]]:
    """Two transactional messages on their way to somebody, and their sequence."""
    tx = rig.begin("round")
    for body in (b"1", b"2"):
        rig.send(BANK, body, tx=tx)
    rig.commit(tx)
    queue = rig.outgoing(BANK)[0]
    sender = rig.run(lambda m: m.transfer.begin_sending(queue.number))
    assert len(rig.run(lambda m: sender.take(10, 1 << 20))) == 2
    sequence_id = rig.manager.transfer.info(queue).sequence_id
    return queue, (sequence_id >> 32, sequence_id & 0xFFFFFFFF)


@pytest.mark.parametrize("claims_to_be_us", [False, True])
@pytest.mark.parametrize("to", ["open", "missing"])
def test_nobody_says_in_our_name_what_became_of_our_messages(
    rig: PeerRig, claims_to_be_us: bool, to: str
) -> None:
    queue, sequence = in_flight(rig)
    peer = Peer(rig.guid if claims_to_be_us else STRANGER, "203.0.113.66", lambda number: False)
    name = rf"DIRECT=OS:ALPHA\private$\{to}"
    for ordinal in range(1, 10):
        forged = rig.transactional(
            2, 0, sequence, source=rig.guid, ordinal=ordinal, destination_queue_format_name=name
        )
        assert rig.take(forged, peer=peer).dealt_with == 1
    rig.run(lambda m: m.transfer.send_order_ack(rig.queue("open").number, rig.guid))
    assert queue.state.count == 2
    assert rig.queue("open").state.count == 0
    assert rig.manager.machine.refusals["not_from_here"] == 9


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("claims_to_be_it", [False, True])
def test_messages_that_were_refused_in_a_name_do_not_stop_those_of_its_bearer(
    rig: PeerRig, transactional: bool, claims_to_be_it: bool
) -> None:
    peer = Peer(FAR_GUID if claims_to_be_it else STRANGER, "203.0.113.66")
    missing = r"DIRECT=OS:ALPHA\private$\missing"
    for ordinal in range(1, 5):
        attributes = {"ordinal": ordinal, "destination_queue_format_name": missing}
        if transactional:
            rig.take(rig.transactional(1, 0, **attributes), peer=peer)
        else:
            rig.take(rig.packet(b"forged", **attributes), peer=peer)
    rig.take(rig.packet(b"one", ordinal=1))
    rig.take(rig.packet(b"two", ordinal=2), rig.packet(b"three", ordinal=3))
    assert rig.bodies("orders") == [b"one", b"two", b"three"]


def test_what_was_refused_stays_refused_when_it_comes_again(rig: PeerRig) -> None:
    name = r"DIRECT=OS:ALPHA\private$\later"
    packets = [rig.packet(b"1", destination_queue_format_name=name) for _ in range(2)]
    rig.take(*packets)
    rig.create("later")
    rig.take(*packets)
    rig.take(packets[0])
    assert rig.bodies("later") == []


def test_who_takes_no_answers_does_not_fill_the_disk_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = PeerRig(send_insecure_nacks=True)
    rig.create("open", transactional=True)
    monkeypatch.setattr("posthouse.engine.messages.acknowledgments.ANSWERS_MAX", 3)
    missing = r"DIRECT=OS:ALPHA\private$\missing"
    for number in range(1, 9):
        rig.take(rig.transactional(number, 0, destination_queue_format_name=missing))
    answers = rig.manager.queues.find_outgoing(order_queue_of(FAR_GUID))
    assert answers is not None
    assert answers.state.count == 3
    here = r"DIRECT=OS:ALPHA\private$\open"
    rig.take(rig.transactional(1, 0, destination_queue_format_name=here))
    number = rig.queue("open").number
    assert not rig.run(lambda m: m.transfer.send_order_ack(number, FAR_GUID))
    assert answers.state.count == 3


def test_nobody_answers_who_has_no_name(rig: PeerRig) -> None:
    peer = Peer(bytes(16), "203.0.113.66")
    for name in ("missing", "open"):
        rig.take(
            rig.transactional(
                1,
                0,
                source=bytes(16),
                destination_queue_format_name=rf"DIRECT=OS:ALPHA\private$\{name}",
            ),
            peer=peer,
        )
    assert not rig.run(lambda m: m.transfer.send_order_ack(rig.queue("open").number, bytes(16)))
    assert rig.manager.queues.outgoing_queues() == []


# -- what comes over several routers


class RoutedRig(AnswerRig):
    """A rig that knows the sender, and a full queue `east` that it sends to."""

    def __init__(self) -> None:
        super().__init__(send_insecure_nacks=True)
        self.create("east", transactional=True, quota_kib=1)
        entry = objects.QueueManager(identifier=FAR_GUID, computer_name="FAR")
        service, clock = self.manager.directory.service, self.clock
        self.run(lambda m: service.create_directory_object(entry, clock.now_ms, clock.utc_seconds))
        self.big = self.transactional(
            1,
            0,
            body=bytes(2000),
            destination_queue_format_name=ORDERS.replace("orders", "east"),
            acknowledgements_requested=ACK_NEG_ARRIVAL,
            administration_queue_format_name=str(PrivateName(FAR_GUID, 0x12)),
        )

    def refusals(self) -> int:
        return len(self.sent(str(PrivateName(FAR_GUID, 0x12))))


def router(host: int, *, trusted: bool = True) -> Peer:
    return Peer(bytes([host]) * 16, f"192.0.2.{host}", may_pass_on=lambda source: trusted)


@pytest.mark.spec("MS-MQQB 3.1.7.15/12")
def test_what_was_refused_over_one_router_is_not_taken_over_another() -> None:
    """Its sender was told, and ends it: taken in after all it would have two ends."""
    rig = RoutedRig()
    rig.take(rig.big, peer=router(20))
    rig.take(rig.big, peer=router(21))
    assert rig.refusals() == 1
    rig.set("east", quota_kib=100)
    rig.restart()
    rig.take(rig.big, peer=router(22))
    assert rig.bodies("east") == []


def test_a_stranger_has_nothing_refused_that_comes_over_routers() -> None:
    rig = RoutedRig()
    rig.take(rig.big, peer=router(20, trusted=False))
    rig.set("east", quota_kib=100)
    rig.take(rig.big, peer=router(21))
    assert len(rig.bodies("east")) == 1
