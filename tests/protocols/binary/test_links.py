"""Links: when a session is opened, to where, and what happens when that fails."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from posthouse.engine.queues.queue import ConnectionAttempt, OutgoingQueueState, Queue
from posthouse.model.enumerations import ConnectionStatus
from posthouse.model.names import parse_format_name
from posthouse.protocols.binary.link import BinaryLinkState
from posthouse.protocols.binary.session import Role, SessionState
from posthouse.protocols.binary.settings import BinarySettings, PingSettings
from posthouse.wire.binary.ping import read_ping
from tests.protocols.binary.memory_net import Machine, Net

TO_BETA = r"DIRECT=TCP:10.0.0.2\private$\orders"
TO_DEEDS = r"DIRECT=TCP:10.0.0.2\private$\deeds"
ORDERS = r".\private$\orders"
STATUS, STATE = ConnectionStatus, OutgoingQueueState


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def alpha(net: Net) -> Machine:
    return net.machine("ALPHA", "10.0.0.1")


@pytest.fixture
def beta(net: Net, alpha: Machine) -> Machine:
    made = net.machine("BETA", "10.0.0.2")
    made.create(ORDERS)
    return made


def state_of(queue: Queue) -> OutgoingQueueState:
    assert queue.outgoing is not None
    return queue.outgoing.state


def history(queue: Queue) -> list[ConnectionAttempt]:
    assert queue.outgoing is not None
    return list(queue.outgoing.connection_history)


def statuses(queue: Queue) -> list[int]:
    return [attempt.status for attempt in history(queue)]


# -- the first connection


@pytest.mark.spec(
    "MS-MQQB 3.1.7.12/3", "MS-MQQB 3.1.5.2/3", "MS-MQQB 2.1.1/1", "MS-MQDMPR 3.1.7.3.9/4"
)
def test_a_message_opens_a_session_and_arrives(alpha: Machine, beta: Machine, net: Net) -> None:
    alpha.send(TO_BETA, b"one", b"two", express=True)
    assert beta.bodies(ORDERS) == [b"one", b"two"]
    assert net.connects == [("10.0.0.2", 1801)]
    assert state_of(alpha.outgoing(TO_BETA)) is STATE.CONNECTED


@pytest.mark.spec("MS-MQQB 3.1.7.12/3", "MS-MQDMPR 3.1.1.3/6")
def test_a_later_message_opens_a_session_again(alpha: Machine, beta: Machine, net: Net) -> None:
    alpha.send(TO_BETA, b"one")
    net.advance(900_000)
    assert not alpha.protocol.sessions
    alpha.send(TO_BETA, b"two")
    assert beta.bodies(ORDERS) == [b"one", b"two"]
    assert len(net.connects) == 2


def test_queues_of_one_destination_share_a_session(alpha: Machine, beta: Machine, net: Net) -> None:
    beta.create(r".\private$\other")
    alpha.send(TO_BETA, b"one")
    alpha.send(r"DIRECT=TCP:10.0.0.2\private$\other", b"two")
    assert beta.bodies(r".\private$\other") == [b"two"]
    assert len(net.connects) == 1
    assert state_of(alpha.outgoing(r"DIRECT=TCP:10.0.0.2\private$\other")) is STATE.CONNECTED


def test_a_queue_that_comes_while_a_session_opens_is_served_by_it(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    beta.create(r".\private$\other")
    net.unreachable.add("10.0.0.2")
    alpha.send(TO_BETA, b"one")
    alpha.send(r"DIRECT=TCP:10.0.0.2\private$\other", b"two")
    net.unreachable.clear()
    net.advance(5_000)
    assert beta.bodies(r".\private$\other") == [b"two"]
    assert len(net.connects) == 2  # the one that failed, and one more


@pytest.mark.spec("MS-MQQB 3.1.7.4/2", "MS-MQQB 2.1.1/1")
def test_a_port_in_the_name_is_another_destination(alpha: Machine, beta: Machine, net: Net) -> None:
    gamma = net.machine("GAMMA", "10.0.0.2", 2801)
    gamma.create(ORDERS)
    alpha.send(TO_BETA, b"one")
    alpha.send(r"DIRECT=TCP:10.0.0.2:2801\private$\orders", b"two")
    assert (beta.bodies(ORDERS), gamma.bodies(ORDERS)) == ([b"one"], [b"two"])
    assert net.connects == [("10.0.0.2", 1801), ("10.0.0.2", 2801)]


@pytest.mark.spec(
    "MS-MQQB 3.1.5.2.3/5",
    "MS-MQQB 3.1.5.2.3/6",
    "MS-MQQB 3.1.5.2.1/5",
    "MS-MQQB 3.1.5.2.1/1",
    "MS-MQQB 3.1.5.4.2/3",
    "MS-MQDMPR 3.1.1.3/4",
    "MS-MQDMPR 3.1.1.3/7",
)
def test_the_history_tells_how_a_session_was_opened(alpha: Machine, beta: Machine) -> None:
    seen: list[OutgoingQueueState] = []
    queue_states(alpha, seen)
    alpha.send(TO_BETA, b"one")
    queue = alpha.outgoing(TO_BETA)
    assert statuses(queue) == [
        STATUS.IN_PROCESS,
        STATUS.ESTABLISH_PACKET_RECEIVED,
        STATUS.ESTABLISHED,
    ]
    assert {attempt.error for attempt in history(queue)} == {0}
    assert {attempt.time for attempt in history(queue)} == {alpha.net.clock.utc_seconds}
    assert {attempt.next_hops for attempt in history(queue)} == {("IP=10.0.0.2",)}
    assert seen.index(STATE.WAITING) < seen.index(STATE.CONNECTED)
    assert queue.outgoing is not None
    assert queue.outgoing.next_hops == ("IP=10.0.0.2",)


def queue_states(machine: Machine, seen: list[OutgoingQueueState]) -> None:
    """Notes every state that the protocol reports."""
    transfer = machine.manager.transfer.outgoing
    report = transfer.set_state

    def noting(queue: Queue, state: OutgoingQueueState) -> None:
        seen.append(state)
        report(queue, state)

    transfer.set_state = noting  # type: ignore[method-assign]


@pytest.mark.spec("MS-MQQB 3.1.7.12/1", "MS-MQDMPR 3.1.7.3.9/4")
@pytest.mark.parametrize(
    "name",
    [
        "DIRECT=HTTP://10.0.0.2/msmq/private$/orders",
        "DIRECT=HTTPS://10.0.0.2/msmq/private$/orders",
    ],
)
def test_web_names_are_not_of_this_protocol(
    alpha: Machine, beta: Machine, net: Net, name: str
) -> None:
    alpha.send(name, b"one")
    net.advance(600_000)
    assert net.connects == net.resolved == []
    assert alpha.outgoing(name).state.count == 1


# -- resolving


@pytest.mark.spec(
    "MS-MQQB 3.1.5.2.1/5",
    "MS-MQQB 3.1.5.2.1/6",
    "MS-MQQB 3.1.6.1/2",
    "MS-MQQB 3.1.1.3.1/3",
    "MS-MQQB 3.1.5.4.2/2",
)
def test_every_address_of_a_host_is_tried_in_turn(alpha: Machine, beta: Machine, net: Net) -> None:
    net.names["beta"] = ["fe80::5", "10.0.0.9", "10.0.0.2"]
    name = r"DIRECT=OS:beta\private$\orders"
    alpha.send(name, b"one")
    queue = alpha.outgoing(name)
    assert queue.outgoing is not None
    assert queue.outgoing.next_hops == ("IPv6=fe80::5", "IP=10.0.0.9", "IP=10.0.0.2")
    net.advance(1_000)
    assert beta.bodies(ORDERS) == [b"one"]
    assert [address for address, _ in net.connects] == ["fe80::5", "10.0.0.9", "10.0.0.2"]
    assert net.resolved == ["beta"]
    assert queue.outgoing.next_hops == ("IP=10.0.0.2",)


@pytest.mark.spec("MS-MQQB 3.1.6.1/3", "MS-MQQB 3.1.5.2.1/7")
def test_a_name_is_resolved_again_behind_its_last_address(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    net.names["beta"] = ["10.0.0.8", "10.0.0.9"]
    alpha.send(r"DIRECT=OS:beta\private$\orders", b"one")
    net.advance(4_000)
    assert (net.resolved, len(net.connects)) == (["beta"], 2)
    net.names["beta"] = ["10.0.0.2"]
    net.advance(2_000)
    assert net.resolved == ["beta", "beta"]
    assert beta.bodies(ORDERS) == [b"one"]


def test_a_name_is_resolved_with_every_connection(alpha: Machine, beta: Machine, net: Net) -> None:
    name = r"DIRECT=OS:beta\private$\orders"
    alpha.send(name, b"one")
    net.advance(900_000)
    gamma = net.machine("GAMMA", "10.0.0.3", aliases=("beta",))
    gamma.create(ORDERS)
    net.names["beta"] = ["10.0.0.3"]
    alpha.send(name, b"two")
    assert gamma.bodies(ORDERS) == [b"two"]


@pytest.mark.spec("MS-MQQB 3.1.5.2.1/2", "MS-MQQB 3.1.5.2/2", "MS-MQDMPR 3.1.1.3/4")
@pytest.mark.spec("MS-MQQB 3.1.1.1.1.1/3", "MS-MQDMPR 3.1.1.3/7")
def test_a_host_that_nobody_knows_is_looked_for_again(alpha: Machine, net: Net) -> None:
    name = r"DIRECT=OS:beta\private$\orders"
    alpha.send(name, b"one")
    queue = alpha.outgoing(name)
    assert state_of(queue) is STATE.NEED_VALIDATION
    assert statuses(queue) == [STATUS.DNS_FAILURE]
    assert history(queue)[0].error == 0xC00E0069
    assert queue.outgoing is not None
    assert queue.outgoing.last_error == "beta cannot be resolved: no such name"
    assert queue.outgoing.retry_time == net.clock.utc_seconds + 5
    (link,) = alpha.protocol.links.all()
    assert link.state is BinaryLinkState.WAITING_RECONNECT
    beta = net.machine("BETA", "10.0.0.2")
    beta.create(ORDERS)
    net.advance(5_000)
    assert beta.bodies(ORDERS) == [b"one"]
    assert (queue.outgoing.last_error, queue.outgoing.retry_time) == ("", 0)


@pytest.mark.spec("MS-MQQB 3.1.5.2.1/4")
def test_a_machine_that_nobody_knows_is_looked_for_again(alpha: Machine, net: Net) -> None:
    name = r"PRIVATE=11111111-2222-3333-4444-555555555555\00000010"
    alpha.send(name, b"one")
    queue = alpha.outgoing(name)
    assert state_of(queue) is STATE.NEED_VALIDATION
    assert statuses(queue) == [STATUS.ROUTING_DATA_NOT_AVAILABLE]
    assert len(statuses(queue)) == 1
    net.advance(5_000)
    assert len(statuses(queue)) == 2


@pytest.mark.spec("MS-MQQB 3.1.5.2.1/2", "MS-MQQB 3.1.5.2.1/4")
@pytest.mark.parametrize(
    "name",
    [
        r"DIRECT=OS:beta\private$\orders",
        r"PRIVATE=11111111-2222-3333-4444-555555555555\00000010",
    ],
)
def test_a_queue_on_hold_is_not_looked_for(alpha: Machine, net: Net, name: str) -> None:
    alpha.send(name, b"one")
    queue = alpha.outgoing(name)
    alpha.call(lambda manager: manager.transfer.pause_queue(queue))
    tried = len(history(queue))
    net.advance(600_000)
    assert len(history(queue)) == tried
    assert state_of(queue) is not STATE.NEED_VALIDATION
    assert alpha.protocol.next_deadline_ms() is None
    alpha.call(lambda manager: manager.transfer.resume_queue(queue))
    assert len(history(queue)) == tried + 1
    assert state_of(queue) is STATE.NEED_VALIDATION


# -- retries


@pytest.mark.spec("MS-MQQB 3.1.2.3/1", "MS-MQQB 3.1.5.2/2")
def test_the_first_retry_is_after_five_seconds(alpha: Machine, net: Net) -> None:
    alpha.send(TO_BETA, b"one")
    queue = alpha.outgoing(TO_BETA)
    assert statuses(queue) == [STATUS.CONNECTION_REFUSED]
    assert history(queue)[0] == ConnectionAttempt(
        STATUS.CONNECTION_REFUSED, net.clock.utc_seconds, 0xC00E0069, ("IP=10.0.0.2",)
    )
    assert state_of(queue) is STATE.DISCONNECTED
    net.advance(4_999)
    assert len(net.connects) == 1
    net.advance(1)
    assert len(net.connects) == 2


@pytest.mark.spec("MS-MQQB 3.1.2.3/1")
@pytest.mark.parametrize(
    ("most_ms", "pauses"), [(300_000, [5_700, 11_400, 22_800]), (5_000, [5_700, 5_700, 5_700])]
)
def test_a_configured_round_trip_is_added_to_the_pause(
    net: Net, most_ms: int, pauses: list[int]
) -> None:
    """Also where that is more than the longest pause."""
    settings = BinarySettings(round_trip_ms=700, retry_connect_max_ms=most_ms)
    alpha = net.machine("ALPHA", "10.0.0.1", settings=settings)
    alpha.send(TO_BETA, b"one")
    for count, pause_ms in enumerate(pauses, 1):
        net.advance(pause_ms - 1)
        assert len(net.connects) == count
        net.advance(1)
        assert len(net.connects) == count + 1


@pytest.mark.spec("MS-MQQB 3.1.2.3/2", "MS-MQDMPR 3.1.1.3/6")
def test_the_pauses_double_up_to_the_limit_and_begin_anew_after_success(
    alpha: Machine, net: Net
) -> None:
    alpha.send(TO_BETA, b"one")
    pauses = []
    for _ in range(9):
        link = alpha.protocol.links.link_of(alpha.outgoing(TO_BETA).number)
        assert link is not None
        assert link.retry_at_ms is not None
        pauses.append((link.retry_at_ms - net.clock.now_ms) // 1000)
        net.advance(link.retry_at_ms - net.clock.now_ms)
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    beta = net.machine("BETA", "10.0.0.2")
    beta.create(ORDERS)
    net.advance(300_000)
    assert beta.bodies(ORDERS) == [b"one"]
    beta.kill()
    alpha.send(TO_BETA, b"two")
    link = alpha.protocol.links.link_of(alpha.outgoing(TO_BETA).number)
    assert link is not None


def test_a_session_that_breaks_at_once_each_time_waits_longer_each_time(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    waits = []
    for round in range(3):
        alpha.send(TO_BETA, b"%d" % round, express=True)
        (cable,) = alpha.cables[-1:]
        cable.close()
        cable.closed = False
        cable.lose("cut")
        net.run()
        link = alpha.protocol.links.link_of(alpha.outgoing(TO_BETA).number)
        assert link is not None
        assert link.retry_at_ms is not None
        waits.append(link.retry_at_ms - net.clock.now_ms)
        net.advance(waits[-1])
    assert waits == [5_000, 10_000, 20_000]


@pytest.mark.spec("MS-MQQB 3.1.6.1/4", "MS-MQQB 3.1.4.1/1")
def test_what_was_not_acknowledged_is_sent_again_on_the_next_session(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    alpha.send(TO_BETA, b"one")
    assert alpha.outgoing(TO_BETA).state.count == 1  # its session ack is not due yet
    alpha.cables[0].lose("cut")
    beta.cables[0].lose("cut")
    alpha.send(TO_BETA, b"two")
    net.advance(20_000)
    assert beta.bodies(ORDERS) == [b"one", b"two"]
    assert alpha.outgoing(TO_BETA).state.count == 0


@pytest.mark.spec("MS-MQQB 3.1.6.1/1")
def test_the_retry_timer_does_nothing_when_no_message_is_left(alpha: Machine, net: Net) -> None:
    alpha.send(TO_BETA, b"one", time_to_reach_queue=2)
    assert len(net.connects) == 1
    net.clock.step_utc(10)
    alpha.call(lambda manager: None)
    assert alpha.outgoing(TO_BETA).state.count == 0
    net.advance(60_000)
    assert len(net.connects) == 1
    assert alpha.protocol.links.all() == []


def test_an_operator_need_not_wait_for_the_timer(alpha: Machine, net: Net) -> None:
    alpha.send(TO_BETA, b"one")
    beta = net.machine("BETA", "10.0.0.2")
    beta.create(ORDERS)
    number = alpha.outgoing(TO_BETA).number
    assert alpha.protocol.retry(number)
    net.run()
    assert beta.bodies(ORDERS) == [b"one"]


def test_there_is_nothing_to_retry_where_nothing_waits(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    alpha.send(TO_BETA, b"one")
    net.advance(900_000)
    assert not alpha.protocol.retry(alpha.outgoing(TO_BETA).number)
    assert not alpha.protocol.retry(999_999)


# -- states


@pytest.mark.spec(
    "MS-MQQB 3.1.7.12/2",
    "MS-MQQB 3.1.7.13/3",
    "MS-MQDMPR 3.1.1.3/5",
    "MS-MQDMPR 3.1.4.14/1",
    "MS-MQDMPR 3.1.7.2.3/1",
)
def test_a_paused_queue_sends_nothing(alpha: Machine, beta: Machine, net: Net) -> None:
    alpha.send(TO_BETA, b"one")
    net.advance(1_000)
    queue = alpha.outgoing(TO_BETA)
    alpha.call(lambda manager: manager.transfer.pause_queue(queue))
    alpha.send(TO_BETA, b"two")
    net.advance(1_000_000)
    assert beta.bodies(ORDERS) == [b"one"]
    assert state_of(queue) is STATE.ON_HOLD
    assert not alpha.protocol.sessions
    assert len(net.connects) == 1


@pytest.mark.spec("MS-MQQB 3.1.7.12/2", "MS-MQDMPR 3.1.1.3/6", "MS-MQDMPR 3.1.7.2.3/1")
def test_a_queue_that_is_paused_before_its_first_message_makes_no_connection(
    alpha: Machine, net: Net
) -> None:
    alpha.send(TO_BETA, b"one")
    queue = alpha.outgoing(TO_BETA)
    alpha.call(lambda manager: manager.transfer.pause_queue(queue))
    net.advance(1_000_000)
    assert len(net.connects) == 1
    assert alpha.protocol.links.all() == []


@pytest.mark.spec(
    "MS-MQQB 3.1.7.14/1",
    "MS-MQQB 3.1.7.14/2",
    "MS-MQDMPR 3.1.4.15/1",
    "MS-MQDMPR 3.1.7.2.4/1",
)
@pytest.mark.parametrize("pause_ms", [1_000, 1_000_000])
def test_a_resumed_queue_sends_what_waits(
    alpha: Machine, beta: Machine, net: Net, pause_ms: int
) -> None:
    """Over the session that is still open, or over a new one."""
    alpha.send(TO_BETA, b"one")
    net.advance(1_000)
    queue = alpha.outgoing(TO_BETA)
    alpha.call(lambda manager: manager.transfer.pause_queue(queue))
    alpha.send(TO_BETA, b"two", b"three")
    net.advance(pause_ms)
    alpha.call(lambda manager: manager.transfer.resume_queue(queue))
    net.advance(1_000)
    assert beta.bodies(ORDERS) == [b"one", b"two", b"three"]
    assert state_of(queue) is STATE.CONNECTED
    assert queue.state.count == 0


@pytest.mark.spec("MS-MQQB 3.1.7.14/1", "MS-MQDMPR 3.1.7.2.4/1")
def test_a_resumed_queue_without_messages_makes_no_connection(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    alpha.send(TO_BETA, b"one")
    queue = alpha.outgoing(TO_BETA)
    net.advance(1_000_000)
    alpha.call(lambda manager: manager.transfer.pause_queue(queue))
    alpha.call(lambda manager: manager.transfer.resume_queue(queue))
    net.advance(1_000_000)
    assert len(net.connects) == 1
    assert state_of(queue) is STATE.DISCONNECTED


@pytest.mark.spec("MS-MQQB 3.1.7.12/2", "MS-MQDMPR 3.1.1.1/17", "MS-MQDMPR 3.1.1.3/6")
def test_a_hardened_machine_sends_nothing_over_this_protocol(net: Net) -> None:
    alpha = net.machine("ALPHA", "10.0.0.1", hardened=True)
    alpha.send(TO_BETA, b"one")
    net.advance(100_000)
    assert net.connects == []


@pytest.mark.spec("MS-MQDMPR 3.1.4.12/1", "MS-MQDMPR 3.1.4.13/1")
def test_a_machine_that_is_offline_has_no_sessions_until_it_is_online(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    alpha.create(ORDERS)
    alpha.send(TO_BETA, b"one")
    alpha.call(lambda manager: manager.transfer.take_offline())
    assert not alpha.protocol.sessions
    alpha.send(TO_BETA, b"two")
    alpha.send(r"DIRECT=OS:ALPHA\private$\orders", b"local")
    beta.send(r"DIRECT=TCP:10.0.0.1\private$\orders", b"from afar")
    net.advance(1_000_000)
    assert beta.bodies(ORDERS) == [b"one"]
    assert alpha.bodies(ORDERS) == [b"local"]
    assert net.connects.count(("10.0.0.2", 1801)) == 1
    alpha.receive(r"ALPHA\private$\orders")
    assert alpha.bodies(ORDERS) == []
    alpha.call(lambda manager: manager.transfer.bring_online())
    net.advance(300_000)
    assert beta.bodies(ORDERS) == [b"one", b"two"]
    assert alpha.bodies(ORDERS) == [b"from afar"]


def test_an_idle_session_ends_and_its_link_with_it(alpha: Machine, beta: Machine, net: Net) -> None:
    alpha.send(TO_BETA, b"one")
    net.advance(599_000)
    assert alpha.protocol.sessions
    net.advance(2_000)
    assert not alpha.protocol.sessions
    assert not beta.protocol.sessions
    assert alpha.protocol.links.all() == []
    assert state_of(alpha.outgoing(TO_BETA)) is STATE.DISCONNECTED


@pytest.mark.spec("MS-MQQB 3.1.5.9/2", "MS-MQQB 3.1.5.9/4")
def test_a_session_that_ends_with_messages_left_is_opened_again_later(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    alpha.send(TO_BETA, b"one")
    queue = alpha.outgoing(TO_BETA)
    seen: list[OutgoingQueueState] = []
    queue_states(alpha, seen)
    alpha.cables[0].lose("cut")
    net.run()
    assert seen[-2:] == [STATE.DISCONNECTING, STATE.DISCONNECTED]
    assert state_of(queue) is STATE.DISCONNECTED
    link = alpha.protocol.links.link_of(queue.number)
    assert link is not None
    assert link.state is BinaryLinkState.WAITING_RECONNECT
    assert link.retry_at_ms == net.clock.now_ms + 5_000


def unread(alpha: Machine, beta: Machine, net: Net) -> None:
    """A message is sent and waits for somebody to read it; its session has ended meanwhile."""
    beta.create(r".\private$\deeds", transactional=True)
    alpha.send_in_transaction(TO_DEEDS, b"deed", positive_journaling_requested=True)
    net.advance(700_000)
    assert not alpha.protocol.sessions
    (link,) = alpha.protocol.links.all()
    assert link.is_resting


def test_another_queue_does_not_wait_with_one_that_waits_for_answers(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    unread(alpha, beta, net)
    alpha.send(TO_BETA, b"one")
    net.advance(100)
    assert beta.bodies(ORDERS) == [b"one"]


def test_a_queue_that_is_resumed_does_not_wait_with_one_that_waits_for_answers(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    alpha.send(TO_BETA, b"one")
    number = alpha.outgoing(TO_BETA).number
    alpha.call(lambda m: m.transfer.pause_queue(m.ledger.queues[number]))
    alpha.send(TO_BETA, b"two")
    unread(alpha, beta, net)
    alpha.call(lambda m: m.transfer.resume_queue(m.ledger.queues[number]))
    net.advance(100)
    assert beta.bodies(ORDERS) == [b"one", b"two"]


def test_a_queue_that_comes_to_a_pause_says_why_it_waits(alpha: Machine, net: Net) -> None:
    net.unreachable.add("10.0.0.2")
    alpha.send(TO_BETA, b"one")
    net.advance(60_000)
    alpha.send(TO_DEEDS, b"two")
    first, second = (alpha.outgoing(name).outgoing for name in (TO_BETA, TO_DEEDS))
    assert first is not None
    assert second is not None
    assert "there is no listener" in second.last_error
    assert second.retry_time == first.retry_time


def test_a_session_that_is_lost_before_it_sends_is_opened_again_soon(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    """It was quiet for long, but not because there was nothing to do."""
    alpha.send(TO_BETA, b"one")
    net.advance(250_000)
    queue, (session,) = alpha.outgoing(TO_BETA), alpha.protocol.sessions
    assert queue.state.count == 0

    def lose(numbers: Iterable[int]) -> None:
        """Before anybody is told of the message."""
        alpha.driver.on_active = alpha.protocol.active
        alpha.cables[0].lose("cut")
        alpha.protocol.active(numbers)

    alpha.driver.on_active = lose
    alpha.send(TO_BETA, b"two")
    assert not session.was_idle
    net.advance(6_000)
    assert beta.bodies(ORDERS) == [b"one", b"two"]


def test_a_session_that_is_lost_as_soon_as_it_is_open_was_not_idle(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    net.advance(3_600_000)
    alpha.protocol.on_event = lambda event: setattr(alpha.cables[-1], "writable", False)
    alpha.send(TO_BETA, b"one")
    alpha.protocol.on_event = lambda event: None
    alpha.cables[-1].lose("cut")
    net.run()
    outgoing = alpha.outgoing(TO_BETA).outgoing
    assert outgoing is not None
    assert outgoing.last_error == "cut"
    net.advance(6_000)
    assert beta.bodies(ORDERS) == [b"one"]


@pytest.mark.spec("MS-MQQB 3.1.5.4.2/3", "MS-MQQB 3.1.5.9/2", "MS-MQQB 3.1.5.9/4")
def test_a_paused_queue_stays_on_hold_whatever_its_session_does(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    other = r"DIRECT=TCP:10.0.0.2\private$\other"
    net.unreachable.add("10.0.0.2")
    alpha.send(TO_BETA, b"one")
    alpha.send(other, b"two")
    paused = alpha.outgoing(other)
    alpha.call(lambda manager: manager.transfer.pause_queue(paused))
    net.unreachable.clear()
    net.advance(5_000)
    assert state_of(alpha.outgoing(TO_BETA)) is STATE.CONNECTED
    assert state_of(paused) is STATE.ON_HOLD
    assert STATUS.ESTABLISHED not in statuses(paused)
    net.advance(1_000)  # everything is acknowledged
    alpha.cables[0].lose("cut")
    net.run()
    assert state_of(paused) is STATE.ON_HOLD
    assert alpha.protocol.links.all() == []


# -- start and stop


@pytest.mark.spec("MS-MQQB 3.1.4.1/1", "MS-MQDMPR 3.1.1.3/6")
def test_a_restart_connects_for_what_the_store_kept(net: Net) -> None:
    alpha = net.machine("ALPHA", "10.0.0.1")
    alpha.send(TO_BETA, b"one")
    beta = net.machine("BETA", "10.0.0.2")
    beta.create(ORDERS)
    net.connects.clear()
    alpha.restart()
    assert net.connects == [("10.0.0.2", 1801)]
    assert beta.bodies(ORDERS) == [b"one"]


@pytest.mark.spec("MS-MQQB 3.1.3.2/4", "MS-MQQB 3.1.1.1.1.1/3")
def test_a_restart_connects_once_for_a_destination_and_then_waits(net: Net) -> None:
    alpha = net.machine("ALPHA", "10.0.0.1")
    alpha.send(TO_BETA, b"one")
    alpha.send(r"DIRECT=TCP:10.0.0.2\private$\other", b"two")
    net.connects.clear()
    alpha.restart()
    assert net.connects == [("10.0.0.2", 1801)]
    (link,) = alpha.protocol.links.all()
    assert link.state is BinaryLinkState.WAITING_RECONNECT
    net.advance(5_000)
    assert net.connects == 2 * [("10.0.0.2", 1801)]


@pytest.mark.spec("MS-MQQB 3.1.4.2/1")
def test_a_stop_closes_every_session_without_a_word(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    alpha.send(TO_BETA, b"one")
    beta.send(r"DIRECT=TCP:10.0.0.1\private$\none", b"two")
    net.advance(1_000)  # everything is acknowledged
    sent = [len(cable.sent) for cable in beta.cables]
    sessions = list(beta.protocol.sessions)
    assert {session.role for session in sessions} == {Role.INITIATOR, Role.ACCEPTOR}
    beta.stop()
    assert [len(cable.sent) for cable in beta.cables] == sent
    assert {session.state for session in sessions} == {SessionState.CLOSED}
    assert not beta.protocol.sessions
    assert beta.protocol.next_deadline_ms() is None
    net.advance(100_000)
    assert not beta.protocol.sessions


def test_a_stop_acknowledges_what_is_safe(alpha: Machine, beta: Machine, net: Net) -> None:
    alpha.send(TO_BETA, b"one")
    assert alpha.outgoing(TO_BETA).state.count == 1
    beta.stop()
    assert alpha.outgoing(TO_BETA).state.count == 0
    assert beta.bodies(ORDERS) == [b"one"]


def test_nothing_is_begun_after_a_stop(alpha: Machine, net: Net) -> None:
    alpha.send(TO_BETA, b"one")
    alpha.stop()
    alpha.protocol.active([alpha.outgoing(TO_BETA).number])
    net.advance(100_000)
    assert len(net.connects) == 1


# -- pings


@pytest.mark.spec("MS-MQQB 2.1/1", "MS-MQQB 2.1.2/1")
def test_nobody_is_pinged_unless_a_setting_says_so(alpha: Machine, beta: Machine, net: Net) -> None:
    alpha.send(TO_BETA, b"one")
    assert net.pings == []
    assert beta.bodies(ORDERS) == [b"one"]


@pytest.fixture
def asker(net: Net) -> Machine:
    return net.machine("ASKER", "10.0.0.7", ping=PingSettings(first=True))


@pytest.mark.spec("MS-MQQB 3.1.5.2/1", "MS-MQQB 3.1.5.2.2/2")
def test_a_ping_goes_ahead_of_a_session_where_a_setting_says_so(
    asker: Machine, beta: Machine, net: Net
) -> None:
    net.names["beta"] = ["10.0.0.2"]
    asker.send(r"DIRECT=OS:beta\private$\orders", b"one")
    assert [address for address, _ in net.pings] == ["10.0.0.2"]
    assert beta.bodies(ORDERS) == [b"one"]
    (session,) = asker.protocol.sessions
    assert session.pinged


@pytest.mark.spec("MS-MQQB 3.1.3.2/17")
def test_cookies_go_on_from_session_to_session(asker: Machine, beta: Machine, net: Net) -> None:
    for _ in range(3):
        asker.send(TO_BETA, b"one")
        net.advance(900_000)
        assert not asker.protocol.sessions
    assert [read_ping(datagram).cookie for _, datagram in net.pings] == [1, 2, 3]


@pytest.mark.spec("MS-MQQB 3.1.5.2.2/3", "MS-MQQB 3.1.5.2.2/1", "MS-MQQB 2.1/1")
@pytest.mark.spec("MS-MQQB 3.1.1.1.1.1/3")
def test_a_silent_peer_is_connected_to_by_the_retry_without_a_ping(
    asker: Machine, net: Net
) -> None:
    silent = net.machine("BETA", "10.0.0.2", ping=PingSettings(answer=False))
    silent.create(ORDERS)
    asker.send(TO_BETA, b"one")
    net.advance(1_000)
    queue = asker.outgoing(TO_BETA)
    assert statuses(queue) == [STATUS.PING_FAILURE]
    assert history(queue)[0].next_hops == ("IP=10.0.0.2",)
    assert net.connects == []
    (link,) = asker.protocol.links.all()
    assert link.state is BinaryLinkState.WAITING_RECONNECT
    net.advance(5_000)
    assert silent.bodies(ORDERS) == [b"one"]
    assert len(net.pings) == 1
    (session,) = asker.protocol.sessions
    assert not session.pinged


@pytest.mark.spec("MS-MQQB 3.1.7.7/2", "MS-MQQB 3.1.5.2.2/3")
def test_a_machine_that_takes_no_sessions_says_so_to_a_ping(
    asker: Machine, beta: Machine, net: Net
) -> None:
    beta.call(lambda manager: manager.transfer.take_offline())
    asker.send(TO_BETA, b"one")
    assert statuses(asker.outgoing(TO_BETA)) == [STATUS.PING_FAILURE]
    beta.call(lambda manager: manager.transfer.bring_online())
    net.advance(5_000)
    assert beta.bodies(ORDERS) == [b"one"]


# -- late answers


def test_a_connection_that_nobody_wants_any_more_gets_no_session(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    net.names["beta"] = ["10.0.0.2"]
    name = r"DIRECT=OS:beta\private$\orders"
    opened = alpha.manager.queues.collection
    alpha.desk.decide(
        lambda manager: opened.sending_target(parse_format_name(name)), lambda answer: None
    )
    net.run()
    queue = alpha.outgoing(name)
    alpha.call(lambda manager: manager.transfer.pause_queue(queue))
    alpha.send(name, b"one")
    alpha.desk.decide(lambda manager: manager.transfer.resume_queue(queue), lambda answer: None)
    alpha.desk.settle()  # the name is being resolved
    link = alpha.protocol.links.link_of(queue.number)
    assert link is not None
    assert link.state is BinaryLinkState.RESOLVING
    alpha.desk.decide(lambda manager: manager.transfer.pause_queue(queue), lambda answer: None)
    net.run()
    assert net.connects == []
    assert not alpha.protocol.sessions
