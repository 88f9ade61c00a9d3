"""Queue managers on simulated machines: the real engine, store and protocols between them.

Everything that reaches a machine comes through `SimManager.enter`. When its power goes, in the
middle of whatever it does, `PowerLost` leads back there, and its disk is what a crash left of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from random import Random
from typing import TypeVar

from posthouse.engine.ledger.effects import Effects, Event
from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import EngineSettings, QueueManagerSettings
from posthouse.engine.transfer.settings import StreamSettings
from posthouse.protocols.binary.next_hop_lookup import STANDARD_PORT
from posthouse.protocols.binary.protocol import BinaryProtocol
from posthouse.protocols.engine_calls import Answer, Call, Release
from posthouse.protocols.srmp.protocol import SrmpProtocol
from posthouse.protocols.srmp.settings import SrmpSettings
from posthouse.runtime.driver import Driver
from posthouse.sim.binary_network import Wires
from posthouse.sim.clock import Timer
from posthouse.sim.disk import Policy, SimDisk
from posthouse.sim.machine import SimMachine, World
from posthouse.sim.srmp_network import HTTP_PORT, Posts
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings

T = TypeVar("T")
Errand = Generator[Call, Answer, None]
"""What an application does: each call on the engine waits for the answer to the one before."""

OnTurn = Callable[["SimManager", Effects], None]
OnEvent = Callable[["SimManager", Event], None]
GATHER_MS = 3  # a turn takes along what comes within this long
SYNC_MS = 25
STOPPED_MS = 200  # a clean stop: its last packets have this long to leave
POLICIES: tuple[Policy, ...] = ("nothing", "everything", "random", "random")
SEGMENT_SIZE = 48 << 10  # small, so that segments are sealed, compacted and checkpointed


class SimDesk:
    """`posthouse.protocols.engine_calls.Desk`: appends as a turn ends, syncs later, answers."""

    def __init__(self, machine: SimManager, driver: Driver) -> None:
        self._machine = machine
        self.driver = driver
        self._open = False
        self._syncing = False
        self._wake: Timer | None = None

    @property
    def manager(self) -> QueueManager:
        """The engine."""
        return self.driver.manager

    def decide(self, call: Call, release: Release) -> None:
        """Runs a call in the open turn, or begins one."""
        self.begin()
        self.driver.decide(call, release)

    def begin(self) -> None:
        """Opens a turn, unless one is."""
        if not self._open:
            self.driver.begin_turn()
            self._open = True
            self._machine.later(self._machine.chance.randint(0, GATHER_MS), self._end_turn)

    def _end_turn(self) -> None:
        if not self._open:
            return
        self._machine.point()
        self._open = False
        self._append()
        self._machine.point()
        self.driver.tidy()
        self._settle()
        self._arm()

    def _append(self) -> None:
        self._machine.on_turn(self._machine, self.manager.machine.effects)
        self.driver.end_turn()

    def _settle(self) -> None:
        store = self.driver.store
        if store.synced >= store.appended:
            self.driver.release()
        elif not self._syncing:
            self._syncing = True
            self._machine.later(self._machine.chance.randint(0, SYNC_MS), self._sync)

    def _sync(self) -> None:
        self._syncing = False
        self._machine.point()
        self.driver.sync()
        self._machine.point()
        self.driver.release()
        self._settle()

    def _arm(self) -> None:
        """A turn for what the engine's own timers bring."""
        if self._wake is not None:
            self._wake.cancel()
        deadline_ms = self.manager.next_deadline_ms()
        if deadline_ms is not None:
            wait_ms = max(deadline_ms - self._machine.world.clock.now_ms, 1)
            self._wake = self._machine.later(wait_ms, self.begin)

    def finish(self) -> None:
        """Everything decided is synced and let out, and what comes of that too."""
        while self._open or self.driver.waiting_answers:
            self._open = False
            self._append()
            self.driver.sync()
            self.driver.release()


class SimManager(SimMachine):
    """One machine with one queue manager, which lives several times."""

    def __init__(self, world: World, name: str, address: str, seed: int) -> None:
        super().__init__(world, name, address, seed)
        self.on_fall: Callable[[SimManager], None] = lambda machine: None
        self.on_turn: OnTurn = lambda machine, effects: None  # decided, and not written yet
        self.on_event: OnEvent = lambda machine, event: None  # durable
        self.disk = SimDisk(seed)
        world.names[name] = address
        self.boot()

    # -- lives

    def boot(self) -> None:
        """Starts from what the disk has."""
        assert not self.up
        self.life += 1
        self.up = True
        self.world.network.revive(self.address)
        self.enter(self._start, self.life)

    def _start(self) -> None:
        world, clock = self.world, self.world.clock
        identity = Random(self.name).randbytes(16)
        self.store = LogStore(
            self.disk,
            StoreSettings(store_id=identity, segment_size=SEGMENT_SIZE, disk_reserve=0),
        )
        state = self.store.recover().state
        self.point()
        settings = EngineSettings(
            self.name,
            QueueManagerSettings(
                addresses=(self.address, world.nat) if self.seen_as else (self.address,),
                routing_server=self.name in world.routers,
                send_insecure_nacks=world.insecure_nacks,
            ),
            srmp=StreamSettings(receipt_ms=world.receipt_ms[0], receipt_max_ms=world.receipt_ms[1]),
            ports=frozenset({STANDARD_PORT, HTTP_PORT, *world.forwarded.values()}),
        )
        self.manager = QueueManager(
            settings, state, self.store.read, self.chance.randbytes, self.store.read_many
        )
        self.manager.start(clock.now_ms, clock.utc_seconds)
        driver = Driver(self.manager, self.store, lambda: (clock.now_ms, clock.utc_seconds))
        self.desk = SimDesk(self, driver)
        wires = Wires(self)
        self.protocol = BinaryProtocol(
            self.desk, world.binary, wires, lambda: clock.now_ms, world.ping
        )
        driver.on_active = self._active
        driver.on_event = lambda event: self.on_event(self, event)
        wires.plug_in(self.protocol)
        self.srmp: SrmpProtocol | None = None
        if world.srmp is not None:
            self.srmp = self._start_srmp(world.srmp)
        self.desk.begin()
        self.protocol.start()
        if self.srmp is not None:
            self.srmp.start()

    def _start_srmp(self, settings: SrmpSettings) -> SrmpProtocol:
        clock, posts = self.world.clock, Posts(self)
        srmp = SrmpProtocol(self.desk, settings, posts, lambda: clock.now_ms)
        posts.plug_in(srmp)
        if self.seen_as:
            srmp.listens("http", self.seen_as, self.world.forwarded[self.name])
        else:
            srmp.listens("http", self.address, HTTP_PORT)
        return srmp

    def _active(self, numbers: set[int]) -> None:
        self.protocol.active(numbers)
        if self.srmp is not None:
            self.srmp.active(numbers)

    def connected(self, beside: tuple[str, ...] = ()) -> bool:
        """Whether it has sessions or connections with others, beside some addresses."""
        sessions = [one for one in self.protocol.sessions if one.remote_address not in beside]
        found = [] if self.srmp is None else self.srmp.links.all()
        links = [link for link in found if link.name.host not in beside]
        return bool(sessions or links or (self.srmp and self.srmp.connections))

    def _fall(self) -> None:
        super()._fall()
        self.disk = self.disk.crash(self.chance.choice(POLICIES))
        self.on_fall(self)

    def stop(self) -> None:
        """A clean stop; connections are closed and told so."""
        life = self.life
        self.enter(self._stop, life)
        if self.life == life and not self.up:
            self.world.clock.call_later(STOPPED_MS, lambda: self._unplug(life))

    def _stop(self) -> None:
        self.protocol.stop()
        if self.srmp is not None:
            self.srmp.stop()
        self.desk.finish()
        self.desk.driver.close()
        self.up = False

    def _unplug(self, life: int) -> None:
        if self.life == life:
            self.world.network.kill(self.address)

    def move(self, address: str, *, silently: bool) -> None:
        """Gets another address, running or not; names lead there from now on."""
        network = self.world.network
        if self.up:
            network.move(self.address, address, silently=silently)
        else:
            network.kill(self.address)
        self.address = self.world.names[self.name] = address
        if self.up and self.srmp is not None:
            self.srmp.listens("http", address, HTTP_PORT)

    # -- what happens on it

    def run(self, errand: Errand) -> None:
        """An application begins; it ends with the machine's life at the latest."""
        self.enter(lambda: self._go_on(errand, None), self.life)

    def _go_on(self, errand: Errand, answer: Answer | None) -> None:
        try:
            call = next(errand) if answer is None else errand.send(answer)
        except StopIteration:
            return
        self.desk.decide(call, lambda given: self._go_on(errand, given))

    def now(self, call: Callable[[QueueManager], T]) -> T:
        """One call, synced at once; for the beginning and the end of a trial."""
        self.desk.finish()
        value = self.desk.driver.run(call)
        self.desk.finish()
        return value
