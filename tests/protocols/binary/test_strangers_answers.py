"""What strangers can make us owe: no link, timer or log line for machines that do not exist, a
limited number for those that call and go away, and real senders get their acknowledgments."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from posthouse.directory import objects
from posthouse.engine.ledger.effects import Event
from posthouse.engine.transfer.receiving import STEP_MESSAGES
from posthouse.model.guids import format_guid
from posthouse.model.message import DeliveryGuarantee, Message, MessageId, TxSequenceId
from posthouse.model.names import parse_name
from posthouse.protocols.binary.order_acks import ORDER_ACKS_AT_ONCE, OrderAckTimers
from posthouse.protocols.binary.session import SessionState
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.wire.binary.internal import connection_parameters, establish_connection
from posthouse.wire.binary.order_acks import (
    OrderAck,
    Origin,
    order_ack,
    order_queue_of,
    read_order_ack,
)
from posthouse.wire.binary.stream import PacketKind, PacketSplitter, packet_kind
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet_fields import summarize
from tests.protocols.binary.memory_net import Cable, Machine, Net

ORDERS = r".\private$\orders"
TO_BETA = r"DIRECT=TCP:10.0.0.2\private$\orders"
THEIRS = "10.6.6.6"


def guid(number: int) -> bytes:
    return (number + 1).to_bytes(16, "big")


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def beta(net: Net) -> Machine:
    made = net.machine("BETA", "10.0.0.2", settings=BinarySettings(links_per_caller=3))
    made.create(ORDERS, transactional=True)
    return made


@pytest.fixture
def told(beta: Machine) -> list[Event]:
    """What the log gets."""
    events: list[Event] = []
    beta.protocol.on_event = events.append
    return events


def caller(machine: Machine, claimed: bytes, address: str = THEIRS) -> Cable:
    """A session that somebody opens."""
    cable = Cable(machine.net, machine, address)
    cable.session = machine.protocol.accept(cable, address)
    cable.session.receive(establish_connection(claimed, time_stamp=1))
    cable.session.receive(connection_parameters(500, 20_000, 64))
    assert cable.session.state is SessionState.OPEN
    cable.sent.clear()
    machine.net.run()
    return cable


def placed(source: bytes, number: int = 1, body: bytes = b"x", **attributes: bool) -> bytes:
    """A message in the sequence of a source."""
    return serialize(
        Message(
            identifier=MessageId(source, number),
            source_machine_identifier=source,
            sent_time=1_700_000_000,
            destination_queue_format_name=TO_BETA,
            delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
            transaction_identifier=1,
            transactional_message_sequence_identifier=TxSequenceId(5, 1),
            transaction_sequence_number=number,
            transaction_previous_sequence_number=number - 1,
            body=body,
            **attributes,
        )
    )


def bring(cable: Cable, *packets: bytes) -> None:
    assert cable.session is not None
    cable.session.receive(b"".join(packets))
    cable.net.run()


def order_acks_on(cable: Cable) -> list[int]:
    """The numbers that order acknowledgments on a session name."""
    packets = PacketSplitter().feed(b"".join(cable.sent))
    found = [one for one in packets if packet_kind(one) is PacketKind.ORDER_ACK]
    return [read_order_ack(one, summarize(one)).sequence_number for one in found]


def order_queue(number: int) -> str:
    return f"PRIVATE={format_guid(guid(number))}\\00000004"


def owed_queues(machine: Machine) -> list[str]:
    """The machines for which answers wait."""
    return [
        queue.definition.format_name
        for queue in machine.manager.queues.outgoing_queues()
        if queue.state.count
    ]


# -- sources that do not exist


def test_nothing_is_owed_to_sources_that_were_made_up(
    beta: Machine, net: Net, told: list[Event]
) -> None:
    cable = caller(beta, guid(0))
    bring(cable, *(placed(guid(number)) for number in range(1, 400)))
    assert len(beta.bodies(ORDERS)) == 399
    net.advance(60_000)
    assert owed_queues(beta) == []
    assert beta.manager.queues.outgoing_queues() == []
    assert beta.protocol.links.all() == []
    assert {event.name for event in told} == {"session_opened"}
    assert beta.manager.machine.refusals["answer_to_unknown_machine"] >= 399


def test_what_an_older_version_owed_them_waits_without_a_link(
    beta: Machine, net: Net, told: list[Event]
) -> None:
    for each in range(1, 5):
        origin = Origin(beta.manager.machine.identifier, each, 1_700_000_000)
        packet = order_ack(OrderAck.of(5, 1), order_queue_of(guid(each)), origin)
        beta.call(
            lambda m, each=each, packet=packet: m.transfer.acks.send(
                guid(each), "", packet, "", None
            )
        )
    net.advance(60_000)
    assert owed_queues(beta) == [*map(order_queue, range(1, 5))]
    assert beta.protocol.links.all() == []
    assert told == []
    again = caller(beta, guid(3), "10.7.7.7")
    net.advance(1_000)
    assert order_acks_on(again) == [1]


def test_what_ends_is_not_answered_to_them_either(
    beta: Machine, net: Net, told: list[Event]
) -> None:
    cable = caller(beta, guid(0))
    asking = (placed(guid(n), negative_journaling_requested=True) for n in range(1, 30))
    bring(cable, *asking)
    beta.call(lambda m: m.messages.moving.purge(m.queues.local_queue(parse_name(ORDERS))))
    net.advance(60_000)
    assert beta.bodies(ORDERS) == []
    assert owed_queues(beta) == []
    assert {event.name for event in told} == {"session_opened"}


def test_an_answer_goes_to_no_other_host_than_its_message_came_from(
    beta: Machine, net: Net
) -> None:
    """Where the source has a session from elsewhere, it has not sent that message."""
    theirs, other = caller(beta, guid(7), "10.7.7.7"), caller(beta, guid(0))
    bring(theirs, placed(guid(7)))
    net.advance(1_000)
    assert order_acks_on(theirs) == [1]
    theirs.sent.clear()
    bring(other, placed(guid(7), body=b"another"))
    net.advance(1_000)
    assert order_acks_on(theirs) == []
    assert len(beta.protocol.links.all()) <= 1


@pytest.mark.parametrize("known", ["directory", "reached"])
def test_a_machine_that_others_vouch_for_is_answered_while_it_is_away(
    beta: Machine, net: Net, known: str
) -> None:
    if known == "directory":
        machine = objects.QueueManager(identifier=guid(7), computer_name="SEVEN")
        beta.call(
            lambda m: m.directory.service.create_directory_object(
                machine, m.machine.now_ms, m.machine.utc
            )
        )
    else:
        beta.call(lambda m: m.transfer.reached(guid(7), "10.7.7.7", 1801))
    bring(caller(beta, guid(0)), placed(guid(7)))
    net.advance(1_000)
    (queue,) = owed_queues(beta)
    assert queue.startswith(order_queue(7))
    assert len(beta.protocol.links.all()) == 1


# -- machines that call and go away


def leave_unacknowledged(beta: Machine, net: Net, number: int, address: str = THEIRS) -> None:
    """A machine sends in a sequence, does not read its acknowledgment, and is gone."""
    cable = caller(beta, guid(number), address)
    bring(cable, placed(guid(number)))
    net.advance(600)
    cable.lose("gone")
    net.run()


def test_one_address_causes_a_limited_number_of_links(
    beta: Machine, net: Net, told: list[Event]
) -> None:
    for number in range(20):
        leave_unacknowledged(beta, net, number)
    leave_unacknowledged(beta, net, 30, "10.7.7.7")
    assert len(owed_queues(beta)) == 21
    keys = [link.destination.guid for link in beta.protocol.links.all() if link.destination]
    assert keys == [guid(0), guid(1), guid(2), guid(30)]
    told.clear()
    net.connects.clear()
    net.advance(3_600_000)
    assert len(net.connects) < 4 * 25
    waiting = beta.outgoing(order_queue(9)).outgoing
    assert waiting is not None
    assert "waits for its queue manager to open a session" in waiting.last_error


@pytest.mark.parametrize("number", [0, 9])
def test_a_machine_outside_the_directory_gets_its_answer_when_it_calls_again(
    beta: Machine, net: Net, number: int
) -> None:
    """One that has a link, and one that is beyond the limit of its address."""
    for each in range(20):
        leave_unacknowledged(beta, net, each)
    again = caller(beta, guid(number))
    net.advance(1_000)
    assert order_acks_on(again) == [1]


def test_a_machine_that_lost_its_answer_sends_again_and_has_it(beta: Machine, net: Net) -> None:
    """Also where its session is closed before the acknowledgment was due."""
    cable = caller(beta, guid(5))
    bring(cable, placed(guid(5)))
    cable.lose("gone")
    net.advance(60_000)
    assert owed_queues(beta) == []
    again = caller(beta, guid(5))
    bring(again, placed(guid(5)))
    net.advance(1_000)
    assert order_acks_on(again) == [1]
    assert len(beta.bodies(ORDERS)) == 1


def with_room(net: Net, machines: int) -> Machine:
    """A machine that keeps answers for a few that are away."""
    settings = BinarySettings(links_per_caller=3)
    made = net.machine("BETA", "10.0.0.2", settings=settings, absent_senders_max=machines)
    made.create(ORDERS, transactional=True)
    return made


def leave_final(machine: Machine, number: int, address: str = THEIRS) -> None:
    """One that has gone when its message is purged."""
    cable = caller(machine, guid(number), address)
    bring(cable, placed(guid(number), negative_journaling_requested=True))
    cable.lose("gone")


def purge(machine: Machine) -> None:
    machine.call(lambda m: m.messages.moving.purge(m.queues.local_queue(parse_name(ORDERS))))


def test_of_too_many_machines_the_address_with_most_gives_up_answers(net: Net) -> None:
    beta = with_room(net, 6)
    events: list[Event] = []
    beta.driver.on_event = events.append
    leave_unacknowledged(beta, net, 50, "10.7.7.7")
    for number in range(12):
        leave_unacknowledged(beta, net, number)
    assert owed_queues(beta) == [order_queue(50), *map(order_queue, range(7, 12))]
    assert beta.manager.machine.refusals["answers_given_up"] == 7
    (event, *others) = [event for event in events if event.name == "answers_given_up"]
    assert len(others) == 6
    assert event.details == {"source": format_guid(guid(0)), "address": THEIRS, "answers": 1}


def test_three_hundred_senders_behind_one_address_lose_no_final_answer(
    beta: Machine, net: Net
) -> None:
    for number in range(300):
        leave_final(beta, number)
    purge(beta)
    assert len(owed_queues(beta)) == 300
    assert not beta.manager.machine.refusals["answers_given_up"]


def test_what_a_sender_can_ask_for_again_is_given_up_before_what_it_cannot(net: Net) -> None:
    beta = with_room(net, 6)
    for number in range(4):
        leave_final(beta, number)
    purge(beta)
    for number in range(10, 15):
        leave_unacknowledged(beta, net, number)
    kept = [*range(4), 13, 14]
    assert owed_queues(beta) == [*map(order_queue, kept)]


def test_who_is_connected_loses_nothing(net: Net) -> None:
    beta = with_room(net, 3)
    cable = caller(beta, guid(0))
    bring(cable, placed(guid(0), negative_journaling_requested=True))
    for number in range(1, 8):
        leave_final(beta, number)
    purge(beta)
    assert order_queue(0) in owed_queues(beta)
    assert len(owed_queues(beta)) == 3


def test_the_limit_counts_what_was_owed_before_a_restart(net: Net) -> None:
    """Final acknowledgments are kept, as what they tell of is."""
    beta = with_room(net, 5)
    for number in range(5):
        leave_final(beta, number)
    purge(beta)
    beta.restart()
    assert owed_queues(beta) == [*map(order_queue, range(5))]
    leave_final(beta, 20)
    purge(beta)
    assert owed_queues(beta) == [*map(order_queue, (1, 2, 3, 4, 20))]


def test_what_waits_without_a_link_goes_once_the_directory_has_its_machine(
    beta: Machine, net: Net
) -> None:
    for number in range(5):
        leave_unacknowledged(beta, net, number)
    assert len(beta.protocol.links.all()) == 3
    machine = objects.QueueManager(identifier=guid(4), computer_name="FOUR", addresses=(THEIRS,))
    net.connects.clear()
    beta.call(
        lambda m: m.directory.service.create_directory_object(
            machine, m.machine.now_ms, m.machine.utc
        )
    )
    beta.protocol.active([])
    net.run()
    assert len(beta.protocol.links.all()) == 4
    assert net.connects == [(THEIRS, 1801)]


# -- work in one turn


def test_one_turn_takes_a_limited_number_of_messages_that_differ(
    beta: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    receive = type(beta.manager.transfer).receive_packets

    def noted(manager: object, *arguments: object) -> object:
        verdict = receive(manager, *arguments)  # type: ignore[arg-type]
        taken.append(verdict.dealt_with)
        return verdict

    monkeypatch.setattr(type(beta.manager.transfer), "receive_packets", noted)
    cable = caller(beta, guid(0))
    numbers = range(1, 3 * STEP_MESSAGES + 10)
    packets = [placed(guid(number), body=b"%d" % number) for number in numbers]
    assert cable.session is not None
    cable.session.receive(b"".join(packets[:300]))
    cable.session.receive(b"".join(packets[300:]))
    beta.net.run()
    assert beta.bodies(ORDERS) == [b"%d" % number for number in numbers]
    assert max(taken) == STEP_MESSAGES
    assert cable.session.unsynced_bytes == 0
    assert cable.session.received.safe == len(packets)


def test_what_is_too_much_for_one_turn_waits_for_its_own(
    beta: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers that leave do not lead to more work at once: clients wait for theirs among them."""
    cable, waiting = caller(beta, guid(0)), list[Callable[[], None]]()
    monkeypatch.setattr(cable, "later", waiting.append)
    numbers = range(1, 2 * STEP_MESSAGES + 10)
    assert cable.session is not None
    cable.session.receive(b"".join(placed(guid(number), body=b"x") for number in numbers))
    for taken in (STEP_MESSAGES, 2 * STEP_MESSAGES, len(numbers)):
        beta.net.run()
        assert cable.session.received.safe == taken
        if waiting:
            waiting.pop()()
    assert not waiting
    assert cable.session.unsynced_bytes == 0


def test_one_turn_sends_a_limited_number_of_order_acknowledgments() -> None:
    timers = OrderAckTimers(BinarySettings())
    timers.touched("session", [(1, guid(number)) for number in range(200)], 0)
    batches = [timers.due(1_000) for _ in range(5)]
    assert [len(batch) for batch in batches] == [ORDER_ACKS_AT_ONCE] * 3 + [8, 0]
    assert {one for batch in batches for one in batch} == {(1, guid(n)) for n in range(200)}
