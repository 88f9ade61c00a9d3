"""What is sent next, on the way that messages really go ([MS-MQDMPR] 3.1.7.1.28-34, 3.1.7.3.9).

The priority of a message on its way is its own plus the base priority of its outgoing queue.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.directory.objects import QueueManager as MachineEntry
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import OutgoingQueueState, Queue
from posthouse.model.enumerations import QueueAccessType
from posthouse.model.guids import format_guid
from posthouse.model.message import Message
from posthouse.protocols.binary.sending import Fetched, SendingQueues, TakenMessages
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.wire.packet.message import deserialize
from tests.engine.cost import steps
from tests.engine.letters import PostRig
from tests.engine.settings import changed
from tests.protocols.binary.memory_net import ADMIN, Machine, Net
from tests.protocols.binary.session_rig import ack
from tests.support.sending_end import SendingEnd, bits, numbered

STATE = OutgoingQueueState
RECEIVE_ADMIN = QueueAccessType.RECEIVE_ADMIN
FIRST, SECOND = r"DIRECT=TCP:10.0.0.2\private$\first", r"DIRECT=TCP:10.0.0.2\private$\second"
HERE = r".\private$\orders"
EVERYTHING = 1 << 30


def set_base(machine: Any, name: str, base_priority: int) -> None:
    """As if the directory had said so when the outgoing queue was made."""
    queue = machine.manager.ledger.queues[number_of(machine, name)]
    machine.manager.queues.collection.change_definition(queue, base_priority=base_priority)


def number_of(machine: Any, name: str) -> int:
    return next(q.number for q in machine.manager.queues.outgoing_queues() if q.name == name)


# -- the highest priority first


class Line(PostRig):
    """The outgoing queues of one session, and what it takes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.queues = SendingQueues(BinarySettings())

    def post(self, name: str, *priorities: int) -> None:
        for priority in priorities:
            self.send(name, b"%d" % priority, priority=priority)
        self.queues.attach(number_of(self, name))

    def base(self, name: str, base_priority: int) -> None:
        self.run(lambda m: set_base(self, name, base_priority))

    def take(self, count: int = 1000, size: int = EVERYTHING) -> list[TakenMessages]:
        return self.run(lambda m: self.queues.take(m, count, size, 0))

    def taken(self, count: int = 1000, size: int = EVERYTHING) -> list[tuple[str, int]]:
        """Name of the queue and priority of each message, in the order of sending."""
        names = self.manager.ledger.queues
        return [
            (names[one.queue.number].name, deserialize(packet).priority)
            for one in self.take(count, size)
            for packet in one.packets
        ]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.28/1", "MS-MQDMPR 3.1.7.3.9/2", "MS-MQDMPR 3.1.1.18/1")
@pytest.mark.parametrize("count", [1, 2, 1000])
def test_base_priority_and_message_priority_are_added(count: int) -> None:
    line = Line()
    line.post(FIRST, 3, 7, 0)
    line.post(SECOND, 5, 3, 1)
    line.base(SECOND, 3)
    sent: list[tuple[str, int]] = []
    while some := line.taken(count):
        sent += some
    assert sent == [
        (SECOND, 5),  # 8
        (FIRST, 7),
        (SECOND, 3),  # 6
        (SECOND, 1),  # 4
        (FIRST, 3),
        (FIRST, 0),
    ]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.28/1", "MS-MQDMPR 3.1.7.3.9/2")
def test_a_queue_of_higher_base_priority_is_emptied_first() -> None:
    line = Line()
    line.post(FIRST, 7, 7, 7)
    line.post(SECOND, 0, 0, 0)
    line.base(FIRST, -1000)
    line.base(SECOND, 1000)
    assert line.taken(2) == 2 * [(SECOND, 0)]
    line.post(SECOND, 7)
    assert line.taken() == [(SECOND, 7), (SECOND, 0)] + 3 * [(FIRST, 7)]


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.9/2")
def test_a_large_message_is_not_overtaken_for_want_of_room() -> None:
    line = Line()
    line.send(FIRST, bytes(100))
    line.send(FIRST, bytes(9_000))
    line.post(SECOND, 3)
    line.base(FIRST, 1)
    line.queues.attach(number_of(line, FIRST))
    assert line.taken(size=5_000) == [(FIRST, 3)]
    assert line.taken() == [(FIRST, 3), (SECOND, 3)]


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.9/2")
@pytest.mark.parametrize("end", ["purged", "expired", "received"])
def test_what_has_ended_is_skipped_and_lends_its_queue_no_priority(end: str) -> None:
    """Also where it lives on, in a dead-letter queue."""
    line = Line()
    line.send(
        FIRST, b"gone", priority=7, time_to_reach_queue=10, negative_journaling_requested=True
    )
    if end == "purged":
        reader = line.open(FIRST, RECEIVE_ADMIN)
        line.queues.attach(number_of(line, FIRST))
        line.run(lambda m: m.queues.purge_queue(reader))
    line.post(FIRST, 1)
    line.post(SECOND, 4)
    if end == "expired":
        line.advance(11)
    elif end == "received":
        line.receive(line.open(FIRST, RECEIVE_ADMIN))
    assert line.taken() == [(SECOND, 4), (FIRST, 1)]


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.9/2")
@pytest.mark.parametrize("state", [s for s in STATE if s is not STATE.CONNECTED])
def test_a_queue_that_may_not_send_holds_up_no_other(state: OutgoingQueueState) -> None:
    line = Line()
    line.post(FIRST, 7)
    line.post(SECOND, 3)
    line.base(FIRST, 1000)
    assert line.taken(1) == [(FIRST, 7)]
    line.post(FIRST, 7)
    (queue,) = [q for q in line.manager.queues.outgoing_queues() if q.name == FIRST]
    assert queue.outgoing is not None
    queue.outgoing.state = state
    assert line.taken() == [(SECOND, 3)]


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.9/2")
def test_what_is_under_way_lends_its_queue_no_priority() -> None:
    line = Line()
    line.post(FIRST, 7)
    assert line.taken() == [(FIRST, 7)]
    line.post(FIRST, 1)
    line.post(SECOND, 4)
    assert line.taken() == [(SECOND, 4), (FIRST, 1)]


def test_one_urgent_message_does_not_give_the_others_of_its_queue_a_turn() -> None:
    line = Line()
    line.post(SECOND, 3, 3)
    assert line.taken(1) == [(SECOND, 3)]
    line.post(FIRST, 3, 3, 7)
    assert line.taken(2) == [(FIRST, 7), (SECOND, 3)]
    assert line.taken() == 2 * [(FIRST, 3)]


def test_a_queue_that_is_detached_before_its_turn_gives_nothing() -> None:
    line = Line()
    line.post(FIRST, 3)
    assert line.queues.detach(number_of(line, FIRST), Fetched())
    assert not line.queues.wait
    assert line.taken() == []


def test_a_message_that_is_free_again_goes_by_its_priority() -> None:
    line = Line()
    line.post(FIRST, 2)
    reader = line.open(FIRST, RECEIVE_ADMIN)
    assert (
        line.driver.read(lambda m: m.messages.dequeue_message(reader, timeout_ms=0, two_phase=True))
        is not None
    )
    assert line.taken() == []
    line.close(reader)
    line.post(FIRST, 5)
    line.post(SECOND, 3)
    assert line.taken() == [(FIRST, 5), (SECOND, 3), (FIRST, 2)]


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("post"), st.integers(0, 2), st.integers(0, 7)),
        st.tuples(st.just("take"), st.integers(1, 4), st.just(0)),
    ),
    max_size=30,
)


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.9/1", "MS-MQDMPR 3.1.7.3.9/2", "MS-MQDMPR 3.1.7.1.28/1")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([-9, -1, 0, 0, 0, 2, 1000]), min_size=3, max_size=3), ACTIONS)
def test_each_message_is_taken_once_and_none_before_a_higher_one(
    bases: list[int], actions: list[tuple[str, int, int]]
) -> None:
    line, waiting, seen = Line(), [[0], [0], [0]], set()
    names = [rf"DIRECT=TCP:10.0.0.2\private$\q{n}" for n in range(3)]
    for name, base in zip(names, bases, strict=True):
        line.post(name, 0)
        line.base(name, base)
    for action, which, priority in [*actions, ("take", 1000, 0)]:
        if action == "post":
            line.post(names[which], priority)
            waiting[which].append(priority)
            continue
        for one in line.take(which):
            at = names.index(line.manager.ledger.queues[one.queue.number].name)
            for message in one.messages:
                assert message.number not in seen
                seen.add(message.number)
                sent = deserialize(message.packet).priority
                highest = max(b + p for b, some in zip(bases, waiting, strict=True) for p in some)
                assert bases[at] + sent == highest
                waiting[at].remove(sent)
    assert waiting == [[], [], []]


@pytest.mark.spec("MS-MQDMPR 3.1.1.18/1", "MS-MQDMPR 3.1.7.3.9/1", "MS-MQDMPR 3.1.7.1.28/2")
def test_what_is_being_sent_is_marked_and_known_by_queue_and_number() -> None:
    line = Line()
    line.post(FIRST, 3, 3)
    (queue,) = line.manager.queues.outgoing_queues()
    numbers = [number for _, number in queue.state.order.forward()]

    def in_flight() -> list[bool]:
        rows = [line.manager.messages.row(number) for number in numbers]
        transfer = line.manager.transfer.outgoing
        return [
            transfer.is_in_flight(queue, number, row)
            for number, row in zip(numbers, rows, strict=True)
        ]

    assert in_flight() == [False, False]
    (one,) = line.take(1)
    assert (one.queue.number, one.messages[0].number) == (queue.number, numbers[0])
    assert in_flight() == [True, False]
    line.queues.attach(queue.number)
    (two,) = line.take()
    assert [message.number for message in two.messages] == numbers[1:]
    assert line.take() == []


def test_a_turn_costs_the_same_however_many_equal_queues_wait() -> None:
    def cost(queues: int) -> int:
        line = Line()
        for number in range(queues):
            line.post(rf"DIRECT=TCP:10.0.0.2\private$\q{number}", 3, 3)
        line.run(lambda m: line.queues.take(m, 1, EVERYTHING, 0))  # sorts them in
        return line.run(lambda m: steps(lambda: line.queues.take(m, 1, EVERYTHING, 0)))

    assert cost(400) <= cost(10) + 20


# -- entries come and go


def two_queues() -> tuple[SendingEnd, int, int]:
    end = SendingEnd()
    first = end.put(*numbered(1, 20), to=FIRST)
    second = end.put(*numbered(101, 120), to=SECOND)
    return end, first, second


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.34/1")
def test_all_that_a_queue_has_in_line_goes_at_once_and_others_stay() -> None:
    """Also what was taken ahead of the window."""
    end, first, second = two_queues()
    end.machine.run(lambda m: set_base(end.machine, FIRST, 1))
    end.open(window=4)
    end.attach(first, second)
    assert end.bodies_sent() == numbered(1, 4)
    assert end.bytes_ahead > 0
    end.session.detach(first)
    assert end.bytes_ahead == 0
    end.receive(ack(upto=4, base=1, flags=bits(4), window=4))
    assert end.bodies_sent() == numbered(101, 104)
    assert end.waiting(FIRST) == numbered(5, 20)
    end.attach(first)
    end.receive(ack(upto=8, base=5, flags=bits(4), window=40))
    assert [body for body in end.bodies_sent() if len(body) < 3] == numbered(5, 20)


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def alpha(net: Net) -> Machine:
    return net.machine("ALPHA", "10.0.0.1")


@pytest.fixture
def beta(net: Net, alpha: Machine) -> Machine:
    made = net.machine("BETA", "10.0.0.2")
    made.create(HERE, transactional=True)
    made.create(r".\private$\first")
    return made


TO_BETA = r"DIRECT=TCP:10.0.0.2\private$\orders"


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.28/2")
def test_a_commit_puts_messages_in_line_and_they_go_at_once(
    net: Net, alpha: Machine, beta: Machine
) -> None:
    """All of a transaction or nothing, and without a timer."""
    alpha.send_in_transaction(TO_BETA, b"0")
    identifier = b"t" * 16

    def begin(manager: QueueManager) -> None:
        transaction = manager.transactions.create_transaction(identifier)
        opened = manager.queues.open_queue(TO_BETA, QueueAccessType.SEND, ADMIN)
        for body in (b"1", b"2"):
            manager.messages.enqueue_message_to_an_open_queue(
                opened, Message(body=body), transaction
            )
        manager.queues.close_queue(opened)

    alpha.call(begin)
    assert beta.bodies(HERE) == [b"0"]
    alpha.call(lambda manager: manager.transactions.transaction_commit(identifier))
    assert beta.bodies(HERE) == [b"0", b"1", b"2"]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.29/1")
@pytest.mark.parametrize("taken", [True, False])
def test_the_end_of_a_message_lets_the_next_one_go(
    net: Net, alpha: Machine, beta: Machine, taken: bool
) -> None:
    """An operator holds the first message of a sequence, which nothing may overtake."""
    alpha.call(lambda manager: manager.transfer.take_offline())
    alpha.send_in_transaction(TO_BETA, b"1", b"2")
    opened = alpha.call(lambda m: m.queues.open_queue(TO_BETA, RECEIVE_ADMIN, ADMIN))
    held = alpha.driver.read(
        lambda m: m.messages.dequeue_message(opened, timeout_ms=0, two_phase=True)
    )
    assert held is not None
    alpha.call(lambda manager: manager.transfer.bring_online())
    net.advance(1_000)
    assert beta.bodies(HERE) == []
    sessions = list(alpha.protocol.sessions)
    alpha.call(
        lambda m: m.messages.dequeue_message_end(opened, held.read.lookup_id, positive=taken)
    )
    assert beta.bodies(HERE) == ([b"2"] if taken else [b"1", b"2"])
    assert list(alpha.protocol.sessions) == sessions != []


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.29/1")
def test_an_acknowledgment_for_what_is_gone_harms_nobody() -> None:
    end = SendingEnd()
    number = end.put(*numbered(1, 4))
    end.open(window=4)
    end.attach(number)
    reader = end.machine.open(end.machine.manager.ledger.queues[number].name, RECEIVE_ADMIN)
    end.machine.run(lambda m: m.queues.purge_queue(reader))
    assert end.waiting() == []
    end.receive(ack(upto=4, base=1, flags=bits(4), window=4))
    assert end.session.is_open
    end.machine.send(end.machine.manager.ledger.queues[number].name, b"9")
    end.attach(number)
    assert end.bodies_sent() == [*numbered(1, 4), b"9"]


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.9/3")
def test_a_stalled_destination_stops_nobody_else(net: Net, alpha: Machine, beta: Machine) -> None:
    """O13: the document lets one send at a time stop the whole machine."""
    gamma = net.machine("GAMMA", "10.0.0.3")
    gamma.create(HERE)
    alpha.send(FIRST, b"one")
    (stalled,) = alpha.cables
    stalled.writable = False
    alpha.send(FIRST, b"two")
    alpha.send(r"DIRECT=TCP:10.0.0.3\private$\orders", b"three")
    net.advance(100)
    assert beta.bodies(r".\private$\first") == [b"one"]
    assert gamma.bodies(HERE) == [b"three"]


# -- end to end: what the destination has in its directory entry


def public_name(queue: Queue) -> str:
    return f"PUBLIC={format_guid(queue.definition.identifier)}"


def publish(at: Machine, by: Machine, *queues: Queue) -> None:
    """The directory of one machine learns of another and its public queues."""

    def run(manager: QueueManager) -> None:
        service, core = manager.directory.service, manager.ledger
        entry = MachineEntry(identifier=by.manager.machine.identifier, computer_name=by.name)
        values = [entry, *(by.manager.directory.queues.object_of(q.definition) for q in queues)]
        for value in values:
            service.create_directory_object(value, core.now_ms, core.utc)

    at.call(run)


@pytest.mark.spec(
    "MS-MQDMPR 3.1.7.1.28/1", "MS-MQDMPR 3.1.7.3.9/2", "MS-MQQB 3.1.7.16/1", "MS-MQDMPR 3.1.1.18/1"
)
@pytest.mark.parametrize("restart", [False, True])
def test_the_urgent_queue_arrives_before_the_backlog_of_the_other(
    net: Net, alpha: Machine, restart: bool
) -> None:
    """Two machines; base priority is what the destination's entry in the directory has."""
    beta = net.machine("BETA", "10.0.0.2")
    slow = beta.create(r".\slow", base_priority=-1000)
    plain = beta.create(r".\plain")
    urgent = beta.create(r".\urgent", base_priority=1000)
    publish(alpha, beta, slow, plain, urgent)
    net.unreachable.add("10.0.0.2")
    backlog = numbered(1, 200)
    alpha.send(public_name(slow), *backlog, priority=7)
    alpha.send(public_name(plain), b"plain")
    alpha.send(public_name(urgent), b"urgent 1", b"urgent 2", priority=0)
    if restart:
        alpha.restart()
    net.unreachable.clear()
    net.advance(10_000)
    assert beta.bodies(r".\slow") == backlog
    arrived = [
        (place.lookup_id, queue.definition.label or queue.definition.pathname)
        for queue in (slow, plain, urgent)
        for place, _ in queue.state.order.forward()
    ]
    order = [name for _, name in sorted(arrived)]
    assert order == 2 * [r"BETA\urgent"] + [r"BETA\plain"] + 200 * [r"BETA\slow"]


# -- when a queue may send at all


@pytest.mark.spec("MS-MQDMPR 3.1.3/18", "MS-MQDMPR 3.1.3/19")
def test_hardened_mode_begins_and_ends_with_a_start(net: Net, alpha: Machine) -> None:
    alpha.send(TO_BETA, b"one")
    assert len(net.connects) == 1
    beta = net.machine("BETA", "10.0.0.2")
    beta.create(HERE)
    plain = alpha.engine
    alpha.engine = hardened(alpha)
    alpha.restart()
    net.advance(1_000_000)
    assert alpha.outgoing(TO_BETA).outgoing.state is STATE.LOCKED  # type: ignore[union-attr]
    assert (len(net.connects), beta.bodies(HERE)) == (1, [])
    alpha.engine = plain
    alpha.kill()
    net.unreachable.add("10.0.0.2")
    alpha.restart()
    net.unreachable.clear()
    net.advance(5_000)
    assert beta.bodies(HERE) == [b"one"]


def hardened(machine: Machine) -> Any:
    return changed(machine.engine, hardened=True)
