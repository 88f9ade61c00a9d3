"""Order and final acknowledgments on their way to other queue managers ([MS-MQQB] 3.1.7.17)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from posthouse.engine.ledger.records import CHANGE, unpack_change
from posthouse.engine.transfer.protocol_interface import Outbound, Peer
from posthouse.model.message import ACK_RECEIVE, NACK_QUEUE_PURGED, Message, TxSequenceId
from posthouse.model.message_classes import ORDER_ACK
from posthouse.model.names import PrivateName
from posthouse.wire.binary.order_acks import (
    LABEL,
    ack_class,
    order_queue_of,
    read_final_ack,
    read_order_ack,
)
from posthouse.wire.packet.message import deserialize, serialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from tests.engine.arrivals import PEER, PeerRig
from tests.engine.letters import FAR_GUID
from tests.engine.rig import RECEIVE

SEQUENCE = int(TxSequenceId(5, 1))


@pytest.fixture
def rig() -> Iterator[PeerRig]:
    rig = PeerRig()
    rig.create("ledger", transactional=True)
    yield rig
    rig.check_books()


def ledger(rig: PeerRig) -> str:
    """The queue as a direct name has it."""
    return r"DIRECT=OS:ALPHA\private$\ledger"


def by_number(rig: PeerRig) -> str:
    """The queue as a private name has it."""
    return str(PrivateName(rig.guid, rig.queue("ledger").number))


def owed(rig: PeerRig, source: bytes = FAR_GUID) -> list[Outbound]:
    """What a session with the source would take."""
    queue = rig.manager.queues.find_outgoing(order_queue_of(source))
    if queue is None:
        return []
    sender = rig.run(lambda m: m.transfer.begin_sending(queue.number))
    return rig.run(lambda m: sender.take(100, 1 << 20))


def send_order_ack(rig: PeerRig, source: bytes = FAR_GUID, name: str = "ledger") -> bool:
    number = rig.queue(name).number
    return rig.run(lambda m: m.transfer.send_order_ack(number, source))


def asks_nothing(message: Message) -> bool:
    return not (
        message.acknowledgements_requested
        or message.positive_journaling_requested
        or message.negative_journaling_requested
        or message.tracing_requested
        or message.administration_queue_format_name
        or message.response_queue_format_name
        or message.privacy_level
        or message.authentication_level
    )


# -- order acknowledgments


@pytest.mark.spec("MS-MQQB 3.1.7.17/1", "MS-MQQB 3.1.7.17/2", "MS-MQQB 3.1.1.6.2/3")
@pytest.mark.spec("MS-MQQB 3.1.1.6.2/2", "MS-MQQB 2.2.4.1/2")
def test_an_order_acknowledgment_names_the_last_message_in_sequence(rig: PeerRig) -> None:
    name = ledger(rig)
    packets = [
        rig.transactional(number, number - 1, destination_queue_format_name=name)
        for number in (1, 2, 4)
    ]
    rig.take(*packets)
    assert send_order_ack(rig)
    (out,) = owed(rig)
    assert not out.recoverable
    assert not out.transactional
    message = deserialize(out.packet)
    assert (message.message_class, message.priority, message.label) == (ORDER_ACK, 0, LABEL)
    assert asks_nothing(message)
    body = read_order_ack(out.packet)
    assert body[:3] == (SEQUENCE, 2, 1)
    seen = summarize(out.packet)
    assert ack_class(out.packet, seen.base_flags, seen.user_flags) == ORDER_ACK
    assert seen.source_guid == rig.guid
    assert seen.sent_time == rig.clock.utc_seconds


@pytest.mark.spec(
    "MS-MQQB 3.1.7.17/5",
    "MS-MQQB 3.1.7.17/6",
    "MS-MQQB 3.1.1.3.1/20",
    "MS-MQQB 2.2.4/5",
)
def test_the_answer_names_the_sender_as_the_sender_named_us(rig: PeerRig) -> None:
    for name in (ledger(rig), by_number(rig)):
        other = Peer(bytes(16)[:15] + name[:1].encode(), "fe80::7%eth0")
        packet = rig.transactional(1, 0, source=other.guid, destination_queue_format_name=name)
        rig.take(packet, peer=other)
        assert send_order_ack(rig, other.guid)
        (out,) = owed(rig, other.guid)
        destination = str(Packet(out.packet).destination_queue)
        if name.startswith("DIRECT"):
            assert destination == "DIRECT=TCP:FE80::7\\private$\\order_queue$"
            assert summarize(out.packet).address_guid == bytes(16)
        else:
            assert destination == str(order_queue_of(other.guid))
            assert summarize(out.packet).address_guid == other.guid


@pytest.mark.spec("MS-MQQB 3.1.7.17/4")
def test_the_answer_goes_to_the_source_whoever_brought_the_message(rig: PeerRig) -> None:
    source = bytes(range(80, 96))
    packet = rig.transactional(1, 0, source=source, destination_queue_format_name=by_number(rig))
    rig.take(packet, peer=PEER)
    assert send_order_ack(rig, source)
    assert owed(rig) == []
    (out,) = owed(rig, source)
    assert summarize(out.packet).address_guid == source


def test_no_answer_is_made_that_has_nowhere_to_go(rig: PeerRig) -> None:
    """Neither an order nor a final acknowledgment; an address that it called from is enough."""
    rig.manager.transfer.outgoing.is_connected = lambda guid: False
    asked = {"destination_queue_format_name": ledger(rig), "negative_journaling_requested": True}
    rig.take(rig.transactional(1, 0, **asked))
    assert not send_order_ack(rig)
    rig.run(lambda m: m.messages.moving.purge(rig.queue("ledger")))
    assert rig.manager.queues.find_outgoing(order_queue_of(FAR_GUID)) is None
    assert rig.manager.machine.refusals["answer_to_unknown_machine"] == 2
    rig.run(lambda m: m.transfer.reached(FAR_GUID, "192.0.2.7", None))
    rig.take(rig.transactional(2, 1, **asked))
    assert send_order_ack(rig)
    rig.run(lambda m: m.messages.moving.purge(rig.queue("ledger")))
    assert len(owed(rig)) == 2


def test_nothing_is_acknowledged_of_which_nothing_was_accepted(rig: PeerRig) -> None:
    assert not send_order_ack(rig)
    rig.take(rig.transactional(2, 1, destination_queue_format_name=ledger(rig)))  # out of order
    assert not send_order_ack(rig)
    assert not rig.run(lambda m: m.transfer.send_order_ack(9999, FAR_GUID))
    assert owed(rig) == []


@pytest.mark.spec("MS-MQQB 3.1.7.17/9")
def test_an_answer_for_which_there_is_no_room_is_dropped_and_counted() -> None:
    rig = PeerRig(outgoing_queues_max=0)
    rig.create("ledger", transactional=True)
    name = ledger(rig)
    asked = rig.transactional(1, 0, destination_queue_format_name=name, final_ack_required=True)
    rig.take(asked)
    assert not send_order_ack(rig)
    rig.receive("ledger")
    assert rig.manager.machine.refusals["acknowledgment_dropped"] == 2
    assert rig.bodies("ledger") == []


def test_the_queue_of_answers_for_a_machine_of_the_directory_gives_way_to_no_other() -> None:
    for known, made_for in ((False, PEER.address), (True, "")):
        rig = PeerRig()
        rig.create("ledger", transactional=True)
        if known:
            rig.enter_machine()
        rig.take(rig.transactional(1, 0, destination_queue_format_name=by_number(rig)))
        assert send_order_ack(rig)
        (queue,) = rig.manager.queues.outgoing_queues()
        assert queue.definition.made_for == made_for


def test_queues_of_answers_that_were_sent_make_room_for_others() -> None:
    """Whoever makes up GUIDs must not use up the outgoing queues for good."""
    rig = PeerRig(outgoing_queues_max=1)
    rig.create("ledger", transactional=True)
    name, other = ledger(rig), bytes(15) + b"o"
    rig.take(rig.transactional(1, 0, destination_queue_format_name=name))
    assert send_order_ack(rig)
    (first,) = rig.manager.queues.outgoing_queues()
    packet = rig.transactional(1, 0, destination_queue_format_name=name, source=other)
    rig.take(packet, peer=Peer(other, "192.0.2.8"))
    number = rig.queue("ledger").number
    (taken,) = owed(rig)
    sender = rig.run(lambda m: m.transfer.begin_sending(first.number))
    rig.run(lambda m: sender.take(10, 1 << 20))
    rig.run(lambda m: sender.acknowledged([taken.number]))
    assert not rig.run(lambda m: m.transfer.send_order_ack(number, other))  # a session has it
    rig.run(lambda m: sender.end())
    assert rig.run(lambda m: m.transfer.send_order_ack(number, other))
    (second,) = rig.manager.queues.outgoing_queues()
    assert second.definition.format_name == str(PrivateName(other, 4))
    rig.restart()
    assert [q.number for q in rig.manager.queues.outgoing_queues()] == [second.number]


def test_no_quota_refuses_an_answer(rig: PeerRig) -> None:
    """Without it the sender would keep, and send again, what is long received."""
    name = ledger(rig)
    rig.take(rig.transactional(1, 0, destination_queue_format_name=name, final_ack_required=True))
    rig.run(lambda m: m.machine.begin_flow_control("disk"))
    rig.receive("ledger")
    assert send_order_ack(rig)
    assert [out.recoverable for out in owed(rig)] == [True, False]


# -- final acknowledgments


@pytest.mark.spec("MS-MQQB 3.1.7.17/1", "MS-MQQB 3.1.7.17/3", "MS-MQQB 3.1.7.2.2/1")
@pytest.mark.parametrize("end", [ACK_RECEIVE, NACK_QUEUE_PURGED])
def test_a_final_acknowledgment_names_its_message(rig: PeerRig, end: int) -> None:
    packet = rig.transactional(
        1,
        0,
        ordinal=77,
        destination_queue_format_name=ledger(rig),
        negative_journaling_requested=True,
    )
    rig.take(packet)
    rig.receive("ledger") if end == ACK_RECEIVE else rig.purge("ledger")
    (out,) = owed(rig)
    assert out.recoverable
    message = deserialize(out.packet)
    assert (message.message_class, message.priority, message.label) == (end, 0, LABEL)
    assert asks_nothing(message)
    assert read_final_ack(out.packet) == (SEQUENCE, 1, 0, FAR_GUID, 77)
    name = f"DIRECT=TCP:{PEER.address}\\private$\\order_queue$"
    assert str(Packet(out.packet).destination_queue) == name
    seen = summarize(out.packet)
    assert ack_class(out.packet, seen.base_flags, seen.user_flags) == end


@pytest.mark.spec("MS-MQQB 3.1.7.17/8")
def test_strangers_get_negative_final_answers_too(rig: PeerRig) -> None:
    assert not rig.settings.queue_manager.send_insecure_nacks
    name = ledger(rig)
    rig.take(rig.transactional(1, 0, destination_queue_format_name=name, final_ack_required=True))
    rig.purge("ledger")
    assert [deserialize(out.packet).message_class for out in owed(rig)] == [NACK_QUEUE_PURGED]


def test_the_final_answer_is_in_the_record_that_ends_the_message(rig: PeerRig) -> None:
    name = ledger(rig)
    rig.take(rig.transactional(1, 0, destination_queue_format_name=name, final_ack_required=True))
    reader = rig.open("ledger", RECEIVE)
    effects = rig.decide(lambda m: m.messages.dequeue_message(reader, timeout_ms=0))
    changes = [unpack_change(record[2]) for record in effects.records if record[0] == CHANGE]
    (ending,) = [change for change in changes if change.ends]
    assert len(ending.published) == 1  # the acknowledgment becomes a message
    assert all(not change.published for change in changes if change is not ending)


# -- a way around that leads back here


def test_a_queue_manager_that_reaches_itself_answers_itself(rig: PeerRig) -> None:
    name = r"DIRECT=OS:ELSEWHERE\private$\ledger"
    tx = rig.begin("round")
    for body in (b"1", b"2"):
        rig.send(name, body, tx=tx, positive_journaling_requested=True)
    rig.commit(tx)
    queue = rig.outgoing(name)[0]
    sender = rig.run(lambda m: m.transfer.begin_sending(queue.number))
    taken = rig.run(lambda m: sender.take(10, 1 << 20))
    here = r"DIRECT=OS:ALPHA\private$\ledger"
    for out in taken:
        message = deserialize(out.packet)
        message.destination_queue_format_name = here
        rig.take(serialize(message), peer=Peer(rig.guid, "127.0.0.1"))
    assert send_order_ack(rig, rig.guid)
    assert rig.manager.transfer.report(queue).no_read_count == 2
    rig.receive("ledger")
    assert rig.manager.transfer.report(queue).no_read_count == 1
    assert rig.bodies(r".\system$;journal") == [b"1"]
    assert rig.manager.queues.find_outgoing(order_queue_of(rig.guid)) is None


# -- where machines are


@pytest.mark.spec("MS-MQQB 3.1.7.17/7")
def test_the_last_address_of_a_machine_is_remembered(rig: PeerRig) -> None:
    transfer = rig.manager.transfer
    assert transfer.address_of(FAR_GUID) is None
    rig.run(lambda m: m.transfer.reached(FAR_GUID, "10.0.0.2", 2801))
    assert transfer.address_of(FAR_GUID) == ("10.0.0.2", 2801)
    for address, port, expected in (
        ("10.0.0.2", None, ("10.0.0.2", 2801)),  # it came from there, and listens as before
        ("10.0.0.3", None, ("10.0.0.3", None)),
        ("10.0.0.3", 1801, ("10.0.0.3", 1801)),
    ):
        rig.run(lambda m, a=address, p=port: m.transfer.reached(FAR_GUID, a, p))
        assert rig.manager.transfer.address_of(FAR_GUID) == expected
    rig.restart()
    assert rig.manager.transfer.address_of(FAR_GUID) == ("10.0.0.3", 1801)


def test_of_a_great_many_callers_the_oldest_are_forgotten(
    rig: PeerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posthouse.engine.transfer.machine_addresses.CALLERS_MAX", 2)
    for first, port in ((b"a", None), (b"b", 1801), (b"c", None), (b"d", None)):
        rig.run(lambda m, g=first * 16, p=port: m.transfer.reached(g, "10.0.0.3", p))
    for _ in range(2):
        known = [rig.manager.transfer.address_of(first * 16) for first in (b"a", b"b", b"c", b"d")]
        assert known == [None, ("10.0.0.3", 1801), ("10.0.0.3", None), ("10.0.0.3", None)]
        rig.restart()


def test_only_news_about_addresses_are_written(rig: PeerRig) -> None:
    rig.run(lambda m: m.transfer.reached(FAR_GUID, "10.0.0.2", 2801))
    for port in (2801, None):
        effects = rig.decide(lambda m, p=port: m.transfer.reached(FAR_GUID, "10.0.0.2", p))
        assert effects.records == []


def test_a_port_of_ours_is_ours_in_names(rig: PeerRig) -> None:
    name = r"DIRECT=TCP:127.0.0.1:2801\private$\ledger"
    assert rig.open(name).target().outgoing is not None
    rig.run(lambda m: m.queues.add_own_port(2801))
    assert rig.open(name).target() is rig.queue("ledger")
    assert rig.open(name.replace("2801", "2802")).target().outgoing is not None
