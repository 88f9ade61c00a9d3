"""Client and server of ours over a connection that dies at every step.

Nothing is ever lost. What is seen twice, or seen and still there, says that it is in doubt, and
nothing else does (decision 42). Every run is the same each time it is made: the client's own code
runs on lines in memory, on a real engine and a simulated disk.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import posthouse
from posthouse import IoTimeout
from posthouse.client.errors import ClientConnectionError
from posthouse.client.msmq import RemoteQueueManager
from posthouse.client.remote import state as remote_state
from posthouse.client.remote.reader import RemoteReader
from posthouse.engine.manager import QueueManager
from posthouse.model.errors import MessageNotFound
from posthouse.protocols.remote_read.open_queues import QueueContext
from posthouse.protocols.remote_read.settings import MinimumAuthentication
from posthouse.rpc import client as rpc_client
from posthouse.security.accounts import Door
from posthouse.security.nt_hash import nt_hash
from posthouse.security.rights import QUEUE_GENERIC_ALL
from posthouse.security.sids import ADMINISTRATORS, ANONYMOUS
from posthouse.sim import SimDisk
from posthouse.sim.disk import Policy, SimFile
from tests.conftest import Dose
from tests.protocols.remote_read.lines import IDLE_MS, MortalDesk, Net, Noticed, Server
from tests.protocols.remote_read.rights import grant
from tests.store.faults.world import World

ORDERS, LATER = r"private$\orders", r"private$\orders;later"
BODIES = [b"one", b"two, and more than one fragment".ljust(2000, b"."), b"three"]
FRAGMENT = 1432
PATIENCE = 12  # questions in a row that fail
WINDOW = 2
PASSWORD = "a reader's password"


class Sightings:
    """What an application got."""

    def __init__(self) -> None:
        self.messages: list[posthouse.Message] = []
        self.at_once: list[bool] = []  # whether it was told so in the very moment

    def add(self, *messages: posthouse.Message) -> None:
        self.messages += messages
        self.at_once += [message.in_doubt for message in messages]

    def of(self, body: bytes) -> list[tuple[bool, bool]]:
        """Each time it was seen: in doubt by now, and in doubt when it came."""
        pairs = zip(self.messages, self.at_once, strict=True)
        return [(message.in_doubt, at_once) for message, at_once in pairs if message.body == body]


Work = Callable[[RemoteQueueManager, Sightings], None]


def again(step: Callable[[], object]) -> None:
    """An application that asks again whatever happens, until there is nothing more."""
    failures = 0
    while failures < PATIENCE:
        try:
            step()
        except IoTimeout:
            return
        except (ClientConnectionError, MessageNotFound):  # a lost connection may hold it still
            failures += 1
    raise AssertionError("the client does not come on")


def one_by_one(far: RemoteQueueManager, seen: Sightings) -> None:
    queue = far.queue(ORDERS)
    again(lambda: seen.add(queue.receive(0)))


def in_batches(far: RemoteQueueManager, seen: Sightings) -> None:
    queue = far.queue(ORDERS)
    again(lambda: seen.add(*queue.receive_many(2, 0)))


def by_lookup(far: RemoteQueueManager, seen: Sightings) -> None:
    queue = far.queue(ORDERS)
    again(lambda: seen.add(queue.lookup(queue.peek(0).lookup_id, receive=True)))


def by_cursor(far: RemoteQueueManager, seen: Sightings) -> None:
    def step() -> None:
        with far.queue(ORDERS).cursor(receiving=True) as cursor:
            cursor.peek(0)
            seen.add(cursor.receive(0))

    again(step)


def read_ahead(far: RemoteQueueManager, seen: Sightings) -> None:
    far._reading.prefetch = WINDOW
    one_by_one(far, seen)


def waiting(far: RemoteQueueManager, seen: Sightings) -> None:
    """Messages come while it waits for them."""
    queue = far.queue(ORDERS)
    again(lambda: seen.add(queue.receive(1)))


def waiting_ahead(far: RemoteQueueManager, seen: Sightings) -> None:
    far._reading.prefetch = WINDOW
    waiting(far, seen)


def consuming(far: RemoteQueueManager, seen: Sightings) -> None:
    consume(far, seen, 0)


def consuming_ahead(far: RemoteQueueManager, seen: Sightings) -> None:
    consume(far, seen, WINDOW)


def consume(far: RemoteQueueManager, seen: Sightings, prefetch: int) -> None:
    def step() -> None:
        with far.queue(ORDERS).consume(timeout=0, prefetch=prefetch) as consumer:
            while (message := consumer.next()) is not None:
                seen.add(message)
        raise IoTimeout("no more")

    again(step)


CONSUMERS = (consuming, consuming_ahead)
WAITING = (waiting, waiting_ahead)
USUAL = (one_by_one, read_ahead, consuming_ahead)
WORKS = [one_by_one, in_batches, by_lookup, by_cursor, read_ahead, *CONSUMERS, *WAITING]


class Trial:
    """One run from the first connection to the account of it."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        level: MinimumAuthentication = "none",
        chunks: bool = False,
        death: Policy | None = None,
        power_at: int = 0,
        **plan: Any,
    ) -> None:
        self.level = level
        self.power_at = power_at  # the operation of the disk that is its last one
        self.death = death  # what a loss of power leaves; None: only the process dies
        self.world = World(SimDisk()).start()
        self.world.create("orders")
        grant(self.world, "orders", ANONYMOUS, QUEUE_GENERIC_ALL)  # type: ignore[arg-type]
        self._add_reader()
        self._late: list[bytes] = []  # messages that come when nothing else happens
        self.net = Net(self.serve, chunks=chunks)
        for name, value in plan.items():
            setattr(self.net, name, value)
        self.net.install(monkeypatch)
        monkeypatch.setattr(rpc_client, "FRAGMENT_MAX", FRAGMENT)
        monkeypatch.setattr(remote_state, "PAUSE_FIRST_S", 0.0)
        self.seen = Sightings()
        self.in_doubt = self.operations = self.points = 0

    def _add_reader(self) -> None:
        known = {"doors": (Door.RPC,), "groups": (ADMINISTRATORS,), "nt_hash": nt_hash(PASSWORD)}
        if self.level != "none":
            self._give_key()
            self.world.run(lambda m: m.accounts.add("reader", **known))  # type: ignore[arg-type]

    def _give_key(self) -> None:
        self.world.manager.certificates.key_file = lambda: bytes(32)

    def serve(self, net: Net) -> Server:
        world = self.world
        if net.deaths and self.death is None:
            world.kill()
        elif net.deaths:
            disk = world.disk.crash(self.death or "nothing")
            self.world = world = World(disk, world.witness.now()).start()
        self._give_key()
        desk = MortalDesk(world.driver, net.point)
        return Server(desk, lambda: world.clock.now_ms, minimum=self.level)

    def client(self) -> RemoteQueueManager:
        if self.level == "none":
            return posthouse.msmq("ALPHA", rpc_port=2103, timeout=5)
        return posthouse.msmq(
            "ALPHA", rpc_port=2103, timeout=5, user="reader", password=PASSWORD, mechanism="ntlm"
        )

    def _idle(self) -> None:
        """A message comes, or time passes."""
        if self._late:
            self.world.send("orders", self._late.pop(0))
        else:
            self.world.advance(IDLE_MS / 1000)

    def run(self, work: Work) -> Trial:
        self.net.idle = self._idle
        if work in WAITING:
            self._late = list(BODIES)
        else:
            for body in BODIES:
                self.world.send("orders", body)
        if self.power_at:
            self.world.disk.lose_power_at(self.power_at)
        written = self.world.disk.calls["any"]
        with self.client() as far:
            work(far, self.seen)
        self.in_doubt = far.in_doubt
        self.operations = self.world.disk.calls["any"] - written
        self.points = self.net.points
        self.net.rest()
        return self

    def bodies(self) -> list[bytes]:
        """What is left, wherever it lies."""
        names = [queue.name for queue in self.world.manager.queues.all()]
        return [body for name in names if "orders" in name for body in self.world.bodies(name)]

    # -- what must hold

    def check(self, *, consumed: bool = False) -> None:
        left = Counter(self.bodies())
        assert not left or max(left.values()) == 1
        for body in BODIES[: len(BODIES) - len(self._late)]:
            self._check_one(body, left[body] > 0)
        if not consumed:
            assert self.in_doubt <= self.net.doubts
            assert not any(m.in_doubt for m in self.seen.messages) or self.net.doubts
        assert set(left) <= set(BODIES)
        self.check_server()

    def _check_one(self, body: bytes, is_left: bool) -> None:
        times = self.seen.of(body)
        assert times or is_left, f"{body!r} is lost"
        if len(times) > 1 or (times and is_left):
            assert all(doubted for doubted, _ in times), f"{body!r} came twice, without a word"
        assert all(at_once for _, at_once in times[1:]), f"{body!r} came again, without a word"

    def check_server(self) -> None:
        world, server = self.world, self.net.server
        assert server is not None
        server.check_empty()
        assert not world.manager.ledger.locks
        world.check_books()
        for read in world.reads("orders"):
            assert read.aborts == 0
            seen = any(m.lookup_id == read.lookup_id for m in self.seen.messages)
            marked = world.manager.messages.reading.is_in_doubt(read.number)
            assert marked or not seen or self.net.deaths
        self.check_durable()

    def check_durable(self) -> None:
        """What was told is so after a loss of power, too."""
        before = self.bodies()
        self.world = World(self.world.disk.crash("nothing"), self.world.witness.now()).start()
        assert self.bodies() == before


def places(monkeypatch: pytest.MonkeyPatch, work: Work, **options: Any) -> Trial:
    """A run without trouble, for the places and points it has."""
    trial = Trial(monkeypatch, **options).run(work)
    trial.check(consumed=work in CONSUMERS)
    assert [message.body for message in trial.seen.messages] == BODIES
    assert trial.bodies() == []
    assert trial.in_doubt == 0
    return trial


def tried(monkeypatch: pytest.MonkeyPatch, work: Work, **plan: Any) -> Counter[str]:
    """One run with trouble, and what came of it."""
    trial = Trial(monkeypatch, **plan)
    try:
        trial.run(work).check(consumed=work in CONSUMERS)
    except BaseException as error:
        error.add_note(f"{work.__name__} with {plan}")
        raise
    again = len(trial.seen.messages) - len(BODIES)
    return Counter(runs=1, doubts=trial.in_doubt, again=again, deaths=trial.net.deaths)


@pytest.mark.spec("MS-MQRR 3.1.6.2/1", "MS-MQRR 3.2.4.4.1/3")
@pytest.mark.parametrize("noticed", Noticed)
@pytest.mark.parametrize("work", WORKS)
def test_a_line_that_is_cut_anywhere_loses_nothing_and_doubt_is_told(
    monkeypatch: pytest.MonkeyPatch, dose: Dose, work: Work, noticed: Noticed
) -> None:
    count, figures = places(monkeypatch, work).net.places, Counter[str]()
    usual = 4 if noticed is not Noticed.BOTH else 2 if work in USUAL else 3
    for place in range(1, count + 1, dose(usual, 1)):
        figures += tried(monkeypatch, work, cut_at=place, noticed=noticed)
    print(dict(figures))
    assert figures["runs"] > 10
    assert figures["doubts"]


@pytest.mark.parametrize("work", WORKS)
def test_a_server_that_reads_many_calls_at_once_does_the_same(
    monkeypatch: pytest.MonkeyPatch, dose: Dose, work: Work
) -> None:
    count = places(monkeypatch, work, chunks=True).net.places
    for place in range(1, count + 1, dose(4, 1)):
        tried(monkeypatch, work, chunks=True, cut_at=place)


DEATHS: list[Policy | None] = [None, "nothing", "everything", "random"]


def deaths(dose: Dose, number: int) -> list[Policy | None]:
    """One after the other, or all."""
    return DEATHS if dose(0, 1) else [DEATHS[number % len(DEATHS)]]


@pytest.mark.spec("MS-MQRR 3.1.4.9/3", "MS-MQRR 3.1.4.9/12", "MS-MQRR 3.1.4.9/13")
@pytest.mark.parametrize("answers_survive", [True, False])
@pytest.mark.parametrize("work", [one_by_one, in_batches, read_ahead, consuming_ahead, waiting])
def test_a_server_that_dies_between_any_two_steps_loses_nothing_and_doubt_is_told(
    monkeypatch: pytest.MonkeyPatch, dose: Dose, work: Work, answers_survive: bool
) -> None:
    """Only its process, or the whole machine with what was not synced."""
    count, figures = places(monkeypatch, work).points, Counter[str]()
    for point in range(1 + answers_survive, count + 1, dose(3, 1)):
        for death in deaths(dose, point):
            plan = {"die_at": point, "death": death, "answers_survive": answers_survive}
            figures += tried(monkeypatch, work, **plan)
    print(dict(figures))
    assert figures["deaths"] == figures["runs"] > 15
    assert figures["doubts"]


@pytest.mark.spec("MS-MQRR 3.1.4.9/12")
@pytest.mark.parametrize("work", [one_by_one, consuming_ahead])
def test_a_server_that_loses_its_power_while_it_writes_keeps_what_it_told(
    monkeypatch: pytest.MonkeyPatch, dose: Dose, work: Work
) -> None:
    count, figures = places(monkeypatch, work).operations, Counter[str]()
    for operation in range(1, count + 1):
        for policy in DEATHS[1:]:
            figures += tried(monkeypatch, work, death=policy, power_at=operation)
    print(dict(figures))
    assert figures["deaths"] == figures["runs"] > 5


class Once:
    """Something that is asked once: the answer says that it is done, or nobody knows."""

    def __init__(self) -> None:
        self.done = 0

    def __call__(self, far: RemoteQueueManager, seen: Sightings) -> None:
        with contextlib.suppress(ClientConnectionError):
            self.ask(far)
            self.done += 1

    def ask(self, far: RemoteQueueManager) -> None:
        raise NotImplementedError

    def check(self, trial: Trial) -> None:
        raise NotImplementedError


class Purging(Once):
    def ask(self, far: RemoteQueueManager) -> None:
        far.queue(ORDERS).purge()

    def check(self, trial: Trial) -> None:
        assert trial.bodies() in ([], BODIES)
        assert not self.done or not trial.bodies()


class Moving(Once):
    def ask(self, far: RemoteQueueManager) -> None:
        source, target = far.queue(ORDERS), far.queue(LATER)
        source.move(source.peek(0), target)

    def check(self, trial: Trial) -> None:
        assert sorted(trial.bodies()) == sorted(BODIES)
        left = trial.world.bodies("orders")
        assert left in (BODIES, BODIES[1:])
        assert not self.done or left == BODIES[1:]


@pytest.mark.parametrize("kind", [Purging, Moving])
def test_what_is_asked_once_is_done_where_that_was_told(
    monkeypatch: pytest.MonkeyPatch, kind: type[Once]
) -> None:
    quiet = Trial(monkeypatch).run(kind())
    plans: list[dict[str, Any]] = [{"cut_at": n} for n in range(1, quiet.net.places + 1)]
    plans += [{"die_at": n, "death": "nothing"} for n in range(1, quiet.points + 1)]
    outcomes: Counter[tuple[int, int]] = Counter()
    for plan in plans:
        work = kind()
        trial = Trial(monkeypatch, **plan).run(work)
        trial.check_server()
        work.check(trial)
        outcomes[work.done, len(trial.world.bodies("orders"))] += 1
    print(dict(outcomes))
    assert len(outcomes) == 3  # done and told, done and not told, not done


@pytest.mark.spec("MS-MQRR 3.1.4.9/12", "MS-MQRR 3.1.6.2/2")
@pytest.mark.parametrize("work", [one_by_one, consuming_ahead])
def test_sealed_lines_are_no_different(
    monkeypatch: pytest.MonkeyPatch, dose: Dose, work: Work
) -> None:
    count, figures = places(monkeypatch, work, level="privacy").net.places, Counter[str]()
    for place in range(1, count + 1, dose(3, 1)):
        figures += tried(monkeypatch, work, level="privacy", cut_at=place)
    print(dict(figures))
    assert figures["doubts"]


def hush(reader: RemoteReader, message: posthouse.Message) -> None:
    """Keeps a doubt to itself."""


def keep(queue: QueueContext, manager: QueueManager) -> None:
    """Keeps what a lost client had."""


def rest(file: SimFile) -> None:
    """Makes nothing durable."""


@pytest.mark.parametrize(
    ("where", "name", "careless"),
    [(RemoteReader, "doubt", hush), (QueueContext, "_run_down", keep), (SimFile, "sync", rest)],
)
def test_a_careless_client_or_server_or_disk_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch, where: object, name: str, careless: object
) -> None:
    count, noticed = places(monkeypatch, one_by_one).net.places, 0
    for place in range(1, count + 1):
        trial = Trial(monkeypatch, cut_at=place)
        with monkeypatch.context() as patch:
            patch.setattr(where, name, careless)
            try:
                trial.run(one_by_one).check()
            except AssertionError:
                noticed += 1
    assert noticed
