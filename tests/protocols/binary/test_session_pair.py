"""Two sessions back to back: whatever the pieces, pauses and cuts, everything arrives once."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.protocols.binary.order_acks import OrderAckTimers
from posthouse.protocols.binary.session import BinarySession, Role
from posthouse.sim.clock import SimClock
from tests.engine.rig import START_UTC
from tests.protocols.binary.session_rig import SETTINGS, UPTIME_MS, End, Machine, Party

FAR, LEDGER = r"DIRECT=OS:BETA\private$\orders", r"DIRECT=OS:BETA\private$\ledger"
ROUNDS_MAX = 200


class Receiver(Party):
    """A host that lets order acknowledgments be sent on its session."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        self.timers = OrderAckTimers(SETTINGS)

    def sequences_touched(
        self, session: BinarySession, sequences: tuple[tuple[int, bytes], ...]
    ) -> None:
        self.timers.touched(session, sequences, self.machine.clock.now_ms)

    def closed(self, session: BinarySession, reason: str) -> None:
        super().closed(session, reason)
        self.timers.forget(session)

    def tick(self) -> None:
        for queue, source in self.timers.due(self.machine.clock.now_ms):
            self.machine.desk.decide(
                lambda manager, key=(queue, source): manager.transfer.send_order_ack(*key),
                lambda answer: None,
            )


class World:
    """ALPHA sends, BETA receives; ALPHA connects again after each cut."""

    def __init__(self) -> None:
        clock = SimClock(now_ms=UPTIME_MS, utc_seconds=START_UTC)
        self.alpha, self.beta = Machine("ALPHA", clock), Machine("BETA", clock)
        self.beta.create("orders")
        self.beta.create("ledger", transactional=True)
        self.transactions = 0
        self.connect()

    def connect(self) -> None:
        self.there, self.back = bytearray(), bytearray()
        self.sender = End(self.alpha, Role.INITIATOR, direct=True)
        self.receiver = End(self.beta)
        self.receiver.session._host = self.host = Receiver(self.beta)
        for end in (self.sender, self.receiver):
            end.session.connected()
        for number in self._outgoing(self.alpha):
            self.sender.session.attach(number)

    def _outgoing(self, machine: Machine) -> list[int]:
        return [queue.number for queue in machine.manager.queues.collection.outgoing_queues()]

    # -- steps

    def send(self, kind: str, body: bytes) -> None:
        if kind == "transactional":
            self.transactions += 1
            tx = self.alpha.begin(f"t{self.transactions}")
            self.alpha.send(LEDGER, body, tx=tx)
            self.alpha.commit(tx)
        else:
            self.alpha.send(FAR, body, recoverable=kind == "recoverable")
        self._attach_active()

    def _attach_active(self) -> None:
        for end in (self.sender, self.receiver):
            outgoing = set(self._outgoing(end.machine))
            active, end.machine.active = end.machine.active, set()
            end.machine.driver.on_active = end.machine.active.update
            for number in active & outgoing:
                end.session.attach(number)

    def settle(self) -> None:
        for end, way in ((self.sender, self.there), (self.receiver, self.back)):
            end.settle()
            way += end.line.take()
        self._attach_active()

    def carry(self, size_there: int, size_back: int) -> None:
        data = bytes(self.there[:size_there])
        del self.there[:size_there]
        self.receiver.session.receive(data)
        data = bytes(self.back[:size_back])
        del self.back[:size_back]
        self.sender.session.receive(data)

    def pass_time(self, milliseconds: int) -> None:
        self.alpha.clock.advance(milliseconds)
        for end in (self.sender, self.receiver):
            end.session.tick()
        self.host.tick()

    def hold(self) -> None:
        """The queues are paused."""
        for number in self._outgoing(self.alpha):
            self.sender.session.detach(number)

    def go_on(self) -> None:
        for number in self._outgoing(self.alpha):
            self.sender.session.attach(number)

    def cut(self, *, sync: bool) -> None:
        """Both ends lose the connection; what was under way is gone."""
        if sync:
            self.settle()
        for end in (self.sender, self.receiver):
            end.session.lost("cut")
            end.settle()
        self.connect()

    def finish(self) -> None:
        """Lets everything come to its end."""
        self.go_on()
        for _ in range(ROUNDS_MAX):
            assert not self.sender.host.refusals
            assert not self.host.refusals
            if not self.sender.session.is_open and self.sender.line.closed:
                self.connect()
            self.settle()
            self.carry(1 << 30, 1 << 30)
            self.settle()
            if not self.there and not self.back:
                if not self.left():
                    return
                self.pass_time(600)
        raise AssertionError(f"still there: {self.left()}")

    def left(self) -> int:
        queues = self.alpha.manager.queues.collection.outgoing_queues()
        return sum(queue.state.count for queue in queues)


KINDS = st.sampled_from(["express", "recoverable", "transactional"])
SIZES = st.one_of(st.integers(0, 40), st.integers(0, 4_000), st.just(1 << 30))
STEPS = st.one_of(
    st.tuples(st.just("send"), st.lists(KINDS, min_size=1, max_size=50)),
    st.tuples(st.just("carry"), SIZES, SIZES),
    st.tuples(st.just("settle")),
    st.tuples(st.just("time"), st.integers(0, 12_000)),
    st.tuples(st.just("cut"), st.booleans()),
    st.tuples(st.sampled_from(["hold", "go on"])),
)
SMOOTH = STEPS.filter(lambda step: step[0] in ("send", "carry", "settle"))


def run(world: World, steps: list[tuple[Any, ...]]) -> tuple[list[bytes], list[bytes]]:
    """Takes the steps; returns what was sent into the plain and the transactional queue."""
    plain: list[bytes] = []
    ledger: list[bytes] = []
    for step in steps:
        match step:
            case "send", kinds:
                for kind in kinds:
                    body = b"%s %d" % (kind.encode(), len(plain) + len(ledger))
                    (ledger if kind == "transactional" else plain).append(body)
                    world.send(kind, body)
            case "carry", there, back:
                world.carry(there, back)
            case ("settle",):
                world.settle()
            case "time", milliseconds:
                world.pass_time(milliseconds)
            case "cut", sync:
                world.cut(sync=sync)
            case ("hold",):
                world.hold()
            case ("go on",):
                world.go_on()
    return plain, ledger


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=25))
def test_everything_arrives_once_whatever_happens_to_the_connection(
    steps: list[tuple[Any, ...]],
) -> None:
    world = World()
    plain, ledger = run(world, steps)
    world.finish()
    assert sorted(world.beta.bodies("orders")) == sorted(plain)
    assert world.beta.bodies("ledger") == ledger, "in order"
    world.alpha.check_books()
    world.beta.check_books()


@settings(max_examples=30)
@given(st.lists(SMOOTH, max_size=25))
def test_without_cuts_one_session_is_enough_and_nothing_is_sent_twice(
    steps: list[tuple[Any, ...]],
) -> None:
    world = World()
    first = world.sender.session
    plain, ledger = run(world, steps)
    world.finish()
    assert world.sender.session is first
    assert first.messages_out == len(plain) + len(ledger)
    assert world.receiver.session.messages_in == first.messages_out
    assert first.sent.in_flight == first.sent.unacknowledged == 0


def test_messages_pass_the_end_of_the_numbers_between_real_sessions() -> None:
    world = World()
    world.settle()
    for _ in range(8):
        world.carry(1 << 30, 1 << 30)
        world.settle()
    sent, received = world.sender.session.sent, world.receiver.session.received
    for counts in (sent, received):
        counts.total = counts.recoverable = 65_520
    sent.acknowledged = 65_520
    received.safe = received.told = 65_520
    received.recoverable_safe = received.recoverable_told = 65_520
    for number in range(100):
        world.send("recoverable" if number % 3 else "express", b"%d" % number)
    world.finish()
    assert sorted(map(int, world.beta.bodies("orders"))) == list(range(100))
    assert sent.total == 65_620
    assert not world.host.told.count("closed")
